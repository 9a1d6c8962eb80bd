// SPDX-License-Identifier: MIT OR Apache-2.0
//! Markdown, Org, CSV and JSON.

use super::same;
use super::sample::{many, odd, run};
use tardy_model::manifest::GuestEntry;
use tardy_model::result::Results;

#[test]
fn markdown_as_written() {
    same(&odd().draw("md", 100), include_str!("odd.md"));
}

#[test]
fn org_as_written() {
    same(&odd().draw("org", 100), include_str!("odd.org"));
}

#[test]
fn csv_as_written() {
    same(&odd().draw("csv", 100), include_str!("odd.csv"));
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
