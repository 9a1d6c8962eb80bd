// SPDX-License-Identifier: MIT OR Apache-2.0
//! One trial on real stations: make ready, warm up until stamps flow, start on an aligned base, wait, collect both halves.

use crate::agent::{Agent, AgentError, Incoming};
use crate::loads::Loads;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant as Wall};
use tardy_engine::halves::Halves;
use tardy_engine::live::Digest;
use tardy_engine::message::{EndReady, FromAgent, Side, ToAgent};
use tardy_engine::order::{ReceiveOrder, SendOrder, ThreadOrder};
use tardy_engine::receiver::{Arrival, ReceiverCounters};
use tardy_engine::schedule;
use tardy_engine::sender::{SenderCounters, SenderHalf};
use tardy_model::machine::{RulerRecord, ThreadRecord};
use tardy_model::point::Point;
use tardy_model::stream::{Stream, Wait};
use tardy_model::time::{ClockReading, Instant, Nanos, Tai};
use tardy_model::trial::{SpinGaps, WarmUp};
use tardy_sys::clock;

/// One stream as it is to be run in a trial.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// As in the experiment.
    pub stream: Stream,
    /// Index of the sending station's agent.
    pub from: usize,
    /// Index of the receiving station's agent.
    pub to: usize,
    /// Sender's order.
    pub send: SendOrder,
    /// Receiver's order.
    pub receive: ReceiveOrder,
    /// Shift of the schedule.
    pub phase: Nanos,
}

/// Both halves of one stream.
pub struct Ran {
    /// Scheduled instant of packet 0.
    pub base: Instant<Tai>,
    /// What both stations recorded.
    pub halves: Halves,
}

/// Why a trial has no whole result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// A station failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// This machine cannot do what the cell asks for; other cells may go on.
    #[error("{0}")]
    CannotDo(String),
}

/// What is left of a trial in which a station failed.
pub struct Broken {
    /// Why.
    pub error: TrialError,
    /// What the others had recorded; a half that is gone is empty.
    pub had: Vec<Option<Ran>>,
}

/// The stations of one built path.
pub struct Stations {
    /// Agents by index.
    pub agents: Vec<Agent>,
    /// Their messages.
    pub inbox: mpsc::Receiver<Incoming>,
}

/// A station answers within this time, even beside a spinning realtime thread.
const ANSWER: Duration = Duration::from_secs(20);
/// Between the order to start and the lead-in's first packet.
const AHEAD: Nanos = Nanos(15_000_000);
const WARM_UP_PACKETS: u32 = 10;
const WARM_UP_APART: Nanos = Nanos(1_000_000);
/// When a station has failed, the others get less time to hand over what they have.
const SALVAGE: Duration = Duration::from_secs(3);
/// A receiver waits so long for packets that were sent and have not come.
const LINGER: Nanos = Nanos(250_000_000);

impl Stations {
    /// The next message within `limit`; `None` when the time is up.
    fn next(&mut self, limit: Duration) -> Result<Option<(usize, FromAgent)>, AgentError> {
        match self.inbox.recv_timeout(limit) {
            Ok((station, Ok(message))) => Ok(Some((station, message))),
            Ok((station, Err(error))) => Err(self.agents[station].explain(error)),
            Err(_) => Ok(None),
        }
    }

    /// Waits for one answer that `take` accepts from each of the stations asked. What it does not accept is passed over, but
    /// a message that is no mere progress shows that its station works, and the time limit starts anew.
    pub(crate) fn answers<T>(
        &mut self,
        asked: &[usize],
        doing: &'static str,
        limit: Duration,
        mut take: impl FnMut(usize, FromAgent) -> Option<T>,
    ) -> Result<Vec<T>, AgentError> {
        let mut until = Wall::now() + limit;
        let mut missing: Vec<usize> = asked.to_vec();
        let mut taken = Vec::new();
        while let Some(first) = missing.first() {
            let left = until.saturating_duration_since(Wall::now());
            match self.next(left)? {
                None => {
                    let station = self.agents[*first].station().to_owned();
                    return Err(AgentError::Silent { station, seconds: limit.as_secs(), doing });
                }
                Some((station, FromAgent::Failed(what))) => {
                    return Err(AgentError::Refused { station: self.agents[station].station().to_owned(), what });
                }
                Some((_, FromAgent::Progress { .. })) => {}
                Some((station, message)) => {
                    until = Wall::now() + limit;
                    if let Some(answer) = take(station, message) {
                        taken.push(answer);
                        missing.retain(|asked| *asked != station);
                    }
                }
            }
        }
        Ok(taken)
    }

    /// Measures the ruler: for each station the threads that will run there. One station after the other, for on a shared
    /// CPU they would measure each other.
    pub fn measure(&mut self, threads: &[Vec<ThreadOrder>]) -> Result<Vec<RulerRecord>, AgentError> {
        let mut records = Vec::new();
        for (station, threads) in threads.iter().enumerate().filter(|(_, threads)| !threads.is_empty()) {
            self.agents[station].tell(&ToAgent::Measure(threads.clone()))?;
            let limit = ANSWER + Duration::from_secs(threads.len() as u64);
            let measured = self.answers(&[station], "measuring the ruler", limit, |_, message| match message {
                FromAgent::Ruler(records) => Some(records),
                _ => None,
            })?;
            let name = self.agents[station].station().to_owned();
            let named = measured.into_iter().flatten().map(|record| RulerRecord { station: name.clone(), ..record });
            records.extend(named);
        }
        Ok(records)
    }

    /// Runs one trial of all streams at once. `observe` is called just before the start and just behind the end: what lies
    /// outside, making ready and handing over, is not the trial.
    pub fn run(
        &mut self,
        streams: &[Ordered],
        loads: &mut Loads,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(),
        progress: &mut dyn FnMut(&str, Side, Digest),
    ) -> Result<Vec<Ran>, Broken> {
        let mut trial = Trial {
            streams,
            ready: BTreeMap::new(),
            clocks: BTreeMap::new(),
            warmups: vec![WarmUp::default(); streams.len()],
            bases: vec![None; streams.len()],
        };
        match trial.measure(self, loads, stop, observe, progress) {
            Ok(()) => {}
            Err(error) => {
                let had = (0..streams.len()).map(|i| trial.salvage(self, i)).collect();
                return Err(Broken { error, had });
            }
        }
        if let Err(error) = loads.collect(self) {
            let had = (0..streams.len()).map(|i| trial.salvage(self, i)).collect();
            return Err(Broken { error: error.into(), had });
        }
        let mut ran = Vec::new();
        for i in 0..streams.len() {
            match trial.collect(self, i) {
                Ok(both) => ran.push(both),
                Err(error) => {
                    let mut had: Vec<Option<Ran>> = ran.into_iter().map(Some).collect();
                    had.extend((i..streams.len()).map(|i| trial.salvage(self, i)));
                    return Err(Broken { error: error.into(), had });
                }
            }
        }
        Ok(ran)
    }
}

struct Trial<'a> {
    streams: &'a [Ordered],
    ready: BTreeMap<(u8, Side), EndReady>,
    clocks: BTreeMap<usize, ClockReading>,
    warmups: Vec<WarmUp>,
    bases: Vec<Option<Instant<Tai>>>,
}

/// What one end hands over.
struct Half<R, C> {
    rows: R,
    counters: C,
    gaps: Option<SpinGaps>,
    thread: ThreadRecord,
    clocks: ClockReading,
}

type SentHalf = Half<SenderHalf, SenderCounters>;
type ArrivedHalf = Half<Vec<Arrival>, ReceiverCounters>;

impl Trial<'_> {
    fn number(&self, i: usize) -> u8 {
        self.streams[i].send.order.stream
    }

    fn measure(
        &mut self,
        stations: &mut Stations,
        loads: &Loads,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(),
        progress: &mut dyn FnMut(&str, Side, Digest),
    ) -> Result<(), TrialError> {
        self.prepare(stations, loads)?;
        loads.connect(stations)?;
        self.warm_up(stations, stop)?;
        observe();
        self.start(stations, loads)?;
        let waited = self.wait(stations, stop, progress).and_then(|()| loads.stop(stations));
        observe();
        Ok(waited?)
    }

    fn prepare(&mut self, stations: &mut Stations, loads: &Loads) -> Result<(), AgentError> {
        let mut asked = Vec::new();
        for (index, agent) in stations.agents.iter_mut().enumerate() {
            let sends: Vec<_> = self.streams.iter().filter(|s| s.from == index).map(|s| s.send.clone()).collect();
            let receives: Vec<_> = self.streams.iter().filter(|s| s.to == index).map(|s| s.receive.clone()).collect();
            let loads = loads.at(index);
            if !(sends.is_empty() && receives.is_empty() && loads.is_empty()) {
                agent.tell(&ToAgent::Prepare { sends, receives, loads })?;
                asked.push(index);
            }
        }
        let answers = stations.answers(&asked, "making ready", ANSWER, |station, message| match message {
            FromAgent::Ready { ends, clocks } => Some((station, ends, clocks)),
            _ => None,
        })?;
        for (station, ends, clocks) in answers {
            self.clocks.insert(station, clocks);
            self.ready.extend(ends.into_iter().map(|end| ((end.stream, end.side), end)));
        }
        Ok(())
    }

    /// Sends warm-up packets until every stamp that is wanted flows, or a stream's limit has passed. All streams in each
    /// round, so that none has gone cold again when the last one is warm.
    fn warm_up(&mut self, stations: &mut Stations, stop: &AtomicBool) -> Result<(), TrialError> {
        let began = Wall::now();
        loop {
            let mut warming = false;
            for i in 0..self.streams.len() {
                let stream = &self.streams[i].stream;
                let limit = Duration::from_nanos(stream.warmup.0.max(0) as u64);
                // Busy polling can only be judged by a packet, so it takes one round at least.
                let once = stream.rx.wait == Wait::Busypoll && self.warmups[i].sent == 0;
                if !stop.load(Relaxed) && (began.elapsed() < limit || once) {
                    self.warm_round(stations, i)?;
                    self.warmups[i].took_ns = began.elapsed().as_nanos() as i64;
                    warming |= !self.warmups[i].flowed;
                }
            }
            if !warming {
                return Ok(());
            }
        }
    }

    fn warm_round(&mut self, stations: &mut Stations, i: usize) -> Result<(), TrialError> {
        let (stream, ordered) = (self.number(i), &self.streams[i]);
        let wants = |side: Side, point: Point| {
            let end = self.ready.get(&(stream, side));
            let absent = end.is_some_and(|end| end.absent.iter().any(|(absent, _)| *absent == point));
            ordered.stream.stamps.contains(&point) && !absent
        };
        let tx_wanted = wants(Side::Tx, Point::TxKernel) || wants(Side::Tx, Point::TxSched);
        let rx_wanted = wants(Side::Rx, Point::RxKernel);
        let order = ToAgent::WarmUp { stream, count: WARM_UP_PACKETS, apart: WARM_UP_APART };
        stations.agents[ordered.from].tell(&order)?;
        let stamped = stations.answers(&[ordered.from], "warming up", ANSWER, |_, message| match message {
            FromAgent::Warmed { stream: s, stamped } if s == stream => Some(stamped),
            _ => None,
        })?[0];
        stations.agents[ordered.to].tell(&ToAgent::WarmStatus { stream })?;
        let (received, unstamped, last_stamped, napi_id) =
            stations.answers(&[ordered.to], "warming up", ANSWER, |_, message| match message {
                FromAgent::WarmStatus { stream: s, received, unstamped, last_stamped, napi_id } if s == stream => {
                    Some((received, unstamped, last_stamped, napi_id))
                }
                _ => None,
            })?[0];
        if ordered.stream.rx.wait == Wait::Busypoll && received > 0 && napi_id == 0 {
            return Err(TrialError::CannotDo(format!(
                "stream `{}`: wait = \"busypoll\" would be \"block\" in disguise: packets on {} come without a NAPI context \
                 (SO_INCOMING_NAPI_ID is 0), so there is no device to poll; use \"block\", \"poll\" or \"spin\", or a device \
                 whose driver has NAPI",
                ordered.stream.name, ordered.receive.device
            )));
        }
        let warm = &mut self.warmups[i];
        warm.sent += WARM_UP_PACKETS;
        warm.received = received;
        warm.without_rx_stamp = if rx_wanted { unstamped } else { 0 };
        if tx_wanted {
            warm.without_tx_stamp += WARM_UP_PACKETS.saturating_sub(stamped);
        }
        let tx_flows = !tx_wanted || stamped >= WARM_UP_PACKETS;
        warm.flowed = received > 0 && tx_flows && (!rx_wanted || last_stamped);
        Ok(())
    }

    fn start(&mut self, stations: &mut Stations, loads: &Loads) -> Result<(), AgentError> {
        // A load that starts before the first packet must still have its start before it.
        let now = clock::now::<Tai>() + loads.lead();
        if let Some(first) = self.streams.first() {
            loads.start(stations, base_of(first, now))?;
        }
        for side in [Side::Rx, Side::Tx] {
            for (i, ordered) in self.streams.iter().enumerate() {
                let stream = self.number(i);
                let base = base_of(ordered, now);
                self.bases[i] = Some(base);
                let station = if side == Side::Rx { ordered.to } else { ordered.from };
                stations.agents[station].tell(&ToAgent::Start { stream, side, base })?;
            }
        }
        Ok(())
    }

    /// Until every sender is done and every receiver has what was sent, or will not get it.
    fn wait(
        &mut self,
        stations: &mut Stations,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str, Side, Digest),
    ) -> Result<(), AgentError> {
        let mut going: BTreeSet<(u8, Side)> =
            (0..self.streams.len()).flat_map(|i| [Side::Tx, Side::Rx].map(|side| (self.number(i), side))).collect();
        let mut told_stop = false;
        let longest = self.streams.iter().map(|s| s.stream.cycle.0).max().unwrap_or(0);
        let patience = ANSWER + Duration::from_nanos(2 * longest.max(0) as u64);
        let mut last_word = Wall::now();
        let mut counts = BTreeMap::new();
        while let Some((first, side)) = going.first().copied() {
            if stop.load(Relaxed) && !told_stop {
                told_stop = true;
                for agent in &mut stations.agents {
                    agent.tell(&ToAgent::StopSending)?;
                }
            }
            match stations.next(Duration::from_millis(50))? {
                None => {}
                Some((_, FromAgent::Progress { stream, side, digest })) => {
                    // Only a count that moves is a sign of life.
                    if counts.insert((stream, side), digest.done) != Some(digest.done) {
                        last_word = Wall::now();
                    }
                    let name = self.streams.iter().find(|s| s.send.order.stream == stream).map(|s| &s.stream.name);
                    progress(name.map_or("", |name| name), side, digest);
                }
                Some((_, FromAgent::Done { stream, side: Side::Tx, packets })) => {
                    going.remove(&(stream, Side::Tx));
                    last_word = Wall::now();
                    let ordered = self.streams.iter().find(|s| s.send.order.stream == stream);
                    if let Some(ordered) = ordered {
                        let linger = Nanos(LINGER.0.max(4 * ordered.stream.cycle.0.min(1_000_000_000)));
                        let finish = ToAgent::Finish { stream, expected: packets, linger };
                        stations.agents[ordered.to].tell(&finish)?;
                    }
                }
                Some((_, FromAgent::Done { stream, side: Side::Rx, .. })) => {
                    going.remove(&(stream, Side::Rx));
                    last_word = Wall::now();
                }
                Some((station, FromAgent::Failed(what))) => {
                    return Err(AgentError::Refused { station: stations.agents[station].station().to_owned(), what });
                }
                Some(_) => {}
            }
            if last_word.elapsed() > patience {
                let ordered = self.streams.iter().find(|s| s.send.order.stream == first);
                let station = ordered.map(|s| if side == Side::Tx { s.from } else { s.to });
                let station = station.map(|at| stations.agents[at].station().to_owned()).unwrap_or_default();
                return Err(AgentError::Silent { station, seconds: patience.as_secs(), doing: "the trial runs" });
            }
        }
        Ok(())
    }

    fn collect_sent(&self, stations: &mut Stations, i: usize, limit: Duration) -> Result<SentHalf, AgentError> {
        let stream = self.number(i);
        stations.agents[self.streams[i].from].tell(&ToAgent::Collect { stream, side: Side::Tx })?;
        let mut half = SenderHalf::default();
        let from = [self.streams[i].from];
        let mut taken = stations.answers(&from, "handing over samples", limit, |_, message| match message {
            FromAgent::SenderPiece(piece) => {
                half.append(piece);
                None
            }
            FromAgent::Sent { counters, gaps, thread, clocks } => Some((counters, gaps, thread, clocks)),
            _ => None,
        })?;
        let (counters, gaps, thread, clocks) = taken.remove(0);
        Ok(Half { rows: half, counters, gaps, thread, clocks })
    }

    fn collect_arrived(&self, stations: &mut Stations, i: usize, limit: Duration) -> Result<ArrivedHalf, AgentError> {
        let stream = self.number(i);
        stations.agents[self.streams[i].to].tell(&ToAgent::Collect { stream, side: Side::Rx })?;
        let mut arrivals = Vec::new();
        let from = [self.streams[i].to];
        let mut taken = stations.answers(&from, "handing over samples", limit, |_, message| match message {
            FromAgent::ArrivalPiece(mut piece) => {
                arrivals.append(&mut piece);
                None
            }
            FromAgent::Arrived { counters, gaps, thread, clocks } => Some((counters, gaps, thread, clocks)),
            _ => None,
        })?;
        let (counters, gaps, thread, clocks) = taken.remove(0);
        Ok(Half { rows: arrivals, counters, gaps, thread, clocks })
    }

    fn collect(&self, stations: &mut Stations, i: usize) -> Result<Ran, AgentError> {
        let sent = self.collect_sent(stations, i, ANSWER)?;
        let arrived = self.collect_arrived(stations, i, ANSWER)?;
        Ok(self.both(i, sent, arrived))
    }

    fn both(&self, i: usize, sent: SentHalf, arrived: ArrivedHalf) -> Ran {
        let (stream, ordered) = (self.number(i), &self.streams[i]);
        let ends = [Side::Tx, Side::Rx].map(|side| self.ready.get(&(stream, side)));
        let absent = ends.iter().flatten().flat_map(|end| end.absent.iter().cloned()).collect();
        let before = |station: usize, after: ClockReading| self.clocks.get(&station).copied().unwrap_or(after);
        let halves = Halves {
            sent: sent.rows,
            tx_counters: sent.counters,
            tx_thread: sent.thread,
            tx_clocks: [before(ordered.from, sent.clocks), sent.clocks],
            arrivals: arrived.rows,
            rx_counters: arrived.counters,
            rx_thread: arrived.thread,
            rx_clocks: [before(ordered.to, arrived.clocks), arrived.clocks],
            gaps: arrived.gaps,
            tx_gaps: sent.gaps,
            absent,
            error_queue_bytes: ends[0].map_or(0, |end| end.error_queue_bytes),
            warmup: self.warmups[i],
        };
        Ran { base: self.bases[i].unwrap_or(Instant::from_ns(0)), halves }
    }

    /// What the stations that still answer had recorded of a stream; `None` if it never began, or nothing is left of it.
    /// Whoever keeps it must say that half of it is gone: it is not a trial.
    fn salvage(&self, stations: &mut Stations, i: usize) -> Option<Ran> {
        self.bases[i]?;
        let sent = self.collect_sent(stations, i, SALVAGE);
        let arrived = self.collect_arrived(stations, i, SALVAGE);
        if sent.is_err() && arrived.is_err() {
            return None;
        }
        let clocks = clock::read_clocks();
        let thread = |side| self.ready.get(&(self.number(i), side)).map(|end| end.thread.clone()).unwrap_or_default();
        let gone = |side| (None, thread(side), clocks);
        let arrived = arrived.unwrap_or_else(|_| {
            let (gaps, thread, clocks) = gone(Side::Rx);
            Half { rows: Vec::new(), counters: ReceiverCounters::default(), gaps, thread, clocks }
        });
        let sent = sent.unwrap_or_else(|_| {
            let (gaps, thread, clocks) = gone(Side::Tx);
            // The sender's rows went with it: rows are made for what arrived to stand in.
            let rows = arrived.rows.iter().map(|arrival| arrival.seq + 1).max().unwrap_or(0);
            let rows = SenderHalf::only_sent(rows);
            Half { rows, counters: SenderCounters::default(), gaps, thread, clocks }
        });
        Some(self.both(i, sent, arrived))
    }
}

/// The base time of a stream whose trial may start `now`.
fn base_of(ordered: &Ordered, now: Instant<Tai>) -> Instant<Tai> {
    let cycle = ordered.stream.cycle;
    let lead = Nanos(i64::from(schedule::lead_in(cycle)) * cycle.0) + ordered.stream.tx.advance;
    schedule::base_time(now + AHEAD + lead, cycle, ordered.phase)
}
