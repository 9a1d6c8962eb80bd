// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results, manifest and samples, from the schemas that `tardy schema` prints.

use super::chapter::{Chapter, start, table};
use crate::manual::markdown::escaped;
use serde_json::Value;
use std::fmt::Write;
use std::iter;
use tardy_model::schema;

pub fn chapters() -> [Chapter; 3] {
    [
        ("results.md".to_owned(), of_schema("results.json", "results", &schema::results())),
        ("manifest.md".to_owned(), of_schema("manifest.json", "manifest", &schema::manifest())),
        ("samples.md".to_owned(), samples(&tardy_store::samples_schema())),
    ]
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// A chapter from a JSON Schema: a table for the file, and one for each definition.
fn of_schema(file: &str, of: &str, schema: &Value) -> String {
    let says = format!(
        "{} A field that is not *always* there is left out where it has nothing to say, or by an older version. Readers must \
         bear fields that they do not know: later versions add some.\n\nThe same as JSON Schema: `tardy schema {of}`.",
        text(schema, "description")
    );
    let mut out = start(file, &says);
    let _ = write!(out, "\n{}", fields(schema));
    for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
        let _ = write!(out, "\n## {name}\n");
        for says in [text(definition, "description")].into_iter().filter(|says| !says.is_empty()) {
            let _ = write!(out, "\n{}\n", escaped(says));
        }
        let body = match definition["properties"].is_object() || definition["oneOf"].is_array() {
            true => fields(definition),
            false => format!("{}\n", kind(definition)),
        };
        let _ = write!(out, "\n{body}");
    }
    out
}

/// An object's fields, and those of the objects of which it is one.
fn fields(object: &Value) -> String {
    let either = object["oneOf"].as_array().into_iter().flatten();
    let parts = iter::once((object, "always")).chain(either.map(|part| (part, "one of these")));
    let rows = parts.flat_map(|(part, there)| {
        part["properties"].as_object().into_iter().flatten().map(move |(name, field)| {
            let is_required = part["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
            let there = if is_required { there } else { "" };
            let says = field.get("description").unwrap_or(&part["description"]).as_str().unwrap_or_default();
            vec![format!("`{name}`"), kind(field), there.to_owned(), escaped(says)]
        })
    });
    table(&["field", "type", "there", "meaning"], rows)
}

/// A field's type in words, with a link where it has a section of its own.
fn kind(field: &Value) -> String {
    if let Some(words) = field["enum"].as_array() {
        return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    if let Some(name) = field["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{name})");
    }
    if let Some(either) = field["anyOf"].as_array() {
        return either.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    if let Some(only) = field.get("const") {
        return format!("`{only}`");
    }
    match &field["type"] {
        Value::String(one) => match one.as_str() {
            "array" => format!("list of {}", kind(&field["items"])),
            "object" if field["additionalProperties"].is_object() => {
                format!("names → {}", kind(&field["additionalProperties"]))
            }
            one => one.to_owned(),
        },
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "anything".to_owned(),
    }
}

fn samples(schema: &Value) -> String {
    let says = format!(
        "`{}`: {}. Each trial has its own. The same as JSON: `tardy schema samples`. How to read it: \
         [samples with DuckDB and Polars](../how-to/samples.md).",
        text(schema, "file"),
        text(schema, "row")
    );
    let mut out = start("samples.parquet", &says);
    let columns = schema["columns"].as_array().into_iter().flatten().chain([&schema["stages"], &schema["full_width"]]);
    let rows = columns.map(|column| {
        let null = if column["nullable"] == Value::Bool(true) { "may be null" } else { "" };
        let name = format!("`{}`", text(column, "name"));
        let unit = text(column, "unit").to_owned();
        vec![name, text(column, "type").to_owned(), unit, null.to_owned(), escaped(text(column, "says"))]
    });
    let _ = write!(out, "\n## Columns\n\n{}", table(&["column", "type", "unit", "", "meaning"], rows));
    let words = |key: &str| {
        let words: Vec<&str> = schema[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        format!("`{}`", words.join("` `"))
    };
    let _ = write!(out, "\n## Outcomes\n\n{}\n", words("outcomes"));
    let _ = write!(out, "\n## Points\n\nIn the order of a packet's way: {}\n", words("points"));
    let rows =
        schema["flags"].as_array().into_iter().flatten().map(|flag| {
            vec![flag["bit"].to_string(), format!("`{}`", text(flag, "name")), escaped(text(flag, "says"))]
        });
    let _ = write!(out, "\n## Flags\n\n{}", table(&["bit", "name", "meaning"], rows));
    let _ = write!(out, "\n## The view\n\nFor DuckDB, in the run folder.\n\n```sql\n{}```\n", text(schema, "view"));
    out
}
