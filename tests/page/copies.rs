// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies on the page: which thread copied when and on which CPU, how many did at once, and
//! bandwidth over the sizes of a buffer.

use crate::browser::{Browser, can_browse};
use crate::look::{PLOTS, Run, kinds, look, place, said};

const HEAD: &str = "name = \"copies\"\nkind = \"copy\"\ntrials = 2\n[copy]\nbackend = \"sim\"\n";

/// What the readout says at shares of the picture's width and height.
fn said_at(browser: &mut Browser, kind: &str, (across, down): (f64, f64)) -> String {
    let n = kinds(browser).iter().position(|other| other == kind).unwrap_or_else(|| panic!("no picture {kind}"));
    place(browser, n);
    let at = browser.eval(&format!(
        "(() => {{ const box = {PLOTS}[{n}].querySelector('.u-over').getBoundingClientRect(); \
         return [box.x + box.width * {across}, box.y + box.height * {down}]; }})()"
    ));
    let of = |i: usize| at[i].as_f64().expect("a place");
    browser.mouse("mouseMoved", (of(0), of(1)));
    said(browser, n)
}

#[test]
fn who_copied_when_and_how_many_at_once_are_read_off_the_pictures() {
    if !can_browse("who_copied_when_and_how_many_at_once_are_read_off_the_pictures") {
        return;
    }
    // The second begins when the first is done.
    let run = Run::of_file(&format!("{HEAD}threads = 2\niterations = 200\n[copy.sim]\noverlap = 0.0\n"));
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    let seen = look(&mut browser);
    for kind in ["threads", "at-once"] {
        assert!(seen.iter().any(|(of, lit, _)| of == kind && *lit > 1_000), "{kind} is dark: {seen:?}");
    }
    // In the first quarter, which is of trial 1, thread 0 copies and thread 1 waits.
    let wanted = [
        ((0.1, 0.2), ["trial 1", "thread 0: CPU 0", "in a pass for 100"]),
        ((0.1, 0.8), ["trial 1", "thread 1", "in no pass"]),
        ((0.4, 0.2), ["trial 1", "thread 0", "in no pass"]),
        ((0.4, 0.8), ["trial 1", "thread 1: CPU 1", "in a pass for 100"]),
    ];
    for (at, parts) in wanted {
        let says = said_at(&mut browser, "threads", at);
        assert!(parts.iter().all(|part| says.contains(part)), "at {at:?}: {says}");
    }
    let says = said_at(&mut browser, "at-once", (0.1, 0.5));
    assert!(says.contains("1 threads had a CPU, 1 were in a pass"), "{says}");
    browser.close();
}

#[test]
fn bandwidth_over_sizes_shows_where_it_falls() {
    if !can_browse("bandwidth_over_sizes_shows_where_it_falls") {
        return;
    }
    let sizes = "[matrix]\n\"copy.bytes\" = [\"256KiB\", \"512KiB\", \"1MiB\", \"2MiB\", \"4MiB\"]";
    let run = Run::of_file(&format!("{HEAD}iterations = 50\n[copy.sim]\nbeyond = {}\n{sizes}\n", 1 << 20));
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    assert!(look(&mut browser).iter().any(|(of, lit, _)| of == "sizes" && *lit > 200), "it is dark");
    let [small, large] = [(0.02, 0.5), (0.98, 0.5)].map(|at| said_at(&mut browser, "sizes", at));
    let mbit_s = |says: &str| {
        let (_, rest) = says.split_once(" bytes: ").expect("a size");
        let digits: String = rest.chars().take_while(|of| !of.is_alphabetic()).filter(char::is_ascii_digit).collect();
        digits.parse::<f64>().expect("a bandwidth")
    };
    assert!(small.starts_with("262") && large.starts_with("4"), "{small} / {large}");
    assert!((mbit_s(&small) / mbit_s(&large) - 2.0).abs() < 0.05, "{small} / {large}");
    browser.close();
}

#[test]
fn a_page_of_passes_counted_packets() {
    if !can_browse("a_page_of_passes_counted_packets") {
        return;
    }
    let run = Run::of_file(&format!("{HEAD}threads = 2\niterations = 15_000\n"));
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    look(&mut browser);
    let text = browser.eval("document.querySelector('main').innerText");
    let text = text.as_str().expect("a text");
    let (figures, _) = text.split_once("What made these figures").expect("its last section");
    let of: Vec<&str> = figures.lines().filter(|line| line.contains("packet")).collect();
    assert!(of.is_empty(), "{of:#?}");
    assert!(figures.contains("at pass") && figures.contains("passes lie in time"), "{figures}");
    browser.close();
}
