// SPDX-License-Identifier: MIT OR Apache-2.0
//! Agents that hand over without end what a receiver recorded: too much, or nothing at all.

use super::world::Faults;
use super::{Ended, run};
use tardy_engine::message::{ActivityId, FromAgent};
use tardy_engine::port::XdpStamp;
use tardy_engine::sender::SentRows;

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
