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

mod module;

use module::{Files, Module, Use, modules};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
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
fn reported(graph: &Graph) -> Vec<String> {
    let ring = |ring: &Vec<Import>| ring.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
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
        rings.extend(reported(&graph).into_iter().map(|ring| format!("{name}: {ring}")));
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
    assert_eq!(reported(&ring), [told_of]);
    let mended = made_up(&[
        ("lib.rs", "mod trial;"),
        (
            "trial.rs",
            "mod machine; mod outcome;\nuse machine::Machine;\npub use outcome::Broken;\nfn run() -> Broken { Machine::begin() }",
        ),
        ("trial/machine.rs", "use super::outcome::Broken;\npub struct Machine(Broken);"),
        ("trial/outcome.rs", "pub struct Broken;"),
    ]);
    assert_eq!(reported(&mended), [""; 0]);
    assert!(mended.has("trial.rs", "trial/machine.rs") && mended.has("trial/machine.rs", "trial/outcome.rs"));
}

#[test]
fn a_child_that_takes_by_way_of_its_parent_depends_on_it() {
    let lists = "mod a; mod kind;\npub use kind::Kind;\nconst ALL: [Kind; 1] = [a::KIND];";
    let child = "use super::Kind; pub const KIND: Kind = Kind;";
    let ring = made_up(&[("lib.rs", lists), ("a.rs", child), ("kind.rs", "pub struct Kind;")]);
    assert_eq!(reported(&ring), ["a.rs imports lib.rs (`super::Kind`), lib.rs imports a.rs (`a::KIND`)"]);
    // One that has the list and of which nothing is taken back is none; nor is one that only gives
    // names on.
    let child = "use super::kind::Kind; pub const KIND: Kind = Kind;";
    assert_eq!(reported(&made_up(&[("lib.rs", lists), ("a.rs", child), ("kind.rs", "pub struct Kind;")])), [""; 0]);
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
    assert_eq!(reported(&graph), [ring]);
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
    assert_eq!((reported(&graph).len(), graph.len()), (0, 1));
}

#[test]
fn a_type_called_its_methods_in_the_file_of_a_child() {
    let ends = "mod answered;\npub struct Ends;\nfn trial(ends: Ends) { ends.reflected(); ends.size(); }";
    let answered = "use super::Ends;\nimpl<'a> Ends { pub fn reflected(&self) {} pub fn size(&self) {} }";
    let other = "pub struct Order;\nimpl Order { pub fn size(&self) {} }";
    let graph = made_up(&[("lib.rs", ends), ("answered.rs", answered)]);
    assert_eq!(
        reported(&graph),
        ["answered.rs imports lib.rs (`super::Ends`), lib.rs imports answered.rs (`Ends::reflected`)"]
    );
    // Of a method that another type has as well it is not known.
    let ends = "mod answered; mod other;\npub struct Ends;\nfn trial(order: other::Order) { order.size(); }";
    assert_eq!(reported(&made_up(&[("lib.rs", ends), ("answered.rs", answered), ("other.rs", other)])), [""; 0]);
}

/// An import of one file by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    pub from: String,
    pub to: String,
    /// A path that names something there.
    pub by: String,
}

impl fmt::Display for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} imports {} (`{}`)", self.from, self.to, self.by)
    }
}

/// The imports of a crate.
pub struct Graph {
    /// By the file that imports, and the one that is imported.
    imports: BTreeMap<String, BTreeMap<String, String>>,
    /// Files that a `mod` leads to.
    pub files: BTreeSet<String>,
}

impl Graph {
    /// Of a crate whose root is this file.
    pub fn of(files: &Files, root: &str) -> Graph {
        let modules = modules(files, root);
        let mut graph =
            Graph { imports: BTreeMap::new(), files: modules.iter().map(|module| module.file.clone()).collect() };
        let names = Names { modules: &modules };
        for at in 0..modules.len() {
            for path in names.imports(at) {
                graph.named(&names, at, &path);
            }
            graph.methods(&names, at);
        }
        graph
    }

    /// How many imports there are.
    pub fn len(&self) -> usize {
        self.imports.values().map(BTreeMap::len).sum()
    }

    /// True if one file imports the other.
    pub fn has(&self, from: &str, to: &str) -> bool {
        self.imports.get(from).is_some_and(|of| of.contains_key(to))
    }

    fn add(&mut self, modules: &[Module], from: usize, to: usize, by: String) {
        let [from, to] = [from, to].map(|at| modules[at].file.clone());
        if from != to {
            self.imports.entry(from).or_default().entry(to).or_insert(by);
        }
    }

    /// What a path names is imported from the file that declares it. Whatever an ancestor only
    /// gives on is imported from that one too: so a child that takes by way of its parent depends
    /// on its parent.
    fn named(&mut self, names: &Names<'_>, at: usize, path: &[String]) {
        let mut through = Vec::new();
        if let Some(to) = names.declares(at, path, &mut BTreeSet::new(), &mut through) {
            self.add(names.modules, at, to, path.join("::"));
            for facade in through.into_iter().filter(|facade| names.is_below(at, *facade)) {
                self.add(names.modules, at, facade, path.join("::"));
            }
        }
    }

    /// A type whose methods are in several files: the one that declares it must not call those
    /// of another one. A method is known by its name alone, so one that several types have is not
    /// followed.
    fn methods(&mut self, names: &Names<'_>, at: usize) {
        let all = || names.modules.iter().flat_map(|module| &module.methods).flat_map(|of| &of.names);
        for methods in &names.modules[at].methods {
            let Some(declares) = names.declares(at, &methods.of, &mut BTreeSet::new(), &mut Vec::new()) else {
                continue;
            };
            for name in &methods.names {
                let is_one = all().filter(|other| *other == name).count() == 1;
                if is_one && names.modules[declares].methods_called.contains(name) {
                    self.add(names.modules, declares, at, format!("{}::{name}", methods.of.join("::")));
                }
            }
        }
    }

    /// The rings, of files that can all be reached from each other the shortest through the first
    /// of them.
    pub fn rings(&self) -> Vec<Vec<Import>> {
        let (mut rings, mut reported) = (Vec::new(), BTreeSet::new());
        for file in self.imports.keys() {
            if reported.contains(file) {
                continue;
            }
            if let Some(ring) = self.ring(file) {
                reported.extend(self.reached(file).into_iter().filter(|other| self.reached(other).contains(file)));
                rings.push(ring);
            }
        }
        rings
    }

    fn reached(&self, from: &str) -> BTreeSet<String> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(file) = open.pop() {
            let fresh = self.imports.get(&file).into_iter().flat_map(BTreeMap::keys);
            open.extend(fresh.filter(|file| reached.insert((*file).clone())).cloned());
        }
        reached
    }

    fn ring(&self, file: &str) -> Option<Vec<Import>> {
        let (mut open, mut seen) = (VecDeque::from([(file, Vec::new())]), BTreeSet::new());
        while let Some((at, way)) = open.pop_front() {
            for (to, by) in self.imports.get(at).into_iter().flatten() {
                let mut way: Vec<Import> = way.clone();
                way.push(Import { from: at.to_owned(), to: to.clone(), by: by.clone() });
                if to == file {
                    return Some(way);
                }
                if seen.insert(to) {
                    open.push_back((to, way));
                }
            }
        }
        None
    }
}

/// What names mean in each module.
struct Names<'a> {
    modules: &'a [Module],
}

/// Names that are being looked up already: two modules may give on each other's.
type Asked = BTreeSet<(usize, String)>;

impl Names<'_> {
    fn is_below(&self, at: usize, ancestor: usize) -> bool {
        std::iter::successors(Some(at), |at| self.modules[*at].parent).any(|at| at == ancestor)
    }

    fn root(&self, at: usize) -> usize {
        std::iter::successors(Some(at), |at| self.modules[*at].parent).last().unwrap_or(at)
    }

    /// The paths by which a module imports. To give a name on without naming it is no import, nor
    /// is the name of a module by itself: what follows it is.
    fn imports(&self, at: usize) -> Vec<Vec<String>> {
        let module = &self.modules[at];
        let is_import = |used: &&Use| match &used.name {
            Some(name) if used.is_public && !module.names.contains(name) => false,
            Some(name) => self.module(at, &used.path, &mut Asked::new()).is_none() || module.called.contains(name),
            None => true,
        };
        let mut paths: Vec<Vec<String>> = module.paths.clone();
        for used in module.uses.iter().filter(is_import) {
            paths.push(used.path.clone());
            if let (None, Some(of)) = (&used.name, self.module(at, &used.path, &mut Asked::new())) {
                // All that is there.
                let items = self.modules[of].items.iter();
                paths.extend(items.map(|item| [&used.path[..], std::slice::from_ref(item)].concat()));
            }
        }
        paths
    }

    /// The module of a name in a module.
    fn child(&self, at: usize, name: &str, asked: &mut Asked) -> Option<usize> {
        let module = &self.modules[at];
        module.children.get(name).copied().or_else(|| {
            let named = |used: &&Use| used.name.as_deref() == Some(name);
            module.uses.iter().filter(named).find_map(|used| {
                let fresh = asked.insert((at, used.path.join("::")));
                fresh.then(|| self.module(at, &used.path, asked)).flatten()
            })
        })
    }

    /// The module that a path leads to, if it leads to one.
    fn module(&self, at: usize, path: &[String], asked: &mut Asked) -> Option<usize> {
        path.iter().try_fold(at, |at, name| match name.as_str() {
            "crate" => Some(self.root(at)),
            "self" => Some(at),
            "super" => self.modules[at].parent,
            name => self.child(at, name, asked),
        })
    }

    /// The module that declares what a path names; `through` are those that give it on. What lies
    /// behind a declared name, as a variant or a function of a type, is where that is.
    fn declares(&self, at: usize, path: &[String], asked: &mut Asked, through: &mut Vec<usize>) -> Option<usize> {
        let mut at = at;
        for (n, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => at = self.root(at),
                "self" => {}
                "super" => at = self.modules[at].parent?,
                name => {
                    let child = if n + 1 < path.len() { self.child(at, name, &mut Asked::new()) } else { None };
                    match child {
                        Some(child) => at = child,
                        None => return self.item(at, name, asked, through),
                    }
                }
            }
        }
        None
    }

    fn item(&self, at: usize, name: &str, asked: &mut Asked, through: &mut Vec<usize>) -> Option<usize> {
        let module = &self.modules[at];
        if module.items.contains(name) {
            return Some(at);
        }
        for used in &module.uses {
            let path = match &used.name {
                Some(known) if known == name => used.path.clone(),
                Some(_) => continue,
                None => [&used.path[..], &[name.to_owned()]].concat(),
            };
            if asked.insert((at, path.join("::")))
                && let Some(found) = self.declares(at, &path, asked, through)
            {
                through.push(at);
                return Some(found);
            }
        }
        None
    }
}
