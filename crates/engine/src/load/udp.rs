// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kinds over UDP share: the pair of sockets, sending in batches, receiving until it is
//! quiet after the end.

use super::order::LoadOrder;
use super::watch::{LIMIT, Watch};
use super::work::Work;
use std::io;
use tardy_sys::datagrams::{Batch, Datagrams};

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
            Ok(None) if watch.over(now) => quiet += 1,
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
    watch.end();
}
