// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `packet`: tardy's own Ethernet frames through packet sockets; tardy itself writes the VLAN
//! tag into each, so that no VLAN device is needed. The receiver sees every tag that arrives.
//! Stamps and clock are those of port `udp`.

pub mod filter;

use super::socket::SocketReceiver;
use super::{BATCH, Bound, Inbox, PortKind, ReceivePort, Received, SendPort, TxStamp, Wake, queue};
use crate::order::{EndOrder, ReceiveOrder, SendOrder, StreamOrder, Ways};
use crate::requester;
use tardy_model::ethernet;
use tardy_model::frame::{Frame, HEAD, PROBE, PacketKind};
use tardy_model::point::Point;
use tardy_model::stream::Wait;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_sys::stamps::{Launching, TxStamps};
use tardy_sys::udp::{UdpRx, UdpTx};
use tardy_sys::{SysError, packet};

/// Port `packet`. All of it is acquired on the control thread. Nothing wakes a packet socket's
/// receiver: it checks for the order to stop when the wait's own limit has passed.
pub struct Packet;

impl PortKind for Packet {
    type Bound = Ways<PacketSend, PacketReceive>;
    type Opened = Self::Bound;
    type To = PacketSend;
    type From = PacketReceive;

    fn bind(order: &EndOrder) -> Result<Bound<Self::Bound>, SysError> {
        let mut port = match order.ways() {
            Ways::Send(send) => Ways::Send(PacketSend::open(send)?),
            Ways::Receive(receive) => Ways::Receive(PacketReceive::open(receive)?),
            Ways::Both(send, receive) => Ways::Both(PacketSend::open(send)?, PacketReceive::open(receive)?),
        };
        if let (EndOrder::Ask(ask), Ways::Both(_, from)) = (order, &mut port) {
            from.keep_time(ask.timeout)?;
        }
        let error_queue_bytes = port.send().map_or(0, PacketSend::error_queue_bytes);
        Ok(Bound { port, error_queue_bytes, wake: Wake::ByItself })
    }

    fn open(bound: Self::Bound) -> Result<Self::Opened, SysError> {
        Ok(bound)
    }

    fn connect(
        opened: Self::Opened,
        _: impl Fn() -> bool,
    ) -> Result<(Option<Ways<PacketSend, PacketReceive>>, u64), SysError> {
        Ok((Some(opened), 0))
    }
}

pub struct PacketSend {
    socket: UdpTx,
    /// Memory for the frames of one call, what comes before the payload written already.
    frames: Vec<u8>,
    head: usize,
    /// Payload bytes of each.
    size: usize,
    /// As in [`super::udp::UdpSend`].
    probe: Vec<u8>,
}

impl PacketSend {
    /// Opens the socket for the order.
    pub fn open(order: &SendOrder) -> Result<Self, SysError> {
        let [_, sched, driver] = order.points();
        let wants = |point| order.order.wants(point);
        let stamps = TxStamps { sched: wants(sched), software: wants(driver), hardware: wants(Point::TxHw) };
        let launching = order.launch.map(|launch| Launching { deadline: launch.deadline });
        let socket = packet::sender(&order.device, order.priority, stamps, queue::size_here(order), launching)?;
        let StreamOrder { stream, nonce, ethertype, tag, .. } = order.order;
        let [to, from] = order.macs;
        let head = ethernet::head(to, from, tag, ethertype);
        let size = usize::from(order.size()).max(HEAD);
        let kind = if order.replies { PacketKind::WarmUpReply } else { PacketKind::WarmUp };
        let mut probe = [head.as_slice(), &vec![0; size]].concat();
        Frame { kind, stream: stream.number(), size: order.size(), nonce, seq: PROBE }.write(&mut probe[head.len()..]);
        let frames = probe.repeat(BATCH);
        Ok(PacketSend { socket, frames, head: head.len(), size, probe })
    }

    /// The error queue's size, read back.
    pub fn error_queue_bytes(&self) -> u64 {
        self.socket.error_queue_bytes()
    }

    /// Puts a payload after the head of frame `n`.
    #[inline]
    fn put(&mut self, n: usize, payload: &[u8]) {
        let at = n * (self.head + self.size) + self.head;
        self.frames[at..at + payload.len()].copy_from_slice(payload);
    }
}

impl SendPort for PacketSend {
    #[inline]
    fn send(&mut self, payload: &[u8], key: u32, launch: Option<Instant<Tai>>) -> Result<u32, i32> {
        self.put(0, payload);
        self.socket.send(&self.frames[..self.head + payload.len()], key, launch.map(Instant::ns))
    }
    fn send_batch(&mut self, payloads: &[u8], size: usize, keys: &mut [u32]) -> Result<usize, i32> {
        let count = keys.len().min(BATCH).min(payloads.len() / size.max(1));
        for (n, payload) in payloads.chunks_exact(size).take(count).enumerate() {
            self.put(n, payload);
        }
        self.socket.send_batch(&self.frames, self.head + self.size, &mut keys[..count])
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
pub struct PacketReceive {
    receiver: SocketReceiver<UdpRx>,
    ethertype: u16,
}

impl PacketReceive {
    /// Opens the socket for the order.
    pub fn open(order: &ReceiveOrder) -> Result<Self, SysError> {
        let StreamOrder { stream, nonce, ethertype, tag, .. } = order.order;
        let filter = filter::program(ethertype, nonce, stream.number());
        let stamp = order.order.wants(order.rx_kernel());
        let socket = packet::receiver(&order.device, &filter, tag.is_some(), stamp, 8 << 20)?;
        // The kernel gives a packet socket no NAPI context: there is nothing that it could poll.
        let wait = if order.wait == Wait::Busypoll { Wait::Block } else { order.wait };
        Ok(PacketReceive { receiver: SocketReceiver::over(socket, order, wait)?, ethertype })
    }

    /// As [`super::udp::UdpReceive::keep_time`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn keep_time(&mut self, timeout: Nanos) -> Result<(), SysError> {
        self.receiver.socket.limit(requester::longest_wait_ms(timeout))
    }
}

impl ReceivePort for PacketReceive {
    type Lent = Inbox;

    #[inline]
    fn receive(&mut self, many: bool) -> Result<Received, i32> {
        let received = self.receiver.receive(many);
        if let Ok(Received::Packets(packets)) = received {
            (0..packets).for_each(|n| self.receiver.inbox.open(n, self.ethertype));
        }
        received
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
}
