// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the bytes of a file of samples come from.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

/// Bytes that are read by their position only, so that several threads can read the streams of one
/// file side by side.
pub trait Source: Send + Sync {
    /// How many bytes there are.
    ///
    /// # Errors
    /// As the source has them.
    fn length(&self) -> io::Result<u64>;

    /// Fills `buffer` with the bytes from `at` on. No more is asked for than [`Source::length`]
    /// said there is.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEof`] if there are fewer, which is reported as damage; others as the
    /// source has them.
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, at)
    }
}

impl Source for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..));
        let bytes = rest.and_then(|rest| rest.get(..buffer.len())).ok_or(ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}
