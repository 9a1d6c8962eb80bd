// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background loads on the real kernel: what each counts, what ends a run, nothing left behind.

use crate::command::{Finished, Place, agents, can_run_beside_others, machine, same, wait};
use serde_json::Value;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use tardy_engine::load::{LoadAt, LoadOrder, LoadSide};
use tardy_engine::message::{ActivityId, ActivitySummary, FromAgent};
use tardy_engine::order::ThreadOrder;
use tardy_model::load::LoadKind;
use tardy_model::stream::Policy;
use tardy_model::time::{Nanos, Tai};
use tardy_sys::proc::exists;

/// A short stream; the loads of a test follow.
fn head() -> &'static str {
    tardy_tests::experiment("stream under loads")
}

/// An experiment with this body behind a short stream.
fn run(place: &Place, body: &str) -> Finished {
    let file = place.path("loads.toml");
    std::fs::write(&file, format!("{}{body}", head())).expect("a file");
    place.call(place.run(&["--allow-commands"]).arg(&file))
}

fn bulk(place: &Place, body: &str) -> (Finished, Value) {
    let run = run(place, &format!("[load.bulk]\nfrom = 'a'\n{body}"));
    run.ran();
    let load = run.cell()["trials"][0]["loads"]["bulk"].clone();
    assert!(load.is_object(), "{}\n{}", run.stdout, run.stderr);
    (run, load)
}

fn number(load: &Value, field: &str) -> u64 {
    load[field].as_u64().unwrap_or_else(|| panic!("{field} in {load}"))
}

/// From when to when the first instance of `bulk` worked at `from`, ns after the base time.
fn time_of(place: &Place) -> (i64, i64) {
    let record = std::fs::read(place.out().join("trials/all/1/trial.json")).expect("a record");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    let side = &record["loads"]["bulk"]["instances"][0]["from"];
    (side["began_ns"].as_i64().expect("its beginning"), side["ended_ns"].as_i64().expect("its end"))
}

/// What all instances of `bulk` counted over their whole time, and of it before the trial.
fn whole(place: &Place, side: &str, field: &str) -> (u64, u64) {
    let record = std::fs::read(place.out().join("trials/all/1/trial.json")).expect("a record");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    let instances = record["loads"]["bulk"]["instances"].as_array().expect("instances");
    let sides = instances.iter().map(|instance| &instance[side]);
    sides.fold((0, 0), |(all, lead), side| (all + number(side, field), lead + number(&side["lead"], field)))
}

/// The verdict of rule `load`, if it spoke.
fn said(run: &Finished) -> Option<String> {
    let verdicts = run.cell()["trials"][0]["verdicts"].as_array()?;
    let verdict = verdicts.iter().find(|verdict| verdict["id"] == "load")?;
    verdict["says"].as_str().map(str::to_owned)
}

#[test]
fn bulk_over_tcp_arrives_as_it_was_sent() {
    if !can_run_beside_others("bulk_over_tcp_arrives_as_it_was_sent") {
        return;
    }
    for (kind, more) in [("tcp_stream", "count = 2"), ("tcp_maerts", ""), ("sporadic", "gap = 'fixed:5ms'")] {
        let (place, before) = (Place::new(), machine());
        let (run, load) = bulk(&place, &format!("kind = '{kind}'\nto = 'b'\n{more}"));
        assert_eq!(said(&run), None, "{kind}");
        let (from, to) = if kind == "tcp_maerts" { ("to", "from") } else { ("from", "to") };
        let (sent, sent_before) = whole(&place, from, "sent_bytes");
        let (arrived, arrived_before) = whole(&place, to, "received_bytes");
        assert!(arrived > 0 && arrived == sent, "{kind}: what was under way was waited for: {arrived} of {sent}");
        // The load begins 300 ms before the trial, and the trial's figures are without that.
        assert!(sent_before > 0 && arrived_before > 0 && arrived_before <= sent_before, "{kind}");
        assert_eq!(number(&load, "sent_bytes"), sent - sent_before, "{kind}");
        assert_eq!(number(&load, "bytes"), arrived - arrived_before, "{kind}");
        assert!(number(&load, "sends") > 0 && number(&load, "receives") > 0, "{load}");
        assert!(load["retransmits"].is_u64() && load["bytes_a_receive"].as_f64() > Some(1.0), "{load}");
        let series = load["series"]["bytes"].as_array().expect("a series");
        assert_eq!(series.iter().filter_map(Value::as_u64).sum::<u64>(), arrived, "{kind}");
        // From 300 ms before the base time to the last of 500 packets.
        assert!(series.len() >= 6 && load["series"]["first_ns"] == -300_000_000, "{load}");
        assert!(number(&load, "span_ns") >= 450_000_000, "{load}");
        assert!(run.stdout.contains(&format!("bulk {kind}")), "{}", run.stdout);
        same(&before);
    }
}

#[test]
fn transactions_are_whole() {
    if !can_run_beside_others("transactions_are_whole") {
        return;
    }
    let place = Place::new();
    let (run, load) = bulk(&place, "kind = 'tcp_rr'\nto = 'b'\nsize = '100B'\nreply_size = '3kB'");
    assert_eq!(said(&run), None);
    let rate = load["transactions_per_s"].as_f64().expect("a rate");
    let transactions = (rate * number(&load, "span_ns") as f64 / 1e9).round() as u64;
    assert!(transactions > 0);
    // The trial may begin in the middle of one.
    assert!(number(&load, "sent_bytes").abs_diff(transactions * 100) <= 100, "{load}");
    assert!(number(&load, "bytes").abs_diff(transactions * 3_000) <= 3_000, "{load}");
    assert_eq!(whole(&place, "from", "sent_bytes").0 / 100, whole(&place, "from", "received_bytes").0 / 3_000);
}

#[test]
fn datagrams_are_received_or_lost() {
    if !can_run_beside_others("datagrams_are_received_or_lost") {
        return;
    }
    for (kind, more) in [
        ("udp_flood", "packet_rate = 2000\nshortfall = '50%'"),
        ("camera", "shortfall = '50%'"),
        ("udp_flood", "receive_buffer = '2KiB'"),
    ] {
        let place = Place::new();
        let (run, load) = bulk(&place, &format!("kind = '{kind}'\nto = 'b'\n{more}"));
        assert_eq!(said(&run), None, "{kind} {more}");
        let (sent, received) = (whole(&place, "from", "sends").0, whole(&place, "to", "receives").0);
        assert_eq!(sent, received + number(&load, "lost"), "{load}");
        assert!(received > 0, "{load}");
        if kind == "camera" {
            let frames = whole(&place, "from", "sent_bytes").0 as f64 / 50_000.0;
            assert!(frames >= 10.0, "30 frames a second for 0.8 s: {frames}");
        }
    }
}

#[test]
fn computing_and_copying_are_measured() {
    if !can_run_beside_others("computing_and_copying_are_measured") {
        return;
    }
    let place = Place::new();
    let (_, load) = bulk(&place, "kind = 'cpu'\nduty = '20%'\nshortfall = '90%'");
    let duty = load["duty"].as_f64().expect("a share");
    assert!(duty > 0.02 && duty < 0.4, "{load}");
    let place = Place::new();
    let (_, load) = bulk(&place, "kind = 'memory'\nworking_set = '1MiB'\nstart = '0s'\nstop = '200ms'");
    assert!(load["copied_bytes_per_s"].as_f64() > Some(1e6), "{load}");
    // Stopped by its own time, not before it; the streams' end would come 500 ms after the base
    // time.
    let (began, ended) = time_of(&place);
    assert!(began >= 0 && (200_000_000..450_000_000).contains(&ended), "{began} to {ended}: {load}");
}

#[test]
fn a_rate_that_cannot_be_reached_makes_the_trial_invalid() {
    if !can_run_beside_others("a_rate_that_cannot_be_reached_makes_the_trial_invalid") {
        return;
    }
    let place = Place::new();
    let (run, _) = bulk(&place, "kind = 'udp_flood'\nto = 'b'\nsize = '64B'\npacket_rate = 100000000");
    let says = said(&run).expect("the rule speaks");
    assert!(says.contains("of the 51200.0 Mbit/s that were asked for"), "{says}");
    assert_eq!(run.code, Some(4), "{}", run.stderr);
}

#[test]
fn with_and_without_is_an_axis() {
    if !can_run_beside_others("with_and_without_is_an_axis") {
        return;
    }
    let place = Place::new();
    let run = run(&place, tardy_tests::experiment("with a load and without"));
    run.ran();
    let cells = run.results["cells"].as_array().expect("cells");
    assert_eq!((cells.len(), &cells[0]["loads"]), (2, &serde_json::json!({})));
    let load = &cells[1]["loads"]["bulk"];
    assert_eq!((&load["count"], load["instances"].as_array().map(Vec::len)), (&2.into(), Some(2)), "{load}");
    assert_eq!(load["asked_bit_s"], 20_000_000, "{load}");
    let built = place.events().iter().filter(|event| event["event"] == "built").count();
    assert_eq!(built, 1, "both stand on one path");
    // Judged again from the folder alone.
    let report = place.call(place.command("report").arg(place.out()).args(["--format", "json"]));
    let again: Value = serde_json::from_str(&report.stdout).expect("JSON");
    assert_eq!(again["cells"][1]["loads"], cells[1]["loads"]);
}

#[test]
fn a_program_that_does_not_exist_is_exit_3() {
    if !can_run_beside_others("a_program_that_does_not_exist_is_exit_3") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let run = run(&place, "[load.x]\nkind = 'command'\nfrom = 'a'\ncommand = ['no-such-program']\n");
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("`no-such-program` is not installed"), "{}", run.stderr);
    assert_eq!(run.stderr.trim().lines().count(), 1, "{}", run.stderr);
    assert!(!place.out().exists(), "the folder stays free for the next try");
    same(&before);
    let place = Place::new();
    let run = crate::loads::run(
        &place,
        "[load.x]\nkind = 'command'\nfrom = 'a'\nto = 'b'\ncommand = ['sleep', '9']\n\
         peer_command = ['sh', '-c', 'echo the port is taken; exit 7']\n",
    );
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("ended at once (exit code 7): the port is taken"), "{}", run.stderr);
    assert!(run.cell()["trials"].as_array().is_none_or(Vec::is_empty), "no packet was sent");
    same(&before);
}

#[test]
fn a_program_that_ends_early_makes_the_trial_invalid() {
    if !can_run_beside_others("a_program_that_ends_early_makes_the_trial_invalid") {
        return;
    }
    let place = Place::new();
    let (run, _) = bulk(&place, "kind = 'command'\ncommand = ['sh', '-c', 'echo out of memory; exit 3']");
    let says = said(&run).expect("the rule speaks");
    assert!(says.contains("exit code 3") && says.contains("out of memory"), "{says}");
    assert_eq!(run.code, Some(4), "{}", run.stderr);
}

/// Processes that have `needle` among their arguments.
fn processes(needle: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == needle.as_bytes())
    })
    .collect()
}

/// A length of sleep that no other process of this machine has.
fn a_sleep_of_its_own() -> String {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    format!("{}.{now:09}", 40_000 + std::process::id() % 10_000)
}

#[test]
fn a_program_that_never_ends_is_stopped_and_its_output_kept() {
    if !can_run_beside_others("a_program_that_never_ends_is_stopped_and_its_output_kept") {
        return;
    }
    let (place, before, sleep) = (Place::new(), machine(), a_sleep_of_its_own());
    // It ignores SIGTERM, and has a child: both must go.
    let script = format!("trap '' TERM; echo to {{to}} from {{from}}; sleep {sleep} & wait; wait");
    let (run, load) = bulk(&place, &format!("kind = 'command'\nto = 'b'\ncommand = ['sh', '-c', \"{script}\"]"));
    assert_eq!(said(&run), None, "{}", run.stdout);
    assert_eq!(load["exits"], serde_json::json!(["from: signal 9, stopped at its end"]), "{load}");
    assert_eq!(processes(&sleep), Vec::<u32>::new(), "a child of the program is left");
    let log = std::fs::read_to_string(place.out().join("trials/all/1/loads/bulk-1.log")).expect("its output");
    let words: Vec<&str> = log.split_whitespace().collect();
    let address = |word: &str| word.parse::<std::net::Ipv4Addr>().is_ok();
    assert!(matches!(words[..], ["to", to, "from", from] if address(to) && address(from) && to != from), "{log}");
    same(&before);
}

#[test]
fn what_a_program_leaves_behind_ends_with_its_trial() {
    if !can_run_beside_others("what_a_program_leaves_behind_ends_with_its_trial") {
        return;
    }
    let (place, before, sleep) = (Place::new(), machine(), a_sleep_of_its_own());
    // It leaves one in a session of its own, and says how many of those it found: by an argument
    // that is just that length, which the pattern of the search is not.
    let script = place.path("leave.sh");
    let pattern = format!("[{}]{}", &sleep[..1], &sleep[1..]);
    let does = format!("grep -zlsxe '{pattern}' /proc/[0-9]*/cmdline | wc -l\nsetsid sleep {sleep} &\nsleep 1000\n");
    std::fs::write(&script, does).expect("a script");
    let body = format!("[load.bulk]\nfrom = 'a'\nkind = 'command'\ncommand = ['sh', '{}']", script.display());
    let file = place.path("loads.toml");
    std::fs::write(&file, format!("{}{body}", head()).replace("trials = 1", "trials = 3")).expect("a file");
    let run = place.call(place.run(&["--allow-commands"]).arg(&file));
    run.ran();
    let heard: Vec<String> = (1..=3)
        .map(|n| std::fs::read_to_string(place.out().join(format!("trials/all/{n}/loads/bulk-1.log"))).expect("output"))
        .collect();
    assert!(heard.iter().all(|log| log.trim() == "0"), "{heard:?}");
    assert_eq!(processes(&sleep), Vec::<u32>::new());
    same(&before);
}

#[test]
fn instances_of_a_program_know_their_number() {
    if !can_run_beside_others("instances_of_a_program_know_their_number") {
        return;
    }
    let place = Place::new();
    let command = "command = ['sh', '-c', 'echo 52{instance}; sleep 1000']\ncount = 3";
    bulk(&place, &format!("kind = 'command'\n{command}"));
    for n in 1..=3 {
        let log =
            std::fs::read_to_string(place.out().join(format!("trials/all/1/loads/bulk-{n}.log"))).expect("output");
        assert_eq!(log.trim(), format!("52{n}"));
    }
}

#[test]
fn a_killed_run_leaves_no_program() {
    if !can_run_beside_others("a_killed_run_leaves_no_program") {
        return;
    }
    let (place, before, sleep) = (Place::new(), machine(), a_sleep_of_its_own());
    let file = place.path("loads.toml");
    // One that leaves its group and session, deaf to SIGTERM: only its mark tells whose it is.
    let script = format!("trap '' TERM; setsid sleep {sleep} & sleep {sleep}");
    let body = format!(
        "{}[load.x]\nkind = 'command'\nfrom = 'a'\ncommand = ['sh', '-c', \"{script}\"]\n",
        head().replace("count = 500", "count = 60000")
    );
    std::fs::write(&file, body).expect("a file");
    let mut child = place.start(place.run(&["--allow-commands"]).arg(&file));
    let started = wait(Duration::from_secs(30), || (processes(&sleep).len() == 2).then_some(()));
    assert!(started.is_some(), "the program starts: {:?}", place.events());
    let pids = processes(&sleep);
    child.kill().expect("SIGKILL");
    child.wait().expect("it ends");
    let undo = place.undo();
    assert_eq!(undo.code, Some(0), "{}", undo.stderr);
    let gone = wait(Duration::from_secs(10), || pids.iter().all(|pid| !exists(*pid)).then_some(()));
    assert!(gone.is_some(), "left: {:?}", processes(&sleep));
    assert!(agents(&place).is_empty());
    same(&before);
}

#[test]
fn a_load_that_cannot_have_its_port_says_so() {
    // On loopback: the agent's own side, without a coordinator.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let local = taken.local_addr().expect("an address");
    let order = |kind: LoadKind, local: SocketAddr| LoadOrder {
        at: LoadAt { load: 0, instance: 0, peer: true },
        name: "bulk".into(),
        kind,
        thread: ThreadOrder { cpu: None, policy: Policy::Other },
        local,
        remote: local,
        start: Nanos::ZERO,
        stop: None,
        send_buffer: None,
        receive_buffer: None,
        seed: 1,
    };
    let refused = LoadSide::open(order(LoadKind::TcpStream { size: 1, rate: None }, local));
    let says = refused.err().expect("the port is taken");
    assert!(
        says.contains("load `bulk` (tcp_stream, instance 1, at `to`)") && says.contains(&local.to_string()),
        "{says}"
    );
    assert!(says.contains("another program using the port"), "{says}");
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let local = nobody.local_addr().expect("an address");
    let refused = LoadSide::open(order(LoadKind::UdpFlood { size: 1, rate: None }, local));
    assert!(refused.is_err(), "the same of UDP");
}

#[test]
fn a_connection_that_is_reset_is_noted_with_its_errno() {
    // On loopback: the caller hangs up with unread bytes, which makes the kernel send a reset.
    // A port that was free a moment ago another test may have by now.
    let port = SocketAddr::new(tardy_tests::of_loopback(), 5_801);
    let order = LoadOrder {
        at: LoadAt { load: 0, instance: 0, peer: true },
        name: "bulk".into(),
        kind: LoadKind::TcpMaerts { size: 16_384 },
        thread: ThreadOrder { cpu: None, policy: Policy::Other },
        local: port,
        remote: ([127, 0, 0, 1], port.port()).into(),
        start: Nanos::ZERO,
        stop: None,
        send_buffer: None,
        receive_buffer: None,
        seed: 1,
    };
    let mut load = LoadSide::open(order).expect("the port is free");
    let mut caller = TcpStream::connect(port).expect("it listens");
    load.connect();
    load.await_connection().expect("it was called");
    load.start(tardy_sys::clock::now::<Tai>());
    caller.read_exact(&mut [0; 100_000]).expect("it sends");
    drop(caller);
    // It sends all the time, so it learns of the reset at its next call; it has no way to tell
    // before it is asked.
    std::thread::sleep(Duration::from_secs(2));
    let mut records = Vec::new();
    let told = load.collect(ActivityId(0), |told| {
        if let FromAgent::Collected { summary, .. } = told
            && let ActivitySummary::Load(record) = *summary
        {
            records.push(record);
        }
        Ok(())
    });
    assert!(told.is_ok() && records.len() == 1);
    let broke = records[0].broke.as_ref().unwrap_or_else(|| panic!("{:?}", records[0]));
    assert!([libc::ECONNRESET, libc::EPIPE].contains(&broke.errno), "{broke:?}");
    assert!(broke.at_ns > 0 && records[0].sent_bytes >= 100_000, "{:?}", records[0]);
}

#[test]
fn a_load_shares_the_streams_cpu_or_does_not() {
    let test = "a_load_shares_the_streams_cpu_or_does_not";
    if !can_run_beside_others(test) {
        return;
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return tardy_tests::skip(test, "there is one CPU");
    }
    for (choice, shared) in [("same", true), ("different", false)] {
        let place = Place::new();
        let (run, _) = bulk(
            &place,
            &format!("kind = 'tcp_maerts'\nto = 'b'\ncpu = '{choice}'\npeer_cpu = '{choice}'\nstop = '100ms'"),
        );
        let rows = run.cell()["placement"].as_array().expect("placement");
        let cpu = |thread: &str| {
            let row = rows.iter().find(|row| row["thread"] == thread).unwrap_or_else(|| panic!("{thread}: {rows:?}"));
            assert_eq!(row["cpus_seen"].as_array().map(Vec::len), Some(1), "pinned: {row}");
            row["cpu_asked"].clone()
        };
        assert_eq!(cpu("bulk.from") == cpu("ctl.tx"), shared, "{choice}: {rows:?}");
        assert_eq!(cpu("bulk.to") == cpu("ctl.rx"), shared, "{choice}: {rows:?}");
    }
}

#[test]
fn a_program_of_a_load_gets_none_of_the_callers_environment() {
    if !can_run_beside_others("a_program_of_a_load_gets_none_of_the_callers_environment") {
        return;
    }
    let place = Place::new();
    let file = place.path("loads.toml");
    let load =
        "[load.bulk]\nkind = 'command'\nfrom = 'a'\ncommand = ['sh', '-c', 'cat /proc/self/environ; sleep 1000']\n";
    std::fs::write(&file, format!("{}{load}", head())).expect("a file");
    let mut command = place.run(&["--allow-commands"]);
    place.call(command.arg(&file).env("SECRET_TOKEN", "hunter2").env("LANG", "C.UTF-8")).ran();
    let log = std::fs::read(place.out().join("trials/all/1/loads/bulk-1.log")).expect("its output");
    let log = String::from_utf8_lossy(&log);
    let mut names: Vec<&str> = log.split('\0').filter_map(|entry| Some(entry.split_once('=')?.0)).collect();
    names.sort_unstable();
    // What the shell itself sets comes on top.
    names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
    assert_eq!(names, ["LANG", "PATH", "TARDY_LOAD"], "{log:?}");
}

#[test]
fn a_program_needs_the_callers_word() {
    if !can_run_beside_others("a_program_needs_the_callers_word") {
        return;
    }
    let place = Place::new();
    let (file, ran) = (place.path("loads.toml"), place.path("ran"));
    let load = format!("[load.bulk]\nkind = 'command'\nfrom = 'a'\ncommand = ['touch', '{}']\n", ran.display());
    std::fs::write(&file, format!("{}{load}", head())).expect("a file");
    let run = place.call(place.run(&[]).arg(&file));
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("load `bulk`") && run.stderr.contains("--allow-commands"), "{}", run.stderr);
    assert!(!ran.exists() && !place.out().exists(), "nothing was done");
}
