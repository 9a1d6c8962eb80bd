// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built binary and copies: simulated ones give what was put in, in every format; what cannot
//! be copied is refused with code 2, before a folder is made.

use crate::help::tardy;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn call(arguments: &[&str], out: &Path) -> Output {
    let mut command = Command::new(tardy());
    command.args(arguments).arg("--out").arg(out).env("COLUMNS", "100").stdin(Stdio::null());
    command.output().unwrap_or_else(|error| panic!("{error}: run `make build` first"))
}

fn says(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_cannot_be_copied_is_refused_with_code_2_and_says_why() {
    let keep = tempfile::tempdir().expect("a folder");
    let refused = [
        (vec!["copy", "--bytes", "0"], "copy.bytes"),
        (vec!["copy", "--bytes", "16000000MiB"], "MiB are available: take fewer threads"),
        (vec!["copy", "--threads", "1000", "--buffers", "1000000"], "MiB are available: take fewer threads"),
        (vec!["copy", "--threads", "2000"], "write at most 1024"),
        (vec!["copy", "--bind", "4095"], "names CPU 4095, and this process may use only"),
        (vec!["copy", "--policy", "fifo:200"], "the priority is not 1 to 99"),
        (vec!["copy", "--policy", "deadline:1ms/2ms/2ms"], "a copy has no period"),
        (vec!["copy", "--method", "dma"], "known here: memcpy, non-temporal, rep-movsb"),
        (vec!["run", "copy", "--set", "copy.total=7", "--set", "copy.threads=2"], "no equal number"),
        (vec!["run", "copy", "--set", "path.kind=veth"], "has no meaning for a copy"),
        (vec!["run", "host-to-host", "--set", "copy.threads=2"], "the experiment is of packets"),
        (vec!["run", "host-to-host", "--set", "stream.ctl.metrics=[\"begin..end\"]"], "of a copying thread"),
    ];
    for (arguments, why) in refused {
        let out = keep.path().join("run");
        let (code, said) = says(&call(&arguments, &out));
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert!(!out.exists(), "{arguments:?} made a folder");
    }
}

#[test]
fn a_simulated_copy_is_the_same_live_and_from_its_folder_in_every_format() {
    let keep = tempfile::tempdir().expect("a folder");
    let out = keep.path().join("run");
    let arguments = ["run", "copy", "--json", "--set", "copy.backend=sim", "--set", "copy.threads=8"];
    let output = call(&[&arguments[..], &["--set", "copy.sim.overlap=0.0", "--trials", "5"]].concat(), &out);
    assert_eq!(says(&output).0, Some(0), "{}", says(&output).1);
    let live: Value = serde_json::from_slice(&output.stdout).expect("results");
    let copy = &live["cells"][0]["streams"]["copy"]["copy"];
    assert_eq!(copy["may_be_added_up"], false);
    assert!((copy["times_less"].as_f64().expect("a figure") - 8.0).abs() < 0.05, "{copy}");
    let report = |format: &str| {
        let output = Command::new(tardy()).args(["report", "--format", format]).arg(&out).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let again: Value = serde_json::from_str(&report("json")).expect("results");
    assert_eq!(again["cells"], live["cells"], "the folder has all that the verdict rests on");
    for format in ["text", "md", "org", "html"] {
        let text = report(format);
        let plain = text.replace("&#39;", "'").split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["8.0 times less in parallel", "Mbit/s, each thread's own added up", "threads copied at once"] {
            assert!(plain.contains(part), "{format} lacks {part}: {text}");
        }
    }
}

#[test]
fn the_reference_is_next_to_this_runs_sums_and_walls() {
    let keep = tempfile::tempdir().expect("a folder");
    let out = keep.path().join("run");
    let sets = ["--set", "copy.backend=sim", "--set", "copy.iterations=20", "--set", "copy.threads=1"];
    let output = call(&[&["run", "copy-parallel", "--trials", "1"], &sets[..]].concat(), &out);
    assert_eq!(says(&output).0, Some(0), "{}", says(&output).1);
    let output = Command::new(tardy()).args(["report", "--format", "org"]).arg(&out).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let (_, table) = text.split_once("Compared with reference results R5").expect("the reference is named");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).filter(|part| !part.is_empty()).collect())
        .collect();
    let at = rows.iter().position(|row| row.first() == Some(&"locked-locked-6580")).expect("its row");
    assert_eq!(rows[at][1], "this run, over the wall");
    assert_eq!(rows[at + 1][0], "this run, added up");
    assert_eq!(rows[at + 2], ["R5", "26434", "33006"]);
    // Four threads of 80 Gbit/s each that copied all the time.
    for figure in &rows[at][2..] {
        let mbit_s: f64 = figure.parse().expect("a figure");
        assert!((mbit_s - 320_000.0).abs() < 5_000.0, "{figure}");
    }
}

#[test]
fn a_real_copy_by_two_threads_gives_both_bandwidths_whatever_the_machine_does() {
    let keep = tempfile::tempdir().expect("a folder");
    let out = keep.path().join("run");
    let flags = ["--threads", "2", "--iterations", "20", "--from", "locked", "--to", "locked", "--trials", "1"];
    for method in ["memcpy", "non-temporal", "rep-movsb"] {
        let output = call(&[&["copy", "--json", "--method", method], &flags[..]].concat(), &out.join(method));
        let (code, said) = says(&output);
        // On a busy machine the figures may not be valid.
        assert!(matches!(code, Some(0 | 4)), "{method}: {code:?} {said}");
        let results: Value = serde_json::from_slice(&output.stdout).expect("results");
        let copy = &results["cells"][0]["streams"]["copy"]["copy"];
        let figure = |name: &str| copy[name].as_f64().unwrap_or_else(|| panic!("{name}: {copy}"));
        assert_eq!(copy["bytes"], 2 * 20 * 48 * 4_096);
        assert!(figure("wall_bytes_s") > 0.0 && figure("sum_bytes_s") >= figure("wall_bytes_s") * 0.999, "{copy}");
        assert!(figure("parallelism") > 0.0, "{copy}");
        let in_flight: f64 = copy["in_flight_ns"].as_array().expect("a list").iter().filter_map(Value::as_f64).sum();
        assert_eq!(in_flight, figure("wall_ns"), "every moment is counted once");
    }
}
