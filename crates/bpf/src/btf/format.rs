// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the format says: how far a table of types is followed, whoever made it, which kinds of
//! types there are, how numbers lie in the bytes, and what may be wrong with them.

/// Why BTF cannot be read. Each message is a clause that goes after a source's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BtfError {
    #[error("it has {0} bytes, and the header of BTF alone has 24")]
    Short(usize),
    #[error("it has {0} bytes, and BTF counts its bytes in 32 bits")]
    Long(usize),
    #[error("it begins with {0:#06x} and not with the magic number of BTF, 0xeb9f")]
    Magic(u16),
    #[error(
        "it is BTF of a big-endian machine, and hints are read in the order of this one: compile the object for \
         this machine (clang -target bpfel)"
    )]
    BigEndian,
    #[error("it is version {0} of BTF, and only version 1 is known")]
    Version(u8),
    #[error("its header claims to have {claimed} bytes, and it needs 24 to {whole}")]
    Header { claimed: u32, whole: usize },
    #[error("its {what} claim {length} bytes at {offset}, and {there} bytes follow the header")]
    Section { what: &'static str, offset: u32, length: u32, there: usize },
    #[error("its strings do not end with a zero byte")]
    Endless,
    #[error(
        "it continues the types of another BTF, as that of a kernel module does: name the module itself, and it is \
         read on top of vmlinux"
    )]
    Split,
    #[error("type {id} is of kind {kind}, and only kinds 1 to 19 are known")]
    Kind { id: u32, kind: u8 },
    #[error("type {0} ends beyond the last byte of the types")]
    Cut(u32),
    #[error("type {0} does not exist")]
    NoType(u32),
    #[error("a name is at {0}, where there are no strings")]
    NoName(u32),
    #[error("the name at {0} is not text, or has more than {MOST_NAME} bytes")]
    Name(u32),
    #[error("from type {0} more than {MOST_STEPS} types lead to no end")]
    Deep(u32),
    #[error("type {0} has no size")]
    Unsized(u32),
}

/// The most bytes of a name, the same as for the kernel's symbols. A table whose names all were
/// one of megabytes would otherwise take far more memory than its own.
pub const MOST_NAME: usize = 511;

/// The most types that may lead to each other before one that is more than a name: the kernel's own
/// limit. A typedef that leads back to itself would otherwise have no end.
pub const MOST_STEPS: usize = 32;

/// What a type is. The numbers are those of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TypeKind {
    Int = 1,
    Pointer = 2,
    Array = 3,
    Struct = 4,
    Union = 5,
    Enum = 6,
    /// A struct or union that is only declared.
    Forward = 7,
    Typedef = 8,
    Volatile = 9,
    Const = 10,
    Restrict = 11,
    Function = 12,
    Prototype = 13,
    Variable = 14,
    /// The variables of an ELF section.
    DataSection = 15,
    Float = 16,
    /// The word of `__attribute__((btf_decl_tag))` on a declaration.
    DeclarationTag = 17,
    /// The word of `__attribute__((btf_type_tag))` on a type.
    TypeTag = 18,
    Enum64 = 19,
}

impl TypeKind {
    /// The kind of this number.
    pub(super) const fn of(number: u8) -> Option<TypeKind> {
        Some(match number {
            1 => TypeKind::Int,
            2 => TypeKind::Pointer,
            3 => TypeKind::Array,
            4 => TypeKind::Struct,
            5 => TypeKind::Union,
            6 => TypeKind::Enum,
            7 => TypeKind::Forward,
            8 => TypeKind::Typedef,
            9 => TypeKind::Volatile,
            10 => TypeKind::Const,
            11 => TypeKind::Restrict,
            12 => TypeKind::Function,
            13 => TypeKind::Prototype,
            14 => TypeKind::Variable,
            15 => TypeKind::DataSection,
            16 => TypeKind::Float,
            17 => TypeKind::DeclarationTag,
            18 => TypeKind::TypeTag,
            19 => TypeKind::Enum64,
            _ => return None,
        })
    }

    /// Bytes that follow the twelve that every type has, where `count` is its number of members.
    pub(super) const fn tail(self, count: u16) -> usize {
        let count = count as usize;
        match self {
            TypeKind::Int | TypeKind::Variable | TypeKind::DeclarationTag => 4,
            TypeKind::Array => 12,
            TypeKind::Struct | TypeKind::Union | TypeKind::DataSection | TypeKind::Enum64 => 12 * count,
            TypeKind::Enum | TypeKind::Prototype => 8 * count,
            TypeKind::Pointer
            | TypeKind::Forward
            | TypeKind::Typedef
            | TypeKind::Volatile
            | TypeKind::Const
            | TypeKind::Restrict
            | TypeKind::Function
            | TypeKind::Float
            | TypeKind::TypeTag => 0,
        }
    }

    /// True for a type that is another one with a name or a property.
    pub const fn is_another(self) -> bool {
        matches!(
            self,
            TypeKind::Typedef | TypeKind::Volatile | TypeKind::Const | TypeKind::Restrict | TypeKind::TypeTag
        )
    }
}

/// The little-endian number at `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

/// The little-endian number at `at`.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_le_bytes(*chunk))
}
