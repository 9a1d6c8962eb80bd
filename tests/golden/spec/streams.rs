// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams in experiment files: what each kind of answered stream means, which keys belong to it,
//! what is refused; and which points a stream stamps: those that the file names, else those that
//! something needs.

use super::{good, wrong};
use tardy_model::point::{Metric, Point};
use tardy_model::stream::{CpuChoice, Ip, Kind, Policy, Port, Stream, Wait};
use tardy_model::time::Nanos;
use tardy_spec::{Source, load};

const HEAD: &str = "[station.a]\n[station.b]\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\n";

fn source(text: String) -> Source {
    Source { name: "x.toml".into(), text }
}

/// The streams of every cell; the effective file gives the same experiment again.
#[track_caller]
fn streams(body: &str) -> Vec<Stream> {
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
    let stream = streams("kind = \"pingpong\"\nsize = \"100B\"\ntx.policy = \"fifo:90\"\n").remove(0);
    assert_eq!((stream.kind, stream.cycle, stream.ip), (Kind::Pingpong, Nanos::ZERO, Ip::Ipv4));
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
        streams("reflect = true\nreply_size = \"1000B\"\ntx = { policy = \"fifo:90\", wait = \"epoll\" }\n").remove(0);
    assert_eq!((stream.kind, stream.cycle), (Kind::Reflected, Nanos::from_micros(500)));
    assert_eq!((stream.reply.size, stream.reply.cpu, stream.tx.wait), (1_000, CpuChoice::Same, Wait::Epoll));
    assert_eq!(stream.reply.policy, Policy::Fifo(90), "as the sender's");
    assert!(stream.metrics.contains(&Metric::Span(Point::Scheduled, Point::ReplyReceive)));
    let other = streams("reflect = true\nreply = { cpu = \"different\", policy = \"rr:5\" }\n").remove(0);
    assert_eq!((other.reply.cpu, other.reply.policy), (CpuChoice::Different, Policy::Rr(5)));
}

#[test]
fn kinds_and_protocols_are_axes_like_any_other() {
    let cells = streams(
        "[[case]]\nname = \"udp\"\nset = { \"stream.ctl.kind\" = \"pingpong\" }\n\
         [[case]]\nname = \"tcp\"\nset = { \"stream.ctl.kind\" = \"pingpong\", \"stream.ctl.port\" = \"tcp\", \
         \"stream.ctl.nodelay\" = false }\n\
         [[case]]\nname = \"one-way\"\n[matrix]\n\"stream.ctl.ip\" = [\"ipv4\", \"ipv6\"]\n",
    );
    let what: Vec<(Kind, Port, Ip)> = cells.iter().map(|stream| (stream.kind, stream.port, stream.ip)).collect();
    let both = |kind, port| [(kind, port, Ip::Ipv4), (kind, port, Ip::Ipv6)];
    let all = [both(Kind::Pingpong, Port::Udp), both(Kind::Pingpong, Port::Tcp), both(Kind::Cyclic, Port::Udp)];
    assert_eq!(what, all.concat());
    assert!(!cells[2].reply.nodelay && cells[0].reply.nodelay);
    assert!(!cells[4].stamps.iter().any(|point| point.is_of_reply()), "one way has no reply");
}

#[test]
fn every_wait_can_be_asked_for_at_both_sides() {
    let waits = "[\"block\", \"poll\", \"select\", \"epoll\", \"spin\", \"busypoll\"]";
    let body =
        format!("kind = \"pingpong\"\n[matrix]\n\"stream.ctl.tx.wait\" = {waits}\n\"stream.ctl.rx.wait\" = {waits}\n");
    let cells = streams(&body);
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
    refused("metrics = [\"transit\"]\n", "`transit` needs `reply_send`, which is not stamped");
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
    let streams = streams(&ping_pong("[expect.ctl]\n\"send..rx_kernel\" = \"p99 < 1ms\"\ntransit = \"max < 1s\""));
    assert!(streams[0].metrics.contains(&Metric::Span(Point::Send, Point::RxKernel)));
    streams("reflect = true\n[expect.ctl]\n\"scheduled..rx_kernel\" = \"p99 < 1ms\"\ndelta = \"max < 1s\"");
}

#[test]
fn a_reply_must_fit_the_path_and_ipv6_leaves_less_room() {
    refused("kind = \"pingpong\"\nreply_size = \"1473B\"\n", "write at most \"1472B\"");
    refused("kind = \"pingpong\"\nip = \"ipv6\"\nsize = \"1453B\"\n", "write at most \"1452B\"");
    streams("kind = \"pingpong\"\nip = \"ipv6\"\nsize = \"1452B\"\n");
    streams("kind = \"pingpong\"\nport = \"tcp\"\nsize = \"9000B\"\n");
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
    assert!(says.contains("port sim has no network device"), "{says}");
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
