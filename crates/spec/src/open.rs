// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where an experiment's text comes from: a file, or the ready-made ones inside the binary.

use crate::error::{LARGEST, Reason, Source, SpecError};
use crate::synonyms;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

fn too_large(path: &Path, size: &str) -> SpecError {
    let message = format!("the file is {size}; an experiment file has at most {LARGEST} bytes");
    SpecError::of_file(path, Reason::Unreadable, message, "name an experiment file (TOML), not a run's data")
}

/// Refuses a text that is larger than any experiment, wherever it comes from: what is made of it
/// takes many times as much memory.
pub(crate) fn check_size(source: &Source) -> Result<(), SpecError> {
    match source.text.len() {
        length if length as u64 > LARGEST => Err(too_large(Path::new(&source.name), &format!("{length} bytes large"))),
        _ => Ok(()),
    }
}

/// Reads an experiment file.
///
/// # Errors
/// The file is missing or unreadable, a directory, empty, larger than [`LARGEST`] (seen without
/// reading it whole), or not UTF-8 text.
pub fn read(path: &Path) -> Result<Source, SpecError> {
    let wrong = |message: String, help: String| SpecError::of_file(path, Reason::Unreadable, message, help);
    let io = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => wrong("there is no such file".into(), neighbour(path)),
        ErrorKind::PermissionDenied => {
            wrong("reading the file is not permitted".into(), "make it readable, or run as its owner".into())
        }
        ErrorKind::IsADirectory => directory(path),
        _ => wrong(format!("the file cannot be read: {error}"), "name a readable experiment file (TOML)".into()),
    };
    let meta = std::fs::metadata(path).map_err(io)?;
    if meta.is_dir() {
        return Err(directory(path));
    }
    let too_large = |size: &str| too_large(path, size);
    if meta.len() > LARGEST {
        return Err(too_large(&format!("{} bytes large", meta.len())));
    }
    // A pipe or a device has no length beforehand.
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes)).map_err(io)?;
    if bytes.len() as u64 > LARGEST {
        return Err(too_large("larger"));
    }
    let binary = |at: usize, bytes: &[u8]| {
        wrong(
            format!("the file is binary: byte {at} is {:#04x}", bytes.get(at).copied().unwrap_or(0)),
            "name an experiment file: UTF-8 text in TOML".into(),
        )
    };
    let text = String::from_utf8(bytes).map_err(|error| binary(error.utf8_error().valid_up_to(), error.as_bytes()))?;
    if let Some(at) = text.find('\0') {
        return Err(binary(at, text.as_bytes()));
    }
    if text.trim().is_empty() {
        return Err(wrong(
            "the file is empty".into(),
            format!("start from a ready-made experiment: {}", synonyms::list(names())),
        ));
    }
    Ok(Source { name: path.display().to_string(), text })
}

fn directory(path: &Path) -> SpecError {
    let help = if path.join("experiment.toml").is_file() {
        format!("this is a run folder; its experiment is {}", path.join("experiment.toml").display())
    } else {
        "name an experiment file (TOML) in it".to_owned()
    };
    SpecError::of_file(path, Reason::Unreadable, "this is a directory".into(), help)
}

/// How to fix a missing file: a file next to it with a similar name.
fn neighbour(path: &Path) -> String {
    let wanted = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".toml"))
        .take(10_000)
        .collect();
    beside.sort();
    // All have the ending, so it does not count.
    let stem = wanted.strip_suffix(".toml").unwrap_or(&wanted);
    let stems = beside.iter().filter_map(|name| name.strip_suffix(".toml"));
    match synonyms::nearest(stem, stems) {
        Some(near) if format!("{near}.toml") != *wanted => {
            format!("did you mean `{}`?", path.with_file_name(format!("{near}.toml")).display())
        }
        _ => format!("name an existing file, or a ready-made experiment: {}", synonyms::list(names())),
    }
}

fn names() -> impl Iterator<Item = &'static str> + Clone {
    READY_MADE.iter().map(|(name, _)| *name)
}

/// The ready-made experiment of that name.
pub fn ready_made(name: &str) -> Option<Source> {
    let (name, text) = READY_MADE.iter().find(|(known, _)| *known == name)?;
    Some(Source { name: format!("experiments/{name}.toml"), text: (*text).to_owned() })
}

/// The experiment that a person named on the command line: a ready-made one, else a file.
///
/// # Errors
/// As [`read`]; and if nothing has that name, with the ready-made name that is nearest.
pub fn resolve(name_or_path: &str) -> Result<Source, SpecError> {
    if let Some(source) = ready_made(name_or_path) {
        return Ok(source);
    }
    let path = Path::new(name_or_path);
    let looks_like_path = name_or_path.contains('/') || path.extension().is_some();
    if looks_like_path || path.exists() {
        return read(path);
    }
    Err(SpecError::whole(
        name_or_path.to_owned(),
        Reason::NoSuchExperiment,
        "no ready-made experiment and no file has this name".into(),
        match synonyms::nearest(name_or_path, names()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("give the path of a file, or one of the ready-made: {}", synonyms::list(names())),
        },
    ))
}

/// Name and text of each.
pub const READY_MADE: &[(&str, &str)] = &[
    ("host-to-host", include_str!("../../../experiments/host-to-host.toml")),
    ("roundtrip-load", include_str!("../../../experiments/roundtrip-load.toml")),
    ("vm-roundtrip", include_str!("../../../experiments/vm-roundtrip.toml")),
    ("vm-oneway", include_str!("../../../experiments/vm-oneway.toml")),
    ("vm-car", include_str!("../../../experiments/vm-car.toml")),
    ("quiet-guest", include_str!("../../../experiments/quiet-guest.toml")),
    ("car", include_str!("../../../experiments/car.toml")),
    ("tsn-qdiscs", include_str!("../../../experiments/tsn-qdiscs.toml")),
    ("etf-drops", include_str!("../../../experiments/etf-drops.toml")),
    ("mqprio-etf", include_str!("../../../experiments/mqprio-etf.toml")),
    ("igb", include_str!("../../../experiments/igb.toml")),
    ("waits", include_str!("../../../experiments/waits.toml")),
    ("afxdp-delay", include_str!("../../../experiments/afxdp-delay.toml")),
    ("afxdp-triggered", include_str!("../../../experiments/afxdp-triggered.toml")),
    ("copy", include_str!("../../../experiments/copy.toml")),
    ("copy-parallel", include_str!("../../../experiments/copy-parallel.toml")),
    ("copy-sizes", include_str!("../../../experiments/copy-sizes.toml")),
];
