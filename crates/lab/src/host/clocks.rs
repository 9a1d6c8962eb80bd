// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the clocks of two hosts are apart: who finds it out is behind one trait, and a trial
//! asks it twice.

use super::HostId;
use super::ways::FASTEST_PPM;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use tardy_model::time::{CounterReading, EndOffsets, OffsetReading};
use tardy_sys::proc;
use thiserror::Error;

/// Two clocks as they were compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The host of the second clock.
    pub host: HostId,
    /// The second clock against the first.
    pub reading: OffsetReading,
    /// How it was found out, in words for the trial's record.
    pub method: String,
}

/// Two clocks cannot be compared: no figure may be made of stamps of both.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the clocks of {from} and {of} cannot be compared: {why}")]
pub struct Unknown {
    /// The host of the first clock.
    pub from: HostId,
    /// The host of the second clock.
    pub of: HostId,
    /// Why not, and what can be done.
    pub why: String,
}

/// Clocks that were compared already.
#[derive(Clone, Debug, Default)]
pub struct Known(pub BTreeMap<HostId, Compared>);

impl OffsetSource for Known {
    fn between(&mut self, from: HostId, of: HostId, _: &mut Asking<'_>) -> Result<Compared, Unknown> {
        let unknown = || Unknown { from, of, why: "nobody has compared them yet".to_owned() };
        self.0.get(&of).cloned().ok_or_else(unknown)
    }
}

/// Compares the clocks of hosts.
pub trait OffsetSource {
    /// How far CLOCK_TAI of `of` is ahead of that of `from`, now. It is called for each other host
    /// just before a trial starts, because the trial's times are ordered in each host's own clock,
    /// and once more just after the trial's end. An error ends the trial before it starts, or
    /// leaves it without a result.
    ///
    /// `ask` asks an agent on `of` for the time there, which every source may do.
    ///
    /// # Errors
    /// If nobody knows.
    fn between(&mut self, from: HostId, of: HostId, ask: &mut Asking<'_>) -> Result<Compared, Unknown>;
}

/// Asks for the time on another host, once.
pub type Asking<'a> = dyn FnMut() -> Result<Exchange, String> + 'a;

/// A question for the time on another host, and its answer, by CLOCK_TAI of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the question left, on this host's clock, ns; or earlier.
    pub asked_ns: i64,
    /// When it had reached the other host, on that one's clock, ns; or later.
    pub reached_ns: i64,
    /// When the answer left there, on the same clock, ns; or earlier.
    pub returned_ns: i64,
    /// When the answer was here, on this host's, ns; or later.
    pub answered_ns: i64,
    /// The processors' counters, where they could be read.
    pub counters: Option<Counters>,
}

/// The processors' counters and CLOCK_TAI of an exchange: this host's just before and just after
/// it, and the other one's when it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    pub asked: CounterReading,
    pub theirs: CounterReading,
    pub answered: CounterReading,
}

/// What several exchanges show together. Neither way took less than no time, so the other clock is
/// ahead by at most *reached* − *asked* and at least by *returned* − *answered*, whatever the two
/// ways took. One exchange may have been quick on the way there, and another on
/// the way back: the one gives the upper end and the other the lower one, each wider by what two
/// clocks can drift between them. Of all pairs, an exchange with itself among them, the narrowest
/// one counts. `None` of none, or if a clock was set meanwhile: it went back, or two exchanges
/// exclude each other.
pub fn best(exchanges: &[Exchange]) -> Option<OffsetReading> {
    let is_sound = |of: &&Exchange| of.answered_ns.checked_sub(of.asked_ns).is_some_and(|took| took >= 0);
    let sound: Vec<&Exchange> = exchanges.iter().filter(is_sound).collect();
    let pairs = sound.iter().flat_map(|above| sound.iter().map(|below| between(above, below)));
    let agree: Option<Vec<OffsetReading>> = pairs.collect();
    agree?.into_iter().min_by_key(|reading| reading.bound_ns)
}

/// The offset by one exchange from above and by another from below.
fn between(above: &Exchange, below: &Exchange) -> Option<OffsetReading> {
    let (greatest, least) =
        (above.reached_ns.checked_sub(above.asked_ns)?, below.returned_ns.checked_sub(below.answered_ns)?);
    let middle = |of: &Exchange| of.asked_ns + (of.answered_ns - of.asked_ns) / 2;
    let (one, other) = (middle(above), middle(below));
    let at_tai_ns = one.min(other) + (one.max(other) - one.min(other)) / 2;
    // Read within an exchange, and valid in the middle between the two.
    let away = |of: &Exchange| (at_tai_ns - of.asked_ns).abs().max((of.answered_ns - at_tai_ns).abs());
    let drift = |of: &Exchange| away(of).saturating_mul(FASTEST_PPM) / 1_000_000 + 1;
    let (greatest, least) = (greatest.checked_add(drift(above))?, least.checked_sub(drift(below))?);
    let width = greatest.checked_sub(least).filter(|width| *width >= 0)?;
    // Half of an odd time is rounded down, and the bound up.
    Some(OffsetReading { at_tai_ns, ahead_ns: least + width / 2, bound_ns: (width + 1) / 2 })
}

/// How fast one clock moves against another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// By how much the other clock is faster, in parts per million.
    pub ppm: f64,
    /// By how much that may be wrong, in the same unit.
    pub bound_ppm: f64,
}

/// The readings of one clock against another, in the order of time: the last of them.
#[derive(Clone, Debug, Default)]
pub struct Track {
    readings: Vec<OffsetReading>,
    was_set: bool,
}

/// As many readings are kept.
const KEPT: usize = 128;

impl Track {
    /// Adds a reading. One that no two clocks can come to which only drift begins anew.
    pub fn add(&mut self, reading: OffsetReading) {
        let is_step = |last: &OffsetReading| {
            let apart = i128::from(reading.ahead_ns) - i128::from(last.ahead_ns);
            let passed = i128::from(reading.at_tai_ns) - i128::from(last.at_tai_ns);
            let drifts = passed.max(0) * i128::from(FASTEST_PPM) / 1_000_000;
            passed < 0 || apart.abs() > i128::from(reading.bound_ns) + i128::from(last.bound_ns) + drifts
        };
        self.was_set = self.readings.last().is_some_and(is_step);
        if self.was_set {
            self.readings.clear();
        }
        if self.readings.len() == KEPT {
            self.readings.remove(0);
        }
        self.readings.push(reading);
    }

    /// A clock was set while they were read: what was read before says nothing of what comes.
    pub fn begin_anew(&mut self) {
        self.readings.clear();
        self.was_set = true;
    }

    /// True if a clock was set between the latest reading and the one before, or while they were
    /// read.
    pub fn was_set(&self) -> bool {
        self.was_set
    }

    /// How fast they move against each other: by the two readings that know it best. With offsets
    /// *a* ± *b* at *t*, the slope is (*a*₂ − *a*₁) / (*t*₂ − *t*₁), and wrong by at most
    /// (*b*₁ + *b*₂) / (*t*₂ − *t*₁). `None` of fewer than two.
    pub fn drift(&self) -> Option<Drift> {
        let slope = |one: &OffsetReading, next: &OffsetReading| {
            let passed = (next.at_tai_ns - one.at_tai_ns) as f64;
            let of = |ns: i64| ns as f64 / passed * 1e6;
            (passed > 0.0)
                .then(|| Drift { ppm: of(next.ahead_ns - one.ahead_ns), bound_ppm: of(one.bound_ns + next.bound_ns) })
        };
        let pairs = self.readings.iter().enumerate().flat_map(|(n, one)| {
            let later = self.readings[n + 1..].iter();
            later.filter_map(move |next| slope(one, next))
        });
        pairs.min_by(|one, other| one.bound_ppm.total_cmp(&other.bound_ppm))
    }
}

/// How the counter of a virtual machine's processor follows from that of the processor that runs
/// it: `counter * ratio / 2^fraction_bits + offset`, modulo 2^64. KVM sets it up so, and says the
/// numbers (`tsc-offset`, `tsc-scaling-ratio` and `tsc-scaling-ratio-frac-bits` in debugfs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestCounter {
    offset: i64,
    ratio: u64,
    fraction_bits: u32,
}

impl GuestCounter {
    /// From what the kernel's files say. There is no ratio where the processor does not scale.
    /// `None` of what cannot be read.
    pub fn from_files(offset: &str, ratio: Option<(&str, &str)>) -> Option<GuestCounter> {
        let (ratio, fraction_bits) = match ratio {
            Some((ratio, bits)) => (ratio.trim().parse().ok()?, bits.trim().parse().ok()?),
            None => (1, 0),
        };
        let offset = offset.trim().parse().ok()?;
        (ratio > 0 && fraction_bits < 64).then_some(GuestCounter { offset, ratio, fraction_bits })
    }

    /// The counter of the host's processor when that of the machine's showed this.
    fn on_host(&self, theirs: u64) -> Option<u64> {
        let scaled = u128::from(theirs.wrapping_add_signed(self.offset.wrapping_neg()));
        u64::try_from((scaled << self.fraction_bits) / u128::from(self.ratio)).ok()
    }
}

/// The best of several exchanges by the processors' counters: the one whose clocks were read in the
/// shortest time by the counter. The other clock was read while this host's counter showed what
/// its own stands for, and this host's clock at that moment lies on the line between those before
/// and after the exchange. `None` without counters, or if a counter did not show in an exchange
/// what it must.
pub fn best_by_counter(exchanges: &[Exchange], guest: GuestCounter) -> Option<OffsetReading> {
    let readings: Option<Vec<_>> = exchanges.iter().map(|of| by_counter(&of.counters?, guest)).collect();
    readings?.into_iter().min_by_key(|reading| reading.bound_ns)
}

fn by_counter(of: &Counters, guest: GuestCounter) -> Option<OffsetReading> {
    let [asked, answered] = [of.asked, of.answered];
    let there = [of.theirs.before, of.theirs.after].map(|counter| guest.on_host(counter));
    let [from, until] = [there[0]?, there[1]?];
    // What happened between question and answer shows a counter between theirs.
    if !(asked.after <= from && from <= until && until <= answered.before) {
        return None;
    }
    // Twice the middle of each bracket, so that nothing is rounded, from the first one on.
    let twice = |before: u64, after: u64| i128::from(before - asked.before) + i128::from(after - asked.before);
    let [first, moment, last] =
        [twice(asked.before, asked.after), twice(from, until), twice(answered.before, answered.after)];
    let passed_ns = i128::from(answered.tai_ns) - i128::from(asked.tai_ns);
    let span = last - first;
    if passed_ns <= 0 || span <= 0 {
        return None;
    }
    let at_tai_ns = i128::from(asked.tai_ns) + (moment - first) * passed_ns / span;
    // Widths of brackets are halves in units of twice the counter. The clocks themselves and what
    // is computed from them are whole nanoseconds: one more for each.
    let width = |of: CounterReading| i128::from(of.after - of.before);
    let halves = width(asked).max(width(answered)) + i128::from(until - from);
    let bound_ns = halves * passed_ns / span + 3;
    Some(OffsetReading {
        at_tai_ns: i64::try_from(at_tai_ns).ok()?,
        ahead_ns: i64::try_from(i128::from(of.theirs.tai_ns) - at_tai_ns).ok()?,
        bound_ns: i64::try_from(bound_ns).ok()?,
    })
}

/// The source of a run with several hosts: it asks the other host's agent several times. Where
/// this host's KVM runs a machine, both clocks are compared by the processor's counter, which both
/// have; where the other host is this very machine there is one clock, and what was asked must
/// agree with that; else it takes what the exchanges show together.
#[derive(Clone, Debug)]
pub struct HostClocks {
    /// The processes that run virtual machines, by the machines' hosts.
    pub emulators: BTreeMap<HostId, u32>,
    /// Hosts of this machine's own boot.
    pub this_machine: BTreeSet<HostId>,
}

/// How often the other host is asked.
const TIMES: usize = 64;
/// Where KVM says how it runs each machine.
const KVM: &str = "/sys/kernel/debug/kvm";

impl HostClocks {
    /// What KVM says of the counter of a machine's processors, if it says one thing of all.
    fn counter(&self, of: HostId) -> Option<GuestCounter> {
        if !proc::in_first_pid_namespace() {
            return None;
        }
        let process = format!("{}-", self.emulators.get(&of)?);
        let all = fs::read_dir(KVM).ok()?.flatten();
        let machine = all.map(|entry| entry.path()).find(|path| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&process))
        })?;
        let counter = |vcpu: &Path| {
            let said = |file: &str| fs::read_to_string(vcpu.join(file)).ok();
            let ratio = said("tsc-scaling-ratio").zip(said("tsc-scaling-ratio-frac-bits"));
            let ratio = ratio.as_ref().map(|(ratio, bits)| (ratio.as_str(), bits.as_str()));
            GuestCounter::from_files(&said("tsc-offset")?, ratio)
        };
        let parts = fs::read_dir(machine).ok()?.flatten().map(|entry| entry.path());
        let of_processor =
            |path: &Path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("vcpu"));
        let counters: Option<Vec<_>> = parts.filter(|path| of_processor(path)).map(|path| counter(&path)).collect();
        let counters = counters?;
        let first = *counters.first()?;
        counters.iter().all(|counter| *counter == first).then_some(first)
    }
}

impl OffsetSource for HostClocks {
    fn between(&mut self, from: HostId, of: HostId, ask: &mut Asking<'_>) -> Result<Compared, Unknown> {
        let unknown = |why: String| Unknown { from, of, why };
        let before = self.counter(of);
        let mut asked = (0..TIMES).map(|_| ask()).collect::<Result<Vec<_>, _>>().map_err(unknown)?;
        // A clock was set between two of them: once is bad luck.
        if best(&asked).is_none() {
            asked = (0..TIMES).map(|_| ask()).collect::<Result<Vec<_>, _>>().map_err(unknown)?;
        }
        // KVM may change it when a processor is moved to another one.
        let counter = before.filter(|before| self.counter(of) == Some(*before));
        let clock = "a clock was set while they were compared: switch off what sets it, and run again";
        let by_exchange = best(&asked).ok_or_else(|| unknown(clock.to_owned()))?;
        // Machines that were resumed from one image have one boot, but not one processor's counter.
        let is_within = |of: &Counters| of.asked.before <= of.theirs.before && of.theirs.after <= of.answered.after;
        let counters: Vec<&Counters> = asked.iter().filter_map(|exchange| exchange.counters.as_ref()).collect();
        // Where no counter was read, nothing shows that it is one.
        let is_one = !counters.is_empty() && counters.into_iter().all(is_within);
        if self.this_machine.contains(&of) && is_one {
            if by_exchange.ahead_ns.abs() > by_exchange.bound_ns {
                let why = format!(
                    "it is of this machine's boot, and its clock is {} ns ahead in the best of {TIMES} exchanges with its agent, \
                     which are right to {} ns: {clock}",
                    by_exchange.ahead_ns, by_exchange.bound_ns
                );
                return Err(unknown(why));
            }
            let reading = OffsetReading { ahead_ns: 0, bound_ns: 0, ..by_exchange };
            let method = format!("one clock: it is of this machine's boot; {TIMES} exchanges with its agent agree");
            return Ok(Compared { host: of, reading, method });
        }
        let by_counter = counter.and_then(|counter| best_by_counter(&asked, counter));
        let (reading, method) = match by_counter.filter(|reading| reading.bound_ns < by_exchange.bound_ns) {
            Some(reading) => (
                reading,
                format!(
                    "the counter of the processor, which KVM offsets for the machine, in {TIMES} exchanges with its agent"
                ),
            ),
            None => (by_exchange, format!("{TIMES} exchanges with its agent together")),
        };
        Ok(Compared { host: of, reading, method })
    }
}

/// The source of a run on one host, whose clock is the same for all its stations.
#[derive(Clone, Copy, Debug)]
pub struct OneHost;

/// That source, for [`Options`](crate::coordinator::Options).
pub fn one_host() -> Box<dyn OffsetSource> {
    Box::new(OneHost)
}

impl OffsetSource for OneHost {
    fn between(&mut self, from: HostId, of: HostId, _: &mut Asking<'_>) -> Result<Compared, Unknown> {
        match from == of {
            true => Ok(Compared { host: of, reading: OffsetReading::default(), method: "one host".to_owned() }),
            false => Err(Unknown { from, of, why: "nothing compares them; use stations of one host".to_owned() }),
        }
    }
}

/// Calls the hosts of a stream's ends, sender's and receiver's, by the names that the trial's
/// record has their states under: rules look for the state of a thread's machine by the name in
/// its offset.
pub fn name_hosts<'n>(offsets: &mut EndOffsets, ends: [HostId; 2], name: impl Fn(HostId) -> Option<&'n str>) {
    let [from, to] = ends;
    for (offset, host) in [(&mut offsets.tx, from), (&mut offsets.rx, to), (&mut offsets.pair, to)] {
        if let Some((offset, name)) = offset.as_mut().zip(name(host)) {
            offset.host = name.to_owned();
        }
    }
}
