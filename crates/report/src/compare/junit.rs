// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison as JUnit XML: that the numbers of each run are valid, and each condition in each
//! cell and stream.

use crate::junit::{Case, Ended, Suite, file};
use crate::{Options, ReportError};
use tardy_model::comparison::{Comparison, ConditionResult, Decision};

pub(super) fn make(compared: &Comparison, _: &Options) -> Result<String, ReportError> {
    let name = &compared.b.name;
    let valid = |letter: &str, valid: bool, run: &str| Case {
        class: name.clone(),
        name: format!("the numbers of {letter} are valid"),
        ended: if valid { Ended::Passed } else { Ended::Error(format!("{run} is not valid: do not use its figures")) },
    };
    let [a, b] = [&compared.a, &compared.b];
    let runs = vec![valid("A", a.valid, &a.run), valid("B", b.valid, &b.run)];
    let conditions = compared.conditions.iter().map(|result| case(name, result)).collect();
    let suites =
        [Suite { name: "runs".to_owned(), cases: runs }, Suite { name: "conditions".to_owned(), cases: conditions }];
    let title = format!("{name}: {} against {}", b.run, a.run);
    Ok(file(&title, &suites[..if compared.conditions.is_empty() { 1 } else { 2 }]))
}

fn case(name: &str, result: &ConditionResult) -> Case {
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
