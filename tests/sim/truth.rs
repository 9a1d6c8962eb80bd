// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each fault put into the simulated machine gives its verdict and no other; without it there is none.

use crate::engine::stream;
use std::collections::BTreeMap;
use tardy_analyze::cell::CellAnalysis;
use tardy_engine::halves::join;
use tardy_engine::port::sim;
use tardy_model::placement::PlacementRecord;
use tardy_model::point::{Metric, Point};
use tardy_model::shaper::Shaper;
use tardy_model::stream::{Sim, Stream, Wait};
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::Level;

/// Ids of the verdicts of one trial that are more than a note, with their level.
fn judge(stream: &Stream) -> Vec<(String, Level)> {
    let trial = sim::trial(stream, 0, 99, Nanos(321), &Shaper::None);
    let (batch, record) = join(stream, trial.base, &trial.halves);
    let record = TrialRecord {
        format: tardy_model::FORMAT,
        cell: "all".into(),
        n: 1,
        order: 0,
        nonce: "63".into(),
        phase_ns: 321,
        base_tai_ns: trial.base.ns(),
        interrupted: false,
        failed: None,
        before: trial.before,
        after: trial.after,
        streams: BTreeMap::from([("ctl".to_owned(), record)]),
        loads: BTreeMap::new(),
        placement: PlacementRecord::default(),
        shapers: BTreeMap::new(),
    };
    let asked = BTreeMap::from([("ctl".to_owned(), stream.metrics.clone())]);
    let mut cell = CellAnalysis::new("all", BTreeMap::new(), asked, Vec::new());
    let answer = cell.trial(&record, [("ctl", &batch)]);
    let grave = answer.result.verdicts.iter().filter(|verdict| verdict.level > Level::Note);
    let mut grave: Vec<_> = grave.map(|verdict| (verdict.id.clone(), verdict.level)).collect();
    // A rule speaks once for each CPU or stream that it concerns.
    grave.dedup();
    grave
}

fn only(stream: &Stream, id: &str) {
    assert_eq!(judge(stream), [(id.to_owned(), Level::Invalid)]);
}

#[test]
fn a_healthy_trial_has_no_verdict() {
    assert_eq!(judge(&stream(Sim::default())), []);
    let mut spinning = stream(Sim::default());
    spinning.rx.wait = Wait::Spin;
    spinning.count = 6_000;
    assert_eq!(judge(&spinning), []);
}

#[test]
fn a_hog_gives_competing_cpu() {
    only(&stream(Sim { hog: 0.8, ..Sim::default() }), "competing-cpu");
}

#[test]
fn a_refused_policy_gives_policy() {
    only(&stream(Sim { refuse_policy: true, ..Sim::default() }), "policy");
}

#[test]
fn a_stopped_spinner_gives_rt_bandwidth() {
    let mut stream = stream(Sim { throttle: Nanos(50_000_000), ..Sim::default() });
    stream.rx.wait = Wait::Spin;
    stream.count = 6_000;
    only(&stream, "rt-bandwidth");
}

#[test]
fn stamps_that_start_late_give_late_stamps() {
    only(&stream(Sim { stamps_after: 40, ..Sim::default() }), "late-stamps");
}

#[test]
fn a_stepped_clock_gives_clock_step() {
    only(&stream(Sim { step: Nanos(200_000), ..Sim::default() }), "clock-step");
}

#[test]
fn a_changed_tai_offset_gives_tai_offset() {
    only(&stream(Sim { tai_offset_change_s: 1, ..Sim::default() }), "tai-offset");
}

#[test]
fn a_stolen_cpu_gives_steal() {
    only(&stream(Sim { steal: 0.3, ..Sim::default() }), "steal");
}

#[test]
fn lost_packets_give_loss() {
    only(&stream(Sim { loss: 0.05, ..Sim::default() }), "loss");
}

#[test]
fn a_cycle_that_cannot_be_kept_gives_rate() {
    let mut stream = stream(Sim { wake: Nanos::ZERO, ..Sim::default() });
    stream.cycle = Nanos(400);
    stream.deadline = Nanos(1_000_000_000);
    only(&stream, "rate");
}

#[test]
fn a_missed_rate_is_told_without_app_stamps_too() {
    let mut stream = stream(Sim { wake: Nanos::ZERO, ..Sim::default() });
    stream.cycle = Nanos(400);
    stream.deadline = Nanos(1_000_000_000);
    stream.stamps = vec![Point::TxKernel, Point::RxKernel];
    stream.metrics = vec![Metric::Span(Point::TxKernel, Point::RxKernel)];
    only(&stream, "rate");
}
