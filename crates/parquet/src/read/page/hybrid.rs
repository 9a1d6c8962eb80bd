// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small numbers as runs and packed bits (RLE / bit-packed hybrid): definition levels and places
//! in a dictionary.

use crate::error::{CodecError, damaged};
use crate::read::thrift::{byte, varint};

/// A page's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers<'a> {
    /// All are this one, which is the usual case.
    All(u8),
    Each(&'a [u8]),
}

impl Numbers<'_> {
    pub fn is_one(&self, row: usize) -> bool {
        match self {
            Numbers::All(number) => *number == 1,
            Numbers::Each(numbers) => numbers[row] == 1,
        }
    }

    /// How many are 1: the values of a nullable column that are not null, if these are its levels.
    pub fn ones(&self, rows: usize) -> usize {
        match self {
            Numbers::All(number) => rows * usize::from(*number == 1),
            Numbers::Each(numbers) => numbers.iter().map(|number| usize::from(*number == 1)).sum(),
        }
    }
}

/// The definition levels at the front of a nullable column's page, and the values behind them.
pub(crate) fn levels<'a, 'p>(
    page: &'p [u8],
    rows: usize,
    room: &'a mut Vec<u8>,
) -> Result<(Numbers<'a>, &'p [u8]), CodecError> {
    let (length, rest) = page.split_first_chunk().ok_or_else(|| damaged("a page ends early"))?;
    let length = u32::from_le_bytes(*length) as usize;
    let (levels, values) = rest.split_at_checked(length).ok_or_else(|| damaged("a page ends early"))?;
    Ok((numbers(levels, 1, rows, room)?, values))
}

/// The places in a dictionary that a page of them holds: their width in bits, then the numbers.
pub(crate) fn places<'a>(mut page: &[u8], rows: usize, room: &'a mut Vec<u8>) -> Result<Numbers<'a>, CodecError> {
    let width = byte(&mut page)?;
    if width > 8 {
        return Err(damaged(format!("a dictionary with places of {width} bits")));
    }
    numbers(page, width, rows, room)
}

/// `rows` numbers of `width` bits, at most 8.
fn numbers<'a>(mut bytes: &[u8], width: u8, rows: usize, room: &'a mut Vec<u8>) -> Result<Numbers<'a>, CodecError> {
    room.clear();
    while room.len() < rows {
        let head = varint(&mut bytes)?;
        let left = rows - room.len();
        if head & 1 == 0 {
            let value = if width == 0 { 0 } else { byte(&mut bytes)? };
            let run = usize::try_from(head >> 1).unwrap_or(usize::MAX);
            if run == 0 || u32::from(value) >> width != 0 {
                return Err(damaged("a run of nothing, or of what its bits cannot hold"));
            }
            if run >= rows && left == rows {
                return Ok(Numbers::All(value));
            }
            room.resize(room.len() + run.min(left), value);
        } else {
            // Eight numbers at a time, of `width` bytes together.
            let groups = usize::try_from(head >> 1).unwrap_or(usize::MAX).min(left.div_ceil(8));
            if groups == 0 {
                return Err(damaged("a run of nothing"));
            }
            for _ in 0..groups {
                let (group, rest) = bytes.split_at_checked(width.into()).ok_or_else(|| damaged("a page ends early"))?;
                bytes = rest;
                let packed = group.iter().rev().fold(0u64, |packed, byte| packed << 8 | u64::from(*byte));
                let mask = (1u64 << width) - 1;
                let numbers = (0..8).map(|n| (packed >> (n * width) & mask) as u8);
                room.extend(numbers.take(rows - room.len()));
            }
        }
    }
    Ok(Numbers::Each(room))
}
