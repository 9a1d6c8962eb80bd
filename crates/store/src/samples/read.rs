// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads `samples.parquet` back: stamps from stages, one stream at a time, memory flat.

use super::layout::{self, FIXED, Layout, StreamLayout};
use super::{BATCH_ROWS, GROUP_ROWS};
use crate::{StoreError, durable};
use flate2::CrcReader;
use parquet::basic::CompressionCodec;
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tardy_model::FORMAT;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};

/// Bytes before the first chunk.
const MARK: u64 = 4;

/// An open `samples.parquet`.
pub struct SamplesFile {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    layout: Layout,
}

impl SamplesFile {
    /// Opens a file and reads its footer.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if it is cut short or is not a file of samples, [`StoreError::Newer`] if a later tardy wrote
    /// it, [`StoreError::Io`] if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = durable::open(path)?;
        let reader = SerializedFileReader::new(file.try_clone().map_err(StoreError::io("open", path))?)
            .map_err(StoreError::reading(path))?;
        let layout = read_layout(path, &reader)?;
        let (footer, chunks) = sum_of_chunks(&file).map_err(StoreError::io("read", path))?;
        // A fuzzer would never get past the sum; what stands behind it must hold without.
        if layout.sum(chunks).map_err(StoreError::reading(path))? != layout.crc32 && !cfg!(fuzzing) {
            return Err(StoreError::damaged_samples(path, "its bytes do not have their check sum"));
        }
        check_chunks(&reader, footer).map_err(|why| StoreError::damaged_samples(path, why))?;
        Ok(SamplesFile { path: path.to_owned(), reader, layout })
    }

    /// The streams' names, in the order of their rows.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        self.layout.streams.iter().map(|stream| stream.name.as_str())
    }

    /// Rows of a stream: packets intended in this trial.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStream`].
    pub fn rows(&self, stream: &str) -> Result<usize, StoreError> {
        Ok(self.find(stream)?.1.rows)
    }

    /// The points of a stream that have a source, in causal order, `scheduled` among them.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStream`].
    pub fn points(&self, stream: &str) -> Result<Vec<Point>, StoreError> {
        let points = &self.find(stream)?.1.points;
        Ok(std::iter::once(Point::Scheduled).chain(points.iter().copied()).collect())
    }

    /// The rows of a stream, at most [`BATCH_ROWS`] at a time. A stream without rows gives nothing.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStream`]; [`StoreError::Damaged`] if a column of the stream is missing.
    pub fn batches(&self, stream: &str) -> Result<Batches, StoreError> {
        let (first_group, entry) = self.find(stream)?;
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let place = |name: &str| (0..schema.num_columns()).find(|i| schema.column(*i).name() == name);
        let mut spans = Vec::new();
        for (before, at) in entry.stages() {
            let name = layout::column_name((before, at));
            let lost = || StoreError::damaged_samples(&self.path, format!("column `{name}` is missing"));
            let full =
                if before == Point::Scheduled { None } else { place(&layout::column_name((Point::Scheduled, at))) };
            spans.push(Span { before, at, stage: place(&name).ok_or_else(lost)?, full });
        }
        // Opened again: two iterators over one open file would share its position, which threads must not.
        let file = durable::open(&self.path)?;
        let reader = SerializedFileReader::new(file).map_err(StoreError::reading(&self.path))?;
        let path = self.path.clone();
        Ok(Batches { path, reader, stream: entry.clone(), spans, group: first_group, done: 0, open: None })
    }

    /// The stream and its first row group.
    fn find(&self, name: &str) -> Result<(usize, &StreamLayout), StoreError> {
        let mut group = 0;
        for stream in &self.layout.streams {
            if stream.name == name {
                return Ok((group, stream));
            }
            group += stream.groups();
        }
        let have = self.streams().map(str::to_owned).collect();
        Err(StoreError::NoSuchStream { path: self.path.clone(), stream: name.to_owned(), have })
    }
}

fn read_layout(path: &Path, reader: &SerializedFileReader<File>) -> Result<Layout, StoreError> {
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    let damaged = |why: String| StoreError::damaged_samples(path, why);
    let entries = reader.metadata().file_metadata().key_value_metadata();
    let json = entries
        .and_then(|entries| entries.iter().find(|entry| entry.key == layout::KEY)?.value.as_deref())
        .ok_or_else(|| damaged(format!("its footer has no `{}` entry, so tardy did not write it", layout::KEY)))?;
    let Version { format } = serde_json::from_str(json).map_err(|why| damaged(format!("its footer says: {why}")))?;
    if format > u64::from(FORMAT) {
        return Err(StoreError::Newer { path: path.to_owned(), format });
    }
    let layout: Layout = serde_json::from_str(json).map_err(|why| damaged(format!("its footer says: {why}")))?;

    let schema = reader.metadata().file_metadata().schema_descr();
    let kinds: Vec<_> = (0..schema.num_columns()).map(|i| (schema.column(i).name().to_owned(), i)).collect();
    let expected = layout::schema(&[]).map_err(StoreError::reading(path))?;
    for (i, column) in expected.get_fields().iter().enumerate() {
        let fits = kinds.get(i).is_some_and(|(name, i)| {
            name == column.name()
                && schema.column(*i).physical_type() == column.get_physical_type()
                && (schema.column(*i).max_def_level() == 1) == column.is_optional()
                && schema.column(*i).max_rep_level() == 0
        });
        if !fits {
            return Err(damaged(format!("column {i} is not `{}`", FIXED[i])));
        }
    }
    let spans = kinds.iter().skip(FIXED.len());
    if let Some((name, _)) = spans.clone().find(|(_, i)| {
        let column = schema.column(*i);
        column.physical_type() != parquet::basic::Type::INT64
            || column.max_def_level() != 1
            || column.max_rep_level() != 0
    }) {
        return Err(damaged(format!("column `{name}` is not a nullable INT64")));
    }
    let known: BTreeSet<String> = layout
        .streams
        .iter()
        .flat_map(StreamLayout::stages)
        .flat_map(|(before, at)| [layout::column_name((before, at)), layout::column_name((Point::Scheduled, at))])
        .collect();
    if let Some((name, _)) = spans.clone().find(|(name, _)| !known.contains(name)) {
        return Err(damaged(format!("column `{name}` belongs to no stream")));
    }
    let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    let differ = || damaged("its row groups are not those that its footer promises".to_owned());
    // The count first: a damaged number of rows must not become a long list.
    if layout.streams.iter().fold(0, |sum: usize, stream| sum.saturating_add(stream.groups())) != groups.len() {
        return Err(differ());
    }
    let promised: Vec<i64> = layout
        .streams
        .iter()
        .flat_map(|stream| (0..stream.groups()).map(|g| (stream.rows - g * GROUP_ROWS).min(GROUP_ROWS) as i64))
        .collect();
    if groups != promised {
        return Err(differ());
    }
    Ok(layout)
}

/// Where the footer begins, and the sum of the bytes before it.
fn sum_of_chunks(mut file: &File) -> io::Result<(u64, u32)> {
    let mut length = [0; 4];
    // The footer's length stands before the last four bytes, which are the format's mark.
    let end = file.seek(SeekFrom::End(-8))?;
    file.read_exact(&mut length)?;
    let footer = end.saturating_sub(u64::from(u32::from_le_bytes(length)));
    file.seek(SeekFrom::Start(0))?;
    let mut chunks = CrcReader::new(file.take(footer));
    io::copy(&mut chunks, &mut io::sink())?;
    Ok((footer, chunks.crc().sum()))
}

/// The library takes a footer at its word. Chunks stand one after another up to the footer, as they were written.
fn check_chunks(reader: &SerializedFileReader<File>, footer: u64) -> Result<(), String> {
    let mut at = reader.metadata().row_groups().first().map_or(footer, |_| MARK);
    for group in reader.metadata().row_groups() {
        for (i, chunk) in group.columns().iter().enumerate() {
            let (dictionary, codec) = match FIXED.get(i) {
                Some(&("stream" | "outcome" | "flags" | "pcp")) => (true, CompressionCodec::UNCOMPRESSED),
                _ => (false, CompressionCodec::GZIP),
            };
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let fits = u64::try_from(start) == Ok(at)
                && chunk.dictionary_page_offset().is_some() == dictionary
                && chunk.compression_codec() == codec
                && chunk.num_values() == group.num_rows();
            let size = u64::try_from(chunk.compressed_size()).ok().filter(|_| fits);
            let end = size.and_then(|size| at.checked_add(size)).filter(|end| *end <= footer);
            at = end.ok_or_else(|| format!("column `{}` is not where its footer says", chunk.column_descr().name()))?;
        }
    }
    if at == footer { Ok(()) } else { Err("it has more columns than its footer says".to_owned()) }
}

/// One pair of neighbours of the stream, with the columns that tell the later one's stamp.
struct Span {
    before: Point,
    at: Point,
    stage: usize,
    full: Option<usize>,
}

/// The rows of one stream, batch by batch.
pub struct Batches {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    stream: StreamLayout,
    spans: Vec<Span>,
    group: usize,
    done: usize,
    open: Option<Group>,
}

/// The column readers of one row group.
struct Group {
    left: usize,
    seq: Column<Int64Type>,
    scheduled: Column<Int64Type>,
    outcome: Column<ByteArrayType>,
    flags: Column<Int32Type>,
    pcp: Option<Column<Int32Type>>,
    spans: Vec<(Column<Int64Type>, Option<Column<Int64Type>>)>,
}

impl Iterator for Batches {
    type Item = Result<Batch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done >= self.stream.rows {
            return None;
        }
        let read = self.read();
        match &read {
            Ok(batch) => self.done += batch.len(),
            // What follows a broken page cannot be trusted.
            Err(_) => self.done = self.stream.rows,
        }
        Some(read)
    }
}

impl Batches {
    fn read(&mut self) -> Result<Batch, StoreError> {
        let path = self.path.clone();
        if self.open.as_ref().is_none_or(|group| group.left == 0) {
            self.open = Some(self.open_group().map_err(StoreError::reading(&path))?);
            self.group += 1;
        }
        let Some(group) = self.open.as_mut() else { return Ok(Batch::default()) };
        let rows = group.left.min(BATCH_ROWS);
        let batch = group.read(rows, &self.spans).map_err(StoreError::reading(&path))?;
        group.left -= rows;
        Ok(batch)
    }

    fn open_group(&self) -> Result<Group, ParquetError> {
        let group = self.reader.get_row_group(self.group)?;
        let group = group.as_ref();
        let mut spans = Vec::new();
        for span in &self.spans {
            spans.push((Column::open(group, span.stage)?, span.full.map(|i| Column::open(group, i)).transpose()?));
        }
        Ok(Group {
            left: (self.stream.rows - self.done).min(GROUP_ROWS),
            seq: Column::open(group, 0)?,
            scheduled: Column::open(group, 1)?,
            outcome: Column::open(group, 3)?,
            flags: Column::open(group, 4)?,
            pcp: if self.stream.pcp { Some(Column::open(group, 5)?) } else { None },
            spans,
        })
    }
}

impl Group {
    fn read(&mut self, rows: usize, spans: &[Span]) -> Result<Batch, ParquetError> {
        let mut batch = Batch {
            seq: self.seq.dense(rows)?,
            scheduled_ns: self.scheduled.dense(rows)?,
            outcome: self.outcome.dense(rows)?.iter().map(|text| outcome(text.data())).collect::<Result<_, _>>()?,
            flags: self.flags.dense(rows)?.into_iter().map(flags).collect::<Result<_, _>>()?,
            ..Batch::default()
        };
        if let Some(column) = &mut self.pcp {
            batch.pcp =
                column.nullable(rows)?.into_iter().map(|value| value.map(pcp).transpose()).collect::<Result<_, _>>()?;
        }
        for (span, (stage, full)) in spans.iter().zip(&mut self.spans) {
            let stages = stage.nullable(rows)?;
            let fulls = full.as_mut().map(|column| column.nullable(rows)).transpose()?;
            let stamp = |(row, stage): (usize, Option<i64>)| {
                let by_stage = match (batch.offset(row, span.before), stage) {
                    (Some(before), Some(stage)) => Some(before.wrapping_add(stage)),
                    _ => None,
                };
                MaybeNanos::from(by_stage.or_else(|| fulls.as_ref()?[row]))
            };
            let stamps = stages.into_iter().enumerate().map(stamp).collect();
            batch.offsets[span.at.index()] = Some(stamps);
        }
        Ok(batch)
    }
}

fn outcome(text: &[u8]) -> Result<Outcome, ParquetError> {
    Outcome::ALL
        .into_iter()
        .find(|outcome| outcome.name().as_bytes() == text)
        .ok_or_else(|| ParquetError::General(format!("`{}` is not an outcome", String::from_utf8_lossy(text))))
}

fn flags(bits: i32) -> Result<Flags, ParquetError> {
    u8::try_from(bits).map(Flags).map_err(|_| ParquetError::General(format!("{bits} is not a set of flags")))
}

fn pcp(value: i32) -> Result<u8, ParquetError> {
    u8::try_from(value).map_err(|_| ParquetError::General(format!("{value} is not a VLAN priority")))
}

/// A column of one row group, read from its beginning to its end.
struct Column<T: DataType> {
    reader: ColumnReaderImpl<T>,
    levels: Vec<i16>,
    values: Vec<T::T>,
}

impl<T: DataType> Column<T> {
    fn open(group: &dyn RowGroupReader, column: usize) -> Result<Self, ParquetError> {
        let reader = get_typed_column_reader(group.get_column_reader(column)?);
        Ok(Column { reader, levels: Vec::new(), values: Vec::new() })
    }

    fn fill(&mut self, rows: usize) -> Result<(), ParquetError> {
        self.levels.clear();
        self.values.clear();
        let mut read = 0;
        while read < rows {
            let (more, _, _) = self.reader.read_records(rows - read, Some(&mut self.levels), None, &mut self.values)?;
            if more == 0 {
                return Err(ParquetError::EOF(format!("a column ends {} rows early", rows - read)));
            }
            read += more;
        }
        Ok(())
    }

    /// The next values of a column that is never null.
    fn dense(&mut self, rows: usize) -> Result<Vec<T::T>, ParquetError> {
        self.fill(rows)?;
        if self.values.len() != rows {
            return Err(ParquetError::General("a column has nulls and must not".to_owned()));
        }
        Ok(std::mem::take(&mut self.values))
    }

    /// The next values of a nullable column.
    fn nullable(&mut self, rows: usize) -> Result<Vec<Option<T::T>>, ParquetError> {
        self.fill(rows)?;
        let mut values = self.values.drain(..);
        let row = |level: &i16| if *level == 0 { Ok(None) } else { values.next().map(Some).ok_or(()) };
        let out: Result<Vec<_>, ()> = self.levels.iter().map(row).collect();
        out.map_err(|()| ParquetError::EOF("a column has fewer values than its levels say".to_owned()))
    }
}
