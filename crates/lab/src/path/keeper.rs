// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that run as long as a path: one that forwards its packets, or one that holds a BPF
//! link, which goes with its process. A kind of path plans them; here they are started, watched
//! and ended.

use crate::command::Command;
use crate::connection::Connection;
use crate::host::ApplyError;
use crate::host::hosts::Hosts;
use crate::host::place::Place;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use thiserror::Error;

/// It says within this time that it is ready.
const READY: Duration = Duration::from_secs(10);
/// One whose input ended has so long to end by itself.
const ENDING: Duration = Duration::from_secs(2);
/// The longest line that says so, bytes.
const LINE: u64 = 4096;

/// A program that must run as long as the path. It is started behind the path's steps. It writes a
/// line on its standard output once packets may come, and it ends when its standard input does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeper {
    /// Where it runs. The command itself enters the namespace.
    pub place: Place,
    /// What it is for.
    pub why: &'static str,
    pub command: Command,
    /// No packet needs it: what goes on without it is not broken.
    pub is_optional: bool,
}

/// Why a path cannot be used: one of its programs does not run.
#[derive(Debug, Error)]
pub enum KeeperError {
    /// It cannot be started.
    #[error(transparent)]
    Start(#[from] ApplyError),
    #[error("`{command}` ({why}) ended {how}{said}: the path needs it as long as packets are under way")]
    Ended {
        command: String,
        /// What it is for.
        why: &'static str,
        /// With which status, or before it was ready.
        how: String,
        said: String,
    },
    /// It does not say that it is ready.
    #[error("`{command}` ({why}) did not say within {} s that it is ready: it must write a line when packets may come", READY.as_secs())]
    Silent {
        command: String,
        /// What it is for.
        why: &'static str,
    },
}

/// The programs of a path that is built. Whoever drops them ends them.
#[derive(Debug, Default)]
pub struct Keepers(Vec<(Keeper, Option<Connection>)>);

impl Keepers {
    /// Starts them, one after the other, each on the host of its place; its host's journal has
    /// each before the next one is started.
    ///
    /// # Errors
    /// If one cannot be started, ends or is not ready in time. Those that run are ended.
    pub fn start(planned: &[Keeper], hosts: &mut Hosts<'_>) -> Result<Keepers, KeeperError> {
        let mut keepers = Keepers::default();
        for keeper in planned {
            let mut connection = hosts.at(keeper.place.host).map_err(ApplyError::from)?.start(&keeper.command)?;
            let from = std::mem::replace(&mut connection.from, Box::new(std::io::empty()));
            keepers.0.push((keeper.clone(), Some(connection)));
            keepers.wait_for_the_last(from)?;
        }
        Ok(keepers)
    }

    fn wait_for_the_last(&mut self, from: Box<dyn Read + Send>) -> Result<(), KeeperError> {
        let Some((keeper, _)) = self.0.last() else { return Ok(()) };
        let (command, why) = (keeper.command.to_string(), keeper.why);
        let (says, ready) = mpsc::channel();
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            let read = from.by_ref().take(LINE).read_until(b'\n', &mut line).unwrap_or(0);
            let _ = says.send(read > 0);
            // What else it prints is nobody's, and must not stop it.
            let _ = std::io::copy(&mut from, &mut std::io::sink());
        });
        match ready.recv_timeout(READY) {
            Ok(true) => Ok(()),
            Ok(false) | Err(RecvTimeoutError::Disconnected) => {
                self.ended(true)?;
                let (how, said) = ("its output before it was ready".to_owned(), String::new());
                Err(KeeperError::Ended { command, why, how, said })
            }
            Err(RecvTimeoutError::Timeout) => Err(KeeperError::Silent { command, why }),
        }
    }

    /// Looks whether all of them still run that the path needs.
    ///
    /// # Errors
    /// The first one that has ended.
    pub fn check(&mut self) -> Result<(), KeeperError> {
        self.ended(false)
    }

    fn ended(&mut self, optional_too: bool) -> Result<(), KeeperError> {
        for (keeper, connection) in &mut self.0 {
            let Some(connection) = connection.as_mut().filter(|_| optional_too || !keeper.is_optional) else {
                continue;
            };
            if let Some(how) = connection.carrier.ended(Duration::ZERO) {
                let lines = connection.carrier.last_words();
                let said = if lines.is_empty() { String::new() } else { format!("; it said: {}", lines.join(" / ")) };
                return Err(KeeperError::Ended { command: keeper.command.to_string(), why: keeper.why, how, said });
            }
        }
        Ok(())
    }
}

impl Drop for Keepers {
    /// The last one first: it may need what the others do.
    fn drop(&mut self) {
        for connection in self.0.iter_mut().rev().filter_map(|(_, connection)| connection.take()) {
            let Connection { to, mut carrier, .. } = connection;
            drop(to);
            if carrier.ended(ENDING).is_none() {
                carrier.kill();
                let _ = carrier.ended(ENDING);
            }
        }
    }
}
