// SPDX-License-Identifier: MIT OR Apache-2.0
//! `generate DIR --rows N --seed S`: a run folder as a long run would leave it, of seeded samples,
//! to measure `tardy report DIR` with. It is written through the store's own interface, two trials
//! at a time.

mod noise;
mod record;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use tardy_model::manifest::{CellEntry, Manifest};
use tardy_model::verdict::Figure;
use tardy_spec::Source;
use tardy_store::RunFolder;

/// Writes a run folder of generated samples.
#[derive(Parser)]
struct Arguments {
    /// The folder; new or empty.
    dir: PathBuf,
    /// Packets, over all trials.
    #[arg(long, default_value_t = 100_000_000)]
    rows: u64,
    /// Trials of the one cell.
    #[arg(long, default_value_t = 10)]
    trials: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The name of the machine, for its manifest.
    #[arg(long)]
    host: Option<String>,
    /// The release of its kernel.
    #[arg(long)]
    kernel: Option<String>,
}

/// Trials in the making at a time: each holds its samples in memory, some 70 bytes a row.
const AT_A_TIME: usize = 2;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let trials = u64::from(arguments.trials);
    ensure!(trials > 0 && arguments.rows.is_multiple_of(trials), "{trials} trials cannot share the rows equally");
    let count = u32::try_from(arguments.rows / trials).context("a trial has at most 2^32 packets: take more trials")?;
    ensure!(count > 0, "a trial needs packets");
    let experiment =
        tardy_spec::load(&Source { name: "generated.toml".to_owned(), text: experiment(&arguments, count) }, &[])?;
    let folder = RunFolder::create(&arguments.dir)?;
    folder.write_experiment(&experiment.effective)?;
    let cells = experiment.cells.iter().map(|cell| CellEntry {
        id: cell.id.clone(),
        trials: arguments.trials,
        ..CellEntry::default()
    });
    folder.write_manifest(&Manifest {
        format: tardy_model::FORMAT,
        tardy: env!("CARGO_PKG_VERSION").to_owned(),
        name: experiment.name.clone(),
        started_utc: "2026-01-01T00:00:00.000Z".to_owned(),
        ended_utc: Some("2026-01-01T00:00:01.000Z".to_owned()),
        seed: arguments.seed,
        cells: cells.collect(),
        machine: facts(&arguments),
        ..Manifest::default()
    })?;
    let next = AtomicU32::new(1);
    let work = || -> Result<()> {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n > arguments.trials {
                return Ok(());
            }
            let trial = folder.begin_trial(&experiment.cells[0].id, n)?;
            let batch = noise::trial(arguments.seed, n, count);
            trial.write_samples(&[("ctl", &batch)])?;
            trial.write_histograms("ctl", tardy_model::time::Nanos(record::span_ns(count)), &BTreeMap::new())?;
            trial.write_record(&record::record(&experiment.cells[0].id, n, &batch))?;
            trial.finish()?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a worker panicked")))
    })
}

fn facts(arguments: &Arguments) -> BTreeMap<String, Figure> {
    let named = [("host.name", &arguments.host), ("kernel.release", &arguments.kernel)];
    let known = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Figure::from(value.clone()?))));
    known.collect()
}

fn experiment(arguments: &Arguments, count: u32) -> String {
    format!(
        "name = \"generated\"\ntrials = {}\nseed = {}\n\n[station.a]\n[station.b]\n\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\n\
         cycle = \"500us\"\ncount = {count}\n",
        arguments.trials, arguments.seed
    )
}
