// SPDX-License-Identifier: MIT OR Apache-2.0
//! Did the cell keep the limits that the user wrote? Limits of figures, and of `early` and `late`,
//! are judged on the pooled figures, and a limit on a figure that is not available is not kept.
//! What became of the packets is judged over every finished trial, whatever the validity
//! ([`Certain`]), so that losing more packets never costs less.

use crate::clusters::NEEDED;
use crate::outcomes::{Certain, Seen, counted};
use crate::says;
use crate::statistics::{packets_for, rank_of};
use std::collections::BTreeMap;
use tardy_model::expect::{AT_LEAST, BANDWIDTH, Count, Expectation, Limit, Of, QUANTILES};
use tardy_model::histogram::{Bucket, Histogram};
use tardy_model::point::{Metric, Point};
use tardy_model::result::{ExpectationResult, MetricResult, Outcomes, StreamResult};
use tardy_model::time::Nanos;
use tardy_model::trial::StreamRecord;

/// Judges each expectation of a cell: on its pooled results, and on what is certain of all its
/// finished trials. Whether the cell is valid is not asked here; [`crate::run::run`] does.
pub fn judge(
    cell: &str,
    expectations: &[Expectation],
    streams: &BTreeMap<String, StreamResult>,
    certain: &BTreeMap<String, Certain>,
) -> Vec<ExpectationResult> {
    let of = |expectation: &Expectation| {
        let (stream, certain) = (streams.get(&expectation.stream), certain.get(&expectation.stream));
        one(cell, expectation, stream, certain)
    };
    expectations.iter().map(of).collect()
}

fn one(
    cell: &str,
    expectation: &Expectation,
    stream: Option<&StreamResult>,
    certain: Option<&Certain>,
) -> ExpectationResult {
    let mut result = ExpectationResult {
        cell: cell.to_owned(),
        stream: expectation.stream.clone(),
        metric: String::new(),
        of: "count".to_owned(),
        limit_ns: None,
        got_ns: None,
        limit: None,
        got: None,
        met: Some(false),
        why: None,
    };
    match expectation.limit {
        Limit::Count { count, at_most } => {
            result.metric = count.name().to_owned();
            result.limit = Some(at_most);
            if count.needs_no_validity() {
                match certain.filter(|certain| certain.intended > 0).and_then(|certain| certain.of(count)) {
                    Some(seen) => (result.got, result.met, result.why) = limited(seen, count, at_most),
                    None => {
                        (result.met, result.why) = (None, Some("no packet of the stream was on its way".to_owned()));
                    }
                }
                return result;
            }
            match stream.filter(|stream| stream.outcomes.intended > 0) {
                Some(stream) => {
                    let got = counted(&stream.outcomes, count);
                    result.got = Some(got);
                    result.met = Some(got <= at_most);
                }
                None => result.why = Some("the stream has no packets".to_owned()),
            }
        }
        Limit::Bandwidth { at_least_bits_s } => {
            BANDWIDTH.clone_into(&mut result.metric);
            AT_LEAST.clone_into(&mut result.of);
            result.limit = Some(at_least_bits_s);
            match stream.and_then(|stream| stream.copy.as_ref()) {
                Some(copy) => {
                    let got = (copy.wall_bytes_s * 8.0).round() as u64;
                    result.got = Some(got);
                    result.met = Some(got >= at_least_bits_s);
                }
                None => result.why = Some("no pass was ended".to_owned()),
            }
        }
        Limit::Metric { metric, of, limit_ns, inclusive } => {
            result.metric = metric.to_string();
            result.of = of.to_string();
            result.limit_ns = Some(limit_ns);
            let found = stream.and_then(|stream| Some((stream, stream.metrics.get(&metric.to_string())?)));
            let within = |got: f64| if inclusive { got <= limit_ns as f64 } else { got < limit_ns as f64 };
            // Nobody knows whether a figure that is refused is within the limit.
            if let Some((_, found)) = found.filter(|(_, found)| found.refused_by.is_some()) {
                (result.met, result.why) = (None, found.why.clone());
                return result;
            }
            match found.map(|(stream, found)| figure(metric, found, of, &stream.outcomes, within)) {
                Some(Ok(got)) => {
                    result.got_ns = Some(got.round() as i64);
                    result.met = Some(within(got));
                }
                Some(Err(why)) => result.why = Some(why),
                None => result.why = Some("the metric was not computed".to_owned()),
            }
        }
    }
    result
}

/// The metric by which a packet is late: until it was received, or its reply; until the XDP program
/// saw it where the receiver comes to it late by design.
pub fn lateness(of: &StreamRecord) -> Metric {
    Metric::Span(
        Point::Scheduled,
        match (&of.reply, of.is_triggered()) {
            (Some(_), _) => Point::ReplyReceive,
            (None, true) => Point::RxXdp,
            (None, false) => Point::Receive,
        },
    )
}

/// What decides whether a stream's packets were early or late, where two clocks took
/// both stamps, and the largest bound of its trials, ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crossing {
    early: Option<(Metric, i64)>,
    late: Option<(Metric, i64)>,
}

impl Crossing {
    pub fn add(&mut self, of: &StreamRecord) {
        let stamped = |point: &Point| of.sources.contains_key(point);
        let first = [Point::RxKernel, Point::RxXdp].into_iter().find(stamped).unwrap_or(Point::Receive);
        let early = Metric::Span(Point::Scheduled, first);
        for (found, metric) in [(&mut self.early, early), (&mut self.late, lateness(of))] {
            if let Some(bound_ns) = of.clock_bound_ns(metric) {
                *found = Some((metric, found.map_or(bound_ns, |(_, other)| bound_ns.max(other))));
            }
        }
    }
}

/// A cell's figures, for limits on `early` and `late` that the clocks of two hosts may not decide.
pub(crate) struct Clocks<'a> {
    /// What is known of each stream, by its name.
    pub crossing: &'a BTreeMap<String, Crossing>,
    pub deadlines: &'a BTreeMap<String, Nanos>,
    pub streams: &'a BTreeMap<String, StreamResult>,
    /// The histograms of figures that the rule `clock-bound` refuses.
    pub withheld: &'a BTreeMap<(String, Metric), Histogram>,
    /// The share that a bound may be.
    pub limit: f64,
}

impl Clocks<'_> {
    /// Leaves a limit on `early` or `late` open if the figure that decides it is refused, or, where
    /// the cell has no such figure, if the bound is too large next to the deadline. It is judged
    /// all the same if it is kept, or broken, wherever within the bound the true values are.
    pub fn decide(&self, result: &mut ExpectationResult, expectation: &Expectation) {
        let Limit::Count { count, at_most } = expectation.limit else { return };
        let Some((got, crossing)) = result.got.zip(self.crossing.get(&result.stream)) else { return };
        let found = match count {
            Count::Early => crossing.early,
            Count::Late => crossing.late,
            _ => None,
        };
        let Some(((metric, bound_ns), stream)) = found.zip(self.streams.get(&result.stream)) else { return };
        let deadline = self.deadlines.get(&result.stream).map(|deadline| deadline.0);
        let refused_by = match stream.metrics.get(&metric.to_string()) {
            Some(found) if found.refused_by.is_none() => return,
            Some(_) => "their bound is too large next to its p50 (clock-bound)".to_owned(),
            None => match deadline {
                Some(ns) if bound_ns as f64 <= self.limit * ns as f64 => return,
                _ => "their bound is too large next to the deadline".to_owned(),
            },
        };
        // What is early is so by more than the bound.
        let is_sure_early = count == Count::Early && got > at_most;
        let values = self.withheld.get(&(result.stream.clone(), metric));
        let decided = values.and_then(|values| {
            let unknown = stream.outcomes.received.saturating_sub(values.count());
            let count_of = |is: &dyn Fn(&Bucket) -> bool| values.iter().filter(is).map(|of| of.count).sum::<u64>();
            let (sure, possible) = match (count, deadline) {
                (Count::Late, Some(ns)) => (
                    count_of(&|of| of.low_ns > ns.saturating_add(bound_ns)),
                    count_of(&|of| of.high_ns > ns.saturating_sub(bound_ns)),
                ),
                (Count::Late, None) => return None,
                _ => (got, count_of(&|of| of.low_ns < bound_ns)),
            };
            (sure > at_most).then_some(false).or((possible.saturating_add(unknown) <= at_most).then_some(true))
        });
        result.met = decided.or(is_sure_early.then_some(false));
        if result.met.is_none() {
            result.got = None;
            result.why = Some(format!(
                "two clocks, known within ± {}, took the stamps of {metric}, which decides what is {}: \
                 {refused_by}",
                says::bound(bound_ns),
                count.name()
            ));
        }
    }
}

/// Decides the limit of a percentile that is not resolved. What these packets themselves come to is
/// known all the same: if more of them than may be are beyond the limit, it is broken, however few
/// events they are. Otherwise it is open, for these packets are too few to say so.
pub fn decide_unresolved(
    result: &mut ExpectationResult,
    expectation: &Expectation,
    streams: &BTreeMap<String, StreamResult>,
    histograms: &BTreeMap<(String, Metric), Histogram>,
) {
    let Limit::Metric { metric, of: Of::Quantile(index), limit_ns, inclusive } = expectation.limit else { return };
    let Some((_, name, q)) = QUANTILES.get(index) else { return };
    let Some(stream) = streams.get(&result.stream) else { return };
    let found = stream.metrics.get(&result.metric).filter(|found| found.unresolved.iter().any(|of| of == name));
    let values = histograms.get(&(result.stream.clone(), metric));
    let Some((found, values)) = found.filter(|found| !found.between_ns.contains_key(*name)).zip(values) else { return };
    if result.met != Some(false) || result.got_ns.is_some() {
        return;
    }
    let never = if found.is_unbounded() { stream.outcomes.lost + stream.outcomes.not_sent } else { 0 };
    let is_beyond = |of: &Bucket| if inclusive { of.low_ns > limit_ns } else { of.low_ns >= limit_ns };
    let beyond = never + values.iter().filter(is_beyond).map(|of| of.count).sum::<u64>();
    let all = never + values.count();
    let may_be = all - rank_of(*q, all);
    if beyond > may_be {
        result.why = Some(format!(
            "{beyond} of {} are beyond the limit, and a {name} within it allows {may_be}. The {name} itself has no figure: \
             fewer than {NEEDED} separate events lie beyond it (one stall is one)",
            says::count(all, "value", "values")
        ));
    } else {
        result.met = None;
    }
}

/// Leaves a percentile's limit open that others may have broken: the stream's threads waited for
/// them for this share of the time, and fewer packets than that decide the percentile. The limit
/// stays broken if it is broken whichever packets others made late: without them at most that share
/// more of the packets were within any x, so the percentile that is lower by that share is beyond
/// the limit only if the limit was broken anyway. One that is kept stays kept.
pub fn leave_open(
    result: &mut ExpectationResult,
    expectation: &Expectation,
    streams: &BTreeMap<String, StreamResult>,
    others_share: f64,
) {
    let Limit::Metric { metric, of: Of::Quantile(index), limit_ns, inclusive } = expectation.limit else { return };
    let Some((_, name, q)) = QUANTILES.get(index).filter(|(_, _, q)| others_share > 1.0 - q) else { return };
    if result.met != Some(false) || result.got_ns.is_none() {
        return;
    }
    let found = streams.get(&result.stream).and_then(|stream| stream.metrics.get(&metric.to_string()));
    let lower = QUANTILES.iter().rposition(|(_, _, lower)| *lower <= q - others_share);
    let at_lower = found.zip(lower).and_then(|(found, lower)| found.figures.quantiles.as_array()[lower]);
    let is_beyond = |ns: i64| if inclusive { ns > limit_ns } else { ns >= limit_ns };
    if at_lower.is_some_and(is_beyond) {
        return;
    }
    let (share, beyond) = (says::share(others_share), says::share(1.0 - q));
    let what = says::of_what(metric);
    result.met = None;
    result.why = Some(format!(
        "threads of {} waited for others for up to {share} of the time (competing-cpu), and {beyond} of the {what} decide \
         {name}: end what runs next to the measurement, or give the threads a realtime policy",
        result.stream
    ));
}

/// Leaves a limit on a time open, and on what is early or late, where the processor of a station is
/// emulated in software: how long something takes there says nothing of a machine.
pub fn leave_open_in_emulation(result: &mut ExpectationResult, station: &str) {
    let by_time = [Count::Early, Count::Late].iter().any(|count| count.name() == result.metric);
    if result.limit_ns.is_none() && !by_time {
        return;
    }
    // This reason replaces any other: with more packets, for one, the limit would still be open.
    result.met = None;
    result.why = Some(format!(
        "the processor of station `{station}` is emulated in software, so how long something takes there is the emulator's \
         affair: run this where KVM starts the machine"
    ));
}

/// What it may be.
const LATENESS: [Point; 3] = [Point::ReplyReceive, Point::Receive, Point::RxXdp];

/// Adds to a broken limit on `late` what late is, and which packet was the latest: the figures that
/// lead are of an earlier point, and may all be below the deadline.
pub fn explain_late(
    result: &mut ExpectationResult,
    streams: &BTreeMap<String, StreamResult>,
    deadlines: &BTreeMap<String, Nanos>,
) {
    if result.metric != Count::Late.name() || result.met != Some(false) || result.why.is_some() {
        return;
    }
    let Some(stream) = streams.get(&result.stream) else { return };
    let of = LATENESS.map(|point| Metric::Span(Point::Scheduled, point).to_string());
    let Some((metric, found)) =
        of.iter().find_map(|name| stream.metrics.get_key_value(name).filter(|(_, found)| found.count > 0))
    else {
        return;
    };
    let after = deadlines.get(&result.stream);
    let after =
        after.map_or_else(|| "the deadline".to_owned(), |after| format!("the deadline of {}", says::time(after.0)));
    let latest = match (found.greatest_received_ns(), found.max_seq, found.max_trial) {
        (Some(ns), Some(seq), Some(trial)) => {
            format!("; the latest took {}, packet #{seq} of trial {trial}", says::time(ns))
        }
        (Some(ns), ..) => format!("; the latest took {}", says::time(ns)),
        (None, ..) => String::new(),
    };
    result.why = Some(format!("late is a {metric} above {after}{latest}"));
}

/// What was counted, whether the limit was kept, and why that is not known. More than the limit is
/// broken whatever else there may be.
fn limited(seen: &Seen, count: Count, at_most: u64) -> (Option<u64>, Option<bool>, Option<String>) {
    let got = seen.at_least;
    if got > at_most {
        let by_outage = (seen.by_outage > 0 && count == Count::Lost).then(|| {
            let packets = says::count(seen.by_outage, "packet", "packets");
            format!("{packets} of them could not be sent, for path or peer was gone")
        });
        return (Some(got), Some(false), by_outage);
    }
    let Some((trial, why)) = seen.unseen.first() else { return (Some(got), Some(true), None) };
    let others: Vec<u32> = seen.unseen.iter().skip(1).map(|(trial, _)| *trial).collect();
    let others = if others.is_empty() { String::new() } else { format!(" (the same in {})", says::trials(&others)) };
    (None, None, Some(format!("tardy did not see what became of all packets in trial {trial}: {why}{others}")))
}

/// The figure in ns, or why there is none. Of one that packets without a stamp could change, it is
/// the bound that decides whether the limit was kept, if one does.
fn figure(
    metric: Metric,
    found: &MetricResult,
    of: Of,
    outcomes: &Outcomes,
    within: impl Fn(f64) -> bool,
) -> Result<f64, String> {
    if found.count == 0 {
        return Err(found.why.clone().unwrap_or_else(|| "there are no values".to_owned()));
    }
    let figures = &found.figures;
    if found.is_unbounded() && matches!(of, Of::Max | Of::Mean | Of::Stddev) {
        let received = found.greatest_received_ns().filter(|_| of == Of::Max);
        let received = received.map_or_else(String::new, |ns| format!("; of those received it is {}", says::time(ns)));
        return Err(format!("{of} is infinite: {}{received}", missing(metric, outcomes)));
    }
    let (name, quantile) = match of {
        Of::Min => return figures.min_ns.map(|ns| ns as f64).ok_or_else(|| "there are no values".to_owned()),
        Of::Max => return figures.max_ns.map(|ns| ns as f64).ok_or_else(|| "there are no values".to_owned()),
        Of::Mean => return figures.mean_ns.ok_or_else(|| "there are no values".to_owned()),
        Of::Stddev => return figures.stddev_ns.ok_or_else(|| "it needs two values".to_owned()),
        Of::Quantile(index) => {
            let (_, name, q) = QUANTILES.get(index).ok_or_else(|| "there is no such percentile".to_owned())?;
            let [least, greatest] =
                found.between_ns.get(*name).map_or([None; 2], |bounds| bounds.map(|ns| Some(ns? as f64)));
            let decides = greatest.filter(|ns| within(*ns)).or(least.filter(|ns| !within(*ns)));
            let ns = figures.quantiles.as_array()[index].map(|ns| ns as f64).or(decides);
            (*name, ns.ok_or(*q))
        }
    };
    quantile.map_err(|q| {
        if found.infinite.iter().any(|infinite| infinite == name) {
            return format!("{name} is infinite: {}", missing(metric, outcomes));
        }
        if let Some(bounds) = found.between_ns.get(name) {
            return says::between(name, bounds);
        }
        let values = says::count(found.count, "value", "values");
        let needed = packets_for(q, NEEDED);
        let what = says::of_what(metric);
        let advice = match needed > outcomes.intended {
            true => format!("{metric} would need about {needed} {what}, more if they come in bursts"),
            // More of the same would do, and nobody knows how many.
            false if metric == Metric::PASS => {
                "long passes came together, and those are one event: take several times as many iterations".to_owned()
            }
            false => {
                "late packets came together, and packets that come together are one event: send several times as many"
                    .to_owned()
            }
        };
        format!("{name} is not resolved: of {values} fewer than {NEEDED} separate events (one stall is one) lie beyond it; {advice}")
    })
}

fn missing(metric: Metric, outcomes: &Outcomes) -> String {
    if metric == Metric::PASS {
        return format!("{} of {} passes were not done", outcomes.not_sent, outcomes.intended);
    }
    format!("{} of {} packets were lost and {} not sent", outcomes.lost, outcomes.intended, outcomes.not_sent)
}
