// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page's header: a `PageHeader` in Thrift's compact protocol.

use super::damaged;
use parquet::errors::ParquetError;

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
const STRUCT: u8 = 12;

impl Header {
    /// Takes a header off the front of some bytes.
    pub fn read(bytes: &mut &[u8]) -> Result<Self, ParquetError> {
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

fn about(bytes: &mut &[u8]) -> Result<About, ParquetError> {
    let mut about = About::default();
    fields(bytes, |id, kind, bytes| {
        match (id, kind) {
            (1, 4..=6) => about.values = usize::try_from(zigzag(bytes)?).map_err(|_| damaged("a page of no rows"))?,
            (2, 4..=6) => about.encoding = zigzag(bytes)?,
            _ => skip(bytes, kind, 0)?,
        }
        Ok(())
    })?;
    Ok(about)
}

/// Calls back for each field of a struct, with its number and the kind of its value.
fn fields(
    bytes: &mut &[u8],
    mut field: impl FnMut(i64, u8, &mut &[u8]) -> Result<(), ParquetError>,
) -> Result<(), ParquetError> {
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

fn skip(bytes: &mut &[u8], kind: u8, depth: u32) -> Result<(), ParquetError> {
    match kind {
        // The kind of a truth value is its value.
        1 | 2 => Ok(()),
        3 => byte(bytes).map(drop),
        4..=6 => varint(bytes).map(drop),
        STRUCT if depth < 4 => fields(bytes, |_, kind, bytes| skip(bytes, kind, depth + 1)),
        _ => Err(damaged(format!("a page's header holds a value of kind {kind}"))),
    }
}

pub(super) fn byte(bytes: &mut &[u8]) -> Result<u8, ParquetError> {
    let (first, rest) = bytes.split_first().ok_or_else(|| damaged("a page ends early"))?;
    *bytes = rest;
    Ok(*first)
}

/// Seven bits a byte, the lowest first.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, ParquetError> {
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
pub(super) fn zigzag(bytes: &mut &[u8]) -> Result<i64, ParquetError> {
    varint(bytes).map(|value| (value >> 1) as i64 ^ -((value & 1) as i64))
}
