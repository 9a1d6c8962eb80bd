// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a run's events and samples go: the run folder, the judge, the progress line.

use crate::exit::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::IsTerminal;
use std::time::Duration;
use tardy_analyze::cell::TrialAnswer;
use tardy_engine::live::Digest;
use tardy_judge::{Judge, Traces};
use tardy_lab::behind;
use tardy_lab::plan::Script;
use tardy_lab::run::{Event, Sink, What};
use tardy_model::manifest::{GuestEntry, Manifest, ReadBack};
use tardy_model::result::{MetricResult, Quantiles, TrialResult};
use tardy_model::sample::Batch;
use tardy_model::stream::{Side, live_end};
use tardy_model::time::{Instant, Nanos, Realtime};
use tardy_model::trial::TrialRecord;
use tardy_model::xdp::Inspection;
use tardy_report::figure::{Digits, Unit};
use tardy_spec::experiment::{Cell, Experiment};
use tardy_store::{RunFolder, StoreError};
use tardy_sys::clock;

pub struct Recorder<'a> {
    folder: &'a RunFolder,
    /// Facts, growing as the run learns them.
    pub manifest: Manifest,
    /// The cells so far.
    pub judge: Judge,
    /// The trials over time.
    pub traces: Traces,
    pub kept: u32,
    /// The first thing that could not be written.
    pub failed: Option<StoreError>,
    /// What the programs of the next trial's loads wrote.
    load_output: Vec<(String, Vec<u8>)>,
    /// Queue disciplines of the path that is built, as they were read back.
    queueing: Vec<ReadBack>,
    progress: Progress,
    /// By cell: what the progress line shows of it.
    shown: BTreeMap<String, Shown>,
    /// Cells of which a trial was kept.
    measured: BTreeSet<String>,
    /// The cell of the trial that runs.
    under_way: String,
}

/// What the progress line shows of a cell: the stream and the metric of the table's headline.
#[derive(Default)]
struct Shown {
    stream: String,
    metric: Option<String>,
    /// The one that an end computes while a trial runs, if it is the one that should lead and the
    /// latest trial did not refuse it.
    live: Option<String>,
    /// What is known of the bound of the live one, where two hosts' clocks take its stamps.
    bound: String,
    /// Its figures in the latest trial, for a metric that no end can compute while a trial runs.
    latest: Option<String>,
}

impl Shown {
    /// Before the first trial: what leads as far as the experiment shows.
    fn of(cell: &Cell) -> Shown {
        let streams = cell.setup.streams.iter();
        let Some((stream, metric)) = streams.filter_map(|stream| Some((stream, stream.leading()?))).next() else {
            return Shown::default();
        };
        let live = live_end(stream.kind, metric).map(|_| metric.to_string());
        let host = |station: &String| cell.setup.stations.get(station).map(|of| of.host);
        let crosses = metric.crosses_stations() && host(&stream.from) != host(&stream.to);
        let bound = if crosses { ", ± after this trial" } else { "" }.to_owned();
        Shown { stream: stream.name.clone(), metric: Some(metric.to_string()), live, bound, latest: None }
    }

    /// A trial was judged. What leads is known for certain from then on.
    fn after(&mut self, result: &TrialResult) {
        let Some(stream) = result.streams.get(&self.stream) else { return };
        let Some(name) = tardy_report::lead(stream) else { return };
        let figures = stream.metrics.get(name).map(|metric| figures_of(name, metric));
        if let Some(found) = self.live.as_ref().and_then(|live| stream.metrics.get(live)) {
            let known = |ns| format!(", ± {} in trial {}", tardy_report::figure::exact(ns), result.n);
            self.bound = found.clock_bound_ns.map_or_else(String::new, known);
            self.live.take_if(|_| found.refused_by.is_some());
        }
        self.latest = figures.map(|figures| format!("{figures} (trial {})", result.n));
        self.metric = Some(name.to_owned());
    }

    /// While a trial runs, until there are live figures.
    fn before(&self) -> String {
        match &self.metric {
            Some(metric) if self.live.as_ref() != Some(metric) => {
                self.latest.clone().unwrap_or_else(|| format!("{metric} after this trial"))
            }
            _ => String::new(),
        }
    }
}

/// A metric's figures of a trial that is over.
fn figures_of(name: &str, metric: &MetricResult) -> String {
    let Quantiles { p50_ns, p99_ns, .. } = metric.figures.quantiles;
    let digits = Digits::of(Unit::Us).row([p50_ns, p99_ns, metric.clock_bound_ns].into_iter().flatten());
    let of = |quantile: &str, ns: Option<i64>| match ns {
        Some(ns) => digits.fixed(ns),
        None if metric.infinite.iter().any(|infinite| infinite == quantile) => "∞".to_owned(),
        None => "–".to_owned(),
    };
    let bound = metric.clock_bound_ns.map_or_else(String::new, |ns| format!(" ± {}", digits.at_least(ns)));
    if metric.refused_by.is_some() {
        return format!("{name} refused:{bound} µs");
    }
    format!("{name} p50 {} p99 {}{bound} µs", of("p50", p50_ns), of("p99", p99_ns))
}

/// The time now, UTC, RFC 3339.
pub fn utc() -> String {
    utc_of(clock::now())
}

fn utc_of(at: Instant<Realtime>) -> String {
    let at = jiff::Timestamp::from_nanosecond(at.ns().into()).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// What is in an event and not in its line of `events.jsonl`: the manifest has it, or it is for the
/// progress line.
const NOT_IN_THE_LOG: [&str; 5] = ["elsewhere", "read_back", "of", "proc_version", "facts"];

/// A line of `events.jsonl`.
#[derive(Serialize)]
struct Line {
    at_utc: String,
    event: String,
    #[serde(flatten)]
    what: Map<String, Value>,
}

impl Line {
    fn of(event: &Event) -> Line {
        let named = match serde_json::to_value(&event.what) {
            Ok(Value::Object(named)) => named.into_iter().next(),
            Ok(Value::String(name)) => Some((name, Value::Null)),
            _ => None,
        };
        let (name, what) = named.unwrap_or_default();
        let mut what = if let Value::Object(what) = what { what } else { Map::new() };
        what.retain(|key, _| !NOT_IN_THE_LOG.contains(&key.as_str()));
        Line { at_utc: utc_of(event.at), event: name, what }
    }
}

impl<'a> Recorder<'a> {
    /// Into an open folder.
    pub fn new(experiment: &'a Experiment, folder: &'a RunFolder, manifest: Manifest) -> Self {
        let (judge, progress) = (Judge::new(experiment), Progress::new());
        let traces = Traces::new(experiment);
        let (load_output, queueing) = (Vec::new(), Vec::new());
        let measured = BTreeSet::new();
        let shown = experiment.cells.iter().map(|cell| (cell.id.clone(), Shown::of(cell))).collect();
        let (kept, failed, under_way) = (0, None, String::new());
        Recorder {
            folder,
            manifest,
            judge,
            traces,
            kept,
            failed,
            load_output,
            queueing,
            progress,
            shown,
            measured,
            under_way,
        }
    }

    fn log(&mut self, event: &Event) {
        let written = self.folder.append_event(&Line::of(event));
        self.note(written);
    }

    fn log_now(&mut self, what: What) {
        self.log(&Event::now(what));
    }

    /// Remembers the first thing that could not be written.
    pub fn note(&mut self, written: Result<(), StoreError>) {
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    /// Takes the progress line away.
    pub fn clear_progress(&self) {
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

    /// More is known about the guest: noted, and printed once when it has booted.
    fn guest(&mut self, entry: &GuestEntry) {
        let was_booted = self.manifest.guest.as_ref().is_some_and(|guest| guest.boot_cpu_ns.is_some());
        if let (Some(boot_cpu_ns), false) = (entry.boot_cpu_ns, was_booted) {
            self.log_now(What::GuestBooted { boot_cpu_ns, boot_ns: entry.boot_ns });
        }
        self.manifest.guest = Some(entry.clone());
        self.write_manifest();
    }

    /// Commands that were run, as lines of a script.
    fn commands(&mut self, commands: &[String], elsewhere: bool) {
        let mut script = Script::default();
        for command in commands {
            match elsewhere {
                // If they ran here they would meet this machine's own devices; and a guest may send
                // anything.
                true => script.comment(command),
                false => script.line(command),
            }
        }
        let written = self.folder.append_commands(script.text());
        self.note(written);
    }

    /// What was read back of a path that is built. Its queue disciplines are the cells' own, and
    /// wait for the first trial of each, which reports that the path is built for it.
    fn path_is_built(&mut self, read_back: Vec<ReadBack>) {
        self.queueing.clear();
        for read in read_back {
            if read.qdiscs_of.is_some() {
                self.queueing.push(read);
            } else if !self.manifest.read_back.iter().any(|known| known.command == read.command) {
                self.manifest.read_back.push(read);
            }
        }
    }

    /// A trial of this cell begins: the queue disciplines of the path are the cell's.
    fn path_is_of(&mut self, cell: &str) {
        for read in &self.queueing {
            let same = |known: &ReadBack| known.cell.as_deref() == Some(cell) && known.command == read.command;
            if !self.manifest.read_back.iter().any(same) {
                self.manifest.read_back.push(ReadBack { cell: Some(cell.to_owned()), ..read.clone() });
            }
        }
    }

    /// Nothing more is measured of a cell. The table has the reason too, but not where --json takes
    /// its place.
    fn refused(&mut self, cell: &str, why: &str, found: Option<&Inspection>) {
        let what = if self.measured.contains(cell) { "no further trial" } else { "nothing" };
        self.progress.say(&format!("tardy: {cell}: refused, {what} is measured of it: {why}"));
        if let Some(entry) = self.cell(cell) {
            entry.refused = Some(why.to_owned());
            entry.found = found.cloned();
        }
        self.write_manifest();
        self.judge.say(cell, tardy_judge::refused(why));
        for verdict in found.into_iter().flat_map(tardy_analyze::validity::found) {
            self.judge.say(cell, verdict);
        }
    }

    fn cell(&mut self, id: &str) -> Option<&mut tardy_model::manifest::CellEntry> {
        self.manifest.cells.iter_mut().find(|cell| cell.id == id)
    }
}

impl Sink for Recorder<'_> {
    fn event(&mut self, mut event: Event) {
        match &mut event.what {
            What::Progress { stream, side, digest, count, metric } => {
                let Some(shown) = self.shown.get(&self.under_way).filter(|shown| shown.stream == *stream) else {
                    return;
                };
                let is_shown =
                    |metric: &String| [&shown.metric, &shown.live].iter().all(|of| of.as_ref() == Some(metric));
                let metric = metric.map(|metric| metric.to_string()).filter(is_shown);
                let metric = metric.as_ref().map(|metric| (metric.as_str(), shown.bound.as_str()));
                return self.progress.figures(*side, *digest, *count, metric);
            }
            What::Guest { entry } => {
                self.guest(entry);
                return;
            }
            What::Trial { cell, n, order, of } => {
                let before = self.shown.get(cell).map(Shown::before).unwrap_or_default();
                self.progress.trial(&printable(cell), *n, *order, *of, before);
                self.under_way.clone_from(cell);
                self.path_is_of(cell);
            }
            What::Commands { commands, elsewhere, .. } => self.commands(commands, *elsewhere),
            What::Built { read_back, stations, .. } => {
                if self.manifest.stations.is_empty() {
                    self.manifest.stations = stations.clone();
                }
                // Taken, so that no line of the log is made of them.
                self.path_is_built(std::mem::take(read_back));
            }
            What::Hosts { hosts } => {
                for (name, facts) in hosts.iter().map(|(name, entry)| (name, behind::facts(&entry.machine))) {
                    if !facts.is_empty() {
                        self.progress.say(&printable(&format!("tardy: {name}: {}", behind::in_words(&facts))));
                    }
                }
                self.manifest.hosts.extend(std::mem::take(hosts));
                self.write_manifest();
            }
            What::Ruler { records } => {
                self.manifest.ruler.extend_from_slice(records);
                self.judge.ruler(&self.manifest.ruler);
                self.write_manifest();
            }
            What::Refused { cell, why, found } => self.refused(cell, why, found.as_deref()),
            What::Found { cell, found } => {
                // A run that waits for its figures may be one that is to be stopped now.
                for verdict in tardy_analyze::validity::found(found) {
                    self.progress.say(&format!("tardy: {cell}: {}: {}", verdict.id, verdict.says));
                }
            }
            What::Unstamped { cell, stream, packets } => {
                let why = tardy_analyze::validity::unstamped(stream, *packets, None);
                self.progress.say(&format!("tardy: {cell}: no-metadata: {why}"));
            }
            What::Short { cell, what } => {
                if let Some(entry) = self.cell(cell) {
                    entry.short.push(what.clone());
                }
                self.write_manifest();
                self.judge.say(cell, tardy_judge::short(what, self.manifest.guest.as_ref()));
            }
            What::GuestUp { facts, .. } => {
                // Taken, so that no line of the log is made of them.
                self.manifest.machine = std::mem::take(facts);
                self.write_manifest();
            }
            What::GuestBooted { .. }
            | What::TrialKept { .. }
            | What::TrialBroken { .. }
            | What::TornDown
            | What::Ended { .. } => {}
        }
        self.log(&event);
    }

    fn load_output(&mut self, output: Vec<(String, Vec<u8>)>) {
        self.load_output = output;
    }

    fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Result<(), Box<dyn Error + Send + Sync>> {
        if let Some(why) = &record.failed {
            // Half of it is gone: what is left stays next to the trials, as `<n>.partial`, and no
            // figure uses it.
            self.keep(record, streams, None)?;
            self.log_now(What::TrialBroken { cell: record.cell.clone(), n: record.n, why: why.clone() });
            return Ok(());
        }
        // Judged first: if the disk refuses, the table still has it.
        let answer = self.judge.trial(record, streams);
        self.keep(record, streams, answer.as_ref())?;
        self.kept += 1;
        self.measured.insert(record.cell.clone());
        if let Some(answer) = &answer {
            self.traces.trial(record, &answer.result, streams);
            self.shown.entry(record.cell.clone()).or_default().after(&answer.result);
        }
        let valid = answer.map(|answer| answer.result.valid);
        self.log_now(What::TrialKept { cell: record.cell.clone(), n: record.n, valid });
        Ok(())
    }
}

/// One line that shows which trial runs, how far it is, and how late its packets are so far.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shown if stderr is a terminal.
    pub fn new() -> Self {
        let target =
            if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{prefix:.bold}  {wide_bar:.dim} {percent:>3} %  {msg}  {elapsed:>4}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━━─"));
        bar.enable_steady_tick(Duration::from_millis(250));
        Progress { bar }
    }

    /// A trial begins; the line shows `before` until there are live figures.
    pub fn trial(&self, cell: &str, n: u32, order: u32, of: u32, before: String) {
        self.bar.set_prefix(format!("{cell} trial {n} ({}/{of})", order + 1));
        self.bar.set_message(before);
        self.bar.set_length(0);
    }

    /// Live figures: those of the metric that leads are shown, with what is known of its bound, the
    /// sender's show how far the trial is.
    pub fn figures(&self, side: Side, digest: Digest, count: u32, metric: Option<(&str, &str)>) {
        self.bar.set_length(u64::from(count));
        if side == Side::Tx {
            self.bar.set_position(digest.done);
        }
        let Some((metric, bound)) = metric else { return };
        let digits = Digits::of(Unit::Us).row([digest.p50_ns, digest.p99_ns].into_iter().flatten());
        let show = |ns: Option<i64>| ns.map_or_else(|| "–".to_owned(), |ns| digits.fixed(ns));
        let [p50, p99] = [digest.p50_ns, digest.p99_ns].map(show);
        self.bar.set_message(format!("{metric} p50 {p50} p99 {p99} µs{bound}"));
    }

    /// Writes a line above the progress line.
    pub fn say(&self, line: &str) {
        let line = printable(line);
        if self.bar.is_hidden() { eprintln!("{line}") } else { self.bar.println(line) }
    }

    /// Takes the line away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
