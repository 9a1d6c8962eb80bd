// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel prints of `lock:contention_begin` and `contention_end`, line by line, joined
//! into waits: the end of a wait is the next one of the same task for the same lock. Pure.

use std::collections::BTreeMap;
use tardy_model::copy::{Contention, KernelLock, MOST_LOCKS};

/// An event of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockEvent<'a> {
    pub task: u32,
    /// In the unit of the trace: ns where the kernel prints seconds, else readings of its counter.
    pub at: u64,
    pub lock: &'a str,
    /// What a wait is for, when it begins; `None` when it ends.
    pub flags: Option<&'a str>,
}

/// What a line says of a wait; `None` if it says something else.
pub fn event(line: &str) -> Option<LockEvent<'_>> {
    // `   dma0chan0-sg1-97      [001] .....     9.123456: contention_end: 00000000ab… (ret=0)`
    let (begins, (head, said)) = match line.split_once(": contention_begin: ") {
        Some(parts) => (true, parts),
        None => (false, line.split_once(": contention_end: ")?),
    };
    let (task, rest) = head.rsplit_once(" [")?;
    let (_, task) = task.trim_end().rsplit_once('-')?;
    let (lock, more) = said.trim_end().split_once(" (")?;
    let more = more.strip_suffix(')')?;
    let flags = if begins { more.strip_prefix("flags=").map(Some) } else { more.strip_prefix("ret=").map(|_| None) }?;
    let at = stamp(rest.split_whitespace().last()?)?;
    Some(LockEvent { task: task.parse().ok()?, at, lock, flags })
}

/// `12.345678` is seconds, here ns; `12345678` is a reading of the counter.
fn stamp(text: &str) -> Option<u64> {
    let Some((seconds, micros)) = text.split_once('.') else { return text.parse().ok() };
    let (seconds, micros): (u64, u64) = (seconds.parse().ok()?, micros.parse().ok().filter(|_| micros.len() == 6)?);
    seconds.checked_mul(1_000_000_000)?.checked_add(micros * 1_000)
}

/// Events that had no room, by a line that counts them: those that the kernel wrote and has no
/// more, and those that it did not write.
fn lost(line: &str) -> Option<u64> {
    // `# entries-in-buffer/entries-written: 120/150   #P:2`
    if let Some(of) = line.strip_prefix("# entries-in-buffer/entries-written: ") {
        let (has, written) = of.split_whitespace().next()?.split_once('/')?;
        return written.parse::<u64>().ok()?.checked_sub(has.parse().ok()?);
    }
    // `CPU:1 [LOST 30 EVENTS]`
    let (cpu, of) = line.split_once(" [LOST ")?;
    of.strip_suffix(" EVENTS]").filter(|_| cpu.starts_with("CPU:"))?.parse().ok()
}

/// By what the kernel knows a lock, and what it is.
type Which = (String, String);

/// What it is by the flags of a wait's beginning. A mutex is waited for awake at first, and then
/// asleep, which is one wait.
fn kind(flags: &str) -> String {
    let is_mutex = flags.split('|').any(|flag| flag == "MUTEX");
    if is_mutex { "mutex".to_owned() } else { flags.to_ascii_lowercase() }
}

/// Waits, as the lines of a trace come.
#[derive(Debug, Default)]
pub struct LockWaits {
    /// Of a task and a lock: since when, and for what.
    open: BTreeMap<(u32, String), (u64, String)>,
    /// When each wait began and ended.
    found: BTreeMap<Which, Vec<(u64, u64)>>,
    half: u64,
    lost: u64,
}

impl LockWaits {
    /// The next line. Of each CPU they come in the order of their time.
    pub fn push(&mut self, line: &str) {
        self.lost = self.lost.saturating_add(lost(line).unwrap_or(0));
        let Some(event) = event(line) else { return };
        let key = (event.task, event.lock.to_owned());
        match event.flags {
            // One that waits in another way from here on has begun before.
            Some(flags) => {
                self.open.entry(key).or_insert_with(|| (event.at, kind(flags)));
            }
            None => match self.open.remove(&key) {
                Some((since, kind)) => self.found.entry((key.1, kind)).or_default().push((since, event.at)),
                None => self.half += 1,
            },
        }
    }

    /// What they come to, with the time of a stamp in nanoseconds, and their unit.
    pub fn finish(self, unit_ns: i64, ns: impl Fn(u64) -> i64) -> Contention {
        let one = |((lock, kind), waits): (Which, Vec<(u64, u64)>)| {
            let took = || waits.iter().map(|(since, until)| ns(*until).saturating_sub(ns(*since)).max(0));
            let (sum_ns, max_ns) = (took().fold(0, i64::saturating_add), took().max().unwrap_or(0));
            KernelLock { lock, kind, waits: waits.len() as u64, sum_ns, max_ns }
        };
        let mut locks: Vec<KernelLock> = self.found.into_iter().map(one).collect();
        locks.sort_by(|a, b| b.sum_ns.cmp(&a.sum_ns).then_with(|| a.lock.cmp(&b.lock)));
        let others = locks.split_off(MOST_LOCKS.min(locks.len()));
        Contention {
            unit_ns,
            other_waits: others.iter().map(|lock| lock.waits).fold(0, u64::saturating_add),
            locks,
            half: self.half + self.open.len() as u64,
            lost: self.lost,
            ..Contention::default()
        }
    }
}
