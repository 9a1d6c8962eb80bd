// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trials as a trace for Perfetto (perfetto.dev): on one time line the trials of each cell, its
//! threads, its loads, and its packets with their stages.
//!
//! A packet is a slice from its scheduled instant to its last stamp, and its stages are slices
//! within. Packets that are on their way at once are on several tracks of one name. A packet that
//! was never sent is an instant. Times are UTC: TAI less what the kernel had between the two when
//! the trial began; a trace has no other clock to compare with.
//!
//! The format is a stream of protocol buffers (`perfetto/trace/trace.proto`); its few messages that
//! are needed are written here. The numbers of fields are those of that file and what it includes.

use super::source::{ExportError, Source};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Write};
use tardy_model::placement::ThreadRecord;
use tardy_model::point::{Metric, Point};
use tardy_model::sample::{Batch, Flags, Outcome};
use tardy_model::trial::{StreamRecord, TrialRecord};

/// Kinds of events of a track.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
/// All of it is written by one.
const SEQUENCE: u64 = 1;

pub(super) fn write(source: &Source<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    let mut trace = Trace { out, tracks: BTreeMap::new(), made: 0 };
    let mut backward = 0;
    for trial in source.run.trials()? {
        let record = source.run.record(&trial.cell, trial.n)?;
        let utc_ns = i64::from(record.before.clocks.tai_offset_s) * -1_000_000_000;
        let cell = trace.track(&[&trial.cell])?;
        let from_ns = record.base_tai_ns.saturating_add(utc_ns);
        let to_ns = record.after.clocks.tai_ns.saturating_add(utc_ns).max(from_ns);
        let says = match source.in_figures(&trial) {
            true => format!("trial {}", trial.n),
            false => format!("trial {} (in no figure)", trial.n),
        };
        trace.slice(cell, (from_ns, to_ns), &says, &[])?;
        threads(&mut trace, &trial.cell, &record, (from_ns, to_ns))?;
        loads(&mut trace, &trial.cell, &record, from_ns)?;
        for (name, of) in &record.streams {
            if let Some(copy) = &of.copy {
                let threads = i64::try_from(copy.threads.len()).unwrap_or(i64::MAX).max(1);
                source.packets(&trial, name, of, |batch, row, _| {
                    Ok(pass(&mut trace, &trial.cell, threads, utc_ns, batch, row)?)
                })?;
                continue;
            }
            let mut packets = PacketTracks::new(&trial.cell, name, of, utc_ns);
            source.packets(&trial, name, of, |batch, row, _| Ok(packets.add(&mut trace, batch, row)?))?;
            backward += packets.backward;
        }
    }
    Ok(match backward {
        0 => Vec::new(),
        n => vec![format!("{n} stages end before they begin, which a trace cannot show: they have no length there")],
    })
}

/// The threads of a trial's streams: where each ran, and how long it waited.
fn threads(trace: &mut Trace<'_>, cell: &str, record: &TrialRecord, span: (i64, i64)) -> io::Result<()> {
    for (stream, of) in record.streams.iter().filter(|(_, of)| of.copy.is_none()) {
        let reply = of.reply.as_ref().and_then(|reply| reply.thread.as_ref());
        for (end, thread) in [("tx", Some(&of.tx)), ("rx", Some(&of.rx)), ("reply", reply)] {
            let Some(thread) = thread else { continue };
            let track = trace.track(&[cell, "threads", &format!("{stream}.{end}")])?;
            trace.slice(track, span, &place(thread), &of_thread(thread))?;
        }
    }
    Ok(())
}

fn place(thread: &ThreadRecord) -> String {
    let cpus: Vec<String> = thread.cpus_seen.iter().map(ToString::to_string).collect();
    match cpus.is_empty() {
        true => thread.policy_granted.clone(),
        false => format!("{} on CPU {}", thread.policy_granted, cpus.join(", ")),
    }
}

fn of_thread(thread: &ThreadRecord) -> Vec<(&'static str, Value)> {
    let mut about = vec![("tid", Value::Number(i64::from(thread.tid)))];
    about.extend(thread.run_ns.map(|ns| ("run_ns", Value::Number(ns))));
    about.extend(thread.wait_ns.map(|ns| ("wait_ns", Value::Number(ns))));
    about.extend(thread.migrations.map(|n| ("migrations", Value::Number(i64::try_from(n).unwrap_or(i64::MAX)))));
    about
}

/// The background loads of a trial: from when to when each side of each instance worked.
fn loads(trace: &mut Trace<'_>, cell: &str, record: &TrialRecord, from_ns: i64) -> io::Result<()> {
    for (name, load) in &record.loads {
        for (n, instance) in load.instances.iter().enumerate() {
            for (end, side) in [("from", Some(&instance.from)), ("to", instance.to.as_ref())] {
                let Some((side, began_ns)) = side.and_then(|side| Some((side, side.began_ns?))) else { continue };
                let track = trace.track(&[cell, "loads", &format!("{name}.{n}.{end}")])?;
                let span = (from_ns.saturating_add(began_ns), from_ns.saturating_add(side.ended_ns.max(began_ns)));
                let bytes = |bytes: u64| Value::Number(i64::try_from(bytes).unwrap_or(i64::MAX));
                let mut about = of_thread(&side.thread);
                about.push(("sent_bytes", bytes(side.sent_bytes)));
                about.push(("received_bytes", bytes(side.received_bytes)));
                trace.slice(track, span, load.kind.name(), &about)?;
            }
        }
    }
    Ok(())
}

/// A pass of a copying thread over its buffers, on the track of that thread: rows are numbered over
/// all threads in turn.
fn pass(trace: &mut Trace<'_>, cell: &str, threads: i64, utc_ns: i64, batch: &Batch, row: usize) -> io::Result<()> {
    let seq = batch.seq[row];
    let Some((begin, end)) = batch.offset(row, Point::Begin).zip(batch.offset(row, Point::End)) else { return Ok(()) };
    let track = trace.track(&[cell, "passes", &format!("thread {}", seq.rem_euclid(threads))])?;
    let from_ns = batch.scheduled_ns[row].saturating_add(utc_ns).saturating_add(begin);
    let about = [("seq", Value::Number(seq))];
    trace.slice(track, (from_ns, from_ns.saturating_add(end.saturating_sub(begin).max(0))), "pass", &about)
}

/// The packets of a stream in a trial.
struct PacketTracks<'a> {
    /// Names of the tracks that its tracks lie in.
    under: [&'a str; 3],
    points: Vec<Point>,
    utc_ns: i64,
    /// Until when each of its tracks is taken, the soonest first.
    taken: BinaryHeap<Reverse<(i64, u64)>>,
    /// Stages that end before they begin.
    backward: u64,
}

impl<'a> PacketTracks<'a> {
    fn new(cell: &'a str, stream: &'a str, record: &StreamRecord, utc_ns: i64) -> PacketTracks<'a> {
        let points = record.sources.keys().copied().filter(|point| *point != Point::Scheduled).collect();
        PacketTracks { under: [cell, "packets", stream], points, utc_ns, taken: BinaryHeap::new(), backward: 0 }
    }

    /// A track on which nothing is until then.
    fn free(&mut self, trace: &mut Trace<'_>, from_ns: i64) -> io::Result<u64> {
        match self.taken.peek() {
            Some(Reverse((until_ns, _))) if *until_ns <= from_ns => {}
            _ => {
                let parent = trace.track(&self.under)?;
                return trace.new_track(parent, "packets in flight");
            }
        }
        Ok(self.taken.pop().map_or(0, |Reverse((_, track))| track))
    }

    fn add(&mut self, trace: &mut Trace<'_>, batch: &Batch, row: usize) -> io::Result<()> {
        let scheduled_ns = batch.scheduled_ns[row].saturating_add(self.utc_ns);
        let mut about = vec![
            ("seq", Value::Number(batch.seq[row])),
            ("outcome", Value::Text(batch.outcome[row].name().to_owned())),
        ];
        let flags: Vec<&str> =
            Flags::NAMES.iter().filter(|(flag, _)| batch.flags[row].has(*flag)).map(|(_, name)| *name).collect();
        if !flags.is_empty() {
            about.push(("flags", Value::Text(flags.join(" "))));
        }
        let stamps = self.points.iter().filter_map(|point| Some((*point, batch.offset(row, *point)?)));
        let (mut stages, mut before) = (Vec::new(), (Point::Scheduled, 0));
        for (point, stamp) in stamps {
            self.backward += u64::from(stamp < before.1);
            let end = stamp.max(before.1);
            stages.push((Metric::Span(before.0, point), before.1, end));
            before = (point, end);
        }
        if batch.outcome[row] == Outcome::NotSent && stages.is_empty() {
            let track = trace.track(&self.under)?;
            return trace.instant(track, scheduled_ns, "never sent", &about);
        }
        let track = self.free(trace, scheduled_ns)?;
        let at = |offset: i64| scheduled_ns.saturating_add(offset);
        let name = if batch.outcome[row] == Outcome::Received { "packet" } else { batch.outcome[row].name() };
        trace.event((BEGIN, track, scheduled_ns), Some(name), &about)?;
        for (metric, from, to) in stages {
            trace.slice(track, (at(from), at(to)), &metric.to_string(), &[])?;
        }
        trace.event((END, track, at(before.1)), None, &[])?;
        self.taken.push(Reverse((at(before.1), track)));
        Ok(())
    }
}

/// What is noted of a slice.
enum Value {
    Number(i64),
    Text(String),
}

/// The trace as it is written.
struct Trace<'a> {
    out: &'a mut dyn Write,
    /// Numbers of tracks, by their names and those of the tracks they lie in.
    tracks: BTreeMap<Vec<String>, u64>,
    /// How many tracks there are.
    made: u64,
}

impl Trace<'_> {
    /// The number of the track of this name within others; its first use announces it.
    fn track(&mut self, names: &[&str]) -> io::Result<u64> {
        let mut parent = 0;
        for depth in 1..=names.len() {
            let key: Vec<String> = names[..depth].iter().map(|name| (*name).to_owned()).collect();
            parent = match self.tracks.get(&key) {
                Some(number) => *number,
                None => {
                    let number = self.new_track(parent, names[depth - 1])?;
                    self.tracks.insert(key, number);
                    number
                }
            };
        }
        Ok(parent)
    }

    /// One more track within another; within none if that is 0.
    fn new_track(&mut self, parent: u64, name: &str) -> io::Result<u64> {
        self.made += 1;
        let mut descriptor = Message::default();
        descriptor.number(1, self.made);
        if parent > 0 {
            descriptor.number(5, parent);
        }
        descriptor.bytes(2, name.as_bytes());
        let mut packet = Message::default();
        packet.number(10, SEQUENCE);
        packet.bytes(60, &descriptor.0);
        self.packet(&packet)?;
        Ok(self.made)
    }

    fn slice(&mut self, track: u64, span: (i64, i64), name: &str, about: &[(&str, Value)]) -> io::Result<()> {
        self.event((BEGIN, track, span.0), Some(name), about)?;
        self.event((END, track, span.1), None, &[])
    }

    fn instant(&mut self, track: u64, at_ns: i64, name: &str, about: &[(&str, Value)]) -> io::Result<()> {
        self.event((INSTANT, track, at_ns), Some(name), about)
    }

    fn event(
        &mut self,
        (kind, track, at_ns): (u64, u64, i64),
        name: Option<&str>,
        about: &[(&str, Value)],
    ) -> io::Result<()> {
        let mut event = Message::default();
        event.number(9, kind);
        event.number(11, track);
        if let Some(name) = name {
            event.bytes(23, name.as_bytes());
        }
        for (name, value) in about {
            let mut note = Message::default();
            note.bytes(10, name.as_bytes());
            match value {
                Value::Number(number) => note.number(4, *number as u64),
                Value::Text(text) => note.bytes(6, text.as_bytes()),
            }
            event.bytes(4, &note.0);
        }
        let mut packet = Message::default();
        // A trace begins in 1970 at the earliest.
        packet.number(8, at_ns.max(0) as u64);
        packet.number(10, SEQUENCE);
        packet.bytes(11, &event.0);
        self.packet(&packet)
    }

    fn packet(&mut self, packet: &Message) -> io::Result<()> {
        let mut trace = Message::default();
        trace.bytes(1, &packet.0);
        self.out.write_all(&trace.0)
    }
}

/// A message of protocol buffers, by the encoding's own description: each field is a key (its
/// number and the type of its value) and the value.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// A number; a negative one is its two's complement.
    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    /// A text, or a message within.
    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
