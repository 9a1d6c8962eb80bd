// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a whole number is taken out of bytes that begin at any address.

use super::layout::{Member, MemberKind};

/// Where a number is in a struct, and which of the bits there are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
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

    pub(super) const fn is_signed(&self) -> bool {
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
