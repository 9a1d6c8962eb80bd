// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdicts' ids: the rules as they are registered, each with the first sentence about it in
//! the method's chapter.

use super::chapter::{Chapter, start, table};
use std::fmt::Write;
use tardy_analyze::validity::{RULES, Spoils};

/// The chapter that explains each rule. A rule that it does not explain has an empty row, which a
/// test looks for.
const METHOD: &str = include_str!("../../../../../docs/method/validity.md");

/// Verdicts that no rule on a trial gives, with what they say of.
const WIDER: &[(&str, &str, &str)] = &[
    ("left-out", "cell", "*warning*: trials were left out of the figures: which, of how many, and for which causes."),
    (
        "repeats",
        "cell",
        "*ok*: the trials agree; *warning*: they do not; *note*: it cannot be judged. See [repeats](../method/repeats.md).",
    ),
    (
        "gates",
        "cell",
        "*ok*: at least 99.5 % of the packets that were sent left when they should; *note*: so they did, but more than 0.5 % of all were \
         not sent; *warning*: fewer, or more than 0.5 % left in another window than their own, or none could be judged. See [gates](../method/gates.md).",
    ),
    (
        "moved-point",
        "run",
        "*warning*: launch times moved `rx_kernel` in some cells and not in others, or elsewhere: figures of two points are not comparable. \
         See [points](../method/points.md).",
    ),
    ("failed", "cell or run", "*invalid*: no trial was finished, or something failed after one was, and what."),
    ("one-trial", "run", "*note*: the figures are of one trial of each cell (`tardy report --trial`)."),
    ("interrupted", "run", "*note*: a signal ended it, and how many trials were kept."),
    ("refused", "cell", "*invalid*: the machine could not run it, and why."),
    (
        "not-available",
        "cell",
        "*note*: the machine could not set up the cell of an optional case, and why; the run is not invalid for it.",
    ),
    (
        "ruler",
        "cell",
        "*warning*: a sender woke later in the trials than both readings of the ruler say; *note*: earlier. See [ruler](../method/ruler.md).",
    ),
    (
        "guest-timer",
        "cell",
        "*invalid*: a sender's timer was late by a millisecond or more at p99 in a guest whose processor is emulated, in real time.",
    ),
    (
        "placement",
        "cell",
        "*warning*: a CPU was asked for and was not available; the sentence names what was taken instead.",
    ),
    (
        "exact-time",
        "run",
        "*note*: it was run in exact virtual time, and what its figures are good for. See [guests](../guests.md).",
    ),
    ("guest", "run", "*note*: it was run in a guest, and what that means for its figures. See [guests](../guests.md)."),
    (
        "observer",
        "run",
        "*note*: what tx stamps add to the medians of metrics that need none, with an interval, for each path and port. See \
         [points](../method/points.md#what-a-stamp-costs).",
    ),
    (
        "own-trace",
        "run",
        "*invalid*: tardy itself shows in a figure that is printed, and in which; *warning*: it shows, and no printed figure moves, or \
         something else had held up the sender before. See [own-trace](../method/own-trace.md).",
    ),
    (
        "validity",
        "run",
        "*warning*: the experiment file judges something more mildly than by default; *note*: it sets other values that are not more lenient.",
    ),
    ("killed", "run", "*note*: the run was killed before its end; the trials that were finished are judged."),
];

const SAYS: &str = "A verdict in `results.json` has the id of the rule that gave it. Ids are stable. *note*: worth knowing; *warning*: \
    doubtful; *invalid*: do not use the numbers. A rule says nothing when all is well.";

pub fn chapter() -> Chapter {
    let mut out = start("Verdicts", SAYS);
    let rows = RULES.iter().map(|rule| {
        let spoils = match (rule.spoils, levels(rule.id).contains(&"invalid")) {
            (_, false) => "",
            (Spoils::Measuring, _) => "trial",
            (Spoils::Path, _) => "cell",
            (Spoils::Told, _) => "trial or cell",
        };
        let id = format!("[`{0}`](../method/validity.md#{0})", rule.id);
        vec![id, levels(rule.id).join(", "), spoils.to_owned(), first(section(rule.id))]
    });
    let _ = write!(
        out,
        "\n## Of a trial\n\nWhere an *invalid* one spoils the *trial*, the trial may be left out of its cell; where it spoils the \
         *cell*, the trial stays in, and the cell is not valid: [validity](../method/validity.md).\n\n{}",
        table(&["id", "weighs", "spoils", "says"], rows)
    );
    let rows = WIDER.iter().map(|(id, of, says)| vec![format!("`{id}`"), (*of).to_owned(), (*says).to_owned()]);
    let _ = write!(out, "\n## Of a cell or a run\n\n{}", table(&["id", "of", "says"], rows));
    ("verdicts.md".to_owned(), out)
}

/// What the method's chapter has about a rule: from its heading to the next.
fn section(id: &str) -> &'static str {
    let heading = format!("\n## {id}\n");
    let Some(at) = METHOD.find(&heading) else { return "" };
    let body = &METHOD[at + heading.len()..];
    body.split("\n## ").next().unwrap_or_default()
}

/// Its weights, in the order in which they are named.
fn levels(id: &str) -> Vec<&'static str> {
    let mut found: Vec<(usize, &str)> = ["note", "warning", "invalid"]
        .into_iter()
        .filter_map(|l| Some((section(id).find(&format!("*{l}*"))?, l)))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, level)| level).collect()
}

/// Its first sentence, without links: they count from another folder.
fn first(section: &str) -> String {
    let text = section.replace('\n', " ");
    let end = text.find(". ").map_or(text.trim_end().len(), |at| at + 1);
    let mut out = String::new();
    let mut rest = &text[..end];
    while let Some((before, link)) = rest.split_once('[') {
        let Some((label, after)) = link.split_once("](") else { break };
        out += before;
        out += label;
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    out + rest
}
