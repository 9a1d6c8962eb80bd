// SPDX-License-Identifier: MIT OR Apache-2.0
//! What two runs come to by conditions on their difference: met, not met, or undecided. For exact
//! runs the phases decide, as they do for a claim (`phases.rs`), after the limit is subtracted. Too
//! few of them for a claim are no answer, unless the estimate is within the limit: what seems to be
//! beyond it never passes. For noisy runs nothing is decided. Missing or invalid figures make no
//! condition look better: they are reported as what they are. The rules: `docs/compare.md`.

use super::Run;
use super::bandwidth::{are_enough, needed as needed_trials};
use super::condition::{Condition, ConditionError, What, Word};
use super::phases::{LEAST, UNRESOLVED, rank};
use crate::clusters::NEEDED;
use crate::outcomes::counted;
use crate::says;
use crate::statistics::packets_for;
use std::collections::BTreeSet;
use tardy_model::comparison::{
    CellComparison, Comparison, ConditionResult, Decision, FigureComparison, INFINITE, PhaseComparison, is_infinite,
};
use tardy_model::expect::{Count, QUANTILES};
use tardy_model::point::Metric;
use tardy_model::result::{CellResult, MetricResult, Outcomes};

/// What comes of each condition, in each cell and stream that it is about; at least one line for
/// each condition.
///
/// # Errors
/// [`ConditionError`] if a condition speaks of a cell or a stream that neither run has, or of what
/// is no metric.
pub fn judge(
    conditions: &[Condition],
    a: &Run<'_>,
    b: &Run<'_>,
    compared: &Comparison,
) -> Result<Vec<ConditionResult>, ConditionError> {
    let mut results = Vec::new();
    for condition in conditions {
        let asked = Asked { condition, runs: [a, b], compared };
        asked.names()?;
        let of = asked.results();
        results.extend(if of.is_empty() { vec![asked.nothing()] } else { of });
    }
    Ok(results)
}

/// A condition and what it is about.
struct Asked<'a> {
    condition: &'a Condition,
    runs: [&'a Run<'a>; 2],
    compared: &'a Comparison,
}

/// What is known of one cell and stream: a decision and its sentence.
struct Answer {
    decision: Decision,
    says: String,
    counts: Option<[u32; 2]>,
}

impl Answer {
    fn new(decision: Decision, says: impl Into<String>) -> Answer {
        Answer { decision, says: says.into(), counts: None }
    }
}

impl Asked<'_> {
    /// Looks for names that nothing in either run has.
    fn names(&self) -> Result<(), ConditionError> {
        let cells = || self.runs.into_iter().flat_map(|run| &run.results.cells);
        let fault = |word: &Word, kind: &str, known: BTreeSet<&str>| {
            let known = if known.is_empty() { "none".to_owned() } else { Vec::from_iter(known).join(", ") };
            let says = format!("`{}` is no {kind} of A or B, which have: {known}", word.text);
            Err(ConditionError::new(&self.condition.text, word.at.clone(), says))
        };
        let Condition { cell, stream, what, .. } = self.condition;
        if let Some(cell) = cell.as_ref().filter(|cell| !cells().any(|known| known.id == cell.text)) {
            return fault(cell, "cell", cells().map(|cell| cell.id.as_str()).collect());
        }
        let streams = || cells().flat_map(|cell| &cell.streams).map(|(name, stream)| (name.as_str(), stream));
        if let Some(stream) = stream.as_ref().filter(|stream| !streams().any(|(known, _)| known == stream.text)) {
            return fault(stream, "stream", streams().map(|(name, _)| name).collect());
        }
        match what {
            What::Figure { metric, .. } if metric.text.parse::<Metric>().is_err() => {
                let known = streams().flat_map(|(_, stream)| stream.metrics.keys().map(String::as_str)).collect();
                fault(metric, "metric", known)
            }
            _ => Ok(()),
        }
    }

    fn results(&self) -> Vec<ConditionResult> {
        let chosen = |cell: &&CellComparison| self.condition.cell.as_ref().is_none_or(|word| word.text == cell.id);
        self.compared.cells.iter().filter(chosen).flat_map(|cell| self.cell(cell)).collect()
    }

    /// Where no cell has a stream with such a figure.
    fn nothing(&self) -> ConditionResult {
        let says = match &self.condition.what {
            What::Figure { metric, .. } => {
                let streams = self.runs.into_iter().flat_map(|run| &run.results.cells).flat_map(|cell| &cell.streams);
                let of = self.condition.stream.as_ref();
                let streams = streams.filter(|(name, _)| of.is_none_or(|word| word.text == **name));
                let known: BTreeSet<&str> =
                    streams.flat_map(|(_, stream)| stream.metrics.keys().map(String::as_str)).collect();
                let known = if known.is_empty() { "none".to_owned() } else { Vec::from_iter(known).join(", ") };
                format!("neither A nor B has `{}`; there are: {known}", metric.text)
            }
            What::Count(_) => "neither A nor B has such a stream".to_owned(),
            What::Bandwidth => "neither A nor B is a copy, which alone has a bandwidth".to_owned(),
        };
        self.result(None, None, Answer::new(Decision::NoData, says))
    }

    fn result(&self, cell: Option<&str>, stream: Option<&str>, found: Answer) -> ConditionResult {
        ConditionResult {
            condition: self.condition.text.clone(),
            cell: cell.map(str::to_owned),
            stream: stream.map(str::to_owned),
            decision: found.decision,
            says: found.says,
            beyond: found.counts.map(|counts| counts[0]),
            phases: found.counts.map(|counts| counts[1]),
        }
    }

    fn cell(&self, cell: &CellComparison) -> Vec<ConditionResult> {
        let one = |found: Answer| {
            let stream = self.condition.stream.as_ref().map(|word| word.text.as_str());
            vec![self.result(Some(&cell.id), stream, found)]
        };
        let [Some(a), Some(b)] = self.runs.map(|run| run.cell(&cell.id)) else {
            let (lacks, run) = if cell.a_valid.is_none() { ("A", self.runs[0]) } else { ("B", self.runs[1]) };
            return one(Answer::new(Decision::NoData, format!("{lacks} has no such cell; it has: {}", ids(run))));
        };
        // Neither machine had it, and nobody asked for it by name: the other cells decide.
        if a.not_available.is_some() && b.not_available.is_some() && self.condition.cell.is_none() {
            return Vec::new();
        }
        let not_valid = self.not_valid([a, b]);
        let names: BTreeSet<&String> = a.streams.keys().chain(b.streams.keys()).collect();
        let chosen = |name: &&&String| self.condition.stream.as_ref().is_none_or(|word| word.text == ***name);
        let mut results = Vec::new();
        for name in names.iter().filter(chosen) {
            let found = match &self.condition.what {
                What::Count(count) => Some(self.count(*count, name, [a, b], not_valid.as_deref())),
                What::Bandwidth => self.bandwidth(name, cell, [a, b], not_valid.as_deref()),
                What::Figure { metric, of } => self.figure(&metric.text, of, name, cell, [a, b], not_valid.as_deref()),
            };
            results.extend(found.map(|found| self.result(Some(&cell.id), Some(name), found)));
        }
        // A cell in which nothing was finished has no streams that could lack the figure.
        match not_valid {
            Some(why) if results.is_empty() => one(Answer::new(Decision::NoData, why)),
            _ => results,
        }
    }

    /// Why the figures of a cell must not be used, if they must not.
    fn not_valid(&self, cells: [&CellResult; 2]) -> Option<String> {
        let state = |n: usize| {
            if cells[n].not_available.is_some() {
                return Some("not available");
            }
            let results = self.runs[n].results;
            // A run that is not valid for no reason in its cells is not for one of its own.
            let of_its_own =
                !results.valid && results.cells.iter().all(|cell| cell.valid || cell.not_available.is_some());
            let bad = !cells[n].valid || of_its_own || !crate::validity::is_valid(&results.verdicts);
            bad.then_some("not valid")
        };
        match (state(0), state(1)) {
            (None, None) => None,
            (Some(a), None) => Some(format!("A is {a}")),
            (None, Some(b)) => Some(format!("B is {b}")),
            (Some(a), Some(b)) if a == b => Some(format!("A and B are {a}")),
            (Some(a), Some(b)) => Some(format!("A is {a} and B is {b}")),
        }
    }

    /// Of every finished trial. B's count is at least what was seen, whatever the validity: so it
    /// may be too many, but it is only few enough where everything was looked at.
    fn count(&self, count: Count, stream: &str, cells: [&CellResult; 2], not_valid: Option<&str>) -> Answer {
        let [a, b] = cells.map(|cell| total(cell, stream));
        let got = |outcomes: &Outcomes| counted(outcomes, count);
        let name = count.name();
        let counts = format!("{name} is {} in A and {} in B", got(&a), got(&b));
        // Of more packets as large a share may be lost.
        let scaled = |count: u64| {
            let by = u128::from(b.intended.max(a.intended));
            u64::try_from((u128::from(count) * by).div_ceil(u128::from(a.intended.max(1)))).unwrap_or(u64::MAX)
        };
        let sound = |cell: &CellResult| cell.valid && cell.trials.iter().all(|trial| trial.valid);
        let is_cut = cells[0].verdicts.iter().any(|verdict| verdict.id == "removed");
        match () {
            // What A counted is less than it was.
            () if is_cut => Answer::new(Decision::NoData, format!("{counts}, and trials were removed from A")),
            () if a.intended == 0 => Answer::new(Decision::NoData, "no packet of the stream was to be sent in A"),
            // Trials that were measured badly lose more, not less: what is beyond them too is.
            () if self.condition.counts_beyond(scaled(got(&a)), got(&b)) => Answer::new(Decision::Met, counts),
            () if !sound(cells[0]) => {
                Answer::new(Decision::NoData, format!("{counts}, and A has trials that are not valid"))
            }
            () if not_valid.is_some() || !sound(cells[1]) => {
                Answer::new(Decision::NoData, format!("{counts}, and B has trials that are not valid"))
            }
            () if b.intended < a.intended => Answer::new(
                Decision::NoData,
                format!("{counts}, but only {} packets were to be sent in B, and {} in A", b.intended, a.intended),
            ),
            () => Answer::new(Decision::NotMet, counts),
        }
    }

    /// By the trials of both; `None` if neither run has a copy of this name.
    fn bandwidth(
        &self,
        stream: &str,
        cell: &CellComparison,
        cells: [&CellResult; 2],
        not_valid: Option<&str>,
    ) -> Option<Answer> {
        let is_copy = |cell: &&CellResult| cell.streams.get(stream).is_some_and(|stream| stream.copy.is_some());
        let lacks = cells.map(|cell| !is_copy(&cell));
        let answer = |decision, says: &str| Some(Answer::new(decision, says));
        match (lacks, not_valid) {
            ([true, true], _) => return None,
            (_, Some(why)) => return answer(Decision::NoData, why),
            ([true, _], _) => return answer(Decision::NoData, "A has no bandwidth"),
            ([_, true], _) => return answer(Decision::NoData, "B has no bandwidth"),
            _ if cell.identical == Some(true) => return answer(Decision::NotMet, "A and B are identical"),
            _ if self.compared.one_folder => return answer(Decision::NotMet, "A and B are one folder"),
            _ => {}
        }
        let found = cell.streams.get(stream).and_then(|compared| compared.bandwidth.as_ref());
        let Some(found) = found else { return answer(Decision::NoData, "no trial copied anything") };
        let trials = [found.a_trials_bytes_s.as_slice(), found.b_trials_bytes_s.as_slice()];
        let [all, median] = self.condition.rates_beyond(trials, [found.a_bytes_s, found.b_bytes_s]);
        let differs = format!("B's median is {:+.1} % off A's", found.difference_share * 100.0);
        let [a, b] = trials.map(<[f64]>::len);
        let needs = needed_trials();
        let found = match () {
            () if all && are_enough(a, b) => (
                Decision::Met,
                format!("{differs}, and each of {b} trials of B is beyond the limit from each of {a} of A"),
            ),
            () if !median => (Decision::NotMet, format!("{differs}, which is within the limit")),
            () if all => (
                Decision::Undecided,
                format!(
                    "{differs}, by {a} and {b} trials, and a claim needs {needs} of each: run both again with --trials {needs}"
                ),
            ),
            () => (
                Decision::Undecided,
                format!(
                    "{differs}, and not each of {b} trials of B is beyond the limit from each of {a} of A: more trials may decide"
                ),
            ),
        };
        answer(found.0, &found.1)
    }

    /// `None` if neither run has such a metric.
    fn figure(
        &self,
        metric: &str,
        of: &str,
        stream: &str,
        cell: &CellComparison,
        cells: [&CellResult; 2],
        not_valid: Option<&str>,
    ) -> Option<Answer> {
        let metrics = cells.map(|cell| cell.streams.get(stream).and_then(|stream| stream.metrics.get(metric)));
        let no_data = |says: &str| Some(Answer::new(Decision::NoData, says));
        if metrics == [None, None] {
            return None;
        }
        if let Some(why) = not_valid {
            return no_data(why);
        }
        let [Some(a), Some(b)] = metrics else {
            return no_data(if metrics[0].is_none() { "A has no such metric" } else { "B has no such metric" });
        };
        // Nothing differs; but what is not there has not stayed the same.
        let same = match cell.identical {
            Some(true) => Some("A and B are identical"),
            _ if self.compared.one_folder => Some("A and B are one folder"),
            _ => None,
        };
        if let Some(same) = same {
            return match has(a, of) && has(b, of) {
                true => Some(Answer::new(Decision::NotMet, same)),
                false => no_data(&format!("{same}, and they have no {of}")),
            };
        }
        let compared = cell.streams.get(stream).and_then(|compared| compared.metrics.get(metric));
        let Some(compared) = compared else { return no_data("it is not set side by side") };
        if let Some(why) = &compared.why {
            return no_data(why);
        }
        let Some(figure) = compared.figures.iter().find(|figure| figure.of == of) else {
            return no_data("there is no such figure");
        };
        if cell.identical.is_none() {
            return Some(noisy(figure));
        }
        let trials = cells[0].trials.len().max(cells[1].trials.len());
        Some(self.by_phase(figure, trials, cell.pairs))
    }

    /// Of exact runs. `trials` is how many there could be, `pairs` how many have a trial of the
    /// same phase in both.
    fn by_phase(&self, figure: &FigureComparison, trials: usize, pairs: u32) -> Answer {
        let known = figure.phases.as_ref();
        let n = known.map_or(0, |phases| phases.trials.len());
        let missing = trials.saturating_sub(n);
        if n < LEAST {
            let decision = if trials < LEAST { Decision::Undecided } else { Decision::NoData };
            let why = match &figure.why {
                _ if pairs == 0 => " (no valid trial has the same number and the same phase in both)".to_owned(),
                Some(why) if why.starts_with(UNRESOLVED) => format!(" ({why}{})", packets(&figure.of)),
                Some(why) => format!(" ({why})"),
                None => String::new(),
            };
            let phases = says::count(n as u64, "phase", "phases");
            let again = match decision {
                Decision::Undecided => format!(": run both again with --trials {LEAST}"),
                _ => String::new(),
            };
            return Answer::new(
                decision,
                format!("{phases} of {trials} can be set side by side{why}, and {LEAST} are needed{again}"),
            );
        }
        let Some(phases) = known else { return Answer::new(Decision::NoData, "there are no phases") };
        let pairs = || phases.a_ns.iter().zip(&phases.b_ns);
        let beyond = pairs().filter(|(a, b)| self.condition.beyond(**a, **b)).count();
        let excess = pairs().map(|(a, b)| self.condition.excess(*a, *b));
        let decision = match () {
            () if beyond >= needed(n) => Decision::Met,
            // A phase that is not known may be beyond the limit too.
            () if is_beyond(excess, missing) => {
                if missing > 0 {
                    Decision::NoData
                } else {
                    Decision::Undecided
                }
            }
            () => Decision::NotMet,
        };
        let tail = match decision {
            Decision::NoData => format!("; {missing} more are not known, and might be"),
            Decision::Undecided => {
                format!("; the median phase is beyond it too, and a claim needs {}: more trials may decide", needed(n))
            }
            Decision::NotMet if beyond > 0 => "; the median phase is within it".to_owned(),
            _ => String::new(),
        };
        let says = format!("{}, beyond the limit in {beyond} of {n} phases{tail}", differs(phases));
        Answer { counts: Some([beyond as u32, n as u32]), ..Answer::new(decision, says) }
    }
}

/// In how many of `n` phases a difference has to be beyond a limit, so that the interval for the
/// median is: what a claim needs.
pub fn needed(n: usize) -> usize {
    rank(n).map_or(n + 1, |(rank, _)| n + 1 - rank)
}

/// True if the estimate, the difference in the median phase, is beyond the limit: too little for a
/// claim, and too much to let pass. `missing` phases are not known, and count as beyond it.
fn is_beyond(excess: impl Iterator<Item = f64>, missing: usize) -> bool {
    let mut excess: Vec<f64> = excess.chain(std::iter::repeat_n(f64::INFINITY, missing)).collect();
    excess.sort_unstable_by(f64::total_cmp);
    let n = excess.len();
    // Between the two infinities lies nothing in particular, which is no ground to pass either.
    let twice = excess.get(n.saturating_sub(1) / 2).zip(excess.get(n / 2)).map(|(low, high)| low + high);
    twice.is_some_and(|twice| twice > 0.0 || twice.is_nan())
}

/// How many packets a trial has to have for a percentile; nothing of what is had of any.
fn packets(of: &str) -> String {
    let found = QUANTILES.iter().find(|(_, name, _)| *name == of);
    found
        .map_or_else(String::new, |(_, _, q)| format!("; it needs {} packets or more in each", packets_for(*q, NEEDED)))
}

/// The cells of a run, a few of many.
fn ids(run: &Run<'_>) -> String {
    const NAMED: usize = 4;
    let cells = &run.results.cells;
    let named: Vec<&str> = cells.iter().take(NAMED).map(|cell| cell.id.as_str()).collect();
    match cells.len().saturating_sub(NAMED) {
        _ if named.is_empty() => "none".to_owned(),
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn total(cell: &CellResult, stream: &str) -> Outcomes {
    let of = cell.trials.iter().filter_map(|trial| trial.streams.get(stream)).map(|stream| stream.outcomes);
    of.fold(Outcomes::default(), |sum, of| Outcomes {
        intended: sum.intended.saturating_add(of.intended),
        received: sum.received.saturating_add(of.received),
        lost: sum.lost.saturating_add(of.lost),
        not_sent: sum.not_sent.saturating_add(of.not_sent),
        early: sum.early.saturating_add(of.early),
        late: sum.late.saturating_add(of.late),
        duplicate: sum.duplicate.saturating_add(of.duplicate),
        reordered: sum.reordered.saturating_add(of.reordered),
    })
}

/// True if the metric has the figure, infinite or not.
fn has(metric: &MetricResult, of: &str) -> bool {
    super::phases::drawn(metric, of).is_some()
}

fn noisy(figure: &FigureComparison) -> Answer {
    if let Some(why) = &figure.why {
        return Answer::new(Decision::NoData, why.clone());
    }
    let by = figure.difference_ns.map_or(String::new(), |ns| format!("B − A is {}, but ", signed(ns)));
    let says = format!("{by}a run is not in exact virtual time, and of noise nothing is claimed: use --in guest:exact");
    Answer::new(Decision::Undecided, says)
}

/// How B differs, by the median phase: `B is higher by 1160 ns (2.41 %)`.
fn differs(phases: &PhaseComparison) -> String {
    if phases.equal as usize == phases.trials.len() {
        return "A and B are equal".to_owned();
    }
    let median = phases.median_ns;
    let way = match median {
        0.0 => return "B is as high as A in the median phase".to_owned(),
        _ if median > 0.0 => "higher",
        _ => "lower",
    };
    let by = median.abs().round() as i64;
    if median.is_infinite() || is_infinite(by) {
        let whose = if median > 0.0 { "B's" } else { "A's" };
        return format!("B is {way}: {whose} figure is that of a packet that never arrived");
    }
    let mut of_a: Vec<i64> = phases.a_ns.iter().copied().filter(|ns| *ns != INFINITE).collect();
    of_a.sort_unstable();
    let share = of_a.get(of_a.len() / 2).filter(|ns| **ns != 0).map(|ns| by as f64 / ns.unsigned_abs() as f64);
    let share = share.map(|share| format!(" ({:.2} %)", share * 100.0)).unwrap_or_default();
    format!("B is {way} by {}{share}", time(by))
}

fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { '-' } else { '+' }, time(ns.saturating_abs()))
}

/// A time without rounding: in ns while that is short, else in the unit below which it has no
/// more than six decimals.
fn time(ns: i64) -> String {
    let (unit, decimals, sign) = match ns {
        ..10_000 => return format!("{ns} ns"),
        10_000..10_000_000 => (1_000, 3, "µs"),
        10_000_000..10_000_000_000 => (1_000_000, 6, "ms"),
        _ => (1_000_000_000, 9, "s"),
    };
    let text = format!("{}.{:0decimals$}", ns / unit, ns % unit);
    format!("{} {sign}", text.trim_end_matches('0').trim_end_matches('.'))
}
