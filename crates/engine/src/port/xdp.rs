// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `xdp`: frames of port `packet`, through AF_XDP sockets. Here is the receiving half. tardy's
//! XDP program stamps each test frame and redirects it to the socket of its queue, before the
//! kernel's stack sees it. All other traffic of the device goes on to the kernel.
//!
//! The program, its link, the memory and the sockets are made on the control thread. The measuring
//! thread gets all of it and reads the rings itself.
//!
//! One end has one half: both at one device would need one memory for its queues.
//!
//! A user's own program may take the place of tardy's, and tardy's may ask the device what it knows
//! of each packet. What these write before packets is lent as it is, and decoded when the rows are
//! collected.

pub mod send;

use crate::order::{EndOrder, ReceiveOrder, StreamOrder, Ways};
use crate::port::{BATCH, Bound, Lent, PortKind, ReceivePort, Received, Wake, XdpStamp, unsupported};
use crate::triggered::{Bulks, Next};
use send::XdpSend;
use std::cell::Cell;
use std::io;
use std::time::Duration;
use tardy_bpf::program::{Chosen, Filter};
use tardy_bpf::user::{StampClock, UserObject};
use tardy_bpf::xsk::{AnyWaiter, Asked, Opened, Rings, WaitBy};
use tardy_model::ethernet::{self, Tags};
use tardy_model::frame::Heads;
use tardy_model::sample::MaybeNanos;
use tardy_model::stream::Wait;
use tardy_model::time::{Instant, Nanos, Realtime};
use tardy_model::xdp::{CoreRecord, HintTimes, XdpClock, XdpRecord, XdpSeen};
use tardy_sys::wait::LIMIT_MS;
use tardy_sys::{SysError, clock, nic};

/// Port `xdp`. A receiver's wait is ended by a poke.
pub struct Xdp;

impl PortKind for Xdp {
    type Bound = Ways<XdpSend, XdpReceive>;
    type Opened = Self::Bound;
    type To = XdpSend;
    type From = XdpReceive;

    fn bind(order: &EndOrder) -> Result<Bound<Self::Bound>, SysError> {
        let port = match order {
            EndOrder::Receive(receive) if !receive.replies => Ways::Receive(XdpReceive::open(receive)?),
            EndOrder::Send(send) if !send.order.kind.is_answered() => Ways::Send(XdpSend::open(send)?),
            _ => return Err(unsupported("port xdp has one-way streams only")),
        };
        let error_queue_bytes = port.send().map_or(0, XdpSend::room_bytes);
        let wake = if matches!(port, Ways::Send(_)) { Wake::ByItself } else { Wake::poke_to_end() };
        Ok(Bound { port, error_queue_bytes, wake })
    }

    fn open(bound: Self::Bound) -> Result<Self::Opened, SysError> {
        Ok(bound)
    }

    fn connect(
        opened: Self::Opened,
        _: impl Fn() -> bool,
    ) -> Result<(Option<Ways<XdpSend, XdpReceive>>, u64), SysError> {
        Ok((Some(opened), 0))
    }
}

/// How long one call polls the device under `busypoll`, µs, and the most packets that it takes.
const BUSY_POLL_US: i32 = 200;
const BUSY_POLL_BUDGET: i32 = 64;
/// A loop that never sleeps looks whether the device is still there after this many looks in vain.
const LOOKS: u32 = 1 << 16;

/// What is done when no packet waits.
enum Idle {
    Sleep(AnyWaiter),
    /// Nothing but to wake drivers that ask for it.
    Spin,
    PollDevice,
    /// Sleep until a bulk should have come.
    Bulks(Box<ByBulks>),
}

/// How long it sleeps at most before it looks at its orders.
const LOOK: Nanos = Nanos::from_millis(LIMIT_MS as i64);

/// A wait by the schedule of the packets.
struct ByBulks {
    bulks: Bulks,
    /// Of the synchronisation frames.
    marks: Heads,
    /// How it waits while it does not know the schedule.
    poll: AnyWaiter,
    /// Packets of the last call, into which it looks in the next one: between a packet and the
    /// clock's reading lies no work of its own.
    latest: usize,
}

impl ByBulks {
    /// Waits for the next bulk, or for a packet, and takes what has come. A wait that ended
    /// without any is `None`.
    fn receive(&mut self, lent: &mut LentFrames) -> Option<usize> {
        let latest = std::mem::take(&mut self.latest);
        self.look_for_marks(lent, latest);
        lent.rings.take_back();
        // Drivers that sleep are to go on while it does.
        lent.rings.wake();
        let packets = match self.bulks.next(clock::now()) {
            Next::Poll => {
                let packets = if self.poll.wait(LIMIT_MS) { lent.rings.take(BATCH) } else { return None };
                self.bulks.polled(packets);
                packets
            }
            Next::Sleep(left) => {
                std::thread::sleep(Duration::from_nanos(left.min(LOOK).0.max(0) as u64));
                if left > LOOK {
                    return None;
                }
                self.fetch(lent)
            }
            Next::Fetch => self.fetch(lent),
        };
        self.latest = packets;
        Some(packets)
    }

    fn fetch(&mut self, lent: &mut LentFrames) -> usize {
        let packets = lent.rings.take(BATCH);
        self.bulks.fetched(packets, packets == BATCH);
        packets
    }

    /// What synchronisation frames say, if the stream's sender sent them.
    fn look_for_marks(&mut self, lent: &LentFrames, packets: usize) {
        for n in 0..packets {
            let Some(stamp) = lent.rings.stamp(n).filter(|stamp| stamp.mark.is_some()) else { continue };
            let number = self.marks.number(lent.packet(n).0);
            if let Some(seq) = number.filter(|_| number == stamp.mark) {
                let at = (stamp.time_ns as i64).wrapping_add(lent.ahead_ns);
                self.bulks.mark(seq, Instant::from_ns(at));
            }
        }
    }
}

/// The sockets of a device with their way to wait.
pub struct XdpReceive {
    idle: Idle,
    looks: u32,
    lent: LentFrames,
    record: XdpRecord,
}

/// The frames of the last receive call. They stay where the kernel put them, and nobody has looked
/// into them when the call returns: the clock is read meanwhile.
pub struct LentFrames {
    rings: Rings,
    ethertype: u16,
    /// The tags of each frame, once its payload was asked for.
    tags: [Cell<Tags>; BATCH],
    /// What the program's clock must be put forward by to be TAI, ns.
    ahead_ns: i64,
    /// What the program writes is kept: it is a user's own, or it asks the device.
    is_kept: bool,
}

impl XdpReceive {
    /// Loads and attaches the program, and binds the sockets, for the order.
    ///
    /// # Errors
    /// As [`Rings::open`], inside the kernel's reason.
    pub fn open(order: &ReceiveOrder) -> Result<Self, SysError> {
        let StreamOrder { stream, nonce, ethertype, .. } = order.order;
        let failed = |call| move |source| SysError { call, on: order.device.clone(), source };
        let object = order.object.as_ref().map(|object| object.read()).transpose();
        let object = object.map_err(|why| unsupported(&format!("the XDP object cannot be loaded: {why}")))?;
        let filter = Filter { ethertype, stream: stream.number(), nonce };
        let own = if order.hints.is_empty() { Chosen::Own(filter) } else { Chosen::Asking(filter, &order.hints) };
        let program = object.as_ref().map_or(own, Chosen::User);
        let asked = Asked { device: &order.device, queue: order.queue, frames: order.frames, program };
        let (rings, opened) = Rings::open(&asked).map_err(io::Error::other).map_err(failed("opening port xdp"))?;
        let sleeps = |by| rings.waiter(by).map(Idle::Sleep).map_err(failed("waiting for AF_XDP sockets"));
        let idle = match order.wait {
            Wait::Spin => Idle::Spin,
            Wait::Poll => sleeps(WaitBy::Poll)?,
            Wait::Select => sleeps(WaitBy::Select)?,
            Wait::Epoll => sleeps(WaitBy::Epoll)?,
            Wait::Busypoll => {
                let polls = rings.prefer_busy_poll(BUSY_POLL_US, BUSY_POLL_BUDGET);
                polls.map_err(failed("SO_PREFER_BUSY_POLL"))?;
                Idle::PollDevice
            }
            Wait::Scheduled => {
                let marks = order.order.marks();
                let marks = marks.ok_or_else(|| unsupported("without synchronisation frames there is no schedule"))?;
                let poll = rings.waiter(WaitBy::Poll).map_err(failed("waiting for AF_XDP sockets"))?;
                let StreamOrder { triggered, cycle, count, .. } = order.order;
                Idle::Bulks(Box::new(ByBulks { bulks: Bulks::new(triggered, cycle, count), marks, poll, latest: 0 }))
            }
            Wait::Block => {
                return Err(unsupported("an AF_XDP socket has no receive call that sleeps: take wait = \"poll\""));
            }
        };
        let is_kept = object.is_some() || opened.asks_device;
        let times = object.as_ref().map(times_of);
        let (record, ahead_ns) = record_of(opened, order, times);
        let tags = [const { Cell::new(Tags::UNSEEN) }; BATCH];
        let lent = LentFrames { rings, ethertype, tags, ahead_ns, is_kept };
        Ok(XdpReceive { idle, looks: 0, lent, record })
    }

    /// True if its way to wait gives the CPU away.
    fn sleeps(&self) -> bool {
        matches!(self.idle, Idle::Sleep(_) | Idle::Bulks(_))
    }

    /// Nothing came. A device that is gone ends no wait: whoever waits has to ask.
    #[cold]
    fn nothing(&mut self, came: Received) -> Result<Received, i32> {
        self.looks = self.looks.wrapping_add(1);
        let sleeps = self.sleeps();
        match sleeps || self.looks.is_multiple_of(LOOKS) {
            true => Some(self.lent.rings.error()).filter(|errno| *errno != 0).map_or(Ok(came), Err),
            false => Ok(came),
        }
    }
}

impl ReceivePort for XdpReceive {
    type Lent = LentFrames;

    #[inline]
    fn receive(&mut self, many: bool) -> Result<Received, i32> {
        match &mut self.idle {
            Idle::Sleep(waiter) => {
                self.lent.rings.take_back();
                if !waiter.wait(LIMIT_MS) {
                    return self.nothing(Received::TimedOut);
                }
            }
            Idle::Bulks(by) => {
                return match by.receive(&mut self.lent) {
                    None | Some(0) => self.nothing(Received::TimedOut),
                    Some(packets) => Ok(Received::Packets(packets)),
                };
            }
            Idle::PollDevice => self.lent.rings.poll_device(),
            Idle::Spin => {}
        }
        let packets = self.lent.rings.take(if many { BATCH } else { 1 });
        if packets > 0 {
            return Ok(Received::Packets(packets));
        }
        if let Idle::Spin = self.idle {
            self.lent.rings.wake();
        }
        self.nothing(Received::Nothing)
    }
    #[inline(always)]
    fn lent(&self) -> &LentFrames {
        &self.lent
    }
    fn spins(&self) -> bool {
        !self.sleeps()
    }
    fn stops(&mut self) {
        match &mut self.idle {
            Idle::Bulks(by) => by.bulks.stop(),
            Idle::Sleep(_) => self.idle = Idle::Spin,
            Idle::PollDevice | Idle::Spin => {}
        }
    }
    fn drops(&self) -> u64 {
        self.lent.rings.losses().packets()
    }
    fn napi_id(&self) -> u32 {
        self.lent.rings.napi_id()
    }
    fn xdp(&self) -> Option<XdpRecord> {
        let triggered = if let Idle::Bulks(by) = &self.idle { Some(by.bulks.record()) } else { None };
        Some(XdpRecord { losses: self.lent.rings.losses(), triggered, ..self.record.clone() })
    }
}

impl Lent for LentFrames {
    const PASSES_XDP: bool = true;

    #[inline]
    fn packet(&self, n: usize) -> (&[u8], Option<Instant<Realtime>>) {
        let frame = self.rings.packet(n);
        // A frame of another type has no payload.
        let (start, tags) = ethernet::open(frame, None, self.ethertype).unwrap_or((frame.len(), Tags::UNSEEN));
        self.tags[n].set(tags);
        (ethernet::unfilled(&frame[start..]), None)
    }
    #[inline]
    fn tags(&self, n: usize) -> Tags {
        self.tags[n].get()
    }
    #[inline]
    fn xdp(&self, n: usize) -> XdpStamp {
        let Some(stamp) = self.rings.stamp(n) else { return XdpStamp::NONE };
        let time_ns = MaybeNanos::some((stamp.time_ns as i64).wrapping_add(self.ahead_ns));
        XdpStamp { time_ns, cpu: stamp.cpu, queue: stamp.queue }
    }
    #[inline]
    fn area(&self, n: usize) -> &[u8] {
        if self.is_kept { self.rings.area(n) } else { &[] }
    }
}

/// The times that a user's own program leaves before packets.
fn times_of(object: &UserObject<'_>) -> HintTimes {
    let clock = object.clock_of_times();
    let (of, without) = (object.times(), clock.as_ref().err().cloned());
    let (clock, ahead_ns, bound_ns) = read_ahead(clock.unwrap_or(StampClock::Unknown));
    HintTimes { of, clock, ahead_ns, bound_ns, without }
}

/// What a clock must be put forward by to be TAI, and by how much that may be wrong, ns. TAI,
/// MONOTONIC and BOOTTIME run at the same rate, so one reading of both is enough for a trial.
fn read_ahead(clock: StampClock) -> (XdpClock, i64, i64) {
    match clock {
        StampClock::Tai => (XdpClock::Tai, 0, 0),
        StampClock::Monotonic => {
            let now = clock::read_clocks();
            (XdpClock::Monotonic, now.tai_ns - now.monotonic_ns, now.bound_ns)
        }
        StampClock::Boottime => {
            let (ahead_ns, bound_ns) = clock::tai_minus_boottime();
            (XdpClock::Boottime, ahead_ns, bound_ns)
        }
        StampClock::Unknown => (XdpClock::Unknown, 0, 0),
    }
}

/// What is known of the port before a packet came, and what its stamps must be put forward by: as
/// all times of a user's own program, by the same reading.
fn record_of(opened: Opened, order: &ReceiveOrder, times: Option<HintTimes>) -> (XdpRecord, i64) {
    let (clock, ahead_ns, clock_bound_ns) = match &times {
        Some(times) if opened.clock != StampClock::Unknown => (times.clock, times.ahead_ns, times.bound_ns),
        _ => read_ahead(opened.clock),
    };
    let record = XdpRecord {
        mode: opened.mode,
        refused: opened.refused,
        queues: opened.queues,
        umem_bytes: opened.umem_bytes,
        huge_pages: opened.small_pages.is_none(),
        small_pages: opened.small_pages,
        clock,
        clock_bound_ns,
        losses: Default::default(),
        triggered: None,
        seen: XdpSeen::default(),
        driver: nic::driver(&order.device).unwrap_or_default(),
        wait: order.wait.name().to_owned(),
        core: CoreRecord::default(),
        device_hints: Vec::new(),
        without_hints: opened.without_hints,
        times,
    };
    (record, ahead_ns)
}
