// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a socket must be able to do so that every way to wait works on it.

use super::batch::Received;
use super::inbox::Inbox;
use tardy_sys::SysError;
use tardy_sys::wait::Waiter;

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
