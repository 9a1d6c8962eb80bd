// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why packets of a device do not come to AF_XDP sockets.

use crate::program::ProgramError;
use std::io;
use tardy_model::xdp::XdpRefusal;
use tardy_sys::SysError;

#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// It was asked for its number or its queues.
    #[error("{0}: {1} is not in this namespace any more, something outside tardy removed it; run again")]
    Device(#[source] SysError, String),
    #[error("queue {queue} of {device} is not there, it has {queues}: name one of them, counted from 0")]
    NoQueue { device: String, queue: u32, queues: u32 },
    #[error(
        "another XDP program is attached to {device}: take it off (`ip link set dev {device} xdp off`), or end the \
         program that holds its link, then run again"
    )]
    Attached { device: String },
    #[error(
        "{device} has an XDP program in another mode, and the kernel runs programs of one mode only: take it off \
         (`ip link set dev {device} xdpgeneric off`), then run again"
    )]
    OtherMode { device: String },
    #[error(
        "no XDP program can be attached to {device} ({}): take another device, or port packet",
        refused.iter().map(|of| format!("{}: {}", of.mode.name(), of.why)).collect::<Vec<_>>().join("; ")
    )]
    Refused { device: String, refused: Vec<XdpRefusal> },
    #[error("queue {queue} of {device} has an AF_XDP socket of another program: end that program, then run again")]
    Bound { device: String, queue: u32 },
    #[error(
        "no AF_XDP socket can be bound to queue {queue} of {device}: {source}: is it up, and does this kernel have \
         AF_XDP (CONFIG_XDP_SOCKETS, Linux 5.11)?"
    )]
    Bind { device: String, queue: u32, source: io::Error },
    #[error(
        "the packets of {device} need {bytes} bytes of memory for {queues} queues, and {available} are available: \
         free some, or give the device fewer queues (path.queues, or `ethtool -L`)"
    )]
    TooLarge { device: String, bytes: u64, queues: u32, available: u64 },
    #[error(
        "{call} for {device}: {source}: does this kernel have AF_XDP (CONFIG_XDP_SOCKETS, Linux 5.11), and may \
         this user have it (root)?"
    )]
    Socket { call: &'static str, device: String, source: io::Error },
}
