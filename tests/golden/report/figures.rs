// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single figures and sparklines, traffic classes, and reference results next to those of a run:
//! every table can be named, its figures are the document's, and cells are where they belong.

use super::sample::{Run, metric, run};
use std::collections::BTreeMap;
use tardy_model::histogram::Histogram;
use tardy_model::result::{ClassResult, Placement, XdpPlacement};
use tardy_model::time::Nanos;
use tardy_model::verdict::Figure;
use tardy_report::figure::{Digits, SPACE, THIN, Unit};
use tardy_report::{bars, figure, sparkline};
use tardy_spec::{Source, load};

#[test]
fn fixed_decimals_round_half_away_from_zero_once() {
    for (unit, ns, wanted) in [
        (Unit::Us, 12_449, "12.4"),
        (Unit::Us, 12_450, "12.5"),
        (Unit::Us, -12_450, "-12.5"),
        (Unit::Us, 49, "0.0"),
        (Unit::Us, -49, "0.0"),
        (Unit::Us, 999_950, "1000.0"),
        (Unit::Ns, 7, "7"),
        (Unit::Ns, -7, "-7"),
        (Unit::Ms, 1_234_499, "1.234"),
        (Unit::Ms, 1_234_500, "1.235"),
        (Unit::Us, i64::MAX, "9223372036854775.8"),
        (Unit::Us, i64::MIN, "-9223372036854775.8"),
    ] {
        assert_eq!(unit.fixed(ns), wanted, "{ns} in {}", unit.sign());
    }
    assert_eq!(Unit::Us.fixed_f64(12_449.999), "12.4");
    assert_eq!(Unit::Us.fixed_f64(12_450.0), "12.5");
    assert_eq!(Unit::Ns.fixed_f64(0.5), "1");
    for odd in [f64::NAN, f64::INFINITY] {
        assert_eq!(Unit::Us.fixed_f64(odd), "–");
    }
}

#[test]
fn unit_keeps_figures_readable() {
    assert_eq!(Unit::fitting(Some(400), Some(9_999)), Unit::Ns);
    assert_eq!(Unit::fitting(Some(400), Some(10_000)), Unit::Us);
    assert_eq!(Unit::fitting(Some(9_999_999), Some(1_000_000_000)), Unit::Us);
    assert_eq!(Unit::fitting(Some(10_000_000), Some(1_000_000_000)), Unit::Ms);
    assert_eq!(Unit::fitting(None, None), Unit::Us);
}

#[test]
fn digits_are_grouped_before_the_point_only() {
    for (plain, wanted) in [
        ("0", "0"),
        ("999", "999"),
        ("1398.6", "1 398.6"),
        ("-1398.6543", "-1 398.6543"),
        ("-123", "-123"),
        ("1000000", "1 000 000"),
    ] {
        assert_eq!(figure::grouped(plain, SPACE), wanted);
    }
    assert_eq!(figure::count(10_000, THIN), "10\u{202f}000");
}

#[test]
fn running_text_has_two_or_three_digits() {
    for (ns, wanted) in [
        (0, "0 ns"),
        (22, "22 ns"),
        (999, "999 ns"),
        (1_000, "1.0 µs"),
        (9_949, "9.9 µs"),
        (9_950, "10 µs"),
        (18_000, "18 µs"),
        (999_499, "999 µs"),
        (999_500, "1.0 ms"),
        (1_100_000, "1.1 ms"),
        (999_500_000, "1.0 s"),
        (-18_000, "-18 µs"),
    ] {
        assert_eq!(figure::about(ns), wanted);
    }
}

#[test]
fn one_column_had_times_in_several_units() {
    let column = [35_000, 23_400_000, 0, 460, -1_200];
    let show = figure::about_all(column.into_iter());
    assert_eq!(column.map(show), ["0.035 ms", "23 ms", "0 ms", "0.00046 ms", "-0.0012 ms"]);
    assert_eq!(figure::about_all([12_000].into_iter())(12_000), figure::about(12_000));
    // What was got is read next to its limit, and neither is rounded.
    let limit = 80_000;
    assert_eq!(
        [1_234_567, 80_001, 900].map(|got| figure::exact_like(got, limit)),
        ["1234.567 µs", "80.001 µs", "0.9 µs"]
    );
}

#[test]
fn two_cells_of_a_table_had_two_units() {
    let mut run = run(&["fast", "slow"]);
    for shown in run.results.cells[0].streams.values_mut().flat_map(|stream| stream.metrics.values_mut()) {
        *shown = metric([400, 900, 2_200], 4_100, 1, 300, 450.0, 80.0);
    }
    let text = run.draw("text", 100);
    let heads: Vec<&str> = text.lines().filter(|line| line.contains("at packet")).collect();
    assert!(heads.len() == 2 && heads.iter().all(|head| head.ends_with("µs")), "{heads:?}");
    assert!(!run.draw("md", 100).contains("in ns"));
}

#[test]
fn limits_are_never_rounded() {
    for (ns, wanted) in [
        (0, "0 ns"),
        (80_000, "80 µs"),
        (80_001, "80.001 µs"),
        (90_400, "90.4 µs"),
        (-1_500_000, "-1.5 ms"),
        (1_000_000_001, "1.000000001 s"),
    ] {
        assert_eq!(figure::exact(ns), wanted);
    }
}

#[test]
fn what_was_got_stands_as_in_the_table_unless_rounding_would_hide_the_breach() {
    for (limit, got, unit, wanted) in [
        (80_000, 90_412, Unit::Us, ("80 µs", "90.4 µs")),
        (80_500, 1_398_649, Unit::Us, ("80.5 µs", "1 398.6 µs")),
        (20_000_000, 23_412_345, Unit::Us, ("20 000 µs", "23 412.3 µs")),
        // 80.04 µs is above 80 µs, and 80.0 would not seem so.
        (80_000, 80_040, Unit::Us, ("80 µs", "80.04 µs")),
        (80_000, 79_960, Unit::Us, ("80 µs", "79.96 µs")),
        (-5_000, -4_980, Unit::Us, ("-5 µs", "-4.98 µs")),
        (0, 7, Unit::Ns, ("0 ns", "7 ns")),
        (20_000_000, 23_412_345, Unit::Ms, ("20 ms", "23.412 ms")),
        // Finer than the table: as it was written.
        (12_345, 90_412, Unit::Us, ("12.345 µs", "90.4 µs")),
        (80_000, 340, Unit::Us, ("80 µs", "0.34 µs")),
    ] {
        assert_eq!((&*figure::limit(limit, Digits::of(unit)), &*figure::beside(got, limit, Digits::of(unit))), wanted);
    }
}

#[test]
fn a_limit_of_25_ns_was_broken_by_0_1_us() {
    for (limit, got, table, wanted) in [
        (25, 50, Digits::of(Unit::Us), ("25 ns", "50 ns")),
        (25, 18_300, Digits::of(Unit::Us), ("25 ns", "18300 ns")),
        (1_250, 2_034, Digits::of(Unit::Ms), ("1.25 µs", "2.034 µs")),
        (25, 50, Digits::exact(Unit::Us), ("0.025 µs", "0.050 µs")),
        (0, 4, Digits::of(Unit::Us), ("0 µs", "0.004 µs")),
        (100, 101, Digits::of(Unit::Us), ("0.1 µs", "0.101 µs")),
    ] {
        assert_eq!((&*figure::limit(limit, table), &*figure::beside(got, limit, table)), wanted);
    }
}

#[test]
fn shares_are_cut_and_only_all_is_a_hundred() {
    for (share, wanted) in [
        (1.0, "100 %"),
        (0.999_999, "99.99 %"),
        (0.9999, "99.99 %"),
        (0.992, "99.2 %"),
        (0.5, "50 %"),
        (0.0, "0 %"),
        (f64::NAN, "–"),
    ] {
        assert_eq!(figure::share(share), wanted);
    }
}

#[test]
fn spans_as_files_and_clocks_write_them() {
    for (ns, wanted) in [(500_000, "500us"), (1_000_000, "1ms"), (2_000_000_000, "2s"), (1_500, "1500ns"), (0, "0ns")] {
        assert_eq!(figure::written(Nanos(ns)), wanted);
    }
    assert_eq!(figure::clock(Nanos::from_secs(53)), "00:53");
    assert_eq!(figure::clock(Nanos::from_secs(3_723)), "1:02:03");
    assert_eq!(figure::clock(Nanos(-1)), "00:00");
}

#[test]
fn sparkline_runs_from_the_least_to_the_greatest() {
    // A decade each: on a logarithmic scale they stand at the ends and in the middle.
    let line = sparkline(&[(1_000, 1_000, 80), (10_000, 10_000, 40), (100_000, 100_000, 1)], 21);
    assert_eq!(line, "█         ▄         ▁");
    // The same with nothing in it, with one value, with a bucket that says nothing.
    assert_eq!(sparkline(&[], 10), "");
    assert_eq!(sparkline(&[(5, 5, 0)], 10), "");
    assert_eq!(sparkline(&[(5_000, 5_000, 3), (9_000, 9_000, 0)], 8).trim(), "████████");
    assert_eq!(sparkline(&[(1, 2, 3)], 0), "");
}

#[test]
fn sparkline_has_no_gaps_that_are_only_resolution() {
    // Whole nanoseconds in more cells than there are nanoseconds.
    let line = sparkline(&[(10, 10, 5), (11, 11, 5), (12, 12, 5)], 30);
    assert_eq!(line.chars().count(), 30);
    assert!(!line.contains(' '), "{line:?}");
}

#[test]
fn sparkline_takes_negative_and_extreme_values() {
    let early = sparkline(&[(-5_000, -4_990, 10), (0, 0, 1), (900_000, 900_500, 1)], 40);
    assert!(early.starts_with('█') && early.ends_with('▁'), "{early:?}");
    assert_eq!(early.chars().filter(|c| *c != ' ').count(), 3, "{early:?}");
    let extreme = sparkline(&[(i64::MIN, i64::MIN, 1), (0, 0, 1), (i64::MAX, i64::MAX, 1)], 9);
    assert_eq!(extreme, "█   █   █");
}

#[test]
fn bars_are_the_buckets_of_a_histogram() {
    let mut histogram = Histogram::new();
    [7, 7, -3, 5_000_000].into_iter().for_each(|ns| histogram.record(ns));
    let bars = bars(&histogram);
    assert_eq!(bars[..2], [(-3, -3, 1), (7, 7, 2)]);
    let (low, high, count) = bars[2];
    assert!(low <= 5_000_000 && 5_000_000 <= high && count == 1, "{bars:?}");
}

fn classes() -> Vec<ClassResult> {
    let of = |class: u8, judged: u64, packets: u64| ClassResult {
        class: Some(class),
        qdiscs: vec!["pfifo".to_owned()],
        packets,
        judged,
        inside: judged.saturating_sub(3),
        late: judged.min(3),
        ..ClassResult::default()
    };
    vec![of(0, 0, 0), of(1, 1_000, 1_020), of(2, 0, 0), of(3, 0, 40)]
}

#[test]
fn packets_were_late_without_the_bound_of_the_clocks_that_decide_it() {
    let mut sample = run(&["all"]);
    let ctl = sample.results.cells[0].streams.get_mut("ctl").expect("ctl");
    ctl.outcomes.late = 100;
    let one = ["text", "md", "html"].map(|format| sample.draw(format, 120));
    assert!(
        one[0].contains("late 100 ") && one[1].contains("late 100 ·") && !one[0].contains("late 100 (±"),
        "{}",
        one[0]
    );
    let ctl = sample.results.cells[0].streams.get_mut("ctl").expect("ctl");
    let lead = ctl.metrics.get_mut("scheduled..rx_kernel").expect("the leading metric");
    lead.clock_bound_ns = Some(263_600);
    let two = ["text", "md", "html"].map(|format| sample.draw(format, 120));
    for shown in &two {
        assert!(shown.contains("late 100 (± 263.6 µs)"), "{shown}");
    }
    // A reply comes back to the clock that its request left by.
    let ctl = sample.results.cells[0].streams.get_mut("ctl").expect("ctl");
    let back = ctl.metrics["scheduled..rx_kernel"].clone();
    ctl.metrics.insert("scheduled..reply_receive".to_owned(), back);
    assert!(!sample.draw("md", 120).contains("late 100 (±"));
}

#[test]
fn classes_that_saw_no_packet_were_left_out_without_a_word() {
    let mut sample = run(&["all"]);
    sample.results.cells[0].classes = classes();
    let text = sample.draw("text", 100);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("class")).collect();
    assert_eq!(
        lines,
        [
            "class 1    inside 997 of 1 000  late 3  pfifo: passed 1 020  dropped 0  overlimits 0",
            "class 3    pfifo: passed 40  dropped 0  overlimits 0",
            "classes    0, 2: no packet",
        ]
    );
    sample.results.cells[0].classes.truncate(2);
    let text = sample.draw("text", 100);
    assert!(text.lines().any(|line| line.trim() == "class 0    no packet"), "{text}");
    assert!(!text.contains("classes"), "{text}");
}

#[test]
fn a_class_in_which_nothing_was_judged_was_told_as_none_inside() {
    let mut sample = run(&["all"]);
    sample.results.cells[0].classes = classes();
    for format in ["md", "org"] {
        let text = sample.draw(format, 100);
        let row = |class: &str| {
            let of =
                |line: &&str| line.split('|').nth(1).is_some_and(|cell| cell.trim() == class) && line.contains("pfifo");
            let line = text.lines().find(of).unwrap_or_else(|| panic!("no class {class}: {text}"));
            line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("1"), ["1", "pfifo", "1000", "997", "0", "3", "1020", "0", "0"], "{format}");
        assert_eq!(row("3"), ["3", "pfifo", "–", "–", "–", "–", "40", "0", "0"], "{format}");
    }
}

const TABLES: [&str; 6] = ["R1", "R2", "R2-load", "R3", "R4", "R5"];
const DOCUMENT: &str = include_str!("../../../docs/reference-results.md");

fn naming(id: &str, cells: &[&str]) -> Run {
    let mut run = run(cells);
    run.facts.reference = Some(id.to_owned());
    run
}

/// The rows of the table below the run's heading of it.
fn beside(run: &Run, id: &str) -> Vec<Vec<String>> {
    let text = run.draw("md", 100);
    let (_, text) = text.split_once(&format!("## Compared with reference results {id}\n")).expect("its heading");
    table(text)
}

/// The first table of a text, without its head.
fn table(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.skip(2).map(cells).collect()
}

/// The figures of a row, as numbers without separators.
fn figures(row: &[String]) -> Vec<String> {
    let plain = |text: &String| text.replace([' ', '\u{202f}'], "");
    let number = |text: &String| text.parse::<f64>().ok().map(|n| n.to_string());
    row.iter().map(plain).filter_map(|text| number(&text)).collect()
}

#[test]
fn every_table_of_the_document_can_be_named_and_is_drawn() {
    for id in TABLES {
        let text = format!("reference = \"{id}\"\n{}", tardy_tests::experiment("stream from a to b"));
        let loaded = load(&Source { name: "x.toml".into(), text }, &[]).expect("it can be named");
        assert_eq!(loaded.reference.as_deref(), Some(id));
        let run = naming(id, &["mine"]);
        for format in ["md", "org", "html", "text"] {
            let text = run.draw(format, 100).split_whitespace().collect::<Vec<_>>().join(" ");
            let shown = text.contains("other hardware") && text.contains("no cell of this run");
            assert!(text.contains(id) && shown, "{id} as {format}: {text}");
        }
    }
}

#[test]
fn figures_beside_a_run_are_those_of_the_document() {
    // R4 and R5 have a column more in the document than a row has figures: bytes of a buffer.
    for id in TABLES {
        let mut documented: Vec<(String, Vec<String>)> = Vec::new();
        for line in DOCUMENT.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<String> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            // One row may be that of several cells.
            for name in cells[0].split(", ") {
                documented.push((name.trim_matches('`').to_owned(), figures(&cells[1..])));
            }
        }
        let rows = beside(&naming(id, &["mine"]), id);
        assert!(rows.len() >= 3, "{id}: {rows:?}");
        for row in rows {
            assert_eq!(row[1], format!("{id}, no cell of this run"));
            let name = row[0].replace('\\', "");
            let mut ours = figures(&row);
            let known = documented.iter().filter(|(cell, _)| *cell == name);
            ours.sort();
            let holds = |theirs: &Vec<String>| ours.iter().all(|figure| theirs.contains(figure));
            let mut known = known.map(|(_, figures)| figures);
            assert!(!ours.is_empty() && known.any(holds), "{id} {name}: {ours:?} in {documented:?}");
        }
    }
}

#[test]
fn a_cell_stands_above_the_row_of_its_name_and_of_no_other() {
    let run = naming("R1", &["none-idle", "mine"]);
    let rows = beside(&run, "R1");
    assert_eq!(rows.len(), 9, "{rows:?}");
    assert_eq!(rows[0][..6], ["none-idle", "this run", "10.9", "14.7", "915.0", "7.2"]);
    assert_eq!(rows[1][..6], ["", "R1", "12.4", "12.7", "41.4", "0.5"]);
    assert_eq!(rows[2][..2], ["none-loaded", "R1, no cell of this run"]);
    assert!(rows.iter().all(|row| row[0] != "mine"), "{rows:?}");
    let text = run.draw("text", 100);
    assert!(text.contains("none-idle: min 12.4 avg 12.7 max 41.4 stddev 0.5 µs, delta min 470.4"), "{text}");
    // Of a table in ns this run's figures are ns, and a figure that the table does not have is
    // none.
    let mut run = naming("R4", &["igb-RT1-spin-same"]);
    let ctl = run.results.cells[0].streams.get_mut("ctl").expect("ctl");
    let figures = ctl.metrics["rx_kernel..receive"].clone();
    ctl.metrics.insert("rx_xdp..receive".into(), figures);
    let rows = beside(&run, "R4");
    let ours = rows.iter().position(|row| row[1] == "this run").expect("our row");
    assert_eq!(rows[ours], ["igb-RT1-spin-same", "this run", "20400", "15100", "501900"]);
    assert_eq!(rows[ours + 1], ["", "R4", "2577", "2129", "4155"]);
    // The row of a program that prints is next to the cell with such a program, and what sets the
    // two apart is below.
    let run = naming("R3", &["xdp", "xdp-printk"]);
    let rows = beside(&run, "R3");
    let ours = rows.iter().position(|row| row[1] == "this run").expect("our row");
    assert_eq!((&*rows[ours][0], &*rows[ours + 1][2]), ("xdp-printk", "5598"));
    assert_eq!(rows.iter().filter(|row| row[1] == "this run").count(), 1, "{rows:?}");
    for format in ["md", "org", "html", "text"] {
        let text = run.draw(format, 400);
        assert!(text.contains("shaper.etf.delta"), "{format}: {text}");
    }
    // An experiment of one condition, of the one row that is host to host.
    let rows = beside(&naming("R3", &["all"]), "R3");
    assert_eq!([&*rows[0][1], &*rows[1][1], &*rows[2][1]], ["this run", "R3", "R3, no cell of this run"]);
}

/// Two cells of `afxdp-delay`: the application was on CPU 1, the program there and on CPU 0.
fn by_xdp() -> Run {
    let mut run = naming("R4", &["spin-same,dma_latency=default", "poll-remote,dma_latency=2us"]);
    let machine = &mut run.manifest.machine;
    machine.insert("cpu.model".into(), "a CPU".into());
    machine.insert("kernel.release".into(), "6.12.1".into());
    machine.insert("kernel.version".into(), "#1 SMP PREEMPT_RT Debian".into());
    let states = ["POLL: leaves in 0 µs, stays 0 µs", "C1: leaves in 2 µs, stays 2 µs, disabled"];
    machine.insert("cpu.idle_states".into(), Figure::List(states.map(Figure::from).to_vec()));
    let of = [("spin", "same", 1, "default", 2_000_000_000, 849), ("poll", "remote", 0, "2us", 2, 2_210)];
    for (cell, (wait, core, cpu, bound, read_us, min)) in run.results.cells.iter_mut().zip(of) {
        cell.axes = BTreeMap::from([("cpu.dma_latency".to_owned(), bound.to_owned())]);
        let delay = metric([min + 100, min + 900, min + 1_900], min + 5_000, 42, min, min as f64 + 200.4, 50.0);
        cell.streams.get_mut("ctl").expect("ctl").metrics.insert("rx_xdp..receive".into(), delay);
        cell.xdp = vec![XdpPlacement {
            stream: "ctl".into(),
            driver: "veth".into(),
            mode: "native".into(),
            wait: wait.into(),
            core: Some(core.into()),
            packets_by_program_cpu: BTreeMap::from([(cpu, 5_000)]),
            receiver_cpus: vec![1],
            same: if core == "same" { 5_000 } else { 0 },
            remote: if core == "same" { 0 } else { 5_000 },
            unknown: 0,
            dma_latency_before_us: vec![read_us],
            dma_latency_after_us: vec![read_us],
        }];
    }
    run
}

#[test]
fn time_delays_of_af_xdp_have_a_table_of_their_own_and_one_of_the_systems() {
    let run = by_xdp();
    let text = run.draw("md", 100);
    let (_, delays) = text.split_once("## From the XDP program to the application\n").expect("its heading");
    let head =
        delays.lines().find(|line| line.starts_with('|')).expect("a head").split_whitespace().collect::<Vec<_>>();
    let head = head.join(" ");
    assert_eq!(
        head,
        "| cell | driver | wait | core | program on CPU | application on CPU | p50 | p99 | mean | min | max | at packet |"
    );
    let rows = table(delays);
    let first = "spin-same, dma\\_latency = default";
    assert_eq!(rows[0][0].replace('\\', ""), first.replace('\\', ""));
    assert_eq!(rows[0][1..], ["veth", "spin", "same", "1", "1", "949", "1749", "1049", "849", "5849", "42"]);
    assert_eq!(rows[1][1..], ["veth", "poll", "remote", "0", "1", "2310", "3110", "2410", "2210", "7210", "42"]);
    let (_, systems) = text.split_once("## Systems\n").expect("its heading");
    let rows = table(systems);
    assert_eq!(
        rows[0],
        ["this run", "a CPU", "6.12.1", "PREEMPT_RT", "0, 2", "default", "no limit", "no limit"].map(str::to_owned)
    );
    assert_eq!(rows[1][5..], ["2us", "2", "2"]);
    assert_eq!(rows[2..].iter().map(|row| &*row[0]).collect::<Vec<_>>(), ["R4, A", "R4, B", "R4, RT1"]);
    // Without the reference the run's own remains, and a machine that has no idle states says so.
    let mut alone = by_xdp();
    alone.facts.reference = None;
    alone.manifest.machine.insert("cpu.idle_states".into(), Figure::List(Vec::new()));
    let text = alone.draw("org", 100);
    assert!(!text.contains("R4") && text.contains("no idle states"), "{text}");
    assert!(!self::run(&["all"]).draw("md", 100).contains("XDP program"), "no table without such a port");
}

#[test]
fn receivers_have_a_table_of_what_they_cost_and_know() {
    let mut run = by_xdp();
    // Of a second: on a CPU, waiting for one, and wake-ups. The rest is idle.
    for (cell, (run_ns, wait_ns, wakeups)) in
        run.results.cells.iter_mut().zip([(999_000_000, 1_000_000, 0), (25_000_000, 5_000_000, 1_250)])
    {
        let tx = cell.placement[0].clone();
        let (thread, over_ns) = ("ctl.rx".into(), Some(1_000_000_000));
        let (run_ns, wait_ns, wakeups) = (Some(run_ns), Some(wait_ns), Some(wakeups));
        cell.placement.push(Placement { thread, over_ns, run_ns, wait_ns, wakeups, ..tx });
        let ctl = cell.streams.get_mut("ctl").expect("ctl");
        ctl.outcomes.received = 5_000;
        ctl.metrics.get_mut("rx_xdp..receive").expect("the metric").count = 5_000;
    }
    let (_, receivers) =
        run.draw("md", 100).split_once("## Receivers\n").map(|of| (of.0.len(), of.1.to_owned())).expect("it");
    let rows = table(&receivers);
    let figures: Vec<&[String]> = rows.iter().map(|row| &row[1..]).collect();
    assert_eq!(figures[0], ["CPU 1, same core", "99.9 %", "0 %", "0", "–", "100 %", "949 ns", "1.7 µs"]);
    assert_eq!(figures[1], ["CPU 0, another core", "2.5 %", "97 %", "1250", "4.0", "100 %", "2.3 µs", "3.1 µs"]);
    // In the terminal and on the page it is the same table.
    for (format, row) in
        [("text", "CPU 0, another core 2.5 % 97 % 1 250 4.0 100 % 2.3 µs 3.1 µs"), ("html", "packets each")]
    {
        let text = run.draw(format, 120).replace('\u{202f}', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(row), "{format}: {text}");
    }
    // A thread that nobody timed has no row.
    run.results.cells.iter_mut().for_each(|cell| cell.placement[1].over_ns = None);
    assert!(!run.draw("md", 100).contains("## Receivers"));
}

#[test]
fn the_cell_with_the_smallest_minimum_is_named_with_its_cpus() {
    let mut run = by_xdp();
    let says = "spin-same, dma_latency = default: 849 ns, core same: the program ran on CPU 1 (5000 packets), the application \
                on CPU 1. The systems of R4 have it in different cells";
    for format in ["md", "org", "html", "text"] {
        let text = run.draw(format, 100).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(says) && text.contains("systems B (419 ns)"), "{format}: {text}");
    }
    let mut mixed = by_xdp();
    mixed.results.cells[0].xdp[0].remote = 1;
    assert!(!mixed.draw("md", 100).contains("smallest minimum"), "it may be of the packet on the other core");
    // What is not valid names nothing, and one cell is the smallest of none.
    run.results.cells[0].valid = false;
    assert!(!run.draw("md", 100).contains("smallest minimum"));
}

#[test]
fn cells_of_afxdp_delay_are_above_the_rows_of_r4_with_their_wait_core_and_bound() {
    let rows = beside(&by_xdp(), "R4");
    let at = |name: &str| rows.iter().position(|row| row[0].replace('\\', "") == name).expect("a row");
    let above = |name: &str| rows[at(name) - 1][1..].to_vec();
    assert_eq!(above("igc-A-spin-same"), ["this run", "1049", "849", "5849"]);
    assert_eq!(above("igc-B-wakeup-remote"), ["this run", "2410", "2210", "7210"]);
    assert_eq!(rows.iter().filter(|row| row[1] == "this run").count(), 2);
    assert_eq!(rows[at("igc-A-spin-same")][1..], ["R4", "1575", "849", "2123"]);
}
