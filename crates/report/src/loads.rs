// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background loads as a table and in a few words each. What no load of the cell has, has no
//! column.

use crate::block::Table;
use crate::figure;
use std::collections::BTreeMap;
use tardy_model::result::LoadResult;

/// A column: its title, and the figure of a load that has it.
type Column = (&'static str, fn(&LoadResult, Option<char>) -> Option<String>);

const COLUMNS: [Column; 14] = [
    ("Mbit/s", |load, s| moved(load).then(|| mega(load.achieved_bit_s, s))),
    ("asked Mbit/s", |load, s| load.asked_bit_s.map(|bits| mega(bits as f64, s))),
    ("bytes", |load, s| moved(load).then(|| count(load.bytes, s))),
    ("recvs", |load, s| load.receives.map(|n| count(n, s))),
    ("B a recv", |load, s| load.bytes_a_receive.map(|bytes| count(bytes.round() as u64, s))),
    ("sends", |load, s| load.sends.map(|n| count(n, s))),
    ("B a send", |load, s| load.bytes_a_send.map(|bytes| count(bytes.round() as u64, s))),
    ("lost", |load, s| load.lost.map(|n| count(n, s))),
    ("retransmits", |load, s| load.retransmits.map(|n| count(n, s))),
    ("timeouts", |load, s| load.timeouts.map(|n| count(n, s))),
    ("transactions/s", |load, s| load.transactions_per_s.map(|n| count(n.round() as u64, s))),
    ("busy", |load, _| load.duty.map(figure::share)),
    ("copied MB/s", |load, s| load.copied_bytes_per_s.map(|bytes| mega(bytes, s))),
    ("ended", |load, _| (!load.exits.is_empty()).then(|| load.exits.join("; "))),
];

/// True if it moves bytes over the network, and tardy knows how many.
fn moved(load: &LoadResult) -> bool {
    load.sent_bytes.is_some()
}

fn count(n: u64, separator: Option<char>) -> String {
    separator.map_or(n.to_string(), |s| figure::count(n, s))
}

/// In millions, with one decimal.
fn mega(n: f64, separator: Option<char>) -> String {
    let text = format!("{:.1}", n / 1e6);
    separator.map_or(text.clone(), |s| figure::grouped(&text, s))
}

/// `tcp_stream`, `tcp_stream × 3`.
fn kind(load: &LoadResult) -> String {
    if load.count > 1 { format!("{} × {}", load.kind, load.count) } else { load.kind.clone() }
}

/// The loads of a cell, and the instances of those that have several.
pub(crate) fn table(loads: &BTreeMap<String, LoadResult>, separator: Option<char>) -> Option<Table> {
    let mut rows: Vec<(String, String, &LoadResult)> = Vec::new();
    for (name, load) in loads {
        rows.push((name.clone(), kind(load), load));
        for (n, instance) in load.instances.iter().enumerate() {
            rows.push((format!("{name}, instance {}", n + 1), instance.kind.clone(), instance));
        }
    }
    if rows.is_empty() {
        return None;
    }
    let has = |column: &&Column| rows.iter().any(|(_, _, load)| column.1(load, separator).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(has).collect();
    let mut table = Table::new(2, &["load", "kind"]);
    table.head.extend(columns.iter().map(|(title, _)| (*title).to_owned()));
    for (name, kind, load) in &rows {
        let figures = columns.iter().map(|(_, of)| of(load, separator).unwrap_or_default());
        table.rows.push([name.clone(), kind.clone()].into_iter().chain(figures).collect());
    }
    Some(table)
}

/// What there is to say of a load, in parts that do not stand apart from each other's figures.
pub(crate) fn parts(name: &str, load: &LoadResult, separator: Option<char>) -> Vec<String> {
    let mut parts = vec![format!("{name} {}", kind(load))];
    let mut add = |part: Option<String>| parts.extend(part);
    if moved(load) {
        let asked = load.asked_bit_s.map_or(String::new(), |bits| format!(" of {}", mega(bits as f64, separator)));
        add(Some(format!("{}{asked} Mbit/s", mega(load.achieved_bit_s, separator))));
        add(Some(format!("{} B", count(load.bytes, separator))));
    }
    let calls = |n: Option<u64>, what: &str, each: Option<f64>| {
        let each = each.map_or(String::new(), |bytes| format!(" ({} B)", count(bytes.round() as u64, separator)));
        n.map(|n| format!("{} {what}{each}", count(n, separator)))
    };
    add(load.transactions_per_s.map(|n| format!("{} transactions/s", count(n.round() as u64, separator))));
    add(calls(load.receives, "recvs", load.bytes_a_receive));
    add(calls(load.sends, "sends", load.bytes_a_send));
    add(load.lost.map(|n| format!("lost {}", count(n, separator))));
    add(load.retransmits.map(|n| format!("retransmits {}", count(n, separator))));
    add(load.timeouts.filter(|n| *n > 0).map(|n| format!("timeouts {}", count(n, separator))));
    let asked = load.asked_duty.map_or(String::new(), |asked| format!(" of {}", figure::share(asked)));
    add(load.duty.map(|duty| format!("busy {}{asked}", figure::share(duty))));
    add(load.copied_bytes_per_s.map(|bytes| format!("{} MB/s copied", mega(bytes, separator))));
    if !load.exits.is_empty() {
        add(Some(load.exits.join("; ")));
    }
    parts
}
