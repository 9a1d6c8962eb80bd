// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies in a guest's folder only while the guest runs, and its removal: perhaps long after the
//! run that made it was killed, and as root. Meanwhile the folder's owner may have put a link in
//! the place of a folder above: no link is followed.

use rustix::fs::{self, AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// What its port brings.
pub const PORT: &str = "port";
/// The archive that it boots with.
pub const INITRAMFS: &str = "initramfs";
/// Folder of what a probe is given and writes.
pub const PROBE: &str = "probe";
pub const PASSING: [&str; 3] = [INITRAMFS, PORT, PROBE];
/// The socket by which a virtual machine that is a station is reached.
pub(super) const TRUNK: &str = "run.socket";
/// How the name of the folder of such a machine begins, in the state folder.
pub const OF_MACHINE: &str = "tardy-machine-";

/// A guest's folder has folders in it, and these have none.
const DEEPEST: u32 = 4;

/// Removes a file or a folder with what is in it, by its absolute path. What is gone already is no
/// error.
///
/// # Errors
/// A link on the way, or what the system refuses.
pub fn remove(path: &Path) -> io::Result<()> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("it is no file's name"));
    };
    let mut folder = step(CWD, OsStr::new("/"))?;
    for part in above.components() {
        folder = match part {
            Component::RootDir => continue,
            Component::Normal(name) => match step(&folder, name) {
                Ok(next) => next,
                Err(Errno::NOENT) => return Ok(()),
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let part = Path::new(name).display();
                    let says =
                        format!("`{part}` on the way is a link now, or no folder: look at it, and remove it by hand");
                    return Err(io::Error::other(says));
                }
                Err(errno) => return Err(errno.into()),
            },
            _ => return Err(io::Error::other("it is no absolute path")),
        };
    }
    Ok(remove_in(&folder, name.as_bytes(), DEEPEST)?)
}

fn step(folder: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(folder, name, flags, Mode::empty())
}

fn remove_in(folder: &OwnedFd, name: &[u8], deeper: u32) -> Result<(), Errno> {
    match fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // Linux says the first, POSIX the second.
        Err(Errno::ISDIR | Errno::PERM) if deeper > 0 => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inner = fs::openat(folder, name, flags, Mode::empty())?;
    for entry in Dir::read_from(&inner)? {
        let name = entry?.file_name().to_owned();
        if !is_dots(&name) {
            remove_in(&inner, name.to_bytes(), deeper - 1)?;
        }
    }
    match fs::unlinkat(folder, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}
