// SPDX-License-Identifier: MIT OR Apache-2.0
//! The samples as CSV: one row per intended packet of every finished trial, every metric between
//! two points that have a source anywhere in the run, and `delta`. Quoted by RFC 4180, lines ended
//! by LF; times are whole ns; what is absent is empty. Metrics are named as in the files' own
//! columns and in the SQL view of `tardy schema samples`. Where something decides when packets are
//! to leave, five columns more tell it of each packet. What XDP programs left before packets comes
//! last, where any trial has that.

use super::source::{ExportError, Source};
use crate::csv::quoted;
use std::collections::BTreeSet;
use std::io::Write;
use tardy_analyze::gates::GatePass;
use tardy_model::point::{Metric, Point};
use tardy_model::sample::{Batch, Flags};
use tardy_model::xdp::{HINT, Hints};
use tardy_store::{StoreError, TrialId};

/// Of each packet: the window that it belongs to, how far outside it left, its slip. How:
/// `docs/method/gates.md`.
const GATES: [&str; 5] =
    ["window_opens_ns", "window_closes_ns", "outside_ns", "slip_gate_cycles", "slip_stream_cycles"];

pub(super) fn write(source: &Source<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    let trials = source.run.trials()?;
    let columns = Columns::of(source, &trials)?;
    columns.write_head(out)?;
    let mut left_out = 0;
    for trial in &trials {
        let in_figures = source.in_figures(trial);
        left_out += u32::from(!in_figures);
        for (stream, record) in &source.run.record(&trial.cell, trial.n)?.streams {
            let head = format!("{},{},{in_figures},{}", quoted(&trial.cell), trial.n, quoted(stream));
            let mut pass = GatePass::new(record);
            let mut hints =
                columns.members.as_ref().map(|members| HintRows::of(source, trial, stream, members)).transpose()?;
            source.packets(trial, stream, record, |batch, row, delta| {
                line(out, &head, batch, row, &columns.spans, delta)?;
                if columns.gated {
                    departure(out, pass.as_mut(), batch, row)?;
                }
                if let Some(hints) = &mut hints {
                    hints.next(out)?;
                }
                Ok(writeln!(out)?)
            })?;
        }
    }
    Ok(match left_out {
        0 => Vec::new(),
        n => vec![format!("{n} of {} trials are in no figure: their rows have in_figures = false", trials.len())],
    })
}

/// The columns after the fixed ones.
struct Columns {
    spans: Vec<Metric>,
    /// Something decides when packets of some stream are to leave.
    gated: bool,
    /// The columns of hints, where any trial has some.
    members: Option<Vec<String>>,
}

impl Columns {
    fn of(source: &Source<'_>, trials: &[TrialId]) -> Result<Columns, ExportError> {
        // The head needs all points, so the records are read before the first row.
        let mut points = BTreeSet::from([Point::Scheduled]);
        let mut gated = false;
        let mut members: Option<Vec<String>> = None;
        for trial in trials {
            let record = source.run.record(&trial.cell, trial.n)?;
            points.extend(record.streams.values().flat_map(|stream| stream.sources.keys().copied()));
            if let Some(columns) = source.run.samples(&trial.cell, trial.n)?.hint_columns() {
                let members = members.get_or_insert_default();
                for name in columns {
                    if !members.contains(&name) {
                        members.push(name);
                    }
                }
            }
            gated |= record.streams.values().any(|stream| GatePass::new(stream).is_some());
        }
        let mut spans: Vec<Metric> =
            points.iter().flat_map(|from| points.range(*from..).skip(1).map(|to| Metric::Span(*from, *to))).collect();
        if Metric::Transit.points().iter().all(|point| points.contains(point)) {
            spans.push(Metric::Transit);
        }
        Ok(Columns { spans, gated, members })
    }

    fn write_head(&self, out: &mut dyn Write) -> std::io::Result<()> {
        write!(out, "cell,trial,in_figures,stream,seq,scheduled_ns,outcome,flags,pcp")?;
        for metric in self.spans.iter().chain([&Metric::Delta]) {
            write!(out, ",{metric}")?;
        }
        for name in GATES.iter().filter(|_| self.gated) {
            write!(out, ",{name}")?;
        }
        if let Some(members) = &self.members {
            write!(out, ",{HINT}")?;
            members.iter().try_for_each(|name| write!(out, ",{}", quoted(name)))?;
        }
        writeln!(out)
    }
}

fn line(
    out: &mut dyn Write,
    head: &str,
    batch: &Batch,
    row: usize,
    spans: &[Metric],
    delta: Option<i64>,
) -> std::io::Result<()> {
    write!(out, "{head},{},{},{},", batch.seq[row], batch.scheduled_ns[row], batch.outcome[row].name())?;
    let mut between = "";
    for (flag, name) in Flags::NAMES {
        if batch.flags[row].has(flag) {
            write!(out, "{between}{name}")?;
            between = " ";
        }
    }
    cell(out, batch.pcp.get(row).copied().flatten().map(i64::from))?;
    for metric in spans {
        cell(out, batch.span_ns(row, *metric))?;
    }
    cell(out, delta)
}

/// The columns of [`GATES`]; empty for a stream of which nothing decides when its packets leave.
fn departure(out: &mut dyn Write, pass: Option<&mut GatePass>, batch: &Batch, row: usize) -> std::io::Result<()> {
    let mut values = [None; GATES.len()];
    if let Some(pass) = pass {
        let window = pass.window(batch.scheduled_ns[row]);
        let found = pass.departure(batch, row).map(|(_, departure)| (departure, pass.slip_cycles(departure)));
        values = [
            window.map(|window| window.open_ns),
            window.map(|window| window.close_ns),
            found.map(|(departure, _)| departure.outside_ns),
            found.and_then(|(_, (_, of_gates))| of_gates),
            found.map(|(_, (of_stream, _))| of_stream),
        ];
    }
    values.into_iter().try_for_each(|value| cell(out, value))
}

/// What was left before the packets of a stream in a trial, row by row, in these columns.
struct HintRows<'a> {
    members: &'a [String],
    /// Nothing if the trial's file has no hints.
    pages: Option<Box<dyn Iterator<Item = Result<Hints, StoreError>>>>,
    page: Hints,
    /// The page's column of each member.
    places: Vec<Option<usize>>,
    row: usize,
}

impl<'a> HintRows<'a> {
    fn of(source: &Source<'_>, trial: &TrialId, stream: &str, members: &'a [String]) -> Result<Self, ExportError> {
        let pages = source.run.samples(&trial.cell, trial.n)?.hints(stream)?;
        let pages = pages.map(|pages| Box::new(pages) as Box<dyn Iterator<Item = Result<Hints, StoreError>>>);
        Ok(HintRows { members, pages, page: Hints::default(), places: vec![None; members.len()], row: 0 })
    }

    /// Writes the columns of the next row.
    fn next(&mut self, out: &mut dyn Write) -> Result<(), ExportError> {
        if self.row >= self.page.of.len()
            && let Some(page) = self.pages.as_mut().and_then(Iterator::next)
        {
            (self.page, self.row) = (page?, 0);
            let place = |name: &String| self.page.columns.iter().position(|column| column.name == *name);
            self.places = self.members.iter().map(place).collect();
        }
        write!(out, ",{}", quoted(self.page.name(self.row).unwrap_or_default()))?;
        for place in &self.places {
            let column = place.and_then(|place| self.page.columns.get(place));
            let value = column.and_then(|column| Some((column.is_signed, (*column.values.get(self.row)?)?)));
            match value {
                Some((true, value)) => write!(out, ",{value}")?,
                Some((false, value)) => write!(out, ",{}", value as u64)?,
                None => write!(out, ",")?,
            }
        }
        self.row += 1;
        Ok(())
    }
}

fn cell(out: &mut dyn Write, value: Option<i64>) -> std::io::Result<()> {
    match value {
        Some(value) => write!(out, ",{value}"),
        None => write!(out, ","),
    }
}
