// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two network devices of this host, cabled back to back. Each is moved into its station's namespace, and afterwards goes
//! back to where it was, with the addresses, MTU, admin state and stamping that it had.
//!
//! The namespace that the devices came from is kept under a name, so that the way back is the same from anywhere, also for
//! `tardy undo` in another one. A device never goes by the fall of its namespace: a virtual one would be destroyed, a
//! physical one would land in the machine's first namespace.

use super::link::{Laid, LinkEnd, PathError};
use super::veth::{self, Joint};
use super::{InGuest, Kind, Stations};
use crate::command::Command;
use crate::held::{self, Held};
use crate::inverse::{Action, Inverse, NicWas, StampingWas, TakenNic, is_device};
use crate::machine::Facts;
use crate::names::Names;
use crate::state::StateError;
use crate::step::Step;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tardy_host::nic::{self, Nic, NicError};
use tardy_model::path::Where;
use tardy_model::point::Point;
use tardy_spec::experiment::{Experiment, Setup};
use tardy_sys::hwtstamp::{HwStamp, RX_ALL, TX_ON};
use tardy_sys::nic::TsInfo;
use tardy_sys::{SysError, process};
use thiserror::Error;

/// Two devices need so long to agree on a speed, and some more.
const LINK: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Where iproute2 keeps its named namespaces.
const NETNS: &str = "/run/netns";
const MOUNTS: &str = "/proc/self/mountinfo";
/// What a driver says to a kind of stamping that it lists and does not grant. The point is absent then, with the device's
/// own reason.
const NOT_GRANTED: &[&str] = &["Operation not supported", "Numerical result out of range", "Invalid argument"];

/// The devices cannot be had.
#[derive(Debug, Error)]
pub enum WireError {
    /// What a device is, or is used for, stands against it.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// Both names are one device's.
    #[error("`{a}` and `{b}` are two names of one network device: name the one at the other end of the cable")]
    Same {
        /// First name.
        a: String,
        /// Second.
        b: String,
    },
    /// Another run has it.
    #[error("another run of tardy has network device `{device}` ({holder}): wait for its end, or name another device")]
    Taken {
        /// Which.
        device: String,
        /// Who has it.
        holder: String,
    },
    /// Its name could mean something to a shell.
    #[error(
        "the name of network device `{device}` has characters that mean something to a shell: rename it (ip link set dev … name …)"
    )]
    Name {
        /// Which.
        device: String,
    },
    /// A killed run had it.
    #[error("network device `{device}` is in namespace {netns}, where a killed run left it: run `tardy undo`")]
    Left {
        /// Which.
        device: String,
        /// Where.
        netns: String,
    },
    /// Names of namespaces would not outlive this process, nor the devices in them.
    #[error(
        "path wire: the names of namespaces made here end with this process, and a kill would strand the devices (is this `ip netns exec`, or a sandbox?): to run in a namespace, use nsenter --net=/run/netns/NAME tardy run …"
    )]
    Sandbox,
    /// It cannot be reserved.
    #[error("cannot reserve network device `{device}`: {source}")]
    Claim {
        /// Which.
        device: String,
        /// The reason.
        source: StateError,
    },
    /// No link came up.
    #[error(
        "network device `{device}` has no link after {seconds} s: is the cable plugged at both ends, and are path.a and \
         path.b its two ends?"
    )]
    NoLink {
        /// Which.
        device: String,
        /// How long was waited.
        seconds: u64,
    },
    /// It cannot be looked at while the path stands.
    #[error("network device `{device}` in {netns} cannot be looked at: {source}: was it unplugged?")]
    Gone {
        /// Which.
        device: String,
        /// Where it was.
        netns: String,
        /// The system's reason.
        source: SysError,
    },
}

/// Devices that are this run's as long as this lives.
#[derive(Debug)]
pub struct Claim {
    devices: BTreeMap<String, Held>,
}

impl Claim {
    /// Also these: a device has other names than the one that an experiment may use.
    ///
    /// # Errors
    /// [`WireError::Taken`] if another run has one.
    pub fn also<'d>(&mut self, devices: impl IntoIterator<Item = &'d str>) -> Result<(), WireError> {
        for device in devices {
            if self.devices.contains_key(device) {
                continue;
            }
            let taken = || WireError::Taken { device: device.to_owned(), holder: held::holder(&name_of(device)) };
            let claim = |source| WireError::Claim { device: device.to_owned(), source };
            let held = Held::take(&name_of(device)).map_err(claim)?.ok_or_else(taken)?;
            self.devices.insert(device.to_owned(), held);
        }
        Ok(())
    }
}

/// Devices belong to a network namespace: two may have one name.
fn name_of(device: &str) -> String {
    let netns = std::fs::metadata("/proc/self/ns/net").map_or(0, |about| about.ino());
    format!("nic-{netns}-{device}")
}

/// The wires of an experiment: both devices, MTU, and whether devices with addresses may be taken.
fn wires(experiment: &Experiment) -> impl Iterator<Item = (&str, &str, u32, bool)> {
    let emulated = super::emulated::is_here();
    experiment.cells.iter().filter(|cell| !cell.setup.is_simulated()).filter_map(move |cell| {
        let path = &cell.setup.path;
        let [a, b] = path.devices().filter(|_| path.traits().place != Where::OnlyInGuest || emulated)?;
        Some((a, b, path.mtu, path.take))
    })
}

/// Keeps other runs away from the devices of an experiment.
///
/// # Errors
/// [`WireError::Taken`] if one of them has a device.
pub fn claim(experiment: &Experiment) -> Result<Claim, WireError> {
    let devices: BTreeSet<&str> = wires(experiment).flat_map(|(a, b, ..)| [a, b]).collect();
    let mut claim = Claim { devices: BTreeMap::new() };
    claim.also(devices)?;
    Ok(claim)
}

/// Looks at the devices of an experiment; changes nothing.
///
/// # Errors
/// If one is not there, is in use, or cannot carry the packets.
pub fn look(experiment: &Experiment) -> Result<BTreeMap<String, Nic>, WireError> {
    let mut nics: BTreeMap<String, Nic> = BTreeMap::new();
    if wires(experiment).next().is_some()
        && names_end_here(&std::fs::read_to_string(MOUNTS).unwrap_or_default(), has_own_mounts())
    {
        return Err(WireError::Sandbox);
    }
    for (a, b, mtu, take) in wires(experiment) {
        for device in [a, b] {
            let nic = match nics.get(device) {
                Some(nic) => nic.clone(),
                None => nic::read(device).map_err(|error| missing(device, error))?,
            };
            if !is_device(&nic.name) {
                return Err(WireError::Name { device: nic.name });
            }
            nic.may_be_taken(mtu, take)?;
            nics.insert(device.to_owned(), nic);
        }
        if nics[a].name == nics[b].name {
            return Err(WireError::Same { a: a.to_owned(), b: b.to_owned() });
        }
    }
    Ok(nics)
}

/// True if this process is in another mount namespace than the machine's first.
fn has_own_mounts() -> bool {
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    of("1").zip(of("self")).is_some_and(|(first, own)| first != own)
}

/// True if what is mounted on the folder of named namespaces shows in this process's mount namespace alone. `mounts` is
/// `/proc/self/mountinfo`: there, a mount that only receives (`master:`) stands for a slave copy. Where the mount namespace is
/// the process's own (`has_own`), what is mounted shows elsewhere only if it is shared: it would end with the last process in there,
/// and network devices with it.
pub fn names_end_here(mounts: &str, has_own: bool) -> bool {
    let row = |line: &str| {
        let mut fields = line.split(' ').skip(4);
        let point = fields.next()?.to_owned();
        let optional: Vec<String> = fields.skip(1).take_while(|field| *field != "-").map(str::to_owned).collect();
        Path::new(NETNS).starts_with(&point).then_some((point.len(), optional))
    };
    let rows: Vec<_> = mounts.lines().filter_map(row).collect();
    let nearest = rows.iter().map(|(length, _)| *length).max();
    // Mounts on one point lie upon each other: the last one counts.
    let top = rows.iter().rev().find(|(length, _)| Some(*length) == nearest);
    let has = |what: &str| top.is_some_and(|(_, optional)| optional.iter().any(|field| field.starts_with(what)));
    has("master:") || (has_own && top.is_some() && !has("shared:"))
}

/// A device that is not here may be where a killed run left it.
fn missing(device: &str, error: NicError) -> WireError {
    let entries = std::fs::read_dir(NETNS).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let has_it = |netns: &String| {
        let path = Path::new(NETNS).join(netns);
        netns.starts_with("tardy-")
            && matches!(process::in_netns(&path, || tardy_sys::nic::has_link(device)), Ok(Ok(_)))
    };
    match (&error, names.into_iter().find(has_it)) {
        (NicError::Missing { .. }, Some(netns)) => WireError::Left { device: device.to_owned(), netns },
        _ => error.into(),
    }
}

/// What the streams ask a station's device to stamp: packets that it sends, packets that arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    tx: bool,
    rx: bool,
}

/// What is asked of the device of each station.
pub fn asked(setup: &Setup) -> BTreeMap<&str, Asked> {
    let mut asked: BTreeMap<&str, Asked> = BTreeMap::new();
    for stream in &setup.streams {
        asked.entry(&stream.from).or_default().tx |= stream.stamps.contains(&Point::TxHw);
        asked.entry(&stream.to).or_default().rx |= stream.stamps.contains(&Point::RxHw);
    }
    asked
}

/// What a device is to be set to, of what it can; `None` if it is as it should be.
pub fn setting(can: &TsInfo, now: HwStamp, asked: Asked) -> Option<HwStamp> {
    let tx = if asked.tx && can.tx_hardware() && now.tx == tardy_sys::hwtstamp::TX_OFF { TX_ON } else { now.tx };
    // A filter for PTP's packets alone would not see a stream's.
    let rx = if asked.rx && can.rx_all() { RX_ALL } else { now.rx };
    let to = HwStamp { tx, rx, ..now };
    (to != now).then_some(to)
}

pub(super) const KIND: Kind = Kind { cannot: |_| None, lay, guest: InGuest::NOTHING };

/// Plans the wire: each device into its station's namespace.
///
/// # Errors
/// If there are not exactly two stations, or a device was not looked at.
pub(super) fn lay(setup: &Setup, stations: &Stations, names: Names, found: &Facts) -> Result<Laid, PathError> {
    let (devices, mtu) = (setup.path.devices().unwrap_or_default(), setup.path.mtu);
    let [a, b] = Joint::two(setup, stations, names)?;
    let nic = |device: &str| found.nics.get(device).ok_or_else(|| PathError::Unread { device: device.to_owned() });
    let [near, far] = [nic(devices[0])?, nic(devices[1])?];
    // Devices that were there before have names of their own.
    let at = |joint, nic: &Nic| Joint { link: nic.name.clone(), mac: nic.mac.clone(), ..joint };
    let (a, b) = (at(a, near), at(b, far));
    let home = names.home();
    let before = vec![keep(&home, found.home)];
    let mut steps = vec![take(&a, near, &home), take(&b, far, &home)];
    steps.extend([veth::quiet(&a), fit(&a, mtu), veth::end(&a, &b), veth::quiet(&b), fit(&b, mtu), veth::end(&b, &a)]);
    let asked = asked(setup);
    let mut read_back = Vec::new();
    for (at, nic) in [(&a, near), (&b, far)] {
        let (Ok(can), Ok(now)) = (&nic.can, &nic.stamps) else { continue };
        let to = setting(can, *now, asked.get(at.station).copied().unwrap_or_default());
        steps.extend(to.map(|to| stamp(at, *now, to, &home)));
        read_back.push(Command::hwtstamp("show", &at.link, &[&at.netns], &[]));
    }
    Ok(Laid { before, steps, read_back, ends: [a, b].map(Joint::into_end).into() })
}

fn keep(home: &str, pid: u32) -> Step {
    Step {
        does: vec![Command::ip(&["netns", "attach", home, &pid.to_string()])],
        undoes: vec![Inverse::here(Action::DeleteNamespace { name: home.to_owned() })],
        why: "a name for the namespace that the devices come from and go back to",
        tolerates: &[],
    }
}

/// The device moves, and the inverse gives it back what the move takes from it or what is changed in the station.
fn take(at: &Joint<'_>, nic: &Nic, home: &str) -> Step {
    let was = NicWas {
        mtu: nic.mtu,
        up: nic.up,
        // `stable_secret` cannot be set without its secret, which stayed with the namespace's own settings.
        addr_gen_mode: nic.addr_gen_mode.clone().filter(|mode| *mode != "stable_secret"),
        addresses: nic.addresses.clone(),
    };
    let (device, mac, to) = (at.link.clone(), nic.mac.clone(), home.to_owned());
    let taken = TakenNic { device, ifindex: nic.ifindex, mac, to, was };
    Step {
        does: vec![Command::ip(&["link", "set", "dev", &at.link, "netns", &at.netns])],
        undoes: vec![Inverse::within(&at.netns, Action::GiveBackNic(Box::new(taken)))],
        why: "the device into its station; back with the MTU, state and addresses that it had",
        tolerates: &[],
    }
}

fn fit(at: &Joint<'_>, mtu: u32) -> Step {
    Step {
        does: vec![Command::ip_in(&at.netns, &["link", "set", "dev", &at.link, "mtu", &mtu.to_string()])],
        undoes: Vec::new(),
        why: "the path's MTU",
        tolerates: &[],
    }
}

/// Behind the device's start, since some drivers set it only while up; its inverse, run while it is up, comes first of all.
fn stamp(at: &Joint<'_>, now: HwStamp, to: HwStamp, home: &str) -> Step {
    let (tx, rx, flags) = (to.tx.to_string(), to.rx.to_string(), to.flags.to_string());
    let words = ["--tx", &tx, "--rx", &rx, "--flags", &flags];
    let was = StampingWas { tx: now.tx, rx: now.rx, flags: now.flags };
    let restore = Action::RestoreStamping { device: at.link.clone(), or_in: home.to_owned(), was };
    Step {
        does: vec![Command::hwtstamp("set", &at.link, &[&at.netns], &words)],
        undoes: vec![Inverse::within(&at.netns, restore)],
        why: "stamps taken by the device (as linuxptp's `hwstamp_ctl -i DEV -t TX -r RX`)",
        tolerates: NOT_GRANTED,
    }
}

/// Waits until both devices have their link; a signal ends the wait.
///
/// # Errors
/// If one has none in time, or is not there any more.
pub fn wait_for_link(ends: &BTreeMap<String, LinkEnd>, stop: &AtomicBool) -> Result<(), WireError> {
    let until = Instant::now() + LINK;
    for end in ends.values() {
        let path = Path::new(NETNS).join(&end.netns);
        let gone = |source| WireError::Gone { device: end.device.clone(), netns: end.netns.clone(), source };
        let waited = process::in_netns(&path, || {
            loop {
                if stop.load(Relaxed) || tardy_sys::nic::has_link(&end.device)? {
                    return Ok(true);
                }
                if Instant::now() > until {
                    return Ok(false);
                }
                std::thread::sleep(LOOK_EVERY);
            }
        });
        if !waited.and_then(|waited| waited).map_err(gone)? {
            return Err(WireError::NoLink { device: end.device.clone(), seconds: LINK.as_secs() });
        }
    }
    Ok(())
}
