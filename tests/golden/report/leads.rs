// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which stream and which of its metrics stands on top, in every format of a report.

use super::sample::{Run, metric, run};
use tardy_model::result::{CpuPlacement, GateResult, MachinesPlacement, MetricResult, RepliesResult, StreamResult};
use tardy_model::verdict::{Level, Verdict};

const P50: [i64; 3] = [80_000, 90_000, 120_000];

fn of(names: &[&str]) -> StreamResult {
    let figures = || metric(P50, 300_000, 7, 60_000, 81_000.0, 900.0);
    StreamResult {
        metrics: names.iter().map(|name| ((*name).to_owned(), figures())).collect(),
        replies: names.iter().any(|name| name.contains("reply")).then(RepliesResult::default),
        ..StreamResult::default()
    }
}

/// `ctl`, and before it by the alphabet `brake`, which is reflected and has another metric that
/// leads.
fn car(cells: &[&str]) -> Run {
    let mut run = run(cells);
    run.facts.streams = vec!["ctl".into(), "brake".into(), "status".into()];
    for cell in &mut run.results.cells {
        let status = cell.streams["ctl"].clone();
        let brake = of(&["scheduled..reply_receive", "send..reply_receive"]);
        cell.streams.extend([("brake".to_owned(), brake), ("status".to_owned(), status)]);
        let streams = cell.streams.clone();
        cell.trials.iter_mut().for_each(|trial| trial.streams.clone_from(&streams));
    }
    run
}

/// The heads and rows of Markdown's tables, each as the texts of its columns.
fn rows(text: &str) -> Vec<Vec<String>> {
    let lines =
        text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|-") && !line.starts_with("| -"));
    lines.map(|line| line.trim_matches('|').split('|').map(|part| part.trim().to_owned()).collect()).collect()
}

#[test]
fn what_the_experiment_has_lead_stands_on_top_of_every_picture() {
    let lead = |name: &str| {
        let mut run = run(&["rx.wait=poll", "rx.wait=spin"]);
        for cell in &mut run.results.cells {
            let streams = cell.trials.iter_mut().flat_map(|trial| trial.streams.values_mut());
            cell.streams.values_mut().chain(streams).for_each(|stream| stream.lead = Some(name.to_owned()));
        }
        run
    };
    let run = lead("rx_kernel..receive");
    let page = run.draw("html", 100);
    assert!(page.contains("value=\"rx_kernel..receive\" checked"), "in the pictures");
    assert!(page.contains("took at most 31 µs from rx_kernel to receive"), "in the answer");
    assert!(run.draw("text", 100).contains("\n  rx_kernel..receive ▁"), "{}", run.draw("text", 100));
    let heads: Vec<_> = rows(&run.draw("md", 100)).into_iter().filter(|row| row[1] == "valid").collect();
    assert!(heads.len() == 3 && heads.iter().all(|row| row[0] == "rx_kernel..receive, in µs"), "{heads:?}");
    // What was not measured cannot lead.
    let page = lead("scheduled..receive").draw("html", 100);
    assert!(page.contains("value=\"scheduled..rx_kernel\" checked"));
}

#[test]
fn a_further_metric_does_not_replace_what_leads_of_an_answered_stream() {
    let mut run = run(&["all"]);
    let answered = of(&["send..reply_receive", "scheduled..rx_kernel", "send..rx_kernel", "transit"]);
    let cell = &mut run.results.cells[0];
    cell.streams.insert("ctl".into(), answered.clone());
    cell.trials.iter_mut().for_each(|trial| _ = trial.streams.insert("ctl".into(), answered.clone()));
    let page = run.draw("html", 100);
    assert!(page.contains("<dt>send..reply_receive</dt>"), "on top");
    assert!(page.contains("value=\"send..reply_receive\" checked"), "in the pictures");
    assert!(page.contains("took at most 90 µs from send to reply_receive"), "in the answer");
    assert!(run.draw("text", 100).contains("\n  send..reply_receive ▁"), "{}", run.draw("text", 100));
    let trials = rows(&run.draw("md", 100)).into_iter().find(|row| row[1] == "valid").expect("the trials");
    assert_eq!(trials[0], "send..reply_receive, in µs");
}

#[test]
fn cells_whose_rx_kernel_was_moved_stand_in_a_table_of_their_own() {
    let cells = ["launch=none", "launch=strict", "launch=deadline"];
    let mut run = run(&cells);
    let usual = rows(&run.draw("md", 100));
    let heads = |all: &[Vec<String>]| -> Vec<String> {
        let of_cells = |at: &usize| all.get(at + 1).is_some_and(|row| row[0].starts_with("launch = "));
        (0..all.len()).filter(of_cells).filter(|at| all[*at][1] == "valid").map(|at| all[at][0].clone()).collect()
    };
    assert_eq!(heads(&usual), ["scheduled..rx_kernel, in µs"]);
    assert!(run.draw("html", 100).contains("99 % of packets took at most"));
    for cell in &mut run.results.cells[1..] {
        cell.streams.get_mut("ctl").expect("the stream").rx_kernel_at = Some("local-delivery".into());
    }
    let apart = rows(&run.draw("md", 100));
    let (arrival, moved) = (
        "scheduled..rx_kernel (rx_kernel at arrival), in µs",
        "scheduled..rx_kernel (rx_kernel at local delivery), in µs",
    );
    assert_eq!(heads(&apart), [arrival, moved]);
    let at = apart.iter().position(|row| row[0] == moved).expect("the table");
    assert_eq!([&apart[at + 1][0], &apart[at + 2][0]], ["launch = strict", "launch = deadline"]);
    let page = run.draw("html", 100);
    assert!(!page.contains("took at most"), "no sentence from one point to another");
    assert!(page.contains("rx_kernel was not taken at one point") && page.contains("\"at\":\"local delivery\""));
    // A metric without that point is as usual.
    assert!(page.contains("\"at\":null"));
}

#[test]
fn a_refused_cell_does_not_stand_as_if_rx_kernel_had_been_taken_elsewhere_in_it() {
    let mut run = run(&["qdisc=refused", "qdisc=etf", "qdisc=taprio"]);
    for (i, cell) in run.results.cells.iter_mut().enumerate() {
        let stream = cell.streams.get_mut("ctl").expect("the stream");
        if i == 0 {
            // As the analysis makes a cell whose device refuses what it needs: the stream's name,
            // and nothing of it.
            *stream = StreamResult::default();
            cell.trials.clear();
            cell.valid = false;
            cell.verdicts = vec![Verdict::new("no-gates", Level::Invalid, "the device has no clock")];
        } else {
            stream.rx_kernel_at = Some("local-delivery".into());
        }
    }
    for format in ["html", "md", "org", "text"] {
        let text = run.draw(format, 100);
        assert!(!text.contains("at arrival") && !text.contains("not taken at one point"), "{format}: {text}");
        assert!(!text.contains("\"at\":\"local delivery\""), "{format}");
    }
    let heads = |run: &Run| -> Vec<String> {
        let leading = rows(&run.draw("md", 100)).into_iter().filter(|row| row[0].starts_with("scheduled..rx_kernel"));
        leading.filter(|row| row[1] == "valid").map(|row| row[0].clone()).collect()
    };
    assert_eq!(heads(&run)[0], "scheduled..rx_kernel, in µs");
    // Where the others do differ, it stands with the first of them and makes no table.
    run.results.cells[2].streams.get_mut("ctl").expect("the stream").rx_kernel_at = None;
    let of_cells = heads(&run).iter().filter(|head| head.contains("(rx_kernel at ")).count();
    assert_eq!(of_cells, 2, "{:?}", heads(&run));
}

#[test]
fn the_stream_that_the_file_names_first_leads_whatever_its_letter() {
    let page = car(&["all"]).draw("html", 100);
    assert!(page.contains("<dt>ctl scheduled..rx_kernel</dt>"), "the sole cell's figures, large");
    assert!(page.contains("99 % of the packets of ctl took at most 23 µs from scheduled to rx_kernel"));
    assert!(page.contains("value=\"scheduled..rx_kernel\" checked"));
    for format in ["html", "md", "org", "text"] {
        let text = car(&["all"]).draw(format, 100);
        let text = text.split("id=\"run\"").next().expect("words");
        let place = |name: &str| {
            text.find(&name.replace("NAME", "ctl")).map(|ctl| (ctl, text.find(&name.replace("NAME", "brake"))))
        };
        let name = match format {
            "html" => "<h3>NAME</h3>",
            "md" => "### stream NAME",
            "org" => "** stream NAME",
            _ => "\n  NAME\n",
        };
        let Some((ctl, Some(brake))) = place(name) else { panic!("{format}: {text}") };
        assert!(ctl < brake, "{format}: {text}");
    }
}

#[test]
fn rows_of_a_metric_that_a_stream_does_not_have_are_none() {
    let run = car(&["control-only", "with-camera", "with-camera-and-map"]);
    let all = rows(&run.draw("md", 100));
    let heads: Vec<usize> = (0..all.len()).filter(|i| all[*i].get(1).is_some_and(|text| text == "valid")).collect();
    let [first, second] = [heads[0], heads[1]];
    assert_eq!([&*all[first][0], &*all[second][0]], ["scheduled..rx_kernel, in µs", "scheduled..reply_receive, in µs"]);
    let who = |from: usize, many: usize| -> Vec<String> {
        all[from + 1..][..many].iter().map(|row| row[0].rsplit(", ").next().expect("a stream").to_owned()).collect()
    };
    assert_eq!(who(first, 6), ["ctl", "ctl", "ctl", "status", "status", "status"]);
    assert_eq!(who(second, 3), ["brake", "brake", "brake"]);
    for row in &all[first + 1..][..6] {
        assert!(!row.contains(&"–".to_owned()), "{row:?}");
    }
    let page = run.draw("html", 100);
    let top = page.split("class=\"bar\"").next().expect("the head");
    assert_eq!(top.matches("with-camera, ").count(), 3, "a row for each stream: {top}");
    assert!(!top.contains("–</td>"), "{top}");
    // As many cells as a terminal compares in one table.
    let many: Vec<String> = (0..8).map(|n| format!("n={n}")).collect();
    let text = car(&many.iter().map(String::as_str).collect::<Vec<_>>()).draw("text", 100);
    let places =
        ["scheduled..rx_kernel ", "ctl ", "status ", "scheduled..reply_receive ", "brake "].map(|name| text.find(name));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {text}");
}

#[test]
fn limits_of_cells_that_are_not_available_were_counted_as_if_they_had_failed() {
    let mut run = run(&["qdisc=fq", "qdisc=etf"]);
    let last = run.results.cells.last_mut().expect("a cell");
    last.not_available = Some("this kernel has no etf".into());
    let limits = &mut run.results.expectations;
    assert_eq!(limits.len(), 2);
    limits[1].met = None;
    let text = run.draw("text", 100);
    assert!(text.contains("expectations met (1 of 1, 1 not judged); 1 of"), "{text}");
}

#[test]
fn a_cell_that_is_not_available_is_named_so_and_not_called_invalid() {
    let why = "this kernel has no netdevsim";
    for many in [2, 9] {
        let ids: Vec<String> = (0..many).map(|n| format!("qdisc={n}")).collect();
        let mut absent = run(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        let cell = absent.results.cells.last_mut().expect("a cell");
        (cell.valid, cell.not_available) = (false, Some(why.into()));
        cell.trials.clear();
        cell.verdicts = vec![Verdict::new("not-available", Level::Note, format!("not available: {why}"))];
        for metric in cell.streams.values_mut().flat_map(|stream| stream.metrics.values_mut()) {
            *metric = MetricResult { why: Some("no trial was finished".into()), ..MetricResult::default() };
        }
        for format in ["html", "md", "org", "text"] {
            let text = absent.draw(format, 100);
            let words = text.split("id=\"run\"").next().expect("words");
            assert_eq!(words.matches(why).count(), 1, "{format}: {words}");
            assert!(words.contains(&format!("; 1 of {many} cells not available")), "{format}: {words}");
            assert!(
                !words.contains("do not use these figures") && !words.contains("none finished"),
                "{format}: {words}"
            );
        }
    }
}

#[test]
fn cells_that_are_early_say_who_lets_them_go_early() {
    let mut run = run(&["assist=200us", "assist=2ms", "none"]);
    for (cell, delta) in run.results.cells.iter_mut().zip([200_000, 2_000_000]) {
        let stream = cell.streams.get_mut("ctl").expect("the stream");
        let early = stream.metrics.get_mut("scheduled..rx_kernel").expect("the metric");
        early.figures.quantiles.p50_ns = Some(-delta + 7_000);
        stream.gates =
            Some(GateResult { keeper: "txtime-assist".into(), release_before_ns: delta, ..GateResult::default() });
    }
    for format in ["html", "md", "org"] {
        let text = run.draw(format, 100);
        assert_eq!(text.matches("no device behind it holds them").count(), 1, "{format}");
        assert!(text.contains("assist = 200us; assist = 2ms: early at p50"), "{format}: {text}");
        assert!(text.contains("(200 µs; 2.0 ms)"), "{format}: {text}");
    }
    // Where the verdict on the gates follows each cell, it says so itself. Where it does not, it
    // follows the table.
    assert!(!run.draw("text", 100).contains("no device behind it"));
    let spare = run.results.cells[2].clone();
    let more = (0..6).map(|n| {
        let mut cell = spare.clone();
        cell.id = format!("more={n}");
        cell
    });
    run.results.cells.extend(more);
    assert!(run.draw("text", 100).contains("assist = 200us; assist = 2ms: early at p50"), "{}", run.draw("text", 100));
    // A cell that is early for its sender's own advance has nobody else to name.
    run.results.cells.iter_mut().for_each(|cell| cell.streams.get_mut("ctl").expect("the stream").gates = None);
    assert!(!run.draw("md", 100).contains("no device behind it"));
}

#[test]
fn a_refused_cell_tells_its_reason_once_below_its_name() {
    let mut refused = run(&["rx.wait=block", "rx.wait=busypoll"]);
    let why = "packets come without a NAPI context";
    let cell = &mut refused.results.cells[1];
    cell.valid = false;
    cell.trials.clear();
    cell.verdicts = vec![Verdict::new("refused", Level::Invalid, why)];
    for metric in cell.streams.values_mut().flat_map(|stream| stream.metrics.values_mut()) {
        *metric = MetricResult { why: Some("no trial was finished".into()), ..MetricResult::default() };
    }
    refused.manifest.cells[1].refused = Some(why.into());
    for format in ["html", "md", "org"] {
        let text = refused.draw(format, 100);
        let words = text.split("id=\"run\"").next().expect("words");
        // The page begins with the reasons, and has them again below their cells.
        let times = if format == "html" { 2 } else { 1 };
        assert_eq!(words.matches(why).count(), times, "{format}: {words}");
        assert!(!words.contains("no trial was finished"), "{format}: {words}");
    }
}

#[test]
fn what_machines_did_is_shown_a_packet_with_the_timers_of_each_machine() {
    let mut run = run(&["tap", "veth"]);
    let plain = run.draw("text", 100);
    let tap = &mut run.results.cells[0];
    tap.machines =
        Some(MachinesPlacement { packets: 400, exits: Some(1_700), halt_exits: Some(400), irq_injections: None });
    let of = |cpu| CpuPlacement { host: Some("vm".into()), cpu, timer_interrupts: 50, ..CpuPlacement::default() };
    tap.cpus.extend([of(0), of(1)]);
    let text = run.draw("text", 100);
    assert!(
        text.contains(
            "\n  machines   exits 4.25  halts 1.00  timer interrupts in vm 0.25  for each packet of the streams\n"
        ),
        "{text}"
    );
    assert!(text.matches("  machines ").count() == 1 && !plain.contains("  machines "), "only where it runs a machine");
    let cells = rows(&run.draw("md", 100));
    let rows: Vec<_> = cells.iter().skip_while(|row| !row[0].starts_with("of the virtual machines")).take(4).collect();
    assert_eq!(
        rows.iter().map(|row| row[1].as_str()).collect::<Vec<_>>(),
        ["times", "4.25", "1.00", "0.25"],
        "{rows:?}"
    );
    assert!(run.draw("html", 100).contains("timer interrupts in vm"));
}

#[test]
fn the_last_line_was_silent_about_trials_that_differ() {
    let last = |cells: &[&str], differ: usize| {
        let mut run = run(cells);
        for cell in run.results.cells.iter_mut().take(differ) {
            cell.verdicts.retain(|verdict| verdict.id != "repeats");
            cell.verdicts.push(Verdict::new("repeats", Level::Warning, "no: five trials lie 12.8 µs apart"));
        }
        let text = run.draw("text", 120);
        let line = text.lines().find(|line| line.starts_with("VALID")).expect("its last line").to_owned();
        assert_eq!(run.draw("html", 100).contains(" not repeat</"), differ > 0, "the page's head has it too");
        line
    };
    assert!(!last(&["tap", "veth"], 0).contains("repeat"));
    assert!(last(&["tap", "veth"], 1).contains("; 1 of 2 cells does not repeat"));
    assert!(last(&["tap", "veth"], 2).contains("; 2 of 2 cells do not repeat"));
    assert!(last(&["all"], 1).contains("; its trials do not repeat"));
}
