// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a host is asked to look at, and what it answers.

use crate::command::Command;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tardy_host::state::Moment;
use tardy_model::harmless::Json;
use tardy_model::machine::MachineState;
use tardy_model::placement::NapiThread;

/// What a plan needs to know of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Network devices that are to be taken.
    pub devices: Vec<DeviceAsk>,
    /// Programs that loads are to run there, as the experiment names them.
    pub programs: BTreeSet<String>,
}

/// A network device that is to be taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceAsk {
    /// Its name, or another name of it.
    pub device: String,
    /// The greatest packet that it must carry, bytes.
    pub mtu: u32,
    /// It may be taken even if it has addresses.
    pub take: bool,
    /// The kind of path that takes it, as files call it. Where the machine cannot have such a path,
    /// the device is not looked at.
    pub path: String,
    /// The device at the other end of the cable, if that is on this host too. The two must not be
    /// names of one device.
    pub peer: Option<String>,
}

/// What is to be read before a trial, and again behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observe {
    /// On which side of the trial.
    pub moment: Moment,
    /// Programs of the user's run in the trial: what they start is theirs, not a disturbance.
    pub programs: bool,
    /// Network devices whose polling kernel threads the host checks.
    pub polled: Vec<String>,
    /// Commands that print JSON: what queue disciplines have counted.
    pub commands: Vec<Command>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// What the machine had done until then.
    pub state: MachineState,
    /// The kernel threads that poll each device.
    pub napi: BTreeMap<String, Vec<NapiThread>>,
    /// What each command printed, or why it did not.
    pub says: Vec<Result<Json, String>>,
}
