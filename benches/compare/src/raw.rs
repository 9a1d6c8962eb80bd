// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw outputs, kept so that every figure of the table can be looked up.

use crate::row::Row;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const PAIRS: &str = "pairs.tsv";

/// A comparison's folder below `results/`.
pub struct Raw {
    folder: PathBuf,
}

impl Raw {
    /// Made anew, so that no results of an earlier run are next to new ones.
    pub fn create(folder: PathBuf) -> Result<Raw> {
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("{} cannot be emptied", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        Ok(Raw { folder })
    }

    /// Keeps one side's output of a pair.
    pub fn keep(&self, pair: usize, side: &str, text: &str) -> Result<()> {
        let path = self.folder.join(format!("{:02}-{side}.txt", pair + 1));
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Keeps the pairs' figures.
    pub fn rows(&self, rows: &[Row]) -> Result<()> {
        let mut text = String::from("what\tunit\tpeer\tpair\tours\tpeers\n");
        for row in rows {
            for (n, (ours, peer)) in row.pairs.iter().enumerate() {
                let peer = peer.map_or_else(String::new, |peer| peer.to_string());
                writeln!(text, "{}\t{}\t{}\t{}\t{ours}\t{peer}", row.what, row.unit, row.peer, n + 1)?;
            }
        }
        let path = self.folder.join(PAIRS);
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Copies them to `path`.
    pub fn keep_pairs(&self, path: &Path) -> Result<()> {
        fs::copy(self.folder.join(PAIRS), path).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(())
    }
}
