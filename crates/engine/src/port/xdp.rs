// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `xdp`: frames of port `packet`, through AF_XDP sockets. Here is the receiving half. tardy's
//! XDP program stamps each test frame and redirects it to the socket of its queue, before the
//! kernel's stack sees it. All other traffic of the device goes on to the kernel.
//!
//! The program, its link, the memory and the sockets are made on the control thread. The measuring
//! thread gets all of it and reads the rings itself.
//!
//! One end has one half: both at one device would need one memory for its queues.

pub mod send;

use crate::order::{EndOrder, ReceiveOrder, StreamOrder, Ways};
use crate::port::{BATCH, Bound, Lent, PortKind, ReceivePort, Received, Wake, XdpStamp, cannot};
use send::XdpSend;
use std::io;
use tardy_bpf::program::{Filter, StampClock};
use tardy_bpf::xsk::{Asked, FRAMES, Opened, Rings, WaitBy, Waiter};
use tardy_model::ethernet::{self, Tags};
use tardy_model::sample::MaybeNanos;
use tardy_model::stream::Wait;
use tardy_model::time::{Instant, Realtime};
use tardy_model::xdp::{XdpClock, XdpRecord, XdpSeen};
use tardy_sys::wait::LIMIT_MS;
use tardy_sys::{SysError, clock};

/// Port `xdp`. Nothing wakes its receiver: it checks for the order to stop when the wait's own
/// limit has passed.
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
            _ => return Err(cannot("port xdp has one-way streams only")),
        };
        let error_queue_bytes = port.send().map_or(0, XdpSend::room_bytes);
        Ok(Bound { port, error_queue_bytes, wake: Wake::ByItself })
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
    Sleep(Waiter),
    /// Nothing but to wake drivers that ask for it.
    Spin,
    PollDevice,
}

/// The sockets of a device with their way to wait.
pub struct XdpReceive {
    idle: Idle,
    looks: u32,
    lent: LentFrames,
    record: XdpRecord,
}

/// The frames of the last receive call. They stay where the kernel put them.
pub struct LentFrames {
    rings: Rings,
    ethertype: u16,
    /// Where the payload lies in each frame, and its tags.
    places: [(usize, usize, Tags); BATCH],
    /// What the program's clock must be put forward by to be TAI, ns.
    ahead_ns: i64,
}

impl XdpReceive {
    /// Loads and attaches the program, and binds the sockets, for the order.
    ///
    /// # Errors
    /// As [`Rings::open`], inside the kernel's reason.
    pub fn open(order: &ReceiveOrder) -> Result<Self, SysError> {
        let StreamOrder { stream, nonce, ethertype, .. } = order.order;
        let filter = Filter { ethertype, stream: stream.number(), nonce };
        let failed = |call| move |source| SysError { call, on: order.device.clone(), source };
        let asked = Asked { device: &order.device, queue: None, frames: FRAMES, filter };
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
            Wait::Block => {
                return Err(cannot("an AF_XDP socket has no receive call that sleeps: take wait = \"poll\""));
            }
        };
        let (record, ahead_ns) = record_of(opened);
        let places = [(0, 0, Tags::UNSEEN); BATCH];
        Ok(XdpReceive { idle, looks: 0, lent: LentFrames { rings, ethertype, places, ahead_ns }, record })
    }

    /// Nothing came. A device that is gone ends no wait: whoever waits has to ask.
    #[cold]
    fn nothing(&mut self, came: Received) -> Result<Received, i32> {
        self.looks = self.looks.wrapping_add(1);
        let sleeps = matches!(self.idle, Idle::Sleep(_));
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
                if !waiter.wait(LIMIT_MS) {
                    return self.nothing(Received::TimedOut);
                }
            }
            Idle::PollDevice => self.lent.rings.poll_device(),
            Idle::Spin => {}
        }
        let packets = self.lent.take(if many { BATCH } else { 1 });
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
        !matches!(self.idle, Idle::Sleep(_))
    }
    fn drops(&self) -> u64 {
        self.lent.rings.losses().packets()
    }
    fn napi_id(&self) -> u32 {
        self.lent.rings.napi_id()
    }
    fn xdp(&self) -> Option<XdpRecord> {
        Some(XdpRecord { losses: self.lent.rings.losses(), ..self.record.clone() })
    }
}

impl LentFrames {
    /// Takes frames that wait, at most `most`, and finds their payloads.
    #[inline]
    fn take(&mut self, most: usize) -> usize {
        let packets = self.rings.take(most);
        for n in 0..packets {
            let frame = self.rings.packet(n);
            // A frame of another type has no payload.
            let (start, tags) = ethernet::open(frame, None, self.ethertype).unwrap_or((frame.len(), Tags::UNSEEN));
            self.places[n] = (start, ethernet::unfilled(&frame[start..]).len(), tags);
        }
        packets
    }
}

impl Lent for LentFrames {
    const PASSES_XDP: bool = true;

    #[inline]
    fn packet(&self, n: usize) -> (&[u8], Option<Instant<Realtime>>) {
        let (start, length, _) = self.places[n];
        (&self.rings.packet(n)[start..start + length], None)
    }
    #[inline]
    fn tags(&self, n: usize) -> Tags {
        self.places[n].2
    }
    #[inline]
    fn xdp(&self, n: usize) -> XdpStamp {
        let Some(stamp) = self.rings.stamp(n) else { return XdpStamp::NONE };
        let time_ns = MaybeNanos::some((stamp.time_ns as i64).wrapping_add(self.ahead_ns));
        XdpStamp { time_ns, cpu: stamp.cpu, queue: stamp.queue }
    }
}

/// What is known of the port before a packet came, and what its stamps must be put forward by. TAI
/// and MONOTONIC run at the same rate, so one reading of both is enough for a trial.
fn record_of(opened: Opened) -> (XdpRecord, i64) {
    let (clock, ahead_ns, clock_bound_ns) = match opened.clock {
        StampClock::Tai => (XdpClock::Tai, 0, 0),
        StampClock::Monotonic => {
            let now = clock::read_clocks();
            (XdpClock::Monotonic, now.tai_ns - now.monotonic_ns, now.bound_ns)
        }
    };
    let record = XdpRecord {
        mode: opened.mode,
        refused: opened.refused,
        queues: opened.queues,
        umem_bytes: opened.umem_bytes,
        huge_pages: opened.huge_pages,
        clock,
        clock_bound_ns,
        losses: Default::default(),
        seen: XdpSeen::default(),
    };
    (record, ahead_ns)
}
