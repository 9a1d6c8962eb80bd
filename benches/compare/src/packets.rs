// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets a second of a stream that never pauses, and what recording costs each of them.

use crate::row::{Better, Bound, Pair, Raw, Row};
use crate::{Bench, child, samples};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tardy_model::point::Point;

const PACKETS: u32 = 1_000_000;
const SIZE: u32 = 64;
/// Of the sender and of the receiver; as `flood.toml` has them.
const CPUS: [u32; 2] = [0, 1];
const LIMIT: Duration = Duration::from_secs(60);

fn number(value: &Value, path: &[&str]) -> Result<f64> {
    let found = path.iter().try_fold(value, |value, key| value.get(key));
    found.and_then(Value::as_f64).with_context(|| format!("trial.json has no number {}", path.join(".")))
}

/// Packets a second by the receiving kernel's stamps, or by `receive` where those are not taken.
fn ours(run: &samples::Run, point: Point) -> Result<f64> {
    let (mut first, mut last, mut received) = (i64::MAX, i64::MIN, 0u64);
    for batch in run.open()?.batches("all", 1, "ctl")? {
        let batch = batch?;
        for ns in (0..batch.len()).filter_map(|row| batch.stamp_ns(row, point)) {
            (first, last, received) = (first.min(ns), last.max(ns), received + 1);
        }
    }
    if received < 2 {
        bail!("no packet has a stamp of {point}");
    }
    Ok((received - 1) as f64 * 1e9 / (last - first) as f64)
}

/// Nothing may be missing in the recorder: neither an arrival nor a stamp.
fn whole(trial: &Value) -> Result<()> {
    let counters = ["streams", "ctl", "counters"];
    for of in ["records_dropped", "tx_stamps_missing", "error_queue_overflows", "send_errors"] {
        let [a, b, c] = counters;
        let lost = number(trial, &[a, b, c, of])?;
        if lost > 0.0 {
            bail!("the recorder lost something: {of} {lost}");
        }
    }
    Ok(())
}

/// What follows `name` in a line of words.
pub fn figure(text: &str, name: &str) -> Result<f64> {
    let mut words = text.split_whitespace().skip_while(|word| *word != name);
    words.nth(1).and_then(|word| word.parse().ok()).with_context(|| format!("`{name}` is not in: {text}"))
}

/// Both ends of a C loop; its packet rate.
fn bare(bench: &Bench, program: &Path, stamps: bool) -> Result<(f64, String)> {
    child::joined(bench, "flood.toml", |a, b| {
        let args = |cpu: u32| {
            let stamps = if stamps { "1" } else { "0" };
            ["9000".to_owned(), PACKETS.to_string(), SIZE.to_string(), cpu.to_string(), stamps.to_owned()]
        };
        let mut receiver = b.command(program);
        receiver.arg("rx").arg(b.address.to_string()).args(args(CPUS[1]));
        let mut sender = a.command(program);
        sender.arg("tx").arg(b.address.to_string()).args(args(CPUS[0]));
        let text = std::thread::scope(|scope| {
            let receiving = scope.spawn(|| child::run(&mut receiver, &[0], LIMIT));
            // The receiver's socket has to be there; it waits for packets much longer than this.
            std::thread::sleep(Duration::from_millis(300));
            let sent = child::run(&mut sender, &[0], LIMIT)?;
            let received = receiving.join().map_err(|_| anyhow::anyhow!("the receiver broke"))??;
            Ok::<_, anyhow::Error>(sent.stdout + &received.stdout)
        })?;
        if stamps && figure(&text, "stamps")? < f64::from(PACKETS) {
            bail!("the C loop lost stamps: {text}");
        }
        Ok((figure(&text, "packets_per_s")?, text))
    })
}

fn sockperf(bench: &Bench) -> Result<(f64, String)> {
    child::joined(bench, "flood.toml", |a, b| {
        let address = b.address.to_string();
        let program = Path::new("taskset");
        let mut server = b.command(program);
        server.args(["-c", "1", "sockperf", "server", "-i", &address, "-p", "9000"]);
        let mut server = server.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn()?;
        std::thread::sleep(Duration::from_millis(500));
        let mut client = a.command(program);
        let args = ["-c", "0", "sockperf", "throughput", "-i", &address, "-p", "9000", "-m", "64", "-t", "4"];
        let ended = child::run(client.args(args), &[0], LIMIT);
        // `ip netns exec` and `taskset` become the program: the pid is sockperf's own.
        server.kill()?;
        server.wait()?;
        let text = ended?.stdout;
        let line =
            text.lines().find(|line| line.contains("Message Rate")).context("sockperf printed no Message Rate")?;
        let rate = line.split_whitespace().find_map(|word| word.parse::<f64>().ok()).context("no number in it")?;
        Ok((rate, text))
    })
}

fn iperf3(bench: &Bench) -> Result<(f64, String)> {
    child::joined(bench, "flood.toml", |a, b| {
        let (address, program) = (b.address.to_string(), Path::new("iperf3"));
        let mut server = b.command(program);
        server.args(["-s", "-1", "-A", "1"]).stdout(std::process::Stdio::null());
        let mut server = server.spawn()?;
        std::thread::sleep(Duration::from_millis(500));
        let args = ["-c", &address, "-u", "-b", "0", "-l", "64", "-t", "4", "-A", "0,1", "--json"];
        let ended = child::run(a.command(program).args(args), &[0], LIMIT);
        server.kill()?;
        server.wait()?;
        let text = ended?.stdout;
        let json: Value = serde_json::from_str(&text)?;
        let sum = json.pointer("/end/sum").context("iperf3 printed no sum")?;
        let of =
            |name: &str| sum.get(name).and_then(Value::as_f64).with_context(|| format!("iperf3 printed no {name}"));
        Ok(((of("packets")? - of("lost_packets")?) / of("seconds")?, text))
    })
}

/// Whom tardy is compared with.
#[derive(Clone, Copy)]
enum Peer {
    /// The C loop, with kernel stamps or without.
    Bare {
        stamps: bool,
    },
    Sockperf,
    Iperf3,
}

impl Peer {
    fn who(self) -> &'static str {
        match self {
            Peer::Bare { stamps: true } => "C loop, the same stamps",
            Peer::Bare { stamps: false } => "C loop, no stamps",
            Peer::Sockperf => "sockperf, sent",
            Peer::Iperf3 => "iperf3, received",
        }
    }

    fn command(self) -> String {
        match self {
            Peer::Bare { stamps } => {
                let [tx, rx] = CPUS.map(|cpu| format!("ADDRESS 9000 {PACKETS} {SIZE} {cpu} {}", u32::from(stamps)));
                format!("bare rx {rx}; bare tx {tx}")
            }
            Peer::Sockperf => "sockperf throughput -m 64 -t 4".to_owned(),
            Peer::Iperf3 => "iperf3 -u -b 0 -l 64 -t 4 -A 0,1".to_owned(),
        }
    }

    /// Packets a second, and what it printed. `program` is the C loop.
    fn rate(self, bench: &Bench, program: &Path) -> Result<(f64, String)> {
        match self {
            Peer::Bare { stamps } => bare(bench, program, stamps),
            Peer::Sockperf => sockperf(bench),
            Peer::Iperf3 => iperf3(bench),
        }
    }
}

/// A row to be measured.
struct Side {
    /// Of its raw outputs.
    name: &'static str,
    what: &'static str,
    /// The keys of our run.
    set: &'static [&'static str],
    /// The stamp that our rate counts.
    point: Point,
    peer: Peer,
    bound: Bound,
}

const PLAIN: Side = Side {
    name: "plain",
    what: "packets/s, no kernel stamps",
    set: &["stream.ctl.stamps=[\"receive\"]"],
    point: Point::Receive,
    peer: Peer::Bare { stamps: false },
    bound: Bound::None,
};

const SIDES: [Side; 4] = [
    Side {
        name: "stamped",
        what: "packets/s, rx and tx kernel stamps recorded",
        set: &[],
        point: Point::RxKernel,
        peer: Peer::Bare { stamps: true },
        bound: Bound::RatioAtLeast(0.95),
    },
    PLAIN,
    Side { name: "sockperf", peer: Peer::Sockperf, ..PLAIN },
    Side { name: "iperf3", peer: Peer::Iperf3, ..PLAIN },
];

/// Pairs of rates, and our command.
fn side_by_side(bench: &Bench, raw: &Raw, program: &Path, side: &Side) -> Result<(Vec<Pair>, String)> {
    let (mut pairs, mut command) = (Vec::new(), String::new());
    for pair in 0..bench.pairs {
        let (mut mine, mut theirs) = (0.0, 0.0);
        for turn in 0..2 {
            if (pair + turn) % 2 == 0 {
                let run = samples::run(bench, "flood.toml", side.set)?;
                let (text, trial) = run.trial()?;
                whole(&trial)?;
                mine = ours(&run, side.point)?;
                raw.keep(pair, &format!("{}-tardy", side.name), &text)?;
                command = run.command;
            } else {
                let (rate, text) = side.peer.rate(bench, program)?;
                theirs = rate;
                raw.keep(pair, &format!("{}-peer", side.name), &text)?;
            }
        }
        pairs.push((mine / 1e3, Some(theirs / 1e3)));
    }
    Ok((pairs, command))
}

/// Rates compared with the C loop's, with stamps and without, and with sockperf's and iperf3's.
pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let program = child::compile(bench, "bare")?;
    let mut rows = Vec::new();
    for side in SIDES {
        let (pairs, command) = side_by_side(bench, raw, &program, &side)?;
        rows.push(Row {
            peer: side.peer.who().to_owned(),
            command,
            peer_command: side.peer.command(),
            pairs,
            bound: side.bound,
            ..Row::new(side.what, "k/s", Better::Higher)
        });
    }
    Ok(rows)
}

/// What all stamps cost a packet, compared with none.
pub fn recorder(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    const ALL: &str =
        "stream.ctl.stamps=[\"wakeup\", \"send\", \"tx_sched\", \"tx_kernel\", \"rx_kernel\", \"receive\"]";
    const NONE: &str = "stream.ctl.stamps=[]";
    let cost = |set: &str, pair: usize, side: &str| -> Result<[f64; 2]> {
        let run = samples::run(bench, "flood.toml", &[set])?;
        let (text, trial) = run.trial()?;
        raw.keep(pair, side, &text)?;
        whole(&trial)?;
        let sent = number(&trial, &["streams", "ctl", "counters", "sent"])?;
        let of = |end: &str| Ok::<_, anyhow::Error>(number(&trial, &["streams", "ctl", end, "run_ns"])? / sent);
        Ok([of("tx")?, of("rx")?])
    };
    let mut ends = [Vec::new(), Vec::new()];
    for pair in 0..bench.pairs {
        let (mut all, mut none) = ([0.0; 2], [0.0; 2]);
        for turn in 0..2 {
            if (pair + turn) % 2 == 0 {
                all = cost(ALL, pair, "all")?;
            } else {
                none = cost(NONE, pair, "none")?;
            }
        }
        for (end, pairs) in ends.iter_mut().enumerate() {
            pairs.push((all[end], Some(none[end])));
        }
    }
    let [tx, rx] = ends;
    let command = |set: &str| format!("tardy run benches/experiments/flood.toml --set '{set}'");
    let row = |what: &str, pairs| Row {
        peer: "tardy, no stamps".to_owned(),
        command: command(ALL),
        peer_command: command(NONE),
        pairs,
        ..Row::new(what, "ns", Better::Lower)
    };
    Ok(vec![row("sender's CPU time a packet, six stamps", tx), row("receiver's CPU time a packet, six stamps", rx)])
}
