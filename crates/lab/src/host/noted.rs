// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that is started on another host past its steward, and is in that host's journal
//! before it runs. What carries the bytes, ssh for example, does not know the number that the
//! process has there. So `tardy noted PROGRAM` is started: it reports its number, waits until the
//! coordinator has had that noted, and then becomes the program, under the same number.

use super::ask as talk;
use crate::command::{Command, OURSELVES};
use crate::connection::Connection;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::time::Duration;
use tardy_engine::message::MessageError;

/// The hidden verb that starts a program once its process is noted.
const VERB: &str = "noted";
/// One that was killed is gone within this time, unless the kernel holds it.
const DYING: Duration = Duration::from_secs(1);

/// What it says first.
#[derive(Debug, Serialize, Deserialize)]
struct Here {
    pid: u32,
}

/// What it waits for.
#[derive(Debug, Serialize, Deserialize)]
enum Go {
    /// The journal has it.
    Noted,
}

/// The command that waits before it becomes this one.
pub(super) fn waiting(command: &Command) -> Command {
    let words = [VERB, "--"].into_iter().chain(command.argv().iter().map(String::as_str));
    Command::new(OURSELVES, &words.collect::<Vec<_>>())
}

/// On the host: says the number of this process, and waits until it is noted. Nothing behind that
/// is read: it is for the program.
///
/// # Errors
/// If the coordinator is gone or says something else. The program must not run then.
pub fn wait(from: &mut impl Read, to: &mut impl Write, pid: u32) -> Result<(), MessageError> {
    talk::send(to, &Here { pid })?;
    let Go::Noted = talk::receive(from)?;
    Ok(())
}

/// A process on another host that waits until it is noted. Dropping it ends it.
pub(super) struct Waiting {
    pid: u32,
    /// Until it may go.
    connection: Option<Connection>,
}

impl Waiting {
    /// Hears its number.
    ///
    /// # Errors
    /// If it does not say it in time; then it is ended.
    pub(super) fn hear(connection: Connection, limit: Duration) -> io::Result<Waiting> {
        let Connection { mut from, to, carrier } = connection;
        let (heard, here) = mpsc::channel();
        std::thread::spawn(move || {
            let said = talk::receive::<Here>(&mut from);
            let _ = heard.send((from, said));
        });
        let (from, said) = here.recv_timeout(limit).map_or((None, None), |(from, said)| (Some(from), Some(said)));
        let from = from.unwrap_or_else(|| Box::new(io::empty()));
        let mut waiting = Waiting { pid: 0, connection: Some(Connection { from, to, carrier }) };
        match said {
            Some(Ok(Here { pid })) => Ok(Waiting { pid, connection: waiting.connection.take() }),
            Some(Err(error)) => Err(waiting.explain(&error)),
            None => Err(io::Error::other(format!("it did not start within {} s", limit.as_secs()))),
        }
    }

    /// Its number on its host.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// It is noted, and becomes the program.
    ///
    /// # Errors
    /// If it is gone.
    pub(super) fn go(mut self) -> io::Result<Connection> {
        let sent = self.connection.as_mut().map_or(Err(MessageError::Closed), |it| talk::send(&mut it.to, &Go::Noted));
        sent.map_err(|error| self.explain(&error))?;
        self.connection.take().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Why it cannot be talked with, in its own words where it has any.
    fn explain(&mut self, error: &MessageError) -> io::Error {
        let Some(connection) = &mut self.connection else { return io::ErrorKind::NotConnected.into() };
        let how = connection.carrier.ended(DYING).map_or_else(String::new, |how| format!(" (it ended {how})"));
        let lines = connection.carrier.last_words();
        let said = if lines.is_empty() { String::new() } else { format!("; it said: {}", lines.join(" / ")) };
        io::Error::other(format!("the process that was to become it is lost: {error}{how}{said}"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(Connection { to, mut carrier, .. }) = self.connection.take() else { return };
        drop(to);
        if carrier.ended(DYING).is_none() {
            carrier.kill();
            let _ = carrier.ended(DYING);
        }
    }
}
