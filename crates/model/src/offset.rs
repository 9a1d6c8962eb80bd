// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the clock of another host is ahead of this one's: two readings with a line between
//! them, and by how much it may be wrong.

use crate::time::{Instant, Nanos, Realtime, Tai};
use serde::{Deserialize, Serialize};

/// How far another host's CLOCK_TAI was ahead at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetReading {
    /// When, by this host's CLOCK_TAI, ns.
    pub at_tai_ns: i64,
    /// The other clock less this one, ns.
    pub ahead_ns: i64,
    /// Half-width of the error, ns.
    pub bound_ns: i64,
}

/// The offset of another host's CLOCK_TAI during a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    pub host: String,
    /// Just before the trial.
    pub first: OffsetReading,
    pub last: OffsetReading,
    /// How it was found out.
    pub method: String,
}

impl Offset {
    /// How much faster the other clock ran, in parts per billion; `None` where no time passed
    /// between the readings.
    pub fn drift_ppb(&self) -> Option<f64> {
        let passed = self.last.at_tai_ns.checked_sub(self.first.at_tai_ns).filter(|passed| *passed > 0)?;
        Some(self.last.ahead_ns.saturating_sub(self.first.ahead_ns) as f64 * 1e9 / passed as f64)
    }

    /// By how much an instant that is converted may be wrong, ns, if the clocks ran evenly between
    /// the readings.
    pub fn bound_ns(&self) -> i64 {
        self.first.bound_ns.max(self.last.bound_ns)
    }

    /// The other clock less this one at an instant of this one's, by the line through both
    /// readings, ns.
    fn ahead_ns(&self, at: Instant<Tai>) -> i64 {
        let passed = i128::from(self.last.at_tai_ns) - i128::from(self.first.at_tai_ns);
        if passed <= 0 {
            return self.first.ahead_ns;
        }
        let more = i128::from(self.last.ahead_ns) - i128::from(self.first.ahead_ns);
        let since = i128::from(at.ns()) - i128::from(self.first.at_tai_ns);
        let ahead = i128::from(self.first.ahead_ns) + (since * more).div_euclid(passed);
        i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX })
    }

    /// The same moment on this host's clock.
    pub fn to_here(&self, theirs: Instant<Tai>) -> Instant<Tai> {
        let about = theirs.ns().saturating_sub(self.first.ahead_ns);
        // The line is so flat that the second look no longer changes it.
        let at = theirs.ns().saturating_sub(self.ahead_ns(Instant::from_ns(about)));
        Instant::from_ns(theirs.ns().saturating_sub(self.ahead_ns(Instant::from_ns(at))))
    }

    /// The same of an instant of the other host's CLOCK_REALTIME, given its own distance to
    /// CLOCK_TAI.
    pub fn realtime_to_here(&self, theirs: Instant<Realtime>, tai_minus_realtime: Nanos) -> Instant<Realtime> {
        let tai = theirs.ns().saturating_add(tai_minus_realtime.0);
        Instant::from_ns(self.to_here(Instant::from_ns(tai)).ns().saturating_sub(tai_minus_realtime.0))
    }
}

impl OffsetReading {
    /// The moment on the other clock that is `here` on this host's.
    pub fn to_there(&self, here: Instant<Tai>) -> Instant<Tai> {
        here + Nanos(self.ahead_ns)
    }
}

/// The offsets of the hosts on which a stream's ends were; `None` for an end on the coordinator's
/// own host, whose clock gives all instants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndOffsets {
    /// Of the host that sends, and takes the replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx: Option<Offset>,
    /// Of the host that receives, and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx: Option<Offset>,
}

impl EndOffsets {
    /// True if both ends are on the coordinator's host.
    pub fn are_none(&self) -> bool {
        self.tx.is_none() && self.rx.is_none()
    }

    /// By how much the difference of an instant at one end and one at the other may be wrong, ns.
    pub fn bound_ns(&self) -> i64 {
        let of = |offset: &Option<Offset>| offset.as_ref().map_or(0, Offset::bound_ns);
        of(&self.tx).saturating_add(of(&self.rx))
    }
}
