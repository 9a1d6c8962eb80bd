// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where BTF and code come from: an object's own bytes (the section `.BTF` of an ELF file, or BTF
//! by itself; its sections with programs), a file, the running kernel, or one of its modules. What
//! the instructions of an object show is read in [`crate::scan`].

use crate::btf::{Btf, BtfError, MOST_NAME};
use object::Endianness;
use object::elf::{FileHeader64, SHF_EXECINSTR, SHT_NOBITS, SHT_PROGBITS, SHT_REL, SHT_SYMTAB, STB_LOCAL, STT_FUNC};
use object::read::elf::{FileHeader, Rel, SectionHeader, SectionTable, Sym, SymbolTable};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
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
    #[error("it has {0} sections .BTF, and which of them counts is not certain: make it anew with clang")]
    SeveralBtf(usize),
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
    let is_it = |section: &&_| sections.section_name(endian, *section).is_ok_and(|name| name == b".BTF");
    let found: Vec<_> = sections.iter().filter(is_it).collect();
    // Whoever loads the object would read one, and tardy would judge by another.
    let section = match found[..] {
        [] => return Err(ObjectError::NoBtf),
        [one] => one,
        ref several => return Err(ObjectError::SeveralBtf(several.len())),
    };
    if section.compression(endian, bytes).map_err(damaged)?.is_some() {
        return Err(ObjectError::Compressed);
    }
    section.data(endian, bytes).map_err(damaged)
}

/// More functions, more sections with code, or more places that a loader fills in, has no object of
/// a BPF program.
const MOST_FUNCTIONS: usize = 4096;
const MOST_SECTIONS: usize = 1024;
const MOST_RELOCATIONS: usize = 1 << 16;

/// The code of an object, with the functions that are in it.
pub(crate) struct Code<'a> {
    pub endian: Endianness,
    pub sections: Vec<CodeSection<'a>>,
    /// What its variables hold at first, by the number of the section in the object's table.
    pub variables: BTreeMap<usize, &'a [u8]>,
}

/// A section with instructions.
pub(crate) struct CodeSection<'a> {
    pub name: String,
    pub instructions: &'a [u8],
    /// Where they are in the object's bytes.
    pub offset: usize,
    /// By where they begin in the section.
    pub functions: BTreeMap<u64, Function>,
    /// Where its instructions name a symbol: by the place in the section, the symbol's section and
    /// its place there.
    pub symbols: BTreeMap<u64, (usize, u64)>,
}

/// A function of a section.
pub(crate) struct Function {
    pub name: String,
    /// Only programs and functions of its section may call it: it is no program.
    pub is_local: bool,
}

impl<'a> Code<'a> {
    /// Reads the sections and the symbols of functions. All that is kept of them is bounded: many
    /// headers may lead to the same bytes, and one object would fill the memory.
    ///
    /// # Errors
    /// If it is no ELF file of 64 bits, is damaged, or has more of something than objects have.
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Code<'a>, ObjectError> {
        let damaged = |error: object::read::Error| ObjectError::Damaged(error.to_string());
        let header = FileHeader64::<Endianness>::parse(bytes).map_err(|_| ObjectError::NeitherElfNorBtf)?;
        let endian = header.endian().map_err(damaged)?;
        let table: SectionTable<'_, FileHeader64<Endianness>> = header.sections(endian, bytes).map_err(damaged)?;
        let (mut sections, variables) = sections_of((endian, bytes), &table)?;
        let tables = table.iter().filter(|section| section.sh_type(endian) == SHT_SYMTAB).count();
        at_most(tables, 1, "table of symbols")?;
        let symbols = table.symbols(endian, bytes, SHT_SYMTAB).map_err(damaged)?;
        functions(endian, &symbols, &mut sections)?;
        named_symbols((endian, bytes), &table, &symbols, &mut sections)?;
        Ok(Code { endian, sections: sections.into_values().collect(), variables })
    }
}

/// How the names of sections begin that have variables with values.
const VARIABLES: [&[u8]; 2] = [b".rodata", b".data"];

/// What is kept of an object's sections, by their number in its table.
type Sections<'a> = (BTreeMap<usize, CodeSection<'a>>, BTreeMap<usize, &'a [u8]>);

/// The sections with instructions, and the values of variables.
fn sections_of<'a>(
    (endian, bytes): (Endianness, &'a [u8]),
    table: &SectionTable<'a, FileHeader64<Endianness>>,
) -> Result<Sections<'a>, ObjectError> {
    let damaged = |error: object::read::Error| ObjectError::Damaged(error.to_string());
    let mut sections: BTreeMap<usize, CodeSection<'a>> = BTreeMap::new();
    let (mut code, mut others) = (Vec::new(), Vec::new());
    let (mut names, mut variables) = (Vec::new(), BTreeMap::new());
    // The first entry is no section.
    for (index, section) in table.enumerate().filter(|(index, _)| index.0 > 0) {
        let (kind, start) = (section.sh_type(endian), section.sh_offset(endian));
        let range = start..start.saturating_add(section.sh_size(endian));
        if kind != SHT_PROGBITS || section.sh_flags(endian).0 & SHF_EXECINSTR.0 == 0 {
            others.extend((kind != SHT_NOBITS).then_some(range));
            let name = table.section_name(endian, section).map_err(damaged)?;
            if kind == SHT_PROGBITS && VARIABLES.iter().any(|begin| name.starts_with(begin)) {
                at_most(variables.len(), MOST_SECTIONS, "sections with variables")?;
                variables.insert(index.0, section.data(endian, bytes).map_err(damaged)?);
            }
            continue;
        }
        code.push(range);
        at_most(code.len(), MOST_SECTIONS, "sections with code")?;
        let name = name_of("section", table.section_name(endian, section).map_err(damaged)?)?;
        names.push(name.clone());
        let instructions = section.data(endian, bytes).map_err(damaged)?;
        let section = CodeSection {
            name,
            instructions,
            offset: start as usize,
            functions: BTreeMap::new(),
            symbols: BTreeMap::new(),
        };
        sections.insert(index.0, section);
    }
    refuse_overlaps(code, &others)?;
    refuse_twins(names)?;
    Ok((sections, variables))
}

/// Refuses code that shares bytes with another section.
fn refuse_overlaps(mut code: Vec<Range<u64>>, others: &[Range<u64>]) -> Result<(), ObjectError> {
    code.sort_by_key(|range| (range.start, range.end));
    let meet = |one: &Range<u64>, other: &Range<u64>| one.start < other.end && other.start < one.end;
    let among_code = code.windows(2).any(|pair| meet(&pair[0], &pair[1]));
    if among_code || code.iter().any(|range| others.iter().any(|other| meet(range, other))) {
        return Err(ObjectError::Damaged("its sections with code overlap with others".to_owned()));
    }
    Ok(())
}

/// Refuses two sections of one name. Whoever loads the object would take one of them, and tardy
/// judge by the other.
fn refuse_twins(mut names: Vec<String>) -> Result<(), ObjectError> {
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(ObjectError::Damaged(format!("it has two sections {}", twice[0])));
    }
    Ok(())
}

/// Notes the functions of sections by where they begin.
fn functions<'a>(
    endian: Endianness,
    symbols: &SymbolTable<'a, FileHeader64<Endianness>>,
    sections: &mut BTreeMap<usize, CodeSection<'a>>,
) -> Result<(), ObjectError> {
    let damaged = |error: object::read::Error| ObjectError::Damaged(error.to_string());
    let mut programs = BTreeSet::new();
    let functions = symbols.iter().filter(|symbol| symbol.st_type() == STT_FUNC);
    for (n, symbol) in functions.enumerate() {
        at_most(n, MOST_FUNCTIONS, "functions")?;
        let index = usize::from(symbol.st_shndx(endian).0);
        if let Some(section) = sections.get_mut(&index) {
            let name = name_of("function", symbol.name(endian, symbols.strings()).map_err(damaged)?)?;
            let function = Function { name, is_local: symbol.st_bind() == STB_LOCAL };
            if !function.is_local && !programs.insert(function.name.clone()) {
                return Err(ObjectError::Damaged(format!("it has two functions {}", function.name)));
            }
            let before = section.functions.insert(symbol.st_value(endian), function);
            if let Some(before) = before {
                let why = format!("two functions begin at one place of its section {}: {}", section.name, before.name);
                return Err(ObjectError::Damaged(why));
            }
        }
    }
    Ok(())
}

/// Notes where the instructions of sections name a symbol.
fn named_symbols<'a>(
    (endian, bytes): (Endianness, &'a [u8]),
    table: &SectionTable<'a, FileHeader64<Endianness>>,
    symbols: &SymbolTable<'a, FileHeader64<Endianness>>,
    sections: &mut BTreeMap<usize, CodeSection<'a>>,
) -> Result<(), ObjectError> {
    let damaged = |error: object::read::Error| ObjectError::Damaged(error.to_string());
    let mut count = 0;
    for section in table.iter().filter(|section| section.sh_type(endian) == SHT_REL) {
        let Some(of) = sections.get_mut(&(section.sh_info(endian) as usize)) else { continue };
        let Some((places, _)) = section.rel(endian, bytes).map_err(damaged)? else { continue };
        count += places.len();
        at_most(count, MOST_RELOCATIONS, "places for a loader to fill in")?;
        for place in places {
            let number = object::SymbolIndex(place.r_sym(endian) as usize);
            let symbol = symbols.symbol(number).map_err(damaged)?;
            let at = (usize::from(symbol.st_shndx(endian).0), symbol.st_value(endian));
            of.symbols.insert(place.r_offset(endian), at);
        }
    }
    Ok(())
}

fn name_of(what: &str, name: &[u8]) -> Result<String, ObjectError> {
    match name.len() {
        length if length <= MOST_NAME => Ok(String::from_utf8_lossy(name).into_owned()),
        length => Err(ObjectError::Damaged(format!("the name of a {what} has {length} bytes"))),
    }
}

fn at_most(count: usize, most: usize, what: &str) -> Result<(), ObjectError> {
    if count <= most { Ok(()) } else { Err(ObjectError::Damaged(format!("it has more than {most} {what}"))) }
}

/// Why a source's BTF cannot be read: one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    #[error("cannot read {}: {error}: name a BPF object's file, `vmlinux`, or a module that is loaded", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{} is not a plain file, or is empty: name an object, a module or vmlinux", .0.display())]
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

/// The bytes of a plain file.
fn read(path: &Path) -> Result<Vec<u8>, SourceError> {
    let io = |error| SourceError::Io { path: path.to_owned(), error };
    let file = plain_file(path).map_err(io)?.ok_or_else(|| SourceError::NoFile(path.to_owned()))?;
    let length = file.metadata().map_err(io)?.len();
    let mut bytes = Vec::with_capacity(length.min(MOST_BYTES) as usize);
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(SourceError::Large(path.to_owned()));
    }
    Ok(bytes)
}

/// A plain file with something in it, opened; `None` for anything else, of which nothing may end
/// the reading. A file of `/proc` or of tracefs says that it is plain and empty: to read `kmsg` or
/// `trace_pipe` would take lines away from others.
///
/// # Errors
/// If there is no such file, or it may not be read.
pub fn plain_file(path: &Path) -> std::io::Result<Option<File>> {
    // To open a device may do something: so the place is opened first, and what is there is opened
    // by this, whatever has the name by then.
    let place = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    let known = place.metadata()?;
    if !known.is_file() || known.len() == 0 {
        return Ok(None);
    }
    let what = format!("/proc/self/fd/{}", place.as_raw_fd());
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    File::options().read(true).custom_flags(flags).open(what).map(Some)
}
