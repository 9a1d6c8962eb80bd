// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles that no ruler can tell apart, or that the sender cannot keep by the kernel's own rule.
//! Only what is the same on every machine is known before the run: docs/method/ruler.md.

use super::foreseen::{Foreseen, Machine};
use tardy_analyze::ruler::GRAIN_NS;
use tardy_model::stream::{Policy, Stream};
use tardy_model::time::Nanos;
use tardy_model::verdict::Level;
use tardy_spec::experiment::{Cell, Experiment};
use tardy_spec::schema::show_duration;

/// How late the kernel may end a sleep of a thread under policy `other`, unless somebody set
/// another timer slack, ns.
const SLACK_NS: i64 = 50_000;

pub(super) fn of(_: &Experiment, cell: &Cell, _: &Machine) -> Vec<Foreseen> {
    let timed = |stream: &&Stream| stream.kind.is_scheduled() && !stream.port.traits().is_simulated;
    cell.setup.streams.iter().filter(timed).filter_map(one).collect()
}

fn one(stream: &Stream) -> Option<Foreseen> {
    let (cycle, key) = (show_duration(stream.cycle), format!("stream.{}.cycle", stream.name));
    if stream.cycle.0 < GRAIN_NS {
        let grain = show_duration(Nanos(GRAIN_NS));
        let why = format!(
            "packets {cycle} apart cannot be told from each other: reading the clock and returning from a call take about {grain} \
             (docs/method/ruler.md), and no sender keeps such a rate"
        );
        return Some(Foreseen::new(Level::Warning, key, why, format!("write a cycle well above \"{grain}\"")));
    }
    let awake = stream.tx.spin.0 >= stream.cycle.0 || stream.tx.spin.0 > SLACK_NS;
    // Packets with launch times wait for theirs in the queue discipline.
    if stream.tx.policy == Policy::Other && stream.cycle.0 <= SLACK_NS && !awake && !stream.launch.is_some() {
        let slack = show_duration(Nanos(SLACK_NS));
        let why = format!(
            "the kernel may wake a sender under policy other {slack} late, its timer slack, which is no less than the cycle of {cycle}: \
             packets of several cycles leave at once, and scheduled..wakeup tells of the slack (docs/method/schedule.md)"
        );
        let help = format!("write tx.policy = \"fifo:90\", tx.spin = \"{cycle}\", or a cycle well above \"{slack}\"");
        return Some(Foreseen::new(Level::Warning, key, why, help));
    }
    None
}
