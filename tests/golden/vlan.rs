// SPDX-License-Identifier: MIT OR Apache-2.0
//! VLANs of a path as they are planned: devices that write tags, receive queues by priority, and
//! the orders to the ends of a tagged stream.

use std::collections::BTreeSet;
use tardy_engine::order::EndOrder;
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::{LinkNumber, Names, SLOTS};
use tardy_lab::plan::plan;
use tardy_model::ethernet::Tag;

#[test]
fn vlan_devices_lie_over_both_ends_and_go_before_them() {
    let stream = |name: &str, more: &str| format!("[stream.{name}]\nfrom = \"a\"\nto = \"b\"\n{more}\n");
    let text = format!(
        "[station.a]\n[station.b]\n{}{}{}{}",
        stream("ctl", "vlan = 100\npcp = 5\npriority = 3"),
        stream("other", "vlan = 100\npcp = 1\npriority = 6\nip = \"ipv6\""),
        stream("third", "vlan = 0\npcp = 7"),
        stream("frames", "port = \"packet\"\nvlan = 9\npcp = 2"),
    );
    let source = tardy_spec::Source { name: "vlan.toml".into(), text };
    let experiment = tardy_spec::load(&source, &[]).expect("it loads");
    let setup = &experiment.cells[0].setup;
    let plan = plan(setup, Names::FIRST, &FactsByHost::default()).expect("a plan");
    let script = plan.script();
    let has = |line: &str| assert!(script.lines().any(|have| have == line), "{line}\n{script}");
    has("ip -n tardy-0-a link add link tardy0-0 name tdy0-0.0 type vlan id 0 egress-qos-map 0:7");
    has("ip -n tardy-0-a link add link tardy0-0 name tdy0-0.100 type vlan id 100 egress-qos-map 3:5 6:1");
    has("ip -n tardy-0-b link add link tardy0-1 name tdy0-1.100 type vlan id 100 egress-qos-map 3:5 6:1");
    has("ip -n tardy-0-a addr add 198.18.0.9/30 dev tdy0-0.100");
    has("ip -n tardy-0-b addr add fd74:6172:6479:0:65::2/80 dev tdy0-1.100 nodad");
    has("ip -n tardy-0-b neigh replace 198.18.0.9 lladdr 02:74:64:00:00:00 dev tdy0-1.100 nud permanent");
    assert!(!script.contains("id 9 "), "port packet writes its tags itself: {script}");
    let undo: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
    let place = |line: &str| undo.iter().position(|have| have == line).expect(line);
    assert!(place("ip -n tardy-0-a link del dev tdy0-0.100") < place("ip -n tardy-0-a link del dev tardy0-0"));
    let vlan = &plan.ends.at("b").expect("an end").vlans[&100];
    assert_eq!((vlan.device.as_str(), vlan.address.to_string()), ("tdy0-1.100", "198.18.0.10".to_owned()));
    // No name and no address of a slot meets another's.
    let last = Names::of(SLOTS - 1).expect("the last slot");
    assert!(last.vlan(LinkNumber::SECOND, 4_094).len() <= 15);
    let addresses: BTreeSet<_> = (0..7)
        .flat_map(|n| [LinkNumber::FIRST, LinkNumber::SECOND].map(|side| last.vlan_subnet(2, n).address(side)))
        .collect();
    assert_eq!(addresses.len(), 14);
    let first = u32::from(last.address(LinkNumber::FIRST)) - 1;
    assert!(addresses.iter().all(|address| (4..32).contains(&(u32::from(*address) - first))), "{addresses:?}");
}

#[test]
fn the_ends_of_a_tagged_stream_are_given_their_device_and_addresses() {
    let text = "[station.a]\n[station.b]\n[stream.ctl]\nfrom = \"b\"\nto = \"a\"\nport = \"packet\"\nvlan = 9\npcp = 2\nreflect = true\n";
    let load = |text: &str| {
        let source = tardy_spec::Source { name: "vlan.toml".into(), text: text.to_owned() };
        tardy_spec::load(&source, &[]).expect("it loads").cells.remove(0).setup
    };
    let ends = |text: &str| {
        let setup = load(text);
        let plan = plan(&setup, Names::FIRST, &FactsByHost::default()).expect("a plan");
        let (chosen, _) =
            tardy_lab::placement::place(&setup, &FactsByHost::from(Facts { usable: vec![0, 1], ..Facts::default() }))
                .expect("placed");
        let (_, ordered) =
            tardy_lab::orders::orders(&setup, &plan, &chosen, &mut tardy_lab::orders::random_of(1, "all", 1))
                .expect("its stations are there");
        ordered[0].ends.clone()
    };
    let (b, a) = ([2, 0x74, 0x64, 0, 0, 1], [2, 0x74, 0x64, 0, 0, 0]);
    match &ends(text)[..] {
        [EndOrder::Send(send), EndOrder::Reflect(reflect), EndOrder::Receive(_)] => {
            assert_eq!((send.macs, send.device.as_str()), ([a, b], "tardy0-1"));
            assert_eq!((reflect.send.macs, reflect.receive.device.as_str()), ([b, a], "tardy0-0"));
            assert_eq!(send.order.tag, Some(Tag { vlan: 9, pcp: 2 }));
        }
        other => panic!("{other:?}"),
    }
    match &ends(&text.replace("packet", "udp"))[..] {
        [EndOrder::Send(send), EndOrder::Reflect(reflect), EndOrder::Receive(receive)] => {
            assert_eq!((send.device.as_str(), send.peer.to_string()), ("tdy0-1.9", "198.18.0.5".to_owned()));
            assert_eq!(
                (reflect.send.device.as_str(), receive.local.to_string()),
                ("tdy0-0.9", "198.18.0.6".to_owned())
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn receive_queues_by_priority_are_rules_of_who_receives() {
    let text = "[station.a]\n[station.b]\n[path]\npcp_queues = true\nqueues = 3\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\nport = \"packet\"\nvlan = 9\n";
    let script = |text: &str| {
        let source = tardy_spec::Source { name: "vlan.toml".into(), text: text.to_owned() };
        let setup = tardy_spec::load(&source, &[]).expect("it loads").cells.remove(0).setup;
        plan(&setup, Names::FIRST, &FactsByHost::default()).expect("a plan").script()
    };
    let one_way = script(text);
    let rule = |pcp: u32, queue: u32| {
        format!(
            "ip netns exec tardy-0-b sh -c 'ethtool -N tardy0-1 flow-type ether vlan {:#06x} vlan-mask 0x1fff action {queue} \
             loc {pcp} && ethtool -n tardy0-1 rule {pcp} >/dev/null'",
            pcp << 13
        )
    };
    for (pcp, queue) in [(0, 0), (1, 1), (2, 2), (3, 2), (7, 2)] {
        assert!(one_way.contains(&rule(pcp, queue)), "{}\n{one_way}", rule(pcp, queue));
        assert!(one_way.contains(&format!("ethtool -N tardy0-1 delete {pcp}")), "{one_way}");
    }
    assert!(!one_way.contains("ethtool -N tardy0-0"), "nothing tagged arrives there: {one_way}");
    assert!(script(&format!("{text}reflect = true\n")).contains("ethtool -N tardy0-0"), "replies do");
}
