// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a sender. All that it will need is allocated and touched before its loop begins.

use super::counters::SenderCounters;
use super::own::OwnLog;
use super::room::Room;
use super::rows::{Sending, SentRows};
use crate::keys::Keys;
use crate::order::{SendOrder, StreamOrder};
use crate::port::BATCH;
use crate::schedule::Schedule;
use tardy_model::frame::{Heads, PacketKind};
use tardy_model::point::Point;
use tardy_model::sample::MaybeNanos;
use tardy_model::stream::Side;
use tardy_model::time::{Instant, Tai};
use tardy_model::trial::SpinGaps;

/// A sender ready to run: all memory is allocated and touched.
pub struct Sender {
    pub(super) order: SendOrder,
    /// The packets of a batch, one after the other; the first place is also that of a packet by
    /// itself.
    pub(super) payload: Vec<u8>,
    /// Of the trial's packets.
    pub(super) heads: Heads,
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
        Sender {
            order,
            payload,
            heads,
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
