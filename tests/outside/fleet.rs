// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many runs as one data set: `tardy export --to dataset` writes it, and the Python package reads
//! it, as DuckDB, pandas, Polars and Spark read its rows.

use crate::tools::{args, check_with, python};
use crate::{PING_PONG, Run, lossy, output, sound, tardy, text};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tardy_model::point::Point;
use tardy_model::sample::{MaybeNanos, Outcome};
use tardy_store::{SamplesFile, write_samples};
use tempfile::TempDir;

/// Has the package read something.
fn check(python: &Path, what: &str, args: &[OsString], least: u32) {
    check_with(python, "outside/fleet.py", what, args, least);
}

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../python")
}

fn folder() -> TempDir {
    TempDir::with_prefix("tardy-fleet-").expect("a temporary folder")
}

/// The run's folder under another name.
fn named(run: &Run, name: &str) -> PathBuf {
    let path = run.path(name);
    std::fs::rename(run.out(), &path).expect("a new name");
    path
}

fn into(set: &Path, more: &[&str], runs: &[&Path]) -> Output {
    output(tardy(&["export", "--to", "dataset", "-o"]).arg(set).args(more).args(runs))
}

fn told(ended: &Output) -> String {
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

/// Every file below a folder, with its bytes.
fn files(at: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(at).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let bytes = std::fs::read(&path).expect("a file");
            found.push((path, bytes));
        }
    }
    found.sort();
    found
}

/// Every 50th packet lacks its stamp at `rx_kernel`, and every 70th the one at `send`; one in 90
/// never arrived. What the run wrote of it before is gone, and judged anew.
fn with_holes(run: &Run) {
    for n in 1..=3 {
        let path = run.out().join(format!("trials/all/{n}/samples.parquet"));
        let mut batches = SamplesFile::open(&path).expect("samples").batches("ctl").expect("a stream");
        let mut all = batches.next().expect("rows").expect("sound rows");
        assert!(batches.next().is_none(), "one batch is the whole stream");
        for row in 0..all.len() {
            let mut without = |point: Point| {
                if let Some(column) = &mut all.offsets[point.index()] {
                    column[row] = MaybeNanos::NONE;
                }
            };
            if row % 50 == 7 {
                without(Point::RxKernel);
            }
            if row % 70 == 9 {
                without(Point::Send);
            }
            if row % 90 == 11 {
                without(Point::RxKernel);
                without(Point::Receive);
                all.outcome[row] = Outcome::Lost;
            }
        }
        std::fs::remove_file(&path).expect("the file as it was");
        write_samples(&path, &[("ctl", &all)]).expect("the file again");
    }
    std::fs::remove_file(run.out().join("results.json")).expect("what held before");
    std::fs::rename(run.results(), run.out().join("results.json")).expect("what holds now");
}

/// Runs of several experiments from several hosts, in a set: `samples.json` is the schema.
fn fleet(at: &Path) -> (PathBuf, PathBuf, Vec<(Run, PathBuf)>) {
    let holes = Run::simulated("holes", "count = 2_000\n[stream.ctl.sim]\njitter = \"50us\"\n", 0);
    with_holes(&holes);
    let runs = [
        (Run::simulated("sound", sound(), 0), "sound", vec!["--host", "left", "--commit", "1f2e"]),
        (Run::simulated("lossy", lossy(), 1), "lossy", vec!["--host", "right"]),
        (Run::simulated("closed", PING_PONG, 0), "closed", vec!["--host", "left"]),
        (holes, "holes", vec!["--host", "a/b=c d%"]),
    ];
    let set = at.join("set");
    let mut made = Vec::new();
    for (run, name, labels) in runs {
        let path = named(&run, name);
        let ended = into(&set, &labels, &[&path]);
        assert_eq!(ended.status.code(), Some(0), "{}", told(&ended));
        made.push((run, path));
    }
    let schema = at.join("samples.json");
    std::fs::write(&schema, output(&mut tardy(&["schema", "samples"])).stdout).expect("a file");
    (set, schema, made)
}

#[test]
fn the_package_s_percentiles_are_those_of_all_rows() {
    let Some(python) = python("the_package_s_percentiles_are_those_of_all_rows") else { return };
    let at = folder();
    let (set, schema, _runs) = fleet(at.path());
    check(&python, "groups", &args([set, schema]), 700);
}

#[test]
fn the_package_s_percentiles_are_those_of_the_results() {
    let Some(python) = python("the_package_s_percentiles_are_those_of_the_results") else { return };
    let at = folder();
    let (set, _, runs) = fleet(at.path());
    let pairs: Vec<OsString> =
        runs.iter().map(|(_, run)| format!("{}:{}", run.display(), set.display()).into()).collect();
    check(&python, "results", &pairs, 500);
}

#[test]
fn two_workers_of_spark_give_the_same_percentiles() {
    let test = "two_workers_of_spark_give_the_same_percentiles";
    let Some(python) = python(test) else { return };
    let has = |command: &mut Command| command.output().is_ok_and(|ended| ended.status.success());
    if !has(Command::new(&python).args(["-c", "import pyspark, pandas"])) || !has(Command::new("java").arg("-version"))
    {
        return tardy_tests::skip(test, "Spark is half a gigabyte and needs Java: `make setup-soak` brings both");
    }
    let at = folder();
    let (set, schema, _runs) = fleet(at.path());
    check(&python, "spark", &args([set, schema]), 8);
}

#[test]
fn spoilt_runs_of_a_data_set_are_named_and_the_others_read() {
    let Some(python) = python("spoilt_runs_of_a_data_set_are_named_and_the_others_read") else { return };
    let at = folder();
    let set = at.path().join("set");
    for name in ["one", "two", "three"] {
        let run = Run::simulated("sound", sound(), 0);
        let path = named(&run, name);
        // One partition for all: only their names differ.
        let ended = into(&set, &["--host", "here"], &[&path]);
        assert_eq!(ended.status.code(), Some(0), "{}", told(&ended));
    }
    check(&python, "hostile", &args([set]), 40);
}

#[test]
fn a_run_is_in_a_data_set_once_and_another_of_its_name_is_left_out() {
    let (first, second) = (Run::simulated("sound", sound(), 0), Run::simulated("sound", sound(), 0));
    let at = folder();
    let set = at.path().join("some/set");
    let ended = into(&set, &[], &[&first.out()]);
    assert_eq!((ended.status.code(), told(&ended)), (Some(0), String::new()));
    let written = files(&set);
    assert_eq!(written.len(), 3 + 2, "three trials, the histograms, what is known of the run: {written:?}");
    for (path, bytes) in written.iter().filter(|(path, _)| path.ends_with("samples.parquet")) {
        let trial = path.parent().and_then(Path::to_str).and_then(|path| path.rsplit('=').next()).expect("a trial");
        let own = std::fs::read(first.out().join(format!("trials/all/{trial}/samples.parquet"))).expect("samples");
        assert!(*bytes == own, "{}: the trial's own bytes", path.display());
    }

    let ended = into(&set, &[], &[&first.out()]);
    assert_eq!(ended.status.code(), Some(0));
    assert!(told(&ended).contains("run is in ") && told(&ended).contains(" already"), "{}", told(&ended));
    assert_eq!(files(&set), written);

    // Of several runs the others are written, whatever becomes of one.
    let third = Run::simulated("sound", sound(), 0);
    let third = named(&third, "third");
    let ended = into(&set, &[], &[&second.out(), &third]);
    assert_eq!(ended.status.code(), Some(2), "{}", told(&ended));
    let says = format!("left out {}: another run is called `run` in {}", second.out().display(), set.display());
    assert!(told(&ended).contains(&says) && told(&ended).contains("rename this run's folder"), "{}", told(&ended));
    assert_eq!(files(&set).len(), 2 * written.len());
    assert!(files(&set).iter().all(|(path, _)| !path.to_string_lossy().contains(".tmp")));
}

#[test]
fn a_damaged_and_a_newer_run_are_left_out_of_a_data_set_and_named() {
    let runs: Vec<Run> = (0..5).map(|_| Run::simulated("sound", sound(), 0)).collect();
    let paths: Vec<PathBuf> =
        runs.iter().zip(["newer", "cut", "none", "good", "later"]).map(|(run, name)| named(run, name)).collect();
    let manifest = paths[0].join("manifest.json");
    std::fs::write(&manifest, text(&manifest).replace("\"format\": 1,", "\"format\": 7,")).expect("a file");
    let samples = paths[1].join("trials/all/2/samples.parquet");
    let bytes = std::fs::read(&samples).expect("samples");
    std::fs::write(&samples, &bytes[..bytes.len() / 2]).expect("half of them");
    std::fs::remove_dir_all(paths[2].join("trials")).expect("the trials are removed");
    let at = folder();
    let set = at.path().join("set");
    let nowhere = at.path().join("nowhere");
    let all: Vec<&Path> = paths.iter().map(PathBuf::as_path).chain([nowhere.as_path()]).collect();
    let ended = into(&set, &["--host", "h"], &all);
    assert_eq!(ended.status.code(), Some(2), "{}", told(&ended));
    let lines: Vec<String> = told(&ended).lines().filter(|line| line.contains("left out")).map(str::to_owned).collect();
    for (line, (run, why)) in lines.iter().zip([
        ("newer", "made by a newer tardy: format 7"),
        ("cut", "cannot read"),
        ("none", "has no finished trial"),
        ("nowhere", "there is no folder"),
    ]) {
        assert!(line.contains(&format!("/{run}: ")) && line.contains(why), "{line}");
    }
    assert_eq!(lines.len(), 4, "{lines:?}");
    let kept: Vec<String> = files(&set).iter().map(|(path, _)| path.display().to_string()).collect();
    assert!(kept.iter().all(|path| path.contains("run=good") || path.contains("run=later")), "{kept:?}");
    assert_eq!(kept.len(), 10, "nothing of the others is left: {kept:?}");
}

#[test]
fn a_killed_run_is_judged_on_its_way_into_a_data_set() {
    let run = Run::killed();
    let at = folder();
    let set = at.path().join("set");
    let ended = into(&set, &[], &[&run.out()]);
    assert_eq!(ended.status.code(), Some(0), "{}", told(&ended));
    let about = files(&set).into_iter().find(|(path, _)| path.ends_with("_run.json")).expect("what is known of it");
    let about: serde_json::Value = serde_json::from_slice(&about.1).expect("JSON");
    let judged: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.results()).expect("results")).expect("JSON");
    let trials = about["trials"].as_array().expect("trials");
    assert_eq!(trials.len(), judged["cells"][0]["trials"].as_array().expect("trials").len());
    let count: u64 = trials
        .iter()
        .map(|trial| trial["streams"]["ctl"]["metrics"]["scheduled..rx_kernel"]["count"].as_u64().expect("a count"))
        .sum();
    assert_eq!(judged["cells"][0]["streams"]["ctl"]["metrics"]["scheduled..rx_kernel"]["count"], count);
}

#[test]
fn a_data_set_needs_a_folder_and_other_tools_one_run() {
    let run = Run::simulated("sound", sound(), 0);
    let out = run.out();
    let out = out.to_str().expect("a path");
    for (args, says) in [
        (vec!["--to", "dataset", out], "`--to dataset` writes into a folder: name it with -o"),
        (vec!["--to", "csv", out, out], "--to csv takes one run, and 2 are named"),
        (vec!["--to", "csv", "--host", "h", out], "--host and --commit are of a data set"),
    ] {
        let ended = output(tardy(&["export"]).args(&args));
        assert_eq!((ended.status.code(), ended.stdout.len()), (Some(2), 0), "{args:?}");
        assert!(told(&ended).contains(says), "{args:?}: {}", told(&ended));
    }
    let ended = into(&run.path("experiment-asked.toml"), &[], &[&run.out()]);
    assert!(matches!(ended.status.code(), Some(2 | 3)), "{}", told(&ended));
    assert!(told(&ended).contains("is not a folder"), "{}", told(&ended));
}

#[test]
fn the_package_brings_no_frame_library_and_has_strict_types() {
    let Some(python) = python("the_package_brings_no_frame_library_and_has_strict_types") else { return };
    let source = package().join("src");
    let code = "import sys, tardy; print(sorted({'pandas', 'polars', 'pyspark', 'numpy'} & set(sys.modules)), tardy.__version__)";
    let ended = output(Command::new(&python).args(["-B", "-c", code]).env("PYTHONPATH", &source));
    let version = String::from_utf8_lossy(&output(&mut tardy(&["--version"])).stdout).into_owned();
    let version = version.split_whitespace().nth(1).expect("a version").to_owned();
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    // Arrow itself may bring numpy, where it is there.
    assert!(
        printed == format!("[] {version}\n") || printed == format!("['numpy'] {version}\n"),
        "{printed}{}",
        told(&ended)
    );

    let at = folder();
    let mut mypy = Command::new(&python);
    mypy.args(["-m", "mypy", "--cache-dir"]).arg(at.path()).current_dir(package()).env_remove("PYTHONPATH");
    let ended = output(&mut mypy);
    assert!(ended.status.success(), "{}{}", String::from_utf8_lossy(&ended.stdout), told(&ended));

    // Installed as a user would have it.
    let copy = at.path().join("package");
    let copied = output(Command::new("cp").arg("-r").arg(package()).arg(&copy));
    assert!(copied.status.success(), "{}", told(&copied));
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target"]);
    let ended = output(pip.arg(at.path().join("there")).arg(&copy).env_remove("PYTHONPATH"));
    assert!(ended.status.success(), "{}", told(&ended));
    let there = at.path().join("there/tardy");
    assert!(there.join("py.typed").is_file() && there.join("data.py").is_file());
    let about = text(&at.path().join(format!("there/tardy-{version}.dist-info/METADATA")));
    for line in ["License-Expression: MIT OR Apache-2.0", "Requires-Dist: pyarrow>=17", "License-File: LICENSE-MIT"] {
        assert!(about.lines().any(|of| of == line), "{line}: {about}");
    }
}

#[test]
fn the_documented_python_reads_a_fleet() {
    let Some(python) = python("the_documented_python_reads_a_fleet") else { return };
    let at = folder();
    let (set, _, _runs) = fleet(at.path());
    std::fs::rename(set, at.path().join("latency")).expect("the name of the examples");
    let document = include_str!("../../docs/how-to/fleet.md");
    let examples: Vec<&str> =
        document.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 3, "{}", examples.len());
    for example in examples.into_iter().filter(|example| !example.contains("SparkSession")) {
        let mut command = Command::new(&python);
        command.args(["-B", "-c", example]).current_dir(at.path()).env("PYTHONPATH", package().join("src"));
        let ended = output(&mut command);
        assert!(ended.status.success(), "{example}\n{}", told(&ended));
        assert!(!ended.stdout.is_empty(), "{example}");
    }
}
