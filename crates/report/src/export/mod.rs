// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run for other people's tools, written as it is read, so that a run of any length needs little
//! memory.
//!
//! An exporter is one file here and one line in [`EXPORTERS`]. `docs/export.md` says what each
//! writes, and what it loses.

mod csv;
mod data_set;
mod hlog;
mod pcapng;
mod perfetto;
mod prometheus;
mod source;

pub use data_set::Labels;
pub use source::{ExportError, Source};
use std::fmt;
use std::io::Write;
use tardy_store::DataSet;

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
    /// How it is written, and so where to.
    pub write: Writes,
}

/// How an export is written. Either comes back with what the user ought to know about it.
#[derive(Clone, Copy)]
pub enum Writes {
    /// As bytes, to a file or a pipe.
    Bytes(fn(&Source<'_>, &mut dyn Write) -> Result<Vec<String>, ExportError>),
    /// Into a folder where other runs are too.
    Folder(fn(&Source<'_>, &Labels, &DataSet) -> Result<Vec<String>, ExportError>),
}

impl Exporter {
    /// Writes it as bytes.
    ///
    /// # Errors
    /// [`ExportError::NoBytes`] of what is written into a folder; those of reading and writing.
    pub fn write_bytes(&self, source: &Source<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
        match self.write {
            Writes::Bytes(write) => write(source, out),
            Writes::Folder(_) => Err(ExportError::NoBytes { asked: self.name }),
        }
    }
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
        write: Writes::Bytes(hlog::write),
    },
    Exporter {
        name: "csv",
        extension: "csv",
        says: "the samples, a row per intended packet",
        needs: Needs::Samples,
        write: Writes::Bytes(csv::write),
    },
    Exporter {
        name: "prometheus",
        extension: "prom",
        says: "the figures in Prometheus' text format",
        needs: Needs::Figures,
        write: Writes::Bytes(prometheus::write),
    },
    Exporter {
        name: "dataset",
        extension: "",
        says: "the samples of many runs as one data set of Parquet files",
        needs: Needs::Samples,
        write: Writes::Folder(data_set::write),
    },
    Exporter {
        name: "pcapng",
        extension: "pcapng",
        says: "the packets as a capture, each at every point that stamped it",
        needs: Needs::Packets,
        write: Writes::Bytes(pcapng::write),
    },
    Exporter {
        name: "perfetto",
        extension: "pftrace",
        says: "trials on a time line, with packets, stages, threads and loads, as a Perfetto trace",
        needs: Needs::Samples,
        write: Writes::Bytes(perfetto::write),
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
