// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guests that break, and runs that are ended: tardy reports the console's last words, keeps what
//! was measured, and no QEMU outlives it.

use crate::command::{Place, wait};
use crate::guest::{SHORT, can_run, exact, is_gone, qemu_of, qemus};
use std::process::Child;
use std::time::Duration;
use tardy_sys::process::signal;

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
    let run = place.call(exact(&place, &SHORT).args(["--append", "mem=96M"]));
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
    assert!(run.ids("note").contains(&"interrupted".to_owned()), "{:?}", run.ids("note"));
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
