// SPDX-License-Identifier: MIT OR Apache-2.0
//! What AF_XDP applications waited for their packets, cell by cell, with where the XDP program and
//! the application ran; the systems that the cells were measured on; and which cell has the
//! smallest minimum, with the CPUs that prove its placement. And what the receivers cost and know.

use crate::block::{Block, Table};
use crate::column::{Column, title};
use crate::figure::{self, Digits, Unit};
use crate::picture::Picture;
use crate::reference::{self, SYSTEMS};
use std::collections::BTreeSet;
use tardy_model::point::{Metric, Point};
use tardy_model::result::{CellResult, MetricResult, Placement, XdpPlacement};
use tardy_model::verdict::Figure;

/// From the program's stamp to the end of the receive call: the time-delay of R4.
const DELAY: &str = "rx_xdp..receive";
/// The kernel's value for a bound that binds nothing, µs.
const NO_LIMIT: i32 = 2_000_000_000;
/// The axis by which cells differ in the bound that they ask for.
const BOUND: &str = "cpu.dma_latency";
/// The columns of figures: the percentiles lead.
const FIGURES: [Column; 6] =
    [Column::Quantile(0), Column::Quantile(2), Column::Mean, Column::Min, Column::Max, Column::AtPacket];

/// A stream of a cell that came through AF_XDP.
struct Row<'a> {
    cell: &'a CellResult,
    port: &'a XdpPlacement,
    delay: Option<&'a MetricResult>,
}

/// All of a run, in its order.
fn rows<'a>(picture: &Picture<'a>) -> Vec<Row<'a>> {
    let cells: &'a [CellResult] = &picture.results.cells;
    let of_cell = |cell: &'a CellResult| {
        cell.xdp.iter().map(move |port| {
            let delay = cell.streams.get(&port.stream).and_then(|stream| stream.metrics.get(DELAY));
            Row { cell, port, delay: delay.filter(|delay| delay.count > 0) }
        })
    };
    cells.iter().flat_map(of_cell).collect()
}

/// As blocks of a document; none where nothing came through AF_XDP.
pub(crate) fn blocks(picture: &Picture<'_>) -> Vec<Block> {
    let rows = rows(picture);
    if rows.is_empty() {
        return Vec::new();
    }
    let says = format!(
        "{DELAY}, in {}: from the stamp of the XDP program to the end of the application's receive call. The core is that of the \
         application compared with the CPU that ran the program, as the hint of each packet has it.",
        Unit::Ns.sign()
    );
    let mut blocks = vec![
        Block::Heading(2, "From the XDP program to the application".to_owned()),
        Block::Sentence(String::new(), says),
        Block::Table(delays(&rows)),
    ];
    let smallest = smallest(picture).into_iter().map(|says| Block::Sentence("smallest minimum".to_owned(), says));
    blocks.extend(smallest);
    blocks.push(Block::Heading(2, "Systems".to_owned()));
    blocks.push(Block::Sentence(String::new(), UNIT_OF_THE_BOUND.to_owned()));
    blocks.push(Block::Table(systems(picture, &rows)));
    blocks
}

const UNIT_OF_THE_BOUND: &str = "The bound on CPU wake-up latency is what was read of /dev/cpu_dma_latency at the beginning and the end \
                                 of the trials. Its unit is the microsecond; 2 000 000 000 means no limit.";

/// The table of time-delays.
fn delays(rows: &[Row<'_>]) -> Table {
    let head = ["cell", "driver", "wait", "core", "program on CPU", "application on CPU"];
    let mut table = Table::new(head.len(), &head);
    table.head.extend(FIGURES.iter().map(|column| column.title().to_owned()));
    for row in rows {
        let port = row.port;
        let mut line = vec![
            name(row, rows),
            port.driver.clone(),
            port.wait.clone(),
            core(port),
            cpus(port.packets_by_program_cpu.keys()),
            cpus(&port.receiver_cpus),
        ];
        let show = |column: &Column| {
            row.delay.map_or(figure::ABSENT.to_owned(), |delay| column.value(delay).show(Digits::of(Unit::Ns), None))
        };
        line.extend(FIGURES.iter().map(show));
        table.rows.push(line);
    }
    table
}

/// The cell, and the stream where a cell has several such.
fn name(row: &Row<'_>, rows: &[Row<'_>]) -> String {
    let several = rows.iter().filter(|other| other.cell.id == row.cell.id).count() > 1;
    let valid = if row.cell.valid { "" } else { ", NOT VALID" };
    match several {
        true => format!("{}, {}{valid}", title(&row.cell.id), row.port.stream),
        false => format!("{}{valid}", title(&row.cell.id)),
    }
}

fn cpus<'a>(cpus: impl IntoIterator<Item = &'a u32>) -> String {
    let cpus: Vec<String> = cpus.into_iter().map(u32::to_string).collect();
    if cpus.is_empty() { figure::ABSENT.to_owned() } else { cpus.join(", ") }
}

/// Where the application was, by what was counted: `same`, `remote`, or how many were which.
fn core(port: &XdpPlacement) -> String {
    match (port.same, port.remote, port.unknown) {
        (0, 0, _) => "not known".to_owned(),
        (_, 0, 0) => "same".to_owned(),
        (0, _, 0) => "remote".to_owned(),
        (same, remote, unknown) => format!("same {same}, remote {remote}, not known {unknown}"),
    }
}

/// The valid cell with the smallest minimum, with where its program and its application ran; `None`
/// unless there are two cells to choose from. If some packets of a cell disagree with the others
/// about the core, its minimum may be one of theirs: such a cell does not count.
pub(crate) fn smallest(picture: &Picture<'_>) -> Option<String> {
    let rows = rows(picture);
    let least = |row: &Row<'_>| {
        row.delay.and_then(|delay| delay.figures.min_ns).filter(|_| row.cell.valid && is_one_core(row.port))
    };
    let known: Vec<(i64, &Row<'_>)> = rows.iter().filter_map(|row| Some((least(row)?, row))).collect();
    let (least, row) = known.iter().min_by_key(|(least, _)| *least).filter(|_| known.len() > 1)?;
    let port = row.port;
    let ran: Vec<String> =
        port.packets_by_program_cpu.iter().map(|(cpu, packets)| format!("CPU {cpu} ({packets} packets)")).collect();
    let mut says = format!(
        "{}: {least} ns, core {}: the program ran on {}, the application on CPU {}",
        name(row, &rows),
        core(port),
        ran.join(" and "),
        cpus(&port.receiver_cpus)
    );
    if picture.facts.reference.as_deref() == Some("R4") {
        says += ". ";
        says += reference::R4_DISAGREES;
    }
    Some(says)
}

/// True if no packet's program ran on another core than those of the others.
fn is_one_core(port: &XdpPlacement) -> bool {
    [port.same, port.remote, port.unknown].into_iter().filter(|packets| *packets > 0).count() < 2
}

/// The systems of a run: one for each bound on wake-up latency, and those of the reference that it
/// names.
fn systems(picture: &Picture<'_>, rows: &[Row<'_>]) -> Table {
    let machine = &picture.manifest.machine;
    let text = |name: &str| match machine.get(name) {
        Some(Figure::Text(text)) => text.clone(),
        Some(Figure::List(_)) | None => figure::ABSENT.to_owned(),
        Some(other) => format!("{other:?}"),
    };
    let mut table = Table::new(8, &["system", "CPU", "kernel", "preemption", "C-states leave in, µs", "dma_latency"]);
    table.head.extend(["read before, µs", "read after, µs"].map(str::to_owned));
    let bound = |row: &Row<'_>| row.cell.axes.get(BOUND).cloned().unwrap_or_else(|| "of the experiment".to_owned());
    let mut seen = BTreeSet::new();
    for row in rows.iter().filter(|row| seen.insert(bound(row))) {
        let same = || rows.iter().filter(|other| bound(other) == bound(row));
        let before = read(same().flat_map(|row| &row.port.dma_latency_before_us));
        let after = read(same().flat_map(|row| &row.port.dma_latency_after_us));
        let who = if picture.manifest.guest.is_some() { "this run, in a guest" } else { "this run" };
        let facts =
            [text("cpu.model"), text("kernel.release"), preemption(picture), idle(machine.get("cpu.idle_states"))];
        table.rows.push([who.to_owned()].into_iter().chain(facts).chain([bound(row), before, after]).collect());
    }
    if picture.facts.reference.as_deref() == Some("R4") {
        table.rows.extend(SYSTEMS.map(|system| system.map(str::to_owned).to_vec()));
    }
    table
}

/// Values that were read, each once.
fn read<'a>(values: impl Iterator<Item = &'a i32>) -> String {
    let values: BTreeSet<i32> = values.copied().collect();
    let show = |us: &i32| if *us == NO_LIMIT { "no limit".to_owned() } else { us.to_string() };
    if values.is_empty() { figure::ABSENT.to_owned() } else { values.iter().map(show).collect::<Vec<_>>().join(", ") }
}

/// How the kernel preempts: by its own words, else by those of its version.
fn preemption(picture: &Picture<'_>) -> String {
    let machine = &picture.manifest.machine;
    let version = match machine.get("kernel.version") {
        Some(Figure::Text(version)) => version.as_str(),
        _ => "",
    };
    let built = version.split_whitespace().find(|word| word.starts_with("PREEMPT"));
    match (built, machine.get("kernel.preempt")) {
        (Some(built), Some(Figure::Text(mode))) => format!("{built}, {mode}"),
        (None, Some(Figure::Text(mode))) => mode.clone(),
        (Some(built), _) => built.to_owned(),
        (None, _) => "none in its version".to_owned(),
    }
}

/// The exit latencies of the idle states, the shallowest first.
fn idle(states: Option<&Figure>) -> String {
    let Some(Figure::List(states)) = states else { return figure::ABSENT.to_owned() };
    let latency = |state: &Figure| match state {
        // As `host::cpus` describes a state: `C1: leaves in 2 µs, …`.
        Figure::Text(text) => Some(text.split_once("leaves in ")?.1.split_whitespace().next()?.to_owned()),
        _ => None,
    };
    let latencies: Vec<String> = states.iter().filter_map(latency).collect();
    if latencies.is_empty() { "no idle states".to_owned() } else { latencies.join(", ") }
}

/// What the table of receivers is about. Where the XDP program ran is seen from the receiving
/// thread: on its own core, or on another one. What they cost is the CPU time, the idle time and
/// the wake-ups of the receiving thread. What they know is by how much `receive` misses the arrival
/// time that the XDP program gives with each packet: an application that has the program's stamp
/// knows that time exactly, however it waits, of the share of packets that have one. An
/// application that has not takes `receive` for it.
pub(crate) const RECEIVERS: &str = "receivers through AF_XDP: their thread's time, and how far receive is from the arrival \
                               time that the XDP program gave (rx_xdp..receive)";

/// A row for each stream that an XDP program stamps; `None` where there is none, and in runs of
/// versions that did not keep it.
pub(crate) fn receivers(picture: &Picture<'_>, separator: Option<char>) -> Option<Table> {
    let off = Metric::Span(Point::RxXdp, Point::Receive).to_string();
    let head =
        ["receiver", "XDP program", "CPU", "idle", "wake-ups/s", "packets each", "stamped", "off p50", "off p99"];
    let mut table = Table::new(2, &head);
    for cell in &picture.results.cells {
        for (name, stream) in picture.facts.in_order(&cell.streams) {
            let metric = stream.metrics.get(&off).filter(|metric| metric.count > 0);
            let thread = cell.placement.iter().find(|of| of.thread.strip_suffix(".rx") == Some(name));
            let (Some(metric), Some(thread)) = (metric, thread) else { continue };
            let received = stream.outcomes.received;
            table.rows.extend(receiver(cell, (name, cell.streams.len() > 1), thread, (metric, received), separator));
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Where the program ran that stamped a stream's packets: its CPUs, and whether the application was
/// there too, as the hints have it.
fn program_of(cell: &CellResult, stream: &str) -> String {
    let Some(port) = cell.xdp.iter().find(|port| port.stream == stream) else { return figure::ABSENT.to_owned() };
    if port.packets_by_program_cpu.is_empty() {
        return figure::ABSENT.to_owned();
    }
    let of = match (port.same, port.remote, port.unknown) {
        (0, 0, _) => "",
        (_, 0, 0) => ", same core",
        (0, _, 0) => ", another core",
        (_, 0, _) => ", same core or not known",
        (0, _, _) => ", another core or not known",
        _ => ", same core and another",
    };
    format!("CPU {}{of}", cpus(port.packets_by_program_cpu.keys()))
}

fn receiver(
    cell: &CellResult,
    (name, is_one_of_several): (&str, bool),
    thread: &Placement,
    (metric, received): (&MetricResult, u64),
    separator: Option<char>,
) -> Option<Vec<String>> {
    let over_ns = thread.over_ns.filter(|ns| *ns > 0)?;
    let (wakeups, absent) = (thread.wakeups?, || figure::ABSENT.to_owned());
    let share = |ns: i64| figure::share(ns as f64 / over_ns as f64);
    let idle = thread.run_ns.zip(thread.wait_ns).map(|(ran, waited)| (over_ns - ran - waited).max(0));
    let count = |n: u64| separator.map_or_else(|| n.to_string(), |separator| figure::count(n, separator));
    let each = (wakeups > 0).then(|| format!("{:.1}", received as f64 / wakeups as f64));
    let ns = |ns: Option<i64>| ns.map_or_else(absent, figure::about);
    let of = title(&cell.id);
    Some(vec![
        if is_one_of_several { format!("{of}: {name}") } else { of },
        program_of(cell, name),
        thread.run_ns.map_or_else(absent, share),
        idle.map_or_else(absent, share),
        // Cells differ in how many of their trials count.
        count((wakeups as f64 * 1e9 / over_ns as f64).round() as u64),
        each.unwrap_or_else(absent),
        if received == 0 { absent() } else { figure::share(metric.count as f64 / received as f64) },
        ns(metric.figures.quantiles.p50_ns),
        ns(metric.figures.quantiles.p99_ns),
    ])
}
