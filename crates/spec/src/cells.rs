// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells: cases × axes, in the order of the file, and their ids.

use crate::cell::View;
use crate::error::{At, Faults, MOST, Problem, Reason};
use crate::experiment::{Cell, Setup};
use crate::machines;
use crate::schema::KEYS;
use crate::setup;
use crate::sheet::{Assignment, Axis, Case, Sheet};
use std::collections::{BTreeMap, HashMap, HashSet};
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
    /// The number of each of these values on its axis.
    picked: Vec<usize>,
    /// Its beginning, if it is too long, which is reported.
    id: String,
}

/// After the first fault no cell is kept. This number of further ones is checked, and besides
/// them those that are the first with a case or a value of an axis.
const REPEATS: usize = 64;
/// Most streams and loads that are checked after the first fault.
const MOST_LOOKED_AT: usize = 1 << 13;

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
    let (mut cells, mut found) = (Vec::new(), Vec::new());
    let mut sample = Sample::new(sheet);
    // A fault that many cells have is reported for the first one.
    let mut reported = HashSet::new();
    for combination in &combinations {
        if found.len() >= faults.room() {
            break;
        }
        let is_lost = !are_all || !found.is_empty() || !faults.is_empty();
        if !sample.takes(combination, is_lost) {
            continue;
        }
        let id = Some(combination.id.as_str()).filter(|id| *id != "all");
        let view = View::new(sheet, faults, combination.case, &combination.axes, id);
        let made = setup::setup(&view);
        let problems = view.found();
        let is_right = problems.is_empty();
        found.extend(
            problems.into_iter().filter(|of| reported.insert((of.at.span.clone(), of.at.origin, of.message.clone()))),
        );
        let Some((setup, expect)) = made.filter(|_| is_right && !is_lost && found.is_empty()) else { continue };
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
    machines::assign(&mut cells);
    if let Err((message, help)) = machines::check_held(&cells) {
        let at = ["path.b", "path.a", "path.kind"].iter().find_map(|key| Some(sheet.base.get(*key)?.node.at.clone()));
        faults.add(Problem::new(Reason::Combination, &at.unwrap_or(At::START), message, help));
    }
    cells
}

/// Which cells are checked, once there is a fault.
struct Sample<'a> {
    /// The cases and the values that a cell was looked at with.
    seen: HashSet<Part<'a>>,
    /// Cells that may still be looked at though all that they have was seen.
    repeats: usize,
    /// Cells that may still be looked at.
    left: usize,
}

/// What a cell is made of: a case, or a value of an axis, each by its number.
#[derive(PartialEq, Eq, Hash)]
enum Part<'a> {
    Case(usize),
    Value(&'a str, usize),
}

impl<'a> Sample<'a> {
    fn new(sheet: &Sheet) -> Sample<'a> {
        let each = (sheet.streams.len() + sheet.loads.len()).max(1);
        let left = MOST_LOOKED_AT.div_ceil(each);
        Sample { seen: HashSet::new(), repeats: REPEATS.min(left / 2), left }
    }

    /// True if the cell is to be looked at; each is, as long as it may be kept.
    fn takes(&mut self, cell: &Combination<'a>, is_lost: bool) -> bool {
        if is_lost && self.left == 0 {
            return false;
        }
        let mut is_new = cell.case.is_some_and(|case| self.seen.insert(Part::Case(case.number)));
        for (value, n) in cell.axes.iter().zip(&cell.picked) {
            is_new |= self.seen.insert(Part::Value(&value.key, *n));
        }
        if !is_lost {
            return true;
        }
        if !is_new && self.repeats == 0 {
            return false;
        }
        self.repeats -= usize::from(!is_new);
        self.left -= 1;
        true
    }
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
    let cpus = setup.copy.as_ref().map_or(0, |copy| size_of_val(&copy.cpus[..]));
    streams.sum::<usize>() + loads.sum::<usize>() + size_of_val(expect) + entries + cpus
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
    let names = Names::new(sheet);
    let cases: Vec<Option<&Case>> =
        if sheet.cases.is_empty() { vec![None] } else { sheet.cases.iter().map(Some).collect() };
    let mut out = Vec::with_capacity(most);
    let mut seen: HashSet<String> = HashSet::new();
    for case in cases {
        for index in (0..number / sheet.cases.len().max(1)).take(most - out.len()) {
            let picked = pick(&sheet.axes, index);
            let axes: Vec<&Assignment> = sheet.axes.iter().zip(&picked).map(|(axis, n)| &axis.values[*n]).collect();
            let (id, length) = names.id(case, &picked);
            let at = || axes.last().map(|value| &value.node.at).or(case.map(|case| &case.at)).unwrap_or(&At::START);
            if length > LONGEST_ID {
                let message = format!("the cell's id would have {length} characters, more than {LONGEST_ID}");
                let help = "shorten names, or make named cases of the axes";
                note(&mut problems, Problem::new(Reason::Combination, at(), message, help));
            } else if !seen.insert(unique(case, &id)) {
                if problems.len() < MOST {
                    note(&mut problems, names.repeated(sheet, case, &picked, &id));
                }
                continue;
            }
            out.push(Combination { case, axes, picked, id });
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

/// Which value of each axis the `index`-th combination has, the last axis changing fastest.
fn pick(axes: &[Axis], mut index: usize) -> Vec<usize> {
    let mut picked = Vec::with_capacity(axes.len());
    for axis in axes.iter().rev() {
        picked.push(index % axis.values.len());
        index /= axis.values.len();
    }
    picked.reverse();
    picked
}

/// An id among those of other cells. What is written for a case that has no name is nobody's
/// name.
fn unique(case: Option<&Case>, id: &str) -> String {
    if case.is_some_and(|case| !case.is_named) { format!("\0{id}") } else { id.to_owned() }
}

/// What ids are made of, put together once: a value may be a megabyte long and in thousands of
/// cells.
struct Names {
    /// By the number of the case.
    cases: HashMap<usize, Name>,
    /// Of each axis, its values.
    axes: Vec<Vec<Name>>,
    /// The second case that has a name.
    case_twice: HashMap<String, At>,
    /// Of each axis, where a value is for the second time.
    twice: Vec<HashMap<String, At>>,
}

/// A part of an id, as far as an id may go.
struct Name {
    text: String,
    length: usize,
}

impl Name {
    fn new(mut text: String) -> Name {
        let length = text.len();
        text.truncate(text.floor_char_boundary(LONGEST_ID));
        Name { text, length }
    }
}

impl Names {
    fn new(sheet: &Sheet) -> Names {
        let named = sheet.cases.iter().filter(|case| case.is_named);
        let axis = |axis: &Axis| {
            let suffix = suffix(sheet, axis);
            axis.values.iter().map(|value| Name::new(format!("{suffix}={}", in_id(&value.node.plain())))).collect()
        };
        let axes: Vec<Vec<Name>> = sheet.axes.iter().map(axis).collect();
        let values = sheet.axes.iter().zip(&axes);
        Names {
            cases: sheet.cases.iter().map(|case| (case.number, Name::new(in_id(&case.name)))).collect(),
            case_twice: second(named.map(|case| (in_id(&case.name), &case.at))),
            twice: values
                .map(|(axis, names)| {
                    second(names.iter().map(|name| name.text.clone()).zip(axis.values.iter().map(|of| &of.node.at)))
                })
                .collect(),
            axes,
        }
    }

    /// The id's beginning, and how long all of it would be.
    fn id(&self, case: Option<&Case>, picked: &[usize]) -> (String, usize) {
        let of_case = case.and_then(|case| self.cases.get(&case.number));
        let parts = of_case.into_iter().chain(self.axes.iter().zip(picked).map(|(names, n)| &names[*n]));
        let (mut id, mut length) = (String::new(), 0);
        for (n, part) in parts.enumerate() {
            if n > 0 {
                id.push(',');
                length += 1;
            }
            let room = LONGEST_ID.saturating_sub(id.len());
            id.push_str(&part.text[..part.text.floor_char_boundary(room)]);
            length += part.length;
        }
        id.truncate(id.floor_char_boundary(LONGEST_ID));
        (id, length)
    }

    /// Two cells with one id: reports which case or value is there twice.
    fn repeated(&self, sheet: &Sheet, case: Option<&Case>, picked: &[usize], id: &str) -> Problem {
        let message = format!("two cells would have the id `{id}`");
        let of_case = case.filter(|case| case.is_named).and_then(|case| self.case_twice.get(&in_id(&case.name)));
        if let Some(last) = of_case {
            return Problem::new(Reason::Combination, last, message, "give each case its own name");
        }
        for ((names, twice), n) in self.axes.iter().zip(&self.twice).zip(picked) {
            if let Some(last) = twice.get(&names[*n].text) {
                return Problem::new(Reason::Combination, last, message, "leave one of the two values out");
            }
        }
        let last = sheet.axes.last().zip(picked.last()).map(|(axis, n)| &axis.values[*n].node.at);
        Problem::new(Reason::Combination, last.unwrap_or(&At::START), message, "make named cases of the axes")
    }
}

/// Where each text is that is there more than once, for the second time.
fn second<'a>(texts: impl Iterator<Item = (String, &'a At)>) -> HashMap<String, At> {
    let (mut once, mut twice) = (HashSet::new(), HashMap::new());
    for (text, at) in texts {
        if once.contains(&text) {
            twice.entry(text).or_insert_with(|| at.clone());
        } else {
            once.insert(text);
        }
    }
    twice
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
            "expect" if sheet.is_copy() => sheet.copies.iter().map(|named| named.name.as_str()).collect(),
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
