// SPDX-License-Identifier: MIT OR Apache-2.0
//! Separates packets that a queue discipline dropped without a report (taprio does so with launch
//! times outside its windows) from those that the path lost: pure.

use tardy_model::point::Point;
use tardy_model::sample::{Batch, Flags, Outcome};
use tardy_model::trial::StreamRecord;

/// Counts packets that came to the queue discipline and never to the driver as its drops, if its
/// counters account for at least as many, `unreported` ones. Returns how many. Nothing is concluded
/// where stamps themselves may have been lost.
pub fn unreported(batch: &mut Batch, record: &mut StreamRecord, unreported: u64) -> u64 {
    let has = |point: &Point| record.sources.contains_key(point);
    if unreported == 0
        || ![Point::TxSched, Point::TxKernel].iter().all(has)
        || record.counters.error_queue_overflows > 0
    {
        return 0;
    }
    let stayed = |row: &usize| {
        batch.outcome[*row] == Outcome::Lost
            && batch.offset(*row, Point::TxSched).is_some()
            && batch.offset(*row, Point::TxKernel).is_none()
    };
    let rows: Vec<usize> = (0..batch.len()).filter(stayed).collect();
    let count = rows.len() as u64;
    if count == 0 || count > unreported {
        return 0;
    }
    for row in rows {
        batch.outcome[row] = Outcome::NotSent;
        batch.flags[row].set(Flags::QDISC_DROPPED);
    }
    record.counters.qdisc_dropped = count;
    record.counters.tx_stamps_missing = record.counters.tx_stamps_missing.saturating_sub(count);
    count
}
