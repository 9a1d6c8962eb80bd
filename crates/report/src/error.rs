// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why there is no picture of a run.

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("`{asked}` is not a format: choose one of {known}")]
    UnknownFormat {
        /// What was asked for.
        asked: String,
        known: String,
    },
    /// The results could not be written as JSON.
    #[error("the results of `{name}` cannot be written as JSON: {why}; run the analysis again with `tardy report`")]
    Json {
        /// The experiment's name.
        name: String,
        /// The serialiser's reason.
        why: serde_json::Error,
    },
}
