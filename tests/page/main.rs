// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page layer: the page of a run as a reader has it, in a headless browser.

mod browser;
mod runs;

use browser::{Browser, can_browse};
use runs::Run;
use serde_json::Value;
use std::collections::BTreeMap;

/// The plots by place in the page: kind, and the number among all.
const PLOTS: &str = "[...document.querySelectorAll('figure[data-kind]')]";

/// Brings each plot into the window, waits until it is drawn of the metric that is chosen, and gives for each: its kind, how many coloured pixels its canvas
/// has, and a sum that is another one if any pixel is.
const LOOK: &str = "(async () => {
  const found = [];
  for (const figure of document.querySelectorAll('figure[data-kind]')) {
    figure.scrollIntoView({ block: 'center' });
    const chosen = document.querySelector('input[name=metric]:checked').value;
    for (let i = 0; i < 800 && figure.dataset.drawn !== chosen; i++) await new Promise((done) => setTimeout(done, 25));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const canvas = figure.querySelector('canvas');
    let [lit, sum] = [0, 0];
    if (canvas) {
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
      copy.drawImage(canvas, 0, 0);
      const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < data.length; i += 4) {
        const [r, g, b, a] = data.slice(i, i + 4);
        if (a > 60 && Math.max(r, g, b) - Math.min(r, g, b) > 40) lit++;
        sum = (sum * 31 + r + 256 * g + 65536 * b + a) % 4294967291;
      }
    }
    found.push([figure.dataset.kind, lit, sum]);
  }
  return found;
})()";

fn look(browser: &mut Browser) -> Vec<(String, u64, u64)> {
    let found = browser.eval(LOOK);
    let found = found.as_array().expect("a list of plots");
    let number = |value: &Value| value.as_u64().expect("a number");
    found.iter().map(|plot| (plot[0].as_str().unwrap_or("").to_owned(), number(&plot[1]), number(&plot[2]))).collect()
}

/// The middle of the plot of this number, and its half width, after it came into the window.
fn place(browser: &mut Browser, n: usize) -> ((f64, f64), f64) {
    let rect = browser.eval(&format!(
        "(async () => {{ const figure = {PLOTS}[{n}]; figure.scrollIntoView({{ block: 'center' }}); \
         for (let i = 0; i < 400 && !figure.querySelector('.u-over'); i++) await new Promise((done) => setTimeout(done, 25)); \
         await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); \
         const box = figure.querySelector('.u-over').getBoundingClientRect(); \
         return [box.x + box.width / 2, box.y + box.height / 2, box.width / 2]; }})()"
    ));
    let of = |i: usize| rect[i].as_f64().expect("a place");
    ((of(0), of(1)), of(2))
}

fn said(browser: &mut Browser, n: usize) -> String {
    browser.eval(&format!("{PLOTS}[{n}].querySelector('output').textContent")).as_str().unwrap_or("").to_owned()
}

/// From where to where the plot's x axis goes.
fn view(browser: &mut Browser, n: usize) -> (f64, f64) {
    let view = browser.eval(&format!("{PLOTS}[{n}].querySelector('.plot').dataset.view.split(' ').map(Number)"));
    (view[0].as_f64().expect("a low end"), view[1].as_f64().expect("a high end"))
}

/// Everything that the browser complained of.
fn complaints(browser: &Browser) -> Vec<String> {
    let bad = |event: &&Value| match event["method"].as_str() {
        Some("Runtime.exceptionThrown") => true,
        Some("Runtime.consoleAPICalled") => true,
        Some("Log.entryAdded") => ["error", "warning"].iter().any(|l| event["params"]["entry"]["level"] == **l),
        _ => false,
    };
    browser.events.iter().filter(bad).map(Value::to_string).collect()
}

/// What it asked of anybody, but for the page itself and what a page holds within it.
fn requests(browser: &Browser) -> Vec<String> {
    let sent = browser.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
    let urls = sent.filter_map(|event| event["params"]["request"]["url"].as_str());
    urls.filter(|url| !url.starts_with("data:") && !url.ends_with("/run/report.html")).map(str::to_owned).collect()
}

#[test]
fn every_plot_is_lit_and_differs_between_two_runs() {
    if !can_browse("every_plot_is_lit_and_differs_between_two_runs") {
        return;
    }
    let mut browser = Browser::start(1280);
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
    assert_eq!(complaints(&browser), Vec::<String>::new());
    assert_eq!(requests(&browser), Vec::<String>::new());
}

#[test]
fn every_metric_can_be_chosen() {
    if !can_browse("every_metric_can_be_chosen") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::start(1280);
    browser.open(&run.page());
    let metrics = browser.eval("[...document.querySelectorAll('input[name=metric]')].map((radio) => radio.value)");
    let metrics: Vec<String> =
        metrics.as_array().into_iter().flatten().filter_map(|m| Some(m.as_str()?.to_owned())).collect();
    assert!(metrics.len() >= 5 && metrics.contains(&"delta".to_owned()), "{metrics:?}");
    let mut seen: Vec<u64> = Vec::new();
    for metric in &metrics {
        browser.eval(&format!("document.querySelector('input[value=\"{metric}\"]').click()"));
        for (kind, lit, sum) in look(&mut browser).into_iter().filter(|(kind, ..)| kind != "stages") {
            assert!(lit > 200, "{kind} of {metric}: {lit} coloured pixels");
            assert!(!seen.contains(&sum), "{kind} of {metric} is like another");
            seen.push(sum);
        }
        let told = browser.eval("[...document.querySelectorAll('.metric')].every((span) => span.textContent.startsWith(document.querySelector('input[name=metric]:checked').value))");
        assert_eq!(told, Value::Bool(true), "every picture of {metric} says so");
    }
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

#[test]
fn hovering_reads_out_value_percentile_and_packet() {
    if !can_browse("hovering_reads_out_value_percentile_and_packet") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::start(1280);
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
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

#[test]
fn drag_wheel_and_keys_zoom_and_reset_restores() {
    if !can_browse("drag_wheel_and_keys_zoom_and_reset_restores") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::start(1280);
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
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

#[test]
fn keyboard_reaches_every_plot_and_control() {
    if !can_browse("keyboard_reaches_every_plot_and_control") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::start(1280);
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
}

#[test]
fn fits_from_a_phone_to_a_wide_screen_in_light_and_dark() {
    if !can_browse("fits_from_a_phone_to_a_wide_screen_in_light_and_dark") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::start(390);
    for width in [390, 1280, 2560] {
        browser.resize(width);
        browser.open(&run.page());
        let lit = look(&mut browser);
        assert!(lit.iter().all(|(_, lit, _)| *lit > 100), "{width}: {lit:?}");
        let wide = browser.eval("[document.documentElement.scrollWidth, innerWidth]");
        assert!(wide[0].as_i64() <= wide[1].as_i64(), "{width} px: the document is {} px wide", wide[0]);
        let plot = browser.eval(
            "Math.max(...[...document.querySelectorAll('figure canvas')].map((c) => c.getBoundingClientRect().right))",
        );
        assert!(plot.as_f64().is_some_and(|right| right <= f64::from(width)), "{width} px: a plot ends at {plot}");
    }
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
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

#[test]
fn one_value_is_one_bar() {
    if !can_browse("one_value_is_one_bar") {
        return;
    }
    let run = Run::of(1, 2_000, "delay = \"40us\"", "");
    let mut browser = Browser::start(1280);
    browser.open(&run.page());
    for metric in ["scheduled..rx_kernel", "delta"] {
        browser.eval(&format!("document.querySelector('input[value=\"{metric}\"]').click()"));
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
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

#[test]
fn page_asks_nobody_and_could_not() {
    if !can_browse("page_asks_nobody_and_could_not") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::start(1280);
    browser.open(&run.page());
    look(&mut browser);
    assert_eq!(requests(&browser), Vec::<String>::new());
    assert_eq!(complaints(&browser), Vec::<String>::new());
    // Were there a request in it, the browser would refuse it: nothing listens on port 9, and nothing is asked.
    let refused = browser.eval(
        "(async () => { const seen = () => new Promise((done) => addEventListener('securitypolicyviolation', (e) => done(e.effectiveDirective), { once: true })); \
         const image = seen(); new Image().src = 'http://127.0.0.1:9/x.png'; const first = await image; \
         const connection = seen(); \
         const fetched = await fetch('http://127.0.0.1:9/').then(() => 'fetched', () => 'refused'); \
         return [first, await connection, fetched]; })()",
    );
    assert_eq!(refused.to_string(), "[\"img-src\",\"connect-src\",\"refused\"]");
}

#[test]
fn a_million_packets_are_a_small_page() {
    if !can_browse("a_million_packets_are_a_small_page") {
        return;
    }
    let sim = "delay = \"40us\", jitter = \"20us\", late_share = 0.0001, late = \"900us\", wake = \"5us\"";
    let run = Run::of(2, 1_000_000, sim, "");
    let size = std::fs::metadata(run.page()).expect("the page is there").len();
    assert!(size < 1_000_000, "{size} bytes");
    let mut browser = Browser::start(1280);
    browser.open(&run.page());
    let most = browser.eval(
        "(() => { const run = JSON.parse(document.getElementById('run').textContent); const all = run.cells.flatMap((c) => c.streams); \
         const lines = all.flatMap((s) => s.trials.flatMap((t) => Object.values(t.metrics))); \
         return [Math.max(...lines.map((l) => l.envelope.length / 4)), Math.max(...lines.map((l) => l.bins.length / 3)), \
         Math.max(...all.flatMap((s) => Object.values(s.metrics).map((m) => m.bins.length / 3))), lines.length, all[0].trials[0].packets]; })()",
    );
    let most: Vec<u64> = most.as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    assert!(most[0] <= 400 && most[1] <= 64 && most[2] <= 480, "{most:?}");
    assert_eq!((most[3], most[4]), (10, 1_000_000), "five metrics in each of two trials");
    let plots = look(&mut browser);
    let time = plots.iter().position(|(kind, ..)| kind == "time").expect("a plot over time");
    let ((x, y), half) = place(&mut browser, time);
    browser.mouse("mouseMoved", (x + half * 0.5, y));
    let text = said(&mut browser, time);
    assert!(text.contains("trial 2, packets ") && text.contains("at packet #"), "{text}");
    assert!(plots.iter().all(|(_, lit, _)| *lit > 200), "{plots:?}");
    assert_eq!(complaints(&browser), Vec::<String>::new());
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
