// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run folder, judged anew from its trials.

use crate::judge::{Judge, Judged};
use crate::verdicts::{in_guest, refused, short};
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::thread::ScopedJoinHandle;
use tardy_analyze::cell::TrialPass;
use tardy_analyze::fingerprint::Rows;
use tardy_analyze::{observer, own_trace};
use tardy_model::manifest::{GuestEntry, Manifest};
use tardy_model::result::Results;
use tardy_model::sample::Batch;
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::{Level, Verdict};
use tardy_spec::experiment::Experiment;
use tardy_store::{RunFolder, StoreError, TrialId};

/// Judges a run folder anew, from its trials.
///
/// # Errors
/// If something of it cannot be read.
pub fn folder(run: &RunFolder, experiment: &Experiment, manifest: &Manifest) -> Result<Judged, StoreError> {
    judge(run, experiment, manifest, None)
}

/// Judges trial `n` of each cell as if there were no others. What the run itself said stays.
/// `None` if no cell of the experiment has it. Cells without it are taken out of both, and so is a
/// hash over more than it.
///
/// # Errors
/// If something of it cannot be read.
pub fn trial(
    run: &RunFolder,
    experiment: &mut Experiment,
    manifest: &mut Manifest,
    n: u32,
) -> Result<Option<Judged>, StoreError> {
    let trials = run.trials()?;
    let has = |id: &str| trials.iter().any(|trial| trial.cell == id && trial.n == n);
    experiment.cells.retain(|cell| has(&cell.id));
    manifest.cells.retain(|cell| has(&cell.id));
    if experiment.cells.is_empty() {
        return Ok(None);
    }
    manifest.cells.iter_mut().for_each(|cell| cell.trials = 1);
    let mut judged = judge(run, experiment, manifest, Some(n))?;
    judged.results.name = format!("{} (trial {n} alone)", judged.results.name);
    judged.results.fingerprint = None;
    judged.results.cells.iter_mut().for_each(|cell| cell.fingerprint = None);
    let says = format!("these are the figures of trial {n} of each cell alone, not those of the run");
    judged.results.verdicts.insert(0, Verdict::new("one-trial", Level::Note, says).with("trial", u64::from(n)));
    Ok(Some(judged))
}

fn judge(
    run: &RunFolder,
    experiment: &Experiment,
    manifest: &Manifest,
    only: Option<u32>,
) -> Result<Judged, StoreError> {
    let mut judge = Judge::new(experiment);
    judge.ruler(&manifest.ruler);
    if manifest.guest.as_ref().is_some_and(GuestEntry::is_exact) {
        judge.exact();
    }
    let mut trials = run.trials()?;
    trials.retain(|trial| only.is_none_or(|n| trial.n == n));
    let workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST_WORKERS);
    let mut left = &trials[..];
    while !left.is_empty() {
        let records = side_by_side(run, left, workers)?;
        let (some, later) = left.split_at(records.len());
        left = later;
        let mut under_way: Vec<UnderWay<'_>> = Vec::new();
        for (id, record) in some.iter().zip(&records) {
            judge.run.extend(observer::judge(record));
            let rows = judge.rows();
            if let Some(cell) = judge.cell(&id.cell) {
                under_way.push(UnderWay { id, record, pass: cell.begin(record), rows });
            }
        }
        look_through(run, &mut under_way)?;
        // In their order, whichever was looked through first.
        for UnderWay { id, pass, rows, .. } in under_way {
            if let Some(cell) = judge.cell(&id.cell) {
                cell.end(pass);
            }
            judge.print(&id.cell, id.n, rows);
        }
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
        // What the run itself said at its end, and only it could know, stands; it makes nothing
        // valid that is not. What follows from the samples is judged anew.
        let results = &mut judged.results;
        // One trial alone does not show again what all of them showed.
        let of_samples = |verdict: &Verdict| verdict.id == own_trace::ID && only.is_none();
        let found = std::mem::take(&mut results.verdicts).into_iter().filter(of_samples);
        let at = written.verdicts.iter().position(of_samples);
        let mut verdicts: Vec<Verdict> = written.verdicts.into_iter().filter(|verdict| !of_samples(verdict)).collect();
        let at = at.unwrap_or(verdicts.len());
        verdicts.splice(at..at, found);
        results.verdicts = verdicts;
        results.valid &=
            if only.is_none() { written.valid } else { tardy_analyze::validity::is_valid(&results.verdicts) };
        tardy_analyze::run::judge_expectations(results);
    }
    Ok(judged)
}

/// Trials that are looked through at the same time, at most.
const MOST_WORKERS: usize = 8;
/// Streams that are looked through at the same time: each takes some 60 MB. One trial may have
/// more.
const MOST_STREAMS: usize = 8;
/// Bytes that the records of trials which are held at the same time take as JSON. One trial's may
/// be longer.
const MOST_RECORDS: u64 = 8 << 20;
/// Trials with fewer packets are not worth a thread.
const WORTH_A_THREAD: u64 = 100_000;

/// The records of the next trials: as many as can be looked through side by side in the memory
/// that one large trial takes.
fn side_by_side(run: &RunFolder, trials: &[TrialId], workers: usize) -> Result<Vec<TrialRecord>, StoreError> {
    let (mut records, mut streams, mut bytes) = (Vec::new(), 0, 0);
    for id in &trials[..trials.len().min(workers)] {
        bytes += run.record_bytes(&id.cell, id.n)?;
        if !records.is_empty() && bytes > MOST_RECORDS {
            break;
        }
        let record = run.record(&id.cell, id.n)?;
        streams += record.streams.len();
        if !records.is_empty() && streams > MOST_STREAMS {
            break;
        }
        records.push(record);
    }
    Ok(records)
}

/// A trial that is looked through.
struct UnderWay<'a> {
    id: &'a TrialId,
    record: &'a TrialRecord,
    pass: TrialPass<'a>,
    rows: Option<Rows>,
}

/// Looks through the samples of some trials, each on a thread of its own if they are large.
fn look_through(run: &RunFolder, trials: &mut [UnderWay<'_>]) -> Result<(), StoreError> {
    let streams = trials.iter().flat_map(|trial| trial.record.streams.values());
    let packets: u64 = streams.map(|stream| u64::from(stream.intended)).sum();
    if trials.len() < 2 || packets < WORTH_A_THREAD {
        return trials.iter_mut().try_for_each(|trial| trial.look_through(run));
    }
    std::thread::scope(|scope| {
        let started: Vec<_> = trials.iter_mut().map(|trial| scope.spawn(|| trial.look_through(run))).collect();
        // All of them are waited for; the first error in the order of the trials counts.
        let ended: Vec<_> = started.into_iter().map(ScopedJoinHandle::join).collect();
        ended.into_iter().try_for_each(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

impl UnderWay<'_> {
    fn look_through(&mut self, run: &RunFolder) -> Result<(), StoreError> {
        let samples = run.samples(&self.id.cell, self.id.n)?;
        let mut batch = Batch::default();
        for stream in self.record.streams.keys() {
            let mut batches = samples.batches(stream)?;
            while batches.read(&mut batch)? {
                self.pass.push(stream, &batch);
                self.rows.iter_mut().for_each(|rows| rows.push(stream, &batch));
            }
        }
        Ok(())
    }
}

/// The results that the run wrote at its end; `None` of one that was killed and wrote none.
///
/// # Errors
/// If they are there and cannot be read.
pub fn written(run: &RunFolder) -> Result<Option<Results>, StoreError> {
    match run.results() {
        Err(StoreError::Io { reason, .. }) if reason.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}
