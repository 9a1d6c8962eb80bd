// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that the page is made of: a table, a place for a picture.

use crate::block::Table;
use tardy_model::harmless::xml as escape;

/// Figures, and headings, of more characters take two places of a card on a narrow page, so that
/// they do not break.
const LONG: (usize, usize) = (9, 12);

/// A place for a picture, which the script fills.
pub(super) fn figure(kind: &str, place: &str, heading: &str, says: &str) -> String {
    format!(
        "<figure data-kind=\"{kind}\"{place}><figcaption><b>{heading}</b> <span class=\"says\">{says}</span></figcaption></figure>\n"
    )
}

/// A table in a box of its own. Of more than three columns, each row becomes a card on a narrow
/// window, in which every figure has its column's name.
pub(super) fn table(table: &Table, caption: &str) -> String {
    let class = |i: usize| if i < table.words { " class=\"w\"" } else { "" };
    let mut out = String::from("<div class=\"box\" tabindex=\"0\">");
    let cards = table.head.len() > 3;
    out += if cards { "<table class=\"cards\">\n" } else { "<table>\n" };
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
                _ if cards => {
                    let long = text.chars().count() > LONG.0 || table.head[i].chars().count() > LONG.1;
                    let class = if long && i >= table.words { " class=\"l\"" } else { class(i) };
                    format!("<td{class} data-of=\"{}\">{text}</td>", escape(&table.head[i]))
                }
                _ => format!("<td{}>{text}</td>", class(i)),
            };
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table></div>\n"
}
