// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time with its clock in the type: subtracting instants of two clocks does not compile; a
//! conversion states its bound.

mod drift;
mod ends;
mod sources;
mod steering;

pub use drift::{Drift, WANDER_PPB};
pub use ends::EndOffsets;
pub use sources::MOST_SOURCES;
pub use steering::{Steering, Timex};

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::ops::{Add, Sub};

/// A signed span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub i64);

impl Nanos {
    pub const ZERO: Nanos = Nanos(0);
    /// A span of whole microseconds.
    pub const fn from_micros(us: i64) -> Self {
        Nanos(us * 1_000)
    }
    /// A span of whole milliseconds.
    pub const fn from_millis(ms: i64) -> Self {
        Nanos(ms * 1_000_000)
    }
    /// A span of whole seconds.
    pub const fn from_secs(s: i64) -> Self {
        Nanos(s * 1_000_000_000)
    }
    /// The span in seconds, for rates.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

/// The name of a clock, for places where it must be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockId {
    /// International atomic time: never steps for a leap second; the schedule's clock.
    Tai,
    /// UTC: the clock of the kernel's software stamps.
    Realtime,
    /// Since boot; never set, only slewed.
    Monotonic,
}

/// A clock as a type.
pub trait Clock: Copy {
    const ID: ClockId;
}

/// CLOCK_TAI: atomic time, without leap seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tai;
/// CLOCK_REALTIME: UTC, which somebody may step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Realtime;
/// CLOCK_MONOTONIC: from boot on, never stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic;

impl Clock for Tai {
    const ID: ClockId = ClockId::Tai;
}
impl Clock for Realtime {
    const ID: ClockId = ClockId::Realtime;
}
impl Clock for Monotonic {
    const ID: ClockId = ClockId::Monotonic;
}

/// An instant of clock `C`, in nanoseconds since that clock's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent, bound = "")]
pub struct Instant<C: Clock> {
    ns: i64,
    #[serde(skip)]
    clock: PhantomData<C>,
}

impl<C: Clock> Instant<C> {
    /// The instant `ns` nanoseconds after the clock's epoch.
    pub const fn from_ns(ns: i64) -> Self {
        Instant { ns, clock: PhantomData }
    }
    /// Nanoseconds since the clock's epoch.
    pub const fn ns(self) -> i64 {
        self.ns
    }
}

impl<C: Clock> Sub for Instant<C> {
    type Output = Nanos;
    fn sub(self, other: Self) -> Nanos {
        Nanos(self.ns - other.ns)
    }
}

impl<C: Clock> Add<Nanos> for Instant<C> {
    type Output = Self;
    fn add(self, span: Nanos) -> Self {
        Self::from_ns(self.ns + span.0)
    }
}

impl<C: Clock> Sub<Nanos> for Instant<C> {
    type Output = Self;
    fn sub(self, span: Nanos) -> Self {
        Self::from_ns(self.ns - span.0)
    }
}

/// What the clocks of one station showed at one moment: each read between two readings of TAI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// The middle of the bracket.
    pub tai_ns: i64,
    /// CLOCK_REALTIME in the bracket.
    pub realtime_ns: i64,
    /// CLOCK_MONOTONIC in the bracket.
    pub monotonic_ns: i64,
    /// Half the bracket's width: what each difference between two clocks may be wrong by.
    pub bound_ns: i64,
    /// The kernel's TAI − UTC offset, in seconds.
    pub tai_offset_s: i32,
    /// How the kernel steered these clocks, where that is known.
    #[serde(default)]
    pub steering: Option<Steering>,
}

impl ClockReading {
    /// TAI − REALTIME by the kernel's own offset, which is exact, if the bracket agrees with it;
    /// else as bracketed.
    pub fn tai_minus_realtime_ns(&self) -> i64 {
        let exact = i64::from(self.tai_offset_s) * 1_000_000_000;
        let seen = self.tai_ns - self.realtime_ns;
        if (seen - exact).abs() <= self.bound_ns.max(1_000) { exact } else { seen }
    }
}

/// How an instant of another clock becomes TAI, and by how much that may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversion {
    /// Added to a REALTIME instant to give TAI.
    pub tai_minus_realtime_ns: i64,
    /// Half-width of the error.
    pub bound_ns: i64,
}

impl Conversion {
    /// From a reading before the trial and one after it. Where the two disagree, the first one
    /// counts and the disagreement is the bound.
    pub fn between(before: &ClockReading, after: &ClockReading) -> Self {
        let (a, b) = (before.tai_minus_realtime_ns(), after.tai_minus_realtime_ns());
        let exact = |r: &ClockReading| r.tai_minus_realtime_ns() == i64::from(r.tai_offset_s) * 1_000_000_000;
        // What another machine or a file gives may be below 0, which no half-width is.
        let read = if exact(before) && exact(after) { 0 } else { before.bound_ns.max(after.bound_ns).max(0) };
        Conversion { tai_minus_realtime_ns: a, bound_ns: (a - b).abs() + read }
    }

    /// The same moment on the TAI clock.
    pub fn to_tai(&self, at: Instant<Realtime>) -> Instant<Tai> {
        Instant::from_ns(at.ns() + self.tai_minus_realtime_ns)
    }
}

/// A network device's own clock and the system's at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhcReading {
    /// The device's clock, whose beginning may be any instant.
    pub phc_ns: i64,
    /// CLOCK_REALTIME, the middle of the bracket.
    pub realtime_ns: i64,
    /// Half the bracket's width.
    pub bound_ns: i64,
}

/// A processor's counter (the TSC on x86) and CLOCK_TAI at one moment. The counter is in units of
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterReading {
    /// The counter just before the clock was read.
    pub before: u64,
    pub tai_ns: i64,
    /// The counter just after that.
    pub after: u64,
}

/// How an instant of a device's clock becomes CLOCK_REALTIME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhcConversion {
    first: PhcReading,
    last: PhcReading,
    /// Half-width of the error, if the clock ran evenly between the readings.
    pub bound_ns: i64,
}

/// No clock that runs by itself is so far from the rate of another: one part in a thousand. The
/// kernel steers by half of that.
const MOST_OFF: i128 = 1_000;

impl PhcReading {
    /// From a reading before and one after what is to be converted; `None` if the clock was set in
    /// between, or does not run.
    pub fn between(before: PhcReading, after: PhcReading) -> Option<PhcConversion> {
        let device = i128::from(after.phc_ns) - i128::from(before.phc_ns);
        let system = i128::from(after.realtime_ns) - i128::from(before.realtime_ns);
        let bound_ns = before.bound_ns.max(after.bound_ns).max(0);
        let explained = i128::from(before.bound_ns) + i128::from(after.bound_ns);
        let even = device > 0 && (device - system).abs() <= system.max(0) / MOST_OFF + explained;
        even.then_some(PhcConversion { first: before, last: after, bound_ns })
    }
}

/// Stamps that show in what steps their clock counts.
const LEAST_FOR_TICK: usize = 16;

/// The steps in which a clock counts, ns: the greatest that all of these stamps are multiples of,
/// seen from the first; 1 of too few of them to show it.
pub fn tick_ns(stamps: impl Iterator<Item = i64>) -> i64 {
    let (mut first, mut tick, mut all) = (None, 0_u64, 0);
    for stamp in stamps {
        let mut step = stamp.abs_diff(*first.get_or_insert(stamp));
        // Euclid's algorithm.
        while step != 0 {
            (tick, step) = (step, tick % step);
        }
        all += 1;
    }
    if all < LEAST_FOR_TICK { 1 } else { clamped(i128::from(tick)).max(1) }
}

impl PhcConversion {
    /// The same moment on CLOCK_REALTIME, ns.
    pub fn to_realtime_ns(&self, phc_ns: i64) -> i64 {
        let device = i128::from(self.last.phc_ns) - i128::from(self.first.phc_ns);
        let system = i128::from(self.last.realtime_ns) - i128::from(self.first.realtime_ns);
        let since = i128::from(phc_ns) - i128::from(self.first.phc_ns);
        // Of instants within a trial the product is far below the type's end.
        let more = since.saturating_mul(system) / device.max(1);
        clamped(more.saturating_add(i128::from(self.first.realtime_ns)))
    }
}

listed! {
    /// What PTP is used for where two machines' clocks are to be compared.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Ptp {
        #[default]
        Off,
        /// A ptp4l on each device of the path, which steers no clock.
        Observe,
    }
}

impl Ptp {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Ptp::Off => "off",
            Ptp::Observe => "observe",
        }
    }
}

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

fn clamped(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

/// The offset of another host's CLOCK_TAI during a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    pub host: String,
    /// Just before the trial.
    pub first: OffsetReading,
    pub last: OffsetReading,
    /// How it was found out.
    pub method: String,
    /// By how much the rates of both clocks against each other differed among all readings of how
    /// their kernels steer them, ppb.
    #[serde(default, skip_serializing_if = "is_even")]
    pub steered_ppb: i64,
    /// The reading by which the schedule there was begun, where that is not the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_by: Option<OffsetReading>,
    /// What other sources show of the same clocks. None of them counts for instants.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "sources::few")]
    pub others: Vec<OtherSource>,
    /// Sources that were asked for and show nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "sources::few")]
    pub left_out: Vec<LeftOut>,
}

fn is_even(steered_ppb: &i64) -> bool {
    *steered_ppb == 0
}

/// A source that was asked for, and why it shows nothing of two clocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub method: String,
    pub why: String,
}

/// What a source shows of two clocks during a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherSource {
    /// How it was found out.
    pub method: String,
    /// Just before the trial.
    pub first: OffsetReading,
    pub last: OffsetReading,
    /// It is what a program reports about its own work, and is only compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reported: bool,
}

/// Two sources that exclude each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// How each was found out.
    pub methods: [String; 2],
    /// How far apart both offsets are, ns.
    pub apart_ns: i64,
    /// How far apart they may be, ns: both bounds.
    pub allowed_ns: i64,
    /// At least one of them is only what a program reports about its own work.
    pub is_reported: bool,
}

impl Offset {
    /// The reading by which the schedule on the other host was begun.
    pub fn beginning(&self) -> OffsetReading {
        self.begun_by.unwrap_or(self.first)
    }

    /// True if it is one clock that both have: no comparison of two has no error.
    pub fn is_one_clock(&self) -> bool {
        [self.first, self.last].iter().all(|of| (of.ahead_ns, of.bound_ns) == (0, 0))
    }

    /// The same with what another source shows. The source with the least bound counts for
    /// instants.
    pub fn with(mut self, other: OtherSource) -> Offset {
        let as_source = |of: OtherSource| Offset {
            host: String::new(),
            first: of.first,
            last: of.last,
            method: of.method,
            steered_ppb: self.steered_ppb,
            ..Offset::default()
        };
        // No half-width is below 0: who says so is only compared.
        let is_sound = other.first.bound_ns >= 0 && other.last.bound_ns >= 0;
        if !is_sound || as_source(other.clone()).bound_ns() >= self.bound_ns() {
            self.others.push(other);
            return self;
        }
        let begun_by = Some(self.beginning());
        let (method, first, last) = (self.method, self.first, self.last);
        self.others.push(OtherSource { method, first, last, is_reported: false });
        Offset { first: other.first, last: other.last, method: other.method, begun_by, ..self }
    }

    /// The same with a source that never counts for instants, and is only compared: its bound is as
    /// good as what a program reports about itself.
    pub fn beside(mut self, other: OtherSource) -> Offset {
        self.others.push(OtherSource { is_reported: true, ..other });
        self
    }

    /// The two sources that are the farthest beyond what both bounds allow, between their readings
    /// of the trial; `None` if all agree. Each is the line by which it would convert instants. Two
    /// that tardy itself asked come before one that a program reports.
    pub fn disagreement(&self) -> Option<Disagreement> {
        let line = |of: &OtherSource| Offset {
            first: of.first,
            last: of.last,
            method: of.method.clone(),
            steered_ppb: self.steered_ppb,
            ..Offset::default()
        };
        let own = (Offset { others: Vec::new(), ..self.clone() }, false);
        let all: Vec<(Offset, bool)> =
            std::iter::once(own).chain(self.others.iter().map(|of| (line(of), of.is_reported))).collect();
        let compare = |one: &(Offset, bool), other: &(Offset, bool)| {
            let ([one, other], is_reported) = ([&one.0, &other.0], one.1 || other.1);
            let allowed_ns = one.bound_ns().saturating_add(other.bound_ns()).saturating_add(1);
            let from = one.first.at_tai_ns.max(other.first.at_tai_ns);
            let until = one.last.at_tai_ns.min(other.last.at_tai_ns).max(from);
            let apart = |at_ns: i64| {
                let [one, other] = [one, other].map(|of| i128::from(of.ahead_ns(Instant::from_ns(at_ns))));
                clamped((one - other).abs())
            };
            let apart_ns = apart(from).max(apart(until));
            let methods = || [one, other].map(|of| of.method.clone());
            (apart_ns > allowed_ns).then(|| Disagreement { methods: methods(), apart_ns, allowed_ns, is_reported })
        };
        let pairs = all.iter().enumerate().flat_map(|(n, one)| all[n + 1..].iter().map(move |other| (one, other)));
        let all = pairs.filter_map(|(one, other)| compare(one, other));
        all.max_by_key(|of| (!of.is_reported, of.apart_ns.saturating_sub(of.allowed_ns)))
    }

    /// How much faster the other clock ran by the readings, in parts per billion; `None` where no
    /// time passed between them.
    pub fn drift_ppb(&self) -> Option<f64> {
        let passed = self.last.at_tai_ns.checked_sub(self.first.at_tai_ns).filter(|passed| *passed > 0)?;
        Some(self.last.ahead_ns.saturating_sub(self.first.ahead_ns) as f64 * 1e9 / passed as f64)
    }

    /// By how much both clocks may have left the line between the readings, ns: they did not run
    /// evenly if a kernel steered one otherwise after the trial than before it.
    pub fn bend_ns(&self) -> i64 {
        let passed = i128::from(self.last.at_tai_ns) - i128::from(self.first.at_tai_ns);
        clamped(steering::bend_ns(self.steered_ppb, passed))
    }

    /// By how much an instant that is converted may be wrong, ns, if the rates of the clocks
    /// stayed within what was read of them.
    pub fn bound_ns(&self) -> i64 {
        let of_readings = self.first.bound_ns.max(self.last.bound_ns).max(0).saturating_add(self.bend_ns());
        match self.without_slope() {
            Some(apart) => of_readings.saturating_add(clamped((apart + 1) / 2)),
            None => of_readings,
        }
    }

    /// By how much more one instant between the readings may be wrong than another, ns: the error
    /// is a line from that of the first reading to that of the last, and a bend to either side.
    pub fn drift_bound_ns(&self) -> i64 {
        let bends = self.bend_ns().saturating_mul(2);
        let of_readings = self.first.bound_ns.max(0).saturating_add(self.last.bound_ns.max(0)).saturating_add(bends);
        of_readings.saturating_add(self.without_slope().map_or(0, clamped))
    }

    /// How far apart both offsets are, ns, where the mean of them is taken for the whole trial: the
    /// bounds explain the distance, and a slope by these readings may be wrong by more than two
    /// clocks ever differ. It would scale every interval of the other host.
    fn without_slope(&self) -> Option<i128> {
        let passed = i128::from(self.last.at_tai_ns) - i128::from(self.first.at_tai_ns);
        let apart = (i128::from(self.last.ahead_ns) - i128::from(self.first.ahead_ns)).abs();
        let bounds = i128::from(self.first.bound_ns) + i128::from(self.last.bound_ns);
        (apart <= bounds && bounds * MOST_OFF > passed).then_some(apart)
    }

    /// The other clock less this one at an instant of this one's, ns: by the line through both
    /// readings, or the mean of both.
    fn ahead_ns(&self, at: Instant<Tai>) -> i64 {
        let passed = i128::from(self.last.at_tai_ns) - i128::from(self.first.at_tai_ns);
        let more = i128::from(self.last.ahead_ns) - i128::from(self.first.ahead_ns);
        if self.without_slope().is_some() {
            return clamped(i128::from(self.first.ahead_ns) + more.div_euclid(2));
        }
        if passed <= 0 {
            return self.first.ahead_ns;
        }
        let since = i128::from(at.ns()) - i128::from(self.first.at_tai_ns);
        clamped(since.saturating_mul(more).div_euclid(passed).saturating_add(i128::from(self.first.ahead_ns)))
    }

    /// The same moment on this host's clock.
    pub fn to_here(&self, theirs: Instant<Tai>) -> Instant<Tai> {
        let about = theirs.ns().saturating_sub(self.first.ahead_ns);
        // The line is so flat that the second look no longer changes it.
        let at = theirs.ns().saturating_sub(self.ahead_ns(Instant::from_ns(about)));
        Instant::from_ns(theirs.ns().saturating_sub(self.ahead_ns(Instant::from_ns(at))))
    }
}

impl OffsetReading {
    /// The same comparison from the other clock's side.
    #[must_use]
    pub fn turned(self) -> OffsetReading {
        OffsetReading {
            at_tai_ns: self.at_tai_ns.saturating_add(self.ahead_ns),
            ahead_ns: self.ahead_ns.saturating_neg(),
            ..self
        }
    }

    /// The moment on the other clock that is `here` on this host's, by this reading alone. What
    /// [`Offset::to_here`] makes of it may differ from `here`, by no more than both readings'
    /// bounds explain unless the clock drifted.
    pub fn to_there(&self, here: Instant<Tai>) -> Instant<Tai> {
        here + Nanos(self.ahead_ns)
    }
}
