// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices that are simulated or emulated: what is planned for them, who gets them, and the
//! instants of a device's own clock.

use tardy_lab::guest::{GuestError, devices, extra};
use tardy_lab::kinds::Kinds;
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::plan::plan;
use tardy_model::time::PhcReading;
use tardy_spec::experiment::Experiment;
use tardy_spec::{Source, load, ready_made};

fn with(path: &str) -> Experiment {
    let text = format!(
        "[station.a]\n[station.b]\n[path]\n{path}\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\ncycle = \"1ms\"\ncount = 5\n"
    );
    let source = Source { name: "x.toml".into(), text };
    load(&source, &[]).unwrap_or_else(|error| panic!("{path}\n{}", error.one_line()))
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
