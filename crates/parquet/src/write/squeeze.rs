// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compresses the pages of a column, each byte stream of a noisy one by itself.
//!
//! BYTE_STREAM_SPLIT puts the lowest bytes of all values first, then the second lowest, and so on.
//! The lowest are noise, the second follow a distribution, the others are nearly all zero. A zstd
//! block has one code table and is raw, Huffman-coded or one repeated byte: a block for each
//! stream is the best of these three for each, and is read as fast as it can be. A flush between
//! the streams ends the block. Repetitions are looked for in some streams and not in others, which
//! can only be changed from frame to frame; the result is ordinary zstd frames, one behind the
//! other.

use parquet::basic::Encoding;
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective::{ZSTD_e_end, ZSTD_e_flush};
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ParamSwitch, Strategy, compress_bound, get_error_name};

const BYTES: usize = size_of::<i64>();

/// Bytes from one place where a repetition is looked for to the next. Noise repeats itself by
/// chance: a match here and there saves little, and each costs the reader a jump. The longest step
/// leaves none.
const NO_LOOK: u32 = 1 << 17;
/// Finds the long runs of one byte that rare outliers leave.
const A_LOOK: u32 = 8;

/// One byte in so many may differ from all others before a part is noise.
const RARE: usize = 32;

/// A page writer between a column writer that does not compress and the file.
pub(crate) struct Squeeze<'a> {
    pages: SerializedPageWriter<'a, Vec<u8>>,
    /// Bytes of a page before its values are told by the levels, which only a nullable column has.
    nullable: bool,
    context: CCtx<'static>,
}

impl<'a> Squeeze<'a> {
    pub(crate) fn new(sink: &'a mut TrackedWrite<Vec<u8>>, nullable: bool) -> Result<Self> {
        let mut context = CCtx::create();
        let parameters = [
            CParameter::Strategy(Strategy::ZSTD_fast),
            CParameter::LiteralCompressionMode(ParamSwitch::Enable),
            CParameter::MinMatch(7),
        ];
        for parameter in parameters {
            context.set_parameter(parameter).map_err(why)?;
        }
        Ok(Squeeze { pages: SerializedPageWriter::new(sink), nullable, context })
    }

    /// Compresses a page in parts that end at `cuts`.
    fn squeeze(&mut self, page: &[u8], cuts: impl Iterator<Item = usize>) -> Result<Vec<u8>> {
        let ends: Vec<usize> = cuts.filter(|cut| *cut < page.len()).chain([page.len()]).collect();
        let starts = [0].into_iter().chain(ends.iter().copied());
        let parts: Vec<&[u8]> = starts.zip(&ends).map(|(start, end)| &page[start..*end]).collect();
        // A block costs three bytes that the bound does not know of, a frame some more.
        let mut squeezed = Vec::with_capacity(compress_bound(page.len()) + 256);
        let mut rest = parts.as_slice();
        while !rest.is_empty() {
            // Parts of one byte throughout are a block of that byte in any frame, if not at its
            // front.
            let step = rest.iter().find_map(|part| step_of(part)).unwrap_or(NO_LOOK);
            let other = rest.iter().position(|part| step_of(part).is_some_and(|other| other != step));
            let (frame, later) = rest.split_at(other.unwrap_or(rest.len()));
            self.frame(frame, step, &mut squeezed)?;
            rest = later;
        }
        Ok(squeezed)
    }

    /// Appends a frame with a block for each part.
    fn frame(&mut self, parts: &[&[u8]], step: u32, squeezed: &mut Vec<u8>) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.context.set_parameter(CParameter::TargetLength(step)).map_err(why)?;
        self.context.set_pledged_src_size(Some(length as u64)).map_err(why)?;
        for (n, part) in parts.iter().enumerate() {
            let mut input = InBuffer::around(part);
            let directive = if n + 1 == parts.len() { ZSTD_e_end } else { ZSTD_e_flush };
            loop {
                let written = squeezed.len();
                let left =
                    self.context.compress_stream2(&mut OutBuffer::around_pos(squeezed, written), &mut input, directive);
                if left.map_err(why)? == 0 {
                    break;
                }
                squeezed.reserve(length + 64);
            }
        }
        Ok(())
    }
}

/// How repetitions are looked for in a part: not at all if no byte makes up nearly all of it.
/// `None` if one makes up all.
fn step_of(part: &[u8]) -> Option<u32> {
    let mut counts = [0usize; 256];
    part.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let others = part.len() - counts.iter().max().unwrap_or(&0);
    (others > 0).then_some(if others > part.len() / RARE { NO_LOOK } else { A_LOOK })
}

fn why(code: usize) -> ParquetError {
    ParquetError::General(format!("zstd: {}", get_error_name(code)))
}

impl PageWriter for Squeeze<'_> {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        let Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, .. } =
            page.compressed_page()
        else {
            return Err(ParquetError::General(format!(
                "a compressed column has a page of type {:?}",
                page.page_type()
            )));
        };
        let levels = if self.nullable { levels_length(buf)? } else { 0 };
        let stream = if *encoding == Encoding::BYTE_STREAM_SPLIT { (buf.len() - levels) / BYTES } else { 0 };
        let cuts = (1..BYTES).map(|n| levels + n * stream).filter(|_| stream > 0);
        let squeezed = Page::DataPage {
            buf: self.squeeze(buf, cuts)?.into(),
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

/// Bytes of a version 1 page of a nullable column before its values: a length in four bytes, then
/// the levels.
fn levels_length(page: &[u8]) -> Result<usize> {
    page.first_chunk()
        .map(|length| 4 + u32::from_le_bytes(*length) as usize)
        .filter(|length| *length <= page.len())
        .ok_or_else(|| ParquetError::General("a page is shorter than its levels".to_owned()))
}
