// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the client goes to another machine, as its configuration says (`ssh -G`): to which host
//! first, and by which network devices of this machine. The other machine knows this one only as it
//! sees it, which behind an address translation or a jump host is not how this one calls itself.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::process::{Command, Stdio};

/// A jump host may be reached by another one, and that by a third one.
const MOST_JUMPS: usize = 8;
/// A VLAN over a bond over devices, and one more.
const MOST_LOWER: usize = 4;

/// The settings that the client has for a machine: what `ssh -G` prints, a line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(String);

/// Which host the client itself connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// By this name or address.
    Host(String),
    /// By a jump host, as the configuration names it.
    Jump(String),
    /// A program carries the bytes (ProxyCommand), wherever it goes.
    Unknown,
}

impl Settings {
    /// Asks the client; nothing where it does not answer.
    pub fn of(client: &[String], to: &str) -> Settings {
        let words = client.iter().skip(1).map(String::as_str).chain(["-G", "--", to]);
        let client = client.first().map_or("ssh", String::as_str);
        let output = Command::new(client).args(words).stdin(Stdio::null()).stderr(Stdio::null()).output();
        Settings(output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default())
    }

    /// From what it prints.
    pub fn read(text: &str) -> Settings {
        Settings(text.to_owned())
    }

    /// A setting; `None` of one that the client does not know, or that is not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        let of = |line: &'_ str| line.split_once(' ').filter(|(key, _)| key.eq_ignore_ascii_case(name)).is_some();
        let line = self.0.lines().find(|line| of(line))?;
        line.split_once(' ').map(|(_, value)| value.trim()).filter(|value| !value.is_empty() && *value != "none")
    }

    /// True if the client knows this setting, whatever it is set to.
    pub fn knows(&self, name: &str) -> bool {
        self.0.lines().any(|line| line.split(' ').next().is_some_and(|key| key.eq_ignore_ascii_case(name)))
    }

    /// Where the client goes first.
    pub fn first(&self) -> First {
        if let Some(jump) = self.get("proxyjump") {
            let first = jump.split(',').next().unwrap_or(jump).trim();
            // What has a port is a destination only as a URI.
            let uri = if first.starts_with("ssh://") { first.to_owned() } else { format!("ssh://{first}") };
            return First::Jump(uri);
        }
        match (self.get("proxycommand"), self.get("hostname")) {
            (None, Some(host)) => First::Host(host.to_owned()),
            _ => First::Unknown,
        }
    }

    /// The addresses of the host that the configuration names.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.get("hostname").map(addresses_of).unwrap_or_default()
    }
}

fn addresses_of(name: &str) -> Vec<IpAddr> {
    (name, 0).to_socket_addrs().map(|all| all.map(|of| of.ip()).collect()).unwrap_or_default()
}

/// The network devices of this machine by which the client goes to another one, and those below
/// them. `None` where that cannot be found out.
pub fn devices(client: &[String], settings: &Settings) -> Option<BTreeSet<String>> {
    let mut settings = settings.clone();
    let mut host = None;
    for _ in 0..MOST_JUMPS {
        match settings.first() {
            First::Host(name) => {
                host = Some(name);
                break;
            }
            First::Jump(to) => settings = Settings::of(client, &to),
            First::Unknown => return None,
        }
    }
    // A name may have several addresses, and the client takes the first one that answers.
    let by: Option<BTreeSet<String>> = addresses_of(&host?).into_iter().map(device_to).collect();
    let by = by.filter(|by| !by.is_empty())?;
    Some(with_lower(by, &links()?))
}

/// What `ip` prints as JSON.
fn ip(words: &[&str]) -> Option<Vec<serde_json::Value>> {
    let output = Command::new("ip").arg("-j").args(words).stdin(Stdio::null()).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

fn device_to(address: IpAddr) -> Option<String> {
    let route = ip(&["route", "get", &address.to_string()])?;
    route.first()?["dev"].as_str().map(str::to_owned)
}

/// A device of this machine and one that is below it.
type Lower = (String, String);

fn links() -> Option<Vec<Lower>> {
    let links = ip(&["link", "show"])?;
    let name = |link: &serde_json::Value, of: &str| link[of].as_str().map(str::to_owned);
    let of = |link: &serde_json::Value| {
        let own = name(link, "ifname");
        // A VLAN has the device that it is on, and a port of a bridge or bond has that.
        let on = own.clone().zip(name(link, "link"));
        [on, name(link, "master").zip(own)]
    };
    Some(links.iter().flat_map(of).flatten().collect())
}

/// These devices and all below them.
pub fn with_lower(mut by: BTreeSet<String>, all: &[(String, String)]) -> BTreeSet<String> {
    for _ in 0..MOST_LOWER {
        let lower: Vec<String> =
            all.iter().filter(|(upper, _)| by.contains(upper)).map(|(_, lower)| lower.clone()).collect();
        by.extend(lower);
    }
    by
}
