// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tardy shows while a trial runs, and what it says of a socket that the kernel refuses.

use std::collections::BTreeSet;
use tardy_engine::agent::advice;
use tardy_model::point::{Metric, Point};
use tardy_model::stream::{Kind, Side, live};

#[test]
fn the_progress_line_showed_another_metric_than_the_one_that_leads_in_the_table() {
    let stamped = [Point::Wakeup, Point::Send, Point::TxKernel, Point::RxKernel, Point::Receive];
    let bare = [Point::Send, Point::Receive];
    for (kind, stamps, side) in [
        (Kind::Cyclic, &stamped[..], Side::Rx),
        (Kind::Cyclic, &bare[..], Side::Rx),
        (Kind::Reflected, &stamped[..], Side::Reply),
        (Kind::Pingpong, &stamped[..], Side::Tx),
        (Kind::Pingpong, &bare[..], Side::Tx),
    ] {
        let (shown, metric) = live(kind, stamps, None);
        // Of a stream that is answered every reply is received; a closed loop has no schedule.
        let has = |point: &Point| match point {
            Point::Scheduled => kind != Kind::Pingpong,
            Point::ReplyReceive => kind != Kind::Cyclic,
            point => stamps.contains(point),
        };
        let mut can = Metric::leads(kind.is_answered()).iter().filter(|metric| metric.points().iter().all(has));
        assert_eq!((Some(&metric), shown), (can.next(), side), "{kind:?} {stamps:?}");
    }
}

#[test]
fn the_progress_line_shows_what_the_experiment_has_lead_where_an_end_can_tell_it() {
    let stamps = [Point::Wakeup, Point::RxKernel, Point::Receive];
    let asked = Metric::Span(Point::Scheduled, Point::Receive);
    assert_eq!(live(Kind::Cyclic, &stamps, Some(asked)), (Side::Rx, asked));
    // No end has both stamps while a trial runs: the line names what it shows instead.
    let apart = Some(Metric::Span(Point::TxKernel, Point::RxKernel));
    assert_eq!(live(Kind::Cyclic, &stamps, apart), live(Kind::Cyclic, &stamps, None));
    assert_eq!(live(Kind::Pingpong, &stamps, Some(asked)), live(Kind::Pingpong, &stamps, None));
}

#[test]
fn every_refusal_of_a_socket_was_put_down_to_a_taken_address() {
    let known = [
        libc::EADDRINUSE,
        libc::EADDRNOTAVAIL,
        libc::EPERM,
        libc::EAFNOSUPPORT,
        libc::ENOBUFS,
        libc::EMFILE,
        libc::EINVAL,
        libc::EIO,
    ];
    let said: BTreeSet<&str> = known.into_iter().map(advice::after).collect();
    assert_eq!(said.len(), known.len(), "each has an advice of its own: {said:?}");
    assert!(advice::after(libc::EADDRINUSE).contains("another program"));
    let others = known.into_iter().filter(|errno| *errno != libc::EADDRINUSE);
    assert!(others.map(advice::after).all(|says| !says.contains("another program")));
    assert_eq!(advice::after(libc::ENOMEM), advice::after(libc::ENOBUFS));
}
