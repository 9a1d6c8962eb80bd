// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file of samples of any bytes: all its rows come out or an error says why not, in memory that
//! the input's length bounds. What came out whole is packed again and comes out the same. Fuzzing
//! ignores the check sum.
//!
//! The seeds are made by the codec as it is today: small files with every kind of column, page and
//! row group, and some that are broken. `examples/seeds.rs` writes them into the corpus; the golden
//! layer checks that they are there.

use std::io;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_parquet::{BATCH_ROWS, CodecError, PAGE_ROWS, Reader, Source};

/// The fewest bytes that the pages take of the four columns that every row has: ten each for a
/// header and what follows it.
const LEAST_PAGES: usize = 40;

/// A file with more rows is only read: to pack it again would take seconds.
const MOST_PACKED: usize = 8 * PAGE_ROWS;

type Streams = Vec<(String, Batch)>;

/// One input; true if it is a whole file of samples.
pub fn input(bytes: &[u8]) -> bool {
    let Some(streams) = unpacked(bytes) else { return false };
    if streams.iter().map(|(_, batch)| batch.len()).sum::<usize>() > MOST_PACKED {
        return true;
    }
    let file = packed(&streams);
    let again = unpacked(&file).expect("what was packed is a whole file");
    assert!(again == streams, "other rows came back");
    assert!(packed(&again) == file, "the same rows have other bytes");
    true
}

fn packed(streams: &Streams) -> Vec<u8> {
    let named: Vec<(&str, &Batch)> = streams.iter().map(|(name, batch)| (name.as_str(), batch)).collect();
    tardy_parquet::check_numbers(&named).expect("numbers ascend in what was read");
    let mut file = Vec::new();
    tardy_parquet::write(&mut file, &named).expect("memory takes what was read");
    file
}

/// Bytes that see how many are asked for.
struct Watched(Vec<u8>);

impl Source for Watched {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let (asked, there) = (buffer.len(), self.0.len());
        assert!(at.saturating_add(asked as u64) <= there as u64, "{asked} bytes asked for at {at} of {there}");
        self.0.read_exact_at(buffer, at)
    }
}

/// All rows of all streams; `None` if something is wrong.
fn unpacked(bytes: &[u8]) -> Option<Streams> {
    let reader = Reader::open(Watched(bytes.to_vec())).map_err(check_error).ok()?;
    let names: Vec<String> = reader.streams().map(str::to_owned).collect();
    let (mut streams, mut rows, mut is_whole) = (Streams::new(), 0, true);
    for name in names {
        let mut all = Batch::default();
        // A stream that is broken does not keep the next from being read.
        is_whole &= read(&reader, &name, &mut all).map_err(check_error).is_ok();
        rows += all.len();
        assert!(rows <= bytes.len() / LEAST_PAGES * PAGE_ROWS, "{rows} rows of {} bytes", bytes.len());
        streams.push((name, all));
    }
    is_whole.then_some(streams)
}

/// Appends the rows of a stream to `all`, up to the first that is broken.
fn read(reader: &Reader, name: &str, all: &mut Batch) -> Result<(), CodecError> {
    let points = reader.points(name)?;
    for point in points.iter().filter(|point| **point != Point::Scheduled) {
        all.offsets[point.index()] = Some(Vec::new());
    }
    let mut batches = reader.batches(name)?;
    let mut batch = Batch::default();
    loop {
        match batches.read(&mut batch) {
            Ok(true) => append(all, &batch),
            Ok(false) => break,
            Err(error) => {
                assert!(matches!(batches.read(&mut batch), Ok(false)), "rows behind an error");
                return Err(error);
            }
        }
    }
    assert_eq!(all.len(), reader.rows(name)?, "as many rows as the file says");
    Ok(())
}

fn append(all: &mut Batch, batch: &Batch) {
    assert!((1..=BATCH_ROWS).contains(&batch.len()) && batch.is_even(), "a batch of {} rows", batch.len());
    all.seq.extend(&batch.seq);
    all.scheduled_ns.extend(&batch.scheduled_ns);
    all.outcome.extend(&batch.outcome);
    all.flags.extend(&batch.flags);
    all.pcp.extend(&batch.pcp);
    for (all, part) in all.offsets.iter_mut().zip(&batch.offsets) {
        assert_eq!(all.is_some(), part.is_some(), "a batch has the points of its stream");
        all.iter_mut().for_each(|all| all.extend(part.iter().flatten()));
    }
    assert!(all.is_even(), "VLAN priorities in some batches of a stream, not in all");
}

/// Memory does not fail, and no stream is asked for that is not there: the bytes are wrong.
fn check_error(error: CodecError) {
    assert!(matches!(error, CodecError::Damaged(_) | CodecError::Newer { .. }), "{error:?}");
    assert!(!error.to_string().is_empty());
}

/// Rows of a small stream.
const ROWS: i64 = 12;
/// When the first packet is due, TAI ns.
const BASE_NS: i64 = 1_767_225_600_000_000_000;
/// A footer's length and the mark behind it.
const END: usize = 8;

/// Whole files, each by its name in the corpus.
pub fn whole() -> Vec<(&'static str, Vec<u8>)> {
    let all = stream(ROWS, &[Point::Wakeup, Point::TxKernel, Point::RxKernel, Point::Receive], noise);
    let other = stream(ROWS / 2, &[Point::TxKernel, Point::Receive], noise);
    let none = stream(0, &[Point::RxKernel], noise);
    let long = stream(PAGE_ROWS as i64 + 3, &[Point::RxKernel], |_, _| 20_000);
    vec![
        ("no_streams", file(&[])),
        ("no_stamps", file(&[("ctl", &stream(ROWS, &[], noise))])),
        ("all_stamps", file(&[("ctl", &all)])),
        ("holes", file(&[("ctl", &with_holes(all.clone()))])),
        ("extremes", file(&[("ctl", &stream(ROWS, &[Point::TxKernel, Point::RxKernel], extreme))])),
        ("priorities", file(&[("ctl", &with_priorities(other.clone()))])),
        ("three_streams", file(&[("ctl", &all), ("none", &none), ("b", &other)])),
        ("two_pages", file(&[("ctl", &long)])),
    ]
}

/// Files that are refused, the same way.
pub fn broken() -> Vec<(&'static str, Vec<u8>)> {
    let sound = file(&[("ctl", &stream(ROWS, &[Point::TxKernel, Point::RxKernel], noise))]);
    let cut = sound[..sound.len() - END].to_vec();
    // Thrift's compact protocol: a list of 2^31 row groups that are not there; lists in lists.
    let groups = footer(&[0x29, 0x1c, 0x48, 1, b'r', 0, 0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07]);
    let nested = footer(&[&[0x99][..], &[0x19; 64]].concat());
    vec![
        ("cut", cut),
        ("newer", replaced(&sound, b"{\"format\":1", b"{\"format\":2")),
        ("other_rows", replaced(&sound, b"\"rows\":12", b"\"rows\":13")),
        ("other_column", replaced(&sound, b"\x03seq", b"\x03sex")),
        ("turned_points", replaced(&sound, b"[\"tx_kernel\",\"rx_kernel\"]", b"[\"rx_kernel\",\"tx_kernel\"]")),
        ("many_groups", groups),
        ("nested", nested),
    ]
}

fn file(streams: &[(&str, &Batch)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    tardy_parquet::write(&mut bytes, streams).expect("memory takes it");
    bytes
}

/// A file of nothing but a footer.
fn footer(bytes: &[u8]) -> Vec<u8> {
    [b"PAR1", bytes, &(bytes.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes.windows(from.len()).position(|window| window == from).expect("it is there");
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}

/// Rows with a stamp of each point, `stage` behind the one before it: a function of the row and the
/// point's place.
fn stream(rows: i64, points: &[Point], stage: impl Fn(i64, i64) -> i64) -> Batch {
    let mut batch = Batch::default();
    for row in 0..rows {
        batch.seq.push(row);
        batch.scheduled_ns.push(BASE_NS + row * 500_000);
        batch.outcome.push(Outcome::Received);
        batch.flags.push(Flags::default());
    }
    let mut stamps = vec![0i64; batch.len()];
    for (place, point) in (0..).zip(points) {
        for (row, stamp) in (0..).zip(&mut stamps) {
            *stamp = stamp.wrapping_add(stage(row, place));
        }
        batch.offsets[point.index()] = Some(stamps.iter().copied().map(MaybeNanos::some).collect());
    }
    batch
}

/// Some ten microseconds; the lower two bytes differ in each row.
fn noise(row: i64, place: i64) -> i64 {
    10_000 + (row * 7_919 + place * 104_729) % 30_011
}

/// Stages of one to eight bytes, above zero and below.
fn extreme(row: i64, place: i64) -> i64 {
    let stage = i64::MAX >> (8 * (row % 8));
    if (row + place) % 2 == 0 { stage } else { -stage }
}

/// Lost packets, packets not sent, numbers left out, and a stamp that is missing here and there.
fn with_holes(mut batch: Batch) -> Batch {
    for row in 0..batch.len() {
        batch.seq[row] += 3 * (row as i64 / 5);
        batch.outcome[row] = Outcome::ALL[row % 3];
        batch.flags[row] = Flags(1 << (row % 4));
        let stamps = batch.offsets.iter_mut().flatten();
        stamps.enumerate().filter(|(n, _)| row % (n + 2) == 1).for_each(|(_, stamps)| stamps[row] = MaybeNanos::NONE);
    }
    batch
}

fn with_priorities(mut batch: Batch) -> Batch {
    batch.pcp = (0..batch.len()).map(|row| (row % 3 > 0).then_some(row as u8 % 8)).collect();
    batch
}
