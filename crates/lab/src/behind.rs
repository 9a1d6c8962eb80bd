// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way into a virtual machine that the user already has: what this machine has behind the
//! network device that was named for it. It is read, and nothing of it is changed.

use crate::host::tool::Tool;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tardy_model::verdict::Figure;
use thiserror::Error;

/// The way cannot be described, or is another one.
#[derive(Debug, Error)]
pub enum BehindError {
    #[error(
        "station.*.tap names network device `{device}`, and there is none here: name the one of this machine behind which the virtual \
         machine is, as `ip link` shows it"
    )]
    NoDevice { device: String },
    #[error("network device `{device}`, which station.*.tap names, cannot be read: {says}")]
    Unread { device: String, says: String },
    /// The kernel has learned otherwise.
    #[error(
        "station `{station}`: its hardware address {mac} is behind network device `{at}`, and station.{station}.tap is `{device}`: \
         name `{at}`"
    )]
    Elsewhere { station: String, mac: String, device: String, at: String },
}

/// What is behind a network device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    /// What leads to the machine, for the manifest: `behind.kind`, `behind.port_of` …
    pub facts: BTreeMap<String, String>,
    /// Hardware addresses that the kernel has learned, each with the device behind which it is.
    pub learned: BTreeMap<String, String>,
}

/// A process that has the device open, as the machine's emulator does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    pub name: String,
    /// How often it has it open: once for each queue.
    pub queues: usize,
    /// It has the kernel's vhost move packets.
    pub vhost: bool,
}

/// What was read of the machine.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// `ip -j -d link show`.
    pub links: Vec<Value>,
    /// `ethtool --json -k DEVICE`.
    pub offloads: Option<Value>,
    /// `bridge -j fdb show br BRIDGE`.
    pub fdb: Vec<Value>,
    /// `ip -j neigh show dev DEVICE`.
    pub neighbours: Vec<Value>,
    /// `tc -j filter show` of the device, both ways.
    pub filters: Vec<Value>,
    /// Who has it open.
    pub holders: Vec<Holder>,
}

/// Looks at the device.
///
/// # Errors
/// If there is none, or `ip` does not say what it is.
pub fn read(device: &str) -> Result<Behind, BehindError> {
    let unread = |says| BehindError::Unread { device: device.to_owned(), says };
    let links = json(&["ip", "-j", "-d", "link", "show"]).map_err(unread)?;
    let mut read = Read { links: links.as_array().cloned().unwrap_or_default(), ..Read::default() };
    let link = named(&read.links, device).ok_or_else(|| BehindError::NoDevice { device: device.to_owned() })?;
    let (index, master) = (link["ifindex"].as_u64().unwrap_or(0), text(&link["master"]).map(str::to_owned));
    let rows = |words: &[&str]| json(words).ok().and_then(|rows| rows.as_array().cloned()).unwrap_or_default();
    read.offloads = json(&["ethtool", "--json", "-k", device]).ok();
    read.fdb = master.map(|bridge| rows(&["bridge", "-j", "fdb", "show", "br", &bridge])).unwrap_or_default();
    read.neighbours = rows(&["ip", "-j", "neigh", "show", "dev", device]);
    for way in ["ingress", "egress"] {
        read.filters.extend(rows(&["tc", "-j", "filter", "show", "dev", device, way]));
    }
    read.holders = holders(device, index);
    Ok(of(device, &read))
}

fn json(words: &[&str]) -> Result<Value, String> {
    let says = Tool::new(words[0]).args(&words[1..]).run()?;
    serde_json::from_str(if says.trim().is_empty() { "[]" } else { &says }).map_err(|error| error.to_string())
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn named<'l>(links: &'l [Value], device: &str) -> Option<&'l Value> {
    links.iter().find(|link| link["ifname"] == device)
}

/// The processes that have the device open: a tap by its name, a macvtap by its own file. A device
/// of the same name may be in another namespace, so those of this one come first.
fn holders(device: &str, index: u64) -> Vec<Holder> {
    let file = PathBuf::from(format!("/dev/tap{index}"));
    let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let here = network("self");
    let mut found: Vec<(bool, Holder)> = Vec::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        if !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let mut holder = Holder::default();
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        for fd in open {
            let Ok(to) = fs::read_link(fd.path()) else { continue };
            let is_tap = || {
                let about = Path::new("/proc").join(&pid).join("fdinfo").join(fd.file_name());
                let about = fs::read_to_string(about).unwrap_or_default();
                about.lines().any(|line| line.strip_prefix("iff:").is_some_and(|name| name.trim() == device))
            };
            match to.to_str() {
                Some("/dev/vhost-net") => holder.vhost = true,
                Some("/dev/net/tun") if is_tap() => holder.queues += 1,
                _ if to == file => holder.queues += 1,
                _ => {}
            }
        }
        if holder.queues > 0 {
            holder.name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
            found.push((network(&pid) == here, holder));
        }
    }
    let is_here = found.iter().any(|(is_here, _)| *is_here);
    found.into_iter().filter(|(of, _)| *of || !is_here).map(|(_, holder)| holder).collect()
}

/// What it comes to. Pure.
pub fn of(device: &str, read: &Read) -> Behind {
    let none = Value::Null;
    let link = named(&read.links, device).unwrap_or(&none);
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, says: String| facts.insert(format!("behind.{name}"), says);
    put("device", device.to_owned());
    put("kind", kind(link));
    put("mtu", link["mtu"].to_string());
    put("moved_by", moved_by(&read.holders));
    put("queues", queues(link, &read.holders));
    put("port_of", port_of(link, &read.links));
    put("xdp", programs(link, &read.links));
    put("tc", filters(&read.filters));
    put("offloads", offloads(read.offloads.as_ref()));
    Behind { facts, learned: learned(device, read) }
}

fn kind(link: &Value) -> String {
    let info = &link["linkinfo"];
    match (text(&info["info_kind"]), text(&info["info_data"]["type"])) {
        (Some("tun"), Some(kind)) => kind.to_owned(),
        (Some(kind @ ("macvtap" | "macvlan")), _) => {
            let mode = text(&info["info_data"]["mode"]).unwrap_or("unknown");
            format!(
                "{kind}, mode {mode}, on {}",
                text(&link["link"]).unwrap_or("a device that cannot be seen from here")
            )
        }
        (Some(kind), _) => kind.to_owned(),
        (None, _) => "a device of its own driver".to_owned(),
    }
}

fn moved_by(holders: &[Holder]) -> String {
    let each = holders.iter().map(|holder| match holder.vhost {
        true => format!("the kernel's vhost, for {}", holder.name),
        false => format!("{} itself, without vhost", holder.name),
    });
    match holders {
        [] => "nobody that can be seen from here has it open".to_owned(),
        _ => each.collect::<Vec<_>>().join("; "),
    }
}

/// How many are in use, and of how many the device can have.
fn queues(link: &Value, holders: &[Holder]) -> String {
    let open: usize = holders.iter().map(|holder| holder.queues).sum();
    let info = &link["linkinfo"]["info_data"];
    let most = match info["multi_queue"].as_bool() {
        Some(false) => 1,
        _ => link["num_tx_queues"].as_u64().unwrap_or(1),
    };
    format!("{open} of {most}")
}

fn on(value: &Value) -> &'static str {
    if value.as_bool().unwrap_or(value.as_u64() == Some(1)) { "on" } else { "off" }
}

fn port_of(link: &Value, links: &[Value]) -> String {
    let (master, slave) = (text(&link["master"]), text(&link["linkinfo"]["info_slave_kind"]));
    let Some(name) = master else { return "nothing: the kernel routes, or a program hands packets on".to_owned() };
    let mut others: Vec<&str> =
        links.iter().filter(|other| other["master"] == name).filter_map(|of| text(&of["ifname"])).collect();
    others.retain(|other| Some(*other) != text(&link["ifname"]));
    let others = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
    if slave == Some("openvswitch") {
        return format!("Open vSwitch's datapath in the kernel ({name}); its other ports: {others}");
    }
    let data = named(links, name).map_or(&Value::Null, |bridge| &bridge["linkinfo"]["info_data"]);
    let own = &link["linkinfo"]["info_slave_data"];
    format!(
        "bridge {name}: STP {}, multicast snooping {}, VLAN filtering {}, ageing {} s; the port: {}, multicast flood {}, isolated {}; other ports: \
         {others}",
        on(&data["stp_state"]),
        on(&data["mcast_snooping"]),
        on(&data["vlan_filtering"]),
        data["ageing_time"].as_u64().unwrap_or(0) / 100,
        text(&own["state"]).unwrap_or("state unknown"),
        on(&own["mcast_flood"]),
        on(&own["isolated"])
    )
}

/// XDP programs on the device, and on those that it reaches without a hop.
fn programs(link: &Value, links: &[Value]) -> String {
    let is_next = |other: &&Value| {
        let both = |key: &str| text(&link[key]).is_some() && other[key] == link[key];
        other["ifname"] == link["ifname"]
            || both("master")
            || (text(&link["link"]).is_some() && other["ifname"] == link["link"])
    };
    let of = |other: &Value| {
        let all = match other["xdp"]["attached"].as_array() {
            Some(all) => all.clone(),
            None if other["xdp"].is_object() => vec![other["xdp"].clone()],
            None => Vec::new(),
        };
        let device = text(&other["ifname"]).unwrap_or_default().to_owned();
        all.into_iter().map(move |xdp| {
            let mode = match xdp["mode"].as_u64() {
                Some(1) => "in the driver",
                Some(2) => "behind the driver",
                Some(3) => "in the device",
                _ => "in an unknown mode",
            };
            let program = &xdp["prog"];
            let name = text(&program["name"]).map_or(String::new(), |name| format!(" `{name}`"));
            format!("{device}: program{name} (id {}) {mode}", program["id"])
        })
    };
    let found: Vec<String> = links.iter().filter(is_next).flat_map(of).collect();
    if found.is_empty() { "none".to_owned() } else { found.join("; ") }
}

fn filters(rows: &[Value]) -> String {
    let of = |row: &Value| {
        let options = &row["options"];
        (row["kind"] == "bpf" && options.is_object())
            .then(|| text(&options["bpf_name"]).unwrap_or("a program").to_owned())
    };
    let found: BTreeSet<String> = rows.iter().filter_map(of).collect();
    let others = rows.iter().filter(|row| row["kind"] != "bpf" && row["options"].is_object()).count();
    match (found.is_empty(), others) {
        (true, 0) => "none".to_owned(),
        (true, others) => format!("{others} filters without programs"),
        (false, _) => found.into_iter().collect::<Vec<_>>().join(", "),
    }
}

/// Those that change what a packet is on its way.
const OFFLOADS: [&str; 9] = [
    "rx-checksumming",
    "tx-checksumming",
    "scatter-gather",
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "large-receive-offload",
    "rx-vlan-offload",
    "tx-vlan-offload",
];

fn offloads(said: Option<&Value>) -> String {
    let Some(of) = said.and_then(|said| said.get(0)) else { return "ethtool does not say".to_owned() };
    let on: Vec<&str> = OFFLOADS.into_iter().filter(|name| of[*name]["active"] == true).collect();
    if on.is_empty() { "none".to_owned() } else { on.join(", ") }
}

/// What a bridge has learned at its ports, or the kernel by asking for neighbours.
fn learned(device: &str, read: &Read) -> BTreeMap<String, String> {
    let of_bridge = read
        .fdb
        .iter()
        .filter(|row| row["state"] != "permanent")
        .filter_map(|row| Some((text(&row["mac"])?, text(&row["ifname"])?)));
    let of_device = read.neighbours.iter().filter_map(|row| Some((text(&row["lladdr"])?, device)));
    of_bridge.chain(of_device).map(|(mac, at)| (mac.to_owned(), at.to_owned())).collect()
}

impl Behind {
    /// Compares it with the hardware addresses of the machine that is to be there: the facts, with
    /// what says that it is this machine.
    ///
    /// # Errors
    /// [`BehindError::Elsewhere`].
    pub fn checked<'m>(
        &self,
        station: &str,
        device: &str,
        macs: impl IntoIterator<Item = &'m str>,
    ) -> Result<BTreeMap<String, String>, BehindError> {
        let seen: Vec<(&str, &String)> =
            macs.into_iter().filter_map(|mac| Some((mac, self.learned.get(mac)?))).collect();
        let mut facts = self.facts.clone();
        let here = seen.iter().find(|(_, at)| *at == device);
        let says = match (here, seen.first()) {
            (Some((mac, _)), _) => {
                format!("the kernel has learned the machine's hardware address {mac} behind {device}")
            }
            (None, Some((mac, at))) => {
                let (station, device) = (station.to_owned(), device.to_owned());
                return Err(BehindError::Elsewhere { station, mac: (*mac).to_owned(), device, at: (*at).clone() });
            }
            (None, None) => "nothing here shows which machine is behind it".to_owned(),
        };
        facts.insert("behind.checked".to_owned(), says);
        Ok(facts)
    }
}

/// The facts as one line, for the log of a run.
pub fn in_words(facts: &BTreeMap<String, String>) -> String {
    let of = |name: &str| facts.get(&format!("behind.{name}")).map_or("unknown", String::as_str);
    format!(
        "behind {} ({}, MTU {}): packets are moved by {}; queues {}; port of {}; XDP: {}; tc: {}; offloads: {}; {}",
        of("device"),
        of("kind"),
        of("mtu"),
        of("moved_by"),
        of("queues"),
        of("port_of"),
        of("xdp"),
        of("tc"),
        of("offloads"),
        of("checked")
    )
}

/// Those of a host's facts that say what is behind its device.
pub fn facts(of: &BTreeMap<String, Figure>) -> BTreeMap<String, String> {
    let fact = |(name, says): (&String, &Figure)| match says {
        Figure::Text(says) if name.starts_with("behind.") => Some((name.clone(), says.clone())),
        _ => None,
    };
    of.iter().filter_map(fact).collect()
}
