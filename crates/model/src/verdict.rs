// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts: a conclusion, the measured figures behind it, and how much it weighs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How much a verdict weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "level")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; the numbers may be used.
    Note,
    /// Doubtful; the numbers may still be used.
    Warning,
    /// The numbers must not be used.
    Invalid,
}

impl Level {
    /// All, the least severe first.
    pub const ALL: [Level; 4] = [Level::Ok, Level::Note, Level::Warning, Level::Invalid];

    /// As it is in files.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Invalid => "invalid",
        }
    }
}

/// A measured figure; its name carries the unit (`_ns`, `_s`, `_per_s`, `share`). Null where it is
/// not a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "figure")]
pub enum Figure {
    /// A count or a time.
    Int(i64),
    /// A rate or a share; one that is not a number is null in JSON.
    Float(#[schemars(with = "Option<f64>")] f64),
    /// A name, a command, a policy.
    Text(String),
    /// Several figures, in a list.
    List(Vec<Figure>),
}

impl From<i64> for Figure {
    fn from(v: i64) -> Self {
        Figure::Int(v)
    }
}
impl From<u64> for Figure {
    fn from(v: u64) -> Self {
        Figure::Int(i64::try_from(v).unwrap_or(i64::MAX))
    }
}
impl From<u32> for Figure {
    fn from(v: u32) -> Self {
        Figure::Int(i64::from(v))
    }
}
impl From<f64> for Figure {
    fn from(v: f64) -> Self {
        Figure::Float(v)
    }
}
impl From<&str> for Figure {
    fn from(v: &str) -> Self {
        Figure::Text(v.to_owned())
    }
}
impl From<String> for Figure {
    fn from(v: String) -> Self {
        Figure::Text(v)
    }
}

/// A conclusion with its evidence and the rule that gave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "verdict")]
pub struct Verdict {
    /// The rule's name; stable.
    pub id: String,
    /// How much it weighs.
    pub level: Level,
    /// What was found, in one sentence.
    pub says: String,
    /// The measured figures, by name.
    #[serde(default)]
    #[schemars(!default)]
    pub evidence: BTreeMap<String, Figure>,
}

impl Verdict {
    /// A verdict without evidence yet.
    pub fn new(id: &str, level: Level, says: impl Into<String>) -> Self {
        Verdict { id: id.to_owned(), level, says: says.into(), evidence: BTreeMap::new() }
    }
    #[must_use]
    pub fn with(mut self, name: &str, figure: impl Into<Figure>) -> Self {
        self.evidence.insert(name.to_owned(), figure.into());
        self
    }
}
