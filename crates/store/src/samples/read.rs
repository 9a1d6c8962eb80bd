// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads `samples.parquet` back: stamps from stages, one stream at a time, memory flat.

use super::layout::{self, FIXED, Layout, StreamLayout};
use super::page::hybrid::{self, Numbers};
use super::page::split::Split;
use super::page::{self, BYTE_STREAM_SPLIT, Chunk, DELTA_BINARY_PACKED, RLE_DICTIONARY, delta};
use super::{GROUP_ROWS, PAGE_ROWS};
use crate::{StoreError, durable};
use crc32fast::Hasher;
use parquet::basic::CompressionCodec;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tardy_model::FORMAT;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};

/// Bytes before the first chunk.
const MARK: u64 = 4;

/// Values that a dictionary can have: its columns are of a byte or less.
const MOST_VALUES: usize = 256;

/// An open `samples.parquet`.
pub struct SamplesFile {
    path: PathBuf,
    file: File,
    metadata: Arc<ParquetMetaData>,
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
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).map_err(StoreError::reading(path))?;
        let layout = read_layout(path, &metadata)?;
        let (footer, chunks) = sum_of_chunks(&file).map_err(StoreError::io("read", path))?;
        // A fuzzer would never get past the sum; what stands behind it must hold without.
        if layout.sum(chunks).map_err(StoreError::reading(path))? != layout.crc32 && !cfg!(fuzzing) {
            return Err(StoreError::damaged_samples(path, "its bytes do not have their check sum"));
        }
        check_chunks(&metadata, footer).map_err(|why| StoreError::damaged_samples(path, why))?;
        Ok(SamplesFile { path: path.to_owned(), file, metadata: Arc::new(metadata), layout })
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
        let schema = self.metadata.file_metadata().schema_descr();
        let place = |name: &str| (0..schema.num_columns()).find(|i| schema.column(*i).name() == name);
        let mut spans = Vec::new();
        for (before, at) in entry.stages() {
            let name = layout::column_name((before, at));
            let lost = || StoreError::damaged_samples(&self.path, format!("column `{name}` is missing"));
            let full =
                if before == Point::Scheduled { None } else { place(&layout::column_name((Point::Scheduled, at))) };
            let stage = Column::new(place(&name).ok_or_else(lost)?);
            spans.push(Span { before, at, stage, full: full.map(Column::new) });
        }
        Ok(Batches {
            path: self.path.clone(),
            // Read by position only, so that iterators over one file can be used side by side.
            file: self.file.try_clone().map_err(StoreError::io("open", &self.path))?,
            metadata: Arc::clone(&self.metadata),
            stream: entry.clone(),
            first_group,
            done: 0,
            seq: Column::new(0),
            scheduled: Column::new(1),
            outcome: Dictionary::new(3),
            flags: Dictionary::new(4),
            pcp: Dictionary::new(5),
            spans,
            room: Room::default(),
        })
    }

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

fn read_layout(path: &Path, metadata: &ParquetMetaData) -> Result<Layout, StoreError> {
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    let damaged = |why: String| StoreError::damaged_samples(path, why);
    let entries = metadata.file_metadata().key_value_metadata();
    let json = entries
        .and_then(|entries| entries.iter().find(|entry| entry.key == layout::KEY)?.value.as_deref())
        .ok_or_else(|| damaged(format!("its footer has no `{}` entry, so tardy did not write it", layout::KEY)))?;
    let Version { format } = serde_json::from_str(json).map_err(|why| damaged(format!("its footer says: {why}")))?;
    if format > u64::from(FORMAT) {
        return Err(StoreError::Newer { path: path.to_owned(), format });
    }
    let layout: Layout = serde_json::from_str(json).map_err(|why| damaged(format!("its footer says: {why}")))?;

    let schema = metadata.file_metadata().schema_descr();
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
    let groups: Vec<i64> = metadata.row_groups().iter().map(|group| group.num_rows()).collect();
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
    let mut sum = Hasher::new();
    let mut part = vec![0; (256 << 10).min(footer as usize)];
    let mut left = footer;
    while left > 0 {
        let part = &mut part[..usize::try_from(left).map_or(256 << 10, |left| left.min(256 << 10))];
        file.read_exact(part)?;
        sum.update(part);
        left -= part.len() as u64;
    }
    Ok((footer, sum.finalize()))
}

/// The library takes a footer at its word. Chunks stand one after another up to the footer, as they were written.
fn check_chunks(metadata: &ParquetMetaData, footer: u64) -> Result<(), String> {
    let mut at = metadata.row_groups().first().map_or(footer, |_| MARK);
    for group in metadata.row_groups() {
        for (i, chunk) in group.columns().iter().enumerate() {
            let (dictionary, codec) = match FIXED.get(i) {
                Some(&("stream" | "outcome" | "flags" | "pcp")) => (true, CompressionCodec::UNCOMPRESSED),
                _ => (false, CompressionCodec::ZSTD),
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
    stage: Column,
    full: Option<Column>,
}

/// A column of the stream: which one, and its bytes in the row group that is open.
struct Column {
    index: usize,
    chunk: Chunk,
}

/// A column of a few values.
struct Dictionary<V> {
    column: Column,
    values: Vec<V>,
}

/// The rows of one stream, batch by batch.
pub struct Batches {
    path: PathBuf,
    file: File,
    metadata: Arc<ParquetMetaData>,
    stream: StreamLayout,
    /// The stream's first row group.
    first_group: usize,
    done: usize,
    seq: Column,
    scheduled: Column,
    outcome: Dictionary<Outcome>,
    flags: Dictionary<Flags>,
    pcp: Dictionary<u8>,
    spans: Vec<Span>,
    room: Room,
}

/// What is used again for every page.
#[derive(Default)]
struct Room {
    levels: Vec<u8>,
    full_levels: Vec<u8>,
    places: Vec<u8>,
    zeros: Vec<MaybeNanos>,
}

impl Iterator for Batches {
    type Item = Result<Batch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = Batch::default();
        match self.read(&mut batch) {
            Ok(true) => Some(Ok(batch)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl Batches {
    /// Replaces a batch by the next rows, using its memory again; false if there are no more.
    ///
    /// # Errors
    /// [`StoreError::Damaged`]; no rows come after it.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool, StoreError> {
        if self.done >= self.stream.rows {
            return Ok(false);
        }
        match self.read_page(batch) {
            Ok(rows) => self.done += rows,
            Err(error) => {
                // What follows a broken page cannot be trusted.
                self.done = self.stream.rows;
                return Err(StoreError::reading(&self.path)(error));
            }
        }
        Ok(true)
    }

    fn read_page(&mut self, batch: &mut Batch) -> Result<usize, ParquetError> {
        let in_group = self.done % GROUP_ROWS;
        if in_group == 0 {
            self.open_group(self.first_group + self.done / GROUP_ROWS)?;
        }
        let rows = (self.stream.rows - self.done).min(GROUP_ROWS - in_group).min(PAGE_ROWS);
        delta::decode(self.seq.chunk.data(rows, DELTA_BINARY_PACKED)?, rows, &mut batch.seq)?;
        delta::decode(self.scheduled.chunk.data(rows, DELTA_BINARY_PACKED)?, rows, &mut batch.scheduled_ns)?;
        self.outcome.read(rows, &mut self.room, &mut batch.outcome)?;
        self.flags.read(rows, &mut self.room, &mut batch.flags)?;
        batch.pcp.clear();
        if self.stream.pcp {
            self.pcp.read_nullable(rows, &mut self.room, &mut batch.pcp)?;
        }
        let mut offsets = std::mem::take(&mut batch.offsets);
        let mut whole = [false; Point::COUNT];
        whole[Point::Scheduled.index()] = true;
        self.room.zeros.resize(rows, MaybeNanos::some(0));
        for span in &mut self.spans {
            let mut stamps = offsets[span.at.index()].take().unwrap_or_default();
            stamps.clear();
            let before = batch.offsets[span.before.index()].as_deref().unwrap_or(&self.room.zeros);
            let page = span.stage.chunk.data(rows, BYTE_STREAM_SPLIT)?;
            let (levels, values) = hybrid::levels(page, rows, &mut self.room.levels)?;
            let values = Split::of(values)?;
            check_count(levels, values, rows)?;
            let full = match &mut span.full {
                Some(full) => {
                    let page = full.chunk.data(rows, BYTE_STREAM_SPLIT)?;
                    let (levels, values) = hybrid::levels(page, rows, &mut self.room.full_levels)?;
                    let values = Split::of(values)?;
                    check_count(levels, values, rows)?;
                    Some((levels, values)).filter(|_| values.len() > 0)
                }
                None => None,
            };
            if whole[span.before.index()] && levels == Numbers::All(1) {
                values.add_to(before, MaybeNanos::or_lowest, MaybeNanos::some, &mut stamps);
                whole[span.at.index()] = true;
            } else {
                let mut stages = nullable(levels, values);
                let mut fulls = full.map(|(levels, values)| nullable(levels, values));
                stamps.extend(before.iter().map(|before| {
                    let (stage, full) = (stages(), fulls.as_mut().and_then(|full| full()));
                    MaybeNanos::from(before.get().zip(stage).map(|(before, stage)| before.wrapping_add(stage)).or(full))
                }));
            }
            batch.offsets[span.at.index()] = Some(stamps);
        }
        Ok(rows)
    }

    fn open_group(&mut self, group: usize) -> Result<(), ParquetError> {
        let (file, group) = (&self.file, self.metadata.row_group(group));
        self.seq.open(file, group)?;
        self.scheduled.open(file, group)?;
        self.outcome.open(file, group, |bytes| outcome(text(bytes)?))?;
        self.flags.open(file, group, |bytes| small(bytes).map(Flags))?;
        if self.stream.pcp {
            self.pcp.open(file, group, small)?;
        }
        for span in &mut self.spans {
            span.stage.open(file, group)?;
            if let Some(full) = &mut span.full {
                full.open(file, group)?;
            }
        }
        Ok(())
    }
}

impl Column {
    fn new(index: usize) -> Self {
        Column { index, chunk: Chunk::default() }
    }

    fn open(&mut self, file: &File, group: &RowGroupMetaData) -> Result<(), ParquetError> {
        let about = group.column(self.index);
        let (start, length) = about.byte_range();
        let length = usize::try_from(length).map_err(|_| page::damaged("a column is too long"))?;
        let compressed = about.compression_codec() != CompressionCodec::UNCOMPRESSED;
        Ok(self.chunk.load(file, start, length, compressed)?)
    }
}

impl<V: Copy> Dictionary<V> {
    fn new(index: usize) -> Self {
        Dictionary { column: Column::new(index), values: Vec::new() }
    }

    /// `value` takes one off the front of the dictionary's bytes.
    fn open(
        &mut self,
        file: &File,
        group: &RowGroupMetaData,
        value: impl Fn(&mut &[u8]) -> Result<V, ParquetError>,
    ) -> Result<(), ParquetError> {
        self.column.open(file, group)?;
        let (count, mut bytes) = self.column.chunk.dictionary()?;
        // Places are of a byte; a damaged count must not become a long list.
        let values: Result<Vec<V>, _> = (0..count.min(MOST_VALUES)).map(|_| value(&mut bytes)).collect();
        self.values = values?;
        Ok(())
    }

    fn read(&mut self, rows: usize, room: &mut Room, out: &mut Vec<V>) -> Result<(), ParquetError> {
        out.clear();
        let page = self.column.chunk.data(rows, RLE_DICTIONARY)?;
        match hybrid::places(page, rows, &mut room.places)? {
            Numbers::All(place) => out.resize(rows, value_at(&self.values, place)?),
            Numbers::Each(places) => {
                for place in places {
                    out.push(value_at(&self.values, *place)?);
                }
            }
        }
        Ok(())
    }

    fn read_nullable(&mut self, rows: usize, room: &mut Room, out: &mut Vec<Option<V>>) -> Result<(), ParquetError> {
        let page = self.column.chunk.data(rows, RLE_DICTIONARY)?;
        let (levels, page) = hybrid::levels(page, rows, &mut room.levels)?;
        let values = count(levels, rows);
        if values == 0 {
            out.resize(rows, None);
            return Ok(());
        }
        let places = hybrid::places(page, values, &mut room.places)?;
        let mut next = 0;
        for row in 0..rows {
            let value = match places {
                _ if !has(levels, row) => None,
                Numbers::All(place) => Some(value_at(&self.values, place)?),
                Numbers::Each(places) => {
                    next += 1;
                    Some(value_at(&self.values, places[next - 1])?)
                }
            };
            out.push(value);
        }
        Ok(())
    }
}

fn value_at<V: Copy>(values: &[V], place: u8) -> Result<V, ParquetError> {
    let lost = || page::damaged(format!("a dictionary of {} values has no place {place}", values.len()));
    values.get(usize::from(place)).copied().ok_or_else(lost)
}

fn has(levels: Numbers<'_>, row: usize) -> bool {
    match levels {
        Numbers::All(level) => level == 1,
        Numbers::Each(levels) => levels[row] == 1,
    }
}

/// Values of a nullable column that are not null.
fn count(levels: Numbers<'_>, rows: usize) -> usize {
    match levels {
        Numbers::All(level) => rows * usize::from(level == 1),
        Numbers::Each(levels) => levels.iter().map(|level| usize::from(*level == 1)).sum(),
    }
}

fn check_count(levels: Numbers<'_>, values: Split<'_>, rows: usize) -> Result<(), ParquetError> {
    let (said, there) = (count(levels, rows), values.len());
    if said == there { Ok(()) } else { Err(page::damaged(format!("a page has {there} values, its levels say {said}"))) }
}

/// The values of a nullable column, row after row; their count was checked.
fn nullable<'a>(levels: Numbers<'a>, values: Split<'a>) -> impl FnMut() -> Option<i64> + use<'a> {
    let (mut row, mut next) = (0, 0);
    move || {
        row += 1;
        has(levels, row - 1).then(|| {
            next += 1;
            values.get(next - 1)
        })
    }
}

fn text<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], ParquetError> {
    let ends = || page::damaged("a dictionary ends early");
    let (length, rest) = bytes.split_first_chunk().ok_or_else(ends)?;
    let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(ends)?;
    *bytes = rest;
    Ok(text)
}

fn outcome(text: &[u8]) -> Result<Outcome, ParquetError> {
    let found = Outcome::ALL.into_iter().find(|outcome| outcome.name().as_bytes() == text);
    found.ok_or_else(|| page::damaged(format!("`{}` is not an outcome", String::from_utf8_lossy(text))))
}

/// Flags or a VLAN priority.
fn small(bytes: &mut &[u8]) -> Result<u8, ParquetError> {
    let (int, rest) = bytes.split_first_chunk().ok_or_else(|| page::damaged("a dictionary ends early"))?;
    *bytes = rest;
    let int = i32::from_le_bytes(*int);
    u8::try_from(int).map_err(|_| page::damaged(format!("{int} is no set of flags and no VLAN priority")))
}
