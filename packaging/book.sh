#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the manual as a book at $TARDY_CACHE/book: gathers the chapters from where they lie, has
# $TARDY make the reference, runs mdBook, and fails on a link within the book that leads nowhere.
# `book.sh gather FOLDER` only gathers.
set -eu
cd "$(dirname "$0")/.."
: "${TARDY:=dist/tardy}"

# All chapters keep their places, so a link between two files is true in the repository and in the
# book.
gather() {
  rm -rf "$1"
  mkdir -p "$1/src"
  cp book.toml "$1"
  cp README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md deny.toml LICENSE-MIT LICENSE-APACHE "$1/src"
  cp -R docs experiments "$1/src"
  reference="$1/src/docs/reference"
  "$TARDY" man --reference "$reference"
  made=$(cat "$reference/SUMMARY.md")
  rm "$reference/SUMMARY.md"
  printf '%s\n' "$made" >> "$reference/README.md"
  # docs/SUMMARY.md counts from docs/, the book's from the root.
  printf '%s\n' "$made" | sed 's#](#](reference/#; s/^/  /' > "$1/made"
  sed "/<!-- made -->/{
r $1/made
d
}" "$1/src/docs/SUMMARY.md" | sed 's#](#](docs/#; s#](docs/\.\./#](#' > "$1/src/SUMMARY.md"
  rm "$1/made" "$1/src/docs/SUMMARY.md"
  # mdBook makes index.html of a README.md, and toc.html of the summary.
  find "$1/src" -name '*.md' ! -name SUMMARY.md -exec sed -i 's#\(](\([^):]*/\)\{0,1\}\)README\.md#\1index.md#g; s#](docs/SUMMARY\.md)#](toc.html)#' {} +
}

if [ "${1:-}" = gather ]; then
  gather "$2"
  exit
fi

# Debian 12 has no mdBook. Unoptimised and without its web server it costs 100 s of CPU time, once.
version=0.5.4
mdbook="$TARDY_CACHE/mdbook/bin/mdbook"
if [ "$("$mdbook" --version 2>/dev/null || true)" != "mdbook v$version" ]; then
  echo "book: installing mdBook $version into $TARDY_CACHE/mdbook" >&2
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_TARGET_DIR="$TARDY_CACHE/mdbook-target" cargo install --quiet --force --locked \
    --no-default-features --features search --root "$TARDY_CACHE/mdbook" "mdbook@$version"
  rm -rf "$TARDY_CACHE/mdbook-target"
fi

gather "$TARDY_CACHE/book-src"
rm -rf "$TARDY_CACHE/book"
"$mdbook" build --dest-dir "$TARDY_CACHE/book" "$TARDY_CACHE/book-src"
(cd "$TARDY_CACHE/book" && find . -name '*.html' | sort | xargs awk -f "$OLDPWD/packaging/links.awk")
echo "book: $TARDY_CACHE/book/index.html"
