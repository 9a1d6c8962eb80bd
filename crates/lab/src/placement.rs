// SPDX-License-Identifier: MIT OR Apache-2.0
//! On which CPU each thread of a cell's streams runs. Pure but for the list of CPUs.

use crate::station::NoStation;
use std::collections::BTreeMap;
use tardy_host::cpus::{self, NoSuchCpu};
use tardy_model::stream::Kind;
use tardy_model::stream::Side;
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

/// The CPUs of a cell's threads, stream by stream, with what could not be had.
pub fn place(setup: &Setup) -> Result<(Vec<Placed>, Vec<String>), PlaceError> {
    place_on(setup, &cpus::usable())
}

/// The same on a machine with these CPUs.
pub fn place_on(setup: &Setup, usable: &[u32]) -> Result<(Vec<Placed>, Vec<String>), PlaceError> {
    let mut taken = BTreeMap::new();
    let (mut chosen, mut short) = (Vec::new(), Vec::new());
    for stream in &setup.streams {
        let failed = |why| PlaceError::Cpu { stream: stream.name.clone(), why };
        let both = cpus::choose(stream.tx.cpu, stream.rx.cpu, usable, &mut taken).map_err(failed)?;
        let (reply, lacking) = match stream.kind {
            Kind::Reflected => cpus::beside(stream.reply.cpu, both.tx, usable, &mut taken).map_err(failed)?,
            Kind::Cyclic | Kind::Pingpong => (None, None),
        };
        short.extend(both.short.iter().chain(&lacking).map(|what| format!("stream `{}`: {what}", stream.name)));
        chosen.push(Placed { tx: both.tx, rx: both.rx, reply });
    }
    let cpu_of = |stream: usize, end: Side| chosen[stream].of(end);
    if let Some((one, other)) = placement::clash(&setup.streams, cpu_of) {
        let name = |(stream, end): (usize, Side)| format!("{}.{end}", setup.streams[stream].name);
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
