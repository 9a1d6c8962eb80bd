// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys with what was written for them, read one by one, and a layer of them, in which nothing is
//! set twice: the base of a file, or what one of its cases sets.

use crate::error::{At, Faults, MOST, Problem, Reason};
use crate::schema::{self, Value};
use crate::tree::{Node, Toml};
use std::collections::{BTreeMap, HashSet};

/// Most axes: the id of a cell has a value of each, and names a folder.
const MOST_AXES: usize = 50;

/// What is wrong with this number of axes, if anything is.
pub(super) fn too_many_axes(axes: usize, at: &At) -> Option<Problem> {
    let message =
        format!("the experiment has {axes} axes; the id of a cell, which names each, has room for {MOST_AXES}");
    let help = "set in a [[case]] what belongs together, or write several experiments";
    (axes > MOST_AXES).then(|| Problem::new(Reason::Combination, at, message, help))
}

/// A key with the value that somebody wrote.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub key: String,
    /// Its line in the table.
    pub schema: &'static schema::Key,
    pub node: Node,
    pub value: Value,
    /// Where the key is.
    pub key_at: At,
}

/// Assignments by full dotted key.
pub(crate) type Layer = BTreeMap<String, Assignment>;

/// A key of the table with what was written for it, not yet read as a value.
pub(super) struct Leaf<'a> {
    pub path: Vec<String>,
    pub schema: &'static schema::Key,
    pub key_at: At,
    pub node: &'a Node,
}

impl Leaf<'_> {
    pub fn key(&self) -> String {
        self.path.join(".")
    }

    /// Reads it; `None` if its value is wrong, which is reported.
    pub fn read(&self, node: &Node, faults: &mut Faults) -> Option<Assignment> {
        let key = self.key();
        if node.is_unreadable() {
            faults.broke(key);
            return None;
        }
        match self.schema.kind.read(&key, node) {
            Ok(value) => {
                let node = self.schema.kind.plain(node, &value);
                Some(Assignment { key, schema: self.schema, node, value, key_at: self.key_at.clone() })
            }
            Err(problem) => {
                let each = self.each_item(&key, node);
                let all = if each.is_empty() { vec![problem] } else { each };
                all.into_iter().for_each(|problem| faults.add_value(&key, problem));
                None
            }
        }
    }

    /// What is wrong with each entry of a list whose entries have nothing to do with each other.
    fn each_item(&self, key: &str, node: &Node) -> Vec<Problem> {
        let (Toml::List(items), true) = (&node.value, self.schema.kind.reads_items_alone()) else { return Vec::new() };
        let alone = |item: &Node| Node { value: Toml::List(vec![item.clone()]), at: node.at.clone() };
        items.iter().filter_map(|item| self.schema.kind.read(key, &alone(item)).err()).take(MOST).collect()
    }
}

/// Leaves as one layer, in which nothing is set twice.
pub(super) fn layer(leaves: &[Leaf<'_>], faults: &mut Faults) -> Layer {
    settle(leaves, faults);
    let mut layer = Layer::new();
    for leaf in leaves {
        let Some(assignment) = leaf.read(leaf.node, faults) else { continue };
        let key = assignment.key.clone();
        if let Some(rival) = leaf.schema.rival_of(&key).filter(|rival| layer.contains_key(rival)) {
            faults.add_value(&key, both(&rival, &key, &leaf.key_at));
        } else if layer.insert(key.clone(), assignment).is_some() {
            faults.add_value(&key, twice(&key, &leaf.key_at));
        }
    }
    layer
}

/// Decides what the unknown keys next to these leaves were meant to be.
pub(super) fn settle(leaves: &[Leaf<'_>], faults: &mut Faults) {
    faults.settle(|| leaves.iter().map(Leaf::key).collect::<HashSet<String>>());
}

pub(super) fn twice(key: &str, at: &At) -> Problem {
    Problem::new(Reason::Combination, at, format!("`{key}` is set twice"), "leave one of the two out")
}

pub(super) fn both(first: &str, second: &str, at: &At) -> Problem {
    let message = format!("`{first}` and `{second}` say the same in two ways");
    Problem::new(Reason::Combination, at, message, "leave one of the two out")
}
