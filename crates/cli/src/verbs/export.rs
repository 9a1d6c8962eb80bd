// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy export`: a run for other people's tools, also one that was killed. Needs no root.

use crate::args::Export;
use crate::exit::{Exit, Failure, code_of};
use anyhow::Result;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::time::Duration;
use tardy_model::manifest::Manifest;
use tardy_model::result::Results;
use tardy_model::stream::Stream;
use tardy_report::export::{ExportError, Exporter, Labels, Needs, Source, Writes, exporter};
use tardy_spec::experiment::Experiment;
use tardy_store::{DataSet, Output, RunFolder, StoreError};

pub fn call(args: &Export) -> Result<Exit> {
    let to = exporter(&args.to).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    if let Writes::Folder(write) = to.write {
        return into_folder(to, write, args);
    }
    if args.host.is_some() || args.commit.is_some() {
        let why = format!("--host and --commit are of a data set: leave them out with --to {}", to.name);
        return Err(Failure::new(Exit::Usage, why).into());
    }
    let [run] = &args.runs[..] else {
        let why = format!("--to {} takes one run, and {} are named: export each by itself", to.name, args.runs.len());
        return Err(Failure::new(Exit::Usage, why).into());
    };
    let notes = with_source(run, to.needs, |source| as_bytes(to, source, args.output.as_deref()))?;
    tell(&notes);
    Ok(Exit::Good)
}

/// Every run that can be exported goes into the data set; each that cannot is named, with why.
fn into_folder(to: &Exporter, write: IntoFolder, args: &Export) -> Result<Exit> {
    let path = args.output.as_deref().ok_or_else(|| Failure::new(Exit::Usage, no_folder(to)))?;
    let set = DataSet::open(path).map_err(super::unwritten)?;
    let labels = Labels { host: args.host.clone(), commit: args.commit.clone() };
    let mut exit = Exit::Good;
    for run in &args.runs {
        let written = with_source(run, to.needs, |source| {
            let named = |note| format!("{}: {note}", run.display());
            let notes = write(source, &labels, &set).map_err(|error| failure(error, path))?;
            Ok(notes.into_iter().map(named).collect())
        });
        match written {
            Ok(notes) => tell(&notes),
            Err(error) => {
                eprintln!("tardy: left out {}: {error:#}", run.display());
                exit = exit.max(code_of(&error));
            }
        }
    }
    Ok(exit)
}

/// What writes a run into a folder.
type IntoFolder = fn(&Source<'_>, &Labels, &DataSet) -> Result<Vec<String>, ExportError>;

fn no_folder(to: &Exporter) -> String {
    ExportError::NoBytes { asked: to.name }.to_string()
}

fn tell(notes: &[String]) {
    for note in notes {
        eprintln!("tardy: note: {note}");
    }
}

/// Opens a run and exports it. If it is not valid, that is one of the notes that come back.
fn with_source(
    path: &Path,
    needs: Needs,
    export: impl FnOnce(&Source<'_>) -> Result<Vec<String>>,
) -> Result<Vec<String>> {
    // A run folder that cannot be read is a fault of the call, whatever the system's reason.
    let unreadable = |error: StoreError| Failure::new(Exit::Usage, error.to_string());
    let run = RunFolder::open(path).map_err(unreadable)?;
    let manifest = run.manifest()?;
    let results = results(&run, &manifest, needs)?;
    let streams = if needs == Needs::Packets { streams(&run)? } else { BTreeMap::new() };
    let source = Source { run: &run, results: &results, manifest: &manifest, started: started(&manifest), streams };
    let mut notes = export(&source)?;
    if !results.valid && !notes.iter().any(|note| note.contains("not valid")) {
        notes.insert(0, "the run is not valid: its numbers must not be used; `tardy report` reports why".to_owned());
    }
    Ok(notes)
}

fn as_bytes(to: &Exporter, source: &Source<'_>, output: Option<&Path>) -> Result<Vec<String>> {
    match output {
        None => {
            let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
            let written = to.write_bytes(source, &mut out).and_then(|notes| Ok(out.flush().map(|()| notes)?));
            match written {
                // A reader that has seen enough (`| head`) is no error.
                Err(ExportError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Vec::new()),
                written => written.map_err(|error| failure(error, Path::new("stdout"))),
            }
        }
        Some(path) => into_file(to, source, path),
    }
}

/// Figures are judged anew; for the samples, what the run itself wrote about its trials will do.
fn results(run: &RunFolder, manifest: &Manifest, needs: Needs) -> Result<Results> {
    if needs != Needs::Figures
        && let Some(written) = tardy_judge::written(run)?
    {
        return Ok(written);
    }
    Ok(tardy_judge::folder(run, &experiment(run)?, manifest)?.results)
}

/// The experiment as the run has it.
fn experiment(run: &RunFolder) -> Result<Experiment> {
    let name = run.path().join("experiment.toml").display().to_string();
    let text = run.experiment().map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    Ok(tardy_spec::load(&tardy_spec::Source { name, text }, &[])?)
}

/// What it says of the streams of each cell.
fn streams(run: &RunFolder) -> Result<BTreeMap<String, Vec<Stream>>> {
    Ok(experiment(run)?.cells.into_iter().map(|cell| (cell.id, cell.setup.streams)).collect())
}

fn started(manifest: &Manifest) -> Duration {
    let began = manifest.started_utc.parse::<jiff::Timestamp>().ok();
    began.and_then(|began| u64::try_from(began.as_millisecond()).ok()).map_or(Duration::ZERO, Duration::from_millis)
}

fn failure(error: ExportError, path: &Path) -> anyhow::Error {
    match error {
        ExportError::Store(error) => error.into(),
        ExportError::Write(error) => {
            let why = format!("writing {}: {error}: choose another place with -o", path.display());
            Failure::new(Exit::Cannot, why).into()
        }
        other => Failure::new(Exit::Usage, other.to_string()).into(),
    }
}

/// Into a file as a whole: a collector that looks at the wrong moment sees the old one. What stood
/// there is replaced.
fn into_file(to: &Exporter, source: &Source<'_>, path: &Path) -> Result<Vec<String>> {
    let mut path = path.to_owned();
    if path.is_dir() {
        path.push(format!("{}.{}", file_name(&source.results.name), to.extension));
    }
    let output = Output::create(&path).map_err(super::unwritten)?;
    let mut out = BufWriter::with_capacity(1 << 16, output);
    let notes = to.write_bytes(source, &mut out).map_err(|error| failure(error, &path))?;
    let output = out.into_inner().map_err(|error| failure(ExportError::Write(error.into_error()), &path))?;
    output.finish().map_err(super::unwritten)?;
    Ok(notes)
}

/// An experiment's name as a file's.
fn file_name(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._=-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(kept).collect();
    if name.trim_start_matches('.').is_empty() { "run".to_owned() } else { name }
}
