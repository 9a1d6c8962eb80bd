// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel's dmatest prints, read. Pure.

use tardy_model::copy::KernelFigures;

/// The kernel's line about a thread that has ended, and when it was written, on its own clock, µs.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub at_us: u64,
    /// The channel, as the kernel calls it: `dma0chan2`.
    pub channel: String,
    /// Of the channel's threads, from 0.
    pub thread: u32,
    pub figures: KernelFigures,
    /// What the thread ended with: 0, or an error's number below it.
    pub code: i32,
}

/// Time, µs, and words of a line of `/dev/kmsg`.
pub fn message(record: &str) -> Option<(u64, &str)> {
    let (head, text) = record.split_once(';')?;
    let at_us = head.split(',').nth(2)?.parse().ok()?;
    Some((at_us, text.lines().next().unwrap_or_default()))
}

/// What a line of `/dev/kmsg` says about a thread that has ended; `None` if it says something else.
pub fn summary(record: &str) -> Option<Summary> {
    let (at_us, text) = message(record)?;
    let said = text.strip_prefix("dmatest: ")?;
    let (who, rest) = said.split_once(": summary ")?;
    let (channel, of) = who.rsplit_once('-')?;
    let digits = of.trim_start_matches(|c: char| !c.is_ascii_digit());
    // `100 tests, 0 failures 101.14 iops 925 KB/s (0)`
    let mut words = rest.split_whitespace();
    let mut number = || words.by_ref().find_map(|word| word.parse::<f64>().ok());
    let (tests, failures, iops, kb_s) = (number()?, number()?, number()?, number()?);
    let code = rest.rsplit_once('(')?.1.strip_suffix(')')?.parse().ok()?;
    let figures = KernelFigures {
        tests: tests as u64,
        failures: failures as u64,
        iops,
        kb_s: kb_s as u64,
        line: text.to_owned(),
    };
    Some(Summary { at_us, channel: channel.to_owned(), thread: digits.parse().ok()?, figures, code })
}
