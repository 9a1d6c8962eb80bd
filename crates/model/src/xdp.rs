// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a port `xdp`: how the device gave its packets away and took them, what was lost
//! there, and where the XDP program ran. And what is found of BPF programs on a path before its
//! first packet.

use crate::point::Point;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

listed! {
    /// How packets come from the device to an AF_XDP socket, the fastest way first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum XdpMode {
        /// The driver runs the program, and the device writes packets into the socket's memory.
        ZeroCopy,
        /// The driver runs the program, and the kernel copies packets.
        Native,
        /// The kernel runs the program after the driver, on its own packet buffers, and copies.
        Generic,
    }
}

impl XdpMode {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            XdpMode::ZeroCopy => "zero-copy",
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        }
    }
}

listed! {
    /// Where an AF_XDP application runs, by the CPU that runs the XDP program.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Core {
        /// On that CPU.
        Same,
        /// On another one.
        Remote,
    }
}

impl Core {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Core::Same => "same",
            Core::Remote => "remote",
        }
    }
}

listed! {
    /// What a device may know of a packet that it received, and tardy's XDP program can ask for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DeviceHint {
        /// When it received the packet, by its own clock.
        HwTime,
        /// The hash by which it chose the queue, with its type.
        Hash,
        /// The VLAN tag that it took off.
        Vlan,
    }
}

impl DeviceHint {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceHint::HwTime => "hw_time",
            DeviceHint::Hash => "hash",
            DeviceHint::Vlan => "vlan",
        }
    }

    /// Its bit in the program's settings.
    pub const fn bit(self) -> u32 {
        match self {
            DeviceHint::HwTime => 1,
            DeviceHint::Hash => 2,
            DeviceHint::Vlan => 4,
        }
    }
}

/// One of the hints that were asked of a device, over the packets of a trial that have one of the
/// program's structs with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceHintCount {
    pub hint: DeviceHint,
    /// Packets with a value.
    pub given: u64,
    /// Packets that the device had no value for.
    pub absent: u64,
    /// Packets of which the driver, or the kernel, does not offer it.
    pub not_offered: u64,
}

/// A mode that was refused before a slower one was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpRefusal {
    pub mode: XdpMode,
    /// The kernel's reason.
    pub why: String,
}

/// The clock of the XDP program's stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XdpClock {
    Tai,
    /// Converted to TAI.
    Monotonic,
    /// Converted to TAI.
    Boottime,
    /// A user's program that writes no time, or times of several clocks.
    Unknown,
}

/// What the kernel counted at the sockets since they were bound, anybody's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpLosses {
    /// Dropped without a frame to put them in, or because they are longer than one.
    pub rx_dropped: u64,
    /// Dropped because the receive ring was full.
    pub rx_ring_full: u64,
    /// Times that the fill ring was empty. Such a packet counts in `rx_dropped` too.
    pub fill_ring_empty: u64,
    /// Frames in the fill ring that the kernel could not use.
    pub rx_invalid_descs: u64,
}

impl XdpLosses {
    /// Packets that were lost at the sockets, each once.
    pub const fn packets(self) -> u64 {
        self.rx_dropped + self.rx_ring_full
    }
}

/// A port `xdp` that receives, in one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpRecord {
    pub mode: XdpMode,
    /// Faster modes that were refused.
    pub refused: Vec<XdpRefusal>,
    /// Queues with a socket, of which all share one memory.
    pub queues: u32,
    /// Bytes of that memory.
    pub umem_bytes: u64,
    /// It is of huge pages.
    pub huge_pages: bool,
    pub clock: XdpClock,
    /// By how much the conversion of its stamps to TAI may be wrong, ns; 0 for those of TAI.
    pub clock_bound_ns: i64,
    pub losses: XdpLosses,
    /// What a receiver that waits by the schedule of its packets did; `None` of another.
    #[serde(default)]
    pub triggered: Option<TriggeredRecord>,
    /// What the program wrote before the trial's packets; empty where they were received, it is
    /// known when the rows are.
    pub seen: XdpSeen,
    /// The device's driver; empty if it does not say.
    #[serde(default)]
    pub driver: String,
    /// How the receiver waited, as `rx.wait` has it.
    #[serde(default)]
    pub wait: String,
    /// The application's CPU compared with the program's, packet by packet.
    #[serde(default)]
    pub core: CoreRecord,
    /// What was asked of the device for each packet (`rx.hints`). Empty where packets were
    /// received: the counts are known when the rows are.
    #[serde(default)]
    pub device_hints: Vec<DeviceHintCount>,
    /// Why the device was asked for none of them after all.
    #[serde(default)]
    pub without_hints: Option<String>,
}

/// The CPU of an AF_XDP application compared with the CPU that ran the XDP program, over the
/// packets of a trial that have the program's stamp. Empty where they were received: it is known
/// when the rows are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreRecord {
    /// What the experiment asks for.
    pub asked: Option<Core>,
    /// The receiving thread's CPU, if it was on one during the whole trial: it may run on no other,
    /// and did not move.
    pub cpu: Option<u32>,
    /// Packets whose program ran on that CPU.
    pub same: u64,
    /// Packets whose program ran on another one.
    pub remote: u64,
    /// Packets of which that is not known, because the thread's CPU is not.
    pub unknown: u64,
}

impl CoreRecord {
    /// Of a thread on `cpu`, and packets by the CPU that ran the program.
    pub fn of(asked: Option<Core>, cpu: Option<u32>, by_cpu: &BTreeMap<u32, u64>) -> CoreRecord {
        let mut record = CoreRecord { asked, cpu, ..CoreRecord::default() };
        for (program, packets) in by_cpu {
            let count = match cpu {
                Some(cpu) if cpu == *program => &mut record.same,
                Some(_) => &mut record.remote,
                None => &mut record.unknown,
            };
            *count += packets;
        }
        record
    }

    /// Packets that are not where the experiment asks for them, those of which nothing is known
    /// among them.
    pub fn elsewhere(&self) -> u64 {
        match self.asked {
            Some(Core::Same) => self.remote + self.unknown,
            Some(Core::Remote) => self.same + self.unknown,
            None => 0,
        }
    }

    /// Packets that have the program's stamp.
    pub fn packets(&self) -> u64 {
        self.same + self.remote + self.unknown
    }
}

/// What a receiver did that sleeps until a bulk of packets should have arrived (`rx.wait =
/// "scheduled"`), from the first synchronisation frame on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggeredRecord {
    /// Every n-th packet was to be a synchronisation frame.
    pub sync: u32,
    /// Packets that one wake-up was to fetch.
    pub bulk: u32,
    /// Wake-ups at the instant at which a bulk should have arrived.
    pub wakeups: u64,
    /// Packets that they fetched.
    pub fetched: u64,
    /// The most packets that one of them fetched.
    pub most: u64,
    /// Those that found nothing.
    pub empty: u64,
    /// Times that it waited by `poll` instead and was woken, and packets that it received so.
    pub polls: u64,
    pub polled: u64,
    /// Synchronisation frames.
    pub marks: u64,
    /// Those that came far from where the schedule says.
    pub odd_marks: u64,
    /// Times that it gave the schedule up: nothing came when it should, the clock stepped, or no
    /// synchronisation frame came for long.
    pub lost: u64,
    /// How long after the last packet of a bulk was due it woke at last, on top of how late the
    /// frames are at the median, ns.
    pub margin_ns: i64,
}

/// What the XDP program wrote before the packets of a trial. Second arrivals are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpSeen {
    /// Packets by the CPU that ran the program.
    pub by_cpu: BTreeMap<u32, u64>,
    /// Packets by the queue that they came to.
    pub by_queue: BTreeMap<u32, u64>,
    /// Packets before which it wrote no stamp.
    pub unstamped: u64,
    /// Packets with a stamp that is later than their receive call, so that it is another's.
    pub implausible: u64,
    /// Packets by the struct that a user's own program left before them.
    #[serde(default)]
    pub by_hint: BTreeMap<String, u64>,
}

/// The CPU or the queue of a packet whose hint does not have it.
pub const UNKNOWN: u32 = u32::MAX;

/// A user's own XDP program, which takes the place of tardy's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpObject {
    /// The file, as written.
    pub file: String,
    /// The section of the program; the object's only one if none is named.
    pub section: Option<String>,
    /// What is in the file, once it was read.
    #[serde(skip)]
    pub bytes: Arc<Vec<u8>>,
}

impl XdpObject {
    /// Of `FILE` or `FILE:SECTION`. What follows the last colon is a section, unless it looks like
    /// the rest of a path.
    pub fn of(text: &str) -> XdpObject {
        let is_section = |part: &str| part.starts_with("xdp") || !part.contains(['/', '.']);
        let (file, section) = match text.rsplit_once(':').filter(|(_, part)| is_section(part)) {
            Some((file, section)) => (file, Some(section.to_owned())),
            None => (text, None),
        };
        XdpObject { file: file.to_owned(), section, bytes: Arc::default() }
    }
}

/// The most hint structs of an object whose members are recorded.
pub const MOST_STRUCTS: usize = 64;
/// The most columns that members of hint structs make in a file.
pub const MOST_COLUMNS: usize = 256;
/// The column that says which struct a row's hint is.
pub const HINT: &str = "hint";

/// True of names, in lower case, that columns of hints cannot have: each file of samples has these
/// columns, or a query over it, or an export.
pub fn is_taken(name: &str) -> bool {
    let fixed = ["seq", "scheduled_ns", "stream", "outcome", "flags", "pcp", HINT, "filename"];
    let exported = ["cell", "trial", "in_figures", "delta", "transit"];
    let by_gates = ["window_opens_ns", "window_closes_ns", "outside_ns", "slip_gate_cycles", "slip_stream_cycles"];
    [&fixed[..], &exported, &by_gates].iter().any(|names| names.contains(&name))
        || Point::ALL.iter().any(|point| point.name() == name)
}

/// What XDP programs left before packets, row by row, in columns of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hints {
    /// Names of the structs.
    pub structs: Vec<String>,
    /// Which of them each row has, if it has any.
    pub of: Vec<Option<u8>>,
    pub columns: Vec<HintColumn>,
}

impl Hints {
    /// The struct of a row's hint.
    pub fn name(&self, row: usize) -> Option<&str> {
        let place = (*self.of.get(row)?)?;
        self.structs.get(usize::from(place)).map(String::as_str)
    }

    /// True if every column has this number of rows, and every row's struct a name.
    pub fn is_even(&self, rows: usize) -> bool {
        let named = |of: &Option<u8>| of.is_none_or(|place| usize::from(place) < self.structs.len());
        self.of.len() == rows
            && self.of.iter().all(named)
            && self.columns.iter().all(|column| column.values.len() == rows)
    }
}

/// A member of hint structs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HintColumn {
    pub name: String,
    /// Its numbers may be below zero. If not, the same 64 bits are an unsigned number.
    pub is_signed: bool,
    /// Absent where the row's struct does not have the member.
    pub values: Vec<Option<i64>>,
}

/// How packets get from a socket of AF_XDP to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XdpSendMode {
    /// The driver reads the ring by itself, in its own NAPI context, and the device reads packets
    /// out of the socket's memory.
    ZeroCopy,
    /// The kernel makes a packet buffer of each, and the sender's own thread runs the driver, in
    /// its send call.
    Copy,
}

impl XdpSendMode {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            XdpSendMode::ZeroCopy => "zero-copy",
            XdpSendMode::Copy => "copy",
        }
    }
}

/// What was counted at a socket that sends, since it was bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpSent {
    /// Packets whose frames came back, those of the warm-up too. In copy mode the kernel gives a
    /// frame back when it frees the packet buffer.
    pub completions: u64,
    /// Descriptors that the kernel passed over. Those that tardy made void are among them.
    pub tx_invalid_descs: u64,
    /// Times that the kernel looked for a packet and there was none.
    pub tx_ring_empty_descs: u64,
    /// Packets that tardy took back because the kernel had not taken them: each was refused.
    pub voided: u64,
}

/// A port `xdp` that sends, in one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpSendRecord {
    pub mode: XdpSendMode,
    /// Faster modes that were refused.
    pub refused: Vec<XdpRefusal>,
    /// The queue of the device that it sends through.
    pub queue: u32,
    /// Bytes of its memory.
    pub umem_bytes: u64,
    /// It is of huge pages.
    pub huge_pages: bool,
    pub counted: XdpSent,
}

// What is found on a path before the first packet of a trial.

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
    /// What went wrong.
    pub kind: FaultKind,
    /// How many.
    pub packets: u64,
    /// errno; of `abort` what the program decided, 0 for `XDP_ABORTED`.
    pub code: i32,
    /// Number of the device to which they were to go, or the key in the program's map.
    pub to: u32,
    /// `to` is a key in a map.
    pub by_map: bool,
    /// The name of that device; null where none in the station has the number.
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
    /// The station whose device it is.
    pub station: String,
    /// The device.
    pub device: String,
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
            (None, _) => format!("device number {}, which no device of its station has", self.to),
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
        format!("program `{}` (id {}, {}) on {} of {}", self.name, self.id, self.hook.name(), self.device, self.station)
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
    /// Pairs.
    pub pairs: u32,
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
}

impl ProbeRecord {
    /// Packets that arrived.
    pub fn arrived(&self) -> u32 {
        self.by_tags.values().sum()
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
    /// The program's name.
    pub program: String,
    /// Functions of the object that write lines into the kernel's trace, once for each call.
    pub lines: Vec<String>,
    /// What these calls cost each run of the program; null if there are none.
    pub cost: Option<ProgramCost>,
    /// Why that could not be measured; null if it was, or if there is nothing to measure.
    pub unmeasured: Option<String>,
    /// Redirects to a device whose number is written into the code.
    pub devices: Vec<NumberedDevice>,
}

/// A device that a program knows by a number in its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "numbered_device")]
pub struct NumberedDevice {
    /// The function that has the number.
    pub function: String,
    /// The number.
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
    /// What one line of a program's costs on this machine, where one wrote some.
    pub line_cost: Option<ProgramCost>,
    /// Why what programs do could not be watched, by station.
    pub unchecked: BTreeMap<String, String>,
    /// What the code of users' own programs shows, which port `xdp` loads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectRecord>,
    /// Probe packets, each way of each stream.
    pub probes: Vec<ProbeRecord>,
}

impl Inspection {
    /// Nothing was found that is worth a word.
    pub fn is_clean(&self) -> bool {
        let is_silent = |object: &ObjectRecord| object.lines.is_empty() && object.devices.is_empty();
        self.programs.is_empty()
            && self.objects.iter().all(is_silent)
            && self.probes.iter().all(|probe| probe.with_more_tags() == 0)
    }

    /// A way on which no packet of a stream can be measured: the probes arrive with more tags than
    /// they were sent with, or none arrives and a program at one of its ends sends packets where
    /// nobody takes them.
    pub fn dead_end(&self) -> Option<&ProbeRecord> {
        let faulty = |program: &&ProgramRecord| program.seen.as_ref().is_some_and(|seen| !seen.faults.is_empty());
        let at = |probe: &ProbeRecord| {
            let mut faulty = self.programs.iter().filter(faulty);
            faulty.any(|program| program.station == probe.from || program.station == probe.to)
        };
        self.probes
            .iter()
            .find(|probe| probe.with_more_tags() > 0 || probe.sent > 0 && probe.arrived() == 0 && at(probe))
    }
}
