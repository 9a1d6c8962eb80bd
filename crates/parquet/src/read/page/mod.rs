// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of a column chunk, read without the library: it copies a page three times and looks
//! at each value by itself.
//!
//! Only what `write` writes is known here: version 1 data pages of one level, each preceded by its
//! header in Thrift's compact protocol (apache/parquet-format, `parquet.thrift`). Whatever else is
//! found is damage.

pub(super) mod delta;
pub(super) mod hybrid;
pub(super) mod split;

use super::footer::Group;
use super::source::Source;
use super::thrift::Header;
use crate::PAGE_ROWS;
use crate::error::{CodecError, damaged};
use zstd::bulk::Decompressor;

/// No page that is written is longer: levels, eight bytes a row, and room for what a dictionary or
/// a header takes.
pub(super) const LONGEST: usize = 16 * PAGE_ROWS;

/// `Encoding` in `parquet.thrift`.
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
