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
//! What a user's own XDP program left before packets has columns of its own at the end: `hint`
//! with the name of the struct, and one for each member, packed like stages. [`Batches`] leaves
//! them out, for most figures need none of them; [`Reader::hints`] reads them.
//!
//! [`BucketWriter`] packs the histograms of a run that is in a data set, for readers elsewhere:
//! tardy itself never reads them.
//!
//! All times are in ns: `scheduled_ns` is TAI since 1970, stages and stamps are differences.

mod buckets;
mod layout;
mod read;
mod write;

pub use buckets::{BucketWriter, Counted};
pub use layout::column_name;
use parquet::errors::ParquetError;
pub use read::{Batches, HintPages, Reader, Source};
use std::io::{self, ErrorKind};
use tardy_model::FORMAT;
use thiserror::Error;
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

// What can go wrong with a file of samples, wherever it lies: the caller adds the path.

/// An error of the codec.
#[derive(Debug, Error)]
pub enum CodecError {
    /// The source or the sink failed, as it says itself; of kind `Other` if only the words are
    /// left that the library had for it.
    #[error("{0}")]
    Io(io::Error),
    /// The bytes are not those of a file of samples, or not as they were written. The text says
    /// what is wrong with them.
    #[error("{0}")]
    Damaged(String),
    /// A later version of tardy wrote it.
    #[error("made by a newer tardy: format {format}, this one reads {FORMAT}")]
    Newer { format: u64 },
    /// There is no such stream in the file.
    #[error("there is no stream `{stream}`; there is {}", have.join(", "))]
    NoSuchStream {
        stream: String,
        /// Those that there are.
        have: Vec<String>,
    },
    /// The rows to be written contradict themselves.
    #[error("stream `{stream}`: {why}")]
    Rows { stream: String, why: String },
}

impl CodecError {
    /// For `map_err` while bytes are read: a source that ends early is damage.
    pub(crate) fn reading(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof => CodecError::Damaged(error.to_string()),
            _ => CodecError::Io(error),
        }
    }

    /// For `map_err` while the library writes: an error of the sink stays one.
    pub(crate) fn writing(error: ParquetError) -> Self {
        CodecError::Io(match error {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(reason) => *reason,
                Err(other) => io::Error::other(other),
            },
            other => io::Error::other(other),
        })
    }

    /// For `map_err` where the library helps to read: what it refuses is damage.
    pub(crate) fn refused(error: ParquetError) -> Self {
        CodecError::Damaged(error.to_string())
    }
}

/// Damage in a footer or a page, in the library's words.
pub(crate) fn damaged(why: impl Into<String>) -> CodecError {
    CodecError::refused(ParquetError::General(why.into()))
}
