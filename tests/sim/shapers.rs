// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue disciplines on the simulated port: when each packet leaves, what they drop, and how tardy
//! reports that, to the nanosecond.

use crate::engine::stream;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tardy_analyze::cell::{CellAnalysis, CellAnswer};
use tardy_engine::halves::join;
use tardy_engine::matcher::unreported;
use tardy_engine::port::sim;
use tardy_lab::coordinator::{Options, check, run};
use tardy_lab::host::clocks::one_host;
use tardy_lab::host::hosts::Hosts;
use tardy_lab::host::steward::Steward;
use tardy_lab::plan::Kinds;
use tardy_lab::run::{Event, Sink};
use tardy_model::gates::Gates;
use tardy_model::point::Point;
use tardy_model::port::Sim;
use tardy_model::result::{GateResult, StreamResult};
use tardy_model::sample::{Batch, Flags, Outcome};
use tardy_model::shaper::{Shaper, frame_time};
use tardy_model::stream::Launch;
use tardy_model::stream_id::StreamId;
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::{Level, Verdict};
use tardy_spec::experiment::Experiment;
use tardy_spec::{Source, load};

const R1: &str = "[shaper]\nkind = \"taprio\"\nclasses = 4\nmap = [3, 3, 3, 1, 3, 0, 3, 2, 3, 3, 3, 3, 3, 3, 3, 3]\n\
entries = [\"3 100us\", \"0 100us\", \"1 100us\", \"2 200us\", \"3 100us\", \"0 100us\", \"1 100us\", \"2 200us\"]\n";
const ASSIST: &str = "mode = \"txtime-assist\"\ntxtime_delay = \"400us\"\netf.delta = \"200us\"\n";
const ETF: &str = "[shaper]\nkind = \"etf\"\netf.delta = \"200us\"\n";

fn experiment(shaper: &str, stream: &str) -> Experiment {
    let simulated = tardy_tests::experiment("simulated stream");
    let text = format!("trials = 1\n{simulated}count = 1000\npriority = 3\n{stream}\n{shaper}");
    load(&Source { name: "x.toml".into(), text }, &[]).unwrap_or_else(|error| panic!("{}", error.one_line()))
}

#[derive(Default)]
struct Kept(Vec<(TrialRecord, Vec<(String, Batch)>)>);

impl Sink for Kept {
    fn event(&mut self, _event: Event) {}
    fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.push((record.clone(), streams.to_vec()));
        Ok(())
    }
}

/// The only trial of an experiment, and its verdicts.
struct Trial {
    record: TrialRecord,
    batch: Batch,
    answer: CellAnswer,
    shaper: Shaper,
}

fn trial(experiment: &Experiment) -> Trial {
    let stop = AtomicBool::new(false);
    let options = Options { version: "0", stop: &stop, kinds: Kinds::default(), clocks: &one_host };
    let mut steward = Steward::new(Path::new("/nonexistent"), Path::new("tardy"), std::process::id());
    let mut hosts = Hosts::here(&mut steward);
    let mut kept = Kept::default();
    let found = check(experiment, &Kinds::default(), &mut hosts).expect("nothing stands against a simulation");
    let ended = run(experiment, found, &mut hosts, &options, &mut kept);
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
    let (record, mut streams) = kept.0.remove(0);
    let setup = &experiment.cells[0].setup;
    let asked = [("ctl".to_owned(), setup.streams[0].metrics.clone())].into();
    let mut cell = CellAnalysis::new("all", [].into(), asked, Vec::new());
    cell.trial(&record, streams.iter().map(|(name, batch)| (name, batch)));
    Trial { record, batch: streams.remove(0).1, answer: cell.finish(), shaper: setup.shaper.clone() }
}

impl Trial {
    fn stream(&self) -> &StreamResult {
        &self.answer.result.streams["ctl"]
    }
    fn gates(&self) -> &GateResult {
        self.stream().gates.as_ref().expect("departures are judged")
    }
    fn verdict(&self, id: &str) -> Option<&Verdict> {
        self.answer.result.verdicts.iter().find(|verdict| verdict.id == id)
    }
    fn grave(&self) -> Vec<(&str, Level)> {
        let grave =
            self.answer.result.verdicts.iter().filter(|verdict| verdict.level > Level::Note && verdict.id != "repeats");
        grave.map(|verdict| (verdict.id.as_str(), verdict.level)).collect()
    }
}

#[test]
fn etf_lets_go_its_delta_before_the_launch_time_and_the_verdict_says_so() {
    let found = trial(&experiment(ETF, "launch = \"strict\"\ntx.advance = \"400us\""));
    for row in 0..found.batch.len() {
        assert_eq!(found.batch.offset(row, Point::TxKernel), Some(-200_000), "packet {row}");
        assert_eq!(found.batch.outcome[row], Outcome::Received);
        assert!(found.batch.flags[row].has(Flags::EARLY), "it arrives before it was scheduled, and that is early");
    }
    let gates = found.gates();
    assert_eq!((gates.keeper.as_str(), gates.judged, gates.inside), ("etf", 1_000, 1_000));
    assert_eq!((gates.release_before_ns, gates.tolerance_ns, gates.gate_cycle_ns), (200_000, 50_000, None));
    let verdict = found.verdict("gates").expect("told");
    assert_eq!(verdict.level, Level::Ok);
    assert!(verdict.says.contains("etf.delta, 200.0 µs, at most 50.0 µs after"), "{}", verdict.says);
    assert_eq!(found.grave(), []);
    assert_eq!(found.verdict("launch-ignored"), None);
}

#[test]
fn what_etf_drops_is_not_sent_and_every_report_finds_its_packet() {
    // Its timer fires 20 µs late, and the delta leaves 10: of those for which it does, the launch
    // time has passed.
    let stream = "launch = \"strict\"\ntx.advance = \"100us\"\nmax_loss = \"0%\"\nsim.hold = \"20us\"\nsim.hold_share = 0.25\nsim.drop = [5, 6]";
    let found = trial(&experiment(&ETF.replace("200us", "10us"), stream));
    let counters = found.record.streams["ctl"].counters;
    assert!((200..300).contains(&counters.launch_missed), "{counters:?}");
    let etf = &found.record.shapers["a"].qdiscs[0];
    assert_eq!(
        (etf.kind.as_str(), etf.drops, etf.overlimits),
        ("etf", counters.launch_missed + lead_in(&found), etf.drops)
    );
    let mut missed = 0;
    for row in 0..found.batch.len() {
        let dropped = found.batch.flags[row].has(Flags::LAUNCH_MISSED);
        missed += u64::from(dropped);
        let left = found.batch.offset(row, Point::TxKernel);
        match found.batch.outcome[row] {
            Outcome::NotSent => assert!(dropped && left.is_none(), "packet {row}"),
            Outcome::Lost => {
                assert!(!dropped && left == Some(-10_000) && [5, 6].contains(&row), "packet {row} was lost on the path")
            }
            Outcome::Received => assert!(!dropped && left == Some(-10_000), "packet {row}"),
        }
    }
    assert_eq!(missed, counters.launch_missed);
    let outcomes = found.stream().outcomes;
    assert_eq!(
        (outcomes.not_sent, outcomes.lost),
        (missed, found.batch.outcome.iter().filter(|o| **o == Outcome::Lost).count() as u64)
    );
    assert_eq!(found.stream().not_sent_why, [("launch_missed".to_owned(), missed)].into());
    let ids: Vec<&str> = found.grave().into_iter().map(|(id, _)| id).collect();
    assert!(ids.contains(&"launch-drops"), "{ids:?}");
    let told =
        found.answer.result.trials[0].verdicts.iter().find(|verdict| verdict.id == "launch-drops").expect("told");
    assert!(
        told.says.contains("launch time had passed") && told.says.contains("etf.delta being 10.0 µs"),
        "{}",
        told.says
    );
}

/// Warm-up packets before the trial go the same way, and are nobody's loss: what the counters have
/// beyond the reports.
fn lead_in(found: &Trial) -> u64 {
    let drops = found.record.shapers["a"].qdiscs[0].drops;
    let beyond = drops - found.record.streams["ctl"].counters.launch_missed;
    assert!(beyond <= 20, "{beyond}");
    beyond
}

#[test]
fn a_sender_that_comes_after_its_launch_times_loses_all_to_etf_and_is_warned() {
    // Such a file is refused; a timer that is late by more than was left comes to the same.
    let mut late = experiment(ETF, "launch = \"strict\"\ntx.advance = \"400us\"");
    late.cells[0].setup.streams[0].tx.advance = Nanos::ZERO;
    let found = trial(&late);
    assert_eq!(found.stream().outcomes.not_sent, 1_000);
    assert_eq!(found.stream().not_sent_why, [("launch_invalid".to_owned(), 1_000)].into());
    assert_eq!(found.record.streams["ctl"].counters.launch_invalid, 1_000);
    assert!(found.batch.flags.iter().all(|flags| flags.has(Flags::LAUNCH_INVALID)));
    let ids: Vec<&str> = found.grave().into_iter().map(|(id, _)| id).collect();
    assert!(ids.contains(&"advance") && ids.contains(&"launch-drops") && !ids.contains(&"loss"), "{ids:?}");
}

/// When each packet should come to the driver by a look at the schedule alone, packet by packet.
fn through_gates(found: &Trial) -> Vec<i64> {
    let taprio = found.shaper.taprio().expect("taprio");
    let gates = Gates::of(&taprio.schedule, 1);
    let frame = frame_time(64 + 28, false, taprio.port_bit_s).0;
    let mut free = i64::MIN;
    (0..found.batch.len())
        .map(|row| {
            let enqueued = found.batch.stamp_ns(row, Point::TxSched).expect("a stamp");
            let open = gates.next_open(enqueued.max(free), frame).expect("it opens");
            free = open + frame;
            // The way to the driver takes 200 ns where nothing holds the packet.
            open.max(enqueued + 200)
        })
        .collect()
}

#[test]
fn taprio_keeps_its_gates_and_who_comes_too_late_slips_one_cycle_of_the_stream() {
    // One wake-up in ten comes 150 µs late, when the window of 100 µs has closed.
    let late = "launch = \"strict\"\nsim.late_share = 0.1\nsim.late = \"150us\"\noverrun = \"burst\"";
    let found = trial(&experiment(R1, late));
    let expected = through_gates(&found);
    let mut slipped = 0;
    for (row, expected) in expected.into_iter().enumerate() {
        assert_eq!(found.batch.stamp_ns(row, Point::TxKernel), Some(expected), "packet {row}");
        let woke = found.batch.offset(row, Point::Wakeup).expect("a stamp");
        slipped += u64::from(woke > 100_000);
    }
    assert!(slipped > 60, "{slipped}");
    let gates = found.gates();
    assert_eq!(
        (gates.judged, gates.inside, gates.early, gates.late),
        (1_000, 1_000, 0, 0),
        "a gate lets nothing through outside"
    );
    assert_eq!(gates.slips_stream_cycles.get(&1), Some(&slipped));
    assert_eq!(gates.slips_stream_cycles.get(&0), Some(&(1_000 - slipped)));
    assert_eq!(gates.slips_gate_cycles, [(0, 1_000)].into(), "half a cycle of the gates is none");
    assert_eq!(gates.slipped, Some(slipped));
    let verdict = found.verdict("gates").expect("told");
    assert!(verdict.says.contains("slipped by 1 cycle of the stream (500.0 µs each) late"), "{}", verdict.says);
    let first = format!("{slipped} of 1000 packets of ctl that left did so in another window than their own");
    assert!(
        verdict.level == Level::Warning && verdict.says.starts_with(&first),
        "all inside, and not all in their own: {verdict:?}"
    );
    let bins: u64 = gates.phases.counts.iter().sum();
    assert_eq!((bins, gates.phases.cycle_ns), (1_000, 1_000_000));
    // Open from 200 to 300 and from 700 to 800 of 1 000 µs: nothing in any other part.
    let inside = |bin: usize| (20..30).contains(&bin) || (70..80).contains(&bin);
    assert!(
        gates.phases.counts.iter().enumerate().all(|(bin, count)| inside(bin) || *count == 0),
        "{:?}",
        gates.phases.counts
    );
    let class = found.answer.result.classes.iter().find(|class| class.class == Some(1)).expect("the class");
    assert_eq!((class.judged, class.inside, class.windows.len()), (1_000, 1_000, 2));
    assert_eq!(
        found.verdict("launch-ignored").map(|verdict| verdict.level),
        Some(Level::Note),
        "taprio holds no packet for its launch time"
    );
}

#[test]
fn launch_times_outside_every_window_are_dropped_without_a_report_and_not_taken_for_loss() {
    let setup = experiment(R1, "launch = \"strict\"").cells.remove(0).setup;
    let mut sent = stream(Sim { drop: vec![1, 401, 402], ..Sim::default() });
    // Every second one falls between two windows.
    (sent.priority, sent.launch, sent.cycle) = (3, Launch::Strict, Nanos(250_000));
    let trial = sim::trial(&sent, StreamId::FIRST, 9, Nanos(210_000), &setup.shaper);
    let (mut batch, mut record) = join(&sent, trial.base, &trial.halves);
    let lost = |batch: &Batch| batch.outcome.iter().filter(|outcome| **outcome == Outcome::Lost).count();
    let gates = Gates::of(&setup.shaper.taprio().expect("taprio").schedule, 1);
    let outside = |row: &usize| {
        gates.nearest(batch.scheduled_ns[*row]).is_none_or(|w| w.outside_ns(batch.scheduled_ns[*row]) != 0)
    };
    let outside: Vec<usize> = (0..batch.len()).filter(outside).collect();
    assert_eq!(outside.len(), 500);
    let on_the_path = [1, 401, 402].into_iter().filter(|row| !outside.contains(row)).count();
    assert_eq!(lost(&batch), 500 + on_the_path);
    let drops = trial.shaper.drops();
    assert!((500..=520).contains(&drops), "the lead-in's too: {drops}");
    // Counters that account for fewer are no evidence.
    assert_eq!(unreported(&mut batch.clone(), &mut record.clone(), 499), 0);
    assert_eq!(unreported(&mut batch, &mut record, drops), 500);
    assert_eq!((lost(&batch), record.counters.qdisc_dropped), (on_the_path, 500));
    for row in outside {
        assert_eq!(batch.outcome[row], Outcome::NotSent);
        assert!(batch.flags[row].has(Flags::QDISC_DROPPED));
    }
}

#[test]
fn with_txtime_assist_own_launch_times_and_given_ones_are_kept() {
    let own = trial(&experiment(&format!("{R1}{ASSIST}"), "launch = \"strict\"\ntx.advance = \"400us\""));
    assert!((0..own.batch.len()).all(|row| own.batch.offset(row, Point::TxKernel) == Some(-200_000)));
    assert_eq!((own.gates().inside, own.gates().keeper.as_str()), (1_000, "txtime-assist"));
    assert_eq!(own.gates().slips_stream_cycles, [(0, 1_000)].into());
    let etf = own.record.shapers["a"].qdiscs.iter().find(|qdisc| qdisc.kind == "etf").expect("below taprio");
    assert_eq!((etf.class, etf.parent.as_deref(), etf.drops), (Some(1), Some("100:2"), 0));
    // Given at the earliest 400 µs after they were enqueued, launch times fall into the next
    // window.
    let given = trial(&experiment(&format!("{R1}{ASSIST}"), "launch = \"none\""));
    let gates = Gates::of(&given.shaper.taprio().expect("taprio").schedule, 1);
    for row in 0..given.batch.len() {
        let enqueued = given.batch.stamp_ns(row, Point::TxSched).expect("a stamp");
        let launch = gates.next_open(enqueued + 400_000, frame_time(92, false, 1_000_000_000).0).expect("it opens");
        assert_eq!(given.batch.stamp_ns(row, Point::TxKernel), Some(launch - 200_000), "packet {row}");
    }
    assert_eq!((given.gates().inside, given.gates().judged), (1_000, 1_000));
    assert_eq!(given.gates().slips_stream_cycles, [(1, 1_000)].into(), "one window later than it was due");
    let verdict = given.verdict("gates").expect("told");
    assert_eq!(
        (given.gates().slipped, verdict.level),
        (None, Level::Ok),
        "txtime_delay asks for that: {}",
        verdict.says
    );
    assert!(
        verdict.says.starts_with("1000 of 1000 packets of ctl came") && verdict.says.contains("slipped by"),
        "{}",
        verdict.says
    );
}

#[test]
fn a_deadline_is_a_time_by_which_packets_have_left() {
    let shaper = format!("{ETF}etf.deadline_mode = true\n");
    let found = trial(&experiment(&shaper, "launch = \"deadline\"\ntx.advance = \"400us\""));
    // They go out at once: 10 µs of the timer, 300 ns to the driver.
    assert!((0..1_000).all(|row| found.batch.offset(row, Point::TxKernel) == Some(-400_000 + 10_000 + 300)));
    assert_eq!((found.gates().keeper.as_str(), found.gates().inside), ("etf-deadline", 1_000));
}

#[test]
fn without_a_shaper_launch_times_hold_nothing_and_that_is_said() {
    let found = trial(&experiment("", "launch = \"strict\"\ntx.advance = \"100us\""));
    assert!((0..1_000).all(|row| found.batch.offset(row, Point::TxKernel) == Some(-100_000 + 10_000 + 300)));
    let told = found.verdict("launch-ignored").expect("told");
    assert_eq!(told.level, Level::Note);
    assert!(told.says.contains("noqueue on sim does not look at them"), "{}", told.says);
    assert!(found.stream().gates.is_none());
    assert_eq!(trial(&experiment("", "")).verdict("launch-ignored"), None);
}

#[test]
fn the_tai_offset_moves_no_departure() {
    let with = |seconds: i64| {
        let stream =
            format!("launch = \"strict\"\nsim.late_share = 0.1\nsim.late = \"150us\"\nsim.tai_offset_s = {seconds}");
        trial(&experiment(R1, &stream))
    };
    let (none, usual) = (with(0), with(37));
    assert_eq!(none.gates(), usual.gates());
    assert_eq!(none.batch, usual.batch);
}
