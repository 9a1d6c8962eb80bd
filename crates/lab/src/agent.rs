// SPDX-License-Identifier: MIT OR Apache-2.0
//! A station's agent as the coordinator sees it: orders go to it, and its messages come out of one
//! channel for all stations.

use crate::connection::{Carrier, Connection, Traffic};
use crate::host::{ApplyError, Away, clocks};
use crate::not_found::NotFound;
use crate::station::StationId;
use std::io::{BufReader, BufWriter, Write};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tardy_engine::message::{self, ActivityId, FromAgent, MessageError, ToAgent};

/// Under which number an agent speaks, and where that is heard.
pub type Voice = (StationId, mpsc::SyncSender<Incoming>);

/// A message with the station it came from.
pub type Incoming = (StationId, Result<FromAgent, MessageError>);

/// What no agent of tardy's says, another program in its place may.
const FAULT: &str = "this is a fault of tardy, or what speaks there is another program: on a machine that you trust, report it with this message";

/// Something went wrong with a station.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The process could not be started.
    #[error("the agent of station `{station}`: {source}")]
    Start {
        station: String,
        /// Why, by its host.
        source: Box<ApplyError>,
    },
    /// It speaks another version, or nonsense.
    #[error("the agent of station `{station}`: {source}")]
    Talk { station: String, source: MessageError },
    /// It is another program than the coordinator.
    #[error(
        "the agent of station `{station}` is tardy {theirs}, and this is tardy {ours}: one run must not mix two builds; install one of \
         them everywhere, then run it again"
    )]
    OtherBuild {
        station: String,
        /// Version and build of the agent.
        theirs: String,
        /// Those of the coordinator.
        ours: String,
    },
    #[error("the agent of station `{station}`{} ended {how}{said}", process(*pid))]
    Died {
        station: String,
        /// Its process on this machine, if it has one.
        pid: Option<u32>,
        /// Exit status or signal.
        how: String,
        /// The end of what it wrote on stderr.
        said: String,
    },
    /// It said that it cannot do what was asked.
    #[error("station `{station}`: {what}")]
    Refused { station: String, what: String },
    /// Its host's clock is not known to agree with this one's.
    #[error("station `{station}`: {source}")]
    Clocks { station: String, source: clocks::Unknown },
    /// Its host cannot be asked any more.
    #[error("the host of station `{station}`: {source}")]
    Host {
        station: String,
        /// What its steward said last.
        source: Away,
    },
    /// It speaks of an activity that it was not given.
    #[error("station `{station}` speaks of {activity}, and has none of that number: {FAULT}")]
    NotIts { station: String, activity: ActivityId },
    /// It hands over more than the end of a stream can have recorded.
    #[error(
        "station `{station}` hands over {had} {what} of stream `{stream}`, and the end has room for {room}: {FAULT}"
    )]
    TooMuch {
        station: String,
        stream: String,
        /// What there is too much of.
        what: &'static str,
        /// How many there are with the latest piece.
        had: usize,
        /// How many there can be.
        room: usize,
    },
    /// A station that nobody has taken in.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// It did not answer in time.
    #[error(
        "station `{station}` did not answer within {seconds} s while {doing}: a realtime thread is starving it, or the network to its machine is down"
    )]
    Silent {
        station: String,
        seconds: u64,
        /// What was waited for.
        doing: &'static str,
    },
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

pub struct Agent {
    station: String,
    carrier: Box<dyn Carrier>,
    to: Option<BufWriter<Box<dyn Write + Send>>>,
    greeting: mpsc::Receiver<Result<String, MessageError>>,
    /// Under which number its messages come out, and where; `None` while no path has it.
    speaks: Arc<Mutex<Option<Voice>>>,
    /// Its version, from the greeting.
    pub version: String,
    /// It reports nothing while a trial runs, and is not missed then.
    pub is_quiet: bool,
    /// What went over its connection.
    pub(crate) traffic: Traffic,
}

/// An agent greets within this time or is not one.
const GREETING: Duration = Duration::from_secs(20);
/// An agent whose orders have ended ends within this time, and one that was killed within that,
/// unless the kernel holds it.
const ENDING: Duration = Duration::from_secs(5);
const DYING: Duration = Duration::from_secs(1);

impl Agent {
    /// Listens to an agent: behind its greeting, its messages come out by its voice. One without a
    /// voice is not heard until it gets one.
    pub fn over(connection: Connection, station: &str, voice: Option<Voice>, version: &str) -> Agent {
        let Connection { from, to, carrier } = connection;
        let traffic = Traffic::default();
        let (from, to) = traffic.count(from, to);
        let (heard, greeting) = mpsc::channel();
        let ours = version.to_owned();
        let speaks = Arc::new(Mutex::new(voice));
        let theirs = speaks.clone();
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let greeted = message::hear(&mut from, &ours);
            let mut over = greeted.is_err();
            over |= heard.send(greeted).is_err();
            while !over {
                let message = message::receive(&mut from);
                over = message.is_err();
                // Not under the lock: the message may have to wait until somebody reads.
                let voice = theirs.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some((id, inbox)) = voice {
                    // Where nobody listens any more, somebody may do so later.
                    let _ = inbox.send((id, message));
                }
            }
        });
        let (station, to) = (station.to_owned(), Some(BufWriter::new(to)));
        Agent { station, carrier, to, greeting, speaks, version: String::new(), is_quiet: false, traffic }
    }

    /// From now on its messages come out by another voice.
    pub(crate) fn speak_as(&self, voice: Voice) {
        *self.speaks.lock().unwrap_or_else(PoisonError::into_inner) = Some(voice);
    }

    /// Exchanges greetings; until then nothing is known of the other side. An agent of another
    /// build is refused.
    pub fn greet(&mut self, version: &str) -> Result<(), AgentError> {
        let greeted = match &mut self.to {
            Some(to) => message::greet(to, version),
            None => Err(MessageError::Closed),
        };
        greeted.map_err(|source| self.explain(source))?;
        match self.greeting.recv_timeout(GREETING) {
            Ok(heard) => self.version = heard.map_err(|source| self.explain(source))?,
            Err(_) => {
                let (station, seconds) = (self.station.clone(), GREETING.as_secs());
                return Err(AgentError::Silent { station, seconds, doing: "greeting" });
            }
        }
        if self.version != version {
            let (station, theirs) = (self.station.clone(), self.version.clone());
            return Err(AgentError::OtherBuild { station, theirs, ours: version.to_owned() });
        }
        Ok(())
    }

    /// Its process on this machine, if it has one.
    pub fn pid(&self) -> Option<u32> {
        self.carrier.pid()
    }

    pub fn station(&self) -> &str {
        &self.station
    }

    pub fn tell(&mut self, order: &ToAgent) -> Result<(), AgentError> {
        let result = match &mut self.to {
            Some(to) => message::send(to, order),
            None => Err(MessageError::Closed),
        };
        result.map_err(|source| self.explain(source))
    }

    /// It answered that it cannot do what was asked.
    pub(crate) fn refused(&self, what: String) -> AgentError {
        AgentError::Refused { station: self.station.clone(), what }
    }

    /// What a broken connection means: usually that the process has ended, and then how.
    pub fn explain(&mut self, source: MessageError) -> AgentError {
        if !matches!(source, MessageError::Closed | MessageError::Broken(_)) {
            return AgentError::Talk { station: self.station.clone(), source };
        }
        let how = self.carrier.ended(DYING).unwrap_or_else(|| "its side of the connection".to_owned());
        let lines = self.carrier.last_words();
        let said = if lines.is_empty() { String::new() } else { format!("; it said: {}", lines.join(" / ")) };
        AgentError::Died { station: self.station.clone(), pid: self.pid(), how, said }
    }
}

impl Drop for Agent {
    /// An agent whose orders end does too; one that does not is killed.
    fn drop(&mut self) {
        self.to = None;
        if self.carrier.ended(ENDING).is_none() {
            self.carrier.kill();
            // One that is stuck in the kernel keeps nothing else from being put back, which then
            // says that it is stuck.
            let _ = self.carrier.ended(DYING);
        }
    }
}
