// SPDX-License-Identifier: MIT OR Apache-2.0
//! One trial on real stations: make ready, warm up until stamps flow, start on an aligned base, wait, collect both halves.

use crate::agent::{Agent, AgentError, Incoming};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant as Wall};
use tardy_engine::halves::Halves;
use tardy_engine::live::Digest;
use tardy_engine::message::{EndReady, FromAgent, Side, ToAgent};
use tardy_engine::order::{ReceiveOrder, SendOrder};
use tardy_engine::receiver::ReceiverCounters;
use tardy_engine::schedule;
use tardy_engine::sender::{SenderCounters, SenderHalf};
use tardy_model::machine::ThreadRecord;
use tardy_model::point::Point;
use tardy_model::stream::{Stream, Wait};
use tardy_model::time::{ClockReading, Instant, Nanos, Tai};
use tardy_model::trial::WarmUp;
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

    /// Waits for `count` answers that `take` accepts; what it does not accept is passed over if it is progress.
    fn answers<T>(
        &mut self,
        count: usize,
        doing: &'static str,
        limit: Duration,
        mut take: impl FnMut(usize, FromAgent) -> Option<T>,
    ) -> Result<Vec<T>, AgentError> {
        let until = Wall::now() + limit;
        let mut taken = Vec::new();
        while taken.len() < count {
            let left = until.saturating_duration_since(Wall::now());
            match self.next(left)? {
                None => {
                    let station = self.agents.first().map(|agent| agent.station().to_owned()).unwrap_or_default();
                    return Err(AgentError::Silent { station, seconds: limit.as_secs(), doing });
                }
                Some((station, FromAgent::Failed(what))) => {
                    return Err(AgentError::Refused { station: self.agents[station].station().to_owned(), what });
                }
                Some((station, message)) => taken.extend(take(station, message)),
            }
        }
        Ok(taken)
    }

    /// Measures the ruler: for each station the threads that will run there.
    pub fn measure(
        &mut self,
        threads: &[Vec<tardy_engine::order::ThreadOrder>],
    ) -> Result<Vec<tardy_model::machine::RulerRecord>, AgentError> {
        let mut asked = 0;
        for (agent, threads) in self.agents.iter_mut().zip(threads) {
            if !threads.is_empty() {
                agent.tell(&ToAgent::Measure(threads.clone()))?;
                asked += 1;
            }
        }
        let names: Vec<String> = self.agents.iter().map(|agent| agent.station().to_owned()).collect();
        let records = self.answers(asked, "measuring the ruler", ANSWER, |station, message| match message {
            FromAgent::Ruler(mut records) => {
                records.iter_mut().for_each(|record| record.station.clone_from(&names[station]));
                Some(records)
            }
            _ => None,
        })?;
        let mut records: Vec<_> = records.into_iter().flatten().collect();
        records.sort_by(|a, b| (&a.station, a.cpu).cmp(&(&b.station, b.cpu)));
        Ok(records)
    }

    /// Runs one trial of all streams at once.
    pub fn run(
        &mut self,
        streams: &[Ordered],
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str, Side, Digest),
    ) -> Result<Vec<Ran>, Broken> {
        let mut trial = Trial {
            streams,
            ready: BTreeMap::new(),
            clocks: BTreeMap::new(),
            warmups: vec![WarmUp::default(); streams.len()],
            bases: vec![None; streams.len()],
        };
        match trial.measure(self, stop, progress) {
            Ok(()) => {}
            Err(error) => {
                let had = (0..streams.len()).map(|i| trial.salvage(self, i)).collect();
                return Err(Broken { error, had });
            }
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

type Half<R, C> = (R, C, ThreadRecord, ClockReading);

impl Trial<'_> {
    fn number(&self, i: usize) -> u8 {
        self.streams[i].send.order.stream
    }

    fn measure(
        &mut self,
        stations: &mut Stations,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str, Side, Digest),
    ) -> Result<(), TrialError> {
        self.prepare(stations)?;
        self.warm_up(stations, stop)?;
        self.start(stations)?;
        self.wait(stations, stop, progress)?;
        Ok(())
    }

    fn prepare(&mut self, stations: &mut Stations) -> Result<(), AgentError> {
        let mut asked = 0;
        for (index, agent) in stations.agents.iter_mut().enumerate() {
            let sends: Vec<_> = self.streams.iter().filter(|s| s.from == index).map(|s| s.send.clone()).collect();
            let receives: Vec<_> = self.streams.iter().filter(|s| s.to == index).map(|s| s.receive.clone()).collect();
            if !(sends.is_empty() && receives.is_empty()) {
                agent.tell(&ToAgent::Prepare { sends, receives })?;
                asked += 1;
            }
        }
        let answers = stations.answers(asked, "making ready", ANSWER, |station, message| match message {
            FromAgent::Ready { ends, clocks } => Some((station, ends, clocks)),
            _ => None,
        })?;
        for (station, ends, clocks) in answers {
            self.clocks.insert(station, clocks);
            self.ready.extend(ends.into_iter().map(|end| ((end.stream, end.side), end)));
        }
        Ok(())
    }

    /// Sends warm-up packets until every stamp that is wanted flows, or the stream's limit has passed.
    fn warm_up(&mut self, stations: &mut Stations, stop: &AtomicBool) -> Result<(), TrialError> {
        for (i, ordered) in self.streams.iter().enumerate() {
            let stream = self.number(i);
            let limit = Duration::from_nanos(ordered.stream.warmup.0.max(0) as u64);
            let wants = |side: Side, point: Point| {
                let absent =
                    self.ready.get(&(stream, side)).is_some_and(|end| end.absent.iter().any(|(p, _)| *p == point));
                ordered.stream.stamps.contains(&point) && !absent
            };
            let (tx_wanted, rx_wanted) = (wants(Side::Tx, Point::TxKernel), wants(Side::Rx, Point::RxKernel));
            let began = Wall::now();
            let mut warm = WarmUp::default();
            // Busy polling can only be judged by a packet, so it takes one round at least.
            let judged = ordered.stream.rx.wait == Wait::Busypoll;
            while !warm.flowed && !stop.load(Relaxed) && (began.elapsed() < limit || (judged && warm.sent == 0)) {
                let order = ToAgent::WarmUp { stream, count: WARM_UP_PACKETS, apart: WARM_UP_APART };
                stations.agents[ordered.from].tell(&order)?;
                let stamped = stations.answers(1, "warming up", ANSWER, |_, message| match message {
                    FromAgent::Warmed { stream: s, stamped } if s == stream => Some(stamped),
                    _ => None,
                })?[0];
                stations.agents[ordered.to].tell(&ToAgent::WarmStatus { stream })?;
                let (received, unstamped, last_stamped, napi_id) =
                    stations.answers(1, "warming up", ANSWER, |_, message| match message {
                        FromAgent::WarmStatus { stream: s, received, unstamped, last_stamped, napi_id }
                            if s == stream =>
                        {
                            Some((received, unstamped, last_stamped, napi_id))
                        }
                        _ => None,
                    })?[0];
                if judged && received > 0 && napi_id == 0 {
                    return Err(TrialError::CannotDo(format!(
                        "stream `{}`: wait = \"busypoll\" would be \"block\" in disguise: packets on {} come without a \
                         NAPI context (SO_INCOMING_NAPI_ID is 0), so there is no device to poll; use \"block\", \"poll\" \
                         or \"spin\", or a device whose driver has NAPI",
                        ordered.stream.name, ordered.receive.device
                    )));
                }
                warm.sent += WARM_UP_PACKETS;
                warm.received = received;
                warm.without_rx_stamp = if rx_wanted { unstamped } else { 0 };
                if tx_wanted {
                    warm.without_tx_stamp += WARM_UP_PACKETS.saturating_sub(stamped);
                }
                let tx_flows = !tx_wanted || stamped >= WARM_UP_PACKETS;
                warm.flowed = received > 0 && tx_flows && (!rx_wanted || last_stamped);
            }
            warm.took_ns = began.elapsed().as_nanos() as i64;
            self.warmups[i] = warm;
        }
        Ok(())
    }

    fn start(&mut self, stations: &mut Stations) -> Result<(), AgentError> {
        let now = clock::now::<Tai>();
        for side in [Side::Rx, Side::Tx] {
            for (i, ordered) in self.streams.iter().enumerate() {
                let (stream, cycle) = (self.number(i), ordered.stream.cycle);
                let lead = Nanos(i64::from(schedule::lead_in(cycle)) * cycle.0) + ordered.stream.tx.advance;
                let base = schedule::base_time(now + AHEAD + lead, cycle, ordered.phase);
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
        let (mut sending, mut receiving) = (self.streams.len(), self.streams.len());
        let mut told_stop = false;
        let longest = self.streams.iter().map(|s| s.stream.cycle.0).max().unwrap_or(0);
        let patience = ANSWER + Duration::from_nanos(2 * longest.max(0) as u64);
        let mut last_word = Wall::now();
        let mut counts = BTreeMap::new();
        while sending + receiving > 0 {
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
                    sending -= 1;
                    last_word = Wall::now();
                    let ordered = self.streams.iter().find(|s| s.send.order.stream == stream);
                    if let Some(ordered) = ordered {
                        let linger = Nanos(LINGER.0.max(4 * ordered.stream.cycle.0.min(1_000_000_000)));
                        let finish = ToAgent::Finish { stream, expected: packets, linger };
                        stations.agents[ordered.to].tell(&finish)?;
                    }
                }
                Some((_, FromAgent::Done { side: Side::Rx, .. })) => {
                    receiving -= 1;
                    last_word = Wall::now();
                }
                Some((station, FromAgent::Failed(what))) => {
                    return Err(AgentError::Refused { station: stations.agents[station].station().to_owned(), what });
                }
                Some(_) => {}
            }
            if last_word.elapsed() > patience {
                let station = self.streams.first().map(|s| s.stream.from.clone()).unwrap_or_default();
                return Err(AgentError::Silent { station, seconds: patience.as_secs(), doing: "the trial runs" });
            }
        }
        Ok(())
    }

    fn collect_sent(&self, stations: &mut Stations, i: usize) -> Result<Half<SenderHalf, SenderCounters>, AgentError> {
        let stream = self.number(i);
        stations.agents[self.streams[i].from].tell(&ToAgent::Collect { stream, side: Side::Tx })?;
        let mut half = SenderHalf::default();
        let mut taken = stations.answers(1, "handing over samples", ANSWER, |_, message| match message {
            FromAgent::SenderPiece(piece) => {
                half.append(piece);
                None
            }
            FromAgent::Sent { counters, thread, clocks } => Some((counters, thread, clocks)),
            _ => None,
        })?;
        let (counters, thread, clocks) = taken.remove(0);
        Ok((half, counters, thread, clocks))
    }

    #[allow(clippy::type_complexity)]
    fn collect_arrived(
        &self,
        stations: &mut Stations,
        i: usize,
    ) -> Result<
        (Half<Vec<tardy_engine::receiver::Arrival>, ReceiverCounters>, Option<tardy_model::trial::SpinGaps>),
        AgentError,
    > {
        let stream = self.number(i);
        stations.agents[self.streams[i].to].tell(&ToAgent::Collect { stream, side: Side::Rx })?;
        let mut arrivals = Vec::new();
        let mut taken = stations.answers(1, "handing over samples", ANSWER, |_, message| match message {
            FromAgent::ArrivalPiece(mut piece) => {
                arrivals.append(&mut piece);
                None
            }
            FromAgent::Arrived { counters, gaps, thread, clocks } => Some((counters, gaps, thread, clocks)),
            _ => None,
        })?;
        let (counters, gaps, thread, clocks) = taken.remove(0);
        Ok(((arrivals, counters, thread, clocks), gaps))
    }

    fn collect(&self, stations: &mut Stations, i: usize) -> Result<Ran, AgentError> {
        let sent = self.collect_sent(stations, i)?;
        let (arrived, gaps) = self.collect_arrived(stations, i)?;
        Ok(self.both(i, sent, arrived, gaps))
    }

    fn both(
        &self,
        i: usize,
        sent: Half<SenderHalf, SenderCounters>,
        arrived: Half<Vec<tardy_engine::receiver::Arrival>, ReceiverCounters>,
        gaps: Option<tardy_model::trial::SpinGaps>,
    ) -> Ran {
        let (stream, ordered) = (self.number(i), &self.streams[i]);
        let ends = [Side::Tx, Side::Rx].map(|side| self.ready.get(&(stream, side)));
        let absent = ends.iter().flatten().flat_map(|end| end.absent.iter().cloned()).collect();
        let before = |station: usize, after: ClockReading| self.clocks.get(&station).copied().unwrap_or(after);
        let halves = Halves {
            sent: sent.0,
            tx_counters: sent.1,
            tx_thread: sent.2,
            tx_clocks: [before(ordered.from, sent.3), sent.3],
            arrivals: arrived.0,
            rx_counters: arrived.1,
            rx_thread: arrived.2,
            rx_clocks: [before(ordered.to, arrived.3), arrived.3],
            gaps,
            absent,
            error_queue_bytes: ends[0].map_or(0, |end| end.error_queue_bytes),
            warmup: self.warmups[i],
        };
        Ran { base: self.bases[i].unwrap_or(Instant::from_ns(0)), halves }
    }

    /// What the stations that still answer had recorded of a stream; `None` if it never began.
    fn salvage(&self, stations: &mut Stations, i: usize) -> Option<Ran> {
        self.bases[i]?;
        let sent = self.collect_sent(stations, i);
        let arrived = self.collect_arrived(stations, i);
        if sent.is_err() && arrived.is_err() {
            return None;
        }
        let clocks = clock::read_clocks();
        let thread = |side| self.ready.get(&(self.number(i), side)).map(|end| end.thread.clone()).unwrap_or_default();
        let (arrived, gaps) =
            arrived.unwrap_or_else(|_| ((Vec::new(), ReceiverCounters::default(), thread(Side::Rx), clocks), None));
        let sent = sent.unwrap_or_else(|_| {
            // The sender's rows went with it; that these packets were sent is known from their arrival alone.
            let rows = arrived.0.iter().map(|arrival| arrival.seq + 1).max().unwrap_or(0);
            (SenderHalf::only_sent(rows), SenderCounters::default(), thread(Side::Tx), clocks)
        });
        Some(self.both(i, sent, arrived, gaps))
    }
}
