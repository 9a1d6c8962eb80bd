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
    let program = std::env::current_exe()?.with_file_name("generate");
    // Another build may write other files.
    let built = std::fs::metadata(&program).context("the generator is not there: make bench builds it")?.modified()?;
    let folder = bench.cache.join(format!("generated-{rows}"));
    let made = std::fs::metadata(folder.join("manifest.json")).and_then(|manifest| manifest.modified());
    if made.is_ok_and(|made| made > built) {
        return Ok(folder);
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
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

/// A bound at the full size; beside both peers, and in memory, at a tenth of it, for they take minutes.
pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let tenth = bench.rows / 10;
    let (large, small) = (generated(bench, bench.rows)?, generated(bench, tenth)?);
    let (mut whole, mut cpu, mut memory) = (Vec::new(), [Vec::new(), Vec::new()], Vec::new());
    for pair in 0..bench.pairs {
        let mine = ours(bench, &large)?;
        raw.keep(pair, "tardy", &mine.stdout)?;
        whole.push((mine.cpu_s, None));
        let mut told = format!("tardy, all rows: cpu_s {} wall_s {} rss_mb {}\n", mine.cpu_s, mine.wall_s, mine.rss_mb);
        for (of, peer) in cpu.iter_mut().zip(["duckdb", "numpy"]) {
            let (mut mine_s, mut theirs_s) = (0.0, 0.0);
            for turn in 0..2 {
                if (pair + turn) % 2 == 0 {
                    let ended = ours(bench, &small)?;
                    told += &format!(
                        "tardy, a tenth: cpu_s {} wall_s {} rss_mb {}\n",
                        ended.cpu_s, ended.wall_s, ended.rss_mb
                    );
                    mine_s = ended.cpu_s;
                    if peer == "numpy" {
                        memory.push((mine.rss_mb, Some(ended.rss_mb)));
                    }
                } else {
                    let ended = theirs(bench, &small, peer)?;
                    told += &format!(
                        "{peer}, a tenth: cpu_s {} wall_s {} rss_mb {}\n",
                        ended.cpu_s, ended.wall_s, ended.rss_mb
                    );
                    raw.keep(pair, peer, &ended.stdout)?;
                    theirs_s = ended.cpu_s;
                }
            }
            of.push((mine_s, Some(theirs_s)));
        }
        raw.keep(pair, "cost", &told)?;
    }
    let [duckdb, numpy] = cpu;
    let row = |rows: u64, unit, peer: &str, peer_command: &str, pairs, bound| Row {
        what: format!("{} M samples from Parquet to the full table", rows / 1_000_000),
        unit,
        peer: peer.to_owned(),
        command: format!("generate DIR --rows {rows} --seed {SEED}; tardy report DIR --format json"),
        peer_command: peer_command.to_owned(),
        pairs,
        bound,
    };
    // The bound is for 100 M rows; fewer have their share.
    let most = Bound::AtMost(3.0 * bench.rows as f64 / 1e8);
    let memory = row(bench.rows, "MB", "tardy, a tenth of the rows", "", memory, Bound::RatioAtMost(1.25));
    Ok(vec![
        row(bench.rows, "CPU-s", "", "", whole, most),
        row(tenth, "CPU-s", "DuckDB", "python3 benches/peers/figures.py duckdb DIR", duckdb, Bound::None),
        row(tenth, "CPU-s", "numpy", "python3 benches/peers/figures.py numpy DIR", numpy, Bound::None),
        Row { what: "memory for them, peak".to_owned(), ..memory },
    ])
}
