// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short trials around a measured one: what tx stamps add, and tardy's own exchange over the
//! measured path. The exchange is round trips whose packets the kernels of both ends stamp; where
//! the devices of both stamp the measured packets, it is packets each way that have their stamps.
//! It shows how far the clocks of two machines are apart without anything of ssh and of threads
//! that wake up in it, and another source that excludes it is wrong.

use super::under_way::Run;
use crate::agent::AgentError;
use crate::host::HostId;
use crate::host::clocks::{Compared, Exchange, Known, best};
use crate::host::ways::{OneWay, best_of_ways};
use crate::loads::Loads;
use crate::not_found::NotFound;
use crate::observer;
use crate::orders::{self, Turn, random_of};
use crate::placement::Placed;
use crate::plan::Plan;
use crate::run::RunError;
use crate::station::{Stations, host_of};
use crate::trial::{Broken, StreamHalves, TrialError};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use tardy_engine::halves;
use tardy_model::point::Point;
use tardy_model::port::Port;
use tardy_model::sample::Batch;
use tardy_model::stream::{CpuChoice, Kind, Launch, Policy, Reply, Rx, Stream, Tx, Wait};
use tardy_model::time::{Nanos, Offset, OffsetReading, OtherSource, Steering};
use tardy_model::trial::{ObserverRecord, StreamRecord};
use tardy_spec::experiment::{Cell, Setup};

/// Round trips of an exchange with each machine, or packets each way.
const PACKETS: u32 = 64;
/// From one packet to the next of one way.
const APART: Nanos = Nanos(1_000_000);
/// One that takes longer is lost.
const TIMEOUT: Nanos = Nanos(200_000_000);
/// Payload bytes, both ways.
const SIZE: u16 = 64;

/// Two hosts: this machine and another one, or two others, the one with the smaller number first.
pub(super) type Pair = [HostId; 2];

/// By how much the clock of the second host of a pair is ahead of that of the first, by the
/// exchange over the path: of those from which packets came back. `None` if a clock was set
/// meanwhile.
pub(super) type ByPath = BTreeMap<Pair, Option<PathReading>>;

/// A reading over the path, and of what it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathReading {
    reading: OffsetReading,
    packets: Packets,
    /// How the kernels of both hosts steered their clocks before it and after it.
    steered: [[Option<Steering>; 2]; 2],
}

/// What went over the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packets {
    RoundTrips,
    /// Packets each way that had the stamps of both devices.
    OfDevices,
    /// Packets each way, and not all had them.
    OneWay,
}

impl Packets {
    /// In words for the trial's record.
    fn method(self) -> String {
        match self {
            Packets::RoundTrips => format!("{PACKETS} round trips over the path, with the stamps of both kernels"),
            Packets::OfDevices => format!("{PACKETS} packets each way over the path, with the stamps of both devices"),
            Packets::OneWay => format!("{PACKETS} packets each way over the path, some with the kernels' stamps alone"),
        }
    }
}

impl Run<'_, '_> {
    /// Measures what tx stamps add, behind the first trial on a path, between hosts, by a port.
    pub(super) fn observe(
        &mut self,
        stations: &mut Stations,
        plan: &Plan,
        cell: &Cell,
        chosen: &[Placed],
    ) -> Result<Vec<ObserverRecord>, RunError> {
        let host = |station: &str| cell.setup.stations.get(station).map_or(HostId::HERE, |of| of.host);
        let of_stream = |stream: &Stream| (stream.port, host(&stream.from), host(&stream.to));
        let here = (cell.setup.path.clone(), cell.setup.streams.iter().map(of_stream).collect());
        if self.stopped() || self.observed.contains(&here) {
            return Ok(Vec::new());
        }
        if !observer::can_measure(&cell.setup) {
            return Ok(Vec::new());
        }
        self.observed.push(here);
        let mut random = random_of(!self.experiment.seed, &cell.id, 0);
        had(observer::measure(stations, plan, &cell.setup, chosen, &mut random, self.options.stop))
    }

    /// Compares the clocks of machines that are reached over ssh with this one's, over the path,
    /// and those of two such machines between which a stream goes; `is_behind` the trial or before
    /// it. Nothing of a pair that the path does not join, or from which no packet came back.
    pub(super) fn exchange(
        &mut self,
        stations: &mut Stations,
        plan: &Plan,
        turn: &Turn<'_>,
        is_behind: bool,
    ) -> Result<ByPath, RunError> {
        let remotes: BTreeSet<HostId> = self.experiment.remotes().into_keys().collect();
        let pairs = pairs(&turn.cell.setup, &remotes)?.into_iter();
        let pairs: BTreeSet<Pair> =
            pairs.filter(|pair| !self.unanswered.contains(&(turn.cell.id.clone(), *pair))).collect();
        let (with_here, of_others): (BTreeSet<Pair>, BTreeSet<Pair>) =
            pairs.iter().partition(|pair| pair.contains(&HostId::HERE));
        let mut all = Exchanged::default();
        // Apart, because one that cannot be made ends the others with it: one that is refused is
        // then asked for alone, and so is each of the others.
        let (mut left, mut n) = (vec![of_others, with_here], 0);
        while let Some(pairs) = left.pop() {
            let setup = exchanging(&turn.cell.setup, plan, &pairs).filter(|_| !self.stopped());
            let Some(setup) = setup else { continue };
            // A packet that comes late from the one before is none of this one's.
            let number = turn.n | u32::from(is_behind) << 31 | (n & 0x7f) << 24;
            n += 1;
            let mut random = random_of(!self.experiment.seed, &turn.cell.id, number);
            match by_path(stations, plan, &setup, &mut random, self.options.stop) {
                // The measured streams may take another port and other stations, and need none of
                // this.
                Err(Broken {
                    error: TrialError::NotFound(_) | TrialError::Agent(AgentError::Refused { .. }), ..
                }) => left.extend(pairs.iter().filter(|_| pairs.len() > 1).map(|pair| BTreeSet::from([*pair]))),
                result => {
                    let Exchanged { found, silent } = had(result)?;
                    all.found.extend(found);
                    all.silent.extend(silent);
                }
            }
        }
        // Where nothing came back, a firewall may let only the measured streams pass, and each
        // question costs its whole timeout. What was not asked is asked again.
        self.unanswered.extend(all.silent.into_iter().map(|pair| (turn.cell.id.clone(), pair)));
        Ok(all.found)
    }
}

/// What a short trial came to: nothing if a port cannot do it, as in the measured one.
fn had<T: Default>(result: Result<T, Broken>) -> Result<T, RunError> {
    match result {
        Ok(had) => Ok(had),
        Err(Broken { error: TrialError::CannotDo(_) | TrialError::Elsewhere { .. }, .. }) => Ok(T::default()),
        Err(Broken { error: TrialError::NotFound(error), .. }) => Err(error.into()),
        Err(Broken { error: TrialError::Agent(error), .. }) => Err(error.into()),
    }
}

/// Whose clocks are compared: this machine's with that of each of `remotes`, and those of two of
/// them between which a stream goes.
fn pairs(setup: &Setup, remotes: &BTreeSet<HostId>) -> Result<BTreeSet<Pair>, NotFound> {
    let mut pairs: BTreeSet<Pair> = remotes.iter().map(|host| [HostId::HERE, *host]).collect();
    for stream in &setup.streams {
        let ends = [host_of(setup, &stream.from)?, host_of(setup, &stream.to)?];
        if ends[0] != ends[1] && ends.iter().all(|host| remotes.contains(host)) {
            pairs.insert(in_order(ends));
        }
    }
    Ok(pairs)
}

fn in_order([one, other]: Pair) -> Pair {
    [one.min(other), one.max(other)]
}

/// The set-up with an exchange between each of these pairs and nothing else; `None` where there is
/// none.
fn exchanging(setup: &Setup, plan: &Plan, pairs: &BTreeSet<Pair>) -> Option<Setup> {
    if setup.builds_nothing() {
        return None;
    }
    let at = |host: HostId| setup.stations.iter().filter(move |(_, of)| of.host == host).map(|(name, _)| name);
    let joined = |pair: &Pair| -> Vec<Stream> {
        let mut ends = at(pair[0]).flat_map(|from| at(pair[1]).map(move |to| (from, to)));
        let Some((from, to)) = ends.find(|(from, to)| plan.ends.between(from, to, None).is_ok()) else {
            return Vec::new();
        };
        match have_devices_stamps(setup, *pair) {
            true => [(from, to), (to, from)].into_iter().filter_map(|(from, to)| one_way(setup, from, to)).collect(),
            false => question(setup, from, to).into_iter().collect(),
        }
    };
    let streams: Vec<Stream> = pairs.iter().flat_map(joined).collect();
    (!streams.is_empty()).then(|| Setup { streams, loads: Vec::new(), ..setup.clone() })
}

/// True if a measured stream between the two hosts is stamped by the devices of both: they are set
/// to do so then. Nothing is set for the exchange's sake.
fn have_devices_stamps(setup: &Setup, pair: Pair) -> bool {
    let host = |station: &str| setup.stations.get(station).map(|of| of.host);
    setup.streams.iter().any(|stream| {
        let joins = host(&stream.from).zip(host(&stream.to)).is_some_and(|(from, to)| in_order([from, to]) == pair);
        joins && [Point::TxHw, Point::RxHw].iter().all(|point| stream.stamps.contains(point))
    })
}

/// The packets of one way of an exchange by devices' stamps.
fn one_way(setup: &Setup, from: &str, to: &str) -> Option<Stream> {
    let stamps = [LEFT, CAME].into_iter().flatten().collect();
    Some(Stream {
        name: format!("clock of {to} by {from}"),
        kind: Kind::Cyclic,
        cycle: APART,
        stamps,
        ..question(setup, from, to)?
    })
}

/// The round trips of an exchange. They take the way of the station's own stream, with its
/// priority.
fn question(setup: &Setup, from: &str, to: &str) -> Option<Stream> {
    let own = setup.streams.iter().find(|stream| [&stream.from, &stream.to].iter().any(|at| at.as_str() == to));
    let like = own.or(setup.streams.first())?;
    let (cpu, policy, wait) = (CpuChoice::Any, Policy::Other, Wait::Block);
    Some(Stream {
        name: format!("clock of {to} at {from}"),
        from: from.to_owned(),
        to: to.to_owned(),
        path: None,
        kind: Kind::Pingpong,
        port: Port::Udp,
        cycle: Nanos::ZERO,
        count: PACKETS,
        size: SIZE,
        tag: like.tag.filter(|_| like.port == Port::Udp),
        launch: Launch::None,
        triggered: Default::default(),
        deadline: TIMEOUT,
        max_loss: 1.0,
        stamps: STAMPED.into_iter().flatten().collect(),
        stamps_named: false,
        metrics: Vec::new(),
        lead: None,
        tx: Tx { cpu, policy, advance: Nanos::ZERO, spin: Nanos::ZERO, wait, queue: None, ..like.tx.clone() },
        rx: Rx {
            port: Port::Udp,
            cpu,
            core: None,
            policy,
            wait,
            queue: None,
            object: None,
            hints: Vec::new(),
            ..like.rx.clone()
        },
        reply: Reply { size: SIZE, cpu, policy, in_flight: 1, timeout: TIMEOUT, nodelay: true },
        ..like.clone()
    })
}

/// The stamps of a round trip in their order: of each, the kernel's, and the program's where the
/// device has none. The program's lies farther from the wire, so the bound is wider and still
/// holds.
const STAMPED: [[Point; 2]; 4] = [
    [Point::TxKernel, Point::Send],
    [Point::RxKernel, Point::Receive],
    [Point::ReplyTxKernel, Point::ReplySend],
    [Point::ReplyRxKernel, Point::ReplyReceive],
];

/// The round trips that came back.
fn exchanges(batch: &Batch) -> Vec<Exchange> {
    let of_row = |row: usize| {
        let at = |points: [Point; 2]| points.into_iter().find_map(|point| batch.stamp_ns(row, point));
        let [asked_ns, reached_ns, returned_ns, answered_ns] = STAMPED.map(at);
        Some(Exchange {
            asked_ns: asked_ns?,
            reached_ns: reached_ns?,
            returned_ns: returned_ns?,
            answered_ns: answered_ns?,
            counters: None,
        })
    };
    (0..batch.len()).filter_map(of_row).collect()
}

/// The stamps of a packet of one way, at either end; the nearest to the wire first.
const LEFT: [Point; 3] = [Point::TxHw, Point::TxKernel, Point::Send];
const CAME: [Point; 3] = [Point::RxHw, Point::RxKernel, Point::Receive];

/// The packets of one way that came, and whether all of them had the stamps of both devices. Of
/// each, the stamps nearest to the wire count.
fn ways(batch: &Batch, record: &StreamRecord) -> (Vec<OneWay>, bool) {
    let of_clocks = record.tx_conversion.bound_ns.saturating_add(record.rx_conversion.bound_ns);
    let of_devices = [(Point::TxHw, record.tx_hw_bound_ns), (Point::RxHw, record.rx_hw_bound_ns)];
    let at = |row, points: [Point; 3]| points.into_iter().find_map(|at| Some((at, batch.stamp_ns(row, at)?)));
    let of_row = |row: usize| {
        let ((left, left_ns), (came, came_ns)) = (at(row, LEFT)?, at(row, CAME)?);
        let own = of_devices.iter().filter(|(point, _)| [left, came].contains(point)).map(|(_, bound_ns)| *bound_ns);
        let bound_ns = own.clone().fold(of_clocks, i64::saturating_add);
        Some((OneWay { left_ns, came_ns, bound_ns }, own.count() == of_devices.len()))
    };
    let (ways, whose): (Vec<OneWay>, Vec<bool>) = (0..batch.len()).filter_map(of_row).unzip();
    (ways, whose.into_iter().all(|by_devices| by_devices))
}

/// What an exchange came to.
#[derive(Default)]
struct Exchanged {
    found: ByPath,
    /// Pairs that were asked and from which nothing came back.
    silent: Vec<Pair>,
}

/// Runs the exchange. Nothing is asked if the clocks cannot be compared at all.
///
/// # Errors
/// As of any trial.
fn by_path(
    stations: &mut Stations,
    plan: &Plan,
    setup: &Setup,
    random: &mut Pcg64Mcg,
    stop: &AtomicBool,
) -> Result<Exchanged, Broken> {
    // The trial asks the same, and says why it cannot be asked.
    let (compared, failed) = stations.compare_clocks();
    if !failed.is_empty() {
        return Ok(Exchanged::default());
    }
    let about: BTreeMap<HostId, Compared> = compared.into_values().map(|of| (of.host, of)).collect();
    let unpinned = Placed { tx: None, rx: None, reply: None };
    let (_, ordered) = orders::orders(setup, plan, &vec![unpinned; setup.streams.len()], random)?;
    let mut loads = Loads::of(setup, plan, &[], random)?;
    // What is joined by one offset is off by one number, whatever that is.
    let run = |stations: &mut Stations| stations.run(&ordered, &mut loads, stop, None, &mut |_, _| {});
    let ran = stations.with_known_clocks(Known(about.clone()), run)?;
    let mut all = Exchanged::default();
    // The stamps of both are in this machine's clock by these.
    let about_ns = |host: HostId| about.get(&host).map_or(0, |of| of.reading.ahead_ns);
    let whole = |[from, to]: Pair, more: OffsetReading| {
        let ahead_ns = more.ahead_ns.saturating_add(about_ns(to)).saturating_sub(about_ns(from));
        OffsetReading { at_tai_ns: more.at_tai_ns.saturating_add(about_ns(from)), ahead_ns, ..more }
    };
    let mut each_way: BTreeMap<Pair, [(Vec<OneWay>, bool); 2]> = BTreeMap::new();
    let mut steered: BTreeMap<HostId, [Option<Steering>; 2]> = BTreeMap::new();
    for (ordered, ran) in ordered.iter().zip(&ran) {
        let pair = [host_of(setup, &ordered.stream.from)?, host_of(setup, &ordered.stream.to)?];
        let (batch, record) = halves::join(&ordered.stream, ran.base, &ran.halves);
        for (host, clocks) in pair.into_iter().zip([record.tx_clocks, record.rx_clocks]) {
            steered.insert(host, clocks.map(|of| of.steering));
        }
        let steered = pair.map(|host| steered.get(&host).copied().unwrap_or_default());
        if !ordered.stream.kind.is_answered() {
            let is_back = in_order(pair) != pair;
            each_way.entry(in_order(pair)).or_default()[usize::from(is_back)] = ways(&batch, &record);
            continue;
        }
        let exchanges = exchanges(&batch);
        if exchanges.is_empty() {
            all.silent.push(pair);
            continue;
        }
        let reading = best(&exchanges).map(|more| {
            let of_stamps = [record.tx_conversion.bound_ns, record.rx_conversion.bound_ns];
            let bound_ns = of_stamps.into_iter().fold(more.bound_ns, i64::saturating_add);
            let reading = whole(pair, OffsetReading { bound_ns, ..more });
            PathReading { reading, packets: Packets::RoundTrips, steered }
        });
        all.found.insert(pair, reading);
    }
    for (pair, [(there, by_devices_there), (back, by_devices_back)]) in each_way {
        if there.is_empty() || back.is_empty() {
            all.silent.push(pair);
            continue;
        }
        let packets = if by_devices_there && by_devices_back { Packets::OfDevices } else { Packets::OneWay };
        let steered = pair.map(|host| steered.get(&host).copied().unwrap_or_default());
        let reading =
            best_of_ways(&there, &back).map(|more| PathReading { reading: whole(pair, more), packets, steered });
        all.found.insert(pair, reading);
    }
    Ok(all)
}

/// Adds the exchanges before and behind a trial to the offsets of its streams.
///
/// # Errors
/// If a stream names a station that is not there.
pub(super) fn add(setup: &Setup, ran: &mut [StreamHalves], before: &ByPath, behind: &ByPath) -> Result<(), RunError> {
    let of_path = |pair: Pair| {
        let [first, last] = [before, behind].map(|found| found.get(&pair).copied().flatten());
        first.zip(last).map(|(first, last)| {
            // After the trial a device may have stopped stamping.
            let packets = if first.packets == last.packets { first.packets } else { Packets::OneWay };
            let (method, is_reported) = (packets.method(), false);
            OtherSource { method, first: first.reading, last: last.reading, is_reported }
        })
    };
    for (stream, ran) in setup.streams.iter().zip(ran) {
        let (from, to) = (host_of(setup, &stream.from)?, host_of(setup, &stream.to)?);
        let offsets = &mut ran.halves.offsets;
        for (host, offset) in [(from, &mut offsets.tx), (to, &mut offsets.rx)] {
            if let (Some(known), Some(of_path)) = (offset.as_mut(), of_path([HostId::HERE, host])) {
                *known = std::mem::take::<Offset>(known).with(of_path);
            }
        }
        for found in [before, behind] {
            let of_pair = |pair: Pair| {
                let of = found.get(&pair).copied().flatten()?;
                Some(pair.into_iter().zip(of.steered).flat_map(|(host, both)| both.map(|of| (host, of))))
            };
            let pairs =
                BTreeSet::from([in_order([HostId::HERE, from]), in_order([HostId::HERE, to]), in_order([from, to])]);
            ran.steered.extend(pairs.into_iter().filter_map(of_pair).flatten());
        }
        ran.pair = of_path(in_order([from, to])).filter(|_| from != HostId::HERE && to != HostId::HERE).map(|of| {
            let turned = |reading: OffsetReading| if from <= to { reading } else { reading.turned() };
            OtherSource { first: turned(of.first), last: turned(of.last), ..of }
        });
    }
    Ok(())
}
