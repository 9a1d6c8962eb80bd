// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that is copied: mapped by itself, in pages of a chosen size, locked, touched; and the
//! pass of a thread over its buffers.

use crate::{SysError, check};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::{fs, io, ptr};
use tardy_model::copy::Method;

/// A huge page begins at such an address.
const HUGE: usize = 2 << 20;
/// BufferWalk begin at the beginning of a line of the caches.
const LINE: usize = 64;

/// Memory that nobody else has.
#[derive(Debug)]
pub struct Region {
    /// What the kernel mapped.
    mapped: NonNull<u8>,
    mapped_bytes: usize,
    /// Where the memory in it begins, at the beginning of a huge page.
    at: NonNull<u8>,
    bytes: usize,
    is_locked: bool,
}

// SAFETY: a region owns its memory as a `Vec<u8>` does; nothing in it belongs to a thread.
unsafe impl Send for Region {}

/// The size of a page of memory.
pub fn page_bytes() -> u64 {
    // SAFETY: takes a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4_096)
}

impl Region {
    /// Maps this number of bytes, touches and locks them. Huge pages are asked for, or small ones,
    /// and all of them on one NUMA node, or wherever the kernel puts them. Whether it is locked,
    /// and in which pages it lies, is read back.
    ///
    /// # Errors
    /// If the kernel has no such memory, or no such node.
    pub fn new(bytes: usize, huge: bool, node: Option<u32>) -> Result<Region, SysError> {
        let on = || format!("{bytes} bytes");
        let mapped_bytes = bytes.checked_add(HUGE).ok_or_else(|| SysError {
            call: "mmap",
            on: on(),
            source: io::Error::from_raw_os_error(libc::ENOMEM),
        })?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping, at an address of the kernel's choice.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), mapped_bytes, protection, flags, -1, 0) };
        let failed = if mapped == libc::MAP_FAILED { -1 } else { 0 };
        check(failed, "mmap", on)?;
        let Some(mapped) = NonNull::new(mapped.cast::<u8>()) else {
            return Err(SysError { call: "mmap", on: on(), source: io::Error::from_raw_os_error(libc::ENOMEM) });
        };
        let skip = mapped.as_ptr().align_offset(HUGE).min(HUGE);
        // SAFETY: the mapping is longer than `bytes` by a huge page, and `skip` is no more.
        let at = unsafe { mapped.add(skip) };
        let mut region = Region { mapped, mapped_bytes, at, bytes, is_locked: false };
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: within the mapping. A kernel without huge pages refuses; the pages are read back.
        unsafe { libc::madvise(at.as_ptr().cast(), bytes, advice) };
        if let Some(node) = node {
            region.keep_on(node)?;
        }
        for at in (0..bytes).step_by(page_bytes() as usize) {
            region.all()[at] = 0x5a;
        }
        // SAFETY: within the mapping.
        region.is_locked = unsafe { libc::mlock(at.as_ptr().cast(), bytes) } == 0;
        Ok(region)
    }

    /// Has its pages come from one NUMA node alone. None was touched before.
    fn keep_on(&mut self, node: u32) -> Result<(), SysError> {
        const MPOL_BIND: usize = 2;
        const BITS: usize = usize::BITS as usize;
        let mut nodes = vec![0_usize; node as usize / BITS + 1];
        nodes[node as usize / BITS] |= 1 << (node as usize % BITS);
        // The kernel leaves the last bit of what it is given out.
        let bits = nodes.len() * BITS + 1;
        // SAFETY: the pages are this region's own, and `nodes` has that number of bits, but for
        // the one that is left out.
        let result =
            unsafe { libc::syscall(libc::SYS_mbind, self.at.as_ptr(), self.bytes, MPOL_BIND, nodes.as_ptr(), bits, 0) };
        check(result, "mbind", || format!("{} bytes on node {node}", self.bytes)).map(|_| ())
    }

    /// The NUMA node that its first page lies on; `None` where the kernel does not say.
    pub fn node(&self) -> Option<u32> {
        let (page, mut node) = (self.at.as_ptr(), -1_i32);
        let no_nodes = ptr::null::<i32>();
        // SAFETY: one page, no nodes to move it to, and room for one answer.
        let result =
            unsafe { libc::syscall(libc::SYS_move_pages, 0, 1_usize, &raw const page, no_nodes, &raw mut node, 0) };
        (result == 0).then(|| u32::try_from(node).ok()).flatten()
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if the kernel keeps it in memory.
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// All of its bytes, to be written.
    pub fn all(&mut self) -> &mut [u8] {
        // SAFETY: mapped, readable and writable, and this is the only reference to it.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.bytes) }
    }
}

/// Which of these regions lie in huge pages for the most part, as the kernel shows all of them at
/// once.
pub fn in_huge_pages(regions: &[&Region]) -> Vec<bool> {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut found = vec![false; regions.len()];
    let firsts: BTreeMap<usize, usize> =
        regions.iter().enumerate().map(|(n, region)| (region.at.as_ptr() as usize, n)).collect();
    let mut here: Vec<usize> = Vec::new();
    for line in smaps.lines() {
        let range = line.split_whitespace().next().and_then(|range| range.split_once('-'));
        let ends = range
            .and_then(|(from, to)| Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?)));
        if let Some((from, to)) = ends {
            here = firsts.range(from..to).map(|(_, n)| *n).collect();
        } else if let Some(kib) = line.strip_prefix("AnonHugePages:") {
            let kib: usize = kib.trim().trim_end_matches(" kB").parse().unwrap_or(0);
            // The kernel joins mappings that are next to each other into one.
            let bytes = here.iter().map(|n| regions[*n].bytes).sum::<usize>();
            here.iter().for_each(|n| found[*n] = kib * 1_024 >= bytes / 10 * 9);
        }
    }
    found
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is this region's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.mapped.as_ptr().cast(), self.mapped_bytes) };
    }
}

/// What a pass goes over: buffers of equal size, each at the beginning of a line of the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferWalk {
    pub count: u32,
    /// The size of each buffer.
    pub bytes: usize,
    /// Memory of each side that passes go through; then they begin anew.
    pub window: [usize; 2],
}

/// From one buffer's beginning to the next one's, bytes.
pub const fn stride(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE)
}

/// A thread's two sides and where its next buffers are.
#[derive(Debug)]
pub struct Walk {
    from: Region,
    to: Region,
    buffers: BufferWalk,
    at: [usize; 2],
}

impl Walk {
    /// Over these regions. `None` if a window does not lie in its region, or has no room for a
    /// buffer: then no pass would stay within them.
    pub fn new(from: Region, to: Region, buffers: BufferWalk) -> Option<Walk> {
        let fits = |region: &Region, window: usize| window <= region.bytes && buffers.bytes <= window && window > 0;
        let sound = buffers.bytes > 0 && fits(&from, buffers.window[0]) && fits(&to, buffers.window[1]);
        sound.then_some(Walk { from, to, buffers, at: [0, 0] })
    }

    /// What it went over, for the next trial.
    pub fn into_regions(self) -> [Region; 2] {
        [self.from, self.to]
    }

    /// Copies each buffer once.
    #[inline]
    pub fn pass(&mut self, method: Method) {
        self.next(self.buffers.count, method);
    }

    /// Copies the next `count` buffers.
    #[inline]
    pub fn next(&mut self, count: u32, method: Method) {
        // `each` gives two places with room for a buffer, in different regions, which are borrowed
        // for as long as this runs; the one that is written is at the beginning of a line.
        match method {
            Method::Memcpy => self.each(count, |from, to, bytes| {
                // SAFETY: by what `each` gives.
                unsafe { ptr::copy_nonoverlapping(from, to, bytes) }
            }),
            Method::NonTemporal => {
                self.each(count, |from, to, bytes| {
                    // SAFETY: by what `each` gives.
                    unsafe { streamed(from, to, bytes) }
                });
                fence();
            }
            Method::RepMovsb => self.each(count, |from, to, bytes| {
                // SAFETY: by what `each` gives.
                unsafe { rep_movsb(from, to, bytes) }
            }),
        }
    }

    /// Calls `copy` with the places of `count` buffers in turn.
    #[inline]
    fn each(&mut self, count: u32, copy: impl Fn(*const u8, *mut u8, usize)) {
        let BufferWalk { bytes, window, .. } = self.buffers;
        let step = stride(bytes);
        for _ in 0..count {
            // Where the next buffer would not lie wholly in the window, it begins anew.
            for (at, window) in self.at.iter_mut().zip(window) {
                if *at + bytes > window {
                    *at = 0;
                }
            }
            // SAFETY: `at` and the buffer behind it lie in the window, and that in the region.
            let (from, to) = unsafe { (self.from.at.add(self.at[0]), self.to.at.add(self.at[1])) };
            copy(from.as_ptr(), to.as_ptr(), bytes);
            self.at = self.at.map(|at| at + step);
        }
    }
}

/// True if this CPU has the instructions.
pub const fn can(method: Method) -> bool {
    matches!(method, Method::Memcpy) || cfg!(target_arch = "x86_64")
}

#[cfg(target_arch = "x86_64")]
fn fence() {
    // SAFETY: every x86-64 processor has the instruction. Stores that pass the caches by are done
    // when the pass is.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn fence() {}

/// Copies by stores that pass the caches by; the rest after the last whole line in the usual way.
///
/// # Safety
/// Both places have room for `bytes`, do not overlap, and `to` is at the beginning of a line.
#[cfg(target_arch = "x86_64")]
unsafe fn streamed(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let whole = bytes / LINE * LINE;
    for line in (0..whole).step_by(LINE) {
        for part in [0, 16, 32, 48] {
            // SAFETY: `line + part + 16` is at most `whole`; `to` is aligned as a line is.
            unsafe {
                let four = _mm_loadu_si128(from.add(line + part).cast::<__m128i>());
                _mm_stream_si128(to.add(line + part).cast::<__m128i>(), four);
            }
        }
    }
    // SAFETY: what is left lies within both.
    unsafe { ptr::copy_nonoverlapping(from.add(whole), to.add(whole), bytes - whole) };
}

/// Copies by one instruction.
///
/// # Safety
/// Both places have room for `bytes`, and do not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn rep_movsb(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's word; the direction flag is clear by the calling convention.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

// Nobody calls these: `can` says so before.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn streamed(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's word.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn rep_movsb(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's word.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
}
