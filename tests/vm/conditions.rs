// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy compare --fail-if` on exact runs, one of which sends larger packets.

use crate::command::{Finished, Place};
use crate::guest::{can_run, exact};

fn sending(size: &str) -> Place {
    let place = Place::new();
    let args =
        ["--trials", "20", "--set", "stream.ctl.count=200", "--set", &format!("stream.ctl.size={size}"), "--json"];
    let ran = place.call(&mut exact(&place, &args));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    place
}

#[test]
fn packets_that_take_longer_in_each_phase_fail_a_condition_and_a_run_beside_itself_does_not() {
    if !can_run("packets_that_take_longer_in_each_phase_fail_a_condition_and_a_run_beside_itself_does_not") {
        return;
    }
    let (small, large) = (sending("200B"), sending("1400B"));
    let compare = |a: &Place, b: &Place, more: &[&str]| -> Finished {
        small.call(small.command("compare").args([a.out(), b.out()]).args(more))
    };
    const SLOWER: [&str; 4] = ["--fail-if", "scheduled..receive p50 > +2%", "--fail-if", "lost > +0"];
    let met = compare(&small, &large, &SLOWER);
    assert_eq!(met.code, Some(1), "{}{}", met.stdout, met.stderr);
    let said = met.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("beyond the limit in 20 of 20 phases not met lost > +0"), "{said}");
    eprintln!("{}", said.split(" conditions ").last().unwrap_or_default());
    let itself = compare(&small, &small, &SLOWER);
    assert_eq!(itself.code, Some(0), "{}{}", itself.stdout, itself.stderr);
    // A limit that lies beyond all of them, and the other way.
    for condition in ["scheduled..receive p50 > +1ms", "scheduled..receive p50 < -0%"] {
        let not = compare(&small, &large, &["--fail-if", condition]);
        assert_eq!(not.code, Some(0), "{condition}: {}", not.stdout);
    }
    // 200 packets have no p99.9 in a trial: that is no pass.
    assert_eq!(compare(&small, &large, &["--fail-if", "scheduled..receive p99.9 > +2%"]).code, Some(4));
}
