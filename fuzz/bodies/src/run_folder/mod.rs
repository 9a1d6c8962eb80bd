// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run folder that was damaged, or made to harm: every picture of it is drawn and every export
//! written, or one error says what is wrong.
//!
//! The input is a list of edits of a sound run folder, which the program's own writers make when
//! the target starts: so nothing here depends on how a file is packed. The check sum of the
//! samples is not looked at under fuzzing.

mod folder;

use anyhow::Result;
use folder::Sound;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tardy_judge::{Judged, Traces};
use tardy_model::manifest::Manifest;
use tardy_model::result::Results;
use tardy_report::export::{self, EXPORTERS, ExportError, Labels, Needs, Writes};
use tardy_report::{FORMATS, Options, Picture};
use tardy_spec::Source;
use tardy_spec::experiment::Experiment;
use tardy_store::{DataSet, RunFolder};

/// When the run began, for a log: any time will do.
const STARTED: Duration = Duration::from_secs(1_767_225_600);

/// One at a time: an input damages the folder that the next one mends.
static SOUND: OnceLock<Mutex<Sound>> = OnceLock::new();

fn with_sound<T>(run: impl FnOnce(&mut Sound) -> T) -> T {
    let sound = SOUND.get_or_init(|| Mutex::new(Sound::new()));
    run(&mut sound.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// Without an edit all is drawn and exported: else nothing would be tried at all.
///
/// # Panics
/// If it is not.
pub fn sound_is_reported() {
    with_sound(|sound| {
        sound.lay();
        let [reported, exported] = tried(&sound.path(), true);
        reported.expect("the sound folder is reported");
        exported.expect("the sound folder is exported");
    });
}

/// One input; false if it holds no edit. `whole`: exported as an HdrHistogram too, which in a
/// build that is not for fuzzing takes 27 MiB a metric and most of the time.
pub fn input(bytes: &[u8], whole: bool) -> bool {
    with_sound(|sound| {
        sound.lay();
        let edited = folder::apply(bytes, sound);
        if edited {
            for error in tried(&sound.path(), whole).into_iter().filter_map(Result::err) {
                assert!(!format!("{error:#}").is_empty());
            }
        }
        edited
    })
}

/// How many values the file of this number has if it is the first cell's first record; `None` for
/// others, and behind the last file.
pub fn leaves_of_record(file: u8) -> Option<usize> {
    with_sound(|sound| {
        let (path, bytes) = sound.files.get(usize::from(file))?;
        let is_first = path.ends_with("1/trial.json");
        let record = serde_json::from_slice(bytes).ok().filter(|_| is_first)?;
        Some(folder::leaves(&record))
    })
}

/// What `tardy report` and `tardy export` do.
fn tried(path: &Path, whole: bool) -> [Result<()>; 2] {
    let (run, manifest) = match RunFolder::open(path).and_then(|run| run.manifest().map(|manifest| (run, manifest))) {
        Ok(opened) => opened,
        Err(error) => return [Err(error.into()), Ok(())],
    };
    // Both judge the run; once will do.
    let judged = judged(&run, &manifest);
    let exported = exported(&run, &manifest, judged.as_ref().ok().map(|(_, judged)| &judged.results), whole);
    [judged.and_then(|(experiment, judged)| report(&run, &manifest, &experiment, &judged)), exported]
}

fn experiment(run: &RunFolder) -> Result<Experiment> {
    let source = Source { name: "experiment.toml".to_owned(), text: run.experiment()? };
    Ok(tardy_spec::load(&source, &[])?)
}

fn judged(run: &RunFolder, manifest: &Manifest) -> Result<(Experiment, Judged)> {
    let experiment = experiment(run)?;
    let judged = tardy_judge::folder(run, &experiment, manifest)?;
    Ok((experiment, judged))
}

fn report(run: &RunFolder, manifest: &Manifest, experiment: &Experiment, judged: &Judged) -> Result<()> {
    let traces = Traces::of_folder(run, experiment, &judged.results)?;
    let commands = run.commands().ok();
    let picture = Picture {
        results: &judged.results,
        manifest,
        facts: &tardy_judge::facts(experiment),
        bars: &|cell, stream, metric| judged.bars(cell, stream, metric),
        run_dir: Some("run"),
        elapsed: None,
        experiment: Some(&experiment.effective),
        traces: &traces.all,
        commands: commands.as_deref(),
    };
    for format in FORMATS {
        let drawn = (format.make)(&picture, &Options { width: 80, colour: false })?;
        let harmless = |c: char| !c.is_control() || c == '\n';
        let for_people = matches!(format.name, "text" | "md" | "org");
        assert!(!for_people || drawn.chars().all(harmless), "{} would move the cursor: {drawn:?}", format.name);
    }
    Ok(())
}

/// To every tool. Of an export of samples, the results that the run wrote are taken as they are;
/// no judge has looked at them before.
fn exported(run: &RunFolder, manifest: &Manifest, judged: Option<&Results>, whole: bool) -> Result<()> {
    let written = tardy_judge::written(run)?;
    let cells = experiment(run).map(|experiment| experiment.cells).unwrap_or_default();
    let streams: BTreeMap<_, _> = cells.into_iter().map(|cell| (cell.id, cell.setup.streams)).collect();
    let mut ended = Ok(());
    for to in EXPORTERS.iter().filter(|to| whole || to.name != "hlog") {
        let results = match to.needs {
            Needs::Samples | Needs::Packets => written.as_ref().or(judged),
            Needs::Figures => judged,
        };
        if let Some(results) = results {
            let source = export::Source { run, results, manifest, started: STARTED, streams: streams.clone() };
            // One that fails does not keep the next from being tried.
            ended = ended.and(match to.write {
                Writes::Bytes(write) => write(&source, &mut io::sink()).map(drop),
                Writes::Folder(write) => into_folder(write, &source),
            });
        }
    }
    Ok(ended?)
}

/// Into a data set of its own, next to the run.
fn into_folder(
    write: fn(&export::Source<'_>, &Labels, &DataSet) -> Result<Vec<String>, ExportError>,
    source: &export::Source<'_>,
) -> Result<(), ExportError> {
    let path = source.run.path().with_extension("set");
    let written = DataSet::open(&path)
        .map_err(ExportError::from)
        .and_then(|set| write(source, &Labels::default(), &set).map(drop));
    std::fs::remove_dir_all(&path)?;
    written
}
