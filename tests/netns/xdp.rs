// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `xdp` on the real kernel: every packet has the XDP program's stamp, everything else goes on
//! to the kernel, and what is not available is reported.

use crate::command::{Finished, Place, agents, can_run, each, machine, same, wait};
use crate::packet::device;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tardy_bpf::program::{Chosen, Filter, Program, RxTime};
use tardy_bpf::user::StampClock;
use tardy_bpf::xsk::{Asked, Rings, WaitBy};
use tardy_model::ethernet::{self, ETHERTYPE, Tag};
use tardy_model::frame::{Frame, HEAD, MARK, PacketKind};
use tardy_model::xdp::XdpMode;
use tardy_sys::clock;
use tardy_sys::packet::sender;
use tardy_sys::process::enter_netns;
use tardy_sys::stamps::TxStamps;

pub fn experiment() -> &'static str {
    tardy_tests::experiment("frames to an XDP program")
}

pub fn write(place: &Place, text: &str) -> std::path::PathBuf {
    let file = place.path("xdp.toml");
    std::fs::write(&file, text).expect("a file");
    file
}

pub fn run(place: &Place, text: &str) -> Finished {
    place.call(place.run(&[]).arg(write(place, text)))
}

/// What was recorded of the stream in the first trial of a cell.
pub fn record(place: &Place, cell: &str) -> Value {
    let file = place.out().join(format!("trials/{cell}/1/trial.json"));
    let record: Value = serde_json::from_slice(&std::fs::read(file).expect("a record")).expect("JSON");
    record["streams"]["ctl"].clone()
}

pub fn ip(args: &str) -> String {
    let output = Command::new("ip").args(args.split(' ')).output().expect("ip is installed");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A pair of devices in a namespace of the test's own.
pub struct Pair(pub String);

impl Pair {
    pub fn new() -> Pair {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tardyxdp-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        ip(&format!("netns add {name}"));
        ip(&format!(
            "-n {name} link add near numrxqueues 2 numtxqueues 2 type veth peer name far numrxqueues 2 numtxqueues 2"
        ));
        for device in ["near", "far"] {
            ip(&format!("-n {name} link set dev {device} addrgenmode none"));
            ip(&format!("-n {name} link set dev {device} up"));
        }
        // Before the kernel has seen the carrier, it drops what is sent.
        let is_up = |device: &str| {
            let says = Command::new("ip").args(["-n", &name, "-br", "link", "show", "dev", device]).output();
            says.is_ok_and(|says| String::from_utf8_lossy(&says.stdout).contains(" UP "))
        };
        let both = wait(Duration::from_secs(20), || (is_up("near") && is_up("far")).then_some(()));
        both.expect("the kernel sees the carrier");
        Pair(name)
    }

    /// Does this in the namespace.
    pub fn inside<T: Send>(&self, does: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|threads| {
            let inside = || {
                enter_netns(&Path::new("/run/netns").join(&self.0)).expect("the test's namespace");
                does()
            };
            threads.spawn(inside).join().expect("it did not break")
        })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

pub const FILTER: Filter = Filter { ethertype: ETHERTYPE, stream: 3, nonce: 0x1122_3344_5566_7788 };

pub fn asked(device: &str) -> Asked<'_> {
    Asked { device, queue: None, frames: 64, program: Chosen::Own(FILTER) }
}

pub fn frame(stream: u8, nonce: u64, tag: Option<Tag>, seq: u32) -> Vec<u8> {
    let mut frame = ethernet::head([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], tag, ETHERTYPE);
    let at = frame.len();
    frame.resize(at + 64, 0);
    Frame { kind: PacketKind::Test, stream, size: 64, nonce, seq }.write(&mut frame[at..]);
    frame
}

const PASS: u32 = 2;

#[test]
fn the_program_takes_its_streams_frames_and_lets_all_others_go_on() {
    if !can_run("the_program_takes_its_streams_frames_and_lets_all_others_go_on") {
        return;
    }
    let tagged = Some(Tag { vlan: 5, pcp: 3 });
    for clock in [StampClock::Tai, StampClock::Monotonic] {
        let program = Program::stamping(FILTER, 1, clock).expect("it is loaded");
        // Without a socket each goes on; a frame that was taken has a stamp before it.
        let stamp = |packet: &[u8]| {
            let (decided, out) = program.run_on(packet, 0).expect("it runs");
            assert_eq!(decided, PASS);
            let before = out.len() - packet.len();
            assert_eq!(&out[before..], packet, "the packet is as it was");
            program.stamps.read(&[&[0; 24], &out[..before]].concat())
        };
        let at = |clock| match clock {
            StampClock::Tai => clock::read_clocks().tai_ns as u64,
            _ => clock::read_clocks().monotonic_ns as u64,
        };
        for tag in [None, tagged] {
            let before = at(clock);
            let of_its = stamp(&frame(3, FILTER.nonce, tag, 9)).expect("a stamp");
            assert!((before..=at(clock)).contains(&of_its.time_ns), "{clock:?}: {of_its:?} after {before}");
            assert_eq!((of_its.queue, of_its.mark), (0, None));
        }
        assert!(stamp(&frame(8, 1, None, 9)).is_some(), "another trial's is counted by this receiver");
        assert_eq!(stamp(&frame(8, FILTER.nonce, None, 9)), None, "another stream of the trial has its own receiver");
        let mut marked = frame(3, FILTER.nonce, tagged, 0x0102_0304);
        marked[18 + 4] |= MARK;
        assert!(matches!(stamp(&marked), Some(RxTime { mark: Some(0x0102_0304), .. })), "{:?}", stamp(&marked));
        let mut damaged = frame(3, FILTER.nonce, None, 9);
        damaged[14] ^= 1;
        assert_eq!(stamp(&damaged), None, "no test frame");
        for ethertype in [0x0800_u16, 0x0806, 0x86dd, 0x88f7] {
            let mut other = frame(3, FILTER.nonce, None, 9);
            other[12..14].copy_from_slice(&ethertype.to_be_bytes());
            assert_eq!(stamp(&other), None, "{ethertype:#x}");
        }
        for length in 14..14 + HEAD {
            assert_eq!(stamp(&frame(3, FILTER.nonce, None, 9)[..length]), None, "cut at {length}");
        }
    }
}

#[test]
fn what_another_program_left_before_a_frame_was_taken_for_its_stamp() {
    if !can_run("what_another_program_left_before_a_frame_was_taken_for_its_stamp") {
        return;
    }
    let program = Program::stamping(FILTER, 1, StampClock::Tai).expect("it is loaded");
    let packet = frame(3, FILTER.nonce, None, 9);
    let (_, alone) = program.run_on(&packet, 0).expect("it runs");
    let own = &alone[..alone.len() - packet.len()];
    // The same struct, whose first member is the time: it is long after all that follow.
    let left = [&u64::MAX.to_ne_bytes(), &own[8..]].concat();
    assert!(program.stamps.read(&left).is_some_and(|stamp| stamp.time_ns == u64::MAX), "{left:?}");
    let before = clock::read_clocks().tai_ns as u64;
    let (decided, out) = program.run_on(&[&left, &packet[..]].concat(), left.len() as u32).expect("it runs");
    assert_eq!((decided, out.len()), (PASS, alone.len()), "one struct is before the packet, the program's own");
    let stamp = program.stamps.read(&out[..own.len()]).expect("a stamp");
    assert!((before..=clock::read_clocks().tai_ns as u64).contains(&stamp.time_ns), "{stamp:?} after {before}");
    // What is before a packet of somebody else's stays.
    let other = [&left, &frame(8, FILTER.nonce, None, 9)[..]].concat();
    assert_eq!(program.run_on(&other, left.len() as u32).expect("it runs"), (PASS, other));
}

#[test]
fn a_frame_comes_with_its_stamp_and_a_used_frame_shows_no_old_one() {
    if !can_run("a_frame_comes_with_its_stamp_and_a_used_frame_shows_no_old_one") {
        return;
    }
    let pair = Pair::new();
    pair.inside(|| {
        let (mut rings, opened) = Rings::open(&asked("far")).expect("sockets");
        assert_eq!((opened.mode, opened.queues, opened.umem_bytes), (XdpMode::Native, 2, 2 * 64 * 4_096));
        assert_eq!(opened.refused.iter().map(|of| of.mode).collect::<Vec<_>>(), [XdpMode::ZeroCopy]);
        let mut socket = sender("near", 0, TxStamps::default(), 1 << 20, None).expect("a socket");
        let mut waiter = rings.waiter(WaitBy::Poll).expect("it can be waited");
        // Each frame of the memory is used several times.
        for seq in 0..1_000 {
            let before = clock::read_clocks().tai_ns as u64;
            let sent = frame(3, FILTER.nonce, None, seq);
            socket.send(&sent, 0, None).expect("it is sent");
            let came = wait(Duration::from_secs(2), || (waiter.wait(50) && rings.take(8) == 1).then_some(()));
            came.unwrap_or_else(|| panic!("packet {seq} did not come: {:?}", rings.losses()));
            assert_eq!(rings.packet(0), sent, "{seq}");
            let stamp = rings.stamp(0).unwrap_or_else(|| panic!("packet {seq} has no stamp"));
            assert!((before..=clock::read_clocks().tai_ns as u64).contains(&stamp.time_ns), "{seq}: {stamp:?}");
        }
        assert_eq!(rings.losses().packets(), 0);
    });
}

#[test]
fn what_the_sockets_lose_is_counted_once() {
    if !can_run("what_the_sockets_lose_is_counted_once") {
        return;
    }
    let pair = Pair::new();
    pair.inside(|| {
        let (mut rings, _) = Rings::open(&asked("far")).expect("sockets");
        let mut socket = sender("near", 0, TxStamps::default(), 1 << 20, None).expect("a socket");
        // One CPU's frames come to one queue or the other; both together have 128 places.
        for seq in 0..1_000 {
            socket.send(&frame(3, FILTER.nonce, None, seq), 0, None).expect("it is sent");
        }
        let mut came = 0;
        let all = wait(Duration::from_secs(2), || {
            came += rings.take(64) as u64;
            (came + rings.losses().packets() == 1_000).then_some(())
        });
        let losses = rings.losses();
        assert!(all.is_some(), "{came} came, {losses:?}");
        assert!((64..=1_000 - losses.fill_ring_empty).contains(&came), "{came} came, {losses:?}");
        assert!(losses.rx_dropped >= losses.fill_ring_empty && losses.fill_ring_empty > 0, "{losses:?}");
    });
}

#[test]
fn a_device_that_vanishes_is_an_error_and_no_endless_wait() {
    if !can_run("a_device_that_vanishes_is_an_error_and_no_endless_wait") {
        return;
    }
    let pair = Pair::new();
    pair.inside(|| {
        let (mut rings, _) = Rings::open(&asked("far")).expect("sockets");
        let mut waiter = rings.waiter(WaitBy::Poll).expect("it can be waited");
        assert_eq!(rings.error(), 0);
        ip(&format!("-n {} link del near", pair.0));
        // No wait ends by it, so the port asks when its limit has passed.
        waiter.wait(50);
        assert_eq!((rings.take(8), rings.error()), (0, libc::ENETDOWN));
    });
}

#[test]
fn every_way_to_wait_has_each_packets_xdp_stamp() {
    if !can_run("every_way_to_wait_has_each_packets_xdp_stamp") {
        return;
    }
    let before = machine();
    let place = Place::new();
    let waits = ["spin", "poll", "select", "epoll"];
    let matrix = format!("[matrix]\n\"stream.ctl.rx.wait\" = {waits:?}\n");
    let run = run(&place, &(experiment().to_owned() + &matrix));
    run.ran();
    let cells = run.results["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), waits.len());
    for cell in cells {
        let ctl = &cell["streams"]["ctl"];
        for metric in ["rx_xdp..receive", "scheduled..rx_xdp", "tx_kernel..rx_xdp", "delta"] {
            let figures = &ctl["metrics"][metric];
            assert_eq!(figures["coverage"], 1.0, "{} {metric}: {}", cell["id"], run.stdout);
            assert!(metric == "delta" || figures["min_ns"].as_i64() >= Some(0), "{} {metric}: {figures}", cell["id"]);
        }
        let record = record(&place, cell["id"].as_str().expect("an id"));
        let xdp = &record["xdp"];
        assert_eq!(
            (&xdp["mode"], &xdp["clock"], &xdp["queues"]),
            (&json!("native"), &json!("tai"), &json!(4)),
            "{xdp}"
        );
        assert_eq!((&xdp["seen"]["unstamped"], &xdp["seen"]["implausible"]), (&json!(0), &json!(0)), "{xdp}");
        let by_cpu = xdp["seen"]["by_cpu"].as_object().expect("CPUs");
        assert_eq!(by_cpu.values().filter_map(Value::as_u64).sum::<u64>(), 600, "{xdp}");
        assert_eq!(record["sources"]["rx_xdp"], "bpf");
        for counter in ["foreign", "duplicates", "socket_drops"] {
            assert_eq!(record["counters"][counter], 0, "{counter}: {record}");
        }
    }
    same(&before);
}

#[test]
fn a_receiver_by_the_schedule_wakes_for_bulks_and_knows_each_arrival() {
    if !can_run("a_receiver_by_the_schedule_wakes_for_bulks_and_knows_each_arrival") {
        return;
    }
    let place = Place::new();
    let matrix = "sync = 64\nrx.bulk = 8\n[matrix]\n\"stream.ctl.rx.wait\" = [\"poll\", \"scheduled\", \"spin\"]\n";
    let run = run(&place, &(experiment().replace("count = 600", "count = 2000") + matrix));
    run.ran();
    let cells = run.results["cells"].as_array().expect("cells");
    let [poll, scheduled, spin] = &cells[..] else { panic!("three cells: {cells:?}") };
    for cell in cells {
        let ctl = &cell["streams"]["ctl"];
        for metric in ["rx_xdp..receive", "scheduled..rx_xdp"] {
            assert_eq!(ctl["metrics"][metric]["coverage"], 1.0, "{} {metric}: {}", cell["id"], run.stdout);
        }
        let record = record(&place, cell["id"].as_str().expect("an id"));
        for counter in ["foreign", "duplicates", "socket_drops"] {
            assert_eq!(record["counters"][counter], 0, "{counter}: {record}");
        }
    }
    // Of the trials that count: a busy machine may cost one.
    let receiver = |cell: &Value| {
        let thread = cell["placement"].as_array().into_iter().flatten().find(|thread| thread["thread"] == "ctl.rx");
        thread.expect("the receiver").clone()
    };
    let wakeups_per_s = |cell: &Value| {
        let thread = receiver(cell);
        let ns = |name: &str| thread[name].as_i64().unwrap_or_else(|| panic!("no {name}: {thread}"));
        let counted = cell["trials"].as_array().into_iter().flatten().filter(|trial| trial["valid"] == true).count();
        let least = counted.max(1) as i64 * 999_500_000;
        assert!(ns("run_ns") + ns("wait_ns") < ns("over_ns") && ns("over_ns") >= least, "{thread}");
        ns("wakeups") as f64 * 1e9 / ns("over_ns") as f64
    };
    let [by_schedule, by_poll] = [scheduled, poll].map(wakeups_per_s);
    assert!(by_schedule * 4.0 <= by_poll, "{by_schedule} and {by_poll}");
    // What each way to wait costs in CPU time.
    let busy = |cell: &Value| {
        let thread = receiver(cell);
        let ns = |name: &str| thread[name].as_f64().unwrap_or_else(|| panic!("no {name}: {thread}"));
        ns("run_ns") / ns("over_ns")
    };
    let [spins, polls, by_bulks] = [spin, poll, scheduled].map(busy);
    assert!(spins > polls && polls > by_bulks && spins > 4.0 * by_bulks, "{spins} {polls} {by_bulks}");
    let p50 = |cell: &Value, metric: &str| {
        let p50 = &cell["streams"]["ctl"]["metrics"][metric]["p50_ns"];
        p50.as_i64().unwrap_or_else(|| panic!("{metric}: {}", run.stdout))
    };
    // A packet in the middle of a bulk waits for four cycles, and is not late by that.
    assert!(p50(scheduled, "rx_xdp..receive") > 1_000_000, "{}", run.stdout);
    assert!(p50(scheduled, "scheduled..rx_xdp") < 500_000, "{}", run.stdout);
    let by_bulk = record(&place, "rx.wait=scheduled");
    let triggered = &by_bulk["xdp"]["triggered"];
    let (fetched, polled) = (triggered["fetched"].as_u64(), triggered["polled"].as_u64());
    assert!(fetched.zip(polled).is_some_and(|(fetched, polled)| fetched >= 9 * polled), "{triggered}");
    assert_eq!(
        triggered["marks"],
        8 + 2_000 / 64,
        "the first eight and each 64th, of which number 0 is both: {triggered}"
    );
    assert_eq!(record(&place, "rx.wait=poll")["xdp"]["triggered"], Value::Null);
    assert!(run.stdout.contains("packets each"), "the table of receivers: {}", run.stdout);
}

#[test]
fn busy_polling_reaches_the_device_or_is_refused() {
    if !can_run("busy_polling_reaches_the_device_or_is_refused") {
        return;
    }
    let place = Place::new();
    let run = run(&place, &experiment().replace("\"poll\"", "\"busypoll\""));
    if run.code == Some(3) {
        // Since Linux 6.13 veth does not say which NAPI context its queues have.
        let all = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let says = "would be \"spin\" in disguise: packets come without a NAPI context";
        assert!(all.contains(says), "{all}");
        return;
    }
    run.ran();
    assert_eq!(run.metric("rx_xdp..receive")["coverage"], 1.0, "{}", run.stdout);
}

#[test]
fn a_tagged_stream_and_its_neighbours_share_a_device_with_the_program() {
    if !can_run("a_tagged_stream_and_its_neighbours_share_a_device_with_the_program") {
        return;
    }
    let place = Place::new();
    let others = tardy_tests::experiment("neighbours of an XDP program");
    let run = run(&place, &format!("{}vlan = 100\npcp = 3\n{others}", experiment()));
    run.ran();
    for stream in ["ctl", "other", "ip"] {
        assert_eq!(each(run.cell(), stream, "received"), [600, 600], "{stream}: {}", run.stdout);
    }
    let record = record(&place, "all");
    assert_eq!(record["tags"]["by_pcp"], json!({"3": 600}));
    assert_eq!(record["counters"]["foreign"], 0, "{record}");
}

#[test]
fn the_longest_packet_that_a_file_may_have_found_no_room_in_a_frame() {
    if !can_run("the_longest_packet_that_a_file_may_have_found_no_room_in_a_frame") {
        return;
    }
    let place = Place::new();
    let long = "size = \"3790B\"\nvlan = 100\n[path]\nmtu = 4_000\n";
    let run = run(&place, &(experiment().to_owned() + long));
    run.ran();
    assert_eq!(each(run.cell(), "ctl", "received"), [600, 600], "{}", run.stdout);
    assert_eq!(record(&place, "all")["xdp"]["losses"]["rx_dropped"], 0);
}

#[test]
fn pings_are_answered_while_the_program_runs_and_sigkill_leaves_no_program_and_no_busy_queue() {
    if !can_run("pings_are_answered_while_the_program_runs_and_sigkill_leaves_no_program_and_no_busy_queue") {
        return;
    }
    let place = Place::new();
    let file = write(&place, &experiment().replace("count = 600", "count = 40000"));
    let mut child = place.start(place.run(&[]).arg(file));
    let (a, b) = (place.netns("a"), place.netns("b"));
    let link = || ip(&format!("-n {b} -d link show dev {}", device(&b)));
    let attached = wait(Duration::from_secs(30), || Some(link()).filter(|link| link.contains("prog/xdp")));
    assert!(attached.is_some(), "no program: {}", link());
    let addresses: Value = serde_json::from_str(&ip(&format!("-n {b} -j addr"))).expect("JSON");
    let all = addresses.as_array().into_iter().flatten().filter(|link| link["ifname"] != "lo");
    let address = all.flat_map(|link| link["addr_info"].as_array().cloned().unwrap_or_default());
    let address = address.into_iter().find(|of| of["family"] == "inet").expect("an address");
    let address = address["local"].as_str().expect("text").to_owned();
    let arping = ["netns", "exec", &a, "ip", "neigh", "flush", "all"];
    assert!(Command::new("ip").args(arping).status().expect("ip runs").success());
    // The first packet needs ARP, or a neighbour solicitation, which the program lets through like
    // the rest.
    for (netns, address6) in [(&a, "fd74::1/64"), (&b, "fd74::2/64")] {
        ip(&format!("-n {netns} addr add {address6} dev {} nodad", device(netns)));
    }
    for (version, address) in [("-4", address.as_str()), ("-6", "fd74::2")] {
        let ping = ["netns", "exec", &a, "ping", version, "-c", "3", "-i", "0.2", "-W", "2", address];
        let ping = Command::new("ip").args(ping).output().expect("ping runs");
        assert!(ping.status.success(), "{address}: {}", String::from_utf8_lossy(&ping.stdout));
        assert!(link().contains("prog/xdp"), "the run goes on meanwhile");
    }

    // Nobody is left to take the path down.
    tardy_sys::process::signal(child.id(), libc::SIGKILL).expect("it can be killed");
    let _ = child.wait().expect("the run ends");
    let gone = wait(Duration::from_secs(5), || (!link().contains("prog/xdp")).then_some(()));
    assert!(gone.is_some(), "{}", link());
    let netns = Path::new("/run/netns").join(&b);
    let free = wait(Duration::from_secs(5), || {
        let opened = tardy_sys::process::in_netns(&netns, || Rings::open(&asked(&device(&b))).map(drop));
        opened.expect("the namespace").ok()
    });
    assert!(free.is_some(), "a queue is busy");
    assert_eq!(place.undo().code, Some(0));
    assert_eq!(agents(&place), [0u32; 0]);
}

#[test]
fn a_stall_before_receive_is_in_rx_xdp_receive_and_nowhere_else() {
    if !can_run("a_stall_before_receive_is_in_rx_xdp_receive_and_nowhere_else") {
        return;
    }
    const STALL: Duration = Duration::from_millis(400);
    let place = Place::new();
    let file = write(&place, &experiment().replace("count = 600", "count = 4000").replace("trials = 2", "trials = 1"));
    let child = place.start(place.run(&[]).arg(file));
    place.wait_for("trial");
    std::thread::sleep(Duration::from_millis(700));
    // All of its threads stop; the sender and the XDP program go on.
    let receiver = place.agent("b");
    for signal in [libc::SIGSTOP, libc::SIGCONT] {
        tardy_sys::process::signal(receiver, signal).expect("a signal");
        std::thread::sleep(STALL);
    }
    let run = place.finish(child);
    let max =
        |metric: &str| run.metric(metric)["max_ns"].as_f64().unwrap_or_else(|| panic!("{metric}: {}", run.stdout));
    let stall = STALL.as_nanos() as f64;
    assert!((stall * 0.9..stall * 1.5).contains(&max("rx_xdp..receive")), "{}", run.stdout);
    // Neither the packets' way nor the time between them.
    for metric in ["scheduled..wakeup", "scheduled..rx_xdp", "tx_kernel..rx_xdp", "delta"] {
        assert!(max(metric) < stall / 4.0, "{metric}: {}", run.stdout);
    }
    assert_eq!(run.metric("rx_xdp..receive")["coverage"], 1.0, "{}", run.stdout);
}

#[test]
fn a_device_that_vanishes_during_a_run_is_reported_and_ends_it() {
    if !can_run("a_device_that_vanishes_during_a_run_is_reported_and_ends_it") {
        return;
    }
    let place = Place::new();
    let file = write(&place, &experiment().replace("count = 600", "count = 20000").replace("trials = 2", "trials = 1"));
    let child = place.start(place.run(&[]).arg(file));
    let b = place.netns("b");
    place.wait_for("trial");
    std::thread::sleep(Duration::from_millis(500));
    ip(&format!("-n {b} link del dev {}", device(&b)));
    let run = place.finish(child);
    assert_ne!(run.code, Some(0), "{}", run.stdout);
    let all = run.stdout.clone() + &run.stderr;
    assert!(all.contains("receiver-broke") || all.contains("is gone"), "{all}");
}

#[test]
fn generic_mode_is_taken_where_the_driver_refuses_and_is_reported() {
    if !can_run("generic_mode_is_taken_where_the_driver_refuses_and_is_reported") {
        return;
    }
    let place = Place::new();
    // veth has no native XDP for packets that are longer than a page.
    let run = run(&place, &(experiment().to_owned() + "[path]\nmtu = 9000\n"));
    run.ran();
    assert_eq!(run.metric("rx_xdp..receive")["coverage"], 1.0, "{}", run.stdout);
    let xdp = &record(&place, "all")["xdp"];
    assert_eq!(xdp["mode"], "generic", "{xdp}");
    assert!(run.stdout.contains("packets of ctl come to AF_XDP in generic mode"), "{}", run.stdout);
    let refused: Vec<&Value> = xdp["refused"].as_array().expect("a list").iter().map(|of| &of["mode"]).collect();
    assert_eq!(refused, ["zero-copy", "native"], "each faster mode: {xdp}");
    assert!(
        xdp["refused"][1]["why"].as_str().is_some_and(|why| why.contains("Numerical result out of range")),
        "{xdp}"
    );
}

#[test]
fn one_queue_receives_what_comes_to_it_and_nothing_else() {
    if !can_run("one_queue_receives_what_comes_to_it_and_nothing_else") {
        return;
    }
    let one = experiment().replace("trials = 2", "trials = 1") + "warmup = \"0s\"\nmax_loss = 1.0\n";
    let all = Place::new();
    run(&all, &one).ran();
    let queues = record(&all, "all")["xdp"]["seen"]["by_queue"].clone();
    let queue: u32 = queues.as_object().and_then(|queues| queues.keys().next()?.parse().ok()).expect("a queue");
    assert_eq!(queues, json!({ queue.to_string(): 600 }), "a packet socket's packets take the queue of its CPU");
    for (asked, received) in [(queue, 600), ((queue + 1) % 4, 0)] {
        let place = Place::new();
        let run = run(&place, &format!("{one}rx.queue = {asked}\n"));
        let outcomes = &run.cell()["streams"]["ctl"]["outcomes"];
        assert_eq!((&outcomes["received"], &outcomes["lost"]), (&json!(received), &json!(600 - received)), "{asked}");
        let xdp = &record(&place, "all")["xdp"];
        assert_eq!((&xdp["queues"], &xdp["umem_bytes"]), (&json!(1), &json!(4_096 * 4_096)), "{xdp}");
    }
}
