// SPDX-License-Identifier: MIT OR Apache-2.0
//! AF_XDP without a kernel: which entries of a ring each side may touch, around its end and that
//! of its counters; what tardy's XDP program writes before a packet, and what goes before one that
//! is sent; what the kernel says that a driver can do; and which figures are made of the times that
//! a user's own program left before packets.

use crate::analyze::fixture::{Packet, batch, healthy_packets, lost, noise, record};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tardy_analyze::cell::CellAnalysis;
use tardy_bpf::hints::Layouts;
use tardy_bpf::program::{MARK, OBJECT, RX_TIME, RxTime, Stamps, last_lines};
use tardy_bpf::xsk::{FRAME, Latest, METADATA, Putting, Taking, completion, no_huge_pages, request, went_out};
use tardy_engine::port::xdp::send::{waiting, where_there_is_room};
use tardy_model::point::{Metric, Point};
use tardy_model::result::{MetricResult, TrialResult};
use tardy_model::sample::Batch;
use tardy_model::trial::TrialRecord;
use tardy_model::xdp::{HintColumn, HintTime, HintTimes, Hints, XdpClock, XdpRecord};
use tardy_store::{SamplesFile, write_samples};
use tardy_sys::nic::{XdpFeatures, read_xdp_features};
use tardy_tests::xdp_record;

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

/// Frames of tardy's own program are given back as they are. Whatever lies before a packet, only
/// what the program wrote with this packet is its stamp.
#[test]
fn a_frame_that_came_again_without_a_stamp_showed_its_old_one() {
    const FRAMES: usize = 4;
    let stamps = Stamps::own().expect("its own object");
    let layouts = Layouts::of_object(OBJECT).expect("its own object");
    let [rx_time, mark] = [RX_TIME, MARK].map(|name| layouts.by_name(name).next().expect("a struct").id);
    let (mut memory, mut latest) = (vec![0_u8; FRAMES * FRAME as usize], Latest::new(FRAMES));
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let (mut time_ns, mut stamped, mut old) = (0_u64, 0, 0);
    for _ in 0..10_000 {
        // Where the device puts the packet may differ from one to the next.
        let at = random.random_range(0..FRAMES) * FRAME as usize + [256, 276, 280][random.random_range(0..3)];
        time_ns += random.random_range(1..3);
        let writes = random.random_bool(0.7);
        let is_mark = random.random_bool(0.3);
        let area = at - stamps.area()..at;
        // No packet is shorter than an Ethernet header.
        memory[at..at + 60].fill(random.random());
        if writes {
            let of_time = [time_ns as u32, (time_ns >> 32) as u32, 1, 0];
            let words = if is_mark { [&of_time[..], &[7, mark]].concat() } else { [&of_time[..], &[rx_time]].concat() };
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            memory[at - bytes.len()..at].copy_from_slice(&bytes);
        }
        let there = stamps.read(&memory[area.clone()]);
        let new = there.filter(|stamp| latest.is_new(at, stamp.time_ns));
        assert_eq!(new.map(|stamp| stamp.time_ns), writes.then_some(time_ns), "{there:?} before {at}");
        stamped += usize::from(writes);
        old += usize::from(!writes && there.is_some());
        stamps.read(&memory[area]).into_iter().for_each(|stamp| latest.keep(at, stamp.time_ns));
    }
    assert!(stamped > 6_000 && old > 1_000, "{stamped} {old}");
    // A byte outside the memory is nobody's.
    assert!(!latest.is_new(FRAMES * FRAME as usize, u64::MAX));
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

#[test]
fn packets_over_several_queues_were_reordered() {
    use libc::{EAGAIN, ENOBUFS, ENXIO};
    // The number of packets for which each queue has room.
    let (mut queues, mut at) = ([2, 0, 3], 0);
    let mut send = |queues: &mut [i32]| {
        where_there_is_room(queues, &mut at, |room| {
            *room -= 1;
            if *room < 0 { Err(ENOBUFS) } else { Ok(*room) }
        })
    };
    let sent: Vec<_> = (0..6).map(|_| send(&mut queues)).collect();
    assert_eq!(sent, [Ok(1), Ok(0), Ok(2), Ok(1), Ok(0), Err(ENOBUFS)]);
    // It stays where it found room last, although the first queue has some again.
    queues = [9, 9, 9];
    let sent: Vec<_> = (0..3).map(|_| send(&mut queues)).collect();
    assert_eq!((sent, queues), (vec![Ok(8), Ok(7), Ok(6)], [9, 9, 6]));
    // A driver's queue that is full has no room either.
    let mut full = [EAGAIN, 0];
    let sent = where_there_is_room(&mut full, &mut 0, |errno| if *errno == 0 { Ok(()) } else { Err(*errno) });
    assert_eq!(sent, Ok(()));
    // Another error is the packet's, and no other queue is tried.
    let mut tried = 0;
    let refused = where_there_is_room(&mut queues, &mut 1, |_| {
        tried += 1;
        Err::<(), i32>(ENXIO)
    });
    assert_eq!((refused, tried), (Err(ENXIO), 1));
    assert_eq!(where_there_is_room(&mut [0; 0], &mut 0, |_| Ok(())), Err(ENXIO), "no queue");
}

#[test]
fn stamps_of_one_full_queue_counted_as_often_as_there_were_queues() {
    // Of each queue: how many stamps wait there, for how many it has room.
    let queues = [Some((4_000, 4_096)), Some((0, 4_096)), None];
    let of = |at| waiting(&queues, at, |of| *of);
    assert_eq!(of(0), Some((4_000 << 10, 4_096 << 10)), "a full queue is full, whatever the others have");
    assert_eq!(of(1), Some((0, 4_096 << 10)));
    assert_eq!((of(2), of(3)), (None, None), "it takes none, or there is none");
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
    let every =
        XdpFeatures { native: true, zero_copy: true, tx_timestamp: true, tx_checksum: true, tx_launch_time: true };
    assert_eq!(read_xdp_features(&all), Some(every));
    // veth, and a kernel before 6.8, which has no such attribute.
    let none = XdpFeatures::default();
    assert_eq!(
        read_xdp_features(&answer(&[index.clone(), xdp(0x77), xsk(0)])),
        Some(XdpFeatures { native: true, ..none })
    );
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
            read.is_none()
                || read == Some(XdpFeatures { native: true, zero_copy: true, ..none })
                || read == Some(every),
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

/// What CLOCK_MONOTONIC must be put forward by, and by how much that may be wrong.
const AHEAD_NS: i64 = 1_799_000_000_000_000_000;
const BOUND_NS: i64 = 50;

/// A member's name, in which of the two structs it is, and its value by the packet's number and
/// `receive`.
type Member<'a> = (&'a str, [bool; 2], &'a dyn Fn(usize, i64) -> i64);

/// Packets of a stream as the program left its structs before them: `even` before those of even
/// numbers, `odd` before the rest. Each member is given by its distance from `receive`.
fn with_hints(packets: &[Packet], members: &[Member<'_>]) -> (TrialRecord, Batch) {
    let names = ["even", "odd"];
    let mut rows = batch(0, packets);
    let receive = |row: usize| rows.offset(row, Point::Receive).map(|offset| rows.scheduled_ns[row] + offset);
    let column = |(name, in_struct, raw): &Member<'_>| {
        let value = |row: usize| receive(row).filter(|_| in_struct[row % 2]).map(|ns| raw(row, ns - AHEAD_NS));
        HintColumn { name: (*name).to_owned(), is_signed: false, values: (0..rows.len()).map(value).collect() }
    };
    let time = |(name, in_struct, _): &(&str, [bool; 2], _)| HintTime {
        column: (*name).to_owned(),
        structs: names.into_iter().zip(in_struct).filter(|(_, has)| **has).map(|(name, _)| name.to_owned()).collect(),
    };
    rows.hints = Some(Hints {
        structs: names.map(str::to_owned).to_vec(),
        of: (0..rows.len()).map(|row| receive(row).map(|_| (row % 2) as u8)).collect(),
        columns: members.iter().map(column).collect(),
    });
    let mut record = record(1, packets.len() as u32);
    let times = HintTimes {
        of: members.iter().map(time).collect(),
        clock: XdpClock::Monotonic,
        ahead_ns: AHEAD_NS,
        bound_ns: BOUND_NS,
        without: None,
    };
    let port = XdpRecord {
        queues: 1,
        umem_bytes: 1 << 24,
        huge_pages: true,
        clock: XdpClock::Unknown,
        times: Some(times),
        ..xdp_record()
    };
    record.streams.get_mut("ctl").expect("the stream").xdp = Some(port);
    (record, rows)
}

/// The trial's results, and the pooled figures of its cell.
fn judged(record: &TrialRecord, batches: impl IntoIterator<Item = Batch>) -> (TrialResult, [MetricResult; 4]) {
    let asked = BTreeMap::from([("ctl".to_owned(), vec![Metric::Span(Point::Scheduled, Point::Receive)])]);
    let mut cell = CellAnalysis::new("all", BTreeMap::new(), asked, Vec::new());
    let trial = cell.trial(record, batches.into_iter().map(|batch| ("ctl", batch))).result;
    let pooled = cell.finish().result.streams["ctl"].metrics.clone();
    let of = |metric: &str| pooled.get(metric).cloned().unwrap_or_default();
    (trial, ["first_ns..receive", "second_ns..receive", "wait_ns..receive", "odd.late_ns..receive"].map(of))
}

#[test]
fn every_time_that_a_users_own_program_leaves_has_figures_and_not_the_chosen_one_alone() {
    let count = 20_000;
    let mut packets = healthy_packets(1, count);
    packets[500] = lost(0);
    let delays = noise(2, count);
    let first = |row: usize, receive: i64| receive - delays[row];
    let second = |row: usize, receive: i64| receive - delays[row] / 2;
    // It is no time: a length of time, which the name does not show.
    let wait = |_: usize, _: i64| 300;
    // Another packet's, by one more than the clock's bound; by no more than that; and none.
    let late = |row: usize, receive: i64| match row {
        11 | 13 => receive + BOUND_NS + 1,
        15 => receive + BOUND_NS,
        17 => 0,
        _ => receive - 5,
    };
    let (record, rows) = with_hints(
        &packets,
        &[
            ("first_ns", [true, true], &first),
            ("second_ns", [true, false], &second),
            ("wait_ns", [true, false], &wait),
            ("odd.late_ns", [false, true], &late),
        ],
    );
    let (trial, [first, second, wait, late]) = judged(&record, [rows.clone()]);
    let expected = |all: &dyn Fn(usize) -> Option<i64>| {
        let mut values: Vec<i64> = (0..count).filter(|row| *row != 500).filter_map(all).collect();
        values.sort_unstable();
        // The lost packet is slower than any other.
        let rank = |q: f64| Some(values[(q * (values.len() + 1) as f64).ceil() as usize - 1]);
        (values.len() as u64, values.first().copied(), rank(0.5), rank(0.99))
    };
    let found = |of: &MetricResult| {
        let quantiles = &of.figures.quantiles;
        (of.count, of.figures.min_ns, quantiles.p50_ns, quantiles.p99_ns)
    };
    assert_eq!(found(&first), expected(&|row| Some(delays[row])));
    // A packet whose struct has no such member lacks nothing.
    assert_eq!(found(&second), expected(&|row| (row % 2 == 0).then_some(delays[row] / 2)));
    for sound in [&first, &second] {
        assert_eq!((sound.coverage, sound.not_of_packet, sound.negative), (1.0, 0, 0), "{sound:?}");
        assert_eq!((sound.figures.max_ns, &sound.infinite[..]), (None, &["max".to_owned()][..]), "one was lost");
        assert_eq!((sound.clock.as_str(), sound.source.as_str(), &sound.why), ("tai", "app", &None));
    }
    assert_eq!((late.count, late.not_of_packet, late.negative, late.figures.min_ns), (9_997, 3, 1, Some(-BOUND_NS)));
    assert_eq!(late.coverage, 0.9997);
    assert_eq!((wait.count, wait.not_of_packet, wait.coverage), (0, 9_999, 0.0), "{wait:?}");
    assert!(wait.why.as_ref().is_some_and(|why| why.contains("it is no time of its packet")), "{wait:?}");

    // A run folder says the same, over pages and batches.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("samples.parquet");
    write_samples(&path, &[("ctl", &rows)]).expect("written");
    let read = SamplesFile::open(&path).expect("samples").batches_with_hints("ctl").expect("the stream");
    let again: Vec<Batch> = read.collect::<Result<_, _>>().expect("sound");
    assert!(again.len() > 8 && again.iter().all(|batch| batch.hints.is_some()));
    assert_eq!(judged(&record, again), (trial.clone(), [first, second, wait, late]));
    // One that has them without hints has the metrics nevertheless, and says why they are empty.
    let read = SamplesFile::open(&path).expect("samples").batches("ctl").expect("the stream");
    let (_, [empty, ..]) = judged(&record, read.map(|batch| batch.expect("sound")));
    assert_eq!((empty.count, empty.coverage), (0, 0.0));
    assert_eq!(empty.why.as_deref(), Some("no received packet has a value of the member"));
}

#[test]
fn times_of_a_clock_that_nobody_knows_are_metrics_without_figures() {
    let packets = healthy_packets(1, 100);
    let time = |_: usize, receive: i64| receive - 5;
    let (mut record, rows) = with_hints(&packets, &[("first_ns", [true, true], &time)]);
    let times = |record: &mut TrialRecord| record.streams.get_mut("ctl")?.xdp.as_mut()?.times.take();
    let known = times(&mut record).expect("times");
    let put = |mut record: TrialRecord, times: HintTimes| {
        record.streams.get_mut("ctl").expect("it").xdp.as_mut().expect("its port").times = Some(times);
        record
    };
    let why = "the program takes times of the device";
    let unknown = put(record.clone(), HintTimes { without: Some(why.to_owned()), ..known.clone() });
    let (trial, [first, ..]) = judged(&unknown, [rows.clone()]);
    assert_eq!((first.count, first.why.as_deref()), (0, Some(why)));
    assert_eq!(trial.streams["ctl"].metrics.len(), 2, "{:?}", trial.streams["ctl"].metrics.keys());
    // A record from outside may name anything: what a table has already, or cannot show.
    for name in ["scheduled", "Receive", "first ns", "a|b", "a\u{1b}[2J"] {
        let time = HintTime { column: name.to_owned(), structs: vec!["even".to_owned()] };
        let odd = put(record.clone(), HintTimes { of: vec![time], ..known.clone() });
        let (trial, _) = judged(&odd, [rows.clone()]);
        assert_eq!(trial.streams["ctl"].metrics.len(), 1, "{name}");
    }
}

#[test]
fn the_note_about_huge_pages_did_not_say_how_many_to_reserve() {
    let refused = std::io::Error::from_raw_os_error(libc::ENOMEM);
    assert_eq!(
        no_huge_pages(16 << 20, &refused),
        "the kernel refused 16 MiB of them (Cannot allocate memory (os error 12)), and tardy took ordinary pages, which \
         are slower; to have huge ones, raise what `sysctl vm.nr_hugepages` prints by 8 (`sysctl -w`), then run again"
    );
}
