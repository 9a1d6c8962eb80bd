// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sending loop. Between a wake-up and the send call there is no allocation, lock, log or
//! system call. Stamps wait in the error queue until the trial is over (`stamps.rs`).

mod memory;
mod stamps;
mod trial;

pub use memory::{OwnLog, Sender, SenderCounters, Sending, SentRows};
pub(crate) use stamps::{STRETCH, STRETCH_OF_SEVERAL};

use crate::live::Live;
use crate::order::StreamOrder;
use crate::port::{BATCH, SendPort, Timer};
use crate::schedule::{Schedule, base_time};
use memory::UNMEASURED;
use tardy_model::frame::{Frame, PacketKind};
use tardy_model::sample::MaybeNanos;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::trial::OwnReason;

/// What is known of the instant of a packet that goes out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentAt {
    /// Nothing: the clock is read before the send call.
    Read,
    /// This, or that nobody asks.
    Known(Option<Instant<Tai>>),
}

/// From which length on a gap in the spinning stretch is counted.
const GAP: Nanos = Nanos(1_000_000);
/// No sleep is longer.
const LONG_WAIT: Nanos = Nanos(200_000_000);
/// After its last packet a sender does nothing for a cycle, so that the packet is received as the
/// others are. The pause has these limits, least and most.
const QUIET: (Nanos, Nanos) = (Nanos(1_000_000), Nanos(20_000_000));

impl Sender {
    /// Writes packet `seq` of the trial at place `n` of the payloads.
    #[inline(always)]
    fn packet_at(&mut self, n: usize, seq: u32) {
        let size = self.size();
        let heads = match &self.marks {
            Some(marks) if self.order.order.triggered.marks(seq) => marks,
            _ => &self.heads,
        };
        heads.write(seq, &mut self.payload[n * size..][..size]);
    }

    /// Writes a packet at the first place that no sample comes of.
    fn warm_frame(&mut self, kind: PacketKind, seq: u32) {
        let (StreamOrder { stream, nonce, .. }, size) = (&self.order.order, self.order.size());
        Frame { kind, stream: stream.number(), size, nonce: *nonce, seq }.write(&mut self.payload[..usize::from(size)]);
    }

    fn size(&self) -> usize {
        usize::from(self.order.size())
    }

    /// True if tx stamps are wanted, or reports of packets dropped for their launch time.
    pub fn wants_stamps(&self) -> bool {
        self.stamps > 0
    }

    /// Warm-up packets for which every stamp that is asked for came back, since the last time this
    /// was asked for; `sent` where none is.
    pub(crate) fn warm_stamped(&mut self, sent: u32) -> u32 {
        let [_, sched, driver] = self.order.points();
        let wanted = [sched, driver].map(|point| self.order.order.wants(point));
        let had = wanted.into_iter().zip(self.warm_stamps).filter(|(wanted, _)| *wanted).map(|(_, had)| had);
        let least = had.min().unwrap_or(sent);
        self.warm_stamps = [0; 2];
        least
    }

    /// Sends `count` warm-up packets `apart`; returns for how many of them every stamp that is
    /// asked for came back.
    pub fn warm_up<T: Timer, P: SendPort>(&mut self, timer: &mut T, port: &mut P, count: u32, apart: Nanos) -> u32 {
        self.warm_stamps = [0; 2];
        let mut at = timer.now();
        for i in 0..count {
            self.warm_frame(PacketKind::WarmUp, i);
            let launch = self.order.launch.map(|launch| {
                // One cycle more than is needed, so that it is never too late.
                let cycle = self.order.order.cycle;
                base_time(timer.now() + self.order.advance + cycle, cycle, launch.phase)
            });
            self.send_unrecorded(port, launch);
            at = at + apart;
            timer.sleep_until(at);
            self.drain_warm(port);
        }
        if self.order.launch.is_some() {
            // They are held until then.
            let last = timer.now() + self.order.advance + Nanos(3 * self.order.order.cycle.0) + Nanos::from_millis(1);
            timer.sleep_until(last);
            self.drain_warm(port);
        }
        self.warm_stamped(count)
    }

    /// Sends one packet that no sample comes of. False if the port refused it.
    pub(crate) fn send_warm_up<P: SendPort>(&mut self, port: &mut P, kind: PacketKind, seq: u32) -> bool {
        self.warm_frame(kind, seq);
        self.send_unrecorded(port, None)
    }

    /// From now on nothing is taken from the error queue but where a packet may be under way and
    /// that is noted.
    pub(crate) fn begin_trial(&mut self) {
        self.in_trial = true;
        self.half.fetch_first();
        // The warm-up's packets went before anybody looked at what the CPUs took in.
        self.counters.beside = 0;
    }

    /// True once stamps belong to the trial's packets.
    pub(crate) fn is_in_trial(&self) -> bool {
        self.in_trial
    }

    /// When the latest packet was handed over, TAI, ns; 0 before the first.
    #[inline]
    pub(crate) fn sent_last_ns(&self) -> i64 {
        self.counters.sent_ns.map_or(0, |(_, last)| last)
    }

    /// True if the instant of each send is recorded.
    #[inline]
    pub(crate) fn stamps_send(&self) -> bool {
        !self.half.send.is_empty()
    }

    /// The row of a packet: the spare one of [`LEAD`], so that all is done with it that is done
    /// with the others.
    #[inline(always)]
    fn row(&self, packet: u32) -> usize {
        packet.min(self.order.order.count) as usize
    }

    /// Sends packet `packet` now, outside any schedule, and records it; of [`LEAD`] nothing is
    /// kept. False if the port refused it.
    #[inline(always)]
    pub(crate) fn send_now<T: Timer, P: SendPort>(
        &mut self,
        timer: &mut T,
        port: &mut P,
        packet: u32,
        at: SentAt,
    ) -> bool {
        self.packet_at(0, packet);
        let send = match at {
            SentAt::Read => Some(timer.now()),
            SentAt::Known(at) => at,
        };
        let sending = self.send_one(timer, port, packet, send, Sending::default(), None);
        let row = self.row(packet);
        if let (Some(cell), Some(send)) = (self.half.scheduled.get_mut(row), send) {
            *cell = MaybeNanos::some(send.ns());
        }
        if let Some(cell) = self.half.sending.get_mut(row) {
            *cell = sending;
        }
        sending.sent()
    }

    fn send_unrecorded<P: SendPort>(&mut self, port: &mut P, launch: Option<Instant<Tai>>) -> bool {
        match port.send(&self.payload[..self.size()], self.next_key, launch) {
            Ok(key) => {
                if self.stamps > 0 {
                    self.keys.put(key, UNMEASURED);
                }
                self.outstanding += self.stamps;
                self.next_key = self.next_key.wrapping_add(1);
                self.counters.beside += 1;
                true
            }
            Err(errno) => {
                self.note_end(errno);
                self.drain_all(port);
                port.renew_keys();
                false
            }
        }
    }

    /// Keeps the errno that shows that the connection is over: the socket reports it once, and
    /// here, not to the next receive call.
    fn note_end(&mut self, errno: i32) {
        if self.in_trial && [libc::ECONNRESET, libc::ECONNABORTED, libc::ETIMEDOUT].contains(&errno) {
            self.connection_ended = errno;
        }
    }

    /// Takes what came back through the error queue, when the trial is over at all ends. Stamps of
    /// a NIC may still be on their way: a bounded wait, ended when all are there.
    pub fn gather_stamps<T: Timer, P: SendPort>(&mut self, timer: &mut T, port: &mut P) {
        self.truncate(self.order.order.count);
        if self.wants_stamps() {
            self.look_at_queue(port);
            for _ in 0..20 {
                self.drain_all(port);
                if self.missing() == 0 {
                    break;
                }
                let at = timer.now() + Nanos::from_millis(1);
                timer.sleep_until(at);
            }
        }
    }

    /// Hands over the packet at the first place, and records it if it is the trial's; `send` is
    /// `None` where nobody asks for it.
    #[inline(always)]
    fn send_one<T: Timer, P: SendPort>(
        &mut self,
        timer: &mut T,
        port: &mut P,
        packet: u32,
        send: Option<Instant<Tai>>,
        mut sending: Sending,
        launch: Option<Instant<Tai>>,
    ) -> Sending {
        match port.send(&self.payload[..self.size()], self.next_key, launch) {
            Ok(key) => {
                if self.stamps > 0 {
                    self.keys.put(key, packet);
                }
                self.next_key = self.next_key.wrapping_add(1);
                self.outstanding += self.stamps;
                let is_measured = packet != UNMEASURED;
                self.counters.beside += u64::from(!is_measured);
                self.counters.went_out(usize::from(is_measured), send);
                sending.0 |= Sending::SENT;
                let row = self.row(packet);
                if let (Some(cell), Some(send)) = (self.half.send.get_mut(row), send) {
                    *cell = MaybeNanos::some(send.ns());
                }
            }
            Err(errno) => {
                sending.0 |= Sending::REFUSED;
                self.refused(timer, port, packet, errno);
            }
        }
        sending
    }

    /// The port refused a packet; it may have used a key up.
    #[cold]
    fn refused<T: Timer, P: SendPort>(&mut self, timer: &mut T, port: &mut P, packet: u32, errno: i32) {
        self.note_end(errno);
        if packet != UNMEASURED {
            if self.counters.refused == 0 {
                self.counters.first_errno = errno;
            }
            self.counters.refused += 1;
        }
        if self.stamps > 0 {
            self.own_work(timer, port, OwnReason::Refused);
        }
        port.renew_keys();
    }

    /// Ends with the first `reached` packets.
    pub(crate) fn truncate(&mut self, reached: u32) {
        self.half.truncate(reached as usize);
    }

    /// True if packet `first` and a whole batch after it are overdue at `now`.
    #[inline]
    fn is_behind(&self, schedule: &Schedule, first: u32, now: Instant<Tai>) -> bool {
        schedule.count - first >= BATCH as u32 && now >= schedule.due(i64::from(first) + BATCH as i64 - 1)
    }

    /// Sends a batch of overdue packets by one call; they share the instant at which the sender
    /// turned to them. Returns how many went out; what the port refuses is left to be sent, and
    /// recorded, by itself.
    fn send_overdue<T: Timer, P: SendPort>(
        &mut self,
        timer: &mut T,
        port: &mut P,
        schedule: &Schedule,
        first: u32,
        live: &Live,
    ) -> u32 {
        let mut keys = [0; BATCH];
        for (n, key) in keys.iter_mut().enumerate() {
            self.packet_at(n, first + n as u32);
            *key = self.next_key.wrapping_add(n as u32);
        }
        let woke = timer.now();
        let sent = port.send_batch(&self.payload, self.size(), &mut keys).unwrap_or(0);
        self.next_key = self.next_key.wrapping_add(sent as u32);
        for (packet, key) in (first..).zip(&keys[..sent]) {
            if self.stamps > 0 {
                self.keys.put(*key, packet);
            }
            let row = packet as usize;
            let mut sending = Sending(Sending::SENT);
            if schedule.is_past(i64::from(packet), woke) {
                sending.0 |= Sending::OVERRUN;
                self.counters.overruns += 1;
            }
            self.half.sending[row] = sending;
            for column in [&mut self.half.wakeup, &mut self.half.send] {
                if let Some(cell) = column.get_mut(row) {
                    *cell = MaybeNanos::some(woke.ns());
                }
            }
            live.count(None);
        }
        self.counters.went_out(sent, Some(woke));
        self.counters.batched += sent as u64;
        if sent < BATCH {
            // The next one was refused, and may have used up a key.
            if self.stamps > 0 {
                self.own_work(timer, port, OwnReason::Refused);
            }
            port.renew_keys();
        }
        sent as u32
    }

    /// The half, when the trial is over.
    pub fn finish(mut self) -> SentRows {
        self.truncate(self.order.order.count);
        self.half
    }
}
