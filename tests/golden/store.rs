// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run folder: what is written is read back exactly, costs no more than it may, and breaks
//! with a clear error. Here: pages of every shape, and a damaged byte, also behind a check sum that
//! fits.

mod folder;
mod samples;

use proptest::prelude::*;
use rand::{RngCore, SeedableRng};
use rand_pcg::Pcg64;
use samples::{read_all, round_trip};
use std::fs;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_parquet::{BATCH_ROWS, PAGE_ROWS};
use tardy_store::{RunFolder, SamplesFile, encode_samples};

const FOUR: [Point; 3] = [Point::TxKernel, Point::RxKernel, Point::Receive];

/// Seeded draws that look like a real path.
struct Draw(Pcg64);

impl Draw {
    fn new(seed: u64) -> Self {
        Draw(Pcg64::seed_from_u64(seed))
    }
    /// In 0..1, never 0.
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
    fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }
    /// Added to a `share` of the draws, exponential of this mean.
    fn outlier(&mut self, share: f64, mean: f64) -> f64 {
        if self.unit() < share { -mean * self.unit().ln() } else { 0.0 }
    }
}

/// The four-stamp case: wake-up p50 14 µs, p99 40 µs, rare 1 ms; driver to kernel 400 ± 150 ns;
/// kernel to application 19 µs.
fn realistic(rows: usize, seed: u64) -> Batch {
    let mut draw = Draw::new(seed);
    let mut batch = empty_batch(&FOUR);
    let base = 1_763_000_000_123_456_789;
    for row in 0..rows {
        let wakeup = draw.log_normal(14_000.0, 0.451) + draw.outlier(0.001, 1e6);
        let tx_kernel = wakeup + draw.log_normal(1_000.0, 0.2);
        let rx_kernel = tx_kernel + (400.0 + 150.0 * draw.normal()).abs() + draw.outlier(0.003, 1e4);
        let receive = rx_kernel + draw.log_normal(19_000.0, 0.35) + draw.outlier(0.002, 3e5);
        push(&mut batch, row as i64, base + row as i64 * 500_000, Outcome::Received, Flags::default());
        for (point, value) in FOUR.into_iter().zip([tx_kernel, rx_kernel, receive]) {
            stamps(&mut batch, point).push(MaybeNanos::some(value as i64));
        }
    }
    batch
}

fn empty_batch(points: &[Point]) -> Batch {
    let mut batch = Batch::default();
    for point in points {
        batch.offsets[point.index()] = Some(Vec::new());
    }
    batch
}

fn push(batch: &mut Batch, seq: i64, scheduled: i64, outcome: Outcome, flags: Flags) {
    batch.seq.push(seq);
    batch.scheduled_ns.push(scheduled);
    batch.outcome.push(outcome);
    batch.flags.push(flags);
}

fn stamps(batch: &mut Batch, point: Point) -> &mut Vec<MaybeNanos> {
    batch.offsets[point.index()].get_or_insert_default()
}

fn new_run() -> (tempfile::TempDir, RunFolder) {
    let folder = tempfile::tempdir().unwrap();
    let run = RunFolder::create(folder.path().join("deep/run")).unwrap();
    (folder, run)
}

/// Rows of one kind: how many, what they lack, and how many bytes their stages need.
#[derive(Clone, Copy, Debug)]
struct Part {
    rows: usize,
    /// 0: nothing, 1: tx_kernel, 2: rx_kernel, 3: all, 4: every third rx_kernel, 5: every second
    /// tx_kernel and VLAN priority.
    lacks: u8,
    bytes: u32,
    negative: bool,
    seed: i64,
}

fn part() -> impl Strategy<Value = Part> {
    let around = |rows: usize| rows - 2..rows + 3;
    let rows = prop_oneof![4 => 1usize..40, 1 => 1_000usize..1_100, 1 => around(BATCH_ROWS), 2 => around(PAGE_ROWS)];
    (rows, 0u8..6, 0u32..9, any::<bool>(), 0i64..1 << 40).prop_map(|(rows, lacks, bytes, negative, seed)| Part {
        rows,
        lacks,
        bytes,
        negative,
        seed,
    })
}

fn of_parts(points: &[Point], with_pcp: bool, parts: &[Part]) -> Batch {
    let mut batch = empty_batch(points);
    // A reader takes ascending numbers only.
    let mut left_out = 0;
    for part in parts {
        for n in 0..part.rows as i64 {
            let row = batch.len() as i64;
            // Now and then neither number nor instant goes on as before.
            let step = if n % 5_000 == 4_999 { part.seed } else { 0 };
            left_out += step.rem_euclid(100_003);
            push(
                &mut batch,
                row + left_out,
                row * 500_000 - step,
                Outcome::ALL[(part.seed + n / 700) as usize % 3],
                Flags((part.seed >> (n % 3)) as u8),
            );
            let odd = n % 2 == 1;
            if with_pcp {
                let pcp = if part.lacks == 3 || part.lacks == 5 && odd { None } else { Some((n / 9 % 8) as u8) };
                batch.pcp.push(pcp);
            }
            let mut before = 0i64;
            for point in points {
                // The upper byte is always used, the others now and then.
                let noise = n.wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64).wrapping_add(part.seed) as u64;
                let stage = if part.bytes == 0 { 0 } else { (noise | 1 << 63) >> (64 - 8 * part.bytes) };
                let stage = if part.negative { (stage as i64).wrapping_neg() } else { stage as i64 };
                let lacks = match part.lacks {
                    1 => *point == Point::TxKernel,
                    2 => *point == Point::RxKernel,
                    3 => true,
                    4 => *point == Point::RxKernel && n % 3 == 0,
                    5 => *point == Point::TxKernel && odd,
                    _ => false,
                };
                before = before.wrapping_add(stage);
                let stamp = if lacks { MaybeNanos::NONE } else { MaybeNanos::some(before) };
                stamps(&mut batch, *point).push(stamp);
            }
        }
    }
    batch
}

const POINTS: [Point; 4] = [Point::Wakeup, Point::TxKernel, Point::RxKernel, Point::Receive];

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_of_every_shape_come_back_exactly(
        a in proptest::collection::vec(part(), 0..6),
        b in proptest::collection::vec(part(), 0..4),
        points in proptest::sample::subsequence(POINTS.to_vec(), 0..=4),
        with_pcp in any::<bool>(),
    ) {
        let (a, b) = (of_parts(&POINTS, with_pcp, &a), of_parts(&points, !with_pcp, &b));
        let empty = empty_batch(&[Point::RxKernel]);
        let streams = [("a", &a), ("empty", &empty), ("b", &b)];
        for ((name, back), (wrote_name, wrote)) in round_trip(&streams).iter().zip(&streams) {
            prop_assert_eq!(name, wrote_name);
            // Of an empty batch nothing tells whether there would be priorities.
            prop_assert!(back == *wrote, "stream {name} differs");
        }
    }
}

#[test]
fn stages_of_any_number_of_bytes_come_back_page_after_page() {
    let page = |bytes, negative, lacks| Part { rows: PAGE_ROWS, lacks, bytes, negative, seed: 77 };
    for lacks in 0..6 {
        let parts: Vec<Part> = (0..9).flat_map(|bytes| [page(bytes, false, 0), page(bytes, true, lacks)]).collect();
        let batch = of_parts(&[Point::TxKernel, Point::RxKernel], true, &parts);
        assert!(round_trip(&[("ctl", &batch)])[0].1 == batch, "lacks {lacks}");
    }
}

#[test]
fn a_batch_that_held_other_rows_keeps_nothing_of_them() {
    let long = Part { rows: PAGE_ROWS + 9, lacks: 0, bytes: 2, negative: false, seed: 3 };
    let a = of_parts(&POINTS, true, &[long, Part { lacks: 2, ..long }]);
    let b = of_parts(&[Point::RxKernel], false, &[Part { rows: 5, lacks: 4, ..long }]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    tardy_store::write_samples(&path, &[("a", &a), ("b", &b)]).unwrap();
    let file = SamplesFile::open(&path).unwrap();
    let mut batch = Batch::default();
    for name in ["a", "b", "a", "b"] {
        let mut reader = file.batches(name).unwrap();
        for fresh in file.batches(name).unwrap() {
            assert!(reader.read(&mut batch).unwrap());
            assert!(batch == fresh.unwrap(), "stream {name}");
        }
        assert!(!reader.read(&mut batch).unwrap());
    }
}

/// CRC-32 of IEEE 802.3, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
}

const SUM: &[u8] = b"\"crc32\":";

/// Where a file's footer begins, and where in it the sum's digits stand.
fn places(bytes: &[u8]) -> (usize, std::ops::Range<usize>) {
    let length = u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap()) as usize;
    let footer = bytes.len() - 8 - length;
    let digits = footer + bytes[footer..].windows(SUM.len()).position(|window| window == SUM).unwrap() + SUM.len();
    let end = digits + bytes[digits..].iter().position(|byte| *byte == b',').unwrap();
    (footer, digits..end)
}

/// Makes the check sum right again after the bytes before the footer have changed.
fn sum_again(bytes: &mut [u8]) {
    let (footer, digits) = places(bytes);
    let start = bytes[..digits.start].iter().rposition(|byte| *byte == b'{').unwrap();
    let end = digits.end + bytes[digits.end..].windows(2).position(|window| window == b"]}").unwrap() + 2;
    let chunks = crc32(&bytes[..footer]).to_string();
    let sum = crc32(&[&bytes[start..digits.start], chunks.as_bytes(), &bytes[digits.end..end]].concat());
    // JSON allows spaces before a number, so a shorter one fits too.
    let text = format!("{sum:>width$}", width = digits.len());
    bytes[digits].copy_from_slice(text.as_bytes());
}

/// A small file with every kind of column and page, whose sum has all ten digits.
fn small_file() -> Vec<u8> {
    let part = Part { rows: 90, lacks: 0, bytes: 2, negative: false, seed: 1 };
    let a = of_parts(&[Point::TxKernel, Point::RxKernel], true, &[part, Part { lacks: 5, bytes: 8, ..part }]);
    let files = (1..40).map(|rows| encode_samples(&[("a", &a), ("b", &realistic(rows, 2))]).unwrap());
    files.into_iter().find(|bytes| places(bytes).1.len() == 10).unwrap()
}

#[test]
fn a_damaged_byte_is_an_error_and_no_panic_with_or_without_its_check_sum() {
    let bytes = small_file();
    let (footer, _) = places(&bytes);
    let mut same = bytes.clone();
    sum_again(&mut same);
    assert!(same == bytes, "the sum is not reckoned as the writer does");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        SamplesFile::open(&path).and_then(|file| read_all(&file)).map_err(|error| error.to_string())
    };
    let whole = read(&bytes).unwrap();
    let (mut refused, mut read_on) = (0, 0);
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff, bytes[at]] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            if damaged == bytes {
                continue;
            }
            match read(&damaged) {
                Ok(same) => assert!(at >= footer && same == whole, "byte {at} changed the samples in silence"),
                Err(error) => assert!(error.contains("samples.parquet"), "{error}"),
            }
            if (4..footer).contains(&at) {
                sum_again(&mut damaged);
                match read(&damaged) {
                    Ok(_) => read_on += 1,
                    Err(error) => {
                        assert!(error.contains("samples.parquet"), "{error}");
                        refused += 1;
                    }
                }
            }
        }
    }
    // The sum fitted, or nothing would be read; what is behind it was reached and refuses too.
    assert!(refused > 100 && read_on > 100, "{refused} refused, {read_on} read on");
}
