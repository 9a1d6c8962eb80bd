// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round trips: compared with sockperf without kernel stamps, with a C loop with them, and TCP's
//! transactions a second.

use crate::row::{self, Better, Bound, Raw, Row};
use crate::{Bench, child, samples};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tardy_model::point::Metric;

const LIMIT: Duration = Duration::from_secs(60);
const COUNT: &str = "40000";
/// How often both sides run within a pair. A round trip takes a third longer for some seconds than
/// for others, whoever makes it, so that a pair of single runs shows little; a side's figure is
/// the median of these.
const ROUNDS: usize = 5;
/// The same where no bound is to be met.
const ROUNDS_UNBOUND: usize = 3;
const STAMPED: &str = "stream.ctl.stamps=[\"send\",\"tx_kernel\",\"rx_kernel\",\"receive\",\"reply_send\",\"reply_tx_kernel\",\"reply_rx_kernel\",\"reply_receive\"]";

const OVER_TCP: &str = "stream.ctl.port=tcp";
const ONE_CPU: &str = "stream.ctl.rx.cpu=0";

/// What is compared of a side: the median round trip in µs, or round trips a second.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    MedianUs,
    Rate,
}

fn ours(run: &samples::Run, of: Of) -> Result<f64> {
    let whole = Metric::Span(tardy_model::point::Point::Send, tardy_model::point::Point::ReplyReceive);
    let (mut took, mut first, mut last) = (Vec::new(), i64::MAX, i64::MIN);
    for batch in run.open()?.batches("all", 1, "ctl")? {
        let batch = batch?;
        for row in 0..batch.len() {
            let sent = batch.stamp_ns(row, tardy_model::point::Point::Send).context("a request without its stamp")?;
            let span = batch.span_ns(row, whole).context("a request without its reply")?;
            took.push(span);
            (first, last) = (first.min(sent), last.max(sent + span));
        }
    }
    took.sort_unstable();
    let p50 = *took.get(took.len().div_ceil(2).saturating_sub(1)).context("no round trip")?;
    Ok(match of {
        Of::MedianUs => p50 as f64 / 1e3,
        Of::Rate => took.len() as f64 * 1e6 / (last - first) as f64,
    })
}

fn bare(bench: &Bench, program: &Path) -> Result<(f64, String)> {
    child::joined(bench, "pingpong.toml", |a, b| {
        let address = b.address.to_string();
        let mut far = b.command(program);
        far.args(["far", &address, "9000", COUNT, "1"]).stdout(Stdio::null());
        let mut far = far.spawn()?;
        std::thread::sleep(Duration::from_millis(300));
        let ended = child::run(a.command(program).args(["near", &address, "9000", COUNT, "0"]), &[0], LIMIT);
        far.kill()?;
        far.wait()?;
        let text = ended?.stdout;
        let ns = text.split_whitespace().skip_while(|word| *word != "p50_ns").nth(1).context("no p50_ns")?;
        Ok((ns.parse::<f64>()? / 1e3, text))
    })
}

/// Over UDP for a time, over TCP for a rate. sockperf prints half of a round trip; it is doubled
/// again. Its server runs on `cpu`, its client on 0.
fn sockperf(bench: &Bench, cpu: &str, of: Of) -> Result<(f64, String)> {
    child::joined(bench, "pingpong.toml", |a, b| {
        let (address, taskset) = (b.address.to_string(), Path::new("taskset"));
        let protocol: &[&str] = if of == Of::Rate { &["--tcp"] } else { &[] };
        let mut server = b.command(taskset);
        server.args(["-c", cpu, "sockperf", "server", "-i", &address, "-p", "9000"]).args(protocol);
        let mut server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        std::thread::sleep(Duration::from_millis(500));
        let args = ["-c", "0", "sockperf", "ping-pong", "-i", &address, "-p", "9000", "-m", "64", "-t", "1"];
        let ended = child::run(a.command(taskset).args(args).args(protocol), &[0], LIMIT);
        // `ip netns exec` and `taskset` become the program: the pid is sockperf's own.
        server.kill()?;
        server.wait()?;
        let text = ended?.stdout;
        let after = |word: &str| {
            let line = text.lines().find(|line| line.contains(word))?;
            let rest = &line[line.find(word)? + word.len()..];
            rest.split(|c: char| !c.is_ascii_digit() && c != '.').find(|part| !part.is_empty())?.parse::<f64>().ok()
        };
        let found = match of {
            Of::MedianUs => after("percentile 50.000").map(|half| 2.0 * half),
            Of::Rate => after("ReceivedMessages=").zip(after("RunTime=")).map(|(n, seconds)| n / seconds / 1e3),
        };
        Ok((found.context("sockperf printed no such figure")?, text))
    })
}

/// While it is open an idle CPU stays awake, ready to be woken: PM QoS allows it no time to wake
/// up, which a kernel with an idle driver heeds. Two of its wake-ups are most of a round trip in a
/// virtual machine, and the hypervisor's; they drown what the programs differ by.
pub fn awake() -> Result<File> {
    const DEVICE: &str = "/dev/cpu_dma_latency";
    let hold = || {
        let mut device = File::options().write(true).open(DEVICE)?;
        device.write_all(&0_i32.to_ne_bytes())?;
        Ok::<_, std::io::Error>(device)
    };
    hold().with_context(|| {
        format!("idle CPUs cannot be kept awake by {DEVICE}, which a kernel with PM QoS gives to root")
    })
}

/// Whom tardy is compared with.
#[derive(Clone, Copy)]
enum Peer {
    /// The C loop, with kernel stamps.
    Loop,
    /// Its server runs on this CPU.
    Sockperf { cpu: &'static str },
}

/// A row to be measured.
#[derive(Clone, Copy)]
struct Side {
    /// Of its raw outputs.
    name: &'static str,
    what: &'static str,
    of: Of,
    /// The keys of our run.
    set: &'static [&'static str],
    peer: Peer,
    /// Idle CPUs sleep as they like.
    halts: bool,
    bound: Bound,
}

const UDP: Side = Side {
    name: "udp",
    what: "round trip, UDP, blocking, no kernel stamps, p50",
    of: Of::MedianUs,
    set: &[],
    peer: Peer::Sockperf { cpu: "1" },
    halts: false,
    bound: Bound::RatioAtMost(1.0),
};

const TCP: Side = Side {
    name: "tcp",
    what: "transactions/s, TCP, blocking, no kernel stamps",
    of: Of::Rate,
    set: &[OVER_TCP],
    bound: Bound::RatioAtLeast(1.0),
    ..UDP
};

const SIDES: [Side; 7] = [
    UDP,
    Side {
        name: "stamped",
        what: "round trip, UDP, blocking, kernel stamps, p50",
        set: &[STAMPED],
        peer: Peer::Loop,
        bound: Bound::RatioAtMost(1.05),
        ..UDP
    },
    TCP,
    Side {
        name: "udp-one-cpu",
        what: "the same over UDP, both ends on one CPU, p50",
        set: &[ONE_CPU],
        peer: Peer::Sockperf { cpu: "0" },
        bound: Bound::None,
        ..UDP
    },
    Side {
        name: "tcp-one-cpu",
        what: "the same over TCP, both ends on one CPU",
        set: &[OVER_TCP, ONE_CPU],
        peer: Peer::Sockperf { cpu: "0" },
        bound: Bound::None,
        ..TCP
    },
    Side {
        name: "udp-halts",
        what: "the same over UDP, idle CPUs halted, p50",
        halts: true,
        bound: Bound::None,
        ..UDP
    },
    Side { name: "tcp-halts", what: "the same over TCP, idle CPUs halted", halts: true, bound: Bound::None, ..TCP },
];

impl Side {
    fn unit(&self) -> &'static str {
        match self.of {
            Of::MedianUs => "µs",
            Of::Rate => "k/s",
        }
    }

    fn better(&self) -> Better {
        match self.of {
            Of::MedianUs => Better::Lower,
            Of::Rate => Better::Higher,
        }
    }

    fn who(&self) -> &'static str {
        match (self.peer, self.of) {
            (Peer::Loop, _) => "C loop, the same stamps",
            (Peer::Sockperf { .. }, Of::MedianUs) => "sockperf, doubled",
            (Peer::Sockperf { .. }, Of::Rate) => "sockperf",
        }
    }

    fn peer_command(&self) -> &'static str {
        match (self.peer, self.of) {
            (Peer::Loop, _) => "pong far ADDRESS 9000 40000 1; pong near ADDRESS 9000 40000 0",
            (Peer::Sockperf { .. }, Of::MedianUs) => "sockperf ping-pong -m 64 -t 1",
            (Peer::Sockperf { .. }, Of::Rate) => "sockperf ping-pong --tcp -m 64 -t 1",
        }
    }

    /// The peer's figure, and what it printed. `program` is the C loop.
    fn beside(&self, bench: &Bench, program: &Path) -> Result<(f64, String)> {
        match self.peer {
            Peer::Loop => bare(bench, program),
            Peer::Sockperf { cpu } => sockperf(bench, cpu, self.of),
        }
    }
}

pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let program = child::compile(bench, "pong")?;
    let (mut rows, mut spreads) = (Vec::new(), BTreeMap::new());
    // What a ratio is worth here: the same program on both sides, in the same rounds.
    let hold = awake()?;
    for (side, what) in
        [(UDP, "round trip, UDP, sockperf against itself, p50"), (TCP, "transactions/s, TCP, sockperf against itself")]
    {
        let row = against_itself(bench, raw, &program, side, what)?;
        spreads.insert(side.name, row.ratio());
        rows.push(row);
    }
    drop(hold);
    for side in SIDES {
        // Of the other rows the conditions differ, or the peer.
        let itself = spreads.get(side.name).copied().flatten();
        rows.push(Row { itself, ..against_peer(bench, raw, &program, side)? });
    }
    Ok(rows)
}

/// The peer on both sides.
fn against_itself(bench: &Bench, raw: &Raw, program: &Path, of: Side, what: &str) -> Result<Row> {
    let mut pairs = Vec::new();
    for pair in 0..bench.pairs {
        let mut sides = [Vec::new(), Vec::new()];
        for turn in 0..2 * ROUNDS {
            let (round, side) = (turn / 2, (pair + turn + turn / 2) % 2);
            let (figure, text) = of.beside(bench, program)?;
            sides[side].push(figure);
            raw.keep(pair, &format!("{}-itself-{side}-{round}", of.name), &text)?;
        }
        let [one, other] = sides;
        pairs.push((row::median(one).context("no round")?, row::median(other)));
    }
    let command = of.peer_command().to_owned();
    Ok(Row {
        peer: "sockperf".to_owned(),
        command: command.clone(),
        peer_command: command,
        pairs,
        ..Row::new(what, of.unit(), Better::Neither)
    })
}

/// tardy next to a peer, by turns.
fn against_peer(bench: &Bench, raw: &Raw, program: &Path, side: Side) -> Result<Row> {
    let hold = (!side.halts).then(awake).transpose()?;
    let (mut pairs, mut command) = (Vec::new(), String::new());
    let rounds = if matches!(side.bound, Bound::None) { ROUNDS_UNBOUND } else { ROUNDS };
    for pair in 0..bench.pairs {
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        for turn in 0..2 * rounds {
            // Who went second goes first in the next round: one, the other, the other, one.
            let round = turn / 2;
            if (pair + turn + round) % 2 == 0 {
                let run = samples::run(bench, "pingpong.toml", side.set)?;
                mine.push(ours(&run, side.of)?);
                raw.keep(pair, &format!("{}-tardy-{round}", side.name), &run.trial()?.0)?;
                command = run.command;
            } else {
                let (figure, text) = side.beside(bench, program)?;
                theirs.push(figure);
                raw.keep(pair, &format!("{}-peer-{round}", side.name), &text)?;
            }
        }
        pairs.push((row::median(mine).context("no round")?, row::median(theirs)));
    }
    drop(hold);
    Ok(Row {
        peer: side.who().to_owned(),
        command,
        peer_command: side.peer_command().to_owned(),
        pairs,
        bound: side.bound,
        ..Row::new(side.what, side.unit(), side.better())
    })
}
