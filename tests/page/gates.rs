// SPDX-License-Identifier: MIT OR Apache-2.0
//! The picture of gates: phases at which packets came to the driver, with the windows behind, a
//! row for each class.

use crate::browser::{Browser, can_browse};
use crate::look::{PLOTS, kinds, look, place, said};
use crate::runs::Run;

/// Class 1 is open from 200 to 300 and from 700 to 800 µs of each millisecond.
const TAPRIO: &str = "[shaper]\nkind = \"taprio\"\nclasses = 4\nmap = [3, 3, 3, 1, 3, 0, 3, 2, 3, 3, 3, 3, 3, 3, 3, 3]\n\
gate_cycle = \"1ms\"\n\
entries = [\"3 100us\", \"0 100us\", \"1 100us\", \"2 200us\", \"3 100us\", \"0 100us\", \"1 100us\", \"2 200us\"]\n";
const ETF: &str = "[shaper]\nkind = \"etf\"\netf.delta = \"200us\"\n";

fn run(stream: &str, shaper: &str) -> Run {
    let keys = format!(
        "cycle = \"500us\"\ncount = 2000\npriority = 3\nlaunch = \"strict\"\n{stream}\n[path]\nqueues = 4\n{shaper}"
    );
    Run::of_stream(1, &keys)
}

fn number(browser: &mut Browser) -> usize {
    kinds(browser).iter().position(|kind| kind == "gates").expect("a picture of gates")
}

/// What the readout says at a share of the width, and of the height from the top.
fn said_at(browser: &mut Browser, n: usize, across: f64, down: f64) -> String {
    let ((x, y), half) = place(browser, n);
    let tall = browser.eval(&format!("{PLOTS}[{n}].querySelector('.u-over').getBoundingClientRect().height"));
    let tall = tall.as_f64().expect("a height");
    browser.mouse("mouseMoved", (x + half * (2.0 * across - 1.0), y + tall * (down - 0.5)));
    said(browser, n)
}

#[test]
fn phases_stand_on_the_windows_of_their_class() {
    if !can_browse("phases_stand_on_the_windows_of_their_class") {
        return;
    }
    let early = run("sim = { wake = \"5us\" }", TAPRIO);
    let mut browser = Browser::watching(1280);
    browser.open(&early.page());
    let n = number(&mut browser);
    let (_, lit, sum) = look(&mut browser)[n].clone();
    assert!(lit > 50, "the phases are drawn: {lit} pixels");
    // Four rows, class 0 first: class 1's is the second.
    let closed = said_at(&mut browser, n, 0.05, 0.375);
    assert!(closed.contains("class 1") && closed.contains("gate closed") && closed.contains(" 0 packets"), "{closed}");
    let open = said_at(&mut browser, n, 0.25, 0.375);
    assert!(open.contains("class 1") && open.contains("gate open"), "{open}");
    let other = said_at(&mut browser, n, 0.05, 0.875);
    assert!(other.contains("class 3") && other.contains("gate open"), "{other}");
    // All packets together are those that were sent.
    let counts = browser.eval(
        "(() => { const cell = JSON.parse(document.getElementById('run').textContent).cells[0]; return cell.gates.rows.flatMap((row) => row.counts ?? []).reduce((a, b) => a + b, 0); })()"
    );
    assert_eq!(counts, 2_000.0);

    // Later in the window it is another picture; so is the dark one.
    let late = run("sim = { wake = \"40us\" }", TAPRIO);
    browser.open(&late.page());
    let second = look(&mut browser)[n].clone();
    assert!(second.1 > 50 && second.2 != sum, "{second:?} and {sum}");
    browser.prefer("dark");
    assert_ne!(look(&mut browser)[n].2, second.2, "follows the theme");
    for width in [390, 2560] {
        browser.resize(width);
        browser.open(&late.page());
        assert!(look(&mut browser)[n].1 > 20, "{width} px");
        assert_eq!(
            browser.eval("document.documentElement.scrollWidth"),
            width,
            "{width} px: nothing is wider than the window"
        );
    }
    browser.close();
}

#[test]
fn etf_alone_is_drawn_in_the_streams_own_cycle() {
    if !can_browse("etf_alone_is_drawn_in_the_streams_own_cycle") {
        return;
    }
    let held = run("tx = { advance = \"400us\" }\nsim = { wake = \"5us\", hold = \"20us\" }", ETF);
    let mut browser = Browser::watching(1280);
    browser.open(&held.page());
    let n = number(&mut browser);
    assert!(look(&mut browser)[n].1 > 10);
    let told = [0.02, 0.2, 0.4, 0.6, 0.8].map(|share| said_at(&mut browser, n, share, 0.5));
    assert!(told.iter().any(|text| text.contains("out of time")), "{told:?}");
    let axis = browser.eval(&format!("{PLOTS}[{n}].textContent"));
    assert!(!axis.as_str().unwrap_or("").contains("gate open"), "there are no gates: {axis}");
    browser.close();
}

#[test]
fn without_gates_there_is_no_such_picture() {
    if !can_browse("without_gates_there_is_no_such_picture") {
        return;
    }
    let run = Run::of(1, 1_000, "delay = \"40us\"", "");
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    assert!(!kinds(&mut browser).contains(&"gates".to_owned()));
    browser.close();
}
