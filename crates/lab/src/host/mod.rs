// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts: machines with their own kernel, CPUs and clocks. Programs are started here and in `station` only.

pub mod clocks;
mod error;
pub mod local;
pub mod qemu;
pub mod runner;

pub use error::ApplyError;

use crate::command::Command;
use crate::journal::JournalError;
use crate::step::Step;
use crate::undo::{PutBack, UndoError};
use std::fmt;
use tardy_model::manifest::ReadBack;

/// A host of a run. Its clock is its own, and its CPUs are numbered by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(u16);

impl HostId {
    /// The machine that the coordinator runs on. All instants of a trial are of its clock in the end.
    pub const HERE: HostId = HostId(0);

    /// The host of this number; 0 is [`HostId::HERE`].
    pub const fn numbered(number: u16) -> HostId {
        HostId(number)
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            HostId::HERE => f.write_str("this machine"),
            HostId(number) => write!(f, "host {number}"),
        }
    }
}

/// A machine on which a path is built. For each path the coordinator calls `apply` once, then `read_back` and `note_process` as often as
/// it likes, and `put_back` at the end, whatever happened in between. An implementation that is dropped puts back too.
pub trait Host {
    /// Carries out the steps, in order. The inverses of each lie in a journal on this host, on its disk, before the step begins, so that
    /// `tardy undo` there can put it back after a kill.
    ///
    /// # Errors
    /// If a step fails. What was done before it is put back already; [`ApplyError::NotUndone`] says that this failed too.
    fn apply(&mut self, steps: &[Step]) -> Result<(), ApplyError>;

    /// Runs commands that change nothing and print JSON: what the kernel has made of the steps, and later, before a trial and behind it,
    /// what its queue disciplines have counted. It gives an answer for each command.
    ///
    /// # Errors
    /// If a command fails or prints something else. Nothing is put back for it.
    fn read_back(&mut self, commands: &[Command]) -> Result<Vec<ReadBack>, ApplyError>;

    /// Notes a process that was started on this host for the path: whoever puts back after a kill ends it first. To be called before
    /// anything else is asked of the process.
    ///
    /// # Errors
    /// If there is no such process, or the journal cannot be written. The caller then ends the process itself.
    fn note_process(&mut self, pid: u32) -> Result<(), JournalError>;

    /// Ends the noted processes and runs all inverses, the last one first. It may be called when nothing was applied, and again.
    ///
    /// # Errors
    /// If something could not be put back. It stays in the journal.
    fn put_back(&mut self) -> Result<PutBack, UndoError>;
}
