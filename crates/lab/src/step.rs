// SPDX-License-Identifier: MIT OR Apache-2.0
//! The least thing that is done to a host and put back as one, as a value. A plan holds steps, a
//! host carries them out, and they can be sent to a host elsewhere.
//!
//! How a step is taken back is data too: where, what, and the value that was there before. The
//! journal stores this and never a command, so a journal can ask for nothing that is not in the
//! list of actions. The commands are made when they are needed, by the version that runs them.

use crate::binding::{FunctionWas, SriovWas};
use crate::command::{Command, OURSELVES};
use crate::guest::folder::{OF_MACHINE, PASSING};
use crate::host::HostId;
use crate::host::place::Place;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use tardy_host::change::{Change, DeviceChange, FileChange, ThreadChange};
use tardy_host::nic::Address;
use tardy_model::manifest::QdiscsOf;
use tardy_sys::proc::BPF_JIT;

/// A text that this program is built with, or that came from another host.
pub type Text = Cow<'static, str>;

/// The least thing that is done and put back as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Where: its host carries it out. The commands name the namespace themselves, and some
    /// concern more than one.
    pub place: Place,
    /// What is done, in this order.
    pub does: Vec<Command>,
    /// What takes it back, in this order; empty where it goes away with what an earlier step made.
    pub undoes: Vec<Inverse>,
    /// What it is for.
    pub why: Text,
    /// A complaint with one of these texts is no failure: what was to be switched off is not there.
    pub tolerates: Cow<'static, [Text]>,
}

impl Step {
    /// A step that is done by these commands, for this purpose. It needs no inverse and tolerates
    /// no complaint.
    pub fn new(place: &Place, why: &'static str, does: Vec<Command>) -> Step {
        Step { place: place.clone(), does, undoes: Vec::new(), why: why.into(), tolerates: Cow::Borrowed(&[]) }
    }

    /// The same, taken back by these.
    #[must_use]
    pub fn undone_by(self, undoes: Vec<Inverse>) -> Step {
        Step { undoes, ..self }
    }

    /// The same, with complaints that are no failure.
    #[must_use]
    pub fn tolerating(self, complaints: &'static [Text]) -> Step {
        Step { tolerates: complaints.into(), ..self }
    }
}

/// A command that changes nothing and prints JSON, and the host whose kernel it asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub host: HostId,
    pub command: Command,
    /// Whose queue disciplines it asks for; `None` if it asks for something else.
    pub qdiscs_of: Option<QdiscsOf>,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command.fmt(f)
    }
}

impl Question {
    /// A question to the host of a place.
    pub fn at(place: &Place, command: Command) -> Question {
        Question { host: place.host, command, qdiscs_of: None }
    }

    /// The same, as one for the queue disciplines of this end.
    #[must_use]
    pub fn for_qdiscs_of(self, end: QdiscsOf) -> Question {
        Question { qdiscs_of: Some(end), ..self }
    }
}

/// The bus of simulated devices, and how it names them.
pub const SIMULATED_BUS: &str = "/sys/bus/netdevsim";
/// The driver of simulated devices, as it calls itself.
pub const SIMULATED: &str = "netdevsim";
/// Every namespace that tardy makes is called so.
const OURS: &str = "tardy-";

/// What a network device had before it was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicWas {
    /// Greatest IP packet, bytes.
    pub mtu: u32,
    /// It was set up.
    pub up: bool,
    /// How its IPv6 link-local address came about; `None` without IPv6, or where it cannot be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addr_gen_mode: Option<String>,
    /// Its addresses, in their order.
    pub addresses: Vec<Address>,
    /// It was set to receive what is for other addresses; `None` where no path changes that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promisc: Option<bool>,
    /// Features that were on or off, by the kernel's names, of those that a path may have changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub offloads: BTreeMap<String, bool>,
}

/// What a device was set to stamp (`struct hwtstamp_config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StampingWas {
    /// HWTSTAMP_TX_*: which packets that leave are stamped.
    pub tx: i32,
    /// HWTSTAMP_FILTER_*: which packets that arrive are stamped.
    pub rx: i32,
    /// HWTSTAMP_FLAG_* bits, 0 on most devices.
    pub flags: i32,
}

/// A network device that was taken. Its name may be changed by others while it is away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakenNic {
    /// Its name when it was taken.
    pub device: String,
    /// Its number then. A move keeps it unless it is taken where the device goes.
    pub ifindex: u32,
    /// Its MAC address, which no run changes.
    pub mac: String,
    /// The namespace that it goes back to.
    pub to: String,
    pub was: NicWas,
}

/// What is done to take a change back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Deletes a network namespace that the run made or named.
    DeleteNamespace { name: String },
    /// Deletes a link that the run made.
    DeleteLink { device: String },
    /// Deletes a datapath of Open vSwitch that the run made, which lets go of its ports.
    DeleteDatapath { name: String },
    /// Moves a link that the run made back, into the namespace that it came from.
    ReturnLink { device: String, to: String },
    /// Moves a link that the run made back, under the name that it had there.
    ReturnRenamed { device: String, to: String, called: String },
    /// Takes from a link that the run made, or that a virtual machine of the run has, what a path
    /// gave it: it is down then, without addresses and neighbours.
    ClearLink { device: String },
    /// Gives a network device back, from the station's namespace to where it was.
    GiveBackNic(Box<TakenNic>),
    /// Deletes a queue discipline; the kernel then sets its own.
    DeleteQdisc { device: String },
    /// Sets again what a device stamped.
    RestoreStamping {
        device: String,
        /// Where it is looked for if it has left the station already.
        or_in: String,
        /// What it was set to.
        was: StampingWas,
    },
    /// Switches on again what a virtual machine's device does for its packets, as a machine of the
    /// run comes.
    SwitchOffloadsOn { device: String },
    /// Sets again which CPUs may take an interrupt.
    RestoreIrq {
        /// Its number in this boot.
        irq: u32,
        was: String,
    },
    /// Sets again whether the kernel compiles BPF programs as it loads them.
    RestoreBpfJit { was: u8 },
    /// Sets a file of the kernel's as it was before the doctor set it.
    RestoreFile(FileChange),
    /// Sets a network device as it was before the doctor set it.
    RestoreDevice(DeviceChange),
    /// Has a thread run where it might before the doctor moved it.
    RestoreThread(ThreadChange),
    /// Sets again which CPUs a receive queue steers packets to.
    RestoreSteering {
        device: String,
        /// Its name in sysfs: `rx-0`.
        queue: String,
        was: String,
    },
    /// Lets the threads of a virtual machine, which QEMU runs in this namespace, use all these
    /// CPUs again, under the kernel's ordinary policy.
    FreeMachineThreads {
        /// As `taskset` writes them.
        cpus: String,
    },
    /// Deletes a rule that sends packets into a receive queue.
    DeleteRule {
        device: String,
        /// Where the rule is in the device's table.
        location: u32,
    },
    /// Deletes a simulated device.
    DeleteSimulated {
        /// Its number on the bus.
        number: u32,
    },
    /// Gives a PCI function back to the driver that it had, and its network device the name and
    /// state.
    GiveBackFunction(Box<FunctionWas>),
    /// Deletes the virtual functions of a device that had none.
    DeleteVirtualFunctions(Box<SriovWas>),
    /// Removes what only passed through a guest's folder.
    RemoveGuestFiles {
        /// Files and folders, absolute.
        paths: Vec<String>,
    },
}

impl Action {
    /// What takes a change of the doctor's back.
    pub fn of(change: Change) -> Action {
        match change {
            Change::File(of) => Action::RestoreFile(of),
            Change::Device(of) => Action::RestoreDevice(of),
            Change::Thread(of) => Action::RestoreThread(of),
        }
    }

    /// The change of the doctor's that it takes back, if it does.
    pub fn change(&self) -> Option<Change> {
        match self {
            Action::RestoreFile(of) => Some(Change::File(of.clone())),
            Action::RestoreDevice(of) => Some(Change::Device(of.clone())),
            Action::RestoreThread(of) => Some(Change::Thread(of.clone())),
            _ => None,
        }
    }
}

/// An action and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inverse {
    pub place: Place,
    pub action: Action,
}

impl Inverse {
    /// In the network of the host that it is noted on.
    pub fn here(action: Action) -> Inverse {
        Inverse { place: Place::of(HostId::HERE), action }
    }

    /// In the network namespace of a place. The inverse is noted on the place's host, where that
    /// host is "this machine".
    pub fn within(place: &Place, action: Action) -> Inverse {
        Inverse { place: Place { host: HostId::HERE, ..place.clone() }, action }
    }

    /// True for what outlives the boot in which it was made.
    pub fn outlives_boot(&self) -> bool {
        matches!(self.action, Action::RemoveGuestFiles { .. })
    }

    /// The commands that do it, each able to be run twice.
    pub fn commands(&self) -> Vec<Command> {
        let netns = self.place.netns.as_deref();
        let shell = |script: &str| self.place.shell(script, &[]);
        match &self.action {
            Action::DeleteNamespace { name } => vec![Command::ip(&["netns", "del", name])],
            Action::DeleteLink { device } => vec![self.place.ip(&["link", "del", "dev", device])],
            // The program reports one that is gone as an error, so a shell looks first. A datapath
            // has a device of its name.
            Action::DeleteDatapath { name } => {
                vec![shell(&format!("[ ! -e /sys/class/net/{name} ] || {DPCTL} del-dp {name}"))]
            }
            Action::ReturnLink { device, to } => vec![
                self.place.ip(&["link", "set", "dev", device, "down"]),
                self.place.ip(&["link", "set", "dev", device, "netns", to]),
            ],
            Action::ReturnRenamed { device, to, called } => vec![
                self.place.ip(&["link", "set", "dev", device, "down"]),
                self.place.ip(&["link", "set", "dev", device, "netns", to, "name", called]),
            ],
            Action::ClearLink { device } => vec![
                self.place.ip(&["link", "set", "dev", device, "down"]),
                self.place.ip(&["addr", "flush", "dev", device]),
            ],
            Action::GiveBackNic(nic) => nic.give_back(netns.unwrap_or_default(), &nic.device),
            Action::DeleteQdisc { device } => vec![self.place.tc(&["qdisc", "del", "dev", device, "root"])],
            Action::RestoreStamping { device, or_in, was } => {
                let (tx, rx, flags) = (was.tx.to_string(), was.rx.to_string(), was.flags.to_string());
                let places = [netns.unwrap_or_default(), or_in.as_str()];
                let words = ["--tx", &tx, "--rx", &rx, "--flags", &flags];
                vec![Command::hwtstamp("restore", device, &places, &words)]
            }
            Action::SwitchOffloadsOn { device } => vec![shell(&offloads_on(device))],
            Action::FreeMachineThreads { cpus } => {
                vec![machine_threads(netns.unwrap_or_default(), "all", &["any", cpus, "-o", "0"])]
            }
            Action::RestoreIrq { irq, was } => vec![shell(&format!("echo {was} >/proc/irq/{irq}/smp_affinity_list"))],
            Action::RestoreBpfJit { was } => vec![shell(&format!("echo {was} >{BPF_JIT}"))],
            Action::RestoreFile(of) => vec![shell(&of.script(&of.was))],
            // What they print must not get into the lock of the slot.
            Action::RestoreDevice(of) => vec![shell(&format!("{} >/dev/null", of.line(&of.was)))],
            Action::RestoreThread(of) => vec![shell(&format!("{} >/dev/null", of.line(&of.was)))],
            Action::RestoreSteering { device, queue, was } => {
                vec![shell(&format!("echo {was} >/sys/class/net/{device}/queues/{queue}/rps_cpus"))]
            }
            Action::DeleteRule { device, location } => vec![shell(&format!("ethtool -N {device} delete {location}"))],
            Action::DeleteSimulated { number } => {
                // A shell reports every write that is refused as an error, so it looks first for
                // what is gone already.
                let folder = format!("{SIMULATED_BUS}/devices/{SIMULATED}{number}");
                vec![shell(&format!("[ ! -e {folder} ] || echo {number} >{SIMULATED_BUS}/del_device"))]
            }
            Action::GiveBackFunction(was) => vec![shell(&was.give_back())],
            Action::DeleteVirtualFunctions(was) => vec![shell(&was.give_back())],
            Action::RemoveGuestFiles { paths } => {
                let words = ["guest", "remove-files"].into_iter().chain(paths.iter().map(String::as_str));
                vec![Command::new(OURSELVES, &words.collect::<Vec<_>>())]
            }
        }
    }

    /// What is wrong with its values, if something is. A name is checked for what a program could
    /// take for an option, a path or a second command.
    pub fn fault(&self) -> Option<String> {
        let needs_netns = matches!(
            self.action,
            Action::GiveBackNic(_)
                | Action::DeleteQdisc { .. }
                | Action::RestoreStamping { .. }
                | Action::DeleteDatapath { .. }
                | Action::FreeMachineThreads { .. }
        );
        if self.place.host != HostId::HERE {
            return Some(format!(
                "it is about {}, and a journal is about the machine that it lies on",
                self.place.host
            ));
        }
        match &self.place.netns {
            None if needs_netns => return Some("it names no network namespace".to_owned()),
            None if matches!(&self.action, Action::DeleteLink { device } if !is_link_of_ours(device)) => {
                return Some("it would delete a link of the machine's own network that tardy has not made".to_owned());
            }
            None if matches!(&self.action, Action::ReturnLink { device, .. } | Action::ReturnRenamed { device, .. } | Action::ClearLink { device } | Action::SwitchOffloadsOn { device } if !is_link_of_ours(device)) =>
            {
                return Some("it would change a link of the machine's own network that tardy has not made".to_owned());
            }
            Some(_) if self.action.change().is_some() => {
                return Some("it names a network namespace, and is about the whole machine".to_owned());
            }
            Some(netns) if !is_ours(netns) => return Some(format!("`{netns}` is no namespace of tardy's")),
            _ => {}
        }
        let bad = |what: &str, value: &str| Some(format!("`{value}` is no {what}"));
        let device = |name: &String| if is_device(name) { None } else { bad("network device's name", name) };
        let ours = |name: &String| if is_ours(name) { None } else { bad("namespace of tardy's", name) };
        let of = |what: &str, value: &String, allowed: &str| {
            if made_of(value, allowed) { None } else { bad(what, value) }
        };
        match &self.action {
            Action::DeleteNamespace { name } => ours(name),
            Action::DeleteLink { device: name }
            | Action::DeleteQdisc { device: name }
            | Action::DeleteDatapath { name } => device(name),
            Action::DeleteRule { device: name, .. }
            | Action::ClearLink { device: name }
            | Action::SwitchOffloadsOn { device: name } => device(name),
            Action::ReturnLink { device: name, to } => device(name).or_else(|| ours(to)),
            Action::ReturnRenamed { device: name, to, called } => {
                device(name).or_else(|| device(called)).or_else(|| ours(to))
            }
            Action::GiveBackNic(nic) => device(&nic.device)
                .or_else(|| ours(&nic.to))
                .or_else(|| of("MAC address", &nic.mac, "0123456789abcdefABCDEF:"))
                .or_else(|| nic.was.addr_gen_mode.as_ref().and_then(|mode| of("mode", mode, MODE)))
                .or_else(|| nic.was.offloads.keys().find_map(|name| of("feature", name, FEATURE)))
                .or_else(|| {
                    nic.was.offloads.keys().find(|name| name.starts_with('-')).and_then(|name| bad("feature", name))
                })
                .or_else(|| nic.was.addresses.iter().find_map(|address| of("address", &address.cidr, ADDRESS)))
                .or_else(|| {
                    let mut words = nic.was.addresses.iter().flat_map(|address| &address.with);
                    words.find(|word| !is_word(word)).and_then(|word| bad("word of an address", word))
                }),
            Action::RestoreStamping { device: name, or_in, .. } => device(name).or_else(|| ours(or_in)),
            Action::RestoreIrq { was: cpus, .. } | Action::FreeMachineThreads { cpus } => {
                of("list of CPUs", cpus, "0123456789,-")
                    // What begins with a dash is an option to `taskset`.
                    .or_else(|| cpus.starts_with('-').then(|| bad("list of CPUs", cpus)).flatten())
            }
            Action::RestoreSteering { device: name, queue, was } => device(name)
                .or_else(|| of("queue", queue, "rx-0123456789"))
                .or_else(|| of("set of CPUs", was, "0123456789abcdefABCDEF,")),
            // The kernel takes numbers up to 2.
            Action::RestoreBpfJit { was } => {
                if *was > 2 {
                    bad("value of bpf_jit_enable", &was.to_string())
                } else {
                    None
                }
            }
            of @ (Action::RestoreFile(_) | Action::RestoreDevice(_) | Action::RestoreThread(_)) => {
                of.change().and_then(|change| change.fault())
            }
            Action::DeleteSimulated { .. } => None,
            Action::GiveBackFunction(was) => {
                was.fault().or_else(|| was.link.as_ref().and_then(|link| device(&link.name)))
            }
            Action::DeleteVirtualFunctions(was) => was.fault().or_else(|| device(&was.link.name)),
            Action::RemoveGuestFiles { paths } => {
                let is_of_a_guest = |path: &&String| {
                    let last = path.rsplit('/').next().unwrap_or_default();
                    let passes = PASSING.contains(&last) || last.starts_with(OF_MACHINE);
                    path.starts_with('/') && !path.split('/').any(|part| part == "..") && passes
                };
                paths
                    .iter()
                    .find(|path| !is_of_a_guest(path))
                    .and_then(|path| bad("absolute path of a guest's file", path))
            }
        }
    }
}

/// What makes and deletes datapaths of Open vSwitch.
pub(crate) const DPCTL: &str = "ovs-dpctl";

/// What of a device's offloads changes a packet after an XDP program has seen it, or leaves
/// something out of it.
const OFFLOADS: &str = "tx tso gso txvlan rxvlan";

/// What goes through the threads of the QEMU that runs in namespace `$1`, of the kind `$2`, and
/// has each run on the CPUs `$4` under the policy `$5` with the priority `$6`. If there is
/// none, it fails, unless `$3` is `any`. What the kernel refuses with `all` is read back later and
/// spoils the trial; with `any` it fails. `MachinePart::of_thread` knows the same names. Anybody
/// may call his own process as the kernel calls its threads, so one outside QEMU counts only if
/// the kernel itself is its parent.
const MACHINE_THREADS: &str = r#"for c in taskset chrt; do command -v $c >/dev/null || { echo "$c is not installed: apt install util-linux" >&2; exit 1; }; done; n=0; for p in $(ip netns pids "$1" 2>/dev/null); do case $(cat /proc/$p/comm 2>/dev/null) in qemu-*) ;; *) continue;; esac; for t in /proc/$p/task/[0-9]* $(grep -lsx "vhost-$p" /proc/[0-9]*/comm); do t=${t%/comm}; t=${t##*/}; case $t in ''|*[!0-9]*) continue;; esac; [ -e "/proc/$p/task/$t" ] || grep -qs '^PPid:[[:space:]]*2$' "/proc/$t/status" || continue; case $(cat "/proc/$t/comm" 2>/dev/null) in '') continue;; 'CPU '*|'ALL CPUs'*) of=vcpu;; vhost-*) of=vhost;; *) of=emulator;; esac; [ "$2" = all ] || [ "$2" = $of ] || continue; { taskset -pc "$4" "$t" >/dev/null; a=$?; chrt "$5" -p "$6" "$t" && [ $a = 0 ]; } || [ ! -e "/proc/$t" ] || [ "$3" = all ] || exit 1; n=$((n+1)); done; done; [ $n -gt 0 ] || [ "$3" = any ] || { echo "the virtual machine in $1 has no thread of the kind $2 here" >&2; exit 1; }"#;

/// A command that has threads of the virtual machine behind this namespace run so: their kind,
/// then `all` or `any`, the CPUs, the option of `chrt` and the priority.
pub fn machine_threads(netns: &str, kind: &str, how: &[&str]) -> Command {
    Command::new("sh", &[&["-c", MACHINE_THREADS, "threads", netns, kind], how].concat())
}

/// What `ethtool` prints, as a pattern of a shell, where nothing changes: a device does not have
/// it, or it rests on something that is off, as segmentation does on checksums.
const NO_CHANGE: &str = r#"*"ould not change any device features"*"#;

/// A script that switches them on. That a device does not have one of them is no failure; what else
/// `ethtool` says is.
fn offloads_on(device: &str) -> String {
    format!(
        "failed=; for offload in {OFFLOADS}; do says=$(ethtool -K {device} $offload on 2>&1 >/dev/null) || case $says in \
         {NO_CHANGE}|*\"annot change \"*\"not supported\"*) ;; *) echo \"$offload: $says\" >&2; failed=1;; \
         esac; done; [ -z \"$failed\" ]"
    )
}

/// A script that switches them off, and fails if one of them stays on.
pub fn offloads_off(device: &str) -> String {
    let on = ["tx-checksumming", "tcp-segmentation-offload", "generic-segmentation-offload"];
    let on = on.into_iter().chain(["tx-vlan-offload", "rx-vlan-offload"]).map(|name| format!("{name}:on"));
    let on = on.collect::<Vec<_>>().join("|");
    format!(
        "for offload in {OFFLOADS}; do ethtool -K {device} $offload off >/dev/null 2>&1; done; ethtool -k {device} | while read -r name state _; do case \"$name$state\" in {on}) echo \"$name stays on\" >&2; exit 1;; \
         esac; done"
    )
}

/// Names of links that a slot makes.
fn is_link_of_ours(device: &str) -> bool {
    ["tardy", "tdy"].iter().any(|ours| device.starts_with(ours))
}

impl TakenNic {
    /// The commands, for a device that is called `now` in the station's namespace, or in the one
    /// that it goes back to.
    pub fn give_back(&self, station: &str, now: &str) -> Vec<Command> {
        let here = |args: &[&str]| Command::ip_in(&self.to, args);
        let mut commands = vec![
            Command::ip_in(station, &["link", "set", "dev", now, "down"]),
            Command::ip_in(station, &["link", "set", "dev", now, "netns", &self.to]),
            here(&["link", "set", "dev", now, "mtu", &self.was.mtu.to_string()]),
        ];
        if let Some(mode) = &self.was.addr_gen_mode {
            commands.push(here(&["link", "set", "dev", now, "addrgenmode", mode]));
        }
        if let Some(promisc) = self.was.promisc {
            commands.push(here(&["link", "set", "dev", now, "promisc", if promisc { "on" } else { "off" }]));
        }
        if !self.was.offloads.is_empty() {
            let set = self.was.offloads.iter().map(|(name, on)| format!(" {name} {}", if *on { "on" } else { "off" }));
            let script = format!(
                "says=$(ethtool -K \"$0\"{} 2>&1 >/dev/null) || case $says in {NO_CHANGE}) ;; *) echo \"$says\" >&2; exit 1;; esac",
                set.collect::<String>()
            );
            // Others may have given it any name by now.
            commands.push(Place::netns_of(HostId::HERE, &self.to).shell(&script, &[now]));
        }
        commands.push(here(&["link", "set", "dev", now, if self.was.up { "up" } else { "down" }]));
        commands.extend(self.was.addresses.iter().map(|address| {
            let with = address.with.iter().map(String::as_str);
            let words: Vec<&str> =
                ["addr", "replace", &address.cidr].into_iter().chain(with).chain(["dev", now]).collect();
            here(&words)
        }));
        commands
    }
}

const MODE: &str = "abcdefghijklmnopqrstuvwxyz0123456789_";
const FEATURE: &str = "abcdefghijklmnopqrstuvwxyz0123456789-";
const ADDRESS: &str = "0123456789abcdefABCDEF.:/";

fn made_of(text: &str, allowed: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| allowed.contains(c))
}

/// True for a name that the kernel takes for a device and that means nothing to a shell or to `ip`.
pub fn is_device(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:@+-".contains(c);
    (1..=15).contains(&name.len()) && !name.starts_with(['-', '.']) && name.chars().all(plain)
}

/// True for a word that goes to `ip` alone, which must not take it for an option. A label may hold
/// almost anything.
fn is_word(word: &str) -> bool {
    !word.is_empty() && !word.starts_with('-') && !word.contains(char::is_control)
}

/// True for the name of a namespace that tardy makes. Iproute2 takes it for a file's name, so it
/// must not lead elsewhere.
fn is_ours(name: &str) -> bool {
    let breaks = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    name.starts_with(OURS) && name.len() <= 255 && !name.contains(breaks)
}
