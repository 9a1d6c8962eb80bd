// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tree of JSON, leaf by leaf.

use serde_json::Value;
use std::collections::BTreeMap;

/// Leaves by dotted name. A list is one leaf.
pub(super) fn flatten(name: String, value: &Value, leaves: &mut BTreeMap<String, String>) {
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
