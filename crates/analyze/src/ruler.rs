// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a cell's trials agree with the ruler. The ruler says how late the timer of a thread is
//! here; `scheduled..wakeup` says how late it was in the trials. Where the two disagree, the
//! ruler's figure does not hold for these packets.

use crate::says;
use tardy_model::machine::RulerRecord;
use tardy_model::result::CellResult;
use tardy_model::validity::Validity;
use tardy_model::verdict::{Level, Verdict};

/// One of two p99s is another than the other beyond this factor. The 99th percentile of 1 000
/// wake-ups rests on ten values: with 95 % it lies between the ranks 984 and 996 (binomial), that
/// is between p98.4 and p99.6. In a tail that falls as 1/x, as that of stalls of all lengths does,
/// the values there are apart by a factor of four: two each way.
const FACTOR: i64 = 2;
/// Two figures that differ by less are the same: reading the clock and returning from the call
/// take as much, ns.
pub const GRAIN_NS: i64 = 1_000;

const TIMER: &str = "guest-timer";
const DISAGREES: &str = "ruler";

/// A sender whose timer is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    pub stream: String,
    /// What records call its host, where that is a virtual machine.
    pub host: Option<String>,
    /// It aims to wake so long before the scheduled instant, ns.
    pub advance_ns: i64,
    /// It spins for the last stretch, so that its timer's error is not to be seen.
    pub spins: bool,
}

/// The ruler's records of a cell's sender.
fn of_sender<'a>(cell: &CellResult, sender: &Sender, ruler: &'a [RulerRecord]) -> Vec<&'a RulerRecord> {
    let thread = format!("{}.tx", sender.stream);
    let Some(placed) = cell.placement.iter().find(|placed| placed.thread == thread) else { return Vec::new() };
    let same_cpu =
        |record: &RulerRecord| record.cpu.map_or("any".to_owned(), |cpu| cpu.to_string()) == placed.cpu_asked;
    let is_its = |record: &&RulerRecord| {
        record.host == sender.host
            && record.threads.contains(&thread)
            && record.policy == placed.policy_granted
            && same_cpu(record)
    };
    ruler.iter().filter(is_its).collect()
}

/// The 99th percentile of how late the sender woke, by its own aim. Where packets were lost that
/// of those received: a sender wakes before anybody knows what becomes of its packet.
fn woke_ns(cell: &CellResult, sender: &Sender) -> Option<i64> {
    let wakeup = cell.streams.get(&sender.stream)?.metrics.get("scheduled..wakeup")?;
    let p99_ns = wakeup.figures.quantiles.p99_ns.or_else(|| wakeup.received_only.as_ref()?.p99_ns)?;
    Some(p99_ns.saturating_add(sender.advance_ns))
}

/// Judges a cell. `emulated` is true of a sender in a guest whose processor is emulated, in real
/// time.
pub fn judge(
    cell: &CellResult,
    senders: &[Sender],
    ruler: &[RulerRecord],
    emulated: &dyn Fn(&Sender) -> bool,
    settings: &Validity,
) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for sender in senders.iter().filter(|_| !cell.trials.is_empty()) {
        let records = of_sender(cell, sender, ruler);
        let woke_ns = woke_ns(cell, sender);
        let late = emulator(sender, &records, woke_ns).filter(|_| emulated(sender));
        verdicts.extend(settings.weigh(TIMER, |by| late.iter().filter_map(|late| late.verdict(by)).collect()));
        let disagrees = woke_ns.filter(|_| !sender.spins).and_then(|woke_ns| disagrees(sender, &records, woke_ns));
        verdicts.extend(settings.weigh(DISAGREES, |_| disagrees.iter().cloned().collect()));
    }
    verdicts
}

/// The latest that is known of a timer.
struct Late<'a> {
    stream: &'a str,
    ns: i64,
    ruler_ns: Option<i64>,
    woke_ns: Option<i64>,
    /// It is a station's machine, and not the whole run's.
    in_machine: bool,
}

fn emulator<'a>(sender: &'a Sender, records: &[&RulerRecord], woke_ns: Option<i64>) -> Option<Late<'a>> {
    let ruler_ns = records.iter().map(|record| record.timer_p99_ns).max();
    let (ns, in_machine) = (ruler_ns.max(woke_ns)?, sender.host.is_some());
    Some(Late { stream: &sender.stream, ns, ruler_ns, woke_ns, in_machine })
}

impl Late<'_> {
    /// In such a guest no counter shows that the emulator waited for a CPU of the host: only that
    /// its timers are late.
    fn verdict(&self, settings: &Validity) -> Option<Verdict> {
        let limit_ns = settings.ns(TIMER);
        if self.ns < limit_ns {
            return None;
        }
        let says = format!(
            "the timer of {}.tx was late by {} at p99 in a guest whose processor is emulated: these latencies are those of the emulator, \
             which waited for the host{}",
            self.stream,
            says::time(self.ns),
            if self.in_machine { "" } else { "; use --in guest:exact" }
        );
        let mut verdict = Verdict::new(TIMER, Level::Invalid, says)
            .with("stream", self.stream)
            .with("timer_p99_ns", self.ns)
            .with("limit_ns", limit_ns);
        if let Some(ns) = self.ruler_ns {
            verdict = verdict.with("ruler_p99_ns", ns);
        }
        if let Some(ns) = self.woke_ns {
            verdict = verdict.with("wakeup_p99_ns", ns);
        }
        Some(verdict)
    }
}

/// The trials woke later, or earlier, than both readings of the ruler say.
fn disagrees(sender: &Sender, records: &[&RulerRecord], woke_ns: i64) -> Option<Verdict> {
    let of = |after: bool| records.iter().find(|record| record.after == after).map(|record| record.timer_p99_ns);
    let (before, after) = (of(false), of(true));
    let (least, most) = (before.into_iter().chain(after).min()?, before.into_iter().chain(after).max()?);
    let far = |less: i64, more: i64| more > less.saturating_mul(FACTOR).saturating_add(GRAIN_NS);
    let (level, what) = if far(most, woke_ns) {
        (Level::Warning, "later than the ruler says: its timer error is too small for these packets")
    } else if far(woke_ns, least) {
        (Level::Note, "earlier than the ruler says: what disturbed it did not disturb these packets so much")
    } else {
        return None;
    };
    let read = |ns: Option<i64>| ns.map_or("not measured".to_owned(), says::time);
    let says = format!(
        "{}.tx woke {what} (late by {} at p99 in the trials; by the ruler {} before them and {} after them)",
        sender.stream,
        says::time(woke_ns),
        read(before),
        read(after)
    );
    let mut verdict =
        Verdict::new(DISAGREES, level, says).with("stream", sender.stream.as_str()).with("wakeup_p99_ns", woke_ns);
    for (name, ns) in [("before_p99_ns", before), ("after_p99_ns", after)] {
        if let Some(ns) = ns {
            verdict = verdict.with(name, ns);
        }
    }
    Some(verdict)
}
