// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way of a buffer through a driver of DMA controllers, with CPUs in the place of the hardware.
//! A controller has a list of free descriptors behind a lock, which all of its threads share. A
//! channel has queues of descriptors that were allocated, submitted, issued and completed, behind a
//! lock that its threads share. A thread notes how long it takes to get each lock, every time.

use super::buckets::{BUCKETS, bucket, greatest};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use tardy_model::copy::{Copying, LockOf, LockTimes, Method, Submit};
use tardy_sys::mark::Marker;
use tardy_sys::memory::Walk;

/// Looks at a lock before a thread that waits lets others have its CPU: who has the lock may wait
/// for that CPU.
const LOOKS: u32 = 4_096;
/// Something behind a lock of the kind that was chosen. The lock of the standard library keeps it
/// in any case; the kinds differ in how a thread waits for that.
#[derive(Debug)]
struct Guarded<T> {
    kind: Submit,
    /// Of a ticket lock: the next number, and whose turn it is.
    next: AtomicU32,
    turn: AtomicU32,
    inner: Mutex<T>,
}

impl<T> Guarded<T> {
    fn new(kind: Submit, inner: T) -> Guarded<T> {
        Guarded { kind, next: AtomicU32::new(0), turn: AtomicU32::new(0), inner: Mutex::new(inner) }
    }

    /// Does some work with it, and notes how long the lock took.
    fn with<R>(&self, marker: Marker, waits: &mut Waits, work: impl FnOnce(&mut T) -> R) -> R {
        let before = marker.mark().ticks;
        let mut guard = self.take();
        let after = marker.mark().ticks;
        let done = work(&mut guard);
        drop(guard);
        if self.kind == Submit::Ticket {
            self.turn.fetch_add(1, Ordering::Release);
        }
        waits.add(after.saturating_sub(before));
        done
    }

    fn take(&self) -> MutexGuard<'_, T> {
        let mut looks = 0;
        match self.kind {
            Submit::Spin => loop {
                match self.inner.try_lock() {
                    Ok(guard) => return guard,
                    Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
                    Err(TryLockError::WouldBlock) => wait(&mut looks),
                }
            },
            Submit::Ticket => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                while self.turn.load(Ordering::Acquire) != number {
                    wait(&mut looks);
                }
            }
            Submit::Mutex | Submit::None => {}
        }
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait(looks: &mut u32) {
    *looks += 1;
    if looks.is_multiple_of(LOOKS) { std::thread::yield_now() } else { std::hint::spin_loop() }
}

/// Times until a lock was had, in ticks of the marker, by buckets.
#[derive(Debug)]
struct Waits {
    counts: Vec<u32>,
    sum: u64,
    most: u64,
}

impl Waits {
    fn new() -> Waits {
        Waits { counts: vec![0; BUCKETS], sum: 0, most: 0 }
    }

    fn add(&mut self, ticks: u64) {
        self.counts[bucket(ticks)] += 1;
        self.sum += ticks;
        self.most = self.most.max(ticks);
    }

    fn times(&self, of: LockOf, ns_each: f64) -> LockTimes {
        let ns = |ticks: u64| (ticks as f64 * ns_each).round() as i64;
        let some = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        LockTimes {
            of,
            sum_ns: ns(self.sum),
            max_ns: ns(self.most),
            buckets: some.map(|(at, count)| (ns(greatest(at).min(self.most)), u64::from(*count))).collect(),
        }
    }
}

/// Where a channel's descriptors are, by their numbers.
#[derive(Debug, Default)]
struct Queues {
    allocated: VecDeque<u32>,
    submitted: VecDeque<u32>,
    issued: VecDeque<u32>,
    completed: VecDeque<u32>,
}

/// Takes a descriptor out of a queue. It is near the front: others' are before it only until they
/// go on.
fn take(queue: &mut VecDeque<u32>, descriptor: u32) {
    if let Some(at) = queue.iter().position(|other| *other == descriptor) {
        queue.remove(at);
    }
}

/// Descriptors and queues of all controllers of a cell.
#[derive(Debug)]
pub(super) struct Submission {
    free: Vec<Guarded<Vec<u32>>>,
    channels: Vec<Guarded<Queues>>,
    buffers: u32,
    channels_each: u32,
    threads_each: u32,
}

impl Submission {
    /// `None` where threads copy at once.
    pub(super) fn of(copy: &Copying) -> Option<Submission> {
        if copy.submit == Submit::None {
            return None;
        }
        // As many as can be under way at once: no thread waits for one.
        let descriptors = || (0..copy.channels * copy.threads * copy.buffers).collect::<Vec<u32>>();
        Some(Submission {
            free: (0..copy.controllers).map(|_| Guarded::new(copy.submit, descriptors())).collect(),
            channels: (0..copy.controllers * copy.channels)
                .map(|_| Guarded::new(copy.submit, Queues::default()))
                .collect(),
            buffers: copy.buffers,
            channels_each: copy.channels,
            threads_each: copy.threads,
        })
    }

    /// A thread of this number.
    pub(super) fn client(&self, number: u32, marker: Marker) -> Client<'_> {
        let channel = number / self.threads_each;
        Client {
            free: &self.free[(channel / self.channels_each) as usize],
            queues: &self.channels[channel as usize],
            buffers: self.buffers,
            own: Vec::with_capacity(self.buffers as usize),
            waits: [Waits::new(), Waits::new()],
            marker,
        }
    }
}

/// A thread that submits.
#[derive(Debug)]
pub(super) struct Client<'a> {
    free: &'a Guarded<Vec<u32>>,
    queues: &'a Guarded<Queues>,
    buffers: u32,
    /// Descriptors of the pass that is under way.
    own: Vec<u32>,
    waits: [Waits; 2],
    marker: Marker,
}

impl Client<'_> {
    /// Copies each buffer once, by a descriptor each: all are submitted, then issued, then copied.
    /// Every `look_each` buffers it asks whether it is to end in the middle; then the descriptors
    /// go back and it returns false.
    pub(super) fn pass(
        &mut self,
        walk: &mut Walk,
        method: Method,
        look_each: u32,
        is_over: &impl Fn() -> bool,
    ) -> bool {
        let (marker, [of_list, of_queues]) = (self.marker, &mut self.waits);
        let mut goes_on = true;
        for _ in 0..self.buffers {
            let Some(descriptor) = self.free.with(marker, of_list, Vec::pop) else { break };
            self.queues.with(marker, of_queues, |queues| queues.allocated.push_back(descriptor));
            self.queues.with(marker, of_queues, |queues| {
                take(&mut queues.allocated, descriptor);
                queues.submitted.push_back(descriptor);
            });
            self.own.push(descriptor);
        }
        self.queues.with(marker, of_queues, |queues| {
            for descriptor in &self.own {
                take(&mut queues.submitted, *descriptor);
                queues.issued.push_back(*descriptor);
            }
        });
        for (done, descriptor) in self.own.iter().copied().enumerate() {
            if done > 0 && done.is_multiple_of(look_each.max(1) as usize) && is_over() {
                goes_on = false;
            }
            if goes_on {
                walk.next(1, method);
            }
            self.queues.with(marker, of_queues, |queues| {
                take(&mut queues.issued, descriptor);
                queues.completed.push_back(descriptor);
            });
        }
        self.queues.with(marker, of_queues, |queues| {
            self.own.iter().for_each(|descriptor| take(&mut queues.completed, *descriptor));
        });
        for descriptor in self.own.drain(..) {
            self.free.with(marker, of_list, |free| free.push(descriptor));
        }
        goes_on
    }

    /// Forgets how long locks took so far.
    pub(super) fn forget(&mut self) {
        self.waits = [Waits::new(), Waits::new()];
    }

    /// How long they took, by the length of a tick.
    pub(super) fn times(&self, ns_each: f64) -> Vec<LockTimes> {
        LockOf::ALL.into_iter().zip(&self.waits).map(|(of, waits)| waits.times(of, ns_each)).collect()
    }
}
