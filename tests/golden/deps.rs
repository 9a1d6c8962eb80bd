// SPDX-License-Identifier: MIT OR Apache-2.0
//! The direction of dependencies between the crates, and where unsafe code may stand.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Each crate with the crates that it may use. What is not in the list may not be used.
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("spec", &["model"]),
    ("sys", &["model"]),
    ("host", &["model", "spec", "sys"]),
    ("engine", &["model", "spec", "sys"]),
    ("lab", &["model", "spec", "sys", "host", "engine"]),
    ("store", &["model"]),
    ("analyze", &["model"]),
    ("report", &["model", "store", "analyze"]),
    ("cli", &["model", "spec", "sys", "host", "engine", "lab", "store", "analyze", "report"]),
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[test]
fn crates_depend_in_one_direction() {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .other_options(vec!["--offline".into()])
        .exec()
        .expect("cargo metadata");
    let may: BTreeMap<&str, BTreeSet<&str>> =
        MAY_USE.iter().map(|(name, uses)| (*name, uses.iter().copied().collect())).collect();
    let mut seen = BTreeSet::new();
    for package in &metadata.packages {
        let Some(name) = package
            .name
            .strip_prefix("tardy-")
            .filter(|name| *name != "tests" && !["bench-", "fuzz-"].iter().any(|built| name.starts_with(built)))
        else {
            continue;
        };
        let allowed = may.get(name).unwrap_or_else(|| panic!("crate {name} has no place in MAY_USE"));
        seen.insert(name.to_owned());
        for dependency in package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal) {
            if let Some(used) = dependency.name.strip_prefix("tardy-") {
                assert!(allowed.contains(used), "crate {name} uses {used}, which the design does not allow");
            }
        }
    }
    assert_eq!(seen, MAY_USE.iter().map(|(name, _)| (*name).to_owned()).collect(), "every crate is looked at");
}

#[test]
fn analysis_and_reports_build_without_the_system() {
    // Neither system calls nor BPF nor the engine are behind what draws a picture.
    for (name, uses) in MAY_USE.iter().filter(|(name, _)| ["store", "analyze", "report", "model"].contains(name)) {
        for system in ["sys", "host", "engine", "lab", "bpf"] {
            assert!(!uses.contains(&system), "{name} must not use {system}");
        }
    }
}

fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn unsafe_code_stands_in_sys_alone_and_every_file_says_its_licence() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    sources(&root().join("tests"), &mut files);
    sources(&root().join("fuzz/bodies"), &mut files);
    sources(&root().join("fuzz/targets"), &mut files);
    assert!(files.len() > 50, "only {} files were found", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source file");
        let name = file.display();
        assert!(text.starts_with("// SPDX-License-Identifier: "), "{name} has no licence line");
        assert!(text.contains("//! "), "{name} does not say what it is for");
        let is_sys = file.components().any(|part| part.as_os_str() == "sys");
        let keyword = concat!("unsa", "fe {");
        assert!(is_sys || !text.contains(keyword), "{name} has unsafe code");
    }
}
