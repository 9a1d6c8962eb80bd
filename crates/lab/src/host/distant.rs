// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host elsewhere: its steward is spoken to over two byte streams, whatever carries them.

use super::ask::{self as talk, Answer, Ask, Observe, Observed, Order, Reply};
use super::noted::{self, Waiting};
use super::{ApplyError, Away, Host, LookError};
use crate::command::{Command, OURSELVES};
use crate::connection::{Carrier, Connection};
use crate::machine::Facts;
use crate::names::Names;
use crate::run::{Event, What};
use crate::slot::ClaimError;
use crate::step::Step;
use crate::undo::{PutBack, UndoError};
use std::io::{self, BufReader, BufWriter, Write};
use std::sync::mpsc;
use std::time::Duration;
use tardy_engine::message::{self, MessageError};
use tardy_model::manifest::{HostEntry, ReadBack};
use tardy_model::time::{Instant, Tai};

/// A steward answers within this time, and for each step that it carries out it may take the time
/// of a command.
const ANSWER: Duration = Duration::from_secs(20);
const A_STEP: Duration = Duration::from_secs(60);
/// A steward whose orders have ended puts everything back before it ends.
const ENDING: Duration = Duration::from_secs(10);
const DYING: Duration = Duration::from_secs(1);

/// How a program is started on a host: over ssh, say. It is the only thing that knows what carries
/// the bytes. The commands that it is given are all of this program: `tardy steward`, and
/// `tardy noted` for whatever else is to run there.
pub trait Reach {
    /// Starts a program there. Its standard input and output are the connection.
    ///
    /// # Errors
    /// If the host cannot be reached or the program not be started.
    fn open(&mut self, command: &Command) -> io::Result<Connection>;
}

impl<F: FnMut(&Command) -> io::Result<Connection>> Reach for F {
    fn open(&mut self, command: &Command) -> io::Result<Connection> {
        self(command)
    }
}

pub struct Distant<R> {
    /// As the user calls it.
    name: String,
    reach: R,
    to: Option<BufWriter<Box<dyn Write + Send>>>,
    replies: mpsc::Receiver<Result<Reply, MessageError>>,
    carrier: Box<dyn Carrier>,
    ran: Vec<Event>,
}

impl<R: Reach> Distant<R> {
    /// Starts the steward of a host and exchanges greetings with it. It must be of this build.
    ///
    /// # Errors
    /// If it cannot be reached, or is another program.
    pub fn meet(mut reach: R, name: &str, version: &str) -> Result<Distant<R>, Away> {
        let away = |says: String| Away { host: name.to_owned(), says };
        let connection = reach
            .open(&Command::new(OURSELVES, &["steward"]))
            .map_err(|error| away(format!("its steward cannot be started: {error}")))?;
        let Connection { from, to, carrier } = connection;
        let (heard, greeting) = mpsc::channel();
        // One answer for each order: what comes unasked waits in the stream.
        let (told, replies) = mpsc::sync_channel(1);
        let ours = version.to_owned();
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let greeted = message::hear(&mut from, &ours);
            let mut over = greeted.is_err();
            over |= heard.send(greeted).is_err();
            while !over {
                let reply = talk::receive(&mut from);
                over = reply.is_err();
                over |= told.send(reply).is_err();
            }
        });
        let (name, to) = (name.to_owned(), Some(BufWriter::new(to)));
        let mut distant = Distant { name, reach, to, replies, carrier, ran: Vec::new() };
        let greeted = distant.to.as_mut().map_or(Err(MessageError::Closed), |to| message::greet(to, version));
        greeted.map_err(|error| distant.lost(error))?;
        let theirs = match greeting.recv_timeout(ANSWER) {
            Ok(heard) => heard.map_err(|error| distant.lost(error))?,
            Err(_) => return Err(distant.silent()),
        };
        if theirs != version {
            let says = format!(
                "its steward is tardy {theirs}, and this is tardy {version}: one run must not mix two builds; install one of them on both"
            );
            return Err(Away { host: distant.name.clone(), says });
        }
        Ok(distant)
    }
}

impl<R> Distant<R> {
    fn away(&self, says: impl Into<String>) -> Away {
        Away { host: self.name.clone(), says: says.into() }
    }

    fn silent(&self) -> Away {
        self.away("its steward does not answer: `tardy undo` there puts back what is left")
    }

    /// What a broken connection means.
    fn lost(&mut self, error: MessageError) -> Away {
        // Whatever it is asked from now on, it is gone.
        self.to = None;
        if !matches!(error, MessageError::Closed | MessageError::Broken(_)) {
            return self.away(error.to_string());
        }
        let how = self.carrier.ended(DYING).map_or_else(String::new, |how| format!(" (it ended {how})"));
        let lines = self.carrier.last_words();
        let said = if lines.is_empty() { String::new() } else { format!("; it said: {}", lines.join(" / ")) };
        self.away(format!(
            "the connection to its steward is lost{how}{said}: a steward that lives puts everything back there, else `tardy undo` does"
        ))
    }

    fn ask(&mut self, order: &Order, limit: Duration) -> Result<Answer, Away> {
        let sent = self.to.as_mut().map_or(Err(MessageError::Closed), |to| talk::send(to, order));
        sent.map_err(|error| self.lost(error))?;
        match self.replies.recv_timeout(limit) {
            Ok(Ok(Reply { ran, answer })) => {
                // Another host says what it ran, and nothing else of this run.
                self.ran.extend(ran.into_iter().filter(|event| matches!(event.what, What::Commands { .. })));
                Ok(answer)
            }
            Ok(Err(error)) => Err(self.lost(error)),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(self.lost(MessageError::Closed)),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                // A reply that comes later would be taken for that of the next order.
                self.to = None;
                Err(self.silent())
            }
        }
    }

    /// The error that goes with an answer which is not the one that was waited for.
    fn refused(&self, answer: Answer) -> ApplyError {
        match answer {
            Answer::Failed { command, why, says } => ApplyError::Failed { command, why, says },
            other => self.odd(other).into(),
        }
    }

    fn odd(&self, answer: Answer) -> Away {
        match answer {
            Answer::Refused(says) => self.away(says),
            Answer::Failed { command, why, says } => self.away(format!("`{command}` ({why}): {says}")),
            _ => self.away("its steward answered something else than what it was asked"),
        }
    }
}

impl<R: Reach> Host for Distant<R> {
    fn look(&mut self, ask: &Ask) -> Result<Facts, LookError> {
        match self.ask(&Order::Look(ask.clone()), ANSWER)? {
            Answer::Facts(facts) => Ok(*facts),
            other => Err(self.odd(other).into()),
        }
    }

    fn describe(&mut self) -> Result<HostEntry, Away> {
        match self.ask(&Order::Describe, ANSWER)? {
            Answer::Described(entry) => Ok(*entry),
            other => Err(self.odd(other)),
        }
    }

    fn claim(&mut self) -> Result<Names, ClaimError> {
        let answer = self.ask(&Order::Claim, ANSWER)?;
        let names = if let Answer::Slot(number) = answer { Names::of(number) } else { None };
        names.ok_or_else(|| self.odd(answer).into())
    }

    fn apply(&mut self, steps: &[Step]) -> Result<(), ApplyError> {
        let limit = ANSWER + A_STEP * steps.len() as u32;
        // There the host is "this machine".
        let here = |step: &Step| {
            let mut step = step.clone();
            step.place.host = super::HostId::HERE;
            step
        };
        match self.ask(&Order::Apply(steps.iter().map(here).collect()), limit)? {
            Answer::Done => Ok(()),
            other => Err(self.refused(other)),
        }
    }

    fn read_back(&mut self, commands: &[Command]) -> Result<Vec<ReadBack>, ApplyError> {
        let limit = ANSWER + A_STEP * commands.len() as u32;
        match self.ask(&Order::ReadBack(commands.to_vec()), limit)? {
            Answer::Read(read) if read.len() == commands.len() => Ok(read),
            other => Err(self.refused(other)),
        }
    }

    fn now(&mut self) -> Result<Instant<Tai>, Away> {
        match self.ask(&Order::Now, ANSWER)? {
            Answer::Now(tai_ns) => Ok(Instant::from_ns(tai_ns)),
            other => Err(self.odd(other)),
        }
    }

    fn link_is_up(&mut self, netns: Option<&str>, device: &str) -> Result<bool, LookError> {
        let (netns, device) = (netns.map(str::to_owned), device.to_owned());
        match self.ask(&Order::LinkIsUp { netns, device }, ANSWER)? {
            Answer::LinkIsUp(is_up) => Ok(is_up),
            other => Err(self.odd(other).into()),
        }
    }

    fn start(&mut self, command: &Command) -> Result<Connection, ApplyError> {
        let failed = |source| ApplyError::Start { command: command.clone(), source };
        let connection = self.reach.open(&noted::waiting(command)).map_err(failed)?;
        let waiting = Waiting::hear(connection, ANSWER).map_err(failed)?;
        // One that is in no journal must not run: it ends when its input does.
        self.note(waiting.pid())?;
        waiting.go().map_err(failed)
    }

    fn note(&mut self, pid: u32) -> Result<(), ApplyError> {
        match self.ask(&Order::Note(pid), ANSWER)? {
            Answer::Done => Ok(()),
            other => Err(self.refused(other)),
        }
    }

    fn observe(&mut self, what: &Observe) -> Result<Observed, Away> {
        match self.ask(&Order::Observe(what.clone()), ANSWER)? {
            Answer::Observed(observed) => Ok(*observed),
            other => Err(self.odd(other)),
        }
    }

    fn end_leftovers(&mut self) {
        let _ = self.ask(&Order::EndLeftovers, ANSWER);
    }

    fn keep(&mut self) -> Result<(), Away> {
        match self.ask(&Order::Keep, ANSWER)? {
            Answer::Done => Ok(()),
            other => Err(self.odd(other)),
        }
    }

    fn put_back(&mut self) -> Result<PutBack, UndoError> {
        match self.ask(&Order::PutBack, ANSWER + A_STEP)? {
            Answer::PutBack(put_back) => Ok(put_back.of_elsewhere()),
            other => Err(self.odd(other).into()),
        }
    }

    fn end(&mut self) -> Result<PutBack, UndoError> {
        match self.ask(&Order::End, ANSWER + A_STEP)? {
            Answer::PutBack(put_back) => Ok(put_back.of_elsewhere()),
            other => Err(self.odd(other).into()),
        }
    }

    fn ran(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.ran)
    }
}

impl<R> Drop for Distant<R> {
    /// A steward whose orders end puts back what is left and ends.
    fn drop(&mut self) {
        self.to = None;
        // It is not killed: it may be putting something back, and its journal lies there.
        let _ = self.carrier.ended(ENDING);
    }
}
