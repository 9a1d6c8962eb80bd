// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the table of two runs has in addition to the figures: one unit, and a reason wherever
//! something is missing.

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
    assert_eq!(table.matches(" ns").count(), 1, "its unit is printed once: {table}");
    assert!(!table.contains("µs") && !table.contains("ms "), "{table}");
    let max = row(&said, "max");
    assert!(max.contains("915 000     918 025      +3 025   median 0, higher in 2, lower in 0 of 5"), "{max}");
    // The median of four values lies between two of them, and is printed with its half.
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

#[test]
fn a_percentile_that_a_run_does_not_have_is_told_with_its_reason() {
    let pooled = |run: &mut sample::Run, change: fn(&mut MetricResult)| {
        let stream = run.results.cells[0].streams.get_mut("ctl").expect("the stream");
        change(stream.metrics.get_mut("scheduled..rx_kernel").expect("the metric"));
    };
    // Of too few packets; the files name them by their stem.
    let few = |metric: &mut MetricResult| {
        metric.figures.quantiles.p99_ns = None;
        metric.figures.quantiles.p99_9_ns = None;
        metric.unresolved = vec!["p99".into(), "p99_9".into(), "p99_99".into()];
    };
    let lost = |metric: &mut MetricResult| {
        metric.figures.quantiles.p99_9_ns = None;
        metric.infinite = vec!["p99.9".into()];
    };
    let noisy = |change: fn(&mut MetricResult)| side(|run, _| pooled(run, change));
    let said = text(&compared(&noisy(few), &noisy(lost)));
    assert!(row(&said, "p99").ends_with("–        23.3           –   not resolved in A"), "{said}");
    assert!(
        row(&said, "p99.9").ends_with("–           –           –   not resolved in A, falls on a lost packet in B")
    );
    assert!(row(&said, "p99.99").ends_with("not resolved in A and B"), "{said}");
    let back = text(&compared(&noisy(lost), &noisy(few)));
    assert!(row(&back, "p99").ends_with("not resolved in B"), "{back}");
    assert!(row(&said, "max").ends_with("not judged"), "{said}");
    // All trials together have what no single one has.
    let each = |run: &mut sample::Run| of_trials(run).for_each(few);
    let (a, b) = (exact("aa", each), exact("bb", each));
    let said = compared(&a, &b);
    let p99 = &said.cells[0].streams["ctl"].metrics["scheduled..rx_kernel"].figures[2];
    assert_eq!((p99.of.as_str(), p99.a_ns, &p99.phases), ("p99", Some(23_300), &None));
    assert!(row(&text(&said), "p99").ends_with("not resolved in single trials"), "{}", text(&said));
    assert!(row(&text(&said), "p50").ends_with("equal in all 5"), "{}", text(&said));
}

#[test]
fn figures_of_all_trials_are_told_from_those_of_single_ones() {
    let line =
        "A and B below are figures of all trials of a cell together; what stands behind them is of single trials";
    let two = |print: &str| {
        side(|run, _| {
            run.results.fingerprint = Some(print.into());
            run.results.cells.iter_mut().for_each(|cell| cell.fingerprint = Some(print.into()));
        })
    };
    let said = text(&compared(&two("aa"), &two("bb")));
    assert_eq!(said.matches(line).count(), 1, "once, for both cells: {said}");
    assert!(said.find(line) < said.find("rx.wait=block"), "above the first table: {said}");
    // Where nothing is of single trials there is nothing to tell apart.
    for (a, b) in [("aa", two("aa")), ("bb", side(|_, _| ()))] {
        let said = text(&compared(&two(a), &b));
        assert!(!said.contains(line), "{said}");
    }
}

#[test]
fn exact_runs_without_a_phase_in_common_say_so() {
    let says =
        "no valid trial has the same number and the same phase in both, so nothing is said of these differences\n";
    let unlike = |run: &mut sample::Run| {
        // No trial of the one run has the number of a trial of the other.
        run.results.cells[0].trials.iter_mut().for_each(|trial| trial.n += 10);
    };
    let compared = compared(&exact("aa", |_| ()), &exact("bb", unlike));
    assert_eq!((compared.identical, compared.cells[0].pairs), (Some(false), 0));
    let said = text(&compared);
    assert_eq!(said.matches(says).count(), 1, "{said}");
    assert!(said.contains("run both with the same ones") && !said.contains("by phase"), "{said}");
    assert!(row(&said, "p50").trim_end().ends_with('0'), "nothing follows the difference: {said}");
    // Trials that are not valid are another reason, for which no seed is to blame.
    let spoilt = |run: &mut sample::Run| {
        run.results.cells[0].valid = false;
        run.results.cells[0].trials.iter_mut().for_each(|trial| trial.valid = false);
    };
    let bad = text(&super::compared(&exact("aa", |_| ()), &exact("bb", spoilt)));
    assert!(bad.contains(says) && !bad.contains("run both with the same ones"), "{bad}");
    // Four trials without their like are no reason while there is a fifth.
    let but_one = |run: &mut sample::Run| {
        run.results.cells[0].trials.iter_mut().skip(1).for_each(|trial| trial.n += 10);
    };
    let said = text(&super::compared(&exact("aa", |_| ()), &exact("bb", but_one)));
    assert!(!said.contains(says) && said.contains("by phase, 1 of them"), "{said}");
    // Noisy runs are not looked at by phase.
    assert!(!text(&super::compared(&side(|_, _| ()), &side(|_, _| ()))).contains(says));
}
