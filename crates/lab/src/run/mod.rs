// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run says about itself, wherever it runs: what happens in it, where the samples go, and
//! how it ended.

mod error;
mod event;

pub use error::RunError;
pub use event::{Event, Sink, What};
use crate::undo::UndoError;


/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// True if a signal ended it.
    pub interrupted: bool,
    /// What ended it early, if something did. Trials finished before are in the sink.
    pub failed: Option<RunError>,
    /// Something that could not be put back.
    pub not_put_back: Option<UndoError>,
}
