// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backend `dmatest`: the kernel's own test of DMA controllers copies, and says of each of its
//! threads what it came to. tardy sets the module's parameters, waits, and reads what the kernel
//! printed. A thread has one row: from the end that its line has, back by the time that its tests
//! took by the same line.
//!
//! The kernel's KB/s leave out the time in which a thread fills its buffers and verifies them;
//! here it does neither.

pub mod lines;

use super::order::{Copied, CopyError, CopyOrder, thread_of};
use lines::{Summary, message, summary};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tardy_model::copy::{CopyThread, Copying};
use tardy_model::placement::ThreadRecord;
use tardy_model::time::Tai;
use tardy_sys::clock;

const PARAMETERS: &str = "/sys/module/dmatest/parameters";
const CHANNELS: &str = "/sys/class/dma";
/// Of the controllers in software: how long each channel copied, ns.
const BUSY: &str = "/sys/module/tardy_softdma/parameters/busy_ns";
const KMSG: &str = "/dev/kmsg";
/// How often tardy looks whether the test has ended.
const LOOK: Duration = Duration::from_millis(5);
/// A buffer that was not copied within this time has failed, ms.
const TIMEOUT_MS: &str = "3000";
/// `O_NONBLOCK`: the end of what the kernel has printed is no wait.
const NO_WAIT: i32 = 0o4000;

/// True if this kernel has the test.
pub fn is_there() -> bool {
    Path::new(PARAMETERS).exists()
}

/// Channels of this machine, of each controller in order: `dma0chan0`, `dma0chan1`.
fn controllers() -> Vec<Vec<String>> {
    let names = fs::read_dir(CHANNELS).into_iter().flatten().flatten();
    let mut numbered: Vec<(u32, u32, String)> = names
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (controller, channel) = name.strip_prefix("dma")?.split_once("chan")?;
            Some((controller.parse().ok()?, channel.parse().ok()?, name))
        })
        .collect();
    numbered.sort_unstable();
    let mut found: Vec<(u32, Vec<String>)> = Vec::new();
    for (controller, _, name) in numbered {
        match found.last_mut().filter(|(last, _)| *last == controller) {
            Some((_, channels)) => channels.push(name),
            None => found.push((controller, vec![name])),
        }
    }
    found.into_iter().map(|(_, channels)| channels).collect()
}

/// The channels that a copy takes, controller by controller.
fn channels(copy: &Copying) -> Result<Vec<String>, CopyError> {
    let all = controllers();
    let has_enough = |channels: &&Vec<String>| channels.len() >= copy.channels as usize;
    let taken: Vec<&Vec<String>> = all.iter().filter(has_enough).take(copy.controllers as usize).collect();
    if taken.len() < copy.controllers as usize {
        let has = match all.as_slice() {
            [] => "this machine has no DMA channel".to_owned(),
            all => format!("this machine has {}", all.iter().flatten().cloned().collect::<Vec<_>>().join(", ")),
        };
        let why = format!(
            "{has}, and {} × {} were asked for (controllers × channels): take fewer",
            copy.controllers, copy.channels
        );
        return Err(CopyError::Dmatest(why));
    }
    Ok(taken.into_iter().flat_map(|channels| channels.iter().take(copy.channels as usize).cloned()).collect())
}

/// The driver of a channel's controller.
fn provider(channel: &str) -> String {
    let driver = fs::read_link(Path::new(CHANNELS).join(channel).join("device/driver")).ok();
    let name = driver.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "an unknown driver".to_owned())
}

fn set(parameter: &str, value: &str) -> Result<(), CopyError> {
    let path = Path::new(PARAMETERS).join(parameter);
    fs::write(&path, format!("{value}\n")).map_err(|error| match error.kind() {
        ErrorKind::NotFound if !Path::new(PARAMETERS).exists() => CopyError::NoDmatest,
        _ => CopyError::Dmatest(format!(
            "the kernel refuses \"{value}\" for its parameter {parameter}: {error}; what it says of it is in its log (dmesg)"
        )),
    })
}

/// Ends what the kernel's test does, and has it give its channels back, when it is dropped.
struct GivenBack;

impl Drop for GivenBack {
    fn drop(&mut self) {
        // Whether it has ended or not: where even this is refused, nothing more can be done.
        let _ = set("run", "N");
    }
}

/// What the kernel prints, from here on.
struct Printed {
    file: File,
    /// TAI less the time of a record, ns.
    ahead_ns: i64,
}

impl Printed {
    /// Ties the clock of the kernel's log to TAI by a line of its own, between two readings.
    fn from_here_on(nonce: u64) -> Result<Printed, CopyError> {
        let failed = |error: std::io::Error| CopyError::Dmatest(format!("{KMSG}: {error}"));
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
        Err(CopyError::Dmatest(format!("{KMSG} does not show what was written to it")))
    }

    /// Summaries that have come since.
    fn summaries(&mut self) -> Result<Vec<Summary>, CopyError> {
        let mut found = Vec::new();
        while let Some(record) = next(&mut self.file).map_err(|error| CopyError::Dmatest(format!("{KMSG}: {error}")))? {
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

/// How long each channel of the controllers in software has copied so far, ns; of others nobody
/// knows.
fn busy_ns() -> Vec<i64> {
    let text = fs::read_to_string(BUSY).unwrap_or_default();
    text.trim().split(',').filter_map(|ns| ns.parse().ok()).collect()
}

pub(super) fn run(order: &CopyOrder<'_>, look: &mut dyn FnMut()) -> Result<(Copied, String), CopyError> {
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
    let _given_back = GivenBack;
    parameters.iter().try_for_each(|(name, value)| set(name, value))?;
    channels.iter().try_for_each(|channel| set("channel", channel))?;
    let mut printed = Printed::from_here_on(order.nonce)?;
    let clocks = clock::read_clocks();
    let was_busy = busy_ns();
    look();
    set("run", "Y")?;
    let until = Instant::now() + Duration::from_nanos(copy.longest.0.max(1) as u64);
    let runs = || fs::read_to_string(Path::new(PARAMETERS).join("run")).is_ok_and(|runs| runs.trim() == "Y");
    while runs() {
        if Instant::now() >= until || order.stop.load(Relaxed) {
            // It waits for the threads, which print what they came to.
            set("run", "N")?;
            break;
        }
        std::thread::sleep(LOOK);
    }
    look();
    let summaries = printed.summaries()?;
    let busy: Vec<i64> = busy_ns().iter().zip(&was_busy).map(|(now, before)| now - before).collect();
    let of_all = controllers().concat();
    let mut threads = Vec::new();
    for number in 0..copy.all_threads() {
        let (channel, thread) = (&channels[(number / copy.threads) as usize], number % copy.threads);
        let found = summaries.iter().find(|of| of.channel == *channel && of.thread == thread);
        let found = found
            .ok_or_else(|| CopyError::Dmatest(format!("the kernel said nothing of thread {thread} of {channel}")))?;
        let figures = found.figures.clone();
        if figures.failures > 0 {
            return Err(CopyError::Dmatest(format!("the kernel counts failures: {}", figures.line)));
        }
        let took_ns = if figures.iops > 0.0 { (figures.tests as f64 * 1e9 / figures.iops) as i64 } else { 0 };
        let end_ns = i64::try_from(found.at_us * 1_000).unwrap_or(i64::MAX).saturating_add(printed.ahead_ns);
        // A channel's threads share it.
        let of_channel = of_all.iter().position(|other| other == channel).and_then(|at| busy.get(at));
        let busy_ns = of_channel.map_or(took_ns, |ns| ns / i64::from(copy.threads));
        // Only a thread that did all its tests did what a row stands for.
        let passes = if figures.tests == u64::from(copy.iterations) && took_ns > 0 {
            vec![(end_ns - took_ns, end_ns)]
        } else {
            Vec::new()
        };
        let thread = ThreadRecord {
            policy_asked: copy.policy.to_string(),
            policy_granted: copy.policy.to_string(),
            memory_locked: true,
            ..ThreadRecord::default()
        };
        let of =
            CopyThread { done: passes.len() as u32, busy_ns, thread, kernel: Some(figures), ..thread_of(copy, number) };
        threads.push((passes, of));
    }
    let provider = provider(&channels[0]);
    Ok((Copied { threads, recording_ns: 0.0, background: None, clocks: [clocks, clock::read_clocks()] }, provider))
}
