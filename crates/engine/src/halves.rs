// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both halves of one stream in one trial, wherever they came from, and what becomes of them:
//! samples and a record. What another host recorded is first brought to the coordinator's clock.

use crate::matcher::{Match, Matched, WayMatched};
use crate::order::{columns_of, room};
use crate::port::XdpStamp;
use crate::receiver::{Arrival, ReceiverCounters};
use crate::sender::{SenderCounters, SentRows};
use std::borrow::Cow;
use std::collections::BTreeMap;
use tardy_bpf::hints::Columns;
use tardy_model::ethernet::TAG;
use tardy_model::placement::ThreadRecord;
use tardy_model::point::{Point, Source};
use tardy_model::port::{Port, TcpRecord};
use tardy_model::qdisc::LaunchRecord;
use tardy_model::sample::{Batch, MaybeNanos};
use tardy_model::stream::{Side, Stream};
use tardy_model::time::{ClockReading, Conversion, EndOffsets, Instant, Nanos, Offset, Tai};
use tardy_model::trial::{Counters, OwnNotes, ReplyRecord, SpinGaps, StreamRecord, TagRecord, WarmUp};
use tardy_model::xdp::{CoreRecord, DeviceHint, DeviceHintCount, Hints, XdpRecord, XdpSeen, XdpSendRecord};

/// What was recorded of a stream's replies.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplyHalves {
    /// The reflector's sending, row by packet number.
    pub sent: SentRows,
    pub tx_counters: SenderCounters,
    /// The replies that arrived.
    pub arrivals: Vec<Arrival>,
    /// Events of receiving them.
    pub rx_counters: ReceiverCounters,
    /// The thread that received them, where it is one of its own.
    pub thread: Option<ThreadRecord>,
    /// Gaps of a spinning wait for them.
    pub gaps: Option<SpinGaps>,
    /// TCP's own figures at the end that asks, and at the reflector.
    pub tcp: [Option<TcpRecord>; 2],
    /// Size of the reflector's error queue.
    pub error_queue_bytes: u64,
}

/// All that the two stations recorded of one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Halves {
    pub sent: SentRows,
    pub tx_counters: SenderCounters,
    pub tx_thread: ThreadRecord,
    /// Sender's clocks before and after.
    pub tx_clocks: [ClockReading; 2],
    pub arrivals: Vec<Arrival>,
    /// What the XDP program wrote before each of them, on port `xdp`; else empty.
    pub xdp_stamps: Vec<XdpStamp>,
    /// The bytes before each of their packets, where a user's own XDP program wrote them; else
    /// empty.
    pub areas: Vec<u8>,
    /// What that port was and saw.
    pub xdp: Option<XdpRecord>,
    /// What the port `xdp` was that packets were sent through.
    pub xdp_sent: Option<XdpSendRecord>,
    pub rx_counters: ReceiverCounters,
    pub rx_thread: ThreadRecord,
    /// Receiver's clocks before and after.
    pub rx_clocks: [ClockReading; 2],
    /// Gaps of a spinning receiver.
    pub gaps: Option<SpinGaps>,
    /// Gaps of a spinning sender.
    pub tx_gaps: Option<SpinGaps>,
    /// Points that are not available, with the reason.
    pub absent: BTreeMap<Point, String>,
    /// The error queue's size.
    pub error_queue_bytes: u64,
    pub warmup: WarmUp,
    /// Replies, where the stream is answered.
    pub reply: Option<ReplyHalves>,
    /// What the threads of all ends did for tardy itself in the trial, and how much of that found
    /// no room.
    pub own: OwnNotes,
    /// How far the clocks of the ends' hosts were ahead. All instants here are of these hosts' own
    /// clocks.
    pub offsets: EndOffsets,
}

fn source_of(port: Port, point: Point) -> Source {
    match point {
        _ if port.traits().is_simulated => Source::Sim,
        Point::Wakeup | Point::Send | Point::Receive | Point::ReplySend | Point::ReplyReceive => Source::App,
        Point::TxKernel | Point::ReplyTxKernel => Source::Driver,
        Point::TxHw | Point::RxHw => Source::Hardware,
        Point::RxXdp => Source::Bpf,
        _ => Source::Kernel,
    }
}

/// What the device answered to each hint that it was asked for.
fn device_hints(asked: &[DeviceHint], hints: Option<&Hints>) -> Vec<DeviceHintCount> {
    let Some(hints) = hints else { return Vec::new() };
    let count = |hint: &DeviceHint| {
        let flags = |of: &str| {
            let name = format!("{of}_{}", hint.name());
            let column = hints.columns.iter().find(move |column| column.name == name);
            column.into_iter().flat_map(|column| column.values.iter().flatten())
        };
        let set = |of| flags(of).filter(|value| **value != 0).count() as u64;
        let (all, offered, given) = (flags("offers").count() as u64, set("offers"), set("has"));
        DeviceHintCount { hint: *hint, given, absent: offered.saturating_sub(given), not_offered: all - offered }
    };
    asked.iter().map(count).collect()
}

/// Why not one packet has an answer, though the program asked, and the device left room for its
/// stamp.
fn without_answers(counts: &[DeviceHintCount], seen: &XdpSeen) -> Option<String> {
    let answers: u64 = counts.iter().map(|of| of.given + of.absent + of.not_offered).sum();
    let stamped = seen.by_cpu.values().any(|packets| *packets > 0);
    let why = "the kernel leaves room for the program's stamp before a packet, and none for the hints: older kernels give 32 bytes";
    (!counts.is_empty() && answers == 0 && stamped).then(|| why.to_owned())
}

/// The same halves in the coordinator's clock. Where both ends were on its host nothing is copied.
fn to_here<'h>(halves: &'h Halves, stream: &Stream, base: Instant<Tai>) -> Cow<'h, Halves> {
    if halves.offsets.are_none() {
        return Cow::Borrowed(halves);
    }
    let mut here = halves.clone();
    if let Some(offset) = &halves.offsets.tx {
        let host = Host::of(Side::Tx, &halves.offsets, &halves.tx_clocks);
        due(&mut here.sent, offset, base, stream.cycle);
        host.sent(&mut here.sent);
        here.tx_counters.sent_ns =
            here.tx_counters.sent_ns.map(|(first, last)| (host.tai_ns(first), host.tai_ns(last)));
        host.noted(&mut here.own, |side| side != Side::Rx);
        if let Some(reply) = &mut here.reply {
            host.arrived(&mut reply.arrivals);
        }
    }
    if halves.offsets.rx.is_some() {
        let host = Host::of(Side::Rx, &halves.offsets, &halves.rx_clocks);
        host.arrived(&mut here.arrivals);
        host.passed_xdp(&mut here.xdp_stamps);
        host.noted(&mut here.own, |side| side == Side::Rx);
        if let Some(reply) = &mut here.reply {
            host.sent(&mut reply.sent);
        }
    }
    // Neighbours of two hosts are now in one order.
    here.own.work.sort_by_key(|work| work.start_ns);
    Cow::Owned(here)
}

/// Memory that the hints of an XDP program take at a trial's peak, where they are kept, bytes: the
/// areas in the receiver's memory, where they came together, and in the halves by this host's
/// clock; the columns that they are decoded to, and what the writer makes of these.
pub fn hint_bytes(stream: &Stream) -> u64 {
    let Some(kept) = kept_of(stream).filter(|_| stream.rx.port.passes_xdp()) else { return 0 };
    let columns = kept.names().count();
    let row = columns * size_of::<Option<i64>>() + size_of::<Option<u8>>() + size_of::<Option<usize>>();
    let written = columns * size_of::<i64>() + size_of::<u8>();
    let areas = 3 * room(stream.count) * kept.area();
    areas as u64 + u64::from(stream.count) * (row + written) as u64
}

/// The columns of what is kept of a stream's hints.
fn kept_of(stream: &Stream) -> Option<Columns> {
    let object = stream.rx.object.as_ref();
    columns_of(object.map(|object| (&object.bytes[..], object.section.as_deref())), &stream.rx.hints)
}

/// The rows of halves that are in the coordinator's clock.
fn matched(
    stream: &Stream,
    base: Instant<Tai>,
    halves: &Halves,
    sources: &[(Point, Source)],
    [tx, rx]: [Conversion; 2],
) -> Matched {
    let columns = match halves.areas.is_empty() {
        true => None,
        false => kept_of(stream),
    };
    Match {
        base_ns: base.ns(),
        cycle: stream.cycle,
        deadline: stream.deadline,
        late_by_xdp: halves.xdp.as_ref().is_some_and(|port| port.triggered.is_some()),
        xdp_bound_ns: halves.xdp.as_ref().map_or(0, |port| port.clock_bound_ns),
        sent: &halves.sent,
        arrivals: &halves.arrivals,
        xdp: &halves.xdp_stamps,
        areas: columns.as_ref().map(|columns| (columns, &halves.areas[..])),
        tx,
        rx,
        hosts_bound_ns: halves.offsets.bound_ns(),
        sources,
        reply: halves.reply.as_ref().map(|reply| (&reply.sent, &reply.arrivals[..])),
    }
    .run()
}

/// Joins the halves of `stream`, whose packet 0 was due at `base`, by the coordinator's clock.
pub fn join(stream: &Stream, base: Instant<Tai>, halves: &Halves) -> (Batch, StreamRecord) {
    let halves = &*to_here(halves, stream, base);
    let had = stream.stamps.iter().filter(|point| !halves.absent.contains_key(point) && **point != Point::Scheduled);
    let sources: Vec<(Point, Source)> = had.map(|point| (*point, source_of(stream.port, *point))).collect();
    let tx_conversion = Conversion::between(&halves.tx_clocks[0], &halves.tx_clocks[1]);
    let rx_conversion = Conversion::between(&halves.rx_clocks[0], &halves.rx_clocks[1]);
    let matched = matched(stream, base, halves, &sources, [tx_conversion, rx_conversion]);
    let batch = matched.batch;
    let (intended_span_ns, sent_span_ns) = spans(stream, halves);
    let reply = halves.reply.as_ref().map(|reply| reply_record(stream, reply, halves, &matched.reply));
    let record = StreamRecord {
        intended: stream.count,
        cycle_ns: stream.cycle.0,
        phase_ns: None,
        intended_span_ns,
        sent_span_ns,
        lateness_by_tenth_ns: lateness_by_tenth(stream, &batch),
        max_loss: stream.max_loss,
        sources: sources.into_iter().collect(),
        absent: halves.absent.clone(),
        tx_conversion,
        tx_hw_bound_ns: halves.tx_counters.hardware_bound_ns,
        rx_hw_bound_ns: halves.rx_counters.hardware_bound_ns,
        rx_conversion,
        tx_clocks: halves.tx_clocks,
        rx_clocks: halves.rx_clocks,
        tx: halves.tx_thread.clone(),
        rx: halves.rx_thread.clone(),
        warmup: halves.warmup,
        counters: counters(&halves.tx_counters, &halves.rx_counters, &matched.there),
        spin_gaps: halves.gaps,
        tx_spin_gaps: halves.tx_gaps,
        error_queue_bytes: halves.error_queue_bytes,
        tags: tags(stream, &halves.arrivals),
        reply,
        launching: LaunchRecord::default(),
        xdp: halves
            .xdp
            .clone()
            .map(|port| xdp_record(stream, port, &halves.rx_thread, matched.xdp, batch.hints.as_ref())),
        xdp_sent: halves.xdp_sent.clone(),
        own_work: halves.own.work.clone(),
        own_between: halves.own.between.clone(),
        own_work_left_out: halves.own.left_out,
        offsets: halves.offsets.clone(),
        copy: None,
    };
    (batch, record)
}

/// What the XDP program wrote before the packets, added to what the port has recorded.
fn xdp_record(
    stream: &Stream,
    port: XdpRecord,
    receiver: &ThreadRecord,
    seen: XdpSeen,
    hints: Option<&Hints>,
) -> XdpRecord {
    let core = CoreRecord::of(stream.rx.core, only_cpu(receiver), &seen.by_cpu);
    let device_hints = device_hints(&stream.rx.hints, hints);
    let without_hints = port.without_hints.clone().or_else(|| without_answers(&device_hints, &seen));
    XdpRecord { seen, core, device_hints, without_hints, ..port }
}

/// The CPU that a thread was on during the whole trial: it was pinned there and did not move.
fn only_cpu(thread: &ThreadRecord) -> Option<u32> {
    let [cpu] = thread.affinity[..] else { return None };
    let has_stayed = thread.migrations.is_none_or(|moves| moves == 0);
    (has_stayed && thread.cpus_seen.iter().all(|seen| *seen == cpu)).then_some(cpu)
}

/// From the first packet that was sent to the last one: how long that was meant to take, and how
/// long it took. There is no such time if there are no two of them.
fn spans(stream: &Stream, halves: &Halves) -> (i64, Option<i64>) {
    let mut sent = halves.sent.sending.iter().enumerate().filter(|(_, sending)| sending.sent()).map(|(row, _)| row);
    let first = sent.next();
    let Some((first, last)) = first.zip(sent.next_back()) else { return (0, None) };
    let took_ns = halves.tx_counters.sent_ns.map(|(first, last)| last - first);
    ((last - first) as i64 * stream.cycle.0, took_ns)
}

/// What the sender and the receiver of a way counted, and what came out when their halves were
/// joined.
fn counters(tx: &SenderCounters, rx: &ReceiverCounters, matched: &WayMatched) -> Counters {
    Counters {
        sent: tx.sent,
        send_errors: tx.refused,
        first_send_errno: tx.first_errno,
        overruns: tx.overruns,
        skipped: tx.skipped,
        launch_missed: tx.missed,
        launch_invalid: tx.invalid,
        qdisc_dropped: 0,
        foreign: rx.foreign,
        duplicates: matched.duplicates,
        empty_wakeups: rx.empty_wakeups,
        receive_errno: rx.broken_errno,
        batched: tx.batched,
        beside: tx.beside,
        forced_drains: tx.forced_drains,
        records_dropped: rx.records_dropped,
        after_silence: rx.after_silence,
        socket_drops: rx.socket_drops,
        tx_stamps_missing: matched.tx_stamps_missing,
        tx_stamps_unmatched: tx.unmatched + matched.unmatched,
        error_queue_overflows: tx.queue_overflows,
        error_queue_high_bytes: tx.queue_high_bytes,
    }
}

/// Fewer packets than this make no tenths.
const LEAST_FOR_TENTHS: usize = 20;

/// The median lateness of sending in each tenth of the rows, by the stamp that lies nearest to it.
fn lateness_by_tenth(stream: &Stream, batch: &Batch) -> Vec<i64> {
    let point = [Point::Send, Point::Wakeup].into_iter().find(|point| batch.has(*point));
    let (Some(point), true) = (point.filter(|_| stream.kind.is_scheduled()), batch.len() >= LEAST_FOR_TENTHS) else {
        return Vec::new();
    };
    let tenth = |n: usize| {
        let rows = batch.len() * n / 10..batch.len() * (n + 1) / 10;
        let mut late: Vec<i64> = rows.filter_map(|row| batch.offset(row, point)).collect();
        late.sort_unstable();
        late.get(late.len() / 2).copied()
    };
    // One tenth of which nothing was sent, and there is no line through them.
    (0..10).map(tenth).collect::<Option<_>>().unwrap_or_default()
}

fn reply_record(stream: &Stream, reply: &ReplyHalves, halves: &Halves, matched: &WayMatched) -> ReplyRecord {
    let first = halves.tx_counters.sent_ns.map(|(first, _)| first);
    let last = reply.arrivals.iter().map(|arrival| arrival.receive_ns).max();
    ReplyRecord {
        in_flight: stream.reply.in_flight,
        thread: reply.thread.clone(),
        counters: counters(&reply.tx_counters, &reply.rx_counters, matched),
        spin_gaps: reply.gaps,
        span_ns: first.zip(last).map(|(first, last)| last - first - halves.tx_counters.paused_ns),
        tcp: reply.tcp[0],
        tcp_reflector: reply.tcp[1],
        error_queue_bytes: reply.error_queue_bytes,
        tags: tags(stream, &reply.arrivals),
    }
}

/// The tags that packets were sent and arrived with; `None` where they have none and the port sees
/// none.
fn tags(stream: &Stream, arrivals: &[Arrival]) -> Option<TagRecord> {
    let sent = stream.tag;
    let mut record = TagRecord { sent, ..TagRecord::default() };
    // Nothing is kept of ports that see none.
    let mut seen = Vec::new();
    for arrival in arrivals {
        let Some(count) = arrival.tags.count() else { continue };
        let row = arrival.seq as usize;
        // A number that no packet of the stream has is counted as a stranger's elsewhere.
        if arrival.seq >= stream.count {
            continue;
        }
        if row >= seen.len() {
            seen.resize(row + 1, false);
        }
        if std::mem::replace(&mut seen[row], true) {
            continue;
        }
        *record.by_count.entry(count).or_default() += 1;
        let outermost = arrival.tags.outermost();
        if let Some(tag) = outermost {
            *record.by_pcp.entry(tag.pcp).or_default() += 1;
            *record.by_vlan.entry(tag.vlan).or_default() += 1;
        }
        if let Some(tpid) = arrival.tags.tpid() {
            *record.by_tpid.entry(tpid).or_default() += 1;
        }
        let as_many = count == u8::from(sent.is_some());
        let other_tpid = arrival.tags.tpid().is_some_and(|tpid| tpid != TAG);
        // If a tag was added or removed, the outermost one is another. Only the count reports that.
        if let (true, Some(sent), Some(came)) = (as_many, sent, outermost) {
            record.other_tpid += u64::from(other_tpid);
            record.other_vlan += u64::from(came.vlan != sent.vlan && !other_tpid);
            record.other_pcp += u64::from(came.pcp != sent.pcp);
        }
        if !as_many || other_tpid || outermost != sent {
            record.first_seq.get_or_insert(arrival.seq);
        }
    }
    // Of a tag that nobody looked at it is known that it was sent.
    (sent.is_some() || !record.by_count.is_empty()).then_some(record)
}

/// The host of one end: by which offsets its instants are converted, and its own conversion from
/// CLOCK_REALTIME to CLOCK_TAI.
pub(crate) struct Host<'a> {
    side: Side,
    offsets: &'a EndOffsets,
    tai_minus_realtime: Nanos,
}

/// Fills in when each packet was due, of an end that paces by its own clock: its schedule begins
/// where that clock was ordered to begin, and drifts with it. `base` is what the coordinator's
/// clock showed when that was ordered.
fn due(half: &mut SentRows, offset: &Offset, base: Instant<Tai>, cycle: Nanos) {
    if half.scheduled.is_empty() {
        let first = offset.beginning().to_there(base).ns();
        let due = |row: usize| first.saturating_add((row as i64 + i64::from(half.first)).saturating_mul(cycle.0));
        half.scheduled = (0..half.len()).map(|row| MaybeNanos::some(due(row))).collect();
    }
}

impl<'a> Host<'a> {
    /// The host at this side, with these readings of its clocks before and after the trial.
    pub(crate) fn of(side: Side, offsets: &'a EndOffsets, clocks: &[ClockReading; 2]) -> Self {
        let [before, after] = clocks;
        let tai_minus_realtime = Nanos(Conversion::between(before, after).tai_minus_realtime_ns);
        Host { side, offsets, tai_minus_realtime }
    }

    /// An instant of its CLOCK_TAI, ns.
    pub(crate) fn tai_ns(&self, ns: i64) -> i64 {
        let theirs = Instant::from_ns(ns);
        match self.side {
            Side::Rx => self.offsets.receiver_to_here(theirs).ns(),
            _ => self.offsets.sender_to_here(theirs).ns(),
        }
    }

    /// An instant of its CLOCK_REALTIME, ns.
    fn realtime_ns(&self, ns: i64) -> i64 {
        let ahead_ns = self.tai_minus_realtime.0;
        self.tai_ns(ns.saturating_add(ahead_ns)).saturating_sub(ahead_ns)
    }

    /// The rows of one of its ends that sends.
    pub(crate) fn sent(&self, half: &mut SentRows) {
        let each = |column: &mut Vec<MaybeNanos>, here: &dyn Fn(i64) -> i64| {
            column.iter_mut().for_each(|cell| *cell = MaybeNanos::from(cell.get().map(here)));
        };
        for column in [&mut half.scheduled, &mut half.wakeup, &mut half.send] {
            each(column, &|ns| self.tai_ns(ns));
        }
        for column in [&mut half.tx_sched, &mut half.tx_kernel, &mut half.tx_hw] {
            each(column, &|ns| self.realtime_ns(ns));
        }
    }

    /// The arrivals at one of its ends.
    pub(crate) fn arrived(&self, arrivals: &mut [Arrival]) {
        for arrival in arrivals {
            arrival.receive_ns = self.tai_ns(arrival.receive_ns);
            for stamp in [&mut arrival.rx_hw, &mut arrival.rx_kernel] {
                *stamp = MaybeNanos::from(stamp.get().map(|ns| self.realtime_ns(ns)));
            }
        }
    }

    /// What an XDP program wrote at one of its ends.
    fn passed_xdp(&self, stamps: &mut [XdpStamp]) {
        for stamp in stamps {
            stamp.time_ns = MaybeNanos::from(stamp.time_ns.get().map(|ns| self.tai_ns(ns)));
        }
    }

    /// Notes of those ends that are its.
    pub(crate) fn noted(&self, notes: &mut OwnNotes, is_its: impl Fn(Side) -> bool) {
        for work in notes.work.iter_mut().filter(|work| is_its(work.side)) {
            (work.start_ns, work.end_ns) = (self.tai_ns(work.start_ns), self.tai_ns(work.end_ns));
        }
        for between in notes.between.iter_mut().filter(|between| is_its(between.side)) {
            between.start_ns = self.tai_ns(between.start_ns);
        }
    }
}
