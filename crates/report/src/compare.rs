// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison of two runs, for a terminal and as JSON. What differed in the machine and in what was asked comes first: it
//! may be the reason of all that follows.

use crate::figure::{ABSENT, SPACE, Unit, exact, grouped};
use crate::{Options, ReportError};
use std::fmt::Write as _;
use tardy_model::comparison::{
    CellComparison, Claim, Compared, Comparison, Difference, FigureComparison, MetricComparison, PhaseComparison,
};
use tardy_model::point::Metric;

/// Room for a fact's name and for its value in a run.
const NAME: usize = 34;
const VALUE: usize = 30;
/// Room for a metric, a figure's name, a figure.
const METRIC: usize = 32;
const OF: usize = 7;
const FIGURE: usize = 12;

/// The comparison as JSON.
///
/// # Errors
/// [`ReportError::Json`].
pub fn json(compared: &Comparison) -> Result<String, ReportError> {
    let text = serde_json::to_string_pretty(compared);
    let text = text.map_err(|why| ReportError::Json { name: compared.a.name.clone(), why })?;
    Ok(text + "\n")
}

/// The comparison as a table for a terminal.
pub fn text(compared: &Comparison, _: &Options) -> String {
    let mut out = String::new();
    for (letter, run) in [("A", &compared.a), ("B", &compared.b)] {
        let _ = writeln!(out, "{letter}   {}", heading(run));
    }
    differences(&mut out, compared);
    out.push('\n');
    match compared.identical {
        Some(true) => {
            let fingerprint = compared.a.fingerprint.as_deref().unwrap_or_default();
            let _ = writeln!(out, "identical: every raw sample of both runs is equal (fingerprint {})", plain(fingerprint));
        }
        Some(false) => out.push_str("not identical: both ran in exact virtual time, and their samples differ\n"),
        None => out.push_str(
            "not judged: one or both of these runs are not in exact virtual time. What differs below may be noise: repeat both in \
             turns before you believe it\n",
        ),
    }
    for cell in compared.cells.iter().filter(|_| compared.identical != Some(true)) {
        self::cell(&mut out, cell);
    }
    out
}

/// A text without control characters: values hold what some program printed, and must not move the cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn heading(run: &Compared) -> String {
    let valid = if run.valid { "valid" } else { "NOT VALID" };
    plain(&format!("{}   {}, {}, {valid}", run.run, run.name, run.started_utc))
}

fn differences(out: &mut String, compared: &Comparison) {
    let (differ, facts) = (compared.differences.len(), compared.facts);
    if differ == 0 {
        let _ = writeln!(out, "\nnothing differs in machine, programs and experiment ({facts} facts)");
        return;
    }
    let _ = writeln!(out, "\nwhat differs: {differ} of {facts} facts");
    for Difference { group, key, a, b } in &compared.differences {
        let show = |value: &Option<String>| value.as_deref().map_or_else(|| ABSENT.to_owned(), plain);
        let (name, a, b) = (plain(&format!("{} {key}", group.name())), show(a), show(b));
        let long = |text: &str, room: usize| text.chars().count() > room;
        if long(&name, NAME) || long(&a, VALUE) || long(&b, VALUE) {
            let _ = writeln!(out, "  {name}\n    A  {a}\n    B  {b}");
        } else {
            let _ = writeln!(out, "  {name:<NAME$}  {a:<VALUE$}  {b}");
        }
    }
}

fn cell(out: &mut String, cell: &CellComparison) {
    let id = plain(&cell.id);
    let lacks = match (cell.a_valid, cell.b_valid) {
        (Some(_), None) => Some("B has no such cell"),
        (None, _) => Some("A has no such cell"),
        _ => None,
    };
    if let Some(lacks) = lacks {
        let _ = writeln!(out, "\n{id}: {lacks}");
        return;
    }
    if cell.identical == Some(true) {
        let _ = writeln!(out, "\n{id}: identical");
        return;
    }
    let unit = unit(cell);
    let not_valid: Vec<&str> = [("A", cell.a_valid), ("B", cell.b_valid)]
        .iter()
        .filter(|(_, valid)| *valid == Some(false))
        .map(|of| of.0)
        .collect();
    let mut head = id;
    if !not_valid.is_empty() {
        let _ = write!(head, " (not valid in {}: do not use these figures)", not_valid.join(" and "));
    }
    let width = METRIC + OF;
    let _ =
        write!(out, "\n{head}\n{:<width$}{:>FIGURE$}{:>FIGURE$}{:>FIGURE$}   {}", "", "A", "B", "B − A", unit.sign());
    if cell.identical == Some(false) {
        let _ = write!(out, "   by phase, {} of them", cell.pairs);
    }
    out.push('\n');
    for (stream, compared) in &cell.streams {
        let changed: Vec<String> = compared.outcomes.iter().map(|(name, [a, b])| format!("{name} {a} → {b}")).collect();
        let tail = if changed.is_empty() { "the same outcomes".to_owned() } else { changed.join(", ") };
        let _ = writeln!(out, "  {}: {tail}", plain(stream));
        // As on a packet's way.
        let mut metrics: Vec<_> = compared.metrics.iter().collect();
        metrics.sort_by_key(|(name, _)| name.parse::<Metric>().ok());
        for (name, metric) in metrics {
            self::metric(out, name, metric, unit);
        }
    }
}

/// Exact runs differ by nanoseconds; noisy ones have the unit in which their table reads best.
fn unit(cell: &CellComparison) -> Unit {
    if cell.identical.is_some() {
        return Unit::Ns;
    }
    let metrics = cell.streams.values().flat_map(|stream| stream.metrics.values());
    let figures: Vec<&FigureComparison> = metrics.flat_map(|metric| &metric.figures).collect();
    let values = |of: Option<&'static str>| {
        let chosen = figures.iter().filter(move |figure| of.is_none_or(|of| figure.of == of));
        chosen.flat_map(|figure| [figure.a_ns, figure.b_ns]).flatten()
    };
    Unit::fit(values(Some("p50")).min(), values(None).max())
}

fn metric(out: &mut String, name: &str, metric: &MetricComparison, unit: Unit) {
    if let Some(why) = &metric.why {
        let _ = writeln!(out, "    {name:<0$}{why}", METRIC - 4);
        return;
    }
    let mut label = name;
    for figure in &metric.figures {
        let show = |ns: Option<i64>| ns.map_or_else(|| ABSENT.to_owned(), |ns| grouped(&unit.fixed(ns), SPACE));
        let signed = figure.difference_ns.map_or_else(|| ABSENT.to_owned(), |ns| signed(&show(Some(ns)), ns));
        let by_phase = figure.phases.as_ref().map(|phases| format!("   {}", says(phases))).unwrap_or_default();
        let _ = writeln!(
            out,
            "    {label:<0$}{of:<OF$}{a:>FIGURE$}{b:>FIGURE$}{signed:>FIGURE$}{by_phase}",
            METRIC - 4,
            of = figure.of,
            a = show(figure.a_ns),
            b = show(figure.b_ns),
        );
        label = "";
    }
}

fn signed(text: &str, ns: i64) -> String {
    if ns > 0 { format!("+{text}") } else { text.to_owned() }
}

/// What single trials say.
fn says(phases: &PhaseComparison) -> String {
    let show = |ns: i64| signed(&exact(ns), ns);
    // A median between two whole ns is told by half ns.
    let whole = phases.median_ns.trunc() as i64;
    let median = if phases.median_ns.fract() == 0.0 { show(whole) } else { format!("{:+} ns", phases.median_ns) };
    let interval =
        phases.interval_ns.map(|[low, high]| format!(" [{}, {}]", show(low), show(high))).unwrap_or_default();
    let n = phases.differences_ns.len();
    if phases.equal as usize == n {
        return format!("equal in all {n}");
    }
    let counts = format!("higher in {}, lower in {} of {n}", phases.higher, phases.lower);
    let claim = match phases.claim {
        Claim::Higher => "B is higher",
        Claim::Lower => "B is lower",
        Claim::None => "no difference is shown",
        Claim::TooFew => "too few phases for a claim",
        Claim::NotValid => "not valid: no claim",
    };
    format!("median {median}{interval}, {counts}: {claim}")
}
