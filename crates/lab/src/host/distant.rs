// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host elsewhere: its steward is spoken to over two byte streams, whatever carries them.

use super::ask::{self as talk, Answer, Ask, Observe, Observed, Order, Reply};
use super::noted::{self, Waiting};
use super::room::{self, Room};
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
use std::net::IpAddr;
use std::sync::mpsc;
use std::time::Duration;
use tardy_engine::message::{self, MessageError};
use tardy_model::harmless;
use tardy_model::manifest::{HostEntry, ReadBack};
use tardy_model::time::{Instant, Tai};

/// A steward answers within this time, and for each step that it carries out it may take the time
/// of a command.
const ANSWER: Duration = Duration::from_secs(20);
const A_STEP: Duration = Duration::from_secs(60);
/// A steward whose orders have ended puts everything back before it ends.
const ENDING: Duration = Duration::from_secs(10);
const DYING: Duration = Duration::from_secs(1);
/// A steward that was met is claimed within that time, or forgotten.
const UNTIL_CLAIMED: Duration = Duration::from_secs(600);
/// What a host may report of the commands that it ran, bytes at a time: a set-up's are some
/// thousands.
const MOST_RAN: usize = 1 << 20;

/// What it means that a shell there found the program and could not run it, and what helps.
pub(super) const NOT_STARTED: &str = "the program cannot be started there";
pub(super) const IF_NOEXEC: &str = "if the user's cache folder is mounted noexec, have the login there set XDG_CACHE_HOME to a folder where programs may run";

/// How a program is started on a host: over ssh, say. It is the only thing that knows what carries
/// the bytes. The commands that it is given are all of this program: `tardy steward`, and
/// `tardy noted` for whatever else is to run there.
pub trait Reach {
    /// Starts a program there. Its standard input and output are the connection.
    ///
    /// # Errors
    /// If the host cannot be reached or the program not be started.
    fn open(&mut self, command: &Command) -> io::Result<Connection>;

    /// True if a network lies between, which may go silent without closing anything, and if what
    /// carries the bytes is only a client of it: to end that ends nothing there.
    fn is_far(&self) -> bool {
        false
    }

    /// By which addresses the connection goes: the coordinator's, and the host's.
    fn addresses(&self) -> Option<[IpAddr; 2]> {
        None
    }

    /// By which network devices of the coordinator's machine it goes; `None` where that cannot be
    /// found out.
    fn devices_here(&self) -> Option<Vec<String>> {
        None
    }

    /// The command of this machine that puts back what is left there, if one does.
    fn undone_by(&self) -> Option<String> {
        None
    }

    /// True if the connection itself goes by this network device of the host's.
    fn goes_by(&self, _: &str) -> bool {
        false
    }
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
    is_far: bool,
    /// How what is left there is put back, in words.
    undone_by: String,
    /// What it may still report of what its kernel answers.
    room: Room,
    /// As which it greeted.
    build: String,
    ran: Vec<Event>,
    /// How much that is.
    ran_bytes: usize,
}

impl<R: Reach> Distant<R> {
    /// Starts the steward of a host and exchanges greetings with it. It must be of that build.
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
        let (name, to, is_far) = (name.to_owned(), Some(BufWriter::new(to)), reach.is_far());
        let undone_by = match reach.undone_by() {
            Some(command) => format!(
                "within 5 min of when it heard from here last, or of the trial's end; after that `{command}` does"
            ),
            None => "else `tardy undo` does".to_owned(),
        };
        let mut distant = Distant {
            name,
            reach,
            to,
            replies,
            carrier,
            is_far,
            undone_by,
            room: Room::default(),
            build: version.to_owned(),
            ran: Vec::new(),
            ran_bytes: 0,
        };
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
        distant.watch(UNTIL_CLAIMED)?;
        Ok(distant)
    }
}

impl<R> Distant<R> {
    /// What it says is in one line: another host's words must not look like lines of tardy's own.
    fn away(&self, says: impl Into<String>) -> Away {
        Away { host: self.name.clone(), says: harmless::blanked(&says.into()) }
    }

    fn silent(&self) -> Away {
        self.away(format!("its steward does not answer: one that lives puts everything back there, {}", self.undone_by))
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
        // By which a shell says that it found a file and could not run it.
        if self.is_far && how.contains("exit status: 126") {
            return self.away(format!("{NOT_STARTED}{how}{said}: {IF_NOEXEC}"));
        }
        self.away(format!(
            "the connection to its steward is lost{how}{said}: a steward that lives puts everything back there, {}",
            self.undone_by
        ))
    }

    fn ask(&mut self, order: &Order, limit: Duration) -> Result<Answer, Away> {
        let sent = self.to.as_mut().map_or(Err(MessageError::Closed), |to| talk::send(to, order));
        sent.map_err(|error| self.lost(error))?;
        match self.replies.recv_timeout(limit) {
            Ok(Ok(Reply { ran, answer })) => {
                // Another host says what it ran, and nothing else of this run.
                for event in ran.into_iter().filter(|event| matches!(event.what, What::Commands { .. })) {
                    self.ran_bytes =
                        self.ran_bytes.saturating_add(serde_json::to_vec(&event).map_or(MOST_RAN, |text| text.len()));
                    if self.ran_bytes < MOST_RAN {
                        self.ran.push(event);
                    }
                }
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
            Answer::Facts(facts) => {
                room::found(&*facts).map_err(|why| self.away(why))?;
                let facts = room::in_lines(&*facts).map_err(|error| self.away(error.to_string()))?;
                match facts.nics.values().find(|nic| self.reach.goes_by(&nic.name)) {
                    None => Ok(Facts {
                        reached: self.reach.addresses(),
                        goes_by_here: self.reach.devices_here(),
                        is_far: self.is_far,
                        ..facts
                    }),
                    Some(nic) => Err(self.away(cuts_itself(&nic.name)).into()),
                }
            }
            other => Err(self.odd(other).into()),
        }
    }

    fn describe(&mut self) -> Result<HostEntry, Away> {
        match self.ask(&Order::Describe, ANSWER)? {
            Answer::Described(entry) => match room::described(&entry) {
                Ok(()) => Ok(*entry),
                Err(why) => Err(self.away(why)),
            },
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
            // What a question was is known here.
            Answer::Read(read) if read.len() == commands.len() => {
                self.room.take(&read).map_err(|why| self.away(why))?;
                let asked = commands.iter().map(ToString::to_string);
                Ok(read
                    .into_iter()
                    .zip(asked)
                    .map(|(read, command)| ReadBack { cell: None, command, ..read })
                    .collect())
            }
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
            Answer::Observed(observed) => match room::observed(&*observed) {
                Ok(()) => Ok(*observed),
                Err(why) => Err(self.away(why)),
            },
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
        self.ran_bytes = 0;
        std::mem::take(&mut self.ran)
    }

    fn build(&self) -> Option<&str> {
        Some(&self.build)
    }

    fn watch(&mut self, patience: Duration) -> Result<(), Away> {
        if !self.is_far {
            return Ok(());
        }
        match self.ask(&Order::Watch(u32::try_from(patience.as_secs()).unwrap_or(u32::MAX)), ANSWER)? {
            Answer::Done => Ok(()),
            other => Err(self.odd(other)),
        }
    }
}

/// Why a device is refused by which the orders come.
fn cuts_itself(device: &str) -> String {
    format!(
        "tardy reaches it by its network device {device}, or cannot find out by which, and to take that for the path would cut the connection: measure \
         by another device of it, or reach it by another one (its address there in `ssh`)"
    )
}

impl<R> Drop for Distant<R> {
    /// A steward whose orders end puts back what is left and ends.
    fn drop(&mut self) {
        self.to = None;
        // It is not killed: it may be putting something back, and its journal lies there. The
        // client of a machine that does not close the connection is.
        if self.carrier.ended(ENDING).is_none() && self.is_far {
            self.carrier.kill();
            let _ = self.carrier.ended(DYING);
        }
    }
}
