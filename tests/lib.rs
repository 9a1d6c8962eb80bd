// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared by the test layers: skipping with a reason that is counted, and files of test data.

use std::fs::File;
use std::io::Write;

/// Notes that a test could not run here, with the reason. `packaging/test.sh` counts these and
/// fails on unlisted ones.
pub fn skip(test: &str, reason: &str) {
    eprintln!("SKIP {test}: {reason}");
    if let Ok(path) = std::env::var("TARDY_SKIPS")
        && let Ok(mut file) = File::options().append(true).create(true).open(path)
    {
        let _ = writeln!(file, "{test}: {reason}");
    }
}

/// The part of a file of test data that follows its line `# --- name`, up to the next such line.
/// So several small texts of one subject are one file.
pub fn section<'a>(text: &'a str, name: &str) -> &'a str {
    let heads = text.match_indices("# --- ").map(|(at, _)| at);
    let mut heads = heads.filter(|at| *at == 0 || text[..*at].ends_with('\n')).peekable();
    while let Some(at) = heads.next() {
        let (head, _) = text[at..].split_once('\n').unwrap_or((&text[at..], ""));
        if head == format!("# --- {name}") {
            let end = heads.peek().copied().unwrap_or(text.len());
            return text.get(at + head.len() + 1..end).unwrap_or_default();
        }
    }
    panic!("there is no section `{name}`");
}

/// An experiment of `data/experiments.txt`.
pub fn experiment(name: &str) -> &'static str {
    section(include_str!("data/experiments.txt"), name)
}
