// SPDX-License-Identifier: MIT OR Apache-2.0
//! BYTE_STREAM_SPLIT: the lowest bytes of all values, then the second lowest, and so on. The upper ones are nearly always 0
//! in all values of a page, and are then not looked at one by one.

use super::damaged;
use parquet::errors::ParquetError;

const BYTES: usize = size_of::<i64>();

/// The values of a page, split.
#[derive(Clone, Copy)]
pub(crate) struct Split<'a> {
    streams: [&'a [u8]; BYTES],
    /// Streams above this one are 0.
    used: usize,
}

impl<'a> Split<'a> {
    pub fn of(bytes: &'a [u8]) -> Result<Self, ParquetError> {
        if !bytes.len().is_multiple_of(BYTES) {
            return Err(damaged(format!("{} bytes are no whole number of values", bytes.len())));
        }
        let length = bytes.len() / BYTES;
        let streams: [&[u8]; BYTES] = std::array::from_fn(|n| &bytes[n * length..(n + 1) * length]);
        // Without a way out, so that the compiler makes vectors of it.
        let is_used = |stream: &&[u8]| stream.iter().fold(0, |any, byte| any | byte) != 0;
        Ok(Split { streams, used: streams.iter().rposition(is_used).map_or(0, |last| last + 1) })
    }

    pub fn len(&self) -> usize {
        self.streams[0].len()
    }

    /// One value.
    pub fn get(&self, at: usize) -> i64 {
        i64::from_le_bytes(self.streams.map(|stream| stream[at]))
    }

    /// Adds each value to the one `before` it, wrapping, and gives what `some` makes of the sum. Both are equally long.
    #[inline]
    pub fn add_to<V: Copy, T>(&self, before: &[V], at: impl Fn(V) -> i64, some: impl Fn(i64) -> T, out: &mut Vec<T>) {
        let [a, b, c, d, ..] = self.streams;
        let sum = |before: &V, stage: u32| some(at(*before).wrapping_add(i64::from(stage)));
        match self.used {
            0..=2 => {
                out.extend(before.iter().zip(a).zip(b).map(|((v, a), b)| sum(v, u32::from(*a) | u32::from(*b) << 8)))
            }
            3 => out.extend(
                before
                    .iter()
                    .zip(a)
                    .zip(b)
                    .zip(c)
                    .map(|(((v, a), b), c)| sum(v, u32::from(*a) | u32::from(*b) << 8 | u32::from(*c) << 16)),
            ),
            4 => out.extend(before.iter().zip(a).zip(b).zip(c).zip(d).map(|((((v, a), b), c), d)| {
                sum(v, u32::from(*a) | u32::from(*b) << 8 | u32::from(*c) << 16 | u32::from(*d) << 24)
            })),
            _ => {
                out.extend(before.iter().enumerate().map(|(row, before)| some(at(*before).wrapping_add(self.get(row)))))
            }
        }
    }
}
