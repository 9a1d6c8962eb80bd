// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy compare`: two run folders side by side, and what conditions on their difference come
//! to. Both are judged anew, so that the same rules made both runs' figures.

use crate::args::Compare;
use crate::exit::{Exit, Failure, printable};
use anyhow::Result;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use tardy_analyze::compare::condition::{self, Condition, ConditionError, What, Word};
use tardy_analyze::compare::phases::Phases;
use tardy_analyze::compare::{self, Run, decide};
use tardy_judge::Added;
use tardy_model::comparison::{Comparison, Decision};
use tardy_model::manifest::Manifest;
use tardy_model::point::{Metric, Point};
use tardy_model::result::Results;
use tardy_model::stream::Stream;
use tardy_spec::Source;
use tardy_spec::experiment::Experiment;
use tardy_store::{RunFolder, StoreError};

/// What is read of a folder.
struct Read {
    /// Its experiment is of copies, not of packets.
    is_copy: bool,
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

/// The metrics that conditions are about and the experiment does not name: the samples have every
/// stage, so a metric need not have been requested when the run was made.
fn added(experiment: &Experiment, conditions: &[Condition]) -> Added {
    let can = |stream: &Stream, metric: Metric| {
        let scheduled = metric.points().contains(&Point::Scheduled);
        let answered = metric == Metric::Transit || metric.points().iter().any(|point| point.is_of_reply());
        (!answered || stream.kind.is_answered()) && (!scheduled || stream.kind.is_scheduled())
    };
    let wanted = conditions.iter().filter_map(|condition| match &condition.what {
        What::Figure { metric, .. } => Some((condition, metric.text.parse::<Metric>().ok()?)),
        What::Count(_) | What::Bandwidth => None,
    });
    let mut added = Added::new();
    for (condition, metric) in wanted {
        let is = |word: &Option<Word>, name: &str| word.as_ref().is_none_or(|word| word.text == name);
        for cell in experiment.cells.iter().filter(|cell| is(&condition.cell, &cell.id)) {
            let streams = cell.setup.streams.iter().filter(|stream| is(&condition.stream, &stream.name));
            for stream in streams.filter(|stream| can(stream, metric) && !stream.metrics.contains(&metric)) {
                let metrics = added.entry(cell.id.clone()).or_default().entry(stream.name.clone()).or_default();
                if !metrics.contains(&metric) {
                    metrics.push(metric);
                }
            }
        }
    }
    added
}

fn read(path: &Path, conditions: &[Condition]) -> Result<Read> {
    let run = RunFolder::open(path).map_err(unreadable)?;
    let manifest = run.manifest()?;
    let name = path.join("experiment.toml").display().to_string();
    let source = Source { name, text: run.experiment().map_err(unreadable)? };
    let experiment = tardy_spec::load(&source, &[])?;
    let added = added(&experiment, conditions);
    let mut results = tardy_judge::folder_with(&run, &experiment, &manifest, added)?.results;
    if let Some(written) = tardy_judge::written(&run)? {
        // The run itself gives its fingerprints, whatever this version would compute from its
        // samples.
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
    // Links and dots lead to one folder under two names. If that is not known, two names count as
    // two folders.
    let folder = path.canonicalize().ok();
    let is_copy = experiment.cells.iter().any(|cell| cell.setup.copy.is_some());
    Ok(Read {
        is_copy,
        name: path.display().to_string(),
        folder,
        manifest,
        results,
        keys: tardy_spec::keys(&source)?,
        phases,
    })
}

impl Read {
    fn run(&self) -> Run<'_> {
        let Read { name, folder, manifest, results, keys, phases, is_copy: _ } = self;
        Run { name, folder: folder.as_deref(), manifest, results, keys, phases }
    }
}

/// Refuses a word that is no metric, with the one that it most likely was. A run need not have the
/// metric, so a list of what the runs have would leave it out.
fn check_metric(condition: &Condition) -> Result<(), Failure> {
    let What::Figure { metric, .. } = &condition.what else { return Ok(()) };
    match tardy_spec::schema::metric_meant(&metric.text) {
        Some(help) => {
            let says = format!("--fail-if '{}': `{}` is no metric ({help})", condition.text, metric.text);
            Err(Failure::new(Exit::Usage, says))
        }
        None => Ok(()),
    }
}

/// A condition that cannot be read, or that is about what neither run has.
fn wrong(error: ConditionError) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
}

/// Draws the comparison, and judges it by the caller's conditions.
pub fn call(args: &Compare) -> Result<Exit> {
    let format = tardy_report::compare::FORMATS.iter().find(|format| format.name == args.format);
    let format = format.ok_or_else(|| Failure::new(Exit::Usage, format!("`{}` is no format", args.format)))?;
    // An error in a condition is reported before anything is read.
    let conditions =
        args.fail_if.iter().map(|text| condition::parse(text)).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    conditions.iter().try_for_each(check_metric)?;
    let (a, b) = (read(&args.a, &conditions)?, read(&args.b, &conditions)?);
    if a.is_copy != b.is_copy {
        let kind = |read: &Read| if read.is_copy { "copies" } else { "sends packets" };
        let says = format!(
            "cannot compare {}, which {}, with {}, which {}: they have no figure in common; compare runs of one kind",
            a.name,
            kind(&a),
            b.name,
            kind(&b)
        );
        return Err(Failure::new(Exit::Usage, says).into());
    }
    let (a, b) = (a.run(), b.run());
    let mut compared = compare::compare(&a, &b);
    compared.conditions = decide::judge(&conditions, &a, &b, &compared).map_err(wrong)?;
    let terminal = args.output.is_none() && std::io::stdout().is_terminal();
    let drawn = (format.make)(&compared, &super::report::look(terminal))?;
    match &args.output {
        None => super::print(&drawn)?,
        Some(path) => super::write(path, drawn.as_bytes())?,
    }
    // A log without the tables shows at least the reason for the exit code.
    if args.output.is_some() || format.name != "text" {
        tardy_report::compare::met_or_undecided(&compared)
            .iter()
            .for_each(|line| eprintln!("tardy: {}", printable(line)));
    }
    Ok(exit(&compared))
}

/// A condition that is met outweighs one that is `undecided`; otherwise losing data would excuse
/// it.
fn exit(compared: &Comparison) -> Exit {
    let any = |is: fn(Decision) -> bool| compared.conditions.iter().any(|result| is(result.decision));
    match () {
        () if any(|decision| decision == Decision::Met) => Exit::Unmet,
        () if any(|decision| decision != Decision::NotMet) => Exit::Invalid,
        () if compared.a.valid && compared.b.valid => Exit::Good,
        () => Exit::Invalid,
    }
}
