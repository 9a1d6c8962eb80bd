// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells: cases × axes, in the order of the file, and their ids.

use crate::cell::View;
use crate::error::{At, Faults, MOST, Problem, Reason};
use crate::experiment::{Cell, Setup};
use crate::schema::KEYS;
use crate::setup;
use crate::sheet::{Assignment, Axis, Case, Sheet};
use std::collections::{BTreeMap, HashSet};
use tardy_model::expect::Expectation;
use tardy_model::load::{Load, LoadKind};
use tardy_model::stream::Stream;

/// Most cells of an experiment.
pub(crate) const MOST_CELLS: usize = 10_000;
/// Most memory of all cells together, bytes. Each has all of its streams, loads and limits.
const MOST_BYTES: usize = 64 << 20;
/// What the shortest text takes on the heap, about, bytes.
const LEAST: usize = 32;
/// An id is a folder's name in the run folder.
const LONGEST_ID: usize = 200;

/// One combination, before it is worked out.
struct Combination<'a> {
    case: Option<&'a Case>,
    axes: Vec<&'a Assignment>,
    id: String,
}

/// After this number of cells in a row without a new fault the others are not checked.
const REPEATS: usize = 64;

/// Works out all cells. The case changes slowest, the last axis fastest. What is wrong is noted;
/// then not all cells are there.
pub(crate) fn cells(sheet: &Sheet, faults: &mut Faults) -> Vec<Cell> {
    let (combinations, problems) = combinations(sheet);
    let mut are_all = problems.is_empty();
    problems.into_iter().for_each(|problem| faults.add(problem));
    // What every cell has, whatever its values are, is known before any of them is worked out.
    let each = size_of::<Cell>() + sheet.streams.len() * size_of::<Stream>() + sheet.loads.len() * size_of::<Load>();
    if combinations.len() * each > MOST_BYTES {
        faults.add(too_much(sheet, combinations.len()));
        are_all = false;
    }
    let mut bytes = 0;
    let (mut cells, mut found, mut repeats) = (Vec::new(), Vec::new(), 0);
    // A fault that many cells have is reported for the first one.
    let mut reported = HashSet::new();
    for combination in &combinations {
        let id = Some(combination.id.as_str()).filter(|id| *id != "all");
        let view = View::new(sheet, faults, combination.case, &combination.axes, id);
        let made = setup::setup(&view);
        let problems = view.found();
        let is_right = problems.is_empty();
        let known = found.len();
        found.extend(
            problems.into_iter().filter(|of| reported.insert((of.at.span.clone(), of.at.origin, of.message.clone()))),
        );
        // Ten thousand cells with one fault are one fault, which each of them takes time to find.
        repeats = if found.len() > known { 0 } else { repeats + usize::from(!is_right) };
        if found.len() >= MOST || repeats >= REPEATS {
            break;
        }
        let Some((setup, expect)) = made.filter(|_| is_right && are_all && found.is_empty()) else { continue };
        bytes += size_of::<Cell>() + bytes_of(&setup, &expect);
        if bytes > MOST_BYTES {
            found.push(too_much(sheet, combinations.len()));
            break;
        }
        let mut axes: BTreeMap<String, String> =
            combination.axes.iter().map(|axis| (axis.key.clone(), axis.node.plain())).collect();
        if let Some(case) = combination.case {
            axes.insert("case".to_owned(), case.name.clone());
        }
        let optional = combination.case.is_some_and(|case| case.optional);
        cells.push(Cell { id: combination.id.clone(), axes, setup, expect, optional });
    }
    found.into_iter().for_each(|problem| faults.add(problem));
    cells
}

/// About what the lists of a cell take, bytes.
fn bytes_of(setup: &Setup, expect: &[Expectation]) -> usize {
    let streams = setup.streams.iter().map(|stream| {
        let lists =
            size_of_val(&stream.stamps[..]) + size_of_val(&stream.metrics[..]) + size_of_val(&stream.sim.drop[..]);
        size_of::<Stream>() + stream.name.len() + lists
    });
    let loads = setup.loads.iter().map(|load| {
        let words = match &load.kind {
            LoadKind::Command { command, peer_command } => command.iter().chain(peer_command),
            _ => [].iter().chain(&[]),
        };
        size_of::<Load>()
            + load.name.len()
            + words.map(|word| size_of::<String>() + word.len().max(LEAST)).sum::<usize>()
    });
    let entries = setup.shaper.taprio().map_or(0, |taprio| size_of_val(&taprio.schedule.entries[..]));
    streams.sum::<usize>() + loads.sum::<usize>() + size_of_val(expect) + entries
}

fn too_much(sheet: &Sheet, cells: usize) -> Problem {
    let at = sheet.axes.last().map(|axis| &axis.at).or(sheet.cases.last().map(|case| &case.at));
    let message = format!(
        "the {cells} cells, each with all of its streams, loads, limits and lists, would take more than {} MiB of memory",
        MOST_BYTES >> 20
    );
    let help = "leave streams, loads, cases or axes out, or shorten a list";
    Problem::new(Reason::Combination, at.unwrap_or(&At::START), message, help)
}

/// All of them, and what is wrong with them; where there are too many, the first ones, which show
/// what else is wrong.
fn combinations(sheet: &Sheet) -> (Vec<Combination<'_>>, Vec<Problem>) {
    let mut problems: Vec<Problem> = Vec::new();
    let sizes = sheet.axes.iter().map(|axis| axis.values.len());
    let number = sizes.fold(sheet.cases.len().max(1), usize::saturating_mul);
    if number > MOST_CELLS {
        let at = sheet.axes.last().map(|axis| &axis.at).or(sheet.cases.last().map(|case| &case.at));
        let message = format!("cases × axes make {number} cells; an experiment has at most {MOST_CELLS}");
        let help = "leave an axis or values out";
        problems.push(Problem::new(Reason::Combination, at.unwrap_or(&At::START), message, help));
    }
    let most = if problems.is_empty() { number } else { REPEATS };
    let suffixes: Vec<String> = sheet.axes.iter().map(|axis| suffix(sheet, axis)).collect();
    let cases: Vec<Option<&Case>> =
        if sheet.cases.is_empty() { vec![None] } else { sheet.cases.iter().map(Some).collect() };
    let mut out = Vec::with_capacity(most);
    let mut seen: HashSet<String> = HashSet::new();
    for case in cases {
        for index in (0..number / sheet.cases.len().max(1)).take(most - out.len()) {
            let axes = pick(&sheet.axes, index);
            let parts =
                suffixes.iter().zip(&axes).map(|(suffix, value)| format!("{suffix}={}", in_id(&value.node.plain())));
            let id = case.map(|case| in_id(&case.name)).into_iter().chain(parts).collect::<Vec<_>>().join(",");
            let at = || axes.last().map(|value| &value.node.at).or(case.map(|case| &case.at)).unwrap_or(&At::START);
            if id.len() > LONGEST_ID {
                let message = format!("the cell's id would have {} characters, more than {LONGEST_ID}", id.len());
                let help = "shorten names, or make named cases of the axes";
                note(&mut problems, Problem::new(Reason::Combination, at(), message, help));
            } else if !seen.insert(id.clone()) {
                note(&mut problems, repeated(sheet, case, &axes, &id));
                continue;
            }
            out.push(Combination { case, axes, id });
        }
    }
    if let [only] = out.as_mut_slice() {
        only.id = "all".to_owned();
    }
    (out, problems)
}

/// One fault at each place: many cells have the value that makes it.
fn note(problems: &mut Vec<Problem>, problem: Problem) {
    if problems.iter().all(|known| known.at != problem.at) && problems.len() < MOST {
        problems.push(problem);
    }
}

/// The values of the `index`-th combination, the last axis changing fastest.
fn pick(axes: &[Axis], mut index: usize) -> Vec<&Assignment> {
    let mut picked: Vec<&Assignment> = Vec::with_capacity(axes.len());
    for axis in axes.iter().rev() {
        picked.push(&axis.values[index % axis.values.len()]);
        index /= axis.values.len();
    }
    picked.reverse();
    picked
}

/// Two cells with one id: reports which case or value is there twice.
fn repeated(sheet: &Sheet, case: Option<&Case>, axes: &[&Assignment], id: &str) -> Problem {
    let message = format!("two cells would have the id `{id}`");
    if let Some(case) = case
        && let Some(last) = sheet.cases.iter().filter(|other| in_id(&other.name) == in_id(&case.name)).nth(1)
    {
        return Problem::new(Reason::Combination, &last.at, message, "give each case its own name");
    }
    for (axis, value) in sheet.axes.iter().zip(axes) {
        if let Some(last) =
            axis.values.iter().filter(|other| in_id(&other.node.plain()) == in_id(&value.node.plain())).nth(1)
        {
            return Problem::new(Reason::Combination, &last.node.at, message, "leave one of the two values out");
        }
    }
    let at = axes.last().map_or(At::START, |value| value.node.at.clone());
    Problem::new(Reason::Combination, &at, message, "make named cases of the axes")
}

/// A name or value as it is in an id.
fn in_id(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._=,-".contains(c);
    text.chars().map(|c| if allowed(c) { c } else { '-' }).collect()
}

/// The shortest suffix of the axis's key that ends no other key of this experiment. A key of one
/// end keeps its `tx` or `rx`: nobody should have to know that only one of the two has such a key.
fn suffix(sheet: &Sheet, axis: &Axis) -> String {
    let segments: Vec<&str> = match axis.schema.pattern {
        // A metric's own dots do not divide it.
        "expect.*.*" => axis.key.splitn(3, '.').collect(),
        _ => axis.key.split('.').collect(),
    };
    let least = if segments.iter().rev().nth(1).is_some_and(|end| matches!(*end, "tx" | "rx")) { 2 } else { 1 };
    let names = |root: &str| -> Vec<&str> {
        match root {
            "station" => sheet.stations.iter().map(|named| named.name.as_str()).collect(),
            "stream" | "expect" => sheet.streams.iter().map(|named| named.name.as_str()).collect(),
            "load" => sheet.loads.iter().map(|named| named.name.as_str()).collect(),
            _ => vec![""],
        }
    };
    let ends_so = |key: &[&str], name: &str, tail: &[&str]| {
        let metric = segments.last().copied().filter(|_| axis.schema.pattern == "expect.*.*").unwrap_or("*");
        let last = key.len() - 1;
        let named = key.iter().enumerate().map(|(n, segment)| match *segment {
            "*" if n == last => metric,
            "*" => name,
            segment => segment,
        });
        key.len() >= tail.len() && named.skip(key.len() - tail.len()).eq(tail.iter().copied())
    };
    let is_shared = |tail: &[&str]| {
        let keys = KEYS.iter().map(|key| key.segments().collect::<Vec<_>>());
        let ending = |key: Vec<&str>| names(key[0]).into_iter().filter(|name| ends_so(&key, name, tail)).count();
        keys.map(ending).sum::<usize>() > 1
    };
    for length in least..segments.len() {
        let tail = &segments[segments.len() - length..];
        if !is_shared(tail) {
            return tail.join(".");
        }
    }
    axis.key.clone()
}
