// SPDX-License-Identifier: MIT OR Apache-2.0
//! Others on the CPUs of the measuring threads: they are named, also when they have ended, and
//! what they weigh follows from how long the threads waited. No test knows how fast this machine
//! is: each holds the verdict against its own evidence.

use crate::command::{Finished, Place, can_run, wait};
use crate::peers::orders;
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Wall};
use tardy_engine::message::{self, ActivityId, ActivityOrder, ActivitySummary, FromAgent, ToAgent};
use tardy_engine::order::EndOrder;
use tardy_model::port::Port;
use tardy_model::stream::Policy;
use tardy_model::stream_id::StreamId;
use tardy_model::time::{Nanos, Tai};
use tardy_sys::{clock, thread};

/// The first two CPUs that may be used.
fn two() -> Option<[u32; 2]> {
    let cpus = tardy_host::cpus::usable();
    Some([*cpus.first()?, *cpus.get(1)?])
}

/// A shell under another name, which runs a script on one CPU, ahead of whatever else this machine
/// does.
struct Shell(Child);

impl Shell {
    fn on(place: &Place, cpu: u32, name: &str, script: &str) -> Shell {
        let path = place.path(name);
        symlink("/bin/sh", &path).expect("a name for the shell");
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string(), "nice", "-n", "-15"]).arg(path).args(["-c", script]);
        Shell(command.stdin(Stdio::null()).spawn().expect("a shell"))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const BUSY: &str = "while :; do :; done";

/// `host-to-host`, one trial, its threads on these CPUs.
fn measured(place: &Place, [tx, rx]: [u32; 2]) -> Finished {
    let set = [format!("stream.ctl.tx.cpu={tx}"), format!("stream.ctl.rx.cpu={rx}")];
    let mut command = place.run(&["--trials", "1", "--set", "stream.ctl.count=4000"]);
    command.args(set.iter().flat_map(|set| ["--set", set]));
    let run = place.call(&mut command);
    run.ran();
    run
}

/// The trial's verdicts on who used a CPU.
fn reported(run: &Finished) -> Vec<Value> {
    let verdicts = run.cell()["trials"][0]["verdicts"].as_array().cloned().unwrap_or_default();
    verdicts.into_iter().filter(|verdict| verdict["id"] == "competing-cpu").collect()
}

fn names(verdict: &Value) -> Vec<&str> {
    verdict["evidence"]["tasks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Holds a verdict's weight against the wait that it was given for.
fn follows_from_the_wait(verdict: &Value) {
    let of = |name: &str| verdict["evidence"][name].as_f64().unwrap_or_else(|| panic!("no {name}: {verdict}"));
    assert!(of("waited_for_others_ns") <= (of("wait_ns") - of("own_ns")).max(0.0), "{verdict}");
    assert!(of("waited_for_others_ns") <= of("others_ns"), "{verdict}");
    let (waited, limit) = (of("waited_share"), of("limit_share"));
    let level = match waited {
        waited if waited >= limit => "invalid",
        waited if waited >= limit / 10.0 => "warning",
        _ => "note",
    };
    assert_eq!(verdict["level"], level, "{verdict}");
}

#[test]
fn a_busy_task_on_each_cpu_is_named_and_weighs_what_the_realtime_threads_waited() {
    const TEST: &str = "a_busy_task_on_each_cpu_is_named_and_weighs_what_the_realtime_threads_waited";
    if !can_run(TEST) {
        return;
    }
    let Some(cpus) = two() else {
        tardy_tests::skip(TEST, "it needs two CPUs");
        return;
    };
    let place = Place::new();
    let hogs = [Shell::on(&place, cpus[0], "hog-of-tx", BUSY), Shell::on(&place, cpus[1], "hog-of-rx", BUSY)];
    let run = measured(&place, cpus);
    drop(hogs);
    let reported = reported(&run);
    for (cpu, hog, thread) in [(cpus[0], "hog-of-tx", "ctl.tx"), (cpus[1], "hog-of-rx", "ctl.rx")] {
        let verdict = reported.iter().find(|verdict| verdict["evidence"]["cpu"] == cpu);
        let verdict = verdict.unwrap_or_else(|| panic!("no verdict names CPU {cpu}: {reported:?}"));
        assert!(names(verdict).contains(&hog), "{verdict}");
        assert_eq!(verdict["evidence"]["thread"], thread, "{verdict}");
        let policy = verdict["evidence"]["policy"].as_str().unwrap_or_default();
        assert!(policy.starts_with("fifo") || policy == "other", "{verdict}");
        follows_from_the_wait(verdict);
        assert!(run.stdout.contains(hog), "{hog} is named on the terminal: {}", run.stdout);
        // The table tells who used each CPU, whatever it weighs.
        let used = run.cell()["cpus"].as_array().into_iter().flatten().find(|used| used["cpu"] == cpu);
        let used = used.unwrap_or_else(|| panic!("CPU {cpu} is not in the table"));
        assert!(used["others"].as_array().into_iter().flatten().any(|user| user["name"] == hog), "{used}");
    }
}

/// A realtime task above all measuring threads that has a CPU half of the time.
struct Realtime {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), tardy_sys::SysError>>>,
}

impl Realtime {
    fn on(cpu: u32, name: &str) -> Realtime {
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = stop.clone();
        let run = move || {
            thread::pin(cpu)?;
            thread::set_policy(Policy::Fifo(99))?;
            while !theirs.load(Relaxed) {
                let until = Wall::now() + Duration::from_millis(5);
                while Wall::now() < until {}
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run).expect("a thread");
        Realtime { stop, thread: Some(thread) }
    }

    fn end(mut self) -> bool {
        self.stop.store(true, Relaxed);
        self.thread.take().expect("it runs").join().expect("no panic").is_ok()
    }
}

#[test]
fn a_task_that_makes_a_realtime_thread_wait_invalidates_the_trial() {
    const TEST: &str = "a_task_that_makes_a_realtime_thread_wait_invalidates_the_trial";
    if !can_run(TEST) {
        return;
    }
    let Some(cpus) = two() else {
        tardy_tests::skip(TEST, "it needs two CPUs");
        return;
    };
    let place = Place::new();
    let above = Realtime::on(cpus[0], "above-tx");
    let run = measured(&place, cpus);
    if !above.end() {
        tardy_tests::skip(TEST, "SCHED_FIFO is refused");
        return;
    }
    let reported = self::reported(&run);
    // The sender's CPU is gone half of the time: nothing on this machine makes that a small wait.
    let verdict = reported.first().unwrap_or_else(|| panic!("there is no verdict: {}", run.stdout));
    assert_eq!((&verdict["evidence"]["cpu"], &verdict["level"]), (&cpus[0].into(), &"invalid".into()), "{verdict}");
    assert_eq!(verdict["evidence"]["thread"], "ctl.tx", "{verdict}");
    assert!(names(verdict).contains(&"above-tx"), "{verdict}");
    follows_from_the_wait(verdict);
    assert_eq!(run.code, Some(4), "{}", run.stdout);
    // And it goes with its cause.
    let place = Place::new();
    let without = measured(&place, cpus);
    assert!(!self::reported(&without).iter().any(|verdict| names(verdict).contains(&"above-tx")), "{}", without.stdout);
}

#[test]
fn tasks_that_have_ended_are_named_where_the_kernel_tells_of_them() {
    const TEST: &str = "tasks_that_have_ended_are_named_where_the_kernel_tells_of_them";
    if !can_run(TEST) {
        return;
    }
    let Some(cpus) = two() else {
        tardy_tests::skip(TEST, "it needs two CPUs");
        return;
    };
    if tardy_sys::exits::Exits::listen(&cpus).is_err() {
        tardy_tests::skip(TEST, "this kernel has no taskstats, or these are not its own namespaces");
        return;
    }
    let place = Place::new();
    // Each lives for a moment; none of them is there before the trial and behind it.
    let short = place.path("short-lived");
    symlink("/bin/sh", &short).expect("a name for the shell");
    let one = "n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done";
    let script = format!("while :; do {} -c '{one}'; done", short.display());
    let parent = Shell::on(&place, cpus[0], "their-parent", &script);
    let run = measured(&place, cpus);
    drop(parent);
    let reported = reported(&run);
    let verdict = reported.iter().find(|verdict| verdict["evidence"]["cpu"] == cpus[0]);
    let verdict = verdict.unwrap_or_else(|| panic!("no verdict names CPU {}: {reported:?}", cpus[0]));
    let at = names(verdict).iter().position(|name| *name == "short-lived");
    let at = at.unwrap_or_else(|| panic!("those that ended are not named: {verdict}"));
    assert!(verdict["evidence"]["tasks_ended"][at].as_u64() > Some(1), "{verdict}");
    follows_from_the_wait(verdict);
}

/// The agent's thread of this name.
fn thread_of(name: &str) -> u32 {
    let found = wait(Duration::from_secs(10), || {
        let threads = fs::read_dir("/proc/self/task").ok()?.flatten();
        let is_its = |id: &u32| {
            let comm = fs::read_to_string(format!("/proc/self/task/{id}/comm")).unwrap_or_default();
            comm.trim_end() == name
        };
        threads.filter_map(|thread| thread.file_name().to_str()?.parse::<u32>().ok()).find(is_its)
    });
    found.unwrap_or_else(|| panic!("no thread {name}"))
}

fn move_to(tid: u32, cpu: u32) {
    let moved = Command::new("taskset").args(["-pc", &cpu.to_string(), &tid.to_string()]).output();
    assert!(moved.expect("taskset runs").status.success());
}

#[test]
fn a_cpu_on_which_an_unpinned_thread_was_only_before_the_trial_is_not_judged() {
    const TEST: &str = "a_cpu_on_which_an_unpinned_thread_was_only_before_the_trial_is_not_judged";
    let Some([first, second]) = two() else {
        tardy_tests::skip(TEST, "it needs two CPUs");
        return;
    };
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = free.local_addr().expect("an address").port();
    let (_, mut order) = orders(port, 10);
    order.receive.order.port = Port::Udp;
    order.receive.order.kind = tardy_model::stream::Kind::Cyclic;
    order.receive.order.stream = StreamId::numbered(77);
    drop(free);
    let (ours, theirs) = UnixStream::pair().expect("a connection");
    let mut answers = ours.try_clone().expect("both ways");
    let mut to = ours;
    let agent = std::thread::spawn(move || {
        let from = theirs.try_clone().expect("both ways");
        let mut to = theirs;
        tardy_engine::agent::serve(from, &mut to, "test")
    });
    message::greet(&mut to, "test").expect("greeted");
    message::hear(&mut answers, "test").expect("heard");
    let mut until = |wanted: fn(&FromAgent) -> bool| loop {
        let reported: FromAgent = message::receive(&mut answers).expect("an answer");
        assert!(!matches!(reported, FromAgent::Failed(_)), "{reported:?}");
        if wanted(&reported) {
            return reported;
        }
    };
    let activity = ActivityId(5);
    let prepare =
        ToAgent::Prepare { activities: vec![(activity, ActivityOrder::End(EndOrder::Receive(order.receive)))] };
    message::send(&mut to, &prepare).expect("sent");
    until(|reported| matches!(reported, FromAgent::Ready { .. }));
    let tid = thread_of("tardy-rx77");
    let switches = || {
        let status = fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap_or_default();
        let count = |line: &str| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok();
        status.lines().find_map(count).unwrap_or(0)
    };
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    // A packet makes it run where it is.
    let run = || {
        let before = switches();
        let ran = wait(Duration::from_secs(10), || {
            let _ = stranger.send_to(&[0x5a; 64], (Ipv4Addr::LOCALHOST, port));
            (switches() > before).then_some(())
        });
        ran.expect("it runs");
    };
    move_to(tid, first);
    run();
    move_to(tid, second);
    let base = clock::now::<Tai>() + Nanos(1_000_000);
    message::send(&mut to, &ToAgent::Start { activities: vec![activity], base }).expect("sent");
    // Two looks at it are a quarter of a second apart: one falls before it has run, if any does.
    until(|reported| matches!(reported, FromAgent::Progress { .. }));
    run();
    until(|reported| matches!(reported, FromAgent::Progress { .. }));
    message::send(&mut to, &ToAgent::Collect { activity }).expect("sent");
    let FromAgent::Collected { summary, .. } = until(|reported| matches!(reported, FromAgent::Collected { .. })) else {
        unreachable!()
    };
    let ActivitySummary::End(end) = *summary else { panic!("it is an end of a stream") };
    assert_eq!(end.thread.cpus_seen, [second]);
    to.shutdown(std::net::Shutdown::Both).expect("closed");
    drop(to);
    agent.join().expect("the agent").expect("it ended in an orderly way");
}
