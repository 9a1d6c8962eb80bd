// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run folder itself: made, filled, opened, listed.

use crate::samples::batches::Batches;
use crate::samples::read::SamplesFile;
use crate::trial::{RECORD, SAMPLES, TrialFolder};
use crate::{StoreError, durable};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tardy_model::FORMAT;
use tardy_model::manifest::Manifest;
use tardy_model::result::Results;
use tardy_model::trial::TrialRecord;

const MANIFEST: &str = "manifest.json";
const RESULTS: &str = "results.json";
const TRIALS: &str = "trials";
const PARTIAL: &str = ".partial";

/// One run on disk.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
}

/// Which trial.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrialId {
    /// Cell id.
    pub cell: String,
    /// Number in the cell, from 1.
    pub n: u32,
}

impl RunFolder {
    /// Makes the folder of a new run. `path` must not exist yet, or be an empty folder.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] or [`StoreError::NotAFolder`] if something is there, [`StoreError::Io`] if the disk refuses.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = path.into();
        match fs::read_dir(&root) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(StoreError::NotEmpty { path: root });
                }
            }
            Err(reason) if reason.kind() == ErrorKind::NotADirectory => {
                return Err(StoreError::NotAFolder { path: root });
            }
            Err(reason) if reason.kind() == ErrorKind::NotFound => durable::make_folder(&root)?,
            Err(reason) => return Err(StoreError::io("open", &root)(reason)),
        }
        // Of two runs that were given the same empty folder, the one that makes `trials` has it.
        let trials = root.join(TRIALS);
        match fs::create_dir(&trials) {
            Ok(()) => durable::sync_folder(&root)?,
            Err(reason) if reason.kind() == ErrorKind::AlreadyExists => {
                return Err(StoreError::NotEmpty { path: root });
            }
            Err(reason) => return Err(StoreError::io("create", &trials)(reason)),
        }
        Ok(RunFolder { root })
    }

    /// Opens a run, also one that was killed.
    ///
    /// # Errors
    /// [`StoreError::NotARun`] without a manifest, [`StoreError::Newer`] if a later tardy made it, [`StoreError::Damaged`] if
    /// the manifest cannot be read, [`StoreError::Io`] if the disk refuses.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = path.into();
        let about = fs::metadata(&root).map_err(StoreError::io("open", &root))?;
        if !about.is_dir() {
            return Err(StoreError::NotAFolder { path: root });
        }
        let run = RunFolder { root };
        run.manifest()?;
        Ok(run)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Makes a folder in it, for what is not the store's.
    ///
    /// # Errors
    /// [`StoreError::Name`] if it cannot be called so, [`StoreError::Io`] if the disk refuses.
    pub fn make_folder(&self, name: &str) -> Result<PathBuf, StoreError> {
        let path = self.root.join(file_name(name)?);
        durable::make_folder(&path)?;
        Ok(path)
    }

    /// Writes `experiment.toml`, the effective experiment.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses.
    pub fn write_experiment(&self, effective: &str) -> Result<(), StoreError> {
        durable::replace(&self.root.join("experiment.toml"), effective.as_bytes())
    }

    /// Reads `experiment.toml`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it is missing or the disk refuses.
    pub fn experiment(&self) -> Result<String, StoreError> {
        text(self.root.join("experiment.toml"))
    }

    /// Writes `manifest.json`; at the end of the run once more, over the first one.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses; the former manifest then stands.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), StoreError> {
        write_json(&self.root.join(MANIFEST), manifest)
    }

    /// Reads `manifest.json`.
    ///
    /// # Errors
    /// As [`RunFolder::open`].
    pub fn manifest(&self) -> Result<Manifest, StoreError> {
        let path = self.root.join(MANIFEST);
        match read_json(&path) {
            Err(StoreError::Io { reason, .. }) if reason.kind() == ErrorKind::NotFound => {
                Err(StoreError::NotARun { path: self.root.clone() })
            }
            read => read,
        }
    }

    /// Writes `results.json`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses; the former results then stand.
    pub fn write_results(&self, results: &Results) -> Result<(), StoreError> {
        write_json(&self.root.join(RESULTS), results)
    }

    /// Reads `results.json`. A run that was killed has none: judge it again from its trials.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it is missing, [`StoreError::Newer`], [`StoreError::Damaged`].
    pub fn results(&self) -> Result<Results, StoreError> {
        read_json(&self.root.join(RESULTS))
    }

    /// Writes `report.html`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses.
    pub fn write_report(&self, page: &[u8]) -> Result<(), StoreError> {
        durable::replace(&self.root.join("report.html"), page)
    }

    /// Appends to `commands.sh`, an executable shell script. A missing last line feed is added.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses.
    pub fn append_commands(&self, script: &str) -> Result<(), StoreError> {
        let end = if script.is_empty() || script.ends_with('\n') { "" } else { "\n" };
        let text = format!("{script}{end}");
        durable::append(&self.root.join("commands.sh"), text.as_bytes(), b"#!/bin/sh\n", true)
    }

    /// Reads `commands.sh`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it cannot be read, for one because nothing was run.
    pub fn commands(&self) -> Result<String, StoreError> {
        text(self.root.join("commands.sh"))
    }

    /// Appends one JSON object as a line to `events.jsonl`; it is with the kernel when this returns.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the event cannot be encoded or the disk refuses.
    pub fn append_event<E: Serialize>(&self, event: &E) -> Result<(), StoreError> {
        let path = self.root.join("events.jsonl");
        let mut line = serde_json::to_vec(event).map_err(|why| StoreError::io("encode", &path)(why.into()))?;
        line.push(b'\n');
        durable::append(&path, &line, b"", false)
    }

    /// Begins trial `n` of a cell: its folder is `trials/<cell>/<n>.partial/` until it is finished.
    ///
    /// # Errors
    /// [`StoreError::Name`] if the cell's id cannot name a folder, [`StoreError::TrialExists`] if it was begun before,
    /// [`StoreError::Io`] if the disk refuses.
    pub fn begin_trial(&self, cell: &str, n: u32) -> Result<TrialFolder, StoreError> {
        TrialFolder::begin(&self.root.join(TRIALS).join(file_name(cell)?), n)
    }

    /// The finished trials: cells in the manifest's order, then by number.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the folder cannot be listed.
    pub fn trials(&self) -> Result<Vec<TrialId>, StoreError> {
        Ok(self.list()?.0)
    }

    /// The trials that were begun and never finished; their files are not to be trusted.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the folder cannot be listed.
    pub fn unfinished(&self) -> Result<Vec<TrialId>, StoreError> {
        Ok(self.list()?.1)
    }

    /// Reads `trial.json` of a finished trial.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTrial`], [`StoreError::Newer`], [`StoreError::Damaged`], [`StoreError::Io`].
    pub fn record(&self, cell: &str, n: u32) -> Result<TrialRecord, StoreError> {
        read_json(&self.finished(cell, n)?.join(RECORD))
    }

    /// Opens `samples.parquet` of a finished trial.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTrial`], [`StoreError::Newer`], [`StoreError::Damaged`], [`StoreError::Io`].
    pub fn samples(&self, cell: &str, n: u32) -> Result<SamplesFile, StoreError> {
        SamplesFile::open(&self.finished(cell, n)?.join(SAMPLES))
    }

    /// The rows of one stream of a finished trial, at most [`crate::samples::BATCH_ROWS`] at a time.
    ///
    /// # Errors
    /// As [`RunFolder::samples`]; [`StoreError::NoSuchStream`].
    pub fn batches(&self, cell: &str, n: u32, stream: &str) -> Result<Batches, StoreError> {
        self.samples(cell, n)?.batches(stream)
    }

    fn finished(&self, cell: &str, n: u32) -> Result<PathBuf, StoreError> {
        let path = self.root.join(TRIALS).join(file_name(cell)?).join(n.to_string());
        if path.is_dir() { Ok(path) } else { Err(StoreError::NoSuchTrial { path }) }
    }

    fn list(&self) -> Result<(Vec<TrialId>, Vec<TrialId>), StoreError> {
        let (mut finished, mut unfinished) = (Vec::new(), Vec::new());
        let trials = self.root.join(TRIALS);
        for cell in folders(&trials)? {
            for name in folders(&trials.join(&cell))? {
                let (number, list) = match name.strip_suffix(PARTIAL) {
                    Some(number) => (number, &mut unfinished),
                    None => (name.as_str(), &mut finished),
                };
                // Only a number as tardy writes it: `01` and `+1` are somebody else's.
                if let Some(n) = number.parse::<u32>().ok().filter(|n| n.to_string() == number) {
                    list.push(TrialId { cell: cell.clone(), n });
                }
            }
        }
        // A run that has no manifest yet lists its trials all the same.
        let cells: Vec<String> =
            self.manifest().map(|m| m.cells.into_iter().map(|c| c.id).collect()).unwrap_or_default();
        let place = |trial: &TrialId| cells.iter().position(|cell| *cell == trial.cell).unwrap_or(usize::MAX);
        for list in [&mut finished, &mut unfinished] {
            list.sort_by_key(|trial| (place(trial), trial.clone()));
        }
        Ok((finished, unfinished))
    }
}

/// A cell's or stream's name, if it can name a file: the characters of cell ids, not hidden, not `.` or `..`.
pub(crate) fn file_name(name: &str) -> Result<&str, StoreError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._=,-".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(StoreError::Name { name: name.to_owned() });
    }
    Ok(name)
}

fn folders(path: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(path) {
        // A run that was copied without its trials still has its results.
        Err(reason) if reason.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(StoreError::io("list", path))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("list", path))?;
        if let (true, Ok(name)) = (entry.path().is_dir(), entry.file_name().into_string()) {
            names.push(name);
        }
    }
    Ok(names)
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), StoreError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|why| StoreError::io("encode", path)(why.into()))?;
    bytes.push(b'\n');
    durable::replace(path, &bytes)
}

fn text(path: PathBuf) -> Result<String, StoreError> {
    String::from_utf8(durable::read(&path)?).map_err(|error| StoreError::Damaged {
        path,
        why: error.utf8_error().to_string(),
        mend: "the file was changed: copy it again from where the run was made",
    })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, StoreError> {
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    let bytes = durable::read(path)?;
    let damaged = |why: serde_json::Error| StoreError::Damaged {
        path: path.to_owned(),
        why: why.to_string(),
        mend: "the file was cut short or changed: copy it again from where the run was made",
    };
    // The version first: a newer file need not look like this version's.
    let Version { format } = serde_json::from_slice(&bytes).map_err(damaged)?;
    if format > u64::from(FORMAT) {
        return Err(StoreError::Newer { path: path.to_owned(), format });
    }
    serde_json::from_slice(&bytes).map_err(damaged)
}
