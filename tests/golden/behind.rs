// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way into a virtual machine that is there already, from what the kernel says of its devices.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use tardy_lab::behind::{Holder, Read, in_words, of};
use tardy_model::path::Devices;
use tardy_spec::{Source, load};

const FILE: &str = tardy_tests::part("network to another machine");

fn rows(all: Value) -> Vec<Value> {
    all.as_array().cloned().expect("rows")
}

fn emulator(queues: usize, vhost: bool) -> Vec<Holder> {
    vec![Holder { name: "qemu-system-x86".into(), queues, vhost }]
}

#[test]
fn each_way_into_a_machine_is_recognised_by_its_devices() {
    let bridged = Read {
        links: rows(json!([
            {"ifname": "br0", "linkinfo": {"info_kind": "bridge", "info_data":
                {"stp_state": 1, "mcast_snooping": 1, "vlan_filtering": 0, "ageing_time": 30000}}},
            {"ifname": "enp1s0", "master": "br0", "xdp": {"mode": 1, "prog": {"id": 7, "name": "filter"}}},
            {"ifname": "vnet3", "master": "br0", "mtu": 9000, "num_tx_queues": 256, "linkinfo": {"info_kind": "tun",
                "info_data": {"type": "tap", "multi_queue": true}, "info_slave_kind": "bridge",
                "info_slave_data": {"state": "forwarding", "mcast_flood": false, "isolated": false}}},
        ])),
        offloads: Some(json!([{"tx-checksumming": {"active": true}, "tcp-segmentation-offload": {"active": false}}])),
        fdb: rows(json!([
            {"mac": "52:54:00:00:00:01", "ifname": "vnet3", "master": "br0"},
            {"mac": "52:54:00:00:00:02", "ifname": "enp1s0", "master": "br0"},
            {"mac": "fe:54:00:00:00:01", "ifname": "vnet3", "state": "permanent"},
        ])),
        filters: rows(json!([{"kind": "bpf"}, {"kind": "bpf", "options": {"bpf_name": "count.o:[tc]"}}])),
        holders: emulator(2, true),
        ..Read::default()
    };
    let found = of("vnet3", &bridged);
    let fact = |name: &str| found.facts[&format!("behind.{name}")].as_str();
    assert_eq!((fact("kind"), fact("mtu"), fact("queues")), ("tap", "9000", "2 of 256"));
    assert_eq!(fact("moved_by"), "the kernel's vhost, for qemu-system-x86");
    assert_eq!(
        fact("port_of"),
        "bridge br0: STP on, multicast snooping on, VLAN filtering off, ageing 300 s; the port: forwarding, multicast flood off, isolated \
         off; other ports: enp1s0"
    );
    assert_eq!(fact("xdp"), "enp1s0: program `filter` (id 7) in the driver");
    assert_eq!((fact("tc"), fact("offloads")), ("count.o:[tc]", "tx-checksumming"));
    // Which machine it is, the bridge knows.
    let checked = |mac: &str| found.checked("vm", "vnet3", [mac]);
    let facts = checked("52:54:00:00:00:01").expect("it is there");
    let words = in_words(&facts);
    assert!(words.starts_with("behind vnet3 (tap, MTU 9000): packets are moved by the kernel's vhost"), "{words}");
    assert!(words.ends_with("52:54:00:00:00:01 behind vnet3"), "{words}");
    let other = checked("52:54:00:00:00:02").expect_err("it is another one's").to_string();
    assert!(other.contains("52:54:00:00:00:02 is behind network device `enp1s0`"), "{other}");
    let unknown = checked("52:54:00:00:00:03").expect("nobody knows");
    assert_eq!(unknown["behind.checked"], "nothing here shows which machine is behind it");

    let macvtap = Read {
        links: rows(json!([
            {"ifname": "enp1s0", "xdp": {"attached": [{"mode": 2, "prog": {"id": 9}}]}},
            {"ifname": "macvtap0", "link": "enp1s0", "mtu": 1500, "num_tx_queues": 1,
                "linkinfo": {"info_kind": "macvtap", "info_data": {"mode": "vepa"}}},
        ])),
        holders: emulator(1, false),
        ..Read::default()
    };
    let found = of("macvtap0", &macvtap);
    assert_eq!(found.facts["behind.kind"], "macvtap, mode vepa, on enp1s0");
    assert_eq!(found.facts["behind.moved_by"], "qemu-system-x86 itself, without vhost");
    assert_eq!(found.facts["behind.xdp"], "enp1s0: program (id 9) behind the driver");
    assert_eq!(found.facts["behind.offloads"], "ethtool does not say");

    let switched = Read {
        links: rows(json!([
            {"ifname": "ovs-system"},
            {"ifname": "enp1s0", "master": "ovs-system"},
            {"ifname": "vnet0", "master": "ovs-system", "linkinfo": {"info_kind": "tun", "info_data":
                {"type": "tap", "multi_queue": false}, "info_slave_kind": "openvswitch"}},
        ])),
        ..Read::default()
    };
    let found = of("vnet0", &switched);
    assert_eq!(
        found.facts["behind.port_of"],
        "Open vSwitch's datapath in the kernel (ovs-system); its other ports: enp1s0"
    );
    assert_eq!(found.facts["behind.moved_by"], "nobody that can be seen from here has it open");
    assert_eq!(found.facts["behind.queues"], "0 of 1");
}

#[test]
fn a_tap_is_of_a_machine_that_ssh_reaches_over_what_is_there() {
    let given = |set: &[&str]| {
        let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
        load(&Source { name: "test.toml".into(), text: FILE.to_owned() }, &set)
    };
    let experiment = given(&["station.b.tap=vnet3"]).unwrap_or_else(|error| panic!("{}", error.one_line()));
    let setup = &experiment.cells[0].setup;
    assert_eq!(setup.path.traits().devices, Devices::Own);
    let taps: BTreeMap<_, _> = setup.stations.iter().map(|(name, of)| (name.as_str(), of.tap.as_deref())).collect();
    assert_eq!(taps, [("a", None), ("b", Some("vnet3"))].into());
    let says = |set: &[&str]| given(set).err().map(|error| error.one_line()).unwrap_or_default();
    let alone = says(&["station.a.tap=vnet3"]);
    assert!(
        alone.contains("`station.a.tap` is for a station in a virtual machine that is reached over ssh"),
        "{alone}"
    );
    let host_to_host = tardy_spec::ready_made("host-to-host").expect("it is ready-made");
    let built = load(&host_to_host, &["station.b.tap=vnet3".to_owned()]);
    let built = built.err().map(|error| error.one_line()).unwrap_or_default();
    assert!(built.contains("`station.b.tap` has no meaning for a station of kind"), "{built}");
}
