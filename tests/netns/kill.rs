// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals and deaths: nothing measured is lost, nothing changed is left behind.

use crate::command::{Finished, Place, SHORT, agents, can_run, machine, same, wait};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::time::{Duration, Instant};
use tardy_sys::process::signal;

#[test]
fn sigkill_at_random_moments_leaves_nothing_after_undo() {
    let test = "sigkill_at_random_moments_leaves_nothing_after_undo";
    // `make soak` asks for more moments of the same.
    let moments = if std::env::var_os("TARDY_SOAK").is_some() { 50 } else { 8 };
    if !can_run(test) {
        return;
    }
    let before = machine();
    // Any moment may be the bad one, so each run of this test draws others. It prints the seed if
    // it fails.
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for moment in 0..moments {
        let place = Place::new();
        let mut child = place.start(place.run(&["--trials", "4", "--set", "stream.ctl.count=400"]).arg("--json"));
        let after = Duration::from_millis(random.random_range(0..2_500));
        std::thread::sleep(after);
        child.kill().expect("SIGKILL");
        child.wait().expect("it ends");
        let told = format!("moment {moment} after {after:?}, seed {seed}");
        let gone = wait(Duration::from_secs(10), || agents(&place).is_empty().then_some(()));
        assert!(gone.is_some(), "agents outlive their coordinator: {:?} ({told})", agents(&place));
        let undo = place.undo();
        assert_eq!(undo.code, Some(0), "{} ({told})", undo.stderr);
        same(&before);
        let left = std::fs::read_dir(place.state().join("slots")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "a slot or journal is left ({told})");
        let kept = std::fs::read_dir(place.out().join("trials/all")).into_iter().flatten().flatten();
        let kept =
            kept.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok())).count();
        if !place.out().join("manifest.json").exists() {
            assert_eq!(kept, 0, "{told}");
            continue;
        }
        let report = place.call(place.command("report").arg(place.out()).args(["--format", "json"]));
        assert_eq!(report.code, Some(0), "{} ({told})", report.stderr);
        let results: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
        let trials = results["cells"][0]["trials"].as_array().expect("trials");
        assert_eq!(trials.len(), kept, "every finished trial reads back ({told})");
        assert!(trials.iter().all(|trial| trial["streams"]["ctl"]["outcomes"]["intended"] == 400), "{told}");
    }
}

#[test]
fn the_next_run_tells_of_what_a_killed_one_left() {
    if !can_run("the_next_run_tells_of_what_a_killed_one_left") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let mut child = place.start(&mut place.run(&SHORT));
    place.wait_for("built");
    child.kill().expect("SIGKILL");
    child.wait().expect("it ends");
    let next = Place::new();
    let run = next.call(next.run(&SHORT).env("TARDY_STATE", place.state()));
    run.ran();
    assert!(run.stderr.contains("tardy undo"), "{}", run.stderr);
    assert_eq!(place.undo().code, Some(0));
    same(&before);
}

#[test]
fn undo_counts_other_things_than_it_lists() {
    if !can_run("undo_counts_other_things_than_it_lists") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let mut child = place.start(&mut place.run(&SHORT));
    place.wait_for("built");
    child.kill().expect("SIGKILL");
    child.wait().expect("it ends");
    let next = Place::new();
    let run = next.call(next.run(&SHORT).env("TARDY_STATE", place.state()));
    let told = |text: &str, after: &str, before: &str| -> Option<usize> {
        let (_, number) = text.split_once(before)?.0.rsplit_once(after)?;
        number.parse().ok()
    };
    let changes = told(&run.stderr, "1 killed run left ", " changes behind");
    let undo = place.undo();
    assert_eq!(undo.code, Some(0), "{}", undo.stderr);
    let listed = undo.stderr.lines().filter(|line| line.starts_with("  ") && !line.starts_with("  #")).count();
    assert!(listed > 2, "{}", undo.stderr);
    assert_eq!(told(&undo.stderr, "by ", " commands"), Some(listed), "{}", undo.stderr);
    assert_eq!(told(&undo.stderr, ": ", " changes put back"), changes, "{}\n{}", run.stderr, undo.stderr);
    same(&before);
}

fn signal_ends_it_in_good_order(test: &str, number: i32) {
    if !can_run(test) {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let child = place.start(&mut place.run(&["--trials", "5", "--set", "stream.ctl.count=4000"]));
    wait(Duration::from_secs(30), || place.events().iter().any(|e| e["event"] == "trial" && e["n"] == 2).then_some(()))
        .expect("the second trial begins");
    std::thread::sleep(Duration::from_millis(700));
    signal(child.id(), number).expect("the signal is sent");
    let began = Instant::now();
    let run = place.finish(child);
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?} to end", began.elapsed());
    same(&before);
    let trials = run.cell()["trials"].as_array().expect("trials");
    assert_eq!(trials.len(), 2, "the trial under way is kept: {}", run.stdout);
    assert_eq!(trials[0]["streams"]["ctl"]["outcomes"]["intended"], 4_000);
    let cut = trials[1]["streams"]["ctl"]["outcomes"]["intended"].as_u64().expect("a count");
    assert!((1..4_000).contains(&cut), "{cut} packets were reached");
    assert_eq!(run.ids("note").iter().filter(|id| *id == "interrupted").count(), 1, "{:?}", run.ids("note"));
    assert!(run.stdout.contains("scheduled..rx_kernel"), "the table is printed all the same: {}", run.stdout);
}

#[test]
fn sigint_finalises_the_trial_under_way() {
    signal_ends_it_in_good_order("sigint_finalises_the_trial_under_way", libc::SIGINT);
}

#[test]
fn sigterm_finalises_the_trial_under_way() {
    signal_ends_it_in_good_order("sigterm_finalises_the_trial_under_way", libc::SIGTERM);
}

/// Sends two signals, so long apart, while the run's path stands; with `hangs` a station answers
/// no more.
fn two_signals(place: &Place, apart: Duration, hangs: bool) -> Finished {
    let child =
        place.start(&mut place.run(&["--trials", "5", "--set", "stream.ctl.cycle=20s", "--set", "stream.ctl.count=5"]));
    place.wait_for("trial");
    std::thread::sleep(Duration::from_millis(300));
    if hangs {
        signal(place.agent("b"), libc::SIGSTOP).expect("the agent is stopped");
    }
    signal(child.id(), libc::SIGINT).expect("the first signal is sent");
    std::thread::sleep(apart);
    // It may have ended by then.
    let _ = signal(child.id(), libc::SIGINT);
    place.finish(child)
}

#[test]
fn two_signals_in_a_row_leave_nothing_behind() {
    if !can_run("two_signals_in_a_row_leave_nothing_behind") {
        return;
    }
    for _ in 0..3 {
        let (place, before) = (Place::new(), machine());
        let run = two_signals(&place, Duration::ZERO, false);
        assert_eq!(run.code, Some(130), "{}", run.stderr);
        assert!(
            run.stderr.contains("a second signal ends the run at once"),
            "the first one is answered: {}",
            run.stderr
        );
        assert!(place.out().join("results.json").exists(), "{}", run.stderr);
        same(&before);
        assert_eq!(place.undo().stderr.trim(), "nothing is left behind");
    }
}

#[test]
fn a_second_signal_ends_the_run_and_puts_everything_back() {
    if !can_run("a_second_signal_ends_the_run_and_puts_everything_back") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    // Who waits for a station that hangs is not heard in good order.
    let run = two_signals(&place, Duration::from_millis(1_100), true);
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    assert!(
        run.stderr.contains("ended at once by a second signal; what this run has changed is put back"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("ip netns del tardy-"), "and how: {}", run.stderr);
    same(&before);
    assert!(agents(&place).is_empty());
    assert_eq!(place.undo().stderr.trim(), "nothing is left behind");
}

/// Kills a station's agent in the middle of trial `in_trial`.
fn an_agent_dies(test: &str, station: &str, in_trial: u64) {
    if !can_run(test) {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let child = place.start(&mut place.run(&["--trials", "3", "--set", "stream.ctl.count=2000"]));
    wait(Duration::from_secs(30), || {
        place.events().iter().any(|e| e["event"] == "trial" && e["n"] == in_trial).then_some(())
    })
    .expect("the trial begins");
    std::thread::sleep(Duration::from_millis(500));
    let pid = place.agent(station);
    signal(pid, libc::SIGKILL).expect("the agent is killed");
    let run = place.finish(child);
    let code = if in_trial == 1 { 3 } else { 4 };
    assert_eq!(run.code, Some(code), "4 only after a finished trial: {}", run.stderr);
    let told = format!("station `{station}` (process {pid})");
    assert!(run.stderr.contains(&told), "{}", run.stderr);
    let trials = run.cell()["trials"].as_array().expect("trials");
    assert_eq!(trials.len() as u64, in_trial - 1, "only whole trials are judged: {}", run.stdout);
    assert!(trials.iter().all(|trial| trial["streams"]["ctl"]["outcomes"]["lost"] == 0), "no loss is invented");
    let rest = place.out().join(format!("trials/all/{in_trial}.partial/samples.parquet"));
    assert!(rest.metadata().is_ok_and(|file| file.len() > 0), "what the other station had is kept");
    assert!(run.ids("invalid").contains(&"failed".to_owned()), "{:?}", run.ids("invalid"));
    same(&before);
    assert!(agents(&place).is_empty());
}

#[test]
fn a_dead_receiver_ends_the_run_with_what_it_had() {
    an_agent_dies("a_dead_receiver_ends_the_run_with_what_it_had", "b", 2);
}

#[test]
fn a_dead_sender_ends_the_run_with_what_it_had() {
    an_agent_dies("a_dead_sender_ends_the_run_with_what_it_had", "a", 2);
}

#[test]
fn a_death_in_the_first_trial_is_no_finished_trial_and_no_loss() {
    an_agent_dies("a_death_in_the_first_trial_is_no_finished_trial_and_no_loss", "b", 1);
}

#[test]
fn a_signal_is_heard_while_a_slow_stream_waits_for_its_first_packet() {
    if !can_run("a_signal_is_heard_while_a_slow_stream_waits_for_its_first_packet") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let slow = ["--trials", "1", "--set", "stream.ctl.cycle=20s", "--set", "stream.ctl.count=5"];
    let child = place.start(&mut place.run(&slow));
    place.wait_for("trial");
    std::thread::sleep(Duration::from_millis(500));
    signal(child.id(), libc::SIGINT).expect("the signal is sent");
    let began = Instant::now();
    let run = place.finish(child);
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    assert!(began.elapsed() < Duration::from_secs(8), "it took {:?} to end", began.elapsed());
    same(&before);
}
