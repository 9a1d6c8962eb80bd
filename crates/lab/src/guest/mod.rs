// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run inside a guest: a QEMU machine with a kernel of one's choice, whose only process is
//! tardy. Nothing of the host is changed, and nothing of it enters but programs and the
//! experiment. What comes out comes over a serial port, frame by frame, to the same sink as a run
//! on this machine.

pub mod apt;
pub mod cached;
pub mod console;
pub mod devices;
pub mod elf;
pub mod emulator;
pub(crate) mod error;
pub mod expected;
pub mod extra;
pub mod fetch;
pub mod folder;
pub mod frame;
pub mod init;
pub mod initramfs;
pub mod kernel;
pub mod machine;
pub mod modules;
pub mod nested;
mod parts;
mod probe;
pub mod programs;
pub mod qemu;
pub mod relay;
pub mod unpack;
pub mod watch;

use crate::command::Command;
use crate::host::qemu::{self as process, Qemu};
use crate::journal::Journal;
use crate::run::{Ended, Event, RunError, Sink, What};
use crate::slot::{ClaimError, Slot};
use crate::step::{Action, Inverse};
pub use cached::sha256;
pub use error::GuestError;
use error::file;
pub use parts::{Guest, GuestOptions, Nested};
use qemu::Accelerator;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::{fs, io};
use tardy_model::manifest::{GuestEntry, GuestMode};
use tardy_model::path::Where;
use tardy_model::time::Nanos;
use tardy_spec::experiment::Experiment;

/// Refuses what no guest can do, before one is started.
///
/// # Errors
/// [`GuestError::NotInGuest`].
pub fn check(mode: GuestMode, experiment: &Experiment) -> Result<(), GuestError> {
    for cell in &experiment.cells {
        let mut stations = cell.setup.stations.iter();
        if let Some((name, _)) = stations.find(|(_, of)| of.kind.traits().is_machine && mode != GuestMode::Exact) {
            let why = format!(
                "station `{name}` is a virtual machine, and only a guest in exact time runs one of its own: run it with \
                 --in guest:exact, or here, without --in"
            );
            return Err(GuestError::NotInGuest { cell: cell.id.clone(), why });
        }
        let mut stations = cell.setup.stations.iter();
        if let Some((name, remote)) = stations.find_map(|(name, of)| Some((name, of.remote.as_ref()?))) {
            let why = format!(
                "station `{name}` is on `{}`, and a guest has no network to reach it: leave station.{name}.ssh out, or run it \
                 here, without --in",
                remote.ssh
            );
            return Err(GuestError::NotInGuest { cell: cell.id.clone(), why });
        }
        let path = &cell.setup.path;
        let devices = path.devices();
        if path.traits().place == Where::OnlyHere && !devices.is_empty() {
            let (name, devices) = (path.traits().name, devices.join("` and `"));
            let help = match path.traits().devices.backend() {
                Some(_) => "leave path.a, path.b and the stations' nic out",
                None => "use path.kind = \"veth\"",
            };
            let why = format!(
                "its path is a {name} between `{devices}`, devices of this machine, and a guest has none of them: {help}, \
                 or run it here"
            );
            return Err(GuestError::NotInGuest { cell: cell.id.clone(), why });
        }
        if let Some(object) = cell.setup.streams.iter().find_map(|stream| stream.rx.object.as_ref()) {
            let why = format!(
                "it loads the XDP program of {}, and a guest has none of this machine's files: run it here, or leave \
                 the object out",
                object.file
            );
            return Err(GuestError::NotInGuest { cell: cell.id.clone(), why });
        }
    }
    Ok(())
}

/// The version of a QEMU that has what the experiment needs.
///
/// # Errors
/// If there is none, or it has not.
pub fn qemu_for(experiment: &Experiment, program: &Path) -> Result<String, GuestError> {
    let version = qemu_version(program)?;
    devices::check(experiment, &version)?;
    Ok(version)
}

/// What a QEMU says of its version.
///
/// # Errors
/// If it is not there, or does not start.
pub fn qemu_version(program: &Path) -> Result<String, GuestError> {
    process::version(program).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => GuestError::NoQemu,
        _ => GuestError::Start { source: error },
    })
}

/// The slot with its journal, so that whoever finds this run killed can end its guest. Without the
/// right to write there the kernel's own way, that a guest dies with its parent, must do.
fn journal(state: &Path) -> Result<Option<Journal>, RunError> {
    match Slot::claim(state) {
        Ok(slot) => Ok(Some(slot.journal()?)),
        Err(ClaimError::State(error)) if error.is_denied() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Runs the experiment in a guest, to its end, a signal's or a failure's. The calling thread must
/// be the program's first: the guest dies with it.
pub fn run(experiment: &Experiment, options: &GuestOptions<'_>, sink: &mut dyn Sink) -> Ended {
    let mut end = Ended { interrupted: false, failed: None, not_put_back: None };
    match try_run(experiment, options, sink, &mut end) {
        Ok(()) => {}
        // What a signal broke is no failure.
        Err(_) if options.stop.load(Relaxed) => {}
        Err(error) => end.failed = Some(error),
    }
    end.interrupted = options.stop.load(Relaxed);
    end
}

fn try_run(
    experiment: &Experiment,
    options: &GuestOptions<'_>,
    sink: &mut dyn Sink,
    end: &mut Ended,
) -> Result<(), RunError> {
    let guest = options.guest;
    check(guest.mode, experiment)?;
    let version = qemu_for(experiment, &guest.emulator)?;
    let archive = guest.archive(Some(experiment))?;
    // The links on the way are those of now, whatever somebody makes of them later.
    let real = options.folder.canonicalize().map_err(file("find", options.folder))?;
    if real.to_str().is_none() {
        return Err(GuestError::Name { folder: real }.into());
    }
    let mut journal = journal(options.state)?;
    if let Some(journal) = &mut journal {
        journal.will_do(&[&[remove(options.folder)]])?;
    }
    let result = boot(experiment, options, version, archive, journal.as_mut(), end, sink);
    // QEMU is gone: what it was given and what it wrote for us is of no more use. Its console
    // stays.
    for path in [folder::INITRAMFS, folder::PORT].map(|name| real.join(name)) {
        folder::remove(&path).map_err(file("remove", &path))?;
    }
    if let Some(mut journal) = journal {
        journal.clear()?;
    }
    result
}

/// Removes what a killed run would leave in its folder: what its guest, and that of the probe
/// before it, was given and wrote.
pub fn remove(folder: &Path) -> Inverse {
    // The links on the way are those of today.
    let real = folder.canonicalize().or_else(|_| std::path::absolute(folder)).unwrap_or_else(|_| folder.to_owned());
    let path = |name: &str| real.join(name).display().to_string();
    let paths = folder::PASSING.map(path).to_vec();
    Inverse::here(Action::RemoveGuestFiles { paths })
}

/// Starts the guest and follows it to its end.
fn boot(
    experiment: &Experiment,
    options: &GuestOptions<'_>,
    version: String,
    archive: Vec<u8>,
    mut journal: Option<&mut Journal>,
    end: &mut Ended,
    sink: &mut dyn Sink,
) -> Result<(), RunError> {
    let guest = options.guest;
    let accelerator = match guest.mode {
        GuestMode::Exact => Accelerator::Tcg,
        GuestMode::RealTime => probe::accelerator(guest, options, &version, journal.as_deref_mut())?,
    };
    let machine = guest.machine(experiment, accelerator);
    let arguments = guest.arguments(&machine, experiment);
    let mut entry = GuestEntry {
        mode: guest.mode.name().to_owned(),
        accelerator: accelerator.name().to_owned(),
        cpus: machine.cpus,
        memory_mib: machine.memory_mib,
        kernel: guest.kernel.name.clone(),
        kernel_release: guest.kernel.release.clone(),
        kernel_sha256: guest.kernel.sha256.clone(),
        boots_sha256: Some(guest.boots.sha256.clone()),
        initramfs_sha256: sha256::of(&archive),
        proc_version: None,
        qemu: version,
        arguments: arguments.clone(),
        tai_offset_s: guest.tai_offset_s,
        boot_cpu_ns: None,
        boot_ns: None,
        cpu_ns: None,
        host: tardy_host::facts::read(),
    };
    sink.event(Event::now(What::Guest { entry: Box::new(entry.clone()) }));
    let program = guest.emulator.to_string_lossy();
    let line = Command::new(&program, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let commands =
        vec![line.to_string(), "the rest is done in that guest, and these are the guest's own words:".to_owned()];
    let (took_ns, failed) = (Nanos::ZERO, Vec::new());
    sink.event(Event::now(What::Commands { commands, took_ns, failed, elsewhere: true }));

    let initramfs = options.folder.join(folder::INITRAMFS);
    fs::write(&initramfs, archive).map_err(file("write", &initramfs))?;
    let mut qemu = Qemu::start(options.folder, &program, &arguments).map_err(|source| GuestError::Start { source })?;
    if let Some(journal) = journal {
        journal.agent(qemu.pid())?;
    }
    watch::follow(&mut qemu, options, machine.memory_mib, experiment, &mut entry, end, sink)
}
