// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy guest`: kernels for guests. And what `run` and `plan` need to know of the guest that is asked for.

use crate::args::{Experiment as Asked, Guest as Call, GuestVerb, InGuest, Pack};
use crate::exit::{Exit, Failure};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tardy_lab::coordinator::RunError;
use tardy_lab::guest::kernel::{self, Debian, Kernel, KernelError};
use tardy_lab::guest::qemu::{self, Accelerator, Mode};
use tardy_lab::guest::{self, Guest, GuestError, devices, extra, fetch, unpack};
use tardy_model::stream::CpuChoice;
use tardy_spec::experiment::Experiment;
use tardy_spec::placement::End;

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
                if with.is_empty() || kernel::fetched(&kernel::cache(), which.name).is_none() {
                    fetch_one(which)?;
                }
                with.iter().try_for_each(|module| build_one(which, module))?;
            }
            Ok(Exit::Good)
        }
        GuestVerb::List => {
            super::print(&list())?;
            Ok(Exit::Good)
        }
        GuestVerb::Pack(args) => pack(&args),
    }
}

fn fetch_one(which: Debian) -> Result<()> {
    let cache = kernel::cache();
    let fetched = fetch::fetch(&cache, which, &mut |says| eprintln!("{says}"))
        .map_err(|error| Failure::new(Exit::Cannot, error.to_string()))?;
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

fn list() -> String {
    let cache = kernel::cache();
    let mut out = format!("{:<16}{:<10}{:<48}sha256 of the image\n", "kernel", "suite", "package");
    for debian in kernel::DEBIAN {
        let fetched = kernel::fetched(&cache, debian.name);
        let (package, sum) = match &fetched {
            Some(fetched) => (format!("{} {}", fetched.package, fetched.version), &fetched.image_sha256[..]),
            None => ("not fetched".to_owned(), ""),
        };
        let line = format!("{:<16}{:<10}{package:<48}{}", debian.name, debian.suite, sum.get(..16).unwrap_or(sum));
        let _ = writeln!(out, "{}", line.trim_end());
        for built in fetched.iter().flat_map(|fetched| &fetched.built) {
            let _ = writeln!(out, "{:<26}with {}, built of {}", "", built.name, built.source);
        }
    }
    let running = match kernel::find(&cache, "running") {
        Ok(kernel) => format!("{} {}", kernel.release, kernel.image.display()),
        Err(error) => error.to_string(),
    };
    let _ = writeln!(out, "{:<16}{running}", "running");
    out
}

/// The guest that is asked for, with its kernel, which is fetched where it is missing.
pub fn asked(args: &InGuest) -> Result<Option<Guest>> {
    let Some(place) = &args.place else { return Ok(None) };
    let mode = if place == Mode::Exact.name() { Mode::Exact } else { Mode::RealTime };
    let (cache, name) = (kernel::cache(), args.kernel.as_deref().unwrap_or(kernel::DEFAULT));
    let found = match (kernel::find(&cache, name), kernel::debian(name)) {
        (Err(KernelError::NotFetched(_)), Some(which)) => {
            fetch_one(which)?;
            kernel::find(&cache, name)
        }
        (found, _) => found,
    };
    let kernel = found.map_err(refused)?;
    let boots = unpack::bootable(&cache, &kernel);
    Ok(Some(make(args, mode, kernel, boots)?))
}

/// The same for a plan, which fetches nothing: a kernel that is missing has a name and a place all the same.
pub fn known(args: &InGuest) -> Result<Option<Guest>> {
    let Some(place) = &args.place else { return Ok(None) };
    let mode = if place == Mode::Exact.name() { Mode::Exact } else { Mode::RealTime };
    let (cache, name) = (kernel::cache(), args.kernel.as_deref().unwrap_or(kernel::DEFAULT));
    let kernel = match kernel::find(&cache, name) {
        Err(KernelError::NotFetched(_)) => Kernel {
            name: name.to_owned(),
            image: kernel::folder(&cache, name).join("boot/vmlinuz"),
            release: format!("not fetched yet: tardy guest fetch {name}"),
            modules: None,
            sha256: String::new(),
        },
        found => found.map_err(refused)?,
    };
    let boots = kernel.image.clone();
    Ok(Some(make(args, mode, kernel, boots)?))
}

fn make(args: &InGuest, mode: Mode, kernel: Kernel, boots: PathBuf) -> Result<Guest> {
    Ok(Guest {
        mode,
        kernel,
        boots,
        append: args.append.clone().unwrap_or_default(),
        tai_offset_s: args.tai_offset,
        program: std::env::current_exe().context("the path of this program, for the guest")?,
    })
}

fn refused(error: KernelError) -> Failure {
    let exit = if matches!(error, KernelError::Unknown { .. }) { Exit::Usage } else { Exit::Cannot };
    Failure::new(exit, error.to_string())
}

/// A guest that says nothing for so much processor time hangs.
pub fn silence() -> Duration {
    let set = std::env::var("TARDY_GUEST_SILENCE_S").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(set.unwrap_or(120))
}

/// Refuses what the guest cannot do. With one processor nothing runs on a different one: who says so on the command line or in a file
/// of their own is told; a ready-made experiment, which only prefers it, runs and is marked.
pub fn possible(guest: &Guest, args: &Asked, experiment: &Experiment) -> Result<()> {
    guest::possible(experiment).map_err(RunError::from)?;
    let names_it = |set: &String| {
        set.split_once('=').is_some_and(|(key, value)| key.trim().ends_with("cpu") && value.contains("different"))
    };
    let said_so = args.set.iter().any(names_it) || tardy_spec::ready_made(&args.experiment).is_none();
    if guest.mode != Mode::Exact || !said_so {
        return Ok(());
    }
    for cell in &experiment.cells {
        for stream in &cell.setup.streams {
            if let Some(end) = End::of(stream).find(|end| end.cpu(stream) == CpuChoice::Different) {
                let (key, cell) = (format!("stream.{}.{end}.cpu", stream.name), cell.id.clone());
                let why = format!(
                    "{key} is \"different\", and a guest in exact time has one processor, so both ends would share it: say \
                     `--set {key}=same` and know it, or run it on this machine or in a guest in real time (--in guest)"
                );
                return Err(RunError::from(GuestError::NotInGuest { cell, why }).into());
            }
        }
    }
    Ok(())
}

/// The commands that start the guest, for a script.
pub fn script(guest: &Guest, args: &Asked, experiment: &Experiment) -> String {
    let word = |text: &str| tardy_lab::command::Command::new(text, &[]).to_string();
    let mut pack = format!("tardy guest pack {}", word(&args.experiment));
    let trials = args.trials.map(|trials| format!("trials={trials}"));
    for set in args.set.iter().chain(&trials) {
        let _ = write!(pack, " --set {}", word(set));
    }
    if guest.tai_offset_s != 0 {
        let _ = write!(pack, " --tai-offset {}", guest.tai_offset_s);
    }
    let machine = guest.machine(experiment, Accelerator::Tcg);
    let arguments = [machine.arguments(), devices::arguments(experiment)].concat();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let qemu = tardy_lab::command::Command::new(qemu::PROGRAM, &arguments);
    let name = &guest.kernel.name;
    format!(
        "# in a guest with kernel {name} ({}), whose only process is tardy; in a folder of its own:\n\
         {pack} --in {} --kernel {} -o {}\n{qemu}\n# what it measured is in the file `{}`\n",
        guest.kernel.release,
        guest.mode.name(),
        word(name),
        qemu::INITRAMFS,
        qemu::PORT,
    )
}

fn pack(args: &Pack) -> Result<Exit> {
    let experiment = super::load(&args.experiment)?;
    let guest = asked(&args.guest)?
        .ok_or_else(|| Failure::new(Exit::Usage, "say which guest: --in guest or --in guest:exact"))?;
    possible(&guest, &args.experiment, &experiment)?;
    let bytes = guest.archive(Some(&experiment)).map_err(RunError::from)?;
    write(&args.output, &bytes)?;
    Ok(Exit::Good)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error| Failure::new(Exit::Cannot, format!("cannot write {}: {error}", path.display()));
    Ok(fs::write(path, bytes).map_err(failed)?)
}
