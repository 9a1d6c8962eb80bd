// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a measuring thread does from its start to its half: one function for each kind of end.

use super::hardware;
use super::link::{Command, EndRecord, Link};
use crate::order::{AskOrder, ReceiveOrder, ReflectOrder, SendOrder};
use crate::port::tcp;
use crate::port::udp::MachineTimer;
use crate::port::{ReceivePort, SendPort};
use crate::receiver::{Receiver, ReceiverCounters, Shared};
use crate::reflector::Reflector;
use crate::requester::Requester;
use crate::sender::{Sender, SenderCounters};
use crate::worker::{self, Account};
use std::sync::atomic::Ordering::Relaxed;
use tardy_model::machine::ThreadRecord;
use tardy_model::stream::Wait;
use tardy_sys::{SysError, thread};

/// Sends by the schedule.
pub(super) fn send(order: SendOrder, mut port: impl SendPort, shared: &Shared, link: &Link) -> EndRecord {
    let mut account = worker::set_up(&order.thread);
    let phc = order.hardware().then(|| hardware::clock(&order).ok()).flatten();
    let clock = || phc.as_ref().and_then(|phc| phc.read().ok());
    let (mut before, mut after) = (None, None);
    let mut sender = Sender::new(order);
    link.is_ready(&account);
    let mut timer = MachineTimer;
    // Ends when the end is dropped: the channel closes.
    while let Ok(command) = link.inbox.recv() {
        match command {
            Command::WarmUp { count, apart } => {
                let stamped = sender.warm_up(&mut timer, &mut port, count, apart);
                link.warmed(stamped);
            }
            Command::Start(base) => {
                before = clock();
                account.begin();
                account.told(base);
                sender.run(&mut timer, &mut port, base, &shared.stop, &shared.live);
                after = clock();
                // What the queue discipline dropped will not arrive.
                let SenderCounters { sent, missed, invalid, .. } = sender.counters;
                let packets = sent.saturating_sub(missed + invalid);
                link.done(packets);
                break;
            }
            Command::Collect => {
                link.collected.set(true);
                break;
            }
        }
    }
    // What the thread does from here on is not the trial's.
    let thread = account.end();
    if link.is_collected() {
        sender.gather_stamps(&mut timer, &mut port);
    }
    let (mut counters, gaps, own) = (sender.counters, sender.gaps, sender.own.take());
    let mut half = sender.finish();
    hardware::convert(&mut half, &mut counters, before, after);
    EndRecord { sent: Some((half, counters)), arrived: None, gaps, thread, tcp: None, own }
}

/// Receives from the moment at which it is made ready.
pub(super) fn receive(order: ReceiveOrder, mut port: impl ReceivePort, shared: &Shared, link: &Link) -> EndRecord {
    let mut account = worker::set_up(&order.thread);
    let busy = order.wait == Wait::Busypoll;
    let mut receiver = Receiver::new(order);
    link.is_ready(&account);
    if busy {
        // The NAPI id is known once a packet has come; the loop proper starts behind it.
        receiver.run_until_warm(&mut MachineTimer, &mut port, shared);
        let _ = link.napi.send(port.napi_id());
    }
    receiver.run(&mut MachineTimer, &mut port, shared);
    account.napi(port.napi_id());
    let thread = account.end();
    let (counters, gaps) = (receiver.counters, receiver.gaps);
    EndRecord {
        sent: None,
        arrived: Some((receiver.finish(), counters)),
        gaps,
        thread,
        tcp: None,
        own: Default::default(),
    }
}

/// Receives and sends back from the moment at which it is made ready.
pub(super) fn reflect(
    order: ReflectOrder,
    (mut from, mut back): (impl ReceivePort, impl SendPort),
    shared: &Shared,
    link: &Link,
) -> EndRecord {
    let mut account = worker::set_up(&order.receive.thread);
    let busy = order.receive.wait == Wait::Busypoll;
    let mut reflector = Reflector::new(order);
    link.is_ready(&account);
    answer(&mut reflector, &mut account, (&mut from, &mut back), busy, shared, link);
    reflected(reflector, account, None)
}

/// Answers until told to stop.
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
    reflector.end(&mut MachineTimer, back);
    account.napi(from.napi_id());
}

/// The same over a connection, which the other end makes.
pub(super) fn reflect_tcp(order: ReflectOrder, shared: &Shared, link: &Link) -> EndRecord {
    let mut account = worker::set_up(&order.receive.thread);
    // The sockets must be opened behind this: refused, the calls are as good as those of any program with threads.
    let _ = thread::own_descriptors();
    let waiting = tcp::Waiting::open(&order.send, &order.receive);
    let busy = order.receive.wait == Wait::Busypoll;
    let stream = order.receive.order.stream;
    let mut reflector = Reflector::new(order.clone());
    let waiting = match waiting {
        Ok(waiting) => waiting,
        Err(error) => {
            let _ = link.ready.send(Err(error));
            return reflected(reflector, account, None);
        }
    };
    link.is_ready(&account);
    let accepted = waiting.accept(&order.send, &order.receive, || !shared.stop.load(Relaxed));
    let mut tcp = None;
    match accepted {
        Ok((None, strangers)) => reflector.receiver.counters.foreign += strangers,
        Ok((Some((mut back, mut from)), strangers)) => {
            reflector.receiver.counters.foreign += strangers;
            answer(&mut reflector, &mut account, (&mut from, &mut back), busy, shared, link);
            tcp = back.record();
        }
        Err(error) => link.broke(format!("the reflector of stream {stream}: {error}")),
    }
    reflected(reflector, account, tcp)
}

fn reflected(reflector: Reflector, account: Account, tcp: Option<tardy_model::trial::TcpRecord>) -> EndRecord {
    let thread = account.end();
    let Reflector { receiver, mut sender, .. } = reflector;
    let own = sender.own.take();
    let (counters, gaps, sent) = (receiver.counters, receiver.gaps, sender.counters);
    EndRecord {
        sent: Some((sender.finish(), sent)),
        arrived: Some((receiver.finish(), counters)),
        gaps,
        thread,
        tcp,
        own,
    }
}

/// Asks over a port that needs no connection.
pub(super) fn ask_on(
    order: AskOrder,
    (mut to, mut from): (impl SendPort, impl ReceivePort),
    shared: &Shared,
    link: &Link,
) -> EndRecord {
    let mut account = worker::set_up(&order.send.thread);
    let busy = order.receive.wait == Wait::Busypoll;
    let mut requester = Requester::new(order);
    link.is_ready(&account);
    while let Ok(command) = link.inbox.recv() {
        if !ask(command, &mut requester, &mut account, (&mut to, &mut from), shared, link) {
            break;
        }
        if busy && shared.warm.load(Relaxed) > 0 {
            let _ = link.napi.send(from.napi_id());
        }
    }
    account.napi(from.napi_id());
    let thread = account.end();
    if link.is_collected() {
        requester.sender.gather_stamps(&mut MachineTimer, &mut to);
    }
    asked(requester, thread, None)
}

/// Asks over TCP. It connects with the first warm-up: by then the reflector listens.
pub(super) fn ask_tcp(order: AskOrder, shared: &Shared, link: &Link) -> EndRecord {
    let mut account = worker::set_up(&order.send.thread);
    // As of who answers.
    let _ = thread::own_descriptors();
    let busy = order.receive.wait == Wait::Busypoll;
    let mut requester = Requester::new(order.clone());
    link.is_ready(&account);
    if let Ok(first) = link.inbox.recv() {
        let connected: Result<_, SysError> = tcp::ask(&order.send, &order.receive, order.in_flight);
        match connected {
            Ok((mut to, mut from)) => {
                let mut command = Ok(first);
                while let Ok(now) = command {
                    if !ask(now, &mut requester, &mut account, (&mut to, &mut from), shared, link) {
                        break;
                    }
                    if busy && shared.warm.load(Relaxed) > 0 {
                        let _ = link.napi.send(from.napi_id());
                    }
                    command = link.inbox.recv();
                }
                account.napi(from.napi_id());
                let (tcp, thread) = (to.record(), account.end());
                if link.is_collected() {
                    requester.sender.gather_stamps(&mut MachineTimer, &mut to);
                }
                return asked(requester, thread, tcp);
            }
            Err(error) => {
                let stream = order.send.order.stream;
                link.broke(format!("the connection of stream {stream}: {error}"));
            }
        }
    }
    asked(requester, account.end(), None)
}

/// Obeys; false when the trial is over.
fn ask<S: SendPort, R: ReceivePort>(
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
            crate::port::Timer::sleep_until(&mut MachineTimer, base);
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

fn asked(mut requester: Requester, thread: ThreadRecord, tcp: Option<tardy_model::trial::TcpRecord>) -> EndRecord {
    let arrivals = requester.take_arrivals();
    let (counters, gaps): (ReceiverCounters, _) = (requester.counters, requester.gaps);
    let (sent, own) = (requester.sender.counters, requester.sender.own.take());
    EndRecord {
        sent: Some((requester.sender.finish(), sent)),
        arrived: Some((arrivals, counters)),
        gaps,
        thread,
        tcp,
        own,
    }
}
