// SPDX-License-Identifier: MIT OR Apache-2.0
//! From Parquet to the full table, beside DuckDB and numpy, in CPU seconds.

use crate::raw::Raw;
use crate::row::{Bound, Row};
use crate::{Bench, child};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(900);
const SEED: &str = "1";

/// A run folder with so many rows, made once.
fn generated(bench: &Bench, rows: u64) -> Result<PathBuf> {
    let folder = bench.cache.join(format!("generated-{rows}"));
    if folder.join("manifest.json").is_file() {
        return Ok(folder);
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let program = std::env::current_exe()?.with_file_name("generate");
    let mut command = Command::new(&program);
    child::run(command.arg(&folder).args(["--rows", &rows.to_string(), "--seed", SEED]), &[0], LIMIT)?;
    Ok(folder)
}

fn ours(bench: &Bench, folder: &Path) -> Result<child::Ended> {
    let mut command = Command::new(&bench.tardy);
    child::run(command.arg("report").arg(folder).args(["--format", "json"]), &[0], LIMIT)
}

fn theirs(bench: &Bench, folder: &Path, what: &str) -> Result<child::Ended> {
    let python = bench.cache.join("venv/bin/python3");
    if !python.is_file() {
        bail!("{} is not there: make bench makes it", python.display());
    }
    let view = Command::new(&bench.tardy).args(["schema", "samples"]).output().context("tardy schema samples")?;
    let mut command = Command::new(python);
    let script = bench.home.join("peers/figures.py");
    child::run(
        command.arg(script).arg(what).arg(folder).env("TARDY_SAMPLES", String::from_utf8(view.stdout)?),
        &[0],
        LIMIT,
    )
}

/// CPU time beside both, and memory at two sizes.
pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let (large, small) = (generated(bench, bench.rows)?, generated(bench, bench.rows / 10)?);
    let (mut cpu, mut memory) = ([Vec::new(), Vec::new()], Vec::new());
    for pair in 0..bench.pairs {
        let mine = ours(bench, &large)?;
        raw.keep(pair, "tardy", &mine.stdout)?;
        let tenth = ours(bench, &small)?;
        memory.push((mine.rss_mb, Some(tenth.rss_mb)));
        for (of, peer) in cpu.iter_mut().zip(["duckdb", "numpy"]) {
            let theirs = theirs(bench, &large, peer)?;
            raw.keep(pair, peer, &theirs.stdout)?;
            of.push((mine.cpu_s, Some(theirs.cpu_s)));
        }
        let told = format!(
            "cpu_s {} wall_s {} rss_mb {} rss_mb_of_a_tenth {}\n",
            mine.cpu_s, mine.wall_s, mine.rss_mb, tenth.rss_mb
        );
        raw.keep(pair, "cost", &told)?;
    }
    let [duckdb, numpy] = cpu;
    let rows = bench.rows / 1_000_000;
    let row = |what: String, unit, peer: &str, peer_command: &str, pairs, bound| Row {
        what,
        unit,
        peer: peer.to_owned(),
        command: format!("generate DIR --rows {} --seed {SEED}; tardy report DIR --format json", bench.rows),
        peer_command: peer_command.to_owned(),
        pairs,
        bound,
    };
    let what = format!("{rows} M samples from Parquet to the full table");
    // The bound is for 100 M rows; fewer have their share.
    let most = Bound::AtMost(3.0 * bench.rows as f64 / 1e8);
    Ok(vec![
        row(what.clone(), "CPU-s", "DuckDB", "figures.py duckdb DIR", duckdb, most),
        row(what, "CPU-s", "numpy", "figures.py numpy DIR", numpy, Bound::None),
        row(
            "memory for them".to_owned(),
            "MB",
            "tardy, a tenth of the rows",
            "the same with a tenth",
            memory,
            Bound::RatioAtMost(1.25),
        ),
    ])
}
