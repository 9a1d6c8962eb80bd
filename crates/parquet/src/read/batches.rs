// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a stream, batch by batch: stamps from stages, memory flat.
//!
//! Noisy columns and columns of a few values. A page is decompressed as a whole, and handed out in
//! parts that fit the cache.

use super::footer::{Footer, Group};
use super::page::{
    BYTE_STREAM_SPLIT, DELTA_BINARY_PACKED, Numbers, Opened, RLE_DICTIONARY, Split, decode_delta, levels, places,
};
use super::source::Source;
use crate::layout::{HintLayout, StreamLayout};
use crate::{BATCH_ROWS, CodecError, GROUP_ROWS, PAGE_ROWS, damaged, last_of};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_model::xdp::{HintColumn, Hints};

/// The rows of one stream, batch by batch.
pub struct Batches {
    source: Arc<dyn Source>,
    footer: Arc<Footer>,
    stream: StreamLayout,
    /// The stream's first row group.
    first_group: usize,
    done: usize,
    /// The last packet's number.
    last: i64,
    seq: Opened,
    scheduled: Opened,
    outcome: Dictionary<Outcome>,
    flags: Dictionary<Flags>,
    pcp: Dictionary<u8>,
    spans: Vec<Span>,
    /// The page that is open, but for its spans.
    page: Batch,
    room: Room,
    zeros: Vec<MaybeNanos>,
}

/// One pair of neighbours of the stream, with the columns that tell the later one's stamp.
pub(super) struct Span {
    before: Point,
    at: Point,
    stage: Column,
    full: Option<Column>,
}

/// A nullable column of 64-bit values, and the page of it that is open.
struct Column {
    opened: Opened,
    page: Vec<u8>,
    /// Where the values begin in the page.
    values: usize,
    split: Split,
    /// The level that all rows have, or `None` if each is in `levels`.
    all: Option<u8>,
    levels: Vec<u8>,
    /// Values that were taken.
    taken: usize,
}

impl Iterator for Batches {
    type Item = Result<Batch, CodecError>;

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
    pub(super) fn new(
        source: Arc<dyn Source>,
        footer: Arc<Footer>,
        stream: StreamLayout,
        first_group: usize,
        spans: Vec<Span>,
    ) -> Self {
        Batches {
            source,
            footer,
            stream,
            first_group,
            done: 0,
            last: -1,
            seq: Opened::new(0),
            scheduled: Opened::new(1),
            outcome: Dictionary::new(3),
            flags: Dictionary::new(4),
            pcp: Dictionary::new(5),
            spans,
            page: Batch::default(),
            room: Room::default(),
            zeros: vec![MaybeNanos::some(0); BATCH_ROWS],
        }
    }

    /// Replaces a batch by the next rows, using its memory again; false if there are no more.
    ///
    /// # Errors
    /// [`CodecError::Damaged`], [`CodecError::Io`]; no rows come after it.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool, CodecError> {
        if self.done >= self.stream.rows {
            return Ok(false);
        }
        match self.read_part(batch) {
            Ok(rows) => self.done += rows,
            Err(error) => {
                // What follows a broken page cannot be trusted.
                self.done = self.stream.rows;
                return Err(error);
            }
        }
        Ok(true)
    }

    fn read_part(&mut self, batch: &mut Batch) -> Result<usize, CodecError> {
        let in_group = self.done % GROUP_ROWS;
        if in_group == 0 {
            self.open_group(self.first_group + self.done / GROUP_ROWS)?;
        }
        let from = in_group % PAGE_ROWS;
        if from == 0 {
            self.open_page((self.stream.rows - self.done).min(GROUP_ROWS - in_group).min(PAGE_ROWS))?;
        }
        let part = from..self.page.len().min(from + BATCH_ROWS);
        replace(&mut batch.seq, &self.page.seq[part.clone()]);
        replace(&mut batch.scheduled_ns, &self.page.scheduled_ns[part.clone()]);
        replace(&mut batch.outcome, &self.page.outcome[part.clone()]);
        replace(&mut batch.flags, &self.page.flags[part.clone()]);
        replace(&mut batch.pcp, if self.stream.pcp { &self.page.pcp[part.clone()] } else { &[] });
        let mut offsets = std::mem::take(&mut batch.offsets);
        let mut whole = [false; Point::COUNT];
        whole[Point::Scheduled.index()] = true;
        for span in &mut self.spans {
            let mut stamps = offsets[span.at.index()].take().unwrap_or_default();
            // Each is written below; what is there already need not be cleared.
            stamps.resize(part.len(), MaybeNanos::NONE);
            let before = batch.offsets[span.before.index()].as_deref().unwrap_or(&self.zeros[..part.len()]);
            whole[span.at.index()] = span.read(&part, before, whole[span.before.index()], &mut stamps);
            batch.offsets[span.at.index()] = Some(stamps);
        }
        Ok(part.len())
    }

    fn open_page(&mut self, rows: usize) -> Result<(), CodecError> {
        let (room, page) = (&mut self.room, &mut self.page);
        self.seq.chunk.data(rows, DELTA_BINARY_PACKED, &mut room.page)?;
        decode_delta(&room.page, rows, &mut page.seq)?;
        self.last = last_of(self.last, &page.seq).map_err(damaged)?;
        self.scheduled.chunk.data(rows, DELTA_BINARY_PACKED, &mut room.page)?;
        decode_delta(&room.page, rows, &mut page.scheduled_ns)?;
        self.outcome.read(rows, room, &mut page.outcome)?;
        self.flags.read(rows, room, &mut page.flags)?;
        if self.stream.pcp {
            self.pcp.read_nullable(rows, room, &mut page.pcp)?;
        }
        self.spans.iter_mut().flat_map(Span::columns).try_for_each(|column| column.open_page(rows))
    }

    fn open_group(&mut self, group: usize) -> Result<(), CodecError> {
        let (source, group) = (&*self.source, &self.footer.groups[group]);
        self.seq.open(source, group)?;
        self.scheduled.open(source, group)?;
        self.outcome.open(source, group, outcome)?;
        self.flags.open(source, group, |bytes| small(bytes).map(Flags))?;
        if self.stream.pcp {
            self.pcp.open(source, group, small)?;
        }
        self.spans.iter_mut().flat_map(Span::columns).try_for_each(|column| column.opened.open(source, group))
    }
}

fn replace<T: Clone>(old: &mut Vec<T>, new: &[T]) {
    old.clear();
    old.extend_from_slice(new);
}

impl Span {
    /// `stage` and `full` are the places of the columns.
    pub fn new(before: Point, at: Point, stage: usize, full: Option<usize>) -> Self {
        Span { before, at, stage: Column::new(stage), full: full.map(Column::new) }
    }

    fn columns(&mut self) -> impl Iterator<Item = &mut Column> {
        std::iter::once(&mut self.stage).chain(&mut self.full)
    }

    /// Reads some rows of the page; true if every one has its stamp, which is only known if all
    /// have the one `before`.
    fn read(
        &mut self,
        rows: &Range<usize>,
        before: &[MaybeNanos],
        whole_before: bool,
        stamps: &mut [MaybeNanos],
    ) -> bool {
        let whole = whole_before && self.stage.levels() == Numbers::All(1);
        if whole {
            // So it is in all of the page, of which no full width is then asked for.
            self.stage.add_to(before, stamps);
            return true;
        }
        for ((row, before), stamp) in rows.clone().zip(before).zip(stamps) {
            let (stage, full) = (self.stage.next(row), self.full.as_mut().and_then(|full| full.next(row)));
            *stamp = before.get().zip(stage).map(|(before, stage)| before.wrapping_add(stage)).or(full).into();
        }
        false
    }
}

impl Column {
    fn new(index: usize) -> Self {
        let opened = Opened::new(index);
        let (page, levels) = (Vec::new(), Vec::new());
        Column { opened, page, values: 0, split: Split::default(), all: None, levels, taken: 0 }
    }

    fn open_page(&mut self, rows: usize) -> Result<(), CodecError> {
        self.opened.chunk.data(rows, BYTE_STREAM_SPLIT, &mut self.page)?;
        let (levels, values) = levels(&self.page, rows, &mut self.levels)?;
        self.split = Split::of(values)?;
        self.values = self.page.len() - values.len();
        let (said, there) = (levels.ones(rows), self.split.len());
        if said != there {
            return Err(damaged(format!("a page has {there} values, its levels say {said}")));
        }
        self.all = match levels {
            Numbers::All(level) => Some(level),
            Numbers::Each(_) => None,
        };
        self.taken = 0;
        Ok(())
    }

    fn levels(&self) -> Numbers<'_> {
        self.all.map_or(Numbers::Each(&self.levels), Numbers::All)
    }

    /// The value of the next row, whose number in the page is `row`. How many there are was
    /// checked.
    #[inline]
    fn next(&mut self, row: usize) -> Option<i64> {
        self.levels().is_one(row).then(|| {
            self.taken += 1;
            self.split.get(&self.page[self.values..], self.taken - 1)
        })
    }

    /// Takes a value for each of `before`, and adds them.
    fn add_to(&mut self, before: &[MaybeNanos], sums: &mut [MaybeNanos]) {
        self.split.add_to(&self.page[self.values..], self.taken, before, sums);
        self.taken += sums.len();
    }
}

// Columns of a few values, read page by page.

/// Values that a dictionary can have: its columns are of a byte or less.
const MOST_VALUES: usize = 256;

/// A column of a few values.
pub(super) struct Dictionary<V> {
    column: Opened,
    values: Vec<V>,
}

/// What is used again for every page.
#[derive(Default)]
pub(super) struct Room {
    pub page: Vec<u8>,
    levels: Vec<u8>,
    places: Vec<u8>,
}

impl<V: Copy> Dictionary<V> {
    pub fn new(index: usize) -> Self {
        Dictionary { column: Opened::new(index), values: Vec::new() }
    }

    /// `value` takes one off the front of the dictionary's bytes.
    pub fn open(
        &mut self,
        source: &dyn Source,
        group: &Group,
        value: impl Fn(&mut &[u8]) -> Result<V, CodecError>,
    ) -> Result<(), CodecError> {
        self.column.open(source, group)?;
        let (count, mut bytes) = self.column.chunk.dictionary()?;
        // Places are of a byte; a damaged count must not become a long list.
        let values: Result<Vec<V>, _> = (0..count.min(MOST_VALUES)).map(|_| value(&mut bytes)).collect();
        self.values = values?;
        Ok(())
    }

    /// Replaces `out` by the values of the next page.
    pub fn read(&mut self, rows: usize, room: &mut Room, out: &mut Vec<V>) -> Result<(), CodecError> {
        out.clear();
        self.column.chunk.data(rows, RLE_DICTIONARY, &mut room.page)?;
        match places(&room.page, rows, &mut room.places)? {
            Numbers::All(place) => out.resize(rows, value_at(&self.values, place)?),
            Numbers::Each(places) => {
                for place in places {
                    out.push(value_at(&self.values, *place)?);
                }
            }
        }
        Ok(())
    }

    /// Of a nullable column.
    pub fn read_nullable(&mut self, rows: usize, room: &mut Room, out: &mut Vec<Option<V>>) -> Result<(), CodecError> {
        out.clear();
        self.column.chunk.data(rows, RLE_DICTIONARY, &mut room.page)?;
        let (levels, page) = levels(&room.page, rows, &mut room.levels)?;
        let values = levels.ones(rows);
        if values == 0 {
            out.resize(rows, None);
            return Ok(());
        }
        let places = places(page, values, &mut room.places)?;
        let mut next = 0;
        for row in 0..rows {
            let value = match places {
                _ if !levels.is_one(row) => None,
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

fn value_at<V: Copy>(values: &[V], place: u8) -> Result<V, CodecError> {
    let lost = || damaged(format!("a dictionary of {} values has no place {place}", values.len()));
    values.get(usize::from(place)).copied().ok_or_else(lost)
}

/// A text off the front of a dictionary's bytes.
fn text<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], CodecError> {
    let ends = || damaged("a dictionary ends early");
    let (length, rest) = bytes.split_first_chunk().ok_or_else(ends)?;
    let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(ends)?;
    *bytes = rest;
    Ok(text)
}

/// An outcome off the front of a dictionary's bytes.
pub(super) fn outcome(bytes: &mut &[u8]) -> Result<Outcome, CodecError> {
    let text = text(bytes)?;
    let found = Outcome::ALL.into_iter().find(|outcome| outcome.name().as_bytes() == text);
    found.ok_or_else(|| damaged(format!("`{}` is not an outcome", String::from_utf8_lossy(text))))
}

/// Flags or a VLAN priority off the front of a dictionary's bytes.
pub(super) fn small(bytes: &mut &[u8]) -> Result<u8, CodecError> {
    let (int, rest) = bytes.split_first_chunk().ok_or_else(|| damaged("a dictionary ends early"))?;
    *bytes = rest;
    let int = i32::from_le_bytes(*int);
    u8::try_from(int).map_err(|_| damaged(format!("{int} is no set of flags and no VLAN priority")))
}

// What was left before packets, a page at a time.

/// The hints of one stream, page by page.
pub struct HintPages {
    source: Arc<dyn Source>,
    footer: Arc<Footer>,
    rows: usize,
    first_group: usize,
    done: usize,
    which: Dictionary<u8>,
    /// Names in the dictionary of the row group that is open.
    structs: Vec<String>,
    columns: Vec<(String, bool, Column)>,
    room: Room,
}

impl Iterator for HintPages {
    type Item = Result<Hints, CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done >= self.rows {
            return None;
        }
        let page = self.read();
        if page.is_err() {
            // What follows a broken page cannot be trusted.
            self.done = self.rows;
        }
        Some(page)
    }
}

impl HintPages {
    /// Of `rows` from a row group on, in the columns from the one that names the struct on.
    pub(super) fn new(
        source: Arc<dyn Source>,
        footer: Arc<Footer>,
        (rows, first_group): (usize, usize),
        (first, hints): (usize, &[HintLayout]),
    ) -> Self {
        let column = |(n, hint): (usize, &HintLayout)| (hint.name.clone(), hint.signed, Column::new(first + 1 + n));
        HintPages {
            source,
            footer,
            rows,
            first_group,
            done: 0,
            which: Dictionary::new(first),
            structs: Vec::new(),
            columns: hints.iter().enumerate().map(column).collect(),
            room: Room::default(),
        }
    }

    fn read(&mut self) -> Result<Hints, CodecError> {
        let in_group = self.done % GROUP_ROWS;
        if in_group == 0 {
            self.open_group(self.first_group + self.done / GROUP_ROWS)?;
        }
        let rows = (self.rows - self.done).min(GROUP_ROWS - in_group).min(PAGE_ROWS);
        let mut hints = Hints { structs: self.structs.clone(), ..Hints::default() };
        self.which.read_nullable(rows, &mut self.room, &mut hints.of)?;
        for (name, is_signed, column) in &mut self.columns {
            column.open_page(rows)?;
            let values = (0..rows).map(|row| column.next(row)).collect();
            hints.columns.push(HintColumn { name: name.clone(), is_signed: *is_signed, values });
        }
        self.done += rows;
        Ok(hints)
    }

    fn open_group(&mut self, group: usize) -> Result<(), CodecError> {
        let (source, group) = (&*self.source, &self.footer.groups[group]);
        let names = RefCell::new(Vec::new());
        self.which.open(source, group, |bytes| {
            let mut names = names.borrow_mut();
            names.push(String::from_utf8_lossy(text(bytes)?).into_owned());
            // A dictionary is read to at most 256 values.
            Ok((names.len() - 1) as u8)
        })?;
        self.structs = names.into_inner();
        self.columns.iter_mut().try_for_each(|(.., column)| column.opened.open(source, group))
    }
}
