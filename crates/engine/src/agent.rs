// SPDX-License-Identifier: MIT OR Apache-2.0
//! The station side: `tardy agent` on stdin and stdout. It obeys, measures, answers; when the
//! other side goes away it stops its threads and ends, so that a dead coordinator leaves nothing
//! running.

mod activities;
pub mod advice;
mod bind;
mod end;
mod hardware;
mod link;
mod threads;

pub use bind::{BindEnd, BoundEnd, bind_to};

use crate::message::{self, FromAgent, MessageError, ToAgent};
use crate::ruler;
use activities::Activities;
use link::Event;
use std::io::{Read, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tardy_sys::clock;

/// How often live figures go out and threads are checked. Each time the agent's control thread
/// takes a CPU from what is measured for a tenth of a millisecond.
const LOOK: Duration = Duration::from_millis(250);

/// Serves until the other side is gone. `Ok` if it went in an orderly way or just went.
pub fn serve(from: impl Read + Send + 'static, to: &mut impl Write, version: &str) -> Result<(), MessageError> {
    serve_with(bind::bind, from, to, version)
}

/// The same with ports that are bound in another way than by the names in the orders; see
/// [`bind_to`].
pub fn serve_with(
    bind: BindEnd,
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
    let mut station = Station { activities: Activities::default(), bind, events };
    let mut last_look = Instant::now();
    let result = loop {
        match inbox.recv_timeout(LOOK.saturating_sub(last_look.elapsed())) {
            Ok(Event::Gone(MessageError::Closed)) | Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Ok(Event::Gone(error)) => break Err(error),
            Ok(Event::Order(order)) => {
                if let Err(error) = station.obey(*order, to) {
                    break Err(error);
                }
            }
            Ok(Event::Tell(told)) => {
                if let Err(error) = message::send(to, &*told) {
                    break Err(error);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                last_look = Instant::now();
                let looked = station.activities.look();
                let told = looked.map(|(activity, digest)| FromAgent::Progress { activity, digest });
                if let Some(error) = told.map(|told| message::send(to, &told)).find_map(Result::err) {
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
}

impl Station {
    fn obey(&mut self, order: ToAgent, to: &mut impl Write) -> Result<(), MessageError> {
        let mut tell = |told: FromAgent| message::send(to, &told);
        let obeyed = match order {
            ToAgent::Measure(threads) => {
                // What a refused trial prepared must not run along with this one.
                self.activities = Activities::default();
                let records: Result<_, String> = threads.iter().map(ruler::measure).collect();
                return tell(records.map_or_else(FromAgent::Failed, FromAgent::Ruler));
            }
            ToAgent::Prepare { activities } => {
                // The ports of those before must be free.
                self.activities = Activities::default();
                match Activities::prepare(activities, self.bind, &self.events) {
                    Ok((activities, ends)) => {
                        self.activities = activities;
                        return tell(FromAgent::Ready { ends, clocks: clock::read_clocks() });
                    }
                    Err(why) => Err(why),
                }
            }
            ToAgent::Connect => match self.activities.connect() {
                Ok(()) => return tell(FromAgent::Connected),
                Err(why) => Err(why),
            },
            ToAgent::WarmUp { activity, count, apart } => {
                self.activities.end(activity).map(|end| end.warm_up(count, apart))
            }
            ToAgent::WarmStatus { activity } => match self.activities.end(activity) {
                Ok(end) => return tell(end.warm_status()),
                Err(why) => Err(why),
            },
            ToAgent::Start { activities, base } => self.activities.start(&activities, base),
            ToAgent::Stop { activities } => self.activities.stop(&activities),
            ToAgent::Finish { activity, expected, linger } => {
                self.activities.end(activity).map(|end| end.finish(expected, linger))
            }
            ToAgent::Collect { activity } => return self.activities.collect(activity, tell),
        };
        obeyed.or_else(|why| tell(FromAgent::Failed(why)))
    }
}
