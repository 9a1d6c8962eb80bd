// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backend `cpu`: threads that copy. Between two passes a thread takes one mark, which ends the one
//! and begins the other, into memory that it has touched before; nothing else.

use super::background::{self, Disturbance};
use super::order::{Asked, Copied, CopyError, CopyMemory, CopyOrder, thread_of};
use super::submission::{Client, Submission};
use super::window::{HUGE, windows};
use crate::worker::{Usage, saw, usage, used, waited_between, waited_ns};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::Duration;
use tardy_model::copy::{CopyThread, Copying, LockTimes, Pages};
use tardy_model::placement::ThreadRecord;
use tardy_sys::mark::{Mark, Marker, Tied};
use tardy_sys::memory::{BufferWalk, Region, Walk, can, in_huge_pages};
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

/// A thread looks whether it is to end at least once in this number of bytes, also in the middle of
/// a pass.
const LOOK_BYTES: u64 = 64 << 20;

/// What a thread does when its gate opens.
#[derive(Clone, Copy)]
enum Told {
    /// To pass until its mark is at this reading, or all passes are done.
    Go {
        until_ticks: u64,
    },
    GiveUp,
}

/// Where threads wait until all are ready.
#[derive(Default)]
struct Gate {
    state: Mutex<Waiting>,
    /// For the thread that waits for all others. They wait by themselves: none is woken, and waits
    /// for a CPU, because another one has come.
    came: Condvar,
    opened: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Numbers and thread ids of those that are ready.
    ready: Vec<(usize, u32)>,
    told: Option<Told>,
}

impl Gate {
    /// One more is ready: waits for what it is to do.
    fn ready(&self, number: usize, tid: u32) -> Told {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ready.push((number, tid));
        self.came.notify_one();
        loop {
            if let Some(told) = state.told {
                return told;
            }
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until that number of threads is ready, and returns them; `None` if that takes too
    /// long.
    fn wait_for(&self, threads: u32) -> Option<Vec<(usize, u32)>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.came.wait_timeout_while(state, READY, |state| state.ready.len() < threads as usize);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (!waited.timed_out()).then(|| state.ready.clone())
    }

    /// Lets all of them go on, or give up.
    fn open(&self, told: Told) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).told = Some(told);
        self.opened.notify_all();
    }
}

/// When a thread is to end before its passes are done.
struct Ends<'a> {
    marker: Marker,
    until_ticks: u64,
    /// A signal, and that it is late by the clock of the thread that waits for all.
    told: [&'a AtomicBool; 2],
}

impl Ends<'_> {
    #[inline]
    fn are_told(&self) -> bool {
        self.told.iter().any(|told| told.load(Relaxed))
    }

    /// The same, or its time is over: for the middle of a pass.
    fn are_due(&self) -> bool {
        self.are_told() || self.marker.mark().ticks >= self.until_ticks
    }
}

/// What a thread hands over.
struct Done {
    marks: Vec<Mark>,
    busy_ns: i64,
    thread: ThreadRecord,
    /// How long it had waited for a CPU when its first pass began, and what it had used when its
    /// last one ended.
    began: Option<i64>,
    after: Usage,
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
    let (walks, huge) = memory.walks(copy, buffers)?;
    let submission = Submission::of(copy);
    let (gate, longest) = (Gate::default(), Duration::from_nanos(copy.longest.0.max(1) as u64));
    let is_late = AtomicBool::new(false);
    let before = clock::read_clocks();
    let first = marker.with_clock();
    let (done, begun, background, last) = std::thread::scope(|scope| -> Result<_, CopyError> {
        let started = walks.into_iter().enumerate().map(|(number, walk)| {
            let (cpu, gate, is_late) = (order.cpus.get(number).copied().flatten(), &gate, &is_late);
            let client = submission.as_ref().map(|of| of.client(number as u32, marker));
            let told = [order.stop, is_late];
            let body = move || body(copy, (number, cpu), (walk, client), (marker, first), gate, told);
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
                gate.open(Told::GiveUp);
                return Err(error);
            }
        };
        let give_up = |why: String| {
            // Also in the middle of the pass that comes before the trial.
            is_late.store(true, Relaxed);
            gate.open(Told::GiveUp);
            CopyError::Thread { number: 0, why }
        };
        let Some(ready) = gate.wait_for(copy.all_threads()) else {
            return Err(give_up(format!(
                "not all were ready within {} s, in which each passes over its buffers once: take fewer threads, or fewer or smaller \
                 buffers",
                READY.as_secs()
            )));
        };
        let mut disturbance = Disturbance::start(copy.background, order.usable, longest + READY, READY)
            .map_err(|why| give_up(format!("a thread of the background: {why}")))?;
        look();
        disturbance.look();
        // They sleep. From here on, so that what a thread waited for before is not in it, and that
        // one which does not get a CPU when all begin has waited for it.
        let mut begun = vec![Usage::default(); ready.len()];
        ready.iter().for_each(|(number, tid)| begun[*number] = usage(*tid));
        let now = marker.with_clock();
        let span = (copy.longest.0.max(1) as f64 / tick_ns(first, now)) as u64;
        gate.open(Told::Go { until_ticks: now.ticks.saturating_add(span) });
        // Threads of a realtime policy may keep this one from every CPU: each of them looks at the
        // time too. This one ends passes that take long.
        let until = std::time::Instant::now() + longest;
        while threads.iter().any(|thread| !thread.is_finished()) {
            if std::time::Instant::now() >= until || order.stop.load(Relaxed) {
                is_late.store(true, Relaxed);
            }
            std::thread::sleep(LOOK);
        }
        // The background is still there: whoever reads the machine's tasks sees what it took.
        look();
        disturbance.look();
        let done = threads.into_iter().enumerate().map(|(number, thread)| {
            let why = "it broke off".to_owned();
            thread.join().ok().flatten().ok_or(CopyError::Thread { number: number as u32, why })
        });
        let background = disturbance.record();
        drop(disturbance);
        Ok((done.collect::<Result<Vec<Done>, CopyError>>()?, begun, background, marker.with_clock()))
    })?;
    let instant = |mark: &Mark| Tied::instant(first, last, mark.ticks).ns();
    let passed = done.iter().filter(|of| of.marks.len() > 1);
    let first_ns = passed.filter_map(|of| of.marks.first()).map(instant).min();
    let mut threads = Vec::with_capacity(done.len());
    for ((number, done), before) in done.into_iter().enumerate().zip(begun) {
        let Done { marks, busy_ns, mut thread, began, after, regions, locks } = done;
        used(&mut thread, before, after);
        let instants = || marks.iter().map(instant);
        let behind_ns = instants().next().zip(first_ns).map_or(0, |(own, first)| (own - first).max(0));
        leave_out(&mut thread, waited_between(before, began).unwrap_or(0) - behind_ns);
        let passes: Vec<(i64, i64)> = instants().zip(instants().skip(1)).collect();
        let cpus = changes(&marks);
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
    let background = background.map(|load| background::since(first_ns.unwrap_or(first.tai_ns), load));
    let clocks = [before, clock::read_clocks()];
    Ok(Copied { threads, recording_ns, background, clocks, provider: None, contention: None })
}

/// Leaves out what a thread waited for before the copy's first pass: it is no time of the copy's.
fn leave_out(thread: &mut ThreadRecord, too_early_ns: i64) {
    let less = |ns: Option<i64>| ns.map(|ns| (ns - too_early_ns.max(0)).max(0));
    (thread.wait_ns, thread.over_ns) = (less(thread.wait_ns), less(thread.over_ns));
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
    (number, cpu): (usize, Option<u32>),
    (mut walk, mut client): (Walk, Option<Client<'_>>),
    (marker, first): (Marker, Tied),
    gate: &Gate,
    told: [&AtomicBool; 2],
) -> Option<Done> {
    let mut marks = vec![Mark { ticks: 1, cpu: 0 }; copy.iterations as usize + 1];
    let look_each = u32::try_from((LOOK_BYTES / copy.bytes.max(1)).max(1)).unwrap_or(u32::MAX);
    // Once without a mark: page tables and caches are filled as in the middle of the trial.
    pass(&mut walk, &mut client, copy, look_each, &Ends { marker, until_ticks: u64::MAX, told });
    client.iter_mut().for_each(Client::forget);
    let mut thread = placed(copy, cpu);
    let Told::Go { until_ticks } = gate.ready(number, thread.tid) else { return None };
    let ends = Ends { marker, until_ticks, told };
    let began = waited_ns(thread.tid);
    let ran_ns = thread::cpu_time().0;
    let passes = passes(|| pass(&mut walk, &mut client, copy, look_each, &ends), &mut marks, &ends);
    let busy_ns = thread::cpu_time().0 - ran_ns;
    let after = usage(thread.tid);
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
    Some(Done { marks, busy_ns, thread, began, after, regions, locks })
}

/// One pass, in parts where it is long; false if it is to end in the middle.
#[inline]
fn pass(walk: &mut Walk, client: &mut Option<Client<'_>>, copy: &Copying, look_each: u32, ends: &Ends<'_>) -> bool {
    if let Some(client) = client {
        return client.pass(walk, copy.method, look_each, &|| ends.are_due());
    }
    if copy.buffers <= look_each {
        walk.pass(copy.method);
        return true;
    }
    let mut left = copy.buffers;
    while left > 0 {
        if left < copy.buffers && ends.are_due() {
            return false;
        }
        let next = left.min(look_each);
        walk.next(next, copy.method);
        left -= next;
    }
    true
}

/// Passes until all are done, or until it is to end: how many.
#[inline]
fn passes(mut pass: impl FnMut() -> bool, marks: &mut [Mark], ends: &Ends<'_>) -> usize {
    let Some((first, marks)) = marks.split_first_mut() else { return 0 };
    *first = ends.marker.mark();
    // It may not have had a CPU before.
    if first.ticks >= ends.until_ticks {
        return 0;
    }
    for (done, mark) in marks.iter_mut().enumerate() {
        if ends.are_told() || !pass() {
            return done;
        }
        *mark = ends.marker.mark();
        if mark.ticks >= ends.until_ticks {
            return done + 1;
        }
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
    /// Has memory of this size for each thread. What other trials may use again stays, as far as
    /// all of it together is no more than this may hold.
    fn take(&mut self, copy: &Copying, window: [usize; 2]) -> Result<(), CopyError> {
        let (huge, threads) = (copy.pages == Pages::Huge, copy.all_threads() as usize);
        let asked: Asked = (copy.pages, copy.nodes);
        let fits = |of: &[Region; 2]| of.iter().zip(window).all(|(region, bytes)| region.bytes() >= bytes);
        // What does not fit goes before more is taken.
        self.regions.retain(|(of, had)| *had == asked && fits(of));
        let bytes = |of: &[Region; 2]| of.iter().map(|region| region.bytes() as u64 + HUGE).sum::<u64>();
        self.regions.sort_by_key(|(of, _)| bytes(of));
        let each = window.into_iter().map(|bytes| bytes as u64 + HUGE).fold(0, u64::saturating_add);
        let held = |regions: &[([Region; 2], Asked)]| regions.iter().map(|(of, _)| bytes(of)).sum::<u64>();
        let missing = |had: usize| each.saturating_mul(threads.saturating_sub(had) as u64);
        while !self.regions.is_empty()
            && held(&self.regions).saturating_add(missing(self.regions.len())) > self.most_bytes
        {
            self.regions.pop();
        }
        while self.regions.len() < threads {
            let ([from, to], [of_from, of_to]) = (window, copy.nodes);
            self.regions.push(([Region::new(from, huge, of_from)?, Region::new(to, huge, of_to)?], asked));
        }
        Ok(())
    }

    /// The walks of all threads, and whether each goes over huge pages.
    fn walks(&mut self, copy: &Copying, buffers: BufferWalk) -> Result<(Vec<Walk>, Vec<bool>), CopyError> {
        let taken: Vec<[Region; 2]> =
            self.regions.drain(..copy.all_threads() as usize).map(|(regions, _)| regions).collect();
        let huge = match copy.pages {
            Pages::Huge => {
                let all: Vec<&Region> = taken.iter().flatten().collect();
                in_huge_pages(&all).chunks(2).map(|sides| sides.iter().all(|is_huge| *is_huge)).collect()
            }
            // They were not asked for.
            Pages::Small => vec![false; taken.len()],
        };
        let walk = |(number, [from, to]): (usize, [Region; 2])| {
            let why = || "its buffers do not lie in its memory".to_owned();
            Walk::new(from, to, buffers).ok_or_else(|| CopyError::Thread { number: number as u32, why: why() })
        };
        Ok((taken.into_iter().enumerate().map(walk).collect::<Result<_, CopyError>>()?, huge))
    }

    fn give_back(&mut self, regions: [Region; 2], asked: Asked) {
        self.regions.push((regions, asked));
    }
}
