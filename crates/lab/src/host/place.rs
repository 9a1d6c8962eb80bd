// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where something is: a host and, on it, a network namespace or a CPU; and what is known here of a
//! failure on another host. A place also knows how a command of a plan gets there.

use crate::command::Command;
use serde::{Deserialize, Serialize};
use std::fmt;
use tardy_model::machine::HostId;
use thiserror::Error;

/// A host and a network namespace on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The host. A journal lies on the host that it is about, so its lines name no other one.
    pub host: HostId,
    /// The network namespace there; `None` for the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
}

impl Place {
    /// A network namespace of a host.
    pub fn netns_of(host: HostId, netns: &str) -> Place {
        Place { host, netns: Some(netns.to_owned()) }
    }

    /// The host's own network.
    pub fn of(host: HostId) -> Place {
        Place { host, netns: None }
    }

    /// The name of the namespace; `None` for the host's own network, which has no name.
    pub fn netns(&self) -> Option<&str> {
        self.netns.as_deref()
    }

    /// The command `ip args…`, run in this place.
    pub fn ip(&self, args: &[&str]) -> Command {
        self.netns.as_deref().map_or_else(|| Command::ip(args), |netns| Command::ip_in(netns, args))
    }

    /// The command `tc args…`, run in this place.
    pub fn tc(&self, args: &[&str]) -> Command {
        self.netns.as_deref().map_or_else(|| Command::new("tc", args), |netns| Command::tc_in(netns, args))
    }

    /// A shell there, which runs `script` with the words of `rest` behind it.
    pub fn shell(&self, script: &str, rest: &[&str]) -> Command {
        self.exec(&[&["sh", "-c", script], rest].concat())
    }

    /// A program there with its arguments.
    pub fn exec(&self, words: &[&str]) -> Command {
        match (&self.netns, words) {
            (Some(netns), words) => Command::ip(&[&["netns", "exec", netns], words].concat()),
            (None, [program, args @ ..]) => Command::new(program, args),
            (None, []) => Command::new("true", &[]),
        }
    }
}

/// A CPU of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId {
    pub host: HostId,
    pub cpu: u32,
}

impl CpuId {
    /// Its number, for whoever runs on this host.
    ///
    /// # Errors
    /// If it is another host's, where that number is another CPU.
    pub fn number_on(self, host: HostId) -> Result<u32, OtherHosts> {
        if self.host == host { Ok(self.cpu) } else { Err(OtherHosts { cpu: self, host }) }
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU {} of {}", self.cpu, self.host)
    }
}

/// A CPU of another host than the one that is to run something on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{cpu} is asked for on {host}, which cannot run anything there: this is a fault of tardy; report it with this message"
)]
pub struct OtherHosts {
    pub cpu: CpuId,
    /// Who was to run something on it.
    pub host: HostId,
}

/// Another host cannot be asked, or answered with an error that is known here by its words only.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{host}: {says}")]
pub struct Away {
    /// Which host, as the user calls it.
    pub host: String,
    /// What happened, or its own words.
    pub says: String,
}
