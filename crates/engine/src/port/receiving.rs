// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a receive call brings: how many packets ([`Received`]), and the packets themselves, which
//! the port lends ([`Lent`]). [`Inbox`] is memory for the packets of one call, for every port that
//! the kernel copies packets to.
//!
//! And the receiving end of every port over a socket: the socket, its way to wait, and memory for
//! what it receives. For these only this file has the sequence wait, then receive; port `xdp` waits
//! for rings, which are no sockets to receive from.

use crate::order::ReceiveOrder;
use serde::{Deserialize, Serialize};
use tardy_model::ethernet::{self, LEAST_PAYLOAD, MOST_HEAD, Tags, Taken};
use tardy_model::frame::HEAD;
use tardy_model::sample::MaybeNanos;
use tardy_model::stream::Wait;
use tardy_model::time::{Instant, Realtime};
use tardy_sys::SysError;
use tardy_sys::messages::MessagesRx;
use tardy_sys::udp::{self, Heard, UdpRx};
use tardy_sys::wait::Waiter;

/// Room for the packets of one receive call.
pub struct Inbox {
    bytes: Vec<u8>,
    room: usize,
    places: [Place; BATCH],
}

/// What is known of the packet at a place. It lies together: a loop looks at one place as a rule,
/// and has lost the CPU's caches to the kernel each time.
#[derive(Clone, Copy)]
struct Place {
    heard: Heard,
    /// Where the payload begins, in what was received.
    start: usize,
    tags: Tags,
}

impl Inbox {
    /// For [`BATCH`] packets of at most `room` bytes; longer ones are cut there. The memory is
    /// written, so that no page fault waits for the loop.
    pub fn new(room: usize) -> Self {
        const { assert!(BATCH <= udp::MOST, "one call fills it") };
        let mut bytes = vec![1; room * BATCH];
        bytes.fill(0);
        let empty = Place { heard: Heard::default(), start: 0, tags: Tags::UNSEEN };
        Inbox { bytes, room, places: [empty; BATCH] }
    }

    /// Room for what the order expects: one byte more than the stream's packets, so that a longer
    /// stranger is not taken for one of them; on port `packet` with what comes before the payload,
    /// and with what fills a short frame up.
    pub fn of(order: &ReceiveOrder) -> Self {
        let payload = usize::from(order.expects().2).max(HEAD);
        let is_frames = order.order.port.traits().is_frames;
        Inbox::new(if is_frames { MOST_HEAD + payload.max(LEAST_PAYLOAD) } else { payload } + 1)
    }

    /// The first place: its memory, and what is to be noted about the packet there.
    #[inline(always)]
    pub(super) fn first(&mut self) -> (&mut [u8], &mut Heard) {
        (&mut self.bytes[..self.room], &mut self.places[0].heard)
    }

    /// All places: their memory, how much of it each has, and what is to be noted about the packets
    /// there.
    pub(super) fn all(&mut self) -> (&mut [u8], usize, impl Iterator<Item = &mut Heard>) {
        (&mut self.bytes, self.room, self.places.iter_mut().map(|place| &mut place.heard))
    }

    /// Puts a packet in at place `n`, cut at the room.
    pub fn put(&mut self, n: usize, payload: &[u8], stamp: Option<Instant<Realtime>>) {
        let length = payload.len().min(self.room);
        self.bytes[n * self.room..][..length].copy_from_slice(&payload[..length]);
        let heard = &mut self.places[n].heard;
        (heard.length, heard.stamp) = (length, stamp);
    }

    /// Notes the device's stamp of the packet at place `n`.
    pub fn stamp_by_device(&mut self, n: usize, device_ns: Option<i64>) {
        self.places[n].heard.device_ns = device_ns;
    }

    /// Notes what VLAN tags the packet at place `n` came with.
    pub fn tag(&mut self, n: usize, tags: Tags) {
        self.places[n].tags = tags;
    }

    /// Takes the frame at place `n` apart: from now on its payload alone is there, and its tags
    /// are known. A frame of another type has no payload.
    #[inline]
    pub fn open(&mut self, n: usize, ethertype: u16) {
        let (frame, taken) = self.frame(n);
        let (start, tags) = ethernet::open(frame, taken, ethertype).unwrap_or((frame.len(), Tags::UNSEEN));
        let length = ethernet::unfilled(&frame[start..]).len();
        let place = &mut self.places[n];
        (place.start, place.heard.length, place.tags) = (start, length, tags);
    }

    /// The frame at place `n` as it lies there, before it is taken apart, and the tag that the
    /// kernel took out of it.
    #[inline]
    fn frame(&self, n: usize) -> (&[u8], Option<Taken>) {
        let Heard { length, taken, .. } = self.places[n].heard;
        (&self.bytes[n * self.room..][..length], taken)
    }
}

impl Lent for Inbox {
    #[inline]
    fn packet(&self, n: usize) -> (&[u8], Option<Instant<Realtime>>) {
        let place = &self.places[n];
        (&self.bytes[n * self.room + place.start..][..place.heard.length], place.heard.stamp)
    }

    #[inline]
    fn tags(&self, n: usize) -> Tags {
        self.places[n].tags
    }

    #[inline]
    fn device_ns(&self, n: usize) -> Option<i64> {
        self.places[n].heard.device_ns
    }
}

/// The most packets that one call moves.
pub const BATCH: usize = 64;

/// What a receive call brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// This number of packets, at least one and at most [`BATCH`].
    Packets(usize),
    /// There is nothing to be read.
    Nothing,
    /// The wait's own time limit passed.
    TimedOut,
}

/// The stamp that the XDP program wrote before a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpStamp {
    /// When the program saw it, TAI, ns; absent if it wrote nothing.
    pub time_ns: MaybeNanos,
    /// The CPU that ran the program; `UNKNOWN` if it does not say.
    pub cpu: u32,
    /// The queue that the packet came to; `UNKNOWN` likewise.
    pub queue: u32,
}

impl XdpStamp {
    /// The program wrote nothing.
    pub const NONE: XdpStamp = XdpStamp { time_ns: MaybeNanos::NONE, cpu: 0, queue: 0 };
}

/// The packets of the last receive call, wherever they are: in the port's own memory, or in a ring
/// that the kernel fills again with the next call.
pub trait Lent {
    /// True where packets pass an XDP program of tardy's, whose stamps are recorded then.
    const PASSES_XDP: bool = false;

    /// The payload of the packet at place `n`, and the kernel's stamp if it took one.
    fn packet(&self, n: usize) -> (&[u8], Option<Instant<Realtime>>);
    /// The VLAN tags that it came with, after [`Lent::packet`].
    fn tags(&self, n: usize) -> Tags;
    /// The stamp that its device took, on the device's own clock, ns.
    #[inline]
    fn device_ns(&self, _n: usize) -> Option<i64> {
        None
    }
    /// What the XDP program wrote before it.
    #[inline]
    fn xdp(&self, _n: usize) -> XdpStamp {
        XdpStamp::NONE
    }
    /// The bytes before it, where they are to be kept.
    #[inline]
    fn area(&self, _n: usize) -> &[u8] {
        &[]
    }
}

/// The receiving end of a socket.
pub(super) struct SocketReceiver<S> {
    pub(super) socket: S,
    pub(super) inbox: Inbox,
    pub(super) waits: Waits,
}

impl<S: Readable> SocketReceiver<S> {
    /// Makes the socket ready for the order, waited for in this way.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn over(socket: S, order: &ReceiveOrder, wait: Wait) -> Result<Self, SysError> {
        let waits = Waits::of(wait, &socket)?;
        Ok(SocketReceiver { socket, inbox: Inbox::of(order), waits })
    }

    /// Waits, then receives. Both are inlined into the loop, by a trait and not as closures: where
    /// the call lay outside it, a round trip over TCP took a microsecond longer.
    #[inline(always)]
    pub(super) fn receive(&mut self, many: bool) -> Result<Received, i32> {
        let Some(sleeps) = self.waits.ready(&self.socket) else { return Ok(Received::TimedOut) };
        self.socket.receive(&mut self.inbox, sleeps, many)
    }
}

impl Readable for UdpRx {
    fn select(&self) -> Result<Waiter, SysError> {
        UdpRx::select(self)
    }
    fn epoll(&self) -> Result<Waiter, SysError> {
        UdpRx::epoll(self)
    }
    fn busy_poll(&self, us: i32) -> Result<(), SysError> {
        UdpRx::busy_poll(self, us)
    }
    #[inline]
    fn wait(&self, by: &Waiter) -> bool {
        UdpRx::wait(self, by)
    }
    #[inline]
    fn receive(&mut self, inbox: &mut Inbox, sleeps: bool, many: bool) -> Result<Received, i32> {
        let got = if many {
            let (bytes, room, heard) = inbox.all();
            self.receive_many(bytes, room, heard, sleeps)
        } else {
            let (into, heard) = inbox.first();
            UdpRx::receive(self, into, heard, sleeps)
        };
        match got {
            // Shut down by its waker; the loop looks at its stop flag.
            Ok(0) => Ok(Received::Nothing),
            Ok(packets) => Ok(Received::Packets(packets)),
            Err(libc::EAGAIN) if sleeps => Ok(Received::TimedOut),
            // Nobody listens at a connected socket's peer: what was sent is lost, and the next
            // packet may come all the same.
            Err(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED) => Ok(Received::Nothing),
            Err(errno) => Err(errno),
        }
    }
}

impl Readable for MessagesRx {
    fn select(&self) -> Result<Waiter, SysError> {
        MessagesRx::select(self)
    }
    fn epoll(&self) -> Result<Waiter, SysError> {
        MessagesRx::epoll(self)
    }
    fn busy_poll(&self, us: i32) -> Result<(), SysError> {
        MessagesRx::busy_poll(self, us)
    }
    #[inline]
    fn wait(&self, by: &Waiter) -> bool {
        MessagesRx::wait(self, by)
    }
    #[inline(always)]
    fn receive(&mut self, inbox: &mut Inbox, sleeps: bool, _many: bool) -> Result<Received, i32> {
        let (into, heard) = inbox.first();
        match MessagesRx::receive(self, into, heard, sleeps) {
            Ok(true) => Ok(Received::Packets(1)),
            // A message that is not whole yet is no message.
            Ok(false) => Ok(Received::TimedOut),
            Err(errno) => no_message(errno, sleeps),
        }
    }
}

/// Where no message came: a poke ends a call that sleeps, as a time limit would.
#[cold]
fn no_message(errno: i32, sleeps: bool) -> Result<Received, i32> {
    match errno {
        libc::EAGAIN | libc::EINTR if sleeps => Ok(Received::TimedOut),
        libc::EAGAIN | libc::EINTR => Ok(Received::Nothing),
        errno => Err(errno),
    }
}

/// A socket that can be waited for and received from.
pub(super) trait Readable {
    /// For a wait by `select()`.
    fn select(&self) -> Result<Waiter, SysError>;
    /// For a wait by `epoll_wait()`.
    fn epoll(&self) -> Result<Waiter, SysError>;
    /// Lets the receive call poll the device for up to `us` microseconds.
    fn busy_poll(&self, us: i32) -> Result<(), SysError>;
    /// Waits until there is something to be read; false if the time limit passed.
    fn wait(&self, by: &Waiter) -> bool;
    /// The receive call; it sleeps until something comes or its time limit has passed if it
    /// `sleeps`. With `many` it takes all that waits, if it can.
    fn receive(&mut self, inbox: &mut Inbox, sleeps: bool, many: bool) -> Result<Received, i32>;
}

/// How long one receive call polls the device under `busypoll`, µs.
const BUSY_POLL_US: i32 = 200;

/// A socket's packets carry no schedule.
fn by_schedule() -> SysError {
    let source = std::io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    SysError { call: "opening a port", on: "a wait by the schedule of packets, which port xdp has".to_owned(), source }
}

/// A way to wait that is ready for its socket.
pub(super) struct Waits {
    waiter: Option<Waiter>,
    /// The receive call itself sleeps until a packet comes.
    sleeps: bool,
    spins: bool,
}

impl Waits {
    /// Makes the socket ready for it.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn of(wait: Wait, socket: &impl Readable) -> Result<Self, SysError> {
        let waiter = match wait {
            Wait::Block | Wait::Spin => None,
            Wait::Busypoll => {
                socket.busy_poll(BUSY_POLL_US)?;
                None
            }
            Wait::Poll => Some(Waiter::Poll),
            Wait::Select => Some(socket.select()?),
            Wait::Epoll => Some(socket.epoll()?),
            Wait::Scheduled => return Err(by_schedule()),
        };
        Ok(Waits { sleeps: waiter.is_none() && wait != Wait::Spin, spins: wait == Wait::Spin, waiter })
    }

    /// Waits, if it does so before the receive call. Gives whether that call is to sleep, `None`
    /// if the time limit passed.
    #[inline(always)]
    pub(super) fn ready(&self, socket: &impl Readable) -> Option<bool> {
        match &self.waiter {
            Some(waiter) if !socket.wait(waiter) => None,
            _ => Some(self.sleeps),
        }
    }

    /// From now on it takes what is there and waits for nothing.
    pub(super) fn stop(&mut self) {
        (self.waiter, self.sleeps) = (None, false);
    }

    /// True if it never sleeps.
    pub(super) fn spins(&self) -> bool {
        self.spins
    }

    /// True if the wait is a call of its own, which a stamp in the error queue ends at once.
    pub(super) fn asks_first(&self) -> bool {
        self.waiter.is_some()
    }
}
