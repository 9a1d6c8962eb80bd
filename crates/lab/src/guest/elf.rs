// SPDX-License-Identifier: MIT OR Apache-2.0
//! As much of an ELF file (System V ABI, 64 bit, little endian) as packing a guest needs: which
//! libraries a program wants, which modules a module wants. Pure; whatever the bytes are, it ends
//! in an answer.

/// An ELF file's bytes with its section table.
pub struct Elf<'a> {
    bytes: &'a [u8],
    sections: Vec<Section>,
}

struct Section {
    name: usize,
    kind: u32,
    offset: usize,
    size: usize,
    link: usize,
}

const STRTAB: u32 = 3;
const DYNAMIC: u32 = 6;
const NOTE: u32 = 7;
const PT_LOAD: u64 = 1;
const DT_NEEDED: u64 = 1;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(N)?)?;
    Some(part.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

impl<'a> Elf<'a> {
    /// `None` if it is no such file, or is cut short.
    pub fn read(bytes: &'a [u8]) -> Option<Elf<'a>> {
        // Magic, 64 bit, little endian.
        if bytes.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let at = |offset| number::<8>(bytes, offset).and_then(|n| usize::try_from(n).ok());
        let (table, each, count) = (at(40)?, number::<2>(bytes, 58)? as usize, number::<2>(bytes, 60)? as usize);
        let section = |n: usize| {
            let start = table.checked_add(n.checked_mul(each)?)?;
            Some(Section {
                name: number::<4>(bytes, start)? as usize,
                kind: number::<4>(bytes, start.checked_add(4)?)? as u32,
                offset: at(start.checked_add(24)?)?,
                size: at(start.checked_add(32)?)?,
                link: number::<4>(bytes, start.checked_add(40)?)? as usize,
            })
        };
        let sections = (0..count).map(section).collect::<Option<Vec<_>>>()?;
        Some(Elf { bytes, sections })
    }

    fn content(&self, section: &Section) -> Option<&'a [u8]> {
        self.bytes.get(section.offset..section.offset.checked_add(section.size)?)
    }

    fn text(&self, section: &Section, at: usize) -> Option<&'a str> {
        let rest = self.content(section)?.get(at..)?;
        std::str::from_utf8(rest.split(|byte| *byte == 0).next()?).ok()
    }

    fn named(&self, name: &str) -> Option<&'a [u8]> {
        let names = self.sections.get(number::<2>(self.bytes, 62)? as usize)?;
        self.content(self.sections.iter().find(|section| self.text(names, section.name) == Some(name))?)
    }

    /// Libraries that it is linked with (`DT_NEEDED`); none for a static program.
    pub fn needed(&self) -> Vec<&'a str> {
        let Some(dynamic) = self.sections.iter().find(|section| section.kind == DYNAMIC) else { return Vec::new() };
        let names = self.sections.get(dynamic.link).filter(|section| section.kind == STRTAB);
        let entries = self.content(dynamic).unwrap_or_default().chunks_exact(16);
        entries
            .filter(|entry| number::<8>(entry, 0) == Some(DT_NEEDED))
            .filter_map(|entry| self.text(names?, usize::try_from(number::<8>(entry, 8)?).ok()?))
            .collect()
    }

    /// The part of a program that is loaded: without its tables of names and whatever else follows.
    /// The program still runs, but the information in its sections is gone.
    pub fn loaded(bytes: &[u8]) -> Option<Vec<u8>> {
        Elf::read(bytes)?;
        let at = |offset| number::<8>(bytes, offset).and_then(|n| usize::try_from(n).ok());
        let (table, each, count) = (at(32)?, number::<2>(bytes, 54)? as usize, number::<2>(bytes, 56)? as usize);
        let mut end = 0;
        for n in 0..count {
            let start = table.checked_add(n.checked_mul(each)?)?;
            end = end.max(start.checked_add(each)?);
            if number::<4>(bytes, start)? == PT_LOAD {
                end = end.max(at(start.checked_add(8)?)?.checked_add(at(start.checked_add(32)?)?)?);
            }
        }
        let mut out = bytes.get(..end)?.to_vec();
        // Where the table of sections is, how many there are, which of them holds their names.
        out.get_mut(40..48)?.fill(0);
        out.get_mut(60..64)?.fill(0);
        Some(out)
    }

    /// The program that loads it (`PT_INTERP`); `None` for a static program or a library.
    pub fn interpreter(&self) -> Option<&'a str> {
        let text = std::str::from_utf8(self.named(".interp")?).ok()?;
        Some(text.trim_end_matches('\0'))
    }

    pub fn notes(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.sections.iter().filter(|section| section.kind == NOTE).filter_map(|section| self.content(section))
    }

    /// What a module says about itself, each as `key=value`.
    pub fn modinfo(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let texts = self.named(".modinfo").unwrap_or_default().split(|byte| *byte == 0);
        texts.filter_map(|text| std::str::from_utf8(text).ok()?.split_once('='))
    }
}
