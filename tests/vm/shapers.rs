// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue disciplines, launch times and VLAN devices in a kernel that has them, in exact time:
//! gates are kept, etf lets packets go its delta early, what it drops is reported, and what tardy
//! reads back is what it asked for.
//!
//! Other kernels than the layer's own: one named by its file, and in the soak each that can be
//! fetched. And where a kernel takes `rx_kernel` of packets that have launch times, seen in the
//! figures: farther from the driver than without, except on a kernel that clears launch times on
//! the way.
//!
//! And devices that a guest has beyond those of every kernel: netdevsim, which is built for one,
//! and igb, which newer QEMUs have. Building takes minutes and a large package from the archive: it
//! is done in the soak. Elsewhere tardy refuses what is missing, and the tests check that.

use crate::command::{Finished, Place};
use crate::exact::{first, manifest, print};
use crate::{KERNEL, SHORT, can_run};
use serde_json::Value;
use std::process::Command;
use tardy_lab::guest::{emulator, kernel, qemu};
use tardy_lab::host::qemu as process;

fn run(experiment: &str, args: &[&str]) -> (Place, Finished) {
    run_on(KERNEL, experiment, args)
}

fn run_on(kernel: &str, experiment: &str, args: &[&str]) -> (Place, Finished) {
    let place = Place::new();
    let mut command = place.run(&[experiment, "--in", "guest:exact", "--kernel", kernel, "--trials", "1", "--json"]);
    let run = place.call(command.args(args));
    (place, run)
}

/// The run of an experiment of one's own.
fn own(text: &str) -> (Place, Finished) {
    own_on(KERNEL, text)
}

fn own_on(kernel: &str, text: &str) -> (Place, Finished) {
    let files = Place::new();
    let file = files.path("own.toml");
    std::fs::write(&file, text).expect("a file");
    run_on(kernel, &file.display().to_string(), &[])
}

fn cell<'a>(run: &'a Finished, id: &str) -> &'a Value {
    let cells = run.results["cells"].as_array().unwrap_or_else(|| panic!("no cells: {}", run.stderr));
    cells.iter().find(|cell| cell["id"] == id).unwrap_or_else(|| panic!("no cell {id}"))
}

fn says(cell: &Value, id: &str) -> Vec<String> {
    let verdicts = cell["verdicts"].as_array().expect("verdicts").iter().filter(|verdict| verdict["id"] == id);
    verdicts.filter_map(|verdict| verdict["says"].as_str().map(str::to_owned)).collect()
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("no number: {of}"))
}

#[test]
fn gates_are_kept_and_etf_lets_packets_go_its_delta_early() {
    if !can_run("gates_are_kept_and_etf_lets_packets_go_its_delta_early") {
        return;
    }
    let (_place, tsn) = run("tsn-qdiscs", &["--set", "stream.ctl.count=400"]);
    // Two cells ask for a device that takes schedules. Not every kernel has it, and then they are
    // not available, which spoils no other cell; where it is there it keeps none, which was
    // measured and does.
    let built = kernel::fetched(&kernel::cache(), KERNEL).is_some_and(|fetched| !fetched.built.is_empty());
    let (rule, code) = if built { ("no-gates", 4) } else { ("not-available", 0) };
    assert_eq!(tsn.code, Some(code), "{}", tsn.stderr);
    assert_eq!(tsn.ids("invalid"), if built { vec![rule] } else { Vec::new() }, "the rest is sound: {}", tsn.stderr);
    for id in ["offload", "offload-again"] {
        let refused = cell(&tsn, id);
        let says = says(refused, rule);
        assert!(says[0].contains("netdevsim") && (built || says[0].contains("guest fetch --with")), "{says:?}");
        let metrics = refused["streams"]["ctl"]["metrics"].as_object().expect("what was asked for");
        assert!(metrics.values().all(|metric| metric["count"] == 0), "it prints no latency");
        assert_eq!((&refused["valid"], refused["not_available"].is_string()), (&false.into(), !built), "{id}");
    }
    for (id, keeper, early_by) in [
        ("taprio-software", "taprio", 0),
        ("assist-delta-200us", "txtime-assist", 200_000),
        ("assist-delta-2ms", "txtime-assist", 2_000_000),
    ] {
        let ctl = &cell(&tsn, id)["streams"]["ctl"];
        let gates = &ctl["gates"];
        assert_eq!((&gates["keeper"], &gates["at"]), (&keeper.into(), &"tx_kernel".into()), "{id}");
        assert_eq!(number(&gates["release_before_ns"]), early_by, "{id}");
        assert_eq!(number(&gates["judged"]), 400, "{id}");
        let inside = number(&gates["inside"]);
        assert!(inside * 1_000 >= 400 * 995, "{id}: {inside} of 400 when they should: {gates}");
        assert_eq!(says(cell(&tsn, id), "gates").len(), 1, "{id}");
        assert_eq!(number(&ctl["outcomes"]["received"]), 400, "{id}");
    }
    // One condition twice is another draw, not another world.
    let [once, again] = ["none-loaded", "none-loaded-again"]
        .map(|id| number(&cell(&tsn, id)["streams"]["ctl"]["metrics"]["scheduled..rx_kernel"]["p50_ns"]));
    assert!(once.abs_diff(again) * 5 < once, "{once} and {again} ns");
}

#[test]
fn a_delta_that_is_too_small_drops_packets_and_says_so() {
    if !can_run("a_delta_that_is_too_small_drops_packets_and_says_so") {
        return;
    }
    let (_place, run) = run("etf-drops", &["--set", "stream.ctl.count=400"]);
    assert_eq!((run.code, run.ids("invalid")), (Some(4), vec!["launch-drops".to_owned()]), "{}", run.stderr);
    // A microsecond is too little for the way to the driver: drops, each with its reason, and no
    // loss.
    let small = cell(&run, "all");
    let (ctl, drops) = (&small["streams"]["ctl"], says(small, "launch-drops"));
    let (not_sent, why) = (number(&ctl["outcomes"]["not_sent"]), &ctl["not_sent_why"]);
    assert!(not_sent > 0 && drops.len() == 1, "{ctl}: {drops:?}");
    let reasons: u64 = why.as_object().expect("reasons").values().map(number).sum();
    assert_eq!((reasons, number(&why["launch_missed"])), (not_sent, not_sent), "{ctl}");
    assert_eq!(number(&ctl["outcomes"]["lost"]), 0, "what was dropped is no loss: {ctl}");
    assert_eq!(number(&ctl["outcomes"]["received"]) + not_sent, 400, "{ctl}");
}

/// In five trials, of fewer the first and the last packets are not compared.
#[test]
fn own_trace_is_silent_under_the_kernels_own_queue_disciplines() {
    if !can_run("own_trace_is_silent_under_the_kernels_own_queue_disciplines") {
        return;
    }
    // Cells whose device is simulated need a module that Debian leaves out.
    for (experiment, least) in [("tsn-qdiscs", 6), ("etf-drops", 1), ("mqprio-etf", 1)] {
        let place = Place::new();
        let args =
            ["--in", "guest:exact", "--kernel", KERNEL, "--trials", "5", "--set", "stream.ctl.count=200", "--json"];
        let run = place.call(place.run(&[experiment]).args(args));
        let all = run.results["cells"].as_array().expect("cells");
        let measured = all.iter().filter(|cell| cell["trials"].as_array().map_or(0, Vec::len) == 5).count();
        assert!(measured >= least, "{measured}\n{}", run.stderr);
        assert_eq!(run.own_traces(), Vec::<&Value>::new(), "{experiment}");
    }
}

#[test]
fn what_etf_drops_is_not_sent_and_its_delta_is_another_run() {
    if !can_run("what_etf_drops_is_not_sent_and_its_delta_is_another_run") {
        return;
    }
    let at = |delta: &str| {
        let delta = format!("shaper.etf.delta={delta}");
        run("mqprio-etf", &["--set", "stream.ctl.count=400", "--set", &delta]).1
    };
    let [sound, other, small] = ["300us", "299us", "1us"].map(at);
    for run in [&sound, &other] {
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert_eq!(number(&run.cell()["streams"]["ctl"]["outcomes"]["received"]), 400);
        assert!(number(&run.cell()["streams"]["ctl"]["gates"]["inside"]) >= 398, "{}", run.cell());
    }
    assert_ne!(print(&sound.results), print(&other.results), "a microsecond more");
    let ctl = &small.cell()["streams"]["ctl"];
    let not_sent = number(&ctl["outcomes"]["not_sent"]);
    assert!(not_sent > 0, "{ctl}");
    assert_eq!(number(&ctl["outcomes"]["lost"]), 0, "what was dropped is no loss: {ctl}");
    assert_eq!(number(&ctl["not_sent_why"]["launch_missed"]), not_sent, "{ctl}");
    assert!(small.ids("invalid").contains(&"launch-drops".to_owned()), "{:?}", small.ids("invalid"));
    assert!(!small.ids("invalid").contains(&"loss".to_owned()), "{:?}", small.ids("invalid"));
}

#[test]
fn what_etf_drops_of_port_packet_is_counted_once() {
    if !can_run("what_etf_drops_of_port_packet_is_counted_once") {
        return;
    }
    // The sender wakes too late for its launch times: etf refuses packets and reports it, and the
    // call of a packet socket fails too.
    let late = ["count=400", "port=packet", "tx.advance=2us"].map(|set| format!("stream.ctl.{set}"));
    let args = [&late[0], "--set", &late[1], "--set", &late[2], "--set", "shaper.etf.delta=1us"];
    let (place, run) = run("mqprio-etf", &[&["--set"], &args[..]].concat());
    let ctl = &run.cell()["streams"]["ctl"];
    let invalid = number(&ctl["not_sent_why"]["launch_invalid"]);
    let missed = ctl["not_sent_why"]["launch_missed"].as_u64().unwrap_or(0);
    assert!(invalid > 0, "{ctl}");
    assert_eq!(
        (number(&ctl["outcomes"]["not_sent"]), number(&ctl["outcomes"]["lost"])),
        (invalid + missed, 0),
        "{ctl}"
    );
    let record = std::fs::read(place.out().join("trials/all/1/trial.json")).expect("a record");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    let counters = &record["streams"]["ctl"]["counters"];
    assert_eq!((number(&counters["send_errors"]), number(&counters["sent"])), (0, 400), "{counters}");
    assert_eq!(number(&counters["launch_invalid"]), invalid, "{counters}");
    let invalid = run.ids("invalid");
    assert!(invalid.contains(&"launch-drops".to_owned()), "{invalid:?}");
    assert!(!invalid.contains(&"send-errors".to_owned()) && !invalid.contains(&"loss".to_owned()), "{invalid:?}");
}

/// Every queue discipline, each a case: its name, the kind whose packets are counted, what it sets.
const EACH: [(&str, &str, &str); 8] = [
    ("mqprio", "mqprio", "'shaper.kind'='mqprio'"),
    ("mqprio-etf", "etf", "'shaper.kind'='mqprio','shaper.etf.classes'=[0],'shaper.etf.delta'='300us',LAUNCH"),
    ("cbs", "cbs", "'shaper.kind'='cbs','shaper.cbs.classes'=[0],'shaper.cbs.idleslope'='20Mbit'"),
    ("etf", "etf", "'shaper.kind'='etf','shaper.etf.delta'='300us',LAUNCH"),
    ("etf-skip", "etf", "'shaper.kind'='etf','shaper.etf.delta'='300us','shaper.etf.skip_sock_check'=true,LAUNCH"),
    (
        "etf-deadline",
        "etf",
        "'shaper.kind'='etf','shaper.etf.delta'='300us','shaper.etf.deadline_mode'=true,'stream.ctl.launch'='deadline',\
         'stream.ctl.tx.advance'='600us'",
    ),
    ("taprio", "taprio", "'shaper.kind'='taprio','shaper.entries'=['0 500us','1 500us']"),
    (
        "assist",
        "etf",
        "'shaper.kind'='taprio','shaper.entries'=['0 500us','1 500us'],'shaper.mode'='txtime-assist',\
         'shaper.txtime_delay'='400us','shaper.etf.delta'='300us'",
    ),
];
const LAUNCH: &str = "'stream.ctl.launch'='strict','stream.ctl.tx.advance'='600us'";

/// An experiment of these cases.
fn cases(of: &[(&str, &str, &str)]) -> String {
    let head = tardy_tests::experiment("read back");
    let case = |(name, _, set): &(&str, &str, &str)| {
        format!("[[case]]\nname='{name}'\nset={{{}}}\n", set.replace("LAUNCH", LAUNCH))
    };
    of.iter().fold(head.to_owned(), |text, it| text + &case(it))
}

/// Runs each queue discipline on a kernel: what is read back is what was asked for, and packets go
/// through.
pub fn each_on(kernel: &str) {
    let (place, read) = own_on(kernel, &cases(&EACH));
    assert_eq!(read.code, Some(0), "{kernel}: {}", read.stderr);
    for (id, kind, _) in EACH {
        let told = says(cell(&read, id), "shaper");
        assert_eq!(told, [""; 0], "{kernel} {id}: what is read back is what was asked for");
        assert_eq!(number(&cell(&read, id)["streams"]["ctl"]["outcomes"]["received"]), 40, "{kernel} {id}");
        let record = std::fs::read(place.out().join(format!("trials/{id}/1/trial.json"))).expect("a record");
        let record: Value = serde_json::from_slice(&record).expect("JSON");
        let shaper = &record["shapers"]["a"];
        assert_eq!(shaper["differs"].as_array().map(Vec::len), Some(0), "{kernel} {id}: {shaper}");
        let qdiscs = shaper["qdiscs"].as_array().unwrap_or_else(|| panic!("{id}: nothing was read back: {record}"));
        // With the lead-in, through the queue discipline that was asked for.
        let through = qdiscs.iter().filter(|qdisc| qdisc["kind"] == kind).filter_map(|qdisc| qdisc["packets"].as_u64());
        assert!(through.max() >= Some(40), "{kernel} {id}: {shaper}");
    }
}

#[test]
fn each_queue_discipline_is_read_back_as_it_was_asked_for() {
    if can_run("each_queue_discipline_is_read_back_as_it_was_asked_for") {
        each_on(KERNEL);
    }
}

#[test]
fn what_tc_prints_of_a_shaper_is_what_its_file_says() {
    if !can_run("what_tc_prints_of_a_shaper_is_what_its_file_says") {
        return;
    }
    // The comparison of what was read back could pass over what tc does not print, so here the
    // test checks tc's own words.
    let assist = EACH.iter().find(|(id, ..)| *id == "assist").expect("it is one of them");
    let (place, run) = own(&cases(&[*assist]));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let manifest = crate::exact::manifest(&place);
    let read = manifest["read_back"].as_array().expect("what was read back").iter();
    let qdiscs: Vec<&Value> = read.filter_map(|read| read["says"].as_array()).flatten().collect();
    let root = qdiscs.iter().find(|qdisc| qdisc["kind"] == "taprio").unwrap_or_else(|| panic!("no taprio: {manifest}"));
    let options = &root["options"];
    assert_eq!((&options["flags"], &options["txtime_delay"]), (&"0x1".into(), &400_000.into()), "{root}");
    assert_eq!((&options["clockid"], &options["cycle_time"]), (&"TAI".into(), &1_000_000.into()), "{root}");
    let gates: Vec<_> = options["schedule"].as_array().expect("entries").iter().map(|it| &it["gatemask"]).collect();
    assert_eq!(gates, ["0x1", "0x2"], "{root}");
    let etfs: Vec<&&Value> = qdiscs.iter().filter(|qdisc| qdisc["kind"] == "etf").collect();
    assert_eq!(etfs.len(), 4, "one for each queue: {manifest}");
    for etf in etfs {
        let options = &etf["options"];
        assert_eq!((&options["skip_sock_check"], &options["deadline_mode"]), (&"on".into(), &"off".into()), "{etf}");
        assert_eq!((&options["delta"], &options["clockid"]), (&300_000.into(), &"TAI".into()), "{etf}");
    }
}

#[test]
fn what_a_kernel_refuses_ends_the_run_in_its_own_words() {
    if !can_run("what_a_kernel_refuses_ends_the_run_in_its_own_words") {
        return;
    }
    // A veth pair shapes nothing by itself, and that is all the run has.
    let (place, refused) = own(tardy_tests::experiment("refused"));
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stdout.contains("Error: "), "the kernel's own words: {}", refused.stdout);
    assert!(!place.events().iter().any(|event| event["event"] == "trial"), "no packet");
}

#[test]
fn tags_go_over_vlan_devices_and_through_packet_sockets() {
    if !can_run("tags_go_over_vlan_devices_and_through_packet_sockets") {
        return;
    }
    let tag = ["--set", "stream.ctl.count=60", "--set", "stream.ctl.vlan=100", "--set", "stream.ctl.pcp=5"];
    let with = |port: &str| {
        let port = format!("stream.ctl.port={port}");
        run("host-to-host", &[&tag[..], &["--set", "stream.ctl.priority=3", "--set", &port]].concat())
    };
    let (place, udp) = with("udp");
    assert_eq!(udp.code, Some(0), "{}", udp.stderr);
    assert_eq!(udp.outcome("received"), 60);
    let commands = std::fs::read_to_string(place.out().join("commands.sh")).expect("what was done");
    assert!(commands.contains("type vlan id 100 egress-qos-map 3:5"), "{commands}");
    assert!(udp.ids("note").contains(&"vlan-pcp".to_owned()), "it went unchecked: {:?}", udp.ids("note"));
    let (place, packet) = with("packet");
    assert_eq!(packet.code, Some(0), "{}", packet.stderr);
    assert_eq!(packet.outcome("received"), 60);
    let record = std::fs::read_to_string(place.out().join("trials/all/1/trial.json")).expect("a record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert!(record["streams"]["ctl"]["tags"].is_object(), "{record}");
}

fn measured_on(kernel: &str) -> (Place, Finished) {
    let place = Place::new();
    let run = place.call(place.run(&["--in", "guest:exact", "--kernel", kernel]).args(SHORT).arg("--json"));
    run.ran();
    (place, run)
}

#[test]
fn a_kernel_named_by_its_file_is_that_kernel() {
    if !can_run("a_kernel_named_by_its_file_is_that_kernel") {
        return;
    }
    let image = kernel::find(&kernel::cache(), KERNEL).expect("it was fetched").image;
    let (place, by_file) = measured_on(&image.display().to_string());
    assert_eq!(manifest(&place)["guest"]["kernel"], image.display().to_string());
    // Its modules were found next to it, and nothing else of that name gets in.
    assert_eq!(print(&by_file.results), print(&first().run.results));
}

#[test]
fn every_kernel_of_debians_boots_repeats_and_shapes() {
    if !can_run("every_kernel_of_debians_boots_repeats_and_shapes") {
        return;
    }
    let soak = std::env::var_os("TARDY_SOAK").is_some();
    let others = kernel::DEBIAN.iter().filter(|debian| soak && debian.name != KERNEL);
    let mut prints = vec![print(&first().run.results).to_owned()];
    for debian in others {
        // A run fetches what is missing.
        let ((place, a), (_, b)) = (measured_on(debian.name), measured_on(debian.name));
        assert_eq!(print(&a.results), print(&b.results), "{}", debian.name);
        let manifest = manifest(&place);
        let version = manifest["guest"]["proc_version"].as_str().expect("/proc/version").to_owned();
        assert_eq!(version.contains("PREEMPT_RT"), debian.name.ends_with("-rt"), "{version}");
        eprintln!("{}: {version}", debian.name);
        prints.push(print(&a.results).to_owned());
        // That of the layer is asked in shapers.rs.
        each_on(debian.name);
    }
    let all = prints.len();
    prints.sort();
    prints.dedup();
    assert_eq!(prints.len(), all, "no two kernels take the same number of instructions");
}

#[test]
fn the_point_that_is_told_is_the_one_that_the_figures_show() {
    if !can_run("the_point_that_is_told_is_the_one_that_the_figures_show") {
        return;
    }
    let soak = std::env::var_os("TARDY_SOAK").is_some();
    for debian in kernel::DEBIAN.iter().filter(|debian| soak || debian.name == KERNEL) {
        let place = Place::new();
        let file = place.path("moved.toml");
        std::fs::write(&file, tardy_tests::experiment("moved")).expect("a file");
        let run = place.call(place.run(&["--in", "guest:exact", "--kernel", debian.name, "--json"]).arg(&file));
        let kernel = debian.name;
        assert_eq!(run.code, Some(0), "{kernel}: {}", run.stderr);
        let cells = run.results["cells"].as_array().expect("cells");
        let ctl = |id: &str| {
            &cells.iter().find(|cell| cell["id"] == id).unwrap_or_else(|| panic!("no cell {id}"))["streams"]["ctl"]
        };
        let on_the_way = |of: &Value| of["metrics"]["tx_kernel..rx_kernel"]["p50_ns"].as_i64().expect("a figure");
        for (port, moves_to) in [("udp", "local-delivery"), ("packet", "packet-socket")] {
            let (without, with) = (ctl(port), ctl(&format!("{port}-strict")));
            assert!(without["rx_kernel_at"].is_null(), "{kernel}: {without}");
            let [near, far] = [without, with].map(on_the_way);
            eprintln!("{kernel} {port}: {near} ns without, {far} ns with launch times, at {}", with["rx_kernel_at"]);
            if with["rx_kernel_at"] == "arrival" {
                assert!(far * 4 < near * 5, "{kernel} {port}: {near} ns without, {far} ns with launch times");
            } else {
                assert_eq!(with["rx_kernel_at"], moves_to, "{kernel}");
                assert!(far * 4 > near * 5, "{kernel} {port}: {near} ns without, {far} ns with launch times");
            }
        }
        let clears = debian.name.starts_with("debian:6.1") && !debian.name.starts_with("debian:6.12");
        assert_eq!(ctl("udp-strict")["rx_kernel_at"] == "arrival", clears, "{kernel}");
    }
}

fn offloaded() -> (Place, Finished) {
    let place = Place::new();
    let file = place.path("offload.toml");
    std::fs::write(&file, tardy_tests::experiment("offload")).expect("a file");
    let mut command = place.run(&["--in", "guest:exact", "--kernel", KERNEL, "--json"]);
    let run = place.call(command.arg(&file));
    (place, run)
}

fn is_built() -> bool {
    let fetched = kernel::fetched(&kernel::cache(), KERNEL);
    fetched.is_some_and(|fetched| fetched.built.iter().any(|built| built.name == "netdevsim"))
}

#[test]
fn a_device_that_gates_nothing_is_invalid_by_rule_and_one_that_is_missing_refused() {
    if !can_run("a_device_that_gates_nothing_is_invalid_by_rule_and_one_that_is_missing_refused") {
        return;
    }
    let soak = std::env::var_os("TARDY_SOAK").is_some();
    if soak {
        let mut fetch = Command::new(crate::command::tardy());
        let built = fetch.args(["guest", "fetch", KERNEL, "--with", "netdevsim"]).output().expect("tardy runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        assert!(is_built());
    }
    let (place, run) = offloaded();
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    let cells = run.results["cells"].as_array().expect("cells");
    let [software, offload, plain] = &cells[..] else { panic!("three cells: {}", run.stdout) };
    let ids = |cell: &serde_json::Value| -> Vec<String> {
        let verdicts = cell["verdicts"].as_array().expect("verdicts").iter();
        verdicts.filter(|it| it["level"] == "invalid").map(|it| it["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(software), [""; 0], "{software}");
    let metrics = offload["streams"]["ctl"]["metrics"].as_object().expect("what was asked for");
    assert!(metrics.values().all(|metric| metric["count"] == 0), "it prints no latency: {metrics:?}");
    if !is_built() {
        assert_eq!((ids(offload), ids(plain)), (vec!["refused".to_owned()], vec!["refused".to_owned()]));
        return;
    }
    assert_eq!(ids(offload), ["no-gates"], "{offload}");
    assert_eq!(offload["trials"].as_array().map(Vec::len), Some(1), "it was run");
    // What crosses it is there: it is a path like another where no gates are asked of it.
    assert_eq!(ids(plain), [""; 0], "{plain}");
    assert_eq!(plain["streams"]["ctl"]["outcomes"]["received"], 100, "{plain}");
    let commands = std::fs::read_to_string(place.out().join("commands.sh")).expect("commands");
    assert!(commands.contains("flags 0x2") && commands.contains("link_device"), "{commands}");
    assert!(manifest(&place)["guest"]["proc_version"].is_string());
    // Built again it is the same module, and the run the same run.
    let before = kernel::fetched(&kernel::cache(), KERNEL).map(|fetched| fetched.built);
    let first = print(&run.results).to_owned();
    if soak {
        let mut fetch = Command::new(crate::command::tardy());
        let built = fetch.args(["guest", "fetch", KERNEL, "--with", "netdevsim"]).output().expect("tardy runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        assert_eq!(kernel::fetched(&kernel::cache(), KERNEL).map(|fetched| fetched.built), before);
    }
    assert_eq!(print(&self::offloaded().1.results), first);
}

#[test]
fn igb_is_stamped_by_the_device_or_refused_with_the_version() {
    if !can_run("igb_is_stamped_by_the_device_or_refused_with_the_version") {
        return;
    }
    let place = Place::new();
    let mut command = place.run(&["igb", "--in", "guest:exact", "--kernel", KERNEL, "--trials", "1", "--json"]);
    let run = place.call(command.args(["--set", "stream.ctl.count=100"]));
    // The run takes the QEMU that was built for it, if there is one, and else the machine's.
    let built = emulator::found(&kernel::cache());
    let program = built.map_or_else(|| process::PROGRAM.into(), |(program, _)| program);
    let version = process::version(&program).expect("it is here");
    let major = version.split("version ").nth(1).and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    if major.is_none_or(|major| major < 8) {
        assert_eq!(run.code, Some(3), "{}", run.stderr);
        assert!(run.stderr.contains("igb") && run.stderr.contains(&version), "{}", run.stderr);
        assert!(!place.out().join("guest").join(qemu::CONSOLE).exists(), "nothing was started");
        return;
    }
    run.ran();
    let metric = run.metric("tx_kernel..tx_hw");
    assert_eq!((&metric["count"], &metric["source"]), (&100.into(), &"emulated".into()), "{metric}");
    assert!(metric["min_ns"].as_i64() > Some(0), "the driver comes before the device: {metric}");
}
