// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits until a path that is built can be used: for the links of devices that are cabled, and
//! for the schedules of queue disciplines.

use super::under_way::Run;
use crate::host::HostId;
use crate::host::LookError;
use crate::host::devices::DeviceError;
use crate::host::hosts::Hosts;
use crate::not_found::NotFound;
use crate::path::Ends;
use crate::plan::Plan;
use crate::run::RunError;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tardy_spec::experiment::Setup;
use tardy_sys::clock;

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

impl Run<'_, '_> {
    /// Reads the clocks of the hosts whose queue disciplines have a schedule. This machine's is
    /// read for every plan.
    pub(super) fn read_clocks(&mut self, setup: &Setup) -> Result<(), RunError> {
        let with_schedule = setup.shaper.taprio().is_some();
        // This machine's is the last one: the others may take their time to answer.
        let others = self.hosts.ids().into_iter().skip(1).filter(|_| with_schedule);
        for host in others {
            let now = self.hosts.at(host)?.now()?;
            self.found.read_clock(host, now);
        }
        self.found.read_clock(HostId::HERE, clock::now());
        self.clocks_read = Instant::now();
        Ok(())
    }

    /// Waits until the schedules of a path have begun. Before that every gate is open, and
    /// iproute2 (6.1) prints one that waits as what is no JSON.
    pub(super) fn wait_for_schedules(&self, plan: &Plan) -> Result<(), NotFound> {
        for (host, begins) in &plan.begins {
            if *host == HostId::HERE {
                clock::sleep_until(*begins);
                continue;
            }
            // Another clock is not waited for: what was left by it when it was read has to pass.
            let left = self.found.of(*host)?.now.map_or(0, |now| begins.ns() - now.ns());
            let left = Duration::from_nanos(left.max(0) as u64);
            std::thread::sleep(left.saturating_sub(self.clocks_read.elapsed()));
        }
        Ok(())
    }
}
