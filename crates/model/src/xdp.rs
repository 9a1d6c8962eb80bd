// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a port `xdp`: how the device gave its packets away and took them, what was lost
//! there, and where the XDP program ran.

mod inspection;
mod special;

use crate::frame::MOST_PACKETS;
use crate::point::Point;
pub use crate::sample::{HintColumn, Hints};
pub use inspection::{
    ArrivedProbes, AwaitedProbes, DeviceWithin, FaultKind, Inspection, LOOPBACK, MOST_CALLS, NumberedDevice,
    ObjectRecord, PROBE_TTL, ProbeHop, ProbeRecord, ProbeRoute, ProbeWay, ProgramCost, ProgramFault, ProgramHook,
    ProgramRecord, ProgramSeen,
};
use serde::{Deserialize, Deserializer, Serialize};
pub use special::{SpecialKind, SpecialRecord};
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
        Same,
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

/// Bytes that stay free at the beginning of a frame of AF_XDP's memory, before the kernel's own
/// headroom of 256, where the kernel copies packets. With them `rx_time` (20 bytes) begins with a
/// line of the CPU's cache, and the head of a frame that has one tag (18 + 24) ends in the same
/// line. So a receiver waits for one line of another CPU's, and not for two.
pub const TO_ONE_LINE: u32 = 20;

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
    pub why: String,
}

/// The clock of the XDP program's stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XdpClock {
    Tai,
    /// Since boot, not counting suspend; tardy converts it to TAI.
    Monotonic,
    /// Since boot, counting suspend; tardy converts it to TAI.
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
    /// Why it is not; `None` if it is, and of versions that did not keep it.
    #[serde(default)]
    pub small_pages: Option<String>,
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
    /// The times among the members of a user's own hint structs; `None` of tardy's program.
    #[serde(default)]
    pub times: Option<HintTimes>,
}

/// Members of a user's own hint structs that are times, and how they become instants of TAI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HintTimes {
    pub of: Vec<HintTime>,
    pub clock: XdpClock,
    /// What they must be put forward by to be TAI of the host that received, ns.
    pub ahead_ns: i64,
    /// By how much that may be wrong, ns.
    pub bound_ns: i64,
    /// Why no metric is made of them; `None` if they have a clock.
    pub without: Option<String>,
}

/// A member of hint structs that is a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HintTime {
    /// Its column of `samples.parquet`.
    pub column: String,
    /// The structs that have it.
    pub structs: Vec<String>,
}

impl HintTime {
    /// The name of its metric: how long before `receive` the time was.
    pub fn metric(&self) -> String {
        format!("{}..{}", self.column, Point::Receive)
    }

    /// True if no other metric has that name, and a table can show it. A record that comes from
    /// outside may have any.
    pub fn is_sound(&self) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.#".contains(&byte);
        !is_taken(&self.column.to_lowercase()) && self.column.bytes().all(is_plain)
    }
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

/// The schedule that packets carry, for a receiver that sleeps until a bulk of them should have
/// arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triggered {
    /// Every n-th packet is a synchronisation frame; 0 for none.
    pub sync: u32,
    /// Packets that are fetched at one wake-up.
    pub bulk: u32,
}

impl Triggered {
    /// The first packets of a trial are synchronisation frames too, so that the schedule is known
    /// soon.
    pub const FIRST: u32 = 8;

    /// True if the packet of this number is a synchronisation frame. None of a lead-in is.
    #[inline]
    pub const fn marks(self, seq: u32) -> bool {
        self.sync > 0 && seq <= MOST_PACKETS && (seq < Self::FIRST || seq.is_multiple_of(self.sync))
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
    /// Synchronisation frames that it received.
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
    /// Members of its hint structs that are times, whatever their names are. The first is the
    /// packet's arrival time, which is chosen by its name if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<String>,
    /// What is in the file, once it was read.
    #[serde(skip)]
    pub bytes: Arc<Vec<u8>>,
}

impl XdpObject {
    /// Of `FILE`, `FILE:SECTION`, and either with `@MEMBER` or `@MEMBER,MEMBER` behind it. What
    /// follows the last colon is a section, and what follows the last `@` are members, unless it
    /// looks like the rest of a path.
    pub fn of(text: &str) -> XdpObject {
        let is_word =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_section = |part: &str| part.starts_with("xdp") || !part.contains(['/', '.']);
        let are_members = |part: &str| part.split(',').all(is_word);
        let split = |text: &'_ str, at: char, is: &dyn Fn(&str) -> bool| match text.rsplit_once(at) {
            Some((rest, part)) if is(part) => (rest.len(), Some(part.to_owned())),
            _ => (text.len(), None),
        };
        let (length, members) = split(text, '@', &are_members);
        let members = members.iter().flat_map(|members| members.split(','));
        let times = members.map(str::to_owned).collect();
        let text = &text[..length];
        let (length, section) = split(text, ':', &is_section);
        XdpObject { file: text[..length].to_owned(), section, times, bytes: Arc::default() }
    }

    /// True if both name the same of the same file, whatever is in it.
    pub fn names_the_same(&self, other: &XdpObject) -> bool {
        (&self.file, &self.section, &self.times) == (&other.file, &other.section, &other.times)
    }
}

/// Frames of each queue's memory, and entries of its rings, where the experiment does not say.
pub const FRAMES: u32 = 4_096;
/// The fewest: as many as one receive call takes.
pub const LEAST_FRAMES: u32 = 64;
/// The most: 256 MiB of each queue.
pub const MOST_FRAMES: u32 = 1 << 16;

/// The most hint structs of an object whose members are recorded.
pub const MOST_STRUCTS: usize = 64;
/// The most columns that members of hint structs make in a file.
pub const MOST_COLUMNS: usize = 256;
/// Times of them that have a metric of their own, at most: each holds up to 8 MB of a trial's
/// values.
pub const MOST_TIMES: usize = 16;
/// The column that says which struct a row's hint is.
pub const HINT: &str = "hint";

/// True of names, in lower case, that columns of hints cannot have: each file of samples has these
/// columns, or a query over it, or an export.
pub fn is_taken(name: &str) -> bool {
    let fixed = ["seq", "scheduled_ns", "stream", "outcome", "flags", "pcp", HINT, "filename"];
    let exported = ["cell", "trial", "in_figures", "delta", "transit"];
    let by_gates = ["window_opens_ns", "window_closes_ns", "outside_ns", "slip_gate_cycles", "slip_stream_cycles"];
    [&fixed[..], &exported, &by_gates].iter().any(|names| names.contains(&name))
        || Point::OF_PACKETS.iter().any(|point| point.name() == name)
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
    /// The queues of the device at which it has a socket.
    #[serde(alias = "queue", deserialize_with = "one_or_more")]
    pub queues: Vec<u32>,
    /// Bytes of the memories of all queues.
    pub umem_bytes: u64,
    /// It is of huge pages.
    pub huge_pages: bool,
    /// Why it is not; `None` if it is, and of versions that did not keep it.
    #[serde(default)]
    pub small_pages: Option<String>,
    pub counted: XdpSent,
}

/// The queues of a sender; in the JSON of earlier versions it is one number.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(u32),
        All(Vec<u32>),
    }
    if !from.is_human_readable() {
        return Vec::deserialize(from);
    }
    Ok(match Written::deserialize(from)? {
        Written::One(queue) => vec![queue],
        Written::All(queues) => queues,
    })
}
