// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which file of a crate imports from which, and whether there is a ring among them.

use super::module::{Files, Module, Use, modules};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

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
        let (mut rings, mut told) = (Vec::new(), BTreeSet::new());
        for file in self.imports.keys() {
            if told.contains(file) {
                continue;
            }
            if let Some(ring) = self.ring(file) {
                told.extend(self.reached(file).into_iter().filter(|other| self.reached(other).contains(file)));
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
