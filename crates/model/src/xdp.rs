// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a port `xdp`: how the device gave its packets away, what was lost there, and
//! where the XDP program ran.

use crate::point::Point;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// What the program wrote before the trial's packets; empty where they were received, it is
    /// known when the rows are.
    pub seen: XdpSeen,
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
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
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
/// columns, or a query over it.
pub fn is_taken(name: &str) -> bool {
    let fixed = ["seq", "scheduled_ns", "stream", "outcome", "flags", "pcp", HINT, "filename"];
    fixed.contains(&name) || Point::ALL.iter().any(|point| point.name() == name)
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
