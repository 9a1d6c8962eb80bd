// SPDX-License-Identifier: MIT OR Apache-2.0
//! What disturbs a copy meanwhile: a thread on each CPU that copies through its own memory or
//! computes, until the copy is over or has taken its longest.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use tardy_model::copy::Background;
use tardy_sys::thread;

/// Memory of a thread that copies, and what it copies between two looks at the time.
const WORKING_SET: usize = 64 << 20;
const CHUNK: usize = 256 << 10;
/// Rounds of a thread that computes between two looks.
const ROUNDS: u64 = 4_096;
/// A thread needs no more.
const STACK: usize = 128 << 10;

/// Threads that disturb, until it is dropped.
pub(super) struct Disturbance {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Disturbance {
    /// One thread on each of these CPUs, for `longest` at most.
    ///
    /// # Errors
    /// If the kernel has no thread for it.
    pub(super) fn start(kind: Background, cpus: &[u32], longest: Duration) -> std::io::Result<Disturbance> {
        let mut disturbance = Disturbance { is_over: Arc::default(), threads: Vec::new() };
        for cpu in cpus.iter().filter(|_| kind != Background::None) {
            let (is_over, cpu) = (disturbance.is_over.clone(), *cpu);
            let until = Instant::now() + longest;
            let work = move || {
                // Where it is refused, the thread disturbs another CPU, and its placement is no
                // figure of the copy.
                let _ = thread::pin(cpu);
                disturb(kind, || is_over.load(Relaxed) || Instant::now() >= until);
            };
            disturbance.threads.push(Builder::new().name("tardy-disturb".into()).stack_size(STACK).spawn(work)?);
        }
        Ok(disturbance)
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked disturbs no more either.
            let _ = thread.join();
        }
    }
}

fn disturb(kind: Background, is_over: impl Fn() -> bool) {
    match kind {
        Background::None => {}
        Background::Cpu => {
            let mut state: u64 = 1;
            while !is_over() {
                for _ in 0..ROUNDS {
                    state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
            }
        }
        Background::Memory => {
            let (mut here, mut there) = (vec![0x5a_u8; WORKING_SET / 2], vec![0xa5_u8; WORKING_SET / 2]);
            loop {
                for (from, to) in here.chunks(CHUNK).zip(there.chunks_mut(CHUNK)) {
                    to.copy_from_slice(black_box(from));
                    if is_over() {
                        return;
                    }
                }
                std::mem::swap(&mut here, &mut there);
            }
        }
    }
}
