// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the table of two runs has in addition to the figures: one unit, a reason wherever something
//! is missing, and the facts that differ, with the words that differ in them marked.

use super::{Side, compared, side, text};
use crate::report::sample;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tardy_model::comparison::{Claim, Group};
use tardy_model::manifest::{GuestEntry, QdiscsOf, ReadBack};
use tardy_model::result::MetricResult;
use tardy_model::verdict::Figure;
use tardy_report::Options;

/// An exact run whose samples have this fingerprint, changed.
fn exact(print: &str, change: impl FnOnce(&mut sample::Run)) -> Side {
    side(|run, _| {
        run.results.fingerprint = Some(print.into());
        run.results.cells.truncate(1);
        run.results.cells[0].fingerprint = Some(print.into());
        change(run);
    })
}

/// The leading metric of each trial of the only cell.
fn of_trials(run: &mut sample::Run) -> impl Iterator<Item = &mut MetricResult> {
    let trials = run.results.cells[0].trials.iter_mut();
    trials.map(|trial| {
        let stream = trial.streams.get_mut("ctl").expect("the stream");
        stream.metrics.get_mut("scheduled..rx_kernel").expect("the metric")
    })
}

/// The row of a figure of the leading metric.
fn row(said: &str, of: &str) -> String {
    let (_, rows) = said.split_once("scheduled..rx_kernel").expect("the metric");
    let row = rows.lines().find(|line| line.split_whitespace().next() == Some(of));
    row.unwrap_or_else(|| panic!("no row of {of}: {said}")).to_owned()
}

/// Its words and figures, however wide the columns are.
fn flat(row: &str) -> String {
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn one_unit_holds_for_a_table_and_for_what_stands_beside_its_figures() {
    let a = exact("aa", |_| ());
    let b = exact("bb", |run| {
        for (n, metric) in of_trials(run).take(2).enumerate() {
            // The one below a µs, the other above.
            metric.figures.max_ns = Some(915_000 + [812, 3_025][n]);
        }
        let pooled = run.results.cells[0].streams.get_mut("ctl").expect("the stream");
        pooled.metrics.get_mut("scheduled..rx_kernel").expect("the metric").figures.max_ns = Some(918_025);
    });
    let said = text(&compared(&a, &b));
    let (_, table) = said.split_once("rx.wait=block").expect("the cell");
    let (table, _) = table.split_once("by phase: ").expect("a table by phase");
    assert_eq!(table.matches(" ns").count(), 1, "its unit is printed once: {table}");
    assert!(!table.contains("µs") && !table.contains("ms "), "{table}");
    let max = row(&said, "max");
    assert!(flat(&max).contains("915 000 918 025 +3 025 0 2↑ 0↓ too few: 5 of 20"), "{max}");
    // The median of four values lies between two of them, and is printed with its half.
    let four = |run: &mut sample::Run| {
        let cell = &mut run.results.cells[0];
        cell.trials.pop();
        let one = cell.trials[0].clone();
        cell.trials = (1..=4).map(|n| tardy_model::result::TrialResult { n, ..one.clone() }).collect();
    };
    let b = exact("bb", |run| {
        four(run);
        for (n, metric) in of_trials(run).enumerate() {
            metric.figures.max_ns = Some(915_000 + [812, 1_403, 1_402, 9_999][n]);
        }
    });
    let max = row(&text(&compared(&exact("aa", four), &b)), "max");
    assert!(flat(&max).contains("+1 402.5 4↑ 0↓ too few: 4 of 20"), "{max}");
}

#[test]
fn a_percentile_that_a_run_does_not_have_is_told_with_its_reason() {
    let pooled = |run: &mut sample::Run, change: fn(&mut MetricResult)| {
        let stream = run.results.cells[0].streams.get_mut("ctl").expect("the stream");
        change(stream.metrics.get_mut("scheduled..rx_kernel").expect("the metric"));
    };
    // Of too few packets; the files name them by their stem.
    let few = |metric: &mut MetricResult| {
        metric.figures.quantiles.p99_ns = None;
        metric.figures.quantiles.p99_9_ns = None;
        metric.unresolved = vec!["p99".into(), "p99_9".into(), "p99_99".into()];
    };
    let lost = |metric: &mut MetricResult| {
        metric.figures.quantiles.p99_9_ns = None;
        metric.infinite = vec!["p99.9".into()];
    };
    let noisy = |change: fn(&mut MetricResult)| side(|run, _| pooled(run, change));
    let said = text(&compared(&noisy(few), &noisy(lost)));
    assert!(flat(&row(&said, "p99")).ends_with("– 23.3 – not resolved in A"), "{said}");
    let p99_9 = flat(&row(&said, "p99.9"));
    assert!(p99_9.ends_with("– – – not resolved in A, falls on a lost packet in B"), "{said}");
    assert!(row(&said, "p99.99").ends_with("not resolved in A and B"), "{said}");
    let back = text(&compared(&noisy(lost), &noisy(few)));
    assert!(row(&back, "p99").ends_with("not resolved in B"), "{back}");
    assert!(row(&said, "max").ends_with("not judged"), "{said}");
    // All trials together have what no single one has.
    let each = |run: &mut sample::Run| of_trials(run).for_each(few);
    let (a, b) = (exact("aa", each), exact("bb", each));
    let said = compared(&a, &b);
    let p99 = &said.cells[0].streams["ctl"].metrics["scheduled..rx_kernel"].figures[2];
    assert_eq!((p99.of.as_str(), p99.a_ns, &p99.phases), ("p99", Some(23_300), &None));
    assert!(row(&text(&said), "p99").ends_with("not resolved in single trials"), "{}", text(&said));
    assert!(row(&text(&said), "p50").ends_with("equal in all 5"), "{}", text(&said));
}

#[test]
fn figures_of_all_trials_are_told_from_those_of_single_ones() {
    let line = "A and B below are figures of all trials of a cell together; what follows them is of single trials";
    let two = |print: &str| {
        side(|run, _| {
            run.results.fingerprint = Some(print.into());
            run.results.cells.iter_mut().for_each(|cell| cell.fingerprint = Some(print.into()));
        })
    };
    let said = text(&compared(&two("aa"), &two("bb")));
    assert_eq!(said.matches(line).count(), 1, "once, for both cells: {said}");
    assert!(said.find(line) < said.find("rx.wait=block"), "above the first table: {said}");
    // Where nothing is of single trials there is nothing to tell apart.
    for (a, b) in [("aa", two("aa")), ("bb", side(|_, _| ()))] {
        let said = text(&compared(&two(a), &b));
        assert!(!said.contains(line), "{said}");
    }
}

#[test]
fn exact_runs_without_a_phase_in_common_say_so() {
    let says = "no valid trial has the same number and the same phase in both, so tardy draws no conclusion from these differences\n";
    let unlike = |run: &mut sample::Run| {
        // No trial of the one run has the number of a trial of the other.
        run.results.cells[0].trials.iter_mut().for_each(|trial| trial.n += 10);
    };
    let compared = compared(&exact("aa", |_| ()), &exact("bb", unlike));
    assert_eq!((compared.identical, compared.cells[0].pairs), (Some(false), 0));
    let said = text(&compared);
    assert_eq!(said.matches(says).count(), 1, "{said}");
    assert!(said.contains("run both with the same ones") && !said.contains("by phase"), "{said}");
    assert!(row(&said, "p50").trim_end().ends_with('0'), "nothing follows the difference: {said}");
    // Trials that are not valid are another reason, for which no seed is to blame.
    let spoilt = |run: &mut sample::Run| {
        run.results.cells[0].valid = false;
        run.results.cells[0].trials.iter_mut().for_each(|trial| trial.valid = false);
    };
    let bad = text(&super::compared(&exact("aa", |_| ()), &exact("bb", spoilt)));
    assert!(bad.contains(says) && !bad.contains("run both with the same ones"), "{bad}");
    // Four trials without their like are no reason while there is a fifth.
    let but_one = |run: &mut sample::Run| {
        run.results.cells[0].trials.iter_mut().skip(1).for_each(|trial| trial.n += 10);
    };
    let said = text(&super::compared(&exact("aa", |_| ()), &exact("bb", but_one)));
    assert!(!said.contains(says) && said.contains("by phase, of 1"), "{said}");
    // Noisy runs are not looked at by phase.
    assert!(!text(&super::compared(&side(|_, _| ()), &side(|_, _| ()))).contains(says));
}

#[test]
fn a_cell_that_is_not_available_was_called_not_valid() {
    let missing = |run: &mut sample::Run| {
        let cell = &mut run.results.cells[1];
        (cell.valid, cell.not_available) = (false, Some("no netdevsim".to_owned()));
    };
    let (a, b) = (side(|_, _| ()), side(|run, _| missing(run)));
    let one = compared(&a, &b);
    assert_eq!((&one.cells[1].a_not_available, one.cells[1].b_not_available.as_deref()), (&None, Some("no netdevsim")));
    let said = text(&one);
    assert!(said.contains("rx.wait=spin (not available in B)\n") && !said.contains("not valid in"), "{said}");
    let both = text(&compared(&side(|run, _| missing(run)), &b));
    assert!(both.contains("(not available in A and B)\n"), "{both}");
    // A cell that has figures which must not be used is still not valid.
    let said = text(&compared(&side(|run, _| run.results.cells[1].valid = false), &b));
    assert!(said.contains("(not available in B; not valid in A: do not use these figures)\n"), "{said}");
}

fn with(value: &str) -> Side {
    side(|run, _| _ = run.manifest.machine.insert("tuning".into(), Figure::Text(value.into())))
}

/// The two lines of the fact.
fn rows(a: &str, b: &str) -> [String; 2] {
    let said = text(&compared(&with(a), &with(b)));
    let (_, rows) = said.split_once("  machine tuning\n").unwrap_or_else(|| panic!("no long row: {said}"));
    let mut rows = rows.lines().map(|line| line.trim_start().to_owned());
    [rows.next().expect("A"), rows.next().expect("B")]
}

/// Arguments of QEMU as the manifest has them.
fn arguments(kernel: &str, more: &str) -> String {
    let words = [
        "-machine",
        "q35,hpet=on",
        "-cpu",
        "qemu64,-erms",
        "-m",
        "512M",
        "-smp",
        "1",
        "-nodefaults",
        "-display",
        "none",
    ];
    let (head, tail) =
        (words.join("\",\""), "-serial\",\"file:console.log\",\"-no-reboot\",\"-icount\",\"shift=1,sleep=off");
    format!("[\"{head}\",\"-kernel\",\"{kernel}\",\"-initrd\",\"initramfs\",\"{tail}\"{more}]")
}

#[test]
fn of_two_long_lists_only_what_differs_is_shown_and_marked() {
    let [a, b] = rows(&arguments("/cache/debian-6.12/vmlinuz", ""), &arguments("/cache/debian-6.12-rt/vmlinuz", ""));
    assert_eq!(
        a,
        "A  …\"-display\",\"none\",\"-kernel\",[-\"/cache/debian-6.12/vmlinuz\"-],\"-initrd\",\"initramfs\"…"
    );
    assert_eq!(
        b,
        "B  …\"-display\",\"none\",\"-kernel\",{+\"/cache/debian-6.12-rt/vmlinuz\"+},\"-initrd\",\"initramfs\"…"
    );
    // Two places, and one that A does not have.
    let [a, b] = rows(&arguments("/a", ""), &arguments("/b", ",\"-snapshot\""));
    assert_eq!(a, "A  …\"-display\",\"none\",\"-kernel\",[-\"/a\"-],\"-initrd\",\"initramfs\"…,\"shift=1,sleep=off\"]");
    assert_eq!(
        b,
        "B  …\"-display\",\"none\",\"-kernel\",{+\"/b\"+},\"-initrd\",\"initramfs\"…,\"shift=1,sleep=off\"{+,\"-snapshot\"+}]"
    );
}

#[test]
fn a_short_text_of_several_words_is_whole_and_marked() {
    let [a, b] = rows("quiet isolcpus=1 nohz_full=1 threadirqs", "quiet isolcpus=1,2 nohz_full=1 threadirqs");
    assert_eq!(a, "A  quiet isolcpus=1 nohz_full=1 threadirqs");
    assert_eq!(b, "B  quiet isolcpus=1{+,2+} nohz_full=1 threadirqs");
}

#[test]
fn facts_as_large_as_a_file_may_be_take_a_line_each() {
    let long = |word: &str| vec![word; 40_000].join(" ");
    let [a, b] = rows(&long("one"), &long("two"));
    assert!(a.chars().count() < 300 && b.chars().count() < 300, "{a}\n{b}");
    assert!(a.starts_with("A  [-one one") && b.starts_with("B  {+two two"), "{a}\n{b}");
    // Many small differences.
    let many = |word: &str| {
        (0..50).map(|n| format!("{word}{n} same same same same same same same")).collect::<Vec<_>>().join(" ")
    };
    let [a, _] = rows(&many("x"), &many("y"));
    assert!(a.chars().count() < 3_000 && a.ends_with("… (more differs)"), "{a}");
    // What has no counterpart.
    let alone = side(|run, _| _ = run.manifest.machine.insert("tuning".into(), Figure::Text(long("one"))));
    let said = text(&compared(&alone, &side(|_, _| ())));
    let row = said.lines().find(|line| line.contains("A  one one")).expect("a row");
    assert!(row.ends_with("… (159999 characters)") && row.chars().count() < 200, "{row}");
}

#[test]
fn the_figures_stood_below_a_screen_of_facts() {
    let said = text(&compared(&with("a"), &with("b")));
    let at = |piece: &str| said.find(piece).unwrap_or_else(|| panic!("{piece} in {said}"));
    let line = "what differs: 1 of ";
    assert!(
        at(line) < at("scheduled..rx_kernel") && at("scheduled..rx_kernel") < at("\nfacts that differ\n"),
        "{said}"
    );
    assert!(said.contains("facts, which follow the figures\n"), "{said}");
}

/// A run in a guest that booted what has this sum, of an experiment with this cycle.
fn in_guest(sum: &str, cycle: &str) -> Side {
    side(|run, keys| {
        run.manifest.guest = Some(GuestEntry { initramfs_sha256: sum.to_owned(), ..GuestEntry::default() });
        keys.insert("stream.ctl.cycle".to_owned(), cycle.to_owned());
    })
}

fn reported(a: &Side, b: &Side) -> Vec<(Group, String)> {
    compared(a, b).differences.into_iter().map(|row| (row.group, row.key)).collect()
}

#[test]
fn the_experiment_that_a_guest_boots_is_not_told_as_a_second_difference() {
    let archive = (Group::Guest, "initramfs_sha256".to_owned());
    let cycle = (Group::Experiment, "stream.ctl.cycle".to_owned());
    let a = in_guest("aa", "\"500us\"");
    assert_eq!(reported(&a, &in_guest("bb", "\"1ms\"")), std::slice::from_ref(&cycle));
    // The same for a seed, which is in the manifest.
    let mut seed = in_guest("bb", "\"500us\"");
    seed.0.manifest.seed += 1;
    assert_eq!(reported(&a, &seed), [(Group::Experiment, "seed".to_owned())]);
    // The same experiment: the sum may be the only sign of another build.
    assert_eq!(reported(&a, &in_guest("bb", "\"500us\"")), std::slice::from_ref(&archive));
    let mut newer = in_guest("bb", "\"500us\"");
    newer.0.manifest.tardy = "0.2.0".into();
    assert_eq!(reported(&a, &newer), [archive, (Group::Programs, "tardy".to_owned())]);
    // A run compared with one that was in no guest: that it has a sum is one of its guest's facts.
    let bare = side(|_, keys| _ = keys.insert("stream.ctl.cycle".to_owned(), "\"1ms\"".to_owned()));
    let rows = reported(&a, &bare);
    assert!(rows.contains(&(Group::Guest, "initramfs_sha256".to_owned())) && rows.contains(&cycle), "{rows:?}");
}

#[test]
fn what_differed_in_the_machine_is_told_and_passing_things_are_left_out() {
    let a = side(|_, _| ());
    let b = side(|run, keys| {
        run.manifest.machine.insert("kernel.release".into(), Figure::Text("6.12.0-rt-amd64\u{1b}[2J".into()));
        run.manifest.machine.insert("load.one_minute".into(), Figure::Float(7.5));
        run.manifest.started_utc = "2026-11-22T00:00:00Z".into();
        run.manifest.command = vec!["tardy".into(), "run".into(), "--out".into(), "/tmp/b".into()];
        run.manifest.programs.insert("tc".into(), "iproute2-6.1.0".into());
        keys.insert("stream.ctl.cycle".into(), "\"1ms\"".into());
    });
    let compared = compared(&a, &b);
    let rows: Vec<_> = compared.differences.iter().map(|row| (row.group, row.key.as_str(), row.a.as_deref())).collect();
    assert_eq!(
        rows,
        [
            (Group::Kernel, "release", Some("6.12.0-amd64")),
            (Group::Programs, "tc", None),
            (Group::Experiment, "stream.ctl.cycle", Some("\"500us\"")),
        ]
    );
    assert_eq!(compared.identical, None, "no fingerprint: noisy");
    let text = text(&compared);
    assert!(text.contains("what differs: 3 of ") && text.contains("not judged"), "{text}");
    assert!(!text.contains('\u{1b}'), "what a program printed moves no cursor");
    assert!(text.find("kernel release") > text.find("scheduled..rx_kernel"), "{text}");
    assert!(text.contains("  programs tc                         –  "), "{text}");
    // On a terminal no word is broken, and nothing is lost.
    for width in [80, 120] {
        let narrow = tardy_report::compare::text(&compared, &Options { width, ..Options::default() });
        assert!(narrow.lines().all(|line| line.chars().count() <= width), "{narrow}");
        assert!(narrow.split_whitespace().eq(text.split_whitespace()), "{narrow}");
        // `+7 446` was broken after its 7.
        let lines: Vec<&str> = narrow.lines().map(str::trim).collect();
        let follows = |line: &str| {
            line.len() > 3 && line[..3].bytes().all(|of| of.is_ascii_digit()) && !line.as_bytes()[3].is_ascii_digit()
        };
        let breaks = |two: &[&str]| two[0].ends_with(|of: char| of.is_ascii_digit()) && follows(two[1]);
        assert!(!lines.windows(2).any(breaks), "{narrow}");
    }
    let same = self::compared(&a, &a);
    assert!(self::text(&same).contains("nothing differs in machine, programs and experiment"), "{}", self::text(&same));
}

#[test]
fn noisy_figures_stand_side_by_side_and_are_not_judged() {
    let a = side(|_, _| ());
    let b = side(|run, _| {
        let stream = run.results.cells[0].streams.get_mut("ctl").expect("the stream");
        stream.outcomes.lost = 3;
        stream.metrics.get_mut("scheduled..rx_kernel").expect("the metric").figures.quantiles.p50_ns = Some(15_250);
        stream.metrics.get_mut("delta").expect("the metric").source = "hardware".into();
        run.results.cells.remove(1);
    });
    let compared = compared(&a, &b);
    let cell = &compared.cells[0];
    let ctl = &cell.streams["ctl"];
    assert_eq!(ctl.outcomes, BTreeMap::from([("lost".to_owned(), [0, 3])]));
    let p50 = &ctl.metrics["scheduled..rx_kernel"].figures[0];
    assert_eq!(
        (p50.of.as_str(), p50.a_ns, p50.b_ns, p50.difference_ns),
        ("p50", Some(14_000), Some(15_250), Some(1_250))
    );
    assert!(p50.phases.is_none());
    let metrics = ctl.metrics.values().flat_map(|metric| &metric.figures);
    assert!(metrics.clone().count() > 20 && metrics.clone().all(|figure| figure.claim == Claim::NotJudged));
    let json: Value = serde_json::from_str(&tardy_report::compare::json(&compared).expect("JSON")).expect("JSON");
    let figure = &json["cells"][0]["streams"]["ctl"]["metrics"]["scheduled..rx_kernel"]["figures"][0];
    assert_eq!(figure["claim"], "not-judged", "{figure}");
    let why = ctl.metrics["delta"].why.as_deref().expect("another point");
    assert!(why.starts_with("stamped by ") && why.ends_with(" in B"), "{why}");
    assert_eq!((compared.cells[1].a_valid, compared.cells[1].b_valid), (Some(true), None));
    let text = text(&compared);
    assert!(text.contains("lost 0 → 3") && text.contains("+1.3") && text.contains("B has no such cell"), "{text}");
    assert!(!text.contains("claim") && !text.contains("median"), "{text}");
    let row = text.lines().find(|line| line.contains("+1.3")).expect("the row of p50");
    assert!(row.ends_with("not judged"), "each difference has the mark: {row}");
    assert!(!text.contains("by phase"), "{text}");
}

#[test]
fn a_seed_and_a_queue_discipline_that_differ_are_told() {
    let read = |namespace: &str, delta: u64, base: u64, sent: u64| ReadBack {
        cell: Some("all".to_owned()),
        qdiscs_of: None,
        command: format!(
            "tc -n {namespace} -j -s qdisc show dev {}-0",
            namespace.replacen('-', "", 1).trim_end_matches("-a")
        ),
        says: serde_json::from_value(json!([
            {"kind": "taprio", "handle": "100:", "root": true, "packets": sent, "refcnt": 9,
                "options": {"base_time": base, "cycle_time": 1_000_000, "map": [3, 1]}},
            {"kind": "etf", "handle": "8001:", "parent": "100:2", "drops": sent, "options": {"delta": delta}}
        ]))
        .expect("JSON"),
    };
    let with = |seed: u64, read_back: ReadBack| {
        side(|run, _| {
            run.manifest.seed = seed;
            run.manifest.read_back = vec![read_back];
        })
    };
    let a = with(7, read("tardy-0-a", 200_000, 1_700_000_000_000_000_000, 5));
    // Counters, the handle that the kernel gives, and whole cycles of the base time are every
    // run's own.
    let again = with(7, read("tardy-3-a", 200_000, 1_700_000_000_005_000_000, 9));
    assert_eq!(compared(&a, &again).differences, []);
    // A run that says whose they are is like an older one, whose commands alone tell it.
    let of = |station: &str, device: &str| Some(QdiscsOf { station: station.to_owned(), device: device.to_owned() });
    let said =
        ReadBack { qdiscs_of: of("a", QdiscsOf::MADE), ..read("tardy-0-a", 200_000, 1_700_000_000_000_000_000, 5) };
    assert_eq!(compared(&a, &with(7, said.clone())).differences, []);
    // What the kernel reports counts, and not the command: a namespace need not have the station's
    // name.
    let renamed = ReadBack { command: "tc -n elsewhere -j -s qdisc show dev eth7".to_owned(), ..said.clone() };
    assert_eq!(compared(&a, &with(7, renamed)).differences, []);
    let moved = ReadBack { qdiscs_of: of("b", QdiscsOf::MADE), ..said };
    assert!(compared(&a, &with(7, moved)).differences.iter().any(|row| row.key.starts_with("all b link root taprio")));
    let b = with(8, read("tardy-0-a", 150_000, 1_700_000_000_000_200_000, 5));
    let compared = compared(&a, &b);
    let rows: Vec<_> = compared.differences.iter().map(|row| (row.group, row.key.as_str(), row.b.as_deref())).collect();
    assert_eq!(
        rows,
        [
            (Group::Qdisc, "all a link 100:2 etf options.delta", Some("150000")),
            (Group::Qdisc, "all a link root taprio options.base_time", Some("200000 in the cycle")),
            (Group::Experiment, "seed", Some("8")),
        ]
    );
}

#[test]
fn every_row_of_two_runs_took_two_lines_and_half_of_them_had_no_figure() {
    let b = exact("bb", |run| {
        for metric in of_trials(run) {
            metric.figures.quantiles.p50_ns = metric.figures.quantiles.p50_ns.map(|ns| ns + 182);
        }
    });
    let said = tardy_report::compare::text(&compared(&exact("aa", |_| ()), &b), &Options::default());
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
    let heads = said.lines().filter(|line| line.contains("B − A") && line.contains("by phase, of "));
    assert_eq!(heads.count(), 1, "a heading on one line: {said}");
    assert!(flat(&row(&said, "p50")).contains("+182 5↑ 0↓ too few: 5 of 20"), "{said}");
    // What neither has, for one reason, is one row.
    let few = |print: &str| {
        exact(print, |run| {
            let stream = run.results.cells[0].streams.get_mut("ctl").expect("the stream");
            let metric = stream.metrics.get_mut("scheduled..rx_kernel").expect("the metric");
            metric.figures.quantiles.p99_ns = None;
            metric.figures.quantiles.p99_9_ns = None;
            metric.figures.quantiles.p99_99_ns = None;
            metric.unresolved = vec!["p99".into(), "p99_9".into(), "p99_99".into()];
            of_trials(run).for_each(|metric| {
                metric.figures.quantiles.p99_ns = None;
                metric.figures.quantiles.p99_9_ns = None;
                metric.figures.quantiles.p99_99_ns = None;
                metric.unresolved = vec!["p99".into(), "p99_9".into(), "p99_99".into()];
            });
        })
    };
    let said = text(&compared(&few("aa"), &few("bb")));
    let (_, rows) = said.split_once("scheduled..rx_kernel").expect("the metric");
    assert!(rows.contains("p99, p99.9, p99.99   not resolved in A and B\n"), "{said}");
    assert_eq!(row(&said, "p90").split_whitespace().next(), Some("p90"), "{said}");
}

#[test]
fn a_figure_that_one_run_refuses_is_not_compared_and_a_bound_is_shown_next_to_both() {
    let of_cell = |change: fn(&mut MetricResult)| {
        side(move |run, _| {
            let stream = run.results.cells[0].streams.get_mut("ctl").expect("the stream");
            change(stream.metrics.get_mut("scheduled..rx_kernel").expect("the metric"));
        })
    };
    let whole = of_cell(|_| ());
    let close = of_cell(|metric| metric.clock_bound_ns = Some(1_450));
    let refused = of_cell(|metric| {
        *metric = MetricResult { refused_by: Some("clock-bound".into()), ..MetricResult::default() };
    });
    let said = text(&compared(&whole, &close));
    assert_eq!(flat(&row(&said, "±")), "± 0.0 1.5 two clocks took the stamps");
    assert_eq!(text(&compared(&whole, &whole)).matches('±').count(), 0);
    let line = |said: &str| flat(said.lines().find(|line| line.contains("scheduled..rx_kernel")).expect("the metric"));
    assert_eq!(line(&text(&compared(&whole, &refused))), "scheduled..rx_kernel refused in B (clock-bound)");
    assert_eq!(line(&text(&compared(&refused, &refused))), "scheduled..rx_kernel refused in A and B (clock-bound)");
}
