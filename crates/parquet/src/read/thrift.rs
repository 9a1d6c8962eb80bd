// SPDX-License-Identifier: MIT OR Apache-2.0
//! Thrift's compact protocol, as far as pages and footers need it, and a page's header in it: a
//! `PageHeader`.

use crate::error::{CodecError, damaged};

/// What is of use in a page's header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header {
    pub uncompressed: usize,
    pub compressed: usize,
    pub data: Option<About>,
    pub dictionary: Option<About>,
}

/// Of a data page or a dictionary.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About {
    pub values: usize,
    pub encoding: i64,
}

const STOP: u8 = 0;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
pub(super) const STRUCT: u8 = 12;

/// No value that is passed over is nested deeper.
const DEEPEST: u32 = 8;

impl Header {
    /// Takes a header off the front of some bytes.
    pub fn read(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        let mut header = Header::default();
        let mut sizes = [None; 2];
        fields(bytes, |id, kind, bytes| {
            match (id, kind) {
                (2 | 3, 4..=6) => sizes[usize::from(id == 3)] = usize::try_from(zigzag(bytes)?).ok(),
                (5, STRUCT) => header.data = Some(about(bytes)?),
                (7, STRUCT) => header.dictionary = Some(about(bytes)?),
                _ => skip(bytes, kind, 0)?,
            }
            Ok(())
        })?;
        let [Some(uncompressed), Some(compressed)] = sizes else { return Err(damaged("a page has no size")) };
        Ok(Header { uncompressed, compressed, ..header })
    }
}

fn about(bytes: &mut &[u8]) -> Result<About, CodecError> {
    let mut about = About::default();
    fields(bytes, |id, kind, bytes| {
        match (id, kind) {
            (1, 4..=6) => about.values = whole(bytes)?,
            (2, 4..=6) => about.encoding = zigzag(bytes)?,
            _ => skip(bytes, kind, 0)?,
        }
        Ok(())
    })?;
    Ok(about)
}

/// Calls back for each field of a struct, with its number and the kind of its value.
pub(super) fn fields<'a>(
    bytes: &mut &'a [u8],
    mut field: impl FnMut(i64, u8, &mut &'a [u8]) -> Result<(), CodecError>,
) -> Result<(), CodecError> {
    let mut id = 0i64;
    loop {
        let head = byte(bytes)?;
        let (step, kind) = (head >> 4, head & 15);
        if kind == STOP {
            return Ok(());
        }
        id = if step == 0 { zigzag(bytes)? } else { id.saturating_add(i64::from(step)) };
        field(id, kind, bytes)?;
    }
}

/// Calls back for each value of a list, which are of one kind. A callback takes a byte at least,
/// so that a list ends with its bytes, whatever length it claims.
pub(super) fn list<'a>(
    bytes: &mut &'a [u8],
    of: u8,
    mut item: impl FnMut(&mut &'a [u8]) -> Result<(), CodecError>,
) -> Result<(), CodecError> {
    let (length, kind) = list_head(bytes)?;
    if kind != of {
        return Err(damaged(format!("a list of kind {kind}, not {of}")));
    }
    (0..length).try_for_each(|_| item(bytes))
}

fn list_head(bytes: &mut &[u8]) -> Result<(u64, u8), CodecError> {
    let head = byte(bytes)?;
    let length = if head >> 4 == 15 { varint(bytes)? } else { u64::from(head >> 4) };
    Ok((length, head & 15))
}

/// Passes over a value.
pub(super) fn skip(bytes: &mut &[u8], kind: u8, depth: u32) -> Result<(), CodecError> {
    if depth == DEEPEST {
        return Err(damaged("its values are nested too deep"));
    }
    match kind {
        // The kind of a truth value is its value.
        1 | 2 => Ok(()),
        3 => byte(bytes).map(drop),
        4..=6 => varint(bytes).map(drop),
        BINARY => binary(bytes).map(drop),
        LIST => {
            let (length, of) = list_head(bytes)?;
            // In a list a truth value takes a byte.
            let of = if matches!(of, 1 | 2) { 3 } else { of };
            (0..length).try_for_each(|_| skip(bytes, of, depth + 1))
        }
        STRUCT => fields(bytes, |_, kind, bytes| skip(bytes, kind, depth + 1)),
        _ => Err(damaged(format!("a value of kind {kind}"))),
    }
}

/// A text or other bytes, with their length before them.
pub(super) fn binary<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], CodecError> {
    let length = usize::try_from(varint(bytes)?).unwrap_or(usize::MAX);
    let (taken, rest) = bytes.split_at_checked(length).ok_or_else(|| damaged("a text ends early"))?;
    *bytes = rest;
    Ok(taken)
}

/// A number that is not negative: a count, a length or a place.
pub(super) fn whole(bytes: &mut &[u8]) -> Result<usize, CodecError> {
    let value = zigzag(bytes)?;
    usize::try_from(value).map_err(|_| damaged(format!("a count or a place of {value}")))
}

pub(super) fn byte(bytes: &mut &[u8]) -> Result<u8, CodecError> {
    let (first, rest) = bytes.split_first().ok_or_else(|| damaged("a page ends early"))?;
    *bytes = rest;
    Ok(*first)
}

/// Seven bits a byte, the lowest first.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, CodecError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let next = byte(bytes)?;
        value |= u64::from(next & 127) << shift;
        if next < 128 {
            return Ok(value);
        }
    }
    Err(damaged("a number is too long"))
}

/// Sign in the lowest bit.
pub(super) fn zigzag(bytes: &mut &[u8]) -> Result<i64, CodecError> {
    varint(bytes).map(|value| (value >> 1) as i64 ^ -((value & 1) as i64))
}
