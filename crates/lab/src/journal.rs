// SPDX-License-Identifier: MIT OR Apache-2.0
//! What would have to be undone if this process were killed now. The inverse of a step is on disk before the step begins,
//! so that a killed run leaves nothing that `undo` does not know of.
//!
//! One JSON object a line: `{"step":0,"undo":[["ip","netns","del","…"]]}` before a step, `{"undone":0}` after its inverse,
//! `{"agent":{"pid":…,"start":…,"boot":"…"}}` for a process. Only a line with its end counts: what was cut off while it was
//! written had not been begun.

use crate::command::Command;
use crate::names::Hold;
use crate::process::Identity;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Something is wrong with the journal.
#[derive(Debug, Error)]
pub enum JournalError {
    /// It cannot be read or written.
    #[error("cannot {doing} the journal {}: {source}", path.display())]
    File {
        /// `read` or `write`.
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A whole line says nothing that can be understood.
    #[error(
        "line {line} of the journal {} is damaged ({source}): delete what `ip netns` shows of this slot, then this folder",
        path.display()
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What the reader said.
        source: serde_json::Error,
    },
    /// A process is to be noted and does not exist.
    #[error("process {pid} cannot be noted in the journal: {source}")]
    NoProcess {
        /// Its number.
        pid: u32,
        /// The system's reason.
        source: io::Error,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Record {
    Step { step: u32, undo: Vec<Command> },
    Undone { undone: u32 },
    Agent { agent: Identity },
}

/// What stands in a journal and is not done with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Steps that were begun, or were about to be: number and inverse.
    pub steps: Vec<(u32, Vec<Command>)>,
    /// Processes that were started.
    pub agents: Vec<Identity>,
}

impl Contents {
    /// True if nothing is to be put back.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.agents.is_empty()
    }

    fn take_in(&mut self, record: Record) {
        match record {
            Record::Step { step, undo } => self.steps.push((step, undo)),
            Record::Undone { undone } => self.steps.retain(|(step, _)| *step != undone),
            Record::Agent { agent } => self.agents.push(agent),
        }
    }
}

/// Reads a journal; one that is not there is empty.
///
/// # Errors
/// If it cannot be read, or a whole line of it makes no sense.
pub fn read(path: &Path) -> Result<Contents, JournalError> {
    read_whole_lines(path).map(|(contents, _)| contents)
}

/// Also how many bytes its whole lines have.
fn read_whole_lines(path: &Path) -> Result<(Contents, u64), JournalError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(JournalError::File { doing: "read", path: path.to_owned(), source }),
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut contents = Contents::default();
    for (i, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        let record = serde_json::from_slice(line);
        contents.take_in(record.map_err(|source| JournalError::Damaged {
            path: path.to_owned(),
            line: i + 1,
            source,
        })?);
    }
    Ok((contents, whole as u64))
}

/// An open journal. It holds its slot.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    next: u32,
    contents: Contents,
    // Last, so that the slot is let go of after the file.
    _hold: Arc<Hold>,
}

impl Journal {
    pub(crate) fn open(hold: Arc<Hold>) -> Result<Journal, JournalError> {
        let path = hold.journal_path();
        let (contents, length) = read_whole_lines(&path)?;
        let open = || {
            let file = File::options().append(true).create(true).open(&path)?;
            // A torn line would spoil the one that is written after it.
            file.set_len(length)?;
            file.sync_all()?;
            File::open(&hold.dir)?.sync_all()?;
            Ok(file)
        };
        let file = open().map_err(|source| JournalError::File { doing: "write", path: path.clone(), source })?;
        let next = contents.steps.iter().map(|(step, _)| step + 1).max().unwrap_or(0);
        Ok(Journal { path, file, length, next, contents, _hold: hold })
    }

    /// What is not done with.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Notes the inverses of steps that are about to be begun; on disk when it returns. Gives their numbers.
    ///
    /// # Errors
    /// If it cannot be written: then none of the steps may be begun.
    pub fn will_do(&mut self, inverses: &[&[Command]]) -> Result<Vec<u32>, JournalError> {
        let steps: Vec<u32> = (self.next..).take(inverses.len()).collect();
        let records =
            steps.iter().zip(inverses).map(|(step, undo)| Record::Step { step: *step, undo: undo.to_vec() }).collect();
        self.append(records)?;
        self.next += inverses.len() as u32;
        Ok(steps)
    }

    /// Notes that steps are no more.
    ///
    /// # Errors
    /// If it cannot be written: the steps will be undone once more, which does no harm.
    pub fn undone(&mut self, steps: &[u32]) -> Result<(), JournalError> {
        self.append(steps.iter().map(|step| Record::Undone { undone: *step }).collect())
    }

    /// Notes a process that was started, so that undo can end it.
    ///
    /// # Errors
    /// If there is no such process, or it cannot be written.
    pub fn agent(&mut self, pid: u32) -> Result<(), JournalError> {
        let agent = Identity::of(pid).map_err(|source| JournalError::NoProcess { pid, source })?;
        self.append(vec![Record::Agent { agent }])
    }

    /// Empties it, when all has been put back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn clear(&mut self) -> Result<(), JournalError> {
        self.file.set_len(0).and_then(|()| self.file.sync_all()).map_err(|source| self.unwritten(source))?;
        self.length = 0;
        self.contents = Contents::default();
        Ok(())
    }

    fn unwritten(&self, source: io::Error) -> JournalError {
        JournalError::File { doing: "write", path: self.path.clone(), source }
    }

    fn append(&mut self, records: Vec<Record>) -> Result<(), JournalError> {
        let mut lines = Vec::new();
        for record in &records {
            serde_json::to_writer(&mut lines, record).map_err(|error| self.unwritten(error.into()))?;
            lines.push(b'\n');
        }
        if let Err(source) = self.file.write_all(&lines).and_then(|()| self.file.sync_data()) {
            let _ = self.file.set_len(self.length);
            return Err(self.unwritten(source));
        }
        self.length += lines.len() as u64;
        records.into_iter().for_each(|record| self.contents.take_in(record));
        Ok(())
    }
}
