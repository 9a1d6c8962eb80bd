// SPDX-License-Identifier: MIT OR Apache-2.0
//! On which CPU each thread of a cell's streams runs. Pure: which CPUs there are is among the facts.

use crate::host::{CpuId, HostId};
use crate::machine::FactsByHost;
use crate::station::{self, NoStation};
use std::collections::BTreeMap;
use tardy_host::cpus::{self, Chosen, NoSuchCpu};
use tardy_model::stream::{Kind, Side, Stream};
use tardy_spec::experiment::Setup;
use tardy_spec::placement;

/// A thread that cannot have the CPU that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// A CPU that does not exist.
    #[error("stream `{stream}`: {why}")]
    Cpu {
        /// Stream.
        stream: String,
        /// Which.
        why: NoSuchCpu,
    },
    /// A CPU for softirq that does not exist.
    #[error("station `{station}`, softirq: {why}")]
    Softirq {
        /// Station.
        station: String,
        /// Which.
        why: NoSuchCpu,
    },
    /// A station that is not there.
    #[error(transparent)]
    Station(#[from] NoStation),
    /// Two spinning realtime threads would share a CPU and starve each other and the machine.
    #[error("{0}")]
    TwoSpinners(String),
}

/// The CPUs of a stream's threads; `None` for one that is not pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The sender's.
    pub tx: Option<u32>,
    /// The receiver's or reflector's.
    pub rx: Option<u32>,
    /// That of who receives the replies.
    pub reply: Option<u32>,
}

impl Placed {
    /// That of one end.
    pub fn of(&self, end: Side) -> Option<u32> {
        match end {
            Side::Tx => self.tx,
            Side::Rx => self.rx,
            Side::Reply => self.reply,
        }
    }
}

/// How many threads each CPU of each host has been given.
pub type Taken = BTreeMap<HostId, BTreeMap<u32, u32>>;

/// What the streams' threads, of which `chosen` are the CPUs, take of them.
pub fn taken(setup: &Setup, chosen: &[Placed]) -> Taken {
    let mut taken = Taken::new();
    for (stream, placed) in setup.streams.iter().zip(chosen) {
        let [from, to] = hosts(setup, stream);
        for (host, cpu) in [(from, placed.tx), (to, placed.rx), (from, placed.reply)] {
            if let Some(cpu) = cpu {
                *taken.entry(host).or_default().entry(cpu).or_default() += 1;
            }
        }
    }
    taken
}

fn hosts(setup: &Setup, stream: &Stream) -> [HostId; 2] {
    [&stream.from, &stream.to].map(|name| station::host_of(setup, name))
}

/// The CPUs of both ends of a stream. Ends on two hosts have nothing to do with each other: there `same` and `different` are `auto`.
fn both(stream: &Stream, [from, to]: [HostId; 2], found: &FactsByHost, taken: &mut Taken) -> Result<Chosen, NoSuchCpu> {
    let (tx, rx) = (stream.tx.cpu, stream.rx.cpu);
    if from == to {
        return cpus::choose(tx, rx, &found[from].usable, taken.entry(from).or_default());
    }
    let (tx, of_tx) = cpus::beside(tx, None, &found[from].usable, taken.entry(from).or_default())?;
    let (rx, of_rx) = cpus::beside(rx, None, &found[to].usable, taken.entry(to).or_default())?;
    Ok(Chosen { tx, rx, short: of_tx.into_iter().chain(of_rx).collect() })
}

/// The CPUs of a cell's threads, stream by stream, with what could not be had.
///
/// # Errors
/// A CPU that its host does not have, or two threads that would starve each other.
pub fn place(setup: &Setup, found: &FactsByHost) -> Result<(Vec<Placed>, Vec<String>), PlaceError> {
    let mut taken = Taken::new();
    let (mut chosen, mut short) = (Vec::new(), Vec::new());
    for stream in &setup.streams {
        let failed = |why| PlaceError::Cpu { stream: stream.name.clone(), why };
        let [from, to] = hosts(setup, stream);
        let both = both(stream, [from, to], found, &mut taken).map_err(failed)?;
        let (reply, lacking) = match stream.kind {
            Kind::Reflected => {
                let taken = taken.entry(from).or_default();
                cpus::beside(stream.reply.cpu, both.tx, &found[from].usable, taken).map_err(failed)?
            }
            Kind::Cyclic | Kind::Pingpong => (None, None),
        };
        short.extend(both.short.iter().chain(&lacking).map(|what| format!("stream `{}`: {what}", stream.name)));
        chosen.push(Placed { tx: both.tx, rx: both.rx, reply });
    }
    let host_of = |stream: usize, end: Side| hosts(setup, &setup.streams[stream])[usize::from(end == Side::Rx)];
    let cpu_of = |stream: usize, end: Side| {
        let cpu = chosen[stream].of(end)?;
        Some(CpuId { host: host_of(stream, end), cpu })
    };
    if let Some((one, other)) = placement::clash(&setup.streams, cpu_of) {
        let name = |(stream, end): (usize, Side)| format!("{}.{end}", setup.streams[stream].name);
        return Err(PlaceError::TwoSpinners(format!(
            "{} and {} would both spin with a realtime policy on CPU {} and starve each other: give them different CPUs, \
             let one wait by \"block\", or use policy \"other\"",
            name(one),
            name(other),
            chosen[one.0].of(one.1).unwrap_or_default()
        )));
    }
    Ok((chosen, short))
}
