// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hint of one packet, and why there may be none.

use super::field::Field;
use super::layout::{Layout, Member, MemberKind};
use std::fmt;

/// Why the bytes before a packet are no hint. That there is none is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HintError {
    /// The number is that of no hint struct of this BTF.
    #[error("type {id} is no hint struct of this BTF: read the BTF of the object that is loaded")]
    Unknown { id: u32 },
    /// The area ends before the struct begins. Without four bytes there is no number either.
    #[error("the area before the packet has {have} bytes, and the hint needs {need}")]
    Truncated { id: Option<u32>, have: usize, need: usize },
}

/// A hint: its layout, and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Hint<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
}

/// What a member holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// What is no number: an array, a struct, an integer of 16 bytes.
    Bytes(&'a [u8]),
}

impl<'a> Hint<'a> {
    /// `bytes` are as many as the layout's size.
    #[inline]
    pub(super) fn new(layout: &'a Layout, bytes: &'a [u8]) -> Hint<'a> {
        Hint { layout, bytes }
    }

    pub fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// The number of the struct's type.
    #[inline]
    pub fn id(&self) -> u32 {
        self.layout.id
    }

    /// The struct, `btf_id` at its end.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What a member of this layout holds. To read one member of many hints use an
    /// [`Accessor`](super::Accessor).
    pub fn value(&self, member: &Member) -> Value<'a> {
        let bytes = self.bytes.get(member.offset..).and_then(|rest| rest.get(..member.size)).unwrap_or_default();
        let number = Field::of(member).and_then(|field| Some((field.read(self.bytes)?, field.is_signed())));
        match (number, member.kind) {
            (Some((number, true)), _) => Value::Signed(number as i64),
            (Some((number, false)), _) => Value::Unsigned(number),
            (None, MemberKind::Float) => match (bytes.first_chunk(), bytes.first_chunk(), bytes.len()) {
                (Some(chunk), _, 4) => Value::Float(f64::from(f32::from_le_bytes(*chunk))),
                (_, Some(chunk), 8) => Value::Float(f64::from_le_bytes(*chunk)),
                _ => Value::Bytes(bytes),
            },
            (None, _) => Value::Bytes(bytes),
        }
    }
}

impl fmt::Display for Value<'_> {
    /// Bytes in hexadecimal, in their order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unsigned(number) => write!(f, "{number}"),
            Value::Signed(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number}"),
            Value::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl fmt::Display for Hint<'_> {
    /// `rx_time { time=7, cpu=1, btf_id=12 }`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {{", self.layout.name)?;
        for (n, member) in self.layout.members.iter().enumerate() {
            write!(f, "{} {}={}", if n > 0 { "," } else { "" }, member.name, self.value(member))?;
        }
        write!(f, " }}")
    }
}
