// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest is made of: the machine that QEMU is to be, and the archive that its kernel
//! unpacks. And what the caller gives to a run in it in addition to the experiment.

use super::devices;
use super::elf;
use super::error::{GuestError, file};
use super::init;
use super::initramfs::Archive;
use super::kernel::Kernel;
use super::modules;
use super::nested::{self, ToPack};
use super::programs;
use super::qemu::{Accelerator, VirtualMachine};
use super::unpack;
use crate::coordinator;
use crate::host::qemu as process;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tardy_model::machine::HostId;
use tardy_model::manifest::GuestMode;
use tardy_model::station::Machine;
use tardy_spec::experiment::{self, Experiment, Setup};

/// What a guest is made of, apart from the experiment.
#[derive(Clone, Debug)]
pub struct Guest {
    /// How its time goes.
    pub mode: GuestMode,
    pub kernel: Kernel,
    /// The file that QEMU is given: the kernel's image, or what is inside.
    pub boots: unpack::Boots,
    /// More words for its kernel.
    pub append: String,
    /// TAI − UTC in it, seconds.
    pub tai_offset_s: i32,
    /// The program that it runs: this one.
    pub program: PathBuf,
    /// QEMU filters its own system calls.
    pub sandbox: bool,
    /// The QEMU that runs it: this machine's, or that of [`emulator`](super::emulator).
    pub emulator: PathBuf,
    /// Virtual machines that it runs itself, with what they boot.
    pub machines: BTreeMap<HostId, Nested>,
}

/// A virtual machine that a guest runs itself.
#[derive(Clone, Debug)]
pub struct Nested {
    pub machine: Machine,
    /// Its kernel and the program in it.
    pub guest: Guest,
}

/// Memory of a guest that measures next to nothing: kernel, initramfs twice while it is unpacked,
/// programs.
pub(super) const MEMORY_MIB: u64 = 256;
/// Processors of a guest in real time, at most.
const CPUS: usize = 4;

impl Guest {
    /// Its processors: one in exact time, else as many as here, up to a few.
    pub fn cpus(&self) -> u32 {
        match self.mode {
            GuestMode::Exact => 1,
            GuestMode::RealTime => tardy_host::cpus::usable().len().clamp(1, CPUS) as u32,
        }
    }

    /// The machine that the experiment needs.
    pub fn machine(&self, experiment: &Experiment, accelerator: Accelerator) -> VirtualMachine {
        let needed =
            experiment.cells.iter().map(|cell| coordinator::memory_of_machine(&cell.setup)).max().unwrap_or(0) >> 20;
        // In steps, so that a little more of something is no other machine.
        let more = (needed + needed / 2) / 64 * 64;
        VirtualMachine {
            mode: self.mode,
            accelerator,
            cpus: self.cpus(),
            memory_mib: MEMORY_MIB
                + more
                + nested::memory_mib(self.machines.values().map(|of| (&of.machine, &of.guest.boots))),
            kernel: self.boots.path.display().to_string(),
            append: [devices::kernel(experiment), self.append.clone()].join(" ").trim().to_owned(),
            sandbox: self.sandbox,
        }
    }

    /// QEMU's arguments: of its machine, and of the devices that the experiment needs.
    pub fn arguments(&self, machine: &VirtualMachine, experiment: &Experiment) -> Vec<String> {
        // A QEMU of our own lies where it does not find its files.
        let is_own = self.emulator != Path::new(process::PROGRAM);
        let files: &[&str] = if is_own { &["-L", programs::QEMU_FOLDER] } else { &[] };
        let files = files.iter().map(|word| (*word).to_owned()).collect();
        [machine.arguments(), devices::arguments(experiment), files].concat()
    }

    /// The initramfs. Its bytes follow from the programs, the kernel's modules and the experiment
    /// alone.
    ///
    /// # Errors
    /// If something that goes in cannot be read.
    pub fn archive(&self, experiment: Option<&Experiment>) -> Result<Vec<u8>, GuestError> {
        let steers = |experiment: &Experiment| {
            let places = |setup: &Setup| {
                setup.softirq != experiment::Softirq::default()
                    || setup.stations.values().any(|of| !of.threads.is_empty())
            };
            experiment.cells.iter().any(|cell| places(&cell.setup))
        };
        let mut own = experiment.map(devices::modules).unwrap_or_default();
        own.extend(nested::modules(self.machines.values().map(|of| &of.machine)));
        let programs = experiment.map(devices::programs).unwrap_or_default();
        let mut archive = self.packed(experiment.is_some_and(steers), &programs, &own)?;
        let mut machines = Vec::new();
        for (host, Nested { machine, guest }) in &self.machines {
            let initramfs = guest.archive_of(machine)?;
            machines.push(ToPack { host: *host, kernel: &guest.kernel, boots: &guest.boots, initramfs });
        }
        nested::pack(machines, &self.emulator, &mut archive)?;
        if let Some(experiment) = experiment {
            archive.file(init::EXPERIMENT, experiment.effective.clone().into_bytes(), false);
        }
        Ok(archive.bytes())
    }

    /// The initramfs of a virtual machine that is a station.
    ///
    /// # Errors
    /// If something that goes in cannot be read.
    pub fn archive_of(&self, machine: &Machine) -> Result<Vec<u8>, GuestError> {
        let orders = init::MachineOrders::of(machine);
        let modules: Vec<&str> = orders.modules.iter().map(String::as_str).collect();
        let mut archive = self.packed(true, &[], &modules)?;
        archive.file(init::STATION, serde_json::to_vec(&orders).unwrap_or_default(), false);
        Ok(archive.bytes())
    }

    /// What every guest has, with these programs and kernel modules in addition.
    fn packed(&self, steers: bool, programs: &[&str], own: &[&str]) -> Result<Archive, GuestError> {
        let mut archive = Archive::default();
        for folder in ["/proc", "/sys", "/dev", "/run", "/tmp", "/var", "/etc", "/root", "/modules", "/usr/bin"] {
            archive.folder(folder);
        }
        for (path, to) in [
            ("/bin", "usr/bin"),
            ("/sbin", "usr/bin"),
            ("/usr/sbin", "bin"),
            ("/usr/lib64", "lib/x86_64-linux-gnu"),
            ("/lib", "usr/lib"),
            ("/var/run", "../run"),
            ("/usr/bin/modprobe", "/init"),
        ] {
            archive.link(path, to);
        }
        // The kernel opens it for its first process, before that can mount anything.
        archive.device("/dev/console", 5, 1);
        let program = fs::read(&self.program).map_err(file("read", &self.program))?;
        archive.file("/init", elf::Elf::loaded(&program).unwrap_or(program), true);
        programs::pack(steers, programs, &mut archive)?;
        if let Some(folder) = &self.kernel.modules {
            modules::pack(folder, self.kernel.sums.as_ref(), &[modules::WANTED, own].concat(), &mut archive)?;
        }
        let orders = serde_json::to_vec(&init::Orders::new(self.tai_offset_s, self.mode == GuestMode::Exact))
            .unwrap_or_default();
        archive.file(init::ORDERS, orders, false);
        Ok(archive)
    }
}

/// What a run in a guest needs in addition to the experiment.
pub struct GuestOptions<'a> {
    pub guest: &'a Guest,
    /// Folder for what is kept of it, which is there.
    pub folder: &'a Path,
    /// Folder of slots and journals.
    pub state: &'a Path,
    /// Where fetched kernels lie, and what was found out about this machine.
    pub cache: &'a Path,
    /// Set by a signal.
    pub stop: &'a AtomicBool,
    /// A guest that says nothing for so much processor time hangs.
    pub silence: Duration,
}
