// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads `samples.parquet` back: stamps from stages, one stream at a time, memory flat.

use super::footer::{Column, Footer, Group};
use super::layout::{self, FIXED, Layout, StreamLayout};
use super::page::hybrid::{self, Numbers};
use super::page::split::Split;
use super::page::{self, BYTE_STREAM_SPLIT, Chunk, DELTA_BINARY_PACKED, RLE_DICTIONARY, delta};
use super::{GROUP_ROWS, PAGE_ROWS};
use crate::{StoreError, durable};
use crc32fast::Hasher;
use parquet::basic::{Repetition, Type};
use parquet::errors::ParquetError;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
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
    footer: Arc<Footer>,
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
        let footer = Footer::read(&file).map_err(StoreError::reading(path))?;
        let layout = read_layout(path, &footer)?;
        check_chunks(&footer).map_err(|why| StoreError::damaged_samples(path, why))?;
        let chunks = sum_of_chunks(&file, footer.begins).map_err(StoreError::io("read", path))?;
        // A fuzzer would never get past the sum; what stands behind it must hold without.
        if layout.sum(chunks).map_err(StoreError::reading(path))? != layout.crc32 && !cfg!(fuzzing) {
            return Err(StoreError::damaged_samples(path, "its bytes do not have their check sum"));
        }
        Ok(SamplesFile { path: path.to_owned(), file, footer: Arc::new(footer), layout })
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
        let place = |name: &str| self.footer.columns.iter().position(|column| column.name == name);
        let mut spans = Vec::new();
        for (before, at) in entry.stages() {
            let name = layout::column_name((before, at));
            let lost = || StoreError::damaged_samples(&self.path, format!("column `{name}` is missing"));
            let full =
                if before == Point::Scheduled { None } else { place(&layout::column_name((Point::Scheduled, at))) };
            let stage = Opened::new(place(&name).ok_or_else(lost)?);
            spans.push(Span { before, at, stage, full: full.map(Opened::new) });
        }
        Ok(Batches {
            path: self.path.clone(),
            // Read by position only, so that iterators over one file can be used side by side.
            file: self.file.try_clone().map_err(StoreError::io("open", &self.path))?,
            footer: Arc::clone(&self.footer),
            stream: entry.clone(),
            first_group,
            done: 0,
            seq: Opened::new(0),
            scheduled: Opened::new(1),
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

fn read_layout(path: &Path, footer: &Footer) -> Result<Layout, StoreError> {
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    let damaged = |why: String| StoreError::damaged_samples(path, why);
    let json = footer.layout.as_deref();
    let json =
        json.ok_or_else(|| damaged(format!("its footer has no `{}` entry, so tardy did not write it", layout::KEY)))?;
    let Version { format } = serde_json::from_str(json).map_err(|why| damaged(format!("its footer says: {why}")))?;
    if format > u64::from(FORMAT) {
        return Err(StoreError::Newer { path: path.to_owned(), format });
    }
    let layout: Layout = serde_json::from_str(json).map_err(|why| damaged(format!("its footer says: {why}")))?;
    let mut names = BTreeSet::new();
    for stream in &layout.streams {
        let is_chain = !stream.points.contains(&Point::Scheduled) && stream.points.is_sorted_by(|a, b| a < b);
        if !names.insert(&stream.name) || !is_chain {
            return Err(damaged(format!(
                "stream `{}` stands there twice, or its points are not in their order",
                stream.name
            )));
        }
    }

    let expected = layout::schema(&[]).map_err(StoreError::reading(path))?;
    for (i, column) in expected.get_fields().iter().enumerate() {
        let repetition = if column.is_optional() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let fits = |found: &&Column| found.name == column.name() && found.is(column.get_physical_type(), repetition);
        if footer.columns.get(i).filter(fits).is_none() {
            return Err(damaged(format!("column {i} is not `{}`", FIXED[i])));
        }
    }
    let known: BTreeSet<String> = layout
        .streams
        .iter()
        .flat_map(StreamLayout::stages)
        .flat_map(|(before, at)| [layout::column_name((before, at)), layout::column_name((Point::Scheduled, at))])
        .collect();
    for column in &footer.columns[FIXED.len()..] {
        if !column.is(Type::INT64, Repetition::OPTIONAL) {
            return Err(damaged(format!("column `{}` is not a nullable INT64", column.name)));
        }
        if !known.contains(&column.name) {
            return Err(damaged(format!("column `{}` belongs to no stream", column.name)));
        }
    }
    let differ = || damaged("its row groups are not those that its footer promises".to_owned());
    // The count first: a damaged number of rows must not become a long list.
    let promised = layout.streams.iter().fold(0, |sum: usize, stream| sum.saturating_add(stream.groups()));
    if promised != footer.groups.len() {
        return Err(differ());
    }
    let promised = layout
        .streams
        .iter()
        .flat_map(|stream| (0..stream.groups()).map(|g| (stream.rows - g * GROUP_ROWS).min(GROUP_ROWS)));
    if !promised.eq(footer.groups.iter().map(|group| group.rows)) {
        return Err(differ());
    }
    Ok(layout)
}

/// The sum of the bytes before the footer.
fn sum_of_chunks(file: &File, footer: u64) -> io::Result<u32> {
    let mut sum = Hasher::new();
    let mut part = vec![0; 256 << 10];
    let mut at = 0;
    while at < footer {
        let length = usize::try_from(footer - at).map_or(part.len(), |left| left.min(part.len()));
        file.read_exact_at(&mut part[..length], at)?;
        sum.update(&part[..length]);
        at += length as u64;
    }
    Ok(sum.finalize())
}

/// A footer is not taken at its word. Chunks stand one after another up to the footer, as they were written, and none is
/// longer than its pages can be, so that a file of holes costs neither memory nor a wait.
fn check_chunks(footer: &Footer) -> Result<(), String> {
    let mut at = footer.groups.first().map_or(footer.begins, |_| MARK);
    for group in &footer.groups {
        // A dictionary takes no more than a page, and a page that cannot be compressed grows by little.
        let longest = (1 + group.rows.div_ceil(PAGE_ROWS)) * 2 * page::LONGEST;
        for (i, (chunk, column)) in group.chunks.iter().zip(&footer.columns).enumerate() {
            let is_dictionary = matches!(FIXED.get(i), Some(&("stream" | "outcome" | "flags" | "pcp")));
            let fits = chunk.start == at
                && chunk.has_dictionary == is_dictionary
                && (if is_dictionary { chunk.is_plain() } else { chunk.is_zstd() })
                && chunk.values == group.rows
                && chunk.length <= longest;
            let end = at.checked_add(chunk.length as u64).filter(|end| fits && *end <= footer.begins);
            at = end.ok_or_else(|| format!("column `{}` is not where its footer says", column.name))?;
        }
    }
    if at == footer.begins { Ok(()) } else { Err("it has more columns than its footer says".to_owned()) }
}

/// One pair of neighbours of the stream, with the columns that tell the later one's stamp.
struct Span {
    before: Point,
    at: Point,
    stage: Opened,
    full: Option<Opened>,
}

/// A column of the stream: which one, and its bytes in the row group that is open.
struct Opened {
    index: usize,
    chunk: Chunk,
}

/// A column of a few values.
struct Dictionary<V> {
    column: Opened,
    values: Vec<V>,
}

/// The rows of one stream, batch by batch.
pub struct Batches {
    path: PathBuf,
    file: File,
    footer: Arc<Footer>,
    stream: StreamLayout,
    /// The stream's first row group.
    first_group: usize,
    done: usize,
    seq: Opened,
    scheduled: Opened,
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
        let (file, group) = (&self.file, &self.footer.groups[group]);
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

impl Opened {
    fn new(index: usize) -> Self {
        Opened { index, chunk: Chunk::default() }
    }

    fn open(&mut self, file: &File, group: &Group) -> Result<(), ParquetError> {
        let place = group.chunks[self.index];
        Ok(self.chunk.load(file, place.start, place.length, place.is_zstd())?)
    }
}

impl<V: Copy> Dictionary<V> {
    fn new(index: usize) -> Self {
        Dictionary { column: Opened::new(index), values: Vec::new() }
    }

    /// `value` takes one off the front of the dictionary's bytes.
    fn open(
        &mut self,
        file: &File,
        group: &Group,
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
