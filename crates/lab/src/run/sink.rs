// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a run's events and samples go.

use super::event::Event;
use tardy_model::sample::Batch;
use tardy_model::trial::TrialRecord;

/// Where a run's events and samples go.
pub trait Sink {
    fn event(&mut self, event: Event);
    /// What the programs of the trial's loads wrote, by file name; the trial itself follows.
    fn load_output(&mut self, _output: Vec<(String, Vec<u8>)>) {}
    /// A trial is over. An error ends the run. If the record says that it failed, half of it is
    /// gone: what there is may be kept, but it is no finished trial and no figure may come of it.
    fn trial(
        &mut self,
        record: &TrialRecord,
        streams: &[(String, Batch)],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}
