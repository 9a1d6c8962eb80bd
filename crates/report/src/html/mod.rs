// SPDX-License-Identifier: MIT OR Apache-2.0
//! One page that needs nothing but itself: verdict first, then each cell's figures and pictures,
//! then what made them. The page contains tables and text; its own script draws the
//! plots from [`data`], and fetches nothing.

mod budget;
mod copies;
mod data;
mod element;

use crate::block::{Block, Table};
use crate::closing;
use crate::column::{Column, Value, in_order, lead, point_of, run_digits, title};
use crate::figure::{Digits, THIN};
use crate::picture::{Options, Picture, ReportError};
use crate::summary::{self, Cells};
use crate::{column, document, figure};
use element::{figure, table};
use tardy_model::harmless::xml as escape;
use tardy_model::result::{ABOVE_MINIMUM, CellResult, Results, StreamResult};
use tardy_model::verdict::{Level, Verdict};

const STYLE: &str = include_str!(concat!(env!("OUT_DIR"), "/page.css"));
const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/page.js"));
/// The browser itself holds that the page stays alone.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";
/// Longer texts are cut here; the file in the run folder is whole.
const LONGEST_TEXT: usize = 200_000;
/// Packets in the table of those that stand out.
const OUTLIERS: usize = 10;

pub(crate) fn make(picture: &Picture<'_>, _: &Options) -> Result<String, ReportError> {
    let results = picture.results;
    let name = escape(&results.name);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{name} · {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        closing::state(results)
    );
    head(picture, &mut out);
    bar(picture, &mut out);
    side_by_side(picture, &mut out);
    let cells = Cells::of(picture);
    let digits = run_digits(results);
    for (i, cell) in results.cells.iter().enumerate() {
        of_cell(picture, (&cells, digits), i, cell, &mut out);
    }
    for id in cells.not_run() {
        let why = cells.refused(id).map_or("none finished".to_owned(), |remark| remark.says);
        out += &format!(
            "<section class=\"cell\"><h2>{}</h2><p class=\"bad\">not run: {}</p></section>\n",
            escape(&title(id)),
            escape(&why)
        );
    }
    stages(picture, &mut out);
    of_xdp(picture, &mut out);
    receivers(picture, &mut out);
    copies::together(picture, &mut out);
    beside(picture, &mut out);
    made_by(picture, &mut out);
    out += &format!(
        "</main>\n<script type=\"application/json\" id=\"run\">{}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        data::json(picture)
    );
    Ok(out)
}

fn head(picture: &Picture<'_>, out: &mut String) {
    let results = picture.results;
    let class = match (results.valid, closing::cut(picture)) {
        (true, None) => "good",
        (true, Some(_)) => "doubtful",
        (false, _) => "bad",
    };
    let failed = results.expectations_met == Some(false);
    let mut sent = vec![summary::sent(picture.facts), summary::amount(picture, THIN)];
    sent.extend(picture.elapsed.map(figure::clock));
    sent.push(picture.manifest.started_utc.clone());
    sent.retain(|part| !part.is_empty());
    *out +=
        &format!("<header>\n<h1>{}</h1>\n<p class=\"sent\">{}</p>\n", escape(&results.name), escape(&sent.join(" · ")));
    *out += &format!(
        "<p class=\"state\"><strong class=\"{class}\">{}</strong> <span{}>{}</span></p>\n",
        closing::state(results),
        if failed { " class=\"bad\"" } else { "" },
        escape(&closing::says(picture))
    );
    if let (true, Some(answer)) = (results.valid, summary::answer(picture)) {
        *out += &format!("<p class=\"answer\">{}</p>\n", escape(&answer));
    }
    // Why not comes before the figures that it is about; below its cell, where there are several,
    // each reason is listed with all the others.
    let is_reason = |remark: &summary::Remark| remark.level == Level::Invalid;
    let (mut reasons, others): (Vec<_>, Vec<_>) = summary::of_run(results).into_iter().partition(is_reason);
    reasons.extend(summary::common_remarks(picture, |_, remark| is_reason(remark)));
    remarks(reasons, out);
    limits(results, out);
    leading(picture, out);
    remarks(others, out);
    for comparison in document::comparison(picture, Some(THIN)) {
        *out += &table(&comparison, "");
    }
    remarks(summary::early(picture).into_iter().collect(), out);
    *out += &format!("<p class=\"ruler\">ruler: {}</p>\n</header>\n", escape(&summary::ruler(picture)));
}

/// The limits that were broken, or could not be judged: before the figures, and before notes.
fn limits(results: &Results, out: &mut String) {
    let failing = summary::failing(results).map(|e| ("not met", e));
    let unmet: Vec<_> = failing.chain(summary::not_judged(results).map(|e| ("not judged", e))).collect();
    if !unmet.is_empty() {
        *out += "<ul class=\"remarks\">\n";
        for (label, e) in unmet {
            *out += &format!("<li><b class=\"bad\">{label}</b> {}</li>\n", escape(&summary::failure(e)));
        }
        *out += "</ul>\n";
    }
}

/// The time-delays of AF_XDP and the systems that they were measured on.
fn of_xdp(picture: &Picture<'_>, out: &mut String) {
    let blocks = crate::xdp::blocks(picture);
    if blocks.is_empty() {
        return;
    }
    *out += "<section class=\"cell\">\n";
    for block in blocks {
        match block {
            Block::Heading(_, text) => *out += &format!("<h2>{}</h2>", escape(&text)),
            Block::Sentence(first, text) if first.is_empty() => *out += &format!("<p>{}</p>", escape(&text)),
            Block::Sentence(first, text) => *out += &format!("<p><b>{}</b> {}</p>", escape(&first), escape(&text)),
            Block::Table(of) => *out += &table(&of, ""),
            Block::List(_) => {}
        }
    }
    *out += "</section>\n";
}

/// Ways into a virtual machine, stage by stage.
fn stages(picture: &Picture<'_>, out: &mut String) {
    let Some(stages) = crate::stages::of(picture, Some(THIN)) else { return };
    *out += &format!("<section class=\"cell\">\n<h2>{}</h2>", crate::stages::HEADING);
    *out += &table(&stages.table, &stages.says);
    *out += "</section>\n";
}

/// What receivers through AF_XDP cost, where there are any.
fn receivers(picture: &Picture<'_>, out: &mut String) {
    if let Some(receivers) = crate::xdp::receivers(picture, Some(THIN)) {
        *out += "<section class=\"cell\">\n<h2>Receivers</h2>\n";
        *out += &table(&receivers, crate::xdp::RECEIVERS);
        *out += "</section>\n";
    }
}

/// The reference's figures, behind the run's own: they are of other hardware.
fn beside(picture: &Picture<'_>, out: &mut String) {
    let Some(beside) = crate::reference::beside(picture) else { return };
    *out += &format!("<section class=\"cell\">\n<h2>{}</h2><p>{}</p>", escape(&beside.heading), escape(&beside.says));
    *out += &table(&beside.table, beside.note);
    *out += "</section>\n";
}

/// The leading metric's figures, large, of the stream that leads, where there is one cell; several
/// are compared in a table.
fn leading(picture: &Picture<'_>, out: &mut String) {
    let [cell] = picture.results.cells.as_slice() else { return };
    let streams = picture.facts.in_order(&cell.streams);
    let Some((who, stream)) = streams.first() else { return };
    let Some((name, metric)) = lead(stream).and_then(|name| stream.metrics.get_key_value(name)) else { return };
    let name = if streams.len() > 1 { format!("{who} {name}") } else { name.clone() };
    let columns = Column::few(std::iter::once(metric));
    let digits = column::digits(metric, &columns, run_digits(picture.results));
    let at = match (metric.max_seq, metric.max_trial) {
        (Some(seq), Some(trial)) => {
            format!(
                " <small>{} {}, trial {trial}</small>",
                picture.noun()[0],
                escape(&Value::Packet(seq).show(digits, Some(THIN)))
            )
        }
        _ => String::new(),
    };
    *out += &format!("<dl class=\"leading{}\">\n", if cell.valid { "" } else { " doubted" });
    *out += &format!("<div class=\"of\"><dt>{}</dt><dd>in {}</dd></div>\n", escape(&name), digits.unit.sign());
    for column in columns {
        let more = if column == Column::Max { &at } else { "" };
        let value = column.value(metric).show(digits, Some(THIN));
        *out += &format!("<div><dt>{}</dt><dd>{}{more}</dd></div>\n", column.title(), escape(&value));
    }
    *out += "</dl>\n";
}

/// What the reader chooses for the whole page: the metric of the pictures, of those that have any,
/// and the theme.
fn bar(picture: &Picture<'_>, out: &mut String) {
    let names = data::drawn(picture);
    let leading = data::leading(picture);
    *out += "<div class=\"bar\">\n";
    if !names.is_empty() {
        *out += "<fieldset>\n<legend>pictures of</legend>\n";
        for name in &names {
            let checked = if Some(*name) == leading { " checked" } else { "" };
            *out += &format!(
                "<label><input type=\"radio\" name=\"metric\" value=\"{0}\"{checked}><span>{0}</span></label>\n",
                escape(name)
            );
        }
        *out += "</fieldset>\n";
    }
    *out += "<button type=\"button\" id=\"theme\">dark</button>\n</div>\n\
             <noscript><p class=\"sent\">The pictures are drawn by a script, which is switched off here. Every figure \
             is in the tables.</p></noscript>\n";
}

const METRIC: &str = "<span class=\"metric\"></span>";

fn side_by_side(picture: &Picture<'_>, out: &mut String) {
    let cells = &picture.results.cells;
    let leading = data::leading(picture);
    if cells.iter().map(|cell| cell.streams.len()).sum::<usize>() < 2 || leading.is_none() {
        return;
    }
    *out += "<section class=\"cell\">\n<h2>Side by side</h2>\n";
    let streams = || cells.iter().flat_map(|cell| cell.streams.values().map(move |stream| (cell, stream)));
    let differ = |name: &str| streams().any(|(cell, of)| point_of(picture.results, name, cell, of).is_some());
    if leading.is_some_and(differ) {
        *out += "<p>rx_kernel was not taken at one point in all of these: where a title names its point, compare it only with those \
                 that name the same one.</p>\n";
    }
    *out += "<div class=\"figures\">\n";
    *out += &figure("cells", "", "Cells", &format!("{METRIC} on one scale"));
    *out += &figure(
        "cells-ccdf",
        "",
        "Cells, how many are later",
        &format!("% of {} above a value of {METRIC}", picture.noun()[1]),
    );
    *out += "</div>\n</section>\n";
}

fn of_cell(
    picture: &Picture<'_>,
    (cells, digits): (&Cells<'_>, Digits),
    i: usize,
    cell: &CellResult,
    out: &mut String,
) {
    let state = match (cell.valid, &cell.not_available) {
        (true, _) => "",
        (false, None) => " <span class=\"bad\">not valid</span>",
        (false, Some(_)) => " <small>not available</small>",
    };
    *out += &format!("<section class=\"cell\">\n<h2>{}{state}</h2>\n", escape(&title(&cell.id)));
    // Of a sole cell the reasons are the run's, and stand at the top.
    let sole = picture.results.cells.len() == 1;
    remarks(
        cells.remarks_below(cell).into_iter().filter(|remark| !sole || remark.level < Level::Invalid).collect(),
        out,
    );
    // Rows without a single trial would only say so over and over; the remark says why once.
    let ran = !cell.trials.is_empty();
    for (k, (name, stream)) in picture.facts.in_order(&cell.streams).into_iter().enumerate().filter(|_| ran) {
        if cell.streams.len() > 1 || picture.facts.pair(&cell.id, name).is_some() {
            *out += &format!("<h3>{}</h3>\n", escape(&picture.facts.called(&cell.id, name)));
        }
        of_stream(picture, (cell, digits), &format!(" data-cell=\"{i}\" data-stream=\"{k}\""), (name, stream), out);
    }
    if data::gates(picture.facts, cell).is_some() {
        let place = format!(" data-cell=\"{i}\" data-stream=\"0\" class=\"wide\"");
        *out += "<div class=\"figures\">\n";
        *out += &figure("gates", &place, "Gates", "when in a cycle packets came to the driver");
        *out += "</div>\n";
    }
    if let Some(classes) = document::classes(cell, Some(THIN)) {
        *out += &table(&classes, "traffic classes");
    }
    if let Some(loads) = crate::loads::table(&cell.loads, Some(THIN)) {
        *out += &table(&loads, "background load");
    }
    let more = behind_the_figures(picture, cell);
    if !more.is_empty() {
        *out += &format!(
            "<details><summary>trials, stages, latest {}, threads, evidence</summary>\n{more}</details>\n",
            picture.noun()[1]
        );
    }
    *out += "</section>\n";
}

/// What is folded away below a cell's figures: trials, traces, threads, CPUs, evidence.
fn behind_the_figures(picture: &Picture<'_>, cell: &CellResult) -> String {
    let mut more = String::new();
    for trials in document::trials(picture.facts, cell, Some(THIN)).iter().filter(|_| cell.trials.len() > 1) {
        more += &table(trials, "trial by trial");
    }
    for (name, _) in picture.facts.in_order(&cell.streams) {
        more += &of_traces(picture, cell, name);
    }
    if !cell.placement.is_empty() {
        more += &table(
            &document::placement(cell),
            "where the threads ran; run-queue wait: ready to run while others had the CPU",
        );
        if let Some(softirq) = document::softirq(cell) {
            more += &table(&softirq, "where packets came from the device (softirq)");
        }
        if let Some(cpus) = document::cpus(cell, Some(THIN)) {
            more += &table(&cpus, "what the CPUs did while the trials ran: packets received, softirqs, interrupts");
        }
        if let Some(machines) = document::machines(cell) {
            more += &table(&machines, "what the virtual machines cost while the trials ran");
        }
    }
    // A verdict that is printed above and has no evidence is not repeated.
    let is_news =
        |verdict: &&Verdict| !matches!(&*verdict.id, "refused" | "not-available") || !verdict.evidence.is_empty();
    let verdicts: Vec<Verdict> = cell.verdicts.iter().filter(is_news).cloned().collect();
    if !verdicts.is_empty() {
        more += &table(&document::verdicts(&verdicts), "verdicts with their evidence");
    }
    more
}

fn of_stream(
    picture: &Picture<'_>,
    (cell, digits): (&CellResult, Digits),
    place: &str,
    (name, stream): (&String, &StreamResult),
    out: &mut String,
) {
    *out += &table(&document::metrics(stream, digits, Some(THIN)), "");
    let passes = crate::copies::passes(stream, Some(THIN));
    let mut became = passes.unwrap_or_else(|| document::outcomes(stream, Some(THIN)));
    for (label, says) in stream.copy.iter().flat_map(|copy| crate::copies::lines(copy, Some(THIN))) {
        became += &format!(" · {label} {says}");
    }
    for part in summary::replies(stream, Some(THIN)) {
        became += &format!(" · {part}");
    }
    *out += &format!("<p class=\"outcomes\">{}</p>\n", escape(&became));
    if let Some(Block::List(entries)) = document::reasons(stream) {
        *out += "<ul class=\"reasons\">\n";
        for (metric, says) in entries {
            *out += &format!("<li><b>{}</b> {}</li>\n", escape(&metric), escape(&says));
        }
        *out += "</ul>\n";
    }
    let measured = in_order(stream).into_iter().filter(|(_, metric)| metric.count > 0).map(|(metric, _)| metric);
    let measured = measured.filter(|name| !name.ends_with(ABOVE_MINIMUM));
    let (drawn, others): (Vec<_>, Vec<_>) = measured.partition(|metric| data::is_drawn(picture, cell, name, metric));
    if !others.is_empty() {
        *out += &format!(
            "<p class=\"outcomes\">No pictures of {}: the page draws metrics between points only. Each packet's value is in \
             <code>samples.parquet</code>.</p>\n",
            escape(&others.join(", "))
        );
    }
    if drawn.is_empty() {
        return;
    }
    let [_, many] = picture.noun();
    *out += "<div class=\"figures\">\n";
    *out += &figure("histogram", place, "Histogram", &format!("{many} per bin of {METRIC}, logarithmic"));
    *out += &figure("ccdf", place, "How many are later", &format!("% of {many} above a value of {METRIC}"));
    let traces = data::of_stream(picture.traces, cell, name);
    if !traces.is_empty() {
        let wide = format!("{place} class=\"wide\"");
        *out += &figure("time", &wide, "Over time", METRIC);
        if !data::hot(&traces).is_empty() {
            *out += &figure("heat", &wide, &format!("Where {many} lie in time"), METRIC);
        }
        *out += &copies::figures(&traces, &wide);
        *out += &figure("trials", place, "Trials", &format!("{METRIC} on one scale"));
        // From the one point of a pass to the other there is one stage.
        if stream.copy.is_none() {
            *out += &figure("stages", place, "Stages", "from point to point, over received packets");
        }
    }
    *out += "</div>\n";
}

/// What the pictures over time and of the stages show, as tables.
fn of_traces(picture: &Picture<'_>, cell: &CellResult, stream: &str) -> String {
    let who = if cell.streams.len() > 1 { format!("{stream}: ") } else { String::new() };
    let mut out = String::new();
    let found = data::stages_of(picture, cell, stream);
    let is_copy = cell.streams.get(stream).is_some_and(|stream| stream.copy.is_some());
    if !found.stages.is_empty() && !is_copy {
        let mut parts = Table::new(1, &["stage", "mean", "share of the mean", "p50", "p99", "max"]);
        let shapes = || found.stages.iter().map(|stage| &stage.shape);
        let mean_of = |mean: f64| mean.round() as i64;
        let means = figure::about_all(shapes().filter_map(|shape| shape.mean_ns()).map(mean_of));
        let [p50, p99] = [0.5, 0.99].map(|q| {
            let show = figure::about_all(shapes().filter_map(move |shape| shape.quantile_ns(q)));
            move |ns: Option<i64>| ns.map_or(figure::ABSENT.to_owned(), &show)
        });
        let most = figure::about_all(shapes().map(|shape| shape.max_ns));
        let absent = || figure::ABSENT.to_owned();
        let part = |share: f64| format!("{:.1} %", 100.0 * share);
        for data::Stage { name, shape, share } in &found.stages {
            let row = [
                name.clone(),
                means(mean_of(shape.mean_ns().unwrap_or(0.0))),
                share.map_or_else(absent, part),
                p50(shape.quantile_ns(0.5)),
                p99(shape.quantile_ns(0.99)),
                most(shape.max_ns),
            ];
            parts.rows.push(row.to_vec());
        }
        if let Some(data::Undivided { names, share }) = &found.undivided {
            let name = format!("{}: cannot be divided", names.join(" and "));
            parts.rows.push(vec![name, absent(), part(*share), absent(), absent(), absent()]);
        }
        // Without one of them they are no parts of a whole.
        let sum = if found.are_all() { "; their means add up, their percentiles do not" } else { "" };
        out += &table(&parts, &format!("{who}stages, received packets with both stamps{sum}{}", found.by_clocks));
    }
    let traces = data::of_stream(picture.traces, cell, stream);
    let leading = cell.streams.get(stream).and_then(lead);
    let mut latest: Vec<(i64, u32, i64)> = Vec::new();
    for trace in traces {
        for (_, line) in trace.metrics.iter().filter(|(metric, _)| Some(&*metric.to_string()) == leading) {
            latest.extend(line.outliers(OUTLIERS).iter().map(|bucket| (bucket.max_ns, trace.n, bucket.max_seq)));
        }
    }
    latest.sort_by_key(|(ns, trial, seq)| (std::cmp::Reverse(*ns), *trial, *seq));
    latest.truncate(OUTLIERS);
    if let (Some((worst, ..)), Some(leading)) = (latest.first(), leading) {
        let [one, many] = picture.noun();
        let mut packets = Table::new(0, &[one, "trial", leading]);
        packets.rows.extend(latest.iter().map(|(ns, trial, seq)| {
            let packet = figure::count(u64::try_from(*seq).unwrap_or(0), THIN);
            vec![format!("#{packet}"), trial.to_string(), figure::exact_like(*ns, *worst)]
        }));
        out += &table(&packets, &format!("{who}the {many} that stand out, each from a time of its own"));
    }
    out
}

fn made_by(picture: &Picture<'_>, out: &mut String) {
    *out += "<section class=\"made\">\n<h2>What made these figures</h2>\n";
    if !picture.results.expectations.is_empty() {
        *out += &table(&document::expectations(picture.results), "expectations");
    }
    if !picture.manifest.ruler.is_empty() {
        *out += &table(&document::ruler(picture.manifest), "ruler, before and after the trials");
    }
    *out += &table(&document::machine(picture.manifest), "machine");
    let dir = picture.run_dir.map_or("the run folder".to_owned(), |dir| dir.trim_end_matches('/').to_owned());
    *out += &format!(
        "<p>Every command that built and removed the set-up is in <code>{}/commands.sh</code>.</p>\n",
        escape(&dir)
    );
    for (heading, text) in [("commands", picture.commands), ("effective experiment", picture.experiment)] {
        let Some(text) = text.filter(|text| !text.is_empty()) else { continue };
        let shown = &text[..text.floor_char_boundary(LONGEST_TEXT)];
        let cut = if shown.len() < text.len() { "\n… cut here; the file in the run folder is whole\n" } else { "" };
        *out += &format!(
            "<details><summary>{heading}</summary>\n<pre tabindex=\"0\">{}{cut}</pre>\n</details>\n",
            escape(shown)
        );
    }
    *out += "</section>\n";
}

fn remarks(remarks: Vec<summary::Remark>, out: &mut String) {
    if remarks.is_empty() {
        return;
    }
    *out += "<ul class=\"remarks\">\n";
    for remark in remarks {
        let class = match remark.level {
            Level::Invalid => "bad",
            Level::Warning => "doubtful",
            Level::Ok | Level::Note => "plain",
        };
        *out += &format!("<li><b class=\"{class}\">{}</b> {}</li>\n", escape(&remark.label), escape(&remark.says));
    }
    *out += "</ul>\n";
}
