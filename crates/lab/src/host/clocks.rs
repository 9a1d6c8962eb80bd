// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the clocks of two hosts are apart: who finds it out is behind one trait, and a trial
//! asks it twice.

use super::HostId;
use std::collections::BTreeMap;
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
    /// When the question left, on this host's clock, ns.
    pub asked_ns: i64,
    /// When it was answered, on the other one's, ns.
    pub theirs_ns: i64,
    /// When the answer was here, on this host's, ns.
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

/// The best of several exchanges: the one that took the least. The other clock was read somewhere
/// between question and answer, so its offset is known to half of the time between them, whatever
/// the two ways took. `None` of none, or if a clock went back meanwhile.
pub fn best(exchanges: &[Exchange]) -> Option<OffsetReading> {
    let took = |of: &Exchange| of.answered_ns.checked_sub(of.asked_ns).filter(|took| *took >= 0);
    let (took, least) = exchanges.iter().filter_map(|of| Some((took(of)?, of))).min_by_key(|(took, _)| *took)?;
    let at_tai_ns = least.asked_ns + took / 2;
    // Half of an odd time is rounded down, and the bound up.
    Some(OffsetReading { at_tai_ns, ahead_ns: least.theirs_ns.checked_sub(at_tai_ns)?, bound_ns: (took + 1) / 2 })
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

/// The source of a run with virtual machines: it asks the other host's agent several times. Where
/// this host's KVM runs a machine, both clocks are compared by the processor's counter, which both
/// have; else it takes the answer that came soonest.
#[derive(Clone, Debug)]
pub struct Guests {
    /// The processes that run the machines, by the machines' hosts.
    pub emulators: BTreeMap<HostId, u32>,
}

/// How often the other host is asked.
const TIMES: usize = 64;
/// Where KVM says how it runs each machine.
const KVM: &str = "/sys/kernel/debug/kvm";

impl Guests {
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

impl OffsetSource for Guests {
    fn between(&mut self, from: HostId, of: HostId, ask: &mut Asking<'_>) -> Result<Compared, Unknown> {
        let unknown = |why: String| Unknown { from, of, why };
        let before = self.counter(of);
        let asked = (0..TIMES).map(|_| ask()).collect::<Result<Vec<_>, _>>().map_err(unknown)?;
        // KVM may change it when a processor is moved to another one.
        let counter = before.filter(|before| self.counter(of) == Some(*before));
        let clock = "a clock was set while they were compared: switch off what sets it, and run again";
        let by_exchange = best(&asked).ok_or_else(|| unknown(clock.to_owned()))?;
        let by_counter = counter.and_then(|counter| best_by_counter(&asked, counter));
        let (reading, method) = match by_counter.filter(|reading| reading.bound_ns < by_exchange.bound_ns) {
            Some(reading) => (
                reading,
                format!(
                    "the counter of the processor, which KVM offsets for the machine, in {TIMES} exchanges with its agent"
                ),
            ),
            None => (by_exchange, format!("the least of {TIMES} exchanges with its agent")),
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
    for (offset, host) in [&mut offsets.tx, &mut offsets.rx].into_iter().zip(ends) {
        if let Some((offset, name)) = offset.as_mut().zip(name(host)) {
            offset.host = name.to_owned();
        }
    }
}
