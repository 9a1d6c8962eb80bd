// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes `samples.parquet`. Its bytes are a function of the samples alone.
//!
//! [`Squeeze`] compresses the pages of a column, each byte stream of a noisy one separately.
//! BYTE_STREAM_SPLIT puts the lowest bytes of all values first, then the second lowest, and so on.
//! The lowest are noise, the second follow a distribution, the others are nearly all zero. A zstd
//! block has one code table and is raw, Huffman-coded or one repeated byte: a block for each stream
//! is the best of these three for each, and is read as fast as possible. A flush between the
//! streams ends the block. Repetitions are searched for in some streams and not in others, which
//! can only be changed from frame to frame; the result is ordinary zstd frames, one after the
//! other.

use crate::layout::Layout;
use crate::{CodecError, GROUP_ROWS, PAGE_ROWS, layout};
use bytes::Bytes;
use crc32fast::Hasher;
use parquet::basic::{CompressionCodec, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::{get_column_writer, get_typed_column_writer};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, ColumnPath};
use std::collections::BTreeSet;
use std::io;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Outcome};
use tardy_model::xdp::{HINT, Hints};
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective::{ZSTD_e_end, ZSTD_e_flush};
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ParamSwitch, Strategy, compress_bound, get_error_name};

/// Writes the streams of a trial as one file: for each its name and its rows, in this order. The
/// bytes are a function of the samples alone. It takes memory for one column of a row group at a
/// time.
///
/// # Errors
/// Those of [`check`]; [`CodecError::Io`] if the sink fails.
pub fn write(to: &mut (dyn Write + Send), streams: &[(&str, &Batch)]) -> Result<(), CodecError> {
    check(streams)?;
    encode(to, streams).map_err(CodecError::writing)
}

/// Looks whether the packets' numbers are such as a reader takes: within a stream they ascend,
/// from 0 to 2^32 - 2 at most. Writing does not ask for it.
///
/// # Errors
/// [`CodecError::Rows`].
pub fn check_numbers(streams: &[(&str, &Batch)]) -> Result<(), CodecError> {
    for (name, batch) in streams {
        let rows = |why: String| CodecError::Rows { stream: (*name).to_owned(), why };
        crate::last_of(-1, &batch.seq).map_err(rows)?;
    }
    Ok(())
}

/// Looks whether the streams can be written: each name is there once, and the columns of a
/// batch are equally long.
///
/// # Errors
/// [`CodecError::Rows`].
pub fn check(streams: &[(&str, &Batch)]) -> Result<(), CodecError> {
    let mut names = BTreeSet::new();
    for (name, batch) in streams {
        let rows = |why: String| Err(CodecError::Rows { stream: (*name).to_owned(), why });
        if !names.insert(*name) {
            return rows("two streams have this name".to_owned());
        }
        let lengths = [
            ("scheduled_ns", batch.scheduled_ns.len()),
            ("outcome", batch.outcome.len()),
            ("flags", batch.flags.len()),
            ("pcp", if batch.pcp.is_empty() { batch.len() } else { batch.pcp.len() }),
        ];
        let stamps = Point::ALL.into_iter().filter_map(|point| {
            let column = batch.offsets[point.index()].as_ref()?;
            Some((point.name(), column.len()))
        });
        for (column, length) in lengths.into_iter().chain(stamps) {
            if length != batch.len() {
                return rows(format!("`seq` has {} rows and `{column}` {length}", batch.len()));
            }
        }
        if let Some(hints) = &batch.hints {
            check_hints(hints, batch.len()).map_err(|why| CodecError::Rows { stream: (*name).to_owned(), why })?;
        }
    }
    Ok(())
}

/// Looks whether hints can be columns next to all others.
fn check_hints(hints: &Hints, rows: usize) -> Result<(), String> {
    if !hints.is_even(rows) {
        return Err(format!("`seq` has {rows} rows, and its hints have others"));
    }
    match layout::wrong_hint(hints.columns.iter().map(|column| column.name.as_str())) {
        Some(name) => Err(format!("`{name}` cannot be the name of a column of hints")),
        None => Ok(()),
    }
}

fn encode(to: &mut (dyn Write + Send), streams: &[(&str, &Batch)]) -> Result<(), ParquetError> {
    let mut layout = Layout::of(streams);
    // Each stream's names were looked at; two streams may have names that do not go together.
    if let Some(name) = layout::wrong_hint(layout.hints.iter().flatten().map(|hint| hint.name.as_str())) {
        return Err(ParquetError::General(format!(
            "the hints of two streams cannot be columns of one table, for `{name}` is there already but for its case, or there \
             are too many"
        )));
    }
    let spans = layout::spans(&layout, streams);
    let properties = Arc::new(properties()?);
    let to = Summed { to, crc: Hasher::new() };
    let mut file =
        SerializedFileWriter::new(to, layout::schema(&spans, layout.hints.as_deref())?, Arc::clone(&properties))?;
    let columns = file.schema_descr().columns().to_vec();
    for (stream, (name, batch)) in layout.streams.iter().zip(streams) {
        let stages = stream.stages();
        for start in (0..batch.len()).step_by(GROUP_ROWS) {
            let rows = start..batch.len().min(start + GROUP_ROWS);
            let mut group = file.next_row_group()?;
            for (column, values) in columns.iter().zip([&batch.seq, &batch.scheduled_ns]) {
                write_squeezed(&mut group, column, &properties, &rows, |row| Some(values[row]))?;
            }
            write_fixed(&mut group, name, batch, &rows)?;
            for (span, column) in spans.iter().zip(&columns[layout::FIXED.len()..]) {
                let values = |row| span_value(batch, row, *span, &stages);
                write_squeezed(&mut group, column, &properties, &rows, values)?;
            }
            if let Some(hints) = &layout.hints {
                write_which(&mut group, batch, &rows)?;
                for (hint, column) in hints.iter().zip(&columns[layout::FIXED.len() + spans.len() + 1..]) {
                    let of = batch.hints.as_ref();
                    let of = of.and_then(|of| of.columns.iter().find(|column| column.name == hint.name));
                    let values = |row: usize| of.and_then(|column| column.values[row]);
                    write_squeezed(&mut group, column, &properties, &rows, values)?;
                }
            }
            group.close()?;
        }
    }
    file.flush()?;
    layout.crc32 = layout.sum(file.inner().crc.clone().finalize())?;
    file.append_key_value_metadata(KeyValue::new(layout::KEY.to_owned(), layout.json()?));
    file.into_inner().map(drop)
}

/// A sink that sums up what goes into it.
pub(crate) struct Summed<'a> {
    pub to: &'a mut (dyn Write + Send),
    pub crc: Hasher,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.crc.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn properties() -> Result<WriterProperties, ParquetError> {
    let path = |name: &str| ColumnPath::new(vec![name.to_owned()]);
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        // Not the library's version: a newer library need not change the bytes.
        .set_created_by("tardy".to_owned())
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::BYTE_STREAM_SPLIT);
    for name in ["seq", "scheduled_ns"] {
        properties = properties.set_column_encoding(path(name), Encoding::DELTA_BINARY_PACKED);
    }
    for name in ["stream", "outcome", "flags", "pcp", HINT] {
        properties =
            properties.set_column_encoding(path(name), Encoding::PLAIN).set_column_dictionary_enabled(path(name), true);
    }
    Ok(properties.build())
}

fn write_fixed<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    name: &str,
    batch: &Batch,
    rows: &Range<usize>,
) -> Result<(), ParquetError> {
    let name = ByteArray::from(name);
    let outcomes = Outcome::ALL.map(|outcome| (outcome, ByteArray::from(outcome.name())));
    let outcome = |row: usize| {
        let of_row = batch.outcome[row];
        outcomes.iter().find(|(outcome, _)| *outcome == of_row).map(|(_, text)| text.clone()).unwrap_or_default()
    };
    write_dense::<ByteArrayType, W>(group, rows, |_| name.clone())?;
    write_dense::<ByteArrayType, W>(group, rows, outcome)?;
    write_dense::<Int32Type, W>(group, rows, |row| i32::from(batch.flags[row].0))?;
    let mut column = next_column(group)?;
    for part in parts(rows) {
        let pcp = |row: usize| batch.pcp.get(row).copied().flatten().map(i32::from);
        let (levels, values) = nullable(part, pcp);
        column.typed::<Int32Type>().write_batch(&values, Some(&levels), None)?;
    }
    column.close()
}

/// The name of each row's hint.
fn write_which<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    batch: &Batch,
    rows: &Range<usize>,
) -> Result<(), ParquetError> {
    let mut column = next_column(group)?;
    for part in parts(rows) {
        let name = |row: usize| batch.hints.as_ref().and_then(|hints| hints.name(row)).map(ByteArray::from);
        let (levels, values) = nullable(part, name);
        column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
    }
    column.close()
}

pub(crate) fn write_dense<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &Range<usize>,
    value: impl Fn(usize) -> T::T,
) -> Result<(), ParquetError> {
    let mut column = next_column(group)?;
    for part in parts(rows) {
        let values: Vec<T::T> = part.map(&value).collect();
        column.typed::<T>().write_batch(&values, None, None)?;
    }
    column.close()
}

/// A column of 64-bit values, compressed. It goes through [`Squeeze`] into memory first, for only
/// a finished chunk can be appended.
fn write_squeezed<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &ColumnDescPtr,
    properties: &WriterPropertiesPtr,
    rows: &Range<usize>,
    value: impl Fn(usize) -> Option<i64>,
) -> Result<(), ParquetError> {
    let mut chunk = TrackedWrite::new(Vec::new());
    let is_nullable = column.max_def_level() > 0;
    let pages = Box::new(Squeeze::new(&mut chunk, is_nullable)?);
    let writer = get_column_writer(Arc::clone(column), Arc::clone(properties), pages);
    let mut writer = get_typed_column_writer::<Int64Type>(writer);
    for part in parts(rows) {
        let (levels, values) = nullable(part, &value);
        writer.write_batch(&values, is_nullable.then_some(levels.as_slice()), None)?;
    }
    let mut closed = writer.close()?;
    // The column writer compressed nothing; its pages were squeezed behind its back.
    closed.metadata = closed.metadata.into_builder().set_compression_codec(CompressionCodec::ZSTD).build()?;
    group.append_column(&Bytes::from(chunk.into_inner()?), closed)
}

/// What a row has in a span column: the stage, if it is one of the stream's and both stamps are
/// there; or the full width.
fn span_value(batch: &Batch, row: usize, span: (Point, Point), stages: &[(Point, Point)]) -> Option<i64> {
    let (from, at) = span;
    if stages.contains(&span) {
        return Some(batch.offset(row, at)?.wrapping_sub(batch.offset(row, from)?));
    }
    let (before, _) = stages.iter().find(|(_, to)| *to == at)?;
    if from == Point::Scheduled && layout::needs_full_width(batch, row, *before, at) {
        return batch.offset(row, at);
    }
    None
}

fn next_column<'g, W: Write + Send>(
    group: &'g mut SerializedRowGroupWriter<'_, W>,
) -> Result<parquet::file::writer::SerializedColumnWriter<'g>, ParquetError> {
    group.next_column()?.ok_or_else(|| ParquetError::General("the schema has too few columns".to_owned()))
}

fn nullable<V>(rows: Range<usize>, value: impl Fn(usize) -> Option<V>) -> (Vec<i16>, Vec<V>) {
    let all: Vec<Option<V>> = rows.map(value).collect();
    (all.iter().map(|value| i16::from(value.is_some())).collect(), all.into_iter().flatten().collect())
}

/// Page by page, so that memory stays flat.
fn parts(rows: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = rows.end;
    rows.clone().step_by(PAGE_ROWS).map(move |start| start..end.min(start + PAGE_ROWS))
}

const BYTES: usize = size_of::<i64>();

/// Bytes from one place where a repetition is looked for to the next. Noise repeats itself by
/// chance: a match here and there saves little, and each costs the reader a jump. The longest step
/// leaves none.
const NO_LOOK: u32 = 1 << 17;
/// Finds the long runs of one byte that rare outliers leave.
const A_LOOK: u32 = 8;

/// One byte in this many may differ from all others before a part counts as noise.
const RARE: usize = 32;

/// A page writer between a column writer that does not compress and the file.
struct Squeeze<'a> {
    pages: SerializedPageWriter<'a, Vec<u8>>,
    /// True if pages begin with levels, which only a nullable column has.
    nullable: bool,
    context: CCtx<'static>,
}

impl<'a> Squeeze<'a> {
    fn new(sink: &'a mut TrackedWrite<Vec<u8>>, nullable: bool) -> Result<Self, ParquetError> {
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
    fn squeeze(&mut self, page: &[u8], cuts: impl Iterator<Item = usize>) -> Result<Vec<u8>, ParquetError> {
        let ends: Vec<usize> = cuts.filter(|cut| *cut < page.len()).chain([page.len()]).collect();
        let starts = [0].into_iter().chain(ends.iter().copied());
        let parts: Vec<&[u8]> = starts.zip(&ends).map(|(start, end)| &page[start..*end]).collect();
        // A block costs three bytes that the bound does not include, a frame some more.
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
    fn frame(&mut self, parts: &[&[u8]], step: u32, squeezed: &mut Vec<u8>) -> Result<(), ParquetError> {
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
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec, ParquetError> {
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

    fn close(&mut self) -> Result<(), ParquetError> {
        self.pages.close()
    }
}

/// Bytes of a version 1 page of a nullable column before its values: a length in four bytes, then
/// the levels.
fn levels_length(page: &[u8]) -> Result<usize, ParquetError> {
    page.first_chunk()
        .map(|length| 4 + u32::from_le_bytes(*length) as usize)
        .filter(|length| *length <= page.len())
        .ok_or_else(|| ParquetError::General("a page is shorter than its levels".to_owned()))
}
