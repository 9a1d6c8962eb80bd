// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a keeper of a clock reports, and what two machines' reports show of their clocks. And what
//! each keeper is asked by: a program's output, a device's clock, the kernel's TAI offset.

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};
use tardy_sys::clock::{self, Phc};
use tardy_sys::nic;
use tardy_sys::process::{Child, Ended, in_netns};

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
    /// The same some time later, of a clock that nobody steers: in between it runs evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later: Option<Later>,
}

/// A second reading of what [`Kept`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Later {
    pub ahead_ns: i64,
    pub bound_ns: i64,
    pub at_tai_ns: i64,
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
    /// reference, or if one claims to be wrong by less than nothing.
    pub fn apart(theirs: &Kept, ours: &[Kept]) -> Option<Apart> {
        let ours = ours.iter().find(|ours| (ours.by, &ours.reference) == (theirs.by, &theirs.reference))?;
        if ![theirs, ours].into_iter().all(Kept::is_sound) {
            return None;
        }
        let about_ns = theirs.ahead_ns.checked_sub(ours.ahead_ns)?;
        // By this machine's clock: when the one was read that is known of one moment alone.
        let there = theirs.at_tai_ns.and_then(|at_ns| at_ns.checked_sub(about_ns));
        let is_ours = ours.later.is_none() && theirs.later.is_some();
        let at_tai_ns = if is_ours { ours.at_tai_ns.or(there) } else { there.or(ours.at_tai_ns) };
        let (our_ahead_ns, our_bound_ns) = ours.at(at_tai_ns)?;
        let (their_ahead_ns, their_bound_ns) = theirs.at(at_tai_ns.map(|at_ns| at_ns.saturating_add(about_ns)))?;
        let ahead_ns = their_ahead_ns.checked_sub(our_ahead_ns)?;
        // Two machines' clocks are never known without an error.
        let bound_ns = their_bound_ns.checked_add(our_bound_ns)?.max(1);
        let method = format!("{} at both ends, which follow {}", theirs.by.name(), theirs.reference);
        Some(Apart { method, ahead_ns, bound_ns, at_tai_ns })
    }

    /// No half-width of an error is below 0.
    fn is_sound(&self) -> bool {
        self.bound_ns >= 0 && self.later.is_none_or(|later| later.bound_ns >= 0)
    }

    /// By how much its clock was ahead of the reference at an instant of that clock, and by how
    /// much that may be wrong, ns.
    fn at(&self, when_tai_ns: Option<i64>) -> Option<(i64, i64)> {
        let Some((when_ns, at_ns)) = when_tai_ns.zip(self.at_tai_ns) else {
            return Some((self.ahead_ns, self.bound_ns));
        };
        let since_ns = when_ns.checked_sub(at_ns)?;
        let passed_ns = self.later.map_or(0, |later| later.at_tai_ns.saturating_sub(at_ns));
        let Some(later) = self.later.filter(|_| passed_ns > 0) else {
            // Meanwhile it has drifted against the reference.
            let drift_ns = i64::try_from(since_ns.unsigned_abs() / MOST_OFF + u64::from(since_ns != 0)).ok()?;
            return Some((self.ahead_ns, self.bound_ns.checked_add(drift_ns)?));
        };
        // On the line through both readings each counts by how near it is.
        let [since, passed] = [since_ns, passed_ns].map(i128::from);
        let of = |first: i64, last: i64| {
            i128::from(first) + (i128::from(last) - i128::from(first)).saturating_mul(since) / passed
        };
        let weights = [(passed - since).abs(), since.abs()];
        let by = |weight: i128, bound_ns: i64| weight.saturating_mul(i128::from(bound_ns));
        let bounds = by(weights[0], self.bound_ns).saturating_add(by(weights[1], later.bound_ns));
        let bound_ns = i64::try_from(bounds / passed + 1).ok()?;
        Some((i64::try_from(of(self.ahead_ns, later.ahead_ns)).ok()?, bound_ns))
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

/// A machine has no more keepers whose reports are of use.
pub const MOST_KEPT: usize = 8;

/// By how much this machine's CLOCK_TAI is ahead of its CLOCK_REALTIME, ns.
pub(super) fn tai_offset_ns() -> i64 {
    i64::from(clock::tai_offset_s()) * SECOND_NS
}

/// The clock of a device, in a network namespace or in this process's.
pub(super) fn clock_of(device: &str, netns: Option<&str>) -> Option<Phc> {
    let ask = || nic::ts_info(device);
    let info = match netns {
        Some(netns) => in_netns(&Path::new("/run/netns").join(netns), ask).ok()?,
        None => ask(),
    };
    Phc::open(info.ok()?.phc).ok()
}

/// What a program prints; `None` if it fails, or takes too long or prints too much.
pub(super) fn printed_by(program: &str, words: &[&str]) -> Option<String> {
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

pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Bytes of what it wrote before it ended that are passed on.
pub(super) const MOST_SAID: usize = 2_048;
pub(super) const SECOND_NS: i64 = 1_000_000_000;
