// SPDX-License-Identifier: MIT OR Apache-2.0
//! A data set of many runs: Parquet files in folders that name what they are of (Hive's
//! partitions), as engines of large tables read them.
//!
//! ```text
//! host=H/kernel=K/commit=C/experiment=E/run=R/   _run.json  _histograms.parquet
//!   cell=C/trial=N/samples.parquet               the trial's own file, byte by byte
//! ```
//! A run is written as a whole: into a hidden folder, which is renamed at the end. Engines pass
//! over names that begin with `.` or `_`.

use crate::folder::SAMPLES;
use crate::held::{self, Held};
use crate::{RunFolder, StoreError, TrialId};
use serde::Deserialize;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use tardy_parquet::{BucketWriter, CodecError, Counted};

/// What is known of a run besides its samples.
const ABOUT: &str = "_run.json";
const HISTOGRAMS: &str = "_histograms.parquet";
/// What Hive calls the partition of a value that is not known.
const NOT_KNOWN: &str = "__HIVE_DEFAULT_PARTITION__";

/// A folder of many runs.
#[derive(Debug)]
pub struct DataSet {
    folder: Held,
}

/// Where a run is in a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunKey {
    pub host: Option<String>,
    pub kernel: Option<String>,
    pub commit: Option<String>,
    pub experiment: String,
    pub run: String,
}

/// What has the name of a run already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The run itself, which was exported before.
    Same,
    /// Another run, or what cannot be read.
    Other,
}

impl RunKey {
    fn folders(&self) -> [String; 5] {
        [
            partition("host", self.host.as_deref()),
            partition("kernel", self.kernel.as_deref()),
            partition("commit", self.commit.as_deref()),
            partition("experiment", Some(&self.experiment)),
            partition("run", Some(&self.run)),
        ]
    }

    fn path(&self) -> PathBuf {
        self.folders().iter().collect()
    }
}

/// The folder of a partition: what could mean something in a path or to an engine is written as
/// `%XX`, as in a URL.
fn partition(key: &str, value: Option<&str>) -> String {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return format!("{key}={NOT_KNOWN}") };
    let mut name = format!("{key}=");
    for c in value.chars() {
        if c.is_alphanumeric() || "._-,".contains(c) {
            name.push(c);
        } else {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| name.push_str(&format!("%{byte:02X}")));
        }
    }
    name
}

impl DataSet {
    /// Opens the folder, and makes it if it is not there. Many users may share one; only root is
    /// careful about whose it is.
    ///
    /// # Errors
    /// [`StoreError::NotAFolder`], [`StoreError::Link`], as root [`StoreError::Foreign`] and
    /// [`StoreError::OpenToOthers`], [`StoreError::Io`].
    pub fn open(path: &Path) -> Result<DataSet, StoreError> {
        Ok(DataSet { folder: Held::shared(path)? })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What has that place already; `None` if nothing has. `id` is the run's own.
    ///
    /// # Errors
    /// [`StoreError::Io`] and [`StoreError::LeadsOut`].
    pub fn taken(&self, key: &RunKey, id: &str) -> Result<Option<Taken>, StoreError> {
        #[derive(Deserialize)]
        struct About {
            id: String,
        }
        let below = key.path();
        match self.folder.below(&below) {
            Err(error) if error.is_missing() => return Ok(None),
            found => drop(found?),
        }
        let about = below.join(ABOUT);
        let read = self.folder.file(&about).and_then(|file| held::read(file, &about, held::LARGEST));
        let about = read.ok().and_then(|bytes| serde_json::from_slice::<About>(&bytes).ok());
        Ok(Some(if about.is_some_and(|about| about.id == id) { Taken::Same } else { Taken::Other }))
    }

    /// Begins a run: what is written of it has a hidden name until [`DataSetRun::finish`].
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn begin(&self, key: RunKey) -> Result<DataSetRun<'_>, StoreError> {
        let (name, folder) = self.folder.temporary_folder()?;
        Ok(DataSetRun { set: self, key, name, folder: Some(folder) })
    }
}

/// A run that is being written. Dropped before [`DataSetRun::finish`], it leaves nothing.
#[derive(Debug)]
pub struct DataSetRun<'a> {
    set: &'a DataSet,
    key: RunKey,
    name: OsString,
    folder: Option<Held>,
}

impl DataSetRun<'_> {
    fn folder(&self) -> Result<&Held, StoreError> {
        self.folder.as_ref().ok_or_else(|| StoreError::NoSuchRun { path: self.set.path().join(&self.name) })
    }

    /// Copies a trial's samples.
    ///
    /// # Errors
    /// [`StoreError::Io`]; those of [`RunFolder::samples`].
    pub fn copy_samples(&self, run: &RunFolder, trial: &TrialId) -> Result<(), StoreError> {
        let cell = self.folder()?.make(&partition("cell", Some(&trial.cell)))?;
        let folder = cell.make(&partition("trial", Some(&trial.n.to_string())))?;
        let path = folder.path().join(SAMPLES);
        let (mut from, mut to) = (run.samples_bytes(trial)?, folder.create(SAMPLES)?);
        std::io::copy(&mut from, &mut to).map_err(StoreError::io("write", &path))?;
        to.sync_all().map_err(StoreError::io("sync", &path))?;
        folder.sync()
    }

    /// Writes the histograms, which `fill` adds.
    ///
    /// # Errors
    /// [`StoreError::Io`], and those of `fill`.
    pub fn write_histograms(
        &self,
        fill: impl FnOnce(&mut dyn FnMut(&str, &[Counted]) -> Result<(), StoreError>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let folder = self.folder()?;
        let path = folder.path().join(HISTOGRAMS);
        let failed = |error: CodecError| StoreError::of_samples("write", &path, error);
        let mut out = BufWriter::new(folder.create(HISTOGRAMS)?);
        let mut buckets = BucketWriter::new(&mut out).map_err(failed)?;
        fill(&mut |metric, counted| buckets.add(metric, counted).map_err(failed))?;
        buckets.finish().map_err(failed)?;
        let file = out.into_inner().map_err(|error| StoreError::io("write", &path)(error.into_error()))?;
        file.sync_all().map_err(StoreError::io("sync", &path))
    }

    /// Puts the run in its place; false if another one has it meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn finish(mut self, about: &[u8]) -> Result<bool, StoreError> {
        let folder = self.folder()?;
        let path = folder.path().join(ABOUT);
        let mut file = folder.create(ABOUT)?;
        file.write_all(about).map_err(StoreError::io("write", &path))?;
        file.sync_all().map_err(StoreError::io("sync", &path))?;
        folder.sync()?;
        let [above @ .., name] = self.key.folders();
        let mut place: Option<Held> = None;
        for part in &above {
            place = Some(place.as_ref().unwrap_or(&self.set.folder).make(part)?);
        }
        let place = place.as_ref().unwrap_or(&self.set.folder);
        let put = self.set.folder.move_into(&self.name, place, OsStr::new(&name))?;
        if put {
            self.folder = None;
        }
        Ok(put)
    }
}

impl Drop for DataSetRun<'_> {
    fn drop(&mut self) {
        if self.folder.is_some() {
            // Why it was given up is what counts; a hidden folder that stays is passed over.
            let _ = fs::remove_dir_all(self.set.path().join(&self.name));
        }
    }
}
