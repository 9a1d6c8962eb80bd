// SPDX-License-Identifier: MIT OR Apache-2.0
//! `memory`: copies back and forth within a working set.

use super::watch::Watch;
use super::work::Work;
use std::hint::black_box;

/// So much is copied between two looks at the clock.
const CHUNK: usize = 256 << 10;

struct Memory {
    here: Vec<u8>,
    there: Vec<u8>,
}

pub(super) fn open(working_set: u64) -> Result<Box<dyn Work>, String> {
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
                if watch.over(now) {
                    break 'all;
                }
            }
            std::mem::swap(&mut self.here, &mut self.there);
        }
        watch.end();
    }
}
