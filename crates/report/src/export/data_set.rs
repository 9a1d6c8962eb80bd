// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run into a data set of many: its samples as they are, histograms of the metrics that its
//! results have, and in `_run.json` what a reader must know to pool them as the results do: which
//! trials are in the figures, how many packets count as +infinity, what is refused.

use super::source::{ExportError, Source};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tardy_analyze::arrival::delta_of;
use tardy_analyze::distribution::{Wanted, distribution};
use tardy_model::FORMAT;
use tardy_model::histogram::Histogram;
use tardy_model::manifest::Manifest;
use tardy_model::point::Metric;
use tardy_model::sample::Batch;
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::Figure;
use tardy_store::{Counted, DataSet, RunKey, Taken, TrialId};

/// What the caller knows better than the run does.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    pub host: Option<String>,
    pub commit: Option<String>,
}

/// Fact of the machine's name.
const HOST: &str = "host.name";
const KERNEL: &str = "kernel.release";

/// Writes the run into the set. Comes back with what the user ought to know about it.
///
/// # Errors
/// [`ExportError::NameTaken`] if another run has its place, [`ExportError::NoTrial`] of a run
/// without a finished trial; those of reading and writing.
pub(super) fn write(source: &Source<'_>, labels: &Labels, set: &DataSet) -> Result<Vec<String>, ExportError> {
    let trials = source.run.trials()?;
    if trials.is_empty() {
        return Err(ExportError::NoTrial { run: source.run.path().to_owned() });
    }
    let key = key(source, labels)?;
    // What tells this run from any other: when it began, its seed, and its trials.
    let Manifest { started_utc, seed, .. } = source.manifest;
    let id = format!("{started_utc} {seed} {:08x}", source.run.sum_of_records()?);
    let taken = || ExportError::NameTaken { run: key.run.clone(), set: set.path().to_owned() };
    match set.taken(&key, &id)? {
        None => {}
        Some(Taken::Same) => return Ok(vec![format!("{} is in {} already", key.run, set.path().display())]),
        Some(Taken::Other) => return Err(taken()),
    }
    let new = set.begin(key.clone())?;
    let mut histograms: BTreeMap<Metric, Vec<Counted>> = BTreeMap::new();
    let mut listed = Vec::new();
    let mut left_out = 0;
    for trial in &trials {
        let in_figures = source.in_figures(trial);
        left_out += u32::from(!in_figures);
        let mut streams = Map::new();
        let record = source.run.record(&trial.cell, trial.n)?;
        for stream in record.streams.keys() {
            streams.insert(stream.clone(), counted(source, trial, &record, stream, &mut histograms)?);
        }
        listed.push(json!({"cell": trial.cell, "trial": trial.n, "in_figures": in_figures, "streams": streams}));
        new.copy_samples(source.run, trial)?;
    }
    new.write_histograms(|add| histograms.iter().try_for_each(|(metric, counted)| add(&metric.to_string(), counted)))?;
    let about = json!({
        "format": FORMAT,
        "id": id,
        "host": key.host,
        "kernel": key.kernel,
        "commit": key.commit,
        "experiment": key.experiment,
        "run": key.run,
        "tardy": source.manifest.tardy,
        "started_utc": started_utc,
        "valid": source.results.valid,
        "trials": listed,
    });
    if !new.finish(format!("{about:#}\n").as_bytes())? {
        return Err(taken());
    }
    Ok(match left_out {
        0 => Vec::new(),
        n => vec![format!("{}: {n} of {} trials are in no figure: `in_figures` is false", key.run, trials.len())],
    })
}

fn key(source: &Source<'_>, labels: &Labels) -> Result<RunKey, ExportError> {
    let path = source.run.path();
    let nameless = || ExportError::Nameless { run: path.to_owned() };
    // `.` has a name too.
    let path = path.canonicalize().map_err(|_| nameless())?;
    let run = path.file_name().and_then(|name| name.to_str()).ok_or_else(nameless)?.to_owned();
    let text = |facts: &BTreeMap<String, Figure>, name: &str| match facts.get(name) {
        Some(Figure::Text(text)) => Some(text.clone()),
        _ => None,
    };
    // A guest runs on its host's machine, and has its own kernel.
    let machine = source.manifest.guest.as_ref().map_or(&source.manifest.machine, |guest| &guest.host);
    Ok(RunKey {
        host: labels.host.clone().or_else(|| text(machine, HOST)),
        kernel: text(&source.manifest.machine, KERNEL),
        commit: labels.commit.clone(),
        experiment: source.results.name.clone(),
        run,
    })
}

/// A stream of a trial: its histograms go to the others', the rest comes back.
fn counted(
    source: &Source<'_>,
    trial: &TrialId,
    record: &TrialRecord,
    stream: &str,
    histograms: &mut BTreeMap<Metric, Vec<Counted>>,
) -> Result<Value, ExportError> {
    let cell = source.results.cells.iter().find(|cell| cell.id == trial.cell);
    let figures = cell.and_then(|cell| cell.streams.get(stream));
    let (mut metrics, mut refused) = (Vec::new(), Map::new());
    for (name, figures) in figures.into_iter().flat_map(|figures| &figures.metrics) {
        // A metric of a later version, or of hints, is in no stage.
        let Ok(metric) = name.parse::<Metric>() else { continue };
        match figures.refused_by {
            Some(_) => _ = refused.insert(name.clone(), json!(figures.why)),
            None => metrics.push(metric),
        }
    }
    let point = record.streams.get(stream).map(delta_of);
    let wanted = Wanted { metrics, delta_of: point, ..Wanted::default() };
    let mut batches = source.run.batches(&trial.cell, trial.n, stream)?;
    let mut failed = None;
    let rows = std::iter::from_fn(|| {
        let mut batch = Batch::default();
        match batches.read(&mut batch) {
            Ok(true) => Some(batch),
            Ok(false) => None,
            Err(error) => {
                failed = Some(error);
                None
            }
        }
    });
    let digest = distribution(trial.n, &wanted, rows);
    if let Some(error) = failed {
        return Err(error.into());
    }
    let mut told = Map::new();
    for (metric, digest) in &digest.metrics {
        let histogram = digest.histogram();
        let buckets = histogram.iter().map(|of| (Histogram::bucket_of(of.low_ns), of.count));
        histograms.entry(*metric).or_default().push(Counted {
            cell: trial.cell.clone(),
            trial: trial.n,
            stream: stream.to_owned(),
            buckets: buckets.collect(),
        });
        let counts = json!({"count": digest.count(), "never": digest.infinite(), "unstamped": digest.holes()});
        told.insert(metric.to_string(), counts);
    }
    let outcomes = &digest.outcomes;
    let mut of_stream = json!({
        "intended": outcomes.intended,
        "received": outcomes.received,
        "lost": outcomes.lost,
        "not_sent": outcomes.not_sent,
        "metrics": told,
    });
    if !refused.is_empty() {
        of_stream["refused"] = Value::Object(refused);
    }
    Ok(of_stream)
}
