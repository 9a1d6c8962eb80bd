// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sound run folder, and the edits that an input is read as.
//!
//! The folder is that of a run on port `sim`, kept by the program's own writers. It is the same
//! each time, so that an input that was kept does the same again.
//!
//! The edits: bytes of a file changed, taken out, put in; a file cut, emptied, removed, replaced by
//! another, by a folder or by a link; a value of a JSON file replaced by a worse one; numbers of a
//! file of samples replaced, behind its packing and its sum.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
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
use tardy_model::point::Point;
use tardy_model::sample::{Batch, MaybeNanos};
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;
use tardy_spec::Source;
use tardy_store::{RunFolder, SamplesFile, write_samples};
use tempfile::TempDir;

/// Two cells of two trials; every kind of outcome, a metric that is not available, an expectation,
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
        found: None,
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
        Options { version: "0.1.0", stop: &AtomicBool::new(false), kinds: Kinds::default(), clocks: &one_host };
    let mut steward = Steward::new(path, Path::new(""), std::process::id());
    let mut hosts = Hosts::here(&mut steward);
    let found = check(&experiment, &Kinds::default(), &mut hosts).expect("nothing stands against a simulation");
    let ended = run(&experiment, found, &mut hosts, &options, &mut keep);
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
    folder.write_results(&keep.judge.finish(&manifest).results).expect("written");
}

/// More than these are not read from one input.
const MOST: usize = 16;
/// The operation that rewrites numbers of a file of samples.
const REWRITE: u8 = 0xff;
/// Where a link points: away, up, to another file, to bytes without an end, to none.
const LINKS: [&str; 5] = ["nowhere", "..", "manifest.json", "/dev/zero", "/dev/null"];

/// The input, from its beginning; behind its end all is zero.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
        self.0 = rest;
        first
    }

    fn pair(&mut self) -> usize {
        usize::from(self.byte()) << 8 | usize::from(self.byte())
    }

    fn some(&mut self, most: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }

    /// A place in a file of this length; the upper half of the numbers counts from the end, where
    /// footers are.
    fn place(&mut self, length: usize) -> usize {
        match self.pair() {
            from_start @ 0..0x8000 => from_start.min(length),
            from_end => length.saturating_sub(from_end & 0x7fff),
        }
    }
}

/// Carries the edits out; false if there was none.
pub fn apply(input: &[u8], sound: &Sound) -> bool {
    let mut input = Bytes(input);
    let mut done = 0;
    while !input.0.is_empty() && done < MOST {
        let op = input.byte();
        let file = usize::from(input.byte());
        if op == REWRITE {
            rewrite(file, &mut input, sound);
        } else {
            edit(op, &place_of(sound, file % sound.files.len()), &mut input, sound);
        }
        done += 1;
    }
    done > 0
}

fn place_of(sound: &Sound, file: usize) -> PathBuf {
    let (below, _) = &sound.files[file];
    sound.path().parent().map(|folder| folder.join(below)).unwrap_or_default()
}

fn edit(op: u8, path: &Path, input: &mut Bytes<'_>, sound: &Sound) {
    // A file that an edit before this one made a link or a folder of is left alone.
    let about = path.symlink_metadata();
    if !about.is_ok_and(|about| about.is_file()) {
        return;
    }
    let mut bytes = fs::read(path).unwrap_or_default();
    match op % 12 {
        0 | 1 => {
            let at = input.place(bytes.len());
            let length = 1 + usize::from(input.byte() % 16);
            let new = input.some(length);
            let end = (at + new.len()).min(bytes.len());
            bytes.splice(at..end, new);
        }
        2 => {
            let (at, length) = (input.place(bytes.len()), input.pair());
            bytes.drain(at..(at + length).min(bytes.len()));
        }
        3 => {
            let at = input.place(bytes.len());
            let length = usize::from(input.byte());
            bytes.splice(at..at, input.some(length));
        }
        4 => bytes.truncate(input.place(bytes.len())),
        5 => return fs::remove_file(path).unwrap_or(()),
        6 => {
            let _ = fs::remove_file(path).and_then(|()| fs::create_dir(path));
            return;
        }
        7 => {
            let to = LINKS[usize::from(input.byte()) % LINKS.len()];
            let _ = fs::remove_file(path).and_then(|()| symlink(to, path));
            return;
        }
        8 => bytes.clone_from(&sound.files[usize::from(input.byte()) % sound.files.len()].1),
        9 => {
            let most = input.pair();
            bytes = input.some(most);
        }
        _ => {
            let (at, value) = (input.pair(), worse(input));
            let Ok(mut whole) = serde_json::from_slice::<Value>(&bytes) else { return };
            let mut left = at % leaves(&whole).max(1);
            replace(&mut whole, &mut left, &value);
            bytes = serde_json::to_vec(&whole).unwrap_or_default();
        }
    }
    let _ = fs::write(path, bytes);
}

/// Decodes a file of samples, replaces some of its numbers, and packs it again: an edit of packed
/// bytes never comes out as another number.
fn rewrite(file: usize, input: &mut Bytes<'_>, sound: &Sound) {
    let is_samples = |file: &usize| sound.files[*file].0.ends_with("samples.parquet");
    let samples: Vec<usize> = (0..sound.files.len()).filter(is_samples).collect();
    let path = place_of(sound, samples[file % samples.len()]);
    // One that an edit before this one broke stays so.
    let Some(mut streams) = decoded(&path) else { return };
    for _ in 0..=input.byte() % 4 {
        let of = usize::from(input.byte()) % streams.len();
        replace_number(&mut streams[of].1, input);
    }
    let named: Vec<(&str, &Batch)> = streams.iter().map(|(name, batch)| (name.as_str(), batch)).collect();
    let _ = write_samples(&path, &named);
}

fn decoded(path: &Path) -> Option<Vec<(String, Batch)>> {
    let file = SamplesFile::open(path).ok()?;
    let names: Vec<String> = file.streams().map(str::to_owned).collect();
    let whole = |name: String| {
        let mut batches = file.batches(&name).ok()?;
        // The sound streams have a few packets: one batch.
        let mut batch = Batch::default();
        batches.read(&mut batch).ok()?;
        Some((name, batch))
    };
    names.into_iter().map(whole).collect::<Option<Vec<_>>>().filter(|streams| !streams.is_empty())
}

fn replace_number(batch: &mut Batch, input: &mut Bytes<'_>) {
    let (column, row) = (usize::from(input.byte()), input.pair());
    let number = match input.byte() % 10 {
        0 => 0,
        1 => -1,
        2 => i64::MAX,
        3 => i64::MIN,
        4 => i64::from(u32::MAX),
        5 => 1 << 62,
        6 => i64::from(u32::MAX) - 1,
        7 => i64::from(input.byte()),
        8 => 1_767_225_600_000_000_000 + input.pair() as i64,
        _ => i64::from_be_bytes(std::array::from_fn(|_| input.byte())),
    };
    if batch.is_empty() {
        return;
    }
    let row = row % batch.len();
    match column % (2 + Point::COUNT) {
        0 => batch.seq[row] = number,
        1 => batch.scheduled_ns[row] = number,
        point => {
            if let Some(stamps) = &mut batch.offsets[point - 2] {
                stamps[row] = if number == i64::MIN { MaybeNanos::NONE } else { MaybeNanos::some(number) };
            }
        }
    }
}

fn worse(input: &mut Bytes<'_>) -> Value {
    match input.byte() % 16 {
        0 => json!(0),
        1 => json!(-1),
        2 => json!(i64::MAX),
        3 => json!(i64::MIN),
        4 => json!(u32::MAX),
        5 => json!(u64::MAX),
        6 => json!(1e308),
        7 => json!(-0.0),
        8 => json!(""),
        9 => json!("\u{1b}[2J\u{7}\r\n"),
        10 => json!("../../etc"),
        11 => Value::Null,
        12 => json!([]),
        13 => json!({}),
        14 => json!("a".repeat(10_000)),
        _ => json!(i64::from_be_bytes(std::array::from_fn(|_| input.byte()))),
    }
}

/// Values that hold no others, and empty ones.
pub fn leaves(value: &Value) -> usize {
    match value {
        Value::Array(items) if !items.is_empty() => items.iter().map(leaves).sum(),
        Value::Object(fields) if !fields.is_empty() => fields.values().map(leaves).sum(),
        _ => 1,
    }
}

/// Replaces the leaf before which `left` others stand.
fn replace(value: &mut Value, left: &mut usize, by: &Value) -> bool {
    match value {
        Value::Array(items) if !items.is_empty() => items.iter_mut().any(|item| replace(item, left, by)),
        Value::Object(fields) if !fields.is_empty() => fields.values_mut().any(|field| replace(field, left, by)),
        leaf if *left == 0 => {
            *leaf = by.clone();
            true
        }
        _ => {
            *left -= 1;
            false
        }
    }
}
