// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcomes of a stream's packets, in a few words.

use crate::column;
use crate::figure::{self, SPACE};
use tardy_model::result::{Outcomes, StreamResult};

/// What became of the packets, and how many of them have their stamps.
pub(super) fn outcomes(stream: &StreamResult) -> [String; 2] {
    let Outcomes { lost, not_sent, early, late, duplicate, reordered, .. } = stream.outcomes;
    // Three are always shown, for their zero is news; the others when there is something.
    let counts = [
        ("lost", lost, true),
        ("not_sent", not_sent, false),
        ("early", early, false),
        ("late", late, true),
        ("duplicate", duplicate, false),
        ("reordered", reordered, true),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(_, n, always)| *always || *n > 0)
        .map(|(name, n, _)| format!("{name} {}", figure::count(n, SPACE)))
        .collect();
    let stamps = match column::least_coverage(stream) {
        None => figure::ABSENT.to_owned(),
        Some((share, _)) if share >= 1.0 => figure::share(share),
        Some((share, metric)) => format!("{} ({metric})", figure::share(share)),
    };
    [counts.join("  "), format!("stamps {stamps}")]
}
