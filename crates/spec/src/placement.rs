// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads cannot share a CPU. Pure: asked here for CPUs that the file numbers, and again by
//! whoever resolves `auto`.

use tardy_model::stream::{Kind, Side, Stream, UNDER_TEST, Wait};

/// True if the thread spins under a realtime policy: nothing else of its priority or below runs on
/// its CPU meanwhile.
pub fn spins_realtime(stream: &Stream, side: Side) -> bool {
    let (spins, policy) = match side {
        Side::Tx if stream.kind == Kind::Pingpong => (stream.tx.wait == Wait::Spin, stream.tx.policy),
        Side::Tx => (stream.tx.spin.0 > 0, stream.tx.policy),
        Side::Rx => (stream.rx.wait == Wait::Spin, stream.rx.policy),
        Side::Reply => (stream.tx.wait == Wait::Spin, stream.reply.policy),
    };
    spins && policy.is_realtime() && !stream.port.traits().is_simulated
}

/// A thread of a stream.
pub type StreamThread<'s> = (&'s Stream, Side);

/// The first two threads that spin under a realtime policy on one CPU, and that CPU. Each stream
/// comes with what is known about it, from which `cpu_of` finds a thread's CPU; `None` if that is
/// not known or not a single one.
pub fn clash<'s, K, C: PartialEq>(
    streams: impl Iterator<Item = (&'s Stream, K)>,
    cpu_of: impl Fn(&'s Stream, &K, Side) -> Option<C>,
) -> Option<(C, StreamThread<'s>, StreamThread<'s>)> {
    let mut seen: Vec<(C, StreamThread<'s>)> = Vec::new();
    for (stream, known) in streams {
        for end in Side::of(stream) {
            let Some(cpu) = cpu_of(stream, &known, end).filter(|_| spins_realtime(stream, end)) else { continue };
            if let Some((_, earlier)) = seen.iter().find(|(taken, _)| *taken == cpu) {
                return Some((cpu, *earlier, (stream, end)));
            }
            seen.push((cpu, (stream, end)));
        }
    }
    None
}

/// The thread of a stream that receives at a station.
pub fn receives_at(stream: &Stream, station: &str) -> Option<Side> {
    match stream.kind {
        _ if stream.to == station => Some(Side::Rx),
        Kind::Reflected if stream.from == station => Some(Side::Reply),
        Kind::Pingpong if stream.from == station => Some(Side::Tx),
        Kind::Cyclic | Kind::Reflected | Kind::Pingpong => None,
    }
}

/// The thread that receives at a station: that of the stream under test, which is called `ctl` or
/// comes first; else that of the first stream that has one there.
pub fn receiver_at<'s>(streams: &'s [Stream], station: &str) -> Option<StreamThread<'s>> {
    let under_test = streams.iter().find(|stream| stream.name == UNDER_TEST);
    let in_order = under_test.into_iter().chain(streams);
    in_order.filter_map(|stream| Some((stream, receives_at(stream, station)?))).next()
}
