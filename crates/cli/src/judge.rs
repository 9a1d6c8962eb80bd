// SPDX-License-Identifier: MIT OR Apache-2.0
//! From trials to results: the same way for a run under way and for a run folder, so that a killed run is judged alike.

use anyhow::Result;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use tardy_analyze::cell::{CellAnalysis, TrialAnswer};
use tardy_analyze::fingerprint::{self, Rows};
use tardy_analyze::ruler::{self, Sender};
use tardy_analyze::{observer, own_trace};
use tardy_lab::guest::qemu::{INSTRUCTION_NS, Mode};
use tardy_model::histogram::Histogram;
use tardy_model::machine::RulerRecord;
use tardy_model::manifest::{GuestEntry, Manifest};
use tardy_model::result::Results;
use tardy_model::sample::Batch;
use tardy_model::stream::Stream;
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;
use tardy_model::validity::{Changed, Validity};
use tardy_model::verdict::{Level, Verdict};
use tardy_report::Facts;
use tardy_spec::experiment::{Cell, Experiment};
use tardy_store::{RunFolder, StoreError};

/// The cells of a run, trial by trial.
pub struct Judge {
    name: String,
    cells: Vec<(String, CellAnalysis)>,
    senders: BTreeMap<String, Vec<Sender>>,
    validity: Validity,
    said: BTreeMap<String, Vec<Verdict>>,
    run: Vec<Verdict>,
    /// Cost of a stamp by the ruler, ns.
    stamp_ns: i64,
    /// In exact time: each trial's fingerprint, by cell and number.
    prints: Option<BTreeMap<String, BTreeMap<u32, String>>>,
}

/// Results with the histograms of the pictures.
pub struct Judged {
    /// Results.
    pub results: Results,
    histograms: BTreeMap<(String, String, String), Histogram>,
}

impl Judged {
    /// Non-empty buckets of a metric's histogram.
    pub fn bars(&self, cell: &str, stream: &str, metric: &str) -> Vec<(i64, i64, u64)> {
        let key = (cell.to_owned(), stream.to_owned(), metric.to_owned());
        self.histograms.get(&key).map(tardy_report::bars).unwrap_or_default()
    }
}

fn senders(cell: &Cell) -> Vec<Sender> {
    let sender = |stream: &Stream| Sender {
        stream: stream.name.clone(),
        advance_ns: stream.tx.advance.0,
        spins: stream.tx.spin > Nanos::ZERO,
    };
    cell.setup.streams.iter().map(sender).collect()
}

fn analysis(cell: &Cell, validity: &Validity) -> CellAnalysis {
    let asked = cell.setup.streams.iter().map(|stream| (stream.name.clone(), stream.metrics.clone())).collect();
    let first = cell.setup.streams.first().map(|stream| stream.name.as_str());
    CellAnalysis::new(cell.id.clone(), cell.axes.clone(), asked, cell.expect.clone()).first(first).validity(validity)
}

impl Judge {
    /// Nothing measured yet.
    pub fn new(experiment: &Experiment) -> Self {
        let validity = experiment.validity.clone();
        let cells = experiment.cells.iter().map(|cell| (cell.id.clone(), analysis(cell, &validity))).collect();
        let senders = experiment.cells.iter().map(|cell| (cell.id.clone(), senders(cell))).collect();
        let (said, run, stamp_ns) = (BTreeMap::new(), Vec::new(), own_trace::stamp_ns(&[]));
        Judge { name: experiment.name.clone(), cells, senders, validity, said, run, stamp_ns, prints: None }
    }

    /// The run is one in exact time: its trials get fingerprints. Before the first trial.
    pub fn exact(&mut self) {
        self.prints.get_or_insert_default();
    }

    /// What the ruler said: differences that it cannot tell are none.
    pub fn ruler(&mut self, records: &[RulerRecord]) {
        self.stamp_ns = own_trace::stamp_ns(records);
    }

    fn print(&mut self, cell: &str, n: u32, rows: Option<Rows>) {
        if let (Some(prints), Some(rows)) = (&mut self.prints, rows) {
            prints.entry(cell.to_owned()).or_default().insert(n, rows.finish());
        }
    }

    fn rows(&self) -> Option<Rows> {
        self.prints.as_ref().map(|_| Rows::default())
    }

    /// A trial that is wholly in memory.
    pub fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Option<TrialAnswer> {
        let mut rows = self.rows();
        rows.iter_mut().for_each(|rows| streams.iter().for_each(|(name, batch)| rows.push(name, batch)));
        self.print(&record.cell, record.n, rows);
        self.run.extend(observer::judge(record));
        let (_, cell) = self.cells.iter_mut().find(|(id, _)| *id == record.cell)?;
        Some(cell.trial(record, streams.iter().map(|(name, batch)| (name, batch))))
    }

    /// A verdict that follows from no trial: a cell that was refused, a CPU that was not to be had.
    pub fn say(&mut self, cell: &str, verdict: Verdict) {
        self.said.entry(cell.to_owned()).or_default().push(verdict);
    }

    /// A verdict of the whole run.
    pub fn say_of_run(&mut self, verdict: Verdict) {
        self.run.push(verdict);
    }

    /// The results. The manifest has the ruler's figures, and says whether it ran in a guest.
    pub fn finish(mut self, manifest: &Manifest) -> Judged {
        self.run.extend(set(&self.validity));
        let emulated = manifest.guest.as_ref().is_some_and(is_emulated);
        let mut histograms = BTreeMap::new();
        let mut answers = Vec::new();
        for (id, cell) in self.cells {
            let mut answer = cell.finish();
            let said = self.said.get(&id).map(Vec::as_slice).unwrap_or_default();
            if answer.result.trials.is_empty() && said.iter().any(|verdict| verdict.level == Level::Invalid) {
                // Why no trial was finished is known, so that there was none need not be said too.
                answer.result.verdicts.retain(|verdict| verdict.id != "failed");
            }
            let senders = self.senders.get(&id).map(Vec::as_slice).unwrap_or_default();
            let by_ruler = ruler::judge(&answer.result, senders, &manifest.ruler, emulated, &self.validity);
            for verdict in said.iter().chain(&by_ruler) {
                answer.result.valid &= verdict.level < Level::Invalid;
                answer.result.verdicts.push(verdict.clone());
            }
            for ((stream, metric), histogram) in std::mem::take(&mut answer.histograms) {
                histograms.insert((id.clone(), stream, metric.to_string()), histogram);
            }
            let prints = self.prints.as_ref().and_then(|prints| prints.get(&id));
            let prints = prints.map(|prints| prints.iter().map(|(n, print)| (n.to_string(), print.clone())));
            answer.result.fingerprint = prints.map(fingerprint::over);
            answers.push(answer);
        }
        let traced = answers.iter().map(|answer| (&answer.result, &answer.own_trace));
        self.run.extend(own_trace::judge(traced, self.stamp_ns));
        let mut results = tardy_analyze::run::run(&self.name, answers, self.run);
        results.validity = self.validity;
        let cells = results.cells.iter().filter_map(|cell| Some((cell.id.clone(), cell.fingerprint.clone()?)));
        // Of no trial there is none: the hash of nothing would be equal to that of any other run that came to nothing.
        results.fingerprint = self.prints.filter(|prints| !prints.is_empty()).map(|_| fingerprint::over(cells));
        Judged { results, histograms }
    }
}

/// The machine could not run a cell.
pub fn refused(why: &str) -> Verdict {
    Verdict::new("refused", Level::Invalid, why)
}

/// Something was asked for and could not be had.
pub fn short(what: &str) -> Verdict {
    Verdict::new("placement", Level::Warning, what)
}

/// What the experiment set of the rules of validity, where that is not the default: it stands wherever the figures do.
fn set(validity: &Validity) -> Option<Verdict> {
    let changed = validity.changed();
    let level = if changed.iter().any(|changed| changed.milder) { Level::Warning } else { Level::Note };
    let told: Vec<String> = changed.iter().map(ToString::to_string).collect();
    let says = format!("judged by what `[validity]` sets: {}", told.join(", "));
    let verdict = Verdict::new("validity", level, says);
    let with = |verdict: Verdict, changed: &Changed| {
        let name = format!("{}_{}", changed.rule.replace('-', "_"), changed.what);
        verdict.with(&name, changed.is.as_str()).with(&format!("{name}_default"), changed.default.as_str())
    };
    (!changed.is_empty()).then(|| changed.iter().fold(verdict, with))
}

/// True of a guest in real time whose instructions are emulated.
fn is_emulated(guest: &GuestEntry) -> bool {
    guest.mode != Mode::Exact.name() && guest.accelerator != "kvm"
}

/// What figures from a guest are, and are not.
pub fn in_guest(guest: &GuestEntry) -> Verdict {
    if guest.mode == Mode::Exact.name() {
        let ns = INSTRUCTION_NS;
        let says = format!(
            "run in exact virtual time: its nanoseconds are counted instructions at {ns} ns each, good for differences between two runs, \
             not for the latency of hardware; and it is one deterministic draw, so a claim about A and B rests on at least 20 seeded \
             phases (trials)"
        );
        return Verdict::new("exact-time", Level::Note, says).with("instruction_ns", ns);
    }
    let says = match guest.accelerator.as_str() {
        "kvm" => "run in a guest: its figures hold the hypervisor's work and the host's",
        _ => {
            "run in a guest whose processor is emulated in software: its figures are the emulator's on this machine; \
             for figures that repeat, --in guest:exact"
        }
    };
    Verdict::new("guest", Level::Note, says).with("accelerator", guest.accelerator.as_str())
}

/// Judges a run folder anew, from its trials.
pub fn folder(run: &RunFolder, experiment: &Experiment, manifest: &Manifest) -> Result<Judged> {
    let mut judge = Judge::new(experiment);
    judge.ruler(&manifest.ruler);
    if manifest.guest.as_ref().is_some_and(|guest| guest.mode == Mode::Exact.name()) {
        judge.exact();
    }
    let mut batch = Batch::default();
    for id in run.trials()? {
        let record = run.record(&id.cell, id.n)?;
        let mut rows = judge.rows();
        judge.run.extend(observer::judge(&record));
        let Some((_, cell)) = judge.cells.iter_mut().find(|(cell, _)| *cell == id.cell) else { continue };
        let mut pass = cell.begin(&record);
        let samples = run.samples(&id.cell, id.n)?;
        for stream in record.streams.keys() {
            let mut batches = samples.batches(stream)?;
            while batches.read(&mut batch)? {
                pass.push(stream, &batch);
                rows.iter_mut().for_each(|rows| rows.push(stream, &batch));
            }
        }
        cell.end(pass);
        judge.print(&id.cell, id.n, rows);
    }
    for cell in &manifest.cells {
        cell.refused.iter().for_each(|why| judge.say(&cell.id, refused(why)));
        cell.short.iter().for_each(|what| judge.say(&cell.id, short(what)));
    }
    if let Some(guest) = &manifest.guest {
        judge.say_of_run(in_guest(guest));
    }
    if manifest.ended_utc.is_none() {
        let unfinished = run.unfinished()?.len();
        let says = "the run was killed before its end; the trials that were finished are judged here";
        let verdict = Verdict::new("killed", Level::Note, says).with("unfinished_trials", unfinished as u64);
        judge.say_of_run(verdict);
    }
    let mut judged = judge.finish(manifest);
    if let Some(written) = written(run)? {
        // What the run itself said at its end, and only it could know, stands; it makes nothing valid that is not. What follows
        // from the samples is judged anew.
        let results = &mut judged.results;
        let of_samples = |verdict: &Verdict| verdict.id == own_trace::ID;
        let found = std::mem::take(&mut results.verdicts).into_iter().filter(of_samples);
        let at = written.verdicts.iter().position(of_samples);
        let mut verdicts: Vec<Verdict> = written.verdicts.into_iter().filter(|verdict| !of_samples(verdict)).collect();
        let at = at.unwrap_or(verdicts.len());
        verdicts.splice(at..at, found);
        results.verdicts = verdicts;
        results.valid &= written.valid;
        tardy_analyze::run::judge_expectations(results);
    }
    Ok(judged)
}

/// The results that the run wrote at its end. One that was killed wrote none; any other fault of the file is told.
pub fn written(run: &RunFolder) -> Result<Option<Results>, StoreError> {
    match run.results() {
        Err(StoreError::Io { reason, .. }) if reason.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// What the line at the top says was sent.
pub fn facts(experiment: &Experiment) -> Facts {
    let mut facts = Facts { reference: experiment.reference.clone(), ..Facts::default() };
    for cell in &experiment.cells {
        let simulated = cell.setup.is_simulated();
        facts.paths.push(if simulated { "simulated" } else { cell.setup.path.traits().name }.to_owned());
        for stream in &cell.setup.streams {
            if !facts.streams.contains(&stream.name) {
                facts.streams.push(stream.name.clone());
            }
            facts.ports.push(stream.port.name().to_owned());
            facts.cycles.push(stream.cycle);
            facts.packets.push(u64::from(stream.count));
        }
    }
    facts
}
