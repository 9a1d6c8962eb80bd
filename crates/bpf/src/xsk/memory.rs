// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that packets arrive in (UMEM): anonymous pages, huge ones where the machine has them
//! to give. The kernel pins and fills them.
//!
//! A frame belongs to the kernel from when it is in a fill ring until its descriptor comes back in
//! a receive ring, and to this process between. [`super::rings`] keeps to that.

use std::io;
use std::ptr::{self, NonNull};

/// Bytes of a huge page where one is of the usual size; another size is refused and not missed.
const HUGE: usize = 2 << 20;

/// Memory that is unmapped with this.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    length: usize,
    /// Of huge pages.
    pub is_huge: bool,
}

// SAFETY: the memory belongs to no thread; who has the value may read and write it.
unsafe impl Send for Memory {}

impl Memory {
    /// That many bytes, which the kernel has already given: no page fault waits in a loop.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(length: usize) -> io::Result<Memory> {
        if length.is_multiple_of(HUGE)
            && let Ok(start) = map(length, libc::MAP_HUGETLB)
        {
            return Ok(Memory { start, length, is_huge: true });
        }
        Ok(Memory { start: map(length, 0)?, length, is_huge: false })
    }

    /// Where it begins, as a number for the kernel.
    pub fn address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
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

    /// The same to be written.
    #[inline]
    pub fn bytes_mut(&mut self, at: usize, length: usize) -> &mut [u8] {
        if at.checked_add(length).is_none_or(|end| end > self.length) {
            return &mut [];
        }
        // SAFETY: as in `bytes`; the exclusive borrow keeps any other slice away.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), length) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no slice of it outlives the value. Pages
        // that a socket still uses are pinned by the kernel.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

fn map(length: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE | flags;
    // SAFETY: asks for new memory at a place of the kernel's choice.
    let start = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}
