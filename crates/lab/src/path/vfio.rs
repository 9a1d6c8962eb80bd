// SPDX-License-Identifier: MIT OR Apache-2.0
//! Into a virtual machine by a network device of the host's, which the machine has for itself, or
//! by a virtual function of one. The other station has the device at the other end of its cable,
//! as on a wire. The kernel leaves the function to QEMU (vfio-pci), behind an IOMMU, so that it
//! reaches the machine's memory alone; when the run is over the function goes back to its driver.
//!
//! A guest in exact time gets three ports of igb for it, on one hub, and an IOMMU, all of them
//! QEMU's.

use super::link::{Device, Laid, PathError, PathId, Plug};
use super::meeting::Meeting;
use super::methods::{InGuest, PathMethods, PlannedStations};
use super::{igb, veth, wire};
use crate::binding::{self, FunctionWas, LinkWas, PCI, SriovWas, VFIO};
use crate::command::Command;
use crate::host::HostId;
use crate::host::ask::DeviceAsk;
use crate::host::place::Place;
use crate::machine::FactsByHost;
use crate::names::Names;
use crate::step::{Action, Inverse, Step, Text, is_device};
use std::borrow::Cow;
use std::fs;
use std::path::Path;
use tardy_engine::order::GROUPS;
use tardy_host::nic::{self, Nic};
use tardy_model::ethernet::Mac;
use tardy_model::path::{Backend, PathKind};
use tardy_model::station::Passed;
use tardy_spec::experiment::{PORTS as NAMES, Setup};

/// Three ports on one hub, which forwards what comes to one to the others, behind an IOMMU that
/// also remaps interrupts.
const PORTS: &str = "-device intel-iommu,intremap=on \
                     -netdev hubport,id=port0,hubid=0 -netdev hubport,id=port1,hubid=0 -netdev hubport,id=port2,hubid=0 \
                     -device igb,netdev=port0,addr=2,mac=02:74:64:ff:00:00 -device igb,netdev=port1,addr=4,mac=02:74:64:ff:00:01 \
                     -device igb,netdev=port2,addr=6,mac=02:74:64:ff:00:02";

pub(super) const KIND: PathMethods = PathMethods {
    asks,
    guest: InGuest {
        modules: || &["igb", "vfio_pci", "vfio_iommu_type1"],
        arguments: PORTS,
        // What stays with the guest's own kernel needs no translation.
        kernel: "intel_iommu=on iommu=pt",
        since: Some((8, "three ports of igb behind an IOMMU")),
        ..InGuest::NOTHING
    },
    ..PathMethods::made(lay)
};

/// An earlier cell of the same machine has done it already.
const JOINED: &[Text] = &[Cow::Borrowed("File exists")];

fn written(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The device of the station that is no machine. The machine's was looked at before it started.
fn asks(setup: &Setup, host: HostId) -> Result<Vec<DeviceAsk>, PathError> {
    let ask = |(near, passed): (&str, Passed)| DeviceAsk {
        device: near.to_owned(),
        mtu: setup.path.mtu,
        take: setup.path.take,
        path: of_kind(passed.is_guests),
        peer: None,
    };
    Ok(setup.path.passed().filter(|_| host == HostId::HERE).map(ask).into_iter().collect())
}

/// Plans what is left to do when the machine runs: the other device into its station, and the
/// addresses of both ends.
///
/// # Errors
/// If there are not exactly one namespace and one machine, or the device was not looked at.
fn lay(setup: &Setup, stations: &PlannedStations, names: Names, found: &FactsByHost) -> Result<Laid, PathError> {
    let mut meeting = Meeting::of(setup, stations, (names, found), Backend::Vfio)?;
    let none = || PathError::TwoDevices { kind: setup.path.traits().name, devices: Vec::new() };
    let (device, passed) = setup.path.passed().ok_or_else(none)?;
    let facts = found.of(HostId::HERE)?;
    let nic = facts.nics.get(device).ok_or_else(|| PathError::Unread { device: device.to_owned() })?;
    meeting.near.link.clone_from(&nic.name);
    meeting.near.mac.clone_from(&nic.mac);
    let home = found.names(HostId::HERE, names).home();
    let before = vec![wire::home_step(HostId::HERE, &home, facts.home)];
    let (near, machine) = (&meeting.near, &meeting.machine);
    let mut steps = vec![wire::take_step(near, nic, &home)];
    // A device has the address of its own; a virtual function was given one.
    steps.push(if passed.vf {
        let join = |group: Mac| machine.place.ip(&["maddr", "add", &written(group), "dev", &machine.link]);
        let why =
            "in the virtual machine: the groups of the probes, for a virtual function passes those alone that it knows";
        Step::new(&machine.place, why, GROUPS.map(join).to_vec()).tolerating(JOINED)
    } else {
        let does = machine.place.ip(&["link", "set", "dev", &machine.link, "address", &machine.mac]);
        Step::new(&machine.place, "in the virtual machine: an address that the other end knows", vec![does])
    });
    steps.extend([
        veth::no_chatter_step(near),
        wire::mtu_step(near, setup.path.mtu),
        veth::address_step(near, machine),
    ]);
    steps.extend(meeting.steps_in_machine(machine, near));
    let Meeting { near, machine, .. } = meeting;
    let plug = |joint: veth::Joint<'_>| Plug {
        station: joint.station.to_owned(),
        path: PathId::FIRST,
        offer: joint.offer.clone(),
        device: Device { name: joint.link, address: joint.address, address6: joint.address6, mac: joint.mac },
    };
    Ok(Laid { before, steps, plugs: vec![plug(near), plug(machine)], ..Laid::default() })
}

/// What this machine's kernel says of a network device and its function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionFacts {
    /// The network device; else why there is none.
    pub nic: Result<Nic, String>,
    /// Other network devices of its function.
    pub others: Vec<String>,
    /// The address of its function; `None` if it is on no PCI bus.
    pub address: Option<String>,
    pub driver: Option<String>,
    /// What `driver_override` holds, if something.
    pub driver_override: Option<String>,
    /// The number of its IOMMU group; `None` where no IOMMU has it.
    pub group: Option<String>,
    /// Other functions of the group that a driver has, each with that driver.
    pub beside: Vec<(String, String)>,
    /// This kernel has the driver vfio-pci.
    pub has_vfio: bool,
    /// Virtual functions that it has, and may have; `None` if it knows none.
    pub vfs: Option<(u32, u32)>,
    /// Where its first virtual function is.
    pub vf_offset: u32,
    /// A driver looks at new virtual functions by itself.
    pub autoprobe: bool,
    /// It is an igb that QEMU emulates.
    pub is_emulated: bool,
}

/// Reads all of it; changes nothing.
pub fn read(device: &str) -> FunctionFacts {
    let nic = if is_device(device) {
        nic::read(device).map_err(|error| error.to_string())
    } else {
        Err(format!("`{device}` is no network device's name"))
    };
    let name = nic.as_ref().map_or(device, |nic| &nic.name);
    let folder = fs::canonicalize(Path::new("/sys/class/net").join(name).join("device")).unwrap_or_default();
    let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let link = |path: &Path| fs::read_link(path).ok().and_then(|to| last(&to));
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
    let number = |name: &str| text(name).and_then(|text| text.parse::<u32>().ok());
    let is_pci = link(&folder.join("subsystem")).as_deref() == Some("pci");
    let address = last(&folder).filter(|_| is_pci);
    let group = fs::read_dir(folder.join("iommu_group/devices")).into_iter().flatten().flatten();
    let beside = group.filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let driver = link(&entry.path().join("driver"))?;
        (Some(&name) != address.as_ref()).then_some((name, driver))
    });
    let links = fs::read_dir(folder.join("net")).into_iter().flatten().flatten();
    let others = links.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|other| other != name);
    FunctionFacts {
        others: others.collect(),
        beside: beside.collect(),
        driver: link(&folder.join("driver")),
        driver_override: text("driver_override").filter(|text| !text.is_empty() && text != "(null)"),
        group: link(&folder.join("iommu_group")),
        has_vfio: Path::new(PCI).join("drivers").join(VFIO).exists(),
        vfs: number("sriov_numvfs").zip(number("sriov_totalvfs")),
        vf_offset: number("sriov_offset").unwrap_or(0),
        autoprobe: number("sriov_drivers_autoprobe") != Some(0),
        is_emulated: igb::is_port(name),
        address,
        nic,
    }
}

/// What is asked of the host's steward, so that no other run has the device meanwhile. The device
/// keeps its MTU here: the path's is set in the machine.
pub fn claim(passed: &Passed, found: &FunctionFacts) -> DeviceAsk {
    let mtu = found.nic.as_ref().map_or(ETHERNET_MTU, |nic| nic.mtu);
    DeviceAsk { device: passed.device.clone(), mtu, take: false, path: of_kind(passed.is_guests), peer: None }
}

/// Of a device of which nothing is known; the steward says why not.
const ETHERNET_MTU: u32 = 1_500;

/// A guest's own ports are those of path igb. Where there are none, another device may have their
/// names.
fn of_kind(is_guests: bool) -> String {
    if is_guests { PathKind::Igb } else { PathKind::Vfio }.name().to_owned()
}

/// Why a virtual machine cannot have it, and what helps; `None` if it can. Pure.
pub fn refusal(passed: &Passed, found: &FunctionFacts) -> Option<String> {
    let device = &passed.device;
    if passed.is_guests && !found.is_emulated {
        return Some("path vfio needs two network devices that a cable joins: name them by path.a and path.b, the virtual machine's by path.b; or run it in a guest, \
                     which has such ports (--in guest:exact)".to_owned());
    }
    let nic = match &found.nic {
        Ok(nic) => nic,
        Err(why) => return Some(why.clone()),
    };
    // An address would be lost with the device.
    if let Err(why) = nic.may_be_taken(nic.mtu, false) {
        return Some(format!("{why}; path vfio takes no device that is in use"));
    }
    if found.address.is_none() || found.driver.is_none() {
        return Some(format!(
            "`{device}` is no function of a PCI device, and only such a one can be given to a virtual machine: name a network card"
        ));
    }
    if let Some(other) = found.others.first().filter(|_| !passed.vf) {
        return Some(format!(
            "`{device}` and `{other}` are one PCI function, so the virtual machine would take both: name another network card, or a virtual \
             function (path.vf = true)"
        ));
    }
    let Some(group) = &found.group else {
        return Some(format!(
            "no IOMMU is behind `{device}`, so it would reach all of this machine's memory: switch the IOMMU on in the firmware, and in the kernel by \
             intel_iommu=on"
        ));
    };
    // A virtual function has a group of its own where the card isolates it; its steps find out.
    let others: Vec<_> = found.beside.iter().filter(|(_, driver)| driver != VFIO && driver != "pcieport").collect();
    if let Some((other, driver)) = others.first().filter(|_| !passed.vf) {
        return Some(format!(
            "IOMMU group {group} of `{device}` also has {other}, which driver {driver} has, and a group cannot be split: put the card into another slot, or unbind that \
             driver: echo {other} >{PCI}/devices/{other}/driver/unbind"
        ));
    }
    if !found.has_vfio {
        return Some(format!("this kernel has no driver {VFIO}: modprobe vfio-pci"));
    }
    match (passed.vf, found.vfs) {
        (false, Some((1.., _))) => Some(format!(
            "`{device}` has virtual functions, which would go with it: echo 0 >/sys/class/net/{device}/device/sriov_numvfs"
        )),
        (true, None | Some((_, 0))) => {
            Some(format!("`{device}` has no virtual functions (SR-IOV): name another device, or leave path.vf out"))
        }
        (true, Some((now @ 1.., _))) => Some(format!(
            "`{device}` has {now} virtual functions already, and their number cannot change while somebody may use them: echo 0 >/sys/class/net/{device}/device/sriov_numvfs"
        )),
        _ => None,
    }
}

/// How a function comes to the virtual machine, and its address. Pure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    pub steps: Vec<Step>,
    pub address: String,
}

/// Plans that, for a device that is not refused; `None` if it is none.
pub fn handed(passed: &Passed, found: &FunctionFacts, mac: &str) -> Option<Handed> {
    let here = Place::of(HostId::HERE);
    let (address, nic) = (found.address.clone()?, found.nic.as_ref().ok()?);
    let link = LinkWas { name: nic.name.clone(), mtu: nic.mtu, up: nic.up };
    // A script that fails may have done a part of its actions. By a command of its own that changes
    // nothing: its failure alone means that nothing is to be undone.
    let step = |why, look: String, script: String, action| {
        let does = [look, script].map(|script| here.shell(&script, &[])).to_vec();
        Step::new(&here, why, does).undone_by(vec![Inverse::here(action)])
    };
    let mut steps = Vec::new();
    let was = if passed.vf {
        let vf = binding::first_vf(&address, found.vf_offset)?;
        let make = binding::make_vf(&address, &link.name, mac);
        let look = binding::look_for_vfs(&address);
        let was = SriovWas { address, autoprobe: found.autoprobe, link };
        steps.push(step("a virtual function of the device", look, make, Action::DeleteVirtualFunctions(Box::new(was))));
        FunctionWas { address: vf, driver: None, driver_override: None, link: None }
    } else {
        let (driver, driver_override) = (found.driver.clone(), found.driver_override.clone());
        FunctionWas { address, driver, driver_override, link: Some(link) }
    };
    let address = was.address.clone();
    let why =
        "the function to vfio-pci, by which QEMU gives it to the virtual machine; back with the driver that it had";
    let (look, bind) = (binding::look(&address), binding::bind(&address));
    steps.push(step(why, look, bind, Action::GiveBackFunction(Box::new(was))));
    Some(Handed { steps, address })
}

/// Gives a guest's own port for the other station as many queues as a pair of links to a machine
/// has. Its driver makes one for each processor, and a guest in exact time has one.
pub fn ready() -> Command {
    Command::new("ethtool", &["-L", NAMES[0], "combined", Names::PAIR_QUEUES])
}

/// Drivers of virtual functions, by those of their devices, where they are others.
const OF_VFS: [(&str, &str); 5] =
    [("igb", "igbvf"), ("ixgbe", "ixgbevf"), ("i40e", "iavf"), ("ice", "iavf"), ("bnxt_en", "bnxt_en")];

/// The module that drives in a machine what it has, by the driver that the device has on its host.
pub fn module(passed: &Passed) -> String {
    let read = || fs::read_link(Path::new("/sys/class/net").join(&passed.device).join("device/driver")).ok();
    let driver = if passed.is_guests { None } else { read() };
    let driver = driver.and_then(|to| Some(to.file_name()?.to_str()?.to_owned())).unwrap_or_else(|| "igb".to_owned());
    let of_vf = OF_VFS.iter().find(|(of, _)| passed.vf && *of == driver);
    of_vf.map_or(driver, |(_, of)| (*of).to_owned())
}
