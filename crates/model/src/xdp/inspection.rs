// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is found on a path before the first packet of a trial: BPF programs of others on its
//! devices, what a user's own program shows in its code, and probe packets.

use super::special::SpecialRecord;
use crate::passed::Passing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a BPF program is attached to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "program_hook")]
pub enum ProgramHook {
    /// XDP, run by the driver.
    XdpNative,
    /// XDP, run by the kernel after the driver.
    XdpGeneric,
    /// XDP, run by the device.
    XdpOffload,
    /// A filter of a clsact or ingress queue discipline.
    TcIngress,
    /// A filter of a clsact queue discipline.
    TcEgress,
    /// Attached without a queue discipline (tcx).
    TcxIngress,
    /// Attached without a queue discipline (tcx).
    TcxEgress,
}

impl ProgramHook {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            ProgramHook::XdpNative => "xdp-native",
            ProgramHook::XdpGeneric => "xdp-generic",
            ProgramHook::XdpOffload => "xdp-offload",
            ProgramHook::TcIngress => "tc-ingress",
            ProgramHook::TcEgress => "tc-egress",
            ProgramHook::TcxIngress => "tcx-ingress",
            ProgramHook::TcxEgress => "tcx-egress",
        }
    }

    /// It sees packets that leave by its device.
    pub const fn is_on_leaving(self) -> bool {
        match self {
            ProgramHook::TcEgress | ProgramHook::TcxEgress => true,
            ProgramHook::XdpNative | ProgramHook::XdpGeneric | ProgramHook::XdpOffload => false,
            ProgramHook::TcIngress | ProgramHook::TcxIngress => false,
        }
    }

    /// It sees packets that arrive, before packet sockets do.
    pub const fn is_before_taps(self) -> bool {
        match self {
            ProgramHook::XdpNative | ProgramHook::XdpGeneric | ProgramHook::XdpOffload => true,
            ProgramHook::TcIngress | ProgramHook::TcxIngress => false,
            ProgramHook::TcEgress | ProgramHook::TcxEgress => false,
        }
    }
}

/// What went wrong with packets that a program decided about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "program_fault_kind")]
pub enum FaultKind {
    /// The kernel could not redirect them.
    Redirect,
    /// They were redirected to a device that did not take them.
    Drop,
    /// The program aborted, or what it decided could not be done.
    Abort,
}

/// Packets that went wrong in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "program_fault")]
pub struct ProgramFault {
    /// At which step they went wrong.
    pub kind: FaultKind,
    /// How many packets had this fault.
    pub packets: u64,
    /// errno; of `abort` what the program decided, 0 for `XDP_ABORTED`.
    pub code: i32,
    /// Number of the device to which they were to go, or the key in the program's map.
    pub to: u32,
    /// `to` is a key in a map.
    pub by_map: bool,
    /// The name of that device; null where none in the program's namespace has the number.
    pub device: Option<String>,
}

/// What a program did while probe packets passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "program_seen")]
pub struct ProgramSeen {
    /// How often it ran, by the kernel's count.
    pub runs: u64,
    /// How long it ran in sum, by the kernel's count, ns.
    pub run_ns: u64,
    /// Lines that it wrote into the kernel's trace (`bpf_printk`).
    pub lines: u64,
    /// Packets that went wrong.
    pub faults: Vec<ProgramFault>,
}

/// A program that was attached to a device of the path before tardy attached one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "program")]
pub struct ProgramRecord {
    /// The station whose device it is, or that watches a device inside the path.
    pub station: String,
    /// The device's name there.
    pub device: String,
    /// The network namespace of a device inside the path; null for a station's own.
    #[serde(default)]
    pub netns: Option<String>,
    /// Where it is attached.
    pub hook: ProgramHook,
    /// Its name, which the kernel cuts at 15 bytes.
    pub name: String,
    /// Its id, as `bpftool` and `ip` show it.
    pub id: u32,
    /// Hash of its instructions.
    pub tag: String,
    /// It runs after a driver that could run it itself.
    pub could_be_native: bool,
    /// It is the path's own, on a device inside the path.
    #[serde(default)]
    pub of_path: bool,
    /// What it did; null where that could not be watched.
    pub seen: Option<ProgramSeen>,
}

impl ProgramFault {
    /// What happened, for a sentence.
    pub fn says(&self) -> String {
        let packets = if self.packets == 1 { "1 packet".to_owned() } else { format!("{} packets", self.packets) };
        let to = match (&self.device, self.by_map) {
            (_, true) => format!("what its map has at key {}", self.to),
            (Some(device), _) => format!("{device} (device number {})", self.to),
            (None, _) => format!("device number {}, which no device there has", self.to),
        };
        match self.kind {
            FaultKind::Redirect => format!("the kernel could not redirect {packets} to {to} (errno {})", self.code),
            FaultKind::Drop => format!("{packets} redirected to {to} were dropped there (errno {})", self.code),
            FaultKind::Abort if self.code == 0 => format!("it aborted {packets}"),
            FaultKind::Abort => format!("what it decided about {packets} ({}) was not possible", self.code),
        }
    }
}

impl ProgramRecord {
    /// Which one it is, for a sentence.
    pub fn called(&self) -> String {
        let whose = match &self.netns {
            Some(netns) => format!("inside the path (namespace {netns})"),
            None => format!("of {}", self.station),
        };
        format!("program `{}` (id {}, {}) on {} {whose}", self.name, self.id, self.hook.name(), self.device)
    }
}

/// What a piece of a program costs: the program as it is against the same program without it, run
/// by the kernel on one packet again and again (`BPF_PROG_RUN`), in turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "program_cost")]
pub struct ProgramCost {
    /// Median of the differences of the pairs, ns for each run.
    pub ns: f64,
    /// Its least value with a confidence of at least 95 %.
    pub low_ns: f64,
    /// Its largest value with a confidence of at least 95 %.
    pub high_ns: f64,
    /// Pairs of runs, with the piece and without it, that were compared.
    pub pairs: u32,
}

/// A network device in a network namespace by name, as one inside a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceWithin {
    pub netns: String,
    pub device: String,
    /// A program there belongs to the path: only what is wrong with it is reported.
    pub has_program: bool,
}

/// Probe packets that are to arrive at a station, or to come in by a device on their way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitedProbes {
    pub device: String,
    /// The network namespace of a device inside the path; `None` for one of the station's.
    pub netns: Option<String>,
    /// The bytes by which each is known.
    pub mark: Vec<u8>,
    /// The EtherType of the protocol whose sockets are to get them, behind the filters of tc;
    /// `None` where the stream's receiver takes its packets before these.
    pub protocol: Option<u16>,
}

/// The device by which a machine reaches itself.
pub const LOOPBACK: &str = "lo";

/// The TTL that probe packets are sent with; over IPv6 the hop limit. Each router takes one.
pub const PROBE_TTL: u8 = 64;

/// Those of them that arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrivedProbes {
    /// By the VLAN tags that they arrived with.
    pub by_tags: BTreeMap<u8, u32>,
    /// Those with a tag by the priority (PCP) in the outermost one.
    pub by_pcp: BTreeMap<u8, u32>,
    /// Those of them that lack the checksum of UDP or TCP, and of which the kernel does not know
    /// that it is still to be written.
    pub without_checksum: u32,
    /// The least TTL that one of them arrived with; `None` of frames without IP.
    pub least_ttl: Option<u8>,
    /// Behind the filters of tc; `None` where nobody looked there.
    pub let_on: Option<u32>,
}

/// Probe packets of one way of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "probe")]
pub struct ProbeRecord {
    /// The stream whose packets they are like.
    pub stream: String,
    /// The station that sent them.
    pub from: String,
    /// The station that they were sent to.
    pub to: String,
    /// Packets that the device took.
    pub sent: u32,
    /// VLAN tags of each as it was sent.
    pub tags: u8,
    /// Packets that arrived, by the number of tags that they had then.
    pub by_tags: BTreeMap<u8, u32>,
    /// Those with a tag by the priority (PCP) in the outermost one; empty of versions that did not
    /// keep it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_pcp: BTreeMap<u8, u32>,
    /// Devices inside the path by which they came in on their way, in that order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<ProbeHop>,
    /// Packets that the filters of tc let on to the kernel's stack; null for a stream that is
    /// received before these filters, as frames are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub let_on: Option<u32>,
    /// The least TTL (over IPv6 the hop limit) that one of them arrived with; all are sent with 64.
    /// Null of frames without IP, and of versions that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_ttl: Option<u8>,
    /// Where the sender's kernel routes such packets, on a path through what exists already; null
    /// of all others, and of versions that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<ProbeRoute>,
    /// Packets of the stream go this way too: those that it measures, or what a connection answers.
    #[serde(default = "yes")]
    pub carries: bool,
    /// Where programs can take it; null of versions that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<ProbeWay>,
}

/// What a kernel says of where it routes packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "probe_route")]
pub enum ProbeRoute {
    /// Out by this device.
    By(String),
    /// To itself: the packets do not leave the machine.
    Here,
    /// It gives none, for this reason.
    None(String),
}

/// Probe packets of one way of a stream that came in by a device inside the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "probe_hop")]
pub struct ProbeHop {
    /// The device by which they came in.
    pub device: String,
    /// Packets that came in, by the number of tags that they had then.
    pub by_tags: BTreeMap<u8, u32>,
}

/// Versions that did not keep it judged every way.
fn yes() -> bool {
    true
}

/// Where programs can take the probe packets of one way of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "probe_way")]
pub struct ProbeWay {
    /// Devices that it leaves by, whose filters the stream's packets pass as well; empty where they
    /// pass none.
    pub leaves: Vec<String>,
    /// The device that it arrives at, and the VLAN device above it by which the stream's receiver
    /// has it.
    pub arrives: Vec<String>,
    /// A queue discipline may drop the probe, or hold it until it is too late: nothing is concluded
    /// from one that does not arrive.
    pub is_held: bool,
    /// Nothing but a program can take the probe: all devices were made for the path, and it is like
    /// the stream's packets also for what looks at connections.
    pub is_certain: bool,
    /// It is like them also for what looks at connections: not of TCP, whose probes belong to none.
    /// False of versions that did not keep it.
    #[serde(default)]
    pub is_like_the_streams: bool,
}

impl ProbeRecord {
    /// The stream goes this way, and nothing but a program can take its probes.
    pub fn is_certain(&self) -> bool {
        self.carries && self.way.as_ref().is_some_and(|way| way.is_certain)
    }

    /// The device took some, and none came to where the stream's receiver takes its packets.
    pub fn is_lost(&self) -> bool {
        self.sent > 0 && self.let_on.unwrap_or(self.arrived()) == 0
    }

    /// Routers on the way, by what they took of the TTL, where the kernel routes the probes.
    pub fn routers(&self) -> u8 {
        self.least_ttl.filter(|_| self.route.is_some()).map_or(0, |ttl| PROBE_TTL.saturating_sub(ttl))
    }

    /// The device that has the sender's address, where that is known.
    pub fn leaves_at(&self) -> Option<&str> {
        self.way.as_ref()?.leaves.first().map(String::as_str)
    }

    /// Packets of the stream go this way, and not from and to the devices that have the stations'
    /// addresses, as far as that is seen.
    pub fn strays(&self) -> bool {
        let is_there = |device: &str| self.leaves_at().is_none_or(|at| at == device);
        let is_elsewhere = match &self.route {
            None => return false,
            Some(ProbeRoute::By(device)) => !is_there(device),
            Some(ProbeRoute::Here) => !is_there(LOOPBACK),
            Some(ProbeRoute::None(_)) => true,
        };
        let is_like = self.way.as_ref().is_some_and(|way| way.is_like_the_streams);
        self.carries && (is_elsewhere || is_like && self.arrived() == 0)
    }

    /// Packets that arrived, whatever tags they had then.
    pub fn arrived(&self) -> u32 {
        self.by_tags.values().sum()
    }

    /// The places between which packets got a further tag, the last one before it and the first one
    /// behind it: stations, or devices inside the path. `None` where nobody looked on the way.
    pub fn adds_between(&self) -> Option<[&str; 2]> {
        let most = |by_tags: &BTreeMap<u8, u32>| by_tags.keys().next_back().copied();
        let hops = self.hops.iter().filter_map(|hop| Some((hop.device.as_str(), most(&hop.by_tags)?)));
        let places = [(self.from.as_str(), self.tags)].into_iter().chain(hops);
        let places: Vec<_> = places.chain(most(&self.by_tags).map(|tags| (self.to.as_str(), tags))).collect();
        let added = places.windows(2).find(|pair| pair[1].1 > pair[0].1).map(|pair| [pair[0].0, pair[1].0]);
        added.filter(|_| !self.hops.is_empty())
    }

    /// Packets that arrived with more tags than they were sent with.
    pub fn with_more_tags(&self) -> u32 {
        self.by_tags.range(self.tags.saturating_add(1)..).map(|(_, packets)| packets).sum()
    }
}

/// What the code of a user's own XDP program shows before it is attached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "program_object")]
pub struct ObjectRecord {
    /// The station that receives through it.
    pub station: String,
    /// Name of the program in the object.
    pub program: String,
    /// Functions of the object that write lines into the kernel's trace, once for each call.
    pub lines: Vec<String>,
    /// What these calls cost each run of the program; null if there are none.
    pub cost: Option<ProgramCost>,
    /// Why that could not be measured; null if it was, or if there is nothing to measure.
    pub unmeasured: Option<String>,
    /// Redirects to a device whose number is written into the code.
    pub devices: Vec<NumberedDevice>,
    /// Further redirects that were not searched to the end for such a number, or are too many to
    /// be listed.
    #[serde(default)]
    pub unsearched: u64,
}

/// Calls of one kind that a record lists; with more, the object's author needs no list.
pub const MOST_CALLS: usize = 256;

impl ObjectRecord {
    /// The same with as many calls of each kind as are listed: another host may send any number.
    #[must_use]
    pub fn bounded(mut self) -> ObjectRecord {
        let left_out = self.devices.len().saturating_sub(MOST_CALLS) as u64;
        self.lines.truncate(MOST_CALLS);
        self.devices.truncate(MOST_CALLS);
        ObjectRecord { unsearched: self.unsearched.saturating_add(left_out), ..self }
    }
}

/// A device that a program knows by a number in its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "numbered_device")]
pub struct NumberedDevice {
    /// The function that has the number.
    pub function: String,
    /// Number of the device (ifindex), as the code has it.
    pub number: u32,
    /// The name of the device that has it at the station; null if there is none.
    pub device: Option<String>,
}

/// What was found on the path before the first packet of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "inspection")]
pub struct Inspection {
    /// Programs on its devices.
    pub programs: Vec<ProgramRecord>,
    /// What one line of a program's costs at a station where one wrote some.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub line_costs: BTreeMap<String, ProgramCost>,
    /// Why that could not be measured, by station.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unmeasured: BTreeMap<String, String>,
    /// Why what programs do could not be watched, by station.
    pub unchecked: BTreeMap<String, String>,
    /// What the code of users' own programs shows, which port `xdp` loads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectRecord>,
    /// Probe packets, each way of each stream.
    pub probes: Vec<ProbeRecord>,
    /// Frames that a path may treat otherwise than short ones for one receiver, each way between
    /// two stations; empty where a queue discipline may hold them.
    #[serde(default, alias = "groups", skip_serializing_if = "Vec::is_empty")]
    pub special: Vec<SpecialRecord>,
    /// What the devices counted meanwhile that all packets pass; null where the path has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Passing>,
}

impl Inspection {
    /// Nothing was found that is worth a word.
    pub fn is_clean(&self) -> bool {
        let is_silent =
            |object: &ObjectRecord| object.lines.is_empty() && object.devices.is_empty() && object.unsearched == 0;
        self.programs.is_empty()
            && self.objects.iter().all(is_silent)
            && self.probes.iter().all(|probe| probe.with_more_tags() == 0 && !probe.strays())
            && self.lost_special().next().is_none()
    }

    /// Special frames of which none arrives, where the probes of a stream do.
    pub fn lost_special(&self) -> impl Iterator<Item = &SpecialRecord> {
        let is_way = |of: &SpecialRecord, probe: &ProbeRecord| probe.from == of.from && probe.to == of.to;
        self.special.iter().filter(move |of| {
            let passes = || self.probes.iter().any(|probe| is_way(of, probe) && probe.arrived() > 0);
            of.is_lost() && passes()
        })
    }

    /// A way on which no packet of a stream can be measured: the probes arrive with more tags than
    /// they were sent with; or packets of the stream go this way, no probe comes through, and a
    /// program at one of its ends sends packets where nobody takes them, or saw the probes and may
    /// have taken them.
    pub fn dead_end(&self) -> Option<&ProbeRecord> {
        let is_faulty = |program: &&ProgramRecord| program.seen.as_ref().is_some_and(|seen| !seen.faults.is_empty());
        let by_fault = |probe: &ProbeRecord| {
            let mut faulty = self.programs.iter().filter(is_faulty);
            faulty.any(|program| program.station == probe.from || program.station == probe.to)
        };
        let by_taker = |probe: &ProbeRecord| probe.is_certain() && !self.takers(probe).is_empty();
        let by_program = |probe: &ProbeRecord| by_fault(probe) || by_taker(probe);
        self.probes
            .iter()
            .find(|probe| probe.with_more_tags() > 0 || probe.carries && probe.is_lost() && by_program(probe))
    }

    /// Programs that may have taken the probes of a way on which none comes through: each ran for
    /// all probes that come by its place, and these came no further. On a path through other
    /// machines these may have lost them too.
    pub fn takers<'i>(&'i self, probe: &ProbeRecord) -> Vec<&'i ProgramRecord> {
        let Some(way) = probe.way.as_ref().filter(|_| probe.is_lost()) else { return Vec::new() };
        if probe.arrived() == 0 && way.is_held {
            return Vec::new();
        }
        // Packet sockets come behind XDP of their device, and before its filters and what the VLAN
        // device above it does.
        let (base, above) = way.arrives.split_at(way.arrives.len().min(1));
        let has = |devices: &[String], program: &ProgramRecord| devices.contains(&program.device);
        let arriving = |program: &&ProgramRecord| {
            let is_there = match probe.arrived() {
                0 => has(base, program) && program.hook.is_before_taps(),
                _ => has(base, program) && !program.hook.is_before_taps() || has(above, program),
            };
            program.station == probe.to && is_there && !program.hook.is_on_leaving()
        };
        let leaving = |program: &&ProgramRecord| {
            program.station == probe.from && has(&way.leaves, program) && program.hook.is_on_leaving()
        };
        let ran_for_all = |program: &&ProgramRecord| {
            let runs = program.seen.as_ref().map_or(0, |seen| seen.runs);
            runs > 0 && runs >= self.probes_by(program)
        };
        let takers: Vec<_> = self.programs.iter().filter(arriving).filter(ran_for_all).collect();
        // What ran where they arrived shows that they had left.
        if !takers.is_empty() || probe.arrived() > 0 {
            return takers;
        }
        self.programs.iter().filter(leaving).filter(ran_for_all).collect()
    }

    /// Probe packets that come by a program's place, if no other program takes them before.
    fn probes_by(&self, program: &ProgramRecord) -> u64 {
        let comes_by = |probe: &&ProbeRecord| {
            let Some(way) = &probe.way else { return false };
            match program.hook.is_on_leaving() {
                true => probe.from == program.station && way.leaves.contains(&program.device),
                false => probe.to == program.station && way.arrives.contains(&program.device),
            }
        };
        self.probes.iter().filter(comes_by).map(|probe| u64::from(probe.sent)).sum()
    }
}
