// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `packet`: the bytes of its frames, what it reads out of frames that arrive, and the program
//! of its filter, run by an interpreter of this test on every kind of frame. And the VLANs of a
//! path as they are planned: devices that write tags, receive queues by priority, and the orders to
//! the ends of a tagged stream.

use proptest::prelude::*;
use std::collections::BTreeSet;
use tardy_engine::order::EndOrder;
use tardy_engine::port::{Inbox, Lent, packet};
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::{LinkNumber, Names, SLOTS};
use tardy_lab::plan::plan;
use tardy_model::ethernet;
use tardy_model::ethernet::{ETHERTYPE, MOST_TAGS, Mac, TAGS, Tag, Tags};
use tardy_model::frame::{Frame, HEAD, PacketKind};
use tardy_sys::packet::Instruction;

const TO: Mac = [0x02, 0x74, 0x64, 0, 0, 1];
const FROM: Mac = [0x02, 0x74, 0x64, 0, 0, 0];
const NONCE: u64 = 0x0123_4567_89ab_cdef;

/// A frame with these tags, each TPID and control information, the outermost first.
fn frame(tags: &[(u16, u16)], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [TO, FROM].concat();
    for (tpid, tci) in tags {
        frame.extend(tpid.to_be_bytes());
        frame.extend(tci.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

fn payload(size: u16, stream: u8, nonce: u64) -> Vec<u8> {
    let mut payload = vec![0x55; size.into()];
    Frame { kind: PacketKind::Test, stream, size, nonce, seq: 7 }.write(&mut payload);
    payload
}

#[test]
fn the_bytes_before_a_payload_are_those_of_the_standards() {
    let head = ethernet::head(TO, FROM, Some(Tag { vlan: 100, pcp: 3 }), ETHERTYPE);
    // IEEE 802.1Q: PCP in the three highest bits, then DEI, then the VLAN id.
    assert_eq!(head, b"\x02\x74\x64\0\0\x01\x02\x74\x64\0\0\0\x81\x00\x60\x64\x88\xb5");
    assert_eq!(ethernet::head(TO, FROM, None, 0x1234), b"\x02\x74\x64\0\0\x01\x02\x74\x64\0\0\0\x12\x34");
    assert_eq!(Tag { vlan: 4_094, pcp: 7 }.tci(), 0xeffe);
    assert_eq!(Tag { vlan: 0, pcp: 1 }.tci(), 0x2000, "a tag that has only a priority");
    assert_eq!(ethernet::mac("02:74:64:00:0f:ff"), Some([0x02, 0x74, 0x64, 0, 0x0f, 0xff]));
    for wrong in ["", "02:74:64:00:0f", "02:74:64:00:0f:ff:00", "2:74:64:00:0f:ff", "02:74:64:00:0f:fg"] {
        assert_eq!(ethernet::mac(wrong), None, "{wrong}");
    }
}

#[test]
fn a_tag_is_seen_in_the_frame_and_where_the_kernel_took_it_out() {
    let ours = payload(64, 0, NONCE);
    let open = |tags: &[(u16, u16)], taken| ethernet::open(&frame(tags, ETHERTYPE, &ours), taken, ETHERTYPE);
    let tci = Tag { vlan: 100, pcp: 3 }.tci();
    assert_eq!(open(&[], None), Some((14, Tags::NONE)));
    let taken = |tci| Some((0x8100, tci));
    assert_eq!(open(&[], taken(tci)), Some((14, Tags::new(1, tci))), "taken out: the kernel does it always");
    assert_eq!(open(&[(0x8100, tci)], None), Some((18, Tags::new(1, tci))));
    let outer = Tag { vlan: 7, pcp: 5 }.tci();
    let two = Some((18, Tags::new(2, outer)));
    assert_eq!(open(&[(0x8100, tci)], taken(outer)), two, "a second tag stays in the frame");
    assert_eq!(two.and_then(|(_, tags)| tags.outermost()), Some(Tag { vlan: 7, pcp: 5 }));
    assert_eq!(open(&[(0x88a8, outer), (0x8100, tci)], None), Some((22, Tags::of(2, (0x88a8, outer)))));
    assert_eq!((Tags::NONE.count(), Tags::NONE.outermost()), (Some(0), None));
    assert_eq!((Tags::UNSEEN.count(), Tags::UNSEEN.outermost()), (None, None), "not seen is not none");
    assert_eq!(ethernet::open(&frame(&[], 0x0800, &ours), None, ETHERTYPE), None, "another's type");
    assert_eq!(ethernet::open(&[0; 13], None, ETHERTYPE), None, "cut");
    assert_eq!(ethernet::open(&frame(&[(0x8100, 1); MOST_TAGS + 1], ETHERTYPE, &ours), None, ETHERTYPE), None);
}

#[test]
fn a_tag_of_another_type_is_not_taken_for_the_one_that_was_sent() {
    let ours = payload(64, 0, NONCE);
    let tci = Tag { vlan: 4_095, pcp: 7 }.tci();
    for tpid in TAGS {
        let inside = ethernet::open(&frame(&[(tpid, tci)], ETHERTYPE, &ours), None, ETHERTYPE);
        let taken = ethernet::open(&frame(&[], ETHERTYPE, &ours), Some((tpid, tci)), ETHERTYPE);
        for (start, tags) in [inside, taken].map(|found| found.expect("our type")) {
            assert!(start == 14 || start == 18);
            assert_eq!((tags.tpid(), tags.outermost()), (Some(tpid), Some(Tag { vlan: 4_095, pcp: 7 })), "{tpid:#x}");
            assert_eq!(tags == Tags::new(1, tci), tpid == 0x8100, "{tpid:#x}");
        }
    }
    assert_eq!((Tags::NONE.tpid(), Tags::UNSEEN.tpid()), (None, None));
    assert_eq!(size_of::<Tags>(), 4, "what is recorded of an arrival does not grow");
}

#[test]
fn what_fills_a_short_frame_up_is_no_part_of_its_payload() {
    let short = payload(24, 0, NONCE);
    let filled = [short.clone(), vec![0; 22]].concat();
    assert_eq!(filled.len(), 46, "60 bytes less addresses and type");
    assert_eq!(ethernet::unfilled(&filled), short);
    assert_eq!(ethernet::unfilled(&short), short);
    let long = [payload(64, 0, NONCE), vec![0; 22]].concat();
    assert_eq!(ethernet::unfilled(&long), long, "nothing is filled up that is long enough: a stranger");
    let nothing = [0; 46];
    assert_eq!(ethernet::unfilled(&nothing), nothing, "it says a length that no packet has");
    // As a receiver has it.
    let mut inbox = Inbox::new(128);
    inbox.put(0, &frame(&[(0x8100, 0x6064)], ETHERTYPE, &filled), None);
    inbox.open(0, ETHERTYPE);
    assert_eq!((inbox.packet(0).0, inbox.tags(0)), (short.as_slice(), Tags::new(1, 0x6064)));
    inbox.put(0, &frame(&[], 0x0800, &filled), None);
    inbox.open(0, ETHERTYPE);
    assert_eq!((inbox.packet(0).0.len(), inbox.tags(0)), (0, Tags::UNSEEN), "of another type: no payload");
    inbox.put(0, &frame(&[], ETHERTYPE, &long), None);
    inbox.open(0, ETHERTYPE);
    assert_eq!(inbox.packet(0).0, long, "nothing of the frame before is left");
}

/// Classic BPF as linux/filter.h and `man 7 socket` have it, as far as the program uses it: the
/// bytes that are let through.
fn run(program: &[Instruction], frame: &[u8], outgoing: bool) -> u32 {
    let (mut accumulator, mut at) = (0u32, 0);
    loop {
        let Instruction { code, yes, no, k } = program[at];
        at += 1;
        let load = |bytes: usize| {
            let part = frame.get(k as usize..k as usize + bytes)?;
            Some(part.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
        };
        let value = match code {
            0x30 if k == 0xffff_f004 => Some(if outgoing { 4 } else { 0 }),
            0x20 => load(4),
            0x28 => load(2),
            0x30 => load(1),
            0x80 => Some(frame.len() as u32),
            0x15 | 0x35 => {
                let holds = if code == 0x15 { accumulator == k } else { accumulator >= k };
                at += usize::from(if holds { yes } else { no });
                Some(accumulator)
            }
            0x06 => return k,
            other => panic!("instruction {other:#x}"),
        };
        // A load behind the end of the frame ends the program: nothing of it is let through.
        let Some(value) = value else { return 0 };
        accumulator = value;
    }
}

#[test]
fn the_filter_lets_its_own_type_through_under_any_tags_and_nothing_else() {
    let program = packet::program(ETHERTYPE, NONCE, 2);
    assert!(program.len() < 255, "no jump is longer than a byte tells: {}", program.len());
    let (ours, others) = (payload(64, 2, NONCE), payload(64, 1, NONCE));
    for tags in 0..=MOST_TAGS {
        for tpid in TAGS {
            let tags = vec![(tpid, 0x6064); tags];
            let lets = |ethertype, payload: &[u8], out| run(&program, &frame(&tags, ethertype, payload), out) > 0;
            assert!(lets(ETHERTYPE, &ours, false), "{tags:?}");
            assert!(!lets(ETHERTYPE, &ours, true), "what this station sends is not received: {tags:?}");
            assert!(!lets(ETHERTYPE, &others, false), "another stream of the trial has its own receiver: {tags:?}");
            assert!(!lets(0x0800, &ours, false) && !lets(ETHERTYPE + 1, &ours, false), "another type: {tags:?}");
            // Strangers of the type are let through, to be counted.
            assert!(lets(ETHERTYPE, &payload(64, 1, NONCE + 1), false), "another trial: {tags:?}");
            assert!(lets(ETHERTYPE, &payload(64, 1, NONCE ^ 1 << 40), false), "another trial: {tags:?}");
            assert!(lets(ETHERTYPE, b"", false) && lets(ETHERTYPE, &ours[..HEAD - 1], false), "cut: {tags:?}");
            assert!(lets(ETHERTYPE, &[0; 64], false), "noise: {tags:?}");
        }
    }
    assert_eq!(run(&program, &frame(&[(0x8100, 1); MOST_TAGS + 1], ETHERTYPE, &ours), false), 0, "too many tags");
    assert_eq!(run(&program, &frame(&[], ETHERTYPE, &ours), false), u32::MAX, "all of it");
}

proptest! {
    #[test]
    fn any_frame_at_all_is_read_and_filtered_without_a_fault(
        bytes in proptest::collection::vec(any::<u8>(), 0..96),
        taken in any::<Option<(u16, u16)>>(),
        tags in 0usize..6,
    ) {
        let program = packet::program(ETHERTYPE, NONCE, 0);
        let whole = frame(&vec![(TAGS[tags % 3], 9); tags], ETHERTYPE, &bytes);
        for frame in [bytes.as_slice(), &whole] {
            let opened = ethernet::open(frame, taken, ETHERTYPE);
            let passed = run(&program, frame, false) > 0;
            // What the filter lets through can be opened; what is dropped of our type is another
            // stream's.
            prop_assert!(!passed || opened.is_some());
            if let Some((start, seen)) = opened {
                prop_assert!(start <= frame.len());
                prop_assert_eq!(seen.count().is_some(), true);
                let _ = Frame::read(ethernet::unfilled(&frame[start..]));
            }
        }
        prop_assert_eq!(ethernet::open(&whole, taken, ETHERTYPE).is_some(), tags <= MOST_TAGS);
    }
}

#[test]
fn vlan_devices_lie_over_both_ends_and_go_before_them() {
    let second = tardy_tests::experiment("second stream");
    let stream = |name: &str, more: &str| format!("{}{more}\n", second.replace(".second]", &format!(".{name}]")));
    let text = format!(
        "{}{}{}{}{}",
        tardy_tests::experiment("two stations"),
        stream("ctl", "vlan = 100\npcp = 5\npriority = 3"),
        stream("other", "vlan = 100\npcp = 1\npriority = 6\nip = \"ipv6\""),
        stream("third", "vlan = 0\npcp = 7"),
        stream("frames", "port = \"packet\"\nvlan = 9\npcp = 2"),
    );
    let source = tardy_spec::Source { name: "vlan.toml".into(), text };
    let experiment = tardy_spec::load(&source, &[]).expect("it loads");
    let setup = &experiment.cells[0].setup;
    let plan = plan(setup, Names::FIRST, &FactsByHost::default()).expect("a plan");
    let script = plan.script();
    let has = |line: &str| assert!(script.lines().any(|have| have == line), "{line}\n{script}");
    has("ip -n tardy-0-a link add link tardy0-0 name tdy0-0.0 type vlan id 0 egress-qos-map 0:7");
    has("ip -n tardy-0-a link add link tardy0-0 name tdy0-0.100 type vlan id 100 egress-qos-map 3:5 6:1");
    has("ip -n tardy-0-b link add link tardy0-1 name tdy0-1.100 type vlan id 100 egress-qos-map 3:5 6:1");
    has("ip -n tardy-0-a addr add 198.18.0.9/30 dev tdy0-0.100");
    has("ip -n tardy-0-b addr add fd74:6172:6479:0:65::2/80 dev tdy0-1.100 nodad");
    has("ip -n tardy-0-b neigh replace 198.18.0.9 lladdr 02:74:64:00:00:00 dev tdy0-1.100 nud permanent");
    assert!(!script.contains("id 9 "), "port packet writes its tags itself: {script}");
    let undo: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
    let place = |line: &str| undo.iter().position(|have| have == line).expect(line);
    assert!(place("ip -n tardy-0-a link del dev tdy0-0.100") < place("ip -n tardy-0-a link del dev tardy0-0"));
    let vlan = &plan.ends.at("b").expect("an end").vlans[&100];
    assert_eq!((vlan.device.as_str(), vlan.address.to_string()), ("tdy0-1.100", "198.18.0.10".to_owned()));
    // No name and no address of a slot meets another's.
    let last = Names::of(SLOTS - 1).expect("the last slot");
    assert!(last.vlan(LinkNumber::SECOND, 4_094).len() <= 15);
    let addresses: BTreeSet<_> = (0..7)
        .flat_map(|n| [LinkNumber::FIRST, LinkNumber::SECOND].map(|side| last.vlan_subnet(2, n).address(side)))
        .collect();
    assert_eq!(addresses.len(), 14);
    let first = u32::from(last.address(LinkNumber::FIRST)) - 1;
    assert!(addresses.iter().all(|address| (4..32).contains(&(u32::from(*address) - first))), "{addresses:?}");
}

#[test]
fn the_ends_of_a_tagged_stream_are_given_their_device_and_addresses() {
    let text = tardy_tests::experiment("tagged and reflected");
    let load = |text: &str| {
        let source = tardy_spec::Source { name: "vlan.toml".into(), text: text.to_owned() };
        tardy_spec::load(&source, &[]).expect("it loads").cells.remove(0).setup
    };
    let ends = |text: &str| {
        let setup = load(text);
        let plan = plan(&setup, Names::FIRST, &FactsByHost::default()).expect("a plan");
        let (chosen, _) =
            tardy_lab::placement::place(&setup, &FactsByHost::from(Facts { usable: vec![0, 1], ..Facts::default() }))
                .expect("placed");
        let (_, ordered) =
            tardy_lab::orders::orders(&setup, &plan, &chosen, &mut tardy_lab::orders::random_of(1, "all", 1))
                .expect("its stations are there");
        ordered[0].ends.clone()
    };
    let (b, a) = ([2, 0x74, 0x64, 0, 0, 1], [2, 0x74, 0x64, 0, 0, 0]);
    match &ends(text)[..] {
        [EndOrder::Send(send), EndOrder::Reflect(reflect), EndOrder::Receive(_)] => {
            assert_eq!((send.macs, send.device.as_str()), ([a, b], "tardy0-1"));
            assert_eq!((reflect.send.macs, reflect.receive.device.as_str()), ([b, a], "tardy0-0"));
            assert_eq!(send.order.tag, Some(Tag { vlan: 9, pcp: 2 }));
        }
        other => panic!("{other:?}"),
    }
    match &ends(&text.replace("packet", "udp"))[..] {
        [EndOrder::Send(send), EndOrder::Reflect(reflect), EndOrder::Receive(receive)] => {
            assert_eq!((send.device.as_str(), send.peer.to_string()), ("tdy0-1.9", "198.18.0.5".to_owned()));
            assert_eq!(
                (reflect.send.device.as_str(), receive.local.to_string()),
                ("tdy0-0.9", "198.18.0.6".to_owned())
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn receive_queues_by_priority_are_rules_of_who_receives() {
    let text = tardy_tests::experiment("receive queues by priority");
    let script = |text: &str| {
        let source = tardy_spec::Source { name: "vlan.toml".into(), text: text.to_owned() };
        let setup = tardy_spec::load(&source, &[]).expect("it loads").cells.remove(0).setup;
        plan(&setup, Names::FIRST, &FactsByHost::default()).expect("a plan").script()
    };
    let one_way = script(text);
    let rule = |pcp: u32, queue: u32| {
        format!(
            "ip netns exec tardy-0-b sh -c 'ethtool -N tardy0-1 flow-type ether vlan {:#06x} vlan-mask 0x1fff action {queue} \
             loc {pcp} && ethtool -n tardy0-1 rule {pcp} >/dev/null'",
            pcp << 13
        )
    };
    for (pcp, queue) in [(0, 0), (1, 1), (2, 2), (3, 2), (7, 2)] {
        assert!(one_way.contains(&rule(pcp, queue)), "{}\n{one_way}", rule(pcp, queue));
        assert!(one_way.contains(&format!("ethtool -N tardy0-1 delete {pcp}")), "{one_way}");
    }
    assert!(!one_way.contains("ethtool -N tardy0-0"), "nothing tagged arrives there: {one_way}");
    assert!(script(&format!("{text}reflect = true\n")).contains("ethtool -N tardy0-0"), "replies do");
}
