// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs that a run starts, copied from this machine into a guest's initramfs, with the
//! libraries that they are linked with.

use super::elf::Elf;
use super::initramfs::Archive;
use crate::host::qemu::PROGRAM;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a run starts. Without `ip`, `tc` and `sh` nothing is built.
const PROGRAMS: &[(&str, bool)] = &[("ip", true), ("tc", true), ("sh", true), ("ethtool", false)];
/// What it starts in addition where the experiment chooses the CPUs that take packets in, or those
/// of a virtual machine's threads.
const STEERING: &[(&str, bool)] = &[("taskset", true), ("chrt", true), ("cat", true), ("paste", true), ("grep", true)];
/// What a QEMU reads that runs virtual machines in a guest.
const QEMU_FILES: &[&str] = &["qboot.rom", "pvh.bin", "kvmvapic.bin", "linuxboot_dma.bin"];
/// Where those are: Debian keeps them in one folder.
pub const QEMU_FOLDER: &str = "/usr/share/qemu";
const PLACES: &[&str] = &["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Where libraries lie by default (ld.so(8)), Debian's folders first.
const LIBRARIES: &[&str] =
    &["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib", "/lib"];
/// Tables that `tc` reads.
const TABLES: &[&str] = &["/usr/lib/tc", "/lib/tc"];

/// A program cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is not here.
    #[error("program `{program}` is not installed, and a guest gets it from this machine: apt install {package}")]
    Missing {
        program: String,
        /// Where Debian has it.
        package: &'static str,
    },
    /// A library is not here.
    #[error(
        "library `{library}`, which `{program}` needs, was found in none of {}: see what `ldd` says of the program, and install its package anew",
        LIBRARIES.join(", ")
    )]
    Library { library: String, program: String },
    #[error("cannot read {}: {source}; a guest gets it from this machine: install its package anew, or run as one who may read it", path.display())]
    Read { path: PathBuf, source: io::Error },
}

fn read(path: &Path) -> Result<Vec<u8>, ProgramError> {
    fs::read(path).map_err(|source| ProgramError::Read { path: path.to_owned(), source })
}

/// Puts them all into the archive, those for steering if it `steers`, and of those in `also` the
/// ones that are here.
///
/// # Errors
/// If one that is needed, or a library, is not on this machine.
pub fn pack(steers: bool, also: &[&str], archive: &mut Archive) -> Result<(), ProgramError> {
    let also = also.iter().map(|program| (*program, false));
    let all = PROGRAMS.iter().chain(STEERING.iter().filter(|_| steers)).copied().chain(also);
    for (program, needed) in all {
        let found = PLACES.iter().map(|place| Path::new(place).join(program)).find(|path| path.is_file());
        match found {
            Some(path) => add(&path, &format!("/usr/bin/{program}"), archive)?,
            None if needed => {
                let package = match program {
                    "sh" => "dash",
                    "ip" | "tc" => "iproute2",
                    "taskset" | "chrt" => "util-linux",
                    "grep" => "grep",
                    _ => "coreutils",
                };
                return Err(ProgramError::Missing { program: program.to_owned(), package });
            }
            None => {}
        }
    }
    for folder in TABLES.iter().filter_map(|folder| fs::read_dir(folder).ok()) {
        for path in folder.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
            if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
                archive.file(&format!("/usr/lib/tc/{name}"), read(&path)?, false);
            }
        }
    }
    Ok(())
}

/// Puts QEMU into the archive, with what it reads when it starts a kernel without a disk.
///
/// # Errors
/// If it, or a library, is not on this machine.
pub fn pack_qemu(program: &Path, archive: &mut Archive) -> Result<(), ProgramError> {
    add(program, &format!("/usr/bin/{PROGRAM}"), archive)?;
    for name in QEMU_FILES {
        let path = format!("{QEMU_FOLDER}/{name}");
        archive.file(&path, read(Path::new(&path))?, false);
    }
    Ok(())
}

fn add(path: &Path, to: &str, archive: &mut Archive) -> Result<(), ProgramError> {
    let bytes = read(path)?;
    libraries(path, &bytes, archive)?;
    archive.file(to, bytes, true);
    Ok(())
}

/// The libraries of a program or library, and theirs.
fn libraries(of: &Path, bytes: &[u8], archive: &mut Archive) -> Result<(), ProgramError> {
    // A script has none; its shell is packed anyway.
    let Some(elf) = Elf::read(bytes) else { return Ok(()) };
    if let Some(loader) = elf.interpreter().filter(|loader| !archive.has(loader)) {
        archive.file(loader, read(Path::new(loader))?, true);
    }
    for library in elf.needed() {
        // One place that the loader looks at by itself, wherever it was here.
        let to = format!("/usr/lib/x86_64-linux-gnu/{library}");
        if archive.has(&to) {
            continue;
        }
        let found = LIBRARIES.iter().map(|place| Path::new(place).join(library)).find(|path| path.is_file());
        let found = found
            .ok_or_else(|| ProgramError::Library { library: library.to_owned(), program: of.display().to_string() })?;
        add(&found, &to, archive)?;
    }
    Ok(())
}
