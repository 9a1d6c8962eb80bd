// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial's record: what is read from the hosts just before the trial and just after it, which of
//! their tasks are kept, and the halves of the streams, joined and handed to the sink. And the
//! ruler, of which a record has the wake-ups.

use super::keepers::{ByHost, Reported};
use super::under_way::{Later, Run};
use crate::host::ask::{Observe, Observed};
use crate::host::hosts::Hosts;
use crate::host::{Away, CpuId, HostId, clocks};
use crate::idle;
use crate::machine::FactsByHost;
use crate::not_found::NotFound;
use crate::orders::Turn;
use crate::path::Ends;
use crate::placement::{Placed, thread_on};
use crate::plan::Plan;
use crate::run::{RunError, What};
use crate::shaper::{Readings, launching};
use crate::softirq::Watch;
use crate::station::{StationId, Stations, host_of};
use crate::trial::{Outside, StreamHalves};
use std::collections::{BTreeMap, BTreeSet};
use tardy_engine::order::RulerOrder;
use tardy_engine::{halves, matcher};
use tardy_host::state::Moment;
use tardy_host::timekeeper::{MOST_KEPT, PtpSocket, Reports};
use tardy_model::load::{LoadRecord, SideHosts};
use tardy_model::machine::{MachineState, RulerRecord};
use tardy_model::passed::Passing;
use tardy_model::path::DeviceClock;
use tardy_model::placement::ThreadRecord;
use tardy_model::point::{Point, Source};
use tardy_model::qdisc::{LaunchRecord, ShaperRecord};
use tardy_model::sample::Batch;
use tardy_model::stream::{Kind, Stream};
use tardy_model::time::{ClockReading, Nanos, Offset, Steering};
use tardy_model::trial::{ObserverRecord, OwnTraffic, StreamRecord, TrialRecord};
use tardy_model::xdp::Inspection;
use tardy_spec::experiment::Setup;

/// Looks at the hosts around one trial.
pub(super) struct Around<'a, 'r, 'h> {
    hosts: &'r mut Hosts<'h>,
    watch: Watch<'a>,
    readings: Readings<'a>,
    /// Programs of the user's are among the loads.
    programs: bool,
    /// Some machine is reached over ssh: what keeps the machines' clocks?
    keepers: bool,
    /// Sockets of ptp4l that observe the clocks.
    ptp: &'a [(HostId, PtpSocket)],
    /// What the hosts had done, of each moment that is over.
    states: Vec<BTreeMap<HostId, MachineState>>,
    /// What kept their clocks at each of these moments.
    reported: Vec<ByHost>,
}

impl<'a, 'r, 'h> Around<'a, 'r, 'h> {
    /// # Errors
    /// If a stream or a load names a station that is not there, or has no place.
    pub(super) fn new(
        hosts: &'r mut Hosts<'h>,
        setup: &'a Setup,
        (chosen, found): (&[Placed], &FactsByHost),
        plan: &'a Plan,
        (programs, keepers): (bool, bool),
    ) -> Result<Self, RunError> {
        let watch = Watch::new(setup, chosen, &plan.ends, found)?;
        let readings = Readings::new(setup, &plan.ends, found)?;
        let ptp = &plan.ptp[..];
        Ok(Around { hosts, watch, readings, programs, keepers, ptp, states: Vec::new(), reported: Vec::new() })
    }
}

impl Outside for Around<'_, '_, '_> {
    fn look(&mut self) -> Result<(), (HostId, Away)> {
        self.read(true)
    }

    fn end_leftovers(&mut self) {
        self.hosts.end_leftovers();
    }
}

impl<'a> Around<'a, '_, '_> {
    /// Reads the state of all hosts; `whole` also at what tardy watches over in the trial itself.
    fn read(&mut self, whole: bool) -> Result<(), (HostId, Away)> {
        let moment = if self.states.is_empty() { Moment::Before } else { Moment::Behind };
        // That takes a while, which belongs to no machine's state: it comes before all states of
        // the beginning, and after all of the end.
        let before = if whole && moment == Moment::Before { self.reports()? } else { BTreeMap::new() };
        let (watch, readings, programs) = (&self.watch, &self.readings, self.programs);
        let observed = self.hosts.observe(|host| Observe {
            moment,
            programs,
            polled: if whole { watch.polled(host) } else { Vec::new() },
            commands: if whole { readings.commands(host) } else { Vec::new() },
            keepers: false,
            ptp: Vec::new(),
        })?;
        let mut states = BTreeMap::new();
        for (host, Observed { state, napi, machine_threads, says, .. }) in observed {
            if whole {
                self.watch.saw(moment, host, &napi);
                // A virtual machine's own kernel knows nothing of this host's threads.
                if host == HostId::HERE {
                    self.watch.saw_machines(moment, machine_threads);
                }
                self.readings.take(host, says);
            }
            states.insert(host, state);
        }
        self.states.push(states);
        let reported = if whole && moment == Moment::Behind { self.reports()? } else { before };
        self.reported.push(reported);
        Ok(())
    }

    /// What keeps the clocks of all hosts, as it reports now.
    fn reports(&mut self) -> Result<ByHost, (HostId, Away)> {
        let (ptp, keepers) = (self.ptp, self.keepers);
        if !keepers && ptp.is_empty() {
            return Ok(BTreeMap::new());
        }
        let of_host = |host: HostId| {
            let there = ptp.iter().filter(|(at, _)| *at == host);
            there.map(|(_, socket)| socket.clone()).collect::<Vec<PtpSocket>>()
        };
        let what = |host: HostId| Observe { keepers, ptp: of_host(host), ..Observe::nothing() };
        let observed = self.hosts.observe(what)?;
        let most = |mut of: Observed| {
            of.kept.truncate(MOST_KEPT);
            of.syncs.truncate(MOST_KEPT);
            Reports { kept: of.kept, syncs: of.syncs }
        };
        Ok(observed.into_iter().map(|(host, of)| (host, most(of))).collect())
    }

    /// The trial is over, however it ended. One that broke before its end has states all the same,
    /// of now. A host that cannot be asked any more has none; the trial itself says that it is
    /// gone.
    ///
    /// # Errors
    /// If this machine itself cannot be asked.
    pub(super) fn ended(mut self) -> Result<(States, Watch<'a>, Readings<'a>), Away> {
        while self.states.len() < 2 {
            if self.read(false).is_err() {
                let moment = if self.states.is_empty() { Moment::Before } else { Moment::Behind };
                let (polled, commands) = (Vec::new(), Vec::new());
                let what =
                    Observe { moment, programs: self.programs, polled, commands, keepers: false, ptp: Vec::new() };
                let here = self.hosts.own().observe(&what)?.state;
                self.states.push(BTreeMap::from([(HostId::HERE, here)]));
                self.reported.push(BTreeMap::new());
            }
        }
        let mut both = self.states.into_iter();
        let [mut before, mut after] = [both.next().unwrap_or_default(), both.next().unwrap_or_default()];
        let mut of = |host| Some([before.remove(&host)?, after.remove(&host)?]);
        let here = of(HostId::HERE);
        let ids: Vec<HostId> = self.hosts.ids().into_iter().skip(1).collect();
        let others = ids.into_iter().filter_map(|id| Some((id, (self.hosts.name(id)?.to_owned(), of(id)?)))).collect();
        let gone = || Away { host: HostId::HERE.to_string(), says: "its state was not read".to_owned() };
        let here = here.ok_or_else(gone)?;
        let mut of = self.reported.into_iter();
        let of = [of.next().unwrap_or_default(), of.next().unwrap_or_default()];
        let observing = self.ptp.iter().map(|(host, _)| *host).collect();
        let at_tai_ns = [0, 1].map(|moment: usize| here[moment].clocks.tai_ns);
        Ok((States { here, others, reported: Reported { of, at_tai_ns, observing } }, self.watch, self.readings))
    }
}

/// CPUs on which measuring threads were seen, or may have been, of each host that has such a
/// thread; without those of a host of one of whose threads that is not known.
#[derive(Debug, Default)]
struct Measuring {
    cpus: BTreeSet<CpuId>,
    unknown: BTreeSet<HostId>,
}

impl Measuring {
    /// True if a measuring thread may have been on it.
    fn may_be_on(&self, cpu: CpuId) -> bool {
        self.unknown.contains(&cpu.host) || self.cpus.contains(&cpu)
    }
}

/// Where the threads of these streams were.
///
/// # Errors
/// If a stream names a station that is not there.
fn cpus_of(setup: &Setup, records: &BTreeMap<String, StreamRecord>) -> Result<Measuring, NotFound> {
    let mut measuring = Measuring::default();
    for stream in &setup.streams {
        // One that did not run has none.
        let Some(record) = records.get(&stream.name) else { continue };
        let [from, to] = [host_of(setup, &stream.from)?, host_of(setup, &stream.to)?];
        let reply = record.reply.as_ref().and_then(|reply| reply.thread.as_ref());
        let threads = [(from, &record.tx), (to, &record.rx)].into_iter().chain(reply.map(|thread| (from, thread)));
        for (host, ThreadRecord { cpus_seen, affinity, .. }) in threads {
            match [cpus_seen, affinity].into_iter().find(|cpus| !cpus.is_empty()) {
                Some(seen) => measuring.cpus.extend(seen.iter().map(|cpu| CpuId { host, cpu: *cpu })),
                None => drop(measuring.unknown.insert(host)),
            }
        }
    }
    Ok(measuring)
}

/// Forgets the tasks of a host that did not run in the trial, and those that ran on CPUs of no
/// measuring thread: what is kept are those that a verdict may name. A run folder is passed on, and
/// what else runs on a machine is nobody's business.
fn keep_only_named(host: HostId, [before, after]: [&mut MachineState; 2], measuring: &Measuring) {
    let is_named = |cpu: u32| measuring.may_be_on(CpuId { host, cpu });
    after.tasks.retain(|tid, task| {
        let slept =
            before.tasks.get(tid).is_some_and(|earlier| (earlier.start, earlier.run_ns) == (task.start, task.run_ns));
        !slept && is_named(task.cpu)
    });
    before.tasks.retain(|tid, _| after.tasks.contains_key(tid));
    if let Some(ended) = &mut after.ended {
        ended.tasks.retain(|task| is_named(task.cpu));
    }
}

/// The same of a copy: its threads are all on this host.
pub(super) fn keep_only_named_of<'t>(threads: impl Iterator<Item = &'t ThreadRecord>, states: [&mut MachineState; 2]) {
    let host = HostId::HERE;
    let seen = threads.flat_map(|thread| &thread.cpus_seen).map(|cpu| CpuId { host, cpu: *cpu });
    keep_only_named(host, states, &Measuring { cpus: seen.collect(), unknown: BTreeSet::new() });
}

/// The states of other hosts by name, with the tasks that a verdict may name.
fn by_name(
    others: BTreeMap<HostId, (String, [MachineState; 2])>,
    measuring: &Measuring,
) -> BTreeMap<String, [MachineState; 2]> {
    let named = |(host, (name, [mut before, mut after])): (HostId, (String, [MachineState; 2]))| {
        keep_only_named(host, [&mut before, &mut after], measuring);
        (name, [before, after])
    };
    others.into_iter().map(named).collect()
}

/// Takes the packets of a stream from those that the queue disciplines of its end dropped: the
/// ones that they reported, and then those that the matcher finds by their launch times.
fn take_reported(left: &mut u64, batch: &mut Batch, record: &mut StreamRecord) {
    let reported = record.counters.launch_missed + record.counters.launch_invalid;
    *left = left.saturating_sub(reported);
    *left -= matcher::unreported(batch, record, *left);
}

/// What a trial has in addition to its streams.
#[derive(Default)]
pub(super) struct Beside<'a> {
    pub(super) loads: BTreeMap<String, LoadRecord>,
    pub(super) watch: Option<&'a Watch<'a>>,
    /// Where the path ends, if one was built.
    pub(super) ends: Option<&'a Ends>,
    pub(super) shapers: BTreeMap<String, ShaperRecord>,
    pub(super) observer: Vec<ObserverRecord>,
    pub(super) inspection: Option<Inspection>,
    /// What the devices inside the path counted in the trial.
    pub(super) passed: Option<Passing>,
    /// What tardy itself sent to other hosts and had from them meanwhile.
    pub(super) traffic: BTreeMap<HostId, OwnTraffic>,
}

impl<'a> Beside<'a> {
    /// Of a trial on a path that is built.
    pub(super) fn built(plan: &'a Plan, watch: &'a Watch<'a>) -> Beside<'a> {
        Beside { watch: Some(watch), ends: Some(&plan.ends), ..Beside::default() }
    }
}

/// What the machines had done before a trial and behind it.
pub(super) struct States {
    pub(super) here: [MachineState; 2],
    /// Other hosts, with their names.
    pub(super) others: BTreeMap<HostId, (String, [MachineState; 2])>,
    /// What kept the clocks of all.
    pub(super) reported: Reported,
}

impl States {
    /// By how much the rate of a host's clock differs among all that was read of it around a
    /// stream with these hosts, ppb.
    fn spread_ppb(&self, host: HostId, [from, to]: [HostId; 2], ran: &StreamHalves) -> i64 {
        let own = |is_its: bool, clocks: &[ClockReading; 2]| {
            clocks.map(|of| of.steering).into_iter().flatten().filter(move |_| is_its).map(Some)
        };
        let states = match host {
            HostId::HERE => Some(&self.here),
            _ => self.others.get(&host).map(|(_, states)| states),
        };
        let states = states.into_iter().flatten().map(|state| state.clocks.steering);
        let by_path = ran.steered.iter().filter(|(of, _)| *of == host).map(|(_, steering)| *steering);
        let ends = own(from == host, &ran.halves.tx_clocks).chain(own(to == host, &ran.halves.rx_clocks));
        Steering::spread_ppb(states.chain(by_path).chain(ends))
    }
}

/// What the ruler is to measure, and the names of the threads that it is done for.
type NamedThread = (RulerOrder, Vec<String>);

impl Run<'_, '_> {
    /// Measures the ruler for threads for which it was not measured yet: before their trials, or
    /// after them, of the stations that no path comes to `later`.
    pub(super) fn measure(
        &mut self,
        stations: &mut Stations,
        plan: &Plan,
        later: Option<&Later>,
    ) -> Result<(), RunError> {
        let after = later.is_some();
        let (mut orders, mut names) = (Vec::new(), Vec::new());
        let of_stations = stations.names();
        for (station, mut threads) in self.threads(plan)? {
            let name = of_stations.get(&station).cloned().unwrap_or_default();
            let host = plan.host(&name)?;
            let of = |order: &RulerOrder| (host, name.clone(), order.thread.clone(), after);
            let is_over = later.is_none_or(|later| !later.contains(&(name.clone(), host)));
            threads.retain(|(order, _)| is_over && !self.measured.contains(&of(order)));
            self.measured.extend(threads.iter().map(|(order, _)| of(order)));
            let (of_station, of_names): (Vec<RulerOrder>, Vec<Vec<String>>) = threads.into_iter().unzip();
            orders.push((station, of_station));
            names.extend(of_names);
        }
        if names.is_empty() {
            return Ok(());
        }
        let mut records = stations.measure(&orders)?;
        for (record, threads) in records.iter_mut().zip(names) {
            (record.after, record.threads) = (after, threads);
            record.host = self.hosts.name(plan.host(&record.station)?).map(str::to_owned);
        }
        self.tell(What::Ruler { records: records.clone() });
        self.ruler.extend(records);
        Ok(())
    }

    /// Every (CPU, policy) that a thread of any cell will have, by station, with the names of
    /// these threads.
    fn threads(&self, plan: &Plan) -> Result<BTreeMap<StationId, Vec<NamedThread>>, RunError> {
        let mut threads: BTreeMap<StationId, Vec<NamedThread>> = BTreeMap::new();
        for cell in self.experiment.cells.iter().filter(|cell| !cell.setup.builds_nothing()) {
            let chosen = self.placed(cell)?;
            for (stream, chosen) in cell.setup.streams.iter().zip(chosen) {
                let ends = [
                    ("tx", &stream.from, chosen.tx, stream.tx.policy),
                    ("rx", &stream.to, chosen.rx, stream.rx.policy),
                ];
                let reply = ("reply", &stream.from, chosen.reply, stream.reply.policy);
                let reply = Some(reply).filter(|_| stream.kind == Kind::Reflected);
                for (end, station, cpu, policy) in ends.into_iter().chain(reply) {
                    // A station of another cell's path, or one of that name on another host.
                    let Ok(at) = plan.station(station) else { continue };
                    let host = plan.host(station)?;
                    if host_of(&cell.setup, station)? != host {
                        continue;
                    }
                    let order = thread_on(host, cpu, policy)?;
                    let threads = threads.entry(at).or_default();
                    let name = format!("{}.{end}", stream.name);
                    let sends = end == "tx";
                    match threads.iter_mut().find(|(known, _)| known.thread == order) {
                        Some((known, names)) => {
                            known.sends |= sends;
                            if !names.contains(&name) {
                                names.push(name);
                            }
                        }
                        None => threads.push((RulerOrder { thread: order, sends }, vec![name])),
                    }
                }
            }
        }
        Ok(threads)
    }

    /// The ruler's figures of a thread like this one. Two threads that were granted the same may
    /// have asked for different policies: then the one of this name comes first.
    fn ruler_of(&self, setup: &Setup, station: &str, name: &str, thread: &ThreadRecord) -> Option<&RulerRecord> {
        let (cpu, policy) = (thread.cpu_asked, &thread.policy_granted);
        let host = self.hosts.name(host_of(setup, station).ok()?);
        let at = |ruler: &RulerRecord| ruler.station == station && ruler.host.as_deref() == host;
        let like = |ruler: &&RulerRecord| at(ruler) && ruler.cpu == cpu && ruler.policy == *policy;
        let its = |ruler: &&RulerRecord| ruler.threads.iter().any(|thread| thread == name);
        let mut all = self.ruler.iter().filter(like);
        all.clone().find(its).or_else(|| all.next())
    }

    /// Notes what a wake-up of each of the stream's threads waits by itself, by the ruler.
    fn note_wake_ups(&self, setup: &Setup, stream: &Stream, record: &mut StreamRecord) {
        let reply = record.reply.as_mut().and_then(|reply| reply.thread.as_mut());
        let ends = [("tx", &stream.from, &mut record.tx), ("rx", &stream.to, &mut record.rx)];
        for (end, station, thread) in ends.into_iter().chain(reply.map(|thread| ("reply", &stream.from, thread))) {
            let name = format!("{}.{end}", stream.name);
            thread.wake_wait_ns = self.ruler_of(setup, station, &name, thread).and_then(|ruler| ruler.wake_wait_ns);
        }
    }

    /// The loads' records with the hosts of their sides.
    fn with_hosts(
        &self,
        setup: &Setup,
        mut records: BTreeMap<String, LoadRecord>,
    ) -> Result<BTreeMap<String, LoadRecord>, NotFound> {
        let named = |station: &String| {
            let host = host_of(setup, station)?;
            Ok::<_, NotFound>(self.hosts.name(host).map(str::to_owned))
        };
        for load in &setup.loads {
            let Some(record) = records.get_mut(&load.name) else { continue };
            let to = load.to.as_ref().filter(|_| load.kind.has_peer());
            record.hosts = SideHosts { from: named(&load.from)?, to: to.map(named).transpose()?.flatten() };
        }
        Ok(records)
    }

    /// What records call the end by which a stream leaves.
    fn leaves_by(stream: &Stream, ends: Option<&Ends>) -> Result<String, NotFound> {
        match ends {
            Some(ends) => ends.label(ends.of_stream(stream)?[0]),
            None => Ok(stream.from.clone()),
        }
    }

    /// Adds to a stream's record what its halves do not know: whose clocks stamped, what the ruler
    /// measured of its threads, and who launches its packets.
    fn complete(
        &self,
        setup: &Setup,
        stream: &Stream,
        record: &mut StreamRecord,
        ends: Option<&Ends>,
    ) -> Result<(), RunError> {
        if setup.path.traits().clock == DeviceClock::Emulated
            && let Some(source) = record.sources.get_mut(&Point::TxHw)
        {
            *source = Source::Emulated;
        }
        let hosts = [host_of(setup, &stream.from)?, host_of(setup, &stream.to)?];
        clocks::name_hosts(&mut record.offsets, hosts, |host| self.hosts.name(host));
        self.note_wake_ups(setup, stream, record);
        let name = format!("{}.tx", stream.name);
        let timer = self.ruler_of(setup, &stream.from, &name, &record.tx).and_then(|ruler| ruler.timer_p99_9_ns);
        let release = self.found.at(setup, &stream.from)?.release.as_deref();
        let launching = launching::record(setup, stream, timer, release);
        record.launching = LaunchRecord { station: Self::leaves_by(stream, ends)?, ..launching };
        Ok(())
    }

    /// Joins the halves and hands the trial to the sink.
    pub(super) fn keep(
        &mut self,
        turn: &Turn<'_>,
        nonce: u64,
        states: States,
        failed: Option<String>,
        ran: Vec<(&Stream, Nanos, Option<StreamHalves>)>,
        beside: Beside<'_>,
    ) -> Result<(), RunError> {
        let (mut streams, mut records, mut first, mut is_cut) = (Vec::new(), BTreeMap::new(), None, false);
        // Packets that queue disciplines count as dropped. The code below subtracts those that
        // they report packet by packet.
        let mut unreported: BTreeMap<String, u64> =
            beside.shapers.iter().map(|(station, shaper)| (station.clone(), shaper.drops())).collect();
        for (stream, phase, ran) in ran {
            let Some(mut ran) = ran else { continue };
            let [from, to] = [host_of(&turn.cell.setup, &stream.from)?, host_of(&turn.cell.setup, &stream.to)?];
            let spread = |host| states.spread_ppb(host, [from, to], &ran);
            let [of_here, of_pair] = [spread(HostId::HERE), spread(from).saturating_add(spread(to))];
            let of_ends = [from, to].map(|host| of_here.saturating_add(spread(host)));
            let offsets = &mut ran.halves.offsets;
            for (host, offset, steered_ppb) in [(from, &mut offsets.tx, of_ends[0]), (to, &mut offsets.rx, of_ends[1])]
            {
                // One clock that is steered stays one.
                let steered_ppb = |of: &Offset| if of.is_one_clock() { 0 } else { steered_ppb };
                let with = |of: Offset| states.reported.add(host, Offset { steered_ppb: steered_ppb(&of), ..of });
                *offset = offset.take().map(with);
            }
            if let Some(pair) = ran.pair.take() {
                ran.halves.offsets = std::mem::take(offsets).with_pair(pair, of_pair);
            }
            let (mut batch, mut record) = halves::join(stream, ran.base, &ran.halves);
            record.phase_ns = Some(phase.0);
            self.complete(&turn.cell.setup, stream, &mut record, beside.ends)?;
            if let Some(left) = unreported.get_mut(&record.launching.station) {
                take_reported(left, &mut batch, &mut record);
            }
            first.get_or_insert((ran.base, phase));
            is_cut |= batch.len() < stream.count as usize;
            streams.push((stream.name.clone(), batch));
            records.insert(stream.name.clone(), record);
        }
        let Some((base, phase)) = first else { return Ok(()) };
        let States { here: [mut before, mut after], others, .. } = states;
        let interrupted = self.stopped() && is_cut;
        let cpus = cpus_of(&turn.cell.setup, &records)?;
        keep_only_named(HostId::HERE, [&mut before, &mut after], &cpus);
        let hosts = by_name(others, &cpus);
        let mut placement = beside.watch.map(|watch| watch.record(&streams)).unwrap_or_default();
        placement.wake_up =
            idle::record(&turn.cell.setup, &self.found, |host| self.hosts.name(host).map(str::to_owned));
        let named = |(host, of): (HostId, OwnTraffic)| Some((self.hosts.name(host)?.to_owned(), of));
        let own_traffic = beside.traffic.into_iter().filter_map(named).collect();
        let record = TrialRecord {
            format: tardy_model::FORMAT,
            cell: turn.cell.id.clone(),
            n: turn.n,
            order: turn.order,
            nonce: format!("{nonce:016x}"),
            phase_ns: phase.0,
            base_tai_ns: base.ns(),
            interrupted,
            failed,
            before,
            after,
            streams: records,
            hosts,
            own_traffic,
            placement,
            loads: self.with_hosts(&turn.cell.setup, beside.loads)?,
            shapers: beside.shapers,
            observer: beside.observer,
            inspection: beside.inspection,
            passed: beside.passed,
        };
        self.sink.trial(&record, &streams).map_err(RunError::Sink)
    }
}
