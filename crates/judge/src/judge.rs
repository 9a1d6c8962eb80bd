// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells of a run, trial by trial, and what they come to; with the verdicts that follow from no
//! trial, what the trials show over time, and what the line at the top says was sent.

use std::collections::{BTreeMap, BTreeSet};
use tardy_analyze::cell::{CellAnalysis, TrialAnswer};
use tardy_analyze::envelope::{EnvelopePass, Grain, Trace};
use tardy_analyze::fingerprint::Rows;
use tardy_analyze::ruler::Sender;
use tardy_analyze::{expectations, fingerprint, observer, own_trace, ruler};
use tardy_model::copy::{COPY, CopyBackend};
use tardy_model::histogram::Histogram;
use tardy_model::machine::HostId;
use tardy_model::machine::RulerRecord;
use tardy_model::manifest::{GuestEntry, HostEntry, INSTRUCTION_NS, Manifest};
use tardy_model::point::Metric;
use tardy_model::result::{Results, TrialResult};
use tardy_model::sample::Batch;
use tardy_model::station::Machine;
use tardy_model::stream::Stream;
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;
use tardy_model::validity::{Changed, Validity};
use tardy_model::verdict::{Figure, Level, Verdict};
use tardy_report::Facts;
use tardy_spec::experiment::{Cell, Experiment};
use tardy_store::{RunFolder, StoreError};

/// The cells of a run, trial by trial.
pub struct Judge {
    name: String,
    pub(crate) cells: Vec<(String, CellAnalysis)>,
    senders: BTreeMap<String, Vec<Sender>>,
    /// The virtual machines that are stations, by cell, as records call them.
    machines: BTreeMap<String, BTreeSet<String>>,
    /// Cells of optional cases.
    optional: BTreeSet<String>,
    validity: Validity,
    said: BTreeMap<String, Vec<Verdict>>,
    pub(crate) run: Vec<Verdict>,
    /// Cost of a stamp by the ruler, ns.
    stamp_ns: i64,
    /// In exact time: each trial's fingerprint, by cell and number.
    prints: Option<BTreeMap<String, BTreeMap<u32, String>>>,
}

/// Results with the histograms of the pictures.
pub struct Judged {
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

/// The machines among a cell's stations.
fn machines_of(cell: &Cell, machines: &BTreeMap<HostId, (String, Machine)>) -> BTreeSet<String> {
    let hosts = cell.setup.stations.values().filter_map(|station| machines.get(&station.host));
    hosts.map(|(name, _)| name.clone()).collect()
}

fn senders(cell: &Cell, machines: &BTreeMap<HostId, (String, Machine)>) -> Vec<Sender> {
    let host = |station: &String| Some(machines.get(&cell.setup.stations.get(station)?.host)?.0.clone());
    let sender = |stream: &Stream| Sender {
        stream: stream.name.clone(),
        host: host(&stream.from),
        advance_ns: stream.tx.advance.0,
        spins: stream.tx.spin > Nanos::ZERO,
    };
    cell.setup.streams.iter().map(sender).collect()
}

/// Metrics that get figures although the experiment does not ask for them, by cell and stream.
pub type Added = BTreeMap<String, BTreeMap<String, Vec<Metric>>>;

fn analysis(cell: &Cell, added: BTreeMap<String, Vec<Metric>>, validity: &Validity) -> CellAnalysis {
    let of_streams = cell.setup.streams.iter().map(|stream| (stream.name.clone(), stream.metrics.clone()));
    let of_copy = cell.setup.copy.iter().map(|_| (COPY.to_owned(), vec![Metric::PASS]));
    let asked = of_streams.chain(of_copy).collect();
    let first = cell.setup.streams.first().map(|stream| stream.name.as_str());
    let leads = cell.setup.streams.iter().filter_map(|stream| Some((stream.name.clone(), stream.lead?))).collect();
    let deadlines = cell.setup.streams.iter().map(|stream| (stream.name.clone(), stream.deadline)).collect();
    let cell = CellAnalysis::new(cell.id.clone(), cell.axes.clone(), asked, cell.expect.clone());
    cell.first(first).leads(leads).deadlines(deadlines).validity(validity).adding(added)
}

impl Judge {
    pub fn new(experiment: &Experiment) -> Self {
        Judge::adding(experiment, Added::new())
    }

    /// The same with figures of more metrics.
    pub(crate) fn adding(experiment: &Experiment, mut added: Added) -> Self {
        let validity = experiment.validity.clone();
        let mut of = |cell: &Cell| analysis(cell, added.remove(&cell.id).unwrap_or_default(), &validity);
        let cells = experiment.cells.iter().map(|cell| (cell.id.clone(), of(cell))).collect();
        let machines = experiment.machines();
        let senders = experiment.cells.iter().map(|cell| (cell.id.clone(), senders(cell, &machines))).collect();
        let machines = experiment.cells.iter().map(|cell| (cell.id.clone(), machines_of(cell, &machines))).collect();
        let optional = experiment.cells.iter().filter(|cell| cell.optional).map(|cell| cell.id.clone()).collect();
        let (said, run, stamp_ns) = (BTreeMap::new(), Vec::new(), own_trace::stamp_ns(&[]));
        let (name, prints) = (experiment.name.clone(), None);
        Judge { name, cells, senders, machines, optional, validity, said, run, stamp_ns, prints }
    }

    /// The run is one in exact time: its trials get fingerprints, and nobody else can have broken a
    /// limit. Before the first trial.
    pub fn exact(&mut self) {
        self.prints.get_or_insert_default();
        self.cells.iter_mut().for_each(|(_, cell)| cell.exact());
    }

    /// What the ruler said: differences that it cannot tell are none.
    pub fn ruler(&mut self, records: &[RulerRecord]) {
        self.stamp_ns = own_trace::stamp_ns(records);
    }

    pub(crate) fn print(&mut self, cell: &str, n: u32, rows: Option<Rows>) {
        if let (Some(prints), Some(rows)) = (&mut self.prints, rows) {
            prints.entry(cell.to_owned()).or_default().insert(n, rows.finish());
        }
    }

    /// The cell of this name, if the experiment has it.
    pub(crate) fn cell(&mut self, id: &str) -> Option<&mut CellAnalysis> {
        self.cells.iter_mut().find(|(cell, _)| cell == id).map(|(_, cell)| cell)
    }

    pub(crate) fn rows(&self) -> Option<Rows> {
        self.prints.as_ref().map(|_| Rows::default())
    }

    /// A trial that is wholly in memory.
    pub fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Option<TrialAnswer> {
        let mut rows = self.rows();
        rows.iter_mut().for_each(|rows| streams.iter().for_each(|(name, batch)| rows.push(name, batch)));
        self.print(&record.cell, record.n, rows);
        self.run.extend(observer::judge(record));
        let cell = self.cell(&record.cell)?;
        Some(cell.trial(record, streams.iter().map(|(name, batch)| (name, batch))))
    }

    /// A verdict that follows from no trial: a cell that was refused, a CPU that was not available.
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
        self.run.extend(of_machines(manifest));
        let all_emulated = manifest.guest.as_ref().is_some_and(is_emulated);
        let emulated =
            |sender: &Sender| all_emulated || sender.host.as_ref().is_some_and(|host| is_emulated_here(manifest, host));
        let mut histograms = BTreeMap::new();
        let mut answers = Vec::new();
        for (id, cell) in self.cells {
            let mut answer = cell.finish();
            let mut said = self.said.remove(&id).unwrap_or_default();
            // Of a cell that has a trial something was measured, and a refusal later on excuses
            // nothing of it.
            let may_miss = self.optional.contains(&id) && answer.result.trials.is_empty();
            for refused in said.iter_mut().filter(|verdict| may_miss && verdict.id == "refused") {
                answer.result.not_available = Some(refused.says.clone());
                *refused = not_available(&refused.says);
            }
            if answer.result.not_available.is_some() {
                // There is nothing to repeat, and that no trial was finished is no failure.
                answer.result.verdicts.clear();
            }
            if answer.result.trials.is_empty() && said.iter().any(|verdict| verdict.level == Level::Invalid) {
                // Why no trial was finished is known, so that there was none need not be said too.
                answer.result.verdicts.retain(|verdict| verdict.id != "failed");
            }
            let senders = self.senders.get(&id).map(Vec::as_slice).unwrap_or_default();
            let by_ruler = ruler::judge(&answer.result, senders, &manifest.ruler, &emulated, &self.validity);
            let emulated = self.machines.get(&id).into_iter().flatten().find(|name| is_emulated_here(manifest, name));
            for result in answer.expectations.iter_mut().filter(|_| emulated.is_some()) {
                expectations::leave_open_in_emulation(result, emulated.map(String::as_str).unwrap_or_default());
            }
            for verdict in said.iter().chain(&by_ruler) {
                answer.result.valid &= verdict.level < Level::Invalid;
                answer.result.verdicts.push(verdict.clone());
            }
            for ((stream, metric), histogram) in std::mem::take(&mut answer.histograms) {
                histograms.insert((id.clone(), stream, metric.to_string()), histogram);
            }
            let prints = self.prints.as_ref().and_then(|prints| prints.get(&id));
            let prints = prints.map(|prints| prints.iter().map(|(n, print)| (n.to_string(), print.clone())));
            answer.result.fingerprint = prints.map(fingerprint::of_parts);
            answers.push(answer);
        }
        let traced = answers.iter().map(|answer| (&answer.result, &answer.own_trace));
        self.run.extend(own_trace::judge(traced, self.stamp_ns));
        let mut results = tardy_analyze::run::run(&self.name, answers, self.run);
        results.validity = self.validity;
        let cells = results.cells.iter().filter_map(|cell| Some((cell.id.clone(), cell.fingerprint.clone()?)));
        // Of no trial there is none: the hash of nothing would be equal to that of any other run
        // that came to nothing.
        results.fingerprint = self.prints.filter(|prints| !prints.is_empty()).map(|_| fingerprint::of_parts(cells));
        Judged { results, histograms }
    }
}

/// The machine could not run a cell.
pub fn refused(why: &str) -> Verdict {
    Verdict::new("refused", Level::Invalid, why)
}

/// The machine could not set up a cell of an optional case.
fn not_available(why: &str) -> Verdict {
    Verdict::new("not-available", Level::Note, format!("not available: {why}"))
}

/// Something was requested and was not available. A guest in exact time has one processor, and
/// refuses who asked for more: there it was only a default, which is worth a note.
pub fn short(what: &str, guest: Option<&GuestEntry>) -> Verdict {
    let is_exact = guest.is_some_and(GuestEntry::is_exact);
    Verdict::new("placement", if is_exact { Level::Note } else { Level::Warning }, what)
}

/// What the experiment set of the rules of validity, where that is not the default: it is
/// wherever the figures do.
fn set(validity: &Validity) -> Option<Verdict> {
    let changed = validity.changed();
    let level = if changed.iter().any(|changed| changed.milder) { Level::Warning } else { Level::Note };
    let settings: Vec<String> = changed.iter().map(ToString::to_string).collect();
    let says = format!("judged by what `[validity]` sets: {}", settings.join(", "));
    let verdict = Verdict::new("validity", level, says);
    let with = |verdict: Verdict, changed: &Changed| {
        let name = format!("{}_{}", changed.rule.replace('-', "_"), changed.what);
        verdict.with(&name, changed.is.as_str()).with(&format!("{name}_default"), changed.default.as_str())
    };
    (!changed.is_empty()).then(|| changed.iter().fold(verdict, with))
}

/// True of a guest in real time whose instructions are emulated.
fn is_emulated(guest: &GuestEntry) -> bool {
    !guest.is_exact() && guest.accelerator != "kvm"
}

/// What figures from a guest are, and are not.
pub fn in_guest(guest: &GuestEntry) -> Verdict {
    if guest.is_exact() {
        let ns = INSTRUCTION_NS;
        let says = format!(
            "run in exact virtual time: its nanoseconds are counted instructions at {ns} ns each, good for differences between two runs, \
             not for the latency of hardware; and it always repeats, so a claim about A and B needs at least 20 trials, each with a \
             seeded phase of its own"
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

/// What runs the processors of a host that is a virtual machine.
fn accelerator(host: &HostEntry) -> Option<&str> {
    match host.machine.get("guest.accelerator") {
        Some(Figure::Text(by)) => Some(by),
        _ => None,
    }
}

fn is_emulated_here(manifest: &Manifest, host: &str) -> bool {
    manifest.hosts.get(host).and_then(accelerator).is_some_and(|by| by != "kvm")
}

/// What figures with an end in a virtual machine are, and are not.
fn of_machines(manifest: &Manifest) -> Option<Verdict> {
    // No figure has an end in a bystander.
    let is_station = |name: &str| !name.split('.').nth(1).is_some_and(|part| part.starts_with("bystander"));
    let named = |(name, host): (&String, &HostEntry)| {
        let by = accelerator(host).filter(|_| is_station(name))?;
        Some((name.clone(), by.to_owned()))
    };
    let all: Vec<(String, String)> = manifest.hosts.iter().filter_map(named).collect();
    let emulated: Vec<&str> = all.iter().filter(|(_, by)| by != "kvm").map(|(name, _)| name.as_str()).collect();
    let names = emulated.join("`, `");
    let why = |name: &&str| match manifest.hosts.get(*name)?.machine.get("guest.without_kvm") {
        Some(Figure::Text(why)) => Some(format!(" ({why})")),
        _ => None,
    };
    let why = emulated.first().and_then(why).unwrap_or_default();
    let says = match (all.is_empty(), &emulated[..]) {
        (true, _) => return None,
        (false, []) => {
            "a station is a virtual machine: its figures hold the hypervisor's work and the host's".to_owned()
        }
        (false, [_]) => format!(
            "the processor of station `{names}`, a virtual machine, is emulated in software{why}: how long something takes there is \
             the emulator's affair, and no limit on it is judged; what can be trusted is what was lost, and in which order packets came"
        ),
        (false, _) => format!(
            "the processors of stations `{names}`, virtual machines, are emulated in software{why}: how long something takes there is \
             the emulator's affair, and no limit on it is judged; what can be trusted is what was lost, and in which order packets came"
        ),
    };
    let level = if emulated.is_empty() { Level::Note } else { Level::Warning };
    let verdict = Verdict::new("guest", level, says);
    Some(all.iter().fold(verdict, |verdict, (name, by)| verdict.with(&format!("{name}_accelerator"), by.as_str())))
}

/// What was followed so far.
pub struct Traces {
    grain: Grain,
    /// One for each stream of each trial.
    pub all: Vec<Trace>,
}

/// The metrics that a trial's results have of a stream.
fn metrics(trial: &TrialResult, stream: &str) -> Vec<Metric> {
    let all = trial.streams.get(stream).into_iter().flat_map(|stream| &stream.metrics);
    // What is refused as a figure has no pictures either.
    let given = all.filter(|(_, metric)| metric.refused_by.is_none());
    given.filter_map(|(name, _)| name.parse().ok()).collect()
}

impl Traces {
    pub fn new(experiment: &Experiment) -> Self {
        let streams = experiment.cells.iter().flat_map(|cell| &cell.setup.streams);
        let lines: usize = streams.map(|stream| stream.metrics.len()).sum();
        let trials = experiment.trials as usize;
        Traces { grain: Grain::of(lines * trials, trials), all: Vec::new() }
    }

    /// A trial that is wholly in memory, and its results.
    pub fn trial(&mut self, record: &TrialRecord, result: &TrialResult, streams: &[(String, Batch)]) {
        for (name, batch) in streams {
            let Some(mut pass) = EnvelopePass::new(record, name, &metrics(result, name), self.grain) else { continue };
            pass.push(batch);
            self.all.push(pass.finish());
        }
    }

    /// All trials of a run folder that are in its results.
    ///
    /// # Errors
    /// If something of it cannot be read.
    pub fn of_folder(run: &RunFolder, experiment: &Experiment, results: &Results) -> Result<Self, StoreError> {
        let mut traces = Traces::new(experiment);
        for cell in &results.cells {
            for trial in &cell.trials {
                let record = run.record(&cell.id, trial.n)?;
                for stream in record.streams.keys() {
                    let wanted = metrics(trial, stream);
                    let Some(mut pass) = EnvelopePass::new(&record, stream, &wanted, traces.grain) else { continue };
                    for batch in run.batches(&cell.id, trial.n, stream)? {
                        pass.push(&batch?);
                    }
                    traces.all.push(pass.finish());
                }
            }
        }
        Ok(traces)
    }
}

/// What the line at the top says was sent.
pub fn facts(experiment: &Experiment) -> Facts {
    let mut facts = Facts { reference: experiment.reference.clone(), ..Facts::default() };
    let stations: BTreeSet<&String> = experiment.cells.iter().flat_map(|cell| cell.setup.stations.keys()).collect();
    for cell in &experiment.cells {
        if let Some(copy) = &cell.setup.copy {
            let own = if copy.backend == CopyBackend::Sgtest { ", tardy's own test module" } else { "" };
            facts.paths.push(format!("copy by {}{own}", copy.backend.name()));
            facts.streams = vec![COPY.to_owned()];
            facts.packets.push(copy.all_iterations());
            facts.counts_passes = true;
            continue;
        }
        let simulated = cell.setup.builds_nothing();
        facts.paths.push(if simulated { "simulated" } else { cell.setup.path.traits().name }.to_owned());
        for stream in &cell.setup.streams {
            if !facts.streams.contains(&stream.name) {
                facts.streams.push(stream.name.clone());
            }
            let (tx, rx) = (stream.port.name(), stream.rx.port.name());
            facts.ports.push(if tx == rx { tx.to_owned() } else { format!("{tx} to {rx}") });
            facts.cycles.push(stream.cycle);
            facts.packets.push(u64::from(stream.count));
            if stations.len() > 2 {
                let pair = format!("{} → {}", stream.from, stream.to);
                facts.pairs.insert((cell.id.clone(), stream.name.clone()), pair);
            }
        }
    }
    facts
}
