// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies in guests: the kernel's own test of DMA controllers, on controllers in software; and a
//! CPU that goes offline under a thread that is bound to it.

use crate::command::{Place, tardy};
use crate::rig::rig_with;
use crate::{KERNEL, can_run};
use serde_json::Value;
use std::process::Command;
use tardy_lab::guest::kernel;

/// True if the module is there for the kernel; in the soak it is built where it is not.
fn has_dmatest(test: &str) -> bool {
    let is_built = || {
        let fetched = kernel::fetched(&kernel::cache(), KERNEL);
        fetched.is_some_and(|fetched| fetched.built.iter().any(|built| built.name == "dmatest"))
    };
    if std::env::var_os("TARDY_SOAK").is_some() && !is_built() {
        let mut fetch = Command::new(tardy());
        let built = fetch.args(["guest", "fetch", KERNEL, "--with", "dmatest"]).output().expect("tardy runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
    if !is_built() {
        tardy_tests::skip(test, "dmatest is not built for the kernel (tardy guest fetch --with dmatest)");
    }
    is_built()
}

#[test]
fn every_channel_of_the_kernels_dmatest_has_the_figures_that_the_kernel_prints() {
    const TEST: &str = "every_channel_of_the_kernels_dmatest_has_the_figures_that_the_kernel_prints";
    if !can_run(TEST) || !has_dmatest(TEST) {
        return;
    }
    let place = Place::new();
    let mut command = Command::new(tardy());
    command.args(["run", "copy", "--in", "guest", "--kernel", KERNEL, "--json", "--trials", "2", "--out"]);
    command.arg(place.out()).env("TARDY_STATE", place.state());
    for key in ["backend=dmatest", "controllers=2", "channels=2", "threads=2", "buffers=1", "bytes=16KiB"] {
        command.args(["--set", &format!("copy.{key}")]);
    }
    let ran = place.call(command.args(["--set", "copy.iterations=200"]));
    assert!(matches!(ran.code, Some(0 | 4)), "{:?}: {}", ran.code, ran.stderr);
    let results: Value = serde_json::from_str(&ran.stdout).expect("results");
    let copy = &results["cells"][0]["streams"]["copy"]["copy"];
    assert_eq!(copy["provider"], "tardy_softdma", "{copy:#}");
    assert_eq!(copy["bytes"], 8 * 200 * 16_384, "all threads did all their tests");
    let threads = copy["kernel"].as_array().expect("the kernel's figures");
    assert_eq!(threads.len(), 8);
    for (number, of) in threads.iter().enumerate() {
        // The line again, by a way of its own.
        let line = of["line"].as_str().expect("a line");
        let (channel, thread) = (number / 2, number % 2);
        let who = format!("dmatest: dma{}chan{}-copy{thread}: summary ", channel / 2, channel % 2);
        let rest = line.strip_prefix(&who).unwrap_or_else(|| panic!("{line} is not of {who}"));
        let iops = of["iops"].as_f64().expect("a rate");
        let again =
            format!("{} tests, {} failures {iops:.2} iops {} KB/s (0)", of["tests"], of["failures"], of["kb_s"]);
        assert_eq!(rest, again);
        // Its two figures are of one time: KB/s are of whole buffers.
        let kb_s = of["kb_s"].as_f64().expect("a rate");
        assert!((iops * 16.0 - kb_s).abs() <= 1.0 + 0.01 * kb_s, "{line}");
    }
    let figure = |name: &str| copy[name].as_f64().expect("a figure");
    assert!(figure("sum_bytes_s") >= figure("wall_bytes_s") * 0.999, "{copy:#}");
    assert!(figure("parallelism") > 0.0 && figure("parallelism") <= 4.1, "four channels copy: {copy:#}");
}

#[test]
fn a_machine_without_dmatest_says_what_brings_it() {
    let place = Place::new();
    let mut command = Command::new(tardy());
    command.args(["run", "copy", "--set", "copy.backend=dmatest", "--set", "copy.buffers=1", "--trials", "1", "--out"]);
    let ran = place.call(command.arg(place.out()).env("TARDY_STATE", place.state()));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("tardy guest fetch --with dmatest"), "{}", ran.stderr);
    assert!(!place.out().exists(), "a folder was made");
}

#[test]
fn a_cpu_that_goes_offline_under_a_bound_thread_spoils_the_copy() {
    const TEST: &str = "a_cpu_that_goes_offline_under_a_bound_thread_spoils_the_copy";
    let Some(rig) = rig_with(TEST, 2, "") else { return };
    rig.does_there("cat /usr/bin/modprobe >/tmp/tardy; chmod 755 /tmp/tardy");
    let copies = "/tmp/tardy run copy --trials 1 --json --set copy.threads=2 --set copy.bind=spread --set copy.bytes=256KiB \
                  --set copy.iterations=20000 --set copy.longest=12s --out /tmp/run";
    // Once its threads are there, and some more.
    let line = format!(
        "{copies} >/tmp/json 2>/tmp/said & runs=$!; while ! cat /proc/$runs/task/*/comm 2>/dev/null | sed -n '/tardy-copy-1/q1'; \
         do sleep 0.2; done 2>/dev/null; sleep 3; echo 0 >/sys/devices/system/cpu/cpu1/online; wait $runs; echo $?; \
         echo 1 >/sys/devices/system/cpu/cpu1/online; cat /tmp/said >&2"
    );
    let output = rig.there(&line);
    let (code, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(code.trim(), "4", "{said}");
    let results: Value =
        serde_json::from_str(&rig.does_there("cat /tmp/json")).unwrap_or_else(|error| panic!("{error}: {said}"));
    let verdicts = results["cells"][0]["verdicts"].as_array().expect("verdicts");
    let policy = verdicts.iter().find(|verdict| verdict["id"] == "policy").unwrap_or_else(|| panic!("{verdicts:#?}"));
    let says = policy["says"].as_str().expect("words");
    assert!(says.contains("CPU 1") && says.contains("went offline"), "{says}");
    let outcomes = &results["cells"][0]["streams"]["copy"]["outcomes"];
    assert!(outcomes["received"].as_u64() > Some(0), "{outcomes}");
    // Nothing of it is left.
    let left = rig.does_there("for of in /proc/[0-9]*/comm; do cat $of 2>/dev/null; done | sed -n '/tardy/p'");
    assert_eq!(left.trim(), "", "{left}");
}

#[test]
fn what_the_kernels_dmatest_refuses_is_one_error_that_says_what() {
    const TEST: &str = "what_the_kernels_dmatest_refuses_is_one_error_that_says_what";
    if !can_run(TEST) || !has_dmatest(TEST) {
        return;
    }
    let refused = [
        (["channels=3", "bytes=4KiB"], "1 × 3 were asked for (controllers × channels)"),
        (["channels=1", "bytes=8GiB"], "refuses \"8589934592\" for its parameter test_buf_size"),
    ];
    for (keys, why) in refused {
        let place = Place::new();
        let mut command = Command::new(tardy());
        command.args(["run", "copy", "--in", "guest", "--kernel", KERNEL, "--trials", "1", "--out"]);
        command.arg(place.out()).env("TARDY_STATE", place.state());
        for key in [&["backend=dmatest", "buffers=1", "iterations=10"], &keys[..]].concat() {
            command.args(["--set", &format!("copy.{key}")]);
        }
        let ran = place.call(&mut command);
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
        assert_eq!(ran.stderr.matches("refused, nothing is measured of it").count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn copies_by_the_cpu_of_a_guest_made_no_sense() {
    const TEST: &str = "copies_by_the_cpu_of_a_guest_made_no_sense";
    if !can_run(TEST) {
        return;
    }
    for how in ["guest", "guest:exact"] {
        let place = Place::new();
        let mut command = Command::new(tardy());
        command.args(["run", "copy", "--in", how, "--kernel", KERNEL, "--json", "--trials", "1", "--out"]);
        command.arg(place.out()).env("TARDY_STATE", place.state());
        for key in ["threads=2", "bytes=256B", "iterations=50", "from=locked", "to=locked"] {
            command.args(["--set", &format!("copy.{key}")]);
        }
        let ran = place.call(&mut command);
        assert!(matches!(ran.code, Some(0 | 4)), "{how}: {:?}: {}", ran.code, ran.stderr);
        let results: Value = serde_json::from_str(&ran.stdout).expect("results");
        let copy = &results["cells"][0]["streams"]["copy"]["copy"];
        assert_eq!(copy["bytes"], 2 * 50 * 48 * 256, "{how}: {copy:#}");
    }
}
