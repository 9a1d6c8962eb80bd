// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that a comparison runs: one that is timed, and peers at the two ends of a path that
//! tardy has built.

use crate::Bench;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tardy_lab::host::applied::applied;
use tardy_lab::host::runner::Processes;
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::{LinkNumber, STATE};
use tardy_lab::plan::plan;
use tardy_lab::slot::Slot;

/// What a program did.
pub struct Ended {
    pub stdout: String,
    /// CPU time, user and system, of the program and what it waited for, s; the kernel counts in
    /// hundredths.
    pub cpu_s: f64,
    pub wall_s: f64,
    /// Greatest resident memory seen, MB.
    pub rss_mb: f64,
}

/// CPU time of all children that were waited for so far, s.
fn children_s() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>()).unwrap_or_default();
    let ticks = |n: usize| fields.get(n).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    // cutime and cstime, fields 16 and 17; a tick is USER_HZ, 1/100 s on every architecture tardy
    // runs on.
    Ok((ticks(13) + ticks(14)) / 100.0)
}

fn peak_mb(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}

/// Runs a program to its end, at most `limit`; exit codes in `accept` are no failure.
pub fn run(command: &mut Command, accept: &[i32], limit: Duration) -> Result<Ended> {
    let name = format!("{command:?}");
    let (before, began) = (children_s()?, Instant::now());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{name} cannot be started: is it installed? (make bench installs the peers)"))?;
    // Read while it runs, so that a full pipe does not stop it.
    fn read(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = from.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    }
    let out = read(child.stdout.take().context("stdout")?);
    let err = read(child.stderr.take().context("stderr")?);
    let mut rss_mb: f64 = 0.0;
    let status = loop {
        rss_mb = rss_mb.max(peak_mb(child.id()).unwrap_or(0.0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            bail!("{name} did not end within {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let wall_s = began.elapsed().as_secs_f64();
    let (stdout, stderr) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    let code = status.code().unwrap_or(-1);
    if !accept.contains(&code) {
        bail!("{name} ended with {status}: {}", stderr.lines().last().unwrap_or("it said nothing"));
    }
    Ok(Ended { stdout, cpu_s: children_s()? - before, wall_s, rss_mb })
}

/// A namespace's name, and its device with its address.
pub struct End {
    /// As `ip netns` knows it.
    pub netns: String,
    pub device: String,
    pub address: Ipv4Addr,
}

impl End {
    /// A command that runs in it.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.netns]).arg(program);
        command
    }
}

/// Builds the path of `experiment`, lets `work` use it, and takes it down whatever came of it.
pub fn joined<T>(bench: &Bench, experiment: &str, work: impl FnOnce(&End, &End) -> Result<T>) -> Result<T> {
    let file = bench.home.join("experiments").join(experiment);
    let experiment = tardy_spec::load(&tardy_spec::read(&file)?, &[])?;
    let cell = experiment.cells.first().context("no cell")?;
    let slot = Slot::claim(Path::new(STATE))?;
    let nobodys = FactsByHost::from(Facts { home: std::process::id(), ..Facts::default() });
    let plan = plan(&cell.setup, slot.names(), &nobodys)?;
    let mut runner = Processes::new(|_| ()).holding(&slot)?;
    let mut host = applied(&plan.steps, slot.journal()?, &mut runner)?;
    let names = slot.names();
    let end = |station: &str, side| End {
        netns: names.netns(station),
        device: names.link(side),
        address: names.address(side),
    };
    let done = work(&end("a", LinkNumber::FIRST), &end("b", LinkNumber::SECOND));
    host.put_back().map_err(|error| anyhow::anyhow!("{error}"))?;
    done
}

/// Compiles a C peer of ours.
pub fn compile(bench: &Bench, name: &str) -> Result<PathBuf> {
    let (source, program) = (bench.home.join("peers").join(format!("{name}.c")), bench.cache.join(name));
    let mut compiler = Command::new("gcc");
    let status = compiler.args(["-O2", "-o"]).arg(&program).arg(&source).status().context("gcc cannot be started")?;
    if !status.success() {
        bail!("{} does not compile", source.display());
    }
    Ok(program)
}
