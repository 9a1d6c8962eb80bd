// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trials of copies. They need no station: this process copies, and looks at the machine before and
//! behind it.

use super::record::keep_only_named_of;
use super::under_way::Run;
use crate::copying::{self, Room};
use crate::host::ask::Observe;
use crate::orders::{Turn, random_of};
use crate::run::{RunError, What};
use rand::Rng;
use std::collections::BTreeMap;
use tardy_engine::copy::{self, CopyMemory, CopyOrder};
use tardy_host::state::Moment;
use tardy_host::{cpus, sizes};
use tardy_model::copy::{COPY, CopyBackend, Copying, Sizes};
use tardy_model::machine::MachineState;
use tardy_model::time::ClockReading;
use tardy_model::trial::TrialRecord;

/// The sizes of the machine that a copy runs on.
pub(super) fn sizes_of(copy: &Copying) -> Sizes {
    if copy.backend == CopyBackend::Sim { Sizes::USUAL } else { sizes::read() }
}

/// CPUs that the kernel keeps free.
pub(super) fn isolated() -> Vec<u32> {
    cpus::kernel_list("isolated").unwrap_or_default()
}

impl Run<'_, '_> {
    /// Runs a trial of a copy, and keeps it.
    pub(super) fn copy(&mut self, turn: &Turn<'_>, copying: &Copying, memory: &mut CopyMemory) -> Result<(), RunError> {
        let Turn { cell, n, order } = turn;
        self.tell(What::Trial { cell: cell.id.clone(), n: *n, order: *order, of: self.of });
        let nonce: u64 = random_of(self.experiment.seed, &cell.id, *n).random();
        let sizes = sizes_of(copying);
        let usable = self.found.here().usable.clone();
        let (isolated, nodes) = (isolated(), cpus::nodes());
        let room = Room { usable: &usable, isolated: &isolated, nodes: &nodes, available_bytes: None, sizes: &sizes };
        let cpus = match copying::place(&cell.id, copying, room) {
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
        let mut clocks = copied.record.tx_clocks.into_iter().map(simulated);
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
            loads: BTreeMap::new(),
            placement: Default::default(),
            shapers: BTreeMap::new(),
            observer: Vec::new(),
            inspection: None,
        };
        self.sink.trial(&record, &[(COPY.to_owned(), copied.batch)]).map_err(RunError::Sink)
    }
}

/// A state without anything of this machine.
fn simulated(clocks: ClockReading) -> MachineState {
    MachineState {
        clocks,
        cpus: BTreeMap::new(),
        work: BTreeMap::new(),
        tasks: BTreeMap::new(),
        load_tasks: Default::default(),
        machine_tasks: Default::default(),
        kvm: None,
        ended: None,
        rt_limit: None,
        cpu_dma_latency_us: None,
        bpf_jit: None,
        other_runs: 0,
    }
}
