// SPDX-License-Identifier: MIT OR Apache-2.0
//! Documents and comments are plain English that fits on a screen: how wide their lines are, which
//! phrases have a plainer replacement, and which doc comments are too short to say anything.
//!
//! `tests/data/prose.txt` lists the phrases, and counts what is left to do. The counts may only
//! shrink.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tardy_tests::section;

/// The most columns of a line of prose.
const WIDTH: usize = 100;
/// A doc comment of at most this number of words seldom says more than the name below it.
const FEW_WORDS: usize = 3;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

/// All files below a folder with this ending.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        // What npm brings is not ours.
        if path.is_dir() && path.file_name().is_some_and(|name| name == "node_modules" || name == "target") {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found
}

/// The documents, by their names from the root.
fn documents() -> BTreeMap<String, String> {
    let mut paths = files(&root().join("docs"), "md");
    paths.extend(["README", "CONTRIBUTING", "ARCHITECTURE", "CHANGELOG"].map(|name| root().join(format!("{name}.md"))));
    let named = |path: &PathBuf| path.strip_prefix(root()).expect("below the root").display().to_string();
    paths.iter().map(|path| (named(path), fs::read_to_string(path).expect("text"))).collect()
}

/// Endings of files with comments, and what a whole line of comment begins with.
const KINDS: [(&str, &[&str]); 8] = [
    ("rs", &[]),
    ("js", &[]),
    ("toml", &["# "]),
    ("sh", &["# "]),
    ("py", &["# "]),
    ("c", &["/* ", "* "]),
    ("h", &["/* ", "* "]),
    ("css", &["/* ", "* "]),
];

/// The source files of each part of the repository: `crates/<name>`, `tests`, the experiments, the
/// Python package, and what builds, measures and fuzzes. A whole line of comment is one as Rust has
/// it.
fn sources() -> BTreeMap<String, Vec<String>> {
    let mut parts =
        ["tests", "experiments", "packaging", "benches", "fuzz", "python"].map(|part| root().join(part)).to_vec();
    parts.extend(fs::read_dir(root().join("crates")).expect("crates").map(|entry| entry.expect("an entry").path()));
    let named = |path: &PathBuf| path.strip_prefix(root()).expect("below the root").display().to_string();
    let read = |path: &PathBuf, marks: &[&str]| as_rust(&fs::read_to_string(path).expect("source"), marks);
    let all = |part: &PathBuf| {
        let of_kind = |(ending, marks): &(&str, &[&str])| -> Vec<String> {
            files(part, ending).iter().map(|path| read(path, marks)).collect()
        };
        KINDS.iter().flat_map(of_kind).collect::<Vec<_>>()
    };
    let builds = ["Makefile", ".ci/run"].map(|name| (name.to_owned(), vec![read(&root().join(name), &["# "])]));
    parts.iter().map(|part| (named(part), all(part))).chain(builds).collect()
}

/// The text with whole lines of comment as in Rust. An example of a command, which is indented, is
/// none.
fn as_rust(text: &str, marks: &[&str]) -> String {
    // A long string that goes on, and whether it is a comment.
    let mut inside = None;
    let line = |line: &str| {
        let start = line.trim_start();
        // Python's long strings are comments too, and what other languages quote otherwise is a
        // message.
        let (marked, had) = (start.matches("\"\"\"").count(), inside);
        if marks.contains(&"# ") && marked % 2 == 1 {
            inside = if had.is_some() { None } else { Some(start.starts_with("\"\"\"")) };
        }
        if marks.contains(&"# ") && had.unwrap_or_else(|| start.starts_with("\"\"\"")) {
            return format!("//{}", start.replace("\"\"\"", ""));
        }
        let line = if start.starts_with("@echo '") { line.replace('\'', "\"") } else { line.to_owned() };
        let start = line.trim_start();
        let comment = marks.iter().find_map(|mark| start.strip_prefix(mark)).filter(|words| !words.starts_with(' '));
        comment.map_or_else(|| line.clone(), |words| format!("{}//{words}", &line[..line.len() - start.len()]))
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A document's lines that are prose: no code block, no table, no heading.
fn prose(text: &str) -> Vec<&str> {
    let mut inside = false;
    let is_prose = |line: &&str| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence && !line.starts_with(['|', '#'])
    };
    text.lines().filter(is_prose).collect()
}

/// A line that is too wide and could be broken. One word, or a single link, cannot be.
fn is_wide(line: &str) -> bool {
    let words = line.trim_start().trim_start_matches(['-', '*', '/', '!', ' ']);
    let is_link = words.starts_with('[') && words.ends_with(')') && words.matches("](").count() == 1;
    line.chars().count() > WIDTH && words.contains(' ') && !is_link && !line.starts_with("![")
}

fn is_comment(line: &&str) -> bool {
    line.trim_start().starts_with("//")
}

/// The text of a line of a doc comment.
fn doc(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("///")
}

/// The doc comments of a source file that have few words, each over all of its lines.
fn short_docs(source: &str) -> Vec<String> {
    let lines: Vec<&str> = source.lines().collect();
    let blocks = lines.chunk_by(|a, b| doc(a).is_some() == doc(b).is_some()).filter(|block| doc(block[0]).is_some());
    let words = blocks.map(|block| block.iter().filter_map(|line| doc(line)).flat_map(str::split_whitespace));
    let few = words.map(Iterator::collect::<Vec<_>>).filter(|words| words.len() <= FEW_WORDS);
    few.map(|words| words.join(" ")).collect()
}

/// The prose of a text, in small letters with single blanks: without code in backquotes and without
/// the targets of links.
fn plain(text: &str) -> String {
    let pieces: Vec<&str> = text.split('`').collect();
    // A single backquote, as of a message in parts, encloses nothing.
    let is_paired = pieces.len() % 2 == 1;
    let words = if is_paired { pieces.into_iter().step_by(2).collect::<Vec<_>>().join(" ") } else { text.to_owned() };
    let mut parts = words.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    let told = parts.fold(first, |told, part| told + "] " + part.split_once(')').map_or("", |(_, rest)| rest));
    told.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How often a phrase is in a text that went through [`plain`], as whole words.
fn occurrences(text: &str, phrase: &str) -> usize {
    let is_edge = |letter: Option<char>| !letter.is_some_and(char::is_alphanumeric);
    let apart =
        |at: &usize| is_edge(text[..*at].chars().next_back()) && is_edge(text[at + phrase.len()..].chars().next());
    text.match_indices(phrase).map(|(at, _)| at).filter(apart).count()
}

/// A part of the file that this test goes by.
fn data(name: &str) -> &'static str {
    section(include_str!("../data/prose.txt"), name)
}

/// The phrases and their replacements.
fn phrases() -> Vec<(String, String)> {
    let rows = data("phrases").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pair = |line: &str| line.split_once(" → ").map(|(a, b)| (a.to_owned(), b.to_owned()));
    rows.map(|line| pair(line).unwrap_or_else(|| panic!("`{line}` has no replacement"))).collect()
}

/// The comments of a source file, and its messages: pieces between quotes that contain a blank. A
/// string that a backslash continues on the next line is one piece.
fn words_of(source: &str) -> String {
    // A backslash that stands for itself escapes nothing, and a quote within a string ends nothing.
    let source = source.replace("\\\\", "").replace("\\\"", "'").replace("'\"'", "' '");
    let (mut words, mut comment, mut begun) = (Vec::new(), String::new(), String::new());
    for line in source.lines() {
        if begun.is_empty() && is_comment(&line) {
            comment += line.trim_start().trim_start_matches(['/', '!']);
            comment.push(' ');
            continue;
        }
        words.push(std::mem::take(&mut comment));
        begun += if begun.is_empty() { line } else { line.trim_start() };
        if begun.ends_with('\\') {
            begun.pop();
            continue;
        }
        let pieces = begun.split('"').skip(1).step_by(2).filter(|piece| piece.contains(' '));
        words.extend(pieces.map(str::to_owned));
        begun.clear();
    }
    words.push(comment);
    // Each by itself: a single backquote in one hides nothing of the next.
    let plain: Vec<String> = words.iter().map(|text| plain(text)).filter(|text| !text.is_empty()).collect();
    plain.join("\n")
}

/// What is left to do: lines of `KIND WHERE COUNT`.
fn left() -> BTreeMap<(String, String), usize> {
    let rows = data("left").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let [kind, place, count] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{line}") };
        ((kind.to_owned(), place.to_owned()), count.parse().expect("a count"))
    };
    rows.map(row).collect()
}

/// Compares counts with those that are left. With `exact`, a count that has shrunk is an error
/// too, so that it cannot grow again.
fn compare(kind: &str, counts: &BTreeMap<String, usize>, exact: bool, advice: &str) {
    let left = left();
    let allowed = |place: &String| left.get(&(kind.to_owned(), place.clone())).copied().unwrap_or(0);
    let wrong = |(place, count): &(&String, &usize)| {
        if exact { **count != allowed(place) } else { **count > allowed(place) }
    };
    let told: Vec<String> = counts
        .iter()
        .filter(wrong)
        .map(|(place, count)| format!("{place} has {count}, and tests/data/prose.txt says {}", allowed(place)))
        .collect();
    let rows = counts.iter().filter(|(_, count)| **count > 0);
    let rows: Vec<String> = rows.map(|(place, count)| format!("{kind} {place} {count}")).collect();
    let new = rows.join("\n");
    assert!(told.is_empty(), "{}\n{advice}\nIf a count has shrunk, write the new ones:\n{new}", told.join("\n"));
    let gone = left.keys().find(|(of, place)| of == kind && !counts.contains_key(place));
    assert!(gone.is_none(), "tests/data/prose.txt counts {gone:?}, which does not exist");
}

#[test]
fn lines_of_documents_fit_on_a_screen() {
    let wide = |text: &String| prose(text).into_iter().filter(|line| is_wide(line)).count();
    let counts = documents().iter().map(|(name, text)| (name.clone(), wide(text))).collect();
    compare("wide-lines", &counts, false, "Break lines of prose before column 100.");
}

#[test]
fn the_readme_is_no_longer_than_what_one_reads_at_once() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("a README");
    assert!(text.lines().count() <= 150, "{} lines", text.lines().count());
    // Tables and output too.
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 100).collect();
    assert!(wide.is_empty(), "{wide:#?}");
}

#[test]
fn lines_of_comments_fit_on_a_screen() {
    let wide = |files: &Vec<String>| {
        files.iter().flat_map(|text| text.lines()).filter(is_comment).filter(|line| is_wide(line)).count()
    };
    let counts = sources().iter().map(|(part, files)| (part.clone(), wide(files))).collect();
    compare("wide-comments", &counts, true, "Break comments before column 100.");
}

#[test]
fn no_document_has_a_phrase_that_has_a_plainer_one() {
    let phrases = phrases();
    assert!(phrases.len() > 20, "only {} phrases", phrases.len());
    let mut counts = BTreeMap::new();
    let mut found = String::new();
    for (name, text) in documents() {
        // Tables and headings are prose here; only code blocks are not.
        let outside: Vec<&str> = text.split("\n```").step_by(2).collect();
        let words = plain(&outside.join("\n"));
        let mut count = 0;
        for (phrase, instead) in &phrases {
            let here = occurrences(&words, phrase);
            if here > 0 {
                found += &format!("{name}: {here} × `{phrase}` → {instead}\n");
            }
            count += here;
        }
        counts.insert(name, count);
    }
    compare("phrases-in-documents", &counts, false, &found);
}

#[test]
fn comments_and_messages_take_to_plainer_phrases() {
    let phrases = phrases();
    // Each file by itself: in which order a folder lists its files must not matter.
    let mut found = String::new();
    let mut counts = BTreeMap::new();
    for (part, files) in sources() {
        let count = counts.entry(part.clone()).or_insert(0);
        for words in files.iter().map(|text| words_of(text)) {
            for (phrase, instead) in &phrases {
                *count += occurrences(&words, phrase);
                let lines = words.lines().filter(|line| occurrences(line, phrase) > 0);
                found.extend(lines.map(|line| format!("{part}: `{phrase}` → {instead}: {line}\n")));
            }
        }
    }
    compare("phrases-in-code", &counts, true, &found);
}

#[test]
fn doc_comments_say_more_than_a_name() {
    let advice =
        "Leave a doc comment out, or write what the name does not say: a unit, a range, when there is nothing.";
    let mut found = String::new();
    let mut counts = BTreeMap::new();
    for (part, files) in sources() {
        let short: Vec<String> = files.iter().flat_map(|text| short_docs(text)).collect();
        found.extend(short.iter().map(|comment| format!("{part}: /// {comment}\n")));
        counts.insert(part, short.len());
    }
    compare("short-docs", &counts, true, &format!("{advice}\n{found}"));
}

#[test]
fn a_doc_comment_counts_over_all_of_its_lines() {
    assert_eq!(short_docs("/// A key.\nlet a;\n    /// One two\n    /// three four.\nb\n// No doc.\n"), ["A key."]);
    assert_eq!(short_docs("//! Of a file.\n/// One two\n///\n/// three.\n#[a]\nb /// c"), ["One two three."]);
}

#[test]
fn what_is_code_and_where_a_link_leads_is_no_prose() {
    assert_eq!(plain("It `tells` [of\n  it](of/tells.md) here"), "it [of it] here");
    assert_eq!(occurrences("untie the tie, the tied", "the tie"), 1);
    assert_eq!(words_of("/// The tie\nlet a = \"x y\" + \"z\";"), "the tie\nx y");
    assert_eq!(as_rust("a = 1\n  # The tie\n#   tardy run", &["# "]), "a = 1\n  //The tie\n#   tardy run");
    assert_eq!(
        as_rust("\"\"\"The tie\nof it.\"\"\"\n\t@echo 'it tells'", &["# "]),
        "//The tie\n//of it.\n\t@echo \"it tells\""
    );
    assert_eq!(prose("a\n```\nb\n```\n| c |\n# d\ne"), ["a", "e"]);
    assert!(is_wide(&"ab ".repeat(40)) && !is_wide(&"ab".repeat(60)));
}

#[test]
fn what_followed_a_backslash_or_an_escaped_quote_was_no_message() {
    assert_eq!(
        words_of("    \"a switch. \\\n     It lies \\\n     in it\";\n// The tie"),
        "a switch. it lies in it\nthe tie"
    );
    assert_eq!(words_of(r#"let a = "a \"key\" it has" + "of \\" + name + "the end";"#), "a 'key' it has\nof\nthe end");
    assert_eq!(words_of("let parts = line.split('\"'); // no \"words here\""), "words here");
    assert_eq!(words_of("// One ` quote\nlet a = \"is shown\";"), "one ` quote\nis shown");
}
