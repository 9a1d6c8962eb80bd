// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run comes to, in words: the judgements, the remarks on a cell, the line of what was
//! sent. Shared by the pictures that people read.

use crate::column::{Column, Value, lead, point_of, title};
use crate::figure::{self, Digits};
use crate::picture::{Facts, Picture};
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::expect::AT_LEAST;
use tardy_model::machine::RulerRecord;
use tardy_model::manifest::CellEntry;
use tardy_model::result::{
    ABOVE_MINIMUM, CellResult, CpuPlacement, CpuUser, ExpectationResult, MetricResult, Results, StreamResult,
};
use tardy_model::stream::UNDER_TEST;
use tardy_model::time::Nanos;
use tardy_model::verdict::{Figure, Level, Verdict};

/// The 99th percentile's place among the quantiles.
const P99: usize = 2;

/// Whether a cell's numbers may be used, in a table.
pub(crate) fn usable(cell: &CellResult) -> &'static str {
    match (cell.valid, &cell.not_available) {
        (true, _) => "yes",
        (false, None) => "no",
        (false, Some(_)) => "not available",
    }
}

/// The limits that were broken.
pub(crate) fn failing(results: &Results) -> impl Iterator<Item = &ExpectationResult> {
    results.expectations.iter().filter(|e| e.met == Some(false))
}

/// The limits that could not be judged although the cell ran: those on what became of packets, and
/// in cells whose figures are valid all of them. Where figures are not valid, verdicts say why.
pub(crate) fn not_judged(results: &Results) -> impl Iterator<Item = &ExpectationResult> {
    let ran: BTreeSet<&str> =
        results.cells.iter().filter(|cell| !cell.trials.is_empty()).map(|cell| cell.id.as_str()).collect();
    let valid: BTreeSet<&str> = results.cells.iter().filter(|cell| cell.valid).map(|cell| cell.id.as_str()).collect();
    let can_be = move |e: &&ExpectationResult| {
        let cell = e.cell.as_str();
        ran.contains(cell) && (e.needs_no_validity() || e.why.is_some() && valid.contains(cell))
    };
    results.expectations.iter().filter(|e| e.met.is_none()).filter(can_be)
}

/// What was limited: `ctl scheduled..rx_kernel p99.9`, `ctl lost`.
pub(crate) fn limited(e: &ExpectationResult) -> String {
    match e.of.as_str() {
        "count" => format!("{} {}", e.stream, e.metric),
        AT_LEAST => format!("{} {} at least", e.stream, e.metric),
        of => format!("{} {} {of}", e.stream, e.metric),
    }
}

/// The limit, without rounding.
pub(crate) fn limit(e: &ExpectationResult) -> String {
    e.limit_ns.map(figure::exact).or_else(|| e.limit.map(|n| counted(e, n))).unwrap_or(figure::ABSENT.to_owned())
}

/// A number that was counted, or a bandwidth.
fn counted(e: &ExpectationResult, n: u64) -> String {
    match e.of.as_str() {
        AT_LEAST => format!("{:.1} Mbit/s", n as f64 / 1e6),
        _ => n.to_string(),
    }
}

/// What was got, without rounding, in the unit of its limit.
pub(crate) fn got(e: &ExpectationResult) -> String {
    let like = e.limit_ns.unwrap_or_default();
    e.got_ns
        .map(|got| figure::exact_like(got, like))
        .or_else(|| e.got.map(|n| counted(e, n)))
        .unwrap_or(figure::ABSENT.to_owned())
}

/// One line about a limit that was not kept, without rounding.
pub(crate) fn failure(e: &ExpectationResult) -> String {
    failed(e, &limit(e), (e.got_ns.is_some() || e.got.is_some()).then(|| got(e)))
}

/// The same for below the tables of cells: in their unit, with its decimals.
pub(crate) fn failure_below(e: &ExpectationResult, digits: Digits) -> String {
    let Some(limit_ns) = e.limit_ns else { return failure(e) };
    failed(e, &figure::limit(limit_ns, digits), e.got_ns.map(|got| figure::beside(got, limit_ns, digits)))
}

fn failed(e: &ExpectationResult, limit: &str, got: Option<String>) -> String {
    let got = match (got, &e.why) {
        (Some(got), None) => format!("got {got}"),
        (Some(got), Some(why)) => format!("got {got}: {why}"),
        (None, Some(why)) => why.clone(),
        (None, None) => "not available".to_owned(),
    };
    format!("{}: {}, limit {limit}, {got}", title(&e.cell), limited(e))
}

fn once<T: PartialEq + Clone>(list: &[T]) -> Vec<T> {
    let mut out: Vec<T> = Vec::new();
    for entry in list {
        if !out.contains(entry) {
            out.push(entry.clone());
        }
    }
    out
}

fn span_of(numbers: &[u64], separator: char) -> Option<String> {
    let (low, high) = (*numbers.iter().min()?, *numbers.iter().max()?);
    let low_text = figure::count(low, separator);
    Some(if low == high { low_text } else { format!("{low_text}–{}", figure::count(high, separator)) })
}

/// What was sent: `veth, udp, 500us`.
pub(crate) fn sent(facts: &Facts) -> String {
    // Without a schedule there is no cycle.
    let how = |cycle: Nanos| if cycle == Nanos::ZERO { "ping-pong".to_owned() } else { figure::written(cycle) };
    let cycles: Vec<String> = once(&facts.cycles).into_iter().map(how).collect();
    [once(&facts.paths), once(&facts.ports), cycles]
        .into_iter()
        .filter(|words| !words.is_empty())
        .map(|words| words.join("/"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// What came of a stream's being answered: `45 123 transactions/s`, retransmissions; empty where
/// it is not.
pub(crate) fn replies(stream: &StreamResult, separator: Option<char>) -> Vec<String> {
    let Some(replies) = &stream.replies else { return Vec::new() };
    let count = |n: u64| separator.map_or(n.to_string(), |s| figure::count(n, s));
    let events = |what: &str, n: Option<u64>| n.map(|n| format!("{what} {}", count(n)));
    let rate = replies.transactions_s.map(|rate| format!("{} transactions/s", count(rate.round() as u64)));
    [rate, events("retransmits", replies.retransmits), events("timeouts", replies.timeouts)]
        .into_iter()
        .flatten()
        .collect()
}

/// How much: `2 cells × 5 trials × 10 000 packets`.
pub(crate) fn amount(picture: &Picture<'_>, separator: char) -> String {
    let cells = picture.results.cells.len().max(picture.manifest.cells.len()) as u64;
    let mut trials: Vec<u64> = picture.manifest.cells.iter().map(|cell| u64::from(cell.trials)).collect();
    if trials.is_empty() {
        trials = picture.results.cells.iter().map(|cell| cell.trials.len() as u64).collect();
    }
    let part = |numbers: &[u64], one: &str, many: &str| {
        let text = span_of(numbers, separator)?;
        Some(format!("{text} {}", if numbers.iter().all(|n| *n == 1) { one } else { many }))
    };
    [
        part(&[cells], "cell", "cells"),
        part(&trials, "trial", "trials"),
        match picture.facts.counts_passes {
            true => part(&picture.facts.packets, "pass", "passes"),
            false => part(&picture.facts.packets, "packet", "packets"),
        },
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(" × ")
}

/// The ruler: of the sender of the stream under test what its thread measured, before the trials
/// and after them; and the longest gap of any measuring thread.
pub(crate) fn ruler(picture: &Picture<'_>) -> String {
    let all = &picture.manifest.ruler;
    let names = &picture.facts.streams;
    let stream = names.iter().find(|name| *name == UNDER_TEST).or(names.first());
    let sender = stream.map(|name| format!("{name}.tx"));
    let mut its: Vec<&RulerRecord> =
        all.iter().filter(|record| sender.as_ref().is_some_and(|sender| record.threads.contains(sender))).collect();
    if its.is_empty() {
        // A folder of an older version does not say whose they are: then the worst.
        its = all.iter().collect();
    }
    let worst = |after: bool, of: fn(&RulerRecord) -> i64| {
        its.iter().filter(|record| record.after == after).map(|record| of(record)).max()
    };
    let gap = all.iter().filter_map(|record| record.longest_gap_ns).max();
    let (Some(stamp), Some(timer)) = (worst(false, |r| r.stamp_ns), worst(false, |r| r.timer_p99_ns)) else {
        return "not measured".to_owned();
    };
    let after = worst(true, |r| r.timer_p99_ns).map_or(String::new(), |ns| format!(", {} after", figure::about(ns)));
    format!(
        "stamp {} · timer error p99 {}{after} · longest gap {}",
        figure::about(stamp),
        figure::about(timer),
        gap.map_or(figure::ABSENT.to_owned(), figure::about)
    )
}

/// A part of the trials' time; a dash where it is not known.
pub(crate) fn share_of(ns: Option<i64>, elapsed_ns: i64) -> String {
    let known = ns.filter(|_| elapsed_ns > 0);
    known.map_or(figure::ABSENT.to_owned(), |ns| figure::share(ns as f64 / elapsed_ns as f64))
}

/// A CPU's number, behind the name of its host where that is not the coordinator's.
pub(crate) fn cpu(of: &CpuPlacement) -> String {
    of.host.as_ref().map_or_else(|| of.cpu.to_string(), |host| format!("{host}:{}", of.cpu))
}

/// What the run's virtual machines did, whatever for, by the packets of the streams; nothing
/// without any.
pub(crate) fn machines(cell: &CellResult) -> Vec<(String, String)> {
    let Some(all) = cell.machines.filter(|all| all.packets > 0) else { return Vec::new() };
    let a_packet = |count: u64| format!("{:.2}", count as f64 / all.packets as f64);
    let counted = [("exits", all.exits), ("halts", all.halt_exits), ("interrupts injected", all.irq_injections)];
    let counted = counted.into_iter().filter_map(|(what, count)| Some((what.to_owned(), count?)));
    // Of each machine all CPUs together.
    let mut timers: BTreeMap<&str, u64> = BTreeMap::new();
    for cpu in &cell.cpus {
        if let Some(host) = &cpu.host {
            *timers.entry(host).or_default() += cpu.timer_interrupts;
        }
    }
    // A kernel that was not asked, or has another timer, counts none.
    let timers = timers.into_iter().filter(|(_, count)| *count > 0);
    let timers = timers.map(|(host, count)| (format!("timer interrupts in {host}"), count));
    counted.chain(timers).map(|(what, count)| (what, a_packet(count))).collect()
}

/// A thread or a station with the host that it is on, where that is not the coordinator's.
pub(crate) fn on_host(name: &str, host: Option<&str>) -> String {
    host.map_or_else(|| name.to_owned(), |host| format!("{host}:{name}"))
}

/// Who used a CPU apart from tardy and its loads, the worst first, each with its part of the time.
/// Those that explain less than a tenth of it are left out. If they ran for longer than that CPU
/// was used, some of it was elsewhere: then only the names are known.
pub(crate) fn users(cpu: &CpuPlacement) -> Vec<String> {
    let Some(others) = cpu.others_ns else { return Vec::new() };
    let explains = |user: &&CpuUser| user.run_ns > others / 10;
    let with_share =
        |user: &CpuUser| format!("{} {}", user.name, share_of(Some(user.run_ns.min(others)), cpu.elapsed_ns));
    let known = cpu.others.iter().map(|user| user.run_ns).fold(0, i64::saturating_add);
    let name = |user: &CpuUser| user.name.clone();
    let who = cpu.others.iter().filter(explains);
    if known > others { who.map(name).collect() } else { who.map(with_share).collect() }
}

/// A sentence with what it weighs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Remark {
    /// `repeats`, `note`, `warning`, `invalid`, `trials`, …
    pub label: String,
    pub level: Level,
    pub says: String,
}

impl Remark {
    pub fn new(label: &str, level: Level, says: impl Into<String>) -> Self {
        Remark { label: label.to_owned(), level, says: says.into() }
    }
}

pub(crate) fn level(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Invalid => "invalid",
    }
}

/// Told also where all is well.
fn wanted(id: &str) -> bool {
    matches!(id, "repeats" | "gates" | "added-up")
}

/// Verdicts as remarks, the weightiest first. What is as it should be is left out, but for
/// `repeats`, `gates` and `added-up`, which one wants to see.
pub(crate) fn of_verdicts(verdicts: &[Verdict]) -> Vec<Remark> {
    let mut kept: Vec<&Verdict> = verdicts.iter().filter(|v| v.level > Level::Ok || wanted(&v.id)).collect();
    kept.sort_by_key(|v| (std::cmp::Reverse(v.level.max(Level::Note)), v.id != "repeats"));
    let several = kept.iter().filter(|v| v.id == "repeats").count() > 1;
    let says = |v: &Verdict| match v.evidence.get("stream") {
        Some(Figure::Text(stream)) if several && v.id == "repeats" => format!("{stream}: {}", v.says),
        _ => v.says.clone(),
    };
    kept.into_iter()
        .map(|v| match v.id.as_str() {
            "repeats" if v.level <= Level::Note => Remark::new("repeats", v.level, says(v)),
            "repeats" => Remark::new(level(v.level), v.level, format!("repeats: {}", says(v))),
            "gates" if v.level <= Level::Note => Remark::new("gates", v.level, says(v)),
            "added-up" => Remark::new("added-up", v.level, says(v)),
            "refused" => Remark::new("refused", v.level, says(v)),
            _ => Remark::new(level(v.level), v.level, says(v)),
        })
        .collect()
}

/// True if a verdict only repeats why a figure of the cell is refused.
fn is_in_a_row(verdict: &Verdict, cell: &CellResult) -> bool {
    let name = |key: &str| match verdict.evidence.get(key) {
        Some(Figure::Text(name)) => Some(name),
        _ => None,
    };
    let metric = name("stream").zip(name("metric")).and_then(|(stream, metric)| {
        let stream = cell.streams.get(stream)?;
        stream.metrics.get(metric)
    });
    let refused = metric.is_some_and(|metric| metric.refused_by.as_deref() == Some(&*verdict.id));
    refused && verdict.level < Level::Invalid
}

/// All remarks about the run itself, apart from its cells.
pub(crate) fn of_run(results: &Results) -> Vec<Remark> {
    let mut remarks = of_verdicts(&results.verdicts);
    remarks.extend(results.fingerprint.as_deref().map(exact));
    remarks
}

fn exact(fingerprint: &str) -> Remark {
    Remark::new("exact", Level::Ok, format!("fingerprint {fingerprint}"))
}

/// The cells of a run by id. A manifest may list any number of cells, so nothing searches all of
/// them for each cell.
pub(crate) struct Cells<'a> {
    planned: &'a [CellEntry],
    by_id: BTreeMap<&'a str, &'a CellEntry>,
    ran: BTreeSet<&'a str>,
}

impl<'a> Cells<'a> {
    pub(crate) fn of(picture: &Picture<'a>) -> Cells<'a> {
        let planned = &picture.manifest.cells;
        let ran = picture.results.cells.iter().map(|cell| cell.id.as_str()).collect();
        // Of several with one id the first one counts.
        Cells { planned, by_id: planned.iter().rev().map(|entry| (entry.id.as_str(), entry)).collect(), ran }
    }

    /// All remarks on a cell that is in the results, the most severe first.
    pub(crate) fn remarks(&self, cell: &CellResult) -> Vec<Remark> {
        self.with(cell, &cell.verdicts)
    }

    /// Those that are printed below the rows of the cell's figures: the row of a figure that is
    /// refused gives the reason itself.
    pub(crate) fn remarks_below(&self, cell: &CellResult) -> Vec<Remark> {
        let others = cell.verdicts.iter().filter(|verdict| !is_in_a_row(verdict, cell));
        self.with(cell, &others.cloned().collect::<Vec<_>>())
    }

    fn with(&self, cell: &CellResult, verdicts: &[Verdict]) -> Vec<Remark> {
        let mut remarks = of_verdicts(verdicts);
        if cell.not_available.is_some() {
            return remarks;
        }
        if !cell.valid && !remarks.iter().any(|remark| remark.level == Level::Invalid) {
            remarks.insert(0, Remark::new("invalid", Level::Invalid, "do not use these figures"));
        }
        remarks.extend(self.trials(cell));
        // If there is only one cell, the run's fingerprint says as much.
        remarks.extend(cell.fingerprint.as_deref().filter(|_| self.planned.len() > 1).map(exact));
        let hdr =
            cell.streams.values().flat_map(|s| s.metrics.values()).any(|m| m.percentiles == "hdr3" && m.count > 0);
        if hdr {
            remarks.push(Remark::new(
                "figures",
                Level::Note,
                "percentiles are read from a histogram (hdr3: within 0.1 %), for there are more than 10 million rows",
            ));
        }
        remarks
    }

    /// Why the machine could not run a cell that is not in the results; one that is has a verdict
    /// for it.
    pub(crate) fn refused(&self, cell: &str) -> Option<Remark> {
        self.by_id.get(cell)?.refused.as_ref().map(|why| Remark::new("refused", Level::Invalid, why))
    }

    /// Cells that were planned and are not in the results.
    pub(crate) fn not_run(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.planned.iter().map(|entry| entry.id.as_str()).filter(|id| !self.ran.contains(id))
    }

    /// How many trials the figures are of, unless the verdict `left-out` names those that they are
    /// not of.
    fn trials(&self, cell: &CellResult) -> Option<Remark> {
        let finished = cell.trials.len();
        let asked = self.by_id.get(cell.id.as_str()).map_or(finished, |entry| entry.trials as usize);
        let valid = cell.trials.iter().filter(|trial| trial.valid).count();
        let says = match (finished, valid) {
            (0, _) if cell.verdicts.iter().any(|verdict| verdict.level == Level::Invalid) => return None,
            (0, _) => "none finished".to_owned(),
            (_, 0) => format!("none of {finished} is valid"),
            _ if finished < asked => format!("{finished} of {asked} finished"),
            _ => return None,
        };
        Some(Remark::new("trials", Level::Warning, says))
    }
}

/// Why cells are early: etf lets packets go before their launch time, and the stamps show it where
/// no device holds them. Reported if several cells are in one table; below a
/// single one the verdict on its gates reports it.
pub(crate) fn early(picture: &Picture<'_>) -> Option<Remark> {
    let mut cells: Vec<String> = Vec::new();
    let mut deltas: Vec<String> = Vec::new();
    for cell in picture.results.cells.iter().filter(|_| picture.results.cells.len() > 1) {
        let by = cell.streams.values().filter(|stream| is_early(stream)).filter_map(|stream| {
            let gates = stream.gates.as_ref()?;
            matches!(&*gates.keeper, "etf" | "txtime-assist").then(|| figure::about(gates.release_before_ns))
        });
        let by: Vec<String> = by.collect();
        if !by.is_empty() {
            cells.push(title(&cell.id));
        }
        deltas.extend(by);
    }
    let says = format!(
        "{}: early at p50, for etf hands packets to the driver etf.delta before their launch time ({}), and no device behind it holds them",
        cells.join("; "),
        once(&deltas).join("; ")
    );
    (!cells.is_empty()).then(|| Remark::new("early", Level::Note, says))
}

/// True if a stream's packets left or arrived before the schedule at the median.
fn is_early(stream: &StreamResult) -> bool {
    let early = |(name, metric): (&String, &MetricResult)| {
        let behind_the_sender =
            !matches!(name.as_str(), "scheduled..wakeup" | "scheduled..send" | "scheduled..tx_sched");
        name.starts_with("scheduled..") && behind_the_sender && metric.figures.quantiles.p50_ns.is_some_and(|ns| ns < 0)
    };
    stream.metrics.iter().any(early)
}

/// The answer in one sentence: the p99 of the leading metric of the stream that leads, from the
/// best cell to the worst.
pub(crate) fn answer(picture: &Picture<'_>) -> Option<String> {
    let cells = &picture.results.cells;
    let first = cells.iter().find_map(|cell| {
        picture.facts.in_order(&cell.streams).into_iter().find_map(|(stream, result)| Some((stream, lead(result)?)))
    });
    let (stream, name) = first.filter(|(_, name)| !name.ends_with(ABOVE_MINIMUM))?;
    let mut got: Vec<(i64, &str)> = Vec::new();
    let points = cells.iter().filter_map(|cell| point_of(picture.results, name, cell, cell.streams.get(stream)?));
    if points.collect::<BTreeSet<_>>().len() > 1 {
        // From the best cell to the worst would be from one point to another.
        return None;
    }
    // A cell without an answer may be the worst: the tail that is not resolved is often the long
    // one.
    let mut unknown: Vec<&str> = Vec::new();
    for cell in cells {
        let metric = cell.streams.get(stream).and_then(|result| result.metrics.get(name));
        match metric.map(|metric| Column::Quantile(P99).value(metric)) {
            Some(Value::Ns(p99)) => got.push((p99, &cell.id)),
            Some(Value::Infinite) => got.push((i64::MAX, &cell.id)),
            _ => unknown.push(&cell.id),
        }
    }
    let place = |(_, cell): &(i64, &str)| if cells.len() > 1 { format!(" ({})", title(cell)) } else { String::new() };
    let time = |ns: i64| if ns == i64::MAX { figure::INFINITE.to_owned() } else { figure::about(ns) };
    let best = got.iter().min_by_key(|entry| entry.0)?;
    let worst = got.iter().max_by_key(|entry| entry.0)?;
    let (least, most, way) = (time(best.0), time(worst.0), words(name));
    let whose = match cells.iter().any(|cell| cell.streams.len() > 1) {
        _ if picture.facts.counts_passes => "99 % of passes".to_owned(),
        true => format!("99 % of the packets of {stream}"),
        false => "99 % of packets".to_owned(),
    };
    let of_these = if unknown.is_empty() { "in every cell" } else { "in each of the others" };
    let said = match (got.len(), least == most) {
        (1, _) => format!("{whose} took at most {least} from {way}{}", place(best)),
        (_, true) => format!("{whose} took at most {least} from {way}, {of_these}"),
        _ => format!("{whose} took at most {least}{} to {most}{} from {way}", place(best), place(worst)),
    };
    let bounds = cells.iter().filter_map(|cell| cell.streams.get(stream)?.metrics.get(name)?.clock_bound_ns);
    let said = bounds.max().map_or(said.clone(), |ns| format!("{said} (± {})", figure::exact(ns)));
    Some(match unknown.as_slice() {
        [] => said,
        [one] => format!("{said}; of {} it is not known", title(one)),
        several => format!("{said}; of {} of {} cells it is not known", several.len(), cells.len()),
    })
}

fn words(metric: &str) -> String {
    metric.split_once("..").map_or_else(|| metric.to_owned(), |(a, b)| format!("{a} to {b}"))
}

/// Cells named in one remark.
const NAMED: usize = 2;

/// The remarks on all cells that are `wanted`, the most severe first. Those that differ only in
/// figures become one: each cell's name once, with all the figures of the first cell.
pub(crate) fn common_remarks(picture: &Picture<'_>, wanted: impl Fn(&CellResult, &Remark) -> bool) -> Vec<Remark> {
    let mut merged: Vec<(Remark, Vec<&str>, Vec<String>)> = Vec::new();
    let all = Cells::of(picture);
    for cell in &picture.results.cells {
        for remark in all.remarks(cell).into_iter().filter(|remark| wanted(cell, remark)) {
            let says_the_same = |other: &Remark| other.label == remark.label && kind(&other.says) == kind(&remark.says);
            match merged.iter_mut().find(|(other, ..)| says_the_same(other)) {
                Some((_, cells, more)) if cells[..] == [cell.id.as_str()] => more.push(remark.says),
                Some((_, cells, _)) if cells.last() == Some(&cell.id.as_str()) => {}
                Some((_, cells, _)) => cells.push(&cell.id),
                None => merged.push((remark, vec![&cell.id], Vec::new())),
            }
        }
    }
    merged.sort_by_key(|(remark, ..)| std::cmp::Reverse(remark.level));
    merged
        .into_iter()
        .map(|(mut remark, cells, again)| {
            let named: Vec<String> = cells.iter().take(NAMED).map(|id| title(id)).collect();
            let more = match cells.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let example = if cells.len() > 1 { ", in the first" } else { "" };
            let all: Vec<&str> = std::iter::once(&remark.says).chain(&again).map(String::as_str).collect();
            remark.says = format!("{}{more}{example}: {}", named.join("; "), all.join("; "));
            remark
        })
        .collect()
}

/// A sentence without its figures, to see that two differ only in those.
fn kind(says: &str) -> String {
    says.chars().filter(|c| !c.is_ascii_digit() && !".,  –".contains(*c)).collect()
}
