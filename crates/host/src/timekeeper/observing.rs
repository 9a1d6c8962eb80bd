// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ptp4l of tardy's own, which steers no clock: it is started on a device of the measured wire,
//! and what it measured at each Sync is by how much the clock is ahead.

use super::kept::{Keeper, Kept, LOOK_EVERY, Later, MOST_SAID, clock_of, printed_by, tai_offset_ns};
use super::ptp4l::{PtpStatus, ptp_status};
use super::syncs::{SYNCS, Sync, Syncs, reference};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tardy_model::time::{PhcReading, Realtime};
use tardy_sys::clock;
use tardy_sys::nic;
use tardy_sys::process::{Child, readable};

/// Where a ptp4l of tardy's own listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtpSocket {
    pub socket: PathBuf,
    /// The network namespace of its device.
    pub netns: String,
}

/// Syncs come within this time.
const ALL_SYNCS: Duration = Duration::from_secs(3);
/// The leader's device is read twice, so far apart: it drifts against the system's clock.
const APART: Duration = Duration::from_millis(500);

/// What a ptp4l of tardy's own shows of a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnTheWire {
    /// Its clock is the one that leads.
    Leads(Kept),
    /// What it measured against the one that leads.
    Follows(Syncs),
}

/// What a ptp4l of tardy's own shows: it steers no clock, so that what it measured at a Sync is by
/// how much the clock is ahead. Of one that follows another, the Syncs from now on, however few
/// come. `None` if it does not answer, or the clock was set.
pub fn observed(at: &PtpSocket) -> Option<OnTheWire> {
    let own = at.socket.with_file_name(format!("asks-{}", std::process::id()));
    let ask = || ptp_status(&at.socket, &own, DOMAIN).ok().flatten();
    let first = ask()?;
    let reading = || match &first.device {
        None => {
            let now_ns = clock::now::<Realtime>().ns();
            Some(PhcReading { phc_ns: now_ns, realtime_ns: now_ns, bound_ns: 0 })
        }
        Some(device) => clock_of(device, Some(&at.netns))?.read().ok(),
    };
    let before = reading()?;
    if first.measured_at_ns.is_none() {
        return leading(&first, before, reading).map(OnTheWire::Leads);
    }
    let until = Instant::now() + ALL_SYNCS;
    let mut syncs: BTreeMap<i64, Sync> = BTreeMap::new();
    while syncs.len() < SYNCS && Instant::now() < until {
        if let Some(status) = ask()
            && let Some(at_ns) = status.measured_at_ns.filter(|at_ns| *at_ns > before.phc_ns)
        {
            syncs.insert(at_ns, Sync { at_ns, ahead_ns: status.ahead_ns, delay_ns: status.delay_ns });
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Some(OnTheWire::Follows(Syncs {
        grandmaster: first.grandmaster.clone(),
        read: [before, reading()?],
        tai_offset_ns: tai_offset_ns(),
        syncs: syncs.into_values().collect(),
    }))
}

/// What the clock that leads is to the system's.
fn leading(status: &PtpStatus, before: PhcReading, reading: impl Fn() -> Option<PhcReading>) -> Option<Kept> {
    let tai_ns = |at: &PhcReading| at.realtime_ns.checked_add(tai_offset_ns());
    // By how much CLOCK_TAI is ahead of the device's clock.
    let ahead_ns = |at: &PhcReading| tai_ns(at)?.checked_sub(at.phc_ns);
    let only = Kept {
        by: Keeper::OnTheWire,
        reference: reference(&status.grandmaster),
        ahead_ns: ahead_ns(&before)?,
        bound_ns: before.bound_ns,
        at_tai_ns: None,
        later: None,
    };
    if status.device.is_none() {
        // The system's clock is as far from CLOCK_TAI all the time.
        return Some(only);
    }
    std::thread::sleep(APART);
    let after = reading()?;
    // One that was set is no line.
    PhcReading::between(before, after)?;
    let later = Later { ahead_ns: ahead_ns(&after)?, bound_ns: after.bound_ns, at_tai_ns: tai_ns(&after)? };
    Some(Kept { at_tai_ns: Some(tai_ns(&before)?), later: Some(later), ..only })
}

/// A ptp4l of tardy's own on a device, which steers no clock. Whoever drops it ends it.
#[derive(Debug)]
pub struct Observing {
    ptp4l: Child,
    socket: PathBuf,
}

/// The domain in which it works: no other ptp4l on the wire is to take it for its own.
pub const DOMAIN: u8 = 117;

impl Observing {
    /// Starts it in this process's network namespace. One that does not follow leads. It stamps in
    /// the device where the device stamps all packets, and in software elsewhere.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(device: &str, socket: &Path, follows: bool) -> io::Result<Observing> {
        let can = nic::ts_info(device).is_ok_and(|info| info.tx_hardware() && info.rx_all() && info.phc >= 0);
        let role = if follows { "--slaveOnly=1" } else { "--priority1=1" };
        let words = ["-q", "-m", "-l", "4", "-2", "-i", device, if can { "-H" } else { "-S" }, role];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        words.extend([
            "--free_running=1".to_owned(),
            format!("--domainNumber={DOMAIN}"),
            format!("--uds_address={}", socket.display()),
            // The device was set for that before, and is set back afterwards.
            "--hwts_filter=check".to_owned(),
            "--kernel_leap=0".to_owned(),
            // One end may stamp in its device, and the other one in software.
            "--utc_offset=0".to_owned(),
            "--logAnnounceInterval=-2".to_owned(),
            "--logSyncInterval=-4".to_owned(),
            "--logMinDelayReqInterval=-4".to_owned(),
            // A stamp that comes late, on a busy machine, is no fault of the port.
            "--tx_timestamp_timeout=100".to_owned(),
            "--fault_reset_interval=-2".to_owned(),
        ]);
        // From this version on it has a second socket, which would take the place of that of a
        // ptp4l of the machine's own.
        let version = printed_by("ptp4l", &["-v"]).unwrap_or_default();
        let major =
            version.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major >= 4) {
            words.push(format!("--uds_ro_address={}", socket.with_file_name("ptp4lro").display()));
        }
        Ok(Observing { ptp4l: Child::start("ptp4l", &words, &[])?, socket: socket.to_owned() })
    }

    /// Waits until it shows something, for at most so long.
    ///
    /// # Errors
    /// Why it does not, in words.
    pub fn wait(&mut self, limit: Duration, follows: bool) -> Result<(), String> {
        let own = self.socket.with_file_name(format!("asks-{}", std::process::id()));
        let until = Instant::now() + limit;
        loop {
            self.check()?;
            let status = ptp_status(&self.socket, &own, DOMAIN).ok().flatten();
            if status.is_some_and(|status| status.measured_at_ns.is_some() == follows) {
                return Ok(());
            }
            if Instant::now() > until {
                let whom = if follows { "follows no other one" } else { "does not lead" };
                return Err(format!("ptp4l {whom} within {} s", limit.as_secs()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Sleeps until there is something to be read from `input`, or its other end is closed.
    ///
    /// # Errors
    /// If ptp4l ends before, in words.
    pub fn wait_for(&mut self, input: &impl AsFd) -> Result<(), String> {
        while !readable(input, WAKE).map_err(|error| error.to_string())? {
            self.check()?;
        }
        Ok(())
    }

    /// What it writes is read all the time: it must never wait for that.
    fn check(&mut self) -> Result<(), String> {
        let (mut said, mut bytes) = (Vec::new(), [0; 512]);
        while let Ok(Some(length @ 1..)) = self.ptp4l.read(&mut bytes, Duration::ZERO) {
            if said.len() < MOST_SAID {
                said.extend_from_slice(&bytes[..length]);
            }
        }
        let Some(how) = self.ptp4l.ended() else { return Ok(()) };
        let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
        Err(format!("ptp4l ended ({how:?}): {said}"))
    }
}

/// How often it looks whether ptp4l still runs.
const WAKE: Duration = Duration::from_secs(1);
