// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steward of the machine that this process runs on. It holds the machine's slot and the
//! devices that it claimed, and it has one set-up applied at a time.

use super::applied::{self, Applied};
use super::ask::{Ask, Observe, Observed};
use super::devices::{self, Claim, DeviceError};
use super::runner::{BatchLog, Processes};
use super::{ApplyError, Away, Host, HostId, LookError, child};
use crate::behind;
use crate::bpf_jit::Jit;
use crate::command::{Command, OURSELVES};
use crate::connection::Connection;
use crate::machine::Facts;
use crate::names::Names;
use crate::path;
use crate::process::{Identity, end_marked, marks};
use crate::run::{Event, What};
use crate::slot::{self, ClaimError, Slot};
use crate::state::StateError;
use crate::step::Step;
use crate::undo::{PutBack, UndoError};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tardy_host::softirq::{napi_threads, steering};
use tardy_host::state::{Moment, Reader, children, machine_threads};
use tardy_host::timekeeper::{self, OnTheWire};
use tardy_host::{cpus, facts, nic, state};
use tardy_model::manifest::{HostEntry, ReadBack};
use tardy_model::path::PathKind;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_sys::{clock, proc, process};

/// What a load's program has started and left behind is looked for so long.
const LEAVING: Duration = Duration::from_secs(2);

/// A process that was killed is gone within this time, unless the kernel holds it.
const DYING: Duration = Duration::from_secs(1);

/// Batches of commands that were run and not yet reported.
type Log = Arc<Mutex<Vec<Event>>>;

/// The steward of this machine.
pub struct Steward {
    /// Folder of slots and journals.
    state: PathBuf,
    /// What is started where a plan says `tardy`.
    program: PathBuf,
    /// A process in the network namespace to which devices go back.
    home: u32,
    // In this order they are dropped: what is applied is put back first, then the slot is let go
    // of, and then the devices and the setting, which nobody may take before they are as they were.
    applied: Option<Applied<Processes<'static>>>,
    slot: Option<Slot>,
    claim: Option<Claim>,
    jit: Option<Jit>,
    reader: Option<Reader>,
    /// Processes whose children are switches of the run's own.
    switches: Vec<Identity>,
    /// Processes that run the run's own virtual machines.
    machines: BTreeMap<u32, HostId>,
    /// By which they are stopped.
    handles: BTreeMap<HostId, OwnedFd>,
    /// Those that are not stopped, and those in which the cell has a station.
    awake: BTreeSet<HostId>,
    stations: BTreeSet<HostId>,
    ran: Log,
}

impl Steward {
    /// With the folder of slots and journals, the program to start as agents, and a process in the
    /// network namespace to which devices go back. Nothing is touched yet.
    pub fn new(state: &Path, program: &Path, home: u32) -> Steward {
        Steward {
            state: state.to_owned(),
            program: program.to_owned(),
            home,
            claim: None,
            jit: None,
            applied: None,
            slot: None,
            reader: None,
            machines: BTreeMap::new(),
            switches: Vec::new(),
            handles: BTreeMap::new(),
            awake: BTreeSet::new(),
            stations: BTreeSet::new(),
            ran: Log::default(),
        }
    }

    fn slot(&mut self) -> Result<&Slot, ClaimError> {
        match &mut self.slot {
            Some(slot) => Ok(slot),
            none => Ok(none.insert(Slot::claim(&self.state)?)),
        }
    }

    /// The runner of a set-up's commands, which notes each batch in the log.
    fn runner(&mut self) -> Result<Processes<'static>, ApplyError> {
        let ran = self.ran.clone();
        let runner = Processes::new(move |batch: &BatchLog<'_>| {
            ran.lock().unwrap_or_else(PoisonError::into_inner).push(Event::now(What::Commands {
                commands: batch.commands.iter().map(ToString::to_string).collect(),
                took_ns: Nanos(batch.took.as_nanos() as i64),
                failed: batch.failures.iter().map(|failure| failure.says.clone()).collect(),
                elsewhere: false,
            }));
        });
        let state = self.state.clone();
        let no_lock = |source| ClaimError::State(StateError::Io { path: state, source });
        let slot = self.slot()?;
        Ok(runner.holding(slot).map_err(no_lock)?)
    }

    /// Has a virtual machine stop or go on. One that has ended is missed where it is needed.
    fn send(&mut self, machine: HostId, signal: Signal) -> Result<(), Away> {
        let Some(handle) = self.handles.get(&machine) else { return Ok(()) };
        match pidfd_send_signal(handle, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(errno) => return Err(no_signal("a signal to the process", machine, errno)),
        }
        if signal == Signal::STOP {
            self.awake.remove(&machine);
        } else {
            self.awake.insert(machine);
        }
        Ok(())
    }

    /// The processes that were started for the set-up.
    fn processes(&self) -> &[Identity] {
        self.applied.as_ref().map_or(&[], Applied::processes)
    }

    /// Those of them that may have started a load's programs: what a switch has started is the
    /// path's.
    fn may_have_loads(&self) -> Vec<Identity> {
        let all = self.processes().iter();
        all.filter(|process| !self.switches.contains(process)).cloned().collect()
    }

    /// What a command of those that print JSON says, or why it does not.
    fn ask(&mut self, command: &Command) -> Result<tardy_model::harmless::Json, String> {
        let read = self.read_back(std::slice::from_ref(command)).map_err(|error| match error {
            ApplyError::Failed { says, .. } | ApplyError::NeedsRoot { says, .. } => says,
            ApplyError::ReadBack { source, .. } => format!("what {} printed is no JSON: {source}", command.program()),
            error => error.to_string(),
        })?;
        Ok(read.into_iter().next().map(|read| read.says).unwrap_or_default())
    }
}

/// A virtual machine that cannot be stopped would take time from the cells that it is not in.
fn no_signal(what: &str, of: impl std::fmt::Display, errno: Errno) -> Away {
    let says =
        format!("{what} of a virtual machine ({of}) was refused, so it cannot rest while others are measured: {errno}");
    Away { host: HostId::HERE.to_string(), says }
}

impl Host for Steward {
    fn look(&mut self, ask: &Ask) -> Result<Facts, LookError> {
        let possible = PathKind::ALL.into_iter().filter(|kind| (path::kind(*kind).is_possible)());
        let paths: BTreeSet<String> = possible.map(|kind| kind.traits().name.to_owned()).collect();
        let asked: Vec<_> = ask.devices.iter().filter(|device| paths.contains(&device.path)).collect();
        // Two runs at once must not both believe a device free, nor one read what the other has
        // set.
        let claim = self.claim.get_or_insert_default();
        claim.also(asked.iter().map(|device| device.device.as_str()))?;
        if ask.sets_bpf_jit && self.jit.is_none() {
            self.jit = Some(Jit::claim(&self.state)?);
        }
        let nics = devices::look(&asked)?;
        claim.also(nics.values().map(|nic| nic.name.as_str()))?;
        let mut behind = BTreeMap::new();
        for device in &ask.behind {
            behind.insert(device.clone(), behind::read(device)?);
        }
        let steering = nics.keys().map(|device| (device.clone(), steering(device))).collect();
        let queues = |(device, nic): (&String, &nic::Nic)| Some((device.clone(), nic::tx_queues(&nic.name)?));
        Ok(Facts {
            home: self.home,
            usable: cpus::usable(),
            apart: cpus::apart(),
            steering,
            tx_queues: nics.iter().filter_map(queues).collect(),
            nics,
            own: if ask.addresses { devices::own() } else { Vec::new() },
            behind,
            reached: None,
            is_far: false,
            goes_by_here: None,
            paths,
            no_programs: ask
                .programs
                .iter()
                .filter_map(|name| Some((name.clone(), child::find(name).err()?)))
                .collect(),
            release: proc::kernel_release(),
            idle_states: Some(cpus::states().len() as u32),
            available_bytes: proc::available_memory_bytes(),
            rt_limit: state::rt_limit(),
            bpf_jit: proc::bpf_jit(),
            interprets: if ask.sets_bpf_jit { proc::interprets_bpf() } else { None },
            tai_offset_s: Some(clock::tai_offset_s()),
            now: Some(clock::now()),
        })
    }

    fn describe(&mut self) -> Result<HostEntry, Away> {
        Ok(HostEntry { parent: None, machine: facts::read(), programs: facts::programs() })
    }

    fn claim(&mut self) -> Result<Names, ClaimError> {
        self.slot().map(Slot::names)
    }

    fn apply(&mut self, steps: &[Step]) -> Result<(), ApplyError> {
        if let Some(applied) = &mut self.applied {
            return applied.also(steps);
        }
        let runner = self.runner()?;
        let journal = self.slot()?.journal()?;
        self.applied = Some(applied::applied(steps, journal, runner)?);
        Ok(())
    }

    fn read_back(&mut self, commands: &[Command]) -> Result<Vec<ReadBack>, ApplyError> {
        if self.applied.is_none() {
            self.apply(&[])?;
        }
        self.applied.as_mut().map_or_else(|| Ok(Vec::new()), |applied| applied.read_back(commands))
    }

    fn now(&mut self) -> Result<Instant<Tai>, Away> {
        Ok(clock::now())
    }

    fn link_is_up(&mut self, netns: Option<&str>, device: &str) -> Result<bool, LookError> {
        let place = netns.unwrap_or("this machine's own network").to_owned();
        let gone = |source| DeviceError::Gone { device: device.to_owned(), netns: place, source };
        let has_link = || tardy_sys::nic::has_link(device);
        let looked = match netns {
            None => has_link(),
            Some(netns) => process::in_netns(&devices::netns_file(netns), has_link).and_then(|link| link),
        };
        Ok(looked.map_err(gone)?)
    }

    fn start(&mut self, command: &Command) -> Result<Connection, ApplyError> {
        // Where nothing can be noted, nothing is started.
        if self.applied.is_none() {
            self.apply(&[])?;
        }
        let program = if command.program() == OURSELVES { self.program.clone() } else { command.program().into() };
        let mut connection =
            child::start(&program, command).map_err(|source| ApplyError::Start { command: command.clone(), source })?;
        if command.is_switch() {
            self.switches.retain(Identity::is_alive);
            self.switches.extend(connection.carrier.pid().and_then(|pid| Identity::of(pid).ok()));
        }
        if let Some(pid) = connection.carrier.pid()
            && let Err(error) = self.note(pid)
        {
            // One that is in no journal must not run.
            connection.carrier.kill();
            let _ = connection.carrier.ended(DYING);
            return Err(error);
        }
        Ok(connection)
    }

    fn note(&mut self, pid: u32) -> Result<(), ApplyError> {
        if self.applied.is_none() {
            self.apply(&[])?;
        }
        self.applied.as_mut().map_or(Ok(()), |applied| applied.note_process(pid))?;
        Ok(())
    }

    fn note_machine(&mut self, pid: u32, machine: HostId) -> Result<(), ApplyError> {
        self.note(pid)?;
        self.machines.insert(pid, machine);
        // Its number may be another process's when it has ended; this stays its own.
        let handle = Pid::from_raw(pid as i32).ok_or(Errno::SRCH).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let failed = |errno| no_signal("a handle of the process", pid, errno);
        self.handles.insert(machine, handle.map_err(failed)?);
        self.awake.insert(machine);
        Ok(())
    }

    fn wake_machines(&mut self, stations: &BTreeSet<HostId>, bystanders: &BTreeSet<HostId>) -> Result<(), Away> {
        self.stations.clone_from(stations);
        let all: Vec<HostId> = self.handles.keys().copied().collect();
        for machine in all {
            let is_awake = stations.contains(&machine) || bystanders.contains(&machine);
            self.send(machine, if is_awake { Signal::CONT } else { Signal::STOP })?;
        }
        Ok(())
    }

    fn stop_machine(&mut self, machine: HostId) -> Result<(), Away> {
        self.send(machine, Signal::STOP)
    }

    fn observe(&mut self, what: &Observe) -> Result<Observed, Away> {
        let marks = if what.programs { marks(&self.may_have_loads()) } else { Vec::new() };
        let mut reader = match (what.moment, self.reader.take()) {
            (Moment::Behind, Some(reader)) => reader,
            (Moment::Before | Moment::Behind, _) => {
                let pids_of = |those: &BTreeSet<HostId>| {
                    let machines = self.machines.iter().filter(|(_, machine)| those.contains(machine));
                    machines.map(|(pid, _)| *pid).collect::<BTreeSet<u32>>()
                };
                let switches = self.switches.iter().filter(|switch| switch.is_alive()).map(|switch| switch.pid);
                let switches: BTreeSet<u32> = switches.collect();
                let path = pids_of(&self.awake).into_iter().chain(children(&switches)).collect();
                Reader::new(marks).with_machines(path, pids_of(&self.stations))
            }
        };
        let other_runs = || slot::other_runs(&self.state);
        let state = (what.moment == Moment::Behind).then(|| reader.read(Moment::Behind, other_runs()));
        let napi: BTreeMap<_, _> = what.polled.iter().map(|device| (device.clone(), napi_threads(device))).collect();
        let machine_threads = machine_threads(&self.machines);
        let says = what.commands.iter().map(|command| self.ask(command)).collect();
        let mut kept = if what.keepers { timekeeper::all() } else { Vec::new() };
        let mut syncs = Vec::new();
        for shown in what.ptp.iter().filter_map(timekeeper::observed) {
            match shown {
                OnTheWire::Leads(of) => kept.push(of),
                OnTheWire::Follows(of) => syncs.push(of),
            }
        }
        let state = state.unwrap_or_else(|| reader.read(Moment::Before, slot::other_runs(&self.state)));
        // Asked for what keeps the clock, nobody comes back for what the machine does meanwhile.
        if what.moment == Moment::Before && !what.keepers && what.ptp.is_empty() {
            self.reader = Some(reader);
        }
        Ok(Observed { state, napi, machine_threads, says, kept, syncs })
    }

    fn end_leftovers(&mut self) {
        let _ = end_marked(&self.may_have_loads(), LEAVING);
    }

    fn keep(&mut self) -> Result<(), Away> {
        self.applied.iter_mut().for_each(Applied::keep);
        Ok(())
    }

    fn put_back(&mut self) -> Result<PutBack, UndoError> {
        self.reader = None;
        match &mut self.applied {
            Some(applied) if applied.keeps() => applied.put_back(),
            _ => self.end(),
        }
    }

    fn end(&mut self) -> Result<PutBack, UndoError> {
        self.reader = None;
        self.applied.take().map_or_else(|| Ok(PutBack::default()), |mut applied| applied.put_back_all())
    }

    fn ran(&mut self) -> Vec<Event> {
        std::mem::take(&mut *self.ran.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
