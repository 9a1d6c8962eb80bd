// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults put into the real kernel: the figures show exactly the fault, and its verdict appears
//! and no other.

use crate::command::{Finished, Place, can_run, wait};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tardy_host::state::{Moment, Reader};
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Outcome};
use tardy_model::time::Tai;
use tardy_store::RunFolder;
use tardy_sys::clock::now;
use tardy_sys::process::{enter_netns, signal};

const ONE: [&str; 2] = ["--trials", "1"];

fn samples(place: &Place) -> Batch {
    let folder = RunFolder::open(place.out()).expect("the run folder opens");
    // A reader hands rows out in parts.
    let mut whole = Batch::default();
    for part in folder.batches("all", 1, "ctl").expect("samples") {
        let part = part.expect("whole samples");
        whole.seq.extend(part.seq);
        whole.scheduled_ns.extend(part.scheduled_ns);
        whole.outcome.extend(part.outcome);
        whole.flags.extend(part.flags);
        for (column, rows) in whole.offsets.iter_mut().zip(part.offsets) {
            if let Some(rows) = rows {
                column.get_or_insert_default().extend(rows);
            }
        }
    }
    whole
}

fn sh(command: &str) {
    let status = Command::new("sh").args(["-c", command]).status().expect("a shell");
    assert!(status.success(), "{command}");
}

#[test]
fn twenty_packets_dropped_before_the_driver_are_exactly_the_lost_ones() {
    if !can_run("twenty_packets_dropped_before_the_driver_are_exactly_the_lost_ones") {
        return;
    }
    let place = Place::new();
    let allowed = ["--set", "stream.ctl.max_loss=0.05", "--set", "expect.ctl.lost=20"];
    let stamps = "stream.ctl.stamps=[\"wakeup\", \"tx_sched\", \"tx_kernel\", \"rx_kernel\", \"receive\"]";
    let count = ["--set", "stream.ctl.count=3000", "--set", stamps];
    let child = place.start(place.run(&ONE).args(count).args(allowed));
    let netns = place.netns("a");
    let drops: Vec<u32> = (0..20).map(|i| 900 + 97 * i).collect();
    // Redirected into a link that is down, a packet is gone before its driver. The sequence number
    // stands 16 bytes into the payload: behind 20 bytes of IP and 8 of UDP. The kind (1, a test
    // packet) keeps warm-up packets out.
    let device = wait(Duration::from_secs(10), || {
        let output = Command::new("ip").args(["-n", &netns, "-br", "link"]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.lines().find(|line| line.starts_with("tardy")).and_then(|line| line.split('@').next().map(str::to_owned))
    })
    .expect("the sender's device");
    let mut script = format!(
        "ip -n {netns} link add sink type veth peer name sink-peer && tc -n {netns} qdisc add dev {device} clsact\n"
    );
    for drop in &drops {
        script += &format!(
            "tc -n {netns} filter add dev {device} egress protocol ip u32 match u8 1 0xff at 32 match u32 {drop} 0xffffffff \
             at 44 action mirred egress redirect dev sink\n"
        );
    }
    sh(&format!("set -e\n{script}"));
    let run = place.finish(child);
    run.ran();
    let batch = samples(&place);
    let lost: Vec<u32> =
        (0..batch.len()).filter(|row| batch.outcome[*row] == Outcome::Lost).map(|row| row as u32).collect();
    assert_eq!(lost, drops, "{}", run.stdout);
    for row in 0..batch.len() {
        let dropped = drops.contains(&(row as u32));
        assert_eq!(batch.offset(row, Point::TxKernel).is_none(), dropped, "packet {row}: the driver's stamp");
        assert_eq!(batch.offset(row, Point::RxKernel).is_none(), dropped, "packet {row}: the receiver's stamp");
        assert!(batch.offset(row, Point::TxSched).is_some(), "packet {row} came as far as the queue discipline");
    }
    assert_eq!(run.outcome("lost"), 20);
}

/// Stops a process; the instants between which it certainly did not run.
fn stop_for(pid: u32, hold: Duration) -> (i64, i64) {
    signal(pid, libc::SIGSTOP).expect("stopped");
    // The signal is delivered thread by thread: only when each of them is in state T is nothing
    // read any more.
    let stopped = wait(Duration::from_secs(5), || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let mut states = threads.flatten().map(|thread| std::fs::read_to_string(thread.path().join("stat")));
        states
            .all(|stat| stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim().starts_with('T'))))
            .then_some(())
    });
    let from = now::<Tai>().ns();
    std::thread::sleep(hold);
    let to = now::<Tai>().ns();
    signal(pid, libc::SIGCONT).expect("continued");
    stopped.expect("every thread of the receiver stops");
    (from, to)
}

#[test]
fn a_stopped_receiver_delays_only_the_last_stage() {
    if !can_run("a_stopped_receiver_delays_only_the_last_stage") {
        return;
    }
    let place = Place::new();
    let child = place.start(place.run(&ONE).args(["--set", "stream.ctl.count=6000"]));
    let pid = place.agent("b");
    place.wait_for("trial");
    std::thread::sleep(Duration::from_millis(800));
    let stops: Vec<(i64, i64)> = (0..10)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            stop_for(pid, Duration::from_millis(20))
        })
        .collect();
    let run = place.finish(child);
    assert!(run.code == Some(0) || run.code == Some(4), "{}", run.stderr);
    let batch = samples(&place);
    let at = |row: usize, point| batch.offset(row, point).map(|ns| batch.scheduled_ns[row] + ns);
    let (mut before, mut last) = (Vec::new(), Vec::new());
    for row in 0..batch.len() {
        let (Some(arrived), Some(received)) = (at(row, Point::RxKernel), at(row, Point::Receive)) else { continue };
        if let Some((_, to)) = stops.iter().find(|(from, to)| (from..to).contains(&&arrived)) {
            assert!(
                received >= *to,
                "packet {row} came while the receiver was stopped, and was received {}",
                received - to
            );
            before.push(arrived - batch.scheduled_ns[row]);
            last.push(received - arrived);
        }
    }
    // 40 packets are due in each stop. How many come in it is the machine's doing, that most stops
    // saw some is not.
    assert!(last.len() >= 40, "only {} packets came within the stops", last.len());
    let median = |spans: &mut Vec<i64>| {
        spans.sort_unstable();
        spans[spans.len() / 2]
    };
    let (before, last) = (median(&mut before), median(&mut last));
    assert!(
        before < last,
        "what was held at the receiver came as late as it left: {before} ns before, {last} ns after"
    );
}

#[test]
fn a_stopped_af_xdp_application_delays_only_what_comes_after_the_program() {
    if !can_run("a_stopped_af_xdp_application_delays_only_what_comes_after_the_program") {
        return;
    }
    let place = Place::new();
    let file = place.path("xdp.toml");
    let text = tardy_tests::experiment("frames to an XDP program");
    let text = text.replace("trials = 2", "trials = 1").replace("count = 600", "count = 6000");
    std::fs::write(&file, text).expect("a file");
    let child = place.start(place.run(&[]).arg(file));
    let pid = place.agent("b");
    place.wait_for("trial");
    std::thread::sleep(Duration::from_millis(800));
    let stops: Vec<(i64, i64)> = (0..10)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            stop_for(pid, Duration::from_millis(20))
        })
        .collect();
    let run = place.finish(child);
    assert!(run.code == Some(0) || run.code == Some(4), "{}", run.stderr);
    assert_eq!(run.outcome("lost"), 0, "the rings hold what comes meanwhile: {}", run.stdout);
    let batch = samples(&place);
    let at = |row: usize, point| batch.offset(row, point).map(|ns| batch.scheduled_ns[row] + ns);
    // By row: from the schedule to the program, from there to the application. First of packets
    // that came while it was stopped, then of all others.
    let mut held: [Vec<(i64, i64)>; 2] = Default::default();
    for row in 0..batch.len() {
        let (Some(program), Some(received)) = (at(row, Point::RxXdp), at(row, Point::Receive)) else {
            panic!("packet {row} has no stamp of the program, or was not received");
        };
        let stop = stops.iter().find(|(from, to)| (from..to).contains(&&program));
        if let Some((_, to)) = stop {
            assert!(received >= *to, "packet {row} waited for the end of the stop, and {} ns less", to - received);
        }
        held[usize::from(stop.is_none())].push((program - batch.scheduled_ns[row], received - program));
    }
    let [stopped, others] = held;
    assert!(stopped.len() >= 40, "only {} packets came within the stops", stopped.len());
    let median = |all: &[(i64, i64)], of: fn(&(i64, i64)) -> i64| {
        let mut spans: Vec<i64> = all.iter().map(of).collect();
        spans.sort_unstable();
        spans[spans.len() / 2]
    };
    let before = median(&stopped, |span| span.0) - median(&others, |span| span.0);
    let after = median(&stopped, |span| span.1) - median(&others, |span| span.1);
    assert!(
        after > 0 && before.abs() < after / 10,
        "the stops added {before} ns before the program, {after} ns after it"
    );
}

#[test]
fn a_refused_policy_is_the_verdict() {
    if !can_run("a_refused_policy_is_the_verdict") {
        return;
    }
    let place = Place::new();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_nice", "--"]).arg(crate::command::tardy());
    command.args(["run", "--trials", "1", "--set", "stream.ctl.count=1000"]).arg("--out").arg(place.out());
    command.env("TARDY_STATE", place.state()).stdin(Stdio::null());
    let run = place.call(&mut command);
    run.only("policy");
    assert_eq!(run.code, Some(4));
    assert_eq!(run.cell()["placement"][0]["policy_granted"], "other", "{}", run.stdout);
}

#[test]
fn the_rt_bandwidth_limit_is_the_verdict_of_a_spinning_receiver() {
    if !can_run("the_rt_bandwidth_limit_is_the_verdict_of_a_spinning_receiver") {
        return;
    }
    let limit = Reader::new(Vec::new()).read(Moment::Before, 0).rt_limit;
    if limit.is_none_or(|limit| limit.period_ns - limit.runtime_ns < 10_000_000) {
        tardy_tests::skip(
            "the_rt_bandwidth_limit_is_the_verdict_of_a_spinning_receiver",
            "this machine does not limit realtime tasks",
        );
        return;
    }
    let spin = "stream.ctl.rx.wait=spin";
    let spun = || {
        let place = Place::new();
        place.call(place.run(&ONE).args(["--set", spin, "--set", "stream.ctl.count=8000"]))
    };
    // What the hypervisor takes from a spinning thread may keep it below the limit.
    let is_spoilt = |run: &Finished| run.ids("invalid") == ["steal"];
    let mut run = spun();
    for _ in 0..2 {
        if is_spoilt(&run) {
            run = spun();
        }
    }
    run.only("rt-bandwidth");
    let place = Place::new();
    let calm = ["--set", spin, "--set", "stream.ctl.rx.policy=other", "--set", "stream.ctl.count=4000"];
    let run = place.call(place.run(&ONE).args(calm));
    assert!(!run.ids("invalid").contains(&"rt-bandwidth".to_owned()), "{}", run.stdout);
}

#[test]
fn a_cycle_too_short_says_by_how_much_it_was_missed() {
    if !can_run("a_cycle_too_short_says_by_how_much_it_was_missed") {
        return;
    }
    let place = Place::new();
    let run = place.call(place.run(&ONE).args(["--set", "stream.ctl.cycle=300ns", "--set", "stream.ctl.count=20000"]));
    // host-to-host allows no loss, and a receiver that cannot follow loses: that outweighs "not
    // valid".
    let lost = run.cell()["streams"]["ctl"]["outcomes"]["lost"].as_u64().unwrap_or_default();
    assert_eq!(run.code, Some(if lost > 0 { 1 } else { 4 }), "{}{}", run.stdout, run.stderr);
    assert!(run.ids("invalid").contains(&"rate".to_owned()), "{:?}", run.ids("invalid"));
    let rate = run.cell()["trials"][0]["verdicts"].as_array().into_iter().flatten().find(|v| v["id"] == "rate");
    let says = rate.and_then(|rate| rate["says"].as_str()).unwrap_or_default();
    assert!(says.contains('%'), "{says}");
}

#[test]
fn strangers_on_the_port_are_counted_and_never_become_samples() {
    if !can_run("strangers_on_the_port_are_counted_and_never_become_samples") {
        return;
    }
    let place = Place::new();
    let child = place.start(place.run(&ONE).args(["--set", "stream.ctl.count=3000"]));
    let netns = place.netns("b");
    place.wait_for("trial");
    std::thread::sleep(Duration::from_millis(700));
    // From inside the receiver's namespace to its own address: short ones, long ones, damaged ones.
    let strangers = std::thread::spawn(move || {
        enter_netns(&Path::new("/run/netns").join(&netns)).expect("the receiver's namespace");
        let output = Command::new("ip").args(["-4", "-j", "addr"]).output().expect("ip");
        let links: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let address = links.as_array().into_iter().flatten().find_map(|link| {
            (link["ifname"] != "lo").then(|| link["addr_info"][0]["local"].as_str().map(str::to_owned)).flatten()
        });
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        let to = format!("{}:5800", address.expect("the receiver's address"));
        for i in 0..300usize {
            let _ = socket.send_to(&vec![i as u8; [0, 1, 23, 24, 64, 1_000][i % 6]], &to);
        }
    });
    strangers.join().expect("the strangers are sent");
    let run = place.finish(child);
    run.ran();
    assert_eq!((run.outcome("intended"), run.outcome("duplicate")), (3_000, 0));
    let foreign = place.out().join("trials/all/1/trial.json");
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(foreign).expect("a record")).expect("JSON");
    assert_eq!(record["streams"]["ctl"]["counters"]["foreign"], 300);
    assert!(run.ids("note").contains(&"foreign".to_owned()), "{:?}", run.ids("note"));
}
