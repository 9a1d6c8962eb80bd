# SPDX-License-Identifier: MIT OR Apache-2.0
# Over the HTML files of a folder, called there: does every link within it lead to a file, and to a
# place in that file?

# `./a/b.html` and `../c.html` give `./c.html`.
function resolve(from, to,    parts, kept, n, i, count, path) {
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
