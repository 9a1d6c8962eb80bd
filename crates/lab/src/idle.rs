// SPDX-License-Identifier: MIT OR Apache-2.0
//! How deep idle CPUs may sleep: a bound on the time that one takes to wake up, which the kernel
//! keeps as long as a program has `/dev/cpu_dma_latency` open. That program is one of those that
//! run as long as the path does, so a kill of tardy releases the bound too.

use crate::command::Command;
use crate::host::HostId;
use crate::host::place::Place;
use crate::machine::FactsByHost;
use crate::path::keeper::Keeper;
use std::collections::BTreeSet;
use tardy_model::placement::WakeUpBound;
use tardy_spec::experiment::Setup;

/// The hosts whose CPUs are bound: those of the stations.
fn hosts(setup: &Setup) -> BTreeSet<HostId> {
    setup.stations.values().map(|station| station.host).collect()
}

/// What holds the bound, on each host. The file takes the text of a hexadecimal number of µs; four
/// bytes would be a binary one.
pub(crate) fn keepers(setup: &Setup) -> Vec<Keeper> {
    let Some(us) = setup.dma_latency_us else { return Vec::new() };
    let hold = format!("exec 3>/dev/cpu_dma_latency && echo 0x{us:08x} >&3 && echo held && read _");
    let keeper = |host| Keeper {
        place: Place { host, netns: None },
        why: "holds the bound on how long a CPU takes to wake up",
        command: Command::new("sh", &["-c", &hold]),
        is_optional: false,
    };
    hosts(setup).into_iter().map(keeper).collect()
}

/// What is recorded of a trial with such a bound. `name` is what the user calls another host.
pub(crate) fn record(
    setup: &Setup,
    found: &FactsByHost,
    name: impl Fn(HostId) -> Option<String>,
) -> Option<WakeUpBound> {
    let asked_us = setup.dma_latency_us?;
    let sleepless = |host: &HostId| found.of(*host).is_ok_and(|facts| facts.idle_states == Some(0));
    let named = |host: HostId| name(host).unwrap_or_else(|| "this machine".to_owned());
    Some(WakeUpBound { asked_us, without_idle_states: hosts(setup).into_iter().filter(sleepless).map(named).collect() })
}
