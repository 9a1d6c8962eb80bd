// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands that take steps back, with the names that network devices have by now: udev or a
//! person may have renamed a device while it was in its station. A command with its old name would
//! find nothing, and the device would be lost with its namespace.

use crate::command::{Batch, Command};
use crate::host::runner::Runner;
use crate::step::{Action, Inverse, TakenNic};
use serde_json::Value;
use std::path::Path;

/// Folder of named namespaces.
const NETNS: &str = "/run/netns";

/// Devices of these kinds have the MAC address of the one that they stand on.
const ON_ANOTHER: [&str; 7] = ["vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "bridge", "bond"];

/// The commands by step, the last step first; what a person should know of them; devices that are
/// nowhere to be found.
pub(crate) struct Way {
    pub(crate) commands: Vec<(u32, Command)>,
    pub(crate) notes: Vec<String>,
    pub(crate) lost: Vec<String>,
}

pub(crate) fn way(steps: &[(u32, Vec<Inverse>)], runner: &mut dyn Runner) -> Way {
    let (mut first, mut then, mut notes, mut lost) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (step, inverse) in steps.iter().rev().flat_map(|(step, undo)| undo.iter().map(move |inverse| (*step, inverse)))
    {
        let of_step = |commands: Vec<Command>| commands.into_iter().map(move |command| (step, command));
        match (&inverse.action, inverse.place.netns.as_deref()) {
            (Action::GiveBackNic(nic), Some(station)) => match whereabouts(nic, station, runner) {
                Whereabouts::Renamed(now) => {
                    notes.push(format!("network device {} is called {now} now and gets its name back", nic.device));
                    first.extend(of_step(rename(station, &now, &nic.device)));
                    then.extend(of_step(inverse.commands()));
                }
                Whereabouts::BackAs(now) => then.extend(of_step(nic.give_back(station, &now))),
                Whereabouts::Nowhere => {
                    lost.push(format!(
                        "network device {} ({}) is in neither namespace {station} nor where it came from: it was unplugged or \
                         deleted, or somebody moved it; look for it with `ip -br link` and `ip -all netns exec ip -br link`",
                        nic.device, nic.mac
                    ));
                    then.extend(of_step(inverse.commands()));
                }
                Whereabouts::AsNoted => then.extend(of_step(inverse.commands())),
            },
            _ => then.extend(of_step(inverse.commands())),
        }
    }
    // Before anything else: the other inverses name the device as it was called.
    first.extend(then);
    Way { commands: first, notes, lost }
}

enum Whereabouts {
    /// In the station under its own name, or nothing can be seen of it.
    AsNoted,
    /// In the station under another name.
    Renamed(String),
    /// Where it goes back to, under this name.
    BackAs(String),
    Nowhere,
}

fn whereabouts(nic: &TakenNic, station: &str, runner: &mut dyn Runner) -> Whereabouts {
    let in_station = links(Some(station), runner);
    match in_station.as_deref().and_then(|links| find(nic, links)) {
        Some(now) if now == nic.device => return Whereabouts::AsNoted,
        Some(now) => return Whereabouts::Renamed(now),
        None => {}
    }
    let back = links(Some(&nic.to), runner);
    let found = back.as_deref().and_then(|links| find_back(nic, links));
    match (in_station, back) {
        (_, Some(_)) if found.is_some() => Whereabouts::BackAs(found.unwrap_or_default()),
        // The station is there, and what is in it could not be seen.
        (None, Some(_)) if Path::new(NETNS).join(station).exists() => Whereabouts::AsNoted,
        (_, Some(_)) => Whereabouts::Nowhere,
        (Some(_), None) => Whereabouts::AsNoted,
        // Neither is there: nothing had begun, if the device is where this process is. It may be
        // lost with them, or be where this process sees no names.
        (None, None) => match links(None, runner).map(|links| find_back(nic, &links)) {
            Some(None) => Whereabouts::Nowhere,
            Some(Some(_)) | None => Whereabouts::AsNoted,
        },
    }
}

/// What `ip` reports about a namespace's devices, or about those where this process is; `None` if
/// it reports nothing.
fn links(netns: Option<&str>, runner: &mut dyn Runner) -> Option<Vec<Value>> {
    let show = ["-j", "-d", "link", "show"];
    let command = netns.map_or_else(|| Command::ip(&show), |netns| Command::ip_in(netns, &show));
    let output = runner.run(&Batch::one(command)).ok()?;
    let links: Vec<Value> = serde_json::from_str(&output.stdout).ok()?;
    (output.failures.is_empty() && !links.is_empty()).then_some(links)
}

/// The name of the device among these: by its name and MAC address, else by its number and MAC
/// address, else by its MAC address, else by its name.
pub fn find(nic: &TakenNic, links: &[Value]) -> Option<String> {
    found_by(nic, links, |_| true)
}

/// The same where the device came from: another one may have got its name there, and is it only if
/// it has its number too.
pub fn find_back(nic: &TakenNic, links: &[Value]) -> Option<String> {
    found_by(nic, links, |link| link["ifindex"] == nic.ifindex)
}

fn found_by(nic: &TakenNic, links: &[Value], is_it_by_its_name: impl Fn(&Value) -> bool) -> Option<String> {
    let has_mac = |link: &&Value| link["address"].as_str().is_some_and(|mac| mac.eq_ignore_ascii_case(&nic.mac));
    let stands_alone = |link: &&Value| {
        let kind = link["linkinfo"]["info_kind"].as_str().unwrap_or_default();
        !ON_ANOTHER.contains(&kind)
    };
    let has_name = |link: &&Value| link["ifname"] == nic.device.as_str();
    let has_number = |link: &&Value| link["ifindex"] == nic.ifindex;
    let found = links
        .iter()
        .find(|link| has_name(link) && has_mac(link))
        .or_else(|| links.iter().find(|link| has_number(link) && has_mac(link)))
        .or_else(|| links.iter().find(|link| has_mac(link) && stands_alone(link)))
        .or_else(|| links.iter().find(|link| has_name(link) && is_it_by_its_name(link)))?;
    found["ifname"].as_str().map(str::to_owned)
}

/// A kernel before Linux 6.2 renames only a device that is down; some drivers set stamping only on
/// one that is up.
fn rename(station: &str, now: &str, then: &str) -> Vec<Command> {
    let set =
        |device: &str, words: &[&str]| Command::ip_in(station, &[&["link", "set", "dev", device], words].concat());
    vec![set(now, &["down"]), set(now, &["name", then]), set(then, &["up"])]
}
