// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `udp`: a UDP socket at each end, stamps by SO_TIMESTAMPING, the machine's own clock.

use super::receiving::SocketReceiver;
use super::{Bound, Inbox, PortKind, ReceivePort, Received, SendPort, Timer, TxStamp, Wake, queue};
use crate::order::{EndOrder, ReceiveOrder, SendOrder, StreamOrder, Ways};
use crate::requester;
use std::net::SocketAddr;
use tardy_model::frame::{Frame, HEAD, PROBE, PacketKind};
use tardy_model::point::Point;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_sys::stamps::{Launching, TxStamps};
use tardy_sys::udp::{UdpRx, UdpTx, Waker};
use tardy_sys::{SysError, clock, thread};

/// Port `udp`. All of it is acquired on the control thread.
pub struct Udp;

impl PortKind for Udp {
    type Bound = Ways<UdpSend, UdpReceive>;
    type Opened = Self::Bound;
    type To = UdpSend;
    type From = UdpReceive;

    fn bind(order: &EndOrder) -> Result<Bound<Self::Bound>, SysError> {
        let mut port = match order.ways() {
            Ways::Send(send) => Ways::Send(UdpSend::open(send)?),
            Ways::Receive(receive) => Ways::Receive(UdpReceive::open(receive)?),
            Ways::Both(send, receive) => {
                let (to, from) = both(send, receive)?;
                Ways::Both(to, from)
            }
        };
        if let (EndOrder::Ask(ask), Ways::Both(_, from)) = (order, &mut port) {
            from.keep_time(ask.timeout)?;
        }
        let wake = match port.receive().map(UdpReceive::waker).transpose()? {
            Some(waker) => Wake::By(Box::new(move || waker.wake())),
            None => Wake::ByItself,
        };
        let error_queue_bytes = port.send().map_or(0, UdpSend::error_queue_bytes);
        Ok(Bound { port, error_queue_bytes, wake })
    }

    fn open(bound: Self::Bound) -> Result<Self::Opened, SysError> {
        Ok(bound)
    }

    fn connect(
        opened: Self::Opened,
        _: impl Fn() -> bool,
    ) -> Result<(Option<Ways<UdpSend, UdpReceive>>, u64), SysError> {
        Ok((Some(opened), 0))
    }
}

/// The machine's clock and timer.
pub struct MachineTimer;

impl Timer for MachineTimer {
    #[inline]
    fn now(&mut self) -> Instant<Tai> {
        clock::now()
    }
    #[inline]
    fn sleep_until(&mut self, at: Instant<Tai>) {
        clock::sleep_until(at);
    }
    fn cpu(&mut self) -> Option<u32> {
        Some(thread::current_cpu())
    }
    #[inline]
    fn spin_until(&mut self, at: Instant<Tai>) -> Nanos {
        let (mut last, mut longest) = (clock::now::<Tai>(), Nanos::ZERO);
        while last < at {
            let now = clock::now::<Tai>();
            longest = longest.max(now - last);
            last = now;
        }
        longest
    }
}

pub struct UdpSend {
    socket: UdpTx,
    /// Sent after a refused send, to find out whether this kernel lets the sender name the stamps'
    /// keys.
    probe: Vec<u8>,
}

impl UdpSend {
    /// Opens the socket for the order.
    pub fn open(order: &SendOrder) -> Result<Self, SysError> {
        let [_, sched, driver] = order.points();
        let wants = |point| order.order.wants(point);
        let stamps = TxStamps { sched: wants(sched), software: wants(driver), hardware: wants(Point::TxHw) };
        let peer = SocketAddr::new(order.peer, order.port);
        let launching = order.launch.map(|launch| Launching { deadline: launch.deadline });
        let socket = UdpTx::open(order.local, peer, order.priority, stamps, queue::size_here(order), launching)?;
        Ok(UdpSend::over(socket, order))
    }

    fn over(socket: UdpTx, order: &SendOrder) -> Self {
        let (StreamOrder { stream, nonce, .. }, size) = (&order.order, order.size());
        let mut probe = vec![0; usize::from(size).max(HEAD)];
        let kind = if order.replies { PacketKind::WarmUpReply } else { PacketKind::WarmUp };
        Frame { kind, stream: stream.number(), size, nonce: *nonce, seq: PROBE }.write(&mut probe);
        UdpSend { socket, probe }
    }

    /// The error queue's size, read back.
    pub fn error_queue_bytes(&self) -> u64 {
        self.socket.error_queue_bytes()
    }
}

impl SendPort for UdpSend {
    #[inline]
    fn send(&mut self, payload: &[u8], key: u32, launch: Option<Instant<Tai>>) -> Result<u32, i32> {
        self.socket.send(payload, key, launch.map(Instant::ns))
    }
    fn send_batch(&mut self, payloads: &[u8], size: usize, keys: &mut [u32]) -> Result<usize, i32> {
        self.socket.send_batch(payloads, size, keys)
    }
    #[inline]
    fn drain(&mut self, each: impl FnMut(TxStamp)) -> usize {
        self.socket.drain(each)
    }
    fn renew_keys(&mut self) {
        self.socket.renew_keys(&self.probe);
    }
    fn error_queue(&self) -> (u64, u64) {
        (self.socket.waiting_bytes(), self.socket.error_queue_bytes())
    }
}

/// The receiving socket with its way to wait.
pub struct UdpReceive {
    receiver: SocketReceiver<UdpRx>,
}

/// Room for what comes while the receiver is held up.
const RECEIVE_BYTES: i32 = 8 << 20;

/// Opens both sockets of an end that sends and receives; they are one if
/// [`StreamOrder::takes_one_socket`] is true.
///
/// # Errors
/// The kernel's.
pub fn both(send: &SendOrder, receive: &ReceiveOrder) -> Result<(UdpSend, UdpReceive), SysError> {
    if !send.order.takes_one_socket() {
        return Ok((UdpSend::open(send)?, UdpReceive::open(receive)?));
    }
    let (local, peer) = (SocketAddr::new(receive.local, receive.port), SocketAddr::new(send.peer, send.port));
    let (to, from) = UdpRx::open_both(local, peer, send.priority, receive.stamps(), RECEIVE_BYTES)?;
    Ok((UdpSend::over(to, send), UdpReceive::over(from, receive)?))
}

impl UdpReceive {
    /// Opens the socket for the order.
    pub fn open(order: &ReceiveOrder) -> Result<Self, SysError> {
        let local = SocketAddr::new(order.local, order.port);
        let socket = UdpRx::open(local, order.stamps(), RECEIVE_BYTES)?;
        UdpReceive::over(socket, order)
    }

    fn over(socket: UdpRx, order: &ReceiveOrder) -> Result<Self, SysError> {
        Ok(UdpReceive { receiver: SocketReceiver::over(socket, order, order.wait)? })
    }

    /// Lets a wait end so early that a request which nothing answers is given up when its time is
    /// over, not after a whole wait.
    ///
    /// # Errors
    /// The kernel's.
    pub fn keep_time(&mut self, timeout: Nanos) -> Result<(), SysError> {
        self.receiver.socket.limit(requester::longest_wait_ms(timeout))
    }
    /// Ends the wait from another thread.
    pub fn waker(&self) -> Result<Waker, SysError> {
        self.receiver.socket.waker()
    }
}

impl ReceivePort for UdpReceive {
    type Lent = Inbox;

    #[inline]
    fn receive(&mut self, many: bool) -> Result<Received, i32> {
        self.receiver.receive(many)
    }
    #[inline(always)]
    fn lent(&self) -> &Inbox {
        &self.receiver.inbox
    }
    fn spins(&self) -> bool {
        self.receiver.waits.spins()
    }
    fn drops(&self) -> u64 {
        u64::from(self.receiver.socket.drops())
    }
    fn strangers(&mut self) -> u64 {
        self.receiver.socket.strangers()
    }
    fn napi_id(&self) -> u32 {
        self.receiver.socket.napi_id()
    }
}
