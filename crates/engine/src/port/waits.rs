// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the receiving end of a socket waits for packets.

use super::readable::Readable;
use tardy_model::stream::Wait;
use tardy_sys::SysError;
use tardy_sys::wait::Waiter;

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
