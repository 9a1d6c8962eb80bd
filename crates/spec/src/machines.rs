// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other machines of an experiment. A virtual one lives for the whole run, so all cells say
//! together what it has; and stations of one name that differ are several machines. One that is
//! reached over ssh is there anyway, and all stations on it have it in common.

use crate::cell::{Table, View, called, cpu, flag, integer, policy, text};
use crate::error::Problem;
use crate::experiment::{Bystanders, Cell, Experiment, MachineThreads, Remote, Setup, Station};
use crate::schema::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tardy_model::machine::HostId;
use tardy_model::path::{Backend, Devices, MacvtapMode, PathKind, PathTraits};
use tardy_model::station::{Machine, MachinePart, Net, StationKind};
use tardy_model::stream::{CpuChoice, Policy};

/// Bytes of a mebibyte.
const MIB: i64 = 1 << 20;

/// The virtual machine of a station. On which host it is, and which devices it needs, follows from
/// all cells ([`assign`]).
pub(crate) fn machine(table: &Table<'_>) -> Result<Machine, Problem> {
    let bytes = table.get("memory", integer)?;
    if bytes % MIB != 0 {
        let (message, help) = (
            format!("`{}`: a machine's memory is whole MiB", table.key("memory")),
            format!("write \"{}MiB\"", bytes.div_euclid(MIB) + 1),
        );
        return Err(table.wrong(&["memory"], message, help));
    }
    let net = table.get("net", called(Net::of))?;
    let queues = table.get("net_queues", integer)? as u32;
    if queues > 1 && !matches!(net, Net::Virtio | Net::Vhost) {
        let message =
            format!("`{}` is {queues}, and an {} has the queues of its kind", table.key("net_queues"), net.name());
        return Err(table.wrong(&["net_queues", "net"], message, "write net = \"virtio\", or leave it out"));
    }
    let append = match table.find("append") {
        Some(Value::Words(words)) => words.clone(),
        _ => Vec::new(),
    };
    if let Some(word) = append.iter().find(|word| word.is_empty() || word.contains(char::is_whitespace)) {
        let message = format!("`{}`: \"{word}\" is no word of a kernel's command line", table.key("append"));
        return Err(table.wrong(&["append"], message, "write each word by itself, as [\"idle=poll\", \"nohz=off\"]"));
    }
    Ok(Machine {
        kernel: table.get("kernel", text)?,
        cpus: table.get("cpus", integer)? as u32,
        memory_mib: (bytes / MIB) as u64,
        net,
        queues,
        append: append.join(" "),
        backends: BTreeSet::new(),
        passthru: false,
        macvtap_on: None,
        macvtap_over: None,
        passed: None,
        computes: false,
    })
}

/// Keys of a station that is a virtual machine.
const OF_MACHINES: [&str; 14] = [
    "kernel",
    "cpus",
    "memory",
    "net",
    "net_queues",
    "append",
    "bystanders",
    "bystanders_compute",
    "vcpu.cpu",
    "vcpu.policy",
    "vhost.cpu",
    "vhost.policy",
    "emulator.cpu",
    "emulator.policy",
];

/// Keys of a station that is none: where it is.
const OF_OTHERS: [&str; 2] = ["ssh", "sudo"];

/// Keys of a station that is a machine's own network.
const OF_HOSTS: [&str; 2] = ["address", "tap"];

/// True if the key of a station, without `station` and the name, has a meaning for one of this
/// kind.
pub(crate) fn belongs_to_station(field: &str, kind: StationKind) -> bool {
    let is_machine = kind.traits().is_machine;
    let is_of_its_kind = kind == StationKind::Host || !OF_HOSTS.contains(&field);
    (is_machine || !OF_MACHINES.contains(&field)) && !(is_machine && OF_OTHERS.contains(&field)) && is_of_its_kind
}

/// Keys of a station of another kind. Where the same station is of that kind in some other cell,
/// they are that one's.
pub(crate) fn station(view: &View<'_>, table: &Table<'_>, kind: StationKind) {
    for field in
        OF_MACHINES.into_iter().chain(OF_OTHERS).chain(OF_HOSTS).filter(|field| !belongs_to_station(field, kind))
    {
        let mut others = StationKind::ALL.into_iter().filter(|of| belongs_to_station(field, *of));
        // Written out, the default of a file is what it has anyway.
        let is_default = field == "sudo" && table.find(field) == Some(&Value::Flag(false));
        let is_meant = table.is_meant(field) && !is_default;
        // On a path of the machines' own networks every station is one, and no key says so.
        let is_own = |path: PathKind| path.traits().devices == Devices::Own;
        let has_own =
            || PathKind::ALL.into_iter().any(|path| is_own(path) && view.is_somewhere("path.kind", path.name()));
        let is_of = |of: StationKind| {
            view.is_somewhere(&table.key("kind"), of.name()) || (of == StationKind::Host && has_own())
        };
        if is_meant && !others.any(is_of) {
            let message = format!("`{}` has no meaning for a station of kind `{}`", table.key(field), kind.name());
            let help = match () {
                () if OF_OTHERS.contains(&field) => "leave it out: this machine runs it",
                () if OF_HOSTS.contains(&field) => "write path.kind = \"network\", or leave it out",
                () => "write kind = \"guest\", or leave it out",
            };
            view.keep::<()>(Err(table.meaningless(field, message, help)));
        }
    }
}

/// How the machine of a station is reached, where that is not this one.
pub(crate) fn remote(table: &Table<'_>) -> Result<Option<Remote>, Problem> {
    let sudo = table.get("sudo", flag)?;
    match table.find("ssh") {
        Some(Value::Text(ssh)) => Ok(Some(Remote { ssh: ssh.clone(), sudo })),
        _ if sudo => {
            let message = format!("`{}` is for a station on another machine", table.key("sudo"));
            Err(table.wrong(&["sudo"], message, "write ssh = \"USER@HOST\" too, or leave it out"))
        }
        _ => Ok(None),
    }
}

/// The network device of this machine behind which a virtual machine is that is there already.
pub(crate) fn tap(table: &Table<'_>) -> Result<Option<String>, Problem> {
    let Some(Value::Text(device)) = table.find("tap") else { return Ok(None) };
    if table.find("ssh").is_none() {
        let message = format!("`{}` is for a station in a virtual machine that is reached over ssh", table.key("tap"));
        return Err(table.wrong(&["tap"], message, "write ssh = \"USER@HOST\" too, or leave it out"));
    }
    Ok(Some(device.clone()))
}

/// Which address of a machine's own network is meant.
pub(crate) fn address(table: &Table<'_>) -> Result<Option<IpAddr>, Problem> {
    let Some(Value::Text(text)) = table.find("address") else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        let message = format!("`{}`: \"{text}\" is no IP address", table.key("address"));
        table.wrong(&["address"], message, "write one as `ip addr` shows it there, without its prefix: \"192.0.2.7\"")
    })
}

/// What is there already joins stations that are machines' own networks, and nothing else does.
///
/// # Errors
/// If a station of another kind is on such a path, or one of this kind on another path.
pub(crate) fn own(view: &View<'_>, path: PathTraits, stations: &BTreeMap<String, Station>) -> Result<(), Problem> {
    let is_own = path.devices == Devices::Own;
    let odd = stations.iter().find(|(_, of)| (of.kind == StationKind::Host) != is_own);
    let Some((name, station)) = odd else { return Ok(()) };
    let (key, kind) = (format!("station.{name}.kind"), station.kind.name());
    let message = match is_own {
        true => format!("path {} joins machines' own networks, and station `{name}` is a {kind}", path.name),
        false => format!("station `{name}` is a machine's own network, and path {} builds between stations", path.name),
    };
    let help = match is_own {
        true => format!("leave `{key}` out, or write another path.kind"),
        false => format!("write path.kind = \"network\", or leave `{key}` out"),
    };
    Err(view.combination(&[key, "path.kind".to_owned()], message, help))
}

/// How many bystanders a station has, and whether they compute.
pub(crate) fn bystanders(table: &Table<'_>) -> Result<Bystanders, Problem> {
    let count = table.get("bystanders", integer)? as usize;
    // Without bystanders it is the same cell, whatever they would do.
    Ok(Bystanders { count, compute: table.get("bystanders_compute", flag)? && count > 0, hosts: Vec::new() })
}

/// Where the threads of a virtual machine are to run, of which the file says so. Its devices are
/// `net`.
pub(crate) fn threads(table: &Table<'_>, net: Net) -> Result<BTreeMap<MachinePart, MachineThreads>, Problem> {
    let mut threads = BTreeMap::new();
    for part in MachinePart::ALL {
        let [cpu_field, policy_field] = ["cpu", "policy"].map(|key| format!("{part}.{key}"));
        let (choice, policy) = (table.get(&cpu_field, cpu)?, table.get(&policy_field, policy)?);
        let cpu = match choice {
            CpuChoice::Any => None,
            CpuChoice::Number(cpu) => Some(cpu),
            CpuChoice::Auto | CpuChoice::Same | CpuChoice::Different => {
                let key = table.key(&cpu_field);
                let message = format!("`{key}` is \"{choice}\", and tardy chooses no CPU for the threads of a machine");
                return Err(table.wrong(&[&cpu_field], message, "write the CPU's number, or \"any\""));
            }
        };
        if let Policy::Deadline { .. } = policy {
            let message = format!(
                "`{}` is \"{policy}\", and a thread that runs a machine has no run time in each period",
                table.key(&policy_field)
            );
            return Err(table.wrong(&[&policy_field], message, "write \"fifo:PRIORITY\", or \"other\""));
        }
        if (cpu, policy) == (None, Policy::Other) {
            continue;
        }
        if part == MachinePart::Vhost && net != Net::Vhost {
            let message = format!(
                "`{}` places the kernel's vhost threads, and with net = \"{}\" the machine has none",
                table.key(part.name()),
                net.name()
            );
            let written = [cpu_field.as_str(), policy_field.as_str(), "net"];
            let written: Vec<&str> = written.into_iter().filter(|field| table.is_written(field)).collect();
            return Err(table.wrong(&written, message, "write net = \"vhost\", or emulator in place of vhost"));
        }
        threads.insert(part, MachineThreads { cpu, policy });
    }
    Ok(threads)
}

/// Numbers the machines of all cells as hosts, and gives each what is behind its network devices
/// in any of the cells.
pub(crate) fn assign(cells: &mut [Cell]) {
    for Cell { setup, .. } in cells.iter_mut() {
        let passthru = setup.path.macvtap_mode == MacvtapMode::Passthru;
        let passed = setup.path.passed().map(|(_, passed)| passed);
        for of in setup.stations.values_mut().filter_map(|of| of.machine.as_mut()) {
            (of.passthru, of.passed) = (passthru, passed.clone());
        }
    }
    put_over(cells);
    let mut known = Vec::new();
    number(cells, &mut known, false);
    for Cell { setup, .. } in cells.iter_mut() {
        let Some(second) = second_on_link(setup) else { continue };
        let first = setup.stations.values().next().map(|first| first.host);
        let second = setup.stations.get_mut(&second).and_then(|of| of.machine.as_mut());
        second.into_iter().for_each(|of| of.macvtap_on = first);
    }
    number(cells, &mut known, true);
    let mut beside: Vec<(String, Machine)> = Vec::new();
    for (name, station) in cells.iter_mut().flat_map(|cell| cell.setup.stations.iter_mut()) {
        let Some(machine) = bystander_of(station) else { continue };
        let is_like = |of: &(String, Machine)| of == &(name.clone(), machine.clone());
        let there = beside.iter().filter(|of| is_like(of)).count();
        let wanted = station.bystanders.count.saturating_sub(there);
        beside.extend(std::iter::repeat_n((name.clone(), machine.clone()), wanted));
        let id = |at: usize| HostId::numbered(u16::try_from(known.len() + at + 1).unwrap_or(u16::MAX));
        let like = beside.iter().enumerate().filter(|(_, of)| is_like(of)).map(|(at, _)| id(at));
        station.bystanders.hosts = like.take(station.bystanders.count).collect();
    }
    let mut remotes: Vec<Remote> = Vec::new();
    for station in cells.iter_mut().flat_map(|cell| cell.setup.stations.values_mut()) {
        let Some(remote) = &station.remote else { continue };
        let at = remotes.iter().position(|known| known == remote).unwrap_or(remotes.len());
        if at == remotes.len() {
            remotes.push(remote.clone());
        }
        let number = known.len() + beside.len() + at + 1;
        station.host = HostId::numbered(u16::try_from(number).unwrap_or(u16::MAX));
    }
}

/// The station that is a machine of a cell of path `macvtap`, and the network device that its
/// macvtap is on, if the cell names one.
fn macvtap_of(setup: &Setup) -> Option<(&String, Option<&str>)> {
    let is_macvtap = setup.path.traits().devices.backend() == Some(Backend::Macvtap);
    let machine = setup.stations.iter().find(|(_, of)| is_macvtap && of.machine.is_some());
    machine.map(|(name, _)| (name, setup.path.uplink().map(|[_, device]| device)))
}

/// Gives each machine the network device that its macvtap is on. One that has no macvtap in its
/// cell serves as that of the cells that have one, if these agree.
fn put_over(cells: &mut [Cell]) {
    let mut over: BTreeMap<String, BTreeSet<Option<String>>> = BTreeMap::new();
    for (station, device) in cells.iter().filter_map(|cell| macvtap_of(&cell.setup)) {
        over.entry(station.clone()).or_default().insert(device.map(str::to_owned));
    }
    for Cell { setup, .. } in cells.iter_mut() {
        let of_cell = macvtap_of(setup).map(|(station, device)| (station.clone(), device.map(str::to_owned)));
        for (name, machine) in setup.stations.iter_mut().filter_map(|(name, of)| Some((name, of.machine.as_mut()?))) {
            let agreed = || over.get(name).filter(|all| all.len() == 1).and_then(|all| all.first().cloned()).flatten();
            machine.macvtap_over = match &of_cell {
                Some((station, device)) if station == name => device.clone(),
                _ => agreed(),
            };
        }
    }
}

/// A network device that carries a macvtap does so for the whole run, since its machine has that
/// from its start on. The kernel then makes it no port of anything else, and lets no other macvtap
/// on it if one has it for itself.
pub(crate) fn check_held(cells: &[Cell]) -> Result<(), (String, String)> {
    let over = |cell: &Cell| macvtap_of(&cell.setup).and_then(|(_, device)| device.map(str::to_owned));
    let hosts = |cell: &Cell| cell.setup.stations.values().map(|of| of.host).collect::<Vec<_>>();
    // The first cell that has it, and the first that has it alone.
    let (mut holders, mut alone) = (BTreeMap::new(), BTreeMap::new());
    for (cell, device) in cells.iter().filter_map(|cell| Some((cell, over(cell)?))) {
        if cell.setup.path.macvtap_mode == MacvtapMode::Passthru {
            alone.entry(device.clone()).or_insert(cell);
        }
        holders.entry(device).or_insert(cell);
    }
    for cell in cells.iter().filter(|_| !holders.is_empty()) {
        let own = over(cell);
        for device in cell.setup.path.devices() {
            let (holder, how) = match own.as_deref() == Some(device) {
                true => (alone.get(device).filter(|holder| hosts(holder) != hosts(cell)), "in mode passthru alone"),
                false => (holders.get(device), "and the kernel makes no other use of it meanwhile"),
            };
            let Some(holder) = holder else { continue };
            let message = format!(
                "network device \"{device}\" carries the macvtap of cell `{}` for the whole run, {how}, and cell `{}` \
                 has it too",
                holder.id, cell.id
            );
            let help = "name other devices for one of the two, or measure each in a run of its own (--set path.kind=\"macvtap\") and \
                        compare the runs";
            return Err((message, help.to_owned()));
        }
    }
    Ok(())
}

/// The second one of two machines whose macvtaps are on one link, that of the first one. It is a
/// machine of its own: no macvtap moves to another link.
fn second_on_link(setup: &Setup) -> Option<String> {
    let is_macvtap = setup.path.traits().devices.backend() == Some(Backend::Macvtap);
    let mut machines = setup.stations.iter().filter(|(_, of)| is_macvtap && of.machine.is_some());
    machines.nth(1).map(|(name, _)| name.clone())
}

/// Numbers the machines that are second on a link, or all others, behind those that are known; and
/// gives each what is behind its devices.
fn number(cells: &mut [Cell], known: &mut Vec<(String, Machine)>, second: bool) {
    let is_meant = |setup: &Setup, name: &String| (second_on_link(setup).as_ref() == Some(name)) == second;
    // As the cells have them: without what is behind their devices.
    for Cell { setup, .. } in cells.iter() {
        let backend = setup.path.traits().devices.backend();
        for (name, machine) in setup.stations.iter().filter_map(|(name, of)| Some((name, of.machine.as_ref()?))) {
            if !is_meant(setup, name) {
                continue;
            }
            match known.iter_mut().find(|(of, other)| of == name && is_same(other, machine)) {
                Some((_, other)) => other.backends.extend(backend),
                None => {
                    known.push((name.clone(), Machine { backends: backend.into_iter().collect(), ..machine.clone() }));
                }
            }
        }
    }
    for Cell { setup, .. } in cells.iter_mut() {
        let meant: Vec<String> = setup.stations.keys().filter(|name| is_meant(setup, name)).cloned().collect();
        for (name, station) in setup.stations.iter_mut().filter(|(name, _)| meant.contains(name)) {
            let Some(machine) = &station.machine else { continue };
            let at = known.iter().position(|(of, other)| of == name && is_same(other, machine));
            let Some((at, id)) = at.and_then(|at| Some((at, HostId::numbered(u16::try_from(at + 1).ok()?)))) else {
                continue;
            };
            station.host = id;
            station.machine = Some(known[at].1.clone());
        }
    }
}

/// Two machines meet by macvtaps on one link, which has to let packets pass between them.
pub(crate) fn meet(view: &View<'_>, path: PathTraits, stations: &BTreeMap<String, Station>) -> Result<(), Problem> {
    let are_two = stations.values().filter(|of| of.machine.is_some()).count() == 2;
    if !are_two || path.devices.backend() != Some(Backend::Macvtap) {
        return Ok(());
    }
    let why = match view.table("path", None).get("macvtap_mode", called(MacvtapMode::of))? {
        MacvtapMode::Bridge => return Ok(()),
        MacvtapMode::Private => "nothing passes between macvtaps on one link",
        MacvtapMode::Vepa => {
            "all goes out by the link, to a switch that would have to send it back (hairpin), and there is none"
        }
        MacvtapMode::Passthru => "a macvtap has the link for itself",
    };
    let names = stations.keys().cloned().collect::<Vec<_>>().join("` and `");
    let mode = view.table("path", None).get("macvtap_mode", called(MacvtapMode::of))?.name();
    let message = format!("`path.macvtap_mode` is \"{mode}\", in which {why}: machines `{names}` cannot meet");
    let help = "write macvtap_mode = \"bridge\", or leave it out; or write kind = \"netns\" for one of the stations";
    Err(view.combination(&["path.macvtap_mode".to_owned()], message, help.to_owned()))
}

/// Stations of two hosts are joined by devices that each of them has.
pub(crate) fn meet_hosts(
    view: &View<'_>,
    path: PathTraits,
    stations: &BTreeMap<String, Station>,
) -> Result<(), Problem> {
    let hosts: BTreeSet<Option<&Remote>> = stations.values().map(|of| of.remote.as_ref()).collect();
    let ways_in = path.devices.backend().is_some() && hosts.iter().any(Option::is_some);
    if !ways_in && (hosts.len() < 2 || path.joins_hosts) {
        return Ok(());
    }
    let names = stations.keys().cloned().collect::<Vec<_>>().join("` and `");
    let message = match ways_in {
        true => format!("path {} leads into a virtual machine of this machine, and a station is on another", path.name),
        false => format!("path {} joins stations of one machine, and `{names}` are on two", path.name),
    };
    let written = stations.iter().filter(|(_, of)| of.remote.is_some()).map(|(name, _)| format!("station.{name}.ssh"));
    let keys: Vec<String> = written.chain(["path.kind".to_owned()]).collect();
    let help = "write path.kind = \"network\", for what joins them already; or \"wire\", with path.a and path.b, the devices that a cable \
                joins; or leave ssh out";
    Err(view.combination(&keys, message, help.to_owned()))
}

/// A bystander of a station: a machine like its own, without network devices.
fn bystander_of(station: &Station) -> Option<Machine> {
    let machine = station.machine.as_ref().filter(|_| station.bystanders.count > 0)?;
    let (backends, computes) = (BTreeSet::new(), station.bystanders.compute);
    Some(Machine {
        backends,
        passthru: false,
        macvtap_on: None,
        macvtap_over: None,
        passed: None,
        computes,
        ..machine.clone()
    })
}

fn is_same(one: &Machine, other: &Machine) -> bool {
    Machine { backends: other.backends.clone(), ..one.clone() } == *other
}

impl Experiment {
    /// The machines that are reached over ssh, by their hosts.
    pub fn remotes(&self) -> BTreeMap<HostId, Remote> {
        let built = self.cells.iter().filter(|cell| !cell.setup.builds_nothing());
        let stations = built.flat_map(|cell| cell.setup.stations.values());
        stations.filter_map(|station| Some((station.host, station.remote.clone()?))).collect()
    }

    /// True if only cells of optional cases have a station on that host, and others remain.
    pub fn can_do_without(&self, host: HostId) -> bool {
        let is_on = |cell: &Cell| cell.setup.stations.values().any(|station| station.hosts().any(|of| of == host));
        let (mut on_it, others): (Vec<&Cell>, Vec<&Cell>) = self.cells.iter().partition(|cell| is_on(cell));
        on_it.retain(|cell| !cell.optional);
        on_it.is_empty() && !others.is_empty()
    }

    /// Adds to the machines that are not possible here, each with the reason, those whose macvtap
    /// would be on the link of one.
    pub fn refuse_on_links_of(&self, refused: &mut BTreeMap<HostId, String>) {
        for (host, (_, machine)) in self.machines() {
            if let Some(why) = machine.macvtap_on.and_then(|on| refused.get(&on).cloned()) {
                refused.entry(host).or_insert(why);
            }
        }
    }

    /// The virtual machines of all cells that are built, by their hosts, each with the name that
    /// records have for it: its station's, and for a further one of that name a number behind it.
    /// A bystander has the station's name and a number of its own.
    pub fn machines(&self) -> BTreeMap<HostId, (String, Machine)> {
        let mut machines: BTreeMap<HostId, (String, Machine)> = BTreeMap::new();
        let built = self.cells.iter().filter(|cell| !cell.setup.builds_nothing());
        for (name, station) in built.flat_map(|cell| &cell.setup.stations) {
            if let Some(machine) = &station.machine
                && !machines.contains_key(&station.host)
            {
                let before = machines.values().filter(|(of, _)| of.split('.').next() == Some(name)).count();
                let name = if before == 0 { name.clone() } else { format!("{name}.{}", before + 1) };
                machines.insert(station.host, (name, machine.clone()));
            }
        }
        let mut beside: BTreeMap<HostId, (String, Machine)> = BTreeMap::new();
        let built = self.cells.iter().filter(|cell| !cell.setup.builds_nothing());
        for (name, station) in built.flat_map(|cell| &cell.setup.stations) {
            let Some(machine) = bystander_of(station) else { continue };
            for host in &station.bystanders.hosts {
                let called = format!("{name}.bystander");
                let number = 1 + beside.values().filter(|(of, _)| of.starts_with(&called)).count();
                beside.entry(*host).or_insert_with(|| (format!("{called}{number}"), machine.clone()));
            }
        }
        machines.extend(beside);
        machines
    }
}
