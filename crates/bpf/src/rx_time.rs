// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tardy's own XDP program writes before a packet: `rx_time`, and `mark` before a
//! synchronisation frame. `programs/xdp.bpf.c` has both structs. [`Ids::read`] is the one place
//! that knows their layout.

/// Bytes before a packet that are read.
pub const AREA: usize = 24;
/// Bytes of the id that ends each struct.
pub const ID: usize = 4;

/// The stamp of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxTime {
    /// By the program's clock, ns.
    pub time_ns: u64,
    /// The CPU that ran the program.
    pub cpu: u32,
    /// The queue that the packet came to.
    pub queue: u32,
    /// The number of a synchronisation frame.
    pub mark: Option<u32>,
}

/// The ids that the structs have in the object's BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    pub rx_time: u32,
    pub mark: u32,
}

impl Ids {
    /// The stamp at the end of `area`, the bytes before a packet; `None` if there is none.
    #[inline]
    pub fn read(&self, area: &[u8]) -> Option<RxTime> {
        // Seen from the packet, so that no length of the area is needed.
        let area: &[u8; AREA] = area.last_chunk()?;
        let word = |back: usize| {
            let at = AREA - back;
            u32::from_ne_bytes([area[at], area[at + 1], area[at + 2], area[at + 3]])
        };
        let long = |back: usize| {
            let [low, high] = [word(back), word(back - 4)];
            let halves = if cfg!(target_endian = "little") { [high, low] } else { [low, high] };
            u64::from(halves[0]) << 32 | u64::from(halves[1])
        };
        match word(ID) {
            id if id == self.rx_time => Some(RxTime { time_ns: long(20), cpu: word(12), queue: word(8), mark: None }),
            id if id == self.mark => {
                Some(RxTime { time_ns: long(24), cpu: word(16), queue: word(12), mark: Some(word(8)) })
            }
            _ => None,
        }
    }
}
