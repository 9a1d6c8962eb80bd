// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of the packets: lost, refused, not recorded, or received by nobody. Losing more
//! packets never costs less: neither the outcome of a run nor a figure gets milder, whatever ended
//! the receiver.

use super::fixture::{LEAD, Packet, batches, healthy_packets, lost, not_sent, record};
use super::validity::{assert_is, ctl, judge, verdict};
use std::collections::BTreeMap;
use tardy_analyze::cell::CellAnalysis;
use tardy_analyze::run::{Outcome, outcome, run};
use tardy_model::expect::{Count, Expectation, Limit, Of};
use tardy_model::point::Metric;
use tardy_model::result::{MetricResult, Results};
use tardy_model::sample::Flags;
use tardy_model::trial::{Counters, ReplyRecord, TrialRecord};
use tardy_model::verdict::Level;

const COUNT: usize = 2_000;
/// What a receive call says of a path or a peer that is gone: ENXIO, ENODEV, ETIME, ENETDOWN,
/// ENETUNREACH, ECONNABORTED, ECONNRESET, ENOTCONN, ESHUTDOWN, ETIMEDOUT, ECONNREFUSED, EHOSTDOWN,
/// EHOSTUNREACH; and one that nobody knows.
const OUTAGES: [i32; 14] = [6, 19, 62, 100, 101, 103, 104, 107, 108, 110, 111, 112, 113, 4_000];
/// EBADF, ENOMEM, EBADMSG, ENOTSOCK.
const OWN: [i32; 4] = [9, 12, 74, 88];

type Trial = (TrialRecord, Vec<Packet>);

fn trial(n: u32) -> Trial {
    let (mut record, packets) = (record(n, COUNT as u32), healthy_packets(u64::from(n), COUNT));
    ctl(&mut record).max_loss = 0.001;
    (record, packets)
}

fn none(count: Count) -> Expectation {
    Expectation { stream: "ctl".to_owned(), limit: Limit::Count { count, at_most: 0 } }
}

fn max_below(limit_ns: i64) -> Expectation {
    let limit = Limit::Metric { metric: LEAD, of: Of::Max, limit_ns, inclusive: false };
    Expectation { stream: "ctl".to_owned(), limit }
}

fn median_below(limit_ns: i64) -> Expectation {
    let limit = Limit::Metric { metric: LEAD, of: Of::Quantile(0), limit_ns, inclusive: false };
    Expectation { stream: "ctl".to_owned(), limit }
}

fn judged(trials: &[Trial], expectations: Vec<Expectation>) -> Results {
    let asked = BTreeMap::from([("ctl".to_owned(), vec![LEAD, Metric::Delta])]);
    let mut cell = CellAnalysis::new("all", BTreeMap::new(), asked, expectations);
    for (record, packets) in trials {
        cell.trial(record, batches(packets, 700).into_iter().map(|batch| ("ctl", batch)));
    }
    run("x", [cell.finish()], Vec::new())
}

/// Five trials, the third of them changed.
fn five(change: impl FnOnce(&mut TrialRecord, &mut [Packet])) -> Vec<Trial> {
    let mut trials: Vec<Trial> = (1..=5).map(trial).collect();
    let (record, packets) = &mut trials[2];
    change(record, packets);
    trials
}

/// A figure in an order of harshness: a value, one that is not resolved, an infinite one.
fn harsh(metric: &MetricResult, name: &str, value: Option<i64>) -> (u8, i64) {
    match value {
        Some(ns) => (0, ns),
        None if metric.infinite.iter().any(|other| other == name) => (2, 0),
        None => (1, 0),
    }
}

fn figures(results: &Results) -> Vec<(u8, i64)> {
    let metric = &results.cells[0].streams["ctl"].metrics["scheduled..rx_kernel"];
    let quantiles = metric.figures.quantiles.as_array();
    let names = ["p50", "p90", "p99", "p99.9", "p99.99"];
    let mut all: Vec<_> = names.into_iter().zip(quantiles).map(|(name, ns)| harsh(metric, name, ns)).collect();
    all.push(harsh(metric, "max", metric.figures.max_ns));
    all
}

/// Goes through ever more losses, each a superset of the one before: nothing may get milder.
fn through(packets: &[usize], expectations: &[Expectation], expected: impl Fn(usize) -> Outcome) {
    let mut before: Option<(Outcome, Vec<(u8, i64)>)> = None;
    for losses in [0, 1, 2, 3, 5, 10, 11, 20, 21, 40, 100, 101, 199, 200, 400, 1_000, 1_800, 1_999, 2_000] {
        let trials = five(|_, of| packets[..losses].iter().for_each(|at| of[*at] = lost(10_000)));
        let results = judged(&trials, expectations.to_vec());
        let now = (outcome(&results), figures(&results));
        assert_eq!(now.0, expected(losses), "{losses} lost");
        if let Some(before) = &before {
            assert!(now.0 >= before.0, "{losses} lost: {now:?} after {before:?}");
            let milder = now.1.iter().zip(&before.1).any(|(now, before)| now < before);
            assert!(!milder, "{losses} lost: {now:?} after {before:?}");
        }
        before = Some(now);
    }
}

/// The packets of trial 3 from the slowest to the fastest: losing those improves what is left most.
fn slowest_first() -> Vec<usize> {
    let packets = trial(3).1;
    let mut order: Vec<usize> = (0..COUNT).collect();
    order.sort_by_key(|at| std::cmp::Reverse(packets[*at].rx_kernel));
    order
}

#[test]
fn losing_more_packets_never_costs_less() {
    let unmet = |losses: usize| if losses == 0 { Outcome::Good } else { Outcome::Unmet };
    let in_a_row: Vec<usize> = (0..COUNT).collect();
    let scattered: Vec<usize> = (0..COUNT).map(|n| n * 997 % COUNT).collect();
    for order in [in_a_row, scattered, slowest_first()] {
        through(&order, &[none(Count::Lost)], unmet);
        // Without a limit on the count: a packet that never came is above any maximum.
        through(&order, &[max_below(i64::MAX)], unmet);
        // A median is kept until half are gone, and nobody says so of a cell that lost more than
        // is allowed.
        through(&order, &[median_below(i64::MAX)], |losses| match losses {
            0..=2 => Outcome::Good,
            _ => Outcome::Unknown,
        });
        // One that is broken without a loss is not excused by losses.
        through(&order, &[median_below(1)], |_| Outcome::Unmet);
    }
}

/// The requester gets no reply from packet `at` on: that one is lost, the others are never sent.
fn silent(record: &mut TrialRecord, packets: &mut [Packet], at: usize, errno: i32) {
    let counters = Counters { receive_errno: errno, ..Counters::default() };
    ctl(record).reply = Some(ReplyRecord { counters, ..ReplyRecord::default() });
    ctl(record).cycle_ns = 0;
    packets[at] = lost(10_000);
    packets[at + 1..].fill(not_sent());
}

#[test]
fn a_longer_outage_never_costs_less_than_a_short_one() {
    for errno in OUTAGES {
        let one_way = |from: usize| {
            five(|record, packets| {
                ctl(record).counters.receive_errno = errno;
                packets[from..].fill(lost(10_000));
            })
        };
        let asked = |at: usize| five(|record, packets| silent(record, packets, at, errno));
        for trials in [one_way(1_990), one_way(1), asked(1_999), asked(1_500), asked(50)] {
            let results = judged(&trials, vec![none(Count::Lost)]);
            let cell = &results.cells[0];
            assert_eq!((results.valid, results.expectations[0].met), (false, Some(false)), "errno {errno}");
            assert_eq!(outcome(&results), Outcome::Unmet, "errno {errno}");
            let outcomes = cell.streams["ctl"].outcomes;
            assert_eq!(outcomes.intended, 10_000, "the trial stays in the pool");
            let verdicts: Vec<&str> = cell.verdicts.iter().map(|verdict| verdict.id.as_str()).collect();
            assert!(verdicts.contains(&"receiver-broke") && !verdicts.contains(&"left-out"), "{verdicts:?}");
        }
        // Nor does a figure get milder the longer it lasts.
        for kind in [&one_way as &dyn Fn(usize) -> Vec<Trial>, &asked] {
            let lengths = [1_999, 1_990, 1_900, 1_500, 1_000, 400, 50, 1];
            let all: Vec<_> = lengths.map(|from| figures(&judged(&kind(from), Vec::new()))).into();
            let milder = |pair: &[Vec<(u8, i64)>]| pair[0].iter().zip(&pair[1]).any(|(before, now)| now < before);
            assert!(!all.windows(2).any(milder), "errno {errno}: {all:?}");
        }
        // What was never asked because nobody answered any more is as gone as what was asked.
        let missing = |at| judged(&asked(at), vec![none(Count::Lost)]).expectations[0].got;
        assert_eq!((missing(1_999), missing(1_500), missing(50)), (Some(1), Some(500), Some(1_950)), "errno {errno}");
    }
}

#[test]
fn a_port_whose_path_is_gone_refuses_packets_that_count_as_lost() {
    let refused = |errno: i32| {
        let trials = five(|record, packets| {
            let counters = &mut ctl(record).counters;
            (counters.send_errors, counters.first_send_errno) = (300, errno);
            packets[1_700..].fill(not_sent());
        });
        judged(&trials, vec![none(Count::Lost)])
    };
    for errno in [6, 19, 32, 100, 101, 103, 104, 110, 111, 113] {
        let results = refused(errno);
        assert_eq!((results.expectations[0].met, results.expectations[0].got), (Some(false), Some(300)), "{errno}");
        assert!(
            results.expectations[0].why.as_deref().is_some_and(|why| why.starts_with("300 packets of them could not"))
        );
    }
    // A queue that was full is the queue's word: not_sent has a limit of its own.
    assert_eq!(refused(105).expectations[0].met, Some(true));
    assert_eq!(outcome(&refused(105)), Outcome::Unknown);
}

#[test]
fn what_tardy_did_not_see_is_not_judged_unless_another_trial_breaks_the_limit() {
    let counts = [Count::Lost, Count::Duplicate, Count::Reordered];
    let every = || counts.map(none).to_vec();
    let full: Vec<Trial> = five(|record, packets| {
        ctl(record).counters.records_dropped = 20;
        packets[100..120].fill(lost(10_000));
    });
    let blind = OWN.map(|errno| {
        five(|record, packets| {
            ctl(record).counters.receive_errno = errno;
            packets[500..].fill(lost(10_000));
        })
    });
    for trials in blind.into_iter().chain([full.clone()]) {
        let results = judged(&trials, every());
        assert!(results.valid, "trial 3 is left out, and four are sound");
        for expectation in &results.expectations {
            assert_eq!((expectation.met, expectation.got), (None, None));
            let why = expectation.why.as_deref().unwrap_or_default();
            assert!(why.starts_with("tardy did not see what became of all packets in trial 3: "), "{why}");
        }
        assert_eq!((results.expectations_met, outcome(&results)), (None, Outcome::Unknown));
        // Whether a packet was sent the sender knows.
        let results = judged(&trials, vec![none(Count::NotSent)]);
        assert_eq!((results.expectations_met, outcome(&results)), (Some(true), Outcome::Good));
        // Another trial breaks it.
        let mut trials = trials;
        trials[4].1[7] = lost(10_000);
        let results = judged(&trials, every());
        let met: Vec<Option<bool>> = results.expectations.iter().map(|expectation| expectation.met).collect();
        assert_eq!((met, results.expectations[0].got), (vec![Some(false), None, None], Some(1)));
        assert_eq!((results.expectations_met, outcome(&results)), (Some(false), Outcome::Unmet));
    }
    // More rows are lost than arrivals were without a place: some were lost on the way.
    let mut more = full;
    more[2].1[120..125].fill(lost(10_000));
    let results = judged(&more, vec![none(Count::Lost)]);
    assert_eq!((results.expectations[0].met, results.expectations[0].got), (Some(false), Some(5)));
}

#[test]
fn a_trial_that_is_left_out_still_counts_its_lost_packets() {
    let mut trials = five(|record, packets| {
        ctl(record).tx.policy_granted = "other".to_owned();
        packets[40] = lost(10_000);
        packets[41] = not_sent();
        packets[42].flags.set(Flags::DUPLICATE);
        packets[43].flags.set(Flags::REORDERED);
    });
    trials.iter_mut().for_each(|(record, _)| ctl(record).max_loss = 1.0);
    for count in [Count::Lost, Count::NotSent, Count::Duplicate, Count::Reordered] {
        let results = judged(&trials, vec![none(count)]);
        let cell = &results.cells[0];
        assert!(results.valid && cell.verdicts.iter().any(|verdict| verdict.id == "left-out"));
        assert_eq!(cell.streams["ctl"].outcomes.lost, 0, "it is in no figure");
        let expectation = &results.expectations[0];
        assert_eq!((expectation.met, expectation.got, outcome(&results)), (Some(false), Some(1), Outcome::Unmet));
    }
}

#[test]
fn a_limit_that_a_valid_cell_broke_is_not_forgiven_for_losses_in_another_cell() {
    let cell = |id: &str, trials: &[Trial], expectations| {
        let asked = BTreeMap::from([("ctl".to_owned(), vec![LEAD])]);
        let mut cell = CellAnalysis::new(id, BTreeMap::new(), asked, expectations);
        for (record, packets) in trials {
            cell.trial(record, batches(packets, 700).into_iter().map(|batch| ("ctl", batch)));
        }
        cell.finish()
    };
    let lossy = five(|_, packets| packets[..50].fill(lost(10_000)));
    let slow = || cell("a", &five(|_, _| {}), vec![max_below(1)]);
    let results = run("x", [slow(), cell("b", &lossy, vec![median_below(i64::MAX)])], Vec::new());
    let met: Vec<Option<bool>> = results.expectations.iter().map(|expectation| expectation.met).collect();
    assert_eq!((results.valid, met, outcome(&results)), (false, vec![Some(false), None], Outcome::Unmet));
    assert_eq!(results.expectations[1].why.as_deref(), Some("the figures are not valid"));
}

#[test]
fn all_packets_lost_make_the_percentiles_infinite() {
    let trials = five(|_, _| {});
    let trials: Vec<Trial> = trials.into_iter().map(|(record, _)| (record, vec![lost(10_000); COUNT])).collect();
    let results = judged(&trials, Vec::new());
    let metric = &results.cells[0].streams["ctl"].metrics["scheduled..rx_kernel"];
    assert_eq!(metric.infinite, ["p50", "p90", "p99", "p99.9", "max"]);
    assert_eq!((metric.unresolved.as_slice(), metric.count), (["p99.99".to_owned()].as_slice(), 0));
    assert_eq!(metric.why.as_deref(), Some("no packet was received"));
}

#[test]
fn one_lost_packet_says_no_more_of_p99_99_than_one_that_is_late() {
    let figures = |change: fn(&mut [Packet])| {
        let results = judged(&[five(|_, packets| change(packets)).swap_remove(2)], Vec::new());
        results.cells[0].streams["ctl"].metrics["scheduled..rx_kernel"].clone()
    };
    let one = figures(|packets| packets[7] = lost(10_000));
    let late = figures(|packets| packets[7].rx_kernel = Some(1_000_000_000));
    assert_eq!((&one.unresolved, &late.unresolved), (&vec!["p99.9".to_owned(), "p99.99".to_owned()], &one.unresolved));
    assert_eq!((one.infinite.as_slice(), late.figures.max_ns), (["max".to_owned()].as_slice(), Some(1_000_000_000)));
}

#[test]
fn losing_packets_in_a_trial_that_was_measured_badly_excused_a_limit_that_the_others_break() {
    let breaks = |lost_in_it: usize| {
        let trials = five(|record, packets| {
            ctl(record).counters.records_dropped = 5;
            packets[500..500 + lost_in_it].fill(lost(10_000));
        });
        let results = judged(&trials, vec![median_below(1)]);
        (outcome(&results), results.cells[0].valid)
    };
    assert_eq!(breaks(0), (Outcome::Unmet, true), "the trial is left out");
    assert_eq!(breaks(500), (Outcome::Unmet, false));
    // A limit that only the badly measured trial breaks is not broken: nobody knows.
    let limit = i64::from(i32::MAX);
    let trials = five(|record, packets| {
        ctl(record).counters.records_dropped = 5;
        packets[500..1_000].fill(lost(10_000));
    });
    assert_eq!(outcome(&judged(&trials, vec![max_below(limit)])), Outcome::Unknown);
    // Nor is one where most trials were measured badly.
    let mut trials: Vec<Trial> = (1..=5).map(trial).collect();
    for (record, packets) in &mut trials[..3] {
        ctl(record).counters.records_dropped = 5;
        packets[500..1_000].fill(lost(10_000));
    }
    assert_eq!(outcome(&judged(&trials, vec![median_below(1)])), Outcome::Unknown);
}

#[test]
fn more_loss_than_allowed() {
    let lose = |packets: &mut Vec<Packet>| packets[40..60].fill(lost(10_000));
    let verdict = verdict(|record, packets| {
        lose(packets);
        ctl(record).counters.socket_drops = 5;
    });
    assert_is(
        &verdict,
        "loss",
        Level::Invalid,
        "20 of 10000 packets of ctl were lost (0.2 %, allowed 0.0 %), the receiving socket dropped 5 packets since it was opened",
    );
    let answered = |drops: [u64; 2]| {
        super::validity::verdict(|record, packets| {
            lose(packets);
            ctl(record).counters.socket_drops = drops[0];
            let counters = Counters { socket_drops: drops[1], ..Counters::default() };
            ctl(record).reply = Some(ReplyRecord { counters, ..ReplyRecord::default() });
        })
    };
    let replies = answered([0, 7]);
    assert_is(
        &replies,
        "loss",
        Level::Invalid,
        "the socket of the end that asks dropped 7 packets since it was opened",
    );
    assert_eq!(replies.evidence["reply_socket_drops"], 7i64.into());
    assert_is(
        &answered([2, 7]),
        "loss",
        Level::Invalid,
        "since they were opened the receiving socket dropped 2 packets and the socket of the end that asks 7 packets",
    );
    assert_is(&answered([0, 0]), "loss", Level::Invalid, "none of them at a receiving socket, nor their replies");
    // The socket's count holds the warm-up's packets and strangers': it is not a share of those
    // that were lost.
    let more = super::validity::verdict(|record, packets| {
        lose(packets);
        ctl(record).counters.socket_drops = 100;
    });
    assert!(!more.says.contains("of them dropped"), "{}", more.says);
    let mut allowed = record(1, super::validity::COUNT);
    ctl(&mut allowed).max_loss = 0.002;
    let mut packets = healthy_packets(1, super::validity::COUNT as usize);
    lose(&mut packets);
    assert!(judge(&allowed, &packets).verdicts.is_empty());
}

#[test]
fn counters_that_tell_of_trouble() {
    let overflow = verdict(|record, _| ctl(record).counters.error_queue_overflows = 3);
    assert_is(&overflow, "queue-overflow", Level::Invalid, "was found full 3 times");
    let recorder = verdict(|record, _| ctl(record).counters.records_dropped = 4);
    assert_is(&recorder, "recorder", Level::Invalid, "4 arrivals of ctl found no place");
    let refuse = |record: &mut TrialRecord, packets: &mut Vec<Packet>| {
        (ctl(record).counters.send_errors, ctl(record).counters.first_send_errno) = (30, 105);
        packets[10..40].fill(not_sent());
    };
    assert_is(
        &verdict(refuse),
        "send-errors",
        Level::Invalid,
        "refused 30 of 10000 packets of ctl (0.3 %), first with errno 105 (no buffer space: the queue \
         discipline or the device was full)",
    );
    let allowed = verdict(|record, packets| {
        refuse(record, packets);
        ctl(record).max_loss = 0.01;
    });
    assert_is(&allowed, "send-errors", Level::Warning, "errno 105");
}

#[test]
fn a_receiver_that_broke_is_told_instead_of_the_loss() {
    let broke = verdict(|record, packets| {
        ctl(record).counters.receive_errno = 100;
        packets[4_000..].fill(lost(10_000));
    });
    let says = "failing with errno 100 (the network is down): later packets count as lost because nobody received them";
    assert_is(&broke, "receiver-broke", Level::Invalid, says);
    assert_eq!((&broke.evidence["errno"], &broke.evidence["lost"]), (&100i64.into(), &6_000i64.into()));
}

#[test]
fn a_peer_that_fell_silent_is_told_and_not_a_broken_socket() {
    let silent = verdict(|record, packets| {
        let counters = Counters { receive_errno: 62, ..Counters::default() };
        ctl(record).reply = Some(ReplyRecord { counters, ..ReplyRecord::default() });
        packets[50..].fill(lost(10_000));
    });
    assert_is(&silent, "receiver-broke", Level::Invalid, "no reply of ctl came for a minute");
}

#[test]
fn a_connection_that_broke_at_the_requester_is_told_instead_of_the_loss() {
    let broke = verdict(|record, packets| {
        let counters = Counters { receive_errno: 104, ..Counters::default() };
        ctl(record).reply = Some(ReplyRecord { counters, ..ReplyRecord::default() });
        packets[50..].fill(lost(10_000));
    });
    assert_is(&broke, "receiver-broke", Level::Invalid, "failing with errno 104 (the peer reset the connection)");
}
