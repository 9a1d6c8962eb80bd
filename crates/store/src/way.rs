// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way to a folder that is to be written into: walked step by step, each step held open, so
//! that nobody can put a link or another folder in the place of one that was looked at. And the
//! rule of whose folders may be written into at all.

use crate::StoreError;
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Mode of a folder that is made.
const FOLDER: Mode = Mode::from_raw_mode(0o755);
/// More links than these are a circle. The kernel's own limit.
const MOST_LINKS: u32 = 40;

/// A number that sudo leaves in the environment, which only root believes.
fn of_sudo(name: &str) -> Option<u32> {
    let is_root = geteuid().is_root();
    std::env::var(name).ok().filter(|_| is_root)?.parse().ok()
}

/// True if the owner is this process's user, or the one who called it by sudo.
fn is_ours(owner: u32) -> bool {
    owner == geteuid().as_raw() || of_sudo("SUDO_UID") == Some(owner)
}

/// True if this process may follow the link: who could turn it round meanwhile may do all that
/// this process may.
fn may_follow(owner: u32) -> bool {
    owner == 0 || is_ours(owner)
}

/// True if only this process's user is in the group; for the one who called by sudo where the
/// group has the user's number. Others may be in any other one (`users`), and must not choose what
/// root writes to.
fn is_private(group: u32) -> bool {
    group == getegid().as_raw() || (of_sudo("SUDO_GID") == Some(group) && of_sudo("SUDO_UID") == Some(group))
}

/// Refuses a folder that others could fill: one of another user's, or one that others may write
/// to. A group that is the user's own may.
///
/// # Errors
/// [`StoreError::Foreign`] and [`StoreError::OpenToOthers`].
pub(crate) fn check_ours(about: &Stat, path: &Path) -> Result<(), StoreError> {
    if !is_ours(about.st_uid) {
        let (owner, user) = (about.st_uid, geteuid().as_raw());
        return Err(StoreError::Foreign { path: path.to_owned(), owner, user });
    }
    if about.st_mode & 0o002 != 0 || (about.st_mode & 0o020 != 0 && !is_private(about.st_gid)) {
        return Err(StoreError::OpenToOthers { path: path.to_owned() });
    }
    Ok(())
}

/// Refuses, as root, to put a file into a folder of another user's; root's own may be open to all
/// if they are sticky, as `/tmp` is. A user without root's rights loses nothing that way: the file
/// is made anew under a name that nobody knows, and renamed.
///
/// # Errors
/// [`StoreError::Foreign`] and [`StoreError::OpenToOthers`].
pub(crate) fn check_for_a_file(about: &Stat, path: &Path) -> Result<(), StoreError> {
    if !geteuid().is_root() || (about.st_uid == 0 && about.st_mode & 0o1000 != 0) {
        return Ok(());
    }
    check_ours(about, path)
}

/// Where a way leads.
pub(crate) struct WayEnd {
    /// The folder that the last name is in.
    pub folder: OwnedFd,
    /// The last name; `None` if the way ends in the folder itself, as `.` and `/` do.
    pub name: Option<OsString>,
}

/// Opens a folder by its name in another, without following a link.
pub(crate) fn step(folder: impl AsFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    fs::openat(folder, name, flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// What has this name, itself and not what it points at.
pub(crate) fn about(folder: impl AsFd, name: &OsStr) -> Result<Stat, Errno> {
    fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// True for a link.
pub(crate) fn is_link(about: &Stat) -> bool {
    FileType::from_raw_mode(about.st_mode) == FileType::Symlink
}

/// Makes a folder and has its name on disk; false if something has that name already.
pub(crate) fn make(folder: BorrowedFd<'_>, name: &OsStr) -> Result<bool, Errno> {
    match fs::mkdirat(folder, name, FOLDER) {
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error),
        Ok(()) => {
            // One that may be entered and not read cannot be synced.
            if let Ok(readable) = step(folder, OsStr::new("."), OFlags::RDONLY) {
                fs::fsync(readable)?;
            }
            Ok(true)
        }
    }
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}

/// Walks to the folder that the last name of `path` is in, and makes what is missing on the
/// way if `makes`. Links on the way are followed if they are root's or the user's own.
///
/// # Errors
/// [`StoreError::Link`] at a link of somebody else's, [`StoreError::NotAFolder`],
/// [`StoreError::Io`].
pub(crate) fn walk(path: &Path, makes: bool) -> Result<WayEnd, StoreError> {
    let failed = |tried| move |errno: Errno| StoreError::io(tried, path)(errno.into());
    let dot = OsStr::new(".");
    let mut folder = step(CWD, dot, OFlags::PATH).map_err(failed("open"))?;
    let mut left = parts(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == "/" {
            folder = step(CWD, OsStr::new("/"), OFlags::PATH).map_err(failed("open"))?;
            continue;
        }
        if left.is_empty() && name != ".." {
            return Ok(WayEnd { folder, name: Some(name) });
        }
        match step(&folder, &name, OFlags::PATH) {
            Ok(next) => folder = next,
            Err(Errno::NOENT) if makes => {
                make(folder.as_fd(), &name).map_err(failed("create"))?;
                folder = step(&folder, &name, OFlags::PATH).map_err(failed("open"))?;
            }
            Err(Errno::NOTDIR | Errno::LOOP) => {
                links += 1;
                left.extend(parts(&target(&folder, &name, path, links)?));
            }
            Err(errno) => return Err(failed("open")(errno)),
        }
    }
    Ok(WayEnd { folder, name: None })
}

/// Where a link points that may be followed.
///
/// # Errors
/// As [`walk`].
pub(crate) fn target(folder: &OwnedFd, name: &OsStr, path: &Path, links: u32) -> Result<PathBuf, StoreError> {
    let failed = |errno: Errno| StoreError::io("open", path)(errno.into());
    let what = about(folder, name).map_err(failed)?;
    if !is_link(&what) {
        return Err(StoreError::NotAFolder { path: path.to_owned() });
    }
    if links > MOST_LINKS {
        return Err(failed(Errno::LOOP));
    }
    if !may_follow(what.st_uid) {
        return Err(StoreError::Link { path: path.to_owned(), part: PathBuf::from(name) });
    }
    let to = fs::readlinkat(folder, name, Vec::new()).map_err(failed)?;
    Ok(PathBuf::from(OsString::from_vec(to.into_bytes())))
}
