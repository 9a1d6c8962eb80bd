// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where each measuring thread was asked to run and where it ran, where packets were taken in, and
//! what the CPUs did, over the trials of a cell.

use crate::validity::{Evidence, TrialCpu, TrialHost, cpu_use};
use std::collections::BTreeMap;
use tardy_model::machine::MachineState;
use tardy_model::placement::{CpuWork, KvmWork, SoftirqRecord, ThreadRecord};
use tardy_model::result::{
    CellResult, CpuPlacement, CpuUser, MachinesPlacement, Placement, SoftirqPlacement, XdpPlacement,
};
use tardy_model::time::Offset;
use tardy_model::trial::TrialRecord;
use tardy_model::validity::Validity;
use tardy_model::xdp::{XdpMode, XdpRecord};

/// For each CPU this many names of other users are kept.
const MOST_USERS: usize = 10;

/// Placements by thread, gathered trial by trial.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    threads: BTreeMap<String, Placement>,
    softirq: BTreeMap<String, SoftirqPlacement>,
    xdp: BTreeMap<String, XdpPlacement>,
    /// By host, the coordinator's first, and number.
    cpus: BTreeMap<(Option<String>, u32), OneCpu>,
    /// What KVM did for the run's machines, and for how many packets.
    machines: Option<(KvmWork, u64)>,
}

/// One CPU of one host.
#[derive(Clone, Debug, Default)]
struct OneCpu {
    sum: CpuPlacement,
    /// Who else ran on it, by name: a trial's record may name very many.
    others: BTreeMap<String, CpuUser>,
}

/// The host that a station is on, by the threads that receive there.
pub(crate) fn host<'a>(record: &'a TrialRecord, station: &SoftirqRecord) -> TrialHost<'a> {
    let of = |name: &String| {
        let (stream, end) = name.rsplit_once('.')?;
        let offsets = &record.streams.get(stream)?.offsets;
        let offset = if end == "rx" { &offsets.rx } else { &offsets.tx };
        Some(offset.as_ref()?.host.as_str())
    };
    TrialHost::called(station.receivers.first().and_then(of))
}

/// What a CPU did during a trial; `None` if one of the readings of its host's state lacks it, or
/// there is none.
pub(crate) fn work_at(record: &TrialRecord, at: TrialCpu<'_>) -> Option<CpuWork> {
    work_between(at.host.states(record)?, at.cpu)
}

/// What a CPU did between two readings of its host's state; `None` if one of them lacks it.
fn work_between([before, after]: [&MachineState; 2], cpu: u32) -> Option<CpuWork> {
    Some(after.work.get(&cpu)?.since(*before.work.get(&cpu)?))
}

/// Adds who used the CPU in a trial. Of one trial not known: the sum is not known either.
fn used(OneCpu { sum, others }: &mut OneCpu, record: &TrialRecord) {
    let (results, coverage, settings) = (BTreeMap::new(), BTreeMap::new(), Validity::default());
    let evidence = Evidence { record, results: &results, coverage: &coverage, settings: &settings, exact: false };
    let used = cpu_use::of(&evidence, TrialHost::called(sum.host.as_deref()).cpu(sum.cpu));
    sum.others_ns = sum.others_ns.zip(used.as_ref()).map(|(sum, used)| sum.saturating_add(used.others_ns));
    let Some(used) = used else { return };
    sum.elapsed_ns = sum.elapsed_ns.saturating_add(used.elapsed_ns);
    sum.irq_ns = sum.irq_ns.saturating_add(used.irq_ns);
    sum.softirq_ns = sum.softirq_ns.saturating_add(used.softirq_ns);
    for user in used.users {
        match others.get_mut(&user.name) {
            Some(known) => {
                known.run_ns = known.run_ns.saturating_add(user.run_ns);
                known.ended += user.ended;
            }
            None => _ = others.insert(user.name.clone(), user),
        }
    }
}

impl Placements {
    /// Adds a trial's threads.
    pub fn add(&mut self, record: &TrialRecord) {
        for (stream, record) in &record.streams {
            let host = |offset: &Option<Offset>| offset.as_ref().map(|offset| offset.host.clone());
            if let Some(copy) = &record.copy {
                // The threads of a copy are one row for each CPU that they are bound to.
                let name = format!("{stream}.threads");
                for of in &copy.threads {
                    let cpu = of.thread.cpu_asked.map(|cpu| format!(" {cpu:010}"));
                    self.thread_of(format!("{name}{}", cpu.unwrap_or_default()), name.clone(), None, &of.thread);
                }
                continue;
            }
            self.thread(format!("{stream}.tx"), host(&record.offsets.tx), &record.tx);
            self.thread(format!("{stream}.rx"), host(&record.offsets.rx), &record.rx);
            if let Some(thread) = record.reply.as_ref().and_then(|reply| reply.thread.as_ref()) {
                self.thread(format!("{stream}.reply"), host(&record.offsets.tx), thread);
            }
        }
        // Instances of a load stand together: `bulk.from`, `bulk.to`.
        for (load, record) in &record.loads {
            for (role, side) in record.instances.iter().flat_map(|instance| instance.sides()) {
                self.thread(format!("{load}.{role}"), record.host(role).map(str::to_owned), &side.thread);
            }
        }
        for (name, thread) in &record.placement.machine_threads {
            self.thread(name.clone(), None, thread);
            if let Some(placement) = self.threads.get_mut(name) {
                placement.memory_locked = None;
            }
        }
        for (station, softirq) in &record.placement.softirq {
            self.station(station, softirq, record);
        }
        for (name, stream) in &record.streams {
            if let Some(port) = &stream.xdp {
                let receiver = TrialHost::called(stream.offsets.rx.as_ref().map(|offset| offset.host.as_str()));
                self.program(name, port, receiver.states(record));
            }
        }
        self.cpus_of(None, [&record.before, &record.after], record);
        for (host, [before, after]) in &record.hosts {
            self.cpus_of(Some(host), [before, after], record);
        }
        self.machines_of(record);
    }

    /// Adds what KVM did during a trial, on the coordinator's host. A machine cannot count for it.
    fn machines_of(&mut self, record: &TrialRecord) {
        let TrialRecord { before, after, .. } = record;
        if after.machine_tasks.is_empty() {
            return;
        }
        // An emulated machine has no counts.
        let work = after.kvm.zip(before.kvm).map_or_else(KvmWork::default, |(after, before)| after.since(before));
        let packets = record.streams.values().map(|stream| u64::from(stream.intended)).sum::<u64>();
        let sum = self.machines.map_or((work, packets), |(sum, all)| (sum.and(work), all.saturating_add(packets)));
        self.machines = Some(sum);
    }

    /// Adds what the CPUs of a host did between two readings of its state.
    fn cpus_of(&mut self, host: Option<&String>, states: [&MachineState; 2], record: &TrialRecord) {
        for cpu in states[1].work.keys() {
            let Some(work) = work_between(states, *cpu) else { continue };
            let one = self.cpus.entry((host.cloned(), *cpu)).or_insert_with(|| {
                let none =
                    CpuPlacement { host: host.cloned(), cpu: *cpu, others_ns: Some(0), ..CpuPlacement::default() };
                OneCpu { sum: none, others: BTreeMap::new() }
            });
            one.sum.net_rx += work.net_rx;
            one.sum.net_tx += work.net_tx;
            one.sum.packets += work.packets;
            one.sum.interrupts += work.interrupts;
            one.sum.timer_interrupts += work.timer;
            used(one, record);
        }
    }

    /// Adds what is known of an XDP program and its application, and of the receiver's host before
    /// the trial and after it.
    fn program(&mut self, stream: &str, port: &XdpRecord, states: Option<[&MachineState; 2]>) {
        let sum = self.xdp.entry(stream.to_owned()).or_insert_with(|| XdpPlacement {
            stream: stream.to_owned(),
            driver: port.driver.clone(),
            wait: port.wait.clone(),
            core: port.core.asked.map(|core| core.name().to_owned()),
            ..XdpPlacement::default()
        });
        // Of trials in several modes the slowest one is what a reader must see.
        let slowness = |mode: &str| XdpMode::ALL.iter().position(|of| of.name() == mode);
        if slowness(port.mode.name()) > slowness(&sum.mode) {
            port.mode.name().clone_into(&mut sum.mode);
        }
        for (cpu, packets) in &port.seen.by_cpu {
            let all = sum.packets_by_program_cpu.entry(*cpu).or_default();
            *all = all.saturating_add(*packets);
        }
        sum.receiver_cpus.extend(port.core.cpu);
        sum.receiver_cpus.sort_unstable();
        sum.receiver_cpus.dedup();
        sum.same = sum.same.saturating_add(port.core.same);
        sum.remote = sum.remote.saturating_add(port.core.remote);
        sum.unknown = sum.unknown.saturating_add(port.core.unknown);
        let Some([before, after]) = states else { return };
        for (bounds, state) in [(&mut sum.dma_latency_before_us, before), (&mut sum.dma_latency_after_us, after)] {
            bounds.extend(state.cpu_dma_latency_us);
            bounds.sort_unstable();
            bounds.dedup();
        }
    }

    fn station(&mut self, station: &str, softirq: &SoftirqRecord, record: &TrialRecord) {
        let sum = self.softirq.entry(station.to_owned()).or_insert_with(|| SoftirqPlacement {
            station: station.to_owned(),
            host: host(record, softirq).name().map(str::to_owned),
            by: softirq.by.name().to_owned(),
            cpu_asked: softirq.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()),
            cpus_seen: Vec::new(),
            packets: 0,
            packets_on_cpu: None,
            napi_switches: None,
        });
        sum.packets += softirq.packets;
        if let Some(work) = softirq.cpu.and_then(|cpu| work_at(record, host(record, softirq).cpu(cpu))) {
            *sum.packets_on_cpu.get_or_insert(0) += work.packets;
        }
        let ran = softirq.threads.iter().filter(|thread| thread.switches > 0);
        sum.cpus_seen.extend(ran.filter_map(|thread| thread.cpu));
        sum.cpus_seen.sort_unstable();
        sum.cpus_seen.dedup();
        if !softirq.threads.is_empty() {
            *sum.napi_switches.get_or_insert(0) += softirq.threads.iter().map(|thread| thread.switches).sum::<u64>();
        }
    }

    fn thread(&mut self, name: String, host: Option<String>, record: &ThreadRecord) {
        self.thread_of(name.clone(), name, host, record);
    }

    /// Adds a thread to the row of this key.
    fn thread_of(&mut self, key: String, name: String, host: Option<String>, record: &ThreadRecord) {
        let placement = self.threads.entry(key).or_insert_with(|| Placement {
            thread: name,
            host,
            cpu_asked: record.cpu_asked.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()),
            cpus_seen: Vec::new(),
            policy_asked: record.policy_asked.clone(),
            policy_granted: record.policy_granted.clone(),
            memory_locked: Some(true),
            migrations: Some(0),
            wait_ns: Some(0),
            run_ns: Some(0),
            over_ns: Some(0),
            wakeups: Some(0),
            napi_ids: Vec::new(),
        });
        // Of one trial not known: the sum is not known either.
        placement.migrations = placement.migrations.zip(record.migrations).map(|(sum, more)| sum.saturating_add(more));
        let add = |sum: Option<i64>, more: Option<i64>| sum.zip(more).map(|(sum, more)| sum.saturating_add(more));
        placement.wait_ns = add(placement.wait_ns, record.wait_ns);
        placement.run_ns = add(placement.run_ns, record.run_ns);
        placement.over_ns = add(placement.over_ns, record.over_ns);
        placement.wakeups = placement.wakeups.map(|sum| sum.saturating_add(record.voluntary_switches));
        placement.napi_ids.extend(record.napi_id);
        placement.napi_ids.sort_unstable();
        placement.napi_ids.dedup();
        placement.cpus_seen.extend(&record.cpus_seen);
        placement.cpus_seen.sort_unstable();
        placement.cpus_seen.dedup();
        // One trial without the policy is what a reader must see.
        if record.policy_granted != record.policy_asked {
            placement.policy_granted.clone_from(&record.policy_granted);
        }
        placement.memory_locked = placement.memory_locked.map(|locked| locked && record.memory_locked);
    }

    /// Writes them into the cell's results.
    pub fn finish(self, into: &mut CellResult) {
        into.placement = self.threads.into_values().collect();
        into.softirq = self.softirq.into_values().collect();
        into.xdp = self.xdp.into_values().collect();
        into.machines = self.machines.map(|(KvmWork { exits, halt_exits, irq_injections }, packets)| {
            MachinesPlacement { packets, exits, halt_exits, irq_injections }
        });
        let cpus = self.cpus.into_values().map(|OneCpu { mut sum, others }| {
            sum.others = others.into_values().collect();
            sum.others.sort_by_key(|user| std::cmp::Reverse(user.run_ns));
            sum.others.truncate(MOST_USERS);
            sum
        });
        into.cpus = cpus.collect();
    }
}
