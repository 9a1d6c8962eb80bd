// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run says about itself, wherever it runs: what happens in it, where the samples go, and
//! how it ended.

mod event;

use crate::agent::AgentError;
use crate::copying::CopyRefused;
use crate::guest::error::GuestError;
use crate::host::{ApplyError, Away, LookError};
use crate::journal::JournalError;
use crate::loads::LoadError;
use crate::not_found::NotFound;
use crate::path::keeper::KeeperError;
use crate::path::passages::Gone;
use crate::placement::PlaceError;
use crate::plan::PlanError;
use crate::shaper::ShaperError;
use crate::slot::ClaimError;
use crate::undo::UndoError;
pub use event::{Event, Sink, What};

/// Why a run ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The path cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A host does not have what is asked for.
    #[error(transparent)]
    Look(#[from] LookError),
    /// Another host cannot be asked any more.
    #[error(transparent)]
    Away(#[from] Away),
    /// A device cannot have the queue discipline.
    #[error(transparent)]
    Shaper(#[from] ShaperError),
    /// It cannot be built.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A program that the path needs does not run.
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    /// A device of the path is not there any more.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A thread cannot have its CPU.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A station, a stream, a CPU or a host that is not there.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// A load cannot be run here.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A copy cannot be made here as it is written.
    #[error(transparent)]
    Copy(#[from] CopyRefused),
    /// The samples would not fit.
    #[error(
        "cell `{cell}`: its trials need about {needed_mib} MiB of memory and {available_mib} MiB are available: use a lower \
         count, fewer streams at once, or a smaller working set"
    )]
    Memory {
        cell: String,
        /// About what a trial takes, MiB.
        needed_mib: u64,
        /// What the machine has, MiB.
        available_mib: u64,
    },
    /// Two machines count TAI otherwise.
    #[error(
        "CLOCK_TAI is ahead of CLOCK_REALTIME by {theirs_s} s on `{machine}`, and by {ours_s} s here, so the two machines do \
         not count the same time: have both follow one source that sets the offset (ptp4l with phc2sys, or chrony with \
         `leapsectz right/UTC`), or set it on one of them by adjtimex(2) with ADJ_TAI; tardy sets no clock"
    )]
    TaiOffsets { machine: String, theirs_s: i32, ours_s: i32 },
    /// What was measured cannot be kept.
    #[error("{0}")]
    Sink(Box<dyn std::error::Error + Send + Sync>),
    /// A guest is not available, or broke.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// Something could not be put back.
    #[error(transparent)]
    Undo(#[from] UndoError),
}

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
