// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy hints`: which structs of an object, of the kernel or of a module an XDP program may leave
//! before a packet, and what is in them. Needs no root.

use crate::args::Hints;
use crate::exit::{Exit, Failure, printable};
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write;
use tardy_bpf::hints::{Columns, Layout, Layouts, Member, MemberKind, Unfit};
use tardy_bpf::source::{KernelBtf, SourceError};
use tardy_model::harmless;

pub fn call(args: &Hints) -> Result<Exit> {
    let btf = KernelBtf::default().find(&args.source).map_err(unreadable)?;
    let layouts = Layouts::of(&btf).map_err(|error| usage(format!("{}: {error}", args.source)))?;
    if layouts.is_empty() {
        return Err(usage(without_hints(&args.source, &layouts)).into());
    }
    let columns = Columns::of(layouts.clone());
    let named = columns.as_ref().ok();
    let text = if args.json { json(&args.source, &layouts, named)? } else { table(&layouts, named) };
    super::print(&text)?;
    if let Err(error) = &columns {
        eprintln!("tardy: note: no member has a column in samples.parquet: {error}");
    }
    for note in layouts.iter().filter_map(padded).chain(layouts.unfit().iter().map(unfit)) {
        eprintln!("tardy: note: {}", printable(&note));
    }
    Ok(Exit::Good)
}

fn usage(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}

/// Without BTF of the kernel's own there is nothing that another word would change.
fn unreadable(error: SourceError) -> Failure {
    let exit = if matches!(error, SourceError::NoKernel(_)) { Exit::Cannot } else { Exit::Usage };
    Failure::new(exit, error.to_string())
}

/// The structs that there are, and what makes one a hint.
fn without_hints(source: &str, layouts: &Layouts) -> String {
    let (count, names) = layouts.structs();
    let mut structs = match count {
        0 => "it has no struct".to_owned(),
        1 => format!("its struct is {}", names.join(", ")),
        _ => format!("its {count} structs are {}", names.join(", ")),
    };
    if count > names.len() {
        structs += " and so on";
    }
    for unfit in layouts.unfit().iter().take(NEAR) {
        let _ = write!(structs, "; {} {}", called(&unfit.name), unfit.why);
    }
    format!(
        "{source} has no hint struct: the last member of one is `__u32 btf_id`; {structs}. If the struct is missing, \
         the program does not use its type: clang leaves it out"
    )
}

/// Structs that are no hints by little, in one message.
const NEAR: usize = 3;

fn called(name: &str) -> &str {
    if name.is_empty() { "a struct without a name" } else { name }
}

fn padded(layout: &Layout) -> Option<String> {
    let bytes = super::count(layout.padding, "byte");
    (layout.padding > 0).then(|| {
        format!(
            "{} has {bytes} of padding after btf_id: a program that leaves it whole before a packet leaves padding \
             where the number must be; add __attribute__((packed, aligned(4)))",
            layout.name
        )
    })
}

fn unfit(unfit: &Unfit) -> String {
    format!("{} (type {}) is no hint: it {}", called(&unfit.name), unfit.id, unfit.why)
}

/// What a bitfield's bits are, or the kind.
fn meaning(member: &Member) -> String {
    match member.kind {
        MemberKind::Bitfield { bit, bits, .. } => format!("bits {bit}-{}", u32::from(bit) + u32::from(bits) - 1),
        MemberKind::Enum { signed: true } => "signed enum".to_owned(),
        kind => kind.word().to_owned(),
    }
}

/// Distance from the packet's first byte, below zero.
fn from_packet(layout: &Layout, member: &Member) -> i64 {
    member.offset as i64 - layout.size as i64
}

const HEAD: [&str; 10] = ["struct", "id", "size", "member", "offset", "from packet", "bytes", "is", "type", "column"];
/// Columns of text; the others are numbers.
const TEXT: [usize; 5] = [0, 3, 7, 8, 9];
/// In place of the column of a member that has none in samples.parquet.
const NO_COLUMN: &str = "-";

/// A row for each member; the struct is named in its first.
fn table(layouts: &Layouts, columns: Option<&Columns>) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    for layout in layouts.iter() {
        for (n, member) in layout.members.iter().enumerate() {
            let of_struct = |text: String| if n == 0 { harmless::blanked(&text) } else { String::new() };
            rows.push([
                of_struct(layout.name.clone()),
                of_struct(layout.id.to_string()),
                of_struct(layout.size.to_string()),
                harmless::blanked(&member.name),
                member.offset.to_string(),
                from_packet(layout, member).to_string(),
                member.size.to_string(),
                meaning(member),
                harmless::blanked(&member.type_name),
                harmless::blanked(columns.and_then(|columns| columns.name_of(layout, member)).unwrap_or(NO_COLUMN)),
            ]);
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let between = if column > 0 { "  " } else { "" };
            let _ = match TEXT.contains(&column) {
                true => write!(line, "{between}{cell:<width$}"),
                false => write!(line, "{between}{cell:>width$}"),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[derive(Serialize)]
struct Listed<'a> {
    source: &'a str,
    structs: Vec<ListedStruct<'a>>,
}

#[derive(Serialize)]
struct ListedStruct<'a> {
    name: &'a str,
    id: u32,
    size: usize,
    padding: usize,
    members: Vec<ListedMember<'a>>,
}

#[derive(Serialize)]
struct ListedMember<'a> {
    name: &'a str,
    offset: usize,
    from_packet: i64,
    size: usize,
    kind: &'static str,
    signed: bool,
    #[serde(rename = "type")]
    type_name: &'a str,
    /// Its column of samples.parquet; null if it has none.
    column: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bit: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bits: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u32>,
}

fn listed<'a>(layout: &'a Layout, member: &'a Member, columns: Option<&'a Columns>) -> ListedMember<'a> {
    let (bit, bits) = match member.kind {
        MemberKind::Bitfield { bit, bits, .. } => (Some(bit), Some(bits)),
        _ => (None, None),
    };
    let count = if let MemberKind::Array { count } = member.kind { Some(count) } else { None };
    ListedMember {
        name: &member.name,
        offset: member.offset,
        from_packet: from_packet(layout, member),
        size: member.size,
        kind: member.kind.word(),
        signed: member.kind.is_signed(),
        type_name: &member.type_name,
        column: columns.and_then(|columns| columns.name_of(layout, member)),
        bit,
        bits,
        count,
    }
}

fn json(source: &str, layouts: &Layouts, columns: Option<&Columns>) -> Result<String> {
    let structs = layouts.iter().map(|layout| ListedStruct {
        name: &layout.name,
        id: layout.id,
        size: layout.size,
        padding: layout.padding,
        members: layout.members.iter().map(|member| listed(layout, member, columns)).collect(),
    });
    let listed = Listed { source, structs: structs.collect() };
    Ok(harmless::json(&(serde_json::to_string_pretty(&listed)? + "\n")))
}
