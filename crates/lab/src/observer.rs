// SPDX-License-Identifier: MIT OR Apache-2.0
//! What observing costs: kernel tx stamps take time in the path that they measure. After the
//! first trial on a path and port a few short trials run without loads, in turn with the stamps
//! that the experiment asks for and with receive stamps only. The difference of the medians is
//! what the stamps add.

use crate::loads::Loads;
use crate::not_found::NotFound;
use crate::orders;
use crate::placement::Placed;
use crate::plan::Plan;
use crate::station::Stations;
use crate::trial::Broken;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tardy_engine::halves;
use tardy_model::point::{Metric, Point};
use tardy_model::sample::Batch;
use tardy_model::stream::Stream;
use tardy_model::stream_id::StreamId;
use tardy_model::time::Nanos;
use tardy_model::trial::ObserverRecord;
use tardy_spec::experiment::Setup;

/// Packets of a short trial at most; of a slow stream fewer, so that it takes no longer than this.
/// The number of trials counts for more than their length: trials differ more than packets do.
const PACKETS: u32 = 30;
const LONGEST: Nanos = Nanos(250_000_000);
/// With fewer packets the observer reports nothing.
const LEAST: u32 = 20;
/// In this order, so that a machine that drifts favours neither: with tx stamps or without.
const TURNS: [bool; 8] = [true, false, false, true, false, true, true, false];
/// Normal quantile of a two-sided 95 %.
const TWO_SIDED_95: f64 = 1.96;
/// Quantiles of Student's distribution for the same, of 1 degree of freedom and on.
const STUDENT_95: [f64; 6] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447];

/// Values by trial, by the stream and the metric; and by how much those of any trial may be wrong,
/// ns, where two clocks took their stamps.
type Measured = BTreeMap<(StreamId, Metric), (Vec<Vec<i64>>, i64)>;

/// A point that a tx stamp is taken at.
fn is_of_tx(point: Point) -> bool {
    matches!(point, Point::TxSched | Point::TxKernel | Point::TxHw | Point::ReplyTxSched | Point::ReplyTxKernel)
}

/// True if a stream asks for tx stamps and sends fast enough.
pub fn can_measure(setup: &Setup) -> bool {
    short(setup).is_some()
}

/// The same experiment for a short trial without loads; `None` where no stream that is fast enough
/// asks for tx stamps, or one would not send a packet in its time.
fn short(setup: &Setup) -> Option<Setup> {
    let mut setup = setup.clone();
    setup.loads.clear();
    for stream in &mut setup.streams {
        let within = if stream.cycle > Nanos::ZERO { (LONGEST.0 / stream.cycle.0) as u32 } else { PACKETS };
        stream.count = stream.count.min(PACKETS).min(within);
    }
    let asks = |stream: &Stream| stream.stamps.iter().any(|point| is_of_tx(*point)) && stream.count >= LEAST;
    let all = setup.streams.iter().all(|stream| stream.count > 0 && !stream.port.traits().is_simulated);
    (all && setup.streams.iter().any(asks)).then_some(setup)
}

/// Runs the short trials and compares them.
///
/// # Errors
/// As of any trial.
pub fn measure(
    stations: &mut Stations,
    plan: &Plan,
    setup: &Setup,
    chosen: &[Placed],
    random: &mut Pcg64Mcg,
    stop: &AtomicBool,
) -> Result<Vec<ObserverRecord>, Broken> {
    let Some(with) = short(setup) else { return Ok(Vec::new()) };
    let mut without = with.clone();
    without.streams.iter_mut().for_each(|stream| stream.stamps.retain(|point| !is_of_tx(*point)));
    let mut values: [Measured; 2] = Default::default();
    for stamped in TURNS {
        if stop.load(Relaxed) {
            // The trial before these is finished and waits to be kept.
            return Ok(Vec::new());
        }
        let setup = if stamped { &with } else { &without };
        let (_, ordered) = orders::orders(setup, plan, chosen, random)?;
        let mut loads = Loads::of(setup, plan, &[], random)?;
        let ran = stations.run(&ordered, &mut loads, stop, None, &mut |_, _| {})?;
        for (ordered, ran) in ordered.iter().zip(&ran) {
            let (batch, record) = halves::join(&ordered.stream, ran.base, &ran.halves);
            for metric in ordered.stream.metrics.iter().filter(|metric| is_of_both(**metric)) {
                let (trials, bound_ns) = values[usize::from(stamped)].entry((ordered.id, *metric)).or_default();
                trials.push(all_of(&batch, *metric).collect());
                *bound_ns = record.clock_bound_ns(*metric).unwrap_or(0).max(*bound_ns);
            }
        }
    }
    let [without_values, mut with_values] = values;
    let mut records = Vec::new();
    for ((id, metric), (bare, bare_bound_ns)) in without_values {
        // Without a trial of each kind there is nothing to compare.
        let Some((stamped, stamped_bound_ns)) = with_values.remove(&(id, metric)) else { continue };
        if let Some(more) = added(&stamped, &bare) {
            let (added_ns, low_ns, high_ns) = within(more, [stamped_bound_ns, bare_bound_ns]);
            let packets = [&bare, &stamped].map(|trials| trials.iter().map(Vec::len).sum::<usize>() as u32);
            let (stream, packets) =
                (id.of(&with.streams).map_err(NotFound::from)?.name.clone(), packets[0].min(packets[1]));
            records.push(ObserverRecord { stream, metric, packets, added_ns, low_ns, high_ns });
        }
    }
    Ok(records)
}

/// What stamps add, with an interval that also holds it where the values of both kinds of trials
/// may be wrong by these bounds, each the other way.
pub fn within((added_ns, low_ns, high_ns): (i64, i64, i64), bounds_ns: [i64; 2]) -> (i64, i64, i64) {
    let both = bounds_ns.into_iter().fold(0, i64::saturating_add);
    (added_ns, low_ns.saturating_sub(both), high_ns.saturating_add(both))
}

/// A metric that no tx stamp is part of. The distance of two arrivals is the cycle, whatever the
/// stamps cost.
fn is_of_both(metric: Metric) -> bool {
    metric != Metric::Delta && !metric.points().into_iter().any(is_of_tx)
}

fn all_of(batch: &Batch, metric: Metric) -> impl Iterator<Item = i64> + '_ {
    (0..batch.len()).filter_map(move |row| batch.span_ns(row, metric))
}

/// A median with its interval, of values and of trials.
struct Middle {
    low: i64,
    median: i64,
    high: i64,
    /// The mean of the trials' medians, and the sum of their squared deviations from it.
    mean: f64,
    squares: f64,
    trials: usize,
}

fn middle(trials: &[Vec<i64>]) -> Option<Middle> {
    let sorted = |mut values: Vec<i64>| {
        values.sort_unstable();
        values
    };
    let trials: Vec<Vec<i64>> =
        trials.iter().filter(|trial| trial.len() >= LEAST as usize).cloned().map(sorted).collect();
    let medians: Vec<f64> = trials.iter().map(|trial| trial[trial.len().div_ceil(2) - 1] as f64).collect();
    let values = sorted(trials.concat());
    let (n, count) = (values.len(), medians.len());
    let at = n.div_ceil(2).checked_sub(1)?;
    let reach = (TWO_SIDED_95 * (n as f64).sqrt() / 2.0).ceil() as usize;
    let mean = medians.iter().sum::<f64>() / count as f64;
    Some(Middle {
        low: values[at.saturating_sub(reach)],
        median: values[at],
        high: values[(at + reach).min(n - 1)],
        mean,
        squares: medians.iter().map(|median| (median - mean).powi(2)).sum(),
        trials: count,
    })
}

/// The difference of the medians of two kinds of trials, with an interval that holds it with at
/// least 95 %. It is the hull of two: each median's own by the ranks of a binomial distribution
/// (David and Nagaraja, Order Statistics, 2003, section 7.1), the ends subtracted crosswise; and
/// that of Student's t for the trials' medians, for packets of one trial hang together. Trials of
/// fewer than [`LEAST`] packets are left out; `None` unless two of each kind are left.
pub fn added(with: &[Vec<i64>], without: &[Vec<i64>]) -> Option<(i64, i64, i64)> {
    let (with, without) = (middle(with)?, middle(without)?);
    let free = (with.trials.min(without.trials) > 1).then(|| with.trials + without.trials - 2)?;
    let variance = (with.squares + without.squares) / free as f64;
    let each = 1.0 / with.trials as f64 + 1.0 / without.trials as f64;
    let reach = STUDENT_95[free.min(STUDENT_95.len()) - 1] * (variance * each).sqrt();
    let difference = with.mean - without.mean;
    let low = (with.low - without.high).min((difference - reach).floor() as i64);
    let high = (with.high - without.low).max((difference + reach).ceil() as i64);
    Some((with.median - without.median, low, high))
}
