// SPDX-License-Identifier: MIT OR Apache-2.0
//! Into a virtual machine over a bridge: its ports are the machine's tap and one of a pair of
//! links, the other of which is the other station's device; or a network device, which a cable
//! joins to the other station's; or another machine's tap.

use super::link::{Laid, NO_IPV6, PathError};
use super::meeting::Meeting;
use super::methods::{InGuest, PathMethods, PlannedStations};
use super::uplink::asks;
use crate::machine::FactsByHost;
use crate::names::{LinkNumber, Names};
use crate::step::{Action, Inverse, Question, Step};
use serde_json::Value;
use tardy_model::path::Backend;
use tardy_model::xdp::SpecialKind;
use tardy_spec::experiment::Setup;

pub(super) const KIND: PathMethods = PathMethods {
    keeps,
    asks,
    guest: InGuest { modules: || &["bridge"], ..InGuest::NOTHING },
    ..PathMethods::made(lay)
};

/// Plans it.
///
/// # Errors
/// If there are not exactly one namespace and one machine.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, found: &FactsByHost) -> Result<Laid, PathError> {
    let meeting = Meeting::of(setup, stations, (names, found), Backend::Tap)?;
    let [bridge, uplink] = names.bridge();
    let uplink = meeting.uplink_name(&uplink);
    let mut behind = meeting.uplink_steps(&uplink, "a pair of links from the other station to the bridge", false);
    if meeting.near_behind.is_some() {
        // So may the other machine's tap. No link in a namespace has this address then.
        behind.push(own_address_step(&meeting, &uplink, &names.mac(LinkNumber::FIRST)));
    }
    behind.extend([
        bridge_step(&meeting, &bridge),
        // As a station's device the tap may have had that station's address.
        own_address_step(&meeting, &meeting.backend, &names.port_mac()),
        port_step(&meeting, &bridge, &uplink),
        port_step(&meeting, &bridge, &meeting.backend),
        meeting.up(&uplink, "the bridge's end of the way to the other station"),
        meeting.up(&meeting.backend, "the virtual machine's tap"),
        meeting.up(&bridge, "the bridge"),
    ]);
    let show = |device: &str| meeting.behind.ip(&["-j", "-d", "link", "show", "dev", device]);
    let read_back = [&bridge, &uplink, &meeting.backend].map(|device| Question::at(meeting.behind, show(device)));
    let ports = [(&*uplink, Some(meeting.near.station)), (&*meeting.backend, Some(meeting.machine.station))];
    let inside = meeting.inside(&ports, false);
    let passages = meeting.passages(&[(&uplink, meeting.near.station), (&meeting.backend, meeting.machine.station)]);
    Ok(Laid { read_back: read_back.into(), inside, passages, ..meeting.laid(behind) })
}

/// Which of the bridge's settings keeps such frames from leaving by port `out`, and the smallest
/// change that lets them pass. A port that floods none has to flood them. A bridge that snoops, and
/// knows of a querier, sends multicast only where it has heard of a member or a router, so the port
/// has to be one of a router's. Without a querier it floods.
pub fn keeps(answers: &[Value], kind: SpecialKind, out: &str) -> Option<String> {
    let links = || answers.iter().filter_map(Value::as_array).flatten();
    let setting = match kind {
        SpecialKind::Multicast => "mcast_flood",
        SpecialKind::Arp => "bcast_flood",
        SpecialKind::Longest | SpecialKind::Unsummed => return None,
    };
    let port = links().find(|link| link["linkinfo"]["info_slave_kind"] == "bridge" && link["ifname"] == out)?;
    let is_set = &port["linkinfo"]["info_slave_data"];
    if is_set[setting] == false {
        return Some(format!(
            "the bridge's {setting} is off at {out}; the smallest change is `bridge link set dev {out} {setting} on`"
        ));
    }
    let snoops = |link: &&Value| link["linkinfo"]["info_data"]["mcast_snooping"] == 1;
    let bridge = links().find(snoops).filter(|_| kind == SpecialKind::Multicast)?;
    let querier = querier(&bridge["linkinfo"]["info_data"]).filter(|_| is_set["multicast_router"] != 2)?;
    let name = bridge["ifname"].as_str().unwrap_or("?");
    Some(format!(
        "bridge {name} snoops (mcast_snooping 1), {querier}, and has heard of no member behind {out}; the smallest change is \
         `ip link set dev {out} type bridge_slave mcast_router 2`"
    ))
}

/// The querier that a bridge knows of, in words: itself, or one that it has heard.
fn querier(data: &Value) -> Option<String> {
    if data["mcast_querier"] == 1 {
        return Some("is the querier itself (mcast_querier 1)".to_owned());
    }
    let heard = |version: &str| {
        let state = &data[format!("mcast_querier_state_{version}")];
        let of = |what: &str| state[format!("mcast_querier_{version}_{what}")].as_str();
        // Of its own queries there is an address too; the timer runs for another one's.
        of("other_timer").filter(|left| left.contains(|c| ('1'..='9').contains(&c)))?;
        Some(format!("knows of a querier ({})", of("addr").unwrap_or("?")))
    };
    heard("ipv4").or_else(|| heard("ipv6"))
}

/// Nothing in it acts by itself or waits: no spanning tree, whose listening and learning would last
/// for half a minute, and no snooping, which drops multicast for which nobody has asked.
fn bridge_step(meeting: &Meeting<'_>, bridge: &str) -> Step {
    let make = meeting.behind.ip(&[
        "link",
        "add",
        bridge,
        "type",
        "bridge",
        "stp_state",
        "0",
        "forward_delay",
        "0",
        "mcast_snooping",
        "0",
        "ageing_time",
        "30000",
    ]);
    let quiet = meeting.behind.ip(&["link", "set", "dev", bridge, "addrgenmode", "none"]);
    let undoes = Inverse::within(meeting.behind, Action::DeleteLink { device: bridge.to_owned() });
    let why = "the bridge: no spanning tree, no multicast snooping, addresses kept for 300 s";
    Step::new(meeting.behind, why, vec![make, quiet]).undone_by(vec![undoes]).tolerating(NO_IPV6)
}

/// A port with an address of its own.
pub(super) fn own_address_step(meeting: &Meeting<'_>, tap: &str, address: &str) -> Step {
    let does = meeting.behind.ip(&["link", "set", "dev", tap, "address", address]);
    Step::new(
        meeting.behind,
        "an address of the tap's own: this host takes what is sent to a port's address",
        vec![does],
    )
}

/// The bridge lets go of its ports when it is deleted.
fn port_step(meeting: &Meeting<'_>, bridge: &str, port: &str) -> Step {
    let does = meeting.behind.ip(&["link", "set", "dev", port, "master", bridge]);
    let quiet = meeting.behind.ip(&["link", "set", "dev", port, "addrgenmode", "none"]);
    Step::new(meeting.behind, "a port of the bridge", vec![does, quiet]).tolerating(NO_IPV6)
}
