// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of keys as a JSON Schema (2020-12), for editors and for `tardy schema experiment`.

use crate::experiment::Remote;
use crate::schema::key::{LAST_CPU, LONGEST_DEVICE, LONGEST_PATH};
use crate::schema::table::LEVELS;
use crate::schema::units::{self, SIZE_UNITS, TIME_UNITS};
use crate::schema::{Default, KEYS, Key, Kind, OPTIONAL, parts, show_duration};
use serde_json::{Map, Value, json};
use tardy_model::point::Point;
use tardy_model::shaper::{MOST_CLASSES, MOST_ENTRIES};
use tardy_model::time::Nanos;
use tardy_model::validity;

/// The JSON Schema of an experiment file, read as JSON: tables are objects, lists arrays.
///
/// It holds every key with its meaning and default. What several keys say together (a size that
/// does not fit the path, a CPU that two spinning threads share) is checked on loading only.
pub fn json_schema() -> Value {
    let mut root = table(&[]);
    if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) {
        let dotted = "full dotted keys, as \"stream.ctl.cycle\"";
        properties.insert(
            "case".into(),
            json!({
                "description": "Named bundles of overrides.",
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "additionalProperties": false,
                    "properties": {
                        "name": {"description": "The case's name, part of the cell's id.", "type": "string", "pattern": "^[A-Za-z0-9]", "maxLength": 100},
                        "set": {"description": format!("What the case sets: {dotted}."), "type": "object"},
                        "optional": {"description": OPTIONAL, "type": "boolean", "default": false}
                    }
                }
            }),
        );
        properties.insert(
            "matrix".into(),
            json!({"description": format!("Axes: {dotted}, each with a list of values; cells = cases × axes."), "type": "object"}),
        );
    }
    root.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".into(), json!("tardy experiment"));
    // A copy has neither.
    root.insert("if".into(), json!({"required": ["kind"], "properties": {"kind": {"const": "copy"}}}));
    root.insert("else".into(), json!({"required": ["station", "stream"]}));
    Value::Object(root)
}

/// The object whose keys are below `path` in the table.
fn table(path: &[&str]) -> Map<String, Value> {
    let below = |key: &&Key| {
        let mut segments = key.segments();
        path.iter().all(|part| segments.next() == Some(*part)) && segments.next().is_some()
    };
    let (mut properties, mut required) = (Map::new(), Vec::new());
    let mut named = json!(false);
    for key in KEYS.iter().filter(below) {
        let Some(name) = key.segments().nth(path.len()) else { continue };
        let is_leaf = key.segments().count() == path.len() + 1;
        let value = match is_leaf {
            true => leaf(key),
            false if properties.contains_key(name) || (name == "*" && named != json!(false)) => continue,
            false => {
                let mut below = path.to_vec();
                below.push(name);
                Value::Object(table(&below))
            }
        };
        if is_leaf && matches!(key.default, Default::Required) {
            required.push(name);
        }
        match name {
            "*" => named = value,
            name => drop(properties.insert(name.to_owned(), value)),
        }
    }
    let mut object = Map::new();
    object.insert("type".into(), json!("object"));
    if !properties.is_empty() {
        object.insert("properties".into(), Value::Object(properties));
    }
    if !required.is_empty() {
        object.insert("required".into(), json!(required));
    }
    let mut rivals: Vec<[&str; 2]> = KEYS
        .iter()
        .filter(below)
        .filter(|key| key.segments().count() == path.len() + 1)
        .filter_map(|key| Some([key.segments().last()?, key.rival?]))
        .collect();
    rivals.retain(|[a, b]| a < b);
    if let [pair] = rivals.as_slice() {
        object.insert("not".into(), json!({"required": pair}));
    }
    limit_names(path, &mut object);
    if path == ["validity"] {
        let ids: Vec<&str> = validity::RULES.iter().map(|rule| rule.id).collect();
        object.insert("propertyNames".into(), json!({"enum": ids}));
        // A word alone is the level.
        named = json!({"anyOf": [{"enum": LEVELS}, named]});
    }
    object.insert("additionalProperties".into(), named);
    object
}

/// How the names of stations, streams and loads are written, and how many there must be.
fn limit_names(path: &[&str], object: &mut Map<String, Value>) {
    let (pattern, least) = match path {
        ["station"] => ("^[a-z][a-z0-9-]{0,31}$", Some(2)),
        ["stream"] => ("^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$", Some(1)),
        ["load"] => ("^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$", None),
        _ => return,
    };
    object.insert("propertyNames".into(), json!({"pattern": pattern}));
    if let Some(least) = least {
        object.insert("minProperties".into(), json!(least));
    }
}

fn leaf(key: &Key) -> Value {
    let mut value = kind(&key.kind);
    if let Some(object) = value.as_object_mut() {
        object.insert("description".into(), json!(key.doc));
        let default = match key.default {
            Default::Required | Default::None(_) => None,
            Default::Text(text) => Some(json!(text)),
            Default::Integer(number) => Some(json!(number)),
            Default::Float(number) => Some(json!(number)),
            Default::Flag(flag) => Some(json!(flag)),
            Default::List(items) => Some(json!(items)),
        };
        if let Some(default) = default {
            object.insert("default".into(), default);
        }
    }
    value
}

/// A number as text.
const NUMBER: &str = r"[0-9][0-9_]*(\.[0-9][0-9_]*)?";
/// The unit of a time.
const TIME: &str = "(ns|us|µs|μs|ms|s|min|h)";

fn kind(kind: &Kind) -> Value {
    match *kind {
        Kind::Name => json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$", "maxLength": 100}),
        Kind::Word => json!({"type": "string", "minLength": 1}),
        Kind::Device => {
            json!({"type": "string", "pattern": "^[A-Za-z0-9_@+][A-Za-z0-9._@+-]*$", "maxLength": LONGEST_DEVICE})
        }
        Kind::Ssh => {
            json!({"type": "string", "pattern": r"^[A-Za-z0-9._@:/\[\]]([A-Za-z0-9._\]-]|[@:/\[]+[A-Za-z0-9._\]])*$", "maxLength": Remote::LONGEST})
        }
        Kind::Object => json!({"type": "string", "minLength": 1, "maxLength": LONGEST_PATH}),
        Kind::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Kind::Duration { min_ns, word, .. } => {
            let sign = if min_ns < 0 { "-?" } else { "" };
            let word = word.map(|word| format!("{word}|")).unwrap_or_default();
            text(format!("^({word}{sign}{NUMBER}{TIME})$"))
        }
        Kind::Cycle { .. } => text(format!("^{NUMBER}({TIME}|(µ|k|M|G)?Hz)$")),
        Kind::Size { .. } => text(format!("^{NUMBER}({})$", one_of(units::SIZE_UNITS))),
        Kind::Share => share_or(text(format!("^{NUMBER} *%$"))),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Choice { built } => json!({"enum": built}),
        Kind::Cpu => json!({"anyOf": [
            {"enum": ["auto", "same", "different", "any"]},
            {"type": "integer", "minimum": 0, "maximum": LAST_CPU}
        ]}),
        Kind::Policy => {
            text(format!("^(other|(fifo|rr):[1-9][0-9]?|deadline:{NUMBER}{TIME}/{NUMBER}{TIME}/{NUMBER}{TIME})$"))
        }
        Kind::Points { word } => points(word),
        Kind::Metrics { word } => metrics(word),
        Kind::Metric => metric(),
        Kind::Several { of } => json!({"type": "array", "uniqueItems": true, "items": {"enum": of}}),
        Kind::Numbers => {
            json!({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": u32::MAX}})
        }
        Kind::Buffer => text(format!("^(default|{NUMBER}({}))$", one_of(units::SIZE_UNITS))),
        Kind::Rate => text(format!("^{NUMBER}({})$", one_of(parts::RATE_UNITS))),
        Kind::Spread { time } => distribution(time),
        Kind::Classes { each_of } => classes(each_of),
        Kind::Queues => json!({"type": "array", "items": text("^ *[0-9]+ *@ *[0-9]+ *$".to_owned())}),
        Kind::Entries => {
            let entry = text(format!("^ *(none|all|[0-9]+( *, *[0-9]+)*) +{NUMBER}{TIME} *$"));
            json!({"type": "array", "maxItems": MOST_ENTRIES, "items": entry})
        }
        Kind::Words => {
            let word = text("^[^\\u0000-\\u001f\\u007f-\\u009f]*$".to_owned());
            json!({"type": "array", "minItems": 1, "items": word})
        }
        Kind::Limit => share_or(text(format!("^{NUMBER}( *%|{TIME})$"))),
        Kind::Limits => limits(),
    }
}

/// A text of this pattern.
fn text(pattern: String) -> Value {
    json!({"type": "string", "pattern": pattern})
}

/// Units as a pattern has them.
fn one_of(units: &str) -> String {
    units.replace(", ", "|")
}

fn share_or(text: Value) -> Value {
    json!({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, text]})
}

fn points(word: &str) -> Value {
    let known = Point::OF_PACKETS.into_iter().filter(|point| *point != Point::Scheduled);
    let names = known.map(Point::name).collect::<Vec<_>>();
    json!({"anyOf": [{"const": word}, {"type": "array", "uniqueItems": true, "items": {"enum": names}}]})
}

fn metrics(word: &str) -> Value {
    json!({"anyOf": [{"const": word}, {"type": "array", "uniqueItems": true, "items": metric()}]})
}

fn metric() -> Value {
    let points = Point::OF_PACKETS.map(Point::name).join("|");
    text(format!("^(delta|transit|begin\\.\\.end|({points})\\.\\.({points}))$"))
}

/// Of times or of sizes.
fn distribution(time: bool) -> Value {
    let sizes = format!("({})", one_of(units::SIZE_UNITS));
    let one = format!("{NUMBER}{}", if time { TIME } else { &sizes });
    text(format!("^((fixed|exponential):{one}|uniform:{one}\\.\\.{one}|pareto:{one}/{NUMBER})$"))
}

/// A map of this many, or a list without repeats.
fn classes(each_of: Option<usize>) -> Value {
    let item = json!({"type": "integer", "minimum": 0, "maximum": MOST_CLASSES - 1});
    match each_of {
        Some(many) => json!({"type": "array", "minItems": many, "maxItems": many, "items": item}),
        None => json!({"type": "array", "uniqueItems": true, "items": item}),
    }
}

fn limits() -> Value {
    let limit = text(format!(r"^ *(min|mean|stddev|max|p50|p90|p99|p99\.9|p99\.99) *<=? *-?{NUMBER}{TIME} *$"));
    json!({"anyOf": [limit, {"type": "array", "minItems": 1, "uniqueItems": true, "items": limit}]})
}

impl Kind {
    /// What may be written, with units and range.
    pub fn words(&self) -> String {
        match self {
            Kind::Name => "a name of letters, digits, `.`, `_` and `-`".to_owned(),
            Kind::Word => "a station's name".to_owned(),
            Kind::Integer { min, max } if *max == i64::MAX => format!("a whole number, from {min}"),
            Kind::Integer { min, max } => format!("a whole number, {min} to {max}"),
            Kind::Duration { min_ns, max_ns, word } => {
                let (min, max) = (show_duration(Nanos(*min_ns)), show_duration(Nanos(*max_ns)));
                let word = word.map(|word| format!("`\"{word}\"`, or ")).unwrap_or_default();
                format!("{word}a duration in {TIME_UNITS}, `\"{min}\"` to `\"{max}\"`")
            }
            Kind::Cycle { min_ns, max_ns } => {
                let (min, max) = (show_duration(Nanos(*min_ns)), show_duration(Nanos(*max_ns)));
                format!("a duration in {TIME_UNITS}, `\"{min}\"` to `\"{max}\"`, or a rate in Hz, kHz, MHz, GHz")
            }
            Kind::Size { min, max } => format!("a size in {SIZE_UNITS}, `\"{min}B\"` to `\"{max}B\"`"),
            Kind::Share => "a share: `\"0.1%\"` or `0.001`".to_owned(),
            Kind::Flag => "`true` or `false`".to_owned(),
            Kind::Choice { built } => format!("`\"{}\"`", built.join("\"`, `\"")),
            Kind::Device => "a network device's name".to_owned(),
            Kind::Ssh => "a machine, as `ssh` takes it".to_owned(),
            Kind::Object => "a file, or `\"FILE:SECTION\"`, and `@MEMBER` or `@MEMBER,MEMBER` behind it".to_owned(),
            Kind::Cpu => "`\"auto\"`, `\"same\"`, `\"different\"`, `\"any\"` or a CPU's number".to_owned(),
            Kind::Policy => {
                "`\"other\"`, `\"fifo:90\"`, `\"rr:50\"` (priority 1 to 99) or `\"deadline:200us/1ms/1ms\"`".to_owned()
            }
            Kind::Points { word } => format!("`\"{word}\"`, or a list of points"),
            Kind::Metrics { word } => format!("`\"{word}\"`, or a list of metrics"),
            Kind::Metric => "a metric's name, but for `delta`".to_owned(),
            Kind::Several { of } => format!("a list of `\"{}\"`", of.join("\"`, `\"")),
            Kind::Numbers => "a list of packet numbers".to_owned(),
            Kind::Buffer => format!("`\"default\"`, or a size in {SIZE_UNITS}, `\"{}B\"` to `\"{}B\"`", parts::BUFFER.0, parts::BUFFER.1),
            Kind::Rate => format!("bits a second in {}", parts::RATE_UNITS),
            Kind::Spread { time: true } => {
                "`\"fixed:50ms\"`, `\"uniform:10ms..1s\"`, `\"exponential:50ms\"` (mean) or `\"pareto:20ms/1.5\"` (least, exponent)"
                    .to_owned()
            }
            Kind::Spread { time: false } => {
                "`\"fixed:64KiB\"`, `\"uniform:10kB..1MB\"`, `\"exponential:256KiB\"` (mean) or `\"pareto:64KiB/1.5\"` (least, exponent)"
                    .to_owned()
            }
            Kind::Words => "a list of texts: program and arguments".to_owned(),
            Kind::Classes { each_of: Some(many) } => format!("a list of {many} classes"),
            Kind::Classes { each_of: Option::None } => "a list of classes".to_owned(),
            Kind::Queues => "a list as `[\"1@0\", \"2@1\"]`: how many queues, and the first".to_owned(),
            Kind::Entries => {
                "a list as `[\"1 100us\", \"0,2 200us\"]`: classes whose gates are open (`all`, `none`), and how long".to_owned()
            }
            Kind::Limit => "a share: `\"60%\"` or `0.6`; of `guest-timer`, a duration: `\"5ms\"`".to_owned(),
            Kind::Limits => "a limit as `\"p99.9 < 80us\"`, or a list of limits".to_owned(),
        }
    }
}

impl Default {
    /// The default as it would be written, or what a missing key means.
    pub fn words(self) -> String {
        match self {
            Default::Required => "required".to_owned(),
            Default::None(says) => says.to_owned(),
            Default::Text(text) => format!("`\"{text}\"`"),
            Default::Integer(number) => format!("`{number}`"),
            Default::Float(number) => format!("`{number}`"),
            Default::Flag(flag) => format!("`{flag}`"),
            Default::List([]) => "`[]`".to_owned(),
            Default::List(items) => format!("`[\"{}\"]`", items.join("\", \"")),
        }
    }
}
