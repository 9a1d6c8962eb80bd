// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background loads without a machine: their keys, what they draw, their series, their lines in
//! the reports.

use crate::report::sample::run;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_model::load::{Distribution, Load, LoadKind, Rate, Series};
use tardy_model::result::{LoadResult, RepliesResult};
use tardy_model::stream::{CpuChoice, Policy};
use tardy_model::time::Nanos;
use tardy_spec::experiment::Experiment;
use tardy_spec::{Source, load};

const HEAD: &str = tardy_tests::part("stream from a to b");

#[track_caller]
fn good(body: &str) -> Experiment {
    let load = |text: &str| load(&Source { name: "x.toml".into(), text: text.into() }, &[]);
    let experiment = load(&format!("{HEAD}{body}")).unwrap_or_else(|error| panic!("{body}\n{}", error.one_line()));
    let again = load(&experiment.effective).unwrap_or_else(|e| panic!("{}\n{}", experiment.effective, e.one_line()));
    assert_eq!(again, experiment, "the effective file of\n{body}");
    experiment
}

fn one(body: &str) -> Load {
    good(&format!("[load.bulk]\nfrom = \"a\"\n{body}")).cells[0].setup.loads[0].clone()
}

#[test]
fn every_kind_has_its_defaults() {
    let bulk = one("kind = \"tcp_stream\"\nto = \"b\"\n");
    assert_eq!((bulk.name.as_str(), bulk.from.as_str(), bulk.to.as_deref()), ("bulk", "a", Some("b")));
    assert_eq!((bulk.count, bulk.start, bulk.stop), (1, Nanos::from_millis(-300), None));
    assert_eq!((bulk.cpu, bulk.peer_cpu), (CpuChoice::Any, CpuChoice::Any));
    assert_eq!((bulk.policy, bulk.peer_policy), (Policy::Other, Policy::Other));
    assert_eq!((bulk.send_buffer, bulk.receive_buffer, bulk.shortfall), (None, None, 0.05));
    let kind = |body: &str| one(body).kind;
    assert_eq!(bulk.kind, LoadKind::TcpStream { size: 16_384, rate: None });
    assert_eq!(kind("kind = \"tcp_maerts\"\nto = \"b\""), LoadKind::TcpMaerts { size: 16_384 });
    assert_eq!(kind("kind = \"tcp_rr\"\nto = \"b\""), LoadKind::TcpRr { size: 1, reply_size: 1 });
    assert_eq!(kind("kind = \"udp_flood\"\nto = \"b\""), LoadKind::UdpFlood { size: 1_400, rate: None });
    let camera = LoadKind::Camera { fps: 30, frame_size: 50_000, packet_size: 1_400 };
    assert_eq!(kind("kind = \"camera\"\nto = \"b\""), camera);
    let sporadic = LoadKind::Sporadic {
        size: 16_384,
        burst: Distribution::Exponential(256 << 10),
        gap: Distribution::Exponential(50_000_000),
    };
    assert_eq!(kind("kind = \"sporadic\"\nto = \"b\""), sporadic);
    assert_eq!(kind("kind = \"cpu\""), LoadKind::Cpu { duty: 0.5, period: Nanos::from_millis(10) });
    assert_eq!(kind("kind = \"memory\""), LoadKind::Memory { working_set: 8 << 20 });
    let command = LoadKind::Command { command: vec!["true".into()], peer_command: Vec::new() };
    assert_eq!(kind("kind = \"command\"\ncommand = [\"true\"]"), command);
}

#[test]
fn both_ends_of_a_load_disturb_one_cpu() {
    let experiment = load(&tardy_spec::resolve("roundtrip-load").expect("ready-made"), &[]).expect("good");
    for usable in [vec![0, 1], vec![0, 1, 2, 3], (0..16).collect()] {
        let found = FactsByHost::from(Facts { usable: usable.clone(), ..Facts::default() });
        for cell in &experiment.cells {
            let (chosen, _) = tardy_lab::placement::place(&cell.setup, &found).expect("CPUs");
            let (loads, short) = tardy_lab::loads::place(&cell.setup, &chosen, &found).expect("CPUs");
            assert_eq!(short, Vec::<String>::new());
            let first = loads.first().and_then(|load| load.first());
            let ([near, far], a) = (first.copied().unwrap_or_default(), &chosen[0]);
            match cell.id.as_str() {
                "A-only" => assert_eq!(first, None),
                "A-and-B-different-cpu" => {
                    assert!(near == far && near != a.tx && a.tx == a.rx, "{near:?} {far:?} {a:?}")
                }
                "A-and-B-same-cpu" => assert!(near == far && near == a.tx && a.tx != a.rx, "{near:?} {far:?} {a:?}"),
                other => panic!("cell {other}"),
            }
        }
    }
}

#[test]
fn what_is_written_is_read() {
    let flood = one(tardy_tests::experiment("flood with keys of its own"));
    assert_eq!(flood.kind, LoadKind::UdpFlood { size: 100, rate: Some(Rate::Bits(1_500_000)) });
    assert_eq!((flood.start, flood.stop, flood.send_buffer), (Nanos::ZERO, Some(Nanos::from_secs(2)), Some(65_536)));
    assert_eq!((flood.cpu, flood.policy), (CpuChoice::Same, Policy::Fifo(5)));
    let packets = one("kind = \"udp_flood\"\nto = \"b\"\npacket_rate = 9000");
    assert_eq!(packets.kind.asked().bit_s, Some(9_000 * 1_400 * 8));
    let sporadic = one("kind = \"sporadic\"\nto = \"b\"\nburst = \"pareto:64KiB/1.5\"\ngap = \"uniform:10ms..1s\"");
    let (burst, gap) =
        (Distribution::Pareto { scale: 65_536, shape: 1.5 }, Distribution::Uniform(10_000_000, 1_000_000_000));
    assert_eq!(sporadic.kind, LoadKind::Sporadic { size: 16_384, burst, gap });
}

#[test]
fn none_is_a_count_like_any_other() {
    let body = tardy_tests::experiment("flood from a to b").to_owned() + "count = 0\n";
    let counts = |experiment: &Experiment| -> Vec<u32> {
        experiment.cells.iter().map(|cell| cell.setup.loads.first().map_or(0, |load| load.count)).collect()
    };
    assert_eq!(counts(&good(&body)), [0]);
    let axis = good(&format!("{body}[matrix]\n\"load.bulk.count\" = [0, 3]"));
    assert_eq!(counts(&axis), [0, 3]);
    assert_eq!(axis.cells[1].id, "bulk.count=3", "`count` alone is the stream's too");
    let cases = "[[case]]\nname = \"idle\"\n[[case]]\nname = \"loaded\"\nset = { \"load.bulk.count\" = 64 }";
    assert_eq!(counts(&good(&format!("{body}{cases}"))), [0, 64]);
    let sim = good(&format!("port = \"sim\"\n{body}"));
    assert_eq!(counts(&sim), [0], "a load that does not run disturbs no simulation");
}

#[test]
fn kinds_may_differ_between_cells() {
    let cells = good(tardy_tests::experiment("two kinds of load")).cells;
    assert_eq!(cells[0].setup.loads[0].kind, LoadKind::TcpRr { size: 1, reply_size: 9 });
    assert_eq!(cells[1].setup.loads[0].kind.name(), "camera");
}

#[test]
fn draws_are_of_their_distribution() {
    assert_eq!((Distribution::Fixed(7).at(0.0), Distribution::Fixed(7).at(0.999)), (7, 7));
    let uniform = Distribution::Uniform(10, 19);
    assert_eq!((uniform.at(0.0), uniform.at(0.5), uniform.at(0.9999)), (10, 15, 19));
    // The median of an exponential is ln 2 of its mean; a share q of a Pareto lies below scale /
    // (1 - q)^(1/shape).
    assert_eq!(Distribution::Exponential(1_000_000).at(0.5), 693_147);
    assert_eq!(Distribution::Pareto { scale: 1_000, shape: 2.0 }.at(0.75), 2_000);
    let all = [
        Distribution::Fixed(5),
        Distribution::Uniform(1, 9),
        Distribution::Exponential(1_000),
        Distribution::Pareto { scale: 1_000, shape: 0.1 },
    ];
    for distribution in all {
        // Whatever is asked of the tail, a loop over it is bounded.
        for u in [1.0, 2.0, -1.0, f64::NAN] {
            assert!(distribution.at(u) <= 10_000_000, "{distribution:?} at {u}");
        }
    }
    let draw = |seed| {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let exponential = Distribution::Exponential(1_000_000);
        (0..10_000).map(|_| exponential.at(random.random())).collect::<Vec<u64>>()
    };
    assert_eq!(draw(1), draw(1), "seeded");
    assert_ne!(draw(1), draw(2));
    let mean = draw(3).iter().sum::<u64>() / 10_000;
    assert!((950_000..1_050_000).contains(&mean), "{mean}");
}

#[test]
fn a_series_keeps_every_byte_however_long_it_is() {
    let mut series = Series::from(-300_000_000);
    series.add(-1_000_000_000, 1);
    series.add(0, 2);
    series.add(i64::MAX / 4, 4);
    assert_eq!(series.bytes.iter().sum::<u64>(), 7);
    assert!(series.bytes.len() <= Series::MOST);
    let mut short = Series::from(-300_000_000);
    (0..50).for_each(|n| short.add(n * 100_000_000, 10));
    assert_eq!((short.every_ns, short.bytes.len(), short.bytes[3]), (100_000_000, 53, 10));
    let mut long = Series::from(-300_000_000);
    (0..3_000).for_each(|n| long.add(n * 100_000_000, 1));
    assert_eq!(long.every_ns, 400_000_000);
    long.merge(&short);
    assert_eq!(long.bytes.iter().sum::<u64>(), 3_500);
    assert_eq!(
        (long.every_ns, long.bytes[0]),
        (400_000_000, 11),
        "one stretch before the base time holds the first byte"
    );
}

fn loaded() -> crate::report::sample::Run {
    let mut run = run(&["all"]);
    let bulk = LoadResult {
        kind: "tcp_maerts".into(),
        count: 1,
        achieved_bit_s: 3_554_120_000.0,
        bytes: 2_221_363_768,
        sent_bit_s: Some(3_554_120_000.0),
        sent_bytes: Some(2_221_363_768),
        sends: Some(135_712),
        bytes_a_send: Some(16_368.2),
        receives: Some(43_814),
        bytes_a_receive: Some(50_699.86),
        retransmits: Some(3),
        timeouts: Some(0),
        span_ns: 5_000_000_000,
        ..LoadResult::default()
    };
    let cpu = LoadResult {
        kind: "cpu".into(),
        count: 2,
        asked_duty: Some(0.5),
        duty: Some(0.48),
        span_ns: 5_000_000_000,
        ..LoadResult::default()
    };
    let loads = BTreeMap::from([("bulk".to_owned(), bulk), ("busy".to_owned(), cpu)]);
    let cell = &mut run.results.cells[0];
    cell.loads = loads.clone();
    let series = Series { every_ns: 100_000_000, first_ns: -300_000_000, bytes: vec![1, 2] };
    cell.trials[0].loads = loads;
    cell.trials[0].loads.get_mut("bulk").expect("it is there").series = Some(series);
    run
}

#[test]
fn the_table_tells_of_a_load_what_it_has() {
    let text = loaded().draw("text", 100);
    let at = text.lines().position(|line| line.starts_with("  load ")).unwrap_or_else(|| panic!("{text}"));
    let lines: Vec<&str> = text.lines().skip(at).take(3).collect();
    assert_eq!(
        lines,
        [
            "  load       bulk tcp_maerts  3 554.1 Mbit/s  2 221 363 768 B  43 814 recvs (50 700 B)",
            "             135 712 sends (16 368 B)  retransmits 3",
            "  load       busy cpu × 2  busy 48 % of 50 %",
        ],
        "{text}"
    );
    assert!(!run(&["all"]).draw("text", 100).contains("load "), "without a load no row names one");
}

#[test]
fn a_rate_of_round_trips_stands_beside_the_outcomes() {
    let mut run = run(&["all"]);
    let stream = run.results.cells[0].streams.values_mut().next().expect("a stream");
    stream.replies = Some(RepliesResult { transactions_s: Some(4_982.6), retransmits: Some(7), timeouts: Some(2) });
    for (format, rate) in [("text", "4 983"), ("md", "4983"), ("org", "4983"), ("html", "4\u{202f}983")] {
        let text = run.draw(format, 100);
        for has in [format!("{rate} transactions/s"), "retransmits 7".to_owned(), "timeouts 2".to_owned()] {
            assert!(text.contains(&has), "{format}: {has}\n{text}");
        }
    }
}

#[test]
fn many_cells_in_one_table_tell_of_their_loads_too() {
    let ids = ["one", "two", "three", "four", "five", "six", "seven"];
    let mut run = run(&ids);
    let mut loads = loaded().results.cells[0].loads.clone();
    loads.remove("busy");
    run.results.cells[2].loads = loads;
    let text = run.draw("text", 100);
    let at = text.lines().position(|line| line.starts_with("  load ")).unwrap_or_else(|| panic!("{text}"));
    let lines: Vec<&str> = text.lines().skip(at).take(3).collect();
    assert_eq!(
        lines[..2],
        [
            "  load       three: bulk tcp_maerts  3 554.1 Mbit/s  2 221 363 768 B  43 814 recvs (50 700 B)",
            "             135 712 sends (16 368 B)  retransmits 3",
        ],
        "{text}"
    );
    assert!(!lines[2].contains("load "), "the other cells have none: {text}");
}

#[test]
fn documents_and_the_page_have_the_loads_columns() {
    for format in ["md", "org", "html"] {
        let text = loaded().draw(format, 100);
        for has in ["bulk", "tcp_maerts", "B a recv", "retransmits", "busy"] {
            assert!(text.contains(has), "{format}: {has}");
        }
        assert!(!text.contains("transactions/s"), "{format}: no load here has transactions");
    }
    let json = loaded().draw("json", 100);
    let results: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(results["cells"][0]["loads"]["bulk"]["bytes"], 2_221_363_768_u64);
    assert_eq!(results["cells"][0]["loads"]["busy"].get("sends"), None, "what it does not have is left out");
    assert_eq!(results["cells"][0]["trials"][0]["loads"]["bulk"]["series"]["bytes"][1], 2);
    crate::report::schema::agrees(&tardy_model::schema::results(), &results);
}
