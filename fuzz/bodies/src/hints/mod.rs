// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as an object, as BTF, and as the BTF of a module: its hint structs come out, within
//! limits, or one error does. Then each struct is read from areas of the same bytes: the members'
//! values are the same by name and by accessor, and no area is read beyond its end.

pub mod table;

use std::sync::Arc;
use table::Table;
use tardy_bpf::btf::{Btf, TypeKind};
use tardy_bpf::hints::{
    Accessor, HintError, Layout, Layouts, MOST_AREA, MOST_MEMBERS, MOST_MEMBERS_OF_ALL, Member, MemberKind, Value,
};
use tardy_bpf::source;

/// Types that are followed by hand, for each input.
const FOLLOWED: usize = 256;

/// One input; true if it has a hint struct.
pub fn input(bytes: &[u8]) -> bool {
    let mut has = false;
    match source::btf(bytes) {
        Ok(btf) => has |= searched(&btf, bytes),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let base = Arc::new(Btf::parse(base().bytes()).expect("a sound base"));
    match Btf::parse_split(bytes.to_vec(), base) {
        Ok(btf) => has |= searched(&btf, bytes),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    has
}

/// What the BTF of a module is read on top of.
pub fn base() -> Table {
    let mut base = Table::default();
    let word = base.integer("unsigned int", 4, 0, 32);
    base.named(TypeKind::Typedef, "__u32", word);
    base.structure("in_base", 4, &[("btf_id", word, 0)]);
    base
}

/// Finds the hint structs, and reads each of them; true if there is one.
fn searched(btf: &Btf, bytes: &[u8]) -> bool {
    for id in btf.ids().take(FOLLOWED) {
        // Each ends, with or without an error.
        let _ = (btf.resolve(id), btf.size_of(id), btf.spelled(id));
    }
    let layouts = match Layouts::of(btf) {
        Ok(layouts) => layouts,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let members: usize = layouts.iter().map(|layout| layout.members.len()).sum();
    assert!(members <= MOST_MEMBERS_OF_ALL, "{members} members");
    assert!(layouts.iter().is_sorted_by_key(|layout| layout.id), "the numbers ascend");
    assert_eq!(layouts.read(&[]).map(|hint| hint.is_none()), Ok(true), "an empty area has no hint");
    for layout in layouts.iter() {
        read(&layouts, layout, bytes);
    }
    !layouts.is_empty()
}

/// Reads one struct of an area that is made of the input's last bytes.
fn read(layouts: &Layouts, layout: &Layout, bytes: &[u8]) {
    assert!((4..=MOST_AREA).contains(&layout.size) && layout.members.len() <= MOST_MEMBERS, "{layout:?}");
    let mut area: Vec<u8> = bytes.iter().rev().copied().chain(std::iter::repeat(0xa5)).take(layout.size + 3).collect();
    let end = area.len() - 4;
    area[end..].copy_from_slice(&layout.id.to_le_bytes());
    let hint = layouts.read(&area).expect("an area of its size").expect("its number");
    assert_eq!((hint.id(), hint.layout()), (layout.id, layout));
    assert_eq!(hint.bytes(), &area[3..]);
    assert!(!hint.to_string().is_empty());
    for member in &layout.members {
        assert!(member.offset + member.size <= layout.size, "{member:?} of {layout:?}");
        let value = hint.value(member);
        // Of several members of one name the first is the one that is found.
        if layout.member(&member.name) == Some(member) {
            match Accessor::new(layout, &member.name) {
                Ok(accessor) => assert_eq!(Some(value), number(&accessor, &hint), "{member:?}"),
                Err(error) => assert!(!is_number(value), "{member:?}: {error}"),
            }
        }
        check(member, value, hint.bytes());
    }
    let short = &area[area.len() - layout.size + 1..];
    let truncated = HintError::Truncated { id: Some(layout.id), have: short.len(), need: layout.size };
    let expected =
        if short.len() < 4 { HintError::Truncated { id: None, have: short.len(), need: 4 } } else { truncated };
    assert_eq!(layouts.read(short).expect_err("an area that is too short"), expected);
    area[end..].fill(0);
    assert!(layouts.read(&area).expect("no hint").is_none());
    let stranger = (1..).find(|id| layouts.by_id(*id).is_none()).expect("a number of no struct");
    area[end..].copy_from_slice(&u32::to_le_bytes(stranger));
    assert_eq!(layouts.read(&area).expect_err("a stranger"), HintError::Unknown { id: stranger });
}

fn number<'a>(accessor: &Accessor, hint: &tardy_bpf::hints::Hint<'a>) -> Option<Value<'a>> {
    match accessor.is_signed() {
        true => accessor.i64(hint).map(Value::Signed),
        false => accessor.u64(hint).map(Value::Unsigned),
    }
}

fn is_number(value: Value<'_>) -> bool {
    matches!(value, Value::Unsigned(_) | Value::Signed(_))
}

/// The value again, bit by bit.
fn check(member: &Member, value: Value<'_>, bytes: &[u8]) {
    let (first, bits) = match member.kind {
        MemberKind::Bitfield { bit, bits, .. } => (usize::from(bit), usize::from(bits)),
        _ => (0, 8 * member.size),
    };
    let bit = |n: usize| bytes[member.offset + (first + n) / 8] >> ((first + n) % 8) & 1;
    let sum = || (0..bits).fold(0u64, |sum, n| sum | u64::from(bit(n)) << n);
    match value {
        Value::Unsigned(number) => assert_eq!(number, sum(), "{member:?}"),
        Value::Signed(number) => {
            let sign = if bits < 64 && bit(bits - 1) == 1 { u64::MAX << bits } else { 0 };
            assert_eq!(number as u64, sum() | sign, "{member:?}");
        }
        Value::Bytes(own) => assert_eq!(own, &bytes[member.offset..][..member.size], "{member:?}"),
        Value::Float(_) => assert!(matches!(member.size, 4 | 8), "{member:?}"),
    }
}

/// Inputs with hint structs, each by its name in the corpus.
pub fn whole() -> Vec<(&'static str, Vec<u8>)> {
    let plain = table::sample();
    vec![
        ("plain", plain.bytes()),
        ("elf", table::elf(&[(".text", &[0; 16]), (".BTF", &plain.bytes())])),
        ("repeated", table::bombs(20)),
        ("module", base().continued().structure("of_module", 8, &[("time", 2, 0), ("btf_id", 2, 32)]).bytes()),
    ]
}

/// Inputs that have none, the same way: broken, endless or too large.
pub fn broken() -> Vec<(&'static str, Vec<u8>)> {
    let plain = table::sample().bytes();
    let cut = plain[..plain.len() - 3].to_vec();
    let mut turned = plain.clone();
    turned[..2].reverse();
    let mut newer = plain.clone();
    newer[2] = 2;
    vec![
        ("cut", cut),
        ("big_endian", turned),
        ("version_2", newer),
        ("typedef_ring", table::ring()),
        ("nested", table::nested(40)),
        ("many_members", table::many(300)),
        ("long_name", table::long_name()),
        ("no_btf", table::elf(&[(".text", &[0; 16])])),
    ]
}
