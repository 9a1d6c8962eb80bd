// SPDX-License-Identifier: MIT OR Apache-2.0
//! A virtual machine as a station. It lives for the whole run and is a host of its own: its kernel,
//! its CPUs and its clocks are not this machine's. Its agent is a process in it. What is behind its
//! network devices is in a namespace of its own, which QEMU runs in, so that nothing of it shows in
//! this machine's network; a path moves it to where it is needed, and back.

use super::methods::StationMethods;
use super::planned::{Offer, PlannedStation, Plugged};
use crate::command::{Command, OURSELVES};
use crate::host::HostId;
use crate::host::place::Place;
use crate::machine::FactsByHost;
use crate::names::{self, Names};
use crate::not_found::NotFound;
use crate::path::link::{Device, EndId, NO_IPV6, PathError};
use crate::step::{Action, Inverse, Step, machine_threads};
use std::collections::BTreeMap;
use tardy_host::state::MachineThread;
use tardy_model::path::{Backend, MacvtapMode};
use tardy_model::placement::ThreadRecord;
use tardy_model::station::{Machine, MachinePart, Net, StationKind};
use tardy_model::stream::Policy;
use tardy_spec::experiment::{MachineThreads, Setup, Station};

/// Its own host starts its agent.
pub(super) const KIND: StationMethods = StationMethods {
    traits: StationKind::Guest.traits(),
    needs: |_| None,
    build,
    plug,
    connect: |host, station| host.start(&station.agent),
};

fn build(names: Names, of: &Station, _: &str) -> PlannedStation {
    let netns = names.machine_netns(of.host);
    let behind = Place::netns_of(HostId::HERE, &netns);
    let does = Command::ip(&["netns", "add", &netns]);
    let undoes = Inverse::here(Action::DeleteNamespace { name: netns.clone() });
    let why = "a namespace for what is behind the virtual machine's network devices";
    let mut steps = vec![Step::new(&Place::of(HostId::HERE), why, vec![does]).undone_by(vec![undoes])];
    let mut offers = Vec::new();
    for (machine, backend) in of.machine.iter().flat_map(|of| of.backends.iter().map(move |backend| (of, *backend))) {
        steps.extend(match backend {
            Backend::Tap => Some(tap_step(names, &behind, machine)),
            Backend::Macvtap => Some(macvtap_step(names, &behind, of.host, machine)),
            // What is done follows from what the kernel says of the device.
            Backend::Vfio => None,
        });
        offers.push(Offer::Slot { number: backend.slot(), place: behind.clone() });
    }
    let agent = Command::new(OURSELVES, &["agent"]);
    PlannedStation { kind: StationKind::Guest, place: Place::of(of.host), steps, offers, agent }
}

/// Has the threads of this cell's virtual machines run where it asks, until the cell's path is put
/// back: a machine serves all cells.
///
/// # Errors
/// If this host has not been looked at.
pub fn placed(setup: &Setup, names: Names, found: &FactsByHost) -> Result<Vec<Step>, NotFound> {
    let mut steps = Vec::new();
    for station in setup.stations.values().filter(|station| !station.threads.is_empty()) {
        let netns = names.machine_netns(station.host);
        let usable = found.of(HostId::HERE)?.usable.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let place = |(part, MachineThreads { cpu, policy }): (&MachinePart, &MachineThreads)| {
            let cpus = cpu.map_or_else(|| usable.clone(), |cpu| cpu.to_string());
            let [class, priority] = chrt(*policy);
            machine_threads(&netns, part.name(), &["all", &cpus, &class, &priority])
        };
        let does = station.threads.iter().map(place).collect();
        let undoes = Action::FreeMachineThreads { cpus: usable.clone() };
        let undoes = Inverse::within(&Place::netns_of(HostId::HERE, &netns), undoes);
        let why = "the virtual machine's threads where the cell asks for them; back where they were";
        steps.push(Step::new(&Place::of(HostId::HERE), why, does).undone_by(vec![undoes]));
    }
    Ok(steps)
}

/// The words of `chrt` for a policy: its option and the priority.
fn chrt(policy: Policy) -> [String; 2] {
    let (class, priority) = match policy {
        Policy::Fifo(priority) => ("-f", priority),
        Policy::Rr(priority) => ("-r", priority),
        Policy::Other | Policy::Deadline { .. } => ("-o", 0),
    };
    [class.to_owned(), priority.to_string()]
}

/// True if a thread has what was asked of it.
fn has(record: &ThreadRecord, asked: &MachineThreads) -> bool {
    record.policy_granted == asked.policy.to_string() && asked.cpu.is_none_or(|cpu| record.affinity == [cpu])
}

/// What the threads of this cell's virtual machines were asked for, have and did between two
/// readings, by their names: `vm.vcpu0`, `vm.vhost0`, `vm.emulator`. A thread that is not in both
/// readings is left out. If the cell asks for a kind of thread, or for a bystander, and none was
/// read, it has nothing. Nor has a machine whose packets the kernel's vhost is to move, if no such
/// thread was read where the kernel's threads can be seen.
pub fn threads(
    setup: &Setup,
    [before, after]: &[Vec<MachineThread>; 2],
    sees_kernel: bool,
) -> BTreeMap<String, ThreadRecord> {
    let mut counts: BTreeMap<(&str, MachinePart), usize> = BTreeMap::new();
    let mut threads = BTreeMap::new();
    for MachineThread { machine, part, record, read } in after {
        let of = setup.stations.iter().find(|(_, of)| of.machine.is_some() && of.host == *machine);
        let Some((name, station)) = of else { continue };
        let count = counts.entry((name, *part)).or_default();
        let called = match part {
            MachinePart::Emulator => format!("{name}.{part}"),
            MachinePart::Vcpu | MachinePart::Vhost => format!("{name}.{part}{count}"),
        };
        *count += 1;
        let earlier = before.iter().find(|earlier| earlier.record.tid == record.tid && earlier.part == *part);
        let Some(MachineThread { record: earlier, read: began, .. }) = earlier else { continue };
        let since = |now: Option<i64>, then: Option<i64>| now.zip(then).map(|(now, then)| now.saturating_sub(then));
        let asked = station.threads.get(part);
        // A thread of which nothing was asked keeps what tardy itself was started with.
        let policy_asked = asked.map_or_else(|| record.policy_granted.clone(), |asked| asked.policy.to_string());
        let refused = asked.filter(|asked| !has(record, asked)).map(|asked| {
            let cpus = asked.cpu.map(|cpu| format!("taskset -pc {cpu} {0} && ", record.tid)).unwrap_or_default();
            let [class, priority] = chrt(asked.policy);
            format!(
                "as root, `{cpus}chrt {class} -p {priority} {}` shows why, as long as the thread is there",
                record.tid
            )
        });
        let thread = ThreadRecord {
            policy_asked,
            refused: refused.into_iter().collect(),
            cpu_asked: asked.and_then(|asked| asked.cpu),
            cpus_seen: [&earlier.cpus_seen[..], &record.cpus_seen].concat(),
            run_ns: since(record.run_ns, earlier.run_ns),
            wait_ns: since(record.wait_ns, earlier.wait_ns),
            over_ns: Some((*read - *began).0),
            involuntary_switches: record.involuntary_switches.saturating_sub(earlier.involuntary_switches),
            voluntary_switches: record.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            migrations: record.migrations.zip(earlier.migrations).map(|(now, then)| now.saturating_sub(then)),
            ..record.clone()
        };
        threads.insert(called, thread);
    }
    for (name, station) in setup.stations.iter().filter(|(_, of)| of.machine.is_some()) {
        for (part, asked) in &station.threads {
            let kind = format!("{name}.{part}");
            if !threads.keys().any(|called: &String| called.starts_with(&kind)) {
                let policy_asked = asked.policy.to_string();
                threads.insert(kind, ThreadRecord { policy_asked, cpu_asked: asked.cpu, ..ThreadRecord::default() });
            }
        }
        let vhost = format!("{name}.{}", MachinePart::Vhost);
        let wants_vhost = station.machine.as_ref().is_some_and(|of| of.net == Net::Vhost && !of.backends.is_empty());
        let was_read = |thread: &MachineThread| thread.machine == station.host && thread.part == MachinePart::Vhost;
        if sees_kernel && wants_vhost && !after.iter().any(was_read) {
            let why = "net = \"vhost\", and the kernel has no thread vhost-* for this machine: QEMU moves its packets";
            let none = threads
                .entry(vhost)
                .or_insert_with(|| ThreadRecord { policy_asked: Policy::Other.to_string(), ..ThreadRecord::default() });
            none.refused.push(why.to_owned());
        }
        let is_there = |host: &HostId| after.iter().any(|thread| thread.machine == *host);
        for (at, _) in station.bystanders.hosts.iter().enumerate().filter(|(_, host)| !is_there(host)) {
            let gone = ThreadRecord { policy_asked: Policy::Other.to_string(), ..ThreadRecord::default() };
            threads.insert(format!("{name}.bystander{}", at + 1), gone);
        }
    }
    threads
}

/// The path has set it up in the machine already, by the name that the machine has for it.
fn plug(planned: &PlannedStation, _: EndId, offer: &Offer, device: &Device) -> Result<Plugged, PathError> {
    let device = match offer {
        Offer::Slot { number, .. } => names::in_machine(*number),
        Offer::Netns(_) | Offer::Own(_) => device.name.clone(),
    };
    Ok(Plugged { steps: Vec::new(), place: planned.place.clone(), device })
}

/// QEMU asks a tap for headers that say what is left to be done to a packet, and gets them only
/// from one that was made so.
fn tap_step(names: Names, behind: &Place, machine: &Machine) -> Step {
    let tap = names.backend(Backend::Tap);
    let mut make = vec!["tuntap", "add", "dev", &tap, "mode", "tap", "vnet_hdr"];
    if machine.queues > 1 {
        make.push("multi_queue");
    }
    let quiet = behind.ip(&["link", "set", "dev", &tap, "addrgenmode", "none"]);
    let undoes = Inverse::within(behind, Action::DeleteLink { device: tap.clone() });
    Step::new(behind, "the virtual machine's tap", vec![behind.ip(&make), quiet])
        .undone_by(vec![undoes])
        .tolerating(NO_IPV6)
}

/// The machine's macvtap, on a pair of links of its own, on that of another machine, or on a
/// network device of this host. The device stays where it is until a path takes it; the macvtap
/// does not go with it.
fn macvtap_step(names: Names, behind: &Place, host: HostId, machine: &Machine) -> Step {
    let (macvtap, [low, up]) = (names.backend(Backend::Macvtap), names.below_macvtap());
    let (index, mac) = (names.macvtap_index(host).to_string(), names.machine_mac(host, Backend::Macvtap.slot()));
    let queues = machine.queues.to_string();
    let pair = ["numtxqueues", Names::PAIR_QUEUES, "numrxqueues", Names::PAIR_QUEUES];
    let mode = if machine.passthru { MacvtapMode::Passthru } else { MacvtapMode::Bridge };
    let quiet = |device: &str| behind.ip(&["link", "set", "dev", device, "addrgenmode", "none"]);
    let low = machine.macvtap_over.as_deref().unwrap_or(&low);
    let on = ["link", "add", "link", low, "name", &macvtap, "index", &index, "address", &mac];
    let of = ["numrxqueues", &queues, "numtxqueues", &queues, "type", "macvtap", "mode", mode.name()];
    let of_another = "the virtual machine's macvtap, on the link below another machine's";
    let elsewhere = match (&machine.macvtap_over, machine.macvtap_on) {
        (Some(_), _) => Some((Place::of(HostId::HERE), "the virtual machine's macvtap, on the network device")),
        (None, Some(other)) => Some((Place::netns_of(HostId::HERE, &names.machine_netns(other)), of_another)),
        (None, None) => None,
    };
    if let Some((below, why)) = elsewhere {
        let netns = names.machine_netns(host);
        let does = vec![below.ip(&[&on[..], &["netns", &netns], &of].concat()), quiet(&macvtap)];
        let undoes = Inverse::within(behind, Action::DeleteLink { device: macvtap });
        return Step::new(behind, why, does).undone_by(vec![undoes]).tolerating(NO_IPV6);
    }
    // A macvtap in mode passthru takes the address of the link below it.
    let below = if machine.passthru { vec!["address", &mac] } else { Vec::new() };
    let does = vec![
        behind.ip(&[&["link", "add", low], &below[..], &pair, &["type", "veth", "peer", "name", &up], &pair].concat()),
        behind.ip(&[&on[..], &of].concat()),
        quiet(low),
        quiet(&up),
        quiet(&macvtap),
    ];
    // It takes the macvtap and the other link of the pair with it.
    let undoes = Inverse::within(behind, Action::DeleteLink { device: low.to_owned() });
    let why = "a pair of links, and the virtual machine's macvtap on one of them";
    Step::new(behind, why, does).undone_by(vec![undoes]).tolerating(NO_IPV6)
}
