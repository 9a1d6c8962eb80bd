// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTML page.

use super::sample::{many, odd, run};

/// Fails if an element is left open or closed twice.
fn assert_balanced(page: &str) {
    const VOID: [&str; 2] = ["meta", "link"];
    let mut open: Vec<&str> = Vec::new();
    // The style sheet holds no tags, text has its `<` escaped: every `<` is a tag.
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
fn page_asks_nobody_for_anything() {
    for run in [run(&["all"]), odd(), many()] {
        let page = run.draw("html", 100);
        for bad in ["http", "src=", "<script", "@import", "url(", "javascript", "onload"] {
            assert!(!page.contains(bad), "{bad}");
        }
        assert_balanced(&page);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("width=device-width"));
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
    assert!(page.contains("<h1>&lt;b id=&#39;x&#39; onclick=&quot;y&quot;&gt;&amp;</h1>"));
    assert_balanced(&page);
}

#[test]
fn page_answers_first() {
    let page = run(&["rx.wait=block", "rx.wait=poll"]).draw("html", 100);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}\n{page}"));
    let order = [
        "<strong class=\"good\">VALID</strong> <span>expectations met (2 of 2)</span>",
        "99 % of packets took at most 23 µs from scheduled to rx_kernel, in every cell",
        "<h2>rx.wait = block</h2>",
        "<svg",
        "<th scope=\"row\" class=\"w\">scheduled..wakeup</th>",
        "<h2>rx.wait = poll</h2>",
        "runs/20261121T212600Z-host-to-host/commands.sh",
        "name = &quot;host-to-host&quot;",
    ];
    let places: Vec<usize> = order.into_iter().map(place).collect();
    assert!(places.is_sorted(), "{places:?}");
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
    assert!(page.contains(wanted), "{page}");
    // Losing more than 1 % is the worst of all.
    let ctl = run.results.cells[2].streams.get_mut("ctl").expect("ctl");
    ctl.metrics.get_mut("scheduled..rx_kernel").expect("the leading metric").infinite = vec!["p99".into()];
    assert!(run.draw("html", 100).contains("23 µs (rx.wait = block) to ∞ (rx.wait = spin)"));
    run.results.valid = false;
    assert!(!run.draw("html", 100).contains("99 % of packets"));
}

#[test]
fn plot_has_labels_inside_the_decade_and_the_limit() {
    let page = odd().draw("html", 100);
    for label in
        [">20 µs<", ">50 µs<", ">200 µs<", ">100<", ">10k<", ">p50 14 µs<", ">max 915 µs<", ">limit of p99.9 80 µs<"]
    {
        assert!(page.contains(label), "{label}");
    }
    // Less than a decade: even steps.
    let mut narrow = run(&["all"]);
    narrow.bars = vec![(499_000, 499_100, 7), (500_000, 500_100, 90), (501_000, 501_100, 3)];
    let page = narrow.draw("html", 100);
    for label in [">499.5 µs<", ">500 µs<", ">500.5 µs<"] {
        assert!(page.contains(label), "{label}");
    }
    // Early packets: the axis goes through zero.
    narrow.bars = vec![(-5_000, -4_990, 10), (0, 0, 1), (900_000, 900_500, 1)];
    let page = narrow.draw("html", 100);
    for label in [">-5 µs<", ">0 ns<", ">500 µs<"] {
        assert!(page.contains(label), "{label}\n{page}");
    }
    narrow.bars.clear();
    assert!(!narrow.draw("html", 100).contains("<svg"));
}
