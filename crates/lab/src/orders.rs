// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is decided before a trial, all of it pure but for the list of CPUs: the order of trials,
//! each trial's own randomness, where each thread runs, the order that each end of a stream is
//! given, and the memory that all of it takes.

use crate::host::HostId;
use crate::machine::FactsByHost;
use crate::not_found::NotFound;
use crate::path::LinkEnd;
use crate::placement::{Placed, thread_on};
use crate::plan::{Kinds, Plan};
use crate::shaper::{self, launching};
use crate::station::StationId;
use crate::{loads, softirq, vlan};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::net::IpAddr;
use std::ops::Range;
use tardy_engine::halves::hint_bytes;
use tardy_engine::order::{
    AskOrder, EndOrder, ObjectOrder, ReceiveOrder, ReflectOrder, SendOrder, StreamOrder, ThreadOrder, launch_order,
};
use tardy_model::ethernet::{self, Mac};
use tardy_model::path::Devices;
use tardy_model::port::TagBy;
use tardy_model::shaper::{Classes, Shaper};
use tardy_model::stream::{Ip, Kind, Rx, Side, Stream};
use tardy_model::stream_id::StreamId;
use tardy_model::time::Nanos;
use tardy_spec::experiment::{Cell, Experiment, Setup};

/// One stream as it is to be run in a trial.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// Which of the set-up.
    pub id: StreamId,
    /// As in the experiment.
    pub stream: Stream,
    pub from: StationId,
    pub to: StationId,
    /// Its ends. The first is the end that sends or asks.
    pub ends: Vec<EndOrder>,
    /// Shift of the schedule.
    pub phase: Nanos,
}

impl Ordered {
    /// The station of an end.
    pub(crate) fn station(&self, side: Side) -> StationId {
        if side == Side::Rx { self.to } else { self.from }
    }

    /// How an end receives; `None` of one that does not, or is not there.
    pub(crate) fn receives(&self, side: Side) -> Option<&ReceiveOrder> {
        let end = self.ends.iter().find(|end| end.side() == side)?;
        end.ways().receive().copied()
    }

    pub(crate) fn sides(&self) -> impl Iterator<Item = Side> {
        self.ends.iter().map(EndOrder::side)
    }

    /// The end at which replies arrive; `None` where there are none.
    pub(crate) fn replies_at(&self) -> Option<Side> {
        match self.stream.kind {
            Kind::Cyclic => None,
            Kind::Reflected => Some(Side::Reply),
            Kind::Pingpong => Some(Side::Tx),
        }
    }
}

/// A trial, and when its turn is.
pub struct Turn<'e> {
    pub cell: &'e Cell,
    /// Number in the cell, from 1.
    pub n: u32,
    /// Place in the run, from 0.
    pub order: u32,
}

/// The order of trials: blocks of every cell once, each block shuffled, so that a drift of the
/// machine does not fall on one cell alone.
pub fn turns(experiment: &Experiment) -> Vec<Turn<'_>> {
    let mut random = Pcg64Mcg::seed_from_u64(experiment.seed);
    let mut turns = Vec::new();
    for n in 1..=experiment.trials {
        let mut block: Vec<&Cell> = experiment.cells.iter().collect();
        block.shuffle(&mut random);
        for cell in block {
            turns.push(Turn { cell, n, order: turns.len() as u32 });
        }
    }
    turns
}

/// A trial's own randomness: of the seed, the cell and the number, not of the order.
pub fn random_of(seed: u64, cell: &str, n: u32) -> Pcg64Mcg {
    let hash = cell
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    Pcg64Mcg::seed_from_u64(seed ^ hash ^ (u64::from(n) << 32))
}

/// The UDP or TCP port at which stream 0 arrives, and its replies; each stream has its own.
const FIRST_PORT: u16 = 5_800;
/// The same of replies between two stations that have one address.
const FIRST_REPLY_PORT: u16 = 6_800;

/// Where a stream meets the path at a station.
struct Met {
    host: HostId,
    device: String,
    address: IpAddr,
    mac: Mac,
}

/// What a stream finds at one of its ends of the path.
fn met(end: &LinkEnd, stream: &Stream) -> Result<Met, NotFound> {
    let port = stream.port.traits();
    // A tag that port `packet` writes itself needs no device of its own.
    let (device, v4, v6) = match stream.tag.filter(|_| port.tag == TagBy::Device) {
        Some(tag) => {
            let vlan = end.vlan(tag.vlan)?;
            (&vlan.device, vlan.address, vlan.address6)
        }
        None => (&end.device, end.address, end.address6),
    };
    let address = match stream.ip {
        Ip::Ipv4 => v4,
        Ip::Ipv6 => v6.map(IpAddr::from).ok_or_else(|| NotFound::Ipv6(end.station.clone()))?,
    };
    let mac = match ethernet::mac(&end.mac) {
        Some(mac) => mac,
        None if port.is_frames => {
            let (station, device, mac) = (end.station.clone(), end.device.clone(), end.mac.clone());
            return Err(NotFound::Mac { station, device, mac });
        }
        // Nothing that such a stream sends carries it.
        None => Mac::default(),
    };
    Ok(Met { host: end.place.host, device: device.clone(), address, mac })
}

/// The trial's nonce, and the order of both ends of each stream.
///
/// # Errors
/// If a stream names a station that the path does not lead to, or that does not have there what the
/// stream needs, or if it could take several paths.
pub fn orders(
    setup: &Setup,
    plan: &Plan,
    chosen: &[Placed],
    random: &mut Pcg64Mcg,
) -> Result<(u64, Vec<Ordered>), NotFound> {
    let nonce: u64 = random.random();
    let mut ordered = Vec::with_capacity(setup.streams.len());
    for (id, stream) in StreamId::each(&setup.streams)? {
        let (at_from, at_to) = (plan.station(&stream.from)?, plan.station(&stream.to)?);
        let phase = launching::phase(setup, stream, random);
        let ends =
            ends(plan, stream, StreamOrder::of(stream, id, nonce), id.of(chosen)?, phase, queues(setup, stream))?;
        ordered.push(Ordered { id, stream: stream.clone(), from: at_from, to: at_to, ends, phase });
    }
    Ok((nonce, ordered))
}

/// The transmit queues of a stream whose port chooses them: that of the file, or those of its
/// class, for nothing on the way would choose them. `None` for all. Devices keep launch times by
/// queue, so packets that have some take one.
pub fn queues(setup: &Setup, stream: &Stream) -> Option<Range<u32>> {
    // What goes out by a queue of a veth comes in by the queue of that number at its peer.
    let is_veth = setup.path.traits().devices == (Devices::Made { driver: None }) && stream.rx.port.passes_xdp();
    if let Some(queue) = stream.tx.queue.or(stream.rx.queue.filter(|_| is_veth)) {
        return Some(queue..queue + 1);
    }
    let of_class = |classes: &Classes| classes.queues.get(usize::from(classes.of(stream.priority))).copied();
    let of_class = setup.shaper.classes().and_then(of_class).map(|of| of.offset..of.offset + of.count);
    match stream.launch.is_some() {
        true => Some(of_class.map_or(0, |of| of.start)).map(|first| first..first + 1),
        false => of_class,
    }
}

/// The orders of a stream's ends. The first is the end that sends or asks.
fn ends(
    plan: &Plan,
    stream: &Stream,
    order: StreamOrder,
    placed: &Placed,
    phase: Nanos,
    queues: Option<Range<u32>>,
) -> Result<Vec<EndOrder>, NotFound> {
    let [near, far] = plan.ends.of_stream(stream)?;
    let (from, to) = (met(plan.ends.end(near)?, stream)?, met(plan.ends.end(far)?, stream)?);
    let number = u16::from(order.stream.number());
    let first_reply = if from.address == to.address { FIRST_REPLY_PORT } else { FIRST_PORT };
    let port = |replies: bool| if replies { first_reply } else { FIRST_PORT } + number;
    let tx = thread_on(from.host, placed.tx, stream.tx.policy)?;
    let rx = thread_on(to.host, placed.rx, stream.rx.policy)?;
    let reply = thread_on(from.host, placed.reply, stream.reply.policy)?;
    let send = |replies: bool, thread: &ThreadOrder| {
        let (near, far) = if replies { (&to, &from) } else { (&from, &to) };
        SendOrder {
            order: order.clone(),
            thread: thread.clone(),
            local: near.address,
            peer: far.address,
            port: port(replies),
            device: near.device.clone(),
            macs: [far.mac, near.mac],
            priority: stream.priority,
            queues: queues.clone(),
            frames: stream.tx.frames,
            advance: stream.tx.advance,
            spin: stream.tx.spin,
            overrun: stream.overrun,
            replies,
            launch: launch_order(stream, phase).filter(|_| !replies),
        }
    };
    let receive = |replies: bool, thread: &ThreadOrder| {
        let (near, wait) = if replies { (&from, stream.tx.wait) } else { (&to, stream.rx.wait) };
        let (local, device, thread) = (near.address, near.device.clone(), thread.clone());
        // Replies come back through what they were sent through.
        let through = if replies { stream.port } else { stream.rx.port };
        let order = StreamOrder { port: through, ..order.clone() };
        let object = stream.rx.object.as_ref().filter(|_| through.passes_xdp());
        let object = object.map(|object| ObjectOrder {
            bytes: object.bytes.to_vec(),
            section: object.section.clone(),
            times: object.times.clone(),
        });
        let hints = if through.passes_xdp() { stream.rx.hints.clone() } else { Vec::new() };
        let Rx { queue, frames, .. } = stream.rx;
        let port = port(replies);
        ReceiveOrder { order, thread, local, port, device, wait, queue, frames, replies, object, hints }
    };
    let reflect = || EndOrder::Reflect(ReflectOrder { receive: receive(false, &rx), send: send(true, &rx) });
    Ok(match stream.kind {
        Kind::Cyclic => vec![EndOrder::Send(send(false, &tx)), EndOrder::Receive(receive(false, &rx))],
        Kind::Reflected => vec![EndOrder::Send(send(false, &tx)), reflect(), EndOrder::Receive(receive(true, &reply))],
        Kind::Pingpong => {
            let (in_flight, timeout) = (stream.reply.in_flight, stream.reply.timeout);
            let ask = AskOrder { send: send(false, &tx), receive: receive(true, &tx), in_flight, timeout };
            vec![EndOrder::Ask(ask), reflect()]
        }
    })
}

/// True if two cells need the same path.
pub fn is_same_path(kinds: &Kinds, a: &Setup, b: &Setup, found: &FactsByHost) -> bool {
    a.stations == b.stations
        && a.has_ipv6() == b.has_ipv6()
        && a.path == b.path
        && a.shaper == b.shaper
        && (a.shaper == Shaper::None || shaper::pairs(a) == shaper::pairs(b))
        && a.builds_nothing() == b.builds_nothing()
        && ((kinds.path)(a.path.kind).may_share)(a, b)
        && a.dma_latency_us == b.dma_latency_us
        && a.observes_ptp == b.observes_ptp
        && softirq::wants_the_same(a, b, found)
        && vlan::has_same_devices(a, b)
}

/// Memory that a packet takes at its peak: both ends' records, their way here, the joined samples
/// and their analysis.
const BYTES_A_PACKET: u64 = 400;

/// Bytes of a frame of port `xdp`.
const BYTES_A_FRAME: u64 = 4_096;

/// About what a trial takes at its peak, bytes.
pub fn memory(setup: &Setup) -> u64 {
    let of_stream = |stream: &Stream| u64::from(stream.count) * BYTES_A_PACKET + hint_bytes(stream);
    let streams: u64 = setup.streams.iter().map(of_stream).sum();
    streams.saturating_add(frames(setup)).saturating_add(loads::memory(setup))
}

/// What of that the ends of port `xdp` share with the kernel, bytes.
fn frames(setup: &Setup) -> u64 {
    // How many queues a device has that is there already is not known here; its driver has them.
    let all = setup.path.queues.unwrap_or(1);
    let received = |stream: &Stream| u64::from(stream.rx.queue.map_or(all, |_| 1)) * u64::from(stream.rx.frames);
    let sends = |stream: &Stream| queues(setup, stream).map_or(all, |of| of.len() as u32);
    let sent = |stream: &Stream| u64::from(sends(stream)) * u64::from(stream.tx.frames);
    let frames = |stream: &Stream| {
        let of = |is_by_xdp: bool, frames: u64| if is_by_xdp { frames } else { 0 };
        of(stream.rx.port.passes_xdp(), received(stream)) + of(!stream.port.traits().passes_qdisc, sent(stream))
    };
    setup.streams.iter().map(frames).sum::<u64>() * BYTES_A_FRAME
}

/// What a machine must have available for a trial, bytes. An end of port `xdp` takes no more than
/// half of what is available.
pub fn memory_of_machine(setup: &Setup) -> u64 {
    memory(setup).saturating_add(frames(setup))
}
