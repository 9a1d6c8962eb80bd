// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON Schemas (2020-12) of `results.json` and `manifest.json`, derived from the types of
//! which the files are written: each field's comment is its description.
//!
//! A schema is of every file of its format, also of those that older versions wrote. What is not
//! `required` is left out where it has nothing to say, or came to the format after its beginning.
//! Readers must accept keys that they do not know, because later versions add some.

use crate::manifest::Manifest;
use crate::result::Results;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// The schema of `results.json`.
pub fn results() -> Value {
    of::<Results>()
}

/// The schema of `manifest.json`.
pub fn manifest() -> Value {
    of::<Manifest>()
}

/// The schema of what is written of a type.
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(as_in_files));
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Removes what concerns Rust and not the file.
fn as_in_files(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else { return };
    // How wide Rust's numbers are.
    schema.remove("format");
    // Later versions may add keys anywhere.
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        schema.remove("additionalProperties");
    }
    list_words(schema);
    settle_presence(schema);
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

/// Makes one list of words that were described one by one; the descriptions go to the end of their
/// type's.
fn list_words(schema: &mut Map<String, Value>) {
    let Some(Value::Array(each)) = schema.get("oneOf") else { return };
    let Some(words) = each.iter().map(|one| one.get("const").cloned()).collect::<Option<Vec<_>>>() else { return };
    let mut says = schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    for one in each {
        if let (Some(word), Some(means)) = (one["const"].as_str(), one["description"].as_str()) {
            says += &format!(" `{word}`: {means}");
        }
    }
    schema.remove("oneOf");
    schema.insert("type".into(), "string".into());
    schema.insert("enum".into(), words.into());
    schema.insert("description".into(), says.into());
}

/// A field that is left out when it is empty is never null. One that has a default came to the
/// format later: files of older versions do not have it. (Fields that have a default for other
/// reasons have `schemars(!default)`.)
fn settle_presence(schema: &mut Map<String, Value>) {
    let mut required = match schema.remove("required") {
        Some(Value::Array(required)) => required,
        _ => Vec::new(),
    };
    for (name, field) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        let Some(field) = field.as_object_mut() else { continue };
        if !required.contains(&json!(name)) {
            forbid_null(field);
        } else if field.remove("default").is_some() {
            required.retain(|other| other != name);
        }
    }
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
}

fn forbid_null(schema: &mut Map<String, Value>) {
    if let Some(types) = schema.get_mut("type")
        && let Some(several) = types.as_array_mut()
    {
        several.retain(|one| one != "null");
        if let [only] = several.as_slice() {
            *types = only.clone();
        }
    }
    let either = schema.get("anyOf").and_then(Value::as_array).map(Vec::as_slice);
    if let Some([Value::Object(other), null]) = either
        && *null == json!({"type": "null"})
    {
        let other = other.clone();
        schema.remove("anyOf");
        schema.extend(other);
    }
}
