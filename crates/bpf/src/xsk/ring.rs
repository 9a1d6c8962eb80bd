// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ring of a socket, mapped: the entries, and the counters and flags that are shared with the
//! kernel. Which entries may be touched is decided in [`super::index`].

use super::index::{Putting, Taking};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A ring with entries of type `T`, unmapped with this.
#[derive(Debug)]
struct Mapped<T> {
    start: NonNull<u8>,
    length: usize,
    offsets: libc::xdp_ring_offset,
    size: u32,
    of: std::marker::PhantomData<T>,
}

// SAFETY: the mapping belongs to no thread; what it shares with the kernel are atomic counters.
unsafe impl<T: Send> Send for Mapped<T> {}

impl<T: Copy> Mapped<T> {
    /// Maps the ring of `size` entries, a power of two, that the socket has at `page`.
    fn of(socket: BorrowedFd<'_>, offsets: libc::xdp_ring_offset, size: u32, page: i64) -> io::Result<Self> {
        let length = offsets.desc as usize + size as usize * mem::size_of::<T>();
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: maps what the socket offers there, at a place of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, prot, flags, socket.as_raw_fd(), page) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Mapped { start, length, offsets, size, of: std::marker::PhantomData })
    }

    /// A counter of the ring, or its flags.
    #[inline]
    fn shared(&self, at: u64) -> &AtomicU32 {
        // SAFETY: the kernel has said that a 32-bit counter lies there, aligned, within what is
        // mapped; it accesses the counter atomically too.
        unsafe { &*self.start.as_ptr().add(at as usize).cast::<AtomicU32>() }
    }

    #[inline]
    fn entry(&self, place: usize) -> *mut T {
        debug_assert!(place < self.size as usize);
        let at = self.offsets.desc as usize + (place & (self.size as usize - 1)) * mem::size_of::<T>();
        // SAFETY: the place is masked to the ring's size, which is what was mapped.
        unsafe { self.start.as_ptr().add(at).cast() }
    }

    #[inline]
    fn wants_wakeup(&self) -> bool {
        self.shared(self.offsets.flags).load(Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference into it outlives the value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The ring in which the kernel hands over packets.
#[derive(Debug)]
pub struct ReceiveRing {
    mapped: Mapped<libc::xdp_desc>,
    index: Taking,
}

impl ReceiveRing {
    /// Maps it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of(socket: BorrowedFd<'_>, offsets: libc::xdp_ring_offset, size: u32) -> io::Result<Self> {
        let mapped = Mapped::of(socket, offsets, size, libc::XDP_PGOFF_RX_RING)?;
        Ok(ReceiveRing { mapped, index: Taking::new(size) })
    }

    /// How many packets wait, at most `most`.
    #[inline]
    pub fn waiting(&mut self, most: u32) -> u32 {
        self.index.waiting(self.mapped.shared(self.mapped.offsets.producer), most)
    }

    /// Where the packet that is `n` behind the oldest one lies in the memory, and its length.
    #[inline]
    pub fn packet(&self, n: u32) -> (u64, u32) {
        // SAFETY: `waiting` has said that the kernel is done with this entry, and the kernel will
        // not touch it before `take`.
        let descriptor = unsafe { self.mapped.entry(self.index.place(n)).read() };
        (descriptor.addr, descriptor.len)
    }

    /// Takes the oldest `n` packets out.
    #[inline]
    pub fn take(&mut self, n: u32) {
        self.index.take(n, self.mapped.shared(self.mapped.offsets.consumer));
    }
}

/// The ring in which the kernel gets frames to fill.
#[derive(Debug)]
pub struct FillRing {
    mapped: Mapped<u64>,
    index: Putting,
}

impl FillRing {
    /// Maps it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of(socket: BorrowedFd<'_>, offsets: libc::xdp_ring_offset, size: u32) -> io::Result<Self> {
        let mapped = Mapped::of(socket, offsets, size, libc::XDP_UMEM_PGOFF_FILL_RING as i64)?;
        Ok(FillRing { mapped, index: Putting::new(size) })
    }

    /// Puts a frame in, to be published; false without room.
    #[inline]
    pub fn put(&mut self, frame: u64) -> bool {
        let taken = self.mapped.shared(self.mapped.offsets.consumer);
        let Some(place) = self.index.next(taken) else { return false };
        // SAFETY: the kernel has taken out what was in this entry, and reads it again only when it
        // is published.
        unsafe { self.mapped.entry(place).write(frame) };
        true
    }

    /// Publishes what was put in.
    #[inline]
    pub fn publish(&mut self) {
        self.index.publish(self.mapped.shared(self.mapped.offsets.producer));
    }

    /// True if the driver has to be woken to look at the ring.
    #[inline]
    pub fn wants_wakeup(&self) -> bool {
        self.mapped.wants_wakeup()
    }
}
