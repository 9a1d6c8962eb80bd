// SPDX-License-Identifier: MIT OR Apache-2.0
//! The idle states (C-states) of the first CPU, as cpuidle lists them: how deep it may sleep, and
//! how long it then takes to wake up.

use std::fs;
use std::path::Path;

/// One idle state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    pub name: String,
    /// Time to leave it, µs.
    pub exit_latency_us: u64,
    /// The kernel enters it only if it expects to stay so long, µs.
    pub residency_us: u64,
    pub is_disabled: bool,
}

/// The states, the shallowest first; none where the kernel has no cpuidle driver.
pub fn states() -> Vec<IdleState> {
    states_in(Path::new("/sys/devices/system/cpu/cpu0/cpuidle"))
}

/// The same, of a folder with one folder for each state.
pub fn states_in(folder: &Path) -> Vec<IdleState> {
    let state = |number: u32| {
        let read = |file: &str| fs::read_to_string(folder.join(format!("state{number}")).join(file)).ok();
        let figure = |file: &str| read(file)?.trim().parse::<u64>().ok();
        Some(IdleState {
            name: read("name")?.trim().to_owned(),
            exit_latency_us: figure("latency")?,
            residency_us: figure("residency").unwrap_or_default(),
            is_disabled: figure("disable").is_some_and(|flag| flag != 0),
        })
    };
    (0..).map_while(state).collect()
}

impl IdleState {
    /// In words, for the manifest.
    pub fn describe(&self) -> String {
        let off = if self.is_disabled { ", disabled" } else { "" };
        format!("{}: leaves in {} µs, stays {} µs{off}", self.name, self.exit_latency_us, self.residency_us)
    }
}
