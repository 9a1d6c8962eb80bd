// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receiving by the schedule of the packets, pure: no clock, no I/O. Synchronisation frames say
//! when packet `n` arrived; the cycle says when every other one should. From both follows when the
//! next bulk should be there, how long to sleep until then, and when the schedule is not known and
//! the receiver has to wait for each packet instead.
//!
//! A synchronisation frame is late as any other packet is, and never early. So the schedule goes
//! through the median of the latest frames, and the margin after it follows from how they scatter.

use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::xdp::Triggered;
use tardy_model::xdp::TriggeredRecord;

/// The latest frames, by which the schedule is known.
const WINDOW: usize = 16;
/// Fewer do not make a schedule.
const LEAST: usize = 4;
/// The least margin after the last packet of a bulk.
const LEAST_MARGIN: Nanos = Nanos(20_000);
/// The margin is this many times the median distance of the frames from their median.
const SCATTERS: i64 = 4;
/// After this many wake-ups in a row that found nothing the schedule is given up.
const MISSES: u32 = 3;
/// After this many times the distance between two frames without one the schedule is given up.
const FRESH: i64 = 16;

/// What a receiver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It waits for a packet, whenever it comes.
    Poll,
    /// It sleeps this long, and asks again.
    Sleep(Nanos),
    /// It takes what has come.
    Fetch,
}

/// What a receiver knows of the schedule.
#[derive(Clone, Debug)]
pub struct Bulks {
    cycle: i64,
    count: i64,
    of: Triggered,
    /// When each of the latest frames came, less its number times the cycle, ns.
    window: [i64; WINDOW],
    /// Frames that came since the window was begun.
    filled: usize,
    /// Their median, and the margin after it.
    phase: i64,
    margin: i64,
    /// The latest frame that fits in came then.
    marked: i64,
    /// A frame that does not fit in: a second one that agrees with it begins the window again.
    odd: Option<i64>,
    /// The schedule was given up; the next frame that fits in brings it back.
    is_lost: bool,
    /// The last packet of the bulk that is waited for.
    target: Option<i64>,
    /// Wake-ups in a row that found nothing.
    misses: u32,
    /// More waits than one call takes.
    more: bool,
    record: TriggeredRecord,
}

impl Bulks {
    /// Of a stream whose trial has `count` packets.
    pub fn new(of: Triggered, cycle: Nanos, count: u32) -> Bulks {
        let record = TriggeredRecord { sync: of.sync, bulk: of.bulk, ..TriggeredRecord::default() };
        Bulks {
            cycle: cycle.0.max(1),
            count: i64::from(count),
            of,
            window: [0; WINDOW],
            filled: 0,
            phase: 0,
            margin: LEAST_MARGIN.0,
            marked: 0,
            odd: None,
            is_lost: false,
            target: None,
            misses: 0,
            more: false,
            record,
        }
    }

    /// A bulk's packets all together.
    fn bulk_ns(&self) -> i64 {
        i64::from(self.of.bulk.max(1)).saturating_mul(self.cycle)
    }

    /// Half of it: frames that are further from each other do not belong to one schedule.
    fn room(&self) -> i64 {
        (self.bulk_ns() / 2).max(LEAST_MARGIN.0)
    }

    /// A synchronisation frame arrived.
    pub fn mark(&mut self, seq: u32, at: Instant<Tai>) {
        let residue = at.ns().saturating_sub(i64::from(seq).saturating_mul(self.cycle));
        self.record.marks += 1;
        let agrees = |with: i64| residue.saturating_sub(with).saturating_abs() <= self.room();
        match (self.filled == 0 || agrees(self.phase), self.odd.filter(|odd| agrees(*odd))) {
            (true, _) => self.admit(residue),
            (false, Some(odd)) => {
                self.record.odd_marks += 1;
                self.give_up();
                self.filled = 0;
                self.admit(odd);
                self.admit(residue);
            }
            (false, None) => {
                self.record.odd_marks += 1;
                self.odd = Some(residue);
                return;
            }
        }
        self.marked = at.ns();
    }

    /// Takes a frame into the window, and finds the schedule again.
    fn admit(&mut self, residue: i64) {
        self.window[self.filled % WINDOW] = residue;
        self.filled += 1;
        (self.odd, self.is_lost, self.misses) = (None, false, 0);
        let mut sorted = self.window;
        let known = &mut sorted[..self.filled.min(WINDOW)];
        known.sort_unstable();
        self.phase = known[known.len() / 2];
        known.iter_mut().for_each(|residue| *residue = (*residue - self.phase).abs());
        known.sort_unstable();
        let scatter = known[known.len() / 2];
        self.margin = scatter.saturating_mul(SCATTERS).saturating_add(LEAST_MARGIN.0).min(self.room());
        self.record.margin_ns = self.margin;
    }

    /// Gives the schedule up until a frame brings it back.
    fn give_up(&mut self) {
        self.record.lost += u64::from(!self.is_lost);
        (self.is_lost, self.target, self.misses) = (true, None, 0);
    }

    /// What to do at `now`.
    pub fn next(&mut self, now: Instant<Tai>) -> Next {
        if std::mem::take(&mut self.more) {
            return Next::Fetch;
        }
        if self.is_lost || self.filled < LEAST {
            return Next::Poll;
        }
        let now = now.ns();
        // A frame comes at each multiple of `sync`, and is seen when its bulk is fetched; the clock
        // may also have stepped far forward.
        let apart = i64::from(self.of.sync.max(1)).saturating_mul(self.cycle);
        let fresh = apart.saturating_mul(FRESH).saturating_add(self.bulk_ns());
        if now.saturating_sub(self.marked) > fresh {
            self.give_up();
            return Next::Poll;
        }
        let since = now.saturating_sub(self.phase).saturating_sub(self.margin);
        let target = match self.target {
            Some(target) => target,
            None => {
                // The last packet that should be here already.
                let here = since.div_euclid(self.cycle).max(-1);
                (here + i64::from(self.of.bulk.max(1))).min(self.count - 1)
            }
        };
        let left = target.saturating_mul(self.cycle).saturating_sub(since);
        if self.target.is_none() && left <= 0 {
            // All packets of the trial should have come.
            return Next::Poll;
        }
        if left > self.bulk_ns() + self.cycle {
            // The clock stepped back.
            self.give_up();
            return Next::Poll;
        }
        self.target = Some(target);
        if left > 0 { Next::Sleep(Nanos(left)) } else { Next::Fetch }
    }

    /// It woke for a bulk, or took what a call before had left, and got this number of packets;
    /// there may be more where that is all that a call takes.
    pub fn fetched(&mut self, packets: usize, is_full: bool) {
        if let Some(_woken) = self.target.take() {
            self.record.wakeups += 1;
            self.record.empty += u64::from(packets == 0);
            self.misses = if packets == 0 { self.misses + 1 } else { 0 };
        }
        self.record.fetched += packets as u64;
        self.record.most = self.record.most.max(packets as u64);
        self.more = is_full;
        if self.misses >= MISSES {
            self.give_up();
        }
    }

    /// It was woken by packets, and took this number of them.
    pub fn polled(&mut self, packets: usize) {
        // Before the first frame it is a warm-up's packets that come.
        if self.filled > 0 && packets > 0 {
            self.record.polls += 1;
            self.record.polled += packets as u64;
        }
    }

    /// It waits for no instant any more.
    pub fn stop(&mut self) {
        (self.is_lost, self.target, self.more) = (true, None, false);
    }

    /// What it has done.
    pub fn record(&self) -> TriggeredRecord {
        self.record
    }
}
