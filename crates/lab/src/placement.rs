// SPDX-License-Identifier: MIT OR Apache-2.0
//! On which CPU each thread of a cell's streams runs. Pure: which CPUs there are is among the
//! facts.

use crate::host::{CpuId, HostId};
use crate::machine::FactsByHost;
use crate::not_found::NotFound;
use crate::station;
use std::collections::BTreeMap;
use tardy_engine::order::ThreadOrder;
use tardy_host::cpus::{self, Chosen, NoSuchCpu};
use tardy_model::stream::{CpuChoice, Kind, Policy, Side, Stream, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::xdp::Core;
use tardy_spec::experiment::{self, MachineThreads, Setup};

/// A thread that cannot have the CPU that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// A CPU that does not exist.
    #[error("`{key}`: {why}")]
    Cpu {
        /// The key that asks for it.
        key: String,
        why: NoSuchCpu,
    },
    /// A CPU for softirq that does not exist.
    #[error("`station.{station}.softirq`: {why}")]
    Softirq { station: String, why: NoSuchCpu },
    /// A station or a stream that is not there.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// A receiver that is to share the CPU of an XDP program, which this process may not use.
    #[error(
        "`{key}` is \"same\", and the XDP program runs on CPU {}, which this process may not use (it has {}): let it use that CPU, or \
         have the program run elsewhere, by `station.*.softirq` or the CPU of the sender",
        why.cpu,
        why.usable
    )]
    Program {
        /// The key that asks for it.
        key: String,
        why: NoSuchCpu,
    },
    /// Two spinning realtime threads would share a CPU and starve each other and the machine, or
    /// one would starve a thread that the trial needs.
    #[error("{0}")]
    TwoSpinners(String),
}

/// The CPUs of a stream's threads; `None` for one that is not pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub tx: Option<CpuId>,
    /// The receiver's or reflector's.
    pub rx: Option<CpuId>,
    /// The CPU of the thread that receives the replies.
    pub reply: Option<CpuId>,
}

impl Placed {
    /// That of one end.
    pub fn of(&self, end: Side) -> Option<CpuId> {
        match end {
            Side::Tx => self.tx,
            Side::Rx => self.rx,
            Side::Reply => self.reply,
        }
    }
}

/// The CPUs of one of the streams. `chosen` are those of all, in order.
///
/// # Errors
/// If it is none of the set-up's, or no CPUs were chosen for it.
pub fn placed<'c>(setup: &Setup, chosen: &'c [Placed], stream: &Stream) -> Result<&'c Placed, NotFound> {
    Ok(StreamId::named(&setup.streams, &stream.name)?.of(chosen)?)
}

/// How a thread of this host is to run: an agent gets the number that its own host has for the CPU.
///
/// # Errors
/// If the CPU is another host's.
pub fn thread_on(host: HostId, cpu: Option<CpuId>, policy: Policy) -> Result<ThreadOrder, NotFound> {
    let cpu = cpu.map(|cpu| cpu.number_on(host)).transpose()?;
    Ok(ThreadOrder { cpu, policy })
}

/// How many threads each CPU has been given.
#[derive(Clone, Debug, Default)]
pub struct Taken(BTreeMap<HostId, BTreeMap<u32, u32>>);

impl Taken {
    /// By the threads of virtual machines, which this machine runs, where the set-up puts them.
    fn by_machines(setup: &Setup) -> Taken {
        let mut taken = Taken::default();
        for cpu in setup.stations.values().flat_map(|station| station.threads.values()).filter_map(|of| of.cpu) {
            *taken.on(HostId::HERE).entry(cpu).or_default() += 1;
        }
        taken
    }

    /// By these, and by the streams' threads, of which `chosen` are the CPUs.
    pub fn by(setup: &Setup, chosen: &[Placed]) -> Taken {
        let mut taken = Taken::by_machines(setup);
        for cpu in chosen.iter().flat_map(|placed| [placed.tx, placed.rx, placed.reply]).flatten() {
            *taken.on(cpu.host).entry(cpu.cpu).or_default() += 1;
        }
        taken
    }

    /// On one host, by its CPUs' numbers there.
    pub fn on(&mut self, host: HostId) -> &mut BTreeMap<u32, u32> {
        self.0.entry(host).or_default()
    }

    /// Chooses one thread's CPU on a host. `other` is the CPU that `same` and `different` refer to,
    /// if it belongs to that host. It also returns the choice that the host could not satisfy.
    ///
    /// # Errors
    /// A CPU that the host does not have, or a host that the run has not looked at.
    pub(crate) fn beside(
        &mut self,
        choice: CpuChoice,
        other: Option<CpuId>,
        host: HostId,
        found: &FactsByHost,
        wrong: impl Fn(NoSuchCpu) -> PlaceError,
    ) -> Result<(Option<CpuId>, Option<String>), PlaceError> {
        let cpus = found.of(host)?.cpus();
        let other = other.and_then(|other| other.number_on(host).ok());
        let (cpu, lacking) = cpus::beside(choice, other, cpus, self.on(host)).map_err(wrong)?;
        Ok((cpu.map(|cpu| CpuId { host, cpu }), lacking))
    }
}

/// A stream's CPU that does not exist, by the key of the end that asks for it.
fn no_such_cpu(stream: &Stream, why: NoSuchCpu) -> PlaceError {
    let ends = [(Side::Tx, stream.tx.cpu), (Side::Rx, stream.rx.cpu), (Side::Reply, stream.reply.cpu)];
    let asks = ends.into_iter().find(|(_, choice)| *choice == CpuChoice::Number(why.cpu));
    let end = asks.map_or(Side::Tx, |(end, _)| end);
    PlaceError::Cpu { key: format!("stream.{}.{end}.cpu", stream.name), why }
}

/// The CPUs of both ends of a stream. Ends on two hosts have nothing to do with each other: there
/// `same` and `different` are `auto`.
fn both(
    stream: &Stream,
    [from, to]: [HostId; 2],
    found: &FactsByHost,
    taken: &mut Taken,
) -> Result<([Option<CpuId>; 2], Vec<String>), PlaceError> {
    let wrong = |why| no_such_cpu(stream, why);
    let (tx, rx) = (stream.tx.cpu, stream.rx.cpu);
    if from == to {
        let Chosen { tx, rx, short } = cpus::choose(tx, rx, found.of(from)?.cpus(), taken.on(from)).map_err(wrong)?;
        return Ok(([tx, rx].map(|cpu| cpu.map(|cpu| CpuId { host: from, cpu })), short));
    }
    let (tx, of_tx) = taken.beside(tx, None, from, found, wrong)?;
    let (rx, of_rx) = taken.beside(rx, None, to, found, wrong)?;
    Ok(([tx, rx], of_tx.into_iter().chain(of_rx).collect()))
}

/// The CPU on which each XDP program was seen to run, by the stream that it receives: what hints
/// have shown so far.
pub type Shown = BTreeMap<String, u32>;

/// The CPU that runs the XDP program of a stream, as far as it is known: by what hints have shown,
/// by where interrupts or the threads that poll the device were put, and on a path whose ends hand
/// packets to each other by where the sender is. Packet steering (RPS) comes after a program in the
/// driver, so it moves none.
fn program_cpu(setup: &Setup, stream: &Stream, tx: Option<CpuId>, to: HostId, shown: &Shown) -> Option<CpuId> {
    if let Some(cpu) = shown.get(&stream.name) {
        return Some(CpuId { host: to, cpu: *cpu });
    }
    let is_handed_over = setup.path.traits().devices.are_made() && !setup.softirq.napi;
    match setup.softirq.cpus.get(&stream.to) {
        _ if is_handed_over => tx.filter(|tx| tx.host == to),
        Some(CpuChoice::Number(cpu)) => Some(CpuId { host: to, cpu: *cpu }),
        _ => None,
    }
}

/// The CPUs of both ends of a stream whose receiver is placed by the XDP program. Where that runs
/// is not known of every path before a packet came: then any CPU will do until the warm-up has
/// shown it.
fn by_program(
    setup: &Setup,
    (stream, core): (&Stream, Core),
    [from, to]: [HostId; 2],
    found: &FactsByHost,
    taken: &mut Taken,
    shown: &Shown,
) -> Result<([Option<CpuId>; 2], Vec<String>), PlaceError> {
    let wrong = |why| no_such_cpu(stream, why);
    let (tx, of_tx) = taken.beside(stream.tx.cpu, None, from, found, wrong)?;
    let program = program_cpu(setup, stream, tx, to, shown);
    let choice = match (core, program) {
        (Core::Same, Some(cpu)) => CpuChoice::Number(cpu.cpu),
        (Core::Remote, Some(_)) => CpuChoice::Different,
        (_, None) => CpuChoice::Auto,
    };
    let wrong = |why| PlaceError::Program { key: format!("stream.{}.rx.core", stream.name), why };
    // A machine that has no other CPU refuses the cell: see [`refusal`].
    let (rx, _) = taken.beside(choice, program, to, found, wrong)?;
    Ok(([tx, rx], of_tx.into_iter().collect()))
}

/// Why the threads of this set-up cannot be placed as it asks, where that costs only its cell.
///
/// # Errors
/// If the run has not looked at the host of a station.
pub fn refusal(setup: &Setup, found: &FactsByHost) -> Result<Option<String>, NotFound> {
    for stream in setup.streams.iter().filter(|stream| stream.rx.core == Some(Core::Remote)) {
        if stream.rx.wait == Wait::Busypoll {
            return Ok(Some(format!(
                "stream `{}`: rx.core = \"remote\" cannot be kept with rx.wait = \"busypoll\": a thread that polls the device \
                 runs the XDP program itself, on its own CPU: write rx.core = \"same\", or another wait",
                stream.name
            )));
        }
        if found.at(setup, &stream.to)?.usable.len() < 2 {
            return Ok(Some(format!(
                "stream `{}`: rx.core = \"remote\" needs another CPU than the one that runs the XDP program, and there is one: give \
                 the run more CPUs, or write rx.core = \"same\"",
                stream.name
            )));
        }
    }
    Ok(None)
}

/// Refuses CPUs for the threads of virtual machines that the host which runs them does not have.
fn machine_cpus(setup: &Setup, found: &FactsByHost) -> Result<(), PlaceError> {
    let asked = setup.stations.iter().flat_map(|(name, station)| {
        station.threads.iter().filter_map(move |(part, threads)| Some((name, part, threads.cpu?)))
    });
    for (name, part, cpu) in asked {
        let wrong = |why| PlaceError::Cpu { key: format!("station.{name}.{part}.cpu"), why };
        Taken::default().beside(CpuChoice::Number(cpu), None, HostId::HERE, found, wrong)?;
    }
    Ok(())
}

/// The CPUs of a cell's threads before anything was received, stream by stream, and the choices
/// that the machine could not satisfy.
///
/// # Errors
/// As [`place_by`].
pub fn place(setup: &Setup, found: &FactsByHost) -> Result<(Vec<Placed>, Vec<String>), PlaceError> {
    place_by(setup, found, &Shown::new())
}

/// Where the threads of a cell's streams run, under which policy, and which XDP program takes
/// packets out of the kernel's way meanwhile, a line each.
///
/// # Errors
/// As [`place_by`].
pub fn in_words(setup: &Setup, found: &FactsByHost) -> Result<Vec<String>, PlaceError> {
    let (chosen, _) = place(setup, found)?;
    let mut lines = Vec::new();
    for (stream, placed) in setup.streams.iter().zip(chosen) {
        let at = |cpu: Option<CpuId>, policy: Policy| {
            let cpu = cpu.map_or("any CPU".to_owned(), |cpu| format!("CPU {}", cpu.cpu));
            format!("on {cpu} under {policy}")
        };
        let core = stream.rx.core.map_or(String::new(), |core| format!(" (rx.core = \"{}\")", core.name()));
        let [sends, receives] = if stream.kind.is_answered() { ["asks", "answers"] } else { ["sends", "receives"] };
        let (tx, rx) = (at(placed.tx, stream.tx.policy), at(placed.rx, stream.rx.policy));
        let Stream { name, from, to, .. } = stream;
        let mut line = format!("stream {name}: {from} {sends} {tx}, {to} {receives} {rx}{core}");
        if stream.kind == Kind::Reflected {
            line += &format!(", and a third thread takes the replies {}", at(placed.reply, stream.reply.policy));
        }
        lines.push(line);
        if stream.rx.port.passes_xdp() {
            let program = match &stream.rx.object {
                Some(object) => format!("the XDP program of {}", object.file),
                None => "tardy's own XDP program".to_owned(),
            };
            let queues = stream.rx.queue.map_or("every queue".to_owned(), |queue| format!("queue {queue}"));
            let from = "while the trials run; other frames go on to the kernel";
            let from = if stream.rx.object.is_some() { "while the trials run" } else { from };
            lines.push(format!("{program} takes its packets from {queues} of {}'s device {from}", stream.to));
        }
    }
    Ok(lines)
}

/// The same where hints have shown on which CPUs XDP programs run.
///
/// # Errors
/// A CPU that its host does not have, a station that is not there, or two threads that would starve
/// each other.
pub fn place_by(setup: &Setup, found: &FactsByHost, shown: &Shown) -> Result<(Vec<Placed>, Vec<String>), PlaceError> {
    let mut taken = Taken::by_machines(setup);
    let (mut chosen, mut short) = (Vec::new(), Vec::new());
    for stream in &setup.streams {
        let wrong = |why| no_such_cpu(stream, why);
        let hosts = [station::host_of(setup, &stream.from)?, station::host_of(setup, &stream.to)?];
        let ([tx, rx], of_both) = match stream.rx.core {
            Some(core) => by_program(setup, (stream, core), hosts, found, &mut taken, shown)?,
            None => both(stream, hosts, found, &mut taken)?,
        };
        let (reply, lacking) = match stream.kind {
            Kind::Reflected => taken.beside(stream.reply.cpu, tx, hosts[0], found, wrong)?,
            Kind::Cyclic | Kind::Pingpong => (None, None),
        };
        short.extend(of_both.iter().chain(&lacking).map(|what| format!("stream `{}`: {what}", stream.name)));
        chosen.push(Placed { tx, rx, reply });
    }
    machine_cpus(setup, found)?;
    let clash = experiment::clash(setup.streams.iter().zip(&chosen), |_, placed, end| placed.of(end));
    if let Some((cpu, one, other)) = clash {
        let name = |(stream, end): (&Stream, Side)| format!("{}.{end}", stream.name);
        return Err(PlaceError::TwoSpinners(format!(
            "{} and {} would both spin with a realtime policy on CPU {} and starve each other: give them different CPUs, \
             let one wait by \"block\", or use policy \"other\"",
            name(one),
            name(other),
            cpu.cpu
        )));
    }
    machines_run(setup, &chosen)?;
    Ok((chosen, short))
}

/// True for a thread that spins under a realtime policy all the time, and not only before it sends.
fn never_sleeps(stream: &Stream, end: Side) -> bool {
    let is_paced = end == Side::Tx && stream.kind != Kind::Pingpong;
    experiment::spins_realtime(stream, end) && (!is_paced || stream.tx.spin >= stream.cycle)
}

/// True if a thread of policy `one` that never sleeps leaves no time to one of policy `other` on
/// its CPU. Two of `rr` with one priority take turns, and the kernel bounds a deadline thread
/// itself.
fn keeps_off(one: Policy, other: Policy) -> bool {
    match (one, other) {
        (Policy::Other | Policy::Deadline { .. }, _) | (_, Policy::Deadline { .. }) => false,
        (_, Policy::Other) => true,
        (Policy::Rr(one), Policy::Rr(other)) => one > other,
        (Policy::Fifo(one) | Policy::Rr(one), Policy::Fifo(other) | Policy::Rr(other)) => one >= other,
    }
}

/// Refuses a virtual machine of which a thread would never run, because a stream's thread spins on
/// its CPU and comes before it: the machine would answer nothing.
fn machines_run(setup: &Setup, chosen: &[Placed]) -> Result<(), PlaceError> {
    for (name, station) in &setup.stations {
        for (part, MachineThreads { cpu, policy }) in &station.threads {
            let Some(cpu) = cpu.map(|cpu| CpuId { host: HostId::HERE, cpu }) else { continue };
            for (stream, placed) in setup.streams.iter().zip(chosen) {
                let starves = |end: &Side| {
                    placed.of(*end) == Some(cpu) && never_sleeps(stream, *end) && keeps_off(end.policy(stream), *policy)
                };
                if let Some(end) = Side::of(stream).find(starves) {
                    return Err(PlaceError::TwoSpinners(format!(
                        "{}.{end} would spin with policy {} on CPU {}, and the {part} threads of the virtual machine `{name}`, \
                         with policy {policy}, would never run there: set station.{name}.{part}.cpu to another CPU, give them \
                         a higher priority, or let the stream's thread wait by \"block\"",
                        stream.name,
                        end.policy(stream),
                        cpu.cpu
                    )));
                }
            }
        }
    }
    Ok(())
}
