// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst packets of a run, for a terminal: which they are, when they were due, and where each
//! of them lost its time.

use crate::closing;
use crate::column::{in_unit, lead, title, unit};
use crate::figure::{self, SPACE};
use crate::picture::Picture;
use std::collections::BTreeMap;
use tardy_analyze::worst::WorstPacket;
use tardy_model::point::{Metric, Point};
use tardy_model::result::CellResult;
use tardy_model::validity::{CLOCK_BOUND, RuleLimit};

const GAP: usize = 2;

/// The worst packets of a stream in a cell.
pub struct WorstOf<'a> {
    pub cell: &'a CellResult,
    pub stream: &'a str,
    /// The metric that they are the worst of.
    pub metric: &'a str,
    /// Packets that were received and have a value of it.
    pub values: u64,
    /// Packets that never arrived or were never sent.
    pub missing: u64,
    /// The packets, the worst first.
    pub packets: Vec<WorstPacket>,
    /// By how much a stage of a trial may be wrong, ns, where two clocks took its
    /// stamps.
    pub bounds: BTreeMap<(u32, Metric), i64>,
}

impl WorstOf<'_> {
    /// The points that end a stage of a packet whose bound is more than `limit` of it.
    fn refused<'p>(&'p self, packet: &'p WorstPacket, limit: f64) -> impl Iterator<Item = Point> + 'p {
        let is_refused = move |(stage, ns): &(Metric, i64)| {
            let bound = self.bounds.get(&(packet.trial, *stage));
            bound.is_some_and(|bound| *bound as f64 > limit * ns.unsigned_abs() as f64)
        };
        packet.spans().filter(is_refused).filter_map(|(stage, _)| stage.points().last().copied())
    }
}

/// The metric that leads of a stream of a cell; `None` if it has no figures.
pub fn leading<'a>(cell: &'a CellResult, stream: &str) -> Option<&'a str> {
    lead(cell.streams.get(stream)?)
}

/// The tables, each below what it is of.
pub fn draw(picture: &Picture<'_>, all: &[WorstOf<'_>]) -> String {
    let results = picture.results;
    let limit = results.validity.share(CLOCK_BOUND);
    let mut out = format!("{}   {}   {}\n", results.name, closing::state(results), closing::says(picture));
    for of in all {
        out += "\n";
        out += &heading(of);
        if of.missing > 0 {
            let missing = figure::count(of.missing, SPACE);
            out += &format!("  {missing} more never arrived or were never sent: each is worse than any of these\n");
        }
        if !of.packets.is_empty() {
            out += &table(of, limit);
        }
    }
    if all.iter().any(|of| !of.packets.is_empty()) {
        out += "\nat: when the packet was due in its trial; in a ping-pong, when the request went out. Behind the value:\n\
                how long each stage took, named by the point that ends it; the first one counts from that instant.\n";
    }
    if all.iter().any(|of| of.packets.iter().any(|packet| of.refused(packet, limit).next().is_some())) {
        let limit = RuleLimit::Share(limit);
        out += &format!("–: no stamp there, or a stage between two clocks whose bound is more than {limit} of it.\n");
    }
    out
}

fn heading(of: &WorstOf<'_>) -> String {
    let valid = match (of.cell.valid, &of.cell.not_available) {
        (true, _) => "",
        (false, None) => "   not valid",
        (false, Some(_)) => "   not available",
    };
    let packets = figure::count(of.values, SPACE);
    let many = of.packets.len();
    let is_copy = of.cell.streams.get(of.stream).is_some_and(|stream| stream.copy.is_some());
    let what = if is_copy { "passes" } else { "packets" };
    format!("{}   {}   {}: the {many} worst of {packets} {what}{valid}\n", title(&of.cell.id), of.stream, of.metric)
}

fn table(of: &WorstOf<'_>, limit: f64) -> String {
    let metrics = of.cell.streams.get(of.stream).and_then(|stream| stream.metrics.get_key_value(of.metric));
    let unit = unit(metrics.into_iter().map(|(name, metric)| (name.as_str(), metric)));
    let has = |point: &Point| of.packets.iter().any(|packet| packet.stages.iter().any(|(at, _)| at == point));
    let points: Vec<Point> = Point::ALL.into_iter().filter(has).collect();
    let all = in_unit(&of.cell.fingerprint, unit);
    let mut rows: Vec<Vec<String>> = vec![["packet", "trial", "at", unit.sign()].map(str::to_owned).to_vec()];
    rows[0].extend(points.iter().map(|point| point.name().to_owned()));
    for packet in &of.packets {
        let seq = figure::grouped(&packet.seq.to_string(), SPACE);
        let at = format!("{:.3} s", packet.at_ns as f64 / 1e9);
        let refused: Vec<Point> = of.refused(packet, limit).collect();
        let shown = packet.stages.iter().filter(|(at, _)| !refused.contains(at)).map(|(_, ns)| *ns);
        let digits = all.row(shown.chain([packet.value_ns]));
        let show = |ns: i64| figure::grouped(&digits.fixed(ns), SPACE);
        let mut row = vec![format!("#{seq}"), packet.trial.to_string(), at, show(packet.value_ns)];
        let stage = |point: &Point| {
            let found = packet.stages.iter().find(|(at, _)| at == point && !refused.contains(at));
            found.map(|(_, ns)| show(*ns))
        };
        row.extend(points.iter().map(|point| stage(point).unwrap_or_else(|| figure::ABSENT.to_owned())));
        rows.push(row);
    }
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0) + GAP).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(text, width)| format!("{text:>width$}"));
        cells.collect::<String>() + "\n"
    };
    rows.iter().map(line).collect()
}
