// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a hand does to a plot: hover, drag, wheel, keys.

use crate::browser::{Browser, can_browse};
use crate::look::Run;
use crate::look::{PLOTS, cursor, kinds, look, place, said, view};

#[test]
fn hovering_reads_out_value_percentile_and_packet() {
    if !can_browse("hovering_reads_out_value_percentile_and_packet") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    let plots = look(&mut browser);
    for (n, (kind, ..)) in plots.iter().enumerate() {
        let idle = said(&mut browser, n);
        let ((x, y), half) = place(&mut browser, n);
        browser.mouse("mouseMoved", (x - half * 0.5, y));
        let left = said(&mut browser, n);
        browser.mouse("mouseMoved", (x - half * 0.6, y + 20.0));
        let further = said(&mut browser, n);
        assert!(left != idle, "{kind}: {idle:?} while hovering");
        let words: &[&str] = match kind.as_str() {
            "histogram" => &["packets", "at or below", "µs"],
            "ccdf" | "cells-ccdf" => &["at or below", "µs"],
            "time" => &["trial 1", "packets 2", "min", "p50", "max", "at packet #"],
            "trials" => &["trial 1: p50", "max", "at or below"],
            "cells" => &["loss = ", "p50", "max"],
            "stages" => &["..", "mean", "p50", "p99", "max", "µs"],
            other => panic!("{other} is not looked at here"),
        };
        let text =
            if ["trials", "cells", "stages"].contains(&kind.as_str()) { left.clone() + &further } else { left.clone() };
        assert!(words.iter().all(|word| text.contains(word)), "{kind}: {text:?}");
        assert!(kind == "stages" || left != further, "{kind} says {left:?} in two places");
    }
    browser.close();
}

#[test]
fn drag_wheel_and_keys_zoom_and_reset_restores() {
    if !can_browse("drag_wheel_and_keys_zoom_and_reset_restores") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    for (n, (kind, ..)) in look(&mut browser).iter().enumerate() {
        let whole = view(&mut browser, n);
        let within =
            |view: (f64, f64)| view.0 >= whole.0 && view.1 <= whole.1 && (view.0 > whole.0 || view.1 < whole.1);
        let (middle, half) = place(&mut browser, n);
        browser.mouse("mousePressed", (middle.0 - half * 0.4, middle.1));
        browser.mouse("mouseMoved", (middle.0, middle.1));
        browser.mouse("mouseMoved", (middle.0 + half * 0.4, middle.1));
        browser.mouse("mouseReleased", (middle.0 + half * 0.4, middle.1));
        let dragged = view(&mut browser, n);
        assert!(within(dragged), "{kind}: dragged from {whole:?} to {dragged:?}");
        // The press gave it the focus, so keys and wheel are its own.
        browser.press("+");
        let closer = view(&mut browser, n);
        assert!(closer.1 - closer.0 < dragged.1 - dragged.0, "{kind}: + from {dragged:?} to {closer:?}");
        browser.press("-");
        let back = view(&mut browser, n);
        assert!(back.1 - back.0 > closer.1 - closer.0, "{kind}: - from {closer:?} to {back:?}");
        browser.press("0");
        assert_eq!(view(&mut browser, n), whole, "{kind}: 0 shows all");
        browser.mouse("mouseWheel", middle);
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !within(view(&mut browser, n)) {
            assert!(std::time::Instant::now() < end, "{kind}: the wheel does nothing");
        }
        browser.press("Escape");
        assert_eq!(view(&mut browser, n), whole, "{kind}: Escape shows all");
        let before = said(&mut browser, n);
        for _ in 0..12 {
            browser.press("ArrowRight");
        }
        browser.press("ArrowDown");
        assert_ne!(said(&mut browser, n), before, "{kind}: arrows move the cursor");
    }
    browser.close();
}

#[test]
fn keyboard_reaches_every_plot_and_control() {
    if !can_browse("keyboard_reaches_every_plot_and_control") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    let plots = look(&mut browser).len();
    browser.eval("document.body.focus(), scrollTo(0, 0), document.activeElement.blur()");
    let mut reached: Vec<String> = Vec::new();
    for _ in 0..plots * 3 + 80 {
        browser.press("Tab");
        let at = browser.eval(&format!(
            "(() => {{ const at = document.activeElement; const figure = at.closest('figure'); \
             if (at === document.body) return 'the end'; const ring = getComputedStyle(at).outlineStyle !== 'none' || at.matches('input'); \
             return !ring ? 'no ring on ' + at.outerHTML.slice(0, 80) : at.matches('.plot') ? 'plot ' + {PLOTS}.indexOf(figure) : at.id || at.name || at.tagName; }})()"
        ));
        let at = at.as_str().unwrap_or("").to_owned();
        assert!(!at.starts_with("no ring"), "{at}");
        reached.push(at);
    }
    for n in 0..plots {
        assert!(reached.contains(&format!("plot {n}")), "plot {n} of {plots} is not reached: {reached:?}");
    }
    for control in ["theme", "metric", "SUMMARY"] {
        assert!(reached.iter().any(|at| at == control), "{control}: {reached:?}");
    }
    browser.close();
}

#[test]
fn keys_do_what_the_manual_says() {
    if !can_browse("keys_do_what_the_manual_says") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    for (n, kind) in kinds(&mut browser).iter().enumerate() {
        let (_, half) = place(&mut browser, n);
        browser.eval(&format!("{PLOTS}[{n}].querySelector('.plot').focus({{ preventScroll: true }})"));
        let at = |browser: &mut Browser, key: &str| {
            browser.press(key);
            cursor(browser, n)
        };
        let whole = view(&mut browser, n);
        let home = at(&mut browser, "Home");
        let step = at(&mut browser, "ArrowRight") - home;
        browser.press_shift("ArrowRight");
        let leap = cursor(&mut browser, n) - home - step;
        assert!(home.abs() < 1.0 && step > 0.0 && leap > 4.0 * step, "{kind}: {home}, then {step}, with Shift {leap}");
        let end = at(&mut browser, "End");
        assert!((end - 2.0 * half).abs() < 3.0, "{kind}: End is at {end} of {}", 2.0 * half);
        assert!(at(&mut browser, "ArrowLeft") < end, "{kind}: to the left");
        // Rows of a plot that has rows; both ways, and back to where it was.
        if ["trials", "cells", "stages"].contains(&kind.as_str()) {
            let first = said(&mut browser, n);
            browser.press("ArrowDown");
            let second = said(&mut browser, n);
            browser.press("ArrowUp");
            assert!(first != second && said(&mut browser, n) == first, "{kind}: {first:?} and {second:?}");
        }
        // About the cursor: at the left end, that end stays.
        browser.press("Home");
        browser.press("+");
        let closer = view(&mut browser, n);
        let span = whole.1 - whole.0;
        assert!((closer.0 - whole.0).abs() < span * 1e-6 && closer.1 < whole.1, "{kind}: {whole:?}, then {closer:?}");
        // The readout is of what is under the cursor now.
        browser.press("End");
        let near = said(&mut browser, n);
        browser.press("Escape");
        assert_eq!(view(&mut browser, n), whole, "{kind}: Escape restores");
        let far = said(&mut browser, n);
        assert!(near != far || kind == "stages", "{kind}: still says {near:?}");
        browser.press("=");
        browser.press("-");
        browser.press("0");
        assert_eq!(view(&mut browser, n), whole, "{kind}: 0 restores");
        // A button for those who have no keys: there while it is of use, and it gives the focus
        // back.
        browser.press("+");
        let button = format!("{PLOTS}[{n}].querySelector('.reset')");
        let shown = format!("getComputedStyle({button}).display !== 'none'");
        assert_eq!(browser.eval(&shown), true, "{kind}: show all");
        browser.eval(&format!("{button}.click()"));
        assert_eq!((browser.eval(&shown), view(&mut browser, n)), (false.into(), whole), "{kind}: shows all");
        let focus = browser.eval(&format!("document.activeElement === {PLOTS}[{n}].querySelector('.plot')"));
        assert_eq!(focus, true, "{kind}: the focus is the plot's again");
        let (middle, _) = place(&mut browser, n);
        browser.press("+");
        for _ in 0..2 {
            for (kind, clicks) in [("mousePressed", 1), ("mouseReleased", 1), ("mousePressed", 2), ("mouseReleased", 2)]
            {
                browser.click(kind, middle, clicks);
            }
        }
        assert_eq!(view(&mut browser, n), whole, "{kind}: a double click restores");
    }
    browser.close();
}

#[test]
fn wheel_scrolls_the_page_until_a_plot_has_the_focus() {
    if !can_browse("wheel_scrolls_the_page_until_a_plot_has_the_focus") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    let n = kinds(&mut browser).iter().position(|kind| kind == "time").expect("a plot over time");
    let (middle, _) = place(&mut browser, n);
    let (whole, before) = (view(&mut browser, n), browser.eval("scrollY").as_f64().expect("a place"));
    browser.mouse("mouseWheel", middle);
    browser.until(&format!("scrollY < {before}"));
    assert_eq!(view(&mut browser, n), whole, "not zoomed");
    browser.close();
}
