// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `packet`: tardy's own Ethernet frames through packet sockets; tardy itself writes the VLAN
//! tag into each, so that no VLAN device is needed. The receiver sees every tag that arrives.
//! Stamps and clock are those of port `udp`.
//!
//! [`program`] decides which frames a receiver gets: those of its EtherType, with as many VLAN tags
//! as may come, except those of the trial's other streams, which have their own receivers.
//! Strangers' frames of the EtherType come through, so that they are counted. It is a program of
//! classic BPF, which the kernel runs on each frame of the device.

use crate::order::{EndOrder, ReceiveOrder, SendOrder, StreamOrder, Ways};
use crate::port::receiving::SocketReceiver;
use crate::port::{BATCH, Bound, Inbox, PortKind, ReceivePort, Received, SendPort, TxStamp, Wake, queue};
use crate::requester;
use tardy_model::ethernet::{self, MOST_TAGS, TAGS, UNTAGGED};
use tardy_model::frame::{Frame, HEAD, MAGIC, PROBE, PacketKind};
use tardy_model::point::Point;
use tardy_model::stream::Wait;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_sys::SysError;
use tardy_sys::packet::{self, Instruction};
use tardy_sys::stamps::{Launching, TxStamps};
use tardy_sys::udp::{UdpRx, UdpTx};

/// Port `packet`. All of it is acquired on the control thread. A packet socket cannot be shut down,
/// so a receiver's wait is ended by a poke.
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
        let wake = if matches!(port, Ways::Send(_)) { Wake::ByItself } else { Wake::poke_to_end() };
        Ok(Bound { port, error_queue_bytes, wake })
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
    /// A frame that receivers ignore, sent after a refused send: see [`super::udp::UdpSend`].
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
        let filter = program(ethertype, nonce, stream.number());
        let socket = packet::receiver(&order.device, &filter, tag.is_some(), order.stamps(), 8 << 20)?;
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
    fn stops(&mut self) {
        self.receiver.waits.stop();
    }
    fn drops(&self) -> u64 {
        u64::from(self.receiver.socket.drops())
    }
}

/// Loads of a word, of two bytes and of one at a place of the frame; of its length; comparisons;
/// the end.
const WORD: u16 = 0x20;
const HALF: u16 = 0x28;
const BYTE: u16 = 0x30;
const LENGTH: u16 = 0x80;
const EQUAL: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
/// Where the kernel has the frame's kind instead of a byte of it (SKF_AD_OFF + SKF_AD_PKTTYPE).
const KIND: u32 = 0xffff_f004;
/// A frame that this station sends (PACKET_OUTGOING).
const OUTGOING: u32 = 4;
/// All of the frame.
const WHOLE: u32 = u32::MAX;

/// Where a comparison goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Next,
    Accept,
    Drop,
    /// Where the number of tags inside the frame is known to be this.
    Payload(usize),
    /// Where one more tag is looked for.
    Look(usize),
}

/// A program whose comparisons still go to names.
#[derive(Default)]
struct Draft {
    lines: Vec<(u16, u32, [To; 2])>,
    places: Vec<(To, usize)>,
}

impl Draft {
    fn load(&mut self, code: u16, k: u32) {
        self.lines.push((code, k, [To::Next; 2]));
    }
    fn compare(&mut self, code: u16, k: u32, yes: To, no: To) {
        self.lines.push((code, k, [yes, no]));
    }
    fn here(&mut self, name: To) {
        self.places.push((name, self.lines.len()));
    }
    fn finish(mut self) -> Vec<Instruction> {
        self.here(To::Accept);
        self.load(RETURN, WHOLE);
        self.here(To::Drop);
        self.load(RETURN, 0);
        let jump = |line: usize, to: To| {
            let place = self.places.iter().find(|(name, _)| *name == to);
            // A program of so few lines has no jump that does not fit into a byte.
            place.map_or(0, |(_, at)| (at - line - 1) as u8)
        };
        let lines = self.lines.iter().enumerate();
        lines
            .map(|(n, (code, k, to))| Instruction { code: *code, yes: jump(n, to[0]), no: jump(n, to[1]), k: *k })
            .collect()
    }
}

/// The program for stream `stream` of the trial `nonce`.
pub fn program(ethertype: u16, nonce: u64, stream: u8) -> Vec<Instruction> {
    let mut draft = Draft::default();
    draft.load(BYTE, KIND);
    draft.compare(EQUAL, OUTGOING, To::Drop, To::Next);
    for tags in 0..=MOST_TAGS {
        draft.here(To::Look(tags));
        draft.load(HALF, (UNTAGGED - 2 + 4 * tags) as u32);
        draft.compare(EQUAL, ethertype.into(), To::Payload(tags), To::Next);
        if tags == MOST_TAGS {
            draft.compare(EQUAL, ethertype.into(), To::Next, To::Drop);
        } else {
            let [one, other, last] = TAGS.map(u32::from);
            draft.compare(EQUAL, one, To::Look(tags + 1), To::Next);
            draft.compare(EQUAL, other, To::Look(tags + 1), To::Next);
            draft.compare(EQUAL, last, To::Look(tags + 1), To::Drop);
        }
        draft.here(To::Payload(tags));
        let at = (UNTAGGED + 4 * tags) as u32;
        // Reading beyond a frame's end would drop it.
        draft.load(LENGTH, 0);
        draft.compare(AT_LEAST, at + HEAD as u32, To::Next, To::Accept);
        for (place, word) in [(0, MAGIC), (8, (nonce >> 32) as u32), (12, nonce as u32)] {
            draft.load(WORD, at + place);
            draft.compare(EQUAL, word, To::Next, To::Accept);
        }
        draft.load(BYTE, at + 5);
        draft.compare(EQUAL, stream.into(), To::Accept, To::Drop);
    }
    draft.finish()
}
