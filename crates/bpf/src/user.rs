// SPDX-License-Identifier: MIT OR Apache-2.0
//! A user's own XDP program: what its object must have so that tardy can load it, and what is known
//! of its hints beforehand. It is read without libbpf and without root, so that `tardy plan` can
//! look at an object from anywhere.
//!
//! Which member of a struct is the packet's arrival time: the one that the experiment names
//! ([`UserObject::timed_by`]); else `time`, if it is an unsigned integer of 8 bytes; else the only
//! such member whose name ends in `_time`, `_ns` or `timestamp`. Which clock it is of: that of the
//! one helper for a time that the section's code calls, or functions that it may call (`.text`).
//! Where there are none or several, there is no arrival time.
//!
//! Which members are times at all: those that the experiment names, and unsigned integers of 8
//! bytes whose names say so, by the same names. What of their values is no time of its packet is
//! seen in the trial.

use crate::btf::{Btf, BtfError, Type, TypeKind};
use crate::hints::{Columns, ColumnsError, FindError, Layout, Layouts, MemberKind};
use crate::source::{self, Code, CodeSection, ObjectError};
use std::collections::BTreeSet;
use tardy_model::xdp::{HintTime, MOST_TIMES};

/// No XDP program has a larger object. It goes to each agent with the orders.
pub const MOST_BYTES: usize = 1 << 20;

/// A map's definition has fewer members.
const MOST_MEMBERS: usize = 64;
/// The map that a program redirects through: the socket of each queue.
pub const SOCKETS: &str = "xsks_map";
/// BPF_MAP_TYPE_XSKMAP: AF_XDP sockets, by queue.
const XSKMAP: u32 = 17;
/// BPF_MAP_TYPE_ARENA: memory that libbpf maps into the process which loads it.
const ARENA: u32 = 33;
/// BPF_MAP_TYPE_ARRAY_OF_MAPS and BPF_MAP_TYPE_HASH_OF_MAPS. libbpf makes a map like those in it,
/// of which nobody knows how large it is.
const OF_MAPS: [u32; 2] = [12, 13];
/// Names in one message.
const MOST_NAMES: usize = 8;

/// The clock that stamps are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampClock {
    /// The kernel gives it to programs since Linux 6.1.
    Tai,
    Monotonic,
    Boottime,
    /// A user's program that writes none, or those of several clocks.
    Unknown,
}

/// Why an object cannot take the place of tardy's own program. Each message is a clause that goes
/// after the object's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error("its BTF cannot be read: {0}")]
    Btf(#[from] crate::btf::BtfError),
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    #[error("it is BTF alone, without a program: name the object that clang made")]
    BtfAlone,
    #[error(
        "it has {0} bytes, and at most {MOST_BYTES} are loaded: strip its debug information with `llvm-strip -g`, which leaves its BTF"
    )]
    Large(usize),
    #[error("it has no XDP program, its sections with programs are: {0}; give the program SEC(\"xdp\")")]
    NoXdp(String),
    #[error("it has no section `{asked}` with an XDP program, there are: {there}")]
    NoSection { asked: String, there: String },
    #[error("it has XDP programs in several sections: name one of them, as FILE:SECTION: {0}")]
    Several(String),
    #[error("its section `{section}` has the programs {programs}: give each a section of its own, as SEC(\"xdp/one\")")]
    Crowded { section: String, programs: String },
    #[error(
        "it has no map `{SOCKETS}` of type BPF_MAP_TYPE_XSKMAP, which tardy fills with its sockets: redirect packets through one"
    )]
    NoMap,
    #[error("its map `{0}` is pinned, and would be left behind: leave `pinning` out of its definition")]
    Pinned(String),
    #[error(
        "its map `{map}` has the member `{member}` twice, and which of them counts is not certain: leave one of them out"
    )]
    Twice { map: String, member: String },
    #[error("its map `{0}` holds maps, whose memory is not known beforehand: use another kind of map")]
    OfMaps(String),
    #[error(
        "its map `{0}` is an arena or has `map_extra`, which would put its memory at an address of the measuring \
         process: use another kind of map"
    )]
    Arena(String),
    #[error(
        "it has no hint struct, whose last member is `__u32 btf_id`: {0}. If the struct is missing, the program does \
         not use its type: clang leaves it out"
    )]
    NoHints(String),
    #[error("no hint struct has an unsigned integer of 8 bytes that is named `{asked}`, there are: {there}")]
    NoTime { asked: String, there: String },
}

/// A user's own XDP program that can be loaded.
#[derive(Debug)]
pub struct UserObject<'a> {
    pub(crate) bytes: &'a [u8],
    section: String,
    pub(crate) program: String,
    columns: Columns,
    /// Members that were named as times, the arrival time first.
    times: Vec<String>,
    /// The clocks that its times may be of, each with its helper; none of a device's.
    clocks: Option<Vec<(StampClock, &'static str)>>,
    clock: StampClock,
    without_time: Option<String>,
    asks_device: bool,
}

impl<'a> UserObject<'a> {
    /// Reads what the object has; `section` may be left out where only one has an XDP program.
    ///
    /// # Errors
    /// What it lacks, see [`UserError`].
    pub fn of(bytes: &'a [u8], section: Option<&str>) -> Result<UserObject<'a>, UserError> {
        if bytes.len() > MOST_BYTES {
            return Err(UserError::Large(bytes.len()));
        }
        let btf = source::btf(bytes)?;
        if !bytes.starts_with(b"\x7fELF") {
            return Err(UserError::BtfAlone);
        }
        let code = Code::of(bytes)?;
        let (chosen, program) = choose(&code, section)?;
        let text = code.sections.iter().find(|section| section.name == ".text");
        maps(&btf)?;
        let layouts = Layouts::of(&btf)?;
        if layouts.is_empty() {
            return Err(UserError::NoHints(near(&layouts)));
        }
        let clocks = match names_any(&btf, &[DEVICE_TIME])? {
            true => None,
            false => Some(clocks(&[chosen.instructions, text.map_or(&[], |text| text.instructions)])),
        };
        let (clock, without_time) = timed(&layouts, None, clocks.as_deref());
        Ok(UserObject {
            bytes,
            section: chosen.name.clone(),
            program: program.to_owned(),
            columns: Columns::of(layouts)?,
            times: Vec::new(),
            clocks,
            clock,
            without_time,
            asks_device: names_any(&btf, &OF_DEVICE)?,
        })
    }

    /// True if its program asks the device what it knows of a packet: the kernel loads such a
    /// program only for one device.
    pub fn asks_device(&self) -> bool {
        self.asks_device
    }

    /// The same, with these members as times, whatever their names are, and the first of them as
    /// the packet's arrival time, in each struct that has it.
    ///
    /// # Errors
    /// If no struct has one of them, or not as an unsigned integer of 8 bytes.
    pub fn timed_by(mut self, members: &[impl AsRef<str>]) -> Result<UserObject<'a>, UserError> {
        let layouts = self.columns.layouts();
        let is_there = |asked: &str| layouts.iter().any(|layout| times(layout).any(|name| name == asked));
        if let Some(asked) = members.iter().map(AsRef::as_ref).find(|asked| !is_there(asked)) {
            let there: BTreeSet<&str> = layouts.iter().flat_map(times).collect();
            return Err(UserError::NoTime { asked: asked.to_owned(), there: listed(there) });
        }
        if let Some(first) = members.first() {
            (self.clock, self.without_time) = timed(layouts, Some(first.as_ref()), self.clocks.as_deref());
        }
        self.times = members.iter().map(|member| member.as_ref().to_owned()).collect();
        Ok(self)
    }

    /// The member that was named as the arrival time.
    pub fn time(&self) -> Option<&str> {
        self.times.first().map(String::as_str)
    }

    /// The columns that are times, in the order of the members; where there are too many, those
    /// that were named come first.
    pub fn times(&self) -> Vec<HintTime> {
        let mut found: Vec<HintTime> = Vec::new();
        for layout in self.columns.layouts().iter() {
            let is_time =
                |name: &&str| is_called_time(name) || *name == "time" || self.times.iter().any(|named| named == name);
            let members = times(layout).filter(is_time).filter_map(|name| layout.member(name));
            for column in members.filter_map(|member| self.columns.name_of(layout, member)) {
                match found.iter_mut().find(|time| time.column == column) {
                    Some(time) => time.structs.push(layout.name.clone()),
                    None => {
                        found.push(HintTime { column: column.to_owned(), structs: vec![layout.name.clone()] });
                    }
                }
            }
        }
        if found.len() > MOST_TIMES {
            let named = |time: &HintTime| self.times.iter().position(|name| *name == time.column);
            found.sort_by_key(|time| named(time).unwrap_or(usize::MAX));
            found.truncate(MOST_TIMES);
        }
        found
    }

    /// The clock of all its times, or why it is not known.
    ///
    /// # Errors
    /// The reason.
    pub fn clock_of_times(&self) -> Result<StampClock, String> {
        clock_of(self.clocks.as_deref())
    }

    /// The section of the program.
    pub fn section(&self) -> &str {
        &self.section
    }

    /// What of its hints is recorded.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// The clock of its stamps.
    pub fn clock(&self) -> StampClock {
        self.clock
    }

    /// True if each of its hints shows on which CPU the program ran, and when.
    pub fn shows_cpu(&self) -> bool {
        let has = |layout: &Layout| layout.members.iter().any(|member| member.name == "cpu");
        self.clock != StampClock::Unknown && self.without_time.is_none() && self.columns.layouts().iter().all(has)
    }

    /// Why no packet has an arrival time, or those with some structs have none.
    pub fn without_time(&self) -> Option<&str> {
        self.without_time.as_deref()
    }
}

/// What the structs are that are no hints.
fn near(layouts: &Layouts) -> String {
    if let Some(unfit) = layouts.unfit().first() {
        return format!("{} {}", if unfit.name.is_empty() { "a struct" } else { &unfit.name }, unfit.why);
    }
    match layouts.structs() {
        (0, _) => "it has no struct".to_owned(),
        (_, names) => format!("its structs are {}", listed(names.iter().map(String::as_str))),
    }
}

fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let more = if names.len() > MOST_NAMES { " and so on" } else { "" };
    match names.is_empty() {
        true => "none".to_owned(),
        false => names[..names.len().min(MOST_NAMES)].join(", ") + more,
    }
}

/// The members of a struct that can hold a time.
fn times(layout: &Layout) -> impl Iterator<Item = &str> {
    let is_unsigned = |kind: &MemberKind| matches!(kind, MemberKind::Integer { signed: false });
    let unsigned = layout.members.iter().filter(move |member| is_unsigned(&member.kind) && member.size == 8);
    unsigned.map(|member| member.name.as_str())
}

/// True of a name that says so by its end. A member `time` is one too.
fn is_called_time(name: &str) -> bool {
    ["_time", "_ns", "timestamp"].iter().any(|end| name.ends_with(end))
}

/// The member of a struct that is a packet's arrival time: the one that was `asked` for, or the one
/// that its name shows; an error if several may be.
pub(crate) fn time_of<'l>(layout: &'l Layout, asked: Option<&str>) -> Result<Option<&'l str>, Vec<&'l str>> {
    let names: Vec<&str> = times(layout).collect();
    if asked.is_some() {
        return Ok(names.into_iter().find(|name| Some(*name) == asked));
    }
    if let Some(name) = names.iter().find(|name| **name == "time") {
        return Ok(Some(name));
    }
    match names.into_iter().filter(|name| is_called_time(name)).collect::<Vec<_>>()[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        ref several => Err(several.to_vec()),
    }
}

/// The clock of the stamps, and why some or all packets have none. No clocks are those of a device.
fn timed(
    layouts: &Layouts,
    asked: Option<&str>,
    clocks: Option<&[(StampClock, &str)]>,
) -> (StampClock, Option<String>) {
    let clock = clock_of(clocks);
    if let (None, Err(why)) = (clocks, &clock) {
        return (StampClock::Unknown, Some(why.clone()));
    }
    let mut lacking = Vec::new();
    let mut has_time = false;
    for layout in layouts.iter() {
        let name = &layout.name;
        match (time_of(layout, asked), asked) {
            (Ok(Some(_)), _) => has_time = true,
            (Ok(None), None) => lacking.push(format!("{name} has no member that is a time")),
            (Ok(None), Some(asked)) => lacking.push(format!("{name} has no member `{asked}`")),
            (Err(several), _) => {
                let several = several.join(", ");
                lacking.push(format!(
                    "{name} has several members that may be its time, so name one of them, as FILE@MEMBER: {several}"
                ));
            }
        }
    }
    let lacking = (!lacking.is_empty()).then(|| lacking.join("; "));
    match clock {
        _ if !has_time => (StampClock::Unknown, lacking),
        Ok(clock) => (clock, lacking),
        Err(why) => (StampClock::Unknown, Some(why)),
    }
}

/// The clock of the one helper for a time that a program calls, or why it is not known. No clocks
/// are those of a device.
fn clock_of(clocks: Option<&[(StampClock, &str)]>) -> Result<StampClock, String> {
    match clocks {
        None => Err(format!("the program takes times of the device ({DEVICE_TIME})")),
        Some([(StampClock::Unknown, name)]) => {
            Err(format!("the program calls {name}, which gives the time of the last tick"))
        }
        Some([(clock, _)]) => Ok(*clock),
        Some([]) => Err("the program calls no helper that gives a time (bpf_ktime_get_tai_ns and the like)".to_owned()),
        Some(several) => {
            let names = listed(several.iter().map(|(_, name)| *name));
            Err(format!("the program calls {names}, and which clock a time is of is unknown"))
        }
    }
}

/// Helpers that give a time, by their number in `include/uapi/linux/bpf.h`. The coarse one is
/// CLOCK_MONOTONIC of the last tick: nothing can be measured by it.
const HELPERS: [(i32, StampClock, &str); 4] = [
    (5, StampClock::Monotonic, "bpf_ktime_get_ns"),
    (125, StampClock::Boottime, "bpf_ktime_get_boot_ns"),
    (160, StampClock::Unknown, "bpf_ktime_get_coarse_ns"),
    (208, StampClock::Tai, "bpf_ktime_get_tai_ns"),
];

/// The clocks whose helpers this code calls.
fn clocks(code: &[&[u8]]) -> Vec<(StampClock, &'static str)> {
    const LOAD_64: u8 = 0x18;
    const CALL: u8 = 0x85;
    let mut called = [false; HELPERS.len()];
    for section in code {
        let mut instructions = section.as_chunks::<8>().0.iter();
        while let Some([code, registers, _, _, number @ ..]) = instructions.next() {
            match *code {
                // It has two places, and the second is no instruction.
                LOAD_64 => _ = instructions.next(),
                // In the upper half is what kind of function it is: 0 for a helper.
                CALL if registers >> 4 == 0 => {
                    let number = i32::from_le_bytes(*number);
                    called.iter_mut().zip(HELPERS).for_each(|(called, (helper, ..))| *called |= helper == number);
                }
                _ => {}
            }
        }
    }
    let all = HELPERS.into_iter().zip(called).filter(|(_, called)| *called);
    all.map(|((_, clock, name), _)| (clock, name)).collect()
}

/// Looks for the map that tardy fills, and for maps that would outlive the run.
fn maps(btf: &Btf) -> Result<(), UserError> {
    let mut is_there = false;
    for id in btf.ids() {
        let variable = btf.get(id)?;
        if variable.kind != TypeKind::Variable {
            continue;
        }
        let map = match btf.resolve(variable.number) {
            Ok((_, map)) => map,
            // A symbol of the kernel, of type void, is no map.
            Err(BtfError::NoType(0)) => continue,
            Err(error) => return Err(error.into()),
        };
        // libbpf takes no map that has other members than the few that it knows.
        if map.members().len() > MOST_MEMBERS {
            continue;
        }
        let Some(kind) = parameter(btf, &map, "type") else { continue };
        let name = btf.name(variable.name)?;
        // libbpf takes the last of two members, and tardy would judge by the first.
        let mut members = BTreeSet::new();
        for member in map.members() {
            let member = btf.name(member.name)?;
            if !members.insert(member) {
                return Err(UserError::Twice { map: name.to_owned(), member: member.to_owned() });
            }
        }
        is_there |= name == SOCKETS && kind == XSKMAP;
        // LIBBPF_PIN_NONE is 0.
        if parameter(btf, &map, "pinning").is_some_and(|pinning| pinning != 0) {
            return Err(UserError::Pinned(name.to_owned()));
        }
        if OF_MAPS.contains(&kind) {
            return Err(UserError::OfMaps(name.to_owned()));
        }
        if kind == ARENA || members.contains("map_extra") {
            return Err(UserError::Arena(name.to_owned()));
        }
    }
    if is_there { Ok(()) } else { Err(UserError::NoMap) }
}

/// The kernel's function by which a program takes the time that the device stamped: what it then
/// writes may be of the device's clock.
const DEVICE_TIME: &str = "bpf_xdp_metadata_rx_timestamp";

/// The kernel's functions by which a program asks the device (`Documentation/networking/
/// xdp-rx-metadata.rst`).
const OF_DEVICE: [&str; 3] = [DEVICE_TIME, "bpf_xdp_metadata_rx_hash", "bpf_xdp_metadata_rx_vlan_tag"];

/// True if the object names one of these functions.
fn names_any(btf: &Btf, functions: &[&str]) -> Result<bool, UserError> {
    for id in btf.ids() {
        let of = btf.get(id)?;
        if of.kind == TypeKind::Function && functions.iter().any(|function| btf.is_named(of.name, function)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A number in a map's definition: libbpf's `__uint` makes it the length of an array that a member
/// points to.
fn parameter(btf: &Btf, map: &Type<'_>, name: &str) -> Option<u32> {
    let member = map.members().find(|member| btf.is_named(member.name, name))?;
    let (_, pointer) = btf.resolve(member.id).ok().filter(|(_, found)| found.kind == TypeKind::Pointer)?;
    let (_, array) = btf.resolve(pointer.number).ok()?;
    array.array().map(|(_, count)| count)
}

/// The section that is asked for, or the only one with an XDP program; and that program.
fn choose<'c, 'a>(code: &'c Code<'a>, asked: Option<&str>) -> Result<(&'c CodeSection<'a>, &'c str), UserError> {
    let programs = |section: &'c CodeSection<'a>| {
        let all = section.functions.values().filter(|function| !function.is_local && section.name != ".text");
        all.map(|function| function.name.as_str()).collect::<Vec<&str>>()
    };
    let is_xdp = |section: &&CodeSection<'_>| {
        let rest = ["xdp", "xdp.frags"].iter().filter_map(|of| section.name.strip_prefix(of));
        rest.into_iter().any(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let with_programs = || code.sections.iter().filter(|section| !programs(section).is_empty());
    let there: Vec<&CodeSection<'_>> = with_programs().filter(is_xdp).collect();
    let names = || listed(there.iter().map(|section| section.name.as_str()));
    let chosen = match asked {
        _ if there.is_empty() => {
            return Err(UserError::NoXdp(listed(with_programs().map(|section| section.name.as_str()))));
        }
        Some(asked) => match there.iter().find(|section| section.name == asked) {
            Some(section) => *section,
            None => return Err(UserError::NoSection { asked: asked.to_owned(), there: names() }),
        },
        None => match there[..] {
            [one] => one,
            _ => return Err(UserError::Several(names())),
        },
    };
    match programs(chosen)[..] {
        [one] => Ok((chosen, one)),
        ref several => {
            Err(UserError::Crowded { section: chosen.name.clone(), programs: listed(several.iter().copied()) })
        }
    }
}
