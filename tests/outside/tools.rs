// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other people's tools read runs and what `tardy export` writes. Python's packages read
//! HdrHistogram logs, JSON by jsonschema, samples by DuckDB and Polars, figures by
//! prometheus_client, and XML: each compares what its tool reads with the results, and prints how
//! many figures it compared. And `tardy export` as a user calls it: words, files, pipes, folders
//! that are no runs.

use crate::{PING_PONG, Run, gated, lossy, output, sound, tardy, text};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tardy_model::xdp::{HintColumn, Hints};
use tardy_store::{SamplesFile, write_samples};

/// The environment's interpreter; `None`, and counted as skipped, if there is no such environment.
pub fn python(test: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("TARDY_CACHE").map_or_else(|| "../.cache".into(), PathBuf::from);
    let python = cache.join("venv/bin/python");
    let ready = cache.join("venv/requirements.txt").is_file() && python.exists();
    if !ready {
        tardy_tests::skip(test, "the Python packages are not there: `make setup-test` fetches them");
    }
    ready.then_some(python)
}

/// Has a package read something; fails with what it says, or if it compared fewer figures than
/// `least`.
fn check(python: &Path, what: &str, args: &[OsString], least: u32) {
    check_with(python, "outside/read.py", what, args, least);
}

/// The same by another script of this layer's; only the package of this repository is there too.
pub fn check_with(python: &Path, script: &str, what: &str, args: &[OsString], least: u32) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // A debugger's or a user's own packages have no say here; nor does it write into the
    // repository.
    let mut command = Command::new(python);
    command.arg("-B").arg(here.join(script)).arg(what).args(args).env("PYTHONPATH", here.join("../python/src"));
    let ended = output(command.env("PYTHONDONTWRITEBYTECODE", "1"));
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{what}: {out}{err}");
    let compared = out.trim().strip_prefix("compared ").and_then(|n| n.parse::<u32>().ok());
    assert!(compared.is_some_and(|n| n >= least), "{what}: {out}, at least {least} wanted");
}

pub fn args<const N: usize>(paths: [PathBuf; N]) -> [OsString; N] {
    paths.map(Into::into)
}

#[test]
fn hdrhistogram_decodes_the_percentiles_of_the_results() {
    let Some(python) = python("hdrhistogram_decodes_the_percentiles_of_the_results") else { return };
    let sound = Run::simulated("sound", sound(), 0);
    let (log, told) = sound.exported("hlog");
    assert_eq!(told, "", "nothing to be told of a sound run");
    check(&python, "hlog", &args([sound.results(), log, sound.out()]), 100);

    let lossy = Run::simulated("lossy", lossy(), 1);
    let (log, told) = lossy.exported("hlog");
    assert!(told.contains("packets were lost or not sent: each is counted at 3600 s"), "{told}");
    assert!(told.contains("values are below 0, which an HdrHistogram cannot hold: counted at 0"), "{told}");
    check(&python, "hlog", &args([lossy.results(), log, lossy.out()]), 300);

    let killed = Run::killed();
    check(&python, "hlog", &args([killed.results(), killed.exported("hlog").0, killed.out()]), 50);

    let closed = Run::simulated("closed", PING_PONG, 0);
    check(&python, "hlog", &args([closed.results(), closed.exported("hlog").0, closed.out()]), 50);
}

/// The upper edge of the bucket that a log with five digits counts this value in.
fn upper_edge(ns: i64) -> i64 {
    ns | ((1 << (ns.max(1).ilog2().max(17) - 17)) - 1)
}

#[test]
fn the_documented_python_gives_the_packet_before_for_delta() {
    let Some(python) = python("the_documented_python_gives_the_packet_before_for_delta") else { return };
    let document = include_str!("../../docs/export.md");
    let snippet = document.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    // 59 997 pairs of neighbours: 0.99 of them is 59 397.03, which rounds down to the nearest.
    let run = Run::simulated("sound", sound(), 0);
    std::fs::rename(run.exported("hlog").0, run.path("run.hlog")).expect("the name of the example");
    let asked_for_99 = "\nprint(sums[\"all/ctl/delta\"].get_value_at_percentile(99))\n";
    let mut command = Command::new(python);
    command.args(["-B", "-c", &format!("{snippet}{asked_for_99}")]).current_dir(run.path(".")).env_remove("PYTHONPATH");
    let ended = output(&mut command);
    let told = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let printed: Vec<i64> = told.split_whitespace().map(|ns| ns.parse().expect("ns")).collect();
    let results: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.results()).expect("results")).expect("JSON");
    let figure = |metric: &str, field: &str| {
        upper_edge(results["cells"][0]["streams"]["ctl"]["metrics"][metric][field].as_i64().expect("a figure"))
    };
    let [p99, delta, delta_p99_9, naive] = printed[..] else { panic!("four figures: {told}") };
    assert_eq!(p99, figure("scheduled..rx_kernel", "p99_ns"));
    assert_eq!((delta, delta_p99_9), (figure("delta", "p99_ns"), figure("delta", "p99_9_ns")));
    assert!(naive < delta, "else rounding up was not needed here: {told}");
}

#[test]
fn jsonschema_accepts_what_is_written_and_refuses_what_is_wrong() {
    let test = "jsonschema_accepts_what_is_written_and_refuses_what_is_wrong";
    let Some(python) = python(test) else { return };
    let mut runs = vec![
        Run::simulated("sound", sound(), 0),
        Run::simulated("lossy", lossy(), 1),
        Run::killed(),
        Run::simulated("closed", PING_PONG, 0),
    ];
    if tardy_sys::process::may_build() {
        runs.push(Run::refused());
    } else {
        tardy_tests::skip(test, "a cell is refused only where a path is built, which needs root");
    }
    let schemas = runs[0].path("schemas");
    std::fs::create_dir(&schemas).expect("a folder");
    for kind in ["experiment", "results", "manifest"] {
        let printed = output(&mut tardy(&["schema", kind]));
        std::fs::write(schemas.join(format!("{kind}.json")), printed.stdout).expect("a file");
    }
    let mut all: Vec<OsString> = vec![schemas.into()];
    for run in &runs {
        let documents = [
            ("experiment", run.out().join("experiment.toml")),
            ("manifest", run.out().join("manifest.json")),
            ("results", run.out().join("results.json")),
            ("results", run.results()),
        ];
        // A run that was killed wrote no results.
        for (kind, path) in documents.into_iter().filter(|(_, path)| path.exists()) {
            all.push(format!("{kind}={}", path.display()).into());
        }
    }
    assert_eq!(all.len(), 1 + 4 * runs.len() - 1);
    check(&python, "schema", &all, 500);
}

/// The run again with hints in its samples: two structs in turn, and none at each 7th packet. What
/// writes them on a path needs root.
fn with_hints(run: &Run) {
    for n in 1..=3 {
        let path = run.out().join(format!("trials/all/{n}/samples.parquet"));
        let samples = SamplesFile::open(&path).expect("samples");
        let mut batches = samples.batches("ctl").expect("a stream");
        let mut batch = batches.next().expect("rows").expect("sound rows");
        assert!(batches.next().is_none(), "one batch is the whole stream");
        let place = |seq: i64| (seq % 7 != 0).then_some((seq % 2) as u8);
        let column = |name: &str, is_signed, value: fn(u8, i64) -> Option<i64>| HintColumn {
            name: name.to_owned(),
            is_signed,
            values: batch.seq.iter().map(|seq| value(place(*seq)?, *seq)).collect(),
        };
        batch.hints = Some(Hints {
            structs: vec!["arrival".to_owned(), "priority".to_owned()],
            of: batch.seq.iter().map(|seq| place(*seq)).collect(),
            columns: vec![
                column("time", false, |_, seq| Some(i64::MIN + seq)),
                column("gap", true, |of, seq| (of == 0).then_some(-seq)),
                column("priority.pcp", false, |of, seq| (of == 1).then_some(seq % 8)),
                column("stamp", false, |of, seq| (of == 1).then_some(2 * seq)),
            ],
        });
        std::fs::remove_file(&path).expect("the file as it was");
        write_samples(&path, &[("ctl", &batch)]).expect("the file again");
    }
}

#[test]
fn duckdb_reads_the_hints_of_two_layouts_by_their_members_names() {
    let Some(python) = python("duckdb_reads_the_hints_of_two_layouts_by_their_members_names") else { return };
    let run = Run::simulated("hints", "count = 2_000\n", 0);
    with_hints(&run);
    let schema = run.path("samples.json");
    std::fs::write(&schema, output(&mut tardy(&["schema", "samples"])).stdout).expect("a file");
    let (csv, _) = run.exported("csv");
    check(&python, "hints", &args([schema, csv, run.out()]), 12_000);
}

#[test]
fn duckdb_and_polars_read_the_samples_as_the_results_say() {
    let Some(python) = python("duckdb_and_polars_read_the_samples_as_the_results_say") else { return };
    for (run, least) in [
        (Run::simulated("sound", sound(), 0), 80),
        (Run::simulated("lossy", lossy(), 1), 250),
        (Run::killed(), 60),
        (Run::simulated("closed", PING_PONG, 0), 60),
    ] {
        let schema = run.path("samples.json");
        std::fs::write(&schema, output(&mut tardy(&["schema", "samples"])).stdout).expect("a file");
        let (csv, _) = run.exported("csv");
        check(&python, "samples", &args([run.results(), schema, csv, run.out()]), least);
    }
}

#[test]
fn a_parser_reads_the_junit_of_runs_and_comparisons() {
    let Some(python) = python("a_parser_reads_the_junit_of_runs_and_comparisons") else { return };
    for (run, least) in [
        (Run::simulated("sound", sound(), 0), 30),
        (Run::simulated("lossy", lossy(), 1), 60),
        (Run::killed(), 15),
        (Run::simulated("closed", PING_PONG, 0), 15),
    ] {
        let out = |name: &str| run.path(name);
        let report = output(tardy(&["report", "--format", "junit"]).arg(run.out()).arg("-o").arg(out("run.xml")));
        assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
        let conditions = ["--fail-if", "rx_kernel..receive p50 > +2%", "--fail-if", "lost > +0", "--format", "junit"];
        let mut compare = tardy(&["compare"]);
        compare.args([run.out(), run.out()]).args(conditions).arg("-o").arg(out("compare.xml"));
        let compared = output(&mut compare);
        assert!(matches!(compared.status.code(), Some(0 | 4)), "{}", String::from_utf8_lossy(&compared.stderr));
        check(&python, "junit", &args([run.results(), out("run.xml"), out("compare.xml")]), least);
    }
}

#[test]
fn prometheus_parses_every_figure() {
    let test = "prometheus_parses_every_figure";
    let Some(python) = python(test) else { return };
    let mut runs = vec![
        Run::simulated("sound", sound(), 0),
        Run::simulated("lossy", lossy(), 1),
        Run::killed(),
        Run::simulated("closed", PING_PONG, 0),
    ];
    if tardy_sys::process::may_build() {
        runs.push(Run::refused());
    }
    for run in runs {
        check(&python, "prometheus", &args([run.results(), run.exported("prometheus").0]), 150);
    }
}

#[test]
fn an_unknown_word_names_what_there_is() {
    let run = Run::simulated("sound", sound(), 0);
    for (word, says) in [
        (
            "pcap",
            "`pcap` is not something to export to: choose one of hlog, csv, prometheus, dataset, pcapng, perfetto",
        ),
        (
            "excel",
            "`excel` is not something to export to: choose one of hlog, csv, prometheus, dataset, pcapng, perfetto",
        ),
    ] {
        let ended = run.export(word);
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!((ended.status.code(), ended.stdout.len()), (Some(2), 0), "{told}");
        assert!(told.contains(says), "{told}");
    }
}

#[test]
fn a_folder_that_is_no_run_is_refused() {
    let run = Run::simulated("sound", sound(), 0);
    for folder in [run.path("nowhere"), run.path("."), run.path("experiment-asked.toml")] {
        let ended = output(tardy(&["export", "--to", "csv"]).arg(&folder));
        assert_eq!(ended.status.code(), Some(2), "{}: {}", folder.display(), String::from_utf8_lossy(&ended.stderr));
    }
    std::fs::write(run.out().join("results.json"), "{").expect("a file");
    let ended = run.export("csv");
    assert_eq!(ended.status.code(), Some(2), "damaged results are reported, not passed over");
}

#[test]
fn stdout_and_file_hold_the_same_bytes_and_a_file_is_replaced_whole() {
    let run = Run::simulated("lossy", lossy(), 1);
    for (to, extension) in [("hlog", "hlog"), ("csv", "csv"), ("prometheus", "prom")] {
        let printed = run.export(to);
        assert_eq!(printed.status.code(), Some(0));
        let (path, _) = run.exported(to);
        assert!(std::fs::read(&path).expect("a file") == printed.stdout, "{to}");
        std::fs::write(&path, "something older, and longer".repeat(1_000_000)).expect("a file");
        run.exported(to);
        assert!(std::fs::read(&path).expect("a file") == printed.stdout, "{to} over another file");
        // Into a folder, under the experiment's name.
        let ended = output(tardy(&["export", "--to", to, "-o"]).arg(run.path(".")).arg(run.out()));
        assert_eq!(ended.status.code(), Some(0));
        let named = std::fs::read(run.path(&format!("lossy.{extension}"))).expect("a file");
        assert!(named == printed.stdout, "{to} into a folder");
    }
    let left = std::fs::read_dir(run.path(".")).expect("a folder").flatten();
    let left: Vec<_> = left.filter(|entry| entry.file_name().to_string_lossy().ends_with(".tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error_and_a_full_disk_is_one() {
    let run = Run::simulated("lossy", lossy(), 1);
    for to in ["hlog", "csv", "prometheus"] {
        let mut command = tardy(&["export", "--to", to]);
        let mut child =
            command.arg(run.out()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tardy starts");
        let mut first = [0; 10];
        child.stdout.take().expect("a pipe").read_exact(&mut first).expect("ten bytes");
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(0), "{to}: {}", String::from_utf8_lossy(&ended.stderr));

        let full = || File::options().write(true).open("/dev/full").expect("/dev/full");
        for command in [
            tardy(&["export", "--to", to]).arg(run.out()).stdout(full()),
            tardy(&["export", "--to", to, "-o", "/dev/full"]).arg(run.out()),
        ] {
            let ended = output(command);
            let told = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(ended.status.code(), Some(3), "{to}: {told}");
            assert!(told.contains("No space left"), "{told}");
        }
    }
}

#[test]
fn a_run_without_a_finished_trial_has_a_head_and_no_rows() {
    let run = Run::simulated("sound", sound(), 0);
    std::fs::remove_dir_all(run.out().join("trials")).expect("the trials are removed");
    std::fs::remove_file(run.out().join("results.json")).expect("the results are removed");
    let csv = text(&run.exported("csv").0);
    assert_eq!(csv, "cell,trial,in_figures,stream,seq,scheduled_ns,outcome,flags,pcp,delta\n");
    let log = text(&run.exported("hlog").0);
    assert!(
        log.starts_with("#[Histogram log format version 1.3]\n") && log.lines().all(|l| l.starts_with('#')),
        "{log}"
    );
    let figures = text(&run.exported("prometheus").0);
    assert!(figures.contains("tardy_run_valid{experiment=\"sound\"} 0\n"), "{figures}");
}

/// By hand: the class is open from 200 to 300 and from 700 to 800 µs of each millisecond.
fn opened_before(at: i64) -> i64 {
    let opened = (at - 200_000).rem_euclid(500_000);
    at - opened
}

#[test]
fn each_packet_has_its_window_how_far_outside_it_left_and_its_slip() {
    let run = Run::simulated("gated", gated(), 0);
    let csv = text(&run.exported("csv").0);
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a head");
    let gates = ["window_opens_ns", "window_closes_ns", "outside_ns", "slip_gate_cycles", "slip_stream_cycles"];
    assert_eq!(head[head.len() - gates.len()..], gates);
    let column = |name: &str| head.iter().position(|known| *known == name).expect("a column");
    let (mut inside, mut slips) = (0, BTreeMap::<i64, u64>::new());
    for row in rows {
        let number = |name: &str| row[column(name)].parse::<i64>().unwrap_or_else(|_| panic!("{name}: {row:?}"));
        let scheduled = number("scheduled_ns");
        let left = scheduled + number("scheduled..tx_kernel");
        // Scheduled early in a window, it belongs to that one.
        let [own, by] = [scheduled, left].map(opened_before);
        assert!(scheduled - own < 100_000, "{row:?}");
        assert_eq!(gates.map(number), [own, own + 100_000, 0, (by - own) / 1_000_000, (by - own) / 500_000], "{row:?}");
        assert!(left - by < 100_000, "{row:?}");
        inside += 1;
        *slips.entry((by - own) / 500_000).or_default() += 1;
    }
    let results: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.results()).expect("results")).expect("JSON");
    let told = &results["cells"][0]["streams"]["ctl"]["gates"];
    assert_eq!(told["inside"], inside);
    assert_eq!(told["slips_stream_cycles"], serde_json::to_value(&slips).expect("JSON"));
    assert!(inside == 6_000 && slips[&0] > 4_000 && slips[&1] > 100, "{slips:?}");
}
