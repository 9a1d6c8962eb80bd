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
    let during = record(&shaper, "va", &before, &after);
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
    assert_eq!(record(&shaper, "va", &after, &after).drops(), 0);
}

#[test]
fn a_root_that_looks_at_no_launch_time_is_known() {
    let none = record(
        &setup("kind = \"none\"").shaper,
        "va",
        &json(include_str!("none.json")),
        &json(include_str!("none.json")),
    );
    assert_eq!((none.root(), none.honours_launch(None)), ("noqueue", false));
    let software = record(&setup(R1).shaper, "va", &taprio(), &taprio());
    assert_eq!((software.root(), software.honours_launch(Some(1))), ("taprio", false));
    let mqprio = json(include_str!("mqprio.json"));
    let mqprio = record(&setup(MQPRIO).shaper, "va", &mqprio, &mqprio);
    assert!(mqprio.honours_launch(Some(0)) && !mqprio.honours_launch(Some(2)), "etf stands below class 0 only");
}
