// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `tcp`: one connection, both directions, messages of a fixed size. Stamps by SO_TIMESTAMPING; the machine's own clock.

use super::waits::Waits;
use super::{Inbox, ReceivePort, Received, SendPort, TxStamp, inbox, queue};
use crate::order::{ReceiveOrder, SendOrder};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tardy_model::ethernet::Tags;
use tardy_model::time::{Instant, Realtime, Tai};
use tardy_model::trial::TcpRecord;
use tardy_sys::SysError;
use tardy_sys::messages::{MessagesRx, MessagesTx, split};
use tardy_sys::stamps::TxStamps;
use tardy_sys::tcp::{Buffers, Listener, Tcp, TcpInfo};

/// A connection comes within this time or not at all.
const CONNECT: Duration = Duration::from_secs(5);
/// What the kernel keeps around the bytes of a message at most.
const AROUND_A_MESSAGE: u64 = 2_048;

/// What is asked for as receive buffer at least where stamps share it with what the peer sends; the kernel doubles it.
const LEAST_BUFFER: i32 = 4 << 20;

/// The sending half.
pub struct TcpSend {
    socket: MessagesTx,
    /// The receiving half waits by a call that an error queue with something in it ends at once.
    stamps_end_waits: bool,
}

/// The receiving half.
pub struct TcpReceive {
    socket: MessagesRx,
    inbox: Inbox,
    waits: Waits,
    closed: bool,
}

/// Connects to the reflector.
///
/// # Errors
/// If there is no connection in time, or the kernel refuses a setting.
pub fn ask(send: &SendOrder, receive: &ReceiveOrder, in_flight: u32) -> Result<(TcpSend, TcpReceive), SysError> {
    let from = SocketAddr::new(send.local, 0);
    // All requests that may be on their way fit in: who asks is never held up in sending while replies wait to be read, on which both
    // ends would wait for each other. The kernel counts a buffer with what it needs around the bytes.
    let bytes = u64::from(in_flight) * (2 * u64::from(send.size()) + AROUND_A_MESSAGE);
    let buffers = Buffers { send: (in_flight > 1).then_some(bytes), receive: None };
    let tcp = Tcp::connect(Some(from), SocketAddr::new(send.peer, send.port), buffers, CONNECT)?;
    halves(tcp, send, receive)
}

/// A reflector that waits for its connection.
pub struct Waiting {
    listener: Listener,
    peer: IpAddr,
}

impl Waiting {
    /// Listens.
    ///
    /// # Errors
    /// If the address or port cannot be had.
    pub fn open(send: &SendOrder, receive: &ReceiveOrder) -> Result<Self, SysError> {
        let listener = Listener::open(SocketAddr::new(receive.local, receive.port), Buffers::default())?;
        Ok(Waiting { listener, peer: send.peer })
    }

    /// Takes the connection of the stream's own station, while `goes_on`. Counts connections of others, which are closed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn accept(
        self,
        send: &SendOrder,
        receive: &ReceiveOrder,
        goes_on: impl Fn() -> bool,
    ) -> Result<(Option<(TcpSend, TcpReceive)>, u64), SysError> {
        let mut strangers = 0;
        while goes_on() {
            match self.listener.accept(Duration::from_millis(100))? {
                Some(tcp) if tcp.peer() == Some(self.peer) => {
                    return Ok((Some(halves(tcp, send, receive)?), strangers));
                }
                Some(_) => strangers += 1,
                None => {}
            }
        }
        Ok((None, strangers))
    }
}

fn halves(tcp: Tcp, send: &SendOrder, receive: &ReceiveOrder) -> Result<(TcpSend, TcpReceive), SysError> {
    let failed = |source| SysError { call: "TCP_NODELAY", on: "a connection".into(), source };
    tcp.no_delay(send.order.nodelay).map_err(failed)?;
    let [_, sched, driver] = send.points();
    let stamps = TxStamps { sched: send.order.wants(sched), software: send.order.wants(driver), hardware: false };
    let (_, _, size) = receive.expects();
    let rx = receive.order.wants(receive.rx_kernel());
    let (sender, receiver) = split(tcp, usize::from(size), stamps, rx, queue::size_here(send).max(LEAST_BUFFER))?;
    let waits = Waits::of(receive.wait, &receiver)?;
    let stamps_end_waits = waits.asks_first();
    let from = TcpReceive { socket: receiver, inbox: inbox(receive), waits, closed: false };
    Ok((TcpSend { socket: sender, stamps_end_waits }, from))
}

/// What the kernel says of a connection, for the trial's record.
pub(crate) fn record(info: TcpInfo) -> TcpRecord {
    TcpRecord {
        retransmits: info.retransmits,
        timeouts: info.timeouts,
        mss: info.mss,
        rtt_us: info.rtt_us,
        rto_us: info.rto_us,
    }
}

impl TcpSend {
    /// What the kernel says of the connection; `None` if it says nothing.
    pub fn record(&self) -> Option<TcpRecord> {
        self.socket.info().ok().map(record)
    }

    /// The error queue's size, read back.
    pub fn error_queue_bytes(&self) -> u64 {
        self.socket.error_queue().1
    }
}

impl SendPort for TcpSend {
    #[inline(always)]
    fn send(&mut self, payload: &[u8], _key: u32, _launch: Option<Instant<Tai>>) -> Result<u32, i32> {
        self.socket.send(payload).inspect_err(|_| self.socket.end())
    }
    #[inline]
    fn drain(&mut self, each: impl FnMut(TxStamp)) -> usize {
        self.socket.drain(each)
    }
    fn error_queue(&self) -> (u64, u64) {
        self.socket.error_queue()
    }
    fn stamps_end_waits(&self) -> bool {
        self.stamps_end_waits
    }
}

impl ReceivePort for TcpReceive {
    #[inline(always)]
    fn receive(&mut self, _many: bool) -> Result<Received, i32> {
        let Some(sleeps) = self.waits.ready(&self.socket) else { return Ok(Received::TimedOut) };
        match self.socket.receive(&mut self.inbox, sleeps) {
            // A peer that has ended is no error here: who answers need not know how many will ask.
            Err(libc::ESHUTDOWN) => {
                self.closed = true;
                Ok(Received::TimedOut)
            }
            other => other,
        }
    }
    #[inline(always)]
    fn packet(&self, n: usize) -> (&[u8], Option<Instant<Realtime>>) {
        self.inbox.packet(n)
    }
    #[inline(always)]
    fn tags(&self, n: usize) -> Tags {
        self.inbox.tags(n)
    }
    fn spins(&self) -> bool {
        self.waits.spins()
    }
    fn napi_id(&self) -> u32 {
        self.socket.napi_id()
    }
    fn ended(&self) -> bool {
        self.closed
    }
}
