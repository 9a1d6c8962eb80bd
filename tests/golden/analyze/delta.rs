// SPDX-License-Identifier: MIT OR Apache-2.0
//! `delta` in arrival order, whatever order the rows come in.

use super::fixture::{CYCLE_NS, Packet, batches, lost, received};
use proptest::prelude::*;
use tardy_analyze::arrival::{ArrivalPass, EARLIEST_NS};
use tardy_analyze::clusters::INFINITE;
use tardy_analyze::digest::MetricDigest;
use tardy_analyze::packets::{Packets, Reach};
use tardy_model::point::Point;
use tardy_model::sample::{Batch, Outcome};

fn pass(packets: &[Packet], size: usize, kept: usize) -> MetricDigest {
    let mut pass = ArrivalPass::with_limits(1, Point::RxKernel, 64, kept);
    batches(packets, size).iter().for_each(|batch| pass.push(batch));
    pass.finish()
}

/// By sorting all arrivals: the value of each packet, in scheduled order.
fn oracle(packets: &[Packet]) -> MetricDigest {
    let mut place = (i64::MIN, i64::MIN);
    let mut arrivals: Vec<(i64, i64, i64, bool)> = Vec::new();
    for (seq, packet) in packets.iter().enumerate().filter(|(_, packet)| packet.outcome == Outcome::Received) {
        let at = |stamp: Option<i64>| stamp.map(|stamp| super::fixture::BASE_NS + seq as i64 * CYCLE_NS + stamp);
        if let Some(stamp) = at(packet.rx_kernel) {
            place = (stamp, at(packet.receive).unwrap_or(i64::MAX));
        }
        arrivals.push((place.0, place.1, seq as i64, packet.rx_kernel.is_some()));
    }
    arrivals.sort_unstable();
    let mut rows: Vec<(i64, i64)> = (0i64..)
        .zip(packets)
        .filter(|(_, packet)| packet.outcome != Outcome::Received)
        .map(|(seq, _)| (seq, INFINITE))
        .collect();
    for pair in arrivals.windows(2) {
        if pair[0].3 && pair[1].3 {
            rows.push((pair[1].2, pair[1].0 - pair[0].0));
        }
    }
    rows.sort_unstable();
    let (seqs, values): (Vec<i64>, Vec<i64>) = rows.into_iter().unzip();
    let mut digest = MetricDigest::new(1);
    digest.absorb(&values, &seqs);
    digest.expect(arrivals.len().saturating_sub(1) as u64);
    digest
}

#[test]
fn a_swapped_pair_gives_its_deltas_to_the_later_arrival() {
    // Arrivals at 10 µs, cycle + 10 µs, then packet 3 before packet 2.
    let packets =
        [received(10_000), received(10_000), received(CYCLE_NS + 10_000), received(5_000), lost(0), received(10_000)];
    let result = pass(&packets, 2, 100).finish("kernel", None);
    // 0 → 1: 500 µs; 1 → 3: 2 cycles − 5 µs; 3 → 2: 5 µs; 2 → 5: 2 cycles.
    assert_eq!((result.count, result.coverage), (4, 1.0));
    assert_eq!(
        (result.figures.min_ns, result.received_only_max_ns, result.max_seq),
        (Some(5_000), Some(1_000_000), Some(5))
    );
    assert_eq!(result.figures.mean_ns, Some((500_000.0 + 995_000.0 + 5_000.0 + 1_000_000.0) / 4.0));
}

#[test]
fn a_packet_without_its_stamp_breaks_the_chain_and_makes_no_double_interval() {
    let mut packets = vec![received(10_000); 100];
    packets[50].rx_kernel = None;
    let result = pass(&packets, 30, 100).finish("kernel", None);
    assert_eq!((result.count, result.figures.max_ns), (97, Some(CYCLE_NS)));
    assert_eq!(result.coverage, 97.0 / 99.0);
    // At the start there is nothing to break: the first stamped packet has no predecessor.
    let mut packets = vec![received(10_000); 100];
    packets[..20].iter_mut().for_each(|packet| packet.rx_kernel = None);
    let result = pass(&packets, 30, 100).finish("kernel", None);
    assert_eq!((result.count, result.figures.max_ns), (79, Some(CYCLE_NS)));
}

#[test]
fn one_packet_or_none_has_no_delta() {
    assert_eq!(pass(&[received(1)], 1, 10).finish("kernel", None).count, 0);
    let none = pass(&[lost(0), lost(0)], 1, 10).finish("kernel", Some("no packet was received".to_owned()));
    assert_eq!((none.count, none.coverage, none.why.is_some()), (0, 0.0, true));
}

#[test]
fn a_clock_set_back_is_sorted_as_a_whole_or_shows_in_the_coverage() {
    // From packet 600 on, stamps lie 200 ms too low: below those of the last 400 rows, of which
    // 200 are settled.
    let packets: Vec<Packet> =
        (0..1_500).map(|n| received(if n < 600 { 10_000 } else { 5_000 - 2 * EARLIEST_NS })).collect();
    assert_eq!(pass(&packets, 100, 10_000), oracle(&packets));
    let result = pass(&packets, 100, 1_000).finish("kernel", None);
    assert!((0.8..0.95).contains(&result.coverage), "coverage {}", result.coverage);
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let far = -2 * EARLIEST_NS..20 * EARLIEST_NS;
    let packet = (prop_oneof![30 => 5_000i64..40_000, 10 => 0..4 * CYCLE_NS, 2 => far, 5 => Just(10_000)], 0u8..40);
    let packet = packet.prop_map(|(ns, kind)| match kind {
        0 => lost(ns),
        1 => Packet { rx_kernel: None, ..received(ns) },
        2 => Packet { receive: None, ..received(ns) },
        // Ties: stamped at the end of the slot, as the next one at its start.
        3 => received(CYCLE_NS),
        4 => received(0),
        _ => received(ns),
    });
    proptest::collection::vec(packet, 0..900)
}

proptest! {
    #[test]
    fn streaming_is_the_same_as_sorting_all(packets in packets(), size in 1usize..300) {
        prop_assert_eq!(pass(&packets, size, usize::MAX), oracle(&packets));
    }

    #[test]
    fn each_packet_has_the_delta_of_the_digest(packets in packets(), size in 1usize..300) {
        let mut reach = Reach::new(Point::RxKernel);
        batches(&packets, size).iter().for_each(|batch| reach.push(batch));
        let (mut digest, mut seqs) = (MetricDigest::new(1), Vec::new());
        let mut each = |batch: &Batch, row: usize, delta: Option<i64>| {
            let never = batch.outcome[row] != Outcome::Received;
            prop_assert!(delta.is_none() || !never);
            if let Some(value) = delta.or(never.then_some(INFINITE)) {
                digest.absorb(&[value], &batch.seq[row..=row]);
            }
            seqs.push(batch.seq[row]);
            Ok(())
        };
        let mut pass = Packets::new(reach);
        for batch in batches(&packets, size) {
            pass.push(batch, &mut each)?;
        }
        pass.finish(&mut each)?;
        let received = packets.iter().filter(|packet| packet.outcome == Outcome::Received).count() as u64;
        digest.expect(received.saturating_sub(1));
        prop_assert_eq!(digest, oracle(&packets));
        prop_assert_eq!(seqs, (0..packets.len() as i64).collect::<Vec<_>>());
    }
}
