// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the kernel takes `rx_kernel` of packets that have launch times: by path, port and the
//! kernel's release; and what tardy says of it.

use super::setup;
use crate::analyze::fixture;
use tardy_analyze::cell::CellAnalysis;
use tardy_lab::shaper::launching::rx_kernel_at;
use tardy_model::qdisc::RxKernelAt::{self, Arrival, LocalDelivery, PacketSocket};
use tardy_model::stream::{Launch, Port};
use tardy_model::verdict::Level;
use tardy_spec::experiment::Setup;

/// Where it is taken on this kernel.
fn at(setup: &Setup, port: Port, launch: Launch, release: Option<&str>) -> Option<RxKernelAt> {
    let mut stream = setup.streams[0].clone();
    (stream.port, stream.launch) = (port, launch);
    rx_kernel_at(&setup.path, &stream, release)
}

#[test]
fn a_kernel_that_clears_launch_times_on_veth_stamps_at_arrival() {
    let veth = setup("kind = \"none\"\n");
    for old in ["6.1.0-40-amd64", "6.8.12", "5.10.0-rt", "4.19.1", "6.1.0-rt7+"] {
        for port in [Port::Udp, Port::Packet] {
            assert_eq!(at(&veth, port, Launch::Strict, Some(old)), Some(Arrival), "{old} {port:?}");
        }
    }
    for new in ["6.9.0", "6.12.57+deb13-amd64", "6.18.44", "7.0.0-rc1"] {
        assert_eq!(at(&veth, Port::Udp, Launch::Strict, Some(new)), Some(LocalDelivery), "{new}");
        assert_eq!(at(&veth, Port::Udp, Launch::Deadline, Some(new)), Some(LocalDelivery), "{new}");
        assert_eq!(at(&veth, Port::Packet, Launch::Strict, Some(new)), Some(PacketSocket), "{new}");
        assert_eq!(at(&veth, Port::Udp, Launch::None, Some(new)), Some(Arrival), "{new}");
        assert_eq!(at(&veth, Port::Sim, Launch::Strict, Some(new)), Some(Arrival), "{new}");
    }
    for unknown in [None, Some(""), Some("six"), Some("6")] {
        assert_eq!(at(&veth, Port::Udp, Launch::Strict, unknown), None, "{unknown:?}");
        assert_eq!(at(&veth, Port::Udp, Launch::None, unknown), Some(Arrival), "nothing moves it: {unknown:?}");
    }
}

#[test]
fn a_packet_socket_is_not_told_as_behind_the_protocols() {
    let packets = fixture::healthy_packets(1, 400);
    let judged = |at: Option<RxKernelAt>| {
        let mut record = fixture::record(1, 400);
        let launching = &mut record.streams.get_mut("ctl").expect("a stream").launching;
        (launching.launch, launching.rx_kernel_at) = (Launch::Strict, at);
        let mut cell =
            CellAnalysis::new("all", [].into(), [("ctl".to_owned(), vec![fixture::LEAD])].into(), Vec::new());
        cell.trial(&record, [("ctl", fixture::batch(0, &packets))]);
        let result = cell.finish().result;
        let told = result.verdicts.iter().find(|verdict| verdict.id == "moved-point");
        assert!(told.is_none_or(|told| told.level == Level::Note));
        (told.map(|told| told.says.clone()), result.streams["ctl"].rx_kernel_at.clone())
    };
    let (says, name) = judged(Some(PacketSocket));
    assert!(
        says.as_ref().is_some_and(|says| says.contains("packet socket") && says.contains("before the IP layer")),
        "{says:?}"
    );
    assert_eq!(name.as_deref(), Some("packet-socket"));
    let (says, name) = judged(Some(LocalDelivery));
    assert!(says.as_ref().is_some_and(|says| says.contains("at local delivery, behind the IP layer")), "{says:?}");
    assert_eq!(name.as_deref(), Some("local-delivery"));
    assert_eq!(judged(Some(Arrival)), (None, Some("arrival".to_owned())));
    assert_eq!(judged(None), (None, None));
}
