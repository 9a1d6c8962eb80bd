// SPDX-License-Identifier: MIT OR Apache-2.0
//! Before the first packet. What can be known before anything is touched: whether an experiment can
//! be run here, and what of the machine its plans rest on. Then every queue discipline is tried
//! once, on a path of its own that is taken down again: what this kernel refuses must not show when
//! half of the cells are measured. And a path that is built is waited for, until it can be used:
//! for the links of devices that are cabled, and for the schedules of queue disciplines. Then probe
//! packets go each way of each stream, and what programs of others do with them is watched.

use super::under_way::Run;
use crate::host::ask::Ask;
use crate::host::devices::DeviceError;
use crate::host::hosts::Hosts;
use crate::host::{ApplyError, HostId, LookError};
use crate::loads;
use crate::machine::FactsByHost;
use crate::names::Names;
use crate::not_found::NotFound;
use crate::orders::{Ordered, is_same_path, memory};
use crate::path::{Ends, LinkEnd};
use crate::placement::place;
use crate::plan::{self, Kinds, Plan, PlanError, plan_of};
use crate::run::RunError;
use crate::shaper;
use crate::station::{Costs, Look, StationId, Stations};
use crate::undo::UndoError;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tardy_engine::order::{CostOrder, ProbeOrder};
use tardy_model::port::TagBy;
use tardy_model::shaper::Shaper;
use tardy_model::stream::Stream;
use tardy_model::validity::{GROUP_LOST, Validity};
use tardy_model::verdict::Level;
use tardy_model::xdp::{
    ArrivedProbes, AwaitedProbes, DeviceWithin, GroupKind, GroupRecord, Inspection, ObjectRecord, ProbeHop,
    ProbeRecord, ProbeWay, ProgramFault, ProgramHook, ProgramRecord,
};
use tardy_spec::experiment::{Experiment, Setup};
use tardy_sys::clock;

/// What can be known before anything is touched: CPUs that are there, threads that do not starve
/// each other, memory, network devices that may be taken. Gives what was found, for the plan. The
/// hosts keep the devices for this run.
///
/// # Errors
/// [`RunError::Place`], [`RunError::Memory`], and as [`look`].
pub fn check(experiment: &Experiment, kinds: &Kinds, hosts: &mut Hosts<'_>) -> Result<FactsByHost, RunError> {
    hosts.wake_all()?;
    let found = look(experiment, kinds, hosts)?;
    for cell in &experiment.cells {
        let needed = memory(&cell.setup);
        // The coordinator holds what both ends recorded, wherever they are.
        let available = found.here().available_bytes;
        if let Some(available) = available.filter(|available| needed > available / 10 * 9) {
            let (needed_mib, available_mib) = (needed >> 20, available >> 20);
            return Err(RunError::Memory { cell: cell.id.clone(), needed_mib, available_mib });
        }
        if !cell.setup.is_simulated() {
            let (chosen, _) = place(&cell.setup, &found)?;
            loads::place(&cell.setup, &chosen, &found)?;
            loads::programs(&cell.setup, &found)?;
        }
    }
    Ok(found)
}

/// What of the machines a plan of the experiment rests on.
///
/// # Errors
/// [`RunError::Plan`], [`RunError::Look`] and [`RunError::Shaper`].
pub fn look(experiment: &Experiment, kinds: &Kinds, hosts: &mut Hosts<'_>) -> Result<FactsByHost, RunError> {
    let mut asks = BTreeMap::new();
    for host in hosts.ids() {
        asks.insert(host, ask(experiment, kinds, host)?);
    }
    let found = hosts.look(asks)?;
    let shaped = |setup: &Setup| setup.shaper != Shaper::None && !setup.path.traits().devices.are_made();
    for cell in experiment.cells.iter().filter(|cell| !cell.setup.is_simulated() && shaped(&cell.setup)) {
        // By which devices streams leave follows from the plan. Why a cell cannot be planned is
        // reported where its path is to be built: it may be refused before.
        if let Ok(plan) = plan_of(kinds, &cell.setup, Names::FIRST, &found) {
            shaper::check(&cell.setup, &plan.ends, &found)?;
        }
    }
    Ok(found)
}

/// What a host is asked for: the devices that paths are to take there, in the order of the cells,
/// and the programs of loads.
///
/// # Errors
/// If a path cannot join its stations, or a load names a station that is not there.
pub fn ask(experiment: &Experiment, kinds: &Kinds, host: HostId) -> Result<Ask, RunError> {
    let mut ask = Ask::default();
    for cell in experiment.cells.iter().filter(|cell| !cell.setup.is_simulated()) {
        let devices = ((kinds.path)(cell.setup.path.kind).asks)(&cell.setup, host).map_err(PlanError::from)?;
        for device in devices {
            if !ask.devices.contains(&device) {
                ask.devices.push(device);
            }
        }
        ask.programs.extend(loads::programs_at(&cell.setup, host)?);
    }
    Ok(ask)
}

impl Run<'_, '_> {
    /// Tries each once. What only a device can do and it does not costs the cells that ask for it;
    /// anything else that is refused ends the run.
    pub(super) fn preflight(&mut self, names: Names, not_put_back: &mut Option<UndoError>) -> Result<(), RunError> {
        let experiment = self.experiment;
        let mut tried: Vec<(&Setup, Option<String>)> = Vec::new();
        for cell in &experiment.cells {
            let refused = self.refused.contains(&cell.id);
            if refused || cell.setup.is_simulated() || cell.setup.shaper == Shaper::None || self.stopped() {
                continue;
            }
            let known =
                tried.iter().find(|(setup, _)| is_same_path(&self.options.kinds, setup, &cell.setup, &self.found));
            let refused = match known.map(|(_, refused)| refused.clone()) {
                Some(refused) => refused,
                None => {
                    let refused = self.try_out(names, &cell.setup, not_put_back)?;
                    tried.push((&cell.setup, refused.clone()));
                    refused
                }
            };
            if let Some(why) = refused {
                self.refuse(cell, why);
            }
        }
        Ok(())
    }

    /// Builds the path of a cell and takes it down; why its device refuses, if it does.
    fn try_out(
        &mut self,
        names: Names,
        setup: &Setup,
        not_put_back: &mut Option<UndoError>,
    ) -> Result<Option<String>, RunError> {
        // Its ends are the same whatever the clocks read, and these are read only if it is built.
        let ends = plan::plan_of(&self.options.kinds, setup, names, &self.found)?.ends;
        let blind = shaper::offload_refusal(setup, &ends, &self.found)?;
        if let Some(why) = blind.filter(|_| !setup.path.traits().devices.are_made()) {
            return Ok(Some(why));
        }
        self.read_clocks(setup)?;
        let plan = plan::plan_of(&self.options.kinds, setup, names, &self.found)?;
        let applied = self.hosts.apply(&plan.steps);
        if let Err(error) = self.hosts.put_back() {
            *not_put_back = Some(error);
        }
        self.tell_commands();
        match applied {
            Ok(()) => Ok(None),
            Err(ApplyError::Failed { why, says, command })
                if why == shaper::WHY && setup.shaper.offloads().is_some() =>
            {
                Ok(Some(shaper::with_the_kernels_refusal(setup, &ends, &self.found, &command.to_string(), &says)?))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Two devices need so long to agree on a speed, and some more.
const LINK: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits until both devices have their link; a signal ends the wait.
///
/// # Errors
/// If one has none in time, or is not there any more.
pub fn wait_for_link(hosts: &mut Hosts<'_>, ends: &Ends, stop: &AtomicBool) -> Result<(), LookError> {
    let until = Instant::now() + LINK;
    for end in ends.values() {
        let host = hosts.at(end.place.host)?;
        while !(stop.load(Relaxed) || host.link_is_up(end.place.netns(), &end.device)?) {
            if Instant::now() > until {
                return Err(DeviceError::NoLink { device: end.device.clone(), seconds: LINK.as_secs() }.into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
    Ok(())
}

impl Run<'_, '_> {
    /// Reads the clocks of the hosts whose queue disciplines have a schedule. This machine's is
    /// read for every plan.
    pub(super) fn read_clocks(&mut self, setup: &Setup) -> Result<(), RunError> {
        let with_schedule = setup.shaper.taprio().is_some();
        // This machine's is the last one: the others may take their time to answer.
        let others = self.hosts.ids().into_iter().skip(1).filter(|_| with_schedule);
        for host in others {
            let now = self.hosts.at(host)?.now()?;
            self.found.read_clock(host, now);
        }
        self.found.read_clock(HostId::HERE, clock::now());
        self.clocks_read = Instant::now();
        Ok(())
    }

    /// Waits until the schedules of a path have begun. Before that every gate is open, and
    /// iproute2 (6.1) prints one that waits as what is no JSON.
    pub(super) fn wait_for_schedules(&self, plan: &Plan) -> Result<(), NotFound> {
        for (host, begins) in &plan.begins {
            if *host == HostId::HERE {
                clock::sleep_until(*begins);
                continue;
            }
            // Another clock is not waited for: what was left by it when it was read has to pass.
            let left = self.found.of(*host)?.now.map_or(0, |now| begins.ns() - now.ns());
            let left = Duration::from_nanos(left.max(0) as u64);
            std::thread::sleep(left.saturating_sub(self.clocks_read.elapsed()));
        }
        Ok(())
    }
}

/// Probe packets each way of a stream: enough to tell what happens to each from what happens once.
const PROBES: u32 = 8;

/// A device that has to listen to all may begin to only some time later, of which nobody hears:
/// that of a virtual machine does it by a worker. So the probes wait for it, and longer if frames
/// for more than one receiver are sent again: on a busy host the worker waits for a CPU.
const SETTLE: Duration = Duration::from_millis(20);
const SETTLE_AGAIN: Duration = Duration::from_millis(200);

/// How long the devices of a path have to listen to all before they are sent probes. The kernel's
/// own have no filter.
fn settle(setup: &Setup) -> Duration {
    if setup.path.traits().devices.are_made() { Duration::ZERO } else { SETTLE }
}

/// One way of a stream: the sender and the receiver, by their places in the orders.
struct Way<'o> {
    stream: &'o str,
    tags: u8,
    /// Packets of the stream go this way.
    carries: bool,
    /// Where programs can take the probes.
    way: ProbeWay,
    /// The station, and which of its probes.
    sends: (StationId, usize),
    /// The station, and which of what it awaits.
    receives: (StationId, usize),
    /// The same of each device inside the path by which they come in, in their order.
    hops: Vec<(String, (StationId, usize))>,
}

/// What each station is to look at, and what that says of the ways of the streams.
fn looks<'o>(setup: &Setup, plan: &Plan, ordered: &'o [Ordered]) -> Result<(Vec<Look>, Vec<Way<'o>>), NotFound> {
    let mut looks: BTreeMap<StationId, Look> = BTreeMap::new();
    for name in plan.stations.keys() {
        let station = plan.station(name)?;
        let devices = plan.ends.of(name).flat_map(|(_, end)| {
            let over = end.vlans.values().map(|vlan| vlan.device.clone());
            over.chain([end.device.clone()])
        });
        let devices = devices.collect();
        let watched = plan.inside.iter().filter(|inside| inside.station == *name);
        let inside = watched.map(|inside| inside.device.clone()).collect();
        looks.insert(station, Look { devices, inside, ..Look::nothing(station) });
    }
    let mut ways = Vec::new();
    for of in ordered {
        let Some(send) = of.ends.first().and_then(|end| end.ways().send().copied()) else { continue };
        let receives = of.ends.iter().filter_map(|end| end.ways().receive()?.object.clone());
        let look = looks.get_mut(&of.to).ok_or_else(|| NotFound::Station(of.stream.to.clone()))?;
        // The trial's number is not in it, so that what is measured with it holds for all trials.
        let mut like = send.clone();
        like.order.nonce = 0;
        let (packet, _) = like.probe(false, false);
        look.objects.extend(receives.map(|object| (object, packet.clone())));
        let ends = plan.ends.of_stream(&of.stream)?;
        let ends = [plan.ends.end(ends[0])?, plan.ends.end(ends[1])?];
        let devices = [devices_of(ends[0], &of.stream)?, devices_of(ends[1], &of.stream)?];
        for (back, [from, to], [near, far]) in [(false, [of.from, of.to], [0, 1]), (true, [of.to, of.from], [1, 0])] {
            let (frame, mark) = send.probe(back, devices[near].len() > 1);
            let device = devices[near].last().unwrap_or(&ends[near].device).clone();
            let probe = ProbeOrder { device, priority: send.priority, frame };
            let sender = &mut looks.get_mut(&from).ok_or_else(|| NotFound::Station(of.stream.from.clone()))?.probes;
            sender.push(probe);
            let sends = (from, sender.len() - 1);
            let receiver = &mut looks.get_mut(&to).ok_or_else(|| NotFound::Station(of.stream.to.clone()))?.awaited;
            let device = ends[far].device.clone();
            receiver.push(AwaitedProbes { device, netns: None, mark: mark.to_vec(), protocol: send.protocol() });
            let receives = (to, receiver.len() - 1);
            let sender = if back { &of.stream.to } else { &of.stream.from };
            // The first stream's probes show where a tag is added to those of all.
            let is_first = !ways.iter().any(|way: &Way<'_>| way.sends.0 == from && !way.hops.is_empty());
            let mut hops = Vec::new();
            for hop in plan.inside.iter().filter(|inside| is_first && inside.from.as_ref() == Some(sender)) {
                let DeviceWithin { netns, device, .. } = hop.device.clone();
                let at = plan.station(&hop.station)?;
                let awaited = &mut looks.entry(at).or_insert_with(|| Look::nothing(at)).awaited;
                awaited.push(AwaitedProbes {
                    device: device.clone(),
                    netns: Some(netns),
                    mark: mark.to_vec(),
                    protocol: None,
                });
                hops.push((device, (at, awaited.len() - 1)));
            }
            let way = way_of(setup, &of.stream, [&devices[near], &devices[far]]);
            // A one-way stream has nothing to send back, but for what its connection answers.
            let carries = !back || of.stream.kind.is_answered() || of.stream.port.traits().is_connection;
            let tags = u8::from(of.stream.tag.is_some());
            ways.push(Way { stream: &of.stream.name, tags, carries, way, sends, receives, hops });
        }
    }
    Ok((looks.into_values().collect(), ways))
}

/// The device at which the path ends, and that of the stream's VLAN above it, by which a stream
/// over IP leaves and arrives.
fn devices_of(end: &LinkEnd, stream: &Stream) -> Result<Vec<String>, NotFound> {
    let vlan = stream.tag.filter(|_| stream.port.traits().tag == TagBy::Device);
    let above = vlan.map(|tag| end.vlan(tag.vlan).map(|vlan| vlan.device.clone())).transpose()?;
    Ok([end.device.clone()].into_iter().chain(above).collect())
}

/// Where programs can take the probes of a stream that leave by these devices and arrive at those.
fn way_of(setup: &Setup, stream: &Stream, [near, far]: [&[String]; 2]) -> ProbeWay {
    let port = stream.port.traits();
    ProbeWay {
        // AF_XDP sends past the filters of tc, which probes pass.
        leaves: if port.passes_qdisc { near.to_vec() } else { Vec::new() },
        arrives: far.to_vec(),
        is_held: setup.shaper != Shaper::None,
        // A probe of a connection belongs to none.
        is_certain: setup.path.traits().devices.are_made() && !port.is_connection,
    }
}

/// Looks for faults on the path: what programs that others have attached do with packets like the
/// streams', and whether these arrive as they were sent. What it costs that programs print is
/// measured when all stations have looked, unless it is among the `costs`.
///
/// # Errors
/// A station's.
pub(super) fn inspect(
    stations: &mut Stations,
    (setup, plan): (&Setup, &Plan),
    ordered: &[Ordered],
    costs: &mut Costs,
) -> Result<Inspection, RunError> {
    let (looks, ways) = looks(setup, plan, ordered)?;
    let mut looked = stations.inspect(&looks, PROBES, settle(setup))?;
    // One station of a host is asked for what a line costs: the same in each trial.
    looked.sort_by_key(|looked| looked.station);
    let names = stations.names();
    let name = |station: StationId| names.get(&station).cloned().unwrap_or_else(|| station.to_string());
    let at = |station: StationId| looked.iter().find(|looked| looked.station == station);
    let mut found = Inspection::default();
    for way in ways {
        let ((from, probe), (to, awaited)) = (way.sends, way.receives);
        let (took, dropped) = at(from).and_then(|looked| looked.sent.get(probe).copied()).unwrap_or_default();
        // Without a queue discipline of the run's it is a filter that drops what leaves.
        let sent = if way.way.is_held { took } else { took + dropped };
        let arrived = at(to).and_then(|looked| looked.arrived.get(awaited)?.clone());
        let Some(ArrivedProbes { by_tags, let_on }) = arrived else { continue };
        let Way { stream, tags, carries, way, hops, .. } = way;
        let hop = |(device, (station, awaited)): (String, (StationId, usize))| {
            let ArrivedProbes { by_tags, .. } = at(station)?.arrived.get(awaited)?.clone()?;
            Some(ProbeHop { device, by_tags })
        };
        let hops = hops.into_iter().filter_map(hop).collect();
        let (stream, from, to, way) = (stream.to_owned(), name(from), name(to), Some(way));
        found.probes.push(ProbeRecord { stream, from, to, sent, tags, by_tags, hops, let_on, carries, way });
    }
    for looked in looked {
        let (at, station) = (looked.station, name(looked.station));
        let prints = looked.programs.iter().any(|of| of.seen.as_ref().is_some_and(|seen| seen.lines > 0));
        if prints {
            match stations.cost(at, CostOrder::Line, costs)? {
                Ok(cost) => _ = found.line_costs.insert(station.clone(), cost),
                Err(why) => _ = found.unmeasured.insert(station.clone(), why),
            }
        }
        let objects = looks.iter().find(|look| look.station == at).map_or(&[][..], |look| &look.objects);
        for ((object, packet), record) in objects.iter().zip(looked.objects) {
            let Some(mut record) = record else { continue };
            if !record.lines.is_empty() {
                let of = CostOrder::Object { object: object.clone(), packet: packet.clone() };
                match stations.cost(at, of, costs)? {
                    Ok(cost) => record.cost = Some(cost),
                    Err(why) => record.unmeasured = Some(why),
                }
            }
            found.objects.push(ObjectRecord { station: station.clone(), ..record });
        }
        let of_station = |program| ProgramRecord { station: station.clone(), ..program };
        found.programs.extend(looked.programs.into_iter().map(of_station));
        found.unchecked.extend(looked.unchecked.map(|why| (station, why)));
    }
    found.groups = groups(stations, (setup, plan), ordered, &names)?;
    // A program of somebody's own may be there to keep such frames.
    let is_certain = setup.path.traits().devices.are_the_runs() && found.programs.is_empty();
    found.groups.iter_mut().for_each(|group| group.is_certain = is_certain);
    Ok(found)
}

/// Sends frames for more than one receiver each way between the ends of streams, which packets for
/// one receiver say nothing about: a bridge may keep multicast, and then a protocol that needs it
/// fails on a path whose figures look well. Nobody watches programs meanwhile. Where a queue
/// discipline may hold such frames none are sent, for nothing would follow from their loss.
fn groups(
    stations: &mut Stations,
    (setup, plan): (&Setup, &Plan),
    ordered: &[Ordered],
    names: &BTreeMap<StationId, String>,
) -> Result<Vec<GroupRecord>, RunError> {
    if setup.shaper != Shaper::None {
        return Ok(Vec::new());
    }
    let (mut looks, mut ways) = (BTreeMap::<StationId, Look>::new(), BTreeMap::new());
    for of in ordered {
        let Some(send) = of.ends.first().and_then(|end| end.ways().send().copied()) else { continue };
        let ends = plan.ends.of_stream(&of.stream)?;
        let ends = [plan.ends.end(ends[0])?, plan.ends.end(ends[1])?];
        for (back, [from, to], [near, far]) in [(false, [of.from, of.to], [0, 1]), (true, [of.to, of.from], [1, 0])] {
            let devices = devices_of(ends[near], &of.stream)?;
            let device = devices.last().unwrap_or(&ends[near].device).clone();
            for kind in GroupKind::ALL {
                // One stream's frames speak for all that leave by the device.
                let Entry::Vacant(way) = ways.entry((from, to, device.clone(), kind)) else { continue };
                let (frame, mark) = send.group_probe(kind, back, devices.len() > 1);
                let sender = &mut looks.entry(from).or_insert_with(|| Look::nothing(from)).probes;
                sender.push(ProbeOrder { device: device.clone(), priority: send.priority, frame });
                let sends = sender.len() - 1;
                let receiver = &mut looks.entry(to).or_insert_with(|| Look::nothing(to)).awaited;
                let device = ends[far].device.clone();
                receiver.push(AwaitedProbes { device, netns: None, mark: mark.to_vec(), protocol: None });
                way.insert((sends, receiver.len() - 1));
            }
        }
    }
    let looks: Vec<Look> = looks.into_values().collect();
    let name = |station: StationId| names.get(&station).cloned().unwrap_or_else(|| station.to_string());
    let mut looked = |settle: Duration| {
        let looked = stations.inspect(&looks, PROBES, settle)?;
        let at = |station: StationId| looked.iter().find(|looked| looked.station == station);
        let record = |(way, (sends, awaited)): (&(StationId, StationId, String, GroupKind), &(usize, usize))| {
            let (from, to, _, kind) = way;
            let (took, dropped) = at(*from).and_then(|looked| looked.sent.get(*sends).copied()).unwrap_or_default();
            let ArrivedProbes { by_tags, .. } = at(*to).and_then(|looked| looked.arrived.get(*awaited)?.clone())?;
            let (from, to, arrived) = (name(*from), name(*to), by_tags.values().sum());
            let sent = took + dropped;
            Some(GroupRecord { kind: *kind, from, to, sent, arrived, is_certain: false, kept_by: None })
        };
        Ok::<Vec<Option<GroupRecord>>, RunError>(ways.iter().map(record).collect())
    };
    let mut groups = looked(settle(setup))?;
    if groups.iter().flatten().any(GroupRecord::is_lost) {
        let both = groups.iter_mut().zip(looked(SETTLE_AGAIN)?);
        both.filter_map(|(first, again)| first.as_mut().zip(again)).for_each(|(first, again)| first.sent_again(&again));
    }
    Ok(groups.into_iter().flatten().collect())
}

/// Why nothing is measured on a path that keeps frames for more than one receiver, unless the
/// settings weigh that less.
pub(super) fn lost_group(found: &Inspection, settings: &Validity) -> Option<String> {
    let level = settings.set.get(GROUP_LOST).and_then(|setting| setting.level).unwrap_or(Level::Invalid);
    let lost = found.lost_groups().find(|group| group.is_certain && level == Level::Invalid)?;
    Some(format!(
        "{}. Change it, or, if no protocol on the path needs such frames, write `{GROUP_LOST} = \"warning\"` below \
         [validity]; then run again",
        lost.says()
    ))
}

/// Why a stream that is received on port `xdp` cannot be: another XDP program is attached there.
pub(super) fn attached_before(streams: &[Stream], plan: &Plan, found: &Inspection) -> Option<String> {
    // A device inside the path is no station's, whose names begin otherwise.
    let is_inside = |program: &&ProgramRecord| plan.inside.iter().any(|of| of.device.device == program.device);
    found.programs.iter().filter(|program| !is_inside(program)).find_map(|program| {
        let off = match program.hook {
            ProgramHook::XdpNative => "xdp off",
            ProgramHook::XdpGeneric => "xdpgeneric off",
            _ => return None,
        };
        let stream = streams.iter().find(|stream| stream.rx.port.passes_xdp() && stream.to == program.station)?;
        Some(format!(
            "{} was attached before, and stream `{}` is received there by an XDP program of its own: a device runs only \
             one. Take it off (`ip link set dev {} {off}`), or end the program that holds its link, then run again",
            program.called(),
            stream.name,
            program.device
        ))
    })
}

/// Why no packet of a stream can be measured on a path on which this was found.
pub(super) fn dead_end(found: &Inspection) -> Option<String> {
    let way = found.dead_end()?;
    let ProbeRecord { stream, from, to, tags, .. } = way;
    let programs = found.programs.iter().filter(|program| [from, to].contains(&&program.station));
    let says = |program: &ProgramRecord| {
        let faults = program.seen.iter().flat_map(|seen| &seen.faults).map(ProgramFault::says);
        [program.called(), faults.collect::<Vec<_>>().join(", ")].join(": ").trim_end_matches(": ").to_owned()
    };
    let programs: Vec<String> = programs.map(says).collect();
    let programs = if programs.is_empty() { "no program that tardy can see".to_owned() } else { programs.join("; ") };
    Some(match way.with_more_tags() {
        0 if way.arrived() > 0 => format!(
            "probe packets of stream `{stream}` from {from} arrive at the device of {to}, and the filters of tc there let none \
             on. On the path there is {programs}. Take the program off, or have it let the stream's packets on, then run again"
        ),
        0 => format!(
            "no probe packet of stream `{stream}` from {from} arrives at {to}. On the path there is {programs}. Take \
             the program off, or have it send packets where they are wanted, then run again"
        ),
        _ => {
            let came = way.by_tags.keys().next_back().unwrap_or(tags);
            let between = way.adds_between().map(|[before, behind]| format!(", added between {before} and {behind}"));
            format!(
                "probe packets of stream `{stream}` are sent by {from} with {tags} VLAN tags and arrive at {to} with {came}{}. \
                 On the path there is {programs}. Take off what adds a tag, then run again",
                between.unwrap_or_default()
            )
        }
    })
}
