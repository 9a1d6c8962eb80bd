// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who used a CPU during a trial: tardy's measuring threads, its loads, other tasks by name,
//! interrupts. And how long each measuring thread waited for that CPU because of others, which is
//! the harm that they did.

use super::{Evidence, Thread, TrialCpu, load, rt_bandwidth};
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::load::LoadKind;
use tardy_model::machine::{CpuTimes, EndedTasks, MachineState, TaskTime};
use tardy_model::result::CpuUser;

/// A CPU of a host, and what was read of that host.
#[derive(Clone, Copy)]
struct Asked<'e, 'a> {
    evidence: &'e Evidence<'a>,
    at: TrialCpu<'e>,
    before: &'a MachineState,
    after: &'a MachineState,
    /// Time between the two readings, ns.
    elapsed_ns: i64,
}

/// What a CPU did during a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CpuUse {
    /// Time between the two readings, ns.
    pub elapsed_ns: i64,
    /// Time in interrupts, anybody's, ns.
    pub irq_ns: i64,
    /// Time in softirqs, anybody's, ns.
    pub softirq_ns: i64,
    /// Time that measuring threads ran there, at most, ns.
    pub ours_ns: i64,
    /// Time that loads ran there, at most, ns.
    pub loads_ns: i64,
    /// Time that other tasks ran there, at least, ns.
    pub others_ns: i64,
    /// Who they are, those that ran longest first.
    pub users: Vec<CpuUser>,
    /// True if the tasks that ended are all among them.
    pub ended_known: bool,
}

/// Time that was not idle. The kernel samples busy time at its tick, which falls into step with a
/// cyclic stream and then charges whole ticks to it; idle time it measures. So the lesser of the
/// two counts.
fn busy_ns(times: &CpuTimes, elapsed_ns: i64) -> i64 {
    if elapsed_ns <= 0 {
        return times.busy_ns;
    }
    times.busy_ns.min(elapsed_ns.saturating_sub(times.idle_ns).saturating_sub(times.steal_ns))
}

/// What a measuring thread ran. A spinning receiver ran all the time but for its gaps, before the
/// first packet and after the last too.
pub(super) fn ran_ns(thread: &Thread<'_>, elapsed_ns: i64) -> Option<i64> {
    match thread.gaps() {
        Some(gaps) if thread.end == "rx" => {
            let spun = elapsed_ns.saturating_sub(gaps.total_ns);
            Some(thread.record.run_ns.map_or(spun, |ran| ran.max(spun)))
        }
        _ => thread.record.run_ns,
    }
}

/// What the measuring threads ran on a CPU, at most: one that moved between CPUs counts on each.
/// `None` if that is not known of one of them: then nobody can tell what the others ran.
fn ours_ns(asked: &Asked<'_, '_>) -> Option<i64> {
    let on_it = asked.evidence.threads_at(asked.at);
    on_it.map(|thread| ran_ns(&thread, asked.elapsed_ns)).try_fold(0i64, |sum, ran| Some(sum.saturating_add(ran?)))
}

/// What a task ran in the trial. It is the same by thread id and start, for kernel workers change
/// their names. One that is not in the first reading is new, or had run for less than a tick then,
/// so counting it from 0 is wrong by 10 ms at most. No task ran longer than the time that passed.
fn task_ns(asked: &Asked<'_, '_>, tid: u32, task: &TaskTime) -> i64 {
    let before = &asked.before.tasks;
    let began = before.get(&tid).filter(|earlier| earlier.start == task.start).map_or(0, |earlier| earlier.run_ns);
    task.run_ns.saturating_sub(began).clamp(0, asked.elapsed_ns.max(0))
}

/// What the loads ran on a CPU, at most: their own threads, and the programs that they started.
fn loads_ns(asked: &Asked<'_, '_>) -> i64 {
    let TrialCpu { host, cpu } = asked.at;
    let loads = asked.evidence.record.loads.values();
    let threads: BTreeMap<u32, i64> = loads
        .flat_map(|load| load.sides_on(host.name()))
        .filter(|(_, side)| side.thread.cpus_seen.contains(&cpu))
        .map(|(_, side)| (side.thread.tid, side.thread.run_ns.unwrap_or(asked.elapsed_ns)))
        .collect();
    let Some(expected) = load::expected(asked.evidence, host) else { return 0 };
    let tasks = asked
        .after
        .tasks
        .iter()
        .filter(|(tid, task)| task.cpu == cpu && !threads.contains_key(tid) && expected.holds(**tid, task));
    let tasks = tasks.map(|(tid, task)| task_ns(asked, *tid, task));
    tasks.chain(threads.values().copied()).fold(0, i64::saturating_add)
}

/// A thread of this run's that just ended is nobody else's. The kernel says no more of it than its
/// name, so this is not sure where another run was under way.
fn is_own(asked: &Asked<'_, '_>, name: &str) -> bool {
    name.starts_with("tardy-") && asked.before.other_runs == 0 && asked.after.other_runs == 0
}

/// Threads of the kernel's that take packets and timers in, of a realtime policy on a kernel with
/// PREEMPT_RT or threaded interrupts. What they run is time of interrupts and softirqs.
const INTAKE: [&str; 4] = ["irq/", "ktimers/", "ksoftirqd/", "napi/"];

/// What other tasks of some kind ran on a CPU: those that were on it at both readings, or are new.
/// One that wanders may have run elsewhere.
fn stayed_ns(asked: &Asked<'_, '_>, are_meant: impl Fn(&TaskTime) -> bool) -> i64 {
    let (strange, cpu) = (strange(asked), asked.at.cpu);
    let before = &asked.before.tasks;
    let stayed = |tid: &u32, task: &TaskTime| {
        before.get(tid).filter(|earlier| earlier.start == task.start).is_none_or(|earlier| earlier.cpu == cpu)
    };
    let tasks = asked.after.tasks.iter().filter(|(tid, task)| {
        let takes_in = INTAKE.iter().any(|prefix| task.name.starts_with(prefix));
        are_meant(task) && task.cpu == cpu && !takes_in && stayed(tid, task) && strange(**tid, task)
    });
    tasks.map(|(tid, task)| task_ns(asked, *tid, task)).fold(0, i64::saturating_add)
}

/// What the run's own virtual machines ran on a CPU, at most: they are a part of the path. Their
/// threads move between CPUs, so each counts on every CPU.
fn machines_ns(asked: &Asked<'_, '_>) -> i64 {
    let tasks = asked.after.machine_tasks.iter().filter_map(|tid| Some((*tid, asked.after.tasks.get(tid)?)));
    tasks.map(|(tid, task)| task_ns(asked, tid, task)).fold(0, i64::saturating_add)
}

/// True of a task that is neither one of the host's measuring threads nor of its loads, nor of the
/// run's own virtual machines.
fn strange(asked: &Asked<'_, '_>) -> impl Fn(u32, &TaskTime) -> bool + use<> {
    let (evidence, host) = (asked.evidence, asked.at.host);
    let ours: BTreeSet<u32> = evidence.threads_on(host).map(|thread| thread.record.tid).collect();
    let expected = load::expected(evidence, host);
    let ours = &ours | &asked.after.machine_tasks;
    move |tid, task| !ours.contains(&tid) && expected.as_ref().is_none_or(|expected| !expected.holds(tid, task))
}

/// Tasks of others that ended on a CPU. Where a load is a program, what it started and what has
/// ended is not known to be another's, so there are none.
fn ended<'a>(asked: &Asked<'_, 'a>) -> impl Iterator<Item = &'a EndedTasks> {
    let mut loads = asked.evidence.record.loads.values();
    let host = asked.at.host.name();
    let has_programs = loads.any(|load| matches!(load.kind, LoadKind::Command { .. }) && load.is_on(host));
    let ended = asked.after.ended.iter().filter(move |_| !has_programs).flat_map(|ended| &ended.tasks);
    ended.filter(|task| task.cpu == asked.at.cpu && !is_own(asked, &task.name))
}

/// What they ran there.
fn ended_ns(asked: &Asked<'_, '_>) -> i64 {
    ended(asked).map(|task| task.run_ns).fold(0, i64::saturating_add)
}

/// Other tasks that ran on a CPU, those of one name together, the longest first.
fn users(asked: &Asked<'_, '_>) -> Vec<CpuUser> {
    let (strange, cpu) = (strange(asked), asked.at.cpu);
    let tasks = asked.after.tasks.iter().filter(|(tid, task)| task.cpu == cpu && strange(**tid, task));
    let living = tasks.map(|(tid, task)| (task.name.as_str(), task_ns(asked, *tid, task), 0));
    let ended = ended(asked).map(|task| (task.name.as_str(), task.run_ns, task.count));
    let mut by_name: BTreeMap<&str, CpuUser> = BTreeMap::new();
    for (name, ran, ended) in living.chain(ended) {
        let user = by_name.entry(name).or_insert_with(|| CpuUser { name: name.to_owned(), ..CpuUser::default() });
        user.run_ns = user.run_ns.saturating_add(ran).min(asked.elapsed_ns.max(0));
        user.ended += ended;
    }
    let mut users: Vec<CpuUser> = by_name.into_values().filter(|user| user.run_ns > 0).collect();
    users.sort_by_key(|user| std::cmp::Reverse(user.run_ns));
    users
}

/// Who used a CPU; `None` where a reading of its host's state lacks it or there is none, or it is
/// not known how long one of the measuring threads ran.
pub(crate) fn of(evidence: &Evidence<'_>, at: TrialCpu<'_>) -> Option<CpuUse> {
    let [before, after] = evidence.states(at.host)?;
    let times = evidence.cpu(at)?;
    // By the clock that nobody sets.
    let elapsed_ns = match after.clocks.monotonic_ns.saturating_sub(before.clocks.monotonic_ns) {
        elapsed if elapsed > 0 => elapsed,
        _ => times.busy_ns.saturating_add(times.idle_ns),
    };
    let asked = &Asked { evidence, at, before, after, elapsed_ns };
    let (measuring_ns, machines_ns) = (ours_ns(asked)?, machines_ns(asked));
    let ours_ns = measuring_ns.saturating_add(machines_ns);
    let loads_ns = loads_ns(asked);
    let users = users(asked);
    // While the kernel stops a realtime thread, somebody else has its CPU; `rt-bandwidth` says
    // that.
    let stopped = rt_bandwidth::stopped(evidence, at.host);
    let stops = stopped.iter().filter(|stopped| stopped.thread.cpus().contains(&at));
    let stopped_ns = stops.map(|stopped| stopped.gaps.total_ns).fold(0, i64::saturating_add);
    // The stream's own packets are taken in by interrupts and softirqs: nobody else's doing.
    let apart = [times.irq_ns, times.softirq_ns, ours_ns, stopped_ns].into_iter().fold(0, i64::saturating_add);
    let busy_ns = busy_ns(&times, elapsed_ns);
    // The kernel samples the time of softirqs at its tick, and who wakes up with the tick makes it
    // charge whole ticks to them. What a realtime task ran is measured: no thread below it had the
    // CPU meanwhile, whatever interrupted it.
    let not_ours_ns = busy_ns.saturating_sub(measuring_ns).saturating_sub(stopped_ns);
    let mut others_ns = busy_ns.saturating_sub(apart).max(stayed_ns(asked, |task| task.realtime).min(not_ours_ns));
    if machines_ns > 0 {
        // Where a machine's threads ran nobody knows. A task that stayed on this CPU ran here.
        let intake_ns = times.irq_ns.saturating_add(times.softirq_ns);
        let known_ns = stayed_ns(asked, |_| true).saturating_add(ended_ns(asked));
        others_ns = others_ns.max(known_ns.min(not_ours_ns.saturating_sub(intake_ns)));
    }
    if load::expected(evidence, at.host).is_some() {
        // What the kernel does for a load has no name of its own: only tasks that can be named
        // count.
        let named = users.iter().map(|user| user.run_ns).fold(0, i64::saturating_add);
        others_ns = others_ns.min(named);
    }
    // The machines had no more of this CPU than the others left: what they ran elsewhere accounts
    // for nobody's wait here.
    let ours_ns = measuring_ns.saturating_add(machines_ns.min(not_ours_ns.saturating_sub(others_ns).max(0)));
    let ended = after.ended.as_ref();
    Some(CpuUse {
        elapsed_ns,
        irq_ns: times.irq_ns,
        softirq_ns: times.softirq_ns,
        ours_ns,
        loads_ns,
        others_ns: others_ns.max(0),
        users,
        ended_known: ended.is_some_and(|ended| !ended.incomplete),
    })
}

/// What others did to a measuring thread on a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Harm<'a> {
    pub thread: Thread<'a>,
    /// Of its wait, what tardy's own threads, loads and the wake-ups themselves account for, at
    /// most, ns.
    pub own_ns: i64,
    /// Time that it waited for others, ns: no longer than they ran. Where the kernel does not say
    /// how long it waited, as long as that.
    pub waited_ns: i64,
}

/// What the other measuring threads and the run's machines ran on a CPU of this thread's, ns.
fn neighbours_ns(thread: &Thread<'_>, used: &CpuUse) -> i64 {
    used.ours_ns.saturating_sub(ran_ns(thread, used.elapsed_ns).unwrap_or(0)).max(0)
}

/// A shorter wait than this is one for the scheduler alone, ns.
const WAITED_NS: i64 = 1_000_000;

/// The copying thread that waited longest for a CPU because of others, as a share of its own time,
/// where the kernel's ticks do not show that others ran. Its wait is measured, not sampled. What a
/// realtime thread waits for is its like, or the limit of such threads.
pub(super) fn waited_unseen<'a>(evidence: &Evidence<'a>, at: TrialCpu<'_>, used: &CpuUse) -> Option<(Harm<'a>, f64)> {
    let copying = evidence.threads_at(at).filter(|thread| thread.number.is_some() && !thread.is_realtime());
    let harms = copying.filter_map(|thread| {
        let (wait_ns, over_ns) = (thread.record.wait_ns?, thread.record.over_ns?);
        let own_ns = neighbours_ns(&thread, used).saturating_add(used.loads_ns);
        let waited_ns = wait_ns.saturating_sub(own_ns);
        (waited_ns >= WAITED_NS && over_ns > 0)
            .then(|| (Harm { thread, own_ns, waited_ns }, waited_ns as f64 / over_ns as f64))
    });
    harms.max_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// The measuring thread that waited longest for a CPU because of others.
pub(super) fn worst<'a>(evidence: &Evidence<'a>, at: TrialCpu<'_>, used: &CpuUse) -> Option<Harm<'a>> {
    let harms = evidence.threads_at(at).map(|thread| {
        let neighbours_ns = neighbours_ns(&thread, used);
        // What the switch to a realtime thread takes, the ruler knows. That of an ordinary thread
        // may hold the others' time.
        let switches = i64::try_from(thread.record.voluntary_switches).unwrap_or(i64::MAX);
        let wake_ns = thread.record.wake_wait_ns.filter(|_| thread.is_realtime()).unwrap_or(0);
        let own_ns = neighbours_ns.saturating_add(used.loads_ns).saturating_add(wake_ns.saturating_mul(switches));
        let waited_ns = match thread.record.wait_ns {
            Some(waited) => waited.saturating_sub(own_ns).clamp(0, used.others_ns),
            None => used.others_ns,
        };
        Harm { thread, own_ns, waited_ns }
    });
    harms.max_by_key(|harm| harm.waited_ns)
}
