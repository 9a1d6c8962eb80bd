// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ruler: what a stamp costs here, how late a timer is, how long the CPU is away from an empty
//! loop. Measured before and after the trials by a thread with the stream's own CPU and policy,
//! because a number is no finer than its ruler.

use crate::order::RulerOrder;
use crate::worker;
use std::fs::File;
use std::os::unix::fs::FileExt;
use tardy_model::machine::RulerRecord;
use tardy_model::stream::Policy;
use tardy_model::time::{Monotonic, Nanos, Tai};
use tardy_sys::clock;
use tardy_sys::proc::Schedstat;

/// Wake-ups measured of a thread that sends: enough for a 99th percentile with ten values beyond
/// it.
const WAKE_UPS: i64 = 1_000;
/// The same of a thread that only waits for packets and never for a timer: enough for the median
/// of what a wake-up waits.
const FEWER_WAKE_UPS: i64 = 200;
/// Time between them: short, so that the whole takes 0.1 s; not a divisor of a tick's period.
const APART: Nanos = Nanos(101_000);
/// Length of the empty loop. Below what the RT bandwidth limit lets through in a second.
const LOOP: Nanos = Nanos(50_000_000);
const GAP: Nanos = Nanos(10_000);

/// Measures in its own thread. Stations are measured one after the other: two of these loops on one
/// CPU would measure each other.
pub fn measure(order: &RulerOrder) -> Result<RulerRecord, String> {
    let order = order.clone();
    let thread = std::thread::Builder::new().stack_size(worker::STACK).name("ruler".into());
    let thread = thread.spawn(move || run(&order)).map_err(|error| format!("the ruler's thread: {error}"))?;
    thread.join().map_err(|_| "the ruler's thread broke".to_owned())
}

fn run(order: &RulerOrder) -> RulerRecord {
    let RulerOrder { thread: order, sends } = order;
    let account = worker::set_up(order);
    let stamp_ns = stamp_cost();
    let (mut errors, mut waits) = timer_errors(if *sends { WAKE_UPS } else { FEWER_WAKE_UPS });
    errors.sort_unstable();
    waits.sort_unstable();
    let rank = |q: f64| errors[((q * errors.len() as f64).ceil() as usize).clamp(1, errors.len()) - 1];
    // Under SCHED_DEADLINE the loop would only measure its own budget running out.
    let looped = (!matches!(order.policy, Policy::Deadline { .. })).then(gaps);
    let (loop_ns, gaps_over_10us) = looped.map_or((0, 0), |(loop_ns, count, _)| (loop_ns, count));
    let longest_gap_ns = looped.map(|(_, _, longest)| longest);
    RulerRecord {
        station: String::new(),
        host: None,
        after: false,
        threads: Vec::new(),
        cpu: order.cpu,
        policy: account.record().policy_granted.clone(),
        stamp_ns,
        timer_count: errors.len() as u32,
        timer_p50_ns: rank(0.5),
        timer_p99_ns: rank(0.99),
        timer_p99_9_ns: sends.then(|| rank(0.999)),
        timer_max_ns: rank(1.0),
        wake_wait_ns: waits.get(waits.len() / 2).copied(),
        loop_ns,
        gaps_over_10us,
        longest_gap_ns,
    }
}

/// Median over blocks, so that one interruption does not count.
fn stamp_cost() -> i64 {
    const READS: i64 = 1_000;
    let mut blocks: Vec<i64> = (0..21)
        .map(|_| {
            let start = clock::now::<Monotonic>();
            for _ in 0..READS {
                std::hint::black_box(clock::now::<Tai>());
            }
            (clock::now::<Monotonic>() - start).0 / READS
        })
        .collect();
    blocks.sort_unstable();
    blocks[blocks.len() / 2]
}

/// How late each wake-up was, and how long each waited on the run queue, where the kernel reports
/// it.
fn timer_errors(wake_ups: i64) -> (Vec<i64>, Vec<i64>) {
    let account = File::open("/proc/thread-self/schedstat").ok();
    let waited = || {
        let mut text = [0; 96];
        let got = account.as_ref()?.read_at(&mut text, 0).ok()?;
        Some(Schedstat::parse(std::str::from_utf8(&text[..got]).ok()?)?.wait_ns)
    };
    let (mut errors, mut waits) = (Vec::new(), Vec::new());
    let start = clock::now::<Tai>() + APART;
    let mut before = waited();
    for i in 0..wake_ups {
        let at = start + Nanos(i * APART.0);
        clock::sleep_until(at);
        errors.push((clock::now::<Tai>() - at).0);
        let now = waited();
        waits.extend(before.zip(now).map(|(before, now)| now - before));
        before = now;
    }
    (errors, waits)
}

fn gaps() -> (i64, u32, i64) {
    let start = clock::now::<Monotonic>();
    let (mut last, mut count, mut longest) = (start, 0, 0);
    while last - start < LOOP {
        let now = clock::now::<Monotonic>();
        let gap = (now - last).0;
        count += u32::from(gap > GAP.0);
        longest = longest.max(gap);
        last = now;
    }
    ((last - start).0, count, longest)
}
