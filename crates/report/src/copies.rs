// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the threads of copies went together: in a few lines for each cell, and as a table of all.
//! The bandwidth over the wall time leads everywhere; the sum of what the threads had each by
//! itself is next to it, with its error.

use crate::block::Table;
use crate::column::title;
use crate::figure;
use crate::picture::Picture;
use crate::summary::usable;
use tardy_model::copy::{COPY, Contention, CopyModule, CopyResult};
use tardy_model::result::{CellResult, StreamResult};

/// The driver of the controllers that tardy brings along.
const SOFTWARE: &str = "tardy_softdma";

/// Millions of bits a second, as copies are printed.
pub(crate) fn mbit_s(bytes_s: f64) -> u64 {
    (bytes_s * 8.0 / 1e6).round().max(0.0) as u64
}

fn number(n: u64, separator: Option<char>) -> String {
    separator.map_or(n.to_string(), |separator| figure::count(n, separator))
}

/// A share that may be far above one.
fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// The copy of a cell.
pub(crate) fn of(cell: &CellResult) -> Option<&CopyResult> {
    cell.streams.get(COPY)?.copy.as_ref()
}

/// What became of the passes, in place of what becomes of packets.
pub(crate) fn passes(stream: &StreamResult, separator: Option<char>) -> Option<String> {
    stream.copy.as_ref()?;
    let outcomes = &stream.outcomes;
    let of = format!("passes {} of {}", number(outcomes.received, separator), number(outcomes.intended, separator));
    Some(of)
}

/// Each figure of a copy, labelled.
pub(crate) fn lines(copy: &CopyResult, separator: Option<char>) -> Vec<(&'static str, String)> {
    let rate = |bytes_s: f64| format!("{} Mbit/s", number(mbit_s(bytes_s), separator));
    let wall = format!(
        "{}: {} bytes by {} of {} × {} bytes in {}{}",
        rate(copy.wall_bytes_s),
        number(copy.bytes, separator),
        if copy.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", copy.threads) },
        copy.buffers,
        number(copy.buffer_bytes, separator),
        figure::about(copy.wall_ns),
        between(copy, separator),
    );
    let sum = format!("{}, each thread's own added up: wrong by {}", rate(copy.sum_bytes_s), percent(copy.sum_error),);
    let parallel = format!("{:.2} threads copied at once; the sum assumes {}", copy.parallelism, copy.assumed);
    let mut lines = vec![("wall", wall), ("sum", sum), ("parallel", parallel)];
    if copy.threads > 1 {
        lines.push(("in flight", in_flight(copy)));
        lines.extend(overlap(copy).map(|overlap| ("overlap", overlap)));
    }
    let waited = copy.wait_ns.map_or(figure::ABSENT.to_owned(), figure::about);
    lines.push((
        "threads",
        format!(
            "{} migrations, {} involuntary switches, waited {waited} for a CPU, all together",
            number(copy.migrations, separator),
            number(copy.involuntary_switches, separator),
        ),
    ));
    if let Some(provider) = &copy.provider {
        let how = match provider.as_str() {
            SOFTWARE => format!("of {provider}: they are software, which copies with CPUs"),
            provider => format!("of {provider}"),
        };
        // A run folder of an earlier version does not name it: there was one.
        let module = copy.module.unwrap_or(CopyModule::Dmatest);
        let chains = match module {
            CopyModule::Dmatest => String::new(),
            CopyModule::TardySgtest => format!("{} descriptors a chain, ", number(copy.buffers.into(), separator)),
        };
        lines.push(("copied by", format!("{} {chains}on DMA controllers {how}", module.says())));
    }
    let label = if copy.module == Some(CopyModule::TardySgtest) { "sgtest" } else { "kernel" };
    lines.extend(copy.kernel.iter().map(|of| (label, of.line.clone())));
    for lock in &copy.locks {
        let [p50, p99, max] = [lock.p50_ns, lock.p99_ns, lock.max_ns].map(figure::about);
        let (taken, share) = (number(lock.taken, separator), figure::share(lock.share));
        let name = lock.of.name();
        lines.push((
            "locks",
            format!("{name}: taken {taken} times, p50 {p50}, p99 {p99}, max {max}, {share} of the time in passes"),
        ));
    }
    if let Some(contention) = &copy.contention {
        lines.extend(waits(contention, separator).into_iter().map(|says| ("locks", says)));
    }
    let share = figure::share(copy.recording_share);
    lines.push(("recording", format!("{:.0} ns a pass, {share} of the shortest tenth of them", copy.recording_ns)));
    lines
}

/// Waits for the kernel's locks, of the threads that copied.
fn waits(of: &Contention, separator: Option<char>) -> Vec<String> {
    let source = &of.source;
    if let Some(why) = &of.why {
        return vec![format!("the kernel's: no figures of {source}: {why}")];
    }
    let mut lines = Vec::new();
    for lock in &of.locks {
        let [sum, max] = [lock.sum_ns, lock.max_ns].map(figure::about);
        let (waits, kind) = (number(lock.waits, separator), &lock.kind);
        lines.push(format!("the kernel's, {kind} {}: {waits} waits, {sum} in all, the longest {max}", lock.lock));
    }
    let mut says = match lines.len() {
        0 => format!("the kernel's: {source} showed no wait of these threads"),
        _ => format!("the kernel's are those that {source} showed of these threads, to {}", figure::about(of.unit_ns)),
    };
    let more = [
        (of.other_waits, "waits for other locks are not listed"),
        (of.half, "waits have only their beginning or end"),
        (of.lost, "events were lost, and waits are missing"),
    ];
    for (count, what) in more.into_iter().filter(|(count, _)| *count > 0) {
        says += &format!("; {} {what}", number(count, separator));
    }
    lines.push(says);
    lines
}

/// Between which bandwidths the trials lie.
fn between(copy: &CopyResult, separator: Option<char>) -> String {
    let all = || copy.trials_bytes_s.iter().copied();
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    if copy.trials_bytes_s.len() < 2 {
        return String::new();
    }
    format!(" (the median trial; all: {} to {})", number(mbit_s(least), separator), number(mbit_s(most), separator))
}

/// For how long how many threads were in a pass, those with at least a hundredth of the time.
fn in_flight(copy: &CopyResult) -> String {
    let whole = copy.wall_ns.max(1) as f64;
    let shares = copy.in_flight_ns.iter().enumerate().map(|(many, ns)| (many, *ns as f64 / whole));
    let mut shown: Vec<(usize, f64)> = shares.filter(|(_, share)| *share >= 0.01).collect();
    shown.sort_by(|a, b| b.1.total_cmp(&a.1));
    let each = shown.iter().take(6).map(|(many, share)| format!("{many} for {}", figure::share(*share)));
    format!("{} of the time", each.collect::<Vec<_>>().join(", "))
}

fn overlap(copy: &CopyResult) -> Option<String> {
    let least = copy.least_overlaps.first()?;
    let [a, b] = least.threads;
    let mean = figure::share(copy.overlap_mean?);
    Some(format!("least {} (threads {a} and {b}), mean {mean}, of the shorter one's time", figure::share(least.share)))
}

/// What the table's columns are.
pub(crate) const SAYS: &str = "wall: bytes over the time from the first pass's beginning to the last one's end; sum: each thread's own \
                               bandwidth, added up; at once: how many copied at the same time, as a mean; assumed: how many the sum \
                               takes for granted";

/// All copies of a run, a row each.
pub(crate) fn table(picture: &Picture<'_>, separator: Option<char>) -> Option<Table> {
    let head = ["copy", "valid", "added up"];
    let mut table = Table::new(3, &head);
    let more =
        ["wall Mbit/s", "sum Mbit/s", "sum's error", "at once", "assumed", "threads", "buffers", "bytes", "migrations"];
    table.head.extend(more.map(str::to_owned));
    for (cell, copy) in picture.results.cells.iter().filter_map(|cell| Some((cell, of(cell)?))) {
        let may = match copy.may_be_added_up {
            _ if copy.threads == 1 => figure::ABSENT,
            true => "yes",
            false => "no",
        };
        let figures = [
            number(mbit_s(copy.wall_bytes_s), separator),
            number(mbit_s(copy.sum_bytes_s), separator),
            percent(copy.sum_error),
            format!("{:.2}", copy.parallelism),
            copy.assumed.to_string(),
            copy.threads.to_string(),
            copy.buffers.to_string(),
            number(copy.buffer_bytes, separator),
            number(copy.migrations, separator),
        ];
        let name = match copy.module {
            Some(CopyModule::TardySgtest) => format!("{} (tardy_sgtest, tardy's own test module)", title(&cell.id)),
            Some(CopyModule::Dmatest) => format!("{} (dmatest)", title(&cell.id)),
            None => title(&cell.id),
        };
        let row = [name, usable(cell).to_owned(), may.to_owned()];
        table.rows.push(row.into_iter().chain(figures).collect());
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The cells of a condition of reference R5, whose threads are not bound, and are: of one thread a
/// channel, as its table is.
pub(crate) fn of_condition<'a>(picture: &Picture<'a>, name: &str) -> [Option<&'a CellResult>; 2] {
    let cells: &'a [CellResult] = &picture.results.cells;
    let is_it = |cell: &&CellResult| {
        let is_case = cell.id == name || cell.axes.get("case").is_some_and(|case| case == name);
        is_case && cell.axes.get("copy.threads").is_none_or(|threads| threads == "1")
    };
    let is_bound = |cell: &&CellResult| cell.axes.get("copy.bind").is_some_and(|bind| bind != "any");
    let mut both = [None, None];
    for cell in cells.iter().filter(is_it) {
        both[usize::from(is_bound(&cell))].get_or_insert(cell);
    }
    both
}

/// This run's figures of a condition, rows of the reference's table: the wall's bandwidth, and the
/// sum.
pub(crate) fn rows(cells: [Option<&CellResult>; 2]) -> [(&'static str, [String; 2]); 2] {
    let figures = |of: fn(&CopyResult) -> f64| {
        cells.map(|cell| match cell.and_then(of_valid) {
            Some(copy) => mbit_s(of(copy)).to_string(),
            None => figure::ABSENT.to_owned(),
        })
    };
    [
        ("this run, over the wall", figures(|copy| copy.wall_bytes_s)),
        ("this run, added up", figures(|copy| copy.sum_bytes_s)),
    ]
}

fn of_valid(cell: &CellResult) -> Option<&CopyResult> {
    of(cell).filter(|_| cell.valid)
}
