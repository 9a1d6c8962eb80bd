// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of the packets, counted.

use tardy_model::result::Outcomes;
use tardy_model::sample::{Batch, Flags, Outcome};

/// Adds a batch's rows to the counts.
pub fn add(outcomes: &mut Outcomes, batch: &Batch) {
    let of = |wanted: Outcome| batch.outcome.iter().filter(|outcome| **outcome == wanted).count() as u64;
    let with = |wanted: Flags| batch.flags.iter().filter(|flags| flags.has(wanted)).count() as u64;
    let more = Outcomes {
        intended: batch.len() as u64,
        received: of(Outcome::Received),
        lost: of(Outcome::Lost),
        not_sent: of(Outcome::NotSent),
        early: with(Flags::EARLY),
        late: with(Flags::LATE),
        duplicate: with(Flags::DUPLICATE),
        reordered: with(Flags::REORDERED),
    };
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
