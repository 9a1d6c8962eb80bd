// SPDX-License-Identifier: MIT OR Apache-2.0
//! Did packets leave when they should? Each is judged at `tx_kernel`, where a queue discipline
//! that holds packets hands them over: against the windows of its class, or against its launch
//! time less `etf.delta`. `docs/method/gates.md` says how.

use std::collections::BTreeMap;
use tardy_model::gates::Window;
use tardy_model::point::Point;
use tardy_model::qdisc::{GateRecord, Keeper};
use tardy_model::result::{GateResult, PhaseCounts};
use tardy_model::sample::{Batch, Outcome};
use tardy_model::trial::StreamRecord;

/// Parts of a cycle in which departures are counted.
pub const BINS: usize = 100;

/// A pass over the departures of one stream in one trial.
#[derive(Clone, Debug)]
pub struct GatePass {
    record: GateRecord,
    cycle_ns: i64,
    /// The stamps' clock may be wrong by so much.
    slack_ns: i64,
    /// Until then the stream's packets before have the wire, where taprio gives launch times.
    free_ns: i64,
    result: GateResult,
}

/// What is found of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// How far outside it left, ns: negative too early, positive too late, 0 inside.
    pub outside_ns: i64,
    /// From the opening of the window that it belongs to until that of the one in which, or
    /// nearest to which, it left, ns.
    pub slip_ns: i64,
}

/// A slip in cycles of the stream: the nearest whole number, of two that are as near the one of
/// less slip. Windows need not lie as evenly as the stream's cycles, so one window later is seldom
/// a multiple. Of the gates only cycles that passed are counted: one window later in the same
/// cycle is none.
fn stream_cycles(slip_ns: i64, cycle_ns: i64) -> i64 {
    let whole = (slip_ns.abs() + (cycle_ns - 1) / 2) / cycle_ns;
    whole * slip_ns.signum()
}

/// Where a release lies that should be at `due_ns`, and not later than `tolerance_ns` after it.
fn release(at_ns: i64, due_ns: i64, tolerance_ns: i64, slack_ns: i64) -> i64 {
    let error = at_ns - due_ns;
    if error < -slack_ns {
        error
    } else if error > tolerance_ns + slack_ns {
        error - tolerance_ns
    } else {
        0
    }
}

impl GatePass {
    /// For a stream of a trial; `None` where nothing decides when its packets leave, or a device
    /// does, which is behind every stamp that could tell. Without stamps at `tx_kernel` there is a
    /// pass in which no packet is judged.
    pub fn new(of: &StreamRecord) -> Option<Self> {
        let record = of.launching.gate.clone()?;
        if record.keeper == Keeper::Device || of.cycle_ns <= 0 {
            return None;
        }
        let slack_ns = of.tx_conversion.bound_ns;
        let gated = record.gates.as_ref();
        let windows = match gated {
            Some(gates) => gates.windows.clone(),
            None => {
                let open_ns = (-record.delta_ns).rem_euclid(of.cycle_ns);
                let until = if record.keeper == Keeper::EtfDeadline { record.delta_ns } else { record.tolerance_ns };
                vec![Window { open_ns, close_ns: open_ns + until }]
            }
        };
        let result = GateResult {
            class: record.class,
            keeper: record.keeper.name().to_owned(),
            at: Point::TxKernel.name().to_owned(),
            gate_cycle_ns: gated.map(|gates| gates.cycle_ns),
            stream_cycle_ns: of.cycle_ns,
            windows,
            release_before_ns: record.delta_ns,
            tolerance_ns: record.tolerance_ns,
            slipped: record.assigned_after_ns.is_none().then_some(0),
            phases: PhaseCounts {
                cycle: if gated.is_some() { "gates" } else { "stream" }.to_owned(),
                cycle_ns: gated.map_or(of.cycle_ns, |gates| gates.cycle_ns),
                counts: vec![0; BINS],
            },
            ..GateResult::default()
        };
        Some(GatePass { record, cycle_ns: of.cycle_ns, slack_ns, free_ns: i64::MIN, result })
    }

    /// The launch time that taprio gives a packet (get_packet_txtime in net/sched/sch_taprio.c):
    /// the first from which on all of it fits into an entry that its class may use, and not before
    /// the packets before it are out.
    fn given(&self, enqueued_ns: Option<i64>) -> Option<i64> {
        let after_ns = self.record.assigned_after_ns?;
        // Runs that were recorded without the entries have their windows.
        let gates = self.record.entries.as_ref().or(self.record.gates.as_ref())?;
        gates.next_open((enqueued_ns? + after_ns).max(self.free_ns), self.record.frame_ns)
    }

    /// The launch time of a packet: its own, or the one that taprio gives.
    fn launch(&self, scheduled_ns: i64, enqueued_ns: Option<i64>) -> Option<i64> {
        if self.record.assigned_after_ns.is_some() { self.given(enqueued_ns) } else { Some(scheduled_ns) }
    }

    /// Judges a packet that came to the driver at `at_ns`, due at `scheduled_ns`, enqueued at
    /// `enqueued_ns`.
    pub fn judge(&self, scheduled_ns: i64, enqueued_ns: Option<i64>, at_ns: i64) -> Option<Departure> {
        let GateRecord { keeper, gates, delta_ns, tolerance_ns, .. } = &self.record;
        let of_stream = |error_ns: i64| (error_ns + self.cycle_ns / 2).div_euclid(self.cycle_ns) * self.cycle_ns;
        match (keeper, gates) {
            (Keeper::Taprio, Some(gates)) => {
                let (own, near) = (gates.belongs(scheduled_ns)?, gates.nearest(at_ns)?);
                let outside_ns = near.outside_ns(at_ns);
                let outside_ns = if outside_ns.abs() <= self.slack_ns { 0 } else { outside_ns };
                let slip_ns = if gates.always_open() { 0 } else { near.open_ns - own.open_ns };
                Some(Departure { outside_ns, slip_ns })
            }
            (Keeper::TxtimeAssist, Some(gates)) => {
                let launch_ns = self.launch(scheduled_ns, enqueued_ns)?;
                let outside_ns = release(at_ns, launch_ns - delta_ns, *tolerance_ns, self.slack_ns);
                // What the wire would see if something behind etf held the packet for the rest.
                let (own, near) = (gates.belongs(scheduled_ns)?, gates.nearest(at_ns + delta_ns)?);
                let slip_ns = if gates.always_open() { 0 } else { near.open_ns - own.open_ns };
                Some(Departure { outside_ns, slip_ns })
            }
            (Keeper::Etf, _) => {
                let due_ns = scheduled_ns - delta_ns;
                let outside_ns = release(at_ns, due_ns, *tolerance_ns, self.slack_ns);
                Some(Departure { outside_ns, slip_ns: of_stream(at_ns - due_ns) })
            }
            (Keeper::EtfDeadline, _) => {
                let late = at_ns - self.launch(scheduled_ns, enqueued_ns)?;
                Some(Departure { outside_ns: if late > self.slack_ns { late } else { 0 }, slip_ns: 0 })
            }
            (Keeper::Device | Keeper::Taprio | Keeper::TxtimeAssist, _) => None,
        }
    }

    /// The window that a packet belongs to: that in which it is scheduled, else the next.
    /// Absolute; `None` without gates.
    pub fn window(&self, scheduled_ns: i64) -> Option<Window> {
        self.record.gates.as_ref()?.belongs(scheduled_ns)
    }

    /// A departure's slip in cycles of the stream, and of the gates where there are any.
    pub fn slip_cycles(&self, departure: Departure) -> (i64, Option<i64>) {
        let of_gates = self.record.gates.as_ref().map(|gates| departure.slip_ns / gates.cycle_ns);
        (stream_cycles(departure.slip_ns, self.cycle_ns), of_gates)
    }

    /// When a packet came to the driver, and how that is judged; `None` if it was not sent or
    /// lacks a stamp. Rows must be asked for one after the other, each once: launch times that
    /// taprio gives follow from those before.
    pub fn departure(&mut self, batch: &Batch, row: usize) -> Option<(i64, Departure)> {
        let not_sent = batch.outcome[row] == Outcome::NotSent;
        // One that is not sent came to taprio if it was stamped on the way there: then it has a
        // launch time, and its place.
        let send = || batch.stamp_ns(row, Point::Send).filter(|_| !not_sent);
        let enqueued = batch.stamp_ns(row, Point::TxSched).or_else(send);
        let left = batch.stamp_ns(row, Point::TxKernel).filter(|_| !not_sent);
        let found = left.and_then(|at_ns| Some((at_ns, self.judge(batch.scheduled_ns[row], enqueued, at_ns)?)));
        self.free_ns = self.given(enqueued).map_or(self.free_ns, |launch_ns| launch_ns + self.record.frame_ns);
        found
    }

    /// Adds the next rows.
    pub fn push(&mut self, batch: &Batch) {
        for row in 0..batch.len() {
            let found = self.departure(batch, row);
            if batch.outcome[row] == Outcome::NotSent {
                self.result.not_sent += 1;
                continue;
            }
            let Some((at_ns, departure)) = found else {
                self.result.unjudged += 1;
                continue;
            };
            self.add(batch.seq[row], batch.scheduled_ns[row], at_ns, departure);
        }
    }

    fn add(&mut self, seq: i64, scheduled_ns: i64, at_ns: i64, departure: Departure) {
        let Departure { outside_ns, slip_ns } = departure;
        let (of_stream, of_gates) = self.slip_cycles(departure);
        let result = &mut self.result;
        result.judged += 1;
        match outside_ns {
            0 => result.inside += 1,
            early if early < 0 => {
                result.early += 1;
                if early < result.most_early_ns {
                    (result.most_early_ns, result.most_early_seq) = (early, Some(seq));
                }
            }
            late => {
                result.late += 1;
                if late > result.most_late_ns {
                    (result.most_late_ns, result.most_late_seq) = (late, Some(seq));
                }
            }
        }
        if let Some(slipped) = &mut result.slipped {
            *slipped += u64::from(slip_ns != 0);
        }
        *result.slips_stream_cycles.entry(of_stream).or_insert(0) += 1;
        if let Some(of_gates) = of_gates {
            *result.slips_gate_cycles.entry(of_gates).or_insert(0) += 1;
        }
        let phase = match &self.record.gates {
            Some(gates) => gates.phase(at_ns),
            None => (at_ns - scheduled_ns).rem_euclid(self.cycle_ns),
        };
        let bin = i128::from(phase) * BINS as i128 / i128::from(result.phases.cycle_ns.max(1));
        if let Some(count) = result.phases.counts.get_mut(bin as usize) {
            *count += 1;
        }
    }

    pub fn finish(self) -> GateResult {
        self.result
    }
}

/// Adds another trial's counts; of two extremes, the worse one stays.
pub fn merge(sum: &mut GateResult, other: &GateResult) {
    sum.judged += other.judged;
    sum.inside += other.inside;
    sum.early += other.early;
    sum.late += other.late;
    sum.unjudged += other.unjudged;
    sum.not_sent += other.not_sent;
    sum.slipped = sum.slipped.zip(other.slipped).map(|(sum, other)| sum + other);
    if other.most_early_ns < sum.most_early_ns {
        (sum.most_early_ns, sum.most_early_seq) = (other.most_early_ns, other.most_early_seq);
    }
    if other.most_late_ns > sum.most_late_ns {
        (sum.most_late_ns, sum.most_late_seq) = (other.most_late_ns, other.most_late_seq);
    }
    let add = |sum: &mut BTreeMap<i64, u64>, other: &BTreeMap<i64, u64>| {
        other.iter().for_each(|(cycles, count)| *sum.entry(*cycles).or_insert(0) += count);
    };
    add(&mut sum.slips_stream_cycles, &other.slips_stream_cycles);
    add(&mut sum.slips_gate_cycles, &other.slips_gate_cycles);
    for (sum, other) in sum.phases.counts.iter_mut().zip(&other.phases.counts) {
        *sum += other;
    }
}
