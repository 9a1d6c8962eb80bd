// SPDX-License-Identifier: MIT OR Apache-2.0
//! What devices inside a path counted: whether packets really went through them. And what the
//! datapath of Open vSwitch counted, which asks a program about packets that it has no flow for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Packets of a network device, by its own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "device_packets")]
pub struct DevicePackets {
    /// Packets that came in by it.
    pub received: u64,
    /// Packets that left by it.
    pub sent: u64,
}

/// How Open vSwitch's datapath in the kernel found what to do with packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "lookups")]
pub struct Lookups {
    /// Packets for which it had a flow.
    pub hit: u64,
    /// Packets for which it had none, so that it asked a program (an upcall).
    pub missed: u64,
    /// Packets that it dropped because that question could not be asked.
    pub lost: u64,
}

/// Counters of what is inside a path, at one moment or between two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "passing")]
pub struct Passing {
    /// Devices by their names.
    pub devices: BTreeMap<String, DevicePackets>,
    /// Of the datapath, where the path has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookups: Option<Lookups>,
}

impl Passing {
    /// What was counted since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Passing) -> Passing {
        let less = |(name, now): (&String, &DevicePackets)| {
            let then = earlier.devices.get(name).copied().unwrap_or_default();
            let received = now.received.saturating_sub(then.received);
            (name.clone(), DevicePackets { received, sent: now.sent.saturating_sub(then.sent) })
        };
        let lookups = self.lookups.map(|now| {
            let then = earlier.lookups.unwrap_or_default();
            let [hit, missed] = [now.hit.saturating_sub(then.hit), now.missed.saturating_sub(then.missed)];
            Lookups { hit, missed, lost: now.lost.saturating_sub(then.lost) }
        });
        Passing { devices: self.devices.iter().map(less).collect(), lookups }
    }
}
