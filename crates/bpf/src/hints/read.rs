// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hint of one packet, what its members hold, and a member that was looked up by name once.

use super::layout::{Layout, Member, MemberKind};
use std::fmt;

/// Where a number is in a struct, and which of the bits there are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    offset: u32,
    bytes: u8,
    /// Bits below the number that go before the rest fits into 64: of a bitfield in nine bytes.
    first: u8,
    /// Bits to drop above the number, and then below it.
    above: u8,
    below: u8,
    is_signed: bool,
}

impl Field {
    /// That of a member; nothing if it is no number of at most 64 bits.
    pub(super) fn of(member: &Member) -> Option<Field> {
        let offset = u32::try_from(member.offset).ok()?;
        let bytes = u8::try_from(member.size).ok()?;
        let (bit, bits) = match member.kind {
            MemberKind::Bitfield { bit: bit @ 0..8, bits: bits @ 1..=64, .. } => (bit, bits),
            MemberKind::Integer { .. } | MemberKind::Bool | MemberKind::Enum { .. } | MemberKind::Pointer => {
                match bytes {
                    1 | 2 | 4 | 8 => (0, 8 * bytes),
                    _ => return None,
                }
            }
            _ => return None,
        };
        if bytes != (bit + bits).div_ceil(8) {
            return None;
        }
        let first = if bytes > 8 { bit } else { 0 };
        let (above, below) = (64 - bits - (bit - first), 64 - bits);
        Some(Field { offset, bytes, first, above, below, is_signed: member.kind.is_signed() })
    }

    const fn is_signed(&self) -> bool {
        self.is_signed
    }

    /// The number in this struct, with its sign in all 64 bits; nothing if the bytes end before.
    #[inline]
    pub(super) fn read(&self, bytes: &[u8]) -> Option<u64> {
        let rest = bytes.get(self.offset as usize..)?;
        // Eight bytes are read at once, whatever the size: the shifts drop what is not the
        // number's.
        let word = match rest.first_chunk() {
            Some(chunk) if self.bytes <= 8 => u64::from_le_bytes(*chunk),
            _ => self.word(rest)?,
        };
        let high = word << self.above;
        Some(if self.is_signed { (high as i64 >> self.below) as u64 } else { high >> self.below })
    }

    /// The word of a number in the last seven bytes, or of a bitfield in nine.
    #[inline(never)]
    fn word(&self, bytes: &[u8]) -> Option<u64> {
        let count = usize::from(self.bytes);
        let mut word = [0; 16];
        word.get_mut(..count)?.copy_from_slice(bytes.get(..count)?);
        Some((u128::from_le_bytes(word) >> self.first) as u64)
    }
}

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
    /// [`Accessor`].
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

/// Why there is no accessor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessorError {
    #[error("there is no hint struct `{name}`: there are {known}")]
    NoStruct { name: String, known: String },
    #[error("{count} hint structs are called `{name}`: choose one by its id with Accessor::new")]
    Ambiguous { name: String, count: usize },
    #[error("`{layout}` has no member `{name}`: it has {known}")]
    NoMember { layout: String, name: String, known: String },
    #[error("`{member}` of `{layout}` is {what} of {size} bytes and not a number of 1, 2, 4 or 8: use Hint::value")]
    NoNumber { layout: String, member: String, what: &'static str, size: usize },
}

/// Reads one member of one hint struct as a number: an integer, a bool, an enum, a pointer or a
/// bitfield, at any address. It can be copied, and belongs to the BTF that it was looked up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accessor {
    id: u32,
    field: Field,
}

impl Accessor {
    /// That of a member of this layout.
    ///
    /// # Errors
    /// If there is no such member, or it is no number.
    pub fn new(layout: &Layout, name: &str) -> Result<Accessor, AccessorError> {
        let none = || AccessorError::NoMember {
            layout: layout.name.clone(),
            name: name.to_owned(),
            known: layout.members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>().join(", "),
        };
        let member = layout.member(name).ok_or_else(none)?;
        let field = Field::of(member).ok_or_else(|| no_number(layout, member))?;
        Ok(Accessor { id: layout.id, field })
    }

    /// The type of the hints that have the member.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// True if the member may be below zero: read it by [`i64`](Self::i64) then.
    pub const fn is_signed(&self) -> bool {
        self.field.is_signed()
    }

    /// The member of this hint; nothing if it is a hint of another struct. A negative number is the
    /// same 64 bits as that of [`i64`](Self::i64).
    #[inline]
    pub fn u64(&self, hint: &Hint<'_>) -> Option<u64> {
        if hint.id() == self.id { self.field.read(hint.bytes()) } else { None }
    }

    /// The member of this hint with its sign; nothing if it is a hint of another struct.
    #[inline]
    pub fn i64(&self, hint: &Hint<'_>) -> Option<i64> {
        self.u64(hint).map(|number| number as i64)
    }
}

#[cold]
fn no_number(layout: &Layout, member: &Member) -> AccessorError {
    AccessorError::NoNumber {
        layout: layout.name.clone(),
        member: member.name.clone(),
        what: member.kind.word(),
        size: member.size,
    }
}
