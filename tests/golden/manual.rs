// SPDX-License-Identifier: MIT OR Apache-2.0
//! The manual is true: its links lead somewhere, its experiments load, its commands exist, and its
//! reference knows every key, field, exit code and verdict. The experiments of tests are all read.

use crate::help;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tardy_analyze::validity::RULES;
use tardy_model::schema;
use tardy_spec::schema::KEYS;
use tardy_spec::{READY_MADE, Reason, Source, load, ready_made};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

/// Every document: those at the top, and all below docs/.
fn documents() -> BTreeMap<PathBuf, String> {
    let mut folders = vec![root().join("docs")];
    let top = fs::read_dir(root()).expect("the repository").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> = top.filter(|path| path.is_file()).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    assert!(found.len() > 20, "only {} documents were found", found.len());
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).expect("text"))).collect()
}

/// A fenced block: the words after its fence, and its text.
struct Block {
    info: Vec<String>,
    text: String,
}

impl Block {
    fn is(&self, language: &str) -> bool {
        self.info.first().is_some_and(|word| word == language)
    }

    /// What it waits for: a word or a verb that is not built yet.
    fn awaits(&self) -> Option<&str> {
        self.info.iter().find_map(|word| word.strip_prefix("awaits="))
    }
}

/// A document's blocks, and what stands outside of them.
fn split(text: &str) -> (Vec<Block>, String) {
    let (mut blocks, mut prose) = (Vec::<Block>::new(), String::new());
    let mut inside = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(info) => {
                inside = true;
                blocks.push(Block { info: info.split_whitespace().map(str::to_owned).collect(), text: String::new() });
            }
            None if inside => blocks.last_mut().expect("one was opened").text += &format!("{line}\n"),
            None => prose += &format!("{line}\n"),
        }
    }
    assert!(!inside, "a block is not closed:\n{text}");
    (blocks, prose)
}

/// Heading to anchor, as renderers make it: small letters, no punctuation, blanks as hyphens.
fn slug(heading: &str) -> String {
    let kept =
        heading.trim().to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    kept.replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    split(text).1.lines().filter_map(|line| Some(slug(line.strip_prefix('#')?.trim_start_matches('#')))).collect()
}

/// Where the links of prose lead.
fn links(prose: &str) -> Vec<String> {
    // Text in backquotes is no link.
    let plain: String = prose.split('`').step_by(2).collect();
    plain.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    let mut seen = 0;
    for (path, text) in &documents {
        for link in links(&split(text).1).iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = if file.is_empty() { path.clone() } else { path.parent().expect("a folder").join(file) };
            assert!(to.exists(), "{}: `{link}` leads nowhere", path.display());
            if !anchor.is_empty() {
                let target = fs::read_to_string(&to).expect("a document");
                assert!(anchors(&target).contains(anchor), "{}: `{link}`: no such heading", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 80, "only {seen} links were found");
}

/// A document may link to a file that only the repository has: then the book is built without it.
#[test]
fn the_book_had_no_page_for_a_file_that_a_chapter_links_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let book = folder.path().join("book");
    let tardy = fs::canonicalize(help::tardy()).expect("the program");
    let mut gather = Command::new(root().join("packaging/book.sh"));
    let gathered = gather.arg("gather").arg(&book).env("TARDY", tardy).output().expect("a shell");
    assert!(gathered.status.success(), "{gathered:?}");
    let source = fs::canonicalize(book.join("src")).expect("what was gathered");
    let mut seen = 0;
    for path in documents().into_keys() {
        let here = source.join(path.strip_prefix(root()).expect("a document of the repository"));
        // The summary becomes the book's list of chapters.
        let Ok(text) = fs::read_to_string(&here) else { continue };
        for link in links(&split(&text).1).iter().filter(|link| !link.contains("://")) {
            let file = link.split('#').next().unwrap_or(link);
            if file.is_empty() || file.ends_with("toc.html") {
                continue;
            }
            let to = here.parent().expect("a folder").join(file.replace("index.md", "README.md"));
            let there = fs::canonicalize(&to).is_ok_and(|to| to.starts_with(&source));
            assert!(there, "{}: the book lacks `{link}`; packaging/book.sh gathers it", path.display());
            seen += 1;
        }
    }
    assert!(seen > 80, "only {seen} links were found");
}

#[test]
fn a_broken_link_fails_the_book() {
    let folder = tempfile::tempdir().expect("a folder");
    let links = |last: &str| {
        format!("<h1 id=\"top\">a</h1>\n{}<a href=\"{last}\">", "<a href=\"b/c.html#deep\">\n".repeat(100))
    };
    fs::create_dir(folder.path().join("b")).expect("a folder");
    fs::write(folder.path().join("b/c.html"), "<a href=\"../a.html#top\"><h2 id=\"deep\">").expect("written");
    let check = |last: &str| {
        fs::write(folder.path().join("a.html"), links(last)).expect("written");
        let script = root().join("packaging/book.sh");
        let files = ["./a.html", "./b/c.html"];
        let output =
            Command::new(script).arg("links").args(files).current_dir(folder.path()).output().expect("a shell");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for good in ["b/c.html", "#top", "https://example.org/none", "b/../a.html#top"] {
        assert_eq!(check(good), (true, String::new()), "{good}");
    }
    for (bad, why) in [
        ("b/d.html", "no such page"),
        ("#none", "no such place"),
        ("b/c.html#none", "no such place"),
        ("../x", "no such page"),
    ] {
        let (passed, said) = check(bad);
        assert!(!passed && said.contains(why) && said.contains(bad), "{bad}: {said}");
    }
}

#[test]
fn every_document_is_a_chapter() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the summary");
    let listed: BTreeSet<PathBuf> =
        links(&summary).iter().map(|link| root().join("docs").join(link).canonicalize().expect("it exists")).collect();
    for path in documents().keys().filter(|path| !path.ends_with("SUMMARY.md")) {
        let path = path.canonicalize().expect("it exists");
        assert!(listed.contains(&path), "{} is not in docs/SUMMARY.md", path.display());
    }
}

/// What a part of an experiment is put after.
const WHOLE: &str = tardy_tests::part("stream from a to b");

#[test]
fn experiments_in_documents_load() {
    let mut seen = 0;
    for (path, text) in documents() {
        let mut before = String::new();
        for block in split(&text).0.iter().filter(|block| block.is("toml")) {
            let text = match block.info.get(1).map(String::as_str) {
                Some("part") => format!("{WHOLE}{}", block.text),
                Some("more") => format!("{before}{}", block.text),
                _ => block.text.clone(),
            };
            before.clone_from(&text);
            let loaded = load(&Source { name: path.display().to_string(), text }, &[]);
            match (block.awaits(), loaded) {
                (None, Ok(_)) => seen += 1,
                (None, Err(error)) => panic!("{}\n{}", error.one_line(), block.text),
                (Some(word), Ok(_)) => panic!("{}: `{word}` is built: take `awaits={word}` off", path.display()),
                (Some(word), Err(error)) => {
                    assert!(
                        error.reason == Reason::UnknownKey && block.text.contains(word),
                        "{}\n{}",
                        error.one_line(),
                        block.text
                    );
                }
            }
        }
    }
    assert!(seen >= 5, "only {seen} experiments were found");
}

#[test]
fn an_experiment_of_tests_was_kept_that_none_reads() {
    let mut files = Vec::new();
    crate::crates::sources(&root().join("tests"), &mut files);
    let mut read = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("source");
        // In two parts, for this file is read too.
        for call in [concat!("tardy_tests", "::experiment("), concat!("tardy_tests", "::part(")] {
            let calls = text.split(call).skip(1);
            let quoted = calls.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split_once('"'));
            read.extend(quoted.map(|(name, _)| name.to_owned()));
        }
    }
    let kept = tardy_tests::experiments();
    let names: BTreeSet<String> = kept.iter().map(|(name, _)| (*name).to_owned()).collect();
    let (unread, missing): (Vec<_>, Vec<_>) = (names.difference(&read).collect(), read.difference(&names).collect());
    assert!(unread.is_empty(), "tests/data has experiments that no test reads; remove them: {unread:?}");
    assert!(missing.is_empty(), "tests read experiments that tests/data does not have: {missing:?}");
    assert_eq!(kept.len(), names.len(), "an experiment hides another one of its name");
    for (name, text) in kept {
        // `frames` was the beginning of another section's name.
        let without = text.split_inclusive('\n').skip_while(|line| line.starts_with('#')).collect::<String>();
        assert_eq!(tardy_tests::part(name), without, "the part `{name}`");
        assert!(text.starts_with("# "), "`{name}` has no line that says what it is for");
        assert!(text.ends_with('\n'), "a line that a test adds to `{name}` would continue its last one");
    }
}

/// Two tables in one string, or a station, or where a stream or a load leads: what an experiment
/// needs, and what a test of a single key does not write.
#[test]
fn experiments_of_tests_were_strings_in_their_source() {
    let mut files = Vec::new();
    crate::crates::sources(&root().join("tests"), &mut files);
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("source");
        for (line, n) in text.lines().zip(1..) {
            let is_head = line.contains(concat!("[station.a]", "\\n")) || line.contains(concat!("[station.b]", "\\n["));
            let leads = concat!("\\\"a\\\"", "\\nto = ");
            let back = concat!("\\\"b\\\"", "\\nto = ");
            if is_head || line.contains(leads) || line.contains(back) {
                found.push(format!("{}:{n}: {}", file.display(), line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "write these into tests/data/experiments.txt: {found:#?}");
}

/// Calls of tardy in a piece of shell or in backquotes: the word after it, and the flags up to the
/// end of the command.
fn calls(code: &str) -> Vec<(String, Vec<String>)> {
    let joined = code.replace("\\\n", " ");
    let mut found = Vec::new();
    for line in joined.lines() {
        let line = line.split(" #").next().unwrap_or_default();
        for command in line.split(['|', ';', '(', ')', '&', '>']) {
            let mut words = command.split_whitespace().skip_while(|word| matches!(*word, "sudo" | "do" | "then"));
            if words.next().is_some_and(|word| matches!(word, "tardy" | "dist/tardy"))
                && let Some(verb) = words.next()
            {
                let flag = |word: &str| word.split('=').next().unwrap_or_default().trim_matches('"').to_owned();
                let flags = words.filter(|word| word.starts_with('-') && word.len() > 1).map(flag);
                let flags = flags.filter(|flag| flag.chars().any(char::is_alphabetic)).collect();
                found.push((verb.to_owned(), flags));
            }
        }
    }
    found
}

#[test]
fn commands_in_documents_exist() {
    let verbs = help::verbs();
    let mut seen = 0;
    for (path, text) in documents() {
        let (blocks, prose) = split(&text);
        let shell = blocks.iter().filter(|block| block.is("sh")).map(|block| (block.text.as_str(), block.awaits()));
        let inline = prose.split('`').skip(1).step_by(2).map(|code| (code, None));
        // In a block that shows what a command prints, the command follows a `$`.
        let shown = blocks.iter().filter(|block| block.is("text")).flat_map(|block| block.text.lines());
        let shown = shown.filter_map(|line| Some((line.strip_prefix("$ ")?, None)));
        for (code, awaits) in shell.chain(inline).chain(shown) {
            for (verb, flags) in calls(code) {
                let known = verbs.get(&verb);
                if let Some(awaited) = awaits.filter(|awaited| **awaited == verb) {
                    assert!(known.is_none(), "{}: `{awaited}` is built: take `awaits={awaited}` off", path.display());
                    continue;
                }
                let general = ["--help", "-h", "help", "--version", "-V"];
                if general.contains(&verb.as_str()) || verb.chars().any(char::is_uppercase) || verb == "…" {
                    continue;
                }
                let known = known.unwrap_or_else(|| panic!("{}: tardy has no verb `{verb}`: {code}", path.display()));
                for flag in flags {
                    let there = known.contains(&flag) || general[..2].contains(&flag.as_str());
                    assert!(there, "{}: `tardy {verb}` has no `{flag}`: {code}", path.display());
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "only {seen} commands were found");
}

#[test]
fn the_reference_knows_every_key_field_code_and_verdict() {
    let chapters = help::written("--reference");
    let experiment = &chapters["experiment.md"];
    for key in KEYS {
        let named = match key.pattern.strip_suffix(".*") {
            Some(table) => format!("`{}.METRIC`", table.replace('*', "NAME")),
            None => format!("`{}`", key.pattern.replace('*', "NAME")),
        };
        assert!(experiment.contains(&named), "{named}");
    }
    let mut fields = 0;
    let schemas = [("results.md", schema::results()), ("manifest.md", schema::manifest())];
    for (file, schema) in schemas {
        let definitions = schema["$defs"].as_object().expect("definitions");
        for object in definitions.values().chain([&schema]) {
            for name in object["properties"].as_object().into_iter().flat_map(|properties| properties.keys()) {
                assert!(chapters[file].contains(&format!("| `{name}` |")), "{file}: {name}");
                fields += 1;
            }
        }
    }
    assert!(fields > 80, "only {fields} fields were looked at");
    for code in ["0", "1", "2", "3", "4", "5", "130"] {
        assert!(chapters["exit-codes.md"].contains(&format!("\n| {code} | ")), "{code}");
    }
    for rule in RULES {
        let row = chapters["verdicts.md"].lines().find(|line| line.starts_with(&format!("| [`{}`]", rule.id)));
        let row = row.unwrap_or_else(|| panic!("{} has no row", rule.id));
        let fields: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert!(
            fields.len() == 4 && !fields[1].is_empty(),
            "docs/method/validity.md gives no weight to {}: {row}",
            rule.id
        );
        assert!(fields[3].ends_with('.') || fields[3].ends_with(':'), "{row}");
    }
    for (file, title) in chapters["SUMMARY.md"]
        .lines()
        .map(|line| line.split_once("](").expect("a link"))
        .map(|(title, file)| (file, title))
    {
        assert!(chapters.contains_key(file.trim_end_matches(')')), "{title}");
    }
}

#[test]
fn no_verdict_is_given_that_the_reference_does_not_know() {
    let reference = &help::written("--reference")["verdicts.md"];
    let mut folders: Vec<PathBuf> = ["crates/analyze/src", "crates/cli/src"].map(|folder| root().join(folder)).into();
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("source");
            for id in text.split("Verdict::new(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(reference.contains(&format!("`{id}`")), "{}: `{id}` is not in the reference", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 5, "only {seen} verdicts were found");
}

#[test]
fn a_shortening_that_a_ready_made_experiment_suggests_shortens_every_stream() {
    let mut seen = 0;
    for (name, text) in READY_MADE {
        let source = ready_made(name).expect("listed");
        let whole = load(&source, &[]).expect("it loads");
        for line in text.lines().filter(|line| line.starts_with("#   tardy run") && line.contains(".count=")) {
            let words = line.split_whitespace().zip(line.split_whitespace().skip(1));
            let set = words.filter(|(word, value)| *word == "--set" && value.contains('='));
            let sets: Vec<String> = set.map(|(_, value)| value.to_owned()).collect();
            let short = load(&source, &sets).unwrap_or_else(|error| panic!("{line}: {}", error.one_line()));
            for (one, other) in whole.cells.iter().zip(&short.cells) {
                for (before, after) in one.setup.streams.iter().zip(&other.setup.streams) {
                    assert!(after.count < before.count, "{line}: {} goes on as long", after.name);
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn no_document_calls_a_wakeup_late_that_is_ahead_by_the_advance() {
    // The places that say what the row is. Layer sim checks that it is so
    // (`advance_and_spin_aim_before_the_instant`).
    for (path, row) in [
        ("README.md", "| `scheduled..wakeup` |"),
        ("docs/table.md", "| `scheduled..wakeup` |"),
        ("docs/tutorial.md", "- `scheduled..wakeup` "),
        ("docs/glossary.md", "| advance |"),
        ("docs/method/points.md", "| `wakeup` |"),
        ("docs/method/ruler.md", "- **timer error p99**"),
    ] {
        let text = fs::read_to_string(root().join(path)).expect("a document");
        let from = text.find(row).unwrap_or_else(|| panic!("{path} has no {row}"));
        // To the end of the row, or of the item of a list.
        let behind = &text[from + 1..];
        let said = &behind[..behind.find("\n|").into_iter().chain(behind.find("\n- ")).min().unwrap_or(behind.len())];
        assert!(said.contains("advance") && said.contains("scheduled..wakeup"), "{path}: {said}");
    }
}
