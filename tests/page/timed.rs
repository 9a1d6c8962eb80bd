// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures over time: loads below the envelope, the map of where packets lie, ping-pongs on a
//! true time axis.

use crate::browser::{Browser, can_browse};
use crate::look::Run;
use crate::look::{PLOTS, choose, kinds, look, place, said, view};
use std::collections::BTreeMap;
use tardy_model::load::{InstanceRecord, LoadKind, LoadRecord, Series, SideRecord};

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
    LoadRecord { kind, shortfall: 0.1, start_ns: 0, stop_ns: None, instances: vec![instance] }
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
