// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts: machines with their own kernel, CPUs and clocks. Each has one steward, which looks at
//! the machine, carries out steps and puts them back. The steward of the coordinator's machine is
//! in the coordinator itself; that of another one is the hidden verb `steward`, which is spoken to
//! over two byte streams. Programs are started here only: those of a plan by [`runner`], the ones
//! that live on by [`child`] and [`qemu`], those that fetch and build for guests by `tool`.

pub mod applied;
pub mod ask;
pub mod child;
pub mod clocks;
pub mod devices;
pub mod distant;
mod error;
pub mod hosts;
pub mod login;
pub mod noted;
pub mod place;
pub mod qemu;
pub mod room;
pub mod runner;
pub mod serve;
pub mod ssh;
pub mod steward;
pub(crate) mod tool;
pub mod trunk;
pub mod ways;

use crate::command::Command;
use crate::connection::Connection;
use crate::names::Names;
use crate::run::Event;
use crate::slot::ClaimError;
use crate::step::Step;
use crate::undo::{PutBack, UndoError};
use ask::{Ask, Observe, Observed};
pub use error::{ApplyError, LookError};
pub use place::{Away, CpuId, OtherHosts};
use std::collections::BTreeSet;
use std::time::Duration;
pub use tardy_model::machine::HostId;
use tardy_model::manifest::{HostEntry, ReadBack};
use tardy_model::time::{Instant, Tai};

/// A machine of a run, as its steward serves it. The methods are in the order in which the
/// coordinator calls them. For a run it calls `look` first, `describe` for each other host than its
/// own, and `claim` before anything is built. Then, for each set-up: `apply` once; `read_back`,
/// `link_is_up`, `start` and `note` as often as it likes; `now` before a set-up with a schedule is
/// planned; `observe` before each trial and behind it; and `put_back`, whatever happened in
/// between. What is to live for the whole run is applied before the first set-up, behind which
/// `keep` is called, and is put back by `end`. An implementation that is dropped puts back too, and
/// so does a steward whose coordinator is gone.
pub trait Host {
    /// Looks at the machine, and keeps the network devices that are asked for away from other runs
    /// until the end of this one. It changes nothing. It may be called again.
    ///
    /// # Errors
    /// If a device is not available. The run does not begin.
    fn look(&mut self, ask: &Ask) -> Result<crate::machine::Facts, LookError>;

    /// What the machine and its programs are, for the run's manifest. Its place among the hosts is
    /// the coordinator's to fill in.
    ///
    /// # Errors
    /// If the host cannot be asked any more.
    fn describe(&mut self) -> Result<HostEntry, Away>;

    /// Takes a slot on this host, from which the names of all that is built here follow. Later
    /// calls give the same names.
    ///
    /// # Errors
    /// If there is none, or nothing can be noted on this host.
    fn claim(&mut self) -> Result<Names, ClaimError>;

    /// Carries out the steps, in order. The inverses of each lie in a journal on this host, on its
    /// disk, before the step begins, so that `tardy undo` there can put it back after a kill.
    ///
    /// # Errors
    /// If a step fails. What was done before it is put back already; [`ApplyError::NotUndone`]
    /// says that this failed too.
    fn apply(&mut self, steps: &[Step]) -> Result<(), ApplyError>;

    /// Runs commands that change nothing and print JSON: what the kernel has made of the steps. It
    /// gives an answer for each command.
    ///
    /// # Errors
    /// If a command fails or prints something else. Nothing is put back for it.
    fn read_back(&mut self, commands: &[Command]) -> Result<Vec<ReadBack>, ApplyError>;

    /// The time by the host's CLOCK_TAI.
    ///
    /// # Errors
    /// If the host cannot be asked any more.
    fn now(&mut self) -> Result<Instant<Tai>, Away>;

    /// True if a network device has its link: one in a namespace, or of the host's own network.
    ///
    /// # Errors
    /// If it cannot be looked at: it was unplugged.
    fn link_is_up(&mut self, netns: Option<&str>, device: &str) -> Result<bool, LookError>;

    /// Starts a program that speaks on its standard input and output: a station's agent. The
    /// process is noted in the journal before anything is asked of it, so that whoever puts back
    /// ends it first.
    ///
    /// # Errors
    /// If it cannot be started or noted. It does not run then.
    fn start(&mut self, command: &Command) -> Result<Connection, ApplyError>;

    /// As which build this program greets on that host; `None` if as the coordinator's own.
    fn build(&self) -> Option<&str> {
        None
    }

    /// Notes a process of this host in its journal, so that whoever puts back ends it first. It is
    /// called for a program that was started here past the steward, before that is asked for
    /// anything; `start` itself notes what it starts.
    ///
    /// # Errors
    /// If there is no such process, or the journal cannot be written. The caller ends it then.
    fn note(&mut self, pid: u32) -> Result<(), ApplyError>;

    /// Orders come at least once in that time from now on. If none does, the connection is dead
    /// though nothing has closed it, and the steward puts back and ends: a dead man's handle. Only
    /// a host that is reached over a network needs it.
    ///
    /// # Errors
    /// If the host cannot be asked any more.
    fn watch(&mut self, _: Duration) -> Result<(), Away> {
        Ok(())
    }

    /// Notes the process that runs a virtual machine of the run's: what it does is the path's work,
    /// and nobody else's. Only the coordinator's own host runs any.
    ///
    /// # Errors
    /// As `note`.
    fn note_machine(&mut self, pid: u32, _: HostId) -> Result<(), ApplyError> {
        self.note(pid)
    }

    /// Has the run's virtual machines go on in which a cell has stations, and its bystanders, and
    /// stops the others: one that is no part of a cell would take CPU time from it. A stopped one
    /// answers nothing. Only the coordinator's own host runs any.
    ///
    /// # Errors
    /// If one cannot be stopped, or go on; one that has ended is missed where it is needed.
    fn wake_machines(&mut self, _stations: &BTreeSet<HostId>, _bystanders: &BTreeSet<HostId>) -> Result<(), Away> {
        Ok(())
    }

    /// Stops a virtual machine of the run's that has just come up.
    ///
    /// # Errors
    /// As `wake_machines`.
    fn stop_machine(&mut self, _: HostId) -> Result<(), Away> {
        Ok(())
    }

    /// Reads what the machine does just before a trial or just after it. What tardy itself looks at
    /// lies outside the two readings of the clocks. It gives what could be read; what the kernel
    /// does not offer stays empty.
    ///
    /// # Errors
    /// If the host cannot be asked any more.
    fn observe(&mut self, what: &Observe) -> Result<Observed, Away>;

    /// Ends the processes that programs of loads have left behind. Called behind a trial in which
    /// there were such programs.
    fn end_leftovers(&mut self);

    /// What was applied and started until now stays until `end`: `put_back` leaves it. Called once
    /// at most, behind the building of what lives for the whole run.
    ///
    /// # Errors
    /// If the host cannot be asked any more.
    fn keep(&mut self) -> Result<(), Away>;

    /// Ends the noted processes and runs all inverses, the last one first, but for what is kept.
    /// It may be called when nothing was applied, and again.
    ///
    /// # Errors
    /// If something could not be put back. It stays in the journal.
    fn put_back(&mut self) -> Result<PutBack, UndoError>;

    /// Puts back also what was kept. Called at the end of a run, whatever happened in it.
    ///
    /// # Errors
    /// As `put_back`.
    fn end(&mut self) -> Result<PutBack, UndoError>;

    /// The commands that were run since the last call, for the log. Each batch has the time at
    /// which it ended.
    fn ran(&mut self) -> Vec<Event>;
}
