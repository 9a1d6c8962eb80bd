// SPDX-License-Identifier: MIT OR Apache-2.0
//! Into a virtual machine by Open vSwitch's datapath in the kernel: its ports are the machine's tap
//! and one of a pair of links, the other of which is the other station's device.
//!
//! No daemon runs. The datapath gets its flows before the first packet, as a daemon would have left
//! them in the kernel's cache, so no packet waits for a program that decides on it.

use super::link::{Laid, PathError};
use super::meeting::Meeting;
use super::methods::{InGuest, PathMethods, PlannedStations};
use crate::host::child;
use crate::machine::{Facts, FactsByHost};
use crate::names::Names;
use crate::step::{Action, DPCTL, Inverse, Question, Step};
use std::collections::BTreeMap;
use std::path::Path;
use tardy_model::ethernet::TAG;
use tardy_model::path::{Backend, PathKind};
use tardy_spec::experiment::Setup;

/// Debian's package of the program that makes a datapath and its flows.
const PACKAGE: &str = "openvswitch-switch";
/// The lines that the program prints, as JSON: an array of texts. It quotes nothing in them.
const LINES: &str = r#"printf '['; comma=; ovs-dpctl "$@" | while IFS= read -r line; do printf '%s"%s"' "$comma" "$line"; comma=,; done; printf ']'"#;

/// What a guest loads. The datapath's connection tracking is linked with a library whose checksum
/// the kernel asks for by an alias of its own when it is loaded.
const MODULES: &[&str] = &["crc32c_generic", "openvswitch"];

pub(super) const KIND: PathMethods = PathMethods {
    is_possible: || child::find(DPCTL).is_ok() && Path::new("/sys/module/openvswitch").exists(),
    refusal,
    guest: InGuest { modules: || MODULES, programs: &[DPCTL], ..InGuest::NOTHING },
    ..PathMethods::made(lay)
};

fn refusal(host: &Facts) -> Option<String> {
    (!host.can_have(PathKind::Ovs)).then(|| {
        format!(
            "path ovs needs {DPCTL} and the kernel's module openvswitch: apt install {PACKAGE} (it starts daemons, which no run needs), \
             then modprobe openvswitch, or --in guest:exact, whose kernel has the module"
        )
    })
}

/// Plans it.
///
/// # Errors
/// If there are not exactly one namespace and one machine.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, _: &FactsByHost) -> Result<Laid, PathError> {
    let meeting = Meeting::of(setup, stations, names, Backend::Tap)?;
    let ([_, uplink], datapath) = (names.bridge(), names.datapath());
    let ports = [uplink.as_str(), meeting.backend.as_str()];
    let behind = vec![
        meeting.uplink(&uplink, "a pair of links from the other station to the datapath"),
        datapath_step(&meeting, &datapath, ports),
        flows_step(&meeting, &datapath, setup),
        meeting.up(&uplink, "the datapath's end of the pair of links"),
        meeting.up(&meeting.backend, "the virtual machine's tap"),
    ];
    let ask = |what: &str| Question::at(meeting.behind, meeting.behind.shell(LINES, &[DPCTL, what, &datapath]));
    let read_back = vec![ask("show"), ask("dump-flows")];
    let ports = [(&*uplink, Some(meeting.near.station)), (&*meeting.backend, Some(meeting.machine.station))];
    let inside = meeting.inside(&ports, false);
    Ok(Laid { read_back, inside, ..meeting.laid(behind) })
}

/// The datapath and its ports, 1 and 2.
fn datapath_step(meeting: &Meeting<'_>, datapath: &str, ports: [&str; 2]) -> Step {
    let call = |words: &[&str]| meeting.behind.exec(&[&[DPCTL], words].concat());
    let port = |number: usize| call(&["add-if", datapath, &format!("{},port_no={number}", ports[number - 1])]);
    let undoes = Inverse::within(meeting.behind, Action::DeleteDatapath { name: datapath.to_owned() });
    let why = "Open vSwitch's datapath: what arrives at one port leaves by the other";
    Step::new(meeting.behind, why, vec![call(&["add-dp", datapath]), port(1), port(2)]).undone_by(vec![undoes])
}

/// A flow matches exactly one EtherType, so there is one for each that the path carries, with a
/// VLAN tag and without, each way.
fn flows_step(meeting: &Meeting<'_>, datapath: &str, setup: &Setup) -> Step {
    let known = [(0x0800, ",ipv4()"), (0x0806, ",arp()"), (0x86dd, ",ipv6()")];
    let of_frames = setup.streams.iter().map(|stream| (stream.ethertype, ""));
    // What is known comes last, and replaces what a stream asks for under the same EtherType.
    let all: BTreeMap<u16, &str> = of_frames.chain(known).collect();
    let carried: Vec<_> = all.iter().map(|(ethertype, more)| format!("eth_type({ethertype:#06x}){more}")).collect();
    let mut does = Vec::new();
    for (from, to) in [("1", "2"), ("2", "1")] {
        for kind in &carried {
            for flow in [kind.clone(), format!("eth_type({TAG:#06x}),vlan(vid=0/0,pcp=0/0),encap({kind})")] {
                let flow = format!("in_port({from}),eth(),{flow}");
                does.push(meeting.behind.exec(&[DPCTL, "add-flow", datapath, &flow, to]));
            }
        }
    }
    let why = "its flows, one for each EtherType and way: no packet waits for a program to decide";
    Step::new(meeting.behind, why, does)
}
