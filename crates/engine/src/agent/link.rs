// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the agent's control thread and a measuring thread send to each other, and what a measuring
//! thread leaves.

use crate::message::{ActivityId, FromAgent, MessageError, ToAgent};
use crate::port::XdpStamp;
use crate::receiver::{Arrival, ReceiverCounters};
use crate::sender::{SenderCounters, SentRows};
use crate::worker::Account;
use std::cell::Cell;
use std::sync::mpsc;
use tardy_model::placement::ThreadRecord;
use tardy_model::port::TcpRecord;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::trial::{OwnNotes, SpinGaps};

use tardy_model::xdp::{XdpRecord, XdpSendRecord};
use tardy_sys::SysError;

/// What reaches the agent's control thread.
pub enum Event {
    /// The coordinator asks for something.
    Order(Box<ToAgent>),
    /// The coordinator is gone.
    Gone(MessageError),
    /// From a measuring thread, to be passed on.
    Tell(Box<FromAgent>),
}

/// To a measuring thread.
pub(super) enum Command {
    /// Send this number of warm-up packets, this far apart.
    WarmUp {
        count: u32,
        apart: Nanos,
    },
    Start(Instant<Tai>),
    /// The trial is over at all ends: what waits in the error queue may be taken.
    Collect,
}

/// What a measuring thread leaves.
pub(super) struct EndRecord {
    pub sent: Option<(SentRows, SenderCounters)>,
    pub arrived: Option<(Vec<Arrival>, ReceiverCounters)>,
    /// What the XDP program wrote before each arrival, and what the port was, on port `xdp`.
    pub xdp: Option<(Vec<XdpStamp>, XdpRecord)>,
    /// What its port was that it sent through, on port `xdp`.
    pub xdp_sent: Option<XdpSendRecord>,
    /// The bytes before each arrival's packet, where they are kept.
    pub areas: Vec<u8>,
    /// Gaps of its spinning.
    pub gaps: Option<SpinGaps>,
    /// The thread, read back.
    pub thread: ThreadRecord,
    /// What the kernel reports about its connection.
    pub tcp: Option<TcpRecord>,
    /// What the thread did for tardy itself in the trial, and how much of that found no room.
    pub own: OwnNotes,
}

/// How a measuring thread speaks with the agent.
pub(super) struct Link {
    /// What the thread works for.
    pub activity: ActivityId,
    /// Gets the record once the thread is set up, or the reason why what it opens itself is not
    /// available.
    pub ready: mpsc::Sender<Result<ThreadRecord, SysError>>,
    pub inbox: mpsc::Receiver<Command>,
    pub tell: mpsc::Sender<Event>,
    /// Gets the NAPI context of the socket once a packet has come, where busy polling is asked for.
    pub napi: mpsc::Sender<u32>,
    /// The order to collect has come.
    pub collected: Cell<bool>,
}

impl Link {
    pub(super) fn is_ready(&self, account: &Account) {
        let _ = self.ready.send(Ok(account.record().clone()));
    }

    /// Waits until the trial is over at all ends; false if nobody will collect what it brought.
    pub(super) fn is_collected(&self) -> bool {
        while !self.collected.get() {
            match self.inbox.recv() {
                Ok(Command::Collect) => self.collected.set(true),
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Reports that warm-up packets are out, and for how many every stamp came back.
    pub(super) fn warmed(&self, stamped: u32) {
        self.say(FromAgent::Warmed { activity: self.activity, stamped });
    }

    /// Reports that the loop has ended, and how many packets went out.
    pub(super) fn done(&self, packets: u64) {
        self.say(FromAgent::Done { activity: self.activity, packets });
    }

    /// Reports why it cannot go on.
    pub(super) fn broke(&self, why: String) {
        self.say(FromAgent::Broke { activity: self.activity, why });
    }

    fn say(&self, what: FromAgent) {
        let _ = self.tell.send(Event::Tell(Box::new(what)));
    }
}
