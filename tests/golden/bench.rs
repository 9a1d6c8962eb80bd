// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a row of the benches is compared with the spread that it had in an earlier run, and that
//! the pairs kept are those that the page was made of. Nothing is measured: the pairs are recorded.

// The benches are built when they are asked for. Their rows need nothing of them.
#[allow(dead_code)]
#[path = "../../benches/compare/src/row.rs"]
mod row;

use row::{Better, Bound, Earlier, Met, Pair, Raw, Row, Spread, Verdict};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const KEPT: &str = include_str!("../../benches/results.tsv");
const HEAD: &str = "comparison\twhat\tunit\tpeer\tpair\tours\tpeers\tmachine\n";
const HERE: &str = "2 CPUs (one), Linux 6.18";

/// Pairs whose peer takes 10, so that these are ten times the ratios.
fn pairs(ours: &[f64]) -> Vec<Pair> {
    ours.iter().map(|ours| (*ours, Some(10.0))).collect()
}

fn spread(ours: &[f64]) -> Option<Spread> {
    Spread::of_pairs(&pairs(ours))
}

fn row(what: &str, peer: &str, ours: &[f64]) -> Row {
    Row { peer: peer.to_owned(), pairs: pairs(ours), ..Row::new(what, "µs", Better::Lower) }
}

/// What today's pairs are compared with those of an earlier run.
fn verdict(today: &[f64], earlier: &[f64], better: Better) -> Verdict {
    spread(today).expect("pairs").verdict(spread(earlier), better, None)
}

#[test]
fn a_row_that_left_its_earlier_spread_was_for_the_eye_to_find() {
    let earlier = [9.0, 9.1, 9.4, 9.7, 10.0];
    for (today, lower, higher, neither) in [
        ([8.0, 8.1, 8.4, 8.6, 8.9], Verdict::Better, Verdict::Worse, Verdict::Outside),
        ([10.1, 10.1, 10.2, 11.0, 12.0], Verdict::Worse, Verdict::Better, Verdict::Outside),
        // The medians are far apart, and the spreads overlap: at a point, around the other, in it.
        ([10.0, 12.0, 12.0, 13.0, 14.0], Verdict::Within, Verdict::Within, Verdict::Within),
        ([5.0, 6.0, 6.0, 7.0, 9.0], Verdict::Within, Verdict::Within, Verdict::Within),
        ([1.0, 2.0, 2.0, 3.0, 20.0], Verdict::Within, Verdict::Within, Verdict::Within),
        ([9.1, 9.1, 9.1, 9.1, 9.2], Verdict::Within, Verdict::Within, Verdict::Within),
    ] {
        let all = [Better::Lower, Better::Higher, Better::Neither].map(|better| verdict(&today, &earlier, better));
        assert_eq!(all, [lower, higher, neither], "{today:?}");
    }
    // A single pair is a spread without width.
    assert_eq!(verdict(&[9.7], &earlier, Better::Lower), Verdict::Within);
    assert_eq!(verdict(&[9.7], &[], Better::Lower), Verdict::New);
}

#[test]
fn two_pairs_that_lay_beyond_two_others_by_chance_were_worse() {
    // Of two values and two others of one distribution a third lies apart.
    let apart = [10.1, 10.2, 10.3, 10.4, 10.5, 10.6, 10.7, 10.8];
    let earlier = [9.0, 9.1, 9.2, 9.3, 9.4, 9.5, 9.6, 9.7];
    for (today, before, told) in [
        (1, 8, Verdict::TooFew),
        (2, 2, Verdict::TooFew),
        (3, 3, Verdict::TooFew),
        (4, 4, Verdict::TooFew),
        (5, 5, Verdict::Worse),
        (4, 6, Verdict::Worse),
        (3, 8, Verdict::TooFew),
    ] {
        assert_eq!(verdict(&apart[..today], &earlier[..before], Better::Lower), told, "{today} {before}");
    }
    assert_eq!(verdict(&earlier[..2], &apart[..2], Better::Lower), Verdict::TooFew);
    // What is slower by a fifth and more is not excused by few pairs.
    assert_eq!(verdict(&[12.1], &[9.0, 10.0], Better::Lower), Verdict::Worse);
    assert_eq!(verdict(&[7.4, 7.5], &[9.0, 10.0], Better::Lower), Verdict::Better);
}

#[test]
fn a_row_was_worse_by_less_than_its_peer_beside_itself() {
    let (today, earlier) =
        (spread(&[10.5, 10.5, 10.6, 10.7, 10.7]).expect("pairs"), spread(&[9.0, 9.5, 9.5, 9.5, 10.0]));
    let beside = |itself: &[f64], better| today.verdict(earlier, better, spread(itself));
    assert_eq!(beside(&[9.9, 10.0, 10.1], Better::Lower), Verdict::Worse);
    // By 6 %, whichever of the two sides it is called.
    assert_eq!(beside(&[10.0, 10.2, 10.6], Better::Lower), Verdict::Within);
    assert_eq!(beside(&[9.4, 9.5, 9.6], Better::Lower), Verdict::Within);
    // A claim to be better is worth no more.
    assert_eq!(beside(&[9.4, 9.5, 9.6], Better::Higher), Verdict::Within);
    assert_eq!(beside(&[9.9, 10.0, 10.1], Better::Higher), Verdict::Better);
}

#[test]
fn a_row_without_a_peer_is_held_by_its_own_figures() {
    let alone = |ours: &[f64]| Row {
        pairs: ours.iter().map(|ours| (*ours, None)).collect(),
        earlier: Spread::of_pairs(&[50.0, 52.0, 55.0, 58.0, 60.0].map(|earlier| (earlier, None))),
        ..Row::new("a cell's set-up", "ms", Better::Lower)
    };
    let told = "a cell's set-up: 65.50 (61.00–70.00), earlier 55.00 (50.00–60.00)";
    assert_eq!(alone(&[61.0, 63.0, 65.5, 68.0, 70.0]).worse().as_deref(), Some(told));
    let within = alone(&[59.0, 70.0]);
    assert_eq!((within.verdict(), within.worse()), (Some(Verdict::Within), None));
    // Counts of nothing on both sides have no ratio; their own figures must not replace it.
    let counts = Row { pairs: vec![(0.0, Some(0.0))], ..Row::new("lost", "packets", Better::Neither) };
    assert_eq!((counts.ratio(), counts.verdict()), (None, None));
}

#[test]
fn a_count_that_only_adds_up_was_compared_with_an_earlier_run() {
    let lost = |better| Row {
        pairs: vec![(1845.0, Some(11539.0)); 5],
        earlier: Spread::of_pairs(&[(210.0, Some(11539.0)); 5]),
        ..Row::new("rx_dropped", "packets", better)
    };
    assert_eq!(lost(Better::Neither).verdict(), Some(Verdict::Outside));
    assert_eq!(lost(Better::Uncompared).verdict(), None);
}

#[test]
fn a_bound_is_missed_only_if_no_pair_keeps_it() {
    let row = Row { bound: Bound::RatioAtMost(1.0), ..row("round trip", "sockperf", &[9.0, 9.9, 14.0]) };
    assert_eq!(row.met(), Some(Met::Yes), "by its median, whatever the spread");
    assert_eq!(row.ratio().map(|ratio| ratio.to_string()).as_deref(), Some("0.99 (0.90–1.40)"));
    let held = |bound: Bound| Row { bound, ..row.clone() }.met();
    assert_eq!(held(Bound::RatioAtLeast(1.0)), Some(Met::Perhaps), "a pair keeps it, the median does not");
    assert_eq!((held(Bound::RatioAtLeast(1.5)), held(Bound::RatioAtMost(0.8))), (Some(Met::No), Some(Met::No)));
    // What a ratio of the peer to itself is worth is part of the spread.
    let itself = Spread::of_pairs(&[0.8, 0.9, 1.0, 1.1, 1.1].map(|ratio| (ratio, Some(1.0))));
    assert_eq!(Row { bound: Bound::RatioAtLeast(1.5), itself, ..row }.met(), Some(Met::Perhaps));
}

#[test]
fn some_comparisons_measured_anew_leave_the_pairs_of_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = folder.path().join("results.tsv");
    let keep = |comparison: &str, rows: &[Row]| {
        let raw = Raw::create(folder.path().join(comparison)).expect("a folder");
        raw.rows(rows).expect("pairs.tsv");
        raw.keep_pairs(comparison, HERE, &table).expect("results.tsv");
    };
    assert_eq!(Earlier::read(&table, HERE).expect("no run yet").spread("timer", &row("p50", "cyclictest", &[])), None);
    keep("timer", &[row("p50", "cyclictest", &[9.0, 10.0]), row("p99", "cyclictest", &[20.0])]);
    keep("exchange", &[row("p50", "sockperf", &[8.0])]);
    keep("timer", &[row("p50", "cyclictest", &[7.0, 11.0])]);

    let earlier = Earlier::read(&table, HERE).expect("pairs");
    let other = Earlier::read(&table, "2 CPUs (two), Linux 6.18").expect("pairs");
    assert_eq!(other.spread("timer", &row("p50", "cyclictest", &[])), None, "of another machine");
    let of = |comparison: &str, what: &str, peer: &str| earlier.spread(comparison, &row(what, peer, &[]));
    assert_eq!(of("timer", "p50", "cyclictest"), spread(&[7.0, 11.0]));
    assert_eq!(of("exchange", "p50", "sockperf"), spread(&[8.0]));
    // Neither a row that is gone, nor the same words of another comparison or of another peer.
    for (comparison, what, peer) in
        [("timer", "p99", "cyclictest"), ("exchange", "p50", "cyclictest"), ("timer", "p50", "sockperf")]
    {
        assert_eq!(of(comparison, what, peer), None, "{comparison} {what} {peer}");
    }
    // Nor one in another unit, which a row without a peer could not be compared with.
    assert_eq!(earlier.spread("timer", &Row { unit: "ns", ..row("p50", "cyclictest", &[]) }), None);
}

#[test]
fn a_table_that_is_cut_short_is_not_taken_for_new_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = folder.path().join("results.tsv");
    for (line, why) in [
        ("timer\tp50\tµs", "line 2 has 3 columns instead of 8"),
        ("timer\tp50\tµs\tcyclictest\t1\t\t35\tx", "line 2: `` is no figure"),
        ("timer\tp50\tµs\tcyclictest\t1\t33\t35x\tx", "line 2: `35x` is no figure"),
    ] {
        fs::write(&table, format!("{HEAD}{line}\n")).expect("written");
        let error = Earlier::read(&table, HERE).err().map(|error| format!("{error:#}")).unwrap_or_default();
        assert!(error.contains(why) && error.contains("git checkout"), "{error}");
    }
}

/// The rows of the committed table, as a run that measures the same again would give them: each
/// with its comparison and its machine. Comparisons may be of several machines.
fn kept() -> Vec<([&'static str; 2], Row)> {
    let mut rows: BTreeMap<[&str; 5], Vec<Pair>> = BTreeMap::new();
    for line in KEPT.lines().skip(1) {
        let [comparison, what, unit, peer, _, ours, peers, machine] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let pair = (ours.parse().expect("a figure"), peers.parse().ok());
        rows.entry([comparison, what, unit, peer, machine]).or_default().push(pair);
    }
    let mut found = Vec::new();
    for ([comparison, what, unit, peer, machine], pairs) in rows {
        found
            .push(([comparison, machine], Row { peer: peer.to_owned(), pairs, ..Row::new(what, unit, Better::Lower) }));
    }
    found
}

#[test]
fn the_pairs_that_are_kept_lie_within_their_own_spread() {
    assert!(KEPT.starts_with(HEAD));
    for ([comparison, machine], row) in kept() {
        let earlier = Earlier::parse(KEPT, machine).expect("benches/results.tsv");
        let today = Row { earlier: earlier.spread(comparison, &row), ..row.clone() };
        assert_eq!(today.earlier, Spread::of_pairs(&row.pairs), "{comparison}: {}", row.what);
        assert!(matches!(today.verdict(), None | Some(Verdict::Within)), "{comparison}: {}", row.what);
        // So much slower that the least of today's is half as much again as the greatest then.
        let factor = today.earlier.map_or(1.0, |earlier| 1.5 * earlier.greatest / earlier.least);
        let slower = row.pairs.iter().map(|(ours, peer)| (ours * factor, *peer)).collect();
        let slower = Row { pairs: slower, ..today };
        assert!(matches!(slower.verdict(), None | Some(Verdict::Worse)), "{comparison}: {}", row.what);
    }
}

#[test]
fn the_page_shows_the_ratios_of_the_pairs_that_are_kept() {
    let page = fs::read_to_string(Path::new("../docs/performance.md")).expect("the page");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = page.lines().filter(|line| line.starts_with("| ")).map(cells).collect();
    for ([comparison, _], row) in kept() {
        let peer = if row.peers().is_some() { row.peer.as_str() } else { "" };
        let line = lines.iter().find(|cells| cells[1] == row.what && cells[3] == peer);
        let shown = line.map(|cells| cells[5].clone());
        let ratio = row.ratio().map_or_else(String::new, |ratio| ratio.to_string());
        assert_eq!(shown, Some(ratio), "{comparison}: {}", row.what);
    }
}

#[test]
fn two_generations_of_processors_with_one_name_were_taken_for_one_machine() {
    let info = |family: u32, mips: &str| {
        format!(
            "processor\t: 0\ncpu family\t: {family}\nmodel\t\t: 1\nmodel name\t: AMD EPYC\nstepping\t: 2\n\
             bogomips\t: {mips}\n"
        )
    };
    assert_eq!(row::processor(&info(23, "3992.49")), "AMD EPYC, cpu family 23, model 1, stepping 2, 2.00 GHz");
    assert_eq!(row::processor(&info(23, "3992.51")), row::processor(&info(23, "3992.49")));
    assert_ne!(row::processor(&info(25, "3992.49")), row::processor(&info(23, "3992.49")));
    assert_ne!(row::processor(&info(23, "4890.80")), row::processor(&info(23, "3992.49")));
    assert_eq!(row::processor(&info(23, "4499.99")), row::processor(&info(23, "4500.01")));
    assert_eq!(row::processor(""), "unknown");
}

#[test]
fn rows_of_another_machine_stood_below_the_first_ones_name() {
    let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let page = "before\n\ntardy 0.1.0 on one, Linux 6.\n\n| what |\n";
    assert_eq!(row::with_anew(page, "one, Linux 6", &names(&["hints"])), page, "the page's own");
    let two = row::with_anew(page, "two, Linux 6", &names(&["hints", "timer"]));
    assert_eq!(
        two,
        "before\n\ntardy 0.1.0 on one, Linux 6.\n\nMeasured anew on two, Linux 6: hints, timer.\n\n| what |\n"
    );
    assert_eq!(row::with_anew(&two, "two, Linux 6", &names(&["timer"])), two);
    // On a third one, and then on the page's own again.
    let three = row::with_anew(&two, "three, Linux 6", &names(&["timer"]));
    assert!(three.contains("on three, Linux 6: timer.\n") && three.contains("on two, Linux 6: hints.\n"), "{three}");
    let back = row::with_anew(&three, "one, Linux 6", &names(&["hints", "timer"]));
    assert_eq!(back, page);
}

#[test]
fn the_name_of_a_long_machine_was_wider_than_the_page() {
    let machine = |n: u8| {
        format!(
            "2 CPUs (Some(R) Long(R) Processor, cpu family {n}, model 207, stepping 2), Linux 6.18.44-some-version-{n}"
        )
    };
    let first = row::filled(&format!("tardy 0.1.0\n on {}.", machine(1)));
    let page = format!("before\n\n{first}\n\n| what |\n");
    let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let two = row::with_anew(&page, &machine(2), &names(&["hints", "timer"]));
    assert!(two.lines().all(|line| line.chars().count() <= 100), "{two}");
    assert!(two.lines().count() > page.lines().count() + 2, "{two}");
    assert_eq!(row::with_anew(&two, &machine(2), &names(&["hints"])).matches("hints").count(), 1);
    assert_eq!(row::with_anew(&two, &machine(1), &names(&["hints", "timer"])), page);
}
