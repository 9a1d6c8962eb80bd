// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest's console says about its end: a panic, memory that ran out, or only where it
//! stopped. And where its processors are. Pure.

use std::fmt;

/// Lines that are quoted.
const LINES: usize = 8;

/// How a console ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleEnd {
    /// What its words mean.
    pub means: Means,
    /// Its last lines, without what moves cursors.
    pub lines: Vec<String>,
}

/// What a console's words mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// It ran out of memory.
    OutOfMemory,
    Panic,
    /// Nothing of the kind.
    Nothing,
}

impl fmt::Display for ConsoleEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lines.is_empty() {
            true => f.write_str("its console says nothing"),
            false => write!(f, "its console ends: {}", self.lines.join(" / ")),
        }
    }
}

/// A line without escape sequences and control characters.
fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            // CSI: up to its final byte; others are two characters.
            if chars.next() == Some('[') {
                chars.by_ref().find(|c| ('@'..='~').contains(c));
            }
        } else if !c.is_control() || c == '\t' {
            out.push(c);
        }
    }
    out.trim_end().to_owned()
}

/// Reads the end of a console's log.
pub fn how_it_ended(log: &[u8]) -> ConsoleEnd {
    let text = String::from_utf8_lossy(log);
    let lines: Vec<String> = text.lines().map(plain).filter(|line| !line.is_empty()).collect();
    let at = |words: &[&str]| lines.iter().position(|line| words.iter().any(|word| line.contains(word)));
    let memory = at(&["Out of memory", "oom-kill", "deadlocked on memory", "Initramfs unpacking failed: write error"]);
    let panic = at(&["Kernel panic", "BUG: unable to handle", "Oops:"]);
    let means = match (memory, panic) {
        (Some(_), _) => Means::OutOfMemory,
        (None, Some(_)) => Means::Panic,
        (None, None) => Means::Nothing,
    };
    // From where it went wrong on, if that is known; a panic's own line leads.
    let from = memory.or(panic).unwrap_or(lines.len().saturating_sub(LINES));
    ConsoleEnd { means, lines: lines.into_iter().skip(from).take(LINES).collect() }
}

/// Registers that say where a processor is, in what QEMU's monitor prints of them.
const WHERE: [&str; 2] = ["RIP=", "EIP="];

/// Where each processor is, in words, of what QEMU's monitor prints of the registers.
pub fn processors(registers: &str) -> String {
    let lines: Vec<String> = registers.lines().map(plain).collect();
    let numbers = lines.iter().filter(|line| line.starts_with("CPU#"));
    let at = lines.iter().filter(|line| WHERE.iter().any(|name| line.starts_with(name)));
    let each: Vec<String> = numbers.zip(at).map(|(number, at)| format!("{number} {at}")).collect();
    match each.is_empty() {
        true => "QEMU does not say where its processors are".to_owned(),
        false => format!("its processors: {}", each.join(" / ")),
    }
}

/// The same registers for a file: without what moves the cursor, from the first processor on.
pub fn registers(shown: &str) -> String {
    let lines = shown.lines().map(plain).skip_while(|line| !line.starts_with("CPU#"));
    lines.filter(|line| !line.starts_with("(qemu)")).map(|line| line + "\n").collect()
}
