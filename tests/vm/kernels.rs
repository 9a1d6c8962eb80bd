// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other kernels than the layer's own: one named by its file, and in the soak each that can be
//! fetched. And where a kernel takes `rx_kernel` of packets that have launch times, seen in the
//! figures: farther from the driver than without, except on a kernel that clears launch times on
//! the way.

use crate::command::{Finished, Place};
use crate::exact::{first, manifest, print};
use crate::guest::{KERNEL, SHORT, can_run};
use crate::shapers::each_on;
use serde_json::Value;
use tardy_lab::guest::kernel;

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
