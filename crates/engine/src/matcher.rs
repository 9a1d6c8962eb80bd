// SPDX-License-Identifier: MIT OR Apache-2.0
//! Joins what the ends recorded into samples: pure, no clock, no I/O. Every row is an intended
//! packet; where the stream is answered, it is a request with its reply, and received once the
//! reply has come.
//!
//! [`unreported`] separates packets that a queue discipline dropped without a report (taprio does
//! so with launch times outside its windows) from those that the path lost.

use crate::port::XdpStamp;
use crate::receiver::Arrival;
use crate::sender::{Sending, SentRows};
use tardy_bpf::hints::Columns;
use tardy_model::point::{Point, Source};
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_model::time::{Conversion, Instant, Nanos};
use tardy_model::trial::StreamRecord;
use tardy_model::xdp::{Hints, UNKNOWN, XdpSeen};

/// What the matcher must know besides the halves.
#[derive(Clone, Debug)]
pub struct Match<'a> {
    /// Scheduled instant of packet 0, TAI ns; without meaning where the sender's half has the
    /// instant at which each was due.
    pub base_ns: i64,
    pub cycle: Nanos,
    /// Received later than scheduled + this: late.
    pub deadline: Nanos,
    /// The receiver comes to its packets late by design: what was late is seen by when the XDP
    /// program saw them.
    pub late_by_xdp: bool,
    /// By how much the XDP program's times may be wrong, ns.
    pub xdp_bound_ns: i64,
    /// The sender's half: a row for each packet that it reached.
    pub sent: &'a SentRows,
    /// The receiver's half, in the order of arrival.
    pub arrivals: &'a [Arrival],
    /// What an XDP program wrote before each arrival; empty where there was none.
    pub xdp: &'a [XdpStamp],
    /// The bytes before each arrival's packet, and the columns that they become; only where a
    /// user's own XDP program wrote them.
    pub areas: Option<(&'a Columns, &'a [u8])>,
    /// From the sender's REALTIME to TAI.
    pub tx: Conversion,
    /// From the receiver's REALTIME to TAI.
    pub rx: Conversion,
    /// By how much the clocks of the ends' hosts may disagree, ns; 0 on one host.
    pub hosts_bound_ns: i64,
    /// Who stamps which point; a point that is not in here gets no column.
    pub sources: &'a [(Point, Source)],
    /// The reflector's sending, row by packet number, and the replies in the order of their
    /// arrival.
    pub reply: Option<(&'a SentRows, &'a [Arrival])>,
}

/// Two clocks read one after the other, and their rounding, may disagree by so much.
const STAMP_SLACK_NS: i64 = 2_000;

/// The samples, and what did not become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// One row per packet that was reached.
    pub batch: Batch,
    /// What was counted on the way there.
    pub there: WayMatched,
    /// What the XDP program wrote.
    pub xdp: XdpSeen,
    /// What was counted of the replies.
    pub reply: WayMatched,
}

/// What did not become part of a sample, of one way: there, or of the replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayMatched {
    pub duplicates: u64,
    /// Packets that were sent without a driver stamp, where it was asked for.
    pub tx_stamps_missing: u64,
    /// Arrivals and tx stamps that fit no packet.
    pub unmatched: u64,
}

/// Arrivals taken into the rows.
#[derive(Default)]
struct Taken {
    duplicates: u64,
    strangers: u64,
    xdp: XdpSeen,
    /// The arrival that each row has its hint from.
    hints: Vec<Option<usize>>,
}

impl Taken {
    /// True if an arrival is the first one of its row. It counts one that is not, and one that
    /// has no row.
    #[inline]
    fn is_first_of_row(
        &mut self,
        batch: &mut Batch,
        seen: &mut [bool],
        row: usize,
        was_sent: impl Fn(usize) -> bool,
    ) -> bool {
        let Some(seen) = seen.get_mut(row).filter(|_| was_sent(row)) else {
            self.strangers += 1;
            return false;
        };
        let is_first = !std::mem::replace(seen, true);
        if !is_first {
            self.duplicates += 1;
            batch.flags[row].set(Flags::DUPLICATE);
        }
        is_first
    }

    /// When the XDP program saw the packet of arrival `n`, and where the row's hint is. What a
    /// stamp that cannot be this packet's is in is another packet's too.
    #[inline]
    fn xdp_and_hint(
        &mut self,
        row: usize,
        n: usize,
        stamp: Option<&XdpStamp>,
        receive_ns: i64,
        bound_ns: i64,
    ) -> Option<i64> {
        let xdp = stamp.and_then(|stamp| self.passed_xdp(*stamp, receive_ns, bound_ns));
        let is_another = stamp.is_some_and(|stamp| stamp.time_ns.is_some()) && xdp.is_none();
        if let Some(of) = self.hints.get_mut(row).filter(|_| !is_another) {
            *of = Some(n);
        }
        xdp
    }

    /// When the XDP program saw a packet that was received at `receive_ns`, if what it wrote is
    /// this packet's: a stamp that is later than that by more than its clock's bound is another's.
    fn passed_xdp(&mut self, stamp: XdpStamp, receive_ns: i64, bound_ns: i64) -> Option<i64> {
        let Some(ns) = stamp.time_ns.get() else {
            self.xdp.unstamped += 1;
            return None;
        };
        if ns > receive_ns.saturating_add(bound_ns) {
            self.xdp.implausible += 1;
            return None;
        }
        for (seen, of) in [(&mut self.xdp.by_cpu, stamp.cpu), (&mut self.xdp.by_queue, stamp.queue)] {
            if of != UNKNOWN {
                *seen.entry(of).or_default() += 1;
            }
        }
        Some(ns)
    }
}

/// When an arrival was stamped, ns after its packet was due.
struct ArrivalOffsets {
    device: Option<i64>,
    kernel: Option<i64>,
    xdp: Option<i64>,
    receive: i64,
}

/// The columns of one way's arrivals; `None` of a point that nobody stamps.
struct ArrivalColumns {
    device: Option<Vec<MaybeNanos>>,
    kernel: Option<Vec<MaybeNanos>>,
    xdp: Option<Vec<MaybeNanos>>,
    receive: Option<Vec<MaybeNanos>>,
}

impl ArrivalColumns {
    fn of(rows: usize, [kernel, receive]: [bool; 2], [device, xdp]: [bool; 2]) -> ArrivalColumns {
        let column = |wanted: bool| wanted.then(|| vec![MaybeNanos::NONE; rows]);
        ArrivalColumns { device: column(device), kernel: column(kernel), xdp: column(xdp), receive: column(receive) }
    }

    #[inline]
    fn put(&mut self, row: usize, offsets: &ArrivalOffsets) {
        let stamped = [
            (&mut self.device, offsets.device),
            (&mut self.kernel, offsets.kernel),
            (&mut self.xdp, offsets.xdp),
            (&mut self.receive, Some(offsets.receive)),
        ];
        for (column, offset) in stamped {
            if let (Some(column), Some(offset)) = (column, offset) {
                column[row] = MaybeNanos::some(offset);
            }
        }
    }

    /// Hands the columns over as those of the kernel's stamp and of the receive call.
    fn move_into(self, batch: &mut Batch, points: [Point; 2]) {
        for (point, column) in points.into_iter().zip([self.kernel, self.receive]) {
            batch.offsets[point.index()] = column;
        }
        for (point, column) in [(Point::RxHw, self.device), (Point::RxXdp, self.xdp)] {
            if column.is_some() {
                batch.offsets[point.index()] = column;
            }
        }
    }
}

impl Match<'_> {
    pub fn run(&self) -> Matched {
        let mut batch = self.intended();
        self.put(&mut batch, Point::Wakeup, |row| self.sent.wakeup.get(row)?.get());
        let points = [Point::Send, Point::TxSched, Point::TxKernel];
        let (tx_stamps_missing, mut unmatched) = self.sending(&mut batch, self.sent, &self.tx, points);
        self.put(&mut batch, Point::TxHw, |row| {
            let stamp = self.sent.tx_hw.get(row)?.get()?;
            Some(self.tx.to_tai(Instant::from_ns(stamp)).ns())
        });
        let points = [Point::RxKernel, Point::Receive];
        let ends = self.reply.is_none();
        let arrived = (self.arrivals, self.xdp);
        let mut taken = self.receive(&mut batch, arrived, (&self.rx, self.hosts_bound_ns), points, ends, |row| {
            self.sent.sending[row].sent()
        });
        unmatched += taken.strangers;
        batch.hints = self.hints(&mut taken);
        let reply = self.reply.map_or_else(WayMatched::default, |halves| self.replies(&mut batch, halves));
        let there = WayMatched { duplicates: taken.duplicates, tx_stamps_missing, unmatched };
        Matched { batch, there, xdp: taken.xdp, reply }
    }

    /// A row for each packet that was intended, with what the sender knows of it.
    fn intended(&self) -> Batch {
        let rows = self.sent.len();
        // Packets of a closed loop that was cut short were never due. They get the instant of the
        // last one that was due.
        let mut last_due = self.base_ns;
        let due = |row: usize| match self.sent.scheduled.get(row) {
            Some(due) => {
                last_due = due.get().unwrap_or(last_due);
                last_due
            }
            None => self.base_ns + (row as i64 + i64::from(self.sent.first)) * self.cycle.0,
        };
        let mut batch = Batch {
            seq: (0..rows as i64).map(|row| row + i64::from(self.sent.first)).collect(),
            scheduled_ns: (0..rows).map(due).collect(),
            outcome: vec![Outcome::NotSent; rows],
            flags: vec![Flags::default(); rows],
            ..Batch::default()
        };
        for (row, sending) in self.sent.sending.iter().enumerate() {
            if sending.sent() && !sending.dropped() {
                batch.outcome[row] = Outcome::Lost;
            }
            if sending.missed() {
                batch.flags[row].set(Flags::LAUNCH_MISSED);
            }
            if sending.invalid() {
                batch.flags[row].set(Flags::LAUNCH_INVALID);
            }
            if sending.overrun() {
                batch.flags[row].set(Flags::OVERRUN);
            }
        }
        batch
    }

    /// The replies into their rows, which they end.
    fn replies(&self, batch: &mut Batch, (sent, arrivals): (&SentRows, &[Arrival])) -> WayMatched {
        let points = [Point::ReplySend, Point::ReplyTxSched, Point::ReplyTxKernel];
        let (tx_stamps_missing, unmatched) = self.sending(batch, sent, &self.rx, points);
        let points = [Point::ReplyRxKernel, Point::ReplyReceive];
        // A reply proves that its request arrived, even where the reflector's half is gone. A
        // reply comes to the host whose clock gave the packet's instant.
        let was_sent = |row: usize| self.sent.sending[row].sent();
        let taken = self.receive(batch, (arrivals, &[]), (&self.tx, 0), points, true, was_sent);
        WayMatched { duplicates: taken.duplicates, tx_stamps_missing, unmatched: unmatched + taken.strangers }
    }

    /// What the bytes before the packets were, row by row.
    fn hints(&self, taken: &mut Taken) -> Option<Hints> {
        let (columns, areas) = self.areas?;
        let area = |arrival: usize| areas.chunks_exact(columns.area().max(1)).nth(arrival);
        let hints = columns.decode(taken.hints.iter().map(|arrival| arrival.and_then(area)));
        for row in 0..hints.of.len() {
            if let Some(name) = hints.name(row) {
                *taken.xdp.by_hint.entry(name.to_owned()).or_default() += 1;
            }
        }
        Some(hints)
    }

    fn has(&self, point: Point) -> bool {
        self.sources.iter().any(|(named, _)| *named == point)
    }

    fn put(&self, batch: &mut Batch, point: Point, mut stamp_ns: impl FnMut(usize) -> Option<i64>) {
        if !self.has(point) {
            return;
        }
        let offset = |row: usize| MaybeNanos::from(stamp_ns(row).map(|ns| ns - batch.scheduled_ns[row]));
        let column = (0..batch.seq.len()).map(offset).collect();
        batch.offsets[point.index()] = Some(column);
    }

    /// The stamps of a sending half into rows: send call, queue discipline, driver. Returns how
    /// many driver stamps are missing, and how many tx stamps fit no packet.
    fn sending(&self, batch: &mut Batch, half: &SentRows, clock: &Conversion, points: [Point; 3]) -> (u64, u64) {
        let [send, sched, driver] = points;
        let mut unmatched = 0;
        self.put(batch, send, |row| half.send.get(row)?.get());
        for (point, column) in [(sched, &half.tx_sched), (driver, &half.tx_kernel)] {
            self.put(batch, point, |row| {
                let stamp = column.get(row)?.get()?;
                let tai = clock.to_tai(Instant::from_ns(stamp)).ns();
                // A stamp from before the send belongs to another packet that had the same key.
                let send = half.send.get(row).and_then(|send| send.get());
                let fits = send.is_none_or(|send| tai >= send - clock.bound_ns - STAMP_SLACK_NS);
                unmatched += u64::from(!fits);
                fits.then_some(tai)
            });
        }
        let column = batch.offsets[driver.index()].as_ref();
        let missing = column.map_or(0, |column| {
            let lacks =
                |(stamp, sending): &(&MaybeNanos, &Sending)| sending.sent() && !sending.dropped() && !stamp.is_some();
            column.iter().zip(&half.sending).filter(lacks).count()
        });
        (missing as u64, unmatched)
    }

    /// Arrivals into rows. Those that end a row's way make it received and say whether it was
    /// early, late or overtaken.
    fn receive(
        &self,
        batch: &mut Batch,
        (arrivals, stamps): (&[Arrival], &[XdpStamp]),
        (clock, hosts_bound_ns): (&Conversion, i64),
        points: [Point; 2],
        ends: bool,
        was_sent: impl Fn(usize) -> bool,
    ) -> Taken {
        let rows = batch.seq.len();
        let is_request = points.contains(&Point::Receive);
        let mut columns = {
            let of_request = [Point::RxHw, Point::RxXdp].map(|point| is_request && self.has(point));
            ArrivalColumns::of(rows, points.map(|point| self.has(point)), of_request)
        };
        let mut seen = vec![false; rows];
        let sees_tags = arrivals.iter().any(|arrival| arrival.tags.count().is_some());
        if ends && sees_tags {
            batch.pcp = vec![None; rows];
        }
        let (mut taken, mut newest) = (Taken::default(), None);
        taken.hints = if is_request && self.areas.is_some() { vec![None; rows] } else { Vec::new() };
        for (n, arrival) in arrivals.iter().enumerate() {
            let row = arrival.seq.wrapping_sub(self.sent.first) as usize;
            if !taken.is_first_of_row(batch, &mut seen, row, &was_sent) {
                continue;
            }
            let scheduled = batch.scheduled_ns[row];
            let [device, kernel] = [arrival.rx_hw, arrival.rx_kernel]
                .map(|stamp| stamp.get().map(|ns| clock.to_tai(Instant::from_ns(ns)).ns() - scheduled));
            let xdp = taken.xdp_and_hint(row, n, stamps.get(n), arrival.receive_ns, self.xdp_bound_ns);
            let (xdp, receive) = (xdp.map(|ns| ns - scheduled), arrival.receive_ns - scheduled);
            let offsets = ArrivalOffsets { device, kernel, xdp, receive };
            columns.put(row, &offsets);
            if self.is_early(&offsets, hosts_bound_ns) {
                batch.flags[row].set(Flags::EARLY);
            }
            if !ends {
                continue;
            }
            batch.outcome[row] = Outcome::Received;
            if sees_tags {
                batch.pcp[row] = arrival.tags.outermost().map(|tag| tag.pcp);
            }
            let flags = &mut batch.flags[row];
            if self.is_late(&offsets) {
                flags.set(Flags::LATE);
            }
            match newest {
                Some(seq) if arrival.seq < seq => flags.set(Flags::REORDERED),
                _ => newest = Some(arrival.seq),
            }
        }
        columns.move_into(batch, points);
        taken
    }

    /// True if it arrived before it was due. Two clocks that may disagree make no packet early.
    #[inline]
    fn is_early(&self, offsets: &ArrivalOffsets, hosts_bound_ns: i64) -> bool {
        let by_xdp = offsets.kernel.is_none() && offsets.xdp.is_some();
        let bound_ns = if by_xdp { self.xdp_bound_ns } else { 0 };
        let first = offsets.kernel.or(offsets.xdp).unwrap_or(offsets.receive);
        first < hosts_bound_ns.saturating_add(bound_ns).saturating_neg()
    }

    /// True if it arrived after its deadline.
    #[inline]
    fn is_late(&self, offsets: &ArrivalOffsets) -> bool {
        offsets.xdp.filter(|_| self.late_by_xdp).unwrap_or(offsets.receive) > self.deadline.0
    }
}

/// Counts packets that came to the queue discipline and never to the driver as its drops, if its
/// counters account for at least as many, `unreported` ones. Returns how many. Nothing is concluded
/// where stamps themselves may have been lost.
pub fn unreported(batch: &mut Batch, record: &mut StreamRecord, unreported: u64) -> u64 {
    let has = |point: &Point| record.sources.contains_key(point);
    if unreported == 0
        || ![Point::TxSched, Point::TxKernel].iter().all(has)
        || record.counters.error_queue_overflows > 0
    {
        return 0;
    }
    let stayed = |row: &usize| {
        batch.outcome[*row] == Outcome::Lost
            && batch.offset(*row, Point::TxSched).is_some()
            && batch.offset(*row, Point::TxKernel).is_none()
    };
    let rows: Vec<usize> = (0..batch.len()).filter(stayed).collect();
    let count = rows.len() as u64;
    if count == 0 || count > unreported {
        return 0;
    }
    for row in rows {
        batch.outcome[row] = Outcome::NotSent;
        batch.flags[row].set(Flags::QDISC_DROPPED);
    }
    record.counters.qdisc_dropped = count;
    record.counters.tx_stamps_missing = record.counters.tx_stamps_missing.saturating_sub(count);
    count
}
