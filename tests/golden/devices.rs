// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network devices of a path. Simulated and emulated ones: what is planned for them, who gets them,
//! and the instants of a device's own clock. And those of path `wire`: what speaks against a
//! device, what is planned for it, and how it comes back.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use tardy_host::nic;
use tardy_host::nic::Nic;
use tardy_lab::command::{Batch, Command};
use tardy_lab::coordinator::ask;
use tardy_lab::guest::kernel::{Kernel, Sums};
use tardy_lab::guest::{GuestError, devices, extra};
use tardy_lab::host::HostId;
use tardy_lab::host::devices::{Claim, DeviceError, names_end_here};
use tardy_lab::host::runner::{BatchOutput, CommandError, Failure, Runner};
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::path::PathError;
use tardy_lab::path::wire::{asked, setting};
use tardy_lab::plan::{Kinds, Plan, PlanError, plan};
use tardy_lab::process::Identity;
use tardy_lab::step::Step;
use tardy_lab::undo::undo_all;
use tardy_lab::{journal, loads, orders};
use tardy_model::time::PhcReading;
use tardy_spec::experiment::{Experiment, Setup};
use tardy_spec::{Source, load, ready_made};
use tardy_sys::hwtstamp::HwStamp;
use tardy_sys::nic::TsInfo;

fn with(path: &str) -> Experiment {
    let stream = tardy_tests::experiment("stream from a to b");
    let text = format!("{stream}cycle = \"1ms\"\ncount = 5\n[path]\n{path}\n");
    let source = Source { name: "x.toml".into(), text };
    load(&source, &[]).unwrap_or_else(|error| panic!("{path}\n{}", error.one_line()))
}

#[test]
fn cells_that_a_guest_cannot_run_were_found_out_by_the_run() {
    let source = ready_made("tsn-qdiscs").expect("it is ready-made");
    let experiment = load(&source, &[]).expect("it loads");
    let has = |modules: &[&str]| {
        let path = |name: &&str| (format!("/modules/updates/tardy/{name}").into(), String::new());
        Sums { kernel: "debian:6.12".to_owned(), of: modules.iter().map(path).collect() }
    };
    let lacks = |sums: Option<Sums>| {
        let (name, release) = ("debian:6.12".to_owned(), "6.12.1".to_owned());
        let kernel = Kernel { name, image: "vmlinuz".into(), release, modules: None, sha256: String::new(), sums };
        let lacks = devices::not_built(&experiment, &kernel).into_iter();
        lacks.map(|(extra, cells)| format!("{}: {}", extra.name, cells.join(" "))).collect::<Vec<_>>()
    };
    assert_eq!(lacks(Some(has(&["bridge.ko.xz", "netdevsim.ko"]))), ["netdevsim: offload offload-again"]);
    assert_eq!(lacks(Some(has(&["ptp_mock.ko", "netdevsim.ko"]))), [""; 0]);
    assert_eq!(lacks(None), [""; 0], "a kernel of a user's own may have it built in");
}

const SIMULATED: &str = "\
# a fresh network namespace for the station
ip netns add tardy-0-a
ip netns add tardy-0-b
# a simulated device of one port, born in its namespace
ip netns exec tardy-0-a sh -c 'echo 1952710656 1 2 >/sys/bus/netdevsim/new_device'
ip netns exec tardy-0-a sh -c 'cd /sys/bus/netdevsim/devices/netdevsim1952710656/net && for device in *; do ip link set dev $device name tardy0-0; done'
# the path's MTU, and an address that the other end knows
ip -n tardy-0-a link set dev tardy0-0 mtu 1400 address 02:74:64:00:00:00
# a simulated device of one port, born in its namespace
ip netns exec tardy-0-b sh -c 'echo 1952710657 1 2 >/sys/bus/netdevsim/new_device'
ip netns exec tardy-0-b sh -c 'cd /sys/bus/netdevsim/devices/netdevsim1952710657/net && for device in *; do ip link set dev $device name tardy0-1; done'
# the path's MTU, and an address that the other end knows
ip -n tardy-0-b link set dev tardy0-1 mtu 1400 address 02:74:64:00:00:01
# the two devices joined
sh -c 'exec 8</run/netns/tardy-0-a 9</run/netns/tardy-0-b && a=$(ip -n tardy-0-a -o link show dev tardy0-0) && a=${a%%:*} && \
b=$(ip -n tardy-0-b -o link show dev tardy0-1) && b=${b%%:*} && echo 8:$a 9:$b >/sys/bus/netdevsim/link_device'
# no IPv6 chatter of its own
";

const TAKEN_AWAY: &str = "
sh -c '[ ! -e /sys/bus/netdevsim/devices/netdevsim1952710657 ] || echo 1952710657 >/sys/bus/netdevsim/del_device'
sh -c '[ ! -e /sys/bus/netdevsim/devices/netdevsim1952710656 ] || echo 1952710656 >/sys/bus/netdevsim/del_device'
ip netns del tardy-0-b
ip netns del tardy-0-a
";

#[test]
fn simulated_devices_are_born_in_their_namespaces_and_go_before_them() {
    let experiment = with("kind = \"netdevsim\"\nqueues = 2\nmtu = 1400");
    let script =
        plan(&experiment.cells[0].setup, Names::FIRST, &FactsByHost::default()).expect("it can be planned").script();
    assert!(script.starts_with(SIMULATED), "{script}");
    assert!(script.ends_with(TAKEN_AWAY), "{script}");
}

#[test]
fn a_path_that_this_machine_lacks_costs_its_cells_and_names_the_mend() {
    let lacks = |path: &str, has: bool| {
        let paths = has.then(|| "netdevsim".to_owned()).into_iter().collect();
        let found = FactsByHost::from(Facts { paths, ..Facts::default() });
        Kinds::default().refusal(&with(path).cells[0].setup, &found).expect("its stations are there")
    };
    let why = lacks("kind = \"netdevsim\"", false).expect("it is not there");
    assert!(why.contains("tardy guest fetch --with netdevsim"), "{why}");
    assert_eq!(lacks("kind = \"netdevsim\"", true), None);
    assert_eq!(lacks("kind = \"veth\"", false), None);
}

#[test]
fn only_the_guest_that_needs_a_device_gets_it() {
    let simulated = with("kind = \"netdevsim\"");
    assert_eq!(devices::modules(&simulated), ["ptp_mock", "netdevsim"]);
    assert!(devices::arguments(&simulated).is_empty());
    let plain = with("kind = \"veth\"");
    assert!(devices::modules(&plain).is_empty() && devices::arguments(&plain).is_empty());
    let igb = load(&ready_made("igb").expect("it is there"), &[]).expect("it loads");
    assert_eq!(devices::modules(&igb), ["igb"]);
    assert_eq!(
        devices::arguments(&igb).join(" "),
        "-netdev hubport,id=port0,hubid=0 -netdev hubport,id=port1,hubid=0 \
         -device igb,netdev=port0,addr=2,mac=02:74:64:ff:00:00 -device igb,netdev=port1,addr=4,mac=02:74:64:ff:00:01"
    );
}

#[test]
fn a_qemu_without_igb_is_refused_by_its_version() {
    let igb = load(&ready_made("igb").expect("it is there"), &[]).expect("it loads");
    let says = |version: &str| devices::check(&igb, version).err().map(|error: GuestError| error.to_string());
    let why = says("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)").expect("too old");
    assert!(why.contains("igb") && why.contains("8.0") && why.contains("7.2.22"), "{why}");
    assert!(says("something else").is_some(), "what it is must be known");
    for new in ["QEMU emulator version 8.0.0", "QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds)"] {
        assert_eq!(says(new), None);
    }
    assert!(devices::check(&with("kind = \"veth\""), "QEMU emulator version 7.2.22").is_ok());
}

#[test]
fn packages_that_a_module_is_built_with_stand_in_their_dependencies() {
    let shown = "Package: linux-headers-6.12.9+deb13-amd64\nDepends: linux-base (>= 4.12~), linux-headers-6.12.9+deb13-common (= 6.12.9-1), \
                 linux-image-6.12.9+deb13-amd64 (= 6.12.9-1) | linux-image-6.12.9+deb13-amd64-unsigned, gcc-14:any\nSize: 7\n";
    let wanted = ["linux-base", "linux-headers-6.12.9+deb13-common", "linux-image-6.12.9+deb13-amd64", "gcc-14"];
    assert_eq!(extra::depends(shown), wanted);
    assert_eq!(extra::depends("Package: x\n"), [""; 0]);
    assert_eq!(extra::numbers("6.12.9+deb13-amd64"), Some((6, 12)));
    assert_eq!(extra::numbers("x"), None);
}

#[test]
fn instants_of_a_devices_clock_become_the_systems_and_a_clock_that_was_set_gives_none() {
    let s = 1_000_000_000;
    let read = |phc_ns, realtime_ns, bound_ns| PhcReading { phc_ns, realtime_ns, bound_ns };
    // It begins at 5 s and gains 100 ms in 1000 s: one part in ten thousand.
    let before = read(5 * s, 1_700_000_000 * s, 30);
    let after = read(5 * s + 1_000 * s + s / 10, 1_700_001_000 * s, 400);
    let between = PhcReading::between(before, after).expect("it runs");
    assert_eq!(between.bound_ns, 400);
    assert_eq!(between.to_realtime_ns(before.phc_ns), before.realtime_ns);
    assert_eq!(between.to_realtime_ns(after.phc_ns), after.realtime_ns);
    assert_eq!(between.to_realtime_ns(5 * s + 500 * s + s / 20), 1_700_000_500 * s);
    assert_eq!(PhcReading::between(before, read(5 * s + 1_002 * s, 1_700_001_000 * s, 400)), None, "set forward");
    assert_eq!(PhcReading::between(before, read(4 * s, 1_700_001_000 * s, 400)), None, "set back");
    assert_eq!(PhcReading::between(before, read(5 * s, 1_700_001_000 * s, 400)), None, "it stands");
}

/// All that i210 and its like can: TX_HARDWARE, RX_HARDWARE, RAW_HARDWARE; filters none and all.
const CAN: TsInfo = TsInfo { flags: 0x45, phc: 1, rx_filters: 0b11 };
const OFF: HwStamp = HwStamp { flags: 0, tx: 0, rx: 0 };

/// A machine with two cards in addition to the one that it is reached by.
fn machine() -> nic::NicTables {
    let link = |name: &str, mac: &str, flags: &[&str]| {
        json!({"ifname": name, "flags": flags, "mtu": 1500, "min_mtu": 68, "max_mtu": 9216, "operstate": "DOWN",
               "link_type": "ether", "address": mac, "inet6_addr_gen_mode": "eui64", "altnames": [format!("{name}-alt")]})
    };
    nic::NicTables {
        links: json!([
            {"ifname": "lo", "link_type": "loopback", "address": "00:00:00:00:00:00", "flags": ["UP"], "max_mtu": 0},
            link("eth0", "52:54:00:12:34:56", &["UP"]),
            link("enp1s0", "a0:36:9f:00:00:01", &["UP", "LOWER_UP"]),
            link("enp2s0", "a0:36:9f:00:00:02", &["BROADCAST"]),
        ]),
        addresses: json!([
            {"ifname": "eth0", "addr_info": [{"local": "10.0.0.5", "prefixlen": 24, "scope": "global"}]},
            {"ifname": "enp1s0", "addr_info": [{"local": "fe80::a236:9fff:fe00:1", "prefixlen": 64, "scope": "link"}]},
            {"ifname": "enp2s0", "addr_info": []},
        ]),
        routes: json!([
            {"dst": "default", "gateway": "10.0.0.1", "dev": "eth0"},
            {"dst": "10.0.0.0/24", "dev": "eth0", "protocol": "kernel"},
            {"dst": "fe80::/64", "dev": "enp1s0", "protocol": "kernel"},
        ]),
        qdiscs: json!([
            {"kind": "mq", "handle": "0:", "dev": "enp1s0", "root": true},
            {"kind": "fq_codel", "handle": "0:", "dev": "enp1s0", "parent": ":1"},
        ]),
    }
}

fn push(list: &mut Value, row: Value) {
    list.as_array_mut().expect("a list").push(row);
}

fn why(of: &nic::NicTables, device: &str, take: bool) -> String {
    match of.nic(device).and_then(|nic| nic.may_be_taken(1500, take)) {
        Ok(()) => "free".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_device_in_use_is_not_taken() {
    let free = machine();
    assert_eq!((why(&free, "enp1s0", false), why(&free, "enp2s0", false)), ("free".to_owned(), "free".to_owned()));
    assert_eq!(free.nic("enp1s0-alt").expect("by its other name").name, "enp1s0");
    let told = why(&free, "enp9s0", false);
    let known = "there is no network device `enp9s0` in this network namespace: name one of enp1s0, enp2s0, eth0";
    assert_eq!(told, known);
    assert_eq!(why(&free, "lo", true), "`lo` is the loopback: name a network card");
    assert!(why(&free, "eth0", true).starts_with("`eth0` carries the default route: "), "whatever else it has");

    let with = |change: &dyn Fn(&mut nic::NicTables)| {
        let mut changed = machine();
        change(&mut changed);
        (why(&changed, "enp1s0", false), why(&changed, "enp1s0", true))
    };
    let both = |says: &str| (says.to_owned(), says.to_owned());
    let addressed = |row: Value| move |m: &mut nic::NicTables| push(&mut m.addresses[1]["addr_info"], row.clone());
    assert_eq!(
        with(&addressed(json!({"local": "192.0.2.1", "prefixlen": 24, "scope": "global"}))),
        (
            "`enp1s0` has the address 192.0.2.1/24: if nothing needs it, write take = true: it is given back afterwards".into(),
            "free".into()
        )
    );
    let leased = with(&addressed(json!({"local": "192.0.2.1", "prefixlen": 24, "scope": "global", "dynamic": true})));
    assert!(
        leased.0 == leased.1 && leased.0.contains("leased or announced to it and cannot be given back"),
        "{leased:?}"
    );
    let port = with(&|m| m.links[2]["master"] = json!("br0"));
    assert_eq!(port, both("`enp1s0` is a port of `br0`: take it out: ip link set dev enp1s0 nomaster"));
    let under = with(&|m| {
        push(&mut m.links, json!({"ifname": "vlan7", "link": "enp1s0", "linkinfo": {"info_kind": "vlan"}}));
    });
    assert_eq!(under, both("`enp1s0` carries vlan7: delete them first: ip link del dev vlan7"));
    let peer =
        with(&|m| push(&mut m.links, json!({"ifname": "v", "link": "enp1s0", "linkinfo": {"info_kind": "veth"}})));
    assert_eq!(peer, both("free"), "the other end of a pair does not stand on it");
    let qdisc = with(&|m| push(&mut m.qdiscs, json!({"kind": "taprio", "handle": "8001:", "dev": "enp1s0"})));
    let says = "`enp1s0` has the queue discipline `taprio`, which would be lost: delete it first: tc qdisc del dev enp1s0 root";
    assert_eq!(qdisc, both(says));
    let route = with(&|m| push(&mut m.routes, json!({"dst": "10.9.0.0/16", "nexthops": [{"dev": "enp1s0"}]})));
    assert!(route.0 == route.1 && route.0.contains("the route to 10.9.0.0/16, which would be lost"), "{route:?}");
    let xdp = with(&|m| m.links[2]["xdp"] = json!({"mode": 1}));
    assert_eq!(xdp, both("`enp1s0` has an XDP program: take it off first: ip link set dev enp1s0 xdp off"));
    let large = free.nic("enp1s0").expect("it is there").may_be_taken(9217, true).expect_err("too large");
    assert_eq!(
        large.to_string(),
        "`enp1s0` takes an MTU from 68 to 9216, and path.mtu is 9217: write one that it takes"
    );
}

fn experiment(more: &str) -> Experiment {
    let wire = tardy_tests::experiment("wire between two cards");
    let text = wire.replace("[path]\n", "[path]\nmtu = 9000\ntake = true\n") + more;
    tardy_spec::load(&tardy_spec::Source { name: "x.toml".into(), text }, &[]).expect("it loads")
}

fn setup(more: &str) -> Setup {
    experiment(more).cells[0].setup.clone()
}

pub fn found(change: impl Fn(&mut Nic)) -> FactsByHost {
    let mut machine = machine();
    push(
        &mut machine.addresses[1]["addr_info"],
        json!({"local": "192.0.2.1", "prefixlen": 24, "broadcast": "192.0.2.255", "scope": "global", "label": "enp1s0"}),
    );
    push(
        &mut machine.addresses[2]["addr_info"],
        json!({"local": "192.0.2.9", "address": "192.0.2.10", "prefixlen": 32, "scope": "link", "noprefixroute": true}),
    );
    let nics = ["enp1s0", "enp2s0"].map(|name| {
        let mut nic = machine.nic(name).expect("it is there");
        (nic.can, nic.stamps) = (Ok(CAN), Ok(OFF));
        change(&mut nic);
        (name.to_owned(), nic)
    });
    Facts { home: 4321, nics: nics.into(), ..Facts::default() }.into()
}

fn wire(more: &str, change: impl Fn(&mut Nic)) -> Plan {
    plan(&setup(more), Names::FIRST, &found(change)).expect("it can be planned")
}

const SCRIPT: &str = "\
# a name for the namespace that the devices come from and go back to
ip netns attach tardy-0-_home 4321
# a fresh network namespace for the station
ip netns add tardy-0-a
ip netns add tardy-0-b
# the device into its station; back with the MTU, state and addresses that it had
ip link set dev enp1s0 netns tardy-0-a
ip link set dev enp2s0 netns tardy-0-b
# no IPv6 chatter of its own
ip -n tardy-0-a link set dev enp1s0 addrgenmode none
# the path's MTU
ip -n tardy-0-a link set dev enp1s0 mtu 9000
# an address, and the neighbour fixed so that no ARP falls into a measurement
ip -n tardy-0-a addr add 198.18.0.1/30 dev enp1s0
ip -n tardy-0-a neigh replace 198.18.0.2 lladdr a0:36:9f:00:00:02 dev enp1s0 nud permanent
ip -n tardy-0-a link set dev lo up
ip -n tardy-0-a link set dev enp1s0 up
# no IPv6 chatter of its own
ip -n tardy-0-b link set dev enp2s0 addrgenmode none
# the path's MTU
ip -n tardy-0-b link set dev enp2s0 mtu 9000
# an address, and the neighbour fixed so that no ARP falls into a measurement
ip -n tardy-0-b addr add 198.18.0.2/30 dev enp2s0
ip -n tardy-0-b neigh replace 198.18.0.1 lladdr a0:36:9f:00:00:01 dev enp2s0 nud permanent
ip -n tardy-0-b link set dev lo up
ip -n tardy-0-b link set dev enp2s0 up
# stamps taken by the device (as linuxptp's `hwstamp_ctl -i DEV -t TX -r RX`)
tardy hwtstamp set enp1s0 --netns tardy-0-a --tx 1 --rx 0 --flags 0
tardy hwtstamp set enp2s0 --netns tardy-0-b --tx 0 --rx 1 --flags 0
# what the kernel has made of it
ip -n tardy-0-a -j -d addr show dev enp1s0
ip -n tardy-0-a -j -d neigh show dev enp1s0
ip -n tardy-0-b -j -d addr show dev enp2s0
ip -n tardy-0-b -j -d neigh show dev enp2s0
tardy hwtstamp show enp1s0 --netns tardy-0-a
tardy hwtstamp show enp2s0 --netns tardy-0-b
tc -n tardy-0-a -j qdisc show dev enp1s0
tc -n tardy-0-b -j qdisc show dev enp2s0
# the stations: each end is spoken to on stdin and stdout while the trials run
# tardy agent --netns tardy-0-a
# tardy agent --netns tardy-0-b
# put everything back
printf 'built; Enter puts everything back: '; { read _ </dev/tty; } 2>/dev/null || :
tardy hwtstamp restore enp2s0 --netns tardy-0-b --netns tardy-0-_home --tx 0 --rx 0 --flags 0
tardy hwtstamp restore enp1s0 --netns tardy-0-a --netns tardy-0-_home --tx 0 --rx 0 --flags 0
ip -n tardy-0-b link set dev enp2s0 down
ip -n tardy-0-b link set dev enp2s0 netns tardy-0-_home
ip -n tardy-0-_home link set dev enp2s0 mtu 1500
ip -n tardy-0-_home link set dev enp2s0 addrgenmode eui64
ip -n tardy-0-_home link set dev enp2s0 down
ip -n tardy-0-_home addr replace 192.0.2.9 peer 192.0.2.10/32 scope link noprefixroute dev enp2s0
ip -n tardy-0-a link set dev enp1s0 down
ip -n tardy-0-a link set dev enp1s0 netns tardy-0-_home
ip -n tardy-0-_home link set dev enp1s0 mtu 1500
ip -n tardy-0-_home link set dev enp1s0 addrgenmode eui64
ip -n tardy-0-_home link set dev enp1s0 up
ip -n tardy-0-_home addr replace 192.0.2.1/24 brd 192.0.2.255 label enp1s0 dev enp1s0
ip netns del tardy-0-b
ip netns del tardy-0-a
ip netns del tardy-0-_home
";

/// A figure of the devices' stamps, so that the devices are set to take them.
const BY_DEVICES: &str = "metrics = [\"tx_hw..rx_hw\"]";

#[test]
fn the_script_of_a_wire_gives_back_what_it_takes() {
    let plan = wire(BY_DEVICES, |_| ());
    assert_eq!(plan.script(), SCRIPT);
    assert_eq!(
        (plan.ends.at("a").expect("an end").device.as_str(), plan.ends.at("b").expect("an end").device.as_str()),
        ("enp1s0", "enp2s0")
    );
    let error = tardy_lab::plan::plan(&setup(""), Names::FIRST, &FactsByHost::default()).expect_err("not looked at");
    assert_eq!(error, PlanError::Path(PathError::Unread { device: "enp1s0".to_owned() }));
}

#[test]
fn a_device_that_stamps_nothing_is_set_to_nothing() {
    let says = |plan: Plan| plan.script().matches("hwtstamp").count();
    assert_eq!(says(wire(BY_DEVICES, |nic| nic.stamps = Err("Operation not supported".to_owned()))), 0);
    assert_eq!(says(wire("", |_| ())), 2, "no figure is made of the device's stamps");
    assert_eq!(says(wire("stamps = [\"rx_kernel\"]\nmetrics = []", |_| ())), 2, "shown, not set");
    let kept = HwStamp { flags: 0, tx: 1, rx: 1 };
    assert_eq!(says(wire(BY_DEVICES, |nic| nic.stamps = Ok(kept))), 2, "it is as it should be");
}

#[test]
fn a_setting_is_what_the_device_can_of_what_is_asked() {
    let setup = setup(BY_DEVICES);
    let (tx, rx) = (asked(&setup)["a"], asked(&setup)["b"]);
    let to = |tx, rx| Some(HwStamp { flags: 0, tx, rx });
    assert_eq!((setting(&CAN, OFF, tx), setting(&CAN, OFF, rx)), (to(1, 0), to(0, 1)));
    let ptp_only = TsInfo { rx_filters: 0b1 | 1 << 12, ..CAN };
    assert_eq!(setting(&ptp_only, OFF, rx), None, "a filter for PTP alone would see no packet of a stream");
    let ptp4l = HwStamp { flags: 0, tx: 2, rx: 12 };
    assert_eq!(setting(&CAN, ptp4l, tx), None, "one-step stamps the others too");
    assert_eq!(setting(&CAN, ptp4l, rx), to(2, 1), "what another set for sending stays");
    let none = TsInfo { flags: 0x18, phc: -1, rx_filters: 0 };
    assert_eq!((setting(&none, OFF, tx), setting(&none, OFF, rx)), (None, None));
}

#[test]
fn devices_of_two_hosts_that_stamp_one_way_stamp_the_exchange_both_ways() {
    let mut setup = setup(BY_DEVICES);
    let asked_of = |setup: &Setup| ["a", "b"].map(|station| format!("{:?}", asked(setup)[station]));
    let [sends, receives] = ["StampsAsked { tx: true, rx: false }", "StampsAsked { tx: false, rx: true }"];
    assert_eq!(asked_of(&setup), [sends, receives], "one host has one clock, and nothing is exchanged");
    setup.stations.get_mut("b").expect("a station").host = HostId::numbered(1);
    assert_eq!(asked_of(&setup), ["StampsAsked { tx: true, rx: true }"; 2]);
    setup.streams[0].stamps.retain(|point| *point != tardy_model::point::Point::RxHw);
    assert_eq!(asked_of(&setup), [sends, "StampsAsked { tx: false, rx: false }"]);
}

/// Fails the commands that hold a text.
struct Fails(&'static str, &'static str, Vec<String>);

impl Runner for Fails {
    fn run(&mut self, batch: &Batch) -> Result<BatchOutput, CommandError> {
        let mut output = BatchOutput::default();
        for (index, command) in batch.commands().iter().map(Command::to_string).enumerate() {
            if command.contains(self.0) {
                output.failures.push(Failure { at: Some(index), says: self.1.to_owned() });
            }
            self.2.push(command);
        }
        Ok(output)
    }
}

#[test]
fn a_namespace_stays_while_a_device_could_not_leave_it() {
    let plan = wire("", |_| ());
    let state = tempfile::tempdir().expect("a temporary folder");
    let dir = state.path().join("slots/4010");
    fs::create_dir_all(&dir).expect("a folder");
    let ended = Identity { start: 0, ..Identity::of(std::process::id()).expect("this process") };
    fs::write(dir.join("lock"), serde_json::to_string(&ended).expect("JSON") + "\n").expect("a lock");
    let head = json!({"v": 2, "boot": ended.boot}).to_string() + "\n";
    let line =
        |(i, step): (usize, &Step)| json!({"v": 2, "step": {"number": i, "undo": step.undoes}}).to_string() + "\n";
    let lines: String = plan.steps.iter().enumerate().map(line).collect();
    fs::write(dir.join("journal.jsonl"), head + &lines).expect("a journal");

    let mut stuck = Fails("enp1s0 netns", "RTNETLINK answers: File exists", Vec::new());
    let done = undo_all(state.path(), &mut stuck, &mut |_, _| ()).expect("the state folder can be read");
    let told = done.failed[0].1.to_string();
    assert!(told.contains("enp1s0 netns tardy-0-_home` (RTNETLINK answers: File exists)"), "{told}");
    assert!(told.contains("`ip netns del tardy-0-a` (kept: something in it was not put back)"), "{told}");
    let ran: BTreeSet<&str> = stuck.2.iter().map(String::as_str).collect();
    assert!(ran.contains("ip netns del tardy-0-b"), "the other station's goes");
    assert!(!ran.contains("ip netns del tardy-0-a") && !ran.contains("ip netns del tardy-0-_home"));
    // What was done is not done again; what was not done stands there whole, with what follows
    // from it.
    let left = journal::read(&dir).expect("it reads").commands();
    let left: Vec<String> = left.iter().map(Command::to_string).collect();
    assert!(left.iter().any(|command| command.contains("enp1s0 netns")), "{left:?}");
    assert!(!left.iter().any(|command| command.contains("enp2s0")), "{left:?}");

    let mut fine = Fails("addrgenmode", "Error: Cannot find device", Vec::new());
    let done = undo_all(state.path(), &mut fine, &mut |_, _| ()).expect("the state folder can be read");
    assert_eq!((done.undone.len(), done.failed.len()), (1, 0), "a device that is gone is no error");
    assert_eq!(fine.2.last().map(String::as_str), Some("ip netns del tardy-0-_home"));
}

#[test]
fn a_mount_namespace_of_its_own_is_known() {
    let host = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n42 27 254:0 /run/netns /run/netns rw shared:1 - ext4 /dev/vda rw\n";
    let exec = "45 44 254:0 / / rw - ext4 /dev/vda rw\n65 45 254:0 /run/netns /run/netns rw master:1 - ext4 /dev/vda rw\n66 65 0:4 net:[1] /run/netns/x rw master:2 - nsfs nsfs rw\n";
    let service = "27 1 254:0 / / rw shared:4 master:1 - ext4 /dev/vda rw\n";
    let elsewhere = "27 1 254:0 / / rw - ext4 /dev/vda rw\n30 27 0:9 / /runner rw master:1 - tmpfs tmpfs rw\n";
    let known = |has_own: bool| [host, exec, service, elsewhere, ""].map(|mounts| names_end_here(mounts, has_own));
    assert_eq!(known(false), [false, true, true, false, false]);
    // `unshare -m` makes its mounts private: names and devices were lost with the last process in
    // there, and `undo` said "put back".
    assert_eq!(known(true), [false, true, true, true, false]);
}

#[test]
fn a_device_is_taken_by_each_of_its_names() {
    let claim = |experiment: &Experiment| -> Result<Claim, DeviceError> {
        let mut claim = Claim::default();
        let asked = ask(experiment, &Kinds::default(), HostId::HERE).expect("it joins two stations").devices;
        claim.also(asked.iter().map(|ask| ask.device.as_str())).map(|()| claim)
    };
    let mut one = claim(&experiment("")).expect("nobody has them");
    one.also(["enp1s0", "enp1s0-real"]).expect("nobody has it");
    let other = Experiment { cells: Vec::new(), ..experiment("") };
    let mut other = claim(&other).expect("it names no device");
    let error = other.also(["enp1s0-real"]).expect_err("another has it");
    assert!(error.to_string().contains("another run of tardy has network device `enp1s0-real`"), "{error}");
    assert!(claim(&experiment("")).is_err(), "the first one holds it until it is dropped");
    drop(one);
    other.also(["enp1s0-real"]).expect("it is free again");
    claim(&experiment("")).expect("these too");
}

#[test]
fn an_unknown_station_is_an_error_and_not_the_first_one() {
    let (setup, plan) = (setup(""), wire("", |_| ()));
    let two = FactsByHost::from(Facts { usable: vec![0, 1], ..Facts::default() });
    let (chosen, _) = tardy_lab::placement::place(&setup, &two).expect("placed");
    let random = || orders::random_of(1, "all", 1);
    let (_, ordered) = orders::orders(&setup, &plan, &chosen, &mut random()).expect("both are there");
    assert_eq!(Ok(ordered[0].from), plan.station("a"));
    assert_eq!(Ok(ordered[0].to), plan.station("b"));
    assert_ne!(ordered[0].from, ordered[0].to);
    let mut lost = setup.clone();
    lost.streams[0].to = "ghost".to_owned();
    let error = orders::orders(&lost, &plan, &chosen, &mut random()).expect_err("nobody is called so");
    assert_eq!(error.to_string(), "there is no station `ghost`: write a section [station.ghost]");
    let mut loaded = self::setup(tardy_tests::experiment("flood from a to b"));
    let (places, _) = loads::place(&loaded, &chosen, &two).expect("placed");
    assert!(loads::Loads::of(&loaded, &plan, &places, &mut random()).is_ok());
    loaded.loads[0].from = "ghost".to_owned();
    assert!(loads::Loads::of(&loaded, &plan, &places, &mut random()).is_err());
}
