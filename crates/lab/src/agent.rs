// SPDX-License-Identifier: MIT OR Apache-2.0
//! A station's agent as the coordinator sees it: a child process and one channel of messages for all stations.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, BufWriter, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tardy_engine::message::{self, FromAgent, MessageError, ToAgent};

/// A message with the station it came from.
pub type Incoming = (usize, Result<FromAgent, MessageError>);

/// Something went wrong with a station.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The process could not be started.
    #[error("the agent of station `{station}` could not be started ({program}): {source}")]
    Start {
        /// Station.
        station: String,
        /// Program.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// It speaks another version, or nonsense.
    #[error("the agent of station `{station}`: {source}")]
    Talk {
        /// Station.
        station: String,
        /// What was wrong.
        source: MessageError,
    },
    /// It is another program than the coordinator.
    #[error(
        "the agent of station `{station}` is tardy {theirs}, and this is tardy {ours}: one run must not mix two builds; install one of \
         them everywhere, then run it again"
    )]
    OtherBuild {
        /// Station.
        station: String,
        /// Version and build of the agent.
        theirs: String,
        /// Those of the coordinator.
        ours: String,
    },
    /// It ended.
    #[error("the agent of station `{station}` (process {pid}) ended {how}{said}")]
    Died {
        /// Station.
        station: String,
        /// Process id.
        pid: u32,
        /// Exit status or signal.
        how: String,
        /// The end of what it wrote on stderr.
        said: String,
    },
    /// It said that it cannot do what was asked.
    #[error("station `{station}`: {what}")]
    Refused {
        /// Station.
        station: String,
        /// Its words.
        what: String,
    },
    /// It did not answer in time.
    #[error("station `{station}` did not answer within {seconds} s while {doing}: is a realtime thread starving it?")]
    Silent {
        /// Station.
        station: String,
        /// Limit.
        seconds: u64,
        /// What was waited for.
        doing: &'static str,
    },
}

/// A running agent.
pub struct Agent {
    station: String,
    child: Child,
    to: Option<BufWriter<ChildStdin>>,
    said: Arc<Mutex<VecDeque<String>>>,
    greeting: mpsc::Receiver<Result<String, MessageError>>,
    /// Its version, from the greeting.
    pub version: String,
}

const SAID_LINES: usize = 12;
/// An agent greets within this time or is not one.
const GREETING: Duration = Duration::from_secs(20);

impl Agent {
    /// Starts `program agent --netns NETNS`; behind its greeting, its messages come out of `inbox` under `index`.
    pub fn start(
        program: &Path,
        station: &str,
        netns: &str,
        index: usize,
        inbox: mpsc::Sender<Incoming>,
        version: &str,
    ) -> Result<Agent, AgentError> {
        let failed = |source| AgentError::Start {
            station: station.to_owned(),
            program: format!("{} agent --netns {netns}", program.display()),
            source,
        };
        let mut command = Command::new(program);
        // Started by `/proc/self/exe` it is to be called in lists of processes what it is.
        command.arg0("tardy").args(["agent", "--netns", netns]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed(io::Error::other("no pipes")));
        };
        let said = Arc::new(Mutex::new(VecDeque::new()));
        listen(stderr, said.clone());
        let (heard, greeting) = mpsc::channel();
        let ours = version.to_owned();
        std::thread::spawn(move || {
            let mut from = BufReader::new(stdout);
            let greeted = message::hear(&mut from, &ours);
            let mut over = greeted.is_err();
            over |= heard.send(greeted).is_err();
            while !over {
                let message = message::receive(&mut from);
                over = message.is_err();
                over |= inbox.send((index, message)).is_err();
            }
        });
        Ok(Agent {
            station: station.to_owned(),
            child,
            to: Some(BufWriter::new(stdin)),
            said,
            greeting,
            version: String::new(),
        })
    }

    /// Exchanges greetings; until then nothing is known of the other side. An agent of another build is refused.
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

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The station's name.
    pub fn station(&self) -> &str {
        &self.station
    }

    /// Sends an order.
    pub fn tell(&mut self, order: &ToAgent) -> Result<(), AgentError> {
        let result = match &mut self.to {
            Some(to) => message::send(to, order),
            None => Err(MessageError::Closed),
        };
        result.map_err(|source| self.explain(source))
    }

    /// What a broken connection means: usually that the process has ended, and then how.
    pub fn explain(&mut self, source: MessageError) -> AgentError {
        if !matches!(source, MessageError::Closed | MessageError::Broken(_)) {
            return AgentError::Talk { station: self.station.clone(), source };
        }
        let how = match self.wait(Duration::from_secs(1)) {
            Some(status) => format!("with {status}"),
            None => "its side of the connection".to_owned(),
        };
        let said = self.said.lock().map(|said| said.iter().cloned().collect::<Vec<_>>()).unwrap_or_default();
        let said = if said.is_empty() { String::new() } else { format!("; it said: {}", said.join(" / ")) };
        AgentError::Died { station: self.station.clone(), pid: self.pid(), how, said }
    }

    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                _ => return None,
            }
        }
    }
}

impl Drop for Agent {
    /// Closing its stdin ends an agent; one that does not end is killed.
    fn drop(&mut self) {
        self.to = None;
        if self.wait(Duration::from_secs(5)).is_none() {
            let _ = self.child.kill();
            // One that is stuck in the kernel keeps nothing else from being put back, which then says that it is stuck.
            let _ = self.wait(Duration::from_secs(1));
        }
    }
}

fn listen(from: impl Read + Send + 'static, said: Arc<Mutex<VecDeque<String>>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if let Ok(mut said) = said.lock() {
                if said.len() == SAID_LINES {
                    said.pop_front();
                }
                said.push_back(line);
            }
        }
    });
}
