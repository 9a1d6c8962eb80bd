// SPDX-License-Identifier: MIT OR Apache-2.0
//! The footer of a samples file: a `FileMetaData` in Thrift's compact protocol
//! (apache/parquet-format, `parquet.thrift`).
//!
//! Read without the library, which allocates memory for as many row groups and columns as a footer
//! claims, nests as deep as it claims, and walks lists of nothing to their end. Here every list is
//! as long as its bytes, and a schema is flat. The protocol itself is below; pages need it too.

use super::source::Source;
use crate::layout::{FIXED, KEY};
use crate::{CodecError, damaged};
use parquet::basic::{Repetition, Type};
use tardy_model::point::Point;
use tardy_model::xdp;

/// At both ends of a file.
const MARK: &[u8; 4] = b"PAR1";

/// The largest footer that is read: some 30,000 row groups, which are 30 G rows.
const LARGEST: u64 = 64 << 20;

/// No file has more columns: the fixed ones, one for each two points, and those of hints.
const MOST_COLUMNS: usize = FIXED.len() + Point::COUNT * Point::COUNT + 1 + xdp::MOST_COLUMNS;

/// What is of use in a footer.
pub(super) struct Footer {
    /// Where it begins in the file.
    pub begins: u64,
    pub columns: Vec<Column>,
    pub groups: Vec<Group>,
    /// The value of tardy's own entry.
    pub layout: Option<String>,
}

/// A column's place in the schema.
pub(super) struct Column {
    pub name: String,
    /// A number of `Type` in `parquet.thrift`.
    physical: i64,
    repetition: i64,
}

impl Column {
    pub fn is(&self, physical: Type, repetition: Repetition) -> bool {
        (self.physical, self.repetition) == (physical as i64, repetition as i64)
    }
}

#[derive(Default)]
pub(super) struct Group {
    pub rows: usize,
    /// One for each column.
    pub chunks: Vec<Place>,
}

/// Where a column's bytes are in a row group.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub start: u64,
    pub length: usize,
    pub values: usize,
    pub has_dictionary: bool,
    /// `CompressionCodec` in `parquet.thrift`: 0 for none, 6 for zstd.
    codec: i64,
}

impl Place {
    pub fn is_plain(&self) -> bool {
        self.codec == 0
    }

    pub fn is_zstd(&self) -> bool {
        self.codec == 6
    }
}

impl Footer {
    pub fn read(source: &dyn Source) -> Result<Self, CodecError> {
        let length = source.length().map_err(CodecError::reading)?;
        let mut ends = [0; 8];
        let Some(end) = length.checked_sub(8).filter(|end| *end >= MARK.len() as u64) else {
            return Err(damaged(format!("it has {length} bytes, which is too few for a Parquet file")));
        };
        source.read_exact_at(&mut ends, end).map_err(CodecError::reading)?;
        let [a, b, c, d, mark @ ..] = ends;
        if mark != *MARK {
            return Err(damaged("it does not end as a Parquet file does"));
        }
        let size = u64::from(u32::from_le_bytes([a, b, c, d]));
        let begins = end.checked_sub(size).filter(|begins| *begins >= MARK.len() as u64 && size <= LARGEST);
        let Some(begins) = begins else {
            return Err(damaged(format!("a footer of {size} bytes cannot be in a file of {length}")));
        };
        let mut bytes = vec![0; size as usize];
        source.read_exact_at(&mut bytes, begins).map_err(CodecError::reading)?;
        Footer::parse(&mut bytes.as_slice(), begins)
    }

    fn parse(bytes: &mut &[u8], begins: u64) -> Result<Self, CodecError> {
        let mut footer = Footer { begins, columns: Vec::new(), groups: Vec::new(), layout: None };
        fields(bytes, |id, kind, bytes| {
            match (id, kind) {
                (2, LIST) => footer.columns = schema(bytes)?,
                (4, LIST) => {
                    list(bytes, STRUCT, |bytes| {
                        footer.groups.push(group(bytes, footer.columns.len())?);
                        Ok(())
                    })?;
                }
                (5, LIST) => list(bytes, STRUCT, |bytes| entry(bytes, &mut footer.layout))?,
                _ => skip(bytes, kind, 0)?,
            }
            Ok(())
        })?;
        Ok(footer)
    }
}

/// The first element is the root; all others are columns.
fn schema(bytes: &mut &[u8]) -> Result<Vec<Column>, CodecError> {
    let mut columns: Option<Vec<Column>> = None;
    let mut promised = 0;
    list(bytes, STRUCT, |bytes| {
        let (mut name, mut physical, mut repetition, mut children) = (String::new(), None, 0, 0);
        fields(bytes, |id, kind, bytes| {
            match (id, kind) {
                (1, 4..=6) => physical = Some(zigzag(bytes)?),
                (3, 4..=6) => repetition = zigzag(bytes)?,
                (4, BINARY) => name = String::from_utf8_lossy(binary(bytes)?).into_owned(),
                (5, 4..=6) => children = whole(bytes)?,
                _ => skip(bytes, kind, 0)?,
            }
            Ok(())
        })?;
        match (&mut columns, physical) {
            (None, None) => {
                promised = children;
                columns = Some(Vec::new());
            }
            (Some(columns), Some(physical)) if children == 0 && columns.len() < MOST_COLUMNS => {
                columns.push(Column { name, physical, repetition });
            }
            _ => return Err(damaged("its columns are not those of a file of samples")),
        }
        Ok(())
    })?;
    let columns = columns.unwrap_or_default();
    if columns.len() != promised {
        return Err(damaged(format!("its footer promises {promised} columns and has {}", columns.len())));
    }
    Ok(columns)
}

fn group(bytes: &mut &[u8], columns: usize) -> Result<Group, CodecError> {
    let mut group = Group { rows: 0, chunks: Vec::with_capacity(columns) };
    fields(bytes, |id, kind, bytes| {
        match (id, kind) {
            (1, LIST) => list(bytes, STRUCT, |bytes| {
                let place = chunk(bytes)?;
                if group.chunks.len() == columns {
                    return Err(damaged("a row group has more columns than the file"));
                }
                group.chunks.push(place);
                Ok(())
            })?,
            (3, 4..=6) => group.rows = whole(bytes)?,
            _ => skip(bytes, kind, 0)?,
        }
        Ok(())
    })?;
    if group.chunks.len() == columns { Ok(group) } else { Err(damaged("a row group lacks a column")) }
}

fn chunk(bytes: &mut &[u8]) -> Result<Place, CodecError> {
    let mut place = None;
    fields(bytes, |id, kind, bytes| {
        match (id, kind) {
            (1, BINARY) => return Err(damaged("a column is in another file")),
            (3, STRUCT) => place = Some(about_chunk(bytes)?),
            _ => skip(bytes, kind, 0)?,
        }
        Ok(())
    })?;
    place.ok_or_else(|| damaged("its footer does not say where a column is"))
}

fn about_chunk(bytes: &mut &[u8]) -> Result<Place, CodecError> {
    let (mut data, mut dictionary, mut length, mut values, mut codec) = (None, None, None, None, None);
    fields(bytes, |id, kind, bytes| {
        match (id, kind) {
            (4, 4..=6) => codec = Some(zigzag(bytes)?),
            (5, 4..=6) => values = Some(whole(bytes)?),
            (7, 4..=6) => length = Some(whole(bytes)?),
            (9, 4..=6) => data = Some(whole(bytes)? as u64),
            (11, 4..=6) => dictionary = Some(whole(bytes)? as u64),
            _ => skip(bytes, kind, 0)?,
        }
        Ok(())
    })?;
    let (Some(data), Some(length), Some(values), Some(codec)) = (data, length, values, codec) else {
        return Err(damaged("its footer does not say where a column is"));
    };
    Ok(Place { start: dictionary.unwrap_or(data), length, values, has_dictionary: dictionary.is_some(), codec })
}

/// A key and its value; kept if it is tardy's.
fn entry(bytes: &mut &[u8], layout: &mut Option<String>) -> Result<(), CodecError> {
    let (mut key, mut value) = (&[][..], None);
    fields(bytes, |id, kind, bytes| {
        match (id, kind) {
            (1, BINARY) => key = binary(bytes)?,
            (2, BINARY) => value = Some(binary(bytes)?),
            _ => skip(bytes, kind, 0)?,
        }
        Ok(())
    })?;
    if let (true, Some(value)) = (key == KEY.as_bytes(), value) {
        let text = str::from_utf8(value).map_err(|why| damaged(format!("its footer is no text: {why}")))?;
        *layout = Some(text.to_owned());
    }
    Ok(())
}

// Thrift's compact protocol, as far as pages and footers need it, and a page's header in it: a
// `PageHeader`.

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
