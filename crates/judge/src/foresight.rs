// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be said of a run before it begins: what can never be valid or resolved, or only just.
//! Pure: what it needs of the machine is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tardy_analyze::clusters::NEEDED;
use tardy_analyze::compare::phases::LEAST as LEAST_PHASES;
use tardy_analyze::repeats::LEAST_TRIALS;
use tardy_analyze::ruler::GRAIN_NS;
use tardy_analyze::statistics::{packets_for, rank_of};
use tardy_model::expect::{Limit, Of, QUANTILES};
use tardy_model::machine::RtLimit;
use tardy_model::point::Point;
use tardy_model::stream::{Kind, Policy, Side, Stream, Wait};
use tardy_model::time::Nanos;
use tardy_model::verdict::Level;
use tardy_model::xdp::Core;
use tardy_spec::experiment::{Cell, Experiment, spins_realtime};
use tardy_spec::schema::show_duration;

/// What the checks need of the machine; what is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// How long realtime threads may run; `None` also where there is no limit.
    pub rt_limit: Option<RtLimit>,
    /// Release of the kernel, as `uname -r` prints it.
    pub release: Option<String>,
    /// How late the kernel may end a sleep of a thread under policy `other`.
    pub timer_slack_ns: Option<i64>,
    /// How fine the kernel's timers are: the length of a tick where none are finer.
    pub timer_resolution_ns: Option<i64>,
    /// Network devices that interrupt their CPU also while a thread polls them.
    pub interrupting: BTreeSet<String>,
    /// True for a guest in exact virtual time.
    pub is_exact: bool,
}

/// One thing that is foreseen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// A warning, or a note.
    pub level: Level,
    /// The key that makes it so.
    pub key: String,
    pub why: String,
    pub help: String,
    /// The cells that it is of, where it is not of all.
    pub cells: Vec<String>,
}

impl Foreseen {
    fn new(level: Level, key: String, why: String, help: String) -> Foreseen {
        Foreseen { level, key, why, help, cells: Vec::new() }
    }
}

impl fmt::Display for Foreseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Foreseen { level, key, why, help, cells } = self;
        write!(f, "{}: `{key}`: {why}", level.name())?;
        match cells.as_slice() {
            [] => {}
            [one] => write!(f, ", in cell {one}")?,
            [first, others @ ..] => write!(f, ", in cell {first} and {} more", others.len())?,
        }
        write!(f, " ({help})")
    }
}

/// A count with its thousands apart, as an experiment file may have it.
fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('_');
        }
        out.push(digit);
    }
    out
}

/// Looks at one cell.
type OfACell = fn(&Experiment, &Cell, &Machine) -> Vec<Foreseen>;

/// The checks of each cell.
const OF_A_CELL: &[OfACell] = &[spin, busypoll, cycle, percentile];

/// Different warnings that are listed. Beyond, nobody would read them.
const MOST: usize = 50;

/// Everything that is foreseen, each thing once: warnings in the order of the cells, then notes.
pub fn foresee(experiment: &Experiment, machine: &Machine) -> Vec<Foreseen> {
    let mut all: Vec<(Foreseen, BTreeSet<usize>)> = Vec::new();
    let mut more = 0;
    for (n, cell) in experiment.cells.iter().enumerate() {
        for found in OF_A_CELL.iter().flat_map(|of| of(experiment, cell, machine)) {
            match all.iter().position(|(known, _)| *known == found) {
                Some(at) => drop(all[at].1.insert(n)),
                None if all.len() >= MOST => more += 1,
                None => all.push((found, BTreeSet::from([n]))),
            }
        }
    }
    let cells = &experiment.cells;
    let named = all.into_iter().map(|(found, of)| match of.len() == cells.len() {
        true => found,
        false => Foreseen { cells: of.iter().map(|n| cells[*n].id.clone()).collect(), ..found },
    });
    let mut foreseen: Vec<Foreseen> = named.chain(trials(experiment)).chain(phases(experiment, machine)).collect();
    foreseen.sort_by_key(|found| std::cmp::Reverse(found.level));
    if more > 0 {
        let why = format!("{more} more warnings, of other cells, are not listed");
        foreseen.push(Foreseen::new(Level::Note, "matrix".to_owned(), why, "plan fewer cells at a time".to_owned()));
    }
    foreseen
}

/// The first kernel with the fair server, which took the place of the limit for kernels without
/// groups of realtime tasks.
const FAIR_SERVER: (u32, u32) = (6, 12);
/// What it leaves a realtime thread while ordinary tasks wait for its CPU: all but 50 ms of each
/// second (`fair_server/runtime`).
const FAIR: RtLimit = RtLimit { period_ns: 1_000_000_000, runtime_ns: 950_000_000 };

/// The share of the time that the thread spins, and the key that says so.
fn spins(stream: &Stream, side: Side) -> (f64, &'static str) {
    match side {
        Side::Tx if stream.kind != Kind::Pingpong => {
            ((stream.tx.spin.0 as f64 / stream.cycle.0.max(1) as f64).min(1.0), "tx.spin")
        }
        Side::Tx | Side::Reply => (1.0, "tx.wait"),
        Side::Rx => (1.0, "rx.wait"),
    }
}

/// How long a trial lasts; `None` of a ping-pong, which measures that.
fn trial_ns(stream: &Stream) -> Option<i64> {
    stream.kind.is_scheduled().then(|| i64::from(stream.count).saturating_mul(stream.cycle.0))
}

/// `6.18.44-fc` as 6 and 18.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Realtime threads that spin for longer than the kernel lets them: the rule `rt-bandwidth` makes
/// such trials not valid.
fn spin(_: &Experiment, cell: &Cell, machine: &Machine) -> Vec<Foreseen> {
    let release = machine.release.as_deref();
    let is_fair = release.and_then(version).is_some_and(|version| version >= FAIR_SERVER);
    let Some(limit) = (if is_fair { Some(FAIR) } else { machine.rt_limit }) else { return Vec::new() };
    if limit.period_ns <= 0 || limit.runtime_ns >= limit.period_ns {
        return Vec::new();
    }
    let mut found = Vec::new();
    for stream in &cell.setup.streams {
        for side in Side::of(stream).filter(|side| spins_realtime(stream, *side)) {
            let (share, field) = spins(stream, side);
            let is_short = trial_ns(stream).is_some_and(|ns| ns < limit.runtime_ns);
            if is_short || share <= limit.runtime_ns as f64 / limit.period_ns as f64 {
                continue;
            }
            let thread = format!("{}.{side}, which spins as {},", stream.name, side.policy(stream));
            let [stop, period, runtime] = [limit.period_ns - limit.runtime_ns, limit.period_ns, limit.runtime_ns]
                .map(|ns| show_duration(Nanos(ns)));
            let why = match is_fair {
                true => format!(
                    "{thread} would be stopped for {stop} of each {period} in which another task waits for its CPU, by the fair server of \
                     this kernel, {}, whatever sched_rt_runtime_us says; the rule rt-bandwidth then makes the trial not valid",
                    release.unwrap_or_default()
                ),
                false => format!(
                    "{thread} would be stopped for {stop} of each {period}: realtime threads may run {runtime} of it (sched_rt_runtime_us), \
                     and the rule rt-bandwidth makes every trial not valid"
                ),
            };
            let policy = match side {
                Side::Reply => "reply.policy".to_owned(),
                Side::Tx | Side::Rx => field.replace("wait", "policy"),
            };
            let instead = match field {
                "tx.spin" => format!("write a tx.spin below {}", show_duration(Nanos(stream.cycle.0 / 10 * 9))),
                // An AF_XDP socket has no receive call that sleeps.
                field if stream.rx.port.passes_xdp() => {
                    format!("write {field} = \"poll\", or {policy} = \"other\"")
                }
                field => format!("write {field} = \"block\", or {policy} = \"other\""),
            };
            let help = match is_fair {
                true => format!("{instead}, or keep all other tasks off that CPU: docs/how-to/isolation.md"),
                false => format!("{instead}, or lift the limit: sysctl kernel.sched_rt_runtime_us=-1"),
            };
            found.push(Foreseen::new(Level::Warning, format!("stream.{}.{field}", stream.name), why, help));
        }
    }
    found
}

/// From this version on veth gives packets to AF_XDP without a NAPI context.
const VETH_WITHOUT: (u32, u32) = (6, 13);

/// Waits that poll a device, on a path whose packets come without a NAPI context: the run refuses
/// the cell. One that is optional may be refused.
fn busypoll(_: &Experiment, cell: &Cell, machine: &Machine) -> Vec<Foreseen> {
    let setup = &cell.setup;
    if cell.optional {
        return Vec::new();
    }
    let polls = |stream: &&Stream| stream.rx.wait == Wait::Busypoll && stream.rx.core == Some(Core::Remote);
    if let Some(stream) = setup.streams.iter().find(polls) {
        return vec![Foreseen::new(
            Level::Warning,
            format!("stream.{}.rx.core", stream.name),
            "a receiver with rx.wait = \"busypoll\" polls the device and runs the XDP program itself, on its own CPU, so no \
             other core can be promised, and the run refuses the cell"
                .to_owned(),
            "write rx.core = \"same\", or another wait".to_owned(),
        )];
    }
    if !setup.path.traits().napi_on_request {
        return interrupted(cell, machine);
    }
    let release = machine.release.as_deref();
    let is_without = release.and_then(version).is_some_and(|version| version >= VETH_WITHOUT);
    let mut found = Vec::new();
    for stream in setup.streams.iter().filter(|stream| !stream.port.traits().is_simulated) {
        let by_xdp = stream.rx.port.passes_xdp();
        let waits = [("rx.wait", stream.rx.wait, true), ("tx.wait", stream.tx.wait, stream.kind != Kind::Cyclic)];
        for (field, ..) in waits.into_iter().filter(|(_, wait, used)| *used && *wait == Wait::Busypoll) {
            let path = setup.path.traits().name;
            let (why, help) = match by_xdp {
                true if is_without => (
                    format!(
                        "this kernel, {}, gives packets of a {path} to AF_XDP without a NAPI context, so there is no device to poll, \
                         and the run refuses the cell",
                        release.unwrap_or_default()
                    ),
                    format!("write {field} = \"poll\", or \"spin\""),
                ),
                false if !setup.softirq.napi => (
                    format!(
                        "packets of a {path} come without a NAPI context, so there is no device to poll, and the run refuses \
                         the cell"
                    ),
                    format!("write path.napi = true, or {field} = \"block\""),
                ),
                _ => continue,
            };
            found.push(Foreseen::new(Level::Warning, format!("stream.{}.{field}", stream.name), why, help));
        }
    }
    found
}

/// Waits that poll a device whose interrupts deliver packets meanwhile: the figures are of both.
fn interrupted(cell: &Cell, machine: &Machine) -> Vec<Foreseen> {
    let setup = &cell.setup;
    let devices = setup.path.devices();
    // The path has them in the order of the stations. A virtual machine has none of this host's.
    let is_into_machine = setup.path.traits().devices.backend().is_some();
    let device_of = |station: &str| {
        let is_machine = setup.stations.get(station).is_some_and(|of| of.machine.is_some());
        let at = match is_into_machine {
            true => Some(0).filter(|_| !is_machine),
            false => setup.stations.keys().position(|name| name.as_str() == station),
        }?;
        devices.get(at).copied().filter(|device| machine.interrupting.contains(*device))
    };
    let ends = |stream: &Stream| -> Vec<(&'static str, String)> {
        let rx = ("rx.wait", stream.rx.wait, &stream.to);
        let tx = stream.kind.is_answered().then_some(("tx.wait", stream.tx.wait, &stream.from));
        let polls = [Some(rx), tx].into_iter().flatten().filter(|(_, wait, _)| *wait == Wait::Busypoll);
        polls.filter_map(|(key, _, station)| Some((key, device_of(station)?.to_owned()))).collect()
    };
    let note = |stream: &Stream, (key, device): (&str, String)| {
        let why = format!(
            "interrupts of {device} deliver packets next to the thread that polls it, for its napi_defer_hard_irqs or \
             gro_flush_timeout is 0"
        );
        let of = |what: &str, value: u32| format!("echo {value} >/sys/class/net/{device}/{what}");
        let help = format!("{}; {}", of("napi_defer_hard_irqs", 2), of("gro_flush_timeout", 200_000));
        Foreseen::new(Level::Warning, format!("stream.{}.{key}", stream.name), why, help)
    };
    setup.streams.iter().flat_map(|stream| ends(stream).into_iter().map(|end| note(stream, end))).collect()
}

/// The kernel's own timer slack, assumed of a machine that was not asked, ns.
const SLACK_NS: i64 = 50_000;
/// How long a sender takes for a packet at the least, without kernel stamps and with them, ns: the
/// packets a second that docs/performance.md reports of its machine. Assumed of every machine,
/// because only the run measures it.
const SEND_NS: [i64; 2] = [3_300, 5_200];

/// Cycles that no figure can tell apart, or that the sender cannot keep with its policy and its
/// wait, as far as that is known before the run: docs/method/ruler.md.
fn cycle(_: &Experiment, cell: &Cell, machine: &Machine) -> Vec<Foreseen> {
    let timed = |stream: &&Stream| stream.kind.is_scheduled() && !stream.port.traits().is_simulated;
    let streams = cell.setup.streams.iter().filter(timed);
    let one = |stream: &Stream| {
        let checks = [fine, awake, slack, sends].map(|check| check(stream, machine));
        let (level, why, help) = checks.into_iter().flatten().next()?;
        Some(Foreseen::new(level, format!("stream.{}.cycle", stream.name), why, help))
    };
    let others = |stream| [budget(stream), lags(stream, machine)].into_iter().flatten();
    streams.clone().filter_map(one).chain(streams.flat_map(others)).collect()
}

/// The level, why, and what helps.
type Found = Option<(Level, String, String)>;

/// A cycle that figures cannot resolve.
fn fine(stream: &Stream, _: &Machine) -> Found {
    let [cycle, grain] = [stream.cycle, Nanos(GRAIN_NS)].map(show_duration);
    let why = format!(
        "packets {cycle} apart cannot be distinguished: reading the clock and returning from a call take about {grain} \
         (docs/method/ruler.md), and no sender keeps such a rate"
    );
    (stream.cycle.0 < GRAIN_NS).then(|| (Level::Warning, why, format!("write a cycle well above \"{grain}\"")))
}

/// True if its sender sleeps in each cycle. Packets with launch times wait for theirs in the queue
/// discipline, so the sender may be late.
fn sleeps(stream: &Stream) -> bool {
    stream.tx.spin < stream.cycle && !stream.launch.is_some()
}

/// A sender that sleeps, on a kernel whose timers end with a tick.
fn awake(stream: &Stream, machine: &Machine) -> Found {
    let tick_ns = machine.timer_resolution_ns?;
    let (cycle, tick) = (show_duration(stream.cycle), show_duration(Nanos(tick_ns)));
    let why = format!(
        "this kernel has no high-resolution timers (clock_getres: {tick}): it ends a sleep with a tick, also under a realtime policy, and \
         a tick is no shorter than the cycle of {cycle}, so packets of several cycles leave at once"
    );
    let help =
        format!("write tx.spin = \"{cycle}\", or boot a kernel with CONFIG_HIGH_RES_TIMERS and without highres=off");
    (sleeps(stream) && stream.cycle.0 <= tick_ns).then_some((Level::Warning, why, help))
}

/// The timer slack, and where it is from.
fn slack_of(machine: &Machine) -> (i64, &'static str) {
    match machine.timer_slack_ns {
        Some(ns) => (ns, "as on this machine"),
        None => (SLACK_NS, "assumed: the kernel's default"),
    }
}

/// A sender under policy `other`, whose sleeps may end late by the timer slack.
fn slack(stream: &Stream, machine: &Machine) -> Found {
    let (slack_ns, source) = slack_of(machine);
    let is_awake = !sleeps(stream) || stream.tx.spin.0 > slack_ns;
    if stream.tx.policy != Policy::Other || stream.cycle.0 > slack_ns || is_awake {
        return None;
    }
    let (cycle, slack) = (show_duration(stream.cycle), show_duration(Nanos(slack_ns)));
    let why = format!(
        "the kernel may wake a sender under policy other {slack} late, its timer slack ({source}), which is no less than the cycle of {cycle}: \
         packets of several cycles leave at once, and scheduled..wakeup shows the slack (docs/method/schedule.md)"
    );
    let help = format!("write tx.policy = \"fifo:90\", tx.spin = \"{cycle}\", or a cycle well above \"{slack}\"");
    Some((Level::Warning, why, help))
}

/// A sender that sleeps under policy `other` while its receiver is realtime: who chose the one
/// most likely left the other out.
fn lags(stream: &Stream, machine: &Machine) -> Option<Foreseen> {
    let (slack_ns, source) = slack_of(machine);
    // What wakes within a microsecond is no later than a realtime thread.
    let is_late = sleeps(stream) && stream.tx.spin.0 < slack_ns && slack_ns > GRAIN_NS;
    let is_told = slack(stream, machine).is_some();
    if stream.tx.policy != Policy::Other || stream.rx.policy == Policy::Other || !is_late || is_told {
        return None;
    }
    let (rx, slack) = (stream.rx.policy, show_duration(Nanos(slack_ns)));
    let name = &stream.name;
    let why = format!(
        "the receiver is {rx} and the sender is other: the kernel may end each of its sleeps {slack} late, its timer slack ({source}), so packets \
         leave that late, and scheduled..wakeup shows it (docs/method/schedule.md)"
    );
    let help = format!("write stream.{name}.tx.policy = \"fifo:90\"");
    Some(Foreseen::new(Level::Note, format!("stream.{name}.tx.policy"), why, help))
}

/// A cycle that is shorter than a send may take. That is an assumption, so it is a note.
fn sends(stream: &Stream, _: &Machine) -> Found {
    let is_stamped = [Point::TxSched, Point::TxKernel, Point::RxKernel].iter().any(|of| stream.stamps.contains(of));
    let takes = Nanos(SEND_NS[usize::from(is_stamped)]);
    let [cycle, send] = [stream.cycle, takes].map(show_duration);
    let stamps = if is_stamped { "with" } else { "without" };
    let why = format!(
        "a sender takes {send} for a packet {stamps} kernel stamps, whatever its policy and its wait, if this machine is like that of \
         docs/performance.md: then it cannot keep a cycle of {cycle}, and the rule rate makes the trial not valid. Only a run measures it here"
    );
    let help = "run one trial and read its rule rate, or write a longer cycle".to_owned();
    (stream.cycle < takes && !stream.port.passes_xdp()).then_some((Level::Note, why, help))
}

/// A sender under policy `deadline` that spins for more of each cycle than the kernel lets it run.
fn budget(stream: &Stream) -> Option<Foreseen> {
    let Policy::Deadline { runtime, period, .. } = stream.tx.policy else { return None };
    let may = runtime.0 as f64 / period.0.max(1) as f64;
    let (share, key) = spins(stream, Side::Tx);
    if share <= may || trial_ns(stream)? <= period.0 {
        return None;
    }
    let [spin, cycle, runtime, period] = [stream.tx.spin, stream.cycle, runtime, period].map(show_duration);
    let why = format!(
        "the sender spins for {spin} of each cycle of {cycle}, and the kernel stops it when it has run for {runtime} of each {period}"
    );
    let help = format!("write a shorter {key}, or a longer run time in tx.policy");
    Some(Foreseen::new(Level::Warning, format!("stream.{}.{key}", stream.name), why, help))
}

/// Limits of percentiles that the packets are too few to resolve: such an expectation is never met.
fn percentile(experiment: &Experiment, cell: &Cell, _: &Machine) -> Vec<Foreseen> {
    // Of several limits of a stream the farthest percentile says what all of them need.
    let mut farthest: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for expectation in &cell.expect {
        if let Limit::Metric { metric, of: Of::Quantile(index), .. } = expectation.limit {
            let of = farthest.entry((&expectation.stream, metric.to_string())).or_default();
            *of = index.max(*of);
        }
    }
    let trials = u64::from(experiment.trials);
    let one = |((stream, metric), index): ((&str, String), usize)| {
        let count = u64::from(cell.setup.streams.iter().find(|of| of.name == stream)?.count);
        let (_, name, q) = QUANTILES.get(index)?;
        let needed = packets_for(*q, NEEDED);
        if count.saturating_mul(trials) >= needed {
            return None;
        }
        let why = format!(
            "{name} cannot be reported from {} packets in {}, so the expectation cannot be met: {NEEDED} separate events must lie \
             beyond it, for which it takes about {} packets{}, more if they come in bursts",
            number(count),
            in_trials(trials),
            number(needed),
            if trials > 1 { " in all trials together" } else { "" }
        );
        let help = format!(
            "write stream.{stream}.count = {}{}, or trials = {}",
            number(needed.div_ceil(trials.max(1))),
            if trials > 1 { ", which is per trial" } else { "" },
            number(needed.div_ceil(count.max(1)))
        );
        Some(Foreseen::new(Level::Warning, format!("expect.{stream}.{metric}"), why, help))
    };
    farthest.into_iter().filter_map(one).collect()
}

/// Percentiles that tables and page show of every metric, and that the packets are too few to
/// resolve, or only just: notes for each stream. Cells differ by their counts, so they name the
/// fewest.
pub fn unresolved(experiment: &Experiment) -> Vec<Foreseen> {
    let trials = u64::from(experiment.trials).max(1);
    let mut counts: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for stream in experiment.cells.iter().flat_map(|cell| &cell.setup.streams) {
        counts.entry(&stream.name).or_default().insert(stream.count.into());
    }
    let one = |(stream, counts): &(&str, BTreeSet<u64>)| {
        let least = *counts.first()?;
        let dashed = QUANTILES.map(|(_, name, q)| (name, packets_for(q, NEEDED)));
        let dashed: Vec<_> = dashed.into_iter().filter(|(_, needed)| least.saturating_mul(trials) < *needed).collect();
        let names: Vec<&str> = dashed.iter().map(|(name, _)| *name).collect();
        let takes = dashed.iter().map(|(name, needed)| format!("{} for {name}", number(needed.div_ceil(trials))));
        let help = format!("a count of {}, or more if events come in bursts", takes.collect::<Vec<_>>().join(", "));
        let (names, fewest) = (names.join(", "), if counts.len() > 1 { "as few as " } else { "" });
        let why = format!(
            "tables and page will show {names} as not resolved, of {fewest}{} packets in {}: {NEEDED} separate events \
             must lie beyond a percentile",
            number(least),
            in_trials(trials)
        );
        (!dashed.is_empty()).then(|| Foreseen::new(Level::Note, format!("stream.{stream}.count"), why, help))
    };
    counts.into_iter().flat_map(|of| [one(&of), just_resolved(&of, trials)]).flatten().collect()
}

fn in_trials(trials: u64) -> String {
    if trials == 1 { "one trial".to_owned() } else { format!("each of {} trials", number(trials)) }
}

/// A percentile for which the fewest packets of a stream suffice only if late ones come one by
/// one.
fn just_resolved((stream, counts): &(&str, BTreeSet<u64>), trials: u64) -> Option<Foreseen> {
    let least = *counts.first()?;
    let all = least.saturating_mul(trials);
    let is_close = |needed: u64| (needed..needed.saturating_mul(2)).contains(&all);
    let (_, name, q) = QUANTILES.into_iter().find(|(.., q)| is_close(packets_for(*q, NEEDED)))?;
    let beyond = all.saturating_sub(rank_of(q, all));
    let only_if = match beyond.saturating_sub(u64::from(NEEDED)) {
        0 => "only if no two late packets belong to one event".to_owned(),
        1 => "only if no more than one late packet belongs to the event of another".to_owned(),
        spare => format!("only if no more than {spare} late packets belong to the event of another"),
    };
    let why = format!(
        "{name} is resolved of {} packets in {} {only_if}: {beyond} packets lie beyond it, and {NEEDED} separate \
         events must",
        number(least),
        in_trials(trials)
    );
    let roomy = number((packets_for(q, NEEDED) * 2).div_ceil(trials));
    Some(Foreseen::new(Level::Note, format!("stream.{stream}.count"), why, format!("a count of {roomy} leaves room")))
}

/// Fewer trials in exact time than `tardy compare` needs: it sets them side by side by their phase.
fn phases(experiment: &Experiment, machine: &Machine) -> Option<Foreseen> {
    let (trials, least) = (experiment.trials, LEAST_PHASES as u32);
    let runs = if trials == 1 { "one trial".to_owned() } else { format!("{trials} trials") };
    let why = format!(
        "`tardy compare` claims nothing about two exact runs of {runs}: it needs {least} phases, and a trial is one"
    );
    let help = format!("write --trials {least} if the run is to be compared");
    (machine.is_exact && trials < least).then(|| Foreseen::new(Level::Note, "trials".to_owned(), why, help))
}

/// Fewer trials than it takes to tell whether a figure repeats.
fn trials(experiment: &Experiment) -> Option<Foreseen> {
    let trials = experiment.trials;
    if usize::try_from(trials).is_ok_and(|trials| trials >= LEAST_TRIALS) {
        return None;
    }
    let why = format!("`repeats` cannot be judged from {trials} of each cell: it needs {LEAST_TRIALS}");
    Some(Foreseen::new(Level::Note, "trials".to_owned(), why, format!("write trials = {LEAST_TRIALS} or more")))
}
