// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue disciplines as they are asked for: the vocabulary that the experiment file, the plan, the
//! simulated port and the judge share. A schedule is written once; the commands of a queue
//! discipline and the phase of a sender both follow from it.

use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// Priorities that a map has (`TC_PRIO_MAX` + 1 in include/uapi/linux/pkt_sched.h).
pub const PRIORITIES: usize = 16;
/// The most traffic classes that a queue discipline takes (`TC_QOPT_MAX_QUEUE`).
pub const MOST_CLASSES: u8 = 16;
/// Most entries of a schedule: more than one message to the kernel has room for.
pub const MOST_ENTRIES: usize = 1_024;
/// Bytes of an Ethernet header.
const HEADER: u32 = 14;
/// Bytes of a VLAN tag.
const TAG: u32 = 4;
/// A frame is filled up to this number of bytes, without its check sum (ETH_ZLEN in
/// include/uapi/linux/if_ether.h).
const LEAST_FRAME: u32 = 60;
/// What goes with each frame: check sum 4, preamble 8, gap 12.
const AROUND: u32 = 24;

/// Transmit queues of one class: `count` of them, from this one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queues {
    pub count: u32,
    pub offset: u32,
}

/// Traffic classes: which priority goes to which, and which queues each has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classes {
    /// The class of each priority.
    pub map: [u8; PRIORITIES],
    /// The queues of each class.
    pub queues: Vec<Queues>,
}

impl Classes {
    /// The class of a socket's priority; the kernel takes its low four bits (`TC_BITMASK`).
    pub fn of(&self, priority: u32) -> u8 {
        self.map[priority as usize % PRIORITIES]
    }
    /// How many there are.
    pub fn count(&self) -> u8 {
        self.queues.len() as u8
    }
    /// Minor numbers of the queue discipline's children that serve a class: those of its queues,
    /// counted from 1.
    pub fn minors(&self, class: u8) -> impl Iterator<Item = u32> + use<> {
        let Queues { count, offset } =
            self.queues.get(usize::from(class)).copied().unwrap_or(Queues { count: 0, offset: 0 });
        offset + 1..=offset + count
    }
    /// The class that a child of this minor number serves.
    pub fn of_minor(&self, minor: u32) -> Option<u8> {
        (0..self.count()).find(|class| self.minors(*class).any(|of| of == minor))
    }
}

/// One entry of a schedule: the gates of these classes are open for this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Bit n: class n.
    pub open: u32,
    pub length: Nanos,
}

/// When which gates are open, again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Entries that fill a cycle.
    pub entries: Vec<Entry>,
    pub cycle: Nanos,
    /// A cycle begins this long after each multiple of its length on the TAI clock.
    pub offset: Nanos,
}

/// The earliest-txtime-first discipline: it holds each packet until `delta` before its launch time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Etf {
    /// It hands a packet over this long before its launch time.
    pub delta: Nanos,
    /// The launch time is a deadline: packets go out at once, in its order.
    pub deadline_mode: bool,
    /// Packets whose socket did not ask for launch times are taken too.
    pub skip_sock_check: bool,
    /// The device holds packets until their launch time.
    pub offload: bool,
    /// A release counts as in time up to so much after `delta` before the launch time.
    pub tolerance: Nanos,
}

/// How taprio keeps its gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    Software,
    /// It gives each packet a launch time in its window, and etf below keeps it.
    TxtimeAssist {
        /// A packet's launch time is at least this long after it was enqueued.
        delay: Nanos,
    },
    /// The device keeps them.
    Offload,
}

/// The time-aware shaper (IEEE 802.1Qbv), which opens and shuts a gate for each class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taprio {
    pub classes: Classes,
    pub schedule: Schedule,
    pub mode: Mode,
    /// What the device sends, bits a second.
    pub port_bit_s: u64,
    /// etf as child of these classes.
    pub etf: Option<(Etf, Vec<u8>)>,
}

/// Classes with queues of their own, and etf below some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mqprio {
    pub classes: Classes,
    /// etf as child of these classes.
    pub etf: Option<(Etf, Vec<u8>)>,
}

/// The credit-based shaper, below mqprio.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cbs {
    pub classes: Classes,
    pub at: Vec<u8>,
    /// What each may send in the long run, bits a second.
    pub idleslope_bit_s: u64,
    /// What the device sends, bits a second.
    pub port_bit_s: u64,
    /// The longest frame with all that it takes on the wire, bytes; with a tag, which the standard
    /// requires of frames that are shaped by credits.
    pub frame: u32,
    /// The device does it.
    pub offload: bool,
}

/// The figures that tc takes, in its units. IEEE 802.1Q-2018, annex L: a class gains credit at
/// `idleslope` while it waits and loses it at `sendslope` while it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// kbit/s: what the class may use in the long run.
    pub idleslope: i64,
    /// kbit/s: what is left of the port's rate, negative.
    pub sendslope: i64,
    /// The most that is gained while one frame of others passes, bytes, rounded up.
    pub hicredit: i64,
    /// The most that is owed after one frame, bytes, rounded towards 0.
    pub locredit: i64,
}

impl Cbs {
    /// The figures that tc gets.
    pub fn credits(&self) -> Credits {
        let (idle, port) = (self.idleslope_bit_s as i64 / 1_000, self.port_bit_s as i64 / 1_000);
        let (send, frame) = (idle - port, i64::from(self.frame));
        let port = port.max(1);
        Credits {
            idleslope: idle,
            sendslope: send,
            hicredit: (frame * idle + port - 1) / port,
            locredit: frame * send / port,
        }
    }
}

/// What this number of bytes after the Ethernet header, and after the VLAN tag if there is one,
/// takes on the wire: bytes, with preamble and gap.
pub fn wire_bytes(packet_bytes: u32, tagged: bool) -> u32 {
    (HEADER + if tagged { TAG } else { 0 } + packet_bytes).max(LEAST_FRAME) + AROUND
}

/// Bits a second as files have it: `100Mbit`.
pub fn show_rate(bit_s: u64) -> String {
    let units = [("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1_000)];
    match units.into_iter().find(|(_, unit)| bit_s.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bit_s / unit),
        None => format!("{bit_s}bit"),
    }
}

/// How long that takes.
pub fn frame_time(packet_bytes: u32, tagged: bool, bit_s: u64) -> Nanos {
    let (bits, rate) = (i128::from(wire_bytes(packet_bytes, tagged)) * 8, i128::from(bit_s.max(1)));
    Nanos(((bits * 1_000_000_000 + rate - 1) / rate) as i64)
}

listed! {
    /// The word for `shaper.kind`: a queue discipline without its parameters.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ShaperWord {
        None,
        Etf,
        Taprio,
        Mqprio,
        Cbs,
    }
}

impl ShaperWord {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            ShaperWord::None => "none",
            ShaperWord::Etf => "etf",
            ShaperWord::Taprio => "taprio",
            ShaperWord::Mqprio => "mqprio",
            ShaperWord::Cbs => "cbs",
        }
    }
}

/// The sender's queue discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shaper {
    /// The device keeps its own: nothing is set.
    #[default]
    None,
    /// etf for the whole device.
    Etf(Etf),
    Taprio(Taprio),
    Mqprio(Mqprio),
    /// mqprio with cbs below it.
    Cbs(Cbs),
}

impl Shaper {
    pub const fn word(&self) -> ShaperWord {
        match self {
            Shaper::None => ShaperWord::None,
            Shaper::Etf(_) => ShaperWord::Etf,
            Shaper::Taprio(_) => ShaperWord::Taprio,
            Shaper::Mqprio(_) => ShaperWord::Mqprio,
            Shaper::Cbs(_) => ShaperWord::Cbs,
        }
    }
    /// The name in files.
    pub const fn kind(&self) -> &'static str {
        self.word().name()
    }
    /// Its classes, where it has any.
    pub const fn classes(&self) -> Option<&Classes> {
        match self {
            Shaper::None | Shaper::Etf(_) => None,
            Shaper::Taprio(Taprio { classes, .. })
            | Shaper::Mqprio(Mqprio { classes, .. })
            | Shaper::Cbs(Cbs { classes, .. }) => Some(classes),
        }
    }
    /// The etf that packets of this priority come to.
    pub fn etf(&self, priority: u32) -> Option<&Etf> {
        match self {
            Shaper::Etf(etf) => Some(etf),
            Shaper::Taprio(Taprio { classes, etf, .. }) | Shaper::Mqprio(Mqprio { classes, etf }) => {
                let class = classes.of(priority);
                etf.as_ref().filter(|(_, at)| at.contains(&class)).map(|(etf, _)| etf)
            }
            Shaper::None | Shaper::Cbs(_) => None,
        }
    }
    /// taprio, if it is one.
    pub const fn taprio(&self) -> Option<&Taprio> {
        if let Shaper::Taprio(taprio) = self { Some(taprio) } else { None }
    }
    /// What the device is taken to send, bits a second, where that matters.
    pub const fn port_bit_s(&self) -> Option<u64> {
        match self {
            Shaper::Taprio(Taprio { port_bit_s, .. }) | Shaper::Cbs(Cbs { port_bit_s, .. }) => Some(*port_bit_s),
            Shaper::None | Shaper::Etf(_) | Shaper::Mqprio(_) => None,
        }
    }
    /// What of it only a device can do, in words; `None` if the kernel can do all of it.
    pub fn offloads(&self) -> Option<&'static str> {
        let etf = |etf: &Option<(Etf, Vec<u8>)>| etf.as_ref().is_some_and(|(etf, _)| etf.offload);
        match self {
            Shaper::Taprio(Taprio { mode: Mode::Offload, .. }) => Some("full offload of taprio"),
            Shaper::Etf(Etf { offload: true, .. }) => Some("offload of etf"),
            Shaper::Taprio(Taprio { etf: children, .. }) | Shaper::Mqprio(Mqprio { etf: children, .. })
                if etf(children) =>
            {
                Some("offload of etf")
            }
            Shaper::Cbs(Cbs { offload: true, .. }) => Some("offload of cbs"),
            _ => None,
        }
    }
    /// True if packets of this priority are held, ordered or dropped by their launch time.
    pub fn honours_launch(&self, priority: u32) -> bool {
        self.etf(priority).is_some() || matches!(self.taprio(), Some(Taprio { mode: Mode::Offload, .. }))
    }
}
