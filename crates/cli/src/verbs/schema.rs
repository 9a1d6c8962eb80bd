// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy schema`: what stands in each file.

use crate::args::Schema;
use crate::exit::{Exit, Failure};
use anyhow::Result;

/// Prints the schema.
pub fn call(args: &Schema) -> Result<Exit> {
    let schema = match args.of.as_str() {
        "experiment" => tardy_spec::json_schema(),
        "results" => tardy_report::results_schema(),
        "samples" => tardy_store::samples_schema(),
        "manifest" => tardy_report::manifest_schema(),
        other => {
            let message = format!("`{other}` has no schema: choose experiment, results, samples or manifest");
            return Err(Failure::new(Exit::Usage, message).into());
        }
    };
    super::print(&(serde_json::to_string_pretty(&schema)? + "\n"))?;
    Ok(Exit::Good)
}
