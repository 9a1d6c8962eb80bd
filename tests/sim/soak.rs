// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hours of simulated trials, one after another in one process: every sample stays exact, and
//! memory stays where it was. `make soak` runs two hours of them, `make test` a minute.

use crate::engine::stream;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;
use tardy_analyze::cell::CellAnalysis;
use tardy_engine::halves::join;
use tardy_engine::port::sim::{self, SEND_CALL_NS, TO_DRIVER_NS};
use tardy_model::placement::PlacementRecord;
use tardy_model::point::{Metric, Point};
use tardy_model::port::Sim;
use tardy_model::sample::{Batch, Outcome};
use tardy_model::shaper::Shaper;
use tardy_model::stream::{Stream, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;
use tardy_store::SamplesFile;
use tardy_store::write_samples;

/// Set in the process that is alone with this test: memory of other tests in one process would
/// count as this one's.
const ALONE: &str = "TARDY_SOAK_ALONE";
const NAME: &str = "soak::hours_of_simulated_trials_stay_exact_and_take_no_more_memory";
/// Kinds of trial, and draws of each: after KINDS × DRAWS trials every one has been seen.
const KINDS: u32 = 4;
const DRAWS: u32 = 3;
/// What resident memory may grow by behind two rounds of all of them: the allocator moves by
/// pages, a trial of a minute takes some 20 MiB.
const MAY_GROW_KIB: u64 = 8 << 10;

struct Size {
    trials: u32,
    seconds_each: u32,
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("resident memory");
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("KiB")
}

fn kind(number: u32, count: u32) -> Stream {
    let sim = match number {
        0 => Sim::default(),
        1 => Sim { jitter: Nanos(40_000), delay: Nanos(5_000), tai_offset_s: 37, ..Sim::default() },
        2 => Sim { drop: dropped(count), duplicate: 0.01, reorder: 0.01, jitter: Nanos(900), ..Sim::default() },
        _ => Sim { late: Nanos(900_000), late_share: 0.001, drift_ppb: 20, ..Sim::default() },
    };
    let mut stream = Stream { count, ..stream(sim) };
    if number == 3 {
        stream.rx.wait = Wait::Spin;
    }
    stream
}

fn dropped(count: u32) -> Vec<u32> {
    (0..count).filter(|seq| seq % 1_009 == 17).collect()
}

/// What must hold of each trial of a kind, whatever was drawn.
fn check(number: u32, stream: &Stream, batch: &Batch) {
    let rows = 0..batch.len();
    assert_eq!(batch.len(), stream.count as usize);
    assert!(rows.clone().all(|row| batch.seq[row] == row as i64));
    assert!(rows.clone().all(|row| batch.scheduled_ns[row] == batch.scheduled_ns[0] + row as i64 * stream.cycle.0));
    let lost = rows.clone().filter(|row| batch.outcome[*row] == Outcome::Lost).map(|row| row as u32);
    assert_eq!(lost.collect::<Vec<_>>(), stream.sim.drop);
    assert!(batch.outcome.iter().all(|outcome| *outcome != Outcome::NotSent));
    if number == 0 {
        for (metric, ns) in
            [("scheduled..wakeup", 10_000), ("send..tx_kernel", TO_DRIVER_NS), ("rx_kernel..receive", 10_000)]
        {
            let metric: Metric = metric.parse().expect("a metric");
            assert!(rows.clone().all(|row| batch.span_ns(row, metric) == Some(ns)), "{metric} is not {ns} everywhere");
        }
        let wakeup = batch.offset(1, Point::Wakeup).expect("a stamp");
        assert!(wakeup + SEND_CALL_NS < stream.cycle.0, "the sender keeps its cycle");
    }
}

fn same_after_the_disk(batch: &Batch, folder: &std::path::Path) {
    let path = folder.join("samples.parquet");
    write_samples(&path, &[("ctl", batch)]).expect("written");
    let mut row = 0;
    for part in SamplesFile::open(&path).and_then(|file| file.batches("ctl")).expect("it opens") {
        let part = part.expect("whole");
        let rows = row..row + part.len();
        assert_eq!(part.seq, batch.seq[rows.clone()]);
        assert_eq!(part.outcome, batch.outcome[rows.clone()]);
        assert_eq!(part.flags, batch.flags[rows.clone()]);
        for (read, wrote) in part.offsets.iter().zip(&batch.offsets) {
            assert_eq!(read.as_deref(), wrote.as_deref().map(|column| &column[rows.clone()]));
        }
        row = rows.end;
    }
    assert_eq!(row, batch.len());
}

fn fingerprint(batch: &Batch) -> u64 {
    let mut hash = DefaultHasher::new();
    (&batch.seq, &batch.scheduled_ns, &batch.outcome, &batch.flags, &batch.offsets).hash(&mut hash);
    hash.finish()
}

fn trials(size: &Size) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let round = KINDS * DRAWS;
    let mut first_seen = vec![None; round as usize];
    let (mut warm_kib, mut most_kib) = (0, 0);
    for n in 0..size.trials {
        let (number, draw) = (n % KINDS, n / KINDS % DRAWS);
        let mut stream = kind(number, size.seconds_each * 2_000);
        let trial = sim::trial(
            &stream,
            StreamId::FIRST,
            1_000 + u64::from(draw),
            Nanos(i64::from(draw) * 77_000),
            &Shaper::None,
        );
        let (batch, of_stream) = join(&stream, trial.base, &trial.halves);
        check(number, &stream, &batch);
        same_after_the_disk(&batch, folder.path());
        let seen = first_seen[(n % round) as usize].get_or_insert_with(|| fingerprint(&batch));
        assert_eq!(*seen, fingerprint(&batch), "trial {n} is not what it was the first time");
        let record = TrialRecord {
            format: tardy_model::FORMAT,
            cell: "all".into(),
            n: n + 1,
            order: n,
            nonce: "0".into(),
            phase_ns: 0,
            base_tai_ns: trial.base.ns(),
            interrupted: false,
            failed: None,
            before: trial.before,
            after: trial.after,
            streams: [("ctl".to_owned(), of_stream)].into(),
            loads: std::collections::BTreeMap::new(),
            hosts: BTreeMap::new(),
            own_traffic: BTreeMap::new(),
            placement: PlacementRecord::default(),
            shapers: BTreeMap::new(),
            observer: Vec::new(),
            inspection: None,
            passed: None,
        };
        let asked = [("ctl".to_owned(), std::mem::take(&mut stream.metrics))].into();
        let mut cell = CellAnalysis::new("all", [].into(), asked, Vec::new());
        let answer = cell.trial(&record, [("ctl", &batch)]);
        let outcomes = answer.result.streams["ctl"].outcomes;
        assert_eq!(outcomes.intended, u64::from(stream.count));
        assert_eq!(outcomes.lost, stream.sim.drop.len() as u64);
        drop((batch, answer, cell));
        let now = resident_kib();
        match n < 2 * round {
            true => warm_kib = now.max(warm_kib),
            false => most_kib = now.max(most_kib),
        }
    }
    assert!(size.trials > 2 * round, "some trials come behind the warm-up");
    println!(
        "{} trials of {} s: {warm_kib} KiB resident warm, {most_kib} at most behind",
        size.trials, size.seconds_each
    );
    assert!(most_kib <= warm_kib + MAY_GROW_KIB, "resident memory grew from {warm_kib} to {most_kib} KiB");
}

#[test]
fn hours_of_simulated_trials_stay_exact_and_take_no_more_memory() {
    let soak = std::env::var_os("TARDY_SOAK").is_some();
    let size = if soak { Size { trials: 120, seconds_each: 60 } } else { Size { trials: 60, seconds_each: 1 } };
    if std::env::var_os(ALONE).is_some() {
        return trials(&size);
    }
    let this = std::env::current_exe().expect("this program");
    let alone = Command::new(this).args(["--exact", NAME, "--nocapture"]).env(ALONE, "1").output().expect("it starts");
    let told = String::from_utf8_lossy(&alone.stdout).into_owned() + &String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.success(), "{told}");
    assert!(told.contains("1 passed"), "it ran: {told}");
    if soak {
        println!("{told}");
    }
}
