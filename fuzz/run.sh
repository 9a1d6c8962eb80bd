#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the fuzz targets and runs each for that number of seconds (default 60), or only those
# named. A stable Rust and a C++ compiler for libFuzzer are all it takes: the flags below are what
# `cargo fuzz --sanitizer none` sets; the crates have no unsafe code that a sanitizer would watch.
#
#   fuzz/run.sh [SECONDS [TARGET...]]        0 s: the corpus once, nothing new
#
# Seeds are in fuzz/corpus/TARGET.tar; what libFuzzer finds in addition grows in
# $TARDY_CACHE/fuzz/corpus/TARGET, and fuzz/keep.sh makes seeds of it; an input that fails is kept
# in $TARDY_CACHE/fuzz/artifacts/TARGET and its path is printed. Run the target on it to see it fail
# again.
set -eu
cd "$(dirname "$0")/.."

: "${TARDY_CACHE:=$PWD/.cache}"
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- experiment frame hints message run_folder samples

# Memory in MiB that a target may take, and seconds that one input may: beyond, it has failed.
MEMORY=2048
PATIENCE=10
# One input of a target is at most so long.
LONGEST=8192

command -v g++ >/dev/null || { echo "fuzz: g++ is missing, which builds libFuzzer: packaging/setup.sh soak" >&2; exit 3; }

export CARGO_TARGET_DIR="$TARDY_CACHE/fuzz/target"
target=x86_64-unknown-linux-gnu
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-trace-compares"
RUSTFLAGS="$coverage --cfg fuzzing" cargo build --release --locked --quiet --manifest-path fuzz/Cargo.toml --target $target

# Where a target lays its files, which it leaves behind when it ends: in memory if there is room,
# for a disk would be the slowest part.
TMPDIR=$(mktemp -d /dev/shm/tardy-fuzz.XXXXXX 2>/dev/null || mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM

failed=0
lines=""
for name in "$@"; do
  grown="$TARDY_CACHE/fuzz/corpus/$name"
  kept="$TARDY_CACHE/fuzz/artifacts/$name"
  log="$TARDY_CACHE/fuzz/$name.log"
  seeds="$TMPDIR/seeds/$name"
  mkdir -p "$grown" "$kept" "$seeds"
  tar --no-same-owner --no-same-permissions -xf "fuzz/corpus/$name.tar" -C "$seeds"
  find "$seeds" -mindepth 1 ! -type f -delete
  # 0 seconds would be no limit; no runs beyond the corpus is what is meant.
  if [ "$seconds" = 0 ]; then limit=-runs=0; else limit=-max_total_time=$seconds; fi
  echo "== fuzz $name, $seconds s"
  outcome=ok
  # The address space is bounded too: one allocation by an untrusted length must fail here and not
  # take the machine down.
  if ! (ulimit -v $((MEMORY * 2 * 1024)) && "$CARGO_TARGET_DIR/$target/release/$name" $limit -rss_limit_mb=$MEMORY \
    -timeout=$PATIENCE -max_len=$LONGEST -print_final_stats=1 -artifact_prefix="$kept/" "$grown" "$seeds") \
    >"$log" 2>&1; then
    outcome=FAILED
    failed=1
    tail -n 25 "$log" >&2
    input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    echo "fuzz: $name failed on ${input:-an input that it could not keep}; again with" >&2
    echo "fuzz:   $CARGO_TARGET_DIR/$target/release/$name ${input:-}" >&2
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
  peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log" | tail -n 1)
  cov=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  corpus=$(find "$grown" "$seeds" -type f | wc -l)
  lines="$lines$(printf '%-12s %10s %8s %8s %8s  %s' "$name" "${runs:-?}" "${cov:-?}" "$corpus" "${peak:-?}" "$outcome")
"
done

printf '\n%-12s %10s %8s %8s %8s\n%s' target inputs edges corpus 'peak MiB' "$lines"
exit $failed
