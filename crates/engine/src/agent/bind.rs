// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an end binds before its thread starts, so that what cannot be had is known early: by port, the sockets and the work that is
//! done on them. A port is compiled into its own copy of the loops; which one is chosen once, here.

use super::link::{EndRecord, Link};
use super::threads;
use crate::order::{EndOrder, ReceiveOrder, SendOrder};
use crate::port::packet::{PacketReceive, PacketSend};
use crate::port::udp::{self, UdpReceive, UdpSend};
use crate::port::{ReceivePort, SendPort};
use crate::receiver::Shared;
use tardy_model::stream::Port;
use tardy_model::time::Nanos;
use tardy_sys::SysError;
use tardy_sys::udp::Waker;

/// What an end does on its thread.
type Work = Box<dyn FnOnce(&Shared, &Link) -> EndRecord + Send>;

/// An end that may begin.
pub(super) struct Bound {
    /// The size of its error queue, read back; 0 at a receiver.
    pub(super) error_queue_bytes: u64,
    /// Ends a wait for a packet; `None` where a wait ends by itself soon enough.
    pub(super) waker: Option<Waker>,
    /// It sleeps in receive calls without a time limit, and is poked to wake up.
    pub(super) is_poked: bool,
    /// What it does.
    pub(super) work: Work,
}

/// A port without connections: its ports are opened before the thread starts.
trait Datagrams {
    type To: SendPort + Send + 'static;
    type From: ReceivePort + Send + 'static;

    fn send(order: &SendOrder) -> Result<Self::To, SysError>;
    fn receive(order: &ReceiveOrder) -> Result<Self::From, SysError>;
    /// Both of an end that sends and receives.
    fn both(send: &SendOrder, receive: &ReceiveOrder) -> Result<(Self::To, Self::From), SysError> {
        Ok((Self::send(send)?, Self::receive(receive)?))
    }
    /// What ends a wait of the receiving port.
    fn waker(from: &Self::From) -> Result<Option<Waker>, SysError>;
    /// A receive call that waits returns after this time at the latest.
    fn keep_time(from: &mut Self::From, timeout: Nanos) -> Result<(), SysError>;
}

/// Port `udp`.
struct Udp;

impl Datagrams for Udp {
    type To = UdpSend;
    type From = UdpReceive;

    fn send(order: &SendOrder) -> Result<UdpSend, SysError> {
        UdpSend::open(order)
    }
    fn receive(order: &ReceiveOrder) -> Result<UdpReceive, SysError> {
        UdpReceive::open(order)
    }
    fn both(send: &SendOrder, receive: &ReceiveOrder) -> Result<(UdpSend, UdpReceive), SysError> {
        udp::both(send, receive)
    }
    fn waker(from: &UdpReceive) -> Result<Option<Waker>, SysError> {
        from.waker().map(Some)
    }
    fn keep_time(from: &mut UdpReceive, timeout: Nanos) -> Result<(), SysError> {
        from.keep_time(timeout)
    }
}

/// Port `packet`. Nothing wakes a packet socket's receiver: it looks at its order to stop when the wait's own limit has passed.
struct Frames;

impl Datagrams for Frames {
    type To = PacketSend;
    type From = PacketReceive;

    fn send(order: &SendOrder) -> Result<PacketSend, SysError> {
        PacketSend::open(order)
    }
    fn receive(order: &ReceiveOrder) -> Result<PacketReceive, SysError> {
        PacketReceive::open(order)
    }
    fn waker(_: &PacketReceive) -> Result<Option<Waker>, SysError> {
        Ok(None)
    }
    fn keep_time(from: &mut PacketReceive, timeout: Nanos) -> Result<(), SysError> {
        from.keep_time(timeout)
    }
}

/// Binds an end.
///
/// # Errors
/// The kernel's; of an order that its port cannot do, that this is so.
pub(super) fn bind(order: EndOrder) -> Result<Bound, SysError> {
    match order.port() {
        Port::Udp => datagrams::<Udp>(order),
        Port::Packet => datagrams::<Frames>(order),
        Port::Tcp => connection(order),
        Port::Sim => Err(not_here("port sim has no sockets")),
    }
}

fn not_here(what: &str) -> SysError {
    SysError {
        call: "opening a port",
        on: what.to_owned(),
        source: std::io::Error::from_raw_os_error(libc::EOPNOTSUPP),
    }
}

fn datagrams<P: Datagrams>(order: EndOrder) -> Result<Bound, SysError> {
    let bound = |error_queue_bytes, waker, work| Bound { error_queue_bytes, waker, is_poked: false, work };
    Ok(match order {
        EndOrder::Send(order) => {
            let to = P::send(&order)?;
            let queue = to.error_queue().1;
            bound(queue, None, Box::new(move |shared, link| threads::send(order, to, shared, link)))
        }
        EndOrder::Receive(order) => {
            let from = P::receive(&order)?;
            let waker = P::waker(&from)?;
            bound(0, waker, Box::new(move |shared, link| threads::receive(order, from, shared, link)))
        }
        EndOrder::Ask(order) => {
            let (to, mut from) = P::both(&order.send, &order.receive)?;
            P::keep_time(&mut from, order.timeout)?;
            let (queue, waker) = (to.error_queue().1, P::waker(&from)?);
            bound(queue, waker, Box::new(move |shared, link| threads::ask_on(order, (to, from), shared, link)))
        }
        EndOrder::Reflect(order) => {
            let (back, from) = P::both(&order.send, &order.receive)?;
            let (queue, waker) = (back.error_queue().1, P::waker(&from)?);
            bound(queue, waker, Box::new(move |shared, link| threads::reflect(order, (from, back), shared, link)))
        }
    })
}

/// Port `tcp`: the thread opens its sockets itself, in a table of file descriptors of its own.
fn connection(order: EndOrder) -> Result<Bound, SysError> {
    let work: Work = match order {
        EndOrder::Ask(order) => Box::new(move |shared, link| threads::ask_tcp(order, shared, link)),
        EndOrder::Reflect(order) => Box::new(move |shared, link| threads::reflect_tcp(order, shared, link)),
        EndOrder::Send(_) | EndOrder::Receive(_) => return Err(not_here("port tcp answers every packet")),
    };
    Ok(Bound { error_queue_bytes: 0, waker: None, is_poked: true, work })
}
