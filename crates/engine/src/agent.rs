// SPDX-License-Identifier: MIT OR Apache-2.0
//! The station side: `tardy agent` on stdin and stdout. It obeys, measures, answers; when the
//! other side goes away it stops its threads and ends, so that a dead coordinator leaves nothing
//! running.
//!
//! [`Activities`] has the activities of this station in the present trial, by their ids. What all
//! kinds have in common is here: they are prepared together, and each is started, checked, stopped
//! and collected.

mod end;
mod link;
mod threads;

pub use end::advice;
pub use threads::{BindEnd, BoundEnd, bind_to};

use crate::live::Digest;
use crate::load::{LoadSide, Work};
use crate::message::{self, ActivityId, ActivityOrder, EndReady, FromAgent, MessageError, ToAgent};
use crate::order::{CostOrder, ObjectOrder, ProbeOrder, RulerOrder};
use crate::ruler;
use end::StreamEnd;
use link::Event;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{self, Duration};
use tardy_bpf::pitfalls::{self, Inspector, Seen};
use tardy_bpf::probes::{self, Outgoing};
use tardy_model::time::{Instant, Tai};
use tardy_sys::clock;

/// How often live figures go out and threads are checked. Each time the agent's control thread
/// takes a CPU from what is measured for a tenth of a millisecond.
const LOOK: Duration = Duration::from_millis(250);

/// Serves until the other side is gone. `Ok` if it went in an orderly way or just went.
pub fn serve(from: impl Read + Send + 'static, to: &mut impl Write, version: &str) -> Result<(), MessageError> {
    serve_as(threads::bind, true, from, to, version)
}

/// The same without live figures: what carries its messages may be what it measures.
pub fn serve_quietly(from: impl Read + Send + 'static, to: &mut impl Write, version: &str) -> Result<(), MessageError> {
    serve_as(threads::bind, false, from, to, version)
}

/// The same with ports that are bound in another way than by the names in the orders; see
/// [`bind_to`].
pub fn serve_with(
    bind: BindEnd,
    from: impl Read + Send + 'static,
    to: &mut impl Write,
    version: &str,
) -> Result<(), MessageError> {
    serve_as(bind, true, from, to, version)
}

fn serve_as(
    bind: BindEnd,
    is_live: bool,
    mut from: impl Read + Send + 'static,
    to: &mut impl Write,
    version: &str,
) -> Result<(), MessageError> {
    message::greet(to, version)?;
    message::hear(&mut from, version)?;
    let (events, inbox) = mpsc::channel();
    let orders = events.clone();
    std::thread::spawn(move || {
        loop {
            match message::receive::<ToAgent>(&mut from) {
                Ok(order) => {
                    if orders.send(Event::Order(Box::new(order))).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let _ = orders.send(Event::Gone(error));
                    return;
                }
            }
        }
    });
    let mut station = Station { activities: Activities::default(), bind, events, inspector: None };
    let mut last_look = time::Instant::now();
    let result = loop {
        match inbox.recv_timeout(LOOK.saturating_sub(last_look.elapsed())) {
            Ok(Event::Gone(MessageError::Closed)) | Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Ok(Event::Gone(error)) => break Err(error),
            Ok(Event::Order(order)) => {
                if let Err(error) = station.obey(*order, to) {
                    break Err(error);
                }
            }
            Ok(Event::Tell(report)) => {
                if let Err(error) = message::send(to, &*report) {
                    break Err(error);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                last_look = time::Instant::now();
                let looked: Vec<_> = station.activities.look().collect();
                let looked = looked.into_iter().filter(|_| is_live);
                let mut reports = looked.map(|(activity, digest)| FromAgent::Progress { activity, digest });
                if let Some(error) = reports.find_map(|report| message::send(to, &report).err()) {
                    break Err(error);
                }
            }
        }
    };
    // Dropping an activity stops its thread and waits for it.
    drop(station);
    result
}

struct Station {
    activities: Activities,
    bind: BindEnd,
    events: mpsc::Sender<Event>,
    /// Looks at the devices before a trial.
    inspector: Option<Inspector>,
}

impl Station {
    fn obey(&mut self, order: ToAgent, to: &mut impl Write) -> Result<(), MessageError> {
        let mut tell = |report: FromAgent| message::send(to, &report);
        // What is to be answered, if anything is.
        let obeyed: Result<Option<FromAgent>, String> = match order {
            ToAgent::Measure(threads) => self.measure(&threads).map(Some),
            ToAgent::Inspect { devices, inside, awaited } => {
                // What the trial before had attached, or received by, is not the path's.
                self.activities = Activities::default();
                self.inspector = Some(Inspector::begin(&devices, &inside, &awaited));
                Ok(Some(FromAgent::Inspecting))
            }
            ToAgent::Probe { probes, times } => {
                let frames: Vec<Outgoing<'_>> = probes.iter().map(ProbeOrder::outgoing).collect();
                Ok(Some(FromAgent::Probed { sent: probes::send(&frames, times) }))
            }
            ToAgent::Inspected { each, objects } => self.end_inspection(each, &objects).map(Some),
            ToAgent::Cost(of) => self.cost(of).map(Some),
            ToAgent::Time => {
                Ok(Some(FromAgent::Time { counter: clock::read_counter(), tai_ns: clock::now::<Tai>().ns() }))
            }
            ToAgent::Prepare { activities } => self.prepare(activities).map(Some),
            ToAgent::Connect => self.activities.connect().map(|()| Some(FromAgent::Connected)),
            ToAgent::WarmUp { activity, count, apart } => {
                self.activities.end(activity).map(|end| end.warm_up(count, apart)).map(|()| None)
            }
            ToAgent::WarmStatus { activity } => self.activities.end(activity).map(|end| Some(end.warm_status())),
            ToAgent::Start { activities, base } => self.activities.start(&activities, base).map(|()| None),
            ToAgent::Stop { activities } => self.activities.stop(&activities).map(|()| None),
            ToAgent::Finish { activity, expected, linger } => {
                self.activities.end(activity).map(|end| end.finish(expected, linger)).map(|()| None)
            }
            ToAgent::Collect { activity } => return self.activities.collect(activity, tell),
        };
        match obeyed {
            Ok(None) => Ok(()),
            Ok(Some(report)) => tell(report),
            Err(why) => tell(FromAgent::Failed(why)),
        }
    }

    fn measure(&mut self, threads: &[RulerOrder]) -> Result<FromAgent, String> {
        // What a refused trial prepared must not run along with this one.
        self.activities = Activities::default();
        Ok(FromAgent::Ruler(threads.iter().map(ruler::measure).collect::<Result<_, String>>()?))
    }

    /// What was seen since the inspector began, and what these objects are.
    fn end_inspection(&mut self, each: u32, objects: &[ObjectOrder]) -> Result<FromAgent, String> {
        let inspector = self.inspector.take();
        let nothing = || format!("an order asks what was seen, and nothing was being watched: {REPORT}");
        let Seen { programs, unchecked, arrived } = inspector.ok_or_else(nothing)?.end(each);
        // One that cannot be read is refused with the reason when its port is opened.
        let look = |object: &ObjectOrder| pitfalls::of_object(&object.read().ok()?).ok();
        let objects = objects.iter().map(look).collect();
        Ok(FromAgent::Inspected { programs, unchecked, arrived, objects })
    }

    /// What the lines cost that programs write into the kernel's trace. That this cannot be
    /// measured is an answer too.
    fn cost(&self, of: CostOrder) -> Result<FromAgent, String> {
        if self.inspector.is_some() {
            return Err(format!("an order asks what something costs while programs are watched: {REPORT}"));
        }
        let cost = match of {
            CostOrder::Line => pitfalls::line_cost(),
            CostOrder::Object { object, packet } => object
                .read()
                .map_err(|error| error.to_string())
                .and_then(|object| pitfalls::cost_of_object(&object, &packet)),
        };
        Ok(FromAgent::Cost(cost))
    }

    fn prepare(&mut self, orders: Vec<(ActivityId, ActivityOrder)>) -> Result<FromAgent, String> {
        // The ports of those before must be free.
        self.activities = Activities::default();
        let (activities, ends) = Activities::prepare(orders, self.bind, &self.events)?;
        self.activities = activities;
        Ok(FromAgent::Ready { ends, clocks: clock::read_clocks() })
    }
}

enum Activity {
    End(StreamEnd),
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

    /// Ends it, also where its work has not begun.
    fn let_go(&mut self) {
        match self {
            Activity::End(end) => end.let_go(),
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
struct Activities {
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
    fn prepare(
        mut orders: Vec<(ActivityId, ActivityOrder)>,
        bind: BindEnd,
        events: &mpsc::Sender<Event>,
    ) -> Result<(Activities, Vec<EndReady>), String> {
        let (mut activities, mut ready) = (Activities::default(), Vec::new());
        orders.sort_by_key(|(_, order)| order.turn());
        for (id, order) in orders {
            let activity = match order {
                ActivityOrder::End(order) => {
                    let (end, end_ready) = StreamEnd::make(id, order, bind, events.clone())?;
                    ready.push(end_ready);
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
    fn connect(&self) -> Result<(), String> {
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
    fn start(&mut self, ids: &[ActivityId], base: Instant<Tai>) -> Result<(), String> {
        self.each(ids, |activity| activity.start(base))
    }

    /// Ends the work of these. Those after an unknown one are stopped too.
    fn stop(&mut self, ids: &[ActivityId]) -> Result<(), String> {
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
    fn look(&mut self) -> impl Iterator<Item = (ActivityId, Digest)> {
        self.all.iter_mut().filter_map(|(id, activity)| Some((*id, activity.look()?)))
    }

    /// An end of a stream, for an order that no other activity obeys.
    fn end(&mut self, id: ActivityId) -> Result<&mut StreamEnd, String> {
        match self.all.get_mut(&id) {
            Some(Activity::End(end)) => Ok(end),
            Some(Activity::Load(_)) => {
                Err(format!("{id} is a load and was ordered what only an end of a stream does: {REPORT}"))
            }
            None => Err(unknown(id)),
        }
    }

    /// Waits until an activity has ended and hands over what it recorded.
    fn collect(
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
        self.all.values_mut().for_each(Activity::let_go);
    }
}

const REPORT: &str = "this is a fault of tardy; report it with this message";

fn unknown(id: ActivityId) -> String {
    format!("an order names {id}, and nothing of that number was made ready here: {REPORT}")
}
