// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy guest`: kernels for guests, and what one boots. And what `run` and `plan` need to know
//! of the guest that is asked for.

use crate::args::{Experiment as Asked, Guest as Call, GuestVerb, InGuest, Pack};
use crate::exit::{Exit, Failure, printable};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tardy_lab::guest::kernel::{self, Debian, Kernel, KernelError};
use tardy_lab::guest::machine::{self, BootOptions, Booted};
use tardy_lab::guest::qemu::{self, Accelerator, VirtualMachine};
use tardy_lab::guest::unpack::{self, Boots};
use tardy_lab::guest::{self, Guest, GuestError, Nested, emulator, extra, fetch, folder};
use tardy_lab::host::Host;
use tardy_lab::host::qemu as process;
use tardy_lab::identity;
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::path::vfio;
use tardy_lab::plan::Script;
use tardy_lab::run::RunError;
use tardy_model::machine::{HostId, RtLimit};
use tardy_model::manifest::GuestMode;
use tardy_model::path::Backend;
use tardy_model::station::Machine;
use tardy_model::stream::CpuChoice;
use tardy_model::stream::Side;
use tardy_spec::experiment::{Cell, Experiment, Setup};

/// Fetches, lists or packs.
pub fn call(args: Call) -> Result<Exit> {
    match args.verb {
        GuestVerb::Fetch { kernels, with } => {
            let kernels = if kernels.is_empty() { vec![kernel::DEFAULT.to_owned()] } else { kernels };
            for name in kernels {
                let which = kernel::debian(&name).ok_or_else(|| {
                    Failure::new(Exit::Usage, KernelError::Unknown { name: name.clone() }.to_string())
                })?;
                // What is built belongs to the kernel that is there.
                if !with.is_empty() && tardy_sys::process::is_root() {
                    eprintln!(
                        "tardy: what is built is compiled as root here, by programs out of fetched packages, and needs no root: {}",
                        tardy_sys::process::how_not_to_be_root()
                    );
                }
                if with.is_empty() || kernel::fetched(&kernel::cache(), which.name).is_none() {
                    fetch_one(which, with.is_empty())?;
                }
                with.iter()
                    .filter(|module| *module != emulator::NAME)
                    .try_for_each(|module| build_one(which, module))?;
            }
            match with.iter().any(|module| module == emulator::NAME) {
                true => build_emulator(),
                false => Ok(Exit::Good),
            }
        }
        GuestVerb::List => {
            super::print(&printable(&list()))?;
            Ok(Exit::Good)
        }
        GuestVerb::Pack(args) => pack(&args),
        GuestVerb::RemoveFiles { paths } => {
            let tried = paths.iter().map(|path| (path, guest::folder::remove(path)));
            let mut failed = tried.filter_map(|(path, tried)| Some((path, tried.err()?))).peekable();
            let code = if failed.peek().is_some() { Exit::Cannot } else { Exit::Good };
            failed.for_each(|(path, error)| {
                eprintln!("tardy: cannot remove {}: {error}", printable(&path.display().to_string()));
            });
            Ok(code)
        }
    }
}

/// Fetches a kernel: in place of one that is there, or only if there is none.
fn fetch_one(which: Debian, anew: bool) -> Result<()> {
    let cache = kernel::cache();
    let mut tell = |says: &str| eprintln!("{says}");
    let fetched = match anew {
        true => fetch::anew(&cache, which, &mut tell),
        false => fetch::unless_there(&cache, which, || fetch::fetch(&cache, which, &mut tell)),
    };
    let fetched = fetched.map_err(|error| Failure::new(Exit::Cannot, error.to_string()))?;
    let folder = kernel::folder(&cache, which.name);
    eprintln!("{}: {} {} in {}", which.name, fetched.package, fetched.version, folder.display());
    Ok(())
}

fn build_one(which: Debian, module: &str) -> Result<()> {
    let cache = kernel::cache();
    let extra = extra::extra(module).context("a module that can be built")?;
    let built = extra::build(&cache, which, extra, &mut |says| eprintln!("{says}"))
        .map_err(|error| Failure::new(Exit::Cannot, error.to_string()))?;
    eprintln!("{}: {} of {}, with {}", which.name, built.name, built.source, built.compiler);
    Ok(())
}

fn build_emulator() -> Result<Exit> {
    let built = emulator::build(&kernel::cache(), &mut |says| eprintln!("{says}"))
        .map_err(|error| Failure::new(Exit::Cannot, error.to_string()))?;
    eprintln!("{}: of {}, with {}", emulator::NAME, built.source, built.compiler);
    Ok(Exit::Good)
}

fn list() -> String {
    let cache = kernel::cache();
    let mut out = format!("{:<16}{:<10}{:<48}sha256 of the image\n", "kernel", "suite", "package");
    for debian in kernel::DEBIAN {
        let fetched = kernel::fetched(&cache, debian.name);
        let (package, sum) = match &fetched {
            // Enough to distinguish two; the whole sum is in `kernel.json`.
            Some(of) => {
                (format!("{} {}", of.package, of.version), of.image_sha256.chars().take(16).chain(['…']).collect())
            }
            None => ("not fetched".to_owned(), String::new()),
        };
        let line = format!("{:<16}{:<10}{package:<48}{sum}", debian.name, debian.suite);
        let _ = writeln!(out, "{}", line.trim_end());
        for built in fetched.iter().flat_map(|fetched| &fetched.built) {
            let _ = writeln!(out, "{:<26}with {}, built of {}", "", built.name, built.source);
        }
    }
    let qemu = match emulator::found(&cache) {
        Some((_, built)) => format!("built of {}", built.source),
        None => "not built".to_owned(),
    };
    let _ = writeln!(out, "{:<16}{qemu}: runs virtual machines in a guest", emulator::NAME);
    let running = match kernel::find(&cache, "running") {
        Ok(kernel) => format!("{} {}", kernel.release, kernel.image.display()),
        Err(KernelError::Read { path, source, .. }) if source.kind() == ErrorKind::NotFound => {
            format!("not here: no {}; name a file by --kernel", path.display())
        }
        Err(KernelError::Read { path, source, .. }) => {
            format!("cannot be read: {}: {}; name a file by --kernel", path.display(), source.kind())
        }
        Err(error) => error.to_string(),
    };
    let _ = writeln!(out, "{:<16}{running}\n`tardy guest fetch KERNEL` fetches one of Debian's", "running");
    out
}

/// The kernel and the program of a virtual machine that is a station.
pub fn of_station(machine: &Machine) -> Result<Guest> {
    let (kernel, boots) = kernel_of(&machine.kernel)?;
    Ok(Guest {
        mode: GuestMode::RealTime,
        kernel,
        boots,
        append: machine.append.clone(),
        // As here, so that a clock that shows both is the same.
        tai_offset_s: tardy_sys::clock::tai_offset_s(),
        program: identity::SELF.into(),
        sandbox: process::has_sandbox().unwrap_or(true),
        emulator: process::PROGRAM.into(),
        machines: BTreeMap::new(),
    })
}

/// The virtual machines of an experiment, each with what it boots.
#[derive(Default)]
pub struct Machines {
    machines: BTreeMap<HostId, (String, Machine, Guest)>,
    /// What QEMU says of its version.
    qemu: String,
    /// Those that only optional cells ask for, and that this host cannot have, with the reason.
    refused: BTreeMap<HostId, String>,
}

impl Machines {
    /// Those of an experiment, which this machine can have.
    pub fn of(experiment: &Experiment) -> Result<Machines> {
        let asked = experiment.machines();
        if asked.is_empty() {
            return Ok(Machines::default());
        }
        let cannot = |error: GuestError| Failure::new(Exit::Cannot, error.to_string());
        // What a guest's own devices need is none of a machine's.
        let qemu = guest::qemu_version(Path::new(process::PROGRAM)).map_err(cannot)?;
        let has_filter = process::has_sandbox().unwrap_or(false);
        let mut refused = BTreeMap::new();
        for (host, (name, machine)) in &asked {
            match machine::check(name, machine, *host, (&qemu, has_filter)) {
                Err(why) if experiment.can_do_without(*host) => drop(refused.insert(*host, why.to_string())),
                checked => checked.map_err(cannot)?,
            }
        }
        experiment.refuse_on_links_of(&mut refused);
        let is_refused = |cell: &Cell| hosts_of(cell).any(|host| refused.contains_key(&host));
        if let Some(why) = refused.values().next().filter(|_| experiment.cells.iter().all(is_refused)) {
            return Err(Failure::new(Exit::Cannot, why.clone()).into());
        }
        let is_possible = |host: &HostId| !refused.contains_key(host);
        let all = asked.iter().filter(|(host, _)| is_possible(host)).map(|(_, (_, machine))| machine);
        machine::check_memory(all, tardy_sys::proc::available_memory_bytes()).map_err(cannot)?;
        let mut machines = BTreeMap::new();
        for (host, (name, machine)) in asked.into_iter().filter(|(host, _)| is_possible(host)) {
            let guest = of_station(&machine)?;
            machines.insert(host, (name, machine, guest));
        }
        Ok(Machines { machines, qemu, refused })
    }

    /// Takes the cells out of an experiment that need a machine which this host cannot have: their
    /// ids, each with the reason.
    pub fn take_refused(&self, experiment: &mut Experiment) -> Vec<(String, String)> {
        let why = |cell: &Cell| hosts_of(cell).find_map(|host| self.refused.get(&host));
        let refused = experiment.cells.iter().filter_map(|cell| Some((cell.id.clone(), why(cell)?.clone()))).collect();
        experiment.cells.retain(|cell| why(cell).is_none());
        refused
    }

    /// Starts them, one after the other.
    pub fn boot(&self, state: &Path, stop: &AtomicBool, here: &mut dyn Host) -> Result<Vec<Booted>> {
        let (version, cache) = (identity::version(), kernel::cache());
        let options = BootOptions { version: &version, state, cache: &cache, stop, qemu: &self.qemu };
        let mut booted = Vec::new();
        for (host, (name, machine, guest)) in &self.machines {
            let asked = machine::Asked { host: *host, name, machine, boots: machine::MachineBoots::Made(guest) };
            match machine::boot(&asked, &options, here) {
                // Whatever else went wrong then, it is the signal's doing.
                _ if stop.load(Ordering::Relaxed) => {
                    let says = format!("stopped by a signal while station `{name}` booted; nothing was measured");
                    return Err(Failure::new(Exit::Interrupted, says).into());
                }
                machine => booted.push(machine?),
            }
        }
        Ok(booted)
    }
}

/// The hosts of a cell's stations, and its bystanders.
fn hosts_of(cell: &Cell) -> impl Iterator<Item = HostId> + '_ {
    cell.setup.stations.values().flat_map(|station| station.hosts())
}

/// For a plan: how the experiment's virtual machines are started, and what of them it rests on.
pub fn stations(experiment: &Experiment, mut found: FactsByHost, out: &mut Script) -> Result<FactsByHost> {
    for (host, (name, machine)) in experiment.machines() {
        let (kernel, boots) = known_kernel(&machine.kernel)?;
        let virtual_machine = VirtualMachine {
            mode: GuestMode::RealTime,
            accelerator: Accelerator::Tcg,
            cpus: machine.cpus,
            memory_mib: machine.memory_mib,
            kernel: boots.path.display().to_string(),
            append: machine.append.clone(),
            sandbox: process::has_sandbox().unwrap_or(true),
        };
        let names = Names::FIRST;
        let handed = machine.passed.as_ref().map(|passed| {
            let found = vfio::read(&passed.device);
            let mac = names.machine_mac(host, Backend::Vfio.slot());
            vfio::refusal(passed, &found).map_or_else(|| Ok(vfio::handed(passed, &found, &mac)), Err)
        });
        let handed = match handed.unwrap_or(Ok(None)) {
            Err(why) => {
                out.comment(&format!("station {name}: {why}"));
                None
            }
            Ok(handed) => handed,
        };
        for command in handed.iter().flat_map(|handed| &handed.steps).flat_map(|step| &step.does) {
            out.comment(&command.to_string());
        }
        let function = handed.as_ref().map(|handed| handed.address.as_str());
        let arguments = machine::arguments(&virtual_machine, &machine, host, names, function);
        out.comment(&format!(
            "station {name} is a virtual machine with kernel {}, started before all else, by KVM where that starts ordinary kernels:",
            kernel.release
        ));
        out.comment(&machine::command(&machine, host, names, &arguments).to_string());
        found = found.and(host, machine::facts(&machine));
    }
    Ok(found)
}

/// The guest that is asked for, with its kernel, which is fetched where it is missing.
pub fn asked(args: &InGuest, experiment: &Experiment) -> Result<Option<Guest>> {
    let Some(place) = &args.place else { return Ok(None) };
    let mode = if place == GuestMode::Exact.name() { GuestMode::Exact } else { GuestMode::RealTime };
    let (kernel, boots) = kernel_of(args.kernel.as_deref().unwrap_or(kernel::DEFAULT))?;
    let guest = with_machines(make(args, mode, kernel, boots)?, experiment, kernel_of)?;
    if lacks_emulator(&guest) {
        return Err(Failure::new(Exit::Cannot, GuestError::NoEmulator.to_string()).into());
    }
    Ok(Some(guest))
}

/// True if it is to run machines itself, and the QEMU that can do so is not there.
fn lacks_emulator(guest: &Guest) -> bool {
    !guest.machines.is_empty() && guest.mode == GuestMode::Exact && emulator::found(&kernel::cache()).is_none()
}

/// A kernel, which is fetched where it is missing.
fn kernel_of(name: &str) -> Result<(Kernel, Boots)> {
    let cache = kernel::cache();
    let found = match (kernel::find(&cache, name), kernel::debian(name)) {
        (Err(KernelError::NotFetched(_)), Some(which)) => {
            fetch_one(which, false)?;
            kernel::find(&cache, name)
        }
        (found, _) => found,
    };
    let kernel = found.map_err(refused)?;
    let boots = unpack::bootable(&cache, &kernel);
    Ok((kernel, boots))
}

/// The same for a plan, which fetches nothing: a kernel that is missing has a name and a place all
/// the same.
pub fn known(args: &InGuest, experiment: &Experiment) -> Result<Option<Guest>> {
    let Some(place) = &args.place else { return Ok(None) };
    let mode = if place == GuestMode::Exact.name() { GuestMode::Exact } else { GuestMode::RealTime };
    let (kernel, boots) = known_kernel(args.kernel.as_deref().unwrap_or(kernel::DEFAULT))?;
    Ok(Some(with_machines(make(args, mode, kernel, boots)?, experiment, known_kernel)?))
}

/// A kernel that may be missing.
fn known_kernel(name: &str) -> Result<(Kernel, Boots)> {
    let cache = kernel::cache();
    let kernel = match kernel::find(&cache, name) {
        Err(KernelError::NotFetched(_)) => Kernel {
            name: name.to_owned(),
            image: kernel::folder(&cache, name).join("boot/vmlinuz"),
            release: format!("not fetched yet: tardy guest fetch {name}"),
            modules: None,
            sha256: String::new(),
            sums: None,
        },
        found => found.map_err(refused)?,
    };
    let boots = Boots { path: kernel.image.clone(), sha256: kernel.sha256.clone() };
    Ok((kernel, boots))
}

fn make(args: &InGuest, mode: GuestMode, kernel: Kernel, boots: Boots) -> Result<Guest> {
    Ok(Guest {
        mode,
        kernel,
        boots,
        append: args.append.clone().unwrap_or_default(),
        tai_offset_s: args.tai_offset,
        // This very program, also where another one has taken its name since.
        program: identity::SELF.into(),
        // Without a QEMU the plan is that of a usual one; a run is refused soon.
        sandbox: process::has_sandbox().unwrap_or(true),
        emulator: process::PROGRAM.into(),
        machines: BTreeMap::new(),
    })
}

/// The guest with what the experiment's virtual machines boot in it, by `kernel_of` a kernel.
fn with_machines(
    guest: Guest,
    experiment: &Experiment,
    kernel_of: impl Fn(&str) -> Result<(Kernel, Boots)>,
) -> Result<Guest> {
    let nested = |machine: Machine| -> Result<Nested> {
        let (kernel, boots) = kernel_of(&machine.kernel)?;
        let of = Guest { kernel, boots, append: machine.append.clone(), machines: BTreeMap::new(), ..guest.clone() };
        Ok(Nested { machine, guest: of })
    };
    let cannot = |error: GuestError| Failure::new(Exit::Cannot, error.to_string());
    let asked = experiment.machines();
    asked.iter().try_for_each(|(host, (name, _))| machine::check_number(name, *host).map_err(cannot))?;
    let all = asked.values().map(|(_, machine)| machine);
    machine::check_memory(all, tardy_sys::proc::available_memory_bytes()).map_err(cannot)?;
    let machines = asked.into_iter().map(|(host, (_, machine))| Ok((host, nested(machine)?)));
    let machines = machines.collect::<Result<BTreeMap<_, _>>>()?;
    // What QEMU is here may be too old for the experiment's devices.
    let is_old = || matches!(guest::qemu_for(experiment, &guest.emulator), Err(GuestError::NotInGuest { .. }));
    let emulator = match emulator::found(&kernel::cache()) {
        Some((program, _)) if !machines.is_empty() || is_old() => program,
        _ => guest.emulator.clone(),
    };
    Ok(Guest { emulator, machines, ..guest })
}

/// What of the guest a plan rests on, as far as it is known before it boots.
pub fn facts(guest: &Guest) -> FactsByHost {
    // What every kernel begins with (kernel/sched/rt.c), unless its command line changes it.
    let limit = RtLimit { period_ns: 1_000_000_000, runtime_ns: 950_000_000 };
    let own = Facts {
        usable: (0..guest.cpus()).collect(),
        rt_limit: Some(limit).filter(|_| !guest.append.contains("sched_rt_")),
        release: Some(guest.kernel.release.clone()),
        // As Debian's kernels begin (CONFIG_BPF_JIT_DEFAULT_ON).
        bpf_jit: Some(1),
        ..Facts::default()
    };
    let machines = guest.machines.iter().map(|(host, of)| (*host, machine::facts(&of.machine)));
    machines.fold(own.into(), |found, (host, facts)| found.and(host, facts))
}

/// What a person should know before a guest is started: that its QEMU has more rights than it
/// needs.
pub fn warn(guest: &Guest) {
    if tardy_sys::process::is_root() {
        eprintln!(
            "tardy: warning: QEMU runs as root here, with all rights of root, and a guest needs none: {}",
            tardy_sys::process::how_not_to_be_root()
        );
    }
    if !guest.sandbox {
        eprintln!(
            "tardy: warning: this QEMU cannot filter its own system calls (-sandbox): run only kernels that you would run on this machine"
        );
    }
}

fn refused(error: KernelError) -> Failure {
    let exit = if matches!(error, KernelError::Unknown { .. }) { Exit::Usage } else { Exit::Cannot };
    Failure::new(exit, error.to_string())
}

/// The environment's word for [`silence`].
const SILENCE: &str = "TARDY_GUEST_SILENCE_S";

/// A guest that sends nothing for this much processor time hangs.
pub fn silence() -> Result<Duration> {
    let Some(text) = std::env::var_os(SILENCE) else { return Ok(Duration::from_secs(120)) };
    let seconds = text.to_str().and_then(|text| text.trim().parse().ok()).filter(|seconds| *seconds > 0);
    let seconds = seconds.ok_or_else(|| {
        let text = text.to_string_lossy();
        let why =
            format!("{SILENCE} is \"{text}\", and must be a whole number of seconds from 1 on: write one, or unset it");
        Failure::new(Exit::Usage, why)
    })?;
    Ok(Duration::from_secs(seconds))
}

/// Keys of a set-up that say `different`.
fn different(setup: &Setup) -> Vec<String> {
    let streams = setup.streams.iter().flat_map(|stream| {
        let ends = Side::of(stream).filter(move |end| end.cpu(stream) == CpuChoice::Different);
        ends.map(move |end| format!("stream.{}.{end}.cpu", stream.name))
    });
    let loads = setup.loads.iter().flat_map(|load| {
        let ends = [("cpu", load.cpu), ("peer_cpu", load.peer_cpu)].into_iter();
        let ends = ends.filter(|(_, cpu)| *cpu == CpuChoice::Different);
        ends.map(move |(key, _)| format!("load.{}.{key}", load.name))
    });
    let softirq = setup.softirq.cpus.iter().filter(|(_, cpu)| **cpu == CpuChoice::Different);
    streams.chain(loads).chain(softirq.map(|(station, _)| format!("station.{station}.softirq"))).collect()
}

/// Keys that the user wrote: on the command line, and in their own file, where a case's begin with
/// `case.NAME` and an axis's with `matrix`. A ready-made experiment's words are not theirs.
fn written(args: &Asked) -> Result<BTreeSet<String>> {
    let source = tardy_spec::resolve(&args.experiment)?;
    let mut keys = tardy_spec::keys_set(&source, &args.set)?;
    if tardy_spec::ready_made(&args.experiment).is_none() {
        keys.extend(tardy_spec::keys(&source)?.into_keys());
    }
    Ok(keys)
}

/// Refuses what the guest cannot do. With one processor nothing runs on a different one: a user who
/// wants that on the command line or in their own file gets an error. If only a default or a
/// ready-made experiment asks for it, it runs and is marked.
pub fn check(guest: &Guest, args: &Asked, experiment: &Experiment) -> Result<()> {
    guest::check(guest.mode, experiment).map_err(RunError::from)?;
    if guest.mode != GuestMode::Exact {
        return Ok(());
    }
    let written = written(args)?;
    for cell in &experiment.cells {
        let case = cell.axes.get("case").map(|name| format!("case.{name}."));
        let prefixes = || ["", "matrix."].into_iter().chain(case.as_deref());
        let is_written = |key: &String| prefixes().any(|prefix| written.contains(&format!("{prefix}{key}")));
        if let Some(key) = different(&cell.setup).into_iter().find(is_written) {
            let why = format!(
                "{key} is \"different\", and a guest in exact time has one processor, which all share: say `--set {key}=same` and know \
                 it, or run it on this machine or in a guest in real time (--in guest)"
            );
            return Err(RunError::from(GuestError::NotInGuest { cell: cell.id.clone(), why }).into());
        }
    }
    Ok(())
}

/// The commands that start the guest, for a script.
pub fn script(guest: &Guest, args: &Asked, experiment: &Experiment, out: &mut Script) {
    let word = |text: &str| tardy_lab::command::Command::new(text, &[]).to_string();
    // It is to be run in its own folder, where a file's relative path leads nowhere.
    let file = match tardy_spec::ready_made(&args.experiment) {
        Some(_) => None,
        None => std::path::absolute(&args.experiment).ok().and_then(|path| path.into_os_string().into_string().ok()),
    };
    let mut pack = format!("tardy guest pack {}", word(file.as_deref().unwrap_or(&args.experiment)));
    let trials = args.trials.map(|trials| format!("trials={trials}"));
    for set in args.set.iter().chain(&trials) {
        let _ = write!(pack, " --set {}", word(set));
    }
    if guest.tai_offset_s != 0 {
        let _ = write!(pack, " --tai-offset {}", guest.tai_offset_s);
    }
    let machine = guest.machine(experiment, Accelerator::Tcg);
    let arguments = guest.arguments(&machine, experiment);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let qemu = tardy_lab::command::Command::new(&guest.emulator.to_string_lossy(), &arguments);
    let name = &guest.kernel.name;
    let commands = [
        format!("{pack} --in {} --kernel {} -o {}", guest.mode.name(), word(name), folder::INITRAMFS),
        qemu.to_string(),
    ];
    out.comment(&format!(
        "in a guest with kernel {name} ({}), whose only process is tardy; in its own folder:",
        guest.kernel.release
    ));
    let lacks_emulator = lacks_emulator(guest).then_some(GuestError::NoEmulator);
    match lacks_emulator.map_or_else(|| guest::qemu_for(experiment, &guest.emulator), Err) {
        Ok(_) => commands.iter().for_each(|command| out.line(command)),
        // As a run would be: another machine's QEMU may have it.
        Err(why) => {
            out.comment(&format!("refused on this machine: {why}"));
            commands.iter().for_each(|command| out.comment(command));
        }
    }
    out.comment(&format!(
        "what it measured is in the file `{}`, which only `tardy run` can read, and only while it comes; by hand",
        folder::PORT
    ));
    out.comment(&format!(
        "`{}` shows how it ended: its last line is \"reboot: Power down\" where tardy switched the guest off, at its end",
        qemu::CONSOLE
    ));
}

fn pack(args: &Pack) -> Result<Exit> {
    let experiment = super::load(&args.experiment, &[])?;
    let guest = asked(&args.guest, &experiment)?
        .ok_or_else(|| Failure::new(Exit::Usage, "say which guest: --in guest or --in guest:exact"))?;
    check(&guest, &args.experiment, &experiment)?;
    let bytes = guest.archive(Some(&experiment)).map_err(RunError::from)?;
    super::write(&args.output, &bytes)?;
    Ok(Exit::Good)
}
