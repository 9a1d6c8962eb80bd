// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a file of samples: what its footer says is checked before a row is believed.

mod batches;
mod footer;
mod page;
mod source;

pub use batches::{Batches, HintPages};
pub use source::Source;

use crate::layout::{self, FIXED, HintLayout, Layout, StreamLayout};
use crate::{CodecError, GROUP_ROWS, PAGE_ROWS};
use batches::Span;
use crc32fast::Hasher;
use footer::{Column, Footer};
use parquet::basic::{Repetition, Type};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use tardy_model::FORMAT;
use tardy_model::point::Point;
use tardy_model::xdp::HINT;

/// Bytes before the first chunk.
const MARK: u64 = 4;

/// An open file of samples.
pub struct Reader {
    source: Arc<dyn Source>,
    footer: Arc<Footer>,
    layout: Layout,
}

impl Reader {
    /// Reads the footer, and all other bytes once for their check sum.
    ///
    /// # Errors
    /// [`CodecError::Damaged`] if it is cut short or is not a file of samples,
    /// [`CodecError::Newer`] if a later tardy wrote it, [`CodecError::Io`] if the source fails.
    pub fn open(source: impl Source + 'static) -> Result<Self, CodecError> {
        let footer = Footer::read(&source)?;
        let layout = read_layout(&footer)?;
        check_chunks(&footer).map_err(CodecError::Damaged)?;
        let chunks = sum_of_chunks(&source, footer.begins).map_err(CodecError::Io)?;
        // A fuzzer would never get past the sum; the checks that follow must hold without it.
        if layout.sum(chunks).map_err(CodecError::refused)? != layout.crc32 && !cfg!(fuzzing) {
            return Err(CodecError::Damaged("its bytes do not have their check sum".to_owned()));
        }
        Ok(Reader { source: Arc::new(source), footer: Arc::new(footer), layout })
    }

    /// The streams' names, in the order of their rows.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        self.layout.streams.iter().map(|stream| stream.name.as_str())
    }

    /// Rows of a stream: packets intended in this trial.
    ///
    /// # Errors
    /// [`CodecError::NoSuchStream`].
    pub fn rows(&self, stream: &str) -> Result<usize, CodecError> {
        Ok(self.find(stream)?.1.rows)
    }

    /// The points of a stream that have a source, in causal order, `scheduled` among them.
    ///
    /// # Errors
    /// [`CodecError::NoSuchStream`].
    pub fn points(&self, stream: &str) -> Result<Vec<Point>, CodecError> {
        let points = &self.find(stream)?.1.points;
        Ok(std::iter::once(Point::Scheduled).chain(points.iter().copied()).collect())
    }

    /// The rows of a stream, at most [`crate::BATCH_ROWS`] at a time. A stream without rows gives
    /// nothing.
    ///
    /// # Errors
    /// [`CodecError::NoSuchStream`]; [`CodecError::Damaged`] if a column of the stream is missing.
    pub fn batches(&self, stream: &str) -> Result<Batches, CodecError> {
        let (first_group, entry) = self.find(stream)?;
        let place = |name: &str| self.footer.columns.iter().position(|column| column.name == name);
        let mut spans = Vec::new();
        for (before, at) in entry.stages() {
            let name = layout::column_name((before, at));
            let lost = || CodecError::Damaged(format!("column `{name}` is missing"));
            let full =
                if before == Point::Scheduled { None } else { place(&layout::column_name((Point::Scheduled, at))) };
            spans.push(Span::new(before, at, place(&name).ok_or_else(lost)?, full));
        }
        // Read by position only, so that iterators over one file can be used side by side.
        Ok(Batches::new(Arc::clone(&self.source), Arc::clone(&self.footer), entry.clone(), first_group, spans))
    }

    /// The names of the columns of hints, `hint` itself not among them; nothing if no stream has
    /// hints.
    pub fn hint_columns(&self) -> Option<Vec<String>> {
        let hints = self.layout.hints.as_ref()?;
        Some(hints.iter().map(|hint| hint.name.clone()).collect())
    }

    /// What a user's own XDP program left before the packets of a stream, page by page; nothing if
    /// no stream of the file has that.
    ///
    /// # Errors
    /// [`CodecError::NoSuchStream`].
    pub fn hints(&self, stream: &str) -> Result<Option<HintPages>, CodecError> {
        let (first_group, entry) = self.find(stream)?;
        let Some(hints) = &self.layout.hints else { return Ok(None) };
        let first = self.footer.columns.len() - hints.len() - 1;
        let (source, footer) = (Arc::clone(&self.source), Arc::clone(&self.footer));
        Ok(Some(HintPages::new(source, footer, (entry.rows, first_group), (first, hints))))
    }

    fn find(&self, name: &str) -> Result<(usize, &StreamLayout), CodecError> {
        let mut group = 0;
        for stream in &self.layout.streams {
            if stream.name == name {
                return Ok((group, stream));
            }
            group += stream.groups();
        }
        let have = self.streams().map(str::to_owned).collect();
        Err(CodecError::NoSuchStream { stream: name.to_owned(), have })
    }
}

/// The layout that a footer has, after the footer has been checked against it.
fn read_layout(footer: &Footer) -> Result<Layout, CodecError> {
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    let damaged = CodecError::Damaged;
    let json = footer.layout.as_deref();
    let json =
        json.ok_or_else(|| damaged(format!("its footer has no `{}` entry, so tardy did not write it", layout::KEY)))?;
    let Version { format } = serde_json::from_str(json).map_err(|why| damaged(format!("its footer says: {why}")))?;
    if format > u64::from(FORMAT) {
        return Err(CodecError::Newer { format });
    }
    let layout: Layout = serde_json::from_str(json).map_err(|why| damaged(format!("its footer says: {why}")))?;
    check_streams(&layout)?;
    check_columns(footer, &layout)?;
    check_groups(footer, &layout)?;
    Ok(layout)
}

/// Each stream is there once, with its points in causal order.
fn check_streams(layout: &Layout) -> Result<(), CodecError> {
    let mut names = BTreeSet::new();
    for stream in &layout.streams {
        let is_chain = !stream.points.contains(&Point::Scheduled) && stream.points.is_sorted_by(|a, b| a < b);
        if !names.insert(&stream.name) || !is_chain {
            return Err(CodecError::Damaged(format!(
                "stream `{}` is there twice, or its points are not in their order",
                stream.name
            )));
        }
    }
    Ok(())
}

/// The columns are the fixed ones, and then those of points and hints that streams have.
fn check_columns(footer: &Footer, layout: &Layout) -> Result<(), CodecError> {
    let damaged = CodecError::Damaged;
    let expected = layout::schema(&[], None).map_err(CodecError::refused)?;
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
    for column in &footer.columns[FIXED.len()..footer.columns.len() - hint_columns(footer, layout)?] {
        if !column.is(Type::INT64, Repetition::OPTIONAL) {
            return Err(damaged(format!("column `{}` is not a nullable INT64", column.name)));
        }
        if !known.contains(&column.name) {
            return Err(damaged(format!("column `{}` belongs to no stream", column.name)));
        }
    }
    Ok(())
}

/// The row groups are as many and as long as the streams' rows make them.
fn check_groups(footer: &Footer, layout: &Layout) -> Result<(), CodecError> {
    let differ = || CodecError::Damaged("its row groups are not those that its footer promises".to_owned());
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
    Ok(())
}

/// How many columns of hints the file ends with: as many as its layout says, in that order.
fn hint_columns(footer: &Footer, layout: &Layout) -> Result<usize, CodecError> {
    let Some(hints) = &layout.hints else { return Ok(0) };
    if let Some(name) = layout::wrong_hint(hints.iter().map(|hint| hint.name.as_str())) {
        return Err(CodecError::Damaged(format!("`{name}` cannot be the name of a column of hints")));
    }
    let number = hints.len() + 1;
    let others = &footer.columns[FIXED.len()..];
    let columns = others.len().checked_sub(number).map(|first| &others[first..]);
    let fits = columns.is_some_and(|columns| {
        let [which, members @ ..] = columns else { return false };
        let is_member = |(column, hint): (&Column, &HintLayout)| {
            column.name == hint.name && column.is(Type::INT64, Repetition::OPTIONAL)
        };
        which.name == HINT
            && which.is(Type::BYTE_ARRAY, Repetition::OPTIONAL)
            && members.iter().zip(hints).all(is_member)
    });
    if fits {
        Ok(number)
    } else {
        Err(CodecError::Damaged("its columns of hints are not those of its layout".to_owned()))
    }
}

/// The sum of the bytes before the footer.
fn sum_of_chunks(source: &dyn Source, footer: u64) -> io::Result<u32> {
    let mut sum = Hasher::new();
    let mut part = vec![0; 64 << 10];
    let mut at = 0;
    while at < footer {
        let length = usize::try_from(footer - at).map_or(part.len(), |left| left.min(part.len()));
        source.read_exact_at(&mut part[..length], at)?;
        sum.update(&part[..length]);
        at += length as u64;
    }
    Ok(sum.finalize())
}

/// A footer is not taken at its word. Chunks stand one after another up to the footer, as they
/// were written, and none is longer than its pages can be, so that a file of holes costs neither
/// memory nor a wait.
fn check_chunks(footer: &Footer) -> Result<(), String> {
    let mut at = footer.groups.first().map_or(footer.begins, |_| MARK);
    for group in &footer.groups {
        // A dictionary takes no more than a page, and a page that cannot be compressed grows by
        // little.
        let longest = (1 + group.rows.div_ceil(PAGE_ROWS)) * 2 * page::LONGEST;
        for (i, (chunk, column)) in group.chunks.iter().zip(&footer.columns).enumerate() {
            let is_dictionary =
                column.name == HINT || matches!(FIXED.get(i), Some(&("stream" | "outcome" | "flags" | "pcp")));
            let fits = chunk.start == at
                && chunk.has_dictionary == is_dictionary
                && (if is_dictionary { chunk.is_plain() } else { chunk.is_zstd() })
                && chunk.values == group.rows
                && chunk.length <= longest;
            let end = at.checked_add(chunk.length as u64).filter(|end| fits && *end <= footer.begins);
            at = end.ok_or_else(|| format!("column `{}` is not where its footer puts it", column.name))?;
        }
    }
    if at == footer.begins { Ok(()) } else { Err("it has more columns than its footer lists".to_owned()) }
}
