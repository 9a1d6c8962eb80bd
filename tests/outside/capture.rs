// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wireshark's tshark reads test frames by tardy's dissector, and the captures that
//! `tardy export --to pcapng` writes.

use crate::{PING_PONG, Run, lossy, output, sound};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tardy_model::ethernet::{self, ETHERTYPE, Tag};
use tardy_model::frame::{Frame, HEAD, Heads, LEAD, PacketKind};
use tardy_model::point::Point;
use tardy_model::sample::Outcome;
use tardy_store::RunFolder;

/// Fields of each packet, as tshark prints them: a line for a packet. Nothing if tshark is not
/// there, which is counted as skipped.
fn read(test: &str, capture: &Path, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let dissector = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integrations/wireshark/tardy.lua");
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", dissector.display()));
    command.arg("-r").arg(capture).args(["-n", "-T", "fields"]);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    if Command::new("tshark").arg("--version").output().is_err() {
        tardy_tests::skip(test, "tshark is not there: apt install tshark");
        return None;
    }
    let ended = output(&mut command);
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && !err.contains("Lua"), "{err}");
    let lines = String::from_utf8(ended.stdout).expect("text");
    Some(lines.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

/// A capture of these Ethernet frames, in the older form that every tool writes.
fn captured(frames: &[Vec<u8>], path: &Path) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (second, frame) in frames.iter().enumerate() {
        let length = frame.len() as u32;
        [second as u32, 0, length, length].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).expect("a file");
}

fn payload(frame: Frame) -> Vec<u8> {
    let mut payload = vec![0; usize::from(frame.size)];
    frame.write(&mut payload);
    payload
}

/// IPv4 and UDP, from port 9000 to 9001, without checksums.
fn over_udp(payload: &[u8]) -> Vec<u8> {
    let mut frame = ethernet::head([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], None, 0x0800);
    let udp = (payload.len() + 8) as u16;
    frame.extend([0x45, 0]);
    frame.extend((udp + 20).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    [9000, 9001, udp, 0].iter().for_each(|word: &u16| frame.extend(word.to_be_bytes()));
    frame.extend(payload);
    frame
}

fn over_ethernet(tag: Option<Tag>, payload: &[u8]) -> Vec<u8> {
    let mut frame = ethernet::head([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], tag, ETHERTYPE);
    frame.extend(payload);
    frame
}

#[test]
fn tshark_prints_the_fields_of_test_frames() {
    let test = "tshark_prints_the_fields_of_test_frames";
    let of = |kind, stream, size, nonce, seq| Frame { kind, stream, size, nonce, seq };
    let sent = payload(of(PacketKind::Test, 3, 64, 0x0123_4567_89ab_cdef, 42));
    let answer = payload(of(PacketKind::Reply, 255, 1472, u64::MAX, 0));
    let lead = payload(of(PacketKind::WarmUp, 0, HEAD as u16, 1, LEAD));
    let mut marked = vec![0; HEAD];
    Heads::marks(1, HEAD as u16, 5).write(9, &mut marked);
    let (mut damaged, mut short) = (sent.clone(), answer.clone());
    damaged[19] ^= 1;
    short.truncate(100);
    let foreign = vec![0x55; 64];
    let frames = [
        over_ethernet(None, &sent),
        over_udp(&answer),
        over_ethernet(Some(Tag { vlan: 100, pcp: 3 }), &lead),
        over_ethernet(None, &marked),
        over_ethernet(None, &damaged),
        over_udp(&short),
        over_udp(&foreign),
        over_ethernet(None, &foreign),
        over_ethernet(None, &sent[..HEAD - 1]),
    ];
    let keep = tempfile::tempdir().expect("a folder");
    let path = keep.path().join("frames.pcap");
    captured(&frames, &path);
    let fields = ["kind", "mark", "stream", "size", "nonce", "seq", "check.valid", "damaged", "truncated"];
    let fields: Vec<String> = fields.iter().map(|field| format!("tardy.{field}")).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).chain(["vlan.id"]).collect();
    let Some(lines) = read(test, &path, &fields) else { return };
    let of = |n: usize| {
        let line: Vec<&str> = lines[n].iter().map(String::as_str).collect();
        line.join(" ").trim_end().to_owned()
    };
    assert_eq!(lines.len(), frames.len());
    assert_eq!(of(0), "1 0 3 64 0x0123456789abcdef 42 1");
    assert_eq!(of(1), "3 0 255 1472 0xffffffffffffffff 0 1");
    assert_eq!(of(2), format!("2 0 0 24 0x0000000000000001 {LEAD} 1   100"));
    assert_eq!(of(3), "1 1 1 24 0x0000000000000005 9 1");
    assert_eq!(lines[4][5..7], ["43", "0"], "the number that arrived, and that the check does not fit it");
    assert!(!lines[4][7].is_empty() && lines[4][8].is_empty(), "damaged: {:?}", lines[4]);
    assert!(lines[5][7].is_empty() && !lines[5][8].is_empty(), "truncated: {:?}", lines[5]);
    for n in 6..9 {
        assert_eq!(of(n), "", "a stranger's is not taken for tardy's");
    }
}

/// When a packet was at a point, and how the capture is to say it: by cell, trial, stream, number
/// and point.
type Blocks = BTreeMap<(String, u32, String, i64, Point), (i64, i64, Outcome)>;

/// What the samples have.
fn samples(run: &Path) -> (Blocks, BTreeMap<(String, u32), String>) {
    let folder = RunFolder::open(run).expect("a run");
    let (mut blocks, mut nonces) = (Blocks::new(), BTreeMap::new());
    for trial in folder.trials().expect("trials") {
        let record = folder.record(&trial.cell, trial.n).expect("a record");
        nonces.insert((trial.cell.clone(), trial.n), record.nonce.clone());
        let utc_ns = -i64::from(record.before.clocks.tai_offset_s) * 1_000_000_000;
        for (stream, of) in &record.streams {
            for batch in folder.batches(&trial.cell, trial.n, stream).expect("samples") {
                let batch = batch.expect("rows");
                for row in 0..batch.len() {
                    for point in of.sources.keys() {
                        let Some(stamp) = batch.offset(row, *point) else { continue };
                        let scheduled = batch.scheduled_ns[row];
                        blocks.insert(
                            (trial.cell.clone(), trial.n, stream.clone(), batch.seq[row], *point),
                            (scheduled + stamp + utc_ns, stamp, batch.outcome[row]),
                        );
                    }
                }
            }
        }
    }
    (blocks, nonces)
}

/// Compares a capture with the samples that it was made of; how many blocks it has.
fn compare(test: &str, run: &Run) -> Option<usize> {
    let (capture, told): (PathBuf, String) = run.exported("pcapng");
    assert!(told.contains("addresses are made up"), "{told}");
    let fields = [
        "frame.interface_name",
        "frame.time_epoch",
        "frame.comment",
        "tardy.nonce",
        "tardy.seq",
        "tardy.check.valid",
        "tardy.kind",
    ];
    let lines = read(test, &capture, &fields)?;
    let (mut blocks, nonces) = samples(&run.out());
    let all = blocks.len();
    for line in &lines {
        let [interface, time, comment, nonce, seq, valid, kind] = &line[..] else { panic!("{line:?}") };
        let (station, point) = interface.split_once(' ').expect("station and point");
        let point: Point = point.parse().expect("a point");
        let is_reply = point >= Point::ReplySend;
        let at_asker = point < Point::RxHw || point >= Point::ReplyRxKernel;
        assert_eq!((station == "a", kind == "3"), (at_asker, is_reply), "{line:?}");
        // packet N of stream S in trial T of cell C[, in no figure]: OUTCOME[, FLAG…]; ns after …
        let rest = comment.strip_prefix(&format!("packet {seq} of stream ")).expect("the number");
        let (stream, rest) = rest.split_once(" in trial ").expect("the stream");
        let (n, rest) = rest.split_once(" of cell ").expect("the trial");
        let (head, _) = rest.split_once("; ns after ").expect("the stamps");
        let (cell, became) = head.rsplit_once(": ").expect("the cell");
        let cell = cell.strip_suffix(", in no figure").unwrap_or(cell);
        let n: u32 = n.parse().expect("a number");
        let key = (cell.to_owned(), n, stream.to_owned(), seq.parse().expect("a number"), point);
        let (time_ns, stamp, outcome) = blocks.remove(&key).unwrap_or_else(|| panic!("{key:?} is there once"));
        let (seconds, ns) = time.split_once('.').expect("a time");
        let shown: i64 = format!("{seconds}{ns}").parse().expect("ns");
        assert_eq!((ns.len(), shown), (9, time_ns), "{line:?}");
        assert!(comment.split(' ').any(|pair| pair == format!("{point}={stamp}")), "{line:?}");
        assert_eq!(became.split(", ").next(), Some(outcome.name()), "{line:?}");
        assert_eq!((nonce.as_str(), valid.as_str()), (&*format!("0x{}", nonces[&(key.0, n)]), "1"));
    }
    assert_eq!((lines.len(), blocks.len()), (all, 0), "each stamp is a block");
    Some(all)
}

#[test]
fn tshark_reads_each_stamp_of_a_run_from_its_capture() {
    let test = "tshark_reads_each_stamp_of_a_run_from_its_capture";
    let least = [(lossy(), 1, 10_000), (PING_PONG, 0, 10_000)];
    for (what, code, least) in least {
        let run = Run::simulated("capture", what, code);
        let Some(blocks) = compare(test, &run) else { return };
        assert!(blocks >= least, "{blocks}");
    }
    let killed = Run::killed();
    assert!(compare(test, &killed).is_none_or(|blocks| blocks > 1_000));
}

#[test]
fn the_dissector_has_the_stamps_of_an_exported_packet() {
    let test = "the_dissector_has_the_stamps_of_an_exported_packet";
    let run = Run::simulated("capture", sound(), 0);
    let (capture, _) = run.exported("pcapng");
    let points: Vec<Point> = samples(&run.out()).0.into_keys().map(|(.., point)| point).collect();
    let last = points.iter().max().expect("points");
    let field = format!("tardy.stamp.{last}");
    let Some(lines) = read(test, &capture, &["frame.comment", "tardy.scheduled", &field]) else { return };
    for line in lines.iter().take(1_000) {
        let has = |pair: String| line[0].split([' ', ':']).any(|word| word == pair);
        assert!(has(format!("scheduled={}", line[1])) && has(format!("{last}={}", line[2])), "{line:?}");
    }
}
