// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions that have no answer: what lets none of them pass, and what the
//! messages say.

use super::conditions::{decision, exact, higher, judged, of_trials, one};
use super::sample;
use tardy_model::comparison::Decision;

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
