// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why bytes are no BTF, or what in it is wrong.

use super::limits::{MOST_NAME, MOST_STEPS};

/// Why BTF cannot be read. Each message is a clause that goes after a source's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BtfError {
    #[error("it has {0} bytes, and the header of BTF alone has 24")]
    Short(usize),
    #[error("it has {0} bytes, and BTF counts its bytes in 32 bits")]
    Long(usize),
    #[error("it begins with {0:#06x} and not with the magic number of BTF, 0xeb9f")]
    Magic(u16),
    #[error(
        "it is BTF of a big-endian machine, and hints are read in the order of this one: compile the object for \
         this machine (clang -target bpfel)"
    )]
    BigEndian,
    #[error("it is version {0} of BTF, and only version 1 is known")]
    Version(u8),
    #[error("its header claims to have {claimed} bytes, and it needs 24 to {whole}")]
    Header { claimed: u32, whole: usize },
    #[error("its {what} claim {length} bytes at {offset}, and {there} bytes follow the header")]
    Section { what: &'static str, offset: u32, length: u32, there: usize },
    #[error("its strings do not end with a zero byte")]
    Endless,
    #[error(
        "it continues the types of another BTF, as that of a kernel module does: name the module itself, and it is \
         read on top of vmlinux"
    )]
    Split,
    #[error("type {id} is of kind {kind}, and only kinds 1 to 19 are known")]
    Kind { id: u32, kind: u8 },
    #[error("type {0} ends beyond the last byte of the types")]
    Cut(u32),
    #[error("type {0} does not exist")]
    NoType(u32),
    #[error("a name is at {0}, where there are no strings")]
    NoName(u32),
    #[error("the name at {0} is not text, or has more than {MOST_NAME} bytes")]
    Name(u32),
    #[error("from type {0} more than {MOST_STEPS} types lead to no end")]
    Deep(u32),
    #[error("type {0} has no size")]
    Unsized(u32),
}
