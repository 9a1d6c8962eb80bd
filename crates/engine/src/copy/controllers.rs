// SPDX-License-Identifier: MIT OR Apache-2.0
//! The DMA controllers of this machine, as the kernel shows them: which channels there are, whose
//! they are, and how long those in software have copied.

use super::order::CopyError;
use std::fs;
use std::path::Path;
use tardy_model::copy::Copying;

const CHANNELS: &str = "/sys/class/dma";
/// Of the controllers in software: how long each channel copied, ns.
const BUSY: &str = "/sys/module/tardy_softdma/parameters/busy_ns";

/// Channels of this machine, of each controller in order: `dma0chan0`, `dma0chan1`.
fn all() -> Vec<Vec<String>> {
    let names = fs::read_dir(CHANNELS).into_iter().flatten().flatten();
    let mut numbered: Vec<(u32, u32, String)> = names
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (controller, channel) = name.strip_prefix("dma")?.split_once("chan")?;
            Some((controller.parse().ok()?, channel.parse().ok()?, name))
        })
        .collect();
    numbered.sort_unstable();
    let mut found: Vec<(u32, Vec<String>)> = Vec::new();
    for (controller, _, name) in numbered {
        match found.last_mut().filter(|(last, _)| *last == controller) {
            Some((_, channels)) => channels.push(name),
            None => found.push((controller, vec![name])),
        }
    }
    found.into_iter().map(|(_, channels)| channels).collect()
}

/// The channels that a copy takes, controller by controller.
pub(super) fn channels(copy: &Copying) -> Result<Vec<String>, CopyError> {
    let all = all();
    let has_enough = |channels: &&Vec<String>| channels.len() >= copy.channels as usize;
    let taken: Vec<&Vec<String>> = all.iter().filter(has_enough).take(copy.controllers as usize).collect();
    if taken.len() < copy.controllers as usize {
        let has = match all.as_slice() {
            [] => "this machine has no DMA channel".to_owned(),
            all => format!("this machine has {}", all.iter().flatten().cloned().collect::<Vec<_>>().join(", ")),
        };
        let why = format!(
            "{has}, and {} × {} were asked for (controllers × channels): take fewer",
            copy.controllers, copy.channels
        );
        return Err(CopyError::Kernel { backend: copy.backend.name(), why });
    }
    Ok(taken.into_iter().flat_map(|channels| channels.iter().take(copy.channels as usize).cloned()).collect())
}

/// The driver of a channel's controller.
pub(super) fn provider(channel: &str) -> String {
    let driver = fs::read_link(Path::new(CHANNELS).join(channel).join("device/driver")).ok();
    let name = driver.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "an unknown driver".to_owned())
}

/// How long the channels of controllers in software copy, from here on.
pub(super) struct Busy {
    before: Vec<i64>,
}

impl Busy {
    pub(super) fn from_here_on() -> Busy {
        Busy { before: busy_ns() }
    }

    /// How long each of these channels has copied since, ns; `None` for one of hardware.
    pub(super) fn of(&self, channels: &[String]) -> Vec<Option<i64>> {
        let now = busy_ns();
        let all = all().concat();
        let since = |channel: &String| {
            let at = all.iter().position(|other| other == channel)?;
            Some(now.get(at)? - self.before.get(at)?)
        };
        channels.iter().map(since).collect()
    }
}

fn busy_ns() -> Vec<i64> {
    let text = fs::read_to_string(BUSY).unwrap_or_default();
    text.trim().split(',').filter_map(|ns| ns.parse().ok()).collect()
}
