// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run folder's files and trials, also after a kill, on a full disk, or made by a newer tardy.
//! `<stream>.hlog` is read back by the HdrHistogram library, to three digits, and is the same as
//! the results. And what `tardy schema samples` prints.

use super::samples::columns_of;
use super::{FOUR, empty_batch, new_run, realistic, stamps};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tardy_analyze::digest::MetricDigest;
use tardy_analyze::distribution::{Wanted, distribution};
use tardy_model::copy::{CopyRecord, CopyThread, Sizes};
use tardy_model::expect::QUANTILES;
use tardy_model::machine::MachineState;
use tardy_model::manifest::{CellEntry, Manifest};
use tardy_model::placement::PlacementRecord;
use tardy_model::point::{Metric, Point};
use tardy_model::result::Results;
use tardy_model::sample::{Batch, MaybeNanos, Outcome};
use tardy_model::time::{ClockReading, Nanos};
use tardy_model::trial::TrialRecord;
use tardy_store::{RunFolder, StoreError, TrialId, samples_schema, sql_view, write_samples};

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
    let state = MachineState::of(ClockReading {
        tai_ns: 37,
        realtime_ns: 0,
        monotonic_ns: 0,
        bound_ns: 1,
        tai_offset_s: 0,
        steering: None,
    });
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
        own_traffic: BTreeMap::new(),
        placement: PlacementRecord::default(),
        shapers: BTreeMap::new(),
        observer: Vec::new(),
        inspection: None,
        passed: None,
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
    assert!(matches!(RunFolder::open(keep.path().join("nowhere")), Err(StoreError::NoSuchRun { .. })));

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

/// Histograms of an interval log by tag.
fn histograms(log: &[u8]) -> BTreeMap<String, Histogram<u64>> {
    let mut out = BTreeMap::new();
    for entry in IntervalLogIterator::new(log) {
        if let LogEntry::Interval(interval) = entry.unwrap() {
            let bytes = base64(interval.encoded_histogram());
            let histogram = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            assert!(interval.start_timestamp().is_zero());
            assert!(out.insert(interval.tag().unwrap().as_str().to_owned(), histogram).is_none());
        }
    }
    out
}

fn base64(text: &str) -> Vec<u8> {
    let sextet = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("`{c}` in base64"),
    };
    let digits: Vec<u8> = text.trim_end_matches('=').bytes().map(sextet).collect();
    let group = |four: &[u8]| {
        let bits = four.iter().fold(0u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}

/// What the results are made of.
fn digests(batch: &Batch) -> BTreeMap<Metric, MetricDigest> {
    let wanted = Wanted { metrics: Metric::DEFAULT.to_vec(), ..Wanted::default() };
    distribution(1, &wanted, [batch]).metrics
}

fn written(batch: &Batch) -> Vec<u8> {
    let (_keep, run) = new_run();
    let trial = run.begin_trial("all", 1).unwrap();
    let values = digests(batch).iter().map(|(metric, digest)| (*metric, digest.histogram())).collect();
    trial.write_histograms("ctl", Nanos::from_secs(10), &values).unwrap();
    fs::read(trial.path().join("ctl.hlog")).unwrap()
}

#[test]
fn a_histogram_log_holds_every_metric_to_three_digits() {
    let mut batch = realistic(20_000, 7);
    // Early packets: three values below zero, which a log can only count at 0. One without a stamp.
    for row in [5, 6, 7] {
        stamps(&mut batch, Point::TxKernel)[row] = MaybeNanos::some(-40_000);
        stamps(&mut batch, Point::RxKernel)[row] = MaybeNanos::some(-39_000);
    }
    for point in [Point::RxKernel, Point::Receive] {
        stamps(&mut batch, point)[100] = MaybeNanos::NONE;
    }
    let log = written(&batch);
    assert_eq!(written(&batch), log, "the bytes depend on the samples alone");

    let text = String::from_utf8(log.clone()).unwrap();
    assert!(text.contains("#scheduled..rx_kernel: 19999 values, 3 negative ones counted at 0\n"), "{text:.900}");
    assert!(text.contains("#scheduled..wakeup: 0 values, 0 negative ones counted at 0\n"), "{text:.900}");
    assert!(text.contains("Tag=scheduled..rx_kernel,0.000,10.000,"), "{text:.900}");
    let histograms = histograms(&log);
    let names: Vec<&str> = histograms.keys().map(String::as_str).collect();
    assert_eq!(names, ["delta", "rx_kernel..receive", "scheduled..rx_kernel", "tx_kernel..rx_kernel"]);
    for (from, to) in
        [(Point::Scheduled, Point::RxKernel), (Point::TxKernel, Point::RxKernel), (Point::RxKernel, Point::Receive)]
    {
        let metric = Metric::Span(from, to);
        let mut exact: Vec<i64> =
            (0..batch.len()).filter_map(|row| batch.span_ns(row, metric)).map(|v| v.max(0)).collect();
        exact.sort_unstable();
        let histogram = &histograms[&metric.to_string()];
        assert_eq!(histogram.len(), exact.len() as u64);
        for q in [0.0, 0.5, 0.99, 0.999, 1.0] {
            let rank = ((q * exact.len() as f64).ceil() as usize).max(1) - 1;
            assert!(histogram.equivalent(histogram.value_at_quantile(q), exact[rank] as u64), "{metric} at {q}");
        }
    }
    // 20,000 arrivals make 19,999 differences; the one without a stamp has none, nor has the next.
    assert_eq!(histograms["delta"].len(), 19_997);
}

#[test]
fn a_histogram_log_does_not_disagree_with_the_results() {
    let mut batch = realistic(20_000, 9);
    // Packets that were lost or not sent keep what the sender stamped: no value of any metric.
    for row in (500..900).step_by(7) {
        batch.outcome[row] = if row % 2 == 0 { Outcome::Lost } else { Outcome::NotSent };
    }
    // Two that overtook each other, and a hole.
    stamps(&mut batch, Point::RxKernel)[1_000] = MaybeNanos::some(1_200_000);
    stamps(&mut batch, Point::RxKernel)[2_000] = MaybeNanos::NONE;
    let log = histograms(&written(&batch));
    let mut compared = 0;
    for (metric, digest) in digests(&batch) {
        let result = digest.finish("kernel", None);
        let Some(histogram) = log.get(&metric.to_string()) else {
            assert_eq!(result.count, 0, "{metric}");
            continue;
        };
        assert_eq!(histogram.len(), result.count, "{metric}");
        assert!(histogram.equivalent(histogram.max(), result.greatest_received_ns().unwrap() as u64), "{metric}");
        let quantiles = result.received_only.unwrap_or(result.figures.quantiles).as_array();
        for ((_, name, q), ns) in QUANTILES.iter().zip(quantiles) {
            let Some(ns) = ns else { continue };
            assert!(histogram.equivalent(histogram.value_at_quantile(*q), ns.max(0) as u64), "{metric} {name}");
            compared += 1;
        }
    }
    assert!(compared >= 10, "{compared}");
}

#[test]
fn an_empty_stream_has_an_empty_log() {
    let log = written(&empty_batch(&FOUR));
    assert!(histograms(&log).is_empty());
    assert!(String::from_utf8(log).unwrap().contains("#delta: 0 values"));
}

#[test]
fn the_view_tells_every_metric_of_the_four_stamps() {
    let view = r#"CREATE OR REPLACE VIEW metrics AS
WITH spans AS (
  SELECT * FROM read_parquet('trials/*/*[0-9]/samples.parquet',
    filename = true, union_by_name = true, hive_partitioning = false)
  UNION ALL BY NAME
  -- a file has only the columns that it needs; this adds the others, without a row
  SELECT
    NULL::BIGINT AS "scheduled..tx_kernel",
    NULL::BIGINT AS "scheduled..rx_kernel",
    NULL::BIGINT AS "scheduled..receive",
    NULL::BIGINT AS "tx_kernel..rx_kernel",
    NULL::BIGINT AS "tx_kernel..receive",
    NULL::BIGINT AS "rx_kernel..receive"
  WHERE false
),
-- stamp of each point − scheduled, from the nearest stamp before it that the row has; one at a time,
-- for an expression that names another one of its SELECT is planned with all of that one in it
at_scheduled AS (SELECT *, 0::BIGINT AS scheduled FROM spans),
at_tx_kernel AS (SELECT *, coalesce(scheduled + "scheduled..tx_kernel") AS tx_kernel FROM at_scheduled),
at_rx_kernel AS (SELECT *, coalesce(tx_kernel + "tx_kernel..rx_kernel", scheduled + "scheduled..rx_kernel") AS rx_kernel FROM at_tx_kernel),
at_receive AS (SELECT *, coalesce(rx_kernel + "rx_kernel..receive", tx_kernel + "tx_kernel..receive", scheduled + "scheduled..receive") AS receive FROM at_rx_kernel),
offsets AS (
  SELECT filename, stream, seq, scheduled_ns, outcome, flags, pcp,
    scheduled, tx_kernel, rx_kernel, receive,
    * EXCLUDE (filename, stream, seq, scheduled_ns, outcome, flags, pcp, "scheduled..tx_kernel", "scheduled..rx_kernel", "scheduled..receive", "tx_kernel..rx_kernel", "tx_kernel..receive", "rx_kernel..receive", scheduled, tx_kernel, rx_kernel, receive)
  FROM at_receive
),
arrivals AS (
  -- an arrival without a stamp comes right after the stamped packet before it
  SELECT *, outcome = 'received' OR rx_kernel IS NOT NULL OR receive IS NOT NULL AS "..arrived",
    scheduled_ns + rx_kernel AS "..stamp",
    last_value("..stamp" IGNORE NULLS) OVER (PARTITION BY filename, stream ORDER BY seq) AS "..place"
  FROM offsets
)
SELECT filename, stream, seq, scheduled_ns, outcome, flags, pcp,
  tx_kernel - scheduled AS "scheduled..tx_kernel",
  rx_kernel - scheduled AS "scheduled..rx_kernel",
  receive - scheduled AS "scheduled..receive",
  rx_kernel - tx_kernel AS "tx_kernel..rx_kernel",
  receive - tx_kernel AS "tx_kernel..receive",
  receive - rx_kernel AS "rx_kernel..receive",
  -- in the order of arrival, within a stream of a trial
  "..stamp" - lag("..stamp") OVER (PARTITION BY filename, stream, "..arrived"
    ORDER BY "..place" NULLS FIRST, "..stamp" IS NULL, seq) AS delta,
  -- what XDP programs left before packets, where any file has that
  * EXCLUDE (filename, stream, seq, scheduled_ns, outcome, flags, pcp, scheduled, tx_kernel, rx_kernel, receive, "..arrived", "..stamp", "..place")
FROM arrivals;
"#;
    assert_eq!(sql_view(&FOUR), view);
}

#[test]
fn the_view_had_no_delta_of_packets_that_af_xdp_took_in() {
    let of = |chain: &[Point]| sql_view(chain);
    let only = of(&[Point::Scheduled, Point::RxXdp, Point::Receive]);
    assert!(only.contains("scheduled_ns + rx_xdp AS \"..stamp\"") && only.contains(" AS delta"), "{only}");
    let both = of(&[Point::Scheduled, Point::RxXdp, Point::RxKernel, Point::Receive]);
    assert!(both.contains("scheduled_ns + coalesce(rx_kernel, rx_xdp) AS \"..stamp\""), "{both}");
    assert!(!of(&[Point::Scheduled, Point::Receive]).contains("delta"));
}

#[test]
fn the_view_named_a_column_end_which_duckdb_refuses_without_quotes() {
    let view = sql_view(&Point::ALL);
    let bare = view.split(|c: char| !(c.is_ascii_alphanumeric() || "_\".".contains(c))).filter(|word| *word == "end");
    assert_eq!(bare.count(), 0, "{view}");
    assert!(view.contains("AS \"end\"") && view.contains("\n  \"end\" - \"begin\" AS \"begin..end\""), "{view}");
}

/// A run folder whose one trial has this record.
fn with_record(record: &TrialRecord) -> (tempfile::TempDir, RunFolder) {
    let (keep, run) = new_run();
    run.write_manifest(&manifest()).unwrap();
    let trial = run.begin_trial(&record.cell, record.n).unwrap();
    trial.write_samples(&[("ctl", &realistic(10, 1))]).unwrap();
    trial.write_histograms("ctl", Nanos::ZERO, &BTreeMap::new()).unwrap();
    trial.write_record(record).unwrap();
    trial.finish().unwrap();
    (keep, run)
}

#[test]
fn a_record_of_a_copy_with_four_thousand_million_passes_or_threads_without_number_took_all_memory() {
    let text = "name = \"x\"\nkind = \"copy\"\n[copy]\nthreads = 2\niterations = 10\n".to_owned();
    let experiment = tardy_spec::load(&tardy_spec::Source { name: "x.toml".into(), text }, &[]).unwrap();
    let asked = experiment.cells[0].setup.copy.clone().unwrap();
    let sound = CopyRecord {
        threads: vec![CopyThread { done: 10, ..CopyThread::default() }; asked.all_threads() as usize],
        asked,
        recording_ns: 0.0,
        window_bytes: [0, 0],
        sizes: Sizes::USUAL,
        provider: None,
        contention: None,
    };
    let read = |change: &dyn Fn(&mut CopyRecord)| {
        let mut record = record("all", 1);
        let mut copy = sound.clone();
        change(&mut copy);
        let mut stream = crate::analyze::fixture::record(1, 20).streams.remove("ctl").unwrap();
        stream.copy = Some(copy);
        record.streams.insert("ctl".to_owned(), stream);
        let (_keep, run) = with_record(&record);
        run.record("all", 1).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(read(&|_| {}), Ok(()));
    type Change<'a> = &'a dyn Fn(&mut CopyRecord);
    let refused: [(Change<'_>, &str); 6] = [
        (&|copy| copy.threads[1].done = u32::MAX, "thread 1 of a copy with 4294967295 passes of 10"),
        (&|copy| copy.threads = vec![CopyThread::default(); 5_000], "a copy of 2 threads with figures of 5000"),
        (&|copy| copy.asked.threads = u32::MAX, "a copy of 4294967295 threads, of 1024 at most"),
        (&|copy| copy.asked.iterations = 0, "a copy of nothing"),
        (&|copy| copy.asked.iterations = u32::MAX, "a copy of 8589934590 passes, of 100000000 at most"),
        (&|copy| copy.threads[0].cpus = vec![(0, 0); 11], "thread 0 of a copy with 11 changes of its CPU in 10 passes"),
    ];
    for (change, why) in refused {
        let said = read(change).expect_err(why);
        assert!(said.contains(why) && said.contains("trial.json") && said.contains("copy it again"), "{said}");
    }
}

#[test]
fn the_schema_names_the_columns_of_a_file() {
    let schema = samples_schema();
    assert_eq!(schema["format"], tardy_model::FORMAT);
    let named: Vec<&str> = schema["columns"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(columns_of(&[("ctl", &Batch::default())]), named);
    let view = schema["view"].as_str().unwrap();
    for (i, from) in Point::ALL.into_iter().enumerate() {
        for to in Point::ALL.into_iter().skip(i + 1) {
            let [a, b] = [from, to].map(|point| match point {
                Point::Begin | Point::End => format!("\"{point}\""),
                _ => point.to_string(),
            });
            // No stream has points of a packet and of a copy's pass.
            let of_pass = |point| matches!(point, Point::Begin | Point::End);
            let can_be = from == Point::Scheduled || of_pass(from) == of_pass(to);
            let is_there = view.contains(&format!("\n  {b} - {a} AS \"{from}..{to}\""));
            assert_eq!(is_there, can_be, "{from}..{to}");
        }
    }
    for column in schema["columns"].as_array().unwrap().iter().chain([&schema["stages"], &schema["full_width"]]) {
        let name = column["name"].as_str().unwrap();
        assert_eq!(column["unit"].as_str(), (name.contains("..") || name.ends_with("_ns")).then_some("ns"), "{name}");
    }
}
