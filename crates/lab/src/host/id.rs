// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ids of hosts' CPUs.

use std::fmt;
use tardy_model::machine::HostId;
use thiserror::Error;

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
