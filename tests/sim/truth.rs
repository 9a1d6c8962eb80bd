// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each fault that a test injects into the simulated machine gives its verdict and no other;
//! without it there is none. Ordinary simulated trials of all kinds have no verdict `own-trace`,
//! because the simulated path has no traces of tardy.

use crate::engine::{all, run as simulated, spans, stream};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tardy_analyze::cell::CellAnalysis;
use tardy_analyze::own_trace;
use tardy_engine::halves::{Halves, join};
use tardy_engine::port::sim;
use tardy_lab::coordinator::{Options, check, run};
use tardy_lab::host::clocks::one_host;
use tardy_lab::host::hosts::Hosts;
use tardy_lab::host::steward::Steward;
use tardy_lab::plan::Kinds;
use tardy_lab::run::{Event, Sink};
use tardy_model::ethernet::{Tag, Tags};
use tardy_model::placement::PlacementRecord;
use tardy_model::point::{Metric, Point};
use tardy_model::port::Sim;
use tardy_model::sample::Batch;
use tardy_model::shaper::Shaper;
use tardy_model::stream::{Policy, Stream, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::{Nanos, OffsetReading};
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::{Level, Verdict};
use tardy_spec::{Source, load};

/// The verdicts of one trial, whose halves were changed before they were joined.
fn verdicts(stream: &Stream, change: impl FnOnce(&mut Halves)) -> Vec<Verdict> {
    let mut trial = sim::trial(stream, StreamId::FIRST, 99, Nanos(321), &Shaper::None);
    change(&mut trial.halves);
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
        hosts: BTreeMap::new(),
        own_traffic: BTreeMap::new(),
        placement: PlacementRecord::default(),
        shapers: BTreeMap::new(),
        observer: Vec::new(),
        inspection: None,
        passed: None,
    };
    let asked = BTreeMap::from([("ctl".to_owned(), stream.metrics.clone())]);
    let mut cell = CellAnalysis::new("all", BTreeMap::new(), asked, Vec::new());
    cell.trial(&record, [("ctl", &batch)]).result.verdicts
}

/// Ids of the verdicts of one trial that are more than a note, with their level.
fn judge(stream: &Stream) -> Vec<(String, Level)> {
    let verdicts = verdicts(stream, |_| {});
    let grave = verdicts.iter().filter(|verdict| verdict.level > Level::Note);
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
    let mut stream = stream(Sim { hog: 0.8, ..Sim::default() });
    assert_eq!(judge(&stream), [], "a realtime thread does not wait for an ordinary task");
    let noted = verdicts(&stream, |_| {});
    assert!(noted.iter().any(|verdict| verdict.id == "competing-cpu" && verdict.level == Level::Note), "{noted:?}");
    stream.tx.policy = Policy::Other;
    only(&stream, "competing-cpu");
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
fn a_small_step_of_the_clock_is_not_told_as_missing_stamps() {
    for step in [-10_000, -3_000, 3_000, 10_000] {
        only(&stream(Sim { step: Nanos(step), ..Sim::default() }), "clock-step");
    }
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

/// With a tag of VLAN 100 and PCP 3.
fn tagged(sim: Sim) -> Stream {
    Stream { tag: Some(Tag { vlan: 100, pcp: 3 }), ..stream(sim) }
}

#[test]
fn a_tag_that_arrives_as_it_was_sent_gives_no_verdict() {
    let healthy = tagged(Sim::default());
    assert_eq!(judge(&healthy), []);
    let (batch, record) = crate::engine::run(&healthy);
    assert!(batch.pcp.iter().all(|pcp| *pcp == Some(3)) && batch.pcp.len() == 1_000);
    let tags = record.tags.expect("the port sees tags");
    assert_eq!(
        (tags.by_count, tags.by_pcp, tags.by_vlan),
        ([(1, 1_000)].into(), [(3, 1_000)].into(), [(100, 1_000)].into())
    );
    assert_eq!((tags.other_pcp, tags.other_vlan, tags.first_seq), (0, 0, None));
    let (untagged, record) = crate::engine::run(&stream(Sim::default()));
    assert!(untagged.pcp.is_empty() && record.tags.is_none(), "where no tag is asked for, none is simulated");
}

#[test]
fn a_changed_priority_gives_vlan_pcp() {
    let remarked = tagged(Sim { remark: 0.1, ..Sim::default() });
    only(&remarked, "vlan-pcp");
    let (batch, record) = crate::engine::run(&remarked);
    let tags = record.tags.expect("the port sees tags");
    let changed = batch.pcp.iter().filter(|pcp| **pcp == Some(4)).count() as u64;
    assert!(changed > 50 && changed == tags.other_pcp, "{tags:?}");
    assert_eq!(tags.first_seq, batch.pcp.iter().position(|pcp| *pcp == Some(4)).map(|row| row as u32));
    let (plain, _) = crate::engine::run(&tagged(Sim::default()));
    assert_eq!((batch.offsets, batch.outcome), (plain.offsets, plain.outcome), "a tag moves no figure");
}

#[test]
fn a_further_tag_gives_vlan_tags() {
    only(&tagged(Sim { retag: 0.1, ..Sim::default() }), "vlan-tags");
    let (_, record) = crate::engine::run(&tagged(Sim { retag: 1.0, loss: 0.0005, duplicate: 0.3, ..Sim::default() }));
    let tags = record.tags.expect("the port sees tags");
    assert_eq!(tags.by_count.keys().collect::<Vec<_>>(), [&2], "second arrivals are not counted: {tags:?}");
    assert!(tags.by_count[&2] <= 1_000, "{tags:?}");
}

#[test]
fn a_providers_tag_in_the_place_of_the_one_that_was_sent_gives_vlan_tags() {
    let stream = tagged(Sim::default());
    let tci = Tag { vlan: 100, pcp: 3 }.tci();
    let found = verdicts(&stream, |halves| {
        halves.arrivals[7..10].iter_mut().for_each(|it| it.tags = Tags::of(1, (0x88a8, tci)))
    });
    let [told] = &found.iter().filter(|verdict| verdict.id.starts_with("vlan")).collect::<Vec<_>>()[..] else {
        panic!("{found:?}")
    };
    assert_eq!((told.id.as_str(), told.level), ("vlan-tags", Level::Invalid));
    assert!(told.says.contains("3 with a tag of type 0x88a8 instead of 0x8100"), "{}", told.says);
    assert_eq!((&told.evidence["other_tpid"], &told.evidence["first_seq"]), (&3u64.into(), &7u64.into()));
}

#[test]
fn a_priority_that_nobody_looked_at_is_told_as_unchecked() {
    // As UDP over a VLAN device: the tag is sent, and its receiver sees none.
    let blind = |halves: &mut Halves| halves.arrivals.iter_mut().for_each(|it| it.tags = Tags::UNSEEN);
    let found = verdicts(&tagged(Sim::default()), blind);
    let told: Vec<_> = found.iter().filter(|verdict| verdict.id.starts_with("vlan")).collect();
    assert_eq!(told.iter().map(|it| (it.id.as_str(), it.level)).collect::<Vec<_>>(), [("vlan-pcp", Level::Note)]);
    assert!(told[0].says.contains("PCP 3 in VLAN 100") && told[0].says.contains("unchecked"), "{}", told[0].says);
    let untagged = verdicts(&stream(Sim::default()), blind);
    assert!(untagged.iter().all(|verdict| !verdict.id.starts_with("vlan")), "nothing was sent that could be looked at");
    let none = verdicts(&tagged(Sim { loss: 1.0, ..Sim::default() }), |_| {});
    assert!(none.iter().all(|verdict| !verdict.id.starts_with("vlan")), "nothing arrived: {none:?}");
}

#[test]
fn tags_of_replies_are_judged_as_well() {
    let mut answered = tagged(Sim { remark: 0.2, ..Sim::default() });
    answered.kind = tardy_model::stream::Kind::Reflected;
    let (batch, record) = crate::engine::run(&answered);
    let (there, back) =
        (record.tags.expect("tags"), record.reply.and_then(|reply| reply.tags).expect("tags of replies"));
    assert!(there.other_pcp > 0 && back.other_pcp > 0);
    assert_eq!(
        batch.pcp.iter().filter(|pcp| **pcp == Some(4)).count() as u64,
        back.other_pcp,
        "a row ends with its reply"
    );
}

const GATES: &str = "[shaper]\nkind = \"taprio\"\nclasses = 4\nmap = [3, 3, 3, 1, 3, 0, 3, 2, 3, 3, 3, 3, 3, 3, 3, 3]\n\
entries = [\"3 100us\", \"0 100us\", \"1 100us\", \"2 200us\", \"3 100us\", \"0 100us\", \"1 100us\", \"2 200us\"]\n";
const ASSIST: &str = "mode = \"txtime-assist\"\ntxtime_delay = \"400us\"\netf.delta = \"200us\"\n";
const ETF: &str = "[shaper]\nkind = \"etf\"\netf.delta = \"200us\"\n";

/// Paths that are quiet, noisy, and late now and then.
const NOISES: [&str; 3] = [
    "",
    "sim.jitter = \"20us\"\nsim.loss = 0.0005\nsim.reorder = 0.01\n",
    "sim.jitter = \"5us\"\nsim.late_share = 0.05\nsim.late = \"300us\"\nsim.drift_ppb = 20000\n",
];

/// Takes each trial into its cell.
struct Cells(BTreeMap<String, CellAnalysis>);

impl Sink for Cells {
    fn event(&mut self, _event: Event) {}
    fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Result<(), Box<dyn Error + Send + Sync>> {
        let cell = self.0.get_mut(&record.cell).ok_or("a cell that nobody asked for")?;
        cell.trial(record, streams.iter().map(|(name, batch)| (name, batch)));
        Ok(())
    }
}

/// The verdicts on a run of five trials, and the number of tests behind them.
fn judged(stream: &str, shaper: &str, count: u32) -> (Vec<String>, usize) {
    let simulated = tardy_tests::experiment("simulated stream");
    let text = format!("trials = 5\n{simulated}count = {count}\n{stream}\n{shaper}");
    let source = Source { name: "x.toml".into(), text };
    let experiment = load(&source, &[]).unwrap_or_else(|error| panic!("{stream}{shaper}{}", error.one_line()));
    let asked = |cell: &tardy_spec::experiment::Cell| {
        let streams = cell.setup.streams.iter();
        streams.map(|stream| (stream.name.clone(), stream.metrics.clone())).collect()
    };
    let new = |cell: &tardy_spec::experiment::Cell| {
        (cell.id.clone(), CellAnalysis::new(cell.id.clone(), BTreeMap::new(), asked(cell), Vec::new()))
    };
    let mut cells = Cells(experiment.cells.iter().map(new).collect());
    let stop = AtomicBool::new(false);
    let options = Options { version: "0", stop: &stop, kinds: Kinds::default(), clocks: &one_host };
    let mut steward = Steward::new(Path::new("/nonexistent"), Path::new("tardy"), std::process::id());
    let mut hosts = Hosts::here(&mut steward);
    let found = check(&experiment, &Kinds::default(), &mut hosts).expect("nothing stands against a simulation");
    let ended = run(&experiment, found, &mut hosts, &options, &mut cells);
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
    let answers: Vec<_> = cells.0.into_values().map(CellAnalysis::finish).collect();
    let tests = answers.iter().map(|answer| answer.own_trace.tests().count()).sum();
    let verdicts = own_trace::judge(answers.iter().map(|answer| (&answer.result, &answer.own_trace)), 1);
    (verdicts.into_iter().map(|verdict| verdict.says).collect(), tests)
}

#[test]
fn own_trace_is_silent_on_simulated_trials_of_every_kind() {
    for noise in NOISES {
        for (kind, count) in [("", 600), ("reflect = true\n", 600), ("kind = \"pingpong\"\n", 2_000)] {
            let noise =
                if kind.contains("pingpong") { noise.replace("sim.late", "# sim.late") } else { noise.to_owned() };
            let (told, tests) = judged(&format!("{kind}{noise}"), "", count);
            assert!(tests >= 4, "{kind}{noise}: only {tests} tests");
            assert!(told.is_empty(), "{kind}{noise}: {told:#?}");
        }
    }
}

#[test]
fn own_trace_is_silent_under_every_queue_discipline_that_is_simulated() {
    let strict = "launch = \"strict\"\ntx.advance = \"400us\"\npriority = 3\n";
    let deadline = "launch = \"deadline\"\ntx.advance = \"400us\"\npriority = 3\n";
    let assist = format!("{GATES}{ASSIST}");
    let shapers = [
        (ETF, strict),
        (GATES, "priority = 3\n"),
        (&assist, strict),
        (&format!("{ETF}etf.deadline_mode = true\n"), deadline),
    ];
    for noise in NOISES {
        for (shaper, stream) in shapers {
            let (told, tests) = judged(&format!("{stream}{noise}"), shaper, 600);
            assert!(tests >= 4, "{shaper}{noise}: only {tests} tests");
            assert!(told.is_empty(), "{shaper}{noise}: {told:#?}");
        }
    }
}

#[test]
fn a_thousand_clocks_are_within_the_bounds_of_their_exchanges() {
    use rand::{Rng, SeedableRng};
    use tardy_lab::host::clocks::{Exchange, Track, best};
    for seed in 0..1_000 {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let (ahead_ns, ppm) = (random.random_range(-5_000_000..5_000_000_i64), random.random_range(-500.0..500.0_f64));
        // Each way has a delay of its own, and what comes on top.
        let least: [i64; 2] = std::array::from_fn(|_| random.random_range(1_000..100_000));
        let theirs = |ours: i64, step_ns: i64| ours + ahead_ns + step_ns + (ours as f64 * ppm / 1e6).round() as i64;
        let mut read = |from_ns: i64, step_ns: i64, first_stepped: usize| {
            let (mut now, mut quickest, mut all, mut read_at) = (from_ns, [(i64::MAX, 0); 2], Vec::new(), Vec::new());
            for n in 0..64 {
                let ways: [i64; 2] =
                    std::array::from_fn(|way| least[way] + (-random.random::<f64>().max(1e-9).ln() * 20_000.0) as i64);
                for (quickest, way) in quickest.iter_mut().zip(ways) {
                    *quickest = (*quickest).min((way, n));
                }
                let (there, answered) = (now + ways[0], now + ways[0] + ways[1]);
                read_at.push(there);
                let reached_ns = theirs(there, if n < first_stepped { 0 } else { step_ns });
                all.push(Exchange {
                    asked_ns: now,
                    reached_ns,
                    returned_ns: reached_ns,
                    answered_ns: answered,
                    counters: None,
                });
                now = answered + 1_000;
            }
            // Two clocks drift by at most 1000 ppm from each of the quickest to the middle of both:
            // that is what a reading by these two states of it, next to half of both ways.
            let of = quickest.map(|(_, n)| all[n]);
            let middle = |of: &Exchange| of.asked_ns + (of.answered_ns - of.asked_ns) / 2;
            let (one, other) = (middle(&of[0]), middle(&of[1]));
            let at = one.min(other) + (one - other).abs() / 2;
            let away = of.map(|of| (at - of.asked_ns).abs().max((of.answered_ns - at).abs()) / 1_000 + 1);
            // What these two clocks really drift from the one to the other widens it as well.
            let [one_read, other_read] = quickest.map(|(_, n)| read_at[n]);
            let drifted = ((one_read - other_read).abs() as f64 * ppm.abs() / 1e6).ceil() as i64 + 2;
            let [there, back] = quickest.map(|(way, _)| way);
            (best(&all), (there + back + away[0] + away[1] + drifted) / 2 + 1)
        };
        let mut track = Track::default();
        for n in 0..60 {
            let (reading, explained) = read(n * 1_000_000_000, 0, 0);
            let reading = reading.expect("a reading");
            let truth = theirs(reading.at_tai_ns, 0) - reading.at_tai_ns;
            assert!((reading.ahead_ns - truth).abs() <= reading.bound_ns, "{seed}: {reading:?}, {truth}");
            assert!(reading.bound_ns <= explained, "{seed}: {reading:?}, {explained}");
            track.add(reading);
        }
        let drift = track.drift().expect("there are two readings");
        assert!((drift.ppm - ppm).abs() <= drift.bound_ppm, "{seed}: {drift:?}, {ppm}");
        assert!(!track.was_set(), "{seed}");
        // Three milliseconds at once are no drift.
        let stepped = |reading: Option<OffsetReading>| reading.expect("a reading");
        track.add(stepped(read(60_000_000_000, 3_000_000, 0).0));
        assert!(track.was_set() && track.drift().is_none(), "{seed}");
        track.add(stepped(read(61_000_000_000, 3_000_000, 0).0));
        assert!(!track.was_set() && track.drift().is_some(), "{seed}");
        // Between two of the 64 questions: they exclude each other, and what was known is old.
        assert_eq!(read(62_000_000_000, 6_000_000, 32).0, None, "{seed}");
        track.begin_anew();
        assert!(track.was_set() && track.drift().is_none(), "{seed}");
    }
}

/// Packets of one way and of the other, with the stamps of devices whose clocks were read with an
/// error of their own.
#[test]
fn a_thousand_clocks_are_within_the_bounds_of_packets_each_way() {
    use rand::{Rng, SeedableRng};
    use tardy_lab::host::ways::{OneWay, best_of_ways};
    for seed in 0..1_000 {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let (ahead_ns, ppm) = (random.random_range(-5_000_000..5_000_000_i64), random.random_range(-500.0..500.0_f64));
        let least: [i64; 2] = std::array::from_fn(|_| random.random_range(500..20_000));
        let bound_ns = random.random_range(0..1_000_i64);
        let theirs = |ours: i64, step_ns: i64| ours + ahead_ns + step_ns + (ours as f64 * ppm / 1e6).round() as i64;
        // The streams begin at different instants; a step comes before some packet of the way back.
        let mut read = |step_ns: i64, first_stepped: i64| {
            let phases: [i64; 2] = std::array::from_fn(|_| random.random_range(0..1_000_000));
            let (mut smallest, mut ways) = ([i64::MAX; 2], [Vec::new(), Vec::new()]);
            for n in 0..64 {
                for way in 0..2 {
                    let took = least[way] + (-random.random::<f64>().max(1e-9).ln() * 5_000.0) as i64;
                    smallest[way] = took.min(smallest[way]);
                    let left = 7_000_000_000 + n * 1_000_000 + phases[way];
                    let step = if n < first_stepped { 0 } else { step_ns };
                    let off = random.random_range(-bound_ns..=bound_ns);
                    let stamps = [[left, theirs(left + took, step)], [theirs(left, step), left + took]][way];
                    ways[way].push(OneWay { left_ns: stamps[0] + off, came_ns: stamps[1], bound_ns });
                }
            }
            (best_of_ways(&ways[0], &ways[1]), smallest[0] + smallest[1])
        };
        let (reading, both_ways) = read(0, 0);
        let reading = reading.expect("a reading");
        let truth = theirs(reading.at_tai_ns, 0) - reading.at_tai_ns;
        assert!((reading.ahead_ns - truth).abs() <= reading.bound_ns, "{seed}: {reading:?}, {truth}");
        // The quickest of either way are at most 64 ms apart, and each is within its own error.
        let explained = 1.25 * both_ways as f64 / 2.0 + 65_000.0 + 2.0 * bound_ns as f64;
        assert!(reading.bound_ns as f64 <= explained, "{seed}: {reading:?}, {both_ways}");
        // Half of the packets show another time than the other half does.
        assert_eq!(read(3_000_000, 32).0, None, "{seed}");
    }
    // Of one way alone nothing is known, and what no clock can show is no reading.
    let packet = |left_ns, came_ns| OneWay { left_ns, came_ns, bound_ns: 0 };
    assert_eq!(best_of_ways(&[packet(0, 10)], &[]), None);
    let ends = [packet(i64::MIN, i64::MAX), packet(i64::MAX, i64::MIN)];
    assert_eq!(best_of_ways(&ends, &ends), None);
}

#[test]
fn a_way_that_takes_20_us_more_moves_packets_each_way_by_10_us_within_their_bound() {
    use tardy_lab::host::ways::{OneWay, best_of_ways};
    let (ahead_ns, ways_ns) = (3_000_000, [30_000, 10_000]);
    let there = |n: i64| OneWay { left_ns: n * 1_000_000, came_ns: n * 1_000_000 + ways_ns[0] + ahead_ns, bound_ns: 0 };
    let back = |n: i64| OneWay {
        left_ns: n * 1_000_000 + 30_000 + ahead_ns,
        came_ns: n * 1_000_000 + 30_000 + ways_ns[1],
        bound_ns: 0,
    };
    let (there, back): (Vec<OneWay>, Vec<OneWay>) = (0..64).map(|n| (there(n), back(n))).unzip();
    let reading = best_of_ways(&there, &back).expect("a reading");
    assert_eq!(reading.ahead_ns, ahead_ns + 10_000, "half of the difference");
    assert!((20_000..20_100).contains(&reading.bound_ns), "half of both ways: {reading:?}");
}

/// What an exchange can never see: both ways seem to take as long.
#[test]
fn a_way_that_takes_20_us_more_than_the_other_moves_an_exchange_by_10_us_within_its_bound() {
    use tardy_lab::host::clocks::{Exchange, best};
    let (ahead_ns, ways_ns) = (3_000_000, [30_000, 10_000]);
    let exchange = |n: i64| {
        let asked_ns = n * 1_000_000;
        let (reached_ns, rests_ns) = (asked_ns + ways_ns[0] + ahead_ns, 5_000);
        Exchange {
            asked_ns,
            reached_ns,
            returned_ns: reached_ns + rests_ns,
            answered_ns: asked_ns + ways_ns[0] + rests_ns + ways_ns[1],
            counters: None,
        }
    };
    let reading = best(&(0..64).map(exchange).collect::<Vec<_>>()).expect("a reading");
    assert_eq!(reading.ahead_ns, ahead_ns + 10_000, "half of the difference");
    // Half of both ways, without the time that the other end took; and 1000 ppm within one
    // exchange of 45 µs.
    assert_eq!(reading.bound_ns, 20_000 + 23);
    assert!((reading.ahead_ns - ahead_ns).abs() <= reading.bound_ns);
}

#[test]
fn stamps_of_devices_are_as_wrong_as_the_reading_of_their_clocks() {
    let sim = Sim { phc: true, phc_ahead: Nanos::from_secs(7), phc_read: Nanos(100), ..Sim::default() };
    let (batch, record) = simulated(&stream(sim));
    // A reading shows what its bracket began with: each stamp is late by half of the bracket.
    all(&batch, "tx_kernel..tx_hw", 200 + 50);
    all(&batch, "tx_hw..rx_hw", 500);
    all(&batch, "rx_hw..rx_kernel", 300 - 50);
    assert_eq!((record.tx_hw_bound_ns, record.rx_hw_bound_ns), (51, 51), "and a nanosecond of rounding");
    assert_eq!(record.bound_ns("tx_hw..rx_hw".parse().expect("a metric")), 102);
    assert_eq!(record.bound_ns("rx_hw..rx_kernel".parse().expect("a metric")), 51);
    // The row shows what two clocks may be wrong by, and one clock's has none.
    let shown = |metric: &str| record.clock_bound_ns(metric.parse().expect("a metric"));
    assert_eq!(
        ["tx_kernel..tx_hw", "tx_hw..rx_hw", "rx_hw..rx_kernel", "tx_kernel..rx_kernel"].map(shown),
        [Some(51), Some(102), Some(51), None]
    );
    assert!(!record.absent.contains_key(&Point::TxHw) && !record.absent.contains_key(&Point::RxHw));
}

#[test]
fn the_bound_of_a_devices_clock_covers_the_truth_every_time() {
    use rand::{Rng, SeedableRng};
    for seed in 0..200 {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let (tick, read) = ([1, 4, 8, 40][random.random_range(0..4)], random.random_range(2..5_000));
        let sim = Sim {
            phc: true,
            phc_ahead: Nanos(random.random_range(-1_000_000_000_000..1_000_000_000_000)),
            phc_drift_ppb: random.random_range(-500_000..500_000),
            phc_tick: Nanos(tick),
            phc_read: Nanos(read),
            drift_ppb: random.random_range(-400_000..400_000),
            jitter: Nanos(3_000),
            ..Sim::default()
        };
        let mut stream = stream(sim.clone());
        stream.count = 200;
        let (batch, record) = simulated(&stream);
        for (metric, truth, bound) in
            [("tx_kernel..tx_hw", 200, record.tx_hw_bound_ns), ("rx_hw..rx_kernel", 300, record.rx_hw_bound_ns)]
        {
            // Some stamps have a greater step in common by chance.
            assert!(bound <= read / 2 + 4 * tick + 1, "{seed}: {metric} {bound} {sim:?}");
            let wrong = spans(&batch, metric).into_iter().map(|ns| (ns.expect("both stamps") - truth).abs()).max();
            assert!(wrong <= Some(bound), "{seed}: {metric} is wrong by {wrong:?}, bound {bound}: {sim:?}");
        }
    }
}

#[test]
fn a_devices_clock_that_was_set_leaves_no_stamp_and_the_others_as_they_were() {
    let sim = |step| Sim { phc: true, phc_step: Nanos(step), ..Sim::default() };
    let whole = simulated(&stream(sim(0))).0;
    for step in [-1_000_000_000, -2_000_000, 2_000_000, 1_000_000_000] {
        let (batch, record) = simulated(&stream(sim(step)));
        for metric in ["tx_kernel..tx_hw", "tx_hw..rx_hw", "rx_hw..rx_kernel"] {
            assert!(spans(&batch, metric).iter().all(Option::is_none), "{step}: {metric}");
        }
        assert_eq!((record.tx_hw_bound_ns, record.rx_hw_bound_ns), (0, 0));
        assert_eq!(spans(&batch, "tx_kernel..rx_kernel"), spans(&whole, "tx_kernel..rx_kernel"));
    }
}

#[test]
fn what_a_clock_counts_in_is_seen_in_enough_stamps() {
    use tardy_model::time::tick_ns;
    let stamps = |tick: i64, count: i64| (0..count).map(move |n| 1_000_003 + tick * (n * n % 17));
    assert_eq!(tick_ns(stamps(8, 100)), 8);
    assert_eq!(tick_ns(stamps(-40, 100)), 40);
    assert_eq!(tick_ns(stamps(1, 100)), 1);
    assert_eq!(tick_ns(stamps(8, 15)), 1, "too few to show it");
    // They are all the same: that shows nothing.
    assert_eq!(tick_ns((0..100).map(|_| 5)), 1);
    assert_eq!(tick_ns([i64::MIN, i64::MAX].into_iter().cycle().take(40)), i64::MAX);
    assert_eq!(tick_ns(std::iter::empty()), 1);
}
