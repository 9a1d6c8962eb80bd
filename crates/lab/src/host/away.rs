// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known here of a failure on another host.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Another host cannot be asked, or answered with an error that is known here by its words only.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{host}: {says}")]
pub struct Away {
    /// Which host, as the user calls it.
    pub host: String,
    /// What happened, or its own words.
    pub says: String,
}
