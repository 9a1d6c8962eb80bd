// SPDX-License-Identifier: MIT OR Apache-2.0
//! A measuring thread: pinned, scheduled, its memory touched; then read back, because what was
//! asked is not what you have.

use crate::order::ThreadOrder;
use std::sync::OnceLock;
use tardy_model::placement::ThreadRecord;
use tardy_model::time::{Instant, Monotonic, Tai};
use tardy_sys::proc::{Schedstat, Stat, Status, Task};
use tardy_sys::{clock, thread};

/// Stack of a measuring thread: it is locked into memory, so the usual 8 MiB would cost as much.
pub const STACK: usize = 512 << 10;

/// Locks the process's memory, once; the kernel's reason if it refuses.
pub fn lock_memory() -> Option<String> {
    static LOCKED: OnceLock<Option<String>> = OnceLock::new();
    LOCKED.get_or_init(|| thread::lock_memory().err().map(|error| error.to_string())).clone()
}

fn memory_is_locked() -> bool {
    Status::of(Task::Own).unwrap_or_default().locked_kib().is_some_and(|locked| locked > 0)
}

/// Run time and run-queue wait of a thread so far.
fn schedstat(tid: u32) -> Option<Schedstat> {
    Schedstat::of(Task::OwnThread(tid)).ok()
}

/// CPU that a thread of this process ran on last.
pub fn last_cpu(tid: u32) -> Option<u32> {
    Some(Stat::of(Task::OwnThread(tid)).ok()?.cpu)
}

/// What a thread of this process has used since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Run time and run-queue wait.
    run: Option<Schedstat>,
    /// Voluntary and involuntary context switches.
    switches: (u64, u64),
    /// Moves from CPU to CPU.
    migrations: Option<u64>,
    /// When it was asked, since boot, ns.
    asked_ns: i64,
}

impl Usage {
    /// False of a thread that had ended when it was asked about.
    pub fn is_known(&self) -> bool {
        self.run.is_some()
    }
}

/// Reads what a thread of this process has used so far; any thread may ask.
pub fn usage(tid: u32) -> Usage {
    let status = Status::of(Task::OwnThread(tid)).unwrap_or_default();
    Usage {
        run: schedstat(tid),
        switches: (status.voluntary_switches().unwrap_or(0), status.involuntary_switches().unwrap_or(0)),
        migrations: Task::OwnThread(tid).migrations(),
        asked_ns: elapsed_ns(),
    }
}

/// How long a thread of this process has waited for a CPU so far, ns; any thread may ask.
pub fn waited_ns(tid: u32) -> Option<i64> {
    schedstat(tid).map(|stat| stat.wait_ns)
}

/// What a thread waited for a CPU between two readings, ns.
pub fn waited_between(before: Usage, waited_ns: Option<i64>) -> Option<i64> {
    Some(waited_ns? - before.run?.wait_ns)
}

/// True if a thread of this process has run since it was asked about; where the kernel does not
/// say, it may have.
pub fn has_run_since(tid: u32, asked: Usage) -> bool {
    asked.run.zip(schedstat(tid)).is_none_or(|(then, now)| then.run_ns != now.run_ns)
}

/// Notes in a record what its thread used between two readings.
pub fn used(record: &mut ThreadRecord, before: Usage, after: Usage) {
    record.voluntary_switches = after.switches.0.saturating_sub(before.switches.0);
    record.involuntary_switches = after.switches.1.saturating_sub(before.switches.1);
    let both = before.run.zip(after.run);
    record.run_ns = both.map(|(before, after)| after.run_ns - before.run_ns);
    record.wait_ns = both.map(|(before, after)| after.wait_ns - before.wait_ns);
    record.over_ns = Some(after.asked_ns - before.asked_ns);
    record.migrations = before.migrations.zip(after.migrations).map(|(before, after)| after.saturating_sub(before));
}

/// The calling thread's account from set-up to the end.
pub struct Account {
    record: ThreadRecord,
    began: Usage,
}

/// Pins and schedules the calling thread as ordered and reads back what it got. Nothing refused is
/// an error: it is recorded, and judged later.
pub fn set_up(order: &ThreadOrder) -> Account {
    let mut refused = Vec::new();
    let mut note = |result: Result<(), tardy_sys::SysError>| {
        if let Err(error) = result {
            refused.push(error.to_string());
        }
    };
    if let Some(cpu) = order.cpu {
        note(thread::pin(cpu));
    }
    note(thread::set_policy(order.policy));
    if let Some(reason) = lock_memory() {
        refused.push(reason);
    }
    let tid = thread::id();
    let record = ThreadRecord {
        tid,
        policy_asked: order.policy.to_string(),
        policy_granted: thread::policy().map_or_else(|error| error.to_string(), |policy| policy.to_string()),
        cpu_asked: order.cpu,
        affinity: thread::affinity().unwrap_or_default(),
        cpus_seen: vec![thread::current_cpu()],
        memory_locked: memory_is_locked(),
        refused,
        timer_slack_ns: thread::timer_slack_ns().ok(),
        ..ThreadRecord::default()
    };
    Account { record, began: usage(tid) }
}

impl Account {
    /// What has been read back so far.
    pub fn record(&self) -> &ThreadRecord {
        &self.record
    }

    /// The trial begins; until then what the thread uses counts from its set-up. Where it ran
    /// before means nothing for the trial.
    pub fn begin(&mut self) {
        self.record.cpus_seen = vec![thread::current_cpu()];
        self.began = usage(self.record.tid);
    }

    /// The trial began at this reading, which another thread took: what was used before is not in
    /// the record. A thread that never heard of a trial has none, and keeps all.
    pub fn began_at(&mut self, began: Option<&Usage>) {
        if let Some(began) = began.filter(|began| began.is_known()) {
            self.began = *began;
        }
    }

    /// It has learned that its first packet is due at `base`.
    pub fn learned_base(&mut self, base: Instant<Tai>) {
        self.record.told_ahead_ns = Some((base - clock::now::<Tai>()).0);
    }

    /// The NAPI context of the socket that the thread receives from.
    pub fn napi(&mut self, id: u32) {
        self.record.napi_id = Some(id);
    }

    /// The trial has ended.
    pub fn end(mut self) -> ThreadRecord {
        let now = usage(self.record.tid);
        used(&mut self.record, self.began, now);
        saw(&mut self.record, thread::current_cpu());
        self.record
    }
}

/// Notes a CPU that the thread was seen on.
pub fn saw(record: &mut ThreadRecord, cpu: u32) {
    if !record.cpus_seen.contains(&cpu) {
        record.cpus_seen.push(cpu);
    }
}

/// Time since boot, for bounded waits of control threads.
pub fn elapsed_ns() -> i64 {
    clock::now::<Monotonic>().ns()
}
