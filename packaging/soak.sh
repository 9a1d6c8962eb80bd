#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The slow tests: the layers sim and netns with TARDY_SOAK=1, which makes their soak tests long, then each fuzz target for 60 s.
# Goes on where a part failed, and prints what became of each.
set -u
cd "$(dirname "$0")/.."

export TARDY_SOAK=1
parts="$TARDY_CACHE/soak"
rm -rf "$parts"
mkdir -p "$parts"
failed=0
table=""

part() {
  what=$1
  shift
  began=$(date +%s)
  { "$@" 2>&1; echo $? >"$parts/status"; } | tee "$parts/log"
  status=$(cat "$parts/status")
  outcome=ok
  [ "$status" = 0 ] || { outcome="FAILED ($status)"; failed=1; }
  cat "$parts/log" >>"$parts/all"
  table="$table$(printf '%-44s %6s s  %s' "$what" "$(($(date +%s) - began))" "$outcome")
"
}

part "sim: two hours of simulated trials" packaging/test.sh sim
part "netns: kills, floods, 200 runs, 200 trials" packaging/test.sh netns
part "fuzz: four targets, 60 s each" fuzz/run.sh 60

echo
echo "== soak"
# What the tests measured, and the fuzzers' table.
grep -E '^(coordinator|agent [ab]): \[|^[0-9]+ (runs|trials) (in|of) ' "$parts/all"
grep -E '^(target|experiment|frame|message|run_folder) +' "$parts/all"
printf '\n%s' "$table"
exit $failed
