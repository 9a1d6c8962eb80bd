// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads cannot share a CPU. Pure: asked here for CPUs that the file numbers, and again by whoever resolves `auto`.

use tardy_model::stream::{Kind, Side, Stream, UNDER_TEST, Wait};

/// True if the thread spins under a realtime policy: nothing else of its priority or below runs on its CPU meanwhile.
pub fn spins_realtime(stream: &Stream, side: Side) -> bool {
    let (spins, policy) = match side {
        Side::Tx if stream.kind == Kind::Pingpong => (stream.tx.wait == Wait::Spin, stream.tx.policy),
        Side::Tx => (stream.tx.spin.0 > 0, stream.tx.policy),
        Side::Rx => (stream.rx.wait == Wait::Spin, stream.rx.policy),
        Side::Reply => (stream.tx.wait == Wait::Spin, stream.reply.policy),
    };
    spins && policy.is_realtime() && !stream.port.traits().is_simulated
}

/// The first two threads, each as number of the stream and end, that spin under a realtime policy on one CPU. `cpu_of`
/// says which CPU a thread has, `None` if that is not known or not one.
pub fn clash<C: PartialEq>(
    streams: &[Stream],
    cpu_of: impl Fn(usize, Side) -> Option<C>,
) -> Option<((usize, Side), (usize, Side))> {
    let mut seen: Vec<(C, (usize, Side))> = Vec::new();
    for (n, stream) in streams.iter().enumerate() {
        for end in Side::of(stream) {
            let Some(cpu) = cpu_of(n, end).filter(|_| spins_realtime(stream, end)) else { continue };
            if let Some((_, earlier)) = seen.iter().find(|(taken, _)| *taken == cpu) {
                return Some((*earlier, (n, end)));
            }
            seen.push((cpu, (n, end)));
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

/// The thread that receives at a station, as number of the stream and end: of the stream under test, which is called `ctl` or
/// stands first; else of the first stream that has one there.
pub fn receiver_at(streams: &[Stream], station: &str) -> Option<(usize, Side)> {
    let under_test = streams.iter().position(|stream| stream.name == UNDER_TEST);
    let in_order = under_test.into_iter().chain(0..streams.len());
    in_order.filter_map(|n| Some((n, receives_at(&streams[n], station)?))).next()
}
