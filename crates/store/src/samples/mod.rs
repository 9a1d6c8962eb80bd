// SPDX-License-Identifier: MIT OR Apache-2.0
//! `samples.parquet`: one row per intended packet of a trial, every stream in one file.
//!
//! A stamp is not kept as such but as a *stage*: its distance from the stamp before it. Stages are small and noisy, stamps
//! large; a stage is also what one wants to see first. A stream's points with a source form its *chain*, beginning with
//! `scheduled`; each two neighbours in it have a column, named as their metric. Where a row lacks the stamp before, its next
//! stamp cannot be told by a stage and stands in the *full-width* column `scheduled..POINT` instead, which a file has only if
//! a row needs it. So nothing is lost: whatever column `a..b` is not null, it is the stamp of b − the stamp of a.
//!
//! How it is packed (measured on 10,000 packets over veth on a busy machine, bytes a row for the three stages of the
//! four-stamp case): DELTA_BINARY_PACKED 5.7, for the difference of two noisy values is noisier than they are;
//! BYTE_STREAM_SPLIT and gzip 5.2; the same with each of the noisy bytes in a deflate block of its own ([`squeeze`]) 5.0.
//! `seq` and `scheduled_ns` are all but constant differences: delta and gzip, nothing. The rest are dictionaries.

pub(crate) mod layout;
pub mod read;
pub mod sql;
mod squeeze;
pub mod write;

/// A reader hands out at most so many rows at a time.
pub const BATCH_ROWS: usize = 65_536;

/// A row group has at most so many rows, all of one stream.
pub(crate) const GROUP_ROWS: usize = 1_000_000;

/// A page has at most so many rows. Eight byte streams of a page then lie within deflate's window of 32 KiB from each other,
/// so that the sign bytes of a value that may be negative are stored once and not six times.
pub(crate) const PAGE_ROWS: usize = 16_384;
