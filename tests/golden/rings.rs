// SPDX-License-Identifier: MIT OR Apache-2.0
//! Within a crate modules do not import each other in a ring: who reads one file need not read all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A module's path in its crate; that of `lib.rs` is empty.
type Module = Vec<String>;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Every file of a crate with its module.
fn modules(folder: &Path, of: &Module, found: &mut BTreeMap<Module, PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let inner: Module = of.iter().cloned().chain([name.clone()]).collect();
        if path.is_dir() {
            modules(&path, &inner, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_parents = ["lib", "main", "mod"].contains(&name.as_str());
            found.insert(if is_parents { of.clone() } else { inner }, path);
        }
    }
}

/// Reads a tree of paths, as behind `use`, that begins at `text`, and adds each path to `found`; returns what follows.
fn tree<'a>(mut text: &'a str, prefix: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    let mut path = prefix.to_vec();
    loop {
        text = text.trim_start();
        if let Some(mut rest) = text.strip_prefix('{') {
            loop {
                rest = rest.trim_start();
                if let Some(behind) = rest.strip_prefix('}') {
                    return behind;
                }
                if rest.is_empty() {
                    return rest;
                }
                let before = rest.len();
                rest = tree(rest, &path, found).trim_start();
                rest = rest.strip_prefix(',').unwrap_or(rest);
                if rest.len() == before {
                    // What is no path ends the list.
                    return rest;
                }
            }
        }
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
        if end == 0 {
            found.push(path);
            return text.strip_prefix('*').unwrap_or(text);
        }
        path.push(text[..end].to_owned());
        text = &text[end..];
        match text.strip_prefix("::") {
            Some(rest) => text = rest,
            None => {
                found.push(path);
                // Another name for it changes nothing.
                let other = text.trim_start().strip_prefix("as ").map(str::trim_start);
                return other.map_or(text, |other| {
                    let end = other.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(other.len());
                    &other[end..]
                });
            }
        }
    }
}

/// The paths that a file uses: behind `use`, and wherever one begins at the crate, a parent or the module itself.
fn named(text: &str) -> Vec<Vec<String>> {
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).fold(String::new(), |mut code, line| {
            code.push_str(line);
            code.push('\n');
            code
        });
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::", "use "] {
        for (at, _) in code.match_indices(start) {
            let before = &code[..at];
            let is_word = before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || "_:$".contains(c));
            // What a module only passes on it does not use.
            let passes_on =
                start == "use " && ["pub ", "pub(crate) ", "pub(super) "].iter().any(|public| before.ends_with(public));
            if !is_word && !passes_on {
                let from = if start == "use " { at + start.len() } else { at };
                tree(&code[from..], &[], &mut found);
            }
        }
    }
    found
}

/// The modules of a crate, and names that a module has of another one (`pub use`).
#[derive(Default)]
struct Crate {
    files: BTreeMap<Module, PathBuf>,
    passed_on: BTreeMap<(Module, String), Module>,
}

/// The module that a path leads to from module `from`, if it is one of the crate's. A name that its module only passes on leads to where
/// it comes from.
fn led_to(from: &Module, path: &[String], of: &Crate) -> Option<Module> {
    let all = &of.files;
    let (mut at, rest): (Module, &[String]) = match path.first()?.as_str() {
        "crate" => (Vec::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        "super" => {
            let ups = path.iter().take_while(|word| *word == "super").count();
            (from[..from.len().checked_sub(ups)?].to_vec(), &path[ups..])
        }
        first => {
            let child: Module = from.iter().cloned().chain([first.to_owned()]).collect();
            (all.contains_key(&child).then(|| from.clone())?, path)
        }
    };
    for word in rest {
        at.push(word.clone());
        if !all.contains_key(&at) {
            at.pop();
            return Some(of.passed_on.get(&(at.clone(), word.clone())).cloned().unwrap_or(at));
        }
    }
    Some(at)
}

/// What a module passes on of its children: each name with the child.
fn passed_on(module: &Module, text: &str, files: &BTreeMap<Module, PathBuf>) -> Vec<((Module, String), Module)> {
    let mut found = Vec::new();
    for start in ["pub use ", "pub(crate) use ", "pub(super) use "] {
        for (at, _) in text.match_indices(start) {
            let mut paths = Vec::new();
            tree(&text[at + start.len()..], &[], &mut paths);
            for path in paths.iter().filter(|path| path.len() > 1) {
                let child: Module = module.iter().chain(&path[..path.len() - 1]).cloned().collect();
                if files.contains_key(&child) {
                    found.push(((module.clone(), path[path.len() - 1].clone()), child));
                }
            }
        }
    }
    found
}

/// A ring that can be reached from `at`, as the modules on it.
fn ring(
    at: &Module,
    uses: &BTreeMap<Module, BTreeSet<Module>>,
    way: &mut Vec<Module>,
    done: &mut BTreeSet<Module>,
) -> Option<Vec<Module>> {
    if let Some(place) = way.iter().position(|module| module == at) {
        return Some(way[place..].to_vec());
    }
    if !done.insert(at.clone()) {
        return None;
    }
    way.push(at.clone());
    let found = uses.get(at).into_iter().flatten().find_map(|next| ring(next, uses, way, done));
    way.pop();
    found
}

/// What each module of a crate uses of the others. A module may use what stands in its parents: they are read first.
fn uses(folder: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut all = Crate::default();
    modules(folder, &Vec::new(), &mut all.files);
    let text = |path: &PathBuf| std::fs::read_to_string(path).expect("a source file");
    all.passed_on = all.files.iter().flat_map(|(module, path)| passed_on(module, &text(path), &all.files)).collect();
    let of = |(module, path): (&Module, &PathBuf)| {
        let led = named(&text(path)).into_iter().filter_map(|path| led_to(module, &path, &all));
        (module.clone(), led.filter(|to| !module.starts_with(to)).collect())
    };
    all.files.iter().map(of).collect()
}

#[test]
fn eleven_files_of_one_crate_imported_each_other_in_a_ring() {
    for name in ["engine", "lab", "report", "spec", "parquet", "store", "judge"] {
        let uses = uses(&root().join("crates").join(name).join("src"));
        let edges: usize = uses.values().map(BTreeSet::len).sum();
        assert!(edges > 2, "{name}: only {edges} imports were found");
        let mut done = BTreeSet::new();
        let found = uses.keys().find_map(|module| ring(module, &uses, &mut Vec::new(), &mut done));
        let told = found.map(|ring| ring.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(" → "));
        assert_eq!(told, None, "crate {name}: move what they share into a file of its own");
    }
}

#[test]
fn paths_are_read_however_they_are_written() {
    let text = "use crate::a::{self, b::C, d::{E, F as G}};\nuse child::{One, Two};\npub use child::Three;\n// use crate::no::No;\n\
                fn f() { super::super::x::y(); crate::z::w(); }";
    let words = |path: &Vec<String>| path.join("::");
    let found: BTreeSet<String> = named(text).iter().map(words).collect();
    for path in ["crate::a::self", "crate::a::b::C", "crate::a::d::E", "crate::a::d::F", "child::One", "child::Two"] {
        assert!(found.contains(path), "{path}: {found:?}");
    }
    assert!(!found.contains("child::Three"), "passed on and not used: {found:?}");
    assert!(found.contains("super::super::x::y") && found.contains("crate::z::w"), "{found:?}");
    assert!(!found.iter().any(|path| path.contains("no")), "{found:?}");
    let module = |path: &str| -> Module { path.split("::").map(str::to_owned).collect() };
    let files: BTreeMap<Module, PathBuf> =
        ["a", "a::b", "c", "c::d"].map(|path| (module(path), PathBuf::new())).into_iter().collect();
    let passed_on = passed_on(&module("a"), "pub use b::{C, E};", &files).into_iter().collect();
    let all = Crate { files, passed_on };
    let led = |from: &str, path: &str| led_to(&module(from), &module(path), &all).map(|to| to.join("::"));
    assert_eq!(led("c::d", "crate::a::b::C").as_deref(), Some("a::b"));
    assert_eq!(led("c::d", "crate::a::E").as_deref(), Some("a::b"), "`a` only passes it on");
    assert_eq!(led("c::d", "super::e").as_deref(), Some("c"));
    assert_eq!(led("c", "d::E").as_deref(), Some("c::d"));
    assert_eq!(led("c", "std::fs"), None);
    // A ring is found wherever one begins.
    let uses: BTreeMap<Module, BTreeSet<Module>> = [("x", "a"), ("a", "b"), ("b", "c"), ("c", "a")]
        .map(|(from, to)| (module(from), BTreeSet::from([module(to)])))
        .into_iter()
        .collect();
    let found = ring(&module("x"), &uses, &mut Vec::new(), &mut BTreeSet::new()).expect("a ring");
    assert_eq!(found, [module("a"), module("b"), module("c")]);
}
