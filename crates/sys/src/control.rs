// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control messages of a socket: an aligned buffer, and a walk over what the kernel put in.

use std::{mem, ptr};

/// Room for control messages, aligned as the kernel wants it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct ControlBuffer<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for ControlBuffer<N> {
    fn default() -> Self {
        ControlBuffer([0; N])
    }
}

/// Calls `each` with level, type and data of every control message.
#[inline]
pub(crate) fn for_each(message: &libc::msghdr, mut each: impl FnMut(i32, i32, &[u8])) {
    // SAFETY: `message` was filled by the kernel: control pointer and length describe initialised
    // memory, in which the CMSG macros stay; each message's length counts its header.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while !at.is_null() {
            let header = ptr::read(at);
            let length = (header.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            each(header.cmsg_level, header.cmsg_type, std::slice::from_raw_parts(libc::CMSG_DATA(at), length));
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
}

/// A plain value out of a control message's data, if it is long enough.
#[inline]
pub(crate) fn value<T: Plain>(data: &[u8]) -> Option<T> {
    // SAFETY: the length is checked; `Plain` types are valid for every bit pattern; the read is
    // unaligned.
    (data.len() >= mem::size_of::<T>()).then(|| unsafe { ptr::read_unaligned(data.as_ptr().cast()) })
}

/// Types that are valid for every bit pattern.
///
/// # Safety
/// Only for types without padding rules, references or niches.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: C structs of integers.
unsafe impl Plain for [libc::timespec; 3] {}
// SAFETY: as above.
unsafe impl Plain for libc::sock_extended_err {}
// SAFETY: as above.
unsafe impl Plain for libc::tpacket_auxdata {}
