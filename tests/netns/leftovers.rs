// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nothing is left behind. After signals and deaths, nothing that was measured is lost and every
//! change is undone. Runs in a row, and many trials in one run, leave nothing and take no more as
//! they go on: no namespace, link, slot, journal, socket, process, mount or temporary file; no
//! descriptor and no memory in the coordinator and its agents. `make soak` makes 200 runs and one
//! of 200 trials, `make test` a few.

use crate::command::{Finished, Place, SHORT, agents, can_run, machine, same, wait};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tardy_store::RunFolder;
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

/// A run in the state folder of one that was killed when its path was built.
fn run_behind_a_killed_one(killed: &Place) -> Finished {
    let mut child = killed.start(&mut killed.run(&SHORT));
    killed.wait_for("built");
    child.kill().expect("SIGKILL");
    child.wait().expect("it ends");
    let next = Place::new();
    next.call(next.run(&SHORT).env("TARDY_STATE", killed.state()))
}

#[test]
fn the_next_run_tells_of_what_a_killed_one_left() {
    if !can_run("the_next_run_tells_of_what_a_killed_one_left") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let run = run_behind_a_killed_one(&place);
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
    let run = run_behind_a_killed_one(&place);
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
    assert!(run.ids("note").contains(&"interrupted".to_owned()), "of the trial: {:?}", run.ids("note"));
    assert!(run.ids("warning").contains(&"interrupted".to_owned()), "of the run: {:?}", run.ids("warning"));
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

fn is_soak() -> bool {
    std::env::var_os("TARDY_SOAK").is_some()
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn lines(text: &str, keep: impl Fn(&str) -> bool) -> BTreeSet<String> {
    text.lines().filter(|line| keep(line)).map(str::to_owned).collect()
}

fn file(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// All that a run could leave on the machine, by where it would lie. Others may be at work on it:
/// only what has tardy's name or is in this test's own folders counts.
fn left_behind(place: &Place) -> BTreeMap<&'static str, BTreeSet<String>> {
    let tardy = |line: &str| line.contains("tardy");
    let state = place.state();
    let slots = state.join("slots");
    let journals = names_in(&slots).into_iter().filter(|slot| {
        let journal = std::fs::metadata(slots.join(slot).join("journal.jsonl"));
        journal.is_ok_and(|journal| journal.len() > 0)
    });
    BTreeMap::from([
        ("namespaces, links, queue disciplines", lines(&machine(), tardy)),
        ("named namespaces", names_in(Path::new("/run/netns")).into_iter().filter(|name| tardy(name)).collect()),
        ("mounts", lines(&file("/proc/self/mountinfo"), tardy)),
        ("sockets", lines(&file("/proc/net/unix"), tardy)),
        ("shared memory", names_in(Path::new("/dev/shm"))),
        ("temporary files", names_in(&std::env::temp_dir()).into_iter().filter(|name| tardy(name)).collect()),
        ("slots", names_in(&slots)),
        ("journals", journals.collect()),
        ("agents", agents(place).into_iter().map(|pid| pid.to_string()).collect()),
    ])
}

#[test]
fn runs_in_a_row_leave_nothing_behind() {
    if !can_run("runs_in_a_row_leave_nothing_behind") {
        return;
    }
    let runs = if is_soak() { 200 } else { 4 };
    let (place, began) = (Place::new(), Instant::now());
    let short = ["--trials", "1", "--set", "stream.ctl.count=100", "--set", "stream.ctl.cycle=200us"];
    let once = || {
        let _ = std::fs::remove_dir_all(place.out());
        let run = place.call(&mut place.run(&short));
        run.ran();
        assert_eq!(run.outcome("intended"), 100);
    };
    // The first one makes the state folder and its slot, which stay.
    once();
    let before = left_behind(&place);
    for n in 1..runs {
        once();
        // The machine's links and namespaces go a moment after their last user.
        let same = wait(Duration::from_secs(20), || (left_behind(&place) == before).then_some(()));
        if same.is_none() {
            assert_eq!(left_behind(&place), before, "after {} runs", n + 1);
        }
    }
    println!("{runs} runs in {:.0} s", began.elapsed().as_secs_f64());
}

/// What a process holds.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    descriptors: usize,
    threads: usize,
    resident_kib: u64,
}

fn held(pid: u32) -> Option<Held> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    Some(Held { descriptors, threads: value("Threads:")? as usize, resident_kib: value("VmRSS:")? })
}

/// The most that was held in each of `parts` equal parts of a run, the start and the end left out.
fn most_in_parts(seen: &[Held], parts: usize) -> Vec<Held> {
    let most = |part: &[Held]| {
        part.iter().fold(Held::default(), |most, held| Held {
            descriptors: most.descriptors.max(held.descriptors),
            threads: most.threads.max(held.threads),
            resident_kib: most.resident_kib.max(held.resident_kib),
        })
    };
    seen.chunks(seen.len().div_ceil(parts).max(1)).map(most).collect()
}

/// What resident memory may grow by from the second quarter of a run to its last. An agent has
/// done with a trial when it is over and is to stay as it is; the coordinator keeps the cell's
/// pooled figures, which grow by the packet up to a bound: eight values a packet and metric are
/// allowed.
const AGENT_MAY_GROW_KIB: u64 = 1_024;
const COORDINATOR_MAY_GROW_KIB: u64 = 4_096;
const BYTES_A_PACKET: u64 = 8 * 8 * 8;
/// Descriptors and threads that come and go within a trial, and that a look may meet or not. One
/// that leaked in each trial would be four at least between the quarters.
const PASSING: usize = 3;

#[test]
fn many_trials_in_one_run_take_no_more_descriptors_and_memory() {
    if !can_run("many_trials_in_one_run_take_no_more_descriptors_and_memory") {
        return;
    }
    let (trials, count) = if is_soak() { (200, 500) } else { (16, 500) };
    let (place, began) = (Place::new(), Instant::now());
    let (n, packets) = (trials.to_string(), format!("stream.ctl.count={count}"));
    // One cell on one path: all its trials go through the same agents.
    let args =
        ["--trials", &n, "--set", &packets, "--set", "stream.ctl.rx.wait=block", "--set", "stream.ctl.cycle=200us"];
    let mut child = place.start(&mut place.run(&args));
    let pids = [child.id(), place.agent("a"), place.agent("b")];
    let mut seen: [Vec<Held>; 3] = Default::default();
    place.wait_for("trial");
    // Looked at until the run tears down: an agent that is gone has nothing more to tell.
    while let Some(now) = pids.iter().map(|pid| held(*pid)).collect::<Option<Vec<Held>>>() {
        if child.try_wait().expect("its state").is_some() {
            break;
        }
        seen.iter_mut().zip(now).for_each(|(seen, now)| seen.push(now));
        std::thread::sleep(Duration::from_millis(20));
        assert!(began.elapsed() < Duration::from_secs(1_800), "it ends");
    }
    let run = place.finish(child);
    run.ran();
    let folder = RunFolder::open(place.out()).expect("the run folder opens");
    assert_eq!(folder.trials().expect("trials").len(), trials, "{}", run.stderr);
    assert!(seen[0].len() > 40, "it was looked at all the time: {}", seen[0].len());
    let own = BYTES_A_PACKET * (trials * count) as u64 / 1_024;
    for ((who, seen), may_grow) in ["coordinator", "agent a", "agent b"].iter().zip(&seen).zip([
        COORDINATOR_MAY_GROW_KIB + own,
        AGENT_MAY_GROW_KIB,
        AGENT_MAY_GROW_KIB,
    ]) {
        let parts = most_in_parts(seen, 4);
        println!("{who}: {parts:?}");
        let (early, late) = (parts[1], parts[parts.len() - 1]);
        assert!(late.descriptors <= early.descriptors + PASSING, "{who}: descriptors {parts:?}");
        assert!(late.threads <= early.threads + PASSING, "{who}: threads {parts:?}");
        assert!(late.resident_kib <= early.resident_kib + may_grow, "{who}: resident memory {parts:?}");
    }
    println!("{trials} trials in {:.0} s", began.elapsed().as_secs_f64());
}

#[test]
fn the_ways_a_run_ends_leave_no_descriptor_to_its_children() {
    if !can_run("the_ways_a_run_ends_leave_no_descriptor_to_its_children") {
        return;
    }
    // An agent that inherits what the coordinator has open would keep a slot's lock or another
    // agent's pipe alive.
    let place = Place::new();
    let child = place.start(&mut place.run(&["--trials", "1", "--set", "stream.ctl.count=2000"]));
    let open = |pid: &str| -> Vec<String> {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors").flatten();
        fds.filter_map(|fd| Some(std::fs::read_link(fd.path()).ok()?.display().to_string())).collect()
    };
    // What this test was itself given by whoever started it is handed on by everybody.
    let given = open("self");
    for station in ["a", "b"] {
        let pid = place.agent(station);
        place.wait_for("trial");
        let open: Vec<String> = open(&pid.to_string()).into_iter().filter(|to| !given.contains(to)).collect();
        assert!(!open.iter().any(|to| to.contains("slots") || to.contains("journal")), "{open:?}");
        let pipes = open.iter().filter(|to| to.starts_with("pipe:")).count();
        assert!(pipes <= 3, "stdin, stdout and stderr are its pipes: {open:?}");
    }
    place.finish(child).ran();
}

#[test]
fn a_build_went_on_for_minutes_after_tardy_was_killed() {
    // Only root's own folders stay in the PATH of a tardy that runs as root.
    let folder = tempfile::TempDir::with_prefix("tardy-test-").expect("a temporary folder");
    let (program, started) = (folder.path().join("apt-get"), folder.path().join("started"));
    // What it starts itself hears nothing of tardy's death: a compiler of a build, say.
    let script = format!("#!/bin/sh\nsleep 600 &\necho $! >{0}.new\nmv {0}.new {0}\nwait\n", started.display());
    std::fs::write(&program, script).expect("a program in place of apt-get");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("it may run");
    let path = std::env::var("PATH").expect("a PATH");
    let mut fetch = std::process::Command::new(crate::command::tardy());
    fetch.args(["guest", "fetch", "debian:6.12"]).env("TARDY_CACHE", folder.path().join("cache"));
    fetch.env("PATH", format!("{}:{path}", folder.path().display())).stderr(std::process::Stdio::null());
    let mut child = fetch.spawn().expect("tardy starts");
    let pid = wait(Duration::from_secs(10), || std::fs::read_to_string(&started).ok()?.trim().parse::<u32>().ok());
    child.kill().expect("SIGKILL");
    child.wait().expect("it ends");
    let pid = pid.expect("tardy asks apt-get for the list of packages");
    // A zombie whose parent has not looked yet has ended.
    let ended = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
    };
    let gone = wait(Duration::from_secs(10), ended);
    if gone.is_none() {
        signal(pid, libc::SIGKILL).expect("it is ended by its own number");
    }
    assert!(gone.is_some(), "what tardy had started for the fetch goes on without it");
}
