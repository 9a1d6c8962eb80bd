// SPDX-License-Identifier: MIT OR Apache-2.0
//! The codec of `samples.parquet`: one row per intended packet of a trial, every stream in one
//! file. Rows go in and come out as [`Batch`](tardy_model::sample::Batch)es; bytes go to a
//! [`Write`](std::io::Write) and come from a [`Source`]. It knows nothing about folders and paths.
//!
//! A stamp is not kept as such but as a *stage*: its distance from the stamp before it. Stages
//! are small and noisy, stamps large; a stage is also what one wants to see first. A stream's
//! points with a source form its *chain*, beginning with `scheduled`; each two neighbours in it
//! have a column, named as their metric. Where a row lacks the stamp before, its next stamp
//! cannot be kept as a stage and is in the *full-width* column `scheduled..POINT` instead, which a
//! file has only if a row needs it. So nothing is lost: whatever column `a..b` is not
//! null, it is the stamp of b − the stamp of a.
//!
//! How it is packed: stages as BYTE_STREAM_SPLIT under zstd, each byte stream in a block of its
//! own (`write.rs`), for noise is best left as it is and the zeros above it cost nothing;
//! DELTA_BINARY_PACKED is larger, for the difference of two noisy values is noisier than they
//! are. `seq` and `scheduled_ns` are all but constant differences. The rest are dictionaries.
//!
//! All times are in ns: `scheduled_ns` is TAI since 1970, stages and stamps are differences.

mod error;
mod layout;
mod read;
mod write;

pub use error::CodecError;
pub use layout::column_name;
pub use read::{Batches, Reader, Source};
pub use write::{check, check_numbers, write};

/// The most rows of a row group, which are all of one stream.
pub(crate) const GROUP_ROWS: usize = 1_000_000;

/// The most rows of a page: enough that the header before its values costs nothing.
pub const PAGE_ROWS: usize = 16_384;

/// The most rows that a reader returns at a time, a part of a page: they fit into the second-level
/// cache and leave room there for the counts of all rows.
pub const BATCH_ROWS: usize = 2048;

/// The last of the packets' numbers, which ascend behind `before`. An experiment has less than
/// 2^32 packets, so no number is higher: what counts on from them must not be led astray by a file.
fn last_of(before: i64, seq: &[i64]) -> Result<i64, String> {
    seq.iter().try_fold(before, |before, seq| match *seq {
        seq if seq > before && seq < i64::from(u32::MAX) => Ok(seq),
        seq => {
            Err(format!("packet number {seq} comes behind {before}; they ascend, from 0 to {} at most", u32::MAX - 1))
        }
    })
}
