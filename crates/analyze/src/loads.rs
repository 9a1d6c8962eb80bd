// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background loads: from what their sides recorded to the results of a trial, and of a cell.

use std::collections::BTreeMap;
use tardy_model::load::{ExitRecord, InstanceRecord, LoadKind, LoadRecord, Series, SideRecord};
use tardy_model::result::LoadResult;

/// What is added up, over instances and trials.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sum {
    sent_bytes: u64,
    sends: u64,
    /// Datagrams, over the whole time of the load.
    lost: u64,
    received_bytes: u64,
    receives: u64,
    copied_bytes: u64,
    transactions: u64,
    retransmits: Option<u64>,
    timeouts: Option<u64>,
    busy_ns: Option<i64>,
    /// Time of each instance added up, its lead included, ns: `busy_ns` is the clock of its
    /// thread's whole life.
    worked_ns: i64,
    /// Time from the first beginning to the last end, ns.
    span_ns: i64,
    /// The same to the last byte's arrival, ns.
    arrival_span_ns: i64,
    exits: Vec<String>,
}

/// A load over the trials of a cell.
#[derive(Clone, Debug)]
struct Pooled {
    kind: LoadKind,
    sum: Sum,
    instances: Vec<Sum>,
}

/// The loads of a cell, trial by trial.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    loads: BTreeMap<String, Pooled>,
}

impl Loads {
    pub fn add(&mut self, records: &BTreeMap<String, LoadRecord>) {
        for (name, record) in records {
            let pooled = self.loads.entry(name.clone()).or_insert_with(|| Pooled {
                kind: record.kind.clone(),
                sum: Sum::default(),
                instances: vec![Sum::default(); record.instances.len()],
            });
            pooled.sum.merge(&of_all(record));
            let each = record.instances.iter().map(|instance| of_instance(&record.kind, instance));
            pooled.instances.iter_mut().zip(each).for_each(|(sum, more)| sum.merge(&more));
        }
    }

    /// All of them, by name.
    pub fn finish(self) -> BTreeMap<String, LoadResult> {
        let each =
            |(name, pooled): (String, Pooled)| (name, result(&pooled.kind, &pooled.sum, &pooled.instances, None));
        self.loads.into_iter().map(each).collect()
    }
}

/// The loads of one trial.
pub fn of_trial(records: &BTreeMap<String, LoadRecord>) -> BTreeMap<String, LoadResult> {
    let each = |(name, record): (&String, &LoadRecord)| {
        let instances: Vec<Sum> = record.instances.iter().map(|instance| of_instance(&record.kind, instance)).collect();
        (name.clone(), result(&record.kind, &of_all(record), &instances, Some(series(record))))
    };
    records.iter().map(each).collect()
}

/// Bytes over time, all instances: as they arrived where they do.
fn series(record: &LoadRecord) -> Series {
    let mut all = Series::default();
    for instance in &record.instances {
        let side = instance.receiver(&record.kind).unwrap_or(&instance.from);
        all.merge(&side.series);
    }
    all
}

fn of_all(record: &LoadRecord) -> Sum {
    let mut all = Sum::default();
    for instance in &record.instances {
        all.merge(&of_instance(&record.kind, instance));
    }
    let in_trial: Vec<InstanceRecord> = record.instances.iter().map(InstanceRecord::in_trial).collect();
    // Instances work side by side: the time of all is not the sum of theirs.
    let all_spans = |of: fn(&InstanceRecord, &LoadKind) -> Option<(i64, i64)>| {
        let spans = || in_trial.iter().filter_map(|instance| of(instance, &record.kind));
        let (first, last) = (spans().map(|span| span.0).min(), spans().map(|span| span.1).max());
        first.zip(last).map_or(0, |(first, last)| last.saturating_sub(first))
    };
    all.span_ns = all_spans(InstanceRecord::span);
    all.arrival_span_ns = all_spans(InstanceRecord::arrival_span);
    all
}

/// What an instance did in the trial; what was lost is counted over all of it, for what is on its
/// way as the trial begins was sent before and arrives in it. `worked_ns` is its whole time too,
/// for so is `busy_ns`.
fn of_instance(kind: &LoadKind, whole: &InstanceRecord) -> Sum {
    let lost = whole.receiver(kind).map_or(0, |to| whole.sender(kind).sends.saturating_sub(to.receives));
    let instance = &whole.in_trial();
    let sender = instance.sender(kind);
    let length = |span: Option<(i64, i64)>| span.map_or(0, |(began, ended)| ended.saturating_sub(began));
    let both = |of: fn(&SideRecord) -> Option<u64>| {
        instance.sides().filter_map(|(_, side)| of(side)).reduce(|sum, more| sum.saturating_add(more))
    };
    let (received_bytes, receives) =
        instance.receiver(kind).map_or((0, 0), |side| (side.received_bytes, side.receives));
    Sum {
        sent_bytes: sender.sent_bytes,
        sends: sender.sends,
        lost,
        received_bytes,
        receives,
        copied_bytes: instance.from.copied_bytes,
        transactions: instance.from.transactions,
        retransmits: both(|side| side.tcp.map(|tcp| tcp.retransmits)),
        timeouts: both(|side| side.tcp.and_then(|tcp| tcp.timeouts)),
        busy_ns: instance.from.busy_ns,
        worked_ns: length(whole.span(kind)),
        span_ns: length(instance.span(kind)),
        arrival_span_ns: length(instance.arrival_span(kind)),
        exits: instance.sides().filter_map(|(role, side)| Some(exit(role, side.exit.as_ref()?))).collect(),
    }
}

/// How a program ended, in one line.
pub fn exit(role: &str, exit: &ExitRecord) -> String {
    let how = match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "not at all".to_owned(),
    };
    let stopped = if exit.stopped { ", stopped at its end" } else { ", before its stop" };
    format!("{role}: {how}{stopped}")
}

impl Sum {
    fn merge(&mut self, other: &Sum) {
        let add = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        add(&mut self.sent_bytes, other.sent_bytes);
        add(&mut self.sends, other.sends);
        add(&mut self.lost, other.lost);
        add(&mut self.received_bytes, other.received_bytes);
        add(&mut self.receives, other.receives);
        add(&mut self.copied_bytes, other.copied_bytes);
        add(&mut self.transactions, other.transactions);
        let known = |a: &mut Option<u64>, b: Option<u64>| {
            if let Some(b) = b {
                *a = Some(a.unwrap_or(0).saturating_add(b));
            }
        };
        known(&mut self.retransmits, other.retransmits);
        known(&mut self.timeouts, other.timeouts);
        if let Some(busy) = other.busy_ns {
            self.busy_ns = Some(self.busy_ns.unwrap_or(0).saturating_add(busy));
        }
        self.worked_ns = self.worked_ns.saturating_add(other.worked_ns);
        self.span_ns = self.span_ns.saturating_add(other.span_ns);
        self.arrival_span_ns = self.arrival_span_ns.saturating_add(other.arrival_span_ns);
        for exit in &other.exits {
            if !self.exits.contains(exit) {
                self.exits.push(exit.clone());
            }
        }
    }
}

fn per_second(amount: u64, ns: i64) -> f64 {
    if ns > 0 { amount as f64 * 1e9 / ns as f64 } else { 0.0 }
}

fn mean(bytes: u64, calls: u64) -> Option<f64> {
    (calls > 0).then(|| bytes as f64 / calls as f64)
}

fn result(kind: &LoadKind, sum: &Sum, instances: &[Sum], series: Option<Series>) -> LoadResult {
    let count = instances.len().max(1) as u32;
    let mut result = one(kind, sum, count);
    result.series = series.filter(|series| series.every_ns > 0 && series.bytes.iter().any(|bytes| *bytes > 0));
    if instances.len() > 1 {
        result.instances = instances.iter().map(|instance| one(kind, instance, 1)).collect();
    }
    result
}

fn one(kind: &LoadKind, sum: &Sum, count: u32) -> LoadResult {
    let asked = kind.asked();
    let base = LoadResult {
        kind: kind.name().to_owned(),
        count,
        asked_bit_s: asked.bit_s.map(|bits| bits.saturating_mul(u64::from(count))),
        span_ns: sum.span_ns,
        ..LoadResult::default()
    };
    match kind {
        LoadKind::Cpu { .. } => LoadResult {
            asked_duty: asked.duty,
            duty: sum.busy_ns.filter(|_| sum.worked_ns > 0).map(|busy| busy as f64 / sum.worked_ns as f64),
            ..base
        },
        LoadKind::Memory { .. } => {
            LoadResult { copied_bytes_per_s: Some(per_second(sum.copied_bytes, sum.span_ns)), ..base }
        }
        LoadKind::Command { .. } => LoadResult { exits: sum.exits.clone(), ..base },
        _ => {
            let datagrams = matches!(kind, LoadKind::UdpFlood { .. } | LoadKind::Camera { .. });
            let rr = matches!(kind, LoadKind::TcpRr { .. });
            LoadResult {
                achieved_bit_s: per_second(sum.received_bytes.saturating_mul(8), sum.arrival_span_ns),
                bytes: sum.received_bytes,
                sent_bit_s: Some(per_second(sum.sent_bytes.saturating_mul(8), sum.span_ns)),
                sent_bytes: Some(sum.sent_bytes),
                sends: Some(sum.sends),
                bytes_a_send: mean(sum.sent_bytes, sum.sends),
                receives: Some(sum.receives),
                bytes_a_receive: mean(sum.received_bytes, sum.receives),
                lost: datagrams.then_some(sum.lost),
                retransmits: sum.retransmits,
                timeouts: sum.timeouts,
                transactions_per_s: rr.then(|| per_second(sum.transactions, sum.span_ns)),
                ..base
            }
        }
    }
}
