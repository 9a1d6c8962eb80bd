// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the engine sends and receives through: narrow traits, one file for each port. Generic, not dynamic: the loops are
//! compiled for each port, so nothing stands between a stamp and the call it belongs to.

pub mod packet;
pub mod queue;
pub mod sim;
pub mod tcp;
pub mod udp;
mod waits;

pub use tardy_sys::stamps::{DRAIN, TxPoint, TxStamp};
pub use tardy_sys::udp::{BATCH, Inbox, Received};

use crate::order::ReceiveOrder;
use tardy_model::ethernet::{LEAST_PAYLOAD, MOST_HEAD, Tags};
use tardy_model::frame::HEAD;
use tardy_model::time::{Instant, Nanos, Realtime, Tai};

/// Room for what the order expects: one byte more than the stream's packets, so that a longer stranger is not taken for one
/// of them; on port `packet` with what stands before the payload, and with what fills a short frame up.
pub fn inbox(order: &ReceiveOrder) -> Inbox {
    let payload = usize::from(order.expects().2).max(HEAD);
    let is_frames = order.order.port.traits().is_frames;
    Inbox::new(if is_frames { MOST_HEAD + payload.max(LEAST_PAYLOAD) } else { payload } + 1)
}

/// A station's clock and timer.
pub trait Timer {
    /// TAI now.
    fn now(&mut self) -> Instant<Tai>;
    /// Sleeps until the instant; may return late, never early.
    fn sleep_until(&mut self, at: Instant<Tai>);
    /// Stays awake until the instant; returns the longest gap between two looks at the clock.
    fn spin_until(&mut self, at: Instant<Tai>) -> Nanos;
    /// The CPU that the thread runs on; `None` where there is none to name.
    fn cpu(&mut self) -> Option<u32> {
        None
    }
}

/// The sending end of a port.
pub trait SendPort {
    /// Hands one packet over under `key`, with a launch time where it bears one; returns the key that its tx stamps will carry, or
    /// errno.
    fn send(&mut self, payload: &[u8], key: u32, launch: Option<Instant<Tai>>) -> Result<u32, i32>;
    /// Hands a batch of packets without launch times over, each of `size` bytes, one behind the other, with a key for each; by one system call
    /// where the port can. `keys` receives those that their tx stamps will carry. Returns how many were taken, the first
    /// ones; errno if none was.
    fn send_batch(&mut self, payloads: &[u8], size: usize, keys: &mut [u32]) -> Result<usize, i32> {
        for (n, key) in keys.iter_mut().enumerate() {
            match self.send(&payloads[n * size..][..size], *key, None) {
                Ok(stamped) => *key = stamped,
                Err(errno) if n == 0 => return Err(errno),
                Err(_) => return Ok(n),
            }
        }
        Ok(keys.len())
    }
    /// Takes tx stamps, and reports of packets dropped for their launch time, that have come back, a bounded number of them, and never waits. Returns how many; fewer than
    /// [`DRAIN`] means that there are no more.
    fn drain(&mut self, each: impl FnMut(TxStamp)) -> usize;
    /// Called after a refused send, also within a batch, when drained: keys must be unambiguous again.
    fn renew_keys(&mut self) {}
    /// Bytes that wait in the error queue, and its size.
    fn error_queue(&self) -> (u64, u64) {
        (0, u64::MAX)
    }
    /// True if a stamp that waits in the error queue ends the wait for a packet at once, so that it must be taken to wait again.
    fn stamps_end_waits(&self) -> bool {
        false
    }
}

/// The receiving end of a port.
pub trait ReceivePort {
    /// Waits in the port's way and receives one packet, or with `many` all that wait if the port can, at most [`BATCH`].
    /// [`Received::Nothing`] is a readiness that yielded nothing; errno where the port is broken.
    fn receive(&mut self, many: bool) -> Result<Received, i32>;
    /// The packet at place `n` of what the last call received, and the kernel's stamp if it took one. The port lends it until the next call:
    /// it may lie in a ring that the kernel fills again then.
    fn packet(&self, n: usize) -> (&[u8], Option<Instant<Realtime>>);
    /// The VLAN tags that it came with.
    fn tags(&self, n: usize) -> Tags;
    /// True if the port's way to wait never sleeps.
    fn spins(&self) -> bool {
        false
    }
    /// Packets dropped at the port's own buffer so far.
    fn drops(&self) -> u64 {
        0
    }
    /// Packets of strangers since the last call that the port kept from the receive call; 0 where that gets them all.
    fn strangers(&mut self) -> u64 {
        0
    }
    /// The NAPI context that packets came from, 0 while there is none, or where the port is told of none.
    fn napi_id(&self) -> u32 {
        0
    }
    /// True once nothing can arrive any more.
    fn ended(&self) -> bool {
        false
    }
}
