// SPDX-License-Identifier: MIT OR Apache-2.0
//! One name, one thing: within a crate no two types that others can see have the same name.

use std::collections::BTreeMap;
use std::path::Path;

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
