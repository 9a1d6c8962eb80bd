// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the C library's allocator treats memory that was freed.

/// Keep as much as it can count.
const NEVER: libc::c_int = libc::c_int::MAX;
/// The greatest threshold that glibc takes: half of the heap of a thread.
const LARGE: libc::c_int = 32 << 20;

/// Has freed memory kept for what is allocated next. By default large pieces go back to the kernel
/// at once, and each time they are allocated again, the kernel clears every page anew: a tenth of
/// the time that it takes to judge a large run.
pub fn keep_freed_memory() {
    // SAFETY: mallopt takes two numbers and changes settings of the allocator alone. A value that
    // it refuses changes nothing.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, NEVER);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        // A thread's own heap goes back as a whole once it is empty.
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
