// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual machines that are stations: each is started before the run looks at its hosts, with a
//! network device for each way into it that a cell takes, and then is a host of the run, reached
//! over one port. It ends with the run.

use super::error::{GuestError, file};
use super::folder::{self, INITRAMFS, TRUNK};
use super::nested::{AllPacked, Packed};
use super::parts::{Guest, GuestOptions};
use super::qemu::{self, Accelerator, VirtualMachine};
use super::{console, probe, watch};
use crate::agent::AgentError;
use crate::command::Command;
use crate::connection::Patient;
use crate::host::ask::Ask;
use crate::host::distant::Distant;
use crate::host::place::Place;
use crate::host::qemu::{self as process, Monitor, Qemu};
use crate::host::tool::Tool;
use crate::host::trunk::{Link, Trunk};
use crate::host::{Host, HostId};
use crate::machine::Facts;
use crate::names::{self, Names};
use crate::path::vfio;
use crate::run::{Ended, RunError};
use crate::station;
use crate::step::{Action, Inverse, Step};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tardy_model::manifest::GuestMode;
use tardy_model::path::{Backend, PathKind};
use tardy_model::station::{Machine, Net, StationKind};
use tardy_model::verdict::Figure;
use tardy_spec::experiment::Station;
use tardy_sys::process::signal as process_signal;

/// QEMU makes its end of the port within this time.
const QEMU_STARTS: Duration = Duration::from_secs(10);
/// A machine says within this time that it is there; one whose processor is emulated needs seconds.
const BOOTS: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(5);
/// How long a machine's listener sleeps when QEMU says nothing: it may wake on a measuring CPU.
const LISTEN: Duration = Duration::from_secs(5);
/// A machine takes what it is sent within this time, or is given up.
const TAKES: Duration = Duration::from_secs(20);
/// How often a wait for a machine looks whether a signal came.
const HEARS: Duration = Duration::from_millis(100);
/// The most that QEMU may write into a file, which is its console, and what is kept of that, bytes.
const CONSOLE_MOST: u64 = 256 << 20;
const CONSOLE_KEPT: u64 = 1 << 20;
/// The first of the open files by which QEMU gets its macvtap, one for each queue. A shell knows
/// numbers up to 9.
const MACVTAP_FD: u32 = 3;

/// In the name of a machine that is no station's.
const BYSTANDER: &str = ".bystander";

/// A machine to be started.
pub struct Asked<'a> {
    pub host: HostId,
    /// As records call it.
    pub name: &'a str,
    pub machine: &'a Machine,
    pub boots: MachineBoots<'a>,
}

/// What a machine boots.
#[derive(Clone, Copy)]
pub enum MachineBoots<'a> {
    /// A kernel and the program in it. KVM runs them where it starts ordinary kernels.
    Made(&'a Guest),
    /// What was packed into the guest that starts it, in exact time; KVM runs it.
    Packed(&'a Packed),
}

impl MachineBoots<'_> {
    /// The kernel's name, as it was asked for, and its SHA-256.
    fn kernel(&self) -> (&str, &str) {
        match self {
            MachineBoots::Made(guest) => (&guest.kernel.name, &guest.kernel.sha256),
            MachineBoots::Packed(packed) => (&packed.name, &packed.sha256),
        }
    }
}

/// What all machines of a run have in common.
pub struct BootOptions<'a> {
    /// Version and build of this program.
    pub version: &'a str,
    /// Folder of slots and journals.
    pub state: &'a Path,
    /// Where fetched kernels lie.
    pub cache: &'a Path,
    /// Set by a signal.
    pub stop: &'a AtomicBool,
    /// What QEMU says of its version.
    pub qemu: &'a str,
}

/// A machine that runs. Dropping it ends it.
pub struct Booted {
    pub host: HostId,
    pub name: String,
    pub steward: Distant<Trunk>,
    /// What runs it, for the manifest.
    pub facts: BTreeMap<String, Figure>,
    pub running: RunningMachine,
}

/// The QEMU of a machine, and a thread that takes in what it says, which would stop it else.
/// Dropping it ends the machine.
pub struct RunningMachine {
    pid: u32,
    listener: Option<JoinHandle<()>>,
    monitor: Option<Monitor>,
    /// It stays readable when its name is gone.
    console: Option<File>,
}

impl RunningMachine {
    fn of(mut qemu: Qemu, console: Option<File>) -> RunningMachine {
        let (pid, monitor) = (qemu.pid(), qemu.monitor().ok());
        let listener = std::thread::spawn(move || {
            while qemu.ended().is_none() {
                qemu.wait(LISTEN);
            }
        });
        RunningMachine { pid, listener: Some(listener), monitor, console }
    }

    /// The process of its QEMU.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What the registers of its processors hold, as QEMU's monitor prints them; empty if QEMU does
    /// not answer, or has ended.
    fn registers(&self) -> String {
        let runs = self.listener.as_ref().is_some_and(|listener| !listener.is_finished());
        self.monitor.as_ref().filter(|_| runs).map(Monitor::registers).unwrap_or_default()
    }

    /// The end of what its kernel wrote to its console.
    pub fn console(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(console) = &self.console {
            let length = console.metadata().map_or(0, |about| about.len());
            bytes.resize(length.min(CONSOLE_KEPT) as usize, 0);
            let read = console.read_at(&mut bytes, length.saturating_sub(CONSOLE_KEPT)).unwrap_or(0);
            bytes.truncate(read);
        }
        bytes
    }
}

impl Drop for RunningMachine {
    fn drop(&mut self) {
        let Some(listener) = self.listener.take() else { return };
        // It is the listener's, which waits for its end. Of one that has ended the number may be
        // another process's by now.
        if !listener.is_finished() {
            let _ = process_signal(self.pid, Signal::KILL.as_raw());
        }
        let _ = listener.join();
    }
}

/// Adds to the error of a run that ended because a virtual machine fell silent where that machine's
/// processors are and how its console ends. Gives the registers of each such machine, by its name.
pub fn explain_silence(ended: &mut Ended, running: &[(String, RunningMachine)]) -> Vec<(String, String)> {
    let Some(RunError::Agent(AgentError::Silent { station, .. })) = &ended.failed else { return Vec::new() };
    // One station may have several machines, each for some of the cells.
    let is_its =
        |(name, _): &&(String, RunningMachine)| name.split('.').next() == Some(station) && !name.contains(BYSTANDER);
    let (mut words, mut all) = (String::new(), Vec::new());
    for (name, machine) in running.iter().filter(is_its) {
        let shown = machine.registers();
        let console = console::how_it_ended(&machine.console());
        words += &format!("; virtual machine {name}: {}; {console}", console::processors(&shown));
        all.push((name.clone(), console::registers(&shown)));
    }
    ended.failed = ended.failed.take().map(|error| match error {
        RunError::Agent(source) if !words.is_empty() => {
            GuestError::Mute { silent: source.to_string(), words: words.clone() }.into()
        }
        other => other,
    });
    all
}

/// Refuses more memory for all machines together than is available, MiB.
///
/// # Errors
/// [`GuestError::Memory`].
pub fn check_memory<'m>(
    machines: impl Iterator<Item = &'m Machine>,
    available_bytes: Option<u64>,
) -> Result<(), GuestError> {
    let needed_mib: u64 = machines.map(|machine| machine.memory_mib).fold(0, u64::saturating_add);
    let available_mib = available_bytes.map_or(u64::MAX, |bytes| bytes >> 20);
    let most_mib = available_mib / 10 * 9;
    match needed_mib > most_mib {
        true => Err(GuestError::Memory { needed_mib, available_mib, most_mib }),
        false => Ok(()),
    }
}

/// Refuses more machines than have names.
///
/// # Errors
/// [`GuestError::Machine`].
pub fn check_number(name: &str, host: HostId) -> Result<(), GuestError> {
    if host.number() <= Names::MACHINES {
        return Ok(());
    }
    let why = format!(
        "the experiment has more than {} virtual machines: several values of station.*.{{kernel,cpus,memory,net,net_queues,append}} are \
         several machines, and so are bystanders; write fewer of them",
        Names::MACHINES
    );
    Err(GuestError::Machine { name: name.to_owned(), why })
}

/// Refuses what this machine or its QEMU does not have, before anything is built.
///
/// # Errors
/// [`GuestError::Machine`].
pub fn check(
    name: &str,
    machine: &Machine,
    host: HostId,
    (version, has_filter): (&str, bool),
) -> Result<(), GuestError> {
    check_number(name, host)?;
    let refused = |why: String| GuestError::Machine { name: name.to_owned(), why };
    if !Path::new("/dev/net/tun").exists() {
        return Err(refused(
            "this kernel has no /dev/net/tun (CONFIG_TUN): load module tun, or use path \"veth\"".into(),
        ));
    }
    if !has_filter {
        let why =
            "QEMU runs as root here, and this one cannot filter its own system calls (-sandbox): install one that can";
        return Err(refused(why.into()));
    }
    if machine.net == Net::Vhost && !Path::new("/dev/vhost-net").exists() {
        let why = "net = \"vhost\" needs /dev/vhost-net, and this kernel has none: load module vhost_net, or write net = \"virtio\"";
        return Err(refused(why.into()));
    }
    let words = version.split_once("version ").map_or("", |(_, rest)| rest);
    if let Some(why) = machine.passed.as_ref().and_then(|passed| vfio::refusal(passed, &vfio::read(&passed.device))) {
        return Err(refused(why));
    }
    let major = words.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if machine.net.since() > 0 && major.is_none_or(|major| major < machine.net.since()) {
        let why = format!(
            "net = \"{}\" needs QEMU {}.0 or newer, and this is {version}: write net = \"e1000e\" or \"virtio\"",
            machine.net.name(),
            machine.net.since()
        );
        return Err(refused(why));
    }
    Ok(())
}

/// What of a machine a plan rests on, as far as it is known before it boots.
pub fn facts(machine: &Machine) -> Facts {
    Facts {
        usable: (0..machine.cpus).collect(),
        paths: PathKind::ALL.into_iter().map(|kind| kind.name().to_owned()).collect(),
        ..Facts::default()
    }
}

/// QEMU's arguments for the network devices and for the port of the run; `function` is the address
/// of what the machine has of the host's.
pub fn devices(machine: &Machine, host: HostId, names: Names, function: Option<&str>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut put = |text: String| words.extend(text.split(' ').map(str::to_owned));
    put(format!("-chardev socket,id=run,path={TRUNK},server=on,wait=on"));
    put("-device virtio-serial-pci -device virtserialport,chardev=run,name=tardy".to_owned());
    for backend in &machine.backends {
        let (slot, mut netdev) = (backend.slot(), String::new());
        netdev += &match backend {
            Backend::Tap => {
                let queues = if machine.queues > 1 { format!(",queues={}", machine.queues) } else { String::new() };
                format!("tap,id=net{slot},ifname={},script=no,downscript=no{queues}", names.backend(*backend))
            }
            Backend::Macvtap if machine.queues > 1 => {
                let fds = (0..machine.queues).map(|n| (MACVTAP_FD + n).to_string()).collect::<Vec<_>>().join(":");
                format!("tap,id=net{slot},fds={fds}")
            }
            Backend::Macvtap => format!("tap,id=net{slot},fd={MACVTAP_FD}"),
            Backend::Vfio => {
                // Nor with the card's own ROM.
                put(format!("-device vfio-pci,host={},rombar=0", function.unwrap_or("ADDRESS")));
                continue;
            }
        };
        if machine.net == Net::Vhost {
            netdev += ",vhost=on";
        }
        put(format!("-netdev {netdev}"));
        // Without the ROM by which a network card boots a machine: it has a kernel.
        let (device, mac) = (machine.net.device(), names.machine_mac(host, slot));
        let mut device = format!("{device},netdev=net{slot},mac={mac},romfile=");
        if machine.queues > 1 {
            // One for each direction of each queue, one for settings and one for control.
            device += &format!(",mq=on,vectors={}", 2 * machine.queues + 2);
        }
        put(format!("-device {device}"));
    }
    words
}

/// The command by which QEMU is started: in the namespace of what is behind its network devices,
/// and with its macvtap open, which it cannot open by name.
pub fn command(machine: &Machine, host: HostId, names: Names, arguments: &[String]) -> Command {
    let netns = names.machine_netns(host);
    let open = match machine.backends.contains(&Backend::Macvtap) {
        true => {
            let file = format!("/dev/tap{}", names.macvtap_index(host));
            let missing = format!("{file} is missing: a macvtap needs a /dev that the kernel fills (devtmpfs)");
            let open = (0..machine.queues).map(|n| format!("exec {}<>{file}; ", MACVTAP_FD + n)).collect::<String>();
            // A shell would make what is not there.
            format!("[ -c {file} ] || {{ echo '{missing}'; exit 1; }}; {open}")
        }
        false => String::new(),
    };
    let script = format!("{open}exec \"$0\" \"$@\"");
    let words = ["netns", "exec", &netns, "sh", "-c", &script, process::PROGRAM];
    Command::ip(&words.into_iter().chain(arguments.iter().map(String::as_str)).collect::<Vec<_>>())
}

/// Starts a machine, and waits until its steward answers. What was built for it is in the journal
/// of this machine's host, `here`. Its files are in a folder that only root can look into, whoever
/// owns the run's.
///
/// # Errors
/// If something cannot be built, QEMU does not start, or the machine does not come up.
pub fn boot(asked: &Asked<'_>, options: &BootOptions<'_>, here: &mut dyn Host) -> Result<Booted, RunError> {
    let Asked { host, name, machine, boots } = *asked;
    let names = here.claim()?;
    let real = options.state.canonicalize().map_err(file("find", options.state))?;
    let folder = real.join(format!("{}{}-{}", folder::OF_MACHINE, names.slot(), host.number()));
    let Some(path) = folder.to_str() else { return Err(GuestError::Name { folder }.into()) };
    let gone = Inverse::here(Action::RemoveGuestFiles { paths: vec![path.to_owned()] });
    let files = Step::new(&Place::of(HostId::HERE), "what the virtual machine is given to boot", Vec::new());
    let of = Station { host, machine: Some(machine.clone()), ..Station::here(StationKind::Guest) };
    let planned = (station::kind(StationKind::Guest).build)(names, &of, name);
    if let Some(passed) = &machine.passed {
        // It may have come into use since it was looked at.
        here.look(&Ask { devices: vec![vfio::claim(passed, &vfio::read(&passed.device))], ..Ask::default() })?;
        if let Some(why) = vfio::refusal(passed, &vfio::read(&passed.device)) {
            return Err(GuestError::Machine { name: name.to_owned(), why }.into());
        }
    }
    let handed = machine.passed.as_ref().and_then(|passed| {
        vfio::handed(passed, &vfio::read(&passed.device), &names.machine_mac(host, Backend::Vfio.slot()))
    });
    let hand = handed.as_ref().map(|handed| handed.steps.clone()).unwrap_or_default();
    here.apply(&[vec![files.undone_by(vec![gone])], planned.steps, hand].concat())?;
    // A run that had this slot and was killed may have left one.
    folder::remove(&folder).map_err(file("remove", &folder))?;
    DirBuilder::new().mode(0o700).create(&folder).map_err(file("create", &folder))?;

    let virtual_machine = virtual_machine(machine, boots, options, &folder)?;
    let function = handed.as_ref().map(|handed| handed.address.as_str());
    let arguments = arguments(&virtual_machine, machine, host, names, function);
    let command = command(machine, host, names, &arguments);
    give(machine, boots, &folder.join(INITRAMFS))?;
    let mut qemu = Qemu::start_by(&folder, &command).map_err(|source| GuestError::Start { source })?;
    here.note_machine(qemu.pid(), host)?;
    let steward = meet(name, &folder, &mut qemu, options)?;
    if machine.computes {
        // The machines behind it have to boot.
        here.stop_machine(host)?;
    }
    let facts = facts_of(virtual_machine.accelerator, boots, options, &command);
    let console = File::open(folder.join(qemu::CONSOLE)).ok();
    Ok(Booted { host, name: name.to_owned(), steward, facts, running: RunningMachine::of(qemu, console) })
}

/// The machine that QEMU provides for a station.
fn virtual_machine(
    machine: &Machine,
    boots: MachineBoots<'_>,
    options: &BootOptions<'_>,
    folder: &Path,
) -> Result<VirtualMachine, RunError> {
    let (mode, accelerator, kernel, sandbox) = match boots {
        MachineBoots::Made(guest) => {
            (GuestMode::RealTime, accelerator(guest, options, folder)?, &guest.boots.path, guest.sandbox)
        }
        // What runs there is thrown away with the guest, whatever QEMU does in it.
        MachineBoots::Packed(packed) => (GuestMode::Exact, Accelerator::Kvm, &packed.kernel, false),
    };
    Ok(VirtualMachine {
        mode,
        accelerator,
        cpus: machine.cpus,
        memory_mib: machine.memory_mib,
        kernel: kernel.display().to_string(),
        append: machine.append.clone(),
        sandbox,
    })
}

/// Puts the initramfs where QEMU looks for it.
fn give(machine: &Machine, boots: MachineBoots<'_>, at: &Path) -> Result<(), GuestError> {
    match boots {
        MachineBoots::Made(guest) => fs::write(at, guest.archive_of(machine)?).map_err(file("write", at)),
        MachineBoots::Packed(packed) => symlink(&packed.initramfs, at).map_err(file("make", at)),
    }
}

/// QEMU's arguments. The second serial port, by which other guests tell their run, leads nowhere.
pub fn arguments(
    of: &VirtualMachine,
    machine: &Machine,
    host: HostId,
    names: Names,
    function: Option<&str>,
) -> Vec<String> {
    let port = format!("file:{}", folder::PORT);
    let words = of.arguments().into_iter().map(|word| if word == port { "null".to_owned() } else { word });
    // QEMU names its threads after what they do, so that they can be told apart.
    let named = ["-name", "machine,debug-threads=on"].map(str::to_owned);
    words.chain(named).chain(devices(machine, host, names, function)).collect()
}

fn facts_of(
    accelerator: Accelerator,
    boots: MachineBoots<'_>,
    options: &BootOptions<'_>,
    command: &Command,
) -> BTreeMap<String, Figure> {
    let text = |text: &str| Figure::from(text);
    let without_kvm = match (accelerator, Path::new("/dev/kvm").exists()) {
        (Accelerator::Kvm, _) => None,
        (Accelerator::Tcg, true) => Some("KVM is here and did not start this kernel"),
        (Accelerator::Tcg, false) => Some("this host has no /dev/kvm"),
    };
    let without_kvm = without_kvm.map(|why| ("guest.without_kvm", text(why)));
    let (kernel, sha256) = boots.kernel();
    [
        ("guest.accelerator", text(accelerator.name())),
        ("guest.kernel", text(kernel)),
        ("guest.kernel_sha256", text(sha256)),
        ("guest.qemu", text(options.qemu)),
        ("guest.command", text(&command.to_string())),
    ]
    .into_iter()
    .chain(without_kvm)
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

fn accelerator(guest: &Guest, options: &BootOptions<'_>, folder: &Path) -> Result<Accelerator, RunError> {
    let BootOptions { state, cache, stop, qemu, .. } = *options;
    let silence = BOOTS;
    probe::accelerator(guest, &GuestOptions { guest, folder, state, cache, stop, silence }, qemu, None)
}

/// Connects to the machine's port and waits for its steward.
fn meet(name: &str, folder: &Path, qemu: &mut Qemu, options: &BootOptions<'_>) -> Result<Distant<Trunk>, RunError> {
    let broke = |qemu: &mut Qemu, what: &str| {
        qemu.wait(LOOK * 4);
        let at = qemu.ended().is_none().then(|| console::processors(&qemu.registers()));
        GuestError::NotUp {
            name: name.to_owned(),
            what: what.to_owned() + &at.map_or(String::new(), |at| format!("; {at}")),
            console: watch::console(folder),
            qemu: qemu.said(),
        }
    };
    let failed = |source| GuestError::Start { source };
    // Until the port is connected the machine waits, so all that it writes has this limit.
    limit_files(qemu.pid()).map_err(|error| failed(error.into()))?;
    let socket = connect(folder, qemu, options.stop).map_err(|what| broke(qemu, &what))?;
    let clone = || socket.try_clone().map_err(failed);
    socket.set_write_timeout(Some(TAKES)).map_err(failed)?;
    let mut from = Patient { socket: clone()?, until: Instant::now() + BOOTS, limit: BOOTS, stop: options.stop };
    socket.set_read_timeout(Some(HEARS)).map_err(failed)?;
    let (at, ends) = (folder.to_owned(), clone()?);
    let link = Link {
        why: Box::new(move || format!("with the virtual machine: {}", watch::console(&at))),
        cut: Box::new(move || drop(ends.shutdown(Shutdown::Both))),
    };
    let heard = Trunk::hear(&mut from);
    heard.map_err(|error| broke(qemu, &format!("did not come up ({error})")))?;
    // From now on whoever waits sets the time. The limit is the socket's, whoever reads it.
    socket.set_read_timeout(None).map_err(failed)?;
    let trunk = Trunk::over(clone()?, clone()?, link);
    Ok(Distant::meet(trunk, name, options.version)?)
}

fn limit_files(pid: u32) -> rustix::io::Result<()> {
    let limit = Rlimit { current: Some(CONSOLE_MOST), maximum: Some(CONSOLE_MOST) };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    prlimit(pid, Resource::Fsize, limit).map(drop)
}

fn connect(folder: &Path, qemu: &mut Qemu, stop: &AtomicBool) -> Result<UnixStream, String> {
    // A path of a socket has room for 107 bytes, and the folder's may be longer.
    let open = fs::File::open(folder).map_err(|error| format!("cannot be reached: {error}"))?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd())).join(TRUNK);
    let until = Instant::now() + QEMU_STARTS;
    loop {
        match UnixStream::connect(&short) {
            Ok(socket) => return Ok(socket),
            Err(_) if qemu.ended().is_some() => return Err("ended at once".to_owned()),
            Err(_) if stop.load(Relaxed) => return Err("was stopped by a signal".to_owned()),
            Err(_) if Instant::now() < until => qemu.wait(LOOK),
            Err(error) => return Err(format!("has no port to be reached by: {error}")),
        }
    }
}

/// In a guest: starts the machines of its experiment, one after the other.
///
/// # Errors
/// If one has nothing to boot, or does not come up.
pub fn boot_packed(
    machines: &BTreeMap<HostId, (String, Machine)>,
    version: &str,
    here: &mut dyn Host,
) -> Result<Vec<Booted>, RunError> {
    if machines.is_empty() {
        return Ok(Vec::new());
    }
    let all = AllPacked::read()?;
    let (stop, cache) = (AtomicBool::new(false), Path::new("/"));
    let options = BootOptions { version, state: Path::new(names::STATE), cache, stop: &stop, qemu: &all.qemu };
    let mut booted = Vec::new();
    let has_port = |machine: &Machine| machine.passed.as_ref().is_some_and(|passed| passed.is_guests);
    if let Some((name, _)) = machines.values().find(|(_, machine)| has_port(machine)) {
        let ready = vfio::ready();
        let says = Tool::new(ready.program()).args(&ready.argv()[1..]).run();
        says.map_err(|says| GuestError::Machine { name: name.clone(), why: format!("`{ready}`: {says}") })?;
    }
    for (host, (name, machine)) in machines {
        let refused = |why: &str| GuestError::Machine { name: name.clone(), why: why.to_owned() };
        let packed = all.machines.get(&host.number()).ok_or_else(|| refused("nothing was packed for it to boot"))?;
        if !Path::new("/dev/kvm").exists() {
            let why = "the guest's kernel has no KVM for AMD's processors (module kvm_amd): take another one, as --kernel debian:6.12";
            return Err(refused(why).into());
        }
        check(name, machine, *host, (&all.qemu, true))?;
        booted.push(boot(&Asked { host: *host, name, machine, boots: MachineBoots::Packed(packed) }, &options, here)?);
    }
    Ok(booted)
}
