// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON schemas agree with what is written.

use super::sample::{many, odd, run};
use serde_json::{Value, json};
use tardy_model::manifest::{GuestEntry, QdiscsOf, ReadBack};
use tardy_model::result::CpuUser;
use tardy_model::schema::{manifest, results};
use tardy_model::validity::{RuleLimit, Setting};
use tardy_model::verdict::Level;

/// The part of JSON Schema that the schemas use. `at` is the path to the value; a key that no
/// schema names is a fault too, for the schema is to tell of everything that tardy writes.
fn check(root: &Value, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let target = root.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("{name} leads nowhere"));
        check(root, target, value, at, faults);
    }
    for (several, most) in [("anyOf", usize::MAX), ("oneOf", 1)] {
        let Some(several) = schema[several].as_array() else { continue };
        let agrees = |one: &&Value| {
            let mut faults = Vec::new();
            check(root, one, value, at, &mut faults);
            faults.is_empty()
        };
        if !(1..=most).contains(&several.iter().filter(agrees).count()) {
            faults.push(format!("{at}: {value} is not as one of {several:?}"));
        }
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let whole_number = kind == "integer" && types.contains(&"number");
    if !(types.is_empty() || types.contains(&kind) || whole_number) {
        faults.push(format!("{at}: {kind} is none of {types:?}"));
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        faults.push(format!("{at}: {value} is not in {}", schema["enum"]));
    }
    if schema.get("const").is_some_and(|only| only != value) {
        faults.push(format!("{at}: {value} is not {}", schema["const"]));
    }
    if let (Some(least), Some(got)) = (schema["minimum"].as_f64(), value.as_f64())
        && got < least
    {
        faults.push(format!("{at}: {got} is below {least}"));
    }
    if let (Some(most), Some(got)) = (schema["maximum"].as_f64(), value.as_f64())
        && got > most
    {
        faults.push(format!("{at}: {got} is above {most}"));
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.is_object() && value.get(required).is_none() {
            faults.push(format!("{at}: no {required}"));
        }
    }
    for (key, entry) in value.as_object().into_iter().flatten() {
        let path = format!("{at}.{key}");
        match (schema["properties"].get(key), schema.get("additionalProperties")) {
            (Some(property), _) => check(root, property, entry, &path, faults),
            (None, Some(rest)) => check(root, rest, entry, &path, faults),
            // Loads are described by their own kinds; what a command printed is its own affair.
            (None, None) if schema["properties"].is_null() => {}
            (None, None) => faults.push(format!("{path}: the schema does not know it")),
        }
    }
    if schema.get("items").is_some() {
        for (i, entry) in value.as_array().into_iter().flatten().enumerate() {
            check(root, &schema["items"], entry, &format!("{at}[{i}]"), faults);
        }
    }
}

fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(schema, schema, value, "$", &mut faults);
    faults
}

/// Fails where a value is not what its schema says.
pub fn agrees(schema: &Value, value: &Value) {
    assert_eq!(faults(schema, value), Vec::<String>::new());
}

#[test]
fn results_agree_with_their_schema() {
    let schema = results();
    for run in [run(&["all"]), odd(), many()] {
        let value = serde_json::to_value(&run.results).expect("JSON");
        assert_eq!(faults(&schema, &value), Vec::<String>::new());
    }
    let mut exact = run(&["all"]);
    exact.results.fingerprint = Some("5e".into());
    exact.results.cells[0].fingerprint = Some("a1".into());
    let value = serde_json::to_value(&exact.results).expect("JSON");
    assert_eq!(faults(&schema, &value), Vec::<String>::new());
    let mut set = run(&["all"]);
    let of = |limit| Setting { limit: Some(limit), level: Some(Level::Warning) };
    set.results.validity.set.insert("competing-cpu".into(), of(RuleLimit::Share(0.6)));
    set.results.validity.set.insert("guest-timer".into(), of(RuleLimit::Ns(5_000_000)));
    let used = &mut set.results.cells[0].cpus[0];
    used.others = vec![CpuUser { name: "cc1".into(), run_ns: 5, ended: 2 }];
    (used.elapsed_ns, used.others_ns) = (10, Some(5));
    let value = serde_json::to_value(&set.results).expect("JSON");
    assert_eq!(faults(&schema, &value), Vec::<String>::new());
}

#[test]
fn manifest_agrees_with_its_schema() {
    let schema = manifest();
    let mut run = odd();
    run.manifest.read_back.push(ReadBack {
        cell: Some("all".into()),
        qdiscs_of: Some(QdiscsOf { station: "a".into(), device: QdiscsOf::MADE.into() }),
        command: "tc -j qdisc".into(),
        says: serde_json::from_str("[{\"kind\": \"noqueue\"}]").expect("JSON"),
    });
    run.manifest.ended_utc = None;
    run.manifest.ruler[0].cpu = None;
    let value = serde_json::to_value(&run.manifest).expect("JSON");
    assert_eq!(faults(&schema, &value), Vec::<String>::new());
    let host = [("kernel.release".to_owned(), "6.18.0".into())].into();
    run.manifest.guest = Some(GuestEntry {
        mode: "guest:exact".into(),
        accelerator: "tcg".into(),
        boot_cpu_ns: Some(7_500_000_000),
        arguments: vec!["-smp".into(), "1".into()],
        host,
        ..GuestEntry::default()
    });
    let value = serde_json::to_value(&run.manifest).expect("JSON");
    assert_eq!(faults(&schema, &value), Vec::<String>::new());
}

#[test]
fn schema_refuses_what_is_wrong() {
    let schema = results();
    let good = serde_json::to_value(&odd().results).expect("JSON");
    let metric = "/cells/0/streams/ctl/metrics/scheduled..wakeup";
    for (path, key, value, wanted) in [
        ("", "valid", json!("yes"), "$.valid: string"),
        ("", "format", json!(2), "$.format: 2 is not 1"),
        ("/cells/0/verdicts/0", "level", json!("bad"), "is not in"),
        (metric, "p50_ns", json!(1.5), "p50_ns: number"),
        (metric, "latency", json!(1), "latency: the schema does not know it"),
        ("/cells/0/streams/ctl/outcomes", "lost", json!(-1), "is below 0"),
    ] {
        let mut bad = good.clone();
        bad.pointer_mut(path).expect("a place")[key] = value;
        let faults = faults(&schema, &bad);
        assert!(faults.len() == 1 && faults[0].contains(wanted), "{wanted}: {faults:?}");
    }
    let mut short = good.clone();
    short.pointer_mut(metric).and_then(Value::as_object_mut).expect("the metric").remove("coverage");
    assert_eq!(faults(&schema, &short).len(), 1);
}

#[test]
fn what_is_left_out_is_neither_required_nor_null() {
    let schema = results();
    let good = serde_json::to_value(&odd().results).expect("JSON");
    assert_eq!(faults(&schema, &good), Vec::<String>::new());
    for (path, key) in
        [("", "fingerprint"), ("/cells/0/streams/ctl", "gates"), ("/cells/0/streams/ctl", "rx_kernel_at")]
    {
        let mut bad = good.clone();
        let place = bad.pointer_mut(path).and_then(Value::as_object_mut).expect("a place");
        assert_eq!(place.insert(key.to_owned(), Value::Null), None, "{key} is left out");
        assert!(!faults(&schema, &bad).is_empty(), "{key} is never null");
    }
}

#[test]
fn a_file_could_lack_what_came_to_its_format_later() {
    let mut run = run(&["all"]);
    run.manifest.ruler = odd().manifest.ruler;
    let mut files = [
        (results(), serde_json::to_value(&run.results).expect("JSON")),
        (manifest(), serde_json::to_value(&run.manifest).expect("JSON")),
    ];
    for (file, path, keys) in [
        (0, "/cells/0/placement/0", ["migrations", "wait_ns"].as_slice()),
        (0, "/cells/0/cpus/0", &["elapsed_ns", "irq_ns", "softirq_ns", "others_ns"]),
        (1, "/cells/0", &["refused", "short"]),
        (1, "/ruler/0", &["after", "threads", "timer_p99_9_ns", "wake_wait_ns"]),
    ] {
        let (schema, value) = &mut files[file];
        for key in keys {
            let place = value.pointer_mut(path).and_then(Value::as_object_mut).expect(path);
            assert!(place.remove(*key).is_some(), "{path}/{key}");
        }
        assert_eq!(faults(schema, value), Vec::<String>::new());
    }
}

#[test]
fn schemas_say_what_they_are() {
    for (schema, title) in [(results(), "tardy results"), (manifest(), "tardy manifest")] {
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["title"], title);
        // Whatever is required is there, and every part says in one line what it is.
        let mut parts: Vec<(&str, &Value)> = vec![(title, &schema)];
        parts
            .extend(schema["$defs"].as_object().expect("definitions").iter().map(|(name, part)| (name.as_str(), part)));
        for (name, part) in parts {
            let mut told: Vec<(&str, &Value)> = vec![(name, part)];
            for required in part["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                assert!(part["properties"].get(required).is_some(), "{name}: {required}");
            }
            let fields = part["properties"].as_object().into_iter().flatten();
            told.extend(fields.map(|(field, told)| (field.as_str(), told)));
            for (what, told) in told {
                let says = told["description"].as_str().unwrap_or_else(|| panic!("{name}: {what} is not described"));
                assert!(says.ends_with(['.', '?', ')']) && !says.contains(['\n', '[']), "{name}: {what}: {says}");
            }
        }
    }
}
