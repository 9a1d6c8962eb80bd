// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads over UDP. They share the pair of sockets, sending in batches, and receiving until it is
//! quiet after the end.
//!
//! - `udp_flood`: datagrams at a rate, or as fast as possible, from → to.
//! - `camera`: frames at a fixed rate, each a burst of datagrams, from → to.

use crate::load::work::{LIMIT, LoadOrder, NAP, Watch, Work};
use std::io;
use tardy_model::load::Rate;
use tardy_model::time::Nanos;
use tardy_sys::clock;
use tardy_sys::datagrams::{Batch, Datagrams, MOST};

/// After the end, this number of calls in a row that bring nothing means that nothing is under way
/// any more.
const QUIET: u32 = 2;

/// What a side does with its socket.
type Role = Box<dyn FnMut(&Datagrams, &mut Watch) + Send>;

/// A side: it answers at `to`.
struct UdpSide {
    socket: Datagrams,
    answers: bool,
    role: Role,
}

impl Work for UdpSide {
    fn answers(&self) -> bool {
        self.answers
    }

    fn run(&mut self, watch: &mut Watch) {
        (self.role)(&self.socket, watch);
    }
}

/// A side whose sender is `sends`; datagrams have at most `room` bytes.
pub(super) fn side(
    order: &LoadOrder,
    room: u64,
    sends: impl FnMut(&Datagrams, &mut Watch) + Send + 'static,
) -> Result<Box<dyn Work>, String> {
    let socket = Datagrams::open(order.local, order.remote, order.buffers(), LIMIT)
        .map_err(|error| format!("{error}: is another program using the port in this namespace?"))?;
    Ok(match order.at.peer {
        true => {
            let mut batch = Batch::new(room as usize);
            let role = move |socket: &Datagrams, watch: &mut Watch| receive(socket, watch, &mut batch);
            Box::new(UdpSide { socket, answers: true, role: Box::new(role) })
        }
        false => Box::new(UdpSide { socket, answers: false, role: Box::new(sends) }),
    })
}

/// Sends these and counts them; how many were taken, `None` if it broke.
pub(super) fn send(socket: &Datagrams, watch: &mut Watch, batch: &mut Batch, lengths: &[usize]) -> Option<usize> {
    match socket.send(batch, lengths) {
        Ok(sent) => {
            let bytes = lengths[..sent.min(lengths.len())].iter().map(|bytes| *bytes as u64).sum();
            watch.sent(watch.now(), sent as u64, bytes);
            Some(sent)
        }
        // The queue is full: what it cannot take is not sent, and the rate shows it.
        Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Some(0),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Some(0),
        Err(error) => {
            watch.broke("send", &error);
            None
        }
    }
}

fn receive(socket: &Datagrams, watch: &mut Watch, batch: &mut Batch) {
    watch.receiving();
    let mut quiet = 0;
    loop {
        let came = socket.receive(batch);
        let now = watch.now();
        match came {
            Ok(Some((datagrams, bytes))) => {
                quiet = 0;
                watch.received(now, datagrams as u64, bytes);
            }
            Ok(None) if watch.is_over(now) => quiet += 1,
            Ok(None) => {}
            Err(error) => {
                watch.broke("receive", &error);
                break;
            }
        }
        if quiet == QUIET || watch.past_grace(now) {
            break;
        }
    }
    watch.note_end();
}

pub(super) fn udp_flood(order: &LoadOrder, size: u64, rate: Option<Rate>) -> Result<Box<dyn Work>, String> {
    let mut batch = Batch::new(size as usize);
    side(order, size, move |socket, watch| flood(socket, watch, &mut batch, size, rate))
}

fn flood(socket: &Datagrams, watch: &mut Watch, batch: &mut Batch, size: u64, rate: Option<Rate>) {
    let lengths = [size as usize; MOST];
    // When datagram n is due, ns after the beginning.
    let due_ns = |n: u64| match rate {
        None => 0,
        Some(Rate::Packets(rate)) => u128::from(n) * 1_000_000_000 / u128::from(rate.max(1)),
        Some(Rate::Bits(rate)) => u128::from(n) * u128::from(size) * 8_000_000_000 / u128::from(rate.max(1)),
    };
    // How many are due `ns` after the beginning.
    let due = |ns: u128| match rate {
        None => u128::MAX,
        Some(Rate::Packets(rate)) => ns * u128::from(rate) / 1_000_000_000 + 1,
        Some(Rate::Bits(rate)) => ns * u128::from(rate) / (u128::from(size) * 8_000_000_000) + 1,
    };
    let began = watch.now();
    loop {
        let now = watch.now();
        if watch.is_over(now) {
            break;
        }
        let sent = watch.record.sends;
        // The schedule does not wait for a sender that was held up: it catches up, or falls short,
        // and the record reports that.
        let missing = due((now - began).0.max(0) as u128).saturating_sub(u128::from(sent)).min(MOST as u128) as usize;
        if missing == 0 {
            let next = began + Nanos(i64::try_from(due_ns(sent)).unwrap_or(i64::MAX / 4));
            clock::sleep_until(next.min(now + NAP));
        } else if send(socket, watch, batch, &lengths[..missing]).is_none() {
            break;
        }
    }
    watch.note_end();
}

pub(super) fn camera(order: &LoadOrder, fps: u32, frame_size: u64, packet_size: u64) -> Result<Box<dyn Work>, String> {
    let mut batch = Batch::new(packet_size as usize);
    let packets = packets(frame_size, packet_size);
    side(order, packet_size, move |socket, watch| film(socket, watch, &mut batch, fps, &packets))
}

/// The lengths of a frame's datagrams: full ones and the rest.
fn packets(frame_size: u64, packet_size: u64) -> Vec<usize> {
    let full = (frame_size / packet_size) as usize;
    let rest = Some((frame_size % packet_size) as usize).filter(|rest| *rest > 0);
    std::iter::repeat_n(packet_size as usize, full).chain(rest).collect()
}

fn film(socket: &Datagrams, watch: &mut Watch, batch: &mut Batch, fps: u32, packets: &[usize]) {
    let began = watch.now();
    let mut frame: i64 = 0;
    'frames: loop {
        let due = began + Nanos(frame * 1_000_000_000 / i64::from(fps.max(1)));
        if !watch.sleep_until(due) {
            break;
        }
        let mut rest = packets;
        while !rest.is_empty() {
            let most = rest.len().min(MOST);
            let Some(sent) = send(socket, watch, batch, &rest[..most]) else { break 'frames };
            rest = &rest[sent..];
            let now = watch.now();
            if watch.is_over(now) {
                break 'frames;
            }
        }
        frame += 1;
    }
    watch.note_end();
}
