// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTML page.

use super::sample::{many, odd, run};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tardy_analyze::envelope::{Grid, Line, Shape, Trace};
use tardy_model::histogram::Histogram;
use tardy_model::load::Series;
use tardy_model::result::LoadResult;
use tardy_model::verdict::{Level, Verdict};

/// What is between two texts, the first of each.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = page.split_once(from).unwrap_or_else(|| panic!("no {from}"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to}")).0
}

/// The page without its own script and style, which the reader does not read.
fn words(page: &str) -> String {
    let style = between(page, "<style>", "</style>");
    let script = between(page, "<script>", "</script>");
    page.replace(style, "").replace(script, "")
}

/// The data that the pictures are drawn from.
fn data(page: &str) -> Value {
    let text = between(page, "<script type=\"application/json\" id=\"run\">", "</script>");
    assert!(!text.contains('<'), "nothing in it can end its element");
    serde_json::from_str(text).expect("JSON")
}

/// Fails if an element is left open or closed twice.
fn assert_balanced(page: &str) {
    const VOID: [&str; 3] = ["meta", "link", "input"];
    let mut open: Vec<&str> = Vec::new();
    // Text has its `<` escaped: every `<` is a tag.
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        if tag.starts_with('!') || tag.ends_with('/') {
            continue;
        }
        let name = tag.split_whitespace().next().expect("a name");
        match name.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "{tag}"),
            None if VOID.contains(&name) => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_run_that_is_not_valid_says_first_which_cells_and_why() {
    let mut run = run(&["rx.wait=block", "rx.wait=poll", "rx.wait=spin"]);
    run.results.valid = false;
    run.facts.reference = Some("R1".into());
    for (cell, ms) in run.results.cells[1..].iter_mut().zip([7, 9]) {
        cell.valid = false;
        let says = format!("trial 1: ctl.rx was stopped for up to {ms} ms");
        cell.verdicts.insert(0, Verdict::new("rt-bandwidth", Level::Invalid, says));
    }
    run.results.verdicts.push(Verdict::new("own-trace", Level::Invalid, "tardy shows in p99"));
    let page = words(&run.draw("html", 100));
    let places = [
        "NOT VALID",
        "tardy shows in p99",
        "rx.wait = poll; rx.wait = spin, in the first: trial 1: ctl.rx was stopped for up to 7 ms",
        "scheduled..rx_kernel, in µs",
        "<h2>rx.wait = block",
        "<h2>Compared with reference results R1",
        "<h2>What made these figures",
    ]
    .map(|text| page.find(text).unwrap_or_else(|| panic!("no {text}")));
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(page.matches("tardy shows in p99").count(), 1, "and not among the notes again");
    let valid = words(&super::sample::run(&["all"]).draw("html", 100));
    assert!(!valid.contains("class=\"bad\">invalid"));
}

#[test]
fn a_cell_with_one_cause_in_two_places_was_named_twice() {
    let stopped = |says: &str| Verdict::new("rt-bandwidth", Level::Invalid, says);
    let twice = || [stopped("ctl.rx was stopped for up to 7 ms"), stopped("ctl.rx was stopped for up to 19 ms")];
    let mut sole = run(&["all"]);
    (sole.results.valid, sole.results.cells[0].valid) = (false, false);
    sole.results.cells[0].verdicts.extend(twice());
    let page = words(&sole.draw("html", 100));
    assert!(page.contains("all: ctl.rx was stopped for up to 7 ms; ctl.rx was stopped for up to 19 ms"), "{page}");
    let mut run = super::sample::many();
    run.results.cells[1].verdicts.extend(twice());
    run.results.cells[2].verdicts.extend(twice());
    let says = "port = xdp, rx.wait = block; port = udp, rx.wait = poll, in the first: ctl.rx was stopped for up to 7 ms; ctl.rx was stopped \
         for up to 19 ms";
    assert!(words(&run.draw("html", 100)).contains(says), "{}", run.draw("html", 100));
    let wrapped = run.draw("text", 200).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(wrapped.matches(says).count(), 1, "{wrapped}");
}

#[test]
fn the_reasons_of_a_sole_cell_were_printed_twice() {
    let mut run = run(&["all"]);
    (run.results.valid, run.results.cells[0].valid) = (false, false);
    let verdicts = &mut run.results.cells[0].verdicts;
    verdicts.insert(0, Verdict::new("rt-bandwidth", Level::Invalid, "ctl.rx was stopped for up to 7 ms"));
    let page = words(&run.draw("html", 100));
    let read = page.split("<details>").next().expect("a page");
    assert_eq!(read.matches("ctl.rx was stopped for up to 7 ms").count(), 1, "at the top alone");
    assert!(page.find("was stopped").expect("the reason") < page.find("<h2>all").expect("the cell"));
    assert!(read.contains("CPU 1 also ran ksoftirqd/1"), "what is no reason stands with the cell");
}

#[test]
fn a_broken_limit_stood_below_the_notes() {
    let mut run = odd();
    run.results.cells.truncate(1);
    let page = words(&run.draw("html", 100));
    let places =
        ["VALID", "<b class=\"bad\">not met</b> A-only: ctl lost", "<dl class=\"leading", "another process held"]
            .map(|text| page.find(text).unwrap_or_else(|| panic!("no {text}")));
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn page_asks_nobody_for_anything() {
    for run in [run(&["all"]), odd(), many()] {
        let page = run.draw("html", 100);
        let words = words(&page);
        for bad in ["http:", "https:", "src=", "@import", "url(", "javascript:", "onload"] {
            assert!(!words.contains(bad), "{bad}");
        }
        // Nothing in the script and the style can be a request either: the page forbids the browser
        // to make any.
        assert!(page.contains("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "));
        assert!(!page.contains("@import") && !page.contains("url("));
        assert_balanced(&words);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("width=device-width"));
    }
}

#[test]
fn page_brings_the_licence_of_what_it_is_drawn_with() {
    let page = run(&["all"]).draw("html", 100);
    for part in ["uPlot (v1.6.", "Copyright (c) 2022 Leon Sorokin", "THE SOFTWARE IS PROVIDED \"AS IS\""] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn page_escapes_all_that_comes_from_outside() {
    let mut run = odd();
    let evil = "<b id='x' onclick=\"y\">&";
    run.results.name = evil.into();
    run.results.verdicts[0].says = evil.into();
    run.results.cells[0].id = evil.into();
    run.manifest.command = vec![evil.into()];
    run.run_dir = Some(evil.into());
    let page = run.draw("html", 100);
    assert!(!page.contains("<b id"), "{page}");
    let page = words(&page);
    assert!(page.contains("<h1>&lt;b id=&#39;x&#39; onclick=&quot;y&quot;&gt;&amp;</h1>"));
    assert_balanced(&page);
}

#[test]
fn page_answers_first() {
    let page = run(&["rx.wait=block", "rx.wait=poll"]).draw("html", 100);
    let page = words(&page);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}\n{page}"));
    let order = [
        "<strong class=\"good\">VALID</strong> <span>expectations met (2 of 2)</span>",
        "99 % of packets took at most 23 µs from scheduled to rx_kernel, in every cell",
        "<input type=\"radio\" name=\"metric\" value=\"scheduled..rx_kernel\" checked>",
        "<figure data-kind=\"cells\">",
        "<h2>rx.wait = block</h2>",
        "<th scope=\"row\" class=\"w\">scheduled..wakeup</th>",
        "<figure data-kind=\"histogram\" data-cell=\"0\" data-stream=\"0\">",
        "<h2>rx.wait = poll</h2>",
        "<figure data-kind=\"ccdf\" data-cell=\"1\" data-stream=\"0\">",
        "runs/20261121T212600Z-host-to-host/commands.sh",
        "ip netns add tardy1a",
        "name = &quot;host-to-host&quot;",
    ];
    let places: Vec<usize> = order.into_iter().map(place).collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn figures_of_a_sole_cell_stand_large_on_top() {
    let page = words(&run(&["all"]).draw("html", 100));
    let top = between(&page, "<dl class=\"leading\">", "</dl>");
    for part in
        ["<dt>scheduled..rx_kernel</dt><dd>in µs</dd>", "<dt>p50</dt><dd>14.0</dd>", "<dt>p99</dt><dd>23.3</dd>"]
    {
        assert!(top.contains(part), "{part}: {top}");
    }
    assert!(top.contains("<dt>max</dt><dd>915.0 <small>packet #4\u{202f}211, trial 3</small></dd>"), "{top}");
    assert!(!page.contains("data-kind=\"cells\""), "one cell is compared with none");
}

#[test]
fn answer_names_the_best_and_the_worst_cell() {
    let mut run = run(&["rx.wait=block", "rx.wait=poll", "rx.wait=spin"]);
    let p99 = [Some(23_300), Some(51_000), None];
    for (cell, p99) in run.results.cells.iter_mut().zip(p99) {
        let ctl = cell.streams.get_mut("ctl").expect("ctl");
        let lead = ctl.metrics.get_mut("scheduled..rx_kernel").expect("the leading metric");
        lead.figures.quantiles.p99_ns = p99;
    }
    let page = run.draw("html", 100);
    let wanted =
        "99 % of packets took at most 23 µs (rx.wait = block) to 51 µs (rx.wait = poll) from scheduled to rx_kernel";
    assert!(page.contains(&format!("{wanted}; of rx.wait = spin it is not known")), "{page}");
    // Losing more than 1 % is the worst of all.
    let ctl = run.results.cells[2].streams.get_mut("ctl").expect("ctl");
    ctl.metrics.get_mut("scheduled..rx_kernel").expect("the leading metric").infinite = vec!["p99".into()];
    assert!(run.draw("html", 100).contains("23 µs (rx.wait = block) to ∞ (rx.wait = spin)"));
    run.results.valid = false;
    assert!(!run.draw("html", 100).contains("99 % of packets"));
}

#[test]
fn data_holds_bins_limits_and_losses() {
    let page = odd().draw("html", 100);
    let data = data(&page);
    assert_eq!(data["lead"], "scheduled..rx_kernel");
    assert_eq!(data["cells"][1]["title"], "A+B <same> cpu, rx.wait = busypoll");
    let ctl = &data["cells"][0]["streams"][0];
    let lead = &ctl["metrics"]["scheduled..rx_kernel"];
    assert_eq!(lead["inf"], 3);
    assert_eq!(lead["q"], json!([14_000, null, 23_300, "inf", null]));
    assert_eq!(lead["limits"], json!([["p99.9", 80_000, false], ["p99.9", 90_000, false]]));
    let absent = &ctl["metrics"]["tx_kernel..rx_kernel"];
    assert!(absent["why"].as_str().is_some_and(|why| why.contains("no driver stamp")), "{absent}");
    // Gap, width, count: they cover what the histogram holds.
    let flat: Vec<i64> = lead["bins"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
    let (mut at, mut total) = (0, 0);
    for bin in flat.chunks(3) {
        assert!(bin[1] > 0 && bin[2] > 0 && (bin[0] >= 0 || at == 0), "{bin:?}");
        at += bin[0] + bin[1];
        total += bin[2];
    }
    assert_eq!(total as u64, odd().bars.iter().map(|bar| bar.2).sum::<u64>());
    assert!((914_000..917_000).contains(&at), "{at}");
}

#[test]
fn limits_are_not_judged_in_a_run_that_is_not_valid() {
    let mut run = odd();
    run.results.valid = false;
    run.results.expectations.iter_mut().for_each(|expectation| expectation.met = None);
    let page = run.draw("html", 100);
    assert_eq!(data(&page)["cells"][0]["streams"][0]["metrics"]["scheduled..rx_kernel"]["limits"][0][2], Value::Null);
}

#[test]
fn long_commands_are_cut_and_said_to_be() {
    let mut run = run(&["all"]);
    run.commands = "ip link add µ\n".repeat(40_000);
    let page = run.draw("html", 100);
    assert!(page.len() < 800_000 && page.contains("… cut here; the file in the run folder is whole"), "{}", page.len());
}

/// A trace of as many values of the leading metric, one each 100 µs, of a ping-pong if `cycle_ns`
/// is 0.
fn trace(cell: &str, n: u32, count: i64, cycle_ns: i64) -> Trace {
    let mut line = Line { grid: Grid::new(40, count * 100_000 / 40 + 1), ..Line::default() };
    let mut histogram = Histogram::new();
    let values: Vec<i64> = (0..count).map(|i| 10_000 + (i * 7_919) % 30_011).collect();
    histogram.record_all(&values);
    values.iter().enumerate().for_each(|(i, ns)| line.grid.add(i as i64 * 100_000, *ns));
    line.shape = Shape::of(&histogram, 0);
    Trace {
        cell: cell.into(),
        n,
        stream: "ctl".into(),
        cycle_ns,
        packets_each: 1_000,
        packets: count as u64,
        starts_ns: (0..count / 1_000).map(|i| i * 100_000_000).collect(),
        end_ns: count * 100_000,
        metrics: BTreeMap::from([("scheduled..rx_kernel".parse().expect("a metric"), line)]),
        ..Trace::default()
    }
}

#[test]
fn heat_map_is_there_from_so_many_values_on_and_holds_each() {
    for (count, there) in [(9_000, false), (11_000, true)] {
        let mut run = run(&["all"]);
        run.traces = vec![trace("all", 1, count, 100_000), trace("all", 2, count, 100_000)];
        let page = run.draw("html", 100);
        assert_eq!(page.contains("<figure data-kind=\"heat\""), there, "{count}");
        let data = data(&page);
        let trial = &data["cells"][0]["streams"][0]["trials"][1];
        let heat = &trial["metrics"]["scheduled..rx_kernel"]["heat"];
        assert_eq!(heat.is_object(), there, "{count}");
        let numbers =
            |of: &str| -> Vec<i64> { heat[of].as_array().into_iter().flatten().filter_map(Value::as_i64).collect() };
        // Columns: how many rows, then gap and count of each.
        let (spots, rows) = (numbers("spots"), numbers("rows").len() as i64 / 2);
        let (mut at, mut columns, mut total) = (0, 0, 0);
        while at < spots.len() {
            let mut row = 0;
            for pair in spots[at + 1..][..2 * spots[at] as usize].chunks(2) {
                row += pair[0] + 1;
                total += pair[1];
            }
            assert!(row <= rows, "row {row} of {rows}");
            at += 1 + 2 * spots[at] as usize;
            columns += 1;
        }
        assert_eq!((columns, total), if there { (40, count) } else { (0, 0) });
        assert_eq!((&trial["starts"], trial["end"].as_i64()), (&Value::Null, Some(count * 100_000)), "by schedule");
    }
}

#[test]
fn ping_pongs_and_loads_bring_their_own_time() {
    let mut run = run(&["all"]);
    run.traces = vec![trace("all", 1, 3_000, 0), trace("all", 2, 3_000, 0)];
    let series = Series { every_ns: 100_000_000, first_ns: -50_000_000, bytes: vec![5; 1_000] };
    let load = |kind: &str, series| LoadResult { kind: kind.into(), count: 1, series, ..LoadResult::default() };
    run.results.cells[0].trials[0].loads =
        BTreeMap::from([("bulk".to_owned(), load("tcp_stream", Some(series))), ("idle".to_owned(), load("cpu", None))]);
    let data = data(&run.draw("html", 100));
    let cell = &data["cells"][0];
    assert_eq!(cell["streams"][0]["trials"][0]["starts"], json!([0, 100_000_000, 100_000_000]));
    // 400 stretches at most: three in one. A trial without loads, and a load that moved nothing,
    // have nothing.
    assert_eq!(cell["loads"].as_object().map(|loads| loads.keys().collect::<Vec<_>>()), Some(vec![&"1".to_owned()]));
    let [bulk] = cell["loads"]["1"].as_array().expect("loads").as_slice() else { panic!("{}", cell["loads"]) };
    assert_eq!((&bulk["name"], &bulk["copies"], &bulk["first"]), (&json!("bulk"), &json!(false), &json!(-50_000_000)));
    assert_eq!((&bulk["every"], &bulk["bytes"][0]), (&json!(300_000_000), &json!(15)));
    let bytes: Vec<u64> = bulk["bytes"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    assert_eq!((bytes.len(), bytes.iter().sum::<u64>()), (334, 5_000));
}

#[test]
fn a_time_of_a_users_own_hints_had_a_button_and_no_pictures() {
    let button = |name: &str| format!("<input type=\"radio\" name=\"metric\" value=\"{name}\"");
    let says = "No pictures of time..receive: the page draws metrics between points only.";
    let mut run = run(&["rx.wait=poll", "rx.wait=spin"]);
    assert!(!run.draw("html", 100).contains("No pictures of"));
    for cell in &mut run.results.cells {
        let ctl = cell.streams.get_mut("ctl").expect("ctl");
        let figures = ctl.metrics["scheduled..rx_kernel"].clone();
        ctl.metrics.insert("time..receive".into(), figures);
    }
    let page = run.draw("html", 100);
    assert_balanced(&words(&page));
    assert!(page.contains(&button("rx_kernel..receive")) && !page.contains(&button("time..receive")));
    // It has figures all the same, and the reader finds the reason below each table.
    assert_eq!(page.matches("<th scope=\"row\" class=\"w\">time..receive</th>").count(), 2);
    assert_eq!(page.matches(says).count(), 2);
    // Alone it leads the tables, and nothing is drawn.
    for cell in &mut run.results.cells {
        cell.streams.get_mut("ctl").expect("ctl").metrics.retain(|name, _| name == "time..receive");
    }
    let page = run.draw("html", 100);
    assert_balanced(&words(&page));
    assert_eq!(data(&page)["lead"], Value::Null);
    for absent in ["name=\"metric\"", "pictures of</legend>", "<figure"] {
        assert!(!words(&page).contains(absent), "{absent}");
    }
    assert_eq!(page.matches(says).count(), 2);
}
