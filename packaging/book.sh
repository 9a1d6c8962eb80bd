#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the manual as a book at $TARDY_CACHE/book: gathers the chapters from where they lie, has
# $TARDY make the reference, runs mdBook, and fails on a link within the book that leads nowhere.
# `book.sh gather FOLDER` only gathers, and `book.sh links FILE...` only checks the links.
set -eu

# Over the HTML files of a folder, called there: does every link within it lead to a file, and to a
# place in that file? The first function makes `./c.html` of `./a/b.html` and `../c.html`.
links() {
  awk 'function resolve(from, to,    parts, kept, n, i, count, path) {
  sub(/[^\/]*$/, "", from)
  n = split(from to, parts, "/")
  count = 0
  for (i = 1; i <= n; i++) {
    if (parts[i] == "" || parts[i] == ".") continue
    if (parts[i] == "..") { if (count == 0) return "outside"; count--; continue }
    kept[++count] = parts[i]
  }
  path = "."
  for (i = 1; i <= count; i++) path = path "/" kept[i]
  return path
}

function exists(path,    line, got) {
  if (!(path in there)) {
    got = (getline line < path)
    there[path] = (got >= 0)
    if (got >= 0) close(path)
  }
  return there[path]
}

{
  text = $0
  while (match(text, / id="[^"]*"/)) {
    place[FILENAME, substr(text, RSTART + 5, RLENGTH - 6)] = 1
    text = substr(text, RSTART + RLENGTH)
  }
  text = $0
  while (match(text, / (href|src)="[^"]*"/)) {
    link = substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH)
    sub(/^ (href|src)="/, "", link)
    sub(/"$/, "", link)
    if (link !~ /^[a-z]+:/ && link != "") links[++all] = FILENAME SUBSEP link
  }
}

END {
  for (i = 1; i <= all; i++) {
    split(links[i], pair, SUBSEP)
    to = pair[2]
    anchor = ""
    if ((at = index(to, "#")) > 0) { anchor = substr(to, at + 1); to = substr(to, 1, at - 1) }
    path = to == "" ? pair[1] : resolve(pair[1], to)
    # A page that is shown for any address counts its links from the root.
    if (pair[1] == "./404.html") continue
    if (path == "outside" || !exists(path)) wrong[++bad] = pair[1] ": no such page: " pair[2]
    else if (anchor != "" && path ~ /\.html$/ && !((path, anchor) in place)) wrong[++bad] = pair[1] ": no such place: " pair[2]
  }
  for (i = 1; i <= bad; i++) print "book: " wrong[i] > "/dev/stderr"
  if (all < 100) { print "book: only " all " links were found: is this the book?" > "/dev/stderr"; exit 1 }
  exit bad > 0
}
' "$@"
}

if [ "${1:-}" = links ]; then
  shift
  links "$@"
  exit
fi
cd "$(dirname "$0")/.."
: "${TARDY:=dist/tardy}"

# All chapters keep their places, so a link between two files is true in the repository and in the
# book.
gather() {
  rm -rf "$1"
  mkdir -p "$1/src"
  cp book.toml "$1"
  cp README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md deny.toml LICENSE-MIT LICENSE-APACHE "$1/src"
  cp -R docs experiments integrations "$1/src"
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
(cd "$TARDY_CACHE/book" && find . -name '*.html' | sort | xargs "$OLDPWD/packaging/book.sh" links)
echo "book: $TARDY_CACHE/book/index.html"
