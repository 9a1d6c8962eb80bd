// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hints: what an XDP program knew of a packet, in a struct that it left in the metadata area just
//! before the packet. Only BTF describes the struct, so a receiver need not be compiled for it.
//!
//! The convention has three parts:
//!
//! - The struct's last member is `btf_id` and has 4 bytes. So the last 4 bytes before a packet are
//!   the number of a type, whatever struct that is.
//! - The program writes there what `bpf_core_type_id_local(struct …)` gives: the number of the
//!   struct in the object's own BTF. 0 means that there is no hint.
//! - The struct ends where the packet begins. So its size, which BTF has, leads to its beginning.
//!
//! [`Layouts`] are the structs of one BTF that can be hints. [`Layouts::read`] finds the one before
//! a packet. An [`Accessor`] is looked up by name once and reads one member in a few nanoseconds.
//!
//! The numbers belong to one BTF. Read it from the very bytes of the object that was loaded: a
//! second compilation may number its types otherwise.
//!
//! # Example
//!
//! This program prints the hints in areas that are given as hexadecimal bytes
//! (`crates/bpf/examples/decode.rs`; `decode.c` next to it does the same in C):
//!
//! ```no_run
#![doc = include_str!("../../examples/decode.rs")]
//! ```

mod columns;
mod layout;
mod read;

pub use columns::{Columns, ColumnsError, Unrecorded};
pub use layout::{FindError, Layout, MOST_AREA, MOST_MEMBERS, MOST_MEMBERS_OF_ALL, Member, MemberKind, Unfit};
pub use read::{Accessor, AccessorError, Hint, HintError, Value};

use crate::btf::Btf;
use crate::source::{self, ObjectError};
use layout::{Found, find};

/// Why the hint structs of an object are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutsError {
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Find(#[from] FindError),
}

/// Bytes of the number before the packet.
const ID: usize = 4;

/// The hint structs of one BTF.
#[derive(Clone, Debug)]
pub struct Layouts {
    found: Found,
    /// A table of places in the list, open addressing by a hash of the number, at most half full.
    /// Structs that alternate packet by packet are each found at the first look.
    slots: Vec<Slot>,
    /// What is left of a hash is the number of a slot.
    shift: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    id: u32,
    /// Place in the list, from 1; 0 is free.
    place: u32,
}

impl Layouts {
    /// The hint structs of an object, from the bytes that are loaded.
    ///
    /// # Errors
    /// If it has no BTF that can be read.
    pub fn of_object(bytes: &[u8]) -> Result<Layouts, LayoutsError> {
        Ok(Layouts::of(&source::btf(bytes)?)?)
    }

    /// The hint structs among the own types of a BTF: of a module's, not those of vmlinux. There
    /// may be none.
    ///
    /// # Errors
    /// If the types are damaged, or the structs have too many members in all.
    pub fn of(btf: &Btf) -> Result<Layouts, FindError> {
        let found = find(btf)?;
        let bits = (2 * found.layouts.len()).max(2).next_power_of_two().trailing_zeros();
        let mut layouts = Layouts { found, slots: vec![Slot::default(); 1 << bits], shift: u32::BITS - bits };
        for (place, layout) in (1..).zip(&layouts.found.layouts) {
            let mut at = slot_of(layout.id, layouts.shift);
            while layouts.slots[at].place != 0 {
                at = (at + 1) % layouts.slots.len();
            }
            layouts.slots[at] = Slot { id: layout.id, place };
        }
        Ok(layouts)
    }

    /// The layouts, by ascending BTF id.
    pub fn iter(&self) -> std::slice::Iter<'_, Layout> {
        self.found.layouts.iter()
    }

    pub fn len(&self) -> usize {
        self.found.layouts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.found.layouts.is_empty()
    }

    /// Structs whose last member is called `btf_id`, and that are no hints nevertheless.
    pub fn unfit(&self) -> &[Unfit] {
        &self.found.unfit
    }

    /// How many structs with a name there are, hints or not, and the names of the first.
    pub fn structs(&self) -> (usize, &[String]) {
        (self.found.structs, &self.found.names)
    }

    /// The layout of this number.
    #[inline]
    pub fn by_id(&self, id: u32) -> Option<&Layout> {
        let mut at = slot_of(id, self.shift);
        // There is a free slot, at which this ends.
        loop {
            let slot = self.slots.get(at)?;
            if slot.place == 0 {
                return None;
            }
            if slot.id == id {
                return self.found.layouts.get(slot.place as usize - 1);
            }
            at = (at + 1) % self.slots.len();
        }
    }

    /// The layouts of this name: BTF may have several structs of one name.
    pub fn by_name(&self, name: &str) -> impl Iterator<Item = &Layout> {
        self.iter().filter(move |layout| layout.name == name)
    }

    /// Finds the hint at the end of `area`, which ends where the packet begins. Bytes before the
    /// hint do not matter: with AF_XDP that is what was left there before. `None` if there is no
    /// hint: the area is empty, or the number is 0.
    ///
    /// A frame that is used again still has its last hint. Whoever gives it back to the kernel sets
    /// the last 4 bytes before the packet to 0.
    ///
    /// # Errors
    /// If the number is that of no hint struct, or the area is shorter than the struct.
    #[inline]
    pub fn read<'a>(&'a self, area: &'a [u8]) -> Result<Option<Hint<'a>>, HintError> {
        let have = area.len();
        let Some(id) = area.last_chunk::<ID>().map(|id| u32::from_le_bytes(*id)) else {
            return if have == 0 { Ok(None) } else { Err(HintError::Truncated { id: None, have, need: ID }) };
        };
        if id == 0 {
            return Ok(None);
        }
        let layout = self.by_id(id).ok_or(HintError::Unknown { id })?;
        match have.checked_sub(layout.size).and_then(|start| area.get(start..)) {
            Some(bytes) => Ok(Some(Hint::new(layout, bytes))),
            None => Err(HintError::Truncated { id: Some(id), have, need: layout.size }),
        }
    }

    /// Looks a member up by the names of its struct and its own.
    ///
    /// # Errors
    /// If there is no such struct or more than one, no such member, or it is no number.
    pub fn accessor(&self, name: &str, member: &str) -> Result<Accessor, AccessorError> {
        let mut named = self.by_name(name);
        let Some(layout) = named.next() else {
            let known: Vec<&str> = self.iter().map(|layout| layout.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(AccessorError::NoStruct { name: name.to_owned(), known });
        };
        match named.count() {
            0 => Accessor::new(layout, member),
            more => Err(AccessorError::Ambiguous { name: name.to_owned(), count: more + 1 }),
        }
    }
}

/// The slot where the search for a number begins. Neighbouring numbers, as structs of one file
/// have, are far apart (Knuth's multiplicative hash).
#[inline]
fn slot_of(id: u32, shift: u32) -> usize {
    (id.wrapping_mul(0x9e37_79b1) >> shift) as usize
}
