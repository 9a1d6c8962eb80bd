// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which build of tardy this program is. Two builds of one version may measure differently, so all
//! agents of a run must be of the coordinator's.

use std::fs::File;
use std::io::Read;

/// The running program's file, also where another one has taken its name since.
pub const SELF: &str = "/proc/self/exe";
/// As much of the file as holds its headers and, behind them, its notes.
const HEAD: u64 = 64 << 10;
const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;

/// Version and build of the running program, as agents greet with: `0.1.0 (build 91c5…)`.
pub fn version() -> String {
    let mut head = Vec::new();
    let _ = File::open(SELF).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    version_of(&head)
}

/// The same of a copy of the program, or of what was built of this source for other processors.
pub fn version_of(program: &[u8]) -> String {
    let head = &program[..program.len().min(HEAD as usize)];
    let id = build_id(head).unwrap_or_else(|| "unknown".to_owned());
    format!("{} (build {id})", env!("CARGO_PKG_VERSION"))
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let part = bytes.get(at..at.checked_add(length)?)?;
    usize::try_from(part.iter().rev().fold(0, |number: u64, byte| number << 8 | u64::from(*byte))).ok()
}

/// The hash of its contents that the linker writes into an ELF file (the note NT_GNU_BUILD_ID),
/// hexadecimal, out of the file's beginning. `None` if there is none. Pure.
pub fn build_id(head: &[u8]) -> Option<String> {
    // Magic, 64 bit, little endian.
    if head.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, each, count) = (number(head, 32, 8)?, number(head, 54, 2)?, number(head, 56, 2)?);
    (0..count).find_map(|n| {
        let at = table.checked_add(n.checked_mul(each)?)?;
        if number(head, at, 4)? != PT_NOTE as usize {
            return None;
        }
        let (offset, size) = (number(head, at.checked_add(8)?, 8)?, number(head, at.checked_add(32)?, 8)?);
        in_notes(head.get(offset..offset.checked_add(size)?)?)
    })
}

/// Notes are: length of the owner's name, length of what it holds, kind, then both, each padded to
/// four bytes.
fn in_notes(mut notes: &[u8]) -> Option<String> {
    loop {
        let (name, holds, kind) = (number(notes, 0, 4)?, number(notes, 4, 4)?, number(notes, 8, 4)?);
        let from = 12usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let content = notes.get(from..from.checked_add(holds)?)?;
        if kind == NT_GNU_BUILD_ID as usize && notes.get(12..12 + name)? == b"GNU\0" {
            return Some(content.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(from.checked_add(holds.checked_next_multiple_of(4)?)?..)?;
    }
}
