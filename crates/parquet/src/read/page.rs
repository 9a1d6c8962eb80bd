// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of a column chunk, and the encodings of their values, read without the library: it
//! copies a page three times and looks at each value by itself.
//!
//! tardy knows here only what `write` writes: version 1 data pages of one level, each preceded by
//! its header in Thrift's compact protocol (apache/parquet-format, `parquet.thrift`). Anything else
//! is damage.
//!
//! - DELTA_BINARY_PACKED: differences less the least of a block, in as many bits as the greatest of
//!   a miniblock needs. Equal differences need none, and `seq` and `scheduled_ns` nearly always
//!   have equal ones.
//! - RLE / bit-packed hybrid: small numbers as runs and packed bits, for definition levels and
//!   places in a dictionary.
//! - BYTE_STREAM_SPLIT: the lowest bytes of all values, then the second lowest, and so on. The
//!   upper ones are nearly always 0 in all values of a page, and are then not read one by one.

use super::footer::{Group, Header, byte, varint, zigzag};
use super::source::Source;
use crate::PAGE_ROWS;
use crate::{CodecError, damaged};
use std::ops::Range;
use tardy_model::sample::MaybeNanos;
use zstd::bulk::Decompressor;

/// No page that is written is longer: levels, eight bytes a row, and room for what a dictionary or
/// a header takes.
pub(super) const LONGEST: usize = 16 * PAGE_ROWS;

/// These are numbers of `Encoding` in `parquet.thrift`.
const PLAIN: i64 = 0;
/// The former name of both `PLAIN` in a dictionary and [`RLE_DICTIONARY`] in a data page, which
/// version 1 still uses.
const PLAIN_DICTIONARY: i64 = 2;
pub(super) const DELTA_BINARY_PACKED: i64 = 5;
pub(super) const RLE_DICTIONARY: i64 = 8;
pub(super) const BYTE_STREAM_SPLIT: i64 = 9;

/// One column of one row group, page after page.
#[derive(Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    at: usize,
    decompressor: Option<Decompressor<'static>>,
}

/// A column of a stream: which one, and its bytes in the row group that is open.
pub(super) struct Opened {
    index: usize,
    pub chunk: Chunk,
}

impl Opened {
    pub fn new(index: usize) -> Self {
        Opened { index, chunk: Chunk::default() }
    }

    pub fn open(&mut self, source: &dyn Source, group: &Group) -> Result<(), CodecError> {
        let place = group.chunks[self.index];
        self.chunk.load(source, place.start, place.length, place.is_zstd())
    }
}

impl Chunk {
    /// Reads the bytes of another chunk.
    pub fn load(&mut self, source: &dyn Source, start: u64, length: usize, compressed: bool) -> Result<(), CodecError> {
        self.bytes.resize(length, 0);
        source.read_exact_at(&mut self.bytes, start).map_err(CodecError::reading)?;
        self.at = 0;
        if compressed && self.decompressor.is_none() {
            let made = Decompressor::new();
            self.decompressor = Some(made.map_err(|why| CodecError::Damaged(why.to_string()))?);
        }
        Ok(())
    }

    /// The values of the dictionary, in PLAIN, and how many there are. Comes before the data pages.
    pub fn dictionary(&mut self) -> Result<(usize, &[u8]), CodecError> {
        let (header, body) = self.header()?;
        match header.dictionary {
            Some(page) if [PLAIN, PLAIN_DICTIONARY].contains(&page.encoding) => Ok((page.values, &self.bytes[body])),
            _ => Err(damaged("a dictionary is missing")),
        }
    }

    /// Replaces `page` by the bytes of the next data page: levels, if the column is nullable, and
    /// values.
    pub fn data(&mut self, rows: usize, encoding: i64, page: &mut Vec<u8>) -> Result<(), CodecError> {
        let (header, body) = self.header()?;
        let Some(about) = header.data else { return Err(damaged("a data page is missing")) };
        let same = about.encoding == encoding || (about.encoding, encoding) == (PLAIN_DICTIONARY, RLE_DICTIONARY);
        if about.values != rows || !same {
            let why =
                format!("a page has {} rows in encoding {}, not {rows} in {encoding}", about.values, about.encoding);
            return Err(damaged(why));
        }
        let stored = &self.bytes[body];
        let Some(decompressor) = &mut self.decompressor else {
            page.clear();
            page.extend_from_slice(stored);
            return Ok(());
        };
        page.resize(header.uncompressed, 0);
        match decompressor.decompress_to_buffer(stored, page.as_mut_slice()) {
            Ok(length) if length == header.uncompressed => Ok(()),
            Ok(length) => Err(damaged(format!("a page has {length} bytes, not {}", header.uncompressed))),
            Err(why) => Err(damaged(format!("a page cannot be decompressed: {why}"))),
        }
    }

    /// The next page's header, and where its bytes are.
    fn header(&mut self) -> Result<(Header, std::ops::Range<usize>), CodecError> {
        let mut rest = self.bytes.get(self.at..).unwrap_or_default();
        let header = Header::read(&mut rest)?;
        let start = self.bytes.len() - rest.len();
        if header.compressed > rest.len() || header.uncompressed > LONGEST {
            return Err(damaged("a page is longer than its column"));
        }
        self.at = start + header.compressed;
        Ok((header, start..self.at))
    }
}

/// Replaces `out` by a page's values, of which there must be `rows`.
pub(super) fn decode_delta(mut bytes: &[u8], rows: usize, out: &mut Vec<i64>) -> Result<(), CodecError> {
    out.clear();
    let block = varint(&mut bytes)?;
    let minis = varint(&mut bytes)?;
    let count = varint(&mut bytes)?;
    let first = zigzag(&mut bytes)?;
    if count != rows as u64 || rows == 0 {
        return Err(damaged(format!("a page of {count} differences, not {rows}")));
    }
    let each = block.checked_div(minis).filter(|each| block <= 1 << 16 && each % 32 == 0 && *each > 0);
    let (Some(each), Ok(minis)) = (each, usize::try_from(minis)) else {
        return Err(damaged(format!("blocks of {block} differences in {minis} parts")));
    };
    let each = each as usize;
    out.push(first);
    let mut last = first;
    while out.len() < rows {
        let least = zigzag(&mut bytes)?;
        let (widths, rest) = bytes.split_at_checked(minis).ok_or_else(|| damaged("a page ends early"))?;
        bytes = rest;
        for width in widths {
            let here = each.min(rows - out.len());
            match *width {
                0 => out.extend((0..here).map(|_| {
                    last = last.wrapping_add(least);
                    last
                })),
                1..=64 => {
                    // The last part is padded when it is written; what is padded is not looked at.
                    let length = (each / 8 * usize::from(*width)).min(bytes.len());
                    let (packed, rest) = bytes.split_at(length);
                    bytes = rest;
                    if here * usize::from(*width) > packed.len() * 8 {
                        return Err(damaged("a page ends early"));
                    }
                    out.extend((0..here).map(|n| {
                        last = last.wrapping_add(least).wrapping_add(bits(packed, n, *width) as i64);
                        last
                    }));
                }
                _ => return Err(damaged(format!("differences of {width} bits"))),
            }
        }
    }
    Ok(())
}

/// Number `n` of `width` bits.
fn bits(packed: &[u8], n: usize, width: u8) -> u64 {
    let start = n * usize::from(width);
    let end = (start + usize::from(width)).div_ceil(8);
    let value = packed[start / 8..end].iter().rev().fold(0u128, |value, byte| value << 8 | u128::from(*byte));
    (value >> (start % 8)) as u64 & (u64::MAX >> (64 - width))
}

/// The small numbers that a page has for each row, such as levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers<'a> {
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
pub(super) fn levels<'a, 'p>(
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
pub(super) fn places<'a>(mut page: &[u8], rows: usize, room: &'a mut Vec<u8>) -> Result<Numbers<'a>, CodecError> {
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

const BYTES: usize = size_of::<i64>();

/// Streams whose values are joined by themselves.
const HALF: usize = BYTES / 2;

/// Values that are joined at a time.
const BLOCK: usize = 256;

/// How the values of a page are split. The page's bytes are given with each call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Split {
    length: usize,
    /// Streams above this one are 0.
    used: usize,
}

impl Split {
    pub fn of(bytes: &[u8]) -> Result<Self, CodecError> {
        if !bytes.len().is_multiple_of(BYTES) {
            return Err(damaged(format!("{} bytes are no whole number of values", bytes.len())));
        }
        let length = bytes.len() / BYTES;
        // Without a way out, so that the compiler makes vectors of it.
        let is_used = |n: &usize| bytes[n * length..(n + 1) * length].iter().fold(0, |any, byte| any | byte) != 0;
        Ok(Split { length, used: (0..BYTES).rev().find(is_used).map_or(0, |last| last + 1) })
    }

    pub fn len(&self) -> usize {
        self.length
    }

    #[inline]
    pub fn get(&self, bytes: &[u8], at: usize) -> i64 {
        let upper = (0..self.used).rev();
        upper.fold(0, |value, n| value << 8 | i64::from(bytes[n * self.length + at]))
    }

    /// Adds the values from `from` on to those `before` them, wrapping. `sums` are equally many.
    pub fn add_to(&self, bytes: &[u8], from: usize, before: &[MaybeNanos], sums: &mut [MaybeNanos]) {
        for (n, (sums, before)) in sums.chunks_mut(BLOCK).zip(before.chunks(BLOCK)).enumerate() {
            let first = from + n * BLOCK;
            let streams = |those: Range<usize>| {
                join(those.map(|n| &bytes[n * self.length + first..n * self.length + first + sums.len()]))
            };
            let lower = streams(0..self.used.min(HALF));
            // Half as wide where that is enough, for then twice as many are worked on at once.
            let upper = (self.used > HALF).then(|| streams(HALF..self.used));
            match upper {
                None => {
                    for ((sum, before), lower) in sums.iter_mut().zip(before).zip(&lower) {
                        *sum = MaybeNanos::some(before.or_lowest().wrapping_add(i64::from(*lower)));
                    }
                }
                Some(upper) => {
                    for (((sum, before), lower), upper) in sums.iter_mut().zip(before).zip(&lower).zip(&upper) {
                        let value = (u64::from(*upper) << 32 | u64::from(*lower)) as i64;
                        *sum = MaybeNanos::some(before.or_lowest().wrapping_add(value));
                    }
                }
            }
        }
    }
}

/// The values of at most [`HALF`] streams, stream after stream, of which the compiler makes
/// vectors.
fn join<'a>(streams: impl Iterator<Item = &'a [u8]>) -> [u32; BLOCK] {
    let mut joined = [0; BLOCK];
    for (n, stream) in (0u32..).zip(streams) {
        for (value, byte) in joined.iter_mut().zip(stream) {
            *value |= u32::from(*byte) << (8 * n);
        }
    }
    joined
}
