// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packs the pages of a noisy column closer than a plain BYTE_STREAM_SPLIT page with gzip.
//!
//! BYTE_STREAM_SPLIT puts the lowest bytes of all values first, then the second lowest, and so on. The lowest are noise, the
//! second follow a distribution, the others are nearly all zero. deflate has one code table a block, and a block that
//! stretches over two of them fits neither. A flush between them ends the block; the result is an ordinary gzip stream.

use flate2::{Compression, GzBuilder};
use parquet::basic::Encoding;
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use std::io::Write;

/// Byte streams that get a block of their own: values up to 65 µs are within two bytes, those above are few.
const OWN_BLOCKS: usize = 2;
const BYTES: usize = size_of::<i64>();

/// A page writer between a column writer that does not compress and the file.
pub(crate) struct Squeeze<'a> {
    pages: SerializedPageWriter<'a, Vec<u8>>,
}

impl<'a> Squeeze<'a> {
    pub(crate) fn new(sink: &'a mut TrackedWrite<Vec<u8>>) -> Self {
        Squeeze { pages: SerializedPageWriter::new(sink) }
    }
}

impl PageWriter for Squeeze<'_> {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        let Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, .. } =
            page.compressed_page()
        else {
            return Err(ParquetError::General(format!("a noisy column has a page of type {:?}", page.page_type())));
        };
        let levels = levels_length(buf)?;
        if *encoding != Encoding::BYTE_STREAM_SPLIT || !(buf.len() - levels).is_multiple_of(BYTES) {
            return Err(ParquetError::General(format!("a noisy column is encoded as {encoding}")));
        }
        let squeezed = Page::DataPage {
            buf: squeeze(buf, levels)?.into(),
            num_values: *num_values,
            encoding: *encoding,
            def_level_encoding: *def_level_encoding,
            rep_level_encoding: *rep_level_encoding,
            statistics: None,
        };
        self.pages.write_page(CompressedPage::new(squeezed, page.uncompressed_size()))
    }

    fn close(&mut self) -> Result<()> {
        self.pages.close()
    }
}

/// Bytes of a version 1 page of a nullable column before its values: a length in four bytes, then the levels.
fn levels_length(page: &[u8]) -> Result<usize> {
    page.first_chunk()
        .map(|length| 4 + u32::from_le_bytes(*length) as usize)
        .filter(|length| *length <= page.len())
        .ok_or_else(|| ParquetError::General("a page is shorter than its levels".to_owned()))
}

fn squeeze(page: &[u8], levels: usize) -> Result<Vec<u8>> {
    let stream = (page.len() - levels) / BYTES;
    // No time and no file name in the header: the same samples give the same bytes.
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(6));
    let mut from = 0;
    for block in 1..=OWN_BLOCKS {
        let to = levels + block * stream;
        gzip.write_all(&page[from..to])?;
        gzip.flush()?;
        from = to;
    }
    gzip.write_all(&page[from..])?;
    Ok(gzip.finish()?)
}
