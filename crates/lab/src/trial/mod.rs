// SPDX-License-Identifier: MIT OR Apache-2.0
//! One trial on real stations. What is to be done and when is decided in [`machine`]; here it is
//! done: orders are sent, messages are waited for, and the clock is read.

mod activities;
mod collecting;
pub mod machine;
mod running;
mod shared;
mod warming;

use crate::agent::AgentError;
use crate::host::{Away, HostId};
use crate::loads::Loads;
use crate::not_found::NotFound;
use crate::orders::Ordered;
use crate::station::Stations;
use machine::{Input, Now, Output, TrialMachine};
pub use shared::{Broken, StreamHalves, TrialError};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tardy_engine::live::Digest;
use tardy_model::stream::{Side, Stream};
use tardy_model::stream_id::{NoStream, StreamId};
use tardy_model::time::{Instant, Monotonic, Nanos};
use tardy_sys::clock;

/// What is to be done on the hosts themselves, which no station can do.
pub trait Outside {
    /// Looks at the machines: for the first time just before the trial, for the second time just
    /// after it.
    ///
    /// # Errors
    /// A host that cannot be asked any more.
    fn look(&mut self) -> Result<(), (HostId, Away)>;

    /// Ends the processes that programs of loads left behind.
    fn end_leftovers(&mut self);
}

/// What a trial says while it goes on.
pub enum News {
    /// The live figures of an end of a stream.
    Figures(Side, Digest),
    /// None of this number of warm-up packets has the stamp of the user's own XDP program. The
    /// trial's first packet is still to come.
    Unstamped(u32),
}

/// How long a stop may go unheard while a trial runs: to look takes a CPU from what is measured
/// for a moment.
const LISTEN: Duration = Duration::from_millis(250);
/// Between the order to start and the lead-in's first packet, at least: stations are ordinary
/// processes.
pub const AHEAD: Nanos = Nanos(15_000_000);
/// The same where the machine has been looked at just before. To read `/proc` leaves callbacks
/// with the kernel (RCU), and a CPU that has some does not stop its tick when it is idle. Until
/// they are done, three or four ticks later, it wakes earlier: in a virtual machine a quarter of a
/// round trip, in the first 5 to 10 ms of a trial.
pub const SETTLED: Nanos = Nanos(45_000_000);

fn now() -> Now {
    Now { monotonic: clock::now(), tai: clock::now() }
}

fn of_trial(streams: &[Ordered], id: StreamId) -> Result<&Stream, NotFound> {
    let ordered = streams.iter().find(|ordered| ordered.id == id);
    Ok(&ordered.ok_or(NoStream::At(id.number().into()))?.stream)
}

impl Stations {
    /// Runs one trial of all streams at once. The trial asks `outside` to look just before the
    /// start and just after the end: what lies outside, the preparation and the handing over, is
    /// not the trial. Without `outside` nothing has disturbed the kernel, and the trial begins
    /// sooner.
    pub fn run(
        &mut self,
        streams: &[Ordered],
        loads: &mut Loads,
        stop: &AtomicBool,
        mut outside: Option<&mut dyn Outside>,
        say: &mut dyn FnMut(&Stream, News),
    ) -> Result<Vec<StreamHalves>, Broken> {
        let ahead = if outside.is_some() { SETTLED } else { AHEAD };
        let (mut machine, mut outputs) = TrialMachine::begin(streams, loads, self.names(), ahead, now());
        machine.expect_silence(self.quiet());
        let (mut inputs, mut is_stopped, mut is_before) = (VecDeque::new(), false, true);
        loop {
            for output in outputs {
                match output {
                    Output::Tell(station, order) => {
                        if let Err(error) = self.agent(station)?.tell(&order) {
                            inputs.push_back(Input::Lost(station, error));
                        }
                    }
                    Output::Look => {
                        self.look(&mut outside, &mut inputs, is_before)?;
                        is_before = false;
                    }
                    Output::EndLeftovers => {
                        if let Some(outside) = &mut outside {
                            outside.end_leftovers();
                        }
                    }
                    Output::Progress { stream, side, digest } => {
                        say(of_trial(streams, stream)?, News::Figures(side, digest));
                    }
                    Output::Unstamped { stream, packets } => {
                        say(of_trial(streams, stream)?, News::Unstamped(packets));
                    }
                }
            }
            if let Some(result) = machine.result() {
                return result;
            }
            let input = match inputs.pop_front() {
                Some(input) => input,
                None if !is_stopped && stop.load(Relaxed) => {
                    is_stopped = true;
                    Input::Stop
                }
                None => self.wait_for_input(machine.deadline()),
            };
            outputs = machine.handle(now(), input);
        }
    }

    /// Looks at the machines and compares their clocks, which is work that must not fall between
    /// the two looks: before the trial the clocks come first. What could not be looked at comes
    /// before what was seen.
    fn look(
        &mut self,
        outside: &mut Option<&mut dyn Outside>,
        inputs: &mut VecDeque<Input>,
        is_before: bool,
    ) -> Result<(), NotFound> {
        if !is_before {
            self.traffic_counted();
        }
        let before = is_before.then(|| self.compare_clocks());
        if let Some(Err((host, source))) = outside.as_mut().map(|outside| outside.look()) {
            // Every host of a run has a station, or nobody would have asked it.
            let at = self.on(host).ok_or(NotFound::Host(host))?;
            inputs.push_back(Input::Unseen(at.0, AgentError::Host { station: at.1, source }));
        }
        let (compared, failed) = before.unwrap_or_else(|| self.compare_clocks());
        inputs.extend(failed.into_iter().map(|(station, error)| Input::Unseen(station, error)));
        inputs.push_back(Input::Looked(compared));
        if is_before {
            self.count_traffic();
        }
        Ok(())
    }

    /// The next message of a station, or a tick when there was none until the deadline, or for as
    /// long as a stop may go unheard.
    fn wait_for_input(&mut self, deadline: Option<Instant<Monotonic>>) -> Input {
        let left = deadline.map_or(Nanos::ZERO, |deadline| deadline - clock::now());
        match self.next(LISTEN.min(Duration::from_nanos(left.0.max(0) as u64))) {
            Some((station, Ok(message))) => Input::Message(station, message),
            Some((station, Err(error))) => Input::Lost(station, error),
            None => Input::Tick,
        }
    }
}
