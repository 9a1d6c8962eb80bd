// SPDX-License-Identifier: MIT OR Apache-2.0
//! One departure at a time: inside or how far outside, and by how many cycles it slipped.

use super::{MQPRIO, setup};
use crate::analyze::fixture;
use tardy_analyze::cell::CellAnalysis;
use tardy_analyze::gates::{Departure, GatePass};
use tardy_lab::shaper::launching;
use tardy_lab::shaper::tc::record;
use tardy_model::gates::{Gates, Window};
use tardy_model::point::Point;
use tardy_model::qdisc::{GateRecord, Keeper, LaunchRecord, ShaperRecord};
use tardy_model::sample::{MaybeNanos, Outcome};
use tardy_model::stream::Launch;
use tardy_model::trial::{StreamRecord, TrialRecord};
use tardy_model::verdict::{Figure, Level, Verdict};

fn window(open_ns: i64, close_ns: i64) -> Window {
    Window { open_ns, close_ns }
}

/// A stream of 500 µs whose class is open from 200 to 300 and from 700 to 800 µs of each
/// millisecond.
fn stream(keeper: Keeper, delta_ns: i64, assigned_after_ns: Option<i64>) -> StreamRecord {
    let mut record = fixture::record(1, 10).streams.remove("ctl").expect("a stream");
    record.tx_conversion.bound_ns = 0;
    let gates =
        Gates { cycle_ns: 1_000_000, offset_ns: 0, windows: vec![window(200_000, 300_000), window(700_000, 800_000)] };
    record.launching.gate = Some(GateRecord {
        keeper,
        class: Some(1),
        gates: matches!(keeper, Keeper::Taprio | Keeper::TxtimeAssist | Keeper::Device).then_some(gates),
        delta_ns,
        tolerance_ns: 50_000,
        assigned_after_ns,
        entries: None,
        frame_ns: 0,
    });
    record
}

fn found(outside_ns: i64, slip_ns: i64) -> Option<Departure> {
    Some(Departure { outside_ns, slip_ns })
}

#[test]
fn taprio_lets_go_inside_a_window_or_so_far_outside() {
    let pass = GatePass::new(&stream(Keeper::Taprio, 0, None)).expect("it is judged");
    let due = 5_210_000;
    assert_eq!(pass.judge(due, None, 5_215_000), found(0, 0));
    assert_eq!(pass.judge(due, None, 5_199_000), found(-1_000, 0));
    assert_eq!(pass.judge(due, None, 5_302_999), found(3_000, 0));
    assert_eq!(pass.judge(due, None, 5_750_000), found(0, 500_000), "one cycle of the stream, none of the gates");
    assert_eq!(pass.judge(due, None, 6_210_000), found(0, 1_000_000), "one cycle of the gates, two of the stream");
    // Due while the gate is closed it belongs to the next window.
    assert_eq!(pass.judge(5_400_000, None, 5_700_000), found(0, 0));
}

#[test]
fn etf_lets_go_its_delta_before_the_launch_time_within_the_tolerance() {
    let pass = GatePass::new(&stream(Keeper::Etf, 200_000, None)).expect("it is judged");
    assert_eq!(pass.judge(5_000_000, None, 4_800_000), found(0, 0));
    assert_eq!(pass.judge(5_000_000, None, 4_850_000), found(0, 0));
    assert_eq!(pass.judge(5_000_000, None, 4_850_001), found(1, 0));
    assert_eq!(pass.judge(5_000_000, None, 4_799_999), found(-1, 0));
    assert_eq!(pass.judge(5_000_000, None, 5_810_000), found(960_000, 1_000_000), "two cycles of the stream");
    let deadline = GatePass::new(&stream(Keeper::EtfDeadline, 200_000, None)).expect("it is judged");
    assert_eq!(deadline.judge(5_000_000, None, 4_300_000), found(0, 0));
    assert_eq!(deadline.judge(5_000_000, None, 5_000_001), found(1, 0));
}

#[test]
fn a_launch_time_that_taprio_gives_is_the_first_that_fits() {
    let given = GatePass::new(&stream(Keeper::TxtimeAssist, 150_000, Some(400_000))).expect("it is judged");
    // Enqueued at 5 210: from 5 610 on, so in the window that opens at 5 700, and handed over 150
    // µs before.
    assert_eq!(given.judge(5_210_000, Some(5_210_000), 5_550_000), found(0, 500_000));
    assert_eq!(given.judge(5_210_000, Some(5_210_000), 5_540_000), found(-10_000, 500_000));
    assert_eq!(given.judge(5_210_000, None, 5_550_000), None, "without that stamp nothing is known");
    let own = GatePass::new(&stream(Keeper::TxtimeAssist, 150_000, None)).expect("it is judged");
    assert_eq!(own.judge(5_210_000, None, 5_065_000), found(0, 0));
    assert!(
        GatePass::new(&stream(Keeper::Device, 0, None)).is_none(),
        "software stamps do not tell what a device holds"
    );
}

#[test]
fn a_given_launch_time_leaves_room_for_the_frame_and_the_packets_before() {
    let mut record = stream(Keeper::TxtimeAssist, 150_000, Some(400_000));
    let gate = record.launching.gate.as_mut().expect("a gate");
    (gate.frame_ns, gate.tolerance_ns) = (12_000, 1_000);
    let given = GatePass::new(&record).expect("it is judged");
    // From 5 795 on: 5 µs are left of the window, and the frame takes 12. It gets the next one,
    // and is no gap too late.
    assert_eq!(given.judge(5_210_000, Some(5_395_000), 6_050_000), found(0, 1_000_000));
    assert_eq!(given.judge(5_210_000, Some(5_388_000), 5_638_000), found(0, 500_000), "12 are just enough");
    // Three packets in one burst, enqueued together 500 µs before a window: each has the wire
    // behind the one before.
    let mut pass = GatePass::new(&record).expect("it is judged");
    let leaves = [550_000, 562_000, 574_000];
    let packets = leaves.map(|at| fixture::received(at + 400));
    let mut batch = fixture::batch(0, &packets);
    batch.scheduled_ns = vec![fixture::BASE_NS; 3];
    batch.offsets[Point::TxSched.index()] = Some(vec![MaybeNanos::from(Some(210_000)); 3]);
    pass.push(&batch);
    let result = pass.finish();
    assert_eq!((result.judged, result.inside), (3, 3), "{result:?}");
    // The middle one was dropped behind taprio: its place stays its own.
    let mut pass = GatePass::new(&record).expect("it is judged");
    batch.outcome[1] = Outcome::NotSent;
    pass.push(&batch);
    let result = pass.finish();
    assert_eq!((result.judged, result.inside, result.not_sent), (2, 2, 1));
}

#[test]
fn below_txtime_assist_a_deadline_is_one_and_an_offload_is_the_devices() {
    let mut record = stream(Keeper::TxtimeAssist, 150_000, Some(400_000));
    record.launching.gate.as_mut().expect("a gate").keeper = Keeper::EtfDeadline;
    let pass = GatePass::new(&record).expect("it is judged");
    // The launch time is 5 700: at once is in time, and so is everything until then.
    assert_eq!(pass.judge(5_210_000, Some(5_210_000), 5_211_000), found(0, 0));
    assert_eq!(pass.judge(5_210_000, Some(5_210_000), 5_700_000), found(0, 0));
    assert_eq!(pass.judge(5_210_000, Some(5_210_000), 5_700_001), found(1, 0));
}

#[test]
fn a_slip_of_nearly_a_cycle_of_the_stream_is_not_rounded_away() {
    let mut record = stream(Keeper::Taprio, 0, None);
    let gates = record.launching.gate.as_mut().and_then(|gate| gate.gates.as_mut()).expect("gates");
    gates.windows[1] = window(750_000, 800_000);
    let mut pass = GatePass::new(&record).expect("it is judged");
    // Due at 0, in time at 200. Due at 500 for the window at 750, gone at 1 200: 450 µs. Due at 1
    // 000 for 1 200, gone at 1 750: 550 µs.
    let packets = [200_000, 700_000, 750_000].map(|at| fixture::received(at + 400));
    pass.push(&fixture::batch(0, &packets));
    let result = pass.finish();
    assert_eq!(result.inside, 3);
    assert_eq!(result.slips_stream_cycles, [(0, 1), (1, 2)].into());
    assert_eq!(result.slips_gate_cycles, [(0, 3)].into(), "no whole cycle of the gates passed");
}

/// What a cell says of gates over one trial of these packets.
fn reported(packets: &[fixture::Packet], spoil: impl FnOnce(&mut StreamRecord)) -> Verdict {
    let mut record = fixture::record(1, packets.len() as u32);
    let ctl = record.streams.get_mut("ctl").expect("a stream");
    ctl.launching.gate = stream(Keeper::Etf, 200_000, None).launching.gate;
    spoil(ctl);
    let mut cell = CellAnalysis::new("all", [].into(), [("ctl".to_owned(), vec![fixture::LEAD])].into(), Vec::new());
    cell.trial(&record, [("ctl", fixture::batch(0, packets))]);
    let found = cell.finish().result.verdicts.into_iter().find(|verdict| verdict.id == "gates");
    found.expect("it is reported")
}

#[test]
fn packets_that_never_left_or_have_no_stamp_are_told_and_not_taken_for_inside() {
    let good = fixture::received(-200_000 + 400);
    let unstamped = fixture::Packet { tx_kernel: None, ..good };
    let with = |n: usize, of: fixture::Packet, rest: usize| {
        let mut packets = vec![good; n];
        packets.extend(vec![of; rest]);
        packets
    };
    let all = reported(&with(1_000, good, 0), |_| ());
    assert!(all.level == Level::Ok && all.says.starts_with("1000 of 1000 packets of ctl "), "{}", all.says);
    assert!(!all.says.contains("not_sent") && !all.says.contains("judged"), "{}", all.says);
    let dropped = reported(&with(100, fixture::not_sent(), 900), |_| ());
    assert_eq!(dropped.level, Level::Note, "nine of ten never left: that is not ok");
    assert!(
        dropped.says.contains("100 of 100 packets") && dropped.says.contains("900 more are not_sent"),
        "{}",
        dropped.says
    );
    let blind = reported(&with(900, unstamped, 100), |_| ());
    assert_eq!(blind.level, Level::Warning);
    assert!(
        blind.says.starts_with("900 of 1000 packets") && blind.says.contains("100 have no tx_kernel stamp"),
        "{}",
        blind.says
    );
    let none = reported(&with(0, unstamped, 50), |ctl| _ = ctl.sources.remove(&Point::TxKernel));
    assert_eq!(none.level, Level::Warning);
    assert!(none.says.contains("cannot be judged: none of 50 packets has a tx_kernel stamp"), "{}", none.says);
    let nothing = reported(&with(0, fixture::not_sent(), 50), |_| ());
    assert!(nothing.says.contains("cannot be judged: all its 50 packets are not_sent"), "{}", nothing.says);
}

#[test]
fn every_packet_in_the_window_after_its_own_was_told_as_all_inside_and_ok() {
    // Due at 210 and at 710 µs of each millisecond, by turns, and gone so much later.
    let verdict = |late: &[i64], keeper: Keeper, assigned_after_ns: Option<i64>| {
        let packets: Vec<_> = late.iter().map(|late| fixture::received(210_000 + late + 400)).collect();
        reported(&packets, |ctl| ctl.launching.gate = stream(keeper, 0, assigned_after_ns).launching.gate)
    };
    let own = |rest: &[i64]| {
        let mut late = vec![0; 1_000 - rest.len()];
        late.extend(rest);
        late
    };
    let all = verdict(&[1_000_000; 200], Keeper::Taprio, None);
    assert_eq!(all.level, Level::Warning);
    assert!(
        all.says.starts_with(
            "200 of 200 packets of ctl that left did so in another window than their own (100.0 %); 200 slipped by 1 cycle of the gates \
             (1000.0 µs each) late, which is 2 cycles of the stream (500.0 µs each) late; 200 of 200 packets of ctl came to the driver inside"
        ),
        "{}",
        all.says
    );
    assert_eq!(all.evidence.get("slipped"), Some(&Figure::Int(200)));
    let few = verdict(&own(&[500_000; 5]), Keeper::Taprio, None);
    assert!(
        few.level == Level::Ok && few.says.starts_with("1000 of 1000 packets") && few.says.contains("5 slipped by"),
        "{few:?}"
    );
    let more = verdict(&own(&[500_000; 6]), Keeper::Taprio, None);
    assert!(more.level == Level::Warning && more.says.starts_with("6 of 1000 packets"), "{more:?}");
    // Where taprio gives the launch time it is a later one by txtime_delay, here in the window
    // after the packet's own.
    let packets = vec![fixture::received(700_000 + 400); 200];
    let given = reported(&packets, |ctl| {
        ctl.launching.gate = stream(Keeper::TxtimeAssist, 0, Some(400_000)).launching.gate;
    });
    assert!(!given.says.contains("another window") && !given.evidence.contains_key("slipped"), "{given:?}");
}

#[test]
fn a_slow_stream_in_another_window_than_its_own_was_told_as_no_slip() {
    // 10 ms between packets: a whole cycle of the gates is a tenth of the stream's, which rounds
    // to none.
    let packets = vec![fixture::received(1_210_000 + 400); 200];
    let verdict = reported(&packets, |ctl| {
        ctl.launching.gate = stream(Keeper::Taprio, 0, None).launching.gate;
        ctl.cycle_ns = 10_000_000;
    });
    assert_eq!(verdict.level, Level::Warning);
    assert!(verdict.says.contains("200 slipped by 1 cycle of the gates (1000.0 µs each) late;"), "{}", verdict.says);
}

#[test]
fn slips_of_another_length_were_told_as_the_same_and_those_of_other_numbers_not_at_all() {
    let said = |packets: &[_], cycle_ns| {
        let verdict = reported(packets, |ctl| {
            ctl.launching.gate = stream(Keeper::Taprio, 0, None).launching.gate;
            ctl.cycle_ns = cycle_ns;
        });
        verdict.says
    };
    // Two cycles of the gates are two thirds of the stream's, which rounds to one: 2 ms are not 3
    // ms.
    let other = said(&vec![fixture::received(2_210_000 + 400); 200], 3_000_000);
    assert!(
        other.contains(
            "200 slipped by 2 cycles of the gates (1000.0 µs each) late; in cycles of its own 200 by 1 cycle"
        ),
        "{other}"
    );
    assert!(!other.contains("which is"), "{other}");
    let mut packets = vec![fixture::received(1_210_000 + 400); 197];
    packets.extend(vec![fixture::received(2_210_000 + 400); 3]);
    let some = said(&packets, 10_000_000);
    assert!(some.contains("197 slipped by 1 cycle of the gates (1000.0 µs each) late, 3 by others;"), "{some}");
}

#[test]
fn stamps_may_be_wrong_by_their_clocks_bound() {
    let mut record = stream(Keeper::Taprio, 0, None);
    record.tx_conversion.bound_ns = 300;
    let pass = GatePass::new(&record).expect("it is judged");
    assert_eq!(pass.judge(5_210_000, None, 5_199_700), found(0, 0));
    assert_eq!(pass.judge(5_210_000, None, 5_199_699), found(-301, 0));
}

#[test]
fn a_device_that_keeps_no_gates_gives_no_figure() {
    let packets = fixture::healthy_packets(1, 400);
    let judged = |driver: Option<&str>| {
        let mut record = fixture::record(1, 400);
        let gate = stream(Keeper::Device, 0, None).launching.gate;
        let ctl = record.streams.get_mut("ctl").expect("a stream");
        ctl.launching.gate = gate;
        let shaper = ShaperRecord {
            asked: "taprio".to_owned(),
            device: "eni1np1".to_owned(),
            driver: driver.map(str::to_owned),
            ..ShaperRecord::default()
        };
        record.shapers.insert(ctl.launching.station.clone(), shaper);
        let metrics = vec![fixture::LEAD];
        let mut cell = CellAnalysis::new("all", [].into(), [("ctl".to_owned(), metrics)].into(), Vec::new());
        cell.trial(&record, [("ctl", fixture::batch(0, &packets))]);
        cell.finish()
    };
    let simulated = judged(Some("netdevsim"));
    assert!(!simulated.result.valid);
    let said: Vec<_> = simulated.result.verdicts.iter().filter(|verdict| verdict.id == "no-gates").collect();
    assert_eq!((said.len(), said[0].level), (1, Level::Invalid));
    assert!(said[0].says.contains("eni1np1 takes the schedule of ctl and keeps none"), "{}", said[0].says);
    let metrics = &simulated.result.streams["ctl"].metrics;
    assert!(
        !metrics.is_empty() && metrics.values().all(|metric| metric.count == 0 && metric.why.is_some()),
        "{metrics:?}"
    );
    assert!(simulated.histograms.is_empty(), "and no picture");
    // Another driver, and one that is not known, are believed.
    for driver in [Some("igc"), None] {
        let other = judged(driver);
        assert!(other.result.verdicts.iter().all(|verdict| verdict.id != "no-gates"));
        assert!(other.result.streams["ctl"].metrics.values().any(|metric| metric.count == 400), "{driver:?}");
    }
}

/// The verdicts on a sound trial after this change.
fn said(change: impl FnOnce(&mut TrialRecord)) -> Vec<Verdict> {
    let mut record = fixture::record(1, 400);
    change(&mut record);
    let packets = fixture::healthy_packets(1, 400);
    let mut cell = CellAnalysis::new("all", [].into(), [("ctl".to_owned(), vec![fixture::LEAD])].into(), Vec::new());
    cell.trial(&record, [("ctl", fixture::batch(0, &packets))]);
    cell.finish().result.verdicts
}

fn of<'a>(verdicts: &'a [Verdict], id: &str) -> Vec<(Level, &'a str)> {
    let of = verdicts.iter().filter(|verdict| verdict.id == id);
    of.map(|verdict| (verdict.level, verdict.says.as_str())).collect()
}

fn launch(record: &mut TrialRecord) -> &mut LaunchRecord {
    let launching = &mut record.streams.get_mut("ctl").expect("a stream").launching;
    launching.launch = Launch::Strict;
    launching
}

#[test]
fn a_queue_discipline_that_could_not_be_read_back_makes_the_trial_invalid() {
    let verdicts = said(|trial| {
        launch(trial).station = "a".to_owned();
        let unread = record(&setup(MQPRIO).shaper, "va", Err("tc: killed"), Err("tc: killed"));
        trial.shapers.insert("a".to_owned(), unread);
    });
    let reported = of(&verdicts, "shaper");
    assert_eq!(reported.len(), 1, "{verdicts:?}");
    assert_eq!(reported[0].0, Level::Invalid);
    assert!(reported[0].1.contains("it could not be read back (tc: killed)"), "{reported:?}");
    assert_eq!(of(&verdicts, "launch-ignored"), [], "of what is not known nothing follows");
}

#[test]
fn launch_times_in_a_class_without_etf_are_told_as_ignored_below_mqprio_too() {
    // Priority 3 goes to class 0, which has etf; priority 2 to class 1 and all others to class 2,
    // which have none.
    let judged = |priority: u32| {
        let mut setup = setup(MQPRIO);
        setup.streams[0].priority = priority;
        let launching = launching::record(&setup, &setup.streams[0], None, Some("6.12.0"));
        let class = launching.class;
        let is = super::printed("mqprio");
        let verdicts = said(|trial| {
            *launch(trial) = launching;
            trial.shapers.insert("a".to_owned(), record(&setup.shaper, "va", Ok(&is), Ok(&is)));
        });
        (class, of(&verdicts, "launch-ignored").len())
    };
    assert_eq!(judged(3), (Some(0), 0));
    assert_eq!(judged(2), (Some(1), 1));
    assert_eq!(judged(0), (Some(2), 1));
}

#[test]
fn an_advance_that_the_ruler_has_no_figure_for_is_told_as_not_checked() {
    let with = |advance_ns: i64, timer: Option<i64>| {
        let verdicts = said(|trial| {
            let launching = launch(trial);
            (launching.advance_ns, launching.delta_ns, launching.timer_p99_9_ns) = (advance_ns, Some(300_000), timer);
        });
        of(&verdicts, "advance").into_iter().map(|(level, says)| (level, says.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(with(500_000, Some(100_000)), []);
    assert_eq!(with(400_000, Some(100_000))[0].0, Level::Warning);
    let unchecked = with(500_000, None);
    assert_eq!((unchecked.len(), unchecked[0].0), (1, Level::Note));
    assert!(unchecked[0].1.contains("is not checked: the ruler has no figure"), "{unchecked:?}");
    assert_eq!(with(300_000, None)[0].0, Level::Warning, "that much is known without the ruler");
}

#[test]
fn windows_that_are_over_before_the_timer_is_there_were_not_told() {
    // Windows of 100 µs; a frame takes 12 of them.
    let with = |timer: Option<i64>, change: fn(&mut GateRecord)| {
        let verdicts = said(|trial| {
            let launching = &mut trial.streams.get_mut("ctl").expect("a stream").launching;
            launching.timer_p99_9_ns = timer;
            let mut gate = stream(Keeper::Taprio, 0, None).launching.gate.expect("a gate");
            gate.frame_ns = 12_000;
            change(&mut gate);
            launching.gate = Some(gate);
        });
        of(&verdicts, "narrow-windows").into_iter().map(|(level, says)| (level, says.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(with(Some(87_999), |_| ()), []);
    let late = with(Some(88_000), |_| ());
    assert_eq!((late.len(), late[0].0), (1, Level::Warning));
    assert!(
        late[0].1.starts_with(
            "the shortest window of class 1 lasts 100.0 µs, of which a frame of ctl takes 12.0 µs, and the timer of its thread is late by \
             88.0 µs at p99.9: when packets come, or the timer by which taprio in software opens it, it may be over"
        ),
        "{late:?}"
    );
    // One of two windows is enough: packets wait for it too.
    let shorter = |gate: &mut GateRecord| gate.gates.as_mut().expect("gates").windows[1].close_ns = 720_000;
    assert_eq!(with(Some(8_000), shorter).len(), 1);
    // A device keeps its own time, etf has its delta, and a gate that never closes waits for
    // nothing.
    assert_eq!(with(Some(200_000), |gate| gate.keeper = Keeper::Device), []);
    assert_eq!(with(Some(200_000), |gate| gate.keeper = Keeper::TxtimeAssist), []);
    let open = |gate: &mut GateRecord| gate.gates.as_mut().expect("gates").windows = vec![window(0, 1_000_000)];
    assert_eq!(with(Some(2_000_000), open), []);
    let unchecked = with(None, |_| ());
    assert_eq!((unchecked.len(), unchecked[0].0), (1, Level::Note));
    assert!(unchecked[0].1.contains("is not checked: the ruler has no figure"), "{unchecked:?}");
}
