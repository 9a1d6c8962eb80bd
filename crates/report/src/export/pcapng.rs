// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets as a capture in the pcapng format (draft-ietf-opsawg-pcapng), for Wireshark and its
//! kin: one block per packet and point that stamped it, on an interface named after the station
//! and the point, at the stamp's time.
//!
//! tardy keeps no packets, so each is written anew from its sample: addresses are made up, and of
//! the payload there is the test frame's head, which is what was sent. A stream of any port is
//! written as the Ethernet frames of port `packet`. Each block's comment has what became of the
//! packet and all of its stamps; `integrations/wireshark/tardy.lua` reads both.
//!
//! Times of a capture are UTC: TAI less what the kernel had between the two when the trial began.
//! Blocks of a stream in a trial ascend in time, except where clocks disagree.

use super::source::{ExportError, Source};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Write};
use tardy_model::ethernet::{self, ETHERTYPE, Mac, Tag};
use tardy_model::frame::{Frame, HEAD, PacketKind};
use tardy_model::point::Point;
use tardy_model::port::Port;
use tardy_model::sample::{Batch, Flags, Outcome};
use tardy_model::stream::Stream;
use tardy_model::stream_id::StreamId;

/// Types of blocks and numbers of options.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const COMMENT: u16 = 1;
const INTERFACE_NAME: u16 = 2;
const APPLICATION: u16 = 4;
const RESOLUTION: u16 = 9;
/// Times are in units of ten to the minus this.
const NANOSECONDS: u8 = 9;
/// The type of link: frames begin with their addresses.
const ETHERNET: u16 = 1;

pub(super) fn write(source: &Source<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    let mut capture = Capture { out, interfaces: BTreeMap::new() };
    capture.section(source)?;
    let mut not_sent = 0;
    let mut early = 0;
    for trial in source.run.trials()? {
        let record = source.run.record(&trial.cell, trial.n)?;
        let nonce = u64::from_str_radix(&record.nonce, 16).unwrap_or_default();
        let utc_less_tai_ns = i64::from(record.before.clocks.tai_offset_s) * -1_000_000_000;
        let in_figures = if source.in_figures(&trial) { "" } else { ", in no figure" };
        for (name, record) in &record.streams {
            if record.copy.is_some() {
                return Err(ExportError::NoPackets);
            }
            let (number, stream) = source.stream(&trial.cell, name)?;
            let shape = Shape::of(number, stream, nonce);
            let whose = format!("of stream {name} in trial {} of cell {}{in_figures}", trial.n, trial.cell);
            let points: Vec<Point> = record.sources.keys().copied().collect();
            let mut waiting: BinaryHeap<Reverse<Block>> = BinaryHeap::new();
            source.packets(&trial, name, record, |batch, row, _| {
                let scheduled_ns = batch.scheduled_ns[row].saturating_add(utc_less_tai_ns);
                while waiting.peek().is_some_and(|Reverse(block)| block.time_ns < scheduled_ns) {
                    if let Some(Reverse(block)) = waiting.pop() {
                        capture.packet(&shape, &block)?;
                    }
                }
                not_sent += u64::from(batch.outcome[row] == Outcome::NotSent);
                let comment = comment(batch, row, &points, &whose);
                for point in &points {
                    let Some(stamp) = batch.offset(row, *point) else { continue };
                    let time_ns = scheduled_ns.saturating_add(stamp);
                    if time_ns < 0 {
                        early += 1;
                        continue;
                    }
                    let comment = comment.clone();
                    waiting.push(Reverse(Block { time_ns, seq: batch.seq[row], point: *point, comment }));
                }
                Ok(())
            })?;
            while let Some(Reverse(block)) = waiting.pop() {
                capture.packet(&shape, &block)?;
            }
        }
    }
    let mut notes = vec![
        "addresses are made up, and of each payload there is the test frame's head alone: tardy keeps no packets"
            .to_owned(),
    ];
    if not_sent > 0 {
        notes.push(format!(
            "{not_sent} packets were never sent: they have the blocks of the stamps before that, if any"
        ));
    }
    if early > 0 {
        notes.push(format!("{early} stamps lie before 1970, which a capture cannot say: they are left out"));
    }
    Ok(notes)
}

/// A packet at a point, ordered by when it was there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Block {
    /// When it was there: ns since 1970, UTC.
    time_ns: i64,
    seq: i64,
    point: Point,
    comment: String,
}

/// What the packets of a stream in a trial have in common.
struct Shape {
    number: u8,
    nonce: u64,
    size: u16,
    tag: Option<Tag>,
    ethertype: u16,
    /// The station that sends, and the one that receives.
    ends: [String; 2],
}

impl Shape {
    fn of(id: StreamId, stream: &Stream, nonce: u64) -> Shape {
        let ethertype = if stream.port == Port::Packet { stream.ethertype } else { ETHERTYPE };
        let ends = [stream.from.clone(), stream.to.clone()];
        Shape { number: id.number(), nonce, size: stream.size.max(HEAD as u16), tag: stream.tag, ethertype, ends }
    }

    /// The packet's bytes as far as the head of the test frame, and how long it was as a whole.
    fn bytes(&self, kind: PacketKind, seq: i64) -> (Vec<u8>, usize) {
        let (to, from) = if kind == PacketKind::Reply { (0, 1) } else { (1, 0) };
        let mut bytes = ethernet::head(address(to), address(from), self.tag, self.ethertype);
        let before = bytes.len();
        bytes.resize(before + HEAD, 0);
        let seq = u32::try_from(seq).unwrap_or(u32::MAX);
        let frame = Frame { kind, stream: self.number, size: self.size, nonce: self.nonce, seq };
        frame.write(&mut bytes[before..]);
        (bytes, before + usize::from(self.size))
    }
}

/// A made-up address, locally administered: of the station that sends, or of the one that receives.
fn address(end: u8) -> Mac {
    [0x02, 0x74, 0x64, 0x79, 0, end]
}

/// Where a point is on a packet's way: which of the two stations stamps it there (0: the one that
/// sends), and whether it is the packet or its reply.
fn place(point: Point) -> (usize, PacketKind) {
    match point {
        Point::Scheduled | Point::Wakeup | Point::Send | Point::TxSched | Point::TxKernel | Point::TxHw => {
            (0, PacketKind::Test)
        }
        Point::RxHw | Point::RxXdp | Point::RxKernel | Point::Receive => (1, PacketKind::Test),
        Point::ReplySend | Point::ReplyTxSched | Point::ReplyTxKernel => (1, PacketKind::Reply),
        Point::ReplyRxKernel | Point::ReplyReceive => (0, PacketKind::Reply),
        // Of passes over buffers, which no capture has.
        Point::Begin | Point::End => (0, PacketKind::Test),
    }
}

/// What became of a packet, for people and for the dissector: after the last colon there are pairs
/// of a point and its ns after the scheduled instant.
fn comment(batch: &Batch, row: usize, points: &[Point], whose: &str) -> String {
    let mut says = format!("packet {} {whose}: {}", batch.seq[row], batch.outcome[row].name());
    for (flag, name) in Flags::NAMES {
        if batch.flags[row].has(flag) {
            says += ", ";
            says += name;
        }
    }
    says += &format!("; ns after scheduled={}:", batch.scheduled_ns[row]);
    for point in points {
        if let Some(stamp) = batch.offset(row, *point) {
            says += &format!(" {point}={stamp}");
        }
    }
    says
}

/// The file as it is written.
struct Capture<'a> {
    out: &'a mut dyn Write,
    /// Each interface's number, by its name.
    interfaces: BTreeMap<String, u32>,
}

impl Capture<'_> {
    /// The head of the file.
    fn section(&mut self, source: &Source<'_>) -> io::Result<()> {
        let mut body = Vec::new();
        body.extend(0x1a2b_3c4d_u32.to_le_bytes());
        body.extend(1_u16.to_le_bytes());
        body.extend(0_u16.to_le_bytes());
        body.extend((-1_i64).to_le_bytes());
        let says = format!("experiment {}: written from the samples of a run of tardy", source.results.name);
        option(&mut body, COMMENT, says.as_bytes());
        option(&mut body, APPLICATION, format!("tardy {}", source.manifest.tardy).as_bytes());
        self.block(SECTION, body)
    }

    /// The number of the interface of this name; its first use announces it.
    fn interface(&mut self, name: &str) -> io::Result<u32> {
        if let Some(number) = self.interfaces.get(name) {
            return Ok(*number);
        }
        let number = self.interfaces.len() as u32;
        let mut body = Vec::new();
        body.extend(ETHERNET.to_le_bytes());
        body.extend([0; 6]);
        option(&mut body, INTERFACE_NAME, name.as_bytes());
        option(&mut body, RESOLUTION, &[NANOSECONDS]);
        self.block(INTERFACE, body)?;
        self.interfaces.insert(name.to_owned(), number);
        Ok(number)
    }

    fn packet(&mut self, shape: &Shape, block: &Block) -> io::Result<()> {
        let (end, kind) = place(block.point);
        let interface = self.interface(&format!("{} {}", shape.ends[end], block.point))?;
        let (bytes, length) = shape.bytes(kind, block.seq);
        let time = block.time_ns as u64;
        let mut body = Vec::with_capacity(128 + block.comment.len());
        let words = [interface, (time >> 32) as u32, time as u32, bytes.len() as u32, length as u32];
        words.iter().for_each(|word| body.extend(word.to_le_bytes()));
        body.extend(&bytes);
        pad(&mut body);
        option(&mut body, COMMENT, block.comment.as_bytes());
        self.block(PACKET, body)
    }

    /// Writes a block whose options, if any, end here.
    fn block(&mut self, kind: u32, mut body: Vec<u8>) -> io::Result<()> {
        body.extend([0; 4]);
        let length = (body.len() + 12) as u32;
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(&body)?;
        self.out.write_all(&length.to_le_bytes())
    }
}

/// Appends an option; a value longer than an option can be is cut.
fn option(body: &mut Vec<u8>, number: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(number.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

/// Fills up to a whole number of 32-bit words.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}
