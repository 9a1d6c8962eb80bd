// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a message proposes is what its reader most likely meant, or the list of all that there is.
//! Each test is named after a proposal that was neither.

use super::{HEAD, source, try_load};
use tardy_spec::load;

fn lines(body: &str, set: &[&str]) -> Vec<String> {
    try_load(body, set).expect_err(body).lines()
}

fn lines_of(file: &str) -> Vec<String> {
    load(&source(file), &[]).expect_err(file).lines()
}

#[test]
fn a_share_was_taken_for_hours() {
    assert_eq!(
        lines("deadline = \"10%\"\n", &[]),
        ["x.toml:6:12: `stream.ctl.deadline`: \"10%\": `%` is not a unit (units: ns, us, ms, s, min, h)"]
    );
    // A slip of a letter is still understood.
    assert!(lines("deadline = \"10mz\"\n", &[])[0].contains("did you mean \"10m"));
}

#[test]
fn a_number_without_a_unit_got_one_that_nobody_meant() {
    for (set, says) in [
        ("stream.ctl.duration=10", "needs a unit (add one, in quotes: ns, us, ms, s, min, h)"),
        ("stream.ctl.duration=\"10\"", "has no unit (add one: ns, us, ms, s, min, h)"),
        ("stream.ctl.cycle=1", "needs a unit (add one, in quotes: ns, us, ms, s, min, h, or Hz, kHz, MHz)"),
        ("stream.ctl.timeout=0", "needs a unit (add one, in quotes: ns, us, ms, s, min, h)"),
    ] {
        let said = lines("", &[set]);
        assert!(said.len() == 1 && said[0].contains(says), "{set}: {said:?}");
    }
}

#[test]
fn what_stood_below_a_name_that_is_not_there_came_only_after_it() {
    let said = lines("[expect.ctrl]\nloss = 0\n\"scheduled..receive\" = \"p98 < 1us\"\n", &[]);
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[0].contains("there is no stream `ctrl` (did you mean `ctl`?)"), "{said:?}");
    assert!(said[1].contains("`loss` is none of") && said[1].contains("`lost`"), "{said:?}");
    assert!(said[2].contains("`p98` is not a figure"), "{said:?}");
    // Also in one `--set`.
    let said = lines("", &["stream.clt.cycel=1ms"]);
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("no stream `clt`") && said[1].contains("did you mean `cycle`?"), "{said:?}");
    // What is right below it is not called wrong, and nothing is concluded from it.
    assert_eq!(lines("[expect.ctrl]\nlost = 0\ndelta = \"max < 1s\"\n", &[]).len(), 1);
    assert_eq!(lines("", &["stream.clt.cycle=1ms"]).len(), 1);
    // A part of a name with a dot is no name.
    assert!(lines("[stream.\"a.b\"]\nfrom = \"a\"\nto = \"b\"\n[expect.a.b]\nlots = 0\n", &[]).len() <= 2);
}

#[test]
fn a_quantity_without_quotes_was_called_a_wrong_number_and_cut_in_two() {
    assert_eq!(
        lines("cycle = 1.5ms\n", &[]),
        [
            "x.toml:6:12: this is not TOML: invalid float, expected nothing (put text and quantities in quotes: write \"1.5ms\")"
        ]
    );
    assert_eq!(
        lines("cycle = 1_000us\n", &[]),
        ["x.toml:6:9: `1000us` is no number and has no quotes (put text and quantities in quotes: write \"1000us\")"]
    );
    // What else is wrong is reported all the same.
    let said = lines("cycle = 1.5ms\ncycel = 1\n", &[]);
    assert!(said.len() == 3 && said[1].contains("`stream.ctl.cycel`"), "{said:?}");
    assert!(lines("count = 99999999999999999999\n", &[])[0].contains("is not a number of 64 bits"));
}

#[test]
fn of_two_stations_one_was_hidden_and_the_other_was_guessed() {
    let file = |to: &str| {
        lines_of(&format!("[station.left]\n[station.right]\n[stream.ctl]\nfrom = \"left\"\nto = \"{to}\"\n"))
    };
    assert_eq!(file("middle"), ["x.toml:5:6: `stream.ctl.to`: there is no station `middle` (known here: left, right)"]);
    assert!(file("rigth")[0].contains("did you mean `right`?"));
    let short = HEAD.replace("to = \"b\"", "to = \"c\"");
    assert_eq!(lines_of(&short), ["x.toml:5:6: `stream.ctl.to`: there is no station `c` (known here: a, b)"]);
}

#[test]
fn what_tardy_cannot_do_got_a_list_of_keys() {
    for (set, says) in [
        ("stream.ctl.dscp=46", "tardy does not set it"),
        ("stream.ctl.tos=184", "`pcp` with `vlan`"),
        ("path.delay=1ms", "tardy adds no delay, loss or limit to a path"),
        ("path.netem=1", "port = \"sim\" has"),
        ("stream.ctl.jitter=1ms", "tardy adds no delay"),
    ] {
        let said = lines("", &[set]);
        assert!(said.len() == 1 && said[0].contains(says) && !said[0].contains("known here"), "{set}: {said:?}");
    }
}
