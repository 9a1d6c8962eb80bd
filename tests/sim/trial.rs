// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial led through orderings that are drawn: messages late, doubled and lost, stations that
//! fail, a stop at any moment. The stations are simulated; the state machine is the real one.

#[path = "trial/world.rs"]
mod world;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tardy_engine::message::{ActivityId, FromAgent, ToAgent};
use tardy_engine::port::XdpStamp;
use tardy_engine::receiver::Arrival;
use tardy_engine::sender::SentRows;
use tardy_lab::agent::AgentError;
use tardy_lab::loads::Loads;
use tardy_lab::station::StationId;
use tardy_lab::trial::machine::{Input, TrialMachine};
use tardy_lab::trial::{Broken, StreamHalves, TrialError};
use tardy_model::stream::Side;
use tardy_model::time::{Instant, Nanos};
use tardy_model::xdp::XdpObject;
use world::*;
use world::{Faults, STEPS, World, trial};

fn rows(halves: &[StreamHalves]) -> Vec<usize> {
    halves.iter().map(|halves| halves.halves.sent.len()).collect()
}

/// Whose records a stream's halves are of: of each end the thread, and of one that received the
/// arrivals.
fn marks(stream: u8, halves: &StreamHalves) -> BTreeSet<(Side, u32)> {
    let halves = &halves.halves;
    let arrived =
        |side, arrivals: &[Arrival]| arrivals.iter().map(|it| (side, it.receive_ns as u32)).collect::<Vec<_>>();
    let reply = halves.reply.as_ref();
    let replies_at = if stream == 2 { Side::Tx } else { Side::Reply };
    let threads = [(Side::Tx, halves.tx_thread.tid), (Side::Rx, halves.rx_thread.tid)];
    let of_reply = reply.and_then(|reply| Some((Side::Reply, reply.thread.as_ref()?.tid)));
    let all = threads.into_iter().chain(of_reply).chain(arrived(Side::Rx, &halves.arrivals));
    let all = all.chain(reply.map(|reply| arrived(replies_at, &reply.arrivals)).unwrap_or_default());
    // An end that handed nothing over left none.
    all.filter(|(_, mark)| *mark != 0).collect()
}

/// Each record is of the very end in whose place it is.
fn assert_in_place(stream: usize, halves: &StreamHalves, seed: u64) {
    let stream = stream as u8;
    for (side, found) in marks(stream, halves) {
        assert_eq!(found, mark(EndId { stream, side }), "seed {seed}: stream {stream}, {side}");
    }
}

/// The ends of each stream.
fn sides(stream: usize) -> &'static [Side] {
    [&[Side::Tx, Side::Rx][..], &[Side::Tx, Side::Rx, Side::Reply], &[Side::Tx, Side::Rx]][stream]
}

#[test]
fn without_faults_every_ordering_ends_with_all_halves() {
    for seed in 0..500 {
        let Ended { result, world, .. } = run(seed, Faults::default());
        let halves = result.unwrap_or_else(|broken| panic!("seed {seed}: {}", broken.error));
        assert_eq!(rows(&halves), [COUNT as usize; 3], "seed {seed}");
        for (stream, halves) in halves.iter().enumerate() {
            assert_in_place(stream, halves, seed);
            let ends: BTreeSet<Side> = marks(stream as u8, halves).into_iter().map(|(side, _)| side).collect();
            assert_eq!(ends, sides(stream).iter().copied().collect(), "seed {seed}");
        }
        assert_eq!(world.looks, 2, "seed {seed}");
        // The sender of each stream begins behind its receivers, and all by one base time each.
        let starts: Vec<(EndId, i64)> = world.told.iter().flat_map(|(_, order)| world.started(order)).collect();
        for stream in 0..3 {
            let of: Vec<_> = starts.iter().filter(|(end, _)| end.stream == stream).collect();
            assert_eq!(of.len(), sides(stream.into()).len(), "seed {seed}: each end is started once");
            assert_eq!(of.last().map(|(end, _)| end.side), Some(Side::Tx), "seed {seed}: {starts:?}");
            assert!(of.iter().all(|(_, base)| *base == halves[usize::from(stream)].base.ns()), "seed {seed}");
        }
        // What is ordered, and in which order.
        let mut phases = world.phases();
        phases.dedup();
        let first_of_each: Vec<&str> = ORDER.iter().copied().filter(|name| phases.contains(name)).collect();
        assert_eq!(first_of_each, ORDER, "seed {seed}");
        let at = |name| phases.iter().position(|phase| *phase == name);
        assert!(ORDER.windows(2).all(|two| at(two[0]) < at(two[1])), "seed {seed}: {phases:?}");
        let of_loads = world.told.iter().find_map(|(_, order)| match order {
            ToAgent::Start { base, .. } if world.phase(order) == "start loads" => Some(base.ns()),
            _ => None,
        });
        assert_eq!(of_loads, Some(halves[0].base.ns()), "seed {seed}");
    }
}

/// Orders of a trial in their order.
const ORDER: [&str; 9] =
    ["prepare", "connect loads", "warm up", "start loads", "start", "finish", "stop loads", "collect loads", "collect"];

#[test]
fn every_ordering_of_late_lost_and_doubled_messages_ends() {
    let (mut whole, mut broken) = (0, 0);
    for seed in 0..1_000 {
        let faults = Faults { lost: 5, doubled: 100, late: 20, failing: 2, ..Faults::default() };
        let Ended { result, world, .. } = run(seed, faults);
        match result {
            Ok(halves) => {
                whole += 1;
                assert_eq!(halves.len(), 3, "seed {seed}");
                for (stream, halves) in halves.iter().enumerate() {
                    assert_in_place(stream, halves, seed);
                    let ends: BTreeSet<Side> = marks(stream as u8, halves).into_iter().map(|(side, _)| side).collect();
                    assert_eq!(ends, sides(stream).iter().copied().collect(), "seed {seed}");
                }
            }
            Err(error) => {
                broken += 1;
                assert_eq!(error.had.len(), 3, "seed {seed}: a place for each stream");
                for (stream, had) in error.had.iter().enumerate() {
                    had.iter().for_each(|had| assert_in_place(stream, had, seed));
                }
            }
        }
        // Each phase has its limit, and each end three seconds when something failed.
        assert!(world.now_ns < 200_000_000_000, "seed {seed}: {} ns", world.now_ns);
    }
    assert!(whole > 100 && broken > 100, "{whole} whole, {broken} broken: the faults are too rare or too frequent");
}

#[test]
fn a_late_answer_was_taken_for_that_of_another_end() {
    let mut late = 0;
    for seed in 0..2_000 {
        let Ended { result, .. } = run(seed, Faults { late: 60, ..Faults::default() });
        let halves: Vec<(usize, StreamHalves)> = match result {
            Ok(halves) => halves.into_iter().enumerate().collect(),
            Err(broken) => {
                late += 1;
                broken.had.into_iter().enumerate().filter_map(|(i, had)| Some((i, had?))).collect()
            }
        };
        halves.iter().for_each(|(stream, halves)| assert_in_place(*stream, halves, seed));
    }
    assert!(late > 50, "{late} answers came after their time: too few");
}

#[test]
fn doubled_messages_alone_change_nothing() {
    for seed in 0..300 {
        let result = run(seed, Faults { doubled: 1_000, ..Faults::default() }).result;
        let halves = result.unwrap_or_else(|broken| panic!("seed {seed}: {}", broken.error));
        for (stream, halves) in halves.iter().enumerate() {
            assert_in_place(stream, halves, seed);
        }
        assert_eq!(halves.len(), 3, "seed {seed}");
    }
}

#[test]
fn a_station_that_goes_away_at_any_order_leaves_what_the_other_had() {
    let mut salvaged = BTreeSet::new();
    for number in 1..60 {
        for of in 0..2 {
            let Ended { result, world, .. } =
                run(u64::from(number), Faults { broken: Some((of, number)), ..Faults::default() });
            if !world.is_broken {
                assert!(result.is_ok(), "nothing went wrong");
                continue;
            }
            let Err(broken) = result else { panic!("order {number}: the trial is whole without station {of}") };
            assert!(matches!(broken.error, TrialError::Agent(AgentError::Talk { .. })), "{}", broken.error);
            let began = world.told.iter().any(|(_, order)| matches!(order, ToAgent::Start { .. }));
            assert!(began || broken.had.iter().all(Option::is_none), "nothing began, and nothing was recorded");
            for (stream, had) in broken.had.iter().enumerate() {
                let Some(had) = had else { continue };
                assert_in_place(stream, had, number.into());
                // A thread that is named though its end is gone was named when it was made ready,
                // by no mark.
                let there: BTreeSet<Side> = marks(stream as u8, had).into_iter().map(|(side, _)| side).collect();
                for side in sides(stream) {
                    assert_eq!(there.contains(side), world.handed.contains(&(stream as u8, *side)), "{stream} {side}");
                }
                let sent = world.packets.get(&(stream as u8)).copied().unwrap_or(0);
                assert_eq!(had.halves.sent.len(), sent as usize, "rows for what was sent, or for what arrived");
            }
            salvaged.insert(broken.had.iter().filter(|had| had.is_some()).count());
            let lost = world.ids[of];
            let behind = world.told.iter().skip(world.broke_at).filter(|(at, _)| *at == lost);
            let asked = behind.filter(|(_, order)| world.phase(order) == "collect").count();
            assert_eq!(asked, 0, "order {number}: a station that is gone is asked for its halves");
        }
    }
    assert!(salvaged.contains(&0) && salvaged.contains(&3), "{salvaged:?}");
}

#[test]
fn a_stop_at_any_moment_ends_the_trial_with_what_was_sent() {
    let mut cut = 0;
    for at in 0..60 {
        let Ended { result, world, .. } = run(u64::from(at), Faults { stop: Some(at), ..Faults::default() });
        let halves = result.unwrap_or_else(|broken| panic!("stopped at {at}: {}", broken.error));
        let sent: Vec<usize> = world.packets.values().map(|packets| *packets as usize).collect();
        assert_eq!(rows(&halves), sent, "stopped at {at}");
        cut += usize::from(sent.iter().any(|sent| *sent < COUNT as usize));
        // An activity that got the order to send gets the order to stop after it, unless all have
        // sent everything by then.
        let all: Vec<(StationId, &str)> = world.told.iter().map(|(of, order)| (*of, world.phase(order))).collect();
        let stops: Vec<usize> = (0..all.len()).filter(|n| all[*n].1 == "stop sending").collect();
        let told: BTreeSet<StationId> = stops.iter().map(|n| all[*n].0).collect();
        let was_over = all.iter().any(|(_, phase)| *phase == "collect loads");
        assert!(stops.len() == 2 && told.len() == 2 || was_over && stops.is_empty(), "stopped at {at}: {all:?}");
        assert!(stops.iter().all(|n| all[..*n].iter().any(|(_, phase)| *phase == "start")), "stopped at {at}: {all:?}");
    }
    assert!(cut > 5, "{cut} stops came while packets were sent: too few");
}

#[test]
fn a_warm_up_that_finds_no_stamps_ends_at_its_limit() {
    for seed in 0..20 {
        let Ended { result, world, .. } = run(seed, Faults { cold: true, ..Faults::default() });
        let halves = result.unwrap_or_else(|broken| panic!("seed {seed}: {}", broken.error));
        assert!(halves.iter().all(|halves| !halves.halves.warmup.flowed && halves.halves.warmup.sent > 0));
        assert!((2_000_000_000..4_000_000_000).contains(&world.now_ns), "{} ns", world.now_ns);
    }
}

#[test]
fn one_seed_gives_one_course() {
    let faults = Faults { lost: 5, doubled: 100, late: 5, failing: 2, ..Faults::default() };
    for seed in 0..20 {
        let [one, other] = [run(seed, faults), run(seed, faults)];
        assert_eq!((one.steps, one.world.now_ns), (other.steps, other.world.now_ns));
        assert_eq!(one.world.told, other.world.told);
    }
}

#[test]
fn only_a_count_that_moves_is_a_sign_of_life() {
    let slow = |slow| run(1, Faults { slow: Some(slow), ..Faults::default() });
    let Ended { result, world, .. } = slow(Slow::Stuck);
    let Err(broken) = result else { panic!("a sender that is stuck ends the trial") };
    let says = broken.error.to_string();
    assert!(says.contains("did not answer within 20 s while the trial runs"), "{says}");
    assert!((20_000_000_000..30_000_000_000).contains(&world.now_ns), "{} ns", world.now_ns);
    let Ended { result, world, .. } = slow(Slow::Moving);
    assert!(result.is_ok() && world.now_ns > 40_000_000_000, "one that sends on is waited for");
}

#[test]
fn stations_that_are_to_be_silent_were_missed_in_a_long_trial() {
    let silent = |expected| run(1, Faults { slow: Some(Slow::Silent { expected }), ..Faults::default() });
    let Ended { result, world, .. } = silent(true);
    assert!(result.is_ok() && world.now_ns > 21_000_000_000, "as long as the trial may take");
    assert!(silent(false).result.is_err(), "nobody else is waited for so long");
}

// Its `cannot` has a load that is a program, and an end that can only wait by polling a device,
// which no socket of this world has.
#[test]
fn a_cell_that_cannot_be_run_left_the_programs_of_its_loads_running_into_the_next_one() {
    let Ended { result, world, .. } =
        run(1, Faults { experiment: Some(tardy_tests::experiment("cannot")), ..Faults::default() });
    let Err(Broken { error: TrialError::CannotDo(why), had }) = result else { panic!("it cannot be done here") };
    assert!(why.contains("busypoll"), "{why}");
    assert!(had.iter().all(Option::is_none), "nothing began");
    let phases = world.phases();
    assert!(!phases.contains(&"start"), "{phases:?}");
    let at = |name| phases.iter().position(|phase| *phase == name);
    assert!(at("connect loads") < at("stop loads") && at("stop loads").is_some(), "{phases:?}");
    assert_eq!(world.leftovers_ended, 1);
}

#[test]
fn a_device_that_leaves_no_room_for_a_stamp_is_refused_before_the_first_packet() {
    let faults = Faults { experiment: Some(tardy_tests::experiment("by xdp")), bare: true, ..Faults::default() };
    let Ended { result, world, .. } = run(1, faults);
    let Err(Broken { error: TrialError::CannotDo(why), .. }) = result else { panic!("nothing stamps a packet") };
    assert!(why.contains("none of 10 warm-up packets has the stamp of the XDP program"), "{why}");
    assert!(!world.phases().contains(&"start"), "{:?}", world.phases());
    let Ended { result, .. } = run(1, Faults { bare: false, ..faults });
    assert!(result.is_ok(), "with stamps it runs");
}

#[test]
fn a_users_program_that_stamps_no_warm_up_packet_is_named_before_the_first_packet() {
    let experiment = Some(tardy_tests::experiment("by xdp"));
    for (bare, named) in [(true, &[(10, false)][..]), (false, &[])] {
        let faults = Faults { experiment, bare, own_program: true, ..Faults::default() };
        let Ended { result, world, .. } = run(1, faults);
        // It may stamp some packets only, and the trial goes on.
        assert_eq!(rows(&result.unwrap_or_else(|broken| panic!("{}", broken.error))), [COUNT as usize]);
        assert_eq!(world.unstamped, named);
        assert!(world.phases().contains(&"start"));
    }
}

// The receiver of `by program` is on the CPU of the XDP program, which is taken to be that of the
// sender, CPU 1.
#[test]
fn no_trial_starts_where_the_warm_up_shows_the_xdp_program_elsewhere() {
    let shown = |program_cpus| {
        run(1, Faults { experiment: Some(tardy_tests::experiment("by program")), program_cpus, ..Faults::default() })
    };
    // As it was taken to be; or nothing came by which to know it, and the verdict says so.
    for program_cpus in [&[1][..], &[]] {
        let Ended { result, .. } = shown(program_cpus);
        let halves = result.unwrap_or_else(|broken| panic!("{program_cpus:?}: {}", broken.error));
        assert_eq!(rows(&halves), [COUNT as usize], "{program_cpus:?}");
    }
    // On one other CPU: the receiver can be placed by that.
    let Ended { result, world, .. } = shown(&[0]);
    let Err(Broken { error: TrialError::Elsewhere { stream, program }, had }) = result else {
        panic!("the receiver is on CPU 1");
    };
    assert_eq!((&*stream, program), ("one", 0));
    assert!(had.iter().all(Option::is_none) && !world.phases().contains(&"start"), "nothing began");
    // On several, of which none will do.
    let Err(Broken { error: TrialError::CannotDo(why), .. }) = shown(&[1, 0]).result else {
        panic!("it has no one CPU");
    };
    assert!(why.contains("in the warm-up it ran on CPUs 1 and 0: pin the sender (tx.cpu)"), "{why}");
}

#[test]
fn a_trial_of_loads_alone_ends() {
    for seed in 0..500 {
        let Ended { result, world, mut loads, .. } = run(seed, Faults { only_loads: true, ..Faults::default() });
        let halves = result.unwrap_or_else(|broken| panic!("seed {seed}: {}", broken.error));
        assert!(halves.is_empty(), "seed {seed}: there is no stream");
        let order = ["prepare", "connect loads", "start loads", "stop loads", "collect loads"];
        assert_eq!(world.phases(), order, "seed {seed}");
        assert_eq!(world.looks, 2, "seed {seed}");
        // Nothing else says when they start, so it is as soon as they may.
        let base = world.told.iter().find_map(|(_, order)| match order {
            ToAgent::Start { base, .. } => Some(base.ns()),
            _ => None,
        });
        let ahead_ns = 15_000_000 + loads.lead().0;
        let (first, last) = (1_000_000_000_000 + ahead_ns, world.now().tai.ns() + ahead_ns);
        assert!(base.is_some_and(|base| (first..last).contains(&base)), "seed {seed}: {base:?}");
        assert_eq!(loads.records().len(), 1, "seed {seed}: what they did is there");
        assert_eq!(loads.output(), [("busy-1.log".to_owned(), b"a line\n".to_vec())], "seed {seed}");
    }
    let (mut whole, mut broken) = (0, 0);
    for seed in 0..1_000 {
        let faults = Faults { lost: 30, doubled: 100, late: 50, failing: 20, only_loads: true, ..Faults::default() };
        let Ended { result, world, .. } = run(seed, faults);
        match result {
            Ok(_) => whole += 1,
            Err(error) => {
                broken += 1;
                assert!(error.had.is_empty(), "seed {seed}");
            }
        }
        assert!(world.now_ns < 100_000_000_000, "seed {seed}: {} ns", world.now_ns);
    }
    assert!(whole > 100 && broken > 100, "{whole} whole, {broken} broken: the faults are too rare or too frequent");
}

#[test]
fn a_station_that_speaks_of_an_unknown_activity_is_never_taken_to_speak_of_another() {
    let mut unknown = BTreeSet::new();
    for seed in 0..2_000 {
        let Ended { result, world, .. } = run(seed, Faults { misnamed: 10, ..Faults::default() });
        let halves: Vec<(usize, StreamHalves)> = match result {
            Ok(halves) => {
                assert_eq!(
                    world.misnamed, 0,
                    "seed {seed}: the trial is whole although a station spoke of what it has not"
                );
                halves.into_iter().enumerate().collect()
            }
            Err(broken) => {
                let TrialError::Agent(AgentError::NotIts { station, activity }) = broken.error else {
                    panic!("seed {seed}: {}", broken.error);
                };
                assert!(world.misnamed > 0, "seed {seed}");
                let at = world.activities.get(&activity).map(|(at, _)| *at);
                assert!(at != Some(world.ids[usize::from(station == "b")]), "seed {seed}: `{station}` has {activity}");
                unknown.insert(activity);
                broken.had.into_iter().enumerate().filter_map(|(i, had)| Some((i, had?))).collect()
            }
        };
        halves.iter().for_each(|(stream, halves)| assert_in_place(*stream, halves, seed));
    }
    // The number of nobody, and those of the seven ends and of the load.
    let all: BTreeSet<ActivityId> = (0..8).map(ActivityId).chain([NOBODY]).collect();
    assert_eq!(unknown, all);
}

/// What a trial came to, and what the world saw of it.
struct Ended {
    loads: Loads,
    result: Result<Vec<StreamHalves>, Broken>,
    world: World,
    steps: u32,
}

fn run(seed: u64, faults: Faults) -> Ended {
    let (mut streams, mut loads, stations) =
        trial(faults.experiment.unwrap_or_else(|| tardy_tests::experiment("orderings")));
    if faults.only_loads {
        streams.clear();
    }
    if faults.own_program {
        let own = XdpObject { file: "own.o".to_owned(), section: None, times: Vec::new(), bytes: Arc::default() };
        streams.iter_mut().for_each(|ordered| ordered.stream.rx.object = Some(own.clone()));
    }
    let mut world = World {
        random: Pcg64Mcg::seed_from_u64(seed),
        faults,
        now_ns: 0,
        coming: BTreeMap::new(),
        sent: 0,
        orders: 0,
        looks: 0,
        told: Vec::new(),
        latest_ns: BTreeMap::new(),
        activities: BTreeMap::new(),
        collected: BTreeSet::new(),
        sending: BTreeMap::new(),
        packets: BTreeMap::new(),
        handed: BTreeSet::new(),
        misnamed: 0,
        has_failed: false,
        leftovers_ended: 0,
        unstamped: Vec::new(),
        ids: stations.keys().copied().collect(),
        is_broken: false,
        broke_at: 0,
    };
    let (mut machine, mut outputs) =
        TrialMachine::begin(&streams, &mut loads, stations, Nanos::from_millis(15), world.now());
    if faults.slow == Some(Slow::Silent { expected: true }) {
        // The one that sends is expected to be silent, and the other one is not.
        machine.expect_silence(world.ids.iter().copied().take(1).collect());
    }
    for steps in 0..STEPS {
        outputs.into_iter().for_each(|output| world.perform(output));
        if let Some(result) = machine.result() {
            assert!(machine.is_over());
            drop(machine);
            return Ended { loads, result, world, steps };
        }
        let next = world.coming.first_key_value().map(|((at_ns, _), _)| *at_ns);
        let input = match (next, machine.deadline().map(Instant::ns)) {
            _ if faults.stop == Some(steps) => Input::Stop,
            (Some(at_ns), deadline) if deadline.is_none_or(|deadline| at_ns <= deadline) => {
                world.now_ns = world.now_ns.max(at_ns);
                world.coming.pop_first().map_or(Input::Tick, |(_, input)| input)
            }
            (_, Some(deadline)) => {
                world.now_ns = world.now_ns.max(deadline + 1);
                Input::Tick
            }
            (None, None) => panic!("seed {seed}: the trial waits for nothing, in step {steps}"),
            (Some(_), None) => unreachable!("the arm above takes it"),
        };
        outputs = machine.handle(world.now(), input);
    }
    panic!("seed {seed}: not over after {STEPS} inputs");
}

/// What an agent hands over without end.
type Piece = fn(ActivityId) -> FromAgent;

#[test]
fn an_agent_that_hands_over_pieces_without_end_filled_the_coordinators_memory() {
    // The trial has ten packets, and room for duplicates of them. No program wrote before packets.
    let bytes = |activity| FromAgent::AreaPiece { activity, areas: vec![7; 1 << 20] };
    let stamps = |activity| FromAgent::XdpPiece { activity, stamps: vec![XdpStamp::NONE; 1_000] };
    let pieces: [(Piece, &str); 2] =
        [(bytes, "1048576 bytes before packets of stream `"), (stamps, "2000 stamps of an XDP program of stream `")];
    for (piece, says) in pieces {
        for seed in 0..20 {
            let Ended { result, .. } = run(seed, Faults { endless: Some(piece), ..Faults::default() });
            let Err(broken) = result else { panic!("seed {seed}: it was taken for a whole trial") };
            let what = broken.error.to_string();
            assert!(what.contains(says) && what.contains("has room for"), "seed {seed}: {what}");
            // What the other ends recorded is kept, and what came before is no half of this one.
            let had: Vec<_> = broken.had.iter().flatten().map(|had| &had.halves).collect();
            assert_eq!(had.len(), 3, "seed {seed}");
            assert!(had[0].areas.is_empty() && had[0].xdp_stamps.is_empty() && had[0].arrivals.is_empty());
            assert_eq!((had[0].sent.len(), had[1].sent.len()), (10, 10), "seed {seed}");
        }
    }
}

#[test]
fn an_agent_that_hands_over_nothing_without_end_was_waited_for_without_end() {
    let pieces: [Piece; 4] = [
        |activity| FromAgent::SenderPiece { activity, rows: SentRows::default() },
        |activity| FromAgent::ArrivalPiece { activity, arrivals: Vec::new() },
        |activity| FromAgent::XdpPiece { activity, stamps: Vec::new() },
        |activity| FromAgent::AreaPiece { activity, areas: Vec::new() },
    ];
    for piece in pieces {
        let Ended { result, world, .. } = run(1, Faults { empty: Some(piece), ..Faults::default() });
        let Err(broken) = result else { panic!("it was taken for a whole trial") };
        let what = broken.error.to_string();
        assert!(what.contains("did not answer within 20 s while handing over samples"), "{what}");
        assert!(world.now_ns < 60_000_000_000, "{} s", world.now_ns / 1_000_000_000);
        // What the other ends recorded is kept.
        assert_eq!(broken.had.iter().flatten().count(), 3);
    }
}
