// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backend `sgtest`: tardy's own test module has DMA controllers copy several buffers as one chain
//! of descriptors, which the kernel's dmatest has not done since Linux 4.14. tardy sets the
//! module's parameters, waits, and reads what it kept. Each chain of a thread is a row: the module
//! reads CLOCK_TAI before it takes the first descriptor and when the last one was copied.

pub mod lines;

use super::contention::Tracing;
use super::controllers::{Busy, channels, provider};
use super::order::{Copied, CopyError, CopyOrder, kernel_thread, thread_of};
use super::parameters::{TIMEOUT_MS, Test};
use lines::{Chains, Line, line};
use std::fs::File;
use std::io::{BufRead, BufReader};
use tardy_model::copy::{CopyModule, CopyThread, Copying};
use tardy_sys::clock;

/// What the module kept of the test that ran last.
const KEPT: &str = "/proc/tardy_sgtest";

/// A thread, and its passes: TAI, ns.
type Thread = (Chains, Vec<(i64, i64)>);

/// What the module kept of each thread.
fn kept(test: &Test) -> Result<Vec<Thread>, CopyError> {
    let failed = |error: std::io::Error| test.failed(format!("{KEPT}: {error}"));
    let mut found: Vec<Thread> = Vec::new();
    for text in BufReader::new(File::open(KEPT).map_err(failed)?).lines() {
        let text = text.map_err(failed)?;
        let known = match line(&text) {
            Some(Line::Thread(of)) => {
                found.push((of, Vec::new()));
                true
            }
            Some(Line::Pass { thread, begin_ns, end_ns }) => {
                let passes = found.get_mut(thread).map(|(_, passes)| passes.push((begin_ns, end_ns)));
                passes.is_some()
            }
            None => false,
        };
        if !known {
            return Err(test.failed(format!(
                "{KEPT} has a line that this version of tardy does not know: \"{text}\"; build the module again (tardy guest fetch \
                 --with dmatest)"
            )));
        }
    }
    Ok(found)
}

/// Why these are not the figures of a thread that was asked for; `None` if they are.
fn fault(copy: &Copying, (of, passes): &Thread, channel: &str, number: u32) -> Option<String> {
    let is_it = of.channel == channel && of.thread == number;
    let is_asked = of.descriptors == u64::from(copy.buffers) && of.bytes == copy.bytes;
    match () {
        () if !is_it || !is_asked || of.asked != u64::from(copy.iterations) => {
            Some(format!("it reports another test than was asked for: {}", of.line))
        }
        () if of.failures > 0 => Some(format!("it counts failures: {}", of.line)),
        () if passes.len() as u64 != of.done => {
            Some(format!("it kept {} passes of the thread that it reports so: {}", passes.len(), of.line))
        }
        () => None,
    }
}

pub(super) fn run(order: &CopyOrder<'_>, look: &mut dyn FnMut()) -> Result<Copied, CopyError> {
    let copy = order.copy;
    let channels = channels(copy)?;
    let parameters = [
        ("timeout_ms", TIMEOUT_MS.to_owned()),
        ("iterations", copy.iterations.to_string()),
        ("threads", copy.threads.to_string()),
        ("buffers", copy.buffers.to_string()),
        ("bytes", copy.bytes.to_string()),
        ("channels", channels.join(",")),
    ];
    let test = Test::of(copy.backend, CopyModule::TardySgtest);
    parameters.iter().try_for_each(|(name, value)| test.set(name, value))?;
    let clocks = clock::read_clocks();
    let busy = Busy::from_here_on();
    look();
    let tracing = Tracing::start();
    test.run(order)?;
    let contention = tracing.finish();
    look();
    let busy = busy.of(&channels);
    let kept = kept(&test)?;
    if kept.len() != copy.all_threads() as usize {
        return Err(test.failed(format!("{KEPT} has {} threads of {}", kept.len(), copy.all_threads())));
    }
    let mut threads = Vec::with_capacity(kept.len());
    for (number, thread) in (0..).zip(kept) {
        let at = (number / copy.threads) as usize;
        if let Some(why) = fault(copy, &thread, &channels[at], number % copy.threads) {
            return Err(test.failed(why));
        }
        let (of, passes) = thread;
        let took_ns = i64::try_from(of.took_ns).unwrap_or(i64::MAX);
        // A channel's threads share it.
        let busy_ns = busy[at].map_or(took_ns, |ns| ns / i64::from(copy.threads));
        let (done, thread) = (passes.len() as u32, kernel_thread(copy));
        let of = CopyThread { done, busy_ns, thread, kernel: Some(of.figures()), ..thread_of(copy, number) };
        threads.push((passes, of));
    }
    Ok(Copied {
        threads,
        recording_ns: 0.0,
        background: None,
        clocks: [clocks, clock::read_clocks()],
        provider: Some(provider(&channels[0])),
        contention: Some(contention),
    })
}
