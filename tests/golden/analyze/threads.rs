// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring threads that the kernel stops, or that did not get what they asked for; and those of a
//! stream whose ends are on two hosts: CPUs are numbered by each host for itself, and what one
//! host's tasks do harms only its own threads.

use super::fixture::{BASE_NS, healthy_packets, record};
use super::validity::{COUNT, assert_is, ctl, judge, verdict};
use std::collections::BTreeMap;
use tardy_analyze::validity::judge_trial;
use tardy_model::load::{InstanceRecord, LoadKind, LoadRecord, SideHosts, SideRecord};
use tardy_model::machine::{CpuTimes, MachineState, TaskTime};
use tardy_model::placement::{CpuAsked, CpuWork, SoftirqBy, SoftirqRecord, ThreadRecord};
use tardy_model::time::{ClockReading, LeftOut, Nanos, Offset, OffsetReading, OtherSource, Steering};
use tardy_model::trial::{SpinGaps, TrialRecord};
use tardy_model::validity::Validity;
use tardy_model::verdict::{Level, Verdict};

/// A spinning FIFO receiver on CPU 1 that was stopped `stops` times for `each_ns`, somebody else
/// having the CPU meanwhile.
pub(super) fn spin(record: &mut TrialRecord, stops: u32, each_ns: i64) {
    let elapsed = record.after.clocks.monotonic_ns - record.before.clocks.monotonic_ns;
    let stopped = i64::from(stops) * each_ns;
    ctl(record).spin_gaps = Some(SpinGaps { over_1ms: stops, longest_ns: each_ns, total_ns: stopped });
    ctl(record).rx.run_ns = Some(elapsed - stopped);
    let before = record.before.cpus[&1];
    let cpu = record.after.cpus.get_mut(&1).unwrap();
    (cpu.busy_ns, cpu.idle_ns) = (before.busy_ns + elapsed, before.idle_ns);
}

#[test]
fn a_spinner_that_the_rt_limit_stops() {
    let stopped = verdict(|record, _| spin(record, 5, 49_800_000));
    assert_is(
        &stopped,
        "rt-bandwidth",
        Level::Invalid,
        "ctl.rx, which spins as fifo:80, was stopped for up to 49.8 ms (5 gaps over 1 ms)",
    );
    assert_eq!(
        (&stopped.evidence["longest_gap_ns"], &stopped.evidence["limit_runtime_ns"]),
        (&49_800_000i64.into(), &950_000_000i64.into())
    );
    // The plan blamed the fair server and the verdict the limit; the gaps fit both.
    let says = "realtime threads may run 950.0 ms in each 1000.0 ms (sched_rt_runtime_us), and the kernel's fair server (Linux 6.12 and \
                later) gives the other threads 50 ms in each second whatever that says; let it sleep (rx.wait, tx.spin) or give it policy \
                other, or keep all other tasks off its CPU (docs/how-to/isolation.md)";
    assert!(stopped.says.ends_with(says), "{}", stopped.says);
    assert_eq!(stopped.evidence["by"], "RT limit or fair server".into());
    let longer = verdict(|record, _| {
        spin(record, 5, 99_000_000);
        record.before.rt_limit.as_mut().unwrap().runtime_ns = 900_000_000;
    });
    let says = "realtime threads may run 900.0 ms in each 1000.0 ms; let it sleep (rx.wait, tx.spin) or give it policy other, or lift the \
                limit (sysctl kernel.sched_rt_runtime_us=-1)";
    assert!(longer.says.ends_with(says), "{}", longer.says);
    let quiet = |spoil: fn(&mut TrialRecord)| {
        let mut record = record(1, COUNT);
        spoil(&mut record);
        judge(&record, &healthy_packets(1, COUNT as usize)).verdicts
    };
    assert_eq!(quiet(|record| spin(record, 3, 2_000_000)), []);
    assert_eq!(quiet(|record| spin(record, 1, 30_000_000)), [], "one stall is not the limit");
    assert_eq!(
        quiet(|record| {
            spin(record, 0, 0);
            record.before.rt_limit = None
        }),
        []
    );
}

#[test]
fn a_sender_that_spins_is_stopped_too() {
    let stopped = verdict(|record, _| {
        let elapsed = record.after.clocks.monotonic_ns - record.before.clocks.monotonic_ns;
        let gaps = SpinGaps { over_1ms: 5, longest_ns: 49_800_000, total_ns: 249_000_000 };
        ctl(record).tx_spin_gaps = Some(gaps);
        ctl(record).tx.run_ns = Some(elapsed - gaps.total_ns);
        let before = record.before.cpus[&0];
        let cpu = record.after.cpus.get_mut(&0).unwrap();
        (cpu.busy_ns, cpu.idle_ns) = (before.busy_ns + elapsed, before.idle_ns);
    });
    assert_is(&stopped, "rt-bandwidth", Level::Invalid, "ctl.tx, which spins as fifo:90, was stopped for up to");
}

#[test]
fn the_fair_server_stops_a_spinner_where_no_limit_is_known() {
    let fair = verdict(|record, _| {
        spin(record, 4, 50_100_000);
        record.before.rt_limit = None;
    });
    assert_is(
        &fair,
        "rt-bandwidth",
        Level::Invalid,
        "no RT limit is known, so these are the stops of the kernel's fair",
    );
    assert_eq!(fair.evidence["by"], "fair server".into());
    assert!(!fair.evidence.contains_key("limit_period_ns"), "what is not known is not 0");
    let wide = verdict(|record, _| {
        spin(record, 4, 50_100_000);
        record.before.rt_limit.as_mut().unwrap().runtime_ns = 500_000_000;
    });
    assert_is(
        &wide,
        "rt-bandwidth",
        Level::Invalid,
        "these gaps do not fit the RT limit (realtime threads may run 500.0 ms in each 1000.0 ms), and fit",
    );
    let told = |spoil: &dyn Fn(&mut TrialRecord)| {
        let mut record = record(1, COUNT);
        spin(&mut record, 4, 50_100_000);
        record.before.rt_limit = None;
        spoil(&mut record);
        let verdicts = judge(&record, &healthy_packets(1, COUNT as usize)).verdicts;
        verdicts.into_iter().any(|verdict| verdict.id == "rt-bandwidth")
    };
    assert!(told(&|_| ()));
    assert!(!told(&|record| spin(record, 1, 50_100_000)), "once in five seconds is not once a second");
    let without_a_cycle = |stops| {
        told(&|record| {
            spin(record, stops, 50_100_000);
            (ctl(record).intended_span_ns, ctl(record).cycle_ns) = (0, 0);
            ctl(record).sent_span_ns = Some(5_000_000_000);
        })
    };
    assert!(without_a_cycle(4), "a ping-pong took as long as from its first request to its last");
    assert!(!without_a_cycle(1), "and not no time at all, in which one stop would be enough");
    assert!(!told(&|record| spin(record, 4, 20_000_000)), "too short");
    assert!(!told(&|record| spin(record, 4, 80_000_000)), "too long");
    assert!(!told(&|record| {
        let gaps = SpinGaps { over_1ms: 8, longest_ns: 45_000_000, total_ns: 58_000_000 };
        ctl(record).spin_gaps = Some(gaps);
    }));
    assert!(!told(&|record| {
        ctl(record).rx.policy_asked = "other".to_owned();
        ctl(record).rx.policy_granted = "other".to_owned();
    }));
}

#[test]
fn a_thread_that_did_not_get_what_it_asked_for() {
    let policy = verdict(|record, _| {
        ctl(record).rx.policy_granted = "other".to_owned();
        ctl(record).rx.refused.push("sched_setscheduler: EPERM".to_owned());
    });
    assert_is(
        &policy,
        "policy",
        Level::Invalid,
        "ctl.rx asked for policy fifo:80 and has other (sched_setscheduler: EPERM)",
    );
    let priority = verdict(|record, _| ctl(record).tx.policy_granted = "fifo:1".to_owned());
    assert_is(&priority, "policy", Level::Invalid, "ctl.tx asked for policy fifo:90 and has fifo:1");
    let affinity = verdict(|record, _| ctl(record).tx.affinity = vec![0, 1]);
    assert_is(&affinity, "policy", Level::Invalid, "ctl.tx asked for CPU 0 and may run on CPU 0 and 1");
    let memory = verdict(|record, _| ctl(record).rx.memory_locked = false);
    assert_is(&memory, "policy", Level::Warning, "the memory of ctl.rx is not locked");
}

// The ends of a stream on two hosts.

/// The receiver's CPU, and the number of another CPU on the sender's host.
const CPU: u32 = 1;

/// Receives on another host, whose clock is known within 30 ns.
fn two_hosts() -> TrialRecord {
    within(30)
}

/// The same of a clock that is known within so much.
fn within(bound_ns: i64) -> TrialRecord {
    let mut record = record(1, COUNT);
    let at = |at_tai_ns| OffsetReading { at_tai_ns, ahead_ns: 3_000_000, bound_ns };
    let (first, last) = (at(BASE_NS), at(BASE_NS + 1_000_000_000));
    ctl(&mut record).offsets.rx =
        Some(Offset { host: "rig".into(), first, last, method: "told".into(), ..Offset::default() });
    record.hosts.insert("rig".into(), [record.before.clone(), record.after.clone()]);
    record
}

/// A task takes half of the receiver's CPU number on a host, and its thread waits.
fn disturb(after: &mut MachineState, elapsed_ns: i64) {
    let times = after.cpus.get_mut(&CPU).expect("a CPU");
    times.busy_ns += elapsed_ns / 2;
    times.idle_ns -= elapsed_ns / 2;
    after
        .tasks
        .insert(900, TaskTime { name: "stress".into(), start: 80, cpu: CPU, run_ns: elapsed_ns / 2, realtime: false });
}

fn verdicts(record: &TrialRecord) -> Vec<Verdict> {
    judge(record, &healthy_packets(1, COUNT as usize)).verdicts
}

fn elapsed_ns(record: &TrialRecord) -> i64 {
    record.after.clocks.monotonic_ns - record.before.clocks.monotonic_ns
}

#[test]
fn a_healthy_trial_on_two_hosts_has_no_verdict() {
    assert_eq!(verdicts(&two_hosts()), []);
}

#[test]
fn a_task_on_a_cpu_of_one_host_was_held_against_the_thread_on_the_cpu_of_that_number_on_the_other() {
    let mut record = two_hosts();
    let elapsed = elapsed_ns(&record);
    ctl(&mut record).rx.wait_ns = Some(elapsed / 3);
    disturb(&mut record.after, elapsed);
    assert_eq!(verdicts(&record), [], "the sender's host has no thread on this CPU");
    let mut record = two_hosts();
    ctl(&mut record).rx.wait_ns = Some(elapsed / 3);
    disturb(&mut record.hosts.get_mut("rig").expect("a host")[1], elapsed);
    let told = verdicts(&record);
    assert_is(&told[0], "competing-cpu", Level::Invalid, "on rig: CPU 1 also ran stress");
    assert_eq!((told.len(), &told[0].evidence["host"]), (1, &"rig".into()));
}

#[test]
fn a_hypervisor_that_takes_a_cpu_of_another_host_is_told_with_the_host() {
    let mut record = two_hosts();
    let elapsed = elapsed_ns(&record);
    let steal = |times: &mut CpuTimes| times.steal_ns += elapsed / 2;
    steal(record.hosts.get_mut("rig").expect("a host")[1].cpus.get_mut(&CPU).expect("a CPU"));
    let told = verdicts(&record);
    assert_is(&told[0], "steal", Level::Invalid, "on rig: the hypervisor took");
    // In exact time that is the guest, which nobody else uses.
    let (results, coverage) = (BTreeMap::new(), BTreeMap::new());
    let exact = judge_trial(&record, &results, &coverage, &Validity::default(), true);
    let steal = exact.iter().find(|verdict| verdict.id == "steal").expect("it says so");
    assert_is(steal, "steal", Level::Note, "for the guest's own part of the path");
}

#[test]
fn packets_that_another_host_took_in_were_looked_for_on_this_ones_cpu_of_that_number() {
    let took = |here: u64, there: u64| {
        let mut record = two_hosts();
        let softirq = SoftirqRecord {
            device: "tardy0-1".into(),
            by: SoftirqBy::Rps,
            asked: CpuAsked { cpu: CPU.to_string(), of: None },
            cpu: Some(CPU),
            packets: u64::from(COUNT),
            receivers: vec!["ctl.rx".into()],
            threads: Vec::new(),
        };
        record.placement.softirq.insert("b".into(), softirq);
        let mut set = |after: bool, host: Option<&str>, packets| {
            let states = record.hosts.get_mut(host.unwrap_or_default());
            let state = match (states, after) {
                (Some(states), after) => &mut states[usize::from(after)],
                (None, false) => &mut record.before,
                (None, true) => &mut record.after,
            };
            state.work.insert(CPU, CpuWork { packets, ..CpuWork::default() });
        };
        for (host, packets) in [(None, here), (Some("rig"), there)] {
            set(false, host, 7);
            set(true, host, 7 + packets);
        }
        let cell = judge(&record, &healthy_packets(1, COUNT as usize));
        cell.verdicts.iter().filter(|verdict| verdict.id == "softirq").count()
    };
    assert_eq!((took(0, 10_000), took(10_000, 0)), (0, 1));
}

#[test]
fn a_clock_of_another_host_that_was_set_was_looked_at_by_no_rule() {
    let told = |set: fn(&mut ClockReading)| {
        let mut record = two_hosts();
        set(&mut record.hosts.get_mut("rig").expect("a host")[1].clocks);
        let told = verdicts(&record);
        told.first().map(|verdict| (verdict.id.clone(), verdict.evidence["at"].clone()))
    };
    assert_eq!(told(|clocks| clocks.realtime_ns += 1_000_000), Some(("clock-step".into(), "rig".into())));
    assert_eq!(told(|clocks| clocks.tai_offset_s += 1), Some(("tai-offset".into(), "rig".into())));
}

#[test]
fn a_source_that_excluded_the_other_was_no_reason_to_doubt_either() {
    let told = |apart_ns: i64, is_reported: bool| {
        let mut record = two_hosts();
        let offset = ctl(&mut record).offsets.rx.take().expect("an offset");
        let shifted = |of: OffsetReading| OffsetReading { ahead_ns: of.ahead_ns + apart_ns, bound_ns: 5_000, ..of };
        let [first, last] = [offset.first, offset.last].map(shifted);
        let other = OtherSource { method: "by hand".into(), first, last, is_reported };
        ctl(&mut record).offsets.rx = Some(if is_reported { offset.beside(other) } else { offset.with(other) });
        verdicts(&record)
    };
    // 30 ns and 5 µs are the bounds.
    assert_eq!(told(5_031, false), []);
    // What only a program reports converts nothing.
    let levels: Vec<Level> = told(-5_032, true).iter().map(|verdict| verdict.level).collect();
    assert_eq!((levels, told(5_031, true)), (vec![Level::Warning], vec![]));
    let told = told(-5_032, false);
    let [verdict] = &told[..] else { panic!("{told:?}") };
    assert_is(
        verdict,
        "clocks-disagree",
        Level::Invalid,
        "rig: two sources place its clock 5.0 µs apart, and their bounds allow 5.0 µs: \"told\" and \"by hand\"",
    );
    assert_eq!(
        (&verdict.evidence["apart_ns"], &verdict.evidence["allowed_ns"]),
        (&5_032_i64.into(), &5_031_i64.into())
    );
}

#[test]
fn a_clock_that_bent_within_a_trial_was_said_by_nobody() {
    let judged = |steered_ppb: i64| {
        let mut record = within(2_000);
        let offset = ctl(&mut record).offsets.rx.take().expect("an offset");
        ctl(&mut record).offsets.rx = Some(Offset { steered_ppb, ..offset });
        verdicts(&record).into_iter().find(|verdict| verdict.id == "clock-bend")
    };
    // A quarter of the spread, over the second between the readings: a tenth of the bound is less.
    assert_eq!(judged(0), None);
    assert_eq!(judged(888), None);
    let verdict = judged(10_000).expect("a verdict");
    let says = "rig: kernels steered the clocks otherwise after the trial than before, by 10.000 ppm: the clocks may have left the \
                line between their readings by 2.5 µs, which is 55.6 % of the bound";
    assert_is(&verdict, "clock-bend", Level::Warning, says);
    assert_eq!(
        (&verdict.evidence["steered_ppb"], &verdict.evidence["bend_ns"], &verdict.evidence["bound_ns"]),
        (&10_000_i64.into(), &2_500_i64.into(), &4_500_i64.into())
    );
}

#[test]
fn a_clock_that_is_steered_faster_than_bounds_assume_was_said_by_nobody() {
    let judged = |rate_ppb: i64, are_two: bool| {
        let mut record = within(2_000);
        let stream = ctl(&mut record);
        if !are_two {
            stream.offsets = Default::default();
        }
        stream.rx_clocks[1].steering = Some(Steering { rate_ppb, left_ns: 0 });
        verdicts(&record).into_iter().find(|verdict| verdict.id == "clock-bend")
    };
    assert_eq!((judged(500_000, true), judged(-500_000, true)), (None, None));
    assert_eq!(judged(700_000, false), None, "one clock");
    for (rate_ppb, ppm) in [(500_100, "500.1"), (-83_333_000, "-83333.0")] {
        let verdict = judged(rate_ppb, true).expect("a verdict");
        let says = format!(
            "ctl.rx: its kernel steers the clock by {ppm} ppm, and the bounds of two hosts' clocks assume 500 ppm at most: let the \
             clocks settle, or have what steers them go slower (chrony's maxslewrate)"
        );
        assert_is(&verdict, "clock-bend", Level::Warning, &says);
        assert_eq!(verdict.evidence["rate_ppb"], rate_ppb.into());
    }
}

#[test]
fn a_source_that_was_asked_for_and_showed_nothing_was_not_reported() {
    let mut record = two_hosts();
    let why = "3 Syncs came before the trial, and a bound needs 8".to_owned();
    let left_out = vec![LeftOut { method: "a ptp4l".into(), why }];
    let offset = ctl(&mut record).offsets.rx.take().expect("an offset");
    ctl(&mut record).offsets.rx = Some(Offset { left_out, ..offset });
    let told = verdicts(&record);
    let [verdict] = &told[..] else { panic!("{told:?}") };
    let says = "rig: a ptp4l was asked for and does not count: 3 Syncs came before the trial, and a bound needs 8";
    assert_is(verdict, "clock-source", Level::Note, says);
    assert_eq!(verdict.evidence["host"], "rig".into());
}

#[test]
fn threads_of_two_hosts_on_cpus_of_one_number_share_none() {
    let mut record = two_hosts();
    let tx = ctl(&mut record).tx.clone();
    // The receiver is asked to be apart from the sender, and has the CPU of its number, on the
    // other host.
    ctl(&mut record).rx.cpus_seen = tx.cpus_seen.clone();
    ctl(&mut record).rx.cpu_asked = tx.cpu_asked;
    ctl(&mut record).rx.affinity = tx.affinity;
    assert_eq!(verdicts(&record).iter().filter(|verdict| verdict.id == "shared-cpu").count(), 0);
}

#[test]
fn a_negative_pair_that_the_bound_of_two_clocks_explains_is_no_fault_of_a_clock() {
    let mut packets = healthy_packets(1, COUNT as usize);
    let negative = |record: &TrialRecord, packets: &[super::fixture::Packet]| {
        let told = judge(record, packets).verdicts;
        told.iter().filter(|verdict| verdict.id == "causality").count()
    };
    // One packet is in the receiver's kernel 900 ns before it left the sender's.
    packets[7].rx_kernel = packets[7].tx_kernel.map(|ns| ns - 900);
    let mut here = record(1, COUNT);
    ctl(&mut here).tx_conversion.bound_ns = 0;
    ctl(&mut here).rx_conversion.bound_ns = 0;
    assert_eq!(negative(&here, &packets), 1, "one clock");
    assert_eq!(negative(&within(1_000), &packets), 0, "within 1 µs");
    packets[7].rx_kernel = packets[7].tx_kernel.map(|ns| ns - 1_100_000);
    assert_eq!(negative(&within(1_000), &packets), 1, "beyond it");
}

/// A load that computes on CPU 1, from the station on the host of this name.
fn with_load(host: Option<&str>) -> TrialRecord {
    let mut record = two_hosts();
    let elapsed = elapsed_ns(&record);
    let thread = ThreadRecord {
        tid: 201,
        policy_asked: "other".into(),
        policy_granted: "other".into(),
        cpu_asked: Some(CPU),
        affinity: vec![CPU],
        cpus_seen: vec![CPU],
        run_ns: Some(elapsed / 2),
        memory_locked: true,
        ..ThreadRecord::default()
    };
    let from = SideRecord {
        thread,
        began_ns: Some(0),
        ended_ns: 5_000_000_000,
        busy_ns: Some(2_500_000_000),
        ..SideRecord::default()
    };
    let load = LoadRecord {
        kind: LoadKind::Cpu { duty: 0.5, period: Nanos(10_000_000) },
        shortfall: 0.1,
        start_ns: 0,
        stop_ns: None,
        instances: vec![InstanceRecord { from, to: None }],
        hosts: SideHosts { from: host.map(str::to_owned), to: None },
    };
    record.loads.insert("spin".into(), load);
    record
}

#[test]
fn a_load_of_another_host_was_told_to_run_on_this_ones_cpu_of_that_number() {
    // The receiver, on the other host's CPU 1, waited as long as the load ran there.
    let told = |host: Option<&str>| {
        let mut record = with_load(host);
        let elapsed = elapsed_ns(&record);
        ctl(&mut record).rx.wait_ns = Some(elapsed / 2);
        let after = &mut record.hosts.get_mut("rig").expect("a host")[1];
        disturb(after, elapsed);
        // The task is the load's own thread.
        let task = after.tasks.remove(&900).expect("the task");
        after.tasks.insert(201, TaskTime { name: "tardy-load0.0".into(), ..task });
        verdicts(&record).into_iter().map(|verdict| (verdict.id, verdict.level)).collect::<Vec<_>>()
    };
    assert_eq!(told(Some("rig")), [], "its time there is no surprise, and the wait for it is the load's doing");
    // That of a load of this machine excuses nothing there.
    assert_eq!(told(None), [("competing-cpu".into(), Level::Invalid)]);
}

#[test]
fn a_task_with_the_number_of_another_hosts_load_was_taken_for_it() {
    // Thread ids are numbered by each host too. On this machine 201 is a stranger, on the sender's
    // CPU.
    let told = |host: Option<&str>| {
        let mut record = with_load(host);
        let elapsed = elapsed_ns(&record);
        ctl(&mut record).tx.wait_ns = Some(elapsed / 3);
        let of_sender = 0;
        let times = record.after.cpus.get_mut(&of_sender).expect("a CPU");
        times.busy_ns += elapsed / 2;
        times.idle_ns -= elapsed / 2;
        let task = TaskTime { name: "stress".into(), start: 80, cpu: of_sender, run_ns: elapsed / 2, realtime: false };
        record.after.tasks.insert(201, task);
        verdicts(&record).iter().any(|verdict| verdict.id == "competing-cpu" && verdict.level == Level::Invalid)
    };
    assert!(told(Some("rig")));
    assert!(!told(None), "there it is the load's own thread");
}

#[test]
fn a_load_of_another_host_shared_a_cpu_with_the_thread_on_the_cpu_of_that_number() {
    let shares = |host: Option<&str>| {
        let mut record = with_load(host);
        let apart = CpuAsked { cpu: "different".into(), of: Some("ctl.tx".into()) };
        record.placement.asked.insert("ctl.rx".into(), apart);
        let told = verdicts(&record);
        told.into_iter().filter(|verdict| verdict.id == "shared-cpu").map(|verdict| verdict.says).collect::<Vec<_>>()
    };
    assert_eq!(shares(None), [""; 0], "the receiver is on the other host");
    let says = "on rig: ctl.rx has a CPU apart from ctl.tx, as asked, and shares it, CPU 1, with spin.from";
    assert_eq!(shares(Some("rig")), [says]);
}

#[test]
fn softirq_of_another_host_ran_on_the_cpu_of_a_thread_of_this_one() {
    let told = |of: &str, cpu: u32| {
        let mut record = two_hosts();
        record.streams.get_mut("ctl").expect("the stream").rx.cpu_asked = None;
        let softirq = SoftirqRecord {
            device: "tardy0-1".into(),
            by: SoftirqBy::Rps,
            asked: CpuAsked { cpu: "different".into(), of: Some(of.into()) },
            cpu: Some(cpu),
            packets: 0,
            receivers: vec!["ctl.rx".into()],
            threads: Vec::new(),
        };
        record.placement.softirq.insert("b".into(), softirq);
        let told = verdicts(&record);
        told.into_iter().filter(|verdict| verdict.id == "shared-cpu").map(|verdict| verdict.says).collect::<Vec<_>>()
    };
    assert_eq!(told("ctl.tx", 0), [""; 0], "CPU 0 of the receiver's host is not that of the sender's");
    let says = "on rig: softirq of b is to have another CPU than ctl.rx, and both ran on CPU 1";
    assert_eq!(told("ctl.rx", CPU), [says]);
}

#[test]
fn the_thread_of_a_host_whose_states_nobody_read_was_looked_at_by_no_rule() {
    let mut record = two_hosts();
    let elapsed = elapsed_ns(&record);
    ctl(&mut record).rx.wait_ns = Some(elapsed / 3);
    // All of this is of this machine, where nothing runs on CPU 1 that could be harmed.
    disturb(&mut record.after, elapsed);
    record.after.cpus.get_mut(&CPU).expect("a CPU").steal_ns += elapsed / 4;
    record.before.work.insert(CPU, CpuWork::default());
    record.after.work.insert(CPU, CpuWork { packets: 1_000_000, ..CpuWork::default() });
    assert_eq!(verdicts(&record), []);
    // Nobody read the states of the other host: nothing is known of its CPUs.
    record.hosts.clear();
    assert_eq!(verdicts(&record), []);
    // What its thread saw in its own loop needs none.
    let stopped = SpinGaps { over_1ms: 5, longest_ns: 50_000_000, total_ns: 250_000_000 };
    ctl(&mut record).spin_gaps = Some(stopped);
    let told = verdicts(&record);
    assert_is(&told[0], "rt-bandwidth", Level::Invalid, "on rig: ctl.rx, which spins as fifo:80, was stopped");
    assert!(told[0].says.contains("no RT limit is known"), "{}", told[0].says);
}

#[test]
fn the_hosts_of_a_load_are_in_no_record_of_one_host() {
    let json = |record: &TrialRecord| serde_json::to_value(&record.loads["spin"]).expect("JSON");
    let (here, there) = (json(&with_load(None)), json(&with_load(Some("rig"))));
    assert!(here.get("hosts").is_none(), "{here}");
    assert_eq!(there["hosts"], serde_json::json!({ "from": "rig" }));
    // A record without it is of the coordinator's host.
    let read: LoadRecord = serde_json::from_value(here).expect("a record of before");
    assert_eq!(read, with_load(None).loads["spin"]);
    let read: LoadRecord = serde_json::from_value(there).expect("a record");
    assert_eq!(read.host("from"), Some("rig"));
}
