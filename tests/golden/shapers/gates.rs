// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arithmetic of gates, against a look at every instant.

use proptest::prelude::*;
use tardy_model::gates::{Gates, Window, windows};
use tardy_model::shaper::{Entry, Schedule};
use tardy_model::time::Nanos;

fn schedule(entries: &[(u32, i64)], offset: i64) -> Schedule {
    let entries: Vec<Entry> =
        entries.iter().map(|(open, length)| Entry { open: *open, length: Nanos(*length) }).collect();
    let cycle = Nanos(entries.iter().map(|entry| entry.length.0).sum());
    Schedule { entries, cycle, offset: Nanos(offset) }
}

fn window(open_ns: i64, close_ns: i64) -> Window {
    Window { open_ns, close_ns }
}

#[test]
fn entries_that_follow_each_other_are_one_window() {
    let of = |entries: &[(u32, i64)], class| windows(&schedule(entries, 0).entries, class);
    assert_eq!(of(&[(1, 10), (3, 20), (2, 30)], 0), [window(0, 30)]);
    assert_eq!(of(&[(1, 10), (3, 20), (2, 30)], 1), [window(10, 60)]);
    // Over the cycle's end.
    assert_eq!(of(&[(1, 10), (2, 20), (1, 30)], 0), [window(30, 70)]);
    assert_eq!(of(&[(1, 10), (2, 20), (1, 30)], 2), []);
    assert_eq!(of(&[(1, 10), (1, 20)], 0), [window(0, 30)]);
}

#[test]
fn an_instant_belongs_to_the_window_it_lies_in_or_to_the_next() {
    // Open from 200 to 300 and from 700 to 800 of 1000, cycles beginning at 50.
    let gates = Gates { cycle_ns: 1_000, offset_ns: 50, windows: vec![window(200, 300), window(700, 800)] };
    assert_eq!(gates.belongs(250), Some(window(250, 350)));
    assert_eq!(gates.belongs(349), Some(window(250, 350)));
    assert_eq!(gates.belongs(350), Some(window(750, 850)));
    assert_eq!(gates.belongs(900), Some(window(1_250, 1_350)));
    assert_eq!(gates.nearest(240).map(|window| window.outside_ns(240)), Some(-10));
    assert_eq!(
        gates.nearest(352).map(|window| window.outside_ns(352)),
        Some(3),
        "the closing instant is the first outside"
    );
    assert_eq!((gates.phase(1_050), gates.cycle_at(1_049)), (0, 50));
    assert_eq!(gates.next_open(340, 5), Some(340));
    assert_eq!(gates.next_open(340, 11), Some(750), "what no longer fits waits for the next window");
    assert_eq!(gates.next_open(340, 101), None);
}

#[test]
fn phases_are_those_at_which_every_packet_meets_a_window() {
    let gates = Gates { cycle_ns: 1_000, offset_ns: 0, windows: vec![window(200, 300), window(700, 800)] };
    assert_eq!(
        (gates.step(500), gates.phases(500, 0), gates.phases(500, 20)),
        (500, Some((200, 100)), Some((200, 80)))
    );
    assert_eq!(gates.phases(500, 100), None);
    assert_eq!(gates.phases(250, 0), None, "half of the packets would find the gate closed");
    assert_eq!(gates.phases(3_000, 0), Some((200, 100)), "a slow stream needs one window only");
    assert_eq!(gates.phases(300, 0), None);
    let open = Gates { cycle_ns: 1_000, offset_ns: 0, windows: vec![window(0, 1_000)] };
    assert!(open.always_open());
    assert_eq!(open.phases(300, 50), Some((0, 100)));
}

proptest! {
    #[test]
    fn whatever_the_schedule_each_answer_is_that_of_a_look_at_every_instant(
        entries in prop::collection::vec((0u32..8, 1i64..40), 1..8),
        offset in 0i64..200,
        class in 0u8..3,
        at in -500i64..500,
        every in 1i64..120,
        needs in 0i64..6,
    ) {
        let schedule = schedule(&entries, offset);
        let gates = Gates::of(&schedule, class);
        let cycle = schedule.cycle.0;
        let open = |at: i64| {
            let mut phase = (at - offset).rem_euclid(cycle);
            for (mask, length) in &entries {
                if phase < *length {
                    return mask >> class & 1 == 1;
                }
                phase -= length;
            }
            unreachable!("entries fill the cycle")
        };
        let any = (0..cycle).any(open);
        prop_assert_eq!(gates.belongs(at).is_some(), any);
        prop_assert_eq!(gates.always_open(), (0..cycle).all(open));
        if any {
            let near = gates.nearest(at).expect("a window");
            prop_assert_eq!(near.outside_ns(at) == 0, open(at));
            let farther = (0..=cycle).find(|n| open(at - n) || open(at + n)).expect("one is near");
            prop_assert_eq!(near.outside_ns(at).abs(), farther);
            if let Some(next) = gates.next_open(at, needs) {
                let fits = |from: i64| gates.always_open() || (from..from + needs.max(1)).all(open);
                prop_assert!(next >= at && fits(next));
                prop_assert!((at..next).all(|from| !fits(from)));
            }
        }
        if let Some((from, length)) = gates.phases(every, needs) {
            for phase in [from, from + length - 1] {
                for n in 0..cycle {
                    let at = offset + phase + n * every;
                    prop_assert!(open(at), "phase {} of {}: packet {}", phase, every, n);
                }
            }
        } else {
            let meets = |phase: i64| (0..cycle).all(|n| (0..=needs).all(|k| open(offset + phase + n * every + k)));
            prop_assert!(!(0..gates.step(every)).any(meets));
        }
    }
}
