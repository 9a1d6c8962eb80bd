// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probe packets and the XDP and tc programs that others have on a path: how a probe is found among
//! what arrives, which verdicts follow from what did and did not arrive, and how long the cost of a
//! program may be measured.

use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tardy_analyze::validity::{RULES, found};
use tardy_bpf::pitfalls::in_pairs;
use tardy_bpf::probes::{Arriving, Came, count_marks, has_mark, lacks_sum, packet_in, ttl};
use tardy_model::ethernet::MOST_TAGS;
use tardy_model::path::PathKind;
use tardy_model::verdict::{Figure, Level, Verdict};
use tardy_model::xdp::{
    FaultKind, Inspection, ObjectRecord, ProbeHop, ProbeRecord, ProbeRoute, ProbeWay, ProgramCost, ProgramFault,
    ProgramHook, ProgramRecord, ProgramSeen, SpecialKind, SpecialRecord,
};

/// A program that did this at the receiver while eight probe packets each way arrived with `tags`.
fn inspected(hook: ProgramHook, seen: Option<ProgramSeen>, tags: &[(u8, u32)]) -> Inspection {
    let program = ProgramRecord {
        station: "b".into(),
        device: "eth0".into(),
        netns: None,
        hook,
        name: "watcher".into(),
        id: 7,
        tag: "0123456789abcdef".into(),
        could_be_native: hook == ProgramHook::XdpGeneric,
        of_path: false,
        seen,
    };
    let by_tags = tags.iter().copied().collect();
    let way = ProbeWay {
        leaves: vec!["eth0".into()],
        arrives: vec!["eth0".into(), "eth0.5".into()],
        is_held: false,
        is_certain: true,
        is_like_the_streams: true,
    };
    let way = Some(way);
    let (stream, from, to) = ("ctl".into(), "a".into(), "b".into());
    let probes = vec![ProbeRecord {
        stream,
        from,
        to,
        sent: 8,
        tags: 0,
        by_tags,
        by_pcp: BTreeMap::new(),
        hops: Vec::new(),
        let_on: None,
        least_ttl: Some(64),
        route: None,
        carries: true,
        way,
    }];
    Inspection { programs: vec![program], probes, ..Inspection::default() }
}

/// The verdicts on it, by id.
fn verdicts(inspection: Inspection) -> BTreeMap<String, Verdict> {
    found(&inspection).into_iter().map(|verdict| (verdict.id.clone(), verdict)).collect()
}

fn assert_is(verdict: &Verdict, id: &str, level: Level, says: &str) {
    assert_eq!((verdict.id.as_str(), verdict.level), (id, level), "{}", verdict.says);
    assert!(verdict.says.contains(says), "{}", verdict.says);
    assert!(RULES.iter().any(|rule| rule.id == id) && !verdict.evidence.is_empty());
}

#[test]
fn what_programs_of_others_do_on_the_path_is_named_with_what_was_measured() {
    let seen = ProgramSeen { runs: 16, run_ns: 32_000, lines: 16, faults: Vec::new() };
    let mut prints = inspected(ProgramHook::XdpNative, Some(seen), &[(0, 8)]);
    let unmeasured = prints.clone();
    // Of another host: it says nothing about this one.
    let cost = |ns| ProgramCost { ns, low_ns: ns - 100.0, high_ns: ns + 100.0, pairs: 101 };
    prints.line_costs = [("a".into(), cost(9_000.0)), ("b".into(), cost(1_500.0))].into();
    let of = verdicts(prints);
    assert_eq!(of.keys().collect::<Vec<_>>(), ["printk", "programs"]);
    let says = "program `watcher` (id 7, xdp-native) on eth0 of b writes 1.0 lines into the kernel's trace for each packet \
        (bpf_printk); a line costs 1.5 µs there (1.4 µs to 1.6 µs with 95 %)";
    assert_is(&of["printk"], "printk", Level::Warning, says);
    assert_eq!(of["printk"].evidence["line_ns"], Figure::Float(1_500.0));
    assert_is(&of["programs"], "programs", Level::Note, "`watcher` (id 7, xdp-native) on eth0 of b");

    let mut unmeasured = unmeasured;
    unmeasured.line_costs.insert("a".into(), cost(9_000.0));
    unmeasured.unmeasured.insert("b".into(), "the kernel refuses BPF_PROG_RUN".into());
    let of = verdicts(unmeasured);
    let says = "what a line costs there could not be measured: the kernel refuses BPF_PROG_RUN";
    assert_is(&of["printk"], "printk", Level::Warning, says);
    assert!(!of["printk"].evidence.contains_key("line_ns"));
    assert!(!of["programs"].says.contains("not checked"), "what it does was seen: {}", of["programs"].says);

    let mut slow = inspected(ProgramHook::XdpGeneric, None, &[(0, 8)]);
    slow.unchecked.insert("b".into(), "no BTF".into());
    let of = verdicts(slow);
    assert_eq!(of.keys().collect::<Vec<_>>(), ["generic-xdp", "programs"]);
    assert_is(&of["programs"], "programs", Level::Note, "what they do was not checked at b (no BTF)");

    // Not even the programs could be listed.
    let mut blind = inspected(ProgramHook::XdpNative, None, &[(0, 8)]);
    blind.programs.clear();
    assert!(!verdicts(blind.clone()).contains_key("programs"), "there is none");
    blind.unchecked.insert("b".into(), "netlink says EPERM".into());
    let says =
        "whether others have attached programs to devices of the path, and what they do, was not checked at b (netlink";
    assert_is(&verdicts(blind)["programs"], "programs", Level::Note, says);

    let fault = ProgramFault { kind: FaultKind::Redirect, packets: 8, code: 22, to: 99, by_map: false, device: None };
    let seen = ProgramSeen { runs: 8, run_ns: 900, lines: 0, faults: vec![fault] };
    let some = inspected(ProgramHook::XdpNative, Some(seen.clone()), &[(0, 4)]);
    assert_eq!(some.dead_end(), None);
    let says = "the kernel could not redirect 8 packets to device number 99, which no device there has (errno 22)";
    assert_is(&verdicts(some)["program-drops"], "program-drops", Level::Warning, says);
    let none = inspected(ProgramHook::XdpNative, Some(seen), &[]);
    assert!(none.dead_end().is_some());
    assert_is(&verdicts(none)["program-drops"], "program-drops", Level::Invalid, says);

    let tagged = inspected(ProgramHook::TcEgress, Some(ProgramSeen::default()), &[(0, 2), (1, 6)]);
    assert!(tagged.dead_end().is_some());
    let added = &verdicts(tagged)["added-tag"];
    assert_is(
        added,
        "added-tag",
        Level::Invalid,
        "probe packets of ctl leave a with 0 VLAN tags and arrive at b with 1",
    );
    assert_eq!(added.evidence["with_more_tags"], Figure::Int(6));
    // What drops probes without a program is no fault of one's: a queue discipline may.
    let mut quiet = inspected(ProgramHook::TcEgress, Some(ProgramSeen::default()), &[]);
    assert_eq!(quiet.dead_end(), None);
    quiet.programs.clear();
    assert_eq!(verdicts(quiet), BTreeMap::new());
}

/// What makes of a probe one from which less follows.
type Spoil = fn(&mut ProbeRecord);

#[test]
fn a_program_that_took_every_probe_in_silence_cost_a_trial() {
    let ran = |runs| Some(ProgramSeen { runs, ..ProgramSeen::default() });
    // The hook, how often it ran, how many probes arrived and how many the filters of tc let on.
    let of = |hook, runs, arrived: u32, let_on| {
        let tags: &[(u8, u32)] = if arrived > 0 { &[(0, arrived)] } else { &[] };
        let mut found = inspected(hook, ran(runs), tags);
        found.probes[0].let_on = let_on;
        found
    };
    let (xdp, ingress, egress) = (ProgramHook::XdpGeneric, ProgramHook::TcIngress, ProgramHook::TcEgress);
    for (taker, says) in [
        (
            of(xdp, 8, 0, None),
            "program `watcher` (id 7, xdp-generic) on eth0 of b seems to take the packets: a sent 8 probe \
            packets of ctl to b, none arrived, and it ran 8 times meanwhile",
        ),
        (of(xdp, 9, 0, Some(0)), "none arrived, and it ran 9 times meanwhile"),
        (
            of(ingress, 8, 8, Some(0)),
            "8 arrived at the device and the filters of tc let none on, and it ran 8 times meanwhile",
        ),
    ] {
        assert!(taker.dead_end().is_some(), "{taker:?}");
        let verdict = &verdicts(taker.clone())["program-drops"];
        assert_is(verdict, "program-drops", Level::Invalid, says);
        assert_eq!((&verdict.evidence["packets"], &verdict.evidence["from"]), (&8_i64.into(), &"a".into()));
        // Nothing of the stream goes that way, or other machines may have lost them: it is worth a
        // word, and no cell.
        let spoils: [(Spoil, Level); 2] = [
            (|of| of.carries = false, Level::Note),
            (|of| of.way.as_mut().expect("a way").is_certain = false, Level::Warning),
        ];
        for (spoil, level) in spoils {
            let mut spared = taker.clone();
            spoil(&mut spared.probes[0]);
            assert_eq!(spared.dead_end(), None);
            assert_eq!(verdicts(spared)["program-drops"].level, level);
        }
        // A queue discipline may have kept those that did not arrive, and none of the others.
        let mut held = taker.clone();
        held.probes[0].way.as_mut().expect("a way").is_held = true;
        assert_eq!(held.dead_end().is_some(), held.probes[0].arrived() > 0);
        // A way that a program spares is reported after one that it stops, whichever comes first.
        let mut both = taker.clone();
        let spared = ProbeRecord { carries: false, stream: "other".into(), ..both.probes[0].clone() };
        both.probes.insert(0, spared);
        both.programs[0].seen = ran(18);
        let verdict = &verdicts(both)["program-drops"];
        assert_eq!((verdict.level, &verdict.evidence["stream"]), (Level::Invalid, &"ctl".into()));
        // A folder of a version that did not keep the way is judged as it was.
        let mut old = taker;
        old.probes[0].way = None;
        assert!(old.dead_end().is_none() && !verdicts(old).contains_key("program-drops"));
    }
    // The sender's program has let them go, the stack's filters come behind, some came through, or
    // it did not see them all: it was another one.
    for innocent in [
        of(egress, 8, 0, None),
        of(ingress, 8, 0, Some(0)),
        of(xdp, 8, 8, Some(0)),
        of(ingress, 8, 8, Some(1)),
        of(ingress, 8, 8, None),
        of(xdp, 7, 0, None),
    ] {
        assert_eq!(innocent.dead_end(), None, "{innocent:?}");
        assert!(!verdicts(innocent).contains_key("program-drops"));
    }
    let mut leaving = of(egress, 8, 0, None);
    leaving.programs[0].station = "a".into();
    assert!(leaving.dead_end().is_some());
    assert!(
        verdicts(leaving.clone())["program-drops"]
            .says
            .contains("(id 7, tc-egress) on eth0 of a seems to take the packets")
    );
    // One behind which another one saw them has let them go.
    let mut passed = leaving.clone();
    passed.programs.push(of(xdp, 8, 0, None).programs.remove(0));
    let named: Vec<&str> = passed.takers(&passed.probes[0]).iter().map(|of| of.hook.name()).collect();
    assert_eq!(named, ["xdp-generic"]);
    // It ran for another stream's probes, and those of this one were lost elsewhere.
    let mut elsewhere = of(xdp, 8, 0, None);
    let well = ProbeRecord { by_tags: [(0, 8)].into(), stream: "well".into(), ..elsewhere.probes[0].clone() };
    elsewhere.probes.push(well);
    assert_eq!(elsewhere.dead_end(), None);
    // The stream passes no filter on leaving, as AF_XDP's does.
    leaving.probes[0].way.as_mut().expect("a way").leaves.clear();
    assert_eq!(leaving.dead_end(), None);
    // On the VLAN's device even XDP comes behind the packet socket, and on another device nothing
    // of the stream passes.
    for (device, arrived, let_on, is_it) in [
        ("eth0.5", 8, Some(0), true),
        ("eth0.5", 0, Some(0), false),
        ("eth1", 0, Some(0), false),
        ("eth1", 8, Some(0), false),
    ] {
        let mut found = of(xdp, 8, arrived, let_on);
        found.programs[0].device = device.into();
        assert_eq!(found.dead_end().is_some(), is_it, "{device} {arrived}");
    }
}

#[test]
fn nobody_said_that_packets_came_through_routers_or_left_by_another_device() {
    let mut found = inspected(ProgramHook::XdpNative, Some(ProgramSeen::default()), &[(0, 8)]);
    found.programs.clear();
    // Where the path itself decides the way, a smaller TTL is no router's.
    found.probes[0].least_ttl = Some(62);
    assert_eq!(verdicts(found.clone()), BTreeMap::new());
    assert!(found.is_clean());
    let by = |device: &str| Some(ProbeRoute::By(device.into()));
    found.probes[0].route = by("eth0");
    let of = verdicts(found.clone());
    assert_eq!(of.len(), 1);
    let says = "packets of ctl from a come to b through 2 routers, by their TTL";
    assert_is(&of["routers"], "routers", Level::Note, says);
    assert_eq!(of["routers"].evidence["routers"], Figure::Int(2));
    // Somebody may have set a greater one on the way.
    found.probes[0].least_ttl = Some(255);
    assert_eq!(verdicts(found.clone()), BTreeMap::new());
    let no_route = Some(ProbeRoute::None("Network is unreachable".into()));
    for (route, tags, level, says) in [
        (
            by("eth1"),
            8,
            Level::Warning,
            "a sends packets of ctl to b by eth1, as its kernel routes them, and eth0 has its",
        ),
        (no_route, 8, Level::Warning, "a knows no route for packets of ctl to b: Network is unreachable"),
        (Some(ProbeRoute::Here), 8, Level::Note, "packets of ctl from a to b do not leave the machine"),
        (
            by("eth0"),
            0,
            Level::Warning,
            "no probe packet of ctl from a came to b by the device that has its address there",
        ),
    ] {
        let probe = &mut found.probes[0];
        (probe.route, probe.by_tags) = (route, if tags > 0 { [(0, tags)].into() } else { BTreeMap::new() });
        let of = verdicts(found.clone());
        assert_eq!(of.len(), 1, "{of:?}");
        assert_is(&of["other-route"], "other-route", level, says);
        assert!(!found.is_clean());
    }
    // None arrived: of a connection's probes that says nothing, and those that were not sent were
    // kept before.
    let mut of_tcp = found.clone();
    of_tcp.probes[0].way.as_mut().expect("a way").is_like_the_streams = false;
    assert_eq!(verdicts(of_tcp), BTreeMap::new());
    found.probes[0].sent = 0;
    let says = "no probe packet of ctl could be sent from a to b";
    assert_is(&verdicts(found.clone())["other-route"], "other-route", Level::Warning, says);
    // Of a way that carries nothing of the stream nothing is worth a word.
    found.probes[0].carries = false;
    assert_eq!(verdicts(found), BTreeMap::new());
}

#[test]
fn a_tag_was_added_somewhere_on_the_path_and_nobody_said_where() {
    let hop =
        |device: &str, tags: &[(u8, u32)]| ProbeHop { device: device.into(), by_tags: tags.iter().copied().collect() };
    let arrives = |hops: Vec<ProbeHop>, tags: &[(u8, u32)]| {
        let mut found = inspected(ProgramHook::XdpNative, Some(ProgramSeen::default()), tags);
        found.programs.clear();
        found.probes[0].hops = hops;
        found
    };
    let between = |found: &Inspection| found.probes[0].adds_between().map(|places| places.map(str::to_owned));
    // The last place before it, and the first one behind it.
    for (at_near, at_far, places) in [(0, 0, ["far", "b"]), (0, 1, ["near", "far"]), (1, 1, ["a", "near"])] {
        let found = arrives(vec![hop("near", &[(at_near, 8)]), hop("far", &[(at_far, 8)])], &[(1, 8)]);
        assert_eq!(between(&found), Some(places.map(str::to_owned)));
        let [before, behind] = places;
        let verdict = &verdicts(found)["added-tag"];
        assert!(verdict.says.ends_with(&format!("something between {before} and {behind} adds one")), "{verdict:?}");
        assert_eq!((&verdict.evidence["before"], &verdict.evidence["behind"]), (&before.into(), &behind.into()));
    }
    // Where none was seen on the way, the way is as long as that.
    let found = arrives(vec![hop("near", &[(0, 8)]), hop("far", &[])], &[(1, 8)]);
    assert_eq!(between(&found), Some(["near", "b"].map(str::to_owned)));
    assert_eq!(between(&arrives(vec![hop("near", &[(0, 8)])], &[(0, 8)])), None, "none was added");
    let unseen = arrives(Vec::new(), &[(1, 8)]);
    assert_eq!(between(&unseen), None);
    assert!(verdicts(unseen)["added-tag"].says.ends_with("something on the path adds one"));
}

/// What became of 8 special frames from a to b.
fn special(kind: SpecialKind, sent: u32, arrived: u32) -> SpecialRecord {
    let (from, to) = ("a".into(), "b".into());
    SpecialRecord {
        kind,
        from,
        to,
        sent,
        arrived,
        without_checksum: 0,
        bytes: (kind == SpecialKind::Longest).then_some(9_000),
        longest_bytes: None,
        is_certain: true,
        kept_by: None,
    }
}

#[test]
fn a_path_that_kept_multicast_looked_well() {
    let group = |kind, arrived| {
        let kept_by = Some("it is off".into());
        SpecialRecord { kept_by, ..special(kind, 8, arrived) }
    };
    let mut found = inspected(ProgramHook::XdpNative, Some(ProgramSeen::default()), &[(0, 8)]);
    found.programs.clear();
    assert!(found.is_clean());
    found.special = vec![group(SpecialKind::Arp, 8), group(SpecialKind::Multicast, 0)];
    assert!(!found.is_clean() && found.dead_end().is_none());
    let says = "a sent 8 multicast packets to b and none arrived, while packets for b alone do: it is off";
    let of = verdicts(found.clone());
    assert_eq!(of.len(), 1);
    assert_is(&of["group-lost"], "group-lost", Level::Invalid, says);
    assert_eq!(of["group-lost"].evidence["kept_by"], "it is off".into());
    // Sent once more, they count where none had arrived, and what has arrived stays.
    let mut late = found.clone();
    let [mut again, none] = [8, 0].map(|arrived| group(SpecialKind::Multicast, arrived));
    late.special[1].sent_again(&none);
    assert_eq!((late.special[1].sent, late.special[1].arrived), (16, 0));
    again.sent_again(&none);
    assert_eq!((again.sent, again.arrived), (8, 8), "the second time says nothing about it");
    late.special[1].sent_again(&again);
    assert!((late.special[1].sent, late.special[1].arrived) == (24, 8) && verdicts(late).is_empty());
    // One of eight is a loss, and no filter; nobody knows what machines of others are to let pass.
    let mut some = found.clone();
    some.special[1].arrived = 1;
    assert!(verdicts(some).is_empty());
    let mut theirs = found.clone();
    (theirs.special[1].is_certain, theirs.special[1].kept_by) = (false, None);
    let says = "look for a filter or a switch between them that keeps such frames";
    assert_is(&verdicts(theirs)["group-lost"], "group-lost", Level::Warning, says);
    // Where nothing arrives at all, or only on another way, it is no matter of groups.
    let mut dead = found.clone();
    dead.probes[0].by_tags.clear();
    assert!(verdicts(dead).is_empty());
    found.probes[0].from = "c".into();
    assert!(verdicts(found).is_empty());
}

#[test]
fn a_path_that_lost_long_packets_or_checksums_looked_well() {
    let mut found = inspected(ProgramHook::XdpNative, Some(ProgramSeen::default()), &[(0, 8)]);
    found.programs.clear();
    let mut of = |record: SpecialRecord| {
        found.special = SpecialKind::ALL.map(|kind| special(kind, 8, 8)).into();
        found.special.push(record);
        verdicts(found.clone())
    };
    let long = SpecialRecord { longest_bytes: Some(1_500), ..special(SpecialKind::Longest, 8, 0) };
    let judged = of(long.clone());
    let says = "a sent 8 packets of 9000 bytes (path.mtu) to b and none arrived, while shorter ones do: the longest that \
                arrive have 1500 bytes: raise the MTU of the devices between them, or set path.mtu to 1500";
    assert_eq!(judged.len(), 1);
    assert_is(&judged["long-lost"], "long-lost", Level::Invalid, says);
    let evidence = &judged["long-lost"].evidence;
    assert_eq!((&evidence["bytes"], &evidence["longest_bytes"]), (&9_000_u32.into(), &1_500_u32.into()));
    let theirs = of(SpecialRecord { is_certain: false, longest_bytes: None, ..long });
    let says = "shorter ones do: look for a device between them with a smaller MTU";
    assert_is(&theirs["long-lost"], "long-lost", Level::Warning, says);

    let bare = SpecialRecord { without_checksum: 8, ..special(SpecialKind::Unsummed, 8, 0) };
    let judged = of(bare);
    let says = "a sent 8 packets whose checksum its device is to write to b and 8 arrived without one, which the kernel there \
                drops: something between them hands packets on without what the kernel keeps next to them";
    assert_is(&judged["checksum-lost"], "checksum-lost", Level::Invalid, says);
    assert_eq!(judged["checksum-lost"].evidence["without_checksum"], 8_u32.into());
    let lost = of(special(SpecialKind::Unsummed, 8, 0));
    assert_is(
        &lost["checksum-lost"],
        "checksum-lost",
        Level::Invalid,
        "none arrived, while packets with a checksum do",
    );
}

#[test]
fn a_run_folder_of_a_version_that_knew_two_special_frames_can_be_read() {
    let group =
        json!({"kind": "arp", "from": "a", "to": "b", "sent": 8, "arrived": 0, "is_certain": true, "kept_by": null});
    let old = json!({"programs": [], "unchecked": {}, "probes": [], "groups": [group]});
    let read: Inspection = serde_json::from_value(old).expect("it is read");
    assert_eq!(read.special, [special(SpecialKind::Arp, 8, 0)]);
}

#[test]
fn a_checksum_that_nobody_wrote_is_seen_in_the_frame() {
    // The head of Ethernet with this many tags, and a packet of UDP with this checksum.
    let over_4 = |tags: usize, sum: u16| {
        let ip = [0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        let udp = [0x30, 0x39, 0x30, 0x39, 0, 12];
        let head = [vec![2; 12], [0x81, 0, 0, 5].repeat(tags), vec![8, 0]].concat();
        [head, ip.to_vec(), udp.to_vec(), sum.to_be_bytes().to_vec(), vec![1, 2, 3, 4]].concat()
    };
    // By hand: c000 + 0201 + c000 + 0202, protocol 17, length 12 twice, ports 3039, 0102 + 0304.
    let sum = {
        let words = [0xc000_u32, 0x0201, 0xc000, 0x0202, 17, 12, 0x3039, 0x3039, 12, 0x0102, 0x0304];
        let sum: u32 = words.iter().sum();
        !(((sum >> 16) + (sum & 0xffff)) as u16)
    };
    for tags in 0..=2 {
        assert!(!lacks_sum(&over_4(tags, sum)), "{tags} tags");
        assert!(lacks_sum(&over_4(tags, sum ^ 1)), "{tags} tags");
        assert!(!lacks_sum(&over_4(tags, 0)), "zero says that there is none");
        // Of a packet that is cut off, nothing is known.
        let cut = over_4(tags, sum ^ 1);
        assert!((0..cut.len()).all(|length| !lacks_sum(&cut[..length])), "{tags} tags");
        // Where it goes by the kernel's routes, and how many routers it may pass.
        let (ends, packet) = packet_in(&cut).expect("it is IP");
        assert_eq!(ends.map(|address| address.to_string()), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(packet, &cut[14 + 4 * tags..]);
        assert_eq!((ttl(&cut), ttl(&cut[..14])), (Some(64), None));
    }
}

#[test]
fn what_keeps_multicast_in_a_bridge_is_named_with_the_smallest_change() {
    let keeps = tardy_lab::path::kind(PathKind::Bridge).keeps;
    // What `ip -j -d link show` prints, but for what is not asked for.
    let answers = |data: Value, flood: [bool; 2], routers: [u8; 2]| {
        let bridge = json!([{"ifname": "br", "linkinfo": {"info_kind": "bridge", "info_data": data}}]);
        let port = |n: usize| {
            let data = json!({"mcast_flood": flood[n], "bcast_flood": true, "multicast_router": routers[n]});
            let info = json!({"info_kind": "veth", "info_slave_kind": "bridge", "info_slave_data": data});
            json!([{"ifname": format!("port{n}"), "linkinfo": info}])
        };
        [bridge, port(0), port(1)]
    };
    let says = |answers: [Value; 3], kind, out| keeps(&answers, kind, out).unwrap_or_default();
    let off = || json!({"mcast_snooping": 0, "mcast_querier": 0});
    let closed = says(answers(off(), [true, false], [1, 1]), SpecialKind::Multicast, "port1");
    assert_eq!(
        closed,
        "the bridge's mcast_flood is off at port1; the smallest change is `bridge link set dev port1 mcast_flood on`"
    );
    // Of the way out by the other port it says nothing.
    assert_eq!(says(answers(off(), [true, false], [1, 1]), SpecialKind::Multicast, "port0"), "");
    let own = || json!({"mcast_snooping": 1, "mcast_querier": 1});
    let snoops = says(answers(own(), [true, true], [1, 2]), SpecialKind::Multicast, "port0");
    let change = "the smallest change is `ip link set dev port0 type bridge_slave mcast_router 2`";
    assert!(snoops.starts_with("bridge br snoops (mcast_snooping 1), is the querier itself"), "{snoops}");
    assert!(snoops.ends_with(change), "{snoops}");
    // To a port that leads to a router it does send.
    assert_eq!(says(answers(own(), [true, true], [1, 2]), SpecialKind::Multicast, "port1"), "");
    // A querier that it has heard; its own state alone is none.
    let heard = |timer: &str| {
        let state = json!({"mcast_querier_ipv4_addr": "192.0.2.9", "mcast_querier_ipv4_other_timer": timer});
        let data = json!({"mcast_snooping": 1, "mcast_querier": 0, "mcast_querier_state_ipv4": state});
        says(answers(data, [true, true], [1, 1]), SpecialKind::Multicast, "port0")
    };
    assert!(heard("254.31").contains("knows of a querier (192.0.2.9)"), "{}", heard("254.31"));
    assert_eq!(heard("0.00"), "");
    // Neither keeps ARP, and without either nothing is known.
    assert_eq!(says(answers(own(), [true, false], [1, 1]), SpecialKind::Arp, "port1"), "");
    assert_eq!(says(answers(off(), [true, true], [1, 1]), SpecialKind::Multicast, "port1"), "");
    assert_eq!(keeps(&[], SpecialKind::Multicast, "port1"), None);
}

#[test]
fn a_bridge_without_a_querier_was_said_to_know_of_one() {
    let keeps = tardy_lab::path::kind(PathKind::Bridge).keeps;
    let bridge = json!([{"ifname": "br", "linkinfo": {"info_data": {"mcast_snooping": 1, "mcast_querier": 0}}}]);
    let data = json!({"mcast_flood": true, "multicast_router": 1});
    let port = json!([{"ifname": "p", "linkinfo": {"info_slave_kind": "bridge", "info_slave_data": data}}]);
    // It floods then, so something else keeps the frames.
    assert_eq!(keeps(&[bridge, port], SpecialKind::Multicast, "p"), None);
}

/// A frame with this many tags, in which `mark` comes after `between` bytes of other headers.
fn marked(tags: usize, between: usize, mark: &[u8]) -> Vec<u8> {
    [vec![2; 12], [0x81, 0, 0, 5].repeat(tags), vec![0x86, 0xdd], vec![1; between], mark.to_vec()].concat()
}

#[test]
fn a_flood_at_one_device_kept_the_inspection_for_ever_and_hid_the_probes_at_another() {
    let mark = [7; 24];
    let flood = marked(0, 40, &[9; 24]);
    let probes = vec![marked(1, 0, &mark); 8];
    let (mut flooded, mut other) = (Arriving::at(None, &mark), Arriving::at(Some(probes), &mark));
    let (began, mut looked) = (Instant::now(), 0_u64);
    let is_whole = count_marks(&mut [&mut flooded, &mut other], 8, |from: &mut Option<Vec<Vec<u8>>>, bytes| {
        looked += 1;
        let frame = match from {
            None => flood.clone(),
            Some(probes) => probes.pop()?,
        };
        let length = frame.len().min(bytes.len());
        bytes[..length].copy_from_slice(&frame[..length]);
        Some(Came { length, tag_taken: Some(5 << 13 | 7), is_unsummed: false })
    });
    assert!(began.elapsed() < Duration::from_secs(10) && looked < 100_000, "{looked} frames in {:?}", began.elapsed());
    assert!(!is_whole, "frames of the flood were left");
    // One tag is in the frame, and the kernel had taken another one out of it.
    assert_eq!((flooded.by_tags, other.by_tags), (BTreeMap::new(), BTreeMap::from([(2, 8)])));
    assert_eq!(other.by_pcp, BTreeMap::from([(5, 8)]), "of the outermost");
}

#[test]
fn a_mark_was_searched_for_in_all_of_every_frame() {
    let mark = [7; 24];
    // A frame of port `packet`, UDP over IPv4, and TCP over IPv6: with the stream's own tag, and
    // with as many more as are looked into.
    for between in [0, 20 + 8, 40 + 20] {
        for tags in 0..=1 + MOST_TAGS {
            assert!(has_mark(&marked(tags, between, &mark), &mark), "{between} bytes behind {tags} tags");
        }
    }
    assert!(!has_mark(&marked(0, 1_000, &mark), &mark), "another's payload may have the same bytes");
    assert!(!has_mark(&marked(0, 0, &mark[..23]), &mark) && !has_mark(&[], &mark) && !has_mark(&[1; 60], &[]));
}

#[test]
fn a_program_that_takes_long_was_measured_for_minutes() {
    // Each run takes this long, and the program as it is costs 100 ns more than bare.
    let measured = |run_took: Duration| {
        let (spent, runs) = (Cell::new(Duration::ZERO), Cell::new(0));
        let run = |is_bare: bool| {
            spent.set(spent.get() + run_took);
            runs.set(runs.get() + 1);
            Ok(if is_bare { 900.0 } else { 1_000.0 })
        };
        (in_pairs(run, || spent.get()), runs.get())
    };
    let cost = |pairs| ProgramCost { ns: 100.0, low_ns: 100.0, high_ns: 100.0, pairs };
    assert_eq!(measured(Duration::from_micros(1)), (Ok(cost(101)), 202));
    // The pair that has begun when the time is up is taken too.
    assert_eq!(measured(Duration::from_millis(150)), (Ok(cost(7)), 14));
    assert_eq!(measured(Duration::from_millis(200)), (Err(too_long(5, "2.0")), 10));
    assert_eq!(measured(Duration::from_secs(60)), (Err(too_long(1, "120.0")), 2));
    let refused = in_pairs(|_| Err("it is refused".to_owned()), || Duration::ZERO);
    assert_eq!(refused, Err("it is refused".to_owned()));
}

fn too_long(pairs: u32, seconds: &str) -> String {
    format!("it takes too long: {pairs} pairs of 8 runs took {seconds} s, and an interval of 95 % needs 6 pairs")
}

#[test]
fn the_interval_of_a_cost_has_95_percent_of_as_few_as_six_pairs() {
    // The differences are 1, 2, 3 and so on: pairs, ends of the interval, and the middle.
    for (pairs, low, middle, high) in [(6, 1.0, 3.5, 6.0), (9, 2.0, 5.0, 8.0), (101, 41.0, 51.0, 61.0)] {
        let run = Cell::new(0_u32);
        let each = |is_bare: bool| {
            run.set(run.get() + 1);
            Ok(if is_bare { 0.0 } else { f64::from(run.get().div_ceil(2)) })
        };
        let elapsed = || if run.get() < 2 * pairs { Duration::ZERO } else { Duration::from_secs(2) };
        let cost = in_pairs(each, elapsed);
        assert_eq!(cost, Ok(ProgramCost { ns: middle, low_ns: low, high_ns: high, pairs }), "{pairs}");
    }
}

#[test]
fn redirects_that_were_not_searched_to_the_end_passed_for_redirects_without_a_number() {
    let mut found = inspected(ProgramHook::XdpNative, Some(ProgramSeen::default()), &[(0, 8)]);
    found.programs.clear();
    let object = |unsearched| ObjectRecord {
        station: "b".into(),
        program: "long".into(),
        unsearched,
        ..ObjectRecord::default()
    };
    found.objects = vec![object(0)];
    assert!(found.is_clean() && !verdicts(found.clone()).contains_key("device-number"));
    found.objects = vec![object(2)];
    assert!(!found.is_clean());
    let of = &verdicts(found)["device-number"];
    assert_is(of, "device-number", Level::Note, "was not found out for 2 redirects");
    assert_eq!(of.evidence.get("unsearched"), Some(&Figure::from(2_u64)));
}
