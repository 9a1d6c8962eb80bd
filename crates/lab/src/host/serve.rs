// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steward's side of the talk with a coordinator elsewhere. It ends when the coordinator is
//! gone, or silent for longer than it said it would be, and then puts everything back.

use super::ask::{self as talk, Answer, Order, Reply};
use super::{ApplyError, Host};
use crate::undo::UndoError;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use tardy_engine::message::{self, MessageError};

/// Serves a host until the orders end. What is left to be put back then is put back.
///
/// # Errors
/// [`Unserved::Talk`] if the other side says what is no order of this protocol, and
/// [`Unserved::Left`] if something could not be put back.
pub fn serve(
    from: impl Read + Send + 'static,
    to: &mut impl Write,
    version: &str,
    host: &mut dyn Host,
) -> Result<(), Unserved> {
    let talked = talk(from, to, version, host);
    let left = host.end().map(|_| ());
    match talked {
        // Orders end when the coordinator does, in whatever way.
        Ok(()) | Err(MessageError::Closed | MessageError::Broken(_)) => Ok(left?),
        Err(error) => Err(left.map_or_else(Unserved::from, |()| error.into())),
    }
}

/// Why a steward ended in disorder.
#[derive(Debug, thiserror::Error)]
pub enum Unserved {
    /// The other side is no coordinator of this version.
    #[error(transparent)]
    Talk(#[from] MessageError),
    /// Something is left on this host.
    #[error(transparent)]
    Left(#[from] UndoError),
}

fn talk(
    mut from: impl Read + Send + 'static,
    to: &mut impl Write,
    version: &str,
    host: &mut dyn Host,
) -> Result<(), MessageError> {
    message::greet(to, version)?;
    message::hear(&mut from, version)?;
    // A read ends with the stream only, and a network may go silent without ending it.
    let (heard, orders) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        loop {
            let order = talk::receive::<Order>(&mut from);
            let is_last = order.is_err();
            if heard.send(order).is_err() || is_last {
                return;
            }
        }
    });
    let mut patience = None;
    loop {
        let order = match patience {
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(patience) => orders.recv_timeout(patience),
        };
        let order = order.map_err(|error| match error {
            RecvTimeoutError::Disconnected => MessageError::Closed,
            RecvTimeoutError::Timeout => MessageError::Broken(io::Error::new(ErrorKind::TimedOut, SILENT)),
        })??;
        if let Order::Watch(seconds) = order {
            patience = Some(Duration::from_secs(seconds.into()));
        }
        let answer = answer(host, order);
        talk::send(to, &Reply { ran: host.ran(), answer })?;
    }
}

const SILENT: &str = "the coordinator has said nothing for longer than it announced";

fn answer(host: &mut dyn Host, order: Order) -> Answer {
    fn refused(error: impl ToString) -> Answer {
        Answer::Refused(error.to_string())
    }
    fn or_else<T, E: ToString>(result: Result<T, E>, answer: impl FnOnce(T) -> Answer) -> Answer {
        result.map_or_else(refused, answer)
    }
    match order {
        Order::Look(ask) => or_else(host.look(&ask), |facts| Answer::Facts(Box::new(facts))),
        Order::Describe => or_else(host.describe(), |entry| Answer::Described(Box::new(entry))),
        Order::Now => or_else(host.now(), |now| Answer::Now(now.ns())),
        Order::Claim => or_else(host.claim(), |names| Answer::Slot(names.slot())),
        Order::Apply(steps) => match host.apply(&steps) {
            Ok(()) => Answer::Done,
            Err(ApplyError::Failed { command, why, says }) => Answer::Failed { command, why, says },
            Err(error) => refused(error),
        },
        Order::ReadBack(commands) => match host.read_back(&commands) {
            Ok(read) => Answer::Read(read),
            Err(ApplyError::Failed { command, why, says }) => Answer::Failed { command, why, says },
            Err(error) => refused(error),
        },
        Order::LinkIsUp { netns, device } => or_else(host.link_is_up(netns.as_deref(), &device), Answer::LinkIsUp),
        Order::Note(pid) => or_else(host.note(pid), |()| Answer::Done),
        Order::Observe(what) => or_else(host.observe(&what), |observed| Answer::Observed(Box::new(observed))),
        Order::EndLeftovers => {
            host.end_leftovers();
            Answer::Done
        }
        Order::Keep => or_else(host.keep(), |()| Answer::Done),
        Order::PutBack => or_else(host.put_back(), Answer::PutBack),
        // The talk itself keeps to it.
        Order::Watch(_) => Answer::Done,
        Order::End => or_else(host.end(), Answer::PutBack),
    }
}
