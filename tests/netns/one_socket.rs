// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ping-pong over UDP whose sending nothing stamps goes through one connected socket at each
//! end: what strangers send never comes to it, and is counted all the same.

use crate::answered::{orders, record, throw_replies};
use crate::command::{Place, can_run};
use crate::foreign::{MILLION, flood};
use std::net::UdpSocket;
use tardy_engine::port::udp::{self, MachineTimer};
use tardy_engine::port::{Lent, ReceivePort, Received};
use tardy_engine::receiver::Shared;
use tardy_engine::requester::Requester;
use tardy_model::stream::Port;
use tardy_model::time::Nanos;
use tardy_sys::process::signal;

#[test]
fn a_million_strangers_never_reach_the_socket_of_a_ping_pong_and_are_counted() {
    if !can_run("a_million_strangers_never_reach_the_socket_of_a_ping_pong_and_are_counted") {
        return;
    }
    let place = Place::new();
    let file = place.path("one.toml");
    let text = "name = \"one\"\ntrials = 1\n[station.a]\n[station.b]\n[stream.ctl]\nkind = \"pingpong\"\nfrom = \"a\"\nto = \"b\"\n\
                count = 400_000\nstamps = [\"send\", \"receive\", \"reply_receive\"]\ntimeout = \"20s\"\n";
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
    assert!(outcomes["received"].as_u64() > Some(10_000), "{outcomes}");
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
    let gone = UdpSocket::bind("127.0.0.2:0").and_then(|gone| gone.local_addr()).expect("a port");
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
