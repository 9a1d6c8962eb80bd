// SPDX-License-Identifier: MIT OR Apache-2.0
//! The codec of samples without a folder: bytes in memory are read as a file is, and errors say
//! whose they are.

use super::realistic;
use std::fs;
use std::io::{self, ErrorKind, Write};
use tardy_model::sample::Batch;
use tardy_parquet::{BATCH_ROWS, CodecError, Reader, Source, check, check_numbers, write};
use tardy_store::{encode_samples, write_samples};

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
