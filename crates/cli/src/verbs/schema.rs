// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy schema`: what each file contains.

use crate::args::{Schema, SchemaOf};
use crate::exit::Exit;
use anyhow::Result;

pub fn call(args: &Schema) -> Result<Exit> {
    let schema = match args.of {
        SchemaOf::Experiment => tardy_spec::json_schema(),
        SchemaOf::Results => tardy_model::schema::results(),
        SchemaOf::Samples => tardy_store::samples_schema(),
        SchemaOf::Manifest => tardy_model::schema::manifest(),
    };
    super::print(&(serde_json::to_string_pretty(&schema)? + "\n"))?;
    Ok(Exit::Good)
}
