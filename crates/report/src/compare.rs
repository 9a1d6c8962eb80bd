// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison of two runs, for a terminal, as JSON and as JUnit XML: the figures, then what
//! differed in the machine and in what was asked, then what came of the caller's conditions.

mod facts;

use crate::figure;
use crate::figure::{ABSENT, Digits, SPACE, TWO_CLOCKS, Unit, grouped, is_within_number};
use crate::junit;
use crate::picture::{Options, ReportError};
use std::fmt::Write as _;
use tardy_analyze::compare::phases::LEAST as LEAST_PHASES;
use tardy_model::comparison::{
    BandwidthComparison, CellComparison, Claim, Compared, Comparison, ConditionResult, Decision, FigureComparison,
    INFINITE, MetricComparison, PhaseComparison, StreamComparison, is_infinite,
};
use tardy_model::point::Metric;

/// Where a metric's name begins, and room for a figure's name.
const INDENT: usize = 4;
const OF: usize = 7;
/// Room for a figure in the table of phases.
const FIGURE: usize = 12;
/// No line is broken where it is narrower than this.
const LEAST: usize = 80;
/// A space at which no line is broken, in a verdict with its counts.
const JOINED: char = '\u{a0}';
/// What is left of a broken line is set in by so much at most.
const HANG: usize = 8;

/// One way to show a comparison.
pub struct CompareFormat {
    /// The word for it after `--format`.
    pub name: &'static str,
    /// What it is, for help texts.
    pub says: &'static str,
    /// Makes it; it ends with a newline.
    pub make: fn(&Comparison, &Options) -> Result<String, ReportError>,
}

impl std::fmt::Debug for CompareFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompareFormat").field("name", &self.name).finish_non_exhaustive()
    }
}

pub const FORMATS: &[CompareFormat] = &[
    CompareFormat {
        name: "text",
        says: "tables for a terminal",
        make: |compared, options| Ok(text(compared, options)),
    },
    CompareFormat { name: "json", says: "all of it, for a program", make: |compared, _| json(compared) },
    CompareFormat { name: "junit", says: "conditions as test cases, in XML", make: junit::of_comparison },
];

/// The comparison as JSON.
///
/// # Errors
/// [`ReportError::Json`].
pub fn json(compared: &Comparison) -> Result<String, ReportError> {
    let text = serde_json::to_string_pretty(compared);
    let text = text.map_err(|why| ReportError::Json { name: compared.a.name.clone(), why })?;
    Ok(tardy_model::harmless::json(&text) + "\n")
}

/// The comparison as a table for a terminal.
pub fn text(compared: &Comparison, options: &Options) -> String {
    let text = whole(compared);
    let lines = text.lines().flat_map(|line| wrapped(line, options.width));
    lines.fold(String::with_capacity(text.len()), |out, line| out + &line.replace(JOINED, " ") + "\n")
}

/// A line as it fits: it is broken between two words, and what follows is set in. No line is
/// narrower than a row of figures.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let width = width.max(LEAST);
    let indent = line.chars().take_while(|c| *c == ' ').count();
    let hang = (indent + 4).min(HANG);
    let mut lines = Vec::new();
    let all: Vec<char> = line.chars().collect();
    // The first line has its own indent; those behind it hang.
    let (mut rest, mut hangs) = (&all[..], 0);
    while rest.len() + hangs > width {
        let least = if hangs == 0 { indent } else { 0 };
        let Some(at) = (least..=width - hangs).rev().find(|at| rest[*at] == ' ' && !is_within_number(rest, *at)) else {
            break;
        };
        lines.push(" ".repeat(hangs) + rest[..at].iter().collect::<String>().trim_end());
        let spaces = rest[at..].iter().take_while(|c| **c == ' ').count();
        (rest, hangs) = (&rest[at + spaces..], hang);
    }
    lines.push(" ".repeat(hangs) + &rest.iter().collect::<String>());
    lines
}

fn whole(compared: &Comparison) -> String {
    let mut out = String::new();
    for (letter, run) in [("A", &compared.a), ("B", &compared.b)] {
        let _ = writeln!(out, "{letter}   {}", heading(run));
    }
    if compared.one_folder {
        out.push_str(
            "\nA and B are one folder: this compares a run with itself, and that nothing differs shows nothing\n",
        );
    }
    let _ = writeln!(out, "\n{}", facts::line(compared));
    match compared.identical {
        Some(true) => {
            let fingerprint = compared.a.fingerprint.as_deref().unwrap_or_default();
            let _ = writeln!(out, "identical: every raw sample of both runs is equal (fingerprint {})", plain(fingerprint));
        }
        Some(false) => out.push_str("not identical: both ran in exact virtual time, and their samples differ\n"),
        None if lacking(compared).is_some() => {
            let _ = writeln!(out, "not compared: {} finished no trial", lacking(compared).unwrap_or_default());
        }
        None => out.push_str(
            "not judged: one or both of these runs are not in exact virtual time. What differs below may be noise: repeat both in \
             turns before you believe it\n",
        ),
    }
    let cells = || compared.cells.iter().filter(|_| compared.identical != Some(true));
    // A row has two kinds of figures; one line explains them for all tables.
    if cells().any(|cell| cell.pairs > 0) {
        out.push_str(
            "A and B below are figures of all trials of a cell together; what follows them is of single trials, B less A, each with \
             the one of the same phase: the median [its interval], in how many phases B is higher (↑) and lower (↓), and what that \
             shows\n",
        );
        if cells().any(lacks_phases) {
            let _ = writeln!(
                out,
                "too few: N of {LEAST_PHASES} means that N phases have this figure in both runs; a claim needs {LEAST_PHASES}, so \
                 give both more trials, or more packets if a percentile is not resolved in each trial"
            );
        }
    }
    let unit = unit(&compared.cells);
    cells().for_each(|cell| self::cell(&mut out, cell, unit));
    facts::rows(&mut out, compared);
    conditions(&mut out, compared);
    out
}

/// True if some figure has fewer phases than a claim needs.
fn lacks_phases(cell: &CellComparison) -> bool {
    let metrics = cell.streams.values().flat_map(|stream| stream.metrics.values());
    let mut phases = metrics.flat_map(|metric| &metric.figures).filter_map(|figure| figure.phases.as_ref());
    phases.any(|phases| phases.claim == Claim::TooFew && phases.equal as usize != phases.differences_ns.len())
}

/// Those of the runs that have no trial: there is nothing to be equal or to differ.
fn lacking(compared: &Comparison) -> Option<&'static str> {
    match (compared.a.trials, compared.b.trials) {
        (0, 0) => Some("A and B"),
        (0, _) => Some("A"),
        (_, 0) => Some("B"),
        _ => None,
    }
}

/// A text without control characters: values hold what some program printed, and must not move the
/// cursor.
fn plain(text: &str) -> String {
    tardy_model::harmless::blanked(text)
}

fn heading(run: &Compared) -> String {
    let valid = if run.valid { "valid" } else { "NOT VALID" };
    let set: Vec<String> = run.validity.changed().iter().map(ToString::to_string).collect();
    let by =
        if set.is_empty() { String::new() } else { format!(", judged by what `[validity]` sets: {}", set.join(", ")) };
    let trials = if run.trials == 1 { "trial" } else { "trials" };
    let cut = run.cut.as_ref().map_or_else(String::new, |how| format!(", {how} after {} {trials}", run.trials));
    plain(&format!("{}   {}, {}, {valid}{cut}{by}", run.run, run.name, run.started_utc))
}

/// What came of the caller's conditions, last: that is what one looks for in a log.
fn conditions(out: &mut String, compared: &Comparison) {
    if !compared.conditions.is_empty() {
        out.push_str("\nconditions of --fail-if (exit code 1 if one is met)\n");
    }
    for result in &compared.conditions {
        let _ = writeln!(out, "  {:<10}{}", result.decision.says(), about(result));
    }
}

/// Conditions that are met or undecided, each in a line, for a log in addition to a file.
pub fn met_or_undecided(compared: &Comparison) -> Vec<String> {
    let lines = compared.conditions.iter().filter(|result| result.decision != Decision::NotMet);
    lines.map(|result| format!("{}: {}", result.decision.says(), about(result))).collect()
}

/// The condition, where it was checked, and the result.
fn about(result: &ConditionResult) -> String {
    let place: Vec<&str> = [&result.cell, &result.stream].into_iter().filter_map(Option::as_deref).collect();
    let place = if place.is_empty() { String::new() } else { format!(" ({})", place.join(", ")) };
    plain(&format!("{}{place}: {}", result.condition, result.says))
}

/// Why the figures of a cell are not to be used, of either run.
fn flaws(cell: &CellComparison) -> Vec<String> {
    let sides = [("A", cell.a_valid, &cell.a_not_available), ("B", cell.b_valid, &cell.b_not_available)];
    let which = |is: fn(Option<bool>, bool) -> bool| -> Vec<&str> {
        sides.iter().filter(|(_, valid, why)| is(*valid, why.is_none())).map(|side| side.0).collect()
    };
    let not_available = which(|_, available| !available);
    let not_valid = which(|valid, available| available && valid == Some(false));
    let mut flaws = Vec::new();
    if !not_available.is_empty() {
        flaws.push(format!("not available in {}", not_available.join(" and ")));
    }
    if !not_valid.is_empty() {
        flaws.push(format!("not valid in {}: do not use these figures", not_valid.join(" and ")));
    }
    flaws
}

fn cell(out: &mut String, cell: &CellComparison, unit: Unit) {
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
    let flaws = flaws(cell);
    let head = if flaws.is_empty() { id } else { format!("{id} ({})", flaws.join("; ")) };
    let columns = Columns::of(cell, unit);
    let (width, each) = (columns.label + OF, columns.figure);
    let _ = write!(out, "\n{head}\n{:<width$}{:>each$}{:>each$}{:>each$}   {}", "", "A", "B", "B − A", unit.sign());
    match (cell.identical, cell.pairs) {
        (Some(false), 0) => {
            out.push_str(
                "\n  no valid trial has the same number and the same phase in both, so tardy draws no conclusion from these differences",
            );
            // If trials are not valid, that may be the whole reason, and the heading reports it.
            if flaws.is_empty() {
                out.push_str(
                    "\n  a trial's phase follows from its number, the seed, the cycle and, where gates decide, from them and the frame's \
                     size, which must fit in: run both with the same ones",
                );
            }
        }
        (Some(false), pairs) => _ = write!(out, "   by phase, of {pairs}"),
        _ => {}
    }
    out.push('\n');
    for (stream, compared) in &cell.streams {
        let changed: Vec<String> = compared.outcomes.iter().map(|(name, [a, b])| format!("{name} {a} → {b}")).collect();
        let tail = if changed.is_empty() { "the same outcomes".to_owned() } else { changed.join(", ") };
        let _ = writeln!(out, "  {}: {tail}", plain(stream));
        // As on a packet's way.
        let mut metrics: Vec<_> = compared.metrics.iter().collect();
        metrics.sort_by_key(|(name, _)| {
            let known = name.parse::<Metric>().ok();
            (known.is_none(), known)
        });
        for (name, metric) in metrics {
            self::metric(out, name, metric, &columns);
        }
        if let Some(bandwidth) = &compared.bandwidth {
            self::bandwidth(out, bandwidth);
        }
        by_phase(out, compared);
    }
}

/// What the threads of a copy had together, with what its trials show.
fn bandwidth(out: &mut String, of: &BandwidthComparison) {
    let [a, b] = [of.a_bytes_s, of.b_bytes_s].map(|rate| figure::count(crate::copies::mbit_s(rate), SPACE));
    let trials = (of.a_trials_bytes_s.len(), of.b_trials_bytes_s.len());
    let shows = match of.claim {
        Claim::Higher => format!("higher: each of {} trials is above each of {} of A", trials.1, trials.0),
        Claim::Lower => format!("lower: each of {} trials is below each of {} of A", trials.1, trials.0),
        Claim::None => format!("no difference that shows in {} and {} trials", trials.0, trials.1),
        Claim::TooFew => format!("not judged: {} and {} trials are too few", trials.0, trials.1),
        Claim::NotValid | Claim::NotJudged => "not judged: not valid".to_owned(),
    };
    let _ = writeln!(
        out,
        "    bandwidth over the wall: A {a}, B {b} Mbit/s, B\u{a0}−\u{a0}A {:+.1}\u{a0}%, {shows}",
        of.difference_share * 100.0
    );
}

/// Exact runs differ by nanoseconds; noisy ones have the unit in which their tables read best.
fn unit(cells: &[CellComparison]) -> Unit {
    if cells.iter().any(|cell| cell.identical.is_some()) {
        return Unit::Ns;
    }
    let metrics = cells.iter().flat_map(|cell| cell.streams.values()).flat_map(|stream| stream.metrics.values());
    let figures: Vec<&FigureComparison> = metrics.flat_map(|metric| &metric.figures).collect();
    let values = |of: Option<&'static str>| {
        let chosen = figures.iter().filter(move |figure| of.is_none_or(|of| figure.of == of));
        chosen.flat_map(|figure| [figure.a_ns, figure.b_ns]).flatten()
    };
    Unit::fitting(values(Some("p50")).min(), values(None).max())
}

/// The digits of a row with these figures, in the unit of its table.
fn digits(figure: &FigureComparison, unit: Unit) -> Digits {
    Digits::of(unit).row([figure.a_ns, figure.b_ns, figure.difference_ns].into_iter().flatten())
}

/// How wide the columns of a cell's table are, and the unit of its figures.
struct Columns {
    label: usize,
    figure: usize,
    unit: Unit,
}

impl Columns {
    fn of(cell: &CellComparison, unit: Unit) -> Columns {
        let metrics = || cell.streams.values().flat_map(|stream| &stream.metrics);
        let names = metrics().map(|(name, _)| name.chars().count());
        let figures = metrics().flat_map(|(_, metric)| &metric.figures);
        let widths = figures.flat_map(|figure| {
            let digits = digits(figure, unit);
            let show = |ns: i64| grouped(&digits.fixed(ns), SPACE);
            let values = [figure.a_ns, figure.b_ns].map(|ns| ns.map(show));
            let difference = figure.difference_ns.map(|ns| signed(&show(ns), ns));
            let shown: Vec<String> = values.into_iter().chain([difference]).flatten().collect();
            shown.into_iter().map(|text| text.chars().count())
        });
        Columns { label: INDENT + names.max().unwrap_or(0) + 1, figure: widths.max().unwrap_or(0).max(6) + 2, unit }
    }
}

/// Figures in a row that neither run has, for one reason, are one row.
fn lacking_alike(figures: &[FigureComparison]) -> usize {
    let is_lacking = |figure: &&FigureComparison| {
        figure.a_ns.is_none() && figure.b_ns.is_none() && figure.phases.is_none() && figure.why == figures[0].why
    };
    figures.iter().take_while(is_lacking).count()
}

fn metric(out: &mut String, name: &str, metric: &MetricComparison, columns: &Columns) {
    let (room, each, unit) = (columns.label - INDENT, columns.figure, columns.unit);
    if let Some(why) = &metric.why {
        let _ = writeln!(out, "    {name:<room$}{why}");
        return;
    }
    let mut label = name;
    let mut rest = &metric.figures[..];
    while let Some(figure) = rest.first() {
        let alike = lacking_alike(rest);
        if let (2.., Some(why)) = (alike, &figure.why) {
            let all: Vec<&str> = rest[..alike].iter().map(|figure| figure.of.as_str()).collect();
            let _ = writeln!(out, "    {label:<room$}{}   {}", all.join(", "), plain(why));
            (label, rest) = ("", &rest[alike..]);
            continue;
        }
        rest = &rest[1..];
        let digits = digits(figure, unit);
        let show = |ns: Option<i64>| ns.map_or_else(|| ABSENT.to_owned(), |ns| grouped(&digits.fixed(ns), SPACE));
        let signed = figure.difference_ns.map_or_else(|| ABSENT.to_owned(), |ns| signed(&show(Some(ns)), ns));
        let remark = match (&figure.why, &figure.phases) {
            (Some(why), Some(phases)) => format!("   {}; {}", plain(why), says(phases, unit)),
            (Some(why), None) => format!("   {}", plain(why)),
            (None, Some(phases)) => format!("   {}", says(phases, unit)),
            (None, None) if figure.claim == Claim::NotJudged => "   not judged".to_owned(),
            (None, None) => String::new(),
        };
        let _ = writeln!(
            out,
            "    {label:<room$}{of:<OF$}{a:>each$}{b:>each$}{signed:>each$}{remark}",
            of = figure.of,
            a = show(figure.a_ns),
            b = show(figure.b_ns),
        );
        label = "";
    }
    if let Some([a, b]) = metric.clock_bounds_ns {
        let digits = Digits::of(unit).row([a, b].into_iter());
        let each = |ns: i64| grouped(&digits.at_least(ns), SPACE);
        let (a, b) = (each(a), each(b));
        let _ = writeln!(out, "    {:room$}{:<OF$}{a:>each$}{b:>each$}   {TWO_CLOCKS}", "", "±", each = columns.figure);
    }
}

/// The leading metric of a stream, phase by phase: its median, or its mean if more phases have one.
fn by_phase(out: &mut String, stream: &StreamComparison) {
    let median = |metric: &MetricComparison| -> Option<(String, PhaseComparison)> {
        let of = |name: &str| metric.figures.iter().find(|figure| figure.of == name)?.phases.clone();
        let (p50, mean) = (of("p50").map(|of| ("p50".to_owned(), of)), of("mean").map(|of| ("mean".to_owned(), of)));
        let phases = |found: &Option<(String, PhaseComparison)>| found.as_ref().map_or(0, |(_, of)| of.trials.len());
        if phases(&mean) > phases(&p50) { mean } else { p50 }
    };
    let mut metrics: Vec<_> =
        stream.metrics.iter().map(|(name, metric)| (name.parse::<Metric>().ok(), name, metric)).collect();
    metrics.sort_by_key(|(known, ..)| {
        let place = known.and_then(|known| Metric::leads(true).iter().position(|lead| *lead == known));
        (place.unwrap_or(usize::MAX), known.is_none(), *known)
    });
    let found = metrics.into_iter().find_map(|(_, name, metric)| Some((name, median(metric)?)));
    let Some((name, (of, phases))) = found else { return };
    let _ = writeln!(out, "    by phase: {} {of}, in ns", plain(name));
    let _ = writeln!(out, "    {:>8}{:>FIGURE$}{:>FIGURE$}{:>FIGURE$}{:>FIGURE$}", "trial", "phase", "A", "B", "B − A");
    let show = |ns: i64| infinite(ns).unwrap_or_else(|| grouped(&ns.to_string(), SPACE));
    let rows = phases
        .trials
        .iter()
        .zip(&phases.phases_ns)
        .zip(phases.a_ns.iter().zip(&phases.b_ns))
        .zip(&phases.differences_ns);
    for (((trial, phase), (a, b)), difference) in rows {
        let (phase, a, b, difference) = (show(*phase), show(*a), show(*b), signed(&show(*difference), *difference));
        let _ = writeln!(out, "    {trial:>8}{phase:>FIGURE$}{a:>FIGURE$}{b:>FIGURE$}{difference:>FIGURE$}");
    }
}

/// What is printed as the figure of a packet which never arrived, or for a difference from it.
fn infinite(ns: i64) -> Option<String> {
    let sign = if ns < 0 { "-" } else { "" };
    is_infinite(ns).then(|| format!("{sign}{}", figure::INFINITE))
}

fn signed(text: &str, ns: i64) -> String {
    if ns > 0 { format!("+{text}") } else { text.to_owned() }
}

/// Half ns with their sign: `-1 402.5`.
fn halves(ns: f64) -> String {
    let text = grouped(&format!("{ns:.1}"), SPACE);
    if ns > 0.0 { format!("+{text}") } else { text }
}

/// What single trials show, in the unit of its table, whose heading names the unit.
fn says(phases: &PhaseComparison, unit: Unit) -> String {
    let show = |ns: i64| signed(&infinite(ns).unwrap_or_else(|| grouped(&unit.fixed(ns), SPACE)), ns);
    // A median between two whole ns is printed with half ns.
    let whole = phases.median_ns.trunc() as i64;
    let median = match unit {
        _ if phases.median_ns.is_infinite() => show(if whole < 0 { -INFINITE } else { INFINITE }),
        Unit::Ns if phases.median_ns.fract() != 0.0 => halves(phases.median_ns),
        _ => show(whole),
    };
    let interval =
        phases.interval_ns.map(|[low, high]| format!(" [{}, {}]", show(low), show(high))).unwrap_or_default();
    let n = phases.differences_ns.len();
    if phases.equal as usize == n {
        return format!("equal in all {n}");
    }
    let counted = |claim: &str| {
        let counts = format!("{}↑ {}↓  {claim}", phases.higher, phases.lower);
        format!("{median}{interval}  {}", counts.replace(' ', &JOINED.to_string()))
    };
    let claim = match phases.claim {
        Claim::Higher => "B higher",
        Claim::Lower => "B lower",
        Claim::None => "nothing shown",
        Claim::TooFew => return counted(&format!("too few: {n} of {LEAST_PHASES}")),
        Claim::NotValid => "not valid",
        Claim::NotJudged => "not judged",
    };
    counted(claim)
}
