// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which points a stream stamps: as the file names them, else those that something asked for is
//! made of.

use super::{good, wrong};
use tardy_model::point::Point;

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
