// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes `samples.parquet`. Its bytes are a function of the samples alone.

mod squeeze;

use crate::layout::{self, Layout};
use crate::{CodecError, GROUP_ROWS, PAGE_ROWS};
use bytes::Bytes;
use crc32fast::Hasher;
use parquet::basic::{CompressionCodec, Encoding};
use parquet::column::writer::{get_column_writer, get_typed_column_writer};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, ColumnPath};
use squeeze::Squeeze;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Outcome};

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

/// Looks whether the streams can be written: each name stands there once, and the columns of a
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
    }
    Ok(())
}

fn encode(to: &mut (dyn Write + Send), streams: &[(&str, &Batch)]) -> Result<(), ParquetError> {
    let mut layout = Layout::of(streams);
    let spans = layout::spans(&layout, streams);
    let properties = Arc::new(properties()?);
    let to = Summed { to, crc: Hasher::new() };
    let mut file = SerializedFileWriter::new(to, layout::schema(&spans)?, Arc::clone(&properties))?;
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
            group.close()?;
        }
    }
    file.flush()?;
    layout.crc32 = layout.sum(file.inner().crc.clone().finalize())?;
    file.append_key_value_metadata(KeyValue::new(layout::KEY.to_owned(), layout.json()?));
    file.into_inner().map(drop)
}

/// A sink that sums up what goes into it.
struct Summed<'a> {
    to: &'a mut (dyn Write + Send),
    crc: Hasher,
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
    for name in ["stream", "outcome", "flags", "pcp"] {
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

fn write_dense<T: DataType, W: Write + Send>(
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
