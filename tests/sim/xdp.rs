// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an XDP program wrote before packets becomes a point of their samples, if it is theirs; and
//! a receiver wakes by the schedule that it learned from them.

use crate::engine::{all, spans, stream};
use crate::ports::sender_order;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use tardy_bpf::probes::{has_mark, lacks_sum};
use tardy_bpf::program::device_columns;
use tardy_engine::halves::{Halves, join};
use tardy_engine::order::{Checksum, SendOrder, SpecialFrame};
use tardy_engine::port::{XdpStamp, sim};
use tardy_engine::triggered::{Bulks, Next};
use tardy_model::placement::ThreadRecord;
use tardy_model::point::{Point, Source};
use tardy_model::port::Sim;
use tardy_model::sample::{Flags, MaybeNanos};
use tardy_model::shaper::Shaper;
use tardy_model::stream::Stream;
use tardy_model::stream_id::StreamId;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::xdp::{Core, CoreRecord, DeviceHint, SpecialKind, Triggered, TriggeredRecord, XdpClock, XdpRecord};
use tardy_tests::xdp_record;

/// From the XDP program to the end of the receive call.
const DELAY_NS: i64 = 700;

#[test]
fn a_stamp_that_is_later_than_its_packet_was_another_ones() {
    let mut of = stream(Sim { duplicate: 0.01, ..Sim::default() });
    of.stamps.retain(|point| *point != Point::RxKernel);
    of.stamps.push(Point::RxXdp);
    let mut trial = sim::trial(&of, StreamId::FIRST, 7, Nanos(123), &Shaper::None);
    let arrivals = &trial.halves.arrivals;
    assert!(arrivals.len() > 1_000, "some came twice");
    let stamps = arrivals.iter().map(|arrival| {
        let ns = match arrival.seq {
            // A frame that was used again showed the stamp that it had before, or a later one.
            10..20 => arrival.receive_ns + 1,
            30..33 => return XdpStamp::NONE,
            _ => arrival.receive_ns - DELAY_NS,
        };
        XdpStamp { time_ns: MaybeNanos::some(ns), cpu: arrival.seq % 2, queue: 3 }
    });
    trial.halves.xdp_stamps = stamps.collect();
    trial.halves.xdp = Some(xdp_record());
    let (batch, record) = join(&of, trial.base, &trial.halves);
    let delays = spans(&batch, "rx_xdp..receive");
    let absent = |seq: usize| (10..20).contains(&seq) || (30..33).contains(&seq);
    assert!((0..1_000).all(|seq| delays[seq] == (!absent(seq)).then_some(DELAY_NS)), "{delays:?}");
    let seen = record.xdp.expect("its port").seen;
    assert_eq!((seen.implausible, seen.unstamped), (10, 3));
    // Ten and three of them are missing, as many with even numbers as with odd ones but for one.
    assert_eq!(seen.by_cpu, BTreeMap::from([(0, 493), (1, 494)]), "second arrivals do not count");
    assert_eq!(seen.by_queue, BTreeMap::from([(3, 987)]));
    assert_eq!(record.sources[&Point::RxXdp], Source::Sim);
}

#[test]
fn a_stamp_that_its_clocks_bound_explains_was_thrown_away_as_another_ones() {
    let mut of = stream(Sim::default());
    of.stamps.retain(|point| *point != Point::RxKernel);
    of.stamps.push(Point::RxXdp);
    let mut trial = sim::trial(&of, StreamId::FIRST, 7, Nanos(123), &Shaper::None);
    let later = |seq: u32| if seq.is_multiple_of(2) { 50 } else { 51 };
    let stamp = |ns| XdpStamp { time_ns: MaybeNanos::some(ns), cpu: 0, queue: 0 };
    let arrivals = &trial.halves.arrivals;
    trial.halves.xdp_stamps = arrivals.iter().map(|arrival| stamp(arrival.receive_ns + later(arrival.seq))).collect();
    trial.halves.xdp = Some(XdpRecord { clock: XdpClock::Monotonic, clock_bound_ns: 50, ..xdp_record() });
    let (batch, record) = join(&of, trial.base, &trial.halves);
    let delays = spans(&batch, "rx_xdp..receive");
    assert!((0..1_000).all(|seq| delays[seq] == (seq % 2 == 0).then_some(-50)), "{delays:?}");
    assert_eq!(record.xdp.expect("its port").seen.implausible, 500);
}

#[test]
fn each_packets_hint_says_whether_the_application_was_on_the_programs_cpu() {
    let mut of = stream(Sim::default());
    of.stamps.push(Point::RxXdp);
    of.rx.core = Some(Core::Same);
    let mut trial = sim::trial(&of, StreamId::FIRST, 7, Nanos(123), &Shaper::None);
    // The program ran on CPU 1 but for 30 packets, and had no time to write before 5.
    let stamps = trial.halves.arrivals.iter().map(|arrival| match arrival.seq {
        100..105 => XdpStamp::NONE,
        seq => {
            let time_ns = MaybeNanos::some(arrival.receive_ns - DELAY_NS);
            XdpStamp { time_ns, cpu: u32::from(!(200..230).contains(&seq)), queue: 0 }
        }
    });
    trial.halves.xdp_stamps = stamps.collect();
    trial.halves.xdp = Some(xdp_record());
    let thread = &mut trial.halves.rx_thread;
    (thread.affinity, thread.cpus_seen, thread.migrations) = (vec![1], vec![1], Some(0));
    let core = |halves: &Halves| join(&of, trial.base, halves).1.xdp.expect("its port").core;
    let found = core(&trial.halves);
    let asked = Some(Core::Same);
    assert_eq!(found, CoreRecord { asked, cpu: Some(1), same: 965, remote: 30, unknown: 0 });
    assert_eq!((found.elsewhere(), found.packets()), (30, 995));
    assert_eq!(CoreRecord { asked: Some(Core::Remote), ..found.clone() }.elsewhere(), 965);
    assert_eq!(CoreRecord { asked: None, ..found }.elsewhere(), 0);
    // A thread that was not on one CPU proves nothing.
    let unknown = CoreRecord { asked, cpu: None, same: 0, remote: 0, unknown: 995 };
    assert_eq!(unknown.elsewhere(), 995);
    let lost: [fn(&mut ThreadRecord); 3] =
        [|thread| thread.affinity.push(0), |thread| thread.migrations = Some(1), |thread| thread.cpus_seen.push(0)];
    for lose in lost {
        let mut halves = trial.halves.clone();
        lose(&mut halves.rx_thread);
        assert_eq!(core(&halves), unknown);
    }
}

#[test]
fn a_kernel_without_room_for_hints_gave_counts_of_0_and_no_reason() {
    let mut of = stream(Sim::default());
    of.stamps.push(Point::RxXdp);
    of.rx.hints = DeviceHint::ALL.to_vec();
    let columns = device_columns().expect("columns");
    let record = |layout: &str, own: Option<&str>| {
        let mut trial = sim::trial(&of, StreamId::FIRST, 7, Nanos(123), &Shaper::None);
        let id = columns.layouts().by_name(layout).next().expect("a struct").id;
        let mut area = vec![0; columns.area()];
        let at = area.len() - 4;
        area[at..].copy_from_slice(&id.to_le_bytes());
        let arrivals = &trial.halves.arrivals;
        let stamp = |ns| XdpStamp { time_ns: MaybeNanos::some(ns - DELAY_NS), cpu: 1, queue: 0 };
        trial.halves.areas = arrivals.iter().flat_map(|_| area.clone()).collect();
        trial.halves.xdp_stamps = arrivals.iter().map(|arrival| stamp(arrival.receive_ns)).collect();
        trial.halves.xdp = Some(XdpRecord { without_hints: own.map(str::to_owned), ..xdp_record() });
        join(&of, trial.base, &trial.halves).1.xdp.expect("its port")
    };
    let short = record("rx_time", None);
    assert!(short.without_hints.is_some_and(|why| why.contains("older kernels give 32 bytes")));
    assert!(short.device_hints.iter().all(|count| (count.given, count.absent, count.not_offered) == (0, 0, 0)));
    assert_eq!(record("rx_time", Some("refused")).without_hints.as_deref(), Some("refused"));
    let whole = record("rx_hints", None);
    assert_eq!(whole.without_hints, None);
    assert!(whole.device_hints.iter().all(|count| count.not_offered == 1_000), "{:?}", whole.device_hints);
}

#[test]
fn a_packet_is_early_by_when_the_xdp_program_saw_it() {
    let early = |by_xdp: bool| -> usize {
        let mut of: Stream = stream(Sim::default());
        of.stamps.retain(|point| *point != Point::RxKernel);
        of.stamps.push(Point::RxXdp);
        let mut trial = sim::trial(&of, StreamId::FIRST, 7, Nanos(123), &Shaper::None);
        // Before the schedule's instant, by a receiver that came to it later.
        let stamps = trial.halves.arrivals.iter().map(|arrival| XdpStamp {
            time_ns: MaybeNanos::some(arrival.receive_ns - 400_000),
            cpu: 0,
            queue: 0,
        });
        trial.halves.xdp_stamps = if by_xdp { stamps.collect() } else { Vec::new() };
        for arrival in &mut trial.halves.arrivals {
            arrival.rx_kernel = MaybeNanos::NONE;
        }
        let (batch, _) = join(&of, trial.base, &trial.halves);
        if !by_xdp {
            assert!(spans(&batch, "rx_xdp..receive").iter().all(Option::is_none), "a column, and nothing in it");
            all(&batch, "wakeup..send", 0);
        }
        batch.flags.iter().filter(|flags| flags.has(Flags::EARLY)).count()
    };
    assert_eq!((early(true), early(false)), (1_000, 0));
}

const CYCLE_NS: i64 = 500_000;
const OF: Triggered = Triggered { sync: 64, bulk: 8 };

/// A receiver by the schedule on a made-up path, in the time of a clock that may be set.
struct Path {
    /// When each packet arrives, in the order of arrival; those that are lost are not in it.
    arrivals: VecDeque<(i64, u32)>,
    count: u32,
    /// A wake-up is late by up to this much, and this one by 20 ms.
    wake_ns: i64,
    late_wake: usize,
    /// From this instant on the clock shows so much more.
    step: (i64, i64),
}

#[derive(Debug, PartialEq)]
struct Outcome {
    record: TriggeredRecord,
    /// Packets that were taken.
    taken: usize,
    /// The longest time that a packet waited to be taken, ns.
    waited_ns: i64,
}

impl Path {
    /// Packets of this many cycles, each late by up to `jitter_ns`, without those that are lost.
    fn new(count: u32, jitter_ns: i64, lost: impl Fn(u32) -> bool) -> Path {
        let mut random = Pcg64Mcg::seed_from_u64(17);
        let mut arrive = |seq: u32| (i64::from(seq) * CYCLE_NS + random.random_range(0..=jitter_ns), seq);
        let mut arrivals: Vec<_> = (0..count).map(&mut arrive).filter(|(_, seq)| !lost(*seq)).collect();
        arrivals.sort_unstable();
        Path { arrivals: arrivals.into(), count, wake_ns: 60_000, late_wake: usize::MAX, step: (i64::MAX, 0) }
    }

    fn clock(&self, at_ns: i64) -> Instant<Tai> {
        let (from, step) = self.step;
        Instant::from_ns(1_767_225_637_000_000_000 + at_ns + if at_ns >= from { step } else { 0 })
    }

    fn run(mut self) -> Outcome {
        let mut bulks = Bulks::new(OF, Nanos(CYCLE_NS), self.count);
        let (mut random, mut now_ns) = (Pcg64Mcg::seed_from_u64(23), 0);
        let (mut taken, mut waited_ns, mut sleeps) = (0, 0, 0);
        while let Some((next_ns, _)) = self.arrivals.front().copied() {
            let next = bulks.next(self.clock(now_ns));
            match next {
                Next::Poll => now_ns = now_ns.max(next_ns),
                Next::Sleep(left) => {
                    assert!(left.0 > 0 && left.0 <= 9 * CYCLE_NS, "it is bounded: {left:?}");
                    now_ns += left.0 + random.random_range(0..=self.wake_ns);
                    now_ns += if sleeps == self.late_wake { 20_000_000 } else { 0 };
                    sleeps += 1;
                }
                Next::Fetch => {}
            }
            let here = self.arrivals.iter().take_while(|(at_ns, _)| *at_ns <= now_ns).count().min(64);
            for (at_ns, seq) in self.arrivals.drain(..here).collect::<Vec<_>>() {
                waited_ns = waited_ns.max(now_ns - at_ns);
                if OF.marks(seq) {
                    bulks.mark(seq, self.clock(at_ns));
                }
            }
            taken += here;
            if next == Next::Poll { bulks.polled(here) } else { bulks.fetched(here, here == 64) }
        }
        Outcome { record: bulks.record(), taken, waited_ns }
    }
}

#[test]
fn a_receiver_by_the_schedule_wakes_once_for_each_bulk() {
    let of = Path::new(8_000, 50_000, |_| false).run();
    let TriggeredRecord { wakeups, fetched, polls, polled, empty, lost, marks, odd_marks, margin_ns, .. } = of.record;
    assert_eq!((of.taken, empty, lost, odd_marks), (8_000, 0, 0, 0), "{of:?}");
    assert_eq!(marks, 8 + 8_000 / 64 - 1, "the first eight and each 64th, of which number 0 is both");
    // The first packets make the schedule known; after that only bulks wake it.
    assert!(polls <= 6 && fetched + polled >= 7_999 && wakeups.abs_diff(8_000 / 8) <= 3, "{of:?}");
    // Twelve thousand and a half at the median, four times, and twenty thousand more.
    assert!((40_000..100_000).contains(&margin_ns), "{of:?}");
    assert!(of.waited_ns < 8 * CYCLE_NS + margin_ns + 60_000 + 50_000, "{of:?}");
    assert_eq!(of, Path::new(8_000, 50_000, |_| false).run(), "the same again");
}

#[test]
fn lost_frames_and_a_lost_bulk_leave_the_schedule_as_it_was() {
    let no_marks = Path::new(8_000, 50_000, |seq| OF.marks(seq) && (640..1_280).contains(&seq)).run();
    assert_eq!((no_marks.taken, no_marks.record.lost, no_marks.record.empty), (8_000 - 10, 0, 0), "{no_marks:?}");
    let no_bulk = Path::new(8_000, 50_000, |seq| (2_001..2_017).contains(&seq)).run();
    assert_eq!((no_bulk.taken, no_bulk.record.lost), (8_000 - 16, 0), "{no_bulk:?}");
    assert!((1..=2).contains(&no_bulk.record.empty), "{no_bulk:?}");
    // Without the first frames it waits for each packet until it has seen four others.
    let no_start = Path::new(8_000, 50_000, |seq| seq < 8).run();
    assert_eq!((no_start.taken, no_start.record.lost), (8_000 - 8, 0), "{no_start:?}");
    assert!(no_start.record.wakeups.abs_diff((8_000 - 256) / 8) <= 3, "{no_start:?}");
}

#[test]
fn a_silent_path_is_waited_for_by_poll_until_a_frame_brings_the_schedule_back() {
    let of = Path::new(8_000, 50_000, |seq| (2_001..2_101).contains(&seq)).run();
    assert_eq!((of.taken, of.record.lost, of.record.empty), (7_900, 1, 3), "{of:?}");
    // From 2 101 to 2 112, the next frame, each packet is waited for.
    assert!((10..=20).contains(&of.record.polls), "{of:?}");
    let no_more_marks = Path::new(8_000, 50_000, |seq| OF.marks(seq) && seq >= 64).run();
    assert_eq!(no_more_marks.record.lost, 1, "{no_more_marks:?}");
    assert_eq!(no_more_marks.taken, 8_000 - 124, "{no_more_marks:?}");
    let by_schedule = no_more_marks.record.fetched;
    assert!((900..=1_100).contains(&by_schedule), "sixteen times 64 packets: {no_more_marks:?}");
}

#[test]
fn a_clock_that_is_set_costs_wake_ups_and_no_packet() {
    // By less than half a bulk, by more, forward and back, and by 37 seconds.
    for step_ns in [900_000, 3_000_000, -3_000_000, 37_000_000_000, -37_000_000_000] {
        let mut path = Path::new(8_000, 50_000, |_| false);
        path.step = (2_000 * CYCLE_NS + 1, step_ns);
        let of = path.run();
        assert_eq!(of.taken, 8_000, "{step_ns}: {of:?}");
        // Until two frames agree that it was set, and four make the schedule again.
        let is_odd = step_ns.abs() > 2_000_000;
        assert_eq!((of.record.lost > 0, of.record.odd_marks > 0), (is_odd, is_odd), "{step_ns}: {of:?}");
        assert!(of.record.polled <= 5 * 64, "{step_ns}: {of:?}");
        assert!(of.waited_ns < 12 * CYCLE_NS, "no long sleep: {step_ns}: {of:?}");
    }
}

#[test]
fn a_schedule_was_given_up_while_its_bulk_was_still_to_come() {
    // Each packet is a frame of synchronisation, and a bulk takes longer than sixteen of them.
    let (cycle_ns, count) = (5_000_000, 1_000);
    let mut bulks = Bulks::new(Triggered { sync: 1, bulk: 64 }, Nanos(cycle_ns), count);
    let at = |ns: i64| Instant::from_ns(1_767_225_637_000_000_000 + ns);
    let arrives = |seq: u32| at(i64::from(seq) * cycle_ns);
    (0..8).for_each(|seq| bulks.mark(seq, arrives(seq)));
    let (mut now_ns, mut seen) = (7 * cycle_ns + 1, 8);
    while seen < count {
        match bulks.next(at(now_ns)) {
            // No sleep of a receiver lasts longer without a look at its order.
            Next::Sleep(left) => now_ns += left.0.min(200_000_000),
            Next::Fetch => {
                let here = (now_ns / cycle_ns + 1).min(i64::from(count)) as u32;
                (seen..here).for_each(|seq| bulks.mark(seq, arrives(seq)));
                bulks.fetched((here - seen) as usize, here - seen >= 64);
                seen = here;
            }
            Next::Poll => panic!("the schedule is known: {:?} at {seen}", bulks.record()),
        }
    }
    let TriggeredRecord { lost, wakeups, .. } = bulks.record();
    assert_eq!((lost, wakeups), (0, 16), "{:?}", bulks.record());
}

#[test]
fn after_a_late_wake_up_all_that_has_come_is_taken() {
    let mut path = Path::new(8_000, 50_000, |_| false);
    path.late_wake = 100;
    let of = path.run();
    assert_eq!((of.taken, of.record.lost, of.record.empty), (8_000, 0, 0), "{of:?}");
    // Twenty milliseconds are forty packets more.
    assert!((47..=50).contains(&of.record.most), "{of:?}");
    assert!(of.record.wakeups.abs_diff(1_000 - 5) <= 3, "{of:?}");
    let stop = |mut bulks: Bulks| {
        (0..8).for_each(|seq| bulks.mark(seq, Instant::from_ns(i64::from(seq) * CYCLE_NS)));
        let now = Instant::from_ns(8 * CYCLE_NS);
        let before = bulks.next(now);
        bulks.stop();
        (before, bulks.next(now))
    };
    let (before, after) = stop(Bulks::new(OF, Nanos(CYCLE_NS), 8_000));
    assert!(matches!(before, Next::Sleep(_)) && after == Next::Poll, "{before:?}, {after:?}");
}

#[test]
fn a_packet_of_a_receiver_by_the_schedule_is_late_by_when_the_xdp_program_saw_it() {
    let late = |triggered: Option<TriggeredRecord>| {
        let mut of: Stream = stream(Sim::default());
        of.stamps.retain(|point| *point != Point::RxKernel);
        of.stamps.push(Point::RxXdp);
        let mut trial = sim::trial(&of, StreamId::FIRST, 7, Nanos(123), &Shaper::None);
        let stamps = trial.halves.arrivals.iter_mut().map(|arrival| {
            let time_ns = MaybeNanos::some(arrival.receive_ns);
            // It is fetched some cycles later; one packet in ten came late itself.
            arrival.receive_ns += 8 * of.cycle.0;
            arrival.rx_kernel = MaybeNanos::NONE;
            let time_ns = if arrival.seq % 10 == 0 { MaybeNanos::some(arrival.receive_ns) } else { time_ns };
            XdpStamp { time_ns, cpu: 0, queue: 0 }
        });
        trial.halves.xdp_stamps = stamps.collect();
        trial.halves.xdp = Some(XdpRecord { triggered, ..xdp_record() });
        let (batch, record) = join(&of, trial.base, &trial.halves);
        assert_eq!(record.is_triggered(), triggered.is_some());
        batch.flags.iter().filter(|flags| flags.has(Flags::LATE)).count()
    };
    assert_eq!((late(None), late(Some(TriggeredRecord::default()))), (1_000, 100));
}

#[test]
fn special_frames_are_known_apart() {
    let (here, there) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let over = [("192.0.2.1", [1, 0, 0x5e, 0x7f, 0x54, 0x44]), ("2001:db8::1", [0x33, 0x33, 0x54, 0x44, 0x59, 1])];
    for (ip, group) in over {
        let address: IpAddr = ip.parse().expect("an address");
        let send = SendOrder { macs: [there, here], local: address, peer: address, ..sender_order(1, 1_000) };
        let all = [false, true].map(|back| SpecialKind::ALL.map(|kind| send.special_probe(kind, back, false, 9_000)));
        let mut marks = vec![send.probe(false, false).1, send.probe(true, false).1];
        for (of_way, [from, other]) in all.iter().zip([[here, there], [there, here]]) {
            for (SpecialFrame { frame, mark, .. }, to) in of_way.iter().zip([group, [0xff; 6], other, other]) {
                assert_eq!((&frame[..6], &frame[6..12]), (&to[..], &from[..]), "{ip}");
                assert!(has_mark(frame, mark) && !marks.contains(mark), "{ip}");
                marks.push(*mark);
            }
        }
        // Who has 192.0.2.84, asks one that has no address.
        let [SpecialFrame { frame: multicast, .. }, SpecialFrame { frame: arp, .. }, long, unsummed] = &all[0];
        assert_eq!(arp[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        assert_eq!((&arp[22..28], &arp[28..42]), (&here[..], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 84][..]));
        // The sum over the whole head of an IPv4 packet is that of a sound one.
        if address.is_ipv4() {
            let words = multicast[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
            let sum: u32 = words.sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
            assert_eq!(multicast[30..34], [239, 255, 84, 68]);
        }
        // As long as it was asked for, with a sum that is right.
        assert_eq!((long.frame.len(), long.checksum), (14 + 9_000, Checksum::Written), "{ip}");
        assert!(!lacks_sum(&long.frame) && !lacks_sum(multicast), "{ip}");
        // Without its sum until somebody adds up all bytes from there on; then it is right.
        assert!(lacks_sum(&unsummed.frame), "{ip}");
        let Checksum::ByDevice { from, at } = unsummed.checksum else { panic!("{ip}: who writes it?") };
        let from = usize::from(from);
        assert_eq!((from, at), (14 + if address.is_ipv4() { 20 } else { 40 }, 6), "{ip}");
        let words = unsummed.frame[from..].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        let mut summed = unsummed.frame.clone();
        let place = from + usize::from(at);
        summed[place..place + 2].copy_from_slice(&sum.to_be_bytes());
        assert!(!lacks_sum(&summed), "{ip}");
    }
}
