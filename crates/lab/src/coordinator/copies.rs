// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trials of copies. They need no station: this process copies, and looks at the machine before and
//! behind it.

use super::record::keep_only_named_of;
use super::under_way::Run;
use crate::copying::{self, CopyRoom};
use crate::host::ask::Observe;
use crate::machine::Facts;
use crate::orders::{Turn, random_of};
use crate::run::{RunError, What};
use rand::Rng;
use std::collections::BTreeMap;
use tardy_engine::copy::{self, CopyMemory, CopyOrder};
use tardy_host::state::Moment;
use tardy_host::{cpus, sizes};
use tardy_model::copy::{COPY, CopyBackend, Copying, Sizes};
use tardy_model::machine::MachineState;
use tardy_model::trial::TrialRecord;

/// The sizes of the machine that a copy runs on.
pub(super) fn sizes_of(copy: &Copying) -> Sizes {
    if copy.backend == CopyBackend::Sim { Sizes::USUAL } else { sizes::read() }
}

/// What of this machine a copy is placed on, apart from what is known of every host.
pub(super) struct CopyPlaces {
    isolated: Vec<u32>,
    nodes: Vec<u32>,
    online: Vec<u32>,
}

impl CopyPlaces {
    pub(super) fn read() -> CopyPlaces {
        let list = |name: &str| cpus::kernel_list(name).unwrap_or_default();
        CopyPlaces { isolated: list("isolated"), nodes: cpus::nodes(), online: list("online") }
    }

    /// With what is known of the host; `available_bytes` as [`CopyRoom`] has it.
    pub(super) fn room<'a>(&'a self, here: &'a Facts, available_bytes: Option<u64>, sizes: &'a Sizes) -> CopyRoom<'a> {
        CopyRoom {
            cpus: here.cpus(),
            isolated: &self.isolated,
            nodes: &self.nodes,
            available_bytes,
            sizes,
            online: &self.online,
            is_limited: copying::is_limited(here.rt_limit, here.release.as_deref()),
        }
    }
}

impl Run<'_, '_> {
    /// Memory for all copies of the run, as much as this machine has for it.
    pub(super) fn copy_memory(&self) -> CopyMemory {
        let copies = self.experiment.cells.iter().filter_map(|cell| cell.setup.copy.as_ref());
        let (here, of_machine) = (self.found.here(), sizes::read());
        let copies = copies.filter(|copy| copy.backend == CopyBackend::Cpu).map(|copy| (copy, of_machine));
        CopyMemory::within(copying::most_held_bytes(copies, here.available_bytes, here.usable.len()))
    }

    /// Runs a trial of a copy, and keeps it.
    pub(super) fn copy(&mut self, turn: &Turn<'_>, copying: &Copying, memory: &mut CopyMemory) -> Result<(), RunError> {
        let Turn { cell, n, order } = turn;
        self.tell(What::Trial { cell: cell.id.clone(), n: *n, order: *order, of: self.of });
        let nonce: u64 = random_of(self.experiment.seed, &cell.id, *n).random();
        let sizes = sizes_of(copying);
        let usable = self.found.here().usable.clone();
        let cpus = match copying::place(&cell.id, copying, CopyPlaces::read().room(self.found.here(), None, &sizes)) {
            Ok(cpus) => cpus,
            Err(why) => {
                self.refuse(cell, why.to_string());
                return Ok(());
            }
        };
        let (cpus, usable, stop) = (&cpus[..], &usable[..], self.options.stop);
        let order = CopyOrder { copy: copying, cpus, usable, sizes, nonce, stop };
        let (mut states, hosts) = (Vec::with_capacity(2), &mut *self.hosts);
        let mut look = || {
            let moment = if states.is_empty() { Moment::Before } else { Moment::Behind };
            states.push(hosts.own().observe(&Observe { moment, ..Observe::nothing() }));
        };
        let copied = match copy::trial(&order, memory, &mut look) {
            Ok(copied) => copied,
            Err(why) => {
                self.refuse(cell, why.to_string());
                return Ok(());
            }
        };
        // The simulated threads ran nowhere: no CPU of this machine has to do with them.
        let mut clocks = copied.record.tx_clocks.into_iter().map(MachineState::of);
        let mut states = states.into_iter();
        let mut state = || match states.next() {
            Some(observed) => observed.map(|observed| Some(observed.state)),
            None => Ok(clocks.next()),
        };
        let (Some(mut before), Some(mut after)) = (state()?, state()?) else { return Ok(()) };
        let threads = copied.record.copy.iter().flat_map(|copy| &copy.threads).map(|of| &of.thread);
        keep_only_named_of(threads, [&mut before, &mut after]);
        let done = copied.record.copy.iter().flat_map(|copy| &copy.threads).map(|of| u64::from(of.done)).sum::<u64>();
        let record = TrialRecord {
            format: tardy_model::FORMAT,
            cell: cell.id.clone(),
            n: *n,
            order: turn.order,
            nonce: format!("{nonce:016x}"),
            phase_ns: 0,
            // The first thread's first pass may be a late one: others had the CPUs.
            base_tai_ns: copied.batch.scheduled_ns.iter().copied().min().unwrap_or(0),
            interrupted: self.stopped() && done < copying.all_iterations(),
            failed: None,
            before,
            after,
            hosts: BTreeMap::new(),
            own_traffic: BTreeMap::new(),
            streams: BTreeMap::from([(COPY.to_owned(), copied.record)]),
            loads: copied.background.map(|load| ("background".to_owned(), load)).into_iter().collect(),
            placement: Default::default(),
            shapers: BTreeMap::new(),
            observer: Vec::new(),
            passed: None,
            inspection: None,
        };
        self.sink.trial(&record, &[(COPY.to_owned(), copied.batch)]).map_err(RunError::Sink)
    }
}
