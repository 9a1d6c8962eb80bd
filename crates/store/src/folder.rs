// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run folder itself: made, filled, opened, listed; and in it the folder of a trial that is
//! being written.

use crate::held::{Held, file_name};
use crate::samples::{Batches, SamplesFile};
use crate::{StoreError, held, hlog, samples};
use rustix::process::geteuid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tardy_model::FORMAT;
use tardy_model::histogram::Histogram;
use tardy_model::manifest::Manifest;
use tardy_model::point::Metric;
use tardy_model::result::Results;
use tardy_model::sample::Batch;
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;

const MANIFEST: &str = "manifest.json";
const RESULTS: &str = "results.json";
const EXPERIMENT: &str = "experiment.toml";
const COMMANDS: &str = "commands.sh";
const EVENTS: &str = "events.jsonl";
const TRIALS: &str = "trials";
const PARTIAL: &str = ".partial";
/// A step that fails must not let the rest take down what another run has built under these names.
const SCRIPT: &[u8] = b"#!/bin/sh\nset -e\n";

/// The most bytes that a file of a run folder is read with.
fn largest(below: &Path) -> u64 {
    if below == Path::new(RESULTS) { held::LARGEST_RESULTS } else { held::LARGEST }
}

/// One run on disk.
#[derive(Debug)]
pub struct RunFolder {
    folder: Held,
    /// What is appended to stays open: nobody can put another file in its place.
    commands: OnceLock<File>,
    events: OnceLock<File>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrialId {
    pub cell: String,
    /// Number in the cell, from 1.
    pub n: u32,
}

impl RunFolder {
    fn of(folder: Held) -> Self {
        RunFolder { folder, commands: OnceLock::new(), events: OnceLock::new() }
    }

    /// Makes the folder of a new run. `path` must not exist yet, or be an empty folder of the
    /// user's own: whoever owns it could put links there while the run writes. It is opened once;
    /// all that the run writes goes into that folder, whatever becomes of its name.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] or [`StoreError::NotAFolder`] if something is there,
    /// [`StoreError::Foreign`], [`StoreError::OpenToOthers`] or [`StoreError::Link`] if it is not
    /// the user's alone, [`StoreError::Io`] if the disk refuses.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let folder = Held::of_a_run(path)?;
        if !folder.names()?.is_empty() {
            return Err(StoreError::NotEmpty { path: path.to_owned() });
        }
        // Of two runs that were given the same empty folder, the one that makes `trials` has it.
        match folder.make_new(TRIALS)? {
            Some(_) => Ok(RunFolder::of(folder)),
            None => Err(StoreError::NotEmpty { path: path.to_owned() }),
        }
    }

    /// Refuses a folder of this user's that [`RunFolder::create`] would refuse because something is
    /// in it. Nothing is made: what comes before the run may take long, or fail.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`].
    pub fn refuse_used(path: &Path) -> Result<(), StoreError> {
        let is_own = |about: Metadata| about.is_dir() && about.uid() == geteuid().as_raw();
        let is_used = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        match fs::symlink_metadata(path).is_ok_and(is_own) && is_used() {
            true => Err(StoreError::NotEmpty { path: path.to_owned() }),
            false => Ok(()),
        }
    }

    /// Opens a run, also one that was killed.
    ///
    /// # Errors
    /// [`StoreError::NotARun`] without a manifest, [`StoreError::Newer`] if a later tardy made it,
    /// [`StoreError::Damaged`] if the manifest cannot be read, [`StoreError::LeadsOut`] if it is a
    /// link out of the folder, [`StoreError::Io`] if the disk refuses.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let run = RunFolder::of(Held::open(path.as_ref())?);
        run.manifest()?;
        Ok(run)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a folder in it, for what is not the store's and comes there by its path, as a guest's
    /// console does. As root the folder above must then be nobody else's: who owns it could put
    /// another folder in this one's place.
    ///
    /// # Errors
    /// [`StoreError::Name`] if it cannot be called so, [`StoreError::Foreign`] and
    /// [`StoreError::OpenToOthers`] for the folder above, [`StoreError::Io`] if the disk refuses.
    pub fn make_folder(&self, name: &str) -> Result<PathBuf, StoreError> {
        let path = self.folder.make(file_name(name)?)?.path().to_owned();
        self.folder.check_way()?;
        Ok(path)
    }

    /// Writes `experiment.toml`, the effective experiment.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses.
    pub fn write_experiment(&self, effective: &str) -> Result<(), StoreError> {
        self.folder.replace(EXPERIMENT, effective.as_bytes())
    }

    /// Reads `experiment.toml`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it is missing or the disk refuses.
    pub fn experiment(&self) -> Result<String, StoreError> {
        self.text(EXPERIMENT)
    }

    /// Writes `manifest.json`; at the end of the run once more, over the first one.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses; the former manifest then remains.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.write_json(MANIFEST, manifest)
    }

    /// Reads `manifest.json`.
    ///
    /// # Errors
    /// As [`RunFolder::open`].
    pub fn manifest(&self) -> Result<Manifest, StoreError> {
        match self.read_json(Path::new(MANIFEST)) {
            Err(StoreError::Io { reason, .. }) if reason.kind() == ErrorKind::NotFound => {
                Err(StoreError::NotARun { path: self.path().to_owned() })
            }
            read => read,
        }
    }

    /// Writes `results.json`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses; the former results then stand.
    pub fn write_results(&self, results: &Results) -> Result<(), StoreError> {
        self.write_json(RESULTS, results)
    }

    /// Reads `results.json`. A run that was killed has none: judge it again from its trials.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it is missing, [`StoreError::Newer`], [`StoreError::Damaged`].
    pub fn results(&self) -> Result<Results, StoreError> {
        self.read_json(Path::new(RESULTS))
    }

    /// Writes `report.html`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses.
    pub fn write_report(&self, page: &[u8]) -> Result<(), StoreError> {
        self.folder.replace("report.html", page)
    }

    /// Writes what a virtual machine of the run wrote to its console last,
    /// `guest-NAME.console.log`.
    ///
    /// # Errors
    /// [`StoreError::Name`] if it cannot be called so, [`StoreError::Io`] if the disk refuses.
    pub fn write_console(&self, machine: &str, console: &[u8]) -> Result<(), StoreError> {
        self.folder.replace(file_name(&format!("guest-{machine}.console.log"))?, console)
    }

    /// Writes the registers of a virtual machine's processors that fell silent.
    ///
    /// # Errors
    /// As [`RunFolder::write_console`].
    pub fn write_registers(&self, machine: &str, registers: &str) -> Result<(), StoreError> {
        self.folder.replace(file_name(&format!("guest-{machine}.registers.txt"))?, registers.as_bytes())
    }

    /// Appends to `commands.sh`, a shell script that is to be read before it is run. A missing
    /// last line feed is added.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses; [`StoreError::Link`] or [`StoreError::NotAFile`] if
    /// something else is there.
    pub fn append_commands(&self, script: &str) -> Result<(), StoreError> {
        let end = if script.is_empty() || script.ends_with('\n') { "" } else { "\n" };
        self.append(&self.commands, COMMANDS, SCRIPT, format!("{script}{end}").as_bytes())
    }

    /// Appends `bytes` by one system call, so that two writers' lines do not mix.
    fn append(&self, open: &OnceLock<File>, name: &str, first: &[u8], bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path().join(name);
        let mut file = match open.get() {
            Some(file) => file,
            None => {
                let file = self.folder.appended(name)?;
                open.get_or_init(|| file)
            }
        };
        let length = file.metadata().map_err(StoreError::io("examine", &path))?.len();
        let written = if length == 0 { file.write_all(&[first, bytes].concat()) } else { file.write_all(bytes) };
        written.map_err(StoreError::io("append to", &path))
    }

    /// Reads `commands.sh`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it cannot be read, for one because nothing was run.
    pub fn commands(&self) -> Result<String, StoreError> {
        self.text(COMMANDS)
    }

    /// Appends one JSON object as a line to `events.jsonl`; it is with the kernel when this
    /// returns.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the event cannot be encoded or the disk refuses.
    pub fn append_event<E: Serialize>(&self, event: &E) -> Result<(), StoreError> {
        let failed = |why: serde_json::Error| StoreError::io("encode", &self.path().join(EVENTS))(why.into());
        let mut line = serde_json::to_vec(event).map_err(failed)?;
        line.push(b'\n');
        self.append(&self.events, EVENTS, b"", &line)
    }

    /// Begins trial `n` of a cell: its folder is `trials/<cell>/<n>.partial/` until it is finished.
    ///
    /// # Errors
    /// [`StoreError::Name`] if the cell's id cannot name a folder, [`StoreError::TrialExists`] if
    /// it was begun before, [`StoreError::Io`] if the disk refuses.
    pub fn begin_trial(&self, cell: &str, n: u32) -> Result<TrialFolder, StoreError> {
        TrialFolder::begin(self.folder.make(TRIALS)?.make(file_name(cell)?)?, n)
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
    /// [`StoreError::NoSuchTrial`], [`StoreError::Newer`], [`StoreError::Damaged`],
    /// [`StoreError::Io`].
    pub fn record(&self, cell: &str, n: u32) -> Result<TrialRecord, StoreError> {
        let below = self.finished(cell, n)?.join(RECORD);
        let record: TrialRecord = self.read_json(&below)?;
        // By its numbers memory is taken.
        match record.streams.values().filter_map(|of| of.copy.as_ref()?.fault()).next() {
            Some(why) => Err(StoreError::Damaged { path: self.path().join(below), why, fix: CHANGED }),
            None => Ok(record),
        }
    }

    /// A sum of all `trial.json`, which tells two runs of one name apart.
    ///
    /// # Errors
    /// As [`RunFolder::record`].
    pub fn sum_of_records(&self) -> Result<u32, StoreError> {
        let mut trials = self.trials()?;
        // Whoever else makes it need not know the manifest's order.
        trials.sort();
        let mut sum = crc32fast::Hasher::new();
        for TrialId { cell, n } in trials {
            let below = self.finished(&cell, n)?.join(RECORD);
            sum.update(&held::read(self.folder.file(&below)?, &self.path().join(&below), held::LARGEST)?);
        }
        Ok(sum.finalize())
    }

    /// How long `trial.json` of a finished trial is, in bytes.
    ///
    /// # Errors
    /// As [`RunFolder::record`].
    pub fn record_bytes(&self, cell: &str, n: u32) -> Result<u64, StoreError> {
        let below = self.finished(cell, n)?.join(RECORD);
        let about = self.folder.file(&below)?.metadata();
        about.map(|about| about.len()).map_err(StoreError::io("read", &self.path().join(below)))
    }

    /// Opens `samples.parquet` of a finished trial.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTrial`], [`StoreError::Newer`], [`StoreError::Damaged`],
    /// [`StoreError::Io`].
    pub fn samples(&self, cell: &str, n: u32) -> Result<SamplesFile, StoreError> {
        let below = self.finished(cell, n)?.join(SAMPLES);
        SamplesFile::of(self.folder.file(&below)?, &self.path().join(below))
    }

    /// The bytes of `samples.parquet` of a finished trial.
    ///
    /// # Errors
    /// As [`RunFolder::samples`].
    pub(crate) fn samples_bytes(&self, trial: &TrialId) -> Result<File, StoreError> {
        self.folder.file(&self.finished(&trial.cell, trial.n)?.join(SAMPLES))
    }

    /// The rows of one stream of a finished trial, at most [`tardy_parquet::BATCH_ROWS`] at a
    /// time.
    ///
    /// # Errors
    /// As [`RunFolder::samples`]; [`StoreError::NoSuchStream`].
    pub fn batches(&self, cell: &str, n: u32, stream: &str) -> Result<Batches, StoreError> {
        self.samples(cell, n)?.batches(stream)
    }

    /// Where it lies, below the folder.
    fn finished(&self, cell: &str, n: u32) -> Result<PathBuf, StoreError> {
        let below = Path::new(TRIALS).join(file_name(cell)?).join(n.to_string());
        match self.folder.below(&below) {
            Ok(_) => Ok(below),
            Err(error @ StoreError::LeadsOut { .. }) => Err(error),
            Err(_) => Err(StoreError::NoSuchTrial { path: self.path().join(below) }),
        }
    }

    fn list(&self) -> Result<(Vec<TrialId>, Vec<TrialId>), StoreError> {
        let (mut finished, mut unfinished) = (Vec::new(), Vec::new());
        let trials = match self.folder.below(Path::new(TRIALS)) {
            // A run that was copied without its trials still has its results.
            Err(StoreError::Io { reason, .. }) if reason.kind() == ErrorKind::NotFound => {
                return Ok((finished, unfinished));
            }
            trials => trials?,
        };
        for cell in trials.folders()? {
            for name in trials.below(Path::new(&cell))?.folders()? {
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
        let cells = self.manifest().map(|manifest| manifest.cells).unwrap_or_default();
        // Of several cells with one id the first one counts.
        let places: BTreeMap<&str, usize> =
            cells.iter().enumerate().rev().map(|(at, cell)| (cell.id.as_str(), at)).collect();
        let place = |trial: &TrialId| places.get(trial.cell.as_str()).copied().unwrap_or(usize::MAX);
        for list in [&mut finished, &mut unfinished] {
            list.sort_by_key(|trial| (place(trial), trial.clone()));
        }
        Ok((finished, unfinished))
    }

    fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), StoreError> {
        let failed = |why: serde_json::Error| StoreError::io("encode", &self.path().join(name))(why.into());
        let mut bytes = serde_json::to_vec_pretty(value).map_err(failed)?;
        bytes.push(b'\n');
        let largest = largest(Path::new(name));
        // What nobody could read again is not written.
        if bytes.len() as u64 > largest {
            let why = format!("it would have {} bytes, and no more than {largest} are read again", bytes.len());
            return Err(StoreError::io("encode", &self.path().join(name))(std::io::Error::other(why)));
        }
        self.folder.replace(name, &bytes)
    }

    fn text(&self, name: &str) -> Result<String, StoreError> {
        let path = self.path().join(name);
        String::from_utf8(held::read(self.folder.file(Path::new(name))?, &path, held::LARGEST)?).map_err(|error| {
            StoreError::Damaged {
                path,
                why: error.utf8_error().to_string(),
                fix: "the file was changed: copy it again from where the run was made",
            }
        })
    }

    fn read_json<T: DeserializeOwned>(&self, below: &Path) -> Result<T, StoreError> {
        #[derive(Deserialize)]
        struct Version {
            format: u64,
        }
        let path = self.path().join(below);
        let largest = largest(below);
        let bytes = held::read(self.folder.file(below)?, &path, largest)?;
        let damaged =
            |why: serde_json::Error| StoreError::Damaged { path: path.clone(), why: why.to_string(), fix: CHANGED };
        // The version first: a newer file need not look like this version's.
        let Version { format } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if format > u64::from(FORMAT) {
            return Err(StoreError::Newer { path, format });
        }
        serde_json::from_slice(&bytes).map_err(damaged)
    }
}

const CHANGED: &str = "the file was cut short or changed: copy it again from where the run was made";

// The folder of a trial that is being written.

pub(crate) const SAMPLES: &str = "samples.parquet";
pub(crate) const RECORD: &str = "trial.json";
const LOADS: &str = "loads";

/// `trials/<cell>/<n>.partial/`. It becomes `<n>/` by [`TrialFolder::finish`] and by nothing else:
/// dropped before, it stays as it is and readers report it as unfinished.
#[derive(Debug)]
pub struct TrialFolder {
    cell: Held,
    partial: Held,
    n: u32,
}

impl TrialFolder {
    pub(crate) fn begin(cell: Held, n: u32) -> Result<Self, StoreError> {
        let (partial, whole) = (partial_name(n), n.to_string());
        if cell.has(&whole) {
            return Err(StoreError::TrialExists { path: cell.path().join(whole) });
        }
        match cell.make_new(&partial)? {
            Some(partial) => Ok(TrialFolder { cell, partial, n }),
            None => Err(StoreError::TrialExists { path: cell.path().join(partial) }),
        }
    }

    /// Where its files lie until it is finished.
    pub fn path(&self) -> &Path {
        self.partial.path()
    }

    /// Writes `samples.parquet`: every stream of the trial, in the experiment's order.
    ///
    /// # Errors
    /// [`StoreError::Rows`] if a batch contradicts itself, [`StoreError::Io`] if the disk refuses.
    pub fn write_samples(&self, streams: &[(&str, &Batch)]) -> Result<(), StoreError> {
        samples::write_into(self.partial.create(SAMPLES)?, &self.path().join(SAMPLES), streams)
    }

    /// Writes `<stream>.hlog`: the histograms of the trial's results, an interval line for each
    /// metric that has values. `span` is from the first to the last scheduled instant.
    ///
    /// # Errors
    /// [`StoreError::Name`] if the stream's name cannot be a file's, [`StoreError::Io`] if the
    /// disk refuses.
    pub fn write_histograms(
        &self,
        stream: &str,
        span: Nanos,
        histograms: &BTreeMap<Metric, Histogram>,
    ) -> Result<(), StoreError> {
        let name = format!("{}.hlog", file_name(stream)?);
        let bytes = hlog::encode(span, histograms).map_err(StoreError::io("encode", &self.path().join(&name)))?;
        write_new(&self.partial, &name, &bytes)
    }

    /// Writes `trial.json`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the disk refuses.
    pub fn write_record(&self, record: &TrialRecord) -> Result<(), StoreError> {
        let failed = |why: serde_json::Error| StoreError::io("encode", &self.path().join(RECORD))(why.into());
        let mut bytes = serde_json::to_vec(record).map_err(failed)?;
        bytes.push(b'\n');
        write_new(&self.partial, RECORD, &bytes)
    }

    /// Writes `loads/<name>`: what a load's program wrote.
    ///
    /// # Errors
    /// [`StoreError::Name`] if the name cannot be a file's, [`StoreError::Io`] if the disk refuses.
    pub fn write_load_output(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        write_new(&self.partial.make(LOADS)?, file_name(name)?, bytes)
    }

    /// Makes the trial whole: from here on it survives a kill or a power cut.
    ///
    /// # Errors
    /// [`StoreError::Incomplete`] if the samples or the record were not written,
    /// [`StoreError::Io`] if the disk refuses.
    pub fn finish(self) -> Result<(), StoreError> {
        for lacks in [SAMPLES, RECORD] {
            if !self.partial.has_file(lacks) {
                return Err(StoreError::Incomplete { path: self.path().to_owned(), lacks });
            }
        }
        self.partial.sync()?;
        self.cell.rename(OsStr::new(&partial_name(self.n)), OsStr::new(&self.n.to_string()))
    }
}

fn partial_name(n: u32) -> String {
    format!("{n}.partial")
}

/// Writes a file that nobody reads yet, and fsyncs it.
fn write_new(folder: &Held, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let path = folder.path().join(name);
    let mut file = folder.create(name)?;
    file.write_all(bytes).map_err(StoreError::io("write", &path))?;
    file.sync_all().map_err(StoreError::io("sync", &path))
}
