// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ptp4l of tardy's own, which steers no clock: it is started on a device of the measured wire,
//! and what it measured at each Sync is by how much the clock is ahead.

use super::kept::{Keeper, Kept, LOOK_EVERY, Later, MOST_SAID, clock_of, printed_by, tai_offset_ns};
use super::ptp4l::ptp_status;
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

/// Syncs of one reading.
const SYNCS: usize = 16;
/// They come within this time.
const ALL_SYNCS: Duration = Duration::from_secs(3);
/// Between the two messages by which it knows the delay there is at most a Sync's interval, ns:
/// half of what the clocks drift meanwhile is in the delay.
const SYNC_INTERVAL_NS: i64 = 62_500_000;
/// The leader's device is read twice, so far apart: it drifts against the system's clock.
const APART: Duration = Duration::from_millis(500);

/// What a ptp4l of tardy's own shows: it steers no clock, so that what it measured at a Sync is by
/// how much the clock is ahead. Of one that follows another, what several Syncs from now on come to
/// ([`synced`]). `None` if no Sync comes, or the clock was set.
pub fn observed(at: &PtpSocket) -> Option<Kept> {
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
    // By how much CLOCK_TAI is ahead of the device's clock.
    let ahead = |at: &PhcReading| at.realtime_ns.checked_add(tai_offset_ns())?.checked_sub(at.phc_ns);
    let kept = |ahead_ns: i64, at: PhcReading, bound_ns: i64, moment: bool| {
        Some(Kept {
            by: Keeper::OnTheWire,
            reference: format!("PTP grandmaster {}", first.grandmaster),
            ahead_ns: ahead(&at)?.checked_add(ahead_ns)?,
            bound_ns,
            at_tai_ns: if moment { Some(at.realtime_ns.checked_add(tai_offset_ns())?) } else { None },
            later: None,
        })
    };
    if first.measured_at_ns.is_none() {
        // The system's clock is as far from CLOCK_TAI all the time.
        let only = kept(0, before, before.bound_ns, first.device.is_some())?;
        if first.device.is_none() {
            return Some(only);
        }
        std::thread::sleep(APART);
        let after = reading()?;
        // One that was set is no line.
        PhcReading::between(before, after)?;
        let at_tai_ns = after.realtime_ns.checked_add(tai_offset_ns())?;
        let later = Later { ahead_ns: ahead(&after)?, bound_ns: after.bound_ns, at_tai_ns };
        return Some(Kept { later: Some(later), ..only });
    }
    let until = Instant::now() + ALL_SYNCS;
    let mut syncs: BTreeMap<i64, [i64; 2]> = BTreeMap::new();
    while syncs.len() < SYNCS && Instant::now() < until {
        let status = ask()?;
        let measured_at_ns = status.measured_at_ns.filter(|at_ns| *at_ns > before.phc_ns);
        if let Some(at_ns) = measured_at_ns {
            syncs.insert(at_ns, [status.ahead_ns, status.delay_ns]);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let between = PhcReading::between(before, reading()?)?;
    let Synced { at_ns: phc_ns, ahead_ns, bound_ns } = synced(&syncs)?;
    let realtime_ns = between.to_realtime_ns(phc_ns);
    let bound_ns = bound_ns.saturating_add(between.bound_ns);
    kept(ahead_ns, PhcReading { phc_ns, realtime_ns, bound_ns: between.bound_ns }, bound_ns, true)
}

/// What Syncs come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    /// The Sync that counts, by the clock that is kept.
    pub at_ns: i64,
    /// By how much that was ahead then.
    pub ahead_ns: i64,
    pub bound_ns: i64,
}

/// What these Syncs come to, each with the offset and the mean path delay that a ptp4l measured
/// that steers nothing, ns. A Sync that comes late only makes the offset greater, so the one
/// counts whose offset is the least, less what the clocks have drifted by then. It is wrong by
/// at most the mean path delay, for no way takes less than nothing; by how far the Syncs are
/// apart, less that drift; and by half of the drift in a Sync's interval, which is in the
/// measured delay. `None` of fewer than two.
pub fn synced(syncs: &BTreeMap<i64, [i64; 2]>) -> Option<Synced> {
    let (first, last) = (*syncs.keys().next()?, *syncs.keys().next_back()?);
    let span = (last - first) as f64;
    let count = syncs.len() as f64;
    let since = |at_ns: i64| (at_ns - first) as f64;
    let [mean_since, mean_ahead] = [
        syncs.keys().map(|at_ns| since(*at_ns)).sum::<f64>() / count,
        syncs.values().map(|of| of[0] as f64).sum::<f64>() / count,
    ];
    let (mut over, mut under) = (0.0, 0.0);
    for (at_ns, [ahead_ns, _]) in syncs {
        let apart = since(*at_ns) - mean_since;
        over += apart * (*ahead_ns as f64 - mean_ahead);
        under += apart * apart;
    }
    let slope = if under > 0.0 { over / under } else { return None };
    let without_drift = |(at_ns, [ahead_ns, _]): (&i64, &[i64; 2])| *ahead_ns as f64 - slope * since(*at_ns);
    let least = syncs.iter().min_by(|one, other| without_drift(*one).total_cmp(&without_drift(*other)))?;
    let greatest = syncs.iter().map(without_drift).fold(f64::MIN, f64::max);
    let spread_ns = greatest - without_drift(least);
    let delay_ns = syncs.values().map(|[_, delay_ns]| *delay_ns).max()?;
    // The slope is as wrong as the Syncs are apart over all of their time.
    let drift_ns = (slope.abs() + spread_ns / span) * SYNC_INTERVAL_NS as f64 / 2.0;
    let bound_ns = delay_ns.saturating_add((spread_ns + drift_ns).ceil() as i64 + 1);
    Some(Synced { at_ns: *least.0, ahead_ns: least.1[0], bound_ns })
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
