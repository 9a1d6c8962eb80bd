// SPDX-License-Identifier: MIT OR Apache-2.0
//! The crates of the workspace and those that others wrote: which way they depend on each other,
//! where unsafe code is, that no two public types of a crate have the same name, and under which
//! licences and from which places the others come.

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
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

/// All files of Rust below a folder.
pub fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Where unsafe code may be: system calls, and the rings that are shared with the kernel.
const UNSAFE: [&str; 2] = ["sys/src", "bpf/src/xsk/shared.rs"];

#[test]
fn unsafe_code_is_in_sys_and_the_rings_of_bpf_alone_and_every_file_says_its_licence() {
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
        let may = UNSAFE.iter().any(|place| file.starts_with(root().join("crates").join(place)));
        let has = ["{", "fn ", "impl ", "trait ", "extern "]
            .iter()
            .any(|what| text.contains(&format!(concat!("unsa", "fe {}"), what)));
        assert!(may || !has, "{name} has unsafe code");
    }
    // Each place is there and needs it, else it would be permitted for nothing.
    for place in UNSAFE.iter().filter(|place| place.ends_with(".rs")) {
        let text = std::fs::read_to_string(root().join("crates").join(place)).expect("a source file");
        assert!(text.contains(concat!("unsa", "fe {")), "{place} has no unsafe code: take it off the list");
    }
}

/// The types that a line declares for others to see.
fn declared(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(')')?.1,
        None => rest,
    };
    let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|word| rest.trim_start().strip_prefix(word))?;
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    Some(&rest[..end])
}

fn walk(folder: &Path, found: &mut BTreeMap<String, Vec<String>>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            for name in text.lines().filter_map(declared) {
                found.entry(name.to_owned()).or_default().push(path.display().to_string());
            }
        }
    }
}

#[test]
fn several_types_of_one_crate_were_called_alike() {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates"));
    let mut seen = 0;
    for of in std::fs::read_dir(crates).expect("crates").flatten() {
        let mut found = BTreeMap::new();
        walk(&of.path().join("src"), &mut found);
        seen += found.len();
        let twice: Vec<_> = found.into_iter().filter(|(_, places)| places.len() > 1).collect();
        assert!(twice.is_empty(), "call one of each by what it is: {twice:#?}");
    }
    assert!(seen > 200, "only {seen} types were found");
}

#[test]
fn a_declaration_is_read_however_far_it_is_seen() {
    for line in ["pub struct A;", "    pub(crate) enum A {", "pub(super) trait A: B {", "pub type A<T> = B<T>;"] {
        assert_eq!(declared(line), Some("A"), "{line}");
    }
    assert_eq!([declared("struct A;"), declared("pub fn a()"), declared("pub use a::A;")], [None; 3]);
}

const NOTICES: &str = include_str!("../../NOTICES");
const REQUIREMENTS: &str = include_str!("../../packaging/requirements.txt");
const REQUIREMENTS_OF_SOAK: &str = include_str!("../../packaging/requirements-soak.txt");
const DENY: &str = include_str!("../../deny.toml");
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn metadata() -> Metadata {
    let offline = ["--offline", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"].map(str::to_owned);
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .other_options(offline)
        .exec()
        .expect("cargo metadata")
}

/// The crates that are linked into the program, tardy's own left out.
fn linked(metadata: &Metadata) -> Vec<&Package> {
    let nodes = &metadata.resolve.as_ref().expect("what was resolved").nodes;
    let mut open: Vec<&PackageId> =
        metadata.packages.iter().filter(|package| package.name == "tardy-cli").map(|package| &package.id).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        let node = nodes.iter().find(|node| node.id == *id).expect("a node");
        let normal = |kind: &cargo_metadata::DepKindInfo| kind.kind == DependencyKind::Normal;
        open.extend(node.deps.iter().filter(|used| used.dep_kinds.iter().any(normal)).map(|used| &used.pkg));
    }
    metadata.packages.iter().filter(|package| package.source.is_some() && seen.contains(&package.id)).collect()
}

/// The rows of the notices: what, and under which licence.
fn rows() -> BTreeMap<&'static str, &'static str> {
    let fields = |line: &'static str| {
        let mut fields = line.split(" | ");
        Some((fields.next()?, fields.next()?)).filter(|_| fields.next().is_some())
    };
    NOTICES.lines().filter_map(fields).collect()
}

/// Text by its words: how it is wrapped says nothing.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_program_was_passed_on_without_the_licences_of_what_it_holds() {
    let (metadata, rows, all) = (metadata(), rows(), words(NOTICES));
    let linked = linked(&metadata);
    assert!(linked.len() > 100, "only {} crates were found", linked.len());
    for package in linked {
        let name = format!("{} {}", package.name, package.version);
        let licence = package.license.as_deref().unwrap_or_default();
        let help = "run packaging/notices.py";
        assert_eq!(rows.get(name.as_str()), Some(&licence), "{name} is not in NOTICES as it is: {help}");
        let folder = package.manifest_path.parent().expect("a folder");
        let texts = fs::read_dir(folder).expect("its source").map(|entry| entry.expect("a file").path());
        let is_licence = |path: &std::path::PathBuf| {
            let file = path.file_name().expect("a name").to_string_lossy().to_lowercase();
            path.is_file() && ["license", "licence", "copying", "notice"].iter().any(|word| file.contains(word))
        };
        let texts: Vec<_> = texts.filter(is_licence).collect();
        assert!(!texts.is_empty(), "{name} brings no licence");
        for text in texts {
            let text = String::from_utf8_lossy(&fs::read(&text).expect("text")).into_owned();
            assert!(all.contains(&words(&text)), "the licence of {name} is not in NOTICES word for word: {help}");
        }
    }
    // What is no crate.
    for (part, licence) in [
        ("GNU C Library (glibc), linked statically", "LGPL-2.1-or-later"),
        ("Rust standard library", "MIT OR Apache-2.0"),
        ("libelf of elfutils, linked statically", "GPL-2.0-or-later OR LGPL-3.0-or-later"),
        ("zlib, linked statically", "Zlib"),
        ("uplot 1.6.32, in the page", "MIT"),
    ] {
        assert_eq!(rows.get(part), Some(&licence), "{part}");
    }
    for words in ["GNU LESSER GENERAL PUBLIC LICENSE Version 2.1, February 1999", "apt-get source glibc", "make build"]
    {
        assert!(all.contains(words), "{words}");
    }
}

#[test]
fn every_crate_whose_name_stands_in_the_program_is_in_its_notices() {
    // The compiler writes where a panic would come from, and with that the crate, into what it
    // makes: a list by no one's word.
    let program = fs::read(crate::help::tardy()).expect("the built binary");
    let mut found = BTreeSet::new();
    for (place, is_versioned) in [("/registry/src/", true), ("/rust/deps/", false)] {
        let place = place.as_bytes();
        for at in (0..program.len() - place.len()).filter(|at| program[*at..].starts_with(place)) {
            let rest = String::from_utf8_lossy(&program[at + place.len()..(at + 200).min(program.len())]).into_owned();
            let mut parts = rest.split('/').skip(usize::from(is_versioned));
            let name = parts.next().unwrap_or_default();
            // `toml-1.2.1+spec-1.1.0`: the version begins at the first hyphen before a digit.
            let begins = |at: &usize| name[at + 1..].starts_with(|c: char| c.is_ascii_digit());
            if let Some(at) = name.match_indices('-').map(|(at, _)| at).find(begins) {
                found.insert((name[..at].to_owned(), name[at + 1..].to_owned(), is_versioned));
            }
        }
    }
    assert!(found.len() > 20, "only {found:?}");
    let rows = rows();
    for (name, version, is_crate) in found {
        let is_named = rows.keys().any(|row| match is_crate {
            true => *row == format!("{name} {version}"),
            // Another toolchain has other versions of them, under the same licences.
            false => row.starts_with(&format!("{name} ")) && row.ends_with(", in the Rust standard library"),
        });
        assert!(is_named, "{name} {version} is in the program and not in NOTICES: run packaging/notices.py");
    }
    let output = std::process::Command::new(crate::help::tardy()).arg("notices").output().expect("tardy runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), NOTICES, "and the program prints them");
}

/// The strings of a list in deny.toml.
fn listed(key: &str) -> Vec<String> {
    let (_, rest) = DENY.split_once(&format!("\n{key} = [")).unwrap_or_else(|| panic!("{key} is not in deny.toml"));
    let (list, _) = rest.split_once(']').expect("the end of the list");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// True if an SPDX expression is met by licences of a list: one of each `OR`, all of an `AND`.
fn is_met(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('/', " OR ");
    let inner = expression.replace(['(', ')'], " ");
    // `AND` is next to brackets in the only such expression: (MIT OR Apache-2.0) AND
    // Unicode-3.0.
    inner.split(" AND ").all(|part| part.split(" OR ").any(|one| allowed.iter().any(|known| known == one.trim())))
}

#[test]
fn a_licence_that_nobody_looked_at_could_come_in_with_a_crate() {
    let allowed = listed("allow");
    assert!(is_met("(MIT OR Apache-2.0) AND Unicode-3.0", &allowed) && is_met("Apache-2.0/MIT", &allowed));
    assert!(!is_met("GPL-3.0-only", &allowed) && !is_met("MIT AND GPL-2.0-only", &allowed));
    let metadata = metadata();
    let theirs: Vec<&Package> = metadata.packages.iter().filter(|package| package.source.is_some()).collect();
    for package in &theirs {
        let licence = package.license.as_deref().unwrap_or("none");
        assert!(
            is_met(licence, &allowed),
            "{} {}: licence {licence} is not in deny.toml",
            package.name,
            package.version
        );
    }
    // Nor is one listed that no crate needs.
    for licence in &allowed {
        let needs =
            |package: &&&Package| !is_met(package.license.as_deref().unwrap_or("none"), &without(&allowed, licence));
        assert!(
            theirs.iter().any(|package| needs(&package)),
            "{licence} is listed in deny.toml, and no crate needs it"
        );
    }
}

fn without(all: &[String], one: &str) -> Vec<String> {
    all.iter().filter(|other| *other != one).cloned().collect()
}

#[test]
fn a_crate_could_come_from_anywhere_and_in_any_number_of_versions() {
    let metadata = metadata();
    let nodes = &metadata.resolve.as_ref().expect("what was resolved").nodes;
    let used: BTreeSet<&PackageId> = nodes.iter().map(|node| &node.id).collect();
    let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for package in metadata.packages.iter().filter(|package| used.contains(&package.id)) {
        let Some(source) = &package.source else { continue };
        assert_eq!(source.repr, REGISTRY, "{} comes from elsewhere", package.name);
        versions.entry(package.name.as_str()).or_default().insert(package.version.to_string());
    }
    let skipped = listed("skip");
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        assert!(skipped.iter().any(|known| known == name), "{name} is there as {versions:?}: see deny.toml");
    }
    for name in &skipped {
        assert!(
            versions.get(name.as_str()).is_some_and(|versions| versions.len() > 1),
            "{name} is there once: see deny.toml"
        );
    }
    // postcard's default features brought an unmaintained crate and four that nothing used.
    for gone in ["atomic-polyfill", "heapless", "hash32", "spin"] {
        assert!(!include_str!("../../Cargo.lock").contains(&format!("name = \"{gone}\"\n")), "{gone}");
    }
}

#[test]
fn a_python_package_could_be_another_than_the_one_that_was_looked_at() {
    let requirements = [REQUIREMENTS, REQUIREMENTS_OF_SOAK].concat();
    let packages: Vec<&str> = requirements.lines().filter(|line| line.contains("==")).collect();
    assert!(packages.len() > 10, "{packages:?}");
    let blocks = requirements.split("==").skip(1);
    assert!(blocks.into_iter().all(|block| block.contains("--hash=sha256:")), "each has a hash");
    let setup = include_str!("../../packaging/setup.sh");
    let installs: Vec<&str> = setup.lines().filter(|line| line.contains("pip\" install")).collect();
    assert!(!installs.is_empty() && installs.iter().all(|line| line.contains("--require-hashes")), "{installs:?}");
    let asked = include_str!("../../packaging/hashes.sh").lines().filter(|line| line.contains("=="));
    for asked in asked {
        let wanted = asked.replace('_', "-");
        assert!(packages.iter().any(|line| line.trim_end_matches(" \\") == wanted), "{asked}: run packaging/hashes.sh");
    }
}
