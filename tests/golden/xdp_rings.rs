// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rings of AF_XDP without a kernel: which entries each side may touch, around the end of the
//! ring and of its counters; and what tardy's XDP program writes before a packet.

use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tardy_bpf::hints::Layouts;
use tardy_bpf::program::{MARK, OBJECT, RX_TIME, RxTime, Stamps, last_lines};
use tardy_bpf::xsk::{Putting, Taking};

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
