// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the bound of two hosts' clocks does to figures between them. The median of the one way is
//! 20 µs in every trial: 1.8 µs are 9 % of it, and 2.2 µs are 11 %.

use super::fixture::{BASE_NS, LEAD, batch, received, record};
use super::validity::{assert_is, ctl};
use crate::report::{same, sample};
use std::collections::BTreeMap;
use tardy_analyze::cell::{CellAnalysis, CellAnswer};
use tardy_analyze::envelope::{EnvelopePass, Grain};
use tardy_analyze::run::{Outcome, outcome, run};
use tardy_analyze::worst::Worst;
use tardy_model::expect::{Count, Expectation, Limit, Of};
use tardy_model::point::{Metric, Point, Source};
use tardy_model::result::{ExpectationResult, MetricResult};
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome as PacketOutcome};
use tardy_model::time::{Nanos, Offset, OffsetReading};
use tardy_model::trial::TrialRecord;
use tardy_model::validity::{RuleLimit, Setting, Validity};
use tardy_model::verdict::{Level, Verdict};
use tardy_report::worst::{self, WorstOf};

const RETURN: Metric = Metric::Span(Point::Scheduled, Point::ReplyReceive);
const STAGE: Metric = Metric::Span(Point::RxKernel, Point::Receive);
const PACKETS: u32 = 2_001;

/// A trial with a reflector on another host, whose clock is known within so much.
fn between(n: u32, bound_ns: i64) -> (TrialRecord, Batch) {
    longer_between(n, bound_ns, 0)
}

/// The same with packets that take longer by so much.
fn longer_between(n: u32, bound_ns: i64, longer_ns: i64) -> (TrialRecord, Batch) {
    let mut record = record(n, PACKETS);
    let at = |at_tai_ns| OffsetReading { at_tai_ns, ahead_ns: 3_000_000, bound_ns };
    let (first, last) = (at(BASE_NS), at(BASE_NS + 1_000_000_000));
    let states = [record.before.clone(), record.after.clone()];
    record.hosts.insert("rig".into(), states);
    let stream = ctl(&mut record);
    stream.offsets.rx = Some(Offset { host: "rig".into(), first, last, method: "told".into(), ..Offset::default() });
    stream.sources.insert(Point::ReplyReceive, Source::App);
    // From 19 µs to 21 µs, each value once.
    let way = |i: i64| 19_000 + longer_ns + i * 997 % i64::from(PACKETS);
    let ways: Vec<i64> = (0..i64::from(PACKETS)).map(way).collect();
    let mut batch = batch(0, &ways.iter().map(|ns| received(*ns)).collect::<Vec<_>>());
    batch.offsets[Point::ReplyReceive.index()] =
        Some(ways.iter().map(|ns| MaybeNanos::from(Some(ns + 30_000))).collect());
    (record, batch)
}

fn on_one_host(n: u32) -> (TrialRecord, Batch) {
    let (mut record, batch) = between(n, 0);
    record.hosts.clear();
    ctl(&mut record).offsets = Default::default();
    (record, batch)
}

fn cell(trials: &[(TrialRecord, Batch)], expectations: Vec<Expectation>, settings: &Validity) -> CellAnswer {
    let asked = BTreeMap::from([("ctl".to_owned(), vec![LEAD, RETURN, STAGE, Metric::Delta])]);
    let mut cell = CellAnalysis::new("all", BTreeMap::new(), asked, expectations).validity(settings);
    for (record, batch) in trials {
        cell.trial(record, [("ctl", batch)]);
    }
    cell.finish()
}

/// A run of these trials in this format.
fn drawn(trials: &[(TrialRecord, Batch)], expectations: Vec<Expectation>, format: &str) -> String {
    let mut picture = sample::run(&["all"]);
    picture.results = run("host-to-host", [cell(trials, expectations, &Validity::default())], Vec::new());
    picture.manifest.cells[0].trials = trials.len() as u32;
    picture.bars = Vec::new();
    picture.draw(format, 100)
}

/// The rows of the only cell.
fn table(text: &str) -> &str {
    let end = text.find("  lost 0").expect("the outcomes");
    &text[text.find("all  ").expect("the cell")..end]
}

fn limits() -> Vec<Expectation> {
    let metric = |metric| Limit::Metric { metric, of: Of::Quantile(2), limit_ns: 60_000, inclusive: false };
    let limits = [metric(LEAD), metric(RETURN), Limit::Count { count: Count::Lost, at_most: 0 }];
    limits.map(|limit| Expectation { stream: "ctl".to_owned(), limit }).to_vec()
}

fn limited(share: f64) -> Validity {
    let setting = Setting { limit: Some(RuleLimit::Share(share)), level: None };
    Validity { set: BTreeMap::from([("clock-bound".to_owned(), setting)]) }
}

/// What a cell has of a metric.
fn of<'a>(answer: &'a CellAnswer, metric: &str) -> &'a MetricResult {
    &answer.result.streams["ctl"].metrics[metric]
}

const WHY: &str = "refused: two clocks took its stamps, and their bound of ± 2.2 µs is 11.0 % of its p50; \
                   the limit is 10 %";
const ABOVE: &str = "scheduled..rx_kernel above its minimum";

#[test]
fn a_refusal_rounded_its_bound_down_and_the_column_did_not() {
    for (bound_ns, words) in [(2_201, "± 2.3 µs"), (2_300, "± 2.3 µs"), (60_101, "± 60.2 µs"), (9_999_950, "± 10.0 ms")]
    {
        let answer = cell(&[between(1, bound_ns)], Vec::new(), &Validity::default());
        let why = of(&answer, "scheduled..rx_kernel").why.as_deref().expect("a reason");
        assert!(why.contains(&format!("their bound of {words} is")), "{bound_ns}: {why}");
    }
}

#[test]
fn a_bound_of_nine_per_cent_stands_next_to_its_figures_and_is_the_largest_of_the_trials() {
    let trials = [between(1, 1_000), between(2, 1_800)];
    let text = drawn(&trials, limits(), "text");
    let shown = "\
all                              p50     p99   p99.9     max  at packet     min    mean  stddev   µs
  scheduled..rx_kernel         20.00   20.98       –   21.00       #572   19.00   20.00    0.58
    ± 1.8 µs: two clocks took the stamps
  scheduled..reply_receive     50.00   50.98       –   51.00       #572   49.00   50.00    0.58
  rx_kernel..receive             9.0     9.0       –     9.0         #0     9.0     9.0     0.0
  delta                        501.0   501.0       –   501.0         #1   499.0   500.0     1.0
  p99.9 – in every row: fewer than 10 separate events (one stall is one) lie beyond
";
    same(table(&text), shown);
    assert!(text.contains("\nVALID        expectations met (3 of 3)") && !text.contains("warning"), "{text}");
    let answer = cell(&trials, limits(), &Validity::default());
    assert_eq!(of(&answer, "scheduled..rx_kernel").clock_bound_ns, Some(1_800));
    let single =
        answer.result.trials.iter().map(|trial| trial.streams["ctl"].metrics["scheduled..rx_kernel"].clock_bound_ns);
    assert_eq!(single.collect::<Vec<_>>(), [Some(1_000), Some(1_800)]);
    for metric in ["scheduled..reply_receive", "rx_kernel..receive", "delta"] {
        assert_eq!(of(&answer, metric).clock_bound_ns, None, "{metric}");
    }
    let row = |format: &str, begins: &str| {
        let text = drawn(&trials, limits(), format);
        text.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let cells = |format: &str, begins: &str| -> Vec<String> {
        row(format, begins).split('|').map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
    };
    let (heads, figures) = (cells("md", "| in µs"), cells("md", "| scheduled..rx_kernel "));
    let at = heads.iter().position(|head| head == "±").expect("a column");
    assert_eq!((heads[at - 1].as_str(), heads[at + 1].as_str()), ("stddev", "coverage"));
    let bound = |cell: &str| cell.parse::<f64>().unwrap_or_else(|_| panic!("{cell}"));
    assert_eq!((figures[at - 1].as_str(), bound(&figures[at])), ("0.58", 1.8));
    assert!(cells("org", "| trial 2").iter().any(|cell| cell.starts_with("1.8")));
    assert!(row("csv", "cell,").ends_with(",received_only_max_ns,clock_bound_ns,refused_by"));
    assert!(row("csv", "all,true,ctl,4002,4002,0,0,0,0,0,0,scheduled..rx_kernel,").ends_with(",,1800,"));
    let page = drawn(&trials, limits(), "html");
    assert!(page.contains("from scheduled to rx_kernel (± 1.8 µs)</p>"), "{page}");
    assert!(
        page.contains("<div><dt>±</dt><dd>1.8</dd></div>") && page.contains("<td data-of=\"±\">1.8</td>"),
        "{page}"
    );
}

#[test]
fn a_figure_whose_bound_is_eleven_per_cent_is_refused_and_the_round_trip_next_to_it_stays() {
    let trials = [between(1, 1_000), between(2, 2_200)];
    let text = drawn(&trials, limits(), "text");
    let shown = "\
all                              p50     p99   p99.9     max  at packet     min    mean  stddev   µs
  scheduled..rx_kernel             –   refused: two clocks took its stamps, and their bound of ± 2.2
                                       µs is 11.0 % of its p50; the limit is 10 %
    above its minimum              –   refused: the two clocks may have drifted by ± 4.4 µs, which
                                       is 440.0 % of its p50; the limit is 10 %
  scheduled..reply_receive     50.00   50.98       –   51.00       #572   49.00   50.00    0.58
  rx_kernel..receive             9.0     9.0       –     9.0         #0     9.0     9.0     0.0
  delta                        501.0   501.0       –   501.0         #1   499.0   500.0     1.0
  p99.9 – in every row: fewer than 10 separate events (one stall is one) lie beyond
";
    same(table(&text), shown);
    let closing = "\
VALID        expectations not judged (1 of 3, 2 met)
not judged   all: ctl scheduled..rx_kernel p99, limit 60 µs, refused: two clocks took its stamps,
             and their bound of ± 2.2 µs is 11.0 % of its p50; the limit is 10 %
";
    assert!(text.contains(closing), "{text}");
    let answer = cell(&trials, limits(), &Validity::default());
    let refused = of(&answer, "scheduled..rx_kernel");
    let nothing = MetricResult {
        clock: "tai".into(),
        percentiles: "exact".into(),
        why: Some(WHY.into()),
        clock_bound_ns: Some(2_200),
        refused_by: Some("clock-bound".into()),
        ..MetricResult::default()
    };
    assert_eq!(*refused, nothing);
    assert!(!answer.histograms.contains_key(&("ctl".to_owned(), LEAD)), "its shape is no figure to show either");
    assert!(answer.histograms.contains_key(&("ctl".to_owned(), RETURN)));
    assert!(answer.result.valid && answer.result.trials.iter().all(|trial| trial.valid));
    let rules: Vec<&Verdict> = answer.result.verdicts.iter().filter(|verdict| verdict.id == "clock-bound").collect();
    let [verdict] = rules[..] else { panic!("{:#?}", answer.result.verdicts) };
    assert_is(verdict, "clock-bound", Level::Warning, WHY);
    assert_eq!((&verdict.evidence["bound_ns"], &verdict.evidence["bound_share"]), (&2_200i64.into(), &0.11.into()));
    let repeats = answer.result.verdicts.iter().find(|verdict| verdict.id == "repeats").expect("one");
    assert_is(repeats, "repeats", Level::Note, "not judged: scheduled..rx_kernel is refused (clock-bound)");
    // The trial with the smaller bound keeps its own figures.
    let kept =
        |n: usize| answer.result.trials[n].streams["ctl"].metrics["scheduled..rx_kernel"].figures.quantiles.p50_ns;
    assert_eq!((kept(0), kept(1)), (Some(20_000), None));
    let csv = drawn(&trials, limits(), "csv");
    let row = "scheduled..rx_kernel,tai,,0,0,exact,,,,,,,,,,,,,,,,,,,0,\"refused: ";
    assert!(csv.contains(row) && csv.contains("the limit is 10 %\",,2200,clock-bound\n"), "{csv}");
    let page = drawn(&trials, limits(), "html");
    let begins = "<th scope=\"row\" class=\"w\">scheduled..rx_kernel</th>";
    let row = page.lines().find(|line| line.contains(begins)).unwrap_or_else(|| panic!("{page}"));
    assert!(row.contains("data-of=\"p50\">–<") && row.contains("data-of=\"max\">–<"), "{row}");
    assert!(page.contains(&format!("<b>scheduled..rx_kernel</b> {WHY}")), "{page}");
    assert!(!text.contains("  warning ") && !page.contains("\"doubtful\">"), "once is enough: {text}");
    assert!(page.contains("99 % of packets took at most 51 µs from scheduled to reply_receive</p>"), "{page}");
    assert!(!page.contains("20.0<") && !page.contains("21.0<"), "no figure of it is left: {page}");
}

#[test]
fn a_limit_on_a_refused_figure_is_not_judged_unless_another_one_is_broken() {
    let trials = [between(1, 2_200), between(2, 2_200)];
    let judged = |limits: Vec<Expectation>| {
        let answer = cell(&trials, limits, &Validity::default());
        run("host-to-host", [answer], Vec::new())
    };
    let results = judged(limits());
    let met: Vec<Option<bool>> = results.expectations.iter().map(|expectation| expectation.met).collect();
    assert_eq!((results.valid, results.expectations_met, met), (true, None, vec![None, Some(true), Some(true)]));
    assert_eq!((results.expectations[0].got_ns, results.expectations[0].why.as_deref()), (None, Some(WHY)));
    // Exit code 4.
    assert_eq!(outcome(&results), Outcome::Unknown);
    let junit = drawn(&trials, limits(), "junit");
    assert!(junit.contains(&format!("<error message=\"{WHY}\">")), "{junit}");
    assert!(junit.contains("failures=\"0\" errors=\"1\" skipped=\"0\""), "{junit}");
    let mut broken = limits();
    broken[1].limit = Limit::Metric { metric: RETURN, of: Of::Quantile(0), limit_ns: 50_000, inclusive: false };
    // Exit code 1.
    assert_eq!(outcome(&judged(broken)), Outcome::Unmet);
}

#[test]
fn the_clocks_of_one_host_changed_no_output() {
    for format in tardy_report::FORMATS.iter().map(|format| format.name) {
        let drawn = drawn(&[on_one_host(1), on_one_host(2)], limits(), format);
        for word in ["±", "clock_bound", "refused_by", "above its minimum", "two hosts"] {
            // The page's style and script are the same for every run.
            let text = if format == "html" { drawn.split("<body>").nth(1).expect("a body") } else { &drawn };
            let text = text.split("<script>").next().expect("text");
            assert!(!text.contains(word), "{format}: {word}");
        }
    }
    let one = cell(&[on_one_host(1)], limits(), &Validity::default());
    let exact = cell(&[between(1, 0)], limits(), &Validity::default());
    // Both ends on one host, whose clock nobody knows.
    let (mut record, batch) = between(1, 1_000_000);
    let offsets = &mut ctl(&mut record).offsets;
    offsets.tx = offsets.rx.clone();
    let same = cell(&[(record, batch)], limits(), &Validity::default());
    for other in [exact, same] {
        assert_eq!((&other.result.streams, &other.result.verdicts), (&one.result.streams, &one.result.verdicts));
        assert_eq!((other.expectations, other.histograms), (one.expectations.clone(), one.histograms.clone()));
    }
}

#[test]
fn the_share_of_the_median_that_a_bound_may_be_is_set_in_the_file() {
    let answer = |bound_ns, share| cell(&[between(1, bound_ns)], Vec::new(), &limited(share));
    let wide = answer(2_200, 0.12);
    assert_eq!(of(&wide, "scheduled..rx_kernel").figures.quantiles.p50_ns, Some(20_000));
    assert_eq!(of(&wide, "scheduled..rx_kernel").clock_bound_ns, Some(2_200));
    assert!(!wide.result.streams["ctl"].metrics.contains_key(ABOVE));
    let narrow = answer(1_800, 0.05);
    assert_eq!(of(&narrow, "scheduled..rx_kernel").refused_by.as_deref(), Some("clock-bound"));
    let verdict = narrow.result.verdicts.iter().find(|verdict| verdict.id == "clock-bound").expect("one");
    assert_is(verdict, "clock-bound", Level::Warning, "is 9.0 % of its p50; the limit is 5 % (nothing by default;");
    // A bound of just the limit is no more than it.
    assert_eq!(of(&answer(2_000, 0.1), "scheduled..rx_kernel").refused_by, None);
}

#[test]
fn what_is_above_the_minimum_counts_from_the_least_value_of_each_trial() {
    // Of values on both sides of 0 the least is far from the median.
    let trials = [longer_between(1, 30, -20_000), longer_between(2, 40, -19_800)];
    let answer = cell(&trials, Vec::new(), &Validity::default());
    let above = of(&answer, ABOVE);
    let figures = &above.figures;
    assert_eq!((above.count, above.coverage, &*above.source), (2 * u64::from(PACKETS), 1.0, "kernel"));
    assert_eq!((figures.min_ns, figures.quantiles.p50_ns, figures.max_ns), (Some(0), Some(1_000), Some(2_000)));
    assert_eq!((figures.mean_ns, above.max_seq, above.max_trial), (Some(1_000.0), Some(572), Some(1)));
    assert_eq!(above.clock_bound_ns, Some(80), "two readings, each within 40 ns");
    assert_eq!(of(&answer, "scheduled..rx_kernel").refused_by.as_deref(), Some("clock-bound"));
}

#[test]
fn what_is_above_the_minimum_was_given_only_where_the_figure_was_refused() {
    let given = cell(&[between(1, 40)], Vec::new(), &Validity::default());
    assert_eq!(of(&given, "scheduled..rx_kernel").figures.quantiles.p50_ns, Some(20_000));
    let above = of(&given, ABOVE);
    assert_eq!((above.figures.min_ns, above.figures.quantiles.p50_ns), (Some(0), Some(1_000)));
    assert_eq!((above.clock_bound_ns, &above.refused_by), (Some(80), &None));
    assert!(!given.result.trials[0].streams["ctl"].metrics.contains_key(ABOVE), "some trials alone would be compared");
    // One that the clocks cannot give is no row below a figure that they can.
    let bounded = cell(&[between(1, 1_800)], Vec::new(), &Validity::default());
    assert_eq!(of(&bounded, "scheduled..rx_kernel").refused_by, None);
    assert!(!bounded.result.streams["ctl"].metrics.contains_key(ABOVE));
}

#[test]
fn what_is_above_the_minimum_was_shown_with_a_bound_of_eight_times_its_median() {
    let trials = [between(1, 3_000), longer_between(2, 4_000, 1_000)];
    let answer = cell(&trials, Vec::new(), &Validity::default());
    let why = "refused: the two clocks may have drifted by ± 8.0 µs, which is 800.0 % of its p50; the limit \
               is 10 %";
    let nothing = MetricResult {
        clock: "tai".into(),
        percentiles: "exact".into(),
        why: Some(why.into()),
        clock_bound_ns: Some(8_000),
        refused_by: Some("clock-bound".into()),
        ..MetricResult::default()
    };
    assert_eq!(*of(&answer, ABOVE), nothing);
    let trial = &answer.result.trials[0].streams["ctl"].metrics[ABOVE];
    assert_eq!((trial.clock_bound_ns, trial.refused_by.as_deref()), (Some(6_000), Some("clock-bound")));
    // A limit that lets them pass is one for both.
    for (share, p50_ns) in [(0.081, Some(1_000)), (0.079, None)] {
        let answer = cell(&[longer_between(1, 40, -20_000)], Vec::new(), &limited(share));
        assert_eq!(of(&answer, ABOVE).figures.quantiles.p50_ns, p50_ns);
    }
}

#[test]
fn a_median_that_is_not_known_is_not_taken_for_a_large_one() {
    let few = |bound_ns| {
        let (record, all) = between(1, bound_ns);
        let first = (0..15).map(|i| received(all.offset(i, Point::RxKernel).expect("a stamp")));
        cell(&[(record, batch(0, &first.collect::<Vec<_>>()))], Vec::new(), &Validity::default())
    };
    let shown = few(1_800);
    assert_eq!(of(&shown, "scheduled..rx_kernel").figures.quantiles.p50_ns, None);
    assert_eq!(of(&shown, "scheduled..rx_kernel").figures.min_ns, Some(19_000));
    let refused = few(2_200);
    let why = of(&refused, "scheduled..rx_kernel").why.clone().expect("a reason");
    assert!(why.contains("± 2.2 µs is 11.6 % of its least value (its p50 is not known); the limit"), "{why}");
}

#[test]
fn the_page_had_the_stage_between_two_hosts_whose_figure_is_refused() {
    let page = |bound_ns| {
        let (record, batch) = between(1, bound_ns);
        let mut picture = sample::run(&["all"]);
        picture.results =
            run("x", [cell(&[(record.clone(), batch.clone())], Vec::new(), &Validity::default())], Vec::new());
        let mut pass = EnvelopePass::new(&record, "ctl", &[LEAD, RETURN], Grain::of(2, 1)).expect("its stream");
        pass.push(&batch);
        picture.traces = vec![pass.finish()];
        picture.draw("html", 100)
    };
    // The driver and the receiving kernel are 400 ns apart.
    let close = page(30);
    assert!(close.contains("percentiles do not; tx_kernel..rx_kernel ± 30 ns: two clocks took"), "{close}");
    assert!(close.contains("<th scope=\"row\" class=\"w\">tx_kernel..rx_kernel</th>"), "{close}");
    assert!(close.contains("\"scheduled..rx_kernel\":{\"bins\""), "a line over time: {close}");
    let far = page(2_200);
    let left_out = "with both stamps; tx_kernel..rx_kernel is left out: ± 2.2 µs is too much of it (clock-bound)";
    assert!(far.contains(left_out), "{far}");
    assert!(!far.contains("<th scope=\"row\" class=\"w\">tx_kernel..rx_kernel</th>"), "{far}");
    assert!(!far.contains("\"scheduled..rx_kernel\":{\"bins\""), "no line over time: {far}");
    // Shares of a whole without that stage were printed, which added up to 100 %.
    let share = |page: &str| {
        let row = page.lines().find(|line| line.contains("class=\"w\">rx_kernel..receive</th><td data-of=\"mean\""));
        let row = row.unwrap_or_else(|| panic!("{page}")).to_owned();
        let share = row.split("data-of=\"share of the mean\">").nth(1).expect("a share");
        share.split('<').next().expect("text").to_owned()
    };
    assert!(share(&close).ends_with(" %") && close.contains("\"undivided\":null"), "{close}");
    // They are shares of the whole round trip, whose error of the clocks cancels: 9 µs of 50 µs.
    assert_eq!(share(&far), "18.0 %");
    assert!(far.contains(">tx_kernel..rx_kernel and receive..reply_receive: cannot be divided</th>"), "{far}");
    assert!(far.contains(r#""undivided":{"names":["tx_kernel..rx_kernel","receive..reply_receive"],"share":0.4"#));
}

/// A trial of packets from -1 µs to 1 µs, which `spoil` changes. Its clocks' bound of ± 40 ns is
/// too much of a median about 0, and little of what is above the minimum.
fn spoilt(spoil: impl Fn(&mut Batch)) -> CellAnswer {
    let (record, mut batch) = longer_between(1, 40, -20_000);
    spoil(&mut batch);
    cell(&[(record, batch)], Vec::new(), &Validity::default())
}

#[test]
fn one_lost_packet_made_all_above_the_minimum_infinite() {
    let answer = spoilt(|batch| {
        batch.outcome[3] = PacketOutcome::Lost;
        for point in [Point::RxKernel, Point::Receive, Point::ReplyReceive] {
            batch.offsets[point.index()].as_mut().expect("a column")[3] = MaybeNanos::NONE;
        }
    });
    let above = of(&answer, ABOVE);
    assert_eq!((above.count, above.figures.min_ns), (u64::from(PACKETS) - 1, Some(0)));
    assert_eq!(above.figures.quantiles.p50_ns, Some(1_001));
    assert_eq!((above.received_only_max_ns, above.max_seq), (Some(2_000), Some(572)));
    assert_eq!(above.infinite, ["max"], "the one that never arrived");
}

#[test]
fn one_long_stall_made_all_above_the_minimum_infinite() {
    // Far more than the values that have a counter of their own.
    let stall_ns = 30_000_000_000;
    let answer = spoilt(|batch| {
        batch.offsets[Point::RxKernel.index()].as_mut().expect("a column")[3] = MaybeNanos::from(Some(stall_ns));
    });
    let above = of(&answer, ABOVE);
    assert_eq!((above.count, above.infinite.len()), (u64::from(PACKETS), 0));
    assert_eq!((above.figures.min_ns, above.figures.max_ns), (Some(0), Some(stall_ns + 1_000)));
    assert_eq!((above.figures.quantiles.p50_ns, above.max_seq), (Some(1_001), Some(3)));
}

/// The judgement of a limit of no packet on a count, of one way to another host. Packets are
/// received 28 µs to 30 µs after they were due.
fn one_way(count: Count, bound_ns: i64, deadline_ns: i64, asked: &[Metric], counted: Flags) -> ExpectationResult {
    let (mut record, mut batch) = between(1, bound_ns);
    ctl(&mut record).sources.remove(&Point::ReplyReceive);
    batch.offsets[Point::ReplyReceive.index()] = None;
    batch.flags[7].set(counted);
    let limit = Expectation { stream: "ctl".to_owned(), limit: Limit::Count { count, at_most: 0 } };
    let deadlines = BTreeMap::from([("ctl".to_owned(), Nanos(deadline_ns))]);
    let asked = BTreeMap::from([("ctl".to_owned(), asked.to_vec())]);
    let mut cell = CellAnalysis::new("all", BTreeMap::new(), asked, vec![limit]).deadlines(deadlines);
    cell.trial(&record, [("ctl", &batch)]);
    cell.finish().expectations.remove(0)
}

#[test]
fn a_limit_on_late_packets_was_kept_or_broken_by_the_error_of_two_clocks() {
    let late = |bound_ns, deadline_ns, counted| one_way(Count::Late, bound_ns, deadline_ns, &[LEAD], counted);
    for counted in [Flags::default(), Flags::LATE] {
        let open = late(4_000, 29_000, counted);
        assert_eq!((open.got, open.met), (None, None));
        let why = "two clocks, known within ± 4.0 µs, took the stamps of scheduled..receive, which decides \
                   what is late: their bound is too large next to its p50 (clock-bound)";
        assert_eq!(open.why.as_deref(), Some(why));
    }
    // However wrong the clocks are within their bound, none is late, or all are.
    assert_eq!(late(4_000, 40_000, Flags::default()).met, Some(true));
    assert_eq!(late(4_000, 20_000, Flags::LATE).met, Some(false));
    // A bound that is small enough is as before.
    assert_eq!(late(2_000, 29_000, Flags::LATE).met, Some(false));
    assert_eq!(late(2_000, 29_000, Flags::default()).met, Some(true));
}

#[test]
fn a_limit_on_early_packets_was_kept_by_the_error_of_two_clocks() {
    let early = |bound_ns, asked: &[Metric], counted| one_way(Count::Early, bound_ns, 100_000, asked, counted);
    assert_eq!(early(20_000, &[LEAD], Flags::default()).met, None);
    assert_eq!(early(20_000, &[LEAD], Flags::EARLY).met, Some(false), "by more than the bound");
    assert_eq!(early(4_000, &[LEAD], Flags::default()).met, Some(true), "the first one is 19 µs after it was due");
    // Without the figure, the deadline is what the bound is compared with.
    assert_eq!(early(20_000, &[STAGE], Flags::default()).met, None);
    assert_eq!(early(4_000, &[STAGE], Flags::default()).met, Some(true));
}

#[test]
fn limits_on_a_round_trip_or_on_lost_packets_stayed_judged_between_two_hosts() {
    let (mut record, batch) = between(1, 20_000);
    ctl(&mut record).reply = Some(Default::default());
    let limit = |count| Expectation { stream: "ctl".to_owned(), limit: Limit::Count { count, at_most: 0 } };
    let limits = [Count::Late, Count::Lost, Count::Duplicate, Count::Reordered].map(limit);
    let answer = cell(&[(record, batch)], limits.to_vec(), &Validity::default());
    assert!(answer.expectations.iter().all(|of| of.met == Some(true)), "{:#?}", answer.expectations);
}

#[test]
fn the_worst_packets_had_a_stage_between_two_hosts_that_their_clocks_do_not_know() {
    let (record, batch) = between(1, 2_200);
    let answer = cell(&[(record.clone(), batch.clone())], Vec::new(), &Validity::default());
    let mut worst = Worst::new(RETURN, 1);
    worst.push(1, BASE_NS, &batch);
    let (values, missing) = (worst.values, worst.missing);
    let packets = worst.finish();
    let spans: Vec<Metric> = packets[0].spans().map(|(span, _)| span).collect();
    let crossing = Metric::Span(Point::TxKernel, Point::RxKernel);
    assert!(spans.contains(&crossing), "{spans:?}");
    let drawn = |limit: Option<f64>| {
        let mut picture = sample::run(&["all"]);
        picture.results = run("x", [answer.clone()], Vec::new());
        if let Some(limit) = limit {
            picture.results.validity = limited(limit);
        }
        let bounds = spans.iter().filter_map(|span| Some(((1, *span), record.streams["ctl"].clock_bound_ns(*span)?)));
        let of = WorstOf {
            cell: &picture.results.cells[0],
            stream: "ctl",
            metric: "scheduled..reply_receive",
            values,
            missing,
            packets: packets.clone(),
            bounds: bounds.collect(),
        };
        picture.with(|picture| worst::draw(picture, &[of]))
    };
    let row = |text: &str| -> Vec<String> {
        let row = text.lines().find(|line| line.contains("#572")).unwrap_or_else(|| panic!("{text}"));
        row.split_whitespace().map(str::to_owned).collect()
    };
    let text = drawn(None);
    // Packet, trial, when (two words), value, then the stages.
    assert_eq!(row(&text)[5..8], ["19.0", "1.6", "–"], "{text}");
    let why = "–: no stamp there, or a stage between two clocks whose bound is more than 10 % of it.";
    assert!(text.contains(why), "{text}");
    let wide = drawn(Some(100.0));
    assert_eq!(row(&wide)[5..8], ["19.00", "1.60", "0.40"], "{wide}");
    assert!(!wide.contains("no stamp there"), "{wide}");
}

#[test]
fn a_table_of_many_cells_had_no_room_for_a_bound() {
    let mut many = sample::many();
    let ctl = many.results.cells[2].streams.get_mut("ctl").expect("ctl");
    ctl.metrics.get_mut("scheduled..rx_kernel").expect("the metric").clock_bound_ns = Some(1_234);
    for width in [100, 60] {
        let text = many.draw("text", width);
        let head = text.lines().find(|line| line.contains(" p50 ")).unwrap_or_else(|| panic!("{text}"));
        assert!(head.contains(" max ") && head.contains(" ± "), "{head}");
        // 1.234 µs are not 1.2.
        assert_eq!(text.matches(" 1.3  ").count(), 1, "{text}");
    }
}
