// SPDX-License-Identifier: MIT OR Apache-2.0
//! What keeps this machine's clock near a reference, as it reports itself: chrony
//! (`chronyc tracking`), and ptp4l of linuxptp (its management socket). Each report says by how
//! much the clock may be wrong, so that two machines with one reference can be compared by it.
//! ptp4l keeps a device's clock, or the system's where it stamps in software; a device's is
//! compared with the system's by ioctl.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tardy_model::time::{PhcReading, Realtime};
use tardy_sys::clock::{self, Phc};
use tardy_sys::nic;
use tardy_sys::process::{Child, Ended, in_netns, readable};

/// What one of them reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub by: Keeper,
    /// What it follows: machines that follow the same are comparable.
    pub reference: String,
    /// CLOCK_TAI is ahead of it by this, ns.
    pub ahead_ns: i64,
    /// By how much that may be wrong, ns, as far as the keeper can know.
    pub bound_ns: i64,
    /// When that was so, by CLOCK_TAI, ns; `None` where it is so all the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_tai_ns: Option<i64>,
}

/// What the reports of one keeper, of one reference, show of two machines' clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    /// How it was found out.
    pub method: String,
    /// By how much the other machine's CLOCK_TAI is ahead, ns.
    pub ahead_ns: i64,
    pub bound_ns: i64,
    /// When that was so, by this machine's CLOCK_TAI, ns; `None` for now.
    pub at_tai_ns: Option<i64>,
}

/// Two clocks that nobody steers move against each other by at most one part in this number.
const MOST_OFF: u64 = 1_000;

impl Kept {
    /// What it shows with one of this machine's reports; `None` if none is of the same keeper and
    /// reference.
    pub fn apart(theirs: &Kept, ours: &[Kept]) -> Option<Apart> {
        let ours = ours.iter().find(|ours| (ours.by, &ours.reference) == (theirs.by, &theirs.reference))?;
        let ahead_ns = theirs.ahead_ns.checked_sub(ours.ahead_ns)?;
        let there = theirs.at_tai_ns.and_then(|at_ns| at_ns.checked_sub(ahead_ns));
        // Of two moments, each clock has drifted against the reference meanwhile.
        let drift = there.zip(ours.at_tai_ns).map_or(0, |(there, here)| there.abs_diff(here) / MOST_OFF + 1);
        let bound_ns = theirs.bound_ns.checked_add(ours.bound_ns)?.checked_add(i64::try_from(drift).ok()?)?;
        let method = format!("{} at both ends, which follow {}", theirs.by.name(), theirs.reference);
        Some(Apart { method, ahead_ns, bound_ns, at_tai_ns: there.or(ours.at_tai_ns) })
    }
}

/// A program that keeps a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Keeper {
    Chrony,
    Ptp4l,
    /// A ptp4l of tardy's own, which steers nothing.
    OnTheWire,
}

impl Keeper {
    pub const fn name(self) -> &'static str {
        match self {
            Keeper::Chrony => "chrony",
            Keeper::Ptp4l => "ptp4l",
            Keeper::OnTheWire => "a ptp4l on the wire that steers no clock,",
        }
    }
}

/// What keeps this machine's clock, each with its report.
pub fn all() -> Vec<Kept> {
    let own = own_socket();
    let ptp4l = Path::new(PTP4L);
    let by_ptp = ptp4l.exists().then(|| ptp_status(ptp4l, &own, 0).ok().flatten()).flatten();
    chrony().into_iter().chain(by_ptp.and_then(|status| status.of_system())).collect()
}

/// Only root writes there, and only root may ask ptp4l.
fn own_socket() -> PathBuf {
    PathBuf::from(format!("/run/tardy-ptp4l-{}", std::process::id()))
}

/// Where ptp4l listens for management messages, unless it is configured otherwise.
pub const PTP4L: &str = "/var/run/ptp4l";
/// It answers within this time, or is not there.
const ANSWER: Duration = Duration::from_millis(500);
/// Where chronyd listens for chronyc.
const CHRONYD: &str = "/run/chrony/chronyd.sock";
/// All servers of NTP keep UTC, each with its own error, which chrony's bound contains.
const UTC: &str = "UTC";
/// Leap status of a clock that chrony does not keep (`LEAP_Unsynchronised`).
const NOT_KEPT: &str = "Not synchronised";
/// The reference of a clock that follows nobody (`local` in chrony's configuration).
const LOCAL: &str = "7F7F0101";

/// What chrony reports of this machine's clock; `None` without it, or if it keeps none.
fn chrony() -> Option<Kept> {
    // Without it chronyc asks by UDP, and waits for seconds where nothing answers.
    Path::new(CHRONYD).exists().then_some(())?;
    let kept = tracking(&answer_of("chronyc", &["-c", "-n", "tracking"])?)?;
    // It keeps CLOCK_REALTIME, and CLOCK_TAI is ahead of that by the kernel's offset.
    Some(Kept { ahead_ns: tai_offset_ns(), ..kept })
}

/// What a program prints; `None` if it fails, or takes too long or prints too much.
fn answer_of(program: &str, words: &[&str]) -> Option<String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let mut child = Child::start(program, &words, &[("LC_ALL", "C")]).ok()?;
    let until = Instant::now() + PRINTED;
    let (mut said, mut bytes) = (Vec::new(), [0; 512]);
    while let Some(length) = child.read(&mut bytes, until.saturating_duration_since(Instant::now())).ok()? {
        said.extend_from_slice(&bytes[..length]);
        if said.len() > MOST_SAID || Instant::now() >= until {
            return None;
        }
    }
    while child.ended().is_none() && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
    (child.ended() == Some(Ended::Code(0))).then(|| String::from_utf8_lossy(&said).into_owned())
}

/// A program has this time to print what is asked of it, and to end.
const PRINTED: Duration = Duration::from_secs(2);

/// The same out of a line of `chronyc -c tracking`: its manual gives as the greatest error of the
/// clock |system time offset| + root dispersion + root delay / 2.
pub fn tracking(line: &str) -> Option<Kept> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let [reference, _, stratum, _, offset, _, _, _, _, _, delay, dispersion, _, leap] = fields[..] else {
        return None;
    };
    // Stratum 0 is that of a clock that was never set.
    if leap == NOT_KEPT || reference == LOCAL || stratum.parse::<u8>().ok()? == 0 {
        return None;
    }
    let s = |field: &str| field.parse::<f64>().ok().filter(|s| s.is_finite()).map(f64::abs);
    let bound_s = s(offset)? + s(dispersion)? + s(delay)? / 2.0;
    let bound_ns = (bound_s < 1e9).then(|| (bound_s * 1e9).ceil() as i64)?;
    Some(Kept { by: Keeper::Chrony, reference: UTC.to_owned(), ahead_ns: 0, bound_ns, at_tai_ns: None })
}

/// By how much this machine's CLOCK_TAI is ahead of its CLOCK_REALTIME, ns.
fn tai_offset_ns() -> i64 {
    i64::from(clock::tai_offset_s()) * SECOND_NS
}

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
        Some(Kept { by: Keeper::Ptp4l, reference, ahead_ns, bound_ns, at_tai_ns: None })
    }
}

/// The clock of a device, in a network namespace or in this process's.
fn clock_of(device: &str, netns: Option<&str>) -> Option<Phc> {
    let ask = || nic::ts_info(device);
    let info = match netns {
        Some(netns) => in_netns(&Path::new("/run/netns").join(netns), ask).ok()?,
        None => ask(),
    };
    Phc::open(info.ok()?.phc).ok()
}

/// A machine has no more keepers whose reports are of use.
pub const MOST_KEPT: usize = 8;

/// Where a ptp4l of tardy's own listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtpSocket {
    pub socket: PathBuf,
    /// The network namespace of its device.
    pub netns: String,
}

/// Syncs of which the least offset counts: one that comes late only makes it greater.
const SYNCS: usize = 16;
/// They come within this time.
const ALL_SYNCS: Duration = Duration::from_secs(3);
/// By how much an offset is wrong that a ptp4l that steers nothing measures, ns: between the two
/// messages by which it knows the delay, at most a Sync's interval apart, the clocks drift by at
/// most a thousandth, and half of that is in the delay.
const UNSTEERED_NS: i64 = 31_250;

/// What a ptp4l of tardy's own shows: it steers no clock, so that what it measured at a Sync is by
/// how much the clock is ahead. Of one that follows another, the least of several Syncs from now
/// on. It is wrong by at most the mean path delay, by how far the Syncs are apart, and by the drift
/// in the delay. `None` if no Sync comes, or the clock was set.
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
    let kept = |ahead_ns: i64, at: PhcReading, bound_ns: i64, moment: bool| {
        let tai_ns = at.realtime_ns.checked_add(tai_offset_ns())?;
        Some(Kept {
            by: Keeper::OnTheWire,
            reference: format!("PTP grandmaster {}", first.grandmaster),
            ahead_ns: tai_ns.checked_sub(at.phc_ns)?.checked_add(ahead_ns)?,
            bound_ns,
            at_tai_ns: moment.then_some(tai_ns),
        })
    };
    if first.measured_at_ns.is_none() {
        // The system's clock is as far from CLOCK_TAI all the time.
        return kept(0, before, before.bound_ns, first.device.is_some());
    }
    let until = Instant::now() + ALL_SYNCS;
    let mut syncs: BTreeMap<i64, PtpStatus> = BTreeMap::new();
    while syncs.len() < SYNCS && Instant::now() < until {
        let status = ask()?;
        let measured_at_ns = status.measured_at_ns.filter(|at_ns| *at_ns > before.phc_ns);
        if let Some(at_ns) = measured_at_ns {
            syncs.insert(at_ns, status);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let between = PhcReading::between(before, reading()?)?;
    let least = syncs.iter().min_by_key(|(_, status)| status.ahead_ns)?;
    let greatest_ns = syncs.values().map(|status| status.ahead_ns).max()?;
    let delay_ns = syncs.values().map(|status| status.delay_ns).max()?;
    let (phc_ns, ahead_ns) = (*least.0, least.1.ahead_ns);
    let realtime_ns = between.to_realtime_ns(phc_ns);
    let bounds = [delay_ns, greatest_ns.checked_sub(ahead_ns)?, UNSTEERED_NS, between.bound_ns];
    let bound_ns = bounds.into_iter().fold(0, i64::saturating_add);
    kept(ahead_ns, PhcReading { phc_ns, realtime_ns, bound_ns: between.bound_ns }, bound_ns, true)
}

const LOOK_EVERY: Duration = Duration::from_millis(10);

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
        let version = answer_of("ptp4l", &["-v"]).unwrap_or_default();
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

/// Bytes of what it wrote before it ended that are passed on.
const MOST_SAID: usize = 2_048;
/// How often it looks whether ptp4l still runs.
const WAKE: Duration = Duration::from_secs(1);

const SECOND_NS: i64 = 1_000_000_000;
const MS_NS: i64 = 1_000_000;

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
