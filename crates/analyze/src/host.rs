// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hosts of a trial and their CPUs, as its record calls them. CPU 1 of one host is not CPU 1 of
//! another, so whoever asks about a CPU says of which host.

use tardy_model::machine::MachineState;
use tardy_model::trial::TrialRecord;

/// A host of a trial. The coordinator's comes first in every order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrialHost<'a> {
    /// The coordinator's.
    Here,
    /// Another one, by its name.
    Other(&'a str),
}

/// A CPU of a host of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrialCpu<'a> {
    pub host: TrialHost<'a>,
    /// Its number there.
    pub cpu: u32,
}

impl<'a> TrialHost<'a> {
    /// The host that a record calls so; one without a name is the coordinator's.
    pub fn called(name: Option<&'a str>) -> TrialHost<'a> {
        name.map_or(TrialHost::Here, TrialHost::Other)
    }

    /// Its name in records; `None` for the coordinator's.
    pub fn name(self) -> Option<&'a str> {
        match self {
            TrialHost::Here => None,
            TrialHost::Other(name) => Some(name),
        }
    }

    /// Its CPU of this number.
    pub fn cpu(self, cpu: u32) -> TrialCpu<'a> {
        TrialCpu { host: self, cpu }
    }

    /// Its states before the trial and after it. `None` if nobody read them: nothing is known of
    /// such a host then, and no other host's state may be used in its place.
    pub fn states(self, record: &TrialRecord) -> Option<[&MachineState; 2]> {
        match self {
            TrialHost::Here => Some([&record.before, &record.after]),
            TrialHost::Other(name) => record.hosts.get(name).map(|[before, after]| [before, after]),
        }
    }
}
