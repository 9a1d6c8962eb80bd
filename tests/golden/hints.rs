// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hints: which structs BTF describes, what is read of the bytes before a packet, and what becomes
//! of BTF that nobody should have made. The BTF is made by hand
//! ([`tardy_fuzz_bodies::hints::table`]); what clang makes is in [`objects`].

mod objects;

use proptest::prelude::*;
use std::fs;
use tardy_bpf::btf::{Btf, BtfError, TypeKind};
use tardy_bpf::hints::{Accessor, AccessorError, HintError, Layouts, Value};
use tardy_bpf::pitfalls::{Scan, scan, scan_sections};
use tardy_bpf::source::{self, KernelBtf, ObjectError, SourceError};
use tardy_fuzz_bodies::hints::table::{self, Table};
use tardy_fuzz_bodies::hints::{base, broken, input};
use tardy_model::xdp::{NumberedDevice, ObjectRecord};

fn layouts(table: &Table) -> Layouts {
    Layouts::of(&Btf::parse(table.bytes()).expect("sound BTF")).expect("hint structs")
}

/// The layouts, a line for each struct and member.
fn listed(layouts: &Layouts) -> Vec<String> {
    let mut lines = Vec::new();
    for layout in layouts.iter() {
        lines.push(format!("{} {} {}+{}", layout.name, layout.id, layout.size, layout.padding));
        for member in &layout.members {
            let (kind, signed) = (member.kind.word(), if member.kind.is_signed() { " signed" } else { "" });
            let (name, type_name) = (&member.name, &member.type_name);
            lines.push(format!("  {name} {}+{} {kind}{signed}: {type_name}", member.offset, member.size));
        }
    }
    lines
}

#[test]
fn every_kind_of_member_is_where_btf_has_it() {
    let expected = "every 14 55+0
  time 0+8 unsigned: unsigned long
  drift 8+2 signed signed: short
  is_mark 10+1 bool: _Bool
  low 11+1 bitfield: unsigned char
  high 11+1 bitfield: unsigned char
  mac 12+6 array: unsigned char[6]
  wide 18+9 bitfield: unsigned long
  rss 27+4 enum signed: enum rss
  share 31+4 float signed: float
  hash 35+4 unsigned: __u32
  ports 35+4 struct: struct point
  where 39+4 struct: struct point
  from 43+8 pointer: const unsigned char *
  btf_id 51+4 unsigned: __u32
small 15 8+0
  cpu 0+4 unsigned: unsigned int
  btf_id 4+4 unsigned: __u32
small_t 16 8+0
  cpu 0+4 unsigned: unsigned int
  btf_id 4+4 unsigned: __u32";
    assert_eq!(listed(&layouts(&table::sample())).join("\n"), expected);
}

/// A struct `every` of [`table::sample`] with a value in each member.
fn every() -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0x1122_3344_5566_7788u64.to_le_bytes());
    bytes.extend((-7i16).to_le_bytes());
    bytes.extend([1, 0b1010_1101]);
    bytes.extend([1, 2, 3, 4, 5, 6]);
    // 63 bits from the fourth bit of the first of nine bytes on.
    bytes.extend(&(0x7edc_ba98_7654_3210u128 << 3).to_le_bytes()[..9]);
    bytes.extend((-2i32).to_le_bytes());
    bytes.extend(0.75f32.to_le_bytes());
    bytes.extend([0xfe, 0xff, 3, 0]);
    bytes.extend([9, 0, 10, 0]);
    bytes.extend(0xffff_8880_0000_0000u64.to_le_bytes());
    bytes.extend(14u32.to_le_bytes());
    bytes
}

#[test]
fn members_are_read_at_any_address() {
    let layouts = layouts(&table::sample());
    for before in 0..9 {
        let area = [vec![0xee; before], every()].concat();
        let hint = layouts.read(&area).expect("a hint").expect("a number");
        assert_eq!(
            hint.to_string(),
            "every { time=1234605616436508552, drift=-7, is_mark=1, low=5, high=21, mac=010203040506, \
             wide=9141386507638288912, rss=-2, share=0.75, hash=262142, ports=feff0300, where=09000a00, \
             from=18446612682070032384, btf_id=14 }"
        );
        let number = |name| layouts.accessor("every", name).expect("a number").u64(&hint);
        assert_eq!(number("time"), Some(0x1122_3344_5566_7788));
        assert_eq!(number("wide"), Some(0x7edc_ba98_7654_3210));
        assert_eq!([number("low"), number("high")], [Some(5), Some(21)]);
        let drift = layouts.accessor("every", "drift").expect("a number");
        assert_eq!((drift.is_signed(), drift.i64(&hint), drift.u64(&hint)), (true, Some(-7), Some(-7i64 as u64)));
        let mac = hint.layout().member("mac").expect("a member");
        assert_eq!(hint.value(mac), Value::Bytes(&[1, 2, 3, 4, 5, 6]));
    }
}

#[test]
fn an_absent_an_unknown_and_a_cut_hint_are_three_things() {
    let layouts = layouts(&table::sample());
    let area = every();
    let of = |area: &[u8]| layouts.read(area).map(|hint| hint.map(|hint| hint.id()));
    assert_eq!(of(&area), Ok(Some(14)));
    assert_eq!(of(&[]), Ok(None));
    assert_eq!(of(&[1, 2, 3, 4, 0, 0, 0, 0]), Ok(None));
    assert_eq!(of(&[7, 0, 0]), Err(HintError::Truncated { id: None, have: 3, need: 4 }));
    assert_eq!(of(&area[1..]), Err(HintError::Truncated { id: Some(14), have: 54, need: 55 }));
    // Type 13 exists, and is no hint struct.
    assert_eq!(of(&[0, 0, 0, 0, 13, 0, 0, 0]), Err(HintError::Unknown { id: 13 }));
    assert_eq!(of(&[0xff; 64]), Err(HintError::Unknown { id: u32::MAX }));
    let message = of(&[7, 0, 0]).expect_err("cut").to_string();
    assert_eq!(message, "the area before the packet has 3 bytes, and the hint needs 4");
}

#[test]
fn a_hint_of_another_struct_gave_the_bytes_of_the_first_ones_member() {
    let layouts = layouts(&table::sample());
    let cpu = layouts.accessor("small", "cpu").expect("a number");
    let small = [[3, 0, 0, 0], 15u32.to_le_bytes()].concat();
    let typedef = [[4, 0, 0, 0], 16u32.to_le_bytes()].concat();
    let every = every();
    let read = |area| layouts.read(area).expect("a hint").expect("a number");
    // They alternate packet by packet.
    for _ in 0..3 {
        assert_eq!(cpu.u64(&read(&small)), Some(3));
        assert_eq!(cpu.u64(&read(&every)), None);
        assert_eq!(cpu.u64(&read(&typedef)), None, "its typedef has another number");
    }
    assert_eq!(layouts.accessor("small_t", "cpu").expect("a number").id(), 16);
}

#[test]
fn a_member_that_is_no_number_or_is_not_there_is_named() {
    let layouts = layouts(&table::sample());
    let refused = |name, member| layouts.accessor(name, member).expect_err("no accessor").to_string();
    assert_eq!(refused("evry", "time"), "there is no hint struct `evry`: there are every, small, small_t");
    assert_eq!(refused("small", "time"), "`small` has no member `time`: it has cpu, btf_id");
    assert_eq!(
        refused("every", "mac"),
        "`mac` of `every` is array of 6 bytes and not a number of 1, 2, 4 or 8: use Hint::value"
    );
    let mut twice = Table::default();
    let word = twice.integer("int", 4, 1, 32);
    twice.structure("a", 4, &[("btf_id", word, 0)]).structure("a", 8, &[("x", word, 0), ("btf_id", word, 32)]);
    let twice = self::layouts(&twice);
    let error = twice.accessor("a", "x").expect_err("two structs");
    assert_eq!(error, AccessorError::Ambiguous { name: "a".into(), count: 2 });
    let second = twice.by_name("a").nth(1).expect("the second");
    assert_eq!(Accessor::new(second, "x").map(|accessor| accessor.id()), Ok(3));
}

/// What is wrong with the only struct that is no hint.
fn unfit(bytes: u32, members: &[(&str, u32, u32, u32)], flag: bool) -> String {
    let mut table = Table::default();
    table.integer("int", 4, 1, 32);
    table.integer("long", 8, 1, 64);
    table.named(TypeKind::Pointer, "", 1);
    table.composite(TypeKind::Struct, "s", bytes, flag, members);
    let layouts = layouts(&table);
    assert!(layouts.is_empty());
    layouts.unfit().iter().map(|unfit| format!("{} {}", unfit.name, unfit.why)).collect()
}

#[test]
fn a_struct_that_is_nearly_a_hint_says_what_it_lacks() {
    assert_eq!(unfit(8, &[("btf_id", 2, 0, 0)], false), "s has a btf_id of type `long`, and not an integer of 4 bytes");
    assert_eq!(
        unfit(8, &[("btf_id", 3, 0, 0)], false),
        "s has a btf_id of type `int *`, and not an integer of 4 bytes"
    );
    assert_eq!(unfit(4, &[("btf_id", 1, 0, 9)], true), "s has a btf_id of type `int`, and not an integer of 4 bytes");
    assert_eq!(unfit(4, &[("btf_id", 1, 32, 0)], false), "s has 4 bytes, and its btf_id ends at byte 8");
    assert_eq!(
        unfit(4, &[("x", 2, 0, 0), ("btf_id", 1, 0, 0)], false),
        "s has a member `x` that is not within its bytes"
    );
    assert_eq!(
        unfit(256, &[("btf_id", 1, 2016, 0)], false),
        "s has 256 bytes to the end of its btf_id, and the area before a packet has at most 252"
    );
    assert_eq!(unfit(4, &[("id", 1, 0, 0)], false), "", "another last member makes no hint");
    assert_eq!(unfit(8, &[("btf_id", 1, 0, 0), ("x", 1, 32, 0)], false), "", "nor does a btf_id that is not the last");
}

#[test]
fn padding_after_the_number_does_not_move_the_struct() {
    let mut table = Table::default();
    let word = table.integer("int", 4, 0, 32);
    let long = table.integer("long", 8, 0, 64);
    table.structure("padded", 16, &[("time", long, 0), ("btf_id", word, 64)]);
    let layouts = layouts(&table);
    assert_eq!(listed(&layouts)[0], "padded 3 12+4");
    // What is at the end is the number, so the struct begins twelve bytes before the packet.
    let area = [&5u64.to_le_bytes()[..], &3u32.to_le_bytes()].concat();
    let hint = layouts.read(&area).expect("a hint").expect("a number");
    assert_eq!(layouts.accessor("padded", "time").expect("a number").u64(&hint), Some(5));
}

#[test]
fn bits_of_an_integer_make_a_bitfield_in_old_btf() {
    let mut table = Table::default();
    let word = table.integer("int", 4, 0, 32);
    let three = table.integer("unsigned int", 4, 0, 3);
    table.structure("old", 8, &[("low", three, 0), ("high", three, 29), ("btf_id", word, 32)]);
    let layouts = layouts(&table);
    let area = [0x05, 0, 0, 0xc0, 3, 0, 0, 0];
    let hint = layouts.read(&area).expect("a hint").expect("a number");
    assert_eq!(hint.to_string(), "old { low=5, high=6, btf_id=3 }");
}

#[test]
fn hostile_btf_ends_in_one_clear_error_or_no_hint() {
    let told: Vec<String> = broken()
        .into_iter()
        .map(|(name, bytes)| {
            let told = match source::btf(&bytes).map(|btf| Layouts::of(&btf)) {
                Err(error) => error.to_string(),
                Ok(Err(error)) => error.to_string(),
                Ok(Ok(layouts)) => layouts.unfit().iter().map(|unfit| unfit.why.clone()).collect::<Vec<_>>().join("; "),
            };
            assert!(!input(&bytes), "{name} has a hint struct");
            format!("{name}: {told}")
        })
        .collect();
    let expected = [
        "cut: its BTF cannot be read: its strings claim 196 bytes at 460, and 653 bytes follow the header",
        "big_endian: its BTF cannot be read: it is BTF of a big-endian machine, and hints are read in the order of \
         this one: compile the object for this machine (clang -target bpfel)",
        "version_2: its BTF cannot be read: it is version 2 of BTF, and only version 1 is known",
        "typedef_ring: its BTF is damaged: from type 1 more than 32 types lead to no end",
        "nested: has structs within structs, more than 8 deep; has structs within structs, more than 8 deep",
        "many_members: has more than 256 members",
        "long_name: its BTF is damaged: the name at 7 is not text, or has more than 511 bytes",
        "no_btf: it has no section .BTF: compile it with `clang -target bpf -g -O2`, and do not strip it",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_small_table_made_gigabytes_of_layouts() {
    let error = |bytes| Layouts::of(&Btf::parse(bytes).expect("a table")).map(|layouts| layouts.len());
    // 36 bytes a struct, each with 250 members whose names have 511 bytes.
    assert_eq!(error(table::bombs(200)), Ok(200));
    for count in [300, 100_000] {
        let why = error(table::bombs(count)).expect_err("too many").to_string();
        let expected = "its structs with a last member btf_id have more than 65536 members: that is no XDP program";
        assert_eq!(why, expected);
    }
    assert_eq!(error(table::many(u16::MAX)), Ok(0), "a struct of 65535 members is no hint");
}

#[test]
fn no_prefix_and_no_byte_of_btf_leads_outside_of_it() {
    for bytes in [table::sample().bytes(), table::elf(&[(".BTF", &table::sample().bytes())])] {
        for end in 0..bytes.len() {
            input(&bytes[..end]);
            for other in [0, 0x7f, 0x80, 0xff, bytes[end].wrapping_add(1)] {
                let mut changed = bytes.clone();
                changed[end] = other;
                input(&changed);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn several_changed_bytes_of_btf_end_in_hints_or_an_error(
        changes in prop::collection::vec((0..4_000usize, any::<u8>()), 1..12), split in any::<bool>()
    ) {
        let mut bytes = match split {
            true => base().continued().structure("m", 8, &[("time", 2, 0), ("btf_id", 2, 32)]).bytes(),
            false => table::sample().bytes(),
        };
        let length = bytes.len();
        for (at, byte) in changes {
            bytes[at % length] = byte;
        }
        input(&bytes);
    }

    #[test]
    fn any_area_is_a_hint_an_error_or_nothing(area in prop::collection::vec(any::<u8>(), 0..80), id in 0..20u32) {
        let layouts = layouts(&table::sample());
        let mut area = area;
        if let Some(end) = area.len().checked_sub(4) {
            area[end..].copy_from_slice(&id.to_le_bytes());
        }
        match layouts.read(&area) {
            Ok(Some(hint)) => prop_assert!(area.ends_with(hint.bytes()) && hint.bytes().len() == hint.layout().size),
            Ok(None) => prop_assert!(area.is_empty() || id == 0),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn the_types_of_a_module_continue_those_of_the_kernel() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: Vec<u8>| fs::write(folder.path().join(name), bytes).expect("written");
    let kernel = KernelBtf::in_folder(folder.path());
    assert!(matches!(kernel.vmlinux(), Err(SourceError::NoKernel(_))));
    write("vmlinux", base().bytes());
    let module = base().continued().structure("of_module", 8, &[("time", 2, 0), ("btf_id", 2, 32)]).clone();
    write("my_nic", module.bytes());
    let of = |word: &str| Layouts::of(&kernel.find(word).expect("BTF")).expect("hint structs");
    assert_eq!(listed(&of("vmlinux"))[0], "in_base 3 4+0");
    // Its own structs, by the names and types of the base.
    let expected = ["of_module 4 8+0", "  time 0+4 unsigned: __u32", "  btf_id 4+4 unsigned: __u32"];
    for word in ["my_nic", "my-nic"] {
        assert_eq!(listed(&of(word)), expected, "{word}");
    }
    let error = kernel.find("veth").expect_err("no such module").to_string();
    assert!(error.starts_with("there is no module `veth` with BTF (") && error.contains("load the module"), "{error}");
    // By its path nobody knows what it continues.
    let path = folder.path().join("my_nic");
    let error = kernel.find(path.to_str().expect("a name")).expect_err("no base").to_string();
    assert!(error.contains("name the module itself"), "{error}");
    assert!(kernel.module("../vmlinux").is_err() && kernel.module("").is_err(), "a name leads to no other folder");
}

#[test]
fn btf_without_types_or_with_numbers_beyond_it_is_refused() {
    assert_eq!(Btf::parse(Vec::new()).expect_err("nothing"), BtfError::Short(0));
    assert_eq!(Btf::parse(vec![0x9f, 0xeb, 1, 0]).expect_err("a part"), BtfError::Short(4));
    let empty = Table::default();
    assert!(layouts(&empty).is_empty());
    let mut dangling = Table::default();
    dangling.structure("s", 4, &[("btf_id", 9, 0)]);
    let error = Layouts::of(&Btf::parse(dangling.bytes()).expect("a table")).expect_err("no type 9").to_string();
    assert_eq!(error, "its BTF is damaged: type 9 does not exist");
    let mut unknown = Table::default();
    unknown.raw(0, 20, 0, false, 0, &[]);
    assert_eq!(Btf::parse(unknown.bytes()).expect_err("no kind 20"), BtfError::Kind { id: 1, kind: 20 });
    assert_eq!(source::btf(b"#!/bin/sh").expect_err("a script"), ObjectError::NeitherElfNorBtf);
    assert_eq!(source::btf(b"\x7fELF\x01\x01").expect_err("32 bits"), ObjectError::Narrow);
    assert!(matches!(source::btf(b"\x7fELF\x02\x01"), Err(ObjectError::Damaged(_))));
}

/// An ELF file of these sections (flags, where the name begins, offset and length), and of this
/// number of symbols, each of which is a function of the first of them. At 64 there are 64 bytes of
/// nothing.
fn elf(sections: &[(u64, u32, u64, u64)], symbols: u32, names: &[u8]) -> Vec<u8> {
    const HEADER: u64 = 64;
    const NOTHING: u64 = 64;
    let table = u64::from(symbols) * 24;
    let strings = HEADER + NOTHING + table;
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([1u16, 247].map(u16::to_le_bytes).concat());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend([0, 0, strings + names.len() as u64].map(u64::to_le_bytes).concat());
    bytes.extend(0u32.to_le_bytes());
    // After the sections of the caller, the symbols and the strings.
    let count = sections.len() as u16 + 3;
    bytes.extend([64u16, 0, 0, 64, count, count - 1].map(u16::to_le_bytes).concat());
    bytes.resize((HEADER + NOTHING) as usize, 0);
    for n in 0..symbols {
        bytes.extend(1u32.to_le_bytes());
        bytes.extend([0x02, 0, 1, 0]);
        bytes.extend([u64::from(n) * 8, 8].map(u64::to_le_bytes).concat());
    }
    bytes.extend(names);
    let mut section = |name: u32, kind: u32, flags: u64, offset: u64, length: u64, link: u32, each: u64| {
        bytes.extend([name, kind].map(u32::to_le_bytes).concat());
        bytes.extend([flags, 0, offset, length].map(u64::to_le_bytes).concat());
        bytes.extend([link, 0].map(u32::to_le_bytes).concat());
        bytes.extend([8, each].map(u64::to_le_bytes).concat());
    };
    section(0, 0, 0, 0, 0, 0, 0);
    for (flags, name, offset, length) in sections {
        section(*name, 1, *flags, *offset, *length, 0, 0);
    }
    section(0, 2, 0, HEADER + NOTHING, table, u32::from(count) - 1, 24);
    section(0, 3, 0, strings, names.len() as u64, 0, 0);
    bytes
}

#[test]
fn an_object_of_one_mebibyte_filled_the_memory_with_its_names() {
    const CODE: u64 = 6;
    let long = [vec![0], vec![b'a'; 900_000], vec![0]].concat();
    let short = b"\0xdp\0";
    let scanned = |bytes: &[u8]| tardy_bpf::pitfalls::scan(bytes).map_err(|error| error.to_string());
    for (bytes, why) in [
        (elf(&[(CODE, 1, 64, 8); 900], 0, &long), "(the name of a section has 900000 bytes)"),
        (elf(&[(CODE, 0, 64, 8)], 4, &long), "(the name of a function has 900000 bytes)"),
        (elf(&[(CODE, 1, 64, 8); 2000], 300, short), "(it has more than 1024 sections with code)"),
        (elf(&[(CODE, 1, 64, 90_000); 1000], 5000, short), "(its sections with code overlap with others)"),
        (elf(&[(CODE, 1, 64, 8)], 5000, short), "(it has more than 4096 functions)"),
        (elf(&[(CODE, 1, 64, 8), (CODE, 1, 72, 8)], 0, short), "(it has two sections xdp)"),
        (elf(&[(CODE, 1, 64, 80)], 1, short), "(its sections with code overlap with others)"),
    ] {
        let error = scanned(&bytes).expect_err(why);
        assert!(error.starts_with("it is a damaged ELF file") && error.contains(why), "{error}");
    }
    assert!(scanned(&elf(&[(CODE, 1, 64, 8)], 4000, short)).is_ok_and(|scan| scan.lines.is_empty()));
}

/// An instruction's eight bytes.
fn op(code: u8, [to, from]: [u8; 2], jump: i16, constant: i32) -> [u8; 8] {
    let mut bytes = [code, to | from << 4, 0, 0, 0, 0, 0, 0];
    bytes[2..4].copy_from_slice(&jump.to_le_bytes());
    bytes[4..].copy_from_slice(&constant.to_le_bytes());
    bytes
}

/// An object with these sections of code, each by its name, and with this number of functions,
/// which begin at the first instructions of the first section.
fn object_of(sections: &[(&str, Vec<[u8; 8]>)], functions: u32) -> Vec<u8> {
    let (mut names, mut begins) = (vec![0], Vec::new());
    for (name, _) in sections {
        begins.push(names.len() as u32);
        names.extend(name.bytes().chain([0]));
    }
    let placed = |from: u64| {
        let mut at = from;
        let place = |((_, code), begin): (&(&str, Vec<[u8; 8]>), &u32)| {
            let of = (6, *begin, at, code.len() as u64 * 8);
            at += of.3;
            of
        };
        elf(&sections.iter().zip(&begins).map(place).collect::<Vec<_>>(), functions, &names)
    };
    // Where the code lies changes no length.
    let mut bytes = placed(placed(0).len() as u64);
    bytes.extend(sections.iter().flat_map(|(_, code)| code.as_flattened()));
    bytes
}

#[test]
fn a_search_for_the_number_of_a_device_ended_without_a_word() {
    const REDIRECT: i32 = 23;
    let (set, copy) = (|to: u8, value: i32| op(0xb7, [to, 0], 0, value), |to: u8, from: u8| op(0xbf, [to, from], 0, 0));
    let (call, exit) = (op(0x85, [0, 0], 0, REDIRECT), op(0x95, [0, 0], 0, 0));
    let nothing = |n: usize| vec![op(0x07, [7, 0], 0, 1); n];
    let scanned = |bytes: &[u8]| scan_sections(bytes, |name| name == "xdp").expect("an ELF file");
    let numbers = |scan: &Scan| scan.redirects.iter().map(|(_, number)| *number).collect::<Vec<_>>();

    // A branch that nothing is in hid the number that is just before.
    let mut code = vec![op(0x55, [1, 0], 4, 0), set(6, 7), copy(1, 6), call, exit];
    code.extend(nothing(1 << 14));
    code.push(op(0x05, [0, 0], 2 - (5 + (1 << 14) + 1), 0));
    let found = scanned(&object_of(&[("xdp", code)], 0));
    assert_eq!((numbers(&found), found.unsearched.len()), (vec![7], 1));

    // A section that is never loaded took all of the steps.
    let mut long = nothing(1 << 14);
    long.extend((0..300).flat_map(|_| [copy(1, 6), call]));
    let object = object_of(&[("decoy", long), ("xdp", vec![set(1, 7), call, exit])], 0);
    let found = scanned(&object);
    assert_eq!((numbers(&found), found.unsearched.len()), (vec![7], 0));
    let all = scan(&object).expect("an ELF file");
    assert_eq!((numbers(&all), all.unsearched.len()), (Vec::new(), 301));

    // What lies on the stack is no constant, and the search does not go through all code for it.
    let mut code = nothing(30_000);
    code.extend([op(0x61, [1, 10], -4, 0), call, exit]);
    let found = scanned(&object_of(&[("xdp", code)], 0));
    assert_eq!((numbers(&found), found.unsearched.len()), (Vec::new(), 0));

    // A function does not begin with what another one left.
    let code = vec![set(6, 9), copy(1, 6), call, exit];
    assert_eq!(numbers(&scanned(&object_of(&[("xdp", code.clone())], 0))), [9]);
    assert_eq!(numbers(&scanned(&object_of(&[("xdp", code)], 2))), Vec::<u32>::new());
}

#[test]
fn another_host_listed_a_hundred_thousand_devices() {
    let device = NumberedDevice { function: "f".into(), number: 7, device: None };
    let record =
        ObjectRecord { devices: vec![device; 100_000], lines: vec!["f".into(); 100_000], ..ObjectRecord::default() };
    let bounded = record.bounded();
    assert_eq!((bounded.devices.len(), bounded.lines.len(), bounded.unsearched), (256, 256, 99_744));
}
