// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls: clocks, scheduling, memory locking, namespaces, UDP and packet sockets with
//! kernel stamps. The only crate with unsafe code; each block says why it is sound. What is
//! returned has been read back from the kernel, not assumed.

mod call;
pub mod child;
pub mod clock;
pub mod datagrams;
pub mod error;
pub mod exits;
pub mod hwtstamp;
pub mod machine;
pub mod memory;
pub mod messages;
pub mod nic;
pub mod packet;
pub mod process;
pub mod stamps;
pub mod tcp;
pub mod thread;
pub mod udp;
pub mod wait;

pub use error::SysError;

// The name that this part of `process` had as a module; crates/lab still uses it.
pub use process as proc;
