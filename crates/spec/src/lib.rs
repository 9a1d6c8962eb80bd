// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiment file → checked [`Experiment`]. Each error names file, line and column and how to fix
//! it, and all of them are reported at once.
//!
//! [`resolve`] finds the text, [`load`] reads and checks it. One table has every key,
//! [`schema::KEYS`].

mod cell;
mod cells;
mod check;
mod copying;
mod effective;
mod error;
pub mod experiment;
mod load;
mod machines;
mod nics;
mod open;
pub mod schema;
mod setup;
mod shaper;
mod sheet;
mod stamps;
pub mod synonyms;
mod tree;
mod unknown;

pub use error::{LARGEST, Place, Reason, Source, SpecError};
pub use load::under_test;
pub use open::{READY_MADE, read, ready_made, resolve};

use cell::View;
use error::{At, Faults, Origin, Problem};
use experiment::Experiment;
use schema::Value;
use sheet::Sheet;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use tardy_model::port::Port;
use tardy_model::station::StationKind;
use tardy_model::stream::CpuChoice;

/// Reads and checks an experiment. `overrides` are `KEY=VALUE` as after `--set`: the value is TOML,
/// or else text; a later one wins over an earlier one and over the file, its cases and its axes.
/// Pure: it does not read the machine.
///
/// # Errors
/// All that is wrong, each fault with its place in the file or its `--set`, and how to fix it. What
/// depends on a wrong value is not checked.
pub fn load(source: &Source, overrides: &[String]) -> Result<Experiment, SpecError> {
    open::check_size(source)?;
    let mut faults = Faults::default();
    let experiment = load_checked(source, overrides, &mut faults);
    refused(faults, source, overrides)?;
    experiment.ok_or_else(|| {
        let message = "the experiment could not be read, and nothing was found wrong with it".to_owned();
        let help = "this is a fault of tardy: report it".to_owned();
        SpecError::whole(source.name.clone(), Reason::Internal, message, help)
    })
}

/// An error, if anything is wrong.
fn refused(faults: Faults, source: &Source, overrides: &[String]) -> Result<(), SpecError> {
    SpecError::of(faults.in_order(), source, overrides).map_or(Ok(()), Err)
}

fn load_checked(source: &Source, overrides: &[String], faults: &mut Faults) -> Option<Experiment> {
    if source.text.trim().is_empty() {
        let help = "start from a ready-made experiment, as host-to-host";
        faults.add(Problem::new(Reason::Unreadable, &At::START, "the experiment is empty", help));
        return None;
    }
    let sheet = pinned(&tree::document(&source.text, faults)?, overrides, faults);
    let validity = check::validity(&sheet, faults);
    let cells = cells::cells(&sheet, faults);
    if !faults.is_empty() {
        return None;
    }
    let (name, trials, seed) = whole(&sheet, source, faults)?;
    let effective = effective::effective(&sheet, &name, &cells);
    // A run's own file must not be refused when the run is read again.
    if effective.len() as u64 > LARGEST {
        let message =
            format!("with all defaults written out it would be larger than the {LARGEST} bytes of an experiment file");
        let help = "leave streams, loads, cases or values out";
        faults.add(Problem::new(Reason::Combination, &At::START, message, help));
        return None;
    }
    let reference = match sheet.base.get("reference").map(|row| &row.value) {
        Some(schema::Value::Text(table)) => Some(table.clone()),
        _ => None,
    };
    Some(Experiment { name, trials, seed, reference, validity, cells, effective })
}

/// Name, trials and seed, which are of the whole experiment.
fn whole(sheet: &Sheet, source: &Source, faults: &mut Faults) -> Option<(String, u32, u64)> {
    let read = || {
        let view = View::new(sheet, faults, None, &[], None);
        let table = view.table("", None);
        let integer =
            |value: &Value| if let Value::Integer(number) = value { u64::try_from(*number).ok() } else { None };
        let name = match table.find("name") {
            Some(Value::Text(name)) => name.clone(),
            _ => name_of(&source.name),
        };
        let trials = table.get("trials", |value| integer(value).and_then(|number| u32::try_from(number).ok()))?;
        Ok((name, trials, table.get("seed", integer)?))
    };
    match read() {
        Ok(whole) => Some(whole),
        Err(problem) => {
            faults.add(problem);
            None
        }
    }
}

/// The keys that an experiment file writes, with their values as TOML: of cases under `case.NAME`,
/// of axes under `matrix`.
///
/// # Errors
/// As [`load`].
pub fn keys(source: &Source) -> Result<BTreeMap<String, String>, SpecError> {
    let sheet = sorted(source, &[])?;
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
    let sheet = sorted(source, overrides)?;
    let set = sheet.base.values().filter(|row| matches!(row.key_at.origin, Origin::Set(_)));
    Ok(set.map(|row| row.key.clone()).collect())
}

/// Numbers of CPUs that an experiment asks for and that are not among the `usable` ones of the
/// machine, each with its place; `None` if there is none. The rest of the experiment may be wrong.
pub fn absent_cpus(source: &Source, overrides: &[String], usable: &[u32]) -> Option<SpecError> {
    open::check_size(source).ok()?;
    let mut faults = Faults::default();
    let sheet = pinned(&tree::document(&source.text, &mut faults)?, overrides, &mut faults);
    let simulated = schema::Value::Text(Port::Sim.name().to_owned());
    let (base, cases, axes) = (&sheet.base, &sheet.cases, &sheet.axes);
    let replaced = |key: &String| {
        let by_cases = !cases.is_empty() && cases.iter().all(|case| case.set.contains_key(key));
        by_cases || axes.iter().any(|axis| axis.key == *key)
    };
    let of_base = base.values().filter(|row| !replaced(&row.key));
    let rows =
        of_base.chain(cases.iter().flat_map(|case| case.set.values())).chain(axes.iter().flat_map(|of| &of.values));
    // Simulated threads run on no CPU of the machine, and those of another machine on its own.
    let machine = schema::Value::Text(StationKind::Guest.name().to_owned());
    let is_elsewhere = |row: &sheet::Assignment| match row.key.rsplit('.').next() {
        Some("port") => row.value == simulated,
        Some("kind") => row.value == machine,
        Some("ssh") => true,
        _ => false,
    };
    if rows.clone().any(is_elsewhere) {
        return None;
    }
    let mut absent = Faults::default();
    for row in rows {
        let schema::Value::Cpu(CpuChoice::Number(cpu)) = row.value else { continue };
        if usable.contains(&cpu) {
            continue;
        }
        let usable = usable.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let message = format!("`{}`: CPU {cpu} was asked for and this process may use only {usable}", row.key);
        absent.add(Problem::new(Reason::Machine, &row.node.at, message, "choose one of those, or \"auto\""));
    }
    SpecError::of(absent.in_order(), source, overrides)
}

/// The file with the overrides laid over it, if each of its values is right by itself.
fn sorted(source: &Source, overrides: &[String]) -> Result<Sheet, SpecError> {
    open::check_size(source)?;
    let mut faults = Faults::default();
    let sheet = tree::document(&source.text, &mut faults).map(|document| pinned(&document, overrides, &mut faults));
    refused(faults, source, overrides)?;
    Ok(sheet.unwrap_or_default())
}

/// The file with the overrides laid over it, as far as they are right.
fn pinned(document: &tree::Node, overrides: &[String], faults: &mut Faults) -> Sheet {
    let mut sheet = Sheet::new(document, faults);
    for (n, argument) in overrides.iter().enumerate() {
        sheet.pin(argument, n, faults);
    }
    sheet
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
