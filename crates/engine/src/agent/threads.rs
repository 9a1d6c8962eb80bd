// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a measuring thread does from its start to its half: one function for each kind of end,
//! compiled for each kind of port.
//!
//! An end binds its port before its thread starts, so that what is not available is known early.
//! [`bind`] chooses the copy of the loops that was compiled for the port, once.
//!
//! A device may take stamps by its own clock. That clock is read together with CLOCK_REALTIME
//! before the trial and after it, and between the two readings it is taken to run evenly.

use crate::agent::link::{Command, EndRecord, Link};
use crate::order::{AskOrder, EndOrder, ReceiveOrder, ReflectOrder, SendOrder, StreamOrder, Ways};
use crate::port::packet::Packet;
use crate::port::tcp::Tcp;
use crate::port::udp::{MachineTimer, Udp};
use crate::port::xdp::{self, Xdp};
use crate::port::{Bound, PortKind, ReceivePort, SendPort, Timer, Wake, unsupported};
use crate::receiver::{Receiver, ReceiverCounters, Shared};
use crate::reflector::Reflector;
use crate::requester::Requester;
use crate::sender::{Sender, SenderCounters};
use crate::worker::{self, Account};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::RecvError;
use tardy_model::placement::ThreadRecord;
use tardy_model::point::Point;
use tardy_model::port::{Port, TcpRecord};
use tardy_model::sample;
use tardy_model::stream::Wait;
use tardy_model::time::PhcReading;
use tardy_sys::SysError;
use tardy_sys::clock::Phc;
use tardy_sys::nic::{self, TsInfo};

/// Works as ordered through what was bound. `None` if it could not be opened, which was reported to
/// the agent.
pub(super) fn work<P: PortKind>(order: EndOrder, bound: P::Bound, shared: &Shared, link: &Link) -> Option<EndRecord> {
    match order {
        EndOrder::Send(order) => send::<P>(order, bound, shared, link),
        EndOrder::Receive(order) => receive::<P>(order, bound, shared, link),
        EndOrder::Ask(order) => ask::<P>(order, bound, shared, link),
        EndOrder::Reflect(order) => reflect::<P>(order, bound, shared, link),
    }
}

/// Opens what was bound; if that fails, the agent learns why.
fn open<P: PortKind>(bound: P::Bound, link: &Link) -> Option<P::Opened> {
    P::open(bound).map_err(|error| drop(link.ready.send(Err(error)))).ok()
}

/// Both halves of a port, or one.
type OpenWays<P> = Ways<<P as PortKind>::To, <P as PortKind>::From>;

/// Waits for the other end where the port needs it. Gives the halves that the loop goes through and
/// how many strangers were turned away; no halves if the thread is to stop, or if there are none,
/// which was reported to the coordinator.
fn connect<P: PortKind, W>(
    opened: P::Opened,
    wanted: impl FnOnce(OpenWays<P>) -> Option<W>,
    what: &str,
    shared: &Shared,
    link: &Link,
) -> (Option<W>, u64) {
    match P::connect(opened, || !shared.stop.load(Relaxed)) {
        Ok((None, strangers)) => (None, strangers),
        Ok((Some(halves), strangers)) => {
            let halves = wanted(halves);
            if halves.is_none() {
                link.broke(format!("{what}: its port has opened another kind of end: {REPORT}"));
            }
            (halves, strangers)
        }
        Err(error) => {
            link.broke(format!("{what}: {error}"));
            (None, 0)
        }
    }
}

const REPORT: &str = "this is a fault of tardy; report it with this message";

/// Sends by the schedule.
fn send<P: PortKind>(order: SendOrder, bound: P::Bound, shared: &Shared, link: &Link) -> Option<EndRecord> {
    let mut account = worker::set_up(&order.thread);
    let opened = open::<P>(bound, link)?;
    let phc = order.hardware().then(|| sending_clock(&order).ok()).flatten();
    let clock = || phc.as_ref().and_then(|phc| phc.read().ok());
    let (mut around, mut xdp_sent) = ([None; 2], None);
    let what = format!("the connection of stream {}", order.order.stream);
    let mut sender = Sender::new(order);
    link.is_ready(&account);
    let next = link.inbox.recv();
    let port = next.is_ok().then(|| connect::<P, _>(opened, Ways::only_send, &what, shared, link).0).flatten();
    let thread = if let Some(mut port) = port {
        around = obey_until_sent(next, &mut sender, &mut account, &mut port, clock, shared, link);
        // What the thread does from here on is not the trial's.
        let thread = account.end();
        if link.is_collected() {
            sender.gather_stamps(&mut MachineTimer, &mut port);
        }
        xdp_sent = port.xdp();
        thread
    } else {
        account.end()
    };
    let (mut counters, gaps, own) = (sender.counters, sender.gaps, sender.own.take());
    let mut half = sender.finish();
    counters.hardware_bound_ns = sample::by_device(half.tx_hw.iter_mut(), around);
    Some(EndRecord {
        sent: Some((half, counters)),
        arrived: None,
        xdp: None,
        areas: Vec::new(),
        xdp_sent,
        gaps,
        thread,
        tcp: None,
        own,
    })
}

/// Obeys until the trial is over, or the end is dropped: then the channel closes. Gives what the
/// device's clock showed before the trial and after it.
#[inline(always)]
fn obey_until_sent<S: SendPort>(
    mut next: Result<Command, RecvError>,
    sender: &mut Sender,
    account: &mut Account,
    port: &mut S,
    clock: impl Fn() -> Option<PhcReading>,
    shared: &Shared,
    link: &Link,
) -> [Option<PhcReading>; 2] {
    while let Ok(command) = next {
        match command {
            Command::WarmUp { count, apart } => {
                let stamped = sender.warm_up(&mut MachineTimer, port, count, apart);
                link.warmed(stamped);
            }
            Command::Start(base) => {
                let before = clock();
                account.begin();
                account.learned_base(base);
                sender.run(&mut MachineTimer, port, base, &shared.stop, &shared.live);
                let after = clock();
                // What the queue discipline dropped will not arrive.
                let SenderCounters { sent, missed, invalid, .. } = sender.counters;
                let packets = sent.saturating_sub(missed + invalid);
                link.done(packets);
                return [before, after];
            }
            Command::Collect => {
                link.collected.set(true);
                break;
            }
        }
        next = link.inbox.recv();
    }
    [None; 2]
}

/// Receives from the moment at which it is made ready.
fn receive<P: PortKind>(order: ReceiveOrder, bound: P::Bound, shared: &Shared, link: &Link) -> Option<EndRecord> {
    let mut account = worker::set_up(&order.thread);
    let opened = open::<P>(bound, link)?;
    let busy = order.wait == Wait::Busypoll;
    let what = format!("the receiver of stream {}", order.order.stream);
    let phc = order.hardware().then(|| receiving_clock(&order).ok()).flatten();
    let clock = || phc.as_ref().and_then(|phc| phc.read().ok());
    let before = clock();
    let mut receiver = Receiver::new(order);
    link.is_ready(&account);
    let (port, strangers) = connect::<P, _>(opened, Ways::only_receive, &what, shared, link);
    receiver.counters.foreign += strangers;
    let mut xdp = None;
    let mut port = port;
    if let Some(port) = &mut port {
        if busy {
            // The NAPI id is known once a packet has come; the loop proper starts after it.
            receiver.run_until_warm(&mut MachineTimer, port, shared);
            let _ = link.napi.send(port.napi_id());
        }
        receiver.run(&mut MachineTimer, port, shared);
        account.napi(port.napi_id());
        xdp = port.xdp();
    }
    account.began_at(shared.began.get());
    let thread = account.end();
    let after = clock();
    // Many sockets are closed by several threads: that is not the trial's.
    drop(port);
    let (xdp, areas) = (xdp.map(|record| (receiver.take_stamps(), record)), receiver.take_areas());
    let (mut counters, gaps) = (receiver.counters, receiver.gaps);
    let mut arrivals = receiver.finish();
    let stamps = arrivals.iter_mut().map(|arrival| &mut arrival.rx_hw);
    counters.hardware_bound_ns = sample::by_device(stamps, [before, after]);
    let arrived = Some((arrivals, counters));
    Some(EndRecord {
        sent: None,
        arrived,
        xdp,
        areas,
        xdp_sent: None,
        gaps,
        thread,
        tcp: None,
        own: Default::default(),
    })
}

/// Receives and sends back from the moment at which it is made ready.
fn reflect<P: PortKind>(order: ReflectOrder, bound: P::Bound, shared: &Shared, link: &Link) -> Option<EndRecord> {
    let mut account = worker::set_up(&order.receive.thread);
    let opened = open::<P>(bound, link)?;
    let busy = order.receive.wait == Wait::Busypoll;
    let what = format!("the reflector of stream {}", order.receive.order.stream);
    let mut reflector = Reflector::new(order);
    link.is_ready(&account);
    let (halves, strangers) = connect::<P, _>(opened, Ways::both, &what, shared, link);
    reflector.receiver.counters.foreign += strangers;
    let mut connection = None;
    if let Some((mut back, mut from)) = halves {
        answer(&mut reflector, &mut account, (&mut from, &mut back), busy, shared, link);
        connection = back.connection();
    }
    account.began_at(shared.began.get());
    Some(reflected(reflector, account, connection))
}

/// Answers until ordered to stop.
fn answer(
    reflector: &mut Reflector,
    account: &mut Account,
    (from, back): (&mut impl ReceivePort, &mut impl SendPort),
    busy: bool,
    shared: &Shared,
    link: &Link,
) {
    if busy {
        reflector.run_until_warm(&mut MachineTimer, from, back, shared);
        let _ = link.napi.send(from.napi_id());
    }
    reflector.run(&mut MachineTimer, from, back, shared);
    reflector.gather_stamps(&mut MachineTimer, back);
    account.napi(from.napi_id());
}

fn reflected(reflector: Reflector, account: Account, tcp: Option<TcpRecord>) -> EndRecord {
    let thread = account.end();
    let Reflector { receiver, mut sender, .. } = reflector;
    let own = sender.own.take();
    let (counters, gaps, sent) = (receiver.counters, receiver.gaps, sender.counters);
    EndRecord {
        sent: Some((sender.finish(), sent)),
        arrived: Some((receiver.finish(), counters)),
        xdp: None,
        xdp_sent: None,
        areas: Vec::new(),
        gaps,
        thread,
        tcp,
        own,
    }
}

/// Sends requests and receives their replies. It connects with the first warm-up: by then the
/// reflector is ready.
fn ask<P: PortKind>(order: AskOrder, bound: P::Bound, shared: &Shared, link: &Link) -> Option<EndRecord> {
    let mut account = worker::set_up(&order.send.thread);
    let opened = open::<P>(bound, link)?;
    let busy = order.receive.wait == Wait::Busypoll;
    let what = format!("the connection of stream {}", order.send.order.stream);
    let mut requester = Requester::new(order);
    link.is_ready(&account);
    let mut next = link.inbox.recv();
    let halves = next.is_ok().then(|| connect::<P, _>(opened, Ways::both, &what, shared, link).0).flatten();
    let Some((mut to, mut from)) = halves else { return Some(asked(requester, account.end(), None)) };
    while let Ok(command) = next {
        if !obey(command, &mut requester, &mut account, (&mut to, &mut from), shared, link) {
            break;
        }
        if busy && shared.warm.load(Relaxed) > 0 {
            let _ = link.napi.send(from.napi_id());
        }
        next = link.inbox.recv();
    }
    account.napi(from.napi_id());
    let (connection, thread) = (to.connection(), account.end());
    if link.is_collected() {
        requester.sender.gather_stamps(&mut MachineTimer, &mut to);
    }
    Some(asked(requester, thread, connection))
}

/// Obeys; false when the trial is over.
fn obey<S: SendPort, R: ReceivePort>(
    command: Command,
    requester: &mut Requester,
    account: &mut Account,
    (to, from): (&mut S, &mut R),
    shared: &Shared,
    link: &Link,
) -> bool {
    match command {
        Command::WarmUp { count, apart } => {
            let stamped = requester.warm_up(&mut MachineTimer, to, from, shared, count, apart);
            link.warmed(stamped);
            true
        }
        Command::Start(base) => {
            account.begin();
            MachineTimer.sleep_until(base);
            requester.run(&mut MachineTimer, to, from, shared);
            link.done(requester.sender.counters.sent);
            false
        }
        Command::Collect => {
            link.collected.set(true);
            false
        }
    }
}

fn asked(mut requester: Requester, thread: ThreadRecord, tcp: Option<TcpRecord>) -> EndRecord {
    let arrivals = requester.take_arrivals();
    let (counters, gaps): (ReceiverCounters, _) = (requester.counters, requester.gaps);
    let (sent, own) = (requester.sender.counters, requester.sender.own.take());
    EndRecord {
        sent: Some((requester.sender.finish(), sent)),
        arrived: Some((arrivals, counters)),
        xdp: None,
        xdp_sent: None,
        areas: Vec::new(),
        gaps,
        thread,
        tcp,
        own,
    }
}

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
        Port::Xdp => bind_to::<Xdp>(order),
        Port::Sim => Err(unsupported("port sim has no sockets")),
    }
}

/// Binds an end to a port of this kind, whatever its order names.
///
/// # Errors
/// As [`PortKind::bind`].
pub fn bind_to<P: PortKind>(order: EndOrder) -> Result<BoundEnd, SysError> {
    let Bound { port, error_queue_bytes, wake } = P::bind(&order)?;
    let work: Work = Box::new(move |shared, link| work::<P>(order, port, shared, link));
    Ok(BoundEnd { error_queue_bytes, wake, work })
}

/// Opens the clock by which the device of a sender stamps.
///
/// # Errors
/// Why it is not available.
pub(super) fn sending_clock(send: &SendOrder) -> Result<Phc, String> {
    if !send.order.port.traits().passes_qdisc {
        xdp::send::stamps(&send.device)?;
    }
    device_clock(&send.device, "tx", TsInfo::tx_hardware)
}

/// The same of a receiver.
///
/// # Errors
/// As there; or if its packets pass the kernel's stamps by.
pub(super) fn receiving_clock(receive: &ReceiveOrder) -> Result<Phc, String> {
    let port = receive.order.port;
    if port.passes_xdp() {
        return Err(format!("port {} takes packets before the kernel hands over the device's stamp", port.name()));
    }
    // A device that stamps PTP's packets alone stamps none of these.
    device_clock(&receive.device, "rx", TsInfo::rx_all)
}

fn device_clock(device: &str, way: &str, can: impl Fn(&TsInfo) -> bool) -> Result<Phc, String> {
    let info = nic::ts_info(device).map_err(|error| format!("what {device} can stamp is unknown: {error}"))?;
    if !can(&info) || info.phc < 0 {
        let (flags, phc) = (info.flags, info.phc);
        return Err(format!("{device} offers no hardware {way} stamp (its abilities: {flags:#x}, PTP clock {phc})"));
    }
    let phc = Phc::open(info.phc).and_then(|phc| phc.read().map(|_| phc));
    phc.map_err(|error| format!("the clock of {device} cannot be read: {error}"))
}

/// Drops what is not available from an order, so that nothing waits for it: such stamps come to
/// one-way streams alone.
pub(super) fn with_hardware(mut order: EndOrder) -> EndOrder {
    let unasked = |of: &mut StreamOrder, point: Point| of.stamps.retain(|other| *other != point);
    match &mut order {
        EndOrder::Send(send) if send.order.wants(Point::TxHw) && sending_clock(send).is_err() => {
            unasked(&mut send.order, Point::TxHw);
        }
        EndOrder::Receive(receive) if receive.hardware() && receiving_clock(receive).is_err() => {
            unasked(&mut receive.order, Point::RxHw);
        }
        EndOrder::Send(_) | EndOrder::Receive(_) => {}
        EndOrder::Ask(ask) => unasked(&mut ask.send.order, Point::TxHw),
        EndOrder::Reflect(reflect) => {
            unasked(&mut reflect.send.order, Point::TxHw);
            unasked(&mut reflect.receive.order, Point::RxHw);
        }
    }
    order
}
