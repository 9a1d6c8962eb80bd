// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a type is in the end, how large it is, and how C writes it.

use super::error::BtfError;
use super::kind::TypeKind;
use super::limits::MOST_STEPS;
use super::table::{Btf, Type};

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
