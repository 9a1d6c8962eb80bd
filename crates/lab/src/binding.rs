// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which of the kernel's drivers has a PCI function: how a function comes to vfio-pci, by which a
//! program may give it to a virtual machine, and how it goes back to what it had. Pure: the scripts
//! look by themselves for what is done already, and use a shell's own words alone, for a guest has
//! few programs.

use serde::{Deserialize, Serialize};

/// The driver that leaves a function to a program.
pub const VFIO: &str = "vfio-pci";
/// Where the kernel shows its functions and their drivers.
pub const PCI: &str = "/sys/bus/pci";

/// A network device as it was before its function was bound to another driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkWas {
    pub name: String,
    /// Greatest IP packet, bytes.
    pub mtu: u32,
    /// It was set up.
    pub up: bool,
}

/// A PCI function that was bound to vfio-pci, and what it had before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionWas {
    /// Domain, bus, slot and function: `0000:00:04.0`.
    pub address: String,
    /// `None` of a virtual function that was made for the run: no driver had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Which driver it was to have instead of the one that its numbers say, if one was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_override: Option<String>,
    /// Its network device; `None` if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkWas>,
}

/// A PCI function that was made to have a virtual function. It had none before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SriovWas {
    /// Of the physical function.
    pub address: String,
    /// The driver looked at new virtual functions by itself (`sriov_drivers_autoprobe`).
    pub autoprobe: bool,
    pub link: LinkWas,
}

/// A script that changes nothing, and fails where the function is gone. What comes before a script
/// of several actions: if that one fails, some of them may be done.
pub fn look(address: &str) -> String {
    format!("[ -e {PCI}/devices/{address} ] || {{ echo 'there is no function {address} any more' >&2; exit 1; }}")
}

/// A script that changes nothing, and fails where the function is gone or has virtual functions:
/// those are somebody else's.
pub fn look_for_vfs(address: &str) -> String {
    format!(
        "read -r has <{PCI}/devices/{address}/sriov_numvfs && {{ [ \"$has\" = 0 ] || {{ echo \"{address} has $has virtual functions by now\" >&2; \
         exit 1; }}; }}"
    )
}

/// A script that binds the function to vfio-pci, and fails if it is not bound then.
pub fn bind(address: &str) -> String {
    format!(
        "cd {PCI}/devices/{address} && echo {VFIO} >driver_override && {{ [ ! -e driver ] || echo {address} >driver/unbind; }} && echo {address} \
         >{PCI}/drivers_probe && {{ [ -e {PCI}/drivers/{VFIO}/{address} ] || {{ echo 'driver {VFIO} did not take {address}' >&2; exit 1; }}; }}"
    )
}

/// A script that makes one virtual function, which no driver takes, with this hardware address.
pub fn make_vf(address: &str, link: &str, mac: &str) -> String {
    format!(
        "cd {PCI}/devices/{address} && echo 0 >sriov_drivers_autoprobe && echo 1 >sriov_numvfs && ip link set dev {link} up && \
         ip link set dev {link} vf 0 mac {mac}"
    )
}

impl FunctionWas {
    /// A script that gives the function back to its driver.
    pub fn give_back(&self) -> String {
        let FunctionWas { address, driver, driver_override, link } = self;
        let instead = driver_override.as_deref().unwrap_or_default();
        let mut script = format!(
            "[ ! -e {PCI}/devices/{address} ] || {{ cd {PCI}/devices/{address} && {{ [ ! -e {PCI}/drivers/{VFIO}/{address} ] || echo {address} \
             >{PCI}/drivers/{VFIO}/unbind; }} && echo {instead} >driver_override"
        );
        if let Some(driver) = driver {
            let bound = format!("{PCI}/drivers/{driver}/{address}");
            script += &format!(" && {{ [ -e {bound} ] || echo {address} >{PCI}/drivers/{driver}/bind; }}");
        }
        if let Some(LinkWas { name, mtu, up }) = link {
            // The kernel may call it otherwise than whoever gave it its name.
            let state = if *up { "up" } else { "down" };
            script += &format!(
                " && set -- net/* && {{ [ $# -ne 1 ] || [ \"${{1#net/}}\" = {name} ] || ip link set dev \"${{1#net/}}\" name {name}; }} && \
                 ip link set dev {name} mtu {mtu} {state}"
            );
        }
        script + "; }"
    }

    /// What is wrong with its values, if something is. The link's name is checked with the names
    /// of other devices.
    pub fn fault(&self) -> Option<String> {
        let drivers = self.driver.iter().chain(&self.driver_override);
        of_address(&self.address).or_else(|| drivers.into_iter().find_map(|driver| of_driver(driver)))
    }
}

impl SriovWas {
    /// A script that takes the virtual function away.
    pub fn give_back(&self) -> String {
        let SriovWas { address, autoprobe, link: LinkWas { name, mtu, up } } = self;
        let (state, autoprobe) = (if *up { "up" } else { "down" }, u8::from(*autoprobe));
        format!(
            "cd {PCI}/devices/{address} && echo 0 >sriov_numvfs && echo {autoprobe} >sriov_drivers_autoprobe && ip link set dev {name} mtu {mtu} {state}"
        )
    }

    /// What is wrong with its address, if something is.
    pub fn fault(&self) -> Option<String> {
        of_address(&self.address)
    }
}

/// The address of a function's first virtual function, by where the capability says that it is
/// (`sriov_offset`, PCI Express Base Specification, 9.3.3.8). `None` if the address is none.
pub fn first_vf(address: &str, offset: u32) -> Option<String> {
    let (domain, rest) = address.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (slot, function) = rest.split_once('.')?;
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let routing = (number(bus)? << 8 | number(slot)? << 3 | number(function)?) + offset;
    Some(format!("{domain}:{:02x}:{:02x}.{}", routing >> 8, routing >> 3 & 0x1f, routing & 7))
}

fn of_address(address: &str) -> Option<String> {
    let hex = |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts: Vec<&str> = address.split(':').collect();
    let is_function = |of: &str| of.split_once('.').is_some_and(|(slot, number)| hex(slot, 2) && hex(number, 1));
    let is_one = matches!(parts[..], [domain, bus, function]
        if (4..=8).contains(&domain.len()) && hex(domain, domain.len()) && hex(bus, 2) && is_function(function));
    (!is_one).then(|| format!("`{address}` is no address of a PCI function"))
}

fn of_driver(driver: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let is_one = (1..64).contains(&driver.len()) && driver.chars().all(plain);
    (!is_one).then(|| format!("`{driver}` is no name of a driver"))
}
