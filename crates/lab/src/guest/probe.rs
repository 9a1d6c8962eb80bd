// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether KVM starts an ordinary kernel here. That `/dev/kvm` is there says little: it is tried,
//! and the answer kept.

use super::cached::sha256;
use super::error::{GuestError, file};
use super::folder;
use super::frame::{FrameKind, Frames};
use super::parts::{Guest, GuestOptions, MEMORY_MIB};
use super::qemu::{Accelerator, VirtualMachine};
use crate::host::qemu::{self as process, Qemu};
use crate::journal::Journal;
use crate::run::RunError;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tardy_model::manifest::GuestMode;
use tardy_sys::proc;

/// KVM boots a kernel in a second; one that has said nothing by then does not.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many bytes we check of what a probe's port brings.
const LOOKED_AT: u64 = 1 << 20;

/// What runs a guest in real time here. The journal, where there is one, has the folder's removal
/// already.
///
/// # Errors
/// If the probe cannot be written.
pub(super) fn accelerator(
    guest: &Guest,
    options: &GuestOptions<'_>,
    version: &str,
    journal: Option<&mut Journal>,
) -> Result<Accelerator, RunError> {
    if !Path::new("/dev/kvm").exists() {
        return Ok(Accelerator::Tcg);
    }
    // Another boot may be another hypervisor.
    let boot = proc::boot_id().unwrap_or_default();
    let of = sha256::of(format!("{} {version} {boot}", guest.kernel.sha256).as_bytes());
    let known = options.cache.join(format!("kvm-{}", &of[..16]));
    match fs::read_to_string(&known).as_deref() {
        Ok("kvm") => return Ok(Accelerator::Kvm),
        Ok("tcg") => return Ok(Accelerator::Tcg),
        _ => {}
    }
    let folder = options.folder.join(folder::PROBE);
    fs::create_dir_all(&folder).map_err(file("create", &folder))?;
    let boots = boots(guest, options, &folder, journal);
    let _ = fs::remove_dir_all(&folder);
    let found = match boots? {
        Some(true) => Accelerator::Kvm,
        Some(false) => Accelerator::Tcg,
        // On a machine that is busy just now it may take longer: the next run tries again.
        None => return Ok(Accelerator::Tcg),
    };
    let _ = fs::create_dir_all(options.cache);
    let _ = fs::write(&known, found.name());
    Ok(found)
}

/// Whether KVM starts the kernel; `None` if it had not by the time that it was given, or by a
/// signal.
fn boots(
    guest: &Guest,
    options: &GuestOptions<'_>,
    folder: &Path,
    journal: Option<&mut Journal>,
) -> Result<Option<bool>, RunError> {
    let initramfs = folder.join(folder::INITRAMFS);
    fs::write(&initramfs, guest.archive(None)?).map_err(file("write", &initramfs))?;
    let machine = VirtualMachine {
        mode: GuestMode::RealTime,
        accelerator: Accelerator::Kvm,
        cpus: 1,
        memory_mib: MEMORY_MIB,
        kernel: guest.boots.path.display().to_string(),
        append: String::new(),
        sandbox: guest.sandbox,
    };
    let mut qemu =
        Qemu::start(folder, process::PROGRAM, &machine.arguments()).map_err(|source| GuestError::Start { source })?;
    if let Some(journal) = journal {
        journal.agent(qemu.pid())?;
    }
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until && !options.stop.load(Relaxed) {
        let ended = qemu.ended().is_some();
        let mut frames = Frames::default();
        frames.push(&start_of(&folder.join(folder::PORT)));
        if matches!(frames.take(), Ok(Some((FrameKind::Event, _)))) {
            return Ok(Some(true));
        }
        if ended {
            return Ok(Some(false));
        }
        qemu.wait(Duration::from_millis(50));
    }
    Ok(None)
}

/// What the port brought first. Whatever its kernel writes, more than a first frame is of no
/// interest.
fn start_of(port: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A port that is not there yet has brought nothing.
    let _ = fs::File::open(port).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut bytes));
    bytes
}
