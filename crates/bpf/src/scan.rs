// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the instructions of an object show before it is loaded: which helpers it calls, as far as
//! [`crate::pitfalls`] asks, and the numbers of devices that it has.

use crate::source::{Code, CodeSection, ObjectError};
use object::Endianness;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Helpers that write a line into the kernel's trace: `bpf_trace_printk`, `bpf_trace_vprintk`.
const PRINTS: [i32; 2] = [6, 177];
/// Helpers that take the number of a device, with the register that has it: `bpf_redirect`,
/// `bpf_clone_redirect`, `bpf_redirect_neigh`, `bpf_redirect_peer`.
const REDIRECTS: [(i32, u8); 4] = [(23, 1), (13, 2), (152, 1), (155, 1)];
/// Instructions: a call, a load of 64 bits, which takes two places, and `r0 = 0`.
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// Jumps that are always taken; the far one has its distance where others have a constant.
const JUMP: u8 = 0x05;
const JUMP_FAR: u8 = 0x06;
const LOAD_64: u8 = 0x18;
const ZERO_R0: u8 = 0xb7;
/// A constant into a register, of 64 and of 32 bits.
const SET: [u8; 2] = [0xb7, 0xb4];
/// A register into a register, of 64 and of 32 bits.
const COPIES: [u8; 2] = [0xbf, 0xbc];
/// What an atomic operation says that it gives back, the one that compares and gives back by
/// register 0, and the load that comes before all later accesses.
const FETCH: i32 = 1;
const COMPARE_EXCHANGE: i32 = 0xf1;
const LOAD_ACQUIRE: i32 = 0x100;
/// Loads from memory, with their bytes.
const LOADS: [(u8, usize); 4] = [(0x71, 1), (0x69, 2), (0x61, 4), (0x79, 8)];
/// The register that has the end of the stack.
const STACK: u8 = 10;
/// Bytes of an instruction.
const WIDTH: usize = 8;
/// Instructions that the search for the number of a device looks at: for a call, and for an object.
const MOST_STEPS_OF_A_CALL: usize = 1 << 14;
const MOST_STEPS: usize = 1 << 22;

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
    /// variable, once for each number that the redirect may have. A number that a program computes,
    /// takes from another map, or hands to a function of its own is not seen.
    pub redirects: Vec<(Call, u32)>,
    /// Redirects of which only a part of the code before them was looked at: the number of their
    /// device may be in the rest.
    pub unsearched: Vec<Call>,
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
    scan_sections(bytes, |_| true)
}

/// The same of those in sections of these names. What others have takes no part of the search.
///
/// # Errors
/// As [`scan`].
pub fn scan_sections(bytes: &[u8], is_wanted: impl Fn(&str) -> bool) -> Result<Scan, ObjectError> {
    let code = Code::of(bytes)?;
    let mut scan = Scan::default();
    let mut steps = MOST_STEPS;
    for section in code.sections.iter().filter(|section| is_wanted(&section.name)) {
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
        let starts = section.functions.keys().map(|start| *start as usize / WIDTH).collect();
        look(&ops(section.instructions, code.endian), starts, at, variable, &mut steps, &mut scan);
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

impl Op {
    /// A jump inside its function, taken or not.
    fn is_jump(self) -> bool {
        matches!(self.code & 7, 5 | 6) && ![CALL, EXIT].contains(&self.code)
    }

    /// How far behind the next instruction it jumps to.
    fn distance(self) -> isize {
        if self.code == JUMP_FAR { self.constant as isize } else { isize::from(self.jump) }
    }

    /// Whether the next instruction may run after it.
    fn goes_on(self) -> bool {
        ![JUMP, JUMP_FAR, EXIT].contains(&self.code)
    }

    fn writes(self, register: u8) -> bool {
        match self.code {
            // A callee may leave anything in the registers of its arguments.
            CALL => register <= 5,
            // An atomic operation may give back what was in memory.
            0xc3 | 0xcb | 0xd3 | 0xdb if self.constant == LOAD_ACQUIRE => self.to == register,
            0xc3 | 0xdb if self.constant == COMPARE_EXCHANGE => register == 0,
            0xc3 | 0xdb => self.constant & FETCH != 0 && self.from == register,
            // A packet's bytes, in the old form.
            code if code & 7 == 0 && code != LOAD_64 => register <= 5,
            // Loads and arithmetic write the register that they name; stores and jumps do not.
            code => !matches!(code & 7, 2 | 3 | 5 | 6) && self.to == register,
        }
    }
}

/// A section's instructions, and from which ones the program comes to each.
struct Flow<'o> {
    ops: &'o [Op],
    /// The places that begin an instruction: the second place of a load of 64 bits does not.
    begins: Vec<bool>,
    /// Jumps by their target.
    jumps: BTreeMap<usize, Vec<usize>>,
    /// Where functions begin: nothing runs into one.
    starts: BTreeSet<usize>,
}

/// What a search found.
struct Found<T> {
    all: BTreeSet<T>,
    /// It looked at every way.
    is_whole: bool,
}

impl Flow<'_> {
    fn of(ops: &[Op], starts: BTreeSet<usize>) -> Flow<'_> {
        let mut begins = vec![false; ops.len()];
        let mut jumps: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut n = 0;
        while let Some(op) = ops.get(n) {
            begins[n] = true;
            if op.is_jump()
                && let Some(target) = n.checked_add_signed(op.distance().saturating_add(1))
            {
                jumps.entry(target).or_default().push(n);
            }
            n += if op.code == LOAD_64 { 2 } else { 1 };
        }
        Flow { ops, begins, jumps, starts }
    }

    /// The instructions after which this one may run.
    fn before(&self, n: usize) -> impl Iterator<Item = usize> {
        let previous = [n.checked_sub(1), n.checked_sub(2)].into_iter().flatten().find(|at| self.begins[*at]);
        let previous = previous.filter(|at| self.ops[*at].goes_on() && !self.starts.contains(&n));
        previous.into_iter().chain(self.jumps.get(&n).into_iter().flatten().copied())
    }

    /// The instructions that may have given a register what it has before instruction `n`, on any
    /// way by which the program comes there, the nearest first. Copies from register to register
    /// are followed. Each place takes one of `steps`; without steps the search ends.
    fn written(&self, n: usize, register: u8, steps: &mut usize) -> Found<usize> {
        let mut found = BTreeSet::new();
        // No instruction writes the register of the stack.
        if register == STACK {
            return Found { all: found, is_whole: true };
        }
        let mut seen = BTreeSet::from([(n, register)]);
        let mut left = VecDeque::from([(n, register)]);
        while let Some((n, register)) = left.pop_front() {
            for at in self.before(n) {
                let Some(fewer) = steps.checked_sub(1) else { return Found { all: found, is_whole: false } };
                *steps = fewer;
                let op = self.ops[at];
                let copied = (COPIES.contains(&op.code) && op.jump == 0).then_some(op.from);
                let next = match (op.writes(register), copied) {
                    (true, None) => {
                        found.insert(at);
                        continue;
                    }
                    (true, Some(from)) => (at, from),
                    (false, _) => (at, register),
                };
                if next.1 != STACK && seen.insert(next) {
                    left.push_back(next);
                }
            }
        }
        Found { all: found, is_whole: true }
    }

    /// The constants that a register may have before an instruction; `variable` gives the first
    /// value of a variable: by the load of its address, how far behind that it is, and its bytes.
    fn constants(
        &self,
        n: usize,
        register: u8,
        variable: &impl Fn(usize, i64, usize) -> Option<u32>,
        steps: &mut usize,
    ) -> Found<u32> {
        let mut constants = BTreeSet::new();
        let Found { all: written, mut is_whole } = self.written(n, register, steps);
        for at in &written {
            let op = self.ops[*at];
            if SET.contains(&op.code) {
                constants.insert(op.constant as u32);
                continue;
            }
            let Some((_, width)) = LOADS.into_iter().find(|(code, _)| *code == op.code) else { continue };
            let addresses = self.written(*at, op.from, steps);
            is_whole &= addresses.is_whole;
            for address in addresses.all {
                let load = self.ops[address];
                let ahead = i64::from(load.constant) + i64::from(op.jump);
                constants.extend((load.code == LOAD_64).then(|| variable(address, ahead, width)).flatten());
            }
        }
        // The kernel numbers devices below this: what is above is a word for none.
        constants.retain(|number| i32::try_from(*number).is_ok());
        // A variable that is still 0 is no number of a device where another value may follow.
        if written.len() > 1 || !is_whole {
            constants.remove(&0);
        }
        Found { all: constants, is_whole }
    }
}

/// Notes what one section's instructions show.
fn look(
    ops: &[Op],
    starts: BTreeSet<usize>,
    at: impl Fn(usize) -> Call,
    variable: impl Fn(usize, i64, usize) -> Option<u32>,
    steps: &mut usize,
    scan: &mut Scan,
) {
    let flow = Flow::of(ops, starts);
    let calls = ops.iter().enumerate().filter(|(n, op)| flow.begins[*n] && op.code == CALL && op.from == 0);
    for (n, op) in calls {
        if PRINTS.contains(&op.constant) {
            scan.lines.push(at(n));
        }
        if let Some((_, register)) = REDIRECTS.iter().find(|(helper, _)| *helper == op.constant) {
            let mut own = MOST_STEPS_OF_A_CALL.min(*steps);
            *steps -= own;
            let devices = flow.constants(n, *register, &variable, &mut own);
            *steps += own;
            if !devices.is_whole {
                scan.unsearched.push(at(n));
            }
            scan.redirects.extend(devices.all.into_iter().map(|device| (at(n), device)));
        }
    }
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
