// SPDX-License-Identifier: MIT OR Apache-2.0
//! BPF: tardy's XDP program with its loader, and the AF_XDP sockets that it redirects packets to.
//! Unsafe code is in [`xsk`] alone; each block says why it is sound.

pub mod program;
pub mod rx_time;
pub mod xsk;
