// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench`: tardy compared with its peers. Each comparison is a file and a line in [`COMPARISONS`];
//! each measures pairs, one after the other, keeps the raw outputs, and gives rows for the table.
//! Each row is held by its bound and by the spread that it had in an earlier run.

mod analysis;
mod bulk;
mod caches;
mod cells;
mod child;
mod copies;
mod doctor;
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
use row::{Earlier, Met, Raw, Row, Verdict};
use std::path::{Path, PathBuf};

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
    Comparison { name: "copy", measure: copies::measure },
    Comparison { name: "doctor", measure: doctor::measure },
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
    let absolute = |path: &Path| path.canonicalize().with_context(|| format!("{} is not there", path.display()));
    std::fs::create_dir_all(&args.cache).with_context(|| format!("{} cannot be made", args.cache.display()))?;
    let bench = Bench {
        tardy: absolute(&args.tardy).context("make build first")?,
        home: absolute(&args.home)?,
        cache: absolute(&args.cache)?,
        pairs: args.pairs.max(1),
        rows: args.rows,
    };
    let results = bench.home.join("results.tsv");
    let machine = page::here()?;
    let earlier = Earlier::read(&results, &machine)?;
    let Measured { rows, raw, failed } = measure(&bench, &args.names, &earlier)?;
    let table = page::table(&rows);
    println!("{table}");
    let page = args.page.as_deref().filter(|_| failed.is_empty());
    if let Some(page) = page {
        // The figures that are kept next to the page are those that the page was made of.
        for (name, raw) in &raw {
            raw.keep_pairs(name, &machine, &results)?;
        }
        if args.names.is_empty() {
            page::write(page, &table, &page::machine(&bench)?)?;
        } else {
            page::renew(page, &rows, &args.names)?;
        }
    }
    conclude(&rows, &failed, page.map(|_| results.as_path()))
}

struct Measured {
    /// Each with its earlier spread.
    rows: Vec<Row>,
    /// The comparisons' names and folders.
    raw: Vec<(&'static str, Raw)>,
    /// Which could not be made, and why.
    failed: Vec<String>,
}

/// Makes the comparisons of these names, or all.
fn measure(bench: &Bench, names: &[String], earlier: &Earlier) -> Result<Measured> {
    let mut all = Measured { rows: Vec::new(), raw: Vec::new(), failed: Vec::new() };
    for Comparison { name, measure } in COMPARISONS {
        if !names.is_empty() && !names.iter().any(|named| named == name) {
            continue;
        }
        eprintln!("bench: {name}");
        let raw = Raw::create(bench.cache.join("results").join(name))?;
        // One that fails must not take the others' figures with it.
        match measure(bench, &raw) {
            Ok(rows) => {
                raw.rows(&rows)?;
                all.raw.push((name, raw));
                all.rows.extend(rows.into_iter().map(|row| Row { earlier: earlier.spread(name, &row), ..row }));
            }
            Err(error) => all.failed.push(format!("{name}: {error:#}")),
        }
    }
    Ok(all)
}

/// Names each row that is outside its bound or worse than earlier. Both end the bench as a
/// comparison does that could not be made, but only after everything was written. `kept` is where
/// today's pairs have replaced the earlier ones.
fn conclude(rows: &[Row], failed: &[String], kept: Option<&Path>) -> Result<()> {
    let mut reasons = Vec::new();
    if !failed.is_empty() {
        reasons.push(format!("not all could be compared: {}", failed.join("; ")));
    }
    let missed: Vec<String> = rows.iter().filter(|row| row.met() == Some(Met::No)).map(Row::name).collect();
    if !missed.is_empty() {
        reasons.push(format!("outside its bound: {}", missed.join("; ")));
    }
    let worse: Vec<String> = rows.iter().filter_map(Row::worse).collect();
    if !worse.is_empty() {
        let mut advice = "Before you believe it, measure it again on a quiet machine.".to_owned();
        if let Some(kept) = kept {
            advice += &format!(" `git checkout {}` first brings the earlier pairs back.", kept.display());
        }
        reasons.push(format!("{}: {}. {advice}", Verdict::Worse, worse.join("; ")));
    }
    if !reasons.is_empty() {
        bail!("{}", reasons.join("\n"));
    }
    Ok(())
}
