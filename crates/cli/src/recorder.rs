// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a run's events and samples go: the run folder, the judge, the progress line.

use crate::exit::printable;
use crate::progress::Progress;
use serde::Serialize;
use std::error::Error;
use std::time::Duration;
use tardy_analyze::cell::TrialAnswer;
use tardy_judge::{Judge, traces::Traces};
use tardy_lab::run::{Event, Sink};
use tardy_lab::script::Script;
use tardy_model::manifest::{Manifest, ReadBack};
use tardy_model::sample::Batch;
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;
use tardy_spec::experiment::Experiment;
use tardy_store::{RunFolder, StoreError};

/// Keeps everything.
pub struct Recorder<'a> {
    folder: &'a RunFolder,
    /// Facts, growing as the run learns them.
    pub manifest: Manifest,
    /// The cells so far.
    pub judge: Judge,
    /// The trials over time.
    pub traces: Traces,
    /// Trials kept.
    pub kept: u32,
    /// The first thing that could not be written.
    pub failed: Option<StoreError>,
    /// What the programs of the next trial's loads wrote.
    load_output: Vec<(String, Vec<u8>)>,
    /// Queue disciplines of the path that is built, as they were read back.
    queueing: Vec<ReadBack>,
    progress: Progress,
}

/// A line of `events.jsonl`.
#[derive(Serialize)]
struct Line {
    at_utc: String,
    event: &'static str,
    #[serde(flatten)]
    what: serde_json::Map<String, serde_json::Value>,
}

/// The time now, UTC, RFC 3339.
pub fn utc() -> String {
    utc_ago(Duration::ZERO)
}

fn utc_ago(ago: Duration) -> String {
    let now = jiff::Timestamp::now();
    (now - ago).strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

impl<'a> Recorder<'a> {
    /// Into an open folder.
    pub fn new(experiment: &'a Experiment, folder: &'a RunFolder, manifest: Manifest) -> Self {
        let (judge, progress) = (Judge::new(experiment), Progress::new());
        let traces = Traces::new(experiment);
        let (load_output, queueing) = (Vec::new(), Vec::new());
        Recorder { folder, manifest, judge, traces, kept: 0, failed: None, load_output, queueing, progress }
    }

    /// A line for `events.jsonl`.
    pub fn log(&mut self, event: &'static str, what: serde_json::Value) {
        self.log_at(utc(), event, what);
    }

    fn log_at(&mut self, at_utc: String, event: &'static str, what: serde_json::Value) {
        let what = match what {
            serde_json::Value::Object(map) => map,
            _ => serde_json::Map::new(),
        };
        let written = self.folder.append_event(&Line { at_utc, event, what });
        self.note(written);
    }

    /// Remembers the first thing that could not be written.
    pub fn note(&mut self, written: Result<(), StoreError>) {
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    /// Takes the progress line away.
    pub fn quiet(&self) {
        self.progress.end();
    }

    fn keep(
        &mut self,
        record: &TrialRecord,
        streams: &[(String, Batch)],
        answer: Option<&TrialAnswer>,
    ) -> Result<(), StoreError> {
        let trial = self.folder.begin_trial(&record.cell, record.n)?;
        let named: Vec<(&str, &Batch)> = streams.iter().map(|(name, batch)| (name.as_str(), batch)).collect();
        trial.write_samples(&named)?;
        for (name, of) in &record.streams {
            // The judge's own, so that the file and the results cannot disagree.
            let histograms = answer.into_iter().flat_map(|answer| &answer.histograms);
            let histograms = histograms.filter(|((stream, _), _)| stream == name);
            let histograms = histograms.map(|((_, metric), histogram)| (*metric, histogram.clone())).collect();
            trial.write_histograms(name, Nanos(of.span_ns()), &histograms)?;
        }
        for (name, bytes) in std::mem::take(&mut self.load_output) {
            trial.write_load_output(&name, &bytes)?;
        }
        trial.write_record(record)?;
        if record.failed.is_some() { Ok(()) } else { trial.finish() }
    }

    /// At once, so that a run that is killed still knows it.
    fn write_manifest(&mut self) {
        let written = self.folder.write_manifest(&self.manifest);
        self.note(written);
    }

    fn cell(&mut self, id: &str) -> Option<&mut tardy_model::manifest::CellEntry> {
        self.manifest.cells.iter_mut().find(|cell| cell.id == id)
    }
}

impl Sink for Recorder<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Progress { side, digest, count, metric, .. } => self.progress.figures(side, digest, count, metric),
            Event::Trial { cell, n, order, of } => {
                self.progress.trial(&printable(cell), n, order, of);
                for read in &self.queueing {
                    let same = |known: &ReadBack| known.cell.as_deref() == Some(cell) && known.command == read.command;
                    if !self.manifest.read_back.iter().any(same) {
                        self.manifest.read_back.push(ReadBack { cell: Some(cell.to_owned()), ..read.clone() });
                    }
                }
                self.log("trial", serde_json::json!({ "cell": cell, "n": n, "order": order }));
            }
            Event::Commands { commands, took, ago, failed, elsewhere } => {
                let mut script = Script::default();
                let mut line = |command: &String| match elsewhere {
                    // Run here they would meet this machine's own devices; and a guest may say anything.
                    true => script.comment(command),
                    false => script.line(command),
                };
                commands.iter().for_each(&mut line);
                let written = self.folder.append_commands(script.text());
                self.note(written);
                let took_ns = took.as_nanos() as u64;
                let what = serde_json::json!({ "commands": commands, "took_ns": took_ns, "failed": failed });
                self.log_at(utc_ago(ago), "commands", what);
            }
            Event::Built { read_back, stations, pids } => {
                if self.manifest.stations.is_empty() {
                    self.manifest.stations = stations.clone();
                }
                // Which cells the path is built for is told with the first trial of each.
                self.queueing.clear();
                for read in read_back {
                    if read.command.starts_with("tc ") {
                        self.queueing.push(read.clone());
                    } else if !self.manifest.read_back.iter().any(|known| known.command == read.command) {
                        self.manifest.read_back.push(read.clone());
                    }
                }
                self.log("built", serde_json::json!({ "stations": stations, "pids": pids }));
            }
            Event::Ruler(records) => {
                self.manifest.ruler.extend_from_slice(records);
                self.judge.ruler(&self.manifest.ruler);
                self.write_manifest();
                self.log("ruler", serde_json::json!({ "records": records }));
            }
            Event::Refused { cell, why } => {
                self.progress.say(&format!("{cell}: {why}"));
                if let Some(entry) = self.cell(cell) {
                    entry.refused = Some(why.to_owned());
                }
                self.write_manifest();
                self.judge.say(cell, tardy_judge::refused(why));
                self.log("refused", serde_json::json!({ "cell": cell, "why": why }));
            }
            Event::Short { cell, what } => {
                if let Some(entry) = self.cell(cell) {
                    entry.short.push(what.to_owned());
                }
                self.write_manifest();
                self.judge.say(cell, tardy_judge::short(what));
                self.log("short", serde_json::json!({ "cell": cell, "what": what }));
            }
            Event::Machine { facts } => {
                self.manifest.machine = facts.clone();
                self.write_manifest();
                self.log("guest_up", serde_json::Value::Null);
            }
            Event::Guest(entry) => {
                if let (Some(cpu_ns), None) =
                    (entry.boot_cpu_ns, self.manifest.guest.as_ref().and_then(|g| g.boot_cpu_ns))
                {
                    self.log("guest_booted", serde_json::json!({ "boot_cpu_ns": cpu_ns, "boot_ns": entry.boot_ns }));
                }
                self.manifest.guest = Some(entry.clone());
                self.write_manifest();
            }
            Event::TornDown => self.log("torn_down", serde_json::Value::Null),
        }
    }

    fn load_output(&mut self, output: Vec<(String, Vec<u8>)>) {
        self.load_output = output;
    }

    fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Result<(), Box<dyn Error + Send + Sync>> {
        if let Some(why) = &record.failed {
            // Half of it is gone: what is left stays beside the trials, as `<n>.partial`, and no figure comes of it.
            self.keep(record, streams, None)?;
            self.log("trial_broken", serde_json::json!({ "cell": record.cell, "n": record.n, "why": why }));
            return Ok(());
        }
        // Judged first: if the disk refuses, the table still has it.
        let answer = self.judge.trial(record, streams);
        self.keep(record, streams, answer.as_ref())?;
        self.kept += 1;
        if let Some(answer) = &answer {
            self.traces.trial(record, &answer.result, streams);
        }
        let valid = answer.map(|answer| answer.result.valid);
        self.log("trial_kept", serde_json::json!({ "cell": record.cell, "n": record.n, "valid": valid }));
        Ok(())
    }
}
