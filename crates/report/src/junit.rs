// SPDX-License-Identifier: MIT OR Apache-2.0
//! JUnit XML, which CI systems read. Of a run: a suite for each cell, in it a test case that its
//! numbers are valid and one for each expectation. A broken limit is a `failure`; numbers that
//! must not be used are an `error`. What a cell's error leaves open is `skipped`: no test passes
//! without an answer. Of a comparison: its two runs, and its conditions.

use crate::closing;
use crate::picture::{Options, Picture, ReportError};
use crate::summary::{self, Cells};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tardy_model::comparison::{Comparison, ConditionResult, Decision};
use tardy_model::harmless::xml as escape;
use tardy_model::result::{CellResult, ExpectationResult};
use tardy_model::verdict::{Level, Verdict};

/// How a test case ended, with the reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ended {
    Passed,
    Failed(String),
    Error(String),
    Skipped(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    /// What it belongs to: CI systems group by it.
    pub class: String,
    pub name: String,
    pub ended: Ended,
}

/// A group of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Suite {
    pub name: String,
    pub cases: Vec<Case>,
}

/// A text as an attribute's value, in double quotes, with a space before the name.
fn attribute(name: &str, value: &str) -> String {
    // Every parser turns an end of a line or a tab in a value into a blank.
    format!(" {name}=\"{}\"", escape(value).replace(['\n', '\t'], " "))
}

pub(crate) fn file(name: &str, suites: &[Suite]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all = suites.iter().flat_map(|suite| &suite.cases);
    let _ = writeln!(out, "<testsuites{}{}>", attribute("name", name), counts(all));
    for suite in suites {
        let _ = writeln!(out, "  <testsuite{}{}>", attribute("name", &suite.name), counts(suite.cases.iter()));
        for Case { class, name, ended } in &suite.cases {
            let head = format!("    <testcase{}{}", attribute("classname", class), attribute("name", name));
            let (tag, why) = match ended {
                Ended::Passed => {
                    out += &format!("{head}/>\n");
                    continue;
                }
                Ended::Failed(why) => ("failure", why),
                Ended::Error(why) => ("error", why),
                Ended::Skipped(why) => ("skipped", why),
            };
            // Some systems show the message, some the text.
            let _ = writeln!(out, "{head}>\n      <{tag}{}>{}</{tag}>", attribute("message", why), escape(why));
            out += "    </testcase>\n";
        }
        out += "  </testsuite>\n";
    }
    out + "</testsuites>\n"
}

fn counts<'a>(cases: impl Iterator<Item = &'a Case> + Clone) -> String {
    let count = |is: fn(&Ended) -> bool| cases.clone().filter(|case| is(&case.ended)).count().to_string();
    [
        attribute("tests", &count(|_| true)),
        attribute("failures", &count(|ended| matches!(ended, Ended::Failed(_)))),
        attribute("errors", &count(|ended| matches!(ended, Ended::Error(_)))),
        attribute("skipped", &count(|ended| matches!(ended, Ended::Skipped(_)))),
    ]
    .concat()
}

pub(crate) fn make(picture: &Picture<'_>, _: &Options) -> Result<String, ReportError> {
    let results = picture.results;
    let class = |cell: &str| format!("{}.{cell}", results.name);
    let valid = |cell: &str, ended| Case { class: class(cell), name: "the numbers are valid".to_owned(), ended };
    let run = spoilt(&results.verdicts);
    let nothing = results.cells.is_empty().then(|| "no trial was finished".to_owned());
    // What made it invalid may be gone where an older run is judged anew; its own word stays.
    let cells_are_valid = results.cells.iter().all(|cell| cell.valid || cell.not_available.is_some());
    let word = (!results.valid && cells_are_valid).then(|| "the run is not valid".to_owned());
    let ended = run.clone().or(nothing).or(word).map_or(Ended::Passed, Ended::Error);
    let mut suites = vec![Suite { name: "run".to_owned(), cases: vec![valid("run", ended), finished(picture)] }];
    let mut expectations: BTreeMap<&str, Vec<&ExpectationResult>> = BTreeMap::new();
    for expectation in &results.expectations {
        expectations.entry(&expectation.cell).or_default().push(expectation);
    }
    let limits = |cell: &str, open: bool| -> Vec<Case> {
        let of_cell = expectations.get(cell).into_iter().flatten();
        of_cell.map(|expectation| limit(class(cell), expectation, open)).collect()
    };
    for cell in &results.cells {
        let mut cases = vec![valid(&cell.id, state(cell))];
        cases.extend(limits(&cell.id, run.is_some() || !cell.valid));
        suites.push(Suite { name: cell.id.clone(), cases });
    }
    let cells = Cells::of(picture);
    for cell in cells.not_run() {
        let why = cells.refused(cell).map_or_else(|| "no trial was finished".to_owned(), |why| why.says);
        let mut cases = vec![valid(cell, Ended::Error(why))];
        cases.extend(limits(cell, true));
        suites.push(Suite { name: cell.to_owned(), cases });
    }
    Ok(file(&results.name, &suites))
}

/// A test system shows no exit code, and many show what was skipped in green: so trials that are
/// missing are an error, however well those that there are went.
fn finished(picture: &Picture<'_>) -> Case {
    let ended = closing::cut(picture).map_or(Ended::Passed, Ended::Error);
    Case { class: format!("{}.run", picture.results.name), name: "the run was finished".to_owned(), ended }
}

/// Why nothing may be used, as the verdicts say.
fn spoilt(verdicts: &[Verdict]) -> Option<String> {
    let invalid: Vec<&str> = verdicts
        .iter()
        .filter(|verdict| verdict.level == Level::Invalid)
        .map(|verdict| verdict.says.as_str())
        .collect();
    (!invalid.is_empty()).then(|| invalid.join("; "))
}

fn state(cell: &CellResult) -> Ended {
    if let Some(why) = &cell.not_available {
        return Ended::Skipped(format!("not available: {why}"));
    }
    let why = || spoilt(&cell.verdicts).unwrap_or_else(|| "its trials are not valid".to_owned());
    if cell.valid { Ended::Passed } else { Ended::Error(why()) }
}

/// A limit as a test case. Where its cell has no error (`open`), a limit that was not judged is
/// one of its own.
fn limit(class: String, e: &ExpectationResult, open: bool) -> Case {
    let why = || e.why.clone().unwrap_or_else(|| "it was not judged".to_owned());
    let ended = match e.met {
        Some(true) => Ended::Passed,
        Some(false) => Ended::Failed(summary::failure(e)),
        None if open => Ended::Skipped(why()),
        None => Ended::Error(why()),
    };
    Case { class, name: format!("{}, limit {}", summary::limited(e), summary::limit(e)), ended }
}

/// A comparison: that the numbers of each run are valid, and each condition in each cell and
/// stream.
pub(crate) fn of_comparison(compared: &Comparison, _: &Options) -> Result<String, ReportError> {
    let name = &compared.b.name;
    let valid = |letter: &str, valid: bool, run: &str| Case {
        class: name.clone(),
        name: format!("the numbers of {letter} are valid"),
        ended: if valid { Ended::Passed } else { Ended::Error(format!("{run} is not valid: do not use its figures")) },
    };
    let [a, b] = [&compared.a, &compared.b];
    let runs = vec![valid("A", a.valid, &a.run), valid("B", b.valid, &b.run)];
    let conditions = compared.conditions.iter().map(|result| condition(name, result)).collect();
    let suites =
        [Suite { name: "runs".to_owned(), cases: runs }, Suite { name: "conditions".to_owned(), cases: conditions }];
    let title = format!("{name}: {} against {}", b.run, a.run);
    Ok(file(&title, &suites[..if compared.conditions.is_empty() { 1 } else { 2 }]))
}

fn condition(name: &str, result: &ConditionResult) -> Case {
    let class = result.cell.as_ref().map_or_else(|| name.to_owned(), |cell| format!("{name}.{cell}"));
    let stream = result.stream.as_ref().map(|stream| format!("{stream}: ")).unwrap_or_default();
    let says = result.says.clone();
    let ended = match result.decision {
        Decision::NotMet => Ended::Passed,
        Decision::Met => Ended::Failed(says),
        Decision::Undecided => Ended::Skipped(says),
        Decision::NoData => Ended::Error(says),
    };
    Case { class, name: format!("{stream}{}", result.condition), ended }
}
