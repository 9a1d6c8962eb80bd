// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands in the table of two runs beside the figures: one unit, and a reason wherever something is missing.

use super::{Side, compared, sample, side, text};
use tardy_model::result::MetricResult;

/// An exact run whose samples have this fingerprint, changed.
fn exact(print: &str, change: impl FnOnce(&mut sample::Run)) -> Side {
    side(|run, _| {
        run.results.fingerprint = Some(print.into());
        run.results.cells.truncate(1);
        run.results.cells[0].fingerprint = Some(print.into());
        change(run);
    })
}

/// The leading metric of each trial of the only cell.
fn of_trials(run: &mut sample::Run) -> impl Iterator<Item = &mut MetricResult> {
    let trials = run.results.cells[0].trials.iter_mut();
    trials.map(|trial| {
        let stream = trial.streams.get_mut("ctl").expect("the stream");
        stream.metrics.get_mut("scheduled..rx_kernel").expect("the metric")
    })
}

/// The row of a figure of the leading metric.
fn row(said: &str, of: &str) -> String {
    let (_, rows) = said.split_once("scheduled..rx_kernel").expect("the metric");
    let row = rows.lines().find(|line| line.split_whitespace().next() == Some(of));
    row.unwrap_or_else(|| panic!("no row of {of}: {said}")).to_owned()
}

#[test]
fn one_unit_holds_for_a_table_and_for_what_stands_beside_its_figures() {
    let a = exact("aa", |_| ());
    let b = exact("bb", |run| {
        for (n, metric) in of_trials(run).take(2).enumerate() {
            // The one below a µs, the other above.
            metric.figures.max_ns = Some(915_000 + [812, 3_025][n]);
        }
        let pooled = run.results.cells[0].streams.get_mut("ctl").expect("the stream");
        pooled.metrics.get_mut("scheduled..rx_kernel").expect("the metric").figures.max_ns = Some(918_025);
    });
    let said = text(&compared(&a, &b));
    let (_, table) = said.split_once("rx.wait=block").expect("the cell");
    let (table, _) = table.split_once("by phase: ").expect("a table by phase");
    assert_eq!(table.matches(" ns").count(), 1, "its unit is told once: {table}");
    assert!(!table.contains("µs") && !table.contains("ms "), "{table}");
    let max = row(&said, "max");
    assert!(max.contains("915 000     918 025      +3 025   median 0, higher in 2, lower in 0 of 5"), "{max}");
    // Of four the median lies between two, and is told by its half.
    let four = |run: &mut sample::Run| {
        let cell = &mut run.results.cells[0];
        cell.trials.pop();
        let one = cell.trials[0].clone();
        cell.trials = (1..=4).map(|n| tardy_model::result::TrialResult { n, ..one.clone() }).collect();
    };
    let b = exact("bb", |run| {
        four(run);
        for (n, metric) in of_trials(run).enumerate() {
            metric.figures.max_ns = Some(915_000 + [812, 1_403, 1_402, 9_999][n]);
        }
    });
    let max = row(&text(&compared(&exact("aa", four), &b)), "max");
    assert!(max.contains("median +1 402.5, higher in 4, lower in 0 of 4"), "{max}");
}
