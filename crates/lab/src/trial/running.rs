// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trial runs, until every activity that is not in the background is done: every sender, and
//! every receiver, which has what was sent then, or will not get it.

use super::activities::{Activity, ActivityKind};
use super::shared::{Input, Now, Output, Shared, TrialError};
use crate::agent::AgentError;
use crate::not_found::NotFound;
use crate::station::ANSWER;
use std::collections::{BTreeMap, BTreeSet};
use tardy_engine::message::{ActivityId, FromAgent, ToAgent};
use tardy_model::stream::{Kind, Side};
use tardy_model::stream_id::StreamId;
use tardy_model::time::{Instant, Monotonic, Nanos};

/// A receiver waits so long for packets that were sent and have not come.
const LINGER: Nanos = Nanos(250_000_000);

pub(super) struct Running {
    /// Activities that are not done yet.
    going: BTreeSet<ActivityId>,
    /// The last sign of life of any station.
    heard: Instant<Monotonic>,
    /// Without a sign of life the trial is given up after this time.
    patience: Nanos,
    /// After this time while an activity goes on at a station that reports nothing.
    longest: Nanos,
    /// What each activity counted last: packets, and waits that ended without one.
    counts: BTreeMap<ActivityId, (u64, u64)>,
}

impl Running {
    pub(super) fn begin(shared: &Shared<'_>, now: Now, out: &mut Vec<Output>) -> Running {
        if shared.is_stopped {
            shared.stop(ActivityKind::stops_with_the_user, out);
        }
        let longest = shared.streams.iter().map(|s| s.stream.cycle.0).max().unwrap_or(0);
        let all = shared.streams.iter().map(|s| s.stream.longest().0).max().unwrap_or(0);
        let patience = ANSWER + Nanos(2 * longest.max(0));
        Running {
            going: shared.activities.of(|kind| !kind.is_background()).map(|activity| activity.id).collect(),
            heard: now.monotonic,
            patience,
            longest: patience + Nanos(all),
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn deadline(&self, shared: &Shared<'_>) -> Instant<Monotonic> {
        self.heard + self.patience(shared)
    }

    /// How long it waits for a sign of life now.
    fn patience(&self, shared: &Shared<'_>) -> Nanos {
        let is_silent = |of: &Activity| self.going.contains(&of.id) && shared.silent.contains(&of.station);
        if shared.activities.all().any(|activity| is_silent(&activity)) { self.longest } else { self.patience }
    }

    /// True when every activity that is not in the background is done.
    pub(super) fn handle(
        &mut self,
        shared: &Shared<'_>,
        now: Now,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<bool, TrialError> {
        match input {
            Input::Message(station, FromAgent::Progress { activity, digest }) => {
                let Activity { kind, .. } = shared.activity(station, activity)?;
                // Only a count that moves is a sign of life.
                let moves = (digest.done, digest.turns);
                if self.counts.insert(activity, moves) != Some(moves) {
                    self.heard = now.monotonic;
                }
                if let ActivityKind::End { stream, side } = kind {
                    out.push(Output::Progress { stream, side, digest });
                }
            }
            Input::Message(station, FromAgent::Done { activity, packets }) => {
                let Activity { kind, .. } = shared.activity(station, activity)?;
                self.going.remove(&activity);
                self.heard = now.monotonic;
                if let ActivityKind::End { stream, side: Side::Tx } = kind {
                    finish_receivers(shared, stream, packets, out)?;
                }
            }
            Input::Message(station, FromAgent::Failed(what) | FromAgent::Broke { why: what, .. }) => {
                return Err(AgentError::Refused { station: shared.name(station), what }.into());
            }
            Input::Lost(_, error) => return Err(error.into()),
            Input::Message(..) | Input::Tick | Input::Stop | Input::Looked(_) | Input::Unseen(..) => {}
        }
        match self.going.first() {
            None => Ok(true),
            Some(first) if now.monotonic - self.heard > self.patience(shared) => {
                let seconds = (self.patience(shared).0 / 1_000_000_000) as u64;
                let station = shared.activities.all().find(|activity| activity.id == *first);
                let station = station.map_or_else(|| first.to_string(), |activity| shared.name(activity.station));
                Err(AgentError::Silent { station, seconds, doing: "the trial runs" }.into())
            }
            Some(_) => Ok(false),
        }
    }
}

/// The sender of a stream handed over `packets`: its receivers need not wait for more.
fn finish_receivers(
    shared: &Shared<'_>,
    stream: StreamId,
    packets: u64,
    out: &mut Vec<Output>,
) -> Result<(), NotFound> {
    let about = &shared.stream(stream)?.stream;
    let linger = Nanos(LINGER.0.max(4 * about.cycle.0.min(1_000_000_000)));
    // A ping-pong is over when the end that asks says so.
    let (expected, linger) = match about.kind {
        Kind::Pingpong => (0, Nanos::ZERO),
        Kind::Cyclic | Kind::Reflected => (packets, linger),
    };
    let sender = ActivityKind::End { stream, side: Side::Tx };
    for Activity { id: activity, station, .. } in shared.activities.ends(stream).filter(|end| end.kind != sender) {
        out.push(Output::Tell(station, ToAgent::Finish { activity, expected, linger }));
    }
    Ok(())
}
