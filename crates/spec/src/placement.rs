// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads cannot share a CPU. Pure: asked here for CPUs that the file numbers, and again by whoever resolves `auto`.

use std::fmt;
use tardy_model::stream::{CpuChoice, Kind, Policy, Port, Stream, UNDER_TEST, Wait};

/// An end of a stream: one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The sender.
    Tx,
    /// The receiver, or the reflector.
    Rx,
    /// Receives the replies of a reflected stream.
    Reply,
}

impl End {
    /// The ends that a stream has.
    pub fn of(stream: &Stream) -> impl Iterator<Item = End> {
        [End::Tx, End::Rx].into_iter().chain((stream.kind == Kind::Reflected).then_some(End::Reply))
    }

    /// The CPU that its thread is to have.
    pub fn cpu(self, stream: &Stream) -> CpuChoice {
        match self {
            End::Tx => stream.tx.cpu,
            End::Rx => stream.rx.cpu,
            End::Reply => stream.reply.cpu,
        }
    }

    /// The thread that its `same` and `different` mean.
    pub fn other(self) -> End {
        if self == End::Tx { End::Rx } else { End::Tx }
    }

    /// The policy that its thread is to have.
    pub fn policy(self, stream: &Stream) -> Policy {
        match self {
            End::Tx => stream.tx.policy,
            End::Rx => stream.rx.policy,
            End::Reply => stream.reply.policy,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Tx => "tx",
            End::Rx => "rx",
            End::Reply => "reply",
        })
    }
}

/// True if the thread spins under a realtime policy: nothing else of its priority or below runs on its CPU meanwhile.
pub fn spins_realtime(stream: &Stream, end: End) -> bool {
    let (spins, policy) = match end {
        End::Tx if stream.kind == Kind::Pingpong => (stream.tx.wait == Wait::Spin, stream.tx.policy),
        End::Tx => (stream.tx.spin.0 > 0, stream.tx.policy),
        End::Rx => (stream.rx.wait == Wait::Spin, stream.rx.policy),
        End::Reply => (stream.tx.wait == Wait::Spin, stream.reply.policy),
    };
    spins && policy.is_realtime() && stream.port != Port::Sim
}

/// The first two threads, each as number of the stream and end, that spin under a realtime policy on one CPU. `cpu_of`
/// says which CPU a thread has, `None` if that is not known or not one.
pub fn clash<C: PartialEq>(
    streams: &[Stream],
    cpu_of: impl Fn(usize, End) -> Option<C>,
) -> Option<((usize, End), (usize, End))> {
    let mut seen: Vec<(C, (usize, End))> = Vec::new();
    for (n, stream) in streams.iter().enumerate() {
        for end in End::of(stream) {
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
pub fn receives_at(stream: &Stream, station: &str) -> Option<End> {
    match stream.kind {
        _ if stream.to == station => Some(End::Rx),
        Kind::Reflected if stream.from == station => Some(End::Reply),
        Kind::Pingpong if stream.from == station => Some(End::Tx),
        Kind::Cyclic | Kind::Reflected | Kind::Pingpong => None,
    }
}

/// The thread that receives at a station, as number of the stream and end: of the stream under test, which is called `ctl` or
/// stands first; else of the first stream that has one there.
pub fn receiver_at(streams: &[Stream], station: &str) -> Option<(usize, End)> {
    let under_test = streams.iter().position(|stream| stream.name == UNDER_TEST);
    let in_order = under_test.into_iter().chain(0..streams.len());
    in_order.filter_map(|n| Some((n, receives_at(&streams[n], station)?))).next()
}
