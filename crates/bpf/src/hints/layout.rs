// SPDX-License-Identifier: MIT OR Apache-2.0
//! What BTF says of a hint struct.

/// A struct that can be left before a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The struct's name, or that of a typedef of it.
    pub name: String,
    /// The number of the type, as the program writes it into `btf_id`.
    pub id: u32,
    /// Bytes from its beginning to the packet: to the end of `btf_id`.
    pub size: usize,
    /// Bytes that the compiler put after `btf_id`. Where there are any, the program must not place
    /// the struct by its `sizeof`: the last 4 bytes before the packet would be padding.
    pub padding: usize,
    /// In the order of the struct; `btf_id` is the last.
    pub members: Vec<Member>,
}

/// A member of a hint struct. Those of an unnamed struct or union within it are its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// From the beginning of the struct, in bytes. Of a bitfield, that of its first bit.
    pub offset: usize,
    /// In bytes. Of a bitfield, the number of bytes that its bits are in.
    pub size: usize,
    pub kind: MemberKind,
    /// Its type as C writes it: `__u64`, `enum xdp_rss_hash_type`, `__u8[6]`.
    pub type_name: String,
}

/// How a member's bytes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberKind {
    Integer {
        signed: bool,
    },
    Bool,
    Enum {
        signed: bool,
    },
    Float,
    Pointer,
    /// Some bits from this one of the member's first byte on, the lowest being 0.
    Bitfield {
        bit: u8,
        bits: u8,
        signed: bool,
    },
    Array {
        count: u32,
    },
    /// A named struct or union within.
    Struct,
}

impl Layout {
    /// The member of this name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

impl MemberKind {
    /// True for numbers below zero.
    pub const fn is_signed(self) -> bool {
        match self {
            MemberKind::Integer { signed } | MemberKind::Enum { signed } | MemberKind::Bitfield { signed, .. } => {
                signed
            }
            MemberKind::Float => true,
            MemberKind::Bool | MemberKind::Pointer | MemberKind::Array { .. } | MemberKind::Struct => false,
        }
    }

    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            MemberKind::Integer { signed: true } => "signed",
            MemberKind::Integer { signed: false } => "unsigned",
            MemberKind::Bool => "bool",
            MemberKind::Enum { .. } => "enum",
            MemberKind::Float => "float",
            MemberKind::Pointer => "pointer",
            MemberKind::Bitfield { .. } => "bitfield",
            MemberKind::Array { .. } => "array",
            MemberKind::Struct => "struct",
        }
    }
}
