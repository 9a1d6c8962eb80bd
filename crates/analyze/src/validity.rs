// SPDX-License-Identifier: MIT OR Apache-2.0
//! May a trial's numbers be used at all? Each rule looks at the measured evidence and says nothing
//! when all is well.
//!
//! A rule is a constant in a file here and a line in [`RULES`]. Small rules of one subject share a
//! file. A trial is valid if no verdict is
//! [`Level::Invalid`](tardy_model::verdict::Level::Invalid). What made it invalid decides whether
//! it may be left out of its cell: [`Spoils`]. What the rules look at is [`Evidence`]; the
//! questions that several of them ask are its methods.

mod broken;
mod copies;
pub(crate) mod cpu_use;
mod cpus;
mod flows;
mod launching;
mod load;
mod packets;
mod rt_bandwidth;
mod rules;
pub(crate) mod shared_cpu;
pub(crate) mod stamps;
mod steered;

use crate::arrival::delta_of;
use crate::outcomes::{Bursts, CoverageByBurst};
pub use broken::{found, unstamped};
pub use rules::{RULES, is_valid, judge_trial, path_failed, was_measured_well};
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::machine::{CpuTimes, MachineState};
use tardy_model::placement::ThreadRecord;
use tardy_model::point::{Metric, Point};
use tardy_model::result::StreamResult;
use tardy_model::time::ClockReading;
use tardy_model::trial::{Counters, SpinGaps, StreamRecord, TagRecord, TrialRecord};
use tardy_model::validity::Validity;
use tardy_model::verdict::{Level, Verdict};

/// What a rule's [`Level::Invalid`](tardy_model::verdict::Level::Invalid) says of the trial.
/// Losing the worst must not improve a figure, so a trial is left out for how it was measured,
/// never for what was found in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoils {
    /// The measuring is spoilt: clocks, stamps, the recorder, the threads' policy or CPU time.
    /// What the trial found is not the path's doing, so it may be left out where a strict majority
    /// of the trials is sound.
    Measuring,
    /// The path or the load did it: packets were lost or refused, or the rate was not kept. That
    /// is the finding itself: the trial stays in the pool, and the cell is invalid.
    Path,
    /// The one or the other, which each verdict says in its evidence: [`SPOILS`] is `measuring` or
    /// `path`.
    Told,
}

/// The figure by which a verdict of a rule that is [`Spoils::Told`] says what it spoils.
const SPOILS: &str = "spoils";

/// A rule: its id, which its verdicts have, and how it judges.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The verdicts' id; stable.
    pub id: &'static str,
    /// What its invalidating verdicts say of the trial. Without meaning for a rule that only notes
    /// or warns.
    pub spoils: Spoils,
    pub judge: fn(&Evidence<'_>) -> Vec<Verdict>,
}

// What the rules look at, and the questions that several of them ask of it.

/// What the rules judge one trial by.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub record: &'a TrialRecord,
    /// Outcomes and metrics of this trial, by stream.
    pub results: &'a BTreeMap<String, StreamResult>,
    /// Missing stamps, by stream.
    pub coverage: &'a BTreeMap<String, CoverageByBurst>,
    /// What the experiment set of the rules.
    pub settings: &'a Validity,
    /// It ran in exact time: no stranger's process runs there, and the hypervisor is the guest.
    pub exact: bool,
}

/// `/proc/stat` counts in ticks of 10 ms, and each of its figures may be off by one: up to so much
/// is noise, ns.
const TICKS_NS: i64 = 30_000_000;

/// One way of a stream's packets: there, or back.
#[derive(Clone, Debug)]
struct Way<'a> {
    pub stream: &'a str,
    /// `ctl`, or `ctl (replies)`.
    pub name: String,
    pub counters: &'a Counters,
    /// Size of the sender's error queue.
    pub queue_bytes: u64,
    /// Tags that arrived, where the port sees them.
    pub tags: Option<&'a TagRecord>,
}

/// One of the measuring threads.
#[derive(Clone, Copy, Debug)]
struct Thread<'a> {
    pub stream: &'a str,
    /// `tx`, `rx` or `reply`; of a copying thread `thread`.
    pub end: &'static str,
    /// Of a copying thread, its number.
    pub number: Option<usize>,
    pub record: &'a ThreadRecord,
    pub of: &'a StreamRecord,
}

impl<'a> Thread<'a> {
    /// The host that it ran on.
    pub fn host(&self) -> TrialHost<'a> {
        let offsets = &self.of.offsets;
        let offset = if self.end == "rx" { &offsets.rx } else { &offsets.tx };
        TrialHost::called(offset.as_ref().map(|offset| offset.host.as_str()))
    }

    pub fn name(&self) -> String {
        match self.number {
            Some(number) => format!("{}.{number}", self.stream),
            None => format!("{}.{}", self.stream, self.end),
        }
    }

    /// Gaps it saw in its own loop, if it spins.
    pub fn gaps(&self) -> Option<SpinGaps> {
        let waits_for_replies = || self.of.reply.as_ref().and_then(|reply| reply.spin_gaps);
        match self.end {
            "rx" => self.of.spin_gaps,
            "reply" => waits_for_replies(),
            // The end that asks spins while it waits for replies, if no other thread does.
            // How long its passes were stopped, the rule about copies looks at.
            "thread" => None,
            _ if self.of.reply.as_ref().is_some_and(|reply| reply.thread.is_none()) => waits_for_replies(),
            _ => self.of.tx_spin_gaps,
        }
    }

    /// True if ordinary tasks do not run while it wants to.
    pub fn is_realtime(&self) -> bool {
        ["fifo", "rr", "deadline"].iter().any(|class| self.record.policy_granted.starts_with(class))
    }

    /// CPUs on which it was seen; where it was not looked at, those it may use if it is pinned.
    pub fn cpus(&self) -> BTreeSet<TrialCpu<'a>> {
        let host = self.host();
        if !self.record.cpus_seen.is_empty() {
            return self.record.cpus_seen.iter().map(|cpu| host.cpu(*cpu)).collect();
        }
        match self.record.affinity.as_slice() {
            [one] => BTreeSet::from([host.cpu(*one)]),
            _ => self.record.cpu_asked.map(|cpu| host.cpu(cpu)).into_iter().collect(),
        }
    }
}

impl<'a> Evidence<'a> {
    /// The threads of all hosts.
    fn threads(&self) -> impl Iterator<Item = Thread<'a>> + use<'a> {
        self.record.streams.iter().flat_map(|(stream, of)| {
            let reply = of.reply.as_ref().and_then(|reply| reply.thread.as_ref()).map(|record| ("reply", record));
            let ends = [("tx", &of.tx), ("rx", &of.rx)].into_iter().chain(reply).filter(|_| of.copy.is_none());
            let ends = ends.map(move |(end, record)| Thread { stream, end, number: None, record, of });
            let copying = of.copy.iter().flat_map(|copy| copy.threads.iter().enumerate());
            let copying = copying.map(move |(number, copying)| Thread {
                stream,
                end: "thread",
                number: Some(number),
                record: &copying.thread,
                of,
            });
            ends.chain(copying)
        })
    }

    /// The threads that ran on a host.
    fn threads_on<'h>(&self, host: TrialHost<'h>) -> impl Iterator<Item = Thread<'a>> + use<'a, 'h> {
        self.threads().filter(move |thread| thread.host() == host)
    }

    /// The threads that ran on a CPU, or may have.
    fn threads_at<'h>(&self, cpu: TrialCpu<'h>) -> impl Iterator<Item = Thread<'a>> + use<'a, 'h> {
        self.threads().filter(move |thread| thread.cpus().contains(&cpu))
    }

    /// All hosts of which the record says something, the coordinator's first.
    fn hosts(&self) -> BTreeSet<TrialHost<'a>> {
        let read = self.record.hosts.keys().map(|name| TrialHost::Other(name));
        let of_loads = self.record.loads.values().flat_map(|load| [&load.hosts.from, &load.hosts.to]);
        let of_loads = of_loads.map(|host| TrialHost::called(host.as_deref()));
        let of_threads = self.threads().map(|thread| thread.host());
        [TrialHost::Here].into_iter().chain(read).chain(of_loads).chain(of_threads).collect()
    }

    /// What a rule that looks at a machine finds on each host, by itself. What it finds on another
    /// host says on which.
    fn each_host(&self, judge: fn(&Evidence<'_>, TrialHost<'_>) -> Vec<Verdict>) -> Vec<Verdict> {
        let of = |host: TrialHost<'_>| {
            let found = judge(self, host);
            let Some(name) = host.name() else { return found };
            let said = found.into_iter().map(|verdict| {
                let says = format!("on {name}: {}", verdict.says);
                Verdict { says, ..verdict }.with("host", name)
            });
            said.collect()
        };
        self.hosts().into_iter().flat_map(of).collect()
    }

    /// The states of a host before the trial and after it; `None` if nobody read them.
    fn states(&self, host: TrialHost<'_>) -> Option<[&'a MachineState; 2]> {
        host.states(self.record)
    }

    /// What reads clocks in a trial, each machine and each end of a stream, with its readings
    /// before the trial and behind it.
    fn clocks(&self) -> impl Iterator<Item = (String, [ClockReading; 2])> + use<'a> {
        let record = self.record;
        let here = ("machine".to_owned(), [record.before.clocks, record.after.clocks]);
        let hosts = record.hosts.iter().map(|(host, [before, after])| (host.clone(), [before.clocks, after.clocks]));
        let ends = record
            .streams
            .iter()
            .flat_map(|(stream, of)| [(format!("{stream}.tx"), of.tx_clocks), (format!("{stream}.rx"), of.rx_clocks)]);
        std::iter::once(here).chain(hosts).chain(ends)
    }

    /// The ways of every stream's packets.
    fn ways(&self) -> impl Iterator<Item = Way<'a>> + use<'a> {
        self.record.streams.iter().flat_map(|(stream, of)| {
            let there = Way {
                stream,
                name: stream.clone(),
                counters: &of.counters,
                queue_bytes: of.error_queue_bytes,
                tags: of.tags.as_ref(),
            };
            let back = of.reply.as_ref().map(|reply| Way {
                stream,
                name: format!("{stream} (replies)"),
                counters: &reply.counters,
                queue_bytes: reply.error_queue_bytes,
                tags: reply.tags.as_ref(),
            });
            [there].into_iter().chain(back)
        })
    }

    /// CPUs of a host on which a measuring thread was seen.
    fn cpus(&self, host: TrialHost<'_>) -> BTreeSet<TrialCpu<'a>> {
        self.threads_on(host).flat_map(|thread| thread.cpus()).collect()
    }

    /// True if something broke during the trial, which `failed` records: what became of the packets
    /// and their stamps is then not known, and nothing else may be concluded from their lack.
    fn broke_off(&self) -> bool {
        self.record.failed.is_some()
    }

    /// What one CPU did between the two readings of its host's state; `None` if one of them lacks
    /// it.
    fn cpu(&self, at: TrialCpu<'_>) -> Option<CpuTimes> {
        let [before, after] = self.states(at.host)?;
        let (before, after) = (before.cpus.get(&at.cpu)?, after.cpus.get(&at.cpu)?);
        Some(CpuTimes {
            busy_ns: after.busy_ns.saturating_sub(before.busy_ns),
            idle_ns: after.idle_ns.saturating_sub(before.idle_ns),
            steal_ns: after.steal_ns.saturating_sub(before.steal_ns),
            irq_ns: after.irq_ns.saturating_sub(before.irq_ns),
            softirq_ns: after.softirq_ns.saturating_sub(before.softirq_ns),
        })
    }

    /// How severe a lack of stamps of a point is, and the words for it: it spoils the figures that
    /// are made of them. If there are no such figures, it spoils nothing.
    fn lack(&self, stream: &str, point: Point) -> (Level, &'static str) {
        let of = |result: &StreamResult| {
            let delta_of = self.record.streams.get(stream).map(delta_of);
            let of_metrics =
                result.metrics.keys().filter_map(|name| name.parse::<Metric>().ok()).any(|metric| {
                    metric.points().contains(&point) || (metric == Metric::Delta && delta_of == Some(point))
                });
            of_metrics || result.gates.as_ref().is_some_and(|gates| gates.at == point.name())
        };
        let is_scheduled = self.record.streams.get(stream).is_some_and(|record| record.cycle_ns > 0);
        match self.results.get(stream).is_none_or(of) {
            true => (Level::Invalid, ""),
            // Without it the later stamp of the application is used instead.
            false if is_scheduled && [Point::RxKernel, Point::ReplyRxKernel].contains(&point) => {
                (Level::Warning, "; tardy uses it to decide whether a packet was early")
            }
            false => (Level::Note, "; no figure is made of it"),
        }
    }

    /// The missing stamps of every point of every stream.
    fn bursts(&self) -> impl Iterator<Item = (&'a str, Point, &'a Bursts)> + use<'a> {
        self.coverage
            .iter()
            .flat_map(|(stream, coverage)| coverage.points.iter().map(move |(point, b)| (stream.as_str(), *point, b)))
    }
}

// The hosts of a trial and their CPUs, as its record calls them. CPU 1 of one host is not CPU 1 of
// another, so whoever asks about a CPU says of which host.

/// A host of a trial. The coordinator's comes first in every order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrialHost<'a> {
    /// The host that the coordinator runs on.
    Here,
    /// Another one, by its name.
    Other(&'a str),
}

/// A CPU of a host of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrialCpu<'a> {
    pub host: TrialHost<'a>,
    pub cpu: u32,
}

impl<'a> TrialHost<'a> {
    /// The host that a record calls so; one without a name is the coordinator's.
    pub fn called(name: Option<&'a str>) -> TrialHost<'a> {
        name.map_or(TrialHost::Here, TrialHost::Other)
    }

    /// Its name in records; `None` for the coordinator's.
    pub fn name(self) -> Option<&'a str> {
        match self {
            TrialHost::Here => None,
            TrialHost::Other(name) => Some(name),
        }
    }

    /// Its CPU of this number.
    pub fn cpu(self, cpu: u32) -> TrialCpu<'a> {
        TrialCpu { host: self, cpu }
    }

    /// Its states before the trial and after it. `None` if nobody read them: nothing is known of
    /// such a host then, and no other host's state may be used in its place.
    pub fn states(self, record: &TrialRecord) -> Option<[&MachineState; 2]> {
        match self {
            TrialHost::Here => Some([&record.before, &record.after]),
            TrialHost::Other(name) => record.hosts.get(name).map(|[before, after]| [before, after]),
        }
    }
}
