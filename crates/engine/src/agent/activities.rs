// SPDX-License-Identifier: MIT OR Apache-2.0
//! The activities of this station in the present trial, by their ids. What all kinds have in
//! common is here: they are made ready together, and each is started, looked at, stopped and
//! collected.

use super::bind::BindEnd;
use super::end::End;
use super::link::Event;
use crate::activity::{ActivityId, ActivityOrder};
use crate::live::Digest;
use crate::load::{LoadSide, Work};
use crate::message::{EndReady, FromAgent, MessageError};
use std::collections::BTreeMap;
use std::sync::mpsc;
use tardy_model::time::{Instant, Tai};

enum Activity {
    End(End),
    Load(LoadSide),
}

impl Activity {
    fn start(&mut self, base: Instant<Tai>) {
        match self {
            Activity::End(end) => end.start(base),
            Activity::Load(load) => load.start(base),
        }
    }

    fn stop(&self) {
        match self {
            Activity::End(end) => end.stop(),
            Activity::Load(load) => load.stop(),
        }
    }

    /// Notes where its thread runs. Gives its live figures, if it has any.
    fn look(&mut self) -> Option<Digest> {
        match self {
            Activity::End(end) => end.look(),
            Activity::Load(load) => {
                load.look();
                None
            }
        }
    }
}

/// All activities of this station.
#[derive(Default)]
pub(super) struct Activities {
    all: BTreeMap<ActivityId, Activity>,
    /// The sockets of loads that were collected. They stay open until the next trial: the other
    /// side may hear of the end later, and would run into a refusal if they were closed.
    finished: Vec<Box<dyn Work>>,
}

impl Activities {
    /// Makes them ready, each in its turn. Those of the trial before must be gone, for they hold
    /// ports.
    ///
    /// # Errors
    /// The first one that cannot be made ready, and why. The others are gone then.
    pub(super) fn prepare(
        mut orders: Vec<(ActivityId, ActivityOrder)>,
        bind: BindEnd,
        events: &mpsc::Sender<Event>,
    ) -> Result<(Activities, Vec<EndReady>), String> {
        let (mut activities, mut ready) = (Activities::default(), Vec::new());
        orders.sort_by_key(|(_, order)| order.turn());
        for (id, order) in orders {
            let activity = match order {
                ActivityOrder::End(order) => {
                    let (end, told) = End::make(id, order, bind, events.clone())?;
                    ready.push(told);
                    Activity::End(end)
                }
                ActivityOrder::Load(order) => Activity::Load(LoadSide::open(order)?),
            };
            activities.all.insert(id, activity);
        }
        Ok((activities, ready))
    }

    /// Connects the loads. All get the order before the first answer is awaited, because each waits
    /// for another one.
    pub(super) fn connect(&self) -> Result<(), String> {
        let loads = || {
            self.all.values().filter_map(|activity| match activity {
                Activity::Load(load) => Some(load),
                Activity::End(_) => None,
            })
        };
        loads().for_each(LoadSide::connect);
        loads().try_for_each(LoadSide::await_connection)
    }

    /// Gives the base time to these. Those after an unknown one get it too.
    pub(super) fn start(&mut self, ids: &[ActivityId], base: Instant<Tai>) -> Result<(), String> {
        self.each(ids, |activity| activity.start(base))
    }

    /// Ends the work of these. Those after an unknown one are stopped too.
    pub(super) fn stop(&mut self, ids: &[ActivityId]) -> Result<(), String> {
        self.each(ids, |activity| activity.stop())
    }

    fn each(&mut self, ids: &[ActivityId], mut act: impl FnMut(&mut Activity)) -> Result<(), String> {
        let mut result = Ok(());
        for id in ids {
            match self.all.get_mut(id) {
                Some(activity) => act(activity),
                None => result = result.and(Err(unknown(*id))),
            }
        }
        result
    }

    /// The live figures of those that have some, and where all threads run.
    pub(super) fn look(&mut self) -> impl Iterator<Item = (ActivityId, Digest)> {
        self.all.iter_mut().filter_map(|(id, activity)| Some((*id, activity.look()?)))
    }

    /// An end of a stream, for an order that no other activity obeys.
    pub(super) fn end(&mut self, id: ActivityId) -> Result<&mut End, String> {
        match self.all.get_mut(&id) {
            Some(Activity::End(end)) => Ok(end),
            Some(Activity::Load(_)) => {
                Err(format!("{id} is a load and was ordered what only an end of a stream does: {REPORT}"))
            }
            None => Err(unknown(id)),
        }
    }

    /// Waits until an activity has ended and hands over what it recorded.
    pub(super) fn collect(
        &mut self,
        id: ActivityId,
        mut tell: impl FnMut(FromAgent) -> Result<(), MessageError>,
    ) -> Result<(), MessageError> {
        match self.all.remove(&id) {
            Some(Activity::End(end)) => end.collect(tell),
            Some(Activity::Load(load)) => {
                self.finished.extend(load.collect(id, tell)?);
                Ok(())
            }
            None => tell(FromAgent::Failed(unknown(id))),
        }
    }
}

impl Drop for Activities {
    /// Orders all of them to stop before it waits for the first one's thread.
    fn drop(&mut self) {
        self.all.values().for_each(Activity::stop);
    }
}

const REPORT: &str = "this is a fault of tardy; report it with this message";

fn unknown(id: ActivityId) -> String {
    format!("an order names {id}, and nothing of that number was made ready here: {REPORT}")
}
