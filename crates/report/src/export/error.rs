// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a run was not exported.

use std::io;
use tardy_store::StoreError;

/// Why a run was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("`{asked}` is not something to export to: choose one of {known}")]
    Unknown {
        /// What was asked for.
        asked: String,
        known: String,
    },
    /// One that a later version has.
    #[error("this version cannot export to `{asked}` yet: choose one of {known}")]
    Later {
        /// What was asked for.
        asked: String,
        known: String,
    },
    /// The run cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The export cannot be written.
    #[error("{0}")]
    Write(#[from] io::Error),
}
