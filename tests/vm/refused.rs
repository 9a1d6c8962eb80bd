// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest cannot do is refused before one is started. Guests that break, and runs that are
//! ended, end as they would on this machine: tardy reports the last words of the console, keeps
//! what was measured, and no QEMU outlives it.

use crate::command::{Place, wait};
use crate::{SHORT, can_run, exact, is_gone, qemu_of, qemus};
use std::process::Child;
use std::time::Duration;
use tardy_sys::process::signal;

#[test]
fn a_different_cpu_that_was_asked_for_is_refused_with_the_reason() {
    if !can_run("a_different_cpu_that_was_asked_for_is_refused_with_the_reason") {
        return;
    }
    let refused = |run: crate::command::Finished, place: &Place| {
        assert_eq!(run.code, Some(3), "{}", run.stderr);
        assert!(run.stderr.contains("stream.ctl.rx.cpu is \"different\""), "{}", run.stderr);
        assert!(run.stderr.contains("has one processor"), "{}", run.stderr);
        assert!(!place.out().exists(), "before anything is made");
    };
    let place = Place::new();
    refused(place.call(exact(&place, &SHORT).args(["--set", "stream.ctl.rx.cpu=different"])), &place);
    let file = place.path("own.toml");
    let text = include_str!("../../experiments/host-to-host.toml");
    std::fs::write(&file, text).expect("written");
    let mut command = place.run(&["--in", "guest:exact"]);
    refused(place.call(command.arg(&file)), &place);
}

#[test]
fn who_wrote_nothing_of_cpus_is_run_and_told_that_one_was_shared() {
    if !can_run("who_wrote_nothing_of_cpus_is_run_and_told_that_one_was_shared") {
        return;
    }
    let place = Place::new();
    let file = place.path("own.toml");
    let text = tardy_tests::experiment("stream from a to b").to_owned() + "cycle = \"1ms\"\ncount = 100\n";
    std::fs::write(&file, text).expect("written");
    let mut command = place.run(&["--in", "guest:exact", "--trials", "1", "--json"]);
    let run = place.call(command.arg(&file));
    run.ran();
    assert_eq!(run.outcome("received"), 100);
    // A default that is not available there is worth a note, once.
    assert!(run.ids("note").contains(&"placement".to_owned()), "{}", run.stdout);
    assert_eq!(run.ids("warning"), Vec::<String>::new(), "{}", run.stdout);
}

#[test]
fn different_is_refused_in_exact_time_in_whatever_form_it_was_said() {
    if !can_run("different_is_refused_in_exact_time_in_whatever_form_it_was_said") {
        return;
    }
    for (set, key) in [
        ("stream.ctl.rx={cpu=\"different\"}", "stream.ctl.rx.cpu"),
        ("station.b.softirq=different", "station.b.softirq"),
        ("load.bulk.peer_cpu=different", "load.bulk.peer_cpu"),
    ] {
        let place = Place::new();
        let run = place.call(&mut place.run(&["mqprio-etf", "--in", "guest:exact", "--set", set]));
        assert_eq!(run.code, Some(3), "{set}: {}", run.stderr);
        assert!(run.stderr.contains(&format!("{key} is \"different\"")), "{set}: {}", run.stderr);
        assert!(!place.out().exists(), "{set}: before anything is made");
    }
}

#[test]
fn a_time_of_silence_that_is_no_number_is_wrong_usage() {
    if !can_run("a_time_of_silence_that_is_no_number_is_wrong_usage") {
        return;
    }
    for wrong in ["abc", "0", "-5", ""] {
        let place = Place::new();
        let run = place.call(exact(&place, &SHORT).env("TARDY_GUEST_SILENCE_S", wrong));
        assert_eq!(run.code, Some(2), "{wrong:?}: {}", run.stderr);
        assert!(run.stderr.contains("TARDY_GUEST_SILENCE_S"), "{wrong:?}: {}", run.stderr);
        assert!(!place.out().exists(), "{wrong:?}: before anything is made");
    }
}

#[test]
fn a_wire_is_no_guests() {
    if !can_run("a_wire_is_no_guests") {
        return;
    }
    let place = Place::new();
    let file = place.path("wire.toml");
    let wire = tardy_tests::experiment("wire between two cards");
    let text = wire.replace("enp1s0", "eth7").replace("enp2s0", "eth8") + "cycle = \"1ms\"\ncount = 10\n";
    std::fs::write(&file, text).expect("written");
    let run = place.call(exact(&place, &[]).arg(&file));
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("devices of this machine"), "{}", run.stderr);
}

#[test]
fn a_kernel_that_nobody_knows_is_wrong_usage() {
    if !can_run("a_kernel_that_nobody_knows_is_wrong_usage") {
        return;
    }
    let place = Place::new();
    let run = place.call(&mut place.run(&["--in", "guest", "--kernel", "debian:0.99"]));
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("`debian:6.12`"), "{}", run.stderr);
    let file = place.path("vmlinuz");
    std::fs::write(&file, "no kernel").expect("written");
    let run = place.call(place.run(&["--in", "guest"]).arg("--kernel").arg(&file));
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("no bootable image"), "{}", run.stderr);
}

#[test]
fn what_the_run_inside_cannot_do_has_its_exit_code_and_its_words() {
    if !can_run("what_the_run_inside_cannot_do_has_its_exit_code_and_its_words") {
        return;
    }
    let place = Place::new();
    let run = place.call(exact(&place, &SHORT).args(["--set", "stream.ctl.rx.cpu=5"]));
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("in the guest: ") && run.stderr.contains("CPU 5 was asked for"), "{}", run.stderr);
}

#[test]
fn a_guest_in_real_time_measures_and_says_what_it_is() {
    if !can_run("a_guest_in_real_time_measures_and_says_what_it_is") {
        return;
    }
    let place = Place::new();
    let run = place.call(place.run(&["--in", "guest"]).args(SHORT).arg("--json"));
    run.ran();
    assert!(run.results["fingerprint"].is_null(), "its figures are not repeatable");
    assert!(run.ids("note").contains(&"guest".to_owned()), "{:?}", run.ids("note"));
    let trials = run.cell()["trials"].as_array().expect("trials");
    assert_eq!(trials.len(), 2);
    // How many come in time is the machine's affair, and how valid they are the report's.
    for outcomes in trials.iter().map(|trial| &trial["streams"]["ctl"]["outcomes"]) {
        assert_eq!(outcomes["intended"], 300);
        assert!(outcomes["received"].as_u64().is_some_and(|n| n > 0), "{outcomes}");
    }
    // How late the emulator's timer is, is the host's affair; that its latencies are not valid
    // when it is late by milliseconds is not.
    let manifest = std::fs::read(place.out().join("manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
    let ruler = manifest["ruler"].as_array().expect("a ruler").iter();
    let of_sender = ruler.filter(|record| record["threads"][0] == "ctl.tx").filter_map(|r| r["timer_p99_ns"].as_i64());
    let woke = run.metric("scheduled..wakeup")["p99_ns"].as_i64();
    let latest = of_sender.chain(woke).max().expect("a timer");
    let told = run.ids("invalid").contains(&"guest-timer".to_owned());
    assert_eq!(told, latest >= 1_000_000, "{latest} ns: {}", run.stdout);
    assert!(!told || run.code == Some(4), "{:?}", run.code);
}

/// Trials that take seconds each, and more of them than anybody waits for.
const LONG: [&str; 4] = ["--trials", "30", "--set", "stream.ctl.count=20000"];

#[test]
fn a_panic_is_told_with_the_consoles_end() {
    if !can_run("a_panic_is_told_with_the_consoles_end") {
        return;
    }
    let place = Place::new();
    let run = place.call(exact(&place, &SHORT).args(["--append", "rdinit=/there-is-no-such-program"]));
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("the guest panicked before the run was over"), "{}", run.stderr);
    assert!(run.stderr.contains("Kernel panic - not syncing"), "{}", run.stderr);
    let console = std::fs::read_to_string(place.out().join("guest/console.log")).expect("the console is kept");
    assert!(console.contains("Kernel panic"), "{console}");
}

#[test]
fn memory_that_ran_out_is_told_as_that() {
    if !can_run("memory_that_ran_out_is_told_as_that") {
        return;
    }
    let place = Place::new();
    // The kernel boots and cannot unpack the binary: with less memory it hangs before its console
    // says a word, and the binary grows.
    let binary_mib = std::fs::metadata(crate::command::tardy()).expect("tardy's binary").len() >> 20;
    let memory = format!("mem={}M", 2 * binary_mib + 40);
    let run = place.call(exact(&place, &SHORT).args(["--append", &memory]));
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("ran out of its"), "{}", run.stderr);
}

#[test]
fn a_guest_that_falls_silent_is_ended_within_its_bound() {
    if !can_run("a_guest_that_falls_silent_is_ended_within_its_bound") {
        return;
    }
    let place = Place::new();
    // A shell that waits for input for ever, instead of tardy.
    let mut command = exact(&place, &SHORT);
    let child = place.start(command.args(["--append", "rdinit=/bin/sh"]).env("TARDY_GUEST_SILENCE_S", "20"));
    let qemu = qemu_of(child.id());
    let run = place.finish(child);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("the guest has said nothing for"), "{}", run.stderr);
    assert!(run.stderr.contains("its console ends: "), "{}", run.stderr);
    // Where it hangs: here, idle in the kernel.
    assert!(run.stderr.contains("its processors: CPU#0 RIP=ffffffff"), "{}", run.stderr);
    let registers = std::fs::read_to_string(place.out().join("guest/registers.txt")).expect("its registers");
    assert!(registers.starts_with("CPU#0\nRAX=") && registers.contains(" CR3="), "{registers}");
    assert!(is_gone(qemu));
}

/// A long run that has kept its first trial, and its QEMU.
fn with_a_trial_kept(place: &Place) -> (Child, u32) {
    let child = place.start(&mut exact(place, &LONG));
    let qemu = qemu_of(child.id());
    wait(Duration::from_secs(120), || place.events().into_iter().find(|line| line["event"] == "trial_kept"))
        .expect("a trial");
    (child, qemu)
}

#[test]
fn what_was_measured_before_a_guest_died_stays() {
    if !can_run("what_was_measured_before_a_guest_died_stays") {
        return;
    }
    let place = Place::new();
    let (child, qemu) = with_a_trial_kept(&place);
    signal(qemu, libc::SIGKILL).expect("SIGKILL");
    let run = place.finish(child);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains("QEMU by signal 9"), "{}", run.stderr);
    let trials = run.cell()["trials"].as_array().expect("trials");
    assert!(!trials.is_empty() && trials.len() < 30, "{} trials", trials.len());
    assert_eq!(trials[0]["streams"]["ctl"]["outcomes"]["received"], 20_000);
    assert_eq!(run.ids("invalid"), ["failed"]);
}

#[test]
fn a_signal_ends_the_guest_and_what_was_measured_is_written() {
    if !can_run("a_signal_ends_the_guest_and_what_was_measured_is_written") {
        return;
    }
    let place = Place::new();
    let (child, qemu) = with_a_trial_kept(&place);
    signal(child.id(), libc::SIGINT).expect("SIGINT");
    let run = place.finish(child);
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    assert!(!run.cell()["trials"].as_array().expect("trials").is_empty());
    assert!(run.ids("warning").contains(&"interrupted".to_owned()), "{:?}", run.ids("warning"));
    assert!(is_gone(qemu));
    let slots = std::fs::read_dir(place.state().join("slots")).map_or(0, Iterator::count);
    assert_eq!(slots, 0, "nothing is left to undo");
}

#[test]
fn sigkill_of_tardy_leaves_no_qemu_and_undo_takes_the_files() {
    if !can_run("sigkill_of_tardy_leaves_no_qemu_and_undo_takes_the_files") {
        return;
    }
    // At its very start, while it boots, while it measures.
    for moment in ["", "guest_up", "trial"] {
        let place = Place::new();
        let mut child = place.start(&mut exact(&place, &LONG));
        let parent = child.id();
        let qemu = qemu_of(parent);
        if !moment.is_empty() {
            wait(Duration::from_secs(120), || place.events().into_iter().find(|line| line["event"] == moment))
                .expect("the moment comes");
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("it ends");
        assert!(is_gone(qemu), "QEMU outlives tardy, killed at `{moment}`");
        assert_eq!(qemus(parent), [0; 0]);
        let undo = place.undo();
        assert_eq!(undo.code, Some(0), "{}", undo.stderr);
        for file in ["initramfs", "port"] {
            assert!(!place.out().join("guest").join(file).exists(), "{file} is left, killed at `{moment}`");
        }
        let slots = std::fs::read_dir(place.state().join("slots")).map_or(0, Iterator::count);
        assert_eq!(slots, 0, "a slot is left, killed at `{moment}`");
    }
}
