// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run for other people's tools, written as it is read, so that a run of any length needs little
//! memory.
//!
//! An exporter is one file here and one line in [`EXPORTERS`]. `docs/export.md` says what each
//! writes, and what it loses.

mod csv;
mod hlog;
mod pcapng;
mod perfetto;
mod prometheus;
mod source;

pub use source::{ExportError, Source};
use std::fmt;
use std::io::Write;

/// What an export is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The figures, judged anew from the trials.
    Figures,
    /// The samples; of the results only what the trials are.
    Samples,
    /// The same, and what the experiment says of the packets.
    Packets,
}

pub struct Exporter {
    /// The word for it after `--to`.
    pub name: &'static str,
    /// Of a file's name.
    pub extension: &'static str,
    /// What it is, for help texts.
    pub says: &'static str,
    /// What it is made of.
    pub needs: Needs,
    /// Writes it. Comes back with what the user ought to know about it.
    pub write: fn(&Source<'_>, &mut dyn Write) -> Result<Vec<String>, ExportError>,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("name", &self.name).finish_non_exhaustive()
    }
}

pub const EXPORTERS: &[Exporter] = &[
    Exporter {
        name: "hlog",
        extension: "hlog",
        says: "the distributions as an HdrHistogram log",
        needs: Needs::Samples,
        write: hlog::write,
    },
    Exporter {
        name: "csv",
        extension: "csv",
        says: "the samples, a row per intended packet",
        needs: Needs::Samples,
        write: csv::write,
    },
    Exporter {
        name: "prometheus",
        extension: "prom",
        says: "the figures in Prometheus' text format",
        needs: Needs::Figures,
        write: prometheus::write,
    },
    Exporter {
        name: "pcapng",
        extension: "pcapng",
        says: "the packets as a capture, each at every point that stamped it",
        needs: Needs::Packets,
        write: pcapng::write,
    },
    Exporter {
        name: "perfetto",
        extension: "pftrace",
        says: "trials on a time line, with packets, stages, threads and loads, as a Perfetto trace",
        needs: Needs::Samples,
        write: perfetto::write,
    },
];

/// The exporter of that name.
///
/// # Errors
/// [`ExportError::Unknown`], which lists what there is.
pub fn exporter(name: &str) -> Result<&'static Exporter, ExportError> {
    EXPORTERS.iter().find(|exporter| exporter.name == name).ok_or_else(|| {
        let known = EXPORTERS.iter().map(|exporter| exporter.name).collect::<Vec<_>>().join(", ");
        ExportError::Unknown { asked: name.to_owned(), known }
    })
}
