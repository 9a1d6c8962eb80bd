// SPDX-License-Identifier: MIT OR Apache-2.0
//! One end of a stream on this station: its socket, its measuring thread, and the channel between
//! the two.

use crate::agent::link::{Command, EndRecord, Event, Link};
use crate::agent::threads::{self, BindEnd, BoundEnd};
use crate::live::Digest;
use crate::message::{AREA_PIECE, ActivityId, ActivitySummary, EndReady, EndSummary, FromAgent, MessageError, PIECE};
use crate::order::{EndOrder, ReceiveOrder, SendOrder, StreamOrder};
use crate::port::{Wake, XdpStamp};
use crate::receiver::{Arrival, Shared};
use crate::worker;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tardy_bpf::user::StampClock;
use tardy_bpf::xsk::XdpError;
use tardy_model::placement::ThreadRecord;
use tardy_model::point::{Metric, Point};
use tardy_model::stream::{Side, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_sys::{SysError, clock, nic, wait};

pub struct StreamEnd {
    activity: ActivityId,
    stream: StreamId,
    side: Side,
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    /// It begins to work when it is made ready, so what it used before the trial is to be taken
    /// off.
    works_before: bool,
    /// What ends its wait for a packet.
    wake: Wake,
    /// Its live figures are of the kernel's stamps.
    live_by_kernel: bool,
    /// What had moved at the last look.
    moved: (u64, u64),
    napi: Option<mpsc::Receiver<u32>>,
    napi_id: std::cell::Cell<u32>,
    thread: Option<Thread>,
    tid: u32,
    cpus_seen: Vec<u32>,
    /// What a receiving thread had used when the trial began: it runs since before the warm-up.
    began: Option<worker::Usage>,
    events: mpsc::Sender<Event>,
}

/// A measuring thread; it leaves nothing if it could not open its port.
type Thread = JoinHandle<Option<EndRecord>>;

/// A receiver's busy-poll answer comes within this time or not at all.
const SETTLE: Duration = Duration::from_secs(2);
/// A receiver whose sender is done goes on for at most this time.
const LONGEST_LINGER: Nanos = Nanos(10_000_000_000);

impl StreamEnd {
    /// Makes an end ready: sockets, memory, thread. One that only receives does so from now on.
    pub fn make(
        activity: ActivityId,
        order: EndOrder,
        bind: BindEnd,
        events: mpsc::Sender<Event>,
    ) -> Result<(StreamEnd, EndReady), String> {
        let (stream, side) = (order.stream(), order.side());
        let ways = order.ways();
        let (send, receive) = (ways.send().copied(), ways.receive().copied());
        let one_way = matches!(order, EndOrder::Send(_));
        let device = send.map(|send| &send.device).or(receive.map(|receive| &receive.device));
        let device = device.cloned().unwrap_or_default();
        let mut missing = send.map(|send| absent_tx(send, one_way)).unwrap_or_default();
        missing.extend(receive.map(|receive| absent_rx(receive, one_way)).unwrap_or_default());
        let busy = receive.is_some_and(|receive| receive.wait == Wait::Busypoll);
        let works_before = matches!(order, EndOrder::Receive(_) | EndOrder::Reflect(_));
        let name = match side {
            Side::Tx => "sender",
            Side::Rx => "receiver",
            Side::Reply => "receiver of replies",
        };
        let by_kernel = Some(Metric::Span(Point::Scheduled, Point::RxKernel));
        let live_by_kernel = matches!(&order, EndOrder::Receive(receive) if receive.order.lead == by_kernel);
        let BoundEnd { error_queue_bytes, wake, work } =
            bind(threads::with_hardware(order)).map_err(|error| socket_error(name, &device, &error))?;
        let shared = Arc::new(Shared::default());
        let (commands, inbox) = mpsc::channel();
        let (up, ready) = mpsc::channel();
        let (napi_told, napi) = mpsc::channel();
        let link = Link { activity, ready: up, inbox, tell: events.clone(), napi: napi_told, collected: false.into() };
        let theirs = shared.clone();
        let short = match side {
            Side::Tx => "tx",
            Side::Rx => "rx",
            Side::Reply => "re",
        };
        let (handle, record) = start(short, stream, move || work(&theirs, &link), &ready)?
            .map_err(|error| socket_error(name, &device, &error))?;
        let end = StreamEnd {
            activity,
            stream,
            side,
            shared,
            commands,
            works_before,
            wake,
            live_by_kernel,
            moved: (0, 0),
            napi: busy.then_some(napi),
            napi_id: 0.into(),
            thread: Some(handle),
            tid: record.tid,
            cpus_seen: Vec::new(),
            began: None,
            events,
        };
        Ok((end, EndReady { activity, thread: record, absent: missing, error_queue_bytes }))
    }

    /// Orders warm-up packets; the thread answers by itself.
    pub fn warm_up(&mut self, count: u32, apart: Nanos) {
        let _ = self.commands.send(Command::WarmUp { count, apart });
    }

    /// What has come of the warm-up.
    pub fn warm_status(&self) -> FromAgent {
        if let Some(napi) = &self.napi
            && self.napi_id.get() == 0
            && let Ok(id) = napi.recv_timeout(SETTLE)
        {
            self.napi_id.set(id);
        }
        FromAgent::WarmStatus {
            activity: self.activity,
            answered: self.shared.warm_answered.load(Relaxed),
            answers_stamped: self.shared.warm_answers_stamped.load(Relaxed),
            received: self.shared.warm.load(Relaxed),
            unstamped: self.shared.warm_unstamped.load(Relaxed),
            last_stamped: self.shared.warm_last_stamped.load(Relaxed),
            napi_id: self.napi_id.get(),
            program_cpus: self.shared.warm_program.seen(),
        }
    }

    /// The base time is known.
    pub fn start(&mut self, base: Instant<Tai>) {
        // Looks while it was made ready and warmed up are not the trial's.
        self.cpus_seen.clear();
        self.began = Some(*self.shared.began.get_or_init(|| worker::usage(self.tid)));
        self.shared.base_ns.store(base.ns(), Relaxed);
        if self.live_by_kernel {
            let realtime = base.ns() - i64::from(clock::tai_offset_s()) * 1_000_000_000;
            self.shared.base_realtime_ns.store(realtime, Relaxed);
        }
        let _ = self.commands.send(Command::Start(base));
    }

    pub fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
        match &self.wake {
            Wake::ByItself => {}
            Wake::By(wake) => wake(),
            Wake::Poke | Wake::PokeToEnd => wait::poke(self.tid),
        }
    }

    /// Ends the thread, also one that waits for the start, and waits for nothing.
    pub fn let_go(&mut self) {
        self.stop();
        // Without its sender the command channel ends a sending thread that waits for the start.
        self.commands = mpsc::channel().0;
    }

    /// Waits for the thread, which was ordered to stop; `None` if it broke.
    fn join(&mut self) -> Option<EndRecord> {
        let thread = self.thread.take()?;
        // A poke that comes before the call that it is to end is lost.
        while matches!(self.wake, Wake::Poke | Wake::PokeToEnd) && !thread.is_finished() {
            wait::poke(self.tid);
            std::thread::sleep(Duration::from_millis(1));
        }
        thread.join().ok().flatten()
    }

    /// Lets a receiver finish: a watcher stops it when all has come or the time is up, and reports
    /// that.
    pub fn finish(&mut self, expected: u64, linger: Nanos) {
        let (shared, events, activity) = (self.shared.clone(), self.events.clone(), self.activity);
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
            let done = FromAgent::Done { activity, packets: shared.live.done() };
            let _ = events.send(Event::Tell(Box::new(done)));
        });
    }

    /// Notes the CPU that the thread ran on last. One that has not run since the trial began was
    /// seen where it had been before.
    fn see(&mut self) {
        if self.began.is_some_and(|began| !worker::has_run_since(self.tid, began)) {
            return;
        }
        if let Some(cpu) = worker::last_cpu(self.tid)
            && !self.cpus_seen.contains(&cpu)
        {
            self.cpus_seen.push(cpu);
        }
    }

    /// Looks at the thread and its figures; `None` before the trial.
    pub fn look(&mut self) -> Option<Digest> {
        self.see();
        let digest = self.shared.live.digest();
        let moved = (digest.done, digest.turns);
        if matches!(self.wake, Wake::Poke) && moved == self.moved {
            wait::poke(self.tid);
        }
        self.moved = moved;
        self.began.map(|_| digest)
    }

    /// Stops the thread and hands its half over in pieces.
    pub fn collect(mut self, mut tell: impl FnMut(FromAgent) -> Result<(), MessageError>) -> Result<(), MessageError> {
        let ended = worker::usage(self.tid);
        self.see();
        let _ = self.commands.send(Command::Collect);
        self.stop();
        let half = self.join();
        let seen = std::mem::take(&mut self.cpus_seen);
        let activity = self.activity;
        let Some(half) = half else {
            return tell(FromAgent::Failed(format!("the {:?} thread of stream {} broke", self.side, self.stream)));
        };
        if let Some((sent, _)) = &half.sent {
            sent.pieces(PIECE).try_for_each(|piece| tell(FromAgent::SenderPiece { activity, rows: piece }))?;
        }
        if let Some((arrivals, _)) = &half.arrived {
            let mut pieces = arrivals.chunks(PIECE).map(<[Arrival]>::to_vec);
            pieces.try_for_each(|arrivals| tell(FromAgent::ArrivalPiece { activity, arrivals }))?;
        }
        if let Some((stamps, _)) = &half.xdp {
            let mut pieces = stamps.chunks(PIECE).map(<[XdpStamp]>::to_vec);
            pieces.try_for_each(|stamps| tell(FromAgent::XdpPiece { activity, stamps }))?;
        }
        let mut areas = half.areas.chunks(AREA_PIECE).map(<[u8]>::to_vec);
        areas.try_for_each(|areas| tell(FromAgent::AreaPiece { activity, areas }))?;
        let mut thread = half.thread;
        if self.works_before && self.began.is_some() && !seen.is_empty() {
            // What it noted itself begins where it was made ready.
            thread.cpus_seen.clear();
        }
        seen.iter().for_each(|cpu| worker::saw(&mut thread, *cpu));
        // A thread that works before the trial is read from here. Over TCP it ends when its peer
        // does: then its own notes count, from the same reading on.
        if let Some(began) = self.began.filter(|_| self.works_before && ended.is_known()) {
            worker::used(&mut thread, began, ended);
        }
        let summary = EndSummary {
            sent: half.sent.map(|(_, counters)| counters),
            arrived: half.arrived.map(|(_, counters)| counters),
            gaps: half.gaps,
            thread,
            clocks: clock::read_clocks(),
            tcp: half.tcp,
            own: half.own,
            xdp: half.xdp.map(|(_, record)| record),
            xdp_sent: half.xdp_sent,
        };
        tell(FromAgent::Collected { activity, summary: Box::new(ActivitySummary::End(summary)) })
    }
}

impl Drop for StreamEnd {
    fn drop(&mut self) {
        self.let_go();
        self.join();
    }
}

fn start(
    side: &str,
    stream: StreamId,
    run: impl FnOnce() -> Option<EndRecord> + Send + 'static,
    ready: &mpsc::Receiver<Result<ThreadRecord, SysError>>,
) -> Result<Result<(Thread, ThreadRecord), SysError>, String> {
    let name = format!("tardy-{side}{stream}");
    let thread = std::thread::Builder::new().stack_size(worker::STACK).name(name.clone());
    let handle = thread.spawn(run).map_err(|error| format!("thread {name} could not be started: {error}"))?;
    let ready = ready.recv().map_err(|_| format!("thread {name} broke before it was ready"))?;
    Ok(ready.map(|record| (handle, record)))
}

fn socket_error(end: &str, device: &str, error: &SysError) -> String {
    let advice = match nic::ts_info(device) {
        Err(gone) if gone.errno() == libc::ENODEV => {
            format!("{device} is gone: something outside tardy removed it; run again")
        }
        // It says by itself what to do.
        _ if says_what_to_do(error) => return format!("the {end}'s socket: {error}"),
        _ => advice(error.errno()).to_owned(),
    };
    format!("the {end}'s socket: {error}: {advice}")
}

/// True of an error that is no errno of the kernel's alone.
fn says_what_to_do(error: &SysError) -> bool {
    error.source.get_ref().is_some_and(|source| source.is::<XdpError>())
}

/// Why a device's stamps are not read of a stream that is answered.
const ONE_WAY: &str = "a device's stamps are read of one-way streams only";

/// What a device lacks.
fn lacks(device: &str, info: &Result<nic::TsInfo, SysError>, what: &str) -> String {
    match info {
        Ok(info) => format!("{device} offers no {what} (its abilities: {:#x}, PTP clock {})", info.flags, info.phc),
        Err(error) => format!("what {device} can stamp is unknown: {error}"),
    }
}

/// Those points of a table that were asked for and that nothing here can stamp, with the reason.
fn absent(order: &StreamOrder, points: &[(Point, bool, String)]) -> Vec<(Point, String)> {
    points.iter().filter(|(point, had, _)| order.wants(*point) && !had).map(|(p, _, why)| (*p, why.clone())).collect()
}

fn absent_tx(send: &SendOrder, one_way: bool) -> Vec<(Point, String)> {
    let info = nic::ts_info(&send.device);
    let offers = |can: fn(&nic::TsInfo) -> bool| info.as_ref().is_ok_and(can);
    let none = |what| lacks(&send.device, &info, what);
    let [_, sched, driver] = send.points();
    let mut points = vec![(driver, offers(nic::TsInfo::tx_software), none("software tx stamp"))];
    let port = send.order.port;
    if !port.traits().passes_qdisc {
        let why =
            format!("port {} passes no queue discipline, and the kernel stamps nothing that it sends", port.name());
        points = [sched, driver].map(|point| (point, false, why.clone())).to_vec();
    }
    if !send.replies {
        let clock = match (one_way, offers(nic::TsInfo::tx_hardware)) {
            (true, _) if send.order.wants(Point::TxHw) => threads::sending_clock(send).map(|_| ()),
            (_, true) => Err(ONE_WAY.to_owned()),
            (_, false) => Err(none("hardware tx stamp")),
        };
        points.push((Point::TxHw, clock.is_ok(), clock.err().unwrap_or_default()));
    }
    absent(&send.order, &points)
}

fn absent_rx(receive: &ReceiveOrder, one_way: bool) -> Vec<(Point, String)> {
    let ReceiveOrder { order, replies, device, object, .. } = receive;
    if *replies {
        return Vec::new();
    }
    let clock = match (one_way, order.wants(Point::RxHw)) {
        (true, true) => threads::receiving_clock(receive).map(drop),
        (false, true) if nic::ts_info(device).is_ok_and(|info| info.rx_all()) => Err(ONE_WAY.to_owned()),
        (_, true) => Err(lacks(device, &nic::ts_info(device), "hardware rx stamp")),
        (_, false) => Ok(()),
    };
    let (port, passes_xdp) = (order.port.name(), order.port.passes_xdp());
    // Where only some structs lack a time, the others' packets have it.
    let object = object.as_ref().and_then(|object| object.read().ok());
    let untimed = object.filter(|object| object.clock() == StampClock::Unknown);
    let untimed = untimed.and_then(|object| object.without_time().map(str::to_owned));
    let points = [
        (Point::RxHw, clock.is_ok(), clock.err().unwrap_or_default()),
        (Point::RxXdp, passes_xdp && untimed.is_none(), untimed.unwrap_or(format!("port {port} has no XDP program"))),
        (Point::RxKernel, !passes_xdp, format!("port {port} takes packets before the kernel's stack stamps them")),
    ];
    absent(order, &points)
}

/// What to do next after this errno.
pub fn advice(errno: i32) -> &'static str {
    match errno {
        libc::EADDRINUSE => "is another program using the address or the port in this namespace?",
        libc::EADDRNOTAVAIL => {
            "the address is not in this namespace any more: something outside tardy removed it; run again"
        }
        libc::EPERM | libc::EACCES => {
            "this process lacks rights that it needs (CAP_NET_RAW for port packet): run tardy as root, and give a container them"
        }
        libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT => {
            "this kernel does not have it, or it is switched off: take another port, or ip = \"ipv4\""
        }
        libc::ENOBUFS | libc::ENOMEM => "the kernel has no memory for it: ask for fewer streams or shorter trials",
        libc::EMFILE | libc::ENFILE => {
            "too many files are open: raise the limit (`ulimit -n`), or ask for fewer streams and loads"
        }
        libc::EINVAL | libc::ENOPROTOOPT | libc::EOPNOTSUPP => {
            "this kernel does not know what was asked of the socket: try it on a newer one (--in guest)"
        }
        _ => "run it again; if it fails again, report it with this message: tardy does not know this reason",
    }
}
