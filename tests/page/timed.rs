// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots over time: loads below the envelope, the map of where packets are, ping-pongs on a true
//! time axis. And what a hand does to a plot: hover, drag, wheel, keys.

use crate::browser::{Browser, can_browse};
use crate::look::{PLOTS, Run, choose, cursor, kinds, look, place, said, view};
use std::collections::BTreeMap;
use tardy_model::load::{InstanceRecord, LoadKind, LoadRecord, Series, SideHosts, SideRecord};

const SIM: &str = "delay = \"40us\", jitter = \"20us\", late_share = 0.002, late = \"900us\", wake = \"5us\"";

/// A load of one instance that moved these bytes in stretches of 100 ms.
fn load(kind: LoadKind, bytes: &[u64]) -> LoadRecord {
    let series = Series { every_ns: 100_000_000, first_ns: 0, bytes: bytes.to_vec() };
    let moved = bytes.iter().sum();
    let ended_ns = bytes.len() as i64 * 100_000_000;
    let side = SideRecord {
        began_ns: Some(0),
        ended_ns,
        sent_bytes: moved,
        received_bytes: moved,
        sends: 10,
        receives: 10,
        series,
        ..SideRecord::default()
    };
    let instance = InstanceRecord { from: side.clone(), to: kind.has_peer().then_some(side) };
    LoadRecord {
        kind,
        shortfall: 0.1,
        start_ns: 0,
        stop_ns: None,
        instances: vec![instance],
        hosts: SideHosts::default(),
    }
}

fn bulk(bytes: &[u64]) -> BTreeMap<String, LoadRecord> {
    let stream = LoadKind::TcpStream { size: 16_384, rate: None };
    let copies = LoadKind::Memory { working_set: 1 << 20 };
    BTreeMap::from([
        ("bulk".to_owned(), load(stream, bytes)),
        ("copy".to_owned(), load(copies, &[300_000_000, 300_000_000])),
    ])
}

fn number_of(browser: &mut Browser, kind: &str) -> usize {
    kinds(browser).iter().position(|other| other == kind).unwrap_or_else(|| panic!("no picture {kind}"))
}

/// What the readout says at a share of the picture's width.
fn said_at(browser: &mut Browser, n: usize, share: f64) -> String {
    let ((x, y), half) = place(browser, n);
    browser.mouse("mouseMoved", (x + half * (2.0 * share - 1.0), y));
    said(browser, n)
}

#[test]
fn loads_stand_behind_the_packets_on_one_time_axis() {
    if !can_browse("loads_stand_behind_the_packets_on_one_time_axis") {
        return;
    }
    // One trial of 500 ms: a load of 100, 400, 0 and 200 Mbit/s, which ends before the trial does.
    let run = Run::of(1, 5_000, SIM, "");
    let alone = run.page();
    let steps = |each: [u64; 4]| bulk(&each.map(|n| n * 1_250_000));
    let mut browser = Browser::watching(1280);
    browser.open(&alone);
    let time = number_of(&mut browser, "time");
    let without = look(&mut browser)[time].clone();
    assert!(!said_at(&mut browser, time, 0.3).contains("load"), "no load, no word of one");
    assert_eq!(browser.eval("document.querySelectorAll('.key').length"), 0);

    browser.open(&run.with_loads(1, &steps([1, 4, 0, 2])));
    let with = look(&mut browser)[time].clone();
    loads_hide_no_packet(&mut browser, time);
    assert!(with.1 > without.1 && with.2 != without.2, "{without:?} alone, {with:?} with loads");
    let caption = browser.eval(&format!("{PLOTS}[{time}].querySelector('.says').textContent"));
    assert_eq!(caption.as_str().unwrap_or("").matches("Mbit/s").count(), 1, "{caption}");
    let key = browser.eval(&format!("{PLOTS}[{time}].querySelector('.key').textContent"));
    assert_eq!(key, "bulk, Mbit/scopy, MB/s");
    copies_have_an_axis_of_their_own(&mut browser, time);
    // Packet and load of one instant are read together.
    let told = [0.1, 0.3, 0.5, 0.7, 0.9].map(|share| said_at(&mut browser, time, share));
    let loads = ["bulk 100 Mbit/s, copy 3000 MB/s", "bulk 400 Mbit/s", "bulk 0 Mbit/s", "bulk 200 Mbit/s", "; no load"];
    for (text, load) in told.iter().zip(loads) {
        let text = text.replace('\u{202f}', "");
        assert!(text.contains("at packet #") && text.contains(load), "{text:?}, wanted {load:?}");
    }
    assert!(!told[2].contains("copy"), "its copies ended: {:?}", told[2]);
    // Zoomed, both stay on one axis.
    let whole = view(&mut browser, time);
    let ((x, y), half) = place(&mut browser, time);
    browser.mouse("mousePressed", (x - half * 0.58, y));
    browser.mouse("mouseMoved", (x - half * 0.3, y));
    browser.mouse("mouseReleased", (x - half * 0.22, y));
    let part = view(&mut browser, time);
    assert!(part.0 > whole.0 && part.1 < whole.1, "{whole:?}, then {part:?}");
    let near = said_at(&mut browser, time, 0.5);
    assert!(near.contains("packets 1\u{202f}") && near.contains("bulk 400 Mbit/s"), "{near}");
    // Other loads, another picture; dark, yet another.
    let other = run.with_loads(1, &steps([4, 1, 1, 0]));
    browser.open(&other);
    let second = look(&mut browser)[time].clone();
    assert!(second.1 > without.1 && second.2 != with.2, "{with:?} and {second:?}");
    browser.prefer("dark");
    assert_ne!(look(&mut browser)[time].2, second.2, "follows the theme");
    for width in [390, 2560] {
        browser.resize(width);
        browser.open(&other);
        assert!(look(&mut browser)[time].1 > 200, "{width} px");
        let wide = browser.eval("document.documentElement.scrollWidth");
        assert_eq!(wide, width, "{width} px: nothing is wider than the window");
    }
    browser.close();
}

/// All marks of the loads' axes are in the lowest quarter, where no packet is.
fn loads_hide_no_packet(browser: &mut Browser, time: usize) {
    let heights = browser.eval(&format!(
        "(() => {{ const figure = {PLOTS}[{time}]; const {{ left, top, width, height }} = within(figure); \
         const right = drawnOn(figure).words.filter((word) => word.left >= left + width && /^[0-9]/.test(word.text)); \
         return [Math.min(...right.map((word) => word.y)), top, height]; }})()"
    ));
    let [mark, top, height]: [f64; 3] = serde_json::from_value(heights).expect("places");
    assert!(mark > top + 0.75 * height, "the highest mark at {mark}, the picture from {top} on, {height} high");
}

/// Two axes at the right, the traffic's and the copies': bare numbers in order, the unit above.
fn copies_have_an_axis_of_their_own(browser: &mut Browser, time: usize) {
    let right = browser.eval(&format!(
        "(() => {{ const figure = {PLOTS}[{time}]; const {{ left, width }} = within(figure); \
         const words = drawnOn(figure).words.filter((word) => word.text && word.left >= left + width); \
         return words.sort((a, b) => b.y - a.y).map((word) => [word.text, word.left, word.y]); }})()"
    ));
    let words: Vec<(String, f64, f64)> = serde_json::from_value(right).expect("words with their places");
    let units: Vec<&(String, f64, f64)> = words.iter().filter(|(text, ..)| text.contains('/')).collect();
    let [far, near] = match units.as_slice() {
        [a, b] if a.1 < b.1 => [*b, *a],
        [a, b] => [*a, *b],
        _ => panic!("a unit above each axis: {words:?}"),
    };
    assert_eq!([&*near.0, &*far.0], ["Mbit/s", "MB/s"]);
    for (unit, from, to, least) in [(near, 0.0, far.1, 300.0), (far, far.1, f64::INFINITY, 2_000.0)] {
        let numbers: Vec<f64> = words
            .iter()
            .filter(|(text, left, _)| !text.contains('/') && *left >= from - 6.0 && *left < to - 6.0)
            .map(|(text, ..)| {
                text.replace('\u{202f}', "").parse().unwrap_or_else(|_| panic!("no bare number: {text:?}"))
            })
            .collect();
        let greatest = *numbers.last().expect("numbers");
        assert!(numbers.len() >= 2 && numbers.is_sorted() && numbers[0] == 0.0, "{}: {numbers:?}", unit.0);
        assert!(greatest >= least, "{}: {numbers:?}", unit.0);
        assert!(words.iter().all(|(_, _, y)| unit.2 <= *y), "{} stands above", unit.0);
    }
}

#[test]
fn heat_map_is_there_for_many_packets_and_tells_time_value_and_count() {
    if !can_browse("heat_map_is_there_for_many_packets_and_tells_time_value_and_count") {
        return;
    }
    let few = Run::usual();
    let runs = [SIM, "delay = \"70us\", jitter = \"5us\", late_share = 0.01, late = \"300us\", wake = \"12us\""]
        .map(|sim| Run::of(2, 12_000, sim, ""));
    let mut browser = Browser::watching(1280);
    browser.open(&few.page());
    assert!(!kinds(&mut browser).contains(&"heat".to_owned()), "20 000 packets are many, and these are 10 000 a cell");
    let mut seen: Vec<u64> = Vec::new();
    for run in &runs {
        browser.open(&run.page());
        let n = number_of(&mut browser, "heat");
        for metric in ["scheduled..rx_kernel", "delta", "scheduled..wakeup"] {
            choose(&mut browser, metric);
            let (_, lit, sum) = look(&mut browser)[n].clone();
            assert!(lit > 1_000 && !seen.contains(&sum), "{metric}: {lit} pixels");
            seen.push(sum);
        }
    }
    choose(&mut browser, "scheduled..rx_kernel");
    let n = number_of(&mut browser, "heat");
    let key = browser.eval(&format!("{PLOTS}[{n}].querySelector('.key').textContent"));
    assert!(key.as_str().is_some_and(|text| text.starts_with("packets: 1 to ")), "{key}");
    // All rows of one column: their counts are the column's.
    let told = browser.eval(&format!(
        "(async () => {{ const figure = {PLOTS}[{n}]; const over = figure.querySelector('.u-over'); \
         const box = over.getBoundingClientRect(); const told = new Set(); \
         for (let y = 1; y < box.height; y++) {{ \
         over.dispatchEvent(new MouseEvent('mousemove', {{ clientX: box.x + box.width * 0.3, clientY: box.y + y, bubbles: true }})); \
         await new Promise((done) => requestAnimationFrame(done)); told.add(figure.querySelector('output').textContent); }} \
         return [...told]; }})()"
    ));
    let told: Vec<String> = crate::look::strings(&told).into_iter().map(|text| text.replace('\u{202f}', "")).collect();
    let (mut sum, mut whole) = (0, 0);
    for text in &told {
        assert!(text.starts_with("trial 1, 0.") && text.contains(" s"), "{text}");
        let Some((_, counts)) = text.split_once(" µs: ") else { continue };
        let mut counts = counts.split(' ').filter_map(|word| word.parse::<u64>().ok());
        sum += counts.next().expect("a count");
        whole = counts.next().expect("the column's");
    }
    assert!(whole > 50 && sum <= whole && sum * 10 >= whole * 9, "{sum} of {whole}: {told:?}");
    for width in [390, 2560] {
        browser.resize(width);
        browser.open(&runs[0].page());
        assert!(look(&mut browser)[n].1 > 200, "{width} px");
    }
    browser.close();
}

#[test]
fn ping_pong_stands_on_a_true_time_axis() {
    if !can_browse("ping_pong_stands_on_a_true_time_axis") {
        return;
    }
    let run = Run::of_stream(2, &format!("kind = \"pingpong\"\ncount = 3000\nsim = {{ {SIM} }}"));
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    let plots = look(&mut browser);
    assert!(plots.iter().all(|(_, lit, _)| *lit > 200), "{plots:?}");
    let n = number_of(&mut browser, "time");
    let (low, high) = view(&mut browser, n);
    // Two times 3 000 round trips of 80 µs and more, and the gap between the trials.
    assert!(low == 0.0 && high > 6_000.0 * 80e-6, "{low} to {high}");
    let (early, late) = (said_at(&mut browser, n, 0.1), said_at(&mut browser, n, 0.9));
    assert!(early.contains("trial 1, packets ") && late.contains("trial 2, packets "), "{early:?}, {late:?}");
    assert!(early.contains("at packet #") && early != late, "{early:?}, {late:?}");
    browser.close();
}

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
