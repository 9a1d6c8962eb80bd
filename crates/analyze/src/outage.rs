// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which errno tells of the path and which of tardy's own measuring. A path that is down loses
//! packets, which is a finding; a socket or memory that tardy lacks leaves the packets unseen,
//! which is none. The numbers are Linux's and are spelled out here, for the judging machine need
//! not be Linux.

/// What a broken call tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broke {
    /// tardy did not see what became of the packets.
    Measuring,
    /// The path or the peer was gone: the packets that did not come are lost.
    Path,
}

/// EBADF, ENOMEM, EFAULT, EINVAL, EBADMSG (bytes that are no message), ENOTSOCK, ENOBUFS.
const OF_MEASURING: [i32; 7] = [9, 12, 14, 22, 74, 88, 105];

/// ENXIO, ENODEV, EPIPE, ENETDOWN, ENETUNREACH, ECONNABORTED, ECONNRESET, ENOTCONN, ESHUTDOWN,
/// ETIMEDOUT, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH.
const OF_A_SEND: [i32; 13] = [6, 19, 32, 100, 101, 103, 104, 107, 108, 110, 111, 112, 113];

/// What the errno that ended a receiver tells of. A number that is not known here is the path's: a
/// loss must not be excused by a word that nobody understood.
pub fn of_receive(errno: i32) -> Broke {
    if OF_MEASURING.contains(&errno) { Broke::Measuring } else { Broke::Path }
}

/// True if a port that refuses a packet with this errno has no path or no peer, so that the packet
/// is lost as surely as one that vanished on the way. A full queue, a firewall or a packet that is
/// too long is no outage: such packets are not sent.
pub fn is_outage_of_send(errno: i32) -> bool {
    OF_A_SEND.contains(&errno)
}
