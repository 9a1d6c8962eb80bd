// SPDX-License-Identifier: MIT OR Apache-2.0
//! Within a crate files do not import each other in a ring: who reads one file need not read all
//! of them.
//!
//! The rule. A file imports another one if it names what that one declares, in a `use` or in any
//! other path. What a name means is followed through every `pub use` to the file that declares it.
//! So a parent does not import its child by `mod child;`, nor by giving its names on (a facade)
//! without naming them itself. A child may take what its parent declares, unless the parent
//! imports the child, in whatever number of steps. Where the parent does, as one that has the list
//! of all kinds does, what the children need is in a file of its own next to them, and they
//! take it from there: a child that takes it by way of its parent depends on its parent too.
//!
//! A type may have methods in other files than the one that declares it. That one imports such a
//! file if it calls a method by a name that no other type of the crate has; what a method of an
//! ambiguous name belongs to only a compiler knows.

mod graph;
mod module;

use graph::Graph;
use module::Files;
use std::path::Path;

/// The files of a crate below its `src`.
fn files(folder: &Path, prefix: &str, found: &mut Files) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name().into_string().expect("a name"));
        if path.is_dir() {
            files(&path, &format!("{prefix}{name}/"), found);
        } else if name.ends_with(".rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            found.insert(format!("{prefix}{name}"), text);
        }
    }
}

/// The rings of a crate as they are reported, a line each.
fn told(graph: &Graph) -> Vec<String> {
    let ring = |ring: &Vec<graph::Import>| ring.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    graph.rings().iter().map(ring).collect()
}

/// The graph of a made-up crate: the files' names with their texts, its root first.
fn made_up(texts: &[(&str, &str)]) -> Graph {
    let files = texts.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
    Graph::of(&files, texts[0].0)
}

#[test]
fn eleven_files_of_one_crate_imported_each_other_in_a_ring() {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates"));
    let (mut imports, mut rings) = (0, Vec::new());
    for of in std::fs::read_dir(crates).expect("crates").flatten() {
        let name = of.file_name().into_string().expect("a name");
        let mut all = Files::new();
        files(&of.path().join("src"), "", &mut all);
        let root = ["lib.rs", "main.rs"].into_iter().find(|root| all.contains_key(*root)).expect("a root");
        let graph = Graph::of(&all, root);
        assert!(graph.files.iter().eq(all.keys()), "{name}: a file that no `mod` leads to is not looked at");
        imports += graph.len();
        rings.extend(told(&graph).into_iter().map(|ring| format!("{name}: {ring}")));
    }
    assert!(imports > 1_000, "only {imports} imports were found");
    assert!(rings.is_empty(), "move what they share into a file of its own: {rings:#?}");
}

#[test]
fn a_parent_used_the_child_that_took_a_type_from_it() {
    let ring = made_up(&[
        ("lib.rs", "mod trial;"),
        ("trial.rs", "mod machine;\nuse machine::Machine;\npub struct Broken;\nfn run() { Machine::begin(); }"),
        ("trial/machine.rs", "use super::Broken;\npub struct Machine(Broken);"),
    ]);
    let told_of =
        "trial.rs imports trial/machine.rs (`Machine::begin`), trial/machine.rs imports trial.rs (`super::Broken`)";
    assert_eq!(told(&ring), [told_of]);
    let mended = made_up(&[
        ("lib.rs", "mod trial;"),
        (
            "trial.rs",
            "mod machine; mod outcome;\nuse machine::Machine;\npub use outcome::Broken;\nfn run() -> Broken { Machine::begin() }",
        ),
        ("trial/machine.rs", "use super::outcome::Broken;\npub struct Machine(Broken);"),
        ("trial/outcome.rs", "pub struct Broken;"),
    ]);
    assert_eq!(told(&mended), [""; 0]);
    assert!(mended.has("trial.rs", "trial/machine.rs") && mended.has("trial/machine.rs", "trial/outcome.rs"));
}

#[test]
fn a_child_that_takes_by_way_of_its_parent_depends_on_it() {
    let lists = "mod a; mod kind;\npub use kind::Kind;\nconst ALL: [Kind; 1] = [a::KIND];";
    let child = "use super::Kind; pub const KIND: Kind = Kind;";
    let ring = made_up(&[("lib.rs", lists), ("a.rs", child), ("kind.rs", "pub struct Kind;")]);
    assert_eq!(told(&ring), ["a.rs imports lib.rs (`super::Kind`), lib.rs imports a.rs (`a::KIND`)"]);
    // One that has the list and of which nothing is taken back is none; nor is one that only gives
    // names on.
    let child = "use super::kind::Kind; pub const KIND: Kind = Kind;";
    assert_eq!(told(&made_up(&[("lib.rs", lists), ("a.rs", child), ("kind.rs", "pub struct Kind;")])), [""; 0]);
    let facade = "mod a; mod kind;\npub use a::KIND; pub(crate) use kind::*;\npub struct Other;";
    let child = "use super::{Kind, Other}; pub const KIND: Kind = Kind(Other);";
    let graph = made_up(&[("lib.rs", facade), ("a.rs", child), ("kind.rs", "pub struct Kind;")]);
    assert!(graph.has("a.rs", "kind.rs") && graph.has("a.rs", "lib.rs"));
}

#[test]
fn a_ring_is_found_wherever_it_begins_and_however_it_is_written() {
    let graph = made_up(&[
        ("main.rs", "mod x; mod a; mod b; mod c;\nfn main() { x::start() }"),
        ("x/mod.rs", "pub fn start() { crate::a::one(); }"),
        ("a.rs", "use crate::{b::{self, Two as Other}, x};\npub fn one() { b::two(); }"),
        ("b.rs", "pub fn two() { let it = vec![super::c::THREE]; }\npub struct Two;"),
        ("c.rs", "mod inner { pub const FOUR: u8 = crate::a::one(); }\npub const THREE: u8 = 3;"),
    ]);
    let ring =
        "a.rs imports b.rs (`b::two`), b.rs imports c.rs (`super::c::THREE`), c.rs imports a.rs (`crate::a::one`)";
    assert_eq!(told(&graph), [ring]);
    assert!(!graph.has("a.rs", "x/mod.rs"), "the name of a module is not yet an import of what is in it");
}

#[test]
fn comments_and_strings_import_nothing() {
    let graph = made_up(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "//! See [`crate::b::Two`].\n/// crate::b::Two\npub const ONE: &str = \"crate::b::Two\"; // crate::b::Two",
        ),
        ("b.rs", "use crate::a::ONE;\npub struct Two;"),
    ]);
    assert_eq!((told(&graph).len(), graph.len()), (0, 1));
}

#[test]
fn a_type_called_its_methods_in_the_file_of_a_child() {
    let ends = "mod answered;\npub struct Ends;\nfn trial(ends: Ends) { ends.reflected(); ends.size(); }";
    let answered = "use super::Ends;\nimpl<'a> Ends { pub fn reflected(&self) {} pub fn size(&self) {} }";
    let other = "pub struct Order;\nimpl Order { pub fn size(&self) {} }";
    let graph = made_up(&[("lib.rs", ends), ("answered.rs", answered)]);
    assert_eq!(
        told(&graph),
        ["answered.rs imports lib.rs (`super::Ends`), lib.rs imports answered.rs (`Ends::reflected`)"]
    );
    // Of a method that another type has as well it is not known.
    let ends = "mod answered; mod other;\npub struct Ends;\nfn trial(order: other::Order) { order.size(); }";
    assert_eq!(told(&made_up(&[("lib.rs", ends), ("answered.rs", answered), ("other.rs", other)])), [""; 0]);
}
