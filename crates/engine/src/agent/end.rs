// SPDX-License-Identifier: MIT OR Apache-2.0
//! One end of a stream on this station: its socket, its measuring thread, and the channel between the two.

use crate::live::Digest;
use crate::message::{EndReady, FromAgent, MessageError, PIECE, Side, ToAgent};
use crate::order::{ReceiveOrder, SendOrder, StreamOrder};
use crate::port::udp::{MachineTimer, UdpReceive, UdpSend};
use crate::receiver::{Arrival, Receiver, ReceiverCounters, Shared};
use crate::sender::{Sender, SenderCounters, SenderHalf};
use crate::worker::{self, Account};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tardy_model::machine::ThreadRecord;
use tardy_model::point::Point;
use tardy_model::stream::Wait;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::trial::SpinGaps;
use tardy_sys::udp::Waker;
use tardy_sys::{SysError, clock, nic};

/// What reaches the agent's control thread.
pub enum Event {
    /// From the coordinator.
    Order(Box<ToAgent>),
    /// The coordinator is gone.
    Gone(MessageError),
    /// From a measuring thread, to be passed on.
    Tell(Box<FromAgent>),
}

enum Command {
    WarmUp { count: u32, apart: Nanos },
    Start(Instant<Tai>),
}

/// What a measuring thread leaves behind.
enum Half {
    Sent(SenderHalf, SenderCounters, Option<SpinGaps>, ThreadRecord),
    Arrived(Vec<Arrival>, ReceiverCounters, Option<SpinGaps>, ThreadRecord),
}

/// One end.
pub struct End {
    stream: u8,
    side: Side,
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    waker: Option<Waker>,
    napi: Option<mpsc::Receiver<u32>>,
    napi_id: std::cell::Cell<u32>,
    thread: Option<JoinHandle<Half>>,
    tid: u32,
    cpus_seen: Vec<u32>,
    /// What a receiving thread had used when the trial began: it runs since before the warm-up.
    began: Option<worker::Usage>,
    events: mpsc::Sender<Event>,
}

/// A receiver's busy-poll answer comes within this time or not at all.
const SETTLE: Duration = Duration::from_secs(2);
/// A receiver whose sender is done goes on for so long at most.
const LONGEST_LINGER: Nanos = Nanos(10_000_000_000);

impl End {
    fn of(
        stream: u8,
        side: Side,
        shared: Arc<Shared>,
        commands: mpsc::Sender<Command>,
        (thread, tid): (JoinHandle<Half>, u32),
        events: mpsc::Sender<Event>,
    ) -> End {
        End {
            stream,
            side,
            shared,
            commands,
            waker: None,
            napi: None,
            napi_id: 0.into(),
            thread: Some(thread),
            tid,
            cpus_seen: Vec::new(),
            began: None,
            events,
        }
    }

    /// A sending end: socket, memory, thread.
    pub fn send(order: SendOrder, events: mpsc::Sender<Event>) -> Result<(End, EndReady), String> {
        let stream = order.order.stream;
        let absent = absent(&order.order, &order.device, Side::Tx);
        let thread_order = order.thread.clone();
        let port = UdpSend::open(&order).map_err(|error| socket_error("sender", &order.device, &error))?;
        let error_queue_bytes = port.error_queue_bytes();
        let shared = Arc::new(Shared::default());
        let (commands, inbox) = mpsc::channel();
        let (up, ready) = mpsc::channel();
        let (theirs, tell) = (shared.clone(), events.clone());
        let run = move || {
            let account = worker::set_up(&thread_order);
            let sender = Sender::new(order);
            let _ = up.send(account.record().clone());
            send_thread(account, sender, port, &inbox, &theirs, &tell)
        };
        let (handle, record) = start("tx", stream, run, &ready)?;
        let end = End::of(stream, Side::Tx, shared, commands, (handle, record.tid), events);
        Ok((end, EndReady { stream, side: Side::Tx, thread: record, absent, error_queue_bytes }))
    }

    /// A receiving end: socket, memory, thread; it receives from now on.
    pub fn receive(order: ReceiveOrder, events: mpsc::Sender<Event>) -> Result<(End, EndReady), String> {
        let stream = order.order.stream;
        let absent = absent(&order.order, &order.device, Side::Rx);
        let (thread_order, busy) = (order.thread.clone(), order.wait == Wait::Busypoll);
        let device = order.device.clone();
        let mut port = UdpReceive::open(&order).map_err(|error| socket_error("receiver", &device, &error))?;
        let waker = port.waker().map_err(|error| socket_error("receiver", &device, &error))?;
        let shared = Arc::new(Shared::default());
        let (commands, _) = mpsc::channel();
        let (up, ready) = mpsc::channel();
        let (napi_told, napi) = mpsc::channel();
        let theirs = shared.clone();
        let run = move || {
            let account = worker::set_up(&thread_order);
            let mut receiver = Receiver::new(order);
            let _ = up.send(account.record().clone());
            if busy {
                // The NAPI id is known once a packet has come; the loop proper starts behind it.
                receiver.run_until_warm(&mut MachineTimer, &mut port, &theirs);
                let _ = napi_told.send(port.napi_id());
            }
            receiver.run(&mut MachineTimer, &mut port, &theirs);
            let record = account.end();
            let (counters, gaps) = (receiver.counters, receiver.gaps);
            Half::Arrived(receiver.finish(), counters, gaps, record)
        };
        let (handle, record) = start("rx", stream, run, &ready)?;
        let mut end = End::of(stream, Side::Rx, shared, commands, (handle, record.tid), events);
        end.waker = Some(waker);
        end.napi = busy.then_some(napi);
        Ok((end, EndReady { stream, side: Side::Rx, thread: record, absent, error_queue_bytes: 0 }))
    }

    /// Orders warm-up packets; the thread answers by itself.
    pub fn warm_up(&mut self, count: u32, apart: Nanos) {
        let _ = self.commands.send(Command::WarmUp { count, apart });
    }

    /// What has come of the warm-up.
    pub fn warm_status(&self, stream: u8) -> FromAgent {
        if let Some(napi) = &self.napi
            && self.napi_id.get() == 0
            && let Ok(id) = napi.recv_timeout(SETTLE)
        {
            self.napi_id.set(id);
        }
        FromAgent::WarmStatus {
            stream,
            received: self.shared.warm.load(Relaxed),
            unstamped: self.shared.warm_unstamped.load(Relaxed),
            last_stamped: self.shared.warm_last_stamped.load(Relaxed),
            napi_id: self.napi_id.get(),
        }
    }

    /// The base time is known.
    pub fn start(&mut self, base: Instant<Tai>) {
        self.began = Some(worker::usage(self.tid));
        self.shared.base_ns.store(base.ns(), Relaxed);
        let _ = self.commands.send(Command::Start(base));
    }

    /// Ends the loop.
    pub fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    /// Lets a receiver finish: a watcher stops it when all has come or the time is up, and tells.
    pub fn finish(&mut self, expected: u64, linger: Nanos) {
        let (shared, events, stream) = (self.shared.clone(), self.events.clone(), self.stream);
        std::thread::spawn(move || {
            let latest = worker::elapsed_ns() + LONGEST_LINGER.0;
            let (mut until, mut done) = (worker::elapsed_ns() + linger.0, 0);
            while shared.live.done() < expected && worker::elapsed_ns() < until.min(latest) {
                std::thread::sleep(Duration::from_millis(1));
                // While packets still come, more may.
                if shared.live.done() != done {
                    done = shared.live.done();
                    until = worker::elapsed_ns() + linger.0;
                }
            }
            // Late duplicates of the last packets get a moment.
            std::thread::sleep(Duration::from_millis(2));
            let told = FromAgent::Done { stream, side: Side::Rx, packets: shared.live.done() };
            let _ = events.send(Event::Tell(Box::new(told)));
        });
    }

    /// Looks at the thread and its figures; `None` before the trial.
    pub fn look(&mut self) -> Option<Digest> {
        if let Some(cpu) = worker::last_cpu(self.tid)
            && !self.cpus_seen.contains(&cpu)
        {
            self.cpus_seen.push(cpu);
        }
        self.began.map(|_| self.shared.live.digest())
    }

    /// Stops the thread and hands its half over in pieces.
    pub fn collect(mut self, mut tell: impl FnMut(FromAgent) -> Result<(), MessageError>) -> Result<(), MessageError> {
        let ended = worker::usage(self.tid);
        self.stop();
        let half = self.thread.take().and_then(|thread| thread.join().ok());
        let seen = std::mem::take(&mut self.cpus_seen);
        let all_seen = |mut thread: ThreadRecord| {
            seen.iter().for_each(|cpu| worker::saw(&mut thread, *cpu));
            thread
        };
        match half {
            None => tell(FromAgent::Failed(format!("the {:?} thread of stream {} broke", self.side, self.stream))),
            Some(Half::Sent(half, counters, gaps, thread)) => {
                half.pieces(PIECE).try_for_each(|piece| tell(FromAgent::SenderPiece(piece)))?;
                tell(FromAgent::Sent { counters, gaps, thread: all_seen(thread), clocks: clock::read_clocks() })
            }
            Some(Half::Arrived(arrivals, counters, gaps, thread)) => {
                arrivals.chunks(PIECE).try_for_each(|piece| tell(FromAgent::ArrivalPiece(piece.to_vec())))?;
                let mut thread = all_seen(thread);
                if let Some(began) = self.began {
                    worker::used(&mut thread, began, ended);
                }
                tell(FromAgent::Arrived { counters, gaps, thread, clocks: clock::read_clocks() })
            }
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.stop();
        // Without its sender the command channel ends a sending thread that waits for the start.
        self.commands = mpsc::channel().0;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn start(
    side: &str,
    stream: u8,
    run: impl FnOnce() -> Half + Send + 'static,
    ready: &mpsc::Receiver<ThreadRecord>,
) -> Result<(JoinHandle<Half>, ThreadRecord), String> {
    let name = format!("tardy-{side}{stream}");
    let thread = std::thread::Builder::new().stack_size(worker::STACK).name(name.clone());
    let handle = thread.spawn(run).map_err(|error| format!("thread {name} could not be started: {error}"))?;
    let record = ready.recv().map_err(|_| format!("thread {name} broke before it was ready"))?;
    Ok((handle, record))
}

fn send_thread(
    mut account: Account,
    mut sender: Sender,
    mut port: UdpSend,
    inbox: &mpsc::Receiver<Command>,
    shared: &Shared,
    tell: &mpsc::Sender<Event>,
) -> Half {
    let mut timer = MachineTimer;
    let stream = sender.stream();
    // Ends when the end is dropped: the channel closes.
    while let Ok(command) = inbox.recv() {
        match command {
            Command::WarmUp { count, apart } => {
                let stamped = sender.warm_up(&mut timer, &mut port, count, apart);
                let _ = tell.send(Event::Tell(Box::new(FromAgent::Warmed { stream, stamped })));
            }
            Command::Start(base) => {
                account.begin();
                sender.run(&mut timer, &mut port, base, &shared.stop, &shared.live);
                let done = FromAgent::Done { stream, side: Side::Tx, packets: sender.counters.sent };
                let _ = tell.send(Event::Tell(Box::new(done)));
                break;
            }
        }
    }
    let record = account.end();
    let (counters, gaps) = (sender.counters, sender.gaps);
    Half::Sent(sender.finish(), counters, gaps, record)
}

fn socket_error(end: &str, device: &str, error: &SysError) -> String {
    let mend = match nic::ts_info(device) {
        Err(gone) if gone.errno() == libc::ENODEV => {
            format!("{device} is gone: something outside tardy removed it; run again")
        }
        _ => "is another program using the address or the port in this namespace?".to_owned(),
    };
    format!("the {end}'s socket: {error}: {mend}")
}

/// Points of this end that were asked for and that nothing here can stamp.
fn absent(order: &StreamOrder, device: &str, side: Side) -> Vec<(Point, String)> {
    let info = nic::ts_info(device);
    let offers = |can: fn(&nic::TsInfo) -> bool| info.as_ref().is_ok_and(can);
    let none = |what: &str| match &info {
        Ok(info) => format!("{device} offers no {what} (its abilities: {:#x}, PTP clock {})", info.flags, info.phc),
        Err(error) => format!("what {device} can stamp is unknown: {error}"),
    };
    let unread = "the NIC's clock is not yet converted to TAI here".to_owned();
    let points: &[(Point, bool, String)] = &match side {
        Side::Tx => vec![
            (Point::TxKernel, offers(nic::TsInfo::tx_software), none("software tx stamp")),
            (Point::TxHw, false, if offers(nic::TsInfo::tx_hardware) { unread } else { none("hardware tx stamp") }),
        ],
        Side::Rx => vec![
            (Point::RxHw, false, if offers(nic::TsInfo::rx_hardware) { unread } else { none("hardware rx stamp") }),
            (Point::RxXdp, false, "port udp has no XDP program".into()),
        ],
    };
    points.iter().filter(|(point, had, _)| order.wants(*point) && !had).map(|(p, _, why)| (*p, why.clone())).collect()
}
