// SPDX-License-Identifier: MIT OR Apache-2.0
//! Markdown, Org, CSV, JSON and JUnit XML, with a strict reader of XML that fails on whatever a
//! parser would refuse.

use super::same;
use super::sample::{Run, limit, lost, many, metric, odd, run};
use std::collections::BTreeMap;
use std::time::Instant;
use tardy_model::manifest::{CellEntry, GuestEntry};
use tardy_model::result::{ExpectationResult, Results};
use tardy_model::verdict::{Level, Verdict};
use tardy_report::figure::{Digits, Unit};
use tardy_tests::section;

/// A document of the file of documents.
pub fn document(name: &str) -> &'static str {
    section(include_str!("documents.txt"), name)
}

#[test]
fn markdown_as_written() {
    same(&odd().draw("md", 100), document("markdown"));
}

#[test]
fn org_as_written() {
    same(&odd().draw("org", 100), document("org"));
}

#[test]
fn a_stage_of_tens_of_nanoseconds_was_printed_as_nothing() {
    let row = |unit, figures: &[i64]| {
        let digits = Digits::of(unit).row(figures.iter().copied());
        figures.iter().map(|ns| digits.fixed(*ns)).collect::<Vec<_>>().join(" ")
    };
    for (unit, figures, wanted) in [
        (Unit::Us, &[30, 70, 0, 18_300][..], "0.030 0.070 0.000 18.300"),
        (Unit::Us, &[800, 6_140], "0.80 6.14"),
        (Unit::Us, &[1_000, 9_990], "1.0 10.0"),
        (Unit::Us, &[-30, 18_300], "-0.030 18.300"),
        (Unit::Us, &[3], "0.003"),
        (Unit::Us, &[0, 0], "0.0 0.0"),
        (Unit::Ms, &[30, 20_000_000], "0.000030 20.000000"),
        (Unit::Ms, &[9_000, 20_000_000], "0.0090 20.0000"),
        (Unit::Ms, &[10_000, i64::MIN], "0.010 -9223372036854.776"),
        (Unit::Ns, &[3, 3_000], "3 3000"),
    ] {
        assert_eq!(row(unit, figures), wanted);
    }
    assert_eq!(Digits::exact(Unit::Us).fixed(18_300), "18.300");
    assert_eq!(
        (Digits::of(Unit::Us).at_least(71), Digits::exact(Unit::Ms).at_least(71)),
        ("0.1".into(), "0.000071".into())
    );
    let mut run = run(&["all", "other"]);
    let stage = run.results.cells[0].streams.get_mut("ctl").and_then(|ctl| ctl.metrics.get_mut("rx_kernel..receive"));
    *stage.expect("the stage") = metric([30, 70, 200], 18_300, 1, 20, 41.0, 8.4);
    let shown = |run: &Run, format: &str, metric: &str| {
        let text = run.draw(format, 100).replace("</td>", " ").replace('|', " ");
        let text =
            text.lines().find(|line| line.contains(metric) && line.contains("70")).unwrap_or_else(|| panic!("{text}"));
        text.split([' ', '>'])
            .filter(|word| word.contains("0.0") || word.contains("18."))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for format in ["text", "md", "org", "html"] {
        let row = shown(&run, format, "rx_kernel..receive").join(" ");
        assert!(row.starts_with("0.030 ") && row.contains("0.070 ") && row.contains("18.300 "), "{format}: {row}");
    }
    // The rows next to it keep theirs, in one unit with it.
    assert!(run.draw("text", 100).contains(" 14.0 "), "{}", run.draw("text", 100));
    // In exact time the last nanosecond is a figure.
    run.results.fingerprint = Some("ab".into());
    run.results.cells.iter_mut().for_each(|cell| cell.fingerprint = Some("ab".into()));
    for (format, shows) in [("text", " 14.000 "), ("md", " 14.000 |"), ("html", ">14.000<")] {
        let text = run.draw(format, 100);
        assert!(text.contains(shows) && !text.contains(&shows.replace(".000", ".0")), "{format}: {text}");
    }
}

#[test]
fn csv_as_written() {
    same(&odd().draw("csv", 100), document("csv"));
}

#[test]
fn documents_and_page_do_not_keep_silent_about_the_guest() {
    let mut run = run(&["all"]);
    let formats = ["md", "org", "html"];
    for format in formats {
        assert!(!run.draw(format, 100).contains("guest: "), "{format} reports a guest, and there was none");
    }
    run.manifest.guest = Some(GuestEntry {
        mode: "guest:exact".into(),
        accelerator: "tcg".into(),
        kernel: "debian:6.12".into(),
        kernel_release: "6.12.117+deb13-amd64".into(),
        kernel_sha256: "14159c".repeat(10),
        initramfs_sha256: "ab12cd".repeat(10),
        proc_version: Some("Linux version 6.12.117+deb13-amd64 (built by gcc-14)".into()),
        qemu: "QEMU emulator version 7.2.22".into(),
        tai_offset_s: 37,
        ..GuestEntry::default()
    });
    let told = [
        ("mode", "guest:exact".to_owned()),
        ("accelerator", "tcg".to_owned()),
        ("kernel", "debian:6.12 6.12.117+deb13-amd64".to_owned()),
        ("/proc/version", "Linux version 6.12.117+deb13-amd64 (built by gcc-14)".to_owned()),
        ("QEMU", "QEMU emulator version 7.2.22".to_owned()),
        ("SHA-256 of the kernel", "14159c".repeat(10)),
        ("SHA-256 of the initramfs", "ab12cd".repeat(10)),
        ("TAI − UTC", "37 s".to_owned()),
    ];
    for format in formats {
        let text = run.draw(format, 100);
        for (name, value) in &told {
            let at = text.find(&format!("guest: {name}")).unwrap_or_else(|| panic!("{format} lacks {name}:\n{text}"));
            assert!(text[at..].lines().next().is_some_and(|line| line.contains(value)), "{format}: {name} is {value}");
        }
    }
    // No offset is nothing to tell.
    run.manifest.guest.as_mut().expect("a guest").tai_offset_s = 0;
    assert!(!run.draw("md", 100).contains("TAI − UTC"));
}

#[test]
fn table_lines_are_equally_long_and_have_the_same_columns() {
    for (format, rule) in [("md", "| -"), ("org", "|-")] {
        for run in [run(&["all"]), odd(), many()] {
            let text = run.draw(format, 100);
            let mut table: Vec<&str> = Vec::new();
            let mut tables = 0;
            for line in text.lines().chain([""]) {
                if line.starts_with('|') {
                    table.push(line);
                    continue;
                }
                if let [head, under, rows @ ..] = table.as_slice() {
                    tables += 1;
                    assert!(under.starts_with(rule), "{format}: {under}");
                    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
                    for row in rows {
                        assert_eq!(row.chars().count(), head.chars().count(), "{format}: {row}");
                        assert_eq!(bars(row), bars(head), "{format}: {row}");
                    }
                    assert_eq!(under.chars().count(), head.chars().count(), "{format}: {under}");
                }
                table.clear();
            }
            assert!(tables >= 4, "{format}: {tables} tables");
        }
    }
}

/// Reads CSV by RFC 4180's grammar.
fn read_csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quoted) {
            ('"', true) if chars.peek() == Some(&'"') => field.extend(chars.next()),
            ('"', _) => quoted = !quoted,
            (',', false) => row.push(std::mem::take(&mut field)),
            ('\n', false) => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            (c, _) => field.push(c),
        }
    }
    assert!(field.is_empty() && row.is_empty() && !quoted, "the last line is whole");
    rows
}

#[test]
fn csv_reads_back() {
    let mut run = odd();
    let why = "no \"driver\" stamp,\nsays the kernel";
    let ctl = run.results.cells[0].streams.get_mut("ctl").expect("ctl");
    ctl.metrics.get_mut("tx_kernel..rx_kernel").expect("the metric").why = Some(why.into());
    let rows = read_csv(&run.draw("csv", 100));
    let (head, rows) = rows.split_first().expect("a head");
    let at = |name: &str| head.iter().position(|title| title == name).unwrap_or_else(|| panic!("no column {name}"));
    assert_eq!(rows.len(), 15);
    assert!(rows.iter().all(|row| row.len() == head.len()));
    let row = |cell: &str, metric: &str| {
        rows.iter().find(|row| row[at("cell")] == cell && row[at("metric")] == metric).expect("the row")
    };
    let absent = row("A-only", "tx_kernel..rx_kernel");
    assert_eq!(absent[at("why")], why);
    assert!(["p50_ns", "max_ns", "mean_ns", "max_seq"].iter().all(|name| absent[at(name)].is_empty()));
    let lossy = row("A-only", "scheduled..rx_kernel");
    assert_eq!((lossy[at("p99_9_ns")].as_str(), lossy[at("infinite")].as_str()), ("", "p99.9"));
    assert_eq!((lossy[at("received_only_p99_9_ns")].as_str(), lossy[at("lost")].as_str()), ("90400", "3"));
    assert_eq!(row("A+B <same> cpu,rx.wait=busypoll", "delta")[at("cell_valid")], "false");
}

#[test]
fn json_is_the_results_in_the_order_of_their_fields() {
    let run = odd();
    let text = run.draw("json", 100);
    let back: Results = serde_json::from_str(&text).expect("the results");
    assert_eq!(back, run.results);
    let places: Vec<usize> =
        ["\"format\": 1", "\"name\"", "\"valid\"", "\"expectations_met\"", "\"expectations\"", "\"cells\""]
            .iter()
            .map(|key| text.find(key).unwrap_or_else(|| panic!("no {key}")))
            .collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn one_text_of_a_run_folder_padded_each_row_of_a_document_to_its_length() {
    let mut run = run(&["all"]);
    run.manifest.machine.insert("kernel.version".into(), "x".repeat(70_000).as_str().into());
    for format in ["md", "org"] {
        let text = run.draw(format, 100);
        assert!(text.contains(&"x".repeat(70_000)), "{format} shows it");
        assert!(text.len() < 200_000, "{format} has {} bytes", text.len());
    }
}

fn read(run: &Run) -> Vec<Tag> {
    tags(&run.draw("junit", 100))
}

/// How many tests, failures, errors and skipped ones the whole file claims to have. Checks that it
/// has them.
fn counts(tags: &[Tag]) -> [usize; 4] {
    let said =
        ["tests", "failures", "errors", "skipped"].map(|name| tags[0].attributes[name].parse().expect("a number"));
    let there =
        ["testcase", "failure", "error", "skipped"].map(|name| tags.iter().filter(|tag| tag.name == name).count());
    assert_eq!(said, there);
    said
}

#[test]
fn validity_and_each_expectation_are_test_cases() {
    same(&run(&["rx.wait=block", "rx.wait=poll"]).draw("junit", 100), document("junit good"));
    same(&odd().draw("junit", 100), document("junit odd"));
    assert_eq!(counts(&read(&run(&["all"]))), [5, 0, 0, 0]);
    // A limit and a count that are broken, a limit whose figure is missing, a cell that is not
    // valid, one that was refused.
    assert_eq!(counts(&read(&odd())), [9, 3, 2, 0]);
}

#[test]
fn no_test_passes_that_nothing_is_known_of() {
    // A cell that is not valid is an error; what it leaves open is skipped.
    let mut bad = run(&["all"]);
    bad.results.valid = false;
    bad.results.cells[0].valid = false;
    bad.results.cells[0].verdicts.push(Verdict::new("coverage", Level::Invalid, "2 % of packets have no stamp"));
    let open =
        ExpectationResult { met: None, why: Some("the figures are not valid".into()), ..limit("all", 1, None, false) };
    bad.results.expectations = vec![open.clone(), lost("all", 4)];
    let found = read(&bad);
    assert_eq!(counts(&found), [5, 1, 1, 1]);
    let error = found.iter().find(|tag| tag.name == "error").expect("an error");
    assert_eq!(
        (error.text.as_str(), error.attributes["message"].as_str()),
        ("2 % of packets have no stamp", error.text.as_str())
    );
    // In a valid cell it is an error itself.
    let mut unseen = run(&["all"]);
    unseen.results.expectations = vec![open];
    assert_eq!(counts(&read(&unseen)), [4, 0, 1, 0]);
    // What spoilt the whole run, a run without a cell, one in which a cell has limits and
    // finished nothing.
    let mut spoilt = run(&["all"]);
    spoilt.results.verdicts.push(Verdict::new("failed", Level::Invalid, "the disk is full"));
    assert_eq!(counts(&read(&spoilt)), [5, 0, 2, 0], "spoilt, and not finished");
    let mut nothing = run(&["all"]);
    nothing.results.cells.clear();
    assert_eq!(counts(&read(&nothing)), [5, 0, 2, 0]);
    assert_eq!(counts(&read(&many()))[2], 2, "a cell of eight, and a limit of one that is valid");
}

#[test]
fn a_manifest_of_many_cells_took_minutes() {
    // Ten times as many cells take about ten times as long; when each was looked for among all of
    // them, it was a hundred times.
    let took = [15_000, 150_000].map(|cells| {
        let mut run = run(&["all"]);
        let refused =
            |n: u32| CellEntry { id: format!("cell-{n}"), refused: Some("no device".into()), ..CellEntry::default() };
        run.manifest.cells.extend((0..cells).map(refused));
        let began = Instant::now();
        for format in ["junit", "md"] {
            assert!(run.draw(format, 100).contains(&format!("cell-{}", cells - 1)), "{format}");
        }
        began.elapsed()
    });
    assert!(took[1] < took[0] * 50, "{took:?}");
}

#[test]
fn the_page_and_junit_escape_alike() {
    let mut run = run(&["all"]);
    let evil = "<a'\"&\u{fffe}\u{202e}\u{1b}\t>";
    run.results.verdicts.push(Verdict::new("failed", Level::Invalid, evil));
    let plain = "&lt;a&#39;&quot;&amp;\u{fffd}  \t&gt;";
    for format in ["junit", "html"] {
        let drawn = run.draw(format, 100);
        assert!(drawn.contains(plain) && !drawn.contains(evil), "{format}");
    }
}

/// An element, and the text that is in it alone.
pub struct Tag {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    pub text: String,
}

/// All elements, in the order in which they begin.
pub fn tags(xml: &str) -> Vec<Tag> {
    let legal = |c: char| matches!(c, '\t' | '\n' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(xml.chars().all(legal), "XML has no such character: {xml:?}");
    let mut rest = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").expect("a declaration");
    let (mut tags, mut open): (Vec<Tag>, Vec<usize>) = (Vec::new(), Vec::new());
    while let Some((before, after)) = rest.split_once('<') {
        match open.last() {
            Some(at) => tags[*at].text += &plain(before),
            None => assert_eq!(before.trim(), "", "text outside of the root"),
        }
        let (inside, next) = after.split_once('>').expect("a tag that ends");
        rest = next;
        if let Some(name) = inside.strip_prefix('/') {
            let at = open.pop().expect("something is open");
            assert_eq!(tags[at].name, name, "{xml}");
            continue;
        }
        assert!(open.is_empty() == tags.is_empty(), "one root: {xml}");
        let (inside, closed) = inside.strip_suffix('/').map_or((inside, false), |inside| (inside, true));
        let (name, mut list) = inside.split_once(' ').unwrap_or((inside, ""));
        let mut attributes = BTreeMap::new();
        while !list.is_empty() {
            let (name, value) = list.split_once("=\"").expect("an attribute");
            let (value, more) = value.split_once('"').expect("a value that ends");
            assert!(name.chars().all(|c| c.is_ascii_lowercase()), "{name}");
            assert!(attributes.insert(name.to_owned(), plain(value)).is_none(), "{name} twice: {inside}");
            list = more.strip_prefix(' ').unwrap_or_else(|| {
                assert_eq!(more, "");
                more
            });
        }
        if !closed {
            open.push(tags.len());
        }
        tags.push(Tag { name: name.to_owned(), attributes, text: String::new() });
    }
    assert!(open.is_empty() && rest == "\n", "it ends with its root: {xml}");
    tags
}

/// Text without its entities.
fn plain(text: &str) -> String {
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (entity, rest) = part.split_once(';').expect("an entity");
        let entities = [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("#39", '\'')];
        let (_, c) = entities.iter().find(|(name, _)| *name == entity).expect("a known entity");
        out.push(*c);
        out += rest;
    }
    out
}
