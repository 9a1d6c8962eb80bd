// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about trials that went wrong as a whole: one that failed, began too late, lost its
//! receiver or was interrupted. And rules about what was found on the path before the first packet.

use super::{Evidence, Rule, SPOILS, Spoils};
use crate::outcomes::{Broke, of_receive};
use crate::says;
use std::collections::BTreeSet;
use tardy_model::point::Point;
use tardy_model::validity;
use tardy_model::verdict::{Figure, Level, Verdict};
use tardy_model::xdp::{
    Inspection, LOOPBACK, ObjectRecord, ProbeRecord, ProbeRoute, ProgramCost, ProgramRecord, ProgramSeen,
    SpecialRecord, XdpMode,
};

/// `failed`: something broke during the trial.
pub(super) const FAILED: Rule = Rule { id: "failed", spoils: Spoils::Measuring, judge: failed };

fn failed(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let broken = |why: &String| {
        let says = format!("trial {} failed: {why}", evidence.record.n);
        Verdict::new(FAILED.id, Level::Invalid, says).with("reason", why.as_str())
    };
    evidence.record.failed.iter().map(broken).collect()
}

/// `late-start`: a sender got the order to begin when its first packet was already due. tardy
/// itself made the packets late that were due before the order: the threads that pass the order on
/// are ordinary ones, and wait where a measuring thread does not.
pub(super) const LATE_START: Rule = Rule { id: "late-start", spoils: Spoils::Measuring, judge: late_start };

fn late_start(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (stream, record) in evidence.record.streams.iter().filter(|(_, record)| record.cycle_ns > 0) {
        let Some(late_ns) = record.tx.told_ahead_ns.map(i64::saturating_neg).filter(|late| *late > 0) else { continue };
        let packets = (late_ns / record.cycle_ns).saturating_add(1);
        let says = format!(
            "{stream}.tx learned of its start {} after its first packet was due, so {} late by tardy's own doing: the threads that \
             pass the order on had no CPU in time",
            says::time(late_ns),
            says::count(packets.unsigned_abs(), "packet is", "packets are")
        );
        verdicts.push(
            Verdict::new(LATE_START.id, Level::Invalid, says)
                .with("stream", stream.as_str())
                .with("late_ns", late_ns)
                .with("packets", packets),
        );
    }
    verdicts
}

/// `receiver-broke`: the receive call failed and ended the receiver, so that what came later was
/// received by nobody. The errno says whether that was an outage, which is what the trial found,
/// or something of tardy's own, which spoilt the measuring.
pub(super) const RECEIVER_BROKE: Rule = Rule { id: "receiver-broke", spoils: Spoils::Told, judge: receiver_broke };

fn receiver_broke(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let broke = evidence.ways().filter(|way| way.counters.receive_errno != 0);
    broke
        .map(|way| {
            let errno = way.counters.receive_errno;
            let lost = evidence.results.get(way.stream).map_or(0, |result| result.outcomes.lost);
            let then = match lost {
                0 => "from then on nobody received anything",
                _ => "later packets count as lost because nobody received them",
            };
            let says = match errno {
                ETIME => format!(
                    "no reply of {} came for a minute, or four timeouts if that is longer: what was not asked by then \
                     was not sent",
                    way.stream
                ),
                _ => format!(
                    "the receiver of {} ended in the trial, its receive call failing with errno {errno}{}: {then}",
                    way.name,
                    meaning_of_receive(errno)
                ),
            };
            let mut verdict = Verdict::new(RECEIVER_BROKE.id, Level::Invalid, says)
                .with("stream", way.stream)
                .with("errno", i64::from(errno));
            let spoils = match of_receive(errno) {
                Broke::Measuring => "measuring",
                Broke::Path => "path",
            };
            verdict = verdict.with(SPOILS, spoils);
            if let Some(result) = evidence.results.get(way.stream) {
                verdict = verdict.with("received", result.outcomes.received).with("lost", result.outcomes.lost);
            }
            verdict
        })
        .collect()
}

/// What a requester gives that hopes for replies no more.
const ETIME: i32 = 62;

/// What Linux means by the numbers that a receive call gives.
fn meaning_of_receive(errno: i32) -> &'static str {
    match errno {
        9 | 88 => " (the socket is gone)",
        12 | 105 => " (no memory for the packet)",
        19 | 6 => " (the device is gone)",
        74 => " (bytes came that are no message)",
        100 => " (the network is down)",
        103 => " (the kernel ended the connection)",
        104 => " (the peer reset the connection)",
        108 => " (the peer closed the connection)",
        110 => " (the connection timed out)",
        111 => " (the peer refused)",
        _ => "",
    }
}

/// `interrupted`: a signal ended the trial before its count.
pub(super) const INTERRUPTED: Rule = Rule { id: "interrupted", spoils: Spoils::Measuring, judge: interrupted };

fn interrupted(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if !evidence.record.interrupted {
        return Vec::new();
    }
    let verdict = |(stream, record): (&String, &tardy_model::trial::StreamRecord)| {
        let outcomes = evidence.results.get(stream).map(|result| &result.outcomes);
        // A copy has a row for each of its passes, whether it was done or not.
        let (rows, what) = match record.copy {
            Some(_) => (outcomes.map_or(0, |outcomes| outcomes.received), "passes"),
            None => (outcomes.map_or(0, |outcomes| outcomes.intended), "packets"),
        };
        let says = format!("the trial was interrupted after {rows} of {} {what} of {stream}", record.intended);
        Verdict::new(INTERRUPTED.id, Level::Note, says)
            .with("stream", stream.as_str())
            .with("rows", rows)
            .with("intended", record.intended)
    };
    evidence.record.streams.iter().map(verdict).collect()
}

// What was found on the path before the first packet.

/// A rule about that.
const fn inspecting(id: &'static str, spoils: Spoils, judge: fn(&Evidence<'_>) -> Vec<Verdict>) -> Rule {
    Rule { id, spoils, judge }
}

/// `added-tag`: probe packets arrive with more VLAN tags than they were sent with.
pub(super) const ADDED_TAG: Rule = inspecting("added-tag", Spoils::Path, |of| by(of, added_tags));
/// `program-drops`: packets that a program decided about went nowhere.
pub(super) const PROGRAM_DROPS: Rule = inspecting("program-drops", Spoils::Path, |of| by(of, drops));
/// `group-lost`: frames for more than one receiver do not arrive, and those for one do.
pub(super) const GROUP_LOST: Rule =
    inspecting(validity::GROUP_LOST, Spoils::Path, |of| by(of, |found| lost(found, validity::GROUP_LOST)));
/// `long-lost`: frames as long as the path's MTU do not arrive, and shorter ones do.
pub(super) const LONG_LOST: Rule =
    inspecting(validity::LONG_LOST, Spoils::Path, |of| by(of, |found| lost(found, validity::LONG_LOST)));
/// `checksum-lost`: packets whose checksum the sender's device is to write arrive without it.
pub(super) const CHECKSUM_LOST: Rule =
    inspecting(validity::CHECKSUM_LOST, Spoils::Path, |of| by(of, |found| lost(found, validity::CHECKSUM_LOST)));
/// `printk`: a program writes lines into the kernel's trace.
pub(super) const PRINTK: Rule = inspecting("printk", Spoils::Measuring, |of| by(of, printks));
/// `device-number`: a user's program has the number of a device in its code.
pub(super) const DEVICE_NUMBER: Rule = inspecting("device-number", Spoils::Measuring, |of| by(of, numbered));
/// `generic-xdp`: a program runs after a driver that could run it itself.
pub(super) const GENERIC_XDP: Rule = inspecting("generic-xdp", Spoils::Measuring, |of| by(of, generic));
/// `programs`: programs of others are on the path.
pub(super) const PROGRAMS: Rule = inspecting("programs", Spoils::Measuring, |of| by(of, programs));
/// `other-route`: packets leave by another device than the one that has the sender's address.
pub(super) const OTHER_ROUTE: Rule = inspecting("other-route", Spoils::Measuring, |of| by(of, elsewhere));
/// `routers`: packets come through routers.
pub(super) const ROUTERS: Rule = inspecting("routers", Spoils::Measuring, |of| by(of, routed));

fn by(evidence: &Evidence<'_>, judge: fn(&Inspection) -> Vec<Verdict>) -> Vec<Verdict> {
    evidence.record.inspection.iter().flat_map(judge).collect()
}

/// The verdicts on what was found on a path, also where no trial followed.
pub fn found(found: &Inspection) -> Vec<Verdict> {
    let of_special = [validity::GROUP_LOST, validity::LONG_LOST, validity::CHECKSUM_LOST];
    let special = of_special.iter().flat_map(|rule| lost(found, rule));
    let judged = |those: &[fn(&Inspection) -> Vec<Verdict>]| -> Vec<Verdict> {
        those.iter().flat_map(|judge| judge(found)).collect()
    };
    let programs = judged(&[printks, numbered, generic, programs, elsewhere, routed]);
    judged(&[added_tags, drops]).into_iter().chain(special).chain(programs).collect()
}

/// A verdict on a program, with what identifies it.
fn on(id: &str, level: Level, program: &ProgramRecord, says: String) -> Verdict {
    Verdict::new(id, level, says)
        .with("station", program.station.as_str())
        .with("device", program.device.as_str())
        .with("program", program.name.as_str())
        .with("program_id", program.id)
        .with("tag", program.tag.as_str())
        .with("hook", program.hook.name())
}

/// The verdicts of a rule about special frames.
fn lost(found: &Inspection, rule: &'static str) -> Vec<Verdict> {
    let verdict = |of: &SpecialRecord| {
        let level = if of.is_certain { Level::Invalid } else { Level::Warning };
        let mut verdict = Verdict::new(rule, level, of.says())
            .with("from", of.from.as_str())
            .with("to", of.to.as_str())
            .with("kind", of.kind.says())
            .with("sent", of.sent);
        if of.without_checksum > 0 {
            verdict = verdict.with("without_checksum", of.without_checksum);
        }
        for (name, bytes) in [("bytes", of.bytes), ("longest_bytes", of.longest_bytes)] {
            verdict = match bytes {
                Some(bytes) => verdict.with(name, bytes),
                None => verdict,
            };
        }
        match &of.kept_by {
            Some(kept_by) => verdict.with("kept_by", kept_by.as_str()),
            None => verdict,
        }
    };
    found.lost_special().filter(|of| of.kind.rule() == rule).map(verdict).collect()
}

fn watched(found: &Inspection) -> impl Iterator<Item = (&ProgramRecord, &ProgramSeen)> {
    found.programs.iter().filter_map(|program| Some((program, program.seen.as_ref()?)))
}

fn added_tags(found: &Inspection) -> Vec<Verdict> {
    let added = found.probes.iter().filter(|probe| probe.with_more_tags() > 0);
    let told = added.map(|probe| {
        let came = probe.by_tags.keys().next_back().copied().unwrap_or(probe.tags);
        let between = probe.adds_between();
        let says = format!(
            "probe packets of {} leave {} with {} and arrive at {} with {came}: something {} adds one",
            probe.stream,
            probe.from,
            says::count(probe.tags.into(), "VLAN tag", "VLAN tags"),
            probe.to,
            between
                .map_or_else(|| "on the path".to_owned(), |[before, behind]| format!("between {before} and {behind}"))
        );
        let verdict = Verdict::new(ADDED_TAG.id, Level::Invalid, says)
            .with("stream", probe.stream.as_str())
            .with("from", probe.from.as_str())
            .with("to", probe.to.as_str())
            .with("sent", probe.sent)
            .with("sent_tags", u32::from(probe.tags))
            .with("most_tags", u32::from(came))
            .with("with_more_tags", probe.with_more_tags());
        match between {
            Some([before, behind]) => verdict.with("before", before).with("behind", behind),
            None => verdict,
        }
    });
    told.collect()
}

fn drops(found: &Inspection) -> Vec<Verdict> {
    let level = if found.dead_end().is_some() { Level::Invalid } else { Level::Warning };
    let told = watched(found).filter(|(_, seen)| !seen.faults.is_empty()).map(|(program, seen)| {
        let what: Vec<String> = seen.faults.iter().map(|fault| fault.says()).collect();
        let says = format!("{} sends packets where nobody takes them: {}", program.called(), what.join("; "));
        let first = &seen.faults[0];
        on(PROGRAM_DROPS.id, level, program, says)
            .with("packets", seen.faults.iter().map(|fault| fault.packets).sum::<u64>())
            .with("runs", seen.runs)
            .with("errno", i64::from(first.code))
            .with("to_device", first.to)
    });
    told.chain(takers(found, level)).collect()
}

/// The verdicts on programs that let no probe packet on, and did nothing that the kernel reports:
/// each for the way on which that weighs most.
fn takers(found: &Inspection, level: Level) -> Vec<Verdict> {
    let mut told = BTreeSet::new();
    let has_fault = |program: &ProgramRecord| program.seen.as_ref().is_some_and(|seen| !seen.faults.is_empty());
    let mut probes: Vec<_> = found.probes.iter().collect();
    probes.sort_by_key(|probe| (!probe.is_certain(), !probe.carries));
    let ways = probes.into_iter().flat_map(|probe| found.takers(probe).into_iter().map(move |of| (probe, of)));
    let mut is_new = |of: &ProgramRecord| told.insert((of.station.clone(), of.device.clone(), of.id));
    let first: Vec<_> = ways.filter(|(_, program)| !has_fault(program) && is_new(program)).collect();
    let verdict = |(probe, program): (&ProbeRecord, &ProgramRecord)| {
        // Only where nothing else can have lost them the cell was refused; and nothing of a stream
        // goes by a way that carries none of it.
        let level = match (probe.carries, probe.is_certain()) {
            (_, true) => level,
            (true, false) => Level::Warning,
            (false, false) => Level::Note,
        };
        let runs = program.seen.as_ref().map_or(0, |seen| seen.runs);
        let came = match probe.arrived() {
            0 => "none arrived".to_owned(),
            arrived => format!("{arrived} arrived at the device and the filters of tc let none on"),
        };
        let says = format!(
            "{} seems to take the packets: {} sent {} of {} to {}, {came}, and it ran {} meanwhile",
            program.called(),
            probe.from,
            says::count(probe.sent.into(), "probe packet", "probe packets"),
            probe.stream,
            probe.to,
            says::count(runs, "time", "times"),
        );
        on(PROGRAM_DROPS.id, level, program, says)
            .with("stream", probe.stream.as_str())
            .with("from", probe.from.as_str())
            .with("packets", probe.sent)
            .with("runs", runs)
    };
    first.into_iter().map(verdict).collect()
}

fn printks(found: &Inspection) -> Vec<Verdict> {
    // How long it ran while the lines were counted is no figure: counting costs more than printing.
    let of_others = watched(found).filter(|(_, seen)| seen.lines > 0).map(|(program, seen)| {
        let each = seen.lines as f64 / seen.runs.max(1) as f64;
        let cost = found.line_costs.get(&program.station);
        let costs = match (cost, found.unmeasured.get(&program.station)) {
            (Some(cost), _) => format!(
                "; a line costs {} there ({}), without packets in front whose lines a packet waits for too",
                says::time(cost.ns as i64),
                range(*cost)
            ),
            (None, Some(why)) => format!("; what a line costs there could not be measured: {why}"),
            (None, None) => String::new(),
        };
        let says = format!(
            "{} writes {each:.1} lines into the kernel's trace for each packet (bpf_printk){costs}",
            program.called()
        );
        let verdict = on(PRINTK.id, Level::Warning, program, says)
            .with("runs", seen.runs)
            .with("lines", seen.lines)
            .with("lines_per_packet", each);
        match cost {
            Some(cost) => with_cost(verdict, ["line_ns", "line_low_ns", "line_high_ns"], *cost),
            None => verdict,
        }
    });
    let own = found.objects.iter().filter(|object| !object.lines.is_empty());
    of_others.chain(own.map(prints)).collect()
}

/// The verdict on a user's own program that prints.
fn prints(object: &ObjectRecord) -> Verdict {
    let calls = says::count(object.lines.len() as u64, "call", "calls");
    let cost = match (object.cost, &object.unmeasured) {
        (Some(cost), _) => format!("they cost {} for a packet here ({})", says::time(cost.ns as i64), range(cost)),
        (None, Some(why)) => format!("what they cost could not be measured: {why}"),
        (None, None) => "what they cost was not measured".to_owned(),
    };
    let says = format!(
        "program `{}`, by which {} receives, has {calls} that write into the kernel's trace (bpf_printk, in {}): {cost}",
        object.program,
        object.station,
        says::list(&object.lines)
    );
    let verdict = Verdict::new(PRINTK.id, Level::Warning, says)
        .with("station", object.station.as_str())
        .with("program", object.program.as_str())
        .with("calls", object.lines.len() as u64);
    match object.cost {
        Some(cost) => with_cost(verdict, ["cost_ns", "cost_low_ns", "cost_high_ns"], cost),
        None => verdict,
    }
}

fn range(cost: ProgramCost) -> String {
    format!("{} to {} with 95 %", says::time(cost.low_ns as i64), says::time(cost.high_ns as i64))
}

/// The cost of a line, or of all lines of a run.
fn with_cost(verdict: Verdict, [ns, low, high]: [&str; 3], cost: ProgramCost) -> Verdict {
    verdict.with(ns, cost.ns).with(low, cost.low_ns).with(high, cost.high_ns).with("pairs", cost.pairs)
}

fn numbered(found: &Inspection) -> Vec<Verdict> {
    let all = found.objects.iter().flat_map(|object| object.devices.iter().map(move |device| (object, device)));
    let verdict = |(object, device): (&ObjectRecord, &tardy_model::xdp::NumberedDevice)| {
        let is = match &device.device {
            Some(name) => format!("at {} that is {name} today", object.station),
            None => format!("no device of {} has it", object.station),
        };
        let says = format!(
            "program `{}` redirects packets to device number {}, which is written into the object ({}): {is}, and such \
             numbers change from boot to boot; let it take the number from a map that is filled by name",
            object.program, device.number, device.function
        );
        Verdict::new(DEVICE_NUMBER.id, Level::Warning, says)
            .with("station", object.station.as_str())
            .with("program", object.program.as_str())
            .with("function", device.function.as_str())
            .with("number", device.number)
    };
    let unsearched = found.objects.iter().filter(|object| object.unsearched > 0).map(|object| {
        let says = format!(
            "program `{}`, by which {} receives: whether the number of a device is in its code was not found out for {}; its \
             code is too long for the search, or has too many of them",
            object.program,
            object.station,
            says::count(object.unsearched, "redirect", "redirects")
        );
        Verdict::new(DEVICE_NUMBER.id, Level::Note, says)
            .with("station", object.station.as_str())
            .with("program", object.program.as_str())
            .with("unsearched", object.unsearched)
    });
    all.map(verdict).chain(unsearched).collect()
}

fn generic(found: &Inspection) -> Vec<Verdict> {
    let could = found.programs.iter().filter(|program| program.could_be_native);
    let told = could.map(|program| {
        let says = format!(
            "{} runs after the driver, which could run it itself: each packet becomes a packet buffer first",
            program.called()
        );
        on(GENERIC_XDP.id, Level::Warning, program, says)
    });
    told.collect()
}

fn programs(found: &Inspection) -> Vec<Verdict> {
    let of_others: Vec<&ProgramRecord> = found.programs.iter().filter(|program| !program.of_path).collect();
    let all: Vec<String> = of_others.iter().map(|program| program.called()).collect();
    let unchecked: Vec<String> = found.unchecked.iter().map(|(station, why)| format!("at {station} ({why})")).collect();
    if all.is_empty() {
        let says = format!(
            "whether others have attached programs to devices of the path, and what they do, was not checked {}",
            says::list(&unchecked)
        );
        let verdict = Verdict::new(PROGRAMS.id, Level::Note, says).with("not_checked", says::list(&unchecked));
        return if unchecked.is_empty() { Vec::new() } else { vec![verdict] };
    }
    let says = match unchecked.is_empty() {
        true => format!("others have attached programs to devices of the path: {}", all.join(", ")),
        false => format!(
            "others have attached programs to devices of the path: {}; what they do was not checked {}",
            all.join(", "),
            says::list(&unchecked)
        ),
    };
    let list = |of: fn(&ProgramRecord) -> Figure| Figure::List(of_others.iter().map(|program| of(program)).collect());
    let verdict = Verdict::new(PROGRAMS.id, Level::Note, says)
        .with("programs", list(|program| program.name.as_str().into()))
        .with("program_ids", list(|program| program.id.into()))
        .with("tags", list(|program| program.tag.as_str().into()))
        .with("hooks", list(|program| program.hook.name().into()))
        .with("devices", list(|program| program.device.as_str().into()));
    match unchecked.is_empty() {
        true => vec![verdict],
        false => vec![verdict.with("not_checked", says::list(&unchecked))],
    }
}

fn elsewhere(found: &Inspection) -> Vec<Verdict> {
    let verdict = |probe: &ProbeRecord| {
        let ProbeRecord { stream, from, to, sent, .. } = probe;
        let at = probe.leaves_at().unwrap_or("another device");
        let (level, says) = match &probe.route {
            Some(ProbeRoute::None(why)) => {
                (Level::Warning, format!("the kernel of {from} knows no route for packets of {stream} to {to}: {why}"))
            }
            Some(ProbeRoute::Here) if at != LOOPBACK => (
                Level::Note,
                format!(
                    "packets of {stream} from {from} to {to} do not leave the machine: both addresses are its own, and {at}, \
                     which has that of {from}, does not carry them"
                ),
            ),
            Some(ProbeRoute::By(device)) if device != at => (
                Level::Warning,
                format!(
                    "{from} sends packets of {stream} to {to} by {device}, as its kernel routes them, and {at} has its \
                     address: what tardy says of {at} is not about them; give station.{from}.address the address of \
                     {device}, or change the route"
                ),
            ),
            _ if *sent == 0 => (
                Level::Warning,
                format!(
                    "no probe packet of {stream} could be sent from {from} to {to}: look for a filter of that machine's \
                     own (`nft list ruleset`), which may keep the stream's packets too"
                ),
            ),
            _ => (
                Level::Warning,
                format!(
                    "no probe packet of {stream} from {from} came to {to} by the device that has its address there: \
                     packets come by another one, or something between them keeps the probes; what tardy says of that \
                     device may not be about them"
                ),
            ),
        };
        let verdict = Verdict::new(OTHER_ROUTE.id, level, says).with("stream", stream.as_str());
        let verdict = verdict.with("from", from.as_str()).with("to", to.as_str()).with("address_at", at);
        match &probe.route {
            Some(ProbeRoute::By(device)) => verdict.with("device", device.as_str()),
            _ => verdict,
        }
    };
    found.probes.iter().filter(|probe| probe.strays()).map(verdict).collect()
}

fn routed(found: &Inspection) -> Vec<Verdict> {
    let through = found.probes.iter().filter(|probe| probe.carries && probe.routers() > 0);
    let verdict = |probe: &ProbeRecord| {
        let says = format!(
            "packets of {} from {} come to {} through {}, by their TTL: what these do to packets is in the figures, and \
             multicast and ARP do not pass them",
            probe.stream,
            probe.from,
            probe.to,
            says::count(probe.routers().into(), "router", "routers")
        );
        let verdict = Verdict::new(ROUTERS.id, Level::Note, says).with("stream", probe.stream.as_str());
        verdict.with("from", probe.from.as_str()).with("routers", u32::from(probe.routers()))
    };
    through.map(verdict).collect()
}

/// `no-metadata`: no packet that came through an XDP program has its stamp, in the warm-up and in
/// the trial.
pub(super) const NO_METADATA: Rule = inspecting("no-metadata", Spoils::Measuring, no_metadata);

/// Says that none of these warm-up packets has the stamp, and why that may be. `mode` is the one in
/// which the program runs, where that is known.
pub fn unstamped(stream: &str, warmup_packets: u32, mode: Option<XdpMode>) -> String {
    format!(
        "none of {} of {stream} has the XDP program's stamp: the device leaves no room for it before a packet \
         (bpf_xdp_adjust_meta){}, or a program of your own writes none",
        says::count(warmup_packets.into(), "warm-up packet", "warm-up packets"),
        mode.map(|mode| format!(", in {} mode", mode.name())).unwrap_or_default()
    )
}

fn no_metadata(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let streams =
        evidence.record.streams.iter().filter_map(|(stream, record)| Some((stream, record, record.xdp.as_ref()?)));
    let bare = streams.filter(|(_, record, _)| {
        record.warmup.received > 0 && record.warmup.without_rx_stamp >= record.warmup.received
    });
    // A program of a user's own may leave the warm-up's packets alone.
    let bare = bare.filter(|(stream, _, port)| {
        let received = evidence.results.get(*stream).map_or(0, |result| result.outcomes.received);
        port.seen.unstamped >= received
    });
    let told = bare.map(|(stream, record, port)| {
        let says = unstamped(stream, record.warmup.received, Some(port.mode));
        let (level, _) = evidence.lack(stream, Point::RxXdp);
        Verdict::new(NO_METADATA.id, level, says)
            .with("stream", stream.as_str())
            .with("mode", port.mode.name())
            .with("warmup_received", record.warmup.received)
            .with("unstamped", record.warmup.without_rx_stamp)
    });
    told.collect()
}
