// SPDX-License-Identifier: MIT OR Apache-2.0
//! What copying threads have together over the wall time, against a loop in C of the same threads
//! and against `perf bench mem memcpy`; and what it costs to record a pass.

use crate::row::{Better, Bound, Raw, Row, median};
use crate::{Bench, child, samples};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// A buffer that a CPU keeps in its L2, and one that it does not, each with how often it is copied.
const SIZES: [(&str, u64, u32); 2] = [("64 KiB", 64 << 10, 100_000), ("16 MiB", 16 << 20, 50)];
/// A ratio that no machine can tell from 1.
const HELD: f64 = 0.98;
/// Turns of each side within a pair: a side's figure is the median of its own.
const TURNS: usize = 3;
/// The shortest pass of which the cost of recording is promised, ns.
const PASS_NS: f64 = 2_000.0;

const SIDES: [&str; 3] = ["tardy", "c", "perf"];

struct Figures {
    rate_bytes_s: f64,
    /// Of tardy alone: what it costs to record a pass, ns.
    recording_ns: Option<f64>,
    command: String,
}

/// A row against each peer by the number of threads and the size, and a row of what recording
/// costs.
pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let program = child::compile(bench, "copy")?;
    let (mut rows, mut costs) = (Vec::new(), Vec::new());
    for (size, bytes, loops) in SIZES {
        for threads in [1, 2] {
            let mut pairs = [const { Vec::new() }; 2];
            let mut commands = [const { String::new() }; 3];
            for pair in 0..bench.pairs * 2 {
                let mut rates = [const { Vec::new() }; 3];
                for turn in 0..TURNS * SIDES.len() {
                    // Who goes first changes, so that a drift of the machine favours nobody.
                    let side = (pair + turn) % SIDES.len();
                    let figures = match SIDES[side] {
                        "tardy" => ours(bench, threads, bytes, loops)?,
                        "c" => theirs(&program, threads, bytes, loops)?,
                        _ => perf(threads, bytes, loops)?,
                    };
                    rates[side].push(figures.rate_bytes_s);
                    costs.extend(figures.recording_ns);
                    commands[side] = figures.command;
                }
                let said = |side: usize| rates[side].iter().map(|rate| format!("{rate:.0}\n")).collect::<String>();
                for (side, name) in SIDES.into_iter().enumerate() {
                    raw.keep(pair, &format!("{bytes}-{threads}-{name}"), &said(side))?;
                }
                let [mine, c, perf] = rates.map(|rates| median(rates).map(|rate| rate / 1e9));
                let mine = mine.context("no figure of tardy's")?;
                pairs[0].push((mine, c));
                pairs[1].push((mine, perf));
            }
            let many = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
            let perfs = if threads == 1 { "perf bench mem memcpy" } else { "perf bench mem memcpy, two added up" };
            let [command, c, perf] = commands;
            let peers = ["C loop, the same threads", perfs].into_iter().zip([c, perf]);
            rows.extend(pairs.into_iter().zip(peers).map(|(pairs, (peer, peer_command))| Row {
                peer: peer.to_owned(),
                command: command.clone(),
                peer_command,
                pairs,
                bound: Bound::RatioAtLeast(HELD),
                ..Row::new(format!("copy of {size} over the wall, {many}"), "GB/s", Better::Higher)
            }));
        }
    }
    rows.push(Row {
        pairs: costs.into_iter().map(|ns| (ns / PASS_NS * 100.0, None)).collect(),
        bound: Bound::AtMost(1.0),
        ..Row::new("copy: what recording a pass costs, of one of 2 µs", "%", Better::Lower)
    });
    Ok(rows)
}

/// A run of tardy's: what its threads had over the wall time.
fn ours(bench: &Bench, threads: u32, bytes: u64, loops: u32) -> Result<Figures> {
    let keys = [format!("copy.threads={threads}"), format!("copy.bytes={bytes}B"), format!("copy.iterations={loops}")];
    let run = samples::run(bench, "copy.toml", &keys.each_ref().map(String::as_str))?;
    let results = run.results()?;
    let copy = &results["cells"][0]["streams"]["copy"]["copy"];
    let figure = |name: &str| copy[name].as_f64().with_context(|| format!("the run has no {name}"));
    // A run that was cut short would be a figure of another copy.
    if copy["bytes"].as_u64() != Some(u64::from(threads) * u64::from(loops) * bytes) {
        bail!("not all was copied: {copy}");
    }
    Ok(Figures {
        rate_bytes_s: figure("wall_bytes_s")?,
        recording_ns: Some(figure("recording_ns")?),
        command: run.command.clone(),
    })
}

fn theirs(program: &Path, threads: u32, bytes: u64, loops: u32) -> Result<Figures> {
    let args = [threads.to_string(), bytes.to_string(), loops.to_string()];
    let ended = child::run(Command::new(program).args(&args), &[0], LIMIT)?;
    let rate_bytes_s = ended.stdout.trim().parse().with_context(|| format!("the C loop printed {:?}", ended.stdout))?;
    Ok(Figures { rate_bytes_s, recording_ns: None, command: format!("copy {}", args.join(" ")) })
}

/// As many of perf at once as there are threads, each on a CPU of its own. It has one thread, so
/// their figures are added up, which is more than they had together unless both ran all the time.
fn perf(threads: u32, bytes: u64, loops: u32) -> Result<Figures> {
    let cpus = tardy_sys::thread::affinity()?;
    let args = ["bench", "-f", "simple", "mem", "memcpy", "-f", "default"];
    let (size, loops) = (format!("{bytes}B"), loops.to_string());
    let start = |cpu: &u32| {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string(), "perf"]).args(args).args(["-s", &size, "-l", &loops]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().context("perf cannot be started: is it installed? (make bench installs the peers)")
    };
    let started = (0..threads as usize).map(|n| start(&cpus[n % cpus.len()])).collect::<Result<Vec<_>>>()?;
    let mut rate_bytes_s = 0.0;
    for child in started {
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let figure = text.lines().find_map(|line| line.trim().parse::<f64>().ok());
        rate_bytes_s += figure.with_context(|| format!("perf printed {text:?}"))?;
    }
    let command = format!("taskset -c 0 perf {} -s {size} -l {loops}", args.join(" "));
    Ok(Figures { rate_bytes_s, recording_ns: None, command })
}
