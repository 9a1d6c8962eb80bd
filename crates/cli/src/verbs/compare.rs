// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy compare`: two run folders side by side. Both are judged anew, so that the same rules made both runs' figures.

use crate::args::Compare;
use crate::exit::{Exit, Failure};
use anyhow::Result;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use tardy_analyze::compare::phases::Phases;
use tardy_analyze::compare::{self, Run};
use tardy_model::manifest::Manifest;
use tardy_model::result::Results;
use tardy_spec::Source;
use tardy_store::{RunFolder, StoreError};

/// What is read of a folder.
struct Read {
    name: String,
    folder: Option<PathBuf>,
    manifest: Manifest,
    results: Results,
    keys: BTreeMap<String, String>,
    phases: Phases,
}

/// A run folder that cannot be read is a fault of the call, whatever the system's reason.
fn unreadable(error: StoreError) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
}

fn read(path: &Path) -> Result<Read> {
    let run = RunFolder::open(path).map_err(unreadable)?;
    let manifest = run.manifest()?;
    let name = path.join("experiment.toml").display().to_string();
    let source = Source { name, text: run.experiment().map_err(unreadable)? };
    let experiment = tardy_spec::load(&source, &[])?;
    let mut results = tardy_judge::folder(&run, &experiment, &manifest)?.results;
    if let Some(written) = tardy_judge::written(&run)? {
        // Fingerprints are the run's own word, whatever this version would make of its samples.
        results.fingerprint = results.fingerprint.or(written.fingerprint);
        for cell in &mut results.cells {
            let same = written.cells.iter().find(|other| other.id == cell.id);
            cell.fingerprint = cell.fingerprint.take().or_else(|| same?.fingerprint.clone());
        }
    }
    let mut phases = Phases::default();
    for id in run.trials()? {
        phases.add(&run.record(&id.cell, id.n)?);
    }
    // Links and dots lead to one folder under two names. Where that cannot be told, two are taken for two.
    let folder = path.canonicalize().ok();
    Ok(Read { name: path.display().to_string(), folder, manifest, results, keys: tardy_spec::keys(&source)?, phases })
}

impl Read {
    fn run(&self) -> Run<'_> {
        let Read { name, folder, manifest, results, keys, phases } = self;
        Run { name, folder: folder.as_deref(), manifest, results, keys, phases }
    }
}

/// Draws the comparison.
pub fn call(args: &Compare) -> Result<Exit> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let compared = compare::compare(&a.run(), &b.run());
    let terminal = args.output.is_none() && std::io::stdout().is_terminal();
    let drawn = match args.format.as_str() {
        "json" => tardy_report::compare::json(&compared)?,
        _ => tardy_report::compare::text(&compared, &super::report::look(terminal)),
    };
    match &args.output {
        None => super::print(&drawn)?,
        Some(path) => super::write(path, drawn.as_bytes())?,
    }
    Ok(if compared.a.valid && compared.b.valid { Exit::Good } else { Exit::Invalid })
}
