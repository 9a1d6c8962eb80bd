// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where BTF comes from: an object's own bytes (the section `.BTF` of an ELF file, or BTF by
//! itself), a file, the running kernel, or one of its modules. And which helpers the instructions
//! of an object call, as far as [`crate::pitfalls`] asks.

use crate::btf::{Btf, BtfError};
use object::Endianness;
use object::elf::{FileHeader64, SHF_EXECINSTR, SHT_SYMTAB, STT_FUNC, SectionFlags};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why there is no BTF in an object. Each message is a clause that goes after the object's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    #[error("it is neither an ELF file nor BTF: name the object that clang made of the BPF program")]
    NeitherElfNorBtf,
    #[error("it is a 32-bit ELF file, and BPF objects have 64 bits")]
    Narrow,
    #[error("it is a damaged ELF file ({0})")]
    Damaged(String),
    #[error("it has no section .BTF: compile it with `clang -target bpf -g -O2`, and do not strip it")]
    NoBtf,
    #[error("its section .BTF is compressed: unpack it with `llvm-objcopy --decompress-debug-sections`")]
    Compressed,
    #[error("its BTF cannot be read: {0}")]
    Btf(#[from] BtfError),
}

const ELF: &[u8] = b"\x7fELF";
/// The byte that says how wide an ELF file's numbers are, and its value for 32 bits.
const CLASS: usize = 4;
const CLASS_32: u8 = 1;
/// BTF's magic number in either order.
const MAGICS: [&[u8]; 2] = [&[0x9f, 0xeb], &[0xeb, 0x9f]];

/// The types that an object describes: those of an ELF file, or the bytes themselves if they are
/// BTF, as in `/sys/kernel/btf/vmlinux`.
///
/// # Errors
/// If the bytes are neither, have no BTF, or are damaged.
pub fn btf(bytes: &[u8]) -> Result<Btf, ObjectError> {
    let raw = match () {
        () if bytes.starts_with(ELF) => section(bytes)?,
        () if MAGICS.iter().any(|magic| bytes.starts_with(magic)) => bytes,
        () => return Err(ObjectError::NeitherElfNorBtf),
    };
    Ok(Btf::parse(raw.to_vec())?)
}

/// The bytes of the section `.BTF`.
fn section(bytes: &[u8]) -> Result<&[u8], ObjectError> {
    if bytes.get(CLASS) == Some(&CLASS_32) {
        return Err(ObjectError::Narrow);
    }
    let damaged = |error: object::read::Error| ObjectError::Damaged(error.to_string());
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    let sections = header.sections(endian, bytes).map_err(damaged)?;
    let (_, section) = sections.section_by_name(endian, b".BTF").ok_or(ObjectError::NoBtf)?;
    if section.compression(endian, bytes).map_err(damaged)?.is_some() {
        return Err(ObjectError::Compressed);
    }
    section.data(endian, bytes).map_err(damaged)
}

/// Why a source's BTF cannot be read: one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    #[error("reading {}: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{} is not a plain file: name an object, a module or vmlinux", .0.display())]
    NoFile(PathBuf),
    #[error(
        "{} is larger than {} MiB: take its BTF out with `llvm-objcopy -O binary --only-section=.BTF FILE OUT`, and name \
         that", .0.display(), MOST_BYTES >> 20
    )]
    Large(PathBuf),
    #[error("{}: {error}", path.display())]
    Object { path: PathBuf, error: ObjectError },
    #[error("{}: its BTF cannot be read: {error}", path.display())]
    Btf { path: PathBuf, error: BtfError },
    #[error(
        "this kernel has no {}: it was built without CONFIG_DEBUG_INFO_BTF; name an object instead", .0.display()
    )]
    NoKernel(PathBuf),
    #[error(
        "there is no module `{name}` with BTF ({}) and no file of this name: load the module, or name an object; the \
         types of what is built into the kernel are in vmlinux", path.display()
    )]
    NoModule { name: String, path: PathBuf },
}

/// A file with more bytes is refused. The vmlinux of a distribution with all its debug information
/// has less.
const MOST_BYTES: u64 = 1 << 30;

/// The word for the running kernel itself.
pub const VMLINUX: &str = "vmlinux";

/// The BTF of the running kernel and its modules.
#[derive(Clone, Debug)]
pub struct KernelBtf {
    folder: PathBuf,
}

impl Default for KernelBtf {
    /// That of this machine.
    fn default() -> Self {
        KernelBtf::in_folder("/sys/kernel/btf")
    }
}

impl KernelBtf {
    /// Of a folder with a file `vmlinux` and one for each module.
    pub fn in_folder(folder: impl Into<PathBuf>) -> KernelBtf {
        KernelBtf { folder: folder.into() }
    }

    /// The types of the kernel itself.
    ///
    /// # Errors
    /// If the kernel has no BTF, or it cannot be read.
    pub fn vmlinux(&self) -> Result<Btf, SourceError> {
        let path = self.folder.join(VMLINUX);
        let raw = read(&path).map_err(|error| match error {
            SourceError::Io { path, error } if error.kind() == ErrorKind::NotFound => SourceError::NoKernel(path),
            other => other,
        })?;
        Btf::parse(raw).map_err(|error| SourceError::Btf { path, error })
    }

    /// The types of a loaded module, on top of those of the kernel. A hyphen in its name is an
    /// underscore, as for `modprobe`.
    ///
    /// # Errors
    /// If the module is not loaded or has no BTF, or it cannot be read.
    pub fn module(&self, name: &str) -> Result<Btf, SourceError> {
        let file = name.replace('-', "_");
        let path = self.folder.join(&file);
        let missing = || SourceError::NoModule { name: name.to_owned(), path: path.clone() };
        // A module's name leads to no other folder.
        if file.is_empty() || !file.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(missing());
        }
        let raw = read(&path).map_err(|error| match error {
            SourceError::Io { error, .. } if error.kind() == ErrorKind::NotFound => missing(),
            other => other,
        })?;
        let base = Arc::new(self.vmlinux()?);
        Btf::parse_split(raw, base).map_err(|error| SourceError::Btf { path, error })
    }

    /// What a word means: `vmlinux`, the name of a module, or the path of an object. A word with a
    /// slash or a dot is a path; so is one that no module has and a file does.
    ///
    /// # Errors
    /// If nothing of this name exists, or it has no BTF that can be read.
    pub fn find(&self, word: &str) -> Result<Btf, SourceError> {
        if word == VMLINUX {
            return self.vmlinux();
        }
        let path = Path::new(word);
        if word.contains(['/', '.']) {
            return file(path);
        }
        match self.module(word) {
            Err(SourceError::NoModule { .. }) if path.exists() => file(path),
            found => found,
        }
    }
}

/// The types that the object in a file describes.
///
/// # Errors
/// If the file cannot be read or has no BTF.
pub fn file(path: &Path) -> Result<Btf, SourceError> {
    btf(&read(path)?).map_err(|error| SourceError::Object { path: path.to_owned(), error })
}

/// The bytes of a plain file; of anything else nothing would end the reading.
fn read(path: &Path) -> Result<Vec<u8>, SourceError> {
    let io = |error| SourceError::Io { path: path.to_owned(), error };
    let known = std::fs::metadata(path).map_err(io)?;
    if !known.is_file() {
        return Err(SourceError::NoFile(path.to_owned()));
    }
    let mut bytes = Vec::with_capacity(known.len().min(MOST_BYTES) as usize);
    File::open(path).map_err(io)?.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(SourceError::Large(path.to_owned()));
    }
    Ok(bytes)
}

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
/// Bytes of an instruction.
const WIDTH: usize = 8;

/// A call in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub section: String,
    /// The function that it is in.
    pub function: String,
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
    /// Redirects to a device whose number is a constant in the code. A number that a program takes
    /// from a map or computes is not seen.
    pub redirects: Vec<(Call, u32)>,
}

/// One instruction.
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
    let damaged = |error: object::read::Error| ObjectError::Damaged(error.to_string());
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(|_| ObjectError::NeitherElfNorBtf)?;
    let endian = header.endian().map_err(damaged)?;
    let sections = header.sections(endian, bytes).map_err(damaged)?;
    let symbols = sections.symbols(endian, bytes, SHT_SYMTAB).map_err(damaged)?;
    let mut scan = Scan::default();
    for (n, section) in sections.enumerate() {
        if section.sh_flags(endian) & SHF_EXECINSTR == SectionFlags(0) {
            continue;
        }
        let name = String::from_utf8_lossy(sections.section_name(endian, section).map_err(damaged)?).into_owned();
        let code = section.data(endian, bytes).map_err(damaged)?;
        let base = section.sh_offset(endian) as usize;
        let functions: BTreeMap<u64, String> = symbols
            .iter()
            .filter(|symbol| symbol.st_type() == STT_FUNC && usize::from(symbol.st_shndx(endian).0) == n.0)
            .filter_map(|symbol| {
                let name = symbol.name(endian, symbols.strings()).ok()?;
                Some((symbol.st_value(endian), String::from_utf8_lossy(name).into_owned()))
            })
            .collect();
        let at = |instruction: usize| {
            let offset = (instruction * WIDTH) as u64;
            let function = functions.range(..=offset).next_back().map(|(_, name)| name.clone());
            let (section, offset) = (name.clone(), base + instruction * WIDTH);
            Call { section, function: function.unwrap_or_else(|| name.clone()), instruction, offset }
        };
        look(&ops(code, endian), at, &mut scan);
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
fn look(ops: &[Op], at: impl Fn(usize) -> Call, scan: &mut Scan) {
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
            if let Some(device) = register.and_then(|register| constant_in(ops, n, register, &targets)) {
                scan.redirects.push((at(n), device));
            }
        }
        n += if op.code == LOAD_64 { 2 } else { 1 };
    }
}

/// The constant that a register has at an instruction, whichever way the program came there.
fn constant_in(ops: &[Op], n: usize, register: u8, targets: &BTreeSet<usize>) -> Option<u32> {
    for at in (0..n).rev() {
        // Somebody may jump in between.
        if targets.contains(&(at + 1)) {
            return None;
        }
        let op = ops[at];
        if is_jump(op) {
            return None;
        }
        // Loads and arithmetic write the register that they name; stores do not.
        if op.to == register && !matches!(op.code & 7, 2 | 3) {
            return SET.contains(&op.code).then_some(op.constant as u32);
        }
    }
    None
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
