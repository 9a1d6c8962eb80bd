// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a picture is to look.

/// How a picture is to look. Only `text` looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Columns of the terminal.
    pub width: usize,
    /// Colour where it means something, by ANSI escapes.
    pub colour: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { width: 100, colour: false }
    }
}
