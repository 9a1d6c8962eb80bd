// SPDX-License-Identifier: MIT OR Apache-2.0
//! BYTE_STREAM_SPLIT: the lowest bytes of all values, then the second lowest, and so on. The upper ones are nearly always 0
//! in all values of a page, and are then not looked at one by one.

use super::damaged;
use parquet::errors::ParquetError;
use tardy_model::sample::MaybeNanos;

const BYTES: usize = size_of::<i64>();

/// Values that are joined at a time: their bytes fill a vector register.
const LANES: usize = 16;

/// How the values of a page are split. The page's bytes are given with each call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Split {
    /// Values.
    length: usize,
    /// Streams above this one are 0.
    used: usize,
}

impl Split {
    pub fn of(bytes: &[u8]) -> Result<Self, ParquetError> {
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

    /// One value.
    #[inline]
    pub fn get(&self, bytes: &[u8], at: usize) -> i64 {
        let upper = (0..self.used).rev();
        upper.fold(0, |value, n| value << 8 | i64::from(bytes[n * self.length + at]))
    }

    /// Adds the values from `from` on to those `before` them, wrapping. `sums` are equally many.
    pub fn add_to(&self, bytes: &[u8], from: usize, before: &[MaybeNanos], sums: &mut [MaybeNanos]) {
        let streams: [&[u8]; BYTES] =
            std::array::from_fn(|n| &bytes[n * self.length + from..n * self.length + from + sums.len()]);
        match self.used {
            0..=2 => add::<2>(streams, before, sums),
            3 => add::<3>(streams, before, sums),
            4 => add::<4>(streams, before, sums),
            _ => add::<BYTES>(streams, before, sums),
        }
    }
}

/// Adds the values of the lowest streams; `USED` is at most 4 or all.
fn add<const USED: usize>(streams: [&[u8]; BYTES], before: &[MaybeNanos], sums: &mut [MaybeNanos]) {
    let in_lanes = streams.map(|stream| stream.as_chunks::<LANES>().0);
    let (before_in_lanes, before_rest) = before.as_chunks::<LANES>();
    let (sums_in_lanes, sums_rest) = sums.as_chunks_mut::<LANES>();
    let whole = sums_in_lanes.len();
    for (at, (sums, before)) in sums_in_lanes.iter_mut().zip(before_in_lanes).enumerate() {
        let streams: [&[u8; LANES]; USED] = std::array::from_fn(|n| &in_lanes[n][at]);
        for lane in 0..LANES {
            sums[lane] = sum(before[lane], streams.map(|stream| stream[lane]));
        }
    }
    for (at, (sum_at, before)) in sums_rest.iter_mut().zip(before_rest).enumerate() {
        *sum_at = sum(*before, std::array::from_fn::<_, USED, _>(|n| streams[n][whole * LANES + at]));
    }
}

#[inline]
fn sum<const USED: usize>(before: MaybeNanos, stage: [u8; USED]) -> MaybeNanos {
    // Half as wide where that is enough, for then twice as many are joined at once.
    let stage = if USED <= 4 {
        i64::from(stage.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    } else {
        stage.iter().rev().fold(0, |value, byte| value << 8 | i64::from(*byte))
    };
    MaybeNanos::some(before.or_lowest().wrapping_add(stage))
}
