// SPDX-License-Identifier: MIT OR Apache-2.0
//! Port `tcp`: one connection, both directions, messages of a fixed size. Stamps by
//! SO_TIMESTAMPING; the machine's own clock.

use super::receiving::SocketReceiver;
use super::{Bound, Inbox, PortKind, ReceivePort, Received, SendPort, TxStamp, Wake, queue, unsupported};
use crate::order::{AskOrder, EndOrder, ReceiveOrder, ReflectOrder, SendOrder, Ways};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tardy_model::port::TcpRecord;
use tardy_model::time::{Instant, Tai};
use tardy_sys::messages::{MessagesRx, MessagesTx, split};
use tardy_sys::stamps::TxStamps;
use tardy_sys::tcp::{self, Buffers, Listener, TcpInfo};
use tardy_sys::{SysError, thread};

/// A connection comes within this time or not at all.
const CONNECT: Duration = Duration::from_secs(5);
/// What the kernel keeps around the bytes of a message at most.
const AROUND_A_MESSAGE: u64 = 2_048;

/// What is asked for as receive buffer at least where stamps share it with what the peer sends;
/// the kernel doubles it.
const LEAST_BUFFER: i32 = 4 << 20;

/// Port `tcp`. Its sockets are opened on the measuring thread, after the thread has got its own
/// table of file descriptors: with a table that threads share, each call counts the socket's users
/// up and down again, and what was opened before is not in the new one. So an address or port that
/// is not available is found early by a socket that is closed again, and late only where another
/// program takes the port in between.
pub struct Tcp;

/// An end that knows its addresses.
pub enum TcpBound {
    Asks(Box<AskOrder>),
    Answers(Box<ReflectOrder>),
}

/// An end in a thread that has its table of descriptors.
pub enum TcpOpened {
    Asks(Box<AskOrder>),
    Answers(Box<ReflectOrder>, Waiting),
}

impl PortKind for Tcp {
    type Bound = TcpBound;
    type Opened = TcpOpened;
    type To = TcpSend;
    type From = TcpReceive;

    fn bind(order: &EndOrder) -> Result<Bound<TcpBound>, SysError> {
        let port = match order {
            EndOrder::Ask(order) => {
                tcp::can_bind(SocketAddr::new(order.send.local, 0))?;
                TcpBound::Asks(Box::new(order.clone()))
            }
            EndOrder::Reflect(order) => {
                drop(Waiting::open(&order.send, &order.receive)?);
                TcpBound::Answers(Box::new(order.clone()))
            }
            EndOrder::Send(_) | EndOrder::Receive(_) => return Err(unsupported("port tcp answers every packet")),
        };
        Ok(Bound { port, error_queue_bytes: 0, wake: Wake::Poke })
    }

    fn open(bound: TcpBound) -> Result<TcpOpened, SysError> {
        // The sockets must be opened after this: refused, the calls are as good as those of any
        // program with threads.
        let _ = thread::own_descriptors();
        Ok(match bound {
            TcpBound::Asks(order) => TcpOpened::Asks(order),
            TcpBound::Answers(order) => {
                let waiting = Waiting::open(&order.send, &order.receive)?;
                TcpOpened::Answers(order, waiting)
            }
        })
    }

    fn connect(
        opened: TcpOpened,
        goes_on: impl Fn() -> bool,
    ) -> Result<(Option<Ways<TcpSend, TcpReceive>>, u64), SysError> {
        let (halves, strangers) = match opened {
            // The other end listens: it was ready before this one was ordered to send.
            TcpOpened::Asks(order) => (Some(ask(&order.send, &order.receive, order.in_flight)?), 0),
            TcpOpened::Answers(order, waiting) => waiting.accept(&order.send, &order.receive, goes_on)?,
        };
        Ok((halves.map(|(to, from)| Ways::Both(to, from)), strangers))
    }
}

pub struct TcpSend {
    socket: MessagesTx,
    /// The receiving half waits by a call that an error queue with something in it ends at once.
    stamps_end_waits: bool,
}

pub struct TcpReceive {
    receiver: SocketReceiver<MessagesRx>,
    closed: bool,
}

/// Connects to the reflector.
///
/// # Errors
/// If there is no connection in time, or the kernel refuses a setting.
pub fn ask(send: &SendOrder, receive: &ReceiveOrder, in_flight: u32) -> Result<(TcpSend, TcpReceive), SysError> {
    let from = SocketAddr::new(send.local, 0);
    // All requests that may be on their way fit in: the end that asks never blocks in sending while
    // replies wait to be read, on which both ends would wait for each other. The kernel counts a
    // buffer with what it needs around the bytes.
    let bytes = u64::from(in_flight) * (2 * u64::from(send.size()) + AROUND_A_MESSAGE);
    let buffers = Buffers { send: (in_flight > 1).then_some(bytes), receive: None };
    let tcp = tcp::Tcp::connect(Some(from), SocketAddr::new(send.peer, send.port), buffers, CONNECT)?;
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
    /// If the address or port is not available.
    pub fn open(send: &SendOrder, receive: &ReceiveOrder) -> Result<Self, SysError> {
        let listener = Listener::open(SocketAddr::new(receive.local, receive.port), Buffers::default())?;
        Ok(Waiting { listener, peer: send.peer })
    }

    /// Takes the connection of the stream's own station, while `goes_on`. Counts connections of
    /// others, which are closed.
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

fn halves(tcp: tcp::Tcp, send: &SendOrder, receive: &ReceiveOrder) -> Result<(TcpSend, TcpReceive), SysError> {
    let failed = |source| SysError { call: "TCP_NODELAY", on: "a connection".into(), source };
    tcp.no_delay(send.order.nodelay).map_err(failed)?;
    let [_, sched, driver] = send.points();
    let stamps = TxStamps { sched: send.order.wants(sched), software: send.order.wants(driver), hardware: false };
    let (_, _, size) = receive.expects();
    let rx = receive.order.wants(receive.rx_kernel());
    let (sender, receiver) = split(tcp, usize::from(size), stamps, rx, queue::size_here(send).max(LEAST_BUFFER))?;
    let receiver = SocketReceiver::over(receiver, receive, receive.wait)?;
    let stamps_end_waits = receiver.waits.asks_first();
    let from = TcpReceive { receiver, closed: false };
    Ok((TcpSend { socket: sender, stamps_end_waits }, from))
}

/// What the kernel reports about a connection, for the trial's record.
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
    fn connection(&self) -> Option<TcpRecord> {
        self.socket.info().ok().map(record)
    }
    fn stamps_end_waits(&self) -> bool {
        self.stamps_end_waits
    }
}

impl ReceivePort for TcpReceive {
    type Lent = Inbox;

    #[inline(always)]
    fn receive(&mut self, many: bool) -> Result<Received, i32> {
        match self.receiver.receive(many) {
            // A peer that has ended is no error here: who answers need not know how many will ask.
            Err(libc::ESHUTDOWN) => {
                self.closed = true;
                Ok(Received::TimedOut)
            }
            other => other,
        }
    }
    #[inline(always)]
    fn lent(&self) -> &Inbox {
        &self.receiver.inbox
    }
    fn spins(&self) -> bool {
        self.receiver.waits.spins()
    }
    fn napi_id(&self) -> u32 {
        self.receiver.socket.napi_id()
    }
    fn ended(&self) -> bool {
        self.closed
    }
}
