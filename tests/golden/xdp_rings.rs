// SPDX-License-Identifier: MIT OR Apache-2.0
//! AF_XDP without a kernel: which entries of a ring each side may touch, around its end and that
//! of its counters; what tardy's XDP program writes before a packet, and what goes before one that
//! is sent; what the kernel says that a driver can do; and the verdicts on the XDP and tc programs
//! that others have on a path.

use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tardy_analyze::validity::{RULES, found};
use tardy_bpf::hints::Layouts;
use tardy_bpf::pitfalls::in_pairs;
use tardy_bpf::program::{MARK, OBJECT, RX_TIME, RxTime, Stamps, last_lines};
use tardy_bpf::xsk::{METADATA, Putting, Taking, completion, request, went_out};
use tardy_model::verdict::{Figure, Level, Verdict};
use tardy_model::xdp::{
    FaultKind, Inspection, ProbeRecord, ProbeWay, ProgramCost, ProgramFault, ProgramHook, ProgramRecord, ProgramSeen,
};
use tardy_sys::nic::{XdpFeatures, read_xdp_features};

/// A ring whose two sides are this process's: what is put in comes out, in order and once.
struct Ring {
    entries: Vec<u64>,
    filled: AtomicU32,
    taken: AtomicU32,
    put: Putting,
    take: Taking,
}

impl Ring {
    fn new(size: u32, begun: u32) -> Ring {
        Ring {
            entries: vec![u64::MAX; size as usize],
            filled: begun.into(),
            taken: begun.into(),
            put: Putting::at(size, begun),
            take: Taking::at(size, begun),
        }
    }

    fn put(&mut self, value: u64) -> bool {
        let Some(place) = self.put.next(&self.taken) else { return false };
        self.entries[place] = value;
        true
    }

    fn take(&mut self, most: u32) -> Vec<u64> {
        let waiting = self.take.waiting(&self.filled, most);
        let out = (0..waiting).map(|n| self.entries[self.take.place(n)]).collect();
        self.take.take(waiting, &self.taken);
        out
    }
}

proptest! {
    #[test]
    fn what_is_put_into_a_ring_comes_out_once_and_in_order(
        bits in 0u32..7,
        begun in prop_oneof![Just(0), (u32::MAX - 200)..=u32::MAX, any::<u32>()],
        steps in prop::collection::vec((0usize..80, any::<bool>(), 0u32..80), 1..60),
    ) {
        let mut ring = Ring::new(1 << bits, begun);
        let (mut next, mut expected, mut published) = (0, 0, 0);
        for (puts, publishes, most) in steps {
            for _ in 0..puts {
                // There is room as long as fewer are under way than the ring has entries.
                let has_room = next - expected < 1 << bits;
                prop_assert_eq!(ring.put(next), has_room);
                next += u64::from(has_room);
            }
            if publishes {
                ring.put.publish(&ring.filled);
                published = next;
            }
            let out = ring.take(most);
            prop_assert!(out.len() <= most as usize);
            for value in out {
                prop_assert!(value < published, "{} was not published", value);
                prop_assert_eq!(value, expected);
                expected += 1;
            }
        }
        ring.put.publish(&ring.filled);
        while expected < next {
            let out = ring.take(u32::MAX);
            prop_assert!(!out.is_empty(), "{} of {} came", expected, next);
            out.into_iter().for_each(|value| { assert_eq!(value, expected); expected += 1; });
        }
        prop_assert_eq!(ring.filled.load(Relaxed), begun.wrapping_add(next as u32));
        prop_assert_eq!(ring.taken.load(Relaxed), begun.wrapping_add(next as u32));
    }

    #[test]
    fn a_counter_that_nobody_can_mean_lends_no_entry_twice(filled in any::<u32>(), most in any::<u32>()) {
        let mut take = Taking::new(64);
        let waiting = take.waiting(&filled.into(), most);
        prop_assert!(waiting <= 64.min(most));
        let mut places: Vec<usize> = (0..waiting).map(|n| take.place(n)).collect();
        places.sort_unstable();
        places.dedup();
        prop_assert_eq!(places.len(), waiting as usize);
        prop_assert!(places.iter().all(|place| *place < 64));
    }

    #[test]
    fn no_bytes_before_a_packet_are_read_beyond_their_beginning(area in prop::collection::vec(any::<u8>(), 0..64)) {
        let stamps = Stamps::own().expect("its own object");
        let read = stamps.read(&area);
        prop_assert!(read.is_none() || area.len() >= 20);
    }
}

#[test]
fn what_the_program_writes_is_read_member_by_member_at_any_alignment() {
    let stamps = Stamps::own().expect("its own object");
    assert_eq!(stamps.area(), 24, "of the larger struct");
    let layouts = Layouts::of_object(OBJECT).expect("its BTF");
    let [rx_time, mark] = [RX_TIME, MARK].map(|name| layouts.by_name(name).next().expect("a struct").id);
    let (time, cpu, queue) = (0x0102_0304_0506_0708_u64, 3_u32, 2_u32);
    for before in 4..12 {
        let mut area = vec![0xee; before];
        area.extend(time.to_ne_bytes());
        area.extend([cpu, queue, rx_time].map(u32::to_ne_bytes).concat());
        assert_eq!(stamps.read(&area), Some(RxTime { time_ns: time, cpu, queue, mark: None }), "{before}");
        let mut area = vec![0xee; before];
        area.extend(time.to_ne_bytes());
        area.extend([cpu, queue, 77, mark].map(u32::to_ne_bytes).concat());
        assert_eq!(stamps.read(&area), Some(RxTime { time_ns: time, cpu, queue, mark: Some(77) }), "{before}");
        // A frame that was used before and cleared shows nothing.
        let end = area.len();
        area[end - 4..].fill(0);
        assert_eq!(stamps.read(&area), None, "{before}");
    }
}

#[test]
fn of_a_verifiers_log_the_last_lines_are_quoted() {
    let log: String = (0..100).map(|n| format!("{n}: (b7) r0 = {n}  \n\n")).collect();
    let quoted = last_lines(&(log + "R1 invalid mem access 'scalar'\nprocessed 100 insns\n"));
    let lines: Vec<&str> = quoted.lines().collect();
    assert_eq!(lines.len(), 12, "{quoted}");
    assert_eq!(lines[10..], ["R1 invalid mem access 'scalar'", "processed 100 insns"]);
    assert_eq!(last_lines("one\n"), "one");
}

#[test]
fn what_was_published_and_not_taken_is_found_around_the_end_of_the_counters() {
    for begun in [0, 5, u32::MAX - 2] {
        let mut ring = Ring::new(8, begun);
        assert_eq!(ring.put.waiting(&ring.taken), 0);
        (0..6).for_each(|value| assert!(ring.put(value)));
        assert_eq!(ring.put.waiting(&ring.taken), 0, "nothing is published");
        ring.put.publish(&ring.filled);
        assert_eq!(ring.take(2), [0, 1]);
        assert_eq!(ring.put.waiting(&ring.taken), 4);
        // What the other side did not take, the newest first.
        let left: Vec<u64> = (0..4).map(|n| ring.entries[ring.put.published(n)]).collect();
        assert_eq!(left, [5, 4, 3, 2], "{begun}");
        assert_eq!((ring.take.all(&ring.filled), ring.take(8)), (4, vec![2, 3, 4, 5]));
    }
}

#[test]
fn what_goes_with_a_packet_has_the_bytes_of_linuxs_struct() {
    assert_eq!(METADATA, 24, "flags, checksum, launch time (Linux 6.14)");
    let words =
        |bytes: [u8; METADATA]| [0, 8, 16].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8")));
    assert_eq!(words(request(false, None)), [0, 0, 0]);
    assert_eq!(words(request(true, None)), [1, 0, 0]);
    assert_eq!(words(request(false, Some(0x0102_0304_0506_0708))), [4, 0, 0x0102_0304_0506_0708]);
    assert_eq!(words(request(true, Some(9))), [5, 0, 9]);
    // The driver's answer takes the place of the request; it has come when it is there.
    let mut bytes = request(true, Some(9));
    assert_eq!(completion(&bytes), None);
    bytes[8..16].copy_from_slice(&77_u64.to_ne_bytes());
    assert_eq!(completion(&bytes), Some(77));
    (0..16).for_each(|length| assert_eq!(completion(&bytes[..length]), None));
}

#[test]
fn nothing_counts_as_sent_that_the_kernel_did_not_send() {
    use libc::{EAGAIN, EBUSY, EINVAL, ENETDOWN, ENXIO};
    // Of how many, taken before the call and after it, its errno, futile calls so far: how many
    // went out, or another call.
    for (count, [before, after], errno, futile, sent) in [
        (1, [0, 1], 0, 0, Some(1)),
        (64, [0, 64], 0, 0, Some(64)),
        // The queue is gone: no call takes anything, and none fails.
        (1, [0, 0], 0, 0, Some(0)),
        // A call takes 32 on an older kernel.
        (64, [0, 32], EAGAIN, 0, None),
        (64, [32, 64], EAGAIN, 0, Some(64)),
        // The driver had no room, then had, or never.
        (1, [0, 0], EAGAIN, 0, None),
        (1, [0, 0], EAGAIN, 1, None),
        (1, [0, 0], EAGAIN, 2, Some(0)),
        (64, [32, 32], EAGAIN, 2, Some(32)),
        // Dropped: as the first of the call, or behind others.
        (1, [0, 0], EBUSY, 0, Some(0)),
        (64, [0, 6], EBUSY, 0, Some(5)),
        (64, [32, 32], EBUSY, 0, Some(32)),
        (64, [32, 64], EBUSY, 0, Some(63)),
        (3, [0, 0], ENETDOWN, 0, Some(0)),
        (3, [0, 0], ENXIO, 0, Some(0)),
        (3, [0, 2], EINVAL, 0, Some(2)),
    ] {
        assert_eq!(went_out(count, before, after, errno, futile), sent, "{count} {before}..{after}: {errno}, {futile}");
    }
}

/// An attribute of netlink.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [(4 + value.len() as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn what_a_driver_can_do_for_af_xdp_is_read_from_the_kernels_answer() {
    let answer = |attributes: &[Vec<u8>]| [vec![0; 20], attributes.concat()].concat();
    let [index, zc] = [attribute(1, &7_u32.to_ne_bytes()), attribute(4, &8_u32.to_ne_bytes())];
    let [xdp, xsk] = [3, 6].map(|kind| move |flags: u64| attribute(kind, &flags.to_ne_bytes()));
    let all = answer(&[index.clone(), xdp(0x7f), attribute(5, &[0; 8]), xsk(7), zc]);
    let every = XdpFeatures { zero_copy: true, tx_timestamp: true, tx_checksum: true, tx_launch_time: true };
    assert_eq!(read_xdp_features(&all), Some(every));
    // veth, and a kernel before 6.8, which has no such attribute.
    let none = XdpFeatures::default();
    assert_eq!(read_xdp_features(&answer(&[index.clone(), xdp(0x77), xsk(0)])), Some(none));
    assert_eq!(read_xdp_features(&answer(&[index.clone(), xdp(8)])), Some(XdpFeatures { zero_copy: true, ..none }));
    let stamps = answer(&[index.clone(), xdp(8), xsk(1)]);
    assert_eq!(read_xdp_features(&stamps), Some(XdpFeatures { zero_copy: true, tx_timestamp: true, ..none }));
    assert_eq!(read_xdp_features(&answer(&[index])), None, "it does not say");
    for bad in [&[][..], &[0; 19], &[0; 20], &[0; 64], &[0xff; 64]] {
        assert_eq!(read_xdp_features(bad), None, "{bad:?}");
    }
    // Cut anywhere, it is never more than it was.
    for length in 0..all.len() {
        let read = read_xdp_features(&all[..length]);
        assert!(
            read.is_none() || read == Some(XdpFeatures { zero_copy: true, ..none }) || read == Some(every),
            "{length}"
        );
    }
    // A length that is too short or beyond the end ends the reading.
    for length in [0_u16, 3, 400] {
        let mut bent = all.clone();
        bent[20..22].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(read_xdp_features(&bent), None, "{length}");
    }
}

/// A program that did this at the receiver while eight probe packets each way arrived with `tags`.
fn inspected(hook: ProgramHook, seen: Option<ProgramSeen>, tags: &[(u8, u32)]) -> Inspection {
    let program = ProgramRecord {
        station: "b".into(),
        device: "eth0".into(),
        hook,
        name: "watcher".into(),
        id: 7,
        tag: "0123456789abcdef".into(),
        could_be_native: hook == ProgramHook::XdpGeneric,
        seen,
    };
    let by_tags = tags.iter().copied().collect();
    let way = ProbeWay {
        leaves: vec!["eth0".into()],
        arrives: vec!["eth0".into(), "eth0.5".into()],
        is_held: false,
        is_certain: true,
    };
    let way = Some(way);
    let (stream, from, to) = ("ctl".into(), "a".into(), "b".into());
    let probes = vec![ProbeRecord { stream, from, to, sent: 8, tags: 0, by_tags, let_on: None, carries: true, way }];
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

    let fault = ProgramFault { kind: FaultKind::Redirect, packets: 8, code: 22, to: 99, by_map: false, device: None };
    let seen = ProgramSeen { runs: 8, run_ns: 900, lines: 0, faults: vec![fault] };
    let some = inspected(ProgramHook::XdpNative, Some(seen.clone()), &[(0, 4)]);
    assert_eq!(some.dead_end(), None);
    let says =
        "the kernel could not redirect 8 packets to device number 99, which no device of its station has (errno 22)";
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
