// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background load: each kind is a function in the file of its subject, and a line in [`open`]. A
//! load has its own thread at each side, which works from its start to its stop and leaves a
//! record; every loop ends with the stop flag or a time limit.

mod command;
mod machine;
mod tcp;
mod udp;
mod work;

pub use command::MARK;
pub use work::{LoadAt, LoadOrder, Watch, Work};

use crate::message::{ActivityId, ActivitySummary, FromAgent, MessageError};
use crate::worker;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tardy_model::load::{LoadKind, SideRecord};
use tardy_model::time::{Instant, Tai};

/// Makes a side ready: sockets, memory, programs found.
fn open(order: &LoadOrder) -> Result<Box<dyn Work>, String> {
    match &order.kind {
        LoadKind::TcpStream { size, rate } => tcp::tcp_stream(order, *size, *rate),
        LoadKind::TcpMaerts { size } => tcp::tcp_maerts(order, *size),
        LoadKind::TcpRr { size, reply_size } => tcp::tcp_rr(order, *size, *reply_size),
        LoadKind::UdpFlood { size, rate } => udp::udp_flood(order, *size, *rate),
        LoadKind::Camera { fps, frame_size, packet_size } => udp::camera(order, *fps, *frame_size, *packet_size),
        LoadKind::Sporadic { size, burst, gap } => tcp::sporadic(order, *size, *burst, *gap),
        LoadKind::Cpu { duty, period } => machine::cpu(*duty, *period),
        LoadKind::Memory { working_set } => machine::memory(*working_set),
        LoadKind::Command { command, peer_command } => command::open(order, command, peer_command),
    }
}

/// Bytes of a program's output in one message.
const PIECE: usize = 65_536;
/// A side that connects answers within this time: its own limit, and some more.
const CONNECTED: Duration = Duration::from_secs(8);

enum Command {
    Connect,
    Start(Instant<Tai>),
}

/// What a side leaves.
struct Left {
    record: SideRecord,
    output: Vec<u8>,
    work: Box<dyn Work>,
}

/// One side of an instance of a load, with its thread.
pub struct LoadSide {
    order: LoadOrder,
    stop: Arc<AtomicBool>,
    commands: mpsc::Sender<Command>,
    answers: mpsc::Receiver<Result<(), String>>,
    thread: Option<JoinHandle<Left>>,
    tid: u32,
    cpus_seen: Vec<u32>,
}

impl LoadSide {
    /// Makes it ready.
    ///
    /// # Errors
    /// Why that cannot be, with the load's name.
    pub fn open(order: LoadOrder) -> Result<LoadSide, String> {
        let failed = |why: String| format!("{}: {why}", order.what());
        let mut work = open(&order).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (commands, inbox) = mpsc::channel();
        let (up, ready) = mpsc::channel();
        let (tell, answers) = mpsc::channel();
        let (mine, theirs) = (order.clone(), stop.clone());
        let run = move || {
            let mut account = worker::set_up(&mine.thread);
            let _ = up.send(account.record().tid);
            let mut left = None;
            // Ends when the side is dropped: the channel closes.
            while let Ok(command) = inbox.recv() {
                match command {
                    Command::Connect => {
                        let _ = tell.send(work.connect(&theirs));
                    }
                    Command::Start(base) => {
                        account.begin();
                        left = Some(works(&mut *work, Watch::new(theirs.clone(), base, mine.start, mine.stop)));
                        break;
                    }
                }
            }
            let (mut record, output) = left.unwrap_or_default();
            record.thread = account.end();
            Left { record, output, work }
        };
        let name = format!("tardy-load{}.{}", order.at.load, order.at.instance);
        let thread = std::thread::Builder::new().stack_size(worker::STACK).name(name);
        let handle = thread.spawn(run).map_err(|error| failed(format!("its thread could not be started: {error}")))?;
        let tid = ready.recv().map_err(|_| failed("its thread broke before it was ready".into()))?;
        Ok(LoadSide { order, stop, commands, answers, thread: Some(handle), tid, cpus_seen: Vec::new() })
    }

    /// Orders it to connect. [`await_connection`](LoadSide::await_connection) waits for the result.
    pub fn connect(&self) {
        let _ = self.commands.send(Command::Connect);
    }

    /// Waits until it is connected.
    ///
    /// # Errors
    /// Why it is not, with the load's name.
    pub fn await_connection(&self) -> Result<(), String> {
        match self.answers.recv_timeout(CONNECTED) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err(format!("{}: {why}", self.order.what())),
            Err(_) => Err(format!("{}: its thread does not answer", self.order.what())),
        }
    }

    /// Gives it the base time; it starts by its own order. Where it ran until then means nothing
    /// for the trial.
    pub fn start(&mut self, base: Instant<Tai>) {
        self.cpus_seen.clear();
        let _ = self.commands.send(Command::Start(base));
    }

    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Looks where its thread runs.
    pub fn look(&mut self) {
        if let Some(cpu) = worker::last_cpu(self.tid)
            && !self.cpus_seen.contains(&cpu)
        {
            self.cpus_seen.push(cpu);
        }
    }

    /// Waits for it and hands over what it did. Gives what holds its sockets; `None` if its thread
    /// broke.
    pub fn collect(
        mut self,
        activity: ActivityId,
        mut tell: impl FnMut(FromAgent) -> Result<(), MessageError>,
    ) -> Result<Option<Box<dyn Work>>, MessageError> {
        let Some(Left { mut record, output, work }) = self.join() else {
            tell(FromAgent::Failed(format!("{}: its thread broke", self.order.what())))?;
            return Ok(None);
        };
        self.cpus_seen.iter().for_each(|cpu| worker::saw(&mut record.thread, *cpu));
        output.chunks(PIECE).try_for_each(|piece| tell(FromAgent::LoadOutput { activity, bytes: piece.to_vec() }))?;
        tell(FromAgent::Collected { activity, summary: Box::new(ActivitySummary::Load(record)) })?;
        Ok(Some(work))
    }

    fn join(&mut self) -> Option<Left> {
        self.stop.store(true, Relaxed);
        // A thread that still waits for its start ends with the channel.
        self.commands = mpsc::channel().0;
        self.thread.take()?.join().ok()
    }
}

impl Drop for LoadSide {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

fn works(work: &mut dyn Work, mut watch: Watch) -> (SideRecord, Vec<u8>) {
    if work.answers() || watch.sleep_until(watch.start()) {
        watch.begin();
        work.run(&mut watch);
        if watch.record.ended_ns == 0 {
            watch.note_end();
        }
    }
    (watch.record, watch.output)
}
