// SPDX-License-Identifier: MIT OR Apache-2.0
//! One byte stream to another host that carries those of all programs which are started there: its
//! steward, its agents, and what else the run starts. On this side, a [`Trunk`] is how the host is
//! reached; on the other side [`serve`] starts the programs. Each program has a channel.
//!
//! A program whose output nobody reads must not hold up the others on the same stream. So the other
//! side sends no more of a channel than this side has room for, and hears when there is more.

use super::distant::Reach;
use crate::command::{Command, OURSELVES};
use crate::connection::{Carrier, Connection};
use crate::identity;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tardy_engine::message::{self, MessageError};
use tardy_model::harmless;

/// Bytes of a channel that may be under way or unread.
const ROOM: usize = 1 << 20;
/// The most bytes in one frame.
const PIECE: usize = 32 << 10;
/// How many of the last lines that a program wrote on stderr we keep, and the longest, bytes.
const LAST_LINES: usize = 12;
const LONGEST_LINE: u64 = 4096;

/// What goes over it, in both directions.
#[derive(Debug, Serialize, Deserialize)]
enum Frame {
    /// The other side is there.
    Hello,
    /// To the other side: start this program.
    Open { channel: u32, words: Vec<String> },
    /// What a program is to read, or has written.
    Data { channel: u32, bytes: Vec<u8> },
    /// No more of that comes.
    Close { channel: u32 },
    /// To the other side: this number of bytes has been read.
    Read { channel: u32, bytes: u32 },
    /// To the other side: end the program.
    Kill { channel: u32 },
    /// The program wrote a line for a person.
    Said { channel: u32, line: String },
    /// The program ended so, or could not be started.
    Ended { channel: u32, how: String },
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of the stream itself.
pub struct Link {
    /// What ended it, in words that follow "ended". It is asked once the stream has.
    pub why: Box<dyn Fn() -> String + Send>,
    /// Ends it at once, also for whoever waits for bytes of it.
    pub cut: Box<dyn Fn() + Send + Sync>,
}

/// The way to the programs of another host.
pub struct Trunk {
    shared: Arc<Shared>,
    next: u32,
}

struct Shared {
    to: Mutex<Box<dyn Write + Send>>,
    state: Mutex<State>,
    changed: Condvar,
    cut: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    channels: BTreeMap<u32, Channel>,
    /// How the stream itself ended.
    over: Option<String>,
}

impl State {
    fn of(&mut self, channel: u32) -> Result<&mut Channel, String> {
        let unknown = || "because it spoke of a program that nobody started".to_owned();
        self.channels.get_mut(&channel).ok_or_else(unknown)
    }
}

/// A program on the other host, as far as it is known here.
#[derive(Default)]
struct Channel {
    /// Where its output goes; `None` when no more comes.
    output: Option<mpsc::Sender<Vec<u8>>>,
    /// Bytes of it that nobody has read.
    unread: usize,
    lines: VecDeque<String>,
    ended: Option<String>,
}

impl Trunk {
    /// Hears that the other side is there: the first thing that comes. Nothing behind it is read.
    ///
    /// # Errors
    /// If something else comes than the other side of this build.
    pub fn hear(first: &mut impl Read) -> Result<(), MessageError> {
        match message::receive(first)? {
            Frame::Hello => Ok(()),
            _ => Err(MessageError::Garbled("it does not begin with a greeting".to_owned())),
        }
    }

    /// Over these two streams, once the other side was heard. A write that does not end within the
    /// time of `to` ends the stream, and so does a read that gives an error: `from` must wait.
    pub fn over(from: impl Read + Send + 'static, to: impl Write + Send + 'static, link: Link) -> Trunk {
        let to: Box<dyn Write + Send> = Box::new(BufWriter::new(to));
        let Link { why, cut } = link;
        let shared = Shared { to: Mutex::new(to), state: Mutex::default(), changed: Condvar::new(), cut };
        let shared = Arc::new(shared);
        let theirs = shared.clone();
        std::thread::spawn(move || theirs.listen(BufReader::new(from), &why));
        Trunk { shared, next: 0 }
    }
}

impl Reach for Trunk {
    fn open(&mut self, command: &Command) -> io::Result<Connection> {
        let channel = self.next;
        self.next += 1;
        let (tell, output) = mpsc::channel();
        let new = Channel { output: Some(tell), ..Channel::default() };
        {
            let mut state = locked(&self.shared.state);
            if let Some(how) = &state.over {
                return Err(io::Error::other(format!("the connection to it ended {how}")));
            }
            state.channels.insert(channel, new);
        }
        self.shared.send(&Frame::Open { channel, words: command.argv().to_vec() })?;
        let end = || End { shared: self.shared.clone(), channel };
        let from = Output { end: end(), output, rest: Vec::new(), at: 0, read: 0 };
        Ok(Connection { from: Box::new(from), to: Box::new(Input(end())), carrier: Box::new(end()) })
    }
}

impl Shared {
    fn send(&self, frame: &Frame) -> io::Result<()> {
        let gone = |how: &str| io::Error::other(format!("the connection ended {how}"));
        if let Some(how) = &locked(&self.state).over {
            return Err(gone(how));
        }
        let sent = message::send(&mut *locked(&self.to), frame);
        sent.map_err(|error| {
            // Half a frame may be on its way, so nothing behind it would be understood.
            self.end(format!("because it takes no more orders: {error}"));
            (self.cut)();
            gone("because it takes no more orders")
        })
    }

    fn end(&self, how: String) {
        let mut state = locked(&self.state);
        state.over.get_or_insert(how);
        state.channels.values_mut().for_each(|channel| channel.output = None);
        self.changed.notify_all();
    }

    /// Takes in what comes until the stream ends.
    fn listen(&self, mut from: impl Read, why: &(dyn Fn() -> String + Send)) {
        let end = loop {
            match message::receive(&mut from) {
                Ok(frame) => {
                    if let Err(wrong) = self.take(frame) {
                        break wrong;
                    }
                }
                Err(MessageError::Closed | MessageError::Broken(_)) => break why(),
                Err(error) => break format!("because what it sent makes no sense: {error}"),
            }
        };
        self.end(end);
        (self.cut)();
    }

    fn take(&self, frame: Frame) -> Result<(), String> {
        let mut state = locked(&self.state);
        match frame {
            Frame::Data { channel: number, bytes } => {
                let channel = state.of(number)?;
                let (room, length) = (ROOM - channel.unread, bytes.len());
                if length == 0 || length > room {
                    return Err(
                        "because it sent none of a program's output, or more than there was room for".to_owned()
                    );
                }
                if channel.output.as_ref().is_some_and(|output| output.send(bytes).is_ok()) {
                    channel.unread += length;
                } else {
                    // Nobody reads it any more, and the program is to go on.
                    drop(state);
                    let _ = self.send(&Frame::Read { channel: number, bytes: length as u32 });
                }
                return Ok(());
            }
            Frame::Close { channel } => state.of(channel)?.output = None,
            Frame::Said { channel, line } => {
                let lines = &mut state.of(channel)?.lines;
                if lines.len() == LAST_LINES {
                    lines.pop_front();
                }
                lines.push_back(short(&line));
            }
            Frame::Ended { channel, how } => {
                let channel = state.of(channel)?;
                channel.ended = Some(short(&how));
                channel.output = None;
            }
            Frame::Hello | Frame::Open { .. } | Frame::Read { .. } | Frame::Kill { .. } => {
                return Err("because it gave an order, and orders go the other way".to_owned());
            }
        }
        self.changed.notify_all();
        Ok(())
    }
}

/// Another host's words, as a part of a line.
fn short(words: &str) -> String {
    harmless::blanked(&words.chars().take(LONGEST_LINE as usize).collect::<String>())
}

/// One end of a channel.
struct End {
    shared: Arc<Shared>,
    channel: u32,
}

impl Carrier for End {
    fn pid(&self) -> Option<u32> {
        None
    }

    fn ended(&mut self, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        let mut state = locked(&self.shared.state);
        loop {
            let ended = state.channels.get(&self.channel).and_then(|channel| channel.ended.clone());
            if let Some(how) = ended.or_else(|| state.over.clone()) {
                return Some(how);
            }
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn kill(&mut self) {
        let _ = self.shared.send(&Frame::Kill { channel: self.channel });
    }

    fn last_words(&self) -> Vec<String> {
        let state = locked(&self.shared.state);
        state.channels.get(&self.channel).map(|channel| channel.lines.iter().cloned().collect()).unwrap_or_default()
    }
}

/// What a program there writes.
struct Output {
    end: End,
    output: mpsc::Receiver<Vec<u8>>,
    rest: Vec<u8>,
    at: usize,
    /// Bytes that were read and not yet reported to the other side.
    read: usize,
}

impl Read for Output {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.rest.len() {
            let Ok(next) = self.output.recv() else { return Ok(0) };
            (self.rest, self.at) = (next, 0);
        }
        let piece = &self.rest[self.at..];
        let bytes = piece.len().min(into.len());
        into[..bytes].copy_from_slice(&piece[..bytes]);
        self.at += bytes;
        self.read += bytes;
        if self.read >= ROOM / 4 || self.at == self.rest.len() {
            self.tell();
        }
        Ok(bytes)
    }
}

impl Output {
    /// Tells the other side what has been read, or will not be.
    fn tell(&mut self) {
        let (channel, read) = (self.end.channel, std::mem::take(&mut self.read));
        if let Some(channel) = locked(&self.end.shared.state).channels.get_mut(&channel) {
            channel.unread -= read;
        }
        // Whoever cannot be reached has ended, and what it had written can still be read.
        let _ = self.end.shared.send(&Frame::Read { channel, bytes: read as u32 });
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(channel) = locked(&self.end.shared.state).channels.get_mut(&self.end.channel) {
            channel.output = None;
        }
        self.read += self.rest.len() - self.at + self.output.try_iter().map(|bytes| bytes.len()).sum::<usize>();
        self.tell();
    }
}

/// What a program there reads. Dropping it ends that.
struct Input(End);

impl Write for Input {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        self.0.shared.send(&Frame::Data { channel: self.0.channel, bytes: piece.to_vec() })?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        let _ = self.0.shared.send(&Frame::Close { channel: self.0.channel });
    }
}

/// The other side of the stream: a program that runs, as far as its orders concern it.
struct Program {
    input: Option<mpsc::Sender<Vec<u8>>>,
    room: Arc<Room>,
    pid: u32,
}

/// How many bytes of a channel may be sent.
#[derive(Default)]
struct Room {
    left: Mutex<usize>,
    more: Condvar,
}

impl Room {
    /// Waits until there is some, and takes no more than `most` of it.
    fn take(&self, most: usize) -> usize {
        let mut left = locked(&self.left);
        while *left == 0 {
            left = self.more.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        let taken = most.min(*left);
        *left -= taken;
        taken
    }

    fn add(&self, bytes: usize) {
        *locked(&self.left) += bytes;
        self.more.notify_all();
    }
}

/// On the other host: starts the programs that are asked for, until the stream ends. They are all
/// this program under one of its hidden verbs.
///
/// # Errors
/// If what comes is no order of this build.
pub fn serve(from: impl Read, to: impl Write + Send + 'static) -> Result<(), MessageError> {
    let to = Arc::new(Mutex::new(BufWriter::new(to)));
    let say = move |frame: &Frame| message::send(&mut *locked(&to), frame);
    say(&Frame::Hello)?;
    let (mut from, mut programs) = (BufReader::new(from), BTreeMap::<u32, Program>::new());
    loop {
        let frame = match message::receive(&mut from) {
            Ok(frame) => frame,
            Err(MessageError::Closed | MessageError::Broken(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        match frame {
            Frame::Open { channel, words } => match start(channel, &words, &say) {
                Ok(program) => drop(programs.insert(channel, program)),
                Err(error) => say(&Frame::Ended { channel, how: format!("before it was started: {error}") })?,
            },
            Frame::Data { channel, bytes } => {
                let _ = programs.get(&channel).and_then(|program| program.input.as_ref()).map(|to| to.send(bytes));
            }
            Frame::Close { channel } => drop(programs.get_mut(&channel).and_then(|program| program.input.take())),
            Frame::Read { channel, bytes } => {
                if let Some(program) = programs.get(&channel) {
                    program.room.add(bytes as usize);
                }
            }
            Frame::Kill { channel } => {
                if let Some(program) = programs.get(&channel) {
                    let _ = tardy_sys::process::signal(program.pid, Signal::KILL.as_raw());
                }
            }
            Frame::Hello | Frame::Said { .. } | Frame::Ended { .. } => {
                return Err(MessageError::Garbled("it answered, and was to order".to_owned()));
            }
        }
    }
}

fn start(
    channel: u32,
    words: &[String],
    say: &(impl Fn(&Frame) -> Result<(), MessageError> + Clone + Send + 'static),
) -> io::Result<Program> {
    let [program, rest @ ..] = words else { return Err(io::ErrorKind::InvalidInput.into()) };
    let file = if program == OURSELVES { identity::SELF } else { program };
    let mut command = std::process::Command::new(file);
    std::os::unix::process::CommandExt::arg0(&mut command, program);
    command.args(rest).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("no pipes"));
    };
    let room = Arc::new(Room { left: Mutex::new(ROOM), more: Condvar::new() });
    let (input, to_write) = mpsc::channel::<Vec<u8>>();
    let pid = child.id();
    std::thread::spawn(move || {
        let mut stdin = stdin;
        // One that does not read any more takes no more.
        while let Ok(bytes) = to_write.recv()
            && stdin.write_all(&bytes).is_ok()
        {}
    });
    let (lines, output) = (say.clone(), say.clone());
    let (reads, lines_over) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        pass_lines(channel, stderr, &lines);
        drop(reads);
    });
    let theirs = room.clone();
    let passed = std::thread::spawn(move || pass(channel, stdout, &theirs, &output));
    let ended = say.clone();
    std::thread::spawn(move || wait(channel, child, (passed, lines_over), &ended));
    Ok(Program { input: Some(input), room, pid })
}

/// What it wrote on its way out is there within this time after its end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What the program writes, piece by piece, as far as there is room.
fn pass(channel: u32, mut from: impl Read, room: &Room, say: &impl Fn(&Frame) -> Result<(), MessageError>) {
    let mut piece = [0; PIECE];
    loop {
        let most = room.take(PIECE);
        let bytes = from.read(&mut piece[..most]).unwrap_or(0);
        room.add(most - bytes);
        if bytes == 0 || say(&Frame::Data { channel, bytes: piece[..bytes].to_vec() }).is_err() {
            let _ = say(&Frame::Close { channel });
            return;
        }
    }
}

fn pass_lines(channel: u32, from: impl Read, say: &impl Fn(&Frame) -> Result<(), MessageError>) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        match from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let _ = say(&Frame::Said { channel, line });
    }
}

/// How it ended comes behind all that it wrote. Another process may have its stderr too, and live
/// on: that is not waited for.
fn wait(
    channel: u32,
    mut child: Child,
    (passed, lines_over): (std::thread::JoinHandle<()>, mpsc::Receiver<()>),
    say: &impl Fn(&Frame) -> Result<(), MessageError>,
) {
    let how = match child.wait() {
        Ok(status) => format!("with {status}"),
        Err(error) => format!("in a way that cannot be known: {error}"),
    };
    let _ = passed.join();
    let _ = lines_over.recv_timeout(LAST_WORDS);
    let _ = say(&Frame::Ended { channel, how });
}
