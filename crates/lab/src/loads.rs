// SPDX-License-Identifier: MIT OR Apache-2.0
//! The background loads of a cell: what can be known of them before anything is touched, where
//! their threads run, the order that each side is given, and how a trial leads them over the
//! agents.

use crate::host::{CpuId, HostId};
use crate::machine::FactsByHost;
use crate::not_found::NotFound;
use crate::path::LinkEnd;
use crate::placement::{self, Placed, Taken, thread_on};
use crate::plan::Plan;
use crate::station::{self, StationId};
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tardy_engine::load::{LoadAt, LoadOrder};
use tardy_host::cpus::NoSuchCpu;
use tardy_model::load::{InstanceRecord, Load, LoadKind, LoadRecord, MOST_INSTANCES, SideHosts, SideRecord};
use tardy_model::stream::{CpuChoice, Stream};
use tardy_model::time::Nanos;
use tardy_spec::experiment::Setup;

/// A load that cannot be run here.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A CPU that does not exist.
    #[error("`load.{load}.cpu`: {why}")]
    Cpu { load: String, why: NoSuchCpu },
    /// A station or a stream that is not there.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// A program that is not there.
    #[error("load `{load}`: program `{program}` {why}")]
    Program {
        load: String,
        /// As it was written.
        program: String,
        /// What is wrong with it, and how to fix it.
        why: String,
    },
}

/// The CPUs of one instance: at `from`, at `to`.
pub type Places = [Option<CpuId>; 2];

/// Bytes that the loads of a cell lock into memory for themselves.
pub fn memory(setup: &Setup) -> u64 {
    let each = |load: &Load| match load.kind {
        LoadKind::Memory { working_set } => working_set.saturating_mul(u64::from(load.count)),
        _ => 0,
    };
    setup.loads.iter().map(each).fold(0, u64::saturating_add)
}

/// The programs that loads run on a host, as the experiment names them.
///
/// # Errors
/// If a load names a station that is not there.
pub fn programs_at(setup: &Setup, host: HostId) -> Result<BTreeSet<String>, NotFound> {
    let on_host = |(_, _, of): &(&Load, &String, HostId)| *of == host;
    Ok(programs_of(setup)?.into_iter().filter(on_host).map(|(_, program, _)| program.clone()).collect())
}

/// Finds out whether each program is on the host that is to run it.
///
/// # Errors
/// The first one that cannot be run.
pub fn programs(setup: &Setup, found: &FactsByHost) -> Result<(), LoadError> {
    for (load, program, host) in programs_of(setup)? {
        if let Some(why) = found.of(host)?.no_programs.get(program) {
            return Err(LoadError::Program { load: load.name.clone(), program: program.clone(), why: why.clone() });
        }
    }
    Ok(())
}

/// Each program that a load runs, with its load and its host.
fn programs_of(setup: &Setup) -> Result<Vec<(&Load, &String, HostId)>, NotFound> {
    let mut programs = Vec::new();
    for load in &setup.loads {
        let LoadKind::Command { command, peer_command } = &load.kind else { continue };
        for (station, words) in [(Some(&load.from), command), (load.to.as_ref(), peer_command)] {
            // A side without a station is never started.
            let Some((station, program)) = station.zip(words.first()) else { continue };
            programs.push((load, program, station::host_of(setup, station)?));
        }
    }
    Ok(programs)
}

/// The CPUs of each instance of each load, and the choices that the machine could not satisfy.
/// `chosen` are the CPUs of the streams, in order.
///
/// # Errors
/// A number that may not be used on its station's host, or a station that is not there.
pub fn place(
    setup: &Setup,
    chosen: &[Placed],
    found: &FactsByHost,
) -> Result<(Vec<Vec<Places>>, Vec<String>), LoadError> {
    let under_test = match tardy_spec::under_test(&setup.streams) {
        Some(stream) => Some((stream, placement::placed(setup, chosen, stream)?)),
        None => None,
    };
    let mut placing = Placing { setup, found, under_test, taken: Taken::by(setup, chosen), short: Vec::new() };
    let of_load = |load: &Load| (0..load.count).map(|instance| placing.instance(load, instance)).collect();
    let places = setup.loads.iter().map(of_load).collect::<Result<_, LoadError>>()?;
    Ok((places, placing.short))
}

/// The loads of a cell while their threads are given CPUs, one after the other.
struct Placing<'a> {
    setup: &'a Setup,
    found: &'a FactsByHost,
    under_test: Option<(&'a Stream, &'a Placed)>,
    taken: Taken,
    /// The choices that the machine could not satisfy.
    short: Vec<String>,
}

impl Placing<'_> {
    /// The CPUs of both sides of an instance.
    fn instance(&mut self, load: &Load, instance: u32) -> Result<Places, LoadError> {
        let to = load.to.as_ref().filter(|_| load.kind.has_peer());
        // `different` looks at the end that is placed already, so the other words come first.
        if load.cpu == CpuChoice::Different && load.peer_cpu != CpuChoice::Different {
            let far = to.map(|to| self.side(load, load.peer_cpu, to, None, instance)).transpose()?.flatten();
            return Ok([self.side(load, load.cpu, &load.from, far, instance)?, far]);
        }
        let near = self.side(load, load.cpu, &load.from, None, instance)?;
        let far = to.map(|to| self.side(load, load.peer_cpu, to, near, instance)).transpose()?.flatten();
        Ok([near, far])
    }

    /// The CPU of the stream under test that the CPU choice of a load at this station refers to:
    /// of its thread there, if it has one.
    fn of_stream(&self, station: &str) -> Option<CpuId> {
        let (stream, placed) = self.under_test?;
        placed.of(tardy_spec::experiment::thread_at(stream, station)?)
    }

    /// The CPU of one side. `own` is that of the load's other side, where it is known:
    /// `different` is from the stream, and both sides of a load share a CPU where they may, so
    /// that it disturbs one.
    fn side(
        &mut self,
        load: &Load,
        choice: CpuChoice,
        station: &str,
        own: Option<CpuId>,
        instance: u32,
    ) -> Result<Option<CpuId>, LoadError> {
        let host = station::host_of(self.setup, station)?;
        let here = |cpu: Option<CpuId>| cpu.and_then(|cpu| cpu.number_on(host).ok());
        let (other, own) = (here(self.of_stream(station)), here(own));
        let (cpus, taken) = (self.found.of(host)?.cpus(), self.taken.on(host));
        let free = |not: Option<u32>| {
            let load = |cpu: &u32| (taken.get(cpu).copied().unwrap_or(0), std::cmp::Reverse(*cpu));
            cpus.usable.iter().copied().filter(|cpu| Some(*cpu) != not).min_by_key(load)
        };
        let shared = own.filter(|own| Some(*own) != other);
        let cpu = match choice {
            CpuChoice::Any => None,
            CpuChoice::Number(cpu) if cpus.has(cpu) => Some(cpu),
            CpuChoice::Number(cpu) => {
                return Err(LoadError::Cpu { load: load.name.clone(), why: cpus.lacks(cpu) });
            }
            CpuChoice::Same => other,
            CpuChoice::Different => shared.or_else(|| free(other)).or_else(|| {
                if instance == 0 {
                    self.short.push(format!(
                        "load `{}`: a CPU other than the stream's was asked for at `{station}` and there is one: they share it",
                        load.name
                    ));
                }
                other
            }),
            CpuChoice::Auto => free(None),
        };
        if let Some(cpu) = cpu {
            *taken.entry(cpu).or_default() += 1;
        }
        Ok(cpu.map(|cpu| CpuId { host, cpu }))
    }
}

/// The loads of a cell in words, and the commands that are run for them, for a plan: a line each.
///
/// # Errors
/// If a load names a station that the path does not lead to.
pub fn in_words(setup: &Setup, plan: &Plan) -> Result<Vec<String>, NotFound> {
    let mut lines = Vec::new();
    for load in &setup.loads {
        let to = load.to.as_ref().map(|to| format!(" and {to}")).unwrap_or_default();
        lines.push(format!("load {}: {} × {} at {}{to}", load.name, load.kind.name(), load.count, load.from));
        let LoadKind::Command { command, peer_command } = &load.kind else { continue };
        let (near, far) = ends(plan, load)?;
        let from = near.map(|near| near.address.to_string()).unwrap_or_default();
        // A load without another side has no address there.
        let to = far.map(|far| far.address.to_string()).unwrap_or_default();
        for (end, words) in [(far, peer_command), (near, command)] {
            // A side without a station is never started.
            let Some(end) = end.filter(|_| !words.is_empty()) else { continue };
            let words: Vec<String> = words
                .iter()
                .map(|word| word.replace("{from}", &from).replace("{to}", &to).replace("{instance}", "1"))
                .collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            lines.push(end.place.exec(&words).to_string());
        }
    }
    Ok(lines)
}

/// Where a load meets the path: at `from`, if it needs an address there, and, if it has another
/// side, at `to`.
fn ends<'p>(plan: &'p Plan, load: &Load) -> Result<(Option<&'p LinkEnd>, Option<&'p LinkEnd>), NotFound> {
    match &load.to {
        Some(to) => {
            let [near, far] = plan.ends.between(&load.from, to, load.path)?;
            Ok((Some(plan.ends.end(near)?), Some(plan.ends.end(far)?)))
        }
        None if load.kind.has_address() => Ok((Some(plan.ends.chosen(&load.from, load.path)?), None)),
        None => Ok((None, None)),
    }
}

/// Port of the first instance of the first load; each has its own, TCP or UDP, in a namespace of
/// the run's own.
const FIRST_PORT: u16 = 20_000;
/// Loads and instances that have a port of their own.
const PORTS: u32 = 40_000;

/// The loads of one trial, while it is led.
#[derive(Debug, Default)]
pub struct Loads {
    loads: Vec<Load>,
    /// Each side with its station.
    sides: Vec<(StationId, LoadOrder)>,
    records: BTreeMap<LoadAt, SideRecord>,
    output: BTreeMap<LoadAt, Vec<u8>>,
}

impl Loads {
    /// True if one is a program of the user's.
    pub fn have_programs(&self) -> bool {
        self.sides.iter().any(|(_, order)| matches!(order.kind, LoadKind::Command { .. }))
    }

    /// The orders of a trial; what they draw is of the trial's own randomness.
    ///
    /// # Errors
    /// If a load names a station that the path does not lead to.
    pub fn of(setup: &Setup, plan: &Plan, places: &[Vec<Places>], random: &mut Pcg64Mcg) -> Result<Loads, NotFound> {
        let mut sides = Vec::new();
        for ((number, load), places) in setup.loads.iter().enumerate().zip(places) {
            let (near, far) = ends(plan, load)?;
            // One that has no such side asks nobody where that would be.
            let [near, far] = [near, far].map(|end| end.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |end| end.address));
            for (instance, cpus) in places.iter().enumerate() {
                let port = (number as u32 * MOST_INSTANCES + instance as u32) % PORTS;
                let port = FIRST_PORT.saturating_add(port as u16);
                let seed: u64 = random.random();
                let of_peer = load.to.as_ref().filter(|_| load.kind.has_peer()).map(|to| (to, true));
                for (station, peer) in std::iter::once((&load.from, false)).chain(of_peer) {
                    let policy = if peer { load.peer_policy } else { load.policy };
                    let order = LoadOrder {
                        at: LoadAt { load: number as u16, instance: instance as u32, peer },
                        name: load.name.clone(),
                        kind: load.kind.clone(),
                        thread: thread_on(plan.host(station)?, cpus[usize::from(peer)], policy)?,
                        local: SocketAddr::new(if peer { far } else { near }, port),
                        remote: SocketAddr::new(if peer { near } else { far }, port),
                        start: load.start,
                        stop: load.stop,
                        send_buffer: load.send_buffer,
                        receive_buffer: load.receive_buffer,
                        seed,
                    };
                    sides.push((plan.station(station)?, order));
                }
            }
        }
        Ok(Loads { loads: setup.loads.clone(), sides, ..Loads::default() })
    }

    /// The order of each side, and its station.
    pub(crate) fn sides(&self) -> impl Iterator<Item = (StationId, &LoadOrder)> {
        self.sides.iter().map(|(station, order)| (*station, order))
    }

    /// How long before the base time the first one starts.
    pub fn lead(&self) -> Nanos {
        Nanos(self.loads.iter().map(|load| -load.start.0).max().unwrap_or(0).max(0))
    }

    /// Takes over the next bytes that a side's program wrote.
    pub(crate) fn wrote(&mut self, at: LoadAt, mut bytes: Vec<u8>) {
        self.output.entry(at).or_default().append(&mut bytes);
    }

    /// Takes over what a side did.
    pub(crate) fn did(&mut self, at: LoadAt, record: SideRecord) {
        self.records.insert(at, record);
    }

    /// What they did, by name.
    pub fn records(&mut self) -> BTreeMap<String, LoadRecord> {
        let mut taken = std::mem::take(&mut self.records);
        let mut all = BTreeMap::new();
        if taken.is_empty() {
            return all;
        }
        for (number, load) in self.loads.iter().enumerate() {
            let mut side = |instance: u32, peer: bool| taken.remove(&LoadAt { load: number as u16, instance, peer });
            let instances = (0..load.count).map(|instance| InstanceRecord {
                from: side(instance, false).unwrap_or_default(),
                to: side(instance, true),
            });
            let record = LoadRecord {
                kind: load.kind.clone(),
                shortfall: load.shortfall,
                start_ns: load.start.0,
                stop_ns: load.stop.map(|stop| stop.0),
                instances: instances.collect(),
                // Whoever keeps the record knows how it calls the hosts.
                hosts: SideHosts::default(),
            };
            all.insert(load.name.clone(), record);
        }
        all
    }

    /// What their programs wrote: `<name>-<instance>.log` or `<name>-<instance>-to.log`, from
    /// instance 1 on.
    pub fn output(&mut self) -> Vec<(String, Vec<u8>)> {
        let named = |(at, bytes): (LoadAt, Vec<u8>)| {
            let load = self.loads.get(usize::from(at.load))?;
            let side = if at.peer { "-to" } else { "" };
            Some((format!("{}-{}{side}.log", load.name, at.instance + 1), bytes))
        };
        std::mem::take(&mut self.output).into_iter().filter_map(named).collect()
    }
}
