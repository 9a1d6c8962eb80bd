#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Keeps of what fuzz/run.sh has found since: lays those inputs into fuzz/corpus/TARGET.tar that
# reach what the ones there do not, the smallest first and not too many, for they are committed and
# every `make test` goes through them. What else was found is shrunk to what adds something.
#
#   fuzz/keep.sh [TARGET...]
set -eu
cd "$(dirname "$0")/.."

: "${TARDY_CACHE:=$PWD/.cache}"
[ $# -gt 0 ] || set -- experiment frame hints message run_folder samples

# A target's kept inputs together, bytes and number; the golden layer holds the sum of all.
BYTES=65536
INPUTS=300

pack="${CARGO_TARGET_DIR:-$TARDY_CACHE/target}/x86_64-unknown-linux-gnu/release/examples/seeds"
[ -x "$pack" ] || { echo "fuzz: what makes the archives is not built: cargo build --release --locked --workspace --examples" >&2; exit 3; }
built="$TARDY_CACHE/fuzz/target/x86_64-unknown-linux-gnu/release"
TMPDIR=$(mktemp -d /dev/shm/tardy-fuzz.XXXXXX 2>/dev/null || mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM

for name in "$@"; do
  [ -x "$built/$name" ] || { echo "fuzz: $name is not built: fuzz/run.sh 0 $name" >&2; exit 3; }
  grown="$TARDY_CACHE/fuzz/corpus/$name"
  ours="$TMPDIR/ours"
  merged="$TMPDIR/merged"
  mkdir -p "$grown" "$merged" "$ours"
  # Files alone: a link could lead anywhere.
  tar --no-same-owner --no-same-permissions -xf "fuzz/corpus/$name.tar" -C "$ours"
  find "$ours" -mindepth 1 ! -type f -delete
  cp "$ours"/* "$merged"
  log="$TARDY_CACHE/fuzz/$name.keep.log"
  # What is in the first folder stays; of the second comes what adds something.
  "$built/$name" -merge=1 -rss_limit_mb=2048 -timeout=10 "$merged" "$grown" >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    exit 1
  }
  rm -rf "$grown"
  mkdir "$grown"
  bytes=$(cat "$ours"/* | wc -c)
  inputs=$(find "$ours" -type f | wc -l)
  new=0
  # Smallest first.
  find "$merged" -type f -size +0c -printf '%s %f\n' | sort -n >"$TMPDIR/list"
  while read -r size file; do
    [ ! -e "$ours/$file" ] || continue
    cp "$merged/$file" "$grown"
    if [ $((bytes + size)) -le $BYTES ] && [ "$inputs" -lt $INPUTS ]; then
      cp "$merged/$file" "$ours"
      bytes=$((bytes + size)) inputs=$((inputs + 1)) new=$((new + 1))
    fi
  done <"$TMPDIR/list"
  "$pack" pack "$name" "$ours"
  rm -rf "$merged" "$ours"
  printf '%-12s %4s new of %4s that add something; the archive has %4s of them, %s bytes\n' "$name" "$new" \
    "$(find "$grown" -type f | wc -l)" "$inputs" "$bytes"
done
