// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sending through AF_XDP on the real kernel: the frames are those of port `packet`, each packet is
//! sent or refused and never both, and what a device cannot do is reported.

use crate::command::{Finished, Place, agents, can_run, machine, same, wait};
use crate::packet::device;
use crate::xdp::{FILTER, Pair, asked, frame, ip};
use serde_json::{Value, json};
use std::time::Duration;
use tardy_bpf::xsk::{Asked, Outlet, Rings, ToSend, WaitBy, WithPackets, XdpError};
use tardy_engine::order::{LaunchOrder, SendOrder, StreamOrder, ThreadOrder};
use tardy_engine::port::packet::PacketSend;
use tardy_engine::port::xdp::send::{XdpSend, stamps};
use tardy_engine::port::{BATCH, SendPort};
use tardy_model::ethernet::{ETHERTYPE, Tag};
use tardy_model::point::Point;
use tardy_model::port::Port;
use tardy_model::stream::{Kind, Overrun, Policy};
use tardy_model::stream_id::StreamId;
use tardy_model::time::Nanos;
use tardy_model::xdp::XdpSendMode;
use tardy_sys::nic::xdp_features;
use tardy_sys::packet::{self, Instruction};
use tardy_sys::stamps::RxStamps;
use tardy_sys::udp::{Heard, UdpRx};

/// The stream of the tests of receiving, sent by AF_XDP too.
fn experiment() -> String {
    crate::xdp::experiment().replace("port = \"packet\"\nrx.port = \"xdp\"", "port = \"xdp\"")
}

/// A socket filter that takes all frames.
const ALL: [Instruction; 1] = [Instruction { code: 6, yes: 0, no: 0, k: u32::MAX }];

fn run(place: &Place, text: &str) -> Finished {
    place.call(place.run(&[]).arg(write(place, text)))
}

fn write(place: &Place, text: &str) -> std::path::PathBuf {
    let file = place.path("xdp.toml");
    std::fs::write(&file, text).expect("a file");
    file
}

/// What was recorded of the stream in the first trial of a cell.
fn record(place: &Place, cell: &str) -> Value {
    let file = place.out().join(format!("trials/{cell}/1/trial.json"));
    let record: Value = serde_json::from_slice(&std::fs::read(file).expect("a record")).expect("JSON");
    record["streams"]["ctl"].clone()
}

fn order(port: Port, size: u16, tag: Option<Tag>) -> SendOrder {
    let order = StreamOrder {
        triggered: Default::default(),
        stream: StreamId::FIRST,
        nonce: 7,
        kind: Kind::Cyclic,
        port,
        cycle: Nanos::from_millis(1),
        count: 10,
        size,
        reply_size: size,
        nodelay: false,
        ethertype: ETHERTYPE,
        tag,
        stamps: Vec::new(),
        lead: None,
    };
    let local = std::net::Ipv4Addr::LOCALHOST.into();
    SendOrder {
        order,
        thread: ThreadOrder { cpu: None, policy: Policy::Other },
        local,
        peer: local,
        port: 1,
        device: "near".to_owned(),
        macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        priority: 3,
        queues: Some(0..1),
        frames: 4_096,
        advance: Nanos::ZERO,
        spin: Nanos::ZERO,
        overrun: Overrun::Burst,
        replies: false,
        launch: None,
    }
}

/// An outlet for frames that are whole.
fn outlet(device: &str) -> ToSend<'_> {
    let (queues, frames, priority, head) = (Some(0..1), 256, 0, Vec::new());
    ToSend { device, queues, frames, filter: FILTER, priority, with: WithPackets::default(), head }
}

/// The outlet of the one queue that is asked for.
fn one(asked: &ToSend<'_>) -> Outlet {
    let (mut outlets, opened) = Outlet::open(asked).expect("a socket");
    assert_eq!((outlets.len(), opened.queues), (1, 0..1));
    outlets.remove(0)
}

/// The bytes of a frame, and the VLAN tag that the kernel took out of it.
type Arrived = (Vec<u8>, Option<(u16, u16)>);

/// The next frames of the test's type that arrive, with the tag that was taken out of each.
fn frames(from: &mut UdpRx, count: usize) -> Vec<Arrived> {
    let (mut bytes, mut heard, mut all) = ([0; 4_096], Heard::default(), Vec::new());
    wait(Duration::from_secs(2), || {
        while let Ok(1) = from.receive(&mut bytes, &mut heard, false) {
            if bytes[..heard.length][12..].starts_with(&ETHERTYPE.to_be_bytes()) {
                all.push((bytes[..heard.length].to_vec(), heard.taken));
            }
        }
        (all.len() >= count).then_some(())
    });
    all
}

#[test]
fn the_frames_are_those_of_port_packet_byte_for_byte() {
    if !can_run("the_frames_are_those_of_port_packet_byte_for_byte") {
        return;
    }
    let pair = Pair::new();
    pair.inside(|| {
        for (tag, size) in [(None, 24), (Some(Tag { vlan: 100, pcp: 3 }), 24), (Some(Tag { vlan: 0, pcp: 7 }), 1_500)] {
            let mut far = packet::receiver("far", &ALL, true, RxStamps::default(), 4 << 20).expect("a socket");
            let payloads: Vec<u8> = (0..3 * size).map(|n| n as u8).collect();
            let mut by_packet = PacketSend::open(&order(Port::Packet, size, tag)).expect("port packet");
            let mut by_xdp = XdpSend::open(&order(Port::Xdp, size, tag)).expect("port xdp");
            let mut sent = |port: &mut dyn FnMut(&[u8])| {
                payloads.chunks_exact(usize::from(size)).for_each(port);
                frames(&mut far, 3)
            };
            let expected = sent(&mut |payload| assert!(by_packet.send(payload, 1, None).is_ok()));
            let one_by_one = sent(&mut |payload| assert_eq!(by_xdp.send(payload, 9, None), Ok(9)));
            assert_eq!(expected.len(), 3);
            assert_eq!(one_by_one, expected, "{tag:?}, {size} bytes");
            let batch = by_xdp.send_batch(&payloads, usize::from(size), &mut [1, 2, 3]);
            assert_eq!((batch, frames(&mut far, 3)), (Ok(3), expected), "a batch: {tag:?}, {size} bytes");
            let record = by_xdp.xdp().expect("its record");
            assert_eq!(
                (record.mode, &record.queues[..], record.umem_bytes),
                (XdpSendMode::Copy, &[0][..], 4_096 * 4_096)
            );
            assert_eq!(record.refused[0].why, "the driver has no zero-copy mode");
            assert_eq!((record.counted.tx_invalid_descs, record.counted.voided), (0, 0));
        }
    });
}

#[test]
fn each_packet_is_sent_or_refused_and_each_frame_comes_back() {
    if !can_run("each_packet_is_sent_or_refused_and_each_frame_comes_back") {
        return;
    }
    let pair = Pair::new();
    let far = |state: &str| ip(&format!("-n {} link set dev far {state}", pair.0));
    pair.inside(|| {
        let mut to = one(&outlet("near"));
        let (mut rings, _) = Rings::open(&Asked { frames: 256, ..asked("far") }).expect("sockets");
        let mut waiter = rings.waiter(WaitBy::Poll).expect("it can be waited");
        let packet = |seq| frame(3, FILTER.nonce, None, seq);
        let mut came = |count: usize| {
            let mut seqs = Vec::new();
            wait(Duration::from_secs(1), || {
                waiter.wait(20);
                let packets = rings.take(64);
                seqs.extend(
                    (0..packets)
                        .map(|n| rings.packet(n)[14 + 16..][..4].try_into().map(u32::from_be_bytes).expect("4")),
                );
                (seqs.len() >= count).then_some(())
            });
            seqs
        };
        // Many times as many as the memory has frames.
        for seq in 0..2_000 {
            assert_eq!(to.send(&packet(seq), seq, None), Ok(()), "{seq}");
            assert_eq!(came(1), [seq]);
        }
        let batch: Vec<u8> = (2_000..2_064).flat_map(packet).collect();
        let size = batch.len() / BATCH;
        assert_eq!(to.send_batch(&batch, size, &[0; BATCH]), Ok(BATCH));
        assert_eq!(came(BATCH), (2_000..2_064).collect::<Vec<_>>());
        // Without a link the kernel drops the first, and the others would leave when there is one.
        far("down");
        assert_eq!(to.send(&packet(7), 7, None), Err(libc::EBUSY));
        assert_eq!(to.send_batch(&batch[..size * 3], size, &[0; 3]), Err(libc::EBUSY));
        assert_eq!(to.send(&packet(8), 8, None), Err(libc::EBUSY));
        far("up");
        let up = wait(Duration::from_secs(2), || to.send(&packet(5_000), 0, None).is_ok().then_some(()));
        assert!(up.is_some(), "the link is there again");
        assert_eq!(to.send(&packet(5_001), 0, None), Ok(()));
        assert_eq!(came(2), [5_000, 5_001], "nothing that was refused came");
        let all = wait(Duration::from_secs(2), || {
            while to.reap(64, |_, _| panic!("no stamp was asked for")) > 0 {}
            let counted = to.counted();
            // Those that were dropped come back too: three, and what was tried without a link.
            (counted.completions >= 2_000 + 64 + 3 + 2).then_some(counted)
        });
        let counted = all.unwrap_or_else(|| panic!("{:?}", to.counted()));
        assert_eq!((counted.voided, counted.tx_invalid_descs), (2, 2), "{counted:?}");
    });
}

#[test]
fn a_ring_full_of_refused_packets_never_sent_again() {
    if !can_run("a_ring_full_of_refused_packets_never_sent_again") {
        return;
    }
    let pair = Pair::new();
    let near = |state: &str| ip(&format!("-n {} link set dev near {state}", pair.0));
    pair.inside(|| {
        let mut to = one(&ToSend { frames: BATCH as u32, ..outlet("near") });
        let packet = |seq| frame(3, FILTER.nonce, None, seq);
        let batch: Vec<u8> = (0..BATCH as u32).flat_map(packet).collect();
        let size = batch.len() / BATCH;
        near("down");
        assert_eq!(to.send_batch(&batch, size, &[0; BATCH]), Err(libc::ENETDOWN));
        assert_eq!(to.counted().voided, BATCH as u64, "all entries of the ring");
        near("up");
        let up = wait(Duration::from_secs(5), || to.send(&packet(1), 0, None).is_ok().then_some(()));
        assert!(up.is_some(), "the device is up again: {:?}", to.counted());
        // And so does each packet behind it.
        for seq in 2..200 {
            assert_eq!(to.send(&packet(seq), 0, None), Ok(()), "{seq}: {:?}", to.counted());
        }
    });
}

#[test]
fn what_is_sent_and_lost_is_counted_once() {
    if !can_run("what_is_sent_and_lost_is_counted_once") {
        return;
    }
    let pair = Pair::new();
    pair.inside(|| {
        let (mut rings, _) = Rings::open(&asked("far")).expect("sockets");
        let mut to = one(&outlet("near"));
        let sent =
            (0..1_000).filter(|seq| to.send(&frame(3, FILTER.nonce, None, *seq), 0, None).is_ok()).count() as u64;
        let mut came = 0;
        let all = wait(Duration::from_secs(2), || {
            came += rings.take(64) as u64;
            (came + rings.losses().packets() == sent).then_some(())
        });
        assert!(all.is_some(), "{sent} were sent, {came} came: {:?}", rings.losses());
        assert!(came >= 64 && sent > came, "{sent} were sent, {came} came: {:?}", rings.losses());
    });
}

#[test]
fn what_a_device_cannot_do_is_refused_with_its_reason() {
    if !can_run("what_a_device_cannot_do_is_refused_with_its_reason") {
        return;
    }
    let pair = Pair::new();
    pair.inside(|| {
        let features = xdp_features("near").expect("this kernel has the family");
        assert!(!features.zero_copy && !features.tx_timestamp && !features.tx_launch_time, "{features:?}");
        assert_eq!(xdp_features("nowhere").expect_err("there is none").errno(), libc::ENODEV);
        let why = stamps("near").expect_err("veth has none");
        assert!(why.contains("gives AF_XDP no tx stamps") && why.contains("is no stamp"), "{why}");
        let refused = |order: SendOrder| XdpSend::open(&order).map(|_| ()).expect_err("it is refused").to_string();
        let launch = Some(LaunchOrder { deadline: false, phase: Nanos::ZERO });
        let late = refused(SendOrder { launch, ..order(Port::Xdp, 64, None) });
        let says = "packets of near cannot have launch times through AF_XDP: the driver has no zero-copy mode";
        assert!(late.contains(says) && late.contains("write launch = \"none\""), "{late}");
        let mut stamped = order(Port::Xdp, 64, None);
        stamped.order.stamps.push(Point::TxHw);
        let stamped = refused(stamped);
        assert!(stamped.contains("cannot have stamps at tx_hw through AF_XDP"), "{stamped}");
        let none = refused(SendOrder { queues: Some(2..3), ..order(Port::Xdp, 64, None) });
        assert!(none.contains("queue 2 of near is not there, it has 2"), "{none}");
        let first = one(&outlet("near"));
        let second = Outlet::open(&outlet("near")).map(|_| ()).expect_err("the queue has one");
        assert!(matches!(second, XdpError::Bound { queue: 0, .. }), "{second}");
        drop(first);
        let mut again = one(&outlet("near"));
        // A device that is gone refuses every packet and ends no loop.
        ip(&format!("-n {} link del near", pair.0));
        for n in 0..100 {
            let errno = again.send(&frame(3, FILTER.nonce, None, n), n, None).expect_err("there is no device");
            assert!([libc::ENXIO, libc::ENETDOWN].contains(&errno), "{errno}");
        }
        assert_eq!(again.counted().completions, 0);
    });
}

#[test]
fn a_stream_goes_through_af_xdp_at_either_end_or_both() {
    if !can_run("a_stream_goes_through_af_xdp_at_either_end_or_both") {
        return;
    }
    let before = machine();
    let place = Place::new();
    let run = run(
        &place,
        &(experiment() + "vlan = 100\npcp = 3\n[matrix]\n\"stream.ctl.rx.port\" = [\"xdp\", \"packet\"]\n"),
    );
    run.ran();
    let cells = run.results["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    for cell in cells {
        let (id, ctl) = (cell["id"].as_str().expect("an id"), &cell["streams"]["ctl"]);
        let arrival = if id.contains("xdp") { "rx_xdp" } else { "rx_kernel" };
        for metric in ["scheduled..wakeup".to_owned(), format!("scheduled..{arrival}"), format!("{arrival}..receive")] {
            assert_eq!(ctl["metrics"][&metric]["coverage"], 1.0, "{id} {metric}: {}", run.stdout);
        }
        assert!(
            ctl["metrics"].get("tx_kernel..rx_kernel").is_none(),
            "the kernel stamps nothing of it: {}",
            run.stdout
        );
        let record = record(&place, id);
        let sent = &record["xdp_sent"];
        assert_eq!(
            (&sent["mode"], &sent["queues"], &sent["refused"][0]["mode"]),
            (&json!("copy"), &json!([0, 1, 2, 3]), &json!("zero-copy")),
            "{sent}"
        );
        assert!(sent["counted"]["completions"].as_u64() >= Some(600), "{sent}");
        assert_eq!(
            (&sent["counted"]["tx_invalid_descs"], &sent["counted"]["voided"]),
            (&json!(0), &json!(0)),
            "{sent}"
        );
        assert_eq!((&record["counters"]["sent"], &record["counters"]["send_errors"]), (&json!(600), &json!(0)));
        assert_eq!(record["tags"]["by_pcp"], json!({"3": 600}), "{record}");
        assert_eq!(record["tags"]["by_vlan"], json!({"100": 600}), "{record}");
        assert_eq!(record["counters"]["foreign"], 0, "{record}");
        assert!(record["sources"].get("tx_kernel").is_none() && record["sources"].get("tx_hw").is_none(), "{record}");
    }
    same(&before);
}

#[test]
fn a_sender_whose_device_vanishes_or_that_is_killed_ends_the_run() {
    if !can_run("a_sender_whose_device_vanishes_or_that_is_killed_ends_the_run") {
        return;
    }
    let text = experiment().replace("count = 600", "count = 20000").replace("trials = 2", "trials = 1");
    for kills in [false, true] {
        let place = Place::new();
        let child = place.start(place.run(&[]).arg(write(&place, &text)));
        let a = place.netns("a");
        place.wait_for("trial");
        std::thread::sleep(Duration::from_millis(500));
        if kills {
            assert!(!ip(&format!("-n {a} -d link show dev {}", device(&a))).contains("prog/xdp"), "a copy needs none");
            tardy_sys::process::signal(place.agent("a"), libc::SIGKILL).expect("it can be killed");
        } else {
            ip(&format!("-n {a} link del dev {}", device(&a)));
        }
        let run = place.finish(child);
        assert_ne!(run.code, Some(0), "{}", run.stdout);
        let all = run.stdout.clone() + &run.stderr;
        let all = all.split_whitespace().collect::<Vec<_>>().join(" ");
        let says = if kills { "SIGKILL" } else { "the network is down" };
        assert!(all.contains(says) || all.contains("receiver-broke"), "{all}");
        assert!([Some(0), Some(1)].contains(&place.undo().code), "{all}");
        assert_eq!(agents(&place), [0u32; 0]);
    }
}

#[test]
fn a_sender_used_one_queue_of_a_device_that_had_more() {
    if !can_run("a_sender_used_one_queue_of_a_device_that_had_more") {
        return;
    }
    let before = machine();
    let text = experiment() + tardy_tests::experiment("both queues and one");
    let place = Place::new();
    let run = run(&place, &text);
    run.ran();
    for (cell, queues, came) in [
        ("all", json!([0, 1]), json!({"0": 600})),
        ("one", json!([1]), json!({"1": 600})),
        ("receiver", json!([1]), json!({"1": 600})),
    ] {
        let record = record(&place, cell);
        let bytes = queues.as_array().map_or(0, Vec::len) * 4_096 * 4_096;
        let sent = &record["xdp_sent"];
        assert_eq!((&sent["queues"], &sent["umem_bytes"]), (&queues, &json!(bytes)), "{cell}: {sent}");
        assert_eq!(sent["counted"]["voided"], 0, "{cell}: {sent}");
        // A packet that goes through a queue of veth comes to the peer's queue of that number.
        assert_eq!(record["xdp"]["seen"]["by_queue"], came, "{cell}: {record}");
        assert_eq!((&record["counters"]["sent"], &record["counters"]["send_errors"]), (&json!(600), &json!(0)));
    }
    same(&before);
}

#[test]
fn a_queue_was_busy_after_its_sender_was_killed() {
    if !can_run("a_queue_was_busy_after_its_sender_was_killed") {
        return;
    }
    let place = Place::new();
    let text = experiment().replace("count = 600", "count = 20000").replace("trials = 2", "trials = 1");
    let mut child = place.start(place.run(&[]).arg(write(&place, &text)));
    let (a, agent) = (place.netns("a"), place.agent("a"));
    place.wait_for("trial");
    let netns = std::path::Path::new("/run/netns").join(&a);
    let opened = || {
        let of = device(&a);
        let opened = tardy_sys::process::in_netns(&netns, || Outlet::open(&outlet(&of)).map(drop));
        opened.expect("the namespace")
    };
    let busy = wait(Duration::from_secs(10), || opened().err());
    assert!(matches!(busy, Some(XdpError::Bound { queue: 0, .. })), "while it sends: {busy:?}");
    // Nobody is left to close anything.
    for pid in [child.id(), agent] {
        tardy_sys::process::signal(pid, libc::SIGKILL).expect("it can be killed");
    }
    let _ = child.wait().expect("the run ends");
    assert!(wait(Duration::from_secs(5), || opened().ok()).is_some(), "a queue is busy");
    assert_eq!(place.undo().code, Some(0));
    assert_eq!(agents(&place), [0u32; 0]);
}
