// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trial runs, until every sender is done and every receiver has what was sent, or will not get it.

use super::shared::{Input, Now, Output, Shared};
use crate::agent::AgentError;
use crate::station::ANSWER;
use std::collections::{BTreeMap, BTreeSet};
use tardy_engine::message::{FromAgent, ToAgent};
use tardy_model::stream::{Kind, Side};
use tardy_model::time::{Instant, Monotonic, Nanos};

/// A receiver waits so long for packets that were sent and have not come.
const LINGER: Nanos = Nanos(250_000_000);

pub(super) struct Running {
    /// Ends whose loop has not ended.
    going: BTreeSet<(u8, Side)>,
    /// The last sign of life of any station.
    heard: Instant<Monotonic>,
    /// Without a sign of life the trial is given up after this time.
    patience: Nanos,
    /// What each end counted last: packets, and waits that ended without one.
    counts: BTreeMap<(u8, Side), (u64, u64)>,
}

impl Running {
    pub(super) fn begin(shared: &Shared<'_>, now: Now, out: &mut Vec<Output>) -> Running {
        if shared.is_stopped {
            out.extend(shared.stations.keys().map(|station| Output::Tell(*station, ToAgent::StopSending)));
        }
        let longest = shared.streams.iter().map(|s| s.stream.cycle.0).max().unwrap_or(0);
        Running {
            going: shared.streams.iter().flat_map(|s| s.sides().map(|side| (s.number(), side))).collect(),
            heard: now.monotonic,
            patience: ANSWER + Nanos(2 * longest.max(0)),
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn deadline(&self) -> Instant<Monotonic> {
        self.heard + self.patience
    }

    /// True when every end's loop has ended.
    pub(super) fn handle(
        &mut self,
        shared: &Shared<'_>,
        now: Now,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<bool, AgentError> {
        match input {
            Input::Message(_, FromAgent::Progress { stream, side, digest }) => {
                // Only a count that moves is a sign of life.
                let moves = (digest.done, digest.turns);
                if self.counts.insert((stream, side), moves) != Some(moves) {
                    self.heard = now.monotonic;
                }
                if let Some((stream, _)) = shared.stream(stream) {
                    out.push(Output::Progress { stream, side, digest });
                }
            }
            Input::Message(_, FromAgent::Done { stream, side, packets }) => {
                self.going.remove(&(stream, side));
                self.heard = now.monotonic;
                if side == Side::Tx {
                    finish_receivers(shared, stream, packets, out);
                }
            }
            Input::Message(station, FromAgent::Failed(what) | FromAgent::Broke { why: what, .. }) => {
                return Err(AgentError::Refused { station: shared.name(station), what });
            }
            Input::Lost(_, error) => return Err(error),
            Input::Message(..) | Input::Tick | Input::Stop | Input::Looked(_) | Input::Unseen(..) => {}
        }
        match self.going.first() {
            None => Ok(true),
            Some((stream, side)) if now.monotonic - self.heard > self.patience => {
                let station = shared.stream(*stream).map(|(_, ordered)| shared.name(ordered.station(*side)));
                let seconds = (self.patience.0 / 1_000_000_000) as u64;
                let station = station.unwrap_or_default();
                Err(AgentError::Silent { station, seconds, doing: "the trial runs" })
            }
            Some(_) => Ok(false),
        }
    }
}

/// The sender of a stream handed over `packets`: its receivers need not wait for more.
fn finish_receivers(shared: &Shared<'_>, stream: u8, packets: u64, out: &mut Vec<Output>) {
    let Some((_, ordered)) = shared.stream(stream) else { return };
    let linger = Nanos(LINGER.0.max(4 * ordered.stream.cycle.0.min(1_000_000_000)));
    // A ping-pong is over when the end that asks says so.
    let (expected, linger) = match ordered.stream.kind {
        Kind::Pingpong => (0, Nanos::ZERO),
        Kind::Cyclic | Kind::Reflected => (packets, linger),
    };
    for side in ordered.sides().filter(|side| *side != Side::Tx) {
        out.push(Output::Tell(ordered.station(side), ToAgent::Finish { stream, side, expected, linger }));
    }
}
