// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring threads that the kernel stops, or that did not get what they asked for.

use super::fixture::{healthy_packets, record};
use super::validity::{COUNT, assert_is, ctl, judge, verdict};
use tardy_model::trial::{SpinGaps, TrialRecord};
use tardy_model::verdict::Level;

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
