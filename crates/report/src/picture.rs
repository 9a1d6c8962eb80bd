// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every rendering of a run is made of, how it is to look, and why there is none.

use std::collections::BTreeMap;
use tardy_analyze::envelope::Trace;
use tardy_model::histogram::Histogram;
use tardy_model::manifest::Manifest;
use tardy_model::result::Results;
use tardy_model::time::Nanos;

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

impl Picture<'_> {
    /// What the figures are of: one, and several.
    pub(crate) fn noun(&self) -> [&'static str; 2] {
        if self.facts.counts_passes { ["pass", "passes"] } else { ["packet", "packets"] }
    }
}

/// What was sent. Each list may hold one entry per cell and stream; repetitions are dropped when
/// shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Streams, in the order of the experiment file; the first one leads. Each once.
    pub streams: Vec<String>,
    /// Kinds of path: `veth`.
    pub paths: Vec<String>,
    pub ports: Vec<String>,
    pub cycles: Vec<Nanos>,
    /// Intended packets of a stream in a trial; of a copy the passes of all threads.
    pub packets: Vec<u64>,
    /// They are passes of a copy, and no packets.
    pub counts_passes: bool,
    /// The table of the reference results that the run names.
    pub reference: Option<String>,
    /// Between which stations a stream goes, by cell and stream: `a → b`. Empty if there are two.
    pub pairs: BTreeMap<(String, String), String>,
}

impl Facts {
    /// A stream of a cell as a heading: its name, and its stations where there are more than two.
    pub(crate) fn called(&self, cell: &str, stream: &str) -> String {
        match self.pair(cell, stream) {
            Some(pair) => format!("{stream}, {pair}"),
            None => stream.to_owned(),
        }
    }

    /// Its stations, where there are more than two.
    pub(crate) fn pair(&self, cell: &str, stream: &str) -> Option<&str> {
        self.pairs.get(&(cell.to_owned(), stream.to_owned())).map(String::as_str)
    }

    /// What there is by stream, in the order of the experiment file; behind it what that does not
    /// name.
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
    #[error("`{asked}` is not a format: choose one of {known}")]
    UnknownFormat {
        /// What was asked for.
        asked: String,
        known: String,
    },
    /// The results could not be written as JSON.
    #[error("the results of `{name}` cannot be written as JSON: {why}; run the analysis again with `tardy report`")]
    Json { name: String, why: serde_json::Error },
}
