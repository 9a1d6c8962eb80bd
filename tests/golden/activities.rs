// SPDX-License-Identifier: MIT OR Apache-2.0
//! A station's activities by their ids: a real agent in a thread of this process is ordered about,
//! also of what it has not.

use std::io::{PipeReader, PipeWriter, pipe};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use tardy_engine::activity::{ActivityId, ActivityOrder};
use tardy_engine::agent;
use tardy_engine::load::{LoadAt, LoadOrder};
use tardy_engine::message::{self, ActivitySummary, FromAgent, ToAgent};
use tardy_engine::order::{EndOrder, ReceiveOrder, StreamOrder, ThreadOrder};
use tardy_model::load::LoadKind;
use tardy_model::stream::{Kind, Policy, Port, Wait};
use tardy_model::stream_id::StreamId;
use tardy_model::time::{Instant, Nanos, Tai};

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
            lead: None,
        },
        thread: thread(),
        local: Ipv4Addr::LOCALHOST.into(),
        port,
        device: "lo".into(),
        wait: Wait::Block,
        replies: false,
    }))
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
