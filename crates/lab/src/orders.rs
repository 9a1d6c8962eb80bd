// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is decided before a trial, all of it pure but for the list of CPUs: the order of trials, each trial's own
//! randomness, where each thread runs, and the order that each end of a stream is given.

use crate::machine::FactsByHost;
use crate::path::wire;
use crate::placement::Placed;
use crate::plan::Plan;
use crate::shaper::{self, launching};
use crate::softirq;
use crate::station::NoStation;
use crate::station::StationId;
use crate::vlan;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::net::{IpAddr, Ipv4Addr};
use tardy_engine::order::{
    AskOrder, EndOrder, ReceiveOrder, ReflectOrder, SendOrder, StreamOrder, ThreadOrder, launch_order,
};
use tardy_model::ethernet;
use tardy_model::port::TagBy;
use tardy_model::stream::Side;
use tardy_model::stream::{Ip, Kind, Stream};
use tardy_model::time::Nanos;
use tardy_spec::experiment::{Cell, Experiment, Setup, Shaper};

/// One stream as it is to be run in a trial.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// As in the experiment.
    pub stream: Stream,
    /// The sending station.
    pub from: StationId,
    /// The receiving station.
    pub to: StationId,
    /// Its ends, the first being who sends or asks.
    pub ends: Vec<EndOrder>,
    /// Shift of the schedule.
    pub phase: Nanos,
}

impl Ordered {
    /// The station of an end.
    pub(crate) fn station(&self, side: Side) -> StationId {
        if side == Side::Rx { self.to } else { self.from }
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

/// One trial's turn.
pub struct Turn<'e> {
    /// Its cell.
    pub cell: &'e Cell,
    /// Number in the cell, from 1.
    pub n: u32,
    /// Place in the run, from 0.
    pub order: u32,
}

/// The order of trials: blocks of every cell once, each block shuffled, so that a drift of the machine does not fall on
/// one cell alone.
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

/// UDP port of stream 0; each stream has its own, in a namespace of the run's own.
const FIRST_UDP_PORT: u16 = 5_800;

/// The trial's nonce, and the order of both ends of each stream.
///
/// # Errors
/// If a stream names a station that the path does not lead to.
pub fn orders(
    setup: &Setup,
    plan: &Plan,
    chosen: &[Placed],
    random: &mut Pcg64Mcg,
) -> Result<(u64, Vec<Ordered>), NoStation> {
    let nonce: u64 = random.random();
    let make = |(number, stream): (usize, &Stream)| {
        let (at_from, at_to) = (plan.station(&stream.from)?, plan.station(&stream.to)?);
        let end = |station: &str| {
            let end = plan.ends.get(station);
            // A tag that port `packet` writes itself needs no device of its own.
            let tag = stream.tag.filter(|_| stream.port.traits().tag == TagBy::Device);
            let vlan = tag.and_then(|tag| end?.vlans.get(&tag.vlan));
            let (device, v4, v6) = match (vlan, end) {
                (Some(vlan), _) => (vlan.device.clone(), Some(vlan.address), vlan.address6),
                (None, Some(end)) => (end.device.clone(), Some(end.address), end.address6),
                (None, None) => (String::new(), None, None),
            };
            let address = match stream.ip {
                Ip::Ipv4 => v4,
                Ip::Ipv6 => v6.map(IpAddr::from),
            };
            (address.unwrap_or(IpAddr::from(Ipv4Addr::UNSPECIFIED)), device)
        };
        let order = StreamOrder::of(stream, number as u8, nonce);
        let port = FIRST_UDP_PORT + number as u16;
        let phase = launching::phase(setup, stream, random);
        let ((from, from_device), (to, to_device)) = (end(&stream.from), end(&stream.to));
        let mac = |station: &str| plan.ends.get(station).and_then(|end| ethernet::mac(&end.mac)).unwrap_or_default();
        let placed = &chosen[number];
        let thread = |cpu, policy| ThreadOrder { cpu, policy };
        let (tx, rx) = (thread(placed.tx, stream.tx.policy), thread(placed.rx, stream.rx.policy));
        let reply = thread(placed.reply, stream.reply.policy);
        let send = |replies: bool, thread: &ThreadOrder| {
            let (local, peer, device) = if replies { (to, from, &to_device) } else { (from, to, &from_device) };
            SendOrder {
                order: order.clone(),
                thread: thread.clone(),
                local,
                peer,
                port,
                device: device.clone(),
                macs: if replies { [mac(&stream.from), mac(&stream.to)] } else { [mac(&stream.to), mac(&stream.from)] },
                priority: stream.priority,
                advance: stream.tx.advance,
                spin: stream.tx.spin,
                overrun: stream.overrun,
                replies,
                launch: launch_order(stream, phase).filter(|_| !replies),
            }
        };
        let receive = |replies: bool, thread: &ThreadOrder| {
            let (local, device, wait) = match replies {
                false => (to, &to_device, stream.rx.wait),
                true => (from, &from_device, stream.tx.wait),
            };
            let (device, thread) = (device.clone(), thread.clone());
            ReceiveOrder { order: order.clone(), thread, local, port, device, wait, replies }
        };
        let reflect = || EndOrder::Reflect(ReflectOrder { receive: receive(false, &rx), send: send(true, &rx) });
        let ends = match stream.kind {
            Kind::Cyclic => vec![EndOrder::Send(send(false, &tx)), EndOrder::Receive(receive(false, &rx))],
            Kind::Reflected => {
                vec![EndOrder::Send(send(false, &tx)), reflect(), EndOrder::Receive(receive(true, &reply))]
            }
            Kind::Pingpong => {
                let (in_flight, timeout) = (stream.reply.in_flight, stream.reply.timeout);
                let ask = AskOrder { send: send(false, &tx), receive: receive(true, &tx), in_flight, timeout };
                vec![EndOrder::Ask(ask), reflect()]
            }
        };
        Ok(Ordered { from: at_from, to: at_to, ends, phase, stream: stream.clone() })
    };
    let ordered: Result<Vec<Ordered>, NoStation> = setup.streams.iter().enumerate().map(make).collect();
    Ok((nonce, ordered?))
}

/// True if two cells need the same path.
pub fn built_alike(a: &Setup, b: &Setup, found: &FactsByHost) -> bool {
    // What a wire's devices are set to stamp depends on what is asked of them.
    let stamps = || a.path.devices().is_none() || wire::asked(a) == wire::asked(b);
    a.stations == b.stations
        && a.has_ipv6() == b.has_ipv6()
        && a.path == b.path
        && a.shaper == b.shaper
        && (a.shaper == Shaper::None || shaper::stations(a) == shaper::stations(b))
        && a.is_simulated() == b.is_simulated()
        && stamps()
        && softirq::alike(a, b, found)
        && vlan::alike(a, b)
}
