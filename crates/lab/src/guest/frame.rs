// SPDX-License-Identifier: MIT OR Apache-2.0
//! How what a guest has to say travels over its serial port: frames of kind, length, check sum and
//! bytes, one way only. The port is a file on the host, which grows; its content may be cut off
//! anywhere. Pure but for the writing.

use std::io::{self, Write};

const MARK: [u8; 4] = *b"tdy1";
const HEAD: usize = 16;
/// No frame is longer: a trial of ten million packets is less.
pub const LONGEST: u32 = 1 << 30;
/// No frame of [`FrameKind::Event`] is longer: it is JSON, of which many times as much memory is
/// made.
pub const LONGEST_EVENT: u32 = 16 << 20;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// An [`Event`](crate::run::Event), in JSON.
    Event = 1,
    Trial = 2,
    /// What the programs of loads wrote.
    Output = 3,
}

impl FrameKind {
    fn of(number: u32) -> Option<FrameKind> {
        [FrameKind::Event, FrameKind::Trial, FrameKind::Output].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// The port brought something else than frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "byte {at} of what the guest's serial port brought is damaged: {what}; run it again, and if it stays so without --append: something else \
     may write to the guest's second serial port"
)]
pub struct Damaged {
    /// Offset of the byte in the stream, from 0.
    pub at: u64,
    pub what: &'static str,
}

/// Writes one frame.
///
/// # Errors
/// The writer's; and if there are too many bytes.
pub fn write(to: &mut impl Write, kind: FrameKind, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or_else(|| io::Error::other("a frame would be longer than a guest may send"))?;
    let mut frame = Vec::with_capacity(HEAD + bytes.len());
    frame.extend_from_slice(&MARK);
    frame.extend_from_slice(&(kind as u32).to_le_bytes());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&sum(&frame, bytes).to_le_bytes());
    frame.extend_from_slice(bytes);
    to.write_all(&frame)?;
    to.flush()
}

/// CRC-32 over the head before it, and what the frame carries.
fn sum(head: &[u8], bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    sum.update(bytes);
    sum.finalize()
}

/// Takes bytes as they come and gives whole frames.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    from: usize,
    before: u64,
    longest: Option<u32>,
    most: Option<u64>,
}

impl Frames {
    /// Frames of a guest with this number of bytes of memory. The guest makes a frame of what it
    /// measured, so a frame can have half of its memory at most. If a guest lies, the host holds no
    /// more than that.
    pub fn of_guest(memory: u64) -> Self {
        Frames { longest: u32::try_from(memory / 2).ok(), ..Frames::default() }
    }

    /// Refuses what comes beyond this number of bytes in all: the port's file would fill the disk.
    pub fn at_most(self, bytes: u64) -> Self {
        Frames { most: Some(bytes), ..self }
    }

    /// Adds bytes as they came in, whole frames or not.
    pub fn push(&mut self, bytes: &[u8]) {
        // What was given out goes before it grows.
        self.before += self.from as u64;
        self.bytes.drain(..self.from);
        self.from = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that are not yet a whole frame.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.from
    }

    /// The next whole frame; `None` until there is one.
    ///
    /// # Errors
    /// If what came is no frame. Nothing behind it can be trusted.
    pub fn take(&mut self) -> Result<Option<(FrameKind, Vec<u8>)>, Damaged> {
        let rest = &self.bytes[self.from..];
        let damaged = |what| Damaged { at: self.before + self.from as u64, what };
        if self.most.is_some_and(|most| self.before + self.bytes.len() as u64 > most) {
            return Err(damaged("more bytes have come than the experiment can bring"));
        }
        let number = |at: usize| rest.get(at..at + 4).and_then(|part| part.try_into().ok()).map(u32::from_le_bytes);
        if !rest.starts_with(&MARK[..rest.len().min(MARK.len())]) {
            return Err(damaged("there is no beginning of a frame"));
        }
        let (Some(kind), Some(length), Some(sum)) = (number(4), number(8), number(12)) else { return Ok(None) };
        let kind = FrameKind::of(kind).ok_or_else(|| damaged("a frame of an unknown kind"))?;
        let longest =
            if kind == FrameKind::Event { LONGEST_EVENT } else { self.longest.unwrap_or(LONGEST).min(LONGEST) };
        if length > longest {
            return Err(damaged("a frame too long to be one"));
        }
        let Some(bytes) = rest.get(HEAD..HEAD + length as usize) else { return Ok(None) };
        // No fuzzer guesses a check sum.
        if !cfg!(fuzzing) && self::sum(&rest[..HEAD - 4], bytes) != sum {
            return Err(damaged("a frame with a wrong check sum"));
        }
        let bytes = bytes.to_vec();
        self.from += HEAD + bytes.len();
        Ok(Some((kind, bytes)))
    }
}
