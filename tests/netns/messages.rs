// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections and their messages: a message that comes or goes in parts, and bytes that are none,
//! after which nothing shows where the next one begins. The receive call has no time limit, and its
//! thread a table of descriptors of its own: what ends the call, and what the table leaves to the
//! rest of the program.

use crate::command::{Place, can_run, wait};
use crate::peers::{orders, request};
use std::fs;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tardy_engine::port::tcp;
use tardy_engine::port::tcp::Waiting;
use tardy_engine::port::udp::MachineTimer;
use tardy_engine::receiver::Shared;
use tardy_engine::reflector::Reflector;
use tardy_engine::requester::Requester;
use tardy_model::frame::{Frame, PacketKind};
use tardy_sys::messages::{MessagesRx, MessagesTx, split};

use tardy_sys::process::signal;
use tardy_sys::stamps::TxStamps;
use tardy_sys::tcp::{Buffers, Tcp};
use tardy_sys::thread;
use tardy_sys::udp::Heard;
use tardy_sys::wait::poke;

const SIZE: usize = 64;

/// Bytes that are no frame.
const GARBAGE: [u8; SIZE] = [0x5a; SIZE];

/// Both halves of a connection with these buffers, and its other end.
fn joined(size: usize, rx_stamps: bool, buffers: Buffers) -> (MessagesTx, MessagesRx, TcpStream) {
    let far = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = far.local_addr().expect("an address");
    let tcp = Tcp::connect(None, at, buffers, Duration::from_secs(5)).expect("a connection");
    let (far, _) = far.accept().expect("the other end");
    let none = TxStamps { sched: false, software: false, hardware: false };
    let (to, from) = split(tcp, size, none, rx_stamps, 1 << 20).expect("both halves");
    (to, from, far)
}

#[test]
fn a_message_that_comes_in_parts_is_one_stamped_when_it_was_whole() {
    for stamped in [false, true] {
        let (_to, mut from, mut far) = joined(SIZE, stamped, Buffers::default());
        let (mut bytes, mut heard) = ([0; SIZE + 1], Heard::default());
        let message: Vec<u8> = (0..SIZE as u8).collect();
        // The kernel begins to stamp a moment after it was asked to.
        for _ in 0..1_000 {
            far.write_all(&message).expect("sent");
            assert_eq!(from.receive(&mut bytes, &mut heard, true), Ok(true));
            if heard.stamp.is_some() == stamped {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for round in 0..3 {
            assert_eq!(from.receive(&mut bytes, &mut heard, false), Err(libc::EAGAIN), "round {round}");
            far.write_all(&message[..20]).expect("a part");
            assert_eq!(from.receive(&mut bytes, &mut heard, false), Ok(false), "a part is no message");
            far.write_all(&message[20..]).expect("the rest");
            assert_eq!(from.receive(&mut bytes, &mut heard, false), Ok(true));
            assert_eq!((&bytes[..heard.length], heard.stamp.is_some()), (&message[..], stamped));
        }
        drop(far);
        assert_eq!(from.receive(&mut bytes, &mut heard, true), Err(libc::ESHUTDOWN), "the peer has ended");
    }
}

#[test]
fn a_message_that_a_slow_peer_takes_in_parts_goes_out_whole_and_once() {
    const LARGE: usize = 1 << 20;
    let small = Buffers { send: Some(4_096), receive: None };
    let (mut to, from, mut far) = joined(SIZE, false, small);
    drop(from);
    let message: Vec<u8> = (0..LARGE).map(|n| (n / 7) as u8).collect();
    let sent = message.clone();
    let sending = std::thread::spawn(move || [to.send(&sent), to.send(&sent)]);
    let mut got = vec![0; 2 * LARGE];
    for part in got.chunks_mut(LARGE / 2) {
        // Longer than a send call waits.
        std::thread::sleep(Duration::from_millis(300));
        far.read_exact(part).expect("it comes");
    }
    assert_eq!(sending.join().expect("the sender"), [Ok(0), Ok(1)], "keys count messages");
    assert!(got[..LARGE] == message && got[LARGE..] == message, "bytes were lost or sent twice");
    assert_eq!(far.read(&mut [0; 1]).expect("it ends"), 0, "and nothing more");
}

/// Runs a reflector, which was told to stop before it looked if `stopped`, against a peer that
/// sends a warm-up request, one of another trial, `asked` requests, bytes that are none, and one
/// request more. Returns what it received, its errno, foreign packets, and what it answered.
fn reflected(asked: u32, stopped: bool) -> (usize, i32, u64, Vec<PacketKind>) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let (_, order) = orders(port, 10);
    let of = &order.receive.order;
    let frame = Frame { kind: PacketKind::WarmUp, stream: of.stream.number(), size: of.size, nonce: of.nonce, seq: 0 };
    let waiting = Waiting::open(&order.send, &order.receive).expect("it listens");
    let asking = std::thread::spawn(move || {
        let mut peer = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let mut bytes = Vec::new();
        let mut say = |frame: Frame| {
            let mut message = [0; SIZE];
            frame.write(&mut message);
            bytes.extend(message);
        };
        say(frame);
        say(Frame { nonce: frame.nonce + 1, ..frame });
        (0..asked).for_each(|seq| say(Frame { kind: PacketKind::Test, seq, ..frame }));
        let mut more = [0; SIZE];
        Frame { kind: PacketKind::Test, seq: asked, ..frame }.write(&mut more);
        peer.write_all(&[&bytes[..], &GARBAGE, &more].concat()).expect("sent");
        peer
    });
    let (own, strangers) = waiting.accept(&order.send, &order.receive, || true).expect("accepted");
    assert_eq!(strangers, 0);
    let (mut back, mut from) = own.expect("the peer's");
    let mut peer = asking.join().expect("all is sent");
    let shared = Shared::default();
    shared.stop.store(stopped, Relaxed);
    let mut reflector = Reflector::new(order);
    reflector.run(&mut MachineTimer, &mut from, &mut back, &shared);
    drop((back, from));
    let mut answers = Vec::new();
    // What was not read resets the connection behind the answers.
    let _ = peer.read_to_end(&mut answers);
    let kinds = answers.chunks(SIZE).map(|answer| Frame::read(answer).expect("a frame").kind).collect();
    let counters = reflector.receiver.counters;
    (reflector.receiver.finish().len(), counters.broken_errno, counters.foreign, kinds)
}

#[test]
fn bytes_that_are_no_request_end_a_reflector_and_foreign_frames_do_not() {
    for (asked, stopped) in [(0, false), (3, false), (0, true), (3, true)] {
        let (received, errno, foreign, answers) = reflected(asked, stopped);
        assert_eq!((received, errno, foreign), (asked as usize, libc::EBADMSG, 1), "{asked} asked, stopped: {stopped}");
        // A reset may overtake answers.
        let expected: Vec<PacketKind> =
            [PacketKind::WarmUpReply].into_iter().chain((0..asked).map(|_| PacketKind::Reply)).collect();
        assert!(expected.starts_with(&answers), "{answers:?}");
    }
}

#[test]
fn bytes_that_are_no_reply_after_a_stop_leave_what_was_never_asked_out_of_the_trial() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let shared = Arc::new(Shared::default());
    let stop = shared.clone();
    let far = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("a connection");
        let [first, _] = [request(&mut peer), request(&mut peer)];
        let reply = Frame { kind: PacketKind::Reply, ..first };
        let mut bytes = [GARBAGE; 2].concat();
        reply.write(&mut bytes[..SIZE]);
        stop.stop.store(true, Relaxed);
        peer.write_all(&bytes).expect("sent");
        peer
    });
    let (order, _) = orders(port, 1_000);
    let (mut to, mut from) = tcp::ask(&order.send, &order.receive, 2).expect("connected");
    let mut requester = Requester::new(tardy_engine::order::AskOrder { in_flight: 2, ..order });
    requester.run(&mut MachineTimer, &mut to, &mut from, &shared);
    drop(far.join().expect("the peer ends"));
    assert_eq!((requester.counters.broken_errno, requester.counters.foreign), (libc::EBADMSG, 0));
    assert_eq!(requester.take_arrivals().iter().map(|arrival| arrival.seq).collect::<Vec<_>>(), [0]);
    assert_eq!(requester.sender.finish().len(), 2, "two were asked");
}

/// Pokes until the thread tells what its call returned.
fn poke_until<T>(told: &Receiver<T>, tid: u32) -> T {
    for _ in 0..5_000 {
        poke(tid);
        if let Ok(got) = told.recv_timeout(Duration::from_millis(1)) {
            return got;
        }
    }
    panic!("five thousand pokes do not end a receive call");
}

#[test]
fn a_poke_ends_a_receive_call_without_a_limit_and_no_byte_is_lost_by_it() {
    let far = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = far.local_addr().expect("an address");
    let tcp = Tcp::connect(None, at, Buffers::default(), Duration::from_secs(5)).expect("a connection");
    let (mut far, _) = far.accept().expect("the other end");
    let none = TxStamps { sched: false, software: false, hardware: false };
    let (_to, mut from) = split(tcp, SIZE, none, false, 1 << 20).expect("both halves");
    let (tell, told) = mpsc::channel();
    let (name, tid) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        name.send(thread::id()).expect("the test waits");
        let (mut bytes, mut heard) = ([0; SIZE + 1], Heard::default());
        loop {
            let got = from.receive(&mut bytes, &mut heard, true);
            tell.send(got).expect("the test waits");
            if got == Ok(true) {
                return bytes[..heard.length].to_vec();
            }
        }
    });
    let tid = tid.recv().expect("a thread");
    assert_eq!(poke_until(&told, tid), Err(libc::EINTR), "nothing came");
    let message: Vec<u8> = (0..SIZE as u8).collect();
    far.write_all(&message[..20]).expect("a part");
    // A poke that was under way may be told once more before the part.
    let part = std::iter::repeat_with(|| poke_until(&told, tid)).find(|got| *got != Err(libc::EINTR));
    assert_eq!(part, Some(Ok(false)), "a part is no message");
    far.write_all(&message[20..]).expect("the rest");
    // A poke that was under way may be told once more before the whole message.
    let last = told.iter().find(|got| *got != Err(libc::EINTR));
    assert_eq!(last, Some(Ok(true)));
    assert_eq!(thread.join().expect("the thread"), message);
    // It has ended: poking it is no fault.
    poke(tid);
}

#[test]
fn a_thread_with_descriptors_of_its_own_has_none_of_the_others_and_takes_none_from_them() {
    let path = std::env::temp_dir().join(format!("tardy-own-{}", std::process::id()));
    let mut file = fs::File::options().create_new(true).read(true).write(true).open(&path).expect("a file");
    fs::remove_file(&path).expect("it lives as long as it is open");
    file.write_all(b"still here").expect("room");
    let left = std::thread::spawn(|| {
        thread::own_descriptors().expect("a table of its own");
        let open = fs::read_dir("/proc/thread-self/fd").expect("the thread's own");
        let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        numbers.filter(|number| *number > 2).count()
    });
    // The folder that it reads.
    assert_eq!(left.join().expect("the thread"), 1);
    let mut text = String::new();
    file.rewind().expect("still open");
    file.read_to_string(&mut text).expect("still open");
    assert_eq!(text, "still here");
}

/// How often the thread that asks has waited: once a request.
fn asked(agent: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{agent}/task")).into_iter().flatten().flatten();
    let statuses = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    let asks = statuses.filter(|status| status.starts_with("Name:\ttardy-tx"));
    let waits = |status: String| {
        status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    };
    asks.filter_map(waits).sum()
}

#[test]
fn a_signal_in_the_middle_of_a_round_trip_over_tcp_makes_no_loss() {
    if !can_run("a_signal_in_the_middle_of_a_round_trip_over_tcp_makes_no_loss") {
        return;
    }
    let trips = tardy_tests::experiment("round trips");
    let text = format!("{trips}port = \"tcp\"\ncount = 4_000_000\nstamps = [\"send\", \"reply_receive\"]\n");
    // Each signal comes at another moment of a round trip.
    for n in 0..4 {
        let place = Place::new();
        let file = place.path("tcp.toml");
        fs::write(&file, &text).expect("a file");
        let child = place.start(place.run(&[]).arg(&file));
        place.wait_for("trial");
        let asker = place.agent("a");
        let under_way = || (asked(asker) > 3_000).then_some(());
        wait(Duration::from_secs(30), under_way).expect("three thousand requests within 30 s");
        signal(child.id(), libc::SIGINT).expect("the signal is sent");
        let run = place.finish(child);
        assert_eq!(run.code, Some(130), "{}{}", run.stdout, run.stderr);
        let outcomes = &run.cell()["streams"]["ctl"]["outcomes"];
        assert!(outcomes["received"].as_u64() > Some(1_000), "{n}: {outcomes}");
        assert!(outcomes["lost"] == 0 && outcomes["not_sent"] == 0, "{n}: {outcomes}");
    }
}
