// SPDX-License-Identifier: MIT OR Apache-2.0
//! `samples.parquet` as a file: [`tardy_parquet`] packs and reads it, this adds the path to what
//! goes wrong.

pub mod read;
pub mod sql;
pub mod write;

pub use tardy_parquet::{BATCH_ROWS, PAGE_ROWS};
