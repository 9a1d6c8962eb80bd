// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run folder's files and trials, also after a kill, on a full disk, or made by a newer tardy.

use super::{new_run, realistic};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tardy_model::machine::MachineState;
use tardy_model::manifest::{CellEntry, Manifest};
use tardy_model::placement::PlacementRecord;
use tardy_model::result::Results;
use tardy_model::time::{ClockReading, Nanos};
use tardy_model::trial::TrialRecord;
use tardy_store::{RunFolder, StoreError, TrialId, write_samples};

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_as_such() {
    let error = write_samples(Path::new("/dev/full"), &[("ctl", &realistic(10_000, 1))]).unwrap_err();
    assert!(error.is_disk_full(), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("cannot write /dev/full: No space left on device"), "{text}");
    assert!(text.ends_with("free some space there, or choose a folder on another disk"), "{text}");

    let (_keep, run) = new_run();
    let missing = RunFolder::open(run.path().join("nowhere")).unwrap_err();
    assert!(!missing.is_disk_full());
}

fn manifest() -> Manifest {
    let cell = |id: &str| CellEntry { id: id.to_owned(), trials: 2, ..CellEntry::default() };
    Manifest {
        format: tardy_model::FORMAT,
        tardy: "0.1.0".to_owned(),
        name: "host-to-host".to_owned(),
        cells: vec![cell("rx.wait=poll"), cell("rx.wait=block")],
        ..Manifest::default()
    }
}

fn record(cell: &str, n: u32) -> TrialRecord {
    let state = MachineState {
        clocks: ClockReading { tai_ns: 37, realtime_ns: 0, monotonic_ns: 0, bound_ns: 1, tai_offset_s: 0 },
        cpus: BTreeMap::new(),
        work: BTreeMap::new(),
        load_tasks: Default::default(),
        ended: None,
        tasks: BTreeMap::new(),
        rt_limit: None,
        cpu_dma_latency_us: None,
        other_runs: 0,
    };
    TrialRecord {
        format: tardy_model::FORMAT,
        cell: cell.to_owned(),
        n,
        order: 0,
        nonce: "00ff".to_owned(),
        phase_ns: 17,
        base_tai_ns: 1_763_000_000_000_000_000,
        interrupted: false,
        failed: None,
        before: state.clone(),
        after: state,
        streams: BTreeMap::new(),
        loads: BTreeMap::new(),
        hosts: BTreeMap::new(),
        placement: PlacementRecord::default(),
        shapers: BTreeMap::new(),
        observer: Vec::new(),
    }
}

#[test]
fn a_run_folder_is_new_or_empty() {
    let (keep, run) = new_run();
    assert!(matches!(RunFolder::create(run.path()), Err(StoreError::NotEmpty { .. })), "it is somebody's already");
    let empty = keep.path().join("empty");
    fs::create_dir(&empty).unwrap();
    RunFolder::create(&empty).unwrap();
    let file = keep.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(RunFolder::create(&file), Err(StoreError::NotAFolder { .. })));
    assert!(matches!(
        RunFolder::create(file.join("below")),
        Err(StoreError::NotAFolder { .. } | StoreError::Io { .. })
    ));
    let full = keep.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("thesis.tex"), "x").unwrap();
    let error = RunFolder::create(&full).unwrap_err().to_string();
    assert!(error.contains("is not empty, and a run is never written over another"), "{error}");
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1, "nothing was put into it");
}

#[test]
fn every_file_of_the_run_is_read_back() {
    let (_keep, run) = new_run();
    let mut manifest = manifest();
    run.write_manifest(&manifest).unwrap();
    manifest.ended_utc = Some("2026-11-21T12:00:00Z".to_owned());
    run.write_manifest(&manifest).unwrap();
    run.write_experiment("name = \"host-to-host\"\n").unwrap();
    run.append_commands("ip netns add a").unwrap();
    run.append_commands("ip netns add b\n").unwrap();
    run.append_event(&serde_json::json!({"event": "begin"})).unwrap();
    run.append_event(&serde_json::json!({"event": "end", "text": "two\nlines"})).unwrap();
    run.write_report(b"<!doctype html>").unwrap();
    let results = Results {
        format: tardy_model::FORMAT,
        name: "host-to-host".to_owned(),
        valid: true,
        expectations_met: None,
        expectations: Vec::new(),
        fingerprint: None,
        validity: Default::default(),
        cells: Vec::new(),
        verdicts: Vec::new(),
    };
    run.write_results(&results).unwrap();

    let opened = RunFolder::open(run.path()).unwrap();
    assert_eq!(opened.manifest().unwrap(), manifest);
    assert_eq!(opened.results().unwrap(), results);
    assert_eq!(opened.experiment().unwrap(), "name = \"host-to-host\"\n");
    let text = |name: &str| fs::read_to_string(run.path().join(name)).unwrap();
    assert_eq!(text("commands.sh"), "#!/bin/sh\nset -e\nip netns add a\nip netns add b\n");
    assert_eq!(text("events.jsonl"), "{\"event\":\"begin\"}\n{\"event\":\"end\",\"text\":\"two\\nlines\"}\n");
    assert_eq!(text("report.html"), "<!doctype html>");
    let mut names: Vec<_> =
        fs::read_dir(run.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let contract =
        ["commands.sh", "events.jsonl", "experiment.toml", "manifest.json", "report.html", "results.json", "trials"];
    assert_eq!(names, contract, "no temporary file stays");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(run.path().join("commands.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0, "commands.sh is read before it is run");
    }
}

#[test]
fn a_trial_counts_only_once_it_is_finished() {
    let (_keep, run) = new_run();
    run.write_manifest(&manifest()).unwrap();
    let batch = realistic(500, 1);
    for (cell, n) in [("rx.wait=block", 1), ("rx.wait=poll", 10), ("rx.wait=poll", 2)] {
        let trial = run.begin_trial(cell, n).unwrap();
        trial.write_samples(&[("ctl", &batch)]).unwrap();
        trial.write_histograms("ctl", Nanos::ZERO, &BTreeMap::new()).unwrap();
        trial.write_record(&record(cell, n)).unwrap();
        assert!(!run.trials().unwrap().contains(&TrialId { cell: cell.to_owned(), n }), "not yet");
        trial.finish().unwrap();
    }
    // Killed: after the folder was made; in the middle of a file; with every file whole and only
    // the rename missing.
    drop(run.begin_trial("rx.wait=poll", 3).unwrap());
    let torn = run.begin_trial("rx.wait=poll", 4).unwrap();
    fs::write(torn.path().join("samples.parquet"), b"PAR1 and no more").unwrap();
    let whole = run.begin_trial("rx.wait=block", 2).unwrap();
    whole.write_samples(&[("ctl", &batch)]).unwrap();
    whole.write_record(&record("rx.wait=block", 2)).unwrap();
    drop(whole);
    // What is not tardy's is not a trial.
    fs::create_dir_all(run.path().join("trials/rx.wait=poll/notes")).unwrap();
    fs::create_dir_all(run.path().join("trials/rx.wait=poll/07")).unwrap();

    let opened = RunFolder::open(run.path()).unwrap();
    let names = |trials: Vec<TrialId>| trials.into_iter().map(|t| format!("{}/{}", t.cell, t.n)).collect::<Vec<_>>();
    assert_eq!(names(opened.trials().unwrap()), ["rx.wait=poll/2", "rx.wait=poll/10", "rx.wait=block/1"]);
    assert_eq!(names(opened.unfinished().unwrap()), ["rx.wait=poll/3", "rx.wait=poll/4", "rx.wait=block/2"]);
    for trial in opened.trials().unwrap() {
        assert_eq!(opened.record(&trial.cell, trial.n).unwrap(), record(&trial.cell, trial.n));
        let batches: Result<Vec<_>, _> = opened.batches(&trial.cell, trial.n, "ctl").unwrap().collect();
        assert_eq!(batches.unwrap(), std::slice::from_ref(&batch));
    }
    assert!(matches!(opened.samples("rx.wait=poll", 3), Err(StoreError::NoSuchTrial { .. })));
    let error = opened.batches("rx.wait=poll", 2, "bulk").err().unwrap().to_string();
    assert!(error.ends_with("samples.parquet has no stream `bulk`; it has ctl"), "{error}");
}

#[test]
fn a_trial_is_written_once_whole_and_under_its_own_name() {
    let (_keep, run) = new_run();
    let trial = run.begin_trial("all", 1).unwrap();
    assert!(matches!(run.begin_trial("all", 1), Err(StoreError::TrialExists { .. })));
    trial.write_samples(&[]).unwrap();
    assert!(matches!(trial.finish(), Err(StoreError::Incomplete { lacks: "trial.json", .. })));
    for name in ["", ".", "..", "../x", "a/b", "a b", ".hidden", "a\0", "ü"] {
        assert!(matches!(run.begin_trial(name, 1), Err(StoreError::Name { .. })), "{name}");
        assert!(matches!(run.record(name, 1), Err(StoreError::Name { .. })), "{name}");
    }
    let trial = run.begin_trial("A-only,rx.wait=block", 1).unwrap();
    assert!(matches!(trial.write_histograms("../ctl", Nanos::ZERO, &BTreeMap::new()), Err(StoreError::Name { .. })));
}

#[test]
fn a_run_that_cannot_be_read_says_why() {
    let (keep, run) = new_run();
    let error = RunFolder::open(run.path()).unwrap_err().to_string();
    assert!(error.contains("is not a run folder: it holds no manifest.json"), "{error}");
    assert!(matches!(RunFolder::open(keep.path().join("nowhere")), Err(StoreError::Io { tried: "open", .. })));

    run.write_manifest(&manifest()).unwrap();
    let path = run.path().join("manifest.json");
    let whole = fs::read(&path).unwrap();
    for length in (0..whole.len() - 2).step_by(7) {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(matches!(RunFolder::open(run.path()), Err(StoreError::Damaged { .. })), "cut to {length}");
    }
    fs::write(&path, br#"{"format": 2, "all": "different"}"#).unwrap();
    let error = RunFolder::open(run.path()).unwrap_err();
    assert!(matches!(error, StoreError::Newer { format: 2, .. }));
    assert!(error.to_string().contains("made by a newer tardy: format 2, this one reads 1"), "{error}");
    fs::write(&path, b"\xff\xfe\x00").unwrap();
    let error = RunFolder::open(run.path()).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot read ") && error.contains("manifest.json") && error.contains("copy it again"),
        "{error}"
    );
}
