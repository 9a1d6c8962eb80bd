// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy report`: a run in any format, made anew from its trials, also of a run that was killed.
//! Needs no root.

use crate::args::Report;
use crate::exit::{Exit, Failure};
use anyhow::Result;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use tardy_analyze::worst::Worst;
use tardy_judge::Traces;
use tardy_model::manifest::Manifest;
use tardy_model::point::Metric;
use tardy_model::sample::Batch;
use tardy_model::time::Nanos;
use tardy_report::worst::{self, WorstOf};
use tardy_report::{Options, Picture};
use tardy_spec::Source;
use tardy_store::{RunFolder, StoreError};

/// As wide as COLUMNS says, else as the terminal; colour if it is one and nobody minds (NO_COLOR).
pub fn look(terminal: bool) -> Options {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let there = || terminal_size::terminal_size().filter(|_| terminal).map(|(width, _)| usize::from(width.0));
    Options {
        width: asked.or_else(there).map_or(Options::default().width, |width: usize| width.clamp(60, 160)),
        colour: terminal && std::env::var_os("NO_COLOR").is_none(),
    }
}

/// A run folder that cannot be read is a fault of the call, whatever the system's reason.
fn unreadable(error: StoreError) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
}

fn elapsed(manifest: &Manifest) -> Option<Nanos> {
    let began: jiff::Timestamp = manifest.started_utc.parse().ok()?;
    let ended: jiff::Timestamp = manifest.ended_utc.as_ref()?.parse().ok()?;
    Some(Nanos(i64::try_from(ended.as_nanosecond() - began.as_nanosecond()).ok()?))
}

fn no_trial(run: &RunFolder, n: u32) -> Failure {
    let last = run.trials().ok().and_then(|trials| trials.iter().map(|trial| trial.n).max());
    let has = match last {
        Some(last) => format!("its last one is trial {last}"),
        None => "it has none".to_owned(),
    };
    Failure::new(Exit::Usage, format!("{}: no cell has a finished trial {n}; {has}", run.path().display()))
}

/// The worst packets of each stream of each cell, over the trials that the figures are of.
fn worst_packets<'a>(run: &RunFolder, picture: &Picture<'a>, most: usize) -> Result<Vec<WorstOf<'a>>> {
    let mut all = Vec::new();
    for cell in &picture.results.cells {
        let trials = tardy_analyze::cell::counted(&cell.trials);
        for stream in cell.streams.keys() {
            let Some(metric) = worst::leading(cell, stream) else { continue };
            let Some(of) = metric.parse::<Metric>().ok().filter(|metric| *metric != Metric::Delta) else { continue };
            let mut worst = Worst::new(of, most);
            let (mut batch, mut records) = (Batch::default(), BTreeMap::new());
            for n in &trials {
                let mut record = run.record(&cell.id, *n)?;
                let base_ns = record.base_tai_ns;
                records.extend(record.streams.remove(stream).map(|record| (*n, record)));
                let mut batches = run.samples(&cell.id, *n)?.batches(stream)?;
                while batches.read(&mut batch)? {
                    worst.push(*n, base_ns, &batch);
                }
            }
            let (values, missing) = (worst.values, worst.missing);
            let packets = worst.finish();
            let stages = packets.iter().flat_map(|packet| packet.spans().map(|(stage, _)| (packet.trial, stage)));
            let bound = |of: (u32, Metric)| Some((of, records.get(&of.0)?.clock_bound_ns(of.1)?));
            let bounds = stages.filter_map(bound).collect();
            all.push(WorstOf { cell, stream, metric, values, missing, packets, bounds });
        }
    }
    Ok(all)
}

pub fn call(args: Report) -> Result<Exit> {
    let format = tardy_report::format(&args.format).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let run = RunFolder::open(&args.run).map_err(unreadable)?;
    let mut manifest = run.manifest()?;
    let source = Source {
        name: args.run.join("experiment.toml").display().to_string(),
        text: run.experiment().map_err(unreadable)?,
    };
    let mut experiment = tardy_spec::load(&source, &[])?;
    tardy_sys::process::keep_freed_memory();
    let judged = match args.trial {
        None => tardy_judge::folder(&run, &experiment, &manifest)?,
        Some(n) => tardy_judge::trial(&run, &mut experiment, &mut manifest, n)?.ok_or_else(|| no_trial(&run, n))?,
    };
    // Only the page has pictures over time, and they take a second look at the samples.
    let page = format.name == "html";
    let traces = if page { Traces::of_folder(&run, &experiment, &judged.results)? } else { Traces::new(&experiment) };
    let commands = run.commands().ok();
    let run_dir = args.run.display().to_string();
    let picture = Picture {
        results: &judged.results,
        manifest: &manifest,
        facts: &tardy_judge::facts(&experiment),
        bars: &|cell, stream, metric| judged.bars(cell, stream, metric),
        // A run that was killed has no page.
        run_dir: args.run.join("report.html").exists().then_some(&*run_dir),
        elapsed: elapsed(&manifest),
        experiment: Some(&experiment.effective),
        traces: &traces.all,
        commands: commands.as_deref(),
    };
    let terminal = args.output.is_none() && std::io::stdout().is_terminal();
    let drawn = match args.worst {
        None => (format.make)(&picture, &look(terminal))?,
        Some(most) => worst::draw(&picture, &worst_packets(&run, &picture, most as usize)?),
    };
    match args.output {
        None => super::print(&drawn)?,
        Some(path) => super::write(&path, drawn.as_bytes())?,
    }
    Ok(Exit::Good)
}
