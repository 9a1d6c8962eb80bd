// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network cards that a run may take: veth pairs in a namespace of the test's own play them.
//! Whatever happens, they are back afterwards as they were.

use crate::command::{Place, wait};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// A network namespace as the host whose cards are taken. It goes when this does.
pub struct Host {
    pub name: String,
    pub place: Place,
}

/// `ip` with these arguments, which must succeed: what it prints.
pub fn ip(args: &[&str]) -> String {
    let output = Command::new("ip").args(args).output().expect("ip is installed");
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Host {
    /// With the cards enp1s0 and enp2s0, cabled; the first has an address, an MTU and is up, the
    /// second is as it came.
    pub fn new() -> Host {
        let host = Host::empty();
        host.ip("link add enp1s0 type veth peer name enp2s0");
        host.ip("link set dev enp1s0 mtu 1400 up");
        host.ip("addr add 192.0.2.1/24 brd 192.0.2.255 dev enp1s0");
        host.ip("addr add 2001:db8::1/64 dev enp1s0 nodad");
        host
    }

    pub fn empty() -> Host {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tardytest-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        ip(&["netns", "add", &name]);
        ip(&["-n", &name, "link", "set", "dev", "lo", "up"]);
        Host { name, place: Place::new() }
    }

    /// With the cards enp1s0 and enp2s0 at a switch of such settings, and its ports too.
    pub fn switched(switch: &str, port: &str) -> Host {
        let host = Host::empty();
        host.ip(format!("link add switch0 type bridge {switch}").trim());
        for n in [1, 2] {
            host.ip(&format!("link add enp{n}s0 type veth peer name port{n}"));
            host.ip(&format!("link set dev port{n} {port}master switch0 up"));
            host.ip(&format!("link set dev enp{n}s0 up"));
        }
        host.ip("link set dev switch0 up");
        host
    }

    pub fn ip(&self, args: &str) -> String {
        let words: Vec<&str> = ["-n", &self.name].into_iter().chain(args.split(' ')).collect();
        ip(&words)
    }

    pub fn ethtool(&self, args: &str) -> String {
        let output = Command::new("ip").args(["netns", "exec", &self.name, "ethtool"]).args(args.split(' ')).output();
        let output = output.expect("ip is installed");
        assert!(output.status.success(), "ethtool {args}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Everything of its devices that a person would miss.
    pub fn devices(&self) -> Value {
        let rows: Value = serde_json::from_str(&self.ip("-j -d addr show")).expect("JSON");
        let device = |row: &Value| {
            let has = |name: &str| row["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == name));
            let addresses = row["addr_info"].as_array().into_iter().flatten();
            let address =
                |row: &Value| json!([row["local"], row["prefixlen"], row["broadcast"], row["scope"], row["label"]]);
            let mut addresses: Vec<String> = addresses.map(|row| address(row).to_string()).collect();
            addresses.sort();
            let is_set = [has("UP"), has("PROMISC"), has("ALLMULTI"), row["xdp"].is_object()];
            let counts = [&row["promiscuity"], &row["inet6_addr_gen_mode"]];
            let offloads = self.ethtool(&format!("-k {}", row["ifname"].as_str().expect("a name")));
            let offloads: Vec<&str> =
                offloads.lines().filter(|line| !line.ends_with("[fixed]")).map(str::trim).collect();
            json!([row["ifname"], row["address"], row["mtu"], is_set, counts, row["master"], addresses, offloads])
        };
        let mut devices: Vec<String> =
            rows.as_array().into_iter().flatten().map(|row| device(row).to_string()).collect();
        devices.sort();
        json!(devices)
    }

    /// All is as it was `before`; the kernel's own addresses take a moment.
    #[track_caller]
    pub fn same(&self, before: &Value) {
        wait(Duration::from_secs(10), || (self.devices() == *before).then_some(()));
        assert_eq!(self.devices(), *before);
        let names = ip(&["netns"]);
        let names = names.lines().filter_map(|line| line.split(' ').next());
        let left: Vec<&str> = names.filter(|name| self.is_home(name)).collect();
        assert!(left.is_empty(), "namespaces are left: {left:?}");
    }

    /// The name under which a run keeps this host as the home of its devices.
    pub fn is_home(&self, name: &str) -> bool {
        let inode = |name: &str| std::fs::metadata(Path::new("/run/netns").join(name)).map(|file| file.ino()).ok();
        name.ends_with("-_home") && inode(name) == inode(&self.name)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}
