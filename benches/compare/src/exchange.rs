// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round trips: compared with sockperf without kernel stamps, with a C loop with them, and TCP's
//! transactions a second.

use crate::row::{self, Bound, Raw, Row};
use crate::{Bench, child, samples};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tardy_model::point::Metric;

const LIMIT: Duration = Duration::from_secs(60);
const COUNT: &str = "80000";
/// How often both sides run within a pair. A round trip takes a third longer for some seconds than
/// for others, whoever makes it, so that a pair of single runs tells little; a side's figure is
/// the median of these.
const ROUNDS: usize = 5;
/// The same where a bound is to be met.
const ROUNDS_OF_BOUND: usize = 9;
const STAMPED: &str = "stream.ctl.stamps=[\"send\",\"tx_kernel\",\"rx_kernel\",\"receive\",\"reply_send\",\"reply_tx_kernel\",\"reply_rx_kernel\",\"reply_receive\"]";

const TCP: &str = "stream.ctl.port=tcp";
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

/// sockperf tells half of a round trip; it is doubled again. Its server runs on `cpu`, its client
/// on 0.
fn sockperf(bench: &Bench, tcp: bool, cpu: &str, of: Of) -> Result<(f64, String)> {
    child::joined(bench, "pingpong.toml", |a, b| {
        let (address, taskset) = (b.address.to_string(), Path::new("taskset"));
        let protocol: &[&str] = if tcp { &["--tcp"] } else { &[] };
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
        Ok((found.context("sockperf told no such figure")?, text))
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

type Peer<'a> = &'a dyn Fn() -> Result<(f64, String)>;

#[derive(Clone, Copy)]
struct Beside<'a> {
    run: Peer<'a>,
    who: &'static str,
    command: &'static str,
}

/// A row to be measured.
struct Side<'a> {
    name: &'static str,
    what: &'static str,
    of: Of,
    set: &'a [&'a str],
    beside: Beside<'a>,
    /// Idle CPUs sleep as they like.
    halts: bool,
    bound: Bound,
}

impl Of {
    fn unit(self) -> &'static str {
        match self {
            Of::MedianUs => "µs",
            Of::Rate => "k/s",
        }
    }
}

pub fn measure(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let program = child::compile(bench, "pong")?;
    let (udp, tcp) = (|| sockperf(bench, false, "1", Of::MedianUs), || sockperf(bench, true, "1", Of::Rate));
    let (udp_on_one, tcp_on_one) =
        (|| sockperf(bench, false, "0", Of::MedianUs), || sockperf(bench, true, "0", Of::Rate));
    let bare = || bare(bench, &program);
    let doubled = |run| Beside { run, who: "sockperf, doubled", command: "sockperf ping-pong -m 64 -t 1" };
    let over_tcp = |run| Beside { run, who: "sockperf", command: "sockperf ping-pong --tcp -m 64 -t 1" };
    let loops = Beside {
        run: &bare,
        who: "C loop, the same stamps",
        command: "pong far ADDRESS 9000 80000 1; pong near ADDRESS 9000 80000 0",
    };
    let side = |name, what, of, set, beside, bound| Side { name, what, of, set, beside, halts: false, bound };
    let sides: [Side<'_>; 7] = [
        side(
            "udp",
            "round trip, UDP, blocking, no kernel stamps, p50",
            Of::MedianUs,
            &[],
            doubled(&udp),
            Bound::RatioAtMost(1.0),
        ),
        side(
            "stamped",
            "round trip, UDP, blocking, kernel stamps, p50",
            Of::MedianUs,
            &[STAMPED],
            loops,
            Bound::RatioAtMost(1.05),
        ),
        side(
            "tcp",
            "transactions/s, TCP, blocking, no kernel stamps",
            Of::Rate,
            &[TCP],
            over_tcp(&tcp),
            Bound::RatioAtLeast(1.0),
        ),
        side(
            "udp-one-cpu",
            "the same over UDP, both ends on one CPU, p50",
            Of::MedianUs,
            &[ONE_CPU],
            doubled(&udp_on_one),
            Bound::None,
        ),
        side(
            "tcp-one-cpu",
            "the same over TCP, both ends on one CPU",
            Of::Rate,
            &[TCP, ONE_CPU],
            over_tcp(&tcp_on_one),
            Bound::None,
        ),
        Side {
            halts: true,
            ..side(
                "udp-halts",
                "the same over UDP, idle CPUs halted, p50",
                Of::MedianUs,
                &[],
                doubled(&udp),
                Bound::None,
            )
        },
        Side {
            halts: true,
            ..side("tcp-halts", "the same over TCP, idle CPUs halted", Of::Rate, &[TCP], over_tcp(&tcp), Bound::None)
        },
    ];
    let mut rows = Vec::new();
    // What a ratio is worth here: the same program on both sides, in the same rounds.
    let hold = awake()?;
    for (name, what, of, beside) in [
        ("udp-itself", "round trip, UDP, sockperf against itself, p50", Of::MedianUs, doubled(&udp)),
        ("tcp-itself", "transactions/s, TCP, sockperf against itself", Of::Rate, over_tcp(&tcp)),
    ] {
        rows.push(against_itself(bench, raw, name, what, of, beside)?);
    }
    drop(hold);
    for side in sides {
        rows.push(against_peer(bench, raw, side)?);
    }
    Ok(rows)
}

/// The peer on both sides.
fn against_itself(bench: &Bench, raw: &Raw, name: &str, what: &str, of: Of, beside: Beside<'_>) -> Result<Row> {
    let mut pairs = Vec::new();
    for pair in 0..bench.pairs {
        let mut sides = [Vec::new(), Vec::new()];
        for turn in 0..2 * ROUNDS {
            let (round, side) = (turn / 2, (pair + turn + turn / 2) % 2);
            let (figure, text) = (beside.run)()?;
            sides[side].push(figure);
            raw.keep(pair, &format!("{name}-{side}-{round}"), &text)?;
        }
        let [one, other] = sides;
        pairs.push((row::median(one).context("no round")?, row::median(other)));
    }
    let (what, command) = (what.to_owned(), beside.command.to_owned());
    Ok(Row {
        what,
        unit: of.unit(),
        peer: "sockperf".to_owned(),
        command: command.clone(),
        peer_command: command,
        pairs,
        bound: Bound::None,
    })
}

/// tardy next to a peer, by turns.
fn against_peer(bench: &Bench, raw: &Raw, side: Side<'_>) -> Result<Row> {
    let Side { name, what, of, set, beside, halts, bound } = side;
    let hold = (!halts).then(awake).transpose()?;
    let (mut pairs, mut command) = (Vec::new(), String::new());
    let rounds = if matches!(bound, Bound::None) { ROUNDS } else { ROUNDS_OF_BOUND };
    for pair in 0..bench.pairs {
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        for turn in 0..2 * rounds {
            // Who went second goes first in the next round: one, the other, the other, one.
            let round = turn / 2;
            if (pair + turn + round) % 2 == 0 {
                let run = samples::run(bench, "pingpong.toml", set)?;
                mine.push(ours(&run, of)?);
                raw.keep(pair, &format!("{name}-tardy-{round}"), &run.trial()?.0)?;
                command = run.command;
            } else {
                let (figure, text) = (beside.run)()?;
                theirs.push(figure);
                raw.keep(pair, &format!("{name}-peer-{round}"), &text)?;
            }
        }
        pairs.push((row::median(mine).context("no round")?, row::median(theirs)));
    }
    drop(hold);
    let (what, peer, peer_command) = (what.to_owned(), beside.who.to_owned(), beside.command.to_owned());
    Ok(Row { what, unit: of.unit(), peer, command, peer_command, pairs, bound })
}
