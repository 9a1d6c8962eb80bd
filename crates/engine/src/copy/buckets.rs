// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times in few buckets, for what is noted so often that a list of it would not stay in the cache.
//! Pure.

/// Buckets of each power of two of ticks.
const PARTS: usize = 16;
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Buckets of all times that there are.
pub const BUCKETS: usize = PARTS * (64 - PART_BITS as usize + 1);

/// The bucket of a time: exact below [`PARTS`], then a part of its power of two.
pub fn bucket(ticks: u64) -> usize {
    let power = 63 - (ticks | 1).leading_zeros();
    if power < PART_BITS {
        return ticks as usize;
    }
    let part = (ticks >> (power - PART_BITS)) as usize % PARTS;
    (power - PART_BITS + 1) as usize * PARTS + part
}

/// The greatest time of a bucket.
pub fn greatest(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64;
    }
    let (power, part) = ((bucket / PARTS - 1) as u32, (bucket % PARTS) as u128);
    // Beyond the last bucket there is no time.
    u64::try_from(((part + PARTS as u128 + 1) << power) - 1).unwrap_or(u64::MAX)
}
