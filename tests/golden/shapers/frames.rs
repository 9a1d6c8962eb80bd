// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long frames are on the wire, and a wire of another rate than the windows were written for.

use super::R1;
use crate::devices;
use tardy_lab::machine::FactsByHost;
use tardy_lab::shaper::{check, offload_refusal, with_the_kernels_refusal};
use tardy_model::shaper::{frame_time, wire_bytes};
use tardy_model::time::Nanos;
use tardy_spec::experiment::Setup;
use tardy_spec::{Source, load};
use tardy_sys::features::{Feature, feature};

fn stream(more: &str) -> Setup {
    let text = format!("[station.a]\n[station.b]\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\nsize = \"64B\"\n{more}");
    let loaded = load(&Source { name: "x.toml".into(), text }, &[]);
    loaded.unwrap_or_else(|error| panic!("{more}\n{}", error.one_line())).cells.remove(0).setup
}

#[test]
fn a_frame_is_what_is_sent_of_it_and_at_least_the_shortest() {
    // IEEE 802.3: 14 bytes before, 46 at least, 4 of check sum; 8 of preamble and 12 of gap: the
    // shortest frame takes 84.
    assert_eq!([wire_bytes(1, false), wire_bytes(46, false), wire_bytes(47, false)], [84, 84, 85]);
    assert_eq!([wire_bytes(42, true), wire_bytes(43, true)], [84, 85], "a tag takes its place");
    assert_eq!([wire_bytes(1_500, false), wire_bytes(1_500, true)], [1_538, 1_542]);
    assert_eq!(frame_time(1_500, false, 1_000_000_000), Nanos(12_304));
    assert_eq!(frame_time(1, false, 100_000_000), Nanos(6_720));
}

#[test]
fn a_stream_has_the_headers_of_its_port_and_a_tag_only_where_one_is_sent() {
    let bytes = |more: &str| stream(more).streams[0].packet_bytes();
    assert_eq!(bytes(""), 64 + 28);
    assert_eq!(bytes("ip = \"ipv6\"\n"), 64 + 48);
    assert_eq!(bytes("port = \"packet\"\n"), 64, "no IP, no UDP");
    let time = |more: &str| stream(more).streams[0].frame_time(1_000_000_000).0;
    assert_eq!(time("port = \"packet\"\n"), (14 + 64 + 24) * 8);
    assert_eq!(time("port = \"packet\"\nvlan = 5\npcp = 3\n"), (18 + 64 + 24) * 8);
}

const WIRE: &str = "priority = 3\n[path]\nkind = \"wire\"\na = \"enp1s0\"\nb = \"enp2s0\"\n";

#[test]
fn a_wire_that_is_slower_than_its_windows_were_written_for_is_refused() {
    let setup = |rate: &str| stream(&format!("{WIRE}[shaper]\n{R1}{rate}"));
    let at = |speed: Option<i64>| wire::found(|nic| nic.speed_mbit = speed);
    let refused = |setup: &Setup, speed| check(setup, &at(speed)).err().map(|error| error.to_string());
    assert_eq!(refused(&setup(""), Some(1_000)), None);
    let slow = refused(&setup(""), Some(100)).expect("refused");
    assert!(slow.contains("enp1s0 runs at 100Mbit and `shaper.port_rate` is 1Gbit"), "{slow}");
    assert!(slow.ends_with("write shaper.port_rate = \"100Mbit\""), "{slow}");
    assert_eq!(refused(&setup("port_rate = \"100Mbit\"\n"), Some(100)), None);
    assert!(refused(&setup("port_rate = \"100Mbit\"\n"), Some(2_500)).expect("refused").contains("2500Mbit"));
    // A link that is down, and a device that does not tell, are believed; so is a shaper that has
    // no use for it.
    assert_eq!(refused(&setup(""), Some(-1)), None);
    assert_eq!(refused(&setup(""), None), None);
    assert_eq!(refused(&stream(WIRE), Some(100)), None);
    // veth says 10 Gbit/s, whatever it does.
    let virtual_one = wire::found(|nic| (nic.speed_mbit, nic.kind) = (Some(10_000), Some("veth".to_owned())));
    assert_eq!(check(&setup(""), &virtual_one), Ok(()));
}

#[test]
fn credits_are_kept_without_a_clock_and_gates_are_not() {
    let without = wire::found(|nic| {
        if let Ok(can) = &mut nic.can {
            can.phc = -1;
        }
    });
    let refused = |setup: &Setup, found: &FactsByHost| offload_refusal(setup, found).expect("its stations are there");
    let gates = stream(&format!("{WIRE}[shaper]\n{R1}mode = \"offload\"\n"));
    assert!(refused(&gates, &without).expect("it says why").contains("needs a device with a PTP clock"));
    let credits = "kind = \"cbs\"\nclasses = 2\ncbs.classes = [0]\ncbs.idleslope = \"20Mbit\"\ncbs.offload = true\n";
    assert_eq!(refused(&stream(&format!("{WIRE}[shaper]\n{credits}")), &without), None, "its driver is asked");
    let veth = refused(&stream(&format!("[shaper]\n{credits}")), &without).expect("it says why");
    assert!(!veth.contains("clock"), "{veth}");
}

#[test]
fn a_refused_offload_was_not_told_that_the_device_may_not_take_it() {
    let credits = "kind = \"cbs\"\nclasses = 2\ncbs.classes = [0]\ncbs.idleslope = \"20Mbit\"\ncbs.offload = true\n";
    let setup = stream(&format!("{WIRE}[shaper]\n{credits}"));
    let refused = |on, switchable| {
        let found = wire::found(|nic| nic.tc_offload = Some(Feature { on, switchable }));
        with_the_kernels_refusal(&setup, &found, "tc qdisc replace", "Error: not supported.").expect("it is there")
    };
    let kernels = "`tc qdisc replace`: Error: not supported.";
    let mend = "; hw-tc-offload of enp1s0 is off, and its driver may ask for it: ethtool -K enp1s0 hw-tc-offload on";
    assert_eq!(refused(false, true), format!("{kernels}{mend}"), "of the device that streams leave by alone");
    // A feature that is on, or cannot be switched, is not the way to fix it.
    assert_eq!([refused(true, true), refused(false, false)], [kernels, kernels]);
    let silent = wire::found(|nic| nic.tc_offload = None);
    let says = with_the_kernels_refusal(&setup, &silent, "tc qdisc replace", "Error: not supported.");
    assert_eq!(says.as_deref(), Ok(kernels));
    let clockless = wire::found(|nic| {
        nic.can = Err("not asked".to_owned());
        nic.tc_offload = Some(Feature { on: false, switchable: true });
    });
    let gates = stream(&format!("{WIRE}[shaper]\n{R1}mode = \"offload\"\n"));
    let both = with_the_kernels_refusal(&gates, &clockless, "tc", "Error: no.").expect("it is there");
    assert!(both.contains("has is unknown: not asked; the kernel: Error: no.") && both.ends_with(mend), "{both}");
}

#[test]
fn features_of_a_device_are_read_as_ethtool_tells_them() {
    // The loopback has these on every kernel: `ethtool -k lo` tells on [fixed], off [fixed], and
    // one that can be switched.
    let of = |name: &str| feature("lo", name).expect("the loopback tells");
    assert_eq!(of("loopback"), Some(Feature { on: true, switchable: false }));
    assert_eq!(of("hw-tc-offload"), Some(Feature { on: false, switchable: false }));
    assert_eq!(of("rx-gro").map(|feature| feature.switchable), Some(true));
    assert_eq!(of("no such feature"), None);
    assert!(feature("no-such-device", "loopback").is_err());
}
