// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backend `sim`: passes whose times are drawn from the seed, with a known overlap, and a rate that
//! has known cliffs over the sizes of a buffer. A thread begins when the one before it has so much
//! of its time left as is to overlap.

use super::order::{Copied, CopyOrder, thread_of};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_model::copy::{CopyThread, Copying};
use tardy_model::placement::ThreadRecord;
use tardy_model::time::ClockReading;

/// When the simulated trial begins, TAI, ns.
const EPOCH_NS: i64 = 1_800_000_037_000_000_000;
/// Of it, what is between the reading of the clocks and the first pass, ns.
const LEAD_NS: i64 = 1_000_000;

pub(super) fn run(order: &CopyOrder<'_>) -> Copied {
    let copy = order.copy;
    let mut random = Pcg64Mcg::seed_from_u64(order.nonce);
    let pass_ns = copy.pass_bytes() as f64 * 8e9 / rate(copy);
    let mut threads: Vec<(Vec<(i64, i64)>, CopyThread)> = Vec::new();
    let mut start_ns = EPOCH_NS + LEAD_NS;
    for number in 0..copy.all_threads() {
        let mut now = start_ns;
        let mut passes = Vec::with_capacity(copy.iterations as usize);
        for _ in 0..copy.iterations {
            let noise = 1.0 + copy.sim.jitter * random.random_range(-0.5..0.5);
            let end = now + ((pass_ns * noise) as i64).max(1);
            passes.push((now, end));
            now = end;
        }
        let took_ns = now - start_ns;
        let thread = ThreadRecord {
            tid: number + 1,
            policy_asked: copy.policy.to_string(),
            policy_granted: copy.policy.to_string(),
            cpus_seen: vec![number],
            memory_locked: true,
            run_ns: Some(took_ns),
            wait_ns: Some(0),
            migrations: Some(0),
            ..ThreadRecord::default()
        };
        let done = copy.iterations;
        let of = CopyThread { done, busy_ns: took_ns, cpus: vec![(0, number)], thread, ..thread_of(copy, number) };
        threads.push((passes, of));
        start_ns += (took_ns as f64 * (1.0 - copy.sim.overlap)) as i64;
    }
    let ended_ns = threads.iter().filter_map(|(passes, _)| passes.last()).map(|pass| pass.1).max();
    let clocks = [EPOCH_NS, ended_ns.unwrap_or(EPOCH_NS) + LEAD_NS].map(reading);
    Copied { threads, recording_ns: 0.0, background: None, clocks, provider: None, contention: None }
}

/// What a thread copies, bits a second, with the cliffs of the machine.
fn rate(copy: &Copying) -> f64 {
    let is_multiple = copy.sim.multiple > 0 && copy.bytes.is_multiple_of(copy.sim.multiple);
    let is_beyond = copy.sim.beyond > 0 && copy.bytes > copy.sim.beyond;
    let times = if is_multiple { 2.0 } else { 1.0 } * if is_beyond { 0.5 } else { 1.0 };
    copy.sim.rate.max(1) as f64 * times
}

fn reading(tai_ns: i64) -> ClockReading {
    let tai_offset_s = 37;
    let realtime_ns = tai_ns - i64::from(tai_offset_s) * 1_000_000_000;
    ClockReading {
        tai_ns,
        realtime_ns,
        monotonic_ns: tai_ns - EPOCH_NS + 1_000_000_000,
        bound_ns: 1,
        tai_offset_s,
        steering: None,
    }
}
