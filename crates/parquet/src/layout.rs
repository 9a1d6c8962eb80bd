// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which columns a file has, and which of them a stream uses.

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use tardy_model::FORMAT;
use tardy_model::point::{Metric, Point};
use tardy_model::sample::Batch;
use tardy_model::xdp::{HINT, MOST_COLUMNS, is_taken};

/// Key of the footer's entry that holds the [`Layout`] as JSON.
pub(crate) const KEY: &str = "tardy";

/// The columns that every file has, in their order.
pub(crate) const FIXED: [&str; 6] = ["seq", "scheduled_ns", "stream", "outcome", "flags", "pcp"];

/// What the footer contains in addition to the schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// Version of the file.
    pub format: u64,
    /// [`Layout::sum`], so that damage becomes an error and not another number.
    pub crc32: u32,
    /// In the order of their rows.
    pub streams: Vec<StreamLayout>,
    /// Columns of hints, where any stream has them, after all others and behind the one that says
    /// which struct a row has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<Vec<HintLayout>>,
}

/// A member of the structs that a user's own XDP program left before packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HintLayout {
    pub name: String,
    pub signed: bool,
}

/// One stream's share of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamLayout {
    pub name: String,
    pub rows: usize,
    /// Points with a source, in causal order, without `scheduled`.
    pub points: Vec<Point>,
    /// Whether its port sees a VLAN priority.
    pub pcp: bool,
}

impl Layout {
    pub(crate) fn of(streams: &[(&str, &Batch)]) -> Self {
        let entry = |(name, batch): &(&str, &Batch)| StreamLayout {
            name: (*name).to_owned(),
            rows: batch.len(),
            points: Point::ALL.into_iter().filter(|p| *p != Point::Scheduled && batch.has(*p)).collect(),
            pcp: !batch.pcp.is_empty(),
        };
        let streams_layout = streams.iter().map(entry).collect();
        Layout { format: u64::from(FORMAT), crc32: 0, streams: streams_layout, hints: hints(streams) }
    }

    pub(crate) fn json(&self) -> Result<String, ParquetError> {
        serde_json::to_string(self).map_err(|why| ParquetError::General(why.to_string()))
    }

    /// The sum to keep, when `chunks` is that of all bytes before the footer: it covers the layout
    /// too.
    pub(crate) fn sum(&self, chunks: u32) -> Result<u32, ParquetError> {
        Ok(crc32fast::hash(Layout { crc32: chunks, ..self.clone() }.json()?.as_bytes()))
    }
}

/// The columns of all streams' hints: those of one name are one column, unsigned if they all are.
fn hints(streams: &[(&str, &Batch)]) -> Option<Vec<HintLayout>> {
    let mut columns: Option<Vec<HintLayout>> = None;
    for hints in streams.iter().filter_map(|(_, batch)| batch.hints.as_ref()) {
        let columns = columns.get_or_insert_default();
        for column in &hints.columns {
            match columns.iter_mut().find(|known| known.name == column.name) {
                Some(known) => known.signed |= column.is_signed,
                None => columns.push(HintLayout { name: column.name.clone(), signed: column.is_signed }),
            }
        }
    }
    columns
}

impl StreamLayout {
    /// Neighbours in the stream's chain.
    pub(crate) fn stages(&self) -> Vec<(Point, Point)> {
        let chain: Vec<Point> = std::iter::once(Point::Scheduled).chain(self.points.iter().copied()).collect();
        chain.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// Row groups that the stream fills.
    pub(crate) fn groups(&self) -> usize {
        self.rows.div_ceil(crate::GROUP_ROWS)
    }
}

/// The span columns of a file: the union of the streams' stages in causal order, then the
/// full-width ones that a row needs.
pub(crate) fn spans(layout: &Layout, streams: &[(&str, &Batch)]) -> Vec<(Point, Point)> {
    let mut stages = BTreeSet::new();
    let mut full = BTreeSet::new();
    for (stream, (_, batch)) in layout.streams.iter().zip(streams) {
        for (before, at) in stream.stages() {
            stages.insert((before, at));
            if (0..batch.len()).any(|row| needs_full_width(batch, row, before, at)) {
                full.insert((Point::Scheduled, at));
            }
        }
    }
    let rest: Vec<_> = full.difference(&stages).copied().collect();
    stages.into_iter().chain(rest).collect()
}

/// The first of these names that no column of hints can have, or that is there before; one that
/// exceeds their number.
pub(crate) fn wrong_hint<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let mut seen = BTreeSet::new();
    let is_wrong = |(n, name): &(usize, &str)| {
        let low = name.to_lowercase();
        *n >= MOST_COLUMNS || low.is_empty() || low.contains("..") || is_taken(&low) || !seen.insert(low)
    };
    names.into_iter().enumerate().find(is_wrong).map(|(_, name)| name)
}

/// True if the stamp of `at` is in the full-width column: the neighbour before it is missing in
/// this row.
pub(crate) fn needs_full_width(batch: &Batch, row: usize, before: Point, at: Point) -> bool {
    batch.offset(row, before).is_none() && batch.offset(row, at).is_some()
}

/// The name of the column with the distance from the first point to the second, in ns.
pub fn column_name(span: (Point, Point)) -> String {
    Metric::Span(span.0, span.1).to_string()
}

pub(crate) fn schema(spans: &[(Point, Point)], hints: Option<&[HintLayout]>) -> Result<TypePtr, ParquetError> {
    let column = |name: &str, physical, repetition, logical: Option<LogicalType>| {
        let column =
            Type::primitive_type_builder(name, physical).with_repetition(repetition).with_logical_type(logical);
        column.build().map(Arc::new)
    };
    let (required, optional, text) = (Repetition::REQUIRED, Repetition::OPTIONAL, Some(LogicalType::String));
    let mut columns = vec![
        column(FIXED[0], Physical::INT64, required, None)?,
        column(FIXED[1], Physical::INT64, required, None)?,
        column(FIXED[2], Physical::BYTE_ARRAY, required, text.clone())?,
        column(FIXED[3], Physical::BYTE_ARRAY, required, text.clone())?,
        column(FIXED[4], Physical::INT32, required, None)?,
        column(FIXED[5], Physical::INT32, optional, None)?,
    ];
    for span in spans {
        columns.push(column(&column_name(*span), Physical::INT64, optional, None)?);
    }
    if let Some(hints) = hints {
        columns.push(column(HINT, Physical::BYTE_ARRAY, optional, text)?);
        for hint in hints {
            let unsigned = (!hint.signed).then(|| LogicalType::integer(64, false));
            columns.push(column(&hint.name, Physical::INT64, optional, unsigned)?);
        }
    }
    Type::group_type_builder("samples").with_fields(columns).build().map(Arc::new)
}
