// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `packet` on the real kernel: tags arrive as they were written, and what a switch on the
//! way does to them is reported.

use crate::command::{Finished, Place, can_run, can_run_beside_others, each, machine, same, tardy};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use tardy_model::ethernet::{self, ETHERTYPE, Tag};
use tardy_model::frame::{Frame, PacketKind};
use tardy_store::RunFolder;
use tardy_sys::packet::{self, Instruction};
use tardy_sys::process::enter_netns;
use tardy_sys::stamps::{RxStamps, TxStamps};
use tardy_sys::udp::Heard;

const HEAD: &str = tardy_tests::part("stations of frames");
const STREAM: &str = tardy_tests::part("frames");

fn write(place: &Place, text: &str) -> std::path::PathBuf {
    let file = place.path("packet.toml");
    std::fs::write(&file, text).expect("a file");
    file
}

fn run(place: &Place, text: &str) -> Finished {
    let file = write(place, text);
    place.call(place.run(&[]).arg(&file))
}

/// What was recorded of the stream in the first trial of the first cell.
fn record(place: &Place) -> Value {
    let file = place.out().join("trials/all/1/trial.json");
    let record: Value = serde_json::from_slice(&std::fs::read(file).expect("a record")).expect("JSON");
    record["streams"]["ctl"].clone()
}

/// Priorities in the samples of the first trial.
fn priorities(place: &Place) -> Vec<Option<u8>> {
    let folder = RunFolder::open(place.out()).expect("the run folder opens");
    let batches = folder.batches("all", 1, "ctl").expect("samples");
    batches.flat_map(|batch| batch.expect("whole samples").pcp).collect()
}

#[test]
fn a_tagged_stream_arrives_with_its_priority_and_every_stamp() {
    if !can_run_beside_others("a_tagged_stream_arrives_with_its_priority_and_every_stamp") {
        return;
    }
    let before = machine();
    // A payload as short as can be, one of the usual, and one that fills the path's MTU: with its
    // tag the frame is longer.
    for (tag, size) in [("vlan = 100\npcp = 3\n", 24), ("vlan = 0\npcp = 7\n", 64), ("", 64), ("vlan = 4094\n", 1500)] {
        let place = Place::new();
        let run = run(&place, &format!("{HEAD}{STREAM}{tag}size = \"{size}B\"\n"));
        run.ran();
        assert!(!run.ids("invalid").iter().any(|id| id.starts_with("vlan")), "{}", run.stdout);
        assert_eq!(each(run.cell(), "ctl", "received"), [600; 2], "{}", run.stdout);
        for metric in ["scheduled..wakeup", "scheduled..rx_kernel", "tx_kernel..rx_kernel", "rx_kernel..receive"] {
            assert_eq!(run.metric(metric)["coverage"], 1.0, "{metric}: {}", run.metric(metric));
            assert!(run.metric(metric)["min_ns"].as_i64() >= Some(0), "{metric}: {}", run.metric(metric));
        }
        let ctl = record(&place);
        let (count, pcp) = match tag {
            "" => ("0", None),
            "vlan = 100\npcp = 3\n" => ("1", Some(3)),
            "vlan = 0\npcp = 7\n" => ("1", Some(7)),
            _ => ("1", Some(0)),
        };
        assert_eq!(ctl["tags"]["by_count"], json!({count: 600}), "{tag}");
        assert_eq!(priorities(&place), vec![pcp; 600], "{tag}");
        for counter in ["foreign", "duplicates", "socket_drops", "tx_stamps_missing", "tx_stamps_unmatched"] {
            assert_eq!(ctl["counters"][counter], 0, "{counter}: {ctl}");
        }
    }
    same(&before);
}

#[test]
fn every_way_to_wait_receives_frames() {
    if !can_run_beside_others("every_way_to_wait_receives_frames") {
        return;
    }
    let place = Place::new();
    let matrix = "vlan = 5\npcp = 2\n[matrix]\n\"stream.ctl.rx.wait\" = [\"block\", \"poll\", \"select\", \"epoll\", \"spin\"]\n";
    let run = run(&place, &format!("{HEAD}{STREAM}{matrix}"));
    run.ran();
    let cells = run.results["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 5);
    for cell in cells {
        assert_eq!(each(cell, "ctl", "received"), [600; 2], "{}: {}", cell["id"], run.stdout);
    }
}

/// How long each trial took by the run's events, with what comes before and after its packets, ms.
fn trials_ms(place: &Place) -> Vec<i64> {
    let events = place.events();
    let at_ms = |event: &Value| {
        let time = event["at_utc"].as_str().expect("a time").split(['T', ':', '.', 'Z']).collect::<Vec<_>>();
        let number = |n: usize| time[n].parse::<i64>().expect("a number");
        ((number(1) * 60 + number(2)) * 60 + number(3)) * 1_000 + number(4)
    };
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).map(at_ms).collect::<Vec<_>>();
    of("trial").into_iter().zip(of("trial_kept")).map(|(from, to)| (to - from).rem_euclid(86_400_000)).collect()
}

#[test]
fn a_receiver_that_blocked_took_two_of_its_time_limits_to_end() {
    if !can_run("a_receiver_that_blocked_took_two_of_its_time_limits_to_end") {
        return;
    }
    let shortest = |wait: &str| {
        let place = Place::new();
        let short = STREAM.replace("600", "30").replace("[stream.ctl]", &format!("[stream.ctl]\nrx.wait = \"{wait}\""));
        // Without tx stamps there is no observer in the first trial.
        let text = format!("{HEAD}{short}stamps = [\"rx_kernel\", \"receive\"]\n").replace("trials = 2", "trials = 6");
        run(&place, &text).ran();
        let all = trials_ms(&place);
        assert_eq!(all.len(), 6, "{all:?}");
        all[1..].iter().copied().min().expect("trials")
    };
    // One that spins looks for its orders all the time.
    let (spins, blocks) = (shortest("spin"), shortest("block"));
    assert!(blocks < 2 * spins.max(100), "{blocks} ms where one that spins takes {spins} ms");
}

#[test]
fn frames_are_reflected_and_answered() {
    if !can_run_beside_others("frames_are_reflected_and_answered") {
        return;
    }
    for kind in ["reflect = true\n", "kind = \"pingpong\"\n"] {
        let place = Place::new();
        let run = run(&place, &format!("{HEAD}{STREAM}{kind}vlan = 9\npcp = 6\nreply_size = \"200B\"\n"));
        run.ran();
        assert_eq!(each(run.cell(), "ctl", "received"), [600; 2], "{}", run.stdout);
        assert_eq!(run.metric("send..reply_receive")["coverage"], 1.0, "{}", run.stdout);
        assert_eq!(run.metric("reply_tx_kernel..reply_rx_kernel")["coverage"], 1.0, "{}", run.stdout);
        let ctl = record(&place);
        assert_eq!(ctl["tags"]["by_pcp"], json!({"6": 600}));
        assert_eq!(ctl["reply"]["tags"]["by_pcp"], json!({"6": 600}));
        assert_eq!(ctl["counters"]["foreign"], 0, "the reflector is not given what it sends itself");
        assert_eq!(ctl["reply"]["counters"]["foreign"], 0);
    }
}

#[test]
fn streams_of_one_type_do_not_count_each_other_as_foreign() {
    if !can_run_beside_others("streams_of_one_type_do_not_count_each_other_as_foreign") {
        return;
    }
    let place = Place::new();
    let others = tardy_tests::experiment("two more streams of frames");
    let run = run(&place, &format!("{HEAD}{STREAM}vlan = 3\npcp = 5\n{others}"));
    run.ran();
    assert!(!run.ids("note").contains(&"foreign".to_owned()), "{}", run.stdout);
    for stream in ["ctl", "other", "back"] {
        assert_eq!(each(run.cell(), stream, "received"), [600; 2], "{stream}: {}", run.stdout);
    }
}

/// The one device of a station.
pub fn device(netns: &str) -> String {
    let output = Command::new("ip").args(["-n", netns, "-j", "link"]).output().expect("ip");
    let links: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let link = links.as_array().into_iter().flatten().find(|link| link["ifname"] != "lo");
    link.and_then(|link| link["ifname"].as_str()).expect("a device").to_owned()
}

/// Lets every frame through.
const ALL: [Instruction; 1] = [Instruction { code: 0x06, yes: 0, no: 0, k: u32::MAX }];

#[test]
fn foreign_frames_are_counted_and_become_no_sample() {
    if !can_run_beside_others("foreign_frames_are_counted_and_become_no_sample") {
        return;
    }
    let place = Place::new();
    let text = format!("{HEAD}{STREAM}vlan = 2\npcp = 1\n").replace("trials = 2", "trials = 1").replace("600", "4000");
    let file = write(&place, &text);
    let child = place.start(place.run(&[]).arg(&file));
    place.wait_for("trial");
    std::thread::sleep(Duration::from_millis(300));
    let netns = place.netns("a");
    let device = device(&netns);
    let thrower = std::thread::spawn(move || {
        enter_netns(&Path::new("/run/netns").join(&netns)).expect("the sender's namespace");
        let mut socket = packet::sender(&device, 0, TxStamps::default(), 1 << 20, None).expect("a socket");
        let mut thrown = 0u64;
        for n in 0..2_000u32 {
            let tag = [None, Some(Tag { vlan: 2, pcp: 1 }), Some(Tag { vlan: 9, pcp: 0 })][n as usize % 3];
            let mut frame = ethernet::head([0xff; 6], [2, 0, 0, 0, 0, 9], tag, ETHERTYPE);
            let mut payload = vec![0; 64];
            Frame { kind: PacketKind::Test, stream: 0, size: 64, nonce: u64::from(n), seq: n }.write(&mut payload);
            match n % 4 {
                // The kernel itself drops a tagged frame with less than two bytes behind its type.
                0 => payload.truncate(2 + n as usize % 62),
                1 => payload.resize(65 + n as usize % 900, 7),
                2 => payload[3] ^= 1,
                _ => {}
            }
            frame.extend(payload);
            thrown += u64::from(socket.send(&frame, 0, None).is_ok());
            if n % 50 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        thrown
    });
    let thrown = thrower.join().expect("they are thrown");
    let run = place.finish(child);
    run.ran();
    assert_eq!(thrown, 2_000);
    let ctl = record(&place);
    assert_eq!(
        ctl["counters"]["foreign"].as_u64().map(|n| n + ctl["counters"]["socket_drops"].as_u64().unwrap_or(0)),
        Some(thrown)
    );
    assert_eq!((run.outcome("intended"), run.outcome("received")), (4_000, 4_000), "{}", run.stdout);
    assert_eq!(ctl["tags"]["by_count"], json!({"1": 4_000}), "strangers' tags are not among them");
    assert!(run.ids("note").contains(&"foreign".to_owned()), "{}", run.stdout);
}

/// Two cards in a namespace of the test's own, each cabled to a port of a switch, which passes
/// every frame on as it is configured.
struct Switched {
    name: String,
    place: Place,
    stop: Arc<AtomicBool>,
    passed: Arc<AtomicU64>,
    switch: Option<JoinHandle<()>>,
}

/// What the switch does with a frame: its tag as the kernel took it out, the rest; what goes on,
/// or nothing.
type Does = fn(u64, Option<Tag>, &[u8]) -> Option<Vec<u8>>;

/// The frame with its tag where it was.
fn with(tag: Option<Tag>, rest: &[u8]) -> Vec<u8> {
    let Some(tag) = tag else { return rest.to_vec() };
    let (addresses, behind) = rest.split_at(12);
    [addresses, &ethernet::TAG.to_be_bytes(), &tag.tci().to_be_bytes(), behind].concat()
}

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().expect("ip is installed");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Switched {
    fn new(does: Does) -> Switched {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tardyswitch-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        ip(&format!("netns add {name}"));
        for (card, port) in [("card1", "port1"), ("card2", "port2")] {
            ip(&format!("-n {name} link add {card} type veth peer name {port}"));
            ip(&format!("-n {name} link set dev {port} addrgenmode none"));
            ip(&format!("-n {name} link set dev {port} up"));
        }
        let (stop, passed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (halt, count, netns) = (stop.clone(), passed.clone(), name.clone());
        let (up, ready) = std::sync::mpsc::channel();
        let switch = std::thread::spawn(move || {
            enter_netns(&Path::new("/run/netns").join(&netns)).expect("the switch's namespace");
            let mut from = packet::receiver("port1", &ALL, false, RxStamps::default(), 4 << 20).expect("a port");
            let mut to = packet::sender("port2", 0, TxStamps::default(), 1 << 20, None).expect("a port");
            let (mut bytes, mut heard) = ([0; 2_048], Heard::default());
            up.send(()).expect("the test waits");
            while !halt.load(Relaxed) {
                let Ok(1) = from.receive(&mut bytes, &mut heard, true) else { continue };
                let tag = heard.taken.map(|(_, tci)| Tag { vlan: tci & 0x0fff, pcp: (tci >> 13) as u8 });
                if let Some(frame) = does(count.fetch_add(1, Relaxed), tag, &bytes[..heard.length]) {
                    let _ = to.send(&frame, 0, None);
                }
            }
        });
        ready.recv().expect("the switch runs");
        Switched { name, place: Place::new(), stop, passed, switch: Some(switch) }
    }

    /// A run whose frames go through the switch.
    fn run(&self, more: &str) -> Finished {
        self.run_of(&format!("{STREAM}{more}"))
    }

    /// The same with another stream.
    fn run_of(&self, stream: &str) -> Finished {
        let path = "[path]\nkind = \"wire\"\na = \"card1\"\nb = \"card2\"\n";
        let file = write(&self.place, &format!("{HEAD}{path}{stream}"));
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).arg(tardy()).arg("run").arg(file);
        command
            .arg("--allow-nics")
            .arg("--out")
            .arg(self.place.out())
            .env("TARDY_STATE", self.place.state())
            .stdin(Stdio::null());
        self.place.call(&mut command)
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let broke = self.switch.take().is_some_and(|switch| switch.join().is_err());
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
        assert!(!broke || std::thread::panicking(), "the switch broke");
    }
}

fn reported(run: &Finished) -> Vec<String> {
    run.ids("invalid").into_iter().filter(|id| id.starts_with("vlan")).collect()
}

#[test]
fn a_switch_that_leaves_tags_alone_is_not_told_of() {
    if !can_run_beside_others("a_switch_that_leaves_tags_alone_is_not_told_of") {
        return;
    }
    let switched = Switched::new(|_, tag, rest| Some(with(tag, rest)));
    let run = switched.run("vlan = 100\npcp = 3\n");
    run.ran();
    assert_eq!(reported(&run), [""; 0], "{}", run.stdout);
    assert!(switched.passed.load(Relaxed) >= 1_200);
    assert_eq!(run.metric("tx_kernel..rx_kernel")["coverage"], 1.0, "{}", run.stdout);
    assert_eq!(record(&switched.place)["tags"]["by_vlan"], json!({"100": 600}));
}

#[test]
fn a_switch_that_changes_the_priority_is_found_out() {
    if !can_run_beside_others("a_switch_that_changes_the_priority_is_found_out") {
        return;
    }
    let switched = Switched::new(|_, tag, rest| Some(with(tag.map(|tag| Tag { pcp: 0, ..tag }), rest)));
    let run = switched.run("vlan = 100\npcp = 3\n");
    assert_eq!(run.code, Some(4), "{}{}", run.stdout, run.stderr);
    assert_eq!(reported(&run), ["vlan-pcp"], "{}", run.stdout);
    assert!(run.stdout.contains("PCP 3"), "{}", run.stdout);
    let received = priorities(&switched.place);
    assert_eq!(received, vec![Some(0); 600], "the samples say what arrived");
}

#[test]
fn a_switch_that_adds_or_takes_a_tag_is_found_out() {
    if !can_run_beside_others("a_switch_that_adds_or_takes_a_tag_is_found_out") {
        return;
    }
    // One that adds a tag is found by the probe packets, and nothing is measured.
    let adds: Does = |_, tag, rest| Some(with(Some(Tag { vlan: 7, pcp: 5 }), &with(tag, rest)));
    let switched = Switched::new(adds);
    let run = switched.run("vlan = 100\npcp = 3\n");
    assert_eq!(run.code, Some(3), "{}{}", run.stdout, run.stderr);
    let says = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(says.contains("with 1 VLAN tags and arrive at b with 2"), "{says}");
    let takes: Does = |_, _, rest| Some(rest.to_vec());
    let moves: Does = |_, tag, rest| Some(with(tag.map(|tag| Tag { vlan: 8, ..tag }), rest));
    // Of another type, as a provider's switch writes it.
    let types: Does = |_, tag, rest| {
        let mut frame = with(tag, rest);
        if tag.is_some() {
            frame[12..14].copy_from_slice(&ethernet::TAGS[1].to_be_bytes());
        }
        Some(frame)
    };
    let all = [(takes, "0"), (moves, "1"), (types, "1")];
    for (does, counts) in all.map(|(does, count)| (does, json!({count: 600}))) {
        let switched = Switched::new(does);
        let run = switched.run("vlan = 100\npcp = 3\n");
        assert_eq!(run.code, Some(4), "{}{}", run.stdout, run.stderr);
        assert_eq!(reported(&run), ["vlan-tags"], "{}", run.stdout);
        assert_eq!(each(run.cell(), "ctl", "received"), [600; 2], "it arrived all the same: {}", run.stdout);
        let ctl = record(&switched.place);
        assert_eq!(ctl["tags"]["by_count"], counts);
    }
}

#[test]
fn frames_that_a_switch_drops_are_lost_and_their_rows_stay() {
    if !can_run_beside_others("frames_that_a_switch_drops_are_lost_and_their_rows_stay") {
        return;
    }
    let switched = Switched::new(|n, tag, rest| (n % 10 != 0).then(|| with(tag, rest)));
    let run = switched.run("vlan = 100\npcp = 3\n");
    assert_eq!(run.code, Some(4), "{}{}", run.stdout, run.stderr);
    assert!(run.ids("invalid").contains(&"loss".to_owned()), "{}", run.stdout);
    assert_eq!(reported(&run), [""; 0], "{}", run.stdout);
    let (lost, received) = (each(run.cell(), "ctl", "lost"), each(run.cell(), "ctl", "received"));
    assert_eq!(lost.len(), 2, "{}", run.stdout);
    for (lost, received) in lost.iter().zip(received) {
        assert!((59..=61).contains(lost), "a tenth of 600: {lost}");
        assert_eq!(received + lost, 600);
    }
    let got: BTreeSet<Option<u8>> = priorities(&switched.place).into_iter().collect();
    assert_eq!(got, BTreeSet::from([None, Some(3)]), "what did not arrive has no priority");
}

#[test]
fn a_frame_that_nothing_answers_is_given_up_when_its_time_is_over_not_after_a_whole_wait() {
    if !can_run_beside_others("a_frame_that_nothing_answers_is_given_up_when_its_time_is_over_not_after_a_whole_wait") {
        return;
    }
    // The switch passes requests on, and no replies.
    let switched = Switched::new(|_, tag, rest| Some(with(tag, rest)));
    let run = switched.run_of(&STREAM.replace("600", "20\nkind = \"pingpong\"\ntimeout = \"20ms\""));
    assert_eq!(run.code, Some(4), "{}{}", run.stdout, run.stderr);
    assert_eq!(each(run.cell(), "ctl", "lost"), [20; 2], "{}", run.stdout);
    // Left to itself a wait lasts ten timeouts.
    let apart = record(&switched.place)["sent_span_ns"].as_i64().map(|span| span / 19);
    assert!(
        apart.is_some_and(|apart| (20_000_000..100_000_000).contains(&apart)),
        "from request to request: {apart:?}"
    );
}

#[test]
fn what_the_kernel_has_not_is_refused_in_its_own_words() {
    if !can_run_beside_others("what_the_kernel_has_not_is_refused_in_its_own_words") {
        return;
    }
    let before = machine();
    let place = Place::new();
    let udp = tardy_tests::experiment("tagged datagrams");
    let run = self::run(&place, &format!("{HEAD}{udp}"));
    if run.code == Some(3) {
        assert!(run.stderr.contains("type vlan id 100 egress-qos-map 3:3"), "{}", run.stderr);
        assert!(run.stderr.contains("Unknown device type"), "{}", run.stderr);
        assert_eq!(run.stderr.trim().lines().count(), 1, "one error, not {}", run.stderr);
    } else {
        // A kernel with VLAN devices.
        run.ran();
        assert_eq!(each(run.cell(), "ctl", "received"), [300; 2], "{}", run.stdout);
    }
    let place = Place::new();
    let run = self::run(&place, &format!("{HEAD}[path]\npcp_queues = true\n{STREAM}vlan = 100\npcp = 3\n"));
    assert_eq!(run.code, Some(3), "veth filters nothing: {}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("ethtool -N") && run.stderr.contains("not supported"), "{}", run.stderr);
    assert!(!place.out().join("trials/all/1").exists(), "before any packet: {}", run.stdout);
    same(&before);
}
