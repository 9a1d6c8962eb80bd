// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel made of it, as tc printed it.

use super::{ASSIST, MQPRIO, R1, setup};
use serde_json::Value;
use tardy_lab::shaper::read_back::{differs, qdiscs, record};

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("what tc printed")
}

fn taprio() -> Value {
    json(include_str!("taprio.json"))
}

#[test]
fn what_was_asked_for_and_granted_differs_in_nothing() {
    assert_eq!(differs(&setup(R1).shaper, &taprio()), [""; 0]);
    let assist = setup(&format!("{R1}{ASSIST}")).shaper;
    assert_eq!(differs(&assist, &json(include_str!("assist.json"))), [""; 0]);
    assert_eq!(differs(&setup(MQPRIO).shaper, &json(include_str!("mqprio.json"))), [""; 0]);
    assert_eq!(differs(&setup("kind = \"none\"").shaper, &json(include_str!("none.json"))), [""; 0]);
    let cbs = MQPRIO
        .replace("\"mqprio\"", "\"cbs\"")
        .replace("etf.classes = [0]\netf.delta = \"500us\"", "cbs.classes = [1]\ncbs.idleslope = \"98688kbit\"");
    assert_eq!(differs(&setup(&cbs).shaper, &json(include_str!("mqprio.json"))), [""; 0]);
    let etf = "kind = \"etf\"\netf.delta = \"300us\"\netf.skip_sock_check = true\netf.deadline_mode = true";
    assert_eq!(differs(&setup(etf).shaper, &json(include_str!("etf.json"))), ["etf: skip_sock_check is off, not on"]);
}

#[test]
fn every_figure_that_is_another_is_told() {
    let shaper = setup(R1).shaper;
    let mut spoilt = taprio();
    let options = &mut spoilt[0]["options"];
    options["map"][3] = 2.into();
    options["queues"][1] = serde_json::json!({"offset": 2, "count": 2});
    options["base_time"] = (1_767_225_700_000_000_007i64).into();
    options["schedule"][4]["gatemask"] = "0x9".into();
    options["schedule"][5]["interval"] = 90_000.into();
    options["flags"] = "0x1".into();
    assert_eq!(
        differs(&shaper, &spoilt),
        [
            "priority 3 goes to class 2, not 1",
            "class 1 has queues 2@2, not 1@1",
            "its flags are 0x1, not 0x0",
            "the base time, 1767225700000000007, is not aligned as asked",
            "entry 4 opens gates 0x9, not 0x8",
            "entry 5's length is 90000, not 100000",
        ]
    );
    assert_eq!(differs(&shaper, &json(include_str!("none.json"))), ["the root is noqueue, not taprio"]);
    let mut childless = json(include_str!("assist.json"));
    childless.as_array_mut().expect("a list").pop();
    let assist = setup(&format!("{R1}{ASSIST}")).shaper;
    assert_eq!(differs(&assist, &childless), ["nothing stands at 100:4"]);
    childless[1]["options"]["delta"] = 100.into();
    assert_eq!(differs(&assist, &childless)[0], "100:1: delta is 100, not 200000");
}

#[test]
fn counters_are_kept_by_class_and_count_from_the_trials_beginning() {
    let shaper = setup(&format!("{R1}{ASSIST}")).shaper;
    let before = json(include_str!("assist.json"));
    let mut after = before.clone();
    for qdisc in after.as_array_mut().expect("a list") {
        let is_of_stream = qdisc["parent"] == "100:2";
        qdisc["packets"] = if is_of_stream { 950.into() } else { 7.into() };
        qdisc["drops"] = if is_of_stream { 50.into() } else { 0.into() };
        qdisc["overlimits"] = if is_of_stream { 50.into() } else { 0.into() };
    }
    let during = record(&shaper, "va", Ok(&before), Ok(&after));
    assert_eq!((during.root(), during.drops(), during.differs.len()), ("taprio", 50, 0));
    let of: Vec<_> =
        during.qdiscs.iter().map(|qdisc| (qdisc.kind.as_str(), qdisc.class, qdisc.packets, qdisc.drops)).collect();
    assert_eq!(
        of,
        [
            ("taprio", None, 7, 0),
            ("etf", Some(0), 7, 0),
            ("etf", Some(1), 950, 50),
            ("etf", Some(2), 7, 0),
            ("etf", Some(3), 7, 0)
        ]
    );
    assert!(during.honours_launch(Some(1)));
    assert_eq!(qdiscs(&after, &shaper).len(), 5);
    // What counted before the trial is not the trial's.
    assert_eq!(record(&shaper, "va", Ok(&after), Ok(&after)).drops(), 0);
}

#[test]
fn a_root_that_looks_at_no_launch_time_is_known() {
    let none = record(
        &setup("kind = \"none\"").shaper,
        "va",
        Ok(&json(include_str!("none.json"))),
        Ok(&json(include_str!("none.json"))),
    );
    assert_eq!((none.root(), none.honours_launch(None)), ("noqueue", false));
    let software = record(&setup(R1).shaper, "va", Ok(&taprio()), Ok(&taprio()));
    assert_eq!((software.root(), software.honours_launch(Some(1))), ("taprio", false));
    let mqprio = json(include_str!("mqprio.json"));
    let mqprio = record(&setup(MQPRIO).shaper, "va", Ok(&mqprio), Ok(&mqprio));
    assert!(mqprio.honours_launch(Some(0)) && !mqprio.honours_launch(Some(2)), "etf is under class 0 only");
}

#[test]
fn what_tc_does_not_tell_is_not_as_it_was_asked_for() {
    let mut silent = taprio();
    let options = silent[0]["options"].as_object_mut().expect("options");
    for key in ["tc", "map", "queues", "clockid", "base_time", "cycle_time"] {
        options.remove(key).expect("tc told it");
    }
    options["schedule"][2].as_object_mut().expect("an entry").remove("gatemask").expect("tc told it");
    assert_eq!(
        differs(&setup(R1).shaper, &silent),
        [
            "the number of classes is not told, and 4 was asked for",
            "the class of priority 0 is not told, and 3 was asked for",
            "the queues of class 0 are not told, and 1@0 was asked for",
            "the queues of class 1 are not told, and 1@1 was asked for",
            "the queues of class 2 are not told, and 1@2 was asked for",
            "the queues of class 3 are not told, and 1@3 was asked for",
            "its clock is not told, and TAI was asked for",
            "the cycle is not told, and 1000000 was asked for",
            "the base time is not told",
            "entry 2's gates are not told, and 0x2 was asked for",
        ]
    );
    let etf =
        setup("kind = \"etf\"\netf.delta = \"300us\"\netf.deadline_mode = true\netf.skip_sock_check = true").shaper;
    let mut silent = json(include_str!("etf.json"));
    silent[0]["options"] = serde_json::json!({});
    assert_eq!(
        differs(&etf, &silent),
        [
            "etf: delta is not told, and 300000 was asked for",
            "etf: deadline_mode is not told, and on was asked for",
            "etf: skip_sock_check is not told, and on was asked for",
            "etf: its clock is not told, and TAI was asked for",
        ],
        "a flag that is off need not be told: a program that does not know it has set none"
    );
}

#[test]
fn a_reading_that_failed_is_told_and_not_passed_over() {
    let shaper = setup(R1).shaper;
    let failed = record(&shaper, "va", Ok(&taprio()), Err("Cannot find device \"va\""));
    assert_eq!(failed.differs, ["it could not be read back (Cannot find device \"va\")"]);
    assert_eq!((failed.root(), failed.drops(), failed.asked.as_str()), ("", 0, "taprio"));
    assert_eq!(record(&shaper, "va", Err("killed"), Ok(&taprio())).differs, ["it could not be read back (killed)"]);
    // Where nothing was asked for, what is there must still be known.
    let nothing = record(&setup("kind = \"none\"").shaper, "va", Ok(&json("[]")), Ok(&json("[]")));
    assert_eq!(nothing.differs, ["it could not be read back (tc tells of none)"]);
}
