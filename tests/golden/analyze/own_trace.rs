// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of tardy in its own figures: both that earlier versions left are found, and noise of any
//! kind is taken for none.

use super::fixture::{BASE_NS, CYCLE_NS, noise, record};
use super::noise::{Noise, normal, random_work};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use tardy_analyze::cell::{CellAnalysis, CellAnswer};
use tardy_analyze::own_trace::judge;
use tardy_analyze::statistics::{binomial_tail, fisher, median};
use tardy_model::point::{Metric, Point, Source};
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_model::stream::Side;
use tardy_model::trial::{Between, OwnReason, OwnWork, ReplyRecord, TrialRecord};
use tardy_model::verdict::{Figure, Level, Verdict};

pub(super) const ONE_WAY: Metric = Metric::Span(Point::Scheduled, Point::RxKernel);

pub(super) const ROUND_TRIP: Metric = Metric::Span(Point::Send, Point::ReplyReceive);

/// What reading the clock costs here.
const STAMP_NS: i64 = 25;

/// A trial of a cyclic stream: how late each packet is; `None` for one that was lost.
pub(super) fn cyclic(n: u32, late: &[Option<i64>], own_work: Vec<OwnWork>) -> (TrialRecord, Batch) {
    let mut record = record(n, late.len() as u32);
    let ctl = record.streams.get_mut("ctl").unwrap();
    (ctl.own_work, ctl.sources) =
        (own_work, [(Point::Scheduled, Source::App), (Point::RxKernel, Source::Kernel)].into());
    let mut batch = rows(late, |seq| BASE_NS + seq * CYCLE_NS);
    batch.offsets[Point::RxKernel.index()] = Some(late.iter().map(|late| MaybeNanos::from(*late)).collect());
    (record, batch)
}

/// A trial of a ping-pong: how long each round trip takes.
pub(super) fn pingpong(n: u32, round_trips: &[Option<i64>], own_work: Vec<OwnWork>) -> (TrialRecord, Batch) {
    let mut record = record(n, round_trips.len() as u32);
    let ctl = record.streams.get_mut("ctl").unwrap();
    (ctl.cycle_ns, ctl.own_work, ctl.reply) = (0, own_work, Some(ReplyRecord::default()));
    ctl.sources =
        [(Point::Scheduled, Source::App), (Point::Send, Source::App), (Point::ReplyReceive, Source::App)].into();
    let mut at = BASE_NS;
    let starts: Vec<i64> = round_trips
        .iter()
        .map(|took| {
            let start = at;
            at += took.unwrap_or(1_000_000) + 500;
            start
        })
        .collect();
    let mut batch = rows(round_trips, |seq| starts[seq as usize]);
    batch.offsets[Point::Send.index()] = Some(vec![MaybeNanos::some(0); round_trips.len()]);
    batch.offsets[Point::ReplyReceive.index()] = Some(round_trips.iter().map(|took| MaybeNanos::from(*took)).collect());
    (record, batch)
}

fn rows(values: &[Option<i64>], scheduled: impl Fn(i64) -> i64) -> Batch {
    let seq: Vec<i64> = (0..values.len() as i64).collect();
    let outcome = |value: &Option<i64>| if value.is_some() { Outcome::Received } else { Outcome::Lost };
    Batch {
        scheduled_ns: seq.iter().map(|seq| scheduled(*seq)).collect(),
        outcome: values.iter().map(outcome).collect(),
        flags: vec![Flags::default(); seq.len()],
        seq,
        ..Batch::default()
    }
}

pub(super) fn cell(id: &str, metrics: &[Metric], trials: &[(TrialRecord, Batch)]) -> CellAnswer {
    let mut cell = CellAnalysis::new(id, BTreeMap::new(), [("ctl".to_owned(), metrics.to_vec())].into(), Vec::new());
    for (record, batch) in trials {
        cell.trial(record, [("ctl", batch)]);
    }
    cell.finish()
}

pub(super) fn reported(cells: &[CellAnswer]) -> Vec<Verdict> {
    judge(cells.iter().map(|cell| (&cell.result, &cell.own_trace)), STAMP_NS)
}

pub(super) fn seeded(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed)
}

/// The only verdict on some cells, and no other.
pub(super) fn only(cells: &[CellAnswer]) -> Verdict {
    let mut verdicts = reported(cells);
    assert_eq!(verdicts.len(), 1, "{verdicts:#?}");
    verdicts.remove(0)
}

fn texts(verdict: &Verdict, name: &str) -> Vec<String> {
    match &verdict.evidence[name] {
        Figure::List(items) => items.iter().map(|item| serde_json::to_value(item).unwrap()).map(text).collect(),
        other => panic!("{name} is no list: {other:?}"),
    }
}

fn text(value: serde_json::Value) -> String {
    value.as_str().expect("a text").to_owned()
}

pub(super) fn number(verdict: &Verdict, name: &str) -> i64 {
    match verdict.evidence[name] {
        Figure::Int(number) => number,
        ref other => panic!("{name} is no number: {other:?}"),
    }
}

fn says_text(verdict: &Verdict, name: &str) -> String {
    text(serde_json::to_value(&verdict.evidence[name]).unwrap())
}

/// Five trials of as many packets in heavy-tailed noise, changed by a fault.
pub(super) fn trials(
    count: usize,
    closed: bool,
    fault: impl Fn(u32, &mut Vec<Option<i64>>),
) -> Vec<(TrialRecord, Batch)> {
    let trial = |n: u32| {
        let mut random = seeded(u64::from(n) + 100);
        let mut values: Vec<Option<i64>> =
            (0..count).map(|_| Some(14_000 + (3_000.0 * (0.6 * normal(&mut random)).exp()) as i64)).collect();
        fault(n, &mut values);
        if closed { pingpong(n, &values, Vec::new()) } else { cyclic(n, &values, Vec::new()) }
    };
    (1..=5).map(trial).collect()
}

#[test]
fn every_eighth_round_trip_that_takes_twice_as_long_is_tardys_own_trace() {
    for count in [600, 8_000] {
        let slow = |_, values: &mut Vec<Option<i64>>| {
            values.iter_mut().skip(7).step_by(8).flatten().for_each(|ns| *ns += 21_000)
        };
        let cell = cell("A-only", &[ROUND_TRIP], &trials(count, true, slow));
        let verdict = only(&[cell]);
        assert_eq!((verdict.id.as_str(), verdict.level), ("own-trace", Level::Invalid), "{verdict:#?}");
        assert_eq!((number(&verdict, "modulus"), number(&verdict, "remainder")), (8, 7));
        assert_eq!(number(&verdict, "packets"), 5 * count as i64 / 8);
        assert!((35_000..41_000).contains(&number(&verdict, "median_ns")), "{verdict:#?}");
        assert!((15_000..19_000).contains(&number(&verdict, "others_median_ns")), "{verdict:#?}");
        let spoils = texts(&verdict, "spoils");
        assert!(["p90", "mean", "stddev"].iter().all(|name| spoils.contains(&(*name).to_owned())), "{spoils:?}");
        assert!(!spoils.contains(&"p50".to_owned()), "{spoils:?}");
        assert!(
            verdict.says.contains("each 8th round trip (seq mod 8 = 7): send..reply_receive takes 3"),
            "{}",
            verdict.says
        );
    }
}

#[test]
fn batches_of_another_size_are_told_as_such_and_not_as_eights() {
    for size in [16, 64] {
        let slow = |_, values: &mut Vec<Option<i64>>| {
            values.iter_mut().skip(3).step_by(size).flatten().for_each(|ns| *ns += 21_000);
        };
        let verdict = only(&[cell("all", &[ROUND_TRIP], &trials(4_000, true, slow))]);
        let class = (number(&verdict, "modulus"), number(&verdict, "remainder"));
        assert_eq!(class, (size as i64, 3), "{}", verdict.says);
    }
}

#[test]
fn half_of_all_round_trips_were_slow_and_the_median_was_not_among_the_spoilt() {
    let slow =
        |_, values: &mut Vec<Option<i64>>| values.iter_mut().skip(1).step_by(2).flatten().for_each(|ns| *ns += 21_000);
    let verdict = only(&[cell("all", &[ROUND_TRIP], &trials(8_000, true, slow))]);
    assert_eq!(number(&verdict, "modulus"), 2, "{}", verdict.says);
    assert!(texts(&verdict, "spoils").contains(&"p50".to_owned()), "{verdict:#?}");
    let says = ["in each second round trip (seq mod 2 = ", " where the others take "];
    assert!(says.iter().all(|part| verdict.says.contains(part)), "{}", verdict.says);
}

#[test]
fn a_cyclic_stream_in_step_with_the_tick_has_no_trace_of_tardy() {
    let slow =
        |_, values: &mut Vec<Option<i64>>| values.iter_mut().skip(5).step_by(8).flatten().for_each(|ns| *ns += 21_000);
    let verdicts = reported(&[cell("all", &[ONE_WAY, Metric::Delta], &trials(2_000, false, slow))]);
    assert!(verdicts.is_empty(), "{verdicts:#?}");
}

#[test]
fn a_last_packet_that_is_the_worst_of_each_trial_is_tardys_own_trace() {
    let slow = |_, values: &mut Vec<Option<i64>>| *values.last_mut().unwrap() = Some(400_000);
    let trials = trials(600, false, slow);
    let verdict = only(&[cell("idle", &[ONE_WAY, Metric::Delta], &trials)]);
    assert_eq!((verdict.id.as_str(), verdict.level), ("own-trace", Level::Invalid), "{verdict:#?}");
    assert_eq!((says_text(&verdict, "position").as_str(), number(&verdict, "packets")), ("last", 5));
    assert_eq!((says_text(&verdict, "cell").as_str(), number(&verdict, "median_ns")), ("idle", 400_000));
    let spoils = texts(&verdict, "spoils");
    assert!(["max", "stddev"].iter().all(|name| spoils.contains(&(*name).to_owned())), "{spoils:?}");
    assert!(texts(&verdict, "metrics").contains(&"scheduled..rx_kernel".to_owned()), "{verdict:#?}");
    assert!(verdict.says.contains("tardy itself shows in the last packet of a trial"), "{}", verdict.says);
    // The same from a folder, whose rows come in batches.
    let mut cell = CellAnalysis::new(
        "idle",
        BTreeMap::new(),
        [("ctl".to_owned(), vec![ONE_WAY, Metric::Delta])].into(),
        Vec::new(),
    );
    for (record, batch) in &trials {
        let pieces = (0..600).step_by(7).map(|from| piece(batch, from, (from + 7).min(600)));
        cell.trial(record, pieces.map(|piece| ("ctl", piece)));
    }
    assert_eq!(only(&[cell.finish()]), verdict);
}

fn piece(batch: &Batch, from: usize, to: usize) -> Batch {
    let mut piece = Batch {
        seq: batch.seq[from..to].to_vec(),
        scheduled_ns: batch.scheduled_ns[from..to].to_vec(),
        outcome: batch.outcome[from..to].to_vec(),
        flags: batch.flags[from..to].to_vec(),
        ..Batch::default()
    };
    for (all, part) in batch.offsets.iter().zip(&mut piece.offsets) {
        *part = all.as_ref().map(|column| column[from..to].to_vec());
    }
    piece
}

#[test]
fn a_run_with_such_a_trace_is_not_valid_and_one_without_is() {
    let slow = |_, values: &mut Vec<Option<i64>>| *values.last_mut().unwrap() = Some(400_000);
    for (fault, valid) in [(true, false), (false, true)] {
        let trials = trials(600, false, |n, values| {
            if fault {
                slow(n, values)
            }
        });
        let answer = cell("all", &[ONE_WAY], &trials);
        let verdicts = reported(std::slice::from_ref(&answer));
        let results = tardy_analyze::run::run("x", [answer], verdicts);
        assert_eq!((results.valid, results.cells[0].valid), (valid, true), "{:#?}", results.verdicts);
    }
}

#[test]
fn a_first_packet_that_is_faster_than_all_others_is_found_too() {
    let fast = |_, values: &mut Vec<Option<i64>>| values[0] = Some(5_000);
    let verdict = only(&[cell("all", &[ONE_WAY], &trials(600, false, fast))]);
    assert_eq!(says_text(&verdict, "position"), "first", "{verdict:#?}");
    assert!(number(&verdict, "difference_ns") < -5_000 && texts(&verdict, "spoils") == ["min"], "{verdict:#?}");
}

#[test]
fn one_slow_last_packet_in_five_trials_is_no_trace() {
    let slow = |n, values: &mut Vec<Option<i64>>| {
        if n == 3 {
            *values.last_mut().unwrap() = Some(400_000);
        }
    };
    let verdicts = reported(&[cell("all", &[ONE_WAY], &trials(600, false, slow))]);
    assert!(verdicts.is_empty(), "{verdicts:#?}");
}

#[test]
fn fewer_than_five_trials_say_nothing_of_first_and_last_packets() {
    let slow = |_, values: &mut Vec<Option<i64>>| *values.last_mut().unwrap() = Some(400_000);
    let trials = trials(600, false, slow);
    for few in 0..5 {
        let verdicts = reported(&[cell("all", &[ONE_WAY], &trials[..few])]);
        assert!(verdicts.is_empty(), "{few} trials: {verdicts:#?}");
    }
}

#[test]
fn a_lost_last_packet_leaves_its_trial_out_and_no_other_takes_its_place() {
    let slow_and_lost = |n, values: &mut Vec<Option<i64>>| {
        values[598] = Some(400_000);
        values[599] = if n == 5 { None } else { Some(400_000) };
    };
    let lossy = |mut trials: Vec<(TrialRecord, Batch)>| {
        trials.iter_mut().for_each(|(record, _)| record.streams.get_mut("ctl").unwrap().max_loss = 0.1);
        trials
    };
    let four = cell("all", &[ONE_WAY], &lossy(trials(600, false, slow_and_lost)));
    assert!(reported(&[four]).is_empty(), "four trials have a last packet");
}

#[test]
fn a_difference_that_the_ruler_cannot_tell_or_that_is_small_is_no_trace() {
    // 160 ns of 100, and no noise to speak of.
    let step = |by: i64| {
        move |_: u32, values: &mut Vec<Option<i64>>| {
            values.iter_mut().flatten().for_each(|ns| *ns = 100 + *ns % 7);
            *values.last_mut().unwrap() = Some(103 + by);
        }
    };
    let answer = |by| cell("all", &[ONE_WAY], &trials(600, false, step(by)));
    let told_by = |by, stamp_ns| {
        let answer = answer(by);
        judge([(&answer.result, &answer.own_trace)], stamp_ns).len()
    };
    assert_eq!((told_by(160, 55), told_by(160, 81)), (1, 0), "a metric has two stamps");
    assert_eq!((told_by(60, 16), told_by(30, 16)), (1, 0), "no allocator is late by the first or the last packet only");
    // 4 % of 30 µs.
    let small = |_: u32, values: &mut Vec<Option<i64>>| {
        values.iter_mut().flatten().for_each(|ns| *ns = 30_000 + *ns % 100);
        *values.last_mut().unwrap() = Some(31_250);
    };
    assert!(reported(&[cell("all", &[ONE_WAY], &trials(600, false, small))]).is_empty());
}

#[test]
fn the_kernels_caches_of_packet_heads_were_called_tardys_own_trace() {
    let told_by = |nth: usize, by: i64| {
        let slow = |_: u32, values: &mut Vec<Option<i64>>| {
            values.iter_mut().flatten().for_each(|ns| *ns = 12_000 + *ns % 100);
            values.iter_mut().skip(nth - 5).step_by(nth).flatten().for_each(|ns| *ns += by);
        };
        let cell = cell("all", &[ROUND_TRIP], &trials(9_600, true, slow));
        judge([(&cell.result, &cell.own_trace)], 16).len()
    };
    // What a C loop shows; what each 16th takes longer shows in each 8th too.
    assert_eq!((told_by(8, 640), told_by(16, 1_500), told_by(64, 1_500)), (0, 0, 0));
    // What it takes to fetch the stamps of that number of packets.
    assert_eq!((told_by(8, 5_200), told_by(16, 10_400), told_by(64, 41_600)), (1, 1, 1));
    assert_eq!((told_by(16, 3_200), told_by(64, 12_800)), (1, 1), "on a machine that is three times as fast");
}

#[test]
fn what_tardy_does_at_each_eighth_round_trip_hid_below_what_the_kernel_does_at_each_16th() {
    let told_by = |by: fn(u32) -> i64| {
        let slow = |_: u32, values: &mut Vec<Option<i64>>| {
            for (ns, seq) in values.iter_mut().zip(0..) {
                *ns = ns.map(|ns| 12_000 + ns % 100 + by(seq));
            }
        };
        let cell = cell("all", &[ROUND_TRIP], &trials(9_600, true, slow));
        let reported = judge([(&cell.result, &cell.own_trace)], 16);
        reported.first().map(|verdict| (number(verdict, "remainder"), number(verdict, "modulus")))
    };
    let both = told_by(|seq| if seq % 8 == 3 { 1_500 } else { 0 });
    assert_eq!(both, Some((3, 8)), "eight stamps take as long");
    // Both halves of each eighth differ, but by one batch of sixteen much more than by the other.
    assert_eq!(told_by(|seq| [0, 2_200, 300][usize::from(seq % 16 == 3) + 2 * usize::from(seq % 16 == 11)]), None);
    assert_eq!(told_by(|seq| if seq % 8 == 3 { 1_100 } else { 0 }), None, "eight stamps take longer");
}

/// Work of 15 µs that begins with each 40th packet, which it holds up by `by`.
fn held_up(reason: OwnReason, by: i64) -> Vec<(TrialRecord, Batch)> {
    let slow = |_: u32, values: &mut Vec<Option<i64>>| {
        values.iter_mut().skip(19).step_by(40).flatten().for_each(|ns| *ns += by)
    };
    let mut trials = trials(600, false, slow);
    for (record, batch) in &mut trials {
        let work = |row: usize| {
            let start_ns = batch.scheduled_ns[row] + 2_000;
            OwnWork { side: Side::Tx, cpu: Some(0), start_ns, end_ns: start_ns + 15_000, reason }
        };
        record.streams.get_mut("ctl").unwrap().own_work = (19..600).step_by(40).map(work).collect();
    }
    trials
}

#[test]
fn packets_under_way_while_tardy_took_stamps_are_compared_with_those_beside_them() {
    let verdict = only(&[cell("all", &[ONE_WAY], &held_up(OwnReason::Room, 20_000))]);
    assert_eq!((says_text(&verdict, "position").as_str(), verdict.level), ("interval", Level::Invalid), "{verdict:#?}");
    assert_eq!(
        (number(&verdict, "packets"), number(&verdict, "intervals_room")),
        (70, 75),
        "the first comes before the usual time is known"
    );
    assert!((18_000..22_000).contains(&number(&verdict, "difference_ns")), "{verdict:#?}");
    assert!(
        reported(&[cell("all", &[ONE_WAY], &held_up(OwnReason::Room, 0))]).is_empty(),
        "work that holds up nothing"
    );
}

#[test]
fn work_that_something_else_made_necessary_is_a_warning_at_most() {
    let verdict = only(&[cell("all", &[ONE_WAY], &held_up(OwnReason::Behind, 20_000))]);
    assert_eq!(
        (says_text(&verdict, "position").as_str(), verdict.level),
        ("forced-interval", Level::Warning),
        "{verdict:#?}"
    );
}

/// Stamps fetched from `at` ns behind each 40th packet's instant to `until`, by the stream itself
/// or by another one.
fn fetched(stream: &str, at: i64, until: i64, by: i64) -> Vec<(TrialRecord, Batch)> {
    let slow = |_: u32, values: &mut Vec<Option<i64>>| {
        values.iter_mut().skip(19).step_by(40).flatten().for_each(|ns| *ns += by)
    };
    let mut trials = trials(600, false, slow);
    for (record, batch) in &mut trials {
        let mut of = record.streams["ctl"].clone();
        of.own_between = (19..600)
            .step_by(40)
            .map(|row: usize| Between {
                side: Side::Tx,
                cpu: Some(0),
                start_ns: batch.scheduled_ns[row] + at,
                spans: vec![(0, (until - at) as u32)],
            })
            .collect();
        record.streams.insert(stream.to_owned(), of);
    }
    trials
}

#[test]
fn a_fetch_in_the_middle_of_a_cycle_that_reaches_into_the_next_packets_time_is_a_warning_at_most() {
    // It began in the cycle before, late, for what held up its thread. One that begins behind the
    // packet's instant is none of these.
    for stream in ["ctl", "other"] {
        let verdict = only(&[cell("all", &[ONE_WAY], &fetched(stream, -10_000, 5_000, 20_000))]);
        assert_eq!(
            (says_text(&verdict, "position").as_str(), verdict.level),
            ("forced-interval", Level::Warning),
            "{verdict:#?}"
        );
        assert_eq!((number(&verdict, "packets"), number(&verdict, "intervals_between")), (70, 75));
        assert!(reported(&[cell("all", &[ONE_WAY], &fetched(stream, 2_000, 17_000, 20_000))]).is_empty());
        assert!(reported(&[cell("all", &[ONE_WAY], &fetched(stream, -10_000, 5_000, 0))]).is_empty());
    }
}

#[test]
fn slow_packets_that_meet_more_intervals_because_they_are_slow_are_no_trace() {
    // One in twenty takes 300 µs of its own accord, and work at random instants meets these most
    // of all.
    let mut random = seeded(9);
    let trial = |n: u32| {
        let mut values = Noise::Normal(0.0).received(&mut random, 2_000);
        values.iter_mut().flatten().filter(|_| random.random_ratio(1, 20)).for_each(|ns| *ns += 270_000);
        let work = random_work(&mut random, 2_000 * CYCLE_NS, 400_000);
        cyclic(n, &values, work)
    };
    let trials: Vec<_> = (1..=5).map(trial).collect();
    let verdicts = reported(&[cell("all", &[ONE_WAY], &trials)]);
    assert!(verdicts.is_empty(), "{verdicts:#?}");
}

#[test]
fn tail_probabilities_are_those_of_the_tables() {
    let near = |got: f64, wanted: f64| assert!((got / wanted - 1.0).abs() < 1e-4, "{got} and {wanted}");
    // Chi-square with 10 degrees of freedom: 5 % lie beyond 18.307, 0.1 % beyond 29.588
    // (Abramowitz and Stegun, table 26.8).
    near(fisher(18.30704, 5), 0.05);
    near(fisher(29.58830, 5), 0.001);
    near(fisher(2.0 * std::f64::consts::LN_2, 1), 0.5);
    // Of a coin that is thrown ten times, nine heads or ten: 11 of 1 024; of a die in four throws
    // a six at least twice.
    near(binomial_tail(10, 9, 0.5), 11.0 / 1024.0);
    near(binomial_tail(4, 2, 1.0 / 6.0), 171.0 / 1296.0);
    assert_eq!((binomial_tail(10, 5, 0.5), binomial_tail(10, 0, 0.5), fisher(0.0, 5)), (1.0, 1.0, 1.0));
    assert_eq!((median(&mut [3, 1, 2]), median(&mut [4, 1, 2, 3]), median(&mut [])), (Some(2), Some(2), None));
    assert_eq!(median(&mut [i64::MIN, i64::MAX]), Some(0));
}

#[test]
fn a_metric_that_a_condition_added_counted_as_a_test() {
    let late = |n: u32| noise(u64::from(n), 600).into_iter().map(Some).collect::<Vec<_>>();
    let trials: Vec<_> = (1..=5).map(|n| cyclic(n, &late(n), Vec::new())).collect();
    let with = |more: Vec<Metric>| {
        let asked = [("ctl".to_owned(), vec![Metric::Delta])].into();
        let cell = CellAnalysis::new("one", BTreeMap::new(), asked, Vec::new());
        let mut cell = cell.adding([("ctl".to_owned(), more)].into());
        for (record, batch) in &trials {
            cell.trial(record, [("ctl", batch)]);
        }
        cell.finish()
    };
    let (without, with) = (with(Vec::new()), with(vec![ONE_WAY, Metric::Delta]));
    let tests = |cell: &CellAnswer| cell.own_trace.tests().map(|(_, metric, ..)| metric).collect::<Vec<_>>();
    assert!(tests(&cell("asked", &[ONE_WAY], &trials)).contains(&ONE_WAY), "it could be tested");
    assert_eq!(tests(&with), tests(&without));
    // It has figures, and the verdict on repeatability is that of the metrics that were requested.
    let figures = |cell: &CellAnswer| cell.result.streams["ctl"].metrics.get(&ONE_WAY.to_string()).map(|of| of.count);
    assert_eq!((figures(&without), figures(&with)), (None, Some(3_000)));
    assert_eq!(with.result.verdicts, without.result.verdicts);
}
