// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a socket shares with the kernel: the memory that packets arrive in (UMEM), and the rings
//! in which both say which frames of it are whose.
//!
//! The memory is anonymous pages, huge ones where the machine has them to give. The kernel pins
//! and fills them. A frame belongs to the kernel from when it is in a fill ring until its
//! descriptor comes back in a receive ring, and to this process between. [`super::Rings`] keeps to
//! that.
//!
//! A ring is mapped: its entries, its flags, and two counters: how many entries were put in, and
//! how many were taken out. Both only grow, and wrap around at 2³². Each side writes one of them,
//! after it is done with the entries (release), and reads the other before it touches any
//! (acquire). Which entries may be touched is decided in [`Taking`] and [`Putting`]. Those are
//! pure: the counters are arguments, so that tests can play the other side.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::{io, mem};
use tardy_sys::packet::PacketMemory;

/// Bytes of a frame: a page, the largest that every driver takes.
pub const FRAME: u32 = 4_096;
/// Bytes of a huge page where one is of the usual size; another size is refused and not missed.
const HUGE: usize = 2 << 20;

/// Memory that is unmapped with this.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    length: usize,
    /// Why it is not of huge pages; `None` if it is.
    pub small_pages: Option<String>,
}

// SAFETY: the memory belongs to no thread; who has the value may read and write it.
unsafe impl Send for Memory {}

impl Memory {
    /// That many bytes, which the kernel has already given: no page fault waits in a loop. It may
    /// be split at multiples of `part` bytes: a huge page cannot be unmapped by halves.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(length: usize, part: usize) -> io::Result<Memory> {
        let huge = match length.is_multiple_of(HUGE) && part.is_multiple_of(HUGE) {
            true => map(length, libc::MAP_HUGETLB, None).map_err(|error| no_huge_pages(length, &error)),
            false => Err(format!("a queue's {part} bytes fill none: it needs 512 frames (rx.frames, tx.frames)")),
        };
        match huge {
            Ok(start) => Ok(Memory { start, length, small_pages: None }),
            Err(why) => Ok(Memory { start: map(length, 0, None)?, length, small_pages: Some(why) }),
        }
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// Bytes of it; none beyond its end. The caller asks only for frames that belong to this
    /// process.
    #[inline]
    pub fn bytes(&self, at: usize, length: usize) -> &[u8] {
        if at.checked_add(length).is_none_or(|end| end > self.length) {
            return &[];
        }
        // SAFETY: within the mapping, as checked above; it is initialised (anonymous pages are
        // zero), and neither kernel nor process writes to a frame while it is lent.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), length) }
    }

    /// This memory as two, of which the first has `at` bytes, whole pages: each is unmapped by
    /// itself.
    pub fn split(self, at: usize) -> (Memory, Memory) {
        let whole = mem::ManuallyDrop::new(self);
        let at = at.min(whole.length);
        // SAFETY: within the mapping, or at its end.
        let second = unsafe { whole.start.add(at) };
        let of = |start, length| Memory { start, length, small_pages: whole.small_pages.clone() };
        (of(whole.start, at), of(second, whole.length - at))
    }

    /// The same to be written.
    #[inline]
    pub fn bytes_mut(&mut self, at: usize, length: usize) -> &mut [u8] {
        if at.checked_add(length).is_none_or(|end| end > self.length) {
            return &mut [];
        }
        // SAFETY: as in `bytes`; the exclusive borrow keeps any other slice away.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), length) }
    }

    /// Has the CPU fetch what lies there, while the caller does something else. The kernel wrote it
    /// on another CPU as a rule, and each line that is waited for takes longer than all that is
    /// done with it.
    #[inline]
    pub fn fetch(&self, at: usize) {
        if at >= self.length {
            return;
        }
        // SAFETY: within the mapping, as checked above.
        let line = unsafe { self.start.as_ptr().add(at) };
        // SAFETY: a hint to the CPU, which neither reads nor writes what the program sees.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast())
        };
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, readonly, preserves_flags))
        };
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = line;
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no slice of it outlives the value. Pages
        // that a socket still uses are pinned by the kernel.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

// SAFETY: the mapping is the value's own, and `bytes` lends what belongs to this process alone.
unsafe impl PacketMemory for Memory {
    fn range(&self) -> (u64, u64) {
        (self.start.as_ptr().expose_provenance() as u64, self.length as u64)
    }
}

/// Why memory of this length is not of huge pages, which the kernel refused, and what can be done.
pub fn no_huge_pages(length: usize, refused: &io::Error) -> String {
    let (mib, pages) = (length >> 20, length / HUGE);
    format!(
        "the kernel refused {mib} MiB of them ({refused}), and tardy took ordinary pages, which are slower; to have \
         huge ones, raise what `sysctl vm.nr_hugepages` prints by {pages} (`sysctl -w`), then run again"
    )
}

/// Memory of this process, or what a socket offers at a place.
fn map(length: usize, flags: libc::c_int, of: Option<(BorrowedFd<'_>, i64)>) -> io::Result<NonNull<u8>> {
    let kind = if of.is_some() { libc::MAP_SHARED } else { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS };
    let (fd, at) = of.map_or((-1, 0), |(fd, at)| (fd.as_raw_fd(), at));
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, kind | libc::MAP_POPULATE | flags);
    // SAFETY: asks for a new mapping at a place of the kernel's choice.
    let start = unsafe { libc::mmap(ptr::null_mut(), length, prot, flags, fd, at) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// The side that takes entries out.
#[derive(Clone, Copy, Debug)]
pub struct Taking {
    mask: u32,
    /// Entries that were put in, as far as this side has looked.
    filled: u32,
    /// Entries that this side has taken out.
    taken: u32,
}

impl Taking {
    /// Of a new ring of `size` entries, a power of two.
    pub const fn new(size: u32) -> Taking {
        Taking::at(size, 0)
    }

    /// Of a ring out of which `taken` entries were taken so far, and all that were put in.
    pub const fn at(size: u32, taken: u32) -> Taking {
        assert!(size.is_power_of_two());
        Taking { mask: size - 1, filled: taken, taken }
    }

    /// How many entries wait, at most `most`. Looks at the kernel's counter only when all that is
    /// known of has been taken.
    #[inline]
    pub fn waiting(&mut self, filled: &AtomicU32, most: u32) -> u32 {
        if self.filled == self.taken {
            self.filled = filled.load(Acquire);
        }
        // More than the ring has room for is not to be believed.
        self.filled.wrapping_sub(self.taken).min(self.mask + 1).min(most)
    }

    /// How many entries wait, whether or not this side has looked.
    pub fn all(&self, filled: &AtomicU32) -> u32 {
        filled.load(Acquire).wrapping_sub(self.taken).min(self.mask + 1)
    }

    /// The place of the entry that is `n` behind the oldest one.
    #[inline]
    pub fn place(&self, n: u32) -> usize {
        (self.taken.wrapping_add(n) & self.mask) as usize
    }

    /// Gives the places of the oldest `n` entries back.
    #[inline]
    pub fn take(&mut self, n: u32, taken: &AtomicU32) {
        self.taken = self.taken.wrapping_add(n);
        taken.store(self.taken, Release);
    }
}

/// The side that puts entries in.
#[derive(Clone, Copy, Debug)]
pub struct Putting {
    size: u32,
    /// Entries that this side has put in and published.
    filled: u32,
    /// Entries that are put in and not published yet.
    ahead: u32,
    /// Entries that were taken out, as far as this side has looked.
    taken: u32,
}

impl Putting {
    /// Of a new ring of `size` entries, a power of two.
    pub const fn new(size: u32) -> Putting {
        Putting::at(size, 0)
    }

    /// Of an empty ring into which `filled` entries were put so far.
    pub const fn at(size: u32, filled: u32) -> Putting {
        assert!(size.is_power_of_two());
        Putting { size, filled, ahead: 0, taken: filled }
    }

    /// The place of the next entry, if there is room for it. Looks at the kernel's counter only
    /// when no room is known of.
    #[inline]
    pub fn next(&mut self, taken: &AtomicU32) -> Option<usize> {
        let next = self.filled.wrapping_add(self.ahead);
        if next.wrapping_sub(self.taken) >= self.size {
            self.taken = taken.load(Acquire);
            if next.wrapping_sub(self.taken) >= self.size {
                return None;
            }
        }
        self.ahead += 1;
        Some((next & (self.size - 1)) as usize)
    }

    /// Publishes what was put in.
    #[inline]
    pub fn publish(&mut self, filled: &AtomicU32) {
        if self.ahead > 0 {
            self.filled = self.filled.wrapping_add(self.ahead);
            self.ahead = 0;
            filled.store(self.filled, Release);
        }
    }

    /// Entries that are published and were not taken out yet.
    #[inline]
    pub fn waiting(&self, taken: &AtomicU32) -> u32 {
        // More than the ring has room for is not to be believed.
        self.filled.wrapping_sub(taken.load(Acquire)).min(self.size)
    }

    /// The place of the entry that was published `n` before the newest one.
    #[inline]
    pub fn published(&self, n: u32) -> usize {
        (self.filled.wrapping_sub(1).wrapping_sub(n) & (self.size - 1)) as usize
    }
}

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
        let start = map(length, 0, Some((socket, page)))?;
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

/// A descriptor that points beyond every memory: the kernel counts it and passes over it.
const VOID: libc::xdp_desc = libc::xdp_desc { addr: u64::MAX << 12, len: 1, options: 0 };

/// The ring in which the kernel gets packets to send.
#[derive(Debug)]
pub struct SendRing {
    mapped: Mapped<libc::xdp_desc>,
    index: Putting,
}

impl SendRing {
    /// Maps it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of(socket: BorrowedFd<'_>, offsets: libc::xdp_ring_offset, size: u32) -> io::Result<Self> {
        let mapped = Mapped::of(socket, offsets, size, libc::XDP_PGOFF_TX_RING)?;
        Ok(SendRing { mapped, index: Putting::new(size) })
    }

    /// Puts a packet in, to be published; false without room.
    #[inline]
    pub fn put(&mut self, packet: libc::xdp_desc) -> bool {
        let taken = self.mapped.shared(self.mapped.offsets.consumer);
        let Some(place) = self.index.next(taken) else { return false };
        // SAFETY: the kernel has taken out what was in this entry, and reads it again only when it
        // is published.
        unsafe { self.mapped.entry(place).write(packet) };
        true
    }

    /// Publishes what was put in.
    #[inline]
    pub fn publish(&mut self) {
        self.index.publish(self.mapped.shared(self.mapped.offsets.producer));
    }

    /// Packets that are published and that the kernel has not taken.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.index.waiting(self.mapped.shared(self.mapped.offsets.consumer))
    }

    /// Has the kernel pass over the newest `n` entries, which were published and not taken. Only
    /// where nothing but this process's own call makes it read the ring.
    #[cold]
    pub fn void(&mut self, n: u32) {
        for n in 0..n {
            // SAFETY: the kernel reads the ring in a call of this process, and there is none now.
            unsafe { self.mapped.entry(self.index.published(n)).write(VOID) };
        }
    }

    /// True if the driver has to be woken to look at the ring.
    #[inline]
    pub fn wants_wakeup(&self) -> bool {
        self.mapped.wants_wakeup()
    }
}

/// The ring in which frames come back that were sent.
#[derive(Debug)]
pub struct CompletedRing {
    mapped: Mapped<u64>,
    index: Taking,
}

impl CompletedRing {
    /// Maps it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of(socket: BorrowedFd<'_>, offsets: libc::xdp_ring_offset, size: u32) -> io::Result<Self> {
        let mapped = Mapped::of(socket, offsets, size, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64)?;
        Ok(CompletedRing { mapped, index: Taking::new(size) })
    }

    /// How many frames have come back, at most `most`.
    #[inline]
    pub fn waiting(&mut self, most: u32) -> u32 {
        self.index.waiting(self.mapped.shared(self.mapped.offsets.producer), most)
    }

    /// The address of the packet that is `n` behind the oldest one.
    #[inline]
    pub fn packet(&self, n: u32) -> u64 {
        // SAFETY: `waiting` has said that the kernel is done with this entry, and the kernel will
        // not touch it before `take`.
        unsafe { self.mapped.entry(self.index.place(n)).read() }
    }

    /// Takes the oldest `n` out.
    #[inline]
    pub fn take(&mut self, n: u32) {
        self.index.take(n, self.mapped.shared(self.mapped.offsets.consumer));
    }

    /// How many there are, of which this process knows some already.
    pub fn all(&self) -> u32 {
        self.index.all(self.mapped.shared(self.mapped.offsets.producer))
    }
}
