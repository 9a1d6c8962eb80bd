// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared by the test layers: skipping with a reason that is counted, files of test data, and a
//! record that several layers change.

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tardy_model::xdp::{CoreRecord, XdpClock, XdpLosses, XdpMode, XdpRecord, XdpSeen};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// An address of the loopback that no other test has: 4,096 of this process, whose tests run at the
/// same time, and those of another process are others.
pub fn of_loopback() -> IpAddr {
    let number = (std::process::id() % 1_024) * 4_096 + NEXT.fetch_add(1, Relaxed) % 4_096;
    let [_, high, middle, low] = number.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, 64 + high, middle, low))
}

/// Notes that a test could not run here, with the reason. `packaging/test.sh` counts these and
/// fails on unlisted ones.
pub fn skip(test: &str, reason: &str) {
    eprintln!("SKIP {test}: {reason}");
    if let Ok(path) = std::env::var("TARDY_SKIPS")
        && let Ok(mut file) = File::options().append(true).create(true).open(path)
    {
        let _ = writeln!(file, "{test}: {reason}");
    }
}

const EXPERIMENTS: &str = include_str!("data/experiments.txt");

/// What the head of a section begins with; its name follows.
const HEAD: &str = "# --- ";

/// The sections of a file of test data, by name: each is what follows its line `# --- name`, up to
/// the next such line. So several small texts of one subject are one file.
fn sections(text: &str) -> Vec<(&str, &str)> {
    let heads = text.match_indices(HEAD).map(|(at, _)| at);
    let heads: Vec<usize> = heads.filter(|at| *at == 0 || text[..*at].ends_with('\n')).collect();
    let ends = heads.iter().skip(1).copied().chain([text.len()]);
    let whole = heads.iter().zip(ends).map(|(at, end)| &text[at + HEAD.len()..end]);
    whole.map(|section| section.split_once('\n').unwrap_or((section, ""))).collect()
}

/// The text of the section with this name.
pub fn section<'a>(text: &'a str, name: &str) -> &'a str {
    named(&sections(text), name)
}

/// All experiments of tests, by name.
pub fn experiments() -> Vec<(&'static str, &'static str)> {
    sections(EXPERIMENTS)
}

/// The experiment with this name, or the part of one: it begins with a comment and ends with a
/// newline, so that a test can put other lines around it.
pub fn experiment(name: &str) -> &'static str {
    named(&experiments(), name)
}

/// The same without its comment, for a constant: what a test adds to it is on the line that an
/// error names. If there is no such section, the test does not compile.
pub const fn part(name: &str) -> &'static str {
    let bytes = EXPERIMENTS.as_bytes();
    let mut start = 0;
    // The whole line: one name may begin with another.
    while !(begins(bytes, start, HEAD)
        && begins(bytes, start + HEAD.len(), name)
        && bytes[start + HEAD.len() + name.len()] == b'\n')
    {
        start += 1;
    }
    while bytes[start] == b'#' {
        while bytes[start] != b'\n' {
            start += 1;
        }
        start += 1;
    }
    let mut end = start;
    while end < bytes.len() && !begins(bytes, end, HEAD) {
        end += 1;
    }
    EXPERIMENTS.split_at(end).0.split_at(start).1
}

/// Whether a line, or the rest of one, is this word there.
const fn begins(bytes: &[u8], at: usize, word: &str) -> bool {
    let mut n = 0;
    while n < word.len() {
        if bytes[at + n] != word.as_bytes()[n] {
            return false;
        }
        n += 1;
    }
    true
}

fn named<'a>(sections: &[(&'a str, &'a str)], name: &str) -> &'a str {
    let found = sections.iter().find(|(head, _)| *head == name);
    let (_, text) = found.unwrap_or_else(|| {
        let names: Vec<&str> = sections.iter().map(|(head, _)| *head).collect();
        panic!("there is no section `{name}`; there are: {}", names.join(", "))
    });
    text
}

/// A port `xdp` on a virtual device, before it receives. A test changes what it is about.
pub fn xdp_record() -> XdpRecord {
    XdpRecord {
        mode: XdpMode::Native,
        refused: Vec::new(),
        queues: 4,
        umem_bytes: 1 << 26,
        huge_pages: false,
        small_pages: None,
        clock: XdpClock::Tai,
        clock_bound_ns: 0,
        losses: XdpLosses::default(),
        triggered: None,
        seen: XdpSeen::default(),
        core: CoreRecord::default(),
        driver: "veth".to_owned(),
        wait: "poll".to_owned(),
        device_hints: Vec::new(),
        without_hints: None,
        times: None,
    }
}
