// SPDX-License-Identifier: MIT OR Apache-2.0
//! Harm, not presence: a trial is judged by how long the measuring threads waited for others, and
//! the verdict names who they were.

use super::fixture::{BASE_NS, LEAD, Packet, batches, healthy_packets, record};
use super::threads::spin;
use super::validity::{assert_is, ctl, judge, verdict};
use std::collections::BTreeMap;
use tardy_analyze::cell::{CellAnalysis, CellAnswer};
use tardy_model::expect::{Expectation, Limit, Of};
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
    let says = "CPU 1 also ran stress for 90.0 % of the time; ctl.rx (fifo:80) waited for a CPU for 0.2 % of the time, possibly all \
                of it because of them";
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
    assert_is(
        &shared,
        "competing-cpu",
        Level::Note,
        "waited for a CPU for 30.4 % of the time, up to 0.4 % because of them",
    );
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
    assert!(left.says.contains("rustc (3 of them ended) 10.0 %, unnamed work 30.0 %"), "{}", left.says);
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
            "; others ran there in trial 2 too, python3 among them, over all these trials for 10.5 % to 38.0 % of the time"
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
    let says = "ctl.tx learned of its start 273.0 ms after its first packet was due, so 547 packets are late by tardy's own doing";
    assert_is(&late, "late-start", Level::Invalid, says);
    assert_eq!(verdicts(|record| ctl(record).tx.told_ahead_ns = Some(9_000_000)), []);
    // A closed loop has no schedule that it could be late by.
    let mut asks = record(1, COUNT);
    (ctl(&mut asks).cycle_ns, ctl(&mut asks).tx.told_ahead_ns) = (0, Some(-273_000_000));
    let told = judge(&asks, &healthy_packets(1, COUNT as usize)).verdicts;
    assert!(!told.iter().any(|verdict| verdict.id == "late-start"), "{told:?}");
}

fn run_other(record: &mut TrialRecord, ns: i64, task: Option<&str>) {
    let cpu = record.after.cpus.get_mut(&1).unwrap();
    cpu.busy_ns += ns;
    cpu.idle_ns -= ns;
    if let Some(name) = task {
        record
            .after
            .tasks
            .insert(900, TaskTime { name: name.to_owned(), start: 80, cpu: 1, run_ns: ns, realtime: false });
    }
}

#[test]
fn others_on_the_same_cpu() {
    let hog = verdict(|record, _| run_other(record, 2_000_000_000, Some("hog")));
    assert_is(&hog, "competing-cpu", Level::Invalid, "CPU 1 also ran hog for 39.8 % of the time");
    let note = verdict(|record, _| {
        run_other(record, 200_000_000, None);
        ctl(record).rx.wait_ns = Some(0);
        record.after.tasks.get_mut(&17).unwrap().run_ns += 190_000_000;
    });
    assert_is(&note, "competing-cpu", Level::Note, "CPU 1 also ran ksoftirqd/1 for 4.0 % of the time");
    let unnamed = verdict(|record, _| {
        run_other(record, 200_000_000, None);
        ctl(record).rx.wait_ns = Some(0);
    });
    assert_is(&unnamed, "competing-cpu", Level::Note, "tasks that have ended");
    let quiet = |spoil: fn(&mut TrialRecord)| {
        let mut record = record(1, COUNT);
        spoil(&mut record);
        judge(&record, &healthy_packets(1, COUNT as usize)).verdicts
    };
    let little = |record: &mut TrialRecord| {
        run_other(record, 90_000_000, Some("hog"));
        ctl(record).rx.wait_ns = Some(0);
    };
    assert_eq!(quiet(little), [], "below 2 %, and nobody waited");
    // The tick that falls into step with the stream charges it whole ticks; the idle time shows
    // that nobody ran.
    assert_eq!(quiet(|record| record.after.cpus.get_mut(&1).unwrap().busy_ns += 4_000_000_000), []);
    // In 200 ms three ticks are a sixth: no figure.
    let mut short = super::fixture::record(1, 400);
    run_other(&mut short, 30_000_000, None);
    assert!(judge(&short, &healthy_packets(1, 400)).verdicts.is_empty());
}

#[test]
fn a_task_is_not_blamed_with_its_lifetime() {
    // A kernel worker changes its name with its work; it has run for an hour before, and 200 ms in
    // the trial.
    let hour = 3_600_000_000_000;
    let worker = |name: &str, run_ns| TaskTime { name: name.to_owned(), start: 70, cpu: 1, run_ns, realtime: false };
    let renamed = verdict(|record, _| {
        run_other(record, 200_000_000, None);
        ctl(record).rx.wait_ns = Some(0);
        record.before.tasks.insert(30, worker("kworker/1:0", hour));
        record.after.tasks.insert(30, worker("kworker/1:0-events", hour + 5_000_000));
        record.after.tasks.get_mut(&17).unwrap().run_ns += 195_000_000;
    });
    assert_is(&renamed, "competing-cpu", Level::Note, "CPU 1 also ran ksoftirqd/1 for 4.0 % of the time");
    assert_eq!(renamed.evidence["tasks_ns"], Figure::List(vec![195_000_000i64.into()]));
    // Its number was given anew: another task, which counts from 0.
    let reused = verdict(|record, _| {
        run_other(record, 200_000_000, None);
        ctl(record).rx.wait_ns = Some(0);
        record.before.tasks.insert(30, worker("make", hour));
        record.after.tasks.insert(30, TaskTime { start: 90, ..worker("cc1", 180_000_000) });
    });
    assert_is(&reused, "competing-cpu", Level::Note, "CPU 1 also ran cc1 for 4.0 % of the time");
    // Nobody ran longer than the time that passed.
    let clamped = verdict(|record, _| {
        run_other(record, 200_000_000, None);
        record.after.tasks.insert(30, worker("kworker/1:0", hour));
    });
    let elapsed = record(1, COUNT).after.clocks.monotonic_ns - record(1, COUNT).before.clocks.monotonic_ns;
    assert_eq!(clamped.evidence["tasks_ns"], Figure::List(vec![elapsed.into()]));
}

#[test]
fn several_tasks_are_told_with_the_share_of_each() {
    let several = verdict(|record, _| {
        run_other(record, 3_000_000_000, None);
        let task = |name: &str, run_ns| TaskTime { name: name.to_owned(), start: 80, cpu: 1, run_ns, realtime: false };
        record.after.tasks.insert(900, task("rustc", 1_000_000_000));
        record.after.tasks.insert(901, task("rustc", 1_000_000_000));
        record.after.tasks.insert(902, task("cc1", 600_000_000));
    });
    let says = "CPU 1 also ran others for 59.8 % of the time: rustc 39.8 %, cc1 12.0 %";
    assert_is(&several, "competing-cpu", Level::Invalid, says);
    let ended = verdict(|record, _| run_other(record, 2_000_000_000, None));
    assert_is(
        &ended,
        "competing-cpu",
        Level::Invalid,
        "also ran tasks that have ended for 39.8 % of the time; how long",
    );
    let part = verdict(|record, _| {
        run_other(record, 2_000_000_000, Some("hog"));
        record.after.tasks.get_mut(&900).unwrap().run_ns = 500_000_000;
    });
    let says = "for 39.8 % of the time: hog 10.0 %, tasks that have ended 29.9 %";
    assert_is(&part, "competing-cpu", Level::Invalid, says);
}

#[test]
fn a_thread_of_unknown_running_time_blames_nobody() {
    let mut unknown = record(1, COUNT);
    run_other(&mut unknown, 2_000_000_000, Some("hog"));
    ctl(&mut unknown).rx.run_ns = None;
    assert_eq!(judge(&unknown, &healthy_packets(1, COUNT as usize)).verdicts, []);
    // A spinner ran but for its gaps, whatever the kernel says.
    let spun = verdict(|record, _| {
        spin(record, 5, 49_800_000);
        ctl(record).rx.run_ns = None;
    });
    assert_is(&spun, "rt-bandwidth", Level::Invalid, "(5 gaps over 1 ms)");
}

/// Others held up the receiver for 5 % of the time, which the rules allow, and p99 was over its
/// limit by what they did: the exit code blamed the path.
#[test]
fn a_limit_that_others_had_broken_was_called_broken() {
    let judged_in = |exact: bool, share: f64, of: usize, limit_ns: i64| {
        let mut record = record(1, COUNT);
        busy(&mut record, 1, 900, "stress", 0.9);
        ctl(&mut record).rx.wait_ns = part(share);
        let limit = Limit::Metric { metric: LEAD, of: Of::Quantile(of), limit_ns, inclusive: false };
        let asked = BTreeMap::from([("ctl".to_owned(), vec![LEAD])]);
        let expected = vec![Expectation { stream: "ctl".to_owned(), limit }];
        let mut cell = CellAnalysis::new("all", BTreeMap::new(), asked, expected);
        if exact {
            cell.exact();
        }
        let packets = healthy_packets(1, COUNT as usize);
        cell.trial(&record, batches(&packets, 4_096).into_iter().map(|batch| ("ctl", batch)));
        let answer = cell.finish();
        let quantiles = answer.result.streams["ctl"].metrics[&LEAD.to_string()].figures.quantiles.as_array();
        (answer.expectations[0].clone(), quantiles)
    };
    let judged = |share, of, limit_ns| judged_in(false, share, of, limit_ns);
    let (_, quantiles) = judged(0.05, 2, 1);
    let [p50, p90, p99] = [0, 1, 2].map(|at: usize| quantiles[at].expect("it is resolved"));
    assert!(p50 < p90 && p90 < p99, "{quantiles:?}");
    let (open, _) = judged(0.05, 2, p99);
    assert_eq!((open.met, open.got_ns), (None, Some(p99)));
    let why = open.why.expect("a reason");
    assert!(
        why.contains("waited for others for up to 5.0 % of the time") && why.contains("1.0 % of the packets"),
        "{why}"
    );
    // Nobody but tardy is in an exact guest.
    assert_eq!(judged_in(true, 0.05, 2, p99).0.met, Some(false));
    // p90 is over it too: with or without others it is broken.
    assert_eq!(judged(0.05, 2, p90).0.met, Some(false));
    // They cannot have broken a limit of p90, and half of a percent cannot have broken one of p99.
    assert_eq!(judged(0.05, 1, p90).0.met, Some(false));
    assert_eq!(judged(0.005, 2, p99).0.met, Some(false));
    // What is kept is kept in spite of them.
    assert_eq!(judged(0.05, 2, p99 + 1).0.met, Some(true));
}
