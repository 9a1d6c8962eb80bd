// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of the packets, counted.

use crate::chunk::Chunk;
use tardy_model::result::Outcomes;
use tardy_model::sample::{Batch, Flags, Outcome};

/// Adds a batch's rows to the counts.
pub fn add(outcomes: &mut Outcomes, batch: &Batch) {
    Chunk::of(batch).for_each(|chunk| add_chunk(outcomes, &chunk));
}

pub(crate) fn add_chunk(outcomes: &mut Outcomes, chunk: &Chunk<'_>) {
    let intended = chunk.len() as u64;
    let mut more = Outcomes { intended, received: intended, ..Outcomes::default() };
    if !chunk.all_received {
        let of = |wanted: Outcome| chunk.outcome.iter().filter(|outcome| **outcome == wanted).count() as u64;
        (more.lost, more.not_sent) = (of(Outcome::Lost), of(Outcome::NotSent));
        more.received -= more.lost + more.not_sent;
    }
    // Most chunks have no flag at all.
    if chunk.flags.iter().fold(0, |any, flags| any | flags.0) != 0 {
        let with = |wanted: Flags| chunk.flags.iter().filter(|flags| flags.has(wanted)).count() as u64;
        more.early = with(Flags::EARLY);
        more.late = with(Flags::LATE);
        more.duplicate = with(Flags::DUPLICATE);
        more.reordered = with(Flags::REORDERED);
    }
    merge(outcomes, &more);
}

/// Adds another trial's counts.
pub fn merge(outcomes: &mut Outcomes, other: &Outcomes) {
    outcomes.intended += other.intended;
    outcomes.received += other.received;
    outcomes.lost += other.lost;
    outcomes.not_sent += other.not_sent;
    outcomes.early += other.early;
    outcomes.late += other.late;
    outcomes.duplicate += other.duplicate;
    outcomes.reordered += other.reordered;
}
