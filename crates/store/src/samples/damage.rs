// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error of a file that is not as it was written.

use parquet::errors::ParquetError;

/// `why`: what is wrong.
pub(crate) fn damaged(why: impl Into<String>) -> ParquetError {
    ParquetError::General(why.into())
}
