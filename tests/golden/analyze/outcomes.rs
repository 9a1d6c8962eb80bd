// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on what became of the packets: lost, refused, not recorded, or received by nobody.

use super::fixture::{Packet, healthy_packets, lost, not_sent, record};
use super::validity::{COUNT, assert_is, ctl, judge, verdict};
use tardy_model::trial::{Counters, ReplyRecord, TrialRecord};
use tardy_model::verdict::Level;

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
    let mut allowed = record(1, COUNT);
    ctl(&mut allowed).max_loss = 0.002;
    let mut packets = healthy_packets(1, COUNT as usize);
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
