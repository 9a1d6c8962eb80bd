// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the record of a copy can have at most. A run folder, or a guest, may hold anything in its
//! place, and whoever reads it takes memory and time by its numbers.

use super::{CopyRecord, Copying, LockOf, MOST_ITERATIONS, MOST_LOCKS, MOST_THREADS};

/// The most buckets of times: sixteen of each power of two.
const MOST_BUCKETS: usize = 16 * 64;

impl Copying {
    /// Why nobody can have copied this; `None` for what an experiment may ask for.
    pub fn fault(&self) -> Option<String> {
        let (threads, iterations) = (self.all_threads(), self.all_iterations());
        let none = [self.controllers, self.channels, self.threads, self.buffers, self.iterations].contains(&0);
        match () {
            () if none || self.bytes == 0 => Some("a copy of nothing".to_owned()),
            () if threads > MOST_THREADS => Some(format!("a copy of {threads} threads, of {MOST_THREADS} at most")),
            () if iterations > MOST_ITERATIONS => {
                Some(format!("a copy of {iterations} passes, of {MOST_ITERATIONS} at most"))
            }
            () => None,
        }
    }
}

impl CopyRecord {
    /// What of it does not go with what was asked; `None` for a sound one.
    pub fn fault(&self) -> Option<String> {
        if let Some(why) = self.asked.fault() {
            return Some(why);
        }
        let (asked, has) = (self.asked.all_threads(), self.threads.len());
        if u32::try_from(has) != Ok(asked) {
            return Some(format!("a copy of {asked} threads with figures of {has}"));
        }
        if self.contention.as_ref().is_some_and(|of| of.locks.len() > MOST_LOCKS) {
            return Some(format!("a copy with waits for more than {MOST_LOCKS} locks of the kernel's"));
        }
        let rounds = self.asked.rounds();
        let strange = |(number, of): (usize, &super::CopyThread)| {
            let buckets = of.locks.iter().map(|times| times.buckets.len()).max().unwrap_or(0);
            match () {
                () if of.done > rounds => {
                    Some(format!("thread {number} of a copy with {} passes of {rounds}", of.done))
                }
                () if of.cpus.len() > rounds as usize => Some(format!(
                    "thread {number} of a copy with {} changes of its CPU in {rounds} passes",
                    of.cpus.len()
                )),
                () if of.locks.len() > LockOf::ALL.len() || buckets > MOST_BUCKETS => {
                    Some(format!("thread {number} of a copy with more times of locks than there are"))
                }
                () => None,
            }
        };
        self.threads.iter().enumerate().find_map(strange)
    }
}
