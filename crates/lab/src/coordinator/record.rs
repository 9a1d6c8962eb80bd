// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the halves of a trial to its record: joined, with what else was seen of it, and handed to
//! the sink.

use super::tasks;
use super::under_way::Run;
use crate::host::{HostId, clocks};
use crate::idle;
use crate::not_found::NotFound;
use crate::orders::Turn;
use crate::path::Ends;
use crate::plan::Plan;
use crate::run::RunError;
use crate::shaper::launching;
use crate::softirq::Watch;
use crate::station::host_of;
use crate::trial::StreamHalves;
use std::collections::BTreeMap;
use tardy_engine::{halves, matcher};
use tardy_model::load::{LoadRecord, SideHosts};
use tardy_model::machine::{MachineState, RulerRecord, ThreadRecord};
use tardy_model::path::DeviceClock;
use tardy_model::point::{Point, Source};
use tardy_model::qdisc::{LaunchRecord, ShaperRecord};
use tardy_model::stream::Stream;
use tardy_model::time::Nanos;
use tardy_model::trial::{ObserverRecord, StreamRecord, TrialRecord};
use tardy_spec::experiment::Setup;

/// What a trial has in addition to its streams.
#[derive(Default)]
pub(super) struct Beside<'a> {
    pub(super) loads: BTreeMap<String, LoadRecord>,
    pub(super) watch: Option<&'a Watch<'a>>,
    /// Where the path ends, if one was built.
    pub(super) ends: Option<&'a Ends>,
    pub(super) shapers: BTreeMap<String, ShaperRecord>,
    pub(super) observer: Vec<ObserverRecord>,
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
}

impl Run<'_, '_> {
    /// The ruler's figures of a thread like this one. Two threads that were granted the same may
    /// have asked for different policies: then the one of this name comes first.
    fn ruler_of(&self, station: &str, name: &str, thread: &ThreadRecord) -> Option<&RulerRecord> {
        let (cpu, policy) = (thread.cpu_asked, &thread.policy_granted);
        let like = |ruler: &&RulerRecord| ruler.station == station && ruler.cpu == cpu && ruler.policy == *policy;
        let its = |ruler: &&RulerRecord| ruler.threads.iter().any(|thread| thread == name);
        let mut all = self.ruler.iter().filter(like);
        all.clone().find(its).or_else(|| all.next())
    }

    /// Notes what a wake-up of each of the stream's threads waits by itself, by the ruler.
    fn note_wake_ups(&self, stream: &Stream, record: &mut StreamRecord) {
        let reply = record.reply.as_mut().and_then(|reply| reply.thread.as_mut());
        let ends = [("tx", &stream.from, &mut record.tx), ("rx", &stream.to, &mut record.rx)];
        for (end, station, thread) in ends.into_iter().chain(reply.map(|thread| ("reply", &stream.from, thread))) {
            let name = format!("{}.{end}", stream.name);
            thread.wake_wait_ns = self.ruler_of(station, &name, thread).and_then(|ruler| ruler.wake_wait_ns);
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

    /// Joins the halves and hands the trial to the sink.
    pub(super) fn keep(
        &mut self,
        turn: &Turn<'_>,
        nonce: u64,
        States { here: [mut before, mut after], others }: States,
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
            let Some(ran) = ran else { continue };
            let (mut batch, mut record) = halves::join(stream, ran.base, &ran.halves);
            if turn.cell.setup.path.traits().clock == DeviceClock::Emulated
                && let Some(source) = record.sources.get_mut(&Point::TxHw)
            {
                *source = Source::Emulated;
            }
            record.phase_ns = Some(phase.0);
            let ends = [host_of(&turn.cell.setup, &stream.from)?, host_of(&turn.cell.setup, &stream.to)?];
            clocks::name_hosts(&mut record.offsets, ends, |host| self.hosts.name(host));
            self.note_wake_ups(stream, &mut record);
            let name = format!("{}.tx", stream.name);
            let timer = self.ruler_of(&stream.from, &name, &record.tx).and_then(|ruler| ruler.timer_p99_9_ns);
            let release = self.found.at(&turn.cell.setup, &stream.from)?.release.as_deref();
            let leaves_by = Self::leaves_by(stream, beside.ends)?;
            let launching = launching::record(&turn.cell.setup, stream, timer, release);
            record.launching = LaunchRecord { station: leaves_by.clone(), ..launching };
            let reported = record.counters.launch_missed + record.counters.launch_invalid;
            if let Some(left) = unreported.get_mut(&leaves_by) {
                *left = left.saturating_sub(reported);
                *left -= matcher::unreported(&mut batch, &mut record, *left);
            }
            first.get_or_insert((ran.base, phase));
            is_cut |= batch.len() < stream.count as usize;
            streams.push((stream.name.clone(), batch));
            records.insert(stream.name.clone(), record);
        }
        let Some((base, phase)) = first else { return Ok(()) };
        let interrupted = self.stopped() && is_cut;
        let cpus = tasks::cpus_of(&turn.cell.setup, &records)?;
        tasks::keep_only_named(HostId::HERE, [&mut before, &mut after], &cpus);
        let mut named = BTreeMap::new();
        for (host, (name, [mut before, mut after])) in others {
            tasks::keep_only_named(host, [&mut before, &mut after], &cpus);
            named.insert(name, [before, after]);
        }
        let mut placement = beside.watch.map(|watch| watch.record(&streams)).unwrap_or_default();
        placement.wake_up =
            idle::record(&turn.cell.setup, &self.found, |host| self.hosts.name(host).map(str::to_owned));
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
            hosts: named,
            placement,
            loads: self.with_hosts(&turn.cell.setup, beside.loads)?,
            shapers: beside.shapers,
            observer: beside.observer,
        };
        self.sink.trial(&record, &streams).map_err(RunError::Sink)
    }
}
