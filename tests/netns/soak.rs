// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs in a row, and many trials in one run, leave nothing behind and take no more as they go on:
//! no namespace, link, slot, journal, socket, process, mount or temporary file; no descriptor and
//! no memory in the coordinator and its agents. `make soak` makes 200 runs and one of 200 trials,
//! `make test` a few.

use crate::command::{Place, agents, can_run, machine, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};
use tardy_store::RunFolder;

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
