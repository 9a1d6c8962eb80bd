// SPDX-License-Identifier: MIT OR Apache-2.0
//! What devices inside a path counted: whether probes went through them, and whether they are
//! there.

use crate::machines::with_machine;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tardy_lab::path::passages::Passages;
use tardy_model::harmless::Json;
use tardy_model::manifest::ReadBack;
use tardy_model::passed::{DevicePackets, Lookups};
use tardy_model::path::{Backend, PathKind};
use tardy_model::xdp::ProbeRecord;

fn answer(says: &Value) -> ReadBack {
    let says: Json = serde_json::from_value(says.clone()).expect("JSON");
    ReadBack { cell: None, qdiscs_of: None, command: "ip".to_owned(), says }
}

/// What a kernel says of its devices: name, packets received, packets sent.
fn links(all: &[(&str, u64, u64)]) -> ReadBack {
    let link = |(name, rx, tx): &(&str, u64, u64)| json!({"ifname": name, "stats64": {"rx": {"packets": rx}, "tx": {"packets": tx}}});
    answer(&Value::Array(all.iter().map(link).collect()))
}

fn passages(kind: PathKind) -> Passages {
    with_machine(kind, &[Backend::Tap, Backend::Macvtap]).passages
}

/// Probes that arrived on a way.
fn probe(from: &str, to: &str, arrived: u32) -> ProbeRecord {
    ProbeRecord {
        stream: "ctl".into(),
        from: from.into(),
        to: to.into(),
        sent: 16,
        tags: 0,
        by_tags: BTreeMap::from([(0, arrived)]),
        by_pcp: BTreeMap::new(),
        hops: Vec::new(),
        let_on: None,
        least_ttl: None,
        route: None,
        carries: true,
        way: None,
    }
}

#[test]
fn each_way_into_a_machine_has_devices_that_all_packets_pass() {
    for (kind, devices) in [
        (PathKind::Tap, &[("tardy0-tap", "vm")][..]),
        (PathKind::Bridge, &[("tardy0-brup", "a"), ("tardy0-tap", "vm")]),
        (PathKind::Macvtap, &[("tardy0-low", "a"), ("tardy0-mvt", "a")]),
        (PathKind::Ovs, &[("tardy0-brup", "a"), ("tardy0-tap", "vm")]),
        (PathKind::OvsNetdev, &[("tardy0-brup", "a"), ("tardy0-tap", "vm")]),
        (PathKind::Xdp, &[("tardy0-brup", "a"), ("tardy0-tap", "vm")]),
    ] {
        let passages = passages(kind);
        let found: Vec<(&str, &str)> = passages.devices.iter().map(|of| (&*of.device, &*of.from)).collect();
        assert_eq!(found, devices, "{kind:?}");
        assert_eq!(passages.lookups.is_some(), kind == PathKind::Ovs);
        // All of a namespace in one question.
        assert_eq!(passages.questions().len(), if kind == PathKind::Ovs { 2 } else { 1 });
    }
}

#[test]
fn probes_that_went_by_another_way_passed_for_probes_of_the_path() {
    let passages = passages(PathKind::Bridge);
    let read = |up: (u64, u64), tap: (u64, u64)| {
        let all = [("lo", 0, 0), ("tardy0-brup", up.0, up.1), ("tardy0-tap", tap.0, tap.1)];
        passages.counted(&[links(&all)]).expect("both are there")
    };
    let passed = |after| read(after, (116, 116)).since(&read((100, 100), (100, 100)));
    assert_eq!(passed((116, 118)).devices["tardy0-brup"], DevicePackets { received: 16, sent: 18 });
    let both = [probe("a", "vm", 16), probe("vm", "a", 16)];
    assert_eq!(passages.passed_by(&both, &passed((116, 118))), None);
    let why = passages.passed_by(&both, &passed((116, 103))).expect("3 of 16 were sent by it");
    assert!(why.starts_with("16 probe packets from vm arrived at a, and network device tardy0-brup"), "{why}");
    assert!(why.contains("sent 3 packets meanwhile: they went by another way"), "{why}");
    // Nothing follows from probes that did not arrive.
    assert_eq!(passages.passed_by(&[probe("a", "vm", 0)], &passed((100, 100))), None);
}

#[test]
fn a_device_that_was_gone_from_a_path_was_not_missed() {
    let passages = passages(PathKind::Bridge);
    let gone = passages.counted(&[links(&[("lo", 0, 0), ("tardy0-brup", 1, 1)])]).expect_err("the tap is gone");
    assert_eq!((&*gone.device, gone.netns.as_deref(), &*gone.from), ("tardy0-tap", Some("tardy-0-_vm1"), "vm"));
    assert!(gone.to_string().starts_with("network device tardy0-tap is gone from namespace tardy-0-_vm1"), "{gone}");
}

#[test]
fn what_a_datapath_looked_up_is_counted() {
    let passages = passages(PathKind::Ovs);
    let devices = links(&[("tardy0-brup", 5, 5), ("tardy0-tap", 5, 5)]);
    let show = |line: &str| answer(&json!(["system@tardy0-ovs:", line, "  flows: 12"]));
    let read = |line: &str| passages.counted(&[devices.clone(), show(line)]).expect("both are there").lookups;
    assert_eq!(read("  lookups: hit:107 missed:2 lost:1"), Some(Lookups { hit: 107, missed: 2, lost: 1 }));
    assert_eq!(read("  caches:"), None);
}
