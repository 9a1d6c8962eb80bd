// SPDX-License-Identifier: MIT OR Apache-2.0
//! The test frame's bytes, the agent's messages, metrics' names, the choice of CPUs: small pure
//! parts, byte by byte.

use proptest::prelude::*;
use std::collections::BTreeMap;
use tardy_engine::message::{self, ActivityId, FromAgent, MessageError, PROTOCOL, ToAgent};
use tardy_host::cpus::{Cpus, choose, parse_list};
use tardy_host::state;
use tardy_model::frame::{Foreign, Frame, HEAD, Heads, LEAD, MARK, PAUSE, PROBE, PacketKind};
use tardy_model::point::{Metric, Point};
use tardy_model::stream::CpuChoice;
use tardy_model::time::{ClockReading, Conversion, Instant};
use tardy_model::xdp::Triggered;
use tardy_sys::proc::{Schedstat, Stat, Status, migrations};

const FRAME: Frame =
    Frame { kind: PacketKind::Test, stream: 3, size: 26, nonce: 0x0102_0304_0506_0708, seq: 0x0a0b_0c0d };

#[test]
fn the_frame_is_these_bytes() {
    let mut payload = [0xee; 26];
    FRAME.write(&mut payload);
    assert_eq!(payload[..20], [0x74, 0x64, 0x79, 2, 1, 3, 0, 26, 1, 2, 3, 4, 5, 6, 7, 8, 0x0a, 0x0b, 0x0c, 0x0d]);
    // Reckoned by another program.
    assert_eq!(payload[20..24], [0x19, 0x5d, 0x61, 0xcc], "the check");
    assert_eq!(payload[24..], [0xee; 2], "what is behind the head is not touched");
    assert_eq!(Frame::read(&payload), Ok(FRAME));
}

#[test]
fn what_is_not_a_frame_is_told_apart() {
    let mut payload = [0; 26];
    FRAME.write(&mut payload);
    assert_eq!(Frame::read(&payload[..HEAD - 1]), Err(Foreign::Short));
    assert_eq!(Frame::read(&payload[..25]), Err(Foreign::Truncated));
    for bit in 0..HEAD * 8 {
        let mut damaged = payload;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Frame::read(&damaged).is_err(), "bit {bit} damaged");
    }
}

#[test]
fn a_synchronisation_frame_is_one_only_to_who_expects_it() {
    let mut payload = [0; 26];
    let marks = Heads::marks(FRAME.stream, FRAME.size, FRAME.nonce);
    marks.write(FRAME.seq, &mut payload);
    assert_eq!(payload[4], MARK | 1);
    assert_eq!(marks.number(&payload), Some(FRAME.seq));
    assert_eq!((heads_of(FRAME).number(&payload), Frame::read(&payload)), (None, Err(Foreign::Damaged)));
    // Its check knows of the mark: the bit alone makes no frame.
    FRAME.write(&mut payload);
    assert_eq!(marks.number(&payload), None);
    payload[4] |= MARK;
    assert_eq!(marks.number(&payload), None);
}

#[test]
fn the_first_packets_and_each_nth_carry_the_schedule() {
    let marked = |sync| (0..200).filter(|seq| Triggered { sync, bulk: 8 }.marks(*seq)).collect::<Vec<u32>>();
    assert_eq!(marked(64), [0, 1, 2, 3, 4, 5, 6, 7, 64, 128, 192]);
    assert_eq!((marked(1).len(), marked(0).len()), (200, 0));
    // Numbers that no packet of a trial has.
    assert!([LEAD, PROBE, PAUSE].iter().all(|seq| !Triggered { sync: 1, bulk: 8 }.marks(*seq)));
}

fn any_frame() -> impl Strategy<Value = (Frame, Vec<u8>)> {
    let kind =
        prop::sample::select(vec![PacketKind::Test, PacketKind::WarmUp, PacketKind::Reply, PacketKind::WarmUpReply]);
    (kind, any::<u8>(), any::<u64>(), any::<u32>(), prop::collection::vec(any::<u8>(), HEAD..200)).prop_map(
        |(kind, stream, nonce, seq, mut payload)| {
            let frame = Frame { kind, stream, size: payload.len() as u16, nonce, seq };
            frame.write(&mut payload);
            (frame, payload)
        },
    )
}

fn heads_of(frame: Frame) -> Heads {
    Heads::new(frame.kind, frame.stream, frame.size, frame.nonce)
}

proptest! {
    #[test]
    fn heads_write_and_know_the_frames_of_their_packets((frame, payload) in any_frame(), bit in 0..HEAD * 8) {
        let heads = heads_of(frame);
        let mut written = payload.clone();
        written[..HEAD].fill(0xee);
        heads.write(frame.seq, &mut written);
        prop_assert_eq!(&written, &payload);
        prop_assert_eq!(heads.number(&payload), Some(frame.seq));
        prop_assert_eq!(heads.number(&payload[..payload.len() - 1]), None, "cut");
        prop_assert_eq!(heads.number(&[&payload[..], &[0]].concat()), None, "longer than it says");
        let mut damaged = payload.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(heads.number(&damaged), None, "bit {} damaged", bit);
    }

    #[test]
    fn heads_do_not_know_the_frames_of_others((frame, payload) in any_frame(), other in 1..u64::MAX) {
        let kind = if frame.kind == PacketKind::Test { PacketKind::Reply } else { PacketKind::Test };
        let others = [
            Frame { kind, ..frame },
            Frame { stream: frame.stream ^ (other as u8).max(1), ..frame },
            Frame { size: frame.size ^ (other as u16).max(1), ..frame },
            Frame { nonce: frame.nonce ^ other, ..frame },
        ];
        for other in others {
            prop_assert_eq!(heads_of(other).number(&payload), None, "{:?}", other);
        }
    }

    #[test]
    fn arbitrary_payloads_never_become_a_frame_by_chance(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Frame::read(&bytes).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_no_message_and_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
        framed.extend(&bytes);
        let _ = message::receive::<FromAgent>(&mut framed.as_slice());
        let _ = message::receive::<ToAgent>(&mut bytes.as_slice());
        prop_assert!(message::hear(&mut framed.as_slice(), "x").is_err());
    }
}

#[test]
fn messages_cross_and_a_cut_one_is_told() {
    let order = ToAgent::Finish { activity: ActivityId(4), expected: 70_000, linger: tardy_model::time::Nanos(5) };
    let mut bytes = Vec::new();
    message::send(&mut bytes, &order).expect("written");
    assert_eq!(message::receive::<ToAgent>(&mut bytes.as_slice()).expect("read"), order);
    for cut in 0..bytes.len() {
        let read = message::receive::<ToAgent>(&mut &bytes[..cut]);
        assert!(matches!(read, Err(MessageError::Closed)), "cut at {cut}: {read:?}");
    }
    let long = u32::MAX.to_le_bytes();
    assert!(matches!(message::receive::<ToAgent>(&mut long.as_slice()), Err(MessageError::Garbled(_))));
}

#[test]
fn another_protocol_is_refused_with_both_versions() {
    let mut bytes = Vec::new();
    message::greet(&mut bytes, "0.9.9").expect("written");
    assert_eq!(message::hear(&mut bytes.as_slice(), "0.1.0").expect("the same protocol"), "0.9.9");
    bytes[4 + 5] = PROTOCOL as u8 + 1;
    let error = message::hear(&mut bytes.as_slice(), "0.1.0").expect_err("another protocol").to_string();
    assert!(error.contains("0.9.9") && error.contains("0.1.0"), "{error}");
}

#[test]
fn metrics_are_named_by_their_two_points_in_order() {
    assert_eq!("scheduled..rx_kernel".parse(), Ok(Metric::Span(Point::Scheduled, Point::RxKernel)));
    assert_eq!(Metric::Span(Point::TxKernel, Point::TxHw).to_string(), "tx_kernel..tx_hw");
    for wrong in ["receive..send", "send..send", "latency", "send..", "a..b"] {
        assert!(wrong.parse::<Metric>().is_err(), "{wrong}");
    }
    assert!(!Metric::Span(Point::Scheduled, Point::RxKernel).is_causal());
    assert!(Metric::Span(Point::Wakeup, Point::Send).is_causal());
}

#[test]
fn cpus_are_chosen_as_asked_or_it_is_told() {
    let pick = |tx, rx, usable: &[u32]| choose(tx, rx, Cpus { usable, apart: &[7] }, &mut BTreeMap::new());
    use CpuChoice::{Any, Auto, Different, Number, Same};
    let both = |tx, rx, usable: &[u32]| pick(tx, rx, usable).map(|chosen| (chosen.tx, chosen.rx));
    assert_eq!(both(Auto, Different, &[0, 1, 2]), Ok((Some(2), Some(1))));
    assert_eq!(both(Auto, Same, &[0, 1]), Ok((Some(1), Some(1))));
    assert_eq!(both(Same, Number(0), &[0, 1]), Ok((Some(0), Some(0))));
    assert_eq!(both(Different, Number(1), &[0, 1]), Ok((Some(0), Some(1))));
    assert_eq!(both(Any, Different, &[0, 1]), Ok((None, Some(1))));
    let one = pick(Auto, Different, &[5]).expect("one CPU serves both");
    assert_eq!((one.tx, one.rx, one.short.len()), (Some(5), Some(5), 1), "and it is reported");
    assert_eq!(
        pick(Number(9), Any, &[0, 1]).map_err(|e| e.to_string()).err().as_deref(),
        Some("CPU 9 was asked for and this process may use only 0, 1, 7: choose one of those, or `auto`",)
    );
    // What the kernel keeps apart is taken by its number alone.
    assert_eq!(both(Number(7), Different, &[0, 1]), Ok((Some(7), Some(1))));
    assert_eq!(both(Different, Number(7), &[0]), Ok((Some(0), Some(7))));
    let mut taken = BTreeMap::new();
    let four = Cpus { usable: &[0, 1, 2, 3], apart: &[] };
    choose(Auto, Different, four, &mut taken).expect("first stream");
    let second = choose(Auto, Different, four, &mut taken).expect("second stream");
    assert_eq!((second.tx, second.rx), (Some(1), Some(0)), "a second stream takes free CPUs");
    assert_eq!(parse_list("0-3,7\n"), [0, 1, 2, 3, 7]);
    assert!(parse_list("").is_empty());
}

#[test]
fn proc_files_are_read_by_field() {
    let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 40 5 6 7 8 0 0\ncpu12 10 0 0 90 0 0 0 1 0 0\nintr 5\n";
    let cpus = state::cpus(stat);
    assert_eq!(cpus.keys().copied().collect::<Vec<_>>(), [0, 12]);
    assert_eq!((cpus[&0].busy_ns, cpus[&0].idle_ns, cpus[&0].steal_ns), (190_000_000, 450_000_000, 80_000_000));
    assert_eq!((cpus[&0].irq_ns, cpus[&0].softirq_ns), (60_000_000, 70_000_000), "parts of the busy time");
    let stat = format!("42 (a) b (c) S {} 3 40 1 0", (0..35).map(|n| n.to_string()).collect::<Vec<_>>().join(" "));
    let read = Stat::parse(&stat).expect("a line of `stat`");
    assert_eq!((read.name.as_str(), read.started_ticks, read.cpu), ("a) b (c", 18, 3), "a name may hold both");
    assert_eq!((read.state, read.ran_ticks, read.policy, read.is_realtime()), ('S', [10, 11], 1, true));
    for end in 0..stat.len() - 2 {
        assert_eq!(Stat::parse(&stat[..end]), None, "a line that ends early");
    }
    assert_eq!(Schedstat::parse("12 34 5\n"), Some(Schedstat { run_ns: 12, wait_ns: 34 }));
    assert_eq!(Schedstat::parse("12"), None, "a line that ends early");
    assert_eq!(migrations("se.nr_migrations                             :                   12\n"), Some(12));
    assert_eq!(migrations("nr_switches : 12\n"), None, "a kernel that is not built to say it");
}

#[test]
fn a_line_of_status_is_known_by_its_whole_name() {
    let text = "Name:\tUid: 7\nUid:\t1000\t0\t0\t0\nVmLck:\t     16 kB\nCapEff:\t0000000000201000\n\
                Cpus_allowed_list:\t0-1,3\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t9\n";
    let status = Status::parse(text.to_owned());
    assert_eq!((status.real_user(), status.locked_kib()), (Some(1000), Some(16)), "the name may hold anything");
    assert_eq!(status.effective_capabilities(), Some(1 << 12 | 1 << 21));
    assert_eq!(status.allowed_cpus(), Some("0-1,3"));
    assert_eq!((status.voluntary_switches(), status.involuntary_switches()), (Some(5), Some(9)));
    let none = Status::default();
    assert_eq!((none.real_user(), none.effective_capabilities(), none.voluntary_switches()), (None, None, None));
}

#[test]
fn a_conversion_between_clocks_states_its_bound() {
    let read = |tai_ns: i64, realtime_ns: i64, tai_offset_s| ClockReading {
        tai_ns,
        realtime_ns,
        monotonic_ns: 0,
        bound_ns: 30,
        tai_offset_s,
        steering: None,
    };
    let s = 1_000_000_000;
    let exact = Conversion::between(&read(137 * s + 5, 100 * s, 37), &read(138 * s, 101 * s, 37));
    assert_eq!((exact.tai_minus_realtime_ns, exact.bound_ns), (37 * s, 0), "the kernel's own offset is exact");
    assert_eq!(exact.to_tai(Instant::from_ns(5)).ns(), 37 * s + 5);
    let changed = Conversion::between(&read(137 * s, 100 * s, 37), &read(137 * s, 101 * s, 36));
    assert_eq!((changed.tai_minus_realtime_ns, changed.bound_ns), (37 * s, s), "a change in the trial is the bound");
}

#[test]
fn what_tardy_looks_at_itself_lies_outside_the_trial() {
    use tardy_host::state::{Moment, Part, order};
    // The clocks are read on the trial's side of everything else.
    assert_eq!(order(Moment::Before).last(), Some(&Part::Cpus));
    assert_eq!(order(Moment::Behind).first(), Some(&Part::Cpus));
    for moment in [Moment::Before, Moment::Behind] {
        assert!(order(moment).contains(&Part::Tasks) && order(moment).contains(&Part::Settings));
    }
}

#[test]
fn tasks_that_ended_count_from_the_trials_beginning_and_by_name_and_cpu() {
    use tardy_model::machine::{Ended, EndedTasks, TaskTime};
    use tardy_sys::exits::Exit;
    let exit = |tid, name: &str, cpu, run_ns| Exit { tid, name: name.into(), cpu, run_ns };
    let exits = [exit(7, "cc1", 0, 90), exit(8, "cc1", 0, 30), exit(9, "cc1", 1, 5), exit(10, "sh", 0, 200)];
    let before = [(7, TaskTime { name: "cc1".into(), start: 1, cpu: 0, run_ns: 60, realtime: false })].into();
    let ended = |name: &str, cpu, count, run_ns| EndedTasks { name: name.into(), cpu, count, run_ns };
    let tasks = vec![ended("sh", 0, 1, 200), ended("cc1", 0, 2, 60), ended("cc1", 1, 1, 5)];
    assert_eq!(state::ended(&exits, true, &before), Ended { tasks, incomplete: true });
    // Bytes that are no such message are nobody's end.
    for bytes in [&[][..], &[0; 19], &[0xff; 64], &[0; 4_096]] {
        assert_eq!(tardy_sys::exits::exit(bytes, 0), None);
    }
}
