// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells from trials: pooling, what is left out, expectations, and the run.

use super::fixture::{LEAD, Packet, batches, healthy_packets, lost, received, record};
use std::collections::BTreeMap;
use tardy_analyze::cell::{CellAnalysis, CellAnswer};
use tardy_analyze::run::{Outcome, outcome, run};
use tardy_model::expect::{Count, Expectation, Limit, Of};
use tardy_model::point::{Metric, Point, Source};
use tardy_model::sample::Flags;
use tardy_model::time::Nanos;
use tardy_model::trial::{ReplyRecord, TrialRecord};
use tardy_model::verdict::{Figure, Level, Verdict};

const COUNT: u32 = 2_000;
const HW: Metric = Metric::Span(Point::Scheduled, Point::TxHw);

fn cell(trials: &[(TrialRecord, Vec<Packet>)], expectations: Vec<Expectation>) -> CellAnswer {
    let asked = BTreeMap::from([("ctl".to_owned(), vec![LEAD, Metric::Delta, HW])]);
    let axes = BTreeMap::from([("stream.ctl.rx.wait".to_owned(), "block".to_owned())]);
    let mut cell = CellAnalysis::new("rx.wait=block", axes, asked, expectations);
    for (record, packets) in trials {
        cell.trial(record, batches(packets, 700).into_iter().map(|batch| ("ctl", batch)));
    }
    cell.finish()
}

fn healthy(n: u32) -> (TrialRecord, Vec<Packet>) {
    (record(n, COUNT), healthy_packets(u64::from(n), COUNT as usize))
}

/// A trial that lost `n` packets and allows none.
fn lossy(n: u32, losses: usize) -> (TrialRecord, Vec<Packet>) {
    let (record, mut packets) = healthy(n);
    packets[500..500 + losses].fill(lost(10_000));
    (record, packets)
}

/// A trial whose recorder had no room for `dropped` of its arrivals.
fn spoilt(n: u32, dropped: u64) -> (TrialRecord, Vec<Packet>) {
    let (mut record, packets) = healthy(n);
    record.streams.get_mut("ctl").unwrap().counters.records_dropped = dropped;
    (record, packets)
}

fn id<'a>(answer: &'a CellAnswer, id: &str) -> Option<&'a Verdict> {
    answer.result.verdicts.iter().find(|verdict| verdict.id == id)
}

fn expect(limit: Limit) -> Expectation {
    Expectation { stream: "ctl".to_owned(), limit }
}

fn percentile(index: usize, limit_ns: i64) -> Expectation {
    expect(Limit::Metric { metric: LEAD, of: Of::Quantile(index), limit_ns, inclusive: false })
}

#[test]
fn a_limit_on_a_percentile_that_too_few_packets_resolve_was_called_broken() {
    let stalled = |ns: i64| {
        let (record, mut packets) = healthy(1);
        // One stall of a fiftieth of the packets: one event, and more than p99 leaves room for.
        let late = packets.len() / 50;
        for packet in &mut packets[100..100 + late] {
            for stamp in [&mut packet.rx_kernel, &mut packet.receive] {
                *stamp = stamp.map(|at| at + ns);
            }
        }
        [(record, packets)]
    };
    let judged = |ns: i64, index: usize, limit_ns: i64| {
        let answer = cell(&stalled(ns), vec![percentile(index, limit_ns)]);
        let [one] = &answer.expectations[..] else { panic!("{:?}", answer.expectations) };
        (one.met, one.got_ns, one.why.clone().unwrap_or_default())
    };
    // All are within it. Whether p99.99 is, these packets are too few to say.
    let (met, got, why) = judged(0, 4, 1 << 40);
    assert_eq!((met, got), (None, None), "{why}");
    assert!(why.contains("p99.99 is not resolved"), "{why}");
    // The same of a stall that is within the limit, and of one that is not.
    let (met, got, why) = judged(50_000_000, 2, 1 << 40);
    assert_eq!((met, got), (None, None), "{why}");
    assert!(why.contains("p99 is not resolved") && why.contains("came together"), "{why}");
    let (met, got, why) = judged(50_000_000, 2, 10_000_000);
    assert_eq!((met, got), (Some(false), None), "{why}");
    let late = COUNT / 50;
    assert!(why.starts_with(&format!("{late} of ")) && why.contains("and a p99 within it allows"), "{why}");
}

#[test]
fn what_the_experiment_has_lead_is_what_repeats_and_nothing_else_chooses_it() {
    let back = Metric::Span(Point::Scheduled, Point::ReplyReceive);
    let asked = BTreeMap::from([("ctl".to_owned(), vec![back])]);
    let expected = expect(Limit::Metric { metric: LEAD, of: Of::Max, limit_ns: 1, inclusive: false });
    let (mut record, packets) = healthy(1);
    let ctl = record.streams.get_mut("ctl").unwrap();
    ctl.reply = Some(ReplyRecord::default());
    ctl.sources.insert(Point::ReplyReceive, Source::App);
    let absent = Metric::Span(Point::Scheduled, Point::TxHw);
    for (lead, repeats) in
        [(None, back), (Some(LEAD), LEAD), (Some(Metric::Delta), Metric::Delta), (Some(absent), back)]
    {
        let leads = lead.into_iter().map(|lead| ("ctl".to_owned(), lead)).collect();
        let mut asked = asked.clone();
        asked.get_mut("ctl").unwrap().extend(lead.filter(|lead| *lead == Metric::Delta));
        let cell = CellAnalysis::new("all", BTreeMap::new(), asked, vec![expected.clone()]);
        let mut cell = cell.leads(leads);
        cell.trial(&record, batches(&packets, 700).into_iter().map(|batch| ("ctl", batch)));
        let answer = cell.finish();
        let judged = id(&answer, "repeats").map(|verdict| &verdict.evidence["metric"]);
        assert_eq!(judged, Some(&Figure::Text(repeats.to_string())), "{lead:?}");
        let ctl = &answer.result.streams["ctl"];
        assert!(ctl.metrics.contains_key(&LEAD.to_string()), "a further row");
        assert_eq!(ctl.lead, lead.map(|lead| lead.to_string()), "for the pictures");
        assert_eq!(answer.result.trials[0].streams["ctl"].lead, ctl.lead);
    }
}

#[test]
fn without_a_ctl_the_stream_that_the_file_names_first_is_under_test() {
    let asked = |name: &str| (name.to_owned(), vec![LEAD]);
    let cell = || CellAnalysis::new("all", BTreeMap::new(), [asked("brake"), asked("steer")].into(), Vec::new());
    let (mut record, packets) = healthy(1);
    let steer = record.streams.remove("ctl").unwrap();
    record.streams.extend([("brake".to_owned(), steer.clone()), ("steer".to_owned(), steer)]);
    for (first, wanted) in [(Some("steer"), "steer"), (Some("brake"), "brake"), (None, "brake")] {
        let mut cell = cell().first(first);
        let both =
            ["brake", "steer"].into_iter().flat_map(|name| batches(&packets, 700).into_iter().map(move |b| (name, b)));
        cell.trial(&record, both);
        let answer = cell.finish();
        let judged = id(&answer, "repeats").map(|verdict| &verdict.evidence["stream"]);
        assert_eq!(judged, Some(&Figure::Text(wanted.to_owned())));
    }
}

#[test]
fn healthy_trials_are_pooled() {
    let trials: Vec<_> = (1..=5).map(healthy).collect();
    let answer = cell(&trials, Vec::new());
    assert!(answer.result.valid);
    let ids: Vec<&str> = answer.result.verdicts.iter().map(|verdict| verdict.id.as_str()).collect();
    assert_eq!((ids.as_slice(), answer.result.verdicts[0].level), (["repeats"].as_slice(), Level::Ok));
    let stream = &answer.result.streams["ctl"];
    let lead = &stream.metrics["scheduled..rx_kernel"];
    let mut sorted: Vec<i64> = trials.iter().flat_map(|(_, packets)| packets).filter_map(|p| p.rx_kernel).collect();
    sorted.sort_unstable();
    assert_eq!((stream.outcomes.intended, lead.count, lead.coverage), (10_000, 10_000, 1.0));
    let q = lead.figures.quantiles.as_array();
    assert_eq!(q, [Some(sorted[4_999]), Some(sorted[8_999]), Some(sorted[9_899]), q[3], None]);
    assert_eq!((lead.clock.as_str(), lead.source.as_str()), ("tai", "kernel"));
    assert_eq!(stream.metrics["delta"].count, 5 * 1_999);
    let hw = &stream.metrics["scheduled..tx_hw"];
    assert_eq!(
        (hw.count, hw.coverage, hw.why.as_deref()),
        (0, 0.0, Some("no tx_hw stamp: veth has no hardware clock"))
    );
    assert_eq!(answer.histograms[&("ctl".to_owned(), LEAD)].count(), 10_000);
    let placement = &answer.result.placement;
    assert_eq!(placement.iter().map(|p| p.thread.as_str()).collect::<Vec<_>>(), ["ctl.rx", "ctl.tx"]);
    assert_eq!((placement[1].cpu_asked.as_str(), placement[1].cpus_seen.as_slice()), ("0", [0].as_slice()));
    assert_eq!(answer.result.trials.iter().map(|trial| trial.n).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let json = serde_json::to_string(&answer.result).unwrap();
    assert_eq!(serde_json::from_str::<tardy_model::result::CellResult>(&json).unwrap(), answer.result);
}

/// The figures that led were all below the deadline: they end in the kernel, and `late` counts at
/// the program. Nothing said so, nor which packets they were.
#[test]
fn late_contradicted_the_figures_of_an_earlier_point() {
    let trial = |n: u32, late: &[usize]| {
        let (record, mut packets) = healthy(n);
        for seq in late {
            packets[*seq].flags.set(Flags::LATE);
            packets[*seq].receive = Some(900_000 + *seq as i64);
        }
        (record, packets)
    };
    let judged = |trials: &[(TrialRecord, Vec<Packet>)], told: bool| {
        let asked = BTreeMap::from([("ctl".to_owned(), vec![LEAD])]);
        let limits = vec![expect(Limit::Count { count: Count::Late, at_most: 0 })];
        let deadlines = BTreeMap::from([("ctl".to_owned(), Nanos::from_micros(50))]);
        let mut cell = CellAnalysis::new("all", BTreeMap::new(), asked, limits);
        if told {
            cell = cell.deadlines(deadlines);
        }
        for (record, packets) in trials {
            cell.trial(record, batches(packets, 700).into_iter().map(|batch| ("ctl", batch)));
        }
        cell.finish()
    };
    let answer = judged(&[trial(1, &[700]), trial(2, &[]), trial(3, &[1_999])], true);
    let [limit] = &answer.expectations[..] else { panic!("{:?}", answer.expectations) };
    assert_eq!((limit.got, limit.met), (Some(2), Some(false)));
    let says =
        "late is a scheduled..receive above the deadline of 50.0 µs; the latest took 902.0 µs, packet #1999 of trial 3";
    assert_eq!(limit.why.as_deref(), Some(says));
    let row = &answer.result.streams["ctl"].metrics["scheduled..receive"];
    assert_eq!((row.figures.max_ns, row.max_seq, row.max_trial), (Some(901_999), Some(1_999), Some(3)));
    let untold = judged(&[trial(1, &[700])], false).expectations.remove(0);
    let says = "late is a scheduled..receive above the deadline; the latest took 900.7 µs, packet #700 of trial 1";
    assert_eq!(untold.why.as_deref(), Some(says));
    // The metric that leads, and repeats, is the one that was asked for.
    let repeats = answer.result.verdicts.iter().find(|verdict| verdict.id == "repeats").expect("a verdict");
    assert_eq!(repeats.evidence["metric"], LEAD.to_string().into());
    let kept = judged(&[trial(1, &[])], true).expectations.remove(0);
    assert_eq!((kept.met, kept.why), (Some(true), None));
}

#[test]
fn a_minority_of_badly_measured_trials_is_left_out_and_named() {
    // The spoilt one comes first and must not stay in the pool.
    let answer = cell(&[spoilt(2, 20), healthy(1), healthy(3)], Vec::new());
    assert!(answer.result.valid);
    assert_eq!(answer.result.streams["ctl"].outcomes.intended, 2 * u64::from(COUNT));
    let left_out = id(&answer, "left-out").unwrap();
    assert_eq!(left_out.level, Level::Warning);
    assert!(
        left_out.says.starts_with("trial 2 of 3 is left out of the figures: 20 arrivals of ctl found no place"),
        "{}",
        left_out.says
    );
    assert_eq!(left_out.evidence["causes"], Figure::List(vec!["recorder".into()]));
    assert!(id(&answer, "recorder").is_none());
    let trials: Vec<(u32, bool)> = answer.result.trials.iter().map(|trial| (trial.n, trial.valid)).collect();
    assert_eq!(trials, [(1, true), (2, false), (3, true)]);
}

#[test]
fn a_warning_in_one_trial_is_not_alike_to_what_made_another_invalid() {
    let stolen = |n, share: i64| {
        let (mut record, packets) = healthy(n);
        for times in record.after.cpus.values_mut() {
            times.steal_ns += share;
            times.idle_ns -= share;
        }
        (record, packets)
    };
    let elapsed = healthy(1).0.after.clocks.tai_ns - healthy(1).0.before.clocks.tai_ns;
    let answer = cell(&[stolen(1, elapsed / 5), stolen(2, elapsed / 5), stolen(3, elapsed / 20)], Vec::new());
    let told: Vec<(Level, Figure, Figure)> = answer
        .result
        .verdicts
        .iter()
        .filter(|verdict| verdict.id == "steal")
        .map(|verdict| (verdict.level, verdict.evidence["cpu"].clone(), verdict.evidence["trials"].clone()))
        .collect();
    let list = |numbers: &[i64]| Figure::List(numbers.iter().map(|n| (*n).into()).collect());
    let of = |level, trials: &[i64]| [0i64, 1].map(|cpu| (level, cpu.into(), list(trials)));
    assert_eq!(told, [of(Level::Invalid, &[1, 2]), of(Level::Warning, &[3])].concat());
}

#[test]
fn half_or_more_badly_measured_trials_make_the_cell_invalid_and_their_causes_rise() {
    let answer = cell(&[healthy(1), spoilt(2, 20), spoilt(3, 30), healthy(4)], Vec::new());
    assert!(!answer.result.valid);
    let left_out = id(&answer, "left-out").unwrap();
    assert_eq!(left_out.says, "trials 2 and 3 of 4 are left out of the figures");
    assert_eq!(answer.result.streams["ctl"].outcomes.intended, 2 * u64::from(COUNT), "the valid ones are pooled");
    let full = id(&answer, "recorder").unwrap();
    assert_eq!((full.level, &full.evidence["trials"]), (Level::Invalid, &Figure::List(vec![2i64.into(), 3i64.into()])));
    assert!(
        full.says.starts_with("trial 2: 20 arrivals") && full.says.ends_with("(the same in trial 3)"),
        "{}",
        full.says
    );
    let none = cell(&[spoilt(1, 20), spoilt(2, 30)], Vec::new());
    assert!(!none.result.valid);
    assert_eq!(none.result.streams["ctl"].outcomes.intended, 4_000, "all are pooled if none is valid");
}

#[test]
fn a_lost_packet_does_not_pass_lost_0_by_making_its_own_trial_invalid() {
    let none_lost = || vec![expect(Limit::Count { count: Count::Lost, at_most: 0 })];
    // Whichever comes first, the lossy trial stays with the healthy ones.
    for order in [[3, 1, 2, 4, 5], [1, 2, 3, 4, 5]] {
        let trials: Vec<_> = order.into_iter().map(|n| if n == 3 { lossy(n, 1) } else { healthy(n) }).collect();
        let answer = cell(&trials, none_lost());
        let outcomes = answer.result.streams["ctl"].outcomes;
        assert_eq!((outcomes.intended, outcomes.lost), (10_000, 1));
        assert_eq!((answer.expectations[0].met, answer.expectations[0].got), (Some(false), Some(1)));
        assert!(!answer.result.valid && id(&answer, "left-out").is_none());
        let loss = id(&answer, "loss").unwrap();
        assert_eq!((loss.level, &loss.evidence["trials"]), (Level::Invalid, &Figure::List(vec![3i64.into()])));
        let run = run("x", [answer], Vec::new());
        assert_eq!((run.valid, run.expectations_met), (false, Some(false)), "neither valid nor met");
        assert_eq!(outcome(&run), Outcome::Unmet, "what was lost is known, whatever the validity");
    }
    // Allowed loss is no fault, and counts all the same.
    let mut trials: Vec<_> = (1..=5).map(|n| if n == 3 { lossy(n, 1) } else { healthy(n) }).collect();
    trials[2].0.streams.get_mut("ctl").unwrap().max_loss = 0.01;
    let answer = cell(&trials, none_lost());
    assert_eq!(
        (answer.result.valid, answer.expectations[0].met, answer.expectations[0].got),
        (true, Some(false), Some(1))
    );
}

#[test]
fn a_loss_is_not_hidden_by_a_full_recorder_in_the_same_trial() {
    let (mut record, packets) = lossy(2, 7);
    record.streams.get_mut("ctl").unwrap().counters.records_dropped = 1;
    let answer = cell(&[healthy(1), (record, packets), spoilt(3, 5), healthy(4), healthy(5)], Vec::new());
    assert!(!answer.result.valid);
    let outcomes = answer.result.streams["ctl"].outcomes;
    assert_eq!((outcomes.intended, outcomes.lost), (8_000, 7), "trial 3 alone is left out");
    assert!(id(&answer, "left-out").unwrap().says.starts_with("trial 3 of 5 is left out"));
    assert!(id(&answer, "loss").is_some());
}

#[test]
fn refused_packets_and_a_rate_that_was_not_kept_stay_in_the_pool_too() {
    let refused = |record: &mut TrialRecord| record.streams.get_mut("ctl").unwrap().counters.send_errors = 30;
    let slow = |record: &mut TrialRecord| {
        let ctl = record.streams.get_mut("ctl").unwrap();
        ctl.lateness_by_tenth_ns = (0..10).map(|n| n * 100_000_000).collect();
    };
    for (spoil, cause) in [(&refused as &dyn Fn(&mut TrialRecord), "send-errors"), (&slow, "rate")] {
        let mut trials: Vec<_> = (1..=5).map(healthy).collect();
        spoil(&mut trials[1].0);
        let answer = cell(&trials, Vec::new());
        assert!(!answer.result.valid && id(&answer, "left-out").is_none(), "{cause}");
        assert_eq!(answer.result.streams["ctl"].outcomes.intended, 10_000, "{cause}");
        assert_eq!(id(&answer, cause).map(|verdict| verdict.level), Some(Level::Invalid));
    }
}

#[test]
fn a_record_with_thousands_of_tenths_took_memory_for_each_pair_of_them() {
    let (mut record, packets) = healthy(1);
    let ctl = record.streams.get_mut("ctl").unwrap();
    ctl.lateness_by_tenth_ns = (0..200_000).map(|n| n * 1_000_000).collect();
    let answer = cell(&[(record, packets)], Vec::new());
    assert!(id(&answer, "rate").is_none(), "what is not of ten tenths says nothing");
}

#[test]
fn a_cell_without_trials_is_invalid_and_keeps_what_was_asked_for() {
    let answer = cell(&[], vec![percentile(0, 1)]);
    assert!(!answer.result.valid && id(&answer, "failed").is_some());
    assert_eq!(answer.result.streams["ctl"].metrics["delta"].why.as_deref(), Some("no trial was finished"));
    assert_eq!(answer.expectations[0].met, Some(false));
    assert_eq!(run("x", [answer], Vec::new()).expectations[0].met, None, "not judged");
}

#[test]
fn warnings_and_notes_rise_once_with_their_trials() {
    let mut trials: Vec<_> = (1..=3).map(healthy).collect();
    for (record, _) in &mut trials[1..] {
        record.streams.get_mut("ctl").unwrap().counters.foreign = u64::from(record.n);
    }
    let answer = cell(&trials, Vec::new());
    let foreign: Vec<&Verdict> = answer.result.verdicts.iter().filter(|verdict| verdict.id == "foreign").collect();
    assert_eq!(foreign.len(), 1);
    assert_eq!(
        foreign[0].says,
        "trial 2: 2 foreign packets came to the port of ctl and were ignored (the same in trial 3)"
    );
}

#[test]
fn no_packet_at_all_is_said_and_not_zero() {
    let (mut record, mut packets) = healthy(1);
    packets.fill(lost(10_000));
    record.streams.get_mut("ctl").unwrap().max_loss = 1.0;
    let answer = cell(
        &[(record, packets)],
        vec![percentile(0, 1_000_000), expect(Limit::Count { count: Count::Lost, at_most: 0 })],
    );
    let lead = &answer.result.streams["ctl"].metrics["scheduled..rx_kernel"];
    assert_eq!(
        (lead.count, lead.figures.clone(), lead.why.as_deref()),
        (0, Default::default(), Some("no packet was received"))
    );
    assert_eq!(
        (answer.expectations[0].met, answer.expectations[0].why.as_deref()),
        (Some(false), Some("no packet was received"))
    );
    assert_eq!((answer.expectations[1].met, answer.expectations[1].got), (Some(false), Some(2_000)));
}

#[test]
fn an_expectation_is_judged_by_the_bound_that_decides_it() {
    // Of 120 000 packets 1 200, far apart, are slow; 80 of these have no stamp.
    let mut packets = healthy_packets(5, 120_000);
    for (packet, n) in packets.iter_mut().step_by(100).zip(0..1_200) {
        *packet = Packet { rx_kernel: (n < 1_120).then_some(1_000_000 + 1_000 * n), ..received(1_000_000 + 1_000 * n) };
    }
    let judge = |limit_ns| {
        let limit = Limit::Metric { metric: LEAD, of: Of::Quantile(3), limit_ns, inclusive: false };
        let expected = vec![Expectation { stream: "ctl".to_owned(), limit }];
        let asked = BTreeMap::from([("ctl".to_owned(), vec![LEAD])]);
        let mut cell = CellAnalysis::new("all", BTreeMap::new(), asked, expected);
        cell.trial(&record(1, 120_000), batches(&packets, 4_096).into_iter().map(|batch| ("ctl", batch)));
        let found = cell.finish().expectations.remove(0);
        (found.met, found.got_ns, found.why)
    };
    let (least, greatest) = (Some(1_999_000), Some(2_079_000));
    assert_eq!(judge(2_079_001), (Some(true), greatest, None));
    assert_eq!(judge(1_999_000), (Some(false), least, None));
    let (met, got, why) = judge(2_000_000);
    let why = why.expect("it depends on them");
    assert_eq!((met, got), (Some(false), None));
    assert!(why.starts_with("p99.9 lies between 1999.0 µs and 2079.0 µs: packets"), "{why}");
}

#[test]
fn expectations_are_judged_on_the_pool() {
    let trials: Vec<_> = (1..=5).map(healthy).collect();
    let p99 = cell(&trials, Vec::new()).result.streams["ctl"].metrics["scheduled..rx_kernel"]
        .figures
        .quantiles
        .p99_ns
        .unwrap();
    let inclusive = expect(Limit::Metric { metric: LEAD, of: Of::Quantile(2), limit_ns: p99, inclusive: true });
    let other = Metric::Span(Point::RxKernel, Point::Receive);
    let mean = expect(Limit::Metric { metric: other, of: Of::Mean, limit_ns: 9_001, inclusive: false });
    let lost = expect(Limit::Count { count: Count::Lost, at_most: 0 });
    let answer = cell(&trials, vec![percentile(2, p99), inclusive, percentile(4, 1 << 40), mean, lost]);
    let met: Vec<bool> = answer.expectations.iter().filter_map(|expectation| expectation.met).collect();
    assert_eq!(met, [false, true, true, true], "the third has no answer");
    let first = &answer.expectations[0];
    assert_eq!(
        (first.of.as_str(), first.got_ns, first.limit_ns, first.why.as_deref()),
        ("p99", Some(p99), Some(p99), None)
    );
    let why = answer.expectations[2].why.as_deref().unwrap();
    assert!(why.contains("p99.99 is not resolved") && why.contains("about 100000 packets"), "{why}");
    assert_eq!(answer.expectations[3].got_ns, Some(9_000), "a metric that only an expectation names is computed");
}

#[test]
fn a_percentile_on_a_lost_packet_is_not_kept_however_high_the_limit() {
    let (mut record, mut packets) = healthy(1);
    (0..40).for_each(|n| packets[n * 50] = lost(10_000));
    record.streams.get_mut("ctl").unwrap().max_loss = 0.5;
    let answer = cell(&[(record, packets)], vec![percentile(2, i64::MAX)]);
    assert!(answer.result.valid && answer.expectations[0].met == Some(false));
    assert_eq!(
        answer.expectations[0].why.as_deref(),
        Some("p99 is infinite: 40 of 2000 packets were lost and 0 not sent")
    );
}

#[test]
fn a_run_is_valid_if_every_cell_is_and_judges_limits_only_then() {
    let good = || cell(&[healthy(1)], vec![percentile(0, 1 << 40)]);
    let met = run("x", [good()], Vec::new());
    assert_eq!((met.format, met.valid, met.expectations_met), (tardy_model::FORMAT, true, Some(true)));
    assert_eq!((met.expectations.len(), met.cells.len()), (1, 1));
    let failed = run("x", [good(), cell(&[healthy(1)], vec![percentile(0, 1)])], Vec::new());
    assert_eq!((failed.valid, failed.expectations_met), (true, Some(false)));
    let invalid = run("x", [good(), cell(&[spoilt(1, 20)], vec![percentile(0, 1)])], Vec::new());
    assert_eq!((invalid.valid, invalid.expectations_met), (false, None));
    let lost = |limit_ns| run("x", [good(), cell(&[lossy(1, 20)], vec![percentile(0, limit_ns)])], Vec::new());
    assert_eq!((lost(1 << 40).valid, lost(1 << 40).expectations_met), (false, None));
    assert_eq!((lost(1).valid, lost(1).expectations_met), (false, Some(false)), "losses excuse no broken limit");
    assert_eq!(run("x", [cell(&[healthy(1)], Vec::new())], Vec::new()).expectations_met, None);
    assert!(!run("x", [], Vec::new()).valid);
}
