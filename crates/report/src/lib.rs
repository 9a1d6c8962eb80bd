// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formats of a report: the same results as text, Markdown, Org, HTML, JSON, CSV and JUnit XML.
//! Pure: a [`Picture`] in, a string out.
//!
//! A format is one file here and one line in [`FORMATS`]; JSON is the results themselves.

use std::fmt;
use tardy_model::harmless;

mod block;
mod closing;
mod column;
pub mod compare;
mod copies;
mod csv;
mod document;
pub mod export;
pub mod figure;
mod html;
mod junit;
mod loads;
mod markdown;
mod org;
mod picture;
mod reference;
mod stages;
mod summary;
mod text;
pub mod worst;
mod xdp;

pub use column::lead;
pub use figure::sparkline;
pub use picture::{Bars, Facts, Options, Picture, ReportError, bars};

/// One way to picture a run.
pub struct Format {
    /// The word for it after `--format`.
    pub name: &'static str,
    /// Of a file's name.
    pub extension: &'static str,
    /// What it is, for help texts.
    pub says: &'static str,
    /// Makes the picture; it ends with a newline.
    pub make: fn(&Picture<'_>, &Options) -> Result<String, ReportError>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format").field("name", &self.name).finish_non_exhaustive()
    }
}

pub const FORMATS: &[Format] = &[
    Format { name: "text", extension: "txt", says: "the table for a terminal", make: text::make },
    Format { name: "md", extension: "md", says: "Markdown with GitHub tables", make: markdown::make },
    Format { name: "org", extension: "org", says: "Org with tables", make: org::make },
    Format { name: "html", extension: "html", says: "one page, readable offline", make: html::make },
    Format { name: "json", extension: "json", says: "results.json", make: json },
    Format { name: "csv", extension: "csv", says: "a row per cell, stream and metric", make: csv::make },
    Format { name: "junit", extension: "xml", says: "validity and limits as test cases, in XML", make: junit::make },
];

/// `results.json`: the contract's own form, indented, fields in the order of the model's structs.
fn json(picture: &Picture<'_>, _: &Options) -> Result<String, ReportError> {
    let text = serde_json::to_string_pretty(picture.results)
        .map_err(|why| ReportError::Json { name: picture.results.name.clone(), why })?;
    Ok(harmless::json(&text) + "\n")
}

/// The format of that name.
///
/// # Errors
/// [`ReportError::UnknownFormat`], which lists what there is.
pub fn format(name: &str) -> Result<&'static Format, ReportError> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| ReportError::UnknownFormat {
        asked: name.to_owned(),
        known: FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", "),
    })
}
