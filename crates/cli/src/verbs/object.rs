// SPDX-License-Identifier: MIT OR Apache-2.0
//! A user's own XDP programs: `--xdp-object`, the key `rx.object`, and the files that they name.
//! The bytes that are read here go to the agents with their orders, and nothing reads the file
//! again.

use crate::args::Experiment as Asked;
use crate::exit::{Exit, Failure};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tardy_bpf::pitfalls::{MOST_CALLS, scan_of};
use tardy_bpf::source::plain_file;
use tardy_bpf::user::{MOST_BYTES, StampClock, UserError, UserObject};
use tardy_lab::guest::sha256;
use tardy_model::manifest::XdpObjectEntry;
use tardy_model::xdp::{MOST_COLUMNS, XdpObject};
use tardy_spec::experiment::Experiment;

/// The experiment with the object of the command line, if there is one, in every stream that port
/// `xdp` receives.
pub fn load(args: &Asked, object: Option<&str>) -> Result<Experiment> {
    let experiment = super::load(args, &[])?;
    let Some(text) = object else { return Ok(experiment) };
    let streams = experiment.cells.iter().flat_map(|cell| &cell.setup.streams);
    let names: BTreeSet<&str> =
        streams.filter(|stream| stream.rx.port.passes_xdp()).map(|stream| stream.name.as_str()).collect();
    if names.is_empty() {
        let why = "--xdp-object: no stream of the experiment is received through port xdp: write rx.port = \"xdp\"";
        return Err(usage(why.to_owned()));
    }
    let XdpObject { file, section, times, .. } = XdpObject::of(text);
    // A file's key is relative to the file; what the caller writes is relative to the caller.
    let file = std::path::absolute(&file).map_err(|error| usage(format!("--xdp-object: {file}: {error}")))?;
    let suffix = |mark, part: &Option<String>| part.as_ref().map(|part| format!("{mark}{part}")).unwrap_or_default();
    let members = (!times.is_empty()).then(|| times.join(","));
    let suffix = suffix(':', &section) + &suffix('@', &members);
    let whole = file.to_str().map(|file| format!("{file}{suffix}"));
    let named = whole.as_ref().map(|whole| XdpObject::of(whole));
    let is_same =
        |named: &XdpObject| Path::new(&named.file) == file && (&named.section, &named.times) == (&section, &times);
    let Some(named) = named.filter(is_same) else {
        let why = "--xdp-object: its absolute path cannot be written into an experiment, for it is not UTF-8, or has a colon \
                   or an @ that looks like a section's or a member's: move the file";
        return Err(usage(why.to_owned()));
    };
    let text = serde_json::to_string(&format!("{}{suffix}", named.file))?;
    let sets: Vec<String> = names.iter().map(|name| format!("stream.{name}.rx.object={text}")).collect();
    let experiment = super::load(args, &sets)?;
    // The caller consents to this object alone, and the experiment's file may have changed since
    // its streams were listed.
    let streams = experiment.cells.iter().flat_map(|cell| &cell.setup.streams);
    let other = |object: &&XdpObject| !object.names_the_same(&named);
    if let Some(other) = streams.filter_map(|stream| stream.rx.object.as_ref()).find(other) {
        let why = format!(
            "--xdp-object: the experiment's file changed while it was read, and names {} now: call again",
            other.file
        );
        return Err(usage(why));
    }
    Ok(experiment)
}

/// Reads the objects that an experiment names, and checks that each can be loaded. Gives what is
/// known of them.
pub fn read(experiment: &mut Experiment, args: &Asked) -> Result<Vec<XdpObjectEntry>> {
    let folder = match tardy_spec::ready_made(&args.experiment) {
        Some(_) => None,
        None => Path::new(&args.experiment).parent(),
    };
    let mut known: Vec<(XdpObject, XdpObjectEntry)> = Vec::new();
    let streams = experiment.cells.iter_mut().flat_map(|cell| &mut cell.setup.streams);
    for stream in streams {
        let (by_core, name) = (stream.rx.core.is_some(), &stream.name);
        let Some(object) = stream.rx.object.as_mut() else { continue };
        let same = |known: &&(XdpObject, XdpObjectEntry)| known.0.names_the_same(object);
        let before = known.iter().find(same).map(|(read, _)| Arc::clone(&read.bytes));
        let is_known = before.is_some();
        let path = folder.map_or_else(|| PathBuf::from(&object.file), |folder| folder.join(&object.file));
        object.bytes = before.map_or_else(|| bytes(&path).map(Arc::new), Ok)?;
        if by_core && user(object).is_ok_and(|user| !user.shows_cpu()) {
            return Err(usage(format!(
                "the XDP object {}: stream.{name}.rx.core needs hints that all show the program's CPU and a time, and these \
                 do not: add a member `cpu` to each struct, or write rx.cpu instead",
                path.display()
            )));
        }
        if is_known {
            continue;
        }
        let entry = entry(object).map_err(|why| usage(format!("the XDP object {}: {why}", path.display())))?;
        known.push((object.clone(), entry));
        if known.len() > MOST_OBJECTS {
            return Err(usage(format!("the experiment names more than {MOST_OBJECTS} XDP objects: split it")));
        }
    }
    for cell in &experiment.cells {
        let objects = cell.setup.streams.iter().filter_map(|stream| stream.rx.object.as_ref());
        let is_its =
            |known: &&(XdpObject, XdpObjectEntry)| objects.clone().any(|object| object.names_the_same(&known.0));
        one_table(known.iter().filter(is_its).map(|(_, entry)| entry)).map_err(usage)?;
    }
    Ok(known.into_iter().map(|(_, entry)| entry).collect())
}

/// Looks whether the columns of all objects of a cell go into one table: SQL sees no difference
/// between names that differ in case alone.
fn one_table<'e>(entries: impl Iterator<Item = &'e XdpObjectEntry>) -> Result<(), String> {
    let mut columns: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for entry in entries {
        for name in &entry.columns {
            let (before, file) = *columns.entry(name.to_lowercase()).or_insert((name, &entry.file));
            if before != name {
                return Err(format!(
                    "the XDP objects {file} and {} make the hint columns `{before}` and `{name}`, which differ in case \
                     alone, and samples.parquet can have one of them: give the members one name",
                    entry.file
                ));
            }
        }
    }
    match columns.len() {
        count if count <= MOST_COLUMNS => Ok(()),
        count => Err(format!(
            "the XDP objects of one cell have hint members for {count} columns, and samples.parquet has at most \
             {MOST_COLUMNS}: use fewer objects in a cell, or leave members out"
        )),
    }
}

fn usage(message: String) -> anyhow::Error {
    Failure::new(Exit::Usage, message).into()
}

/// Where the kernel's own files are.
const KERNELS: [&str; 4] = ["/proc", "/sys", "/sys/kernel/debug", "/sys/kernel/tracing"];
/// Objects that an experiment may name, by as many names of files and sections.
const MOST_OBJECTS: usize = 64;
/// Members without a column that are listed.
const MOST_UNRECORDED: usize = 256;

/// What is in a plain file.
fn bytes(path: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| usage(format!("reading the XDP object {}: {error}", path.display()));
    let not_plain = || {
        let why = "is not a plain file, or is empty: name the object that clang made of the program";
        usage(format!("the XDP object {} {why}", path.display()))
    };
    let Some(file) = plain_file(path).map_err(failed)? else {
        return Err(not_plain());
    };
    // To read a file of these may do something, as to the device that it is about.
    let file_system = file.metadata().map_err(failed)?.dev();
    let is_of = |kernel: &&str| std::fs::metadata(kernel).is_ok_and(|known| known.dev() == file_system);
    if KERNELS.iter().any(is_of) {
        return Err(not_plain());
    }
    let mut bytes = Vec::new();
    // One byte more than is loaded, so that a larger file is known as such.
    file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() {
        length if length <= MOST_BYTES => Ok(bytes),
        _ => Err(usage(format!(
            "the XDP object {} is larger than {} KiB: strip its debug information with `llvm-strip -g`, which leaves its BTF",
            path.display(),
            MOST_BYTES >> 10
        ))),
    }
}

/// What is known of an object whose bytes were read.
fn user(object: &XdpObject) -> Result<UserObject<'_>, UserError> {
    UserObject::of(&object.bytes, object.section.as_deref())?.timed_by(&object.times)
}

fn entry(object: &XdpObject) -> Result<XdpObjectEntry, UserError> {
    let user = user(object)?;
    let clock = match user.clock() {
        StampClock::Tai => Some("tai"),
        StampClock::Monotonic => Some("monotonic"),
        StampClock::Boottime => Some("boottime"),
        StampClock::Unknown => None,
    };
    let unrecorded = user.columns().unrecorded().iter().take(MOST_UNRECORDED);
    let scan = scan_of(&user)?;
    Ok(XdpObjectEntry {
        file: object.file.clone(),
        section: user.section().to_owned(),
        sha256: sha256::of(&object.bytes),
        columns: user.columns().names().map(str::to_owned).collect(),
        unrecorded: unrecorded.map(|one| format!("{}.{} {}", one.layout, one.member, one.why)).collect(),
        time: user.time().map(str::to_owned),
        times: user.times().into_iter().map(|time| time.column).collect(),
        without_times: user.clock_of_times().err().filter(|_| !user.times().is_empty()),
        clock: clock.map(str::to_owned),
        without_time: user.without_time().map(str::to_owned),
        printing: scan.lines.iter().take(MOST_CALLS).map(|call| call.function.to_string()).collect(),
        device_numbers: scan.redirects.iter().take(MOST_CALLS).map(|(_, number)| *number).collect(),
    })
}

/// What is known of an object, a line each.
pub fn in_words(entry: &XdpObjectEntry) -> Vec<String> {
    let mut lines = vec![
        format!("XDP object {}, section {}, SHA-256 {}", entry.file, entry.section, entry.sha256),
        format!("  its columns of samples.parquet: hint, {}", entry.columns.join(", ")),
    ];
    lines.extend(entry.unrecorded.iter().map(|what| format!("  not recorded: {what}")));
    let time = entry.time.as_ref().map_or_else(|| "its time".to_owned(), |member| format!("its member {member}"));
    lines.push(match (&entry.clock, &entry.without_time) {
        (Some(clock), None) => format!("  rx_xdp is of {time}, by the clock {clock}"),
        (Some(clock), Some(why)) => format!("  rx_xdp is of {time}, by the clock {clock}; {why}"),
        (None, why) => format!("  rx_xdp is absent: {}", why.as_deref().unwrap_or("it has no time")),
    });
    let metrics: Vec<String> = entry.times.iter().map(|time| format!("{time}..receive")).collect();
    let metrics = metrics.join(", ");
    match &entry.without_times {
        _ if metrics.is_empty() => {}
        None => lines.push(format!("  metrics of its times: {metrics}")),
        Some(why) => lines.push(format!("  metrics of its times are absent, {metrics}: {why}")),
    }
    for (function, calls) in counted(&entry.printing) {
        let times = if calls == 1 { "" } else { &format!(" in {calls} places") };
        lines.push(format!(
            "  its function {function} prints a line into the kernel's trace{times}: each line delays the packet, \
             and the run measures by how much"
        ));
    }
    for (number, _) in counted(&entry.device_numbers) {
        lines.push(format!(
            "  it redirects to device number {number}, which is written into the object: numbers change from namespace to namespace"
        ));
    }
    lines
}

/// Each value once, with how often it is there.
fn counted<T: Ord>(values: &[T]) -> BTreeMap<&T, usize> {
    let mut counts = BTreeMap::new();
    values.iter().for_each(|value| *counts.entry(value).or_default() += 1);
    counts
}
