// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the coordinator talks with. A real agent in a thread of this process gets orders about
//! a station's activities, also about some that it does not have. And a coordinator and the steward
//! of another host talk over pipes in one process, also if an answer is not one.

use crate::two_hosts::Thread;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use tardy_engine::load::{LoadAt, LoadOrder};
use tardy_engine::message::{ActivityId, ActivityOrder, ActivitySummary, FromAgent, ToAgent};
use tardy_engine::order::{CostOrder, EndOrder, ObjectOrder, ReceiveOrder, StreamOrder, ThreadOrder};
use tardy_engine::{agent, message, worker};
use tardy_lab::command::Command;
use tardy_lab::connection::Connection;
use tardy_lab::host::ask::{Ask, Observe, Observed};
use tardy_lab::host::distant::Distant;
use tardy_lab::host::place::Place;
use tardy_lab::host::{ApplyError, Away, Host, HostId, LookError, noted, serve};
use tardy_lab::machine::Facts;
use tardy_lab::names::Names;
use tardy_lab::run::Event;
use tardy_lab::slot::ClaimError;
use tardy_lab::step::Step;
use tardy_lab::undo::{PutBack, UndoError};
use tardy_model::load::LoadKind;
use tardy_model::manifest::{HostEntry, ReadBack};
use tardy_model::port::Port;
use tardy_model::stream::{Kind, Policy, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_model::xdp::Triggered;

const LOAD: ActivityId = ActivityId(3);
const END: ActivityId = ActivityId(9);
const NOBODY: ActivityId = ActivityId(4);

/// An agent, and what to say and hear it by.
struct Talk {
    to: PipeWriter,
    from: PipeReader,
}

impl Talk {
    fn begin() -> Talk {
        let ((orders, mut to), (mut from, mut answers)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
        std::thread::spawn(move || agent::serve(orders, &mut answers, "test"));
        message::greet(&mut to, "test").expect("greeted");
        message::hear(&mut from, "test").expect("it greets");
        Talk { to, from }
    }

    fn tell(&mut self, order: &ToAgent) {
        message::send(&mut self.to, order).expect("it listens");
    }

    /// The next message that is no live figure.
    fn hear(&mut self) -> FromAgent {
        loop {
            match message::receive(&mut self.from).expect("it answers") {
                FromAgent::Progress { .. } => {}
                told => return told,
            }
        }
    }

    /// What it says to an order that it cannot obey.
    fn refused(&mut self, order: &ToAgent) -> String {
        self.tell(order);
        match self.hear() {
            FromAgent::Failed(why) => why,
            other => panic!("{order:?}: {other:?}"),
        }
    }
}

fn thread() -> ThreadOrder {
    ThreadOrder { cpu: None, policy: Policy::Other }
}

/// A load that takes no port.
fn load() -> ActivityOrder {
    ActivityOrder::Load(LoadOrder {
        at: LoadAt { load: 0, instance: 0, peer: false },
        name: "busy".into(),
        kind: LoadKind::Cpu { duty: 0.01, period: Nanos::from_millis(10) },
        thread: thread(),
        local: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        remote: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        start: Nanos::ZERO,
        stop: None,
        send_buffer: None,
        receive_buffer: None,
        seed: 1,
    })
}

/// A receiver on loopback.
fn receiver() -> ActivityOrder {
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = free.local_addr().expect("an address").port();
    ActivityOrder::End(EndOrder::Receive(ReceiveOrder {
        order: StreamOrder {
            stream: StreamId::numbered(5),
            nonce: 7,
            kind: Kind::Cyclic,
            port: Port::Udp,
            cycle: Nanos::from_millis(1),
            count: 10,
            size: 64,
            reply_size: 64,
            nodelay: true,
            ethertype: tardy_model::ethernet::ETHERTYPE,
            tag: None,
            stamps: Vec::new(),
            triggered: Triggered::default(),
            lead: None,
        },
        thread: thread(),
        local: Ipv4Addr::LOCALHOST.into(),
        port,
        device: "lo".into(),
        wait: Wait::Block,
        queue: None,
        frames: 4_096,
        replies: false,
        object: None,
        hints: Vec::new(),
    }))
}

#[test]
fn the_warm_up_was_in_the_account_of_a_receiver_that_ended_by_itself() {
    let account = std::thread::spawn(|| {
        let mut account = worker::set_up(&thread());
        let (until, mut spun) = (std::time::Instant::now() + Duration::from_millis(200), 0_u64);
        while std::time::Instant::now() < until {
            spun = std::hint::black_box(spun + 1);
        }
        let began = worker::usage(account.record().tid);
        account.began_at(Some(&began));
        (began, account.end())
    });
    let (began, record) = account.join().expect("it ends");
    assert!(began.is_known());
    let ms = |ns: Option<i64>| ns.expect("the kernel reports it") / 1_000_000;
    assert!(ms(record.run_ns) < 100, "{record:?}");

    // One that still works when it is collected, and spins.
    let mut agent = Talk::begin();
    let ActivityOrder::End(EndOrder::Receive(mut order)) = receiver() else { panic!("it receives") };
    order.wait = Wait::Spin;
    let activities = vec![(END, ActivityOrder::End(EndOrder::Receive(order)))];
    agent.tell(&ToAgent::Prepare { activities });
    let FromAgent::Ready { .. } = agent.hear() else { panic!("it can be made ready") };
    let made_ready = std::time::Instant::now();
    std::thread::sleep(Duration::from_millis(300));
    agent.tell(&ToAgent::Start { activities: vec![END], base: tardy_sys::clock::now() });
    agent.tell(&ToAgent::Collect { activity: END });
    let FromAgent::Collected { summary, .. } = agent.hear() else { panic!("nothing arrived") };
    let ActivitySummary::End(rest) = *summary else { panic!("it is an end") };
    let since_ready = made_ready.elapsed().as_millis() as i64;
    assert!(ms(rest.thread.over_ns) <= since_ready - 300, "{:?} in {since_ready} ms", rest.thread);
}

#[test]
fn an_agent_measured_what_a_line_costs_while_it_watched_programs() {
    let mut agent = Talk::begin();
    agent.tell(&ToAgent::Inspect { devices: Vec::new(), inside: Vec::new(), awaited: Vec::new() });
    assert_eq!(agent.hear(), FromAgent::Inspecting);
    // It would be measured with what watches programs, and with the kernel's count of their runs.
    let why = agent.refused(&ToAgent::Cost(CostOrder::Line));
    assert!(why.contains("while programs are watched") && why.contains("report it"), "{why}");
    agent.tell(&ToAgent::Inspected {
        each: 0,
        objects: vec![ObjectOrder { bytes: vec![7], section: None, times: Vec::new() }],
    });
    let FromAgent::Inspected { objects, .. } = agent.hear() else { panic!("it was watching") };
    assert_eq!(objects, [None], "what cannot be read has its place");
    let object = ObjectOrder { bytes: vec![7], section: None, times: Vec::new() };
    agent.tell(&ToAgent::Cost(CostOrder::Object { object, packet: vec![0; 64] }));
    let FromAgent::Cost(Err(why)) = agent.hear() else { panic!("it is no object") };
    assert!(why.contains("neither an ELF file nor BTF"), "{why}");
}

#[test]
fn an_order_about_an_unknown_activity_is_refused_and_touches_no_other() {
    let mut agent = Talk::begin();
    agent.tell(&ToAgent::Prepare { activities: vec![(LOAD, load()), (END, receiver())] });
    let FromAgent::Ready { ends, .. } = agent.hear() else { panic!("both can be made ready") };
    assert_eq!(ends.iter().map(|end| end.activity).collect::<Vec<_>>(), [END]);
    agent.tell(&ToAgent::Connect);
    assert_eq!(agent.hear(), FromAgent::Connected);
    let base: Instant<Tai> = tardy_sys::clock::now();
    for order in [
        ToAgent::WarmUp { activity: NOBODY, count: 1, apart: Nanos(1) },
        ToAgent::WarmStatus { activity: NOBODY },
        ToAgent::Start { activities: vec![NOBODY], base },
        ToAgent::Stop { activities: vec![NOBODY] },
        ToAgent::Finish { activity: NOBODY, expected: 0, linger: Nanos::ZERO },
        ToAgent::Collect { activity: NOBODY },
    ] {
        let why = agent.refused(&order);
        assert!(why.contains("activity 4") && why.contains("report it"), "{why}");
    }
    // A load does not do what an end does.
    for order in [
        ToAgent::WarmUp { activity: LOAD, count: 1, apart: Nanos(1) },
        ToAgent::WarmStatus { activity: LOAD },
        ToAgent::Finish { activity: LOAD, expected: 0, linger: Nanos::ZERO },
    ] {
        let why = agent.refused(&order);
        assert!(why.contains("activity 3 is a load"), "{why}");
    }
    // The activities that follow an unknown one get their order all the same, and obey it.
    assert!(agent.refused(&ToAgent::Start { activities: vec![NOBODY, LOAD, END], base }).contains("activity 4"));
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert!(agent.refused(&ToAgent::Stop { activities: vec![NOBODY, LOAD] }).contains("activity 4"));
    agent.tell(&ToAgent::Collect { activity: LOAD });
    let FromAgent::Collected { activity: LOAD, summary } = agent.hear() else { panic!("it hands over what it did") };
    let ActivitySummary::Load(record) = *summary else { panic!("it is a load") };
    assert!(record.ended_ns > 0, "it ran: {record:?}");
    agent.tell(&ToAgent::Finish { activity: END, expected: 0, linger: Nanos::ZERO });
    assert_eq!(agent.hear(), FromAgent::Done { activity: END, packets: 0 });
    agent.tell(&ToAgent::Collect { activity: END });
    let FromAgent::Collected { activity: END, summary } = agent.hear() else { panic!("nothing came, and it says so") };
    assert!(matches!(*summary, ActivitySummary::End(_)));
    // What has handed over is not there any more.
    assert!(agent.refused(&ToAgent::Collect { activity: END }).contains("activity 9"));
    assert!(agent.refused(&ToAgent::Collect { activity: LOAD }).contains("activity 3"));
}

const VERSION: &str = "0.1.0 (build 0123)";

/// A host that notes what it is asked and refuses what is called `no`.
#[derive(Default)]
struct Noting {
    steps: Vec<Step>,
    noted: Vec<u32>,
    kept: usize,
    put_back: u32,
    ended: u32,
}

impl Host for Noting {
    fn look(&mut self, ask: &Ask) -> Result<Facts, LookError> {
        assert_eq!(ask, &Ask::default());
        Ok(Facts { usable: vec![3, 5], ..Facts::default() })
    }

    fn describe(&mut self) -> Result<HostEntry, Away> {
        let programs = BTreeMap::from([("ip".to_owned(), "of 77".to_owned())]);
        Ok(HostEntry { programs, ..HostEntry::default() })
    }

    fn now(&mut self) -> Result<Instant<Tai>, Away> {
        Ok(Instant::from_ns(77))
    }

    fn claim(&mut self) -> Result<Names, ClaimError> {
        Ok(Names::of(77).expect("a slot"))
    }

    fn apply(&mut self, steps: &[Step]) -> Result<(), ApplyError> {
        self.steps.extend_from_slice(steps);
        match steps.iter().find(|step| step.why == "no") {
            Some(step) => {
                let (command, why) = (step.does[0].clone(), step.why.clone());
                Err(ApplyError::Failed { command, why, says: "not today".to_owned() })
            }
            None => Ok(()),
        }
    }

    fn read_back(&mut self, _: &[Command]) -> Result<Vec<ReadBack>, ApplyError> {
        // One answer too few.
        Ok(Vec::new())
    }

    fn link_is_up(&mut self, _: Option<&str>, device: &str) -> Result<bool, LookError> {
        match device {
            "gone" => Err(Away { host: "this machine".to_owned(), says: "it was unplugged".to_owned() }.into()),
            device => Ok(device == "up"),
        }
    }

    fn start(&mut self, _: &Command) -> Result<Connection, ApplyError> {
        unreachable!("programs have connections of their own")
    }

    fn note(&mut self, pid: u32) -> Result<(), ApplyError> {
        self.noted.push(pid);
        if pid == 13 {
            return Err(Away { host: "this machine".to_owned(), says: "there is no process 13".to_owned() }.into());
        }
        Ok(())
    }

    fn observe(&mut self, _: &Observe) -> Result<Observed, Away> {
        Err(Away { host: "this machine".to_owned(), says: "no".to_owned() })
    }

    fn end_leftovers(&mut self) {}

    fn keep(&mut self) -> Result<(), Away> {
        self.kept = self.steps.len();
        Ok(())
    }

    fn end(&mut self) -> Result<PutBack, UndoError> {
        self.ended += 1;
        Ok(PutBack { steps: self.steps.len() as u32, ..PutBack::default() })
    }

    fn put_back(&mut self) -> Result<PutBack, UndoError> {
        self.put_back += 1;
        Ok(PutBack { steps: (self.steps.len() - self.kept) as u32, ..PutBack::default() })
    }

    fn ran(&mut self) -> Vec<Event> {
        Vec::new()
    }
}

type Reach = RefCell<Option<Connection>>;

/// A host whose steward is whatever `served` does with its end of the line.
fn met(
    served: impl FnOnce(PipeReader, PipeWriter) + Send + 'static,
) -> Result<Distant<impl FnMut(&Command) -> std::io::Result<Connection>>, Away> {
    let ((orders, to), (from, answers)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    std::thread::spawn(move || served(orders, answers));
    let line: Reach =
        RefCell::new(Some(Connection { from: Box::new(from), to: Box::new(to), carrier: Box::new(Thread) }));
    Distant::meet(move |_: &Command| Ok(line.take().expect("it is opened once")), "b", VERSION)
}

fn step(why: &'static str) -> Step {
    Step::new(&Place::netns_of(HostId::numbered(4), "tardy-77-a"), why, vec![Command::ip(&["link", "show"])])
}

#[test]
fn each_order_gets_the_answer_of_the_host_and_the_end_of_orders_puts_back() {
    let (told, hears) = std::sync::mpsc::channel();
    let mut host = met(move |orders, mut answers| {
        let mut noting = Noting::default();
        let served = serve::serve(orders, &mut answers, VERSION, &mut noting);
        let counts = [noting.kept as u32, noting.put_back, noting.ended];
        told.send((served.map_err(|error| error.to_string()), noting.steps, counts)).expect("it is heard");
    })
    .expect("it greets");
    assert_eq!(host.look(&Ask::default()).expect("facts").usable, [3, 5]);
    assert_eq!(host.describe().expect("it is there").programs["ip"], "of 77");
    assert_eq!(host.now().expect("it is there").ns(), 77);
    assert_eq!(host.claim().expect("a slot").slot(), 77);
    host.apply(&[step("yes")]).expect("it is done");
    host.keep().expect("it is kept");
    match host.apply(&[step("no")]) {
        Err(ApplyError::Failed { command, why, says }) => {
            assert_eq!((command.to_string().as_str(), &*why, says.as_str()), ("ip link show", "no", "not today"));
        }
        other => panic!("{other:?}"),
    }
    let few = host.read_back(&[Command::ip(&["link"])]).expect_err("one answer for each command").to_string();
    assert_eq!(few, "b: its steward answered something else than what it was asked");
    assert!(
        host.link_is_up(Some("x"), "up").expect("looked at") && !host.link_is_up(Some("x"), "down").expect("looked at")
    );
    let gone = host.link_is_up(Some("x"), "gone").expect_err("unplugged").to_string();
    assert_eq!(gone, "b: this machine: it was unplugged");
    assert_eq!(host.put_back().expect("put back").steps, 1);
    assert_eq!(host.end().expect("put back").steps, 2);
    drop(host);
    let (served, steps, counts) = hears.recv_timeout(Duration::from_secs(20)).expect("it ends");
    assert_eq!((served, counts), (Ok(()), [1, 1, 2]), "once by order, and once more at the end");
    assert!(steps.iter().all(|step| step.place.host == HostId::HERE), "there it is this machine");
    assert_eq!(steps[0].place.netns.as_deref(), Some("tardy-77-a"));
}

/// A line over a network, which may go silent without being closed.
struct Far(Option<Connection>);

impl tardy_lab::host::distant::Reach for Far {
    fn open(&mut self, _: &Command) -> std::io::Result<Connection> {
        Ok(self.0.take().expect("it is opened once"))
    }

    fn is_far(&self) -> bool {
        true
    }
}

#[test]
fn a_steward_behind_a_network_that_went_silent_waited_for_ever() {
    let ((orders, to), (from, mut answers)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    let (told, hears) = channel();
    std::thread::spawn(move || {
        let mut noting = Noting::default();
        let served = serve::serve(orders, &mut answers, VERSION, &mut noting);
        told.send((served.map_err(|error| error.to_string()), noting.ended)).expect("it is heard");
    });
    let line = Connection { from: Box::new(from), to: Box::new(to), carrier: Box::new(Thread) };
    let mut host = Distant::meet(Far(Some(line)), "b", VERSION).expect("it greets");
    host.watch(Duration::from_secs(1)).expect("it is there");
    // Silence, and nothing is closed: `host` lives.
    assert_eq!(hears.recv_timeout(Duration::from_secs(20)), Ok((Ok(()), 1)), "it puts back and ends");
    let error = host.claim().expect_err("it is gone").to_string();
    assert!(error.starts_with("b: the connection to its steward is lost"), "{error}");
}

/// A process on the other host: it says that it is `pid`, and once that is noted it writes `runs`.
/// `went` hears what became of its wait.
fn waits(pid: u32, went: Sender<Result<(), String>>) -> Connection {
    let ((mut orders, to), (from, mut answers)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    std::thread::spawn(move || {
        let waited = noted::wait(&mut orders, &mut answers, pid).map_err(|error| error.to_string());
        if waited.is_ok() {
            // What comes behind the order to go is the program's to read.
            let mut line = [0; 5];
            orders.read_exact(&mut line).expect("its own input");
            answers.write_all(&[b"heard ", &line[..]].concat()).expect("it is read");
        }
        let _ = went.send(waited);
    });
    Connection { from: Box::new(from), to: Box::new(to), carrier: Box::new(Thread) }
}

#[test]
fn a_process_of_another_host_ran_without_being_in_that_hosts_journal() {
    let ((orders, to), (from, mut answers)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    let steward = std::thread::spawn(move || {
        let mut noting = Noting::default();
        serve::serve(orders, &mut answers, VERSION, &mut noting).expect("it ends in order");
        noting.noted
    });
    let mut line = Some(Connection { from: Box::new(from), to: Box::new(to), carrier: Box::new(Thread) });
    let ((went, ends), mut asked) = (channel(), Vec::new());
    let mut pids = [4711, 13].into_iter();
    let reach = |command: &Command| {
        asked.push(command.to_string());
        Ok(line.take().unwrap_or_else(|| waits(pids.next().expect("two are started"), went.clone())))
    };
    let mut host = Distant::meet(reach, "b", VERSION).expect("it greets");
    let agent = Command::new("tardy", &["agent", "--netns", "tardy-77-a"]);
    let Connection { mut from, mut to, .. } = host.start(&agent).expect("it runs");
    to.write_all(b"hello").expect("it reads");
    let mut said = [0; 11];
    from.read_exact(&mut said).expect("it answers");
    assert_eq!((&said, ends.recv()), (b"heard hello", Ok(Ok(()))));
    // What cannot be noted must not run.
    let error = host.start(&Command::new("cat", &[])).expect_err("it is not noted").to_string();
    assert_eq!(error, "b: this machine: there is no process 13");
    let closed = "the other side closed the connection".to_owned();
    assert_eq!(ends.recv(), Ok(Err(closed)), "it waits no longer, and never was the program");
    drop(host);
    assert_eq!(steward.join().expect("no panic"), [4711, 13]);
    assert_eq!(asked, ["tardy steward", "tardy noted -- tardy agent --netns tardy-77-a", "tardy noted -- cat"]);
}

#[test]
fn a_steward_of_another_build_and_one_that_is_none_are_refused() {
    let greeting = |version: &'static str| {
        move |mut orders: PipeReader, mut answers: PipeWriter| {
            let _ = message::greet(&mut answers, version);
            let _ = message::hear(&mut orders, version);
        }
    };
    let error = met(greeting("0.1.0 (build 4567)")).err().expect("another build").to_string();
    assert!(
        error.starts_with("b: its steward is tardy 0.1.0 (build 4567), and this is tardy 0.1.0 (build 0123)"),
        "{error}"
    );
    let login = |mut orders: PipeReader, mut answers: PipeWriter| {
        let _ = answers.write_all(b"Last login: Mon Nov 23\n");
        // It reads on: if it were gone before the greeting reaches it, the connection would be
        // lost.
        let _ = message::read_frame(&mut orders);
    };
    let error = met(login).err().expect("no steward").to_string();
    assert!(error.starts_with("b: not a message of this protocol"), "{error}");
    let error = met(|_orders, _answers| ()).err().expect("nobody").to_string();
    assert!(error.starts_with("b: the connection to its steward is lost"), "{error}");
}

#[test]
fn a_steward_that_says_nonsense_or_nothing_more_loses_its_connection_and_nothing_else() {
    let mut host = met(|mut orders, mut answers| {
        let _ = message::greet(&mut answers, VERSION);
        let _ = message::hear(&mut orders, VERSION);
        let _ = message::read_frame(&mut orders);
        let _ = message::write_frame(&mut answers, b"{\"answer\":{\"Slot\":1e400},\"ran\":[]}");
        // It stays, and is not asked any more.
        let _ = message::read_frame(&mut orders);
    })
    .expect("it greets");
    let error = host.claim().expect_err("no number").to_string();
    assert!(error.starts_with("b: not a message of this protocol"), "{error}");
    let error = host.put_back().expect_err("it is given up").to_string();
    assert!(error.starts_with("b: the connection to its steward is lost"), "{error}");
}

#[test]
fn an_order_that_is_none_ends_the_steward_and_what_was_done_is_put_back() {
    let ((orders, mut to), (mut from, mut answers)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    let steward = std::thread::spawn(move || {
        let mut noting = Noting::default();
        let served = serve::serve(orders, &mut answers, VERSION, &mut noting);
        (served.expect_err("no order").to_string(), noting.ended)
    });
    message::greet(&mut to, VERSION).expect("it listens");
    message::hear(&mut from, VERSION).expect("it greets");
    message::write_frame(&mut to, b"{\"Apply\":[{\"place\":{\"host\":\"the moon\"}}]}").expect("it listens");
    let (error, put_back) = steward.join().expect("no panic");
    assert!(error.contains("`the moon` names no host"), "{error}");
    assert_eq!(put_back, 1);
}
