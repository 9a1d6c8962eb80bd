// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the engine sends and receives through. A kind of port is one file here that implements
//! [`PortKind`], whose methods are its life, and the two halves that it gives to the loops,
//! [`SendPort`] and [`ReceivePort`]. Generic, not dynamic: the loops are compiled for each kind, so
//! there is nothing between a stamp and the call that it belongs to.

pub mod packet;
pub mod queue;
mod receiving;
pub mod sim;
pub mod tcp;
pub mod udp;
pub mod xdp;

pub use receiving::{BATCH, Inbox, Lent, Received, XdpStamp};
pub use tardy_sys::stamps::{DRAIN, TxPoint, TxStamp};

use crate::order::{EndOrder, Ways};
use tardy_model::port::TcpRecord;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::xdp::{XdpRecord, XdpSendRecord};
use tardy_sys::SysError;

/// A kind of port: how an end of a stream comes to what it sends and receives through. Its methods
/// are called in the order that they have here, each once in a trial.
pub trait PortKind: 'static {
    /// What is bound for an end. It goes from the thread that binds it to the one that measures.
    type Bound: Send;
    /// The same once it is open.
    type Opened;
    /// What the loops send through.
    type To: SendPort;
    /// What the loops receive through.
    type From: ReceivePort;

    /// Checks and acquires all that is available before the end has a thread: addresses, sockets
    /// and their settings, memory, rings. Called on the agent's control thread, which may take its
    /// time. An error means that the end cannot be prepared, and no thread was ever started for it.
    ///
    /// # Errors
    /// The kernel's; or that the port cannot carry out this order.
    fn bind(order: &EndOrder) -> Result<Bound<Self::Bound>, SysError>;

    /// Does what must happen on the measuring thread, which has its CPU and its policy by then,
    /// and has opened nothing yet. An error is an end that cannot be made ready, as one of
    /// [`PortKind::bind`] is; only the thread has been started in vain.
    ///
    /// # Errors
    /// The kernel's.
    fn open(bound: Self::Bound) -> Result<Self::Opened, SysError>;

    /// Waits for what only the other end can give: a connection. Called on the measuring thread
    /// when all ends are ready or are about to be: an end that sends first connects when it is
    /// ordered to send its first packet, another at once. The latter gives up when `goes_on`
    /// returns false, and that is no error. Gives the halves, and how many strangers were turned
    /// away. An error breaks the trial, which ends with what was measured.
    ///
    /// A port without connections gives what it opened.
    ///
    /// # Errors
    /// The kernel's.
    #[expect(clippy::type_complexity, reason = "the halves, if it has come to that, and a number")]
    fn connect(
        opened: Self::Opened,
        goes_on: impl Fn() -> bool,
    ) -> Result<(Option<Ways<Self::To, Self::From>>, u64), SysError>;
}

/// A bound port, as [`PortKind::bind`] returns it.
pub struct Bound<B> {
    /// What the measuring thread opens.
    pub port: B,
    /// The size of its error queue, read back; 0 of an end that does not send, or that is not
    /// known yet.
    pub error_queue_bytes: u64,
    /// How a wait for a packet is ended from outside.
    pub wake: Wake,
}

/// How the control thread ends a measuring thread's wait for a packet, so that it looks at its
/// orders.
pub enum Wake {
    /// Not at all: the wait ends by itself soon enough.
    ByItself,
    /// By this. Nothing can be received any more after it.
    By(Box<dyn Fn() + Send>),
    /// By a poke ([`tardy_sys::wait::poke`]): it sleeps in calls without a time limit. It is poked
    /// to look around as well, when nothing moves.
    Poke,
    /// By a poke, and only when it is to end: its calls have a time limit, but a trial would wait
    /// for that.
    PokeToEnd,
}

impl Wake {
    /// By a poke when it is to end, which its calls heed from now on.
    fn poke_to_end() -> Wake {
        tardy_sys::wait::heed();
        Wake::PokeToEnd
    }
}

/// The error of an order that a port cannot do.
pub fn unsupported(what: &str) -> SysError {
    SysError {
        call: "opening a port",
        on: what.to_owned(),
        source: std::io::Error::from_raw_os_error(libc::EOPNOTSUPP),
    }
}

/// A station's clock and timer.
pub trait Timer {
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
    /// Hands one packet over under `key`, with its launch time if it has one; returns the key that
    /// its tx stamps will carry, or errno.
    fn send(&mut self, payload: &[u8], key: u32, launch: Option<Instant<Tai>>) -> Result<u32, i32>;
    /// Hands a batch of packets without launch times over, each of `size` bytes, one after the
    /// other, with a key for each; by one system call where the port can. `keys` receives those
    /// that their tx stamps will carry. Returns how many were taken, the first ones; errno if none
    /// was.
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
    /// Takes tx stamps, and reports of packets dropped for their launch time, that have come back,
    /// a bounded number of them, and never waits. Returns how many; fewer than [`DRAIN`] means
    /// that there are no more.
    fn drain(&mut self, each: impl FnMut(TxStamp)) -> usize;
    /// Called after a refused send, also within a batch, when drained: keys must be unambiguous
    /// again.
    fn renew_keys(&mut self) {}
    /// Bytes that wait in the error queue, and its size.
    fn error_queue(&self) -> (u64, u64) {
        (0, u64::MAX)
    }
    /// What the kernel reports about the connection; `None` where there is none.
    fn connection(&self) -> Option<TcpRecord> {
        None
    }
    /// What a port `xdp` is and has counted; `None` of any other.
    fn xdp(&self) -> Option<XdpSendRecord> {
        None
    }
    /// True if a stamp that waits in the error queue ends the wait for a packet at once, so that
    /// it must be taken to wait again.
    fn stamps_end_waits(&self) -> bool {
        false
    }
}

/// The receiving end of a port.
pub trait ReceivePort {
    /// The packets of a receive call, of a type that the port has for them.
    type Lent: Lent;

    /// Waits in the port's way and receives one packet, or with `many` all that wait if the port
    /// can, at most [`BATCH`]. [`Received::Nothing`] is a readiness that yielded nothing; errno
    /// where the port is broken.
    fn receive(&mut self, many: bool) -> Result<Received, i32>;
    /// The packets of the last call. The port lends them until the next one.
    fn lent(&self) -> &Self::Lent;
    /// True if the port's way to wait never sleeps.
    fn spins(&self) -> bool {
        false
    }
    /// Packets dropped at the port's own buffer so far.
    fn drops(&self) -> u64 {
        0
    }
    /// Packets of strangers since the last call that the port kept from the receive call; 0 where
    /// that gets them all.
    fn strangers(&mut self) -> u64 {
        0
    }
    /// The NAPI context that packets came from, 0 while there is none, or where the kernel does not
    /// report it to the port.
    fn napi_id(&self) -> u32 {
        0
    }
    /// What a port `xdp` is and has seen; `None` of any other.
    fn xdp(&self) -> Option<XdpRecord> {
        None
    }
    /// The order to stop was heard: from now on a call takes what is there, and waits for no
    /// instant of a schedule.
    fn stops(&mut self) {}
    /// True once nothing can arrive any more.
    fn ended(&self) -> bool {
        false
    }
}
