// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue disciplines: what is planned, what a schedule means, and where the answer of the kernel,
//! as tc printed it, differs from what was asked. The text below is what iproute2 6.1 printed on
//! Linux 6.12, byte for byte.

mod gates;
mod judge;

use serde_json::Value;
use std::collections::BTreeMap;
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::plan::{Plan, plan};
use tardy_lab::shaper::launching;
use tardy_lab::shaper::tc::{differs, qdiscs, record};
use tardy_model::machine::HostId;
use tardy_model::shaper::Shaper;
use tardy_model::time::{Instant, Nanos};
use tardy_spec::experiment::{Cell, Experiment, Setup};
use tardy_spec::{Source, load, ready_made};
use tardy_tests::section;

/// An experiment whose shaper is the text, on two stations and a stream of priority 3.
pub fn experiment(shaper: &str) -> Experiment {
    let head = tardy_tests::experiment("stream with launch times");
    let source = Source { name: "x.toml".into(), text: format!("{head}[shaper]\n{shaper}\n") };
    load(&source, &[]).unwrap_or_else(|error| panic!("{shaper}\n{}", error.one_line()))
}

pub fn setup(shaper: &str) -> Setup {
    experiment(shaper).cells.remove(0).setup
}

/// The schedule of the reference results, R1: the stream's class, 1, is open every 500 µs.
pub const R1: &str = tardy_tests::part("schedule of R1");
/// With launch times that etf keeps.
pub const ASSIST: &str = "mode = \"txtime-assist\"\ntxtime_delay = \"400us\"\netf.delta = \"200us\"\n";
const MQPRIO: &str = tardy_tests::part("classes with a queue each");

fn planned(setup: &Setup) -> Plan {
    let now = Some(Instant::from_ns(1_767_225_699_400_000_123));
    plan(setup, Names::FIRST, &FactsByHost::from(Facts { now, ..Facts::default() })).expect("it can be planned")
}

/// The commands of a plan that are tc's, without where they are done.
fn tc(plan: &Plan) -> Vec<String> {
    let does = plan.steps.iter().flat_map(|step| &step.does).map(ToString::to_string);
    does.filter_map(|line| Some(line.strip_prefix("tc -n tardy-0-a qdisc replace dev tardy0-0 ")?.to_owned())).collect()
}

const TAPRIO: &str = "root handle 100: taprio num_tc 4 map 3 3 3 1 3 0 3 2 3 3 3 3 3 3 3 3 queues 1@0 1@1 1@2 1@3 base-time \
1767225699901000000 cycle-time 1000000 sched-entry S 08 100000 sched-entry S 01 100000 sched-entry S 02 100000 sched-entry S 04 200000 \
sched-entry S 08 100000 sched-entry S 01 100000 sched-entry S 02 100000 sched-entry S 04 200000";

#[test]
fn a_schedule_is_written_once_and_its_base_time_lies_ahead_and_aligned() {
    let software = planned(&setup(R1));
    assert_eq!(tc(&software), [format!("{TAPRIO} clockid CLOCK_TAI")]);
    assert_eq!(software.begins.get(&HostId::HERE), Some(&Instant::from_ns(1_767_225_699_901_000_000)));
    let assist = tc(&planned(&setup(&format!("{R1}{ASSIST}"))));
    assert_eq!(assist[0], format!("{TAPRIO} flags 0x1 txtime-delay 400000 clockid CLOCK_TAI"));
    let child = |n| format!("parent 100:{n} etf clockid CLOCK_TAI delta 200000 skip_sock_check");
    assert_eq!(assist[1..], [child(1), child(2), child(3), child(4)]);
    assert_eq!(tc(&planned(&setup(&format!("{R1}mode = \"offload\"\n")))), [format!("{TAPRIO} flags 0x2")]);
    let moved = planned(&setup(&format!("{R1}base_time = \"250us\"\n"))).begins[&HostId::HERE];
    assert_eq!(moved.ns() % 1_000_000, 250_000);
}

#[test]
fn only_the_device_that_streams_leave_by_is_shaped_and_it_is_put_back() {
    let plan = planned(&setup(MQPRIO));
    let mqprio = "root handle 100: mqprio num_tc 3 map 2 2 1 0 2 2 2 2 2 2 2 2 2 2 2 2 queues 1@0 1@1 2@2 hw 0";
    assert_eq!(tc(&plan), [mqprio, "parent 100:1 etf clockid CLOCK_TAI delta 500000"]);
    let undo: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
    assert_eq!(undo[0], "tc -n tardy-0-a qdisc del dev tardy0-0 root");
    assert!(!plan.script().contains("tardy-0-b qdisc replace"), "{}", plan.script());
    let read: Vec<String> = plan.read_back.iter().map(ToString::to_string).collect();
    assert!(read.contains(&"tc -n tardy-0-a -j -s qdisc show dev tardy0-0".to_owned()), "{read:?}");
    let etf = planned(&setup("kind = \"etf\"\netf.delta = \"300us\"\n"));
    assert_eq!(tc(&etf), ["root handle 100: etf clockid CLOCK_TAI delta 300000"]);
}

#[test]
fn the_credits_of_cbs_follow_from_its_slope() {
    // 98.688 Mbit/s of 1 Gbit/s and frames of 1542 bytes: the example of tc-cbs(8), whose own
    // figures these are.
    let cbs = "kind = \"cbs\"\nclasses = 3\nmap = [2, 2, 1, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]\nclass_queues = [\"1@0\", \"1@1\", \"2@2\"]\n\
               cbs.classes = [1]\ncbs.idleslope = \"98688kbit\"\n";
    let child = "parent 100:2 cbs idleslope 98688 sendslope -901312 hicredit 153 locredit -1389 offload 0";
    assert_eq!(tc(&planned(&setup(cbs)))[1], child);
}

#[test]
fn a_senders_phase_lies_early_in_the_windows_of_its_class() {
    let setup = setup(R1);
    let mut seen = std::collections::BTreeSet::new();
    for trial in 1..=60 {
        let mut random = tardy_lab::orders::random_of(1, "all", trial);
        let phase = launching::phase(&setup, &setup.streams[0], &mut random);
        // Open from 200 to 300 µs and from 700 to 800: the first quarter of what leaves room for a
        // frame.
        assert!((Nanos(200_000)..Nanos(225_000)).contains(&phase), "{phase:?}");
        seen.insert(phase);
    }
    assert!(seen.len() > 50, "each trial has its own: {seen:?}");
    // A cycle twice as long meets either window.
    let mut slow = setup.clone();
    slow.streams[0].cycle = Nanos(2_000_000);
    let phases: Vec<i64> = (1..=60)
        .map(|trial| launching::phase(&slow, &slow.streams[0], &mut tardy_lab::orders::random_of(1, "all", trial)).0)
        .collect();
    assert!(
        phases.iter().all(|phase| (200_000..225_000).contains(&(phase % 1_000_000))
            || (700_000..725_000).contains(&(phase % 1_000_000))),
        "{phases:?}"
    );
    assert!(
        phases.iter().any(|phase| *phase > 1_000_000) && phases.iter().any(|phase| *phase < 1_000_000),
        "{phases:?}"
    );
}

#[test]
fn without_gates_the_phase_is_what_it_was_before_there_were_any() {
    let (free, gated) = (setup("kind = \"none\"\n"), setup(R1));
    let drawn = |setup: &Setup| {
        let mut random = tardy_lab::orders::random_of(7, "all", 3);
        let first = launching::phase(setup, &setup.streams[0], &mut random);
        (first, launching::phase(&free, &free.streams[0], &mut random))
    };
    // A shaper changes its own stream's phase and no other's.
    assert_eq!(drawn(&free).1, drawn(&gated).1);
    assert!(drawn(&free).0.0 < 500_000);
}

#[test]
fn every_row_of_r1_is_a_cell_and_repeated_conditions_are_two() {
    let experiment = load(&ready_made("tsn-qdiscs").expect("it is there"), &[]).expect("it loads");
    let cell = |id: &str| -> &Cell { experiment.cells.iter().find(|cell| cell.id == id).expect(id) };
    let ids: Vec<&str> = experiment.cells.iter().map(|cell| cell.id.as_str()).collect();
    let rows = [
        "none-idle",
        "none-loaded",
        "none-loaded-again",
        "taprio-software",
        "assist-delta-200us",
        "assist-delta-2ms",
        "offload",
        "offload-again",
    ];
    assert_eq!(ids, rows);
    for cell in &experiment.cells {
        let stream = &cell.setup.streams[0];
        assert_eq!((stream.count, stream.cycle.0, stream.launch.name()), (10_000, 500_000, "strict"), "{}", cell.id);
        let loads: u32 = cell.setup.loads.iter().map(|load| load.count).sum();
        assert_eq!(loads, if cell.id == "none-idle" { 0 } else { 3 }, "{}", cell.id);
    }
    assert_eq!(cell("none-loaded").setup, cell("none-loaded-again").setup);
    assert_eq!(cell("offload").setup, cell("offload-again").setup);
    assert_eq!(cell("none-loaded").setup.shaper, Shaper::None);
    let assisted = ["assist-delta-200us", "assist-delta-2ms"];
    let deltas = assisted.map(|id| cell(id).setup.shaper.etf(3).expect("etf").delta.0);
    assert_eq!(deltas, [200_000, 2_000_000]);
    for id in assisted {
        let (stream, etf) = (&cell(id).setup.streams[0], *cell(id).setup.shaper.etf(3).expect("etf"));
        assert!(stream.tx.advance > etf.delta, "{id}: the sender must come before etf lets go");
    }
    for cell in &experiment.cells {
        // What only a device can do is asked of one that takes it.
        let asks = cell.setup.shaper.offloads().is_some();
        assert_eq!(asks, cell.id.starts_with("offload"), "{}", cell.id);
        assert_eq!(cell.optional, asks, "{}: a machine without one still measures the others", cell.id);
        assert_eq!(cell.setup.path.traits().name, if asks { "netdevsim" } else { "veth" }, "{}", cell.id);
    }
    let short =
        load(&ready_made("tsn-qdiscs").expect("it is there"), &["stream.ctl.count=1000".to_owned()]).expect("it loads");
    assert!(short.cells.iter().all(|cell| cell.setup.streams[0].count == 1_000));
}

#[test]
fn what_etf_drops_is_an_experiment_of_its_own() {
    let drops = load(&ready_made("etf-drops").expect("it is there"), &[]).expect("it loads");
    let tsn = load(&ready_made("tsn-qdiscs").expect("it is there"), &[]).expect("it loads");
    let [cell] = drops.cells.as_slice() else { panic!("one cell: {:?}", drops.cells.len()) };
    assert!(cell.setup.loads.is_empty() && !cell.optional, "what it measures is judged");
    assert_eq!(cell.setup.shaper.etf(3).expect("etf").delta.0, 1_000);
    let assisted = tsn.cells.iter().find(|cell| cell.id == "assist-delta-200us").expect("the cell");
    let schedule = |setup: &Setup| setup.shaper.taprio().expect("taprio").schedule.clone();
    assert_eq!(schedule(&cell.setup), schedule(&assisted.setup), "the schedule of the other one");
}

#[test]
fn a_shaper_that_is_pinned_leaves_what_others_need_aside() {
    let pinned =
        load(&ready_made("tsn-qdiscs").expect("it is there"), &["shaper.kind=none".to_owned()]).expect("it loads");
    assert!(pinned.cells.iter().all(|cell| cell.setup.shaper == Shaper::None));
    let again = load(&Source { name: "again.toml".into(), text: pinned.effective.clone() }, &[])
        .expect("the effective file loads");
    let setups = |experiment: &Experiment| -> BTreeMap<String, Setup> {
        experiment.cells.iter().map(|cell| (cell.id.clone(), cell.setup.clone())).collect()
    };
    assert_eq!(setups(&again), setups(&pinned));
}

/// What tc printed of a shaper of this kind.
fn printed(kind: &str) -> Value {
    serde_json::from_str(section(TC, kind)).expect("what tc printed")
}

/// What `tc -j -s qdisc show` printed, by kind of shaper.
const TC: &str = r#"# --- taprio
[{"kind":"taprio","handle":"100:","root":true,"refcnt":5,"options":{"tc":4,"map":[3,3,3,1,3,0,3,2,3,3,3,3,3,3,3,3],"queues":[{"offset":0,"count":1},{"offset":1,"count":1},{"offset":2,"count":1},{"offset":3,"count":1}],"clockid":"TAI","base_time":1767225700000000000,"cycle_time":1000000,"cycle_time_extension":0,"schedule":[{"index":0,"cmd":"S","gatemask":"0x8","interval":100000},{"index":1,"cmd":"S","gatemask":"0x1","interval":100000},{"index":2,"cmd":"S","gatemask":"0x2","interval":100000},{"index":3,"cmd":"S","gatemask":"0x4","interval":200000},{"index":4,"cmd":"S","gatemask":"0x8","interval":100000},{"index":5,"cmd":"S","gatemask":"0x1","interval":100000},{"index":6,"cmd":"S","gatemask":"0x2","interval":100000},{"index":7,"cmd":"S","gatemask":"0x4","interval":200000}]},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"pfifo","handle":"0:","parent":"100:4","options":{"limit":1000},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"pfifo","handle":"0:","parent":"100:3","options":{"limit":1000},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"pfifo","handle":"0:","parent":"100:2","options":{"limit":1000},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"pfifo","handle":"0:","parent":"100:1","options":{"limit":1000},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]
# --- assist
[{"kind":"taprio","handle":"100:","root":true,"refcnt":5,"options":{"tc":4,"map":[3,3,3,1,3,0,3,2,3,3,3,3,3,3,3,3],"queues":[{"offset":0,"count":1},{"offset":1,"count":1},{"offset":2,"count":1},{"offset":3,"count":1}],"clockid":"TAI","flags":"0x1","txtime_delay":400000,"base_time":1767225700000000000,"cycle_time":1000000,"cycle_time_extension":0,"schedule":[{"index":0,"cmd":"S","gatemask":"0x8","interval":100000},{"index":1,"cmd":"S","gatemask":"0x1","interval":100000},{"index":2,"cmd":"S","gatemask":"0x2","interval":100000},{"index":3,"cmd":"S","gatemask":"0x4","interval":200000},{"index":4,"cmd":"S","gatemask":"0x8","interval":100000},{"index":5,"cmd":"S","gatemask":"0x1","interval":100000},{"index":6,"cmd":"S","gatemask":"0x2","interval":100000},{"index":7,"cmd":"S","gatemask":"0x4","interval":200000}]},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"etf","handle":"8001:","parent":"100:1","options":{"clockid":"TAI","delta":200000,"offload":"off","deadline_mode":"off","skip_sock_check":"on"},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"etf","handle":"8003:","parent":"100:3","options":{"clockid":"TAI","delta":200000,"offload":"off","deadline_mode":"off","skip_sock_check":"on"},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"etf","handle":"8002:","parent":"100:2","options":{"clockid":"TAI","delta":200000,"offload":"off","deadline_mode":"off","skip_sock_check":"on"},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"etf","handle":"8004:","parent":"100:4","options":{"clockid":"TAI","delta":200000,"offload":"off","deadline_mode":"off","skip_sock_check":"on"},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]
# --- mqprio
[{"kind":"mqprio","handle":"100:","root":true,"options":{"tc":3,"map":[2,2,1,0,2,2,2,2,2,2,2,2,2,2,2,2],"queues":[[0,0],[1,1],[2,3]],"mode":"dcb","shaper":"dcb"},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"pfifo","handle":"0:","parent":"8005:","options":{"limit":1000},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"fq_codel","handle":"0:","parent":"100:4","options":{"limit":10240,"flows":1024,"quantum":1514,"target":4999,"interval":99999,"memory_limit":33554432,"ecn":true,"drop_batch":64},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0,"maxpacket":0,"drop_overlimit":0,"new_flow_count":0,"ecn_mark":0,"new_flows_len":0,"old_flows_len":0},{"kind":"fq_codel","handle":"0:","parent":"100:3","options":{"limit":10240,"flows":1024,"quantum":1514,"target":4999,"interval":99999,"memory_limit":33554432,"ecn":true,"drop_batch":64},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0,"maxpacket":0,"drop_overlimit":0,"new_flow_count":0,"ecn_mark":0,"new_flows_len":0,"old_flows_len":0},{"kind":"cbs","handle":"8005:","parent":"100:2","options":{"hicredit":153,"locredit":-1389,"sendslope":-901312,"idleslope":98688,"offload":0},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"etf","handle":"101:","parent":"100:1","options":{"clockid":"TAI","delta":500000,"offload":"off","deadline_mode":"off","skip_sock_check":"off"},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]
# --- etf
[{"kind":"etf","handle":"100:","root":true,"refcnt":5,"options":{"clockid":"TAI","delta":300000,"offload":"off","deadline_mode":"on","skip_sock_check":"off"},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]
# --- none
[{"kind":"noqueue","handle":"0:","root":true,"refcnt":2,"options":{},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]
"#;

#[test]
fn what_was_asked_for_and_granted_differs_in_nothing() {
    assert_eq!(differs(&setup(R1).shaper, &printed("taprio")), [""; 0]);
    let assist = setup(&format!("{R1}{ASSIST}")).shaper;
    assert_eq!(differs(&assist, &printed("assist")), [""; 0]);
    assert_eq!(differs(&setup(MQPRIO).shaper, &printed("mqprio")), [""; 0]);
    assert_eq!(differs(&setup("kind = \"none\"").shaper, &printed("none")), [""; 0]);
    let cbs = MQPRIO
        .replace("\"mqprio\"", "\"cbs\"")
        .replace("etf.classes = [0]\netf.delta = \"500us\"", "cbs.classes = [1]\ncbs.idleslope = \"98688kbit\"");
    assert_eq!(differs(&setup(&cbs).shaper, &printed("mqprio")), [""; 0]);
    let etf = "kind = \"etf\"\netf.delta = \"300us\"\netf.skip_sock_check = true\netf.deadline_mode = true";
    assert_eq!(differs(&setup(etf).shaper, &printed("etf")), ["etf: skip_sock_check is off, not on"]);
}

#[test]
fn every_figure_that_is_another_is_told() {
    let shaper = setup(R1).shaper;
    let mut spoilt = printed("taprio");
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
    assert_eq!(differs(&shaper, &printed("none")), ["the root is noqueue, not taprio"]);
    let mut childless = printed("assist");
    childless.as_array_mut().expect("a list").pop();
    let assist = setup(&format!("{R1}{ASSIST}")).shaper;
    assert_eq!(differs(&assist, &childless), ["nothing is at 100:4"]);
    childless[1]["options"]["delta"] = 100.into();
    assert_eq!(differs(&assist, &childless)[0], "100:1: delta is 100, not 200000");
}

#[test]
fn counters_are_kept_by_class_and_count_from_the_trials_beginning() {
    let shaper = setup(&format!("{R1}{ASSIST}")).shaper;
    let before = printed("assist");
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
    let none = record(&setup("kind = \"none\"").shaper, "va", Ok(&printed("none")), Ok(&printed("none")));
    assert_eq!((none.root(), none.honours_launch(None)), ("noqueue", false));
    let software = record(&setup(R1).shaper, "va", Ok(&printed("taprio")), Ok(&printed("taprio")));
    assert_eq!((software.root(), software.honours_launch(Some(1))), ("taprio", false));
    let mqprio = printed("mqprio");
    let mqprio = record(&setup(MQPRIO).shaper, "va", Ok(&mqprio), Ok(&mqprio));
    assert!(mqprio.honours_launch(Some(0)) && !mqprio.honours_launch(Some(2)), "etf is under class 0 only");
}

#[test]
fn what_tc_does_not_tell_is_not_as_it_was_asked_for() {
    let mut silent = printed("taprio");
    let options = silent[0]["options"].as_object_mut().expect("options");
    for key in ["tc", "map", "queues", "clockid", "base_time", "cycle_time"] {
        options.remove(key).expect("tc told it");
    }
    options["schedule"][2].as_object_mut().expect("an entry").remove("gatemask").expect("tc told it");
    assert_eq!(
        differs(&setup(R1).shaper, &silent),
        [
            "the number of classes is not reported, and 4 was asked for",
            "the class of priority 0 is not reported, and 3 was asked for",
            "the queues of class 0 are not reported, and 1@0 was asked for",
            "the queues of class 1 are not reported, and 1@1 was asked for",
            "the queues of class 2 are not reported, and 1@2 was asked for",
            "the queues of class 3 are not reported, and 1@3 was asked for",
            "its clock is not reported, and TAI was asked for",
            "the cycle is not reported, and 1000000 was asked for",
            "the base time is not reported",
            "entry 2's gates are not reported, and 0x2 was asked for",
        ]
    );
    let etf =
        setup("kind = \"etf\"\netf.delta = \"300us\"\netf.deadline_mode = true\netf.skip_sock_check = true").shaper;
    let mut silent = printed("etf");
    silent[0]["options"] = serde_json::json!({});
    assert_eq!(
        differs(&etf, &silent),
        [
            "etf: delta is not reported, and 300000 was asked for",
            "etf: deadline_mode is not reported, and on was asked for",
            "etf: skip_sock_check is not reported, and on was asked for",
            "etf: its clock is not reported, and TAI was asked for",
        ],
        "a flag that is off need not be told: a program that does not know it has set none"
    );
}

#[test]
fn a_reading_that_failed_is_told_and_not_passed_over() {
    let shaper = setup(R1).shaper;
    let failed = record(&shaper, "va", Ok(&printed("taprio")), Err("Cannot find device \"va\""));
    assert_eq!(failed.differs, ["it could not be read back (Cannot find device \"va\")"]);
    assert_eq!((failed.root(), failed.drops(), failed.asked.as_str()), ("", 0, "taprio"));
    assert_eq!(
        record(&shaper, "va", Err("killed"), Ok(&printed("taprio"))).differs,
        ["it could not be read back (killed)"]
    );
    // Where nothing was asked for, what is there must still be known.
    let nothing =
        record(&setup("kind = \"none\"").shaper, "va", Ok(&serde_json::json!([])), Ok(&serde_json::json!([])));
    assert_eq!(nothing.differs, ["it could not be read back (tc reports none)"]);
}
