// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kind of port of this test's own: packets go through memory of this process, and the receiving
//! half lends them out of a ring of its slots. The agents bind every end to it, on stations and a
//! path of the test's own, and the engine's loops are compiled for it.

use super::{Idle, Kept, PATH, STATION, VERSION, experiment_of};
use crate::two_hosts::{Thread, agent_of};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io::Error;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, ThreadId};
use std::time::Duration;
use tardy_engine::agent::bind_to;
use tardy_engine::order::{EndOrder, ReceiveOrder, SendOrder, Ways};
use tardy_engine::port::{
    BATCH, Bound, DRAIN, Lent, PortKind, ReceivePort, Received, SendPort, TxPoint, TxStamp, Wake,
};
use tardy_lab::connection::Connection;
use tardy_lab::coordinator::{Options, check, run};
use tardy_lab::host::clocks::one_host;
use tardy_lab::host::hosts::Hosts;
use tardy_lab::plan::Kinds;
use tardy_lab::station::StationMethods;
use tardy_model::ethernet::Tags;
use tardy_model::point::Point;
use tardy_model::sample::Outcome;
use tardy_model::time::{Instant, Realtime, Tai};
use tardy_sys::{SysError, clock};

/// Where this port fails.
const NOWHERE: usize = 0;
const AT_BIND: usize = 1;
const AT_OPEN: usize = 2;
const AT_CONNECT: usize = 3;

/// Ends that were bound, opened and connected, and packets that were sent, by where the port fails.
static CALLS: [[AtomicUsize; 4]; 4] = [const { [const { AtomicUsize::new(0) }; 4] }; 4];

fn calls(fails: usize) -> [usize; 4] {
    CALLS[fails].each_ref().map(|calls| calls.load(Relaxed))
}

/// A packet on its way and its stamp; nothing if it only wakes who waits.
type Packet = Option<(Vec<u8>, Instant<Realtime>)>;

/// The ways in that are bound.
static WAYS_IN: Mutex<BTreeMap<(IpAddr, u16), Sender<Packet>>> = Mutex::new(BTreeMap::new());

/// A way in, which is free again when it is gone.
struct WayIn {
    at: (IpAddr, u16),
    packets: Receiver<Packet>,
}

impl WayIn {
    fn bind(at: (IpAddr, u16)) -> Result<(WayIn, Sender<Packet>), SysError> {
        let (to, packets) = mpsc::channel();
        let mut ways_in = WAYS_IN.lock().expect("no test broke in it");
        if ways_in.contains_key(&at) {
            return Err(failure("bind", libc::EADDRINUSE));
        }
        ways_in.insert(at, to.clone());
        Ok((WayIn { at, packets }, to))
    }
}

impl Drop for WayIn {
    fn drop(&mut self) {
        WAYS_IN.lock().expect("no test broke in it").remove(&self.at);
    }
}

fn failure(call: &'static str, errno: i32) -> SysError {
    SysError { call, on: "memory of the test's".to_owned(), source: Error::from_raw_os_error(errno) }
}

struct Memory<const FAILS: usize>;

/// What was bound, and by which thread.
struct MemoryBound {
    by: ThreadId,
    ways: Ways<SendOrder, (ReceiveOrder, WayIn)>,
}

struct MemorySend<const FAILS: usize> {
    to: (IpAddr, u16),
    stamps: Vec<TxPoint>,
    stamped: VecDeque<TxStamp>,
}

/// The receiving half. Its ring has room for more than one batch, so that a batch may lie around
/// its end.
struct MemoryReceive {
    way: WayIn,
    ring: Ring,
}

/// Slots that are filled one behind the other, and those of them that are lent.
struct Ring {
    slots: Vec<(Vec<u8>, Option<Instant<Realtime>>)>,
    first: usize,
    lent: usize,
}

impl Ring {
    /// What was lent is free from now on.
    fn take_back(&mut self) {
        self.first = (self.first + std::mem::take(&mut self.lent)) % self.slots.len();
    }

    fn fill(&mut self, payload: &[u8], stamp: Instant<Realtime>) {
        let at = (self.first + self.lent) % self.slots.len();
        let (slot, stamped) = &mut self.slots[at];
        slot.clear();
        slot.extend_from_slice(payload);
        *stamped = Some(stamp);
        self.lent += 1;
    }
}

impl Lent for Ring {
    fn packet(&self, n: usize) -> (&[u8], Option<Instant<Realtime>>) {
        assert!(n < self.lent, "it is not lent");
        let (payload, stamp) = &self.slots[(self.first + n) % self.slots.len()];
        (payload, *stamp)
    }
    fn tags(&self, _: usize) -> Tags {
        Tags::UNSEEN
    }
}

impl<const FAILS: usize> PortKind for Memory<FAILS> {
    type Bound = MemoryBound;
    type Opened = Ways<MemorySend<FAILS>, MemoryReceive>;
    type To = MemorySend<FAILS>;
    type From = MemoryReceive;

    fn bind(order: &EndOrder) -> Result<Bound<MemoryBound>, SysError> {
        assert!(!measures(), "a port is bound by the control thread");
        CALLS[FAILS][0].fetch_add(1, Relaxed);
        if FAILS == AT_BIND {
            return Err(failure("bind", libc::EBUSY));
        }
        let mut wake = Wake::ByItself;
        let mut way_in = |order: &ReceiveOrder| {
            let (way, to) = WayIn::bind((order.local, order.port))?;
            wake = Wake::By(Box::new(move || to.send(None).unwrap_or_default()));
            Ok((order.clone(), way))
        };
        let ways = match order.ways() {
            Ways::Send(send) => Ways::Send(send.clone()),
            Ways::Receive(receive) => Ways::Receive(way_in(receive)?),
            Ways::Both(send, receive) => Ways::Both(send.clone(), way_in(receive)?),
        };
        Ok(Bound { port: MemoryBound { by: thread::current().id(), ways }, error_queue_bytes: 0, wake })
    }

    fn open(bound: MemoryBound) -> Result<Self::Opened, SysError> {
        assert!(measures() && thread::current().id() != bound.by, "a port is opened by its measuring thread");
        CALLS[FAILS][1].fetch_add(1, Relaxed);
        if FAILS == AT_OPEN {
            return Err(failure("mmap", libc::ENOMEM));
        }
        let to = |order: SendOrder| {
            let [_, sched, driver] = order.points();
            let points = [(sched, TxPoint::Sched), (driver, TxPoint::Software)];
            let wanted = points.into_iter().filter(|(point, _): &(Point, _)| order.order.wants(*point));
            let stamps = wanted.map(|(_, at)| at).collect();
            MemorySend { to: (order.peer, order.port), stamps, stamped: VecDeque::new() }
        };
        let from = |(order, way): (ReceiveOrder, WayIn)| {
            let slots = vec![(Vec::with_capacity(order.expects().2.into()), None); BATCH + BATCH / 2];
            MemoryReceive { way, ring: Ring { slots, first: 0, lent: 0 } }
        };
        Ok(match bound.ways {
            Ways::Send(send) => Ways::Send(to(send)),
            Ways::Receive(receive) => Ways::Receive(from(receive)),
            Ways::Both(send, receive) => Ways::Both(to(send), from(receive)),
        })
    }

    fn connect(
        opened: Self::Opened,
        goes_on: impl Fn() -> bool,
    ) -> Result<(Option<Ways<MemorySend<FAILS>, MemoryReceive>>, u64), SysError> {
        assert!(measures() && goes_on(), "nobody has said stop");
        CALLS[FAILS][2].fetch_add(1, Relaxed);
        if FAILS == AT_CONNECT {
            return Err(failure("connect", libc::ETIMEDOUT));
        }
        Ok((Some(opened), 0))
    }
}

/// True on a measuring thread.
fn measures() -> bool {
    thread::current().name().is_some_and(|name| name.starts_with("tardy-"))
}

impl<const FAILS: usize> SendPort for MemorySend<FAILS> {
    fn send(&mut self, payload: &[u8], key: u32, _: Option<Instant<Tai>>) -> Result<u32, i32> {
        let now: Instant<Realtime> = clock::now();
        let way = WAYS_IN.lock().expect("no test broke in it").get(&self.to).cloned();
        let gone = |_| libc::ECONNREFUSED;
        way.ok_or(libc::ECONNREFUSED)?.send(Some((payload.to_vec(), now))).map_err(gone)?;
        CALLS[FAILS][3].fetch_add(1, Relaxed);
        self.stamped.extend(self.stamps.iter().map(|at| TxStamp { key, at: *at, ns: now.ns() }));
        Ok(key)
    }
    fn drain(&mut self, each: impl FnMut(TxStamp)) -> usize {
        let some = self.stamped.len().min(DRAIN);
        self.stamped.drain(..some).for_each(each);
        some
    }
}

impl ReceivePort for MemoryReceive {
    type Lent = Ring;

    fn receive(&mut self, many: bool) -> Result<Received, i32> {
        self.ring.take_back();
        match self.way.packets.recv_timeout(Duration::from_millis(100)) {
            Ok(Some((payload, stamp))) => self.ring.fill(&payload, stamp),
            Ok(None) => return Ok(Received::Nothing),
            Err(_) => return Ok(Received::TimedOut),
        }
        while many && self.ring.lent < BATCH {
            let Ok(Some((payload, stamp))) = self.way.packets.try_recv() else { break };
            self.ring.fill(&payload, stamp);
        }
        Ok(Received::Packets(self.ring.lent))
    }
    fn lent(&self) -> &Ring {
        &self.ring
    }
}

/// Stations whose agents bind every end to this port, whatever its order names.
struct Through<const FAILS: usize>;

impl<const FAILS: usize> Through<FAILS> {
    const STATION: StationMethods = StationMethods {
        connect: |_, _| {
            let (from, to) = agent_of(bind_to::<Memory<FAILS>>);
            Ok(Connection { from: Box::new(from), to: Box::new(to), carrier: Box::new(Thread) })
        },
        ..STATION
    };
}

/// Runs the experiment through this port; why it failed, if it did, and what was kept of it.
fn run_through<const FAILS: usize>() -> (Option<String>, Kept) {
    let did = Rc::new(Cell::new([0; 3]));
    let mut idle = Idle::new(&did);
    let mut hosts = Hosts::here(&mut idle);
    let experiment = experiment_of(tardy_tests::experiment("open kinds"));
    let found = check(&experiment, &Kinds::default(), &mut hosts).unwrap_or_else(|error| panic!("{error}"));
    let (mut kept, stop) = (Kept::default(), AtomicBool::new(false));
    let kinds = Kinds { path: |_| &PATH, station: |_| &Through::<FAILS>::STATION };
    let options = Options { version: VERSION, stop: &stop, kinds, clocks: &one_host };
    let ended = run(&experiment, found, &mut hosts, &options, &mut kept);
    (ended.failed.map(|why| why.to_string()), kept)
}

#[test]
fn a_port_of_another_kind_carries_a_one_way_stream_and_a_ping_pong() {
    let (failed, kept) = run_through::<NOWHERE>();
    assert_eq!(failed, None);
    let [(record, streams)] = &kept.trials[..] else { panic!("{} trials", kept.trials.len()) };
    assert_eq!(record.failed, None);
    assert_eq!(streams.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["near", "far"]);
    for (name, batch) in streams {
        assert_eq!(batch.len(), 40, "{name}");
        assert!(batch.outcome.iter().all(|outcome| *outcome == Outcome::Received), "{name}: {:?}", batch.outcome);
        assert!(
            (0..40).all(|row| batch.stamp_ns(row, Point::RxKernel).is_some()),
            "{name}: the port's stamps are kept"
        );
    }
    let [bound, opened, connected, sent] = calls(NOWHERE);
    assert!(bound >= 4 && (opened, connected) == (bound, bound), "two ends of two streams, and those of short trials");
    assert!(sent >= 3 * 40, "{sent} packets, and each of the ping-pong's went twice");
}

#[test]
fn a_port_that_cannot_be_bound_is_told_before_a_thread_starts() {
    let (failed, kept) = run_through::<AT_BIND>();
    let why = failed.expect("nothing can be measured");
    assert!(why.contains("bind on memory of the test's: Device or resource busy"), "{why}");
    assert!(kept.trials.iter().all(|(record, _)| record.failed.is_some()), "no trial came of it");
    let [bound, opened, ..] = calls(AT_BIND);
    assert!(bound > 0 && opened == 0, "{bound} bound, {opened} opened");
}

#[test]
fn a_port_that_cannot_be_opened_is_told_by_its_thread_and_the_end_is_not_ready() {
    let (failed, kept) = run_through::<AT_OPEN>();
    let why = failed.expect("nothing can be measured");
    assert!(why.contains("mmap on memory of the test's: Cannot allocate memory"), "{why}");
    assert!(kept.trials.iter().all(|(record, _)| record.failed.is_some()), "no trial came of it");
    let [bound, opened, connected, _] = calls(AT_OPEN);
    assert!(bound > 0 && opened > 0 && connected == 0, "{bound} bound, {opened} opened, {connected} connected");
}

#[test]
fn a_port_that_cannot_be_connected_breaks_the_trial() {
    let (failed, kept) = run_through::<AT_CONNECT>();
    let trials = kept.trials.iter().filter_map(|(record, _)| record.failed.clone());
    let why: Vec<String> = failed.into_iter().chain(trials).collect();
    let words = "connect on memory of the test's: Connection timed out";
    assert!(why.iter().any(|why| why.contains(words) && why.contains("of stream")), "{why:?}");
    assert_eq!(calls(AT_CONNECT)[3], 0, "nothing was sent");
}
