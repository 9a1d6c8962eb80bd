// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two devices of netdevsim, the kernel's own simulator of network devices, joined. They have a
//! clock and take a schedule as a device with gates would, and hold nothing back: what a queue
//! discipline hands to a device can be tried on them, and nothing be measured.
//!
//! A device is born in the namespace of whoever asks the bus for it, under a name of the kernel's
//! choice.

use super::link::{Laid, PathError};
use super::methods::{InGuest, PathMethods, PlannedStations};
use super::veth::{self, Joint};
use crate::command::Command;
use crate::guest::extra;
use crate::machine::FactsByHost;
use crate::names::{LinkNumber, Names};
use crate::step::{Action, Inverse, Step};
use std::path::Path;
use tardy_model::path::PathKind;
use tardy_spec::experiment::Setup;

/// The driver, as it calls itself.
pub const DRIVER: &str = crate::step::SIMULATED;
const BUS: &str = crate::step::SIMULATED_BUS;

/// True if this kernel has it, and it can join two of its devices (Linux 6.9).
fn has_simulator() -> bool {
    Path::new(BUS).join("link_device").exists()
}

const WHY_NOT: &str = "path netdevsim needs the module netdevsim in the kernel, of Linux 6.9 or newer, and it is not loaded here. For guests, \
     `tardy guest fetch --with netdevsim` builds it once; run again with `--in guest:exact` after that. This device \
     accepts a schedule and sends every packet at once, so cells with full offload have no latency even then";

pub(super) const KIND: PathMethods = PathMethods {
    is_possible: has_simulator,
    refusal: |found| (!found.can_have(PathKind::Netdevsim)).then(|| WHY_NOT.to_owned()),
    guest: InGuest { modules, ..InGuest::NOTHING },
    ..PathMethods::made(lay)
};

/// Its modules and those that they need, which Debian's kernels do not have.
fn modules() -> &'static [&'static str] {
    extra::extra(DRIVER).map_or(&[][..], |extra| extra.modules)
}

/// Plans the pair.
///
/// # Errors
/// If there are not exactly two stations of one machine.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, _: &FactsByHost) -> Result<Laid, PathError> {
    let (queues, mtu) = (setup.path.queues.unwrap_or(1), setup.path.mtu);
    let [a, b] = Joint::two_on_one_host(setup, stations, names)?;
    let [of_a, of_b] = [LinkNumber::FIRST, LinkNumber::SECOND].map(|side| names.simulated(side));
    let mut steps = vec![
        device_step(&a, of_a, queues),
        mtu_and_mac_step(&a, mtu),
        device_step(&b, of_b, queues),
        mtu_and_mac_step(&b, mtu),
        join_step(&a, &b),
    ];
    steps.extend([
        veth::no_chatter_step(&a),
        veth::address_step(&a, &b),
        veth::no_chatter_step(&b),
        veth::address_step(&b, &a),
    ]);
    Ok(Laid { steps, plugs: [a, b].map(Joint::into_plug).into(), ..Laid::default() })
}

fn device_step(at: &Joint<'_>, number: u32, queues: u32) -> Step {
    let (folder, link) = (format!("{BUS}/devices/{DRIVER}{number}"), &at.link);
    let inside = |script: &str| at.place.shell(script, &[]);
    // By a command of its own: when the name cannot be given, the device is there and must be
    // taken away.
    let make = inside(&format!("echo {number} 1 {queues} >{BUS}/new_device"));
    let name = inside(&format!("cd {folder}/net && for device in *; do ip link set dev $device name {link}; done"));
    let why = "a simulated device of one port, born in its namespace";
    Step::new(&at.place, why, vec![make, name]).undone_by(vec![Inverse::here(Action::DeleteSimulated { number })])
}

fn mtu_and_mac_step(at: &Joint<'_>, mtu: u32) -> Step {
    let (link, mtu) = (at.link.as_str(), mtu.to_string());
    let does = at.place.ip(&["link", "set", "dev", link, "mtu", &mtu, "address", &at.mac]);
    Step::new(&at.place, "the path's MTU, and an address that the other end knows", vec![does])
}

/// The bus takes two open files of namespaces, and the devices' indices in them.
fn join_step(a: &Joint<'_>, b: &Joint<'_>) -> Step {
    let index = |name: &str, at: &Joint<'_>| {
        format!("{name}=$(ip -n {} -o link show dev {}) && {name}=${{{name}%%:*}}", at.netns, at.link)
    };
    let script = format!(
        "exec 8</run/netns/{} 9</run/netns/{} && {} && {} && echo 8:$a 9:$b >{BUS}/link_device",
        a.netns,
        b.netns,
        index("a", a),
        index("b", b)
    );
    // The devices take it with them.
    Step::new(&a.place, "the two devices joined", vec![Command::new("sh", &["-c", &script])])
}
