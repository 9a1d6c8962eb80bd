// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of the packets, counted; which received packets lack a stamp, and whether these are
//! scattered, one gap, or a late start. And what is known of them for certain.

use crate::chunk::Chunk;
use crate::says;
use std::collections::BTreeMap;
use tardy_model::expect::Count;
use tardy_model::point::Point;
use tardy_model::result::Outcomes;
use tardy_model::sample::{Batch, Flags, Outcome};
use tardy_model::trial::{Counters, StreamRecord, TrialRecord};

/// Adds a batch's rows to the counts.
pub fn add(outcomes: &mut Outcomes, batch: &Batch) {
    Chunk::of(batch).for_each(|chunk| add_chunk(outcomes, &chunk));
}

pub(crate) fn add_chunk(outcomes: &mut Outcomes, chunk: &Chunk<'_>) {
    let intended = chunk.len() as u64;
    let mut more = Outcomes { intended, received: intended, ..Outcomes::default() };
    if !chunk.all_received {
        let of = |wanted: Outcome| chunk.outcome.iter().filter(|outcome| **outcome == wanted).count() as u64;
        (more.lost, more.not_sent) = (of(Outcome::Lost), of(Outcome::NotSent));
        more.received -= more.lost + more.not_sent;
    }
    // Most chunks have no flag at all.
    if chunk.flags.iter().fold(0, |any, flags| any | flags.0) != 0 {
        let with = |wanted: Flags| chunk.flags.iter().filter(|flags| flags.has(wanted)).count() as u64;
        more.early = with(Flags::EARLY);
        more.late = with(Flags::LATE);
        more.duplicate = with(Flags::DUPLICATE);
        more.reordered = with(Flags::REORDERED);
    }
    merge(outcomes, &more);
}

/// Adds another trial's counts.
pub fn merge(outcomes: &mut Outcomes, other: &Outcomes) {
    outcomes.intended += other.intended;
    outcomes.received += other.received;
    outcomes.lost += other.lost;
    outcomes.not_sent += other.not_sent;
    outcomes.early += other.early;
    outcomes.late += other.late;
    outcomes.duplicate += other.duplicate;
    outcomes.reordered += other.reordered;
}

/// The packets that a count is of.
pub(crate) fn counted(outcomes: &Outcomes, count: Count) -> u64 {
    match count {
        Count::Lost => outcomes.lost,
        Count::NotSent => outcomes.not_sent,
        Count::Early => outcomes.early,
        Count::Late => outcomes.late,
        Count::Duplicate => outcomes.duplicate,
        Count::Reordered => outcomes.reordered,
    }
}

/// The least share of received packets that must have a stamp: below it the missing ones could
/// make up the whole tail beyond p99.9.
pub const LEAST_COVERAGE: f64 = 0.999;

/// Missing stamps of one point. A burst is a run of received packets in scheduled order that all
/// lack the stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bursts {
    pub received: u64,
    /// Of those, without the stamp.
    pub missing: u64,
    pub bursts: u64,
    /// Packets of the longest burst.
    pub longest: u64,
    /// The number of its first packet.
    pub longest_from_seq: i64,
    /// Packets of the burst that begins with the first packet received; 0 if that one has its
    /// stamp.
    pub leading: u64,
    run: u64,
    run_from_seq: i64,
}

impl Bursts {
    /// Stamped over received; 1 if nothing was received.
    pub fn coverage(&self) -> f64 {
        share(self.received - self.missing, self.received)
    }

    /// True if too many stamps are missing.
    pub fn is_short(&self) -> bool {
        self.coverage() < LEAST_COVERAGE
    }

    /// True if too many are missing only because stamps started late: from the first stamped
    /// packet on, enough are there.
    pub fn started_late(&self) -> bool {
        let after = self.received - self.leading;
        self.is_short() && self.leading > 0 && after > 0 && {
            let missing = self.missing - self.leading;
            share(after - missing, after) >= LEAST_COVERAGE
        }
    }

    #[inline]
    fn row(&mut self, seq: i64, stamped: bool) {
        self.received += 1;
        if stamped {
            self.run = 0;
            return;
        }
        self.missing += 1;
        if self.run == 0 {
            self.bursts += 1;
            self.run_from_seq = seq;
        }
        self.run += 1;
        if self.run > self.longest {
            (self.longest, self.longest_from_seq) = (self.run, self.run_from_seq);
        }
        if self.missing == self.received {
            self.leading = self.missing;
        }
    }
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 1.0 } else { part as f64 / of as f64 }
}

/// Missing stamps of one stream in one trial, by point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoverageByBurst {
    /// Every point that has a source, `scheduled` aside.
    pub points: BTreeMap<Point, Bursts>,
}

impl CoverageByBurst {
    /// For the points that have a source.
    pub fn new(points: impl IntoIterator<Item = Point>) -> Self {
        let points = points.into_iter().filter(|point| *point != Point::Scheduled);
        CoverageByBurst { points: points.map(|point| (point, Bursts::default())).collect() }
    }

    /// Adds the next rows.
    pub(crate) fn push(&mut self, chunk: &Chunk<'_>) {
        for (point, bursts) in &mut self.points {
            if chunk.whole_column(*point).is_some() {
                bursts.received += chunk.len() as u64;
                bursts.run = 0;
                continue;
            }
            for row in (0..chunk.len()).filter(|row| chunk.is_received(*row)) {
                bursts.row(chunk.seq[row], chunk.offset(row, *point).is_some());
            }
        }
    }
}

// What is known for certain of the packets of every finished trial, whatever else is wrong with
// it: the counts that expectations limit ([`Count::needs_no_validity`]). They depend on no clock
// and no stamp, so a trial that is not valid, or left out of the figures, counts like any other.
// If tardy did not see what became of packets, a count is a lower bound: a path that is down loses
// packets, which is a finding; a socket or memory that tardy lacks leaves the packets unseen,
// which is none.

// The errnos are Linux's and are spelled out here, because the judging machine need not be Linux.

/// What a call that failed is evidence of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broke {
    /// tardy did not see what became of the packets.
    Measuring,
    /// The path or the peer was gone: the packets that did not come are lost.
    Path,
}

/// EBADF, ENOMEM, EFAULT, EINVAL, EBADMSG (bytes that are no message), ENOTSOCK, ENOBUFS.
const OF_MEASURING: [i32; 7] = [9, 12, 14, 22, 74, 88, 105];

/// ENXIO, ENODEV, EPIPE, ENETDOWN, ENETUNREACH, ECONNABORTED, ECONNRESET, ENOTCONN, ESHUTDOWN,
/// ETIMEDOUT, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH.
const OF_A_SEND: [i32; 13] = [6, 19, 32, 100, 101, 103, 104, 107, 108, 110, 111, 112, 113];

/// What the errno that ended a receiver is evidence of. An unknown number counts as the path's: an
/// errno that nobody understood must not excuse a loss.
pub fn of_receive(errno: i32) -> Broke {
    if OF_MEASURING.contains(&errno) { Broke::Measuring } else { Broke::Path }
}

/// True if a port that refuses a packet with this errno has no path or no peer, so that the packet
/// is lost as surely as one that vanished on the way. A full queue, a firewall or a packet that is
/// too long is no outage: such packets are not sent.
pub fn is_outage_of_send(errno: i32) -> bool {
    OF_A_SEND.contains(&errno)
}

/// One count of a stream, over the trials added so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The count, or a lower bound of it.
    pub at_least: u64,
    /// Of these, packets that an outage kept from being sent: the rows say `not_sent`.
    pub by_outage: u64,
    /// Why there may be more, by trial; empty if that is the whole count.
    pub unseen: Vec<(u32, String)>,
}

/// What is certain of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certain {
    pub intended: u64,
    lost: Seen,
    not_sent: Seen,
    duplicate: Seen,
    reordered: Seen,
}

impl Certain {
    /// One of its counts; `None` for those that need validity.
    pub fn of(&self, count: Count) -> Option<&Seen> {
        match count {
            Count::Lost => Some(&self.lost),
            Count::NotSent => Some(&self.not_sent),
            Count::Duplicate => Some(&self.duplicate),
            Count::Reordered => Some(&self.reordered),
            Count::Early | Count::Late => None,
        }
    }

    /// Adds a finished trial.
    pub fn add(&mut self, trial: &TrialRecord, stream: &StreamRecord, outcomes: &Outcomes) {
        self.intended += outcomes.intended;
        let back = stream.reply.as_ref().map(|reply| &reply.counters);
        let ways = || [Some(&stream.counters), back].into_iter().flatten();
        let blind = ways().find(|counters| ended_by(counters) == Some(Broke::Measuring));
        let blind = match (&trial.failed, blind) {
            (Some(why), _) => Some(format!("the trial failed: {why}")),
            (None, Some(by)) => Some(format!("errno {} of tardy's own ended the receiver", by.receive_errno)),
            (None, None) => None,
        };
        let full = |dropped: u64| {
            let arrivals = says::count(dropped, "arrival", "arrivals");
            (dropped > 0).then(|| format!("{arrivals} found no place in the recorder"))
        };
        // Whether a row was received is decided where its way ends; what came twice is seen at
        // either end.
        let dropped = back.unwrap_or(&stream.counters).records_dropped;
        let of_any = ways().map(|counters| counters.records_dropped).sum();
        let refused = refused(&stream.counters);
        let by_outage = by_outage(stream, outcomes, refused);
        // An arrival without a place was that of one row at most.
        let lost = if blind.is_some() { 0 } else { outcomes.lost.saturating_sub(dropped) };
        self.lost.add(trial.n, lost + by_outage, blind.clone().or_else(|| full(dropped)));
        self.lost.by_outage += by_outage;
        // What a sender did it knows itself; only in a closed loop does it depend on what came
        // back.
        let closed_loop = back.is_some() && stream.cycle_ns == 0;
        match blind.as_ref().filter(|_| closed_loop || trial.failed.is_some()) {
            Some(why) => self.not_sent.add(trial.n, refused.min(outcomes.not_sent), Some(why.clone())),
            None => self.not_sent.add(trial.n, outcomes.not_sent, None),
        }
        let why = blind.or_else(|| full(of_any));
        self.duplicate.add(trial.n, outcomes.duplicate, why.clone());
        self.reordered.add(trial.n, outcomes.reordered, why);
    }
}

impl Seen {
    fn add(&mut self, trial: u32, at_least: u64, unseen: Option<String>) {
        self.at_least += at_least;
        self.unseen.extend(unseen.map(|why| (trial, why)));
    }
}

/// What ended the receiver, if something did.
fn ended_by(counters: &Counters) -> Option<Broke> {
    (counters.receive_errno != 0).then(|| of_receive(counters.receive_errno))
}

/// Packets that the sender knows that it did not send.
fn refused(counters: &Counters) -> u64 {
    counters.send_errors + counters.skipped + counters.launch_missed + counters.launch_invalid + counters.qdisc_dropped
}

/// Packets that were not sent because path or peer was gone: the port refused them for it, or a
/// closed loop was not asked on.
fn by_outage(stream: &StreamRecord, outcomes: &Outcomes, refused: u64) -> u64 {
    let counters = &stream.counters;
    let by_port = if is_outage_of_send(counters.first_send_errno) { counters.send_errors } else { 0 };
    let unasked = match stream.reply.as_ref().and_then(|reply| ended_by(&reply.counters)) {
        Some(Broke::Path) => outcomes.not_sent.saturating_sub(refused),
        Some(Broke::Measuring) | None => 0,
    };
    by_port.min(outcomes.not_sent) + unasked
}
