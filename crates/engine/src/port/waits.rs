// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the receiving end of a socket waits for packets: for every port over a socket, the wait and the receive call behind it.

use tardy_model::stream::Wait;
use tardy_sys::SysError;
use tardy_sys::messages::MessagesRx;
use tardy_sys::udp::UdpRx;
use tardy_sys::wait::Waiter;

/// How long one receive call polls the device under `busypoll`, µs.
const BUSY_POLL_US: i32 = 200;

/// A socket that can be waited for.
pub(super) trait Readable {
    /// For a wait by `select()`.
    fn select(&self) -> Result<Waiter, SysError>;
    /// For a wait by `epoll_wait()`.
    fn epoll(&self) -> Result<Waiter, SysError>;
    /// Lets the receive call poll the device for up to `us` microseconds.
    fn busy_poll(&self, us: i32) -> Result<(), SysError>;
    /// Waits until there is something to be read; false if the time limit passed.
    fn wait(&self, by: &Waiter) -> bool;
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
        };
        Ok(Waits { sleeps: waiter.is_none() && wait != Wait::Spin, spins: wait == Wait::Spin, waiter })
    }

    /// Waits, if it does so before the receive call. Gives whether that call is to sleep, `None` if the time limit passed. The port receives
    /// by itself: handed over as a closure, the call lay outside the loop, and a round trip over TCP took a microsecond longer.
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
