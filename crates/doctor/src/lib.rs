// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a latency engineer checks by hand on a machine before a figure is believed: each check is a
//! fact, a verdict, what it costs, and how to fix it. [`Seen`] is what was read of the machine; the
//! checks are pure functions of it, one file for each area.

mod check;
mod clocks;
mod interrupts;
mod isolation;
mod kernel;
mod live;
mod needs;
mod network;
mod nics;
mod numa;
mod power;
mod quota;
mod root;
mod scheduler;
mod seen;
mod services;
mod tasks;
mod tried;

pub use check::{Area, Check, Diagnosis, Fix, FixCommand, Verdict, list, problems};
pub use live::{Live, Watched, check as live, column, watch};
pub use needs::Needs;
pub use nics::{SeenNic, listen, physical, read as read_nic, try_modes};
pub use quota::Quota;
pub use seen::{Interrupt, Seen, SeenTask, of_mask};
pub use services::ClockService;
pub use tried::{Tried, try_all};

use tardy_sys::SysError;

/// The checks of an area, for these CPUs.
type Checks = fn(&Seen, &[u32]) -> Vec<Check>;

/// All areas, in the order in which they are shown. A new one is a file and a line here.
const AREAS: [Checks; 7] = [
    isolation::checks,
    interrupts::checks,
    power::checks,
    scheduler::checks,
    clocks::checks,
    network::checks,
    kernel::checks,
];

/// How a live test is asked for: on which CPU, and how long, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub cpu: u32,
    pub for_ns: i64,
}

/// Checks what was read of a machine, for these CPUs: those that are to be left alone. Without any,
/// what is about the whole machine is left.
pub fn diagnose(seen: &Seen, cpus: &[u32]) -> Vec<Check> {
    AREAS.iter().flat_map(|checks| checks(seen, cpus)).collect()
}

/// The CPUs that a machine leaves alone, by its command line.
pub fn left_alone(seen: &Seen) -> Vec<u32> {
    let lists = [&seen.isolated, &seen.nohz_full].into_iter().flatten().flatten();
    let cpus: std::collections::BTreeSet<u32> = lists.copied().collect();
    cpus.into_iter().collect()
}

/// Watches one CPU, notes which interrupts came to it, and says what took it away.
///
/// # Errors
/// If the watching thread may not run there.
pub fn watched(seen: &mut Seen, asked: Asked) -> Result<Check, SysError> {
    let found = watch(asked.cpu, asked.for_ns)?;
    seen.came.insert(asked.cpu, found.counted.of_devices());
    Ok(live::check(seen, &found))
}
