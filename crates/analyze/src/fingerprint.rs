// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hash over raw samples: of two runs in exact time it says whether every packet had the same
//! fate to the nanosecond. It is over what the rows say, not over a file's bytes, so no version's
//! way of packing them matters.
//!
//! SHA-256 over each stream's rows in order; each row is `seq`, `scheduled_ns`, outcome, flags,
//! `pcp` (255 for none) and, for each point, stamp − scheduled (the lowest 64-bit number for
//! none), numbers little endian. A trial's is over its streams by name, a cell's over its trials
//! by number, a run's over its cells in order.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, MaybeNanos, Outcome};

/// One trial's, in the making. Rows may come in pieces of any size.
#[derive(Clone, Default)]
pub struct Rows {
    streams: BTreeMap<String, Sha256>,
    bytes: Vec<u8>,
}

/// Bytes gathered before they are hashed: many small updates cost more than they hash.
const GATHER: usize = 1 << 14;

impl Rows {
    /// The next rows of a stream.
    pub fn push(&mut self, stream: &str, batch: &Batch) {
        let hash = self.streams.entry(stream.to_owned()).or_default();
        let bytes = &mut self.bytes;
        for row in 0..batch.len() {
            bytes.extend_from_slice(&batch.seq[row].to_le_bytes());
            bytes.extend_from_slice(&batch.scheduled_ns[row].to_le_bytes());
            let outcome = Outcome::ALL.iter().position(|known| *known == batch.outcome[row]);
            bytes.extend_from_slice(&[
                outcome.map_or(u8::MAX, |n| n as u8),
                batch.flags[row].0,
                batch.pcp.get(row).copied().flatten().unwrap_or(u8::MAX),
            ]);
            // What no packet has is in no fingerprint of packets.
            for point in Point::ALL.into_iter().filter(|point| !point.is_of_copy() || batch.has(*point)) {
                let column = batch.offsets[point.index()].as_ref();
                let value = column.map_or(MaybeNanos::NONE, |column| column[row]);
                bytes.extend_from_slice(&value.or_lowest().to_le_bytes());
            }
            if bytes.len() >= GATHER {
                hash.update(&*bytes);
                bytes.clear();
            }
        }
        hash.update(&*bytes);
        bytes.clear();
    }

    /// The fingerprint of the trial, over all its streams.
    pub fn finish(self) -> String {
        of_parts(self.streams.into_iter().map(|(name, hash)| (name, text(hash))))
    }
}

/// That of parts: of a cell its trials', of a run its cells'. Each has a name, and the order
/// counts.
pub fn of_parts(parts: impl IntoIterator<Item = (String, String)>) -> String {
    let mut hash = Sha256::new();
    for (name, part) in parts {
        // Neither contains a line feed, so no two lists give the same text.
        hash.update(format!("{name}\n{part}\n"));
    }
    text(hash)
}

fn text(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
