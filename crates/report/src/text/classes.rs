// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic classes of a cell: what left inside its windows, and what the queue disciplines did. A
//! line each, and one for all that saw no packet.

use super::page::Page;
use crate::figure::{self, SPACE};
use tardy_model::result::{CellResult, ClassResult};

/// Verdicts' labels stand as wide.
const LABEL: usize = 11;

pub(super) fn draw(cell: &CellResult, page: &mut Page) {
    let (busy, idle): (Vec<&ClassResult>, Vec<&ClassResult>) =
        cell.classes.iter().partition(|class| class.judged + class.packets + class.drops > 0);
    for class in busy {
        let label = class.class.map_or("queue".to_owned(), |class| format!("class {class}"));
        page.labelled(2, &label, LABEL, &parts(class).join("  "), super::page::Ink::Plain);
    }
    // A class that nothing came to has nothing else to tell, but that it is one.
    let idle: Vec<String> = idle.iter().filter_map(|class| class.class).map(|class| class.to_string()).collect();
    match &idle[..] {
        [] => {}
        [one] => page.labelled(2, &format!("class {one}"), LABEL, "no packet", super::page::Ink::Dim),
        several => {
            page.labelled(2, "classes", LABEL, &format!("{}: no packet", several.join(", ")), super::page::Ink::Dim);
        }
    }
}

fn parts(class: &ClassResult) -> Vec<String> {
    let count = |n| figure::count(n, SPACE);
    let mut parts = Vec::new();
    if class.judged > 0 {
        parts.push(format!("inside {} of {}", count(class.inside), count(class.judged)));
        for (what, n) in [("early", class.early), ("late", class.late)] {
            parts.extend((n > 0).then(|| format!("{what} {}", count(n))));
        }
    }
    if !class.qdiscs.is_empty() {
        parts.push(format!(
            "{}: passed {}  dropped {}  overlimits {}",
            class.qdiscs.join(", "),
            count(class.packets),
            count(class.drops),
            count(class.overlimits)
        ));
    }
    parts
}
