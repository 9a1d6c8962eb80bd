// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving end of every port over a socket: the socket, its way to wait, and memory for what
//! it receives. Only this file has the sequence wait, then receive.

use crate::order::ReceiveOrder;
use crate::port::inbox::{Inbox, Received};
use tardy_model::stream::Wait;
use tardy_sys::SysError;
use tardy_sys::messages::MessagesRx;
use tardy_sys::udp::UdpRx;
use tardy_sys::wait::Waiter;

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

    /// True if it never sleeps.
    pub(super) fn spins(&self) -> bool {
        self.spins
    }

    /// True if the wait is a call of its own, which a stamp in the error queue ends at once.
    pub(super) fn asks_first(&self) -> bool {
        self.waiter.is_some()
    }
}
