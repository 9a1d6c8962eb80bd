// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dashboard for Grafana: it fits Grafana's own types, and asks only for series and labels that
//! `tardy export --to prometheus` writes.

use crate::{Run, lossy, output, sound, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../integrations/grafana")
}

fn dashboard() -> Value {
    serde_json::from_str(&text(&folder().join("dashboard.json"))).expect("JSON")
}

/// What the compiler says of a dashboard; `None`, and counted as skipped, if it is not there.
fn compiled(test: &str, dashboard: &str) -> Option<String> {
    let cache = std::env::var_os("TARDY_CACHE").map_or_else(|| "../.cache".into(), PathBuf::from).join("grafana");
    if !cache.join("node_modules/typescript/bin/tsc").is_file() {
        tardy_tests::skip(test, "Grafana's types are not there: `make setup-test` fetches them");
        return None;
    }
    let head = text(&folder().join("check.ts"));
    let program = format!("{head}const dashboard: Plain<Dashboard> = {dashboard};\nvoid dashboard;\n");
    // The types are found from the folder in which the program is.
    let file = tempfile::Builder::new().suffix(".ts").tempfile_in(&cache).expect("a file");
    std::fs::write(file.path(), program).expect("written");
    let options = ["--noEmit", "--strict", "--skipLibCheck", "--moduleResolution", "bundler", "--module", "esnext"];
    let mut command = Command::new("node");
    command.arg("node_modules/typescript/bin/tsc").args(options).arg(file.path()).current_dir(&cache);
    let ended = output(&mut command);
    let says = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.status.success(), says.is_empty(), "{says}");
    Some(says)
}

#[test]
fn the_dashboard_fits_grafanas_types() {
    let test = "the_dashboard_fits_grafanas_types";
    let text = text(&folder().join("dashboard.json"));
    let Some(says) = compiled(test, &text) else { return };
    assert_eq!(says, "");
    // And the check does find what is wrong.
    for (right, wrong) in
        [("\"gridPos\"", "\"gridpos\""), ("\"special\"", "\"specially\""), ("\"editable\": true", "\"editable\": 1")]
    {
        assert!(text.contains(right));
        let says = compiled(test, &text.replacen(right, wrong, 1)).expect("the compiler is there");
        assert!(says.contains("error TS"), "{wrong}: {says}");
    }
}

/// Each series that a query asks for, with the labels that it names.
fn asked(query: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut found = Vec::new();
    for (at, _) in query.match_indices("tardy_") {
        let rest = &query[at..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let labels = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(labels, _)| labels);
        // A label's value may hold a comma or an equals sign only within quotes.
        let labels = labels.split('"').step_by(2).filter_map(|part| {
            let part = part.trim_start_matches(',').trim();
            let end = part.find(['=', '!'])?;
            Some(part[..end].trim().to_owned())
        });
        found.push((name.to_owned(), labels.collect()));
    }
    found
}

#[test]
fn the_dashboard_asks_only_for_series_that_an_export_has() {
    let mut written: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for run in [Run::simulated("sound", sound(), 0), Run::simulated("lossy", lossy(), 1)] {
        for line in text(&run.exported("prometheus").0).lines().filter(|line| !line.starts_with('#')) {
            let (name, labels) = line.split_once('{').expect("labels");
            let (labels, _) = labels.rsplit_once('}').expect("labels");
            let labels = labels.split("\",").filter_map(|pair| Some(pair.split_once("=\"")?.0.to_owned()));
            written.entry(name.to_owned()).or_default().extend(labels);
        }
    }
    // Only of figures between two hosts, and only of those with lost packets.
    let latency = written["tardy_latency_seconds"].clone();
    written.entry("tardy_latency_clock_bound_seconds".to_owned()).or_insert_with(|| latency.clone());
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let of_variables = dashboard["templating"]["list"].as_array().expect("variables").iter();
    let texts: Vec<&str> = queries
        .map(|target| target["expr"].as_str().expect("a query"))
        .chain(of_variables.filter_map(|variable| variable["query"]["query"].as_str()))
        .collect();
    let mut compared = 0;
    for text in &texts {
        for (name, labels) in asked(text) {
            let has = written.get(&name).unwrap_or_else(|| panic!("no export has {name}: {text}"));
            assert!(labels.is_subset(has), "{name} has the labels {has:?}: {text}");
            compared += 1;
        }
    }
    assert!(compared > texts.len(), "{compared}");
    let numbers: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().expect("a number")).collect();
    assert_eq!(numbers.len(), panels.len(), "each panel has a number of its own");
}
