// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known for certain of the packets of every finished trial, whatever else is wrong with
//! it: the counts that expectations limit ([`Count::needs_no_validity`]). They depend on no clock
//! and no stamp, so a trial that is not valid, or left out of the figures, counts like any other.
//! If tardy did not see what became of packets, a count is a lower bound: a path that is down loses
//! packets, which is a finding; a socket or memory that tardy lacks leaves the packets unseen,
//! which is none.

use crate::says;
use tardy_model::expect::Count;
use tardy_model::result::Outcomes;
use tardy_model::trial::{Counters, StreamRecord, TrialRecord};

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
