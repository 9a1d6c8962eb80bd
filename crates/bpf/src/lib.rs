// SPDX-License-Identifier: MIT OR Apache-2.0
//! BPF: tardy's XDP program with its loader, a user's own in its place, the AF_XDP sockets that it
//! redirects packets to, what XDP programs leave before packets, and the types (BTF) that describe
//! it. Unsafe code is in the rings of [`xsk`] alone; each block says why it is sound.

pub mod btf;
pub mod forward;
pub mod hints;
pub mod pass;
pub mod pitfalls;
pub mod probes;
pub mod program;
pub mod scan;
pub mod source;
pub mod types;
pub mod user;
pub mod xsk;
