// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams of one cell that do not go together, or not with its path: by the device and the CPUs
//! that they share.

use crate::cell::View;
use crate::error::Problem;
use crate::experiment::{self, Path, Softirq, StreamThread};
use tardy_model::path::Devices;
use tardy_model::port::TagBy;
use tardy_model::shaper::Shaper;
use tardy_model::stream::{CpuChoice, Kind, Side, Stream};

/// VLANs over port `udp` in one cell: a slot has this number of addresses besides those of the
/// path.
const MOST_VLANS: usize = 7;

/// Simulated and real clocks cannot run in one cell, and a device has one XDP program, and one
/// memory for each queue.
pub(crate) fn ports(view: &View<'_>, streams: &[&Stream]) -> Result<(), Problem> {
    let of = |simulated| streams.iter().copied().find(|stream| stream.port.traits().is_simulated == simulated);
    if let (Some(sim), Some(real)) = (of(true), of(false)) {
        let key = |stream: &Stream| format!("stream.{}.port", stream.name);
        let message =
            format!("stream `{}` is on port sim and stream `{}` on {}", sim.name, real.name, real.port.name());
        let help = "give all streams of a cell the same port, or none of them sim".to_owned();
        return Err(view.combination(&[key(sim), key(real)], message, help));
    }
    let received = streams.iter().copied().filter(|of| of.rx.port.passes_xdp()).map(|of| (of, &of.to, "rx"));
    let sent = streams.iter().copied().filter(|of| !of.port.traits().passes_qdisc).map(|of| (of, &of.from, "tx"));
    let mut by_xdp = received.chain(sent);
    while let Some((first, station, end)) = by_xdp.next() {
        let Some((second, _, other)) = by_xdp.clone().find(|(_, at, _)| *at == station) else { continue };
        let (ways, has) = match (end, other) {
            ("rx", "rx") => ("both received", "XDP program"),
            ("tx", "tx") => ("both sent", "AF_XDP memory for a queue"),
            _ => ("received and sent", "AF_XDP memory for a queue"),
        };
        let (one, two) = (&first.name, &second.name);
        let message = format!(
            "streams `{one}` and `{two}` are {ways} by station `{station}` on port xdp, and a device has one {has}"
        );
        let key = |of: &Stream, end: &str| format!("stream.{}.{end}port", of.name);
        let keys = [key(second, &format!("{other}.")), key(first, &format!("{end}.")), key(second, ""), key(first, "")];
        let help = format!("{} one of them on port packet", if other == "rx" { "receive" } else { "send" });
        return Err(view.combination(&keys, message, help));
    }
    Ok(())
}

/// VLAN devices for port `udp`: a device knows one PCP for a socket priority, and a run has
/// addresses for a few of them.
pub(crate) fn tags(view: &View<'_>, streams: &[&Stream]) -> Result<(), Problem> {
    let key = |stream: &Stream, field: &str| format!("stream.{}.{field}", stream.name);
    let udp =
        || streams.iter().filter(|of| of.port.traits().tag == TagBy::Device).filter_map(|of| Some((*of, of.tag?)));
    let mut vlans = Vec::new();
    for (n, (stream, tag)) in udp().enumerate() {
        let clash = udp()
            .take(n)
            .find(|(other, of)| (of.vlan, other.priority) == (tag.vlan, stream.priority) && of.pcp != tag.pcp);
        if let Some((other, of)) = clash {
            let message = format!(
                "streams `{}` and `{}` go over VLAN {} with priority {}, one as PCP {}, the other as PCP {}: a VLAN device \
                 makes the PCP from the priority",
                other.name, stream.name, tag.vlan, stream.priority, of.pcp, tag.pcp
            );
            let keys = [key(stream, "pcp"), key(other, "pcp"), key(stream, "priority")];
            return Err(view.combination(&keys, message, "give them different priorities".to_owned()));
        }
        if !vlans.contains(&tag.vlan) {
            vlans.push(tag.vlan);
        }
        if vlans.len() > MOST_VLANS {
            let message = format!("more than {MOST_VLANS} VLANs over port udp");
            return Err(view.combination(&[key(stream, "vlan")], message, "take port = \"packet\"".to_owned()));
        }
    }
    Ok(())
}

/// Whoever measures over what is there already changes nothing there: no queue discipline, no VLAN
/// device, no XDP program, no other place where packets are taken in.
pub(crate) fn nothing_changes(
    view: &View<'_>,
    path: &Path,
    shaper: &Shaper,
    softirq: &Softirq,
    streams: &[Stream],
) -> Result<(), Problem> {
    if path.traits().devices != Devices::Own {
        return Ok(());
    }
    let of = |stream: &Stream, field: &str| format!("stream.{}.{field}", stream.name);
    let shaped = (*shaper != Shaper::None).then(|| "shaper.kind".to_owned());
    let steered = softirq.cpus.keys().map(|name| format!("station.{name}.softirq"));
    let queued = softirq.by_pcp.then(|| "path.pcp_queues".to_owned());
    let tagged = streams.iter().filter(|of| of.tag.is_some() && of.port.traits().tag == TagBy::Device);
    let received = streams.iter().filter(|of| of.rx.port.passes_xdp());
    let sent = streams.iter().filter(|of| of.port.passes_xdp());
    let changes = shaped
        .into_iter()
        .chain(steered)
        .chain(queued)
        .chain(tagged.map(|stream| of(stream, "vlan")))
        .chain(received.map(|stream| of(stream, "rx.port")))
        .chain(sent.map(|stream| of(stream, "tx.port")));
    let Some(key) = changes.into_iter().next() else { return Ok(()) };
    let message = format!(
        "`{key}` would change a device of its machine, and path {} leaves everything there as it is",
        path.traits().name
    );
    let help = "leave it out, or write path.kind = \"wire\", which takes devices and gives them back";
    Err(view.combination(&[key, "path.kind".to_owned()], message, help.to_owned()))
}

/// Queues by priority are for packets that have one.
pub(crate) fn pcp_queues(view: &View<'_>, softirq: &Softirq, streams: &[Stream]) -> Result<(), Problem> {
    if softirq.by_pcp && streams.iter().all(|stream| stream.tag.is_none()) {
        let message = "`path.pcp_queues` is true, and no stream has a VLAN tag".to_owned();
        return Err(view.combination(
            &["path.pcp_queues".to_owned()],
            message,
            "write vlan and pcp in a stream, or leave it out".to_owned(),
        ));
    }
    Ok(())
}

/// A packet must fit the path in one piece, its reply too; TCP cuts by itself.
pub(crate) fn sizes(view: &View<'_>, streams: &[Stream], mtu: u32) {
    for stream in streams {
        let port = stream.port.traits();
        if port.is_connection || port.is_simulated {
            continue;
        }
        let headers = stream.headers();
        let most = mtu.saturating_sub(headers);
        // A reply that is as large as its request is wrong with it.
        let reply = Some(("reply_size", stream.reply.size))
            .filter(|(_, size)| stream.kind.is_answered() && *size != stream.size);
        for (field, size) in [("size", stream.size)].into_iter().chain(reply) {
            let of_reply: &[&str] = if field == "size" { &[] } else { &["kind", "reflect"] };
            let is_known = ["port", "tx.port", "ip", "vlan"]
                .iter()
                .chain(of_reply)
                .all(|of| view.is_sound(&format!("stream.{}.{of}", stream.name)));
            if u32::from(size) > most && is_known {
                let key = format!("stream.{}.{field}", stream.name);
                let message = match headers {
                    0 => format!("`{key}` of {size}B does not fit `path.mtu`, {mtu}"),
                    _ => format!(
                        "`{key}` of {size}B does not fit `path.mtu`, {mtu}, less {headers} bytes of IP and UDP headers"
                    ),
                };
                let keys = [key, "path.mtu".to_owned()];
                view.keep::<()>(Err(view.combination(&keys, message, format!("write at most \"{most}B\""))));
            }
        }
    }
}

/// A queue that an end on port `xdp` names, of devices that the path makes. Those that are there
/// already show when they are opened how many they have.
pub(crate) fn queues(view: &View<'_>, streams: &[Stream], has: Option<u32>) {
    let Some(has) = has else { return };
    for stream in streams {
        let receives = stream.rx.queue.filter(|_| stream.rx.port.passes_xdp()).map(|queue| ("rx", queue));
        let sends = stream.tx.queue.filter(|_| !stream.port.traits().passes_qdisc).map(|queue| ("tx", queue));
        for (end, queue) in receives.into_iter().chain(sends) {
            let key = format!("stream.{}.{end}.queue", stream.name);
            if queue < has || !view.is_sound(&key) || !view.is_sound("path.queues") {
                continue;
            }
            let there = match has {
                1 => "one queue, number 0".to_owned(),
                more => format!("{more} queues, numbers 0 to {}", more - 1),
            };
            let message = format!("`{key}` is {queue}, and the devices of the path have {there}");
            let help = format!("write a number that is there, or path.queues = {}", queue + 1);
            view.keep::<()>(Err(view.combination(&[key, "path.queues".to_owned()], message, help)));
        }
    }
}

/// Which CPU a thread will have, as far as the file decides it.
#[derive(Clone, Copy, PartialEq)]
enum Slot {
    Number(u32),
    /// The one that tardy chooses for this stream, both of whose ends are on it.
    Shared(usize),
}

/// Two realtime threads that spin on one CPU: the second would never run.
pub(crate) fn spinners(view: &View<'_>, streams: &[&Stream]) -> Result<(), Problem> {
    let slot = |stream: &Stream, n: &usize, end: Side| {
        let (own, other) = match end {
            Side::Tx => (stream.tx.cpu, stream.rx.cpu),
            Side::Rx => (stream.rx.cpu, stream.tx.cpu),
            Side::Reply => (stream.reply.cpu, stream.tx.cpu),
        };
        match (own, other) {
            (CpuChoice::Number(cpu), _) | (CpuChoice::Same, CpuChoice::Number(cpu)) => Some(Slot::Number(cpu)),
            (CpuChoice::Same, _) | (CpuChoice::Auto, CpuChoice::Same) => Some(Slot::Shared(*n)),
            _ => None,
        }
    };
    let numbered = streams.iter().enumerate().map(|(n, stream)| (*stream, n));
    let Some((_, one, other)) = experiment::clash(numbered, slot) else { return Ok(()) };
    let key = |(stream, end): StreamThread<'_>, field: &str| format!("stream.{}.{end}.{field}", stream.name);
    let thread = |(stream, end): StreamThread<'_>| format!("`{}.{end}`", stream.name);
    let mut keys = Vec::new();
    for at in [other, one] {
        let sleeps_by = match (at.1, at.0.kind) {
            (Side::Tx, Kind::Cyclic | Kind::Reflected) => key(at, "spin"),
            (Side::Reply, _) => key((at.0, Side::Tx), "wait"),
            _ => key(at, "wait"),
        };
        keys.extend([key(at, "cpu"), sleeps_by, key(at, "policy")]);
    }
    let message = format!(
        "{} and {} both spin under a realtime policy on one CPU: one of them would never run",
        thread(one),
        thread(other)
    );
    Err(view.combination(
        &keys,
        message,
        format!("give {} another CPU, policy = \"other\", or let it sleep", thread(other)),
    ))
}

/// `same` and `different` need a thread that receives at the station and is pinned.
pub(crate) fn softirq(view: &View<'_>, softirq: &Softirq, streams: &[Stream]) -> Result<(), Problem> {
    let relative = |cpu: &CpuChoice| matches!(cpu, CpuChoice::Same | CpuChoice::Different);
    for (station, choice) in softirq.cpus.iter().filter(|(_, choice)| !matches!(choice, CpuChoice::Number(_))) {
        let key = format!("station.{station}.softirq");
        let by_program = |stream: &&Stream| stream.rx.core.is_some() && stream.to == *station;
        if let Some(stream) = streams.iter().find(by_program) {
            let core = format!("stream.{}.rx.core", stream.name);
            let message = format!(
                "`{key}` is \"{choice}\", which depends on where `{}.rx` is, and `{core}` on where the XDP program runs",
                stream.name
            );
            return Err(view.combination(
                &[key, core],
                message,
                "write the number of a CPU, or leave it out".to_owned(),
            ));
        }
        if !relative(choice) {
            continue;
        }
        let Some((stream, end)) = experiment::receiver_at(streams, station) else {
            let message = format!("`{key}` is \"{choice}\", and no stream's packets arrive at `{station}`");
            return Err(view.combination(&[key], message, "write a number, or leave it out".to_owned()));
        };
        if end.cpu(stream) == CpuChoice::Any {
            let thread = format!("stream.{}.{end}.cpu", stream.name);
            let message = format!("`{key}` is \"{choice}\" as `{}.{end}`, which is not pinned", stream.name);
            let help = format!("write {thread} = \"auto\"");
            return Err(view.combination(&[key, thread], message, help));
        }
    }
    Ok(())
}
