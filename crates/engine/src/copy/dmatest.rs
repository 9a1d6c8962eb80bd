// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backend `dmatest`: the kernel's own test of DMA controllers copies, and says of each of its
//! threads what it came to. tardy sets the module's parameters, waits, and reads what the kernel
//! printed. A thread has one row: from the end that its line has, back by the time that its tests
//! took by the same line.
//!
//! The kernel's KB/s leave out the time in which a thread fills its buffers and verifies them;
//! here it does neither.

pub mod lines;

use super::contention::Tracing;
use super::controllers::{Busy, channels, provider};
use super::order::{Copied, CopyError, CopyOrder, kernel_thread, thread_of};
use super::parameters::{TIMEOUT_MS, Test};
use lines::{Summary, message, summary};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use tardy_model::copy::{CopyModule, CopyThread};
use tardy_model::time::Tai;
use tardy_sys::clock;

const KMSG: &str = "/dev/kmsg";
/// `O_NONBLOCK`: the end of what the kernel has printed is no wait.
const NO_WAIT: i32 = 0o4000;

/// What the kernel prints, from here on.
struct Printed {
    file: File,
    /// TAI less the time of a record, ns.
    ahead_ns: i64,
}

impl Printed {
    /// Ties the clock of the kernel's log to TAI by a line of its own, between two readings.
    fn from_here_on(test: &Test, nonce: u64) -> Result<Printed, CopyError> {
        let failed = |error: std::io::Error| test.failed(format!("{KMSG}: {error}"));
        let mut file = OpenOptions::new().read(true).custom_flags(NO_WAIT).open(KMSG).map_err(failed)?;
        let mark = format!("tardy: a copy begins, {nonce:016x}");
        // Without its end a line may still go on, and nobody is shown it.
        let line = format!("{mark}\n");
        let before = clock::now::<Tai>().ns();
        OpenOptions::new().write(true).open(KMSG).and_then(|mut log| log.write_all(line.as_bytes())).map_err(failed)?;
        let after = clock::now::<Tai>().ns();
        while let Some(record) = next(&mut file).map_err(failed)? {
            if let Some((at_us, _)) = message(&record).filter(|(_, text)| *text == mark) {
                let ahead_ns = before + (after - before) / 2 - i64::try_from(at_us * 1_000).unwrap_or(i64::MAX);
                return Ok(Printed { file, ahead_ns });
            }
        }
        Err(test.failed(format!("{KMSG} does not show what was written to it")))
    }

    /// Summaries that have come since.
    fn summaries(&mut self, test: &Test) -> Result<Vec<Summary>, CopyError> {
        let mut found = Vec::new();
        while let Some(record) = next(&mut self.file).map_err(|error| test.failed(format!("{KMSG}: {error}")))? {
            found.extend(summary(&record));
        }
        Ok(found)
    }
}

/// The next record; `None` if there is none yet.
fn next(file: &mut File) -> std::io::Result<Option<String>> {
    let mut record = [0; 8_192];
    loop {
        match file.read(&mut record) {
            Ok(bytes) => return Ok(Some(String::from_utf8_lossy(&record[..bytes]).into_owned())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            // The oldest have been overwritten: the next is there.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn run(order: &CopyOrder<'_>, look: &mut dyn FnMut()) -> Result<Copied, CopyError> {
    let copy = order.copy;
    let channels = channels(copy)?;
    let parameters = [
        ("timeout", TIMEOUT_MS.to_owned()),
        ("iterations", copy.iterations.to_string()),
        ("threads_per_chan", copy.threads.to_string()),
        ("test_buf_size", copy.bytes.to_string()),
        ("norandom", "Y".to_owned()),
        ("noverify", "Y".to_owned()),
    ];
    // Whatever goes wrong from here on, the kernel's test gives its channels back.
    let test = Test::of(copy.backend, CopyModule::Dmatest);
    parameters.iter().try_for_each(|(name, value)| test.set(name, value))?;
    channels.iter().try_for_each(|channel| test.set("channel", channel))?;
    let mut printed = Printed::from_here_on(&test, order.nonce)?;
    let clocks = clock::read_clocks();
    let busy = Busy::from_here_on();
    look();
    let tracing = Tracing::start();
    test.run(order)?;
    let contention = tracing.finish();
    look();
    let summaries = printed.summaries(&test)?;
    let busy = busy.of(&channels);
    let mut threads = Vec::new();
    for number in 0..copy.all_threads() {
        let (at, thread) = ((number / copy.threads) as usize, number % copy.threads);
        let channel = &channels[at];
        let found = summaries.iter().find(|of| of.channel == *channel && of.thread == thread);
        let found =
            found.ok_or_else(|| test.failed(format!("the kernel said nothing of thread {thread} of {channel}")))?;
        let figures = found.figures.clone();
        // A thread that finds no memory for its buffers ends with an error and counts no failure.
        if figures.failures > 0 || found.code != 0 {
            return Err(test.failed(format!("the kernel reports a failure: {}", figures.line)));
        }
        let took_ns = if figures.iops > 0.0 { (figures.tests as f64 * 1e9 / figures.iops) as i64 } else { 0 };
        let end_ns = i64::try_from(found.at_us * 1_000).unwrap_or(i64::MAX).saturating_add(printed.ahead_ns);
        // A channel's threads share it.
        let busy_ns = busy[at].map_or(took_ns, |ns| ns / i64::from(copy.threads));
        // Only a thread that did all its tests did what a row stands for.
        let passes = if figures.tests == u64::from(copy.iterations) && took_ns > 0 {
            vec![(end_ns - took_ns, end_ns)]
        } else {
            Vec::new()
        };
        let (done, thread) = (passes.len() as u32, kernel_thread(copy));
        let of = CopyThread { done, busy_ns, thread, kernel: Some(figures), ..thread_of(copy, number) };
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
