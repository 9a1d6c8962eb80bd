// SPDX-License-Identifier: MIT OR Apache-2.0
//! Before the first packet, on a path that is built: probe packets go each way of each stream, and
//! what programs of others do with them is watched. Then special frames, which a path may treat
//! otherwise, go the same ways.

use crate::not_found::NotFound;
use crate::orders::Ordered;
use crate::path::LinkEnd;
use crate::plan::Plan;
use crate::run::RunError;
use crate::station::{Costs, Look, StationId, Stations};
use std::collections::BTreeMap;
use std::time::Duration;
use tardy_engine::order::{Checksum, CostOrder, ProbeOrder, SendOrder, SpecialFrame};
use tardy_model::path::Devices;
use tardy_model::port::TagBy;
use tardy_model::shaper::Shaper;
use tardy_model::stream::Stream;
use tardy_model::validity::Validity;
use tardy_model::verdict::Level;
use tardy_model::xdp::{
    ArrivedProbes, AwaitedProbes, DeviceWithin, Inspection, ObjectRecord, PROBE_TTL, ProbeHop, ProbeRecord, ProbeWay,
    ProgramFault, ProgramHook, ProgramRecord, SpecialKind, SpecialRecord,
};
use tardy_spec::experiment::Setup;

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
            let by_route = goes_by_route(setup, send);
            let probe = ProbeOrder { device, by_route, priority: send.priority, frame, checksum: Checksum::Written };
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

/// True of a stream whose packets go as the kernel routes them, perhaps through routers.
fn goes_by_route(setup: &Setup, send: &SendOrder) -> bool {
    setup.path.traits().devices == Devices::Own && send.protocol().is_some()
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
        is_like_the_streams: !port.is_connection,
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
        let Some(ArrivedProbes { by_tags, by_pcp, let_on, least_ttl, .. }) = arrived else { continue };
        let Way { stream, tags, carries, way, hops, .. } = way;
        let hop = |(device, (station, awaited)): (String, (StationId, usize))| {
            let ArrivedProbes { by_tags, .. } = at(station)?.arrived.get(awaited)?.clone()?;
            Some(ProbeHop { device, by_tags })
        };
        let hops = hops.into_iter().filter_map(hop).collect();
        let (stream, from, to, way) = (stream.to_owned(), name(from), name(to), Some(way));
        found.probes.push(ProbeRecord {
            stream,
            from,
            to,
            sent,
            tags,
            by_tags,
            by_pcp,
            hops,
            let_on,
            least_ttl,
            route: None,
            carries,
            way,
        });
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
            let Some(record) = record else { continue };
            let mut record = record.bounded();
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
    found.special = special(stations, (setup, plan), ordered, (&names, &found.probes))?;
    // A program of somebody's own may be there to keep such frames.
    let is_certain = setup.path.has_only_the_runs_devices() && found.programs.is_empty();
    found.special.iter_mut().for_each(|of| of.is_certain = is_certain);
    Ok(found)
}

/// Where special frames go: from one station's device to another station.
type SpecialWay = (StationId, StationId, String, SpecialKind);

/// The special frames between the ends of streams, and where each was looked for.
struct Special<'s> {
    setup: &'s Setup,
    /// Each by its way: whose stream's frames they are, whether they go back, the device at which
    /// they are awaited, and whether they leave by a VLAN device.
    ways: BTreeMap<SpecialWay, (&'s SendOrder, bool, String, bool)>,
    names: &'s BTreeMap<StationId, String>,
    /// What came of the streams' probes.
    probes: &'s [ProbeRecord],
}

impl Special<'_> {
    /// Frames of this kind can go from one station to the other: routers let only packets for one
    /// station pass, and without hardware addresses there are no frames.
    fn can_go(&self, (from, to): (StationId, StationId), send: &SendOrder, kind: SpecialKind) -> bool {
        let is = |station: StationId, name: &String| self.names.get(&station) == Some(name);
        let is_way = |probe: &&ProbeRecord| is(from, &probe.from) && is(to, &probe.to);
        let mut ttls = self.probes.iter().filter(is_way).filter_map(|probe| probe.least_ttl);
        let is_direct = send.macs.iter().all(|mac| *mac != [0; 6]) && ttls.all(|ttl| ttl >= PROBE_TTL);
        kind == SpecialKind::Longest || is_direct || !goes_by_route(self.setup, send)
    }

    /// Sends those that are asked for, the longest ones in this length, and says what came of them.
    fn sent(
        &self,
        stations: &mut Stations,
        asks: impl Fn(&SpecialWay) -> bool,
        (longest, settle): (u32, Duration),
    ) -> Result<BTreeMap<SpecialWay, SpecialRecord>, RunError> {
        let (mut looks, mut places) = (BTreeMap::<StationId, Look>::new(), Vec::new());
        for (way, (send, back, awaited_at, by_vlan_device)) in self.ways.iter().filter(|(way, _)| asks(way)) {
            let (from, to, device, kind) = way;
            let SpecialFrame { frame, mark, checksum } = send.special_probe(*kind, *back, *by_vlan_device, longest);
            let probes = &mut looks.entry(*from).or_insert_with(|| Look::nothing(*from)).probes;
            let by_route = *kind == SpecialKind::Longest && goes_by_route(self.setup, send);
            probes.push(ProbeOrder { device: device.clone(), by_route, priority: send.priority, frame, checksum });
            let sends = probes.len() - 1;
            let awaited = &mut looks.entry(*to).or_insert_with(|| Look::nothing(*to)).awaited;
            awaited.push(AwaitedProbes {
                device: awaited_at.clone(),
                netns: None,
                mark: mark.to_vec(),
                protocol: None,
            });
            places.push((way, sends, awaited.len() - 1));
        }
        let looks: Vec<Look> = looks.into_values().collect();
        let looked = stations.inspect(&looks, PROBES, settle)?;
        let at = |station: StationId| looked.iter().find(|looked| looked.station == station);
        let name = |station: StationId| self.names.get(&station).cloned().unwrap_or_else(|| station.to_string());
        let record = |(way, sends, awaited): (&SpecialWay, usize, usize)| {
            let (from, to, _, kind) = way;
            let (took, dropped) = at(*from).and_then(|looked| looked.sent.get(sends).copied()).unwrap_or_default();
            let ArrivedProbes { by_tags, without_checksum, .. } =
                at(*to).and_then(|looked| looked.arrived.get(awaited)?.clone())?;
            // Of other frames the checksum is written, and nothing follows from it.
            let without_checksum = if *kind == SpecialKind::Unsummed { without_checksum } else { 0 };
            let record = SpecialRecord {
                kind: *kind,
                from: name(*from),
                to: name(*to),
                sent: took + dropped,
                arrived: by_tags.values().sum::<u32>().saturating_sub(without_checksum),
                without_checksum,
                bytes: (*kind == SpecialKind::Longest).then_some(longest),
                longest_bytes: None,
                is_certain: false,
                kept_by: None,
            };
            Some((way.clone(), record))
        };
        Ok(places.into_iter().filter_map(record).collect())
    }

    /// The longest frames of a way that arrive, as IP packets, bytes; `None` if even the shortest
    /// ones do not. `path.mtu` is too long.
    fn longest(&self, stations: &mut Stations, way: &SpecialWay) -> Result<Option<u32>, RunError> {
        let mut passes = |bytes: u32| {
            let sent = self.sent(stations, |of| of == way, (bytes, settle(self.setup)))?;
            Ok::<bool, RunError>(sent.values().any(|record| record.arrived > 0))
        };
        let (mut short, mut long) = (SHORTEST, self.setup.path.mtu);
        if !passes(short)? {
            return Ok(None);
        }
        while long - short > 1 {
            let middle = short.midpoint(long);
            if passes(middle)? { short = middle } else { long = middle }
        }
        Ok(Some(short))
    }
}

/// Every network carries IP packets of this length, bytes (RFC 791).
const SHORTEST: u32 = 68;

/// Sends special frames each way between the ends of streams, about which the streams' own packets
/// say nothing: a bridge may keep multicast, a device may have a smaller MTU than the path should
/// have, and a program may hand on packets without the checksum that was still to be written. What
/// needs such frames fails then on a path whose figures look well. Nobody watches programs
/// meanwhile. Where a queue discipline may hold such frames none are sent, for nothing would follow
/// from their loss.
fn special(
    stations: &mut Stations,
    (setup, plan): (&Setup, &Plan),
    ordered: &[Ordered],
    (names, probes): (&BTreeMap<StationId, String>, &[ProbeRecord]),
) -> Result<Vec<SpecialRecord>, RunError> {
    if setup.shaper != Shaper::None {
        return Ok(Vec::new());
    }
    let mut special = Special { setup, ways: BTreeMap::new(), names, probes };
    for of in ordered {
        let Some(send) = of.ends.first().and_then(|end| end.ways().send().copied()) else { continue };
        let ends = plan.ends.of_stream(&of.stream)?;
        let ends = [plan.ends.end(ends[0])?, plan.ends.end(ends[1])?];
        for (back, [from, to], [near, far]) in [(false, [of.from, of.to], [0, 1]), (true, [of.to, of.from], [1, 0])] {
            let devices = devices_of(ends[near], &of.stream)?;
            let device = devices.last().unwrap_or(&ends[near].device).clone();
            for kind in SpecialKind::ALL {
                if !special.can_go((from, to), send, kind) {
                    continue;
                }
                // One stream's frames speak for all that leave by the device.
                let way = (from, to, device.clone(), kind);
                special.ways.entry(way).or_insert((send, back, ends[far].device.clone(), devices.len() > 1));
            }
        }
    }
    let mut sent = special.sent(stations, |_| true, (setup.path.mtu, settle(setup)))?;
    let is_lost = |sent: &BTreeMap<SpecialWay, SpecialRecord>, way: &SpecialWay| {
        sent.get(way).is_some_and(SpecialRecord::is_lost)
    };
    if sent.values().any(SpecialRecord::is_lost) {
        let again = special.sent(stations, |way| is_lost(&sent, way), (setup.path.mtu, SETTLE_AGAIN))?;
        for (way, again) in &again {
            if let Some(first) = sent.get_mut(way) {
                first.sent_again(again);
            }
        }
    }
    let long: Vec<SpecialWay> =
        sent.keys().filter(|way| way.3 == SpecialKind::Longest && is_lost(&sent, way)).cloned().collect();
    for way in long {
        let longest = special.longest(stations, &way)?;
        if let Some(record) = sent.get_mut(&way) {
            record.longest_bytes = longest;
        }
    }
    Ok(sent.into_values().collect())
}

/// Why nothing is measured on a path that loses special frames, unless the settings weigh that
/// less.
pub(super) fn lost_special(found: &Inspection, settings: &Validity) -> Option<String> {
    let is_refused = |of: &&SpecialRecord| {
        let level = settings.set.get(of.kind.rule()).and_then(|setting| setting.level).unwrap_or(Level::Invalid);
        of.is_certain && level == Level::Invalid
    };
    let lost = found.lost_special().find(is_refused)?;
    Some(format!(
        "{}. Change it, or, if nothing on the path needs such frames, write `{} = \"warning\"` below [validity]; then run \
         again",
        lost.says(),
        lost.kind.rule()
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
