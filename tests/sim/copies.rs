// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated copies, from the experiment's text to the verdicts: an overlap that was put in comes
//! out, and so does a cliff; where there is none, none is named.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use tardy_analyze::cell::{CellAnalysis, CellAnswer};
use tardy_engine::copy::buckets::{BUCKETS, bucket, greatest};
use tardy_engine::copy::{CopyMemory, CopyOrder, trial};
use tardy_model::copy::{COPY, CopyResult, Copying, Sizes};
use tardy_model::machine::MachineState;
use tardy_model::point::{Metric, Point};
use tardy_model::result::Results;
use tardy_model::sample::{Batch, MaybeNanos};
use tardy_model::trial::TrialRecord;
use tardy_spec::Source;
use tardy_spec::experiment::{Cell, Experiment};

pub(crate) fn experiment(more: &str) -> Experiment {
    let text = format!(
        "name = \"simulated\"\nkind = \"copy\"\ntrials = 5\n[copy]\nbackend = \"sim\"\niterations = 200\n{more}\n"
    );
    tardy_spec::load(&Source { name: "simulated.toml".into(), text }, &[]).expect("a sound experiment")
}

/// The record and the samples of a trial.
fn recorded(cell: &Cell, copy: &Copying, n: u32) -> (TrialRecord, Batch) {
    let (stop, cpus) = (AtomicBool::new(false), vec![None; copy.all_threads() as usize]);
    let order = CopyOrder { copy, cpus: &cpus, usable: &[], sizes: Sizes::USUAL, nonce: u64::from(n), stop: &stop };
    let copied = trial(&order, &mut CopyMemory::within(u64::MAX), &mut || ()).expect("it needs nothing");
    let [before, after] = copied.record.tx_clocks.map(MachineState::of);
    let record = TrialRecord {
        format: tardy_model::FORMAT,
        cell: cell.id.clone(),
        n,
        order: n,
        nonce: String::new(),
        phase_ns: 0,
        base_tai_ns: copied.batch.scheduled_ns[0],
        interrupted: false,
        failed: None,
        before,
        after,
        hosts: BTreeMap::new(),
        own_traffic: BTreeMap::new(),
        streams: BTreeMap::from([(COPY.to_owned(), copied.record)]),
        loads: BTreeMap::new(),
        placement: Default::default(),
        shapers: BTreeMap::new(),
        observer: Vec::new(),
        passed: None,
        inspection: None,
    };
    (record, copied.batch)
}

/// All trials of a cell, judged.
fn judged(cell: &Cell, trials: u32) -> CellAnswer {
    judged_as(cell, trials, |_, _| ())
}

/// The same, with something else in each record and its samples than was simulated.
pub(crate) fn judged_as(cell: &Cell, trials: u32, spoil: impl Fn(&mut TrialRecord, &mut Batch)) -> CellAnswer {
    let copy = cell.setup.copy.as_ref().expect("a copy");
    let asked = BTreeMap::from([(COPY.to_owned(), vec![Metric::PASS])]);
    let mut analysis = CellAnalysis::new(cell.id.clone(), cell.axes.clone(), asked, cell.expect.clone());
    for n in 1..=trials {
        let (mut record, mut batch) = recorded(cell, copy, n);
        spoil(&mut record, &mut batch);
        analysis.trial(&record, [(COPY, batch)]);
    }
    analysis.finish()
}

fn results(experiment: &Experiment) -> Results {
    let cells = experiment.cells.iter().map(|cell| judged(cell, experiment.trials));
    tardy_analyze::run::run(&experiment.name, cells, Vec::new())
}

/// The copy of the only cell, and its verdict.
fn only(results: &Results) -> (&CopyResult, &str) {
    let cell = &results.cells[0];
    assert!(cell.valid, "{:?}", cell.verdicts);
    let verdict = cell.verdicts.iter().find(|verdict| verdict.id == "added-up");
    let copy = cell.streams[COPY].copy.as_ref().expect("a copy");
    (copy, verdict.map(|verdict| verdict.says.as_str()).unwrap_or_default())
}

/// What the sweep over sizes says.
fn cliffs(more: &str) -> String {
    let results = results(&experiment(more));
    assert!(results.valid, "{:?}", results.cells[0].verdicts);
    let found: Vec<_> = results.verdicts.iter().filter(|verdict| verdict.id == "cliffs").collect();
    assert_eq!(found.len(), 1, "{:?}", results.verdicts);
    found[0].says.clone()
}

#[test]
fn an_overlap_of_one_a_half_and_none_comes_out_as_it_was_put_in() {
    for (overlap, times) in [(1.0, 1.0), (0.5, 1.5), (0.0, 2.0)] {
        let results = results(&experiment(&format!("threads = 2\n[copy.sim]\noverlap = {overlap:.1}")));
        let (copy, says) = only(&results);
        let got = copy.least_overlaps[0].share;
        assert!((got - overlap).abs() < 0.01, "overlap {got} instead of {overlap}");
        assert!((copy.times_less - times).abs() < 0.02, "{} instead of {times}", copy.times_less);
        assert!((copy.parallelism - 2.0 / times).abs() < 0.02, "{} at once", copy.parallelism);
        assert_eq!(copy.may_be_added_up, overlap == 1.0, "{copy:?}");
        let may = if overlap == 1.0 { "may be added up" } else { "may not be added up: they ran" };
        assert!(says.contains(may), "{says}");
    }
}

#[test]
fn eight_threads_one_after_the_other_ran_eight_times_less_in_parallel() {
    let results = results(&experiment("threads = 8\n[copy.sim]\noverlap = 0.0"));
    let (copy, says) = only(&results);
    assert!(says.contains("they ran 8.0 times less in parallel than the sum assumes"), "{says}");
    assert!((copy.sum_bytes_s / copy.wall_bytes_s - 8.0).abs() < 0.05);
    assert!((copy.parallelism - 1.0).abs() < 0.01);
    assert_eq!(copy.assumed, 8);
}

#[test]
fn the_passes_have_the_figures_that_packets_have() {
    let results = results(&experiment("threads = 2"));
    let stream = &results.cells[0].streams[COPY];
    assert_eq!(stream.outcomes.received, 5 * 2 * 200);
    let pass = &stream.metrics["begin..end"];
    // 48 buffers of 4096 bytes at 80 Gbit/s, give or take a hundredth.
    let p50 = pass.figures.quantiles.p50_ns.expect("a median") as f64;
    assert!((p50 - 19_660.8).abs() < 200.0, "{p50}");
    assert!(results.cells[0].verdicts.iter().any(|verdict| verdict.id == "repeats"), "it is judged like any other");
}

const AROUND: &str =
    "[matrix]\n\"copy.bytes\" = [\"6528B\", \"6560B\", \"6580B\", \"6592B\", \"6620B\", \"6656B\", \"6700B\"]";

#[test]
fn cliffs_are_recovered_at_the_line_the_page_and_the_l2_size() {
    let says = cliffs(&format!("[copy.sim]\nmultiple = 64\n{AROUND}"));
    assert!(says.contains("a multiple of the cache line (64 bytes) are 2.0 times faster"), "{says}");
    let sizes = "[matrix]\n\"copy.bytes\" = [\"4000B\", \"4096B\", \"4160B\", \"8128B\", \"8192B\", \"8256B\"]";
    let says = cliffs(&format!("[copy.sim]\nmultiple = 4096\n{sizes}"));
    assert!(says.contains("a multiple of the page (4096 bytes) are 2.0 times faster"), "{says}");
    let sizes = "[matrix]\n\"copy.bytes\" = [\"256KiB\", \"512KiB\", \"1MiB\", \"2MiB\", \"4MiB\"]";
    let says = cliffs(&format!("[copy.sim]\nbeyond = {}\n{sizes}", 1 << 20));
    assert!(says.contains("buffers that fit into the L2 (1048576 bytes) are 2.0 times faster"), "{says}");
}

#[test]
fn without_a_cliff_the_run_says_that_there_is_none() {
    let says = cliffs(AROUND);
    assert!(says.contains("this machine shows no cliff from 6528 to 6700 bytes a buffer"), "{says}");
}

#[test]
fn one_stall_of_many_threads_was_as_many_events() {
    // Once a trial eight threads are stopped, of which each is in a pass of another number.
    let text =
        "name = \"stalled\"\nkind = \"copy\"\n[copy]\nbackend = \"sim\"\nthreads = 8\niterations = 1000\n".to_owned();
    let experiment = tardy_spec::load(&Source { name: "stalled.toml".into(), text }, &[]).expect("sound");
    let cell = &experiment.cells[0];
    let copy = cell.setup.copy.as_ref().expect("a copy");
    let asked = BTreeMap::from([(COPY.to_owned(), vec![Metric::PASS])]);
    let mut analysis = CellAnalysis::new(cell.id.clone(), cell.axes.clone(), asked, Vec::new());
    for n in 1..=5 {
        let mut record = recorded(cell, copy, n);
        let batch = &mut record.1;
        let end = batch.offsets[Point::End.index()].as_mut().expect("a column");
        let (begin_ns, stop_ns) = (batch.scheduled_ns[0], 1_500_000);
        for thread in 0..8_i64 {
            // Thread 0 began first; the passes of thread 7 are shorter by a half.
            let pass_ns = 10_000 + 1_000 * (7 - thread);
            let mut now = begin_ns;
            for iteration in 0..1_000_i64 {
                let row = (iteration * 8 + thread) as usize;
                let is_stopped = now <= begin_ns + stop_ns && begin_ns + stop_ns < now + pass_ns;
                let took_ns = pass_ns + if is_stopped { 5_000_000 } else { 0 };
                batch.scheduled_ns[row] = now;
                end[row] = MaybeNanos::some(took_ns);
                now += took_ns;
            }
        }
        analysis.trial(&record.0, [(COPY, record.1)]);
    }
    let found = &analysis.finish().result.streams[COPY].metrics["begin..end"];
    assert_eq!(found.count, 5 * 8 * 1_000);
    assert_eq!(found.figures.max_ns.map(|ns| ns / 1_000_000), Some(5));
    assert!(found.unresolved.iter().any(|name| name == "p99.9"), "40 passes of five stalls: {found:?}");
}

#[test]
fn the_same_seed_gives_the_same_passes() {
    let experiment = experiment("threads = 3\n[copy.sim]\njitter = 0.5");
    assert_eq!(results(&experiment), results(&experiment));
}

#[test]
fn each_time_is_in_a_bucket_that_ends_at_most_a_sixteenth_later() {
    let mut last = 0;
    for ticks in (0..5_000_u64).chain([u64::from(u32::MAX), 1 << 40, u64::MAX / 3, u64::MAX]) {
        let (at, end) = (bucket(ticks), greatest(bucket(ticks)));
        assert!(at >= last && at < BUCKETS, "{ticks}: {at}");
        assert!(end >= ticks && end - ticks <= ticks / 16, "{ticks}: {end}");
        last = at;
    }
}

/// What the locks of a copy by the CPU say, of which this machine decides how long they take.
fn locks(submit: &str) -> CopyResult {
    let text = format!(
        "name = \"submitted\"\nkind = \"copy\"\n[copy]\ncontrollers = 2\nchannels = 2\nthreads = 2\nbuffers = 3\n\
         bytes = \"256B\"\niterations = 50\nfrom = \"locked\"\nto = \"locked\"\nsubmit = \"{submit}\"\n"
    );
    let experiment = tardy_spec::load(&Source { name: "submitted.toml".into(), text }, &[]).expect("sound");
    let copy = experiment.cells[0].setup.copy.as_ref().expect("a copy");
    let (stop, cpus) = (AtomicBool::new(false), [None; 8]);
    let order = CopyOrder { copy, cpus: &cpus, usable: &[], sizes: Sizes::USUAL, nonce: 1, stop: &stop };
    let copied = trial(&order, &mut CopyMemory::within(u64::MAX), &mut || ()).expect("memory and threads");
    let record = copied.record.copy.as_ref().expect("its record");
    let mut pass = tardy_analyze::copying::CopyPass::new(record);
    pass.push(&copied.batch);
    pass.finish(record).expect("passes")
}

#[test]
fn every_descriptor_goes_through_all_queues_whatever_the_lock() {
    for submit in ["spin", "mutex", "ticket"] {
        let copy = locks(submit);
        assert_eq!(copy.bytes, 8 * 50 * 3 * 256, "{submit}");
        let taken: Vec<u64> = copy.locks.iter().map(|lock| lock.taken).collect();
        // A descriptor is taken and given back; it is allocated, submitted and completed one by
        // one, issued and collected with all others of its pass.
        assert_eq!(taken, [8 * 50 * 2 * 3, 8 * 50 * (3 * 3 + 2)], "{submit}");
        assert!(copy.locks.iter().all(|lock| lock.p50_ns <= lock.p99_ns && lock.p99_ns <= lock.max_ns), "{copy:?}");
        assert!(copy.locks.iter().all(|lock| lock.share > 0.0), "{copy:?}");
    }
    assert!(locks("none").locks.is_empty());
}
