// SPDX-License-Identifier: MIT OR Apache-2.0
//! The test frame: what tardy writes at the start of each packet's payload, and how it recognizes
//! its own.
//!
//! ```text
//! offset  0        4        5         6          8              16       20       24
//!         magic u32 kind u8  stream u8 size u16   nonce u64      seq u32  check u32
//! ```
//! All big endian. Bit 7 of `kind` marks a synchronisation frame ([`MARK`]): an XDP program writes
//! `mark` before it instead of `rx_time`. `nonce` is the trial's; `check` is a hash of what comes
//! before it, so that a damaged or foreign packet on the port is counted as such and never becomes
//! a sample.

/// Bytes of the frame's head: the least payload a stream can have.
pub const HEAD: usize = 24;
/// Number of the warm-up packet that only tries something out: a receiver passes over it.
pub const PROBE: u32 = u32::MAX;
/// Most packets of a trial. Numbers above have other uses.
pub const MOST_PACKETS: u32 = 4_000_000_000;
/// Number of a test packet of the lead-in or the lead-out: it is sent and answered like the
/// trial's packets, and nothing is recorded of it.
pub const LEAD: u32 = u32::MAX - 1;
/// Number of the warm-up packet by which a requester that has nothing in flight lets the reflector
/// empty its error queue.
pub const PAUSE: u32 = u32::MAX - 2;
/// The first bytes of each.
pub const MAGIC: u32 = 0x7464_7902;

/// The bit of `kind` that marks a synchronisation frame: one that carries the schedule of others.
/// Only test packets have it, and only where the experiment asks for such frames: a receiver that
/// expects them knows them by [`Heads::marks`], and to any other they are a stranger's.
pub const MARK: u8 = 0x80;
/// The kind of a test packet that is one.
const TEST_MARK: u8 = MARK | 1;

/// What a test packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// Part of a trial: one sample.
    Test,
    /// Sent before a trial until stamps flow; never a sample.
    WarmUp,
    /// The reflector's answer to a test packet, under the same number.
    Reply,
    /// The reflector's answer to a warm-up packet.
    WarmUpReply,
}

impl PacketKind {
    /// What answers a packet of this kind; `None` for an answer.
    pub const fn answer(self) -> Option<PacketKind> {
        match self {
            PacketKind::Test => Some(PacketKind::Reply),
            PacketKind::WarmUp => Some(PacketKind::WarmUpReply),
            PacketKind::Reply | PacketKind::WarmUpReply => None,
        }
    }
}

/// The head of a test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: PacketKind,
    /// Number of the stream in the experiment.
    pub stream: u8,
    /// Payload bytes that were sent, so that truncation is seen; at most 65,535.
    pub size: u16,
    /// The trial's random number.
    pub nonce: u64,
    /// The packet's number in the trial.
    pub seq: u32,
}

/// Why a payload is not a test frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Shorter than a frame's head.
    Short,
    /// The magic number is another's.
    Magic,
    /// The kind or the check does not fit.
    Damaged,
    /// The payload is not as long as the frame says.
    Truncated,
}

/// The hash of the head's words. It is computed between a packet and its answer, so it takes three
/// multiplications, not one for each byte. Each step is one-to-one in its word, only the last one
/// drops bits: damage is missed once in 2^32. Seeing damage is enough, nobody attacks the ruler.
#[inline]
fn check(first: u64, nonce: u64, seq: u32) -> u32 {
    check_behind(mix(mix(0, first), nonce), seq)
}

/// The same where the words before the number are hashed already.
#[inline]
fn check_behind(hash: u64, seq: u32) -> u32 {
    let hash = mix(hash, u64::from(seq));
    (hash ^ hash >> 32) as u32
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
}

impl Frame {
    /// Writes the head. `payload` must hold at least [`HEAD`] bytes.
    #[inline]
    pub fn write(&self, payload: &mut [u8]) {
        Heads::new(self.kind, self.stream, self.size, self.nonce).write(self.seq, payload);
    }

    /// Reads a head; `payload` is all that was received.
    #[inline]
    pub fn read(payload: &[u8]) -> Result<Frame, Foreign> {
        let head: &[u8; HEAD] = payload.get(..HEAD).and_then(|head| head.try_into().ok()).ok_or(Foreign::Short)?;
        let be32 = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if be32(0) != MAGIC {
            return Err(Foreign::Magic);
        }
        let be64 = |at: usize| u64::from(be32(at)) << 32 | u64::from(be32(at + 4));
        let nonce = be64(8);
        if be32(20) != check(be64(0), nonce, be32(16)) {
            return Err(Foreign::Damaged);
        }
        let kind = match head[4] {
            1 => PacketKind::Test,
            2 => PacketKind::WarmUp,
            3 => PacketKind::Reply,
            4 => PacketKind::WarmUpReply,
            _ => return Err(Foreign::Damaged),
        };
        let size = u16::from_be_bytes([head[6], head[7]]);
        if payload.len() != usize::from(size) {
            return Err(Foreign::Truncated);
        }
        Ok(Frame { kind, stream: head[5], size, nonce, seq: be32(16) })
    }
}

/// The heads of a stream's packets of one kind and size. They differ in their numbers alone, so
/// what they share is put together and hashed once: the rest is done between a packet and its
/// answer.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// The first two words as they lie in a payload.
    shared: [u8; 16],
    /// What these hash to.
    hash: u64,
    /// Payload bytes of each packet.
    size: u16,
}

impl Heads {
    /// Of the packets of this kind; the rest as in [`Frame`].
    pub fn new(kind: PacketKind, stream: u8, size: u16, nonce: u64) -> Self {
        let kind: u8 = match kind {
            PacketKind::Test => 1,
            PacketKind::WarmUp => 2,
            PacketKind::Reply => 3,
            PacketKind::WarmUpReply => 4,
        };
        Heads::of_kind(kind, stream, size, nonce)
    }

    /// Of the test packets that are synchronisation frames.
    pub fn marks(stream: u8, size: u16, nonce: u64) -> Self {
        Heads::of_kind(TEST_MARK, stream, size, nonce)
    }

    fn of_kind(kind: u8, stream: u8, size: u16, nonce: u64) -> Self {
        let first = u64::from(MAGIC) << 32 | u64::from(kind) << 24 | u64::from(stream) << 16 | u64::from(size);
        let shared = u128::from(first) << 64 | u128::from(nonce);
        Heads { shared: shared.to_be_bytes(), hash: mix(mix(0, first), nonce), size }
    }

    /// Writes the head of packet `seq`. `payload` must hold at least [`HEAD`] bytes.
    #[inline]
    pub fn write(&self, seq: u32, payload: &mut [u8]) {
        let last = u64::from(seq) << 32 | u64::from(check_behind(self.hash, seq));
        let head = &mut payload[..HEAD];
        head[..16].copy_from_slice(&self.shared);
        head[16..].copy_from_slice(&last.to_be_bytes());
    }

    /// The number of the packet that `payload` is, all that was received; `None` if
    /// [`Frame::read`] finds no frame there, or one of another kind, stream, size or nonce.
    #[inline]
    pub fn number(&self, payload: &[u8]) -> Option<u32> {
        let head: &[u8; HEAD] = payload.get(..HEAD).and_then(|head| head.try_into().ok())?;
        let seq = u32::from_be_bytes([head[16], head[17], head[18], head[19]]);
        let check = u32::from_be_bytes([head[20], head[21], head[22], head[23]]);
        let is_one = head[..16] == self.shared
            && payload.len() == usize::from(self.size)
            && check == check_behind(self.hash, seq);
        is_one.then_some(seq)
    }
}
