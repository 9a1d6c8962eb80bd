// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ends of a stream on two hosts: CPUs are numbered by each host for itself, and what one
//! host's tasks do harms only its own threads.

use super::fixture::{BASE_NS, healthy_packets, record};
use super::validity::{assert_is, ctl, judge};
use tardy_model::machine::{CpuTimes, MachineState, TaskTime};
use tardy_model::placement::{CpuAsked, CpuWork, SoftirqBy, SoftirqRecord};
use tardy_model::time::ClockReading;
use tardy_model::time::{Offset, OffsetReading};
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::{Level, Verdict};

const COUNT: u32 = 10_000;
/// The receiver's CPU, and the number of another CPU on the sender's host.
const CPU: u32 = 1;

/// Receives on another host, whose clock is known within a microsecond.
fn two_hosts() -> TrialRecord {
    let mut record = record(1, COUNT);
    let at = |at_tai_ns| OffsetReading { at_tai_ns, ahead_ns: 3_000_000, bound_ns: 1_000 };
    let (first, last) = (at(BASE_NS), at(BASE_NS + 1_000_000_000));
    ctl(&mut record).offsets.rx = Some(Offset { host: "rig".into(), first, last, method: "told".into() });
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
    assert_eq!(negative(&two_hosts(), &packets), 0, "within 1 µs");
    packets[7].rx_kernel = packets[7].tx_kernel.map(|ns| ns - 1_100_000);
    assert_eq!(negative(&two_hosts(), &packets), 1, "beyond it");
}
