// SPDX-License-Identifier: MIT OR Apache-2.0
//! The least thing that is done to the machine and put back as one, as a value.

use crate::command::Command;
use crate::inverse::Inverse;

/// The least thing that is done and put back as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done, in this order.
    pub does: Vec<Command>,
    /// What takes it back, in this order; empty where it goes away with what an earlier step made.
    pub undoes: Vec<Inverse>,
    /// What it is for.
    pub why: &'static str,
    /// A complaint with one of these texts is no failure: what was to be switched off is not there.
    pub tolerates: &'static [&'static str],
}
