#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs the test layers named, each a binary of its own, cheapest first; then counts what was skipped
# and why. A skip that MAY_SKIP does not list fails the run: a machine that cannot test is not a
# green machine.
# TARDY_ONLY="leftovers:: lab::" runs only the tests of these names. Only the layers that build
# paths and look for what a killed guest leaves run as root, and root gets sudo's own PATH.
set -eu

# Tests that may skip on a machine that cannot run them, by their names. They need the kernel of
# Debian's testing, modules of DMA controllers that are built, a QEMU that takes minutes to build,
# half a gigabyte of Spark, or minutes of waiting: the soak has all five.
MAY_SKIP="a_machine_in_an_exact_guest_repeats_to_the_nanosecond \
a_machine_with_a_device_of_its_own_repeats_to_the_nanosecond \
a_line_that_a_program_printed_cost_what_was_foretold_and_programs_were_interpreted \
a_killed_run_left_its_machine_s_device_with_another_driver \
a_round_trip_over_tap_and_vhost_takes_no_longer_than_a_bare_program_s_by_a_tenth \
a_machine_that_hung_in_a_trial_ended_it_without_its_console \
a_device_reads_and_writes_the_memory_of_port_xdp_itself \
every_channel_of_the_kernels_dmatest_has_the_figures_that_the_kernel_prints \
what_the_kernels_dmatest_refuses_is_one_error_that_says_what \
chains_of_descriptors_go_over_every_channel_and_leave_nothing \
a_guest_brings_the_test_of_chains_by_itself \
two_workers_of_spark_give_the_same_percentiles"

sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo --preserve-env=TARDY,TARDY_CACHE,TARDY_SKIPS,TARDY_SOAK"
: "${TARDY_SKIPS:=$TARDY_CACHE/skips}"
: > "$TARDY_SKIPS"

# The whole workspace as `make test` has built it: naming a package would choose other features and
# build all anew.
built=$(cargo test --release --locked --no-run --message-format=json 2>/dev/null |
  sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')

for layer in "$@"; do
  as_root=""
  case $layer in netns | vm) as_root=$sudo ;; esac
  echo "== $layer"
  # Its guests boot this kernel; fetched once, into the cache.
  for kernel in debian:6.12 debian:6.12-rt; do
    if [ "$layer" = vm ] && "$TARDY" guest list | grep -q "^$kernel .*not fetched"; then
      "$TARDY" guest fetch "$kernel"
    fi
  done
  binary=$(echo "$built" | grep "/$layer-" | tail -n 1)
  [ -x "$binary" ] || { echo "test: the binary of layer $layer was not built" >&2; exit 1; }
  # A soak's figures are worth reading, though it passed.
  show=""
  [ -z "${TARDY_SOAK:-}" ] || show="--show-output"
  # shellcheck disable=SC2086
  (cd tests && $as_root env TARDY_SKIPS="$TARDY_SKIPS" "$binary" --test-threads=2 $show ${TARDY_ONLY:-})
done

skipped=$(sort -u "$TARDY_SKIPS" | wc -l)
sort -u "$TARDY_SKIPS" | sed 's/^/skipped: /'
echo "$skipped skipped, $(echo $MAY_SKIP | wc -w) listed in packaging/test.sh"
sort -u "$TARDY_SKIPS" | cut -d: -f1 | while read -r name; do
  case " $MAY_SKIP " in
    *" $name "*) ;;
    *) echo "test: $name was skipped, and MAY_SKIP in packaging/test.sh does not list it" >&2; exit 1 ;;
  esac
done
