// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backend `cpu`: threads that copy. Between two passes a thread takes one mark, which ends the one
//! and begins the other, into memory that it has touched before; nothing else.

use super::background::Disturbance;
use super::order::{Asked, Copied, CopyError, CopyMemory, CopyOrder, thread_of};
use super::submission::{Client, Submission};
use super::window::windows;
use crate::worker::{saw, usage, used};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::Duration;
use tardy_model::copy::{CopyThread, Copying, LockTimes, Pages};
use tardy_model::placement::ThreadRecord;
use tardy_sys::mark::{Mark, Marker, Tied};
use tardy_sys::memory::{BufferWalk, Region, Walk, can};
use tardy_sys::{clock, thread};

/// Stack of a copying thread.
const STACK: usize = 256 << 10;
/// All threads must be ready within this time: they only touch memory until then.
const READY: Duration = Duration::from_secs(60);
/// How often the thread that waits for them looks.
const LOOK: Duration = Duration::from_millis(10);
/// Marks of which the cost is measured, and how often.
const MARKS: usize = 4_096;
const ROUNDS: usize = 9;

/// Where threads wait until all are ready.
#[derive(Default)]
struct Gate {
    state: Mutex<(u32, Option<bool>)>,
    changed: Condvar,
}

impl Gate {
    /// One more is ready: waits, and returns whether to go on.
    fn ready(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
        loop {
            if let Some(go) = state.1 {
                return go;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until that number of threads is ready; false if that takes too long.
    fn wait_for(&self, threads: u32) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, READY, |state| state.0 < threads);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Lets all of them go on, or give up.
    fn open(&self, go: bool) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(go);
        self.changed.notify_all();
    }
}

/// What a thread hands over.
struct Done {
    marks: Vec<Mark>,
    busy_ns: i64,
    thread: ThreadRecord,
    regions: [Region; 2],
    locks: Vec<LockTimes>,
}

pub(super) fn run(order: &CopyOrder<'_>, memory: &mut CopyMemory, look: &mut dyn FnMut()) -> Result<Copied, CopyError> {
    let copy = order.copy;
    if !can(copy.method) {
        return Err(CopyError::Method(copy.method.name()));
    }
    let marker = Marker::of_this_machine();
    let recording_ns = cost(marker);
    let window = windows(copy, &order.sizes).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let buffers = BufferWalk { count: copy.buffers, bytes: usize::try_from(copy.bytes).unwrap_or(usize::MAX), window };
    memory.take(copy, window)?;
    let walks: Vec<(Walk, bool)> = memory.walks(copy, buffers)?;
    let huge: Vec<bool> = walks.iter().map(|(_, huge)| *huge).collect();
    let submission = Submission::of(copy);
    let (gate, longest) = (Gate::default(), Duration::from_nanos(copy.longest.0.max(1) as u64));
    let is_late = AtomicBool::new(false);
    let before = clock::read_clocks();
    let first = marker.with_clock();
    let (done, last) = std::thread::scope(|scope| -> Result<_, CopyError> {
        let started = walks.into_iter().enumerate().map(|(number, (walk, _))| {
            let (cpu, gate, is_late) = (order.cpus.get(number).copied().flatten(), &gate, &is_late);
            let client = submission.as_ref().map(|of| of.client(number as u32, marker));
            let body = move || body(copy, cpu, (walk, client), (marker, first), gate, &[order.stop, is_late]);
            let named = Builder::new().name(format!("tardy-copy-{number}")).stack_size(STACK);
            named.spawn_scoped(scope, body).map_err(|error| CopyError::Thread {
                number: number as u32,
                why: format!("the kernel gave none: {error}; take fewer threads"),
            })
        });
        let started: Vec<Result<ScopedJoinHandle<'_, Option<Done>>, CopyError>> = started.collect();
        let threads: Vec<_> = match started.into_iter().collect::<Result<Vec<_>, CopyError>>() {
            Ok(threads) => threads,
            Err(error) => {
                gate.open(false);
                return Err(error);
            }
        };
        if !gate.wait_for(copy.all_threads()) {
            gate.open(false);
            let why = format!("not all were ready within {} s", READY.as_secs());
            return Err(CopyError::Thread { number: 0, why });
        }
        let disturbance = Disturbance::start(copy.background, order.usable, longest + READY).map_err(|error| {
            gate.open(false);
            CopyError::Thread { number: 0, why: format!("the kernel gave none for the background: {error}") }
        })?;
        look();
        gate.open(true);
        // Threads of a realtime policy may keep this one from every CPU but for the kernel's share
        // for others: what it is late by, a pass is late by.
        let until = std::time::Instant::now() + longest;
        while threads.iter().any(|thread| !thread.is_finished()) {
            if std::time::Instant::now() >= until || order.stop.load(Relaxed) {
                is_late.store(true, Relaxed);
            }
            std::thread::sleep(LOOK);
        }
        look();
        drop(disturbance);
        let done = threads.into_iter().enumerate().map(|(number, thread)| {
            let why = "it broke off".to_owned();
            thread.join().ok().flatten().ok_or(CopyError::Thread { number: number as u32, why })
        });
        Ok((done.collect::<Result<Vec<Done>, CopyError>>()?, marker.with_clock()))
    })?;
    let mut threads = Vec::with_capacity(done.len());
    for (number, Done { marks, busy_ns, thread, regions, locks }) in done.into_iter().enumerate() {
        let instants = || marks.iter().map(|mark| Tied::instant(first, last, mark.ticks).ns());
        let passes: Vec<(i64, i64)> = instants().zip(instants().skip(1)).collect();
        let cpus = changes(&marks);
        let mut thread = thread;
        cpus.iter().for_each(|(_, cpu)| saw(&mut thread, *cpu));
        let of = CopyThread {
            done: passes.len() as u32,
            busy_ns,
            cpus,
            thread,
            has_huge_pages: huge.get(number).copied().unwrap_or(false),
            nodes: regions.each_ref().map(Region::node),
            locks,
            ..thread_of(copy, number as u32)
        };
        threads.push((passes, of));
        memory.give_back(regions, (copy.pages, copy.nodes));
    }
    Ok(Copied { threads, recording_ns, clocks: [before, clock::read_clocks()] })
}

/// The CPU on which a pass ended, wherever it is another than before.
fn changes(marks: &[Mark]) -> Vec<(u32, u32)> {
    let mut found: Vec<(u32, u32)> = Vec::new();
    for (pass, mark) in marks.iter().skip(1).enumerate() {
        if found.last().is_none_or(|(_, cpu)| *cpu != mark.cpu) {
            found.push((pass as u32, mark.cpu));
        }
    }
    found
}

/// What a thread does; `None` if it was told to give up.
fn body(
    copy: &Copying,
    cpu: Option<u32>,
    (mut walk, mut client): (Walk, Option<Client<'_>>),
    (marker, first): (Marker, Tied),
    gate: &Gate,
    ends: &[&AtomicBool; 2],
) -> Option<Done> {
    let mut marks = vec![Mark { ticks: 1, cpu: 0 }; copy.iterations as usize + 1];
    // Once without a mark: page tables and caches are filled as in the middle of the trial.
    match &mut client {
        Some(client) => {
            client.pass(&mut walk, copy.method);
            client.forget();
        }
        None => walk.pass(copy.method),
    }
    let mut thread = placed(copy, cpu);
    // From here on, so that a thread that does not get a CPU when all begin has waited for it.
    let before = usage(thread.tid);
    if !gate.ready() {
        return None;
    }
    let ran_ns = thread::cpu_time().0;
    let passes = match &mut client {
        Some(client) => passes(|| client.pass(&mut walk, copy.method), marker, &mut marks, ends),
        None => passes(|| walk.pass(copy.method), marker, &mut marks, ends),
    };
    let busy_ns = thread::cpu_time().0 - ran_ns;
    let after = usage(thread.tid);
    used(&mut thread, before, after);
    marks.truncate(passes + 1);
    let locks = client.map(|client| client.times(tick_ns(first, marker.with_clock()))).unwrap_or_default();
    // A CPU that went offline meanwhile is one that the kernel took away.
    if let Some(cpu) = cpu
        && let Ok(affinity) = thread::affinity()
        && affinity != thread.affinity
    {
        thread.refused.push(format!(
            "CPU {cpu} was taken away during the trial: it went offline, or others bound the thread anew"
        ));
        thread.affinity = affinity;
    }
    let regions = walk.into_regions();
    thread.memory_locked = regions.iter().all(Region::is_locked);
    Some(Done { marks, busy_ns, thread, regions, locks })
}

/// Passes until all are done, or until it is to end: how many.
#[inline]
fn passes(mut pass: impl FnMut(), marker: Marker, marks: &mut [Mark], ends: &[&AtomicBool; 2]) -> usize {
    let Some((first, marks)) = marks.split_first_mut() else { return 0 };
    *first = marker.mark();
    for (done, mark) in marks.iter_mut().enumerate() {
        if ends[0].load(Relaxed) || ends[1].load(Relaxed) {
            return done;
        }
        pass();
        *mark = marker.mark();
    }
    marks.len()
}

/// The length of a tick, ns.
fn tick_ns(first: Tied, last: Tied) -> f64 {
    let ticks = last.ticks.saturating_sub(first.ticks);
    if ticks > 0 { (last.tai_ns - first.tai_ns) as f64 / ticks as f64 } else { 1.0 }
}

/// Pins and schedules the calling thread, and reads back what it got.
fn placed(copy: &Copying, cpu: Option<u32>) -> ThreadRecord {
    let pinned = cpu.map_or(Ok(()), thread::pin);
    let scheduled = thread::set_policy(copy.policy);
    let refused = [pinned, scheduled].into_iter().filter_map(Result::err).map(|error| error.to_string());
    ThreadRecord {
        tid: thread::id(),
        policy_asked: copy.policy.to_string(),
        policy_granted: thread::policy().map_or_else(|error| error.to_string(), |policy| policy.to_string()),
        cpu_asked: cpu,
        affinity: thread::affinity().unwrap_or_default(),
        refused: refused.collect(),
        ..ThreadRecord::default()
    }
}

/// What it costs to take a mark and keep it, ns: the median of some rounds.
fn cost(marker: Marker) -> f64 {
    let mut marks = vec![Mark { ticks: 1, cpu: 0 }; MARKS];
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let first = marker.with_clock();
            marks.iter_mut().for_each(|mark| *mark = marker.mark());
            let last = marker.with_clock();
            let of = |at: usize| Tied::instant(first, last, marks[at].ticks).ns();
            (of(MARKS - 1) - of(0)) as f64 / (MARKS - 1) as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

impl CopyMemory {
    /// Has memory of this size for each thread.
    fn take(&mut self, copy: &Copying, window: [usize; 2]) -> Result<(), CopyError> {
        let huge = copy.pages == Pages::Huge;
        let asked: Asked = (copy.pages, copy.nodes);
        let fits = |of: &[Region; 2]| of.iter().zip(window).all(|(region, bytes)| region.bytes() >= bytes);
        // What does not fit goes before more is taken.
        self.regions.retain(|(of, had)| *had == asked && fits(of));
        while self.regions.len() < copy.all_threads() as usize {
            let ([from, to], [of_from, of_to]) = (window, copy.nodes);
            self.regions.push(([Region::new(from, huge, of_from)?, Region::new(to, huge, of_to)?], asked));
        }
        Ok(())
    }

    /// The walks of all threads, and whether they go over huge pages.
    fn walks(&mut self, copy: &Copying, buffers: BufferWalk) -> Result<Vec<(Walk, bool)>, CopyError> {
        let taken = self.regions.drain(..copy.all_threads() as usize);
        let walk = |(number, ([from, to], _)): (usize, ([Region; 2], Asked))| {
            let huge = from.has_huge_pages() && to.has_huge_pages();
            let why = || "its buffers do not lie in its memory".to_owned();
            let walk = Walk::new(from, to, buffers);
            walk.map(|walk| (walk, huge)).ok_or_else(|| CopyError::Thread { number: number as u32, why: why() })
        };
        taken.enumerate().map(walk).collect()
    }

    fn give_back(&mut self, regions: [Region; 2], asked: Asked) {
        self.regions.push((regions, asked));
    }
}
