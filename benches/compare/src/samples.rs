// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run of tardy that is timed, and what its folder holds.

use crate::Bench;
use crate::child;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tardy_store::RunFolder;

/// A run that has ended; its folder goes when this does.
pub struct Run {
    folder: tempfile::TempDir,
    /// The command as one would type it.
    pub command: String,
}

/// Runs an experiment of `benches/experiments` with some keys set. That it is not valid is no
/// failure: a flood misses its rate by intent.
pub fn run(bench: &Bench, experiment: &str, set: &[&str]) -> Result<Run> {
    let folder = tempfile::tempdir().context("a temporary folder")?;
    let file = bench.home.join("experiments").join(experiment);
    let mut command = Command::new(&bench.tardy);
    command.arg("run").arg(&file).arg("--json").arg("--out").arg(folder.path());
    let mut typed = format!("tardy run benches/experiments/{experiment}");
    for key in set {
        command.args(["--set", key]);
        typed += &format!(" --set '{key}'");
    }
    child::run(&mut command, &[0, 1, 4], Duration::from_secs(300))?;
    Ok(Run { folder, command: typed })
}

impl Run {
    /// The run folder, opened.
    pub fn open(&self) -> Result<RunFolder> {
        Ok(RunFolder::open(self.folder.path())?)
    }

    fn text(&self, name: &str) -> Result<String> {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))
    }

    /// The evidence of the only trial, as it was written.
    pub fn trial(&self) -> Result<(String, Value)> {
        let trials = self.open()?.trials()?;
        let [trial] = trials.as_slice() else { bail!("{} trials instead of one", trials.len()) };
        let text = self.text(&format!("trials/{}/{}/trial.json", trial.cell, trial.n))?;
        let value = serde_json::from_str(&text)?;
        Ok((text, value))
    }

    pub fn results(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.text("results.json")?)?)
    }

    /// The lines of `events.jsonl`.
    pub fn events(&self) -> Result<Vec<Value>> {
        self.text("events.jsonl")?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }
}
