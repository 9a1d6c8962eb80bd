// SPDX-License-Identifier: MIT OR Apache-2.0
//! Warming up: packets that no sample comes of, until every stamp that the trial wants flows, or a
//! stream's limit has passed. Each round warms all streams, so that none has gone cold again when
//! the last one is warm.

use super::activities::Awaited;
use super::shared::{Input, Now, Output, Shared, TrialError};
use crate::not_found::NotFound;
use crate::orders::Ordered;
use crate::station::ANSWER;
use std::collections::VecDeque;
use tardy_engine::message::{FromAgent, ToAgent};
use tardy_model::point::Point;
use tardy_model::stream::{Side, Wait};
use tardy_model::stream_id::{NoStream, StreamId};
use tardy_model::time::{Instant, Monotonic, Nanos};
use tardy_model::xdp::Core;

const PACKETS: u32 = 10;
const APART: Nanos = Nanos(1_000_000);

/// What the warm-up has come to at an end that receives.
#[derive(Clone, Copy)]
struct Warm {
    received: u32,
    unstamped: u32,
    last_stamped: bool,
    answers_stamped: u32,
}

/// What the present stream was asked last.
#[derive(Clone, Copy)]
enum Step {
    /// To send warm-up packets.
    Send,
    /// What happened to them at the far end. `stamped` of them were stamped when they were sent.
    Far {
        stamped: u32,
    },
    Near {
        stamped: u32,
        far: Warm,
        side: Side,
    },
}

pub(super) struct Warming {
    began: Instant<Monotonic>,
    /// The streams of this round that are not done: the present one, then those behind it.
    left: VecDeque<StreamId>,
    /// Some stream of this round is not warm yet.
    is_cold: bool,
    step: Step,
    asked: Awaited,
}

impl Warming {
    /// Also returns true if there is nothing to warm.
    pub(super) fn begin(shared: &Shared<'_>, now: Now, out: &mut Vec<Output>) -> Result<(Warming, bool), TrialError> {
        let asked = Awaited::new([], DOING, ANSWER, now.monotonic);
        let left = shared.streams.iter().map(|ordered| ordered.id).collect();
        let mut warming = Warming { began: now.monotonic, left, is_cold: false, step: Step::Send, asked };
        let is_warm = warming.next(shared, now, out)?;
        Ok((warming, is_warm))
    }

    fn present<'s>(&self, shared: &Shared<'s>) -> Result<&'s Ordered, NotFound> {
        // Whoever is asked about a stream is asked while it is the present one.
        let id = self.left.front().ok_or(NoStream::At(shared.streams.len()))?;
        shared.stream(*id)
    }

    pub(super) fn deadline(&self) -> Instant<Monotonic> {
        self.asked.deadline()
    }

    /// True when the warm-up is over.
    pub(super) fn handle(
        &mut self,
        shared: &mut Shared<'_>,
        now: Now,
        input: Input,
        out: &mut Vec<Output>,
    ) -> Result<bool, TrialError> {
        let heard = shared.heard(&mut self.asked, now, input)?;
        match (self.step, heard) {
            (Step::Send, Some((_, FromAgent::Warmed { activity, stamped }))) if self.asked.awaits(activity) => {
                self.ask_status(shared, Side::Rx, Step::Far { stamped }, now, out)?;
            }
            (Step::Far { stamped }, Some((_, message))) => {
                if let Some(far) = self.status(shared, Side::Rx, &message)? {
                    match self.present(shared)?.replies_at() {
                        Some(side) => self.ask_status(shared, side, Step::Near { stamped, far, side }, now, out)?,
                        None => {
                            self.end_round(shared, stamped, far, None, now)?;
                            return self.next(shared, now, out);
                        }
                    }
                }
            }
            (Step::Near { stamped, far, side }, Some((_, message))) => {
                if let Some(near) = self.status(shared, side, &message)? {
                    self.end_round(shared, stamped, far, Some((side, near)), now)?;
                    return self.next(shared, now, out);
                }
            }
            _ => {}
        }
        Ok(false)
    }

    /// Goes to the next stream that is to be warmed; true if there is none.
    fn next(&mut self, shared: &Shared<'_>, now: Now, out: &mut Vec<Output>) -> Result<bool, TrialError> {
        // Twice round: the streams behind the present one, then those of a new round.
        for _ in 0..2 {
            while let Some(id) = self.left.front().copied() {
                let stream = &shared.stream(id)?.stream;
                let is_in_time = now.monotonic - self.began < stream.warmup;
                // Busy polling can only be judged by a packet, so it takes one round at least.
                let is_busy = stream.rx.wait == Wait::Busypoll || stream.tx.wait == Wait::Busypoll;
                // A connection is made by the first.
                let is_connection = stream.port.traits().is_connection;
                // Where the XDP program runs is shown by a packet too.
                let by_program = stream.rx.core.is_some();
                let once = (is_busy || is_connection || by_program) && !shared.warmups.contains_key(&id);
                if let Some(sender) = shared.activities.end(id, Side::Tx)
                    && !shared.is_stopped
                    && (is_in_time || once)
                {
                    let order = ToAgent::WarmUp { activity: sender.id, count: PACKETS, apart: APART };
                    out.push(Output::Tell(sender.station, order));
                    self.asked = Awaited::new([sender], DOING, ANSWER, now.monotonic);
                    self.step = Step::Send;
                    return Ok(false);
                }
                self.left.pop_front();
            }
            self.left = shared.streams.iter().map(|ordered| ordered.id).collect();
            if !std::mem::take(&mut self.is_cold) {
                break;
            }
        }
        out.extend(shared.streams.iter().filter_map(|ordered| unstamped(shared, ordered)));
        Ok(true)
    }

    fn ask_status(
        &mut self,
        shared: &Shared<'_>,
        side: Side,
        step: Step,
        now: Now,
        out: &mut Vec<Output>,
    ) -> Result<(), TrialError> {
        let end = shared.activities.end(self.present(shared)?.id, side);
        out.extend(end.map(|end| Output::Tell(end.station, ToAgent::WarmStatus { activity: end.id })));
        self.asked = Awaited::new(end, DOING, ANSWER, now.monotonic);
        self.step = step;
        Ok(())
    }

    /// What the message says of this end of the present stream.
    fn status(&self, shared: &Shared<'_>, side: Side, message: &FromAgent) -> Result<Option<Warm>, TrialError> {
        let ordered = self.present(shared)?;
        let FromAgent::WarmStatus {
            activity,
            received,
            unstamped,
            last_stamped,
            napi_id,
            answers_stamped,
            ref program_cpus,
            ..
        } = *message
        else {
            return Ok(None);
        };
        if !self.asked.awaits(activity) {
            return Ok(None);
        }
        let wait = if side == Side::Rx { ordered.stream.rx.wait } else { ordered.stream.tx.wait };
        if wait == Wait::Busypoll && received > 0 && napi_id == 0 {
            let end = if side == Side::Rx { "rx" } else { "tx" };
            // AF_XDP's receiver asks without sleeping whether it polls a device or not.
            let polls = side == Side::Rx && ordered.stream.rx.port.passes_xdp();
            // A veth pair gives packets to AF_XDP without one, with path.napi and without.
            let (truth, has_one) = match polls {
                true => ("spin", "a device whose driver gives one to AF_XDP, as those of network cards do"),
                false => ("block", "a device whose driver has NAPI, as a veth pair with path.napi = true"),
            };
            return Err(TrialError::CannotDo(format!(
                "stream `{}`: {end}.wait = \"busypoll\" would be \"{truth}\" in disguise: packets come without a NAPI \
                 context (SO_INCOMING_NAPI_ID is 0), so there is no device to poll; use another wait, or \
                 {has_one}",
                ordered.stream.name
            )));
        }
        placed_by_program(ordered, side, program_cpus)?;
        Ok(Some(Warm { received, unstamped, last_stamped, answers_stamped }))
    }

    /// Records what this round came to for the present stream, and turns to the next one.
    fn end_round(
        &mut self,
        shared: &mut Shared<'_>,
        stamped: u32,
        far: Warm,
        near: Option<(Side, Warm)>,
        now: Now,
    ) -> Result<(), TrialError> {
        let ordered = self.present(shared)?;
        let wants = |side: Side, points: &[Point]| {
            let end = shared.ready(ordered.id, side);
            let is_absent = |point| end.is_some_and(|end| end.absent.iter().any(|(absent, _)| absent == point));
            points.iter().any(|point| ordered.stream.stamps.contains(point) && !is_absent(point))
        };
        let tx_wanted = wants(Side::Tx, &[Point::TxKernel, Point::TxSched]);
        let answer_wanted = wants(Side::Rx, &[Point::ReplyTxKernel, Point::ReplyTxSched]);
        // A user's own program may give a time to some packets only.
        let is_own = ordered.stream.rx.object.is_none();
        let rx_wanted = wants(Side::Rx, &[Point::RxKernel]) || is_own && wants(Side::Rx, &[Point::RxXdp]);
        // The program writes its stamp before it hands a packet over: ten without one are no
        // chance.
        if is_own && wants(Side::Rx, &[Point::RxXdp]) && far.received >= PACKETS && far.unstamped >= far.received {
            let mut ends =
                ordered.ends.iter().filter_map(|end| end.ways().receive().map(|receive| receive.device.as_str()));
            let device = ends.next_back().unwrap_or("its device");
            return Err(TrialError::CannotDo(format!(
                "stream `{}`: none of {} warm-up packets has the stamp of the XDP program: {device} leaves no room for it \
                 before a packet (bpf_xdp_adjust_meta); take another device, or port packet",
                ordered.stream.name, far.received
            )));
        }
        let near = near.map(|(side, near)| (near, wants(side, &[Point::ReplyRxKernel])));
        let is_counted = rx_wanted || wants(Side::Rx, &[Point::RxXdp]);
        let warm = shared.warmups.entry(ordered.id).or_default();
        warm.sent += PACKETS;
        warm.received = far.received;
        warm.without_rx_stamp = if is_counted { far.unstamped } else { 0 };
        if tx_wanted {
            warm.without_tx_stamp += PACKETS.saturating_sub(stamped);
        }
        let tx_flows = !tx_wanted || stamped >= PACKETS;
        let answers_flow = !answer_wanted || far.answers_stamped > 0;
        let comes_back = near.is_none_or(|(near, wanted)| near.received > 0 && (!wanted || near.last_stamped));
        warm.flowed = far.received > 0 && tx_flows && (!rx_wanted || far.last_stamped) && answers_flow && comes_back;
        warm.took_ns = (now.monotonic - self.began).0;
        self.is_cold |= !warm.flowed;
        self.left.pop_front();
        Ok(())
    }
}

/// A stream of which no warm-up packet has the stamp of the user's own XDP program. That tardy's
/// program stamps none has ended the trial before.
fn unstamped(shared: &Shared<'_>, ordered: &Ordered) -> Option<Output> {
    let warm = shared.warmups.get(&ordered.id).filter(|_| ordered.stream.rx.object.is_some())?;
    let is_bare = warm.received > 0 && warm.without_rx_stamp >= warm.received;
    is_bare.then_some(Output::Unstamped { stream: ordered.id, packets: warm.received })
}

/// Compares where the XDP program ran, by its hints, with where a receiver was placed by it. If the
/// program has one CPU, the receiver can be placed anew.
fn placed_by_program(ordered: &Ordered, side: Side, program: &[u32]) -> Result<(), TrialError> {
    let stream = &ordered.stream;
    let Some(core) = stream.rx.core.filter(|_| side == Side::Rx) else { return Ok(()) };
    let receive = ordered.ends.iter().find(|end| end.side() == Side::Rx).and_then(|end| end.ways().receive().copied());
    let Some(cpu) = receive.and_then(|receive| receive.thread.cpu) else { return Ok(()) };
    let is_there = match core {
        Core::Same => program.iter().all(|of| *of == cpu),
        Core::Remote => !program.contains(&cpu),
    };
    match program {
        _ if is_there => Ok(()),
        [program] => Err(TrialError::Elsewhere { stream: stream.name.clone(), program: *program }),
        _ => {
            let cpus: Vec<String> = program.iter().map(u32::to_string).collect();
            Err(TrialError::CannotDo(format!(
                "stream `{}`: rx.core = \"{}\" needs an XDP program that runs on one CPU, and in the warm-up it ran on CPUs {}: pin \
                 the sender (tx.cpu), or have one CPU take packets in (station.{}.softirq)",
                stream.name,
                core.name(),
                cpus.join(" and "),
                stream.to
            )))
        }
    }
}

const DOING: &str = "warming up";
