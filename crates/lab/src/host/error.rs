// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a host could not be looked at, or steps not be carried out on it.

use super::devices::DeviceError;
use super::place::Away;
use super::runner::{CommandError, Failure};
use crate::behind::BehindError;
use crate::bpf_jit::JitError;
use crate::command::{Batch, Command};
use crate::journal::JournalError;
use crate::not_found::NotFound;
use crate::slot::ClaimError;
use crate::step::Text;
use crate::undo::UndoError;
use std::io;
use thiserror::Error;

/// A host does not have what a plan needs of it.
#[derive(Debug, Error)]
pub enum LookError {
    /// A network device is not available.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The way into a virtual machine that is there already.
    #[error(transparent)]
    Behind(#[from] BehindError),
    /// What the machine is set to is not this run's to change.
    #[error(transparent)]
    Jit(#[from] JitError),
    /// So says another host.
    #[error(transparent)]
    Away(#[from] Away),
    /// A host that the run does not have.
    #[error(transparent)]
    NotFound(#[from] NotFound),
}

/// A plan could not be carried out. Everything that had been done is put back, but where
/// [`ApplyError::NotUndone`] says otherwise.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// A program is missing or could not be run.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// The journal cannot be written: nothing is done that could not be undone.
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(
        "`{command}`: {says}: needs root's CAP_NET_ADMIN and CAP_SYS_ADMIN: {}",
        tardy_sys::process::how_to_be_root()
    )]
    NeedsRoot {
        command: Command,
        /// The program's own words.
        says: String,
    },
    #[error("`{command}` ({why}): {says}: {}", what_to_do(says))]
    Failed {
        command: Command,
        /// What it was for.
        why: Text,
        /// The program's own words.
        says: String,
    },
    /// The program that ran commands was ended in the middle of them.
    #[error("the program ended at `{command}` ({why}){more}: {says}: what it may have done is put back; try again")]
    Died {
        /// The first command that it ran.
        command: Command,
        /// What that was for.
        why: Text,
        says: String,
        /// The commands after the first one.
        more: String,
    },
    /// What was read back is not what such a command prints.
    #[error("`{command}` printed something else than JSON ({source}): iproute2 4.17 or later is needed")]
    ReadBack {
        command: Command,
        /// What the reader said.
        source: serde_json::Error,
    },
    /// There is no slot for it.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// A process could not be started.
    #[error("cannot start `{command}`: {source}")]
    Start { command: Command, source: io::Error },
    /// So says another host.
    #[error(transparent)]
    Away(#[from] Away),
    /// A step for a host that the run does not have.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// Undoing failed as well.
    #[error("{cause}; then {undo}")]
    NotUndone {
        cause: Box<ApplyError>,
        /// What failed after it.
        undo: UndoError,
    },
}

/// What can be done about a complaint.
fn what_to_do(says: &str) -> &'static str {
    if says.contains("File exists") {
        "something of that name is there already: `tardy undo`, or delete it, and try again"
    } else if says.contains("exec of \"ethtool\" failed") {
        "program `ethtool` is needed here: apt install ethtool"
    } else if says.contains("RX class rule") {
        "this device cannot sort what arrives by VLAN priority; leave out path.pcp_queues, or take another device"
    } else if says.contains("qdisc kind is unknown") {
        "this kernel has no such queue discipline: built without it, or its module is not loaded (`modprobe sch_NAME`); a guest's \
         kernel has it (`--in guest:exact`)"
    } else if says.contains("not supported") || says.contains("Unknown device type") {
        "this kernel was built without it; `tardy plan` prints all commands, to try by hand"
    } else {
        "`tardy plan` prints all commands, to try by hand"
    }
}

fn needs_root(says: &str) -> bool {
    says.contains("Operation not permitted") || says.contains("Permission denied")
}

pub(super) fn failed(command: &Command, why: &Text, failure: &Failure) -> ApplyError {
    let (command, says, why) = (command.clone(), failure.says.clone(), why.clone());
    if needs_root(&says) { ApplyError::NeedsRoot { command, says } } else { ApplyError::Failed { command, why, says } }
}

pub(super) fn died(batch: &Batch, why: &Text, failure: &Failure) -> ApplyError {
    let more = match batch.commands() {
        [_] => String::new(),
        [.., last] => format!(", or at one of the commands after it up to `{last}`: it did not say at which"),
        [] => String::new(),
    };
    if needs_root(&failure.says) {
        return ApplyError::NeedsRoot { command: batch.commands()[0].clone(), says: failure.says.clone() };
    }
    ApplyError::Died { command: batch.commands()[0].clone(), why: why.clone(), says: failure.says.clone(), more }
}
