// SPDX-License-Identifier: MIT OR Apache-2.0
//! BTF, the BPF Type Format: the types of a program, of the kernel or of a module as a table of
//! bytes. This is a reader of that table ([`Btf`]), without libbpf: its header, where each type
//! begins, the names, what a type is in the end, how large it is, and how C writes it.
//!
//! The format is the kernel's: `Documentation/bpf/btf.rst` and `include/uapi/linux/btf.h`. The
//! table may come from anybody. So every offset is checked, no chain of types is followed further
//! than [`MOST_STEPS`], and no name is longer than [`MOST_NAME`].
//!
//! The BTF of a module is *split*: its types and strings continue those of vmlinux, its base. Type
//! numbers and offsets of names below the base's count belong to the base.

mod format;

pub use format::{BtfError, MOST_NAME, MOST_STEPS, TypeKind};

use format::{u16_at, u32_at};
use std::ops::Range;
use std::sync::Arc;

const MAGIC: u16 = 0xeb9f;
/// Bytes of the header that is read; a later kernel may have a longer one.
const HEADER: usize = 24;
/// Bytes that every type has.
const HEAD: usize = 12;

/// The types of an object, of the kernel or of a module. It keeps the bytes and one number for each
/// type; the rest is read when it is asked for.
#[derive(Debug)]
pub struct Btf {
    raw: Vec<u8>,
    strings: Range<usize>,
    /// Where each own type begins in `raw`.
    starts: Vec<u32>,
    base: Option<Arc<Btf>>,
    /// Type 0 is void, and is in no table.
    first_id: u32,
    first_string: u32,
}

/// A type as the table has it.
#[derive(Clone, Copy, Debug)]
pub struct Type<'a> {
    pub kind: TypeKind,
    /// Where its name is; 0 is none.
    pub name: u32,
    /// A struct has bitfields, an enum has signed values.
    pub flag: bool,
    /// Its size in bytes, or the type that it leads to.
    pub number: u32,
    /// What follows the head: members, values, bounds.
    tail: &'a [u8],
}

/// A member of a struct or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructMember {
    /// Where its name is; 0 is none.
    pub name: u32,
    pub id: u32,
    /// From the beginning of the struct, in bits.
    pub bit: u32,
    /// Bits of a bitfield; 0 if it is none.
    pub bits: u8,
}

impl Btf {
    /// Reads a table that needs no other, as that of an object or of vmlinux.
    ///
    /// # Errors
    /// If it is no BTF, of a big-endian machine, damaged, or that of a module.
    pub fn parse(raw: Vec<u8>) -> Result<Btf, BtfError> {
        Btf::read(raw, None)
    }

    /// Reads the table of a module, on top of vmlinux.
    ///
    /// # Errors
    /// If it is no BTF, of a big-endian machine, or damaged.
    pub fn parse_split(raw: Vec<u8>, base: Arc<Btf>) -> Result<Btf, BtfError> {
        Btf::read(raw, Some(base))
    }

    fn read(raw: Vec<u8>, base: Option<Arc<Btf>>) -> Result<Btf, BtfError> {
        let short = || BtfError::Short(raw.len());
        if u32::try_from(raw.len()).is_err() {
            return Err(BtfError::Long(raw.len()));
        }
        match u16_at(&raw, 0).ok_or_else(short)? {
            MAGIC => {}
            other if other.swap_bytes() == MAGIC => return Err(BtfError::BigEndian),
            other => return Err(BtfError::Magic(other)),
        }
        match *raw.get(2).ok_or_else(short)? {
            1 => {}
            other => return Err(BtfError::Version(other)),
        }
        let claimed = u32_at(&raw, 4).filter(|_| raw.len() >= HEADER).ok_or_else(short)?;
        let header = claimed as usize;
        if !(HEADER..=raw.len()).contains(&header) {
            return Err(BtfError::Header { claimed, whole: raw.len() });
        }
        let types = section(&raw, header, 8, "types")?;
        let strings = section(&raw, header, 16, "strings")?;
        check_strings(&raw[strings.clone()], base.is_some())?;
        let (first_id, first_string) = match &base {
            None => (1, 0),
            Some(base) => (base.end_id(), base.end_string()),
        };
        let starts = starts(&raw, types, first_id)?;
        // Numbers of types and offsets of names have 32 bits, those of the base among them.
        let ends = (first_id as usize + starts.len()).max(first_string as usize + strings.len());
        u32::try_from(ends).map_err(|_| BtfError::Long(raw.len()))?;
        Ok(Btf { raw, strings, starts, base, first_id, first_string })
    }

    /// The numbers of this table's own types: none of its base, and not 0, which is void.
    pub fn ids(&self) -> Range<u32> {
        self.first_id..self.end_id()
    }

    fn end_id(&self) -> u32 {
        self.first_id + self.starts.len() as u32
    }

    fn end_string(&self) -> u32 {
        self.first_string + self.strings.len() as u32
    }

    /// The table that has a type of this number, itself or its base.
    fn having(&self, is_below: impl Fn(&Btf) -> bool) -> &Btf {
        let mut table = self;
        while let (true, Some(base)) = (is_below(table), &table.base) {
            table = base;
        }
        table
    }

    /// The type of this number.
    ///
    /// # Errors
    /// If there is none; void, number 0, is none.
    pub fn get(&self, id: u32) -> Result<Type<'_>, BtfError> {
        let table = self.having(|table| id < table.first_id);
        let place = id.checked_sub(table.first_id).and_then(|place| table.starts.get(place as usize));
        let start = *place.ok_or(BtfError::NoType(id))? as usize;
        Type::read(&table.raw[start..], id)
    }

    /// The name at this offset; empty for offset 0.
    ///
    /// # Errors
    /// If there are no strings, or what is there is no text or too long.
    pub fn name(&self, offset: u32) -> Result<&str, BtfError> {
        let bytes = self.string(offset).ok_or(BtfError::NoName(offset))?;
        // One more than a name may have, for the zero that ends it.
        let near = &bytes[..bytes.len().min(MOST_NAME + 1)];
        let end = near.iter().position(|byte| *byte == 0).ok_or(BtfError::Name(offset))?;
        std::str::from_utf8(&near[..end]).map_err(|_| BtfError::Name(offset))
    }

    /// True if the name at this offset is this one. It costs less than to look at the whole name.
    pub fn is_named(&self, offset: u32, name: &str) -> bool {
        let rest = self.string(offset).and_then(|bytes| bytes.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The bytes from this offset of the strings on.
    fn string(&self, offset: u32) -> Option<&[u8]> {
        let table = self.having(|table| offset < table.first_string);
        let at = offset.checked_sub(table.first_string)? as usize;
        table.raw[table.strings.clone()].get(at..).filter(|bytes| !bytes.is_empty())
    }
}

/// The range of a section whose offset and length are at `at` in the header.
fn section(raw: &[u8], header: usize, at: usize, what: &'static str) -> Result<Range<usize>, BtfError> {
    let number = |at| u32_at(raw, at).ok_or(BtfError::Short(raw.len()));
    let (offset, length) = (number(at)?, number(at + 4)?);
    let start = (header as u64) + u64::from(offset);
    let end = start + u64::from(length);
    if end > raw.len() as u64 {
        return Err(BtfError::Section { what, offset, length, there: raw.len() - header });
    }
    Ok(start as usize..end as usize)
}

/// The first string of a table that continues no other is the empty one.
fn check_strings(strings: &[u8], has_base: bool) -> Result<(), BtfError> {
    match (strings.first(), strings.last()) {
        (None, _) if has_base => Ok(()),
        (_, Some(1..)) | (None, _) => Err(BtfError::Endless),
        (Some(1..), _) if !has_base => Err(BtfError::Split),
        _ => Ok(()),
    }
}

/// Where each type begins. There are at most a twelfth as many as there are bytes.
fn starts(raw: &[u8], types: Range<usize>, first_id: u32) -> Result<Vec<u32>, BtfError> {
    let bytes = &raw[..types.end];
    let mut starts = Vec::new();
    let mut at = types.start;
    while at < types.end {
        let id = first_id.saturating_add(starts.len() as u32);
        let info = u32_at(bytes, at + 4).ok_or(BtfError::Cut(id))?;
        let end = at + HEAD + kind_of(info, id)?.tail(count_of(info));
        if end > types.end {
            return Err(BtfError::Cut(id));
        }
        starts.push(at as u32);
        at = end;
    }
    Ok(starts)
}

fn kind_of(info: u32, id: u32) -> Result<TypeKind, BtfError> {
    let kind = (info >> 24) as u8 & 0x1f;
    TypeKind::of(kind).ok_or(BtfError::Kind { id, kind })
}

fn count_of(info: u32) -> u16 {
    info as u16
}

impl<'a> Type<'a> {
    /// Reads the type at the beginning of these bytes, which were checked to hold it.
    fn read(bytes: &'a [u8], id: u32) -> Result<Type<'a>, BtfError> {
        let number = |at| u32_at(bytes, at).ok_or(BtfError::Cut(id));
        let info = number(4)?;
        let kind = kind_of(info, id)?;
        let tail = bytes.get(HEAD..HEAD + kind.tail(count_of(info))).ok_or(BtfError::Cut(id))?;
        Ok(Type { kind, name: number(0)?, flag: info >> 31 == 1, number: number(8)?, tail })
    }

    /// The members of a struct or union; nothing of any other type.
    pub fn members(&self) -> impl DoubleEndedIterator<Item = StructMember> + ExactSizeIterator + use<'a> {
        let has = matches!(self.kind, TypeKind::Struct | TypeKind::Union);
        let (bytes, flag) = (if has { self.tail } else { &[] }, self.flag);
        bytes.as_chunks::<12>().0.iter().map(move |chunk| {
            let number = |at| u32_at(chunk, at).unwrap_or_default();
            let place = number(8);
            let (bit, bits) = if flag { (place & 0x00ff_ffff, (place >> 24) as u8) } else { (place, 0) };
            StructMember { name: number(0), id: number(4), bit, bits }
        })
    }

    /// Element and number of elements of an array.
    pub fn array(&self) -> Option<(u32, u32)> {
        let number = |at| u32_at(self.tail, at);
        if self.kind == TypeKind::Array { Some((number(0)?, number(8)?)) } else { None }
    }

    /// How the bits of an integer are meant.
    pub fn integer(&self) -> Option<Integer> {
        let word = u32_at(self.tail, 0).filter(|_| self.kind == TypeKind::Int)?;
        let encoding = word >> 24;
        let [bits, _, bit, _] = word.to_le_bytes();
        Some(Integer { is_signed: encoding & 1 != 0, is_bool: encoding & 4 != 0, bit, bits })
    }
}

/// The bits of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    pub is_signed: bool,
    pub is_bool: bool,
    /// Where its bits begin, and how many there are: compilers used this for bitfields before
    /// structs could have them.
    pub bit: u8,
    pub bits: u8,
}

/// Bytes of a pointer: BPF and this machine have 64 bits.
const POINTER: u64 = 8;

impl Btf {
    /// The type behind typedefs, `const` and the like, with its number.
    ///
    /// # Errors
    /// If there is no such type, or the chain of types is too long.
    pub fn resolve(&self, id: u32) -> Result<(u32, Type<'_>), BtfError> {
        let mut at = id;
        for _ in 0..MOST_STEPS {
            let found = self.get(at)?;
            if !found.kind.is_another() {
                return Ok((at, found));
            }
            at = found.number;
        }
        Err(BtfError::Deep(id))
    }

    /// The size of a value of this type in bytes.
    ///
    /// # Errors
    /// If there is no such type, the chain of types is too long, or it has no size: a function,
    /// void, or an array beyond 64 bits.
    pub fn size_of(&self, id: u32) -> Result<u64, BtfError> {
        let (mut at, mut times) = (id, 1u64);
        for _ in 0..MOST_STEPS {
            let (_, found) = self.resolve(at)?;
            let one = match found.kind {
                TypeKind::Int
                | TypeKind::Struct
                | TypeKind::Union
                | TypeKind::Enum
                | TypeKind::Enum64
                | TypeKind::Float
                | TypeKind::DataSection => u64::from(found.number),
                TypeKind::Pointer => POINTER,
                TypeKind::Array => {
                    let (element, count) = found.array().ok_or(BtfError::Unsized(at))?;
                    times = times.checked_mul(u64::from(count)).ok_or(BtfError::Unsized(id))?;
                    at = element;
                    continue;
                }
                _ => return Err(BtfError::Unsized(at)),
            };
            return times.checked_mul(one).ok_or(BtfError::Unsized(id));
        }
        Err(BtfError::Deep(id))
    }

    /// The type as C writes it: `__u64`, `struct point`, `__u8[6]`, `const char *`.
    ///
    /// # Errors
    /// If there is no such type, the chain of types is too long, or a name cannot be read.
    pub fn spelled(&self, id: u32) -> Result<String, BtfError> {
        let (mut at, mut before, mut after) = (id, String::new(), String::new());
        for _ in 0..MOST_STEPS {
            if at == 0 {
                return Ok(format!("{before}void{after}"));
            }
            let found = self.get(at)?;
            let keyword = match found.kind {
                TypeKind::Struct => "struct ",
                TypeKind::Union => "union ",
                TypeKind::Enum | TypeKind::Enum64 => "enum ",
                // Only its name says which of the two it is: the flag is a union's.
                TypeKind::Forward => {
                    if found.flag {
                        "union "
                    } else {
                        "struct "
                    }
                }
                TypeKind::Const => {
                    before.push_str("const ");
                    at = found.number;
                    continue;
                }
                TypeKind::Volatile | TypeKind::Restrict | TypeKind::TypeTag => {
                    at = found.number;
                    continue;
                }
                TypeKind::Pointer => {
                    after.insert_str(0, if after.starts_with('*') { "*" } else { " *" });
                    at = found.number;
                    continue;
                }
                TypeKind::Array => {
                    let (element, count) = found.array().ok_or(BtfError::Unsized(at))?;
                    after.push_str(&format!("[{count}]"));
                    at = element;
                    continue;
                }
                TypeKind::Prototype => return Ok(format!("{before}function{after}")),
                _ => "",
            };
            let name = match self.name(found.name)? {
                "" => "{…}",
                name => name,
            };
            return Ok(format!("{before}{keyword}{name}{after}"));
        }
        Err(BtfError::Deep(id))
    }
}
