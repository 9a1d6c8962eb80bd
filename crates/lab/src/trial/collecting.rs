// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collecting what the ends recorded, one end after the other, when a trial is over or a station
//! has failed.

use super::activities::{Activity, ActivityKind, Awaited};
use super::shared::{Broken, Input, Now, Output, Shared, StreamHalves, TrialError};
use crate::agent::AgentError;
use crate::not_found::NotFound;
use crate::orders::Ordered;
use crate::station::{ANSWER, StationId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tardy_engine::halves::{Halves, ReplyHalves};
use tardy_engine::message::{ActivitySummary, EndSummary, FromAgent, ToAgent};
use tardy_engine::order::ReceiveOrder;
use tardy_engine::port::XdpStamp;
use tardy_engine::receiver::Arrival;
use tardy_engine::sender::SentRows;
use tardy_model::stream::{Kind, Side};
use tardy_model::stream_id::{NoStream, StreamId};
use tardy_model::time::{ClockReading, EndOffsets, Instant, Monotonic, Nanos, Tai};
use tardy_model::trial::OwnNotes;

/// What one end hands over.
struct HandedOver {
    sent: SentRows,
    arrivals: Vec<Arrival>,
    stamps: Vec<XdpStamp>,
    areas: Vec<u8>,
    rest: EndSummary,
}

/// Intervals between packets that a trial's record has at most, of all streams: some 15 bytes each.
const MOST_BETWEEN: usize = 1 << 20;
/// When a station has failed, the others get less time to hand over what they have.
const SALVAGE: Nanos = Nanos(3_000_000_000);

/// The end that hands over now.
struct Present {
    end: Activity,
    sent: SentRows,
    arrivals: Vec<Arrival>,
    stamps: Vec<XdpStamp>,
    areas: Vec<u8>,
    /// Bytes before each packet, once some were handed over.
    area: Option<usize>,
}

/// A piece of what arrived.
enum Piece {
    Sent(SentRows),
    Arrivals(Vec<Arrival>),
    Stamps(Vec<XdpStamp>),
    Areas(Vec<u8>),
}

impl Present {
    /// Puts a piece behind those before, if the end that has this order can have recorded so much:
    /// an agent that goes on and on must not fill this machine's memory. Else says what there is
    /// too much of, how many, and how many there can be.
    fn take(
        &mut self,
        (count, order): (u32, Option<&ReceiveOrder>),
        piece: Piece,
    ) -> Result<(), (&'static str, usize, usize)> {
        let room = order.map_or(0, ReceiveOrder::room);
        let (what, had, room) = match &piece {
            // A message may come twice.
            Piece::Sent(rows) => ("rows", self.sent.longest() + rows.longest(), 4 * (count as usize + 256)),
            Piece::Arrivals(arrivals) => ("arrivals", self.arrivals.len() + arrivals.len(), room),
            Piece::Stamps(stamps) => ("stamps of an XDP program", self.stamps.len() + stamps.len(), room),
            Piece::Areas(areas) => {
                // The object is looked into once.
                let area = *self.area.get_or_insert_with(|| order.map_or(0, ReceiveOrder::area));
                ("bytes before packets", self.areas.len() + areas.len(), room.saturating_mul(area))
            }
        };
        if had > room {
            return Err((what, had, room));
        }
        match piece {
            Piece::Sent(rows) => self.sent.append(rows),
            Piece::Arrivals(mut arrivals) => self.arrivals.append(&mut arrivals),
            Piece::Stamps(mut stamps) => self.stamps.append(&mut stamps),
            Piece::Areas(mut areas) => self.areas.append(&mut areas),
        }
        Ok(())
    }
}

pub(super) struct Collecting {
    /// Ends that were not asked yet.
    next: VecDeque<Activity>,
    present: Option<Present>,
    asked: Awaited,
    /// What was handed over, by stream.
    halves: BTreeMap<StreamId, BTreeMap<Side, HandedOver>>,
    /// Stations that do not answer any more.
    lost: BTreeSet<StationId>,
    /// Why the trial has no whole result.
    failed: Option<TrialError>,
}

const DOING: &str = "handing over samples";

impl Collecting {
    /// Every end of a trial that is over.
    pub(super) fn all(shared: &Shared<'_>, now: Now, out: &mut Vec<Output>) -> Collecting {
        let next = shared.activities.of(|kind| kind.stream().is_some());
        Collecting::of(next.collect(), None, BTreeSet::new(), now, out)
    }

    /// What is left of a trial that failed: the ends of streams that began. Nothing is asked of
    /// stations that are `lost`.
    pub(super) fn left(
        shared: &Shared<'_>,
        failed: TrialError,
        lost: BTreeSet<StationId>,
        now: Now,
        out: &mut Vec<Output>,
    ) -> Collecting {
        let next = shared.activities.of(|kind| kind.stream().is_some_and(|stream| shared.bases.contains_key(&stream)));
        Collecting::of(next.collect(), Some(failed), lost, now, out)
    }

    fn of(
        next: VecDeque<Activity>,
        failed: Option<TrialError>,
        lost: BTreeSet<StationId>,
        now: Now,
        out: &mut Vec<Output>,
    ) -> Collecting {
        let mut collecting = Collecting {
            next,
            present: None,
            asked: Awaited::new([], DOING, ANSWER, now.monotonic),
            halves: BTreeMap::new(),
            lost,
            failed,
        };
        collecting.ask_next(now, out);
        collecting
    }

    pub(super) fn deadline(&self) -> Instant<Monotonic> {
        self.asked.deadline()
    }

    /// True when no end is left to be asked.
    pub(super) fn is_over(&self) -> bool {
        self.present.is_none()
    }

    fn ask_next(&mut self, now: Now, out: &mut Vec<Output>) {
        self.present = None;
        while let Some(end) = self.next.pop_front() {
            // Its answer to another question may still be on its way, and would be taken for that
            // to this one.
            if self.lost.contains(&end.station) {
                continue;
            }
            out.push(Output::Tell(end.station, ToAgent::Collect { activity: end.id }));
            let limit = if self.failed.is_some() { SALVAGE } else { ANSWER };
            self.asked = Awaited::new([end], DOING, limit, now.monotonic);
            let (arrivals, stamps, areas) = Default::default();
            self.present = Some(Present { end, sent: SentRows::default(), arrivals, stamps, areas, area: None });
            return;
        }
    }

    /// True when nothing is left to be collected.
    pub(super) fn handle(&mut self, shared: &Shared<'_>, now: Now, input: Input, out: &mut Vec<Output>) -> bool {
        let Some(present) = &mut self.present else { return true };
        let station = present.end.station;
        let from = match &input {
            Input::Lost(of, _) | Input::Message(of, _) => Some(*of),
            Input::Tick | Input::Stop | Input::Looked(_) | Input::Unseen(..) => None,
        };
        if let Input::Lost(of, _) = &input {
            self.lost.insert(*of);
        }
        let is_its = from.is_none_or(|of| of == station);
        if self.failed.is_some() && !is_its {
            // What happens to another station changes nothing for this one, but that time passes.
            if let Some((silent, ..)) = self.asked.silent(now.monotonic) {
                self.lost.insert(silent);
                self.ask_next(now, out);
            }
            return self.is_over();
        }
        if let Input::Message(of, FromAgent::Broke { why, .. }) = input {
            // It says why there is less of this end, and hands over what there is when it is asked.
            self.failed.get_or_insert(AgentError::Refused { station: shared.name(of), what: why }.into());
            return false;
        }
        match shared.heard(&mut self.asked, now, input) {
            Err(error) => {
                // One that is silent may answer later, when another end of its is asked.
                self.lost.extend(self.asked.silent(now.monotonic).map(|(silent, ..)| silent));
                self.failed.get_or_insert(error.into());
                if is_its {
                    self.ask_next(now, out);
                }
            }
            Ok(Some((from, message))) if from == station => self.take_message(shared, now, message, out),
            Ok(_) => {}
        }
        self.is_over()
    }

    /// Takes a message of the present end's station. What was asked of another end and comes late
    /// is nothing of this one.
    fn take_message(&mut self, shared: &Shared<'_>, now: Now, message: FromAgent, out: &mut Vec<Output>) {
        let Some(Activity { id, kind, .. }) = self.present.as_ref().map(|present| present.end) else { return };
        let piece = match message {
            FromAgent::SenderPiece { activity, rows } if activity == id => Piece::Sent(rows),
            FromAgent::ArrivalPiece { activity, arrivals } if activity == id => Piece::Arrivals(arrivals),
            FromAgent::XdpPiece { activity, stamps } if activity == id => Piece::Stamps(stamps),
            FromAgent::AreaPiece { activity, areas } if activity == id => Piece::Areas(areas),
            FromAgent::Collected { activity, summary } if activity == id => {
                // One that hands over the summary of something else has not answered.
                let ActivitySummary::End(rest) = *summary else { return };
                if let (Some(Present { sent, arrivals, stamps, areas, .. }), ActivityKind::End { stream, side }) =
                    (self.present.take(), kind)
                {
                    let halves = self.halves.entry(stream).or_default();
                    halves.insert(side, HandedOver { sent, arrivals, stamps, areas, rest });
                }
                return self.ask_next(now, out);
            }
            _ => return,
        };
        self.take(shared, piece, now, out);
    }

    /// Takes a piece of the present end. One that hands over too much is asked for nothing more.
    fn take(&mut self, shared: &Shared<'_>, piece: Piece, now: Now, out: &mut Vec<Output>) {
        let Some(present) = &mut self.present else { return };
        let Activity { station, kind: ActivityKind::End { stream, side }, .. } = present.end else { return };
        let ordered = shared.stream(stream).ok();
        let order = ordered.and_then(|ordered| ordered.receives(side));
        let count = ordered.map_or(0, |ordered| ordered.stream.count);
        if let Err((what, had, room)) = present.take((count, order), piece) {
            let stream = ordered.map(|ordered| ordered.stream.name.clone()).unwrap_or_default();
            let error = AgentError::TooMuch { station: shared.name(station), stream, what, had, room };
            self.failed.get_or_insert(error.into());
            self.ask_next(now, out);
        }
    }

    /// What all of it comes to.
    pub(super) fn result(&mut self, shared: &Shared<'_>) -> Result<Vec<StreamHalves>, Broken> {
        let mut all = std::mem::take(&mut self.halves);
        // Of a stream whose ends handed nothing over there is nothing.
        let each = shared.streams.iter().map(|ordered| (ordered, all.remove(&ordered.id).unwrap_or_default()));
        match self.failed.take() {
            None => {
                let whole = |(ordered, halves): (&Ordered, _)| {
                    let base = shared.bases.get(&ordered.id).ok_or(NoStream::At(ordered.id.number().into()))?;
                    Ok(shared.joined(ordered, *base, halves))
                };
                Ok(each.map(whole).collect::<Result<_, NotFound>>()?)
            }
            Some(error) => {
                Err(Broken { error, had: each.map(|(ordered, halves)| shared.salvaged(ordered, halves)).collect() })
            }
        }
    }
}

impl Shared<'_> {
    /// What the stations that still answered had recorded of a stream; `None` if it never began,
    /// or nothing is left of it. Whoever keeps it must say that half of it is gone: it is not a
    /// trial.
    fn salvaged(&self, ordered: &Ordered, halves: BTreeMap<Side, HandedOver>) -> Option<StreamHalves> {
        let base = *self.bases.get(&ordered.id)?;
        if halves.is_empty() {
            return None;
        }
        let count = ordered.stream.count;
        let seqs = halves.values().flat_map(|half| &half.arrivals).map(|arrival| arrival.seq);
        // A number that no packet of the stream has makes no rows.
        let reached = seqs.filter(|seq| *seq < count).max().map(|seq| seq + 1);
        let lacks_sender = !halves.contains_key(&Side::Tx);
        let mut ran = self.joined(ordered, base, halves);
        if lacks_sender {
            // The sender's rows are gone with it. So we make rows for the arrivals to go into.
            ran.halves.sent = SentRows::only_sent(reached.unwrap_or(0));
        }
        Some(ran)
    }

    /// What there is of an end that left nothing.
    fn gone(&self, ordered: &Ordered, side: Side) -> HandedOver {
        let thread = self.ready(ordered.id, side).map(|end| end.thread.clone()).unwrap_or_default();
        // Of an end that is gone there are no stamps that they would convert.
        let clocks = self.clocks.get(&ordered.station(side)).copied().unwrap_or(UNREAD);
        let rest = EndSummary {
            sent: None,
            arrived: None,
            gaps: None,
            thread,
            clocks,
            tcp: None,
            own: Default::default(),
            xdp: None,
            xdp_sent: None,
        };
        let (arrivals, stamps, areas) = Default::default();
        HandedOver { sent: SentRows::default(), arrivals, stamps, areas, rest }
    }

    /// The stream's halves; an end that is not there left nothing.
    fn joined(&self, ordered: &Ordered, base: Instant<Tai>, mut halves: BTreeMap<Side, HandedOver>) -> StreamHalves {
        let end = |side| self.ready(ordered.id, side);
        let gone = |side| self.gone(ordered, side);
        let absent: BTreeMap<_, _> =
            ordered.sides().filter_map(end).flat_map(|end| end.absent.iter().cloned()).collect();
        let before = |station: StationId, after: ClockReading| self.clocks.get(&station).copied().unwrap_or(after);
        let mut tx = halves.remove(&Side::Tx).unwrap_or_else(|| gone(Side::Tx));
        let mut rx = halves.remove(&Side::Rx).unwrap_or_else(|| gone(Side::Rx));
        // A connection has its queue's size only when it is made.
        let queue = |half: &HandedOver, side| {
            let when_ready = end(side).map_or(0, |end| end.error_queue_bytes);
            half.rest.sent.map_or(when_ready, |sent| when_ready.max(sent.queue_bytes))
        };
        let [error_queue_bytes, of_replies] = [queue(&tx, Side::Tx), queue(&rx, Side::Rx)];
        let mut own = OwnNotes::default();
        for half in [Some(&mut tx), Some(&mut rx), halves.get_mut(&Side::Reply)].into_iter().flatten() {
            own.add(std::mem::take(&mut half.rest.own));
        }
        own.keep_between(MOST_BETWEEN / self.streams.len().max(1));
        let reply = ordered.replies_at().map(|side| {
            let own = (side == Side::Reply).then(|| halves.remove(&Side::Reply).unwrap_or_else(|| gone(Side::Reply)));
            replies(&mut tx, &mut rx, own, of_replies)
        });
        let halves = Halves {
            sent: tx.sent,
            tx_counters: tx.rest.sent.unwrap_or_default(),
            tx_clocks: [before(ordered.from, tx.rest.clocks), tx.rest.clocks],
            tx_thread: tx.rest.thread,
            arrivals: rx.arrivals,
            xdp_stamps: rx.stamps,
            areas: rx.areas,
            xdp: rx.rest.xdp,
            xdp_sent: tx.rest.xdp_sent,
            rx_counters: rx.rest.arrived.unwrap_or_default(),
            rx_clocks: [before(ordered.to, rx.rest.clocks), rx.rest.clocks],
            rx_thread: rx.rest.thread,
            gaps: rx.rest.gaps,
            tx_gaps: tx.rest.gaps.filter(|_| ordered.stream.kind != Kind::Pingpong),
            absent,
            error_queue_bytes,
            warmup: self.warmups.get(&ordered.id).copied().unwrap_or_default(),
            reply,
            own,
            offsets: EndOffsets { tx: self.offset(ordered.from), rx: self.offset(ordered.to), pair: None },
        };
        StreamHalves { base, halves, pair: None, steered: Vec::new() }
    }
}

/// The halves of the replies: `rx` sent them, and either an end of their own received them or the
/// one that sent the requests.
fn replies(tx: &mut HandedOver, rx: &mut HandedOver, own: Option<HandedOver>, error_queue_bytes: u64) -> ReplyHalves {
    let (arrivals, arrived, gaps, thread) = match own {
        Some(HandedOver { arrivals, rest, .. }) => (arrivals, rest.arrived, rest.gaps, Some(rest.thread)),
        None => (std::mem::take(&mut tx.arrivals), tx.rest.arrived, tx.rest.gaps, None),
    };
    ReplyHalves {
        sent: std::mem::take(&mut rx.sent),
        tx_counters: rx.rest.sent.unwrap_or_default(),
        arrivals,
        rx_counters: arrived.unwrap_or_default(),
        gaps,
        tcp: [tx.rest.tcp, rx.rest.tcp],
        error_queue_bytes,
        thread,
    }
}

/// Clocks that nobody read.
const UNREAD: ClockReading =
    ClockReading { tai_ns: 0, realtime_ns: 0, monotonic_ns: 0, bound_ns: i64::MAX, tai_offset_s: 0, steering: None };
