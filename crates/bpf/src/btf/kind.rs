// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of types, and how many bytes each has in the table.

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
    /// `__attribute__((btf_decl_tag))`.
    DeclarationTag = 17,
    /// `__attribute__((btf_type_tag))`.
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
