// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest whose first process is a script of the test's: it runs tardy, and what else the test
//! wants, and writes to the port. In an exact one tardy starts machines by the guest's own KVM.

use crate::command::{Place, tardy, wait};
use crate::{KERNEL, rooted};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tardy_lab::guest::initramfs::Archive;
use tardy_lab::guest::kernel::{self, Kernel};
use tardy_lab::guest::qemu::{Accelerator, CONSOLE, VirtualMachine};
use tardy_lab::guest::{emulator, folder, modules, nested, programs, unpack};
use tardy_lab::host::qemu;
use tardy_model::manifest::GuestMode;

/// What comes before the test's own lines: afterwards `/tmp` is there and the modules can be
/// loaded, tardy is `tardy`, and `/cache` has the kernel of its machines.
const BEGIN: &str = "#!/bin/sh\nmount -t proc proc /proc\nmount -t sysfs sys /sys\nmount -t devtmpfs dev /dev\n";
const MOUNTS: &str = "mount -t tmpfs run /run\nmount -t tmpfs tmp /tmp\nip link set dev lo up\ncd /tmp\n";
/// And after them: the port has all of it, and the guest ends.
const END: &str = "echo end >/dev/ttyS1\necho b >/proc/sysrq-trigger\n";

/// The kernel of these guests and of their machines.
pub fn kernel() -> Kernel {
    kernel::find(&kernel::cache(), KERNEL).expect("it is there")
}

/// What a machine boots whose first process is this script, with these modules, and the programs
/// that it calls in addition to those of a guest.
pub fn packed(wanted: &[&str], calls: &[&str], script: &str) -> Archive {
    let (mut archive, kernel) = (rooted(), kernel());
    programs::pack(true, calls, &mut archive).expect("its programs are here");
    let program = fs::read(tardy()).expect("the built binary");
    // By this name it loads modules.
    archive.file("/usr/bin/modprobe", program, true);
    archive.link("/usr/bin/tardy", "modprobe");
    let folder = kernel.modules.as_ref().expect("its modules");
    modules::pack(folder, kernel.sums.as_ref(), wanted, &mut archive).expect("its modules are there");
    archive.file("/begin", format!("{BEGIN}{script}").into_bytes(), true);
    archive
}

/// The exact guest, before it is started.
pub struct Scripted {
    pub archive: Archive,
    /// More words for its kernel.
    pub words: &'static str,
    /// More arguments for its QEMU.
    pub devices: &'static str,
}

impl Scripted {
    /// One with these modules and this script.
    pub fn new(wanted: &[&str], calls: &[&str], script: &str) -> Scripted {
        let wanted = [nested::MODULES, modules::WANTED, wanted].concat();
        let mut archive = packed(&wanted, calls, &format!("{MOUNTS}{script}{END}"));
        let (program, _) = emulator::found(&kernel::cache()).expect("it was found");
        programs::pack_qemu(&program, &mut archive).expect("it is here");
        cached_kernel(&kernel(), &mut archive);
        Scripted { archive, words: "", devices: "" }
    }

    /// Runs it to its end: what the script wrote to the port.
    pub fn run(self, place: &Place) -> String {
        let guest = VirtualMachine {
            mode: GuestMode::Exact,
            accelerator: Accelerator::Tcg,
            cpus: 1,
            memory_mib: 2048,
            kernel: unpack::bootable(&kernel::cache(), &kernel()).path.display().to_string(),
            // Nothing else gives this one randomness.
            append: format!("rdinit=/begin random.trust_cpu=on {}", self.words).trim_end().to_owned(),
            sandbox: false,
        };
        let (program, _) = emulator::found(&kernel::cache()).expect("it was found");
        let mut command = Command::new(program);
        command.args(guest.arguments()).args(self.devices.split_whitespace()).args(["-L", programs::QEMU_FOLDER]);
        boot(&mut command, &self.archive, place)
    }
}

/// Boots this machine's QEMU in real time, with this number of processors and without KVM: what
/// the script, with these modules and calls, wrote to the port.
pub fn in_real_time(
    cpus: u32,
    wanted: &[&str],
    calls: &[&str],
    script: &str,
    place: &Place,
    more: &[(&str, Vec<u8>)],
) -> String {
    let guest = VirtualMachine {
        mode: GuestMode::RealTime,
        accelerator: Accelerator::Tcg,
        cpus,
        memory_mib: 384,
        kernel: kernel().image.display().to_string(),
        append: "rdinit=/begin".to_owned(),
        sandbox: false,
    };
    let mut archive = packed(wanted, calls, &format!("{MOUNTS}{script}{END}"));
    more.iter().for_each(|(path, bytes)| archive.file(path, bytes.clone(), true));
    boot(Command::new(qemu::PROGRAM).args(guest.arguments()), &archive, place)
}

/// Has this QEMU boot the archive, until the script ends: what it wrote to the port.
fn boot(command: &mut Command, archive: &Archive, place: &Place) -> String {
    let folder = place.path("boots");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join(folder::INITRAMFS), archive.bytes()).expect("a file");
    let mut qemu = command.current_dir(&folder).stdin(Stdio::null()).spawn().expect("QEMU starts");
    let ended = wait(Duration::from_secs(1_800), || qemu.try_wait().expect("its state"));
    let _ = qemu.kill();
    let _ = qemu.wait();
    let read = |name: &str| String::from_utf8_lossy(&fs::read(folder.join(name)).unwrap_or_default()).into_owned();
    let said = read(folder::PORT);
    assert!(ended.is_some() && said.trim_end().ends_with("end"), "{said}\n{}", read(CONSOLE));
    said
}

/// The cache of a program that runs there, in `/cache`: the kernel, as it was fetched and unpacked,
/// with the modules that a machine gets.
fn cached_kernel(of: &Kernel, archive: &mut Archive) {
    let cache = kernel::cache();
    let root = kernel::folder(&cache, KERNEL);
    let mut put = |file: &Path| {
        let below = file.strip_prefix(&cache).expect("it is in the cache").display().to_string();
        archive.file(&format!("/cache/guest/{below}"), fs::read(file).expect("a file"), false);
    };
    let unpacked = unpack::bootable(&cache, of).path;
    let sum = cache.join("unpacked").join(format!("{}.sha256", of.sha256));
    for file in [&root.join("kernel.json"), &root.join(kernel::MODULE_SUMS), &of.image, &unpacked, &sum] {
        put(file);
    }
    let folder = of.modules.as_ref().expect("its modules");
    let wanted = [modules::WANTED, &["virtio_pci", "virtio_console", "virtio_net", "igb", "igbvf"]].concat();
    let mut packed = Archive::default();
    modules::pack(folder, None, &wanted, &mut packed).expect("they are there");
    let mut open = vec![folder.clone()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).expect("a folder").flatten().map(|entry| entry.path()) {
            let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let name = name.split_once(".ko").map_or("", |(name, _)| name).replace('-', "_");
            match entry.is_dir() {
                true => open.push(entry),
                false if packed.has(&format!("{}/{name}.ko", modules::FOLDER)) => put(&entry),
                false => {}
            }
        }
    }
}
