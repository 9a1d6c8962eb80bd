// SPDX-License-Identifier: MIT OR Apache-2.0
//! What would have to be undone if this process were killed now. The inverse of a step is on disk
//! before the step begins, so that `undo` knows of everything that a killed run leaves.
//!
//! One JSON object a line, each with the version of this form: `{"v":2,"boot":"…"}` first,
//! `{"v":2,"step":{"number":0,"undo":[…]}}` before a step, `{"v":2,"undone":0}` after its inverse,
//! `{"v":2,"agent":{"pid":…,"start":…,"boot":"…"}}` for a process, `{"v":2,"kept":"doctor"}` of one
//! whose changes are to outlive its process. Only a line with its end counts: what was cut off
//! while it was written had not been begun.

use crate::command::Command;
use crate::process::Identity;
use crate::state::{Folder, StateError};
use crate::step::Inverse;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::any::Any;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tardy_sys::proc;
use thiserror::Error;

/// The version of the lines.
const VERSION: u64 = 2;
/// The version whose lines had none: its inverses were commands.
const FIRST: u64 = 1;
/// The journal's name in its slot's folder.
pub(crate) const NAME: &str = "journal.jsonl";
/// A journal is shorter, bytes.
const LONGEST: u64 = 16 << 20;
/// How many lines we show of a journal that we only show.
const MOST_SHOWN: usize = 200;

/// Something is wrong with the journal.
#[derive(Debug, Error)]
pub enum JournalError {
    /// It cannot be opened, or is not this user's.
    #[error(transparent)]
    State(#[from] StateError),
    /// It cannot be read or written.
    #[error("cannot {doing} the journal {}: {source}", path.display())]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    /// A whole line says nothing that can be understood.
    #[error(
        "line {line} of the journal {} is damaged ({why}): delete what `ip netns` shows of this slot, then this folder",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        why: String,
    },
    /// Another version wrote it.
    #[error(
        "the journal {} was written by another version of tardy (form {version}, this one reads {VERSION}), so its commands are shown \
         and not run: use that version's `tardy undo`, or run what is needed of them by hand and delete this folder", path.display()
    )]
    Version { path: PathBuf, version: u64 },
    /// A value that no inverse may have.
    #[error("what would take back a change cannot be noted: {0}: rename it, and try again")]
    Value(String),
    /// A process is to be noted and does not exist.
    #[error("process {pid} cannot be noted in the journal: {source}")]
    NoProcess { pid: u32, source: io::Error },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Record {
    Boot(String),
    Step { number: u32, undo: Vec<Inverse> },
    Undone(u32),
    Agent(Identity),
    Kept(KeptBy),
}

/// Whose changes stay when its process ends, until `tardy undo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptBy {
    /// `tardy doctor --fix --apply`.
    Doctor,
}

#[derive(Serialize)]
struct Line<'a> {
    v: u64,
    #[serde(flatten)]
    record: &'a Record,
}

/// What a journal holds and nobody has finished with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The boot in which it was written; `None` of an empty one.
    pub boot: Option<String>,
    /// Steps that were begun, or were about to be: number and inverses.
    pub steps: Vec<(u32, Vec<Inverse>)>,
    /// Processes that were started.
    pub agents: Vec<Identity>,
    /// Who wants the changes to stay; `None` of a run.
    pub keeper: Option<KeptBy>,
}

impl Contents {
    /// True if nothing is to be put back.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.agents.is_empty()
    }

    /// Takes out what went with the boot in which it was made, and gives the number of those
    /// steps. What the kernel held is gone, and a number of then, such as an interrupt's, may be
    /// something else's now.
    pub(crate) fn forget_other_boots(&mut self) -> u32 {
        // Where this boot's number cannot be read nothing is known to be of another one.
        let Ok(now) = proc::boot_id() else { return 0 };
        if self.boot.as_ref().is_none_or(|boot| *boot == now) {
            return 0;
        }
        let before = self.steps.len();
        self.steps.retain(|(_, undo)| undo.iter().any(Inverse::outlives_boot));
        (before - self.steps.len()) as u32
    }

    /// The commands that put it back, in their order.
    pub fn commands(&self) -> Vec<Command> {
        self.steps.iter().rev().flat_map(|(_, undo)| undo).flat_map(Inverse::commands).collect()
    }

    fn take_in(&mut self, record: Record) {
        match record {
            Record::Boot(boot) => self.boot = Some(boot),
            Record::Step { number, undo } => self.steps.push((number, undo)),
            Record::Undone(undone) => self.steps.retain(|(step, _)| *step != undone),
            Record::Agent(agent) => self.agents.push(agent),
            Record::Kept(keeper) => self.keeper = Some(keeper),
        }
    }
}

/// Reads the journal of a slot's folder; one that is not there is empty.
///
/// # Errors
/// If it cannot be read, is not this user's, or a whole line of it makes no sense.
pub(crate) fn read_in(dir: &Folder) -> Result<Contents, JournalError> {
    read_whole_lines(dir).map(|(contents, _)| contents)
}

/// The same, by the path of the slot's folder.
///
/// # Errors
/// As there.
pub fn read(dir: &Path) -> Result<Contents, JournalError> {
    Folder::state(dir)?.map_or_else(|| Ok(Contents::default()), |dir| read_in(&dir))
}

fn bytes_of(dir: &Folder) -> Result<Vec<u8>, JournalError> {
    let mut bytes = Vec::new();
    if let Some(file) = dir.read(NAME)? {
        let failed = |source| JournalError::File { doing: "read", path: dir.path().join(NAME), source };
        file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > LONGEST {
            return Err(failed(io::Error::other(format!("it has more than {} MiB", LONGEST >> 20))));
        }
    }
    Ok(bytes)
}

fn whole_lines(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)]
}

/// Also how many bytes its whole lines have.
fn read_whole_lines(dir: &Folder) -> Result<(Contents, u64), JournalError> {
    let (bytes, path) = (bytes_of(dir)?, || dir.path().join(NAME));
    let whole = whole_lines(&bytes);
    let mut contents = Contents::default();
    for (i, line) in whole.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let damaged = |why: String| JournalError::Damaged { path: path(), line: i + 1, why };
        let (version, value) = versioned(line).map_err(|error| damaged(error.to_string()))?;
        if version != VERSION {
            return Err(JournalError::Version { path: path(), version });
        }
        let record: Record = serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
        if (i == 0) != matches!(record, Record::Boot(_)) {
            return Err(damaged("the boot must be in the first line, and only there".to_owned()));
        }
        if let Record::Step { undo, .. } = &record {
            undo.iter().find_map(Inverse::fault).map_or(Ok(()), |why| Err(damaged(why)))?;
        }
        contents.take_in(record);
    }
    Ok((contents, whole.len() as u64))
}

/// The version of a line, and the rest of it.
fn versioned(line: &[u8]) -> Result<(u64, Value), serde_json::Error> {
    let mut value: Value = serde_json::from_slice(line)?;
    let version = value.as_object_mut().and_then(|object| object.remove("v"));
    Ok((version.map_or(FIRST, |version| version.as_u64().unwrap_or(0)), value))
}

/// What a journal would have run, for a person to look at: also one of another user, of another
/// version, or a damaged one. The last step first, as it would be undone. Lines that make no sense
/// are shown as they are.
pub(crate) fn shown(dir: &Folder) -> Vec<String> {
    let mut steps: Vec<(Option<u64>, Vec<String>)> = Vec::new();
    let bytes = bytes_of(dir).unwrap_or_default();
    for line in whole_lines(&bytes).split_inclusive(|byte| *byte == b'\n') {
        let raw = || vec![String::from_utf8_lossy(line).trim_end().to_owned()];
        let Ok((_, mut value)) = versioned(line) else {
            steps.push((None, raw()));
            continue;
        };
        // The first version had the step's number and its inverses next to each other.
        let mut step = value["step"].take();
        if step.is_number() {
            step = serde_json::json!({ "number": step, "undo": value["undo"] });
        }
        let inverses = step["undo"].as_array().cloned().unwrap_or_default();
        let one = |inverse: &Value| match serde_json::from_value::<Inverse>(inverse.clone()) {
            Ok(inverse) => inverse.commands().iter().map(ToString::to_string).collect(),
            Err(_) => match serde_json::from_value::<Command>(inverse.clone()) {
                Ok(command) => vec![command.to_string()],
                Err(_) => vec![inverse.to_string()],
            },
        };
        if let Some(number) = step["number"].as_u64() {
            steps.push((Some(number), inverses.iter().flat_map(one).collect()));
        } else if let Some(undone) = value["undone"].as_u64() {
            steps.retain(|(number, _)| *number != Some(undone));
        } else if value["agent"]["pid"].is_u64() {
            steps.push((None, vec![format!("kill -KILL {}", value["agent"]["pid"])]));
        } else if !value["boot"].is_string() && !value["kept"].is_string() {
            steps.push((None, raw()));
        }
    }
    let printable = |line: String| {
        let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        line.chars().map(escaped).collect()
    };
    steps.into_iter().rev().flat_map(|(_, lines)| lines).map(printable).take(MOST_SHOWN).collect()
}

/// An open journal. It holds its slot.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    next: u32,
    contents: Contents,
    /// What stays when all else has been put back, and how long the file was with it.
    kept: (u64, Contents),
    // Last, so that the slot is let go of after the file.
    _holds: Arc<dyn Any + Send + Sync>,
}

impl Journal {
    pub(crate) fn open(dir: &Folder, holds: Arc<dyn Any + Send + Sync>) -> Result<Journal, JournalError> {
        let path = dir.path().join(NAME);
        let (mut contents, mut length) = read_whole_lines(dir)?;
        // Nobody has a use for one that holds nothing: its boot and its keeper are of another one.
        if contents.is_empty() {
            (contents, length) = Default::default();
        }
        let failed = |source| JournalError::File { doing: "write", path: path.clone(), source };
        let removed = || failed(io::ErrorKind::NotFound.into());
        let file = dir.append(NAME)?.ok_or_else(removed)?;
        // A torn line would spoil the one that is written after it.
        file.set_len(length).and_then(|()| file.sync_all()).and_then(|()| dir.sync()).map_err(failed)?;
        let next = contents.steps.iter().map(|(step, _)| step + 1).max().unwrap_or(0);
        Ok(Journal { path, file, length, next, contents, kept: Default::default(), _holds: holds })
    }

    /// What is not done with.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Notes the inverses of steps that are about to be begun; on disk when it returns. Gives
    /// their numbers.
    ///
    /// # Errors
    /// If it cannot be written: then none of the steps may be begun.
    pub fn will_do(&mut self, inverses: &[&[Inverse]]) -> Result<Vec<u32>, JournalError> {
        // What could not be read back must not be written.
        if let Some(why) = inverses.iter().flat_map(|of| of.iter()).find_map(Inverse::fault) {
            return Err(JournalError::Value(why));
        }
        let steps: Vec<u32> = (self.next..).take(inverses.len()).collect();
        let record = |(number, undo): (&u32, &&[Inverse])| Record::Step { number: *number, undo: undo.to_vec() };
        let records = steps.iter().zip(inverses).map(record).collect();
        self.append(records)?;
        self.next += inverses.len() as u32;
        Ok(steps)
    }

    /// Notes that steps are no more.
    ///
    /// # Errors
    /// If it cannot be written: the steps will be undone once more, which does no harm.
    pub fn undone(&mut self, steps: &[u32]) -> Result<(), JournalError> {
        self.append(steps.iter().map(|step| Record::Undone(*step)).collect())
    }

    /// Notes a process that was started, so that undo can end it.
    ///
    /// # Errors
    /// If there is no such process, or it cannot be written.
    pub fn agent(&mut self, pid: u32) -> Result<(), JournalError> {
        let agent = Identity::of(pid).map_err(|source| JournalError::NoProcess { pid, source })?;
        self.append(vec![Record::Agent(agent)])
    }

    /// Notes that its changes are to stay when this process ends.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn kept_by(&mut self, keeper: KeptBy) -> Result<(), JournalError> {
        self.append(vec![Record::Kept(keeper)])
    }

    /// What is noted now is kept until [`Journal::keep_nothing`]. Only this process knows; whoever
    /// undoes after a kill undoes everything.
    pub fn keep(&mut self) {
        self.kept = (self.length, self.contents.clone());
    }

    /// What was kept is to be put back too.
    pub fn keep_nothing(&mut self) {
        self.kept = Default::default();
    }

    /// True if something is kept.
    pub fn keeps(&self) -> bool {
        !self.kept.1.is_empty()
    }

    /// What is to be put back now: all that is not done with and not kept.
    pub fn present(&self) -> Contents {
        let (_, kept) = &self.kept;
        let mut present = self.contents.clone();
        present.steps.retain(|(step, _)| kept.steps.iter().all(|(other, _)| other != step));
        present.agents.drain(..kept.agents.len().min(present.agents.len()));
        present
    }

    /// Empties it but for what is kept, when all else has been put back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn clear(&mut self) -> Result<(), JournalError> {
        let (length, kept) = self.kept.clone();
        self.file.set_len(length).and_then(|()| self.file.sync_all()).map_err(|source| self.unwritten(source))?;
        (self.length, self.contents) = (length, kept);
        Ok(())
    }

    fn unwritten(&self, source: io::Error) -> JournalError {
        JournalError::File { doing: "write", path: self.path.clone(), source }
    }

    fn append(&mut self, mut records: Vec<Record>) -> Result<(), JournalError> {
        if self.length == 0 {
            records.insert(0, Record::Boot(proc::boot_id().map_err(|source| self.unwritten(source))?));
        }
        let mut lines = Vec::new();
        for record in &records {
            let line = Line { v: VERSION, record };
            serde_json::to_writer(&mut lines, &line).map_err(|error| self.unwritten(error.into()))?;
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
