// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answered streams in experiment files: what each kind means, which keys belong to it, what is
//! refused.

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
fn good(body: &str) -> Vec<Stream> {
    let experiment = load(&source(format!("{HEAD}{body}")), &[]).unwrap_or_else(|error| panic!("{}", error.one_line()));
    let again = load(&source(experiment.effective.clone()), &[])
        .unwrap_or_else(|error| panic!("{}\n{}", experiment.effective, error.one_line()));
    assert_eq!(again, experiment, "{}", experiment.effective);
    experiment.cells.into_iter().map(|mut cell| cell.setup.streams.remove(0)).collect()
}

#[track_caller]
fn wrong(body: &str, says: &str) {
    let error = load(&source(format!("{HEAD}{body}")), &[]).expect_err("refused").one_line();
    assert!(error.contains(says), "`{says}` is not in: {error}");
}

#[test]
fn a_ping_pong_has_no_schedule_and_its_own_metrics() {
    let stream = good("kind = \"pingpong\"\nsize = \"100B\"\ntx.policy = \"fifo:90\"\n").remove(0);
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
        good("reflect = true\nreply_size = \"1000B\"\ntx = { policy = \"fifo:90\", wait = \"epoll\" }\n").remove(0);
    assert_eq!((stream.kind, stream.cycle), (Kind::Reflected, Nanos::from_micros(500)));
    assert_eq!((stream.reply.size, stream.reply.cpu, stream.tx.wait), (1_000, CpuChoice::Same, Wait::Epoll));
    assert_eq!(stream.reply.policy, Policy::Fifo(90), "as the sender's");
    assert!(stream.metrics.contains(&Metric::Span(Point::Scheduled, Point::ReplyReceive)));
    let other = good("reflect = true\nreply = { cpu = \"different\", policy = \"rr:5\" }\n").remove(0);
    assert_eq!((other.reply.cpu, other.reply.policy), (CpuChoice::Different, Policy::Rr(5)));
}

#[test]
fn kinds_and_protocols_are_axes_like_any_other() {
    let cells = good(
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
    let cells = good(&body);
    assert_eq!(cells.len(), 36);
    for (n, stream) in cells.iter().enumerate() {
        assert_eq!((stream.tx.wait, stream.rx.wait), (Wait::ALL[n / 6], Wait::ALL[n % 6]));
    }
}

#[test]
fn keys_of_other_kinds_are_refused_by_name() {
    wrong("in_flight = 4\n", "`stream.ctl.in_flight` has no meaning here: it belongs to a ping-pong");
    wrong("tx.wait = \"poll\"\n", "`stream.ctl.tx.wait` has no meaning here");
    wrong("reply_size = \"90B\"\n", "`stream.ctl.reply_size` has no meaning here");
    wrong("kind = \"pingpong\"\nreply.cpu = 1\n", "it belongs to a reflected stream");
    wrong(
        "kind = \"pingpong\"\ncycle = \"1ms\"\n",
        "`stream.ctl.cycle` has no meaning here: it belongs to a cyclic stream",
    );
    wrong("kind = \"pingpong\"\nduration = \"1s\"\n", "how long a ping-pong takes is what it measures");
    wrong("kind = \"pingpong\"\nreflect = true\n", "answered by itself");
    wrong("port = \"tcp\"\n", "is \"tcp\" and the stream is cyclic");
    wrong("kind = \"pingpong\"\nport = \"tcp\"\ntimeout = \"2s\"\n", "it belongs to a ping-pong over UDP");
    wrong("kind = \"pingpong\"\nnodelay = false\n", "it belongs to a stream over TCP");
    wrong("stamps = [\"send\", \"reply_send\"]\n", "`reply_send` is of a reply, and the stream is not answered");
    wrong("metrics = [\"transit\"]\n", "`transit` needs `reply_send`, which is not stamped");
    wrong("metrics = [\"transti\"]\n", "did you mean `transit`?");
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
        wrong(&asked, &format!("x.toml:7:11: `stream.ctl.metrics`: `{metric}` {says} ({instead})"));
        let expected = ping_pong(&format!("[expect.ctl]\n\"{metric}\" = \"p99 < 1ms\""));
        wrong(&expected, "x.toml:8:");
        wrong(&expected, &format!("`expect.ctl.{metric}` {says} ({instead})"));
    }
    // What it has may be expected, and an open loop has them all.
    let streams = good(&ping_pong("[expect.ctl]\n\"send..rx_kernel\" = \"p99 < 1ms\"\ntransit = \"max < 1s\""));
    assert!(streams[0].metrics.contains(&Metric::Span(Point::Send, Point::RxKernel)));
    good("reflect = true\n[expect.ctl]\n\"scheduled..rx_kernel\" = \"p99 < 1ms\"\ndelta = \"max < 1s\"");
}

#[test]
fn a_reply_must_fit_the_path_and_ipv6_leaves_less_room() {
    wrong("kind = \"pingpong\"\nreply_size = \"1473B\"\n", "write at most \"1472B\"");
    wrong("kind = \"pingpong\"\nip = \"ipv6\"\nsize = \"1453B\"\n", "write at most \"1452B\"");
    good("kind = \"pingpong\"\nip = \"ipv6\"\nsize = \"1452B\"\n");
    good("kind = \"pingpong\"\nport = \"tcp\"\nsize = \"9000B\"\n");
}

#[test]
fn two_spinning_realtime_threads_on_one_cpu_are_refused_for_replies_too() {
    let spin = "tx = { cpu = 0, policy = \"fifo:50\", wait = \"spin\" }\nrx = { cpu = 0, policy = \"fifo:50\", wait = \"spin\" }\n";
    wrong(&format!("kind = \"pingpong\"\n{spin}"), "both spin under a realtime policy on one CPU");
    wrong(&format!("reflect = true\nreply.cpu = 0\n{spin}"), "both spin under a realtime policy on one CPU");
}
