// SPDX-License-Identifier: MIT OR Apache-2.0
//! An AF_XDP socket with the rings of its receiving, and how it comes to them; and what tells a new
//! stamp in one of its frames from an old one. The calls themselves are in `tardy_sys::packet`.

use super::shared::{CompletedRing, FRAME, FillRing, Memory, ReceiveRing, SendRing};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};
use tardy_sys::SysError;
use tardy_sys::packet::{XdpRing, XdpSocket};

/// A queue whose socket was closed is free within this time.
const RELEASED: Duration = Duration::from_secs(1);

/// A socket with the rings of its receiving.
#[derive(Debug)]
pub struct Socket {
    fd: XdpSocket,
    pub received: ReceiveRing,
    pub fill: FillRing,
}

/// The memory of a socket: its own registration, or that of another socket.
pub enum Umem<'a> {
    /// In frames of [`FRAME`] bytes.
    Registered {
        memory: &'a Memory,
        /// Bytes at the beginning of a frame that the kernel leaves alone when it receives.
        headroom: u32,
        /// Bytes of what comes before a packet that is sent.
        metadata: u32,
    },
    /// That of another socket.
    Of(BorrowedFd<'a>),
}

fn mapping(source: io::Error) -> SysError {
    SysError { call: "mapping a ring", on: "an AF_XDP socket".to_owned(), source }
}

impl Socket {
    /// A socket over this memory with rings of `size` entries, bound to nothing. The ring in which
    /// sent frames come back it must have even if it never sends.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(umem: &Umem<'_>, size: u32) -> Result<Socket, SysError> {
        let fd = XdpSocket::new()?;
        if let Umem::Registered { memory, headroom, metadata } = *umem {
            fd.register(memory, FRAME, headroom, metadata)?;
        }
        [XdpRing::Fill, XdpRing::Completed, XdpRing::Received].into_iter().try_for_each(|ring| fd.ring(ring, size))?;
        let offsets = fd.offsets()?;
        let received = ReceiveRing::of(fd.as_fd(), offsets.rx, size).map_err(mapping)?;
        let fill = FillRing::of(fd.as_fd(), offsets.fr, size).map_err(mapping)?;
        Ok(Socket { fd, received, fill })
    }

    /// Binds it to a queue. Over the memory of another socket the kernel takes the mode from that
    /// one. A queue is free again only some moments after its last socket was closed: the kernel
    /// leaves that to a worker. So one that is taken is tried for a while.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind(&self, index: u32, queue: u32, umem: &Umem<'_>, mode: u16) -> io::Result<()> {
        let until = Instant::now() + RELEASED;
        loop {
            let bound = match umem {
                Umem::Registered { .. } => self.fd.bind(index, queue, mode),
                Umem::Of(other) => self.fd.bind_over(index, queue, *other),
            };
            match bound.map_err(|error| error.source) {
                Err(why) if why.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                other => return other,
            }
        }
    }

    /// Gives it a ring of `size` packets to send, the size of the ring in which they come back, and
    /// a class of traffic. To be called before it is bound.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sends(
        &self,
        size: u32,
        budget: u32,
        priority: u32,
        room: i32,
    ) -> Result<(SendRing, CompletedRing), SysError> {
        self.fd.ring(XdpRing::ToSend, size)?;
        self.fd.set_priority(priority)?;
        self.fd.set_send_buffer(room)?;
        // A kernel without the option takes fewer packets in a call, and is called again.
        let _ = self.fd.set_send_budget(budget);
        let offsets = self.fd.offsets()?;
        let ring = SendRing::of(self.fd.as_fd(), offsets.tx, size).map_err(mapping)?;
        Ok((ring, CompletedRing::of(self.fd.as_fd(), offsets.cr, size).map_err(mapping)?))
    }

    /// The calls on it.
    #[inline]
    pub fn calls(&self) -> &XdpSocket {
        &self.fd
    }

    /// Wakes the driver, or polls the device under `XdpSocket::prefer_busy_poll`.
    #[inline]
    pub fn wake(&self) {
        self.fd.wake();
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_fd().as_raw_fd()
    }
}

/// The time of the last stamp in each frame, ns. Only a later one is new: a frame that shows the
/// time that it had, or an earlier one, got no stamp with its packet.
///
/// A receiver that writes into a frame takes the cache line away from the CPU that fills it, and
/// that CPU waits to get it back: with cleared ids a third fewer packets came in a second.
#[derive(Clone, Debug)]
pub struct Latest(Vec<u64>);

impl Latest {
    pub fn new(frames: usize) -> Latest {
        Latest(vec![0; frames])
    }

    /// A packet at this byte of the memory has this stamp; not if it is an old one.
    #[inline]
    pub fn is_new(&self, at: usize, time_ns: u64) -> bool {
        self.0.get(at / FRAME as usize).is_some_and(|latest| time_ns > *latest)
    }

    /// The packet at this byte had this stamp: its frame is given back.
    #[inline]
    pub fn keep(&mut self, at: usize, time_ns: u64) {
        if let Some(latest) = self.0.get_mut(at / FRAME as usize) {
            *latest = time_ns.max(*latest);
        }
    }
}
