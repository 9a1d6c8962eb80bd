// SPDX-License-Identifier: MIT OR Apache-2.0
//! One page that needs nothing but itself: no script, no request. Verdict first, then each cell's figures and shape, then what
//! made them.

mod chart;

use crate::column::{cell_unit, lead, title};
use crate::document::{self, Block, Table};
use crate::figure::{self, THIN};
use crate::{Options, Picture, ReportError, summary};
use tardy_model::result::{CellResult, StreamResult};
use tardy_model::verdict::Level;

const STYLE: &str = include_str!("style.css");

pub(crate) fn make(picture: &Picture<'_>, _: &Options) -> Result<String, ReportError> {
    let results = picture.results;
    let name = escape(&results.name);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{name} · {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        summary::state(results)
    );
    head(picture, &mut out);
    out += "<div class=\"cells\">\n";
    for cell in &results.cells {
        of_cell(picture, cell, &mut out);
    }
    for id in summary::not_run(picture) {
        let why = summary::refused(id, picture.manifest).map_or("none finished".to_owned(), |remark| remark.says);
        out += &format!(
            "<section class=\"cell\"><h2>{}</h2><p class=\"bad\">not run: {}</p></section>\n",
            escape(&title(id)),
            escape(&why)
        );
    }
    out += "</div>\n";
    made_by(picture, &mut out);
    out += "</main>\n</body>\n</html>\n";
    Ok(out)
}

fn head(picture: &Picture<'_>, out: &mut String) {
    let results = picture.results;
    let class = if results.valid { "good" } else { "bad" };
    let failed = results.valid && results.expectations_met == Some(false);
    let mut sent = vec![summary::sent(picture.facts), summary::amount(picture, THIN)];
    sent.extend(picture.elapsed.map(figure::clock));
    sent.push(picture.manifest.started_utc.clone());
    sent.retain(|part| !part.is_empty());
    *out +=
        &format!("<header>\n<h1>{}</h1>\n<p class=\"sent\">{}</p>\n", escape(&results.name), escape(&sent.join(" · ")));
    *out += &format!(
        "<p class=\"state\"><strong class=\"{class}\">{}</strong> <span{}>{}</span></p>\n",
        summary::state(results),
        if failed { " class=\"bad\"" } else { "" },
        escape(&summary::expectations(results))
    );
    if let (true, Some(answer)) = (results.valid, summary::answer(picture)) {
        *out += &format!("<p class=\"answer\">{}</p>\n", escape(&answer));
    }
    remarks(summary::of_verdicts(&results.verdicts), out);
    if summary::failing(results).next().is_some() {
        *out += "<ul class=\"remarks\">\n";
        for failing in summary::failing(results) {
            *out += &format!("<li><b class=\"bad\">not met</b> {}</li>\n", escape(&summary::failure(failing)));
        }
        *out += "</ul>\n";
    }
    if let Some(comparison) = document::comparison(results, Some(THIN)) {
        *out += &table(&comparison, "");
    }
    *out += &format!("<p class=\"ruler\">ruler: {}</p>\n</header>\n", escape(&summary::ruler(picture.manifest)));
}

fn of_cell(picture: &Picture<'_>, cell: &CellResult, out: &mut String) {
    let state = if cell.valid { "" } else { " <span class=\"bad\">not valid</span>" };
    *out += &format!("<section class=\"cell\">\n<h2>{}{state}</h2>\n", escape(&title(&cell.id)));
    for (name, stream) in &cell.streams {
        if cell.streams.len() > 1 {
            *out += &format!("<h3>{}</h3>\n", escape(name));
        }
        of_stream(picture, cell, name, stream, out);
    }
    remarks(summary::of_cell(cell, picture.manifest), out);
    let mut more = String::new();
    if let Some(trials) = document::trials(cell, Some(THIN)).filter(|_| cell.trials.len() > 1) {
        more += &table(&trials, "trial by trial");
    }
    if !cell.placement.is_empty() {
        more += &table(&document::placement(cell), "where the threads ran");
    }
    if !cell.verdicts.is_empty() {
        more += &table(&document::verdicts(&cell.verdicts), "verdicts with their evidence");
    }
    if !more.is_empty() {
        *out += &format!("<details><summary>trials, threads, evidence</summary>\n{more}</details>\n");
    }
    *out += "</section>\n";
}

fn of_stream(picture: &Picture<'_>, cell: &CellResult, name: &str, stream: &StreamResult, out: &mut String) {
    if let Some(metric) = lead(std::iter::once(stream)) {
        let bars = (picture.bars)(&cell.id, name, metric);
        let limits: Vec<(String, i64)> = picture
            .results
            .expectations
            .iter()
            .filter(|e| e.cell == cell.id && e.stream == name && e.metric == metric)
            .filter_map(|e| Some((format!("limit of {}", e.of), e.limit_ns?)))
            .collect();
        *out += &chart::draw(metric, &stream.metrics[metric], &bars, &limits);
    }
    *out += &table(&document::metrics(stream, cell_unit(cell), Some(THIN)), "");
    *out += &format!("<p class=\"outcomes\">{}</p>\n", escape(&document::outcomes(&stream.outcomes)));
    if let Some(Block::List(entries)) = document::reasons(stream) {
        *out += "<ul class=\"reasons\">\n";
        for (metric, says) in entries {
            *out += &format!("<li><b>{}</b> {}</li>\n", escape(&metric), escape(&says));
        }
        *out += "</ul>\n";
    }
}

fn made_by(picture: &Picture<'_>, out: &mut String) {
    *out += "<section class=\"made\">\n<h2>What made these figures</h2>\n";
    if !picture.results.expectations.is_empty() {
        *out += &table(&document::expectations(picture.results), "expectations");
    }
    if !picture.manifest.ruler.is_empty() {
        *out += &table(&document::ruler(picture.manifest), "ruler, before the trials");
    }
    *out += &table(&document::machine(picture.manifest), "machine");
    let dir = picture.run_dir.map_or("the run folder".to_owned(), |dir| dir.trim_end_matches('/').to_owned());
    *out += &format!(
        "<p>Every command that built and removed the set-up stands in <code>{}/commands.sh</code>.</p>\n",
        escape(&dir)
    );
    if let Some(experiment) = picture.experiment {
        *out += &format!(
            "<details><summary>effective experiment</summary>\n<pre>{}</pre>\n</details>\n",
            escape(experiment)
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

/// A table in a box of its own, which scrolls sideways where the window is too narrow.
fn table(table: &Table, caption: &str) -> String {
    let class = |i: usize| if i < table.words { " class=\"w\"" } else { "" };
    let mut out = String::from("<div class=\"box\" tabindex=\"0\"><table>\n");
    if !caption.is_empty() {
        out += &format!("<caption>{}</caption>\n", escape(caption));
    }
    out += "<thead><tr>";
    for (i, text) in table.head.iter().enumerate() {
        out += &format!("<th scope=\"col\"{}>{}</th>", class(i), escape(text));
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        out += "<tr>";
        for (i, text) in row.iter().enumerate() {
            let text = escape(text);
            out += &match i {
                0 => format!("<th scope=\"row\" class=\"w\">{text}</th>"),
                _ => format!("<td{}>{text}</td>", class(i)),
            };
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table></div>\n"
}

/// Text that stays text, in an element and in a quoted attribute.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
