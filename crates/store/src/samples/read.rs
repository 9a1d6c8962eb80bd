// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens `samples.parquet`: what its footer says is checked before a row is believed.

use super::batches::{Batches, Span};
use super::footer::{Column, Footer};
use super::layout::{self, FIXED, Layout, StreamLayout};
use super::{GROUP_ROWS, PAGE_ROWS, page};
use crate::{StoreError, durable};
use crc32fast::Hasher;
use parquet::basic::{Repetition, Type};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tardy_model::FORMAT;
use tardy_model::point::Point;

/// Bytes before the first chunk.
const MARK: u64 = 4;

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
        SamplesFile::of(durable::open(path)?, path)
    }

    /// The same of a file that is open.
    pub(crate) fn of(file: File, path: &Path) -> Result<Self, StoreError> {
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

    /// The rows of a stream, at most [`super::BATCH_ROWS`] at a time. A stream without rows gives nothing.
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
            spans.push(Span::new(before, at, place(&name).ok_or_else(lost)?, full));
        }
        // Read by position only, so that iterators over one file can be used side by side.
        let file = self.file.try_clone().map_err(StoreError::io("open", &self.path))?;
        Ok(Batches::new(self.path.clone(), file, Arc::clone(&self.footer), entry.clone(), first_group, spans))
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
    let mut part = vec![0; 64 << 10];
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
