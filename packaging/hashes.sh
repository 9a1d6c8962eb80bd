#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes packaging/requirements.txt and requirements-soak.txt of the versions below: every Python
# package that is installed, also those that the named ones need, with its version and the SHA-256
# of each of its files on the index. Needs the network and Python's venv.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Other people's tools that read what tardy writes (test layer `outside`) or compute the same
# (benchmarks); and what checks the types of tardy's own package.
cat > "$work/requirements.in" <<'END'
duckdb==2.0.0
hdrhistogram==0.10.8
jsonschema==4.26.0
mypy==2.4.1
numpy==2.4.6
pandas==3.1.1
polars==2.1.0
prometheus_client==0.26.0
pyarrow==26.0.1
viztracer==1.1.1
END

# Half a gigabyte: only for the soak.
cat > "$work/requirements-soak.in" <<'END'
pyspark==4.3.0
END

/usr/bin/python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pip-tools
for name in requirements requirements-soak; do
  # What is pinned already stays as it is, unless another version is asked for.
  [ ! -f $name.txt ] || cp $name.txt "$work/made.txt"
  "$work/venv/bin/pip-compile" --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
    --no-emit-find-links --no-emit-index-url --output-file "$work/made.txt" "$work/$name.in"
  {
    echo '# SPDX-License-Identifier: MIT OR Apache-2.0'
    echo '# Made by packaging/hashes.sh: do not edit it.'
    echo '# pip installs nothing whose hash is not here.'
    grep -v '^ *#' "$work/made.txt" | sed '/^$/d'
  } > $name.txt
  rm "$work/made.txt"
done
