// SPDX-License-Identifier: MIT OR Apache-2.0
//! What only one run at a time may have on this machine, whatever its state folder: a slot's
//! number, a network device. Root holds it by a lock on a file in a folder of root's own, which
//! nobody else can touch. A user who cannot write there holds an abstract socket name instead. The
//! holder of such a name never blocks root.

use crate::state::{Folder, StateError};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use tardy_sys::proc::{self, Task};

/// The folder's folder, and its name there.
const ABOVE: &str = crate::names::STATE;
const FOLDER: &str = "held";

/// Held until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) enum Held {
    /// By a locked file.
    File {
        folder: Folder,
        /// What it is called.
        name: String,
        _lock: File,
    },
    /// By a name in the network namespace.
    Name { _socket: UnixListener },
}

impl Held {
    /// `None` if another process has it.
    ///
    /// # Errors
    /// If the folder is somebody else's, or cannot be written by one who has the right.
    pub fn take(what: &str) -> Result<Option<Held>, StateError> {
        match Held::by_file(what) {
            Err(error) if is_closed(&error) => {
                let failed = |source| StateError::Io { path: format!("@{}", abstract_name(what)).into(), source };
                let address = SocketAddr::from_abstract_name(abstract_name(what)).map_err(failed)?;
                match UnixListener::bind_addr(&address) {
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
                    other => Ok(Some(Held::Name { _socket: other.map_err(failed)? })),
                }
            }
            other => other,
        }
    }

    fn by_file(what: &str) -> Result<Option<Held>, StateError> {
        let name = file_name(what);
        let above = Folder::make_state(Path::new(ABOVE))?;
        loop {
            let Some(folder) = above.make_folder(FOLDER)? else { continue };
            let Some(lock) = folder.append(&name)? else { continue };
            let failed = |source| StateError::Io { path: folder.path().join(&name), source };
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // Between opening and locking its last holder may have removed it: then the lock is on
            // nothing.
            if folder.still_holds(&name, &lock).map_err(failed)? {
                return Ok(Some(Held::File { folder, name, _lock: lock }));
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // While it is locked: nobody else can have it.
        if let Held::File { folder, name, .. } = self {
            let _ = folder.remove_file(name);
        }
    }
}

/// True for who has no right to root's folder, or where no folder can be made.
fn is_closed(error: &StateError) -> bool {
    let kinds = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
    matches!(error, StateError::Io { source, .. } if kinds.contains(&source.kind()))
}

fn abstract_name(what: &str) -> String {
    format!("tardy-{what}")
}

/// A device's other names may hold anything.
fn file_name(what: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    what.chars().map(|c| if plain(c) { c.to_string() } else { format!("%{:x}", u32::from(c)) }).collect()
}

/// Who has it, for a message.
pub(crate) fn holder(what: &str) -> String {
    let file = || -> Option<File> {
        Folder::state(Path::new(ABOVE)).ok()??.folder(FOLDER).ok()??.read(&file_name(what)).ok()?
    };
    match file() {
        Some(file) => holder_of(&file),
        None => holder_of_name(&abstract_name(what)),
    }
}

/// Who has a file locked, or open: a command inherits a lock without having taken it.
pub(crate) fn holder_of(file: &File) -> String {
    let Ok(about) = file.metadata() else { return named(&[]) };
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut pids = locked_by(&locks, about.dev(), about.ino());
    // Who took a lock may have ended; who inherited it has the file open.
    let same =
        |path: &Path| fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (about.dev(), about.ino()));
    pids.extend(open_in(same));
    named(&pids)
}

fn holder_of_name(name: &str) -> String {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let Some(inode) = socket_of(&sockets, name) else { return named(&[]) };
    let link = format!("socket:[{inode}]");
    named(&open_in(|path| fs::read_link(path).is_ok_and(|to| to.to_str() == Some(&link))))
}

/// Processes that `/proc/locks` names for a file.
pub fn locked_by(locks: &str, device: u64, inode: u64) -> Vec<u32> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == file)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    locks.lines().filter_map(line).collect()
}

/// The inode of the socket that has an abstract name, from `/proc/net/unix`.
pub fn socket_of(sockets: &str, name: &str) -> Option<u64> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.last()?.strip_prefix('@')? == name).then(|| words.get(words.len().checked_sub(2)?)?.parse().ok())?
    };
    sockets.lines().find_map(line)
}

/// Processes with an open file of which `is_it` holds.
fn open_in(is_it: impl Fn(&Path) -> bool) -> Vec<u32> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let mut pids = proc::processes();
    pids.retain(|pid| entries(Path::new(&format!("/proc/{pid}/fd"))).any(|entry| is_it(&entry.path())));
    pids
}

fn named(pids: &[u32]) -> String {
    let me = std::process::id();
    let mut pids: Vec<u32> = pids.iter().copied().filter(|pid| *pid != me).collect();
    pids.sort_unstable();
    pids.dedup();
    let named = pids.iter().filter_map(|pid| {
        let name = Task::Process(*pid).name().ok()?;
        Some(format!("process {pid} ({name})"))
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() { "a process that cannot be seen from here".to_owned() } else { named.join(", ") }
}
