// SPDX-License-Identifier: MIT OR Apache-2.0
//! What differed in the machine, the programs and the experiment: the manifest leaf by leaf, and
//! the experiment key by key.

use super::leaves::flatten;
use super::run::Run;
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::comparison::{Difference, Group};

/// Leaves of the manifest that tell when and where a run was made, or what it measured, not what
/// the machine is. The names of namespaces follow from a slot; what was read back holds counters
/// and numbers that every run has anew: of it the queue disciplines are looked at by themselves.
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
    // The experiment is packed into what a guest boots. Where it differs the sum differs of
    // necessity, whatever else is in there: its row would look like a finding and be none. Where
    // the experiment is the same the row stays. It may then be all that tells of another build of
    // tardy, or of a library, for those have no row of their own.
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
        PASSING.iter().any(|name| key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
            || key.starts_with("stations.") && key.ends_with(".netns")
    };
    let of_manifest = leaves.into_iter().filter(|(key, _)| !passing(key)).map(|(key, value)| (placed(&key), value));
    let of_manifest = of_manifest.chain(super::qdiscs::facts(run.manifest));
    let of_experiment = run.keys.iter().map(|(key, value)| ((Group::Experiment, key.clone()), value.clone()));
    of_manifest.chain(of_experiment).collect()
}

/// The group of a leaf, and its name there.
fn placed(key: &str) -> (Group, String) {
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
