// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the instructions of an object show before it is loaded: which helpers it calls, as far as
//! [`crate::pitfalls`] asks, and the numbers of devices that it has.

use crate::source::{Code, CodeSection, ObjectError};
use object::Endianness;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Helpers that write a line into the kernel's trace: `bpf_trace_printk`, `bpf_trace_vprintk`.
const PRINTS: [i32; 2] = [6, 177];
/// Helpers that take the number of a device, with the register that has it: `bpf_redirect`,
/// `bpf_clone_redirect`, `bpf_redirect_neigh`, `bpf_redirect_peer`.
const REDIRECTS: [(i32, u8); 4] = [(23, 1), (13, 2), (152, 1), (155, 1)];
/// Instructions: a call, a load of 64 bits, which takes two places, and `r0 = 0`.
const CALL: u8 = 0x85;
const LOAD_64: u8 = 0x18;
const ZERO_R0: u8 = 0xb7;
/// A constant into a register, of 64 and of 32 bits.
const SET: [u8; 2] = [0xb7, 0xb4];
/// Loads from memory, with their bytes.
const LOADS: [(u8, usize); 4] = [(0x71, 1), (0x69, 2), (0x61, 4), (0x79, 8)];
/// Bytes of an instruction.
const WIDTH: usize = 8;
/// Calls of one kind that a record lists; with more, the object's author needs no list.
pub const MOST_CALLS: usize = 256;

/// A call in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub section: Arc<str>,
    /// The function that it is in.
    pub function: Arc<str>,
    /// The instruction's number in the section.
    pub instruction: usize,
    /// Where it is in the object's bytes.
    offset: usize,
}

/// What an object's instructions show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Calls that write a line into the kernel's trace.
    pub lines: Vec<Call>,
    /// Redirects to a device whose number is a constant in the code, or the first value of a
    /// variable. A number that a program takes from another map or computes is not seen.
    pub redirects: Vec<(Call, u32)>,
}

/// An instruction, taken apart into its fields.
#[derive(Clone, Copy)]
struct Op {
    code: u8,
    to: u8,
    from: u8,
    jump: i16,
    constant: i32,
}

/// Reads the instructions of all programs and functions of an object.
///
/// # Errors
/// If it is no ELF file of 64 bits, or is damaged.
pub fn scan(bytes: &[u8]) -> Result<Scan, ObjectError> {
    let code = Code::of(bytes)?;
    let mut scan = Scan::default();
    for section in &code.sections {
        let name: Arc<str> = section.name.as_str().into();
        let functions: BTreeMap<u64, Arc<str>> =
            section.functions.iter().map(|(start, function)| (*start, function.name.as_str().into())).collect();
        let at = |instruction: usize| {
            let start = (instruction * WIDTH) as u64;
            let function = functions.range(..=start).next_back().map_or(&name, |(_, function)| function);
            let offset = section.offset + instruction * WIDTH;
            Call { section: Arc::clone(&name), function: Arc::clone(function), instruction, offset }
        };
        let variable = |load: usize, ahead: i64, width: usize| code.variable(section, load, ahead, width);
        look(&ops(section.instructions, code.endian), at, variable, &mut scan);
    }
    Ok(scan)
}

fn ops(code: &[u8], endian: Endianness) -> Vec<Op> {
    let is_little = endian == Endianness::Little;
    let op = |op: &[u8]| {
        let (low, high) = (op[1] & 15, op[1] >> 4);
        let (jump, constant) = ([op[2], op[3]], [op[4], op[5], op[6], op[7]]);
        match is_little {
            true => Op {
                code: op[0],
                to: low,
                from: high,
                jump: i16::from_le_bytes(jump),
                constant: i32::from_le_bytes(constant),
            },
            false => Op {
                code: op[0],
                to: high,
                from: low,
                jump: i16::from_be_bytes(jump),
                constant: i32::from_be_bytes(constant),
            },
        }
    };
    code.chunks_exact(WIDTH).map(op).collect()
}

fn is_jump(op: Op) -> bool {
    matches!(op.code & 7, 5 | 6)
}

/// Notes what one section's instructions show.
fn look(ops: &[Op], at: impl Fn(usize) -> Call, variable: impl Fn(usize, i64, usize) -> Option<u32>, scan: &mut Scan) {
    let target = |(n, op): (usize, &Op)| n.checked_add_signed(isize::from(op.jump) + 1);
    let jumps = ops.iter().enumerate().filter(|(_, op)| is_jump(**op) && op.code != CALL);
    let targets: BTreeSet<usize> = jumps.filter_map(target).collect();
    let mut n = 0;
    while let Some(op) = ops.get(n).copied() {
        if op.code == CALL && op.from == 0 {
            if PRINTS.contains(&op.constant) {
                scan.lines.push(at(n));
            }
            let register = REDIRECTS.iter().find(|(helper, _)| *helper == op.constant).map(|(_, register)| *register);
            if let Some(device) = register.and_then(|register| constant_in(ops, n, register, &targets, &variable)) {
                scan.redirects.push((at(n), device));
            }
        }
        n += if op.code == LOAD_64 { 2 } else { 1 };
    }
}

/// The constant that a register has at an instruction, whichever way the program came there;
/// `variable` gives the first value of a variable: by the load of its address, how far behind that
/// it is, and its bytes.
fn constant_in(
    ops: &[Op],
    n: usize,
    register: u8,
    targets: &BTreeSet<usize>,
    variable: &impl Fn(usize, i64, usize) -> Option<u32>,
) -> Option<u32> {
    let at = written(ops, n, register, targets)?;
    let op = ops[at];
    if SET.contains(&op.code) {
        return Some(op.constant as u32);
    }
    let (_, width) = LOADS.into_iter().find(|(code, _)| *code == op.code)?;
    let address = written(ops, at, op.from, targets)?;
    let load = ops[address];
    (load.code == LOAD_64).then(|| variable(address, i64::from(load.constant) + i64::from(op.jump), width))?
}

/// The instruction that gave a register what it has at instruction `n`, whichever way the program
/// came there.
fn written(ops: &[Op], n: usize, register: u8, targets: &BTreeSet<usize>) -> Option<usize> {
    for at in (0..n).rev() {
        // Somebody may jump in between.
        if targets.contains(&(at + 1)) {
            return None;
        }
        let op = ops[at];
        if is_jump(op) {
            return None;
        }
        // The second place of a load of 64 bits is no instruction.
        if at > 0 && ops[at - 1].code == LOAD_64 {
            continue;
        }
        // Loads and arithmetic write the register that they name; stores do not.
        if op.to == register && !matches!(op.code & 7, 2 | 3) {
            return Some(at);
        }
    }
    None
}

impl Code<'_> {
    /// The first value of a variable whose address a section's instruction loads: `ahead` bytes
    /// behind the symbol, with this many bytes.
    fn variable(&self, section: &CodeSection<'_>, load: usize, ahead: i64, width: usize) -> Option<u32> {
        let (of, at) = section.symbols.get(&((load * WIDTH) as u64))?;
        let at = usize::try_from(at.checked_add_signed(ahead)?).ok()?;
        let bytes = self.variables.get(of)?.get(at..at.checked_add(width)?)?;
        let is_little = self.endian == Endianness::Little;
        let number = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        let value = if is_little { bytes.iter().rev().fold(0, number) } else { bytes.iter().fold(0, number) };
        u32::try_from(value).ok()
    }
}

/// The object with `r0 = 0` in place of these calls.
pub fn without(bytes: &[u8], calls: &[Call]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for call in calls {
        if let Some(place) = bytes.get_mut(call.offset..call.offset + WIDTH) {
            place.copy_from_slice(&[ZERO_R0, 0, 0, 0, 0, 0, 0, 0]);
        }
    }
    bytes
}
