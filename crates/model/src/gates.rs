// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arithmetic of gates, pure: when the windows of a class are open, which one an instant
//! belongs to, and how far it lies outside. All instants are TAI, ns; cycles are aligned to that
//! clock, so nothing but the schedule must be known. And what `results.json` says
//! of gates and of what queue disciplines dropped.

use crate::shaper::{Entry, MOST_ENTRIES, Schedule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One opening of a gate within a cycle, ns after the cycle's beginning. A window that reaches over
/// the cycle's end has its end beyond the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "window")]
pub struct Window {
    /// When it opens, ns.
    pub open_ns: i64,
    /// When it closes, ns: the first instant that is not inside.
    pub close_ns: i64,
}

impl Window {
    /// How long it is open.
    pub const fn length_ns(self) -> i64 {
        self.close_ns - self.open_ns
    }
    /// How far an instant lies outside: negative before it opens, positive from its closing on, 0
    /// within.
    pub const fn outside_ns(self, at_ns: i64) -> i64 {
        if at_ns < self.open_ns {
            at_ns - self.open_ns
        } else if at_ns >= self.close_ns {
            // The closing instant itself is the first that is not inside.
            at_ns - self.close_ns + 1
        } else {
            0
        }
    }
    const fn moved(self, by_ns: i64) -> Window {
        Window { open_ns: self.open_ns + by_ns, close_ns: self.close_ns + by_ns }
    }
}

/// The windows of one class. One that is read from a file is checked: the arithmetic divides by
/// the cycle, and looks at every window for each packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Gates {
    /// Length of a cycle, ns.
    pub cycle_ns: i64,
    /// A cycle begins this long after each multiple of its length, ns.
    pub offset_ns: i64,
    /// In the order of their opening; entries that follow each other are one window.
    pub windows: Vec<Window>,
}

/// [`Gates`] as a file has them.
#[derive(Deserialize)]
struct Unchecked {
    cycle_ns: i64,
    offset_ns: i64,
    windows: Vec<Window>,
}

/// Gates in a file that no schedule has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatesError {
    /// A cycle of no length, of less, or of more than entries can fill.
    Cycle(i64),
    /// A cycle begins outside itself.
    Offset {
        /// The cycle's length, ns.
        cycle_ns: i64,
        /// When it begins, ns.
        offset_ns: i64,
    },
    /// More windows than a schedule has entries.
    Windows(usize),
    /// A window that does not lie in the cycle, or in front of the one before it.
    Window(Window),
}

impl fmt::Display for GatesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GatesError::Cycle(ns) => write!(f, "a cycle of gates takes {ns} ns; it takes from 1 to {LONGEST_CYCLE_NS}"),
            GatesError::Offset { cycle_ns, offset_ns } => {
                write!(
                    f,
                    "a cycle of gates begins {offset_ns} ns after multiples of {cycle_ns} ns; it begins from 0 to below that"
                )
            }
            GatesError::Windows(windows) => {
                write!(f, "gates have {windows} windows; a schedule has at most {MOST_ENTRIES} entries")
            }
            GatesError::Window(Window { open_ns, close_ns }) => {
                write!(
                    f,
                    "a window of gates from {open_ns} to {close_ns} ns does not follow the one before it within the cycle"
                )
            }
        }
    }
}

impl std::error::Error for GatesError {}

/// An entry lasts 2^32 - 1 ns at most.
const LONGEST_CYCLE_NS: i64 = (u32::MAX as i64) * (MOST_ENTRIES as i64);

impl TryFrom<Unchecked> for Gates {
    type Error = GatesError;
    fn try_from(Unchecked { cycle_ns, offset_ns, windows }: Unchecked) -> Result<Self, GatesError> {
        if !(1..=LONGEST_CYCLE_NS).contains(&cycle_ns) {
            return Err(GatesError::Cycle(cycle_ns));
        }
        if !(0..cycle_ns).contains(&offset_ns) {
            return Err(GatesError::Offset { cycle_ns, offset_ns });
        }
        if windows.len() > MOST_ENTRIES {
            return Err(GatesError::Windows(windows.len()));
        }
        let mut from = 0;
        for window in &windows {
            // The last one may reach over the cycle's end, until the first one opens.
            let fits = (from..cycle_ns).contains(&window.open_ns)
                && (window.open_ns + 1..=window.open_ns + cycle_ns).contains(&window.close_ns);
            if !fits {
                return Err(GatesError::Window(*window));
            }
            from = window.close_ns;
        }
        Ok(Gates { cycle_ns, offset_ns, windows })
    }
}

/// Windows of a class in a list of entries: neighbours are one, also over the cycle's end.
pub fn windows(entries: &[Entry], class: u8) -> Vec<Window> {
    let mut found: Vec<Window> = Vec::new();
    let mut at = 0;
    for entry in entries {
        let end = at + entry.length.0;
        if entry.open >> class & 1 == 1 {
            match found.last_mut() {
                Some(last) if last.close_ns == at => last.close_ns = end,
                _ => found.push(Window { open_ns: at, close_ns: end }),
            }
        }
        at = end;
    }
    if let [first, .., last] = &mut found[..]
        && first.open_ns == 0
        && last.close_ns == at
    {
        last.close_ns += first.close_ns;
        found.remove(0);
    }
    found
}

impl Gates {
    /// Those of a class.
    pub fn of(schedule: &Schedule, class: u8) -> Gates {
        let cycle_ns = schedule.cycle.0.max(1);
        Gates {
            cycle_ns,
            offset_ns: schedule.offset.0.rem_euclid(cycle_ns),
            windows: windows(&schedule.entries, class),
        }
    }

    /// The gates of a class, each entry with a window of its own. taprio, where it looks at launch
    /// times or gives them, looks at one entry at a time: a frame must fit into what is left of it,
    /// though the next one lets the class go on (find_entry_to_transmit in net/sched/sch_taprio.c).
    pub fn by_entry(schedule: &Schedule, class: u8) -> Gates {
        let mut at = 0;
        let mut windows = Vec::new();
        for entry in &schedule.entries {
            let end = at + entry.length.0;
            if entry.open >> class & 1 == 1 {
                windows.push(Window { open_ns: at, close_ns: end });
            }
            at = end;
        }
        Gates { windows, ..Gates::of(schedule, class) }
    }

    /// When the cycle began in which an instant lies.
    pub fn cycle_at(&self, at_ns: i64) -> i64 {
        at_ns - self.phase(at_ns)
    }

    /// How far into a cycle an instant lies.
    pub fn phase(&self, at_ns: i64) -> i64 {
        (at_ns - self.offset_ns).rem_euclid(self.cycle_ns)
    }

    /// True if the gate never closes.
    pub fn always_open(&self) -> bool {
        matches!(self.windows[..], [Window { open_ns: 0, close_ns }] if close_ns >= self.cycle_ns)
    }

    /// Windows around an instant, in order: those of its cycle, of the one before and of the one
    /// after.
    fn around(&self, at_ns: i64) -> impl Iterator<Item = Window> + '_ {
        let began = self.cycle_at(at_ns);
        [-1, 0, 1].into_iter().flat_map(move |n| self.windows.iter().map(move |w| w.moved(began + n * self.cycle_ns)))
    }

    /// The window in which an instant lies, else the next that opens; `None` if the gate never
    /// does. Absolute.
    pub fn belongs(&self, at_ns: i64) -> Option<Window> {
        self.around(at_ns).find(|window| window.close_ns > at_ns)
    }

    /// The window that is nearest to an instant, the earlier of two. Absolute.
    pub fn nearest(&self, at_ns: i64) -> Option<Window> {
        self.around(at_ns).min_by_key(|window| window.outside_ns(at_ns).abs())
    }

    /// The first instant from `at_ns` on at which the gate is open and stays so for `for_ns` more.
    /// `None` if that never is.
    pub fn next_open(&self, at_ns: i64, for_ns: i64) -> Option<i64> {
        if self.always_open() {
            return Some(at_ns);
        }
        // A window of the cycle after next is like one of those before it.
        self.around(at_ns).find_map(|window| {
            let from = window.open_ns.max(at_ns);
            (window.close_ns - from >= for_ns.max(1)).then_some(from)
        })
    }

    /// Phases of a schedule of `every_ns` at which each of its instants falls into a window with
    /// `for_ns` left: the longest stretch of them, as the phase at which it begins, below
    /// [`Gates::step`], and its length. `None` if there is none.
    pub fn phases(&self, every_ns: i64, for_ns: i64) -> Option<(i64, i64)> {
        let step = self.step(every_ns);
        if self.always_open() {
            return Some((0, step));
        }
        // What is open at a phase must be so in each of the steps that make a cycle: count them at
        // every edge.
        let mut edges: Vec<(i64, i64)> = Vec::new();
        for window in &self.windows {
            let (mut from, to) = (window.open_ns, window.close_ns - for_ns.max(0));
            while from < to {
                let until = to.min(from - from.rem_euclid(step) + step);
                edges.push((from.rem_euclid(step), 1));
                edges.push((from.rem_euclid(step) + (until - from), -1));
                from = until;
            }
        }
        edges.sort_unstable();
        let needed = self.cycle_ns / step;
        let (mut open, mut began, mut stretches) = (0, None, Vec::<(i64, i64)>::new());
        for (at, n) in edges {
            open += n;
            match (began, open >= needed) {
                (None, true) => began = Some(at),
                (Some(from), false) => {
                    began = None;
                    // Edges that touch are one stretch.
                    match stretches.last_mut() {
                        Some((last, length)) if *last + *length == from => *length += at - from,
                        _ => stretches.push((from, at - from)),
                    }
                }
                _ => {}
            }
        }
        if let [first, .., last] = &mut stretches[..]
            && first.0 == 0
            && last.0 + last.1 == step
        {
            last.1 += first.1;
        }
        // Of equals the first.
        stretches.into_iter().rev().filter(|(_, length)| *length > 0).max_by_key(|(_, length)| *length)
    }

    /// Phases of a schedule of `every_ns` that differ by this meet the same gates, ns.
    pub fn step(&self, every_ns: i64) -> i64 {
        let (mut a, mut b) = (self.cycle_ns, every_ns.max(1));
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    }
}

// The parts of `results.json` that queue disciplines bring.

/// Whether packets left when they should, by gates or launch times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "gates")]
pub struct GateResult {
    /// Traffic class; null where there is none.
    #[schemars(range(max = 15))]
    pub class: Option<u8>,
    /// Who decides when packets leave: `taprio` in software lets a class's packets go while its
    /// gate is open; `txtime-assist` (taprio's launch times, kept by etf) and `etf` release them
    /// `release_before_ns` before their launch time; `etf-deadline` at once, and not after it.
    #[schemars(extend("enum" = ["taprio", "txtime-assist", "etf", "etf-deadline"]))]
    pub keeper: String,
    /// The point at which they are judged.
    pub at: String,
    /// Cycle of the gates, ns; null without gates.
    pub gate_cycle_ns: Option<i64>,
    /// Cycle of the stream, ns.
    pub stream_cycle_ns: i64,
    /// The class's windows in the gates' cycle; without gates, where releases should lie in the
    /// stream's.
    pub windows: Vec<Window>,
    /// How long before the launch time etf hands packets over, ns.
    pub release_before_ns: i64,
    /// A release counts as in time up to so much later than it should be, ns.
    pub tolerance_ns: i64,
    /// Packets that were sent, with the stamps to judge them by.
    pub judged: u64,
    /// Packets that left inside their window.
    pub inside: u64,
    /// Packets that left too early.
    pub early: u64,
    /// Packets that left too late.
    pub late: u64,
    /// Packets that were sent, without the stamps to judge them by.
    pub unjudged: u64,
    /// Packets that were never sent: dropped by a queue discipline, or not handed over. They are
    /// in none of the other counts.
    #[serde(default)]
    pub not_sent: u64,
    /// The farthest outside before, ns; 0 or negative.
    #[schemars(range(max = 0))]
    pub most_early_ns: i64,
    /// The packet that was the farthest outside before; null if none was.
    pub most_early_seq: Option<i64>,
    /// The farthest outside after a window, ns; 0 or positive.
    #[schemars(range(min = 0))]
    pub most_late_ns: i64,
    /// The packet that was the farthest outside after a window; null if none was.
    pub most_late_seq: Option<i64>,
    /// Packets that left in, or nearest to, another window than their own, however well inside it;
    /// without gates, in another cycle of the stream. Null where taprio gives the launch times:
    /// there packets slip as `txtime_delay` asks for.
    #[serde(default)]
    pub slipped: Option<u64>,
    /// Packets by whole cycles of the gates from the window that they belong to until the one by
    /// which they left.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    #[schemars(with = "BTreeMap<String, u64>")]
    pub slips_gate_cycles: BTreeMap<i64, u64>,
    /// Packets by cycles of the stream, the nearest whole number, from the window that they belong
    /// to until the one by which they left.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    #[schemars(with = "BTreeMap<String, u64>")]
    pub slips_stream_cycles: BTreeMap<i64, u64>,
    /// When in a cycle packets came to that point.
    pub phases: PhaseCounts,
}

/// Departures by their phase in a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "phases")]
pub struct PhaseCounts {
    /// Whose cycle: the gates' or the stream's.
    #[schemars(extend("enum" = ["gates", "stream"]))]
    pub cycle: String,
    /// How long the cycle is, ns.
    pub cycle_ns: i64,
    /// Packets in equal parts of the cycle, from its beginning.
    pub counts: Vec<u64>,
}

/// A traffic class: its streams' departures together, and the counters of its queue disciplines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "class")]
pub struct ClassResult {
    /// Its number; null for the root, or where there are no classes.
    #[schemars(range(max = 15))]
    pub class: Option<u8>,
    /// When its gate is open, in the gates' cycle; left out without gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// Kinds of its queue disciplines.
    pub qdiscs: Vec<String>,
    /// Packets that they let pass, anybody's.
    pub packets: u64,
    /// Packets that they dropped.
    pub drops: u64,
    /// Times over their limit; of etf, launch times missed.
    pub overlimits: u64,
    /// Packets of streams that were judged.
    pub judged: u64,
    /// Packets of streams that left inside their window.
    pub inside: u64,
    /// Packets of streams that left too early.
    pub early: u64,
    /// Packets of streams that left too late.
    pub late: u64,
}
