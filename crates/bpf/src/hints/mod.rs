// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hints: what an XDP program knew of a packet, in a struct that it left in the metadata area just
//! before the packet. Only BTF describes the struct, so a receiver need not be compiled for it.
//!
//! The convention has three parts:
//!
//! - The struct's last member is `btf_id` and has 4 bytes. So the last 4 bytes before a packet are
//!   the number of a type, whatever struct that is.
//! - The program writes there what `bpf_core_type_id_local(struct …)` gives: the number of the
//!   struct in the object's own BTF. 0 means that there is no hint.
//! - The struct ends where the packet begins. So its size, which BTF has, leads to its beginning.
//!
//! [`Layouts`] are the structs of one BTF that can be hints. [`Layouts::read`] finds the one before
//! a packet. An [`Accessor`] is looked up by name once and reads one member in a few nanoseconds.
//!
//! The numbers belong to one BTF. Read it from the very bytes of the object that was loaded: a
//! second compilation may number its types otherwise.
//!
//! # Example
//!
//! This program prints the hints in areas that are given as hexadecimal bytes
//! (`crates/bpf/examples/decode.rs`; `decode.c` next to it does the same in C):
//!
//! ```no_run
#![doc = include_str!("../../examples/decode.rs")]
//! ```

mod accessor;
mod field;
mod find;
mod hint;
mod layout;
mod layouts;

pub use accessor::{Accessor, AccessorError};
pub use find::{FindError, MOST_AREA, MOST_MEMBERS, MOST_MEMBERS_OF_ALL, Unfit};
pub use hint::{Hint, HintError, Value};
pub use layout::{Layout, Member, MemberKind};
pub use layouts::{Layouts, LayoutsError};
