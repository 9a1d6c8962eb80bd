// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of the table: pairs, their ratios, and the bound that applies to them. And the raw outputs,
//! kept so that every figure of the table can be looked up.

use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// What a row must keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The median of the ratios ours/peer is at most this.
    RatioAtMost(f64),
    /// It is at least this.
    RatioAtLeast(f64),
    /// The median of ours is at most this.
    AtMost(f64),
    None,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub what: String,
    /// Unit of both figures.
    pub unit: &'static str,
    pub peer: String,
    /// How ours was made.
    pub command: String,
    /// How the peer's was made.
    pub peer_command: String,
    /// Ours and the peer's, pair by pair; no peer where only a bound is held.
    pub pairs: Vec<(f64, Option<f64>)>,
    pub bound: Bound,
}

/// The middle value; of an even number, the mean of the two in the middle. `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

impl Row {
    pub fn ours(&self) -> Option<f64> {
        median(self.pairs.iter().map(|(ours, _)| *ours).collect())
    }
    /// Median of the peer's.
    pub fn peers(&self) -> Option<f64> {
        median(self.pairs.iter().filter_map(|(_, peer)| *peer).collect())
    }
    fn ratios(&self) -> Vec<f64> {
        self.pairs.iter().filter_map(|(ours, peer)| peer.map(|peer| ours / peer)).filter(|r| r.is_finite()).collect()
    }
    /// Median of the pairs' ratios, which is not the ratio of the medians.
    pub fn ratio(&self) -> Option<f64> {
        median(self.ratios())
    }
    /// Least and greatest ratio.
    pub fn spread(&self) -> Option<(f64, f64)> {
        let ratios = self.ratios();
        let least = ratios.iter().copied().min_by(f64::total_cmp)?;
        Some((least, ratios.into_iter().max_by(f64::total_cmp)?))
    }
    /// Whether the bound holds; `None` where there is none, or nothing to hold it against.
    pub fn met(&self) -> Option<bool> {
        match self.bound {
            Bound::RatioAtMost(most) => Some(self.ratio()? <= most),
            Bound::RatioAtLeast(least) => Some(self.ratio()? >= least),
            Bound::AtMost(most) => Some(self.ours()? <= most),
            Bound::None => None,
        }
    }
}

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

    /// Puts them into the table at `path`, in the place of those of `comparison` there: its first
    /// column names the comparison.
    pub fn keep_pairs(&self, comparison: &str, path: &Path) -> Result<()> {
        let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()));
        let (own, old) = (read(&self.folder.join(PAIRS))?, if path.exists() { read(path)? } else { String::new() });
        let mut lines = own.lines();
        let head = format!("comparison\t{}", lines.next().context("a table without a head")?);
        let own: Vec<String> = lines.map(|line| format!("{comparison}\t{line}")).collect();
        let begins = format!("{comparison}\t");
        let is_own = |line: &&str| line.starts_with(&begins);
        let mut kept: Vec<&str> = old.lines().skip(1).collect();
        let at = kept.iter().position(is_own).unwrap_or(kept.len());
        kept.retain(|line| !is_own(line));
        kept.splice(at..at, own.iter().map(String::as_str));
        fs::write(path, format!("{head}\n{}\n", kept.join("\n")))
            .with_context(|| format!("{} cannot be written", path.display()))
    }
}
