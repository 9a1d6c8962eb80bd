// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trial ends with: both halves of each stream, or why it has no whole result and what is
//! left of it.

use crate::agent::AgentError;
use crate::not_found::NotFound;
use tardy_engine::halves::Halves;
use tardy_model::time::{Instant, Tai};

/// Both halves of one stream.
pub struct StreamHalves {
    /// Scheduled instant of packet 0.
    pub base: Instant<Tai>,
    /// What both stations recorded.
    pub halves: Halves,
}

/// Why a trial has no whole result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// This machine cannot do what the cell asks for; other cells may go on.
    #[error("{0}")]
    CannotDo(String),
    /// A station, a stream or a host that is not there.
    #[error(transparent)]
    NotFound(#[from] NotFound),
}

/// What is left of a trial in which a station failed.
pub struct Broken {
    pub error: TrialError,
    /// What the others had recorded; a half that is gone is empty.
    pub had: Vec<Option<StreamHalves>>,
}

impl From<NotFound> for Broken {
    fn from(error: NotFound) -> Broken {
        Broken { error: error.into(), had: Vec::new() }
    }
}
