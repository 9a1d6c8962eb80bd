// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an end binds before its thread starts, so that what is not available is known early. A kind
//! of port is compiled into its own copy of the loops; which one is chosen once, here.

use super::link::{EndRecord, Link};
use super::threads;
use crate::order::EndOrder;
use crate::port::packet::Packet;
use crate::port::tcp::Tcp;
use crate::port::udp::Udp;
use crate::port::{Bound, PortKind, Wake, cannot};
use crate::receiver::Shared;
use tardy_model::stream::Port;
use tardy_sys::SysError;

/// How an agent binds an end to the port that its order names.
pub type BindEnd = fn(EndOrder) -> Result<BoundEnd, SysError>;

/// What an end does on its thread; nothing if it could not open its port, which is reported.
type Work = Box<dyn FnOnce(&Shared, &Link) -> Option<EndRecord> + Send>;

/// An end that may begin.
pub struct BoundEnd {
    /// The size of its error queue, read back; 0 at a receiver.
    pub(super) error_queue_bytes: u64,
    /// What ends its wait for a packet.
    pub(super) wake: Wake,
    pub(super) work: Work,
}

/// Binds an end.
///
/// # Errors
/// The kernel's; of an order that its port cannot do, that this is so.
pub(super) fn bind(order: EndOrder) -> Result<BoundEnd, SysError> {
    match order.port() {
        Port::Udp => bind_to::<Udp>(order),
        Port::Packet => bind_to::<Packet>(order),
        Port::Tcp => bind_to::<Tcp>(order),
        Port::Sim => Err(cannot("port sim has no sockets")),
    }
}

/// Binds an end to a port of this kind, whatever its order names.
///
/// # Errors
/// As [`PortKind::bind`].
pub fn bind_to<P: PortKind>(order: EndOrder) -> Result<BoundEnd, SysError> {
    let Bound { port, error_queue_bytes, wake } = P::bind(&order)?;
    let work: Work = Box::new(move |shared, link| threads::work::<P>(order, port, shared, link));
    Ok(BoundEnd { error_queue_bytes, wake, work })
}
