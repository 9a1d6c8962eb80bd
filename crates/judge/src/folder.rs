// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run folder, judged anew from its trials.

use crate::judge::{Judge, Judged};
use crate::verdicts::{in_guest, refused, short};
use std::io::ErrorKind;
use tardy_analyze::{observer, own_trace};
use tardy_model::manifest::{GuestEntry, Manifest};
use tardy_model::result::Results;
use tardy_model::sample::Batch;
use tardy_model::verdict::{Level, Verdict};
use tardy_spec::experiment::Experiment;
use tardy_store::{RunFolder, StoreError};

/// Judges a run folder anew, from its trials.
///
/// # Errors
/// If something of it cannot be read.
pub fn folder(run: &RunFolder, experiment: &Experiment, manifest: &Manifest) -> Result<Judged, StoreError> {
    let mut judge = Judge::new(experiment);
    judge.ruler(&manifest.ruler);
    if manifest.guest.as_ref().is_some_and(GuestEntry::is_exact) {
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
