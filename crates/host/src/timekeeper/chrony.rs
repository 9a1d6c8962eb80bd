// SPDX-License-Identifier: MIT OR Apache-2.0
//! What chrony reports of this machine's clock (`chronyc tracking`).

use super::kept::{Keeper, Kept, printed_by, tai_offset_ns};
use std::net::IpAddr;
use std::path::Path;

/// Where chronyd listens for chronyc.
const CHRONYD: &str = "/run/chrony/chronyd.sock";
/// All servers of NTP keep UTC, each with its own error, which chrony's bound contains.
const UTC: &str = "UTC";
/// Leap status of a clock that chrony does not keep (`LEAP_Unsynchronised`).
const NOT_KEPT: &str = "Not synchronised";
/// The reference of a clock that follows nobody (`local` in chrony's configuration).
const LOCAL: &str = "7F7F0101";

/// What chrony reports of this machine's clock; `None` without it, or if it keeps none.
pub(super) fn kept() -> Option<Kept> {
    // Without it chronyc asks by UDP, and waits for seconds where nothing answers.
    Path::new(CHRONYD).exists().then_some(())?;
    let kept = tracking(&printed_by("chronyc", &["-c", "-n", "tracking"])?)?;
    // It keeps CLOCK_REALTIME, and CLOCK_TAI is ahead of that by the kernel's offset.
    Some(Kept { ahead_ns: tai_offset_ns(), ..kept })
}

/// The same out of a line of `chronyc -c tracking`: its manual gives as the greatest error of the
/// clock |system time offset| + root dispersion + root delay / 2.
pub fn tracking(line: &str) -> Option<Kept> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let [reference, server, stratum, _, offset, _, _, _, _, _, delay, dispersion, _, leap] = fields[..] else {
        return None;
    };
    // Stratum 0 is that of a clock that was never set. What is no address is a clock of the machine
    // itself, a device's for example, and that one may have any time.
    let follows_another = server.parse::<IpAddr>().is_ok();
    if leap == NOT_KEPT || reference == LOCAL || stratum.parse::<u8>().ok()? == 0 || !follows_another {
        return None;
    }
    let s = |field: &str| field.parse::<f64>().ok().filter(|s| s.is_finite()).map(f64::abs);
    let bound_s = s(offset)? + s(dispersion)? + s(delay)? / 2.0;
    let bound_ns = (bound_s < 1e9).then(|| (bound_s * 1e9).ceil() as i64)?;
    Some(Kept { by: Keeper::Chrony, reference: UTC.to_owned(), ahead_ns: 0, bound_ns, at_tai_ns: None, later: None })
}
