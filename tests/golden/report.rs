// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formats of a report, character by character.

#[path = "report/documents.rs"]
pub(crate) mod documents;
#[path = "report/figures.rs"]
mod figures;
#[path = "report/leads.rs"]
mod leads;
#[path = "report/page.rs"]
mod page;
#[path = "report/sample.rs"]
pub(crate) mod sample;
#[path = "report/schema.rs"]
pub(crate) mod schema;
#[path = "report/stages.rs"]
mod stages;

use sample::{Run, limit, many, odd, run};
use tardy_model::result::{MetricResult, Quantiles, Results};
use tardy_model::verdict::{Level, Verdict};
use tardy_report::{FORMATS, Options, ReportError, format};
use tardy_tests::section;

/// Fails with the first line that differs, then the whole text.
pub(crate) fn same(got: &str, wanted: &str) {
    let differing = got.lines().zip(wanted.lines()).position(|(a, b)| a != b);
    let line = differing.unwrap_or(got.lines().count().min(wanted.lines().count()));
    assert!(
        got == wanted,
        "line {}:\n got {:?}\nwant {:?}\n\n{got}",
        line + 1,
        got.lines().nth(line),
        wanted.lines().nth(line)
    );
}

/// A table of the file of tables.
fn table(name: &str) -> &'static str {
    section(include_str!("report/tables.txt"), name)
}

fn width(line: &str) -> usize {
    line.chars().count()
}

#[test]
fn design_sample_comes_out_as_drawn() {
    let text = run(&["rx.wait=block", "rx.wait=poll"]).draw("text", 108);
    // The figures of the design's own drawing; those below 1 µs have two digits.
    let drawn = "\
rx.wait = block                    p50      p99    p99.9      max  at packet      min     mean   stddev   µs
  scheduled..wakeup               12.4     21.0     88.1    912.4     #4 211      9.8     13.0      7.1
  scheduled..rx_kernel            14.0     23.3     90.4    915.0     #4 211     10.9     14.7      7.2
  tx_kernel..rx_kernel            0.40     0.90     2.20    14.10     #8 730     0.30     0.50     0.10
  rx_kernel..receive              19.5     31.2     77.0    501.9       #122     15.1     20.4      6.6
  delta                          500.0    512.9    588.1  1 398.6     #4 211     96.0    500.0     10.2
";
    assert!(text.contains(drawn), "{text}");
    same(&text, table("design"));
}

#[test]
fn one_cell_at_the_usual_width() {
    same(&run(&["all"]).draw("text", 100), table("one"));
}

#[test]
fn nulls_infinite_streams_and_broken_limits() {
    same(&odd().draw("text", 100), table("odd"));
}

#[test]
fn narrow_terminal_leaves_columns_out_and_says_so() {
    let text = odd().draw("text", 60);
    assert!(text.contains("at packet, min, mean, stddev left out"), "{text}");
    same(&text, table("narrow"));
}

#[test]
fn many_cells_are_compared_in_one_table() {
    let text = many().draw("text", 100);
    assert!(text.lines().count() < 24, "{text}");
    same(&text, table("many"));
    let narrow = many().draw("text", 64);
    for values in ["udp, block", "xdp, busypoll"] {
        assert!(narrow.contains(values), "{narrow}");
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (name, run) in [("one", run(&["rx.wait=block"])), ("odd", odd()), ("many", many())] {
        for columns in 56..=160 {
            for line in run.draw("text", columns).lines() {
                // A path or a command stays whole, so that it can be pasted.
                let whole = line.contains("report.html") || line.contains("tardy report");
                assert!(whole || width(line) <= columns, "{name} at {columns}: {} columns: {line}", width(line));
                assert_eq!(line, line.trim_end(), "{name} at {columns}");
            }
        }
    }
}

#[test]
fn figures_line_up_between_cells() {
    let text = odd().draw("text", 100);
    let ends: Vec<usize> =
        text.lines().filter(|line| line.trim_start().starts_with("rx_kernel..receive")).map(width).collect();
    assert_eq!(ends.len(), 3, "{text}");
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}\n{text}");
}

#[test]
fn far_percentile_shows_where_there_is_room() {
    let mut run = run(&["all"]);
    let ctl = run.results.cells[0].streams.get_mut("ctl").expect("ctl");
    ctl.metrics.get_mut("scheduled..wakeup").expect("wakeup").figures.quantiles.p99_99_ns = Some(700_000);
    assert!(!run.draw("text", 100).contains("p99.99"));
    let wide = run.draw("text", 120);
    let head = wide.lines().nth(2).expect("a head");
    let row = wide.lines().find(|line| line.contains("scheduled..wakeup")).expect("a row");
    let end = |line: &str, word: &str| line.find(word).map(|at| width(&line[..at]) + width(word));
    assert_eq!(end(head, "p99.99"), end(row, "700.0"), "{wide}");
    assert!(head.find("p99.99") < head.find("max"), "{wide}");
}

#[test]
fn invalid_run_judges_no_expectations() {
    let mut run = run(&["all"]);
    run.results.valid = false;
    run.results.expectations_met = None;
    run.results.expectations[0].met = None;
    run.results.cells[0].valid = false;
    let text = run.draw("text", 100);
    assert!(text.contains("\n  invalid    do not use these figures\n"), "{text}");
    assert!(text.contains("\nNOT VALID    do not use these figures; expectations not judged"), "{text}");
    assert!(!text.contains("not met"), "{text}");
    // Which limits stay open was not to be seen.
    assert!(text.contains("\nnot judged   all: ctl scheduled..rx_kernel p99.9: the figures are not valid\n"), "{text}");
}

#[test]
fn a_valid_run_ended_with_exit_4_and_no_reason() {
    let mut run = run(&["all"]);
    run.results.expectations_met = None;
    let open = &mut run.results.expectations[0];
    (open.met, open.why) = (None, Some("threads of ctl waited for others".to_owned()));
    let text = run.draw("text", 100);
    assert!(text.contains("\nnot judged   all: ctl "), "{text}");
    assert!(text.contains("threads of ctl waited"), "{text}");
    let page = run.draw("html", 100);
    assert!(page.contains("not judged</b> all: ctl ") && page.contains("threads of ctl waited"), "{}", page.len());
    // Where the cell is not valid, its verdicts say why, and the limit is only named.
    run.results.cells[0].valid = false;
    let text = run.draw("text", 100);
    let open: Vec<&str> = text.lines().filter(|line| line.starts_with("not judged")).collect();
    assert_eq!(open, ["not judged   all: ctl scheduled..rx_kernel p99.9: the figures are not valid"]);
}

#[test]
fn one_cell_that_is_not_valid_forbade_the_figures_of_all() {
    let mut some = run(&["wait=block", "wait=poll", "wait=spin"]);
    let results = &mut some.results;
    (results.valid, results.cells[1].valid) = (false, false);
    results.expectations[0] = limit("wait=poll", 100_000, None, false);
    results.expectations[0].met = None;
    (results.expectations[1], results.expectations_met) =
        (limit("wait=spin", 80_000, Some(90_400), false), Some(false));
    let text = some.draw("text", 160);
    let line =
        "\nNOT VALID    do not use the figures of wait = poll (the others may be used); expectations not met (1 of 2";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("\nnot met      wait = spin: ctl "), "{text}");
    let open = "\nnot judged   wait = poll: ctl scheduled..rx_kernel p99.9: the figures are not valid\n";
    assert!(text.contains(open), "{text}");
    // What spoils the whole run spoils all cells.
    some.results.verdicts.push(Verdict::new("own-trace", Level::Invalid, "the trials disturbed each other"));
    assert!(some.draw("text", 100).contains("\nNOT VALID    do not use these figures; "));
    some.results.verdicts.clear();
    some.results.cells.iter_mut().for_each(|cell| cell.valid = false);
    assert!(some.draw("text", 100).contains("\nNOT VALID    do not use these figures; "));
}

#[test]
fn trials_that_do_not_count_are_named() {
    let mut run = run(&["all"]);
    run.results.cells[0].trials.truncate(4);
    assert!(run.draw("text", 100).contains("  trials     4 of 5 finished\n"));
    run.results.cells[0].trials.iter_mut().for_each(|trial| trial.valid = false);
    assert!(run.draw("text", 100).contains("  trials     none of 4 is valid\n"));
    run.results.cells[0].trials.clear();
    run.results.cells[0].streams.clear();
    run.results.cells[0].verdicts.clear();
    assert!(run.draw("text", 100).contains("all\n  trials     none finished\n"), "{}", run.draw("text", 100));
}

#[test]
fn a_refused_cell_a_shortage_and_a_trial_left_out_are_told_once() {
    let mut refused = run(&["all"]);
    let why = "this machine has 2 CPUs: CPU 7 does not exist";
    let cell = &mut refused.results.cells[0];
    (cell.valid, refused.results.valid) = (false, false);
    cell.trials.clear();
    cell.verdicts = vec![Verdict::new("refused", Level::Invalid, why)];
    refused.manifest.cells[0].refused = Some(why.into());
    let text = refused.draw("text", 100);
    assert!(text.contains(&format!("  refused    {why}\n")), "{text}");
    let text = refused.draw("text", 100) + &odd().draw("text", 400);
    assert_eq!(text.matches("CPU 7 does not exist").count(), 2, "once in each of two runs: {text}");
    for (once, count) in [("none finished", 0), ("EPERM", 1), ("trial 2", 1), ("CLOCK_REALTIME", 1), ("  trials", 0)] {
        assert_eq!(text.matches(once).count(), count, "{once}: {text}");
    }
}

#[test]
fn a_refused_cell_has_no_rows_that_each_say_so() {
    let mut refused = run(&["rx.wait=block", "rx.wait=busypoll"]);
    let cell = &mut refused.results.cells[1];
    cell.valid = false;
    cell.trials.clear();
    cell.verdicts = vec![Verdict::new("refused", Level::Invalid, "packets come without a NAPI context")];
    for metric in cell.streams.values_mut().flat_map(|stream| stream.metrics.values_mut()) {
        *metric = MetricResult { why: Some("no trial was finished".into()), ..MetricResult::default() };
    }
    let text = refused.draw("text", 108);
    assert!(
        text.contains("\nrx.wait = busypoll\n  refused    packets come without a NAPI context\n\n  waited: "),
        "{text}"
    );
    assert!(!text.contains("no trial was finished"), "{text}");
    assert_eq!(text.matches("scheduled..wakeup").count(), 1, "{text}");
}

#[test]
fn a_dash_says_in_which_rows_it_stands() {
    let dashes = |change: &dyn Fn(&str, &mut MetricResult)| {
        let mut run = run(&["all"]);
        let ctl = run.results.cells[0].streams.get_mut("ctl").expect("ctl");
        ctl.metrics.iter_mut().for_each(|(name, metric)| change(name, metric));
        let text = run.draw("text", 100);
        text.lines().filter(|line| line.contains("– in ")).map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let null = |metric: &mut MetricResult, names: &[&str]| {
        metric.unresolved = names.iter().map(|name| (*name).to_owned()).collect();
        for name in names {
            match *name {
                "p99" => metric.figures.quantiles.p99_ns = None,
                _ => metric.figures.quantiles.p99_9_ns = None,
            }
        }
    };
    assert!(dashes(&|_, _| ()).is_empty(), "p99.99 is not in sight");
    let why = "fewer than 10 separate events (one stall is one) lie beyond";
    assert_eq!(dashes(&|_, m| null(m, &["p99", "p99.9"])), [format!("p99, p99.9 – in every row: {why}")]);
    let some = dashes(&|name, m| {
        if name == "delta" {
            null(m, &["p99.9"])
        }
    });
    assert_eq!(some, [format!("p99.9 – in delta: {why}")]);
    let mixed = dashes(&|name, m| null(m, if name == "delta" { &["p99", "p99.9"] } else { &["p99.9"] }));
    assert_eq!(mixed, [format!("p99 – in delta; p99.9 – in every row: {why}")]);
    let received = dashes(&|name, m| {
        if name == "delta" {
            let only = Quantiles { p99_9_ns: None, ..m.figures.quantiles.clone() };
            m.received_only = Some(only);
        }
    });
    assert_eq!(received, [format!("p99.9 – in delta received only: {why}")]);
}

#[test]
fn percentiles_from_a_histogram_are_marked() {
    let mut run = run(&["all"]);
    assert!(!run.draw("text", 100).contains("hdr3"));
    let ctl = run.results.cells[0].streams.get_mut("ctl").expect("ctl");
    ctl.metrics.values_mut().for_each(|metric| metric.percentiles = "hdr3".into());
    assert!(run.draw("text", 100).contains("  figures    percentiles are read from a histogram (hdr3: within 0.1 %)"));
}

#[test]
fn colour_marks_only_what_means_something() {
    let colour = Options { width: 100, colour: true };
    let strip = |text: &str| {
        ["\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"].iter().fold(text.to_owned(), |t, e| t.replace(e, ""))
    };
    for run in [run(&["all"]), odd(), many()] {
        assert_eq!(strip(&run.draw_as("text", colour)), run.draw("text", 100));
    }
    let text = odd().draw_as("text", colour);
    for wanted in [
        "\x1b[32mVALID\x1b[0m        expectations not met (3 of 4 failed)",
        "  \x1b[33mwarning\x1b[0m    the RT",
        "\x1b[2mruler\x1b[0m        \x1b[2mstamp",
        "  \x1b[31mrefused\x1b[0m    this",
        "\x1b[31mnot met\x1b[0m      A-only: ctl lost, limit 0, got 3",
    ] {
        assert!(text.contains(wanted), "{wanted:?}\n{text}");
    }
    let many = many().draw_as("text", colour);
    assert!(many.contains("\x1b[31mNOT VALID\x1b[0m    do not"), "{many}");
    assert!(many.contains("  \x1b[31mnot valid\x1b[0m\n"), "{many}");
    assert!(!run(&["all"]).draw("text", 100).contains('\x1b'));
}

#[test]
fn text_from_outside_does_not_move_the_cursor() {
    let mut run = run(&["all"]);
    run.results.name = "ev\x1b[2Jil\r".into();
    run.results.cells[0].verdicts[1].says = "a\x07b\nc \x1b[31mred".into();
    run.results.verdicts.push(run.results.cells[0].verdicts[1].clone());
    for format in ["text", "md", "org", "html"] {
        let text = run.draw(format, 100);
        assert!(!text.contains(['\x1b', '\x07', '\r']), "{format}: {text:?}");
    }
}

#[test]
fn run_without_anything_still_has_a_picture() {
    let nothing = Results {
        format: 1,
        name: "nothing".into(),
        valid: false,
        expectations_met: None,
        expectations: Vec::new(),
        fingerprint: None,
        validity: Default::default(),
        cells: Vec::new(),
        verdicts: Vec::new(),
    };
    let mut run = Run { results: nothing, run_dir: None, bars: Vec::new(), ..run(&["all"]) };
    run.manifest.ruler.clear();
    for format in FORMATS {
        let text = run.draw(format.name, 80);
        assert!(text.ends_with('\n'), "{}", format.name);
    }
    let text = run.draw("text", 80);
    assert!(text.contains("all\n  trials     none finished\n"), "{text}");
    assert!(text.contains("ruler        not measured\nNOT VALID    do not use these figures\n"), "{text}");
}

#[test]
fn unknown_format_lists_those_that_exist() {
    let error = format("pdf").expect_err("no such format");
    assert!(matches!(error, ReportError::UnknownFormat { .. }));
    assert_eq!(error.to_string(), "`pdf` is not a format: choose one of text, md, org, html, json, csv, junit");
}

#[test]
fn a_long_policy_does_not_make_the_table_of_placement_wider_than_the_page() {
    let mut run = run(&["all"]);
    let thread = &mut run.results.cells[0].placement[0];
    thread.thread = "a-stream-with-a-very-long-name.reply".to_owned();
    thread.policy_asked = "deadline:200000ns/1000000ns/1000000ns".to_owned();
    (thread.memory_locked, thread.migrations, thread.wait_ns) = (Some(false), None, None);
    let text = run.draw("text", 80);
    let line = text.lines().find(|line| line.contains("a-stream-with-a-very-lo…")).expect("its row");
    assert!(line.contains("fifo:90, not deadline") && line.ends_with('…'), "{line}");
    assert!(text.lines().filter(|line| !line.contains("page:")).all(|line| width(line) <= 80), "{text}");
}

#[test]
fn the_ruler_line_gives_the_senders_figure_before_and_after_and_not_the_worst_of_all_threads() {
    let mut run = run(&["all"]);
    run.manifest.ruler[1].timer_p99_ns = 503_000;
    let after = |record: &tardy_model::machine::RulerRecord, timer_p99_ns| tardy_model::machine::RulerRecord {
        after: true,
        timer_p99_ns,
        ..record.clone()
    };
    let both = [after(&run.manifest.ruler[0], 24_000), after(&run.manifest.ruler[1], 600_000)];
    run.manifest.ruler.extend(both);
    let text = run.draw("text", 100);
    let line = "ruler        stamp 22 ns · timer error p99 18 µs, 24 µs after · longest gap 1.1 ms\n";
    assert!(text.contains(line), "{text}");
    let page = run.draw("html", 100);
    assert!(page.contains("timer error p99 18 µs, 24 µs after") && page.contains("after the trials"), "the page");
    // A folder of an older version does not say whose figure it is.
    run.manifest.ruler.iter_mut().for_each(|record| record.threads.clear());
    assert!(run.draw("text", 100).contains("timer error p99 503 µs, 600 µs after"));
}

#[test]
fn who_used_a_cpu_stands_beside_what_it_did() {
    let mut run = run(&["all"]);
    let used = &mut run.results.cells[0].cpus[1];
    let user = |name: &str, run_ns| tardy_model::result::CpuUser { name: name.into(), run_ns, ended: 0 };
    used.elapsed_ns = 10_000_000_000;
    (used.irq_ns, used.softirq_ns, used.others_ns) = (40_000_000, 210_000_000, Some(3_500_000_000));
    used.others = vec![user("rustc", 2_900_000_000), user("cc1", 500_000_000), user("sshd", 90_000_000)];
    let text = run.draw("text", 120);
    assert!(text.contains("35 %: rustc 29 %, cc1 5 %\n"), "{text}");
    let md = run.draw("md", 100);
    assert!(md.contains(" 35 % |") && md.contains("rustc 29 %, cc1 5 %") && md.contains("2.1 %"), "{md}");
}
