// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sound run folder: a run on port `sim`, kept by the program's own writers. The same each time,
//! so that an input that was kept does the same again.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use tardy_judge::Judge;
use tardy_lab::coordinator::{Options, check, run};
use tardy_lab::host::clocks::one_host;
use tardy_lab::host::hosts::Hosts;
use tardy_lab::host::steward::Steward;
use tardy_lab::plan::Kinds;
use tardy_lab::run::{Event, Sink};
use tardy_model::manifest::{CellEntry, Manifest};
use tardy_model::sample::Batch;
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;
use tardy_spec::Source;
use tardy_store::RunFolder;
use tempfile::TempDir;

/// Two cells of two trials; every kind of outcome, a metric that cannot be had, an expectation,
/// two streams; gates of taprio, which gives launch times, and launch times of the streams' own,
/// which etf keeps.
const EXPERIMENT: &str = r#"
name = "sound"
trials = 2
[station.a]
[station.b]
[path]
kind = "veth"
[stream.ctl]
kind = "cyclic"
from = "a"
to = "b"
port = "sim"
cycle = "500us"
count = 24
metrics = ["scheduled..rx_kernel", "tx_kernel..rx_kernel", "delta", "rx_hw..receive"]
sim = { jitter = "3us", drop = [3, 20], duplicate = 0.1, reorder = 0.1, late = "700us", late_share = 0.05 }
[stream.b]
kind = "cyclic"
from = "a"
to = "b"
port = "sim"
count = 8
stamps = ["wakeup", "receive"]
[[case]]
name = "taprio"
[case.set.shaper]
kind = "taprio"
classes = 2
map = [1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
entries = ["0 250us", "1 250us"]
mode = "txtime-assist"
txtime_delay = "300us"
etf.delta = "200us"
[[case]]
name = "etf"
[case.set]
shaper.kind = "etf"
shaper.etf.delta = "200us"
stream.ctl.launch = "strict"
stream.ctl.tx.advance = "400us"
stream.b.launch = "strict"
stream.b.tx.advance = "400us"
[expect.ctl]
lost = 2
"scheduled..rx_kernel" = "p50 < 1ms"
"#;

/// Its files by their path, and the folder that they are laid into.
pub struct Sound {
    folder: TempDir,
    /// Path below the folder, and content.
    pub files: Vec<(PathBuf, Vec<u8>)>,
}

impl Sound {
    pub fn new() -> Sound {
        let made = TempDir::with_prefix("tardy-fuzz-").expect("a temporary folder");
        write(&made.path().join("run"));
        let mut files = Vec::new();
        list(made.path(), &made.path().join("run"), &mut files);
        files.sort();
        let folder = TempDir::with_prefix("tardy-fuzz-").expect("a temporary folder");
        Sound { folder, files }
    }

    /// Where the run folder is.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Makes it sound again.
    pub fn lay(&self) {
        for entry in fs::read_dir(self.folder.path()).expect("the folder is there").flatten() {
            let path = entry.path();
            let gone =
                if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            gone.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        for (path, bytes) in &self.files {
            let path = self.folder.path().join(path);
            match fs::write(&path, bytes) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
                    fs::write(&path, bytes).expect("a file is written");
                }
                written => written.expect("a file is written"),
            }
        }
    }
}

fn list(root: &Path, folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(root, &path, files);
        } else {
            let below = path.strip_prefix(root).expect("below it").to_owned();
            files.push((below, fs::read(&path).expect("a file")));
        }
    }
}

struct Keep<'a> {
    folder: &'a RunFolder,
    judge: Judge,
    /// Of the trial that stays unfinished: the results know nothing of it.
    apart: Judge,
}

impl Sink for Keep<'_> {
    fn event(&mut self, _: Event) {}

    fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Result<(), Box<dyn Error + Send + Sync>> {
        // The last trial stays unfinished, as after a kill.
        let unfinished = record.order == 3;
        let judge = if unfinished { &mut self.apart } else { &mut self.judge };
        let answer = judge.trial(record, streams).expect("a cell of the experiment");
        let trial = self.folder.begin_trial(&record.cell, record.n)?;
        let named: Vec<(&str, &Batch)> = streams.iter().map(|(name, batch)| (name.as_str(), batch)).collect();
        trial.write_samples(&named)?;
        for name in record.streams.keys() {
            let of_stream = answer.histograms.iter().filter(|((stream, _), _)| stream == name);
            let histograms: BTreeMap<_, _> = of_stream.map(|((_, metric), h)| (*metric, h.clone())).collect();
            trial.write_histograms(name, Nanos(1_000_000), &histograms)?;
        }
        trial.write_record(record)?;
        if unfinished { Ok(()) } else { Ok(trial.finish()?) }
    }
}

fn write(path: &Path) {
    let source = Source { name: "sound.toml".to_owned(), text: EXPERIMENT.to_owned() };
    let experiment = tardy_spec::load(&source, &[]).unwrap_or_else(|error| panic!("{}", error.one_line()));
    let folder = RunFolder::create(path).expect("a new folder");
    folder.write_experiment(&experiment.effective).expect("written");
    let entry = |cell: &tardy_spec::experiment::Cell| CellEntry {
        id: cell.id.clone(),
        axes: cell.axes.clone(),
        trials: experiment.trials,
        refused: None,
        short: vec!["CPU 9 is not there".to_owned()],
    };
    let manifest = Manifest {
        format: tardy_model::FORMAT,
        tardy: "0.1.0".to_owned(),
        name: experiment.name.clone(),
        started_utc: "2026-01-01T00:00:00Z".to_owned(),
        cells: experiment.cells.iter().map(entry).collect(),
        ..Manifest::default()
    };
    folder.write_manifest(&manifest).expect("written");
    folder.append_commands("ip link show\n").expect("written");
    let mut keep = Keep { folder: &folder, judge: Judge::new(&experiment), apart: Judge::new(&experiment) };
    let options =
        Options { version: "0.1.0", stop: &AtomicBool::new(false), kinds: Kinds::default(), clocks: one_host };
    let mut steward = Steward::new(path, Path::new(""), std::process::id());
    let mut hosts = Hosts::here(&mut steward);
    let found = check(&experiment, &Kinds::default(), &mut hosts).expect("nothing stands against a simulation");
    let ended = run(&experiment, found, &mut hosts, &options, &mut keep);
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
    folder.write_results(&keep.judge.finish(&manifest).results).expect("written");
}
