// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder that is held open. What is written goes into it by its descriptor: files are made
//! anew, never through a link, and under names that nobody can know before. What is read lies in
//! it: a link that leads out is refused.
//!
//! Samples that lie outside a run folder are opened by their path alone ([`open`]). [`read`] reads
//! no file that is larger than a run writes.

use crate::{StoreError, way};
use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, ResolveFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Mode of a file that is made.
const FILE: RawMode = 0o644;
/// A random name is somebody else's so often at most.
const TRIES: u32 = 16;

/// A folder, and what it is called in messages.
#[derive(Debug)]
pub(crate) struct Held {
    folder: OwnedFd,
    path: PathBuf,
}

impl Held {
    /// The folder for a new run: made if it is not there, else one of the user's own.
    ///
    /// # Errors
    /// [`StoreError::Link`], [`StoreError::Foreign`], [`StoreError::OpenToOthers`],
    /// [`StoreError::NotAFolder`], [`StoreError::Io`].
    pub fn of_a_run(path: &Path) -> Result<Held, StoreError> {
        let way::WayEnd { folder, name } = way::walk(path, true)?;
        let (name, is_new) = match &name {
            Some(name) => {
                let made = way::make(folder.as_fd(), name);
                (name.as_os_str(), made.map_err(|errno| StoreError::io("create", path)(errno.into()))?)
            }
            None => (OsStr::new("."), false),
        };
        let opened = way::step(&folder, name, OFlags::RDONLY).map_err(|errno| match way::about(&folder, name) {
            Ok(about) if way::is_link(&about) => StoreError::Link { path: path.to_owned(), part: PathBuf::from(name) },
            Ok(about) if FileType::from_raw_mode(about.st_mode) != FileType::Directory => {
                StoreError::NotAFolder { path: path.to_owned() }
            }
            _ => StoreError::io("open", path)(errno.into()),
        })?;
        let held = Held { folder: opened, path: path.to_owned() };
        // On a file system of another machine's even what one makes may be another user's. Root
        // has too much to lose to believe that.
        if !is_new || geteuid().is_root() {
            way::check_ours(&held.about()?, path)?;
        }
        Ok(held)
    }

    /// A folder for files of many runs, of which this may be the first: made if it is not there.
    /// Others may write into it too; only root refuses one of another user's.
    ///
    /// # Errors
    /// As [`Held::of_a_run`].
    pub fn shared(path: &Path) -> Result<Held, StoreError> {
        let way::WayEnd { folder, name } = way::walk(path, true)?;
        if let Some(name) = &name {
            way::make(folder.as_fd(), name).map_err(|errno| StoreError::io("create", path)(errno.into()))?;
        }
        let held = Held::open(path)?;
        way::check_for_a_file(&held.about()?, path)?;
        Ok(held)
    }

    /// A folder to read, by the path that the user names.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`], [`StoreError::NotAFolder`], [`StoreError::Io`].
    pub fn open(path: &Path) -> Result<Held, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match fs::openat(CWD, path, flags, Mode::empty()) {
            Ok(folder) => Ok(Held { folder, path: path.to_owned() }),
            // Also if a file is where a longer path needs a folder; the path then does not exist.
            Err(Errno::NOTDIR) if path.exists() => Err(StoreError::NotAFolder { path: path.to_owned() }),
            Err(Errno::NOENT | Errno::NOTDIR) => Err(StoreError::NoSuchRun { path: path.to_owned() }),
            Err(errno) => Err(StoreError::io("open", path)(errno.into())),
        }
    }

    /// One that is open already.
    pub fn of(folder: OwnedFd, path: PathBuf) -> Held {
        Held { folder, path }
    }

    /// What it is called.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed<P: AsRef<Path>>(&self, tried: &'static str, below: P) -> impl FnOnce(Errno) -> StoreError + use<P> {
        let path = self.path.join(below);
        move |errno| StoreError::io(tried, &path)(errno.into())
    }

    /// What the kernel says of it.
    pub fn about(&self) -> Result<Stat, StoreError> {
        fs::fstat(&self.folder).map_err(self.failed("examine", ""))
    }

    /// Refuses, as root, a way to this folder by its path that another user could turn elsewhere.
    pub fn check_way(&self) -> Result<(), StoreError> {
        let way::WayEnd { folder, name } = way::walk(&self.path, false)?;
        let above = self.path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let about = fs::fstat(&folder).map_err(self.failed("examine", ""))?;
        way::check_for_a_file(&about, above)?;
        // Who owns a folder further up may rename what is in it, and put another way in its place.
        let absolute = above.canonicalize().map_err(StoreError::io("examine", above))?;
        for further in absolute.ancestors().skip(1) {
            let about = fs::stat(further).map_err(|errno| StoreError::io("examine", further)(errno.into()))?;
            way::check_for_a_file(&about, further)?;
        }
        let there = name.map_or(Ok(about), |name| way::about(&folder, &name)).map_err(self.failed("examine", ""))?;
        let own = self.about()?;
        match (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) {
            true => Ok(()),
            false => Err(StoreError::NotAFolder { path: self.path.clone() }),
        }
    }

    /// Makes a folder in it; `None` if something has that name.
    pub fn make_new(&self, name: &str) -> Result<Option<Held>, StoreError> {
        let made = way::make(self.folder.as_fd(), OsStr::new(name)).map_err(self.failed("create", name))?;
        if made { self.step(name).map(Some) } else { Ok(None) }
    }

    /// Makes a folder in it, if it is not there.
    pub fn make(&self, name: &str) -> Result<Held, StoreError> {
        way::make(self.folder.as_fd(), OsStr::new(name)).map_err(self.failed("create", name))?;
        self.step(name)
    }

    /// Opens a folder in it that this run has made: a link is none.
    fn step(&self, name: &str) -> Result<Held, StoreError> {
        let folder = way::step(&self.folder, OsStr::new(name), OFlags::RDONLY).map_err(self.failed("open", name))?;
        Ok(Held { folder, path: self.path.join(name) })
    }

    /// True if it has a file of that name.
    pub fn has_file(&self, name: &str) -> bool {
        way::about(&self.folder, OsStr::new(name))
            .is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::RegularFile)
    }

    /// True if anything has that name.
    pub fn has(&self, name: &str) -> bool {
        way::about(&self.folder, OsStr::new(name)).is_ok()
    }

    fn make_file(&self, name: &OsStr, more: OFlags) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
        Ok(File::from(fs::openat(&self.folder, name, flags, Mode::from_raw_mode(FILE))?))
    }

    /// Makes a file that is not there yet.
    pub fn create(&self, name: &str) -> Result<File, StoreError> {
        self.make_file(OsStr::new(name), OFlags::empty()).map_err(self.failed("create", name))
    }

    /// Makes a file that is not there yet, to append to. In a folder that was opened, one that is
    /// there is gone on with, if it is no link.
    pub fn appended(&self, name: &str) -> Result<File, StoreError> {
        match self.make_file(OsStr::new(name), OFlags::APPEND) {
            Err(Errno::EXIST) => {
                let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let opened = fs::openat(&self.folder, name, flags, Mode::empty());
                let file = opened.map_err(|errno| match errno {
                    Errno::LOOP => StoreError::Link { path: self.path.join(name), part: PathBuf::from(name) },
                    errno => self.failed("open", name)(errno),
                })?;
                let about = fs::fstat(&file).map_err(self.failed("examine", name))?;
                let is_plain = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile && about.st_nlink == 1;
                if is_plain { Ok(File::from(file)) } else { Err(StoreError::NotAFile { path: self.path.join(name) }) }
            }
            made => made.map_err(self.failed("create", name)),
        }
    }

    /// Makes a hidden file with an unpredictable name, next to the one that it is for.
    pub fn temporary(&self, of: &OsStr) -> Result<(OsString, File), StoreError> {
        let mut tries = 0;
        loop {
            // The keys of a hash map are random, from the system.
            let random = RandomState::new().build_hasher().finish();
            let mut name = OsString::from(".");
            name.push(of);
            name.push(format!(".{random:016x}.tmp"));
            match self.make_file(&name, OFlags::empty()) {
                Err(Errno::EXIST) if tries < TRIES => tries += 1,
                made => return made.map(|file| (name, file)).map_err(self.failed("create", of)),
            }
        }
    }

    /// Makes a hidden folder with an unpredictable name.
    pub fn temporary_folder(&self) -> Result<(OsString, Held), StoreError> {
        let mut tries = 0;
        loop {
            let name = format!(".{:016x}.tmp", RandomState::new().build_hasher().finish());
            match self.make_new(&name)? {
                None if tries < TRIES => tries += 1,
                None => return Err(self.failed("create", &name)(Errno::EXIST)),
                Some(made) => return Ok((name.into(), made)),
            }
        }
    }

    /// Moves something in it into another folder, and has that on disk; false if a folder that is
    /// not empty has the name there.
    pub fn move_into(&self, from: &OsStr, to: &Held, name: &OsStr) -> Result<bool, StoreError> {
        match fs::renameat(&self.folder, from, &to.folder, name) {
            Err(Errno::EXIST | Errno::NOTEMPTY) => return Ok(false),
            moved => moved.map_err(to.failed("rename to", name))?,
        }
        to.sync()?;
        self.sync()?;
        Ok(true)
    }

    /// Writes a file at once: a temporary one next to it, fsync, rename, fsync of the folder. So
    /// that a kill or a power cut leaves either the old file or the new one, never half of one.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let (temporary, mut file) = self.temporary(OsStr::new(name))?;
        let written = file
            .write_all(bytes)
            .map_err(StoreError::io("write", &self.path.join(name)))
            .and_then(|()| file.sync_all().map_err(StoreError::io("sync", &self.path.join(name))))
            .and_then(|()| self.rename(&temporary, OsStr::new(name)));
        if written.is_err() {
            // The reason it failed is what counts; a temporary file that stays behind is ignored
            // by readers.
            self.remove(&temporary);
        }
        written
    }

    /// Removes a temporary file.
    pub fn remove(&self, name: &OsStr) {
        let _ = fs::unlinkat(&self.folder, name, AtFlags::empty());
    }

    /// Gives something in it another name, and has that on disk.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), StoreError> {
        fs::renameat(&self.folder, from, &self.folder, to).map_err(self.failed("rename to", to))?;
        self.sync()
    }

    /// Has its entries on disk.
    pub fn sync(&self) -> Result<(), StoreError> {
        fs::fsync(&self.folder).map_err(self.failed("sync", ""))
    }

    /// Opens what lies below it. Links that stay within it are followed.
    fn beneath(&self, below: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        match fs::openat2(&self.folder, below, flags, Mode::empty(), ResolveFlags::BENEATH) {
            // A kernel before 5.6, or a sandbox that does not know the call: without it no link is
            // followed at all.
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return opened,
        }
        let mut at = None;
        let mut left = below.components().peekable();
        while let Some(part) = left.next() {
            let Component::Normal(name) = part else { return Err(Errno::XDEV) };
            let from = at.as_ref().map_or(self.folder.as_fd(), OwnedFd::as_fd);
            let next = match left.peek() {
                Some(_) => way::step(from, name, OFlags::PATH),
                None => fs::openat(from, name, flags | OFlags::NOFOLLOW, Mode::empty()),
            };
            at = Some(next.map_err(|errno| if errno == Errno::LOOP { Errno::XDEV } else { errno })?);
        }
        at.ok_or(Errno::NOENT)
    }

    fn led_out(&self, below: &Path, errno: Errno) -> StoreError {
        match errno {
            Errno::XDEV | Errno::LOOP => StoreError::LeadsOut { path: self.path.join(below) },
            errno => self.failed("open", below)(errno),
        }
    }

    /// Opens a file below it to read. What is no regular file is refused unopened: a device may
    /// bring bytes without an end, and a pipe never answers.
    ///
    /// # Errors
    /// [`StoreError::LeadsOut`], [`StoreError::NotAFile`], [`StoreError::Io`].
    pub fn file(&self, below: &Path) -> Result<File, StoreError> {
        let found = self.beneath(below, OFlags::PATH).map_err(|errno| self.led_out(below, errno))?;
        let plain = |fd: &OwnedFd| {
            let about = fs::fstat(fd).map_err(self.failed("examine", below))?;
            match FileType::from_raw_mode(about.st_mode) {
                FileType::RegularFile => Ok(()),
                _ => Err(StoreError::NotAFile { path: self.path.join(below) }),
            }
        };
        plain(&found)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.beneath(below, flags).map_err(|errno| self.led_out(below, errno))?;
        // Another one may have been put there meanwhile.
        plain(&file)?;
        Ok(File::from(file))
    }

    /// Opens a folder below it to read.
    ///
    /// # Errors
    /// [`StoreError::LeadsOut`], [`StoreError::Io`].
    pub fn below(&self, below: &Path) -> Result<Held, StoreError> {
        let folder =
            self.beneath(below, OFlags::RDONLY | OFlags::DIRECTORY).map_err(|errno| self.led_out(below, errno))?;
        Ok(Held { folder, path: self.path.join(below) })
    }

    /// Names of what is in it.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn names(&self) -> Result<Vec<OsString>, StoreError> {
        use std::os::unix::ffi::OsStrExt;
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder).map_err(self.failed("list", ""))? {
            let entry = entry.map_err(self.failed("list", ""))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Names of the folders in it.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn folders(&self) -> Result<Vec<String>, StoreError> {
        let is_folder = |name: &String| self.beneath(Path::new(name), OFlags::PATH | OFlags::DIRECTORY).is_ok();
        Ok(self.names()?.into_iter().filter_map(|name| name.into_string().ok()).filter(is_folder).collect())
    }
}

/// A cell's or stream's name, if it can name a file: the characters of cell ids, not hidden, not
/// `.` or `..`.
pub(crate) fn file_name(name: &str) -> Result<&str, StoreError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._=,-".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(StoreError::Name { name: name.to_owned() });
    }
    Ok(name)
}

/// The largest text file that is read whole: far beyond what any run writes, and within what a
/// machine has.
pub(crate) const LARGEST: u64 = 64 << 20;

/// The same of `results.json`, which has all figures of all cells: of the most that there may be,
/// some 25 kB each.
pub(crate) const LARGEST_RESULTS: u64 = 256 << 20;

/// Opens a file to read. What is no regular file is refused unopened: a device may bring bytes
/// without an end, and a pipe never answers.
pub(crate) fn open(path: &Path) -> Result<File, StoreError> {
    let about = std::fs::metadata(path).map_err(StoreError::io("open", path))?;
    if !about.is_file() {
        return Err(StoreError::NotAFile { path: path.to_owned() });
    }
    File::open(path).map_err(StoreError::io("open", path))
}

/// A file's bytes, if they are not too many to be one of a run's.
pub(crate) fn read(file: File, path: &Path, largest: u64) -> Result<Vec<u8>, StoreError> {
    let length = file.metadata().map_err(StoreError::io("examine", path))?.len();
    let mut bytes = Vec::new();
    if length <= largest {
        // It may still grow.
        file.take(largest + 1).read_to_end(&mut bytes).map_err(StoreError::io("read", path))?;
    }
    if length.max(bytes.len() as u64) > largest {
        let why = format!("it has more than {largest} bytes");
        let fix = "a run writes no such file: copy it again from where the run was made";
        return Err(StoreError::Damaged { path: path.to_owned(), why, fix });
    }
    Ok(bytes)
}
