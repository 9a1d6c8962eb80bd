// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page layer: the page of a run as a reader has it, in a headless browser. Here: what each
//! picture shows, and that the page is alone.

mod axes;
mod browser;
mod copies;
mod large;
mod look;
mod timed;

use browser::{Browser, can_browse};
use look::{PLOTS, Run, choose, look, place, strings};
use serde_json::Value;
use std::collections::BTreeMap;

#[test]
fn every_plot_is_lit_and_differs_between_two_runs() {
    if !can_browse("every_plot_is_lit_and_differs_between_two_runs") {
        return;
    }
    let mut browser = Browser::watching(1280);
    let (one, other) = (Run::usual(), Run::other());
    browser.open(&one.page());
    let first = look(&mut browser);
    browser.open(&other.page());
    let second = look(&mut browser);
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    first.iter().for_each(|(kind, ..)| *kinds.entry(kind).or_default() += 1);
    let wanted =
        [("ccdf", 2), ("cells", 1), ("cells-ccdf", 1), ("histogram", 2), ("stages", 2), ("time", 2), ("trials", 2)];
    assert_eq!(kinds, BTreeMap::from(wanted));
    assert_eq!(second.len(), first.len());
    for ((kind, lit, sum), (_, other_lit, other_sum)) in first.iter().zip(&second) {
        assert!(*lit > 200 && *other_lit > 200, "{kind}: {lit} and {other_lit} coloured pixels");
        assert_ne!(sum, other_sum, "{kind} is the same for two runs");
    }
    // Drawn again, it is the same picture.
    browser.open(&one.page());
    assert_eq!(look(&mut browser), first);
    // Axes, words and limits are no data: without its lines, a plot of lines is dark.
    browser.eval("document.querySelectorAll('.legend button').forEach((button) => button.click())");
    let dark: Vec<bool> = look(&mut browser).iter().map(|(_, lit, _)| *lit == 0).collect();
    let lines: Vec<bool> = first.iter().map(|(kind, ..)| kind == "cells-ccdf").collect();
    assert_eq!(dark, lines, "only the plot whose lines are all switched off has no data");
    browser.close();
}

#[test]
fn the_table_of_figures_was_cut_off_at_1280_px() {
    if !can_browse("the_table_of_figures_was_cut_off_at_1280_px") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    // As it is between two hosts: with the longest name of a row, and the column of the bounds.
    let cut = "[...document.querySelectorAll('.cell > .box')].filter((box) => {
        for (const row of box.querySelectorAll('tr')) row.lastElementChild.before(row.lastElementChild.previousElementSibling.cloneNode(true));
        box.querySelector('tbody th').textContent = 'reply_tx_kernel..reply_rx_kernel above its minimum';
        return box.scrollWidth > box.clientWidth;
    }).map((box) => box.textContent)";
    assert_eq!(strings(&browser.eval(cut)), [""; 0]);
    browser.close();
}

#[test]
fn every_metric_can_be_chosen() {
    if !can_browse("every_metric_can_be_chosen") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    let metrics = browser.eval("[...document.querySelectorAll('input[name=metric]')].map((radio) => radio.value)");
    let metrics = strings(&metrics);
    assert!(metrics.len() >= 5 && metrics.contains(&"delta".to_owned()), "{metrics:?}");
    let mut seen: Vec<u64> = Vec::new();
    for metric in &metrics {
        choose(&mut browser, metric);
        for (kind, lit, sum) in look(&mut browser).into_iter().filter(|(kind, ..)| kind != "stages") {
            assert!(lit > 200, "{kind} of {metric}: {lit} coloured pixels");
            assert!(!seen.contains(&sum), "{kind} of {metric} is like another");
            seen.push(sum);
        }
        let told = browser.eval("[...document.querySelectorAll('.metric')].every((span) => span.textContent.startsWith(document.querySelector('input[name=metric]:checked').value))");
        assert_eq!(told, Value::Bool(true), "every picture of {metric} says so");
    }
    browser.close();
}

#[test]
fn one_value_is_one_bar() {
    if !can_browse("one_value_is_one_bar") {
        return;
    }
    let run = Run::of(1, 2_000, "delay = \"40us\"", "");
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    for metric in ["scheduled..rx_kernel", "delta"] {
        choose(&mut browser, metric);
        let plots = look(&mut browser);
        let n = plots.iter().position(|(kind, ..)| kind == "histogram").expect("a histogram");
        place(&mut browser, n);
        // Every pixel's readout, as the cursor goes through the plot.
        let bars = browser.eval(&format!(
            "(async () => {{ const figure = {PLOTS}[{n}]; const over = figure.querySelector('.u-over'); \
             const box = over.getBoundingClientRect(); const bars = new Set(); \
             for (let x = 1; x < box.width; x += 2) {{ \
             over.dispatchEvent(new MouseEvent('mousemove', {{ clientX: box.x + x, clientY: box.y + 50, bubbles: true }})); \
             await new Promise((done) => requestAnimationFrame(done)); \
             const text = figure.querySelector('output').textContent; if (!text.includes(': 0 packets')) bars.add(text); }} \
             return [...bars]; }})()"
        ));
        let bars = bars.as_array().expect("a list of readouts");
        let whole = if metric == "delta" { "1\u{202f}999 packets" } else { "2\u{202f}000 packets" };
        assert!(bars.len() == 1 && bars[0].as_str().is_some_and(|text| text.contains(whole)), "{metric}: {bars:?}");
    }
    browser.close();
}

#[test]
fn page_asks_nobody_and_could_not() {
    if !can_browse("page_asks_nobody_and_could_not") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    look(&mut browser);
    browser.look_back();
    // Were there a request in it, the browser would refuse it: nothing listens on port 9, and
    // nothing is asked.
    let refused = browser.eval(
        "(async () => { const seen = () => new Promise((done) => addEventListener('securitypolicyviolation', (e) => done(e.effectiveDirective), { once: true })); \
         const image = seen(); new Image().src = 'http://127.0.0.1:9/x.png'; const first = await image; \
         const connection = seen(); \
         const fetched = await fetch('http://127.0.0.1:9/').then(() => 'fetched', () => 'refused'); \
         return [first, await connection, fetched]; })()",
    );
    assert_eq!(refused.to_string(), "[\"img-src\",\"connect-src\",\"refused\"]");
    let complaints = browser.provoked();
    let by_policy = |text: &String| text.contains("Content Security Policy");
    assert!(complaints.len() >= 2 && complaints.iter().all(by_policy), "{complaints:?}");
    browser.close();
}

#[test]
fn page_of_a_folder_is_the_page_of_the_run() {
    let run = Run::usual();
    let data = |page: &str| {
        let (_, rest) = page.split_once("id=\"run\">").expect("the data");
        rest.split_once("</script>").expect("an end").0.to_owned()
    };
    let written = std::fs::read_to_string(run.page()).expect("the page is there");
    assert_eq!(data(&written), data(&run.drawn_again()));
}
