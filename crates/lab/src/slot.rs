// SPDX-License-Identifier: MIT OR Apache-2.0
//! What only one run at a time may have on this machine, whatever its state folder: a slot's
//! number, a network device. Root holds it by a lock on a file in a folder of root's own, which
//! nobody else can touch. A user who cannot write there holds an abstract socket name instead. The
//! holder of such a name never blocks root.
//!
//! A slot is the number that a run holds as long as it lives, its folder with lock and journal, and
//! who holds the others.

use crate::host::Away;
use crate::journal::{self, Journal, JournalError};
use crate::names::{NETNS, Names, SLOTS};
use crate::process::Identity;
use crate::state::{Folder, StateError};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tardy_sys::proc::{self, Task};
use thiserror::Error;

/// A number that is this process's own until it ends.
#[derive(Clone, Debug)]
pub struct Slot {
    hold: Arc<Hold>,
    names: Names,
}

/// The run could not get a number.
#[derive(Debug, Error)]
pub enum ClaimError {
    #[error("cannot claim a slot: {0}")]
    State(#[from] StateError),
    /// So says another host.
    #[error(transparent)]
    Away(#[from] Away),
    /// Somebody works on changes that were to stay.
    #[error("slot {number}, which has earlier changes, is held by {holder}: wait for the end of that")]
    Busy { number: u16, holder: String },
    #[error(
        "all {SLOTS} slots in {} are taken by other runs or by what killed ones left (slot 0: {holder}): run `tardy undo`",
        path.display()
    )]
    Full {
        path: PathBuf,
        /// Who has the first one.
        holder: String,
    },
}

impl Slot {
    /// Takes the first free number: one that no process holds, for which no journal is left, and
    /// of whose names none is in use.
    ///
    /// # Errors
    /// If the state folder cannot be written or is not this user's, or no number is free.
    pub fn claim(state: &Path) -> Result<Slot, ClaimError> {
        let slots = Folder::make_state(state)?;
        let removed = || StateError::Io { path: state.join(SLOTS_FOLDER), source: io::ErrorKind::NotFound.into() };
        let slots = Arc::new(slots.make_folder(SLOTS_FOLDER)?.ok_or_else(removed)?);
        let mut holder = None;
        for (number, names) in (0..SLOTS).filter_map(|number| Some((number, Names::of(number)?))) {
            let hold = match Hold::take(&slots, number)? {
                Take::Got(hold) => hold,
                Take::Busy(busy) => {
                    holder.get_or_insert_with(|| busy.holder());
                    continue;
                }
            };
            if hold.is_leftover() || names_in_use(number) {
                holder.get_or_insert_with(|| "a killed run".to_owned());
                continue;
            }
            hold.sign().map_err(|source| StateError::Io { path: hold.dir.path().to_owned(), source })?;
            return Ok(Slot { hold: Arc::new(hold), names });
        }
        Err(ClaimError::Full { path: state.to_owned(), holder: holder.unwrap_or_default() })
    }

    /// Takes the slot in which changes are noted that were to outlive their process; `None` if
    /// there is none.
    ///
    /// # Errors
    /// If the state folder cannot be read or is not this user's, or somebody has the slot.
    pub(crate) fn kept(state: &Path) -> Result<Option<Slot>, ClaimError> {
        let Some(slots) = slots(state)?.map(Arc::new) else { return Ok(None) };
        let is_kept = |number: &u16| {
            let dir = slots.folder(&number.to_string()).ok().flatten();
            let contents = dir.and_then(|dir| journal::read_in(&dir).ok()).unwrap_or_default();
            contents.keeper.is_some() && !contents.is_empty()
        };
        let Some(number) = numbers(&slots)?.into_iter().find(is_kept) else { return Ok(None) };
        let hold = match Hold::take(&slots, number)? {
            Take::Got(hold) => hold,
            Take::Busy(busy) => return Err(ClaimError::Busy { number, holder: busy.holder() }),
        };
        let Some(names) = Names::of(number) else { return Ok(None) };
        hold.sign().map_err(|source| StateError::Io { path: hold.dir.path().to_owned(), source })?;
        Ok(Some(Slot { hold: Arc::new(hold), names }))
    }

    pub fn number(&self) -> u16 {
        self.hold.number
    }

    pub fn names(&self) -> Names {
        self.names
    }

    /// Its journal, which keeps the slot claimed as long as it is open.
    ///
    /// # Errors
    /// If the journal cannot be read or written.
    pub fn journal(&self) -> Result<Journal, JournalError> {
        Journal::open(&self.hold.dir, self.hold.clone())
    }

    pub(crate) fn lock(&self) -> io::Result<File> {
        self.hold.lock.try_clone()
    }
}

/// The folder of the slots, in the state folder.
const SLOTS_FOLDER: &str = "slots";
const LOCK: &str = "lock";

/// The folder of the slots; `None` if there is none.
pub(crate) fn slots(state: &Path) -> Result<Option<Folder>, StateError> {
    Folder::state(state)?.map_or(Ok(None), |state| state.folder(SLOTS_FOLDER))
}

/// The same whoever it belongs to, to show what it holds.
pub(crate) fn slots_to_look_at(state: &Path) -> Option<Folder> {
    Folder::to_look_at(state)?.folder(SLOTS_FOLDER).ok()?
}

/// Numbers that have a folder, ascending.
pub(crate) fn numbers(slots: &Folder) -> Result<Vec<u16>, StateError> {
    let names = slots.names()?;
    let mut numbers: Vec<u16> = names.iter().filter_map(|name| name.parse().ok()).filter(|n| *n < SLOTS).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Other processes that hold a slot now. 0 where the state folder cannot be read: whoever cannot
/// look there cannot run.
pub fn other_runs(state: &Path) -> u32 {
    let me = std::process::id();
    let Ok(Some(slots)) = slots(state) else { return 0 };
    let is_another = |number: &u16| {
        let Ok(Some(dir)) = slots.folder(&number.to_string()) else { return false };
        is_live(&dir) && owner(&dir).is_none_or(|owner| owner.pid != me)
    };
    numbers(&slots).unwrap_or_default().iter().filter(|number| is_another(number)).count() as u32
}

/// True if a living process has the slot's lock: one that outlives its owner is a last command's,
/// just ending. Asks with a shared lock, so that two who only look do not see each other.
pub(crate) fn is_live(dir: &Folder) -> bool {
    let lock = dir.read(LOCK).ok().flatten();
    lock.is_some_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
        && owner(dir).is_none_or(|owner| owner.is_alive())
}

/// Who wrote itself into the lock file.
pub(crate) fn owner(dir: &Folder) -> Option<Identity> {
    let mut text = String::new();
    dir.read(LOCK).ok()??.take(LONGEST_LOCK).read_to_string(&mut text).ok()?;
    serde_json::from_str(text.lines().next()?).ok()
}

/// The content of a lock file is shorter than this, in bytes.
const LONGEST_LOCK: u64 = 4096;

fn names_in_use(number: u16) -> bool {
    let prefix = format!("tardy-{number}-");
    std::fs::read_dir(NETNS).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)))
    })
}

/// A held slot. Letting go of it removes its folder, unless its journal still has something to
/// undo.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) number: u16,
    pub(crate) dir: Folder,
    slots: Arc<Folder>,
    lock: File,
    /// The number on this machine, so that runs with different state folders keep apart too. Like
    /// the lock it is free again when the process ends, however it ends.
    _held: Held,
}

/// What came of trying to hold a slot.
pub(crate) enum Take {
    /// It is this process's.
    Got(Hold),
    /// Another process has it.
    Busy(Busy),
}

/// What another process has of a slot.
pub(crate) enum Busy {
    /// Its number on this machine.
    Number(u16),
    /// The lock in its folder.
    Lock(File),
}

impl Busy {
    /// Who has it, as far as this process can see.
    pub fn holder(&self) -> String {
        match self {
            Busy::Number(number) => holder(&held_name(*number)),
            Busy::Lock(lock) => holder_of(lock),
        }
    }
}

fn held_name(number: u16) -> String {
    format!("slot-{number}")
}

impl Hold {
    pub(crate) fn take(slots: &Arc<Folder>, number: u16) -> Result<Take, StateError> {
        // Before there is a folder: a number that is taken elsewhere leaves none.
        let Some(held) = Held::take(&held_name(number))? else { return Ok(Take::Busy(Busy::Number(number))) };
        let name = number.to_string();
        loop {
            // Its last owner may remove the folder at any of these steps.
            let Some(dir) = slots.make_folder(&name)? else { continue };
            let Some(lock) = dir.append(LOCK)? else { continue };
            let failed = |source| StateError::Io { path: dir.path().join(LOCK), source };
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(Take::Busy(Busy::Lock(lock))),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // Between opening and locking the file may have been removed: then the lock is on
            // nothing.
            if dir.still_holds(LOCK, &lock).map_err(failed)? {
                let slots = Arc::clone(slots);
                return Ok(Take::Got(Hold { number, dir, slots, lock, _held: held }));
            }
        }
    }

    /// Writes this process into the lock file, so that a lock that outlives its owner (see
    /// `Processes::holding`) is known.
    fn sign(&self) -> io::Result<()> {
        let me = serde_json::to_string(&Identity::of(std::process::id())?)?;
        self.lock.set_len(0)?;
        (&self.lock).write_all(format!("{me}\n").as_bytes())
    }

    /// True if there is something to undo, or something that cannot be read.
    fn is_leftover(&self) -> bool {
        journal::read_in(&self.dir).map_or(true, |contents| !contents.is_empty())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_leftover() {
            // The journal first: a folder without one is free to take, whatever else is in it.
            // What cannot be removed is.
            let _ = self.dir.remove_file(journal::NAME);
            let _ = self.dir.remove_file(LOCK);
            let _ = self.slots.remove_folder(&self.number.to_string());
        }
    }
}

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
    let mut pids = proc::holders_of_lock(about.dev(), about.ino());
    // Who took a lock may have ended; who inherited it has the file open.
    let same =
        |path: &Path| fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (about.dev(), about.ino()));
    pids.extend(proc::with_open_file(same));
    named(&pids)
}

fn holder_of_name(name: &str) -> String {
    let Some(inode) = proc::abstract_socket(name) else { return named(&[]) };
    let link = format!("socket:[{inode}]");
    named(&proc::with_open_file(|path| fs::read_link(path).is_ok_and(|to| to.to_str() == Some(&link))))
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
