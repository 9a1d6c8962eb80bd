// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which of the machine's tasks a trial's record keeps: those that a verdict may name. A run folder is passed on, and what else runs
//! on a machine is nobody's business.

use std::collections::{BTreeMap, BTreeSet};
use tardy_model::machine::{MachineState, ThreadRecord};
use tardy_model::trial::StreamRecord;

/// CPUs on which a measuring thread was seen, or may have been; `None` if that is not known of one of them.
fn cpus_of(streams: &BTreeMap<String, StreamRecord>) -> Option<BTreeSet<u32>> {
    let of_thread = |thread: &ThreadRecord| {
        let seen = [&thread.cpus_seen, &thread.affinity].into_iter().find(|cpus| !cpus.is_empty())?;
        Some(seen.clone())
    };
    let threads = streams.values().flat_map(|stream| {
        let reply = stream.reply.as_ref().and_then(|reply| reply.thread.as_ref());
        [&stream.tx, &stream.rx].into_iter().chain(reply)
    });
    let cpus = threads.map(of_thread).collect::<Option<Vec<_>>>()?;
    Some(cpus.into_iter().flatten().collect())
}

/// Forgets the tasks that did not run in the trial, and those that ran on CPUs of no measuring thread.
pub(super) fn keep_only_named(
    before: &mut MachineState,
    after: &mut MachineState,
    streams: &BTreeMap<String, StreamRecord>,
) {
    let cpus = cpus_of(streams);
    after.tasks.retain(|tid, task| {
        let slept =
            before.tasks.get(tid).is_some_and(|earlier| (earlier.start, earlier.run_ns) == (task.start, task.run_ns));
        !slept && cpus.as_ref().is_none_or(|cpus| cpus.contains(&task.cpu))
    });
    before.tasks.retain(|tid, _| after.tasks.contains_key(tid));
    if let Some(ended) = &mut after.ended {
        ended.tasks.retain(|task| cpus.as_ref().is_none_or(|cpus| cpus.contains(&task.cpu)));
    }
}
