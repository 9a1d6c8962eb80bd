// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to do about a socket that the kernel refuses, by the reason that it gives. Pure.

/// What to do next after this errno.
pub fn after(errno: i32) -> &'static str {
    match errno {
        libc::EADDRINUSE => "is another program using the address or the port in this namespace?",
        libc::EADDRNOTAVAIL => {
            "the address is not in this namespace any more: something outside tardy removed it; run again"
        }
        libc::EPERM | libc::EACCES => "it needs rights that root has (CAP_NET_RAW for port packet): run it with sudo",
        libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT => {
            "this kernel does not have it, or it is switched off: take another port, or ip = \"ipv4\""
        }
        libc::ENOBUFS | libc::ENOMEM => "the kernel has no memory for it: ask for fewer streams or shorter trials",
        libc::EMFILE | libc::ENFILE => {
            "too many files are open: raise the limit (`ulimit -n`), or ask for fewer streams and loads"
        }
        libc::EINVAL | libc::ENOPROTOOPT | libc::EOPNOTSUPP => {
            "this kernel does not know what was asked of the socket: try it on a newer one (--in guest)"
        }
        _ => "run it again; if it fails again, report it with this message: tardy does not know this reason",
    }
}
