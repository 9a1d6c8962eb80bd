// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network devices of this machine that a run wants to have: kept away from other runs, and looked
//! at before anything is touched.

use super::ask::DeviceAsk;
use crate::machine::OwnAddress;
use crate::slot::{self, Held};
use crate::state::StateError;
use crate::step::is_device;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tardy_host::nic::{self, Nic, NicError};
use tardy_sys::{SysError, process};
use thiserror::Error;

/// Where iproute2 keeps its named namespaces.
const NETNS: &str = "/run/netns";
const MOUNTS: &str = "/proc/self/mountinfo";

/// The devices are not available.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// What a device is, or is used for, forbids it.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// Both names are one device's.
    #[error("`{a}` and `{b}` are two names of one network device: name the one at the other end of the cable")]
    Same { a: String, b: String },
    /// Another run has it.
    #[error("another run of tardy has network device `{device}` ({holder}): wait for its end, or name another device")]
    Taken { device: String, holder: String },
    /// Its name could mean something to a shell.
    #[error(
        "the name of network device `{device}` has characters that mean something to a shell: rename it (ip link set dev … name …)"
    )]
    Name { device: String },
    /// A killed run had it.
    #[error("network device `{device}` is in namespace {netns}, where a killed run left it: run `tardy undo`")]
    Left { device: String, netns: String },
    /// Names of namespaces would not outlive this process, nor the devices in them.
    #[error(
        "path wire: the names of namespaces made here end with this process, and a kill would strand the devices (is this `ip netns exec`, or a sandbox?): to run in a namespace, use nsenter --net=/run/netns/NAME tardy run …"
    )]
    Sandbox,
    /// It cannot be reserved.
    #[error("cannot reserve network device `{device}`: {source}")]
    Claim { device: String, source: StateError },
    /// No link came up.
    #[error(
        "network device `{device}` has no link after {seconds} s: is the cable plugged at both ends, and are path.a and \
         path.b its two ends?"
    )]
    NoLink {
        device: String,
        /// How long was waited.
        seconds: u64,
    },
    /// It cannot be looked at while the path is up.
    #[error("network device `{device}` in {netns} cannot be looked at: {source}: was it unplugged?")]
    Gone { device: String, netns: String, source: SysError },
}

/// Devices that are this run's as long as this lives.
#[derive(Debug, Default)]
pub struct Claim {
    devices: BTreeMap<String, Held>,
}

impl Claim {
    /// Also these: a device has other names than the one that an experiment may use.
    ///
    /// # Errors
    /// [`DeviceError::Taken`] if another run has one.
    pub fn also<'d>(&mut self, devices: impl IntoIterator<Item = &'d str>) -> Result<(), DeviceError> {
        for device in devices {
            if self.devices.contains_key(device) {
                continue;
            }
            let taken = || DeviceError::Taken { device: device.to_owned(), holder: slot::holder(&name_of(device)) };
            let claim = |source| DeviceError::Claim { device: device.to_owned(), source };
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

/// The machine's own addresses.
pub fn own() -> Vec<OwnAddress> {
    let of = |of: nic::Had| OwnAddress { address: of.address, device: of.device, mac: of.mac, mtu: of.mtu };
    nic::addresses().into_iter().map(of).collect()
}

/// Looks at the devices that are asked for; changes nothing.
///
/// # Errors
/// If one is not there, is in use, or cannot carry the packets.
pub fn look(asked: &[&DeviceAsk]) -> Result<BTreeMap<String, Nic>, DeviceError> {
    let mut nics: BTreeMap<String, Nic> = BTreeMap::new();
    if !asked.is_empty() && names_end_here(&std::fs::read_to_string(MOUNTS).unwrap_or_default(), has_own_mounts()) {
        return Err(DeviceError::Sandbox);
    }
    for DeviceAsk { device, mtu, take, peer, .. } in asked {
        let nic = match nics.get(device) {
            Some(nic) => nic.clone(),
            None => nic::read(device).map_err(|error| missing(device, error))?,
        };
        if !is_device(&nic.name) {
            return Err(DeviceError::Name { device: nic.name });
        }
        nic.may_be_taken(*mtu, *take)?;
        // The error names both devices; the loop finds it at the one that comes second.
        if let Some((a, _)) =
            peer.as_ref().and_then(|peer| nics.get_key_value(peer)).filter(|(_, it)| it.name == nic.name)
        {
            return Err(DeviceError::Same { a: a.clone(), b: device.clone() });
        }
        nics.insert(device.clone(), nic);
    }
    Ok(nics)
}

/// True if this process is in another mount namespace than the machine's first.
fn has_own_mounts() -> bool {
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    of("1").zip(of("self")).is_some_and(|(first, own)| first != own)
}

/// True if what is mounted on the folder of named namespaces shows in this process's mount
/// namespace alone. `mounts` is `/proc/self/mountinfo`: there, a mount that only receives
/// (`master:`) marks a slave copy. Where the mount namespace is the process's own
/// (`has_own`), what is mounted shows elsewhere only if it is shared: it would end with the last
/// process in there, and network devices with it.
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
fn missing(device: &str, error: NicError) -> DeviceError {
    let entries = std::fs::read_dir(NETNS).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let has_it = |netns: &String| {
        let path = Path::new(NETNS).join(netns);
        netns.starts_with("tardy-")
            && matches!(process::in_netns(&path, || tardy_sys::nic::has_link(device)), Ok(Ok(_)))
    };
    match (&error, names.into_iter().find(has_it)) {
        (NicError::Missing { .. }, Some(netns)) => DeviceError::Left { device: device.to_owned(), netns },
        _ => error.into(),
    }
}

/// The file that iproute2 keeps for a named namespace.
pub(crate) fn netns_file(netns: &str) -> PathBuf {
    Path::new(NETNS).join(netns)
}
