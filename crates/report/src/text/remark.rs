// SPDX-License-Identifier: MIT OR Apache-2.0
//! A remark as a labelled line, inked by its level.

use super::page::{Ink, Page};
use crate::summary::Remark;
use tardy_model::verdict::Level;

pub(super) fn remark(remark: &Remark, indent: usize, label: usize, page: &mut Page) {
    let ink = match remark.level {
        Level::Invalid => Ink::Bad,
        Level::Warning => Ink::Doubtful,
        Level::Ok | Level::Note => Ink::Plain,
    };
    page.labelled(indent, &remark.label, label, &remark.says, ink);
}
