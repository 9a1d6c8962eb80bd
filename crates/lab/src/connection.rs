// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection to an agent or a steward, whatever carries its bytes.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tardy_model::trial::OwnTraffic;

/// Two byte streams to an agent or a steward, and what it runs in.
pub struct Connection {
    pub from: Box<dyn Read + Send>,
    pub to: Box<dyn Write + Send>,
    /// What it runs in.
    pub carrier: Box<dyn Carrier>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("pid", &self.carrier.pid()).finish_non_exhaustive()
    }
}

/// Bytes that went over a connection, each way.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    to: Arc<AtomicU64>,
    from: Arc<AtomicU64>,
}

impl Traffic {
    pub fn now(&self) -> OwnTraffic {
        OwnTraffic { to_bytes: self.to.load(Relaxed), from_bytes: self.from.load(Relaxed) }
    }

    /// The same streams, counted.
    pub fn count(
        &self,
        from: Box<dyn Read + Send>,
        to: Box<dyn Write + Send>,
    ) -> (Box<dyn Read + Send>, Box<dyn Write + Send>) {
        (Box::new(Counted(from, self.from.clone())), Box::new(Counted(to, self.to.clone())))
    }
}

/// A stream of which the bytes are counted.
struct Counted<S>(S, Arc<AtomicU64>);

impl<S: Read> Read for Counted<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.read(into)?;
        self.1.fetch_add(bytes as u64, Relaxed);
        Ok(bytes)
    }
}

impl<S: Write> Write for Counted<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = self.0.write(bytes)?;
        self.1.fetch_add(bytes as u64, Relaxed);
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// What an agent runs in: a process, or whatever else ends on its own.
pub trait Carrier: Send {
    /// Its process on the coordinator's machine, for the journal: whoever puts back after a killed
    /// coordinator ends this process first. `None` if there is none.
    fn pid(&self) -> Option<u32>;

    /// How it ended, in words that follow "ended", if it does so within `limit`. Called when a
    /// message could not be sent or received, to say why, and after the orders' stream was closed,
    /// to wait for the end.
    fn ended(&mut self, limit: Duration) -> Option<String>;

    /// Ends it at once. Called if it does not end by itself after the orders' stream was closed.
    /// It must not block.
    fn kill(&mut self);

    /// The last lines that it wrote for a person.
    fn last_words(&self) -> Vec<String>;
}

/// A socket whose other end may take long to say something, as a machine that boots: it is read
/// until there is something, a signal comes or the time is up. The socket's own limit says how
/// often it looks for these.
pub struct Patient<'a> {
    pub socket: UnixStream,
    pub until: Instant,
    /// How long that was when it began.
    pub limit: Duration,
    /// A signal has come.
    pub stop: &'a AtomicBool,
}

impl Read for Patient<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.load(Relaxed) {
                return Err(io::Error::other("a signal came"));
            }
            if Instant::now() > self.until {
                let says = format!("it said nothing within {} s", self.limit.as_secs());
                return Err(io::Error::new(ErrorKind::TimedOut, says));
            }
            match self.socket.read(into) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                read => return read,
            }
        }
    }
}
