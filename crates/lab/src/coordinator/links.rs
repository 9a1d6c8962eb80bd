// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for the links of a path whose devices are cabled.

use crate::host::LookError;
use crate::host::devices::DeviceError;
use crate::host::hosts::Hosts;
use crate::path::Ends;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Two devices need so long to agree on a speed, and some more.
const LINK: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits until both devices have their link; a signal ends the wait.
///
/// # Errors
/// If one has none in time, or is not there any more.
pub fn wait_for_link(hosts: &mut Hosts<'_>, ends: &Ends, stop: &AtomicBool) -> Result<(), LookError> {
    let until = Instant::now() + LINK;
    for end in ends.values() {
        let host = hosts.at(end.place.host)?;
        while !(stop.load(Relaxed) || host.link_is_up(end.place.netns(), &end.device)?) {
            if Instant::now() > until {
                return Err(DeviceError::NoLink { device: end.device.clone(), seconds: LINK.as_secs() }.into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
    Ok(())
}
