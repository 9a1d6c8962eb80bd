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
    /// # Errors
    /// If nobody knows.
    fn between(&mut self, from: HostId, of: HostId) -> Result<Compared, Unknown>;
}

/// The source of a run on one host, whose clock is the same for all its stations.
#[derive(Clone, Copy, Debug)]
pub struct OneHost;

/// That source, for [`Options`](crate::coordinator::Options).
pub fn one_host() -> Box<dyn OffsetSource> {
    Box::new(OneHost)
}

impl OffsetSource for OneHost {
    fn between(&mut self, from: HostId, of: HostId) -> Result<Compared, Unknown> {
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
