#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Has cargo-deny check the crates against deny.toml, and their advisories where a database can be
# reached. Where it is not installed it is put into $TARDY_CACHE/deny; the golden layer checks
# licences, sources and doubled crates without it.
set -eu
cd "$(dirname "$0")/.."
: "${TARDY_CACHE:=$PWD/.cache}"
version=0.20.2

deny="$TARDY_CACHE/deny/bin/cargo-deny"
[ -x "$deny" ] || deny=$(command -v cargo-deny || true)
if [ -z "$deny" ]; then
  echo "deny: building cargo-deny $version into $TARDY_CACHE/deny" >&2
  # Unoptimised: it runs for seconds and is compiled for a minute.
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_TARGET_DIR="$TARDY_CACHE/deny-target" \
    cargo install --quiet --locked --force --root "$TARDY_CACHE/deny" "cargo-deny@$version"
  rm -rf "$TARDY_CACHE/deny-target"
  deny="$TARDY_CACHE/deny/bin/cargo-deny"
fi
# It looks at what is built for this machine, the golden layer at all targets: there deny.toml has
# more than it meets.
more="-A unmatched-skip -A unnecessary-skip -A license-not-encountered"
# shellcheck disable=SC2086
"$deny" --locked check $more licenses bans sources
if "$deny" --locked fetch db >/dev/null 2>&1; then
  "$deny" --locked check advisories
else
  echo "deny: the database of advisories cannot be reached, so none are looked up" >&2
fi
