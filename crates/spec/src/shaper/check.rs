// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of a queue discipline cannot work, found before anything is touched.

use crate::cell::{Table, View, integer, rate};
use crate::error::Problem;
use crate::experiment::Path;
use crate::schema::show_duration;
use tardy_model::gates::Gates;
use tardy_model::load::{Load, LoadKind};
use tardy_model::path::DeviceClock;
use tardy_model::shaper::{Classes, Etf, Mode, PRIORITIES, Queues, Shaper, Taprio, frame_time, show_rate};
use tardy_model::stream::{Launch, Stream, all_simulated};
use tardy_model::time::Nanos;

/// IP packet of the longest message that PTP needs to keep time: an Announce with path trace over
/// UDP and IPv6.
const PTP_PACKET: u32 = 128;

/// Queues that fit together and that the device has.
pub(super) fn queues(table: &Table<'_>, cell: &Rest<'_>, queues: &[Queues], classes: usize) -> Result<(), Problem> {
    if queues.len() != classes {
        let message = format!("`shaper.class_queues` has {} entries, and there are {classes} classes", queues.len());
        return Err(table.wrong(&["class_queues", "classes"], message, "write the queues of each class"));
    }
    let mut taken: Vec<(u32, u32)> = queues.iter().map(|of| (of.offset, of.offset + of.count)).collect();
    taken.sort_unstable();
    if let Some(pair) = taken.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        let message = format!("`shaper.class_queues` gives queue {} to two classes", pair[1].0);
        return Err(table.wrong(&["class_queues"], message, "give each class queues of its own"));
    }
    let needed = taken.last().map_or(0, |(_, end)| *end);
    // A device that the path does not make is examined before the run.
    let Some(has) = cell.path.queues.filter(|_| !cell.is_simulated()) else { return Ok(()) };
    if needed > has {
        let message =
            format!("`shaper.class_queues` needs {needed} transmit queues, and the device has {has} (`path.queues`)");
        return Err(table.wrong(
            &["class_queues", "classes"],
            message,
            format!("write path.queues = {needed}, or fewer classes"),
        ));
    }
    if has < 2 {
        let message = "a queue discipline with classes needs more than one transmit queue (`path.queues`)".to_owned();
        return Err(table.wrong(&["classes"], message, "write path.queues = 4"));
    }
    Ok(())
}

/// True if the load sends through the network.
fn sends(kind: &LoadKind) -> bool {
    !matches!(kind.name(), "cpu" | "memory" | "command")
}

/// The priorities of a class, in brackets: ` (priorities 0 to 12, 14)`.
fn priorities(classes: &Classes, class: u8) -> String {
    let of_class: Vec<u32> = (0..PRIORITIES as u32).filter(|priority| classes.of(*priority) == class).collect();
    let runs: Vec<String> = of_class
        .chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first} to {last}"),
            [] => String::new(),
        })
        .collect();
    match of_class.len() {
        0 => String::new(),
        1 => format!(" (priority {})", runs.join(", ")),
        _ => format!(" (priorities {})", runs.join(", ")),
    }
}

/// Each class has a window, and each frame fits into one.
pub(super) fn windows(table: &Table<'_>, cell: &Rest<'_>, taprio: &Taprio) -> Result<(), Problem> {
    let Taprio { classes, schedule, .. } = taprio;
    let bit_s = table.get("port_rate", rate)?;
    let ptp = classes.of(table.get("ptp_priority", integer)? as u32);
    let gates: Vec<Gates> = (0..classes.count()).map(|class| Gates::of(schedule, class)).collect();
    let shortest = |class: u8| gates[usize::from(class)].windows.iter().min_by_key(|window| window.length_ns());
    let closed: Vec<u8> = (0..classes.count()).filter(|class| shortest(*class).is_none()).collect();
    if !closed.is_empty() {
        let each: Vec<String> = closed.iter().map(|class| format!("{class}{}", priorities(classes, *class))).collect();
        let windows: Vec<String> = closed.iter().map(|class| format!("\"{class} 100us\"")).collect();
        let (classes, have, they, them) = match closed.len() {
            1 => ("class", "has", "it", "it"),
            _ => ("classes", "have", "they", "them"),
        };
        let also = match closed.contains(&ptp) {
            true => format!("; PTP's own frames are in class {ptp}, so clocks would part"),
            false => String::new(),
        };
        let each = each.join(", ");
        let message = format!("{classes} {each} {have} no window in `shaper.entries`: {they} could never send{also}");
        let help = format!("open {them}: {}", windows.join(", "));
        return Err(table.wrong(&["entries", "classes"], message, help));
    }
    // A window in which no frame fits lets none go, however long the others of its class are.
    let short = |class: u8, needs: Nanos, what: String| {
        let Some(window) = shortest(class).filter(|window| window.length_ns() < needs.0) else { return Ok(()) };
        let message = format!(
            "{what} of class {class} take {} on the wire at `shaper.port_rate` {}, with preamble and gap, and none fits its window of {}, \
             which opens {} after the cycle begins",
            show_duration(needs),
            show_rate(bit_s),
            show_duration(Nanos(window.length_ns())),
            show_duration(Nanos(window.open_ns))
        );
        Err(table.wrong(&["entries", "port_rate"], message, "write a longer window, or smaller packets"))
    };
    short(ptp, frame_time(PTP_PACKET, false, bit_s), "PTP's own frames".to_owned())?;
    for stream in cell.streams {
        let (class, needs) = (classes.of(stream.priority), stream.frame_time(bit_s));
        short(class, needs, format!("packets of stream `{}`", stream.name))?;
    }
    match cell.loads.iter().find(|load| sends(&load.kind)) {
        Some(load) => {
            let needs = frame_time(cell.path.mtu, false, bit_s);
            short(classes.of(0), needs, format!("full packets of load `{}`, which has priority 0,", load.name))
        }
        None => Ok(()),
    }
}

/// What the device cannot be, as far as the file says what it is.
pub(super) fn device(table: &Table<'_>, cell: &Rest<'_>, shaper: &Shaper) -> Result<(), Problem> {
    if let Some(what) = shaper.offloads().filter(|_| cell.is_simulated()) {
        let message = format!("{what} on port sim, which has no device");
        let field = match shaper {
            Shaper::Taprio(Taprio { mode: Mode::Offload, .. }) => "mode",
            Shaper::Cbs(_) => "cbs.offload",
            _ => "etf.offload",
        };
        return Err(table.wrong(&[field], message, "leave it to the kernel, or take another port"));
    }
    let ptp = table.get("ptp_priority", integer)? as u32;
    let gives_times = matches!(shaper, Shaper::Taprio(Taprio { mode: Mode::TxtimeAssist { .. }, .. }));
    if cell.path.traits().carries_ptp && !cell.is_simulated() && shaper.etf(ptp).is_some() && !gives_times {
        let message = format!("PTP's own frames, of priority {ptp}, would be dropped by etf: they have no launch time");
        let fields = ["etf.classes", "ptp_priority", "kind"];
        return Err(table.wrong(&fields, message, "give etf a class of its own, below mqprio"));
    }
    Ok(())
}

/// Launch times and the queue discipline that they meet.
pub(super) fn launches(view: &View<'_>, table: &Table<'_>, cell: &Rest<'_>, shaper: &Shaper) -> Result<(), Problem> {
    let bit_s = table.get("port_rate", rate)?;
    let gives_times = matches!(shaper, Shaper::Taprio(Taprio { mode: Mode::TxtimeAssist { .. }, .. }));
    for stream in cell.streams {
        if let Some(etf) = shaper.etf(stream.priority) {
            let is_known = view.is_sound("shaper.etf.delta");
            let held = || if is_known { held_by_etf(view, stream, etf) } else { Ok(()) };
            view.keep(taken_by_etf(view, stream, etf, gives_times).and_then(|()| held()));
        }
        if let Some(taprio) = shaper.taprio().filter(|_| stream.launch.is_some()) {
            view.keep(in_windows(view, stream, taprio, bit_s));
        }
    }
    let load = cell.loads.iter().find(|load| sends(&load.kind) && shaper.etf(0).is_some() && !gives_times);
    if let Some(load) = load {
        let message =
            format!("etf drops every packet of load `{}`, of priority 0: they have no launch time", load.name);
        let keys = [format!("load.{}.kind", load.name), "shaper.etf.classes".to_owned()];
        return Err(view.combination(&keys, message, "give etf a class of its own, below mqprio".to_owned()));
    }
    Ok(())
}

/// What AF_XDP sends comes to no queue discipline: the kernel can neither hold nor order it.
pub(super) fn passed_by(view: &View<'_>, cell: &Rest<'_>, shaper: &Shaper) -> Result<(), Problem> {
    let (path, mut by_xdp) = (cell.path.traits(), cell.streams.iter().filter(|of| !of.port.traits().passes_qdisc));
    let Some(stream) = by_xdp.clone().next() else { return Ok(()) };
    let ports = |stream: &Stream| ["tx.port", "port"].map(|end| format!("stream.{}.{end}", stream.name));
    if *shaper != Shaper::None && shaper.offloads().is_none() {
        let kind = shaper.kind();
        let message = format!(
            "stream `{}` is sent on port xdp, past every queue discipline, and the kernel's {kind} would never see it",
            stream.name
        );
        let keys: Vec<String> = ["shaper.kind".to_owned()].into_iter().chain(ports(stream)).collect();
        let help = format!("write stream.{}.tx.port = \"packet\", or leave the shaper to the device", stream.name);
        return Err(view.combination(&keys, message, help));
    }
    if let Some(stream) = by_xdp.clone().find(|stream| stream.tx.queue.is_some())
        && shaper.classes().is_some()
    {
        let key = format!("stream.{}.tx.queue", stream.name);
        let message = format!(
            "`{key}`: the device's {} has queues for each class, and the class of stream `{}` follows from its priority",
            shaper.kind(),
            stream.name
        );
        let help = format!("leave it out, or write stream.{}.priority", stream.name);
        return Err(view.combination(&[key, "shaper.kind".to_owned()], message, help));
    }
    let Some(stream) = by_xdp.find(|stream| stream.launch.is_some() && path.clock == DeviceClock::None) else {
        return Ok(());
    };
    let message = format!(
        "`{}` is \"{}\" on port xdp, where only a device can keep launch times, and path {} joins virtual links, \
         which have no clock of their own",
        launch_key(stream),
        stream.launch.name(),
        path.name
    );
    let keys: Vec<String> = [launch_key(stream)].into_iter().chain(ports(stream)).collect();
    let help = format!("write {} = \"none\", or stream.{}.tx.port = \"packet\"", launch_key(stream), stream.name);
    Err(view.combination(&keys, message, help))
}

/// The key of a stream's launch times.
fn launch_key(stream: &Stream) -> String {
    format!("stream.{}.launch", stream.name)
}

/// etf drops packets without the launch times that it wants.
fn taken_by_etf(view: &View<'_>, stream: &Stream, etf: &Etf, gives_times: bool) -> Result<(), Problem> {
    let launch = launch_key(stream);
    let keys = |shaper: &str| [launch.clone(), format!("shaper.{shaper}")];
    if !stream.launch.is_some() && !gives_times {
        let message = format!("etf drops every packet of stream `{}`: they have no launch time", stream.name);
        return Err(view.combination(&keys("kind"), message, format!("write {launch} = \"strict\"")));
    }
    if !stream.launch.is_some() && !etf.skip_sock_check {
        let message = format!(
            "etf drops every packet of stream `{}`: its socket asks for no launch times, and `shaper.etf.skip_sock_check` is false",
            stream.name
        );
        let help = "write skip_sock_check = true".to_owned();
        return Err(view.combination(&keys("etf.skip_sock_check"), message, help));
    }
    let wants = if etf.deadline_mode { Launch::Deadline } else { Launch::Strict };
    if stream.launch.is_some() && stream.launch != wants && !etf.skip_sock_check {
        let message = format!(
            "`{launch}` is \"{}\" and `shaper.etf.deadline_mode` is {}: etf refuses such packets",
            stream.launch.name(),
            etf.deadline_mode
        );
        let help = format!("write launch = \"{}\"", wants.name());
        return Err(view.combination(&keys("etf.deadline_mode"), message, help));
    }
    Ok(())
}

/// Packets must come to etf before the moment at which it would hand them over.
fn held_by_etf(view: &View<'_>, stream: &Stream, etf: &Etf) -> Result<(), Problem> {
    let (advance, delta) = (stream.tx.advance, etf.delta);
    if !stream.launch.is_some() || !stream.kind.is_scheduled() || advance > delta {
        return Ok(());
    }
    let advance_key = format!("stream.{}.tx.advance", stream.name);
    let message = format!(
        "`{advance_key}` is {} and `shaper.etf.delta` {}: packets would come too late for etf to hold them",
        show_duration(advance),
        show_duration(delta)
    );
    let keys = [advance_key, "shaper.etf.delta".to_owned(), launch_key(stream)];
    let help = format!(
        "write an advance above {} and what the timer is late by, as advance = \"{}\"",
        show_duration(delta),
        show_duration(Nanos(delta.0.saturating_add(200_000)))
    );
    Err(view.combination(&keys, message, help))
}

/// taprio drops packets whose launch times do not fall into windows of their class.
fn in_windows(view: &View<'_>, stream: &Stream, taprio: &Taprio, bit_s: u64) -> Result<(), Problem> {
    let class = taprio.classes.of(stream.priority);
    let needs = stream.frame_time(bit_s).0;
    if Gates::by_entry(&taprio.schedule, class).phases(stream.cycle.0, needs).is_some() {
        return Ok(());
    }
    let message = format!(
        "launch times of stream `{}`, every {}, do not all fall into windows of class {class} with room for the frame in one entry, in \
         a cycle of {}: taprio drops the others",
        stream.name,
        show_duration(stream.cycle),
        show_duration(taprio.schedule.cycle)
    );
    let keys = [format!("stream.{}.cycle", stream.name), "shaper.entries".to_owned(), launch_key(stream)];
    let help = "make one cycle a multiple of the other, or write launch = \"none\"".to_owned();
    Err(view.combination(&keys, message, help))
}

/// What the rest of the cell says, for the checks.
#[derive(Clone, Copy)]
pub(super) struct Rest<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) path: &'a Path,
    pub(super) streams: &'a [Stream],
    pub(super) loads: &'a [Load],
}

impl Rest<'_> {
    pub(super) fn is_simulated(&self) -> bool {
        all_simulated(self.streams)
    }
}
