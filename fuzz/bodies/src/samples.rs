// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file of samples of any bytes: all its rows come out or an error says why not, in memory that
//! the input's length bounds. What came out whole is packed again and comes out the same. The
//! check sum is not looked at under fuzzing.

use std::io;
use tardy_model::point::Point;
use tardy_model::sample::Batch;
use tardy_parquet::{BATCH_ROWS, CodecError, PAGE_ROWS, Reader, Source};

pub mod seeds;

/// The fewest bytes that the pages take of the four columns that every row has: ten each for a
/// header and what stands behind it.
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
    let reader = Reader::open(Watched(bytes.to_vec())).map_err(told).ok()?;
    let names: Vec<String> = reader.streams().map(str::to_owned).collect();
    let (mut streams, mut rows, mut is_whole) = (Streams::new(), 0, true);
    for name in names {
        let mut all = Batch::default();
        // A stream that is broken does not keep the next from being read.
        is_whole &= read(&reader, &name, &mut all).map_err(told).is_ok();
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
fn told(error: CodecError) {
    assert!(matches!(error, CodecError::Damaged(_) | CodecError::Newer { .. }), "{error:?}");
    assert!(!error.to_string().is_empty());
}
