// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies in guests: the kernel's own test of DMA controllers, and tardy's, on controllers in
//! software; and a CPU that goes offline under a thread that is bound to it.

use crate::command::{Place, tardy};
use crate::rig::rig_with;
use crate::{KERNEL, can_run, scripted};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use tardy_lab::guest::kernel;

/// True if the modules are there for the kernel; in the soak they are built where they are not.
fn has_dmatest(test: &str) -> bool {
    let is_built = || {
        let fetched = kernel::fetched(&kernel::cache(), KERNEL);
        // Those that an earlier version built have no test of tardy's own.
        let is_it = |path: &std::path::PathBuf| path.ends_with("tardy_sgtest.ko");
        fetched.is_some_and(|fetched| fetched.built.iter().any(|built| built.modules.keys().any(is_it)))
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

/// One line of the kernel's, read again by a way of its own: the thread, and the numbers behind it.
fn read_again(line: &str) -> (&str, Vec<u64>) {
    let rest = line.strip_prefix("tardy_sgtest: ").unwrap_or_else(|| panic!("{line}"));
    let (who, rest) = rest.split_once(": summary ").unwrap_or_else(|| panic!("{line}"));
    (who, rest.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect())
}

/// Removes a kernel module.
const UNLOAD: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    if (argc < 2 || syscall(SYS_delete_module, argv[1], O_NONBLOCK)) {
        perror(argc < 2 ? "which" : argv[1]);
        return 1;
    }
    return 0;
}
"#;

/// Copies without tracefs and with it, and what is there before the modules are gone, and after.
const CHAINS: &str = r#"for m in tardy_softdma dmatest tardy_sgtest; do modprobe $m; done
common="--trials 1 --json --set copy.controllers=2 --set copy.channels=2 --set copy.threads=2"
tardy run copy $common --set copy.backend=dmatest --set copy.buffers=1 --set copy.iterations=5 --out /tmp/a >/tmp/json 2>/dev/console
cat /tmp/json >/dev/ttyS1
echo == >/dev/ttyS1
mount -t tracefs tracefs /sys/kernel/tracing
mkdir /sys/kernel/tracing/instances/tardy-4194305
tardy run copy $common --set copy.backend=sgtest --set copy.buffers=4 --set copy.iterations=100 --out /tmp/b >/tmp/json 2>/dev/console
cat /tmp/json >/dev/ttyS1
echo == >/dev/ttyS1
cat /proc/tardy_sgtest >/dev/ttyS1
echo == >/dev/ttyS1
for of in /proc/[0-9]*/comm; do cat $of 2>/dev/null; done | sed -n '/^dma/p' >/dev/ttyS1
ls /sys/kernel/tracing/instances >/dev/ttyS1
for m in tardy_sgtest dmatest tardy_softdma; do /unload $m >/dev/ttyS1 2>&1; done
sed -n '/tardy\|dmatest/p' /proc/modules >/dev/ttyS1
ls /sys/class/dma >/dev/ttyS1
ls /proc >/tmp/proc
sed -n '/tardy/p' /tmp/proc >/dev/ttyS1
echo == >/dev/ttyS1
"#;

#[test]
fn chains_of_descriptors_go_over_every_channel_and_leave_nothing() {
    const TEST: &str = "chains_of_descriptors_go_over_every_channel_and_leave_nothing";
    if !can_run(TEST) || !has_dmatest(TEST) {
        return;
    }
    let place = Place::new();
    let (source, unload) = (place.path("unload.c"), place.path("unload"));
    fs::write(&source, UNLOAD).expect("a file");
    let built = Command::new("cc").args(["-static", "-O1", "-o"]).args([&unload, &source]).output().expect("cc runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let more = [("/unload", fs::read(&unload).expect("it was built"))];
    let modules = ["tardy_softdma", "dmatest", "tardy_sgtest"];
    let said = scripted::in_real_time(2, &modules, &["mount", "mkdir", "cat", "sed", "ls"], CHAINS, &place, &more);
    let said = said.replace('\r', "");
    let parts: Vec<&str> = said.split("==\n").collect();
    let [dmatest, sgtest, kept, left, _] = parts[..] else { panic!("{said}") };
    let copy_of = |text: &str| -> Value {
        let results: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {said}"));
        results["cells"][0]["streams"]["copy"].clone()
    };

    let dmatest = &copy_of(dmatest)["copy"];
    assert_eq!(dmatest["module"], "dmatest");
    let why = dmatest["contention"]["why"].as_str().unwrap_or_else(|| panic!("{dmatest:#}"));
    assert!(why.contains("tracefs is not mounted"), "{why}");
    assert_eq!(dmatest["contention"]["locks"].as_array().map(Vec::len), Some(0), "nothing is invented");

    let stream = copy_of(sgtest);
    let copy = &stream["copy"];
    assert_eq!((&copy["module"], &copy["provider"]), (&"tardy_sgtest".into(), &"tardy_softdma".into()));
    assert_eq!(copy["bytes"], 8 * 100 * 4 * 4_096, "{copy:#}");
    let pass = &stream["metrics"]["begin..end"];
    assert_eq!((&pass["count"], &pass["source"]), (&800.into(), &"kernel".into()), "each chain is a row");

    // The figures are those of the module's own lines.
    let (mut lines, mut of_threads) = (Vec::new(), vec![Vec::new(); 8]);
    for line in kept.lines() {
        match line.strip_prefix("tardy_sgtest: ") {
            Some(_) => lines.push(line),
            None => {
                let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
                of_threads[numbers[0] as usize].push(numbers[2] - numbers[1]);
            }
        }
    }
    let threads = copy["kernel"].as_array().expect("the threads' figures");
    let shown: Vec<&str> = threads.iter().map(|of| of["line"].as_str().expect("a line")).collect();
    assert_eq!(shown, lines);
    let mut channels = BTreeSet::new();
    for (of, took) in threads.iter().zip(&of_threads) {
        let (who, numbers) = read_again(of["line"].as_str().expect("a line"));
        assert_eq!(numbers[..5], [100, 100, 4, 4_096, 0], "{who}");
        assert_eq!((took.len(), took.iter().sum::<u64>()), (100, numbers[5]), "{who}: its passes make its line");
        assert_eq!((&of["tests"], &of["failures"]), (&400.into(), &0.into()));
        let iops = of["iops"].as_f64().expect("a rate");
        assert!((iops * numbers[5] as f64 / 4e11 - 1.0).abs() < 1e-6, "{of}");
        channels.insert(who);
    }
    let all = ["dma0chan0", "dma0chan1", "dma1chan0", "dma1chan1"];
    let all: BTreeSet<String> = all.iter().flat_map(|of| [format!("{of}-sg0"), format!("{of}-sg1")]).collect();
    assert_eq!(channels, all.iter().map(String::as_str).collect());
    let longest = of_threads.iter().flatten().max().copied();
    assert_eq!(pass["max_ns"].as_u64(), longest);

    // Debian's kernel has the tracepoints: either waits were seen, or there were none.
    let contention = &copy["contention"];
    assert_eq!((&contention["why"], &contention["lost"]), (&Value::Null, &0.into()), "{contention:#}");
    assert_eq!(contention["source"], "lock:contention_begin, lock:contention_end");
    for lock in contention["locks"].as_array().expect("a list") {
        let figure = |name: &str| lock[name].as_i64().unwrap_or_else(|| panic!("{name}: {lock}"));
        assert!(figure("waits") > 0 && figure("max_ns") <= figure("sum_ns"), "{lock}");
        assert!(figure("sum_ns") <= figure("waits") * figure("max_ns"), "{lock}");
        assert!(lock["kind"].as_str().is_some_and(|kind| !kind.is_empty()), "{lock}");
    }

    // Threads, tracing instances (that of a killed process too), modules, channels, the file.
    assert_eq!(left.trim(), "", "{left}");
}

#[test]
fn a_machine_without_dmatest_says_what_brings_it() {
    for (backend, module) in [("dmatest", "dmatest"), ("sgtest", "tardy_sgtest")] {
        let place = Place::new();
        let mut command = Command::new(tardy());
        command.args(["run", "copy", "--set", &format!("copy.backend={backend}"), "--set", "copy.buffers=1"]);
        command.args(["--trials", "1", "--out"]);
        let ran = place.call(command.arg(place.out()).env("TARDY_STATE", place.state()));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("needs the kernel module {module}")), "{}", ran.stderr);
        assert!(ran.stderr.contains("tardy guest fetch --with dmatest"), "{}", ran.stderr);
        assert!(!place.out().exists(), "a folder was made");
    }
}

#[test]
fn a_guest_brings_the_test_of_chains_by_itself() {
    const TEST: &str = "a_guest_brings_the_test_of_chains_by_itself";
    if !can_run(TEST) || !has_dmatest(TEST) {
        return;
    }
    let place = Place::new();
    let mut command = Command::new(tardy());
    command.args(["run", "copy", "--in", "guest", "--kernel", KERNEL, "--json", "--trials", "1", "--out"]);
    command.arg(place.out()).env("TARDY_STATE", place.state());
    for key in ["backend=sgtest", "controllers=2", "channels=2", "threads=2", "buffers=8", "bytes=64KiB"] {
        command.args(["--set", &format!("copy.{key}")]);
    }
    let ran = place.call(command.args(["--set", "copy.iterations=50"]));
    assert!(matches!(ran.code, Some(0 | 4)), "{:?}: {}", ran.code, ran.stderr);
    let results: Value = serde_json::from_str(&ran.stdout).expect("results");
    let copy = &results["cells"][0]["streams"]["copy"]["copy"];
    assert_eq!((&copy["module"], &copy["bytes"]), (&"tardy_sgtest".into(), &(8 * 50 * 8 * 65_536).into()));
    assert_eq!(copy["contention"]["why"], Value::Null, "tardy mounts tracefs there: {copy:#}");
    let report = place.call(Command::new(tardy()).arg("report").arg(place.out()));
    let plain = report.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plain.contains("tardy's own test module tardy_sgtest, which is not the kernel's dmatest"), "{plain}");
    assert!(plain.contains("8 descriptors a chain, on DMA controllers of tardy_softdma"), "{plain}");
    assert!(plain.contains("lock:contention_begin, lock:contention_end showed"), "{plain}");
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
