// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members of hint structs as columns of a table with one row for each packet.
//!
//! A column is named as its member. A member of the same name and type in two structs is one
//! column. Where the types differ, or the name is taken by a column that every table has, the name
//! of the struct goes in front: `arrival.seq`. Names that differ in case alone count as the same,
//! for SQL sees no difference.
//!
//! A member `has_NAME` that is 0 makes the struct's `NAME`, and `NAME_…`, absent from that row.

use super::layout::{Layout, Member, MemberKind};
use super::{Accessor, Hint, Layouts};
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::xdp::{HintColumn, Hints, MOST_COLUMNS, MOST_STRUCTS, is_taken};

/// The number of the type: the column `hint` has its struct's name.
const ID: &str = "btf_id";

/// Which column has which members.
#[derive(Clone, Debug)]
pub struct Columns {
    layouts: Layouts,
    columns: Vec<Column>,
    unrecorded: Vec<Unrecorded>,
    area: usize,
}

/// A column, and the member of each struct that goes into it.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    is_signed: bool,
    members: Vec<Source>,
}

/// A member, and the one that says whether there is a value.
#[derive(Clone, Debug)]
struct Source {
    member: String,
    value: Accessor,
    has: Option<Accessor>,
}

impl Source {
    fn new(layout: &Layout, member: &Member, value: Accessor) -> Source {
        let speaks_of = |of: &Member| {
            let rest = of.name.strip_prefix("has_").and_then(|name| member.name.strip_prefix(name));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        };
        let has = layout.members.iter().find(|of| speaks_of(of));
        Source { member: member.name.clone(), value, has: has.and_then(|of| Accessor::new(layout, &of.name).ok()) }
    }

    /// What the hint has; nothing if it is one of another struct.
    fn read(&self, hint: &Hint<'_>) -> Option<i64> {
        let is_there = self.has.is_none_or(|has| has.u64(hint).is_some_and(|has| has != 0));
        self.value.i64(hint).filter(|_| is_there)
    }
}

/// A member that gets no column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    pub layout: String,
    pub member: String,
    /// A clause that goes after the name.
    pub why: String,
}

/// Why there are no columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnsError {
    #[error("it has {0} hint structs, and at most {MOST_STRUCTS} are recorded")]
    Structs(usize),
    #[error("its hint structs have members for {0} columns, and at most {MOST_COLUMNS} are recorded")]
    Columns(usize),
}

/// What makes two members of one name the same: how the bits are meant, and how many there are.
type Meaning = (&'static str, bool, usize);

fn meaning(member: &Member) -> Meaning {
    let bits = if let MemberKind::Bitfield { bits, .. } = member.kind { bits.into() } else { 8 * member.size };
    (member.kind.word(), member.kind.is_signed(), bits)
}

fn is_c_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Why a member gets no column.
fn refusal(member: &Member) -> Option<String> {
    if !is_c_name(&member.name) {
        return Some("has a name that C does not know".to_owned());
    }
    let is_number = match member.kind {
        MemberKind::Integer { .. } | MemberKind::Bool | MemberKind::Enum { .. } => matches!(member.size, 1 | 2 | 4 | 8),
        MemberKind::Bitfield { bits, .. } => bits <= 64,
        _ => false,
    };
    (!is_number).then(|| format!("is {} of {} bytes, and not an integer of at most 8", member.kind.word(), member.size))
}

impl Columns {
    /// Those of the hint structs of an object.
    ///
    /// # Errors
    /// If there are too many structs, or too many members.
    pub fn of(layouts: Layouts) -> Result<Columns, ColumnsError> {
        if layouts.len() > MOST_STRUCTS {
            return Err(ColumnsError::Structs(layouts.len()));
        }
        let mut unrecorded = Vec::new();
        let mut found: Vec<(&Layout, &Member, Source)> = Vec::new();
        for layout in layouts.iter() {
            for member in layout.members.iter().filter(|member| member.name != ID) {
                let accessor = Accessor::new(layout, &member.name).ok();
                let odd = || (!is_c_name(&layout.name)).then(|| "is in a struct whose name C does not know".to_owned());
                match (refusal(member).or_else(odd), accessor) {
                    (None, Some(accessor)) => found.push((layout, member, Source::new(layout, member, accessor))),
                    (why, _) => unrecorded.push(Unrecorded {
                        layout: layout.name.clone(),
                        member: member.name.clone(),
                        why: why.unwrap_or_else(|| "is no number".to_owned()),
                    }),
                }
            }
        }
        let columns = named(&found);
        if columns.len() > MOST_COLUMNS {
            return Err(ColumnsError::Columns(columns.len()));
        }
        let area = layouts.iter().map(|layout| layout.size).max().unwrap_or(0);
        Ok(Columns { columns, unrecorded, area, layouts })
    }

    /// The names of the columns, in the order of the members.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// The column of a member of one of these structs.
    pub fn name_of(&self, layout: &Layout, member: &Member) -> Option<&str> {
        let is_it = |source: &Source| source.value.id() == layout.id && source.member == member.name;
        let column = self.columns.iter().find(|column| column.members.iter().any(is_it));
        column.map(|column| column.name.as_str())
    }

    /// Members that get none.
    pub fn unrecorded(&self) -> &[Unrecorded] {
        &self.unrecorded
    }

    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// Bytes before a packet that the largest struct needs.
    pub fn area(&self) -> usize {
        self.area
    }

    /// The columns of a table with a row for each of `rows`: the bytes before its packet, or
    /// nothing. What is no hint of these structs is absent from its row.
    pub fn decode<'a>(&self, rows: impl ExactSizeIterator<Item = Option<&'a [u8]>>) -> Hints {
        let mut hints = Hints {
            structs: self.layouts.iter().map(|layout| layout.name.clone()).collect(),
            of: Vec::with_capacity(rows.len()),
            columns: Vec::new(),
        };
        let mut cells: Vec<Vec<Option<i64>>> = vec![Vec::with_capacity(rows.len()); self.columns.len()];
        for area in rows {
            let hint = area.and_then(|area| self.layouts.read(area).ok().flatten());
            let place = hint.and_then(|hint| self.layouts.iter().position(|layout| layout.id == hint.id()));
            hints.of.push(place.and_then(|place| u8::try_from(place).ok()));
            for (column, cells) in self.columns.iter().zip(&mut cells) {
                cells.push(hint.and_then(|hint| column.members.iter().find_map(|member| member.read(&hint))));
            }
        }
        let each = self.columns.iter().zip(cells);
        hints.columns = each
            .map(|(column, values)| HintColumn { name: column.name.clone(), is_signed: column.is_signed, values })
            .collect();
        hints
    }
}

/// Members under the names of their columns.
fn named(found: &[(&Layout, &Member, Source)]) -> Vec<Column> {
    let mut meanings: BTreeMap<String, BTreeSet<(&str, Meaning)>> = BTreeMap::new();
    for (_, member, _) in found {
        meanings.entry(member.name.to_lowercase()).or_default().insert((&member.name, meaning(member)));
    }
    let mut columns: Vec<(Column, Meaning)> = Vec::new();
    for (layout, member, source) in found {
        let low = member.name.to_lowercase();
        let is_one = meanings.get(&low).is_some_and(|all| all.len() == 1) && !is_taken(&low);
        let prefixed = || format!("{}.{}", layout.name, member.name);
        let mut name = if is_one { member.name.clone() } else { prefixed() };
        let of = meaning(member);
        let named = |columns: &[(Column, Meaning)], name: &str| {
            columns.iter().position(|(column, _)| column.name.eq_ignore_ascii_case(name))
        };
        // BTF may have two structs of one name, and a third whose name differs in case.
        if let Some(at) = named(&columns, &name) {
            let (column, other) = &mut columns[at];
            if *other == of && column.name == name {
                column.members.push(source.clone());
                continue;
            }
            name = format!("{}#{}.{}", layout.name, layout.id, member.name);
        }
        columns.push((Column { name, is_signed: member.kind.is_signed(), members: vec![source.clone()] }, of));
    }
    columns.into_iter().map(|(column, _)| column).collect()
}
