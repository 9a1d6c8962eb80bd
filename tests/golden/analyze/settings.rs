// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts that depend on more than a trial. `[validity]`: what it may set, what it makes of
//! verdicts, and that nothing that it sets is hidden. And the ruler: tardy reports where the trials
//! and the ruler disagree, and a guest whose emulator is late is not valid.

use super::fixture::{batch, healthy_packets, record};
use super::validity::ctl;
use std::collections::BTreeMap;
use tardy_analyze::cell::CellAnalysis;
use tardy_analyze::ruler::Sender;
use tardy_analyze::validity::RULES;
use tardy_model::machine::{RulerRecord, TaskTime};
use tardy_model::result::{CellResult, Figures, MetricResult, Placement, Quantiles, StreamResult, TrialResult};
use tardy_model::trial::TrialRecord;
use tardy_model::validity;
use tardy_model::validity::{RuleLimit, Setting, Validity};
use tardy_model::verdict::{Level, Verdict};

const COUNT: u32 = 2_000;

fn set(rule: &str, limit: Option<RuleLimit>, level: Option<Level>) -> Validity {
    Validity { set: BTreeMap::from([(rule.to_owned(), Setting { limit, level })]) }
}

fn weighed(settings: &Validity, verdict: &Verdict) -> Verdict {
    settings.weigh(&verdict.id, |_| vec![verdict.clone()]).pop().expect("the verdict")
}

fn judge(record: &TrialRecord, settings: &Validity) -> TrialResult {
    let cell = CellAnalysis::new("all", BTreeMap::new(), BTreeMap::new(), Vec::new());
    let packets = healthy_packets(1, COUNT as usize);
    cell.validity(settings).trial(record, [("ctl", batch(0, &packets))]).result
}

/// A trial in which an ordinary task had half of the receiver's CPU and the receiver waited for
/// half of the time.
fn disturbed() -> TrialRecord {
    let mut record = record(1, COUNT);
    let half = (record.after.clocks.monotonic_ns - record.before.clocks.monotonic_ns) / 2;
    let cpu = record.after.cpus.get_mut(&1).expect("a CPU");
    cpu.busy_ns += half;
    cpu.idle_ns -= half;
    record
        .after
        .tasks
        .insert(900, TaskTime { name: "stress".into(), start: 80, cpu: 1, run_ns: half, realtime: false });
    ctl(&mut record).rx.wait_ns = Some(half);
    record
}

#[test]
fn every_rule_of_a_trial_can_be_named_in_the_file() {
    let known: Vec<&str> = validity::RULES.iter().map(|rule| rule.id).collect();
    for rule in RULES {
        assert!(known.contains(&rule.id), "{} is missing in model/src/validity.rs", rule.id);
    }
    let mut unique = known.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), known.len());
}

#[test]
fn a_limit_and_a_level_are_judged_by() {
    assert!(!judge(&disturbed(), &Validity::default()).valid);
    let wide = judge(&disturbed(), &set("competing-cpu", Some(RuleLimit::Share(0.6)), None));
    assert_eq!((wide.valid, wide.verdicts[0].level), (true, Level::Warning));
    let milder = judge(&disturbed(), &set("competing-cpu", None, Some(Level::Note)));
    let verdict = &milder.verdicts[0];
    assert_eq!((milder.valid, verdict.level), (true, Level::Note));
    assert!(verdict.says.ends_with("(invalid by default; `[validity]` says note)"), "{}", verdict.says);
    assert_eq!(verdict.evidence["level_by_default"], "invalid".into());
    let narrow = judge(&disturbed(), &set("competing-cpu", Some(RuleLimit::Share(0.001)), None));
    assert_eq!((narrow.valid, &narrow.verdicts[0].evidence["limit_share"]), (false, &0.001.into()));
    assert!(!narrow.verdicts[0].evidence.contains_key("level_by_default"), "it is invalid by default, too");
}

#[test]
fn a_verdict_that_another_limit_made_milder_named_that_as_its_default_or_nothing() {
    let reported = |limit: Option<f64>, level: Option<Level>| {
        let of = judge(&disturbed(), &set("competing-cpu", limit.map(RuleLimit::Share), level)).verdicts;
        of.first().map(|verdict| {
            let by_default = verdict.evidence.get("level_by_default").cloned();
            (verdict.level, by_default, verdict.says.rsplit_once(" (").map_or(String::new(), |(_, end)| end.to_owned()))
        })
    };
    let (level, before, says) = reported(Some(0.6), None).expect("a verdict");
    assert_eq!(
        (level, before, &says[..]),
        (Level::Warning, Some("invalid".into()), "invalid by default; `[validity]` says warning)")
    );
    let (level, before, _) = reported(Some(0.6), Some(Level::Note)).expect("a verdict");
    assert_eq!((level, before), (Level::Note, Some("invalid".into())), "and not the warning that the limit made of it");
    let (level, before, _) = reported(Some(0.6), Some(Level::Warning)).expect("a verdict");
    assert_eq!((level, before), (Level::Warning, Some("invalid".into())));
    // A stricter limit finds what the usual one lets pass.
    let mut little = disturbed();
    ctl(&mut little).rx.wait_ns = Some(100_000);
    assert!(judge(&little, &Validity::default()).valid);
    let strict = judge(&little, &set("competing-cpu", Some(RuleLimit::Share(0.0001)), None));
    let [verdict] = &strict.verdicts[..] else { panic!("{:#?}", strict.verdicts) };
    assert_ne!(verdict.evidence.get("level_by_default"), None, "{verdict:#?}");
}

#[test]
fn a_rule_may_always_be_stricter_and_a_fact_is_never_milder() {
    let mut lonely = record(1, COUNT);
    lonely.after.other_runs = 1;
    assert!(judge(&lonely, &Validity::default()).valid);
    assert!(!judge(&lonely, &set("other-runs", None, Some(Level::Invalid))).valid);
    // Even if the file's own check were passed by.
    let lost = Verdict::new("loss", Level::Invalid, "5 packets were lost");
    assert_eq!(weighed(&set("loss", None, Some(Level::Note)), &lost), lost);
    // A stricter level is that of the verdicts of full weight alone: a note that others were there
    // stays one.
    let note = Verdict::new("competing-cpu", Level::Note, "CPU 1 also ran sh");
    assert_eq!(weighed(&set("competing-cpu", None, Some(Level::Invalid)), &note), note);
}

#[test]
fn what_is_not_the_default_is_listed_and_what_is_is_not() {
    let reported = |validity: &Validity| -> Vec<(String, bool)> {
        let line = |c: validity::Changed| (format!("{} {} {} / {}", c.rule, c.what, c.is, c.default), c.milder);
        validity.changed().into_iter().map(line).collect()
    };
    let both = set("competing-cpu", Some(RuleLimit::Share(0.6)), Some(Level::Warning));
    let line = |text: &str| text.to_owned();
    assert_eq!(
        reported(&both),
        [(line("competing-cpu limit 60 % / 10 %"), true), (line("competing-cpu level warning / invalid"), true)]
    );
    assert_eq!(reported(&set("competing-cpu", Some(RuleLimit::Share(0.1)), Some(Level::Invalid))), []);
    assert_eq!(
        reported(&set("guest-timer", Some(RuleLimit::Ns(500_000)), None)),
        [(line("guest-timer limit 500 µs / 1 ms"), false)]
    );
}

/// A cell whose sender woke so late at p99.
fn cell(p99_ns: Option<i64>) -> CellResult {
    let quantiles = Quantiles { p99_ns, ..Quantiles::default() };
    let metric = MetricResult { figures: Figures { quantiles, ..Figures::default() }, ..MetricResult::default() };
    let stream = StreamResult { metrics: [("scheduled..wakeup".to_owned(), metric)].into(), ..StreamResult::default() };
    let placement = Placement {
        thread: "ctl.tx".into(),
        host: None,
        cpu_asked: "1".into(),
        cpus_seen: vec![1],
        policy_asked: "fifo:90".into(),
        policy_granted: "fifo:90".into(),
        memory_locked: Some(true),
        migrations: None,
        wait_ns: None,
        run_ns: None,
        over_ns: None,
        wakeups: None,
        napi_ids: Vec::new(),
    };
    let trial =
        TrialResult { n: 1, valid: true, streams: Default::default(), loads: Default::default(), verdicts: Vec::new() };
    CellResult {
        id: "all".into(),
        axes: Default::default(),
        valid: true,
        not_available: None,
        machines: None,
        fingerprint: None,
        streams: [("ctl".to_owned(), stream)].into(),
        loads: Default::default(),
        placement: vec![placement],
        softirq: Vec::new(),
        xdp: Vec::new(),
        cpus: Vec::new(),
        classes: Vec::new(),
        trials: vec![trial],
        verdicts: Vec::new(),
    }
}

fn measured(thread: &str, cpu: u32, after: bool, p99_ns: i64) -> RulerRecord {
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
    Sender { host: None, stream: "ctl".into(), advance_ns: 0, spins: false }
}

fn reported(p99_ns: i64, ruler: &[RulerRecord], emulated: bool) -> Vec<Verdict> {
    tardy_analyze::ruler::judge(&cell(Some(p99_ns)), &[sender()], ruler, &|_| emulated, &Validity::default())
}

#[test]
fn a_ruler_that_the_trials_contradict_is_told() {
    // The receiver's CPU is far worse: it must not stand for the sender's.
    let receiver = measured("ctl.rx", 0, false, 7_400_000);
    let ruler = [receiver, measured("ctl.tx", 1, false, 276_000), measured("ctl.tx", 1, true, 240_000)];
    let earlier = reported(82_000, &ruler, false);
    assert_eq!((earlier.len(), earlier[0].id.as_str(), earlier[0].level), (1, "ruler", Level::Note));
    let says = "ctl.tx woke earlier than the ruler says: what disturbed it did not disturb these packets so much (late by 82.0 µs at \
                p99 in the trials; by the ruler 276.0 µs before them and 240.0 µs after them)";
    assert_eq!(earlier[0].says, says);
    let later = reported(600_000, &ruler, false);
    assert_eq!((later.len(), later[0].level), (1, Level::Warning));
    assert!(later[0].says.starts_with("ctl.tx woke later than the ruler says"), "{}", later[0].says);
    assert_eq!(later[0].evidence["before_p99_ns"], 276_000i64.into());
    for agrees in [130_000, 240_000, 276_000, 550_000] {
        assert_eq!(reported(agrees, &ruler, false), [], "{agrees}");
    }
    // Between a calm ruler before and a disturbed one after, either may be right.
    let moved = [measured("ctl.tx", 1, false, 20_000), measured("ctl.tx", 1, true, 900_000)];
    assert_eq!(reported(100_000, &moved, false), []);
    assert_eq!(reported(100_000, &[], false), [], "nothing was measured");
}

#[test]
fn a_sender_that_spins_or_wakes_ahead_is_not_measured_against_the_bare_timer() {
    let ruler = [measured("ctl.tx", 1, false, 50_000)];
    let of = |sender: Sender, p99_ns| {
        tardy_analyze::ruler::judge(&cell(Some(p99_ns)), &[sender], &ruler, &|_| false, &Validity::default())
    };
    assert_eq!(of(Sender { spins: true, ..sender() }, 400), []);
    assert_eq!(of(Sender { advance_ns: 300_000, ..sender() }, -250_000), []);
    assert_eq!(of(sender(), 400).len(), 1);
}

#[test]
fn a_guest_in_emulated_real_time_whose_timer_is_late_by_milliseconds_is_not_valid() {
    let late = [measured("ctl.tx", 1, false, 79_000_000)];
    let told_in = |p99_ns: i64, ruler: &[RulerRecord], emulated| -> Vec<(String, Level)> {
        reported(p99_ns, ruler, emulated).into_iter().map(|verdict| (verdict.id, verdict.level)).collect()
    };
    let invalid = ("guest-timer".to_owned(), Level::Invalid);
    assert_eq!(told_in(60_000_000, &late, true), std::slice::from_ref(&invalid));
    assert_eq!(told_in(60_000_000, &late, false), [], "elsewhere steal and waits are measured");
    // Its trials count as much as its ruler.
    assert!(told_in(3_000_000, &[measured("ctl.tx", 1, false, 40_000)], true).contains(&invalid));
    assert!(told_in(40_000, &late, true).contains(&invalid));
    assert_eq!(told_in(900_000, &[measured("ctl.tx", 1, false, 800_000)], true), []);
    // Of a station's own machine, and in words that fit it: no other guest runs one.
    let station = Sender { host: Some("vm".into()), ..sender() };
    let [of_host] = &late;
    let of_both = [of_host.clone(), RulerRecord { host: Some("vm".into()), ..of_host.clone() }];
    let in_station = |is_emulated: bool| {
        let of = &|of: &Sender| is_emulated && of.host.as_deref() == Some("vm");
        tardy_analyze::ruler::judge(
            &cell(Some(60_000_000)),
            &[station.clone(), sender()],
            &of_both,
            of,
            &Validity::default(),
        )
    };
    assert_eq!(in_station(true).iter().filter(|it| it.id == "guest-timer").count(), 1);
    assert!(in_station(true)[0].says.ends_with("which waited for the host"), "{}", in_station(true)[0].says);
    assert_eq!(in_station(false), []);
    // The timer of one host was held against a sender on another.
    let of_other = tardy_analyze::ruler::judge(
        &cell(None),
        std::slice::from_ref(&station),
        &late,
        &|_| true,
        &Validity::default(),
    );
    assert_eq!(of_other, []);
    // A ping-pong has no schedule, so only the ruler shows that the timer is late.
    let of_none = tardy_analyze::ruler::judge(&cell(None), &[sender()], &late, &|_| true, &Validity::default());
    assert_eq!(of_none.len(), 1);
    let mut settings = Validity::default();
    settings.set.insert("guest-timer".into(), Setting { limit: Some(RuleLimit::Ns(100_000_000)), level: None });
    assert_eq!(tardy_analyze::ruler::judge(&cell(None), &[sender()], &late, &|_| true, &settings), []);
    settings.set.insert("guest-timer".into(), Setting { limit: None, level: Some(Level::Warning) });
    let milder = tardy_analyze::ruler::judge(&cell(None), &[sender()], &late, &|_| true, &settings);
    assert_eq!((milder[0].level, &milder[0].evidence["level_by_default"]), (Level::Warning, &"invalid".into()));
}

#[test]
fn an_emulator_that_was_late_was_not_told_where_packets_were_lost() {
    let mut cell = cell(None);
    let metric =
        cell.streams.get_mut("ctl").and_then(|ctl| ctl.metrics.get_mut("scheduled..wakeup")).expect("a metric");
    metric.infinite = vec!["p99".into()];
    metric.received_only = Some(Quantiles { p99_ns: Some(3_000_000), ..Quantiles::default() });
    let ruler = [measured("ctl.tx", 1, false, 40_000)];
    let reported: Vec<String> =
        tardy_analyze::ruler::judge(&cell, &[sender()], &ruler, &|_| true, &Validity::default())
            .into_iter()
            .map(|verdict| verdict.id)
            .collect();
    assert!(reported.contains(&"guest-timer".to_owned()), "{reported:?}");
}
