// SPDX-License-Identifier: MIT OR Apache-2.0
//! A station that is a network namespace on this machine: its agent is a child process, `tardy agent --netns NETNS`.

use super::{Built, Carrier, Connection, Kind, Offer};
use crate::command::Command as Line;
use crate::inverse::{Action, Inverse};
use crate::names::Names;
use crate::step::Step;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tardy_spec::experiment::Station;

/// So many of the last lines that an agent wrote on stderr are kept.
const LAST_LINES: usize = 12;
const LOOK_EVERY: Duration = Duration::from_millis(2);

pub(super) const KIND: Kind = Kind {
    name: "netns",
    build,
    connect: |offer, program| connect(program, offer.netns()),
    command_line: |offer, program| format!("{} agent --netns {}", program.display(), offer.netns()),
};

/// A step of its own, so that a name that is taken is never mistaken for one that this step made.
fn build(names: Names, station: &str) -> Built {
    let netns = names.netns(station);
    let step = Step {
        does: vec![Line::ip(&["netns", "add", &netns])],
        undoes: vec![Inverse::here(Action::DeleteNamespace { name: netns.clone() })],
        why: "a fresh network namespace for the station",
        tolerates: &[],
    };
    Built { kind: Station::Netns, steps: vec![step], offer: Offer::Netns(netns) }
}

/// Starts the agent.
///
/// # Errors
/// If the program cannot be started.
pub fn connect(program: &Path, netns: &str) -> io::Result<Connection> {
    let mut command = Command::new(program);
    // Started by `/proc/self/exe` it is to be called in lists of processes what it is.
    command.arg0("tardy").args(["agent", "--netns", netns]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (Some(to), Some(from), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("no pipes"));
    };
    let lines = Arc::new(Mutex::new(VecDeque::new()));
    listen(stderr, lines.clone());
    Ok(Connection { from: Box::new(from), to: Box::new(to), carrier: Box::new(Process { child, lines }) })
}

struct Process {
    child: Child,
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl Carrier for Process {
    fn pid(&self) -> Option<u32> {
        Some(self.child.id())
    }

    fn ended(&mut self, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(format!("with {status}")),
                Ok(None) if Instant::now() < until => std::thread::sleep(LOOK_EVERY),
                _ => return None,
            }
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
    }

    fn last_words(&self) -> Vec<String> {
        self.lines.lock().map(|lines| lines.iter().cloned().collect()).unwrap_or_default()
    }
}

fn listen(from: impl Read + Send + 'static, lines: Arc<Mutex<VecDeque<String>>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if let Ok(mut lines) = lines.lock() {
                if lines.len() == LAST_LINES {
                    lines.pop_front();
                }
                lines.push_back(line);
            }
        }
    });
}
