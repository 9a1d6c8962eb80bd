// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of a trial's activities: the number of each, where it runs and what it is. Every
//! phase takes from here whom it asks and whom a message is about, and waits for the answers about
//! some of them. What one kind of activity does and another does not is a question to
//! [`ActivityKind`], so that a new kind is a variant there.

use crate::loads::Loads;
use crate::orders::Ordered;
use crate::station::StationId;
use std::collections::BTreeMap;
use tardy_engine::load::LoadAt;
use tardy_engine::message::{ActivityId, ActivityOrder};
use tardy_model::stream::Side;
use tardy_model::stream_id::StreamId;
use tardy_model::time::{Instant, Monotonic, Nanos};

/// What an activity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActivityKind {
    /// An end of a stream.
    End {
        stream: StreamId,
        /// Which end of it.
        side: Side,
    },
    /// A side of an instance of a load.
    Load(LoadAt),
}

/// When an activity learns the base time, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartTurn {
    Load,
    Receiver,
    ReplyReceiver,
    /// The sender of a stream begins last.
    Sender,
}

impl StartTurn {
    pub(super) const ALL: [StartTurn; 4] =
        [StartTurn::Load, StartTurn::Receiver, StartTurn::ReplyReceiver, StartTurn::Sender];
}

impl ActivityKind {
    /// When it learns the base time.
    pub(super) fn turn(self) -> StartTurn {
        match self {
            ActivityKind::Load(_) => StartTurn::Load,
            ActivityKind::End { side: Side::Rx, .. } => StartTurn::Receiver,
            ActivityKind::End { side: Side::Reply, .. } => StartTurn::ReplyReceiver,
            ActivityKind::End { side: Side::Tx, .. } => StartTurn::Sender,
        }
    }

    /// True if it goes on during the trial until the coordinator stops it. It connects before the
    /// warm-up and is collected before the others. The trial is over when all that is not in the
    /// background is done.
    pub(super) fn is_background(self) -> bool {
        matches!(self, ActivityKind::Load(_))
    }

    /// True if it stops when the user wants the run to end. The others follow when it is done.
    pub(super) fn stops_with_the_user(self) -> bool {
        matches!(self, ActivityKind::End { side: Side::Tx, .. })
    }

    /// The stream that it is an end of.
    pub(super) fn stream(self) -> Option<StreamId> {
        match self {
            ActivityKind::End { stream, .. } => Some(stream),
            ActivityKind::Load(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Activity {
    pub(super) id: ActivityId,
    pub(super) station: StationId,
    pub(super) kind: ActivityKind,
}

/// All activities of a trial. The number of each is its place.
pub(super) struct Activities(Vec<Activity>);

/// The orders of each station.
pub(super) type StationOrders = BTreeMap<StationId, Vec<(ActivityId, ActivityOrder)>>;

impl Activities {
    /// Numbers the ends of these streams and the sides of these loads.
    pub(super) fn number(streams: &[Ordered], loads: &Loads) -> (Activities, StationOrders) {
        let ends = streams.iter().flat_map(|ordered| {
            ordered.ends.iter().map(move |end| {
                let (stream, side) = (ordered.id, end.side());
                (ordered.station(side), ActivityKind::End { stream, side }, ActivityOrder::End(end.clone()))
            })
        });
        let loads = loads
            .sides()
            .map(|(station, order)| (station, ActivityKind::Load(order.at), ActivityOrder::Load(order.clone())));
        let (mut activities, mut orders) = (Activities(Vec::new()), StationOrders::new());
        for (id, (station, kind, order)) in (0..).map(ActivityId).zip(ends.chain(loads)) {
            activities.0.push(Activity { id, station, kind });
            orders.entry(station).or_default().push((id, order));
        }
        (activities, orders)
    }

    /// The one of this number at this station; `None` if the station has none such.
    pub(super) fn at(&self, station: StationId, id: ActivityId) -> Option<Activity> {
        let activity = self.0.get(usize::try_from(id.0).ok()?)?;
        (activity.station == station).then_some(*activity)
    }

    /// An end of a stream.
    pub(super) fn end(&self, stream: StreamId, side: Side) -> Option<Activity> {
        self.of(|kind| kind == ActivityKind::End { stream, side }).next()
    }

    /// The ends of a stream. The first is the end that sends or asks.
    pub(super) fn ends(&self, stream: StreamId) -> impl Iterator<Item = Activity> {
        self.of(move |kind| kind.stream() == Some(stream))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Activity> {
        self.0.iter().copied()
    }

    /// Those of which this is true.
    pub(super) fn of(&self, is: impl Fn(ActivityKind) -> bool) -> impl Iterator<Item = Activity> {
        self.all().filter(move |activity| is(activity.kind))
    }

    /// The same by their stations.
    pub(super) fn by_station(&self, is: impl Fn(ActivityKind) -> bool) -> BTreeMap<StationId, Vec<ActivityId>> {
        let mut found: BTreeMap<StationId, Vec<ActivityId>> = BTreeMap::new();
        self.of(is).for_each(|activity| found.entry(activity.station).or_default().push(activity.id));
        found
    }
}

/// Activities about which their stations have not answered yet.
pub(super) struct Awaited {
    missing: Vec<(StationId, ActivityId)>,
    until: Instant<Monotonic>,
    limit: Nanos,
    doing: &'static str,
}

impl Awaited {
    /// The stations of these were asked `now` and have `limit` to answer; `doing` says for an
    /// error message what they do.
    pub(super) fn new(
        activities: impl IntoIterator<Item = Activity>,
        doing: &'static str,
        limit: Nanos,
        now: Instant<Monotonic>,
    ) -> Awaited {
        let mut missing: Vec<_> = activities.into_iter().map(|activity| (activity.station, activity.id)).collect();
        // An error names the first station.
        missing.sort_unstable();
        Awaited { missing, until: now + limit, limit, doing }
    }

    /// A message came that shows that its station works: the time limit starts anew.
    pub(super) fn hear(&mut self, now: Instant<Monotonic>) {
        self.until = now + self.limit;
    }

    /// True if this activity's answer has not come yet.
    pub(super) fn awaits(&self, activity: ActivityId) -> bool {
        self.missing.iter().any(|(_, missing)| *missing == activity)
    }

    /// The answer about this activity came.
    pub(super) fn answered(&mut self, activity: ActivityId) {
        self.missing.retain(|(_, missing)| *missing != activity);
    }

    /// A station answered for all of its activities.
    pub(super) fn answered_by(&mut self, station: StationId) {
        self.missing.retain(|(missing, _)| *missing != station);
    }

    pub(super) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// When the time is up.
    pub(super) fn deadline(&self) -> Instant<Monotonic> {
        self.until
    }

    /// The first station that did not answer in time, with the limit in seconds and what it was to
    /// do.
    pub(super) fn silent(&self, now: Instant<Monotonic>) -> Option<(StationId, u64, &'static str)> {
        let (first, _) = self.missing.first().filter(|_| now >= self.until)?;
        Some((*first, (self.limit.0 / 1_000_000_000) as u64, self.doing))
    }
}
