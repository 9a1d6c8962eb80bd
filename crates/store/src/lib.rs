// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run folder: what a run leaves on disk, written so that a kill at any moment leaves every
//! finished trial whole.
//!
//! ```text
//! experiment.toml  manifest.json  commands.sh  events.jsonl  results.json  report.html
//! trials/<cell>/<n>/           samples.parquet  <stream>.hlog  trial.json
//! trials/<cell>/<n>.partial/   a trial that is running, or was when the run was killed
//! ```
//! [`RunFolder`] writes and reads it, [`SamplesFile`] is its `samples.parquet`, [`hlog`] is the
//! format of the histograms. [`DataSet`] is a folder of many runs.

mod data_set;
mod folder;
mod held;
pub mod hlog;
mod output;
mod samples;
mod way;

pub use data_set::{DataSet, DataSetRun, RunKey, Taken};
pub use folder::{RunFolder, TrialFolder, TrialId};
pub use output::{Output, write_output};
pub use samples::{Batches, SamplesFile, encode_samples, samples_schema, sql_view, write_samples};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use tardy_model::FORMAT;
use tardy_parquet::CodecError;
pub use tardy_parquet::Counted;
use thiserror::Error;

// What can go wrong with a run folder: what was tried, on what, why it failed, what to do next.

/// An error of the run folder.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("cannot {tried} {}: {reason}; {}", path.display(), what_to_do(tried, reason))]
    Io {
        /// What was tried: `write`, `read`, `rename`.
        tried: &'static str,
        path: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// The folder for a new run holds something already.
    #[error("{} is not empty, and a run is never written over another; name a new or an empty folder", path.display())]
    NotEmpty { path: PathBuf },
    /// A folder was asked for and there is something else.
    #[error("{} is not a folder; name a folder", path.display())]
    NotAFolder { path: PathBuf },
    /// A file was to be read and there is something else: a folder, a device, a pipe.
    #[error("{} is not a file; put the one there that the run wrote", path.display())]
    NotAFile { path: PathBuf },
    /// The folder for a new run, or for a file that root writes, is another user's.
    #[error(
        "{} belongs to user {owner}, and this is user {user}: who owns a folder could put a link there, and have another file overwritten; \
         name a new folder, or one of your own",
        path.display()
    )]
    Foreign {
        path: PathBuf,
        owner: u32,
        /// Who wants to write.
        user: u32,
    },
    /// Others may write into the folder.
    #[error("others may write into {}, and could change what is written there; name a new folder, or `chmod go-w` it", path.display())]
    OpenToOthers { path: PathBuf },
    /// A link is where nothing may be written through one.
    #[error("cannot write {}: `{}` is a link that is not to be followed; name the place that it leads to", path.display(), part.display())]
    Link {
        /// What was to be written.
        path: PathBuf,
        /// The part of the path that is the link.
        part: PathBuf,
    },
    /// A file of a run folder is a link that leads out of it.
    #[error(
        "{} is a link that leads out of the run folder, and what is read there could be any file of yours; put the file itself there",
        path.display()
    )]
    LeadsOut { path: PathBuf },
    /// There is no run folder of that name.
    #[error("there is no folder {}; name a run folder: the last line that `tardy run` prints has its path", path.display())]
    NoSuchRun { path: PathBuf },
    /// There is no manifest.
    #[error(
        "{} is not a run folder: it holds no manifest.json; name the folder that `tardy run` wrote (a run that was killed \
         before its set-up ended leaves none, and no trial either)",
        path.display()
    )]
    NotARun { path: PathBuf },
    /// A later version of tardy wrote it.
    #[error("{}: made by a newer tardy: format {format}, this one reads {FORMAT}; read it with that tardy", path.display())]
    Newer { path: PathBuf, format: u64 },
    /// The file is not what it should be.
    #[error("cannot read {}: {why}; {fix}", path.display())]
    Damaged {
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        fix: &'static str,
    },
    /// A cell or a stream has a name that cannot be a file's.
    #[error("`{name}` cannot name a file; use letters, digits and ._=,- and do not begin with a dot")]
    Name { name: String },
    /// A trial is begun twice.
    #[error("{} exists already; each trial is written once", path.display())]
    TrialExists { path: PathBuf },
    /// A trial is finished without all its files.
    #[error("{} lacks {lacks}, so the trial is not finished; write it first", path.display())]
    Incomplete {
        path: PathBuf,
        /// The file that is lacking.
        lacks: &'static str,
    },
    /// There is no such finished trial.
    #[error("{} is not a finished trial of this run; `trials` lists those that are", path.display())]
    NoSuchTrial {
        /// The folder it would have.
        path: PathBuf,
    },
    /// There is no such stream in the file.
    #[error("{} has no stream `{stream}`; it has {}", path.display(), have.join(", "))]
    NoSuchStream {
        path: PathBuf,
        stream: String,
        /// Those that it has.
        have: Vec<String>,
    },
    /// The rows to be written contradict themselves.
    #[error("cannot write the samples of stream `{stream}`: {why}")]
    Rows { stream: String, why: String },
}

/// What is tried where a file or a folder is new.
const CREATES: &str = "create";
/// What is tried where it is to be there.
const READS: [&str; 3] = ["open", "read", "examine"];

impl StoreError {
    /// True if there was no room left: the run ends with what it had.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, StoreError::Io { reason, .. }
            if matches!(reason.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge))
    }

    /// True if a file is not there that was to be read: the folder that the caller named lacks it.
    pub fn is_missing(&self) -> bool {
        matches!(self, StoreError::Io { tried, reason, .. }
            if READS.contains(tried) && reason.kind() == ErrorKind::NotFound)
    }

    /// For `map_err`: what was tried, on which path.
    pub(crate) fn io(tried: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_owned();
        move |reason| StoreError::Io { tried, path, reason }
    }

    /// An error of the codec of samples: what was tried, on which file.
    pub(crate) fn of_samples(tried: &'static str, path: &Path, error: CodecError) -> StoreError {
        let path = path.to_owned();
        match error {
            CodecError::Io(reason) => StoreError::Io { tried, path, reason },
            CodecError::Damaged(why) => {
                let fix =
                    "the file was cut short or changed after the trial: copy it again, or remove this trial's folder";
                StoreError::Damaged { path, why, fix }
            }
            CodecError::Newer { format } => StoreError::Newer { path, format },
            CodecError::NoSuchStream { stream, have } => StoreError::NoSuchStream { path, stream, have },
            CodecError::Rows { stream, why } => StoreError::Rows { stream, why },
        }
    }
}

fn what_to_do(tried: &str, reason: &io::Error) -> &'static str {
    match reason.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space there, or choose a folder on another disk"
        }
        ErrorKind::FileTooLarge => "raise the limit on the size of files (`ulimit -f`), or take fewer packets",
        ErrorKind::PermissionDenied => "choose a folder that you may use, or give yourself the right",
        ErrorKind::ReadOnlyFilesystem => "choose a folder on a file system that can be written",
        ErrorKind::NotFound if tried == CREATES => "choose a place in a folder that is there and takes files",
        ErrorKind::NotFound => "the run folder is not whole: copy it again from where it is, or run it again",
        ErrorKind::InvalidFilename => "shorten the name of the case or the values of its axes",
        _ => "fix that and try again",
    }
}
