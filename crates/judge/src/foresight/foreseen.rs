// SPDX-License-Identifier: MIT OR Apache-2.0
//! One thing that is foreseen of a run, and what of the machine it depends on.

use std::fmt;
use tardy_model::machine::RtLimit;
use tardy_model::verdict::Level;

/// What of the machine it rests on; what is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// How long realtime threads may run; `None` also where there is no limit.
    pub rt_limit: Option<RtLimit>,
    /// The kernel's release.
    pub release: Option<String>,
}

/// One thing that is foreseen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// A warning, or a note.
    pub level: Level,
    /// The key that makes it so.
    pub key: String,
    pub why: String,
    pub help: String,
    /// The cells that it is of, where it is not of all.
    pub cells: Vec<String>,
}

impl Foreseen {
    pub(super) fn new(level: Level, key: String, why: String, help: String) -> Foreseen {
        Foreseen { level, key, why, help, cells: Vec::new() }
    }
}

impl fmt::Display for Foreseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Foreseen { level, key, why, help, cells } = self;
        write!(f, "{}: `{key}`: {why}", level.name())?;
        match cells.as_slice() {
            [] => {}
            [one] => write!(f, ", in cell {one}")?,
            [first, others @ ..] => write!(f, ", in cell {first} and {} more", others.len())?,
        }
        write!(f, " ({help})")
    }
}

/// A count with its thousands apart, as an experiment file may have it.
pub(super) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('_');
        }
        out.push(digit);
    }
    out
}
