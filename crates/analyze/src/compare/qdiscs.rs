// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue disciplines as they were read back, as facts to compare: kind and options of each,
//! without what every run has anew.

use super::leaves::flatten;
use serde_json::Value;
use std::collections::BTreeMap;
use tardy_model::comparison::Group;
use tardy_model::harmless::Json;
use tardy_model::manifest::{Manifest, QdiscsOf};

/// Each option of each queue discipline, by station, device and place.
pub(super) fn facts(manifest: &Manifest) -> Vec<((Group, String), String)> {
    let mut facts = Vec::new();
    for read in &manifest.read_back {
        let Some(QdiscsOf { station, device }) = read.qdiscs_of.clone().or_else(|| of_older(&read.command)) else {
            continue;
        };
        let cell = read.cell.iter().map(|cell| format!("{cell} ")).collect::<String>();
        let Some(says) = tree(&read.says) else {
            let name = format!("{cell}{station} {device}");
            facts.push(((Group::Qdisc, name), format!("an answer of {} bytes", read.says.text().len())));
            continue;
        };
        for qdisc in says.as_array().into_iter().flatten() {
            let place = qdisc["parent"].as_str().unwrap_or("root");
            let kind = qdisc["kind"].as_str().unwrap_or_default();
            let name = format!("{cell}{station} {device} {place} {kind}");
            facts.push(((Group::Qdisc, name.clone()), "set".to_owned()));
            let mut options = BTreeMap::new();
            flatten("options".to_owned(), &qdisc["options"], &mut options);
            aligned(&mut options);
            facts.extend(options.into_iter().map(|(key, value)| ((Group::Qdisc, format!("{name} {key}")), value)));
        }
    }
    facts
}

/// What `tc` says, read. Its answers have some thousand bytes, and a tree of any JSON takes two
/// hundred times its text.
fn tree(says: &Json) -> Option<Value> {
    const LARGEST: usize = 256 << 10;
    Some(says.text()).filter(|text| text.len() <= LARGEST).and_then(|text| serde_json::from_str(text).ok())
}

/// Whose queue disciplines a command asks for, of a run whose manifest does not say it: those of
/// its time had namespaces and links with a slot's number in their names (`tardy-3-a`, `tardy3-0`),
/// which differs where two runs were under way at once.
fn of_older(command: &str) -> Option<QdiscsOf> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let behind = |word: &str| words.iter().position(|known| *known == word).and_then(|at| words.get(at + 1).copied());
    if words.first() != Some(&"tc") || behind("qdisc") != Some("show") {
        return None;
    }
    let namespace = behind("-n").unwrap_or_default();
    let station =
        namespace.strip_prefix("tardy-").and_then(|rest| rest.split_once('-')).map_or(namespace, |(_, name)| name);
    let device = behind("dev")?;
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let own = device.strip_prefix("tardy").and_then(|rest| rest.split_once('-'));
    let device = if own.is_some_and(|(slot, end)| number(slot) && number(end)) { QdiscsOf::MADE } else { device };
    Some(QdiscsOf { station: station.to_owned(), device: device.to_owned() })
}

/// A base time lies in the future of each run: what stays of it is where in the cycle it begins.
fn aligned(options: &mut BTreeMap<String, String>) {
    let number = |name: &str| options.get(name).and_then(|text| text.parse::<i64>().ok());
    if let (Some(base), Some(cycle)) =
        (number("options.base_time"), number("options.cycle_time").filter(|cycle| *cycle > 0))
    {
        options.insert("options.base_time".to_owned(), format!("{} in the cycle", base.rem_euclid(cycle)));
    }
}
