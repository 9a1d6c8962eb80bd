// SPDX-License-Identifier: MIT OR Apache-2.0
//! `results.json`: the contract's own form, indented, fields in the order of the model's structs.

use crate::picture::{Options, Picture, ReportError};
use tardy_model::harmless;

pub(crate) fn make(picture: &Picture<'_>, _: &Options) -> Result<String, ReportError> {
    let text = serde_json::to_string_pretty(picture.results)
        .map_err(|why| ReportError::Json { name: picture.results.name.clone(), why })?;
    Ok(harmless::json(&text) + "\n")
}
