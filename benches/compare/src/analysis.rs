// SPDX-License-Identifier: MIT OR Apache-2.0
//! From Parquet to the full table: compared with a loop that only sums up the columns, on one CPU
//! and on all, with DuckDB and numpy; and how many bytes a row takes, compared with the entropy of
//! what it holds.

use crate::row::{Better, Bound, Pair, Raw, Row};
use crate::{Bench, child};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(900);
const SEED: &str = "1";

/// A run folder with this number of rows, made once.
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

/// A loop that decodes the same files and sums up each column.
fn sums(folder: &Path, more: &[&str]) -> Result<child::Ended> {
    let program = std::env::current_exe()?.with_file_name("sums");
    child::run(Command::new(program).arg(folder).args(more), &[0], LIMIT)
}

fn on_one_cpu(bench: &Bench, folder: &Path) -> Result<child::Ended> {
    let mut command = Command::new("taskset");
    let command = command.args(["-c", "0"]).arg(&bench.tardy).arg("report").arg(folder).args(["--format", "json"]);
    child::run(command, &[0], LIMIT)
}

/// Bytes of a run folder's samples, for each row.
fn bytes_a_row(folder: &Path, rows: u64) -> Result<f64> {
    let mut bytes = 0;
    for cell in std::fs::read_dir(folder.join("trials"))? {
        for trial in std::fs::read_dir(cell?.path())? {
            bytes += std::fs::metadata(trial?.path().join("samples.parquet"))?.len();
        }
    }
    Ok(bytes as f64 / rows as f64)
}

/// A line of what the programs of a pair cost.
fn cost(what: &str, ended: &child::Ended) -> String {
    format!("{what}: cpu_s {} wall_s {} rss_mb {}\n", ended.cpu_s, ended.wall_s, ended.rss_mb)
}

/// What read all rows.
struct Whole {
    sums: child::Ended,
    /// tardy, which may use one CPU.
    one: child::Ended,
    /// tardy, which may use all CPUs.
    mine: child::Ended,
}

fn whole(bench: &Bench, large: &Path, pair: usize) -> Result<Whole> {
    let (mut of_sums, mut one, mut mine) = (None, None, None);
    for turn in 0..3 {
        match (pair + turn) % 3 {
            0 => of_sums = Some(sums(large, &[])?),
            1 => one = Some(on_one_cpu(bench, large)?),
            _ => mine = Some(ours(bench, large)?),
        }
    }
    let (Some(sums), Some(one), Some(mine)) = (of_sums, one, mine) else { bail!("a program was left out") };
    Ok(Whole { sums, one, mine })
}

/// tardy and a peer over a tenth of the rows. What they cost goes behind `told`.
fn tenth(bench: &Bench, small: &Path, pair: usize, peer: &str, told: &mut String) -> Result<[child::Ended; 2]> {
    let (mut mine, mut other) = (None, None);
    for turn in 0..2 {
        if (pair + turn).is_multiple_of(2) {
            let ended = ours(bench, small)?;
            *told += &cost("tardy, a tenth", &ended);
            mine = Some(ended);
        } else {
            let ended = theirs(bench, small, peer)?;
            *told += &cost(&format!("{peer}, a tenth"), &ended);
            other = Some(ended);
        }
    }
    let (Some(mine), Some(other)) = (mine, other) else { bail!("a program was left out") };
    Ok([mine, other])
}

/// The pairs of each row.
#[derive(Default)]
struct Pairs {
    whole: Vec<Pair>,
    wall: Vec<Pair>,
    duckdb: Vec<Pair>,
    numpy: Vec<Pair>,
    memory: Vec<Pair>,
    size: Vec<Pair>,
}

/// The two bounds are for the full size. The comparison with both peers, and of memory, is made
/// with a tenth of it, because the peers take minutes.
pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let rows = bench.rows / 10;
    let (large, small) = (generated(bench, bench.rows)?, generated(bench, rows)?);
    let mut pairs = Pairs::default();
    for pair in 0..bench.pairs {
        let Whole { sums, one, mine } = whole(bench, &large, pair)?;
        raw.keep(pair, "tardy", &mine.stdout)?;
        raw.keep(pair, "sums", &sums.stdout)?;
        // On one CPU, for two threads that share caches and memory take longer for the same.
        pairs.whole.push((one.cpu_s, Some(sums.cpu_s)));
        pairs.wall.push((mine.wall_s, Some(one.wall_s)));
        let all = [("sums", &sums), ("tardy, all rows, one CPU", &one), ("tardy, all rows", &mine)];
        let mut told: String = all.iter().map(|(what, ended)| cost(what, ended)).collect();
        let [ours, duckdb] = tenth(bench, &small, pair, "duckdb", &mut told)?;
        raw.keep(pair, "duckdb", &duckdb.stdout)?;
        pairs.duckdb.push((ours.cpu_s, Some(duckdb.cpu_s)));
        let [ours, numpy] = tenth(bench, &small, pair, "numpy", &mut told)?;
        raw.keep(pair, "numpy", &numpy.stdout)?;
        pairs.numpy.push((ours.cpu_s, Some(numpy.cpu_s)));
        pairs.memory.push((mine.rss_mb, Some(ours.rss_mb)));
        raw.keep(pair, "cost", &told)?;
    }
    let entropy: f64 = sums(&small, &["--entropy"])?.stdout.trim().parse().context("sums --entropy")?;
    pairs.size.push((bytes_a_row(&small, rows)?, Some(entropy)));
    Ok(table(bench.rows, rows, pairs))
}

/// The rows of the table, of all samples and of a tenth of them.
fn table(all: u64, tenth: u64, of: Pairs) -> Vec<Row> {
    let command = |rows: u64| format!("generate DIR --rows {rows} --seed {SEED}; tardy report DIR --format json");
    let row = |rows: u64, unit, peer: &str, peer_command: &str, pairs, bound| Row {
        peer: peer.to_owned(),
        command: command(rows),
        peer_command: peer_command.to_owned(),
        pairs,
        bound,
        ..Row::new(format!("{} M samples from Parquet to the full table", rows / 1_000_000), unit, Better::Lower)
    };
    let named = |what: &str, row: Row| Row { what: what.to_owned(), ..row };
    let on_one = format!("generate DIR --rows {all} --seed {SEED}; taskset -c 0 tardy report DIR --format json");
    let sums = row(all, "CPU-s", "a loop that sums the columns", "sums DIR", of.whole, Bound::RatioAtMost(1.8));
    let one = row(all, "s", "tardy on one CPU", &on_one, of.wall, Bound::RatioAtMost(0.9));
    let memory = row(all, "MB", "tardy, a tenth of the rows", "", of.memory, Bound::RatioAtMost(1.25));
    let size = row(tenth, "bytes", "entropy of its stages", "sums DIR --entropy", of.size, Bound::RatioAtMost(1.1));
    vec![
        Row { command: on_one.clone(), ..sums },
        named("the same on all CPUs, wall time", one),
        row(tenth, "CPU-s", "DuckDB", "python3 benches/peers/figures.py duckdb DIR", of.duckdb, Bound::None),
        row(tenth, "CPU-s", "numpy", "python3 benches/peers/figures.py numpy DIR", of.numpy, Bound::None),
        named("memory for them, peak", memory),
        named("a row in samples.parquet, six stages", size),
    ]
}
