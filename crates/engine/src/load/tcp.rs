// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads over TCP. They share a side that calls or answers, and then sends or receives bulk.
//!
//! - `tcp_stream`: bulk, from → to.
//! - `tcp_maerts`: bulk, to → from. The station that calls receives, as one that fetches data does.
//! - `tcp_rr`: request and response, one in flight.
//! - `sporadic`: bursts with gaps between them, both drawn from the trial's own randomness, from →
//!   to.

use crate::load::work::{LIMIT, LoadOrder, NAP, Watch, Work};
use crate::port::tcp::record;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tardy_model::load::Distribution;
use tardy_model::time::Nanos;
use tardy_sys::clock;
use tardy_sys::tcp::{Buffers, Listener, Tcp};

/// The other side is reached within this time or not at all.
const REACH: Duration = Duration::from_secs(5);
/// Room of a receive call.
const ROOM: usize = 128 << 10;

enum Link {
    Waiting(Listener),
    /// At `from`, which connects to the side at `to`.
    Calling {
        from: SocketAddr,
        to: SocketAddr,
        buffers: Buffers,
    },
    Up(Tcp),
}

/// What a side does with its connection.
type Role = Box<dyn FnMut(&Tcp, &mut Watch) + Send>;

struct TcpSide {
    link: Link,
    peer: SocketAddr,
    answers: bool,
    role: Role,
}

/// A side that listens at `to` and calls at `from`, whatever it does then. One that only `answers`
/// works at once.
pub(super) fn side(
    order: &LoadOrder,
    answers: bool,
    role: impl FnMut(&Tcp, &mut Watch) + Send + 'static,
) -> Result<Box<dyn Work>, String> {
    let link = if order.at.peer {
        let listener = Listener::open(order.local, order.buffers())
            .map_err(|error| format!("{error}: is another program using the port in this namespace?"))?;
        Link::Waiting(listener)
    } else {
        // Any port: the one of the trial before may still be remembered.
        let from = SocketAddr::new(order.local.ip(), 0);
        Link::Calling { from, to: order.remote, buffers: order.buffers() }
    };
    Ok(Box::new(TcpSide { link, peer: order.remote, answers, role: Box::new(role) }))
}

impl Work for TcpSide {
    fn connect(&mut self, stop: &AtomicBool) -> Result<(), String> {
        let tcp = match &self.link {
            Link::Up(_) => return Ok(()),
            Link::Calling { from, to, buffers } => {
                Tcp::connect(Some(*from), *to, *buffers, REACH).map_err(|error| error.to_string())?
            }
            Link::Waiting(listener) => {
                let until = Instant::now() + REACH;
                loop {
                    // Connections of strangers are closed.
                    match listener.accept(LIMIT).map_err(|error| error.to_string())? {
                        Some(tcp) if tcp.peer() == Some(self.peer.ip()) => break tcp,
                        _ if stop.load(Relaxed) => return Err("stopped before it was called".to_owned()),
                        _ if Instant::now() >= until => {
                            return Err(format!("nobody called from {} within {} s", self.peer.ip(), REACH.as_secs()));
                        }
                        _ => {}
                    }
                }
            }
        };
        tcp.limit(LIMIT).map_err(|error| format!("SO_RCVTIMEO: {error}"))?;
        self.link = Link::Up(tcp);
        Ok(())
    }

    fn answers(&self) -> bool {
        self.answers
    }

    fn run(&mut self, watch: &mut Watch) {
        let Link::Up(tcp) = &self.link else { return };
        (self.role)(tcp, watch);
        watch.record.tcp = tcp.info().ok().map(record);
    }
}

/// Sends by calls of `size` bytes, as fast as possible or at a rate in bits a second.
pub(super) fn send(tcp: &Tcp, watch: &mut Watch, size: u64, rate: Option<u64>) {
    let bytes = vec![0x5a; size as usize];
    let began = watch.now();
    loop {
        let now = watch.now();
        if watch.is_over(now) {
            break;
        }
        if let Some(rate) = rate {
            // The next call is due when the rate has got so far.
            let due_ns = u128::from(watch.record.sent_bytes) * 8_000_000_000 / u128::from(rate.max(1));
            let due = began + Nanos(i64::try_from(due_ns).unwrap_or(i64::MAX / 4));
            if due > now {
                clock::sleep_until(due.min(now + NAP));
                continue;
            }
        }
        match tcp.send(&bytes) {
            Ok(0) => {}
            Ok(sent) => watch.sent(now, 1, sent as u64),
            Err(error) => {
                watch.broke("send", &error);
                break;
            }
        }
    }
    hang_up(tcp, watch);
}

/// Sends all of it; false if that was not to be.
pub(super) fn send_all(tcp: &Tcp, watch: &mut Watch, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let now = watch.now();
        match tcp.send(bytes) {
            Ok(sent) => {
                if sent > 0 {
                    watch.sent(now, 1, sent as u64);
                }
                bytes = &bytes[sent..];
            }
            Err(error) => {
                watch.broke("send", &error);
                return false;
            }
        }
        if !bytes.is_empty() && watch.past_grace(now) {
            return false;
        }
    }
    true
}

/// Ends the sending, and waits until the other side has taken all and ended too.
pub(super) fn hang_up(tcp: &Tcp, watch: &mut Watch) {
    watch.note_end();
    if watch.record.broke.is_some() || tcp.end().is_err() {
        return;
    }
    let mut rest = [0; 4_096];
    loop {
        let now = watch.now();
        match tcp.receive(&mut rest) {
            Ok(Some(0)) | Err(_) => return,
            Ok(_) if watch.past_grace(now) => return,
            Ok(_) => {}
        }
    }
}

/// Receives until the other side ends, and ends then too.
pub(super) fn receive(tcp: &Tcp, watch: &mut Watch) {
    receive_with(tcp, watch, &mut vec![0; ROOM], |_, _| true);
}

/// The same; after each call `then` gets the bytes that came. It ends too if that returns false.
fn receive_with(tcp: &Tcp, watch: &mut Watch, room: &mut [u8], mut then: impl FnMut(&mut Watch, u64) -> bool) {
    watch.receiving();
    loop {
        let came = tcp.receive(room);
        let now = watch.now();
        let bytes = match came {
            Ok(Some(0)) => break,
            Ok(Some(bytes)) => {
                watch.received(now, 1, bytes as u64);
                bytes as u64
            }
            Ok(None) => 0,
            Err(error) => {
                watch.broke("receive", &error);
                break;
            }
        };
        if watch.past_grace(now) || !then(watch, bytes) {
            break;
        }
    }
    watch.note_end();
    let _ = tcp.end();
}

pub(super) fn tcp_stream(order: &LoadOrder, size: u64, rate: Option<u64>) -> Result<Box<dyn Work>, String> {
    match order.at.peer {
        true => side(order, true, receive),
        false => side(order, false, move |tcp, watch| send(tcp, watch, size, rate)),
    }
}

pub(super) fn tcp_maerts(order: &LoadOrder, size: u64) -> Result<Box<dyn Work>, String> {
    match order.at.peer {
        true => side(order, false, move |tcp, watch| send(tcp, watch, size, None)),
        false => side(order, true, receive),
    }
}

pub(super) fn tcp_rr(order: &LoadOrder, size: u64, reply_size: u64) -> Result<Box<dyn Work>, String> {
    match order.at.peer {
        true => side(order, true, move |tcp, watch| answer(tcp, watch, size, reply_size)),
        false => side(order, false, move |tcp, watch| ask(tcp, watch, size, reply_size)),
    }
}

fn ask(tcp: &Tcp, watch: &mut Watch, size: u64, reply_size: u64) {
    watch.receiving();
    let _ = tcp.no_delay(true);
    let request = vec![0x5a; size as usize];
    loop {
        let now = watch.now();
        // A transaction that was begun is finished: the connection does not close in the middle of
        // the other side's answer.
        if watch.is_over(now) || !send_all(tcp, watch, &request) || !take(tcp, watch, reply_size) {
            break;
        }
        watch.record.transactions += 1;
    }
    hang_up(tcp, watch);
}

/// Receives exactly `bytes` bytes; false if they do not come.
fn take(tcp: &Tcp, watch: &mut Watch, mut bytes: u64) -> bool {
    let mut room = vec![0; bytes.min(64 << 10) as usize];
    while bytes > 0 {
        let most = bytes.min(room.len() as u64) as usize;
        let came = tcp.receive(&mut room[..most]);
        let now = watch.now();
        match came {
            Ok(Some(0)) => {
                watch.broke("receive: the other side ended", &std::io::ErrorKind::UnexpectedEof.into());
                return false;
            }
            Ok(Some(came)) => {
                watch.received(now, 1, came as u64);
                bytes -= came as u64;
            }
            Ok(None) => {}
            Err(error) => {
                watch.broke("receive", &error);
                return false;
            }
        }
        if bytes > 0 && watch.past_grace(now) {
            return false;
        }
    }
    true
}

fn answer(tcp: &Tcp, watch: &mut Watch, size: u64, reply_size: u64) {
    let _ = tcp.no_delay(true);
    let reply = vec![0x5a; reply_size as usize];
    let mut waiting = 0;
    receive_with(tcp, watch, &mut vec![0; 64 << 10], |watch, bytes| {
        waiting += bytes;
        while waiting >= size {
            waiting -= size;
            if !send_all(tcp, watch, &reply) {
                return false;
            }
            watch.record.transactions += 1;
        }
        true
    });
}

pub(super) fn sporadic(
    order: &LoadOrder,
    size: u64,
    burst: Distribution,
    gap: Distribution,
) -> Result<Box<dyn Work>, String> {
    let mut random = Pcg64Mcg::seed_from_u64(order.seed);
    match order.at.peer {
        true => side(order, true, receive),
        false => side(order, false, move |tcp, watch| bursts(tcp, watch, size, burst, gap, &mut random)),
    }
}

fn bursts(tcp: &Tcp, watch: &mut Watch, size: u64, burst: Distribution, gap: Distribution, random: &mut Pcg64Mcg) {
    let bytes = vec![0x5a; size as usize];
    'all: loop {
        let mut left = burst.at(random.random());
        while left > 0 {
            let now = watch.now();
            if watch.is_over(now) {
                break 'all;
            }
            match tcp.send(&bytes[..left.min(size) as usize]) {
                Ok(0) => {}
                Ok(sent) => {
                    watch.sent(now, 1, sent as u64);
                    left -= sent as u64;
                }
                Err(error) => {
                    watch.broke("send", &error);
                    break 'all;
                }
            }
        }
        let next = watch.now() + Nanos(i64::try_from(gap.at(random.random())).unwrap_or(i64::MAX / 4));
        if !watch.sleep_until(next) {
            break;
        }
    }
    hang_up(tcp, watch);
}
