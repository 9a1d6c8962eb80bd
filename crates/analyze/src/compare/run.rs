// SPDX-License-Identifier: MIT OR Apache-2.0
//! One of the two runs that are compared, and what differed between both in the machine, the
//! programs and the experiment.

use super::phases::Phases;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tardy_model::comparison::{Compared, Difference, Group};
use tardy_model::harmless::Json;
use tardy_model::manifest::{Manifest, QdiscsOf};
use tardy_model::result::{CellResult, Results};

/// All that a comparison uses of one run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Its folder, as it was named.
    pub name: &'a str,
    /// The folder that the name leads to; `None` if that is not known.
    pub folder: Option<&'a Path>,
    /// What the machine and the tools were.
    pub manifest: &'a Manifest,
    pub results: &'a Results,
    /// The experiment's keys with their values.
    pub keys: &'a BTreeMap<String, String>,
    /// The phase of each stream of each finished trial, ns.
    pub phases: &'a Phases,
}

/// Verdicts on a run that did not come to its end.
const CUT: [&str; 3] = ["killed", "interrupted", "failed"];

impl Run<'_> {
    pub(super) fn compared(&self) -> Compared {
        Compared {
            run: self.name.to_owned(),
            name: self.results.name.clone(),
            started_utc: self.manifest.started_utc.clone(),
            valid: self.results.valid,
            fingerprint: print(self).cloned(),
            trials: self.results.cells.iter().map(|cell| cell.trials.len() as u32).sum(),
            cut: CUT.into_iter().find(|id| self.results.verdicts.iter().any(|of| of.id == *id)).map(str::to_owned),
            validity: self.results.validity.clone(),
        }
    }

    pub(super) fn cell(&self, id: &str) -> Option<&CellResult> {
        self.results.cells.iter().find(|cell| cell.id == id)
    }
}

/// A run's fingerprint. One over no cell's, as a run without a finished trial may have it, is
/// equal to any other such one and says nothing.
pub(super) fn print<'a>(run: &Run<'a>) -> Option<&'a String> {
    run.results.fingerprint.as_ref().filter(|_| run.results.cells.iter().any(|cell| cell.fingerprint.is_some()))
}

// What differed in the machine, the programs and the experiment: the manifest leaf by leaf, the
// queue disciplines as they were read back, and the experiment key by key.

/// Leaves of the manifest that say when and where a run was made, or what it measured, not what
/// the machine is. The names of namespaces follow from a slot. What was read back contains counters
/// and numbers that differ in every run, so only its queue disciplines are compared, separately.
const PASSING: [&str; 13] = [
    "format",
    "started_utc",
    "ended_utc",
    "command",
    "cells",
    "ruler",
    "read_back",
    "name",
    "machine.load.one_minute",
    "guest.boot_cpu_ns",
    "guest.boot_ns",
    "guest.cpu_ns",
    "guest.host.load.one_minute",
];

/// The sum over what a guest booted.
const ARCHIVE: &str = "initramfs_sha256";

/// How many facts there are, and those that differ.
pub(super) fn differences(a: &Run<'_>, b: &Run<'_>) -> (u64, Vec<Difference>) {
    let (mut of_a, mut of_b) = (facts(a), facts(b));
    // The experiment is packed into what a guest boots. If it differs, the sum necessarily differs,
    // whatever else is in there: its row would look like a finding and be none. If the experiment
    // is the same, the row stays. It may then be the only sign of another build of tardy, or of a
    // library, because those have no row of their own.
    let archive = (Group::Guest, ARCHIVE.to_owned());
    let both = of_a.contains_key(&archive) && of_b.contains_key(&archive);
    if both && experiment(&of_a).ne(experiment(&of_b)) {
        of_a.remove(&archive);
        of_b.remove(&archive);
    }
    let keys: BTreeSet<&(Group, String)> = of_a.keys().chain(of_b.keys()).collect();
    let differ = |key: &&(Group, String)| of_a.get(*key) != of_b.get(*key);
    let row = |key: &(Group, String)| Difference {
        group: key.0,
        key: key.1.clone(),
        a: of_a.get(key).cloned(),
        b: of_b.get(key).cloned(),
    };
    let count = keys.len() as u64;
    (count, keys.into_iter().filter(differ).map(row).collect())
}

/// Those of what was asked for.
fn experiment(facts: &Facts) -> impl Iterator<Item = (&(Group, String), &String)> {
    facts.iter().filter(|((group, _), _)| *group == Group::Experiment)
}

/// Facts by group and name.
type Facts = BTreeMap<(Group, String), String>;

fn facts(run: &Run<'_>) -> Facts {
    let mut leaves = BTreeMap::new();
    flatten(String::new(), &serde_json::to_value(run.manifest).unwrap_or_default(), &mut leaves);
    let passing = |key: &str| {
        let key = of_other_host(key).map_or(key, |(_, key)| key);
        PASSING.iter().any(|name| key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
            || key.starts_with("stations.") && key.ends_with(".netns")
    };
    let of_manifest = leaves.into_iter().filter(|(key, _)| !passing(key)).map(|(key, value)| (placed(&key), value));
    let of_manifest = of_manifest.chain(of_qdiscs(run.manifest));
    let of_experiment = run.keys.iter().map(|(key, value)| ((Group::Experiment, key.clone()), value.clone()));
    of_manifest.chain(of_experiment).collect()
}

/// The name of another host than the coordinator's, and the rest of a leaf that is about it.
fn of_other_host(key: &str) -> Option<(&str, &str)> {
    let (host, rest) = key.strip_prefix("hosts.")?.split_once('.')?;
    Some((host, rest))
}

/// The group of a leaf, and its name there.
fn placed(key: &str) -> (Group, String) {
    if let Some((host, rest)) = of_other_host(key) {
        let (group, name) = placed(rest);
        return (group, format!("{host}: {name}"));
    }
    let groups = [
        ("machine.kernel.", Group::Kernel),
        ("machine.", Group::Machine),
        ("guest.", Group::Guest),
        ("programs.", Group::Programs),
    ];
    let found = groups.into_iter().find_map(|(prefix, group)| Some((group, key.strip_prefix(prefix)?.to_owned())));
    match key {
        "tardy" => (Group::Programs, key.to_owned()),
        // As the key of the experiment, which a file may leave out.
        "seed" => (Group::Experiment, key.to_owned()),
        _ => found.unwrap_or_else(|| (Group::Machine, key.to_owned())),
    }
}

/// Each option of each queue discipline, by station, device and place.
fn of_qdiscs(manifest: &Manifest) -> Vec<((Group, String), String)> {
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

/// Leaves by dotted name. A list is one leaf.
fn flatten(name: String, value: &Value, leaves: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(rows) => {
            for (key, value) in rows {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(name, value, leaves);
            }
        }
        Value::Null => {}
        Value::String(text) => _ = leaves.insert(name, text.clone()),
        other => _ = leaves.insert(name, other.to_string()),
    }
}
