// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sums DIR`: reads the samples of a run folder and sums up each column. It is the least that
//! anybody does who looks at every row, so `bench analysis` compares the whole analysis with it.
//!
//! `sums DIR --entropy`: what the rows' stages must take at least, in bytes a row, whoever packs
//! them value by value.

use anyhow::{Context, Result};
use std::collections::HashMap;
use std::path::PathBuf;
use tardy_model::point::Point;
use tardy_model::sample::Batch;
use tardy_store::RunFolder;

/// Sums of all columns.
#[derive(Default)]
struct Sums {
    rows: usize,
    seq: i64,
    scheduled: i64,
    /// Outcomes, flags and VLAN priorities.
    small: u64,
    offsets: [i64; Point::COUNT],
}

impl Sums {
    fn add(&mut self, batch: &Batch) {
        self.rows += batch.len();
        self.seq = batch.seq.iter().fold(self.seq, |sum, seq| sum.wrapping_add(*seq));
        self.scheduled = batch.scheduled_ns.iter().fold(self.scheduled, |sum, at| sum.wrapping_add(*at));
        self.small += batch.outcome.iter().map(|outcome| *outcome as u64).sum::<u64>();
        self.small += batch.flags.iter().map(|flags| u64::from(flags.0)).sum::<u64>();
        self.small += batch.pcp.iter().flatten().map(|pcp| u64::from(*pcp)).sum::<u64>();
        for (sum, column) in self.offsets.iter_mut().zip(&batch.offsets) {
            let column = column.as_deref().unwrap_or_default();
            *sum = column.iter().fold(*sum, |sum, offset| sum.wrapping_add(offset.get().unwrap_or(0)));
        }
    }

    fn print(&self) {
        println!("{} rows: seq {}, scheduled_ns {}, others {}", self.rows, self.seq, self.scheduled, self.small);
        for (point, sum) in Point::ALL.into_iter().zip(self.offsets).filter(|(_, sum)| *sum != 0) {
            println!("{}: {sum}", point.name());
        }
    }
}

/// How often each stage of a trial had each value.
#[derive(Default)]
struct Stages(HashMap<usize, HashMap<i64, u32>>);

impl Stages {
    fn add(&mut self, batch: &Batch) {
        let mut before: Option<&[_]> = None;
        for (at, column) in batch.offsets.iter().enumerate() {
            let Some(column) = column.as_deref() else { continue };
            let counts = self.0.entry(at).or_default();
            for (row, offset) in column.iter().enumerate() {
                let earlier = before.map_or(Some(0), |before: &[tardy_model::sample::MaybeNanos]| before[row].get());
                if let Some((later, earlier)) = offset.get().zip(earlier) {
                    *counts.entry(later.wrapping_sub(earlier)).or_default() += 1;
                }
            }
            before = Some(column);
        }
    }

    /// Shannon's entropy of all stages, bits.
    fn bits(&self) -> f64 {
        let of = |counts: &HashMap<i64, u32>| {
            let all: f64 = counts.values().map(|count| f64::from(*count)).sum();
            counts.values().map(|count| f64::from(*count) * (all / f64::from(*count)).log2()).sum::<f64>()
        };
        self.0.values().map(of).sum()
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = RunFolder::open(PathBuf::from(arguments.next().context("usage: sums DIR [--entropy]")?))?;
    let of_entropy = arguments.next().is_some_and(|word| word == "--entropy");
    let (mut sums, mut bits) = (Sums::default(), 0.0);
    let mut batch = Batch::default();
    for trial in folder.trials()? {
        let samples = folder.samples(&trial.cell, trial.n)?;
        for stream in samples.streams() {
            let mut batches = samples.batches(stream)?;
            let mut stages = Stages::default();
            while batches.read(&mut batch)? {
                if of_entropy {
                    sums.rows += batch.len();
                    stages.add(&batch);
                } else {
                    sums.add(&batch);
                }
            }
            bits += stages.bits();
        }
    }
    if of_entropy {
        println!("{:.3}", bits / 8.0 / sums.rows as f64);
    } else {
        sums.print();
    }
    Ok(())
}
