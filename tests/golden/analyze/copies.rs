// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies: whether bandwidths may be added up, against what was put in, and which thread copied
//! when.

use tardy_analyze::copying::parallel::{Copied, OnePass, Together, together};
use tardy_analyze::copying::timeline::{CopyTimeline, MOST_SLICES, PARTS};
use tardy_analyze::envelope::{EnvelopePass, Grain, Trace};
use tardy_model::copy::{CopyRecord, CopyThread, Sizes};
use tardy_model::point::{Metric, Point};
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};

/// Ten passes of 1000 ns, one after the other, that copy 1000 bytes each.
fn thread(from_ns: i64) -> Copied {
    let pass = |n: i64| OnePass { start_ns: from_ns + n * 1_000, end_ns: from_ns + (n + 1) * 1_000 };
    Copied { passes: (0..10).map(pass).collect(), bytes_per_pass: 1_000, busy_ns: 10_000 }
}

fn of(threads: &[Copied]) -> Together {
    together(threads).expect("passes were ended")
}

fn is(got: f64, wanted: f64) {
    assert!((got - wanted).abs() < 1e-9, "{got} instead of {wanted}");
}

#[test]
fn threads_that_copied_all_the_time_may_be_added_up() {
    let both = of(&[thread(5), thread(5)]);
    is(both.wall_rate, 2e9);
    is(both.sum_rate, 2e9);
    is(both.parallelism, 2.0);
    is(both.overlaps[0].1, 1.0);
    assert_eq!(both.in_flight_ns, [0, 0, 10_000]);
    assert!(both.may_be_added_up());
}

#[test]
fn threads_that_copied_one_after_the_other_had_no_more_than_one() {
    let all: Vec<Copied> = (0..8).map(|n| thread(n * 10_000)).collect();
    let all = of(&all);
    is(all.wall_rate, 1e9);
    is(all.sum_rate, 8e9);
    is(all.times_less(), 8.0);
    is(all.parallelism, 1.0);
    assert_eq!(all.assumed(), 8);
    assert!(all.overlaps.iter().all(|(_, share)| *share == 0.0), "{:?}", all.overlaps);
    assert_eq!(all.in_flight_ns[1], 80_000);
    assert!(!all.may_be_added_up());
}

#[test]
fn threads_that_overlapped_by_half_are_half_as_wrong() {
    let both = of(&[thread(0), thread(5_000)]);
    is(both.overlaps[0].1, 0.5);
    is(both.times_less(), 1.5);
    is(both.parallelism, 20_000.0 / 15_000.0);
    assert_eq!(both.in_flight_ns, [0, 10_000, 5_000]);
}

#[test]
fn time_in_flight_is_not_time_busy() {
    // Both are in a pass all the time, and share one CPU.
    let shared = |from_ns| Copied { busy_ns: 5_000, ..thread(from_ns) };
    let both = of(&[shared(0), shared(0)]);
    is(both.parallelism, 1.0);
    is(both.overlaps[0].1, 1.0);
    is(both.error(), 0.0);
    assert!(!both.may_be_added_up(), "they took turns: {both:?}");
    is(both.times_less(), 2.0);
}

/// One pass of this length, on a CPU all the time.
fn once(from_ns: i64, to_ns: i64, bytes_per_pass: u64) -> Copied {
    Copied { passes: vec![OnePass { start_ns: from_ns, end_ns: to_ns }], bytes_per_pass, busy_ns: to_ns - from_ns }
}

#[test]
fn a_sum_of_unequal_threads_assumed_more_threads_than_there_were() {
    // One has done its pass when the other is half way.
    let both = of(&[once(0, 1_000, 1_000), once(0, 2_000, 1_000)]);
    is(both.sum_rate, 1.5e9);
    is(both.wall_rate, 1e9);
    is(both.error(), 0.5);
    is(both.parallelism, 1.5);
    assert_eq!(both.assumed(), 2);
    is(both.times_less(), 2.0 / 1.5);
    assert!(!both.may_be_added_up());
    // Of unequal speed, and in passes all the time.
    let both = of(&[once(0, 2_000, 1_000), once(0, 2_000, 4_000)]);
    is(both.error(), 0.0);
    is(both.times_less(), 1.0);
    assert!(both.may_be_added_up());
}

#[test]
fn threads_that_took_turns_within_their_passes_could_be_added_up() {
    // Sixteen are in a pass all the time, on two CPUs.
    let turn = || Copied { busy_ns: 1_000, ..once(0, 8_000, 1_000) };
    let all = of(&(0..16).map(|_| turn()).collect::<Vec<_>>());
    is(all.error(), 0.0);
    is(all.parallelism, 2.0);
    is(all.times_less(), 8.0);
    assert!(!all.may_be_added_up());
}

#[test]
fn a_thread_that_stopped_early_copied_with_the_other_only_until_then() {
    let both = of(&[thread(0), Copied { passes: thread(0).passes[..1].to_vec(), busy_ns: 1_000, ..thread(0) }]);
    is(both.sum_rate, 2e9);
    is(both.wall_rate, 1.1e9);
    is(both.times_less(), 2.0 / 1.1);
    assert!(!both.may_be_added_up());
}

#[test]
fn a_thread_that_never_ran_counted_as_one_that_the_sum_assumes() {
    let all = of(&[thread(0), Copied { bytes_per_pass: 1_000, ..Copied::default() }, thread(0)]);
    assert_eq!(all.assumed(), 2);
    is(all.times_less(), 1.0);
    assert!(all.may_be_added_up(), "{all:?}");
    assert_eq!(all.in_flight_ns, [0, 0, 10_000, 0]);
}

#[test]
fn one_thread_that_waited_for_its_cpu_is_all_there_is() {
    let one = of(&[Copied { busy_ns: 2_000, ..thread(0) }]);
    is(one.error(), 0.0);
    assert!(one.may_be_added_up());
}

#[test]
fn a_pause_between_passes_is_no_time_in_flight() {
    let mut paused = thread(0);
    paused.passes.iter_mut().skip(5).for_each(|pass| {
        pass.start_ns += 10_000;
        pass.end_ns += 10_000;
    });
    let one = of(&[paused]);
    assert_eq!(one.in_flight_ns, [10_000, 10_000]);
    is(one.sum_rate, 1e9);
    is(one.wall_rate, 0.5e9);
}

#[test]
fn nothing_is_known_of_threads_that_ended_no_pass() {
    assert_eq!(together(&[Copied::default(), Copied::default()]), None);
    assert_eq!(together(&[]), None);
    let none = Copied { passes: vec![OnePass { start_ns: 5, end_ns: 5 }], ..Copied::default() };
    assert_eq!(together(&[none]), None, "no time went by");
}

/// What two threads did when, of passes (begin, end) in ns after the trial's base time.
fn timeline(passes: &[[(i64, i64); 2]], cpus: [&[(u32, u32)]; 2]) -> CopyTimeline {
    trace(passes, cpus).copy.expect("a copy")
}

/// What a page draws of the same.
fn trace(passes: &[[(i64, i64); 2]], cpus: [&[(u32, u32)]; 2]) -> Trace {
    let text = "name = \"two\"\nkind = \"copy\"\n[copy]\nthreads = 2\n".to_owned();
    let source = tardy_spec::Source { name: "two.toml".into(), text };
    let experiment = tardy_spec::load(&source, &[]).expect("a sound experiment");
    let asked = experiment.cells[0].setup.copy.clone().expect("a copy");
    let mut record = super::fixture::record(1, 20);
    let base_ns = record.base_tai_ns;
    let mut batch = Batch::default();
    let (mut begin, mut end) = (Vec::new(), Vec::new());
    for (from_ns, to_ns) in passes.iter().flatten() {
        batch.seq.push(batch.seq.len() as i64);
        batch.scheduled_ns.push(base_ns + from_ns);
        batch.outcome.push(Outcome::Received);
        batch.flags.push(Flags::default());
        begin.push(MaybeNanos::some(0));
        end.push(MaybeNanos::some(to_ns - from_ns));
    }
    batch.offsets[Point::Begin.index()] = Some(begin);
    batch.offsets[Point::End.index()] = Some(end);
    let thread = |cpus: &[(u32, u32)]| CopyThread { cpus: cpus.to_vec(), busy_ns: 5_000, ..CopyThread::default() };
    let of = record.streams.get_mut("ctl").expect("a stream");
    of.copy = Some(CopyRecord {
        asked,
        threads: cpus.map(thread).to_vec(),
        recording_ns: 0.0,
        window_bytes: [0, 0],
        sizes: Sizes::USUAL,
        provider: None,
        contention: None,
    });
    let mut pass = EnvelopePass::new(&record, "ctl", &[Metric::PASS], Grain::of(1, 1)).expect("its stream");
    pass.push(&batch);
    pass.finish()
}

#[test]
fn threads_that_ran_one_after_another_were_drawn_as_if_all_had_run_at_the_trials_end() {
    let passes: Vec<[(i64, i64); 2]> =
        (0..10).map(|n| [(n * 1_000, (n + 1) * 1_000), (100_000 + n * 2_000, 100_000 + (n + 1) * 2_000)]).collect();
    let found = trace(&passes, [&[(0, 0)], &[(0, 1)]]);
    let begins: Vec<i64> = passes.iter().map(|of| of[0].0).chain(passes.iter().map(|of| of[1].0)).collect();
    assert_eq!((found.packets, found.packets_each), (20, 1));
    assert_eq!(found.starts_ns, begins, "a bucket begins with its pass");
    let line = &found.metrics[&Metric::PASS];
    let of_buckets: Vec<(i64, i64)> = line.buckets.iter().flatten().map(|b| (b.max_seq, b.max_ns)).collect();
    let first = (0..10).map(|n| (2 * n, 1_000));
    let wanted: Vec<(i64, i64)> = first.chain((0..10).map(|n| (2 * n + 1, 2_000))).collect();
    assert_eq!(of_buckets, wanted, "all passes of the first thread, then those of the second");
    assert_eq!(line.shape.count, 20);
}

#[test]
fn each_pass_is_in_the_slices_of_its_time_on_its_cpu() {
    let passes: Vec<[(i64, i64); 2]> =
        (0..10).map(|n| [(n * 2_500, (n + 1) * 2_500), (50_000 + n * 400, 50_000 + (n + 1) * 400)]).collect();
    let found = timeline(&passes, [&[(0, 1), (4, 0)], &[(0, 1)]]);
    assert_eq!(found.every_ns, 1_000);
    let [first, second] = &found.threads[..] else { panic!("{found:?}") };
    let sum = |slices: &[tardy_analyze::copying::timeline::Slice]| slices.iter().map(|slice| slice.parts).sum::<u64>();
    assert_eq!((sum(&first.slices), sum(&second.slices)), (10 * PARTS, 10 * PARTS), "no part of a pass is lost");
    // The fifth pass, which ended on CPU 0, began after 10 µs.
    assert_eq!(first.slices[9].cpu, Some(1));
    assert_eq!(first.slices[10].cpu, Some(0));
    assert_eq!(first.slices.len(), 25);
    assert!(second.slices[..50].iter().all(|slice| slice.cpu.is_none() && slice.parts == 0), "it had not begun");
    assert_eq!(second.slices[50].in_pass_ns, 1_000);
    assert_eq!(second.slices[50].parts, PARTS * 5 / 2);
}

#[test]
fn a_long_trial_has_no_more_slices_than_a_short_one() {
    let passes: Vec<[(i64, i64); 2]> = (0..1_000).map(|n| [(n * 1_000_000, (n + 1) * 1_000_000); 2]).collect();
    let found = timeline(&passes, [&[(0, 0)], &[(0, 1)]]);
    for thread in &found.threads {
        assert!((MOST_SLICES / 2..=MOST_SLICES).contains(&thread.slices.len()), "{}", thread.slices.len());
        assert_eq!(thread.slices.iter().map(|slice| slice.parts).sum::<u64>(), 1_000 * PARTS);
        assert_eq!(thread.slices.iter().map(|slice| slice.in_pass_ns).sum::<i64>(), 1_000_000_000);
    }
    let coarse = found.joined(10);
    assert!(coarse.threads.iter().all(|thread| thread.slices.len() <= 10), "{}", coarse.threads[0].slices.len());
    assert_eq!(coarse.threads[1].slices.iter().map(|slice| slice.parts).sum::<u64>(), 1_000 * PARTS);
    assert!(coarse.every_ns * 10 >= 1_000_000_000);
}
