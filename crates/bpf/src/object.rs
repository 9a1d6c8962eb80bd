// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BTF in an object's own bytes: the section `.BTF` of an ELF file, or BTF by itself.

use crate::btf::{Btf, BtfError};
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};

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
