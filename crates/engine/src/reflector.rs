// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reflecting end: what it receives, it sends back at once, stamping both. It answers the stream's own station alone, and
//! each packet once; the replies' halves are the sender's own, row by packet number.

use crate::order::{ReflectOrder, SendOrder};
use crate::port::{ReceivePort, SendPort, Timer};
use crate::receiver::{Answer, Receiver, Shared};
use crate::sender::{Sender, SentAt};
use std::sync::atomic::Ordering::Relaxed;
use tardy_model::frame::Kind;
use tardy_model::point::Point;
use tardy_model::stream::Kind as StreamKind;
use tardy_model::time::{Instant, Tai};

/// A spinning reflector takes its stamps when so many looks have found nothing: a request may be close behind the last one.
const LOOKS: u32 = 8;

/// A reflector ready to run: all memory is allocated and touched.
pub struct Reflector {
    /// What arrived.
    pub receiver: Receiver,
    /// What was answered.
    pub sender: Sender,
    /// A ping-pong of which nobody asks when a request came or its reply went: no clock is read between the two.
    timeless: bool,
}

/// The answering half with its port, while the loop runs.
struct Answers<'a, P> {
    sender: &'a mut Sender,
    port: &'a mut P,
    in_trial: bool,
    /// Nobody asks when a request came or its reply went.
    timeless: bool,
}

impl<P: SendPort> Answers<'_, P> {
    /// Warm-up answers whose stamps have come back.
    fn count_warm(&mut self, shared: &Shared) {
        self.sender.drain_idle(self.port);
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
        kind: Kind,
        seq: u32,
        shared: &Shared,
    ) {
        if kind == Kind::Test {
            if !self.in_trial {
                self.count_warm(shared);
                self.sender.begin_trial();
                self.in_trial = true;
            }
            // Where nobody asks for `reply_send`, the clock is not read once more between a request and its answer.
            let sent_at = if self.sender.stamps_send() { SentAt::Read } else { SentAt::Known(receive) };
            self.sender.send_now(timer, self.port, seq, sent_at);
            self.sender.drain_in_batches(self.port);
        } else if !self.in_trial {
            self.sender.send_warm_up(self.port, Kind::WarmUpReply, seq);
            shared.warm_answered.fetch_add(1, Relaxed);
            self.count_warm(shared);
        }
    }

    fn idle(&mut self, since: u32, shared: &Shared) {
        if since < LOOKS || (since > LOOKS && since < u32::MAX) {
            return;
        }
        if self.in_trial && since == u32::MAX {
            self.sender.drain_woken(self.port);
        } else if self.in_trial {
            self.sender.drain_idle(self.port);
        } else {
            self.count_warm(shared);
        }
    }
}

impl Reflector {
    /// Allocates for the order.
    pub fn new(order: ReflectOrder) -> Self {
        let ReflectOrder { receive, send } = order;
        let asked = [Point::Receive, Point::ReplySend].into_iter().any(|point| receive.order.wants(point));
        let timeless = receive.order.kind == StreamKind::Pingpong && !asked;
        Reflector {
            timeless,
            receiver: Receiver::new(receive),
            sender: Sender::new(SendOrder { replies: true, ..send }),
        }
    }

    /// Receives and answers until told to stop.
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
        let in_trial = self.sender.is_in_trial();
        let timeless = self.timeless;
        let mut answers = Answers { sender: &mut self.sender, port: back, in_trial, timeless };
        self.receiver.run_while(timer, from, shared, &mut answers, goes_on);
    }

    /// Takes the last stamps, when the loop is over.
    pub fn end<T: Timer, S: SendPort>(&mut self, timer: &mut T, back: &mut S) {
        let all = u32::MAX;
        self.sender.end_trial(timer, back, all);
    }
}
