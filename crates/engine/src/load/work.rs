// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every kind of load must be able to do ([`Work`]), what a side is ordered to do in a trial
//! ([`LoadOrder`]), and what it reads and writes while it works: the stop, the clock, its record
//! ([`Watch`]).

use crate::order::ThreadOrder;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tardy_model::load::{Broke, Lead, LoadKind, Series, SideRecord};
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_sys::clock;
use tardy_sys::tcp::Buffers;

/// No sleep is longer, so that a stop is seen.
pub const NAP: Nanos = Nanos(50_000_000);
/// How long after the stop what is under way is waited for.
pub const GRACE: Nanos = Nanos(2_000_000_000);
/// A call that waits returns after this long.
pub const LIMIT: std::time::Duration = std::time::Duration::from_millis(50);

/// One side's view of its trial.
pub struct Watch {
    stop: Arc<AtomicBool>,
    base: Instant<Tai>,
    start: Instant<Tai>,
    until: Option<Instant<Tai>>,
    /// When the end was first seen.
    over: Option<Instant<Tai>>,
    /// True if the series is of what is received.
    receives: bool,
    pub record: SideRecord,
    /// What a program wrote, as far as it is kept.
    pub output: Vec<u8>,
}

impl Watch {
    /// Of a trial whose base time is known.
    pub fn new(stop: Arc<AtomicBool>, base: Instant<Tai>, start: Nanos, until: Option<Nanos>) -> Watch {
        // A short load has no long history to keep.
        let first = start.0.div_euclid(Series::LEAST_NS) * Series::LEAST_NS;
        Watch {
            stop,
            base,
            start: base + start,
            until: until.map(|until| base + until),
            over: None,
            receives: false,
            record: SideRecord { series: Series::from(first), ..SideRecord::default() },
            output: Vec::new(),
        }
    }

    /// When the load starts.
    pub fn start(&self) -> Instant<Tai> {
        self.start
    }

    pub fn now(&self) -> Instant<Tai> {
        clock::now::<Tai>()
    }

    /// True once the load is to end.
    #[inline]
    pub fn is_over(&mut self, now: Instant<Tai>) -> bool {
        if self.over.is_none() && (self.stop.load(Relaxed) || self.until.is_some_and(|until| now >= until)) {
            self.over = Some(now);
        }
        self.over.is_some()
    }

    /// How long ago the end came.
    pub fn since_over(&mut self, now: Instant<Tai>) -> Option<Nanos> {
        self.is_over(now);
        self.over.map(|over| now - over)
    }

    /// True once even what is under way is no longer waited for.
    pub fn past_grace(&mut self, now: Instant<Tai>) -> bool {
        self.since_over(now).is_some_and(|past| past > GRACE)
    }

    /// Sleeps until `at` or until the end; false at the end.
    pub fn sleep_until(&mut self, at: Instant<Tai>) -> bool {
        loop {
            let now = self.now();
            if self.is_over(now) {
                return false;
            }
            if now >= at {
                return true;
            }
            let nap = self.until.map_or(now + NAP, |until| (now + NAP).min(until));
            clock::sleep_until(at.min(nap));
        }
    }

    pub fn begin(&mut self) -> Instant<Tai> {
        let now = self.now();
        self.record.began_ns.get_or_insert((now - self.base).0);
        now
    }

    /// The work has ended; what follows is only waited for.
    pub fn note_end(&mut self) {
        let now = self.now();
        // A load that stalls at the base time makes no call in the trial: what it did before must
        // not become the trial's.
        self.mark(now);
        self.record.ended_ns = (now - self.base).0;
    }

    /// Keeps what was done before the trial, at the first call in it or at the end.
    #[inline]
    fn mark(&mut self, now: Instant<Tai>) {
        let at_ns = (now - self.base).0;
        if at_ns >= 0 && self.record.lead.is_none() && self.record.began_ns.is_some_and(|began| began < 0) {
            let SideRecord { sent_bytes, sends, received_bytes, receives, transactions, copied_bytes, .. } =
                self.record;
            let lead = Lead { at_ns, sent_bytes, sends, received_bytes, receives, transactions, copied_bytes };
            self.record.lead = Some(lead);
        }
    }

    /// An instant as the record has it.
    pub fn at(&self, at: Instant<Tai>) -> i64 {
        (at - self.base).0
    }

    /// From now on the series is of what is received.
    pub fn receiving(&mut self) {
        self.receives = true;
    }

    /// Counts calls that sent, and their bytes.
    #[inline]
    pub fn sent(&mut self, now: Instant<Tai>, calls: u64, bytes: u64) {
        self.mark(now);
        self.record.sends += calls;
        self.record.sent_bytes += bytes;
        if !self.receives {
            self.record.series.add((now - self.base).0, bytes);
        }
    }

    /// Counts calls that received, and their bytes.
    #[inline]
    pub fn received(&mut self, now: Instant<Tai>, calls: u64, bytes: u64) {
        self.mark(now);
        self.record.receives += calls;
        self.record.received_bytes += bytes;
        self.record.series.add((now - self.base).0, bytes);
    }

    /// Counts bytes that were copied.
    pub fn copied(&mut self, now: Instant<Tai>, bytes: u64) {
        self.mark(now);
        self.record.copied_bytes += bytes;
        self.record.series.add((now - self.base).0, bytes);
    }

    /// Something failed. After the load's end that is only the other side closing, and nothing
    /// broke.
    pub fn broke(&mut self, what: &str, error: &io::Error) {
        let now = self.now();
        if !self.is_over(now) && self.record.broke.is_none() {
            let errno = error.raw_os_error().unwrap_or(0);
            let what = if errno == 0 { format!("{what}: {error}") } else { what.to_owned() };
            self.record.broke = Some(Broke { what, errno, at_ns: self.at(now) });
        }
    }
}

/// One side of one instance of a load. It is prepared on the control thread; the rest happens on
/// its own.
pub trait Work: Send {
    /// Makes the connection, or starts what must be there before the other side works. The other
    /// side is ready.
    fn connect(&mut self, _stop: &AtomicBool) -> Result<(), String> {
        Ok(())
    }

    /// True for a side that only answers: it works at once and not from the load's start.
    fn answers(&self) -> bool {
        false
    }

    /// Works until the end, and fills the record.
    fn run(&mut self, watch: &mut Watch);
}

/// Which side of which instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LoadAt {
    /// Number of the load in the experiment.
    pub load: u16,
    /// Number of the instance, from 0.
    pub instance: u32,
    /// True for the side at `to`, false for the one at `from`.
    pub peer: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadOrder {
    /// Which side this is.
    pub at: LoadAt,
    /// The load's name, for messages.
    pub name: String,
    pub kind: LoadKind,
    pub thread: ThreadOrder,
    /// This station's address, with the instance's port.
    pub local: SocketAddr,
    /// The other station's, with the same port; the unspecified address for a load that has no
    /// other side, which sends nothing.
    pub remote: SocketAddr,
    /// When it starts after the base time.
    pub start: Nanos,
    /// When it stops after the base time, if it does by itself.
    pub stop: Option<Nanos>,
    pub send_buffer: Option<u64>,
    pub receive_buffer: Option<u64>,
    /// For what it draws.
    pub seed: u64,
}

impl LoadOrder {
    pub(super) fn buffers(&self) -> Buffers {
        Buffers { send: self.send_buffer, receive: self.receive_buffer }
    }

    /// Which side of what this is, for messages.
    pub(super) fn what(&self) -> String {
        let side = if self.at.peer { "to" } else { "from" };
        format!("load `{}` ({}, instance {}, at `{side}`)", self.name, self.kind.name(), self.at.instance + 1)
    }
}
