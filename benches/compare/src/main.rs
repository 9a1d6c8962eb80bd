// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench`: tardy compared with its peers. Each comparison is a file and a line in [`COMPARISONS`];
//! each measures pairs, one after the other, keeps the raw outputs, and gives rows for the table.

mod analysis;
mod bulk;
mod caches;
mod cells;
mod child;
mod exchange;
mod hints;
mod packets;
mod page;
mod rings;
mod row;
mod samples;
mod timer;

use anyhow::{Context, Result, bail};
use clap::Parser;
use row::{Raw, Row};
use std::path::PathBuf;

/// What a comparison needs.
pub struct Bench {
    /// The binary under test.
    pub tardy: PathBuf,
    pub home: PathBuf,
    /// Generated samples, the compiled peer, Python's packages.
    pub cache: PathBuf,
    /// Pairs of each comparison, where it does not say so itself.
    pub pairs: usize,
    /// Rows of generated samples.
    pub rows: u64,
}

/// A comparison: its name, and how it is measured.
struct Comparison {
    name: &'static str,
    measure: fn(&Bench, &Raw) -> Result<Vec<Row>>,
}

const COMPARISONS: &[Comparison] = &[
    Comparison { name: "timer", measure: timer::measure },
    Comparison { name: "packets", measure: packets::measure },
    Comparison { name: "recorder", measure: packets::recorder },
    Comparison { name: "exchange", measure: exchange::measure },
    Comparison { name: "bulk", measure: bulk::measure },
    Comparison { name: "caches", measure: caches::measure },
    Comparison { name: "cells", measure: cells::measure },
    Comparison { name: "hints", measure: hints::measure },
    Comparison { name: "xdp-rate", measure: rings::rates },
    Comparison { name: "xdp-delay", measure: rings::delays },
    Comparison { name: "analysis", measure: analysis::measure },
];

/// Compare tardy's times with those of its peers, in pairs. Run it on a quiet machine, as root.
#[derive(Parser)]
struct Args {
    /// Comparisons to make; all if none is named
    names: Vec<String>,
    /// Pairs of each comparison; the timer takes twice as many
    #[arg(long, default_value_t = 5)]
    pairs: usize,
    /// Rows of generated samples for the analysis
    #[arg(long, default_value_t = 100_000_000)]
    rows: u64,
    /// The binary under test
    #[arg(long, default_value = "dist/tardy")]
    tardy: PathBuf,
    /// The folder with experiments and peers; where a page is written, the figures of its pairs go
    /// to results.tsv there
    #[arg(long, default_value = "benches")]
    home: PathBuf,
    /// Where things that are made once lie, and the raw outputs of the last runs, in results/ there
    #[arg(long, env = "TARDY_CACHE", default_value = ".cache")]
    cache: PathBuf,
    /// Writes the table into this page, between its two marks; where comparisons are named, their
    /// rows only
    #[arg(long)]
    page: Option<PathBuf>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let known: Vec<&str> = COMPARISONS.iter().map(|comparison| comparison.name).collect();
    if let Some(name) = args.names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no comparison `{name}`: {}", known.join(", "));
    }
    let absolute = |path: PathBuf| path.canonicalize().with_context(|| format!("{} is not there", path.display()));
    std::fs::create_dir_all(&args.cache).with_context(|| format!("{} cannot be made", args.cache.display()))?;
    let bench = Bench {
        tardy: absolute(args.tardy).context("make build first")?,
        home: absolute(args.home)?,
        cache: absolute(args.cache)?,
        pairs: args.pairs.max(1),
        rows: args.rows,
    };
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for comparison in COMPARISONS {
        if !args.names.is_empty() && !args.names.iter().any(|name| name == comparison.name) {
            continue;
        }
        eprintln!("bench: {}", comparison.name);
        let raw = Raw::create(bench.cache.join("results").join(comparison.name))?;
        // One that fails must not take the others' figures with it.
        match (comparison.measure)(&bench, &raw) {
            Ok(measured) => {
                raw.rows(&measured)?;
                // The figures that are kept next to the page are those that the page was made of.
                if args.page.is_some() {
                    raw.keep_pairs(comparison.name, &bench.home.join("results.tsv"))?;
                }
                rows.extend(measured);
            }
            Err(error) => failed.push(format!("{}: {error:#}", comparison.name)),
        }
    }
    let table = page::table(&rows);
    println!("{table}");
    if let Some(page) = args.page.filter(|_| failed.is_empty()) {
        if args.names.is_empty() {
            page::write(&page, &table, &page::machine(&bench)?)?;
        } else {
            page::renew(&page, &rows)?;
        }
    }
    let missed: Vec<&str> = rows.iter().filter(|row| row.met() == Some(false)).map(|row| row.what.as_str()).collect();
    if !missed.is_empty() {
        eprintln!("bench: outside its bound: {}", missed.join("; "));
    }
    if !failed.is_empty() {
        bail!("not all could be compared: {}", failed.join("; "));
    }
    Ok(())
}
