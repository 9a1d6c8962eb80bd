// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a set-up means for the packets of a stream: which phase its schedule has against the
//! gates, and by what the judge decides whether they left when they should. Pure.

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use tardy_model::gates::Gates;
use tardy_model::qdisc::{GateRecord, Keeper, LaunchRecord, RxKernelAt};
use tardy_model::shaper::{Etf, Mode, Shaper, Taprio};
use tardy_model::stream::{Launch, Stream};
use tardy_model::time::Nanos;
use tardy_spec::experiment::{Path, Setup};

/// Sending early in a window leaves the rest of it to the sender's own lateness.
const EARLY_PART: i64 = 4;

/// A stream without a schedule begins anywhere in this time: it holds the periods of the kernel's
/// tick, 1, 4 and 10 ms, as whole numbers.
const ANYWHERE: i64 = 20_000_000;

/// The trial's own shift of a stream's schedule: anywhere in its cycle, or where gates decide,
/// early in a window of its class. Of a ping-pong, the shift of its first request.
pub fn phase(setup: &Setup, stream: &Stream, random: &mut Pcg64Mcg) -> Nanos {
    let cycle = stream.cycle.0.max(1);
    // One draw in every case, so that a shaper moves no other stream's phase.
    let drawn = random.random_range(0..if stream.cycle.0 > 0 { cycle } else { ANYWHERE });
    let Some(taprio) = setup.shaper.taprio().filter(|_| stream.kind.is_scheduled()) else { return Nanos(drawn) };
    let class = taprio.classes.of(stream.priority);
    // A launch time must lie in one entry, with room for the frame; a packet that has none waits.
    let own = stream.launch.is_some();
    let gates = if own { Gates::by_entry(&taprio.schedule, class) } else { Gates::of(&taprio.schedule, class) };
    if gates.always_open() {
        return Nanos(drawn);
    }
    let frame = stream.frame_time(taprio.port_bit_s).0;
    let step = gates.step(cycle);
    let (from, length) = match gates.phases(cycle, frame) {
        // At the very opening of its entry taprio takes a launch time for one outside.
        Some((from, length)) if own && length > 1 => (from + 1, length - 1),
        Some(found) => found,
        // No phase meets a window each time; packets wait for theirs.
        None => match gates.windows.first() {
            Some(window) => (window.open_ns, window.length_ns()),
            None => return Nanos(drawn),
        },
    };
    let early = (length / EARLY_PART).max(1);
    let phase = gates.offset_ns + from + drawn % early + step * (drawn / early % (cycle / step).max(1));
    Nanos(phase.rem_euclid(cycle))
}

/// When packets of a stream should leave; `None` where nothing decides it.
fn gate(shaper: &Shaper, stream: &Stream) -> Option<GateRecord> {
    let class = shaper.classes().map(|classes| classes.of(stream.priority));
    let etf = shaper.etf(stream.priority);
    let of_etf = |keeper: Keeper| GateRecord {
        keeper,
        class,
        gates: None,
        delta_ns: etf.map_or(0, |etf| etf.delta.0),
        tolerance_ns: etf.map_or(0, |etf| etf.tolerance.0),
        assigned_after_ns: None,
        entries: None,
        frame_ns: shaper.taprio().map_or(0, |taprio| stream.frame_time(taprio.port_bit_s).0),
    };
    // A device that holds packets is behind every stamp; one that must be gone by its launch time
    // is not held at all.
    let below = |etf: &Etf, plain: Keeper| match (etf.offload, etf.deadline_mode) {
        (true, _) => Keeper::Device,
        (false, true) => Keeper::EtfDeadline,
        (false, false) => plain,
    };
    match shaper {
        Shaper::Taprio(Taprio { schedule, mode, .. }) => {
            let class = class?;
            let gates = Some(Gates::of(schedule, class));
            let own = stream.launch.is_some();
            Some(match (mode, etf) {
                (Mode::TxtimeAssist { delay }, Some(etf)) => {
                    let keeper = below(etf, Keeper::TxtimeAssist);
                    let entries = (!own).then(|| Gates::by_entry(schedule, class));
                    GateRecord { gates, entries, assigned_after_ns: (!own).then_some(delay.0), ..of_etf(keeper) }
                }
                (Mode::Offload, _) => GateRecord { gates, ..of_etf(Keeper::Device) },
                _ => GateRecord { gates, delta_ns: 0, tolerance_ns: 0, ..of_etf(Keeper::Taprio) },
            })
        }
        Shaper::Etf(_) | Shaper::Mqprio(_) => Some(of_etf(below(etf?, Keeper::Etf))),
        Shaper::None | Shaper::Cbs(_) => None,
    }
}

/// The first Linux that marks packets whose launch time a program gave. When a packet changes its
/// namespace, this Linux scrubs it but spares a launch time with that mark. An earlier Linux clears
/// the launch time, and stamps the packet as it arrives.
const MARKS_LAUNCH_TIMES: [u32; 2] = [6, 9];

/// Major and minor number of a kernel's release: `6.12.57-amd64`.
fn version(release: &str) -> Option<[u32; 2]> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some([numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?])
}

/// Where the kernel of this release stamps the stream's packets at their arrival; `None` where a
/// release that cannot be read would have to say so.
pub fn rx_kernel_at(path: &Path, stream: &Stream, release: Option<&str>) -> Option<RxKernelAt> {
    // A virtual link hands the very packet over, and its launch time stays where the stamp of its
    // arrival would be.
    if stream.launch == Launch::None || !path.traits().hands_packets_over || stream.port.traits().is_simulated {
        return Some(RxKernelAt::Arrival);
    }
    let keeps = version(release?)? >= MARKS_LAUNCH_TIMES;
    Some(match stream.port.traits().is_frames {
        _ if !keeps => RxKernelAt::Arrival,
        true => RxKernelAt::PacketSocket,
        false => RxKernelAt::LocalDelivery,
    })
}

/// The record of a trial. `timer_p99_9_ns` is the ruler's figure of the sender's thread, `release`
/// the kernel's.
pub fn record(setup: &Setup, stream: &Stream, timer_p99_9_ns: Option<i64>, release: Option<&str>) -> LaunchRecord {
    LaunchRecord {
        launch: stream.launch,
        advance_ns: stream.tx.advance.0,
        delta_ns: setup.shaper.etf(stream.priority).map(|etf| etf.delta.0),
        timer_p99_9_ns,
        class: setup.shaper.classes().map(|classes| classes.of(stream.priority)),
        gate: if stream.kind.is_scheduled() { gate(&setup.shaper, stream) } else { None },
        rx_kernel_at: rx_kernel_at(&setup.path, stream, release),
        station: stream.from.clone(),
    }
}
