// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state folder, which holds slots and journals, and who may have written there. What root
//! reads here it also runs, so every folder and file is opened without following a link, by way of
//! the folder above it, and must belong to who runs tardy.

use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Mode of a folder that is made.
const FOLDER: Mode = Mode::from_raw_mode(0o700);
/// Mode of a file that is made.
const FILE: Mode = Mode::from_raw_mode(0o600);
/// Others may write (the group's bit, everybody's bit), and what keeps them from taking away what
/// is not theirs.
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// A folder or file of the state cannot be used.
#[derive(Debug, Error)]
pub enum StateError {
    #[error("cannot use {}: {source}{}", path.display(), needs_root(source))]
    Io { path: PathBuf, source: io::Error },
    /// It belongs to another user.
    #[error(
        "{} belongs to user {owner}, and tardy, which runs as user {user}, takes back only what its own user has noted: look at what \
         is there, then delete it, or name another folder in TARDY_STATE", path.display()
    )]
    Foreign { path: PathBuf, owner: u32, user: u32 },
    /// Others may write there.
    #[error(
        "{} can be written to by others (mode {mode:04o}), so what it holds may not be tardy's: look at what is there, then \
         `chmod go-w` it, or name another folder in TARDY_STATE", path.display()
    )]
    Open { path: PathBuf, mode: u32 },
    /// A link, or something else that is no plain file or folder.
    #[error("{} is {what}: delete it, or name another folder in TARDY_STATE", path.display())]
    Odd {
        path: PathBuf,
        /// What it is instead.
        what: &'static str,
    },
}

fn needs_root(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => ": needs root, or a folder of your own in TARDY_STATE",
        _ => "",
    }
}

impl StateError {
    /// True if the user has not the right, which is no attack and no damage.
    pub fn is_denied(&self) -> bool {
        matches!(self, StateError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// A number that sudo leaves in the environment, which only root believes.
fn of_sudo(name: &str) -> Option<u32> {
    std::env::var(name).ok().filter(|_| geteuid().is_root())?.parse().ok()
}

/// The user that this process acts for.
pub(crate) fn user() -> u32 {
    geteuid().as_raw()
}

fn mode_of(about: &Stat) -> u32 {
    about.st_mode & 0o7777
}

/// True if others may put something into it. A group of the user's own, which has the user's
/// number, is not others.
fn is_open(about: &Stat) -> bool {
    let of_caller = of_sudo("SUDO_GID") == Some(about.st_gid) && of_sudo("SUDO_UID") == Some(about.st_gid);
    let own_group = about.st_gid == getegid().as_raw() || of_caller;
    mode_of(about) & ALL_WRITE != 0 || (mode_of(about) & GROUP_WRITES != 0 && !own_group)
}

/// Whose things must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Root's, or of who runs tardy.
    Ours,
    /// Also of who called it by sudo: the folder that was named, and those above it.
    Named,
    /// Anybody's: to look at only.
    Anybodys,
}

impl Whose {
    fn check(self, about: &Stat, path: &Path) -> Result<(), StateError> {
        let path = || path.to_owned();
        let owner = about.st_uid;
        let named = self == Whose::Named && of_sudo("SUDO_UID") == Some(owner);
        if self == Whose::Anybodys {
            return Ok(());
        }
        if !(owner == 0 || owner == user() || named) {
            return Err(StateError::Foreign { path: path(), owner, user: user() });
        }
        if is_open(about) { Err(StateError::Open { path: path(), mode: mode_of(about) }) } else { Ok(()) }
    }
}

/// A folder of the state that is held open.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
    looks_only: bool,
}

fn failed(path: &Path) -> impl FnOnce(Errno) -> StateError + use<'_> {
    move |errno| StateError::Io { path: path.to_owned(), source: errno.into() }
}

/// Refuses a way to the folder on which somebody else could put another one in its place, or turn
/// a link round.
fn check_way(path: &Path) -> Result<(), StateError> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // In a user namespace the machine's root shows as nobody: who has the root folder may do
    // everything anyway.
    let of_all = fs::stat("/").map_err(failed(Path::new("/")))?.st_uid;
    let check = |above: &Path| {
        let about = match fs::lstat(above) {
            // This process makes it.
            Err(Errno::NOENT) => return Ok(()),
            other => other.map_err(failed(above))?,
        };
        // Nobody writes to a link, and a sticky folder keeps others from what is not theirs.
        let is_link = FileType::from_raw_mode(about.st_mode) == FileType::Symlink;
        let is_closed = is_link || mode_of(&about) & STICKY != 0 || !is_open(&about);
        if about.st_uid == of_all && is_closed {
            return Ok(());
        }
        match Whose::Named.check(&about, above) {
            Err(StateError::Open { .. }) if is_closed => Ok(()),
            other => other,
        }
    };
    absolute.ancestors().skip(1).try_for_each(check)?;
    let there = absolute.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
    there.iter().flat_map(|there| there.ancestors()).try_for_each(check)
}

impl Folder {
    /// The state folder itself, or `None` if there is none.
    pub fn state(path: &Path) -> Result<Option<Folder>, StateError> {
        check_way(path)?;
        Folder::open_at(CWD, path, path, Whose::Named)
    }

    /// The state folder, made if it is not there.
    pub fn make_state(path: &Path) -> Result<Folder, StateError> {
        check_way(path)?;
        if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
            let mut builder = std::fs::DirBuilder::new();
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
            builder
                .recursive(true)
                .create(above)
                .map_err(|source| StateError::Io { path: above.to_owned(), source })?;
        }
        match fs::mkdirat(CWD, path, FOLDER) {
            Err(errno) if errno != Errno::EXIST => return Err(failed(path)(errno)),
            _ => {}
        }
        let gone = || failed(path)(Errno::NOENT);
        Folder::open_at(CWD, path, path, Whose::Named)?.ok_or_else(gone)
    }

    /// Any folder, to show what it holds and nothing else.
    pub fn to_look_at(path: &Path) -> Option<Folder> {
        let opened = Folder::open_at(CWD, path, path, Whose::Anybodys).ok()?;
        opened.map(|folder| Folder { looks_only: true, ..folder })
    }

    fn open_at(at: impl AsFd, name: &Path, path: &Path, whose: Whose) -> Result<Option<Folder>, StateError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match fs::openat(at, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            // The kernel says this of a link, too.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(StateError::Odd { path: path.to_owned(), what: "no folder, or a link to one" });
            }
            other => other.map_err(failed(path))?,
        };
        let about = fs::fstat(&fd).map_err(failed(path))?;
        whose.check(&about, path)?;
        // Earlier versions left it to the umask.
        if whose == Whose::Ours && about.st_uid == user() && mode_of(&about) != 0o700 {
            let _ = fs::fchmod(&fd, FOLDER);
        }
        Ok(Some(Folder { fd, path: path.to_owned(), looks_only: false }))
    }

    fn whose(&self) -> Whose {
        if self.looks_only { Whose::Anybodys } else { Whose::Ours }
    }

    /// A folder in it, or `None` if there is none.
    pub fn folder(&self, name: &str) -> Result<Option<Folder>, StateError> {
        let opened = Folder::open_at(&self.fd, Path::new(name), &self.path.join(name), self.whose())?;
        Ok(opened.map(|folder| Folder { looks_only: self.looks_only, ..folder }))
    }

    /// A folder in it, made if it is not there; `None` if another process removed it just then.
    pub fn make_folder(&self, name: &str) -> Result<Option<Folder>, StateError> {
        match fs::mkdirat(&self.fd, name, FOLDER) {
            Err(errno) if errno != Errno::EXIST => return Err(failed(&self.path.join(name))(errno)),
            _ => {}
        }
        self.folder(name)
    }

    /// A file in it, to read, or `None` if there is none.
    pub fn read(&self, name: &str) -> Result<Option<File>, StateError> {
        self.open_file(name, OFlags::RDONLY)
    }

    /// A file in it, to append to, made if it is not there; `None` if the folder itself was
    /// removed just then.
    pub fn append(&self, name: &str) -> Result<Option<File>, StateError> {
        self.open_file(name, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<Option<File>, StateError> {
        let path = self.path.join(name);
        // A pipe in its place must not keep this process waiting.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match fs::openat(&self.fd, name, flags, FILE) {
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(StateError::Odd { path, what: "a link" }),
            Err(Errno::ISDIR | Errno::NXIO) => return Err(StateError::Odd { path, what: "no file" }),
            other => other.map_err(failed(&path))?,
        };
        let about = fs::fstat(&fd).map_err(failed(&path))?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(StateError::Odd { path, what: "no file" });
        }
        self.whose().check(&about, &path)?;
        if !self.looks_only && about.st_uid == user() && mode_of(&about) != 0o600 {
            let _ = fs::fchmod(&fd, FILE);
        }
        Ok(Some(File::from(fd)))
    }

    /// Removes a file in it.
    pub fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty folder in it.
    pub fn remove_folder(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// True if `file` is what has this name in it now.
    pub fn still_holds(&self, name: &str, file: &File) -> io::Result<bool> {
        let mine = fs::fstat(file)?;
        match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => Ok((there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    pub fn names(&self) -> Result<Vec<String>, StateError> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.fd).map_err(failed(&self.path))? {
            let entry = entry.map_err(failed(&self.path))?;
            names.extend(entry.file_name().to_str().map(str::to_owned));
        }
        Ok(names)
    }

    /// Brings what was made in it to the disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.fd)?)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
