// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams in experiment files: what each kind of answered stream means, which keys belong to it,
//! what is refused; and which points a stream stamps: those that the file names, else those that
//! something needs. And words of kinds: what a file may write is what there is, each of which is
//! built from its word.

use super::{good, try_load, wrong};
use tardy_model::expect::{Count, Limit, Of};
use tardy_model::load::LoadWord;
use tardy_model::path::PathKind;
use tardy_model::point::{Metric, Point};
use tardy_model::port::Port;
use tardy_model::shaper::ShaperWord;
use tardy_model::station::StationKind;
use tardy_model::stream::{self, CpuChoice, Ip, Launch, Policy, Side, Stream, Wait};
use tardy_model::time::Nanos;
use tardy_spec::experiment::{clash, spins_realtime};
use tardy_spec::schema::{KEYS, Kind, show_duration};
use tardy_spec::{Source, load, ready_made};

const HEAD: &str = tardy_tests::part("stream from a to b");
const SECOND: &str = tardy_tests::part("second stream");

fn source(text: String) -> Source {
    Source { name: "x.toml".into(), text }
}

/// The streams of every cell; the effective file gives the same experiment again.
#[track_caller]
fn accepted(body: &str) -> Vec<Stream> {
    let experiment = load(&source(format!("{HEAD}{body}")), &[]).unwrap_or_else(|error| panic!("{}", error.one_line()));
    let again = load(&source(experiment.effective.clone()), &[])
        .unwrap_or_else(|error| panic!("{}\n{}", experiment.effective, error.one_line()));
    assert_eq!(again, experiment, "{}", experiment.effective);
    experiment.cells.into_iter().map(|mut cell| cell.setup.streams.remove(0)).collect()
}

#[track_caller]
fn refused(body: &str, says: &str) {
    let error = load(&source(format!("{HEAD}{body}")), &[]).expect_err("refused").one_line();
    assert!(error.contains(says), "`{says}` is not in: {error}");
}

#[test]
fn a_ping_pong_has_no_schedule_and_its_own_metrics() {
    let stream = accepted("kind = \"pingpong\"\nsize = \"100B\"\ntx.policy = \"fifo:90\"\n").remove(0);
    assert_eq!((stream.kind, stream.cycle, stream.ip), (stream::Kind::Pingpong, Nanos::ZERO, Ip::Ipv4));
    assert_eq!((stream.reply.size, stream.reply.in_flight, stream.reply.nodelay), (100, 1, true));
    assert_eq!((stream.deadline, stream.reply.timeout), (Nanos::from_secs(1), Nanos::from_secs(1)));
    assert!(!stream.stamps.contains(&Point::Wakeup), "nothing wakes by a timer");
    let of_reply: Vec<Point> = stream.stamps.iter().copied().filter(|point| point.is_of_reply()).collect();
    assert_eq!(of_reply, [Point::ReplySend, Point::ReplyTxKernel, Point::ReplyRxKernel, Point::ReplyReceive]);
    let of_schedule = |metric: &Metric| metric.points().contains(&Point::Scheduled);
    assert!(!stream.metrics.iter().any(of_schedule), "{:?}", stream.metrics);
    for metric in ["send..reply_receive", "transit", "receive..reply_send"] {
        assert!(stream.metrics.contains(&metric.parse().expect("a metric")), "{metric}: {:?}", stream.metrics);
    }
}

#[test]
fn a_reflected_stream_keeps_its_schedule_and_has_a_third_thread() {
    let stream =
        accepted("reflect = true\nreply_size = \"1000B\"\ntx = { policy = \"fifo:90\", wait = \"epoll\" }\n").remove(0);
    assert_eq!((stream.kind, stream.cycle), (stream::Kind::Reflected, Nanos::from_micros(500)));
    assert_eq!((stream.reply.size, stream.reply.cpu, stream.tx.wait), (1_000, CpuChoice::Same, Wait::Epoll));
    assert_eq!(stream.reply.policy, Policy::Fifo(90), "as the sender's");
    assert!(stream.metrics.contains(&Metric::Span(Point::Scheduled, Point::ReplyReceive)));
    let other = accepted("reflect = true\nreply = { cpu = \"different\", policy = \"rr:5\" }\n").remove(0);
    assert_eq!((other.reply.cpu, other.reply.policy), (CpuChoice::Different, Policy::Rr(5)));
}

#[test]
fn kinds_and_protocols_are_axes_like_any_other() {
    let cells = accepted(tardy_tests::experiment("kinds and protocols as axes"));
    let what: Vec<(stream::Kind, Port, Ip)> =
        cells.iter().map(|stream| (stream.kind, stream.port, stream.ip)).collect();
    let both = |kind, port| [(kind, port, Ip::Ipv4), (kind, port, Ip::Ipv6)];
    let all = [
        both(stream::Kind::Pingpong, Port::Udp),
        both(stream::Kind::Pingpong, Port::Tcp),
        both(stream::Kind::Cyclic, Port::Udp),
    ];
    assert_eq!(what, all.concat());
    assert!(!cells[2].reply.nodelay && cells[0].reply.nodelay);
    assert!(!cells[4].stamps.iter().any(|point| point.is_of_reply()), "one way has no reply");
}

#[test]
fn every_wait_can_be_asked_for_at_both_sides() {
    let waits = "[\"block\", \"poll\", \"select\", \"epoll\", \"spin\", \"busypoll\"]";
    let body =
        format!("kind = \"pingpong\"\n[matrix]\n\"stream.ctl.tx.wait\" = {waits}\n\"stream.ctl.rx.wait\" = {waits}\n");
    let cells = accepted(&body);
    assert_eq!(cells.len(), 36);
    for (n, stream) in cells.iter().enumerate() {
        assert_eq!((stream.tx.wait, stream.rx.wait), (Wait::ALL[n / 6], Wait::ALL[n % 6]));
    }
}

#[test]
fn keys_of_other_kinds_are_refused_by_name() {
    refused("in_flight = 4\n", "`stream.ctl.in_flight` has no meaning here: it belongs to a ping-pong");
    refused("tx.wait = \"poll\"\n", "`stream.ctl.tx.wait` has no meaning here");
    refused("reply_size = \"90B\"\n", "`stream.ctl.reply_size` has no meaning here");
    refused("kind = \"pingpong\"\nreply.cpu = 1\n", "it belongs to a reflected stream");
    refused(
        "kind = \"pingpong\"\ncycle = \"1ms\"\n",
        "`stream.ctl.cycle` has no meaning here: it belongs to a cyclic stream",
    );
    refused("kind = \"pingpong\"\nduration = \"1s\"\n", "how long a ping-pong takes is what it measures");
    refused("kind = \"pingpong\"\nreflect = true\n", "answered by itself");
    refused("port = \"tcp\"\n", "is \"tcp\" and the stream is cyclic");
    refused("kind = \"pingpong\"\nport = \"tcp\"\ntimeout = \"2s\"\n", "it belongs to a ping-pong over UDP");
    refused("kind = \"pingpong\"\nnodelay = false\n", "it belongs to a stream over TCP");
    refused("stamps = [\"send\", \"reply_send\"]\n", "`reply_send` is of a reply, and the stream is not answered");
    let of_reply = "needs `reply_send`, which is of a reply, and the stream is not answered (write reflect = true or kind = \
                    \"pingpong\", or leave the metric out)";
    refused("metrics = [\"transit\"]\n", &format!("`transit` {of_reply}"));
    refused("[expect.ctl]\ntransit = \"p50 < 1ms\"\n", &format!("`expect.ctl.transit` {of_reply}"));
    refused(
        "reflect = true\nstamps = [\"send\", \"receive\"]\nmetrics = [\"transit\"]\n",
        "add \"reply_send\" to stamps",
    );
    refused("metrics = [\"transti\"]\n", "did you mean `transit`?");
}

#[test]
fn a_ping_pong_has_no_metric_of_a_schedule_asked_for_or_expected() {
    let ping_pong = |more: &str| format!("kind = \"pingpong\"\n{more}");
    let says = "has no meaning for a ping-pong, which has no schedule: a request goes out when a reply has come";
    for (metric, instead) in [
        ("scheduled..rx_kernel", "write \"send..rx_kernel\""),
        ("scheduled..reply_receive", "write \"send..reply_receive\""),
        ("wakeup..receive", "write \"send..receive\""),
        ("scheduled..send", "write \"send..reply_receive\", or kind = \"cyclic\""),
        ("wakeup..send", "write \"send..reply_receive\", or kind = \"cyclic\""),
        ("delta", "write \"send..reply_receive\", or kind = \"cyclic\""),
    ] {
        let asked = ping_pong(&format!("metrics = [\"send..reply_receive\", \"{metric}\"]"));
        refused(&asked, &format!("x.toml:7:11: `stream.ctl.metrics`: `{metric}` {says} ({instead})"));
        let expected = ping_pong(&format!("[expect.ctl]\n\"{metric}\" = \"p99 < 1ms\""));
        refused(&expected, "x.toml:8:");
        refused(&expected, &format!("`expect.ctl.{metric}` {says} ({instead})"));
    }
    // What it has may be expected, and an open loop has them all.
    let streams = accepted(&ping_pong("[expect.ctl]\n\"send..rx_kernel\" = \"p99 < 1ms\"\ntransit = \"max < 1s\""));
    assert!(streams[0].metrics.contains(&Metric::Span(Point::Send, Point::RxKernel)));
    accepted("reflect = true\n[expect.ctl]\n\"scheduled..rx_kernel\" = \"p99 < 1ms\"\ndelta = \"max < 1s\"");
}

#[test]
fn a_reply_must_fit_the_path_and_ipv6_leaves_less_room() {
    refused("kind = \"pingpong\"\nreply_size = \"1473B\"\n", "write at most \"1472B\"");
    refused("kind = \"pingpong\"\nip = \"ipv6\"\nsize = \"1453B\"\n", "write at most \"1452B\"");
    accepted("kind = \"pingpong\"\nip = \"ipv6\"\nsize = \"1452B\"\n");
    accepted("kind = \"pingpong\"\nport = \"tcp\"\nsize = \"9000B\"\n");
}

#[test]
fn two_spinning_realtime_threads_on_one_cpu_are_refused_for_replies_too() {
    let spin = "tx = { cpu = 0, policy = \"fifo:50\", wait = \"spin\" }\nrx = { cpu = 0, policy = \"fifo:50\", wait = \"spin\" }\n";
    refused(&format!("kind = \"pingpong\"\n{spin}"), "both spin under a realtime policy on one CPU");
    refused(&format!("reflect = true\nreply.cpu = 0\n{spin}"), "both spin under a realtime policy on one CPU");
}

#[test]
fn a_stamp_that_the_file_names_and_the_path_cannot_give_is_refused() {
    let hardware = "stamps = [\"tx_hw\", \"rx_hw\"]\nmetrics = []";
    let says = wrong(hardware, &[]);
    assert!(says.contains("there is no `tx_hw` here: path veth joins virtual links"), "{says}");
    let says = wrong(&format!("{hardware}\nport = \"sim\""), &[]);
    assert!(says.contains("port sim has no network device; sim.phc = true"), "{says}");
    assert!(good(&format!("{hardware}\nport = \"sim\"\nsim.phc = true"), &[]).cells[0].setup.streams[0].sim.phc);
    let says = wrong(&format!("{hardware}\nport = \"sim\"\nsim.phc = true\nreflect = true"), &[]);
    assert!(says.contains("of one-way streams only"), "{says}");
    // A stamp that joined messages share is not had by naming it.
    for more in ["", "stamps = [\"send\", \"receive\"]\n"] {
        let several = "kind = \"pingpong\"\nport = \"tcp\"\nin_flight = 4\nmetrics = [\"send..rx_kernel\"]\n";
        let says = wrong(&format!("{several}{more}"), &[]);
        assert!(says.contains("needs `rx_kernel`, and TCP joins messages"), "{says}");
        assert!(says.contains("write in_flight = 1") && !says.contains("to stamps"), "{says}");
    }
    // If the file does not name them, they are taken where they are available, and the effective
    // file does not name them either.
    let usual = good("metrics = [\"send..tx_hw\"]", &[]);
    assert!(usual.cells[0].setup.streams[0].stamps.contains(&Point::TxHw));
    assert!(usual.effective.contains("stamps = \"default\""), "{}", usual.effective);
    assert!(!good("stamps = \"default\"", &[]).cells[0].setup.streams[0].stamps_named);
    assert!(good("stamps = [\"rx_kernel\"]\nmetrics = []", &[]).cells[0].setup.streams[0].stamps_named);
}

#[test]
fn stamps_that_no_figure_is_made_of_were_taken_and_cost_time_in_the_path() {
    use Point::{Receive, ReplyReceive, ReplySend, RxHw, RxKernel, Send, TxHw, TxKernel, TxSched, Wakeup};
    let of = |body: &str| good(body, &[]).cells[0].setup.streams[0].stamps.clone();
    // What a measuring thread reads from its clock, and what the metrics need.
    assert_eq!(of("metrics = [\"scheduled..receive\"]"), [Wakeup, Send, RxKernel, Receive], "early is by rx_kernel");
    assert_eq!(of("metrics = [\"delta\"]"), [Wakeup, Send, RxKernel, Receive]);
    assert_eq!(of("metrics = []"), [Wakeup, Send, RxKernel, Receive]);
    assert_eq!(of("metrics = [\"tx_sched..tx_kernel\"]"), [Wakeup, Send, TxSched, TxKernel, RxKernel, Receive]);
    assert_eq!(of("stamps = \"default\"\nmetrics = [\"tx_hw..rx_hw\"]"), [Wakeup, Send, TxHw, RxHw, RxKernel, Receive]);
    // What is expected is asked for too.
    let expects = "metrics = []\n[expect.ctl]\n\"tx_sched..rx_kernel\" = \"p99 < 1ms\"";
    assert_eq!(of(expects), [Wakeup, Send, TxSched, RxKernel, Receive]);
    // Named, they are taken as they are named.
    assert_eq!(of("stamps = [\"tx_sched\"]\nmetrics = []"), [TxSched]);
    // A queue discipline is judged by when packets reach it and leave it.
    let etf = "metrics = [\"scheduled..receive\"]\nlaunch = \"strict\"\ntx.advance = \"400us\"\n[shaper]\nkind = \"etf\"\netf.delta = \"200us\"";
    assert_eq!(of(etf), [Wakeup, Send, TxSched, TxKernel, TxHw, RxKernel, Receive]);
    let asked = "kind = \"pingpong\"\nmetrics = [\"send..reply_receive\"]";
    assert_eq!(of(asked), [Send, Receive, ReplySend, ReplyReceive]);
}

#[test]
fn over_tcp_a_stamp_that_waits_to_be_fetched_ended_every_poll() {
    let takes = |port: &str, more: &str| {
        let experiment = good(&format!("kind = \"pingpong\"\nport = \"{port}\"\n{more}"), &[]);
        let stamps = &experiment.cells[0].setup.streams[0].stamps;
        [Point::TxKernel, Point::ReplyTxKernel].map(|point| stamps.contains(&point))
    };
    for wait in ["poll", "select", "epoll"] {
        assert_eq!(takes("tcp", &format!("tx.wait = \"{wait}\"")), [false, true], "{wait}");
        assert_eq!(takes("tcp", &format!("rx.wait = \"{wait}\"")), [true, false], "{wait}");
        assert_eq!(takes("udp", &format!("tx.wait = \"{wait}\"")), [true; 2], "{wait}");
    }
    assert_eq!(takes("tcp", "tx.wait = \"spin\"\nrx.wait = \"block\""), [true; 2]);
    let named = "stamps = [\"tx_kernel\", \"reply_tx_kernel\"]\nmetrics = []";
    assert_eq!(takes("tcp", &format!("tx.wait = \"poll\"\nrx.wait = \"epoll\"\n{named}")), [true; 2]);
    let asks = "tx.wait = \"poll\"\nmetrics = [\"tx_kernel..rx_kernel\"]";
    let says = wrong(&format!("kind = \"pingpong\"\nport = \"tcp\"\n{asks}"), &[]);
    assert!(says.contains("needs `tx_kernel`, which is not stamped"), "{says}");
}

#[test]
fn units_are_exact() {
    let cycle = |text: &str| good(&format!("warmup = \"{text}\""), &[]).cells[0].setup.streams[0].warmup.0;
    for (text, ns) in [
        ("100ns", 100),
        ("500us", 500_000),
        ("500µs", 500_000),
        ("1.5ms", 1_500_000),
        ("0.000_000_001s", 1),
        ("10_000us", 10_000_000),
        ("2s", 2_000_000_000),
        ("1.5min", 90_000_000_000),
        ("1h", 3_600_000_000_000),
        ("0s", 0),
    ] {
        assert_eq!(cycle(text), ns, "{text}");
    }
    let size = |text: &str| good(&format!("size = \"{text}\""), &[]).cells[0].setup.streams[0].size;
    assert_eq!((size("24B"), size("1KiB"), size("1kB"), size("1_472B"), size("0.5KiB")), (24, 1024, 1000, 1472, 512));
    let loss = |text: &str| good(&format!("max_loss = {text}"), &[]).cells[0].setup.streams[0].max_loss;
    assert_eq!((loss("\"0.1%\""), loss("0.25"), loss("0"), loss("1"), loss("\"100%\"")), (0.001, 0.25, 0.0, 1.0, 1.0));
    let shown = [0, 1, 1_500, 500_000, 1_000_000, 2_000_000_000, -5_000].map(|ns| show_duration(Nanos(ns)));
    assert_eq!(shown, ["0us", "1ns", "1500ns", "500us", "1ms", "2s", "-5us"]);
}

#[test]
fn policies_and_cpus() {
    let stream = |body: &str| good(body, &[]).cells[0].setup.streams[0].clone();
    assert_eq!(stream("tx.policy = \"rr:50\"").tx.policy, Policy::Rr(50));
    let deadline = stream("rx = { cpu = \"any\", policy = \"deadline:200us/0.5ms/1ms\" }");
    let (runtime, until, period) = (Nanos::from_micros(200), Nanos::from_micros(500), Nanos::from_millis(1));
    assert_eq!(deadline.rx.policy, Policy::Deadline { runtime, deadline: until, period });
    assert_eq!(stream("tx.cpu = 3\nrx.cpu = \"same\"").tx.cpu, CpuChoice::Number(3));
    assert_eq!(stream("tx.cpu = \"different\"\nrx.cpu = \"auto\"").tx.cpu, CpuChoice::Different);
}

#[test]
fn count_follows_from_duration_and_cycle() {
    let count = |body: &str| good(body, &[]).cells[0].setup.streams[0].count;
    assert_eq!(count("duration = \"5s\""), 10_000);
    assert_eq!(count("duration = \"1.9ms\"\ncycle = \"1ms\""), 1);
    assert_eq!(count("duration = \"1us\"\ncycle = \"1ms\""), 1);
    // The key that is set later displaces the one that says the same.
    let cells = good("count = 7\n[matrix]\n\"stream.ctl.duration\" = [\"1ms\", \"1s\"]", &[]);
    assert_eq!(cells.cells.iter().map(|cell| cell.setup.streams[0].count).collect::<Vec<_>>(), [2, 2_000]);
    assert_eq!(good("duration = \"5s\"", &["stream.ctl.count=3"]).cells[0].setup.streams[0].count, 3);
    assert_eq!(good("count = 7", &["stream.ctl.duration=1ms"]).cells[0].setup.streams[0].count, 2);
}

#[test]
fn expectations_are_read_and_ask_for_their_metric() {
    let body = "metrics = [\"delta\"]\n[expect.ctl]\nlate = 3\nlost = 0\n\
                \"scheduled..rx_kernel\" = [\"p99.9 < 80us\", \"min <= -1.5us\"]\ndelta = \"max<=1ms\"";
    let cell = &good(body, &[]).cells[0];
    let (path, delta) = (Metric::Span(Point::Scheduled, Point::RxKernel), Metric::Delta);
    let metric = |metric, of, limit_ns, inclusive| Limit::Metric { metric, of, limit_ns, inclusive };
    let limits: Vec<Limit> = cell.expect.iter().map(|expectation| expectation.limit).collect();
    assert_eq!(
        limits,
        [
            Limit::Count { count: Count::Lost, at_most: 0 },
            Limit::Count { count: Count::Late, at_most: 3 },
            metric(path, Of::Quantile(3), 80_000, false),
            metric(path, Of::Min, -1_500, true),
            metric(delta, Of::Max, 1_000_000, true),
        ]
    );
    assert!(cell.expect.iter().all(|expectation| expectation.stream == "ctl"));
    assert_eq!(cell.setup.streams[0].metrics, [delta, path]);

    let by_case = "[expect.ctl]\nlost = 0\n[[case]]\nname = \"idle\"\n[[case]]\nname = \"loss\"\n\
                   set = { \"expect.ctl.lost\" = 5, \"expect.ctl.tx_kernel..rx_kernel\" = \"p50 < 1us\" }";
    let cells = good(by_case, &[]).cells;
    assert_eq!((cells[0].expect.len(), cells[1].expect.len()), (1, 2));
    assert_eq!(cells[1].expect[0].limit, Limit::Count { count: Count::Lost, at_most: 5 });
}

#[test]
fn two_realtime_spinners_never_share_a_cpu() {
    let spin = SECOND.replace("second", "b1") + "rx = { cpu = 1, wait = \"spin\", policy = \"fifo:80\" }\n";
    let second = |rx: &str| format!("{spin}{}{rx}\n", SECOND.replace("second", "b2"));
    assert!(try_load(&second("rx = { cpu = 1, wait = \"spin\", policy = \"rr:1\" }"), &[]).is_err());
    assert!(try_load(&second("rx = { cpu = \"same\", wait = \"spin\", policy = \"rr:1\" }\ntx.cpu = 1"), &[]).is_err());
    for fine in
        ["rx = { cpu = 2, wait = \"spin\", policy = \"fifo:80\" }", "rx = { cpu = 1, wait = \"spin\" }", "rx.cpu = 1"]
    {
        good(&second(fine), &[]);
    }
    let streams = good(&second("rx = { wait = \"spin\", policy = \"fifo:80\" }"), &[]).cells[0].setup.streams.clone();
    assert!(spins_realtime(&streams[1], Side::Rx) && !spins_realtime(&streams[1], Side::Tx));
    let numbered = || streams.iter().zip(0..);
    let one_cpu = clash(numbered(), |_, _: &u32, _| Some(7));
    assert_eq!(one_cpu, Some((7, (&streams[1], Side::Rx), (&streams[2], Side::Rx))));
    assert_eq!(clash(numbered(), |_, number: &u32, _| Some(*number)), None);
    assert_eq!(clash(numbered(), |_, _: &u32, _| None::<u32>), None);
}

#[test]
fn what_a_file_expects_first_of_a_latency_leads_unless_it_says_another() {
    let lead = |body: &str, set: &[&str]| good(body, set).cells[0].setup.streams[0].lead.map(|lead| lead.to_string());
    assert_eq!(lead("", &[]), None);
    assert_eq!(lead("[expect.ctl]\nlost = 0\ndelta = \"max < 1ms\"", &[]), None, "counts and distances are none");
    // In the order of the file, not of the points.
    let two = "[expect.ctl]\n\"scheduled..receive\" = \"p99 < 1ms\"\n\"scheduled..wakeup\" = \"p99 < 1ms\"";
    assert_eq!(lead(two, &[]).as_deref(), Some("scheduled..receive"));
    let named = good(two, &["stream.ctl.lead=scheduled..send"]);
    assert!(named.effective.contains("lead = \"scheduled..send\""), "{}", named.effective);
    let stream = &named.cells[0].setup.streams[0];
    assert_eq!(stream.lead, Some(Metric::Span(Point::Scheduled, Point::Send)));
    assert!(stream.metrics.contains(&Metric::Span(Point::Scheduled, Point::Send)), "it is measured");
    // Where cells expect different things, each has its own.
    let by_case = "[[case]]\nname = \"x\"\nset = { \"expect.ctl.scheduled..wakeup\" = \"p50 < 1s\" }\n[[case]]\nname = \"y\"\n\
                   set = { \"expect.ctl.scheduled..send\" = \"p50 < 1s\", \"expect.ctl.rx_kernel..receive\" = \"p50 < 1s\" }";
    let cells = good(by_case, &[]).cells;
    let leads: Vec<_> = cells.iter().map(|cell| cell.setup.streams[0].lead.map(|lead| lead.to_string())).collect();
    assert_eq!(leads, [Some("scheduled..wakeup".to_owned()), Some("scheduled..send".to_owned())]);
    for (body, set, says) in [
        ("", "stream.ctl.lead=delta", "`delta` is no latency"),
        ("", "stream.ctl.lead=scheduled..recieve", "did you mean `scheduled..receive`?"),
        ("", "stream.ctl.lead=3", "a metric in quotes"),
        ("stamps = [\"receive\"]", "stream.ctl.lead=scheduled..rx_kernel", "`rx_kernel`, which is not stamped"),
        ("kind = \"pingpong\"", "stream.ctl.lead=scheduled..reply_receive", "no schedule"),
    ] {
        let said = wrong(body, &[set]);
        assert!(said.contains(says), "{said}");
    }
}

fn built(pattern: &str) -> &'static [&'static str] {
    let key = KEYS.iter().find(|key| key.pattern == pattern).expect("a key");
    match &key.kind {
        Kind::Choice { built, .. } => built,
        other => panic!("{pattern} is {other:?}"),
    }
}

/// What a file may write that there is not, and the other way round.
fn differ(patterns: &[&str], kinds: &[&str]) -> Vec<String> {
    let of = |pattern: &&str| {
        let written = built(pattern);
        let lacks = kinds.iter().filter(|kind| !written.contains(kind)).map(|kind| format!("no `{kind}`"));
        let more = written.iter().filter(|word| !kinds.contains(word)).map(|word| format!("`{word}` is nothing"));
        lacks.chain(more).map(|what| format!("{pattern}: {what}")).collect::<Vec<_>>()
    };
    patterns.iter().flat_map(of).collect()
}

#[test]
fn a_word_of_the_file_was_no_kind_or_a_kind_had_no_word() {
    let none: [String; 0] = [];
    assert_eq!(differ(&["path.kind"], &PathKind::ALL.map(|kind| kind.traits().name)), none);
    assert_eq!(differ(&["station.*.kind"], &StationKind::ALL.map(|kind| kind.traits().name)), none);
    assert_eq!(differ(&["stream.*.port", "stream.*.tx.port", "stream.*.rx.port"], &Port::ALL.map(Port::name)), none);
    assert_eq!(differ(&["stream.*.tx.wait", "stream.*.rx.wait"], &Wait::ALL.map(Wait::name)), none);
    assert_eq!(differ(&["stream.*.launch"], &Launch::ALL.map(Launch::name)), none);
    assert_eq!(differ(&["shaper.kind"], &ShaperWord::ALL.map(ShaperWord::name)), none);
    assert_eq!(differ(&["load.*.kind"], &LoadWord::ALL.map(LoadWord::name)), none);
    assert_eq!(differ(&["stream.*.port"], &["udp", "pigeon"]).len(), 5, "the comparison sees both ways");
}

#[test]
fn another_path_was_refused_for_a_key_of_the_file_s_own() {
    let host_to_host = ready_made("host-to-host").expect("it is ready-made");
    let over = |set: &[&str]| load(&host_to_host, &set.iter().map(|set| (*set).to_owned()).collect::<Vec<_>>());
    // It has `path.queues`, which a pair of virtual links has, and the network does not.
    let set = ["path.kind=network", "station.b.ssh=root@lab2"];
    let elsewhere = over(&set).expect("two values change");
    assert!(elsewhere.effective.contains("kind = \"host\"") && !elsewhere.effective.contains("queues"));
    let again = load(&source(elsewhere.effective.clone()), &[]).expect("its effective file loads");
    assert_eq!(again.cells, elsewhere.cells);
    // Whoever gives both in one call means both.
    let both = over(&[&set[..], &["path.queues=2"]].concat()).expect_err("two that contradict").lines();
    assert!(both[0].contains("`path.queues` has no meaning on path `network`"), "{both:?}");
}

#[test]
fn a_kind_that_nothing_maps_became_another() {
    for path in built("path.kind") {
        let devices = if *path == "wire" { "a = \"eth8\"\nb = \"eth9\"\n" } else { "" };
        // A way into a virtual machine leads to one.
        let is_guest = PathKind::of(path).and_then(|kind| kind.traits().devices.backend()).is_some();
        let machine = if is_guest { vec!["station.b.kind=guest"] } else { Vec::new() };
        // One that joins machines' own networks wants to know which of this one's.
        let own = (*path == "network").then_some(["station.a.address=192.0.2.1", "station.b.address=192.0.2.2"]);
        let set: Vec<&str> = machine.into_iter().chain(own.into_iter().flatten()).collect();
        let setup = good(&format!("[path]\nkind = \"{path}\"\n{devices}"), &set).cells.remove(0).setup;
        assert_eq!(setup.path.traits().name, *path);
    }
    for station in built("station.*.kind") {
        // A machine's own network is a station on the path that joins such, and both are.
        let set: &[&str] = match *station {
            "guest" => &["station.b.kind=guest", "path.kind=tap"],
            "host" => &["path.kind=network", "station.a.address=192.0.2.1", "station.b.address=192.0.2.2"],
            _ => &["path.kind=veth"],
        };
        let setup = good("", set).cells.remove(0).setup;
        assert_eq!(setup.stations["b"].kind.traits().name, *station);
    }
    for port in built("stream.*.port") {
        let kind = match *port {
            "tcp" => "kind = \"pingpong\"\n",
            "xdp" => "rx.wait = \"poll\"\n",
            _ => "",
        };
        let setup = good(&format!("{kind}port = \"{port}\"\n"), &[]).cells.remove(0).setup;
        assert_eq!(setup.streams[0].port.name(), *port);
    }
    for wait in built("stream.*.rx.wait") {
        let by_xdp = if *wait == "scheduled" { "port = \"packet\"\nrx.port = \"xdp\"\n" } else { "" };
        assert_eq!(
            good(&format!("{by_xdp}rx.wait = \"{wait}\"\n"), &[]).cells[0].setup.streams[0].rx.wait.name(),
            *wait
        );
    }
    let of_shaper = |kind: &str| match kind {
        "none" => "",
        "etf" => "etf.delta = \"300us\"\n",
        "taprio" => "classes = 2\nentries = [\"0 500us\", \"1 500us\"]\n",
        "mqprio" => "classes = 2\n",
        "cbs" => "classes = 2\ncbs.classes = [0]\ncbs.idleslope = \"20Mbit\"\n",
        other => panic!("write what shaper `{other}` needs"),
    };
    for kind in built("shaper.kind") {
        let launch = if matches!(*kind, "etf") { "launch = \"strict\"\ntx.advance = \"3ms\"\n" } else { "" };
        let setup = good(&format!("{launch}[shaper]\nkind = \"{kind}\"\n{}", of_shaper(kind)), &[]);
        assert_eq!(setup.cells[0].setup.shaper.kind(), *kind);
    }
    for kind in built("load.*.kind") {
        let to = if matches!(*kind, "cpu" | "memory" | "command") { "" } else { "to = \"b\"\n" };
        let command = if *kind == "command" { "command = [\"true\"]\n" } else { "" };
        let load = good(&format!("[load.bulk]\nkind = \"{kind}\"\nfrom = \"a\"\n{to}{command}"), &[]);
        assert_eq!(load.cells[0].setup.loads[0].kind.name(), *kind);
    }
}
