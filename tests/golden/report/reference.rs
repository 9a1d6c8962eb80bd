// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reference results next to a run's: every table can be named, its figures are the document's, and
//! cells are where they belong.

use super::sample::{Run, run};
use tardy_spec::{Source, load};

const TABLES: [&str; 6] = ["R1", "R2", "R2-load", "R3", "R4", "R5"];
const DOCUMENT: &str = include_str!("../../../docs/reference-results.md");

fn naming(id: &str, cells: &[&str]) -> Run {
    let mut run = run(cells);
    run.facts.reference = Some(id.to_owned());
    run
}

/// The rows of the table below the run's heading of it.
fn beside(run: &Run, id: &str) -> Vec<Vec<String>> {
    let text = run.draw("md", 100);
    let (_, text) = text.split_once(&format!("## Beside reference results {id}\n")).expect("its heading");
    table(text)
}

/// The first table of a text, without its head.
fn table(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.skip(2).map(cells).collect()
}

/// The figures of a row, as numbers without separators.
fn figures(row: &[String]) -> Vec<String> {
    let plain = |text: &String| text.replace([' ', '\u{202f}'], "");
    let number = |text: &String| text.parse::<f64>().ok().map(|n| n.to_string());
    row.iter().map(plain).filter_map(|text| number(&text)).collect()
}

#[test]
fn every_table_of_the_document_can_be_named_and_is_drawn() {
    for id in TABLES {
        let text = format!("reference = \"{id}\"\n[station.a]\n[station.b]\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\n");
        let loaded = load(&Source { name: "x.toml".into(), text }, &[]).expect("it can be named");
        assert_eq!(loaded.reference.as_deref(), Some(id));
        let run = naming(id, &["mine"]);
        for format in ["md", "org", "html", "text"] {
            let text = run.draw(format, 100).split_whitespace().collect::<Vec<_>>().join(" ");
            let shown = text.contains("other hardware") && text.contains("no cell of this run");
            assert!(text.contains(id) && shown, "{id} as {format}: {text}");
        }
    }
}

#[test]
fn figures_beside_a_run_are_those_of_the_document() {
    // R4 and R5 have a column more in the document than a row has figures: bytes of a buffer.
    for id in TABLES {
        let mut documented: Vec<(String, Vec<String>)> = Vec::new();
        for line in DOCUMENT.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<String> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            documented.push((cells[0].trim_matches('`').to_owned(), figures(&cells[1..])));
        }
        let rows = beside(&naming(id, &["mine"]), id);
        assert!(rows.len() >= 3, "{id}: {rows:?}");
        for row in rows {
            assert_eq!(row[1], format!("{id}, no cell of this run"));
            let name = row[0].replace('\\', "");
            let mut ours = figures(&row);
            let known = documented.iter().filter(|(cell, _)| *cell == name);
            ours.sort();
            let holds = |theirs: &Vec<String>| ours.iter().all(|figure| theirs.contains(figure));
            let mut known = known.map(|(_, figures)| figures);
            assert!(!ours.is_empty() && known.any(holds), "{id} {name}: {ours:?} in {documented:?}");
        }
    }
}

#[test]
fn a_cell_stands_above_the_row_of_its_name_and_of_no_other() {
    let run = naming("R1", &["none-idle", "mine"]);
    let rows = beside(&run, "R1");
    assert_eq!(rows.len(), 9, "{rows:?}");
    assert_eq!(rows[0][..6], ["none-idle", "this run", "10.9", "14.7", "915.0", "7.2"]);
    assert_eq!(rows[1][..6], ["", "R1", "12.4", "12.7", "41.4", "0.5"]);
    assert_eq!(rows[2][..2], ["none-loaded", "R1, no cell of this run"]);
    assert!(rows.iter().all(|row| row[0] != "mine"), "{rows:?}");
    let text = run.draw("text", 100);
    assert!(text.contains("none-idle: min 12.4 avg 12.7 max 41.4 stddev 0.5 µs, delta min 470.4"), "{text}");
    // Of a table in ns this run's figures are ns, and a figure that the table does not have is
    // none.
    let mut run = naming("R4", &["igb-RT1-spin-same"]);
    let ctl = run.results.cells[0].streams.get_mut("ctl").expect("ctl");
    let figures = ctl.metrics["rx_kernel..receive"].clone();
    ctl.metrics.insert("rx_xdp..receive".into(), figures);
    let rows = beside(&run, "R4");
    let ours = rows.iter().position(|row| row[1] == "this run").expect("our row");
    assert_eq!(rows[ours], ["igb-RT1-spin-same", "this run", "15100", "20400", "501900"]);
    assert_eq!(rows[ours + 1], ["", "R4", "2129", "2577", "4155"]);
    // An experiment of one condition, of the one row that is host to host.
    let rows = beside(&naming("R3", &["all"]), "R3");
    assert_eq!([&*rows[0][1], &*rows[1][1], &*rows[2][1]], ["this run", "R3", "R3, no cell of this run"]);
}
