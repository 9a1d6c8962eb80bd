// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run folder, judged anew from its trials.

use crate::judge::{Added, Judge, Judged, in_guest, refused, short};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::thread::ScopedJoinHandle;
use tardy_analyze::cell::TrialPass;
use tardy_analyze::fingerprint::Rows;
use tardy_analyze::validity::found;
use tardy_analyze::validity::is_valid;
use tardy_analyze::{observer, own_trace};
use tardy_model::manifest::{GuestEntry, Manifest};
use tardy_model::result::{CellResult, ExpectationResult, Results};
use tardy_model::sample::Batch;
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::{Figure, Level, Verdict};
use tardy_spec::experiment::Experiment;
use tardy_store::{RunFolder, StoreError, TrialId};

/// Judges a run folder anew, from its trials.
///
/// # Errors
/// If something of it cannot be read.
pub fn folder(run: &RunFolder, experiment: &Experiment, manifest: &Manifest) -> Result<Judged, StoreError> {
    judge(run, experiment, manifest, Added::new(), None)
}

/// The same with figures of more metrics than the experiment asks for. These change neither the
/// metrics that lead nor what the run says of traces of tardy.
///
/// # Errors
/// If something of it cannot be read.
pub fn folder_with(
    run: &RunFolder,
    experiment: &Experiment,
    manifest: &Manifest,
    added: Added,
) -> Result<Judged, StoreError> {
    judge(run, experiment, manifest, added, None)
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
    let cells: BTreeSet<&str> = trials.iter().filter(|trial| trial.n == n).map(|trial| trial.cell.as_str()).collect();
    let has = |id: &str| cells.contains(id);
    experiment.cells.retain(|cell| has(&cell.id));
    manifest.cells.retain(|cell| has(&cell.id));
    if experiment.cells.is_empty() {
        return Ok(None);
    }
    manifest.cells.iter_mut().for_each(|cell| cell.trials = 1);
    let mut judged = judge(run, experiment, manifest, Added::new(), Some(n))?;
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
    added: Added,
    only: Option<u32>,
) -> Result<Judged, StoreError> {
    let mut judge = Judge::adding(experiment, added);
    judge.ruler(&manifest.ruler);
    if manifest.guest.as_ref().is_some_and(GuestEntry::is_exact) {
        judge.exact();
    }
    let mut trials = run.trials()?;
    trials.retain(|trial| only.is_none_or(|n| trial.n == n));
    read_trials(run, &trials, &mut judge)?;
    say_what_is_noted(run, manifest, &mut judge)?;
    let mut judged = judge.finish(manifest);
    match written(run)? {
        Some(written) => keep_what_is_written(&mut judged.results, written, only.is_some()),
        None if manifest.ended_utc.is_some() => {
            let says = "the run came to its end, and its folder does not have results.json any more: the run's \
                        own verdicts are not known";
            judged.results.verdicts.push(Verdict::new(REMOVED, Level::Invalid, says));
            judged.results.valid = false;
            tardy_analyze::run::judge_expectations(&mut judged.results);
        }
        None => {}
    }
    Ok(judged)
}

/// Has the trials judged, several at the same time, in their order.
fn read_trials(run: &RunFolder, trials: &[TrialId], judge: &mut Judge) -> Result<(), StoreError> {
    let workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST_WORKERS);
    let mut left = trials;
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
        // In their order, whichever was read first.
        for UnderWay { id, pass, rows, .. } in under_way {
            if let Some(cell) = judge.cell(&id.cell) {
                cell.end(pass);
            }
            judge.print(&id.cell, id.n, rows);
        }
    }
    Ok(())
}

/// What the run noted when it began, and whether it came to its end.
fn say_what_is_noted(run: &RunFolder, manifest: &Manifest, judge: &mut Judge) -> Result<(), StoreError> {
    for cell in &manifest.cells {
        cell.refused.iter().for_each(|why| judge.say(&cell.id, refused(why)));
        cell.found.iter().flat_map(found).for_each(|verdict| judge.say(&cell.id, verdict));
        cell.short.iter().for_each(|what| judge.say(&cell.id, short(what, manifest.guest.as_ref())));
    }
    if let Some(guest) = &manifest.guest {
        judge.say_of_run(in_guest(guest));
    }
    if manifest.ended_utc.is_none() {
        let unfinished = run.unfinished()?.len();
        let says = "the run was killed before its end; the trials that were finished are judged here";
        let verdict = Verdict::new("killed", Level::Warning, says).with("unfinished_trials", unfinished as u64);
        judge.say_of_run(verdict);
    }
    Ok(())
}

/// The run's verdicts stay as it wrote them at its end, and with them its traces of tardy: a newer
/// tardy may search for these in another way. What a run wrote makes nothing valid that is not.
fn keep_what_is_written(results: &mut Results, written: Results, is_one_trial: bool) {
    let is_trace = |verdict: &Verdict| verdict.id == own_trace::ID;
    let (traces, others): (Vec<Verdict>, Vec<Verdict>) =
        std::mem::take(&mut results.verdicts).into_iter().partition(is_trace);
    // A single trial does not repeat what all of them showed.
    let are_new = !is_one_trial && !written.verdicts.iter().any(is_trace);
    let new = if are_new { traces } else { Vec::new() };
    let valid = tardy_analyze::run::is_valid(&results.cells, &others) && is_valid(&new);
    if !is_one_trial {
        written.cells.iter().for_each(|cell| say_what_is_gone(results, cell, &written.expectations));
    }
    let valid = valid && tardy_analyze::run::is_valid(&results.cells, &[]);
    results.verdicts = written.verdicts;
    results.verdicts.extend(new);
    results.valid = valid && if is_one_trial { is_valid(&results.verdicts) } else { written.valid };
    tardy_analyze::run::judge_expectations(results);
}

/// The verdict on a run that lacks what it once had.
const REMOVED: &str = "removed";

/// Marks the cells of which the folder has fewer trials than the run wrote figures of. A bad trial
/// may be among those, so what is left is not valid. One that could not be kept when it ended is
/// still there as unfinished, and the run has said so.
fn mark_what_is_gone(run: &RunFolder, written: &mut Results) -> Result<(), StoreError> {
    let there: BTreeSet<TrialId> = run.trials()?.into_iter().chain(run.unfinished()?).collect();
    for cell in &mut written.cells {
        let is_gone = |n: &u32| !there.contains(&TrialId { cell: cell.id.clone(), n: *n });
        let gone: Vec<u32> = cell.trials.iter().map(|trial| trial.n).filter(is_gone).collect();
        let says = match gone.as_slice() {
            [] => continue,
            [n] => format!("trial {n} was finished, and the run folder does not have it any more"),
            [n, others @ ..] => {
                let (count, noun) = (others.len(), if others.len() == 1 { "other" } else { "others" });
                format!("trial {n} and {count} {noun} were finished, and the run folder does not have them any more")
            }
        };
        let numbers = Figure::List(gone.into_iter().map(Figure::from).collect());
        cell.verdicts.push(Verdict::new(REMOVED, Level::Invalid, says).with("removed", numbers));
        cell.valid = false;
        written.valid = false;
    }
    Ok(())
}

/// Gives a cell the mark that `written` has, and takes back that limits on what became of its
/// packets were kept: those of the trials that are gone count too. One that the run did not keep
/// stays so.
fn say_what_is_gone(results: &mut Results, written: &CellResult, expected: &[ExpectationResult]) {
    let removed = written.verdicts.iter().find(|verdict| verdict.id == REMOVED);
    let cell = results.cells.iter_mut().find(|cell| cell.id == written.id);
    let Some((removed, cell)) = removed.zip(cell) else { return };
    if cell.trials.is_empty() {
        cell.verdicts.clear();
    }
    cell.verdicts.push(removed.clone());
    cell.valid = false;
    let of_cell = results.expectations.iter_mut().filter(|of| of.cell == written.id && of.met == Some(true));
    for expectation in of_cell.filter(|expectation| expectation.needs_no_validity()) {
        let is_it = |other: &&ExpectationResult| {
            (&other.cell, &other.stream, &other.metric, other.limit)
                == (&expectation.cell, &expectation.stream, &expectation.metric, expectation.limit)
        };
        match expected.iter().find(is_it).filter(|other| other.met == Some(false)) {
            Some(broken) => *expectation = broken.clone(),
            None => {
                (expectation.met, expectation.why) = (None, Some("trials were removed from the run folder".to_owned()));
            }
        }
    }
}

/// The most trials that are read at the same time.
const MOST_WORKERS: usize = 8;
/// The most streams that are read at the same time: each takes some 60 MB. One trial may have
/// more.
const MOST_STREAMS: usize = 8;
/// Bytes that the records of trials which are held at the same time take as JSON. One trial's may
/// be longer.
const MOST_RECORDS: u64 = 8 << 20;
/// Trials with fewer packets are not worth a thread.
const WORTH_A_THREAD: u64 = 100_000;

/// The records of the next trials: as many as can be read at the same time in the
/// memory that one large trial takes.
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

/// A trial whose samples are being read.
struct UnderWay<'a> {
    id: &'a TrialId,
    record: &'a TrialRecord,
    pass: TrialPass<'a>,
    rows: Option<Rows>,
}

/// Reads the samples of some trials, each on a thread of its own if they are large.
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
        for (stream, record) in &self.record.streams {
            let has_times =
                record.xdp.as_ref().and_then(|port| port.times.as_ref()).is_some_and(|times| !times.of.is_empty());
            let mut batches = if has_times { samples.batches_with_hints(stream)? } else { samples.batches(stream)? };
            while batches.read(&mut batch)? {
                self.pass.push(stream, &batch);
                self.rows.iter_mut().for_each(|rows| rows.push(stream, &batch));
            }
        }
        Ok(())
    }
}

/// The results that the run wrote at its end; `None` of one that was killed and wrote none. Cells
/// of which trials were removed since are marked, and not valid.
///
/// # Errors
/// If they are there and cannot be read.
pub fn written(run: &RunFolder) -> Result<Option<Results>, StoreError> {
    match run.results() {
        Err(StoreError::Io { reason, .. }) if reason.kind() == ErrorKind::NotFound => Ok(None),
        read => {
            let mut written = read?;
            mark_what_is_gone(run, &mut written)?;
            Ok(Some(written))
        }
    }
}
