// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference chapters of the book, made from the definitions that the program itself uses:
//! nothing here can go stale.

mod chapter;
mod experiment;
mod schemas;
mod verdicts;

pub use chapter::Chapter;

use super::{RUN_FOLDER, documents, markdown};
use crate::exit::Exit;
use chapter::{start, table};
use clap::Command;
use std::fmt::Write;

/// All chapters, and `SUMMARY.md`, which lists them in the order of reading. `command` has been
/// built.
pub fn chapters(command: &Command) -> Vec<Chapter> {
    let mut chapters = vec![experiment::chapter()];
    chapters.extend(documents(command).iter().map(|page| (format!("{}.md", page.name), markdown::chapter(page))));
    chapters.push(exits());
    chapters.push(run_folder());
    chapters.extend(schemas::chapters());
    chapters.push(verdicts::chapter());
    let list = chapters.iter().map(|(file, text)| format!("- [{}]({file})\n", title(text))).collect();
    chapters.push(("SUMMARY.md".to_owned(), list));
    chapters
}

fn title(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default()
}

fn exits() -> Chapter {
    let mut out =
        start("Exit codes", "What a verb's exit code means. Each verb's page lists those that it can end with.");
    let rows = Exit::ALL.map(|exit| vec![format!("{}", exit as u8), exit.says().1.to_owned()]);
    let _ = write!(out, "\n{}", table(&["code", "means"], rows));
    ("exit-codes.md".to_owned(), out)
}

fn run_folder() -> Chapter {
    let mut out = start(
        "The run folder",
        "What `tardy run` writes. CELL is a cell's id, N a trial's number, STREAM a stream's name.",
    );
    let rows = RUN_FOLDER.iter().map(|(file, says)| vec![format!("`{file}`"), markdown::escaped(says)]);
    let _ = write!(out, "\n{}", table(&["file", "holds"], rows));
    out += "\nIts contents: [results.json](results.md), [manifest.json](manifest.md), [samples.parquet](samples.md).\n";
    ("run-folder.md".to_owned(), out)
}
