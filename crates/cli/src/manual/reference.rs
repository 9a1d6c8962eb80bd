// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference chapters of the book, made from the definitions that the program itself uses:
//! nothing here can go stale.

use crate::exit::Exit;
use crate::manual::{Block, Document, RUN_FOLDER, documents};
use clap::Command;
use serde_json::Value;
use std::fmt::Write;
use std::iter;
use tardy_analyze::validity::{RULES, Spoils};
use tardy_model::schema;
use tardy_spec::schema::KEYS;

/// All chapters, and `SUMMARY.md`, which lists them in the order of reading. `command` has been
/// built.
pub fn chapters(command: &Command) -> Vec<Chapter> {
    let mut chapters = vec![experiment()];
    chapters.extend(documents(command).iter().map(|page| (format!("{}.md", page.name), chapter_of(page))));
    chapters.push(exits());
    chapters.push(run_folder());
    chapters.extend(schemas());
    chapters.push(verdicts());
    let list = chapters.iter().map(|(file, text)| format!("- [{}]({file})\n", title(text))).collect();
    chapters.push(("SUMMARY.md".to_owned(), list));
    chapters
}

fn title(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default()
}

fn exits() -> Chapter {
    let mut out =
        start("Exit codes", "What a verb's exit code means. Each verb's page lists those that it can end with.");
    let rows = Exit::ALL.map(|exit| vec![format!("{}", exit as u8), exit.says().1.to_owned()]);
    let _ = write!(out, "\n{}", table(&["code", "means"], rows));
    ("exit-codes.md".to_owned(), out)
}

fn run_folder() -> Chapter {
    let mut out = start(
        "The run folder",
        "What `tardy run` writes. CELL is a cell's id, N a trial's number, STREAM a stream's name.",
    );
    let rows = RUN_FOLDER.iter().map(|(file, says)| vec![format!("`{file}`"), escaped(says)]);
    let _ = write!(out, "\n{}", table(&["file", "holds"], rows));
    out += "\nIts contents: [results.json](results.md), [manifest.json](manifest.md), [samples.parquet](samples.md).\n";
    ("run-folder.md".to_owned(), out)
}

/// A chapter: file name and Markdown.
pub type Chapter = (String, String);

/// How a chapter begins.
fn start(title: &str, says: &str) -> String {
    format!("{}# {title}\n\n{says}\n", HEAD)
}

/// A table: a heading, then rows.
fn table(heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |fields: &mut dyn Iterator<Item = String>| format!("| {} |\n", fields.collect::<Vec<_>>().join(" | "));
    let mut out = line(&mut heading.iter().map(|field| (*field).to_owned()));
    out += &line(&mut heading.iter().map(|_| "---".to_owned()));
    for row in rows {
        out += &line(&mut row.into_iter().map(|field| field.replace('|', "\\|").replace('\n', " ")));
    }
    out
}

const EXPERIMENT: &str = "An experiment file is TOML. Every key that it may have is listed here, with its default. `NAME` is a name that you \
    give. Cases and axes set keys by their full dotted name, as `stream.ctl.cycle`; keys marked *whole* belong to the whole \
    experiment, and no case or axis may set them. Words marked *later* are known, and refused by this version.\n\n\
    The same as JSON Schema: `tardy schema experiment`.";

const CASES_AND_AXES: &str =
    "Besides the keys above a file may have bundles of overrides and axes. Cells are cases × axes.\n";

pub fn experiment() -> Chapter {
    let mut out = start("Experiment file", EXPERIMENT);
    let mut sections: Vec<String> = Vec::new();
    for key in KEYS {
        let section = table_of(key.pattern);
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    for name in sections {
        let _ = write!(out, "\n## {name}\n\n");
        let rows = KEYS.iter().filter(|key| table_of(key.pattern) == name).map(|key| {
            let whole = if key.whole { " *whole*" } else { "" };
            let rival = key.rival.map(|rival| format!(" Not together with `{rival}`.")).unwrap_or_default();
            vec![
                format!("`{}`{whole}", with_name(key.pattern)),
                escaped(&key.kind.words()),
                escaped(&key.default.words()),
                escaped(key.doc) + &rival,
            ]
        });
        out += &table(&["key", "value", "default", "meaning"], rows);
    }
    let _ = write!(out, "\n## Cases and axes\n\n{CASES_AND_AXES}\n");
    let rows = [
        ("`[[case]] name`", "a name", "required", "The case's name, part of the cell's id."),
        ("`[[case]] set`", "a table", "nothing", "What the case sets: full dotted keys with their values."),
        ("`[[case]] optional`", "`true` or `false`", "`false`", tardy_spec::schema::OPTIONAL),
        ("`[matrix]`", "a table", "no axis", "Axes: full dotted keys, each with a list of values."),
    ];
    let rows = rows.map(|row| <[&str; 4]>::from(row).map(str::to_owned).to_vec());
    out += &table(&["key", "value", "default", "meaning"], rows);
    ("experiment.md".to_owned(), out)
}

/// `stream.*.tx.cpu` is in the section `[stream.NAME.tx]`.
fn table_of(pattern: &str) -> String {
    match pattern.rsplit_once('.') {
        None => "At the top".to_owned(),
        Some((table, _)) => format!("[{}]", table.replace('*', "NAME")),
    }
}

/// The key as one writes it after `--set`.
fn with_name(pattern: &str) -> String {
    match pattern.strip_suffix(".*") {
        Some(table) => format!("{}.METRIC", table.replace('*', "NAME")),
        None => pattern.replace('*', "NAME"),
    }
}

pub fn schemas() -> [Chapter; 3] {
    [
        ("results.md".to_owned(), of_schema("results.json", "results", &schema::results())),
        ("manifest.md".to_owned(), of_schema("manifest.json", "manifest", &schema::manifest())),
        ("samples.md".to_owned(), samples(&tardy_store::samples_schema())),
    ]
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// A chapter from a JSON Schema: a table for the file, and one for each definition.
fn of_schema(file: &str, of: &str, schema: &Value) -> String {
    let says = format!(
        "{} A field that is not *always* there is left out where it has nothing to say, or by an older version. Readers must \
         accept fields that they do not know: later versions add some.\n\nThe same as JSON Schema: `tardy schema {of}`.",
        text(schema, "description")
    );
    let mut out = start(file, &says);
    let _ = write!(out, "\n{}", fields(schema));
    for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
        let _ = write!(out, "\n## {name}\n");
        for says in [text(definition, "description")].into_iter().filter(|says| !says.is_empty()) {
            let _ = write!(out, "\n{}\n", escaped(says));
        }
        let body = match definition["properties"].is_object() || definition["oneOf"].is_array() {
            true => fields(definition),
            false => format!("{}\n", kind(definition)),
        };
        let _ = write!(out, "\n{body}");
    }
    out
}

/// An object's fields, and those of the objects of which it is one.
fn fields(object: &Value) -> String {
    let either = object["oneOf"].as_array().into_iter().flatten();
    let parts = iter::once((object, "always")).chain(either.map(|part| (part, "one of these")));
    let rows = parts.flat_map(|(part, there)| {
        part["properties"].as_object().into_iter().flatten().map(move |(name, field)| {
            let is_required = part["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
            let there = if is_required { there } else { "" };
            let says = field.get("description").unwrap_or(&part["description"]).as_str().unwrap_or_default();
            vec![format!("`{name}`"), kind(field), there.to_owned(), escaped(says)]
        })
    });
    table(&["field", "type", "there", "meaning"], rows)
}

/// A field's type in words, with a link where it has a section of its own.
fn kind(field: &Value) -> String {
    if let Some(words) = field["enum"].as_array() {
        return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    if let Some(name) = field["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{name})");
    }
    if let Some(either) = field["anyOf"].as_array() {
        return either.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    if let Some(only) = field.get("const") {
        return format!("`{only}`");
    }
    match &field["type"] {
        Value::String(one) => match one.as_str() {
            "array" => format!("list of {}", kind(&field["items"])),
            "object" if field["additionalProperties"].is_object() => {
                format!("names → {}", kind(&field["additionalProperties"]))
            }
            one => one.to_owned(),
        },
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "anything".to_owned(),
    }
}

fn samples(schema: &Value) -> String {
    let says = format!(
        "`{}`: {}. Each trial has its own. The same as JSON: `tardy schema samples`. How to read it: \
         [samples with DuckDB and Polars](../how-to/samples.md).",
        text(schema, "file"),
        text(schema, "row")
    );
    let mut out = start("samples.parquet", &says);
    let columns = schema["columns"].as_array().into_iter().flatten().chain([&schema["stages"], &schema["full_width"]]);
    let rows = columns.map(|column| {
        let null = if column["nullable"] == Value::Bool(true) { "may be null" } else { "" };
        let name = format!("`{}`", text(column, "name"));
        let unit = text(column, "unit").to_owned();
        vec![name, text(column, "type").to_owned(), unit, null.to_owned(), escaped(text(column, "says"))]
    });
    let _ = write!(out, "\n## Columns\n\n{}", table(&["column", "type", "unit", "", "meaning"], rows));
    let _ = write!(out, "\nOf two clocks: {}.\n", text(schema, "clocks"));
    let words = |key: &str| {
        let words: Vec<&str> = schema[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        format!("`{}`", words.join("` `"))
    };
    let _ = write!(out, "\n## Outcomes\n\n{}\n", words("outcomes"));
    let _ = write!(out, "\n## Points\n\nIn the order of a packet's way: {}\n", words("points"));
    let rows =
        schema["flags"].as_array().into_iter().flatten().map(|flag| {
            vec![flag["bit"].to_string(), format!("`{}`", text(flag, "name")), escaped(text(flag, "says"))]
        });
    let _ = write!(out, "\n## Flags\n\n{}", table(&["bit", "name", "meaning"], rows));
    let _ = write!(out, "\n## The view\n\nFor DuckDB, in the run folder.\n\n```sql\n{}```\n", text(schema, "view"));
    out
}

/// The chapter that explains each rule. A rule that it does not explain has an empty row, which a
/// test looks for.
const METHOD: &str = include_str!("../../../../docs/method/validity.md");

/// Verdicts that no rule on a trial gives, with what they say of.
const WIDER: &[(&str, &str, &str)] = &[
    ("left-out", "cell", "*warning*: trials were left out of the figures: which, of how many, and for which causes."),
    (
        "repeats",
        "cell",
        "*ok*: the trials agree; *warning*: they do not; *note*: it cannot be judged. See [repeats](../method/repeats.md).",
    ),
    (
        "gates",
        "cell",
        "*ok*: at least 99.5 % of the packets that were sent left when they should; *note*: so they did, but more than 0.5 % of all were \
         not sent; *warning*: fewer, or more than 0.5 % left in another window than their own, or none could be judged. See [gates](../method/gates.md).",
    ),
    (
        "cliffs",
        "run",
        "*note*: over which sizes of a buffer the bandwidth of a copy jumps, and what the machine has of that size. See \
         [copies](../copy.md#at-which-sizes-bandwidth-jumps).",
    ),
    (
        "moved-point",
        "run",
        "*warning*: launch times moved `rx_kernel` in some cells and not in others, or elsewhere: figures of two points are not comparable. \
         See [points](../method/points.md).",
    ),
    ("failed", "cell or run", "*invalid*: no trial was finished, or something failed after one was, and what."),
    ("one-trial", "run", "*note*: the figures are of one trial of each cell (`tardy report --trial`)."),
    ("interrupted", "run", "*warning*: a signal ended it, and how many trials were kept."),
    ("refused", "cell", "*invalid*: the machine could not run it, and why."),
    (
        "not-available",
        "cell",
        "*note*: the machine could not set up the cell of an optional case, and why; the run is not invalid for it.",
    ),
    (
        "ruler",
        "cell",
        "*warning*: a sender woke later in the trials than both readings of the ruler say; *note*: earlier. See [ruler](../method/ruler.md).",
    ),
    (
        "guest-timer",
        "cell",
        "*invalid*: a sender's timer was late by a millisecond or more at p99 in a guest whose processor is emulated, in real time.",
    ),
    (
        "placement",
        "cell",
        "*warning*: a CPU was asked for and was not available; the sentence names what was taken instead.",
    ),
    (
        "exact-time",
        "run",
        "*note*: it was run in exact virtual time, and what its figures are good for. See [guests](../guests.md).",
    ),
    ("guest", "run", "*note*: it was run in a guest, and what that means for its figures. See [guests](../guests.md)."),
    (
        "observer",
        "run",
        "*note*: what tx stamps add to the medians of metrics that need none, with an interval, for each path and port. See \
         [points](../method/points.md#what-a-stamp-costs).",
    ),
    (
        "own-trace",
        "run",
        "*invalid*: tardy itself shows in a figure that is printed, and in which; *warning*: it shows, and no printed figure moves, or \
         something else had held up the sender before. See [own-trace](../method/own-trace.md).",
    ),
    (
        "validity",
        "run",
        "*warning*: the experiment file judges something more mildly than by default; *note*: it sets other values that are not more lenient.",
    ),
    (
        "removed",
        "cell or run",
        "*invalid*: the folder does not have trials that the run finished, or results.json, any more.",
    ),
    ("killed", "run", "*warning*: the run was killed before its end; the trials that were finished are judged."),
];

const VERDICTS: &str = "A verdict in `results.json` has the id of the rule that gave it. Ids are stable. *note*: worth knowing; *warning*: \
    doubtful; *invalid*: do not use the numbers. A rule says nothing when all is well.";

pub fn verdicts() -> Chapter {
    let mut out = start("Verdicts", VERDICTS);
    let rows = RULES.iter().map(|rule| {
        let spoils = match (rule.spoils, levels(rule.id).contains(&"invalid")) {
            (_, false) => "",
            (Spoils::Measuring, _) => "trial",
            (Spoils::Path, _) => "cell",
            (Spoils::Told, _) => "trial or cell",
        };
        let id = format!("[`{0}`](../method/validity.md#{0})", rule.id);
        vec![id, levels(rule.id).join(", "), spoils.to_owned(), first_sentence(section_of(rule.id))]
    });
    let _ = write!(
        out,
        "\n## Of a trial\n\nWhere an *invalid* one spoils the *trial*, the trial may be left out of its cell; where it spoils the \
         *cell*, the trial stays in, and the cell is not valid: [validity](../method/validity.md).\n\n{}",
        table(&["id", "weighs", "spoils", "says"], rows)
    );
    let rows = WIDER.iter().map(|(id, of, says)| vec![format!("`{id}`"), (*of).to_owned(), (*says).to_owned()]);
    let _ = write!(out, "\n## Of a cell or a run\n\n{}", table(&["id", "of", "says"], rows));
    ("verdicts.md".to_owned(), out)
}

/// What the method's chapter has about a rule: from its heading to the next.
fn section_of(id: &str) -> &'static str {
    let heading = format!("\n## {id}\n");
    let Some(at) = METHOD.find(&heading) else { return "" };
    let body = &METHOD[at + heading.len()..];
    body.split("\n## ").next().unwrap_or_default()
}

/// Its weights, in the order in which they are named.
fn levels(id: &str) -> Vec<&'static str> {
    let mut found: Vec<(usize, &str)> = ["note", "warning", "invalid"]
        .into_iter()
        .filter_map(|l| Some((section_of(id).find(&format!("*{l}*"))?, l)))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, level)| level).collect()
}

/// Its first sentence, without links: they count from another folder.
fn first_sentence(section: &str) -> String {
    let text = section.replace('\n', " ");
    let end = text.find(". ").map_or(text.trim_end().len(), |at| at + 1);
    let mut out = String::new();
    let mut rest = &text[..end];
    while let Some((before, link)) = rest.split_once('[') {
        let Some((label, after)) = link.split_once("](") else { break };
        out += before;
        out += label;
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    out + rest
}

/// The first line of a chapter that is made.
pub const HEAD: &str = "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n";

pub fn chapter_of(document: &Document) -> String {
    let mut out = format!("{HEAD}# {}\n\n{}\n", document.name, document.about);
    for section in &document.sections {
        let _ = write!(out, "\n## {}\n\n", sentence(section.title));
        for block in &section.blocks {
            let _ = match block {
                Block::Text(text) => write!(out, "{}\n\n", escaped(text)),
                Block::Group(title) => write!(out, "### {title}\n\n"),
                Block::Term(term, says) => writeln!(out, "- {}: {}", escaped(term), escaped(says)),
                Block::Command(line, says) => write!(out, "{}\n\n```sh\n{line}\n```\n\n", escaped(says)),
            };
        }
    }
    out
}

fn sentence(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Angle brackets outside of literals would be taken for HTML, brackets for a link.
pub fn escaped(text: &str) -> String {
    let mut literal = false;
    let mut out = String::new();
    for letter in text.chars() {
        literal ^= letter == '`';
        match letter {
            '<' | '>' | '[' | ']' if !literal => out.extend(['\\', letter]),
            _ => out.push(letter),
        }
    }
    out
}
