// SPDX-License-Identifier: MIT OR Apache-2.0
//! One HdrHistogram log of the whole run: a line per trial and metric, `CELL/STREAM/METRIC` the
//! tag, so that a tag's lines add up to the cell's figures and a range of time picks trials. Five
//! significant digits, made from the samples anew.
//!
//! A histogram holds neither infinity nor values below 0. A packet that was lost or not sent is
//! counted at an hour, as it is +infinity in the results, so that every percentile has the same
//! rank; where there are such, `…/received` holds the others alone. A negative value is counted at
//! 0. Comments, and the notes that come back, say how many.

use super::source::{ExportError, Source};
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;
use tardy_analyze::arrival::delta_of;
use tardy_analyze::cell::pooled;
use tardy_model::point::Metric;
use tardy_model::result::CellResult;
use tardy_model::sample::{Batch, Outcome};
use tardy_model::trial::{StreamRecord, TrialRecord};
use tardy_store::TrialId;
use tardy_store::hlog::{GREATEST_NS, Log, Values};

const ABOUT: [&str; 3] = [
    "tardy: values in ns, 5 significant digits; a line per trial and metric, the tag is CELL/STREAM/METRIC (`,` of a cell as `+`)",
    "tardy: the lines of a tag add up to the cell's figures; 3600000000000 ns stand for a packet that was lost or not sent",
    "tardy: CELL/STREAM/METRIC/received, where there is one: without those; a negative value is counted at 0",
];

/// What a histogram cannot hold.
#[derive(Default)]
struct Bent {
    never: u64,
    negative: u64,
    beyond: u64,
}

pub(super) fn write(source: &Source<'_>, mut out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    let mut bent = Bent::default();
    let trials: Vec<(&CellResult, TrialId)> = source
        .results
        .cells
        .iter()
        .flat_map(|cell| pooled(cell).map(move |trial| (cell, TrialId { cell: cell.id.clone(), n: trial.n })))
        .collect();
    let mut first = None;
    for (_, id) in &trials {
        let base = source.run.record(&id.cell, id.n)?.base_tai_ns;
        first = Some(first.map_or(base, |first: i64| first.min(base)));
    }
    let first = first.unwrap_or(0);
    let about: Vec<&str> = ABOUT.to_vec();
    tardy_store::hlog::write(&mut out, &about, source.started, |log| {
        for cell in &source.results.cells {
            let left: Vec<String> = cell
                .trials
                .iter()
                .filter(|trial| !pooled(cell).any(|pooled| pooled.n == trial.n))
                .map(|trial| trial.n.to_string())
                .collect();
            if !left.is_empty() {
                log.comment(&format!("{}: not in the figures and not here: trial {}", cell.id, left.join(", ")))?;
            }
        }
        for (cell, id) in &trials {
            let record = &source.run.record(&id.cell, id.n)?;
            let start = Duration::from_nanos(u64::try_from(record.base_tai_ns.saturating_sub(first)).unwrap_or(0));
            for (stream, of) in &record.streams {
                let place = Place { cell, id, record, stream, of, start };
                place.write(source, log, &mut bent)?;
            }
        }
        Ok::<(), ExportError>(())
    })?;
    Ok(bent.notes())
}

impl Bent {
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.never > 0 {
            notes.push(format!(
                "{} packets were lost or not sent: each is counted at 3600 s (+infinity) in its metrics; tags that end in \
                 /received are without them",
                self.never
            ));
        }
        if self.negative > 0 {
            notes.push(format!(
                "{} values are below 0, which an HdrHistogram cannot hold: counted at 0; the comments name the metrics",
                self.negative
            ));
        }
        if self.beyond > 0 {
            notes.push(format!("{} values are above 3600 s: counted there", self.beyond));
        }
        notes
    }
}

/// A stream of a trial.
struct Place<'a> {
    cell: &'a CellResult,
    id: &'a TrialId,
    record: &'a TrialRecord,
    stream: &'a str,
    of: &'a StreamRecord,
    start: Duration,
}

/// A metric of it.
struct Counted {
    all: Values,
    /// Only once they differ: with its five digits a histogram has 27 MiB.
    received: Option<Values>,
    beyond: u64,
}

impl Counted {
    fn never(&mut self) {
        self.received.get_or_insert_with(|| self.all.clone());
        self.all.record(GREATEST_NS);
    }

    fn value(&mut self, value: i64) {
        self.all.record(value);
        if let Some(received) = &mut self.received {
            received.record(value);
        }
        self.beyond += u64::from(value > GREATEST_NS);
    }

    fn received(&self) -> &Values {
        self.received.as_ref().unwrap_or(&self.all)
    }
}

impl Place<'_> {
    /// Metric by metric, though the samples are read anew for each: with its five digits a
    /// histogram has 27 MiB, and a stream may have a hundred metrics.
    fn write<W: Write>(&self, source: &Source<'_>, log: &mut Log<'_, W>, bent: &mut Bent) -> Result<(), ExportError> {
        let all = self.cell.streams.get(self.stream).into_iter().flat_map(|stream| &stream.metrics);
        let names = all.filter(|(_, metric)| metric.refused_by.is_none()).map(|(name, _)| name);
        // A metric of a later version has no values here. In the order of metrics, not of names.
        let metrics: BTreeSet<Metric> = names.filter_map(|name| name.parse().ok()).collect();
        let mut lost = 0;
        for metric in metrics {
            let (counted, never) = self.count(source, metric)?;
            self.tell(log, bent, metric, &counted, never)?;
            lost = lost.max(never);
        }
        bent.never += lost;
        Ok(())
    }

    /// The values of a metric, and how many packets never arrived.
    fn count(&self, source: &Source<'_>, metric: Metric) -> Result<(Counted, u64), ExportError> {
        let mut counted = Counted { all: Values::new()?, received: None, beyond: 0 };
        let mut never = 0;
        let mut add = |batch: &Batch, row: usize, value: Option<i64>| {
            let received = batch.outcome[row] == Outcome::Received;
            never += u64::from(!received);
            // A request may have come whose reply did not.
            let has_come = metric == Metric::Delta && batch.has_arrived(row, delta_of(self.of));
            match received || has_come {
                true => value.into_iter().for_each(|value| counted.value(value)),
                false => counted.never(),
            }
        };
        if metric == Metric::Delta {
            source.packets(self.id, self.stream, self.of, |batch, row, delta| {
                add(batch, row, delta);
                Ok(())
            })?;
        } else {
            let mut batch = Batch::default();
            let mut batches = source.run.batches(&self.id.cell, self.id.n, self.stream)?;
            while batches.read(&mut batch)? {
                (0..batch.len()).for_each(|row| add(&batch, row, batch.span_ns(row, metric)));
            }
        }
        Ok((counted, never))
    }

    fn tell<W: Write>(
        &self,
        log: &mut Log<'_, W>,
        bent: &mut Bent,
        metric: Metric,
        counted: &Counted,
        never: u64,
    ) -> Result<(), ExportError> {
        let length = Duration::from_nanos(u64::try_from(self.of.span_ns()).unwrap_or(0));
        let tag = format!("{}/{}/{metric}", self.id.cell.replace(',', "+"), self.stream);
        let (negative, least) = counted.received().negative();
        bent.negative += negative;
        bent.beyond += counted.beyond;
        let mut says = format!("{tag} trial {}: {} values", self.record.n, counted.received().count());
        if counted.received().count() == 0 {
            // Nothing was measured: a line of infinities alone would look like a measurement.
            return Ok(log.comment(&says)?);
        }
        if never > 0 {
            says += &format!(", {never} packets lost or not sent");
        }
        if negative > 0 {
            says += &format!(", {negative} negative ones counted at 0, the least {least} ns");
        }
        log.comment(&says)?;
        log.interval(&tag, self.start, length, &counted.all)?;
        if let Some(received) = &counted.received {
            log.interval(&format!("{tag}/received"), self.start, length, received)?;
        }
        Ok(())
    }
}
