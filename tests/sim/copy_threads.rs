// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of a copy: what each waited for, what ends them, which memory they keep, and what
//! disturbs them. Where time matters, instants are compared with each other.

use crate::copies::{experiment, judged_as};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use tardy_engine::copy::{CopyMemory, CopyOrder, CopyTrial, background_bytes, trial};
use tardy_model::copy::{COPY, CopyRecord, Copying, Sizes};
use tardy_model::load::LoadKind;
use tardy_model::machine::CpuTimes;
use tardy_model::point::Point;
use tardy_model::sample::{Batch, MaybeNanos, Outcome};
use tardy_model::time::Tai;
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::{Level, Verdict};
use tardy_spec::Source;
use tardy_sys::clock;

/// A copy by the CPU with these keys.
fn copying(keys: &str) -> Copying {
    let text = format!("name = \"real\"\nkind = \"copy\"\n[copy]\nfrom = \"locked\"\nto = \"locked\"\n{keys}\n");
    let experiment = tardy_spec::load(&Source { name: "real.toml".into(), text }, &[]).expect("sound");
    experiment.cells[0].setup.copy.clone().expect("a copy")
}

/// One trial of it, with these CPUs for its background.
fn copied(copy: &Copying, usable: &[u32], memory: &mut CopyMemory, look: &mut dyn FnMut()) -> CopyTrial {
    let (stop, cpus) = (AtomicBool::new(false), vec![None; copy.all_threads() as usize]);
    let order = CopyOrder { copy, cpus: &cpus, usable, sizes: Sizes::USUAL, nonce: 1, stop: &stop };
    trial(&order, memory, look).expect("memory and threads")
}

/// Beginnings of each thread's passes that were done, in the order of the passes.
fn begins(copied: &CopyTrial) -> Vec<Vec<i64>> {
    let threads = copied.record.copy.as_ref().expect("its record").threads.len();
    let ended = copied.batch.offsets[Point::End.index()].as_ref().expect("ends");
    let mut begins = vec![Vec::new(); threads];
    for (row, scheduled_ns) in copied.batch.scheduled_ns.iter().enumerate() {
        if ended[row] != MaybeNanos::NONE {
            begins[row % threads].push(*scheduled_ns);
        }
    }
    begins
}

#[test]
fn only_the_thread_that_waited_for_all_ended_a_copy_that_took_too_long() {
    // It looks every ten milliseconds, and a realtime thread on each CPU would keep it from that.
    let copy = copying("threads = 2\nbytes = \"4KiB\"\niterations = 1_000_000\nlongest = \"2ms\"");
    let mut passes = 0;
    for _ in 0..100 {
        let begins = begins(&copied(&copy, &[], &mut CopyMemory::within(u64::MAX), &mut || ()));
        // On a busy machine no thread may have had a CPU in time.
        let Some(first_ns) = begins.iter().filter_map(|of| of.first()).min().copied() else { continue };
        for of in &begins {
            let late = of.iter().filter(|begin_ns| **begin_ns >= first_ns + 2_020_000).count();
            assert_eq!(late, 0, "of {} passes, these began after the copy's time was over", of.len());
            passes += of.len();
        }
        if passes > 100 {
            return;
        }
    }
    panic!("{passes} passes in a hundred copies");
}

#[test]
fn a_long_pass_held_up_the_end_of_a_copy() {
    // Half a GiB in a millisecond is beyond any memory.
    for submit in ["none", "spin"] {
        let keys =
            format!("bytes = \"1MiB\"\nbuffers = 512\niterations = 10\nlongest = \"1ms\"\nsubmit = \"{submit}\"");
        let copied = copied(&copying(&keys), &[], &mut CopyMemory::within(u64::MAX), &mut || ());
        let record = copied.record.copy.as_ref().expect("its record");
        assert_eq!(record.threads[0].done, 0, "{submit}");
    }
}

#[test]
fn what_a_thread_waited_for_before_its_first_pass_counted_as_wait() {
    let copy = copying("threads = 8\niterations = 5");
    let mut looked_ns = Vec::new();
    let mut look = || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        looked_ns.push(clock::now::<Tai>().ns());
    };
    let copied = copied(&copy, &[], &mut CopyMemory::within(u64::MAX), &mut look);
    let span_ns = looked_ns[1] - looked_ns[0];
    for of in &copied.record.copy.as_ref().expect("its record").threads {
        let over_ns = of.thread.over_ns.expect("a time");
        assert!(over_ns <= span_ns, "{over_ns} ns from before the last look, {span_ns} ns, on");
        assert!(of.thread.wait_ns.expect("a wait") <= over_ns, "{:?}", of.thread);
    }
}

#[test]
fn memory_of_other_cells_was_kept_until_there_was_none() {
    const MIB: u64 = 1 << 20;
    let few_large = copying("bytes = \"32MiB\"\nbuffers = 1\niterations = 1");
    let many_small = copying("bytes = \"8MiB\"\nbuffers = 1\niterations = 1\nthreads = 4");
    // Each alone needs 64 MiB, and two huge pages for each thread.
    let mut memory = CopyMemory::within(80 * MIB);
    for copy in [&few_large, &many_small, &few_large, &many_small] {
        copied(copy, &[], &mut memory, &mut || ());
        assert_eq!(memory.held_bytes(), 64 * MIB);
    }
    // Where there is room, what is mapped stays.
    let mut memory = CopyMemory::within(u64::MAX);
    copied(&few_large, &[], &mut memory, &mut || ());
    copied(&many_small, &[], &mut memory, &mut || ());
    assert_eq!(memory.held_bytes(), (64 + 3 * 16) * MIB);
}

#[test]
fn the_background_of_a_copy_was_a_stranger_on_its_cpus() {
    let usable = tardy_host::cpus::usable();
    for (word, bytes) in [("cpu", 0), ("memory", usable.len() as u64 * (64 << 20))] {
        let copy = copying(&format!("iterations = 50\nbackground = \"{word}\""));
        assert_eq!(background_bytes(&copy, usable.len()), bytes);
        let copied = copied(&copy, &usable, &mut CopyMemory::within(u64::MAX), &mut || ());
        let load = copied.background.as_ref().expect("it is recorded");
        assert_eq!(load.kind.name(), word);
        assert_eq!(matches!(load.kind, LoadKind::Memory { .. }), word == "memory");
        let of: Vec<_> = load.instances.iter().map(|instance| &instance.from).collect();
        assert_eq!(of.iter().filter_map(|side| side.thread.cpu_asked).collect::<Vec<_>>(), usable);
        let own: BTreeSet<u32> = [copied.record.copy.as_ref().expect("its record").threads[0].thread.tid].into();
        for side in &of {
            assert!(side.thread.tid != 0 && !own.contains(&side.thread.tid), "{:?}", side.thread);
            assert_eq!(side.thread.affinity, [side.thread.cpu_asked.expect("a CPU")]);
            assert!(side.thread.run_ns.is_some(), "{:?}", side.thread);
            // It disturbed before the first pass, and went on until after the last one.
            let end_ns = copied.record.sent_span_ns.expect("passes");
            assert!(side.began_ns.expect("a beginning") < 0 && side.ended_ns > end_ns, "{side:?}");
        }
    }
    let none = copied(&copying("iterations = 5"), &usable, &mut CopyMemory::within(u64::MAX), &mut || ());
    assert_eq!(none.background, None);
}

/// A trial of four simulated threads with this in its record and samples: what a rule says.
fn of_four(id: &str, spoil: impl Fn(&mut TrialRecord, &mut Batch)) -> Option<Verdict> {
    let experiment = experiment("threads = 4");
    let answer = judged_as(&experiment.cells[0], 1, spoil);
    answer.result.verdicts.into_iter().find(|verdict| verdict.id == id)
}

fn copy_of(record: &mut TrialRecord) -> &mut CopyRecord {
    record.streams.get_mut(COPY).and_then(|stream| stream.copy.as_mut()).expect("a copy")
}

/// Four threads of a policy that are bound to these CPUs, or that may run on two.
fn placed(record: &mut TrialRecord, policy: &str, bound: Option<[u32; 4]>) {
    for (number, of) in copy_of(record).threads.iter_mut().enumerate() {
        of.thread.policy_asked = policy.to_owned();
        of.thread.policy_granted = policy.to_owned();
        of.thread.cpu_asked = bound.map(|cpus| cpus[number]);
        of.thread.affinity = bound.map_or_else(|| vec![0, 1], |cpus| vec![cpus[number]]);
        of.thread.memory_locked = true;
    }
}

/// One pass that took a tenth of a second.
fn stop(batch: &mut Batch) {
    let ends = batch.offsets[Point::End.index()].as_mut().expect("ends");
    ends[400] = MaybeNanos::some(100_000_000);
}

#[test]
fn round_robin_slices_were_blamed_on_the_limit_of_realtime_threads() {
    let said = |policy: &str, bound: Option<[u32; 4]>| {
        of_four("rt-bandwidth", |record, batch| {
            placed(record, policy, bound);
            stop(batch);
        })
    };
    assert_eq!(said("rr:10", None), None);
    assert_eq!(said("rr:10", Some([0, 0, 1, 1])), None);
    for (policy, bound) in [("rr:10", Some([0, 1, 2, 3])), ("fifo:10", None)] {
        let stopped = said(policy, bound).unwrap_or_else(|| panic!("{policy} was stopped by nobody of its own"));
        assert!(stopped.says.contains("were stopped in 1 pass"), "{}", stopped.says);
    }
}

#[test]
fn bound_threads_and_round_robin_starved_each_other_in_the_words_of_fifo() {
    let said = |policy: &str, bound: Option<[u32; 4]>| {
        let starved = of_four("starved-copy", |record, _| {
            placed(record, policy, bound);
            let wall_ns = record.streams[COPY].sent_span_ns.expect("passes");
            copy_of(record).threads.iter_mut().skip(1).for_each(|of| of.thread.wait_ns = Some(wall_ns / 2));
        });
        starved.map(|verdict| verdict.says)
    };
    let says = |policy: &str, bound: Option<[u32; 4]>| said(policy, bound).expect("three of them starved");
    let free = says("fifo:10", None);
    assert!(
        free.contains("others of it had all CPUs: under fifo:10 a thread runs until its passes are done"),
        "{free}"
    );
    let bound = says("fifo:10", Some([0, 0, 0, 0]));
    assert!(
        bound.contains("others of it that are bound to the same CPU had it: under fifo:10 a thread runs"),
        "{bound}"
    );
    assert!(bound.contains("bind no more threads to a CPU than one"), "{bound}");
    let turns = says("rr:10", None);
    assert!(turns.contains("under rr:10 threads of one priority take turns"), "{turns}");
    assert_eq!(said("fifo:10", Some([0, 1, 2, 3])), None, "each had a CPU, and waited for somebody else");
}

#[test]
fn a_short_copy_that_waited_half_of_its_time_was_valid() {
    // One bound thread of about 20 ms that ran for half of them: three ticks would be noise.
    let of = |wait: fn(i64) -> i64| {
        let experiment = experiment("threads = 1\nbuffers = 240");
        let answer = judged_as(&experiment.cells[0], 1, |record, _| {
            let span_ns = record.after.clocks.monotonic_ns - record.before.clocks.monotonic_ns;
            assert!((15_000_000..30_000_000).contains(&span_ns), "{span_ns}");
            let (wait_ns, busy_ns) = (wait(span_ns), span_ns - wait(span_ns));
            let thread = &mut copy_of(record).threads[0].thread;
            (thread.policy_asked, thread.policy_granted) = ("other".to_owned(), "other".to_owned());
            (thread.cpu_asked, thread.affinity, thread.cpus_seen) = (Some(0), vec![0], vec![0]);
            thread.memory_locked = true;
            (thread.run_ns, thread.wait_ns, thread.over_ns) = (Some(busy_ns), Some(wait_ns), Some(span_ns));
            record.before.cpus.insert(0, CpuTimes::default());
            record.after.cpus.insert(0, CpuTimes { busy_ns: span_ns, ..CpuTimes::default() });
        });
        (answer.result.valid, answer.result.verdicts.into_iter().find(|verdict| verdict.id == "competing-cpu"))
    };
    let (valid, verdict) = of(|span_ns| span_ns / 2);
    let verdict = verdict.expect("it is not silent");
    assert!(!valid && verdict.level == Level::Invalid, "{verdict:?}");
    assert!(verdict.says.contains("copy.0 (other) waited for CPU 0 for"), "{}", verdict.says);
    assert!(verdict.says.contains("of it for others than this run's threads and loads"), "{}", verdict.says);
    let (valid, verdict) = of(|_| 1_200_000);
    assert!(valid && verdict.is_some_and(|verdict| verdict.level == Level::Warning), "a few hundredths");
    assert_eq!(of(|_| 900_000), (true, None), "what a scheduler does by itself");
}

#[test]
fn passes_that_were_not_done_were_packets_that_were_lost() {
    let experiment = experiment("threads = 1\n[expect.copy]\n\"begin..end\" = \"p99 < 10s\"");
    let answer = judged_as(&experiment.cells[0], 1, |record, batch| {
        record.interrupted = true;
        copy_of(record).threads[0].done = 100;
        for row in (0..200).step_by(2) {
            batch.outcome[row] = Outcome::NotSent;
            for point in [Point::Begin, Point::End] {
                batch.offsets[point.index()].as_mut().expect("offsets")[row] = MaybeNanos::NONE;
            }
        }
    });
    // Passes that were not begun come behind all others, as one event.
    let why = answer.expectations[0].why.as_deref().expect("it cannot be judged");
    assert!(why.starts_with("100 of 200 values are beyond the limit") && !why.contains("packet"), "{why}");
    let interrupted = answer.result.verdicts.iter().find(|verdict| verdict.id == "interrupted").expect("a verdict");
    let says = "the trial was interrupted after 100 of 200 passes of copy";
    assert!(interrupted.says.contains(says), "{}", interrupted.says);
}
