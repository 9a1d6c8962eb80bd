// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples: one row per *intended* packet, held in columns, with what became of it.

use crate::point::{Metric, Point};
use crate::time::{self, PhcReading};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What became of an intended packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Received,
    /// It was handed to the port and never arrived.
    Lost,
    /// It was never handed to the port, or the port or the queue discipline refused it.
    #[default]
    NotSent,
}

impl Outcome {
    pub const ALL: [Outcome; 3] = [Outcome::Received, Outcome::Lost, Outcome::NotSent];
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Received => "received",
            Outcome::Lost => "lost",
            Outcome::NotSent => "not_sent",
        }
    }
}

/// Flags on top of the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Flags(pub u8);

impl Flags {
    /// It arrived before its scheduled instant.
    pub const EARLY: Flags = Flags(1);
    /// It was received after scheduled + deadline.
    pub const LATE: Flags = Flags(2);
    /// It arrived more than once; the stamps are the first arrival's.
    pub const DUPLICATE: Flags = Flags(4);
    /// It arrived after a packet that was sent later.
    pub const REORDERED: Flags = Flags(8);
    /// The sender woke after this packet's slot.
    pub const OVERRUN: Flags = Flags(16);
    /// The queue discipline dropped it: its launch time had passed. Reported.
    pub const LAUNCH_MISSED: Flags = Flags(32);
    /// The queue discipline refused it: its launch time was no good. Reported.
    pub const LAUNCH_INVALID: Flags = Flags(64);
    /// The queue discipline dropped it without a report; its counters say so.
    pub const QDISC_DROPPED: Flags = Flags(128);
    /// Each of them with its name in files.
    pub const NAMES: [(Flags, &str); 8] = [
        (Flags::EARLY, "early"),
        (Flags::LATE, "late"),
        (Flags::DUPLICATE, "duplicate"),
        (Flags::REORDERED, "reordered"),
        (Flags::OVERRUN, "overrun"),
        (Flags::LAUNCH_MISSED, "launch_missed"),
        (Flags::LAUNCH_INVALID, "launch_invalid"),
        (Flags::QDISC_DROPPED, "qdisc_dropped"),
    ];

    /// True if all of `other`'s flags are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
    pub fn set(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

/// A difference in nanoseconds that may be absent. Eight bytes, so that columns stay dense: the
/// lowest `i64` means absence and is never a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MaybeNanos(i64);

impl MaybeNanos {
    pub const NONE: MaybeNanos = MaybeNanos(i64::MIN);
    pub const fn some(ns: i64) -> Self {
        MaybeNanos(ns)
    }
    /// The value, if there is one.
    #[inline]
    pub const fn get(self) -> Option<i64> {
        if self.0 == i64::MIN { None } else { Some(self.0) }
    }
    /// The value, the lowest `i64` if there is none: for columns that were looked at as a whole.
    #[inline]
    pub const fn or_lowest(self) -> i64 {
        self.0
    }
    /// True if there is a value.
    #[inline]
    pub const fn is_some(self) -> bool {
        self.0 != i64::MIN
    }
}

impl From<Option<i64>> for MaybeNanos {
    #[inline]
    fn from(value: Option<i64>) -> Self {
        value.map_or(MaybeNanos::NONE, MaybeNanos::some)
    }
}

/// Rows of one stream in one trial, in columns, ordered by `seq`. All columns are equally long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The packet's number in the trial, from 0.
    pub seq: Vec<i64>,
    /// The intended instant, TAI.
    pub scheduled_ns: Vec<i64>,
    /// What became of it.
    pub outcome: Vec<Outcome>,
    pub flags: Vec<Flags>,
    /// The VLAN priority that arrived, where the port sees one; empty if it never does.
    pub pcp: Vec<Option<u8>>,
    /// For each point in causal order: stamp − scheduled, in ns; `None` if no packet of the stream
    /// has a source for that point. `scheduled` itself is always `None` here, for it is zero.
    pub offsets: [Option<Vec<MaybeNanos>>; Point::COUNT],
    /// What a user's own XDP program left before the packets. A reader of rows leaves it out; files
    /// have a reader of their own for it.
    pub hints: Option<Hints>,
}

impl Batch {
    pub fn len(&self) -> usize {
        self.seq.len()
    }
    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.seq.is_empty()
    }
    /// True if all columns are as long as the first; what comes from outside need not be.
    pub fn is_even(&self) -> bool {
        let rows = self.len();
        let rest = [self.scheduled_ns.len(), self.outcome.len(), self.flags.len()];
        let offsets = self.offsets.iter().flatten().map(Vec::len);
        rest.into_iter().chain(offsets).all(|length| length == rows)
            && (self.pcp.is_empty() || self.pcp.len() == rows)
            && self.hints.as_ref().is_none_or(|hints| hints.is_even(rows))
    }
    /// True if any row may have a stamp of this point.
    pub fn has(&self, point: Point) -> bool {
        point == Point::Scheduled || self.offsets[point.index()].is_some()
    }
    /// Stamp of `point` − scheduled, in ns.
    #[inline]
    pub fn offset(&self, row: usize, point: Point) -> Option<i64> {
        match point {
            Point::Scheduled => Some(0),
            _ => self.offsets[point.index()].as_ref().and_then(|column| column[row].get()),
        }
    }
    /// True if the packet came to its receiver, as the stamps of `point` are to show. Of an
    /// answered stream a request may have come whose reply did not, so that the row is not
    /// received.
    #[inline]
    pub fn has_arrived(&self, row: usize, point: Point) -> bool {
        self.outcome[row] == Outcome::Received
            || self.offset(row, point).is_some()
            || self.offset(row, Point::Receive).is_some()
    }
    /// The stamp itself, TAI ns.
    #[inline]
    pub fn stamp_ns(&self, row: usize, point: Point) -> Option<i64> {
        self.offset(row, point).map(|offset| self.scheduled_ns[row] + offset)
    }
    /// The value of a span metric. `delta` is not a row's own and is `None` here.
    #[inline]
    pub fn span_ns(&self, row: usize, metric: Metric) -> Option<i64> {
        match metric {
            Metric::Span(a, b) => Some(self.offset(row, b)? - self.offset(row, a)?),
            Metric::Delta => None,
            Metric::Transit => {
                let there = self.span_ns(row, Metric::Span(Point::Send, Point::ReplyReceive))?;
                Some(there - self.span_ns(row, Metric::Span(Point::Receive, Point::ReplySend))?)
            }
        }
    }
}

/// What XDP programs left before packets, row by row, in columns of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hints {
    /// Names of the structs.
    pub structs: Vec<String>,
    /// Which of them each row has, if it has any.
    pub of: Vec<Option<u8>>,
    pub columns: Vec<HintColumn>,
}

impl Hints {
    /// The struct of a row's hint.
    pub fn name(&self, row: usize) -> Option<&str> {
        let place = (*self.of.get(row)?)?;
        self.structs.get(usize::from(place)).map(String::as_str)
    }

    /// True if every column has this number of rows, and every row's struct a name.
    pub fn is_even(&self, rows: usize) -> bool {
        let named = |of: &Option<u8>| of.is_none_or(|place| usize::from(place) < self.structs.len());
        self.of.len() == rows
            && self.of.iter().all(named)
            && self.columns.iter().all(|column| column.values.len() == rows)
    }

    /// These rows alone; none where the columns end before them.
    pub fn part(&self, rows: Range<usize>) -> Hints {
        let column = |column: &HintColumn| HintColumn {
            name: column.name.clone(),
            is_signed: column.is_signed,
            values: column.values.get(rows.clone()).unwrap_or_default().to_vec(),
        };
        Hints {
            structs: self.structs.clone(),
            of: self.of.get(rows.clone()).unwrap_or_default().to_vec(),
            columns: self.columns.iter().map(column).collect(),
        }
    }
}

/// A member of hint structs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HintColumn {
    pub name: String,
    /// Its numbers may be below zero. If not, the same 64 bits are an unsigned number.
    pub is_signed: bool,
    /// Absent where the row's struct does not have the member.
    pub values: Vec<Option<i64>>,
}

/// Turns the device's instants into CLOCK_REALTIME, by what its clock showed before the trial and
/// after it, and gives by how much they may be wrong, ns. Where the clock was set meanwhile, or
/// could not be read, there are none.
pub fn by_device<'s>(
    stamps: impl ExactSizeIterator<Item = &'s mut MaybeNanos>,
    [before, after]: [Option<PhcReading>; 2],
) -> i64 {
    let between = before.zip(after).and_then(|(before, after)| PhcReading::between(before, after));
    let stamps: Vec<&mut MaybeNanos> = stamps.collect();
    // A stamp may be almost a step of its clock too early, and the readings are rounded likewise.
    let all = || stamps.iter().filter_map(|stamp| stamp.get());
    let mut tick_ns = time::tick_ns(all());
    if tick_ns > MOST_TICK_NS {
        // That is how the packets came, and not how the clock counts.
        tick_ns = time::tick_ns(all().chain([before, after].into_iter().flatten().map(|reading| reading.phc_ns)));
    }
    for stamp in stamps {
        let realtime = stamp.get().zip(between).map(|(phc_ns, between)| between.to_realtime_ns(phc_ns));
        *stamp = MaybeNanos::from(realtime);
    }
    between.map_or(0, |between| between.bound_ns.saturating_add(tick_ns))
}

/// No device's clock counts in greater steps, ns.
const MOST_TICK_NS: i64 = 1_000;
