// SPDX-License-Identifier: MIT OR Apache-2.0
//! BYTE_STREAM_SPLIT: the lowest bytes of all values, then the second lowest, and so on. The upper
//! ones are nearly always 0 in all values of a page, and are then not looked at one by one.

use crate::error::{CodecError, damaged};
use std::ops::Range;
use tardy_model::sample::MaybeNanos;

const BYTES: usize = size_of::<i64>();

/// Streams whose values are joined by themselves.
const HALF: usize = BYTES / 2;

/// Values that are joined at a time.
const BLOCK: usize = 256;

/// How the values of a page are split. The page's bytes are given with each call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Split {
    length: usize,
    /// Streams above this one are 0.
    used: usize,
}

impl Split {
    pub fn of(bytes: &[u8]) -> Result<Self, CodecError> {
        if !bytes.len().is_multiple_of(BYTES) {
            return Err(damaged(format!("{} bytes are no whole number of values", bytes.len())));
        }
        let length = bytes.len() / BYTES;
        // Without a way out, so that the compiler makes vectors of it.
        let is_used = |n: &usize| bytes[n * length..(n + 1) * length].iter().fold(0, |any, byte| any | byte) != 0;
        Ok(Split { length, used: (0..BYTES).rev().find(is_used).map_or(0, |last| last + 1) })
    }

    pub fn len(&self) -> usize {
        self.length
    }

    #[inline]
    pub fn get(&self, bytes: &[u8], at: usize) -> i64 {
        let upper = (0..self.used).rev();
        upper.fold(0, |value, n| value << 8 | i64::from(bytes[n * self.length + at]))
    }

    /// Adds the values from `from` on to those `before` them, wrapping. `sums` are equally many.
    pub fn add_to(&self, bytes: &[u8], from: usize, before: &[MaybeNanos], sums: &mut [MaybeNanos]) {
        for (n, (sums, before)) in sums.chunks_mut(BLOCK).zip(before.chunks(BLOCK)).enumerate() {
            let first = from + n * BLOCK;
            let streams = |those: Range<usize>| {
                join(those.map(|n| &bytes[n * self.length + first..n * self.length + first + sums.len()]))
            };
            let lower = streams(0..self.used.min(HALF));
            // Half as wide where that is enough, for then twice as many are worked on at once.
            let upper = (self.used > HALF).then(|| streams(HALF..self.used));
            match upper {
                None => {
                    for ((sum, before), lower) in sums.iter_mut().zip(before).zip(&lower) {
                        *sum = MaybeNanos::some(before.or_lowest().wrapping_add(i64::from(*lower)));
                    }
                }
                Some(upper) => {
                    for (((sum, before), lower), upper) in sums.iter_mut().zip(before).zip(&lower).zip(&upper) {
                        let value = (u64::from(*upper) << 32 | u64::from(*lower)) as i64;
                        *sum = MaybeNanos::some(before.or_lowest().wrapping_add(value));
                    }
                }
            }
        }
    }
}

/// The values of at most [`HALF`] streams, stream after stream, of which the compiler makes
/// vectors.
fn join<'a>(streams: impl Iterator<Item = &'a [u8]>) -> [u32; BLOCK] {
    let mut joined = [0; BLOCK];
    for (n, stream) in (0u32..).zip(streams) {
        for (value, byte) in joined.iter_mut().zip(stream) {
            *value |= u32::from(*byte) << (8 * n);
        }
    }
    joined
}
