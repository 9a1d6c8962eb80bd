// SPDX-License-Identifier: MIT OR Apache-2.0
//! `command`: a program of the user's, started, watched, stopped, its output kept. A program that
//! serves is known to be up when it listens in this network namespace.

use crate::load::work::{LIMIT, LoadOrder, Watch, Work};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tardy_model::harmless;
use tardy_model::load::ExitRecord;
use tardy_model::time::Nanos;
use tardy_sys::proc::{Stat, listening_sockets};
use tardy_sys::process::{Child, Ended};

/// Of a program's output so much is kept, its beginning.
const KEPT: usize = 1 << 20;
/// The record has this number of lines from the end of its output…
const LAST_LINES: usize = 12;
/// …out of this number of bytes.
const LAST_BYTES: usize = 4_096;
/// A program that serves is up when somebody listens who did not before, and at the latest after
/// this.
const UP: Duration = Duration::from_secs(1);
/// After the stop the program at `to` may end by itself when its caller has gone.
const BY_ITSELF: Nanos = Nanos(300_000_000);
/// A program that was asked to end is killed after this.
const TERMINATE: Nanos = Nanos(2_000_000_000);
/// How long its last output is waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// In the environment of what is started: whose it is. `tardy undo` finds by it what outlived a
/// killed run.
pub const MARK: &str = "TARDY_LOAD";

struct Command {
    argv: Vec<String>,
    peer: bool,
    child: Option<(Child, u64)>,
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
}

pub(super) fn open(order: &LoadOrder, command: &[String], peer_command: &[String]) -> Result<Box<dyn Work>, String> {
    let (mine, theirs) = (order.local.ip().to_string(), order.remote.ip().to_string());
    let (from, to) = if order.at.peer { (theirs, mine) } else { (mine, theirs) };
    let instance = (order.at.instance + 1).to_string();
    let argv = if order.at.peer { peer_command } else { command };
    let argv: Vec<String> = argv
        .iter()
        .map(|word| word.replace("{from}", &from).replace("{to}", &to).replace("{instance}", &instance))
        .collect();
    Ok(Box::new(Command { argv, peer: order.at.peer, child: None, head: Vec::new(), tail: Vec::new(), bytes: 0 }))
}

/// When a process started, clock ticks since boot; 0 of one that is gone.
fn started(pid: u32) -> u64 {
    Stat::of(pid).map_or(0, |stat| stat.started_ticks)
}

impl Command {
    fn start(&mut self) -> std::io::Result<()> {
        let mark = format!("{}:{}", std::process::id(), started(std::process::id()));
        let (program, args) = self.argv.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
        let child = Child::start(program, args, &[(MARK, &mark)])?;
        let start = started(child.pid());
        self.child = Some((child, start));
        Ok(())
    }

    /// Takes what it wrote, waiting up to `limit` for it; false once nobody can write any more.
    fn listen(&mut self, limit: Duration) -> bool {
        let mut room = [0; 16 << 10];
        let Some((child, _)) = &mut self.child else { return false };
        match child.read(&mut room, limit) {
            Ok(Some(bytes)) => {
                let said = &room[..bytes];
                self.bytes += bytes as u64;
                let fits = said.len().min(KEPT - self.head.len());
                self.head.extend_from_slice(&said[..fits]);
                self.tail.extend_from_slice(said);
                if self.tail.len() > 2 * LAST_BYTES {
                    self.tail.drain(..self.tail.len() - LAST_BYTES);
                }
                true
            }
            _ => false,
        }
    }

    fn ended(&self) -> Option<Ended> {
        self.child.as_ref().and_then(|(child, _)| child.ended())
    }

    fn signal(&self, signal: i32) {
        if let Some((child, _)) = &self.child {
            let _ = child.signal(signal);
        }
    }

    /// What it left to say, which is bounded: somebody who has its output may go on writing.
    fn last_words(&mut self) {
        let until = Instant::now() + LAST_WORDS;
        while Instant::now() < until && self.listen(Duration::from_millis(20)) {}
    }

    fn last_lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.tail);
        let printable = |line: &str| line.replace(|c: char| c != '\t' && harmless::acts(c), " ");
        let mut lines: Vec<String> = text.lines().map(|line| printable(line.trim_end())).collect();
        lines.retain(|line| !line.is_empty());
        lines.split_off(lines.len().saturating_sub(LAST_LINES))
    }

    fn record(&mut self, ended: Option<Ended>, stopped: bool) -> ExitRecord {
        let (pid, start) = self.child.as_ref().map_or((0, 0), |(child, start)| (child.pid(), *start));
        ExitRecord {
            pid,
            start,
            code: ended.and_then(|ended| if let Ended::Code(code) = ended { Some(code) } else { None }),
            signal: ended.and_then(|ended| if let Ended::Signal(signal) = ended { Some(signal) } else { None }),
            stopped,
            output_bytes: self.bytes,
            dropped_bytes: self.bytes - self.head.len() as u64,
            last_lines: self.last_lines(),
        }
    }
}

impl Work for Command {
    /// A program at `to` is started before the other side works, and given time to listen.
    fn connect(&mut self, stop: &AtomicBool) -> Result<(), String> {
        if !self.peer || self.child.is_some() {
            return Ok(());
        }
        let before = listening_sockets();
        let program = self.argv.first().cloned().unwrap_or_default();
        self.start().map_err(|error| format!("`{program}` cannot be started: {error}"))?;
        let until = Instant::now() + UP;
        while Instant::now() < until && !stop.load(Relaxed) && listening_sockets().is_subset(&before) {
            // Without output there is nothing that waits for us, so it may be polled.
            if !self.listen(Duration::from_millis(5)) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if let Some(ended) = self.ended() {
                self.last_words();
                let said = self.last_lines().join(" / ");
                return Err(format!("`{program}` ended at once ({}): {said}", how(ended)));
            }
        }
        Ok(())
    }

    fn answers(&self) -> bool {
        self.peer
    }

    fn run(&mut self, watch: &mut Watch) {
        if self.child.is_none()
            && let Err(error) = self.start()
        {
            let program = self.argv.first().cloned().unwrap_or_default();
            watch.broke(&format!("start `{program}`"), &error);
            return;
        }
        let (mut asked, mut killed) = (None, false);
        let mut open = true;
        let ended = loop {
            if open {
                open = self.listen(LIMIT);
            } else {
                std::thread::sleep(LIMIT);
            }
            let now = watch.now();
            if let Some(ended) = self.ended() {
                break Some(ended);
            }
            let Some(past) = watch.since_over(now) else { continue };
            let patience = if self.peer { BY_ITSELF } else { Nanos::ZERO };
            match asked {
                None if past >= patience => {
                    self.signal(libc::SIGTERM);
                    asked = Some(now);
                }
                Some(since) if now - since > TERMINATE => {
                    self.signal(libc::SIGKILL);
                    // A process that even this does not end waits inside the kernel.
                    if killed && now - since > TERMINATE + TERMINATE {
                        break None;
                    }
                    killed = true;
                }
                _ => {}
            }
        };
        let now = watch.now();
        let stopped = watch.is_over(now);
        watch.note_end();
        self.last_words();
        watch.record.exit = Some(self.record(ended, stopped));
        watch.output = std::mem::take(&mut self.head);
        // Its group goes with it.
        self.child = None;
    }
}

fn how(ended: Ended) -> String {
    match ended {
        Ended::Code(code) => format!("exit code {code}"),
        Ended::Signal(signal) => format!("signal {signal}"),
    }
}
