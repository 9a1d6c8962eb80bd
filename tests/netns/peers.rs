// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ping-pong over TCP whose peer misbehaves: it resets or closes the connection, sends what is no
//! reply, or connects first and is a stranger.

use crate::command::beside_others;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use tardy_engine::order::{AskOrder, EndOrder, ReceiveOrder, ReflectOrder, SendOrder, StreamOrder, ThreadOrder};
use tardy_engine::port::tcp::Waiting;
use tardy_engine::port::udp::MachineTimer;
use tardy_engine::port::{PortKind, tcp, udp};
use tardy_engine::receiver::Shared;
use tardy_engine::requester::Requester;
use tardy_model::frame::{Frame, LEAD, PacketKind};
use tardy_model::point::Point;
use tardy_model::port::Port;
use tardy_model::stream;
use tardy_model::stream::{Overrun, Policy, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::Nanos;
use tardy_model::xdp::Triggered;
use tardy_sys::tcp::{Buffers, Tcp};

const NONCE: u64 = 99;

/// The orders to a requester and a reflector on loopback.
pub fn orders(port: u16, count: u32) -> (AskOrder, ReflectOrder) {
    let local = IpAddr::from(Ipv4Addr::LOCALHOST);
    let thread = ThreadOrder { cpu: None, policy: Policy::Other };
    let order = StreamOrder {
        stream: StreamId::FIRST,
        nonce: NONCE,
        kind: stream::Kind::Pingpong,
        port: Port::Tcp,
        cycle: Nanos::ZERO,
        count,
        size: 64,
        reply_size: 64,
        nodelay: true,
        ethertype: tardy_model::ethernet::ETHERTYPE,
        tag: None,
        stamps: vec![Point::Send, Point::RxKernel, Point::Receive, Point::ReplyReceive],
        triggered: Triggered::default(),
        lead: None,
    };
    let send = |replies| SendOrder {
        order: order.clone(),
        thread: thread.clone(),
        local,
        peer: local,
        port,
        device: "lo".into(),
        macs: [[0; 6]; 2],
        priority: 0,
        queues: None,
        frames: 4_096,
        advance: Nanos::ZERO,
        spin: Nanos::ZERO,
        overrun: Overrun::Burst,
        replies,
        launch: None,
    };
    let receive = |replies| ReceiveOrder {
        order: order.clone(),
        thread: thread.clone(),
        local,
        port,
        device: "lo".into(),
        wait: Wait::Block,
        queue: None,
        frames: 4_096,
        replies,
        object: None,
        hints: Vec::new(),
    };
    let ask = AskOrder { send: send(false), receive: receive(true), in_flight: 1, timeout: Nanos::from_secs(1) };
    (ask, ReflectOrder { receive: receive(false), send: send(true) })
}

/// Asks a peer that does with each request what `peer` says; returns the errno that ended it, and
/// how many were answered.
fn ask(peer: impl FnOnce(TcpStream) + Send + 'static) -> (i32, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let far = std::thread::spawn(move || peer(listener.accept().expect("a connection").0));
    let (order, _) = orders(port, 1_000);
    let (mut to, mut from) = tcp::ask(&order.send, &order.receive, order.in_flight).expect("connected");
    let mut requester = Requester::new(order);
    requester.run(&mut MachineTimer, &mut to, &mut from, &Shared::default());
    // The peer may wait for our end to close.
    drop((to, from));
    far.join().expect("the peer ends");
    (requester.counters.broken_errno, requester.take_arrivals().len())
}

/// The next request of the trial. Those around it, which are not measured, are answered as a
/// reflector would.
pub fn request(connection: &mut TcpStream) -> Frame {
    loop {
        let mut message = [0; 64];
        connection.read_exact(&mut message).expect("a request");
        let frame = Frame::read(&message).expect("a frame");
        if frame.kind == PacketKind::Test && frame.seq != LEAD {
            return frame;
        }
        Frame { kind: frame.kind.answer().expect("a request"), ..frame }.write(&mut message);
        connection.write_all(&message).expect("sent");
    }
}

/// Answers `count` requests as a reflector would, each changed by `bend`.
fn answer(connection: &mut TcpStream, count: u32, bend: impl Fn(u32, &mut Frame)) {
    for n in 0..count {
        let mut frame = Frame { kind: PacketKind::Reply, ..request(connection) };
        bend(n, &mut frame);
        let mut message = [0; 64];
        frame.write(&mut message);
        connection.write_all(&message).expect("sent");
    }
}

#[test]
fn a_reset_connection_ends_the_ping_pong_with_its_reason() {
    beside_others();
    let (errno, answered) = ask(|mut connection| {
        answer(&mut connection, 10, |_, _| ());
        // A connection that is closed with something unread is reset.
        connection.peek(&mut [0; 1]).expect("one more request");
    });
    assert_eq!((errno, answered), (libc::ECONNRESET, 10));
}

#[test]
fn a_closed_connection_ends_the_ping_pong_with_its_reason() {
    beside_others();
    let (errno, answered) = ask(|mut connection| {
        answer(&mut connection, 10, |_, _| ());
        // All that was asked is read, so that it ends in order.
        connection.read_exact(&mut [0; 64]).expect("one more request");
    });
    assert_eq!((errno, answered), (libc::ESHUTDOWN, 10));
}

#[test]
fn bytes_that_are_no_reply_end_the_ping_pong() {
    beside_others();
    let (errno, answered) = ask(|mut connection| {
        answer(&mut connection, 3, |_, _| ());
        connection.read_exact(&mut [0; 64]).expect("a request");
        connection.write_all(&[7; 64]).expect("sent");
        let _ = connection.read(&mut [0; 1]);
    });
    assert_eq!((errno, answered), (libc::EBADMSG, 3));
}

#[test]
fn a_reply_to_a_request_that_was_never_sent_is_nobodys() {
    beside_others();
    let (errno, answered) = ask(|mut connection| {
        answer(&mut connection, 5, |n, frame| {
            if n == 4 {
                frame.seq = 700
            }
        });
    });
    assert_eq!((errno, answered), (libc::ESHUTDOWN, 4), "the fifth was not answered");
}

#[test]
fn cut_and_too_long_replies_and_those_to_other_requests_are_nobodys_though_all_else_is_right() {
    beside_others();
    // Through one socket at the requester's end, and, its sending being stamped, through two.
    wrong_replies(&[]);
    wrong_replies(&[Point::TxKernel]);
}

fn wrong_replies(stamps: &[Point]) {
    const COUNT: u32 = 200;
    let far = UdpSocket::bind("127.0.0.2:0").expect("a port");
    let at = far.local_addr().expect("an address");
    let (mut order, _) = orders(at.port(), COUNT);
    for of in [&mut order.send.order, &mut order.receive.order] {
        of.port = Port::Udp;
        of.stamps.extend(stamps);
    }
    assert_eq!(order.send.order.takes_one_socket(), stamps.is_empty());
    order.send.peer = at.ip();
    order.timeout = Nanos::from_secs(20);
    let (mut to, mut from) = udp::both(&order.send, &order.receive).expect("open");
    let home = SocketAddr::new(order.receive.local, at.port());
    let peer = std::thread::spawn(move || {
        let mut random = Pcg64Mcg::seed_from_u64(8);
        let (mut request, mut bad) = ([0; 64], 0);
        let mut asked = 0;
        while asked < COUNT {
            far.recv(&mut request).expect("a request");
            let frame = Frame::read(&request).expect("a frame");
            if frame.kind == PacketKind::WarmUp || frame.seq == LEAD {
                Frame { kind: frame.kind.answer().expect("a request"), ..frame }.write(&mut request);
                far.send_to(&request, home).expect("sent");
                continue;
            }
            asked += 1;
            let frame = Frame { kind: PacketKind::Reply, ..frame };
            let bytes = |frame: Frame| {
                let mut bytes = vec![0; 64];
                frame.write(&mut bytes);
                bytes
            };
            let right = bytes(frame);
            let cut = right[..random.random_range(1..64)].to_vec();
            let [longer, long] = [1, random.random_range(2..1_000)].map(|more| [right.clone(), vec![7; more]].concat());
            let unasked = bytes(Frame { seq: frame.seq + 1, ..frame });
            let beyond = bytes(Frame { seq: COUNT + random.random_range(0..1_000_000), ..frame });
            let own = bytes(Frame { kind: PacketKind::Test, ..frame });
            let stream = bytes(Frame { stream: frame.stream + 1, ..frame });
            for wrong in [Vec::new(), cut, longer, long, unasked, beyond, own, stream] {
                far.send_to(&wrong, home).expect("sent");
                bad += 1;
            }
            far.send_to(&right, home).expect("sent");
        }
        bad
    });
    let mut requester = Requester::new(order);
    requester.run(&mut MachineTimer, &mut to, &mut from, &Shared::default());
    let bad: u64 = peer.join().expect("the peer ends");
    let answered: Vec<u32> = requester.take_arrivals().iter().map(|arrival| arrival.seq).collect();
    assert_eq!(answered, (0..COUNT).collect::<Vec<_>>());
    assert_eq!((requester.counters.foreign, requester.counters.broken_errno), (bad, 0));
}

#[test]
fn a_requester_that_nobody_answers_shows_that_it_lives() {
    beside_others();
    let nobody = UdpSocket::bind("127.0.0.2:0").expect("a port");
    let at = nobody.local_addr().expect("an address");
    let (mut order, _) = orders(at.port(), 5);
    for of in [&mut order.send.order, &mut order.receive.order] {
        of.port = Port::Udp;
    }
    (order.send.peer, order.timeout) = (at.ip(), Nanos::from_millis(20));
    let (mut to, mut from) = udp::both(&order.send, &order.receive).expect("open");
    from.keep_time(order.timeout).expect("a limit");
    let shared = Shared::default();
    let mut requester = Requester::new(order);
    requester.run(&mut MachineTimer, &mut to, &mut from, &shared);
    let digest = shared.live.digest();
    assert_eq!((digest.done, requester.counters.broken_errno), (0, 0), "each was given up, and the next one asked");
    assert!(digest.turns >= 5, "its waits ended: {}", digest.turns);
}

#[test]
fn a_stranger_that_connects_first_is_hung_up_on_and_counted() {
    beside_others();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    drop(taken);
    let (ask, reflect) = orders(port, 1);
    let waiting = Waiting::open(&reflect.send, &reflect.receive).expect("it listens");
    let stranger = std::thread::spawn(move || {
        let from = SocketAddr::from(([127, 0, 0, 2], 0));
        let to = SocketAddr::from(([127, 0, 0, 1], port));
        let tcp = Tcp::connect(Some(from), to, Buffers::default(), std::time::Duration::from_secs(5)).expect("called");
        let heard = tcp.receive(&mut [0; 1]);
        tcp::ask(&ask.send, &ask.receive, 1).expect("the stream's own");
        heard.expect("it is closed in order")
    });
    let (own, strangers) = waiting.accept(&reflect.send, &reflect.receive, || true).expect("accepted");
    assert_eq!((own.is_some(), strangers), (true, 1));
    assert_eq!(stranger.join().expect("the stranger ends"), Some(0), "hung up on");
}

#[test]
fn what_a_connection_cannot_have_was_told_by_its_thread_or_by_the_first_request() {
    beside_others();
    let bind = |order: EndOrder| tcp::Tcp::bind(&order).map(|_| ()).map_err(|error| error.to_string());
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at: SocketAddr = taken.local_addr().expect("an address");
    let (mut ask, reflect) = orders(at.port(), 1);
    let error = bind(EndOrder::Reflect(reflect.clone())).expect_err("it is taken");
    assert!(error.contains(&at.to_string()) && error.contains("in use"), "{error}");
    assert_eq!(bind(EndOrder::Ask(ask.clone())), Ok(()), "any port will do, and who listens is not asked");
    // Of those for documents.
    ask.send.local = "192.0.2.77".parse().expect("an address");
    let error = bind(EndOrder::Ask(ask)).expect_err("it is not this machine's");
    assert!(error.contains("192.0.2.77"), "{error}");
    let error = bind(EndOrder::Send(reflect.send.clone())).expect_err("nobody answers");
    assert!(error.contains("answers every packet"), "{error}");
    drop(taken);
    for _ in 0..2 {
        assert_eq!(bind(EndOrder::Reflect(reflect.clone())), Ok(()), "what was tried is free again");
    }
    TcpListener::bind(at).expect("for others too");
}

#[test]
fn a_port_in_use_is_told_by_its_address() {
    beside_others();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at: SocketAddr = taken.local_addr().expect("an address");
    let (_, order) = orders(at.port(), 1);
    let error = Waiting::open(&order.send, &order.receive).err().expect("it is taken").to_string();
    assert!(error.contains(&at.to_string()) && error.contains("in use"), "{error}");
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("an address");
    let stamps = tardy_sys::stamps::RxStamps::of_kernel(true);
    let alone = tardy_sys::udp::UdpRx::open(at, stamps, 1 << 20).err();
    let both = tardy_sys::udp::UdpRx::open_both(at, at, 0, stamps, 1 << 20).err();
    for error in [alone, both] {
        let error = error.expect("it is taken").to_string();
        assert!(error.contains(&at.to_string()) && error.contains("in use"), "{error}");
    }
}
