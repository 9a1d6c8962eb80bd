// SPDX-License-Identifier: MIT OR Apache-2.0
//! Axes as they are drawn, on any screen: ticks with bare numbers, also inside a decade, and each
//! unit once. The tests judge what was put on the canvas, and where. And the page fits from a phone
//! to a wide screen, in light and dark.

use crate::browser::{Browser, can_browse};
use crate::look::Run;
use crate::look::{PLOTS, choose, kinds, look, place, said, view};
use serde_json::Value;

/// Of each plot, after it is shown: kind, what the caption says, words below and left of the axes'
/// room as `[text, left, right, middle, y]`, the room, the canvas's width.
fn axes(browser: &mut Browser, n: usize) -> Axes {
    place(browser, n);
    let found = browser.eval(&format!(
        "(() => {{ const figure = {PLOTS}[{n}]; const room = within(figure); const {{ words }} = drawnOn(figure); \
         return {{ kind: figure.dataset.kind, caption: figure.querySelector('.says').textContent, room, words, \
         whole: figure.querySelector('canvas').width }}; }})()"
    ));
    let px = |value: &Value| value.as_f64().expect("a place");
    let (left, top) = (px(&found["room"]["left"]), px(&found["room"]["top"]));
    let bottom = top + px(&found["room"]["height"]);
    let words = found["words"].as_array().expect("a list of words").iter().map(|word| Word {
        text: word["text"].as_str().unwrap_or("").to_owned(),
        left: px(&word["left"]),
        right: px(&word["right"]),
        middle: px(&word["middle"]),
        y: px(&word["y"]),
    });
    let words: Vec<Word> = words.filter(|word| !word.text.is_empty()).collect();
    let (below, rest): (Vec<Word>, Vec<Word>) = words.into_iter().partition(|word| word.y > bottom);
    let lowest = below.iter().map(|word| word.y).fold(bottom, f64::max);
    let (names, x) = below.into_iter().partition(|word| word.y > lowest - 1.0);
    Axes {
        kind: found["kind"].as_str().unwrap_or("").to_owned(),
        caption: found["caption"].as_str().unwrap_or("").to_owned(),
        whole: px(&found["whole"]),
        names,
        x,
        y: rest.into_iter().filter(|word| word.right <= left).collect(),
    }
}

struct Axes {
    kind: String,
    caption: String,
    whole: f64,
    /// The labels below the ticks of the x axis.
    names: Vec<Word>,
    x: Vec<Word>,
    y: Vec<Word>,
}

#[derive(Debug, Clone)]
struct Word {
    text: String,
    left: f64,
    right: f64,
    middle: f64,
    y: f64,
}

impl Word {
    /// A tick's number; digits in groups, thousands and millions of packets shortened.
    fn number(&self) -> Option<f64> {
        let bare: String = self.text.chars().filter(|c| *c != '\u{202f}').collect();
        let (digits, factor) = match bare.strip_suffix('k') {
            Some(digits) => (digits, 1e3),
            None => bare.strip_suffix('M').map_or((bare.as_str(), 1.0), |digits| (digits, 1e6)),
        };
        digits.parse::<f64>().ok().map(|number| number * factor)
    }
}

const UNITS: [&str; 5] = ["ns", "µs", "ms", "s", "%"];

/// The units that are words of their own in a text.
fn units(text: &str) -> Vec<&str> {
    text.split([' ', ',', '\u{202f}']).filter(|word| UNITS.contains(word)).collect()
}

/// Of the ticks along one axis, as (number, px): every decade that has room for a tick between its
/// ends has one. How many had.
fn decades(what: &str, ticks: &[(f64, f64)], room: f64) -> usize {
    let is_decade = |number: f64| number > 0.0 && (number.log10() - number.log10().round()).abs() < 1e-9;
    let mut roomy = 0;
    for (low, at) in ticks.iter().filter(|(number, _)| is_decade(*number)) {
        let Some((high, end)) = ticks.iter().find(|(number, _)| (number / low - 10.0).abs() < 1e-6) else { continue };
        if (end - at).abs() < room {
            continue;
        }
        roomy += 1;
        let inside: Vec<&(f64, f64)> = ticks.iter().filter(|(number, _)| number > low && number < high).collect();
        assert!(
            !inside.is_empty(),
            "{what}: nothing between {low} and {high}, {} px apart: {ticks:?}",
            (end - at).abs()
        );
        // And where a logarithm has it; an axis through zero is one only far from there.
        for (number, px) in inside.into_iter().filter(|_| ticks[0].0 > 0.0) {
            let expected = at + (end - at) * (number / low).log10();
            assert!((px - expected).abs() < 1.5, "{what}: {number} is at {px}, not at {expected}");
        }
    }
    roomy
}

fn numbers(what: &str, words: &[Word], px: impl Fn(&Word) -> f64) -> Vec<(f64, f64)> {
    let mut ticks: Vec<(f64, f64)> = words
        .iter()
        .map(|word| (word.number().unwrap_or_else(|| panic!("{what}: {:?} is no bare number", word.text)), px(word)))
        .collect();
    ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(ticks.windows(2).all(|pair| pair[0].0 < pair[1].0), "{what}: two ticks have one name: {ticks:?}");
    let onward = |way: f64| ticks.windows(2).all(|pair| (pair[1].1 - pair[0].1) * way > 0.0);
    assert!(onward(1.0) || onward(-1.0), "{what}: not in order: {ticks:?}");
    ticks
}

/// What holds of a plot's axes at any width and zoom; how many decades had room for ticks inside,
/// of x and of y.
fn judge(what: &str, metric: &str, axes: &Axes) -> (usize, usize) {
    let [name] = axes.names.as_slice() else { panic!("{what}: the x axis is named {:?}", axes.names) };
    assert_eq!(units(&name.text).len(), 1, "{what}: units in {:?}", name.text);
    match axes.kind.as_str() {
        "time" => assert!(name.text.starts_with("s, "), "{what}: {}", name.text),
        "stages" => assert!(UNITS.contains(&name.text.as_str()), "{what}: {}", name.text),
        _ => assert!(name.text.starts_with(&format!("{metric}, ")), "{what}: {}", name.text),
    }
    let x = numbers(what, &axes.x, |word| word.middle);
    assert!(x.len() >= 2, "{what}: ticks of x: {x:?}");
    let mut along = axes.x.clone();
    along.sort_by(|a, b| a.left.total_cmp(&b.left));
    assert!(along.windows(2).all(|pair| pair[0].right < pair[1].left), "{what}: ticks of x touch: {along:?}");
    assert!(along[0].left >= -1.0 && along[along.len() - 1].right <= axes.whole + 1.0, "{what}: cut: {along:?}");
    // Where there are rows, there is no other axis.
    let of_y = match axes.kind.as_str() {
        "histogram" => Some("packets per bin"),
        "ccdf" | "cells-ccdf" => Some("% of packets"),
        "time" => Some("s"),
        _ => None,
    };
    let y = numbers(what, &axes.y, |word| word.y);
    assert_eq!(of_y.is_some(), y.len() >= 2, "{what}: ticks of y: {y:?}");
    if let Some(of_y) = of_y {
        assert_eq!(axes.caption.matches(metric).count(), 1, "{what}: {}", axes.caption);
        let said = axes.caption.replace(metric, "");
        assert!(said.contains(of_y), "{what}: {said}");
        assert_eq!(units(&said).len(), usize::from(axes.kind != "histogram"), "{what}: units in {said:?}");
        assert!(axes.y.iter().all(|word| word.left >= 0.0), "{what}: cut at the left: {:?}", axes.y);
    }
    // Threes stand about half-way: a decade of a little more than two labels, each with its space,
    // has room for one.
    let widest = axes.x.iter().map(|word| word.right - word.left).fold(0.0, f64::max);
    let linear = axes.kind == "time";
    (if linear { 0 } else { decades(what, &x, 2.3 * (widest + 14.0)) }, decades(what, &y, 45.0))
}

#[test]
fn a_limit_beyond_the_axis_had_no_line_and_no_word() {
    if !can_browse("a_limit_beyond_the_axis_had_no_line_and_no_word") {
        return;
    }
    let sim = "delay = \"40us\", jitter = \"20us\", wake = \"5us\"";
    let limits = "[expect.ctl]\n\"scheduled..rx_kernel\" = [\"p50 < 60us\", \"p99 < 900ms\"]";
    let run = Run::of(1, 5_000, sim, limits);
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    choose(&mut browser, "scheduled..rx_kernel");
    for kind in ["histogram", "ccdf", "time"] {
        let n = kinds(&mut browser).iter().position(|other| other == kind).unwrap_or_else(|| panic!("no {kind}"));
        place(&mut browser, n);
        let said = said(&mut browser, n);
        assert!(said.contains("; limits outside of this view: p99 ") && said.ends_with(" (kept)"), "{kind}: {said}");
        assert!(!said.contains("p50"), "{kind}: {said}");
    }
    browser.close();
}

#[test]
fn ticks_stand_inside_decades_and_units_once() {
    if !can_browse("ticks_stand_inside_decades_and_units_once") {
        return;
    }
    // Values over two decades and more, and a share down to one in ten thousand.
    let sim = "delay = \"20us\", jitter = \"15us\", late_share = 0.01, late = \"1500us\", wake = \"5us\"";
    let run = Run::of(2, 5_000, sim, "[matrix]\n\"stream.ctl.sim.loss\" = [0.0, 0.0005]");
    let mut browser = Browser::watching(1280);
    for width in [390, 1280] {
        browser.resize(width);
        browser.open(&run.page());
        let (mut of_x, mut of_y) = (0, 0);
        for metric in ["scheduled..rx_kernel", "delta", "scheduled..wakeup"] {
            choose(&mut browser, metric);
            for n in 0..kinds(&mut browser).len() {
                let whole = axes(&mut browser, n);
                let what = format!("{} of {metric} at {width} px", whole.kind);
                let (x, y) = judge(&what, metric, &whole);
                of_x += x;
                of_y += y;
                // As near as it goes: numbers still differ, and the unit is still the axis's.
                browser.eval(&format!("{PLOTS}[{n}].querySelector('.plot').focus({{ preventScroll: true }})"));
                (0..25).for_each(|_| browser.press("+"));
                judge(&(what + ", zoomed"), metric, &axes(&mut browser, n));
                browser.press("0");
            }
        }
        println!("{width} px: {of_x} decades of x and {of_y} of y had room for ticks inside");
        assert!(of_x > 5 && of_y > 10, "{width} px: decades with room: {of_x} of x, {of_y} of y");
    }
    browser.close();
}

#[test]
fn fits_from_a_phone_to_a_wide_screen_in_light_and_dark() {
    if !can_browse("fits_from_a_phone_to_a_wide_screen_in_light_and_dark") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::watching(390);
    for width in [390, 1280, 2560] {
        browser.resize(width);
        browser.open(&run.page());
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            let lit = look(&mut browser);
            assert!(lit.iter().all(|(_, lit, _)| *lit > 100), "{width} px, {scheme}: {lit:?}");
        }
        assert_fits(&mut browser, width);
    }
    browser.prefer("light");
    browser.resize(390);
    browser.open(&run.page());
    let hidden = browser.eval(
        "(() => { document.querySelectorAll('details').forEach((details) => (details.open = true)); \
         return [...document.querySelectorAll('.cards, .cards td, .bar label, .remarks li, .leading dd')].filter((part) => { \
         const { left, right } = part.getBoundingClientRect(); return left < 0 || right > 390 || part.scrollWidth > part.clientWidth + 1; }) \
         .filter((part) => getComputedStyle(part).display !== 'inline').map((part) => part.outerHTML.slice(0, 120)); })()",
    );
    assert_eq!(hidden.as_array().map(Vec::len), Some(0), "390 px: cut at the right: {hidden}");
    let unnamed = browser.eval("[...document.querySelectorAll('.cards td')].filter((td) => !td.dataset.of).length");
    assert_eq!(unnamed, 0, "figures in cards without their column's name");
    let ground = "getComputedStyle(document.body).backgroundColor";
    let (light, light_plots) = (browser.eval(ground), look(&mut browser));
    browser.prefer("dark");
    let (dark, dark_plots) = (browser.eval(ground), look(&mut browser));
    assert_ne!(light, dark);
    assert!(light_plots.iter().zip(&dark_plots).all(|(a, b)| a.2 != b.2), "every plot follows the theme");
    browser.eval("document.getElementById('theme').click()");
    assert_eq!(browser.eval(ground), light, "the button overrides what the system prefers");
    assert_eq!(look(&mut browser), light_plots);
    browser.close();
}

/// Nothing is wider than the window, and every plot is as wide as its place.
fn assert_fits(browser: &mut Browser, width: u32) {
    let wide = browser.eval(
        "(async () => { await frame(); const { scrollWidth } = document.documentElement; \
         scrollTo(9999, scrollY); const scrolled = scrollX; return [scrollWidth, document.body.scrollWidth, scrolled]; })()",
    );
    let wide: Vec<i64> = wide.as_array().into_iter().flatten().filter_map(|px| px.as_i64()).collect();
    let whole = i64::from(width);
    assert_eq!(wide, [whole, whole, 0], "{width} px: width of document and body, and how far it scrolls to the side");
    let amiss = browser.eval(&format!(
        "{PLOTS}.filter((figure) => {{ const [host, canvas] = ['.plot', 'canvas'].map((of) => figure.querySelector(of)); \
         const {{ left, right, width }} = canvas.getBoundingClientRect(); const {{ left: from, width: room }} = within(figure); \
         return left < 0 || right > {width} || Math.abs(width - host.clientWidth) > 1 || from + room > canvas.width; }}) \
         .map((figure) => figure.outerHTML.slice(0, 90))"
    ));
    assert_eq!(amiss.as_array().map(Vec::len), Some(0), "{width} px: not as wide as their place: {amiss}");
}

#[test]
fn plots_refit_when_the_window_changes() {
    if !can_browse("plots_refit_when_the_window_changes") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    let before = look(&mut browser);
    // One is zoomed, and stays so.
    place(&mut browser, 2);
    browser.eval(&format!("{PLOTS}[2].querySelector('.plot').focus()"));
    browser.press("+");
    let zoomed = view(&mut browser, 2);
    let mut seen = vec![before.clone()];
    for width in [390, 2560, 640, 1024] {
        browser.resize(width);
        assert_fits(&mut browser, width);
        let plots = look(&mut browser);
        assert!(plots.iter().all(|(_, lit, _)| *lit > 100), "{width} px: {plots:?}");
        let anew = |other: &Vec<(String, u64, u64)>| other.iter().zip(&plots).all(|(a, b)| a.2 != b.2);
        assert!(seen.iter().all(anew), "{width} px: every plot is drawn anew");
        seen.push(plots);
        assert_eq!(view(&mut browser, 2), zoomed, "{width} px: the zoom stays");
    }
    browser.resize(1280);
    browser.press("0");
    assert_eq!(look(&mut browser), before, "back at its width, it is the same picture");
    browser.close();
}
