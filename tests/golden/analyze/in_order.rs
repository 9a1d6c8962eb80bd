// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows the order of packets: `delta` in arrival order, whatever order the rows come in,
//! and envelopes and grids over time, which are bounded, true to the rows, and the same however the
//! rows are cut.

use super::fixture::{BASE_NS, CYCLE_NS, LEAD, Packet, batch, batches, healthy_packets, lost, noise, received, record};
use proptest::prelude::*;
use tardy_analyze::arrival::{ArrivalPass, EARLIEST_NS};
use tardy_analyze::clusters::INFINITE;
use tardy_analyze::digest::MetricDigest;
use tardy_analyze::envelope::{
    ALL_SPOTS, EnvelopePass, Grain, Grid, MOST_BUCKETS, MOST_COLUMNS, MOST_ROWS, Shape, Trace, bins, buckets_each,
    columns_each,
};
use tardy_analyze::packets::{Packets, Reach};
use tardy_model::histogram::Histogram;
use tardy_model::point::{Metric, Point};
use tardy_model::sample::{Batch, Outcome};

const METRICS: [Metric; 3] = [Metric::Span(Point::Scheduled, Point::Wakeup), LEAD, Metric::Delta];

const COLUMNS: usize = 60;

fn trace(batches: &[Batch], count: u32, buckets: usize) -> Trace {
    let record = record(1, count);
    let mut pass = EnvelopePass::new(&record, "ctl", &METRICS, Grain { buckets, columns: COLUMNS })
        .expect("the record has the stream");
    batches.iter().for_each(|batch| pass.push(batch));
    pass.finish()
}

#[test]
fn each_bucket_is_what_a_plain_reckoning_gives() {
    let values = noise(7, 1000);
    let packets = healthy_packets(7, 1000);
    let trace = trace(&batches(&packets, 1000), 1000, 30);
    assert_eq!((trace.packets_each, trace.packets, trace.cycle_ns), (34, 1000, CYCLE_NS));
    let line = &trace.metrics[&LEAD];
    assert_eq!(line.buckets.len(), 30);
    for (i, bucket) in line.buckets.iter().enumerate() {
        let bucket = bucket.expect("every bucket has packets");
        let mut of = values[i * 34..values.len().min((i + 1) * 34)].to_vec();
        let first = of.iter().position(|ns| *ns == bucket.max_ns).expect("the greatest is one of them");
        assert_eq!(bucket.max_seq, (i * 34 + first) as i64);
        of.sort_unstable();
        assert_eq!((bucket.min_ns, bucket.max_ns), (of[0], of[of.len() - 1]));
        assert_eq!(bucket.p50_ns, of[of.len().div_ceil(2) - 1], "nearest rank");
    }
    let outliers = line.outliers(5);
    assert_eq!(outliers[0].max_ns, *values.iter().max().expect("values"));
    assert!(outliers.windows(2).all(|pair| pair[0].max_ns >= pair[1].max_ns));
}

#[test]
fn cuts_between_batches_change_nothing() {
    let packets = healthy_packets(3, 5000);
    let whole = trace(&batches(&packets, 5000), 5000, 40);
    for size in [1, 7, 1024, 3333] {
        assert_eq!(trace(&batches(&packets, size), 5000, 40), whole, "cut every {size}");
    }
}

#[test]
fn a_bound_holds_for_any_number_of_packets_and_trials() {
    for count in [1u32, 10, 399, 400, 401, 100_000] {
        let packets = vec![received(20_000); count as usize];
        let trace = trace(&batches(&packets, 4096), count, MOST_BUCKETS);
        assert!(trace.metrics.values().all(|line| line.buckets.len() <= MOST_BUCKETS), "{count}");
        assert_eq!(trace.metrics[&LEAD].buckets.len() as u64, u64::from(count).div_ceil(trace.packets_each));
    }
    assert_eq!(buckets_each(10), MOST_BUCKETS);
    assert_eq!(buckets_each(3_000), 10);
    assert_eq!((buckets_each(1_000_000), buckets_each(0)), (1, MOST_BUCKETS));
}

#[test]
fn lost_packets_are_counted_where_they_are_missing() {
    let mut packets = vec![received(20_000); 100];
    for seq in [12, 13, 57] {
        packets[seq] = lost(20_000);
    }
    packets[30..40].fill(lost(20_000));
    let trace = trace(&batches(&packets, 9), 100, 10);
    assert_eq!(trace.missing, [(1, 2), (3, 10), (5, 1)]);
    assert_eq!(trace.metrics[&LEAD].buckets[3], None, "nothing was received there");
    assert_eq!(trace.metrics[&LEAD].shape.count, 87);
}

#[test]
fn delta_follows_the_order_of_arrival() {
    // Packet 1 comes after packet 2, which then follows packet 0.
    let packets = [received(10_000), received(600_000), received(10_000), received(10_000)];
    let line = trace(&[batch(0, &packets)], 4, 4).metrics.remove(&Metric::Delta).expect("delta");
    let values: Vec<i64> = line.buckets.iter().flatten().map(|bucket| bucket.max_ns).collect();
    assert_eq!(line.shape.count, 3);
    assert_eq!((line.shape.min_ns, line.shape.max_ns), (90_000, 1_000_000));
    assert!(values.contains(&1_000_000), "{values:?}");
}

#[test]
fn stages_go_from_each_stamped_point_to_the_next() {
    let trace = trace(&[batch(0, &healthy_packets(1, 50))], 50, 10);
    assert!(trace.stages.windows(2).all(|pair| match (pair[0].0, pair[1].0) {
        (Metric::Span(_, end), Metric::Span(start, _)) => end == start,
        _ => false,
    }));
    let wakeup = trace.stages.iter().find(|(stage, _)| *stage == METRICS[0]).expect("the first stage");
    let values: Vec<i64> = noise(1, 50).into_iter().map(|ns| ns - 2_000).collect();
    let mean = values.iter().sum::<i64>() as f64 / 50.0;
    assert!(wakeup.1.mean_ns().is_some_and(|got| (got - mean).abs() < 1e-6));
}

#[test]
fn shapes_merge_and_coarsen_without_losing_a_value() {
    let of = |seed: u64| {
        let values = noise(seed, 4000);
        let mut histogram = Histogram::new();
        histogram.record_all(&values);
        (Shape::of(&histogram, values.iter().map(|ns| i128::from(*ns)).sum()), values)
    };
    let ((mut one, mut values), (two, more)) = (of(1), of(2));
    one.merge(&two);
    one.merge(&Shape::default());
    values.extend(more);
    values.sort_unstable();
    assert_eq!((one.count, one.min_ns, one.max_ns), (8000, values[0], values[7999]));
    for q in [0.5, 0.9, 0.99] {
        let (got, exact) = (one.quantile_ns(q).expect("values"), values[(q * 8000.0) as usize - 1]);
        assert!(got >= exact && (got - exact) as f64 <= exact as f64 / 1000.0, "{q}: {got} for {exact}");
    }
    for most in [1, 8, 64, 100_000] {
        let bins = one.bins(most);
        assert!(bins.len() <= most.max(2), "{} of {most}", bins.len());
        assert_eq!(bins.iter().map(|bin| bin.2).sum::<u64>(), 8000);
        assert!(bins.windows(2).all(|pair| pair[0].1 < pair[1].0) && bins.iter().all(|bin| bin.0 <= bin.1));
        assert!(bins[0].0 <= values[0] && bins[bins.len() - 1].1 >= values[7999]);
    }
    assert_eq!(Shape::default().quantile_ns(0.5), None);
    assert_eq!(bins(&[(-5, -5, 1), (0, 0, 2), (3, 3, 4)], 10), [(-5, -5, 1), (0, 0, 2), (3, 3, 4)]);
}

#[test]
fn a_trial_that_was_cut_short_has_fewer_buckets() {
    let trace = trace(&batches(&healthy_packets(5, 300), 100), 1000, 10);
    assert_eq!((trace.packets, trace.metrics[&LEAD].buckets.len()), (300, 3));
    let none = trace_of_nothing();
    assert!(none.metrics.values().all(|line| line.buckets.is_empty()) && none.stages.is_empty());
}

fn trace_of_nothing() -> Trace {
    let nothing = Batch { outcome: Vec::<Outcome>::new(), ..Batch::default() };
    trace(&[nothing], 1000, 10)
}

#[test]
fn a_grid_holds_every_value_that_was_received_where_and_when_it_was() {
    let mut packets = healthy_packets(11, 30_000);
    packets[7_000..7_900].fill(lost(20_000));
    packets[20_000] = received(900_000_000);
    let whole = trace(&batches(&packets, 4096), 30_000, MOST_BUCKETS);
    for (metric, line) in &whole.metrics {
        let (rows, columns): (_, Vec<Vec<(usize, u64)>>) = (line.grid.rows(), line.grid.columns().collect());
        let sum: u64 = columns.iter().flatten().map(|spot| spot.1).sum();
        assert_eq!((sum, line.grid.count()), (line.shape.count, line.shape.count), "{metric}");
        assert!(columns.len() <= COLUMNS && rows.len() <= MOST_ROWS, "{metric}: {} × {}", columns.len(), rows.len());
        assert!(rows.windows(2).all(|pair| pair[0].1 < pair[1].0), "{metric}: rows do not overlap");
    }
    // Against a plain reckoning.
    let grid = &whole.metrics[&LEAD].grid;
    let rows = grid.rows();
    for (i, column) in grid.columns().enumerate() {
        let within = |at: i64| at / grid.every_ns == i as i64;
        let of = packets.iter().enumerate().filter(|(seq, _)| within(*seq as i64 * CYCLE_NS));
        let values: Vec<i64> = of.filter_map(|(_, packet)| packet.rx_kernel).collect();
        assert_eq!(column.iter().map(|spot| spot.1).sum::<u64>(), values.len() as u64, "column {i}");
        for (row, count) in column {
            let (low, high) = rows[row];
            assert_eq!(values.iter().filter(|ns| (low..=high).contains(*ns)).count() as u64, count, "{i}, {row}");
        }
    }
    assert_eq!((grid.columns().count() as i64 - 1) * grid.every_ns / CYCLE_NS / 29_000, 1, "they reach to the end");
}

#[test]
fn a_grid_stays_within_its_bounds_however_far_values_and_time_reach() {
    let mut grid = Grid::new(8, 10);
    let mut count = 0;
    for at in 0..2_000i64 {
        for value in [at * at * at * 1_000_003, -at * 77, i64::MIN / 2 + at, i64::MAX - at] {
            grid.add(at * 12_345, value);
            count += 1;
        }
    }
    grid.add(i64::MAX, 0);
    grid.add(i64::MIN, 0);
    assert_eq!(grid.count(), count + 2);
    assert!(grid.columns().count() <= 8 && grid.rows().len() <= MOST_ROWS, "{grid:?}");
    assert_eq!(columns_each(1, 1), MOST_COLUMNS);
    assert_eq!((columns_each(10, 2), columns_each(1_000_000, 100), columns_each(0, 0)), (120, 1, MOST_COLUMNS));
    for (lines, trials) in [(25, 5), (300, 5), (2_000, 100)] {
        assert!(columns_each(lines, trials) * lines * MOST_ROWS <= ALL_SPOTS, "{lines}");
    }
}

/// A ping-pong whose requests were due at these times after the base time.
fn ping_pong(times: &[i64], buckets: usize) -> Trace {
    let mut record = record(1, times.len() as u32);
    record.streams.get_mut("ctl").expect("ctl").cycle_ns = 0;
    let mut batch = batch(0, &vec![received(20_000); times.len()]);
    batch.scheduled_ns = times.iter().map(|ns| BASE_NS + ns).collect();
    let grain = Grain { buckets, columns: COLUMNS };
    let mut pass = EnvelopePass::new(&record, "ctl", &[LEAD], grain).expect("the record has the stream");
    pass.push(&batch);
    pass.finish()
}

#[test]
fn a_ping_pong_has_the_times_of_its_requests() {
    // 100 µs each, and from the 500th on a load that makes it 300 µs.
    let times: Vec<i64> = (0..1_000).map(|n| 7_000 + n * 100_000 + (n - 500).max(0) * 200_000).collect();
    let trace = ping_pong(&times, 10);
    assert_eq!(trace.cycle_ns, 0);
    assert_eq!(trace.starts_ns, times.iter().step_by(100).copied().collect::<Vec<i64>>());
    assert_eq!(trace.end_ns, times[999] + times[999] / 999, "and the mean between two");
    let grid = &trace.metrics[&LEAD].grid;
    let columns: Vec<u64> = grid.columns().map(|column| column.iter().map(|spot| spot.1).sum()).collect();
    assert_eq!(columns.iter().sum::<u64>(), 1_000);
    assert!(columns.len() > COLUMNS / 2 && columns.len() <= COLUMNS, "{columns:?}");
    // A third as many in a column once each takes three times as long.
    let (early, late) = (columns[1], columns[columns.len() - 2]);
    assert!(early >= 3 * late - 3 && early <= 3 * late + 3, "{columns:?}");
}

#[test]
fn requests_that_were_never_due_do_not_turn_time_back() {
    let mut times: Vec<i64> = (0..80).map(|n| n * 50_000).collect();
    // They stand at the base time in the rows.
    times.resize(100, 0);
    let trace = ping_pong(&times, 10);
    assert!(trace.starts_ns.is_sorted(), "{:?}", trace.starts_ns);
    assert_eq!((trace.starts_ns[8], trace.starts_ns[9]), (79 * 50_000, 79 * 50_000));
    assert!(trace.end_ns > 79 * 50_000);
}

#[test]
fn a_cyclic_stream_has_the_times_of_its_schedule() {
    let trace = trace(&batches(&healthy_packets(2, 1_000), 64), 1_000, 10);
    assert_eq!(trace.starts_ns, (0..10).map(|i| i * 100 * CYCLE_NS).collect::<Vec<i64>>());
    assert_eq!(trace.end_ns, 1_000 * CYCLE_NS);
}

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
