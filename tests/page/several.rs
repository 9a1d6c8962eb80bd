// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures that stand cells and streams side by side: what has no value has no row, no curve and
//! no switch.

use crate::browser::{Browser, can_browse};
use crate::look::{PLOTS, choose, kinds, place, strings};
use crate::runs::Run;
use std::collections::BTreeSet;

const SIM: &str = "sim = { delay = \"40us\", jitter = \"20us\", wake = \"5us\" }";

/// The switches' texts, their colours, and the words in the picture of the rows.
fn shown(browser: &mut Browser) -> (Vec<String>, BTreeSet<String>, Vec<String>) {
    let kinds = kinds(browser);
    let number = |kind: &str| kinds.iter().position(|other| other == kind).expect("the picture");
    let (rows, curves) = (number("cells"), number("cells-ccdf"));
    place(browser, rows);
    let words = browser.eval(&format!("drawnOn({PLOTS}[{rows}]).words.map((word) => word.text)"));
    place(browser, curves);
    let buttons = format!("[...{PLOTS}[{curves}].querySelectorAll('.legend button')]");
    let titles = browser.eval(&format!("{buttons}.map((button) => button.textContent)"));
    let colours =
        browser.eval(&format!("{buttons}.map((button) => getComputedStyle(button, '::before').backgroundColor)"));
    (strings(&titles), strings(&colours).into_iter().collect(), strings(&words))
}

#[test]
fn what_has_no_value_has_no_row_no_switch_and_no_colour() {
    if !can_browse("what_has_no_value_has_no_row_no_switch_and_no_colour") {
        return;
    }
    // Twelve cells of two streams; `brake` comes before `ctl` by the alphabet, and has other
    // metrics.
    let sizes: Vec<String> = (1..=12).map(|n| format!("\"{}B\"", 64 * n)).collect();
    let brake = format!(
        "[stream.brake]\nfrom = \"a\"\nto = \"b\"\nport = \"sim\"\nreflect = true\ncycle = \"1ms\"\ncount = 200\n{SIM}"
    );
    let run = Run::of_stream(
        1,
        &format!(
            "cycle = \"100us\"\ncount = 2000\n{SIM}\n{brake}\n[matrix]\n\"stream.ctl.size\" = [{}]",
            sizes.join(", ")
        ),
    );
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    let chosen = browser.eval("document.querySelector('input[name=metric]:checked').value");
    assert_eq!(chosen, "scheduled..rx_kernel", "of the stream that the file names first");
    let mut all = |metric: &str, stream: &str| {
        choose(&mut browser, metric);
        let (titles, colours, words) = shown(&mut browser);
        assert_eq!(titles.len(), 12, "{metric}: {titles:?}");
        assert!(titles.iter().all(|title| title.ends_with(&format!(", {stream}"))), "{metric}: {titles:?}");
        assert_eq!(colours.len(), 12, "{metric}: a colour each: {colours:?}");
        for title in &titles {
            assert!(words.contains(title), "{metric}: {title} has no row: {words:?}");
        }
        assert!(!words.iter().any(|word| word.contains("no values")), "{metric}: {words:?}");
        titles
    };
    let ctl = all("scheduled..rx_kernel", "ctl");
    let brake = all("scheduled..reply_receive", "brake");
    assert_eq!(all("scheduled..rx_kernel", "ctl"), ctl);
    assert_ne!(ctl, brake);
    // What both have stands stream by stream, in the order of the file.
    choose(&mut browser, "scheduled..wakeup");
    let (titles, ..) = shown(&mut browser);
    assert_eq!(titles, [ctl, brake].concat());
    browser.close();
}
