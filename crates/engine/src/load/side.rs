// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sides that a station has, each with its thread: made ready, connected, started, stopped, collected.

use super::{LoadAt, LoadOrder, Watch, Work, open};
use crate::message::{FromAgent, MessageError};
use crate::worker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tardy_model::load::SideRecord;
use tardy_model::time::{Instant, Tai};

/// Bytes of a program's output in one message.
const PIECE: usize = 65_536;
/// A side that connects answers within this time: its own limit, and some more.
const CONNECTED: Duration = Duration::from_secs(8);

enum Command {
    Connect,
    Start(Instant<Tai>),
}

/// What a side leaves behind.
struct Left {
    record: SideRecord,
    output: Vec<u8>,
    work: Box<dyn Work>,
}

struct Side {
    order: LoadOrder,
    stop: Arc<AtomicBool>,
    commands: mpsc::Sender<Command>,
    answers: mpsc::Receiver<Result<(), String>>,
    thread: Option<JoinHandle<Left>>,
    tid: u32,
    cpus_seen: Vec<u32>,
}

/// All sides of all loads on this station.
#[derive(Default)]
pub struct Loads {
    sides: Vec<Side>,
    /// Sockets of sides that are done. They stay open until the next trial: to one that was closed, the other side, which may
    /// hear of the end later, would run into a refusal.
    done: Vec<Box<dyn Work>>,
}

impl Loads {
    /// Makes them ready.
    pub fn open(orders: Vec<LoadOrder>) -> Result<Loads, String> {
        let mut loads = Loads::default();
        for order in orders {
            loads.sides.push(Side::open(order)?);
        }
        Ok(loads)
    }

    /// Connects them, all at once, for each waits for another one.
    pub fn connect(&self) -> Result<(), String> {
        for side in &self.sides {
            let _ = side.commands.send(Command::Connect);
        }
        let answer = |side: &Side| match side.answers.recv_timeout(CONNECTED) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err(format!("{}: {why}", side.order.what())),
            Err(_) => Err(format!("{}: its thread does not answer", side.order.what())),
        };
        self.sides.iter().try_for_each(answer)
    }

    /// Tells them the base time. Where they ran until then says nothing of the trial.
    pub fn start(&mut self, base: Instant<Tai>) {
        for side in &mut self.sides {
            side.cpus_seen.clear();
            let _ = side.commands.send(Command::Start(base));
        }
    }

    /// Ends them.
    pub fn stop(&self) {
        self.sides.iter().for_each(|side| side.stop.store(true, Relaxed));
    }

    /// Looks where their threads run.
    pub fn look(&mut self) {
        for side in &mut self.sides {
            if let Some(cpu) = worker::last_cpu(side.tid)
                && !side.cpus_seen.contains(&cpu)
            {
                side.cpus_seen.push(cpu);
            }
        }
    }

    /// Waits for them and hands over what they did.
    pub fn collect(&mut self, mut tell: impl FnMut(FromAgent) -> Result<(), MessageError>) -> Result<(), MessageError> {
        self.stop();
        for mut side in self.sides.drain(..) {
            let at: LoadAt = side.order.at;
            let Some(left) = side.join() else {
                tell(FromAgent::Failed(format!("{}: its thread broke", side.order.what())))?;
                continue;
            };
            let Left { mut record, output, work } = left;
            self.done.push(work);
            side.cpus_seen.iter().for_each(|cpu| worker::saw(&mut record.thread, *cpu));
            output.chunks(PIECE).try_for_each(|piece| tell(FromAgent::LoadOutput { at, bytes: piece.to_vec() }))?;
            tell(FromAgent::LoadSide { at, record: Box::new(record) })?;
        }
        tell(FromAgent::LoadsCollected)
    }
}

impl Drop for Loads {
    /// Tells all before it waits for the first.
    fn drop(&mut self) {
        self.stop();
    }
}

impl Side {
    fn open(order: LoadOrder) -> Result<Side, String> {
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
        Ok(Side { order, stop, commands, answers, thread: Some(handle), tid, cpus_seen: Vec::new() })
    }

    fn join(&mut self) -> Option<Left> {
        self.stop.store(true, Relaxed);
        // A thread that still waits for its start ends with the channel.
        self.commands = mpsc::channel().0;
        self.thread.take()?.join().ok()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

fn works(work: &mut dyn Work, mut watch: Watch) -> (SideRecord, Vec<u8>) {
    if work.answers() || watch.sleep_until(watch.start()) {
        watch.begin();
        work.run(&mut watch);
        if watch.record.ended_ns == 0 {
            watch.end();
        }
    }
    (watch.record, watch.output)
}
