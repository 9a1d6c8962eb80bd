// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trials against the ruler: tardy reports where the two disagree, and a guest whose emulator
//! is late is not valid.

use tardy_analyze::ruler::{Sender, judge};
use tardy_model::machine::RulerRecord;
use tardy_model::result::{CellResult, Figures, MetricResult, Placement, Quantiles, StreamResult, TrialResult};
use tardy_model::validity::{RuleLimit, Setting, Validity};
use tardy_model::verdict::{Level, Verdict};

/// A cell whose sender woke so late at p99.
fn cell(p99_ns: Option<i64>) -> CellResult {
    let quantiles = Quantiles { p99_ns, ..Quantiles::default() };
    let metric = MetricResult { figures: Figures { quantiles, ..Figures::default() }, ..MetricResult::default() };
    let stream = StreamResult { metrics: [("scheduled..wakeup".to_owned(), metric)].into(), ..StreamResult::default() };
    let placement = Placement {
        thread: "ctl.tx".into(),
        cpu_asked: "1".into(),
        cpus_seen: vec![1],
        policy_asked: "fifo:90".into(),
        policy_granted: "fifo:90".into(),
        memory_locked: true,
        migrations: None,
        wait_ns: None,
        napi_ids: Vec::new(),
    };
    let trial =
        TrialResult { n: 1, valid: true, streams: Default::default(), loads: Default::default(), verdicts: Vec::new() };
    CellResult {
        id: "all".into(),
        axes: Default::default(),
        valid: true,
        not_available: None,
        fingerprint: None,
        streams: [("ctl".to_owned(), stream)].into(),
        loads: Default::default(),
        placement: vec![placement],
        softirq: Vec::new(),
        cpus: Vec::new(),
        classes: Vec::new(),
        trials: vec![trial],
        verdicts: Vec::new(),
    }
}

fn record(thread: &str, cpu: u32, after: bool, p99_ns: i64) -> RulerRecord {
    RulerRecord {
        after,
        threads: vec![thread.into()],
        cpu: Some(cpu),
        policy: "fifo:90".into(),
        timer_p99_ns: p99_ns,
        ..RulerRecord::default()
    }
}

fn sender() -> Sender {
    Sender { stream: "ctl".into(), advance_ns: 0, spins: false }
}

fn told(p99_ns: i64, ruler: &[RulerRecord], emulated: bool) -> Vec<Verdict> {
    judge(&cell(Some(p99_ns)), &[sender()], ruler, emulated, &Validity::default())
}

#[test]
fn a_ruler_that_the_trials_contradict_is_told() {
    // The receiver's CPU is far worse: it must not stand for the sender's.
    let receiver = record("ctl.rx", 0, false, 7_400_000);
    let ruler = [receiver, record("ctl.tx", 1, false, 276_000), record("ctl.tx", 1, true, 240_000)];
    let earlier = told(82_000, &ruler, false);
    assert_eq!((earlier.len(), earlier[0].id.as_str(), earlier[0].level), (1, "ruler", Level::Note));
    let says = "ctl.tx woke earlier than the ruler says: what disturbed it did not disturb these packets so much (late by 82.0 µs at \
                p99 in the trials; by the ruler 276.0 µs before them and 240.0 µs after them)";
    assert_eq!(earlier[0].says, says);
    let later = told(600_000, &ruler, false);
    assert_eq!((later.len(), later[0].level), (1, Level::Warning));
    assert!(later[0].says.starts_with("ctl.tx woke later than the ruler says"), "{}", later[0].says);
    assert_eq!(later[0].evidence["before_p99_ns"], 276_000i64.into());
    for agrees in [130_000, 240_000, 276_000, 550_000] {
        assert_eq!(told(agrees, &ruler, false), [], "{agrees}");
    }
    // Between a calm ruler before and a disturbed one after, either may be right.
    let moved = [record("ctl.tx", 1, false, 20_000), record("ctl.tx", 1, true, 900_000)];
    assert_eq!(told(100_000, &moved, false), []);
    assert_eq!(told(100_000, &[], false), [], "nothing was measured");
}

#[test]
fn a_sender_that_spins_or_wakes_ahead_is_not_measured_against_the_bare_timer() {
    let ruler = [record("ctl.tx", 1, false, 50_000)];
    let of = |sender: Sender, p99_ns| judge(&cell(Some(p99_ns)), &[sender], &ruler, false, &Validity::default());
    assert_eq!(of(Sender { spins: true, ..sender() }, 400), []);
    assert_eq!(of(Sender { advance_ns: 300_000, ..sender() }, -250_000), []);
    assert_eq!(of(sender(), 400).len(), 1);
}

#[test]
fn a_guest_in_emulated_real_time_whose_timer_is_late_by_milliseconds_is_not_valid() {
    let late = [record("ctl.tx", 1, false, 79_000_000)];
    let told_in = |p99_ns: i64, ruler: &[RulerRecord], emulated| -> Vec<(String, Level)> {
        told(p99_ns, ruler, emulated).into_iter().map(|verdict| (verdict.id, verdict.level)).collect()
    };
    let invalid = ("guest-timer".to_owned(), Level::Invalid);
    assert_eq!(told_in(60_000_000, &late, true), std::slice::from_ref(&invalid));
    assert_eq!(told_in(60_000_000, &late, false), [], "elsewhere steal and waits are measured");
    // Its trials count as much as its ruler.
    assert!(told_in(3_000_000, &[record("ctl.tx", 1, false, 40_000)], true).contains(&invalid));
    assert!(told_in(40_000, &late, true).contains(&invalid));
    assert_eq!(told_in(900_000, &[record("ctl.tx", 1, false, 800_000)], true), []);
    // A ping-pong has no schedule, so only the ruler shows that the timer is late.
    let of_none = judge(&cell(None), &[sender()], &late, true, &Validity::default());
    assert_eq!(of_none.len(), 1);
    let mut settings = Validity::default();
    settings.set.insert("guest-timer".into(), Setting { limit: Some(RuleLimit::Ns(100_000_000)), level: None });
    assert_eq!(judge(&cell(None), &[sender()], &late, true, &settings), []);
    settings.set.insert("guest-timer".into(), Setting { limit: None, level: Some(Level::Warning) });
    let milder = judge(&cell(None), &[sender()], &late, true, &settings);
    assert_eq!((milder[0].level, &milder[0].evidence["level_by_default"]), (Level::Warning, &"invalid".into()));
}

#[test]
fn an_emulator_that_was_late_was_not_told_where_packets_were_lost() {
    let mut cell = cell(None);
    let metric =
        cell.streams.get_mut("ctl").and_then(|ctl| ctl.metrics.get_mut("scheduled..wakeup")).expect("a metric");
    metric.infinite = vec!["p99".into()];
    metric.received_only = Some(Quantiles { p99_ns: Some(3_000_000), ..Quantiles::default() });
    let ruler = [record("ctl.tx", 1, false, 40_000)];
    let told: Vec<String> =
        judge(&cell, &[sender()], &ruler, true, &Validity::default()).into_iter().map(|verdict| verdict.id).collect();
    assert!(told.contains(&"guest-timer".to_owned()), "{told:?}");
}
