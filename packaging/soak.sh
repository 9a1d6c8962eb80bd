#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The slow tests: the layer sim; of golden every edit of a run's records; of netns the tests that
# look for what is left behind, and those of tardy's own trace, with every legal combination of
# port, wait, kind, policy and CPUs; of vm those of other kernels and modules, which it fetches.
# TARDY_SOAK=1 makes the soak tests long. Then each fuzz target for 60 s. Goes on where a part
# failed, and prints what became of each. The rest of netns injects faults and wants no other
# verdict than theirs, which takes a machine without other work: that is for `make test`.
set -u
cd "$(dirname "$0")/.."

export TARDY_SOAK=1
parts="$TARDY_CACHE/soak"
rm -rf "$parts"
mkdir -p "$parts"
failed=0
table=""

# What it is, the most seconds that it may take, the command. What hangs is ended and has failed
# (124): whatever it holds is of its own process group, or a station's, which goes with its
# coordinator.
part() {
  what=$1
  most=$2
  shift 2
  began=$(date +%s)
  {
    timeout --kill-after=30 "$most" "$@" 2>&1 &
    echo $! >"$parts/pid"
    wait $! && echo 0 >"$parts/status" || echo $? >"$parts/status"
  } | tee "$parts/log"
  status=$(cat "$parts/status")
  outcome=ok
  [ "$status" = 0 ] || { outcome="FAILED ($status)"; failed=1; }
  cat "$parts/log" >>"$parts/all"
  table="$table$(printf '%-44s %6s s  %s' "$what" "$(($(date +%s) - began))" "$outcome")
"
}

# Ctrl-C does not reach a process group of its own.
trap 'kill "$(cat "$parts/pid")" 2>/dev/null; exit 130' INT TERM

part "sim: two hours of simulated trials" 1200 packaging/test.sh sim
part "golden: every edit of a run's records" 900 env TARDY_ONLY="hostile_run::" packaging/test.sh golden
part "netns: kills, floods, 200 runs, 200 trials" 2400 env TARDY_ONLY="leftovers:: foreign:: lab:: own_trace::" packaging/test.sh netns
part "vm: every kernel of Debian's; netdevsim and a QEMU, built" 5400 env TARDY_ONLY="bare:: copies:: killed:: lost:: machine:: shapers:: vfio:: xdp_cost:: xdp_there::" packaging/test.sh vm
part "outside: Spark reads a data set" 900 env TARDY_ONLY="two_workers_of_spark" packaging/test.sh outside
part "fuzz: six targets, 60 s each" 1800 fuzz/run.sh 60

echo
echo "== soak"
# What the tests measured, and the fuzzers' table.
grep -E '^(coordinator|agent [ab]): \[|^[0-9]+ (runs|trials) (in|of) ' "$parts/all"
grep -E '^(target|experiment|frame|hints|message|run_folder|samples) +' "$parts/all"
printf '\n%s' "$table"
exit $failed
