// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures of a run: the same results as text, Markdown, Org, HTML, JSON and CSV. Pure: a [`Picture`] in, a string out.
//!
//! A format is one file here and one line in [`FORMATS`].

use std::collections::BTreeMap;
use std::fmt;
use tardy_analyze::envelope::Trace;
use tardy_model::histogram::Histogram;
use tardy_model::manifest::Manifest;
use tardy_model::result::Results;
use tardy_model::time::Nanos;

mod bins;
mod block;
mod column;
pub mod compare;
mod csv;
mod document;
pub mod export;
pub mod figure;
mod guest;
mod html;
mod json;
mod loads;
mod markdown;
mod org;
mod reference;
mod sparkline;
mod summary;
mod text;
mod together;
pub mod worst;

pub use sparkline::sparkline;

/// Non-empty buckets of a histogram: lowest value, highest value (both inclusive, ns), how many.
pub type Bars = Vec<(i64, i64, u64)>;

/// The bars of a histogram.
pub fn bars(histogram: &Histogram) -> Bars {
    histogram.iter().map(|bucket| (bucket.low_ns, bucket.high_ns, bucket.count)).collect()
}

/// What a picture is made of.
pub struct Picture<'a> {
    /// What the run found.
    pub results: &'a Results,
    /// What made it.
    pub manifest: &'a Manifest,
    /// What was sent, for the line at the top.
    pub facts: &'a Facts,
    /// The histogram of (cell id, stream, metric); empty if there is none.
    pub bars: &'a dyn Fn(&str, &str, &str) -> Bars,
    /// The run folder as the user would write it.
    pub run_dir: Option<&'a str>,
    /// How long the run took.
    pub elapsed: Option<Nanos>,
    /// The effective experiment file.
    pub experiment: Option<&'a str>,
    /// The trials over time, of which only the page is made; empty for the other formats.
    pub traces: &'a [Trace],
    /// Every command that was run, of which only the page is made.
    pub commands: Option<&'a str>,
}

/// What was sent. Each list may hold one entry per cell and stream; repetitions are dropped when shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Streams, in the order of the experiment file; the first one leads. Each once.
    pub streams: Vec<String>,
    /// Kinds of path: `veth`.
    pub paths: Vec<String>,
    /// Ports: `udp`.
    pub ports: Vec<String>,
    /// Cycles.
    pub cycles: Vec<Nanos>,
    /// Intended packets of a stream in a trial.
    pub packets: Vec<u64>,
    /// The table of the reference results that the run names.
    pub reference: Option<String>,
}

impl Facts {
    /// What there is by stream, in the order of the experiment file; behind it what that does not name.
    pub(crate) fn in_order<'a, T>(&self, by_stream: &'a BTreeMap<String, T>) -> Vec<(&'a String, &'a T)> {
        let place = |name: &String| self.streams.iter().position(|known| known == name).unwrap_or(usize::MAX);
        let mut streams: Vec<_> = by_stream.iter().collect();
        streams.sort_by_key(|(name, _)| place(name));
        streams
    }
}

/// How a picture is to look. Only `text` looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Columns of the terminal.
    pub width: usize,
    /// Colour where it means something, by ANSI escapes.
    pub colour: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { width: 100, colour: false }
    }
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// No such format.
    #[error("`{asked}` is not a format: choose one of {known}")]
    UnknownFormat {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// The results could not be written as JSON.
    #[error("the results of `{name}` cannot be written as JSON: {why}; run the analysis again with `tardy report`")]
    Json {
        /// The experiment's name.
        name: String,
        /// The serialiser's reason.
        why: serde_json::Error,
    },
}

/// One way to picture a run.
pub struct Format {
    /// As in `--format`.
    pub name: &'static str,
    /// Of a file's name.
    pub extension: &'static str,
    /// What it is, for help texts.
    pub says: &'static str,
    /// Makes the picture; it ends with a newline.
    pub make: fn(&Picture<'_>, &Options) -> Result<String, ReportError>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All formats.
pub const FORMATS: &[Format] = &[
    Format { name: "text", extension: "txt", says: "the table for a terminal", make: text::make },
    Format { name: "md", extension: "md", says: "Markdown with GitHub tables", make: markdown::make },
    Format { name: "org", extension: "org", says: "Org with tables", make: org::make },
    Format { name: "html", extension: "html", says: "one page, readable offline", make: html::make },
    Format { name: "json", extension: "json", says: "results.json", make: json::make },
    Format { name: "csv", extension: "csv", says: "a row per cell, stream and metric", make: csv::make },
];

/// The format of that name.
///
/// # Errors
/// [`ReportError::UnknownFormat`], which lists what there is.
pub fn format(name: &str) -> Result<&'static Format, ReportError> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| ReportError::UnknownFormat {
        asked: name.to_owned(),
        known: FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", "),
    })
}
