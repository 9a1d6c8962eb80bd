// SPDX-License-Identifier: MIT OR Apache-2.0
//! A one-way figure that is refused for its bound, and what is above its minimum, which is given:
//! the readings of all trials show how little the clocks drifted in each.

use super::fixture::{BASE_NS, LEAD, batch, received, record};
use super::validity::ctl;
use std::collections::BTreeMap;
use tardy_analyze::cell::{CellAnalysis, CellAnswer};
use tardy_model::result::MetricResult;
use tardy_model::sample::Batch;
use tardy_model::time::{Offset, OffsetReading, Steering};
use tardy_model::trial::TrialRecord;

const PACKETS: u32 = 2_001;
const SECOND: i64 = 1_000_000_000;
/// What each reading may be wrong by, ns: more than a tenth of 39 µs.
const BOUND_NS: i64 = 5_000;

/// Trial `n` of those that begin two seconds apart. A packet takes between 19 µs and 59 µs.
fn trial(n: u32, is_known: bool) -> (TrialRecord, Batch) {
    let mut record = record(n, PACKETS);
    let from = BASE_NS + i64::from(n) * 2 * SECOND;
    let at = |at_tai_ns| OffsetReading { at_tai_ns, ahead_ns: 3_000_000, bound_ns: BOUND_NS };
    let (first, last) = (at(from), at(from + SECOND));
    let states = [record.before.clone(), record.after.clone()];
    record.hosts.insert("rig".into(), states);
    let stream = ctl(&mut record);
    stream.offsets.rx = Some(Offset { host: "rig".into(), first, last, method: "told".into(), ..Offset::default() });
    let steering = is_known.then_some(Steering { rate_ppb: 7, left_ns: 0 });
    for clock in stream.tx_clocks.iter_mut().chain(&mut stream.rx_clocks) {
        clock.steering = steering;
    }
    let way = |i: i64| 19_000 + i * 997 % i64::from(PACKETS) * 20;
    let ways: Vec<_> = (0..i64::from(PACKETS)).map(|i| received(way(i))).collect();
    (record, batch(0, &ways))
}

fn cell(trials: u32, is_known: bool) -> CellAnswer {
    let asked = BTreeMap::from([("ctl".to_owned(), vec![LEAD])]);
    let mut cell = CellAnalysis::new("all", BTreeMap::new(), asked, Vec::new());
    for (record, batch) in (1..=trials).map(|n| trial(n, is_known)) {
        cell.trial(&record, [("ctl", batch)]);
    }
    cell.finish()
}

fn rows(answer: &CellAnswer) -> [&MetricResult; 2] {
    let of = |metric: &str| &answer.result.streams["ctl"].metrics[metric];
    ["scheduled..rx_kernel", "scheduled..rx_kernel above its minimum"].map(of)
}

#[test]
fn what_is_above_the_minimum_was_refused_whenever_the_one_way_figure_was() {
    let answer = cell(10, true);
    let [one_way, above] = rows(&answer);
    assert_eq!((one_way.refused_by.as_deref(), one_way.figures.quantiles.p50_ns), (Some("clock-bound"), None));
    assert_eq!(one_way.clock_bound_ns, Some(BOUND_NS));
    assert_eq!((above.refused_by.as_deref(), above.figures.quantiles.p50_ns), (None, Some(20_000)));
    // Ten trials in 19 s: both bounds are a nineteenth of what they are of one second. The clocks'
    // brackets and what crystals do come on top.
    let bound_ns = above.clock_bound_ns.expect("a bound");
    assert!((2 * BOUND_NS / 19..2 * BOUND_NS / 10).contains(&bound_ns), "{bound_ns}");
    // One trial says nothing but its own two readings, and nor do ten of clocks of which nobody
    // knows how they were steered.
    for answer in [cell(1, true), cell(10, false)] {
        let [_, above] = rows(&answer);
        assert_eq!((above.refused_by.as_deref(), above.clock_bound_ns), (Some("clock-bound"), Some(2 * BOUND_NS)));
    }
}
