// SPDX-License-Identifier: MIT OR Apache-2.0
//! One trial as a state machine without I/O. What happens goes in, with the time at which it
//! happened; what is to be done comes out. It does not know how an agent is reached, so a test can
//! lead it through any order of messages, late and lost ones too.
//!
//! What runs in a trial are its activities. The phases: prepare them, connect the loads, warm up
//! until stamps flow, look at the machine, run, look again, collect the loads, collect the ends. A
//! failure in any phase leads to collecting what is left.

use super::activities::{Activities, ActivityKind, Awaited};
use super::collecting::Collecting;
use super::running::Running;
use super::shared::{Broken, Shared, StreamHalves, TrialError};
pub use super::shared::{Input, Now, Output};
use super::warming::Warming;
use crate::loads::Loads;
use crate::orders::Ordered;
use crate::station::{ANSWER, StationId};
use std::collections::{BTreeMap, BTreeSet};
use tardy_engine::live::Digest;
use tardy_engine::message::{ActivitySummary, FromAgent, ToAgent};
use tardy_model::stream::Side;
use tardy_model::time::{Instant, Monotonic, Nanos};

enum Phase {
    Preparing(Awaited),
    ConnectingLoads(Awaited),
    Warming(Warming),
    LookingBefore,
    Running(Running),
    LookingBehind { failed: Option<TrialError> },
    CollectingLoads(Awaited),
    Collecting(Box<Collecting>),
    Over,
}

pub struct TrialMachine<'a> {
    shared: Shared<'a>,
    phase: Phase,
    /// Stations whose connection broke.
    lost: BTreeSet<StationId>,
    /// The loads were ordered to connect, and what they did is not handed over yet.
    has_loads: bool,
    result: Option<Result<Vec<StreamHalves>, Broken>>,
}

impl<'a> TrialMachine<'a> {
    /// A trial of these streams and loads over these stations. `ahead` is the least time between
    /// the order to start and the first packet of the lead-in. Gives what is to be done first.
    pub fn begin(
        streams: &'a [Ordered],
        loads: &'a mut Loads,
        stations: BTreeMap<StationId, String>,
        ahead: Nanos,
        now: Now,
    ) -> (TrialMachine<'a>, Vec<Output>) {
        let (activities, orders) = Activities::number(streams, loads);
        let prepare = |(station, activities)| Output::Tell(station, ToAgent::Prepare { activities });
        let mut out: Vec<Output> = orders.into_iter().map(prepare).collect();
        let asked = Awaited::new(activities.all(), "making ready", ANSWER, now.monotonic);
        let shared = Shared {
            streams,
            loads,
            activities,
            stations,
            ahead,
            ready: BTreeMap::new(),
            clocks: BTreeMap::new(),
            compared: Default::default(),
            warmups: BTreeMap::new(),
            bases: BTreeMap::new(),
            is_stopped: false,
            silent: BTreeSet::new(),
        };
        let phase = Phase::Preparing(asked);
        let mut machine = TrialMachine { shared, phase, lost: BTreeSet::new(), has_loads: false, result: None };
        // Where nobody had to be asked.
        out.extend(machine.handle(now, Input::Tick));
        (machine, out)
    }

    /// True when the trial is over and nothing more comes out.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// These stations report nothing while the trial runs: as long as it may take, they are not
    /// missed.
    pub fn expect_silence(&mut self, of: BTreeSet<StationId>) {
        self.shared.silent = of;
    }

    /// When [`Input::Tick`] is due if nothing else happens before; `None` if only something else
    /// can lead on.
    pub fn deadline(&self) -> Option<Instant<Monotonic>> {
        match &self.phase {
            Phase::Preparing(asked) | Phase::ConnectingLoads(asked) | Phase::CollectingLoads(asked) => {
                Some(asked.deadline())
            }
            Phase::Warming(warming) => Some(warming.deadline()),
            Phase::Running(running) => Some(running.deadline(&self.shared)),
            Phase::Collecting(collecting) => Some(collecting.deadline()),
            Phase::LookingBefore | Phase::LookingBehind { .. } | Phase::Over => None,
        }
    }

    /// What the trial came to; `None` before it is over, and after it was asked once.
    pub fn result(&mut self) -> Option<Result<Vec<StreamHalves>, Broken>> {
        self.result.take()
    }

    /// Something happened. Gives what is to be done.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        if matches!(input, Input::Stop) {
            self.stop(&mut out);
            return out;
        }
        if let Input::Lost(station, _) = &input {
            self.lost.insert(*station);
        }
        if let Err(error) = self.step(now, input, &mut out) {
            self.fail(error, now, &mut out);
        }
        out
    }

    fn stop(&mut self, out: &mut Vec<Output>) {
        // A trial that has not begun to send sends its last packet when it begins.
        let is_first = !std::mem::replace(&mut self.shared.is_stopped, true);
        if is_first && matches!(self.phase, Phase::Running(_)) {
            self.shared.stop(ActivityKind::stops_with_the_user, out);
        }
    }

    fn step(&mut self, now: Now, input: Input, out: &mut Vec<Output>) -> Result<(), TrialError> {
        match &mut self.phase {
            Phase::Preparing(_) => self.prepare(now, input, out),
            Phase::ConnectingLoads(_) => self.connect_loads(now, input, out),
            Phase::Warming(warming) => {
                if warming.handle(&mut self.shared, now, input, out)? {
                    self.look_before(out);
                }
                Ok(())
            }
            Phase::LookingBefore => self.looked_before(now, input, out),
            Phase::Running(running) => {
                let failed = match running.handle(&self.shared, now, input, out) {
                    Ok(false) => return Ok(()),
                    Ok(true) => {
                        self.shared.stop(ActivityKind::is_background, out);
                        None
                    }
                    Err(error) => Some(error),
                };
                out.push(Output::Look);
                self.phase = Phase::LookingBehind { failed };
                Ok(())
            }
            Phase::LookingBehind { .. } => self.looked_behind(now, input, out),
            Phase::CollectingLoads(_) => self.collect_loads(now, input, out),
            Phase::Collecting(collecting) => {
                if collecting.handle(&self.shared, now, input, out) {
                    self.result = Some(collecting.result(&self.shared));
                    self.phase = Phase::Over;
                }
                Ok(())
            }
            Phase::Over => Ok(()),
        }
    }

    /// Each station says what became of its activities; then the loads connect.
    fn prepare(&mut self, now: Now, input: Input, out: &mut Vec<Output>) -> Result<(), TrialError> {
        let (Phase::Preparing(asked), shared) = (&mut self.phase, &mut self.shared) else { return Ok(()) };
        if let Some((station, FromAgent::Ready { ends, clocks })) = shared.heard(asked, now, input)? {
            shared.clocks.insert(station, clocks);
            shared.ready.extend(ends.into_iter().map(|end| (end.activity, end)));
            asked.answered_by(station);
        }
        if !asked.is_complete() {
            return Ok(());
        }
        shared.has_named_stamps()?;
        let stations = shared.activities.by_station(ActivityKind::is_background).into_keys();
        out.extend(stations.map(|station| Output::Tell(station, ToAgent::Connect)));
        self.has_loads = true;
        let loads = shared.activities.of(ActivityKind::is_background);
        let asked = Awaited::new(loads, "connecting the loads", ANSWER, now.monotonic);
        self.phase = Phase::ConnectingLoads(asked);
        self.step(now, Input::Tick, out)
    }

    /// The loads are connected; then the streams warm up.
    fn connect_loads(&mut self, now: Now, input: Input, out: &mut Vec<Output>) -> Result<(), TrialError> {
        let (Phase::ConnectingLoads(asked), shared) = (&mut self.phase, &mut self.shared) else { return Ok(()) };
        if let Some((station, FromAgent::Connected)) = shared.heard(asked, now, input)? {
            asked.answered_by(station);
        }
        if asked.is_complete() {
            let (warming, is_warm) = Warming::begin(shared, now, out)?;
            self.phase = Phase::Warming(warming);
            if is_warm {
                self.look_before(out);
            }
        }
        Ok(())
    }

    /// The machine was looked at; then the trial starts.
    fn looked_before(&mut self, now: Now, input: Input, out: &mut Vec<Output>) -> Result<(), TrialError> {
        match input {
            Input::Looked(compared) => {
                self.shared.compared[0] = compared;
                self.shared.start(now, out)?;
                self.phase = Phase::Running(Running::begin(&self.shared, now, out));
                self.step(now, Input::Tick, out)
            }
            Input::Lost(_, error) | Input::Unseen(_, error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The machine was looked at again; then the loads hand over what they did.
    fn looked_behind(&mut self, now: Now, input: Input, out: &mut Vec<Output>) -> Result<(), TrialError> {
        let (Phase::LookingBehind { failed }, shared) = (&mut self.phase, &mut self.shared) else { return Ok(()) };
        match input {
            Input::Looked(compared) => {
                shared.compared[1] = compared;
                if let Some(error) = failed.take() {
                    return Err(error);
                }
                let loads = || shared.activities.of(ActivityKind::is_background);
                out.extend(loads().map(|load| Output::Tell(load.station, ToAgent::Collect { activity: load.id })));
                let asked = Awaited::new(loads(), "handing over the loads", ANSWER, now.monotonic);
                self.phase = Phase::CollectingLoads(asked);
                self.step(now, Input::Tick, out)
            }
            Input::Lost(_, error) | Input::Unseen(_, error) => {
                failed.get_or_insert(error.into());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The loads have handed over what they did; then the ends do.
    fn collect_loads(&mut self, now: Now, input: Input, out: &mut Vec<Output>) -> Result<(), TrialError> {
        let (Phase::CollectingLoads(asked), shared) = (&mut self.phase, &mut self.shared) else { return Ok(()) };
        match shared.heard(asked, now, input)? {
            Some((station, FromAgent::LoadOutput { activity, bytes })) => {
                if let ActivityKind::Load(at) = shared.activity(station, activity)?.kind {
                    shared.loads.wrote(at, bytes);
                }
            }
            Some((station, FromAgent::Collected { activity, summary })) => {
                if let (ActivityKind::Load(at), ActivitySummary::Load(record)) =
                    (shared.activity(station, activity)?.kind, *summary)
                {
                    shared.loads.did(at, record);
                    asked.answered(activity);
                }
            }
            _ => {}
        }
        if asked.is_complete() {
            self.has_loads = false;
            end_leftovers(shared, out);
            self.phase = Phase::Collecting(Box::new(Collecting::all(shared, now, out)));
            return self.step(now, Input::Tick, out);
        }
        Ok(())
    }

    /// Before anything of the trial is measured: what is on its way from here on is the trial's.
    fn look_before(&mut self, out: &mut Vec<Output>) {
        // The caller who waits for the first packet learns of it before the trial measures
        // anything.
        if let Some(first) = self.shared.streams.first() {
            out.push(Output::Progress { stream: first.id, side: Side::Tx, digest: Digest::default() });
        }
        out.push(Output::Look);
        self.phase = Phase::LookingBefore;
    }

    /// Goes on with what is left of the trial.
    fn fail(&mut self, error: TrialError, now: Now, out: &mut Vec<Output>) {
        let had_loads = std::mem::take(&mut self.has_loads);
        // Loads that are being collected had the order before, and some of them may be gone by now.
        if had_loads && !matches!(self.phase, Phase::CollectingLoads(_)) {
            // The run may go on with another cell, which must not find them running.
            self.shared.stop(ActivityKind::is_background, out);
        }
        let lost = std::mem::take(&mut self.lost);
        let mut collecting = Collecting::left(&self.shared, error, lost, now, out);
        if had_loads {
            // Behind the question to the first end, which is answered meanwhile.
            end_leftovers(&self.shared, out);
        }
        if collecting.is_over() {
            self.result = Some(collecting.result(&self.shared));
            self.phase = Phase::Over;
        } else {
            self.phase = Phase::Collecting(Box::new(collecting));
        }
    }
}

/// Other processes that a load's program started must not run on into trials without that program.
fn end_leftovers(shared: &Shared<'_>, out: &mut Vec<Output>) {
    if shared.loads.have_programs() {
        out.push(Output::EndLeftovers);
    }
}
