// SPDX-License-Identifier: MIT OR Apache-2.0
//! What ptp4l of linuxptp reports of the clock that it keeps, by its management socket. ptp4l keeps
//! a device's clock, or the system's where it stamps in software; a device's is compared with the
//! system's by ioctl.

use super::kept::{Keeper, Kept, SECOND_NS, clock_of, tai_offset_ns};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};
use tardy_model::time::Realtime;
use tardy_sys::clock;

/// Where ptp4l listens for management messages, unless it is configured otherwise.
pub const PTP4L: &str = "/var/run/ptp4l";
/// It answers within this time, or is not there.
const ANSWER: Duration = Duration::from_millis(500);
/// What ptp4l reports of the clock that it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtpStatus {
    /// Its grandmaster's clock identity; its own where it follows nobody.
    pub grandmaster: String,
    /// By how much the clock was ahead of the grandmaster's at the latest Sync, ns; 0 for the
    /// grandmaster itself.
    pub ahead_ns: i64,
    /// The mean path delay, ns: by this it may be wrong where each way takes as long each time, for
    /// no way takes less than nothing.
    pub delay_ns: i64,
    /// When that Sync came, on the clock that is kept, ns; `None` of the grandmaster itself.
    pub measured_at_ns: Option<i64>,
    /// The clock is not steered yet, or not at all.
    pub is_free: bool,
    /// PTP's time is ahead of UTC by this, s: 0 where it is no TAI.
    pub utc_offset_s: i64,
    /// The device whose clock it keeps; `None` for the system's clock.
    pub device: Option<String>,
}

const MS_NS: i64 = 1_000_000;
/// From one Sync to the next a clock that ptp4l steers keeps to its rate within this, ns a ms.
const STEERED: i64 = 1;

impl PtpStatus {
    /// What follows for the system's clock; `None` if the clock is not steered, or the device's
    /// cannot be read.
    pub fn of_system(&self) -> Option<Kept> {
        if self.is_free && self.measured_at_ns.is_some() {
            return None;
        }
        let (ahead_ns, more_ns, now_ns) = match &self.device {
            // ptp4l keeps CLOCK_REALTIME to UTC.
            None => {
                let ahead_ns = tai_offset_ns().checked_sub(self.utc_offset_s.checked_mul(SECOND_NS)?)?;
                (ahead_ns, 0, clock::now::<Realtime>().ns())
            }
            Some(device) => {
                let reading = clock_of(device, None)?.read().ok()?;
                let tai_ns = reading.realtime_ns.checked_add(tai_offset_ns())?;
                (tai_ns.checked_sub(reading.phc_ns)?, reading.bound_ns, reading.phc_ns)
            }
        };
        let age_ns = self.measured_at_ns.map_or(0, |at_ns| now_ns.saturating_sub(at_ns).saturating_abs());
        let since_ns = age_ns / MS_NS * STEERED + STEERED;
        // What was measured is steered away meanwhile, nobody knows how fast.
        let off_ns = i64::try_from(self.ahead_ns.unsigned_abs()).ok()?.checked_add(self.delay_ns)?;
        let bound_ns = off_ns.checked_add(more_ns)?.checked_add(since_ns)?;
        let reference = format!("PTP grandmaster {}", self.grandmaster);
        Some(Kept { by: Keeper::Ptp4l, reference, ahead_ns, bound_ns, at_tai_ns: None, later: None })
    }
}

/// Asks ptp4l of a domain at its socket. The answers come to a socket of our own, which is at
/// `own` meanwhile.
/// `None` if none of its ports follows a clock, and none leads.
///
/// # Errors
/// If nothing listens there, or what it answers is not understood.
pub fn ptp_status(at: &Path, own: &Path, domain: u8) -> io::Result<Option<PtpStatus>> {
    struct Removed<'p>(&'p Path);
    impl Drop for Removed<'_> {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(self.0);
        }
    }
    // One that was killed left its socket, and only root writes there.
    let _ = std::fs::remove_file(own);
    let socket = UnixDatagram::bind(own)?;
    let _removed = Removed(own);
    socket.connect(at)?;
    // One that is stopped takes nothing out of its queue, and a full one would hold us up.
    socket.set_write_timeout(Some(ANSWER))?;
    let until = Instant::now() + ALL_ANSWERS;
    // Each port answers a question for its own data.
    let ask = |sequence: u16, id: u16, most: usize| -> io::Result<Vec<Vec<u8>>> {
        socket.set_read_timeout(Some(ANSWER))?;
        socket.send(&question(sequence, id, domain))?;
        let (mut bytes, mut all) = ([0; 1500], Vec::new());
        // Some that it sends by itself may come first.
        for _ in 0..MOST_MESSAGES {
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match socket.recv(&mut bytes) {
                Ok(length) => all.extend(answer(&bytes[..length], sequence, id).map(<[u8]>::to_vec)),
                Err(_) if !all.is_empty() => break,
                Err(error) => return Err(error),
            }
            if all.len() == most {
                break;
            }
            socket.set_read_timeout(Some(NEXT))?;
        }
        if all.is_empty() { Err(io::Error::other("it answers something else")) } else { Ok(all) }
    };
    let [status, current] = [ask(1, TIME_STATUS_NP, 1)?.swap_remove(0), ask(2, CURRENT_DATA_SET, 1)?.swap_remove(0)];
    let scale = ask(3, TIME_PROPERTIES_DATA_SET, 1)?.swap_remove(0);
    let ports = ask(4, PORT_PROPERTIES_NP, MOST_MESSAGES)?;
    Ok(status_of(&status, &current, &scale, &ports))
}

/// All questions are answered within this time, or it is not there.
const ALL_ANSWERS: Duration = Duration::from_secs(1);
/// A further port answers within this time.
const NEXT: Duration = Duration::from_millis(20);
const MOST_MESSAGES: usize = 64;

/// Management ids of IEEE 1588-2008 (table 40) and of linuxptp.
pub const CURRENT_DATA_SET: u16 = 0x2001;
pub const TIME_PROPERTIES_DATA_SET: u16 = 0x2003;
pub const TIME_STATUS_NP: u16 = 0xc000;
pub const PORT_PROPERTIES_NP: u16 = 0xc004;

/// Lengths of the header, and of all before a management TLV's data.
const HEADER: usize = 34;
const BEFORE_DATA: usize = 54;
/// `messageType` of a management message, in the low four bits.
const MANAGEMENT: u8 = 0xd;
const GET: u8 = 0;
const RESPONSE: u8 = 2;
const TLV_MANAGEMENT: u16 = 1;

/// A question for a data set (IEEE 1588-2008, 15.4 and 15.5.2): to every port, over no boundary.
pub fn question(sequence: u16, id: u16, domain: u8) -> Vec<u8> {
    let mut bytes = vec![0; BEFORE_DATA];
    bytes[0] = MANAGEMENT;
    bytes[1] = 2;
    bytes[2..4].copy_from_slice(&(BEFORE_DATA as u16).to_be_bytes());
    bytes[4] = domain;
    bytes[30..32].copy_from_slice(&sequence.to_be_bytes());
    bytes[32] = 4;
    bytes[33] = 0x7f;
    bytes[HEADER..HEADER + 10].fill(0xff);
    bytes[46] = GET;
    bytes[48..50].copy_from_slice(&TLV_MANAGEMENT.to_be_bytes());
    bytes[50..52].copy_from_slice(&2u16.to_be_bytes());
    bytes[52..54].copy_from_slice(&id.to_be_bytes());
    bytes
}

/// The data of an answer to that question; `None` of any other message.
pub fn answer(bytes: &[u8], sequence: u16, id: u16) -> Option<&[u8]> {
    let u16_at = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let is_it = bytes.first()? & 0xf == MANAGEMENT && bytes.get(1)? & 0xf == 2;
    let is_of_it = u16_at(30)? == sequence && bytes.get(46)? & 0xf == RESPONSE;
    if !is_it || !is_of_it || u16_at(48)? != TLV_MANAGEMENT || u16_at(52)? != id {
        return None;
    }
    // The TLV's length counts the id.
    let length = usize::from(u16_at(50)?).checked_sub(2)?;
    bytes.get(BEFORE_DATA..BEFORE_DATA + length)
}

/// Port states (IEEE 1588-2008, table 8).
const MASTER: u8 = 6;
const UNCALIBRATED: u8 = 8;
const SLAVE: u8 = 9;
/// `TS_SOFTWARE` of linuxptp: the port's clock is the system's.
const SOFTWARE: u8 = 0;

/// In the flags of TIME_PROPERTIES_DATA_SET: PTP's time is TAI.
const PTP_TIMESCALE: u8 = 1 << 3;

/// What TIME_STATUS_NP, CURRENT_DATA_SET, TIME_PROPERTIES_DATA_SET and the ports'
/// PORT_PROPERTIES_NP say together.
pub fn status_of(status: &[u8], current: &[u8], scale: &[u8], ports: &[Vec<u8>]) -> Option<PtpStatus> {
    let i64_at = |bytes: &[u8], at: usize| Some(i64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let [offset_ns, measured_at_ns] = [i64_at(status, 0)?, i64_at(status, 8)?];
    let is_present = status.get(38..42)? != [0; 4];
    let grandmaster: String = status.get(42..50)?.iter().map(|byte| format!("{byte:02x}")).collect();
    // Behind a boundary clock nobody says how far that one is off.
    if u16::from_be_bytes(current.get(0..2)?.try_into().ok()?) > 1 {
        return None;
    }
    // Nanoseconds, times 2^16; rounded up.
    let delay = i64_at(current, 10)?;
    // Before the first answer nothing is known of it.
    if is_present && (measured_at_ns <= 0 || delay <= 0) {
        return None;
    }
    let delay_ns = i64::try_from(delay.unsigned_abs().div_ceil(1 << 16)).ok()?;
    let utc_offset_s = i64::from(i16::from_be_bytes(scale.get(0..2)?.try_into().ok()?));
    let is_tai = scale.get(2)? & PTP_TIMESCALE != 0;
    // Port identity, state, how it stamps, the length of the interface's name, and that name. One
    // that steers nothing never leaves the first of the two states.
    let states: &[u8] = if is_present { &[UNCALIBRATED, SLAVE] } else { &[MASTER] };
    let port = ports.iter().find(|port| port.get(10).is_some_and(|state| states.contains(state)))?;
    let name = port.get(13..13 + usize::from(*port.get(12)?))?;
    let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
    let [ahead_ns, delay_ns] = if is_present { [offset_ns, delay_ns] } else { [0, 0] };
    Some(PtpStatus {
        grandmaster,
        ahead_ns,
        delay_ns,
        measured_at_ns: is_present.then_some(measured_at_ns),
        is_free: port.get(10) == Some(&UNCALIBRATED),
        utc_offset_s: if is_tai { utc_offset_s } else { 0 },
        device: (*port.get(11)? != SOFTWARE).then(|| name.to_owned()),
    })
}
