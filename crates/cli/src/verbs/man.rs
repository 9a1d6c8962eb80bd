// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy man`, `tardy schema` and `tardy notices`: texts that the program contains about itself.

use crate::args::{self, Man, Schema, SchemaOf};
use crate::exit::{Exit, Failure};
use crate::manual::{self, reference};
use anyhow::Result;
use std::path::Path;

/// Prints one page, or writes all of a kind.
pub fn man(args: &Man) -> Result<Exit> {
    let mut command = args::command();
    command.build();
    if let Some(folder) = &args.out {
        let pages = manual::documents(&command).into_iter();
        return write(folder, pages.map(|page| (format!("{}.1", page.name), manual::man_page(&page))));
    }
    if let Some(folder) = &args.reference {
        return write(folder, reference::chapters(&command).into_iter());
    }
    let page = match &args.verb {
        None => Some(manual::document(&command, None)),
        Some(verb) => command.find_subcommand(verb).map(|_| manual::document(&command, Some(verb))),
    };
    let Some(page) = page else {
        let verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let asked = args.verb.as_deref().unwrap_or_default();
        let message = format!("`{asked}` is no verb and has no page: choose one of {}", verbs.join(", "));
        return Err(Failure::new(Exit::Usage, message).into());
    };
    super::print(&manual::man_page(&page))?;
    Ok(Exit::Good)
}

fn write(folder: &Path, files: impl Iterator<Item = (String, String)>) -> Result<Exit> {
    let cannot = |what: &Path, error: std::io::Error| {
        Failure::new(Exit::Cannot, format!("writing {}: {error}: choose another folder", what.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| cannot(&path, error))?;
    }
    Ok(Exit::Good)
}

/// Licences of all that the program contains; packaging/notices.py makes the file.
const NOTICES: &str = include_str!("../../../../NOTICES");

pub fn notices() -> Result<Exit> {
    crate::verbs::print(NOTICES)?;
    Ok(Exit::Good)
}

pub fn schema(args: &Schema) -> Result<Exit> {
    let schema = match args.of {
        SchemaOf::Experiment => tardy_spec::schema::json_schema(),
        SchemaOf::Results => tardy_model::schema::results(),
        SchemaOf::Samples => tardy_store::samples_schema(),
        SchemaOf::Manifest => tardy_model::schema::manifest(),
    };
    crate::verbs::print(&(serde_json::to_string_pretty(&schema)? + "\n"))?;
    Ok(Exit::Good)
}
