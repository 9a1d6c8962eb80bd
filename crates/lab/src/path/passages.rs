// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices inside a path that every packet has to pass. Their counters show before each trial that
//! the probes really went through them, and behind each trial that they are still there.

use crate::host::place::Place;
use crate::step::Question;
use serde_json::Value;
use std::collections::BTreeMap;
use tardy_model::manifest::ReadBack;
use tardy_model::passed::{DevicePackets, Lookups, Passing};
use tardy_model::xdp::ProbeRecord;

/// A device that all packets between two stations pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    pub place: Place,
    pub device: String,
    /// The station whose packets it receives. It sends those that go there.
    pub from: String,
}

/// All of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passages {
    pub devices: Vec<Passage>,
    /// What a datapath of Open vSwitch counted, as lines.
    pub lookups: Option<Question>,
}

/// A device of the path that was there when the path was built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "network device {device} is gone{}, which all packets to and from station `{from}` pass: something else on this machine \
     has removed it while the path was in use; look who does that (`ip monitor link`), then run it again",
    netns.as_ref().map_or_else(String::new, |netns| format!(" from namespace {netns}"))
)]
pub struct Gone {
    pub device: String,
    pub netns: Option<String>,
    /// The station whose packets it received.
    pub from: String,
}

impl Passages {
    /// True if nothing of the path is watched.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.lookups.is_none()
    }

    /// Namespaces in which the devices are, each once.
    fn places(&self) -> Vec<&Place> {
        let mut places: Vec<&Place> = Vec::new();
        for passage in &self.devices {
            if !places.contains(&&passage.place) {
                places.push(&passage.place);
            }
        }
        places
    }

    /// What the kernels are asked: all devices of each namespace, and the datapath.
    pub fn questions(&self) -> Vec<Question> {
        let show = |place: &Place| Question::at(place, place.ip(&["-j", "-s", "link", "show"]));
        self.places().into_iter().map(show).chain(self.lookups.clone()).collect()
    }

    /// What the kernels answer.
    ///
    /// # Errors
    /// The first device that is not there any more.
    pub fn counted(&self, answers: &[ReadBack]) -> Result<Passing, Gone> {
        let read = |answer: &ReadBack| serde_json::from_str::<Value>(answer.says.text()).unwrap_or_default();
        let places = self.places();
        let links: Vec<Value> = answers.iter().take(places.len()).map(read).collect();
        let mut devices = BTreeMap::new();
        for Passage { place, device, from } in &self.devices {
            let all = places.iter().position(|of| *of == place).and_then(|at| links.get(at)?.as_array());
            let link = all.into_iter().flatten().find(|link| link["ifname"] == **device);
            let gone = || Gone { device: device.clone(), netns: place.netns().map(str::to_owned), from: from.clone() };
            let link = link.ok_or_else(gone)?;
            let packets = |way: &str| link["stats64"][way]["packets"].as_u64().unwrap_or(0);
            let packets = DevicePackets { received: packets("rx"), sent: packets("tx") };
            devices.insert(called(&self.devices, device, from), packets);
        }
        let lines = self.lookups.as_ref().and_then(|_| answers.get(places.len())).map(read);
        Ok(Passing { devices, lookups: lines.as_ref().and_then(lookups) })
    }

    /// Why the probes that arrived say nothing about this path: they went by another way than
    /// through its devices. A device counts whatever passes it, so it may have counted more.
    pub fn passed_by(&self, probes: &[ProbeRecord], passed: &Passing) -> Option<String> {
        for Passage { device, from, .. } in &self.devices {
            let name = called(&self.devices, device, from);
            let counted = passed.devices.get(&name)?;
            for (is_from, counted, did) in [(true, counted.received, "received"), (false, counted.sent, "sent")] {
                let ways = || probes.iter().filter(|probe| (probe.from == *from) == is_from);
                let arrived: u64 = ways().map(|probe| u64::from(probe.arrived().min(probe.sent))).sum();
                let Some(ProbeRecord { from, to, .. }) = ways().next().filter(|_| counted < arrived) else { continue };
                return Some(format!(
                    "{arrived} probe packets from {from} arrived at {to}, and network device {name}, which is on the only way \
                     that this path has, {did} {counted} packets meanwhile: they went by another way, of which no figure of \
                     this path would say anything. Look for another connection between the two (`ip -s link`, `bridge fdb`), \
                     then run again"
                ));
            }
        }
        None
    }
}

/// What records call a device: its name, and whose packets it receives where two have one name.
fn called(all: &[Passage], device: &str, from: &str) -> String {
    let same = all.iter().filter(|other| other.device == device).count();
    if same > 1 { format!("{device} of {from}") } else { device.to_owned() }
}

/// What `ovs-dpctl show` prints of how packets were looked up.
fn lookups(lines: &Value) -> Option<Lookups> {
    let mut lines = lines.as_array().into_iter().flatten().filter_map(Value::as_str);
    let words = lines.find_map(|line| line.trim().strip_prefix("lookups:"))?;
    let number = |name: &str| {
        let mut words = words.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix(':')?.parse().ok())
    };
    Some(Lookups { hit: number("hit")?, missed: number("missed")?, lost: number("lost")? })
}
