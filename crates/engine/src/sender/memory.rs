// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a sender. All that it will need is allocated and touched before its loop begins.
//!
//! It has the sender's half of a trial, row by row ([`SentRows`]), the counters of what happens to
//! the sender, the room of the error queue in which stamps wait, and [`Keys`], which find the
//! packet that a stamp belongs to. [`OwnLog`] notes what the measuring thread does for tardy itself
//! between two packets, with its beginning and its end, so that a verdict can compare the packets
//! that it overlaps with their neighbours.

use crate::order::{SendOrder, StreamOrder};
use crate::port::{BATCH, queue};
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};
use tardy_model::frame::{Heads, LEAD, PacketKind};
use tardy_model::point::Point;
use tardy_model::sample::MaybeNanos;
use tardy_model::stream::Side;
use tardy_model::time::{Instant, Tai};
use tardy_model::trial::{Between, OwnNotes, OwnReason, OwnWork, SpinGaps};

/// A sender ready to run: all memory is allocated and touched.
pub struct Sender {
    pub(super) order: SendOrder,
    /// The packets of a batch, one after the other; the first place is also that of a packet by
    /// itself.
    pub(super) payload: Vec<u8>,
    /// Of the trial's packets.
    pub(super) heads: Heads,
    /// Of those that are synchronisation frames, where there are any.
    pub(super) marks: Option<Heads>,
    pub(super) half: SentRows,
    pub(super) keys: Keys,
    /// Stamps belong to the trial's packets from now on; those before to warm-up and lead-in.
    pub(super) in_trial: bool,
    /// The trial's schedule, by which a launch time identifies its packet.
    pub(super) schedule: Option<Schedule>,
    pub(super) next_key: u32,
    /// Warm-up packets whose stamps came back, before the queue discipline and in the driver.
    pub(super) warm_stamps: [u32; 2],
    /// The key of the latest such stamp before a queue discipline.
    pub(super) warm_sched: Option<u32>,
    /// Stamps that were asked for and have not come.
    pub(super) outstanding: u32,
    /// Stamps that come back for each packet.
    pub(super) stamps: u32,
    /// When the latest packet was answered.
    pub(super) answered_at: Option<Instant<Tai>>,
    /// The errno by which a send call reported that the connection is over, 0 if none did.
    pub(crate) connection_ended: i32,
    /// What the error queue holds.
    pub(super) room: Room,
    /// What the thread did for tardy itself in the trial.
    pub own: OwnLog,
    /// Gaps in the spinning stretch.
    pub gaps: Option<SpinGaps>,
    pub counters: SenderCounters,
}

impl Sender {
    /// Allocates for the order.
    pub fn new(order: SendOrder) -> Self {
        let count = order.order.count as usize;
        // One row more than there are packets: those of a lead-in are recorded there.
        let column = |wanted: bool| if wanted { vec![MaybeNanos::NONE; count + 1] } else { Vec::new() };
        let [send, sched, driver] = order.points();
        let half = SentRows {
            first: 0,
            sending: vec![Sending::default(); count + 1],
            scheduled: column(!order.replies && !order.order.kind.is_scheduled()),
            wakeup: column(!order.replies && order.order.wants(Point::Wakeup)),
            send: column(order.order.wants(send)),
            tx_sched: column(order.order.wants(sched)),
            tx_kernel: column(order.order.wants(driver)),
            tx_hw: column(order.hardware()),
        };
        // Written once, so that no page fault waits for the loop.
        let mut payload = vec![1; usize::from(order.size()) * BATCH];
        payload.fill(0);
        let stamps = order.stamps();
        let side = if order.replies { Side::Rx } else { Side::Tx };
        let noted = if stamps > 0 { order.order.count } else { 0 };
        let keys = Keys::new(noted);
        let StreamOrder { stream, nonce, .. } = order.order;
        let heads = Heads::new(
            if order.replies { PacketKind::Reply } else { PacketKind::Test },
            stream.number(),
            order.size(),
            nonce,
        );
        let marks = order.order.marks().filter(|_| !order.replies);
        Sender {
            order,
            payload,
            heads,
            marks,
            half,
            keys,
            in_trial: false,
            schedule: None,
            next_key: 1,
            warm_stamps: [0; 2],
            warm_sched: None,
            outstanding: 0,
            stamps,
            answered_at: None,
            connection_ended: 0,
            room: Room::new(u64::MAX, 0),
            own: OwnLog::new(side, noted),
            gaps: None,
            counters: SenderCounters::default(),
        }
    }
}

/// Events of the sending side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderCounters {
    /// Packets handed to the port.
    pub sent: u64,
    /// Packets that were not measured: of the warm-up, the lead-in and the lead-out, and around
    /// pauses.
    pub beside: u64,
    /// Packets that the port refused.
    pub refused: u64,
    /// errno of the first refusal.
    pub first_errno: i32,
    /// Wake-ups after the packet's slot.
    pub overruns: u64,
    /// Packets left not_sent because of that.
    pub skipped: u64,
    /// Packets that the queue discipline dropped, their launch time having passed.
    pub missed: u64,
    /// Packets whose launch time it refused.
    pub invalid: u64,
    /// tx stamps whose key is no packet's of the trial.
    pub unmatched: u64,
    /// When the first and the latest packet were handed over, TAI, ns; whatever points are
    /// stamped, but not of a reflector that reads no clock.
    pub sent_ns: Option<(i64, i64)>,
    /// Packets that went out in batches, by a sender that was a whole batch behind.
    pub batched: u64,
    /// The error queue had to be drained between two packets without time for it.
    pub forced_drains: u64,
    /// The error queue was found full.
    pub queue_overflows: u64,
    /// Most bytes found waiting in it.
    pub queue_high_bytes: u64,
    /// Its size, as the port reported it; 0 while nobody asked.
    pub queue_bytes: u64,
    /// Time in which a closed loop had nothing in flight on purpose, while both ends emptied their
    /// error queues, ns. With few in flight: by how much the trial took longer than without pauses.
    pub paused_ns: i64,
    /// By how much the device's stamps may be wrong.
    pub hardware_bound_ns: i64,
}

impl SenderCounters {
    /// Notes how many packets were handed over at that instant, if it is known. For none, as for
    /// one of a lead-in, it notes nothing.
    #[inline]
    pub(super) fn went_out(&mut self, packets: usize, at: Option<Instant<Tai>>) {
        self.sent += packets as u64;
        if let Some(at) = at {
            let now = (self.sent_ns.map_or(at.ns(), |(first, _)| first), at.ns());
            self.sent_ns = if packets > 0 { Some(now) } else { self.sent_ns };
        }
    }
}

/// Stretches that are noted one by one; more are counted.
const ROOM: usize = 16_384;
/// Stretches between two packets that are noted at most: a day's trials would else have more of
/// them than of samples.
const ROOM_BETWEEN: usize = 1 << 18;
/// Packets before and after the trial's, of which stamps are fetched too.
const BESIDE: usize = 1_024;

/// The notes of one thread.
pub struct OwnLog {
    side: Side,
    work: Vec<OwnWork>,
    between: Vec<Stretch>,
    left_out: u64,
}

/// A stretch between two packets.
#[derive(Clone, Copy)]
struct Stretch {
    start_ns: i64,
    took_ns: u32,
    /// [`NOWHERE`] where nobody knows.
    cpu: u32,
}

const NOWHERE: u32 = u32::MAX;

impl OwnLog {
    /// For the thread of that end, which sends `packets` packets with stamps. Memory is allocated
    /// and touched only where the thread may have to write.
    pub fn new(side: Side, packets: u32) -> Self {
        let untouched = OwnWork { side, cpu: Some(1), start_ns: 1, end_ns: 1, reason: OwnReason::Room };
        let mut work = if packets > 0 { vec![untouched; ROOM] } else { Vec::new() };
        work.clear();
        let untouched = Stretch { start_ns: 1, took_ns: 1, cpu: 1 };
        let room = if packets > 0 { packets as usize + BESIDE } else { 0 };
        let mut between = vec![untouched; room.min(ROOM_BETWEEN)];
        between.clear();
        OwnLog { side, work, between, left_out: 0 }
    }

    /// Notes a stretch of work on `cpu`.
    #[cold]
    pub fn note(&mut self, cpu: Option<u32>, start: Instant<Tai>, end: Instant<Tai>, reason: OwnReason) {
        if self.work.len() < self.work.capacity() {
            let (start_ns, end_ns) = (start.ns(), end.ns());
            self.work.push(OwnWork { side: self.side, cpu, start_ns, end_ns, reason });
        } else {
            self.left_out += 1;
        }
    }

    /// Notes a stretch of work in which no packet should be under way.
    #[cold]
    pub fn note_between(&mut self, cpu: Option<u32>, start: Instant<Tai>, end: Instant<Tai>) {
        if self.between.len() < self.between.capacity() {
            let took_ns = u32::try_from((end - start).0.max(0)).unwrap_or(u32::MAX);
            self.between.push(Stretch { start_ns: start.ns(), took_ns, cpu: cpu.unwrap_or(NOWHERE) });
        } else {
            self.left_out += 1;
        }
    }

    pub fn take(&mut self) -> OwnNotes {
        let between = self.written_short();
        self.between = Vec::new();
        OwnNotes { work: std::mem::take(&mut self.work), between, left_out: std::mem::take(&mut self.left_out) }
    }

    /// One entry for each CPU that the thread ran on, and where two stretches lie too far apart.
    fn written_short(&self) -> Vec<Between> {
        let mut all: Vec<Between> = Vec::new();
        let mut before_ns = 0;
        for stretch in &self.between {
            let cpu = Some(stretch.cpu).filter(|cpu| *cpu != NOWHERE);
            let after = u32::try_from(stretch.start_ns - before_ns).ok();
            match (all.last_mut(), after) {
                (Some(last), Some(after)) if last.cpu == cpu => last.spans.push((after, stretch.took_ns)),
                _ => {
                    let spans = vec![(0, stretch.took_ns)];
                    all.push(Between { side: self.side, cpu, start_ns: stretch.start_ns, spans });
                }
            }
            before_ns = stretch.start_ns;
        }
        all
    }
}

/// What the error queue has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Stamps that it holds.
    pub(super) stamps: u64,
    /// The stamps of the whole trial fit in.
    pub(super) is_enough: bool,
}

impl Room {
    /// Of a queue of `bytes` for a trial that brings `stamps` stamps.
    pub(super) fn new(bytes: u64, stamps: u64) -> Self {
        let holds = bytes / queue::STAMP_BYTES;
        Room { stamps: holds, is_enough: stamps <= holds }
    }
}

/// What a key of a packet that is not part of the trial leads to. No packet of a trial has this
/// number.
pub(crate) const UNMEASURED: u32 = LEAD;
/// Room for the packets of the lead-in, the lead-out and warm-ups, in addition to the trial's.
const UNMEASURED_ROOM: usize = 1_024;

/// Leads from the key of a stamp to its packet.
pub(crate) struct Keys {
    /// Ring over the low bits of the key. It holds all keys whose stamps can wait in the error
    /// queue, and a stamp is checked by its whole key.
    ring: Vec<(u32, u32)>,
}

impl Keys {
    /// For a trial of `count` packets.
    pub fn new(count: u32) -> Self {
        // Not zero, so that the memory is written and no page fault waits for the loop.
        Keys { ring: vec![(u32::MAX, UNMEASURED); (count as usize + UNMEASURED_ROOM).next_power_of_two().min(1 << 20)] }
    }
    /// Notes the packet that went out under `key`.
    #[inline]
    pub fn put(&mut self, key: u32, packet: u32) {
        let at = key as usize & (self.ring.len() - 1);
        self.ring[at] = (key, packet);
    }
    /// The packet that went out under `key`; [`UNMEASURED`] where it was none of the trial's,
    /// `None` where no packet did.
    #[inline]
    pub fn get(&self, key: u32) -> Option<u32> {
        let (found, packet) = self.ring[key as usize & (self.ring.len() - 1)];
        (found == key).then_some(packet)
    }
}

/// What the sender did with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending(pub(super) u8);

impl Sending {
    pub(super) const SENT: u8 = 1;
    pub(super) const SKIPPED: u8 = 2;
    pub(super) const REFUSED: u8 = 4;
    pub(super) const OVERRUN: u8 = 8;
    pub(super) const MISSED: u8 = 16;
    pub(super) const INVALID: u8 = 32;

    /// It was handed to the port.
    pub fn sent(self) -> bool {
        self.0 & Self::SENT != 0
    }
    /// Its slot had passed and the policy is `skip`.
    pub fn skipped(self) -> bool {
        self.0 & Self::SKIPPED != 0
    }
    /// The port refused it.
    pub fn refused(self) -> bool {
        self.0 & Self::REFUSED != 0
    }
    /// The queue discipline dropped it, its launch time having passed.
    pub fn missed(self) -> bool {
        self.0 & Self::MISSED != 0
    }
    /// The queue discipline refused its launch time.
    pub fn invalid(self) -> bool {
        self.0 & Self::INVALID != 0
    }
    /// The queue discipline reported that it dropped it.
    pub fn dropped(self) -> bool {
        self.missed() || self.invalid()
    }
    /// The sender woke after its slot.
    pub fn overrun(self) -> bool {
        self.0 & Self::OVERRUN != 0
    }
}

/// The sender's half of a trial: one row per packet that was reached, raw clock values (app stamps
/// TAI, kernel stamps REALTIME). A column that was not asked for is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentRows {
    /// Number of the first row's packet.
    pub first: u32,
    pub sending: Vec<Sending>,
    /// TAI, ns: when it was to go out, where no schedule decides that.
    pub scheduled: Vec<MaybeNanos>,
    /// TAI, ns: when the sender's timer returned.
    pub wakeup: Vec<MaybeNanos>,
    /// TAI, ns; absent for packets that were not sent.
    pub send: Vec<MaybeNanos>,
    /// REALTIME, ns: before the queue discipline.
    pub tx_sched: Vec<MaybeNanos>,
    /// REALTIME, ns: in the sending driver.
    pub tx_kernel: Vec<MaybeNanos>,
    /// The device's own clock until the trial is over, then REALTIME, ns.
    pub tx_hw: Vec<MaybeNanos>,
}

impl SentRows {
    /// Brings the first row into this CPU's caches, with what translates its addresses: another
    /// thread wrote it long before, maybe on another CPU, and the first packet would wait for each
    /// column by itself. A line that is only read would stay shared with that CPU, so that what is
    /// there is written again.
    pub(super) fn fetch_first(&mut self) {
        if let Some(cell) = self.sending.first_mut() {
            *cell = std::hint::black_box(*cell);
        }
        let kernels = [&mut self.tx_sched, &mut self.tx_kernel, &mut self.tx_hw];
        for column in [&mut self.scheduled, &mut self.wakeup, &mut self.send].into_iter().chain(kernels) {
            if let Some(cell) = column.first_mut() {
                *cell = std::hint::black_box(*cell);
            }
        }
    }
    /// Packets that were reached, whether they were sent or not.
    pub fn len(&self) -> usize {
        self.sending.len()
    }

    /// Rows of its longest column: columns that go together have the same number.
    pub fn longest(&self) -> usize {
        let stamps = [&self.scheduled, &self.wakeup, &self.send, &self.tx_sched, &self.tx_kernel, &self.tx_hw];
        stamps.into_iter().map(Vec::len).max().unwrap_or(0).max(self.sending.len())
    }

    /// Rows of packets of which nothing is known but that they were sent.
    pub fn only_sent(rows: u32) -> Self {
        SentRows { sending: vec![Sending(Sending::SENT); rows as usize], ..SentRows::default() }
    }
    /// True if none was reached.
    pub fn is_empty(&self) -> bool {
        self.sending.is_empty()
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.sending.truncate(rows);
        let kernels = [&mut self.tx_sched, &mut self.tx_kernel, &mut self.tx_hw];
        for column in [&mut self.scheduled, &mut self.wakeup, &mut self.send].into_iter().chain(kernels) {
            column.truncate(rows);
        }
    }

    /// Pieces of at most `rows` rows, for the way to the coordinator.
    pub fn pieces(&self, rows: usize) -> impl Iterator<Item = SentRows> + '_ {
        (0..self.len()).step_by(rows.max(1)).map(move |from| {
            let to = (from + rows.max(1)).min(self.len());
            let cut = |column: &Vec<MaybeNanos>| column.get(from..to).map(<[_]>::to_vec).unwrap_or_default();
            SentRows {
                first: self.first + from as u32,
                sending: self.sending[from..to].to_vec(),
                scheduled: cut(&self.scheduled),
                wakeup: cut(&self.wakeup),
                send: cut(&self.send),
                tx_sched: cut(&self.tx_sched),
                tx_kernel: cut(&self.tx_kernel),
                tx_hw: cut(&self.tx_hw),
            }
        })
    }

    /// Puts the next piece after this one.
    pub fn append(&mut self, mut next: SentRows) {
        self.sending.append(&mut next.sending);
        self.scheduled.append(&mut next.scheduled);
        self.wakeup.append(&mut next.wakeup);
        self.send.append(&mut next.send);
        self.tx_sched.append(&mut next.tx_sched);
        self.tx_kernel.append(&mut next.tx_kernel);
        self.tx_hw.append(&mut next.tx_hw);
    }
}
