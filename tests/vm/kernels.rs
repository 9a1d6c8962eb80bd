// SPDX-License-Identifier: MIT OR Apache-2.0
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
use crate::shapers::each_on;
use crate::{KERNEL, SHORT, can_run};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tardy_lab::guest::{kernel, qemu};
use tardy_lab::host::qemu as process;

fn run(kernel: &str) -> (Place, Finished) {
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
    let (place, by_file) = run(&image.display().to_string());
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
        let ((place, a), (_, b)) = (run(debian.name), run(debian.name));
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
    let version = process::version(Path::new(process::PROGRAM)).expect("it is here");
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
