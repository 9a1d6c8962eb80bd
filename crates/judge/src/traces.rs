// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trials over time, for the page: followed while they are in memory, or read from a run
//! folder. The same bounds for both, so that the page of a run can be made again.

use tardy_analyze::envelope::{EnvelopePass, Grain, Trace};
use tardy_model::point::Metric;
use tardy_model::result::{Results, TrialResult};
use tardy_model::sample::Batch;
use tardy_model::trial::TrialRecord;
use tardy_spec::experiment::Experiment;
use tardy_store::{RunFolder, StoreError};

/// What was followed so far.
pub struct Traces {
    grain: Grain,
    /// One for each stream of each trial.
    pub all: Vec<Trace>,
}

/// The metrics that a trial's results have of a stream.
fn metrics(trial: &TrialResult, stream: &str) -> Vec<Metric> {
    let names = trial.streams.get(stream).into_iter().flat_map(|stream| stream.metrics.keys());
    names.filter_map(|name| name.parse().ok()).collect()
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
