// SPDX-License-Identifier: MIT OR Apache-2.0
//! A metric's histogram on two logarithmic axes. The curve is SVG, stretched to the box; labels are text beside it, so that they
//! keep their size in every window.

use super::escape;
use crate::bins::Scale;
use crate::column::{Column, Value};
use crate::figure;
use tardy_model::result::MetricResult;

const BINS: usize = 160;
/// A bin with one packet stands visibly above the axis.
const FLOOR: f64 = 0.5;
/// Share of the width that a character of a mark's label takes in a narrow window, and its margins.
const LETTER: f64 = 0.024;
const MARGIN: f64 = 0.06;

/// The plot of `metric`; nothing without buckets. `limits`: names and values in ns of what the user allows.
pub(super) fn draw(name: &str, metric: &MetricResult, bars: &[(i64, i64, u64)], limits: &[(String, i64)]) -> String {
    let Some(scale) = Scale::over(bars.iter()) else { return String::new() };
    let counts = scale.bins(bars, BINS);
    let most = counts.iter().copied().fold(1.0, f64::max);
    let decades = most.log10().ceil().max(1.0);
    let height = |count: f64| ((count / FLOOR).log10() / (10f64.powf(decades) / FLOOR).log10()).clamp(0.0, 1.0);

    let mut path = String::from("M0 100");
    for (i, &count) in counts.iter().enumerate() {
        let top = if count > 0.0 { 100.0 - 100.0 * height(count.max(1.0)) } else { 100.0 };
        let (left, right) = (i as f64 * 1000.0 / BINS as f64, (i + 1) as f64 * 1000.0 / BINS as f64);
        path += &format!("L{left:.2} {top:.2}L{right:.2} {top:.2}");
    }
    path += "L1000 100Z";

    let (mut lines, mut labels) = (String::new(), String::new());
    let ticks = scale.ticks();
    // Where whole decades alone make an axis, a narrow window shows only those.
    let decades_do = ticks.iter().filter(|(_, whole)| *whole).count() >= 3;
    for (ns, whole) in ticks {
        let at = scale.at(ns as f64);
        let class = if whole || !decades_do { "x" } else { "x minor" };
        lines += &format!("<path class=\"grid\" d=\"M{0:.2} 0V100\"/>", at * 1000.0);
        labels += &format!("<span class=\"{class}\" style=\"left:{:.2}%\">{}</span>", at * 100.0, figure::exact(ns));
    }
    for decade in 0..=decades as i32 {
        let top = 100.0 - 100.0 * height(10f64.powi(decade));
        lines += &format!("<path class=\"grid\" d=\"M0 {top:.2}H1000\"/>");
        labels += &format!("<span class=\"y\" style=\"top:{top:.2}%\">{}</span>", decade_name(decade));
    }

    let marks = marks(metric, limits, &scale);
    let rows = marks.iter().map(|mark| mark.row + 1).max().unwrap_or(0);
    let (mut flags, mut rules) = (String::new(), String::new());
    for mark in &marks {
        let kind = if mark.limit { "limit" } else { "mark" };
        rules += &format!("<path class=\"{kind}\" d=\"M{:.2} 0V100\"/>", mark.at * 1000.0);
        let side = if mark.leftward {
            format!("right:{:.2}%", 100.0 - mark.at * 100.0)
        } else {
            format!("left:{:.2}%", mark.at * 100.0)
        };
        let class = if mark.leftward { " leftward" } else { "" };
        flags +=
            &format!("<span class=\"{kind}{class}\" style=\"{side};--row:{}\">{}</span>", mark.row, escape(&mark.text));
    }
    format!(
        "<figure>\n<figcaption>{}: packets per bin; both axes logarithmic</figcaption>\n\
         <div class=\"plot\" style=\"--rows:{rows}\"><div class=\"flags\">{flags}</div><div class=\"area\">\
         <svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"histogram of {0}\">\
         {lines}<path class=\"curve\" d=\"{path}\"/>{rules}</svg>{labels}</div></div>\n</figure>\n",
        escape(name)
    )
}

fn decade_name(decade: i32) -> String {
    match decade {
        0..=2 => 10u32.pow(decade as u32).to_string(),
        3..=5 => format!("{}k", 10u32.pow(decade as u32 - 3)),
        6..=8 => format!("{}M", 10u32.pow(decade as u32 - 6)),
        _ => format!("1e{decade}"),
    }
}

struct Mark {
    at: f64,
    text: String,
    limit: bool,
    /// The label stands to the left of its line, where the right edge is near.
    leftward: bool,
    /// Labels that would overlap stand in different rows.
    row: usize,
}

fn marks(metric: &MetricResult, limits: &[(String, i64)], scale: &Scale) -> Vec<Mark> {
    let columns = [Column::Quantile(0), Column::Quantile(2), Column::Quantile(3), Column::Quantile(4), Column::Max];
    let figures = columns.into_iter().filter_map(|column| match column.value(metric) {
        Value::Ns(ns) => Some((ns, format!("{} {}", column.title(), figure::about(ns)), false)),
        _ => None,
    });
    let limits = limits.iter().map(|(name, ns)| (*ns, format!("{name} {}", figure::exact(*ns)), true));
    let mut found: Vec<_> = figures.chain(limits).map(|(ns, text, limit)| (scale.at(ns as f64), text, limit)).collect();
    // A limit far beyond the data has no place on the axis; it stands in the table.
    found.retain(|(at, ..)| (0.0..=1.0).contains(at));
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut taken: Vec<f64> = Vec::new();
    let mut marks = Vec::new();
    for (at, text, limit) in found {
        let width = text.chars().count() as f64 * LETTER + MARGIN;
        let leftward = at > 1.0 - width;
        let (from, to) = if leftward { (at - width, at) } else { (at, at + width) };
        let row = taken.iter().position(|end| *end <= from).unwrap_or(taken.len());
        if row == taken.len() {
            taken.push(to);
        } else {
            taken[row] = to;
        }
        marks.push(Mark { at, text, limit, leftward, row });
    }
    marks
}
