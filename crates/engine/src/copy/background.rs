// SPDX-License-Identifier: MIT OR Apache-2.0
//! What disturbs a copy meanwhile: a thread on each CPU that copies through its own memory or
//! computes, until the copy is over or has taken its longest. Each is recorded as an instance of a
//! load, for what it takes from the copy is what was asked for.

use crate::worker::{Usage, last_cpu, saw, usage, used};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use tardy_model::copy::{Background, Copying};
use tardy_model::load::{InstanceRecord, LoadKind, LoadRecord, SideRecord};
use tardy_model::placement::ThreadRecord;
use tardy_model::stream::Policy;
use tardy_model::time::{Nanos, Tai};
use tardy_sys::{clock, thread};

/// Memory of a thread that copies, and what it copies between two looks at the time.
const WORKING_SET: u64 = 64 << 20;
const CHUNK: usize = 256 << 10;
/// Rounds of a thread that computes between two looks.
const ROUNDS: u64 = 4_096;
/// A thread needs no more.
const STACK: usize = 128 << 10;
/// The load of type `cpu` whose only period is the whole of a trial.
const PERIOD: Nanos = Nanos(1_000_000_000);

/// Memory that the background of a copy needs on this number of CPUs, bytes.
pub fn background_bytes(copy: &Copying, cpus: usize) -> u64 {
    if copy.background == Background::Memory { WORKING_SET.saturating_mul(cpus as u64) } else { 0 }
}

/// One thread that disturbs.
struct Disturber {
    handle: JoinHandle<()>,
    record: ThreadRecord,
    copied: Arc<AtomicU64>,
    /// What it had used and copied when it was looked at.
    looks: Vec<(Usage, u64)>,
}

/// Threads that disturb, until it is dropped.
pub(super) struct Disturbance {
    kind: Background,
    is_over: Arc<AtomicBool>,
    threads: Vec<Disturber>,
    /// When all were looked at, TAI, ns.
    at_ns: Vec<i64>,
}

impl Disturbance {
    /// One thread on each of these CPUs, for `longest` at most. All of them disturb when this
    /// returns.
    ///
    /// # Errors
    /// If the kernel has no thread or no memory for it, or one does not get a CPU.
    pub(super) fn start(
        kind: Background,
        cpus: &[u32],
        longest: Duration,
        ready: Duration,
    ) -> Result<Disturbance, String> {
        let mut disturbance = Disturbance { kind, is_over: Arc::default(), threads: Vec::new(), at_ns: Vec::new() };
        let until = Instant::now() + longest;
        for cpu in cpus.iter().copied().filter(|_| kind != Background::None) {
            let (is_over, copied) = (disturbance.is_over.clone(), Arc::<AtomicU64>::default());
            let (tell, told) = channel();
            let counts = copied.clone();
            let work = move || {
                let placed = placed(cpu);
                disturb(kind, placed, &tell, &counts, || is_over.load(Relaxed) || Instant::now() >= until);
            };
            let named = Builder::new().name("tardy-disturb".into()).stack_size(STACK).spawn(work);
            let handle = named.map_err(|error| format!("the kernel gave none: {error}"))?;
            let told = told.recv_timeout(ready);
            let record =
                told.map_err(|_| format!("the one on CPU {cpu} was not ready within {} s", ready.as_secs()))??;
            disturbance.threads.push(Disturber { handle, record, copied, looks: Vec::with_capacity(2) });
        }
        Ok(disturbance)
    }

    /// Reads what each has done so far: between two such looks its figures are those of the trial.
    pub(super) fn look(&mut self) {
        self.at_ns.push(clock::now::<Tai>().ns());
        for of in &mut self.threads {
            last_cpu(of.record.tid).into_iter().for_each(|cpu| saw(&mut of.record, cpu));
            of.looks.push((usage(of.record.tid), of.copied.load(Relaxed)));
        }
    }

    /// What was seen of it between its first and its last look, in TAI; `None` if nothing
    /// disturbed.
    pub(super) fn record(&self) -> Option<LoadRecord> {
        let kind = match self.kind {
            Background::None => return None,
            // It has what the copying threads leave of its CPU.
            Background::Cpu => LoadKind::Cpu { duty: 1.0, period: PERIOD },
            Background::Memory => LoadKind::Memory { working_set: WORKING_SET },
        };
        let [began_ns, ended_ns] = [*self.at_ns.first()?, *self.at_ns.last()?];
        let instance = |of: &Disturber| {
            let ((before, had), (after, has)) = (*of.looks.first()?, *of.looks.last()?);
            let mut thread = of.record.clone();
            used(&mut thread, before, after);
            let busy_ns = thread.run_ns.filter(|_| self.kind == Background::Cpu);
            let copied_bytes = has - had;
            let from = SideRecord {
                thread,
                began_ns: Some(began_ns),
                ended_ns,
                busy_ns,
                copied_bytes,
                ..SideRecord::default()
            };
            Some(InstanceRecord { from, to: None })
        };
        let instances = self.threads.iter().filter_map(instance).collect();
        let shortfall = 1.0;
        Some(LoadRecord { kind, shortfall, start_ns: began_ns, stop_ns: None, instances, hosts: Default::default() })
    }
}

/// The same by the time since a copy began, as loads are recorded.
pub(super) fn since(base_ns: i64, mut load: LoadRecord) -> LoadRecord {
    load.start_ns -= base_ns;
    for SideRecord { began_ns, ended_ns, .. } in load.instances.iter_mut().map(|instance| &mut instance.from) {
        *ended_ns -= base_ns;
        *began_ns = began_ns.map(|began| began - base_ns);
    }
    load
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        for of in self.threads.drain(..) {
            // One that panicked disturbs no more either.
            let _ = of.handle.join();
        }
    }
}

/// Binds the calling thread, and reads back what it got.
fn placed(cpu: u32) -> ThreadRecord {
    let refused = thread::pin(cpu).err().map(|error| error.to_string());
    ThreadRecord {
        tid: thread::id(),
        policy_asked: Policy::Other.to_string(),
        policy_granted: thread::policy().map_or_else(|error| error.to_string(), |policy| policy.to_string()),
        cpu_asked: Some(cpu),
        affinity: thread::affinity().unwrap_or_default(),
        refused: refused.into_iter().collect(),
        ..ThreadRecord::default()
    }
}

/// Says that it is ready, once its memory is touched, and disturbs.
fn disturb(
    kind: Background,
    placed: ThreadRecord,
    tell: &Sender<Result<ThreadRecord, String>>,
    copied: &AtomicU64,
    is_over: impl Fn() -> bool,
) {
    match kind {
        Background::None => {}
        Background::Cpu => {
            // Nobody waits any more who does not hear it.
            let _ = tell.send(Ok(placed));
            let mut state: u64 = 1;
            while !is_over() {
                for _ in 0..ROUNDS {
                    state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
            }
        }
        Background::Memory => {
            let (mut here, mut there) = match (touched(), touched()) {
                (Ok(here), Ok(there)) => (here, there),
                (Err(why), _) | (_, Err(why)) => {
                    let _ = tell.send(Err(why));
                    return;
                }
            };
            let _ = tell.send(Ok(placed));
            loop {
                for (from, to) in here.chunks(CHUNK).zip(there.chunks_mut(CHUNK)) {
                    to.copy_from_slice(black_box(from));
                    copied.fetch_add(from.len() as u64, Relaxed);
                    if is_over() {
                        return;
                    }
                }
                std::mem::swap(&mut here, &mut there);
            }
        }
    }
}

/// Half of a working set.
fn touched() -> Result<Vec<u8>, String> {
    let half = (WORKING_SET / 2) as usize;
    let mut memory = Vec::new();
    memory.try_reserve_exact(half).map_err(|error| format!("its {WORKING_SET} bytes of memory: {error}"))?;
    memory.resize(half, 0x5a);
    Ok(memory)
}
