// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules about packets: how fast they were sent, what refused or lost them, with which VLAN tags
//! they arrived, which were not the trial's, and whether XDP had a faster way for them.

use super::{Evidence, Rule, Spoils};
use crate::says;
use tardy_model::ethernet::TAG;
use tardy_model::trial::StreamRecord;
use tardy_model::verdict::{Figure, Level, Verdict};
use tardy_model::xdp::{Core, DeviceHintCount, XdpRecord, XdpRefusal};

/// `rate`: the stream was sent slower than intended, or left out too many slots.
pub(super) const RATE: Rule = Rule { id: "rate", spoils: Spoils::Path, judge: rate };

/// A backlog of fewer cycles is no matter of rate: the traffic was on time but for its jitter.
const LATE_CYCLES: i64 = 1;

const TENTHS: usize = 10;

/// One packet in this many must have been late if there are no tenths.
const OFTEN: u64 = 10;

/// What says how late each tenth of a stream's packets was; a record that holds another number of
/// them says nothing.
fn tenths(record: &StreamRecord) -> &[i64] {
    if record.lateness_by_tenth_ns.len() == TENTHS { &record.lateness_by_tenth_ns } else { &[] }
}

/// How much the sender fell behind from the first tenth of its packets to the last, ns: nine times
/// the median of the slopes between all pairs of tenths (Theil and Sen). A stall, also of the last
/// packet, is in few of these pairs and does not move it; a backlog that grows is in all.
fn behind_ns(late: &[i64]) -> Option<i64> {
    let last = late.len().checked_sub(1).filter(|last| *last > 0)?;
    let pairs = (0..last).flat_map(|a| (a + 1..=last).map(move |b| (a, b)));
    let mut slopes: Vec<f64> = pairs.map(|(a, b)| (late[b].saturating_sub(late[a])) as f64 / (b - a) as f64).collect();
    slopes.sort_by(f64::total_cmp);
    Some((slopes[slopes.len() / 2] * last as f64) as i64)
}

/// How much slower than intended was sent, as a share of what the sending took.
fn slow(record: &StreamRecord) -> f64 {
    let tenths = tenths(record);
    // From the middle of the first tenth to that of the last. Without tenths from end to end, and
    // then one late packet at the end must not be taken for a rate: a sender that falls behind
    // wakes late again and again.
    let (behind, over) = match behind_ns(tenths) {
        Some(behind) => (behind, record.intended_span_ns / TENTHS as i64 * (TENTHS as i64 - 1)),
        None if record.counters.overruns.saturating_mul(OFTEN) > u64::from(record.intended) => {
            let sent = record.sent_span_ns.unwrap_or(record.intended_span_ns);
            (sent.saturating_sub(record.intended_span_ns), record.intended_span_ns)
        }
        None => (0, 0),
    };
    if behind > LATE_CYCLES * record.cycle_ns && over > 0 {
        behind as f64 / behind.saturating_add(over) as f64
    } else {
        0.0
    }
}

fn rate(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if evidence.clock_jumped() || evidence.broke_off() {
        return Vec::new();
    }
    let limit = evidence.settings.share(RATE.id);
    let mut verdicts = Vec::new();
    for (stream, record) in &evidence.record.streams {
        if record.cycle_ns <= 0 {
            continue;
        }
        let reached = evidence.results.get(stream).map_or(0, |result| result.outcomes.intended).max(1);
        let (slow, skipped) = (slow(record), record.counters.skipped as f64 / reached as f64);
        if slow <= limit && skipped <= limit {
            continue;
        }
        let short = 1.0 - (1.0 - slow) * (1.0 - skipped);
        let intended_per_s = 1e9 / record.cycle_ns as f64;
        let achieved_per_s = intended_per_s * (1.0 - short);
        let cause = if slow > limit {
            let cycle = (record.cycle_ns as f64 / (1.0 - slow)).round() as i64;
            format!("the cycle of {} took {}", says::time(record.cycle_ns), says::time(cycle))
        } else {
            format!("{} of {reached} slots were skipped", record.counters.skipped)
        };
        let says = format!(
            "{stream} sent {achieved_per_s:.0} packets/s instead of {intended_per_s:.0}, {} short: {cause}",
            says::share(short)
        );
        let mut verdict = Verdict::new(RATE.id, Level::Invalid, says)
            .with("stream", stream.as_str())
            .with("intended_per_s", intended_per_s)
            .with("achieved_per_s", achieved_per_s)
            .with("shortfall_share", short)
            .with("limit_share", limit)
            .with("intended_span_ns", record.intended_span_ns)
            .with("overruns", record.counters.overruns)
            .with("skipped", record.counters.skipped);
        if !tenths(record).is_empty() {
            let late = tenths(record).iter().map(|ns| (*ns).into()).collect();
            verdict = verdict.with("lateness_by_tenth_ns", Figure::List(late));
        }
        if let Some(sent_span_ns) = record.sent_span_ns {
            verdict = verdict.with("sent_span_ns", sent_span_ns);
        }
        verdicts.push(verdict);
    }
    verdicts
}

/// `send-errors`: the port refused packets.
pub(super) const SEND_ERRORS: Rule = Rule { id: "send-errors", spoils: Spoils::Path, judge: send_errors };

fn send_errors(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for way in evidence.ways() {
        let Some(record) = evidence.record.streams.get(way.stream) else { continue };
        let (refused, errno) = (way.counters.send_errors, way.counters.first_send_errno);
        if refused == 0 {
            continue;
        }
        let Some(intended) = evidence.results.get(way.stream).map(|result| result.outcomes.intended) else { continue };
        let share = refused as f64 / intended.max(1) as f64;
        let level = if share > record.max_loss { Level::Invalid } else { Level::Warning };
        let says = format!(
            "the port refused {refused} of {intended} packets of {} ({}), first with errno {errno}{}",
            way.name,
            says::share(share),
            meaning_of_send(errno)
        );
        verdicts.push(
            Verdict::new(SEND_ERRORS.id, level, says)
                .with("stream", way.stream)
                .with("refused", refused)
                .with("intended", intended)
                .with("refused_share", share)
                .with("max_loss_share", record.max_loss)
                .with("errno", i64::from(errno)),
        );
    }
    verdicts
}

/// What Linux means by the numbers that a send call gives; spelled out here, for the judging
/// machine need not be Linux.
fn meaning_of_send(errno: i32) -> &'static str {
    match errno {
        1 => " (not permitted: a firewall?)",
        11 => " (the send buffer was full)",
        19 | 6 => " (the device is gone)",
        32 => " (the connection is gone)",
        90 => " (longer than the path's MTU)",
        100 => " (the network is down)",
        101 => " (the network is unreachable: is the device gone?)",
        103 => " (the kernel ended the connection)",
        104 => " (the peer reset the connection)",
        105 => " (no buffer space: the queue discipline or the device was full)",
        111 => " (nobody has that port there any more)",
        113 => " (no route to the receiver)",
        _ => "",
    }
}

/// `loss`: more packets were lost than the experiment allows. If the receiver or the trial failed,
/// tardy reports that instead.
pub(super) const LOSS: Rule = Rule { id: "loss", spoils: Spoils::Path, judge: loss };

fn loss(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if evidence.broke_off() {
        return verdicts;
    }
    for (stream, record) in &evidence.record.streams {
        let Some(outcomes) = evidence.results.get(stream).map(|result| result.outcomes) else { continue };
        let lost = outcomes.lost;
        let reply_broke = record.reply.as_ref().is_some_and(|reply| reply.counters.receive_errno != 0);
        if lost == 0 || record.counters.receive_errno != 0 || reply_broke {
            continue;
        }
        // A packet that had no place in the recorder did arrive; `recorder` reports it.
        let end = record.reply.as_ref().map_or(&record.counters, |reply| &reply.counters);
        let on_the_way = lost.saturating_sub(end.records_dropped);
        if on_the_way as f64 / outcomes.intended.max(1) as f64 <= record.max_loss {
            continue;
        }
        let share = lost as f64 / outcomes.intended.max(1) as f64;
        let dropped = record.counters.socket_drops;
        let replies = record.reply.as_ref().map(|reply| reply.counters.socket_drops);
        // The kernel counts from when the socket was opened, anybody's packets.
        let packets = |n| says::count(n, "packet", "packets");
        let at = match (dropped, replies) {
            (0, None) => "none of them at the receiving socket".to_owned(),
            (0, Some(0)) => "none of them at a receiving socket, nor their replies".to_owned(),
            (dropped, None | Some(0)) => {
                format!("the receiving socket dropped {} since it was opened", packets(dropped))
            }
            (0, Some(replies)) => {
                format!("the socket of the end that asks dropped {} since it was opened", packets(replies))
            }
            (dropped, Some(replies)) => format!(
                "since they were opened the receiving socket dropped {} and the socket of the end that asks {}",
                packets(dropped),
                packets(replies)
            ),
        };
        let says = format!(
            "{} of {} packets of {stream} were lost ({}, allowed {}), {at}",
            lost,
            outcomes.intended,
            says::share(share),
            says::share(record.max_loss)
        );
        let verdict = Verdict::new(LOSS.id, Level::Invalid, says)
            .with("stream", stream.as_str())
            .with("lost", lost)
            .with("intended", outcomes.intended)
            .with("lost_share", share)
            .with("max_loss_share", record.max_loss)
            .with("socket_drops", dropped);
        verdicts.push(match replies {
            Some(replies) => verdict.with("reply_socket_drops", replies),
            None => verdict,
        });
    }
    verdicts
}

/// `after-silence`: requests of a ping-pong went out after everything in flight had been given up.
/// While nobody sends, CPUs go to sleep, so the answers to these requests take longer for a reason
/// that the others do not have.
pub(super) const AFTER_SILENCE: Rule = Rule { id: "after-silence", spoils: Spoils::Path, judge: after_silence };

fn after_silence(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let asking = evidence.ways().filter(|way| way.counters.after_silence > 0);
    asking
        .map(|way| {
            let requests = way.counters.after_silence;
            let says = format!(
                "{} of {} went out after the one before was given up: the machines had been idle for that long, so the \
                 slowest round trips may be these",
                says::count(requests, "request", "requests"),
                way.stream
            );
            Verdict::new(AFTER_SILENCE.id, Level::Note, says).with("stream", way.stream).with("after_silence", requests)
        })
        .collect()
}

/// `vlan-tags`: packets arrived with more or fewer VLAN tags than they were sent with, with one of
/// another type, or in another VLAN.
pub(super) const VLAN_TAGS: Rule = Rule { id: "vlan-tags", spoils: Spoils::Path, judge: vlan_tags };

fn vlan_tags(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for way in evidence.ways() {
        let Some(tags) = way.tags else { continue };
        let sent = u8::from(tags.sent.is_some());
        let arrived: u64 = tags.by_count.values().sum();
        let others = tags.by_count.iter().filter(|(count, _)| **count != sent);
        let wrong: u64 = others.clone().map(|(_, packets)| packets).sum();
        let otherwise = wrong + tags.other_vlan + tags.other_tpid;
        if otherwise == 0 {
            continue;
        }
        let with = |count: u8| match count {
            0 => "no VLAN tag".to_owned(),
            count => says::count(count.into(), "VLAN tag", "VLAN tags"),
        };
        let mut found: Vec<String> =
            others.map(|(count, packets)| format!("{packets} with {}", with(*count))).collect();
        if let Some(tag) = tags.sent.filter(|_| tags.other_vlan > 0) {
            found.push(format!("{} in another VLAN than {}", tags.other_vlan, tag.vlan));
        }
        if tags.other_tpid > 0 {
            let others = tags.by_tpid.keys().filter(|tpid| **tpid != TAG).map(|tpid| format!("{tpid:#06x}"));
            let others: Vec<String> = others.collect();
            found.push(format!("{} with a tag of type {} instead of {TAG:#06x}", tags.other_tpid, others.join(" or ")));
        }
        let says = format!(
            "{otherwise} of {arrived} packets of {}, which were sent with {}, arrived otherwise: {}",
            way.name,
            with(sent),
            found.join(", ")
        );
        let mut verdict = Verdict::new(VLAN_TAGS.id, Level::Invalid, says)
            .with("stream", way.stream)
            .with("sent_tags", u32::from(sent))
            .with("arrived", arrived)
            .with("other_tags", wrong)
            .with("other_vlan", tags.other_vlan)
            .with("other_tpid", tags.other_tpid);
        if let Some(most) = tags.by_count.keys().max() {
            verdict = verdict.with("most_tags", u32::from(*most));
        }
        if let Some(first) = tags.first_seq {
            verdict = verdict.with("first_seq", first);
        }
        verdicts.push(verdict);
    }
    verdicts
}

/// `vlan-pcp`: packets arrived with another priority in their VLAN tag than they were sent with.
/// `vlan-tags` reports those that have another number of tags: their outermost tag is not the
/// one that was sent. If the port sees no tags, a note says that nothing was checked.
pub(super) const VLAN_PCP: Rule = Rule { id: "vlan-pcp", spoils: Spoils::Path, judge: vlan_pcp };

fn vlan_pcp(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for way in evidence.ways() {
        let Some(tags) = way.tags else { continue };
        let Some(sent) = tags.sent else { continue };
        let received = evidence.results.get(way.stream).map_or(0, |result| result.outcomes.received);
        if tags.by_count.is_empty() && received > 0 {
            let says = format!(
                "packets of {} were sent with PCP {} in VLAN {}, and with which they arrived went unchecked: a receiver of this port sees no \
                 tags; port = \"packet\" does",
                way.name, sent.pcp, sent.vlan
            );
            let verdict = Verdict::new(VLAN_PCP.id, Level::Note, says).with("stream", way.stream);
            verdicts.push(verdict.with("sent_pcp", u32::from(sent.pcp)).with("sent_vlan", u32::from(sent.vlan)));
            continue;
        }
        if tags.other_pcp == 0 {
            continue;
        }
        let arrived: u64 = tags.by_count.values().sum();
        let came: Vec<String> =
            tags.by_pcp.iter().filter(|(pcp, _)| **pcp != sent.pcp).map(|(pcp, n)| format!("{n} with {pcp}")).collect();
        let says = format!(
            "{} of {arrived} packets of {} were sent with PCP {} and arrived with another ({})",
            tags.other_pcp,
            way.name,
            sent.pcp,
            came.join(", ")
        );
        let mut verdict = Verdict::new(VLAN_PCP.id, Level::Invalid, says)
            .with("stream", way.stream)
            .with("sent_pcp", u32::from(sent.pcp))
            .with("arrived", arrived)
            .with("other_pcp", tags.other_pcp);
        if let Some(first) = tags.first_seq {
            verdict = verdict.with("first_seq", first);
        }
        verdicts.push(verdict);
    }
    verdicts
}

/// `foreign`: packets came to the port that are not the trial's; they were counted and ignored.
pub(super) const FOREIGN: Rule = Rule { id: "foreign", spoils: Spoils::Measuring, judge: foreign };

fn foreign(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let strangers = evidence.ways().filter(|way| way.counters.foreign > 0);
    strangers
        .map(|way| {
            let foreign = way.counters.foreign;
            let packets = says::count(foreign, "foreign packet", "foreign packets");
            let mut says = format!("{packets} came to the port of {} and were ignored", way.name);
            // The socket does not show whose packets it dropped.
            let dropped = way.counters.socket_drops;
            if dropped > 0 {
                says += &format!("; {dropped} of all packets to that port were dropped at the receiving socket");
            }
            Verdict::new(FOREIGN.id, Level::Note, says)
                .with("stream", way.stream)
                .with("foreign", foreign)
                .with("socket_drops", dropped)
        })
        .collect()
}

/// `core`: an AF_XDP application was not where the experiment asks for it, by the CPU that ran the
/// XDP program.
pub(super) const CORE: Rule = Rule { id: "core", spoils: Spoils::Measuring, judge: core };

fn core(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let limit = evidence.settings.share(CORE.id);
    let ports = evidence.record.streams.iter().filter_map(|(stream, record)| Some((stream, record.xdp.as_ref()?)));
    let mut verdicts = Vec::new();
    for (stream, port) in ports {
        let (of, elsewhere, packets) = (&port.core, port.core.elsewhere(), port.core.packets());
        let Some(asked) = of.asked else { continue };
        if packets == 0 && evidence.results.get(stream).is_some_and(|result| result.outcomes.received > 0) {
            let says =
                format!("{stream}.rx was placed by the XDP program's CPU, and no packet shows where the program ran");
            verdicts.push(
                Verdict::new(CORE.id, Level::Invalid, says)
                    .with("stream", stream.as_str())
                    .with("asked", asked.name())
                    .with("packets_with_a_cpu", 0_u64),
            );
        }
        if elsewhere == 0 {
            continue;
        }
        let share = elsewhere as f64 / packets as f64;
        let level = if share >= limit { Level::Invalid } else { Level::Warning };
        let cpus: Vec<u32> = port.seen.by_cpu.keys().copied().collect();
        let what = match asked {
            Core::Same => "the same core as",
            Core::Remote => "another core than",
        };
        let ran = format!("the program ran on CPU {}", says::list(&cpus));
        let why = match of.cpu {
            Some(cpu) => format!("{stream}.rx was on CPU {cpu} and {ran} ({elsewhere} of {packets} packets disagree)"),
            None => format!("{ran}, and {stream}.rx was not on one CPU"),
        };
        let says = format!("{stream}.rx was asked to have {what} the XDP program, and had not: {why}");
        let counts = port.seen.by_cpu.values().map(|packets| (*packets).into()).collect();
        let verdict = Verdict::new(CORE.id, level, says)
            .with("stream", stream.as_str())
            .with("asked", asked.name())
            .with("program_cpus", Figure::List(cpus.into_iter().map(Figure::from).collect()))
            .with("packets_by_program_cpu", Figure::List(counts))
            .with("elsewhere", elsewhere)
            .with("elsewhere_share", share)
            .with("limit_share", limit);
        verdicts.push(match of.cpu {
            Some(cpu) => verdict.with("receiver_cpu", cpu),
            None => verdict,
        });
    }
    verdicts
}

// What is worth knowing of a port `xdp`: a faster way for packets than the one that was taken.

/// `xdp-mode`: the driver or the device could not do what would have been faster.
pub(super) const XDP_MODE: Rule = Rule { id: "xdp-mode", spoils: Spoils::Measuring, judge: mode };

fn mode(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let streams = || evidence.record.streams.iter();
    let came = streams().filter_map(|(stream, record)| {
        let port = record.xdp.as_ref()?;
        fell_back(stream, "come to", port.mode.name(), (&port.refused, port.small_pages.as_deref()))
    });
    let went = streams().filter_map(|(stream, record)| {
        let port = record.xdp_sent.as_ref()?;
        fell_back(stream, "are sent by", port.mode.name(), (&port.refused, port.small_pages.as_deref()))
    });
    let unasked = streams().filter_map(|(stream, record)| {
        let why = record.xdp.as_ref()?.without_hints.as_ref()?;
        let says = format!("packets of {stream} are without the hints that `rx.hints` asks for: {why}");
        Some(Verdict::new(XDP_MODE.id, Level::Note, says).with("stream", stream.as_str()).with("without", "hints"))
    });
    let unanswered = streams().filter_map(|(stream, record)| without_value(stream, record.xdp.as_ref()?));
    came.chain(went).chain(unasked).chain(unanswered).collect()
}

/// The hints that were asked for and that came with no packet: a column of nothing must not be
/// taken for a device's answer.
fn without_value(stream: &str, port: &XdpRecord) -> Option<Verdict> {
    let none = |of: &&DeviceHintCount| of.given == 0 && of.absent + of.not_offered > 0;
    let why = |of: &DeviceHintCount| match of.absent {
        0 => format!("{} (this driver or kernel does not offer it)", of.hint.name()),
        _ => format!("{} (the device had no value for any)", of.hint.name()),
    };
    let named: Vec<&str> = port.device_hints.iter().filter(none).map(|of| of.hint.name()).collect();
    let each: Vec<String> = port.device_hints.iter().filter(none).map(why).collect();
    let says = format!("no packet of {stream} came with these hints of `rx.hints`: {}", each.join(", "));
    let verdict = Verdict::new(XDP_MODE.id, Level::Note, says).with("stream", stream).with("without", named.join(" "));
    (!named.is_empty()).then_some(verdict)
}

/// What was refused and would have been faster: modes, and huge pages.
fn fell_back(
    stream: &str,
    way: &str,
    mode: &str,
    (refused, small_pages): (&[XdpRefusal], Option<&str>),
) -> Option<Verdict> {
    let why: Vec<String> = refused.iter().map(|of| format!("{} ({})", of.mode.name(), of.why)).collect();
    let modes = match why.is_empty() {
        true => String::new(),
        false => format!(", because what is faster was refused: {}", why.join(", ")),
    };
    let pages = small_pages.map(|why| format!("; the memory of its packets is not of huge pages: {why}"));
    let says = format!("packets of {stream} {way} AF_XDP in {mode} mode{modes}{}", pages.unwrap_or_default());
    let modes: Vec<&str> = refused.iter().map(|of| of.mode.name()).collect();
    let verdict = Verdict::new(XDP_MODE.id, Level::Note, says);
    let verdict = verdict.with("stream", stream).with("mode", mode).with("refused", modes.join(" "));
    let verdict = if small_pages.is_some() { verdict.with("without", "huge pages") } else { verdict };
    (!refused.is_empty() || small_pages.is_some()).then_some(verdict)
}
