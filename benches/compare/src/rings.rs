// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receiving over AF_XDP, compared with C loops over the kernel's rings (`benches/peers/rings.c`):
//! how many packets a second, and how long a packet waits.
//!
//! tardy's side is the receiving loop of the engine over port `xdp`, in a thread of this process
//! that is in the station's namespace. So both sides get the very same packets from the same C
//! program.

use crate::Bench;
use crate::child::{self, End};
use crate::exchange::awake;
use crate::packets::figure;
use crate::row::{self, Better, Bound, Raw, Row};
use anyhow::{Context, Result, anyhow, bail};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::Duration;
use tardy_engine::order::{EndOrder, ReceiveOrder, StreamOrder, ThreadOrder, Ways};
use tardy_engine::port::udp::MachineTimer;
use tardy_engine::port::xdp::Xdp;
use tardy_engine::port::{PortKind, ReceivePort, XdpStamp};
use tardy_engine::receiver::{Arrival, Receiver, Shared};
use tardy_model::port::Port;
use tardy_model::stream::{Policy, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::Tai;
use tardy_model::xdp::XdpLosses;
use tardy_sys::process::enter_netns;
use tardy_sys::{clock, thread};

const LIMIT: Duration = Duration::from_secs(60);
/// What is still under way when the last packet was sent has come after this time.
const LINGER: Duration = Duration::from_millis(200);
/// The path, and what is known of the stream.
const EXPERIMENT: &str = "flood.toml";
const SET: [&str; 4] = [
    "stream.ctl.port=packet",
    "stream.ctl.rx.port=xdp",
    "stream.ctl.rx.wait=spin",
    "stream.ctl.stamps=[\"rx_xdp\",\"receive\"]",
];
const NONCE: u64 = 0x7461_7264_795f_7864;
const SIZE: &str = "64";
/// Of the sender and of the receiver. On a veth the sender's CPU runs the XDP program too, and
/// copies packets to the sockets.
const CPUS: [&str; 2] = ["0", "1"];

/// Packets of a run at full rate, and of one batch of the generator.
const PACKETS: u32 = 1 << 21;
const BATCH: &str = "64";
/// Runs of each side within a pair; a side's figure is their median.
const RATE_ROUNDS: usize = 3;
/// A generator that makes fewer packets a second shows nothing about a receiver.
const LEAST_RATE: f64 = 1e6;

/// Packets of a run by the clock, and the time between two, ns.
const PACED: u32 = 10_000;
const CYCLE_NS: &str = "100000";
const DELAY_ROUNDS: usize = 5;

/// What a receiver of tardy's has recorded.
struct Recorded {
    arrivals: Vec<Arrival>,
    stamps: Vec<XdpStamp>,
    losses: XdpLosses,
}

/// The order to the receiver of stream `ctl`, at this end.
fn order(bench: &Bench, end: &End, wait: Wait, count: u32) -> Result<ReceiveOrder> {
    let file = bench.home.join("experiments").join(EXPERIMENT);
    let experiment = tardy_spec::load(&tardy_spec::read(&file)?, &SET.map(str::to_owned))?;
    let stream = experiment.cells.first().and_then(|cell| cell.setup.streams.first()).context("no stream")?;
    let order = StreamOrder { port: Port::Xdp, count, ..StreamOrder::of(stream, StreamId::FIRST, NONCE) };
    let thread = ThreadOrder { cpu: Some(CPUS[1].parse()?), policy: Policy::Other };
    let (local, device) = (end.address.into(), end.device.clone());
    Ok(ReceiveOrder {
        order,
        thread,
        local,
        port: 0,
        device,
        queue: None,
        frames: 4_096,
        wait,
        replies: false,
        object: None,
        hints: Vec::new(),
    })
}

/// Receives as an agent does, while `feed` sends. Each packet must have its hint and its record.
fn tardy(end: &End, order: ReceiveOrder, feed: impl FnOnce() -> Result<String>) -> Result<(Recorded, String)> {
    let (shared, netns) = (Shared::default(), Path::new("/run/netns").join(&end.netns));
    let (ready, is_ready) = mpsc::channel();
    let receive = || {
        enter_netns(&netns)?;
        let cpu = order.thread.cpu.context("a receiver without a CPU")?;
        thread::pin(cpu)?;
        let bound = Xdp::bind(&EndOrder::Receive(order.clone()))?;
        let (ways, _) = Xdp::connect(Xdp::open(bound.port)?, || true)?;
        let mut port = ways.and_then(Ways::only_receive).context("port xdp gave no receiving end")?;
        let mut receiver = Receiver::new(order.clone());
        shared.base_ns.store(clock::now::<Tai>().ns(), Relaxed);
        ready.send(()).ok();
        receiver.run(&mut MachineTimer, &mut port, &shared);
        let losses = port.xdp().context("port xdp gave no record")?.losses;
        let (counters, stamps) = (receiver.counters, receiver.take_stamps());
        if counters.broken_errno != 0 || counters.foreign + counters.records_dropped > 0 {
            bail!("the receiver lost packets itself: {counters:?}");
        }
        Ok(Recorded { arrivals: receiver.finish(), stamps, losses })
    };
    let (recorded, text) = std::thread::scope(|scope| {
        let receiving = scope.spawn(receive);
        let fed = match is_ready.recv_timeout(LIMIT) {
            Ok(()) => feed().inspect(|_| std::thread::sleep(LINGER)),
            Err(_) => Err(anyhow!("the receiver was not ready")),
        };
        shared.stop.store(true, Relaxed);
        let recorded = receiving.join().map_err(|_| anyhow!("the receiver broke"))?;
        Ok::<_, anyhow::Error>((recorded?, fed?))
    })?;
    let hints = recorded.stamps.iter().filter(|stamp| stamp.time_ns.is_some()).count();
    if hints != recorded.arrivals.len() {
        bail!("{} packets came, and {hints} hints were decoded", recorded.arrivals.len());
    }
    Ok((recorded, text))
}

/// A C loop that receives; it ends by itself.
struct Loop {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Loop {
    /// Started, and ready to receive.
    fn start(end: &End, program: &Path, args: &[&str]) -> Result<Loop> {
        let mut child = end.command(program).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut says = BufReader::new(child.stdout.take().context("stdout")?);
        let mut line = String::new();
        says.read_line(&mut line)?;
        if line.trim() != "ready" {
            child.wait()?;
            bail!("`rings {}` did not get ready: see its message above", args.join(" "));
        }
        Ok(Loop { child, says })
    }

    /// What it says at its end.
    fn end(mut self) -> Result<String> {
        let mut text = String::new();
        self.says.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the C loop ended with {status}: {text}");
        }
        Ok(text)
    }
}

/// Where generated packets went. Each is in one part.
#[derive(Clone, Copy, Default)]
struct Parts {
    generated: u64,
    received: u64,
    /// No room in the veth's ring, before the XDP program.
    xmit_errors: u64,
    /// No place in the socket's receive ring.
    rx_ring_full: u64,
    /// No free frame to copy the packet into.
    rx_dropped: u64,
}

impl Parts {
    const NAMES: [&str; 5] = ["generated", "received", "xdp_xmit_errors", "rx_ring_full", "rx_dropped"];

    fn all(self) -> [u64; 5] {
        [self.generated, self.received, self.xmit_errors, self.rx_ring_full, self.rx_dropped]
    }

    /// The same, if they add up.
    fn whole(self) -> Result<Parts> {
        let [generated, parts @ ..] = self.all();
        let sum: u64 = parts.iter().sum();
        if sum != generated {
            bail!("{generated} packets were generated, and {sum} can be accounted for: {}", self.text());
        }
        Ok(self)
    }

    fn text(self) -> String {
        let [generated, received, xmit, full, dropped] = self.all();
        format!(
            "generated {generated} = received {received} + xdp_xmit_errors {xmit} + rx_ring_full {full} \
             + rx_dropped {dropped}"
        )
    }

    fn add(&mut self, other: Parts) {
        self.generated += other.generated;
        self.received += other.received;
        self.xmit_errors += other.xmit_errors;
        self.rx_ring_full += other.rx_ring_full;
        self.rx_dropped += other.rx_dropped;
    }
}

/// A run at full rate: packets a second that were received and that were generated, and the parts.
struct Rate {
    received: f64,
    generated: f64,
    parts: Parts,
    text: String,
}

fn generate(program: &Path, end: &End, stream: u8) -> Result<String> {
    let (count, nonce, stream) = (PACKETS.to_string(), NONCE.to_string(), stream.to_string());
    let args = ["generate", &end.device, CPUS[0], &count, BATCH, &nonce, &stream, SIZE];
    Ok(child::run(end.command(program).args(args), &[0], LIMIT)?.stdout)
}

/// A run out of what the generator says, and how many were received within which time.
fn rate(made: &str, received: u64, span_ns: f64, losses: XdpLosses) -> Result<Rate> {
    let parts = Parts {
        generated: figure(made, "generated")? as u64,
        received,
        xmit_errors: figure(made, "xdp_xmit_errors")? as u64,
        rx_ring_full: losses.rx_ring_full,
        rx_dropped: losses.rx_dropped,
    };
    let parts = parts.whole()?;
    let generated = parts.generated as f64 * 1e9 / figure(made, "span_ns")?;
    if generated < LEAST_RATE {
        bail!("only {generated:.0} packets/s were generated: is the machine quiet?");
    }
    let per_s = received.saturating_sub(1) as f64 * 1e9 / span_ns;
    let text = format!("{}\n{per_s:.0} packets/s received, {generated:.0} packets/s generated\n", parts.text());
    Ok(Rate { received: per_s, generated, parts, text })
}

fn our_rate(bench: &Bench, program: &Path, a: &End, b: &End) -> Result<Rate> {
    let order = order(bench, b, Wait::Spin, PACKETS)?;
    let stream = order.order.stream.number();
    let (recorded, made) = tardy(b, order, || generate(program, a, stream))?;
    let ends = recorded.arrivals.first().zip(recorded.arrivals.last()).context("no packet came")?;
    let span_ns = (ends.1.receive_ns - ends.0.receive_ns) as f64;
    rate(&made, recorded.arrivals.len() as u64, span_ns, recorded.losses)
}

fn bare_rate(program: &Path, a: &End, b: &End, kind: &str) -> Result<Rate> {
    let bare = Loop::start(b, program, &["drop", &b.device, CPUS[1], kind])?;
    let made = generate(program, a, StreamId::FIRST.number())?;
    let text = bare.end()?;
    let of = |name| figure(&text, name);
    let losses = XdpLosses {
        rx_ring_full: of("rx_ring_full")? as u64,
        rx_dropped: of("rx_dropped")? as u64,
        ..XdpLosses::default()
    };
    rate(&made, of("received")? as u64, of("span_ns")?, losses)
}

/// Measures all sides in turn, `rounds` times. Who went first goes last in the next round, and
/// every other round goes backwards, so that no side always follows the same one.
fn in_turn<T>(
    pair: usize,
    rounds: usize,
    sides: &[&dyn Fn() -> Result<T>],
    mut each: impl FnMut(usize, usize, T) -> Result<()>,
) -> Result<()> {
    for round in 0..rounds {
        for turn in 0..sides.len() {
            let turn = if round % 2 == 1 { sides.len() - 1 - turn } else { turn };
            let side = (pair + round + turn) % sides.len();
            each(round, side, sides[side]()?)?;
        }
    }
    Ok(())
}

/// tardy and its peers: a loop that gets the same packets with the same hints, one whose program
/// does nothing but redirect, and the first one again: what is a ratio worth here?
const SIDES: [&str; 4] = ["tardy", "hints", "plain", "again"];

/// Packets a second with hints decoded and samples recorded, compared with a loop that drops them.
pub fn rates(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let program = child::compile(bench, "rings")?;
    let (mut hints, mut plain, mut generated) = (Vec::new(), Vec::new(), Vec::new());
    let (mut loops, mut itself) = (Vec::new(), Vec::new());
    let mut parts = [Parts::default(); SIDES.len()];
    for pair in 0..bench.pairs {
        let mut rates = [const { (Vec::new(), Vec::new()) }; SIDES.len()];
        child::joined(bench, EXPERIMENT, |a, b| {
            let ours = || our_rate(bench, &program, a, b);
            let [with, without, again] = ["hints", "plain", "hints"].map(|kind| {
                let program = &program;
                move || bare_rate(program, a, b, kind)
            });
            in_turn(pair, RATE_ROUNDS, &[&ours, &with, &without, &again], |round, side, rate| {
                eprintln!("bench: xdp-rate, {}: {}", SIDES[side], rate.parts.text());
                raw.keep(pair, &format!("{}-{round}", SIDES[side]), &rate.text)?;
                rates[side].0.push(rate.received / 1e3);
                rates[side].1.push(rate.generated / 1e3);
                parts[side].add(rate.parts);
                Ok(())
            })
        })?;
        let [ours, with, without, again] = rates;
        itself.push(medians([again.0, with.0.clone()])?);
        plain.push(medians([ours.0.clone(), without.0.clone()])?);
        loops.push(medians([with.0.clone(), without.0])?);
        hints.push(medians([ours.0, with.0])?);
        generated.push(medians([ours.1, with.1])?);
    }
    let row = |what: &str, (unit, better), kind, pairs, bound| Row {
        peer: format!("C loop that drops, {kind}"),
        command: "bench xdp-rate".to_owned(),
        peer_command: format!(
            "rings drop DEVICE {} {kind}; rings generate DEVICE {} {PACKETS} {BATCH} {NONCE} 0 {SIZE}",
            CPUS[1], CPUS[0]
        ),
        pairs,
        bound,
        ..Row::new(what, unit, better)
    };
    let (rate, neither) = (("k/s", Better::Higher), ("k/s", Better::Neither));
    let what = "packets/s over AF_XDP, hints decoded, samples recorded";
    let itself = row("packets/s of a C loop that drops, against itself", neither, "hints", itself, Bound::None);
    let spread = itself.ratio();
    let mut rows = vec![
        itself,
        Row { itself: spread, ..row(what, rate, "hints", hints, Bound::RatioAtLeast(0.8)) },
        row("packets/s generated meanwhile", rate, "hints", generated, Bound::None),
        row(what, rate, "plain", plain, Bound::RatioAtLeast(0.8)),
        // No receiver comes closer to `plain` than one that does not look at a hint.
        row("packets/s of a C loop that drops, hints", rate, "plain", loops, Bound::None),
    ];
    // Of all runs together, so that they add up here as well.
    let [ours, with, ..] = parts.map(Parts::all);
    for ((name, ours), theirs) in Parts::NAMES.iter().zip(ours).zip(with) {
        let pairs = vec![(ours as f64, Some(theirs as f64))];
        let packets = ("packets", Better::Uncompared);
        rows.push(row(&format!("of all its packets: {name}"), packets, "hints", pairs, Bound::None));
    }
    Ok(rows)
}

fn medians([ours, theirs]: [Vec<f64>; 2]) -> Result<(f64, Option<f64>)> {
    Ok((row::median(ours).context("no round")?, row::median(theirs)))
}

fn send(program: &Path, end: &End, stream: u8) -> Result<String> {
    let (count, nonce, stream) = (PACED.to_string(), NONCE.to_string(), stream.to_string());
    let args = ["send", &end.device, CPUS[0], &count, CYCLE_NS, &nonce, &stream, SIZE];
    Ok(child::run(end.command(program).args(args), &[0], LIMIT)?.stdout)
}

/// The median of `rx_xdp..receive`, ns. Every packet has to come.
fn our_delay(bench: &Bench, program: &Path, (a, b): (&End, &End), wait: Wait) -> Result<(f64, String)> {
    let order = order(bench, b, wait, PACED)?;
    let stream = order.order.stream.number();
    let (recorded, sent) = tardy(b, order, || send(program, a, stream))?;
    let both = recorded.arrivals.iter().zip(&recorded.stamps);
    let mut delays: Vec<i64> =
        both.filter_map(|(arrival, stamp)| Some(arrival.receive_ns - stamp.time_ns.get()?)).collect();
    delays.sort_unstable();
    whole(&sent, delays.len() as f64)?;
    let p50 = *delays.get(delays.len().div_ceil(2).saturating_sub(1)).context("no packet came")?;
    Ok((p50 as f64, format!("received {} p50_ns {p50} min_ns {}\n", delays.len(), delays[0])))
}

fn bare_delay(program: &Path, (a, b): (&End, &End), wait: &str) -> Result<(f64, String)> {
    let count = PACED.to_string();
    let bare = Loop::start(b, program, &["delay", &b.device, CPUS[1], wait, &count])?;
    let sent = send(program, a, StreamId::FIRST.number())?;
    let text = bare.end()?;
    whole(&sent, figure(&text, "received")?)?;
    Ok((figure(&text, "p50_ns")?, text))
}

fn whole(sent: &str, received: f64) -> Result<()> {
    if figure(sent, "sent")? != received {
        bail!("{received} packets came, and the sender says: {sent}");
    }
    Ok(())
}

/// How long after the XDP program the loop has the packet, compared with the loop of
/// AF_XDP-interaction.
pub fn delays(bench: &Bench, raw: &Raw) -> Result<Vec<Row>> {
    let program: PathBuf = child::compile(bench, "rings")?;
    let mut rows = Vec::new();
    // An idle CPU that has to be woken by the hypervisor first is most of what `poll` waits for.
    let _hold = awake()?;
    for (wait, name) in [(Wait::Spin, "spin"), (Wait::Poll, "poll")] {
        let (mut pairs, mut itself) = (Vec::new(), Vec::new());
        for pair in 0..bench.pairs {
            let mut sides = [Vec::new(), Vec::new(), Vec::new()];
            child::joined(bench, EXPERIMENT, |a, b| {
                let ours = || our_delay(bench, &program, (a, b), wait);
                let theirs = || bare_delay(&program, (a, b), name);
                in_turn(pair, DELAY_ROUNDS, &[&ours, &theirs, &theirs], |round, side, (p50_ns, text)| {
                    let who = ["tardy", "peer", "again"][side];
                    raw.keep(pair, &format!("{name}-{who}-{round}"), &text)?;
                    sides[side].push(p50_ns);
                    Ok(())
                })
            })?;
            let [ours, theirs, again] = sides;
            itself.push(medians([again, theirs.clone()])?);
            pairs.push(medians([ours, theirs])?);
        }
        let row = |what: String, better, pairs, bound| Row {
            peer: "C loop of AF_XDP-interaction".to_owned(),
            command: "bench xdp-delay".to_owned(),
            peer_command: format!(
                "rings delay DEVICE {} {name} {PACED}; rings send DEVICE {} {PACED} {CYCLE_NS} {NONCE} 0 {SIZE}",
                CPUS[1], CPUS[0]
            ),
            pairs,
            bound,
            ..Row::new(what, "ns", better)
        };
        let what = format!("rx_xdp..receive over AF_XDP, {name}, p50");
        let itself = row(format!("{what}, that loop against itself"), Better::Neither, itself, Bound::None);
        let spread = itself.ratio();
        rows.push(itself);
        rows.push(Row { itself: spread, ..row(what, Better::Lower, pairs, Bound::RatioAtMost(1.02)) });
    }
    Ok(rows)
}
