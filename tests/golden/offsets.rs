// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the clocks of two hosts are apart, from readings of it: the line between two of them,
//! what is wrong by at most how much, what KVM says of a guest's counter, and several sources of
//! the same offset next to each other.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_lab::host::clocks::{self, Counters, Exchange, GuestCounter};
use tardy_model::point::{Metric, Point};
use tardy_model::time::{
    CounterReading, Disagreement, EndOffsets, Instant, Offset, OffsetReading, OtherSource, PhcReading, Tai,
};

/// So far the other machine's clocks are ahead.
const AHEAD_NS: i64 = 3_000_000;

#[test]
fn a_bound_of_less_than_nothing_took_the_error_of_the_other_clock_away() {
    let reading = |bound_ns| OffsetReading { at_tai_ns: 0, ahead_ns: 1_000, bound_ns };
    let of =
        |bound_ns| Offset { host: "b".into(), first: reading(bound_ns), last: reading(bound_ns), ..Offset::default() };
    for lie in [-1, -400, i64::MIN] {
        assert_eq!((of(lie).bound_ns(), of(lie).drift_bound_ns()), (0, 0), "{lie}");
        let other =
            OtherSource { method: "a liar's".into(), first: reading(lie), last: reading(lie), is_reported: false };
        let with = of(400).with(other);
        assert_eq!((with.bound_ns(), with.method.as_str(), with.others.len()), (400, "", 1), "{lie}");
        let both = EndOffsets { tx: Some(Offset { host: "c".into(), ..of(lie) }), rx: Some(of(300)), pair: None };
        assert_eq!(both.bound_ns(), 300, "{lie}");
    }
}

#[test]
fn an_offset_that_drifts_is_a_line_between_its_readings() {
    let reading = |at_tai_ns, ahead_ns, bound_ns| OffsetReading { at_tai_ns, ahead_ns, bound_ns };
    let second = 1_000_000_000;
    let offset = Offset {
        host: "b".to_owned(),
        first: reading(100 * second, -5_000, 40),
        last: reading(110 * second, 15_000, 25),
        method: "ptp".to_owned(),
        ..Offset::default()
    };
    assert_eq!(offset.drift_ppb(), Some(2_000.0));
    assert_eq!(offset.bound_ns(), 40);
    for (here, ahead) in [(100, -5_000), (105, 5_000), (110, 15_000), (115, 25_000), (95, -15_000)] {
        let theirs = Instant::<Tai>::from_ns(here * second + ahead);
        assert!((offset.to_here(theirs).ns() - here * second).abs() <= 1, "{here} s");
    }
    // One reading alone is an offset without a drift.
    let alone = Offset { last: offset.first, ..offset.clone() };
    assert_eq!(alone.drift_ppb(), None);
    assert_eq!(alone.to_here(Instant::from_ns(500 * second)).ns(), 500 * second + 5_000);
    // The difference of two hosts is as wrong as both. One instant of a trial may be wrong by the
    // whole bound of the first reading, and another by that of the last, the other way.
    let third = Offset { host: "c".to_owned(), ..alone.clone() };
    let both = EndOffsets { tx: Some(third), rx: Some(offset.clone()), pair: None };
    assert_eq!((both.bound_ns(), both.drift_bound_ns(), both.are_of_one_host()), (80, 145, false));
    let one = EndOffsets { tx: None, rx: Some(offset.clone()), pair: None };
    assert_eq!((one.bound_ns(), one.drift_bound_ns(), one.are_of_one_host()), (40, 65, false));
    // What both ends share cancels.
    let same = EndOffsets { tx: Some(offset.clone()), rx: Some(offset), pair: None };
    assert_eq!((same.bound_ns(), same.drift_bound_ns(), same.are_of_one_host()), (0, 0, true));
    assert!(Metric::Span(Point::Send, Point::RxKernel).crosses_stations());
    assert!(Metric::Span(Point::ReplyTxKernel, Point::ReplyRxKernel).crosses_stations());
    for metric in
        [(Point::RxKernel, Point::Receive), (Point::Receive, Point::ReplySend), (Point::Send, Point::ReplyReceive)]
    {
        assert!(!Metric::Span(metric.0, metric.1).crosses_stations());
    }
}

#[test]
fn the_slope_of_two_readings_far_less_exact_than_any_drift_scaled_every_interval() {
    let reading = |at_tai_ns, ahead_ns| OffsetReading { at_tai_ns, ahead_ns, bound_ns: 30_000 };
    let offset = |passed_ns: i64, apart_ns: i64| Offset {
        host: "rig".into(),
        first: reading(0, 3_000_000),
        last: reading(passed_ns, 3_000_000 + apart_ns),
        method: "told".into(),
        ..Offset::default()
    };
    let here = |offset: &Offset, ns| offset.to_here(Instant::<Tai>::from_ns(ns)).ns();
    // 40 µs in 10 ms would be 4000 ppm, and both readings agree within 60 µs.
    for apart_ns in [40_000, -40_000] {
        let flat = offset(10_000_000, apart_ns);
        assert_eq!(here(&flat, 9_000_000) - here(&flat, 4_000_000), 5_000_000);
        assert_eq!((flat.bound_ns(), flat.drift_bound_ns()), (50_000, 100_000));
        // Back from the other clock, an instant is where it was, within the bound.
        for at in [0, 5_000_000, 10_000_000] {
            let at = Instant::<Tai>::from_ns(at);
            for reading in [flat.first, flat.last] {
                let back = flat.to_here(reading.to_there(at)) - at;
                assert_eq!(back.0.abs(), 20_000);
            }
        }
    }
    // Over 10 s the same readings are a slope of 4 ppm, wrong by at most 6 ppm.
    let line = offset(10_000_000_000, 40_000);
    assert_eq!((line.bound_ns(), line.drift_bound_ns()), (30_000, 60_000));
    assert_eq!(here(&line, 10_003_040_000) - here(&line, 3_000_000), 10_000_000_000);
    // What the bounds do not explain is a drift.
    let drifts = offset(10_000_000, 70_000);
    assert_eq!(drifts.bound_ns(), 30_000);
    assert!((here(&drifts, 13_070_000) - 10_000_000).abs() < 10);
}

/// A host and a machine on its processor, whose counter runs at `counts_per_us`, and an exchange
/// between them that takes `ways_ns`, with brackets as wide as `width_ns`.
fn exchange_by_counter(
    guest: (i64, u64),
    counts_per_us: u64,
    at_ns: i64,
    ways_ns: [i64; 2],
    width_ns: i64,
) -> Exchange {
    let counter = |tai_ns: i64| tai_ns as u64 * counts_per_us / 1_000;
    let bracket = |tai_ns: i64, of: &dyn Fn(u64) -> u64, ahead_ns: i64| CounterReading {
        before: of(counter(tai_ns - width_ns / 3)),
        tai_ns: tai_ns + ahead_ns,
        after: of(counter(tai_ns + width_ns - width_ns / 3)),
    };
    // KVM scales by 2^32 here.
    let there = |host: u64| ((u128::from(host) * u128::from(guest.1)) >> 32) as u64;
    let there = |host: u64| there(host).wrapping_add_signed(guest.0);
    let asked = bracket(at_ns, &|host| host, 0);
    let theirs = bracket(at_ns + ways_ns[0], &there, AHEAD_NS);
    let answered = bracket(at_ns + ways_ns[0] + ways_ns[1], &|host| host, 0);
    Exchange {
        asked_ns: asked.tai_ns + width_ns,
        reached_ns: theirs.tai_ns,
        returned_ns: theirs.tai_ns,
        answered_ns: answered.tai_ns - width_ns,
        counters: Some(Counters { asked, theirs, answered }),
    }
}

#[test]
fn the_clocks_of_a_machine_were_known_to_half_of_an_exchange_where_the_counter_knows_more() {
    let mut chance = Pcg64Mcg::seed_from_u64(18);
    for _ in 0..1_000 {
        let ratio = chance.random_range(1 << 31..1 << 34);
        let offset = chance.random::<i64>();
        let counts_per_us = chance.random_range(24..5_000);
        let width_ns = chance.random_range(20..400);
        let exchanges: Vec<_> = (0..8)
            .map(|n| {
                let ways_ns = [chance.random_range(2_000..300_000), chance.random_range(2_000..300_000)];
                exchange_by_counter((offset, ratio), counts_per_us, 1_000_000_000 + n * 1_000_000, ways_ns, width_ns)
            })
            .collect();
        let (text, ratio_text) = (format!("{offset}\n"), format!("{ratio}\n"));
        let guest = GuestCounter::from_files(&text, Some((&ratio_text, "32\n"))).unwrap();
        let by_exchange = clocks::best(&exchanges).unwrap();
        assert!((by_exchange.ahead_ns - AHEAD_NS).abs() <= by_exchange.bound_ns, "{by_exchange:?}");
        let by_counter = clocks::best_by_counter(&exchanges, guest).unwrap();
        assert!((by_counter.ahead_ns - AHEAD_NS).abs() <= by_counter.bound_ns, "{by_counter:?} {exchanges:?}");
        // Both brackets' halves, and what a count of a slow counter, here or there, is.
        let count_ns = (1_000 / counts_per_us) as i64 + 1;
        let there_ns = count_ns * (1 + ((1_i64 << 32) / ratio as i64));
        assert!(by_counter.bound_ns <= width_ns + 4 + count_ns + there_ns, "{by_counter:?} {width_ns} {counts_per_us}");
        // A counter that is offset otherwise shows what it cannot have in an exchange.
        let wrong = GuestCounter::from_files(&offset.wrapping_add(1 << 42).to_string(), Some((&ratio_text, "32")));
        assert_eq!(clocks::best_by_counter(&exchanges, wrong.unwrap()), None);
        let one_without: Vec<_> = [&exchanges[..7], &[Exchange { counters: None, ..exchanges[7] }]].concat();
        assert_eq!(clocks::best_by_counter(&one_without, guest), None);
    }
}

#[test]
fn what_kvm_says_of_a_counter_is_read_or_refused() {
    let same = GuestCounter::from_files("-12\n", None);
    assert!(same.is_some());
    assert_eq!(same, GuestCounter::from_files("-12", Some(("1\n", "0\n"))));
    for (offset, ratio) in
        [("", None), ("x", None), ("1", Some(("0", "32"))), ("1", Some(("1", "64"))), ("1", Some(("-1", "32")))]
    {
        assert_eq!(GuestCounter::from_files(offset, ratio), None, "{offset} {ratio:?}");
    }
    assert_eq!(clocks::best_by_counter(&[], same.unwrap()), None);
    assert_eq!(clocks::best(&[]), None);
}

#[test]
fn a_source_that_knows_more_took_the_beginning_of_a_schedule_from_the_one_that_had_set_it() {
    let reading = |at_ms: i64, ahead_ns, bound_ns| OffsetReading { at_tai_ns: at_ms * 1_000_000, ahead_ns, bound_ns };
    let ssh = Offset {
        host: "rig".into(),
        first: reading(1_000, 3_000_000, 90_000),
        last: reading(2_000, 3_000_000, 80_000),
        method: "ssh".into(),
        ..Offset::default()
    };
    let source = |ahead_ns, bound_ns| OtherSource {
        method: "path".into(),
        first: reading(900, ahead_ns, bound_ns),
        last: reading(2_100, ahead_ns, bound_ns),
        is_reported: false,
    };
    // The one with the least bound counts, and the other is kept. What began the schedule did not
    // change by it.
    let both = ssh.clone().with(source(3_020_000, 12_000));
    assert_eq!((both.bound_ns(), both.method.as_str(), both.first), (12_000, "path", reading(900, 3_020_000, 12_000)));
    assert_eq!(both.beginning(), ssh.first);
    let of_ssh = OtherSource { method: "ssh".into(), first: ssh.first, last: ssh.last, is_reported: false };
    assert_eq!(both.others, [of_ssh]);
    assert_eq!(both.disagreement(), None);
    let looser = ssh.clone().with(source(3_020_000, 200_000));
    assert_eq!((looser.bound_ns(), looser.beginning(), looser.others.len()), (90_000, ssh.first, 1));
    // A third one, which knows most.
    let three = both.clone().with(source(3_015_000, 1_000));
    assert_eq!((three.bound_ns(), three.beginning(), three.others.len()), (1_000, ssh.first, 2));
    let allowed_ns = 90_000 + 12_000 + 1;
    for ahead_ns in [3_000_000 + allowed_ns, 3_000_000 - allowed_ns] {
        assert_eq!(ssh.clone().with(source(ahead_ns, 12_000)).disagreement(), None);
    }
    for apart_ns in [250_000, -250_000] {
        let apart =
            ssh.clone().with(source(3_000_000 + apart_ns, 12_000)).disagreement().expect("they exclude each other");
        let methods = ["path", "ssh"].map(str::to_owned);
        assert_eq!(apart, Disagreement { methods, apart_ns: 250_000, allowed_ns, is_reported: false });
    }
    // Each is a line, and what clocks drift between its readings is in it: 200 µs in 1.2 s.
    let drifts =
        |ahead_ns| OtherSource { last: reading(2_100, ahead_ns + 200_000, 12_000), ..source(ahead_ns, 12_000) };
    assert_eq!(ssh.clone().with(drifts(2_900_000)).disagreement(), None);
    // It is 16.7 µs ahead of its beginning at ssh's first reading, and 183.3 µs at the last one.
    let apart = ssh.clone().with(drifts(3_000_000)).disagreement().expect("they exclude each other");
    assert_eq!((apart.apart_ns, apart.allowed_ns), (183_333, allowed_ns));
    // Two that are only compared may exclude each other, and neither excludes the main one.
    let beside = |ahead_ns| OtherSource { method: format!("by {ahead_ns}"), ..source(ahead_ns, 10_000) };
    let twice = ssh.clone().beside(beside(3_150_000)).beside(beside(2_850_000));
    assert_eq!((twice.bound_ns(), twice.method.as_str()), (90_000, "ssh"), "they never count for instants");
    let apart = twice.disagreement().expect("they exclude each other");
    assert_eq!((&apart.methods, apart.allowed_ns), (&["by 3150000", "by 2850000"].map(str::to_owned), 20_001));
    // They are what programs report. Two that were asked come first, however near they are.
    assert!(apart.is_reported);
    let asked = twice.with(source(3_250_000, 12_000)).disagreement().expect("they exclude each other");
    assert_eq!((asked.methods, asked.is_reported), (["path", "ssh"].map(str::to_owned), false));
    // What a record without other sources says was written so before, too.
    let text = serde_json::to_string(&ssh).expect("JSON");
    assert!(!text.contains("others") && !text.contains("begun_by"), "{text}");
    assert_eq!(serde_json::from_str::<Offset>(&text).expect("an offset"), ssh);
}

/// Two other machines, each by its offset against the coordinator, and both by a comparison with
/// each other: what is converted is as wrong as the better of the two at most.
#[test]
fn instants_of_two_other_hosts_were_as_wrong_as_both_their_offsets() {
    let mut chance = Pcg64Mcg::seed_from_u64(19);
    let (begins, ends) = (1_000_000_000i64, 11_000_000_000i64);
    for n in 0..1_000 {
        let mut clock =
            || (chance.random_range(-5_000_000_000i64..5_000_000_000), chance.random_range(-500_000i64..500_000));
        let (sender, receiver) = (clock(), clock());
        // Parts per billion.
        let shows =
            |clock: (i64, i64), at: i64| at + clock.0 + (i128::from(at) * i128::from(clock.1) / 1_000_000_000) as i64;
        let mut read = |of: &dyn Fn(i64) -> [i64; 2], at: i64, bound_ns: i64| {
            let [at_tai_ns, theirs_ns] = of(at);
            let wrong_ns = chance.random_range(-bound_ns..=bound_ns);
            OffsetReading { at_tai_ns, ahead_ns: theirs_ns - at_tai_ns + wrong_ns, bound_ns }
        };
        let against_here = |clock| move |at: i64| [at, shows(clock, at)];
        let (to_sender, to_receiver) = (against_here(sender), against_here(receiver));
        let of_pair = move |at: i64| [shows(sender, at), shows(receiver, at)];
        let alone = |first, last| Offset { first, last, ..Offset::default() };
        let tx = alone(read(&to_sender, begins - 5_000_000, 400_000), read(&to_sender, ends + 1_000_000, 300_000));
        let rx = alone(read(&to_receiver, begins - 9_000_000, 500_000), read(&to_receiver, ends + 4_000_000, 100_000));
        let bound_ns = [5_000, 100_000, 2_000_000][n % 3];
        let (first, last) =
            (read(&of_pair, begins - 20_000_000, bound_ns), read(&of_pair, ends + 20_000_000, bound_ns));
        let path = OtherSource { method: "path".into(), first, last, is_reported: false };
        let [tx, rx] = [("tx", tx), ("rx", rx)].map(|(host, of)| Some(Offset { host: host.into(), ..of }));
        let both = EndOffsets { tx, rx, pair: None };
        let added_ns = both.bound_ns();
        let both = both.with_pair(path, 0);
        let pair = both.pair.clone().expect("two hosts");
        assert_eq!((pair.disagreement(), pair.others.len()), (None, 1));
        assert!(both.bound_ns() <= added_ns.min(bound_ns) + 1, "{} {added_ns} {bound_ns}", both.bound_ns());
        for _ in 0..10 {
            let at = chance.random_range(begins..ends);
            let took_ns = chance.random_range(0..1_000_000);
            let sent = both.sender_to_here(Instant::from_ns(shows(sender, at)));
            let arrived = both.receiver_to_here(Instant::from_ns(shows(receiver, at + took_ns)));
            let wrong_ns = (arrived.ns() - sent.ns() - took_ns).abs();
            // Two clocks by 1000 ppm: an interval of another host is wrong by that.
            assert!(wrong_ns <= both.bound_ns() + took_ns / 1_000 + 2, "{wrong_ns} {both:?}");
        }
    }
    // The sender's clock was read for a tenth of a second, and the receiver's a second before: what
    // the line of the former says then is worth nothing.
    let at = |at_tai_ns, ahead_ns, bound_ns| OffsetReading { at_tai_ns, ahead_ns, bound_ns };
    let of = |host: &str, first, last| Some(Offset { host: host.into(), first, last, ..Offset::default() });
    let far = EndOffsets {
        tx: of("tx", at(10_000_000_000, 0, 30_000), at(10_100_000_000, 50_000, 30_000)),
        rx: of("rx", at(9_000_000_000, 0, 100), at(10_200_000_000, 0, 100)),
        pair: None,
    };
    let (first, last) = (at(10_000_000_000, 0, 5_000_000), at(10_100_000_000, 0, 5_000_000));
    let path = OtherSource { method: "path".into(), first, last, is_reported: false };
    let far = far.with_pair(path, 0).pair.expect("two hosts");
    assert_eq!((far.first, far.last), (at(10_000_000_000, 0, 30_100), at(10_100_050_000, -50_000, 30_100)));
    // A comparison that no offset of the two allows is one.
    let alone = |host: &str| {
        let reading = |at_tai_ns| OffsetReading { at_tai_ns, ahead_ns: 0, bound_ns: 1_000 };
        Some(Offset { host: host.into(), first: reading(0), last: reading(ends), ..Offset::default() })
    };
    let wrong = |at_tai_ns| OffsetReading { at_tai_ns, ahead_ns: 10_000, bound_ns: 500 };
    let path = OtherSource { method: "path".into(), first: wrong(0), last: wrong(ends), is_reported: false };
    let both = EndOffsets { tx: alone("tx"), rx: alone("rx"), pair: None }.with_pair(path, 0);
    assert!(both.pair.expect("two hosts").disagreement().is_some());
    // One host's clock needs no comparison with itself.
    let path = OtherSource { method: "path".into(), first: wrong(0), last: wrong(ends), is_reported: false };
    let one = EndOffsets { tx: alone("tx"), rx: alone("tx"), pair: None }.with_pair(path, 0);
    assert_eq!((one.pair.is_none(), one.bound_ns()), (true, 0));
}

#[test]
fn a_line_through_two_ends_of_all_time_had_no_value() {
    let ends = [i64::MIN, -1, 0, 1, i64::MAX];
    let all = ends.into_iter().flat_map(|at| ends.into_iter().map(move |ahead| (at, ahead)));
    let all: Vec<OffsetReading> =
        all.map(|(at_tai_ns, ahead_ns)| OffsetReading { at_tai_ns, ahead_ns, bound_ns: 0 }).collect();
    for (first, last) in all.iter().flat_map(|first| all.iter().map(move |last| (*first, *last))) {
        let offset = Offset { first, last, ..Offset::default() };
        for theirs in ends {
            let here = offset.to_here(Instant::from_ns(theirs)).ns();
            // A clock that is as far ahead all the time.
            if first.ahead_ns == last.ahead_ns {
                assert_eq!(here, theirs.saturating_sub(first.ahead_ns), "{offset:?} {theirs}");
            }
        }
        // A device's clock that ran as the system's.
        let phc = |of: OffsetReading| PhcReading { phc_ns: of.at_tai_ns, realtime_ns: of.ahead_ns, bound_ns: i64::MAX };
        if let Some(line) = PhcReading::between(phc(first), phc(last)) {
            assert_eq!(line.to_realtime_ns(first.at_tai_ns), first.ahead_ns);
            assert!(line.to_realtime_ns(last.at_tai_ns) <= last.ahead_ns);
        }
    }
}

#[test]
fn a_comparison_is_the_same_from_the_other_side() {
    let reading = OffsetReading { at_tai_ns: 5, ahead_ns: AHEAD_NS, bound_ns: 7 };
    let turned = reading.turned();
    assert_eq!((turned.at_tai_ns, turned.ahead_ns, turned.bound_ns), (AHEAD_NS + 5, -AHEAD_NS, 7));
    assert_eq!(turned.turned(), reading);
}

#[test]
fn two_machines_of_one_image_were_one_clock_where_no_counter_was_read() {
    use tardy_lab::host::HostId;
    use tardy_lab::host::clocks::{HostClocks, OffsetSource};
    use tardy_model::time::CounterReading;
    let twin = HostId::numbered(7);
    let mut clocks = HostClocks { emulators: Default::default(), this_machine: [twin].into() };
    let counter = |at: u64| CounterReading { before: at, tai_ns: at as i64, after: at + 1 };
    // Both have one boot, as machines that were resumed from one image do.
    let mut bound_ns = |counters: Option<[u64; 3]>| {
        let mut now = 0;
        let mut ask = || {
            now += 100_000;
            Ok(Exchange {
                asked_ns: now,
                reached_ns: now + 10_000,
                returned_ns: now + 10_000,
                answered_ns: now + 20_000,
                counters: counters.map(|all| {
                    let [asked, theirs, answered] = all.map(counter);
                    Counters { asked, theirs, answered }
                }),
            })
        };
        clocks.between(HostId::HERE, twin, &mut ask).expect("they agree").reading.bound_ns
    };
    assert_eq!(bound_ns(Some([10, 20, 30])), 0, "one counter: one machine");
    assert!(bound_ns(Some([10, 5, 30])) >= 10_000, "another counter: another machine");
    assert!(bound_ns(None) >= 10_000, "nothing shows that it is one");
}
