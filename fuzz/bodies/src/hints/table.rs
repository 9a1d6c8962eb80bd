// SPDX-License-Identifier: MIT OR Apache-2.0
//! BTF made by hand, sound or hostile, and ELF files around it.

use tardy_bpf::btf::TypeKind;

/// A table of types that grows. Each call returns the number of its type, or the table itself.
#[derive(Clone, Debug)]
pub struct Table {
    types: Vec<u8>,
    strings: Vec<u8>,
    first_string: u32,
    next: u32,
}

impl Default for Table {
    /// Only with the empty string.
    fn default() -> Self {
        Table { types: Vec::new(), strings: vec![0], first_string: 0, next: 1 }
    }
}

impl Table {
    /// An empty table that continues this one, as that of a module.
    pub fn continued(&self) -> Table {
        let first_string = self.first_string + self.strings.len() as u32;
        Table { types: Vec::new(), strings: Vec::new(), first_string, next: self.next }
    }

    /// Adds a name, even an equal one again; the empty one is at 0.
    pub fn text(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.first_string + self.strings.len() as u32;
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        at
    }

    /// Adds a type by its raw words: name, kind with count and flag, number, tail.
    pub fn raw(&mut self, name: u32, kind: u8, count: u16, flag: bool, number: u32, tail: &[u32]) -> u32 {
        let info = u32::from(flag) << 31 | u32::from(kind) << 24 | u32::from(count);
        for word in [name, info, number].iter().chain(tail) {
            self.types.extend(word.to_le_bytes());
        }
        self.next += 1;
        self.next - 1
    }

    /// An integer of some bytes; encoding 1 is signed, 4 is bool.
    pub fn integer(&mut self, name: &str, bytes: u32, encoding: u32, bits: u32) -> u32 {
        let name = self.text(name);
        self.raw(name, TypeKind::Int as u8, 0, false, bytes, &[encoding << 24 | bits])
    }

    /// A type that leads to another: a typedef, a pointer, `const` and so on.
    pub fn named(&mut self, kind: TypeKind, name: &str, to: u32) -> u32 {
        let name = self.text(name);
        self.raw(name, kind as u8, 0, false, to, &[])
    }

    pub fn array(&mut self, element: u32, count: u32) -> u32 {
        self.raw(0, TypeKind::Array as u8, 0, false, 0, &[element, 1, count])
    }

    /// A struct of members: name, type, first bit.
    pub fn structure(&mut self, name: &str, bytes: u32, members: &[(&str, u32, u32)]) -> &mut Table {
        let with: Vec<_> = members.iter().map(|(name, id, bit)| (*name, *id, *bit, 0)).collect();
        self.composite(TypeKind::Struct, name, bytes, false, &with);
        self
    }

    /// A struct or union of members: name, type, first bit, bits of a bitfield. Without the flag
    /// there are no bitfields.
    pub fn composite(
        &mut self,
        kind: TypeKind,
        name: &str,
        bytes: u32,
        flag: bool,
        members: &[(&str, u32, u32, u32)],
    ) -> u32 {
        let name = self.text(name);
        let tail: Vec<u32> =
            members.iter().flat_map(|(name, id, bit, bits)| [self.text(name), *id, bits << 24 | bit]).collect();
        self.raw(name, kind as u8, members.len() as u16, flag, bytes, &tail)
    }

    /// The number that the next type gets.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// The whole BTF: header, types, strings.
    pub fn bytes(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let words = [24, 0, types, types, strings];
        let header = words.iter().flat_map(|word: &u32| word.to_le_bytes());
        [0x9f, 0xeb, 1, 0].into_iter().chain(header).chain(self.types.clone()).chain(self.strings.clone()).collect()
    }
}

/// Every kind of member in one hint struct, a second struct, and a typedef of it.
pub fn sample() -> Table {
    let mut table = Table::default();
    let word = table.integer("unsigned int", 4, 0, 32);
    let u32_ = table.named(TypeKind::Typedef, "__u32", word);
    let long = table.integer("unsigned long", 8, 0, 64);
    let signed = table.integer("short", 2, 1, 16);
    let flag = table.integer("_Bool", 1, 4, 8);
    let byte = table.integer("unsigned char", 1, 0, 8);
    let float = table.text("float");
    let float = table.raw(float, TypeKind::Float as u8, 0, false, 4, &[]);
    let name = table.text("rss");
    let value = table.text("RSS_NONE");
    let rss = table.raw(name, TypeKind::Enum as u8, 1, true, 4, &[value, u32::MAX]);
    let mac = table.array(byte, 6);
    let constant = table.named(TypeKind::Const, "", byte);
    let pointer = table.named(TypeKind::Pointer, "", constant);
    let point = table.next();
    table.structure("point", 4, &[("x", signed, 0), ("y", signed, 16)]);
    let either = table.composite(TypeKind::Union, "", 4, false, &[("hash", u32_, 0, 0), ("ports", point, 0, 0)]);
    let members = [
        ("time", long, 0, 0),
        ("drift", signed, 64, 0),
        ("is_mark", flag, 80, 0),
        ("low", byte, 88, 3),
        ("high", byte, 91, 5),
        ("mac", mac, 96, 0),
        ("wide", long, 147, 63),
        ("rss", rss, 216, 0),
        ("share", float, 248, 0),
        ("", either, 280, 0),
        ("where", point, 312, 0),
        ("from", pointer, 344, 0),
        ("btf_id", u32_, 408, 0),
    ];
    table.composite(TypeKind::Struct, "every", 55, true, &members);
    let small = table.next();
    table.structure("small", 8, &[("cpu", word, 0), ("btf_id", u32_, 32)]);
    table.named(TypeKind::Typedef, "small_t", small);
    table
}

/// Typedefs that lead to each other, and a struct of them.
pub fn ring() -> Vec<u8> {
    let mut table = Table::default();
    table.named(TypeKind::Typedef, "a", 2);
    table.named(TypeKind::Const, "", 1);
    table.array(3, 2);
    table.structure("lost", 8, &[("time", 1, 0), ("btf_id", 1, 32)]).bytes()
}

/// Unnamed structs within each other, this many deep, and one that is within itself.
pub fn nested(depth: u32) -> Vec<u8> {
    let mut table = Table::default();
    let word = table.integer("__u32", 4, 0, 32);
    let mut inner = word;
    for _ in 0..depth {
        let next = table.next();
        table.structure("", 4, &[("", inner, 0)]);
        inner = next;
    }
    table.structure("deep", 8, &[("", inner, 0), ("btf_id", word, 32)]);
    let own = table.next();
    table.structure("own", 8, &[("", own, 0), ("btf_id", word, 32)]).bytes()
}

/// A struct of this many members without a size, and its `btf_id`.
pub fn many(members: u16) -> Vec<u8> {
    let mut table = Table::default();
    let word = table.integer("__u32", 4, 0, 32);
    let none = table.array(word, 0);
    let (name, id) = (table.text("a"), table.text("btf_id"));
    let mut tail = [name, none, 0].repeat(usize::from(members) - 1);
    tail.extend([id, word, 0]);
    let name = table.text("wide");
    table.raw(name, TypeKind::Struct as u8, members, false, 4, &tail);
    table.bytes()
}

/// This number of small structs that each lead to 250 members with long names: 36 bytes of the
/// table make more than a hundred thousand of memory.
pub fn bombs(count: usize) -> Vec<u8> {
    let mut table = Table::default();
    let word = table.integer("__u32", 4, 0, 32);
    let none = table.array(word, 0);
    let (long, id) = (table.text(&"n".repeat(511)), table.text("btf_id"));
    let many = table.raw(0, TypeKind::Struct as u8, 250, false, 0, &[long, none, 0].repeat(250));
    for _ in 0..count {
        table.raw(long, TypeKind::Struct as u8, 2, false, 4, &[0, many, 0, id, word, 0]);
    }
    table.bytes()
}

/// A hint struct with a name that is longer than names are.
pub fn long_name() -> Vec<u8> {
    let mut table = Table::default();
    let word = table.integer("__u32", 4, 0, 32);
    table.structure(&"n".repeat(512), 4, &[("btf_id", word, 0)]).bytes()
}

/// A relocatable ELF file of BPF with these sections.
pub fn elf(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut names = vec![0];
    let mut heads = vec![[0u64; 6]];
    let mut body = Vec::new();
    const BEGIN: usize = 64;
    for (name, bytes) in sections {
        heads.push([names.len() as u64, 1, 0, (BEGIN + body.len()) as u64, bytes.len() as u64, 1]);
        names.extend(name.as_bytes());
        names.push(0);
        body.extend_from_slice(bytes);
    }
    let own = names.len() as u64;
    names.extend(b".shstrtab\0");
    heads.push([own, 3, 0, (BEGIN + body.len()) as u64, names.len() as u64, 1]);
    body.extend(&names);
    body.resize(body.len().next_multiple_of(8), 0);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // Relocatable, for BPF, version 1.
    file.extend([1, 0, 247, 0, 1, 0, 0, 0]);
    file.resize(40, 0);
    file.extend(((BEGIN + body.len()) as u64).to_le_bytes());
    let count = heads.len() as u16;
    for half in [0u16, 0, 64, 0, 0, 64, count, count - 1] {
        file.extend(half.to_le_bytes());
    }
    file.extend(body);
    for [name, kind, flags, at, length, align] in heads {
        file.extend((name as u32).to_le_bytes());
        file.extend((kind as u32).to_le_bytes());
        for word in [flags, 0, at, length, 0, align, 0] {
            file.extend(word.to_le_bytes());
        }
    }
    file
}
