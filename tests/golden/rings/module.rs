// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modules of a crate as their files are written: what each declares, and every path that it
//! names. It reads tokens, so that comments and strings name nothing, and knows no types.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// A crate's files, by their path below `src`.
pub type Files = BTreeMap<String, String>;

/// A `use` of one name.
pub struct Use {
    pub path: Vec<String>,
    /// As what it is known; `None` for `*`.
    pub name: Option<String>,
    /// Others may name it through this module.
    pub is_public: bool,
}

/// Methods of a type that are written here.
pub struct Methods {
    pub of: Vec<String>,
    pub names: Vec<String>,
}

pub struct Module {
    /// Its file; that of an inline module is its parent's.
    pub file: String,
    pub parent: Option<usize>,
    pub children: BTreeMap<String, usize>,
    /// Names that it declares.
    pub items: BTreeSet<String>,
    pub uses: Vec<Use>,
    /// Paths of more than one name.
    pub paths: Vec<Vec<String>>,
    /// Names that stand by themselves.
    pub names: BTreeSet<String>,
    /// Those of them that are called.
    pub called: BTreeSet<String>,
    /// Methods that are called, of whatever type.
    pub methods_called: BTreeSet<String>,
    pub methods: Vec<Methods>,
}

impl Module {
    fn new(file: &str, parent: Option<usize>) -> Module {
        Module {
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            uses: Vec::new(),
            paths: Vec::new(),
            names: BTreeSet::new(),
            called: BTreeSet::new(),
            methods_called: BTreeSet::new(),
            methods: Vec::new(),
        }
    }
}

/// The modules of a crate whose root is this file, the root first.
pub fn modules(files: &Files, root: &str) -> Vec<Module> {
    let mut reader = Reader { files, modules: Vec::new() };
    reader.file(root, "", None);
    reader.modules
}

struct Reader<'a> {
    files: &'a Files,
    modules: Vec<Module>,
}

impl Reader<'_> {
    /// Reads a file whose children lie in `folder`.
    fn file(&mut self, file: &str, folder: &str, parent: Option<usize>) -> usize {
        let text = &self.files[file];
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        self.module(Module::new(file, parent), folder, tokens)
    }

    fn module(&mut self, module: Module, folder: &str, tokens: TokenStream) -> usize {
        let at = self.modules.len();
        self.modules.push(module);
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        self.declared(at, folder, &tokens);
        self.named(at, &tokens);
        at
    }

    /// What the module declares.
    fn declared(&mut self, at: usize, folder: &str, tokens: &[TokenTree]) {
        let mut here = 0;
        while here < tokens.len() {
            let word = word(&tokens[here]);
            let name = tokens.get(here + 1).and_then(self::word);
            match (word.as_deref(), name) {
                (Some("mod"), Some(name)) => {
                    let child = match tokens.get(here + 2) {
                        Some(TokenTree::Group(inside)) => {
                            let module = Module::new(&self.modules[at].file, Some(at));
                            self.module(module, &format!("{folder}{name}/"), inside.stream())
                        }
                        _ => {
                            let places = [format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs")];
                            let file = places.into_iter().find(|place| self.files.contains_key(place));
                            let file = file.unwrap_or_else(|| panic!("no file of module {folder}{name}"));
                            self.file(&file, &format!("{folder}{name}/"), Some(at))
                        }
                    };
                    self.modules[at].children.insert(name, child);
                    here += 3;
                }
                (Some("impl"), _) => here = self.methods(at, tokens, here + 1),
                (Some("fn" | "struct" | "enum" | "trait" | "type" | "const" | "static"), Some(name)) => {
                    // `const fn` has its name one word further on.
                    if name != "fn" {
                        self.modules[at].items.insert(name);
                    }
                    here += 1;
                }
                _ => here += 1,
            }
        }
    }

    /// The methods of an `impl` without a trait; returns where it ends.
    fn methods(&mut self, at: usize, tokens: &[TokenTree], from: usize) -> usize {
        let is_body =
            |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let end = (from..tokens.len()).find(|at| is_body(&tokens[*at])).unwrap_or(tokens.len());
        let head = &tokens[from..end];
        if let (false, Some(TokenTree::Group(body))) =
            (head.iter().any(|token| word(token).as_deref() == Some("for")), tokens.get(end))
        {
            let start = behind_generics(head);
            let inside: Vec<TokenTree> = body.stream().into_iter().collect();
            let names = inside.windows(2).filter(|pair| word(&pair[0]).as_deref() == Some("fn"));
            let names = names.filter_map(|pair| word(&pair[1])).collect();
            self.modules[at].methods.push(Methods { of: path(head, start).0, names });
        }
        end + 1
    }

    /// What the module names: not what the modules inside it do.
    fn named(&mut self, at: usize, tokens: &[TokenTree]) {
        let mut here = 0;
        while here < tokens.len() {
            let is_dot = |at: Option<usize>| at.is_some_and(|at| punct(&tokens[at]) == Some('.'));
            match &tokens[here] {
                TokenTree::Group(group) => {
                    self.named(at, &group.stream().into_iter().collect::<Vec<_>>());
                    here += 1;
                }
                TokenTree::Ident(ident) if ident == "use" => {
                    let end = (here..tokens.len()).find(|at| punct(&tokens[*at]) == Some(';')).unwrap_or(tokens.len());
                    let is_public = is_public(&tokens[..here]);
                    self.used(at, &tokens[here + 1..end], &[], is_public);
                    here = end;
                }
                TokenTree::Ident(ident) if ident == "mod" => here += 3,
                TokenTree::Ident(name) if is_dot(here.checked_sub(1)) && !is_dot(here.checked_sub(2)) => {
                    self.modules[at].methods_called.insert(name.to_string());
                    here += 1;
                }
                TokenTree::Ident(_) => {
                    let (path, end) = path(tokens, here);
                    let module = &mut self.modules[at];
                    match &path[..] {
                        [name] => {
                            let calls = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis);
                            if tokens.get(end).is_some_and(calls) {
                                module.called.insert(name.clone());
                            }
                            module.names.insert(name.clone());
                        }
                        [own, method] if own == "Self" => _ = module.methods_called.insert(method.clone()),
                        _ => module.paths.push(path),
                    }
                    here = end;
                }
                _ => here += 1,
            }
        }
    }

    /// The names of a `use`, below a prefix.
    fn used(&mut self, at: usize, tokens: &[TokenTree], prefix: &[String], is_public: bool) {
        for one in tokens.split(|token| punct(token) == Some(',')) {
            let (path, end) = path(one, 0);
            let whole = [prefix, &path[..]].concat();
            match one.get(end) {
                Some(TokenTree::Group(inside)) => {
                    let inside: Vec<TokenTree> = inside.stream().into_iter().collect();
                    self.used(at, &inside, &whole, is_public);
                }
                Some(star) if punct(star) == Some('*') => {
                    self.modules[at].uses.push(Use { path: whole, name: None, is_public });
                }
                renamed => {
                    let is_self = whole.last().is_some_and(|name| name == "self");
                    let whole = if is_self { whole[..whole.len() - 1].to_vec() } else { whole };
                    let name = renamed.and(one.get(end + 1)).and_then(word).or_else(|| whole.last().cloned());
                    if !whole.is_empty() {
                        self.modules[at].uses.push(Use { path: whole, name, is_public });
                    }
                }
            }
        }
    }
}

fn word(token: &TokenTree) -> Option<String> {
    if let TokenTree::Ident(ident) = token { Some(ident.to_string()) } else { None }
}

fn punct(token: &TokenTree) -> Option<char> {
    if let TokenTree::Punct(punct) = token { Some(punct.as_char()) } else { None }
}

/// True if what stands before `use` is `pub`, however far.
fn is_public(before: &[TokenTree]) -> bool {
    match before {
        [.., word, TokenTree::Group(_)] => self::word(word).as_deref() == Some("pub"),
        [.., word] => self::word(word).as_deref() == Some("pub"),
        [] => false,
    }
}

/// The path that begins at `from`, up to what is no name or `::`; with where that is.
fn path(tokens: &[TokenTree], from: usize) -> (Vec<String>, usize) {
    let (mut names, mut here) = (Vec::new(), from);
    let is_colon = |at: usize| tokens.get(at).is_some_and(|token| punct(token) == Some(':'));
    loop {
        match tokens.get(here).and_then(word) {
            Some(name) => names.push(name),
            None => return (names, here),
        }
        here += 1;
        if !(is_colon(here) && is_colon(here + 1)) {
            return (names, here);
        }
        here += 2;
    }
}

/// Where the type of an `impl` begins.
fn behind_generics(head: &[TokenTree]) -> usize {
    let mut depth = 0;
    for (at, token) in head.iter().enumerate() {
        match punct(token) {
            Some('<') => depth += 1,
            Some('>') => depth -= 1,
            _ if depth == 0 => return at,
            _ => {}
        }
    }
    head.len()
}
