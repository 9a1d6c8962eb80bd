// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about copying threads: whether their bandwidths may be added up, and whether threads of a
//! realtime policy kept each other from their CPUs, or the kernel stopped them.

use super::{Evidence, Rule, Spoils};
use crate::copying::parallel::MAY_DIFFER;
use crate::says;
use tardy_model::copy::{CopyRecord, CopyResult, CopyThread};
use tardy_model::result::StreamResult;
use tardy_model::verdict::{Level, Verdict};

/// `added-up`: may the bandwidths of all threads be added up?
pub(super) const ADDED_UP: Rule = Rule { id: "added-up", spoils: Spoils::Measuring, judge: added_up };

/// The copies of a trial, with what was recorded of each.
fn copies<'a>(evidence: &Evidence<'a>) -> impl Iterator<Item = (&'a str, &'a CopyRecord, &'a CopyResult)> + use<'a> {
    let (record, results) = (evidence.record, evidence.results);
    let of = move |(stream, result): (&'a String, &'a StreamResult)| {
        Some((stream.as_str(), record.streams.get(stream)?.copy.as_ref()?, result.copy.as_ref()?))
    };
    results.iter().filter_map(of)
}

fn added_up(evidence: &Evidence<'_>) -> Vec<Verdict> {
    // The bandwidth of one thread is that of all.
    copies(evidence)
        .filter(|(_, record, _)| record.threads.len() > 1)
        .map(|(stream, _, of)| verdict(stream, of))
        .collect()
}

fn verdict(stream: &str, of: &CopyResult) -> Verdict {
    let at_once = format!("{:.2} threads copied at once", of.parallelism);
    let idle = match of.threads.saturating_sub(of.assumed) {
        0 => String::new(),
        idle => format!("; {} did no pass", says::count(idle.into(), "thread", "threads")),
    };
    let (level, says) = if of.may_be_added_up {
        let off = says::share(of.sum_error.abs());
        (Level::Ok, format!("the bandwidths may be added up: the sum is off by {off}; {at_once}{idle}"))
    } else {
        let pair = of.least_overlaps.first().map_or_else(String::new, |pair| {
            let [a, b] = pair.threads;
            format!(
                ", and threads {a} and {b} were in a pass together for {} of the shorter time",
                says::share(pair.share)
            )
        });
        let all_ns = of.in_flight_ns.get(of.assumed as usize).copied().unwrap_or(0);
        let all = all_ns as f64 / of.wall_ns.max(1) as f64;
        let who = if of.assumed == 2 { "both".to_owned() } else { format!("all {}", of.assumed) };
        let together = format!("{who} were in a pass together for {} of the time{pair}", says::share(all));
        // In passes all the time, and yet not copying: they took turns on their CPUs.
        let turns = match of.sum_error.abs() <= MAY_DIFFER {
            true => "; so each one's own bandwidth is that of its share of a CPU",
            false => "",
        };
        let why = match of.times_less > 1.0 + MAY_DIFFER {
            true => format!("they ran {:.1} times less in parallel than the sum assumes", of.times_less),
            false => format!("the sum is wrong by {:+.1} %", of.sum_error * 100.0),
        };
        (Level::Warning, format!("the bandwidths may not be added up: {why}; {at_once}, {together}{turns}{idle}"))
    };
    let verdict = Verdict::new(ADDED_UP.id, level, says)
        .with("stream", stream)
        .with("times_less", of.times_less)
        .with("sum_error", of.sum_error)
        .with("parallelism", of.parallelism)
        .with("wall_bytes_s", of.wall_bytes_s)
        .with("sum_bytes_s", of.sum_bytes_s);
    match of.overlap_mean {
        Some(mean) => verdict.with("overlap_mean", mean),
        None => verdict,
    }
}

/// `starved-copy`: threads of a realtime policy had the CPUs, and others of the same copy waited
/// until these were done.
pub(super) const STARVED_COPY: Rule = Rule { id: "starved-copy", spoils: Spoils::Measuring, judge: starved };

/// A thread is starved if it waited for a CPU for this part of the wall time or more.
const STARVED: f64 = 0.25;

fn is_realtime(policy: &str) -> bool {
    policy.starts_with("fifo") || policy.starts_with("rr")
}

fn starved(evidence: &Evidence<'_>) -> Vec<Verdict> {
    copies(evidence).filter_map(|(stream, record, of)| of_copy(stream, record, of)).collect()
}

/// The threads that share a CPU with others of the same copy: those that are bound to one CPU, and
/// those that are not bound if there are more threads than CPUs.
fn crowded(record: &CopyRecord) -> impl Iterator<Item = &CopyThread> {
    let bound_to = |cpu: u32| record.threads.iter().filter(|of| of.thread.cpu_asked == Some(cpu)).count();
    record.threads.iter().filter(move |of| match of.thread.cpu_asked {
        Some(cpu) => bound_to(cpu) > 1,
        // Where the kernel did not say on which it may run, it may have been any.
        None => of.thread.affinity.is_empty() || record.threads.len() > of.thread.affinity.len(),
    })
}

fn of_copy(stream: &str, record: &CopyRecord, of: &CopyResult) -> Option<Verdict> {
    // A thread that has a CPU to itself waited for nobody of its own copy.
    let threads: Vec<_> = crowded(record).filter(|of| is_realtime(&of.thread.policy_granted)).collect();
    let waits = || threads.iter().filter_map(|of| of.thread.wait_ns);
    let long = waits().filter(|wait_ns| *wait_ns as f64 >= STARVED * of.wall_ns as f64).count();
    if long == 0 || record.threads.len() < 2 {
        return None;
    }
    let longest_ns = waits().max().unwrap_or(0);
    let first = &threads.first()?.thread;
    let policy = first.policy_granted.as_str();
    let (had, help) = match first.cpu_asked {
        Some(_) => (
            "others of it that are bound to the same CPU had it",
            "bind no more threads to a CPU than one (copy.cpus), or give them policy other",
        ),
        None => ("others of it had all CPUs", "take as many threads as there are CPUs, or policy other"),
    };
    let turns = match policy.starts_with("rr") {
        true => "threads of one priority take turns, each for a slice of time (kernel.sched_rr_timeslice_ms)",
        false => "a thread runs until its passes are done",
    };
    let says = format!(
        "{long} of {} threads waited for a CPU for up to {} of the {} that the copy took, while {had}: under {policy} {turns}; {help}",
        record.threads.len(),
        says::time(longest_ns),
        says::time(of.wall_ns),
    );
    Some(
        Verdict::new(STARVED_COPY.id, Level::Warning, says)
            .with("stream", stream)
            .with("starved", long as u64)
            .with("threads_of_it", record.threads.len() as u64)
            .with("longest_wait_ns", longest_ns)
            .with("wall_ns", of.wall_ns),
    )
}

/// A stop of the limit or of the fair server takes so long, ns, at least.
const STOP_NS: i64 = 25_000_000;

/// Copying threads of a realtime policy that the kernel stopped in the middle of a pass, as the
/// limit of realtime threads or the fair server do.
pub(super) fn stopped(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let limit = evidence.record.before.rt_limit;
    let of = |(stream, record, of): (&str, &CopyRecord, &CopyResult)| {
        let policy =
            record.threads.iter().map(|of| of.thread.policy_granted.as_str()).find(|policy| is_realtime(policy))?;
        // Where threads take turns on a CPU, a pass lasts through the slices of all others.
        let take_turns = crowded(record).any(|of| of.thread.policy_granted.starts_with("rr"));
        if of.longest_more_ns < STOP_NS || take_turns {
            return None;
        }
        let known = limit.map_or_else(
            || "the kernel's fair server gives other threads 50 ms in each second (Linux 6.12 and later)".to_owned(),
            |limit| {
                format!(
                    "realtime threads may run {} in each {} (sched_rt_runtime_us), and the fair server of Linux 6.12 and later gives \
                     other threads 50 ms in each second whatever that says",
                    says::time(limit.runtime_ns),
                    says::time(limit.period_ns)
                )
            },
        );
        let says = format!(
            "threads of the copy, which run as {policy}, were stopped in {} for up to {}: {known}; give them policy other, or take \
             fewer iterations",
            says::count(of.long_passes, "pass", "passes"),
            says::time(of.longest_more_ns),
        );
        // The stop is in the figures, and belongs there: nothing else was measured.
        let verdict = Verdict::new("rt-bandwidth", Level::Warning, says)
            .with("stream", stream)
            .with("long_passes", of.long_passes)
            .with("longest_gap_ns", of.longest_more_ns);
        Some(match limit {
            Some(limit) => verdict.with("limit_period_ns", limit.period_ns).with("limit_runtime_ns", limit.runtime_ns),
            None => verdict,
        })
    };
    copies(evidence).filter_map(of).collect()
}
