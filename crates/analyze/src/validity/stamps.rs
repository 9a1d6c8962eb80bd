// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about stamps and records that are missing: the recorder was full or late, the error queue
//! overflowed, or the kernel gave too few stamps; and about the clocks they are taken by.

use super::{Evidence, Rule, Spoils};
use crate::outcomes::LEAST_COVERAGE;
use crate::says;
use std::collections::BTreeMap;
use tardy_model::point::Metric;
use tardy_model::result::{ABOVE_MINIMUM, MetricResult, StreamResult};
use tardy_model::time::{ClockReading, Disagreement, EndOffsets, LeftOut, Offset};
use tardy_model::trial::StreamRecord;
use tardy_model::validity::{self, RuleLimit, Validity};
use tardy_model::verdict::{Level, Verdict};

/// `recorder`: packets arrived that the receiver had no room to record, so that rows are wrong.
pub(super) const RECORDER: Rule = Rule { id: "recorder", spoils: Spoils::Measuring, judge: recorder };

fn recorder(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let full = evidence.ways().filter(|way| way.counters.records_dropped > 0);
    full.map(|way| {
        let dropped = way.counters.records_dropped;
        let arrivals = says::count(dropped, "arrival", "arrivals");
        let says = format!("{arrivals} of {} found no place in the recorder: the rows count them as lost", way.name);
        Verdict::new(RECORDER.id, Level::Invalid, says).with("stream", way.stream).with("records_dropped", dropped)
    })
    .collect()
}

/// `recorder-delay`: the sender had to drain its stamps between two packets without time for it.
/// The lateness of the packet behind is the recorder's and not the path's.
pub(super) const RECORDER_DELAY: Rule = Rule { id: "recorder-delay", spoils: Spoils::Measuring, judge: recorder_delay };

fn recorder_delay(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let delayed = evidence.record.streams.iter().filter(|(_, record)| record.counters.forced_drains > 0);
    delayed
        .map(|(stream, record)| {
            let (drains, sent) = (record.counters.forced_drains, record.counters.sent);
            let share = (sent > 0).then(|| drains as f64 / sent as f64);
            let of = share.map_or_else(String::new, |share| format!(" ({} of the packets)", says::share(share)));
            let says = format!(
                "the sender of {stream} drained its stamps {} without slack before the next packet{of}: the lateness of \
                 those packets is the recorder's",
                says::count(drains, "time", "times")
            );
            let verdict = Verdict::new(RECORDER_DELAY.id, Level::Note, says)
                .with("stream", stream.as_str())
                .with("forced_drains", drains);
            match share {
                Some(share) => verdict.with("sent", sent).with("forced_drains_share", share),
                None => verdict,
            }
        })
        .collect()
}

/// `queue-overflow`: the sender's error queue was full, so that tx stamps were thrown away.
pub(super) const QUEUE_OVERFLOW: Rule = Rule { id: "queue-overflow", spoils: Spoils::Measuring, judge: queue_overflow };

fn queue_overflow(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let full = evidence.ways().filter(|way| way.counters.error_queue_overflows > 0);
    full.map(|way| {
        let c = way.counters;
        let says = format!(
            "the error queue of {}, where its tx stamps arrive, was found full {}: up to {} of {} bytes waited",
            way.name,
            says::count(c.error_queue_overflows, "time", "times"),
            c.error_queue_high_bytes,
            way.queue_bytes
        );
        Verdict::new(QUEUE_OVERFLOW.id, Level::Invalid, says)
            .with("stream", way.stream)
            .with("overflows", c.error_queue_overflows)
            .with("high_bytes", c.error_queue_high_bytes)
            .with("queue_bytes", way.queue_bytes)
            .with("tx_stamps_missing", c.tx_stamps_missing)
    })
    .collect()
}

/// `late-stamps`: the first packets received have no stamp, and from some packet on stamps flow.
/// The kernel enables software stamps from a work item, which a spinning realtime thread can
/// starve.
pub(super) const LATE_STAMPS: Rule = Rule { id: "late-stamps", spoils: Spoils::Measuring, judge: late_stamps };

fn late_stamps(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.broke_off() {
        return Vec::new();
    }
    let late = evidence.bursts().filter(|(_, _, bursts)| bursts.started_late());
    late.map(|(stream, point, bursts)| {
        let (level, what) = evidence.lack(stream, point);
        let says = format!(
            "{stream}: the first {} received have no {point} stamp ({} of all): stamps started late{what}",
            says::count(bursts.leading, "packet", "packets"),
            says::share(bursts.leading as f64 / bursts.received as f64)
        );
        let mut verdict = Verdict::new(LATE_STAMPS.id, level, says)
            .with("stream", stream)
            .with("point", point.name())
            .with("leading", bursts.leading)
            .with("received", bursts.received)
            .with("coverage_share", bursts.coverage());
        if let Some(record) = evidence.record.streams.get(stream) {
            verdict = verdict
                .with("warmup_sent", record.warmup.sent)
                .with("warmup_without_rx_stamp", record.warmup.without_rx_stamp)
                .with("warmup_without_tx_stamp", record.warmup.without_tx_stamp);
        }
        verdict
    })
    .collect()
}

/// `coverage`: too many received packets lack a stamp of a point that has a source. Where only the
/// trial's beginning lacks them, `late-stamps` says so instead.
pub(super) const COVERAGE: Rule = Rule { id: "coverage", spoils: Spoils::Measuring, judge: coverage };

fn coverage(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.broke_off() {
        return Vec::new();
    }
    let short = evidence.bursts().filter(|(_, _, bursts)| bursts.is_short() && !bursts.started_late());
    short
        .map(|(stream, point, bursts)| {
            let (level, what) = evidence.lack(stream, point);
            let says = format!(
                "{stream}: {} of {} received packets have no {point} stamp, in {}, the longest {} from packet {} on{what}",
                bursts.missing,
                bursts.received,
                says::count(bursts.bursts, "burst", "bursts"),
                says::count(bursts.longest, "packet", "packets"),
                bursts.longest_from_seq
            );
            Verdict::new(COVERAGE.id, level, says)
                .with("stream", stream)
                .with("point", point.name())
                .with("received", bursts.received)
                .with("missing", bursts.missing)
                .with("coverage_share", bursts.coverage())
                .with("least_share", LEAST_COVERAGE)
                .with("bursts", bursts.bursts)
                .with("longest_burst", bursts.longest)
                .with("longest_from_seq", bursts.longest_from_seq)
        })
        .collect()
}

/// `warmup`: the warm-up ended before every stamp flowed. If the trial then really lacks
/// stamps, `late-stamps` or `coverage` reports the count, and this rule is silent.
pub(super) const WARMUP: Rule = Rule { id: "warmup", spoils: Spoils::Measuring, judge: warmup };

fn warmup(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        let warmup = &record.warmup;
        let is_burst = evidence.bursts().any(|(of, _, bursts)| of == stream && bursts.is_short());
        if warmup.flowed || warmup.sent == 0 || is_burst {
            continue;
        }
        let says = format!(
            "the warm-up of {stream} gave up after {} and {}: stamps did not flow yet",
            says::count(warmup.sent.into(), "packet", "packets"),
            says::time(warmup.took_ns)
        );
        verdicts.push(
            Verdict::new(WARMUP.id, Level::Warning, says)
                .with("stream", stream.as_str())
                .with("sent", warmup.sent)
                .with("received", warmup.received)
                .with("without_rx_stamp", warmup.without_rx_stamp)
                .with("without_tx_stamp", warmup.without_tx_stamp)
                .with("took_ns", warmup.took_ns),
        );
    }
    verdicts
}

// Rules about clocks: whether one jumped during a trial, and whether stamps contradict each other.

/// `tai-offset`: the kernel's TAI − UTC offset was changed during the trial, so that CLOCK_TAI
/// jumped, or CLOCK_REALTIME at a leap second.
pub(super) const TAI_OFFSET: Rule = Rule { id: "tai-offset", spoils: Spoils::Measuring, judge: tai_offset };

/// The offset changes by whole seconds.
const HALF_A_SECOND_NS: i64 = 500_000_000;

fn tai_offset(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let changed = evidence.clocks().find(|(_, [before, after])| before.tai_offset_s != after.tai_offset_s);
    let Some((at, [before, after])) = changed else { return Vec::new() };
    // MONOTONIC jumps never: it shows which of the two did.
    let tai = |reading: ClockReading| reading.tai_ns.saturating_sub(reading.monotonic_ns);
    let jumped = if tai(after).saturating_sub(tai(before)).saturating_abs() > HALF_A_SECOND_NS {
        "CLOCK_TAI, the schedule's clock, jumped"
    } else {
        "CLOCK_REALTIME, the clock of the kernel's stamps, jumped, as it does at a leap second"
    };
    let says = format!(
        "the kernel's TAI offset went from {} s to {} s during the trial: {jumped}",
        before.tai_offset_s, after.tai_offset_s
    );
    vec![
        Verdict::new(TAI_OFFSET.id, Level::Invalid, says)
            .with("at", at)
            .with("before_s", i64::from(before.tai_offset_s))
            .with("after_s", i64::from(after.tai_offset_s)),
    ]
}

/// `clock-step`: CLOCK_REALTIME was set during the trial. MONOTONIC is slewed with it but never
/// set, so that the difference of the two moves only in a step.
pub(super) const CLOCK_STEP: Rule = Rule { id: "clock-step", spoils: Spoils::Measuring, judge: clock_step };

/// What rounding and the order of reads within a bracket may add to the brackets themselves, ns.
const SLACK_NS: i64 = 1_000;

fn clock_step(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let step = |(at, [before, after]): (String, [ClockReading; 2])| {
        let difference = |r: &ClockReading| r.realtime_ns.saturating_sub(r.monotonic_ns);
        let step = difference(&after).saturating_sub(difference(&before));
        // Both clocks were read somewhere in a bracket, which is twice as wide as its bound.
        let brackets = before.bound_ns.saturating_add(after.bound_ns).saturating_mul(2);
        let allowed = brackets.saturating_add(SLACK_NS);
        (step.saturating_abs() > allowed).then_some((at, step, allowed))
    };
    let steps = evidence.clocks().filter_map(step);
    let Some((at, step_ns, allowed_ns)) = steps.max_by_key(|(_, step, _)| step.saturating_abs()) else {
        return Vec::new();
    };
    let says = format!(
        "CLOCK_REALTIME was set by {} during the trial: kernel stamps before and after do not fit together",
        says::time(step_ns)
    );
    let verdict = Verdict::new(CLOCK_STEP.id, Level::Invalid, says);
    vec![verdict.with("at", at).with("step_ns", step_ns).with("allowed_ns", allowed_ns)]
}

/// `clocks-disagree`: two sources show how far the clocks of two hosts are apart, and exclude each
/// other. One of them is wrong, and so are its bound and what was converted by it. What a program
/// reports about its own work converts nothing, so that one which excludes the others is a warning.
pub(super) const CLOCKS_DISAGREE: Rule =
    Rule { id: "clocks-disagree", spoils: Spoils::Measuring, judge: clocks_disagree };

fn clocks_disagree(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.clock_jumped() {
        return Vec::new();
    }
    let of = |(host, offset): (String, &Offset)| {
        let Disagreement { methods: [one, other], apart_ns, allowed_ns, is_reported } = offset.disagreement()?;
        let level = if is_reported { Level::Warning } else { Level::Invalid };
        let says = format!(
            "{host}: two sources place its clock {} apart, and their bounds allow {}: \"{one}\" and \"{other}\"",
            says::time(apart_ns),
            says::time(allowed_ns)
        );
        let verdict = Verdict::new(CLOCKS_DISAGREE.id, level, says);
        Some(verdict.with("host", host.as_str()).with("apart_ns", apart_ns).with("allowed_ns", allowed_ns))
    };
    offsets(evidence).into_iter().filter_map(of).collect()
}

/// The offsets of other hosts' clocks, by which host it is, or which against which.
pub(super) fn offsets<'e>(evidence: &'e Evidence<'_>) -> BTreeMap<String, &'e Offset> {
    let of_stream = |stream: &'e StreamRecord| {
        let EndOffsets { tx, rx, pair } = &stream.offsets;
        let alone = [tx, rx].into_iter().flatten().map(|offset| (offset.host.clone(), offset));
        let sender = tx.as_ref().map_or("", |tx| tx.host.as_str());
        let pair = pair.as_ref().map(|offset| (format!("{} against {sender}", offset.host), offset));
        alone.chain(pair).collect::<Vec<_>>()
    };
    evidence.record.streams.values().flat_map(of_stream).collect()
}

/// `clock-source`: a source of the distance between two clocks was asked for and shows nothing.
pub(super) const CLOCK_SOURCE: Rule = Rule { id: "clock-source", spoils: Spoils::Measuring, judge: clock_source };

fn clock_source(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let of = |(host, offset): (String, &Offset)| {
        // One has one keeper; what a folder's record has more is not worth a verdict each.
        let LeftOut { method, why } = offset.left_out.first()?;
        let says = format!("{host}: {method} was asked for and does not count: {why}");
        Some(Verdict::new(CLOCK_SOURCE.id, Level::Note, says).with("host", host.as_str()))
    };
    offsets(evidence).into_iter().filter_map(of).collect()
}

impl Evidence<'_> {
    /// True if a clock jumped during the trial, as `clock-step` or `tai-offset` reports: spans
    /// and pairs across the jump are no evidence of anything else.
    pub(super) fn clock_jumped(&self) -> bool {
        [TAI_OFFSET, CLOCK_STEP].iter().any(|rule| !(rule.judge)(self).is_empty())
    }
}

/// `causality`: a later point was stamped before an earlier one by more than the clocks' bounds: a
/// fault of a clock. What counts from `scheduled` may be early and is not checked.
pub(super) const CAUSALITY: Rule = Rule { id: "causality", spoils: Spoils::Measuring, judge: causality };

fn causality(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.clock_jumped() {
        return Vec::new();
    }
    let mut verdicts = Vec::new();
    for (stream, result) in evidence.results {
        let Some(record) = evidence.record.streams.get(stream) else { continue };
        // The worst pair speaks for all that one clock spoilt.
        let worst = result
            .metrics
            .iter()
            .filter_map(|(name, metric)| {
                let pair = name.parse::<Metric>().ok().filter(|pair| pair.is_causal())?;
                Some((metric.figures.min_ns?, name, metric.negative, record.bound_ns(pair)))
            })
            .filter(|(min_ns, _, _, bound_ns)| *min_ns < bound_ns.saturating_neg())
            .min();
        let Some((min_ns, metric, negative, bound_ns)) = worst else { continue };
        let says = format!(
            "{stream}: {metric} is negative in {}, down to {}, which the clocks' bound of {} does not explain",
            says::count(negative, "packet", "packets"),
            says::time(min_ns),
            says::bound(bound_ns)
        );
        verdicts.push(
            Verdict::new(CAUSALITY.id, Level::Invalid, says)
                .with("stream", stream.as_str())
                .with("metric", metric.as_str())
                .with("negative", negative)
                .with("min_ns", min_ns)
                .with("bound_ns", bound_ns),
        );
    }
    verdicts
}

/// `clock-bound`: two clocks took the stamps of a figure, and their bound is too large
/// a share of its median for the figure to be given. It refuses that figure and nothing else of the
/// trial.
pub(crate) const CLOCK_BOUND: Rule = Rule { id: validity::CLOCK_BOUND, spoils: Spoils::Measuring, judge: clock_bound };

fn clock_bound(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let of = |(stream, result): (&String, &StreamResult)| refused(stream, result, evidence.settings);
    evidence.results.iter().flat_map(of).map(|refused| refused.verdict).collect()
}

/// A metric whose figures the rule refuses.
pub(crate) struct Refused {
    metric: String,
    why: String,
    pub verdict: Verdict,
}

/// The metrics of a stream that the rule refuses, by what was set of it.
pub(crate) fn refused(stream: &str, result: &StreamResult, settings: &Validity) -> Vec<Refused> {
    let limit = settings.share(CLOCK_BOUND.id);
    let of = |(name, metric): (&String, &MetricResult)| {
        let TooLarge { bound_ns, share, says: of_middle } = too_large(metric, limit)?;
        let why = format!(
            "refused: two clocks took its stamps, and their bound of ± {} is {of_middle}; the limit is {}",
            says::bound(bound_ns),
            RuleLimit::Share(limit)
        );
        let verdict = Verdict::new(CLOCK_BOUND.id, Level::Warning, format!("{stream}: {name} is {why}"))
            .with("stream", stream)
            .with("metric", name.as_str())
            .with("bound_ns", bound_ns)
            .with("limit_share", limit);
        let verdict = if share.is_finite() { verdict.with("bound_share", share) } else { verdict };
        Some(Refused { metric: name.clone(), why, verdict })
    };
    result.metrics.iter().filter_map(of).collect()
}

/// A bound that is too large for the figures that have it.
struct TooLarge {
    bound_ns: i64,
    /// Of what the bound is compared with; infinite where that is 0.
    share: f64,
    says: String,
}

fn too_large(metric: &MetricResult, limit: f64) -> Option<TooLarge> {
    let bound_ns = metric.clock_bound_ns.filter(|ns| *ns > 0 && metric.count > 0)?;
    let (middle, ns) = middle(metric);
    let share = bound_ns as f64 / ns as f64;
    let says = match share.is_finite() {
        true if share <= limit => return None,
        true => format!("{} of its {middle}", says::share(share)),
        // Any bound is too much for nothing.
        false => format!("not small next to its {middle}"),
    };
    Some(TooLarge { bound_ns, share, says })
}

/// A metric without the figures that the rule refuses.
fn without_figures(metric: &MetricResult, why: &str) -> MetricResult {
    let (clock_bound_ns, refused_by) = (metric.clock_bound_ns, Some(CLOCK_BOUND.id.to_owned()));
    MetricResult { clock_bound_ns, refused_by, ..MetricResult::absent(why) }
}

/// What is above the minimum of a metric, refused if it may be wrong by too much of its own median.
fn weighed(above: MetricResult, limit: f64) -> MetricResult {
    let Some(TooLarge { bound_ns, says, .. }) = too_large(&above, limit) else { return above };
    let why = format!(
        "refused: the two clocks may have drifted by ± {}, which is {says}; the limit is {}",
        says::bound(bound_ns),
        RuleLimit::Share(limit)
    );
    without_figures(&above, &why)
}

/// What a bound is compared with, in words, and how far it is from zero, ns: the median, or a value
/// that is no further than the median where that is not known.
fn middle(metric: &MetricResult) -> (&'static str, u64) {
    let figures = &metric.figures;
    let of_received = || metric.received_only.as_ref().and_then(|only| only.p50_ns);
    match (figures.quantiles.p50_ns, of_received()) {
        (Some(p50), _) => ("p50", p50.unsigned_abs()),
        (None, Some(p50)) => ("p50 of the received packets", p50.unsigned_abs()),
        (None, None) => ("least value (its p50 is not known)", figures.min_ns.unwrap_or(0).max(0).unsigned_abs()),
    }
}

/// Takes the figures of a stream that the rule refuses, and gives those `above` the minimum of each
/// metric that two clocks measured, where these are known and the rule does not refuse them as
/// well. Below a figure that is refused it gives the reason in that case. Of one trial of several
/// there are such figures only below those that are refused: with those of some trials alone, which
/// their own values choose, two runs would be compared. Which metrics the rule refuses.
pub(crate) fn refuse(
    stream: &str,
    result: &mut StreamResult,
    settings: &Validity,
    is_one_trial: bool,
    mut above: impl FnMut(Metric) -> Option<MetricResult>,
) -> Vec<Metric> {
    let limit = settings.share(CLOCK_BOUND.id);
    let refused = refused(stream, result, settings);
    let mut rows = BTreeMap::new();
    let mut all = Vec::new();
    for (name, found) in &mut result.metrics {
        let is_of_two = found.count > 0 && found.clock_bound_ns.is_some_and(|ns| ns > 0);
        let Some(metric) = name.parse::<Metric>().ok().filter(|_| is_of_two) else { continue };
        let why = refused.iter().find(|refused| refused.metric == *name).map(|refused| &refused.why);
        if let Some(why) = why {
            *found = without_figures(found, why);
            all.push(metric);
        }
        if is_one_trial && why.is_none() {
            continue;
        }
        let row = above(metric).map(|found| weighed(found, limit));
        let row = row.filter(|row| row.count > 0 || why.is_some());
        rows.extend(row.map(|row| (format!("{name}{ABOVE_MINIMUM}"), row)));
    }
    result.metrics.extend(rows);
    all
}
