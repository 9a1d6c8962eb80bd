// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams of strangers. A million are thrown at a running receiver: each is counted, and no
//! sample is changed. A ping-pong over UDP whose sending nothing stamps goes through one connected
//! socket at each end: what strangers send never comes to it, and is counted all the same.

use crate::answered::{record, throw_replies};
use crate::command::{Finished, Place, can_run_beside_others, wait};
use crate::peers::orders;
use rand::{Rng, RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tardy_engine::port::udp::MachineTimer;
use tardy_engine::port::{Lent, ReceivePort, Received, udp};
use tardy_engine::receiver::Shared;
use tardy_engine::requester::Requester;
use tardy_model::frame::{Frame, HEAD, PacketKind};
use tardy_model::point::Point;
use tardy_model::port::Port;
use tardy_model::sample::{Batch, Flags, Outcome};
use tardy_model::stream::Policy;
use tardy_model::time::Nanos;
use tardy_store::RunFolder;
use tardy_sys::process::{enter_netns, signal};
use tardy_sys::stamps::RxStamps;
use tardy_sys::udp::{Heard, MOST, UdpRx};

pub const MILLION: u64 = 1_000_000;
/// Far more than come before the flood is over: the run is ended by a signal when it is.
const COUNT: &str = "stream.ctl.count=400000";
const SIZE: u16 = 64;

/// The address and port of the receiver, seen from within its namespace.
fn receiver() -> String {
    let output = Command::new("ip").args(["-4", "-j", "addr"]).output().expect("ip");
    let links: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let address = links.as_array().into_iter().flatten().find_map(|link| {
        (link["ifname"] != "lo").then(|| link["addr_info"][0]["local"].as_str().map(str::to_owned)).flatten()
    });
    format!("{}:5800", address.expect("the receiver's address"))
}

/// All that a port may meet, made before the flood so that throwing it costs a system call each.
fn strangers() -> Vec<Vec<u8>> {
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let mut made = vec![Vec::new()];
    for _ in 0..512 {
        let mut noise = vec![0; random.random_range(1..1_400)];
        random.fill_bytes(&mut noise);
        // Another trial's packet: all of it is right but for the nonce, which is 64 random bits.
        let other = Frame {
            kind: if random.random() { PacketKind::Test } else { PacketKind::WarmUp },
            stream: random.random_range(0..2),
            size: SIZE,
            nonce: random.random(),
            seq: random.random_range(0..400_000),
        };
        let mut frame = vec![0; SIZE.into()];
        other.write(&mut frame);
        let mut damaged = frame.clone();
        let bit = random.random_range(0..HEAD * 8);
        damaged[bit / 8] ^= 1 << (bit % 8);
        let cut = frame[..random.random_range(1..frame.len())].to_vec();
        let long = [frame.as_slice(), &noise].concat();
        // Twice: a duplicate of another trial's is foreign twice.
        made.extend([noise, frame.clone(), frame, damaged, cut, long, Vec::new()]);
    }
    made
}

/// Bytes that wait in the receiver's sockets: the second half of the field `tx_queue:rx_queue`.
fn waiting() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/udp").expect("the namespace's sockets");
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, bytes) = fields[4].split_once(':').expect("two queues");
        fields[1].ends_with(":16A8").then(|| u64::from_str_radix(bytes, 16).expect("bytes"))
    };
    text.lines().skip(1).filter_map(of_line).sum()
}

/// Throws a million into the namespace, on one CPU if it is named, and then so that the receiver's
/// buffer never overflows; returns how many the kernel took.
pub fn flood(netns: &str, cpu: Option<u32>) -> u64 {
    let path = Path::new("/run/netns").join(netns);
    let thrower = std::thread::spawn(move || {
        enter_netns(&path).expect("the receiver's namespace");
        if let Some(cpu) = cpu {
            tardy_sys::thread::pin(cpu).expect("that CPU");
            // Before all that is not realtime, so that a busy machine does not stretch the flood;
            // below the receiver. Where it is refused the flood takes longer.
            let _ = tardy_sys::thread::set_policy(Policy::Fifo(1));
        }
        let (strangers, to) = (strangers(), receiver());
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.connect(&to).expect("a receiver");
        let all = strangers.iter().cycle().take(MILLION as usize);
        // Now and then it rests: where realtime threads leave a CPU to nobody else, the kernel
        // takes it from them for 50 ms a second.
        let mut thrown = 0;
        for (n, stranger) in all.enumerate() {
            thrown += u64::from(socket.send(stranger).is_ok());
            if n % 10_000 == 9_999 {
                std::thread::sleep(Duration::from_millis(3));
            }
            // A receiver that did not run for 50 ms would find its buffer full: it has room for
            // 7,000 of the greatest.
            if cpu.is_some() && n % 1_000 == 999 && waiting() > 0 {
                let empty = wait(Duration::from_secs(20), || (waiting() == 0).then_some(()));
                empty.expect("the receiver empties its buffer within 20 s");
            }
        }
        socket.set_nonblocking(true).expect("a socket that does not wait");
        assert!(socket.recv(&mut [0]).is_err(), "a stranger was answered");
        thrown
    });
    thrower.join().expect("the flood is thrown")
}

/// What a packet of a stream passes, in order.
const WAY: [Point; 6] =
    [Point::Scheduled, Point::Wakeup, Point::Send, Point::TxKernel, Point::RxKernel, Point::Receive];
/// And what its reply passes then.
const BACK: [Point; 4] = [Point::ReplySend, Point::ReplyTxKernel, Point::ReplyRxKernel, Point::ReplyReceive];

struct Flooded {
    place: Place,
    run: Finished,
    thrown: u64,
}

/// A run in which a million datagrams are thrown at the receiver in the middle of the trial.
fn flooded(args: &[&str], throw: impl FnOnce(&Place) -> u64) -> Flooded {
    let place = Place::new();
    let child = place.start(place.run(&["--trials", "1", "--set", COUNT]).args(args));
    place.wait_for("trial");
    std::thread::sleep(Duration::from_millis(800));
    let thrown = throw(&place);
    assert!(thrown >= MILLION * 99 / 100, "the flood came about: {thrown}");
    // What still waits in the socket is received; the trial ends with what was sent by then.
    std::thread::sleep(Duration::from_millis(500));
    signal(child.id(), libc::SIGINT).expect("the signal is sent");
    let run = place.finish(child);
    assert_eq!(run.code, Some(130), "{}{}", run.stdout, run.stderr);
    Flooded { place, run, thrown }
}

impl Flooded {
    fn ctl(&self) -> serde_json::Value {
        let file = self.place.out().join("trials/all/1/trial.json");
        let record: serde_json::Value = serde_json::from_slice(&std::fs::read(file).expect("a record")).expect("JSON");
        record["streams"]["ctl"].clone()
    }

    fn counter(&self, name: &str) -> u64 {
        self.ctl()["counters"][name].as_u64().expect("a counter")
    }

    fn reply_counter(&self, name: &str) -> u64 {
        self.ctl()["reply"]["counters"][name].as_u64().expect("a counter of the replies")
    }

    /// Every row is one packet of the trial, in its place, its stamps in the order of its way, the
    /// last of which is the measuring station's. Returns the lost ones.
    fn check_rows(&self, way: &[Point]) -> u64 {
        let folder = RunFolder::open(self.place.out()).expect("the run folder opens");
        let (mut row, mut lost, mut first) = (0, 0, None);
        for batch in folder.batches("all", 1, "ctl").expect("samples") {
            let batch: Batch = batch.expect("whole samples");
            for at in 0..batch.len() {
                let base = *first.get_or_insert(batch.scheduled_ns[0]);
                assert_eq!(batch.seq[at], row);
                assert_eq!(batch.scheduled_ns[at], base + row * 500_000, "packet {row}");
                assert_ne!(batch.outcome[at], Outcome::NotSent, "packet {row}: the sender's way is another");
                let flags = batch.flags[at];
                assert!(!flags.has(Flags::DUPLICATE) && !flags.has(Flags::REORDERED), "packet {row}: {flags:?}");
                if batch.outcome[at] == Outcome::Lost {
                    lost += 1;
                    assert!(way.last().is_some_and(|last| batch.offset(at, *last).is_none()), "packet {row}");
                } else {
                    let stamps: Vec<i64> = way.iter().filter_map(|point| batch.offset(at, *point)).collect();
                    assert_eq!(stamps.len(), way.len(), "packet {row} has all its stamps");
                    // Stamps of the kernel are REALTIME, those of the program TAI: their
                    // conversion has an error of some ns.
                    assert!(stamps.windows(2).all(|pair| pair[1] >= pair[0] - 1_000), "packet {row}: {stamps:?}");
                }
                row += 1;
            }
        }
        assert_eq!(row as u64, self.run.outcome("intended"), "a row for each packet that was reached");
        lost
    }
}

#[test]
fn a_million_foreign_packets_at_a_running_receiver_change_no_sample() {
    if !can_run_beside_others("a_million_foreign_packets_at_a_running_receiver_change_no_sample") {
        return;
    }
    let cpus = tardy_host::cpus::usable();
    let (least, most) = (*cpus.iter().min().expect("a CPU"), *cpus.iter().max().expect("a CPU"));
    let (tx, rx) = (format!("stream.ctl.tx.cpu={most}"), format!("stream.ctl.rx.cpu={least}"));
    // On the receiver's own CPU and below its priority: it takes each datagram before the next one
    // is thrown.
    let flooded = flooded(&["--set", &tx, "--set", &rx], |place| flood(&place.netns("b"), Some(least)));
    assert_eq!(flooded.counter("socket_drops"), 0, "{}", flooded.run.stdout);
    assert_eq!(flooded.counter("foreign"), flooded.thrown, "each one is counted");
    assert_eq!(flooded.check_rows(&WAY), 0, "none is lost");
    for counter in ["duplicates", "records_dropped", "tx_stamps_unmatched"] {
        assert_eq!(flooded.counter(counter), 0, "{counter}");
    }
    assert!(flooded.run.ids("note").contains(&"foreign".to_owned()), "{}", flooded.run.stdout);
    assert!(!flooded.run.ids("invalid").contains(&"loss".to_owned()), "{}", flooded.run.stdout);
}

#[test]
fn a_million_foreign_packets_at_a_reflector_change_no_sample_and_get_no_reply() {
    if !can_run_beside_others("a_million_foreign_packets_at_a_reflector_change_no_sample_and_get_no_reply") {
        return;
    }
    let cpus = tardy_host::cpus::usable();
    let (least, most) = (*cpus.iter().min().expect("a CPU"), *cpus.iter().max().expect("a CPU"));
    let (tx, rx) = (format!("stream.ctl.tx.cpu={most}"), format!("stream.ctl.rx.cpu={least}"));
    let reflected = ["--set", "stream.ctl.reflect=true", "--set", "stream.ctl.max_loss=0", "--set", &tx, "--set", &rx];
    let flooded = flooded(&reflected, |place| flood(&place.netns("b"), Some(least)));
    assert_eq!(flooded.counter("socket_drops"), 0, "{}", flooded.run.stdout);
    assert_eq!(flooded.counter("foreign"), flooded.thrown, "each one is counted");
    assert_eq!(flooded.check_rows(&[WAY.as_slice(), &BACK].concat()), 0, "none is lost");
    for counter in ["duplicates", "records_dropped", "tx_stamps_unmatched"] {
        assert_eq!(flooded.counter(counter), 0, "{counter}");
        assert_eq!(flooded.reply_counter(counter), 0, "{counter} of the replies");
    }
    // A reply to a stranger would have come back to the thrower's own port, or to the requester as
    // foreign.
    assert_eq!(flooded.reply_counter("foreign"), 0, "the requester saw none of it");
    assert!(flooded.run.ids("note").contains(&"foreign".to_owned()), "{}", flooded.run.stdout);
    assert!(!flooded.run.ids("invalid").contains(&"loss".to_owned()), "{}", flooded.run.stdout);
}

#[test]
fn an_empty_datagram_is_a_strangers_and_takes_nothing_with_it() {
    for stamp in [false, true] {
        let local = SocketAddr::new(tardy_tests::of_loopback(), 5_801);
        let mut receiver = UdpRx::open(local, RxStamps::of_kernel(stamp), 1 << 20).expect("a receiver");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        sender.connect(local).expect("connected");
        let throw = || [0, 64, 0, 0, 64].map(|size| sender.send(&[7; 64][..size]).expect("sent"));
        let (mut bytes, mut all) = ([0; 65 * MOST], [Heard::default(); MOST]);
        throw();
        assert_eq!(receiver.receive_many(&mut bytes, 65, all.iter_mut(), true), Ok(5), "stamps: {stamp}");
        assert_eq!([0, 1, 2, 3, 4].map(|n| all[n].length), [0, 64, 0, 0, 64], "stamps: {stamp}");
        throw();
        for size in [0, 64, 0, 0, 64] {
            assert_eq!(receiver.receive(&mut bytes, &mut all[0], true), Ok(1), "stamps: {stamp}");
            assert_eq!(all[0].length, size, "stamps: {stamp}");
        }
        assert_eq!(receiver.receive(&mut bytes, &mut all[0], false), Err(libc::EAGAIN));
        receiver.waker().expect("a waker").wake();
        assert_eq!(receiver.receive(&mut bytes, &mut all[0], true), Ok(0), "woken, no datagram");
        assert_eq!(receiver.receive_many(&mut bytes, 65, all.iter_mut(), true), Ok(0), "woken, no datagram");
    }
}

#[test]
fn a_flood_that_overflows_the_socket_is_told_and_accounted_for() {
    if !can_run_beside_others("a_flood_that_overflows_the_socket_is_told_and_accounted_for") {
        return;
    }
    let flooded = flooded(&["--set", "stream.ctl.max_loss=0"], |place| {
        let receiver = place.agent("b");
        let netns = place.netns("b");
        // While the receiver is stopped nothing is taken out of its buffer. When it goes on, it
        // runs at the same time as the flood.
        signal(receiver, libc::SIGSTOP).expect("stopped");
        let thrower = std::thread::spawn(move || flood(&netns, None));
        let full = wait(Duration::from_secs(20), || dropped(&place.netns("b")).then_some(()));
        std::thread::sleep(Duration::from_millis(20));
        signal(receiver, libc::SIGCONT).expect("continued");
        full.expect("the buffer is full within 20 s");
        thrower.join().expect("the flood is thrown")
    });
    let (foreign, drops) = (flooded.counter("foreign"), flooded.counter("socket_drops"));
    let lost = flooded.check_rows(&WAY);
    assert!(drops > 0, "{}", flooded.run.stdout);
    assert_eq!(foreign + drops, flooded.thrown + lost, "received or dropped at the socket: none is unaccounted for");
    assert_eq!(flooded.counter("duplicates"), 0);
    assert!(flooded.run.ids("note").contains(&"foreign".to_owned()), "{}", flooded.run.stdout);
    assert_eq!(flooded.run.ids("invalid").contains(&"loss".to_owned()), lost > 0, "{}", flooded.run.stdout);
    let told = format!("{drops} of all packets to that port were dropped at the receiving socket");
    let grouped: String = flooded.run.stdout.chars().filter(|c| !c.is_whitespace()).collect();
    let told: String = told.chars().filter(|c| !c.is_whitespace()).collect();
    assert!(grouped.contains(&told), "the overflow is reported: {}", flooded.run.stdout);
}

/// True once datagrams were dropped at a socket in the namespace: field `drops` of /proc/net/udp.
fn dropped(netns: &str) -> bool {
    let output = Command::new("ip").args(["netns", "exec", netns, "cat", "/proc/net/udp"]).output().expect("ip");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().skip(1).any(|line| line.split_whitespace().last().is_some_and(|drops| drops != "0"))
}

#[test]
fn a_million_strangers_never_reach_the_socket_of_a_ping_pong_and_are_counted() {
    if !can_run_beside_others("a_million_strangers_never_reach_the_socket_of_a_ping_pong_and_are_counted") {
        return;
    }
    let place = Place::new();
    let file = place.path("one.toml");
    let trips = tardy_tests::experiment("round trips");
    let stamps = "stamps = [\"send\", \"receive\", \"reply_receive\"]";
    let text = format!("{trips}count = 400_000\n{stamps}\ntimeout = \"20s\"\n");
    std::fs::write(&file, text).expect("a file");
    let child = place.start(place.run(&[]).arg(&file));
    place.wait_for("trial");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let thrown = flood(&place.netns("b"), None);
    let replies = throw_replies(&place.netns("a"), 3_000);
    assert!(thrown >= MILLION * 99 / 100, "the flood came about: {thrown}");
    signal(child.id(), libc::SIGINT).expect("the signal is sent");
    let run = place.finish(child);
    assert_eq!(run.code, Some(130), "{}{}", run.stdout, run.stderr);
    let ctl = &record(&place, "all")["streams"]["ctl"];
    assert_eq!(ctl["counters"]["foreign"], thrown, "each one is counted");
    assert_eq!(ctl["reply"]["counters"]["foreign"], replies);
    for counters in [&ctl["counters"], &ctl["reply"]["counters"]] {
        for counter in ["duplicates", "socket_drops", "records_dropped", "receive_errno"] {
            assert_eq!(counters[counter], 0, "{counter}: {ctl}");
        }
    }
    let outcomes = &run.cell()["streams"]["ctl"]["outcomes"];
    assert!(outcomes["received"].as_u64() > Some(1_000), "it went on meanwhile: {outcomes}");
    assert!(outcomes["lost"] == 0 && outcomes["not_sent"] == 0, "{outcomes}");
    assert!(run.ids("note").contains(&"foreign".to_owned()), "{}", run.stdout);
}

#[test]
fn strangers_are_counted_once_and_keep_nothing_from_the_peer() {
    let far = UdpSocket::bind("127.0.0.2:0").expect("a port");
    let at = far.local_addr().expect("an address");
    let (mut order, _) = orders(at.port(), 5);
    for of in [&mut order.send.order, &mut order.receive.order] {
        of.port = Port::Udp;
    }
    order.send.peer = at.ip();
    let (_to, mut from) = udp::both(&order.send, &order.receive).expect("open");
    let home = (order.receive.local, at.port());
    let stranger = UdpSocket::bind("127.0.0.2:0").expect("a port of another program there");
    for more in [3, 0, 2] {
        for _ in 0..more {
            stranger.send_to(&[7; 64], home).expect("sent");
        }
        far.send_to(&[9; 64], home).expect("sent");
        assert_eq!(from.receive(false), Ok(Received::Packets(1)));
        assert_eq!(from.lent().packet(0).0, [9; 64], "the peer's");
        assert_eq!(from.strangers(), more, "those since the last count");
    }
    // More than its queue has room for.
    for _ in 0..5_000 {
        stranger.send_to(&[7; 1_000], home).expect("sent");
    }
    assert_eq!(from.strangers(), 5_000);
    assert_eq!((from.strangers(), from.drops()), (0, 0));
}

#[test]
fn a_peer_that_is_gone_is_no_error_of_the_socket() {
    let gone = UdpSocket::bind((tardy_tests::of_loopback(), 0)).and_then(|gone| gone.local_addr()).expect("a port");
    let (mut order, _) = orders(gone.port(), 5);
    for of in [&mut order.send.order, &mut order.receive.order] {
        of.port = Port::Udp;
    }
    (order.send.peer, order.timeout) = (gone.ip(), Nanos::from_millis(20));
    let (mut to, mut from) = udp::both(&order.send, &order.receive).expect("open");
    from.keep_time(order.timeout).expect("a limit");
    let shared = Shared::default();
    let mut requester = Requester::new(order);
    requester.run(&mut MachineTimer, &mut to, &mut from, &shared);
    assert_eq!(requester.counters.broken_errno, 0, "the kernel says that nobody listens there; the next may be heard");
    assert_eq!(requester.take_arrivals().len(), 0);
}
