// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checked experiment: every default filled in, every case and axis worked out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use tardy_model::copy::Copying;
use tardy_model::expect::Expectation;
use tardy_model::load::Load;
use tardy_model::machine::HostId;
use tardy_model::path::{Backend, BpfJit, Devices, MacvtapMode, PathKind, PathTraits};
use tardy_model::shaper::Shaper;
use tardy_model::station::{Machine, MachinePart, Passed, StationKind};
use tardy_model::stream::{CpuChoice, Ip, Kind, Policy, Side, Stream, UNDER_TEST, Wait, all_simulated};
use tardy_model::validity::Validity;
use tardy_model::xdp::XdpMode;

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

/// A station of a set-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    pub kind: StationKind,
    /// The machine on which it is.
    pub host: HostId,
    /// What is virtual about that machine, where the station is one; `None` for other kinds.
    pub machine: Option<Machine>,
    /// The threads of that machine that the cell places, on the host that runs it. Cells that
    /// differ in this share the machine.
    pub threads: BTreeMap<MachinePart, MachineThreads>,
    /// Further machines like that one.
    pub bystanders: Bystanders,
    /// How that machine is reached, where it is another one that is there anyway.
    pub remote: Option<Remote>,
    /// Of a station that is a machine's own network: which of its addresses is meant; `None` for
    /// the one by which ssh goes.
    pub address: Option<IpAddr>,
    /// It is in a virtual machine behind this network device of the machine on which the experiment
    /// is run.
    pub tap: Option<String>,
}

/// A machine that is reached over ssh.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remote {
    /// Where it is, as OpenSSH's client takes it: `HOST`, `USER@HOST` or `ssh://USER@HOST:PORT`.
    pub ssh: String,
    /// Programs become root there by `sudo -n`.
    pub sudo: bool,
}

impl Remote {
    /// The longest name of a machine, bytes: a user's name has 32 and a host's 253, and there is
    /// more around them.
    pub const LONGEST: usize = 300;

    /// True of what may be given to OpenSSH's client as a machine. It must not take any part of it
    /// for an option; and a user's configuration may hand the parts to a shell, so nothing may be
    /// in them that means something there, also not encoded (`%0a`).
    pub fn is_called(text: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@:/[]".contains(&byte);
        let is_option = text.split(['@', '/', ':', '[']).any(|part| part.starts_with('-'));
        (1..=Self::LONGEST).contains(&text.len()) && !is_option && text.bytes().all(is_plain)
    }
}

/// Virtual machines that run next to that of a station, and in which nothing of the experiment is.
/// Cells share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bystanders {
    pub count: usize,
    /// Each of their processors computes all the time.
    pub compute: bool,
    /// Those of this cell: as many.
    pub hosts: Vec<HostId>,
}

/// How the threads of a virtual machine that do the same are to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineThreads {
    /// The CPU of the host that runs the machine; `None` for any.
    pub cpu: Option<u32>,
    pub policy: Policy,
}

impl Station {
    /// A station of this kind on the machine on which the experiment is run.
    pub const fn here(kind: StationKind) -> Station {
        let bystanders = Bystanders { count: 0, compute: false, hosts: Vec::new() };
        Station {
            kind,
            host: HostId::HERE,
            machine: None,
            threads: BTreeMap::new(),
            bystanders,
            remote: None,
            address: None,
            tap: None,
        }
    }

    /// The machine on which it is, and the bystanders'.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        std::iter::once(self.host).chain(self.bystanders.hosts.iter().copied())
    }
}

/// What is built and sent for one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    pub stations: BTreeMap<String, Station>,
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
    /// The longest that a CPU may take to wake from idle, µs; `None` leaves it to the machine.
    pub dma_latency_us: Option<i32>,
    /// A ptp4l on each of the path's devices observes how far the clocks are apart.
    pub observes_ptp: bool,
    /// What is copied, of an experiment of kind `copy`: it has neither stations nor streams.
    pub copy: Option<Copying>,
}

impl Setup {
    /// True if nothing is built for it: it copies memory, or every stream goes through port `sim`.
    pub fn builds_nothing(&self) -> bool {
        self.copy.is_some() || all_simulated(&self.streams)
    }

    /// True if a stream needs IPv6 addresses on the path.
    pub fn has_ipv6(&self) -> bool {
        self.streams.iter().any(|stream| stream.ip == Ip::Ipv6)
    }
}

/// How the stations are joined. [`PathTraits`] describes its kind; here is what the experiment
/// sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub kind: PathKind,
    /// Greatest IP packet, bytes.
    pub mtu: u32,
    /// Transmit and receive queues of each end; `None` where the path does not make its devices.
    pub queues: Option<u32>,
    /// The network devices that the experiment names, in the order of the stations, a virtual
    /// machine last.
    pub named: Vec<String>,
    /// Devices that have addresses may be taken too.
    pub take: bool,
    /// Where XDP programs run that hand its packets on.
    pub xdp_mode: XdpMode,
    /// They print each packet.
    pub xdp_prints: bool,
    /// Whether the kernel compiles them.
    pub bpf_jit: BpfJit,
    /// What path `macvtap` lets pass.
    pub macvtap_mode: MacvtapMode,
    /// On path `vfio` the machine has a virtual function of the device, and not all of it.
    pub vf: bool,
}

/// The ports that a guest has for path `vfio`, on one hub: that of the other station, one for a
/// machine to have whole, and one of which a machine has a virtual function.
pub const PORTS: [&str; 3] = ["eth0", "eth1", "eth2"];

impl Path {
    /// A path of this kind that makes its devices.
    pub fn made(kind: PathKind, queues: u32, mtu: u32) -> Path {
        Path { queues: Some(queues), ..Path::given(kind, mtu) }
    }

    /// One whose devices are there, with the defaults of all other keys.
    pub fn given(kind: PathKind, mtu: u32) -> Path {
        Path {
            kind,
            mtu,
            queues: None,
            named: Vec::new(),
            take: false,
            xdp_mode: XdpMode::Native,
            xdp_prints: false,
            bpf_jit: BpfJit::AsSet,
            macvtap_mode: MacvtapMode::Bridge,
            vf: false,
        }
    }

    /// On path `vfio` the device of the station that is no machine, and what the machine has.
    pub fn passed(&self) -> Option<(&str, Passed)> {
        if self.traits().devices.backend() != Some(Backend::Vfio) {
            return None;
        }
        let (near, device, is_guests) = match &self.named[..] {
            [near, device] => (near.as_str(), device.as_str(), false),
            _ => (PORTS[0], PORTS[1 + usize::from(self.vf)], true),
        };
        Some((near, Passed { device: device.to_owned(), is_guests, vf: self.vf }))
    }

    /// On a way into a virtual machine that leads over a cable: the device of the station that is
    /// no machine, and that by which packets leave the machine's side.
    pub fn uplink(&self) -> Option<[&str; 2]> {
        match &self.named[..] {
            [near, uplink] if self.traits().takes_uplink => Some([near, uplink]),
            _ => None,
        }
    }

    /// True if all its devices are the run's own, whose names differ from run to run.
    pub fn has_only_the_runs_devices(&self) -> bool {
        self.traits().devices.are_the_runs() && self.named.is_empty()
    }

    /// What its kind is.
    pub const fn traits(&self) -> PathTraits {
        self.kind.traits()
    }

    /// Devices that are there before the path is, in the order of the stations, a virtual machine
    /// last.
    pub fn devices(&self) -> Vec<&str> {
        match self.traits().devices {
            Devices::Made { .. } | Devices::Own => Vec::new(),
            Devices::There(devices) => devices.to_vec(),
            Devices::Named | Devices::OfGuest(_) => self.named.iter().map(String::as_str).collect(),
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

/// True if the thread spins under a realtime policy: nothing else of its priority or below runs on
/// its CPU meanwhile.
pub fn spins_realtime(stream: &Stream, side: Side) -> bool {
    let (spins, policy) = match side {
        Side::Tx if stream.kind == Kind::Pingpong => (stream.tx.wait == Wait::Spin, stream.tx.policy),
        Side::Tx => (stream.tx.spin.0 > 0, stream.tx.policy),
        // Who polls a device at AF_XDP's sockets does not sleep either.
        Side::Rx if stream.rx.port.passes_xdp() => {
            (matches!(stream.rx.wait, Wait::Spin | Wait::Busypoll), stream.rx.policy)
        }
        Side::Rx => (stream.rx.wait == Wait::Spin, stream.rx.policy),
        Side::Reply => (stream.tx.wait == Wait::Spin, stream.reply.policy),
    };
    spins && policy.is_realtime() && !stream.port.traits().is_simulated
}

/// A thread of a stream.
pub type StreamThread<'s> = (&'s Stream, Side);

/// The first two threads that spin under a realtime policy on one CPU, and that CPU. Each stream
/// comes with what is known about it, from which `cpu_of` finds a thread's CPU; `None` if that is
/// not known or not a single one.
pub fn clash<'s, K, C: PartialEq>(
    streams: impl Iterator<Item = (&'s Stream, K)>,
    cpu_of: impl Fn(&'s Stream, &K, Side) -> Option<C>,
) -> Option<(C, StreamThread<'s>, StreamThread<'s>)> {
    let mut seen: Vec<(C, StreamThread<'s>)> = Vec::new();
    for (stream, known) in streams {
        for end in Side::of(stream) {
            let Some(cpu) = cpu_of(stream, &known, end).filter(|_| spins_realtime(stream, end)) else { continue };
            if let Some((_, earlier)) = seen.iter().find(|(taken, _)| *taken == cpu) {
                return Some((cpu, *earlier, (stream, end)));
            }
            seen.push((cpu, (stream, end)));
        }
    }
    None
}

/// The thread of a stream that is at a station, with which it begins or ends.
pub fn thread_at(stream: &Stream, station: &str) -> Option<Side> {
    match station {
        _ if stream.from == station => Some(Side::Tx),
        _ if stream.to == station => Some(Side::Rx),
        _ => None,
    }
}

/// The thread of a stream that receives at a station.
pub fn receives_at(stream: &Stream, station: &str) -> Option<Side> {
    match stream.kind {
        _ if stream.to == station => Some(Side::Rx),
        Kind::Reflected if stream.from == station => Some(Side::Reply),
        Kind::Pingpong if stream.from == station => Some(Side::Tx),
        Kind::Cyclic | Kind::Reflected | Kind::Pingpong => None,
    }
}

/// The thread that receives at a station: that of the stream under test, which is called `ctl` or
/// comes first; else that of the first stream that has one there.
pub fn receiver_at<'s>(streams: &'s [Stream], station: &str) -> Option<StreamThread<'s>> {
    let under_test = streams.iter().find(|stream| stream.name == UNDER_TEST);
    let in_order = under_test.into_iter().chain(streams);
    in_order.filter_map(|stream| Some((stream, receives_at(stream, station)?))).next()
}
