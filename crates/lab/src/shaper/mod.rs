// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sender's queue discipline. A kind is one file and one line in [`set`].

pub mod none;

use crate::command::{Command, Step};
use crate::path::LinkEnd;
use std::collections::BTreeMap;
use tardy_spec::experiment::Shaper;

/// What a shaper plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shaped {
    /// Steps that set it.
    pub steps: Vec<Step>,
    /// Commands that tell what is set in truth.
    pub read_back: Vec<Command>,
}

/// Plans the shaper at these ends of the path.
pub fn set(shaper: &Shaper, ends: &BTreeMap<String, LinkEnd>) -> Shaped {
    match shaper {
        Shaper::None => none::set(ends),
    }
}
