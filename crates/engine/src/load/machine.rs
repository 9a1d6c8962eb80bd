// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads that use the station's machine itself. `cpu` computes for a share of each period, measured
//! by the thread's own CPU clock; `memory` copies through a working set.

use crate::load::work::{Watch, Work};
use std::hint::black_box;
use tardy_model::time::Nanos;
use tardy_sys::thread;

struct Cpu {
    duty: f64,
    period: Nanos,
}

pub(super) fn cpu(duty: f64, period: Nanos) -> Result<Box<dyn Work>, String> {
    Ok(Box::new(Cpu { duty, period }))
}

/// Rounds between two looks at the clocks: some microseconds.
const ROUNDS: u64 = 4_096;

impl Work for Cpu {
    fn run(&mut self, watch: &mut Watch) {
        let (began, used) = (watch.now(), thread::cpu_time());
        let mut period: i64 = 0;
        let mut state: u64 = 1;
        loop {
            // Each period has its own share: time that others took is not made up for later.
            let goal = thread::cpu_time() + Nanos((self.duty * self.period.0 as f64) as i64);
            let next = began + Nanos((period + 1) * self.period.0);
            let mut now = watch.now();
            while thread::cpu_time() < goal && now < next && !watch.is_over(now) {
                for _ in 0..ROUNDS {
                    state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
                now = watch.now();
            }
            if !watch.sleep_until(next) {
                break;
            }
            // Periods that passed while it could not run are gone.
            period = (period + 1).max((watch.now() - began).0 / self.period.0.max(1));
        }
        watch.note_end();
        watch.record.busy_ns = Some((thread::cpu_time() - used).0);
    }
}

/// So much is copied between two looks at the clock.
const CHUNK: usize = 256 << 10;

struct Memory {
    here: Vec<u8>,
    there: Vec<u8>,
}

pub(super) fn memory(working_set: u64) -> Result<Box<dyn Work>, String> {
    let half = (working_set / 2) as usize;
    let touched = || {
        let mut half_of_it = Vec::new();
        let had = half_of_it.try_reserve_exact(half);
        had.map_err(|error| format!("its working set of {working_set} bytes: {error}"))?;
        half_of_it.resize(half, 0x5a_u8);
        Ok::<_, String>(half_of_it)
    };
    Ok(Box::new(Memory { here: touched()?, there: touched()? }))
}

impl Work for Memory {
    fn run(&mut self, watch: &mut Watch) {
        'all: loop {
            for (from, to) in self.here.chunks(CHUNK).zip(self.there.chunks_mut(CHUNK)) {
                to.copy_from_slice(black_box(from));
                black_box(&*to);
                let now = watch.now();
                watch.copied(now, from.len() as u64);
                if watch.is_over(now) {
                    break 'all;
                }
            }
            std::mem::swap(&mut self.here, &mut self.there);
        }
        watch.note_end();
    }
}
