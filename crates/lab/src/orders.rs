// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is decided before a trial, all of it pure but for the list of CPUs: the order of trials, each trial's own
//! randomness, where each thread runs, and the order that each end of a stream is given.

use crate::path::wire;
use crate::plan::Plan;
use crate::trial::Ordered;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use tardy_engine::order::{ReceiveOrder, SendOrder, StreamOrder, ThreadOrder};
use tardy_host::cpus::{self, NoSuchCpu};
use tardy_model::stream::{Port, Stream};
use tardy_model::time::Nanos;
use tardy_spec::experiment::{Cell, Experiment, Path, Setup};
use tardy_spec::placement::{self, End};

/// A thread that cannot have the CPU that is asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// A CPU that does not exist.
    #[error("stream `{stream}`: {source}")]
    Cpu {
        /// Stream.
        stream: String,
        /// Which.
        source: NoSuchCpu,
    },
    /// Two spinning realtime threads would share a CPU and starve each other and the machine.
    #[error("{0}")]
    TwoSpinners(String),
}

/// One trial's turn.
pub struct Turn<'e> {
    /// Its cell.
    pub cell: &'e Cell,
    /// Number in the cell, from 1.
    pub n: u32,
    /// Place in the run, from 0.
    pub order: u32,
}

/// The order of trials: blocks of every cell once, each block shuffled, so that a drift of the machine does not fall on
/// one cell alone.
pub fn turns(experiment: &Experiment) -> Vec<Turn<'_>> {
    let mut random = Pcg64Mcg::seed_from_u64(experiment.seed);
    let mut turns = Vec::new();
    for n in 1..=experiment.trials {
        let mut block: Vec<&Cell> = experiment.cells.iter().collect();
        block.shuffle(&mut random);
        for cell in block {
            turns.push(Turn { cell, n, order: turns.len() as u32 });
        }
    }
    turns
}

/// A trial's own randomness: of the seed, the cell and the number, not of the order.
pub fn random_of(seed: u64, cell: &str, n: u32) -> Pcg64Mcg {
    let hash = cell
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    Pcg64Mcg::seed_from_u64(seed ^ hash ^ (u64::from(n) << 32))
}

/// True if every stream goes through port `sim`: then nothing is built.
pub fn is_simulated(setup: &Setup) -> bool {
    setup.streams.iter().all(|stream| stream.port == Port::Sim)
}

/// UDP port of stream 0; each stream has its own, in a namespace of the run's own.
const FIRST_UDP_PORT: u16 = 5_800;

/// The CPUs of a cell's threads, stream by stream, with what could not be had.
pub fn place(setup: &Setup) -> Result<(Vec<cpus::Chosen>, Vec<String>), PlaceError> {
    let usable = cpus::usable();
    let mut taken = BTreeMap::new();
    let (mut chosen, mut short) = (Vec::new(), Vec::new());
    for stream in &setup.streams {
        let both = cpus::choose(stream.tx.cpu, stream.rx.cpu, &usable, &mut taken)
            .map_err(|source| PlaceError::Cpu { stream: stream.name.clone(), source })?;
        short.extend(both.short.iter().map(|what| format!("stream `{}`: {what}", stream.name)));
        chosen.push(both);
    }
    let cpu_of = |stream: usize, end: End| match end {
        End::Tx => chosen[stream].tx,
        End::Rx => chosen[stream].rx,
    };
    if let Some((one, other)) = placement::clash(&setup.streams, cpu_of) {
        let name = |(stream, end): (usize, End)| format!("{}.{end}", setup.streams[stream].name);
        return Err(PlaceError::TwoSpinners(format!(
            "{} and {} would both spin with a realtime policy on CPU {} and starve each other: give them different CPUs, \
             let one wait by \"block\", or use policy \"other\"",
            name(one),
            name(other),
            cpu_of(one.0, one.1).unwrap_or_default()
        )));
    }
    Ok((chosen, short))
}

/// The trial's nonce, and the order of both ends of each stream.
pub fn orders(setup: &Setup, plan: &Plan, chosen: &[cpus::Chosen], random: &mut Pcg64Mcg) -> (u64, Vec<Ordered>) {
    let nonce: u64 = random.random();
    let index = |station: &str| plan.ends.keys().position(|name| name == station).unwrap_or(0);
    let end = |station: &str| {
        let end = plan.ends.get(station);
        let address = match end.map(|end| end.address) {
            Some(IpAddr::V4(address)) => address,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        (address, end.map(|end| end.device.clone()).unwrap_or_default())
    };
    let make = |(number, stream): (usize, &Stream)| {
        let order = StreamOrder {
            stream: number as u8,
            nonce,
            cycle: stream.cycle,
            count: stream.count,
            size: stream.size,
            stamps: stream.stamps.clone(),
        };
        let udp_port = FIRST_UDP_PORT + number as u16;
        let ((from, from_device), (to, to_device)) = (end(&stream.from), end(&stream.to));
        Ordered {
            from: index(&stream.from),
            to: index(&stream.to),
            send: SendOrder {
                order: order.clone(),
                thread: ThreadOrder { cpu: chosen[number].tx, policy: stream.tx.policy },
                local: from,
                peer: to,
                udp_port,
                device: from_device,
                priority: stream.priority,
                advance: stream.tx.advance,
                spin: stream.tx.spin,
                overrun: stream.overrun,
            },
            receive: ReceiveOrder {
                order,
                thread: ThreadOrder { cpu: chosen[number].rx, policy: stream.rx.policy },
                local: to,
                udp_port,
                device: to_device,
                wait: stream.rx.wait,
            },
            phase: Nanos(random.random_range(0..stream.cycle.0.max(1))),
            stream: stream.clone(),
        }
    };
    (nonce, setup.streams.iter().enumerate().map(make).collect())
}

/// True if two cells need the same path.
pub fn built_alike(a: &Setup, b: &Setup) -> bool {
    // What a wire's devices are set to stamp depends on what is asked of them.
    let stamps = || !matches!(a.path, Path::Wire { .. }) || wire::asked(a) == wire::asked(b);
    a.stations == b.stations
        && a.path == b.path
        && a.shaper == b.shaper
        && is_simulated(a) == is_simulated(b)
        && stamps()
}
