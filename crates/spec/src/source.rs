// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of an experiment.

/// An experiment file's text, not yet looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it is called in messages: its path.
    pub name: String,
    pub text: String,
}

/// The largest experiment file that is read, in bytes: a thousand times what a person writes.
pub const LARGEST: u64 = 1 << 20;
