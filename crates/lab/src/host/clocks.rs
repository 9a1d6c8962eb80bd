// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the clocks of two hosts are apart: who finds it out is behind one trait, and a trial
//! asks it twice.

use super::HostId;
use tardy_model::time::{EndOffsets, OffsetReading};
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

/// The source of a run with virtual machines: it asks the other host's agent several times, and
/// takes the answer that came soonest.
#[derive(Clone, Copy, Debug)]
pub struct Exchanges;

/// That source, for [`Options`](crate::coordinator::Options).
pub fn exchanges() -> Box<dyn OffsetSource> {
    Box::new(Exchanges)
}

/// How often the other host is asked.
const TIMES: usize = 64;

impl OffsetSource for Exchanges {
    fn between(&mut self, from: HostId, of: HostId, ask: &mut Asking<'_>) -> Result<Compared, Unknown> {
        let unknown = |why: String| Unknown { from, of, why };
        let asked = (0..TIMES).map(|_| ask()).collect::<Result<Vec<_>, _>>().map_err(unknown)?;
        let clock = "a clock was set while they were compared: switch off what sets it, and run again";
        let reading = best(&asked).ok_or_else(|| unknown(clock.to_owned()))?;
        Ok(Compared { host: of, reading, method: format!("the least of {TIMES} exchanges with its agent") })
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
