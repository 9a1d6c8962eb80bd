// SPDX-License-Identifier: MIT OR Apache-2.0
//! Digests of several trials pooled, and results made of digests; which trials belong to their
//! cell's figures, and the verdicts on the cell from all of them.

use crate::arrival::delta_of;
use crate::digest::MetricDigest;
use crate::distribution::{Dropped, HintDigest, StreamDigest};
use crate::two_clocks::TwoClocks;
use crate::validity::stamps::{self, CLOCK_BOUND};
use crate::validity::{RULES, path_failed, shared_cpu, was_measured_well};
use crate::{gates, outcomes, says};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use tardy_model::histogram::Histogram;
use tardy_model::point::{Metric, Point};
use tardy_model::port::TcpRecord;
use tardy_model::result::{CellResult, GateResult, MetricResult, Outcomes, RepliesResult, StreamResult, TrialResult};
use tardy_model::trial::StreamRecord;
use tardy_model::validity::Validity;
use tardy_model::verdict::{Figure, Level, Verdict};

/// One metric pooled, with whose stamp the later one is and why there are no values.
#[derive(Clone, Debug)]
struct Pooled {
    digest: MetricDigest,
    source: String,
    why: Option<String>,
    /// Where two clocks took its stamps in a trial.
    clocks: Option<TwoClocks>,
}

impl Pooled {
    fn merge_clocks(&mut self, other: Option<TwoClocks>) {
        // Where a trial has one clock, what is above the minimum is not known of all.
        match (&mut self.clocks, other) {
            (Some(clocks), Some(other)) => clocks.merge(other),
            (Some(clocks), None) => clocks.above = None,
            (None, other) => {
                self.clocks = other;
                self.clocks.iter_mut().for_each(|clocks| clocks.above = None);
            }
        }
    }
}

/// A stream's trials pooled.
#[derive(Clone, Debug, Default)]
struct PooledStream {
    counts: Outcomes,
    metrics: BTreeMap<Metric, Pooled>,
    replies: Option<Replies>,
    dropped: Dropped,
    gates: Option<GateResult>,
    rx_kernel_at: Option<String>,
    /// By metric: times in the hints of a user's own XDP program.
    hints: BTreeMap<String, PooledHint>,
}

/// One of these pooled.
#[derive(Clone, Debug)]
struct PooledHint {
    found: HintDigest,
    source: String,
    why: String,
}

impl PooledHint {
    fn new(found: HintDigest, record: &StreamRecord, received: u64) -> PooledHint {
        let (source, why) = (source_of_hints(record), why_no_time(&found, record, received));
        PooledHint { found, source, why }
    }

    /// A trial's own reason is about its values; that of several is about all of theirs.
    fn merge(&mut self, other: PooledHint) {
        self.found.merge(other.found);
        if self.source.is_empty() {
            self.source = other.source;
        }
        if self.found.not_of_packet == 0 || other.why == NOT_OF_PACKET {
            self.why = other.why;
        }
    }
}

/// The figures of a time in hints.
fn hint_result(found: &HintDigest, source: &str, why: &str) -> MetricResult {
    let figures = found.digest.finish(source, Some(why.to_owned()));
    MetricResult { not_of_packet: found.not_of_packet, ..figures }
}

/// Who took the later stamp of times in hints: whoever received.
fn source_of_hints(record: &StreamRecord) -> String {
    record.sources.get(&Point::Receive).map_or_else(String::new, |source| source.name().to_owned())
}

/// By stream: counts and metrics.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    streams: BTreeMap<String, PooledStream>,
}

/// Replies of one trial or several.
#[derive(Clone, Copy, Debug, Default)]
struct Replies {
    received: u64,
    span_ns: i64,
    retransmits: Option<u64>,
    timeouts: Option<u64>,
}

impl Replies {
    fn of(record: &StreamRecord, received: u64) -> Option<Replies> {
        let reply = record.reply.as_ref()?;
        let ends = || [reply.tcp, reply.tcp_reflector].into_iter().flatten();
        let sum = |of: fn(&TcpRecord) -> Option<u64>| ends().map(|tcp| of(&tcp)).try_fold(0, |all, n| Some(all + n?));
        let is_tcp = ends().next().is_some();
        Some(Replies {
            received,
            span_ns: reply.span_ns.unwrap_or(0),
            retransmits: sum(|tcp| Some(tcp.retransmits)).filter(|_| is_tcp),
            timeouts: sum(|tcp| tcp.timeouts).filter(|_| is_tcp),
        })
    }

    fn merge(&mut self, other: Replies) {
        self.received += other.received;
        self.span_ns += other.span_ns;
        let add = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        self.retransmits = add(self.retransmits, other.retransmits);
        self.timeouts = add(self.timeouts, other.timeouts);
    }

    fn result(self) -> RepliesResult {
        let rate = || self.received as f64 * 1e9 / self.span_ns as f64;
        RepliesResult {
            transactions_s: (self.received > 0 && self.span_ns > 0).then(rate),
            retransmits: self.retransmits,
            timeouts: self.timeouts,
        }
    }
}

impl Pool {
    /// Adds a trial's stream.
    pub(super) fn add(&mut self, stream: String, digest: StreamDigest, record: &StreamRecord, delta_of: Point) {
        let StreamDigest { outcomes: counts, metrics, gates: found_gates, dropped: found_dropped, .. } = digest;
        let PooledStream { counts: pooled_counts, metrics: pooled, replies, dropped, gates, rx_kernel_at, hints } =
            self.streams.entry(stream).or_default();
        for (metric, found) in digest.hints {
            let found = PooledHint::new(found, record, counts.received);
            match hints.get_mut(&metric) {
                Some(pooled) => pooled.merge(found),
                None => _ = hints.insert(metric, found),
            }
        }
        outcomes::merge(pooled_counts, &counts);
        dropped.merge(found_dropped);
        match (&mut *gates, found_gates) {
            (Some(sum), Some(found)) => gates::merge(sum, &found),
            (None, found) => *gates = found,
            (Some(_), None) => {}
        }
        *rx_kernel_at = rx_kernel_at.take().or_else(|| rx_kernel_at_of(record));
        if let Some(found) = Replies::of(record, counts.received) {
            match replies {
                Some(replies) => replies.merge(found),
                None => *replies = Some(found),
            }
        }
        for (metric, digest) in metrics {
            let (source, why) = (source(metric, record, delta_of), why(metric, record, delta_of, counts.received));
            let clocks = TwoClocks::of(metric, record, &digest);
            match pooled.get_mut(&metric) {
                Some(pooled) => {
                    pooled.merge_clocks(clocks);
                    pooled.digest.merge(digest);
                    if pooled.source.is_empty() {
                        pooled.source = source;
                    }
                    pooled.why = Some(why);
                }
                None => {
                    pooled.insert(metric, Pooled { digest, source, why: Some(why), clocks });
                }
            }
        }
    }

    /// Results by stream, histograms by stream and metric, and what was refused of them by what was
    /// set of the rules.
    pub(super) fn finish(self, settings: &Validity) -> Finished {
        let (mut results, mut histograms, mut verdicts) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut withheld = BTreeMap::new();
        for (stream, pooled) in self.streams {
            let replies = pooled.replies.map(Replies::result);
            let mut result = StreamResult {
                outcomes: pooled.counts,
                replies,
                not_sent_why: pooled.dropped.named(),
                gates: pooled.gates,
                rx_kernel_at: pooled.rx_kernel_at,
                ..StreamResult::default()
            };
            let mut above = BTreeMap::new();
            for (metric, pooled) in pooled.metrics {
                let (mut found, histogram) = pooled.digest.finish_with_histogram(&pooled.source, pooled.why);
                if let Some(clocks) = pooled.clocks {
                    found.clock_bound_ns = Some(clocks.bound_ns);
                    above.insert(metric, clocks.above(&pooled.source));
                }
                result.metrics.insert(metric.to_string(), found);
                histograms.insert((stream.clone(), metric), histogram);
            }
            let judge = |settings: &Validity| {
                let refused = stamps::refused(&stream, &result, settings);
                refused.into_iter().map(|refused| refused.verdict).collect()
            };
            verdicts.extend(settings.weigh(CLOCK_BOUND.id, judge));
            for metric in
                stamps::refuse(&stream, &mut result, settings, false, |metric| above.remove(&metric).flatten())
            {
                withheld.extend(histograms.remove_entry(&(stream.clone(), metric)));
            }
            for (metric, hint) in pooled.hints {
                result.metrics.insert(metric, hint_result(&hint.found, &hint.source, &hint.why));
            }
            results.insert(stream, result);
        }
        Finished { streams: results, histograms, withheld, refused: verdicts }
    }
}

/// The figures of a pool, and the verdicts on those that it refuses.
pub(super) struct Finished {
    pub streams: BTreeMap<String, StreamResult>,
    pub histograms: BTreeMap<(String, Metric), Histogram>,
    /// The histograms of the figures that are not given.
    pub withheld: BTreeMap<(String, Metric), Histogram>,
    /// Verdicts on the figures that are not given.
    pub refused: Vec<Verdict>,
}

/// One trial's stream, and its histograms.
pub(super) fn stream_result(
    digest: &StreamDigest,
    record: &StreamRecord,
    delta_of: Point,
) -> (StreamResult, BTreeMap<Metric, Histogram>) {
    let StreamDigest { outcomes: counts, metrics, .. } = digest;
    let mut result = StreamResult {
        outcomes: *counts,
        replies: Replies::of(record, counts.received).map(Replies::result),
        not_sent_why: digest.dropped.named(),
        gates: digest.gates.clone(),
        rx_kernel_at: rx_kernel_at_of(record),
        ..StreamResult::default()
    };
    let mut histograms = BTreeMap::new();
    for (metric, digest) in metrics {
        let why = why(*metric, record, delta_of, counts.received);
        let (mut found, histogram) = digest.finish_with_histogram(&source(*metric, record, delta_of), Some(why));
        found.clock_bound_ns = record.clock_bound_ns(*metric);
        result.metrics.insert(metric.to_string(), found);
        histograms.insert(*metric, histogram);
    }
    for (metric, found) in &digest.hints {
        let (source, why) = (source_of_hints(record), why_no_time(found, record, counts.received));
        result.metrics.insert(metric.clone(), hint_result(found, &source, &why));
    }
    (result, histograms)
}

/// What a trial's metric is above its minimum.
pub(super) fn above_minimum(metric: Metric, digest: &StreamDigest, record: &StreamRecord) -> Option<MetricResult> {
    let clocks = TwoClocks::of(metric, record, digest.metrics.get(&metric)?)?;
    clocks.above(&source(metric, record, delta_of(record)))
}

/// Where `rx_kernel` was taken, where that is worth saying: packets have launch times.
fn rx_kernel_at_of(record: &StreamRecord) -> Option<String> {
    let at = record.launching.rx_kernel_at.filter(|_| record.sources.contains_key(&Point::RxKernel))?;
    (record.launching.launch.is_some() || at.is_moved()).then(|| at.name().to_owned())
}

/// Points whose stamps a metric is made of, the earliest first.
fn points(metric: Metric, delta_of: Point) -> Vec<Point> {
    if metric == Metric::Delta { vec![delta_of] } else { metric.points() }
}

/// Who took the later stamp; empty if nobody did.
fn source(metric: Metric, record: &StreamRecord, delta_of: Point) -> String {
    let later = points(metric, delta_of).into_iter().next_back();
    later.and_then(|later| record.sources.get(&later)).map_or_else(String::new, |source| source.name().to_owned())
}

/// Why a metric has no values, if it has none.
fn why(metric: Metric, record: &StreamRecord, delta_of: Point, received: u64) -> String {
    let points = points(metric, delta_of);
    let absent = points.iter().find_map(|point| Some((point, record.absent.get(point)?)));
    let without = points.iter().find(|point| **point != Point::Scheduled && !record.sources.contains_key(point));
    match (absent, without) {
        (Some((point, why)), _) => format!("no {point} stamp: {why}"),
        (None, Some(point)) => format!("nobody stamps {point} in this set-up"),
        (None, None) if received == 0 => "no packet was received".to_owned(),
        (None, None) if metric == Metric::Delta && received == 1 => "only one packet was received".to_owned(),
        (None, None) => "no received packet has both stamps".to_owned(),
    }
}

/// Why a time in hints has no values, where none is one of its packet.
const NOT_OF_PACKET: &str =
    "no value of the member lies between the trial's beginning and `receive`, so it is no time of its packet";

/// Why a time in hints has no values, if it has none.
fn why_no_time(found: &HintDigest, record: &StreamRecord, received: u64) -> String {
    let without = record.xdp.as_ref().and_then(|port| port.times.as_ref()?.without.as_ref());
    match (without, record.absent.get(&Point::Receive)) {
        (Some(why), _) => why.clone(),
        (None, Some(why)) => format!("no {} stamp: {why}", Point::Receive),
        (None, None) if found.not_of_packet > 0 => NOT_OF_PACKET.to_owned(),
        (None, None) if received == 0 => "no packet was received".to_owned(),
        (None, None) => "no received packet has a value of the member".to_owned(),
    }
}

// Which trials belong to their cell's figures, and a cell's verdicts from its trials': what spoilt
// it, what was left out, what is worth knowing.

/// The trials whose rows a cell's figures are of.
pub fn counted(trials: &[TrialResult]) -> Vec<u32> {
    in_figures(trials).map(|trial| trial.n).collect()
}

/// True if the trial belongs to its cell's figures: it is valid, or what made it invalid is the
/// path's doing.
pub(super) fn counts(trial: &TrialResult) -> bool {
    trial.valid || path_failed(&trial.verdicts)
}

/// True if the measuring was sound in a strict majority of the trials.
pub(crate) fn most_were_measured_well(trials: &[TrialResult]) -> bool {
    2 * trials.iter().filter(|trial| was_measured_well(&trial.verdicts)).count() > trials.len()
}

/// The trials that a cell's figures are of.
pub fn pooled(cell: &CellResult) -> impl Iterator<Item = &TrialResult> {
    in_figures(&cell.trials)
}

/// Those that count; all of them where none does.
pub(crate) fn in_figures(trials: &[TrialResult]) -> impl Iterator<Item = &TrialResult> {
    let some_count = trials.iter().any(counts);
    trials.iter().filter(move |trial| counts(trial) == some_count)
}

/// What a verdict is about. Two verdicts of one rule about two CPUs are not the same.
const SUBJECTS: [&str; 9] = ["stream", "cpu", "thread", "threads", "load", "station", "point", "metric", "device"];

/// How much of it there is, by which the worst trial of several speaks.
const MEASURES: [&str; 7] =
    ["waited_share", "others_share", "steal_share", "shortfall_share", "lost", "refused", "longest_gap_ns"];

/// The trials' verdicts carried up: one for each rule, subject and weight, with the numbers of its
/// trials; of who used a CPU, one for each CPU. If a strict `majority` of the trials counts, those
/// of the trials that do, and a warning that names the ones left out; else those of all.
pub(super) fn of_cell(trials: &[TrialResult], majority: bool) -> Vec<Verdict> {
    if trials.is_empty() {
        return vec![Verdict::new("failed", Level::Invalid, "no trial of this cell was finished").with("trials", 0i64)];
    }
    let counted = trials.iter().filter(|trial| !majority || counts(trial));
    let mut groups: Vec<Vec<(u32, &Verdict)>> = Vec::new();
    for trial in counted {
        for verdict in &trial.verdicts {
            match groups.iter_mut().find(|seen| seen.iter().all(|(_, other)| says_the_same(other, verdict))) {
                Some(seen) => seen.push((trial.n, verdict)),
                None => groups.push(vec![(trial.n, verdict)]),
            }
        }
    }
    // Where no trial counts, the figures are of all.
    let left_out = if trials.iter().any(counts) { left_out(trials, majority) } else { None };
    let carried = groups.into_iter().filter_map(|seen| carried(&seen, trials.len()));
    let mut verdicts: Vec<Verdict> = left_out.into_iter().chain(carried).collect();
    let rule = |verdict: &Verdict| RULES.iter().position(|rule| rule.id == verdict.id).map_or(-1, |at| at as i64);
    // The most severe first; those of equal weight in the rules' order, and of one rule the one
    // with the greatest measure.
    verdicts.sort_by(|a, b| (b.level, rule(a)).cmp(&(a.level, rule(b))).then_with(|| more(b, a)));
    verdicts
}

/// True if what two trials' verdicts say is the same but for its figures.
fn says_the_same(a: &Verdict, b: &Verdict) -> bool {
    if a.id != b.id {
        return false;
    }
    if a.id == shared_cpu::COMPETING {
        return a.evidence.get("cpu") == b.evidence.get("cpu");
    }
    // A warning in one trial is not the same as what made another invalid. Nor are two findings of
    // one rule that have different figures: `shared-cpu` reports threads on one CPU as well as
    // packets that were received there.
    let about = |verdict: &Verdict| SUBJECTS.map(|subject| verdict.evidence.get(subject).cloned());
    a.level == b.level && a.evidence.keys().eq(b.evidence.keys()) && about(a) == about(b)
}

/// How much of its cause a verdict reports, by each measure; 0 for a measure that it lacks.
fn measure(verdict: &Verdict) -> [f64; MEASURES.len()] {
    MEASURES.map(|name| match verdict.evidence.get(name) {
        Some(Figure::Float(x)) => *x,
        Some(Figure::Int(n)) => *n as f64,
        _ => 0.0,
    })
}

/// The one of which there is more.
fn more(a: &Verdict, b: &Verdict) -> Ordering {
    let pairs = measure(a).into_iter().zip(measure(b));
    pairs.map(|(a, b)| a.total_cmp(&b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// One verdict for those that are the same: that of the trial in which it is most severe, and of
/// equally severe ones that with the greatest measure.
fn carried(seen: &[(u32, &Verdict)], of: usize) -> Option<Verdict> {
    let mut worst = seen.first()?;
    for other in seen {
        if other.1.level.cmp(&worst.1.level).then(more(other.1, worst.1)).is_gt() {
            worst = other;
        }
    }
    let (n, speaks) = worst;
    let mut numbers: Vec<u32> = seen.iter().map(|(n, _)| *n).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut verdict = (*speaks).clone();
    let others: Vec<u32> = numbers.iter().copied().filter(|other| other != n).collect();
    let is_use_of_cpu = verdict.id == shared_cpu::COMPETING;
    if is_use_of_cpu {
        let all: Vec<&Verdict> = seen.iter().map(|(_, verdict)| *verdict).collect();
        shared_cpu::gather(&mut verdict, &all, &others);
    }
    if of > 1 {
        verdict.says = match others.as_slice() {
            others if others.is_empty() || is_use_of_cpu => format!("trial {n}: {}", verdict.says),
            others => format!("trial {n}: {} (the same in {})", verdict.says, says::trials(others)),
        };
    }
    let numbers = Figure::List(numbers.into_iter().map(Figure::from).collect());
    Some(verdict.with("trials", numbers))
}

fn left_out(trials: &[TrialResult], majority: bool) -> Option<Verdict> {
    let out: Vec<&TrialResult> = trials.iter().filter(|trial| !counts(trial)).collect();
    if out.is_empty() {
        return None;
    }
    let numbers: Vec<u32> = out.iter().map(|trial| trial.n).collect();
    let mut causes: BTreeMap<&str, &Verdict> = BTreeMap::new();
    for verdict in out.iter().flat_map(|trial| &trial.verdicts).filter(|verdict| verdict.level == Level::Invalid) {
        let worst = causes.entry(&verdict.id).or_insert(verdict);
        if more(verdict, worst).is_gt() {
            *worst = verdict;
        }
    }
    let be = if numbers.len() == 1 { "is" } else { "are" };
    // If they are no minority, their own verdicts are in the list too and name the causes.
    let why = if majority {
        format!(": {}", causes.values().map(|verdict| verdict.says.as_str()).collect::<Vec<_>>().join("; "))
    } else {
        String::new()
    };
    let says = format!("{} of {} {be} left out of the figures{why}", says::trials(&numbers), trials.len());
    let list = |ids: Vec<Figure>| Figure::List(ids);
    Some(
        Verdict::new("left-out", Level::Warning, says)
            .with("trials", list(numbers.into_iter().map(Figure::from).collect()))
            .with("of", trials.len() as u64)
            .with("causes", list(causes.keys().map(|id| Figure::from(*id)).collect())),
    )
}
