// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run as a document of headings, sentences, lists and tables, from which Markdown and Org are
//! written. Figures stand ungrouped with a decimal point, so that a spreadsheet reads them.

use crate::block::{Block, Table};
use crate::closing;
use crate::column::{
    Column, bound_of_lateness, digits, in_order, in_unit, lead, lead_of, point_of, received_only, run_digits, title,
    unit,
};
use crate::figure::{self, Digits, SPACE};
use crate::picture::{Facts, Picture};
use crate::summary::{self, Cells};
use std::collections::BTreeMap;
use tardy_model::machine::RulerRecord;
use tardy_model::manifest::{GuestEntry, Manifest};
use tardy_model::result::{ABOVE_MINIMUM, CellResult, MetricResult, Results, StreamResult};
use tardy_model::verdict::{Figure, Verdict};

/// A p99 of fewer wake-ups is that of two or three of them, and is not shown: ten beyond it are
/// the least.
const FEW_WAKE_UPS: u32 = 1_000;

pub(crate) fn of(picture: &Picture<'_>) -> Vec<Block> {
    let results = picture.results;
    let mut blocks = vec![Block::Heading(1, results.name.clone())];
    blocks.push(Block::Sentence(closing::state(results).to_owned(), closing::says(picture)));
    let mut sent = vec![summary::sent(picture.facts), summary::amount(picture, SPACE)];
    sent.extend(picture.elapsed.map(figure::clock));
    sent.retain(|part| !part.is_empty());
    blocks.push(Block::Sentence(String::new(), sent.join(" · ")));
    blocks.extend(list(summary::of_run(results)));
    blocks.extend(comparison(picture, None).into_iter().map(Block::Table));
    blocks.extend(crate::copies::table(picture, None).map(Block::Table));
    blocks.extend(list(summary::early(picture).into_iter().collect()));
    blocks.extend(crate::stages::blocks(picture));
    let cells = Cells::of(picture);
    let digits = run_digits(results);
    blocks.extend(results.cells.iter().flat_map(|cell| of_cell(picture, &cells, cell, digits)));
    for id in cells.not_run() {
        blocks.push(Block::Heading(2, title(id)));
        let why = cells.refused(id).map_or("none finished".to_owned(), |remark| remark.says);
        blocks.push(Block::Sentence("not run".to_owned(), why));
    }
    blocks.extend(crate::xdp::blocks(picture));
    if let Some(receivers) = crate::xdp::receivers(picture, None) {
        blocks.push(Block::Heading(2, "Receivers".to_owned()));
        blocks.push(Block::Sentence(String::new(), crate::xdp::RECEIVERS.to_owned()));
        blocks.push(Block::Table(receivers));
    }
    // Behind the run's own: it is other hardware.
    blocks.extend(crate::reference::beside(picture).into_iter().flat_map(crate::reference::Beside::blocks));
    if !results.expectations.is_empty() {
        blocks.push(Block::Heading(2, "Expectations".to_owned()));
        blocks.push(Block::Table(expectations(results)));
    }
    if !results.verdicts.is_empty() {
        blocks.push(Block::Heading(2, "Verdicts on the whole run".to_owned()));
        blocks.push(Block::Table(verdicts(&results.verdicts)));
    }
    blocks.push(Block::Heading(2, "Ruler".to_owned()));
    blocks.push(Block::Sentence(String::new(), summary::ruler(picture)));
    if !picture.manifest.ruler.is_empty() {
        blocks.push(Block::Table(ruler(picture.manifest)));
    }
    blocks.push(Block::Heading(2, "Machine".to_owned()));
    blocks.push(Block::Table(machine(picture.manifest)));
    if let Some(dir) = picture.run_dir {
        blocks.push(Block::Sentence("run folder".to_owned(), dir.to_owned()));
    }
    blocks
}

fn list(remarks: Vec<summary::Remark>) -> Option<Block> {
    (!remarks.is_empty()).then(|| Block::List(remarks.into_iter().map(|r| (r.label, r.says)).collect()))
}

fn of_cell(picture: &Picture<'_>, cells: &Cells<'_>, cell: &CellResult, digits: Digits) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(2, title(&cell.id))];
    if !cell.valid && cell.not_available.is_none() {
        blocks.push(Block::Sentence("NOT VALID".to_owned(), "do not use these figures".to_owned()));
    }
    // Rows without a single trial would only say so over and over; the list says why once.
    let ran = !cell.trials.is_empty();
    for (name, stream) in picture.facts.in_order(&cell.streams).into_iter().filter(|_| ran) {
        blocks.push(Block::Heading(3, format!("stream {}", picture.facts.called(&cell.id, name))));
        blocks.push(Block::Table(metrics(stream, digits, None)));
        blocks.extend(reasons(stream));
        if let Some(copy) = &stream.copy {
            let lines = crate::copies::lines(copy, None);
            blocks.push(Block::List(lines.into_iter().map(|(label, says)| (label.to_owned(), says)).collect()));
        }
        let mut became = crate::copies::passes(stream, None).unwrap_or_else(|| outcomes(stream, None));
        for part in summary::replies(stream, None) {
            became += &format!(" · {part}");
        }
        blocks.push(Block::Sentence(String::new(), became));
    }
    blocks.extend(crate::loads::table(&cell.loads, None).map(Block::Table));
    blocks.extend(classes(cell, None).map(Block::Table));
    blocks.extend(list(cells.remarks_below(cell)));
    if cell.trials.len() > 1 {
        blocks.extend(trials(picture.facts, cell, None).into_iter().map(Block::Table));
    }
    if !cell.placement.is_empty() {
        blocks.push(Block::Table(placement(cell)));
    }
    blocks.extend(softirq(cell).map(Block::Table));
    blocks.extend(cpus(cell, None).map(Block::Table));
    blocks.extend(machines(cell).map(Block::Table));
    blocks
}

/// All metrics of a stream with all figures; the unit is in the head.
pub(crate) fn metrics(stream: &StreamResult, all: Digits, separator: Option<char>) -> Table {
    let mut table = Table::new(1, &[&format!("in {}", all.unit.sign())]);
    let columns = Column::all(stream.metrics.values());
    table.head.extend(columns.iter().map(|column| column.title_of(stream.copy.is_some()).to_owned()));
    table.head.extend(["coverage".to_owned(), "count".to_owned(), "stamp by".to_owned()]);
    for (name, metric) in in_order(stream) {
        let digits = digits(metric, &columns, all);
        let shown = columns.iter().map(|column| column.value(metric).show(digits, separator));
        let mut row: Vec<String> = [name.to_owned()].into_iter().chain(shown).collect();
        row.extend([figure::share(metric.coverage), packets(metric.count, separator), metric.source.clone()]);
        table.rows.push(row);
        if received_only(metric).is_some() {
            let mut row = vec![format!("{name}, received only")];
            let text = |c: &Column| c.received(metric).map_or(String::new(), |v| v.show(digits, separator));
            row.extend(columns.iter().map(text));
            row.extend([String::new(), String::new(), String::new()]);
            table.rows.push(row);
        }
    }
    table
}

/// Why figures are missing or odd; a reason that several metrics share is given once.
pub(crate) fn reasons(stream: &StreamResult) -> Option<Block> {
    let mut found: Vec<(Vec<&str>, String)> = Vec::new();
    for (name, metric) in in_order(stream) {
        let mut says: Vec<String> = metric.why.iter().cloned().collect();
        says.extend(negative(name, metric));
        let above = name.ends_with(ABOVE_MINIMUM);
        if metric.clock_bound_ns.is_some() && metric.count > 0 {
            says.push(format!("±: {}", if above { figure::TWO_CLOCKS_DRIFT } else { figure::TWO_CLOCKS }));
        }
        if metric.not_of_packet > 0 && metric.count > 0 {
            let n = metric.not_of_packet;
            says.push(format!("{n} more values lie after receive or before the trial: no time of their packet"));
        }
        if !metric.infinite.is_empty() {
            let which = metric.infinite.join(", ");
            let what =
                if name == "begin..end" { "pass that was not done" } else { "packet that was lost or never sent" };
            says.push(format!("{which} {}: the rank falls on a {what}", figure::INFINITE));
        }
        let (by_stamps, by_events): (Vec<&String>, Vec<&String>) =
            metric.unresolved.iter().partition(|name| metric.between_ns.contains_key(*name));
        for (which, why) in [(by_events, figure::FEW_EVENTS), (by_stamps, figure::WITHOUT_STAMP)] {
            if !which.is_empty() {
                let which: Vec<&str> = which.into_iter().map(String::as_str).collect();
                says.push(format!("{} {}: {why}", which.join(", "), figure::ABSENT));
            }
        }
        for text in says {
            match found.iter_mut().find(|(_, other)| *other == text) {
                Some((names, _)) => names.push(name),
                None => found.push((vec![name], text)),
            }
        }
    }
    let is_whole = |(name, metric): &(&String, &MetricResult)| metric.count > 0 && !name.ends_with(ABOVE_MINIMUM);
    let had = stream.metrics.iter().filter(is_whole).count();
    let entry = |(names, text): (Vec<&str>, String)| match names.len() {
        n if n > 1 && n == had => ("all metrics".to_owned(), text),
        _ => (names.join(", "), text),
    };
    (!found.is_empty()).then(|| Block::List(found.into_iter().map(entry).collect()))
}

fn negative(name: &str, metric: &MetricResult) -> Option<String> {
    let what = if name.starts_with("scheduled..") { "early" } else { "negative, which is a fault of a clock" };
    (metric.negative > 0).then(|| format!("{} of {} {what}", metric.negative, metric.count))
}

/// What became of the packets, all counts.
pub(crate) fn outcomes(stream: &StreamResult, separator: Option<char>) -> String {
    let o = &stream.outcomes;
    let bound = bound_of_lateness(stream).map(|ns| format!(" (± {})", figure::exact(ns))).unwrap_or_default();
    let of = |what: &str, n: u64| if n > 0 && ["early", "late"].contains(&what) { &bound } else { "" };
    let each = [
        ("intended", o.intended),
        ("received", o.received),
        ("lost", o.lost),
        ("not_sent", o.not_sent),
        ("early", o.early),
        ("late", o.late),
        ("duplicate", o.duplicate),
        ("reordered", o.reordered),
    ];
    each.map(|(what, n)| format!("{what} {}{}", packets(n, separator), of(what, n))).join(" · ")
}

fn packets(n: u64, separator: Option<char>) -> String {
    separator.map_or(n.to_string(), |s| figure::count(n, s))
}

/// Where there are several cells: what leads of each stream, cell by cell, a table for each metric
/// that does.
pub(crate) fn comparison(picture: &Picture<'_>, separator: Option<char>) -> Vec<Table> {
    let several = picture.results.cells.iter().any(|cell| cell.streams.len() > 1);
    let tables = by_lead(picture).into_iter().filter(|_| picture.results.cells.len() > 1);
    tables
        .map(|led @ Led { name, .. }| {
            let (head, rows) = (led.head(), led.rows);
            let metrics = rows.iter().filter_map(|(_, _, stream)| Some((name, stream.metrics.get(name)?)));
            let all = in_unit(&picture.results.fingerprint, unit(metrics));
            let columns = Column::few(rows.iter().filter_map(|(_, _, stream)| stream.metrics.get(name)));
            let passes = picture.facts.counts_passes;
            let mut table = leading(&head, all, &columns, passes);
            for (cell, who, stream) in rows {
                let valid = (summary::usable(cell), !cell.trials.is_empty());
                let label = if several { format!("{}, {who}", title(&cell.id)) } else { title(&cell.id) };
                table.rows.push(leading_row(label, valid, stream.metrics.get(name), &columns, stream, all, separator));
            }
            table
        })
        .collect()
}

/// A stream of a cell.
pub(crate) type CellRow<'a> = (&'a CellResult, &'a str, &'a StreamResult);

/// Streams that one metric leads, with figures that may be compared.
pub(crate) struct Led<'a> {
    pub name: &'a str,
    /// Where its `rx_kernel` was taken, where that is not the same in all of the run.
    at: Option<String>,
    pub rows: Vec<CellRow<'a>>,
}

impl Led<'_> {
    /// What is above the table.
    pub fn head(&self) -> String {
        self.at.as_ref().map_or_else(|| self.name.to_owned(), |at| format!("{} (rx_kernel at {at})", self.name))
    }
}

/// The run's streams in the order of the experiment file, each with its cells, under the metric
/// that leads of them. A cell without a figure is where the stream's others do. Those whose
/// `rx_kernel` was taken at another point stand by themselves.
pub(crate) fn by_lead<'a>(picture: &Picture<'a>) -> Vec<Led<'a>> {
    let cells: &'a [CellResult] = &picture.results.cells;
    let mut names: BTreeMap<String, ()> = BTreeMap::new();
    names.extend(cells.iter().flat_map(|cell| cell.streams.keys().map(|name| (name.clone(), ()))));
    let mut tables: Vec<Led<'a>> = Vec::new();
    for (name, ()) in picture.facts.in_order(&names) {
        let rows = || cells.iter().filter_map(|cell| cell.streams.get_key_value(name).map(|(who, of)| (cell, who, of)));
        let usual = lead_of(rows().map(|(.., stream)| stream));
        let usual_at =
            usual.and_then(|metric| rows().find_map(|(cell, _, of)| point_of(picture.results, metric, cell, of)));
        for (cell, who, stream) in rows() {
            let Some(metric) = lead(stream).or(usual) else { continue };
            let at = match cell.trials.is_empty() {
                true => usual_at.clone(),
                false => point_of(picture.results, metric, cell, stream),
            };
            match tables.iter_mut().find(|led| led.name == metric && led.at == at) {
                Some(led) => led.rows.push((cell, who, stream)),
                None => tables.push(Led { name: metric, at, rows: vec![(cell, who, stream)] }),
            }
        }
    }
    tables
}

fn leading(name: &str, all: Digits, columns: &[Column], passes: bool) -> Table {
    let head = format!("{name}, in {}", all.unit.sign());
    let titles = columns.iter().map(|column| column.title_of(passes));
    Table::new(2, &[&*head, "valid"].into_iter().chain(titles).chain(["lost", "not_sent"]).collect::<Vec<_>>())
}

fn leading_row(
    label: String,
    (valid, ran): (&str, bool),
    metric: Option<&MetricResult>,
    columns: &[Column],
    stream: &StreamResult,
    all: Digits,
    separator: Option<char>,
) -> Vec<String> {
    let show =
        |c: &Column| metric.map_or(figure::ABSENT.to_owned(), |m| c.value(m).show(digits(m, columns, all), separator));
    let mut row: Vec<String> = [label, valid.to_owned()].into_iter().chain(columns.iter().map(show)).collect();
    // Of what never ran nothing is known, and nothing is not none.
    let counted = |n| if !ran { figure::ABSENT.to_owned() } else { packets(n, separator) };
    row.extend([stream.outcomes.lost, stream.outcomes.not_sent].map(counted));
    row
}

/// What leads of each stream, trial by trial, a table for each metric that does.
pub(crate) fn trials(facts: &Facts, cell: &CellResult, separator: Option<char>) -> Vec<Table> {
    let mut tables: Vec<(&str, Vec<&str>)> = Vec::new();
    for (who, stream) in facts.in_order(&cell.streams) {
        let Some(name) = lead(stream) else { continue };
        match tables.iter_mut().find(|(known, _)| *known == name) {
            Some((_, streams)) => streams.push(who),
            None => tables.push((name, vec![who])),
        }
    }
    let of_one = |(name, streams): (&str, Vec<&str>)| {
        let each = || streams.iter().flat_map(|who| cell.trials.iter().map(move |trial| (*who, trial)));
        let rows: Vec<_> = each().filter_map(|(who, trial)| Some((who, trial, trial.streams.get(who)?))).collect();
        let unit = unit(rows.iter().filter_map(|(.., stream)| Some((name, stream.metrics.get(name)?))));
        let all = in_unit(&cell.fingerprint, unit);
        let columns = Column::few(rows.iter().filter_map(|(.., stream)| stream.metrics.get(name)));
        let passes = rows.iter().any(|(.., stream)| stream.copy.is_some());
        let mut table = leading(name, all, &columns, passes);
        for (who, trial, stream) in rows {
            let whose = if cell.streams.len() > 1 { format!(", {who}") } else { String::new() };
            let label = format!("trial {}{whose}", trial.n);
            let valid = (if trial.valid { "yes" } else { "no" }, true);
            table.rows.push(leading_row(label, valid, stream.metrics.get(name), &columns, stream, all, separator));
        }
        table
    };
    tables.into_iter().map(of_one).filter(|table| !table.rows.is_empty()).collect()
}

/// Traffic classes, where a queue discipline was asked for.
pub(crate) fn classes(cell: &CellResult, separator: Option<char>) -> Option<Table> {
    let head = ["class", "queue disciplines", "judged", "inside", "early", "late", "passed", "dropped", "overlimits"];
    let mut table = Table::new(2, &head);
    for c in &cell.classes {
        let class = c.class.map_or("root".to_owned(), |class| class.to_string());
        // Of what was not judged nothing is known: none inside, and none late, would be findings.
        let judged = |n: u64| if c.judged > 0 { packets(n, separator) } else { figure::ABSENT.to_owned() };
        let departures = [c.judged, c.inside, c.early, c.late].map(judged);
        let counts = [c.packets, c.drops, c.overlimits].map(|n| packets(n, separator));
        table.rows.push([class, c.qdiscs.join(", ")].into_iter().chain(departures).chain(counts).collect());
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Where the threads were asked to run and ran.
pub(crate) fn placement(cell: &CellResult) -> Table {
    let head = ["thread", "CPU asked", "CPUs seen", "policy asked", "policy granted", "memory locked", "NAPI"];
    let mut table = Table::new(7, &head);
    table.head.extend(["migrations".to_owned(), "run-queue wait".to_owned()]);
    let absent = || figure::ABSENT.to_owned();
    let waited = figure::about_all(cell.placement.iter().filter_map(|p| p.wait_ns));
    for p in &cell.placement {
        table.rows.push(vec![
            summary::on_host(&p.thread, p.host.as_deref()),
            p.cpu_asked.clone(),
            cpu_list(&p.cpus_seen),
            p.policy_asked.clone(),
            p.policy_granted.clone(),
            p.memory_locked.map_or_else(absent, |is| if is { "yes" } else { "no" }.to_owned()),
            match p.napi_ids.as_slice() {
                [] => absent(),
                ids if ids.contains(&0) => "no".to_owned(),
                _ => "yes".to_owned(),
            },
            p.migrations.map_or_else(absent, |n| n.to_string()),
            p.wait_ns.map_or_else(absent, &waited),
        ]);
    }
    table
}

fn cpu_list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// Where arriving packets were asked to be taken in, where somebody asked.
pub(crate) fn softirq(cell: &CellResult) -> Option<Table> {
    let mut table = Table::new(4, &["softirq of", "by", "CPU asked", "threads ran on"]);
    table.head.extend(["packets arrived", "packets on that CPU", "thread switches"].map(str::to_owned));
    let count = |n: Option<u64>| n.map_or_else(|| figure::ABSENT.to_owned(), |n| n.to_string());
    for s in &cell.softirq {
        let (seen, packets) = (cpu_list(&s.cpus_seen), s.packets.to_string());
        let counts = [packets, count(s.packets_on_cpu), count(s.napi_switches)];
        table.rows.push(
            [summary::on_host(&s.station, s.host.as_deref()), s.by.clone(), s.cpu_asked.clone(), seen]
                .into_iter()
                .chain(counts)
                .collect(),
        );
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What each CPU did during the trials, and who used it. A folder of an older version does not
/// know the latter.
pub(crate) fn cpus(cell: &CellResult, separator: Option<char>) -> Option<Table> {
    let mut table = Table::new(1, &["CPU", "packets", "NET_RX", "NET_TX", "interrupts"]);
    let known = cell.cpus.iter().any(|cpu| cpu.elapsed_ns > 0);
    if known {
        let more = ["time in interrupts", "in softirqs", "of others", "who they were"];
        table.head.extend(more.map(str::to_owned));
    }
    for c in &cell.cpus {
        let counts = [c.packets, c.net_rx, c.net_tx, c.interrupts].map(|n| packets(n, separator));
        let share = |ns: Option<i64>| summary::share_of(ns, c.elapsed_ns);
        let used = [Some(c.irq_ns), Some(c.softirq_ns), c.others_ns].map(share);
        let used = used.into_iter().chain([summary::users(c).join(", ")]).filter(|_| known);
        table.rows.push([summary::cpu(c)].into_iter().chain(counts).chain(used).collect());
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What the run's virtual machines cost.
pub(crate) fn machines(cell: &CellResult) -> Option<Table> {
    let mut table = Table::new(1, &["of the virtual machines, for each packet of the streams", "times"]);
    table.rows.extend(summary::machines(cell).into_iter().map(|(what, count)| vec![what, count]));
    (!table.rows.is_empty()).then_some(table)
}

/// Each limit with what was got.
pub(crate) fn expectations(results: &Results) -> Table {
    let mut table = Table::new(7, &["cell", "stream", "of", "limit", "got", "met", "why"]);
    for e in &results.expectations {
        let of = if e.of == "count" { e.metric.clone() } else { format!("{} {}", e.metric, e.of.replace('_', " ")) };
        let met = match e.met {
            None => "not judged",
            Some(true) => "yes",
            Some(false) => "no",
        };
        let why = e.why.clone().unwrap_or_default();
        table.rows.push(vec![
            title(&e.cell),
            e.stream.clone(),
            of,
            summary::limit(e),
            summary::got(e),
            met.to_owned(),
            why,
        ]);
    }
    table
}

/// Verdicts with their evidence.
pub(crate) fn verdicts(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new(4, &["rule", "level", "says", "evidence"]);
    for v in verdicts {
        let evidence: Vec<String> = v.evidence.iter().map(|(name, f)| format!("{name} {}", fact(f))).collect();
        let row = [v.id.clone(), summary::level(v.level).to_owned(), v.says.clone(), evidence.join(", ")];
        table.rows.push(row.to_vec());
    }
    table
}

/// The ruler, CPU by CPU.
pub(crate) fn ruler(manifest: &Manifest) -> Table {
    let mut table = Table::new(5, &["station", "CPU", "policy", "threads", "measured", "stamp"]);
    table
        .head
        .extend(["timer p50", "timer p99", "timer max", "wake-ups", "gaps > 10 µs", "longest"].map(str::to_owned));
    let column = |of: fn(&RulerRecord) -> Option<i64>| {
        let show = figure::about_all(manifest.ruler.iter().filter_map(of));
        move |r: &RulerRecord| of(r).map_or(figure::ABSENT.to_owned(), &show)
    };
    let times = [
        column(|r| Some(r.stamp_ns)),
        column(|r| Some(r.timer_p50_ns)),
        column(|r| (r.timer_count >= FEW_WAKE_UPS).then_some(r.timer_p99_ns)),
        column(|r| Some(r.timer_max_ns)),
    ];
    let longest = column(|r| r.longest_gap_ns);
    for r in &manifest.ruler {
        let mut row = vec![
            r.station.clone(),
            r.cpu.map_or("any".to_owned(), |cpu| cpu.to_string()),
            r.policy.clone(),
            r.threads.join(", "),
            if r.after { "after the trials" } else { "before the trials" }.to_owned(),
        ];
        row.extend(times.iter().map(|time| time(r)));
        let gaps = format!("{} in {}", r.gaps_over_10us, figure::about(r.loop_ns));
        row.extend([r.timer_count.to_string(), gaps, longest(r)]);
        table.rows.push(row);
    }
    table
}

/// What made the run: tools, stations, facts of the machine.
pub(crate) fn machine(manifest: &Manifest) -> Table {
    let mut table = Table::new(2, &["fact", "value"]);
    let mut add = |name: String, value: String| table.rows.push(vec![name, value]);
    add("tardy".to_owned(), manifest.tardy.clone());
    add("command".to_owned(), manifest.command.join(" "));
    add("started".to_owned(), manifest.started_utc.clone());
    add("ended".to_owned(), manifest.ended_utc.clone().unwrap_or_else(|| "not by itself".to_owned()));
    add("seed".to_owned(), manifest.seed.to_string());
    for (name, station) in &manifest.stations {
        let place = station.netns.as_ref().map_or(String::new(), |netns| format!(" {netns}"));
        add(format!("station {name}"), format!("{}{place}, agent {}", station.kind, station.agent));
    }
    manifest.guest.iter().flat_map(GuestEntry::facts).for_each(|(name, value)| add(name, value));
    // Documents are passed around; the kernel's command line may hold what is nobody's business
    // and stays in the manifest.
    for (name, value) in manifest.machine.iter().filter(|(name, _)| *name != "kernel.command_line") {
        let text = Some(fact(value)).filter(|text| !text.is_empty());
        add(name.clone(), text.unwrap_or_else(|| "none".to_owned()));
    }
    for (name, version) in &manifest.programs {
        add(name.clone(), version.clone());
    }
    table
}

fn fact(figure: &Figure) -> String {
    match figure {
        Figure::Int(n) => n.to_string(),
        Figure::Float(x) => x.to_string(),
        Figure::Text(text) => text.clone(),
        Figure::List(list) => list.iter().map(fact).collect::<Vec<_>>().join(", "),
    }
}
