// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collecting what the ends recorded, when a trial is over or a station has failed.

use super::{SALVAGE, StreamHalves, Trial};
use crate::agent::AgentError;
use crate::station::{ANSWER, StationId, Stations};
use std::collections::BTreeMap;
use std::time::Duration;
use tardy_engine::halves::{Halves, ReplyHalves};
use tardy_engine::message::{Collected, FromAgent, ToAgent};
use tardy_engine::receiver::Arrival;
use tardy_engine::sender::SenderHalf;
use tardy_model::point::Point;
use tardy_model::stream::Side;
use tardy_model::stream::{Kind, Port, Stream};
use tardy_model::time::{ClockReading, Instant};
use tardy_model::trial::OwnNotes;
use tardy_sys::clock;

/// What one end hands over.
struct Half {
    sent: SenderHalf,
    arrivals: Vec<Arrival>,
    rest: Collected,
}

/// Intervals between packets that a trial's record has at most, of all streams: some 15 bytes each.
const MOST_BETWEEN: usize = 1 << 20;

impl Trial<'_> {
    fn collect_end(&self, stations: &mut Stations, i: usize, side: Side, limit: Duration) -> Result<Half, AgentError> {
        let (stream, station) = (self.number(i), self.streams[i].station(side));
        stations[station].tell(&ToAgent::Collect { stream, side })?;
        let (mut sent, mut arrivals) = (SenderHalf::default(), Vec::new());
        let mut taken = stations.answers(&[station], "handing over samples", limit, |_, message| match message {
            FromAgent::SenderPiece(piece) => {
                sent.append(piece);
                None
            }
            FromAgent::ArrivalPiece(mut piece) => {
                arrivals.append(&mut piece);
                None
            }
            FromAgent::Collected(rest) => Some(*rest),
            _ => None,
        })?;
        Ok(Half { sent, arrivals, rest: taken.remove(0) })
    }

    pub(super) fn collect(&self, stations: &mut Stations, i: usize) -> Result<StreamHalves, AgentError> {
        let mut halves = BTreeMap::new();
        for side in self.streams[i].sides() {
            halves.insert(side, self.collect_end(stations, i, side, ANSWER)?);
        }
        Ok(self.joined(i, halves))
    }

    /// The stream's halves; an end that is not there left nothing.
    fn joined(&self, i: usize, mut halves: BTreeMap<Side, Half>) -> StreamHalves {
        let (stream, ordered) = (self.number(i), &self.streams[i]);
        let end = |side| self.ready.get(&(stream, side));
        let gone = |side| {
            let thread = end(side).map(|end| end.thread.clone()).unwrap_or_default();
            let clocks = clock::read_clocks();
            let rest =
                Collected { sent: None, arrived: None, gaps: None, thread, clocks, tcp: None, own: Default::default() };
            Half { sent: SenderHalf::default(), arrivals: Vec::new(), rest }
        };
        let mut absent: BTreeMap<_, _> =
            ordered.sides().filter_map(end).flat_map(|end| end.absent.iter().cloned()).collect();
        absent.extend(joined(&ordered.stream));
        let before = |station: StationId, after: ClockReading| self.clocks.get(&station).copied().unwrap_or(after);
        let mut tx = halves.remove(&Side::Tx).unwrap_or_else(|| gone(Side::Tx));
        let mut rx = halves.remove(&Side::Rx).unwrap_or_else(|| gone(Side::Rx));
        // A connection has its queue's size only when it is made.
        let queue = |half: &Half, side| {
            let told = end(side).map_or(0, |end| end.error_queue_bytes);
            half.rest.sent.map_or(told, |sent| told.max(sent.queue_bytes))
        };
        let [error_queue_bytes, of_replies] = [queue(&tx, Side::Tx), queue(&rx, Side::Rx)];
        let mut own = OwnNotes::default();
        for half in [Some(&mut tx), Some(&mut rx), halves.get_mut(&Side::Reply)].into_iter().flatten() {
            own.add(std::mem::take(&mut half.rest.own));
        }
        own.keep_between(MOST_BETWEEN / self.streams.len().max(1));
        let reply = ordered.replies_at().map(|side| {
            let own = (side == Side::Reply).then(|| halves.remove(&Side::Reply).unwrap_or_else(|| gone(Side::Reply)));
            let arrivals = match &own {
                Some(own) => own.arrivals.clone(),
                None => std::mem::take(&mut tx.arrivals),
            };
            let at = own.as_ref().unwrap_or(&tx);
            ReplyHalves {
                sent: rx.sent,
                tx_counters: rx.rest.sent.unwrap_or_default(),
                arrivals,
                rx_counters: at.rest.arrived.unwrap_or_default(),
                gaps: at.rest.gaps,
                tcp: [tx.rest.tcp, rx.rest.tcp],
                error_queue_bytes: of_replies,
                thread: own.map(|own| own.rest.thread),
            }
        });
        let halves = Halves {
            sent: tx.sent,
            tx_counters: tx.rest.sent.unwrap_or_default(),
            tx_clocks: [before(ordered.from, tx.rest.clocks), tx.rest.clocks],
            tx_thread: tx.rest.thread,
            arrivals: rx.arrivals,
            rx_counters: rx.rest.arrived.unwrap_or_default(),
            rx_clocks: [before(ordered.to, rx.rest.clocks), rx.rest.clocks],
            rx_thread: rx.rest.thread,
            gaps: rx.rest.gaps,
            tx_gaps: tx.rest.gaps.filter(|_| ordered.stream.kind != Kind::Pingpong),
            absent,
            error_queue_bytes,
            warmup: self.warmups[i],
            reply,
            own,
        };
        StreamHalves { base: self.bases[i].unwrap_or(Instant::from_ns(0)), halves }
    }

    /// What the stations that still answer had recorded of a stream; `None` if it never began, or nothing is left of it.
    /// Whoever keeps it must say that half of it is gone: it is not a trial.
    pub(super) fn salvage(&self, stations: &mut Stations, i: usize) -> Option<StreamHalves> {
        self.bases[i]?;
        let sides = self.streams[i].sides();
        let halves = sides.filter_map(|side| Some((side, self.collect_end(stations, i, side, SALVAGE).ok()?)));
        let halves: BTreeMap<Side, Half> = halves.collect();
        if halves.is_empty() {
            return None;
        }
        let reached = halves.values().flat_map(|half| &half.arrivals).map(|arrival| arrival.seq + 1).max();
        let lacks_sender = !halves.contains_key(&Side::Tx);
        let mut ran = self.joined(i, halves);
        if lacks_sender {
            // The sender's rows went with it: rows are made for what arrived to stand in.
            ran.halves.sent = SenderHalf::only_sent(reached.unwrap_or(0));
        }
        Some(ran)
    }
}

/// Points whose stamps are not those of one message: the kernel joins segments that wait to be sent or read, and keeps one stamp for
/// all.
fn joined(stream: &Stream) -> impl Iterator<Item = (Point, String)> + '_ {
    let joined = stream.port == Port::Tcp && stream.reply.in_flight > 1;
    let sent = [Point::TxSched, Point::TxKernel, Point::ReplyTxSched, Point::ReplyTxKernel];
    let points = [Point::RxKernel, Point::ReplyRxKernel].into_iter().chain(sent);
    points.filter(move |point| joined && stream.stamps.contains(point)).map(|point| {
        let why = "TCP joins messages that wait to be sent or read, and one stamp stands for all of them: only with \
                   in_flight = 1 has each its own";
        (point, why.to_owned())
    })
}
