// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[validity]`: what it may set, what it makes of verdicts, and that nothing that it sets is
//! hidden.

use super::fixture::{batch, healthy_packets, record};
use super::validity::ctl;
use std::collections::BTreeMap;
use tardy_analyze::cell::CellAnalysis;
use tardy_analyze::validity::RULES;
use tardy_model::machine::TaskTime;
use tardy_model::result::TrialResult;
use tardy_model::trial::TrialRecord;
use tardy_model::validity::{self, RuleLimit, Setting, Validity};
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
    let told = |limit: Option<f64>, level: Option<Level>| {
        let of = judge(&disturbed(), &set("competing-cpu", limit.map(RuleLimit::Share), level)).verdicts;
        of.first().map(|verdict| {
            let by_default = verdict.evidence.get("level_by_default").cloned();
            (verdict.level, by_default, verdict.says.rsplit_once(" (").map_or(String::new(), |(_, end)| end.to_owned()))
        })
    };
    let (level, before, says) = told(Some(0.6), None).expect("a verdict");
    assert_eq!(
        (level, before, &says[..]),
        (Level::Warning, Some("invalid".into()), "invalid by default; `[validity]` says warning)")
    );
    let (level, before, _) = told(Some(0.6), Some(Level::Note)).expect("a verdict");
    assert_eq!((level, before), (Level::Note, Some("invalid".into())), "and not the warning that the limit made of it");
    let (level, before, _) = told(Some(0.6), Some(Level::Warning)).expect("a verdict");
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
    let told = |validity: &Validity| -> Vec<(String, bool)> {
        let line = |c: validity::Changed| (format!("{} {} {} / {}", c.rule, c.what, c.is, c.default), c.milder);
        validity.changed().into_iter().map(line).collect()
    };
    let both = set("competing-cpu", Some(RuleLimit::Share(0.6)), Some(Level::Warning));
    let line = |text: &str| text.to_owned();
    assert_eq!(
        told(&both),
        [(line("competing-cpu limit 60 % / 10 %"), true), (line("competing-cpu level warning / invalid"), true)]
    );
    assert_eq!(told(&set("competing-cpu", Some(RuleLimit::Share(0.1)), Some(Level::Invalid))), []);
    assert_eq!(
        told(&set("guest-timer", Some(RuleLimit::Ns(500_000)), None)),
        [(line("guest-timer limit 500 µs / 1 ms"), false)]
    );
}
