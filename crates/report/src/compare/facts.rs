// SPDX-License-Identifier: MIT OR Apache-2.0
//! What differed in machine, programs and experiment, as rows: short facts side by side, long
//! ones below each other with their differing words marked.

use super::words;
use crate::figure::ABSENT;
use std::fmt::Write as _;
use tardy_model::comparison::{Comparison, Difference};
use tardy_model::harmless::blanked as plain;

/// Room for a fact's name and for its value in a run.
const NAME: usize = 34;
const VALUE: usize = 30;

/// Facts that are shown.
const MOST: usize = 1_000;

/// How many facts differ, in one line above the figures: they may be the reason of all that
/// follows.
pub(super) fn line(compared: &Comparison) -> String {
    let (differ, facts) = (compared.differences.len(), compared.facts);
    match differ {
        0 => format!("nothing differs in machine, programs and experiment ({facts} facts)"),
        _ => format!("what differs: {differ} of {facts} facts, which stand below the figures"),
    }
}

/// The facts that differ, if there are any.
pub(super) fn rows(out: &mut String, compared: &Comparison) {
    if compared.differences.is_empty() {
        return;
    }
    out.push_str("\nfacts that differ\n");
    for Difference { group, key, a, b } in compared.differences.iter().take(MOST) {
        let show = |value: &Option<String>| value.as_deref().map_or_else(|| ABSENT.to_owned(), plain);
        let name = plain(&format!("{} {key}", group.name()));
        let (whole_a, whole_b) = (show(a), show(b));
        let long = |text: &str, room: usize| text.chars().count() > room;
        if !long(&name, NAME) && !long(&whole_a, VALUE) && !long(&whole_b, VALUE) {
            let _ = writeln!(out, "  {name:<NAME$}  {whole_a:<VALUE$}  {whole_b}");
            continue;
        }
        let [a, b] = match (a, b) {
            // Of one word nothing need be marked.
            (Some(_), Some(_)) if whole_a.contains([' ', ',']) || whole_b.contains([' ', ',']) => {
                words::marked(&whole_a, &whole_b)
            }
            _ => [words::begun(&whole_a), words::begun(&whole_b)],
        };
        let _ = writeln!(out, "  {name}\n    A  {a}\n    B  {b}");
    }
    if let Some(more) = compared.differences.len().checked_sub(MOST).filter(|more| *more > 0) {
        let _ = writeln!(out, "  … and {more} more: --format json has them");
    }
}
