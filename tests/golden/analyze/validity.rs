// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each verdict: the injected cause makes its id appear and no other, a healthy trial has none.

use super::fixture::{CYCLE_NS, LEAD, Packet, batches, healthy_packets, lost, not_sent, record};
use std::collections::BTreeMap;
use tardy_analyze::cell::CellAnalysis;
use tardy_analyze::validity::RULES;
use tardy_model::passed::{Lookups, Passing};
use tardy_model::placement::WakeUpBound;
use tardy_model::point::{Metric, Point};
use tardy_model::result::TrialResult;
use tardy_model::time::Conversion;
use tardy_model::trial::{StreamRecord, TrialRecord};
use tardy_model::verdict::{Figure, Level, Verdict};
use tardy_model::xdp::{
    DeviceHint, DeviceHintCount, XdpMode, XdpRecord, XdpRefusal, XdpSendMode, XdpSendRecord, XdpSent,
};
use tardy_tests::xdp_record;

pub(super) const COUNT: u32 = 10_000;

pub(super) fn judge(record: &TrialRecord, packets: &[Packet]) -> TrialResult {
    let metrics = vec![LEAD, Metric::Span(Point::TxKernel, Point::RxKernel), Metric::Delta];
    let mut cell = CellAnalysis::new("all", BTreeMap::new(), BTreeMap::from([("ctl".to_owned(), metrics)]), Vec::new());
    cell.trial(record, batches(packets, 4_096).into_iter().map(|batch| ("ctl", batch))).result
}

/// The one verdict that a fault makes, in a trial that is otherwise healthy.
pub(super) fn verdict(spoil: impl FnOnce(&mut TrialRecord, &mut Vec<Packet>)) -> Verdict {
    let mut record = record(1, COUNT);
    let mut packets = healthy_packets(1, COUNT as usize);
    spoil(&mut record, &mut packets);
    let result = judge(&record, &packets);
    let ids: Vec<&str> = result.verdicts.iter().map(|verdict| verdict.id.as_str()).collect();
    assert_eq!(ids.len(), 1, "one verdict, got {ids:?}");
    assert_eq!(result.valid, result.verdicts[0].level < Level::Invalid);
    assert!(RULES.iter().any(|rule| rule.id == ids[0]) && !result.verdicts[0].evidence.is_empty());
    result.verdicts[0].clone()
}

pub(super) fn ctl(record: &mut TrialRecord) -> &mut StreamRecord {
    record.streams.get_mut("ctl").unwrap()
}

#[track_caller]
pub(super) fn assert_is(verdict: &Verdict, id: &str, level: Level, says: &str) {
    assert_eq!((verdict.id.as_str(), verdict.level), (id, level), "{}", verdict.says);
    assert!(verdict.says.contains(says), "{}", verdict.says);
}

#[test]
fn a_healthy_trial_has_no_verdict() {
    let result = judge(&record(1, COUNT), &healthy_packets(1, COUNT as usize));
    assert_eq!((result.verdicts, result.valid), (Vec::new(), true));
}

#[test]
fn every_rule_has_its_own_id() {
    let ids: std::collections::BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), RULES.len());
}

#[test]
fn packets_that_come_to_af_xdp_by_a_slower_way_than_others_are_noted() {
    let refused = vec![
        XdpRefusal { mode: XdpMode::ZeroCopy, why: "no".into() },
        XdpRefusal { mode: XdpMode::Native, why: "too long".into() },
    ];
    let port = |mode, refused| XdpRecord { mode, refused, ..xdp_record() };
    let slow = verdict(|record, _| ctl(record).xdp = Some(port(XdpMode::Generic, refused.clone())));
    assert_is(
        &slow,
        "xdp-mode",
        Level::Note,
        "packets of ctl come to AF_XDP in generic mode, because what is faster was refused: zero-copy (no), native (too long)",
    );
    assert_eq!(slow.evidence["refused"], "zero-copy native".into());
    let sends = |mode, refused| {
        let counted = XdpSent::default();
        Some(XdpSendRecord {
            mode,
            refused,
            queues: vec![0],
            umem_bytes: 1 << 24,
            huge_pages: false,
            small_pages: None,
            counted,
        })
    };
    let copied = verdict(|record, _| ctl(record).xdp_sent = sends(XdpSendMode::Copy, refused[..1].to_vec()));
    let says = "packets of ctl are sent by AF_XDP in copy mode, because what is faster was refused: zero-copy (no)";
    assert_is(&copied, "xdp-mode", Level::Note, says);
    // Ordinary pages are slower than huge ones, in whatever mode.
    let small = verdict(|record, _| {
        let small_pages = Some("none are free".to_owned());
        ctl(record).xdp = Some(XdpRecord { small_pages, ..port(XdpMode::ZeroCopy, Vec::new()) });
    });
    let says = "packets of ctl come to AF_XDP in zero-copy mode; the memory of its packets is not of huge pages: none are free";
    assert_is(&small, "xdp-mode", Level::Note, says);
    let mut fast = record(1, COUNT);
    ctl(&mut fast).xdp = Some(port(XdpMode::ZeroCopy, Vec::new()));
    ctl(&mut fast).xdp_sent = sends(XdpSendMode::ZeroCopy, Vec::new());
    assert_eq!(judge(&fast, &healthy_packets(1, COUNT as usize)).verdicts, Vec::new());
}

#[test]
fn hints_that_no_packet_had_were_columns_of_nothing_without_a_word() {
    let count = |hint, given, absent, not_offered| DeviceHintCount { hint, given, absent, not_offered };
    let asked = |device_hints| XdpRecord { device_hints, ..xdp_record() };
    let note = verdict(|record, _| {
        ctl(record).xdp = Some(asked(vec![
            count(DeviceHint::HwTime, 0, 0, 2_000),
            count(DeviceHint::Hash, 1, 1_999, 0),
            count(DeviceHint::Vlan, 0, 2_000, 0),
        ]));
    });
    let says = "no packet of ctl came with these hints of `rx.hints`: hw_time (this driver or kernel does not offer it), \
                vlan (the device had no value for any)";
    assert_is(&note, "xdp-mode", Level::Note, says);
    assert_eq!(note.evidence["without"], "hw_time vlan".into());
    // Nothing was received: nothing is known of hints either.
    let mut none = record(1, COUNT);
    ctl(&mut none).xdp = Some(asked(vec![count(DeviceHint::Vlan, 0, 0, 0)]));
    assert_eq!(judge(&none, &healthy_packets(1, COUNT as usize)).verdicts, Vec::new());
}

#[test]
fn a_cycle_that_the_machine_cannot_keep() {
    let tenth_ns = i64::from(COUNT) * CYCLE_NS / 10;
    let slow = verdict(|record, _| {
        ctl(record).intended_span_ns = i64::from(COUNT) * CYCLE_NS;
        ctl(record).lateness_by_tenth_ns = (0..10).map(|n| n * tenth_ns / 4).collect();
    });
    assert_is(
        &slow,
        "rate",
        Level::Invalid,
        "1600 packets/s instead of 2000, 20.0 % short: the cycle of 500.0 µs took 625.0 µs",
    );
    assert_eq!(slow.evidence["achieved_per_s"], Figure::Float(1600.0));
    let skipped = verdict(|record, packets| {
        ctl(record).counters.skipped = 150;
        ctl(record).max_loss = 0.5;
        packets[200..350].fill(not_sent());
    });
    assert_is(&skipped, "rate", Level::Invalid, "150 of 10000 slots were skipped");
}

#[test]
fn the_last_packets_lateness_is_no_matter_of_rate() {
    let mut short = record(1, 20);
    ctl(&mut short).sent_span_ns = Some(19 * CYCLE_NS + 900_000);
    assert!(judge(&short, &healthy_packets(1, 20)).verdicts.is_empty());
}

#[test]
fn one_late_last_packet_does_not_spoil_the_whole_cell() {
    // Four cycles late in a trial of 400 packets: 1 % of its length. With tenths, and without.
    for tenths in [vec![10_000; 10], Vec::new()] {
        let mut late = record(1, 400);
        ctl(&mut late).sent_span_ns = Some(399 * CYCLE_NS + 2_100_000);
        ctl(&mut late).lateness_by_tenth_ns = tenths;
        ctl(&mut late).counters.overruns = 1;
        assert_eq!(judge(&late, &healthy_packets(1, 400)).verdicts, []);
    }
}

#[test]
fn a_stall_is_no_rate_wherever_it_falls_and_a_growing_backlog_is() {
    let of = |tenths: Vec<i64>| {
        let mut record = record(1, COUNT);
        ctl(&mut record).lateness_by_tenth_ns = tenths;
        judge(&record, &healthy_packets(1, COUNT as usize)).verdicts
    };
    for stalled in 0..10 {
        let mut tenths = vec![12_000; 10];
        tenths[stalled] = 400_000_000;
        assert_eq!(of(tenths), [], "the sender stood still in tenth {stalled}");
    }
    // 1.1 % of 5 s, and 0.9 %.
    let growing = |behind_ns: i64| of((0..10).map(|n| 12_000 + n * behind_ns / 9).collect());
    assert_eq!(growing(55_000_000).first().map(|verdict| verdict.id.as_str()), Some("rate"));
    assert_eq!(growing(40_000_000), []);
}

#[test]
fn stamps_that_lack() {
    let scattered = verdict(|_, packets| (0..40).for_each(|n| packets[n * 200 + 3].rx_kernel = None));
    assert_is(
        &scattered,
        "coverage",
        Level::Invalid,
        "40 of 10000 received packets have no rx_kernel stamp, in 40 bursts",
    );
    let gap = verdict(|_, packets| packets[700..760].iter_mut().for_each(|packet| packet.tx_kernel = None));
    assert_is(&gap, "coverage", Level::Invalid, "1 burst, the longest 60 packets from packet 700 on");
    assert_eq!((&gap.evidence["bursts"], &gap.evidence["point"]), (&Figure::Int(1), &"tx_kernel".into()));
    let none = verdict(|_, packets| packets.iter_mut().for_each(|packet| packet.tx_kernel = None));
    assert_is(&none, "coverage", Level::Invalid, "10000 of 10000");
    let few = |record: &mut TrialRecord, packets: &mut Vec<Packet>| {
        packets[50].rx_kernel = None;
        ctl(record).counters.foreign = 1;
    };
    assert_is(&verdict(few), "foreign", Level::Note, "1 foreign packet ");
}

#[test]
fn requests_that_met_sleeping_machines_are_a_note() {
    let behind = verdict(|record, _| ctl(record).counters.after_silence = 2);
    assert_is(&behind, "after-silence", Level::Note, "2 requests of ctl went out after the one before was given up");
}

#[test]
fn stamps_that_start_late_are_told_instead_of_coverage() {
    let late = verdict(|record, packets| {
        packets[..300].iter_mut().for_each(|packet| packet.rx_kernel = None);
        // A warm-up that gave up is the same story.
        ctl(record).warmup.flowed = false;
    });
    assert_is(
        &late,
        "late-stamps",
        Level::Invalid,
        "the first 300 packets received have no rx_kernel stamp (3.0 % of all)",
    );
    // A late start with as many missing later on is no mere late start.
    let both = verdict(|_, packets| {
        (0..50).chain((0..50).map(|n| 100 + n * 150)).for_each(|n| packets[n].rx_kernel = None);
    });
    assert_is(&both, "coverage", Level::Invalid, "in 51 bursts");
}

#[test]
fn a_stamp_that_no_figure_is_made_of_spoils_nothing() {
    let without = |spoil: &dyn Fn(&mut [Packet])| {
        let mut record = record(1, COUNT);
        let mut packets = healthy_packets(1, COUNT as usize);
        // The device's clock was set in the middle: as tx_hw, so tx_kernel here, where nobody asks
        // for it.
        spoil(&mut packets);
        ctl(&mut record).max_loss = 0.0;
        let asked = BTreeMap::from([("ctl".to_owned(), vec![LEAD])]);
        let mut cell = CellAnalysis::new("all", BTreeMap::new(), asked, Vec::new());
        let result = cell.trial(&record, batches(&packets, 4_096).into_iter().map(|batch| ("ctl", batch))).result;
        let told: Vec<_> = result.verdicts.iter().map(|verdict| (verdict.id.clone(), verdict.level)).collect();
        (result.valid, told, result.verdicts[0].says.clone())
    };
    let (valid, told, says) = without(&|packets| packets.iter_mut().for_each(|packet| packet.tx_kernel = None));
    assert_eq!((valid, told), (true, vec![("coverage".to_owned(), Level::Note)]), "{says}");
    assert!(says.ends_with("; no figure is made of it"), "{says}");
    let (valid, told, says) = without(&|packets| packets[..300].iter_mut().for_each(|packet| packet.tx_kernel = None));
    assert_eq!((valid, told), (true, vec![("late-stamps".to_owned(), Level::Note)]), "{says}");
    // The same of a stamp that the metric is made of.
    let (valid, told, _) = without(&|packets| packets[..300].iter_mut().for_each(|packet| packet.rx_kernel = None));
    assert_eq!((valid, told), (false, vec![("late-stamps".to_owned(), Level::Invalid)]));
}

#[test]
fn a_warm_up_that_gave_up() {
    let verdict = verdict(|record, _| ctl(record).warmup.flowed = false);
    assert_is(&verdict, "warmup", Level::Warning, "gave up after 50 packets and 25.0 ms");
    let mut none_asked = record(1, COUNT);
    ctl(&mut none_asked).warmup = Default::default();
    assert!(judge(&none_asked, &healthy_packets(1, COUNT as usize)).verdicts.is_empty());
}

#[test]
fn clocks_that_jump() {
    let step = verdict(|record, packets| {
        record.after.clocks.realtime_ns += 5_000_000;
        ctl(record).rx_clocks[1].realtime_ns += 5_000_000;
        ctl(record).sent_span_ns = Some(i64::from(COUNT) * CYCLE_NS * 2);
        ctl(record).counters.overruns = u64::from(COUNT);
        packets[77].rx_kernel = Some(-1_000_000);
    });
    assert_is(&step, "clock-step", Level::Invalid, "CLOCK_REALTIME was set by 5000.0 µs");
    let offset = verdict(|record, _| {
        record.after.clocks.tai_offset_s = 38;
        record.after.clocks.tai_ns += 1_000_000_000;
    });
    assert_is(&offset, "tai-offset", Level::Invalid, "from 37 s to 38 s");
    // Two brackets of twice 150 ns, and a microsecond.
    let mut read_late = record(1, COUNT);
    read_late.after.clocks.realtime_ns += 1_600;
    assert!(judge(&read_late, &healthy_packets(1, COUNT as usize)).verdicts.is_empty());
    let small = verdict(|record, _| record.after.clocks.realtime_ns += 1_601);
    assert_is(&small, "clock-step", Level::Invalid, "CLOCK_REALTIME was set by 1.6 µs");
}

#[test]
fn a_leap_second_is_not_told_as_a_jump_of_tai() {
    let mut leap = record(1, COUNT);
    leap.after.clocks.tai_offset_s = 38;
    leap.after.clocks.realtime_ns -= 1_000_000_000;
    let verdicts = judge(&leap, &healthy_packets(1, COUNT as usize)).verdicts;
    let ids: Vec<&str> = verdicts.iter().map(|verdict| verdict.id.as_str()).collect();
    assert_eq!(ids, ["tai-offset", "clock-step"]);
    assert!(verdicts.iter().all(|verdict| !verdict.says.contains("CLOCK_TAI")), "{verdicts:?}");
    assert_is(&verdicts[0], "tai-offset", Level::Invalid, "38 s during the trial: CLOCK_REALTIME");
}

#[test]
fn the_devices_clock_excuses_no_stamp_but_its_own() {
    let early = |record: &mut TrialRecord, packets: &mut Vec<Packet>| {
        ctl(record).tx_hw_bound_ns = 2_000;
        packets[321].tx_kernel = packets[321].rx_kernel.map(|ns| ns + 1_500);
    };
    assert_is(
        &verdict(early),
        "causality",
        Level::Invalid,
        "tx_kernel..rx_kernel is negative in 1 packet, down to -1.5 µs",
    );
}

#[test]
fn a_packet_stamped_before_its_cause() {
    let verdict = verdict(|_, packets| packets[321].tx_kernel = packets[321].rx_kernel.map(|ns| ns + 40_000));
    assert_is(&verdict, "causality", Level::Invalid, "tx_kernel..rx_kernel is negative in 1 packet, down to -40.0 µs");
    // Within the bound of the conversion it is the ruler's error.
    let mut bounded = record(1, COUNT);
    ctl(&mut bounded).rx_conversion = Conversion { tai_minus_realtime_ns: 0, bound_ns: 40_000 };
    let mut packets = healthy_packets(1, COUNT as usize);
    packets[321].tx_kernel = packets[321].rx_kernel.map(|ns| ns + 40_000);
    packets[500].rx_kernel = Some(-3_000);
    packets[500].tx_kernel = Some(-3_500);
    assert!(judge(&bounded, &packets).verdicts.is_empty(), "early is no fault");
}

#[test]
fn a_hypervisor_that_steals() {
    let take = |record: &mut TrialRecord, ns: i64| {
        let cpu = record.after.cpus.get_mut(&0).unwrap();
        cpu.steal_ns += ns;
        cpu.idle_ns -= ns;
    };
    assert_is(&verdict(|record, _| take(record, 100_000_000)), "steal", Level::Warning, "took 2.0 % of CPU 0 away");
    assert_is(&verdict(|record, _| take(record, 600_000_000)), "steal", Level::Invalid, "took 12.0 % of CPU 0 away");
    let mut slight = record(1, COUNT);
    take(&mut slight, 30_000_000);
    assert!(judge(&slight, &healthy_packets(1, COUNT as usize)).verdicts.is_empty());
}

#[test]
fn a_recorder_that_held_the_sender_up_is_told() {
    let delay = verdict(|record, _| ctl(record).counters.forced_drains = 30);
    let says = "drained its stamps 30 times without slack before the next packet (0.3 % of the packets)";
    assert_is(&delay, "recorder-delay", Level::Note, says);
    assert_eq!(
        (&delay.evidence["forced_drains"], &delay.evidence["forced_drains_share"]),
        (&30i64.into(), &Figure::Float(0.003))
    );
}

#[test]
fn a_trial_that_broke_off_has_one_cause() {
    let failed = verdict(|record, packets| {
        record.failed = Some("the agent of b died".to_owned());
        ctl(record).sent_span_ns = Some(i64::from(COUNT) * CYCLE_NS * 2);
        ctl(record).counters.overruns = u64::from(COUNT);
        packets[9_000..].fill(lost(10_000));
        packets[..900].iter_mut().for_each(|packet| packet.rx_kernel = None);
        packets[3_000..4_000].iter_mut().for_each(|packet| packet.tx_kernel = None);
    });
    assert_is(&failed, "failed", Level::Invalid, "the agent of b died");
}

#[test]
fn a_span_that_is_not_known_is_not_0_in_the_evidence() {
    let skipped = verdict(|record, packets| {
        ctl(record).counters.skipped = 9_999;
        ctl(record).sent_span_ns = None;
        ctl(record).max_loss = 1.0;
        packets[1..].fill(not_sent());
    });
    assert_eq!(skipped.id, "rate");
    assert!(!skipped.evidence.contains_key("sent_span_ns"), "{:?}", skipped.evidence);
}

#[test]
fn what_happened_around_the_trial() {
    let interrupted = verdict(|record, packets| {
        record.interrupted = true;
        packets.truncate(6_000);
    });
    assert_is(&interrupted, "interrupted", Level::Note, "after 6000 of 10000 packets");
    let failed = verdict(|record, _| record.failed = Some("the agent of b died".to_owned()));
    assert_is(&failed, "failed", Level::Invalid, "the agent of b died");
    assert_is(&verdict(|record, _| record.after.other_runs = 1), "other-runs", Level::Note, "1 other run of tardy");
    let qos = verdict(|record, _| record.after.cpu_dma_latency_us = Some(2_000));
    assert_is(&qos, "pm-qos", Level::Warning, "from 0 µs to 2000 µs");
    let jit = verdict(|record, _| record.after.bpf_jit = Some(0));
    assert_is(&jit, "bpf-jit", Level::Warning, "went from 1 to 0");
}

#[test]
fn packets_for_which_a_datapath_had_no_flow_were_not_counted() {
    let of = |hit, missed, lost| {
        verdict(|record, _| {
            let lookups = Some(Lookups { hit, missed, lost });
            record.passed = Some(Passing { lookups, ..Passing::default() });
        })
    };
    let missed = of(10_020, 7, 2);
    assert_is(&missed, "flow-misses", Level::Warning, "had a flow for 10020 packets, and none for 7 more");
    assert_is(&missed, "flow-misses", Level::Warning, "dropped 2 of them");
    let mut sound = record(1, COUNT);
    sound.passed = Some(Passing { lookups: Some(Lookups { hit: 10_020, ..Lookups::default() }), ..Passing::default() });
    assert_eq!(judge(&sound, &healthy_packets(1, COUNT as usize)).verdicts, []);
}

#[test]
fn a_bound_on_wake_up_latency_that_is_not_the_one_asked_for_is_a_warning() {
    let asks = |us: i32, without: &[&str]| {
        let without_idle_states = without.iter().map(|host| (*host).to_owned()).collect();
        verdict(move |record, _| {
            record.placement.wake_up = Some(WakeUpBound { asked_us: us, without_idle_states });
        })
    };
    // The fixture's machine has 0 µs before and after.
    assert_is(&asks(2, &[]), "pm-qos", Level::Warning, "was 0 µs, and cpu.dma_latency asks for 2 µs");
    let mut held = record(1, COUNT);
    held.placement.wake_up = Some(WakeUpBound::default());
    assert_eq!(judge(&held, &healthy_packets(1, COUNT as usize)).verdicts, [], "it was held");
    assert_is(&asks(0, &["this machine"]), "pm-qos", Level::Note, "no effect on this machine");
}

#[test]
fn a_bound_on_wake_up_latency_that_nobody_could_read_was_taken_for_kept() {
    let unread = |us: Option<i32>| {
        let mut record = record(1, COUNT);
        record.after.cpu_dma_latency_us = None;
        record.placement.wake_up = us.map(|asked_us| WakeUpBound { asked_us, ..WakeUpBound::default() });
        judge(&record, &healthy_packets(1, COUNT as usize)).verdicts
    };
    assert_eq!(unread(None), [], "nobody asked for one");
    let says = "cpu.dma_latency asks for 2 µs, and /dev/cpu_dma_latency could not be read";
    let [verdict] = &unread(Some(2))[..] else { panic!("one verdict") };
    assert_is(verdict, "pm-qos", Level::Warning, says);
}
