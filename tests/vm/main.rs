// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guest layer: the built binary runs experiments inside QEMU, on a kernel of Debian's. Here is
//! what every test starts from: a run in a guest, and its QEMU.

// What a test of the built binary needs, as the layer netns has it.
mod bare;
// Network cards that a run may take, as path wire's tests have them.
#[allow(dead_code)]
#[path = "../netns/cards.rs"]
mod cards;
#[allow(dead_code)]
#[path = "../netns/command.rs"]
mod command;
mod copies;
mod doctor;
mod elsewhere;
mod exact;
mod killed;
mod lost;
mod machine;
mod refused;
mod rig;
mod scripted;
mod shapers;
// The trial that also runs in a guest.
#[allow(dead_code)]
#[path = "../golden/two_hosts.rs"]
mod two_hosts;
mod uplinks;
mod vfio;
mod ways;
mod xdp_cost;
mod xdp_there;

use command::{Place, wait};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tardy_lab::guest::folder::PROBE;
use tardy_lab::guest::initramfs::Archive;
use tardy_lab::guest::{emulator, kernel};
use tardy_lab::host::qemu as process;

/// The kernel of these tests.
pub const KERNEL: &str = kernel::DEFAULT;

/// Few packets and two trials: seconds of an emulated machine.
pub const SHORT: [&str; 4] = ["--trials", "2", "--set", "stream.ctl.count=300"];

/// True if a guest can be started here; else the test is skipped and counted.
pub fn can_run(test: &str) -> bool {
    let why = match process::version(Path::new(process::PROGRAM)) {
        Err(error) => Some(format!("{}: {error}", process::PROGRAM)),
        Ok(_) => kernel::find(&kernel::cache(), KERNEL).err().map(|error| error.to_string()),
    };
    why.iter().for_each(|why| tardy_tests::skip(test, why));
    why.is_none()
}

/// True if a guest that runs machines itself can be started here, in the QEMU that is built for it;
/// else the test is skipped and counted. The soak builds it where it is missing.
pub fn can_run_machines(test: &str) -> bool {
    static ONE_BUILDS: Mutex<()> = Mutex::new(());
    // The one that an earlier version built has no igb.
    let is_there = || emulator::found(&kernel::cache()).is_some_and(|(_, built)| !built.source.contains(":7."));
    if std::env::var_os("TARDY_SOAK").is_some() {
        let _building = ONE_BUILDS.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_there() && !builds_emulator(test) {
            return false;
        }
    }
    if !is_there() {
        tardy_tests::skip(test, "no QEMU that runs machines in a guest: tardy guest fetch --with qemu");
        return false;
    }
    can_run(test)
}

/// Builds it, where root may; else the test is skipped and counted.
pub fn builds_emulator(test: &str) -> bool {
    let mut fetch = Command::new(command::tardy());
    let built = fetch.args(["guest", "fetch", KERNEL, "--with", "qemu"]).output().expect("tardy runs");
    let says = String::from_utf8_lossy(&built.stderr);
    if says.contains("another user than this one and root may write there") {
        tardy_tests::skip(test, "root does not build a QEMU in another user's folder");
        return false;
    }
    assert!(built.status.success(), "{says}");
    true
}

/// `tardy run host-to-host --in guest:exact … --out OUT`.
pub fn exact(place: &Place, args: &[&str]) -> Command {
    let mut command = place.run(&["--in", "guest:exact", "--kernel", KERNEL]);
    command.args(args);
    command
}

/// The folders of a machine that a test boots itself, before any program is in them.
pub fn rooted() -> Archive {
    let mut archive = Archive::default();
    for folder in ["/proc", "/sys", "/dev", "/run", "/tmp", "/var", "/etc", "/usr/bin"] {
        archive.folder(folder);
    }
    for (path, to) in [
        ("/bin", "usr/bin"),
        ("/sbin", "usr/bin"),
        ("/usr/sbin", "bin"),
        ("/usr/lib64", "lib/x86_64-linux-gnu"),
        ("/lib", "usr/lib"),
        ("/lib64", "usr/lib64"),
        ("/var/run", "../run"),
    ] {
        archive.link(path, to);
    }
    archive.device("/dev/console", 5, 1);
    archive
}

/// Process ids of this process's children that are QEMUs.
pub fn qemus(parent: u32) -> Vec<u32> {
    let is_ours = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((name, fields)) = stat.rsplit_once(')') else { return false };
        // Not the one that was only asked for its version.
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let boots = words.split(|byte| *byte == 0).any(|word| word == b"-initrd");
        // Nor the one by which tardy finds out whether KVM starts a kernel, which ends soon.
        let folder = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        let is_tried = folder.file_name().is_some_and(|name| name == PROBE);
        let is_child = fields.split_whitespace().nth(1) == Some(&parent.to_string());
        boots && !is_tried && is_child && name.contains("(qemu-system")
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
}

/// The QEMU of a run, once it is there.
pub fn qemu_of(parent: u32) -> u32 {
    wait(Duration::from_secs(30), || qemus(parent).first().copied()).expect("a QEMU within 30 s")
}

/// It runs no more. One that nobody waited for has ended too.
pub fn is_gone(pid: u32) -> bool {
    let gone = || {
        let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim().chars().next());
        matches!(state, None | Some('Z' | 'X')).then_some(())
    };
    wait(Duration::from_secs(20), gone).is_some()
}
