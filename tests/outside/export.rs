// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy export` as a user calls it: words, files, pipes, folders that are no runs.

use crate::runs::{GATED, LOSSY, Run, SOUND, output, tardy, text};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::process::Stdio;

#[test]
fn an_unknown_word_names_what_there_is() {
    let run = Run::simulated("sound", SOUND, 0);
    for (word, says) in [
        ("pcapng", "cannot export to `pcapng` yet: choose one of hlog, csv, prometheus"),
        ("perfetto", "cannot export to `perfetto` yet: choose one of hlog, csv, prometheus"),
        ("excel", "`excel` is not something to export to: choose one of hlog, csv, prometheus"),
    ] {
        let ended = run.export(word);
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!((ended.status.code(), ended.stdout.len()), (Some(2), 0), "{told}");
        assert!(told.contains(says), "{told}");
    }
}

#[test]
fn a_folder_that_is_no_run_is_refused() {
    let run = Run::simulated("sound", SOUND, 0);
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
    let run = Run::simulated("lossy", LOSSY, 1);
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
    let run = Run::simulated("lossy", LOSSY, 1);
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
    let run = Run::simulated("sound", SOUND, 0);
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
    let run = Run::simulated("gated", GATED, 0);
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
