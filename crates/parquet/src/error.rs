// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong with a file of samples, wherever it lies: the caller adds the path.

use parquet::errors::ParquetError;
use std::io::{self, ErrorKind};
use tardy_model::FORMAT;
use thiserror::Error;

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

/// Damage in a footer or a page, told as the library tells it.
pub(crate) fn damaged(why: impl Into<String>) -> CodecError {
    CodecError::refused(ParquetError::General(why.into()))
}
