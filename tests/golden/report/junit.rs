// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run as JUnit XML: what CI systems show of it.

use super::same;
use super::sample::{Run, limit, lost, many, odd, run};
use crate::xml::{Tag, tags};
use tardy_model::result::ExpectationResult;
use tardy_model::verdict::{Level, Verdict};

fn read(run: &Run) -> Vec<Tag> {
    tags(&run.draw("junit", 100))
}

/// How many tests, failures, errors and skipped ones the whole file claims to have. Checks that it
/// has them.
fn counts(tags: &[Tag]) -> [usize; 4] {
    let said =
        ["tests", "failures", "errors", "skipped"].map(|name| tags[0].attributes[name].parse().expect("a number"));
    let there =
        ["testcase", "failure", "error", "skipped"].map(|name| tags.iter().filter(|tag| tag.name == name).count());
    assert_eq!(said, there);
    said
}

#[test]
fn validity_and_each_expectation_are_test_cases() {
    same(&run(&["rx.wait=block", "rx.wait=poll"]).draw("junit", 100), include_str!("good.xml"));
    same(&odd().draw("junit", 100), include_str!("odd.xml"));
    assert_eq!(counts(&read(&run(&["all"]))), [4, 0, 0, 0]);
    // A limit and a count that are broken, a limit whose figure is missing, a cell that is not
    // valid, one that was refused.
    assert_eq!(counts(&read(&odd())), [8, 3, 2, 0]);
}

#[test]
fn no_test_passes_that_nothing_is_known_of() {
    // A cell that is not valid is an error; what it leaves open is skipped.
    let mut bad = run(&["all"]);
    bad.results.valid = false;
    bad.results.cells[0].valid = false;
    bad.results.cells[0].verdicts.push(Verdict::new("coverage", Level::Invalid, "2 % of packets have no stamp"));
    let open =
        ExpectationResult { met: None, why: Some("the figures are not valid".into()), ..limit("all", 1, None, false) };
    bad.results.expectations = vec![open.clone(), lost("all", 4)];
    let found = read(&bad);
    assert_eq!(counts(&found), [4, 1, 1, 1]);
    let error = found.iter().find(|tag| tag.name == "error").expect("an error");
    assert_eq!(
        (error.text.as_str(), error.attributes["message"].as_str()),
        ("2 % of packets have no stamp", error.text.as_str())
    );
    // In a valid cell it is an error itself.
    let mut unseen = run(&["all"]);
    unseen.results.expectations = vec![open];
    assert_eq!(counts(&read(&unseen)), [3, 0, 1, 0]);
    // What spoilt the whole run, a run without a cell, one in which a cell has limits and
    // finished nothing.
    let mut spoilt = run(&["all"]);
    spoilt.results.verdicts.push(Verdict::new("failed", Level::Invalid, "the disk is full"));
    assert_eq!(counts(&read(&spoilt)), [4, 0, 1, 0]);
    let mut nothing = run(&["all"]);
    nothing.results.cells.clear();
    assert_eq!(counts(&read(&nothing)), [4, 0, 2, 0]);
    assert_eq!(counts(&read(&many()))[2], 2, "a cell of eight, and a limit of one that is valid");
}
