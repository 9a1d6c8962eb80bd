// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiment file → checked [`Experiment`]. An error names file, line and column and the mend.
//!
//! [`resolve`] finds the text, [`load`] reads and checks it. Every key stands in one table, [`schema::KEYS`].

mod cell;
mod cells;
mod check;
mod effective;
mod error;
pub mod experiment;
mod load;
mod near;
mod open;
pub mod placement;
mod ready_made;
pub mod schema;
mod setup;
mod shaper;
mod sheet;
mod source;
mod stamps;
mod tree;
mod validity;
mod values;

pub use error::{Place, Reason, SpecError};
pub use load::under_test;
pub use open::{read, ready_made, resolve};
pub use ready_made::READY_MADE;
pub use schema::json_schema;
pub use source::{LARGEST, Source};

use cell::View;
use error::{At, Origin, Problem};
use experiment::Experiment;
use schema::Value;
use sheet::Sheet;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

/// Reads and checks an experiment. `overrides` are `KEY=VALUE` as after `--set`: the value is TOML, or else text; a later
/// one wins over an earlier one and over the file, its cases and its axes. Pure: the machine is not looked at.
///
/// # Errors
/// The first fault, with its place in the file or its `--set`, and the mend.
pub fn load(source: &Source, overrides: &[String]) -> Result<Experiment, SpecError> {
    open::check_size(source)?;
    load_checked(source, overrides).map_err(|problem| problem.into_error(source, overrides))
}

fn load_checked(source: &Source, overrides: &[String]) -> Result<Experiment, Problem> {
    if source.text.trim().is_empty() {
        let help = "start from a ready-made experiment, as host-to-host";
        return Err(Problem::new(Reason::Unreadable, &At::START, "the experiment is empty", help));
    }
    let sheet = pinned(&tree::document(&source.text)?, overrides)?;
    let view = View::new(&sheet, None, &[], None);
    let whole = view.table("", None);
    let integer = |value: &Value| if let Value::Integer(number) = value { u64::try_from(*number).ok() } else { None };
    let name = match whole.find("name") {
        Some(Value::Text(name)) => name.clone(),
        _ => name_of(&source.name),
    };
    let trials = whole.get("trials", |value| integer(value).and_then(|number| u32::try_from(number).ok()))?;
    let seed = whole.get("seed", integer)?;
    let cells = cells::cells(&sheet)?;
    let effective = effective::effective(&sheet, &name, &cells);
    // A run's own file must not be refused when the run is looked at.
    if effective.len() as u64 > LARGEST {
        let message =
            format!("with all defaults written out it would be larger than the {LARGEST} bytes of an experiment file");
        return Err(Problem::new(
            Reason::Combination,
            &At::START,
            message,
            "leave streams, loads, cases or values out",
        ));
    }
    let reference = match whole.find("reference") {
        Some(schema::Value::Text(table)) => Some(table.clone()),
        _ => None,
    };
    let validity = validity::of(&sheet)?;
    Ok(Experiment { name, trials, seed, reference, validity, cells, effective })
}

/// The keys that an experiment file writes, with their values as TOML: of cases under `case.NAME`, of axes under `matrix`.
///
/// # Errors
/// As [`load`].
pub fn keys(source: &Source) -> Result<BTreeMap<String, String>, SpecError> {
    open::check_size(source)?;
    let sheet = tree::document(&source.text).and_then(|document| Sheet::new(&document));
    let sheet = sheet.map_err(|problem| problem.into_error(source, &[]))?;
    let base = sheet.base.iter().map(|(key, row)| (key.clone(), row.node.toml()));
    let cases = sheet.cases.iter().flat_map(|case| {
        let set = case.set.iter().map(|(key, row)| (format!("case.{}.{key}", case.name), row.node.toml()));
        set.chain(case.set.is_empty().then(|| (format!("case.{}", case.name), "{ }".to_owned())))
    });
    let axes = sheet.axes.iter().map(|axis| {
        let values: Vec<String> = axis.values.iter().map(|value| value.node.toml()).collect();
        (format!("matrix.{}", axis.key), format!("[{}]", values.join(", ")))
    });
    Ok(base.chain(cases).chain(axes).collect())
}

/// The keys that overrides write, by their full names, however they are written.
///
/// # Errors
/// As [`load`].
pub fn keys_set(source: &Source, overrides: &[String]) -> Result<BTreeSet<String>, SpecError> {
    open::check_size(source)?;
    let sheet = tree::document(&source.text).and_then(|document| pinned(&document, overrides));
    let sheet = sheet.map_err(|problem| problem.into_error(source, overrides))?;
    let set = sheet.base.values().filter(|row| matches!(row.key_at.origin, Origin::Set(_)));
    Ok(set.map(|row| row.key.clone()).collect())
}

/// The file with the overrides laid over it.
fn pinned(document: &tree::Node, overrides: &[String]) -> Result<Sheet, Problem> {
    let mut sheet = Sheet::new(document)?;
    for (n, argument) in overrides.iter().enumerate() {
        sheet.pin(argument, n)?;
    }
    Ok(sheet)
}

/// The name of an experiment that gives itself none: its file's, as far as a name can have it.
fn name_of(file: &str) -> String {
    let stem = Path::new(file).file_stem().map(OsStr::to_string_lossy).unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = stem.chars().map(|c| if allowed(c) { c } else { '-' }).take(100).collect();
    match name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()) {
        "" => "experiment".to_owned(),
        name => name.to_owned(),
    }
}
