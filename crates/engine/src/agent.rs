// SPDX-License-Identifier: MIT OR Apache-2.0
//! The station side: `tardy agent` on stdin and stdout. It obeys, measures, answers; when the other side goes away it
//! stops its threads and ends, so that a dead coordinator leaves nothing running.

pub mod advice;
mod bind;
mod end;
mod hardware;
mod link;
mod threads;

use crate::load::Loads;
use crate::message::{self, FromAgent, MessageError, ToAgent};
use crate::ruler;
use end::End;
use link::Event;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tardy_model::stream::Side;
use tardy_sys::clock;

/// How often live figures go out and threads are looked at. Each time the agent's control thread takes a CPU from what is measured for a
/// tenth of a millisecond.
const LOOK: Duration = Duration::from_millis(250);

/// Serves until the other side is gone. `Ok` if it went in an orderly way or just went.
pub fn serve(mut from: impl Read + Send + 'static, to: &mut impl Write, version: &str) -> Result<(), MessageError> {
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
    let mut station = Station { ends: BTreeMap::new(), loads: Loads::default(), events };
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
                station.loads.look();
                let told = station.ends.iter_mut().filter_map(|((stream, side), end)| {
                    end.look().map(|digest| FromAgent::Progress { stream: *stream, side: *side, digest })
                });
                if let Some(error) = told.map(|told| message::send(to, &told)).find_map(Result::err) {
                    break Err(error);
                }
            }
        }
    };
    // Dropping an end stops its thread and waits for it.
    station.ends.clear();
    result
}

struct Station {
    ends: BTreeMap<(u8, Side), End>,
    loads: Loads,
    events: mpsc::Sender<Event>,
}

impl Station {
    fn obey(&mut self, order: ToAgent, to: &mut impl Write) -> Result<(), MessageError> {
        let mut tell = |told: FromAgent| message::send(to, &told);
        match order {
            ToAgent::Measure(threads) => {
                let records: Result<_, String> = threads.iter().map(ruler::measure).collect();
                tell(records.map_or_else(FromAgent::Failed, FromAgent::Ruler))
            }
            ToAgent::Prepare { ends, loads } => {
                self.ends.clear();
                // The ports of those before must be free.
                self.loads = Loads::default();
                let mut ready = Vec::new();
                // Who receives first: nothing that is sent may find a closed door.
                let (receiving, sending): (Vec<_>, Vec<_>) =
                    ends.into_iter().partition(|order| order.side() != Side::Tx);
                for end in receiving.into_iter().chain(sending).map(|order| End::make(order, self.events.clone())) {
                    match end {
                        Ok((end, told)) => {
                            self.ends.insert((told.stream, told.side), end);
                            ready.push(told);
                        }
                        Err(error) => {
                            self.ends.clear();
                            return tell(FromAgent::Failed(error));
                        }
                    }
                }
                match Loads::open(loads) {
                    Ok(loads) => self.loads = loads,
                    Err(error) => {
                        self.ends.clear();
                        return tell(FromAgent::Failed(error));
                    }
                }
                tell(FromAgent::Ready { ends: ready, clocks: clock::read_clocks() })
            }
            ToAgent::WarmUp { stream, count, apart } => {
                self.on(stream, Side::Tx, |end| end.warm_up(count, apart), tell)
            }
            ToAgent::WarmStatus { stream, side } => match self.ends.get(&(stream, side)) {
                Some(end) => tell(end.warm_status(stream)),
                None => tell(unknown(stream, side)),
            },
            ToAgent::Start { stream, side, base } => self.on(stream, side, |end| end.start(base), tell),
            ToAgent::ConnectLoads => {
                tell(self.loads.connect().map_or_else(FromAgent::Failed, |()| FromAgent::LoadsConnected))
            }
            ToAgent::StartLoads { base } => {
                self.loads.start(base);
                Ok(())
            }
            ToAgent::StopLoads => {
                self.loads.stop();
                Ok(())
            }
            ToAgent::CollectLoads => self.loads.collect(tell),
            ToAgent::StopSending => {
                self.ends.iter().filter(|((_, side), _)| *side == Side::Tx).for_each(|(_, end)| end.stop());
                Ok(())
            }
            ToAgent::Finish { stream, side, expected, linger } => {
                self.on(stream, side, |end| end.finish(expected, linger), tell)
            }
            ToAgent::Collect { stream, side } => match self.ends.remove(&(stream, side)) {
                Some(end) => end.collect(tell),
                None => tell(unknown(stream, side)),
            },
        }
    }

    fn on(
        &mut self,
        stream: u8,
        side: Side,
        act: impl FnOnce(&mut End),
        mut tell: impl FnMut(FromAgent) -> Result<(), MessageError>,
    ) -> Result<(), MessageError> {
        match self.ends.get_mut(&(stream, side)) {
            Some(end) => {
                act(end);
                Ok(())
            }
            None => tell(unknown(stream, side)),
        }
    }
}

fn unknown(stream: u8, side: Side) -> FromAgent {
    FromAgent::Failed(format!("stream {stream} has no {side:?} end here"))
}
