// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number of a host of a run: a machine with its own kernel, CPUs and clocks.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A host of a run. Its clock is its own, and its CPUs are numbered by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(u16);

impl HostId {
    /// The machine that the coordinator runs on. All instants of a trial are of its clock in the
    /// end.
    pub const HERE: HostId = HostId(0);

    /// The host of this number; 0 is [`HostId::HERE`].
    pub const fn numbered(number: u16) -> HostId {
        HostId(number)
    }
}

const THIS_MACHINE: &str = "this machine";
const HOST: &str = "host ";

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            HostId::HERE => f.write_str(THIS_MACHINE),
            HostId(number) => write!(f, "{HOST}{number}"),
        }
    }
}

impl Serialize for HostId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = if text == THIS_MACHINE { Some(0) } else { text.strip_prefix(HOST).and_then(|n| n.parse().ok()) };
        number.map(HostId).ok_or_else(|| serde::de::Error::custom(format!("`{text}` names no host")))
    }
}
