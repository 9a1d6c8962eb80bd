// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reflecting end: what it receives, it sends back at once, stamping both. It answers the
//! stream's own station alone, and each packet once; the replies' halves are the sender's own, row
//! by packet number.

use crate::order::{ReflectOrder, SendOrder};
use crate::port::{ReceivePort, SendPort, Timer};
use crate::receiver::{Answer, Receiver, Shared};
use crate::sender::{Sender, SentAt};
use std::sync::atomic::Ordering::Relaxed;
use tardy_model::frame::{PAUSE, PacketKind};
use tardy_model::point::Point;
use tardy_model::stream::{Kind, Wait};
use tardy_model::time::{Instant, Nanos, Tai};

/// A reflector ready to run: all memory is allocated and touched.
pub struct Reflector {
    pub receiver: Receiver,
    pub sender: Sender,
    /// A ping-pong of which nobody asks when a request came or its reply went: no clock is read
    /// between the two.
    timeless: bool,
    /// Time between requests; zero where a request follows its reply, or the thread never sleeps.
    cycle: Nanos,
}

/// The answering half with its port, while the loop runs.
struct Answers<'a, P> {
    sender: &'a mut Sender,
    port: &'a mut P,
    /// Nobody asks when a request came or its reply went.
    timeless: bool,
    /// Time between requests; zero where a request follows its reply, or the thread never sleeps.
    cycle: Nanos,
}

impl<P: SendPort> Answers<'_, P> {
    /// Warm-up answers whose stamps have come back.
    fn count_warm(&mut self, shared: &Shared) {
        self.sender.drain_warm(self.port);
        let answered = shared.warm_answered.load(Relaxed);
        let stamped = self.sender.warm_stamped(0);
        let all =
            if self.sender.wants_stamps() { stamped + shared.warm_answers_stamped.load(Relaxed) } else { answered };
        shared.warm_answers_stamped.store(all, Relaxed);
    }
}

impl<P: SendPort> Answer for Answers<'_, P> {
    fn comes_before_the_clock(&self) -> bool {
        self.timeless
    }

    #[inline(always)]
    fn answer<T: Timer>(
        &mut self,
        timer: &mut T,
        receive: Option<Instant<Tai>>,
        kind: PacketKind,
        seq: u32,
        shared: &Shared,
    ) {
        // Those of the lead-in and the lead-out come this way too: else the trial's first request
        // would find this code and its data cold.
        if kind == PacketKind::Test {
            if !self.sender.is_in_trial() {
                self.begin();
            }
            // Where nobody asks for `reply_send`, the clock is not read once more between a
            // request and its answer.
            let sent_at = if self.sender.stamps_send() { SentAt::Read } else { SentAt::Known(receive) };
            self.sender.send_now(timer, self.port, seq, sent_at);
            self.sender.drain_answering(timer, self.port, self.cycle);
        } else {
            self.beside(timer, seq, shared);
        }
    }

    fn idle<T: Timer>(&mut self, timer: &mut T, since: u32, shared: &Shared) {
        if since != LOOKS && since < u32::MAX {
            return;
        }
        if !self.sender.is_in_trial() {
            self.count_warm(shared);
        } else if since == u32::MAX {
            self.sender.drain_woken(timer, self.port);
        }
    }
}

/// A spinning reflector fetches the stamps of its warm-up after this number of looks that found
/// nothing.
const LOOKS: u32 = 8;

impl<P: SendPort> Answers<'_, P> {
    #[cold]
    fn begin(&mut self) {
        self.sender.measure_room(self.port);
        self.sender.begin_trial();
    }

    /// Answers a warm-up packet.
    #[cold]
    fn beside<T: Timer>(&mut self, timer: &mut T, seq: u32, shared: &Shared) {
        match seq {
            // Nothing is in flight: the requester waits for this answer before it asks on.
            PAUSE if self.sender.is_in_trial() => self.sender.drain_paused(timer, self.port),
            // A late packet of the warm-up.
            _ if self.sender.is_in_trial() => return,
            _ => {}
        }
        self.sender.send_warm_up(self.port, PacketKind::WarmUpReply, seq);
        if !self.sender.is_in_trial() {
            shared.warm_answered.fetch_add(1, Relaxed);
            self.count_warm(shared);
        }
    }
}

impl Reflector {
    /// Allocates for the order.
    pub fn new(order: ReflectOrder) -> Self {
        let ReflectOrder { receive, send } = order;
        let asked = [Point::Receive, Point::ReplySend].into_iter().any(|point| receive.order.wants(point));
        let timeless = receive.order.kind == Kind::Pingpong && !asked;
        Reflector {
            timeless,
            cycle: if receive.wait == Wait::Spin { Nanos::ZERO } else { receive.order.cycle },
            receiver: Receiver::new(receive),
            sender: Sender::new(SendOrder { replies: true, ..send }),
        }
    }

    /// Receives and answers until ordered to stop.
    pub fn run<T: Timer, R: ReceivePort, S: SendPort>(
        &mut self,
        timer: &mut T,
        from: &mut R,
        back: &mut S,
        shared: &Shared,
    ) {
        self.run_while(timer, from, back, shared, || true);
    }

    /// The same, until the first warm-up packet has come.
    pub fn run_until_warm<T: Timer, R: ReceivePort, S: SendPort>(
        &mut self,
        timer: &mut T,
        from: &mut R,
        back: &mut S,
        shared: &Shared,
    ) {
        self.run_while(timer, from, back, shared, || shared.warm.load(Relaxed) == 0);
    }

    fn run_while<T: Timer, R: ReceivePort, S: SendPort>(
        &mut self,
        timer: &mut T,
        from: &mut R,
        back: &mut S,
        shared: &Shared,
        goes_on: impl Fn() -> bool,
    ) {
        let (timeless, cycle) = (self.timeless, self.cycle);
        let mut answers = Answers { sender: &mut self.sender, port: back, timeless, cycle };
        self.receiver.run_while(timer, from, shared, &mut answers, goes_on);
        if self.receiver.counters.broken_errno == 0 && from.ended() {
            self.receiver.counters.broken_errno = self.sender.connection_ended;
        }
    }

    /// Takes the stamps, when the trial is over at all ends.
    pub fn gather_stamps<T: Timer, S: SendPort>(&mut self, timer: &mut T, back: &mut S) {
        self.sender.gather_stamps(timer, back);
    }
}
