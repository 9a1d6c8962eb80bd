// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network device of this host before it is taken for a path: what it is, what it is used for,
//! what would be lost if it went to another network namespace, and what it must have again when it
//! comes back.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::process::Command;
use tardy_model::verdict::Figure;
use tardy_sys::hwtstamp::{self, HwStamp};
use tardy_sys::nic::{self, Feature, TsInfo};
use thiserror::Error;

/// An address that the device has, as words for `ip addr replace`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// Address and length of the prefix: `192.168.7.1/24`.
    pub cidr: String,
    /// What goes with it: `brd …`, `scope …`, `label …`.
    pub with: Vec<String>,
}

/// Features of a device that paths switch off, or that the kernel switches off for them, by the
/// kernel's names: what leaves a part of a packet to the hardware, or puts packets together.
pub const OFFLOADS: [&str; 16] = [
    "tx-checksum-ipv4",
    "tx-checksum-ip-generic",
    "tx-checksum-ipv6",
    "tx-checksum-fcoe-crc",
    "tx-checksum-sctp",
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp-accecn-segmentation",
    "tx-tcp6-segmentation",
    "tx-generic-segmentation",
    "tx-vlan-hw-insert",
    "rx-vlan-hw-parse",
    "rx-gro",
    "rx-gro-hw",
    "rx-lro",
];

/// How many transmit queues a device of this namespace has; `None` where sysfs does not say.
pub fn tx_queues(device: &str) -> Option<u32> {
    let queues = fs::read_dir(format!("/sys/class/net/{device}/queues")).ok()?;
    let named = queues.filter_map(Result::ok).filter(|entry| entry.file_name().to_string_lossy().starts_with("tx-"));
    Some(named.count() as u32)
}

/// A device as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Its name; what was asked for may be another of its names.
    pub name: String,
    /// Its number in the network namespace where it was found.
    pub ifindex: u32,
    pub mac: String,
    /// Greatest IP packet, bytes.
    pub mtu: u32,
    /// The least and the greatest MTU that it takes; `None` where it does not say.
    pub mtu_range: Option<(u32, u32)>,
    /// The most that TCP hands over to it at once, bytes.
    pub gso_max_size: Option<u32>,
    /// It was set up (IFF_UP).
    pub up: bool,
    /// Somebody set it to receive what is for other addresses (IFF_PROMISC). What the kernel itself
    /// needs of that, as for a port of a bridge, does not count.
    pub promisc: bool,
    /// Those of [`OFFLOADS`] that can be switched, and whether they were switched on.
    pub offloads: BTreeMap<String, bool>,
    /// How its IPv6 link-local address comes about; `None` without IPv6.
    pub addr_gen_mode: Option<String>,
    /// Addresses to give back, in their order. Those that the kernel makes by itself are not among
    /// them.
    pub addresses: Vec<Address>,
    /// Why it must not be taken, the most severe reason first.
    pub uses: Vec<Use>,
    /// The kind of a virtual device, which goes when its namespace does; `None` for a physical one.
    pub kind: Option<String>,
    pub driver: Option<String>,
    /// Speed of its link, Mbit/s.
    pub speed_mbit: Option<i64>,
    /// The kernel's word for the state of its link.
    pub link: String,
    /// Whether it is set to take queue disciplines over (`hw-tc-offload`), and may be; `None`
    /// where it does not say.
    pub tc_offload: Option<Feature>,
    /// Whether its interrupts stay off while a thread polls it (`napi_defer_hard_irqs` and
    /// `gro_flush_timeout` are set); `None` where the kernel does not say.
    pub defers_interrupts: Option<bool>,
    /// What it can stamp; else why that is not known.
    pub can: Result<TsInfo, String>,
    /// What it is set to stamp; else why that is not known.
    pub stamps: Result<HwStamp, String>,
}

/// What a device is used for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Use {
    /// It is the loopback.
    Loopback,
    /// The default route goes through it.
    DefaultRoute,
    /// It is a port of this bridge, bond or the like.
    Port(String),
    /// These devices are built on it.
    Under(Vec<String>),
    /// An XDP program is attached to it.
    Xdp,
    /// An address that was leased or announced to it, and so cannot be given back.
    Leased(String),
    /// A route through it.
    Route(String),
    /// A queue discipline that someone set.
    Qdisc(String),
    /// Addresses: those can be given back.
    Addresses(Vec<String>),
}

impl Use {
    /// What it is, and what can be done.
    fn says(&self, device: &str) -> (String, String) {
        match self {
            Use::Loopback => ("is the loopback".into(), "name a network card".into()),
            Use::DefaultRoute => (
                "carries the default route: without it this machine may be cut off".into(),
                "name a device that is not in use".into(),
            ),
            Use::Port(master) => {
                (format!("is a port of `{master}`"), format!("take it out: ip link set dev {device} nomaster"))
            }
            Use::Under(uppers) => {
                (format!("carries {}", uppers.join(", ")), format!("delete them first: ip link del dev {}", uppers[0]))
            }
            Use::Xdp => ("has an XDP program".into(), format!("take it off first: ip link set dev {device} xdp off")),
            Use::Leased(address) => (
                format!("has the address {address}, which was leased or announced to it and cannot be given back"),
                format!("let go of it first (stop its DHCP client, or ip addr del {address} dev {device})"),
            ),
            Use::Route(to) => (
                format!("carries the route to {to}, which would be lost"),
                format!("delete it first: ip route del {to} dev {device}"),
            ),
            Use::Qdisc(kind) => (
                format!("has the queue discipline `{kind}`, which would be lost"),
                match kind.as_str() {
                    "clsact" | "ingress" => format!("delete it first: tc qdisc del dev {device} {kind}"),
                    _ => format!("delete it first: tc qdisc del dev {device} root"),
                },
            ),
            Use::Addresses(all) => (
                format!("has the address {}", all.join(" and ")),
                "if nothing needs it, write take = true: it is given back afterwards".into(),
            ),
        }
    }
}

/// A device that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NicError {
    /// There is none of that name.
    #[error("there is no network device `{device}` in this network namespace: {}", there(.known))]
    Missing {
        /// What was asked for.
        device: String,
        known: Vec<String>,
    },
    /// It is in use.
    #[error("`{device}` {}: {}", .by.says(.device).0, .by.says(.device).1)]
    InUse { device: String, by: Use },
    /// The packets of the path do not fit it.
    #[error("`{device}` takes an MTU from {least} to {most}, and path.mtu is {mtu}: write one that it takes")]
    Mtu {
        device: String,
        /// What was asked for.
        mtu: u32,
        least: u32,
        most: u32,
    },
    /// What it is used for is not known.
    #[error("what `{device}` is used for cannot be read: `{command}`: {says}")]
    Unread { device: String, command: String, says: String },
}

fn there(known: &[String]) -> String {
    match known {
        [] => "there is none but the loopback".to_owned(),
        known => format!("name one of {}", known.join(", ")),
    }
}

impl Nic {
    /// Whether the device may be taken, for packets of `mtu` bytes; with `take` also if it has
    /// addresses.
    ///
    /// # Errors
    /// The most severe reason against it.
    pub fn may_be_taken(&self, mtu: u32, take: bool) -> Result<(), NicError> {
        let device = self.name.clone();
        let against = self.uses.iter().find(|by| !(take && matches!(by, Use::Addresses(_))));
        if let Some(by) = against.cloned() {
            return Err(NicError::InUse { device, by });
        }
        match self.mtu_range.filter(|(least, most)| !(*least..=*most).contains(&mtu)) {
            Some((least, most)) => Err(NicError::Mtu { device, mtu, least, most }),
            None => Ok(()),
        }
    }

    /// Facts for the manifest, under `nic.<name>.`.
    pub fn facts(&self) -> BTreeMap<String, Figure> {
        let mut facts = BTreeMap::new();
        let mut put = |field: &str, value: Figure| facts.insert(format!("nic.{}.{field}", self.name), value);
        put("mac", Figure::from(self.mac.as_str()));
        put("link", Figure::from(self.link.as_str()));
        put("kind", Figure::from(self.kind.as_deref().unwrap_or("physical")));
        if let Some(driver) = &self.driver {
            put("driver", Figure::from(driver.as_str()));
        }
        if let Some(speed) = self.speed_mbit {
            put("speed_mbit_s", Figure::from(speed));
        }
        if let Some(feature) = &self.tc_offload {
            let fixed = if feature.switchable { "" } else { ", fixed" };
            put("hw_tc_offload", Figure::from(format!("{}{fixed}", if feature.on { "on" } else { "off" })));
        }
        match &self.can {
            Ok(can) => {
                put("stamping", Figure::from(format!("{:#x}", can.flags)));
                put("ptp_clock", Figure::from(i64::from(can.phc)));
            }
            Err(why) => _ = put("stamping", Figure::from(why.as_str())),
        }
        match &self.stamps {
            Ok(set) => put("hwtstamp", Figure::from(set.to_string())),
            Err(why) => put("hwtstamp", Figure::from(why.as_str())),
        };
        facts
    }
}

/// Reads the device of this name in the network namespace of the calling thread.
///
/// # Errors
/// If there is none, or `ip` and `tc` do not report what it is used for.
pub fn read(device: &str) -> Result<Nic, NicError> {
    let ask = |program: &str, args: &[&str]| {
        let unread = |says: String| NicError::Unread {
            device: device.to_owned(),
            command: format!("{program} {}", args.join(" ")),
            says,
        };
        let output = match Command::new(program).args(args).env("LC_ALL", "C").output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(unread("the program is not installed: apt install iproute2".to_owned()));
            }
            other => other.map_err(|error| unread(error.to_string()))?,
        };
        if !output.status.success() {
            return Err(unread(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        match output.stdout.trim_ascii() {
            // A list without entries may be nothing at all.
            b"" => Ok(Value::Array(Vec::new())),
            json => serde_json::from_slice(json).map_err(|error| unread(error.to_string())),
        }
    };
    let links = ask("ip", &["-j", "-d", "link", "show"])?;
    let found = NicTables {
        addresses: ask("ip", &["-j", "addr", "show"])?,
        routes: ask("ip", &["-j", "route", "show", "table", "all"])?,
        qdiscs: ask("tc", &["-j", "qdisc", "show"])?,
        links,
    };
    let mut nic = found.nic(device)?;
    let name = nic.name.clone();
    nic.driver = nic::driver(&name).ok();
    nic.speed_mbit = fs::read_to_string(format!("/sys/class/net/{name}/speed"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .filter(|speed| *speed > 0);
    let asked = |feature: &str| nic::asked_of_feature(&name, feature).ok().flatten();
    nic.offloads = OFFLOADS.into_iter().filter_map(|of| Some((of.to_owned(), asked(of)?))).collect();
    nic.tc_offload = nic::feature(&name, "hw-tc-offload").ok().flatten();
    let set = |what: &str| Some(fs::read_to_string(format!("/sys/class/net/{name}/{what}")).ok()?.trim() != "0");
    nic.defers_interrupts =
        set("napi_defer_hard_irqs").zip(set("gro_flush_timeout")).map(|(irqs, flush)| irqs && flush);
    nic.can = nic::ts_info(&name).map_err(|error| error.to_string());
    nic.stamps = hwtstamp::read(&name).map_err(|error| error.to_string());
    Ok(nic)
}

/// An address, and the device that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Had {
    pub address: IpAddr,
    pub device: String,
    /// The device's hardware address.
    pub mac: String,
    /// Its greatest IP packet, bytes; 0 where that is not reported.
    pub mtu: u32,
}

/// Each address of the calling thread's network namespace. Nothing where `ip` does not report
/// them.
pub fn addresses() -> Vec<Had> {
    let output = Command::new("ip").args(["-j", "addr", "show", "up"]).env("LC_ALL", "C").output();
    let rows = output.ok().and_then(|output| serde_json::from_slice::<Value>(&output.stdout).ok()).unwrap_or_default();
    addresses_in(&rows)
}

/// The same out of what `ip -j addr show` printed.
pub fn addresses_in(rows: &Value) -> Vec<Had> {
    let of = |row: &Value| {
        let (device, mac) = (text(row, "ifname"), text(row, "address"));
        let mtu = row["mtu"].as_u64().and_then(|mtu| u32::try_from(mtu).ok()).unwrap_or(0);
        let local = items(&row["addr_info"]).filter_map(|of| of["local"].as_str()?.parse().ok());
        local.map(|address| Had { address, device: device.clone(), mac: mac.clone(), mtu }).collect::<Vec<_>>()
    };
    items(rows).flat_map(of).collect()
}

/// What `ip -j` and `tc -j` reported about all devices.
#[derive(Clone, Debug)]
pub struct NicTables {
    /// `ip -j -d link show`.
    pub links: Value,
    /// `ip -j addr show`.
    pub addresses: Value,
    /// `ip -j route show table all`.
    pub routes: Value,
    /// `tc -j qdisc show`.
    pub qdiscs: Value,
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(of: &Value, key: &str) -> String {
    of[key].as_str().unwrap_or_default().to_owned()
}

impl NicTables {
    /// One device out of it; driver and stamping are not known from here.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn nic(&self, device: &str) -> Result<Nic, NicError> {
        let is_it = |link: &&Value| {
            link["ifname"] == device || items(&link["altnames"]).any(|name| name.as_str() == Some(device))
        };
        let Some(link) = items(&self.links).find(is_it) else {
            let loopback = |link: &&Value| link["link_type"] == "loopback";
            let others = items(&self.links).filter(|link| !loopback(link));
            let mut known: Vec<String> = others.map(|link| text(link, "ifname")).collect();
            known.sort();
            return Err(NicError::Missing { device: device.to_owned(), known });
        };
        let name = text(link, "ifname");
        let number = |key: &str| link[key].as_u64().and_then(|number| u32::try_from(number).ok());
        let mac = text(link, "address");
        let rows: Vec<&Value> = items(&self.addresses)
            .filter(|row| row["ifname"] == name.as_str())
            .flat_map(|row| items(&row["addr_info"]))
            .filter(|row| row["local"].is_string())
            .collect();
        let own = own_link_local(&mac);
        let given: Vec<&Value> =
            rows.iter().copied().filter(|row| Some(text(row, "local")) != own.map(|own| own.to_string())).collect();
        let has_flag = |name: &str| items(&link["flags"]).any(|flag| flag == name);
        Ok(Nic {
            ifindex: number("ifindex").unwrap_or_default(),
            mtu: number("mtu").unwrap_or_default(),
            // 0 is a driver that sets no limit.
            mtu_range: number("max_mtu").filter(|most| *most > 0).map(|most| (number("min_mtu").unwrap_or(0), most)),
            gso_max_size: number("gso_max_size"),
            up: has_flag("UP"),
            promisc: has_flag("PROMISC"),
            offloads: BTreeMap::new(),
            addr_gen_mode: link["inet6_addr_gen_mode"].as_str().map(str::to_owned),
            addresses: given.iter().map(|row| address(row)).collect(),
            uses: self.uses(link, &name, &given),
            kind: link["linkinfo"]["info_kind"].as_str().map(str::to_owned),
            driver: None,
            speed_mbit: None,
            link: text(link, "operstate").to_lowercase(),
            tc_offload: None,
            defers_interrupts: None,
            can: Err("not asked".to_owned()),
            stamps: Err("not asked".to_owned()),
            name,
            mac,
        })
    }

    fn uses(&self, link: &Value, name: &str, addresses: &[&Value]) -> Vec<Use> {
        let mut uses = Vec::new();
        if link["link_type"] == "loopback" {
            uses.push(Use::Loopback);
        }
        let through = |route: &&Value| {
            route["dev"] == name || items(&route["nexthops"]).any(|hop| hop["dev"].as_str() == Some(name))
        };
        // What the kernel made for an address comes back with it.
        let routes: Vec<String> = items(&self.routes)
            .filter(through)
            .filter(|route| route["protocol"] != "kernel" && route["table"] != "local")
            .map(|route| text(route, "dst"))
            .collect();
        if routes.iter().any(|to| to == "default") {
            uses.push(Use::DefaultRoute);
        }
        uses.extend(link["master"].as_str().map(|master| Use::Port(master.to_owned())));
        // The other end of a veth pair names this one too, and is not built on it.
        let stands = |other: &&Value| other["link"] == name && other["linkinfo"]["info_kind"] != "veth";
        let uppers: Vec<String> = items(&self.links)
            .filter(|other| stands(other) || other["master"] == name)
            .map(|other| text(other, "ifname"))
            .collect();
        if !uppers.is_empty() {
            uses.push(Use::Under(uppers));
        }
        if link["xdp"].is_object() {
            uses.push(Use::Xdp);
        }
        let leased = addresses.iter().find(|row| row["dynamic"] == true);
        uses.extend(leased.map(|row| Use::Leased(cidr(row))));
        uses.extend(routes.into_iter().find(|to| to != "default").map(Use::Route));
        // The kernel's own have no handle, and come back by themselves.
        let set = items(&self.qdiscs).find(|qdisc| qdisc["dev"] == name && qdisc["handle"] != "0:");
        uses.extend(set.map(|qdisc| Use::Qdisc(text(qdisc, "kind"))));
        let global: Vec<String> = addresses.iter().filter(|row| row["scope"] != "link").map(|row| cidr(row)).collect();
        if !global.is_empty() {
            uses.push(Use::Addresses(global));
        }
        uses
    }
}

fn cidr(row: &Value) -> String {
    format!("{}/{}", text(row, "local"), row["prefixlen"])
}

fn address(row: &Value) -> Address {
    let mut with = Vec::new();
    // Of two ends the prefix belongs to the other one.
    let (cidr, peer) = match row["address"].as_str() {
        Some(peer) => (text(row, "local"), Some(format!("{peer}/{}", row["prefixlen"]))),
        None => (cidr(row), None),
    };
    with.extend(peer.into_iter().flat_map(|peer| ["peer".to_owned(), peer]));
    for (key, word) in [("broadcast", "brd"), ("label", "label"), ("scope", "scope")] {
        if let Some(value) = row[key].as_str().filter(|value| *value != "global") {
            with.extend([word.to_owned(), value.to_owned()]);
        }
    }
    if let Some(metric) = row["metric"].as_u64() {
        with.extend(["metric".to_owned(), metric.to_string()]);
    }
    with.extend(["nodad", "noprefixroute", "home"].iter().filter(|flag| row[**flag] == true).map(|f| (*f).to_owned()));
    Address { cidr, with }
}

/// The IPv6 link-local address that the kernel makes of a MAC address (RFC 4291, appendix A).
fn own_link_local(mac: &str) -> Option<std::net::Ipv6Addr> {
    let bytes: Vec<u8> = mac.split(':').map_while(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    let [a, b, c, d, e, f] = bytes[..] else { return None };
    let word = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    Some(std::net::Ipv6Addr::new(0xfe80, 0, 0, 0, word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f)))
}
