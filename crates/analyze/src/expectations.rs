// SPDX-License-Identifier: MIT OR Apache-2.0
//! Did the cell keep the limits that the user wrote? Judged on the pooled figures; a figure that could not be had is not kept.

use crate::clusters::NEEDED;
use crate::quantiles::packets_for;
use crate::says;
use std::collections::BTreeMap;
use tardy_model::expect::{Count, Expectation, Limit, Of};
use tardy_model::point::Metric;
use tardy_model::result::{ExpectationResult, MetricResult, Outcomes, QUANTILES, StreamResult};

/// Judges each expectation of a cell on its pooled results.
pub fn judge(
    cell: &str,
    expectations: &[Expectation],
    streams: &BTreeMap<String, StreamResult>,
) -> Vec<ExpectationResult> {
    expectations.iter().map(|expectation| one(cell, expectation, streams.get(&expectation.stream))).collect()
}

fn one(cell: &str, expectation: &Expectation, stream: Option<&StreamResult>) -> ExpectationResult {
    let mut result = ExpectationResult {
        cell: cell.to_owned(),
        stream: expectation.stream.clone(),
        metric: String::new(),
        of: "count".to_owned(),
        limit_ns: None,
        got_ns: None,
        limit: None,
        got: None,
        met: false,
        why: None,
    };
    match expectation.limit {
        Limit::Count { count, at_most } => {
            result.metric = count.name().to_owned();
            result.limit = Some(at_most);
            match stream.filter(|stream| stream.outcomes.intended > 0) {
                Some(stream) => {
                    let got = counted(&stream.outcomes, count);
                    result.got = Some(got);
                    result.met = got <= at_most;
                }
                None => result.why = Some("the stream has no packets".to_owned()),
            }
        }
        Limit::Metric { metric, of, limit_ns, inclusive } => {
            result.metric = metric.to_string();
            result.of = of.to_string();
            result.limit_ns = Some(limit_ns);
            let found = stream.and_then(|stream| Some((stream, stream.metrics.get(&metric.to_string())?)));
            match found.map(|(stream, found)| figure(metric, found, of, &stream.outcomes)) {
                Some(Ok(got)) => {
                    result.got_ns = Some(got.round() as i64);
                    result.met = if inclusive { got <= limit_ns as f64 } else { got < limit_ns as f64 };
                }
                Some(Err(why)) => result.why = Some(why),
                None => result.why = Some("the metric was not computed".to_owned()),
            }
        }
    }
    result
}

fn counted(outcomes: &Outcomes, count: Count) -> u64 {
    match count {
        Count::Lost => outcomes.lost,
        Count::NotSent => outcomes.not_sent,
        Count::Early => outcomes.early,
        Count::Late => outcomes.late,
        Count::Duplicate => outcomes.duplicate,
        Count::Reordered => outcomes.reordered,
    }
}

/// The figure in ns, or why there is none.
fn figure(metric: Metric, found: &MetricResult, of: Of, outcomes: &Outcomes) -> Result<f64, String> {
    if found.count == 0 {
        return Err(found.why.clone().unwrap_or_else(|| "there are no values".to_owned()));
    }
    let figures = &found.figures;
    let (name, quantile) = match of {
        Of::Min => return figures.min_ns.map(|ns| ns as f64).ok_or_else(|| "there are no values".to_owned()),
        Of::Max => return figures.max_ns.map(|ns| ns as f64).ok_or_else(|| "there are no values".to_owned()),
        Of::Mean => return figures.mean_ns.ok_or_else(|| "there are no values".to_owned()),
        Of::Stddev => return figures.stddev_ns.ok_or_else(|| "it needs two values".to_owned()),
        Of::Quantile(index) => {
            let (_, name, q) = QUANTILES.get(index).ok_or_else(|| "there is no such percentile".to_owned())?;
            let ns = figures.quantiles.as_array()[index];
            (*name, ns.map(|ns| ns as f64).ok_or(*q))
        }
    };
    quantile.map_err(|q| {
        if found.infinite.iter().any(|infinite| infinite == name) {
            return format!(
                "{name} is infinite: {} of {} packets were lost and {} not sent",
                outcomes.lost, outcomes.intended, outcomes.not_sent
            );
        }
        let values = says::count(found.count, "value", "values");
        format!(
            "{name} is not resolved: of {values} fewer than {NEEDED} separate events lie beyond it; {metric} would need \
             about {} packets, more if they come in bursts",
            packets_for(q, NEEDED).max(outcomes.intended.saturating_add(1))
        )
    })
}
