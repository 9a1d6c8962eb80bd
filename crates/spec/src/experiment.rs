// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checked experiment: every default filled in, every case and axis worked out.

use std::collections::BTreeMap;
use tardy_model::expect::Expectation;
use tardy_model::load::Load;
use tardy_model::path::StationKind;
use tardy_model::path::{Devices, PathKind, PathTraits};
use tardy_model::stream::{CpuChoice, Ip, Stream, all_simulated};
use tardy_model::validity::Validity;

pub use tardy_model::shaper::Shaper;

/// An experiment that can be planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    pub name: String,
    /// Repetitions of each cell.
    pub trials: u32,
    /// Seed of phases, nonces and the order of trials.
    pub seed: u64,
    /// The table of the reference results that its figures are compared with.
    pub reference: Option<String>,
    /// What is set of the rules of validity.
    pub validity: Validity,
    /// Cells in the order of the file: cases × axes.
    pub cells: Vec<Cell>,
    /// The effective file: defaults and overrides written out; loading it again gives the same
    /// experiment.
    pub effective: String,
}

/// One combination of cases × axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub id: String,
    /// Full dotted key → value, for the axes; the case's name under `case`.
    pub axes: BTreeMap<String, String>,
    pub setup: Setup,
    /// What the user expects of it.
    pub expect: Vec<Expectation>,
    /// Its case may be missing: where a machine refuses to set it up, it is not available, and the
    /// run's other cells keep their results.
    pub optional: bool,
}

/// What is built and sent for one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    pub stations: BTreeMap<String, StationKind>,
    /// How they are joined.
    pub path: Path,
    /// The sender's queue discipline.
    pub shaper: Shaper,
    /// Streams in the order of the file.
    pub streams: Vec<Stream>,
    /// Background loads that have an instance, in the order of the file.
    pub loads: Vec<Load>,
    /// Who takes arriving packets in.
    pub softirq: Softirq,
}

impl Setup {
    /// True if every stream goes through port `sim`: then nothing is built.
    pub fn is_simulated(&self) -> bool {
        all_simulated(&self.streams)
    }

    /// The devices that exist before the path, each with its station; none where the path makes its
    /// own.
    pub fn devices(&self) -> impl Iterator<Item = (&str, &str)> {
        self.stations.keys().map(String::as_str).zip(self.path.devices().into_iter().flatten())
    }

    /// The device of a station that is there before the path is.
    pub fn device_of(&self, station: &str) -> Option<&str> {
        self.devices().find(|(at, _)| *at == station).map(|(_, device)| device)
    }

    /// True if a stream needs IPv6 addresses on the path.
    pub fn has_ipv6(&self) -> bool {
        self.streams.iter().any(|stream| stream.ip == Ip::Ipv6)
    }
}

/// How two stations are joined. [`PathTraits`] describes its kind; here is what the experiment
/// sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub kind: PathKind,
    /// Greatest IP packet, bytes.
    pub mtu: u32,
    /// Transmit and receive queues of each end; `None` where the path does not make its devices.
    pub queues: Option<u32>,
    /// The network devices that the experiment names, in the order of the stations; `None` where
    /// it names none.
    pub named: Option<[String; 2]>,
    /// Devices that have addresses may be taken too.
    pub take: bool,
}

impl Path {
    /// A path of this kind that makes its devices.
    pub const fn made(kind: PathKind, queues: u32, mtu: u32) -> Path {
        Path { kind, mtu, queues: Some(queues), named: None, take: false }
    }

    /// What its kind is.
    pub const fn traits(&self) -> PathTraits {
        self.kind.traits()
    }

    /// Devices that are there before the path is, in the order of the stations.
    pub fn devices(&self) -> Option<[&str; 2]> {
        match self.traits().devices {
            Devices::Made { .. } => None,
            Devices::There(devices) => Some(devices),
            Devices::Named => self.named.as_ref().map(|[a, b]| [a.as_str(), b.as_str()]),
        }
    }
}

/// Who takes in the packets that arrive at the stations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Softirq {
    /// They take NAPI, and kernel threads poll the devices (path veth).
    pub napi: bool,
    /// On which CPU, by station; one that is not named leaves it to the kernel.
    pub cpus: BTreeMap<String, CpuChoice>,
    /// Tagged packets go into the receive queue of their priority.
    pub by_pcp: bool,
}
