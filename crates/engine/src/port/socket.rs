// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving end of every port over a socket: the socket, its way to wait, and memory for what
//! it receives. Only this file has the sequence wait, then receive.

use super::batch::Received;
use super::inbox::Inbox;
use super::readable::Readable;
use super::waits::Waits;
use crate::order::ReceiveOrder;
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
