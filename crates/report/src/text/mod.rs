// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table for a terminal: figures line up, units stand once, colour only where it means
//! something.

mod cell;
mod compact;
mod page;

use crate::block::Table;
use crate::closing;
use crate::column::run_digits;
use crate::figure;
use crate::figure::SPACE;
use crate::picture::{Options, Picture, ReportError};
use crate::summary::{self, Cells};
use page::{Ink, Layout, Page, remark};
use tardy_model::verdict::Level;

/// Behind the name of a cell in a table without room for a column of that.
const NOT_VALID: &str = "not valid";
/// More cells than this are compared in one table instead of a block each.
const BLOCKS: usize = 6;
/// Where the texts of the closing lines begin.
const CLOSING: usize = 13;

pub(crate) fn make(picture: &Picture<'_>, options: &Options) -> Result<String, ReportError> {
    let mut page = Page::new(options);
    let cells = picture.results.cells.len();
    let layout = (cells <= BLOCKS).then(|| Layout::of(picture.results, page.width()));
    if let Some(layout) = &layout {
        page.narrow(layout.total());
    }
    head(picture, &mut page);
    page.blank();
    match &layout {
        Some(layout) => cell::draw(picture, layout, &mut page),
        None => compact::draw(picture, &mut page),
    }
    let all = Cells::of(picture);
    for cell in all.not_run() {
        page.blank();
        page.line(&crate::column::title(cell));
        let why = all.refused(cell);
        remark(&why.unwrap_or(summary::Remark::new("trials", Level::Warning, "none finished")), 2, 11, &mut page);
    }
    if let Some(smallest) = crate::xdp::smallest(picture) {
        page.blank();
        page.labelled(0, "smallest min", CLOSING, &smallest, Ink::Plain);
    }
    for (table, says) in [
        crate::xdp::receivers(picture, Some(SPACE)).map(|table| (table, Some(crate::xdp::RECEIVERS))),
        crate::copies::table(picture, Some(SPACE)).filter(|_| cells > 1).map(|table| (table, None)),
    ]
    .into_iter()
    .flatten()
    {
        side_by_side(&table, says, &mut page);
    }
    stages(picture, &mut page);
    if let Some((id, lines)) = crate::reference::own_figures(picture) {
        page.blank();
        for (i, line) in lines.iter().enumerate() {
            page.labelled(0, if i == 0 { id } else { "" }, CLOSING, line, Ink::Dim);
        }
    }
    closing(picture, layout.as_ref(), &mut page);
    Ok(page.finish())
}

fn head(picture: &Picture<'_>, page: &mut Page) {
    let parts = [picture.results.name.clone(), summary::sent(picture.facts), summary::amount(picture, SPACE)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let elapsed = picture.elapsed.map(figure::clock).unwrap_or_default();
    let one = parts.join("   ");
    if page::columns(&one) + 2 + page::columns(&elapsed) <= page.width() {
        page.spread(&one, &elapsed, Ink::Plain);
    } else {
        page.spread(&parts[0], &elapsed, Ink::Plain);
        page.labelled(2, "", 0, &parts[1..].join("   "), Ink::Plain);
    }
}

/// A table of all cells, and what is to be said of it: what receivers through AF_XDP cost, or how
/// the threads of copies went together.
fn side_by_side(table: &Table, says: Option<&str>, page: &mut Page) {
    let widths = table.widths(page::columns);
    page.blank();
    for row in [&table.head].into_iter().chain(&table.rows) {
        let figures = row.iter().zip(&widths).skip(1).map(|(text, width)| format!("  {text:>width$}"));
        page.line(&format!("  {:<width$}{}", row[0], figures.collect::<String>(), width = widths[0]));
    }
    if let Some(says) = says {
        page.labelled(2, "", 0, says, Ink::Dim);
    }
}

/// Ways into a virtual machine, stage by stage, as many stages as there is room for.
fn stages(picture: &Picture<'_>, page: &mut Page) {
    let Some(stages) = crate::stages::of(picture, Some(SPACE)) else { return };
    let (table, widths) = (&stages.table, stages.table.widths(page::columns));
    let doubted = |row: &[String]| if row[1] == "yes" { row[0].clone() } else { format!("{} ({})", row[0], NOT_VALID) };
    let names = [table.head[0].clone()].into_iter().chain(table.rows.iter().map(|row| doubted(row)));
    let names: Vec<String> = names.collect();
    let wide = names.iter().map(|name| page::columns(name)).max().unwrap_or(0);
    // Of a stage both columns or none.
    let (mut room, mut shown) = (page.width().saturating_sub(2 + wide), Vec::<usize>::new());
    let columns = (2..widths.len()).collect::<Vec<_>>();
    let (pairs, counts) = columns.split_at(2 * stages.pairs);
    for group in pairs.chunks(2).chain(counts.chunks(1)) {
        let needed = group.iter().map(|at| 2 + widths[*at]).sum::<usize>();
        if needed > room {
            break;
        }
        room -= needed;
        shown.extend(group);
    }
    page.blank();
    for (name, row) in names.iter().zip([&table.head].into_iter().chain(&table.rows)) {
        let figures = shown.iter().map(|at| format!("  {:>width$}", row[*at], width = widths[*at])).collect::<String>();
        page.line(&format!("  {name:<wide$}{figures}"));
    }
    page.labelled(2, "", 0, &stages.says, Ink::Dim);
    if shown.len() < columns.len() {
        page.labelled(2, "", 0, "More columns than fit here: tardy report RUN --format org", Ink::Dim);
    }
}

fn closing(picture: &Picture<'_>, layout: Option<&Layout>, page: &mut Page) {
    let results = picture.results;
    let said = results.cells.last().is_some_and(|cell| !Cells::of(picture).remarks_below(cell).is_empty());
    if !said || layout.is_none() {
        page.blank();
    }
    for run in summary::of_run(results) {
        remark(&run, 0, CLOSING, page);
    }
    page.labelled(0, "ruler", CLOSING, &summary::ruler(picture), Ink::Dim);

    let ink = match (results.valid, closing::cut(picture)) {
        (true, None) => Ink::Good,
        (true, Some(_)) => Ink::Doubtful,
        (false, _) => Ink::Bad,
    };
    let (state, says) = (closing::state(results), closing::says(picture));
    let judged = format!("{state:CLOSING$}{says}");
    let files = picture.run_dir.map(|dir| format!("page: {}/report.html", dir.trim_end_matches('/')));
    let files = files.unwrap_or_default();
    let fits = page::columns(&judged) + 2 + page::columns(&files) <= page.width();
    if fits {
        page.spread_inked(state, &judged, &files, ink);
    } else {
        page.labelled(0, state, CLOSING, &says, ink);
    }
    let digits = run_digits(results);
    for failing in summary::failing(results) {
        page.labelled(0, "not met", CLOSING, &summary::failure_below(failing, digits), Ink::Bad);
    }
    for open in summary::not_judged(results) {
        page.labelled(0, "not judged", CLOSING, &summary::failure_below(open, digits), Ink::Doubtful);
    }
    if let Some(open) = closing::open(results) {
        page.labelled(0, "not judged", CLOSING, &open, Ink::Doubtful);
    }
    if !fits {
        page.uncut(CLOSING, &files);
    }
    let hidden = layout.map(|layout| layout.hidden()).unwrap_or_default();
    let all = format!("tardy report {} --format md", picture.run_dir.unwrap_or("RUN"));
    if !hidden.is_empty() {
        page.labelled(0, "narrow", CLOSING, &format!("{hidden} left out; all figures:"), Ink::Dim);
        page.uncut(CLOSING, &all);
    } else if layout.is_none() {
        page.labelled(0, "more", CLOSING, "all metrics of every cell:", Ink::Dim);
        page.uncut(CLOSING, &all);
    }
}
