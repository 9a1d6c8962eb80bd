// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several cells say alike, said once: with the cells' names, and the figures of the first.

use crate::column::title;
use crate::picture::Picture;
use crate::summary::{self, Remark};
use tardy_model::result::CellResult;

/// Cells named in one remark.
const NAMED: usize = 2;

/// The remarks on all cells that are `wanted`, the weightiest first. Those with the same label and
/// the same words but for figures are one.
pub(crate) fn remarks(picture: &Picture<'_>, wanted: impl Fn(&CellResult, &Remark) -> bool) -> Vec<Remark> {
    let mut told: Vec<(Remark, Vec<&str>)> = Vec::new();
    for cell in &picture.results.cells {
        for remark in summary::of_cell(cell, picture.manifest).into_iter().filter(|remark| wanted(cell, remark)) {
            let alike = |other: &Remark| other.label == remark.label && kind(&other.says) == kind(&remark.says);
            match told.iter_mut().find(|(other, _)| alike(other)) {
                Some((_, cells)) => cells.push(&cell.id),
                None => told.push((remark, vec![&cell.id])),
            }
        }
    }
    told.sort_by_key(|(remark, _)| std::cmp::Reverse(remark.level));
    told.into_iter()
        .map(|(mut remark, cells)| {
            let named: Vec<String> = cells.iter().take(NAMED).map(|id| title(id)).collect();
            let more = match cells.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let example = if cells.len() > 1 { ", in the first: " } else { ": " };
            remark.says = format!("{}{more}{example}{}", named.join("; "), remark.says);
            remark
        })
        .collect()
}

/// A sentence without its figures, to see that two differ only in those.
fn kind(says: &str) -> String {
    says.chars().filter(|c| !c.is_ascii_digit() && !".,  –".contains(*c)).collect()
}
