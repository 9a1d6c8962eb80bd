// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy compare`: the statistics of its claims, its table, and the verb on run folders of a
//! simulated path. A folder becomes that of an exact run by a fingerprint in its results.

mod conditions;
#[path = "compare/no_answer.rs"]
mod no_answer;
mod table;

use crate::help::tardy;
use crate::report::sample;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tardy_analyze::compare::phases::{Drawn, Phases};
use tardy_analyze::compare::{Run, compare, phases};
use tardy_model::comparison::{Claim, Comparison, INFINITE, PhaseComparison};
use tardy_model::manifest::Manifest;
use tardy_model::result::Results;
use tardy_model::verdict::Figure;
use tardy_report::Options;

#[test]
fn the_ranks_of_an_interval_are_those_of_the_sign_test() {
    // Tables of the binomial with ½: P(X ≤ 5) = 0.02069 for 20, P(X ≤ 0) = 1/64 for 6, P(X ≤ 39) =
    // 0.01760 for 100.
    for (n, rank, sure) in [(6, 1, 0.96875), (20, 6, 0.95861), (25, 8, 0.95671), (100, 40, 0.96480)] {
        let (found, confidence) = phases::rank(n).expect("an interval");
        assert_eq!(found, rank, "{n}");
        assert!((confidence - sure).abs() < 1e-5, "{n}: {confidence}");
    }
    (0..6).for_each(|n| assert_eq!(phases::rank(n), None, "{n}"));
    // With this number of phases the first chance is too small for a number: about n/2 − √n.
    let (rank, confidence) = phases::rank(10_000).expect("an interval");
    assert!((4_900..4_903).contains(&rank) && (0.95..0.952).contains(&confidence), "{rank} {confidence}");
}

#[test]
fn a_claim_rests_on_the_signs_of_twenty_phases() {
    let judge = |differences: Vec<i64>| phases::judge(&drawn(differences), true).expect("differences");
    let one_sided = judge((1..=20).collect());
    assert_eq!((one_sided.claim, one_sided.interval_ns, one_sided.median_ns), (Claim::Higher, Some([6, 15]), 10.5));
    assert_eq!((one_sided.higher, one_sided.lower, one_sided.equal), (20, 0, 0));
    assert_eq!(judge((1..=20).map(|n| -n).collect()).claim, Claim::Lower);
    assert_eq!(judge((1..=19).collect()).claim, Claim::TooFew, "nineteen are too few, whatever they say");
    // Five of twenty on the other side are still a claim, six are not.
    let with = |others: i64| judge((0..20).map(|n| if n < others { -1 - n } else { 1 + n }).collect());
    assert_eq!((with(5).claim, with(6).claim), (Claim::Higher, Claim::None));
    assert_eq!(judge(vec![0; 30]).claim, Claim::None);
    assert_eq!((judge(vec![0; 30]).equal, judge(vec![0; 30]).median_ns), (30, 0.0));
    assert_eq!(phases::judge(&drawn((1..=40).collect()), false).map(|judged| judged.claim), Some(Claim::NotValid));
    assert!(phases::judge(&[], true).is_none());
    assert_eq!(judge(vec![3]).interval_ns, None);
    // Each difference stands with its trial and its phase.
    let two = judge(vec![3, -4]);
    assert_eq!((two.trials, two.phases_ns), (vec![1, 2], vec![170, 340]));
    assert_eq!((two.a_ns, two.b_ns, two.differences_ns), (vec![1_000; 2], vec![1_003, 996], vec![3, -4]));
}

#[test]
fn a_run_is_not_lower_for_losing_its_latest_packets() {
    // B would be 100 ns lower in each phase, but in ten of twenty its figure is that of a packet
    // that never arrived.
    let drawn = |infinite: u32| -> Vec<Drawn> {
        let figures = |n| [1_000, if n <= infinite { INFINITE } else { 900 }];
        (1..=20).map(|n| Drawn { trial: n, phase_ns: i64::from(n), figures_ns: figures(n) }).collect()
    };
    let judged = phases::judge(&drawn(10), true).expect("differences");
    assert_eq!((judged.claim, judged.higher, judged.lower), (Claim::None, 10, 10));
    let judged = phases::judge(&drawn(15), true).expect("differences");
    assert_eq!((judged.claim, judged.interval_ns), (Claim::Higher, None.or(Some([INFINITE; 2]))));
    let json = serde_json::to_value(&judged).expect("JSON");
    assert_eq!((&json["b_ns"][0], &json["median_ns"], &json["b_ns"][19]), (&Value::Null, &Value::Null, &900.into()));
    let back: PhaseComparison = serde_json::from_value(json).expect("a comparison");
    assert_eq!((back.b_ns, back.median_ns), (judged.b_ns, f64::INFINITY));
    // What never arrived in both is equal.
    let both = [Drawn { trial: 1, phase_ns: 1, figures_ns: [INFINITE; 2] }];
    assert_eq!(phases::judge(&both, true).map(|judged| (judged.equal, judged.median_ns)), Some((1, 0.0)));
}

#[test]
fn nothing_is_claimed_of_a_mean_of_fewer_packets() {
    let exact = |print: &str, lost: u64| {
        side(|run, _| {
            run.results.fingerprint = Some(print.into());
            let cell = &mut run.results.cells[0];
            cell.fingerprint = Some(print.into());
            for stream in cell.trials.iter_mut().filter_map(|trial| trial.streams.get_mut("ctl")) {
                stream.outcomes.lost = lost;
                stream.outcomes.received = stream.outcomes.intended - lost;
                let lead = stream.metrics.get_mut("scheduled..rx_kernel").expect("the metric");
                if lost > 0 {
                    lead.infinite = vec!["max".into()];
                    lead.received_only_max_ns = lead.figures.max_ns.take();
                }
            }
        })
    };
    let figure = |of: &str| {
        let said = compared(&exact("aa", 0), &exact("bb", 1));
        let figures = &said.cells[0].streams["ctl"].metrics["scheduled..rx_kernel"].figures;
        figures.iter().find(|figure| figure.of == of).expect("a figure").phases.clone()
    };
    assert_eq!(figure("mean"), None);
    let max = figure("max").expect("pairs");
    assert_eq!(max.higher as usize, max.trials.len(), "B lost a packet in each");
}

/// Trials from 1 on whose figures are 1 µs in A and differ by so much in B.
fn drawn(differences: Vec<i64>) -> Vec<Drawn> {
    let of = |(n, difference): (u32, i64)| Drawn {
        trial: n,
        phase_ns: i64::from(n) * 170,
        figures_ns: [1_000, 1_000 + difference],
    };
    (1..).zip(differences).map(of).collect()
}

/// A side with the figures of the report's samples.
pub(super) fn side(change: impl FnOnce(&mut sample::Run, &mut BTreeMap<String, String>)) -> Side {
    let mut run = sample::run(&["rx.wait=block", "rx.wait=spin"]);
    let mut keys = BTreeMap::from([
        ("trials".to_owned(), "5".to_owned()),
        ("stream.ctl.cycle".to_owned(), "\"500us\"".to_owned()),
    ]);
    run.manifest.machine = BTreeMap::from([
        ("kernel.release".to_owned(), Figure::Text("6.12.0-amd64".into())),
        ("cpu.online".to_owned(), Figure::List(vec![Figure::Int(0), Figure::Int(1)])),
        ("load.one_minute".to_owned(), Figure::Float(0.4)),
    ]);
    change(&mut run, &mut keys);
    (run, keys)
}

type Side = (sample::Run, BTreeMap<String, String>);

pub(super) fn compared(a: &Side, b: &Side) -> Comparison {
    let phases = phases_of(a);
    let (a, b) = (Of::new("/tmp/a", a), Of::new("/tmp/b", b));
    compare(&a.run(&phases), &b.run(&phases))
}

/// A phase for each trial that a side of a test may have.
fn phases_of(side: &Side) -> Phases {
    let mut phases = Phases::default();
    for cell in &side.0.results.cells {
        for stream in cell.streams.keys() {
            (1..=25).for_each(|n| phases.note(&cell.id, n, stream, i64::from(n) * 17));
        }
    }
    phases
}

/// What a run is compared by, owned.
struct Of {
    name: &'static str,
    manifest: Manifest,
    results: Results,
    keys: BTreeMap<String, String>,
}

impl Of {
    fn new(name: &'static str, side: &Side) -> Of {
        Of { name, manifest: side.0.manifest.clone(), results: side.0.results.clone(), keys: side.1.clone() }
    }

    fn run<'a>(&'a self, phases: &'a Phases) -> Run<'a> {
        let (manifest, results, keys) = (&self.manifest, &self.results, &self.keys);
        Run { name: self.name, folder: None, manifest, results, keys, phases }
    }
}

pub(super) fn text(compared: &Comparison) -> String {
    tardy_report::compare::text(compared, &Options { width: 1_000, ..Options::default() })
}

#[test]
fn two_runs_that_came_to_nothing_are_not_identical() {
    let nothing = |print: Option<&str>| {
        side(|run, _| {
            run.results.fingerprint = print.map(str::to_owned);
            run.results.valid = false;
            run.results.cells.iter_mut().for_each(|cell| cell.trials.clear());
        })
    };
    // The hash of an empty list, and none at all.
    for print in [Some("e3b0"), None] {
        let compared = compared(&nothing(print), &nothing(print));
        assert_eq!((compared.identical, compared.a.trials, compared.b.trials), (None, 0, 0));
        let text = text(&compared);
        assert!(text.contains("not compared: A and B finished no trial") && !text.contains("identical"), "{text}");
    }
    let compared = compared(&side(|_, _| ()), &nothing(None));
    assert!(text(&compared).contains("not compared: B finished no trial"), "{}", text(&compared));
}

#[test]
fn rx_kernel_that_a_launch_time_moved_is_not_set_beside_the_usual_one() {
    let print = |run: &mut sample::Run, print: &str| {
        run.results.fingerprint = Some(print.into());
        run.results.cells.iter_mut().for_each(|cell| cell.fingerprint = Some(print.into()));
    };
    let moved = |run: &mut sample::Run| {
        let ctl = run.results.cells[0].streams.get_mut("ctl").expect("the stream");
        ctl.rx_kernel_at = Some("local-delivery".into());
    };
    let a = side(|run, _| print(run, "aa"));
    let b = side(|run, _| {
        print(run, "bb");
        moved(run);
    });
    let compared = self::compared(&a, &b);
    let metrics = &compared.cells[0].streams["ctl"].metrics;
    for name in ["scheduled..rx_kernel", "tx_kernel..rx_kernel", "rx_kernel..receive", "delta"] {
        let why = metrics[name].why.as_deref().expect("no figure");
        assert_eq!(why, "not compared: rx_kernel is taken at arrival in A and at local delivery in B");
        assert!(metrics[name].figures.is_empty(), "{name}");
    }
    assert!(metrics["scheduled..wakeup"].why.is_none() && !metrics["scheduled..wakeup"].figures.is_empty());
    let text = text(&compared);
    let (first, second) = text.split_once("rx.wait=spin").expect("two cells");
    assert!(first.contains("by phase: scheduled..wakeup p50"), "{first}");
    assert!(second.contains("by phase: scheduled..rx_kernel p50"), "the other cell is as usual: {second}");
    // Both moved, or both named: one point.
    let both = self::compared(&b, &side(|run, _| moved(run)));
    assert!(both.cells[0].streams["ctl"].metrics.values().all(|metric| metric.why.is_none()));
    let named = side(|run, _| {
        run.results.cells[0].streams.get_mut("ctl").expect("the stream").rx_kernel_at = Some("arrival".into());
    });
    let usual = self::compared(&a, &named);
    assert!(usual.cells[0].streams["ctl"].metrics.values().all(|metric| metric.why.is_none()));
}

#[test]
fn exact_runs_are_identical_by_their_fingerprints_alone() {
    let print = |run: &mut sample::Run, cells: [&str; 2], whole: &str| {
        run.results.fingerprint = Some(whole.into());
        for (cell, print) in run.results.cells.iter_mut().zip(cells) {
            cell.fingerprint = Some(print.into());
        }
    };
    let a = side(|run, _| print(run, ["aa", "bb"], "cc"));
    let same = compared(&a, &side(|run, _| print(run, ["aa", "bb"], "cc")));
    assert_eq!(same.identical, Some(true));
    let said = text(&same);
    assert!(said.contains("identical: every raw sample of both runs is equal (fingerprint cc)"), "{said}");
    assert!(!said.contains("scheduled..rx_kernel"), "{said}");
    // One cell of two differs.
    let half = compared(&a, &side(|run, _| print(run, ["aa", "bd"], "ce")));
    assert_eq!(
        (half.identical, half.cells[0].identical, half.cells[1].identical),
        (Some(false), Some(true), Some(false))
    );
    assert_eq!((half.cells[0].streams.len(), half.cells[1].pairs), (0, 5));
    let said = text(&half);
    assert!(said.contains("rx.wait=block: identical") && said.contains("equal in all 5"), "{said}");
    // Two phases of five differ: tardy reports that, and claims nothing.
    let few = compared(
        &a,
        &side(|run, _| {
            print(run, ["aa", "bd"], "ce");
            for trial in &mut run.results.cells[1].trials[..2] {
                let stream = trial.streams.get_mut("ctl").expect("the stream");
                stream.metrics.get_mut("scheduled..rx_kernel").expect("the metric").figures.max_ns = Some(999_000);
            }
        }),
    );
    assert!(text(&few).contains("2↑ 0↓  too few"), "{}", text(&few));
    // A trial that is not valid makes no pair, and neither does one without a phase.
    let spoilt = compared(
        &a,
        &side(|run, _| {
            print(run, ["aa", "bd"], "ce");
            run.results.cells[1].trials[2].valid = false;
            run.results.cells[1].trials[3].n = 9;
        }),
    );
    assert_eq!(spoilt.cells[1].pairs, 3);
    let noisy = compared(&a, &side(|_, _| ()));
    assert_eq!(noisy.identical, None, "one of two is noisy");
}

/// A run of the simulated path, twenty trials.
fn simulated(dir: &Path, name: &str, more: &[&str]) -> PathBuf {
    let out = dir.join(name);
    let mut command = Command::new(tardy());
    command.args(["run", "--trials", "20", "--set", "stream.ctl.port=sim", "--set", "stream.ctl.count=400"]);
    command.args(["--set", "stream.ctl.sim.jitter=2us"]).args(more.iter().flat_map(|set| ["--set", set]));
    let output = command.arg("--out").arg(&out).stdin(Stdio::null()).output().expect("tardy starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

/// Writes a fingerprint into a folder's results.
fn exact(run: &Path, fingerprint: &str) {
    let file = run.join("results.json");
    let mut results: Value = serde_json::from_slice(&std::fs::read(&file).expect("results")).expect("JSON");
    results["fingerprint"] = fingerprint.into();
    results["cells"][0]["fingerprint"] = fingerprint.into();
    std::fs::write(file, results.to_string()).expect("written");
}

fn verb(arguments: &[&Path], more: &[&str]) -> (Option<i32>, String, String) {
    let output: Output = Command::new(tardy())
        .arg("compare")
        .args(arguments)
        .args(more)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_second_stream_was_paired_by_the_phase_of_the_first() {
    let dir = tempfile::tempdir().expect("a folder");
    let before = simulated(dir.path(), "before", &[]);
    // The second stream's cycle is another, so its phases are; the first one's are as before.
    let text = std::fs::read_to_string(before.join("experiment.toml")).expect("the experiment");
    let second = tardy_tests::experiment("stream back").replace(".back]", ".second]") + "port = \"sim\"\ncount = 200\n";
    let file = dir.path().join("two.toml");
    std::fs::write(&file, format!("{text}\n{second}")).expect("it is written");
    let run = |name: &str, set: &str| {
        let out = dir.path().join(name);
        let ran = Command::new(tardy()).arg("run").arg(&file).args(["--set", set, "--out"]).arg(&out).output();
        let ran = ran.expect("it starts");
        assert!(matches!(ran.status.code(), Some(0 | 4)), "{}", String::from_utf8_lossy(&ran.stderr));
        out
    };
    let (a, b) = (run("a", "stream.second.cycle=500us"), run("b", "stream.second.cycle=700us"));
    exact(&a, "1a");
    exact(&b, "2b");
    let (code, json, said) = verb(&[&a, &b], &["--format", "json"]);
    assert_eq!(code, Some(0), "{said}");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let compared = |stream: &str| &json["cells"][0]["streams"][stream]["metrics"]["scheduled..wakeup"]["figures"][0];
    assert_eq!(compared("ctl")["phases"]["trials"].as_array().map(Vec::len), Some(20), "{json}");
    assert!(compared("second")["phases"].is_null(), "{}", compared("second"));
}

#[test]
fn the_verb_claims_of_exact_runs_what_their_phases_show_and_of_noisy_ones_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let before = simulated(dir.path(), "before", &[]);
    let again = simulated(dir.path(), "again", &[]);
    let slower = simulated(dir.path(), "slower", &["stream.ctl.sim.wake=12us"]);
    let (code, said, _) = verb(&[&before, &slower], &[]);
    assert_eq!(code, Some(0), "a difference is no failure");
    assert!(said.contains("experiment stream.ctl.sim.wake") && said.contains("not judged"), "{said}");
    assert!(!said.contains("B is higher"), "{said}");

    for (run, print) in [(&before, "1a"), (&again, "1a"), (&slower, "2b")] {
        exact(run, print);
    }
    let (code, said, _) = verb(&[&before, &again], &[]);
    assert_eq!(code, Some(0));
    assert!(said.contains("nothing differs") && said.contains("identical: every raw sample"), "{said}");

    let (code, json, _) = verb(&[&before, &slower], &["--format", "json"]);
    assert_eq!(code, Some(0));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["identical"], &json["cells"][0]["pairs"]), (&Value::Bool(false), &Value::from(20)));
    let metrics = &json["cells"][0]["streams"]["ctl"]["metrics"];
    // The timer returns 2 µs later in every phase; what lies behind it is as before.
    let p50 = &metrics["scheduled..wakeup"]["figures"][0];
    assert_eq!((&p50["of"], &p50["difference_ns"]), (&Value::from("p50"), &Value::from(2_000)));
    assert_eq!(p50["phases"]["differences_ns"], Value::from(vec![2_000; 20]));
    assert_eq!(p50["phases"]["trials"], Value::from((1..=20).collect::<Vec<_>>()));
    let list = |name: &str| p50["phases"][name].as_array().expect("a list").clone();
    let distinct: BTreeSet<i64> = list("phases_ns").iter().filter_map(Value::as_i64).collect();
    assert_eq!((list("phases_ns").len(), distinct.len()), (20, 20), "each trial has a phase of its own");
    assert_eq!(p50["claim"], "higher");
    assert_eq!((&p50["phases"]["claim"], &p50["phases"]["interval_ns"]), (&"higher".into(), &vec![2_000; 2].into()));
    let path = &metrics["tx_kernel..rx_kernel"]["figures"][0]["phases"];
    assert_eq!((&path["claim"], &path["equal"]), (&"none".into(), &20.into()), "{path}");
    let (_, said, _) = verb(&[&before, &slower], &[]);
    let unbroken = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let claim = "+2\u{202f}000 [+2\u{202f}000, +2\u{202f}000] 20↑ 0↓ B higher";
    assert!(unbroken.replace('\u{202f}', " ").contains(&claim.replace('\u{202f}', " ")), "{said}");
    // And phase by phase, of the metric that leads.
    let (_, table) = said.split_once("by phase: scheduled..rx_kernel p50, in ns\n").expect("a table by phase");
    let leading = &metrics["scheduled..rx_kernel"]["figures"][0]["phases"];
    let value = |name: &str, n: usize| leading[name][n].as_i64().expect("a figure");
    let rows: Vec<Vec<i64>> = table
        .lines()
        .skip(1)
        .take(20)
        .map(|line| line.split("  ").filter_map(|cell| cell.trim().replace([' ', '+'], "").parse().ok()).collect())
        .collect();
    assert_eq!(rows.len(), 20);
    for (n, row) in rows.iter().enumerate() {
        let expected = [value("phases_ns", n), value("a_ns", n), value("b_ns", n), value("differences_ns", n)];
        assert_eq!((row[0], &row[1..]), (n as i64 + 1, &expected[..]), "{table}");
    }

    // Other seeds are other phases: no trial has its like.
    let other = simulated(dir.path(), "other", &["seed=2"]);
    exact(&other, "3c");
    let (_, said, _) = verb(&[&before, &other], &[]);
    assert!(
        said.contains("no valid trial has the same number and the same phase") && !said.contains("median"),
        "{said}"
    );
}

#[test]
fn the_verb_refuses_what_is_no_run_and_warns_of_what_is_not_valid() {
    let dir = tempfile::tempdir().expect("a folder");
    let good = simulated(dir.path(), "good", &["trials=2"]);
    let (code, said, error) = verb(&[&good, dir.path()], &[]);
    assert_eq!((code, said.as_str()), (Some(2), ""), "{error}");
    assert!(error.contains(&dir.path().display().to_string()), "{error}");
    assert_eq!(verb(&[&good], &[]).0, Some(2), "two runs are needed");
    let out = dir.path().join("bad");
    let mut lossy = Command::new(tardy());
    lossy.args(["run", "--trials", "2", "--set", "stream.ctl.port=sim", "--set", "stream.ctl.count=400"]);
    let output = lossy.args(["--set", "stream.ctl.sim.loss=0.1", "--out"]).arg(&out).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "host-to-host allows no loss, whatever the validity");
    let (code, said, _) = verb(&[&good, &out], &[]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("NOT VALID") && said.contains("not valid in B: do not use these figures"), "{said}");
    let file = dir.path().join("picture.txt");
    assert_eq!(verb(&[&good, &good], &["-o", &file.display().to_string()]).1, "");
    assert!(std::fs::read_to_string(file).expect("written").contains("nothing differs"));
}

#[test]
fn a_folder_compared_with_itself_is_not_told_as_two_runs_that_agree() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = simulated(dir.path(), "run", &["trials=2"]);
    let again = simulated(dir.path(), "again", &["trials=2"]);
    exact(&run, "1a");
    exact(&again, "1a");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&run, &link).expect("a link");
    let roundabout = run.join("..").join("run");
    let says = "A and B are one folder: this compares a run with itself";
    for other in [&run, &link, &roundabout] {
        let (code, said, error) = verb(&[&run, other], &[]);
        assert_eq!(code, Some(0), "nothing is refused: {error}");
        assert!(said.contains(says) && said.contains("identical: every raw sample"), "{said}");
        let (_, json, _) = verb(&[&run, other], &["--format", "json"]);
        let json: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json["one_folder"], true, "{json}");
    }
    let (code, said, _) = verb(&[&run, &again], &[]);
    assert_eq!(code, Some(0));
    assert!(!said.contains(says) && said.contains("identical: every raw sample"), "two runs that agree: {said}");
    let (_, json, _) = verb(&[&run, &again], &["--format", "json"]);
    assert!(json.contains("\"one_folder\": false"), "{json}");
}

#[test]
fn trials_that_are_judged_side_by_side_come_to_what_the_run_itself_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("run");
    let mut command = Command::new(tardy());
    // Enough packets for each trial to get a thread where there is a CPU for it.
    command.args(["run", "--trials", "5", "--set", "stream.ctl.port=sim", "--set", "stream.ctl.count=60000"]);
    command.args(["--set", "stream.ctl.sim.jitter=2us", "--set", "stream.ctl.sim.loss=0.0001"]);
    let output = command.arg("--out").arg(&out).stdin(Stdio::null()).output().expect("tardy starts");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_slice(&std::fs::read(out.join("results.json")).expect("results")).expect("JSON");
    for _ in 0..3 {
        let again =
            Command::new(tardy()).arg("report").arg(&out).args(["--format", "json"]).output().expect("it starts");
        let again: Value = serde_json::from_slice(&again.stdout).expect("JSON");
        assert_eq!(again, said);
    }
}

#[test]
fn a_written_trace_of_tardy_was_replaced_when_the_folder_was_judged_anew() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = simulated(dir.path(), "run", &["trials=5"]);
    let file = run.join("results.json");
    let mut results: Value = serde_json::from_slice(&std::fs::read(&file).expect("results")).expect("JSON");
    let trace = json!({"id": "own-trace", "level": "warning", "says": "tardy itself shows in the first packet", "evidence": {"tests": 7}});
    let note = json!({"id": "later", "level": "note", "says": "written behind it", "evidence": {}});
    let verdicts = results["verdicts"].as_array_mut().expect("verdicts");
    verdicts.extend([trace, note]);
    let written = Value::from(verdicts.clone());
    std::fs::write(&file, results.to_string()).expect("written");
    let output = Command::new(tardy()).args(["report", "--format", "json"]).arg(&run).output().expect("it starts");
    let anew: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&anew["verdicts"], &anew["valid"]), (&written, &results["valid"]));
}
