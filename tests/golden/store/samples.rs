// SPDX-License-Identifier: MIT OR Apache-2.0
//! `samples.parquet`: exact, small, the same bytes for the same samples, and never read wrongly.
//! The codec reads bytes in memory as it reads a file, and its errors say whose they are.

use super::{empty_batch, push, realistic, stamps};
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::{fs, io};
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_parquet::{BATCH_ROWS, CodecError, Reader, Source, check, check_numbers, write};
use tardy_store::{SamplesFile, StoreError, encode_samples, write_samples};

/// Everything a file holds, by stream, joined from its batches.
pub(super) fn read_all(file: &SamplesFile) -> Result<Vec<(String, Batch)>, StoreError> {
    let names: Vec<String> = file.streams().map(str::to_owned).collect();
    let mut streams = Vec::new();
    for name in names {
        let mut whole = empty_batch(&file.points(&name)?.into_iter().skip(1).collect::<Vec<_>>());
        for batch in file.batches(&name)? {
            let batch = batch?;
            assert!(batch.len() <= BATCH_ROWS);
            whole.seq.extend(batch.seq);
            whole.scheduled_ns.extend(batch.scheduled_ns);
            whole.outcome.extend(batch.outcome);
            whole.flags.extend(batch.flags);
            whole.pcp.extend(batch.pcp);
            for (all, part) in whole.offsets.iter_mut().zip(batch.offsets) {
                assert_eq!(all.is_some(), part.is_some(), "a batch has the points of its stream");
                all.iter_mut().for_each(|all| all.extend(part.iter().flatten()));
            }
        }
        streams.push((name, whole));
    }
    Ok(streams)
}

pub(super) fn round_trip(streams: &[(&str, &Batch)]) -> Vec<(String, Batch)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    write_samples(&path, streams).unwrap();
    read_all(&SamplesFile::open(&path).unwrap()).unwrap()
}

pub(super) fn columns_of(streams: &[(&str, &Batch)]) -> Vec<String> {
    let file = SerializedFileReader::new(bytes_of(encode_samples(streams).unwrap())).unwrap();
    let schema = file.metadata().file_metadata().schema_descr();
    schema.columns().iter().map(|column| column.name().to_owned()).collect()
}

/// The Parquet crate reads from files and from its own kind of bytes; a file is enough here.
fn bytes_of(bytes: Vec<u8>) -> fs::File {
    use std::io::Write;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    file
}

fn any_nanos() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -50_000..200_000i64,
        1 => any::<i64>(),
        1 => Just(i64::MAX),
        1 => Just(i64::MIN + 1),
    ]
}

/// Any batch at all: any points, any rows, any pattern of missing stamps.
fn any_batch() -> impl Strategy<Value = Batch> {
    let row = (
        (1..70_000_000i64, any_nanos(), 0..3usize, any::<u8>(), proptest::option::of(any::<u8>())),
        proptest::collection::vec(proptest::option::weighted(0.7, any_nanos()), Point::COUNT - 1),
    );
    let points = proptest::sample::subsequence(Point::ALL[1..].to_vec(), 0..Point::COUNT);
    (points, any::<bool>(), proptest::collection::vec(row, 0..60)).prop_map(|(points, with_pcp, rows)| {
        let mut batch = empty_batch(&points);
        let mut seq = -1;
        for ((step, scheduled, outcome, flags, pcp), offsets) in rows {
            seq += step;
            push(&mut batch, seq, scheduled, Outcome::ALL[outcome], Flags(flags));
            if with_pcp {
                batch.pcp.push(pcp);
            }
            for point in &points {
                stamps(&mut batch, *point).push(offsets[point.index() - 1].into());
            }
        }
        batch
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_batches_come_back_exactly(a in any_batch(), b in any_batch(), c in any_batch()) {
        let streams = [("ctl", &a), ("b", &b), ("third", &c)];
        let back = round_trip(&streams);
        prop_assert_eq!(back.len(), streams.len());
        for ((name, batch), (wrote_name, wrote)) in back.iter().zip(&streams) {
            prop_assert_eq!(name, wrote_name);
            prop_assert_eq!(batch, *wrote);
        }
    }
}

#[test]
fn a_flipped_bit_is_an_error_or_changes_nothing() {
    let mut batch = realistic(300, 5);
    stamps(&mut batch, Point::TxKernel)[3] = MaybeNanos::NONE;
    let bytes = encode_samples(&[("ctl", &batch), ("b", &realistic(40, 2))]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        SamplesFile::open(&path).and_then(|file| read_all(&file))
    };
    let whole = read(&bytes).unwrap();
    let mut errors = 0;
    for bit in (0..bytes.len() * 8).step_by(11) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match read(&flipped) {
            Ok(same) => assert!(same == whole, "bit {bit} changed the samples in silence"),
            Err(error) => {
                assert!(error.to_string().contains("samples.parquet"), "{error}");
                errors += 1;
            }
        }
    }
    assert!(errors > bytes.len() / 2, "only {errors} of {} were seen", bytes.len() * 8 / 11);
}

#[test]
fn more_rows_than_a_group_come_back_in_order() {
    let mut batch = empty_batch(&[Point::RxKernel]);
    for row in 0..1_000_123i64 {
        push(
            &mut batch,
            row,
            row * 1_000,
            Outcome::ALL[usize::from(row % 1_000 == 7)],
            Flags(u8::from(row % 977 == 0)),
        );
        let stamp = if row % 1_000 == 7 { None } else { Some(row % 331) };
        stamps(&mut batch, Point::RxKernel).push(stamp.into());
    }
    let other = realistic(10, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    write_samples(&path, &[("ctl", &batch), ("b", &other)]).unwrap();
    let file = SamplesFile::open(&path).unwrap();
    let lengths: Vec<usize> = file.batches("ctl").unwrap().map(|batch| batch.unwrap().len()).collect();
    assert_eq!(lengths.iter().sum::<usize>(), 1_000_123);
    assert!(lengths.iter().all(|rows| *rows <= BATCH_ROWS));
    assert_eq!((file.rows("ctl").unwrap(), file.rows("b").unwrap()), (1_000_123, 10));
    let back = read_all(&file).unwrap();
    assert!(back[0].1 == batch, "a million rows differ");
    assert!(back[1].1 == other, "the stream after them differs");
    let groups: Vec<i64> = SerializedFileReader::new(fs::File::open(&path).unwrap())
        .unwrap()
        .metadata()
        .row_groups()
        .iter()
        .map(|group| group.num_rows())
        .collect();
    assert_eq!(groups, [1_000_000, 123, 10]);
}

#[test]
fn four_stamps_cost_at_most_five_and_a_half_bytes_a_row() {
    for (rows, seed) in [(10_000, 1), (10_000, 2), (10_000, 3), (200_000, 4)] {
        let size = encode_samples(&[("ctl", &realistic(rows, seed))]).unwrap().len();
        let a_row = size as f64 / rows as f64;
        assert!(a_row <= 5.5, "{rows} rows: {a_row} bytes a row");
    }
}

#[test]
fn constant_columns_cost_nothing() {
    let mut batch = Batch::default();
    for row in 0..100_000 {
        push(&mut batch, row, 1_763_000_000_000_000_000 + row * 500_000, Outcome::Received, Flags::default());
    }
    let size = encode_samples(&[("ctl", &batch)]).unwrap().len();
    assert!(size < 5_000, "100,000 rows without a stamp: {size} bytes");
}

#[test]
fn the_same_samples_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (realistic(30_000, 9), realistic(5_000, 10));
    let mut written = BTreeSet::new();
    for name in ["one.parquet", "two.parquet"] {
        let path = folder.path().join(name);
        write_samples(&path, &[("ctl", &a), ("b", &b)]).unwrap();
        written.insert(fs::read(&path).unwrap());
    }
    written.insert(encode_samples(&[("ctl", &a), ("b", &b)]).unwrap());
    assert_eq!(written.len(), 1);
    assert_ne!(encode_samples(&[("ctl", &realistic(30_000, 11)), ("b", &b)]).unwrap(), *written.first().unwrap());
}

#[test]
fn columns_are_stages_and_the_full_width_only_where_a_row_needs_it() {
    let fixed = ["seq", "scheduled_ns", "stream", "outcome", "flags", "pcp"];
    let whole = realistic(3, 1);
    let stages = ["scheduled..tx_kernel", "tx_kernel..rx_kernel", "rx_kernel..receive"];
    assert_eq!(columns_of(&[("ctl", &whole)]), [&fixed[..], &stages].concat());

    // The last stamps of a lost packet are missing, nothing comes after them: no column more.
    let mut lost = whole.clone();
    stamps(&mut lost, Point::RxKernel)[1] = MaybeNanos::NONE;
    stamps(&mut lost, Point::Receive)[1] = MaybeNanos::NONE;
    assert_eq!(columns_of(&[("ctl", &lost)]), [&fixed[..], &stages].concat());

    let mut hole = whole.clone();
    stamps(&mut hole, Point::TxKernel)[2] = MaybeNanos::NONE;
    assert_eq!(columns_of(&[("ctl", &hole)]), [&fixed[..], &stages, &["scheduled..rx_kernel"]].concat());

    // Another stream with other points: the union, in causal order.
    let mut other = whole.clone();
    other.offsets[Point::TxKernel.index()] = None;
    let union = ["scheduled..tx_kernel", "scheduled..rx_kernel", "tx_kernel..rx_kernel", "rx_kernel..receive"];
    assert_eq!(columns_of(&[("ctl", &whole), ("b", &other)]), [&fixed[..], &union].concat());
}

#[test]
fn rows_that_contradict_themselves_are_refused() {
    let mut batch = realistic(3, 1);
    stamps(&mut batch, Point::Receive).pop();
    let error = encode_samples(&[("ctl", &batch)]).unwrap_err().to_string();
    assert_eq!(error, "cannot write the samples of stream `ctl`: `seq` has 3 rows and `receive` 2");
    let twice = realistic(1, 1);
    assert!(matches!(encode_samples(&[("a", &twice), ("a", &twice)]), Err(StoreError::Rows { .. })));
}

#[test]
fn a_file_cut_anywhere_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    let bytes = encode_samples(&[("ctl", &realistic(2_000, 3))]).unwrap();
    for length in (0..bytes.len()).step_by(97).chain(bytes.len() - 40..bytes.len()) {
        fs::write(&path, &bytes[..length]).unwrap();
        match SamplesFile::open(&path) {
            Err(StoreError::Damaged { path: named, why, fix }) => {
                assert_eq!(named, path);
                assert!(!why.is_empty() && fix.contains("copy it again"));
            }
            Err(other) => panic!("cut to {length} bytes: {other}"),
            Ok(_) => panic!("cut to {length} bytes it still opens"),
        }
    }
    fs::write(&path, &bytes).unwrap();
    assert_eq!(read_all(&SamplesFile::open(&path).unwrap()).unwrap()[0].1.len(), 2_000);
}

#[test]
fn a_file_of_another_origin_or_a_newer_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    let bytes = encode_samples(&[("ctl", &realistic(10, 3))]).unwrap();
    let replaced = |from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        [&bytes[..at], to, &bytes[at + from.len()..]].concat()
    };
    fs::write(&path, replaced(b"{\"format\":1", b"{\"format\":2")).unwrap();
    let error = SamplesFile::open(&path).err().unwrap();
    assert!(matches!(error, StoreError::Newer { format: 2, .. }));
    assert!(error.to_string().contains("made by a newer tardy: format 2, this one reads 1"), "{error}");
    fs::write(&path, replaced(b"\"rows\":10", b"\"rows\":11")).unwrap();
    assert!(matches!(SamplesFile::open(&path), Err(StoreError::Damaged { .. })));
    // A schema's column name, first met in the footer.
    fs::write(&path, replaced(b"\x03seq", b"\x03sex")).unwrap();
    assert!(matches!(SamplesFile::open(&path), Err(StoreError::Damaged { .. })));
}

#[test]
fn threads_read_the_streams_of_a_file_side_by_side() {
    let streams = [realistic(150_000, 21), realistic(120_000, 22)];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    write_samples(&path, &[("a", &streams[0]), ("b", &streams[1])]).unwrap();
    let file = SamplesFile::open(&path).unwrap();
    let readers = ["a", "b"].map(|name| file.batches(name).unwrap());
    std::thread::scope(|scope| {
        for (reader, wrote) in readers.into_iter().zip(&streams) {
            scope.spawn(move || {
                let mut row = 0;
                for batch in reader {
                    let batch = batch.unwrap();
                    for i in 0..batch.len() {
                        assert_eq!(batch.seq[i], wrote.seq[row + i]);
                        assert_eq!(batch.offset(i, Point::Receive), wrote.offset(row + i, Point::Receive));
                    }
                    row += batch.len();
                }
                assert_eq!(row, wrote.len());
            });
        }
    });
}

fn packed(streams: &[(&str, &Batch)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, streams).expect("memory takes it");
    bytes
}

fn refused(source: impl Source + 'static) -> CodecError {
    match Reader::open(source) {
        Err(error) => error,
        Ok(_) => panic!("it opens"),
    }
}

#[test]
fn bytes_in_memory_are_those_of_the_file_and_read_alike() {
    let (a, b) = (realistic(BATCH_ROWS + 7, 1), realistic(5, 2));
    let streams = [("a", &a), ("b", &b)];
    let bytes = packed(&streams);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    write_samples(&path, &streams).unwrap();
    assert!(bytes == fs::read(&path).unwrap() && bytes == encode_samples(&streams).unwrap());
    let (memory, file) = (Reader::open(bytes).unwrap(), Reader::open(fs::File::open(&path).unwrap()).unwrap());
    assert_eq!(memory.streams().collect::<Vec<_>>(), ["a", "b"]);
    for (name, wrote) in streams {
        assert_eq!(memory.rows(name).unwrap(), wrote.len());
        assert_eq!(memory.points(name).unwrap(), file.points(name).unwrap());
        let (from_memory, from_file) = (memory.batches(name).unwrap(), file.batches(name).unwrap());
        let batches: Vec<Batch> = from_memory.map(Result::unwrap).collect();
        assert!(batches == from_file.map(Result::unwrap).collect::<Vec<_>>(), "stream {name}");
        assert_eq!(batches.iter().flat_map(|batch| batch.seq.clone()).collect::<Vec<_>>(), wrote.seq);
    }
}

#[test]
fn rows_outlive_the_reader_that_they_are_of() {
    let batch = realistic(30, 3);
    let mut rows = Reader::open(packed(&[("ctl", &batch)])).unwrap().batches("ctl").unwrap();
    assert!(rows.next().unwrap().unwrap() == batch && rows.next().is_none());
}

/// Bytes whose end cannot be read, for this reason.
struct Failing(Vec<u8>, ErrorKind);

impl Source for Failing {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let is_last = at + buffer.len() as u64 == self.0.len() as u64;
        if is_last { Err(self.1.into()) } else { self.0.read_exact_at(buffer, at) }
    }
}

#[test]
fn a_source_that_fails_is_not_called_damaged_unless_it_is_too_short() {
    let bytes = packed(&[("ctl", &realistic(30, 3))]);
    let failed = refused(Failing(bytes.clone(), ErrorKind::TimedOut));
    assert!(matches!(&failed, CodecError::Io(reason) if reason.kind() == ErrorKind::TimedOut), "{failed:?}");
    assert!(matches!(refused(Failing(bytes.clone(), ErrorKind::UnexpectedEof)), CodecError::Damaged(_)));
    assert!(matches!(refused(bytes[..bytes.len() - 1].to_vec()), CodecError::Damaged(_)));
    assert!(matches!(refused(Vec::new()), CodecError::Damaged(_)));
    let none = Reader::open(bytes).unwrap().rows("other").unwrap_err();
    assert_eq!(none.to_string(), "there is no stream `other`; there is ctl");
}

/// Takes that number of bytes, and no more.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_is_full_says_so_wherever_it_is() {
    let batch = realistic(3_000, 4);
    let length = packed(&[("ctl", &batch)]).len();
    for room in (0..length).step_by(1_009).chain([length - 1]) {
        let error = write(&mut Full(room), &[("ctl", &batch)]).unwrap_err();
        // Of a failure behind the footer the library leaves no more than the words.
        let is_told = |reason: &io::Error| {
            reason.kind() == ErrorKind::StorageFull || reason.to_string().contains("no storage space")
        };
        assert!(matches!(&error, CodecError::Io(reason) if is_told(reason)), "{error:?}");
    }
    write(&mut Full(length), &[("ctl", &batch)]).unwrap();
}

#[test]
fn what_a_reader_would_refuse_is_told_before_it_is_written() {
    let sound = realistic(3, 1);
    check(&[("ctl", &sound)]).and_then(|()| check_numbers(&[("ctl", &sound)])).unwrap();
    let mut backwards = sound.clone();
    backwards.seq[2] = 0;
    let error = check_numbers(&[("ctl", &sound), ("b", &backwards)]).unwrap_err();
    assert!(error.to_string().starts_with("stream `b`: packet number 0 comes behind 1"), "{error}");
    // The writer does not ask; the reader does.
    let mut rows = Reader::open(packed(&[("b", &backwards)])).unwrap().batches("b").unwrap();
    assert!(matches!(rows.next(), Some(Err(CodecError::Damaged(_)))));
    let mut short = sound.clone();
    short.flags.pop();
    assert!(matches!(check(&[("ctl", &short)]), Err(CodecError::Rows { .. })));
    assert!(matches!(write(&mut Vec::new(), &[("ctl", &short)]), Err(CodecError::Rows { .. })));
}
