// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is read of a network device: who drives it, how it gathers packets, what it can stamp, and
//! what is attached to it, and whether frames with two VLAN tags come in. Nothing of it is changed.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;
use tardy_bpf::pass;
use tardy_host::nic::{self, Nic, NicError};
use tardy_host::softirq;
use tardy_model::xdp::XdpMode;
use tardy_sys::bpf;
use tardy_sys::ethtool::{self, Coalescing, Eee, Pause};
use tardy_sys::nic::{Feature, FilterWay, XdpFeatures};
use tardy_sys::tags::TwiceTagged;

/// Features that put packets together or take them apart: their names in the kernel, what `ethtool
/// -K` calls them, and what they do.
pub(crate) const OFFLOADS: [Offload; 4] = [
    Offload { feature: "rx-gro", option: "gro", does: "the kernel puts received packets of one flow together" },
    Offload {
        feature: "rx-gro-hw",
        option: "rx-gro-hw",
        does: "the device puts received packets of one flow together",
    },
    Offload { feature: "rx-lro", option: "lro", does: "the device puts received packets of one flow together (LRO)" },
    Offload {
        feature: "tx-tcp-segmentation",
        option: "tso",
        does: "the device takes up to 64 KiB of TCP at once, and a packet behind them waits for all of it",
    },
];

pub(crate) struct Offload {
    pub(crate) feature: &'static str,
    pub(crate) option: &'static str,
    pub(crate) does: &'static str,
}

/// A network device as it was found. What its driver does not report is `None`.
#[derive(Clone, Debug)]
pub struct SeenNic {
    pub nic: Nic,
    /// Queues that receive and that send.
    pub queues: Option<(u32, u32)>,
    /// The numbers of its message-signalled interrupts.
    pub irqs: Vec<u32>,
    pub coalescing: Option<Coalescing>,
    pub pause: Option<Pause>,
    pub eee: Option<Eee>,
    /// By the names of the kernel.
    pub offloads: BTreeMap<String, Feature>,
    pub xdp: Option<XdpFeatures>,
    /// BPF programs among its filters and at its tcx hooks, by their ids; `None` if the kernel does
    /// not show them to this user.
    pub programs: Option<Vec<u32>>,
    /// Whether it took an XDP program in each mode that was tried on it; `None` if none was.
    pub modes: Option<Vec<(XdpMode, Result<(), String>)>>,
    /// Frames with two VLAN tags that came in while somebody listened; `None` if nobody did.
    pub twice_tagged: Option<Result<u32, String>>,
}

/// Reads one device of this network namespace.
///
/// # Errors
/// If there is none of that name, or `ip` and `tc` do not report it.
pub fn read(device: &str) -> Result<SeenNic, NicError> {
    let nic = nic::read(device)?;
    let name = nic.name.as_str();
    let offload = |of: &Offload| {
        let found = tardy_sys::nic::feature(name, of.feature).ok().flatten()?;
        Some((of.feature.to_owned(), found))
    };
    Ok(SeenNic {
        queues: tardy_sys::nic::rx_queues(name).ok().zip(tardy_sys::nic::tx_queues(name).ok()),
        irqs: softirq::steering(name).irqs.into_keys().collect(),
        coalescing: ethtool::coalescing(name).ok(),
        pause: ethtool::pause(name).ok(),
        eee: ethtool::eee(name).ok(),
        offloads: OFFLOADS.iter().filter_map(offload).collect(),
        xdp: tardy_sys::nic::xdp_features(name).ok(),
        programs: programs(&nic),
        modes: None,
        twice_tagged: None,
        nic,
    })
}

/// Listens for frames with two VLAN tags at all of these devices at once.
pub fn listen(nics: &mut [SeenNic], for_ns: i64) {
    let all: Vec<_> = nics.iter().map(|of| TwiceTagged::at(&of.nic.name)).collect();
    thread::sleep(Duration::from_nanos(for_ns.unsigned_abs()));
    for (nic, listening) in nics.iter_mut().zip(all) {
        let counted = listening.and_then(|of| of.count());
        nic.twice_tagged = Some(counted.map_err(|error| error.to_string()));
    }
}

/// Attaches a program that lets every frame pass to a device, native and then generic, and
/// removes it again. Some drivers reset the link then.
pub fn try_modes(nic: &mut SeenNic) {
    let tried = |mode| (mode, pass::attach(nic.nic.ifindex, mode).map(drop));
    nic.modes = Some([XdpMode::Native, XdpMode::Generic].map(tried).into());
}

fn programs(nic: &Nic) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for way in [FilterWay::Ingress, FilterWay::Egress] {
        found.extend(tardy_sys::nic::filter_programs(&nic.name, way).ok()?);
    }
    for egress in [false, true] {
        match bpf::tcx_programs(nic.ifindex, egress) {
            Ok(ids) => found.extend(ids),
            // Linux before 6.6 has no such hooks.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(_) => return None,
        }
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

/// The devices of this network namespace that belong to hardware, or to a virtual machine's.
pub fn physical() -> Vec<String> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let is_physical = |entry: &fs::DirEntry| entry.path().join("device").exists();
    let mut names: Vec<String> =
        entries.filter(is_physical).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
