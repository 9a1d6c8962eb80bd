// SPDX-License-Identifier: MIT OR Apache-2.0
//! A member that was looked up by name once.

use super::field::Field;
use super::hint::Hint;
use super::layout::{Layout, Member};

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
