// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network devices: what delays packets in them, what they can stamp, and who else is attached.

use crate::check::{Area, Check, Fix, list};
use crate::nics::{OFFLOADS, SeenNic};
use crate::seen::{Seen, count};
use tardy_host::change::{Change, DeviceChange, DeviceSetting, pause_words};
use tardy_host::nic::Use;
use tardy_model::xdp::XdpMode;
use tardy_sys::ethtool::Pause;

const AREA: Area = Area::Network;
/// Changing this makes most devices agree with the other end again: the link is down for seconds.
const RENEGOTIATES: &str = "the link goes down for some seconds then";
/// A device that waits for longer before it interrupts spoils figures, µs.
const LONG_US: u32 = 10;

pub(crate) fn checks(seen: &Seen, _: &[u32]) -> Vec<Check> {
    let of_nic = |nic: &SeenNic| of_nic(nic).into_iter().chain(queue_irqs(seen, nic)).collect::<Vec<_>>();
    seen.nics.iter().flat_map(of_nic).collect()
}

/// Where the interrupts of a device's queues go. Whether one may go to a CPU that is to be left
/// alone is for [`interrupts`](crate::interrupts) to say.
fn queue_irqs(all: &Seen, seen: &SeenNic) -> Option<Check> {
    const ID: &str = "queue-irqs";
    let name = &seen.nic.name;
    let each: Vec<String> = all
        .interrupts
        .iter()
        .filter(|irq| seen.irqs.contains(&irq.number))
        .map(|irq| {
            let (goes, may) = (list(&irq.effective), list(&irq.allowed));
            let may = if goes == may { String::new() } else { format!(", and may go to {may}") };
            format!("{} ({}) goes to CPU {goes}{may}", irq.number, irq.name)
        })
        .collect();
    let fact = format!("{name}: of its interrupts, {}", each.join("; "));
    (!each.is_empty()).then(|| Check::fine(ID, AREA, fact).of(name))
}

fn of_nic(seen: &SeenNic) -> Vec<Check> {
    let mut checks = vec![link(seen), coalescing(seen), offloads(seen)];
    checks.extend(eee(seen));
    checks.extend(pause(seen));
    checks.extend([stamps(seen), xdp(seen)]);
    checks.extend(modes(seen));
    checks.extend(attached(seen));
    checks.extend(qdisc(seen));
    checks.extend(tags(seen));
    checks
}

fn change(seen: &SeenNic, setting: DeviceSetting, set: &str, was: String) -> Change {
    let (device, ifindex) = (seen.nic.name.clone(), seen.nic.ifindex);
    Change::Device(DeviceChange { device, ifindex, setting, set: set.to_owned(), was })
}

fn link(seen: &SeenNic) -> Check {
    const ID: &str = "link";
    let (name, nic) = (&seen.nic.name, &seen.nic);
    let driver = nic.driver.as_deref().unwrap_or("unknown");
    let queues = match seen.queues {
        Some((rx, tx)) => format!("{rx} receive and {}", count(tx as usize, "transmit queue")),
        None => "an unknown number of queues".to_owned(),
    };
    let speed = nic.speed_mbit.map(|speed| format!(", {speed} Mbit/s")).unwrap_or_default();
    let fact = format!("{name}: driver {driver}, {queues}{speed}, MTU {}, its link is {}", nic.mtu, nic.link);
    if nic.up && nic.link != "down" {
        return Check::fine(ID, AREA, fact).of(name);
    }
    let fix = Fix::by(if nic.up {
        "plug the cable in, or have the other end set up"
    } else {
        "set it up, if it is to be used"
    });
    Check::note(ID, AREA, fact, "no packet goes through it", fix).of(name)
}

fn coalescing(seen: &SeenNic) -> Check {
    const ID: &str = "coalescing";
    let name = &seen.nic.name;
    let Some(set) = seen.coalescing else {
        return Check::fine(
            ID,
            AREA,
            format!("{name}: its driver reports no gathering of packets before an interrupt"),
        )
        .of(name);
    };
    // These drivers take small numbers for modes in which they choose the time by the traffic.
    let modes = match seen.nic.driver.as_deref() {
        Some("igb" | "igc" | "e1000e") => 3,
        Some("ixgbe") => 1,
        _ => 0,
    };
    let by_traffic = (1..=modes).contains(&set.rx_us) || (1..=modes).contains(&set.tx_us);
    let adaptive = set.adaptive_rx || set.adaptive_tx || by_traffic;
    let frames = |frames: u32| if frames > 1 { format!(" or for {frames} packets") } else { String::new() };
    let way = |us: u32, most: u32| match (1..=modes).contains(&us) {
        true => format!("mode {us}"),
        false => format!("{us} µs{}", frames(most)),
    };
    let fact = format!(
        "{name}: an interrupt waits behind a packet received for {}, and behind one sent for {}{}",
        way(set.rx_us, set.rx_frames),
        way(set.tx_us, set.tx_frames),
        if adaptive { "; the driver chooses the time by the traffic" } else { "" },
    );
    let most_us = set.rx_us.max(set.tx_us);
    if most_us == 0 && !adaptive && set.rx_frames.max(set.tx_frames) <= 1 {
        return Check::fine(ID, AREA, fact).of(name);
    }
    // The mode goes off before its time is set: drivers refuse the time of a mode that is on.
    let mut fix = Fix::by("have it interrupt for each packet");
    for (is_set, setting, off, was) in [
        (set.adaptive_rx, DeviceSetting::AdaptiveRx, "off", "on".to_owned()),
        (set.adaptive_tx, DeviceSetting::AdaptiveTx, "off", "on".to_owned()),
        (set.rx_us > 0, DeviceSetting::RxUsecs, "0", set.rx_us.to_string()),
        (set.tx_us > 0, DeviceSetting::TxUsecs, "0", set.tx_us.to_string()),
    ] {
        if is_set {
            fix = fix.change(change(seen, setting, off, was));
        }
    }
    let costs = match adaptive {
        true => {
            "a packet waits in the device by how many came before: the same stream is late by another time each day"
                .to_owned()
        }
        false if most_us == 0 => "a packet may wait in the device until others come".to_owned(),
        false => format!("a packet that comes alone waits up to {most_us} µs in the device"),
    };
    match adaptive || set.rx_us > LONG_US {
        true => Check::spoils(ID, AREA, fact, costs, fix).of(name),
        false => Check::note(ID, AREA, fact, costs, fix).of(name),
    }
}

fn offloads(seen: &SeenNic) -> Check {
    const ID: &str = "offloads";
    let name = &seen.nic.name;
    let on = OFFLOADS.iter().filter(|of| seen.offloads.get(of.feature).is_some_and(|feature| feature.on));
    let on: Vec<_> = on.collect();
    if on.is_empty() {
        return Check::fine(ID, AREA, format!("{name}: nobody puts packets together or takes them apart")).of(name);
    }
    let does = on.iter().map(|of| format!("{} ({})", of.option, of.does)).collect::<Vec<_>>().join(", ");
    let mut fix = Fix::by(
        "switch them off where small packets share the device with bulk traffic, and limit what TCP hands over at once, which \
         it does without TSO too (gso_max_size)",
    );
    let switchable = on.iter().filter(|of| seen.offloads.get(of.feature).is_some_and(|feature| feature.switchable));
    for setting in switchable.filter_map(|of| DeviceSetting::feature(of.option)) {
        fix = fix.change(change(seen, setting, "off", "on".to_owned()));
    }
    // 2 packets of 1500 bytes.
    if let Some(was) = seen.nic.gso_max_size.filter(|was| *was > 3_000) {
        fix = fix.change(change(seen, DeviceSetting::GsoMaxSize, "3000", was.to_string()));
    }
    let costs = "packets that came together are handed on together, and one behind up to 64 KiB of TCP waits for them: 0.5 ms at 1 Gbit/s";
    Check::note(ID, AREA, format!("{name}: {does}"), costs, fix).of(name)
}

fn eee(seen: &SeenNic) -> Option<Check> {
    const ID: &str = "eee";
    let (name, set) = (&seen.nic.name, seen.eee?);
    if !set.is_enabled {
        return Some(Check::fine(ID, AREA, format!("{name}: its link does not sleep")).of(name));
    }
    let fix = Fix::by(format!("switch it off at one end; {RENEGOTIATES}")).change(change(
        seen,
        DeviceSetting::Eee,
        "off",
        "on".to_owned(),
    ));
    let fact = match set.is_active {
        true => format!("{name}: its link sleeps between packets (EEE)"),
        false => format!("{name}: its link would sleep between packets (EEE), and the other end does not"),
    };
    let costs = "a packet on a sleeping link waits until it wakes: 17 µs at 1 Gbit/s, 31 µs at 100 Mbit/s";
    Some(match set.is_active {
        true => Check::spoils(ID, AREA, fact, costs, fix).of(name),
        false => Check::note(ID, AREA, fact, costs, fix).of(name),
    })
}

fn pause(seen: &SeenNic) -> Option<Check> {
    const ID: &str = "pause";
    let (name, set) = (&seen.nic.name, seen.pause?);
    let says = match (set.rx, set.tx) {
        (false, false) => return Some(Check::fine(ID, AREA, format!("{name}: pause frames stop nobody")).of(name)),
        (true, true) => "each end may stop the other",
        (true, false) => "the other end may stop it",
        (false, true) => "it may stop the other end",
    };
    let off = pause_words(Pause::default());
    let fix = Fix::by(format!("switch them off; {RENEGOTIATES}")).change(change(
        seen,
        DeviceSetting::Pause,
        &off,
        pause_words(set),
    ));
    let costs =
        "while a slow receiver has the link stopped nothing leaves, of no priority: up to 34 ms at a time at 1 Gbit/s";
    Some(Check::note(ID, AREA, format!("{name}: {says} by pause frames"), costs, fix).of(name))
}

fn stamps(seen: &SeenNic) -> Check {
    const ID: &str = "stamps";
    let name = &seen.nic.name;
    let can = match &seen.nic.can {
        Ok(can) => can,
        Err(why) => {
            let fact = format!("{name}: what it can stamp is not known: {why}");
            return Check::unknown(ID, AREA, fact, format!("see what `ethtool -T {name}` prints")).of(name);
        }
    };
    let clock = match can.phc {
        number @ 0.. => format!("PTP clock /dev/ptp{number}"),
        _ => "no PTP clock".to_owned(),
    };
    let which = match (can.tx_hardware(), can.rx_all(), can.rx_hardware()) {
        (true, true, _) => "it stamps what it sends and each packet that arrives",
        (true, false, true) => "it stamps what it sends, and PTP's packets only of those that arrive",
        (true, false, false) => "it stamps what it sends, and nothing that arrives",
        (false, true, _) => "it stamps each packet that arrives, and nothing that it sends",
        (false, false, true) => "it stamps PTP's packets that arrive, and nothing else",
        (false, false, false) => "it stamps nothing by itself",
    };
    let fact = format!("{name}: {which}; {clock}");
    if can.tx_hardware() && can.rx_all() && can.phc >= 0 {
        return Check::fine(ID, AREA, fact).of(name);
    }
    let software = if can.tx_software() { "" } else { "; its driver does not stamp what it sends either (tx_kernel)" };
    let costs = format!("of its packets there is no complete time on the wire (tx_hw, rx_hw){software}");
    Check::note(ID, AREA, fact, costs, Fix::by("measure with what there is, or use a device that stamps each packet"))
        .of(name)
}

fn xdp(seen: &SeenNic) -> Check {
    const ID: &str = "xdp";
    let name = &seen.nic.name;
    let Some(xdp) = seen.xdp else {
        let fact = format!("{name}: the kernel does not say what it can do for XDP");
        return Check::unknown(ID, AREA, fact, "Linux 6.3 and later do").of(name);
    };
    let mut can = Vec::new();
    can.push(match (xdp.native, xdp.zero_copy) {
        (true, true) => "XDP in its driver, and AF_XDP without copying",
        (true, false) => "XDP in its driver; AF_XDP copies",
        (false, _) => "XDP behind its driver only (generic)",
    });
    can.extend(xdp.tx_timestamp.then_some("stamps of what AF_XDP sends"));
    can.extend(xdp.tx_launch_time.then_some("launch times of what AF_XDP sends"));
    let fact = format!("{name}: {}", can.join(", "));
    if xdp.native {
        return Check::fine(ID, AREA, fact).of(name);
    }
    let costs = "an XDP program runs on the kernel's packet buffers, some µs later, and its stamp is as late";
    Check::note(ID, AREA, fact, costs, Fix::by("use a device whose driver runs XDP, if XDP is measured")).of(name)
}

/// What was tried on the device itself.
fn modes(seen: &SeenNic) -> Option<Check> {
    const ID: &str = "xdp-tried";
    let (name, modes) = (&seen.nic.name, seen.modes.as_ref()?);
    let words = |(mode, result): &(XdpMode, Result<(), String>)| match result {
        Ok(()) => format!("{} works", mode.name()),
        Err(why) => format!("{} does not ({why})", mode.name()),
    };
    let fact = format!("{name}: XDP, tried on it: {}", modes.iter().map(words).collect::<Vec<_>>().join(", "));
    if modes.iter().all(|(_, result)| result.is_ok()) {
        return Some(Check::fine(ID, AREA, fact).of(name));
    }
    let costs = "experiments that attach a program in that mode are refused on this device";
    let fix = Fix::by("measure in the mode that works, or use a device whose driver has the other");
    Some(Check::note(ID, AREA, fact, costs, fix).of(name))
}

fn attached(seen: &SeenNic) -> Option<Check> {
    const ID: &str = "programs";
    let name = &seen.nic.name;
    let has_xdp = seen.nic.uses.contains(&Use::Xdp);
    let Some(programs) = &seen.programs else {
        let fact = format!("{name}: the kernel does not show this user which BPF programs are attached");
        return Some(Check::unknown(ID, AREA, fact, "look as root").of(name));
    };
    if !has_xdp && programs.is_empty() {
        return Some(Check::fine(ID, AREA, format!("{name}: no BPF program is attached")).of(name));
    }
    let mut what = Vec::new();
    what.extend(has_xdp.then(|| "an XDP program".to_owned()));
    if !programs.is_empty() {
        let ids = programs.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        what.push(format!("{} of tc ({ids})", count(programs.len(), "program")));
    }
    let fact = format!("{name}: {} sees each packet", what.join(" and "));
    let costs = "each runs for each packet, and one that prints (bpf_printk) takes some µs";
    let fix = Fix::by(format!(
        "see whose they are with `bpftool net show dev {name}`, and take off what is not to be measured"
    ));
    Some(Check::note(ID, AREA, fact, costs, fix).of(name))
}

fn qdisc(seen: &SeenNic) -> Option<Check> {
    const ID: &str = "qdisc";
    let name = &seen.nic.name;
    let set = seen.nic.uses.iter().find_map(|of| if let Use::Qdisc(kind) = of { Some(kind) } else { None })?;
    let fact = format!("{name}: somebody has set the queue discipline {set}");
    let costs = "it decides in which order packets leave, and when";
    let fix = Fix::by(format!(
        "see `tc -s qdisc show dev {name}`; an experiment that sets its own needs the device without it"
    ));
    Some(Check::note(ID, AREA, fact, costs, fix).of(name))
}

fn tags(seen: &SeenNic) -> Option<Check> {
    const ID: &str = "vlan-tags";
    let name = &seen.nic.name;
    let count = match seen.twice_tagged.as_ref()? {
        Ok(0) => {
            let fact = format!("{name}: no frame with two VLAN tags came in while tardy listened");
            return Some(Check::fine(ID, AREA, fact).of(name));
        }
        Ok(frames) => count(*frames as usize, "frame"),
        Err(why) => {
            let fact = format!("{name}: whether frames with two VLAN tags come in is not known: {why}");
            return Some(Check::unknown(ID, AREA, fact, "listen as root").of(name));
        }
    };
    let costs = "a device that looks behind one tag only stamps none of these frames, spreads them over no queues, and leaves their \
                 checksums to the kernel";
    let fix =
        Fix::by("have the switch take one tag off where such frames are measured, or compare with frames of one tag");
    Some(
        Check::note(ID, AREA, format!("{name}: {count} with two VLAN tags came in while tardy listened"), costs, fix)
            .of(name),
    )
}
