// SPDX-License-Identifier: MIT OR Apache-2.0
//! Harm, not presence: a trial is judged by how long the measuring threads waited for others, and
//! the verdict names who they were.

use super::fixture::{BASE_NS, Packet, healthy_packets, record};
use super::validity::{assert_is, ctl, judge};
use std::collections::BTreeMap;
use tardy_analyze::cell::{CellAnalysis, CellAnswer};
use tardy_model::machine::{Ended, EndedTasks, TaskTime};
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::{Figure, Level, Verdict};

const COUNT: u32 = 10_000;

fn elapsed_ns() -> i64 {
    let record = record(1, COUNT);
    record.after.clocks.monotonic_ns - record.before.clocks.monotonic_ns
}

/// A task that ran for this share of the time on a CPU.
fn busy(record: &mut TrialRecord, cpu: u32, tid: u32, name: &str, share: f64) {
    let ns = (elapsed_ns() as f64 * share) as i64;
    let times = record.after.cpus.get_mut(&cpu).expect("a CPU");
    times.busy_ns += ns;
    times.idle_ns -= ns;
    record.after.tasks.insert(tid, TaskTime { name: name.into(), start: 80, cpu, run_ns: ns, realtime: false });
}

fn part(share: f64) -> Option<i64> {
    Some((elapsed_ns() as f64 * share) as i64)
}

fn verdicts(spoil: impl FnOnce(&mut TrialRecord)) -> Vec<Verdict> {
    let mut record = record(1, COUNT);
    spoil(&mut record);
    judge(&record, &healthy_packets(1, COUNT as usize)).verdicts
}

fn only(spoil: impl FnOnce(&mut TrialRecord)) -> Verdict {
    let verdicts = verdicts(spoil);
    assert_eq!(verdicts.len(), 1, "{verdicts:?}");
    verdicts[0].clone()
}

#[test]
fn a_task_that_cannot_preempt_a_realtime_thread_does_not_invalidate_it() {
    let hog = only(|record| {
        busy(record, 1, 900, "stress", 0.9);
        ctl(record).rx.wait_ns = part(0.002);
    });
    let says = "CPU 1 also ran stress for 90.0 % of the time; ctl.rx (fifo:80) waited for a CPU for 0.2 % of the time, at most 0.2 % of \
                the time for them";
    assert_is(&hog, "competing-cpu", Level::Note, says);
    assert_eq!(hog.evidence["tasks"], Figure::List(vec!["stress".into()]));
    assert_eq!(hog.evidence["waited_for_others_ns"], part(0.002).expect("a time").into());
}

#[test]
fn a_realtime_task_in_step_with_the_tick_hid_behind_softirqs() {
    // A tick of the kernel's found its own softirq each time, and charged it with 46 % of the CPU:
    // all but 4 % of what the task ran.
    let verdict = |realtime: bool| {
        only(|record| {
            busy(record, 1, 900, "above", 0.5);
            let tick_charged = part(0.46).expect("a time");
            let times = record.after.cpus.get_mut(&1).expect("a CPU");
            times.softirq_ns += tick_charged;
            record.after.tasks.get_mut(&900).expect("the task").realtime = realtime;
            ctl(record).rx.wait_ns = part(0.48);
        })
    };
    let above = verdict(true);
    assert_is(&above, "competing-cpu", Level::Invalid, "CPU 1 also ran above for 50.0 % of the time");
    // An ordinary task takes no CPU from a realtime thread, and softirqs that interrupted it may
    // be the stream's own.
    assert_eq!(verdict(false).level, Level::Warning);
}

#[test]
fn a_realtime_thread_of_the_kernels_that_takes_packets_in_was_called_a_stranger() {
    // With threaded interrupts the softirq of the stream's own packets runs in `irq/…`, of policy
    // FIFO.
    let taken_in = |name: &str| {
        verdicts(|record| {
            busy(record, 1, 900, name, 0.5);
            record.after.cpus.get_mut(&1).expect("a CPU").softirq_ns += part(0.5).expect("a time");
            record.after.tasks.get_mut(&900).expect("the task").realtime = true;
            ctl(record).rx.wait_ns = part(0.48);
        })
    };
    for name in ["irq/24-eth0", "ktimers/1", "ksoftirqd/1", "napi/eth0-3"] {
        assert!(taken_in(name).iter().all(|verdict| verdict.level != Level::Invalid), "{name}: {:?}", taken_in(name));
    }
    assert!(taken_in("irqbalance").iter().any(|verdict| verdict.level == Level::Invalid));
}

#[test]
fn a_realtime_task_that_wandered_to_a_cpu_was_charged_to_it_whole() {
    let level = |came_from: u32| {
        let found = verdicts(|record| {
            busy(record, 1, 900, "above", 0.5);
            record.after.cpus.get_mut(&1).expect("a CPU").softirq_ns += part(0.46).expect("a time");
            let task = record.after.tasks.get_mut(&900).expect("the task");
            task.realtime = true;
            let earlier = TaskTime { cpu: came_from, run_ns: 0, ..task.clone() };
            record.before.tasks.insert(900, earlier);
            ctl(record).rx.wait_ns = part(0.48);
        });
        found.into_iter().find(|verdict| verdict.id == "competing-cpu").map(|verdict| verdict.level)
    };
    assert_eq!(level(1), Some(Level::Invalid), "it was there all the time");
    assert_ne!(level(0), Some(Level::Invalid), "it may have run elsewhere");
}

#[test]
fn the_weight_follows_from_the_wait_whatever_the_policy() {
    let level = |policy: &str, waited: f64| {
        only(|record| {
            busy(record, 1, 900, "stress", 0.9);
            ctl(record).rx.wait_ns = part(waited);
            (ctl(record).rx.policy_asked, ctl(record).rx.policy_granted) = (policy.into(), policy.into());
        })
        .level
    };
    for policy in ["other", "fifo:80"] {
        assert_eq!(level(policy, 0.005), Level::Note, "{policy}");
        assert_eq!(level(policy, 0.02), Level::Warning, "{policy}");
        assert_eq!(level(policy, 0.09), Level::Warning, "{policy}");
        assert_eq!(level(policy, 0.11), Level::Invalid, "{policy}");
    }
}

#[test]
fn nobody_waited_longer_for_others_than_they_ran() {
    // An idle CPU takes long to wake, which the kernel counts as waiting for it.
    assert_eq!(verdicts(|record| ctl(record).rx.wait_ns = part(0.3)), []);
    let some = only(|record| {
        busy(record, 1, 900, "cron", 0.03);
        ctl(record).rx.wait_ns = part(0.3);
    });
    assert_eq!((some.level, &some.evidence["waited_for_others_ns"]), (Level::Warning, &some.evidence["others_ns"]));
}

#[test]
fn a_wait_for_tardys_own_threads_and_loads_is_not_the_others_doing() {
    // Both ends on CPU 1, of which the sender ran for 30 %.
    let shared = only(|record| {
        busy(record, 1, 101, "tardy-tx0", 0.3);
        busy(record, 1, 900, "stress", 0.5);
        ctl(record).tx.cpus_seen = vec![1];
        (ctl(record).tx.cpu_asked, ctl(record).tx.affinity) = (Some(1), vec![1]);
        ctl(record).tx.run_ns = part(0.3);
        ctl(record).tx.wait_ns = Some(0);
        ctl(record).rx.wait_ns = part(0.304);
    });
    assert_is(&shared, "competing-cpu", Level::Note, "at most 0.4 % of the time for them");
    assert_eq!(shared.evidence["own_ns"], part(0.3).expect("a time").into());
}

#[test]
fn the_switch_to_a_realtime_thread_is_no_wait_for_others() {
    // 10 000 wake-ups of 55 µs each are 11 % of the time, and each takes as much without anybody
    // else.
    let of = |policy: &str| {
        only(|record| {
            busy(record, 1, 900, "stress", 0.9);
            let rx = &mut ctl(record).rx;
            (rx.wait_ns, rx.voluntary_switches, rx.wake_wait_ns) = (Some(550_000_000), 10_000, Some(55_000));
            (rx.policy_asked, rx.policy_granted) = (policy.into(), policy.into());
        })
    };
    assert_eq!(of("fifo:80").level, Level::Note);
    assert_eq!(of("other").level, Level::Invalid, "the median of an ordinary thread may hold the others' time");
}

#[test]
fn the_streams_own_interrupts_and_softirqs_are_not_others() {
    let own = |record: &mut TrialRecord| {
        let times = record.after.cpus.get_mut(&1).expect("a CPU");
        let ns = part(0.3).expect("a time");
        times.busy_ns += ns;
        times.idle_ns -= ns;
        (times.irq_ns, times.softirq_ns) = (times.irq_ns + ns / 6, times.softirq_ns + ns / 6 * 5);
    };
    assert_eq!(verdicts(own), []);
    let both = only(|record| {
        own(record);
        busy(record, 1, 900, "stress", 0.3);
    });
    assert!(both.says.starts_with("CPU 1 also ran stress for 30.0 % of the time"), "{}", both.says);
    assert_eq!(both.evidence["softirq_ns"], (part(0.3).expect("a time") / 6 * 5).into());
}

#[test]
fn tasks_that_have_ended_are_named() {
    let ended = |name: &str, cpu, count, share: f64| EndedTasks {
        name: name.into(),
        cpu,
        count,
        run_ns: part(share).expect("a time"),
    };
    let told = only(|record| {
        busy(record, 1, 900, "make", 0.4);
        record.after.tasks.get_mut(&900).expect("it").run_ns = 12_000_000;
        let tasks = vec![ended("rustc", 1, 3, 0.3), ended("rustc", 0, 2, 0.3), ended("sh", 1, 90, 0.08)];
        record.after.ended = Some(Ended { tasks, incomplete: false });
    });
    let says = "CPU 1 also ran others for 40.0 % of the time: rustc (3 of them ended) 30.0 %, sh (90 of them ended) 8.0 %; how";
    assert_is(&told, "competing-cpu", Level::Invalid, says);
    assert_eq!(told.evidence["tasks_ended"], Figure::List(vec![3u64.into(), 90u64.into()]));
    // A thread of this run's own that has just ended is nobody else's.
    let own = |other_runs: u32| {
        let told = verdicts(|record| {
            busy(record, 1, 900, "make", 0.4);
            record.after.tasks.get_mut(&900).expect("it").run_ns = 12_000_000;
            let tasks = vec![ended("tardy-load0.0", 1, 1, 0.4)];
            (record.after.ended, record.after.other_runs) = (Some(Ended { tasks, incomplete: false }), other_runs);
        });
        told.iter().any(|verdict| verdict.says.contains("tardy-load0.0"))
    };
    assert_eq!((own(0), own(1)), (false, true), "unless another run is under way");
    // That none is missing is known, so the rest cannot have ended.
    let left = only(|record| {
        busy(record, 1, 900, "make", 0.4);
        record.after.tasks.clear();
        record.after.ended = Some(Ended { tasks: vec![ended("rustc", 1, 3, 0.1)], incomplete: false });
    });
    assert!(
        left.says.contains("rustc (3 of them ended) 10.0 %, time that no task accounts for 30.0 %"),
        "{}",
        left.says
    );
    let missing = only(|record| {
        busy(record, 1, 900, "make", 0.4);
        record.after.tasks.clear();
        record.after.ended = Some(Ended { tasks: vec![ended("rustc", 1, 3, 0.1)], incomplete: true });
    });
    assert!(missing.says.contains("tasks that have ended 30.0 %"), "{}", missing.says);
}

fn cell(trials: impl IntoIterator<Item = TrialRecord>) -> CellAnswer {
    let mut cell = CellAnalysis::new("all", BTreeMap::new(), BTreeMap::new(), Vec::new());
    for record in trials {
        let packets: Vec<Packet> = healthy_packets(u64::from(record.n), COUNT as usize);
        cell.trial(&record, [("ctl", super::fixture::batch(0, &packets))]);
    }
    cell.finish()
}

#[test]
fn the_verdict_of_a_cell_names_the_worst_and_what_is_alike_is_of_one_cpu() {
    // CPU 0 in trials 1 and 2, once much and once little; CPU 1, the worse one, in trial 2.
    let of = |n: u32, used: &[(u32, &str, f64, f64)]| {
        let mut record = record(n, COUNT);
        for (i, (cpu, name, ran, waited)) in used.iter().enumerate() {
            busy(&mut record, *cpu, 900 + i as u32, name, *ran);
            let thread = if *cpu == 0 { &mut ctl(&mut record).tx } else { &mut ctl(&mut record).rx };
            thread.wait_ns = part(*waited);
        }
        record
    };
    let first = of(1, &[(0, "cc1", 0.38, 0.2)]);
    let second = of(2, &[(0, "python3", 0.105, 0.005), (1, "rustc", 0.836, 0.7)]);
    let answer = cell([first, second]);
    let told: Vec<&Verdict> = answer.result.verdicts.iter().filter(|v| v.id == "competing-cpu").collect();
    let [one, zero] = told[..] else { panic!("{told:?}") };
    assert_is(
        one,
        "competing-cpu",
        Level::Invalid,
        "trial 2: CPU 1 also ran rustc for 83.6 % of the time; ctl.rx (fifo:80) waited",
    );
    assert!(!one.says.contains("trial 1"), "nobody else ran on CPU 1 in trial 1: {}", one.says);
    assert_is(zero, "competing-cpu", Level::Invalid, "trial 1: CPU 0 also ran cc1 for 38.0 % of the time");
    assert!(
        zero.says.ends_with(
            "; others ran there in trial 2 too, from 10.5 % to 38.0 % of the time in all, and python3 besides"
        ),
        "{}",
        zero.says
    );
    assert_eq!(zero.evidence["tasks"], Figure::List(vec!["cc1".into(), "python3".into()]));
    assert_eq!(zero.evidence["trials"], Figure::List(vec![1i64.into(), 2i64.into()]));
}

#[test]
fn a_cell_tells_who_used_each_cpu() {
    let mut record = record(1, COUNT);
    record.before.work = [0, 1].map(|cpu| (cpu, Default::default())).into();
    record.after.work = record.before.work.clone();
    busy(&mut record, 1, 900, "cc1", 0.2);
    busy(&mut record, 1, 901, "rustc", 0.4);
    assert!(record.base_tai_ns == BASE_NS);
    let answer = cell([record]);
    let one = &answer.result.cpus[1];
    assert_eq!(
        (one.cpu, one.others_ns, one.elapsed_ns),
        (1, part(0.2).zip(part(0.4)).map(|(a, b)| a + b), elapsed_ns())
    );
    let names: Vec<&str> = one.others.iter().map(|user| user.name.as_str()).collect();
    assert_eq!(names, ["rustc", "cc1"]);
}

#[test]
fn a_sender_that_was_told_of_its_start_too_late_is_not_valid_however_little_it_waited() {
    let late = only(|record| ctl(record).tx.told_ahead_ns = Some(-273_000_000));
    let says = "ctl.tx was told of its start 273.0 ms after its first packet was due, so 547 packets are late by tardy's own doing";
    assert_is(&late, "late-start", Level::Invalid, says);
    assert_eq!(verdicts(|record| ctl(record).tx.told_ahead_ns = Some(9_000_000)), []);
    // A closed loop has no schedule that it could be late by.
    let mut asks = record(1, COUNT);
    (ctl(&mut asks).cycle_ns, ctl(&mut asks).tx.told_ahead_ns) = (0, Some(-273_000_000));
    let told = judge(&asks, &healthy_packets(1, COUNT as usize)).verdicts;
    assert!(!told.iter().any(|verdict| verdict.id == "late-start"), "{told:?}");
}
