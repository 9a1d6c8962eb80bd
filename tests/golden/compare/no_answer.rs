// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions that have no answer: what lets none of them pass, and what the messages say.

use super::conditions::{LEAD, decision, exact, higher, invalid, judged, of_trials, one};
use super::sample;
use tardy_model::comparison::Decision;

#[test]
fn too_few_phases_did_not_say_how_many_and_a_verdict_took_two_lines() {
    let drawn = |trials: u32| {
        let b = exact("bb", trials, higher(trials as usize));
        let compared = super::compared(&exact("aa", trials, |_| ()), &b);
        tardy_report::compare::text(&compared, &tardy_report::Options::default())
    };
    let few = drawn(12);
    assert!(few.contains("  12↑ 0↓  too few: 12 of 20\n"), "{few}");
    let flat = few.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = "N of 20 means that N phases have this figure in both runs; a claim needs 20, so give both more trials,";
    assert_eq!(flat.matches(says).count(), 1, "{few}");
    let enough = drawn(25);
    assert!(enough.contains("  25↑ 0↓  B higher\n") && !enough.contains("too few"), "{enough}");
    for text in [few, enough] {
        assert!(text.lines().all(|line| line.chars().count() <= 100 && !line.contains('\u{a0}')), "{text}");
    }
}

#[test]
fn what_is_missing_never_lets_a_condition_pass() {
    const CONDITION: &str = "scheduled..rx_kernel p50 > +2%";
    let a = exact("aa", 25, |_| ());
    // Ten phases of 25 are beyond the limit: eighteen would count.
    assert_eq!(decision(&a, &exact("bb", 25, higher(10)), CONDITION), Decision::NotMet);
    // One that is missing might be beyond it, and the estimate is within it all the same.
    let without = |n: usize| {
        move |run: &mut sample::Run| {
            higher(10)(run);
            run.results.cells[0].trials.drain(25 - n..);
        }
    };
    assert_eq!(decision(&a, &exact("bb", 25, without(1)), CONDITION), Decision::NotMet);
    // With three more it would be beyond.
    assert_eq!(decision(&a, &exact("bb", 25, without(3)), CONDITION), Decision::NoData);
    // Trials that are not valid are missing as well. Fourteen that are, and five that might be,
    // are more than the eighteen.
    let spoilt = exact("bb", 25, |run| {
        higher(14)(run);
        run.results.cells[0].trials[20..].iter_mut().for_each(|trial| trial.valid = false);
    });
    let result = one(&a, &spoilt, CONDITION);
    assert_eq!(result.decision, Decision::NoData, "{}", result.says);
    assert!(result.says.ends_with("in 14 of 20 phases; 5 more are not known, and might be"), "{}", result.says);
    // Fewer than twenty are no ground, whether they were lost or never measured; the one is a
    // fault, the other a wish.
    let lost = one(&a, &exact("bb", 25, without(6)), CONDITION);
    assert_eq!(
        (lost.decision, lost.says.as_str()),
        (Decision::NoData, "19 phases of 25 can be set side by side, and 20 are needed")
    );
    let few = one(&exact("aa", 5, |_| ()), &exact("bb", 5, higher(5)), CONDITION);
    assert_eq!(
        (few.decision, few.says.as_str()),
        (
            Decision::Undecided,
            "5 phases of 5 can be set side by side, and 20 are needed: run both again with --trials 20"
        )
    );
    // Packets that never arrived are later than any.
    let gone = exact("bb", 25, |run| {
        of_trials(run).for_each(|metric| {
            metric.figures.quantiles.p50_ns = None;
            metric.infinite = vec!["p50".into()];
        });
    });
    let result = one(&a, &gone, CONDITION);
    assert_eq!(result.decision, Decision::Met);
    assert!(
        result.says.starts_with("B is higher: B's figure is that of a packet that never arrived"),
        "{}",
        result.says
    );
    // A cell that is not valid, a figure that is not resolved, a metric, a stream or a cell that
    // B lost.
    type Change = fn(&mut sample::Run);
    let spoils: [(Change, &str); 7] = [
        (|run| run.results.cells[0].valid = false, "B is not valid"),
        (
            |run| {
                let cell = &mut run.results.cells[0];
                (cell.valid, cell.not_available) = (false, Some("no netdevsim".to_owned()));
            },
            "B is not available",
        ),
        (|run| run.results.verdicts.push(invalid()), "B is not valid"),
        (
            |run| of_trials(run).for_each(|metric| metric.figures.quantiles.p50_ns = None),
            "0 phases of 25 can be set side by side (not resolved in single trials; it needs 20 packets or more in each), and 20 are \
             needed",
        ),
        (
            |run| {
                let stream = run.results.cells[0].streams.get_mut("ctl").expect("the stream");
                stream.metrics.remove(LEAD);
            },
            "B has no such metric",
        ),
        (|run| _ = run.results.cells[0].streams.remove("ctl"), "B has no such metric"),
        (|run| run.results.cells.clear(), "B has no such cell; it has: none"),
    ];
    for (spoil, says) in spoils {
        let result = one(&a, &exact("bb", 25, spoil), CONDITION);
        assert_eq!((result.decision, result.says.as_str()), (Decision::NoData, says));
    }
    // Another point.
    let other = exact("bb", 25, |run| {
        let stream = run.results.cells[0].streams.get_mut("ctl").expect("the stream");
        stream.rx_kernel_at = Some("local-delivery".into());
    });
    let result = one(&a, &other, CONDITION);
    assert_eq!(result.decision, Decision::NoData);
    assert!(result.says.contains("rx_kernel is taken at"), "{}", result.says);
    // Neither has it: that is not the same as no difference.
    let result = one(&a, &exact("bb", 25, |_| ()), "scheduled..tx_hw p50 > +2%");
    assert_eq!((result.decision, result.cell), (Decision::NoData, None));
    assert!(result.says.contains("neither A nor B has `scheduled..tx_hw`; there are: delta, "), "{}", result.says);
}

/// It passed, and the job said that B is not slower.
#[test]
fn an_estimate_beyond_the_limit_with_too_few_phases_for_a_claim_does_not_pass() {
    let a = exact("aa", 20, |_| ());
    for n in [11, 14] {
        let result = one(&a, &exact("bb", 20, higher(n)), "scheduled..rx_kernel p50 > +2%");
        assert_eq!((result.decision, result.beyond), (Decision::Undecided, Some(n as u32)), "{}", result.says);
        let says = format!(
            "B is higher by 1000 ns (7.14 %), beyond the limit in {n} of 20 phases; the median phase is beyond it too, and a claim \
             needs 15: more trials may decide"
        );
        assert_eq!(result.says, says);
    }
    // Half of the phases: the estimate is the mean of two, 500 ns.
    let half = exact("bb", 20, higher(10));
    for (condition, wanted) in [
        ("scheduled..rx_kernel p50 > +499ns", Decision::Undecided),
        ("scheduled..rx_kernel p50 > +500ns", Decision::NotMet),
        ("scheduled..rx_kernel p50 > +3.6%", Decision::NotMet),
        ("scheduled..rx_kernel p50 > +3.5%", Decision::Undecided),
    ] {
        assert_eq!(decision(&a, &half, condition), wanted, "{condition}");
    }
    assert_eq!(decision(&half, &a, "scheduled..rx_kernel p50 < -499ns"), Decision::Undecided);
    // Half never arrived: between them lies nothing.
    let gone = |odd: usize| {
        move |run: &mut sample::Run| {
            for (_, metric) in of_trials(run).enumerate().filter(|(i, _)| i % 2 == odd) {
                metric.figures.quantiles.p50_ns = None;
                metric.infinite = vec!["p50".into()];
            }
        }
    };
    let result = one(&exact("aa", 20, gone(0)), &exact("bb", 20, gone(1)), "scheduled..rx_kernel p50 > +2%");
    assert_eq!(result.decision, Decision::Undecided, "{}", result.says);
}

/// Nothing said that cells go together by their ids, nor which the other run has.
#[test]
fn a_cell_that_the_other_run_lacks_is_reported_with_those_that_it_has() {
    let a = exact("aa", 20, |_| ());
    let other = exact("bb", 20, |run| run.results.cells[0].id = "all".to_owned());
    let compared = judged(&a, &other, &["scheduled..rx_kernel p50 > +2%"]).expect("a comparison");
    let says: Vec<&str> = compared.conditions.iter().map(|result| result.says.as_str()).collect();
    assert_eq!(says, ["B has no such cell; it has: all", "A has no such cell; it has: rx.wait=block"]);
}

#[test]
fn a_condition_with_an_equals_sign_or_on_late_was_refused_for_another_reason() {
    let refused = |text: &str| tardy_analyze::compare::condition::parse(text).expect_err("it is wrong").to_string();
    let says = refused("scheduled..receive p50 >= +2%");
    assert!(says.contains("write `>`: a condition is met beyond the limit, not at it"), "{says}");
    let says = refused("scheduled..receive p50 <= -2%");
    assert!(says.contains("write `<`: a condition is met beyond the limit, not at it"), "{says}");
    let says = refused("scheduled..receive p50 > 2%");
    assert!(says.contains("after `>`, write by how much B is greater, with its sign, as +2%"), "{says}");
    let says = refused("late > +0");
    assert!(says.contains("`late` depends on a clock: limit it within one run, in `[expect.STREAM]`"), "{says}");
}
