// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tardy's test module keeps of a test, read from its text. Pure.

use tardy_model::copy::KernelFigures;

/// A line of the module's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Thread(Chains),
    /// One chain of the thread whose line has this number, from 0; TAI, ns.
    Pass {
        thread: usize,
        begin_ns: i64,
        end_ns: i64,
    },
}

/// What a thread came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chains {
    /// The channel, as the kernel calls it: `dma0chan1`.
    pub channel: String,
    /// Of the channel's threads, from 0.
    pub thread: u32,
    pub done: u64,
    pub asked: u64,
    /// In each of its chains.
    pub descriptors: u64,
    pub bytes: u64,
    pub failures: u64,
    /// The time of all its passes together.
    pub took_ns: u64,
    /// As the module wrote it.
    pub line: String,
}

impl Chains {
    /// As of the threads of the kernel's own test: a buffer is what is counted.
    pub fn figures(&self) -> KernelFigures {
        let tests = self.done.saturating_mul(self.descriptors);
        let seconds = self.took_ns as f64 / 1e9;
        let each_second = |of: f64| if self.took_ns > 0 { of / seconds } else { 0.0 };
        KernelFigures {
            tests,
            failures: self.failures,
            iops: each_second(tests as f64),
            kb_s: each_second(tests as f64 * self.bytes as f64 / 1024.0) as u64,
            line: self.line.clone(),
        }
    }
}

/// What a line is; `None` if it is none of the module's.
pub fn line(text: &str) -> Option<Line> {
    match text.strip_prefix("tardy_sgtest: ") {
        Some(said) => chains(said, text).map(Line::Thread),
        None => pass(text),
    }
}

/// `dma0chan1-sg0: summary 9 of 9 chains of 4 descriptors of 4096 bytes, 0 failures, 81250 ns`.
fn chains(said: &str, line: &str) -> Option<Chains> {
    let (who, rest) = said.split_once(": summary ")?;
    let (channel, thread) = who.rsplit_once("-sg")?;
    let mut rest = rest;
    let mut number = |until: &str| -> Option<u64> {
        let (number, after) = rest.split_once(until)?;
        rest = after;
        number.parse().ok()
    };
    let (done, asked) = (number(" of ")?, number(" chains of ")?);
    let (descriptors, bytes) = (number(" descriptors of ")?, number(" bytes, ")?);
    let (failures, took_ns) = (number(" failures, ")?, number(" ns")?);
    let (channel, line) = (channel.to_owned(), line.to_owned());
    let of = Chains { channel, thread: thread.parse().ok()?, done, asked, descriptors, bytes, failures, took_ns, line };
    rest.is_empty().then_some(of)
}

/// Number of the thread, beginning and end: `3 1764538263000000000 1764538263000012345`.
fn pass(text: &str) -> Option<Line> {
    let mut words = text.split(' ');
    let (thread, begin, end) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let (begin_ns, end_ns): (i64, i64) = (begin.parse().ok()?, end.parse().ok()?);
    (words.next().is_none() && begin_ns <= end_ns).then_some(Line::Pass { thread, begin_ns, end_ns })
}
