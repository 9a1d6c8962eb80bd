// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress line on a terminal; nothing in a pipe.

use crate::exit::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;
use tardy_engine::live::Digest;
use tardy_model::point::Metric;
use tardy_model::stream::Side;

/// One line that shows which trial runs, how far it is, and how late its packets are so far.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shown if stderr is a terminal.
    pub fn new() -> Self {
        let target =
            if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{prefix:.bold}  {wide_bar:.dim} {percent:>3} %  {msg}  {elapsed:>4}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━━─"));
        bar.enable_steady_tick(Duration::from_millis(250));
        Progress { bar }
    }

    pub fn trial(&self, cell: &str, n: u32, order: u32, of: u32) {
        self.bar.set_prefix(format!("{cell} trial {n} ({}/{of})", order + 1));
        self.bar.set_message(String::new());
        self.bar.set_length(0);
    }

    /// Live figures: those of the metric that leads in the table are shown, the sender's say how
    /// far the trial is.
    pub fn figures(&self, side: Side, digest: Digest, count: u32, metric: Option<Metric>) {
        self.bar.set_length(u64::from(count));
        if side == Side::Tx {
            self.bar.set_position(digest.done);
        }
        let Some(metric) = metric else { return };
        let us = |ns: Option<i64>| ns.map_or("–".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3));
        self.bar.set_message(format!("{metric} p50 {} p99 {} µs", us(digest.p50_ns), us(digest.p99_ns)));
    }

    /// Writes a line above the progress line.
    pub fn say(&self, line: &str) {
        let line = printable(line);
        if self.bar.is_hidden() { eprintln!("{line}") } else { self.bar.println(line) }
    }

    /// Takes the line away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
