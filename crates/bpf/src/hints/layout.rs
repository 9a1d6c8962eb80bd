// SPDX-License-Identifier: MIT OR Apache-2.0
//! What BTF says of a hint struct, and how the hint structs are found among the types of a BTF.
//!
//! The BTF may be anybody's. A struct of 20 bytes of it may lead to hundreds of members with long
//! names, so what is built of it has its own limits.

use crate::btf::{Btf, BtfError, StructMember, Type, TypeKind};
use std::collections::BTreeMap;

/// A struct that can be left before a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The struct's name, or that of a typedef of it.
    pub name: String,
    /// The number of the type, as the program writes it into `btf_id`.
    pub id: u32,
    /// Bytes from its beginning to the packet: to the end of `btf_id`.
    pub size: usize,
    /// Bytes that the compiler put after `btf_id`. Where there are any, the program must not place
    /// the struct by its `sizeof`: the last 4 bytes before the packet would be padding.
    pub padding: usize,
    /// In the order of the struct; `btf_id` is the last.
    pub members: Vec<Member>,
}

/// A member of a hint struct. Those of an unnamed struct or union within it are its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// From the beginning of the struct, in bytes. Of a bitfield, that of its first bit.
    pub offset: usize,
    /// In bytes. Of a bitfield, the number of bytes that its bits are in.
    pub size: usize,
    pub kind: MemberKind,
    /// Its type as C writes it: `__u64`, `enum xdp_rss_hash_type`, `__u8[6]`.
    pub type_name: String,
}

/// How a member's bytes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberKind {
    Integer {
        signed: bool,
    },
    Bool,
    Enum {
        signed: bool,
    },
    Float,
    Pointer,
    /// Some bits from this one of the member's first byte on, the lowest being 0.
    Bitfield {
        bit: u8,
        bits: u8,
        signed: bool,
    },
    Array {
        count: u32,
    },
    /// A named struct or union within.
    Struct,
}

impl Layout {
    /// The member of this name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

impl MemberKind {
    /// True for numbers below zero.
    pub const fn is_signed(self) -> bool {
        match self {
            MemberKind::Integer { signed } | MemberKind::Enum { signed } | MemberKind::Bitfield { signed, .. } => {
                signed
            }
            MemberKind::Float => true,
            MemberKind::Bool | MemberKind::Pointer | MemberKind::Array { .. } | MemberKind::Struct => false,
        }
    }

    /// The word for it in messages and in the list of hints.
    pub const fn word(self) -> &'static str {
        match self {
            MemberKind::Integer { signed: true } => "signed",
            MemberKind::Integer { signed: false } => "unsigned",
            MemberKind::Bool => "bool",
            MemberKind::Enum { .. } => "enum",
            MemberKind::Float => "float",
            MemberKind::Pointer => "pointer",
            MemberKind::Bitfield { .. } => "bitfield",
            MemberKind::Array { .. } => "array",
            MemberKind::Struct => "struct",
        }
    }
}

/// The most bytes of a metadata area in any kernel: its length is kept in one byte and is a
/// multiple of 4 (`xdp_metalen_invalid` in `include/net/xdp.h`).
pub const MOST_AREA: usize = 252;

/// The most members of a hint struct, those of structs within it counted too.
pub const MOST_MEMBERS: usize = 256;

/// The most members of all hint structs of one BTF.
pub const MOST_MEMBERS_OF_ALL: usize = 1 << 16;

/// Unnamed structs within each other.
const MOST_DEPTH: usize = 8;

/// Names of structs that are kept for a message.
const MOST_NAMES: usize = 12;

/// Structs that are no hints by little and are kept for a message.
const MOST_UNFIT: usize = 64;

/// The last member, and its size.
const LAST: &str = "btf_id";
const LAST_SIZE: u64 = 4;

/// Why the hint structs cannot be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    #[error("its BTF is damaged: {0}")]
    Btf(#[from] BtfError),
    #[error(
        "its structs with a last member btf_id have more than {MOST_MEMBERS_OF_ALL} members: that is no XDP program"
    )]
    TooMany,
}

/// A struct whose last member is called `btf_id`, and that is no hint nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    pub name: String,
    pub id: u32,
    /// What is wrong: a clause that goes after the name.
    pub why: String,
}

/// What a BTF has of hint structs.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// The hint structs, by ascending BTF id.
    pub layouts: Vec<Layout>,
    pub unfit: Vec<Unfit>,
    /// Structs with a name, and the names of the first.
    pub structs: usize,
    pub names: Vec<String>,
}

/// Searches the own types of a BTF.
pub(super) fn find(btf: &Btf) -> Result<Found, FindError> {
    let mut found = Found::default();
    // Structs by their number, those without a name among them: a typedef may give them one.
    let mut hints = BTreeMap::new();
    let mut typedefs = Vec::new();
    let mut left = MOST_MEMBERS_OF_ALL;
    for id in btf.ids() {
        let one = btf.get(id)?;
        match one.kind {
            TypeKind::Struct => {
                if one.name != 0 {
                    found.structs += 1;
                    // One whose name cannot be read is in nobody's way.
                    if let (true, Ok(name)) = (found.names.len() < MOST_NAMES, btf.name(one.name)) {
                        found.names.push(name.to_owned());
                    }
                }
                if one.members().next_back().is_some_and(|last| btf.is_named(last.name, LAST)) {
                    match Walk::of(btf, id, &one, &mut left)? {
                        Ok(layout) => _ = hints.insert(id, layout),
                        Err(why) if found.unfit.len() < MOST_UNFIT => {
                            found.unfit.push(Unfit { name: btf.name(one.name)?.to_owned(), id, why });
                        }
                        Err(_) => {}
                    }
                }
            }
            TypeKind::Typedef => typedefs.push(id),
            _ => {}
        }
    }
    if hints.is_empty() {
        return Ok(found);
    }
    for id in typedefs {
        // A chain without end is an error only where somebody follows it.
        let Ok((target, _)) = btf.resolve(id) else { continue };
        if let Some(layout) = hints.get(&target) {
            left = left.checked_sub(layout.members.len()).ok_or(FindError::TooMany)?;
            let name = btf.name(btf.get(id)?.name)?.to_owned();
            found.layouts.push(Layout { name, id, ..layout.clone() });
        }
    }
    // Nobody can write the number of a struct without a name.
    found.layouts.extend(hints.into_values().filter(|layout| !layout.name.is_empty()));
    found.layouts.sort_unstable_by_key(|layout| layout.id);
    Ok(found)
}

/// The way through the members of one struct.
struct Walk<'a> {
    btf: &'a Btf,
    /// The byte at which `btf_id` ends.
    end: usize,
    members: Vec<Member>,
    /// Members that may still be visited: of this struct, and of all.
    own: usize,
    left: &'a mut usize,
}

/// What is wrong with a struct, or with the BTF.
enum Stop {
    Unfit(String),
    Broken(FindError),
}

impl From<BtfError> for Stop {
    fn from(error: BtfError) -> Stop {
        Stop::Broken(error.into())
    }
}

impl<'a> Walk<'a> {
    /// The layout of a struct with a last member `btf_id`, or why it is no hint.
    fn of(btf: &'a Btf, id: u32, of: &Type<'_>, left: &'a mut usize) -> Result<Result<Layout, String>, FindError> {
        let mut walk = Walk { btf, end: 0, members: Vec::new(), own: MOST_MEMBERS, left };
        match walk.layout(id, of) {
            Ok(layout) => Ok(Ok(layout)),
            Err(Stop::Unfit(why)) => Ok(Err(why)),
            Err(Stop::Broken(error)) => Err(error),
        }
    }

    fn layout(&mut self, id: u32, of: &Type<'_>) -> Result<Layout, Stop> {
        *self.left = self.left.checked_sub(1).ok_or(Stop::Broken(FindError::TooMany))?;
        let last = of.members().next_back().ok_or_else(|| Stop::Unfit("has no members".to_owned()))?;
        self.end = self.end_of(&last)?;
        let whole = of.number as usize;
        let padding = whole
            .checked_sub(self.end)
            .ok_or_else(|| Stop::Unfit(format!("has {whole} bytes, and its btf_id ends at byte {}", self.end)))?;
        self.visit(of, 0, 0)?;
        let name = self.btf.name(of.name)?.to_owned();
        Ok(Layout { name, id, size: self.end, padding, members: std::mem::take(&mut self.members) })
    }

    /// Where `btf_id` ends, if it is as it must be.
    fn end_of(&self, last: &StructMember) -> Result<usize, Stop> {
        let (_, kind) = self.btf.resolve(last.id)?;
        let number = matches!(kind.kind, TypeKind::Int | TypeKind::Enum);
        if !number || u64::from(kind.number) != LAST_SIZE || last.bits != 0 || !last.bit.is_multiple_of(8) {
            let name = self.btf.spelled(last.id)?;
            return Err(Stop::Unfit(format!("has a btf_id of type `{name}`, and not an integer of {LAST_SIZE} bytes")));
        }
        let end = last.bit as usize / 8 + LAST_SIZE as usize;
        if end > MOST_AREA {
            return Err(Stop::Unfit(format!(
                "has {end} bytes to the end of its btf_id, and the area before a packet has at most {MOST_AREA}"
            )));
        }
        Ok(end)
    }

    /// Visits the members of a struct that begins at bit `from`.
    fn visit(&mut self, of: &Type<'_>, from: u64, depth: usize) -> Result<(), Stop> {
        if depth > MOST_DEPTH {
            return Err(Stop::Unfit(format!("has structs within structs, more than {MOST_DEPTH} deep")));
        }
        for member in of.members() {
            self.own =
                self.own.checked_sub(1).ok_or_else(|| Stop::Unfit(format!("has more than {MOST_MEMBERS} members")))?;
            *self.left = self.left.checked_sub(1).ok_or(Stop::Broken(FindError::TooMany))?;
            let bit = from + u64::from(member.bit);
            let (_, kind) = self.btf.resolve(member.id)?;
            let name = self.btf.name(member.name)?;
            if name.is_empty() && matches!(kind.kind, TypeKind::Struct | TypeKind::Union) {
                self.visit(&kind, bit, depth + 1)?;
            } else if !name.is_empty() {
                let one = self.member(name, &member, &kind, bit)?;
                self.members.push(one);
            }
        }
        Ok(())
    }

    fn member(&self, name: &str, member: &StructMember, kind: &Type<'_>, bit: u64) -> Result<Member, Stop> {
        let mut bits = u64::from(member.bits);
        let mut bit = bit;
        let size = self.btf.size_of(member.id)?;
        if let Some(integer) = kind.integer().filter(|integer| bits == 0 && u64::from(integer.bits) != 8 * size) {
            bit += u64::from(integer.bit);
            bits = u64::from(integer.bits);
        }
        let outside = || Stop::Unfit(format!("has a member `{name}` that is not within its bytes"));
        let (size, is) = if bits > 0 {
            let signed = is_signed(kind);
            ((bit % 8 + bits).div_ceil(8), MemberKind::Bitfield { bit: (bit % 8) as u8, bits: bits as u8, signed })
        } else if !bit.is_multiple_of(8) {
            return Err(outside());
        } else {
            (size, kind_of(kind))
        };
        let offset = bit / 8;
        if offset.checked_add(size).is_none_or(|end| end > self.end as u64) {
            return Err(outside());
        }
        let type_name = self.btf.spelled(member.id)?;
        Ok(Member { name: name.to_owned(), offset: offset as usize, size: size as usize, kind: is, type_name })
    }
}

fn is_signed(of: &Type<'_>) -> bool {
    match of.kind {
        TypeKind::Int => of.integer().is_some_and(|integer| integer.is_signed),
        TypeKind::Enum | TypeKind::Enum64 => of.flag,
        _ => false,
    }
}

fn kind_of(of: &Type<'_>) -> MemberKind {
    match of.kind {
        TypeKind::Int if of.integer().is_some_and(|integer| integer.is_bool) => MemberKind::Bool,
        TypeKind::Int => MemberKind::Integer { signed: is_signed(of) },
        TypeKind::Enum | TypeKind::Enum64 => MemberKind::Enum { signed: of.flag },
        TypeKind::Float => MemberKind::Float,
        TypeKind::Pointer => MemberKind::Pointer,
        TypeKind::Array => MemberKind::Array { count: of.array().map_or(0, |(_, count)| count) },
        _ => MemberKind::Struct,
    }
}
