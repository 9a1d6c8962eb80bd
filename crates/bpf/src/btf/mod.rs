// SPDX-License-Identifier: MIT OR Apache-2.0
//! BTF, the BPF Type Format: the types of a program, of the kernel or of a module as a table of
//! bytes. This is a reader of that table ([`Btf`]), without libbpf.
//!
//! The format is the kernel's: `Documentation/bpf/btf.rst` and `include/uapi/linux/btf.h`. The
//! table may come from anybody. So every offset is checked, no chain of types is followed further
//! than [`MOST_STEPS`], and no name is longer than [`MOST_NAME`].

mod error;
mod kind;
mod limits;
mod read;
mod resolve;
mod table;

pub use error::BtfError;
pub use kind::TypeKind;
pub use limits::{MOST_NAME, MOST_STEPS};
pub use table::{Btf, Integer, StructMember, Type};
