// SPDX-License-Identifier: MIT OR Apache-2.0
//! The direction of dependencies between the crates, and where unsafe code may stand.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The table of crates in ARCHITECTURE.md: each crate with those that it may use. What is not in
/// it may not be used.
fn may_use() -> BTreeMap<String, BTreeSet<String>> {
    let text = include_str!("../../ARCHITECTURE.md");
    let (_, table) = text.split_once("\n| crate | uses | is |\n").expect("the table of crates");
    let rows = table.lines().take_while(|line| line.starts_with('|')).skip(1);
    let cells = rows.map(|row| row.split('|').map(str::trim).skip(1).take(2).collect::<Vec<_>>());
    let named =
        |words: &str| words.split(", ").filter(|word| !word.is_empty()).map(str::to_owned).collect::<BTreeSet<_>>();
    let mut may: BTreeMap<String, BTreeSet<String>> =
        cells.map(|cells| (cells[0].trim_matches('`').to_owned(), named(cells[1]))).collect();
    let all: BTreeSet<String> = may.keys().cloned().collect();
    for (name, uses) in &mut may {
        if uses.remove("all") {
            uses.extend(all.iter().filter(|other| *other != name).cloned());
        }
    }
    assert!(may.len() > 8 && may["model"].is_empty() && may["lab"].contains("engine"), "{may:?}");
    may
}

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
    let may = may_use();
    let mut seen = BTreeSet::new();
    for package in &metadata.packages {
        let Some(name) = package
            .name
            .strip_prefix("tardy-")
            .filter(|name| *name != "tests" && !["bench-", "fuzz-"].iter().any(|built| name.starts_with(built)))
        else {
            continue;
        };
        let allowed = may.get(name).unwrap_or_else(|| panic!("crate {name} is not in the table of ARCHITECTURE.md"));
        seen.insert(name.to_owned());
        for dependency in package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal) {
            if let Some(used) = dependency.name.strip_prefix("tardy-") {
                assert!(allowed.contains(used), "crate {name} uses {used}, which ARCHITECTURE.md does not allow");
            }
        }
    }
    assert_eq!(seen, may.into_keys().collect(), "every crate is checked");
}

#[test]
fn analysis_and_reports_build_without_the_system() {
    // Neither system calls nor BPF nor the engine are behind what draws a picture.
    let may = may_use();
    for name in ["parquet", "store", "analyze", "report", "judge", "model"] {
        for system in ["sys", "host", "engine", "lab", "bpf"] {
            assert!(!may[name].contains(system), "{name} must not use {system}");
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
