// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a path has this machine's kernel do. Softirq that is placed: the kernel's own counts say on
//! which CPU packets were received, and by whom. Queue disciplines: what the kernel refuses is
//! refused in its own words before any packet, and launch times that nothing enforces are reported.

use crate::command::{Finished, Place, SHORT, can_run, machine, same, tardy};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Cycles of a millisecond: the kernel takes each packet in before the next one comes.
const SLOW: [&str; 6] = ["--trials", "1", "--set", "stream.ctl.count=2000", "--set", "stream.ctl.cycle=1ms"];
const COUNT: u64 = 2_000;

/// Two CPUs, for a choice there must be; what else the test needs is asked for by name.
fn can(test: &str) -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        tardy_tests::skip(test, "placing softirq apart needs two CPUs");
    }
    cpus >= 2 && can_run(test)
}

/// Only where packets may take NAPI on veth: ethtool sets it.
fn has_ethtool(test: &str) -> bool {
    let has = Command::new("ethtool").arg("--version").output().is_ok();
    if !has {
        tardy_tests::skip(test, "needs ethtool");
    }
    has
}

fn call(place: &Place, more: &[&str]) -> Finished {
    let set: Vec<&str> = SLOW.iter().copied().chain(more.iter().flat_map(|key| ["--set", *key])).collect();
    let run = place.call(&mut place.run(&set));
    run.ran();
    run
}

/// The record of the only trial.
fn trial(place: &Place) -> Value {
    let bytes = std::fs::read(place.out().join("trials/all/1/trial.json")).expect("a trial");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// How much a CPU's count grew.
fn grew(trial: &Value, cpu: u32, what: &str) -> u64 {
    let of = |when: &str| trial[when]["work"][cpu.to_string()][what].as_u64().expect("a count");
    of("after") - of("before")
}

#[test]
fn steering_moves_softirq_to_the_cpu_that_is_asked_for() {
    if !can("steering_moves_softirq_to_the_cpu_that_is_asked_for") {
        return;
    }
    let before = machine();
    // The sender's CPU takes its packets in, if nobody asks otherwise; so each is asked to do what
    // it would not do.
    for (cpu, other) in [(0, 1), (1, 0)] {
        let place = Place::new();
        let sender = format!("stream.ctl.tx.cpu={other}");
        let run = call(&place, &[&sender, &format!("station.b.softirq={cpu}")]);
        let trial = trial(&place);
        // Packets that a sender makes up for in a burst share a softirq, so it is the count of
        // packets that tells.
        let (packets, softirqs) = (grew(&trial, cpu, "packets"), grew(&trial, cpu, "net_rx"));
        assert!(packets >= COUNT, "CPU {cpu} took in {packets} of {COUNT} packets\n{}", run.stdout);
        assert!(softirqs >= COUNT / 4, "CPU {cpu} ran NET_RX {softirqs} times for {COUNT} packets\n{}", run.stdout);
        let b = &run.cell()["softirq"][0];
        assert_eq!((&b["station"], &b["by"], &b["cpu_asked"]), (&"b".into(), &"rps".into(), &cpu.to_string().into()));
        assert_eq!(trial["streams"]["ctl"]["rx"]["napi_id"], 0, "plain veth has no NAPI");
        assert!(!run.ids("invalid").contains(&"softirq".to_owned()), "{}", run.stdout);
        let manifest = std::fs::read_to_string(place.out().join("manifest.json")).expect("a manifest");
        assert!(manifest.contains("rps_cpus | paste"), "it is read back");
    }
    // If nobody asks, it is the sender's.
    let place = Place::new();
    let run = call(&place, &["stream.ctl.tx.cpu=1", "stream.ctl.rx.cpu=0"]);
    assert!(grew(&trial(&place), 1, "packets") >= COUNT, "{}", run.stdout);
    assert_eq!((&run.cell()["softirq"], run.ids("warning").contains(&"softirq".to_owned())), (&Value::Null, false));
    same(&before);
}

#[test]
fn threads_of_napi_run_where_they_are_pinned() {
    let test = "threads_of_napi_run_where_they_are_pinned";
    if !can(test) || !has_ethtool(test) {
        return;
    }
    let before = machine();
    for cpu in [0, 1] {
        let place = Place::new();
        let run = call(&place, &["path.napi=true", "path.queues=2", &format!("station.b.softirq={cpu}")]);
        let trial = trial(&place);
        let b = &trial["placement"]["softirq"]["b"];
        let threads = b["threads"].as_array().expect("threads");
        assert_eq!(threads.len(), 2, "one for each queue: {b}");
        for thread in threads {
            assert_eq!(thread["affinity"], serde_json::json!([cpu]), "{thread}");
        }
        let switches: u64 = threads.iter().filter_map(|thread| thread["switches"].as_u64()).sum();
        assert!(switches >= 1, "{b}");
        assert!(trial["streams"]["ctl"]["rx"]["napi_id"].as_u64().is_some_and(|id| id > 0), "{}", run.stdout);
        assert!(grew(&trial, cpu, "packets") >= COUNT, "{}", run.stdout);
        // The other device's threads are free to run anywhere.
        let a = &trial["placement"]["softirq"]["a"];
        assert_eq!((&a["cpu"], a["threads"].as_array().map(Vec::len)), (&Value::Null, Some(2)), "{a}");
        assert!(!run.ids("invalid").contains(&"softirq".to_owned()), "{}", run.stdout);
        assert_eq!(run.cell()["softirq"][1]["cpus_seen"], serde_json::json!([cpu]), "{}", run.stdout);
    }
    same(&before);
    let left = std::fs::read_dir("/proc").expect("/proc").flatten();
    let left: Vec<String> = left.filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok()).collect();
    assert!(!left.iter().any(|name| name.starts_with("napi/tardy")), "their threads are gone with the devices");
}

#[test]
fn a_receiver_can_poll_a_veth_whose_packets_take_napi() {
    let test = "a_receiver_can_poll_a_veth_whose_packets_take_napi";
    if !can(test) || !has_ethtool(test) {
        return;
    }
    let plain = Place::new();
    let set = ["--trials", "1", "--set", "stream.ctl.count=500", "--set", "stream.ctl.rx.wait=busypoll"];
    let refused = plain.call(&mut plain.run(&set));
    assert!(refused.stdout.contains("SO_INCOMING_NAPI_ID is 0"), "{}{}", refused.stdout, refused.stderr);
    let place = Place::new();
    let run = call(&place, &["path.napi=true", "stream.ctl.rx.wait=busypoll"]);
    assert_eq!(run.outcome("received"), COUNT, "{}", run.stdout);
    assert!(trial(&place)["streams"]["ctl"]["rx"]["napi_id"].as_u64().is_some_and(|id| id > 0), "{}", run.stdout);
}

#[test]
fn migrations_and_waits_are_read_back() {
    if !can_run("migrations_and_waits_are_read_back") {
        return;
    }
    let place = Place::new();
    let run = call(&place, &["stream.ctl.tx.cpu=0", "stream.ctl.rx.cpu=\"same\""]);
    let kernel_says = std::fs::read_to_string("/proc/self/sched").is_ok_and(|text| text.contains("se.nr_migrations"));
    for thread in run.cell()["placement"].as_array().expect("threads") {
        let expected = if kernel_says { Value::from(0) } else { Value::Null };
        assert_eq!(thread["migrations"], expected, "a pinned thread stays: {thread}");
        assert_eq!(thread["cpus_seen"], serde_json::json!([0]), "{thread}");
        assert!(thread["wait_ns"].as_i64().is_none_or(|ns| ns >= 0), "{thread}");
    }
    let cpus = run.cell()["cpus"].as_array().expect("CPUs");
    let packets: u64 = cpus.iter().filter_map(|cpu| cpu["packets"].as_u64()).sum();
    assert!(packets >= COUNT && cpus.iter().all(|cpu| cpu["interrupts"].is_u64()), "{cpus:?}");
}

#[test]
fn a_plan_with_placed_softirq_can_be_pasted() {
    let test = "a_plan_with_placed_softirq_can_be_pasted";
    if !can(test) || !has_ethtool(test) {
        return;
    }
    let before = machine();
    // A plan names the first slot, whose namespaces an earlier run may have left: the script gets
    // a folder of namespaces of its own.
    let left = Command::new("ip").args(["netns", "add", "tardy-0-a"]).stderr(Stdio::null()).status().expect("ip runs");
    for more in [&["station.b.softirq=1"][..], &["path.napi=true", "station.b.softirq=1"]] {
        let place = Place::new();
        let set: Vec<&str> = more.iter().flat_map(|key| ["--set", *key]).collect();
        let plan = place.call(place.command("plan").arg("host-to-host").args(&set));
        assert_eq!(plan.code, Some(0), "{}", plan.stderr);
        let script = plan.stdout.replace("tardy ", &format!("{} ", tardy().display()));
        let script = format!("mkdir -p /run/netns; mount -t tmpfs none /run/netns\n{script}");
        // In a session without a terminal the script goes on where it would wait for Enter.
        let shell = ["--wait", "unshare", "--mount", "sh", "-e", "-c", &script];
        let ran = Command::new("setsid").args(shell).output().expect("a shell");
        let (said, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success() && !stderr.contains("/dev/tty"), "{stderr}\n{script}");
        let proof = if more.len() > 1 { "[\"1\"]" } else { "[\"2 2 2 2\"]" };
        assert!(said.lines().any(|line| line == proof), "{said}");
    }
    if left.success() {
        Command::new("ip").args(["netns", "del", "tardy-0-a"]).status().expect("ip runs");
    }
    same(&before);
}

/// Process group and session, fields 5 and 6 of its `stat`; the name before them may hold anything.
fn group_and_session(pid: u32) -> (u32, u32) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let fields = stat.rsplit_once(") ").expect("a name in brackets").1;
    let mut numbers = fields.split(' ').skip(2).map(|field| field.parse().expect("a number"));
    (numbers.next().expect("a group"), numbers.next().expect("a session"))
}

#[test]
fn a_session_for_each_agent_made_every_switch_between_them_one_between_task_groups() {
    if !can_run("a_session_for_each_agent_made_every_switch_between_them_one_between_task_groups") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let child = place.start(&mut place.run(&SLOW));
    let (a, b) = (place.agent("a"), place.agent("b"));
    let (own, ours) = (group_and_session(a), group_and_session(std::process::id()));
    assert_eq!(own.1, ours.1, "the scheduler's autogroup goes with the session");
    assert_eq!(group_and_session(b).1, ours.1);
    assert_eq!(own.0, a, "the terminal's Ctrl-C goes to another group");
    place.finish(child).ran();
    same(&before);
}

#[test]
fn a_missing_ethtool_is_one_clear_error() {
    if !can_run("a_missing_ethtool_is_one_clear_error") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    // A path on which all is found but this one.
    let bin = place.path("bin");
    std::fs::create_dir(&bin).expect("a folder");
    for program in ["ip", "tc", "sh", "cat", "paste", "grep", "taskset"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .chain(["/usr/sbin", "/sbin"].map(Into::into))
            .map(|folder| folder.join(program))
            .find(|path| path.exists());
        std::os::unix::fs::symlink(found.expect(program), bin.join(program)).expect("a link");
    }
    let run = place.call(place.run(&SLOW).args(["--set", "path.napi=true"]).env("PATH", &bin));
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("program `ethtool` is needed here: apt install ethtool"), "{}", run.stderr);
    same(&before);
}

fn taprio() -> &'static str {
    tardy_tests::experiment("gates on a virtual pair")
}

fn run(place: &Place, text: &str, args: &[&str]) -> Finished {
    let file = place.path("shaper.toml");
    std::fs::write(&file, text).expect("a file");
    place.call(place.run(args).arg(&file))
}

/// True if this machine's kernel, 6.9 or later, keeps a launch time on the way over a virtual link.
fn keeps_launch_times() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let numbers: Vec<u32> = release.split(['.', '-']).map_while(|number| number.parse().ok()).collect();
    numbers >= vec![6, 9]
}

/// Packets of any trial of a run.
fn trials(run: &Finished) -> usize {
    let cells = run.results["cells"].as_array().into_iter().flatten();
    cells.filter_map(|cell| cell["trials"].as_array()).map(Vec::len).sum()
}

#[test]
fn a_kernel_without_the_queue_discipline_says_so_before_any_packet() {
    if !can_run("a_kernel_without_the_queue_discipline_says_so_before_any_packet") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    // Another cell could run: the refusal comes before its packets too.
    let both = taprio().to_owned() + tardy_tests::experiment("with a shaper and without");
    let refused = run(&place, &both, &[]);
    same(&before);
    if refused.code != Some(3) {
        // This kernel has it: then it must be what was asked for, and the gates were judged.
        let cell = &refused.ran().results["cells"][1];
        assert!(!refused.ids("invalid").contains(&"shaper".to_owned()), "{}", refused.stdout);
        assert!(cell["streams"]["ctl"]["gates"]["judged"].as_u64() > Some(0), "{cell}");
        return;
    }
    assert!(refused.stderr.contains("Specified qdisc kind is unknown"), "the kernel's own words: {}", refused.stderr);
    assert!(
        refused.stderr.contains("qdisc replace dev") && refused.stderr.contains("taprio num_tc 2"),
        "{}",
        refused.stderr
    );
    for mend in ["modprobe", "--in guest:exact"] {
        assert!(refused.stderr.contains(mend), "and how to fix it: {}", refused.stderr);
    }
    assert_eq!(trials(&refused), 0);
    assert!(!place.events().iter().any(|event| event["event"] == "trial"), "no trial was begun");
    let kept = std::fs::read_dir(place.out().join("trials")).map_or(0, Iterator::count);
    assert_eq!(kept, 0, "{}", refused.stdout);
}

#[test]
fn offload_costs_the_cell_that_asks_for_it_and_no_other() {
    if !can_run("offload_costs_the_cell_that_asks_for_it_and_no_other") {
        return;
    }
    let text = taprio().to_owned() + tardy_tests::experiment("offloaded and without a shaper");
    let (place, before) = (Place::new(), machine());
    let mixed = run(&place, &text, &[]);
    same(&before);
    assert_eq!(mixed.code, Some(4), "{}", mixed.stderr);
    let cells = mixed.results["cells"].as_array().expect("cells");
    assert_eq!(cells[0]["streams"]["ctl"]["outcomes"]["intended"], 300, "{}", mixed.stdout);
    let told = cells[1]["verdicts"]
        .as_array()
        .expect("verdicts")
        .iter()
        .find(|verdict| verdict["id"] == "refused")
        .expect("refused");
    let says = told["says"].as_str().expect("a sentence");
    assert!(says.contains("the kernel: Error: ") && says.contains("veth"), "{says}");
    let metrics = cells[1]["streams"]["ctl"]["metrics"].as_object().expect("what was asked for");
    assert!(metrics.values().all(|metric| metric["count"] == 0), "it prints no latency: {metrics:?}");
    // Alone it leaves nothing to run.
    let alone = run(&Place::new(), &taprio().replace("classes = 2", "classes = 2\nmode = \"offload\""), &[]);
    assert_eq!((alone.code, trials(&alone)), (Some(3), 0), "{}", alone.stderr);
    assert!(alone.stdout.contains("Error: "), "{}", alone.stdout);
}

#[test]
fn launch_times_that_no_queue_discipline_looks_at_are_told() {
    if !can_run("launch_times_that_no_queue_discipline_looks_at_are_told") {
        return;
    }
    let place = Place::new();
    let with = place.call(place.run(&SHORT).args(["--set", "stream.ctl.launch=strict"]));
    with.ran();
    let notes = with.ids("note");
    assert!(notes.contains(&"launch-ignored".to_owned()), "{notes:?}");
    assert_eq!(notes.contains(&"moved-point".to_owned()), keeps_launch_times(), "{notes:?}");
    let verdicts = with.cell()["verdicts"].as_array().expect("verdicts");
    let told = verdicts.iter().find(|verdict| verdict["id"] == "launch-ignored").expect("told");
    assert_eq!(told["evidence"]["root"], "noqueue", "what was read back: {told}");
    let at = if keeps_launch_times() { "local-delivery" } else { "arrival" };
    assert_eq!(with.cell()["streams"]["ctl"]["rx_kernel_at"], at);
    assert_eq!(with.cell()["streams"]["ctl"]["outcomes"]["not_sent"], 0, "nothing drops them");
    let without = Place::new();
    let without = without.call(&mut without.run(&SHORT));
    without.ran();
    assert!(!without.ids("note").iter().any(|id| id == "launch-ignored" || id == "moved-point"), "{}", without.stdout);
    assert!(without.cell()["streams"]["ctl"]["rx_kernel_at"].is_null());
}

#[test]
fn cells_that_differ_in_the_point_are_not_to_be_compared() {
    if !can_run("cells_that_differ_in_the_point_are_not_to_be_compared") {
        return;
    }
    let place = Place::new();
    let all = run(&place, tardy_tests::experiment("launching"), &[]);
    all.ran();
    let told =
        all.results["verdicts"].as_array().expect("verdicts").iter().find(|verdict| verdict["id"] == "moved-point");
    if !keeps_launch_times() {
        assert!(told.is_none(), "nothing moves: {told:?}");
        return;
    }
    let evidence = &told.expect("told of the run")["evidence"];
    assert_eq!(evidence["local_delivery"], serde_json::json!(["udp"]));
    assert_eq!(evidence["packet_socket"], serde_json::json!(["packet"]));
    assert_eq!(evidence["arrival"], serde_json::json!(["none"]));
}

#[test]
fn what_a_queue_discipline_drops_is_not_refused_on_port_packet_where_packets_bear_launch_times() {
    if !can_run("what_a_queue_discipline_drops_is_not_refused_on_port_packet_where_packets_bear_launch_times") {
        return;
    }
    for port in ["udp", "packet"] {
        let place = Place::new();
        let file = place.path("dropped.toml");
        let text = tardy_tests::experiment("launch times through a full queue").replace("PORT", port);
        std::fs::write(&file, text).expect("a file");
        let child = place.start(place.run(&[]).arg(&file));
        place.wait_for("trial");
        // Long before the trial ends, on a busy machine too.
        std::thread::sleep(Duration::from_millis(700));
        // A queue with room for no packet, as one that is full.
        let netns = place.netns("a");
        let device = crate::packet::device(&netns);
        let tc = |args: &[&str]| {
            let done = Command::new("tc").args(["-n", &netns]).args(args).status().expect("tc");
            assert!(done.success(), "tc {args:?}");
        };
        tc(&["qdisc", "replace", "dev", &device, "root", "bfifo", "limit", "1"]);
        std::thread::sleep(Duration::from_millis(100));
        tc(&["qdisc", "del", "dev", &device, "root"]);
        let run = place.finish(child);
        let record = std::fs::read(place.out().join("trials/all/1/trial.json")).expect("a record");
        let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
        let counters = &record["streams"]["ctl"]["counters"];
        assert_eq!(counters["send_errors"], 0, "{port}: {counters}");
        assert_eq!(counters["sent"], 8_000, "{port}: {counters}");
        assert_eq!(counters["tx_stamps_unmatched"], 0, "{port}: every stamp finds its packet: {counters}");
        let dropped = counters["tx_stamps_missing"].as_u64().expect("a count");
        assert!(dropped > 0, "{port}: {counters}");
        // The device of the trial was touched: what is asked is where those packets stand.
        let outcomes = &run.cell()["trials"][0]["streams"]["ctl"]["outcomes"];
        assert_eq!(outcomes["lost"].as_u64(), Some(dropped), "{port}: {outcomes}");
        assert_eq!(outcomes["not_sent"], 0, "{port}: {outcomes}");
        assert!(!run.ids("invalid").contains(&"send-errors".to_owned()), "{port}: {:?}", run.ids("invalid"));
    }
}

#[test]
fn a_bound_on_the_cpus_wake_up_is_held_during_the_trials_and_released() {
    if !can_run("a_bound_on_the_cpus_wake_up_is_held_during_the_trials_and_released") {
        return;
    }
    let bound = || {
        let bytes = std::fs::read("/dev/cpu_dma_latency").expect("the kernel has PM QoS");
        i32::from_ne_bytes(bytes[..4].try_into().expect("four bytes"))
    };
    let (before, place) = (bound(), Place::new());
    call(&place, &["cpu.dma_latency=3us", "stream.ctl.count=200"]);
    let trial = trial(&place);
    assert_eq!(trial["placement"]["wake_up"]["asked_us"], 3, "{trial}");
    for when in ["before", "after"] {
        // Somebody else may hold less; nobody can make it more.
        assert!(trial[when]["cpu_dma_latency_us"].as_i64().expect("a bound") <= 3, "{when}: {trial}");
    }
    assert_eq!(bound(), before, "it is released");
}
