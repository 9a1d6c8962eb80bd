// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which of a machine's tasks a trial's record keeps: those that a verdict may name. A run folder
//! is passed on, and what else runs on a machine is nobody's business.

use crate::host::{CpuId, HostId};
use crate::not_found::NotFound;
use crate::station::host_of;
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::machine::{MachineState, ThreadRecord};
use tardy_model::trial::StreamRecord;
use tardy_spec::experiment::Setup;

/// CPUs on which measuring threads were seen, or may have been, of each host that has such a
/// thread; without those of a host of one of whose threads that is not known.
#[derive(Debug, Default)]
pub(super) struct Measuring {
    cpus: BTreeSet<CpuId>,
    unknown: BTreeSet<HostId>,
}

impl Measuring {
    /// True if a measuring thread may have been on it.
    fn may_be_on(&self, cpu: CpuId) -> bool {
        self.unknown.contains(&cpu.host) || self.cpus.contains(&cpu)
    }
}

/// Where the threads of these streams were.
///
/// # Errors
/// If a stream names a station that is not there.
pub(super) fn cpus_of(setup: &Setup, records: &BTreeMap<String, StreamRecord>) -> Result<Measuring, NotFound> {
    let mut measuring = Measuring::default();
    for stream in &setup.streams {
        // One that did not run has none.
        let Some(record) = records.get(&stream.name) else { continue };
        let [from, to] = [host_of(setup, &stream.from)?, host_of(setup, &stream.to)?];
        let reply = record.reply.as_ref().and_then(|reply| reply.thread.as_ref());
        let threads = [(from, &record.tx), (to, &record.rx)].into_iter().chain(reply.map(|thread| (from, thread)));
        for (host, ThreadRecord { cpus_seen, affinity, .. }) in threads {
            match [cpus_seen, affinity].into_iter().find(|cpus| !cpus.is_empty()) {
                Some(seen) => measuring.cpus.extend(seen.iter().map(|cpu| CpuId { host, cpu: *cpu })),
                None => drop(measuring.unknown.insert(host)),
            }
        }
    }
    Ok(measuring)
}

/// Forgets the tasks of a host that did not run in the trial, and those that ran on CPUs of no
/// measuring thread.
pub(super) fn keep_only_named(host: HostId, [before, after]: [&mut MachineState; 2], measuring: &Measuring) {
    let is_named = |cpu: u32| measuring.may_be_on(CpuId { host, cpu });
    after.tasks.retain(|tid, task| {
        let slept =
            before.tasks.get(tid).is_some_and(|earlier| (earlier.start, earlier.run_ns) == (task.start, task.run_ns));
        !slept && is_named(task.cpu)
    });
    before.tasks.retain(|tid, _| after.tasks.contains_key(tid));
    if let Some(ended) = &mut after.ended {
        ended.tasks.retain(|task| is_named(task.cpu));
    }
}
