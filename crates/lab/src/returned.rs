// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands that take steps back, with the names that network devices have by now: udev or a
//! person may have renamed a device while it was in its station. A command with its old name would
//! find nothing, and the device would be lost with its namespace. What the doctor has set, and
//! somebody else has set since, is left alone.

use crate::command::{Batch, Command};
use crate::host::runner::Runner;
use crate::step::{Action, Inverse, TakenNic};
use serde_json::Value;
use std::path::Path;
use tardy_host::change::{Change, Now};

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
    /// How many of the steps need nothing: what they changed is gone, or others have set it since.
    pub(crate) left_alone: u32,
}

pub(crate) fn way(steps: &[(u32, Vec<Inverse>)], runner: &mut dyn Runner) -> Way {
    let (mut first, mut then, mut notes, mut lost) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut settings = Settings::of(steps);
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
            (action, _) => match action.change().map_or(Fate::Back, |change| settings.fate(&change)) {
                Fate::Back => then.extend(of_step(inverse.commands())),
                Fate::Stays(note) => notes.extend(note),
            },
        }
    }
    // Before anything else: the other inverses name the device as it was called.
    first.extend(then);
    Way { commands: first, notes, lost, left_alone: settings.left_alone }
}

/// What becomes of a setting that the doctor changed.
enum Fate {
    /// It gets the value that it had.
    Back,
    /// It stays as it is; what a person should know of that.
    Stays(Option<String>),
}

/// All settings that these steps changed. One may have been changed twice, by two calls: what
/// was there before is the same in both then.
struct Settings {
    all: Vec<Change>,
    /// Those about which something was decided.
    done: Vec<Change>,
    left_alone: u32,
}

impl Settings {
    fn of(steps: &[(u32, Vec<Inverse>)]) -> Settings {
        let all = steps.iter().flat_map(|(_, undo)| undo).filter_map(|inverse| inverse.action.change()).collect();
        Settings { all, done: Vec::new(), left_alone: 0 }
    }

    fn fate(&mut self, change: &Change) -> Fate {
        let is_done = self.done.iter().any(|done| done.is_of_the_same(change));
        let fate = if is_done { Fate::Stays(None) } else { self.fate_by(change, change.now()) };
        self.done.push(change.clone());
        self.left_alone += u32::from(matches!(fate, Fate::Stays(_)));
        fate
    }

    fn fate_by(&self, change: &Change, now: Now) -> Fate {
        let now = match now {
            Now::Is(now) => now,
            Now::Gone if matches!(change, Change::Device(_)) => {
                return Fate::Stays(Some(format!(
                    "{} stays as it is: no device has this name and number here",
                    change.names()
                )));
            }
            Now::Gone => return Fate::Stays(None),
            Now::Unknown => return Fate::Back,
        };
        let mut set = self.all.iter().filter(|of| of.is_of_the_same(change)).map(Change::set);
        if change.is_same(&now, change.was()) {
            Fate::Stays(None)
        } else if set.any(|set| change.is_same(&now, set)) {
            Fate::Back
        } else {
            Fate::Stays(Some(format!(
                "{} is left alone: somebody has set it to {now} since tardy set it to {} (it was {})",
                change.names(),
                change.set(),
                change.was()
            )))
        }
    }
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
