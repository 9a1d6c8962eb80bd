// SPDX-License-Identifier: MIT OR Apache-2.0
//! One number for each run of tardy on this machine, and every name and address that follows from it. Two runs hold two
//! numbers, so nothing that they make can clash.

use crate::journal::{self, Journal, JournalError};
use crate::process::Identity;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Where a run's slot lies if nothing else is said.
pub const STATE: &str = "/run/tardy";
/// Numbers there are.
pub const SLOTS: u16 = 4096;
/// Where iproute2 keeps its named namespaces.
const NETNS: &str = "/run/netns";

/// One of the two ends of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end of the station that comes first by name.
    First,
    /// The other.
    Second,
}

/// The names and addresses of one slot. Pure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    slot: u16,
}

impl Names {
    /// Those of slot 0: for showing what would be done.
    pub const FIRST: Names = Names { slot: 0 };

    /// Those of one slot; `None` from [`SLOTS`] on.
    pub fn of(slot: u16) -> Option<Names> {
        (slot < SLOTS).then_some(Names { slot })
    }

    /// The slot's number.
    pub fn slot(self) -> u16 {
        self.slot
    }

    /// The network namespace of a station.
    pub fn netns(self, station: &str) -> String {
        format!("tardy-{}-{station}", self.slot)
    }

    /// The name under which a run keeps the network namespace that its devices came from. No station is called so.
    pub fn home(self) -> String {
        format!("tardy-{}-_home", self.slot)
    }

    /// The link at one end: at most 15 characters (IFNAMSIZ − 1).
    pub fn link(self, side: Side) -> String {
        format!("tardy{}-{}", self.slot, side as u8)
    }

    /// The number of the simulated device at one end, on its bus. Others begin to count at 0 or 1.
    pub fn simulated(self, side: Side) -> u32 {
        0x7464_0000 + u32::from(self.slot) * 2 + side as u32
    }

    /// The address of one end, in a /30 of 198.18.0.0/15, which RFC 2544 sets aside for benchmarks. A slot owns 32
    /// addresses of the 2^17.
    pub fn address(self, side: Side) -> Ipv4Addr {
        let first = u32::from(Ipv4Addr::new(198, 18, 0, 0));
        Ipv4Addr::from(first + u32::from(self.slot) * 32 + 1 + side as u32)
    }

    /// The IPv6 address of one end, in a /64 of its own that is unique local (RFC 4193).
    pub fn address6(self, side: Side) -> Ipv6Addr {
        Ipv6Addr::new(0xfd74, 0x6172, 0x6479, self.slot, 0, 0, 0, 1 + side as u16)
    }

    /// The VLAN device at one end: at most 15 characters.
    pub fn vlan(self, side: Side, vlan: u16) -> String {
        format!("tdy{}-{}.{vlan}", self.slot, side as u8)
    }

    /// The address of one end in the `n`th VLAN, from 0 to 6: a /30 of the slot's own, behind the path's.
    pub fn vlan_address(self, side: Side, n: u8) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.address(side)) + 4 * (u32::from(n) + 1))
    }

    /// The IPv6 address of one end in a VLAN, in a /80 within the path's /64.
    pub fn vlan_address6(self, side: Side, vlan: u16) -> Ipv6Addr {
        let [a, b, c, d, _, _, _, last] = self.address6(side).segments();
        // VLAN 0 must not have the path's own.
        Ipv6Addr::new(a, b, c, d, vlan + 1, 0, 0, last)
    }

    /// The prefix length that belongs to [`Names::vlan_address6`].
    pub const VLAN_PREFIX6: u8 = 80;

    /// The prefix length that belongs to [`Names::address6`].
    pub const PREFIX6: u8 = 64;

    /// The prefix length that belongs to [`Names::address`].
    pub const PREFIX: u8 = 30;

    /// The MAC address of one end: unicast and locally administered (second-lowest bit of the first byte, IEEE 802).
    pub fn mac(self, side: Side) -> String {
        let [high, low] = self.slot.to_be_bytes();
        format!("02:74:64:{high:02x}:{low:02x}:{:02x}", side as u8)
    }
}

/// A number that is this process's own until it ends.
#[derive(Clone, Debug)]
pub struct Slot {
    hold: Arc<Hold>,
}

/// A number could not be had.
#[derive(Debug, Error)]
pub enum ClaimError {
    /// The state folder.
    #[error("cannot claim a slot in {}: {source}{}", path.display(), needs_root(source))]
    State {
        /// What was tried.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// All are taken.
    #[error("all {SLOTS} slots in {} are taken by other runs or by what killed ones left: run `tardy undo`", path.display())]
    Full {
        /// The state folder.
        path: PathBuf,
    },
}

fn needs_root(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => ": needs root, or a folder of your own in TARDY_STATE",
        _ => "",
    }
}

impl Slot {
    /// Takes the first free number: one that no process holds, for which no journal is left, and of whose names none is
    /// in use.
    ///
    /// # Errors
    /// If the state folder cannot be written, or no number is free.
    pub fn claim(state: &Path) -> Result<Slot, ClaimError> {
        let slots = slots(state);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ClaimError::State { path, source }
        };
        fs::create_dir_all(&slots).map_err(failed(&slots))?;
        for number in 0..SLOTS {
            let Some(hold) = Hold::take(&slots, number).map_err(failed(&slots))? else { continue };
            if hold.is_leftover() || names_in_use(number) {
                continue;
            }
            hold.sign().map_err(failed(&hold.dir))?;
            return Ok(Slot { hold: Arc::new(hold) });
        }
        Err(ClaimError::Full { path: state.to_owned() })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.hold.number
    }

    /// Its names.
    pub fn names(&self) -> Names {
        Names { slot: self.hold.number }
    }

    /// Its journal, which keeps the slot claimed as long as it is open.
    ///
    /// # Errors
    /// If the journal cannot be read or written.
    pub fn journal(&self) -> Result<Journal, JournalError> {
        Journal::open(Arc::clone(&self.hold))
    }

    pub(crate) fn lock(&self) -> io::Result<File> {
        self.hold.lock.try_clone()
    }
}

/// The folder of the slots.
pub(crate) fn slots(state: &Path) -> PathBuf {
    state.join("slots")
}

/// Numbers that have a folder, ascending.
pub(crate) fn numbers(state: &Path) -> io::Result<Vec<u16>> {
    let entries = match fs::read_dir(slots(state)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u16>().ok()).filter(|n| *n < SLOTS));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Other processes that hold a slot now. 0 where the state folder cannot be read: whoever cannot look there cannot run.
pub fn other_runs(state: &Path) -> u32 {
    let me = std::process::id();
    let is_another = |number: &u16| {
        let dir = slots(state).join(number.to_string());
        is_live(&dir) && owner(&dir).is_none_or(|owner| owner.pid != me)
    };
    numbers(state).unwrap_or_default().iter().filter(|number| is_another(number)).count() as u32
}

/// True if a living process has the slot's lock: one that outlives its owner is a last command's, just ending. Asks with a
/// shared lock, so that two who only look do not see each other.
pub(crate) fn is_live(dir: &Path) -> bool {
    File::open(dir.join("lock")).is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
        && owner(dir).is_none_or(|owner| owner.is_alive())
}

/// Who wrote itself into the lock file.
pub(crate) fn owner(dir: &Path) -> Option<Identity> {
    serde_json::from_str(fs::read_to_string(dir.join("lock")).ok()?.lines().next()?).ok()
}

fn names_in_use(number: u16) -> bool {
    let prefix = format!("tardy-{number}-");
    fs::read_dir(NETNS).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)))
    })
}

/// A held slot. Letting go of it removes its folder, unless its journal still has something to undo.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) number: u16,
    pub(crate) dir: PathBuf,
    lock: File,
    /// The number's name in the machine, so that runs with different state folders keep apart too. Like the lock it goes
    /// when the process ends, however it ends.
    _name: UnixListener,
}

impl Hold {
    /// `None` if another process has it.
    pub(crate) fn take(slots: &Path, number: u16) -> io::Result<Option<Hold>> {
        // Before there is a folder: a number that is taken elsewhere leaves none.
        let name = match UnixListener::bind_addr(&SocketAddr::from_abstract_name(format!("tardy-slot-{number}"))?) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(None),
            other => other?,
        };
        let dir = slots.join(number.to_string());
        let path = dir.join("lock");
        let lock = loop {
            match fs::create_dir(&dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let lock = match File::options().read(true).append(true).create(true).open(&path) {
                // Its last owner removed the folder just now.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Between opening and locking the file may have been removed: then the lock is on nothing.
            let mine = lock.metadata()?;
            match fs::metadata(&path) {
                Ok(there) if (there.dev(), there.ino()) == (mine.dev(), mine.ino()) => break lock,
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => continue,
            }
        };
        Ok(Some(Hold { number, dir, lock, _name: name }))
    }

    /// Writes this process into the lock file, so that a lock that outlives its owner (see `Processes::holding`) is known.
    fn sign(&self) -> io::Result<()> {
        let me = serde_json::to_string(&Identity::of(std::process::id())?)?;
        self.lock.set_len(0)?;
        (&self.lock).write_all(format!("{me}\n").as_bytes())
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        self.dir.join("journal.jsonl")
    }

    /// True if there is something to undo, or something that cannot be read.
    fn is_leftover(&self) -> bool {
        journal::read(&self.journal_path()).map_or(true, |contents| !contents.is_empty())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_leftover() {
            // The journal first: a folder without one is free to take, whatever else is in it. What cannot be removed is.
            let _ = fs::remove_file(self.journal_path());
            let _ = fs::remove_file(self.dir.join("lock"));
            let _ = fs::remove_dir(&self.dir);
        }
    }
}
