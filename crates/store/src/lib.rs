// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run folder: what a run leaves on disk, written so that a kill at any moment leaves every
//! finished trial whole.
//!
//! ```text
//! experiment.toml  manifest.json  commands.sh  events.jsonl  results.json  report.html
//! trials/<cell>/<n>/           samples.parquet  <stream>.hlog  trial.json
//! trials/<cell>/<n>.partial/   a trial that is running, or was when the run was killed
//! ```
//! [`RunFolder`] writes and reads it, [`SamplesFile`] is its `samples.parquet`, [`hlog`] is the
//! format of the histograms.

mod error;
mod folder;
mod held;
pub mod hlog;
mod output;
mod samples;
mod trial;
mod way;

pub use error::StoreError;
pub use folder::{RunFolder, TrialId};
pub use output::{Output, write_output};
pub use samples::{Batches, SamplesFile, encode_samples, samples_schema, sql_view, write_samples};
pub use trial::TrialFolder;
