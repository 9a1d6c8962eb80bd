// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads in results and verdicts: what is added up, and each fault of a load makes the rule `load`
//! speak, and no other.

use super::fixture::{LEAD, batches, healthy_packets, record};
use std::collections::BTreeMap;
use tardy_analyze::cell::{CellAnalysis, CellAnswer};
use tardy_model::load::{
    Broke, ExitRecord, InstanceRecord, Lead, LoadKind, LoadRecord, Rate, Series, SideHosts, SideRecord,
};
use tardy_model::machine::{Ended, EndedTasks, TaskTime};
use tardy_model::placement::ThreadRecord;
use tardy_model::port::TcpRecord;
use tardy_model::result::{ExpectationResult, TrialResult};
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::Level;

const COUNT: u32 = 2_000;

fn judge(records: &[TrialRecord]) -> (Vec<TrialResult>, CellAnswer) {
    let asked = BTreeMap::from([("ctl".to_owned(), vec![LEAD])]);
    let mut cell = CellAnalysis::new("all", BTreeMap::new(), asked, Vec::new());
    let mut trials = Vec::new();
    for record in records {
        let packets = healthy_packets(u64::from(record.n), COUNT as usize);
        let rows = batches(&packets, 4_096);
        trials.push(cell.trial(record, rows.into_iter().map(|batch| ("ctl", batch))).result);
    }
    (trials, cell.finish())
}

fn thread(tid: u32) -> ThreadRecord {
    ThreadRecord {
        tid,
        policy_asked: "other".into(),
        policy_granted: "other".into(),
        cpu_asked: Some(1),
        affinity: vec![1],
        cpus_seen: vec![1],
        memory_locked: true,
        ..ThreadRecord::default()
    }
}

/// A second of 80 Mbit/s from `from` to `to`.
fn instance() -> InstanceRecord {
    let series = Series { every_ns: 100_000_000, first_ns: 0, bytes: vec![1_000_000; 10] };
    let tcp = Some(TcpRecord { retransmits: 2, timeouts: Some(1), mss: 1_448, ..TcpRecord::default() });
    let side = |tid| SideRecord {
        thread: thread(tid),
        began_ns: Some(0),
        ended_ns: 1_000_000_000,
        tcp,
        series: series.clone(),
        ..SideRecord::default()
    };
    let from = SideRecord { sent_bytes: 10_000_000, sends: 1_000, ..side(201) };
    let to = SideRecord { received_bytes: 10_000_000, receives: 500, ..side(202) };
    InstanceRecord { from, to: Some(to) }
}

fn load(kind: LoadKind, instances: Vec<InstanceRecord>) -> LoadRecord {
    LoadRecord { kind, shortfall: 0.05, start_ns: 0, stop_ns: None, instances, hosts: SideHosts::default() }
}

fn stream() -> LoadKind {
    LoadKind::TcpStream { size: 10_000, rate: Some(80_000_000) }
}

fn with(n: u32, load: LoadRecord) -> TrialRecord {
    TrialRecord { loads: BTreeMap::from([("bulk".to_owned(), load)]), ..record(n, COUNT) }
}

#[test]
fn instances_and_trials_are_added_up() {
    let (trials, cell) = judge(&[
        with(1, load(stream(), vec![instance(), instance()])),
        with(2, load(stream(), vec![instance(), instance()])),
    ]);
    assert!(trials.iter().all(|trial| trial.valid && trial.verdicts.is_empty()), "{:?}", trials[0].verdicts);
    let trial = &trials[0].loads["bulk"];
    assert_eq!((trial.bytes, trial.sends, trial.receives), (20_000_000, Some(2_000), Some(1_000)));
    assert_eq!((trial.achieved_bit_s, trial.asked_bit_s), (160e6, Some(160_000_000)));
    assert_eq!((trial.bytes_a_send, trial.bytes_a_receive), (Some(10_000.0), Some(20_000.0)));
    assert_eq!((trial.retransmits, trial.timeouts, trial.lost), (Some(8), Some(4), None));
    assert_eq!(trial.series.as_ref().map(|series| series.bytes[3]), Some(2_000_000));
    assert_eq!(trial.instances.iter().map(|one| one.bytes).collect::<Vec<_>>(), [10_000_000; 2]);
    let pooled = &cell.result.loads["bulk"];
    assert_eq!((pooled.bytes, pooled.achieved_bit_s, pooled.span_ns), (40_000_000, 160e6, 2_000_000_000));
    assert!(pooled.series.is_none(), "two trials have no time in common");
    let rows: Vec<&str> = cell.result.placement.iter().map(|row| row.thread.as_str()).collect();
    assert_eq!(rows, ["bulk.from", "bulk.to", "ctl.rx", "ctl.tx"]);
}

#[test]
fn what_was_sent_and_did_not_arrive_is_lost() {
    let mut one = instance();
    one.to.as_mut().expect("a peer").receives = 990;
    let kind = LoadKind::UdpFlood { size: 10_000, rate: Some(Rate::Packets(1_000)) };
    let (trials, _) = judge(&[with(1, load(kind, vec![one]))]);
    assert_eq!(trials[0].loads["bulk"].lost, Some(10));
    assert!(trials[0].valid, "the path's loss is a finding, not a fault of the load");
}

#[test]
fn bytes_that_arrive_behind_the_senders_end_take_their_time() {
    let mut one = instance();
    one.to.as_mut().expect("a peer").ended_ns = 1_250_000_000;
    let (trials, _) = judge(&[with(1, load(LoadKind::TcpStream { size: 10_000, rate: None }, vec![one]))]);
    let bulk = &trials[0].loads["bulk"];
    assert_eq!((bulk.achieved_bit_s, bulk.sent_bit_s), (64e6, Some(80e6)));
}

#[test]
fn what_a_load_did_before_the_trial_is_no_figure_of_it() {
    let mut early = instance();
    let lead = Lead { at_ns: 40, sent_bytes: 4_000_000, sends: 400, ..Lead::default() };
    (early.from.began_ns, early.from.lead) = (Some(-300_000_000), Some(lead));
    let to = early.to.as_mut().unwrap();
    (to.began_ns, to.lead) =
        (Some(-300_000_000), Some(Lead { received_bytes: 3_990_000, receives: 200, ..Lead::default() }));
    let (trials, _) = judge(&[with(1, load(LoadKind::TcpStream { size: 10_000, rate: None }, vec![early]))]);
    let trial = &trials[0].loads["bulk"];
    assert_eq!((trial.bytes, trial.sent_bytes), (6_010_000, Some(6_000_000)));
    assert_eq!((trial.sends, trial.receives), (Some(600), Some(300)));
    assert_eq!((trial.span_ns, trial.achieved_bit_s), (1_000_000_000, 48_080_000.0), "a second from the base time on");
}

#[test]
fn a_load_that_was_over_before_the_trial_keeps_its_figures() {
    let mut over = instance();
    (over.from.began_ns, over.from.ended_ns) = (Some(-1_000_000_000), -1);
    let (trials, _) = judge(&[with(1, load(LoadKind::TcpStream { size: 10_000, rate: None }, vec![over]))]);
    assert_eq!(trials[0].loads["bulk"].bytes, 10_000_000);
}

#[test]
fn what_is_on_its_way_as_the_trial_begins_is_not_lost() {
    let mut flood = instance();
    flood.from.sends = 500;
    (flood.from.began_ns, flood.from.lead) = (Some(-1), Some(Lead { sends: 100, ..Lead::default() }));
    flood.to.as_mut().unwrap().lead = Some(Lead { receives: 90, ..Lead::default() });
    let kind = LoadKind::UdpFlood { size: 20_000, rate: Some(Rate::Packets(500)) };
    let (trials, _) = judge(&[with(1, load(kind, vec![flood]))]);
    assert_eq!((trials[0].loads["bulk"].lost, trials[0].loads["bulk"].receives), (Some(0), Some(410)));
}

#[test]
fn maerts_is_counted_where_it_arrives() {
    let mut one = instance();
    let to = one.to.as_mut().expect("a peer");
    std::mem::swap(&mut one.from, to);
    let (trials, _) = judge(&[with(1, load(LoadKind::TcpMaerts { size: 10_000 }, vec![one]))]);
    let bulk = &trials[0].loads["bulk"];
    assert_eq!((bulk.bytes, bulk.sends, bulk.receives), (10_000_000, Some(1_000), Some(500)));
}

#[test]
fn a_trial_without_loads_of_an_older_run_reads() {
    let mut value = serde_json::to_value(record(1, COUNT)).expect("JSON");
    value.as_object_mut().expect("a record").remove("loads");
    let read: TrialRecord = serde_json::from_value(value).expect("it reads");
    assert!(read.loads.is_empty());
}

/// The one verdict of a trial whose load has this fault.
#[track_caller]
fn fault(kind: LoadKind, spoil: impl FnOnce(&mut InstanceRecord), says: &str) {
    let mut one = instance();
    spoil(&mut one);
    let (trials, cell) = judge(&[with(1, load(kind, vec![instance(), one]))]);
    let ids: Vec<&str> = trials[0].verdicts.iter().map(|verdict| verdict.id.as_str()).collect();
    assert_eq!(ids, ["load"], "{says}");
    let verdict = &trials[0].verdicts[0];
    assert_eq!((verdict.level, trials[0].valid, cell.result.valid), (Level::Invalid, false, false));
    assert!(verdict.says.contains(says) && verdict.says.contains("instance 2"), "{}", verdict.says);
    assert!(verdict.evidence.len() > 4, "{:?}", verdict.evidence);
}

#[test]
fn a_connection_that_broke() {
    let broke = Broke { what: "send".into(), errno: 104, at_ns: 250_000_000 };
    fault(
        stream(),
        |one| one.from.broke = Some(broke),
        "broke at `from` 0.250 s after the base time: send with errno 104 (the connection was reset)",
    );
}

#[test]
fn a_rate_that_was_not_reached() {
    fault(stream(), |one| one.from.sent_bytes = 9_480_000, "sent 75.8 Mbit/s of the 80.0 Mbit/s that were asked for");
    let mut enough = instance();
    enough.from.sent_bytes = 9_500_000;
    let (trials, _) = judge(&[with(1, load(stream(), vec![enough]))]);
    assert!(trials[0].valid, "5 % below is allowed: {:?}", trials[0].verdicts);
}

#[test]
fn a_share_of_the_cpu_that_was_not_had() {
    let cpu = || LoadKind::Cpu { duty: 0.5, period: Nanos::from_millis(10) };
    let mut one = instance();
    (one.to, one.from.busy_ns) = (None, Some(480_000_000));
    let good = one.clone();
    let (trials, _) = judge(&[with(1, load(cpu(), vec![good.clone()]))]);
    assert!(trials[0].valid, "{:?}", trials[0].verdicts);
    assert_eq!((trials[0].loads["bulk"].duty, trials[0].loads["bulk"].sends), (Some(0.48), None));
    one.from.busy_ns = Some(400_000_000);
    let (trials, _) = judge(&[with(1, load(cpu(), vec![good, one]))]);
    assert_eq!(trials[0].verdicts[0].id, "load");
    assert!(trials[0].verdicts[0].says.contains("computed for 40.0 % of the time, 50.0 % were asked for"));
}

#[test]
fn the_share_of_a_cpu_is_of_the_same_time_as_the_computing() {
    // It computes from 300 ms before the base time on: 650 of 1 300 ms are the half that was asked
    // for.
    let early = |n: u32| {
        let mut one = instance();
        (one.to, one.from.busy_ns) = (None, Some(650_000_000));
        (one.from.began_ns, one.from.lead) = (Some(-300_000_000), Some(Lead::default()));
        let kind = LoadKind::Cpu { duty: 0.5, period: Nanos::from_millis(10) };
        with(n, load(kind, vec![one.clone(), one]))
    };
    let (trials, cell) = judge(&[early(1), early(2)]);
    let trial = &trials[0].loads["bulk"];
    assert_eq!((trial.duty, trial.span_ns), (Some(0.5), 1_000_000_000));
    assert_eq!(trial.instances.iter().map(|one| one.duty).collect::<Vec<_>>(), [Some(0.5); 2]);
    assert_eq!(cell.result.loads["bulk"].duty, Some(0.5));
}

#[test]
fn a_load_that_never_began() {
    fault(
        stream(),
        |one| one.from.began_ns = None,
        "never began: the trial ended before its start, 0.000 s after the base time",
    );
}

#[test]
fn traffic_of_which_nothing_arrives() {
    let lost = |one: &mut InstanceRecord| {
        let to = one.to.as_mut().expect("a peer");
        (to.received_bytes, to.receives) = (0, 0);
    };
    let says = "moved nothing: none of the 10000000 bytes that it sent arrived";
    fault(LoadKind::TcpStream { size: 10_000, rate: None }, lost, says);
    fault(LoadKind::UdpFlood { size: 10_000, rate: None }, lost, says);
}

#[test]
fn a_rate_that_a_socket_swallowed_was_not_achieved() {
    let half = |one: &mut InstanceRecord| one.to.as_mut().expect("a peer").received_bytes = 5_000_000;
    fault(stream(), half, "sent 40.0 Mbit/s of the 80.0 Mbit/s that were asked for");
}

#[test]
fn a_place_that_was_not_given() {
    fault(stream(), |one| one.from.thread.policy_granted = "fifo:1".into(), "asked for policy other and has fifo:1");
    fault(stream(), |one| one.from.thread.affinity = vec![0, 1], "asked for CPU 1 and may run on CPU 0 and 1");
}

#[test]
fn a_program_that_ended_before_its_stop() {
    let command = || LoadKind::Command { command: vec!["x".into()], peer_command: vec!["y".into()] };
    let exit = |code, stopped| ExitRecord {
        pid: 300,
        start: 90,
        code: Some(code),
        stopped,
        last_lines: vec!["unable to connect".into()],
        ..ExitRecord::default()
    };
    let good = || {
        let mut one = instance();
        one.from.exit = Some(exit(0, true));
        let to = one.to.as_mut().expect("a peer");
        (to.exit, to.ended_ns) = (Some(exit(1, false)), 1_100_000_000);
        one
    };
    let (trials, cell) = judge(&[with(1, load(command(), vec![good()]))]);
    assert!(trials[0].valid, "the one at `to` may end when its caller was stopped: {:?}", trials[0].verdicts);
    let exits = &cell.result.loads["bulk"].exits;
    assert_eq!(exits, &["from: exit code 0, stopped at its end", "to: exit code 1, before its stop"]);
    let spoilt = |spoil: &dyn Fn(&mut InstanceRecord)| {
        let mut one = good();
        spoil(&mut one);
        judge(&[with(1, load(command(), vec![one]))]).0.remove(0)
    };
    let early = spoilt(&|one| one.from.exit = Some(exit(1, false)));
    let says = "ended by itself at `from` 1.000 s after the base time, before its stop, with exit code 1; its last line: \
                unable to connect";
    assert!(early.verdicts[0].says.contains(says), "{}", early.verdicts[0].says);
    let server = spoilt(&|one| one.to.as_mut().expect("a peer").ended_ns = 500_000_000);
    assert!(server.verdicts[0].says.contains("ended by itself at `to` 0.500 s"), "{}", server.verdicts[0].says);
}

/// With a load that never got the CPU and without it the figures were equal, and the run was valid
/// without a word.
#[test]
fn a_load_that_waited_for_the_measuring_threads_seemed_to_do_nothing() {
    let starved = |kind: LoadKind, wait_ns: i64, ran_ns: i64| {
        let mut one = instance();
        one.from.thread.wait_ns = Some(wait_ns);
        let mut record = with(1, load(kind, vec![one]));
        record.streams.get_mut("ctl").expect("the stream").rx.run_ns = Some(ran_ns);
        judge(&[record]).0.remove(0)
    };
    let free = || LoadKind::TcpStream { size: 10_000, rate: None };
    let found = starved(free(), 767_000_000, 700_000_000);
    let [verdict] = &found.verdicts[..] else { panic!("{:?}", found.verdicts) };
    assert_eq!((verdict.id.as_str(), verdict.level, found.valid), ("starved-load", Level::Warning, true));
    let says = "load bulk (tcp_stream) waited at `from` for 76.7 % of its time for a CPU that ctl.rx (fifo:80) had: it disturbed less \
                than it could; give it or them another CPU, or the threads policy other";
    assert_eq!(verdict.says, says);
    // Threads that have policy other already were advised to take it.
    let mut one = instance();
    one.from.thread.wait_ns = Some(767_000_000);
    let mut record = with(1, load(free(), vec![one]));
    let rx = &mut record.streams.get_mut("ctl").expect("the stream").rx;
    rx.run_ns = Some(700_000_000);
    (rx.policy_asked, rx.policy_granted) = ("other".into(), "other".into());
    let says = judge(&[record]).0.remove(0).verdicts[0].says.clone();
    assert!(
        says.ends_with("that ctl.rx (other) had: it disturbed less than it could; give it or them another CPU"),
        "{says}"
    );
    // Half of the time is enough; others' doing, and a load that reaches what it is asked for, are
    // not it.
    assert_eq!(starved(free(), 500_000_000, 250_000_000).verdicts.len(), 1);
    for (kind, wait_ns, ran_ns) in
        [(free(), 499_000_000, 700_000_000), (free(), 767_000_000, 100_000_000), (stream(), 767_000_000, 700_000_000)]
    {
        let found = starved(kind, wait_ns, ran_ns);
        assert!(found.verdicts.iter().all(|verdict| verdict.id != "starved-load"), "{:?}", found.verdicts);
    }
}

#[test]
fn a_load_does_not_compete_with_what_it_is_to_disturb() {
    // CPU 1 is busy all the time: with the load, then with somebody else.
    let busy = |record: &mut TrialRecord, tid: u32, name: &str| {
        let elapsed = record.after.clocks.monotonic_ns - record.before.clocks.monotonic_ns;
        let before = record.before.cpus[&1];
        let cpu = record.after.cpus.get_mut(&1).expect("CPU 1");
        (cpu.busy_ns, cpu.idle_ns) = (before.busy_ns + elapsed, before.idle_ns);
        let task = TaskTime { name: name.into(), start: 80, cpu: 1, run_ns: elapsed / 2, realtime: false };
        record.after.tasks.insert(tid, task);
    };
    let ids = |trial: &TrialResult| -> Vec<String> { trial.verdicts.iter().map(|v| v.id.clone()).collect() };
    let mut ours = with(1, load(stream(), vec![instance()]));
    busy(&mut ours, 202, "tardy-load0.0");
    assert_eq!(ids(&judge(&[ours]).0[0]), Vec::<String>::new());
    let mut programs = with(1, load(stream(), vec![instance()]));
    busy(&mut programs, 300, "stress");
    programs.after.load_tasks.insert(300);
    assert_eq!(ids(&judge(&[programs]).0[0]), Vec::<String>::new());
    // A virtual machine of the run's own is a part of the path. It was blamed as somebody else's.
    let mut machine = with(1, load(stream(), vec![instance()]));
    busy(&mut machine, 400, "qemu-system-x86");
    machine.after.machine_tasks.insert(400);
    assert_eq!(ids(&judge(&[machine]).0[0]), Vec::<String>::new());
    let mut theirs = with(1, load(stream(), vec![instance()]));
    busy(&mut theirs, 999, "stranger");
    let (trials, _) = judge(&[theirs]);
    assert_eq!(ids(&trials[0]), ["competing-cpu"]);
    assert!(trials[0].verdicts[0].says.contains("stranger"), "{}", trials[0].verdicts[0].says);
}

#[test]
fn threads_of_a_machine_that_had_moved_on_were_somebody_elses_without_a_name() {
    // CPU 1 is busy half of the time, and no load is there whose tasks have names.
    let busy = |cpu_of_machine: u32| {
        let mut record = record(1, COUNT);
        let elapsed = record.after.clocks.monotonic_ns - record.before.clocks.monotonic_ns;
        let before = record.before.cpus[&1];
        let cpu = record.after.cpus.get_mut(&1).expect("CPU 1");
        (cpu.busy_ns, cpu.idle_ns) = (before.busy_ns + elapsed / 2, before.idle_ns + elapsed / 2);
        let name = "qemu-system-x86".to_owned();
        let task = TaskTime { name, start: 80, cpu: cpu_of_machine, run_ns: elapsed / 2, realtime: false };
        record.after.tasks.insert(400, task);
        record.after.machine_tasks.insert(400);
        // What a CPU did is known of one that took in packets.
        for state in [&mut record.before, &mut record.after] {
            state.work.entry(1).or_default();
        }
        record
    };
    let others = |record: &TrialRecord| {
        let (_, cell) = judge(std::slice::from_ref(record));
        cell.result.cpus.iter().find(|cpu| cpu.cpu == 1).and_then(|cpu| cpu.others_ns).expect("CPU 1 is known")
    };
    // The kernel says on which CPU a thread was last, and not where it ran.
    assert_eq!((others(&busy(1)), others(&busy(0))), (0, 0));
    let mut theirs = busy(0);
    let ran = theirs.after.clocks.monotonic_ns - theirs.before.clocks.monotonic_ns;
    let hog = TaskTime { name: "stranger".into(), start: 80, cpu: 1, run_ns: ran / 4, realtime: false };
    theirs.after.tasks.insert(999, hog);
    assert_eq!(others(&theirs), ran / 4, "a task that stayed on the CPU is still seen");
    // What the machine ran elsewhere explains no wait here: it had at most the rest of this CPU.
    theirs.streams.get_mut("ctl").expect("the stream").rx.wait_ns = Some(ran / 4);
    let verdicts = &judge(std::slice::from_ref(&theirs)).0[0].verdicts;
    let found = verdicts.iter().find(|verdict| verdict.id == "competing-cpu").expect("a verdict");
    assert_eq!(found.level, Level::Warning, "{}", found.says);
    // Nor is one seen less if it ended before the second reading.
    theirs.after.tasks.remove(&999);
    let ended = EndedTasks { name: "stranger".into(), cpu: 1, count: 9, run_ns: ran / 4 };
    theirs.after.ended = Some(Ended { tasks: vec![ended], incomplete: false });
    assert_eq!(others(&theirs), ran / 4);
}

#[test]
fn a_limit_on_a_time_of_an_emulated_processor_was_kept_or_broken() {
    let result = |metric: &str, limit_ns: Option<i64>| ExpectationResult {
        cell: "all".into(),
        stream: "ctl".into(),
        metric: metric.into(),
        of: "p99".into(),
        limit_ns,
        got_ns: limit_ns,
        limit: limit_ns.is_none().then_some(0),
        got: limit_ns.is_none().then_some(0),
        met: Some(true),
        why: None,
    };
    for (metric, limit_ns, is_open) in
        [("send..reply_receive", Some(1_000_000), true), ("late", None, true), ("lost", None, false)]
    {
        let mut judged = result(metric, limit_ns);
        tardy_analyze::expectations::leave_open_in_emulation(&mut judged, "vm");
        assert_eq!((judged.met.is_none(), judged.why.is_some()), (is_open, is_open), "{metric}");
    }
}
